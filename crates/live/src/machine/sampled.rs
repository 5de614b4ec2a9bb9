//! The sampled tasks; a tick finds out whether one is running, without stopping it.
//!
//! A stop costs the thread that is stopped, so none is asked for in vain: not for one that sleeps, whose system
//! call might end early, and not for one that waits for a cpu, but for those whose cpu this very thread may have
//! taken. Whether a thread runs tell two numbers: it has come to a cpu once more than it has left one.

use super::Machine;
use crate::proc::{self, Progress, Reading};
use crate::sampling::{Clocks, Random, RunState, TaskSampler, Tick, Turns};
use perfuse_engine::TaskId;
use std::collections::BTreeMap;

/// The result of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TickResult {
    /// It is not sampled, or gone.
    Nothing,
    /// It has not run since it was looked at, or sleeps when it is looked at for the first time.
    Idle,
    /// It ran, and needs no sample now.
    Ran,
    /// It was running, or may have been: it is to be stopped. With its cpu.
    Due(u32),
    /// It may be running on this cpu, and another tick will be its.
    Elsewhere(u32),
}

/// The sampling of a task.
#[derive(Debug, Default)]
pub(super) struct SampledTask {
    /// The cpu where it was when it was looked at.
    pub(super) cpu: u32,
    sampler: TaskSampler,
    /// How far it had come when a look found it without a cpu.
    off: Option<Progress>,
    /// How far it had come when a look last found that it had moved on, and when that was.
    moved: Option<(Progress, u64)>,
    /// It has been found with one, or about to get one.
    ran: bool,
    turns: Turns,
}

impl SampledTask {
    /// It has run for so long, and is sampled from now on.
    pub(super) fn is_sampled_from(&mut self, ran_ns: u64) {
        self.sampler = TaskSampler::begin(ran_ns);
    }
}

/// The tasks that clocks sample.
#[derive(Debug)]
pub(super) struct SampledTasks {
    /// How many have their shortest period here.
    periods: BTreeMap<u64, usize>,
    /// Tasks that are sampled since this was asked last.
    new: Vec<TaskId>,
    has_changed: bool,
    random: Random,
}

impl Default for SampledTasks {
    fn default() -> Self {
        SampledTasks {
            periods: BTreeMap::new(),
            new: Vec::new(),
            has_changed: false,
            random: Random::seeded(),
        }
    }
}

impl SampledTasks {
    /// The shortest period of a task is another one; `None`: it is not sampled.
    pub(super) fn changed(&mut self, task: TaskId, before: Option<u64>, now: Option<u64>) {
        if before == now {
            return;
        }
        self.has_changed = true;
        if let Some(before) = before {
            if let Some(tasks) = self.periods.get_mut(&before) {
                *tasks -= 1;
                if *tasks == 0 {
                    self.periods.remove(&before);
                }
            }
        }
        if let Some(now) = now {
            *self.periods.entry(now).or_default() += 1;
            if before.is_none() {
                self.new.push(task);
            }
        }
    }
}

impl Machine {
    /// Whether the sampled tasks, or their periods, have changed since the supervisor set its ticks.
    pub fn period_has_changed(&self) -> bool {
        self.sampled.has_changed
    }

    /// If so: the shortest of all periods in ns, and the tasks that are sampled since then.
    pub(crate) fn take_period_change(&mut self) -> Option<(Option<u64>, Vec<TaskId>)> {
        if !std::mem::take(&mut self.sampled.has_changed) {
            return None;
        }
        let shortest = self.sampled.periods.keys().next().copied();
        Some((shortest, std::mem::take(&mut self.sampled.new)))
    }

    /// Looks at a task that is not stopped, from this cpu. `has_turns`: whether ticks come at another cpu, too.
    pub(crate) fn look(
        &mut self,
        task: TaskId,
        tick: Tick,
        from: Option<u32>,
        has_turns: impl Fn(u32) -> bool,
    ) -> TickResult {
        let Some(known) = self.tasks.get_mut(&task) else { return TickResult::Nothing };
        let Some(period) = known.period else { return TickResult::Nothing };
        let (sampling, files) = (&mut known.sampling, &mut known.files);
        let Some(weight) = sampling.sampler.take_part(tick, period, &mut self.sampled.random) else {
            return TickResult::Ran;
        };
        let progress = files.progress();
        if progress.is_some_and(|progress| sampling.off.is_some_and(|off| off.is_at(progress))) {
            return TickResult::Idle;
        }
        let Some((runnable, cpu)) = files.state() else { return TickResult::Nothing };
        sampling.cpu = cpu;
        sampling.moved = progress.map(|progress| (progress, proc::now_ns()));
        let at = progress.unwrap_or_default();
        let is_here = Some(cpu) == from;
        let is_its_turn = sampling.turns.found(cpu, is_here, tick, &mut self.sampled.random);
        let found = match runnable {
            false => None,
            // The kernel does not count them; but one that has not run yet has none either.
            true if at.arrivals == 0 => (progress.is_none() || at.time_ns > 0).then_some(RunState::Running),
            true if (is_here || has_turns(cpu)) && !is_its_turn => {
                sampling.ran = true;
                return TickResult::Elsewhere(cpu);
            }
            true if is_here => Some(RunState::Preempted),
            true => files.switches().filter(|&left| left < at.arrivals).map(|_| RunState::Running),
        };
        if found != Some(RunState::Running) {
            sampling.off = progress;
        }
        let ran = std::mem::replace(&mut sampling.ran, true);
        match found {
            None if ran => TickResult::Ran,
            None => TickResult::Idle,
            Some(found) => {
                sampling.sampler.found(
                    tick,
                    weight,
                    found,
                    Clocks { ran_ns: at.time_ns, waited_ns: at.waited_ns },
                );
                TickResult::Due(cpu)
            }
        }
    }

    /// Since when a task that is stopped had slept when it was woken: known if it has come to a cpu only once, for this stop,
    /// since a look found that it had moved on. (Its time since may be as much as a tick of the kernel less: so
    /// much too late.)
    pub(crate) fn sleeps_since(&mut self, task: TaskId) -> Option<u64> {
        let known = self.tasks.get_mut(&task)?;
        let (before, at) = known.sampling.moved?;
        let now = known.files.progress()?;
        (now.arrivals == before.arrivals + 1).then(|| at + now.time_ns.saturating_sub(before.time_ns))
    }

    /// A task was stopped when this tick came: there is nothing to look at.
    pub(crate) fn looked_at_stopped(&mut self, task: TaskId, tick: Tick) {
        if let Some(known) = self.tasks.get_mut(&task) {
            if let Some(period) = known.period {
                known.sampling.sampler.take_part(tick, period, &mut self.sampled.random);
            }
        }
    }

    /// Whether a look at a task is to become a sample when it stops.
    pub(super) fn is_due(&self, task: TaskId) -> bool {
        self.tasks.get(&task).is_some_and(|known| known.sampling.sampler.are_due())
    }

    /// A task that was to be stopped is, at this time and with these numbers: the weight of a sample of it, if it was
    /// running when it was looked at. `called`: it is in a system call.
    pub(crate) fn weigh(&mut self, task: TaskId, now: u64, reading: &Reading, called: bool) -> Option<u64> {
        let sampling = &mut self.tasks.get_mut(&task)?.sampling;
        sampling.off = None;
        sampling.sampler.stopped(
            now,
            Clocks { ran_ns: reading.time_ns, waited_ns: reading.waited_ns },
            called,
        )
    }
}
