//! Facts of `/proc` about processes: [memory maps](Map), [states](Stat), [names, users and signals](Status), threads.
//!
//! Two halves. The types take texts apart that somebody has read: they borrow them, allocate nothing, and answer `None` to what
//! no kernel writes; [`MapText`] alone has a text of its own. [`read`] has the files. Files about the machine as a whole (`/proc/cpuinfo`, `/proc/kallsyms`) are read elsewhere.

#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod map;
pub mod read;
mod stat;
mod status;

pub use map::{Map, MapText, maps};
pub use stat::Stat;
pub use status::Status;
