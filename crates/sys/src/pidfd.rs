//! Processes by descriptors: these name the same process as long as they are open, while numbers are used again.

use crate::Errno;
use crate::errno::of;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// That of a process. `ENOSYS` before Linux 5.3 and in gVisor, `ESRCH` where there is none.
pub fn open(pid: i32) -> Result<OwnedFd, Errno> {
    let pid = Pid::from_raw(pid).ok_or(Errno::EINVAL)?;
    rustix::process::pidfd_open(pid, PidfdFlags::empty()).map_err(of)
}

/// A copy of a descriptor that a process has (`pidfd_getfd(2)`, Linux 5.6); who may trace it may have it.
pub fn descriptor_of(pid: i32, fd: RawFd) -> Result<OwnedFd, Errno> {
    pidfd_getfd(open(pid)?, fd, PidfdGetfdFlags::empty()).map_err(of)
}

/// Sends the process a signal. One that is gone needs it no more.
pub fn send(process: BorrowedFd<'_>, signal: i32) {
    // The same everywhere.
    const PIDFD_SEND_SIGNAL: libc::c_long = 424;
    // SAFETY: a number of an open descriptor, and no details.
    unsafe { libc::syscall(PIDFD_SEND_SIGNAL, process.as_raw_fd(), signal, std::ptr::null::<u8>(), 0) };
}
