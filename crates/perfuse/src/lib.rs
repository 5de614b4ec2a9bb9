//! Linux perf_events for Rust programs.
#![deny(unsafe_code)]

pub use perfuse_abi as abi;

pub mod diagnosis;
mod error;
pub mod facts;

pub use error::{Call, Error, Result, Subject};
