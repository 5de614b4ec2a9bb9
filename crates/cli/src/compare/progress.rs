//! A line on standard error that tells how far the rounds are and what they still wait for, when somebody is there to see it.

use super::text;
use crate::term::{self, out};
use perfuse_stat::compare::State;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// The time between two changes of the line.
const STEP: Duration = Duration::from_millis(150);

/// The line.
#[derive(Debug)]
pub(super) struct Progress {
    on: bool,
    next: Instant,
    shown: bool,
}

impl Progress {
    pub(super) fn new(quiet: bool) -> Self {
        let on = !quiet && std::io::stderr().is_terminal();
        Progress { on, next: Instant::now() + STEP, shown: false }
    }
}

impl perfuse_stat::compare::Progress for Progress {
    /// It is time to show something new.
    fn is_due(&self) -> bool {
        self.on && Instant::now() >= self.next
    }

    fn show(&mut self, state: &State<'_>) {
        if !self.is_due() {
            return;
        }
        self.next = Instant::now() + STEP;
        self.shown = true;
        out::progress(&text::so_far(state, term::columns(std::io::stderr())));
    }

    /// Takes the line away.
    fn finish(&mut self) {
        if self.shown {
            out::progress_ends();
        }
    }
}
