//! Breakpoints of tasks: those that are on a task whenever it runs, and their hits.
//!
//! The engine says so for each stretch on a cpu anew, as it would for the registers of the cpu. Here the
//! registers belong to the thread, and are only touched when what is on the thread has changed.

use super::Machine;
use crate::debug::HwBreakpoint;
use crate::ptrace::Tid;
use crate::stopped::StoppedThread;
use perfuse_abi::Breakpoint;
use perfuse_engine::{Effect, Engine, EventKey, TaskId};
use std::collections::BTreeSet;

/// Something that is watched, and for which event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArmedBreakpoint {
    pub(crate) breakpoint: HwBreakpoint,
    pub(crate) event: EventKey,
}

/// Effects that have been taken from the engine.
#[derive(Debug, Default)]
pub(super) struct PendingEffects {
    /// Effects that are not about this.
    others: Vec<Effect>,
    /// Tasks with other breakpoints than before.
    changed: BTreeSet<TaskId>,
}

impl Machine {
    /// Sorts the engine's effects; `on`: with the breakpoints on the cpu now.
    fn hear(&mut self, on: &mut Vec<ArmedBreakpoint>) {
        for effect in self.engine.effects() {
            match effect {
                Effect::Watch(watch) => {
                    let (kind, addr, len) = (Breakpoint(watch.kind), watch.addr, watch.len);
                    on.push(ArmedBreakpoint {
                        breakpoint: HwBreakpoint { kind, addr, len },
                        event: watch.event,
                    });
                }
                Effect::Unwatch { event, .. } => on.retain(|watched| watched.event != event),
                other => self.pending_effects.others.push(other),
            }
        }
    }

    /// A task is about to leave its cpu: notes its breakpoints.
    pub(super) fn note_watches(&mut self, task: TaskId) {
        let mut on = Vec::new();
        self.hear(&mut on);
        let Some(known) = self.tasks.get_mut(&task) else { return };
        if known.watches != on {
            known.watches = on;
            self.pending_effects.changed.insert(task);
        }
    }

    /// Takes the effects since this was asked last.
    pub fn effects(&mut self) -> impl Iterator<Item = Effect> + '_ {
        self.hear(&mut Vec::new());
        self.pending_effects.others.drain(..)
    }

    /// Threads whose debug registers have to be changed, and to what, since this was asked last.
    pub(crate) fn take_watch_changes(&mut self) -> Vec<(Tid, Vec<ArmedBreakpoint>)> {
        let changed = std::mem::take(&mut self.pending_effects.changed);
        let of = |task| self.tasks.get(&task).map(|known| (known.tid, known.watches.clone()));
        changed.into_iter().filter_map(of).collect()
    }

    /// Whether `take_watch_changes` has something to tell.
    pub fn watches_have_changed(&self) -> bool {
        !self.pending_effects.changed.is_empty()
    }

    /// The breakpoints of a task.
    pub(crate) fn watches_of(&self, task: TaskId) -> Vec<ArmedBreakpoint> {
        self.tasks.get(&task).map(|known| known.watches.clone()).unwrap_or_default()
    }

    /// A stopped task has hit the breakpoints of these events.
    pub(crate) fn hit(&mut self, task: TaskId, hit: &[EventKey], stopped: &StoppedThread) {
        self.happened(task, stopped, |engine, cpu, now| engine.breakpoints(hit, cpu, now, stopped));
    }

    /// Something happened to a stopped task that events hear of.
    pub(super) fn happened(
        &mut self,
        task: TaskId,
        stopped: &StoppedThread,
        tell: impl FnOnce(&mut Engine, u32, u64),
    ) {
        // Nobody else sees now how far its clocks have come.
        if self.reads_at_hits || self.estimate_switches {
            self.update(task);
        }
        self.see_maps(task, stopped);
        let (now, tick_ns) = (self.now(), self.tick_ns);
        let Some(known) = self.tasks.get_mut(&task) else { return };
        // Events that are throttled wait for it.
        let ticks = now.saturating_sub(known.last_tick) >= tick_ns;
        if ticks {
            known.last_tick = now;
        }
        self.within_hit(task, now, |engine, cpu| {
            if ticks {
                engine.tick(cpu, now);
            }
            tell(engine, cpu, now);
        });
    }

    /// A thread has got the SIGTRAP of an event.
    pub fn trap_delivered(&mut self, event: EventKey) {
        self.engine.trap_delivered(event);
    }
}
