//! News of a recording while it is made.

use crate::{Plan, Remark, StackSums, Written};
use std::ops::ControlFlow;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// Hears of a recording while it is made. All of it is optional; `()` hears nothing.
pub trait Observer {
    /// It begins: events are open, and the command, if there is one, waits to be executed as this process.
    fn begins(&mut self, plan: &Plan, command: Option<u32>) {
        let _ = (plan, command);
    }

    /// Something that matters to what is recorded.
    fn remark(&mut self, remark: &Remark) {
        let _ = remark;
    }

    /// How an event was opened.
    fn detail(&mut self, text: &str) {
        let _ = text;
    }

    /// So much was recorded until now; asked some ten times a second. `Break` ends the recording, and the command.
    fn progress(&mut self, sums: Sums) -> ControlFlow<()> {
        let _ = sums;
        ControlFlow::Continue(())
    }

    /// When [`progress`](Self::progress) is to be asked next at the latest.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// It is over.
    fn ends(&mut self, end: &Ended) {
        let _ = end;
    }

    /// A part of the recording is complete: a file, or all of a stream.
    fn wrote(&mut self, written: &Written) {
        let _ = written;
    }
}

impl Observer for () {}

/// The sums of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sums {
    /// Samples.
    pub samples: u64,
    /// Bytes that were written.
    pub bytes: u64,
    /// Records that were lost.
    pub lost: u64,
}

/// How a recording ended.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Ended {
    /// How the command ended, if there was one and it has.
    pub status: Option<ExitStatus>,
    /// The recording ended the command.
    pub stopped: bool,
    /// The sums of all its records.
    pub sums: Sums,
    /// How many events were sampled.
    pub events: usize,
    /// How long it took.
    pub elapsed: Duration,
    /// How stacks ended that were unwound, if that was asked for.
    pub stacks: Option<StackSums>,
}
