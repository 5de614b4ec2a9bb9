//! Tasks: what the engine is told about them, and what their lives mean for events: switches, fork, exec,
//! exit (section D), cgroups and cpus that go.

use crate::context::{Context, ContextKey, ContextKind, GroupKind, GroupKinds};
use crate::cpu_state::CpuState;
use crate::engine::Engine;
use crate::event::{EventKey, State};
use crate::host::{CgroupId, PidNamespace};
use crate::open::NewEvent;
use crate::pmu::Target;
use crate::sample::SampleData;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use perfuse_abi::record::{NamespaceLink, Tid};
use perfuse_abi::{AttrFlags, Errno, EventType, SampleType, Software};

/// A task, by a number that the host never gives twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u64);

/// The facts that the engine has to know about a new task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskFacts {
    /// Process and thread.
    pub tid: Tid,
    /// Its cgroup.
    pub cgroup: CgroupId,
    /// It has no user memory.
    pub kernel: bool,
}

impl TaskFacts {
    /// A user task in the root cgroup.
    pub fn new(pid: u32, tid: u32) -> Self {
        TaskFacts { tid: Tid { pid, tid }, cgroup: CgroupId(1), kernel: false }
    }
}

/// How a task was made (`clone(2)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CloneFlags {
    /// `CLONE_THREAD`.
    pub thread: bool,
    /// `CLONE_CLEAR_SIGHAND`.
    pub clear_sighand: bool,
}

/// How a task was switched out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// It waits.
    Sleeps,
    /// It could go on.
    Preempted,
}

#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) facts: TaskFacts,
    pub(crate) context: Option<ContextKey>,
    /// The cpu it runs on.
    pub(crate) on: Option<u32>,
    /// The task that made it.
    pub(crate) parent: Option<TaskId>,
    /// Where it ran last.
    pub(crate) last: Option<u32>,
    pub(crate) exiting: bool,
    /// Its numbers in namespaces other than the first.
    pub(crate) seen: BTreeMap<PidNamespace, Tid>,
    pub(crate) namespaces: Option<[NamespaceLink; 7]>,
}

impl Engine {
    /// A task that is there already, before anything is measured.
    pub fn add_task(&mut self, task: TaskId, facts: TaskFacts) {
        let own = Task {
            facts,
            context: None,
            on: None,
            parent: None,
            last: None,
            exiting: false,
            seen: BTreeMap::new(),
            namespaces: None,
        };
        self.tasks.insert(task, own);
    }

    /// A cgroup exists, within another.
    pub fn add_cgroup(&mut self, cgroup: CgroupId, parent: CgroupId) {
        self.cgroup_parents.insert(cgroup, parent);
    }

    /// A task moves to another cgroup.
    pub fn move_to_cgroup(&mut self, task: TaskId, cgroup: CgroupId, now: u64) {
        let Some(own) = self.tasks.get_mut(&task) else { return };
        own.facts.cgroup = cgroup;
        if let Some(cpu) = own.on {
            self.cgroup_switch(cpu, now);
        }
    }

    /// A thread that is about to replace its program takes the number of its process, whose other threads are gone. It comes before
    /// [`exec`](Self::exec).
    pub fn renumber(&mut self, task: TaskId, tid: Tid) {
        if let Some(own) = self.tasks.get_mut(&task) {
            own.facts.tid = tid;
        }
    }

