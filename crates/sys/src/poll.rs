//! `poll(2)`.

use crate::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// What `poll(2)` found.
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
    let mut set: Vec<libc::pollfd> =
        fds.iter().map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }).collect();
    // Rounded up, so that a short wait is never a busy one.
    let millis = timeout.map_or(-1, |t| i32::try_from(t.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX));
    // SAFETY: pointer and length are those of a live vector.
    crate::errno::check(unsafe { libc::poll(set.as_mut_ptr(), set.len() as libc::nfds_t, millis) })?;
    let has = |entry: &libc::pollfd, bit| entry.revents & bit != 0;
    Ok(set
        .iter()
        .map(|entry| Readiness {
            readable: has(entry, libc::POLLIN),
            hangup: has(entry, libc::POLLHUP),
            error: has(entry, libc::POLLERR),
        })
        .collect())
}

/// Whether a write to `fd` would not block: a small one, as far as pipes and sockets promise.
pub fn is_writable(fd: BorrowedFd<'_>) -> bool {
    let mut entry = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: the pointer is to one live entry.
    let found = unsafe { libc::poll(&mut entry, 1, 0) };
    found == 1 && entry.revents & libc::POLLOUT != 0
}
