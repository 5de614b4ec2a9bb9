//! The loop of the one thread that traces: waits for news of tracees, tells the
//! [machine](crate::machine), takes samples, and lets tracees go on.
//!
//! All signals reach tracees unchanged, stops of whole processes (job control) stay stops, and what
//! tracees start is traced from its birth on. A front end adds a [`Front`]: its methods are called on
//! this thread, with the tracee in question stopped.
//!
//! The thread sleeps in `waitid(2)`. Ticks, and other threads by a
//! [`Waker`], wake it by a signal whose handler does nothing. One that comes right before the
//! thread falls asleep does not keep it awake: therefore all of them come from timers that go on until the thread has woken.

use crate::machine::{ArmedBreakpoint, Machine, TickResult, Until};
use crate::proc;
use crate::ptrace::{self, Resume, Status, Tid, Waited};
use crate::regs::{Registers, SeenCall};
use crate::stopped::StoppedThread;
use perfuse_abi::Errno;
use perfuse_engine::TaskId;
use perfuse_sys::process::Usage;
use perfuse_sys::thread;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

mod calls;
mod clocks;
mod detached;
mod guardian;
mod linker;
mod probe;
mod restart;
mod sampling_queue;
mod shelter;
mod step;
mod wakeup;
mod watch;

use clocks::Clocked;
use detached::Detached;
pub use guardian::take_unguarded;
use probe::TrapCause;
use restart::RestartedCall;
use sampling_queue::SamplingQueue;
pub use wakeup::Waker;
use wakeup::{Affinity, Alarm, Bell, Ticker};

/// After so many waits, and as many as there are tracees, all stopped ones are served, even if one stops again and again.
const FAIRNESS: u64 = 32;

/// How a stopped tracee goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At once.
    Go(Resume),
    /// It stays stopped until [`Supervisor::resume`].
    Stay,
}

/// The answers of a front end to stops. The methods that have a body are right for processes that are only measured.
pub trait Front {
    /// A signal is about to be delivered; `None`: let it.
    fn signal(&mut self, supervisor: &mut Supervisor, tid: Tid, signal: i32) -> Option<Next> {
        let _ = (supervisor, tid, signal);
        None
    }

    /// A seccomp filter answered `SECCOMP_RET_TRACE`, before the system call.
    fn seccomp(&mut self, supervisor: &mut Supervisor, tid: Tid) -> Next {
        let _ = (supervisor, tid);
        Next::Go(Resume::Continue(0))
    }

    /// At the entry or exit of a system call, after [`Resume::Syscall`].
    fn syscall(&mut self, supervisor: &mut Supervisor, tid: Tid) -> Next {
        let _ = (supervisor, tid);
        Next::Go(Resume::Continue(0))
    }

    /// A tracee made another one, which is about to run its first instruction.
    fn born(&mut self, supervisor: &mut Supervisor, parent: Tid, child: Tid) {
        let _ = (supervisor, parent, child);
    }

    /// A tracee has replaced its program. `former`: the number of the thread that did it.
    fn exec(&mut self, supervisor: &mut Supervisor, tid: Tid, former: Tid) {
        let _ = (supervisor, tid, former);
    }

    /// A tracee that was [asked for](Supervisor::ask_for) is one no longer: anybody may trace it.
    fn released(&mut self, supervisor: &mut Supervisor, tid: Tid) {
        let _ = (supervisor, tid);
    }

    /// Calls `take`, which takes the news of a tracee or child; the number of one that is dead may then be given to
    /// another.
    fn taking(&mut self, take: &mut dyn FnMut()) {
        take();
    }

    /// A thread, or the last thread of a process, or a child of this thread is gone, with this wait status.
    /// `usage`: of all its process, if that is gone with it.
    fn ended(&mut self, supervisor: &mut Supervisor, tid: Tid, status: i32, usage: &Usage) {
        let _ = (supervisor, tid, status, usage);
    }

    /// The machine, which this thread has not locked, has [effects](Machine::effects) that may want to be
    /// carried out.
    fn effects(&mut self, machine: &Mutex<Machine>) {
        lock(machine).effects().for_each(drop);
    }

