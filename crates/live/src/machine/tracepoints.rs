//! Tracepoints of tasks: system calls, at stops of threads that tell of them, and births, new programs and ends.

use super::Machine;
use crate::proc;
use crate::ptrace::{CallStop, Tid};
use crate::regs::Registers;
use crate::stopped::{ExitingThread, StoppedThread};
use crate::tracepoints::{self, Tracepoint, What};
use perfuse_abi::{Errno, EventType};
use perfuse_engine::{CpuState, Engine, Hit, TaskId};
use perfuse_trace::Filling;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The tracepoints of which there have been events, and the tasks whose calls are told.
#[derive(Debug, Default)]
pub(super) struct Tracepoints {
    opened: BTreeMap<What, Vec<Arc<Tracepoint>>>,
    /// Tasks whose calls are told since, or no longer.
    changed: BTreeSet<TaskId>,
}

impl Tracepoints {
    pub(super) fn new(engine: &mut Engine) -> Self {
        engine.refuse_unknown_tracepoints(Errno::ENOENT);
        engine.set_filter_maker(tracepoints::filter);
        Tracepoints::default()
    }

    fn of(&self, what: What) -> &[Arc<Tracepoint>] {
        self.opened.get(&what).map_or(&[], Vec::as_slice)
    }
}

/// Data of a call's record, as Linux has them: the head that all records have, and words.
fn record(id: u64, tid: Tid, words: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut record = (id as u16).to_ne_bytes().to_vec();
    record.extend([0; 2]);
    record.extend(tid.to_ne_bytes());
    record.extend(words.into_iter().flat_map(u64::to_ne_bytes));
    record
}

/// The number of a call in the word that it has alone: an int, and nothing.
fn number_alone(number: u64) -> u64 {
    let mut word = [0; 8];
    word[..4].copy_from_slice(&(number as u32).to_ne_bytes());
    u64::from_ne_bytes(word)
}

impl Machine {
    /// An event is to be opened: a tracepoint exists as soon as somebody asks for it.
    pub(super) fn know_tracepoint(&mut self, id: u64) {
        let Some(tracepoint) = tracepoints::get(id) else { return };
        let known = self.tracepoints.opened.entry(tracepoint.what).or_default();
        if known.iter().all(|known| known.id != id) {
            known.push(tracepoint);
            self.engine.declare_open_tracepoint(id);
        }
    }

    /// A task is about to leave its cpu: whether its calls are to be told whenever it runs.
    pub(super) fn note_calls(&mut self, task: TaskId, cpu: u32) {
        let of_calls = self.tracepoints.opened.range(..=What::ExitOf(u64::MAX));
        let mut ids = of_calls.flat_map(|(_, points)| points).map(|point| point.id);
        let wanted = ids.any(|id| self.engine.listens(cpu, EventType::TRACEPOINT, id));
        let Some(known) = self.tasks.get_mut(&task) else { return };
        if std::mem::replace(&mut known.tells_calls, wanted) != wanted {
            self.tracepoints.changed.insert(task);
        }
    }

    /// Threads whose calls are told since this was asked last, or no longer.
    pub(crate) fn take_call_changes(&mut self) -> Vec<(Tid, bool)> {
        let changed = std::mem::take(&mut self.tracepoints.changed);
        let of = |task| self.tasks.get(&task).map(|known| (known.tid, known.tells_calls));
        changed.into_iter().filter_map(of).collect()
    }

    /// Whether `take_call_changes` has something to tell.
    pub(super) fn calls_have_changed(&self) -> bool {
        !self.tracepoints.changed.is_empty()
    }

    /// Whether the calls of a task are told.
    pub(crate) fn tells_calls(&self, task: TaskId) -> bool {
        self.tasks.get(&task).is_some_and(|known| known.tells_calls)
    }

