//! Side-band records: the events that hear of them, and in which order (rules H40 to H54).

use crate::engine::Engine;
use crate::event::{Event, EventKey, State};
use crate::host::PidNamespace;
use crate::sample::NOBODY;
use crate::task::{Leaving, TaskId};
use alloc::vec::Vec;
use perfuse_abi::AttrFlags;
use perfuse_abi::record::{
    BpfEvent, Cgroup, Comm, CpuMode, Ksymbol, Misc, Mmap, Mmap2, MmapFile, NamespaceLink, Namespaces, Read,
    Record, Task, TextPoke, Throttle, Tid,
};
use perfuse_abi::wire::{Padding, Seq, Text};

/// How many events anywhere want a class of records: without any, none are made (rule H42).
#[derive(Debug)]
pub(crate) struct SidebandCounts {
    /// By the bit of the flag.
    counts: [usize; 64],
    /// Those that some event has.
    open: u64,
}

const MMAPS: AttrFlags = AttrFlags::MMAP.union(AttrFlags::MMAP_DATA);
const TASKS: AttrFlags = MMAPS.union(AttrFlags::COMM).union(AttrFlags::TASK);
/// The flags that get FORK and EXIT once they are made.
const HEARS_TASKS: AttrFlags = TASKS.union(AttrFlags::MMAP2);
/// The flags that make a cpu-wide event hear at all (rule H40).
const CPU_WIDE: AttrFlags = HEARS_TASKS
    .union(AttrFlags::COMM_EXEC)
    .union(AttrFlags::KSYMBOL)
    .union(AttrFlags::CONTEXT_SWITCH)
    .union(AttrFlags::TEXT_POKE)
    .union(AttrFlags::BPF_EVENT);

impl Default for SidebandCounts {
    fn default() -> Self {
        SidebandCounts { counts: [0; 64], open: 0 }
    }
}

impl SidebandCounts {
    fn count(&mut self, flags: AttrFlags, comes: bool) {
        for (bit, count) in self.counts.iter_mut().enumerate() {
            if flags.bits() >> bit & 1 != 0 {
                *count = if comes { *count + 1 } else { count.saturating_sub(1) };
                let mask = 1 << bit;
                self.open = if *count > 0 { self.open | mask } else { self.open & !mask };
            }
        }
    }

    fn open(&self, any_of: AttrFlags) -> bool {
        self.open & any_of.bits() != 0
    }
}

/// Memory that a task mapped.
#[derive(Clone, Copy, Debug)]
pub struct Mapping<'a> {
    /// The first address.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Offset in the file, in bytes.
    pub pgoff: u64,
    /// The file.
    pub file: MmapFile,
    /// Its build-id, for events that ask for it.
    pub build_id: Option<&'a [u8]>,
    /// `PROT_*`.
    pub prot: u32,
    /// `MAP_*`.
    pub flags: u32,
    /// The path, or `//anon`, `[heap]`, ...
    pub name: &'a [u8],
}

const PROT_EXEC: u32 = 4;

impl Engine {
    pub(crate) fn gate(&mut self, event: EventKey, comes: bool) {
        let flags = self.events[event].attr().flags;
        self.sideband_counts.count(flags, comes);
    }

    pub(crate) fn hear_sideband(&mut self, event: EventKey) {
        let own = &self.events[event];
        if let (None, Some(cpu), true) = (own.task, own.cpu, own.attr().flags.intersects(CPU_WIDE)) {
            let sequence = own.sequence;
            self.cpus[cpu as usize].sideband.insert(sequence, event);
        }
    }

    pub(crate) fn stop_hearing_sideband(&mut self, event: EventKey) {
        let own = &self.events[event];
        if let Some(cpu) = own.cpu {
            let sequence = own.sequence;
            self.cpus[cpu as usize].sideband.remove(&sequence);
        }
    }

    /// The events that hear on a cpu, in order (rules H40, H41).
    fn listeners(&self, cpu: u32, task: Option<TaskId>, which: impl Fn(&Event) -> bool) -> Vec<EventKey> {
        let wide = self.cpus[cpu as usize].sideband.values().rev().copied();
        let own = self.events_of(task);
        let hears = |&event: &EventKey| {
            let own = &self.events[event];
            own.state >= State::Inactive && self.matches(event, cpu) && which(own)
        };
        wide.chain(own).filter(hears).collect()
    }

    /// The events of a task's context, newest first.
    fn events_of(&self, task: Option<TaskId>) -> Vec<EventKey> {
        let context = task.and_then(|task| self.tasks.get(&task)).and_then(|task| task.context);
        context.map_or_else(Vec::new, |context| self.contexts[context].newest_first())
    }