    /// The cpu stops running one task and starts another; `None` is the idle task. `cpu_state`: the
    /// scheduler, in kernel mode.
    pub fn switch(
        &mut self,
        cpu: u32,
        now: u64,
        leaving: Leaving,
        next: Option<TaskId>,
        cpu_state: &dyn CpuState,
    ) {
        let previous = self.cpus[cpu as usize].current;
        if previous == next {
            return;
        }
        let data = SampleData { addr: Some(0), ..SampleData::new(cpu_state) };
        self.occur(cpu, now, EventType::SOFTWARE, Software::CONTEXT_SWITCHES.0, 1, &data);
        let cgroup = |task: Option<TaskId>| Some(self.tasks.get(&task?)?.cgroup);
        let changes = cgroup(previous) != cgroup(next);
        if changes {
            self.occur(cpu, now, EventType::SOFTWARE, Software::CGROUP_SWITCHES.0, 1, &data);
        }
        self.switch_record(cpu, now, previous, next, Some(leaving));
        let migrated = self.exchange(cpu, now, next);
        self.switch_record(cpu, now, previous, next, None);
        if migrated {
            self.occur(cpu, now, EventType::SOFTWARE, Software::CPU_MIGRATIONS.0, 1, &data);
        }
    }

    /// The cpu stops accounting for one task and starts for another, without a switch that is counted or recorded:
    /// for a host that learns only afterwards how long a task has run, which tells its coming and its going then
    /// (`now` may lie before what was told of other cpus). Events that are [due](crate::Hw::due) stay so.
    pub fn place(&mut self, cpu: u32, now: u64, next: Option<TaskId>) {
        let place = &mut self.cpus[cpu as usize];
        if place.current != next {
            self.placing = true;
            self.exchange(cpu, now, next);
            self.placing = false;
        } else if core::mem::take(&mut place.paused) {
            place.task_context.into_iter().for_each(|context| self.contexts[context].clock.start(now));
        }
    }

    /// The task that was [placed](Self::place) on a cpu runs no longer, and keeps its place: its events stay where
    /// they are, and their times stand still until it is placed there again. So a host that tells of one task
    /// again and again pays for none of its events. Control pages are not written.
    pub fn pause(&mut self, cpu: u32, now: u64) {
        let place = &mut self.cpus[cpu as usize];
        place.paused = true;
        place.task_context.into_iter().for_each(|context| self.contexts[context].clock.stop(now));
    }

    /// The task on a cpu.
    pub fn current(&self, cpu: u32) -> Option<TaskId> {
        self.cpus.get(cpu as usize).and_then(|place| place.current)
    }

    /// The cpu where a task is.
    pub fn place_of(&self, task: TaskId) -> Option<u32> {
        self.tasks.get(&task).and_then(|task| task.on)
    }

    /// Records of switches for a task that was [placed](Self::place): that it comes to its cpu (`comes`), or is about to
    /// leave it. For hosts that know no switches but those, if they want to tell of them.
    pub fn record_placed(&mut self, cpu: u32, now: u64, comes: bool) {
        let task = self.cpus[cpu as usize].current;
        let (previous, next) = if comes { (None, task) } else { (task, None) };
        self.switch_record(cpu, now, previous, next, (!comes).then_some(Leaving::Sleeps));
    }

    /// The tasks that an event and its copies measure now.
    pub fn targets(&self, event: EventKey) -> Vec<TaskId> {
        let Some(own) = self.events.get(event) else { return Vec::new() };
        let all = core::iter::once(&event).chain(own.children.values());
        all.filter_map(|&event| self.target_of(event)).collect()
    }

    /// Whether the targets of an event and of its copies have ended.
    pub fn is_over(&self, event: EventKey) -> bool {
        self.state(event).is_none_or(|state| state <= State::Exit) && self.targets(event).is_empty()
    }

