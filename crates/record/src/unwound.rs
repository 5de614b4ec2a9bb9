//! Recordings whose stacks are unwound on their way from the rings: the attrs that their files tell, and the part of a session
//! that unwinds.

use crate::opening::Opened;
use crate::plan::Plan;
use crate::sink::Sink;
use crate::terms;
use perfuse::abi::Attr;
use perfuse_data::tool::Tool;
use perfuse_unwind::{Recording, Sums, Unwinder};
use std::io;

/// The attr of an event, as the recording tells it.
pub(crate) fn attr(plan: &Plan, opened: &Opened, index: usize) -> Option<Attr> {
    let attr = opened.set.attr(index)?;
    let is_unwound = match opened.requests.get(index) {
        Some(request) => terms::is_unwound(plan, &request.spec),
        // That which tells about tasks has the fields of the others.
        None => terms::any_unwound(plan),
    };
    Some(if is_unwound { Recording::attr(attr, plan.fields.user_regs != 0) } else { *attr })
}

/// Unwinds what comes out of the rings.
pub(crate) struct Unwinding {
    pub(crate) recording: Recording,
    /// Records with whole callchains, on their way.
    unwound: Vec<u8>,
}

impl Unwinding {
    /// If the plan has something to unwind.
    pub(crate) fn of(plan: &Plan, opened: &Opened) -> Option<Self> {
        if !terms::any_unwound(plan) {
            return None;
        }
        let mut recording = Recording::new(Unwinder::of_running());
        for index in 0..opened.names.len() {
            let ids = opened.set.sources().iter().filter(|source| source.event == index);
            if let (Some(comes), Some(goes)) = (opened.set.attr(index), attr(plan, opened, index)) {
                recording.add(ids.map(|source| source.id), comes, &goes);
            }
        }
        Some(Unwinding { recording, unwound: Vec::new() })
    }

    /// All rings have been read: hands on what is due.
    pub(crate) fn round(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        self.recording.round(&mut self.unwound);
        self.hand_on(sink)
    }

    /// Hands on all that waits.
    pub(crate) fn finish(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        if !self.recording.is_waiting() {
            return Ok(());
        }
        self.recording.finish(&mut self.unwound);
        self.hand_on(sink)?;
        sink.tool(Tool::FinishedRound.into())
    }

    fn hand_on(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        let written = if self.unwound.is_empty() { Ok(()) } else { sink.records(&[&self.unwound]) };
        self.unwound.clear();
        written
    }

    /// Bytes that are copied of each stack, of the event with the fewest.
    pub(crate) fn copied(opened: &Opened) -> u32 {
        let attrs = (0..opened.names.len()).filter_map(|index| opened.set.attr(index));
        attrs.map(|attr| attr.sample_stack_user).filter(|&bytes| bytes > 0).min().unwrap_or(0)
    }

    /// How stacks ended.
    pub(crate) fn sums(&self) -> Sums {
        self.recording.sums()
    }
}

/// Hands on records from a ring, or has them wait for being unwound.
pub(crate) fn hand_on(
    unwinding: &mut Option<Unwinding>,
    sink: &mut dyn Sink,
    [first, second]: [&[u8]; 2],
) -> io::Result<()> {
    match unwinding {
        Some(unwinding) => {
            unwinding.recording.take(first, second);
            Ok(())
        }
        None => sink.records(&[first, second]),
    }
}
