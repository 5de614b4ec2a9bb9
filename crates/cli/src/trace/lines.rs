//! Where lines go.

use super::Args;
use crate::exit::Result;
use crate::recording::symbols;
use crate::term::out;
use perfuse_data::replay::Told;
use perfuse_export::script::{CallLines, CallLinesOptions, Stamp};
use perfuse_profile::Lookup;
use std::io::Write as _;

/// So many bytes of lines wait for each other.
const WAITING: usize = 1 << 14;

/// Writes lines.
pub(super) struct Lines {
    lines: CallLines,
    to_stderr: bool,
    /// Nobody reads the lines any more.
    is_unread: bool,
}

impl Lines {
    pub(super) fn new(args: &Args, to_stderr: bool, stamp: Option<Stamp>, machine: &str) -> Self {
        let options = CallLinesOptions {
            json: args.json,
            tells_duration: args.tells_duration,
            stamp,
            tells_cpu: args.show_cpu,
            tells_number: args.numbers,
            names_threads: args.comm || args.command.is_empty() || args.is_of_cpus(),
            has_stacks: args.has_stacks(),
            max_stack: args.max_stack,
            machine: machine.to_owned(),
        };
        let lookup = Lookup::new(symbols(false).with_debug_info(false, false), true);
        Lines { lines: CallLines::new(lookup, options), to_stderr, is_unread: false }
    }

    pub(super) fn tell(&mut self, told: &Told<'_>) -> Result<()> {
        self.lines.tell(told);
        self.flush(WAITING)
    }

    /// Writes what waits, if it is so much. Where nobody reads the lines of a command any more, it goes on all the same.
    pub(super) fn flush(&mut self, least: usize) -> Result<()> {
        let text = self.lines.take(least);
        if self.is_unread || text.is_empty() {
            return Ok(());
        }
        if !self.to_stderr {
            return Ok(out::print(text.as_bytes())?);
        }
        self.is_unread = out::stderr().write_all(text.as_bytes()).is_err();
        Ok(())
    }
}