    /// Contexts change on a cpu. Whether the task that comes ran on another one before.
    fn exchange(&mut self, cpu: u32, now: u64, next: Option<TaskId>) -> bool {
        let previous = self.cpus[cpu as usize].current;
        self.cpus[cpu as usize].paused = false;
        let cgroup = |task: Option<TaskId>| Some(self.tasks.get(&task?)?.cgroup);
        let changes = cgroup(previous) != cgroup(next);
        let outgoing = self.cpus[cpu as usize].task_context;
        let incoming = next.and_then(|next| self.tasks.get(&next)).and_then(|next| next.context);
        let swapped = match (outgoing, incoming, previous, next) {
            (Some(from), Some(to), Some(previous), Some(next)) => {
                self.swap_clones(from, to, previous, next, now)
            }
            _ => false,
        };
        if let (Some(context), false) = (outgoing, swapped) {
            self.sched_out(context, None, GroupKinds::ALL, now);
        }
        if let Some(previous) = previous.and_then(|task| self.tasks.get_mut(&task)) {
            previous.on = None;
        }
        let place = &mut self.cpus[cpu as usize];
        place.current = next;
        if !swapped {
            place.task_context = None;
        }
        self.pmus.drivers().for_each(|driver| driver.sched_task(cpu, next.is_some()));
        if changes {
            self.cgroup_switch(cpu, now);
        }
        let Some(own) = next.and_then(|task| self.tasks.get_mut(&task)) else { return false };
        let migrated = own.last.is_some_and(|last| last != cpu);
        (own.on, own.last) = (Some(cpu), Some(cpu));
        if let (Some(context), false) = (own.context, swapped) {
            if !self.contexts[context].events.is_empty() {
                self.cpus[cpu as usize].task_context = Some(context);
                // Rule C19: its pinned groups go before the cpu's flexible ones.
                if !self.contexts[context].pinned.is_empty() {
                    let wide = self.cpus[cpu as usize].context;
                    self.sched_out(wide, None, GroupKinds::FLEXIBLE, now);
                }
                self.sched_in_all(cpu, None, now);
            }
        }
        migrated
    }

    /// Other cgroups than before have a task on the cpu (rules C21, C34).
    fn cgroup_switch(&mut self, cpu: u32, now: u64) {
        let wide = self.cpus[cpu as usize].context;
        let any = self.contexts[wide].events.values().any(|&event| self.events[event].cgroup.is_some());
        if any {
            // Times first: they follow the clocks that change now.
            for event in self.contexts[wide].newest_first() {
                if self.events[event].cgroup.is_some() {
                    self.update_times(event, now);
                }
            }
            self.sched_out(wide, None, GroupKinds::ALL, now);
        }
        self.cgroup_clocks(cpu, now);
        if any {
            self.sched_in_all(cpu, None, now);
        }
    }

    /// Starts and stops the clocks of cgroups on a cpu.
    pub(crate) fn cgroup_clocks(&mut self, cpu: u32, now: u64) {
        let current: Vec<CgroupId> = self.cgroups_of(self.cpus[cpu as usize].current).collect();
        let clocks = &mut self.cpus[cpu as usize].cgroups;
        for (cgroup, clock) in clocks.iter_mut() {
            if !current.contains(cgroup) {
                clock.stop(now);
            }
        }
        current.into_iter().for_each(|cgroup| clocks.entry(cgroup).or_default().start(now));
    }

    /// Clone contexts are exchanged in place of being scheduled (rule D20).
    fn swap_clones(
        &mut self,
        from: ContextKey,
        to: ContextKey,
        previous: TaskId,
        next: TaskId,
        now: u64,
    ) -> bool {
        let (out, into) = (&self.contexts[from], &self.contexts[to]);
        let clones = match (out.cloned_from, into.cloned_from) {
            (_, Some((parent, generation))) if parent == from => generation == out.generation,
            (Some((parent, generation)), _) if parent == to => generation == into.generation,
            (Some(a), Some(b)) => a == b,
            _ => false,
        };
        let steady = |context: &Context| {
            !context.events.values().any(|&event| {
                let event = &self.events[event];
                let reads = event.attr().sample_type.contains(SampleType::READ);
                event.has(AttrFlags::INHERIT) && reads || event.pending_trap
            })
        };
        if !clones || out.events.is_empty() || !steady(out) || !steady(into) {
            return false;
        }
        // Each task keeps its own values, where an event asks for them (rule D20).
        let pairs: Vec<_> = out.events.values().copied().zip(into.events.values().copied()).collect();
        for (a, b) in pairs {
            if self.events[a].has(AttrFlags::INHERIT_STAT) {
                self.update_count(a, now);
                self.update_times(a, now);
                let values = |engine: &Engine, key: EventKey| {
                    let event = &engine.events[key];
                    (event.hw.count, event.times.enabled, event.times.running)
                };
                let (first, second) = (values(self, a), values(self, b));
                for (key, (count, enabled, running)) in [(a, second), (b, first)] {
                    let event = &mut self.events[key];
                    event.hw.count = count;
                    (event.times.enabled, event.times.running) = (enabled, running);
                }
            }
        }
        self.contexts[from].kind = ContextKind::Task(next);
        self.contexts[to].kind = ContextKind::Task(previous);
        for (task, context) in [(previous, to), (next, from)] {
            if let Some(task) = self.tasks.get_mut(&task) {
                task.context = Some(context);
            }
        }
        true
    }

