//! System calls that ended with `EINTR` because their thread was stopped: they are begun again.
//!
//! Most calls begin again by themselves when a thread was stopped without a signal to be handled. Some answer `EINTR`
//! whatever woke them (`epoll_wait`, `semtimedop`, `io_getevents`, sockets with a timeout, ...: signal(7)): an
//! interrupt of ours, or a signal that the program ignores, which the kernel would not even have sent to a thread that
//! nobody traces. Such an answer is taken back before the program sees it. A signal that has a handler, or one that
//! stops the process, ends the call as ever.
//!
//! A call with a timeout has what was left of that when it is begun again, to be exact: from its first interruption on, as
//! a tracer does not hear when a call was made. Its argument stays as it is. The thread is followed to the end of
//! the call, is stopped when the time is over, and gets the answer of one whose time is over.
//!
//! `close` is not begun again: its descriptor is gone.

use super::Supervisor;
use crate::proc;
use crate::ptrace::{self, Resume, Status, Tid};
use crate::regs::{Registers, Width};
use crate::remote;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A call that has been begun again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Again {
    /// When its time is over, and what it answers then.
    until: u64,
    answer: i64,
    at: At,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Entry,
    Inside,
    Exit,
}

impl Again {
    /// How its thread goes on.
    pub(super) fn stride(how: Resume) -> Resume {
        match how {
            Resume::Continue(signal) => Resume::Syscall(signal),
            how => how,
        }
    }
}

/// How long to wait until a thread is interrupted once more that was not where it could be.
const PATIENCE_NS: u64 = 1_000_000;

impl Supervisor {
    /// A tracee is stopped, before a signal or by an interrupt: if that ended its system call, this is begun again.
    pub(super) fn begin_again(&mut self, tid: Tid, status: Status) {
        let signal = match status {
            Status::Event(ptrace::EVENT_STOP) => None,
            Status::Signal(signal) => Some(signal),
            _ => return,
        };
        let Some(tracee) = self.tracees.get_mut(&tid) else { return };
        let Ok(mut registers) = Registers::of(tid) else { return };
        let was_interrupted = registers.was_interrupted();
        if !was_interrupted && tracee.again.is_none() {
            return;
        }
        if signal.is_some_and(|signal| proc::ends_calls(tid, signal)) {
            tracee.again = None;
            // Whoever was killed meanwhile tells so next.
            let _ = registers.end_with(tid, -i64::from(libc::EINTR));
            #[cfg(target_arch = "aarch64")]
            {
                tracee.stands = Some((registers.ip(), registers.stack()));
            }
            return;
        }
        let now = proc::clock_ns(libc::CLOCK_MONOTONIC);
        // One that has not been made again yet ends here, too.
        if let Some(again) = tracee.again.filter(|again| again.until <= now) {
            if was_interrupted || again.at == At::Entry {
                tracee.again = None;
                // Whoever was killed meanwhile tells so next.
                let _ = registers.end_with(tid, again.answer);
            }
            return;
        }
        let call = if was_interrupted { registers.ended_call(tid) } else { None };
        let Some((of_call, call)) = call.filter(|(_, call)| *call != Some(libc::SYS_close)) else { return };
        #[cfg(target_arch = "aarch64")]
        if tracee.stands == Some((registers.ip(), registers.stack())) {
            return;
        }
        if tracee.again.is_none() && !tracee.pace.is_wanted() {
            tracee.again = timeout(tracee.pid, tid, &of_call, call).map(|(ns, answer)| Again {
                until: now.saturating_add(ns),
                answer,
                at: At::Entry,
            });
            if let Some(again) = tracee.again {
                self.deadlines.insert((again.until, tid));
                self.alarm.set(self.deadlines.first().map(|first| first.0));
            }
        }
        if let Some(again) = &mut tracee.again {
            again.at = At::Entry;
        }
        let _ = registers.begin_again(tid);
    }

    /// A tracee is at the entry or the exit of a system call. Whether that is for us only.
    pub(super) fn follows_call(&mut self, tid: Tid) -> bool {
        let Some(tracee) = self.tracees.get_mut(&tid) else { return false };
        let Some(again) = &mut tracee.again else { return false };
        match again.at {
            At::Entry => again.at = At::Inside,
            // What interrupted it is told next; an interrupt of ours that this stop has swallowed has to be made again.
            At::Inside if Registers::of(tid).is_ok_and(|registers| registers.was_interrupted()) => {
                again.at = At::Exit;
                let _ = ptrace::interrupt(tid);
            }
            At::Inside | At::Exit => tracee.again = None,
        }
        true
    }

    /// Stops those whose calls have lasted for as long as they may.
    pub(super) fn follow_deadlines(&mut self) {
        if self.deadlines.is_empty() {
            return;
        }
        let now = proc::clock_ns(libc::CLOCK_MONOTONIC);
        while let Some((until, tid)) = self.deadlines.first().copied().filter(|(until, _)| *until <= now) {
            self.deadlines.remove(&(until, tid));
            let Some(tracee) = self.tracees.get(&tid) else { continue };
            let Some(again) = tracee.again.filter(|again| again.until <= now) else { continue };
            if again.at == At::Inside {
                let _ = ptrace::interrupt(tid);
            }
            self.deadlines.insert((now + PATIENCE_NS, tid));
        }
        self.alarm.set(self.deadlines.first().map(|first| first.0));
    }
}

