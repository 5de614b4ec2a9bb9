//! Counts in a perf.data file, with the records of `perf stat record`, so that either program's `stat report` shows
//! either's recordings.

use super::counting::Counting;
use super::model::{Aggregation, Outcome, Run};
use super::plan::{Plan, Target};
use crate::Error;
use perfuse::abi::wire::{Seq, Text};
use perfuse::abi::{SampleType, Software};
use perfuse::{Builder, Counter};
use perfuse_data::feature::Feature;
use perfuse_data::machine::Machine;
use perfuse_data::tool::{
    Cpu16, CpuMap, EventUpdate, Stat, StatConfigEntry, StatRound, Thread, Tool, Update,
};
use perfuse_data::{NewEvent, Str, Writer, fresh_file};
use perfuse_events::{Source, Unit};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Where a recording of counts goes.
#[derive(Debug)]
pub enum Destination {
    /// A file; one that is there already gets another name.
    File(PathBuf),
    /// A pipe, until its recording begins.
    Pipe(Option<File>),
}

/// A recording that is being made.
pub(crate) struct Recorder {
    writer: Output,
    /// For each event of the plan its id where it is measured by this program.
    own_ids: Vec<u64>,
    words: Vec<OsString>,
}

enum Output {
    File(Box<Writer<File>>),
    Pipe(Box<Writer<File>>),
}

impl Output {
    fn writer(&mut self) -> &mut Writer<File> {
        match self {
            Output::File(writer) | Output::Pipe(writer) => writer,
        }
    }
}

/// No cpu, and no thread.
const NONE: u32 = u32::MAX;

impl Recorder {
    /// Begins the recording of open events. `child`: the command's process.
    pub(crate) fn begin(
        destination: &mut Destination,
        plan: &Plan,
        counting: &Counting,
        child: Option<u32>,
    ) -> Result<Self, Error> {
        // Ids of the kernel are small numbers; these are far from them.
        let own_ids: Vec<u64> = (0..plan.events.len() as u64).map(|at| 1 << 62 | at).collect();
        let mut events = Vec::new();
        for (index, request) in plan.events.iter().enumerate() {
            let counters = || counting.counters(index).map(|(_, counter)| counter);
            let mut attr = match (counters().next(), Builder::from_spec(&request.spec)) {
                (Some(counter), _) => *counter.attr(),
                (None, Some(builder)) => builder.attr(),
                (None, None) => Builder::new(Software::DUMMY).attr(),
            };
            // Readers want to know how an event is found by its records.
            attr.sample_type = SampleType::IDENTIFIER;
            let ids = match request.spec.source {
                Source::Tool(_) => vec![own_ids[index]],
                _ => counters().map(Counter::id).collect::<Result<_, _>>()?,
            };
            events.push(NewEvent { attr, name: counting.describe(plan, index).name, ids });
        }
        let writer = match destination {
            Destination::File(path) => Output::File(Box::new(Writer::file(fresh_file(path)?.0, &events)?)),
            Destination::Pipe(out) => match out.take() {
                Some(out) => Output::Pipe(Box::new(Writer::pipe(out, &events)?)),
                None => return Err(Error::Plan("a recording is of one run".to_owned())),
            },
        };
        let mut recorder = Recorder { writer, own_ids, words: std::env::args_os().collect() };
        recorder.describe(plan, &events)?;
        recorder.maps(plan, counting, child)?;
        Ok(recorder)
    }

    fn describe(&mut self, plan: &Plan, events: &[NewEvent]) -> Result<(), Error> {
        for (request, event) in plan.events.iter().zip(events) {
            let Some(&id) = event.ids.first() else { continue };
            let scale = request.spec.scale();
            let (unit, factor) = match (scale, request.spec.unit(), &request.spec.source) {
                (Some(scale), _, _) => (scale.unit.as_str(), scale.factor),
                (None, Unit::Nanoseconds, Source::Tool(_)) => ("ns", 1.0),
                (None, Unit::Nanoseconds, _) => ("msec", 1e-6),
                (None, Unit::Count, _) => ("", 1.0),
            };
            let mut updates = Vec::new();
            if !unit.is_empty() {
                updates.push(Update::Unit(Text::new(unit.as_bytes())));
            }
            if factor != 1.0 {
                updates.push(Update::Scale(factor));
            }
            if matches!(self.writer, Output::Pipe(_)) {
                updates.push(Update::Name(Text::new(event.name.as_bytes())));
            }
            for update in updates {
                self.writer.writer().tool(Tool::EventUpdate(EventUpdate { id, update }))?;
            }
        }
        Ok(())
    }