    /// A task made another one (rules D1 to D7). An error undoes all, and fails the fork (rule D4).
    pub fn fork(
        &mut self,
        parent: TaskId,
        child: TaskId,
        facts: TaskFacts,
        flags: CloneFlags,
        cpu: u32,
        now: u64,
    ) -> Result<(), Errno> {
        let (seen, own) =
            self.tasks.remove(&child).map(|task| (task.seen, task.namespaces)).unwrap_or_default();
        self.add_task(child, facts);
        let namespaces = own.or_else(|| self.tasks.get(&parent).and_then(|parent| parent.namespaces));
        if let Some(own) = self.tasks.get_mut(&child) {
            (own.namespaces, own.seen, own.parent) = (namespaces, seen, Some(parent));
        }
        if let Err(errno) = self.inherit(parent, child, flags, now) {
            self.forget(child, now);
            self.tasks.remove(&child);
            return Err(errno);
        }
        self.fork_record(parent, child, cpu, now);
        Ok(())
    }

    fn inherit(&mut self, parent: TaskId, child: TaskId, flags: CloneFlags, now: u64) -> Result<(), Errno> {
        let Some(source) = self.tasks.get(&parent).and_then(|task| task.context) else { return Ok(()) };
        let groups = &self.contexts[source];
        let leaders: Vec<EventKey> = groups.pinned.all().chain(groups.flexible.all()).collect();
        let mut all = true;
        let mut any = false;
        for leader in leaders {
            let own = &self.events[leader];
            let original = &self.events[own.original()];
            let skipped = !own.has(AttrFlags::INHERIT)
                || own.has(AttrFlags::INHERIT_THREAD) && !flags.thread
                || own.has(AttrFlags::SIGTRAP) && flags.clear_sighand
                // Being closed, or its PMU gone (rule D4).
                || original.state <= State::Revoked;
            if skipped {
                all = false;
                continue;
            }
            any = true;
            let mut copy = None;
            for member in self.group_of(leader) {
                let key = self.inherit_event(member, child, copy, now)?;
                copy = copy.or(Some(key));
            }
            if let Some(copy) = copy {
                self.events[copy].group_generation = self.events[leader].group_generation;
            }
        }
        let target = self.tasks.get(&child).and_then(|task| task.context);
        if let (Some(target), true, true) = (target, all, any) {
            // A copy of a copy has the same source.
            let source = match self.contexts[source].cloned_from {
                Some(from) => from,
                None => (source, self.contexts[source].generation),
            };
            self.contexts[target].cloned_from = Some(source);
        }
        Ok(())
    }

