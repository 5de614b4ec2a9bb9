//! How a recording ends: what events counted and lost, remarks about that, and files completed, also after
//! something went wrong.

use super::Session;
use super::Sums;
use crate::exit::{FAILED, Failure};
use crate::record::plan::Whom;
use crate::record::{files, sections};
use crate::term::number;
use perfuse::RunningCommand;
use perfuse::abi::record::{Decoded, Record, RecordFormat, SampleId, Tid};
use perfuse::abi::{Attr, AttrFlags, ByteOrder, EventType, Software};
use perfuse_data::tool::Tool;
use perfuse_sys::signal::SIGTERM;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
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
    pub(super) fn complete(&mut self, others_follow: bool) -> Result<(), Failure> {
        if self.plan.tail_synthesize {
            let pid = self.child.as_ref().map(RunningCommand::pid);
            self.synthesize(pid, false).map_err(|error| self.write_failed(&error))?;
        }
        let compressed = self.target.writer.compressed();
        let ids = match self.plan.build_ids {
            true => sections::build_ids(&self.tally, self.opened.has_kernel()),
            false => Vec::new(),
        };
        let machine = self.machine.done();
        let mut features = self.facts.features(self.plan, &self.opened, machine, compressed);
        features.extend(sections::programs(&self.programs));
        features.extend(sections::last(&self.tally, &ids));
        let Some(path) = self.target.path.clone() else {
            let writer = &mut self.target.writer;
            let mut written = ids.iter().try_for_each(|id| writer.tool(Tool::BuildId(id.entry())));
            written = written.and_then(|()| writer.flush());
            written.map_err(|error| self.write_failed(&error))?;
            self.live.wrote(None, self.target.writer.len(), compressed);
            return Ok(());
        };
        let size = self.target.writer.len();
        let finished = self.target.take_writer()?.finish(features);
        let file = finished.map_err(|error| write_error(&path, size, &error))?;
        let size = file.metadata().map_or(0, |metadata| metadata.len());
        let named = self.plan.timestamp_filename || others_follow;
        let path = if named { files::with_time(&path)? } else { path };
        self.live.wrote(Some(&path), size, compressed);
        self.files.push_back(path);
        if self.plan.max_files.is_some_and(|most| self.files.len() > most) {
            let oldest = self.files.pop_front().unwrap_or_default();
            std::fs::remove_file(&oldest).map_err(|error| files::cannot("remove", &oldest, &error))?;
        }
        Ok(())
    }

    /// The recording is over.
    pub(super) fn end(mut self, status: Option<ExitStatus>) -> Result<ExitCode, Failure> {
        self.opened.set.disable()?;
        // Once more after everything is off.
        self.drain()?;
        self.drain()?;
        self.snapshot()?;
        let counted = self.counted()?;
        let mut sums = self.sums();
        sums.lost = sums.lost.max(counted.lost) + self.tally.lost_samples;
        let exit = status.map(|status| match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit {code}"),
            (None, Some(SIGTERM)) if self.ended_by_us => "stopped".to_owned(),
            (None, signal) => format!("killed by signal {}", signal.unwrap_or(0)),
        });
        let events = self.opened.requests.len();
        self.live.summary(exit.as_deref(), sums, events);
        self.complete(false)?;
        if sums.lost > 0 {
            let bytes = self.opened.set.ring_bytes();
            self.live.warn(&format!(
                "{} records lost: rings of {} were full before they could be read; larger ones: -m {}M; \
                 fewer records: a lower -F, a higher -c, --filter",
                number::grouped(sums.lost),
                number::bytes(bytes as f64),
                (bytes >> 20).max(1) * 8
            ));
        }
        if let Some(text) = self.unseen(sums, &counted) {
            self.live.warn(&text);
        }
        if self.tally.throttled > 0 {
            let times = self.tally.throttled;
            self.live
                .warn(&format!("the kernel paused sampling {times} times: it took too much of its time"));
        }
        if self.tally.corrupt > 0 {
            self.live.warn(&format!("{} bytes of the rings were no records", self.tally.corrupt));
        }
        Ok(match status.map(|status| (status.code(), status.signal())) {
            None => ExitCode::SUCCESS,
            Some((Some(code), _)) => ExitCode::from(code as u8),
            Some((None, Some(SIGTERM))) if self.ended_by_us => ExitCode::SUCCESS,
            Some((None, signal)) => ExitCode::from(signal.map_or(FAILED, |signal| (128 + signal) as u8)),
        })
    }

    /// What the events counted. Samples they lost are written as records, as perf does.
    fn counted(&mut self) -> Result<Counted, Failure> {
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
            let written = self.target.writer.record(&record, &format);
            written.map_err(|error| self.write_failed(&error))?;
        }
        Ok(counted)
    }

    /// Clocks start anew in each process and thread that inherits them, so one that ends before the first
    /// period is over is never sampled; and a clock that leaves out the kernel goes on there. Where that took
    /// much of the time it has to be said.
    fn unseen(&self, sums: Sums, counted: &Counted) -> Option<String> {
        /// Fewer may be missing by chance.
        const ENOUGH: f64 = 50.0;
        let inherits = self.plan.inherit && !matches!(self.plan.whom, Whom::Cpus(_));
        let expected =
            counted.expected.filter(|_| inherits && self.tally.throttled == 0 && !self.plan.overwrite)?;
        let found = (sums.samples + sums.lost) as f64;
        let missing = expected - found;
        let none = found == 0.0 && expected > 0.0;
        if !(none || missing > ENOUGH && missing > 0.1 * expected) {
            return None;
        }
        let share = 100.0 * missing / expected;
        let mut reasons: Vec<_> = counted.left_out.into_iter().map(str::to_owned).collect();
        if expected < 1.0 {
            reasons.push(format!(
                "what was recorded ran for {:.3} ms, less than the time from sample to sample",
                counted.time.as_secs_f64() * 1e3
            ));
        } else {
            reasons
                .push("processes and threads that end before their first sample is due have none".to_owned());
        }
        let help =
            if expected >= 1.0 { "; --follow sees those, where whole cpus may be sampled" } else { "" };
        Some(format!("{share:.0} % of the time was not sampled: {}{help}", reasons.join(", and ")))
    }

    /// The error of writing, once everything that was written has been made readable.
    pub(super) fn write_failed(&mut self, error: &io::Error) -> Failure {
        let size = self.target.writer.len();
        if self.target.path.is_some() {
            if let Ok(writer) = self.target.take_writer() {
                // It was the other error that ended this.
                let _ = writer.abandon();
            }
        }
        match &self.target.path {
            None if error.kind() == io::ErrorKind::BrokenPipe => Failure::from(io::Error::from(error.kind())),
            None => Failure::new(format_args!("cannot write to standard output: {error}")),
            Some(path) => write_error(path, size, error),
        }
    }
}

fn write_error(path: &Path, size: u64, error: &io::Error) -> Failure {
    let size = number::bytes(size as f64);
    let error = files::cannot("write", path, error);
    Failure::new(format_args!("{error}, after {size}; what was written can be read"))
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
