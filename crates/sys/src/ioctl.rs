//! The twelve ioctls of an event descriptor, each with the argument the kernel really takes.

use crate::Errno;
use perfuse_abi::{Attr, IocFlags, ioctl as code};
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// Calls ioctl with a plain number.
fn number(fd: BorrowedFd<'_>, code: u32, argument: libc::c_ulong) -> Result<(), Errno> {
    // SAFETY: the codes used with this function take their argument by value.
    crate::errno::check(unsafe { libc::ioctl(fd.as_raw_fd(), code as _, argument) }).map(drop)
}

/// `PERF_EVENT_IOC_ENABLE`: switches on the event and its inherited copies, or the whole group.
pub fn enable(fd: BorrowedFd<'_>, flags: IocFlags) -> Result<(), Errno> {
    number(fd, code::ENABLE, flags.bits().into())
}

/// `PERF_EVENT_IOC_DISABLE`: switches off the event and its inherited copies, or the whole group.
pub fn disable(fd: BorrowedFd<'_>, flags: IocFlags) -> Result<(), Errno> {
    number(fd, code::DISABLE, flags.bits().into())
}

/// `PERF_EVENT_IOC_RESET`: sets the count to zero. Times, lost counts and what exited children
/// contributed stay (rule C47).
pub fn reset(fd: BorrowedFd<'_>, flags: IocFlags) -> Result<(), Errno> {
    number(fd, code::RESET, flags.bits().into())
}

/// `PERF_EVENT_IOC_REFRESH`: allows `overflows` more, then the event switches itself off. Adds to what
/// is left (rule C48). `EINVAL` for inherited and for counting events.
pub fn refresh(fd: BorrowedFd<'_>, overflows: i32) -> Result<(), Errno> {
    number(fd, code::REFRESH, overflows as libc::c_ulong)
}

/// `PERF_EVENT_IOC_PERIOD`: a new period, or a new frequency for a frequency event (rule C49). The
/// kernel takes a pointer.
pub fn period(fd: BorrowedFd<'_>, period: u64) -> Result<(), Errno> {
    // SAFETY: the pointer is to a live u64, which the kernel reads.
    crate::errno::check(unsafe { libc::ioctl(fd.as_raw_fd(), code::PERIOD as _, &raw const period) })
        .map(drop)
}

/// `PERF_EVENT_IOC_SET_OUTPUT`: sends records to the ring of `target`, or to none (rule G30).
pub fn set_output(fd: BorrowedFd<'_>, target: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    let target: RawFd = target.map_or(-1, |fd| fd.as_raw_fd());
    number(fd, code::SET_OUTPUT, target as libc::c_ulong)
}

/// `PERF_EVENT_IOC_SET_FILTER`: a tracepoint filter or address filters; shorter than a page.
pub fn set_filter(fd: BorrowedFd<'_>, filter: &CStr) -> Result<(), Errno> {
    // SAFETY: the pointer is to a NUL-terminated string, which the kernel reads.
    crate::errno::check(unsafe { libc::ioctl(fd.as_raw_fd(), code::SET_FILTER as _, filter.as_ptr()) })
        .map(drop)
}

/// `PERF_EVENT_IOC_ID`: the event's id, as it stands in samples.
pub fn id(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    let mut id = 0u64;
    // SAFETY: the pointer is to a live u64, which the kernel writes.
    crate::errno::check(unsafe { libc::ioctl(fd.as_raw_fd(), code::ID as _, &raw mut id) })?;
    Ok(id)
}

/// `PERF_EVENT_IOC_SET_BPF`: runs this BPF program at each occurrence or overflow (rule K1).
pub fn set_bpf(fd: BorrowedFd<'_>, program: BorrowedFd<'_>) -> Result<(), Errno> {
    number(fd, code::SET_BPF, program.as_raw_fd() as libc::c_ulong)
}

/// `PERF_EVENT_IOC_PAUSE_OUTPUT`: stops or resumes writing to the event's ring (rule C55).
pub fn pause_output(fd: BorrowedFd<'_>, pause: bool) -> Result<(), Errno> {
    number(fd, code::PAUSE_OUTPUT, pause.into())
}

/// `PERF_EVENT_IOC_QUERY_BPF`: the ids of the BPF programs attached to the event's tracepoint.
pub fn query_bpf(fd: BorrowedFd<'_>) -> Result<Vec<u32>, Errno> {
    // struct perf_event_query_bpf { ids_len, prog_cnt, ids[] }
    let mut room = 16;
    loop {
        let mut query = vec![0u32; 2 + room];
        query[0] = room as u32;
        // SAFETY: the pointer is to `2 + room` words, as the first word tells the kernel.
        let result = unsafe { libc::ioctl(fd.as_raw_fd(), code::QUERY_BPF as _, query.as_mut_ptr()) };
        let attached = query[1] as usize;
        match crate::errno::check(result) {
            // The kernel says how many there are; programs may be attached meanwhile.
            Err(Errno::ENOSPC) if attached > room => room = attached,
            Err(errno) => return Err(errno),
            Ok(_) => {
                query.drain(..2);
                query.truncate(attached);
                return Ok(query);
            }
        }
    }
}

/// `PERF_EVENT_IOC_MODIFY_ATTRIBUTES`: moves a breakpoint (rule C51); everything but its address, type,
/// length and `disabled` must equal what it was opened with, the size too. `EINVAL` without a call for a
/// size beyond the struct.
pub fn modify_attributes(fd: BorrowedFd<'_>, attr: &Attr) -> Result<(), Errno> {
    if attr.size as usize > size_of::<Attr>() {
        return Err(Errno::EINVAL);
    }
    // The kernel may write the size it knows back, so it gets a copy.
    let mut attr = *attr;
    // SAFETY: the pointer is to a live attr that holds at least `size` bytes.
    crate::errno::check(unsafe { libc::ioctl(fd.as_raw_fd(), code::MODIFY_ATTRIBUTES as _, &raw mut attr) })
        .map(drop)
}
