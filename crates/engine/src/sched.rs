//! Scheduling: contexts and groups go on the cpu and off it (rules C10 to C20), in transactions, in
//! turns (C25 to C29).

use crate::context::{ContextKey, ContextKind, GroupKind, GroupKinds};
use crate::effect::Notice;
use crate::engine::Engine;
use crate::event::{EventKey, State};
use crate::pmu::{PmuId, THROTTLED, Transaction};
use perfuse_abi::{AttrFlags, Errno};

#[cfg(test)]
mod tests;

impl Engine {
    /// Puts a context's groups on a cpu, as far as they are not there (rule C10). `pmu`: only of this one.
    pub(crate) fn sched_in(
        &mut self,
        context: ContextKey,
        cpu: u32,
        pmu: Option<PmuId>,
        kinds: GroupKinds,
        now: u64,
    ) {
        if self.contexts[context].events.is_empty() {
            return;
        }
        self.start_clock(context, cpu, now);
        let own = &mut self.contexts[context];
        let had = own.scheduled;
        own.scheduled =
            GroupKinds { pinned: had.pinned | kinds.pinned, flexible: had.flexible | kinds.flexible };
        for kind in [GroupKind::Pinned, GroupKind::Flexible] {
            if kinds.has(kind) && !had.has(kind) {
                self.each_pmu(context, pmu, |engine, pmu| engine.pass(context, cpu, pmu, kind, now));
            }
        }
    }

    /// A context is on a cpu. Its clock runs, unless its task [does not](Self::pause).
    fn start_clock(&mut self, context: ContextKey, cpu: u32, now: u64) {
        if !self.contexts[context].is_task() || !self.cpus[cpu as usize].paused {
            self.contexts[context].clock.start(now);
        }
    }

    /// Does something for each PMU that has events in a context; `only`: for this one.
    fn each_pmu(
        &mut self,
        context: ContextKey,
        only: Option<PmuId>,
        mut step: impl FnMut(&mut Engine, PmuId),
    ) {
        if let Some(only) = only {
            if self.contexts[context].pmus.contains_key(&only) {
                step(self, only);
            }
            return;
        }
        let mut last = None;
        while let Some(pmu) = self.contexts[context].pmu_after(last) {
            step(self, pmu);
            last = Some(pmu);
        }
    }

    /// One pass: all groups of a kind of one PMU get their turn (rules C11, C12).
    fn pass(&mut self, context: ContextKey, cpu: u32, pmu: PmuId, kind: GroupKind, now: u64) {
        let mut turns = core::mem::take(&mut self.turns);
        let (own, cgroups) = (&self.contexts[context], self.cgroups_of(self.cpus[cpu as usize].current));
        own.groups_of(kind).for_cpu(own.kind, cpu, pmu, cgroups, &mut turns);
        let mut room = true;
        for (_, leader) in turns.drain(..) {
            if self.events[leader].state <= State::Off || self.events[leader].state == State::Active {
                continue;
            }
            if !self.matches(leader, cpu) {
                continue;
            }
            if self.may_go_on(context, leader, cpu, pmu, kind, room)
                && self.group_sched_in(leader, cpu, now).is_ok()
            {
                let index = self.events[leader].group_index;
                self.contexts[context].pmu(pmu).active(kind).insert(index, leader);
            }
            if self.events[leader].state == State::Inactive {
                room = false;
                match kind {
                    GroupKind::Pinned => {
                        self.set_state(leader, State::Error, now);
                        self.signal(leader, Notice::Err);
                        self.wake(leader);
                    }
                    GroupKind::Flexible => {
                        self.contexts[context].pmu(pmu).rotate_necessary = true;
                        let due = now + self.pmus.get(pmu).mux_interval_ns;
                        self.cpus[cpu as usize].pmu(pmu).rotate_at.get_or_insert(due);
                        self.update_page(leader, now);
                    }
                }
            }
        }
        self.turns = turns;
    }

