//! The system call itself, and `read(2)` on what it returns.

use crate::Errno;
use perfuse_abi::{Attr, ByteOrder, OpenFlags};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `perf_event_open(2)`.
///
/// * `attr.size` may be any published size; when the kernel answers `E2BIG` it has put the size it knows
///   there (rule A3, A4).
/// * `pid`: a thread (0: the calling one), -1 for every task of `cpu`, or with
///   [`OpenFlags::PID_CGROUP`] the descriptor of a cgroup directory.
/// * `cpu`: a cpu, or -1 for all of them (a thread only).
/// * `group`: the leader, or the output target, depending on `flags`.
///
/// Other errors are those of the man page. A size beyond this struct is `EINVAL` here, without a call:
/// use [`perf_event_open_bytes`] for it.
pub fn perf_event_open(
    attr: &mut Attr,
    pid: i32,
    cpu: i32,
    group: Option<BorrowedFd<'_>>,
    flags: OpenFlags,
) -> Result<OwnedFd, Errno> {
    if attr.size as usize > size_of::<Attr>() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the kernel reads at most max(attr.size, 64) bytes, which lie within the struct (its layout
    // is the kernel's), and writes at most the size field.
    unsafe { open((&raw mut *attr).cast(), pid, cpu, group, flags) }
}

/// [`perf_event_open`] with an attr of any size, also one newer than this crate, as bytes in native order.
///
/// `EINVAL` without a call where the attr's size field asks for more than `attr` holds.
pub fn perf_event_open_bytes(
    attr: &mut [u8],
    pid: i32,
    cpu: i32,
    group: Option<BorrowedFd<'_>>,
    flags: OpenFlags,
) -> Result<OwnedFd, Errno> {
    let size = Attr::peek(attr, ByteOrder::NATIVE).size.max(Attr::SIZE_VER0);
    if size as usize > attr.len() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the kernel reads at most max(size, 64) bytes, all within the slice, and writes at
    // most the size field. It copies bytewise, so alignment does not matter.
    unsafe { open(attr.as_mut_ptr(), pid, cpu, group, flags) }
}

/// # Safety
/// `attr` must be valid for reading as many bytes as its size field says (64 if that says 0), and for
/// writing the size field.
unsafe fn open(
    attr: *mut u8,
    pid: i32,
    cpu: i32,
    group: Option<BorrowedFd<'_>>,
    flags: OpenFlags,
) -> Result<OwnedFd, Errno> {
    let group = group.map_or(-1, |fd| fd.as_raw_fd());
    // SAFETY: the caller vouches for the pointer; the other arguments are plain numbers.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, attr, pid, cpu, group, flags.bits()) };
    let fd = crate::errno::check(fd as libc::c_int)?;
    // SAFETY: the kernel just gave us this descriptor, nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Whether the system call reaches a kernel that knows it.
///
/// Asks with flags that do not exist: the kernel's very first check answers `EINVAL` (rule B1), for
/// every user and every setting. Any other answer comes from something in front of it: a seccomp filter
/// (`EPERM`, `EACCES`, `ENOSYS`, ...), another kernel such as gVisor's, or a kernel built without
/// perf_events (`ENOSYS`). That answer is the error.
pub fn perf_event_open_is_reachable() -> Result<(), Errno> {
    // SAFETY: the attr is not looked at (rule B1), and null would be an EFAULT at worst.
    let result =
        unsafe { libc::syscall(libc::SYS_perf_event_open, std::ptr::null_mut::<u8>(), 0, -1, -1, u64::MAX) };
    match crate::errno::check(result as libc::c_int) {
        Err(Errno::EINVAL) => Ok(()),
        Err(errno) => Err(errno),
        Ok(fd) => {
            // SAFETY: a kernel that accepts this has given us a descriptor that is ours to close.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
            Ok(())
        }
    }
}

/// `read(2)` of an event: fills `words` and returns how many were filled. 0 means the error state of a
/// pinned event (rule E1); `ENOSPC`: `words` is too short for the event's read format.
#[inline]
pub fn read(fd: BorrowedFd<'_>, words: &mut [u64]) -> Result<usize, Errno> {
    // SAFETY: the pointer and the length in bytes are those of a live slice.
    let bytes = unsafe { libc::read(fd.as_raw_fd(), words.as_mut_ptr().cast(), size_of_val(words)) };
    if bytes < 0 { Err(crate::errno::last()) } else { Ok(bytes as usize / size_of::<u64>()) }
}
