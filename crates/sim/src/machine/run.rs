//! Time: which task runs where, and the next thing that happens.

use super::cpu_state::SimCpuState;
use super::{Machine, SimCpu, SimTask, Switch};
use crate::hardware::Rates;
use crate::program::Step;
use perfuse_engine::{Leaving, TaskId};

impl Machine {
    pub(super) fn doing(&self, cpu: u32) -> SimCpuState {
        match self.cpus[cpu as usize].current.and_then(|task| self.tasks.get(&task)) {
            None => SimCpuState { user: false, idle: true, place: 0, pid: 0 },
            Some(task) => {
                let step = task.cursor.clone().step();
                let kernel = matches!(step, Some(Step::Compute { kernel: true, .. }));
                SimCpuState { user: !kernel, idle: false, place: task.cursor.place(), pid: task.pid }
            }
        }
    }

    /// In the kernel, on behalf of the task on the cpu.
    pub(super) fn in_kernel(&self, cpu: u32) -> SimCpuState {
        SimCpuState { user: false, ..self.doing(cpu) }
    }

    /// Puts a task on a cpu in place of the one that is there.
    pub(super) fn put(&mut self, cpu: u32, next: Option<TaskId>, leaving: Leaving) {
        let previous = self.cpus[cpu as usize].current;
        if previous == next {
            return;
        }
        if let (Some(previous), Leaving::Preempted) = (previous, leaving) {
            self.cpus[cpu as usize].queue.push(previous);
        }
        let doing = self.in_kernel(cpu);
        let own = &mut self.cpus[cpu as usize];
        own.current = next;
        own.slice_ends = self.now + self.setup.slice_ns;
        self.engine.switch(cpu, self.now, leaving, next, &doing);
        self.schedule.push(Switch { at: self.now, cpu, task: next });
        self.carry_out();
    }

    /// A task wants to run: it gets the cpu with the fewest waiting, where it may.
    pub(super) fn make_ready(&mut self, task: TaskId) {
        let own = &self.tasks[&task];
        let load = |cpu: &SimCpu| cpu.queue.len() + usize::from(cpu.current.is_some());
        let last = own.cpu;
        let all = self.cpus.iter().enumerate().filter(|(_, cpu)| !cpu.offline);
        // Where it was before, unless another cpu has less to do.
        let best = all.min_by_key(|(index, cpu)| (load(cpu), *index as u32 != last));
        let cpu = own.on.or(best.map(|(index, _)| index as u32)).unwrap_or(0);
        self.cpus[cpu as usize].queue.push(task);
        if let Some(own) = self.tasks.get_mut(&task) {
            own.cpu = cpu;
        }
    }

    /// Whether a task's step is over now.
    fn step_ends(&self, cpu: u32) -> bool {
        let task = self.cpus[cpu as usize].current.and_then(|task| self.tasks.get(&task));
        task.is_some_and(|task| task.left_ns == Some(0))
    }

    /// Nothing is being written any longer: an interrupt that was to come meanwhile comes now at the latest.
    fn come_late(&mut self) {
        if let Some((pmu, cpu, doing)) = self.nested.take() {
            if !self.engine.interrupt_came(self.now) {
                self.engine.interrupt(pmu, cpu, self.now, self.setup.sample_ns, &doing);
            }
            self.carry_out();
        }
    }

    /// Runs until a time. The events of that very time are still to come.
    pub fn run_until(&mut self, end: u64) {
        self.run(end, false);
    }

    /// The same, or until there is something to be done outside.
    #[cfg(feature = "kernel")]
    pub(crate) fn run_until_told(&mut self, end: u64) {
        self.run(end, true);
    }

    fn run(&mut self, end: u64, stops: bool) {
        loop {
            self.settle();
            self.come_late();
            let is_told = self.told.as_ref().is_some_and(|told| !told.is_empty());
            if self.is_exhausted() || stops && is_told {
                return;
            }
            self.spend(1);
            let next = self.next_moment().map_or(end, |next| next.clamp(self.now, end));
            self.advance(next - self.now);
            if self.now >= end {
                return;
            }
            self.happen();
        }
    }

    /// Everything that takes no time is done: cpus get tasks, tasks do their quick steps.
    pub(super) fn settle(&mut self) {
        loop {
            let mut moved = false;
            for cpu in 0..self.setup.cpus {
                let own = &mut self.cpus[cpu as usize];
                if own.current.is_none() && !own.queue.is_empty() && !own.offline {
                    let next = own.queue.remove(0);
                    self.put(cpu, Some(next), Leaving::Sleeps);
                    moved = true;
                }
                moved |= self.quick_step(cpu);
            }
            moved |= self.balance();
            if !moved || self.spend(1) == 0 {
                return;
            }
        }
    }

    /// A cpu that has nothing to do takes a task that waits elsewhere.
    pub(super) fn balance(&mut self) -> bool {
        let idle = |cpu: &SimCpu| cpu.current.is_none() && cpu.queue.is_empty() && !cpu.offline;
        let Some(to) = self.cpus.iter().position(idle) else { return false };
        let free = |task: &&TaskId| self.tasks[*task].on.is_none_or(|on| on as usize == to);
        let found = self.cpus.iter().enumerate().find_map(|(from, cpu)| {
            // A task that runs nowhere yet will run where it waits.
            cpu.current?;
            Some((from, *cpu.queue.iter().find(free)?))
        });
        let Some((from, task)) = found else { return false };
        self.cpus[from].queue.retain(|other| *other != task);
        self.cpus[to].queue.push(task);
        if let Some(own) = self.tasks.get_mut(&task) {
            own.cpu = to as u32;
        }
        true
    }

