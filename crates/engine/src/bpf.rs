//! BPF programs on events (section K). The host runs the program ([`Run`]): the engine knows its kind, says when it is
//! to run, and does what its answer means. While it runs it may reach [`Events`], and nothing else of the engine.

use crate::cpu_state::CpuState;
use crate::effect::Notice;
use crate::engine::Engine;
use crate::event::{EventKey, State};
use crate::host::{Capability, Host};
use crate::pmus::tracepoint::Hit;
use crate::sample::{SampleData, Written};
use crate::task::TaskId;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use perfuse_abi::record::BranchEntry;
use perfuse_abi::{AttrFlags, Errno, EventType, SampleType, Software};

/// The kind of event that a program can be attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgramKind {
    /// `BPF_PROG_TYPE_KPROBE`: kprobes and uprobes.
    Kprobe,
    /// `BPF_PROG_TYPE_TRACEPOINT`: tracepoints.
    Tracepoint,
    /// `BPF_PROG_TYPE_PERF_EVENT`: overflows of all other events.
    PerfEvent,
    /// Any other: nothing here.
    Other,
}

/// The data that a program sees when it runs.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct ProgramContext<'a> {
    /// The event that overflowed, or the one by which it was attached.
    pub event: EventKey,
    /// The cpu.
    pub cpu: u32,
    /// The task that runs there.
    pub task: Option<TaskId>,
    /// The time, on the clock of records.
    pub now: u64,
    /// The interrupted program.
    pub cpu_state: &'a dyn CpuState,
    /// The record of the tracepoint or probe; empty at overflows.
    pub record: &'a [u8],
    /// The address that goes with an overflow.
    pub addr: u64,
    /// The period that is over; the weight of a hit.
    pub period: u64,
    /// The count of the event that overflowed, without its copies, and for how many ns it was enabled and counting (rule
    /// K32); zeros at hits.
    pub values: [u64; 3],
    /// The branches that the hardware tells of (rule K32).
    pub branches: &'a [BranchEntry],
}

/// The way a host runs a program.
pub trait Run: Send + Sync {
    /// Runs it; the answer is its result. `events`: those that it may write to and read.
    fn run(&self, context: &ProgramContext<'_>, events: &mut dyn Events) -> u32;
}

/// A function that touches no events.
impl<F: Fn(&ProgramContext<'_>) -> u32 + Send + Sync> Run for F {
    fn run(&self, context: &ProgramContext<'_>, _events: &mut dyn Events) -> u32 {
        self(context)
    }
}

/// The events, as a program reaches them while it runs on a cpu.
pub trait Events {
    /// Writes a sample with these bytes to the ring of an event (rule K30): `EINVAL` for one that is not `BPF_OUTPUT`,
    /// `EOPNOTSUPP` for one that is not on this cpu now, `ENOSPC` without room.
    fn output(&mut self, event: EventKey, data: &[u8]) -> Result<(), Errno>;

    /// The count of an event, and for how many ns it was enabled and counting (rule K31): `EOPNOTSUPP` for one with
    /// `inherit`, `EINVAL` for one of another task or cpu, `EBUSY` for a pinned one that is not on this cpu.
    fn read(&mut self, event: EventKey) -> Result<[u64; 3], Errno>;
}

/// A program that a host has loaded.
#[derive(Clone)]
pub struct BpfProgram {
    /// Its number, as `PERF_EVENT_IOC_QUERY_BPF` tells it.
    pub id: u32,
    /// Its kind.
    pub kind: ProgramKind,
    /// It asks for stacks, which sets conditions where samples are precise (rule K1).
    pub wants_stacks: bool,
    /// Runs it. What it holds is let go when the program is taken off its event, or the event is gone.
    pub run: Arc<dyn Run>,
}

impl fmt::Debug for BpfProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BpfProgram").field("id", &self.id).field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// `struct perf_event_query_bpf`: how many ids there is room for, and what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BpfQuery {
    /// For so many ids there is room.
    pub room: u32,
    /// So many programs there are.
    pub count: u32,
    /// Their ids, as many as there is room for.
    pub ids: Vec<u32>,
}

/// A program on a tracepoint or a probe, with the event by which it was attached.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) event: EventKey,
    program: BpfProgram,
}

/// Programs a tracepoint can have.
const MOST: usize = 64;
/// Ids that can be asked for.
const MOST_ASKED: u32 = 64;

/// The engine, as far as a program on a cpu reaches it.
struct Reach<'a> {
    engine: &'a mut Engine,
    cpu: u32,
    now: u64,
    cpu_state: &'a dyn CpuState,
}

