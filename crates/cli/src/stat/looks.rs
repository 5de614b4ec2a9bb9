//! How counts look to people, in all tables.

use crate::common::style;
use crate::term::glyphs::Glyphs;
use anstyle::{AnsiColor, Style};
use std::io;

pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const WARN: Style = AnsiColor::Yellow.on_default();

/// Fewer columns are not asked for.
const LEAST: usize = 40;
/// More columns stay empty.
pub(super) const MOST: usize = 80;

/// How to write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) glyphs: &'static Glyphs,
    /// The columns that sentences fill.
    pub(super) columns: usize,
    /// Whole numbers in place of four digits.
    pub(super) exact: bool,
    /// The table and nothing else.
    pub(super) quiet: bool,
    /// Metrics and no events.
    pub(super) metrics_alone: bool,
    /// The time of each run.
    pub(super) with_runs: bool,
    /// Say what to do next.
    pub(super) hints: bool,
}

/// The columns of reports: no more than make sentences easy to read, and as many as the terminal has.
pub(super) fn columns() -> usize {
    style::columns(io::stderr()).clamp(LEAST, MOST)
}