    /// The work at hand of a cpu's task.
    fn working(&self, cpu: u32) -> Option<(bool, Rates)> {
        let task = self.cpus[cpu as usize].current?;
        match self.tasks.get(&task)?.cursor.clone().step() {
            Some(Step::Compute { kernel, rates, .. }) => Some((kernel, rates)),
            _ => None,
        }
    }

    /// When the next thing happens.
    fn next_moment(&self) -> Option<u64> {
        let mut moments: Vec<u64> = self.tasks.values().filter_map(|task| task.wakes_at).collect();
        for cpu in 0..self.setup.cpus {
            let own = &self.cpus[cpu as usize];
            if own.offline {
                continue;
            }
            moments.push(own.next_tick);
            moments.extend(self.engine.deadline(cpu));
            let Some(task) = own.current.and_then(|task| self.tasks.get(&task)) else { continue };
            moments.extend(task.left_ns.map(|left| self.now.saturating_add(left)));
            if !own.queue.is_empty() {
                moments.push(own.slice_ends);
            }
            if let (Some((kernel, rates)), Some((_, counter_view))) = (self.working(cpu), &self.pmu) {
                let overflow = counter_view.next_overflow(cpu, kernel, &rates);
                moments.extend(overflow.map(|ns| self.now.saturating_add(ns).max(own.quiet_until)));
            }
            if let (Some((kernel, _)), Some((_, traces))) = (self.working(cpu), &self.traces) {
                let full = traces.next_interrupt(cpu, kernel);
                moments.extend(full.map(|ns| self.now.saturating_add(ns).max(own.trace_quiet_until)));
            }
        }
        moments.into_iter().min()
    }

    /// Time passes while all work.
    fn advance(&mut self, ns: u64) {
        for cpu in 0..self.setup.cpus {
            if let (Some((kernel, rates)), Some((_, counter_view))) = (self.working(cpu), &self.pmu) {
                counter_view.work(cpu, ns, kernel, &rates);
            }
            if let (Some((kernel, _)), Some((_, traces))) = (self.working(cpu), &self.traces) {
                traces.work(cpu, ns, kernel);
            }
            let task = self.cpus[cpu as usize].current.and_then(|task| self.tasks.get_mut(&task));
            if let Some(left) = task.and_then(|task| task.left_ns.as_mut()) {
                *left -= ns.min(*left);
            }
        }
        self.now += ns;
    }

    /// Everything that is due now.
    fn happen(&mut self) {
        let now = self.now;
        for cpu in 0..self.setup.cpus {
            if self.cpus[cpu as usize].offline {
                continue;
            }
            let doing = self.doing(cpu);
            if let (Some((kernel, rates)), Some((pmu, counter_view))) = (self.working(cpu), &self.pmu) {
                let due = self.cpus[cpu as usize].quiet_until <= now;
                if due && counter_view.next_overflow(cpu, kernel, &rates) == Some(0) {
                    self.cpus[cpu as usize].quiet_until = now + self.setup.interrupt_ns;
                    if self.setup.nesting && self.nested.is_none() && self.step_ends(cpu) {
                        self.engine.interrupt_within(*pmu, cpu, Box::new(doing));
                        self.nested = Some((*pmu, cpu, doing));
                    } else {
                        self.engine.interrupt(*pmu, cpu, now, self.setup.sample_ns, &doing);
                    }
                }
            }
            if let (Some((kernel, _)), Some((pmu, traces))) = (self.working(cpu), &self.traces) {
                let due = self.cpus[cpu as usize].trace_quiet_until <= now;
                if due && traces.next_interrupt(cpu, kernel) == Some(0) {
                    self.cpus[cpu as usize].trace_quiet_until = now + self.setup.interrupt_ns;
                    self.engine.interrupt(*pmu, cpu, now, None, &doing);
                }
            }
            if self.engine.deadline(cpu).is_some_and(|at| at <= now) {
                self.engine.expire(cpu, now, &doing);
            }
            if self.cpus[cpu as usize].next_tick <= now {
                self.cpus[cpu as usize].next_tick += self.engine.config().tick_ns();
                self.engine.tick(cpu, now);
            }
            self.carry_out();
            let own = &self.cpus[cpu as usize];
            let Some(task) = own.current else { continue };
            let (slice_over, others) = (own.slice_ends <= now, !own.queue.is_empty());
            if let Some(own) = self.tasks.get_mut(&task) {
                if own.left_ns == Some(0) {
                    own.left_ns = None;
                    own.cursor.advance();
                }
            }
            if slice_over && others {
                let next = self.cpus[cpu as usize].queue.remove(0);
                self.put(cpu, Some(next), Leaving::Preempted);
            }
        }
        let due = |task: &SimTask| task.wakes_at.is_some_and(|at| at <= now);
        let awake: Vec<TaskId> = self.tasks.iter().filter(|(_, task)| due(task)).map(|(id, _)| *id).collect();
        for task in awake {
            if let Some(own) = self.tasks.get_mut(&task) {
                own.wakes_at = None;
            }
            self.make_ready(task);
        }
    }
}
