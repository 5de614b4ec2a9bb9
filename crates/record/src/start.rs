//! The beginning of a recording: tool records about its events, and records about all that was there before.

use crate::off_cpu::folding;
use crate::opening::Opened;
use crate::plan::{Plan, Synth, Target};
use crate::sink::Sink;
use crate::synthesis::bpf::Programs;
use crate::synthesis::{KnownIds, Receiver, Synthesis};
use crate::tally::Tally;
use crate::{attrs, unwound};
use perfuse::abi::AttrFlags;
use perfuse::abi::record::{CpuMode, Decoded, Record, RecordFormat};
use perfuse::abi::wire::{Seq, Text};
use perfuse::kernel::Surroundings;
use perfuse_data::NewEvent;
use perfuse_data::tool::{Cpu16, CpuMap, EventUpdate, IdIndex, IdIndexEntry, Thread, Tool, Update};
use perfuse_events::Unit;
use perfuse_unwind::Recording;
use std::io;

/// The events of a recording, as its file tells them.
pub(crate) fn new_events(plan: &Plan, opened: &Opened) -> Vec<NewEvent> {
    let events = opened.names.iter().enumerate().filter_map(|(index, name)| {
        let ids = opened.set.sources().iter().filter(|source| source.event == index).map(|source| source.id);
        let attr = unwound::attr(plan, opened, index)?;
        let is_of_sleep = opened.requests.get(index).is_some_and(folding::is_sampled);
        let attr = if is_of_sleep { folding::told(attr) } else { attr };
        Some(NewEvent { attr, name: name.clone(), ids: ids.collect() })
    });
    events.collect()
}

/// Where records about what runs already go.
pub(crate) struct Takers<'a> {
    /// `None`: they are not recorded now.
    pub(crate) sink: Option<&'a mut dyn Sink>,
    /// Stacks are unwound by what they tell of processes and mappings.
    pub(crate) recording: Option<&'a mut Recording>,
}

/// Records in the format of the event that tells about tasks.
struct ToSink<'a> {
    takers: Takers<'a>,
    format: RecordFormat,
    wanted: Synth,
}

impl Receiver for ToSink<'_> {
    fn take(&mut self, record: &Decoded<'_>) -> io::Result<()> {
        self.takers.recording.iter_mut().for_each(|recording| recording.tell(record));
        let Some(sink) = &mut self.takers.sink else { return Ok(()) };
        let is_wanted = match &record.record {
            // The kernel's own maps belong to no task, and everybody's samples need them.
            Record::Mmap(_) | Record::Mmap2(_) => {
                self.wanted.maps || record.misc.cpu_mode() == CpuMode::KERNEL
            }
            Record::Comm(_) | Record::Fork(_) | Record::Namespaces(_) => self.wanted.tasks,
            _ => true,
        };
        if !is_wanted {
            return Ok(());
        }
        match sink.record(record, &self.format) {
            // A name of more than 64 KiB, say: better a recording without it than none.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            result => result,
        }
    }
}

/// Tool records about the events.
pub(crate) fn describe(opened: &Opened, sink: &mut dyn Sink) -> io::Result<()> {
    let entries = opened.set.sources().iter().map(|source| IdIndexEntry {
        id: source.id,
        index: source.ring as u64,
        cpu: source.cpu.map_or(u64::MAX, u64::from),
        tid: source.tid.map_or(u64::MAX, u64::from),
    });
    let entries: Vec<_> = entries.collect();
    for entries in entries.chunks(2000) {
        sink.tool(Tool::IdIndex(IdIndex { entries: Seq::from(entries), guests: None }).into())?;
    }
    for (index, request) in opened.requests.iter().enumerate() {
        let id = opened.set.sources().iter().find(|source| source.event == index).map(|source| source.id);
        let (Some(id), Unit::Nanoseconds) = (id, request.spec.unit()) else { continue };
        let unit = Update::Unit(Text::new(b"msec"));
        sink.tool(Tool::EventUpdate(EventUpdate { id, update: unit }).into())?;
        sink.tool(Tool::EventUpdate(EventUpdate { id, update: Update::Scale(1e-6) }).into())?;
    }
    Ok(())
}