    fn inherit_event(
        &mut self,
        event: EventKey,
        child: TaskId,
        leader: Option<EventKey>,
        now: u64,
    ) -> Result<EventKey, Errno> {
        let context = self.task_context(child)?;
        let original = self.events[event].original();
        // Whether it is on is a matter of the task that forks; the original may have ended (rule D3).
        let state = self.events[event].state;
        let own = &self.events[original];
        let (attr, cpu, place) = (*own.attr(), own.cpu, self.events[event].place);
        let (freq, period) = (own.is_freq(), own.hw.sample_period);
        let (namespace, group_software) = (own.namespace, self.events[event].software_group);
        let type_ = own.asked_type;
        let target = Target { task: true, cpu: -1, perfmon: true, admin: true, raw: Ok(()), inherited: true };
        let new = NewEvent {
            attr,
            task: Some(child),
            cpu,
            leader,
            cgroup: None,
            parent: Some(original),
            owner: None,
            target,
        };
        let copy = self.create(new)?;
        let new = &mut self.events[copy];
        new.state = if state >= State::Inactive { State::Inactive } else { State::Off };
        (new.place, new.namespace, new.asked_type) = (place, namespace, type_);
        new.software_group = group_software;
        if freq {
            (new.hw.sample_period, new.hw.last_period) = (period, period);
            new.hw.period_left = period as i64;
        }
        let id = self.events[copy].id;
        self.events[original].children.insert(id, copy);
        self.gate(copy, true);
        self.attach(context, copy, now);
        Ok(copy)
    }

    /// A task replaced its program (rules D40 to D44). `fresh`: the process may no longer be looked at by the task
    /// that measured it (rule D43).
    pub fn exec(&mut self, task: TaskId, cpu: u32, now: u64, comm: &[u8], fresh: bool) {
        if let Some(context) = self.tasks.get(&task).and_then(|task| task.context) {
            self.exec_events(context, now);
        }
        self.comm(task, cpu, now, comm, true);
        if fresh {
            let parent = self.tasks.get(&task).and_then(|task| task.parent);
            self.end_measuring(task, parent, cpu, now);
        }
    }

    /// The effect of exec on each event of a task (rules D41, D42).
    fn exec_events(&mut self, context: ContextKey, now: u64) {
        let mut enabled = None;
        for event in self.contexts[context].newest_first() {
            let own = &mut self.events[event];
            if !own.has(AttrFlags::ENABLE_ON_EXEC) {
                continue;
            }
            own.hw.attr.flags.remove(AttrFlags::ENABLE_ON_EXEC);
            if own.state < State::Inactive && own.state >= State::Error {
                // A sibling is as pinned as its leader.
                let kind = GroupKind::of(&self.events[self.events[event].leader]);
                self.set_state(event, State::Inactive, now);
                enabled = Some(match enabled {
                    Some(GroupKind::Pinned) => GroupKind::Pinned,
                    _ => kind,
                });
            }
        }
        if let Some(kind) = enabled {
            self.contexts[context].cloned_from = None;
            self.contexts[context].generation += 1;
            if let Some(cpu) = self.cpu_of_or_join(context, now) {
                self.resched(cpu, None, kind, false, now);
            }
        }
        for event in self.contexts[context].newest_first() {
            if self.events.get(event).is_some_and(|event| event.has(AttrFlags::REMOVE_ON_EXEC)) {
                self.exit_event(event, true, now);
            }
        }
    }

    /// A task ends (rules D30 to D32).
    pub fn exit(&mut self, task: TaskId, parent: Option<TaskId>, cpu: u32, now: u64) {
        if let Some(own) = self.tasks.get_mut(&task) {
            own.exiting = true;
        }
        self.end_measuring(task, parent, cpu, now);
    }

    /// The events of a task end, with the records that tell so, and it owns none any longer (rule D30).
    fn end_measuring(&mut self, task: TaskId, parent: Option<TaskId>, cpu: u32, now: u64) {
        if self.owners.remove(&task) {
            for event in self.events.keys().collect::<Vec<_>>() {
                if self.events[event].owner == Some(task) {
                    self.events[event].owner = None;
                }
            }
        }
        self.leave(task, now);
        self.exit_record(task, parent, cpu, now, true);
        self.end_events(task, now);
        self.exit_record(task, parent, cpu, now, false);
    }

    /// Takes a task's context off its cpu.
    fn leave(&mut self, task: TaskId, now: u64) {
        if let Some(context) = self.tasks.get(&task).and_then(|task| task.context) {
            self.sched_out(context, None, GroupKinds::ALL, now);
            for place in &mut self.cpus {
                if place.task_context == Some(context) {
                    place.task_context = None;
                }
            }
        }
    }

