//! System calls of a replay: entries and exits of `raw_syscalls`, joined.

use super::Step;
use crate::Event;
use perfuse_abi::EventType;
use perfuse_abi::record::{Record, Sample};
use perfuse_trace::{Call, Joiner, Moment, RawCall, RawCalls};

/// What a step tells those who ask for calls.
#[derive(Clone, Copy, Debug)]
pub enum Heard<'a> {
    /// A thread has entered a call: that is all, until it returns.
    Entered(&'a Moment, u64, &'a [u64; 6]),
    /// A call has returned, or never will.
    Call(&'a Call),
    /// A sample of another event.
    Sample(&'a Event, &'a Sample<'a>),
}

/// Joins the calls of a replay.
#[derive(Debug, Default)]
pub struct CallReplay {
    /// By event.
    kinds: Vec<Option<RawCalls>>,
    joiner: Joiner,
}

impl CallReplay {
    /// Takes a step, and hands over what it tells.
    pub fn step(&mut self, step: &Step<'_>, visit: &mut dyn FnMut(Heard<'_>)) {
        let Some(decoded) = step.decoded else { return };
        let sample = match &decoded.record {
            Record::Sample(sample) => sample,
            Record::Exit(task) => {
                return self.joiner.ended(task.tid).iter().for_each(|call| visit(Heard::Call(call)));
            }
            _ => return,
        };
        let Some((index, event)) = step.entry.event_index().zip(step.entry.event()) else { return };
        if index >= self.kinds.len() {
            self.learn(step);
        }
        let raw = sample.raw.as_ref().map_or(&[][..], |raw| raw.as_bytes());
        let told = self.kinds.get(index).and_then(Option::as_ref);
        let told = match told.map(|kind| kind.read(raw, event.format.order)) {
            None => return visit(Heard::Sample(event, sample)),
            Some(told) => told,
        };
        let tid = sample.tid.unwrap_or_default();
        let (time, cpu) = (sample.time.unwrap_or(0), sample.cpu.map(|cpu| cpu.cpu));
        let at = Moment { time, pid: tid.pid, tid: tid.tid, cpu };
        match told {
            Some(RawCall::Entry(number, arguments)) => {
                self.joiner.enter(at, number, arguments).iter().for_each(|call| visit(Heard::Call(call)));
                visit(Heard::Entered(&at, number, &arguments));
            }
            Some(RawCall::Exit(number, returned)) => {
                self.joiner.exit(at, number, returned).iter().for_each(|call| visit(Heard::Call(call)));
            }
            None => {}
        }
    }

    fn learn(&mut self, step: &Step<'_>) {
        let kind = |event: &Event| {
            let (name, format) = step.formats.get(event.attr.config)?;
            RawCalls::of(name, format).filter(|_| event.attr.type_ == EventType::TRACEPOINT)
        };
        self.kinds = step.entry.events().iter().map(kind).collect();
    }

    /// The calls that never returned, when all is read.
    pub fn rest(&mut self) -> Vec<Call> {
        self.joiner.rest()
    }

    /// Exits without an entry, and entries without an exit: threads that are born, losses.
    pub fn unmatched(&self) -> (u64, u64) {
        self.joiner.unmatched()
    }
}
