//! Threads that another process traces in the meantime: a debugger below this one. They are let go for that, and
//! taken back when that has left them.
//!
//! Nothing tells of them then. So they are looked at every few milliseconds: `/proc` has their counts and those of
//! their children, and tells that they have ended or that their tracer has left them. There are no samples, debug
//! registers, traps and steps of them, all of which would have to stop them.

use super::{Front, Supervisor, Tracee, calls, lock, options_of, step};
use crate::debug;
use crate::proc::{self, Fate};
use crate::ptrace::{self, Resume, Status, Tid};
use perfuse_abi::Errno;
use perfuse_sys::pidfd;
use perfuse_sys::process::Usage;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// How often they are looked at, at the most: less often where there are so many that it would take more than a part of
/// the time.
pub(super) const LOOK: Duration = Duration::from_millis(4);
const PART: u64 = 20;

/// A thread that has asked to be traced by its parent is traced or refused once it has run for so long since, in ns.
const ON_ITS_WAY_NS: u64 = 2_000_000;

/// A thread that another traces.
#[derive(Debug)]
pub(super) struct Detached {
    pid: Tid,
    attached: bool,
    /// Its status, which is never that of another thread that has got its number.
    status: File,
    /// Its process, where it can be named so.
    process: Option<OwnedFd>,
    /// The file of its program.
    program: Option<(u64, u64)>,
    stage: Stage,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its own call, by which it will be traced, is being done; it had run for so long, in ns.
    Calls(u64),
    /// Another's call is.
    Awaited,
    /// It has been traced.
    Traced,
}

impl Supervisor {
    /// A tracee is let go at its next stop where nothing is about to happen to it, which the front is
    /// [told](Front::released).
    pub fn ask_for(&mut self, tid: Tid) {
        let Some(tracee) = self.tracees.get_mut(&tid) else { return };
        self.asked_for.insert(tid);
        if !tracee.stopped {
            // One that is dead tells so.
            let _ = tracee.interrupt(tid);
        }
        self.look_soon();
    }

    /// It is not let go.
    pub fn ask_no_more(&mut self, tid: Tid) {
        self.asked_for.remove(&tid);
    }

    /// Whether a tracee is to be let go, and has not been yet.
    pub fn is_asked_for(&self, tid: Tid) -> bool {
        self.asked_for.contains(&tid)
    }

    /// Whether another process traces a thread, or may.
    pub fn is_detached(&self, tid: Tid) -> bool {
        self.detached.contains_key(&tid)
    }

    /// The process of a thread that is a tracee, or detached.
    pub fn process_of(&self, tid: Tid) -> Option<Tid> {
        let tracee = self.tracees.get(&tid).map(|tracee| tracee.pid);
        tracee.or_else(|| self.detached.get(&tid).map(|detached| detached.pid))
    }

    /// Another's call is about to be done that makes it trace a thread, which is detached already.
    pub fn is_awaited(&mut self, tid: Tid) {
        if let Some(detached) = self.detached.get_mut(&tid) {
            detached.stage = Stage::Awaited;
        }
    }