    /// All events of a task's context are over.
    fn end_events(&mut self, task: TaskId, now: u64) {
        let Some(context) = self.tasks.get_mut(&task).and_then(|task| task.context.take()) else { return };
        for event in self.contexts[context].newest_first() {
            self.exit_event(event, false, now);
        }
        self.contexts.remove(context);
    }

    /// The target of one event has ended. `ungroup`: its group goes on without it (rule D42).
    fn exit_event(&mut self, event: EventKey, ungroup: bool, now: u64) {
        let Some(own) = self.events.get(event) else { return };
        let parent = own.parent;
        let task = self.target_of(event);
        self.update_times(event, now);
        // While its group is whole.
        if parent.is_some() && self.events[event].has(AttrFlags::INHERIT_STAT) {
            self.read_record(event, task, now);
        }
        self.detach(event, State::Exit, ungroup || parent.is_some(), now);
        match parent {
            None => self.wake(event),
            Some(parent) => {
                self.fold(event, parent);
                self.wake(parent);
            }
        }
    }

    /// A child's values become its original's (rule D11).
    fn fold(&mut self, child: EventKey, parent: EventKey) {
        let own = &self.events[child];
        let (id, count, times) = (own.id, own.hw.count, own.times);
        let (folded_enabled, folded_running) = (own.child_enabled, own.child_running);
        if let Some(parent) = self.events.get_mut(parent) {
            parent.child_count = parent.child_count.wrapping_add(count);
            parent.child_enabled += times.enabled + folded_enabled;
            parent.child_running += times.running + folded_running;
            parent.children.remove(&id);
        }
        self.gate(child, false);
        self.destroy(child);
    }

    /// The task is gone for good: its numbers are asked for no more.
    pub fn reap(&mut self, task: TaskId, now: u64) {
        self.forget(task, now);
        self.tasks.remove(&task);
    }

    fn forget(&mut self, task: TaskId, now: u64) {
        self.leave(task, now);
        self.end_events(task, now);
    }

    /// A cpu goes offline: its events are over, though they can be read (rule C22).
    pub fn cpu_offline(&mut self, cpu: u32, now: u64) {
        let context = self.cpus[cpu as usize].context;
        for event in self.contexts[context].newest_first() {
            self.update_times(event, now);
            self.detach(event, State::Off, true, now);
        }
        self.cpus[cpu as usize].online = false;
    }

    /// A cpu comes back.
    pub fn cpu_online(&mut self, cpu: u32) {
        self.cpus[cpu as usize].online = true;
    }

    /// A PMU is removed: its events end as revoked (rule M3).
    pub fn unregister(&mut self, pmu: crate::pmu::PmuId, now: u64) {
        for event in self.events.keys().collect::<Vec<_>>() {
            if self.events.get(event).is_some_and(|event| event.pmu == pmu) {
                self.update_times(event, now);
                self.detach(event, State::Revoked, true, now);
                self.set_state(event, State::Revoked, now);
                self.unmap_all(event, now);
                self.wake(event);
            }
        }
        self.pmus.remove(pmu);
    }

    /// Tells the numbers of a task as a pid namespace other than the first sees them (rule H1). Of a child
    /// this can be told before the [`fork`](Self::fork), after [`add_task`](Self::add_task).
    pub fn set_seen_from(&mut self, task: TaskId, namespace: PidNamespace, tid: Tid) {
        if let Some(own) = self.tasks.get_mut(&task) {
            own.seen.insert(namespace, tid);
        }
    }

    /// Tells the namespaces of a task, which its children will have too, unless others are told of them before they are
    /// [made](Self::fork).
    pub fn know_namespaces(&mut self, task: TaskId, links: [NamespaceLink; 7]) {
        if let Some(own) = self.tasks.get_mut(&task) {
            own.namespaces = Some(links);
        }
    }
}

impl core::ops::Deref for Task {
    type Target = TaskFacts;

    fn deref(&self) -> &TaskFacts {
        &self.facts
    }
}
