//! An event: its state, its place in groups and contexts, and the arithmetic of its times.

use crate::bpf::BpfProgram;
use crate::buffer::BufferKey;
use crate::context::{Clock, ContextKey};
use crate::host::{CgroupId, PidNamespace};
use crate::pmu::{Hw, PmuId};
use crate::slab::Key;
use crate::task::TaskId;
use alloc::collections::BTreeMap;
use perfuse_abi::record::RecordFormat;
use perfuse_abi::{Attr, AttrFlags, ByteOrder, EventType, ReadFormat, read};

/// Names an event.
pub type EventKey = Key<Event>;

/// The states of an event, worst first (rule C30).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Its last reference is gone.
    Dead,
    /// Its PMU was removed.
    Revoked,
    /// Its target has ended.
    Exit,
    /// Pinned, and did not fit.
    Error,
    /// Switched off.
    Off,
    /// Switched on, and not on a cpu.
    Inactive,
    /// Counting.
    Active,
}

/// An event.
#[derive(Debug)]
pub struct Event {
    pub(crate) id: u64,
    /// The type as the user gave it (rule I30).
    pub(crate) asked_type: EventType,
    pub(crate) state: State,
    /// Its driver.
    pub(crate) pmu: PmuId,
    /// The PMU whose turn it shares: that of its group's hardware (rule B29).
    pub(crate) place: PmuId,
    /// All its driver's events are software events (rule C5).
    pub(crate) software: bool,
    pub(crate) hw: Hw,

    /// The context; none before it is installed and after its target ended.
    pub(crate) context: Option<ContextKey>,
    /// When it came to the context: sideband goes to the newest first (rule H40).
    pub(crate) sequence: u64,
    /// The cpu it is bound to.
    pub(crate) cpu: Option<u32>,
    /// The task it was opened on.
    pub(crate) task: Option<TaskId>,
    pub(crate) cgroup: Option<CgroupId>,
    /// The cpu it counts on.
    pub(crate) on: Option<u32>,

    /// Itself, if it leads.
    pub(crate) leader: EventKey,
    /// If it leads.
    pub(crate) siblings: Siblings,
    /// Only software events are in the group (rule C3).
    pub(crate) software_group: bool,
    pub(crate) group_index: u64,
    pub(crate) group_generation: u64,

    /// The original, if this is the copy for a child task.
    pub(crate) parent: Option<EventKey>,
    /// Its copies, by their ids.
    pub(crate) children: BTreeMap<u64, EventKey>,
    /// Values of children that have ended.
    pub(crate) child_count: u64,
    pub(crate) child_enabled: u64,
    pub(crate) child_running: u64,

    pub(crate) times: Times,
    /// Left of `PERF_EVENT_IOC_REFRESH`; 0: no limit.
    pub(crate) limit: i32,
    /// To be switched off when it leaves the cpu.
    pub(crate) pending_disable: bool,
    /// A SIGTRAP is on its way.
    pub(crate) pending_trap: bool,
    pub(crate) lost: u64,
    /// Its trace was announced.
    pub(crate) itrace_started: bool,

    /// The BPF program that was attached by it (rule K1).
    pub(crate) program: Option<BpfProgram>,
    /// Its program runs at the hits of all tasks, whichever it measures.
    pub(crate) runs_for_all: bool,
    pub(crate) buffer: Option<BufferKey>,
    /// Mappings of its descriptor.
    pub(crate) mappings: u32,
    /// `O_ASYNC` is set.
    pub(crate) asynchronous: bool,
    /// The task that opened it, for `prctl(2)` (rule C57).
    pub(crate) owner: Option<TaskId>,
    pub(crate) namespace: PidNamespace,
    /// The descriptor is open.
    pub(crate) open: bool,
}

/// The members of a group but its leader.
#[derive(Debug, Default)]
pub(crate) struct Siblings {
    /// By their ids: in order of creation.
    all: BTreeMap<u64, EventKey>,
    /// How many are read in each form, so that a new member need not ask them all (rule B31).
    formats: BTreeMap<u64, usize>,
}

