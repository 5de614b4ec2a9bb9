//! Reports as text for programs, in the forms that they know: perf's text ([`classic`]), its separated fields ([`csv`]) and
//! its JSON ([`jsonl`]), byte for byte; and one of ours that leaves nothing out ([`json`], schema `perfuse.stat/1`).
//!
//! ```
//! use perfuse_stat::{Report, format};
//!
//! fn table(report: &Report) -> String {
//!     format::csv::format(report, ";", report.is_repeated())
//! }
//! ```

pub mod classic;
mod compat;
pub mod csv;
pub mod json;
pub mod jsonl;
