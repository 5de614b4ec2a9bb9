//! The tracing file system where nobody has mounted it.

use crate::Errno;
use crate::errno::{check, last};
use std::ffi::CStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Where [`mount_tracefs`] puts it, as perf does.
const USUAL_PLACE: &CStr = c"/sys/kernel/tracing";

/// The root of a mount of tracefs that stands nowhere in the file tree: nobody else sees it, and it is gone with
/// the descriptor. Read-only. Paths lead into it below `/proc/self/fd`.
///
/// `EPERM` without `CAP_SYS_ADMIN` in the initial user namespace, `ENODEV` where the kernel was built without
/// tracing, `ENOSYS` before Linux 5.2.
pub fn detached_tracefs() -> Result<OwnedFd, Errno> {
    // Of <linux/mount.h>.
    const FSOPEN_CLOEXEC: libc::c_long = 1;
    const FSCONFIG_CMD_CREATE: libc::c_long = 6;
    const FSMOUNT_CLOEXEC: libc::c_long = 1;
    const READ_ONLY_NOSUID_NODEV_NOEXEC: libc::c_long = 0xf;
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: the name is a string that lives through the call.
    let context = owned(unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), FSOPEN_CLOEXEC) })?;
    let fd = libc::c_long::from(context.as_raw_fd());
    // SAFETY: this command takes neither a key nor a value.
    let created =
        unsafe { libc::syscall(libc::SYS_fsconfig, fd, FSCONFIG_CMD_CREATE, none, none, 0 as libc::c_long) };
    check(created as libc::c_int)?;
    // SAFETY: plain numbers.
    owned(unsafe { libc::syscall(libc::SYS_fsmount, fd, FSMOUNT_CLOEXEC, READ_ONLY_NOSUID_NODEV_NOEXEC) })
}

/// A descriptor that a system call has made.
fn owned(result: libc::c_long) -> Result<OwnedFd, Errno> {
    match i32::try_from(result) {
        // SAFETY: the kernel has just made it, and nobody else knows it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(last()),
    }
}

/// Mounts tracefs at its usual place, for all to see, as perf does.
pub fn mount_tracefs() -> Result<(), Errno> {
    let name = c"tracefs".as_ptr();
    // SAFETY: strings that live through the call; tracefs needs no data.
    check(unsafe { libc::mount(name, USUAL_PLACE.as_ptr(), name, 0, std::ptr::null()) }).map(drop)
}