    /// Writes a record to all that want it; what it says may depend on the event.
    fn tell<'r>(
        &mut self,
        cpu: u32,
        now: u64,
        which: AttrFlags,
        misc: Misc,
        record: impl Fn(&Engine, EventKey) -> Record<'r>,
    ) {
        if !self.sideband_counts.open(which) {
            return;
        }
        let current = self.cpus[cpu as usize].current;
        for event in self.listeners(cpu, current, |event| event.attr().flags.intersects(which)) {
            let record = record(self, event);
            self.write_record(event, record, misc, cpu, now);
        }
    }

    /// THROTTLE or UNTHROTTLE, to the event's own buffer.
    pub(crate) fn log_throttle(&mut self, event: EventKey, stops: bool, cpu: u32, now: u64) {
        let original = self.events[self.events[event].original()].id;
        let time = self.record_time(event, now);
        let throttle = Throttle { time, id: original, stream_id: self.events[event].id };
        let record = if stops { Record::Throttle(throttle) } else { Record::Unthrottle(throttle) };
        self.write_record(event, record, Misc::empty(), cpu, now);
    }

    /// SWITCH and SWITCH_CPU_WIDE: for the task that leaves, then for the one that comes.
    pub(crate) fn switch_record(
        &mut self,
        cpu: u32,
        now: u64,
        previous: Option<TaskId>,
        next: Option<TaskId>,
        leaving: Option<Leaving>,
    ) {
        if !self.sideband_counts.open(AttrFlags::CONTEXT_SWITCH) {
            return;
        }
        let mut misc = Misc::empty();
        if leaving.is_some() {
            misc |= Misc::SWITCH_OUT;
        }
        if leaving == Some(Leaving::Preempted) {
            misc |= Misc::SWITCH_OUT_PREEMPT;
        }
        let (own, other) = if leaving.is_some() { (previous, next) } else { (next, previous) };
        for event in self.listeners(cpu, own, |event| event.has(AttrFlags::CONTEXT_SWITCH)) {
            let wide = self.events[event].task.is_none();
            let record =
                if wide { Record::SwitchCpuWide(self.tid_for(event, other)) } else { Record::Switch };
            self.write_record_of(event, record, misc, cpu, now, own);
        }
    }

    /// FORK, to those of the parent and of the cpu; NAMESPACES then.
    pub(crate) fn fork_record(&mut self, parent: TaskId, child: TaskId, cpu: u32, now: u64) {
        let hears = |event: &Event| event.attr().flags.intersects(HEARS_TASKS);
        let all = if self.sideband_counts.open(TASKS) {
            self.listeners(cpu, Some(parent), hears)
        } else {
            Vec::new()
        };
        for event in all {
            let (old, new) = (self.tid_for(event, Some(parent)), self.tid_for(event, Some(child)));
            let time = self.record_time(event, now);
            let task = Task { pid: new.pid, ppid: old.pid, tid: new.tid, ptid: old.tid, time };
            self.write_record_of(event, Record::Fork(task), Misc::empty(), cpu, now, Some(parent));
        }
        self.namespaces_record(child, cpu, now);
    }

    /// EXIT: to the context that dies, and later to the cpu's (rule D30).
    pub(crate) fn exit_record(
        &mut self,
        task: TaskId,
        parent: Option<TaskId>,
        cpu: u32,
        now: u64,
        own: bool,
    ) {
        if !self.sideband_counts.open(TASKS) {
            return;
        }
        let wants =
            |event: &Event| event.attr().flags.intersects(HEARS_TASKS) && (event.task.is_some() == own);
        let all = if own { self.events_of(Some(task)) } else { self.listeners(cpu, None, wants) };
        for event in all {
            let heard = &self.events[event];
            if heard.state < State::Inactive || !wants(heard) || heard.cpu.is_some_and(|bound| bound != cpu) {
                continue;
            }
            let (gone, parent) = (self.tid_for(event, Some(task)), self.tid_for(event, parent));
            let time = self.record_time(event, now);
            let record = Task { pid: gone.pid, ppid: parent.pid, tid: gone.tid, ptid: parent.pid, time };
            self.write_record_of(event, Record::Exit(record), Misc::empty(), cpu, now, Some(task));
        }
    }

    /// READ: what a child's event counted (inherit_stat).
    pub(crate) fn read_record(&mut self, event: EventKey, task: Option<TaskId>, now: u64) {
        let cpu = task.and_then(|task| self.tasks.get(&task)).and_then(|task| task.last).unwrap_or(0);
        let tid = self.tid_for(event, task);
        let mut words = Vec::new();
        if let Ok(values) = self.values(event, now, false, &mut words) {
            self.write_record_of(event, Record::Read(Read { tid, values }), Misc::empty(), cpu, now, task);
        }
    }

    /// A task has a new name (COMM). `exec`: because of a new program.
    pub fn comm(&mut self, task: TaskId, cpu: u32, now: u64, name: &[u8], exec: bool) {
        let misc = if exec { Misc::COMM_EXEC } else { Misc::empty() };
        let name = &name[..name.len().min(15)];
        self.tell(cpu, now, AttrFlags::COMM, misc, |engine, event| {
            Record::Comm(Comm { tid: engine.tid_for(event, Some(task)), name: Text::new(name) })
        });
    }

    /// A task mapped memory (rules H50, H51).
    pub fn mapped(&mut self, task: TaskId, cpu: u32, now: u64, mapping: &Mapping<'_>) {
        if !self.sideband_counts.open(MMAPS) {
            return;
        }
        let executable = mapping.prot & PROT_EXEC != 0;
        let wants = |event: &Event| {
            if executable {
                event.attr().flags.intersects(AttrFlags::MMAP | AttrFlags::MMAP2)
            } else {
                event.has(AttrFlags::MMAP_DATA)
            }
        };
        let data = if executable { Misc::empty() } else { Misc::MMAP_DATA };
        let misc = data.with_cpu_mode(CpuMode::USER);
        let &Mapping { addr, len, pgoff, prot, flags, .. } = mapping;
        let filename = Text::new(mapping.name);
        for event in self.listeners(cpu, Some(task), wants) {
            let tid = self.tid_for(event, Some(task));
            let own = &self.events[event];
            let record = if own.has(AttrFlags::MMAP2) {
                let wanted = mapping.build_id.filter(|_| own.has(AttrFlags::BUILD_ID));
                let id = wanted.and_then(perfuse_abi::record::BuildId::new);
                let file = id.map_or(mapping.file, MmapFile::BuildId);
                Record::Mmap2(Mmap2 { tid, addr, len, pgoff, file, prot, flags, filename })
            } else {
                Record::Mmap(Mmap { tid, addr, len, pgoff, filename })
            };
            self.write_record(event, record, misc, cpu, now);
        }
    }

    /// The namespaces of a task changed, or the task is new.
    pub fn set_namespaces(&mut self, task: TaskId, cpu: u32, now: u64, links: &[NamespaceLink; 7]) {
        self.know_namespaces(task, *links);
        self.tell(cpu, now, AttrFlags::NAMESPACES, Misc::empty(), |engine, event| {
            let tid = engine.tid_for(event, Some(task));
            Record::Namespaces(Namespaces { tid, links: Seq::from(&links[..]) })
        });
    }

    fn namespaces_record(&mut self, task: TaskId, cpu: u32, now: u64) {
        let Some(links) = self.tasks.get(&task).and_then(|task| task.namespaces) else { return };
        self.set_namespaces(task, cpu, now, &links);
    }

    /// A symbol of the kernel came or went.
    pub fn ksymbol(&mut self, cpu: u32, now: u64, symbol: Ksymbol<'_>) {
        self.tell(cpu, now, AttrFlags::KSYMBOL, Misc::empty(), |_, _| Record::Ksymbol(symbol));
    }

    /// A BPF program was loaded or unloaded.
    pub fn bpf_event(&mut self, cpu: u32, now: u64, event: BpfEvent) {
        self.tell(cpu, now, AttrFlags::BPF_EVENT, Misc::empty(), |_, _| Record::BpfEvent(event));
    }

    /// A cgroup was made.
    pub fn cgroup_made(&mut self, cpu: u32, now: u64, id: u64, path: &[u8]) {
        self.tell(cpu, now, AttrFlags::CGROUP, Misc::empty(), |_, _| {
            Record::Cgroup(Cgroup { id, path: Text::new(path) })
        });
    }

    /// The kernel's code was changed.
    pub fn text_poke(&mut self, cpu: u32, now: u64, addr: u64, old: &[u8], new: &[u8]) {
        let misc = Misc::empty().with_cpu_mode(CpuMode::KERNEL);
        self.tell(cpu, now, AttrFlags::TEXT_POKE, misc, |_, _| {
            Record::TextPoke(TextPoke { addr, old, new, padding: Padding::default() })
        });
    }

    /// The numbers of a task as the opener of an event sees them: zeros if he sees none, the highest if
    /// there is no such task any longer (rule H1).
    pub(crate) fn tid_for(&self, event: EventKey, task: Option<TaskId>) -> Tid {
        let Some(task) = task else { return NOBODY };
        let namespace = self.events[event].namespace;
        match self.tasks.get(&task) {
            None => Tid { pid: u32::MAX, tid: u32::MAX },
            Some(own) if namespace == PidNamespace::default() => own.facts.tid,
            Some(own) => own.seen.get(&namespace).copied().unwrap_or(NOBODY),
        }
    }
}
