//! The ioctls of an event descriptor, by number. Each constant tells the true type of its argument;
//! `perfuse-sys` calls them.
//!
//! Codes whose C definition names a pointer carry the caller's pointer size, so a 32-bit program on a
//! 64-bit kernel uses other numbers ([`COMPAT_ID`] and its neighbours).

use core::mem::size_of;

const NONE: u32 = 0;
const WRITE: u32 = 1;
const READ: u32 = 2;

/// Linux's ioctl encoding for the letter `$` on all but mips, powerpc and sparc.
const fn code(direction: u32, number: u32, size: usize) -> u32 {
    direction << 30 | (size as u32) << 16 | (b'$' as u32) << 8 | number
}

/// Switch on. Argument: [`IocFlags`](crate::IocFlags).
pub const ENABLE: u32 = code(NONE, 0, 0);
/// Switch off. Argument: [`IocFlags`](crate::IocFlags).
pub const DISABLE: u32 = code(NONE, 1, 0);
/// Allow this many more overflows (added to those left), then switch off. Argument: an int.
pub const REFRESH: u32 = code(NONE, 2, 0);
/// Set the count to zero; times stay. Argument: [`IocFlags`](crate::IocFlags).
pub const RESET: u32 = code(NONE, 3, 0);
/// Change the period, or the frequency of a frequency event. Argument: pointer to a `u64`.
pub const PERIOD: u32 = code(WRITE, 4, size_of::<u64>());
/// Redirect records to the ring of another event. Argument: a descriptor, or -1.
pub const SET_OUTPUT: u32 = code(NONE, 5, 0);
/// Set a tracepoint or address filter. Argument: pointer to a NUL-terminated string.
pub const SET_FILTER: u32 = code(WRITE, 6, size_of::<usize>());
/// Get the event's id. Argument: pointer to a `u64`.
pub const ID: u32 = code(READ, 7, size_of::<usize>());
/// Attach a BPF program (Linux 4.1). Argument: descriptor of the program.
pub const SET_BPF: u32 = code(WRITE, 8, size_of::<u32>());
/// Pause or resume writing to the ring (Linux 4.7). Argument: 0 or another number.
pub const PAUSE_OUTPUT: u32 = code(WRITE, 9, size_of::<u32>());
/// Ids of the attached BPF programs (Linux 4.16). Argument: pointer to `ids_len`, `prog_cnt`, `ids[]`,
/// all `u32`.
pub const QUERY_BPF: u32 = code(READ | WRITE, 10, size_of::<usize>());
/// Change a breakpoint in place (Linux 4.17). Argument: pointer to an attr.
pub const MODIFY_ATTRIBUTES: u32 = code(WRITE, 11, size_of::<usize>());

/// [`SET_FILTER`] as a 32-bit program calls it.
pub const COMPAT_SET_FILTER: u32 = code(WRITE, 6, 4);
/// [`ID`] as a 32-bit program calls it.
pub const COMPAT_ID: u32 = code(READ, 7, 4);
/// [`QUERY_BPF`] as a 32-bit program calls it.
pub const COMPAT_QUERY_BPF: u32 = code(READ | WRITE, 10, 4);
/// [`MODIFY_ATTRIBUTES`] as a 32-bit program calls it.
pub const COMPAT_MODIFY_ATTRIBUTES: u32 = code(WRITE, 11, 4);

/// `prctl` option: switch off every event this thread opened.
pub const PR_TASK_PERF_EVENTS_DISABLE: i32 = 31;
/// `prctl` option: switch on every event this thread opened.
pub const PR_TASK_PERF_EVENTS_ENABLE: i32 = 32;

/// `si_code` of the SIGTRAP of an event with [`AttrFlags::SIGTRAP`](crate::AttrFlags::SIGTRAP).
pub const TRAP_PERF: i32 = 6;

/// The name of an ioctl code, such as `PERF_EVENT_IOC_RESET`.
pub fn name(code: u32) -> Option<&'static str> {
    Some(match code {
        ENABLE => "PERF_EVENT_IOC_ENABLE",
        DISABLE => "PERF_EVENT_IOC_DISABLE",
        REFRESH => "PERF_EVENT_IOC_REFRESH",
        RESET => "PERF_EVENT_IOC_RESET",
        PERIOD => "PERF_EVENT_IOC_PERIOD",
        SET_OUTPUT => "PERF_EVENT_IOC_SET_OUTPUT",
        SET_BPF => "PERF_EVENT_IOC_SET_BPF",
        PAUSE_OUTPUT => "PERF_EVENT_IOC_PAUSE_OUTPUT",
        c if c == SET_FILTER || c == COMPAT_SET_FILTER => "PERF_EVENT_IOC_SET_FILTER",
        c if c == ID || c == COMPAT_ID => "PERF_EVENT_IOC_ID",
        c if c == QUERY_BPF || c == COMPAT_QUERY_BPF => "PERF_EVENT_IOC_QUERY_BPF",
        c if c == MODIFY_ATTRIBUTES || c == COMPAT_MODIFY_ATTRIBUTES => "PERF_EVENT_IOC_MODIFY_ATTRIBUTES",
        _ => return None,
    })
}
