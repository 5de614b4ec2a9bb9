//! Descriptors that a program is started with and told by number.

use crate::Errno;
use std::os::fd::{FromRawFd, OwnedFd};

/// A descriptor of the same open file as `number`, closed on exec. `EBADF` where there is none.
///
/// For numbers from the command line: what whoever started the program left open for it, be it a pipe, a
/// fifo or a socket, which cannot be opened again by a path below `/proc/self/fd`.
pub fn inherited(number: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: F_DUPFD_CLOEXEC takes the least number wanted, and touches no memory.
    let fd = crate::errno::check(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: the kernel has just made it, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
