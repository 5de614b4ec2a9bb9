//! How counts look to people, in all tables.

use crate::term::glyphs::Glyphs;
use anstyle::{AnsiColor, Style};

pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const WARN: Style = AnsiColor::Yellow.on_default();

/// How to write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) glyphs: &'static Glyphs,
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
