//! Tasks whose instructions are counted one by one: which they are, and how many they have done.

use super::Machine;
use crate::ptrace::Tid;
use crate::step::{StepPmu, Steps};
use crate::stopped::StoppedThread;
use perfuse_engine::{AtIp, CpuState, Engine, PmuId, TaskId};
use std::collections::BTreeSet;

/// The PMU `step`, and the tasks that it counts.
#[derive(Debug)]
pub(super) struct Stepping {
    pmu: Option<PmuId>,
    steps: Steps,
    /// Tasks whose instructions are counted since, or no longer.
    changed: BTreeSet<TaskId>,
}

impl Stepping {
    pub(super) fn new(engine: &mut Engine) -> Self {
        let steps = Steps::default();
        let pmu = engine.register(Box::new(StepPmu(steps.clone()))).ok();
        Stepping { pmu, steps, changed: BTreeSet::new() }
    }
}

/// Of a task.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StepCount {
    /// Instructions that the engine has not been told of.
    pub(super) untold: u64,
    /// It is to be stepped; after how many instructions an event wants to know where it is.
    until: Option<u64>,
}

impl Machine {
    /// Events `instructions` that leave the kernel out are counted by single steps from now on, as those of
    /// the PMU `step` always are; or no longer. Open events stay as they are.
    pub fn step_for_instructions(&mut self, on: bool) {
        self.stepping.steps.set_for_instructions(on);
    }

    /// A task is on its cpu: the engine is told of the instructions that it has done.
    pub(super) fn tell_steps(&mut self, task: TaskId, cpu: u32, now: u64, stopped: Option<&dyn CpuState>) {
        let Some(known) = self.tasks.get_mut(&task) else { return };
        let untold = std::mem::take(&mut known.steps.untold);
        if untold == 0 {
            return;
        }
        self.stepping.steps.count(untold);
        let somewhere = AtIp { user: true, ip: 0 };
        let moment = stopped.unwrap_or(&somewhere);
        if let Some(pmu) = self.stepping.pmu {
            self.engine.interrupt(pmu, cpu, now, None, moment);
        }
    }

    /// A task is about to leave its cpu: whether it is to be stepped whenever it runs.
    pub(super) fn note_steps(&mut self, task: TaskId) {
        let wanted = self.stepping.steps.wanted();
        let Some(known) = self.tasks.get_mut(&task) else { return };
        if known.steps.until.is_some() != wanted.is_some() {
            self.stepping.changed.insert(task);
        }
        known.steps.until = wanted;
    }

    /// Threads that are to be stepped since this was asked last, or no longer.
    pub(crate) fn take_step_changes(&mut self) -> Vec<(Tid, bool)> {
        let changed = std::mem::take(&mut self.stepping.changed);
        let of = |task| self.tasks.get(&task).map(|known| (known.tid, known.steps.until.is_some()));
        changed.into_iter().filter_map(of).collect()
    }

    /// Whether `take_step_changes` has something to tell, or threads are to stop at their calls, or no longer.
    pub fn steps_have_changed(&self) -> bool {
        !self.stepping.changed.is_empty() || self.calls_have_changed()
    }

    /// Whether a task is to be stepped.
    pub(crate) fn is_to_be_stepped(&self, task: TaskId) -> bool {
        self.tasks.get(&task).is_some_and(|known| known.steps.until.is_some())
    }

    /// A task has done one instruction more. Whether an event wants to know [where](Self::see_step).
    pub(crate) fn stepped(&mut self, task: TaskId) -> bool {
        let Some(known) = self.tasks.get_mut(&task) else { return false };
        known.steps.untold += 1;
        known.steps.until.is_some_and(|until| known.steps.untold >= until)
    }

    /// The instruction that a task has just done is one at which a sample is due: here it is.
    pub(crate) fn see_step(&mut self, task: TaskId, stopped: &StoppedThread) {
        self.see_maps(task, stopped);
        let wanted = self.wanted;
        let Some(known) = self.tasks.get_mut(&task) else { return };
        if let Some(reading) = known.read(wanted) {
            self.account(task, &reading, Some(stopped));
        }
    }
}
