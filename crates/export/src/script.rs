//! Samples as lines, as `perf script` prints them, or as objects of JSON, a line each.
//!
//! System calls are lines as strace has them ([`CallLines`]).
//!
//! [`Lines`] collects them: bring each [`Sample`] as a replay hands it over, and take the text when it is much. Names come from strangers;
//! what a terminal would obey in them is escaped.

mod blocks;
mod calls;
mod counts;
mod extras;
mod json;
mod line;
mod perf_json;
mod places;
mod sources;

pub use calls::{CallLines, CallLinesOptions, Stamp};
pub use line::{Clock, Lines, LinesOptions, TimeOfDay};
pub use perf_json::PerfJson;
use perfuse_abi::record;
use perfuse_data::Event;
use perfuse_data::describe::Fields;
use perfuse_data::replay::Formats;
use perfuse_data::session::Session;

/// A sample with all that its line is made of.
#[derive(Clone, Copy)]
pub struct Sample<'a> {
    /// The event it is one of; of a group, each member has a line.
    pub event: &'a Event,
    /// The parts to print of it.
    pub fields: &'a Fields,
    /// The events it stands for.
    pub period: u64,
    /// The record.
    pub decoded: &'a record::Decoded<'a>,
    /// The same, as a sample.
    pub sample: &'a record::Sample<'a>,
    /// The processes as they were then.
    pub session: &'a Session,
    /// The formats of tracepoints.
    pub formats: &'a Formats,
}

/// The first instruction of code for a machine (a number of the `EM_*` family) at an address: its bytes, its text, and whether it always
/// jumps, calls or returns, so that the one behind it does not run next; `None` of bytes that are none.
pub type Decode = fn(&[u8], u16, u64) -> Option<(usize, String, Option<bool>)>;