    /// A process of which another traces a thread, by a descriptor that never names another one.
    pub fn detached_process(&self, pid: Tid) -> Option<BorrowedFd<'_>> {
        self.detached.values().find(|detached| detached.pid == pid)?.process.as_ref().map(AsFd::as_fd)
    }

    /// Whether another process traces a thread of this one.
    pub fn has_detached_threads(&self, pid: Tid) -> bool {
        self.detached.values().any(|detached| detached.pid == pid)
    }

    /// A tracee that is asked for has stopped. Whether it has been let go, or goes on first.
    pub(super) fn leaves(&mut self, front: &mut dyn Front, tid: Tid, status: Status) -> bool {
        if !matches!(status, Status::Event(ptrace::EVENT_STOP) | Status::GroupStop(_))
            || self.does_remainder(tid)
        {
            return false;
        }
        self.stopped_in_step(tid, false);
        let Some(tracee) = self.tracees.get_mut(&tid) else { return false };
        let has_traps = !tracee.armed.is_empty() || tracee.stepping.is_wanted() || !self.texts.is_empty();
        if has_traps && proc::is_about_to_get(tid, libc::SIGTRAP) {
            // It is ours. The stop for that comes first if this one is not asked for again before.
            tracee.stopped = false;
            let _ = ptrace::resume(tid, Resume::Continue(0));
            return true;
        }
        if self.detach_for_another(tid).is_err() {
            return false;
        }
        if let Some(detached) = self.detached.get_mut(&tid) {
            detached.stage = Stage::Awaited;
        }
        front.released(self, tid);
        true
    }

    /// Lets a stopped tracee go for its parent to trace it, in the middle of the call by which it asks for that.
    pub fn detach_for_another(&mut self, tid: Tid) -> Result<(), Errno> {
        let tracee = self.tracees.get_mut(&tid).ok_or(Errno::ESRCH)?;
        let (pid, attached) = (tracee.pid, tracee.attached);
        let status = File::open(format!("/proc/{pid}/task/{tid}/status")).map_err(|_| Errno::EPERM)?;
        if !tracee.armed.is_empty() {
            debug::arm(tid, &[])?;
            (tracee.armed, tracee.to_arm) = (Vec::new(), None);
        }
        self.text_taken_back(pid, tid);
        let ran = {
            let mut machine = lock(&self.machine);
            let task = machine.task_of(tid);
            task.and_then(|task| {
                machine.update(task);
                machine.read_stopped(task)
            })
        };
        let stage = Stage::Calls(ran.map_or(0, |reading| reading.time_ns));
        ptrace::detach(tid, 0)?;
        self.tracees.remove(&tid);
        self.asked_for.remove(&tid);
        self.guard_watches_of_lent(tid);
        if self.paced > 0 {
            self.count_paced();
        }
        let (process, program) = (pidfd::open(pid).ok(), proc::program_of(pid));
        self.detached.insert(tid, Detached { pid, attached, status, process, program, stage });
        self.text_is_gone(pid);
        self.look_soon();
        Ok(())
    }

    fn guard_watches_of_lent(&mut self, tid: Tid) {
        if matches!(self.guardian, Some(Some(_))) {
            self.guard_watches(tid, false);
        }
    }

    /// The call has been done that makes another trace a thread, or was refused.
    pub fn is_traced(&mut self, tid: Tid, traced: bool) {
        if let Some(detached) = self.detached.get_mut(&tid) {
            detached.stage = Stage::Traced;
        }
        if !traced {
            self.take_back(tid);
        }
    }

    /// Processes of which threads have been taken back since this was asked last: their tracers may have kept signals
    /// from them.
    pub fn take_returned(&mut self) -> Vec<Tid> {
        std::mem::take(&mut self.returned)
    }

    pub(super) fn looks_at_lent(&self) -> bool {
        !self.detached.is_empty() || !self.asked_for.is_empty()
    }

    fn look_soon(&mut self) {
        let soon = proc::now_ns() + LOOK.as_nanos() as u64;
        self.look_at = if self.look_at == 0 { soon } else { soon.min(self.look_at) };
        self.set_alarm();
    }

    /// Looks at the threads that others trace, if the time has come.
    pub(super) fn follow_lent(&mut self, front: &mut dyn Front) {
        if self.look_at == 0 {
            return;
        }
        let now = proc::now_ns();
        if now < self.look_at {
            return;
        }
        self.look_at_all_lent(front);
        let after = proc::now_ns();
        let wait = (LOOK.as_nanos() as u64).max((after - now) * PART);
        self.look_at = if self.looks_at_lent() { after + wait } else { 0 };
        self.set_alarm();
    }

    /// Looks at them at once: a tracer may have left them.
    pub fn look_at_all_lent(&mut self, front: &mut dyn Front) {
        if self.detached.is_empty() {
            return;
        }
        let all: Vec<Tid> = self.detached.keys().copied().collect();
        for tid in all {
            self.look_at_lent(front, tid);
        }
        front.effects(&self.machine);
    }

    fn look_at_lent(&mut self, front: &mut dyn Front, tid: Tid) {
        let Some(detached) = self.detached.get_mut(&tid) else { return };
        let fate = proc::fate(&detached.status);
        let Some(Fate { dead: false, tracer }) = fate else {
            // Of children of this process the wait tells.
            if proc::parent_of(tid) != Some(std::process::id() as Tid) {
                self.lent_has_ended(front, tid);
            }
            return;
        };
        let task = {
            let mut machine = lock(&self.machine);
            let task = machine.task_of(tid);
            if let Some(task) = task {
                machine.update(task);
                machine.see_name(task);
            }
            task
        };
        let pid = detached.pid;
        if tracer != 0 {
            detached.stage = Stage::Traced;
        }
        let stage = detached.stage;
        self.find_new(front, pid, tid);
        let is_left = || match stage {
            Stage::Traced => true,
            Stage::Awaited => false,
            Stage::Calls(before) => {
                let reading = task.and_then(|task| lock(&self.machine).read_stopped(task));
                reading.is_none_or(|reading| reading.time_ns > before + ON_ITS_WAY_NS)
                    || proc::is_in_call(pid, tid).is_some_and(|call| call != libc::SYS_ptrace)
            }
        };
        if tracer == 0 && is_left() {
            self.take_back(tid);
        }
    }

    fn lent_has_ended(&mut self, front: &mut dyn Front, tid: Tid) {
        let detached = self.detached.remove(&tid);
        {
            let mut machine = lock(&self.machine);
            if let Some(task) = machine.task_of(tid) {
                machine.exit(task);
            }
        }
        front.ended(self, tid, 0, &Usage::default());
        if let Some(detached) = detached {
            self.text_wanted_again(detached.pid);
            self.text_is_gone(detached.pid);
        }
    }

    /// Finds the threads and children that a detached thread has started.
    fn find_new(&mut self, front: &mut dyn Front, pid: Tid, tid: Tid) {
        let threads = proc::threads_of(pid).into_iter().map(|thread| (pid, thread));
        let children = proc::children_of(pid, tid).into_iter().map(|child| (child, child));
        for (process, new) in threads.chain(children) {
            if self.traces(new) || self.is_detached(new) || self.early.contains(&new) {
                continue;
            }
            let Ok(status) = File::open(format!("/proc/{process}/task/{new}/status")) else { continue };
            {
                let mut machine = lock(&self.machine);
                if let Some(task) = machine.task_of(tid) {
                    machine.born(task, process, new);
                }
            }
            let attached = self.detached.get(&tid).is_some_and(|detached| detached.attached);
            let (pid, stage) = (process, Stage::Traced);
            let (process, program) = (pidfd::open(pid).ok(), proc::program_of(pid));
            self.detached.insert(new, Detached { pid, attached, status, process, program, stage });
            front.born(self, tid, new);
        }
    }

    /// Seizes a thread again that its tracer has left.
    fn take_back(&mut self, tid: Tid) {
        let Some(detached) = self.detached.get(&tid) else { return };
        let (pid, attached) = (detached.pid, detached.attached);
        // It has ended, or has another tracer already: that is seen the next time.
        if ptrace::seize(tid, options_of(self.options, attached)).is_err() {
            return;
        }
        let before = self.detached.remove(&tid).and_then(|detached| detached.program);
        let mut tracee = Tracee { attached, ..Tracee::new(pid) };
        {
            let mut machine = lock(&self.machine);
            if let Some(task) = machine.task_of(tid) {
                if tid == pid && proc::program_of(pid) != before {
                    machine.exec(task, tid);
                }
                tracee.to_arm = Some(machine.watches_of(task)).filter(|watched| !watched.is_empty());
                tracee.stepping = step::StepState::of_returned(machine.is_to_be_stepped(task));
                tracee.calls = calls::CallState::new(machine.tells_calls(task));
                tracee.looked_at = machine.is_sampled(task);
            }
        }
        if tracee.looked_at {
            self.queue.add(tid);
        }
        self.tracees.insert(tid, tracee);
        self.returned.push(pid);
        self.text_wanted_again(pid);
        self.count_paced();
        // Its traps and breakpoints are set at its next stop.
        let _ = ptrace::interrupt(tid);
    }
}