    /// Between two stops, and when a [`Waker`] woke the thread. Whether to go on.
    fn between(&mut self, supervisor: &mut Supervisor) -> bool {
        let _ = supervisor;
        true
    }

    /// There is no tracee to wait for. Whether to go on; may wait for a reason to.
    fn idle(&mut self, supervisor: &mut Supervisor) -> bool {
        let _ = supervisor;
        false
    }
}

/// A tracee.
#[derive(Debug)]
struct Tracee {
    /// Its process.
    pid: Tid,
    stopped: bool,
    /// It is stopped where it can do calls for us: nothing is about to happen to it, and it is in no call.
    callable: bool,
    /// When it went on last.
    resumed_at: u64,
    /// It was interrupted so that a sample can be taken.
    interrupted: bool,
    /// Ticks look at it.
    looked_at: bool,
    /// The breakpoints in its debug registers.
    armed: Vec<ArmedBreakpoint>,
    /// Those that are to be there from its next stop on.
    to_arm: Option<Vec<ArmedBreakpoint>>,
    /// Whether it stops after each instruction.
    stepping: step::StepState,
    /// Whether it stops at its system calls.
    calls: calls::CallState,
    /// Functions that it is in, whose returns have probes, from the outermost on.
    return_instances: Vec<probe::ReturnInstance>,
    /// It runs in the memory of the process that made it.
    borrows: bool,
    /// It outlives this thread, as this process has not started it.
    attached: bool,
    /// Its system call, if that was begun again and may last only so long.
    restarted: Option<RestartedCall>,
    /// Instruction and stack where a call ended because of a signal: it is not begun again.
    #[cfg(target_arch = "aarch64")]
    stands: Option<(u64, u64)>,
    /// The call that it slept in when it was interrupted last.
    seen: Option<SeenCall>,
}

impl Tracee {
    /// Something of ours is in its registers, or is to be.
    fn holds_anything(&self) -> bool {
        !self.armed.is_empty()
            || self.to_arm.as_ref().is_some_and(|wanted| !wanted.is_empty())
            || self.stepping.is_wanted()
    }

    /// Stops it soon. `ESRCH`: one that is dead.
    fn interrupt(&mut self, tid: Tid) -> Result<(), Errno> {
        if cfg!(target_arch = "aarch64") {
            self.seen = SeenCall::of(tid).or(self.seen);
        }
        ptrace::interrupt(tid)
    }

    fn new(pid: Tid) -> Self {
        let (armed, stepping, calls) = (Vec::new(), step::StepState::default(), calls::CallState::default());
        let (return_instances, borrows, attached) = (Vec::new(), false, false);
        let (stopped, callable, interrupted, looked_at, to_arm) = (false, false, false, false, None);
        Tracee {
            pid,
            stopped,
            callable,
            resumed_at: 0,
            interrupted,
            looked_at,
            armed,
            to_arm,
            stepping,
            calls,
            return_instances,
            borrows,
            attached,
            restarted: None,
            #[cfg(target_arch = "aarch64")]
            stands: None,
            seen: None,
        }
    }
}

/// The tracees of this thread.
#[derive(Debug)]
pub struct Supervisor {
    machine: Arc<Mutex<Machine>>,
    tracees: BTreeMap<Tid, Tracee>,
    /// Tracees that stopped before their parents told of them.
    early: Vec<Tid>,
    /// Tracees that are to be let go at their next stop, for another process to trace them.
    asked_for: BTreeSet<Tid>,
    /// Threads that others trace in the meantime.
    detached: BTreeMap<Tid, Detached>,
    /// When these are looked at next.
    look_at: u64,
    /// Processes of which some have been taken back, since that was asked for last.
    returned: Vec<Tid>,
    /// Stops that have not yet been looked at.
    deferred: VecDeque<(Tid, Status)>,
    /// Traps in the memory of processes.
    texts: HashMap<Tid, probe::PatchedText>,
    /// The handlers in processes; `None`: one cannot have any.
    shelters: HashMap<Tid, Option<shelter::Shelter>>,
    /// Processes in whose memory something else is to be.
    stale: BTreeSet<Tid>,
    /// Where traps have been hit.
    had_texts: BTreeSet<u64>,
    /// The process that takes traps back if this one is killed; started for the first of them.
    guardian: Option<Option<guardian::Guardian>>,
    options: i32,
    /// There are tracees that go on when this process is killed, in spite of the options.
    attached: bool,
    shows_the_dead: bool,
    bell: Arc<Bell>,
    ticker: Ticker,
    affinity: Affinity,
    queue: SamplingQueue,
    /// How many are stepped.
    paced: usize,
    /// When the time of calls is over that were begun again, and the alarm for that.
    deadlines: BTreeSet<(u64, Tid)>,
    alarm: Alarm,
    /// Tracees that are asked to stop for clocks, and when the next clock goes off.
    clocked: Clocked,
    clock_at: Option<u64>,
    /// No rest of a call is to be begun.
    ends_calls: bool,
}

