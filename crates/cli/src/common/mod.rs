//! Things that several subcommands share: commands that are measured while they run, when measuring starts, and
//! orders from other programs.

pub(crate) mod cpus;
pub(crate) mod events;
pub(crate) mod kernel;
pub(crate) mod log;
pub(crate) mod pages;
pub(crate) mod processes;
pub(crate) mod style;
pub(crate) mod tables;
pub(crate) mod unsupported;

use std::io::IsTerminal;

/// Columns of a table that goes to a file or a pipe.
pub(crate) const WHOLE: usize = 110;

/// The columns that standard output has: of a terminal, or as `COLUMNS` says. Files and pipes take a whole table.
pub(crate) fn columns() -> usize {
    match std::io::stdout().is_terminal() || std::env::var_os("COLUMNS").is_some() {
        true => crate::term::columns(std::io::stdout()),
        false => WHOLE,
    }
}
