//! `poll(2)`.

use crate::Errno;
use crate::errno::of;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The state of a descriptor, as `poll(2)` found it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// There is something to read (`POLLIN`).
    pub readable: bool,
    /// The other side is gone; for an event: its task has exited and no inherited copy lives
    /// (`POLLHUP`, rule G21).
    pub hangup: bool,
    /// `POLLERR`: for an event, the error state of a pinned one (rule G22), or a removed PMU.
    pub error: bool,
}

impl Readiness {
    /// Anything at all.
    pub fn any(self) -> bool {
        self.readable || self.hangup || self.error
    }
}

/// Waits until one of `fds` is ready, or for `timeout` (`None`: for ever). Returns what was found for
/// each; all empty after the timeout. A signal that is handled ends the wait with `EINTR`.
pub fn poll(fds: &[BorrowedFd<'_>], timeout: Option<Duration>) -> Result<Vec<Readiness>, Errno> {
    let mut set: Vec<PollFd<'_>> =
        fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    // A time beyond what the kernel counts is no limit.
    let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
    rustix::event::poll(&mut set, timeout.as_ref()).map_err(of)?;
    Ok(set
        .iter()
        .map(|entry| Readiness {
            readable: entry.revents().contains(PollFlags::IN),
            hangup: entry.revents().contains(PollFlags::HUP),
            error: entry.revents().contains(PollFlags::ERR),
        })
        .collect())
}

/// Waits, whatever comes in between, until `fd` is readable or hung up. Async-signal-safe.
pub fn wait_for(fd: BorrowedFd<'_>) {
    let mut set = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    while !rustix::event::poll(&mut set, None).is_ok_and(|ready| ready > 0) {}
}

/// Whether a write to `fd` would not block: a small one, as far as pipes and sockets promise.
pub fn is_writable(fd: BorrowedFd<'_>) -> bool {
    let mut set = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
    let found = rustix::event::poll(&mut set, Some(&Timespec::default()));
    found.is_ok() && set[0].revents().contains(PollFlags::OUT)
}
