//! How a tool ends on request: signals to this process are passed on to it, and to processes that it leaves behind;
//! the second one kills.
//!
//! The thread that called [`run`](super::run) takes these signals and does nothing else. So they are heard
//! even if the supervisor is busy: that obeys between two stops. If it does not within [`GRACE`] of the second, or does not come
//! to the next stop within [`PATIENCE`] of any, the calling thread goes on without it, and the processes that the tool started are
//! killed as this one ends (`PTRACE_O_EXITKILL`).

use crate::proc;
use crate::ptrace::Tid;
use crate::supervisor::Waker;
use perfuse_abi::Errno;
use perfuse_sys::pidfd;
use perfuse_sys::poll::poll;
use perfuse_sys::signal::{self, Signals};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long the supervisor has to see the tools dead that it has been told to kill.
const GRACE: Duration = Duration::from_millis(500);

/// How long the supervisor has to come to the next stop after a signal. It takes longer only where it waits in the kernel for
/// memory of a process that nobody fills (userfaultfd(2), FUSE): then all others wait, too, and cannot end.
const PATIENCE: Duration = Duration::from_millis(700);

/// A second Ctrl-C within this time means at once. (After a longer time it may ask a shell or a debugger to give up
/// another thing.)
const IMPATIENCE: Duration = Duration::from_secs(2);

/// A request to end, from the thread that takes signals to the one that traces.
#[derive(Debug, Default)]
pub(super) struct EndRequest {
    /// The last signal that asked the tool to end; 0: none.
    signal: AtomicI32,
    /// All are to be killed.
    at_once: AtomicBool,
    tool_is_gone: AtomicBool,
    /// The supervisor has looked since the last signal.
    heard: AtomicBool,
}

impl EndRequest {
    /// The tool itself has ended; others may be left.
    pub(super) fn tool_has_ended(&self) {
        self.tool_is_gone.store(true, Relaxed);
    }

    /// The signal for processes that the tool has left behind: for the second time SIGKILL.
    pub(super) fn for_others(&self) -> Option<i32> {
        self.heard.store(true, Relaxed);
        if self.at_once.load(Relaxed) {
            return Some(libc::SIGKILL);
        }
        let signal = self.signal.load(Relaxed);
        (signal != 0 && self.tool_is_gone.load(Relaxed)).then_some(signal)
    }
}

/// The tool, for the thread that does not wait for it.
#[derive(Debug)]
pub(super) struct Tool {
    pid: Tid,
    /// By which it can be signalled without fear that its number is another process's by now. `None` before Linux
    /// 5.3, and in gVisor.
    process: Option<OwnedFd>,
    pub(super) end_request: Arc<EndRequest>,
    pub(super) waker: Waker,
}

impl Tool {
    /// For a child of this process that has not been waited for.
    pub(super) fn new(pid: Tid, waker: Waker) -> Self {
        Tool { pid, process: pidfd::open(pid).ok(), end_request: Arc::default(), waker }
    }

    fn send(&self, signal: i32) {
        match &self.process {
            Some(process) => pidfd::send(process.as_fd(), signal),
            None if !self.end_request.tool_is_gone.load(Relaxed) => drop(signal::send(self.pid, signal)),
            None => {}
        }
    }

    /// Passes signals on until `until` is hung up. Whether that is so: otherwise the supervisor has been told to end and
    /// does not.
    pub(super) fn pass_on(&self, signals: &Signals, until: &UnixStream) -> bool {
        let mut asked: Option<Instant> = None;
        let mut give_up: Option<Instant> = None;
        let mut unheard: Option<Instant> = None;
        loop {
            let left = [give_up, unheard].into_iter().flatten().min();
            let left = left.map(|at| at.saturating_duration_since(Instant::now()));
            match poll(&[signals.as_fd(), until.as_fd()], left) {
                Ok(ready) if ready.get(1).is_some_and(|until| until.any()) => return true,
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => return true,
            }
            while let Some(received) = signals.next() {
                let gone = self.end_request.tool_is_gone.load(Relaxed);
                // From the keyboard it gets those itself.
                let typed = received.code > 0 && [libc::SIGINT, libc::SIGQUIT].contains(&received.signal);
                let again = asked.is_some_and(|asked| !typed || gone || asked.elapsed() < IMPATIENCE);
                asked = Some(Instant::now());
                if again {
                    self.end_request.at_once.store(true, Relaxed);
                    self.send(libc::SIGKILL);
                    give_up.get_or_insert(Instant::now() + GRACE);
                } else if !typed || gone {
                    self.end_request.signal.store(received.signal, Relaxed);
                    let signal = heeded(self.pid, received.signal);
                    self.send(signal);
                    self.send(libc::SIGCONT);
                }
                self.end_request.heard.store(false, Relaxed);
                unheard.get_or_insert(Instant::now() + PATIENCE);
                self.waker.wake();
            }
            unheard = unheard.filter(|_| !self.end_request.heard.load(Relaxed));
            if [give_up, unheard].into_iter().flatten().any(|at| Instant::now() >= at) {
                return false;
            }
        }
    }
}

/// Asks a process to end that has been left behind by the tool. `detached`: a descriptor of it, where it is not this thread that
/// traces it.
pub(super) fn ask(pid: Tid, detached: Option<BorrowedFd<'_>>, signal: i32) {
    let signal = heeded(pid, signal);
    for signal in [signal, libc::SIGCONT] {
        match detached {
            Some(process) => pidfd::send(process, signal),
            // It is a tracee of the calling thread, which has not waited for its end.
            None => drop(signal::send(pid, signal)),
        }
    }
}

/// The signal by which a process ends that this one is to end: SIGTERM in place of one that it ignores (as what a script starts in
/// the background ignores SIGINT), SIGKILL for the first process of a pid namespace, which gets no other without a handler.
fn heeded(pid: Tid, signal: i32) -> i32 {
    let Some(dispositions) = proc::dispositions(pid) else { return signal };
    let signal = if dispositions.ignores(signal) { libc::SIGTERM } else { signal };
    if dispositions.is_init && !dispositions.catches(signal) { libc::SIGKILL } else { signal }
}
