//! The state of one cpu: the task that runs there, the events that listen, and the timers.

use crate::context::{ContextKey, Stopwatch};
use crate::event::EventKey;
use crate::host::CgroupId;
use crate::pmu::PmuId;
use crate::task::TaskId;
use alloc::collections::{BTreeMap, BTreeSet};
use perfuse_abi::EventType;

/// One cpu.
#[derive(Debug)]
pub(crate) struct Cpu {
    pub(crate) online: bool,
    pub(crate) context: ContextKey,
    /// The task that runs, and its context if that has events.
    pub(crate) current: Option<TaskId>,
    pub(crate) task_context: Option<ContextKey>,
    /// The task is on the cpu without running (see [`Engine::pause`](crate::Engine::pause)).
    pub(crate) paused: bool,
    pub(crate) pmus: BTreeMap<PmuId, CpuPmu>,
    pub(crate) listeners: Listeners,
    pub(crate) timers: Timers,
    /// Events that hear of side-band on this cpu (rule H40), by their sequence.
    pub(crate) sideband: BTreeMap<u64, EventKey>,
    pub(crate) cgroups: BTreeMap<CgroupId, Stopwatch>,
    /// Number of ticks.
    pub(crate) ticks: u64,
    /// Events on the cpu that sample.
    pub(crate) sampling: usize,
    /// One was throttled since the last tick.
    pub(crate) throttled: bool,
    /// Of the time that handling samples takes (rule I24).
    pub(crate) sample_ns: u64,
}

impl Cpu {
    pub(crate) fn new(context: ContextKey) -> Self {
        Cpu {
            online: true,
            context,
            current: None,
            task_context: None,
            paused: false,
            pmus: BTreeMap::new(),
            listeners: Listeners::default(),
            timers: Timers::default(),
            sideband: BTreeMap::new(),
            cgroups: BTreeMap::new(),
            ticks: 0,
            sampling: 0,
            throttled: false,
            sample_ns: 0,
        }
    }

    pub(crate) fn pmu(&mut self, pmu: PmuId) -> &mut CpuPmu {
        self.pmus.entry(pmu).or_default()
    }
}

/// One PMU on one cpu.
#[derive(Debug, Default)]
pub(crate) struct CpuPmu {
    /// Events on the cpu that are not software events.
    pub(crate) active: usize,
    /// One of them wants to be alone (rule C14).
    pub(crate) exclusive: bool,
    /// When the next rotation is due (rule C25).
    pub(crate) rotate_at: Option<u64>,
}

/// Events that count occurrences the engine is told of, by PMU type and config, and in the order they came.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    lists: BTreeMap<(EventType, u64), BTreeMap<u64, EventKey>>,
    last: u64,
}

impl Listeners {
    /// The number by which it is removed.
    pub(crate) fn add(&mut self, type_: EventType, config: u64, event: EventKey) -> u64 {
        self.last += 1;
        self.lists.entry((type_, config)).or_default().insert(self.last, event);
        self.last
    }

    pub(crate) fn remove(&mut self, type_: EventType, config: u64, number: u64) {
        if let Some(list) = self.lists.get_mut(&(type_, config)) {
            list.remove(&number);
            // The few lists of software events stay: another task's will be on them soon.
            if list.is_empty() && type_ != EventType::SOFTWARE {
                self.lists.remove(&(type_, config));
            }
        }
    }

    /// Those who hear, the one that came last first (rule H4).
    pub(crate) fn of(&self, type_: EventType, config: u64) -> impl Iterator<Item = EventKey> + '_ {
        self.lists.get(&(type_, config)).into_iter().flat_map(|list| list.values().rev().copied())
    }

    pub(crate) fn len(&self) -> usize {
        self.lists.values().map(BTreeMap::len).sum()
    }

    pub(crate) fn hears(&self, type_: EventType, config: u64) -> bool {
        self.lists.get(&(type_, config)).is_some_and(|list| !list.is_empty())
    }
}

/// The timers of events on one cpu.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    queue: BTreeSet<(u64, EventKey)>,
    set: BTreeMap<EventKey, u64>,
}

impl Timers {
    pub(crate) fn set(&mut self, event: EventKey, at: u64) {
        self.cancel(event);
        self.queue.insert((at, event));
        self.set.insert(event, at);
    }

    pub(crate) fn cancel(&mut self, event: EventKey) -> Option<u64> {
        let at = self.set.remove(&event)?;
        self.queue.remove(&(at, event));
        Some(at)
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn next(&self) -> Option<u64> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// The first event that is due, its timer taken out.
    pub(crate) fn due(&mut self, now: u64) -> Option<(u64, EventKey)> {
        let &(at, event) = self.queue.first().filter(|(at, _)| *at <= now)?;
        self.cancel(event);
        Some((at, event))
    }
}