impl Supervisor {
    /// For the calling thread, which is to be the tracer. `options`: what tracees get beyond
    /// [`ptrace::FOLLOW`].
    pub fn new(machine: Arc<Mutex<Machine>>, options: i32) -> Result<Self, Errno> {
        // Where the dead show nothing, they are stopped before they die.
        let shows_the_dead = proc::shows_the_dead();
        let last_stop = if shows_the_dead { 0 } else { libc::PTRACE_O_TRACEEXIT };
        Ok(Supervisor {
            machine,
            tracees: BTreeMap::new(),
            early: Vec::new(),
            asked_for: BTreeSet::new(),
            detached: BTreeMap::new(),
            look_at: 0,
            returned: Vec::new(),
            deferred: VecDeque::new(),
            texts: HashMap::new(),
            shelters: HashMap::new(),
            stale: BTreeSet::new(),
            had_texts: BTreeSet::new(),
            guardian: None,
            options: ptrace::FOLLOW | options | last_stop,
            attached: false,
            shows_the_dead,
            bell: Bell::new()?,
            ticker: Ticker::new()?,
            affinity: Affinity::new(),
            queue: SamplingQueue::default(),
            paced: 0,
            deadlines: BTreeSet::new(),
            alarm: Alarm::new()?,
            clocked: Clocked::new(),
            clock_at: None,
            ends_calls: false,
        })
    }

    /// Other threads wake this one with it.
    pub fn waker(&self) -> Waker {
        self.bell.waker()
    }

    /// The machine, for other threads.
    pub fn shared(&self) -> &Arc<Mutex<Machine>> {
        &self.machine
    }