    fn maps(&mut self, plan: &Plan, counting: &Counting, child: Option<u32>) -> Result<(), Error> {
        let writer = self.writer.writer();
        let mut threads: Vec<Thread> = match child.filter(|_| plan.target == Target::Command) {
            Some(child) => vec![thread(plan, child)],
            None => {
                let tids = counting.slots().iter().filter_map(|slot| slot.tid());
                tids.map(|tid| thread(plan, tid)).collect()
            }
        };
        if threads.is_empty() {
            threads.push(Thread { tid: u64::MAX, comm: [0; 16] });
        }
        writer.tool(Tool::ThreadMap(Seq::from(&threads[..])))?;
        let mut cpus: Vec<Cpu16> =
            counting.slots().iter().filter_map(|slot| Some(Cpu16(slot.cpu()? as u16))).collect();
        if cpus.is_empty() {
            cpus.push(Cpu16::ANY);
        }
        writer.tool(Tool::CpuMap(CpuMap::Cpus(Seq::from(&cpus[..]))))?;
        // The numbers of perf 6.1; some later versions count other ways to sum up among them.
        let aggregation = match plan.aggregation {
            // Of clusters and caches they know nothing, and all is recorded by cpu.
            Aggregation::Cpu | Aggregation::Cluster | Aggregation::Cache(_) => 0,
            Aggregation::Everything => 1,
            Aggregation::Socket => 2,
            Aggregation::Die => 3,
            Aggregation::Core => 4,
            Aggregation::Thread => 5,
            Aggregation::Node => 7,
        };
        let interval = plan.interval.map_or(0, |interval| interval.as_millis() as u64);
        let config = [(0, aggregation), (1, interval), (2, u64::from(plan.scale))];
        let config = config.map(|(tag, value)| StatConfigEntry { tag, value });
        Ok(writer.tool(Tool::StatConfig(Seq::from(&config[..])))?)
    }

    /// Writes what was read last.
    fn counts(&mut self, plan: &Plan, counting: &Counting, run: &Run) -> Result<(), Error> {
        for (index, request) in plan.events.iter().enumerate() {
            if let Source::Tool(tool) = request.spec.source {
                if let Outcome::Counted(readings) = run.of_tool(tool) {
                    let value = readings.first().map_or(0, |reading| reading.value);
                    let (id, cpu) = (self.own_ids[index], NONE);
                    let stat = Stat { id, cpu, thread: 0, value, enabled_ns: value, running_ns: value };
                    self.writer.writer().tool(Tool::Stat(stat))?;
                }
            }
            for (slot, count) in counting.read_last(index) {
                let Some((_, counter)) = counting.counters(index).find(|(own, _)| *own == slot) else {
                    continue;
                };
                let slots = counting.slots();
                let thread = slots[..slot].iter().filter(|slot| slot.tid().is_some()).count();
                let stat = Stat {
                    id: counter.id()?,
                    cpu: slots[slot].cpu().unwrap_or(NONE),
                    thread: if plan.target == Target::Command { 0 } else { thread as u32 },
                    value: count.value,
                    enabled_ns: count.enabled_ns,
                    running_ns: count.running_ns,
                };
                self.writer.writer().tool(Tool::Stat(stat))?;
            }
        }
        Ok(())
    }

    /// An interval has ended and been read.
    pub(crate) fn interval(
        &mut self,
        plan: &Plan,
        counting: &Counting,
        run: &Run,
        time_ns: u64,
    ) -> Result<(), Error> {
        self.counts(plan, counting, run)?;
        self.writer.writer().tool(Tool::StatRound(StatRound { kind: 0, time_ns }))?;
        // A reader of a pipe waits for it.
        Ok(self.writer.writer().flush()?)
    }

    /// The end; what was counted was read.
    pub(crate) fn finish(mut self, plan: &Plan, counting: &Counting, run: &Run) -> Result<(), Error> {
        self.counts(plan, counting, run)?;
        if plan.interval.is_none() {
            let round = StatRound { kind: 1, time_ns: run.wall_ns };
            self.writer.writer().tool(Tool::StatRound(round))?;
        }
        match self.writer {
            Output::Pipe(mut writer) => writer.flush()?,
            Output::File(writer) => {
                let machine = Machine::look();
                let mut features = match plan.kernel.facts().is_simulated {
                    true => Vec::new(),
                    false => machine.features(),
                };
                features.push(Feature::Version(Str::new(concat!("perfuse ", env!("CARGO_PKG_VERSION")))));
                features.push(Feature::Cmdline(
                    self.words.iter().map(|word| Str::new(word.as_bytes())).collect(),
                ));
                features.push(Feature::Stat);
                writer.finish(features)?;
            }
        }
        Ok(())
    }
}

fn thread(plan: &Plan, tid: u32) -> Thread {
    let name = plan.kernel.surroundings().name(tid);
    let mut comm = [0; 16];
    let len = name.len().min(15);
    comm[..len].copy_from_slice(&name[..len]);
    Thread { tid: u64::from(tid), comm }
}
