//! `prctl(2)`: every event the calling thread opened, at once (rule C57).

use crate::Errno;
use perfuse_abi::ioctl::{PR_TASK_PERF_EVENTS_DISABLE, PR_TASK_PERF_EVENTS_ENABLE};

/// Switches on all events that this thread opened, whatever they measure.
pub fn task_perf_events_enable() -> Result<(), Errno> {
    // SAFETY: the option takes no further arguments.
    crate::errno::check(unsafe { libc::prctl(PR_TASK_PERF_EVENTS_ENABLE) }).map(drop)
}

/// Switches off all events that this thread opened, whatever they measure.
pub fn task_perf_events_disable() -> Result<(), Errno> {
    // SAFETY: the option takes no further arguments.
    crate::errno::check(unsafe { libc::prctl(PR_TASK_PERF_EVENTS_DISABLE) }).map(drop)
}
