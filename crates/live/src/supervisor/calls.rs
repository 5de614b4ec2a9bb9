//! Tracees whose system calls are told: they stop where each begins and ends.

use super::{Supervisor, Tracee, lock};
use crate::ptrace::{self, CallStop, Resume, Tid};
use crate::regs::Registers;
use crate::stopped::StoppedThread;

/// Whether calls of a tracee are told.
#[derive(Debug, Default)]
pub(super) struct CallState {
    wanted: bool,
    /// It goes on until its next one.
    on: bool,
    /// Its front wants to hear of that.
    is_fronts: bool,
    /// Where it stopped last, a call began.
    has_begun: bool,
}

impl CallState {
    pub(super) fn new(wanted: bool) -> Self {
        CallState { wanted, ..CallState::default() }
    }
}

impl Tracee {
    /// How it goes on, when it is to go on like this.
    pub(super) fn until_call(&mut self, how: Resume) -> Resume {
        self.calls.is_fronts = matches!(how, Resume::Syscall(_));
        self.calls.on = self.calls.wanted;
        match how {
            Resume::Continue(signal) if self.calls.on => Resume::Syscall(signal),
            how => how,
        }
    }
}

impl Supervisor {
    /// Calls of tracees are told from now on, or no longer.
    pub(super) fn follow_calls(&mut self) {
        let changes = lock(&self.machine).take_call_changes();
        for (tid, wanted) in changes {
            let Some(tracee) = self.tracees.get_mut(&tid) else { continue };
            tracee.calls.wanted = wanted;
            // One that has just been born stops by itself, and a fork that is interrupted fails and is begun again.
            if wanted && !tracee.stopped && !tracee.calls.on && !tracee.stepping.is_newborn() {
                // One that is dead needs none.
                let _ = tracee.interrupt(tid);
            }
        }
    }

    /// Whether all whose calls are to be told stop there.
    pub(super) fn calls_are_settled(&self) -> bool {
        self.tracees.values().all(|tracee| !tracee.calls.wanted || tracee.calls.on || tracee.stopped)
    }

    /// A tracee is stopped where a call begins or ends. Whether its front wants to hear of it.
    pub(super) fn called(&mut self, tid: Tid) -> bool {
        let Some(tracee) = self.tracees.get_mut(&tid) else { return true };
        let is_fronts = tracee.calls.is_fronts || !tracee.calls.wanted;
        // A call that was begun again has begun before.
        let has_begun_before = tracee.restarted.is_some();
        if tracee.calls.wanted {
            let Ok(registers) = Registers::of(tid) else { return is_fronts };
            let told = ptrace::call_stop(tid);
            let stop = told.unwrap_or_else(|_| Some(registers.call_stop(tracee.calls.has_begun)));
            let begins = matches!(stop, Some(CallStop::Entry { .. }));
            tracee.calls.has_begun = if has_begun_before { tracee.calls.has_begun } else { begins };
            if let Some(stop) = stop {
                let stopped = StoppedThread::new(tid, registers).in_kernel(true);
                let mut machine = lock(&self.machine);
                let task = machine.task_of(tid);
                match task {
                    Some(task) if !has_begun_before => machine.called(task, stop, &stopped),
                    Some(task) if begins => machine.begin_call(task, &stopped),
                    _ => {}
                }
            }
        }
        is_fronts
    }

    /// A tracee that has just been born is stopped for the first time: the call that made it ends in it, too, with 0.
    pub(super) fn born_in_call(&mut self, tid: Tid) {
        if !self.tracees.get(&tid).is_some_and(|tracee| tracee.stepping.is_newborn()) {
            return;
        }
        let mut machine = lock(&self.machine);
        let Some(task) = machine.task_of(tid).filter(|&task| machine.tells_calls(task)) else { return };
        if let Ok(registers) = Registers::of(tid) {
            let stopped = StoppedThread::new(tid, registers).in_kernel(true);
            machine.called(task, CallStop::Exit { result: 0 }, &stopped);
        }
    }
}