impl Events for Reach<'_> {
    fn output(&mut self, event: EventKey, data: &[u8]) -> Result<(), Errno> {
        let own = self.engine.events.get(event).ok_or(Errno::ENOENT)?;
        let attr = own.attr();
        if (attr.type_, attr.config) != (EventType::SOFTWARE, Software::BPF_OUTPUT.0) {
            return Err(Errno::EINVAL);
        }
        if own.state != State::Active || own.on != Some(self.cpu) {
            return Err(Errno::EOPNOTSUPP);
        }
        let data = SampleData { raw: Some(data), ..SampleData::new(self.cpu_state) };
        match self.engine.write_sample(event, self.cpu, self.now, &data, 0) {
            Written::Lost => Err(Errno::ENOSPC),
            Written::There => Ok(()),
            Written::Wakes => {
                self.engine.signal(event, Notice::In);
                Ok(())
            }
        }
    }

    fn read(&mut self, event: EventKey) -> Result<[u64; 3], Errno> {
        self.engine.is_for_programs(event)?;
        let (cpu, current) = (self.cpu, self.engine.cpus[self.cpu as usize].current);
        let own = &self.engine.events[event];
        match self.engine.target_of(event) {
            Some(target) if Some(target) != current => return Err(Errno::EINVAL),
            None if own.cpu != Some(cpu) => return Err(Errno::EINVAL),
            _ => {}
        }
        if own.has(AttrFlags::PINNED) && own.on != Some(cpu) {
            return Err(Errno::EBUSY);
        }
        self.engine.update_count(event, self.now);
        let times = self.engine.times_of(event, self.now);
        Ok([self.engine.events[event].hw.count, times.enabled, times.running])
    }
}

impl Engine {
    /// The events, as a program reaches them that the host runs by itself on a cpu, where `cpu_state` is.
    pub fn reach<'a>(&'a mut self, cpu: u32, now: u64, cpu_state: &'a dyn CpuState) -> impl Events + 'a {
        Reach { engine: self, cpu, now, cpu_state }
    }

    /// Whether an event can be put where programs read and write it: `EOPNOTSUPP` for one with `inherit` (rule K21).
    pub fn is_for_programs(&self, event: EventKey) -> Result<(), Errno> {
        let own = self.events.get(event).ok_or(Errno::ENOENT)?;
        if own.has(AttrFlags::INHERIT) { Err(Errno::EOPNOTSUPP) } else { Ok(()) }
    }

    /// Rule K1.
    pub(crate) fn set_program(
        &mut self,
        host: &mut dyn Host,
        caller: TaskId,
        event: EventKey,
        fd: i32,
    ) -> Result<(), Errno> {
        let program = host.bpf_program(caller, fd)?;
        self.attach_program(event, program)
    }

    /// Attaches a program, as a link of `bpf(2)` does (rules K1, K2).
    pub fn attach_program(&mut self, event: EventKey, program: BpfProgram) -> Result<(), Errno> {
        let own = self.events.get(event).ok_or(Errno::EBADF)?;
        let takes = self.pmus.get(own.pmu).driver.as_deref().map(|driver| driver.programs());
        let (attr, taken) = (*own.attr(), own.program.is_some());
        let exist = |taken| if taken { Err(Errno::EEXIST) } else { Ok(()) };
        if takes == Some(ProgramKind::PerfEvent) {
            exist(taken)?;
        }
        if takes != Some(program.kind) || program.kind == ProgramKind::Other {
            return Err(Errno::EINVAL);
        }
        if program.kind == ProgramKind::PerfEvent {
            let left_out = AttrFlags::EXCLUDE_CALLCHAIN_KERNEL | AttrFlags::EXCLUDE_CALLCHAIN_USER;
            let whole = attr.sample_type.contains(SampleType::CALLCHAIN) && !attr.flags.intersects(left_out);
            if attr.flags.precise_ip() != 0 && program.wants_stacks && !whole {
                return Err(Errno::EPROTO);
            }
        } else {
            exist(taken)?;
            let place = (attr.type_, self.events[event].hw.config);
            let all = self.programs.entry(place).or_default();
            // Each event of a probe has a probe of its own.
            if program.kind == ProgramKind::Tracepoint {
                exist(all.iter().any(|other| other.program.id == program.id))?;
                if all.len() >= MOST {
                    return Err(Errno::E2BIG);
                }
            }
            all.push(Attached { event, program: program.clone() });
        }
        self.events[event].program = Some(program);
        Ok(())
    }

    /// Rule K10.
    pub(crate) fn query_programs(
        &mut self,
        host: &dyn Host,
        caller: TaskId,
        event: EventKey,
        query: &mut BpfQuery,
    ) -> Result<(), Errno> {
        if !host.capable(caller, Capability::Perfmon) {
            return Err(Errno::EPERM);
        }
        let own = &self.events[event];
        if own.attr().type_ != EventType::TRACEPOINT {
            return Err(Errno::EINVAL);
        }
        if query.room > MOST_ASKED {
            return Err(Errno::E2BIG);
        }
        let all = self.programs.get(&(EventType::TRACEPOINT, own.hw.config));
        let ids = all.into_iter().flatten().map(|attached| attached.program.id);
        query.ids = ids.clone().take(query.room as usize).collect();
        query.count = ids.count() as u32;
        if query.room != 0 && query.room < query.count { Err(Errno::ENOSPC) } else { Ok(()) }
    }