    /// Rule C12, steps 1 to 3.
    fn may_go_on(
        &mut self,
        context: ContextKey,
        leader: EventKey,
        cpu: u32,
        pmu: PmuId,
        kind: GroupKind,
        room: bool,
    ) -> bool {
        if self.events[leader].software_group {
            return true;
        }
        if self.cpus[cpu as usize].pmu(pmu).exclusive {
            return false;
        }
        let alone = self.events[leader].has(AttrFlags::EXCLUSIVE);
        if alone && !self.contexts[context].pmu(pmu).active(kind).is_empty() {
            return false;
        }
        room
    }

    /// All members or none (rule C13).
    fn group_sched_in(&mut self, leader: EventKey, cpu: u32, now: u64) -> Result<(), Errno> {
        let place = self.events[leader].place;
        let txn = |engine: &mut Engine, call: &mut dyn FnMut(&mut dyn crate::pmu::Pmu)| {
            if let Some(pmu) = engine.pmus.driver(place) {
                call(pmu);
            }
        };
        txn(self, &mut |pmu| pmu.start_txn(cpu, Transaction::Add));
        let members = self.members(leader);
        let mut result = Ok(());
        let mut tried = 0;
        while let (Ok(()), Some(&member)) = (result, members.get(tried)) {
            result = self.event_sched_in(member, cpu, now);
            tried += usize::from(result.is_ok());
        }
        if result.is_ok() {
            txn(self, &mut |pmu| result = pmu.commit_txn(cpu));
        }
        if result.is_ok() {
            members.iter().for_each(|&member| self.update_page(member, now));
        } else {
            // Siblings first, then the leader.
            let (leaders, siblings) = members[..tried].split_at(tried.min(1));
            siblings.iter().chain(leaders).for_each(|&member| self.event_sched_out(member, now));
            txn(self, &mut |pmu| pmu.cancel_txn(cpu));
        }
        self.done_with(members);
        result
    }

    /// Rule C14.
    fn event_sched_in(&mut self, event: EventKey, cpu: u32, now: u64) -> Result<(), Errno> {
        if self.events[event].state <= State::Off {
            return Ok(());
        }
        self.events[event].on = Some(cpu);
        self.set_state(event, State::Active, now);
        if self.events[event].hw.interrupts == THROTTLED {
            self.events[event].hw.interrupts = 0;
            if self.events[event].is_leader() {
                self.log_throttle(event, false, cpu, now);
            }
        }
        self.tell_itrace(event, cpu, now);
        let added =
            self.drive(event, cpu, now, |pmu, cx, hw| pmu.add(cx, hw, true)).unwrap_or(Err(Errno::ENODEV));
        if let Err(errno) = added {
            self.set_state(event, State::Inactive, now);
            self.events[event].on = None;
            return Err(errno);
        }
        let own = &self.events[event];
        let (place, software, samples) = (own.place, own.software, own.is_sampling());
        let exclusive = own.has(AttrFlags::EXCLUSIVE);
        self.cpus[cpu as usize].sampling += usize::from(samples);
        let own = self.cpus[cpu as usize].pmu(place);
        own.active += usize::from(!software);
        own.exclusive |= exclusive;
        Ok(())
    }

    /// Takes one event off its cpu.
    pub(crate) fn event_sched_out(&mut self, event: EventKey, now: u64) {
        let (State::Active, Some(cpu)) = (self.events[event].state, self.events[event].on) else { return };
        if let (true, Some(context)) = (self.events[event].is_leader(), self.events[event].context) {
            let own = &self.events[event];
            let (place, kind, index) = (own.place, GroupKind::of(own), own.group_index);
            self.contexts[context].pmu(place).active(kind).remove(&index);
        }
        self.drive(event, cpu, now, |pmu, cx, hw| pmu.del(cx, hw));
        let placing = self.placing;
        let own = &mut self.events[event];
        own.on = None;
        own.hw.due &= placing;
        let state = if core::mem::take(&mut own.pending_disable) { State::Off } else { State::Inactive };
        let (place, software, exclusive) = (own.place, own.software, own.has(AttrFlags::EXCLUSIVE));
        let samples = own.is_sampling();
        self.set_state(event, state, now);
        self.cpus[cpu as usize].sampling -= usize::from(samples);
        let pmu = self.cpus[cpu as usize].pmu(place);
        pmu.active -= usize::from(!software);
        if exclusive || pmu.active == 0 {
            pmu.exclusive = false;
        }
        self.update_page(event, now);
    }

