//! Tracees whose system calls are told: they stop where each begins and ends.

use super::{Supervisor, Tracee, lock, options_of};
use crate::proc;
use crate::ptrace::{self, CallStop, Resume, Status, Tid};
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
    /// The number of the last one that began, and when that was.
    number: u64,
    began: Option<u64>,
    /// It was interrupted, and may be begun again: that answer.
    held: Option<i64>,
    /// The kernel is about to begin it again, after this answer, as nothing but a stop of ours has interrupted it.
    goes_on: Option<i64>,
    /// It is the one that has begun before, whatever number it goes on with.
    is_same: bool,
    /// Its program has not begun yet, and what its calls map may have places of probes.
    maps: bool,
}

impl CallState {
    pub(super) fn new(wanted: bool) -> Self {
        CallState { wanted, ..CallState::default() }
    }

    /// Whether the tracee, which is about to end, is in a call that does not end it by itself.
    fn is_cut(&self, registers: &Registers) -> bool {
        self.wanted && self.has_begun && !registers.ends_thread()
    }

    /// When the call began that the tracee was in last, if that is known.
    pub(super) fn began(&self) -> Option<u64> {
        self.began.filter(|_| self.wanted)
    }

    /// Notes whether the program of the tracee is still being made ready: its calls are stopped at for what they map.
    pub(super) fn set_maps(&mut self, maps: bool) {
        self.maps = maps;
    }

    /// Notes that the tracee stops by itself when it goes on, as its process is stopped.
    pub(super) fn put_off(&mut self) {
        self.on = self.wanted;
    }
}

impl Tracee {
    /// How it goes on, when it is to go on like this.
    pub(super) fn until_call(&mut self, how: Resume) -> Resume {
        self.calls.is_fronts = matches!(how, Resume::Syscall(_));
        self.calls.on = self.calls.wanted;
        match how {
            Resume::Continue(signal) if self.calls.on || self.calls.maps => Resume::Syscall(signal),
            how => how,
        }
    }
}