    /// The program that was attached to an event.
    pub fn program(&self, event: EventKey) -> Option<&BpfProgram> {
        self.events.get(event)?.program.as_ref()
    }

    /// Takes a program off its event, as the end of a link of `bpf(2)` does (rule K2).
    pub fn detach_program(&mut self, event: EventKey) {
        if let Some(own) = self.events.get_mut(event) {
            own.program = None;
            self.drop_programs(event);
        }
    }

    /// An event is gone, and with it what it attached.
    pub(crate) fn drop_programs(&mut self, event: EventKey) {
        self.programs.retain(|_, all| {
            all.retain(|attached| attached.event != event);
            !all.is_empty()
        });
    }

    /// Whether the program of an event, or of its original, wants a sample of this overflow (rule K3).
    pub(crate) fn program_wants(
        &mut self,
        event: EventKey,
        cpu: u32,
        now: u64,
        data: &SampleData<'_>,
        period: u64,
    ) -> bool {
        let own = &self.events[event];
        let original = if own.parent.is_some() { self.events.get(own.original()) } else { Some(own) };
        let program = original.and_then(|original| original.program.as_ref());
        let Some(program) = program.filter(|program| program.kind == ProgramKind::PerfEvent) else {
            return true;
        };
        let (run, times) = (program.run.clone(), self.times_of(event, now));
        let context = ProgramContext {
            event,
            cpu,
            task: self.cpus[cpu as usize].current,
            now,
            cpu_state: data.cpu_state,
            record: &[],
            addr: data.addr.unwrap_or(0),
            period,
            values: [own.hw.count, times.enabled, times.running],
            branches: data.branches.map_or(&[], |(entries, _)| entries),
        };
        run.run(&context, &mut Reach { engine: self, cpu, now, cpu_state: data.cpu_state }) != 0
    }

    /// Whether an event is switched on, and what it measures is there.
    pub fn is_on(&self, event: EventKey) -> bool {
        self.events.get(event).is_some_and(|own| own.state >= State::Inactive)
    }

    /// The program of an event that is on runs as at an overflow, for hosts that find out by themselves when that is.
    pub fn run_program(&mut self, event: EventKey, cpu: u32, now: u64, cpu_state: &dyn CpuState) {
        if self.is_on(event) {
            let period = self.events[event].hw.sample_period;
            // There is no sample to be had.
            let _ = self.program_wants(event, cpu, now, &SampleData::new(cpu_state), period);
            self.settle(now);
        }
    }

    /// The program of an event of a probe runs at the hits of all tasks from now on, as one of an event of a whole cpu does: for hosts that
    /// have no whole cpus.
    pub fn run_for_all(&mut self, event: EventKey) {
        if let Some(own) = self.events.get_mut(event) {
            own.runs_for_all = true;
        }
    }

    /// Runs the programs of a tracepoint or a probe; the events whose programs do not let the hit pass (rule K4). A program of a
    /// tracepoint is for all events of it; one of a probe for its own, and hits in the process that this measures.
    pub(crate) fn silenced_by_programs(
        &mut self,
        type_: EventType,
        cpu: u32,
        now: u64,
        hit: &Hit<'_>,
        cpu_state: &dyn CpuState,
    ) -> Vec<EventKey> {
        let Some(all) = self.programs.get(&(type_, hit.id)) else { return Vec::new() };
        let task = self.cpus[cpu as usize].current;
        let process =
            |task: Option<TaskId>| task.and_then(|task| self.tasks.get(&task)).map(|task| task.facts.tid.pid);
        let is_hit = |attached: &&Attached| {
            let own = &self.events[attached.event];
            let is_for_all = type_ == EventType::TRACEPOINT || own.task.is_none() || own.runs_for_all;
            let target = self.target_of(attached.event);
            is_for_all || target.is_some() && process(target) == process(task)
        };
        let all: Vec<(EventKey, Arc<dyn Run>)> = all
            .iter()
            .filter(is_hit)
            .map(|attached| (attached.event, attached.program.run.clone()))
            .collect();
        let mut silenced = Vec::new();
        for (event, run) in all {
            let context = ProgramContext {
                event,
                cpu,
                task,
                now,
                cpu_state,
                record: hit.record,
                addr: 0,
                period: hit.count,
                values: [0; 3],
                branches: &[],
            };
            if run.run(&context, &mut Reach { engine: self, cpu, now, cpu_state }) & 1 == 0 {
                silenced.push(event);
            }
        }
        silenced
    }
}