/// Of a call that does not last for ever: its longest time in ns, and what it answers then.
fn timeout(pid: Tid, tid: Tid, registers: &Registers, call: Option<libc::c_long>) -> Option<(u64, i64)> {
    #[cfg(target_arch = "x86_64")]
    const EPOLL_WAIT: libc::c_long = libc::SYS_epoll_wait;
    #[cfg(target_arch = "aarch64")]
    const EPOLL_WAIT: libc::c_long = -1;
    const EAGAIN: i64 = -(libc::EAGAIN as i64);
    let time_at = |argument: usize| time(tid, registers, registers.argument(argument));
    let socket = |option| socket_timeout(pid, registers.argument(0) as i32, option);
    match call? {
        EPOLL_WAIT | libc::SYS_epoll_pwait => {
            let ms = u64::try_from(registers.argument(3) as i32).ok()?;
            Some((ms * 1_000_000, 0))
        }
        libc::SYS_epoll_pwait2 => Some((time_at(3)?, 0)),
        libc::SYS_io_getevents => Some((time_at(4)?, 0)),
        libc::SYS_semtimedop => Some((time_at(3)?, EAGAIN)),
        libc::SYS_rt_sigtimedwait => Some((time_at(2)?, EAGAIN)),
        libc::SYS_io_uring_enter => {
            const EXTENDED: u64 = 1 << 3;
            const ABSOLUTE: u64 = 1 << 5;
            let flags = registers.argument(3) & (EXTENDED | ABSOLUTE);
            let mut at = [0; 8];
            remote::read_exact(tid, registers.argument(4).wrapping_add(16), &mut at).ok()?;
            let ns = time_of_64(tid, u64::from_le_bytes(at)).filter(|_| flags == EXTENDED)?;
            Some((ns, -i64::from(libc::ETIME)))
        }
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg
        | libc::SYS_accept
        | libc::SYS_accept4 => Some((socket(libc::SO_RCVTIMEO)?, EAGAIN)),
        libc::SYS_write | libc::SYS_writev | libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg => {
            Some((socket(libc::SO_SNDTIMEO)?, EAGAIN))
        }
        libc::SYS_connect => {
            let ns = socket(libc::SO_SNDTIMEO)?;
            let local = socket_option(pid, registers.argument(0) as i32, libc::SO_DOMAIN, 0i32);
            Some((ns, if local == Some(libc::AF_UNIX) { EAGAIN } else { -i64::from(libc::EINPROGRESS) }))
        }
        _ => None,
    }
}

/// A `struct timespec` of a caller, in ns; `None` for a null pointer.
fn time(tid: Tid, registers: &Registers, at: u64) -> Option<u64> {
    /// The first of the calls that 32-bit programs have for wider times.
    const WIDER: u64 = 403;
    if registers.width() == Width::Native || registers.call() >= WIDER {
        return time_of_64(tid, at);
    }
    let mut time = [0; 8];
    remote::read_exact(tid, at, &mut time).ok()?;
    let word =
        |at: usize| u64::from(u32::from_le_bytes([time[at], time[at + 1], time[at + 2], time[at + 3]]));
    Some(word(0) * 1_000_000_000 + word(4))
}

fn time_of_64(tid: Tid, at: u64) -> Option<u64> {
    let (mut seconds, mut ns) = ([0; 8], [0; 8]);
    remote::read_exact(tid, at, &mut seconds).ok()?;
    remote::read_exact(tid, at.wrapping_add(8), &mut ns).ok()?;
    let seconds = u64::from_le_bytes(seconds).saturating_mul(1_000_000_000);
    Some(seconds.saturating_add(u64::from_le_bytes(ns)))
}

/// The timeout of a process's socket in ns, if it has one.
fn socket_timeout(pid: Tid, fd: i32, option: i32) -> Option<u64> {
    let time = socket_option(pid, fd, option, libc::timeval { tv_sec: 0, tv_usec: 0 })?;
    Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000).filter(|ns| *ns > 0)
}

/// An option of a process's socket, of the kind of `value`.
fn socket_option<T: Copy>(pid: Tid, fd: i32, option: i32, mut value: T) -> Option<T> {
    // The same everywhere.
    const PIDFD_OPEN: libc::c_long = 434;
    const PIDFD_GETFD: libc::c_long = 438;
    let own = |fd: libc::c_long| {
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
        // SAFETY: a fresh descriptor that nobody else has.
        Some(unsafe { OwnedFd::from_raw_fd(fd) })
    };
    // SAFETY: plain numbers.
    let process = own(unsafe { libc::syscall(PIDFD_OPEN, pid, 0) })?;
    // SAFETY: plain numbers; the first is a live descriptor.
    let socket = own(unsafe { libc::syscall(PIDFD_GETFD, process.as_raw_fd(), fd, 0) })?;
    let mut len = size_of_val(&value) as libc::socklen_t;
    let (fd, level) = (socket.as_raw_fd(), libc::SOL_SOCKET);
    // SAFETY: the pointers are to live values, the second of which tells the size of the first; the kinds that are
    // asked for here are made of numbers.
    let got = unsafe { libc::getsockopt(fd, level, option, (&raw mut value).cast(), &raw mut len) };
    (got == 0).then_some(value)
}
