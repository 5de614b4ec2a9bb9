//! Linux perf_events for Rust programs.
#![deny(unsafe_code)]

pub use perfuse_abi as abi;