    /// Takes a group off its cpu.
    pub(crate) fn group_sched_out(&mut self, leader: EventKey, now: u64) {
        if self.events[leader].state == State::Active {
            let members = self.members(leader);
            members.iter().for_each(|&member| self.event_sched_out(member, now));
            self.done_with(members);
        }
    }

    /// Takes a context's groups off its cpu. `pmu`: only of this one.
    pub(crate) fn sched_out(&mut self, context: ContextKey, pmu: Option<PmuId>, kinds: GroupKinds, now: u64) {
        let own = &mut self.contexts[context];
        let had = own.scheduled;
        own.scheduled =
            GroupKinds { pinned: had.pinned & !kinds.pinned, flexible: had.flexible & !kinds.flexible };
        let changed =
            GroupKinds { pinned: had.pinned & kinds.pinned, flexible: had.flexible & kinds.flexible };
        self.each_pmu(context, pmu, |engine, pmu| engine.pmu_sched_out(context, pmu, changed, now));
        // Only now: what is taken off counts its times up to this moment.
        let own = &mut self.contexts[context];
        if own.scheduled == GroupKinds::default() {
            own.clock.stop(now);
        }
    }

    fn pmu_sched_out(&mut self, context: ContextKey, pmu: PmuId, kinds: GroupKinds, now: u64) {
        for kind in [GroupKind::Pinned, GroupKind::Flexible] {
            if kinds.has(kind) {
                // All leave: no event has to be looked for in the list.
                let active = core::mem::take(self.contexts[context].pmu(pmu).active(kind));
                active.into_values().for_each(|leader| self.group_sched_out(leader, now));
            }
        }
        if kinds.flexible {
            self.contexts[context].pmu(pmu).rotate_necessary = false;
        }
    }

    /// All events of equal and lower priority get a new turn (rule C17): because of groups of `kind` of
    /// the cpu's context, or of the running task's.
    pub(crate) fn resched(&mut self, cpu: u32, pmu: Option<PmuId>, kind: GroupKind, of_cpu: bool, now: u64) {
        let kinds = GroupKinds { pinned: kind == GroupKind::Pinned, flexible: true };
        let (own, task) = (self.cpus[cpu as usize].context, self.cpus[cpu as usize].task_context);
        if let Some(task) = task {
            self.sched_out(task, pmu, kinds, now);
        }
        if of_cpu {
            self.sched_out(own, pmu, kinds, now);
        } else if kinds.pinned {
            self.sched_out(own, pmu, GroupKinds::FLEXIBLE, now);
        }
        self.sched_in_all(cpu, pmu, now);
    }

    /// All passes in their order (rule C10).
    pub(crate) fn sched_in_all(&mut self, cpu: u32, pmu: Option<PmuId>, now: u64) {
        let (own, task) = (self.cpus[cpu as usize].context, self.cpus[cpu as usize].task_context);
        let pinned = GroupKinds { pinned: true, flexible: false };
        for kinds in [pinned, GroupKinds::FLEXIBLE] {
            self.sched_in(own, cpu, pmu, kinds, now);
            if let Some(task) = task {
                self.sched_in(task, cpu, pmu, kinds, now);
            }
        }
        self.settle(now);
    }

