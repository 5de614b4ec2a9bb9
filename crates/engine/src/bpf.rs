//! BPF programs on events (section K). The host runs the program: the engine knows its kind, asks it when it is
//! to run, and does what its answer means.

use crate::cpu_state::CpuState;
use crate::engine::Engine;
use crate::event::EventKey;
use crate::host::{Capability, Host};
use crate::pmus::tracepoint::Hit;
use crate::sample::SampleData;
use crate::task::TaskId;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use perfuse_abi::record::BranchEntry;
use perfuse_abi::{AttrFlags, Errno, EventType, SampleType};

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

/// How a program runs; the answer is its result.
pub type Run = dyn Fn(&ProgramContext<'_>) -> u32 + Send + Sync;

/// A program that a host has loaded.
#[derive(Clone)]
pub struct BpfProgram {
    /// Its number, as `PERF_EVENT_IOC_QUERY_BPF` tells it.
    pub id: u32,
    /// Its kind.
    pub kind: ProgramKind,
    /// It asks for stacks, which sets conditions where samples are precise (rule K1).
    pub wants_stacks: bool,
    /// Runs it.
    pub run: Arc<Run>,
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

impl Engine {
    /// Rule K1.
    pub(crate) fn set_program(
        &mut self,
        host: &mut dyn Host,
        caller: TaskId,
        event: EventKey,
        fd: i32,
    ) -> Result<(), Errno> {
        let program = host.bpf_program(caller, fd)?;
        let own = &self.events[event];
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
            exist(all.iter().any(|other| other.program.id == program.id))?;
            if all.len() >= MOST {
                return Err(Errno::E2BIG);
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

    /// An event is gone, and with it what it attached.
    pub(crate) fn drop_programs(&mut self, event: EventKey) {
        self.programs.retain(|_, all| {
            all.retain(|attached| attached.event != event);
            !all.is_empty()
        });
    }

    /// Whether the program of an event, or of its original, wants a sample of this overflow (rule K3).
    pub(crate) fn program_wants(
        &self,
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
        let times = self.times_of(event, now);
        let context = ProgramContext {
            event,
            cpu,
            now,
            cpu_state: data.cpu_state,
            record: &[],
            addr: data.addr.unwrap_or(0),
            period,
            values: [own.hw.count, times.enabled, times.running],
            branches: data.branches.map_or(&[], |(entries, _)| entries),
        };
        (program.run)(&context) != 0
    }

    /// Whether all programs of a tracepoint or probe let a hit pass; each of them runs (rule K4).
    pub(crate) fn programs_pass(
        &self,
        type_: EventType,
        cpu: u32,
        now: u64,
        hit: &Hit<'_>,
        cpu_state: &dyn CpuState,
    ) -> bool {
        let Some(all) = self.programs.get(&(type_, hit.id)) else { return true };
        let run = |attached: &Attached| {
            let context = ProgramContext {
                event: attached.event,
                cpu,
                now,
                cpu_state,
                record: hit.record,
                addr: 0,
                period: hit.count,
                values: [0; 3],
                branches: &[],
            };
            (attached.program.run)(&context)
        };
        all.iter().fold(1, |passes, attached| passes & run(attached)) == 1
    }
}
