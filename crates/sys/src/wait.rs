//! `waitid(2)` and `wait4(2)`: what happened to children and tracees.

use crate::Errno;
use crate::process::Usage;

pub use libc::{__WALL, __WNOTHREAD, WEXITED, WNOHANG, WNOWAIT, WSTOPPED};
pub use libc::{CLD_DUMPED, CLD_EXITED, CLD_KILLED, CLD_TRAPPED};

/// What a wait found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Whose; 0 where nothing happened, asked with `WNOHANG`.
    pub pid: i32,
    /// `CLD_*`.
    pub code: i32,
    /// The exit code, or the signal.
    pub status: i32,
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
