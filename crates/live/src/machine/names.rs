//! Names of threads. A tracer does not hear of `prctl(PR_SET_NAME)`, nor of a write to `/proc/PID/task/TID/comm`: the
//! name is looked at before a sample is written, and when a thread ends. So a sample shows the name that its thread
//! has then, and a thread that was never sampled has its last one.

use super::Machine;
use crate::proc;
use crate::ptrace::Tid;
use perfuse_engine::TaskId;

/// Whether events want to know.
#[derive(Debug, Default)]
pub(super) struct Names {
    wanted: bool,
}

impl Machine {
    /// An event wants names from now on: the process that opened it knows those that threads have.
    pub(super) fn want_names(&mut self) {
        if !std::mem::replace(&mut self.names.wanted, true) {
            for known in self.tasks.values_mut() {
                known.name = proc::comm(known.pid, known.tid);
            }
        }
    }

    /// The name of a thread that has just become known, if names are wanted.
    pub(super) fn first_name(&self, pid: Tid, tid: Tid) -> Vec<u8> {
        if self.names.wanted { proc::comm(pid, tid) } else { Vec::new() }
    }

    /// Tells the name of a task if it is another one than was told.
    pub(crate) fn see_name(&mut self, task: TaskId) {
        if !self.names.wanted {
            return;
        }
        let Some(known) = self.tasks.get_mut(&task) else { return };
        let Some(name) = known.files.name().filter(|name| *name != known.name) else { return };
        known.name.clone_from(&name);
        let now = self.now();
        self.within(task, now, |engine, cpu| engine.comm(task, cpu, now, &name, false));
    }
}
