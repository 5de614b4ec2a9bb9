//! Which tasks are sampled, and what a tick finds out about one without stopping it: whether its next sample is
//! due.
//!
//! A stop costs the thread that is stopped, so none is asked for in vain: not for one that sleeps, whose system
//! call might end early; not for one that has not run for long enough since its last sample; and not for one that
//! waits for a cpu, where so many are busy that the tick would do better to stop who is on it. The clock of a
//! thread that runs is as much as a tick of Linux behind, that of any other is exact. Whether it runs tell two
//! numbers: it has come to a cpu once more than it has left one.

use super::Machine;
use crate::proc::Progress;
use perfuse_engine::TaskId;
use std::collections::BTreeMap;

/// What a look told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// It is not sampled, or gone.
    Nothing,
    /// It has not run since it was looked at, or sleeps when it is looked at for the first time.
    Idle,
    /// It runs or ran, and needs no sample yet, or cannot be stopped now.
    Ran,
    /// A sample of it is due. With its cpu.
    Due(u32),
}

/// What is known of a sampled task.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The cpu where it was when it was looked at.
    pub(super) cpu: u32,
    /// How long it can run, from what the engine was told last, until a sample is due.
    pub(super) left_ns: u64,
    /// When it was last known not to run, and what its clock showed then.
    off_at: u64,
    off_ns: u64,
    /// How far it had come when a look found it not running.
    off: Option<Progress>,
}

impl Seen {
    /// It is stopped.
    pub(super) fn stopped(&mut self, now: u64, time_ns: u64) {
        (self.off_at, self.off_ns, self.off) = (now, time_ns, None);
    }
}

/// The tasks that clocks sample.
#[derive(Debug, Default)]
pub(super) struct Sampled {
    /// How many have their shortest period here.
    periods: BTreeMap<u64, usize>,
    count: usize,
    /// Who is sampled now and was not when this was asked last.
    new: Vec<TaskId>,
    has_changed: bool,
}

impl Sampled {
    /// The shortest period of a task is another one; `None`: it is not sampled.
    pub(super) fn changed(&mut self, task: TaskId, before: Option<u64>, now: Option<u64>) {
        if before == now {
            return;
        }
        self.has_changed = true;
        if let Some(before) = before {
            self.count -= 1;
            if let Some(tasks) = self.periods.get_mut(&before) {
                *tasks -= 1;
                if *tasks == 0 {
                    self.periods.remove(&before);
                }
            }
        }
        if let Some(now) = now {
            self.count += 1;
            *self.periods.entry(now).or_default() += 1;
            if before.is_none() {
                self.new.push(task);
            }
        }
    }
}

impl Machine {
    /// Whether who is sampled, or how often, has changed since the supervisor set its ticks.
    pub fn period_has_changed(&self) -> bool {
        self.sampled.has_changed
    }

    /// If so: the shortest of all periods in ns, and who is sampled since then.
    pub(crate) fn take_period_change(&mut self) -> Option<(Option<u64>, Vec<TaskId>)> {
        if !std::mem::take(&mut self.sampled.has_changed) {
            return None;
        }
        let shortest = self.sampled.periods.keys().next().copied();
        Some((shortest, std::mem::take(&mut self.sampled.new)))
    }

    /// Looks at a task that is not stopped.
    pub(crate) fn look(&mut self, task: TaskId) -> Look {
        let (now, several) = (self.now(), self.sampled.count > 1);
        let Some(known) = self.tasks.get_mut(&task) else { return Look::Nothing };
        if known.period.is_none() {
            return Look::Nothing;
        }
        let (seen, told_ns) = (&mut known.seen, known.told.time_ns);
        let progress = known.files.progress();
        let mut is_due = progress.is_none();
        if let Some(progress) = progress {
            if seen.off == Some(progress) {
                seen.off_at = now;
                return Look::Idle;
            }
            let due_ns = told_ns.saturating_add(seen.left_ns);
            is_due = progress.time_ns >= due_ns;
            // If it has run ever since.
            if !is_due && seen.off_ns + (now - seen.off_at) < due_ns {
                return Look::Ran;
            }
        }
        let Some((runnable, cpu)) = known.files.state() else { return Look::Nothing };
        seen.cpu = cpu;
        let mut waits = || {
            let Progress { arrivals, .. } = progress.unwrap_or_default();
            arrivals > 0 && known.files.switches().is_some_and(|switches| switches >= arrivals)
        };
        if runnable && (is_due || !several || !waits()) {
            return Look::Due(cpu);
        }
        let new = seen.off_at == 0;
        if let Some(progress) = progress {
            (seen.off_at, seen.off_ns, seen.off) = (now, progress.time_ns, Some(progress));
        }
        if new { Look::Idle } else { Look::Ran }
    }
}