    /// The time of a PMU's turns on a cpu is over (rules C25 to C28).
    pub(crate) fn rotate(&mut self, cpu: u32, pmu: PmuId, now: u64) {
        let (own, task) = (self.cpus[cpu as usize].context, self.cpus[cpu as usize].task_context);
        let task = task.filter(|&task| self.contexts[task].pmus.contains_key(&pmu));
        let needs = |engine: &Engine, context: ContextKey| {
            engine.contexts[context].pmus.get(&pmu).is_some_and(|pmu| pmu.rotate_necessary)
        };
        let of_cpu = needs(self, own);
        let of_task = task.filter(|&task| needs(self, task));
        if !of_cpu && of_task.is_none() {
            self.cpus[cpu as usize].pmu(pmu).rotate_at = None;
            return;
        }
        let next = now + self.pmus.get(pmu).mux_interval_ns;
        self.cpus[cpu as usize].pmu(pmu).rotate_at = Some(next);
        let task_event = of_task.and_then(|task| self.event_to_rotate(task, cpu, pmu));
        let cpu_event = if of_cpu { self.event_to_rotate(own, cpu, pmu) } else { None };
        let moved = task.filter(|_| task_event.is_some() || cpu_event.is_some());
        if let Some(task) = moved {
            self.pmu_sched_out(task, pmu, GroupKinds::FLEXIBLE, now);
        }
        if let Some(event) = cpu_event {
            self.pmu_sched_out(own, pmu, GroupKinds::FLEXIBLE, now);
            self.move_to_end(own, event);
            self.pass(own, cpu, pmu, GroupKind::Flexible, now);
        }
        if let (Some(task), Some(event)) = (task, task_event) {
            self.move_to_end(task, event);
        }
        if let Some(task) = moved {
            self.pass(task, cpu, pmu, GroupKind::Flexible, now);
        }
    }

    fn event_to_rotate(&mut self, context: ContextKey, cpu: u32, pmu: PmuId) -> Option<EventKey> {
        let own = &mut self.contexts[context];
        let turn = own.pmu(pmu);
        turn.rotate_necessary = false;
        let active = turn.flexible_active.values().next().copied();
        active.or_else(|| own.flexible.first(own.kind, cpu, pmu))
    }

    fn move_to_end(&mut self, context: ContextKey, leader: EventKey) {
        let own = &mut self.contexts[context];
        let event = &mut self.events[leader];
        own.flexible.remove(&event.order());
        event.group_index = own.flexible.next_index();
        own.flexible.insert(event.order(), leader);
    }

    /// Puts an event into a context (rule C17). One that is off moves nobody, unless it is the first.
    pub(crate) fn install(&mut self, context: ContextKey, event: EventKey, now: u64) {
        let first = self.contexts[context].events.is_empty();
        self.attach(context, event, now);
        let cgroup = self.events[event].cgroup.is_some();
        // A group that moved for it has to come back, though (rule C36).
        let own = &self.events[event];
        let moved = own.leader != event && !own.software;
        if self.effective_state(event) == State::Off && !first && !cgroup && !moved {
            return;
        }
        if let Some(cpu) = self.cpu_of_or_join(context, now) {
            self.arrive(context, event, cpu, now);
        }
    }

    /// An event is there, or on, that was not before: all events of equal and lower priority get a new turn
    /// (rule C17), unless that would leave all others as they are.
    fn arrive(&mut self, context: ContextKey, event: EventKey, cpu: u32, now: u64) {
        let leader = self.events[event].leader;
        let (place, kind) = (self.events[event].place, GroupKind::of(&self.events[leader]));
        if self.comes_last(context, event, cpu) {
            if leader != event {
                if self.event_sched_in(event, cpu, now).is_ok() {
                    self.update_page(event, now);
                    return;
                }
            } else if self.matches(event, cpu) && self.group_sched_in(event, cpu, now).is_ok() {
                let index = self.events[event].group_index;
                self.contexts[context].pmu(place).active(kind).insert(index, event);
                return;
            }
        }
        let of_cpu = !self.contexts[context].is_task();
        self.resched(cpu, Some(place), kind, of_cpu, now);
    }

