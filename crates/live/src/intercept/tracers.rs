//! Programs below that trace others: debuggers, strace, sanitizers, writers of crash reports. A process has one tracer, and
//! that is this one. So it lets go a thread that another wants to trace, and the kernel does the rest: rights, stops,
//! waits.
//!
//! A thread that asks to be traced by its parent is let go at once, in the middle of that call. One that another attaches to
//! is let go if the kernel says that the other may, which is asked by a call that needs the same right; then that other makes its
//! call again, and if it is refused after all, the thread is [taken back](crate::supervisor::Supervisor::is_traced). So is
//! one whose tracer has left it.
//!
//! A process that has events, or got their filter from one that has, stays: its calls that have to be stopped would be
//! answered `ENOSYS` without a supervisor, those that map code among them.

use super::calls::{Answer, SystemCall};
use super::filter::{ATTACH, DETACH, SEIZE, TRACEME};
use super::{Intercept, Note, inject};
use crate::proc;
use crate::ptrace::{Resume, Tid};
use crate::regs::Registers;
use crate::supervisor::{Next, Supervisor};
use perfuse_abi::Errno;
use perfuse_engine::Access;
use std::time::{Duration, Instant};

/// A thread that wants to trace another, from its call on, or to leave it.
#[derive(Debug)]
pub(super) struct TraceRequest {
    call: [u64; 2],
    /// The other thread, if that one is let go for it.
    whom: Option<Tid>,
    since: Instant,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It is stopped until the other has been let go.
    Waits,
    /// It goes on, and makes its call again.
    Repeats,
    /// That call is being done.
    Calls,
}

impl TraceRequest {
    fn new(call: [u64; 2], whom: Option<Tid>, stage: Stage) -> Self {
        TraceRequest { call, whom, since: Instant::now(), stage }
    }
}

/// How long a thread is waited for that has been asked for: it may sleep where nothing wakes it.
const PATIENCE: Duration = Duration::from_millis(300);

impl Intercept {
    /// `ptrace(2)`, with a request by which tracing begins.
    pub(super) fn trace(
        &mut self,
        supervisor: &mut Supervisor,
        tid: Tid,
        registers: &Registers,
        system_call: &SystemCall,
    ) -> Result<Answer, Errno> {
        let [request, number, ..] = system_call.arguments();
        match u32::try_from(request) {
            Ok(TRACEME) => Ok(self.be_traced(supervisor, tid)),
            Ok(ATTACH | SEIZE) => self.attach_to(supervisor, tid, registers, [request, number]),
            Ok(DETACH) => {
                let trace_request = TraceRequest::new([request, number], None, Stage::Calls);
                self.trace_requests.insert(tid, trace_request);
                Ok(Answer::Next(Next::Go(Resume::Syscall(0))))
            }
            _ => Ok(Answer::Pass),
        }
    }

    fn be_traced(&mut self, supervisor: &mut Supervisor, tid: Tid) -> Answer {
        let pid = self.threads.get(&tid).copied().unwrap_or(tid);
        // That would be this process.
        if pid == self.tool {
            return Answer::Pass;
        }
        if self.stays(supervisor, tid) {
            return Answer::Pass;
        }
        match supervisor.detach_for_another(tid) {
            Ok(()) => {
                self.tell_of_lent(supervisor, tid);
                Answer::Next(Next::Stay)
            }
            // The kernel refuses a thread that has a tracer.
            Err(_) => Answer::Pass,
        }
    }

    fn attach_to(
        &mut self,
        supervisor: &mut Supervisor,
        tid: Tid,
        registers: &Registers,
        call: [u64; 2],
    ) -> Result<Answer, Errno> {
        let repeated = self.trace_requests.remove(&tid).filter(|trace_request| trace_request.call == call);
        match repeated {
            Some(TraceRequest { whom: Some(whom), .. }) => {
                self.trace_requests.insert(tid, TraceRequest::new(call, Some(whom), Stage::Calls));
                return Ok(Answer::Next(Next::Go(Resume::Syscall(0))));
            }
            Some(TraceRequest { whom: None, .. }) => return Ok(Answer::Pass),
            None => {}
        }
        let number = call[1] as Tid;
        let namespace = self.namespace_of(tid);
        let ours = |supervisor: &Supervisor, whom| supervisor.traces(whom) || supervisor.is_detached(whom);
        if namespace == Ok(None) && !ours(supervisor, number) {
            return Ok(Answer::Pass);
        }
        inject::skip(tid, registers)?;
        self.stopped_again(supervisor, tid);
        let whom = self.whom(supervisor, tid, registers, namespace, number).ok();
        let process = |tid: Tid| supervisor.process_of(tid);
        let whom = whom
            .filter(|whom| ours(supervisor, *whom) && process(*whom) != process(tid))
            .filter(|whom| !self.waits(*whom));
        let whom = whom.filter(|whom| self.may(tid, registers, Access::Attach, number, *whom));
        let whom = whom.filter(|whom| !self.stays(supervisor, *whom));
        registers.make_again(tid)?;
        let waits = whom.is_some_and(|whom| supervisor.traces(whom));
        let stage = if waits { Stage::Waits } else { Stage::Repeats };
        self.trace_requests.insert(tid, TraceRequest::new(call, whom, stage));
        match whom {
            Some(whom) if waits => supervisor.ask_for(whom),
            Some(whom) => supervisor.is_awaited(whom),
            None => {}
        }
        Ok(Answer::Next(if waits { Next::Stay } else { Next::Go(Resume::Continue(0)) }))
    }

