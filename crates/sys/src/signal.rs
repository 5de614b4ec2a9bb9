//! Signals: from events (`O_ASYNC`), and to the measuring program itself as a descriptor to poll.

use crate::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub use libc::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGKILL, SIGQUIT, SIGTERM, SIGTRAP, SIGTSTP, SIGUSR1,
    SIGUSR2,
};

/// The receiver of a descriptor's signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// One thread, by its id.
    Thread(i32),
    /// Any thread of a process.
    Process(i32),
    /// Every process of a group.
    Group(i32),
}

impl Owner {
    /// The calling thread.
    pub fn this_thread() -> Self {
        Owner::Thread(crate::thread::own_tid())
    }
}

/// Makes the event send `signal` to `owner` at every overflow, whether or not it has a ring (rule G26).
/// `SIGIO` carries no details unless asked for explicitly like this, then `si_fd` and `si_code`
/// (`POLL_IN`; `POLL_HUP` at the end of a refresh) are filled in.
pub fn deliver(fd: BorrowedFd<'_>, owner: Owner, signal: i32) -> Result<(), Errno> {
    let (kind, pid) = match owner {
        Owner::Thread(id) => (F_OWNER_TID, id),
        Owner::Process(id) => (F_OWNER_PID, id),
        Owner::Group(id) => (F_OWNER_PGRP, id),
    };
    let owner = OwnerEx { kind, pid };
    // SAFETY: F_SETOWN_EX reads a struct of two ints, which lives through the call.
    crate::errno::check(unsafe { libc::fcntl(fd.as_raw_fd(), F_SETOWN_EX, &raw const owner) })?;
    // SAFETY: F_SETSIG takes a number.
    crate::errno::check(unsafe { libc::fcntl(fd.as_raw_fd(), F_SETSIG, signal) })?;
    // SAFETY: F_GETFL takes nothing.
    let flags = crate::errno::check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: F_SETFL takes a number.
    crate::errno::check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_ASYNC) })
        .map(drop)
}

/// Stops the signals of [`deliver`].
pub fn stop_delivery(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: F_GETFL takes nothing.
    let flags = crate::errno::check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: F_SETFL takes a number.
    crate::errno::check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags & !libc::O_ASYNC) })
        .map(drop)
}

// Not in the libc crate for every target; the same numbers on all architectures (fcntl(2)).
const F_SETSIG: i32 = 10;
const F_SETOWN_EX: i32 = 15;
const F_OWNER_TID: i32 = 0;
const F_OWNER_PID: i32 = 1;
const F_OWNER_PGRP: i32 = 2;

/// `struct f_owner_ex`.
#[repr(C)]
struct OwnerEx {
    kind: i32,
    pid: i32,
}

/// Signals of this process, read from a descriptor in place of interrupting it. The signals stay
/// blocked until the value is dropped; children made by [`process::spawn`](crate::process::spawn) start
/// with none blocked.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
    before: SignalSet,
}

/// A signal that [`Signals`] collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// Its number.
    pub signal: i32,
    /// `si_code`: for a signal of an event `POLL_IN` (1), or `POLL_HUP` (6) at the end of a refresh.
    pub code: i32,
    /// `si_fd`: for a signal of an event its descriptor.
    pub fd: i32,
}

impl Signals {
    /// Blocks `signals` for the calling thread (and those it starts) and collects them. SIGHUP and SIGQUIT stay ignored where they are:
    /// that is what nohup(1) asks for.
    pub fn collect(signals: &[i32]) -> Result<Self, Errno> {
        let mut set = SignalSet::empty();
        let stays = |signal: i32| [SIGHUP, libc::SIGQUIT].contains(&signal) && is_ignored(signal);
        signals.iter().filter(|signal| !stays(**signal)).for_each(|&signal| set.insert(signal));
        let before = set.block()?;
        // SAFETY: the pointer is to a live signal set.
        let fd = unsafe { libc::signalfd(-1, &set.0, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        // SAFETY: a fresh descriptor that nobody else has.
        let fd = crate::errno::check(fd).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        match fd {
            Ok(fd) => Ok(Signals { fd, before }),
            Err(errno) => {
                before.restore();
                Err(errno)
            }
        }
    }

    /// The next signal that has arrived, without waiting.
    pub fn next(&self) -> Option<Received> {
        // SAFETY: an all-zero siginfo is a valid value of that plain struct.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        // SAFETY: pointer and length are those of a live struct.
        let got = unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), size_of_val(&info)) };
        let whole = got == size_of_val(&info) as isize;
        whole.then_some(Received { signal: info.ssi_signo as i32, code: info.ssi_code, fd: info.ssi_fd })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.before.restore();
    }
}