    /// A task begins a call, or ends one, and is stopped there.
    pub(crate) fn called(&mut self, task: TaskId, stop: CallStop, stopped: &StoppedThread) {
        let Some((_, tid)) = self.tid_of(task) else { return };
        let number = match stop {
            CallStop::Entry { number, .. } => number,
            CallStop::Exit { .. } => stopped.registers().call(),
        };
        let (any, this) = match stop {
            CallStop::Entry { .. } => (What::Entry, What::EntryOf(number)),
            CallStop::Exit { .. } => (What::Exit, What::ExitOf(number)),
        };
        let raw = self.tracepoints.of(any).iter().map(|point| (point, number));
        let alone = self.tracepoints.of(this).iter().map(|point| (point, number_alone(number)));
        let told = raw.chain(alone).map(|(point, number)| {
            let mut data = match stop {
                CallStop::Entry { arguments, .. } => {
                    record(point.id, tid, [number].into_iter().chain(arguments))
                }
                CallStop::Exit { result } => record(point.id, tid, [number, result as u64]),
            };
            // It has as many arguments as the call.
            data.truncate(point.size().max(16));
            (point.id, data)
        });
        let told: Vec<(u64, Vec<u8>)> = told.collect();
        if told.is_empty() {
            return;
        }
        self.happened(task, stopped, |engine, cpu, now| {
            for (id, record) in &told {
                engine.tracepoint(cpu, now, &Hit::new(*id, record), stopped);
            }
        });
    }

    /// Tells of what happens to a task, with the fields of its record by their names.
    fn tell(&mut self, what: What, task: TaskId, moment: &dyn CpuState, values: &[(&str, Filling<'_>)]) {
        let (now, Some((_, tid))) = (self.now(), self.tid_of(task)) else { return };
        for point in self.tracepoints.of(what).to_vec() {
            let head =
                [("common_type", Filling::Number(point.id)), ("common_pid", Filling::Number(tid as u64))];
            let record = point.format.fill(&[&head, values].concat());
            self.within(task, now, |engine, cpu| {
                engine.tracepoint(cpu, now, &Hit::new(point.id, &record), moment);
            });
        }
    }

    /// The same of a task that is stopped in the kernel.
    fn tell_stopped(&mut self, what: What, task: TaskId, values: &[(&str, Filling<'_>)]) {
        let stopped = self.tid_of(task).and_then(|(_, tid)| {
            let registers = Registers::of(tid).ok()?;
            Some(StoppedThread::new(tid, registers).in_kernel(true))
        });
        match stopped {
            Some(stopped) => self.tell(what, task, &stopped, values),
            None => self.tell(what, task, &ExitingThread, values),
        }
    }

    /// A task has made another: `sched:sched_process_fork`.
    pub(super) fn tell_fork(&mut self, parent: TaskId, child: Tid) {
        let (false, Some((pid, tid))) = (self.tracepoints.of(What::Fork).is_empty(), self.tid_of(parent))
        else {
            return;
        };
        let name = proc::comm(pid, tid);
        let values = [
            ("parent_comm", Filling::Bytes(&name)),
            ("parent_pid", Filling::Number(tid as u64)),
            ("child_comm", Filling::Bytes(&name)),
            ("child_pid", Filling::Number(child as u64)),
        ];
        self.tell_stopped(What::Fork, parent, &values);
    }

    /// A task has another program: `sched:sched_process_exec`. `former`: its number before.
    pub(super) fn tell_exec(&mut self, task: TaskId, former: Tid) {
        let (false, Some((pid, tid))) = (self.tracepoints.of(What::Exec).is_empty(), self.tid_of(task))
        else {
            return;
        };
        let name = proc::program_name(pid).unwrap_or_default();
        let values = [
            ("filename", Filling::Bytes(&name)),
            ("pid", Filling::Number(tid as u64)),
            ("old_pid", Filling::Number(former as u64)),
        ];
        self.tell_stopped(What::Exec, task, &values);
    }

    /// A task ends: `sched:sched_process_exit`.
    pub(super) fn tell_end(&mut self, task: TaskId) {
        let (false, Some((pid, tid))) = (self.tracepoints.of(What::End).is_empty(), self.tid_of(task)) else {
            return;
        };
        let is_last = self.processes.get(&pid).is_some_and(|process| process.threads == 1);
        let name = proc::comm(pid, tid);
        let values = [
            ("comm", Filling::Bytes(&name)),
            ("pid", Filling::Number(tid as u64)),
            ("prio", Filling::Number(proc::priority(pid, tid).unwrap_or(120) as u64)),
            ("group_dead", Filling::Number(is_last.into())),
        ];
        self.tell(What::End, task, &ExitingThread, &values);
    }
}
