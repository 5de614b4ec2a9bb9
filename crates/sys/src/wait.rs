//! `waitid(2)` and `wait4(2)`: what happened to children and tracees.

use crate::Errno;
use std::time::Duration;

pub use libc::{__WALL, __WNOTHREAD, WEXITED, WNOHANG, WNOWAIT, WSTOPPED};
pub use libc::{CLD_DUMPED, CLD_EXITED, CLD_KILLED, CLD_TRAPPED};

/// The change of a child that a wait found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The child's pid; 0 where nothing happened and `WNOHANG` asked.
    pub pid: i32,
    /// `CLD_*`.
    pub code: i32,
    /// The exit code, or the signal.
    pub status: i32,
}

/// The resources that a child used, from `wait4(2)`; its own waited-for children included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// CPU time in user space.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Largest resident set of any of them, in bytes.
    pub peak_rss_bytes: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
}

impl From<&libc::rusage> for Usage {
    fn from(usage: &libc::rusage) -> Self {
        let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
        Usage {
            user: time(usage.ru_utime),
            system: time(usage.ru_stime),
            peak_rss_bytes: usage.ru_maxrss as u64 * 1024,
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
        }
    }
}

/// `waitid(2)` for one child or tracee, or for any (`None`). `EINTR`, `ECHILD`.
pub fn change(pid: Option<i32>, options: i32) -> Result<Change, Errno> {
    // SAFETY: an all-zero siginfo is a valid value of that plain struct.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let (kind, id) = pid.map_or((libc::P_ALL, 0), |pid| (libc::P_PID, pid));
    // SAFETY: the pointer is to a live siginfo.
    crate::errno::check(unsafe { libc::waitid(kind, id as libc::id_t, &raw mut info, options) })?;
    // SAFETY: waitid fills in the variant of children, or leaves zeros.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    Ok(Change { pid, code: info.si_code, status })
}

/// `wait4(2)`: the status of one, if anything happened; any end or stop counts, of clones without a signal too.
pub fn status(pid: i32, options: i32) -> Result<Option<i32>, Errno> {
    let mut status = 0;
    // SAFETY: the pointer is to a live value, and no usage is asked for.
    let taken = unsafe { libc::wait4(pid, &raw mut status, options, std::ptr::null_mut()) };
    crate::errno::check(taken).map(|taken| (taken != 0).then_some(status))
}

/// The same, with the resources that the dead used.
pub fn status_and_usage(pid: i32, options: i32) -> Result<Option<(i32, Usage)>, Errno> {
    let mut status = 0;
    // SAFETY: an all-zero rusage is a valid value of that plain struct.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live values.
    let taken = unsafe { libc::wait4(pid, &raw mut status, options, &raw mut usage) };
    crate::errno::check(taken).map(|taken| (taken != 0).then(|| (status, Usage::from(&usage))))
}