/// Blocks all signals in the calling thread: those of the process go to its other threads. Async-signal-safe.
pub fn block_all() {
    let mut set = SignalSet::empty();
    // SAFETY: the pointer is to a live set.
    unsafe { libc::sigfillset(&mut set.0) };
    set.restore();
}

/// How this process deals with a signal.
fn action_of(signal: i32) -> Result<libc::sigaction, Errno> {
    // SAFETY: an all-zero sigaction is a valid value of that plain struct.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live action, which is written.
    crate::errno::check(unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) })?;
    Ok(action)
}

fn is_ignored(signal: i32) -> bool {
    action_of(signal).is_ok_and(|action| action.sa_sigaction == libc::SIG_IGN)
}

/// From now on children that merely stop or go on send no `SIGCHLD`; whatever handles it stays.
pub fn only_ended_children_tell() -> Result<(), Errno> {
    let mut action = action_of(libc::SIGCHLD)?;
    action.sa_flags |= libc::SA_NOCLDSTOP;
    // SAFETY: the handler is the one that was there.
    crate::errno::check(unsafe { libc::sigaction(libc::SIGCHLD, &action, std::ptr::null_mut()) }).map(drop)
}

/// Sends this process a signal.
pub fn raise_for_process(signal: i32) {
    // Only a wrong signal is an error.
    let _ = send(std::process::id() as i32, signal);
}

/// Sends a process a signal; 0 only asks whether that could be done.
pub fn send(pid: i32, signal: i32) -> Result<(), Errno> {
    // SAFETY: plain numbers.
    crate::errno::check(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// Sends a thread of a process a signal (`tgkill(2)`).
pub fn send_to_thread(pid: i32, tid: i32, signal: i32) -> Result<(), Errno> {
    // SAFETY: plain numbers.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, signal) };
    crate::errno::check(sent as libc::c_int).map(drop)
}

/// The last of the signals that programs may use as they like.
pub fn last_real_time() -> i32 {
    libc::SIGRTMAX()
}

/// From now on this signal interrupts what the thread that gets it waits for, and does nothing else.
pub fn only_interrupts(signal: i32) -> Result<(), Errno> {
    extern "C" fn nothing(_signal: i32) {}
    // SAFETY: an all-zero sigaction is a valid value of that plain struct: no flags, no mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
    // SAFETY: the handler does nothing, so it may run anywhere; the pointer is to a live action.
    crate::errno::check(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) }).map(drop)
}

/// The calling thread no longer blocks this signal.
pub fn unblock(signal: i32) {
    let mut set = SignalSet::empty();
    set.insert(signal);
    // SAFETY: the pointer is to a live set; the old one is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &set.0, std::ptr::null_mut()) };
}

/// A set of signals.
#[derive(Clone, Copy)]
pub(crate) struct SignalSet(pub(crate) libc::sigset_t);

impl SignalSet {
    pub(crate) fn empty() -> Self {
        // SAFETY: an all-zero set is a valid value, and sigemptyset makes it the empty one.
        let mut set = SignalSet(unsafe { std::mem::zeroed() });
        // SAFETY: the pointer is to a live set.
        unsafe { libc::sigemptyset(&mut set.0) };
        set
    }

    fn insert(&mut self, signal: i32) {
        // SAFETY: the pointer is to a live set; a bad number is refused.
        unsafe { libc::sigaddset(&mut self.0, signal) };
    }

    /// Blocks these too; returns what was blocked before.
    fn block(&self) -> Result<SignalSet, Errno> {
        let mut before = SignalSet::empty();
        // SAFETY: both pointers are to live sets.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &self.0, &mut before.0) } {
            0 => Ok(before),
            errno => Err(Errno(errno)),
        }
    }

    /// Blocks exactly these. Async-signal-safe.
    pub(crate) fn restore(&self) {
        // SAFETY: the pointer is to a live set; the old one is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

impl std::fmt::Debug for SignalSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let has = |signal: &i32| {
            // SAFETY: the pointer is to a live set.
            unsafe { libc::sigismember(&self.0, *signal) == 1 }
        };
        f.debug_set().entries((1..=64).filter(has)).finish()
    }
}