    /// Whether a thread is stopped until another one is let go.
    fn waits(&self, tid: Tid) -> bool {
        self.trace_requests.get(&tid).is_some_and(|trace_request| trace_request.stage == Stage::Waits)
    }

    /// Whether a thread's process has the filter of processes with events, which is told.
    fn stays(&mut self, supervisor: &Supervisor, whom: Tid) -> bool {
        let pid = self.threads.get(&whom).copied().unwrap_or(whom);
        let stays =
            supervisor.traces(whom) && self.processes.get(&pid).is_some_and(|process| process.filtered);
        if stays && !std::mem::replace(&mut self.told_of_kept, true) {
            (self.on_note.0)(&Note::Kept { pid });
        }
        stays
    }

    /// A thread has been let go: the one that wants to trace it goes on.
    pub(super) fn has_been_let_go(&mut self, supervisor: &mut Supervisor, whom: Tid) {
        self.go_on(supervisor, |trace_request| trace_request.whom == Some(whom));
        self.tell_of_lent(supervisor, whom);
    }

    fn go_on(&mut self, supervisor: &mut Supervisor, which: impl Fn(&TraceRequest) -> bool) {
        let all = self.trace_requests.iter_mut();
        let waiting =
            all.filter(|(_, trace_request)| trace_request.stage == Stage::Waits && which(trace_request));
        let mut callers = Vec::new();
        for (&caller, trace_request) in waiting {
            trace_request.stage = Stage::Repeats;
            callers.push(caller);
        }
        for caller in callers {
            supervisor.resume(caller, Resume::Continue(0));
        }
    }

    /// Gives up waiting for threads that have ended, or sleep for too long.
    pub(super) fn give_up_waiting(&mut self, supervisor: &mut Supervisor) {
        if self.trace_requests.is_empty() {
            return;
        }
        let gone = |whom: Tid| !supervisor.is_asked_for(whom);
        let vain = |trace_request: &TraceRequest| {
            trace_request.stage == Stage::Waits
                && trace_request
                    .whom
                    .is_none_or(|whom| gone(whom) || trace_request.since.elapsed() > PATIENCE)
        };
        let whom: Vec<Tid> = self
            .trace_requests
            .values()
            .filter(|trace_request| vain(trace_request))
            .filter_map(|trace_request| trace_request.whom)
            .collect();
        for whom in whom {
            supervisor.ask_no_more(whom);
            self.go_on(supervisor, |trace_request| trace_request.whom == Some(whom));
        }
    }

    /// A thread is at the end of its call.
    pub(super) fn has_called(&mut self, supervisor: &mut Supervisor, tid: Tid) {
        let Some(trace_request) = self.trace_requests.remove(&tid) else { return };
        let traced = Registers::of(tid).is_ok_and(|registers| registers.result() >= 0);
        match trace_request.whom {
            Some(whom) => supervisor.is_traced(whom, traced),
            // It has left its tracee.
            None => supervisor.look_at_all_lent(self),
        }
    }

    /// A thread that wants to trace another has ended.
    pub(super) fn wants_no_more(&mut self, supervisor: &mut Supervisor, tid: Tid) {
        if let Some(whom) = self.trace_requests.remove(&tid).and_then(|trace_request| trace_request.whom) {
            supervisor.ask_no_more(whom);
            supervisor.is_traced(whom, false);
        }
    }

    fn tell_of_lent(&mut self, supervisor: &Supervisor, tid: Tid) {
        let _ = supervisor;
        if !std::mem::replace(&mut self.told_of_traced_elsewhere, true) {
            let name = proc::comm(self.threads.get(&tid).copied().unwrap_or(tid), tid);
            (self.on_note.0)(&Note::Detached { tid, name: String::from_utf8_lossy(&name).into_owned() });
        }
    }

    /// A clone with `CLONE_UNTRACED` is traced by us: the new process may want to trace, and to open events.
    pub(super) fn clone_traced(&mut self, tid: Tid, registers: &Registers) -> Result<Answer, Errno> {
        let mut changed = *registers;
        changed.set_argument(0, registers.argument(0) & !(libc::CLONE_UNTRACED as u64));
        changed.give(tid)?;
        self.cloning.insert(tid, registers.argument(0));
        Ok(Answer::Pass)
    }

    /// Its maker, stopped in the call, has its flags as they were.
    pub(super) fn has_cloned(&mut self, maker: Tid) {
        let Some(flags) = self.cloning.remove(&maker) else { return };
        if let Ok(mut registers) = Registers::of(maker) {
            registers.set_argument(0, flags);
            // One that was killed meanwhile needs none.
            let _ = registers.give(maker);
        }
    }
}