    /// Whether a new turn would put all who are on the cpu back as they are, and this event behind them:
    /// software always fits, and where no event samples only the order matters (rules C10, H4). Samplers start
    /// again with their periods (rule I7), and throttled events go on (rule I13).
    fn comes_last(&self, context: ContextKey, event: EventKey, cpu: u32) -> bool {
        let own = &self.events[event];
        let (leader, place) = (&self.events[own.leader], own.place);
        let kind = GroupKind::of(leader);
        let holder = &self.contexts[context];
        let ready = own.state == State::Inactive && leader.software_group && holder.scheduled.has(kind);
        let own_cpu = &self.cpus[cpu as usize];
        if !ready || leader.place != place || own_cpu.sampling > 0 || own_cpu.throttled {
            return false;
        }
        let last = |context: ContextKey, kind: GroupKind| {
            let turn = self.contexts[context].pmus.get(&place)?;
            let active = if kind == GroupKind::Pinned { &turn.pinned_active } else { &turn.flexible_active };
            active.last_key_value().map(|(index, _)| *index)
        };
        let (wide, task) = (own_cpu.context, own_cpu.task_context);
        let passes = [
            (Some(wide), GroupKind::Pinned),
            (task, GroupKind::Pinned),
            (Some(wide), GroupKind::Flexible),
            (task, GroupKind::Flexible),
        ];
        let mut later = passes.into_iter().skip_while(|pass| *pass != (Some(context), kind)).skip(1);
        if later.any(|(context, kind)| context.is_some_and(|context| last(context, kind).is_some())) {
            return false;
        }
        let before = last(context, kind);
        if own.is_leader() {
            return before.is_none_or(|before| before < own.group_index);
        }
        leader.siblings.last() == Some(event)
            && leader.state == State::Active
            && before == Some(leader.group_index)
    }

    /// Where a context is on a cpu. A task that runs and has got its first event joins its cpu now.
    pub(crate) fn cpu_of_or_join(&mut self, context: ContextKey, now: u64) -> Option<u32> {
        if let ContextKind::Task(task) = self.contexts[context].kind {
            let cpu = self.tasks.get(&task)?.on?;
            let place = &mut self.cpus[cpu as usize];
            if place.task_context.is_none() && place.current == Some(task) {
                place.task_context = Some(context);
                self.start_clock(context, cpu, now);
            }
        }
        self.cpu_of(context)
    }

    /// Adds an event to the lists of a context and of its group; nothing moves.
    pub(crate) fn attach(&mut self, context: ContextKey, event: EventKey, now: u64) {
        self.last_sequence += 1;
        let sequence = self.last_sequence;
        let own = &mut self.events[event];
        (own.context, own.sequence) = (Some(context), sequence);
        own.times.stamp = 0;
        let stamp = self.clock_of(event, now);
        self.events[event].times.stamp = stamp;
        let (leader, place) = (self.events[event].leader, self.events[event].place);
        let holder = &mut self.contexts[context];
        holder.events.insert(sequence, event);
        holder.generation += 1;
        holder.cloned_from = None;
        holder.pmu(place).events += 1;
        if leader == event {
            self.add_group(context, event);
        } else {
            let own = &self.events[event];
            let (id, format, software) = (own.id, own.attr().read_format, own.software);
            let leader = &mut self.events[leader];
            leader.siblings.insert(id, event, format);
            leader.group_generation += 1;
            leader.software_group &= software;
        }
        self.hear_sideband(event);
    }

    /// Gives a leader its place among the groups.
    pub(crate) fn add_group(&mut self, context: ContextKey, leader: EventKey) {
        let kind = GroupKind::of(&self.events[leader]);
        let groups = self.contexts[context].groups(kind);
        self.events[leader].group_index = groups.next_index();
        groups.insert(self.events[leader].order(), leader);
    }