impl Supervisor {
    /// Calls of tracees are told from now on, or no longer.
    pub(super) fn follow_calls(&mut self) {
        // Others see the change as made when they get the lock: by then all have been asked to stop.
        let mut machine = lock(&self.machine);
        for (tid, wanted) in machine.take_call_changes() {
            let Some(tracee) = self.tracees.get_mut(&tid) else { continue };
            tracee.calls.wanted = wanted;
            // Of a call that goes on unheard nothing is known later.
            (tracee.calls.held, tracee.calls.goes_on, tracee.calls.is_same) = (None, None, false);
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

    /// Whether the call that a tracee is in was begun again.
    pub(super) fn is_begun_again(&self, tid: Tid) -> bool {
        self.tracees.get(&tid).is_some_and(|tracee| tracee.restarted.is_some())
    }

    /// A tracee is stopped where a call begins or ends. Whether its front wants to hear of it.
    pub(super) fn called(&mut self, tid: Tid) -> bool {
        let Some(tracee) = self.tracees.get_mut(&tid) else { return true };
        let options = options_of(self.options, tracee.attached);
        let is_fronts = tracee.calls.is_fronts || !(tracee.calls.wanted || tracee.calls.maps);
        if !(tracee.calls.wanted || tracee.calls.maps) {
            return is_fronts;
        }
        let Ok(registers) = Registers::of(tid) else { return is_fronts };
        let told = ptrace::call_stop(tid);
        let Some(stop) = told.unwrap_or_else(|_| Some(registers.call_stop(tracee.calls.has_begun))) else {
            return is_fronts;
        };
        let begins = matches!(stop, CallStop::Entry { .. });
        if tracee.calls.maps && !begins && registers.maps_memory() {
            self.stale.insert(tracee.pid);
        }
        if !tracee.calls.wanted {
            return is_fronts;
        }
        let stopped = StoppedThread::new(tid, registers).in_kernel(true);
        let mut machine = lock(&self.machine);
        let Some(task) = machine.task_of(tid) else { return is_fronts };
        // One that was begun again has begun before, and its end is told when it is sure.
        if tracee.restarted.is_some() {
            if begins {
                machine.begin_call(task, &stopped);
            }
            return is_fronts;
        }
        tracee.calls.has_begun = begins;
        if begins && tracee.calls.goes_on.take().is_some() {
            tracee.calls.is_same = true;
            machine.begin_call(task, &stopped);
            return is_fronts;
        }
        match stop {
            CallStop::Entry { number, .. } => {
                (tracee.calls.number, tracee.calls.began) = (number, Some(proc::now_ns()));
                if machine.tells_sleep() || machine.tells_cut_calls() {
                    tracee.stepping.tell_of_end(tid, options);
                }
                machine.called(task, number, stop, &stopped);
            }
            CallStop::Exit { result } if registers.was_interrupted() || Registers::is_restart(result) => {
                tracee.calls.held = Some(result);
            }
            CallStop::Exit { .. } => {
                let is_same = std::mem::take(&mut tracee.calls.is_same);
                let number = if is_same { tracee.calls.number } else { registers.call() };
                machine.called(task, number, stop, &stopped);
            }
        }
        is_fronts
    }

    /// A front has done the call of a tracee while that stood at its beginning, with this result: no stop tells of its end.
    pub(crate) fn call_was_done(&mut self, tid: Tid, result: i64) {
        let begun = |tracee: &&mut Tracee| tracee.calls.wanted && tracee.calls.has_begun;
        let Some(tracee) = self.tracees.get_mut(&tid).filter(begun) else { return };
        (tracee.calls.has_begun, tracee.calls.is_same) = (false, false);
        let (number, Ok(registers)) = (tracee.calls.number, Registers::of(tid)) else { return };
        let stopped = StoppedThread::new(tid, registers).in_kernel(true);
        let mut machine = lock(&self.machine);
        if let Some(task) = machine.task_of(tid) {
            machine.called(task, number, CallStop::Exit { result }, &stopped);
        }
    }

    /// A tracee is stopped, and it is sure whether its call goes on; `went_on`: it had been begun again before.
    pub(super) fn settle_call(&mut self, tid: Tid, status: Status, went_on: bool) {
        let Some(tracee) = self.tracees.get_mut(&tid) else { return };
        let held = tracee.calls.held.take();
        let again = held.or(tracee.calls.goes_on.take()).filter(|result| Registers::is_restart(*result));
        if let (Some(result), None) = (again, &tracee.restarted) {
            let goes_on = match status {
                Status::Event(ptrace::EVENT_STOP) | Status::Syscall => true,
                Status::Signal(signal) => proc::does_nothing(tid, signal),
                _ => false,
            };
            tracee.calls.goes_on = goes_on.then_some(result);
            if !goes_on {
                self.call_is_over(tid, Some(result));
            }
            return;
        }
        let is_over = tracee.restarted.is_none() && (held.is_some() || went_on);
        let is_told = match status {
            // A call that SIGKILL ends has no stop of its own.
            Status::Event(libc::PTRACE_EVENT_EXIT) => {
                let is_cut =
                    is_over || Registers::of(tid).is_ok_and(|registers| tracee.calls.is_cut(&registers));
                is_cut && lock(&self.machine).tells_cut_calls()
            }
            _ => is_over,
        };
        if is_told {
            // Where nothing was begun since, registers tell what its caller will see.
            let is_there = matches!(status, Status::Signal(_) | Status::Event(ptrace::EVENT_STOP));
            self.call_is_over(tid, held.filter(|_| !is_there));
        }
    }

    /// The call of a tracee is over, with this result or with the one that it stands with.
    pub(super) fn call_is_over(&mut self, tid: Tid, result: Option<i64>) {
        let Some(tracee) = self.tracees.get_mut(&tid).filter(|tracee| tracee.calls.wanted) else { return };
        tracee.calls.is_same = false;
        let Ok(registers) = Registers::of(tid) else { return };
        let stop = CallStop::Exit { result: result.unwrap_or(registers.result()) };
        let stopped = StoppedThread::new(tid, registers).in_kernel(true);
        let mut machine = lock(&self.machine);
        if let Some(task) = machine.task_of(tid) {
            machine.called(task, tracee.calls.number, stop, &stopped);
        }
    }

    /// A tracee that has just been born is about to go on for the first time: the call that made it ends in it, too, with 0.
    pub(super) fn born_in_call(&mut self, tid: Tid) {
        if !self.tracees.get(&tid).is_some_and(|tracee| tracee.stepping.is_newborn()) {
            return;
        }
        let mut machine = lock(&self.machine);
        let Some(task) = machine.task_of(tid).filter(|&task| machine.tells_calls(task)) else { return };
        if let Ok(registers) = Registers::of(tid) {
            let stopped = StoppedThread::new(tid, registers).in_kernel(true);
            machine.called(task, registers.call(), CallStop::Exit { result: 0 }, &stopped);
        }
    }
}