    /// The machine.
    pub fn machine(&self) -> MutexGuard<'_, Machine> {
        lock(&self.machine)
    }

    /// Whether a thread is a tracee.
    pub fn traces(&self, tid: Tid) -> bool {
        self.tracees.contains_key(&tid)
    }

    /// All tracees, with their processes.
    pub fn tracees(&self) -> impl Iterator<Item = (Tid, Tid)> + '_ {
        self.tracees.iter().map(|(tid, tracee)| (*tid, tracee.pid))
    }

    /// Begins to trace a thread and makes it a task. The processes that it starts are traced, its other threads are not.
    pub fn seize(&mut self, pid: Tid, tid: Tid) -> Result<TaskId, Errno> {
        self.seize_with(pid, tid, self.options)
    }

    fn seize_with(&mut self, pid: Tid, tid: Tid, options: i32) -> Result<TaskId, Errno> {
        if !self.traces(tid) {
            let refused = |errno| if proc::is_dead(tid) { Errno::ESRCH } else { errno };
            ptrace::seize(tid, options).map_err(refused)?;
            if self.tracees.is_empty() {
                // Not before: processes that this thread starts would run so, too.
                thread::ask_for_short_turns();
            }
            self.tracees.insert(tid, Tracee::new(pid));
        }
        self.ends_calls = false;
        self.machine().adopt(pid, tid).ok_or(Errno::ESRCH)
    }

    /// Begins to trace all threads of a process that runs already, on its own account: it gets none of the options
    /// beyond [`ptrace::FOLLOW`], so that it outlives this thread. Threads that are made meanwhile are traced too.
    pub fn attach(&mut self, pid: Tid) -> Result<(), Errno> {
        let options = options_of(self.options, true);
        self.attached = true;
        // A first thread that has ended stays in the list as long as there are others.
        let mut dead = BTreeSet::new();
        loop {
            let new = proc::threads_of(pid).into_iter();
            let new: Vec<Tid> = new.filter(|tid| !self.traces(*tid) && !dead.contains(tid)).collect();
            if new.is_empty() {
                return if self.tracees.values().any(|tracee| tracee.pid == pid) {
                    Ok(())
                } else {
                    Err(Errno::ESRCH)
                };
            }
            for tid in new {
                let seized = self.seize_with(pid, tid, options);
                if let (Ok(_), Some(tracee)) = (seized, self.tracees.get_mut(&tid)) {
                    tracee.attached = true;
                }
                match seized {
                    // It has ended meanwhile; or its maker was a tracee already, and so is it.
                    Err(Errno::ESRCH) => drop(dead.insert(tid)),
                    Err(Errno::EPERM) if self.tracees.values().any(|tracee| tracee.pid == pid) => {
                        return Ok(());
                    }
                    result => drop(result?),
                }
            }
        }
    }

    /// Lets a tracee go on that a front end made [stay](Next::Stay).
    pub fn resume(&mut self, tid: Tid, how: Resume) {
        let waits = self.shelter(tid) == shelter::Sheltered::Soon;
        if waits {
            return self.resume_to_call(tid, how);
        }
        self.update_text(tid);
        self.born_in_call(tid);
        #[cfg(target_arch = "aarch64")]
        if how == Resume::Continue(0) {
            self.pass_exclusive(tid);
        }
        if let Some(tracee) = self.tracees.get_mut(&tid) {
            tracee.arm(tid);
            tracee.stopped = false;
            tracee.resumed_at = proc::now_ns();
            let mut how = tracee.stride(tid, how, options_of(self.options, tracee.attached));
            how = tracee.until_call(how);
            if let Some(restarted) = &tracee.restarted {
                how = restarted.stride(how);
            }
            let watched = !tracee.armed.is_empty();
            if watched || matches!(self.guardian, Some(Some(_))) {
                self.guard_watches(tid, watched);
            }
            self.unshelter(tid);
            // One that was killed meanwhile tells so soon.
            let _ = ptrace::resume(tid, how);
            if self.asked_for.contains(&tid) {
                let _ = self.interrupt(tid);
            }
        }
    }

    /// A stopped tracee goes on to where it can call, which is before it does another instruction, but for those of a signal's
    /// handler.
    fn resume_to_call(&mut self, tid: Tid, how: Resume) {
        let Some(tracee) = self.tracees.get_mut(&tid) else { return };
        let pid = tracee.pid;
        (tracee.stopped, tracee.resumed_at) = (false, proc::now_ns());
        let how = tracee.restarted.as_ref().map_or(how, |restarted| restarted.stride(how));
        // It is asked to stop before it goes on, or a short program is over by then. One that is about to end comes nowhere.
        let _ = tracee.interrupt(tid);
        let _ = ptrace::resume(tid, how);
        let others = self.tracees.iter_mut().filter(|(other, tracee)| tracee.pid == pid && **other != tid);
        for (other, tracee) in others.filter(|(_, tracee)| !tracee.stopped) {
            let _ = tracee.interrupt(*other);
        }
    }

    /// Stops a tracee soon, for its front only: a system call that this ends goes on as it would have, as far as the kernel
    /// lets a tracer know its arguments (on arm64 not always: `docs/guide/without-perf-events.md`). `ESRCH`: there is no such tracee.
    pub fn interrupt(&mut self, tid: Tid) -> Result<(), Errno> {
        self.tracees.get_mut(&tid).ok_or(Errno::ESRCH)?.interrupt(tid)
    }

    /// Works until the front end ends it.
    pub fn run(&mut self, front: &mut dyn Front) -> Result<(), Errno> {
        log::debug!("the supervisor begins");
        let result = self.serve(front);
        log::debug!("the supervisor ends: {result:?}");
        result
    }

    fn serve(&mut self, front: &mut dyn Front) -> Result<(), Errno> {
        for round in 1u64.. {
            if let Some((tid, status)) = self.deferred.pop_front() {
                self.stopped(front, tid, status);
            } else {
                match ptrace::wait(true)? {
                    Waited::Happened { tid, stop: Some(stop), .. } => self.stopped(front, tid, stop),
                    Waited::Happened { tid, dead, stop: None } => self.happened(front, tid, dead)?,
                    Waited::Nobody => {
                        self.forget_all(front);
                        if !self.detached.is_empty() {
                            std::thread::sleep(detached::LOOK);
                        } else if !front.idle(self) {
                            return Ok(());
                        }
                    }
                    Waited::Interrupted | Waited::Nothing => {}
                }
                if round % FAIRNESS.max(self.tracees.len() as u64) == 0 {
                    self.gather();
                }
            }
            self.bell.hear();
            self.follow_ticks();
            self.follow_watches();
            self.follow_probes();
            self.follow_steps();
            self.follow_deadlines();
            self.follow_clocks(front);
            self.follow_lent(front);
            self.tick();
            if !front.between(self) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Looks at all tracees, so that each comes to its turn: a wait tells of the tracee that Linux finds first,
    /// which would always be one of those that stop faster than they are resumed.
    fn gather(&mut self) {
        if !self.shows_the_dead {
            return;
        }
        let running: Vec<Tid> =
            self.tracees.iter().filter(|(_, tracee)| !tracee.stopped).map(|(tid, _)| *tid).collect();
        for tid in running {
            if let Ok(Some(status)) = ptrace::peek_stop(tid) {
                self.defer(tid, status);
            }
        }
    }

    /// A stop is looked at later, before any other is waited for.
    fn defer(&mut self, tid: Tid, status: Status) {
        if let Some(tracee) = self.tracees.get_mut(&tid) {
            tracee.stopped = true;
        }
        self.deferred.push_back((tid, status));
    }

    fn happened(&mut self, front: &mut dyn Front, tid: Tid, dead: bool) -> Result<(), Errno> {
        // gVisor tells of stops as of deaths.
        if dead && (self.shows_the_dead || proc::is_dead(tid)) {
            // Its numbers can be read as long as it has not been taken.
            let mut machine = lock(&self.machine);
            if let Some(task) = machine.task_of(tid) {
                machine.exit(task);
                drop(machine);
                front.effects(&self.machine);
            }
        }
        if dead {
            // It has left its own tracees by now; until it is taken, its parent does not hear of its end.
            self.look_at_all_lent(front);
        }
        let thread = self.tracees.get(&tid).is_some_and(|tracee| tracee.pid != tid);
        let mut taken = Ok(None);
        front.taking(&mut || {
            taken = if thread {
                ptrace::take(tid).map(|taken| taken.map(|status| (status, Usage::default())))
            } else {
                ptrace::take_with_usage(tid)
            };
        });
        let Ok(Some((status, usage))) = taken else {
            // Another thread of this process has waited for it meanwhile: for its end, or for a stop that
            // was meant for us, in which it is not left.
            if dead {
                self.tracees.remove(&tid);
            } else if self.detached.contains_key(&tid) {
                // A child of this process that stops as its process does: no parent waits for that.
                ptrace::take_stop(tid);
            } else {
                self.resume(tid, Resume::Continue(0));
            }
            return Ok(());
        };
        let Status::Ended(status) = status else {
            self.stopped(front, tid, status);
            return Ok(());
        };
        let gone = self.tracees.remove(&tid);
        self.early.retain(|&early| early != tid);
        self.asked_for.remove(&tid);
        self.clocked.remove(&tid);
        self.detached.remove(&tid);
        gone.into_iter().for_each(|tracee| self.text_is_gone(tracee.pid));
        if matches!(self.guardian, Some(Some(_))) {
            self.guard_watches(tid, false);
            self.remainder_is_over(tid);
        }
        if self.paced > 0 {
            self.count_paced();
        }
        front.ended(self, tid, status, &usage);
        Ok(())
    }

    /// A tracee is stopped, which may still be [to be taken](ptrace::take_stop): waits tell of it until it is, or
    /// until it goes on.
    fn stopped(&mut self, front: &mut dyn Front, tid: Tid, status: Status) {
        if self.detached.contains_key(&tid) && status == Status::Event(libc::PTRACE_EVENT_EXEC) {
            // Its thread of that number, which another traced, is gone.
            self.detached.remove(&tid);
            self.tracees.insert(tid, Tracee::new(tid));
        }
        // One that execs tells so under the number of its process, which may have been another thread's.
        let Some(tracee) = self.tracees.get_mut(&tid) else {
            if self.detached.contains_key(&tid) {
                return;
            }
            ptrace::take_stop(tid);
            self.early.push(tid);
            return;
        };
        tracee.stopped = true;
        tracee.callable = status == Status::Event(ptrace::EVENT_STOP);
        // At any stop Linux drops an interrupt that is still on its way.
        let interrupted = std::mem::take(&mut tracee.interrupted);
        {
            let mut machine = lock(&self.machine);
            if let Some(task) = machine.task_of(tid) {
                machine.stopped(task);
            }
        }
        let went_on = self.is_begun_again(tid);
        self.restart_call(tid, status);
        self.settle_call(tid, status, went_on);
        self.run_clocks(front, tid);
        if self.asked_for.contains(&tid) && self.leaves(front, tid, status) {
            front.effects(&self.machine);
            return;
        }
        let execs = status == Status::Event(libc::PTRACE_EVENT_EXEC);
        if interrupted && !execs && self.sample(tid, status) {
            front.effects(&self.machine);
            return;
        }
        let next = self.stop(front, tid, status);
        if interrupted && execs {
            // Where the call returns to is in the new program.
            self.sample(tid, status);
        }
        front.effects(&self.machine);
        self.follow_watches();
        self.follow_probes();
        self.follow_steps();
        match next {
            Next::Go(how) => self.resume(tid, how),
            Next::Stay if matches!(status, Status::GroupStop(_)) => {}
            Next::Stay => ptrace::take_stop(tid),
        }
    }

    /// There are no tracees, though some are remembered: another thread of this process has waited for them.
    fn forget_all(&mut self, front: &mut dyn Front) {
        if self.tracees.is_empty() {
            return;
        }
        self.early.clear();
        self.texts.clear();
        self.shelters.clear();
        self.stale.clear();
        let mut machine = lock(&self.machine);
        for (tid, _) in std::mem::take(&mut self.tracees) {
            if let Some(task) = machine.task_of(tid) {
                machine.exit(task);
            }
        }
        drop(machine);
        front.effects(&self.machine);
    }

    /// Serves a stop. A request that fails was for a tracee that has been killed; the next wait tells of that.
    fn stop(&mut self, front: &mut dyn Front, tid: Tid, status: Status) -> Next {
        let go = Next::Go(Resume::Continue(0));
        match status {
            Status::Signal(libc::SIGTRAP) => {}
            Status::Event(libc::PTRACE_EVENT_EXIT) => self.ends_in_step(tid),
            Status::Event(ptrace::EVENT_STOP) | Status::GroupStop(_) => self.stopped_in_step(tid, false),
            // That of a filter.
            Status::Signal(signal) => self.stopped_in_step(tid, signal == libc::SIGSYS),
            Status::Event(_) | Status::Syscall | Status::Ended(_) => self.stopped_in_step(tid, true),
        }
        match status {
            Status::Signal(libc::SIGTRAP) if self.stepped(tid) || self.watched(tid) => {
                self.is_past(tid);
                go
            }
            Status::Signal(libc::SIGTRAP) => match self.probed(tid) {
                TrapCause::Past => {
                    self.is_past(tid);
                    go
                }
                TrapCause::Not => self.signal(front, tid, libc::SIGTRAP),
                TrapCause::Raised(signal) => self.signal(front, tid, signal),
            },
            Status::Signal(signal) => self.signal(front, tid, signal),
            Status::GroupStop(_) => {
                // It is to be told when it goes on; until then it is not ours to resume.
                self.update_text(tid);
                if let Some(tracee) = self.tracees.get_mut(&tid) {
                    tracee.arm(tid);
                    tracee.stopped = false;
                    tracee.stepping.remainders();
                    tracee.calls.put_off();
                }
                // The stop is taken before: while it listens, it may stop anew, because it is to go on.
                ptrace::take_stop(tid);
                let _ = ptrace::listen(tid);
                Next::Stay
            }
            Status::Syscall => {
                let went_on = self.is_begun_again(tid);
                let is_fronts = self.called(tid);
                let follows = self.follows_call(tid);
                if went_on && !self.is_begun_again(tid) {
                    self.call_is_over(tid, None);
                }
                match !follows && is_fronts {
                    true => front.syscall(self, tid),
                    false => go,
                }
            }
            Status::Event(libc::PTRACE_EVENT_SECCOMP) => front.seccomp(self, tid),
            Status::Event(
                event @ (libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE),
            ) => {
                self.child(front, tid, event);
                go
            }
            Status::Event(libc::PTRACE_EVENT_EXEC) => {
                self.exec(front, tid);
                go
            }
            Status::Event(libc::PTRACE_EVENT_EXIT) => {
                let mut machine = lock(&self.machine);
                if let Some(task) = machine.task_of(tid) {
                    machine.update(task);
                    machine.see_name(task);
                    machine.tell_sleep(task, Until::End);
                }
                go
            }
            Status::Event(_) | Status::Ended(_) => go,
        }
    }

    /// A tracee is stopped at a SIGTRAP which it is not told of.
    fn is_past(&mut self, tid: Tid) {
        if let Some(tracee) = self.tracees.get_mut(&tid) {
            tracee.callable = true;
        }
    }

    fn signal(&mut self, front: &mut dyn Front, tid: Tid, signal: i32) -> Next {
        front.signal(self, tid, signal).unwrap_or(Next::Go(Resume::Continue(signal)))
    }

    fn child(&mut self, front: &mut dyn Front, parent: Tid, event: i32) {
        let may_be_thread = event == libc::PTRACE_EVENT_CLONE;
        let Ok(child) = ptrace::event_message(parent) else { return };
        let child = child as Tid;
        let pid = self.tracees.get(&parent).map_or(child, |tracee| tracee.pid);
        let thread = may_be_thread && std::path::Path::new(&format!("/proc/{pid}/task/{child}")).exists();
        let parents = pid;
        let pid = if thread { pid } else { child };
        let attached = self.tracees.get(&parent).is_some_and(|tracee| tracee.attached);
        self.tracees
            .insert(child, Tracee { stepping: step::StepState::of_newborn(), attached, ..Tracee::new(pid) });
        {
            let mut machine = lock(&self.machine);
            if let Some(task) = machine.task_of(parent) {
                machine.born(task, pid, child);
            }
        }
        front.born(self, parent, child);
        if !thread {
            self.shelter_copied(parents, pid, event != libc::PTRACE_EVENT_FORK);
            self.text_copied(parents, pid, parent, child);
            if let Some(tracee) = self.tracees.get_mut(&child) {
                tracee.borrows = event != libc::PTRACE_EVENT_FORK;
            }
        }
        self.follow_watches();
        self.follow_steps();
        if let Some(early) = self.early.iter().position(|&early| early == child) {
            self.early.swap_remove(early);
            let mut machine = lock(&self.machine);
            if let Some(task) = machine.task_of(child) {
                machine.stopped(task);
            }
            drop(machine);
            self.resume(child, Resume::Continue(0));
        }
    }

    fn exec(&mut self, front: &mut dyn Front, tid: Tid) {
        let former = ptrace::event_message(tid).map_or(tid, |former| former as Tid);
        if former != tid {
            self.tracees.remove(&former);
            self.asked_for.remove(&former);
        }
        {
            let mut machine = lock(&self.machine);
            if let Some(task) = machine.task_of(former) {
                machine.exec(task, tid);
                // The registers of the former program are gone.
                if let Some(tracee) = self.tracees.get_mut(&tid) {
                    (tracee.armed, tracee.to_arm) = (Vec::new(), Some(machine.watches_of(task)));
                    tracee.stepping = step::StepState::of_new_program(machine.is_to_be_stepped(task));
                    tracee.calls = calls::CallState::new(machine.tells_calls(task));
                    (tracee.return_instances, tracee.borrows) = (Vec::new(), false);
                }
            }
        }
        self.shelters.remove(&tid);
        self.text_replaced(tid, tid);
        front.exec(self, tid, former);
    }

    /// A tracee was interrupted: a sample of it can be taken, if it was running. If there is nothing else to be done at
    /// this stop, the tracee goes on as soon as all is known of it, and the answer is true.
    fn sample(&mut self, tid: Tid, status: Status) -> bool {
        let now = proc::now_ns();
        let mut machine = lock(&self.machine);
        let Some(task) = machine.task_of(tid) else { return false };
        let Some(reading) = machine.read_stopped(task) else { return false };
        let Ok(registers) = Registers::of(tid) else { return false };
        let called = registers.in_system_call(tid);
        let Some(weight) = machine.weigh(task, now, &reading, called) else { return false };
        let goes_on = status == Status::Event(ptrace::EVENT_STOP) && self.paced == 0;
        let goes_on = goes_on && !machine.wants_stacks();
        if goes_on {
            drop(machine);
            self.stopped_in_step(tid, false);
            self.resume(tid, Resume::Continue(0));
            machine = lock(&self.machine);
        }
        machine.sample(task, &reading, &StoppedThread::new(tid, registers).in_kernel(called), weight);
        goes_on
    }

    /// Sets ticks to the periods that events want now, if these have changed.
    fn follow_ticks(&mut self) {
        let mut machine = lock(&self.machine);
        let Some((shortest, new)) = machine.take_period_change() else { return };
        for (_, tid) in new.into_iter().filter_map(|task| machine.tid_of(task)) {
            let Some(tracee) = self.tracees.get_mut(&tid) else { continue };
            if !std::mem::replace(&mut tracee.looked_at, true) {
                self.queue.add(tid);
            }
        }
        drop(machine);
        if shortest.is_none() {
            self.affinity.set(None);
        }
        self.ticker.set(shortest);
    }

    /// Interrupts the tracees that are to be sampled, if the time has come.
    fn tick(&mut self) {
        let Some(tick) = self.ticker.take_due() else { return };
        let Supervisor { machine, tracees, affinity, queue, .. } = self;
        let from = perfuse_sys::thread::own_cpu();
        let mut machine = lock(machine);
        let mut found = Vec::new();
        let look = |tid| {
            let Some(tracee) = tracees.get_mut(&tid) else { return TickResult::Nothing };
            let Some(task) = machine.task_of(tid) else { return TickResult::Nothing };
            if tracee.stopped || tracee.resumed_at > tick.due {
                machine.looked_at_stopped(task, tick);
                return TickResult::Ran;
            }
            let look = machine.look(task, tick, from, |cpu| affinity.visits(cpu));
            match look {
                TickResult::Due(cpu) => {
                    tracee.interrupted = tracee.interrupted || tracee.interrupt(tid).is_ok();
                    found.push(cpu);
                }
                TickResult::Elsewhere(cpu) => found.push(cpu),
                TickResult::Nothing => tracee.looked_at = false,
                TickResult::Idle | TickResult::Ran => {}
            }
            look
        };
        let has_time = |parts| proc::now_ns() < tick.at + tick.gap() / parts;
        queue.turn(look, has_time);
        drop(machine);
        self.ticker.go_on(self.affinity.follow(&found));
    }
}

/// The options of a tracee; `attached`: it outlives this thread.
fn options_of(options: i32, attached: bool) -> i32 {
    if attached { options & !(ptrace::EXITKILL | ptrace::TRACESECCOMP) } else { options }
}

fn lock(machine: &Mutex<Machine>) -> MutexGuard<'_, Machine> {
    machine.lock().unwrap_or_else(|poisoned| {
        log::warn!("a thread panicked while it held the machine; the others go on with it");
        PoisonError::into_inner(poisoned)
    })
}