impl Siblings {
    pub(crate) fn insert(&mut self, id: u64, event: EventKey, format: ReadFormat) {
        self.all.insert(id, event);
        *self.formats.entry(format.bits()).or_default() += 1;
    }

    pub(crate) fn remove(&mut self, id: u64, format: ReadFormat) {
        if self.all.remove(&id).is_none() {
            return;
        }
        if let Some(count) = self.formats.get_mut(&format.bits()) {
            *count -= 1;
            if *count == 0 {
                self.formats.remove(&format.bits());
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = EventKey> + '_ {
        self.all.values().copied()
    }

    pub(crate) fn last(&self) -> Option<EventKey> {
        self.all.last_key_value().map(|(_, last)| *last)
    }

    pub(crate) fn formats(&self) -> impl Iterator<Item = ReadFormat> + '_ {
        self.formats.keys().copied().map(ReadFormat::from_bits_retain)
    }
}

/// For how long an event was enabled and counting, on its context's clock (rule C32).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    pub(crate) stamp: u64,
    pub(crate) enabled: u64,
    pub(crate) running: u64,
}

impl Times {
    /// The times at `now`, for an event in this effective state.
    pub(crate) fn at(self, now: u64, state: State) -> Times {
        let delta = now.saturating_sub(self.stamp);
        Times {
            stamp: now,
            enabled: self.enabled + if state >= State::Inactive { delta } else { 0 },
            running: self.running + if state >= State::Active { delta } else { 0 },
        }
    }
}

impl Event {
    /// The attr that it was opened with, made whole.
    pub(crate) fn attr(&self) -> &Attr {
        &self.hw.attr
    }

    pub(crate) fn has(&self, flag: AttrFlags) -> bool {
        self.attr().flags.contains(flag)
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.hw.event == self.leader
    }

    pub(crate) fn is_sampling(&self) -> bool {
        self.hw.is_sampling()
    }

    pub(crate) fn is_freq(&self) -> bool {
        self.has(AttrFlags::FREQ) && self.is_sampling()
    }

    /// The clock of its records, if it is not the kernel's own.
    pub(crate) fn clockid(&self) -> Option<i32> {
        self.has(AttrFlags::USE_CLOCKID).then_some(self.attr().clockid)
    }

    /// The format of its records.
    pub(crate) fn format(&self) -> RecordFormat {
        RecordFormat::of(self.attr(), ByteOrder::NATIVE)
    }

    /// The original of an inherited one, or itself.
    pub(crate) fn original(&self) -> EventKey {
        self.parent.unwrap_or(self.hw.event)
    }

    /// Where this group stands among those of its context (rule C2).
    pub(crate) fn order(&self) -> GroupOrder {
        GroupOrder { cpu: self.cpu, pmu: self.place, cgroup: self.cgroup, index: self.group_index }
    }

    /// Which clock its times follow.
    pub(crate) fn clock(&self) -> Option<Clock> {
        match (self.cgroup, self.cpu, self.context) {
            (Some(cgroup), Some(cpu), Some(_)) => Some(Clock::Cgroup { cpu, cgroup }),
            (_, _, context) => context.map(Clock::Context),
        }
    }
}

/// Bytes that `read(2)` gives in this form, in a group of so many siblings (rule E3).
pub(crate) fn read_len(format: ReadFormat, siblings: usize) -> usize {
    read::len_for(format, if format.contains(ReadFormat::GROUP) { siblings + 1 } else { 1 })
}

/// The order of the groups of a context (rule C2). No cpu comes before cpu 0, no cgroup before any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupOrder {
    pub(crate) cpu: Option<u32>,
    pub(crate) pmu: PmuId,
    pub(crate) cgroup: Option<CgroupId>,
    pub(crate) index: u64,
}