/// Writes the maps of the threads and cpus that are measured.
pub(crate) fn maps(opened: &Opened, plan: &Plan, child: Option<u32>, sink: &mut dyn Sink) -> io::Result<()> {
    /// As many as fit into a record.
    const MOST: usize = 2700;
    let surroundings = plan.kernel.surroundings();
    let tids: Vec<u32> = match &plan.target {
        Target::Command => child.into_iter().collect(),
        Target::Threads(tids) => tids.clone(),
        Target::Processes(pids) => {
            pids.iter().flat_map(|&pid| surroundings.threads(pid).unwrap_or_default()).collect()
        }
        Target::Cpus(_) => Vec::new(),
    };
    let mut threads: Vec<_> = tids.iter().take(MOST).map(|&tid| thread(surroundings, tid)).collect();
    if threads.is_empty() {
        threads.push(Thread { tid: u64::MAX, comm: [0; 16] });
    }
    sink.tool(Tool::ThreadMap(Seq::from(&threads[..])).into())?;
    /// Of rings that follow their thread.
    const ANY: u16 = u16::MAX;
    let cpus = (0..opened.set.rings()).map(|ring| opened.set.cpu(ring).map_or(ANY, |cpu| cpu as u16));
    let mut cpus: Vec<_> = cpus.map(Cpu16).collect();
    cpus.dedup();
    sink.tool(Tool::CpuMap(CpuMap::Cpus(Seq::from(&cpus[..]))).into())
}

fn thread(surroundings: &dyn Surroundings, tid: u32) -> Thread {
    let name = surroundings.name(tid);
    let mut comm = [0; 16];
    let len = name.len().min(15);
    comm[..len].copy_from_slice(&name[..len]);
    Thread { tid: u64::from(tid), comm }
}

/// Records about what runs already. `held`: the command has not started yet, so that all it has is a name.
pub(crate) fn synthesize(
    opened: &Opened,
    plan: &Plan,
    child: Option<u32>,
    held: bool,
    programs: &Programs,
    tally: &mut Tally,
    takers: Takers<'_>,
) -> io::Result<()> {
    let is_told = takers.recording.is_some();
    let Some(attr) = opened.set.attr(opened.tracker) else { return Ok(()) };
    let format = RecordFormat::of(attr, perfuse::abi::ByteOrder::NATIVE);
    let source = opened.set.sources().iter().find(|source| source.event == opened.tracker);
    let mut receiver = ToSink { takers, format, wanted: plan.synth };
    let surroundings = plan.kernel.surroundings();
    let is_simulated = plan.kernel.facts().is_simulated;
    let mut synthesis = Synthesis {
        surroundings,
        receiver: &mut receiver,
        id: source.map_or(0, |source| source.id),
        data_maps: attrs::needs_data_maps(plan),
        namespaces: plan.sideband.contains(AttrFlags::NAMESPACES),
        build_ids: attr.flags.contains(AttrFlags::BUILD_ID).then(KnownIds::new),
        tally,
    };
    if opened.has_kernel() && !is_simulated {
        synthesis.kernel()?;
        synthesis.bpf(programs)?;
    }
    if plan.synth.cgroups && !is_simulated && attr.flags.contains(AttrFlags::CGROUP) {
        synthesis.cgroups()?;
    }
    if !(plan.synth.tasks || plan.synth.maps || is_told) {
        return Ok(());
    }
    match &plan.target {
        Target::Command => match child {
            Some(child) if held => synthesis.name(child),
            Some(child) => synthesis.families(&[child]),
            None => Ok(()),
        },
        Target::Processes(pids) => pids.iter().try_for_each(|&pid| synthesis.process(pid)),
        Target::Threads(tids) => {
            let mut pids: Vec<u32> =
                tids.iter().map(|&tid| surroundings.process_of(tid).unwrap_or(tid)).collect();
            pids.sort_unstable();
            pids.dedup();
            pids.iter().try_for_each(|&pid| synthesis.process(pid))
        }
        Target::Cpus(_) => match (&plan.follow, child) {
            (None, _) => synthesis.everything(),
            (Some(pids), Some(child)) if pids.is_empty() && held => synthesis.name(child),
            (Some(pids), Some(child)) if pids.is_empty() => synthesis.families(&[child]),
            (Some(pids), _) => synthesis.families(pids),
        },
    }
}