    /// Takes an event out of its context; its state becomes `state` unless it is worse already.
    /// `ungroup`: out of its group too (rules C39 to C42).
    pub(crate) fn detach(&mut self, event: EventKey, state: State, ungroup: bool, now: u64) {
        let Some(context) = self.events[event].context else { return };
        self.event_sched_out(event, now);
        let state = state.min(self.events[event].state);
        self.set_state(event, state, now);
        if ungroup {
            self.ungroup(event, now);
        }
        let own = &self.events[event];
        let (sequence, place, kind) = (own.sequence, own.place, GroupKind::of(own));
        let order = own.is_leader().then(|| own.order());
        let holder = &mut self.contexts[context];
        if let Some(order) = order {
            holder.groups(kind).remove(&order);
        }
        holder.events.remove(&sequence);
        holder.generation += 1;
        holder.cloned_from = None;
        let turn = holder.pmu(place);
        turn.events -= 1;
        if turn.events == 0 {
            holder.pmus.remove(&place);
        }
        if holder.events.is_empty() {
            holder.clock.stop(now);
            holder.scheduled = GroupKinds::default();
        }
        self.stop_hearing_sideband(event);
        // Times are final: without a context no clock moves them.
        self.events[event].context = None;
        self.update_page(event, now);
    }

    /// Dissolves the group of a leader, or takes a sibling out of its group.
    pub(crate) fn ungroup(&mut self, event: EventKey, now: u64) {
        let leader = self.events[event].leader;
        if leader != event {
            self.update_times(event, now);
            let (id, format) = (self.events[event].id, self.events[event].attr().read_format);
            let leader = &mut self.events[leader];
            leader.siblings.remove(id, format);
            leader.group_generation += 1;
            self.events[event].leader = event;
            return;
        }
        let software_group = self.events[event].software_group;
        for sibling in core::mem::take(&mut self.events[event].siblings).iter() {
            self.update_times(sibling, now);
            if self.events[sibling].hw.needs_leader {
                self.event_sched_out(sibling, now);
                self.set_state(sibling, State::Error, now);
            }
            let own = &mut self.events[sibling];
            own.leader = sibling;
            own.software_group = software_group;
            let (context, active) = (own.context, own.state == State::Active);
            let (place, kind) = (own.place, GroupKind::of(own));
            if let Some(context) = context {
                self.add_group(context, sibling);
                if active {
                    let index = self.events[sibling].group_index;
                    self.contexts[context].pmu(place).active(kind).insert(index, sibling);
                }
            }
        }
        self.events[event].group_generation += 1;
    }

    /// `PERF_EVENT_IOC_DISABLE` of one event (rule C45).
    pub(crate) fn disable_event(&mut self, event: EventKey, now: u64) {
        if self.events[event].state < State::Inactive {
            return;
        }
        if self.events[event].is_leader() {
            self.group_sched_out(event, now);
        } else {
            self.event_sched_out(event, now);
        }
        self.set_state(event, State::Off, now);
        self.update_page(event, now);
    }

    /// `PERF_EVENT_IOC_ENABLE` of one event (rule C46).
    pub(crate) fn enable_event(&mut self, event: EventKey, now: u64) {
        let state = self.events[event].state;
        if state >= State::Inactive || state < State::Error {
            return;
        }
        let Some(context) = self.events[event].context else { return };
        // Rule C40: without its group it stays where it is.
        let own = &self.events[event];
        if state == State::Error && own.hw.needs_leader && own.is_leader() {
            return;
        }
        if state == State::Error {
            self.set_state(event, State::Off, now);
        }
        self.set_state(event, State::Inactive, now);
        let Some(cpu) = self.cpu_of_or_join(context, now) else { return };
        let leader = self.events[event].leader;
        if self.matches(event, cpu) && (leader == event || self.events[leader].state == State::Active) {
            self.arrive(context, event, cpu, now);
        }
        self.update_page(event, now);
    }
}
