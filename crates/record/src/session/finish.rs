//! How a recording ends: what events counted and lost, remarks about that, and files completed, also after
//! something went wrong.

use super::Session;
use crate::plan::Target;
use crate::{Ended, Error, Remark, Sums, sections};
use perfuse::RunningCommand;
use perfuse::abi::record::{Decoded, Record, RecordFormat, SampleId, Tid};
use perfuse::abi::{Attr, AttrFlags, ByteOrder, EventType, Software};
use std::process::ExitStatus;
use std::time::Duration;

/// What the events say at the end.
struct Counted {
    lost: u64,
    /// How many samples that much time should have given, if all events are clocks.
    expected: Option<f64>,
    /// The time of the clocks.
    time: Duration,
    /// The time that the clocks leave out, in words.
    left_out: Option<&'static str>,
}

impl Session<'_> {
    /// Completes the current file; another one may follow. Afterwards there is only its name.
    pub(crate) fn complete(&mut self, others_follow: bool) -> Result<(), Error> {
        if self.plan.tail_synthesize {
            let pid = self.child.as_ref().map(RunningCommand::pid);
            self.synthesize(pid, false).map_err(|error| self.sink.fail(error))?;
        }
        let compressed = self.sink.compressed();
        let ids = match self.plan.build_ids {
            true => sections::build_ids(&self.tally, self.opened.has_kernel()),
            false => Vec::new(),
        };
        let machine = self.machine.done();
        let mut features = self.facts.features(self.plan, &self.opened, machine, compressed);
        features.extend(sections::programs(&self.programs));
        features.extend(sections::last(&self.tally, &ids));
        let entries: Vec<_> = ids.iter().map(sections::Identified::entry).collect();
        let written = self.sink.complete(features, &entries, others_follow)?;
        self.observer.wrote(&written);
        Ok(())
    }

    /// The recording is over.
    pub(crate) fn end(mut self, status: Option<ExitStatus>) -> Result<Ended, Error> {
        self.opened.set.disable()?;
        // Once more after everything is off.
        self.drain()?;
        self.drain()?;
        self.snapshot()?;
        let counted = self.counted()?;
        let mut sums = self.sums();
        sums.lost = sums.lost.max(counted.lost) + self.tally.lost_samples;
        let (stopped, events, elapsed) = (self.ended_by_us, self.opened.requests.len(), self.began.elapsed());
        let ended = Ended { status, stopped, sums, events, elapsed };
        self.observer.ends(&ended);
        self.complete(false)?;
        let mut remarks = Vec::new();
        if sums.lost > 0 {
            remarks.push(Remark::Lost { records: sums.lost, ring: self.opened.set.ring_bytes() });
        }
        remarks.extend(self.unseen(sums, &counted));
        if self.tally.throttled > 0 {
            remarks.push(Remark::Throttled(self.tally.throttled));
        }
        if self.tally.corrupt > 0 {
            remarks.push(Remark::Corrupt(self.tally.corrupt));
        }
        remarks.iter().for_each(|remark| self.observer.remark(remark));
        Ok(ended)
    }

    /// What the events counted. Samples they lost are written as records, as perf does.
    fn counted(&mut self) -> Result<Counted, Error> {
        let mut counted = Counted { lost: 0, expected: Some(0.0), time: Duration::ZERO, left_out: None };
        let mut records = Vec::new();
        for source in self.opened.set.sources() {
            // What cannot be read has nothing to tell.
            let Ok(count) = source.counter().read() else { continue };
            let lost = count.lost.unwrap_or(0);
            if lost > 0 {
                counted.lost += lost;
                records.push((source.event, source.id, source.cpu, lost));
            }
            let attr = self.opened.set.attr(source.event);
            if source.event < self.opened.requests.len() && attr.is_some_and(is_sampled) {
                let samples = attr.and_then(period_ns).map(|ns| count.value as f64 / ns);
                counted.expected = counted.expected.zip(samples).map(|(sum, samples)| sum + samples);
                counted.time += Duration::from_nanos(count.value);
                counted.left_out = counted.left_out.or(attr.and_then(left_out));
            }
        }
        for (event, id, cpu, lost) in records {
            let Some(attr) = self.opened.set.attr(event) else { continue };
            let format = RecordFormat::of(attr, ByteOrder::NATIVE);
            let sample_id = SampleId {
                tid: Some(Tid { pid: 0, tid: 0 }),
                time: Some(0),
                id: Some(id),
                stream_id: Some(id),
                cpu: Some(cpu.unwrap_or(u32::MAX).into()),
                identifier: Some(id),
            };
            let record = Decoded { sample_id, ..Decoded::from(Record::LostSamples(lost)) };
            let written = self.sink.record(&record, &format);
            written.map_err(|error| self.sink.fail(error))?;
        }
        Ok(counted)
    }

    /// Clocks start anew in each process and thread that inherits them, so one that ends before the first
    /// period is over is never sampled; and a clock that leaves out the kernel goes on there. Where that took
    /// much of the time it has to be said.
    fn unseen(&self, sums: Sums, counted: &Counted) -> Option<Remark> {
        /// Fewer may be missing by chance.
        const ENOUGH: f64 = 50.0;
        let inherits = self.plan.inherit && !matches!(self.plan.target, Target::Cpus(_));
        let expected =
            counted.expected.filter(|_| inherits && self.tally.throttled == 0 && !self.plan.overwrite)?;
        let found = (sums.samples + sums.lost) as f64;
        let missing = expected - found;
        let none = found == 0.0 && expected > 0.0;
        if !(none || missing > ENOUGH && missing > 0.1 * expected) {
            return None;
        }
        let short = (expected < 1.0).then_some(counted.time);
        Some(Remark::Unseen { percent: 100.0 * missing / expected, left_out: counted.left_out, short })
    }
}

/// Whether it takes samples; members of a group that is read with its leader's (modifier S) take none.
fn is_sampled(attr: &Attr) -> bool {
    attr.sample_freq().is_some() || attr.period().is_some_and(|period| period > 0)
}

/// The time that a clock which goes on there does not sample.
fn left_out(attr: &Attr) -> Option<&'static str> {
    if attr.flags.contains(AttrFlags::EXCLUDE_KERNEL) {
        Some("what runs in the kernel is left out (:u)")
    } else if attr.flags.contains(AttrFlags::EXCLUDE_USER) {
        Some("what runs in user space is left out (:k)")
    } else {
        None
    }
}

/// The time from sample to sample of a clock that ticks all the time.
fn period_ns(attr: &Attr) -> Option<f64> {
    let clocks = [Software::CPU_CLOCK.0, Software::TASK_CLOCK.0];
    let is_clock = attr.type_ == EventType::SOFTWARE && clocks.contains(&attr.config);
    let period = attr.sample_freq().map(|hz| 1e9 / hz as f64).or(attr.period().map(|ns| ns as f64));
    period.filter(|_| is_clock && !attr.flags.contains(AttrFlags::EXCLUDE_IDLE))
}
