//! Contexts: all events of a task, or of a cpu, and their groups in order.

use crate::event::{Event, EventKey, GroupOrder};
use crate::host::CgroupId;
use crate::pmu::PmuId;
use crate::slab::Key;
use crate::task::TaskId;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound;
use perfuse_abi::AttrFlags;

/// Names a context.
pub(crate) type ContextKey = Key<Context>;

/// A context is that of a cpu or of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContextKind {
    Cpu(u32),
    Task(TaskId),
}

/// Pinned groups come before flexible ones (rule C2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupKind {
    Pinned,
    Flexible,
}

impl GroupKind {
    pub(crate) fn of(event: &Event) -> GroupKind {
        if event.has(AttrFlags::PINNED) { GroupKind::Pinned } else { GroupKind::Flexible }
    }
}

/// Which groups an operation is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupKinds {
    pub(crate) pinned: bool,
    pub(crate) flexible: bool,
}

impl GroupKinds {
    pub(crate) const ALL: GroupKinds = GroupKinds { pinned: true, flexible: true };
    pub(crate) const FLEXIBLE: GroupKinds = GroupKinds { pinned: false, flexible: true };

    pub(crate) fn has(self, kind: GroupKind) -> bool {
        match kind {
            GroupKind::Pinned => self.pinned,
            GroupKind::Flexible => self.flexible,
        }
    }
}

/// A clock that stands still at times: that of a context while it is off, that of a cgroup while none of
/// its tasks runs (rules C33, C34).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stopwatch {
    total: u64,
    /// When it was started; `None` while it stands.
    since: Option<u64>,
}

impl Stopwatch {
    pub(crate) fn at(&self, now: u64) -> u64 {
        self.total + self.since.map_or(0, |since| now.saturating_sub(since))
    }

    pub(crate) fn start(&mut self, now: u64) {
        self.since.get_or_insert(now);
    }

    pub(crate) fn stop(&mut self, now: u64) {
        self.total = self.at(now);
        self.since = None;
    }
}

/// Which clock an event's times follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    Context(ContextKey),
    Cgroup { cpu: u32, cgroup: CgroupId },
}

/// The part of a context that belongs to one PMU.
#[derive(Debug, Default)]
pub(crate) struct PmuContext {
    pub(crate) events: usize,
    /// Leaders of the groups on the cpu, by their index: in the order they got their turn.
    pub(crate) pinned_active: BTreeMap<u64, EventKey>,
    pub(crate) flexible_active: BTreeMap<u64, EventKey>,
    pub(crate) rotate_necessary: bool,
}

impl PmuContext {
    pub(crate) fn active(&mut self, kind: GroupKind) -> &mut BTreeMap<u64, EventKey> {
        match kind {
            GroupKind::Pinned => &mut self.pinned_active,
            GroupKind::Flexible => &mut self.flexible_active,
        }
    }
}

/// Group leaders in the order they get their turn.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    tree: BTreeMap<GroupOrder, EventKey>,
    next: u64,
}

impl Groups {
    /// The number for a group that comes now.
    pub(crate) fn next_index(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(crate) fn insert(&mut self, order: GroupOrder, leader: EventKey) {
        self.tree.insert(order, leader);
    }

    pub(crate) fn remove(&mut self, order: &GroupOrder) {
        self.tree.remove(order);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = EventKey> + '_ {
        self.tree.values().copied()
    }

    /// Groups of one cpu binding, PMU and cgroup, oldest first.
    fn run(
        &self,
        cpu: Option<u32>,
        pmu: PmuId,
        cgroup: Option<CgroupId>,
    ) -> impl Iterator<Item = (u64, EventKey)> + '_ {
        let at = |index| GroupOrder { cpu, pmu, cgroup, index };
        self.tree.range(at(0)..=at(u64::MAX)).map(|(order, leader)| (order.index, *leader))
    }

    /// Appends the groups that may run on a cpu, in the order they get their turn (rule C11).
    pub(crate) fn for_cpu(
        &self,
        kind: ContextKind,
        cpu: u32,
        pmu: PmuId,
        cgroups: impl Iterator<Item = CgroupId>,
        found: &mut Vec<(u64, EventKey)>,
    ) {
        match kind {
            ContextKind::Cpu(_) => {
                found.extend(self.run(Some(cpu), pmu, None));
                cgroups.for_each(|cgroup| found.extend(self.run(Some(cpu), pmu, Some(cgroup))));
            }
            ContextKind::Task(_) => {
                found.extend(self.run(None, pmu, None));
                found.extend(self.run(Some(cpu), pmu, None));
            }
        }
        found.sort_unstable_by_key(|(index, _)| *index);
    }

    /// The first group in key order on a cpu, whatever its cgroup (rule C26).
    pub(crate) fn first(&self, kind: ContextKind, cpu: u32, pmu: PmuId) -> Option<EventKey> {
        let of = |cpu: Option<u32>| {
            let first = GroupOrder { cpu, pmu, cgroup: None, index: 0 };
            let next = self.tree.range(first..).next();
            next.filter(|(order, _)| order.cpu == cpu && order.pmu == pmu).map(|(_, leader)| *leader)
        };
        let unbound = || if matches!(kind, ContextKind::Cpu(_)) { None } else { of(None) };
        unbound().or_else(|| of(Some(cpu)))
    }
}

/// All events of a task or a cpu.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) kind: ContextKind,
    pub(crate) clock: Stopwatch,
    /// Which kinds have been scheduled in.
    pub(crate) scheduled: GroupKinds,
    /// By their sequence.
    pub(crate) events: BTreeMap<u64, EventKey>,
    pub(crate) pinned: Groups,
    pub(crate) flexible: Groups,
    pub(crate) pmus: BTreeMap<PmuId, PmuContext>,
    /// Changed with every event that comes or goes (rule D20).
    pub(crate) generation: u64,
    /// The context that this one is a complete copy of, and of which generation of it.
    pub(crate) cloned_from: Option<(ContextKey, u64)>,
}

impl Context {
    pub(crate) fn new(kind: ContextKind) -> Self {
        Context {
            kind,
            clock: Stopwatch::default(),
            scheduled: GroupKinds::default(),
            events: BTreeMap::new(),
            pinned: Groups::default(),
            flexible: Groups::default(),
            pmus: BTreeMap::new(),
            generation: 0,
            cloned_from: None,
        }
    }

    pub(crate) fn groups_of(&self, kind: GroupKind) -> &Groups {
        match kind {
            GroupKind::Pinned => &self.pinned,
            GroupKind::Flexible => &self.flexible,
        }
    }

    /// The PMU after another one that has events here; the first of all after `None`.
    pub(crate) fn pmu_after(&self, last: Option<PmuId>) -> Option<PmuId> {
        let after = last.map_or(Bound::Unbounded, Bound::Excluded);
        self.pmus.range((after, Bound::Unbounded)).next().map(|(pmu, _)| *pmu)
    }

    pub(crate) fn groups(&mut self, kind: GroupKind) -> &mut Groups {
        match kind {
            GroupKind::Pinned => &mut self.pinned,
            GroupKind::Flexible => &mut self.flexible,
        }
    }

    pub(crate) fn is_task(&self) -> bool {
        matches!(self.kind, ContextKind::Task(_))
    }

    pub(crate) fn pmu(&mut self, pmu: PmuId) -> &mut PmuContext {
        self.pmus.entry(pmu).or_default()
    }

    /// Newest first (rule C1).
    pub(crate) fn newest_first(&self) -> Vec<EventKey> {
        self.events.values().rev().copied().collect()
    }
}
