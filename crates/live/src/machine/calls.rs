//! System calls of tasks: the tracepoints `raw_syscalls:sys_enter` and `sys_exit`, at stops of threads that tell of them.
//!
//! They have the numbers that Linux' tracing file system tells, where it can be read, for programs that look there, and [`RAW_SYSCALLS`] everywhere.

use super::Machine;
use crate::ptrace::{CallStop, Tid};
use crate::stopped::StoppedThread;
use perfuse_abi::{Errno, EventType};
use perfuse_engine::{Engine, Hit, TaskId};
use std::collections::BTreeSet;

/// The tracepoints of the beginning and of the end of calls, by numbers that the kernel gives to none.
pub const RAW_SYSCALLS: [u64; 2] = [60_001, 60_002];

/// Where tracing file systems are.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The tracepoints, and the tasks whose calls are told.
#[derive(Debug)]
pub(super) struct Calls {
    /// Pairs of numbers of the beginning and the end.
    points: Vec<[u64; 2]>,
    /// Tasks whose calls are told since, or no longer.
    changed: BTreeSet<TaskId>,
}

impl Calls {
    pub(super) fn new(engine: &mut Engine) -> Self {
        let number = |place: &str, name: &str| {
            let path = format!("{place}/events/raw_syscalls/{name}/id");
            std::fs::read_to_string(path).ok()?.trim().parse().ok()
        };
        let of_linux =
            PLACES.iter().find_map(|place| Some([number(place, "sys_enter")?, number(place, "sys_exit")?]));
        let points: Vec<[u64; 2]> = of_linux.into_iter().chain([RAW_SYSCALLS]).collect();
        engine.refuse_unknown_tracepoints(Errno::ENOENT);
        points.iter().flatten().for_each(|&id| engine.declare_open_tracepoint(id));
        Calls { points, changed: BTreeSet::new() }
    }
}

impl Machine {
    /// A task is about to leave its cpu: whether its calls are to be told whenever it runs.
    pub(super) fn note_calls(&mut self, task: TaskId, cpu: u32) {
        let heard = |id: &u64| self.engine.listens(cpu, EventType::TRACEPOINT, *id);
        let wanted = self.calls.points.iter().flatten().any(heard);
        let Some(known) = self.tasks.get_mut(&task) else { return };
        if std::mem::replace(&mut known.tells_calls, wanted) != wanted {
            self.calls.changed.insert(task);
        }
    }

    /// Threads whose calls are told since this was asked last, or no longer.
    pub(crate) fn take_call_changes(&mut self) -> Vec<(Tid, bool)> {
        let changed = std::mem::take(&mut self.calls.changed);
        let of = |task| self.tasks.get(&task).map(|known| (known.tid, known.tells_calls));
        changed.into_iter().filter_map(of).collect()
    }

    /// Whether `take_call_changes` has something to tell.
    pub(super) fn calls_have_changed(&self) -> bool {
        !self.calls.changed.is_empty()
    }

    /// Whether the calls of a task are told.
    pub(crate) fn tells_calls(&self, task: TaskId) -> bool {
        self.tasks.get(&task).is_some_and(|known| known.tells_calls)
    }

    /// A task begins a call, or ends one, and is stopped there.
    pub(crate) fn called(&mut self, task: TaskId, stop: CallStop, stopped: &StoppedThread) {
        let Some((_, tid)) = self.tid_of(task) else { return };
        // As Linux writes it: the type, no flags, the thread; the call; its arguments, or its result.
        let (which, values) = match stop {
            CallStop::Entry { number, arguments } => {
                (0, [number].into_iter().chain(arguments).collect::<Vec<_>>())
            }
            CallStop::Exit { result } => (1, vec![stopped.registers().call(), result as u64]),
        };
        let points: Vec<u64> = self.calls.points.iter().map(|pair| pair[which]).collect();
        self.happened(task, stopped, |engine, cpu, now| {
            for id in points {
                let mut record = (id as u16).to_ne_bytes().to_vec();
                record.extend([0; 2]);
                record.extend(tid.to_ne_bytes());
                record.extend(values.iter().flat_map(|value| value.to_ne_bytes()));
                engine.tracepoint(cpu, now, &Hit::new(id, &record), stopped);
            }
        });
    }
}
