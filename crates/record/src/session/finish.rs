//! How a recording ends: what events counted and lost, remarks about that, and files completed, also after
//! something went wrong.

use super::Session;
use crate::clocks::{Share, left_out};
use crate::plan::Target;
use crate::sink::Sink;
use crate::unwound::Unwinding;
use crate::{Ended, Error, Remark, off_cpu, sections};
use perfuse::abi::ByteOrder;
use perfuse::abi::record::{Decoded, Record, RecordFormat, SampleId, Tid};
use perfuse::measurement::End;
use std::collections::BTreeMap;
use std::time::Duration;

/// One stack of so many may lack its outermost callers without a remark.
const FEW: u64 = 100;

/// The events' counts at the end.
struct Counted {
    lost: u64,
    /// The clocks among them, by event.
    clocks: BTreeMap<usize, Share>,
}

impl Session<'_> {
    /// Completes the current file; another one may follow. Afterwards there is only its name.
    pub(crate) fn complete(&mut self, others_follow: bool) -> Result<(), Error> {
        if self.plan.tail_synthesize {
            self.synthesize(self.child, false, (true, false)).map_err(|error| self.sink.fail(error))?;
        }
        let compressed = self.sink.compressed();
        let ids = match self.plan.build_ids && !self.plan.kernel.facts().is_simulated {
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
    pub(crate) fn end(mut self, end: End) -> Result<Ended, Error> {
        self.opened.set.disable()?;
        // Once more after everything is off.
        self.drain()?;
        self.drain()?;
        self.snapshot()?;
        self.finish_unwinding().map_err(|error| self.sink.fail(error))?;
        self.slept()?;
        self.folded()?;
        self.tally.corrupt += self.unwinding.as_ref().map_or(0, |unwinding| unwinding.recording.broken());
        let counted = self.counted()?;
        let mut sums = self.sums();
        sums.lost = sums.lost.max(counted.lost) + self.tally.lost_samples;
        let (events, elapsed) =
            (self.opened.requests.len(), self.plan.kernel.surroundings().now() - self.began);
        let (status, stopped) = (end.command.map(|(status, _)| status), end.was_stopped);
        let stacks = self.unwinding.as_ref().map(Unwinding::sums);
        let ended = Ended { status, stopped, sums, events, elapsed, stacks };
        self.observer.ends(&ended);
        self.complete(false)?;
        let mut remarks = Vec::new();
        if sums.lost > 0 {
            remarks.push(Remark::Lost { records: sums.lost, ring: self.opened.set.ring_bytes() });
        }
        let stacks = stacks.filter(|sums| sums.incomplete() * FEW > sums.stacks);
        remarks
            .extend(stacks.map(|sums| Remark::Incomplete { sums, copied: Unwinding::copied(&self.opened) }));
        remarks.extend(self.unseen(&counted));
        if self.tally.throttled > 0 {
            remarks.push(Remark::Throttled(self.tally.throttled));
        }
        if self.tally.corrupt > 0 {
            remarks.push(Remark::Corrupt(self.tally.corrupt));
        }
        remarks.iter().for_each(|remark| self.observer.remark(remark));
        Ok(ended)
    }

    /// Writes what the kernel has folded.
    fn folded(&mut self) -> Result<(), Error> {
        let Some(folds) = self.folds.take() else { return Ok(()) };
        let before = self.tally.samples;
        let samples = folds.write(&self.opened, &mut self.tally, &mut self.sink)?;
        self.tally.samples = before + samples;
        Ok(())
    }

    /// Writes how long threads slept, as samples.
    fn slept(&mut self) -> Result<(), Error> {
        let now = self.plan.clock.and_then(perfuse_sys::clock::read_ns);
        self.tally.samples = self.tally.samples.saturating_sub(self.sink.samples_taken());
        let (rows, without_room) = match (self.sleeping.take(), self.sink.folding.take()) {
            (Some(sleeping), _) => sleeping.end()?,
            (None, Some(folding)) => folding.end(now),
            (None, None) => return Ok(()),
        };
        if without_room > 0 {
            self.observer.remark(&Remark::OffCpuWithoutRoom(without_room));
        }
        let event = self.opened.requests.iter().position(|request| request.off_cpu);
        let Some((event, attr)) = event.and_then(|event| Some((event, self.opened.set.attr(event)?))) else {
            return Ok(());
        };
        let Some(source) = self.opened.set.sources().iter().find(|source| source.event == event) else {
            return Ok(());
        };
        let told = self.events.get(event).map_or(attr, |event| &event.attr);
        let (id, format) = (source.id, RecordFormat::of(told, ByteOrder::NATIVE));
        let time = now.max(self.tally.last_ns).unwrap_or(0);
        let sink = &mut self.sink;
        let written = off_cpu::samples(&rows, id, time, |sample| sink.record(sample, &format));
        written.map_err(|error| self.sink.fail(error))?;
        self.tally.samples += rows.len() as u64;
        self.tally.last_ns = (!rows.is_empty()).then(|| time + rows.len() as u64 - 1).max(self.tally.last_ns);
        Ok(())
    }

    /// Reads the events. Samples they lost are written as records, as perf does.
    fn counted(&mut self) -> Result<Counted, Error> {
        let mut counted = Counted { lost: 0, clocks: BTreeMap::new() };
        let mut records = Vec::new();
        for source in self.opened.set.sources() {
            // An event that cannot be read has lost nothing that is known.
            let Ok(count) = source.counter().read() else { continue };
            let lost = count.lost.unwrap_or(0);
            if lost > 0 {
                counted.lost += lost;
                records.push((source.event, source.id, source.cpu, lost));
            }
            if let Some((seen_ns, period_ns)) = self.tally.clocks.seen(source.id, lost) {
                let share = counted.clocks.entry(source.event).or_default();
                share.time_ns += count.value as f64;
                share.seen_ns += seen_ns;
                share.period_ns = period_ns;
                share.events += 1;
                share.left_out = self.opened.set.attr(source.event).and_then(left_out);
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
    fn unseen(&self, counted: &Counted) -> Vec<Remark> {
        let inherits = self.plan.inherit && !matches!(self.plan.target, Target::Cpus(_));
        if !inherits || self.tally.throttled > 0 || self.plan.overwrite {
            return Vec::new();
        }
        let several = counted.clocks.len() > 1;
        let told = counted.clocks.iter().filter_map(|(&event, share)| {
            Some(Remark::Unseen {
                event: several.then(|| self.opened.names[event].clone()),
                percent: share.unseen()?,
                left_out: share.left_out,
                short: (share.expected() < 1.0).then_some(Duration::from_nanos(share.time_ns as u64)),
                embedded: self.plan.kernel.facts().is_embedded,
                late: share.is_late(self.tally.births),
            })
        });
        told.collect()
    }
}
