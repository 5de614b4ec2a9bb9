//! Resource limits that measuring runs into: descriptors and locked memory.

use crate::Errno;
use crate::errno::of;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use std::sync::OnceLock;

/// A soft and a hard limit; `u64::MAX` is "unlimited".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The limit that holds now.
    pub soft: u64,
    /// How far the process may raise it.
    pub hard: u64,
}

impl Limit {
    fn of(limit: Rlimit) -> Self {
        Limit { soft: limit.current.unwrap_or(u64::MAX), hard: limit.maximum.unwrap_or(u64::MAX) }
    }

    fn raw(self) -> Rlimit {
        let bounded = |limit| (limit != u64::MAX).then_some(limit);
        Rlimit { current: bounded(self.soft), maximum: bounded(self.hard) }
    }
}

/// `RLIMIT_NOFILE`: how many descriptors the process may have.
pub fn open_files() -> Result<Limit, Errno> {
    Ok(Limit::of(getrlimit(Resource::Nofile)))
}

/// `RLIMIT_MEMLOCK`: how many bytes the process may lock, rings beyond the per-user share included.
pub fn locked_bytes() -> Result<Limit, Errno> {
    Ok(Limit::of(getrlimit(Resource::Memlock)))
}

/// Makes an attempt; one that is answered `EPERM` again without a limit of locked memory, if that may be had (`CAP_SYS_RESOURCE`): Linux
/// before 5.11 counts maps and programs of BPF as locked memory, and gives that answer where it exceeds the limit.
pub(crate) fn with_room_to_lock<T>(mut attempt: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let first = attempt();
    let before = match (&first, locked_bytes()) {
        (Err(Errno::EPERM), Ok(before)) if before.soft != u64::MAX => before,
        _ => return first,
    };
    let none = Limit { soft: u64::MAX, hard: u64::MAX };
    if setrlimit(Resource::Memlock, none.raw()).is_err() {
        return first;
    }
    let again = attempt();
    let _ = setrlimit(Resource::Memlock, before.raw());
    again
}

/// The limit of descriptors before this process raised it, which its children have again.
static BEFORE: OnceLock<Limit> = OnceLock::new();

/// Descriptors for all else that a process has open beside its events: standard files, rings' files, output.
pub const OTHERS: u64 = 64;

/// Sees to it that `needed` descriptors can be open, one for each event, cpu and thread, as far as that may
/// be had: the soft limit is raised to the hard one, and that one by those who may (`CAP_SYS_RESOURCE`). Children
/// that this process [starts](crate::process::spawn) afterwards have the limits of before. Where it is not enough,
/// opening fails.
pub fn provide_open_files(needed: u64) {
    let Ok(limit) = open_files() else { return };
    if limit.soft >= needed {
        return;
    }
    let beyond = limit.hard < needed && set_open_files(Limit { soft: needed, hard: needed }).is_ok();
    if beyond || set_open_files(Limit { soft: limit.hard, ..limit }).is_ok() {
        BEFORE.get_or_init(|| limit);
    }
}

/// The limit that [`provide_open_files`] changed, to be put back in a child.
pub(crate) fn open_files_before() -> Option<Limit> {
    BEFORE.get().copied()
}

/// Sets `RLIMIT_NOFILE`. Async-signal-safe.
pub(crate) fn set_open_files(limit: Limit) -> Result<(), Errno> {
    setrlimit(Resource::Nofile, limit.raw()).map_err(of)
}

/// Raises the soft limit of descriptors to the hard one, as far as that may be had; what it was before.
pub fn raise_open_files() -> Option<Limit> {
    let before = open_files().ok()?;
    set_open_files(Limit { soft: before.hard, ..before }).ok().map(|()| before)
}

/// The limit of descriptors of another process.
pub fn open_files_of(pid: i32) -> Result<Limit, Errno> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: nothing is read through the null pointer, and the other is to a live value.
    let got = unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut limit) };
    #[allow(clippy::unnecessary_cast, reason = "rlim_t is narrower on some targets")]
    let known = |limit| if limit == libc::RLIM_INFINITY { u64::MAX } else { limit as u64 };
    crate::errno::check(got).map(|_| Limit { soft: known(limit.rlim_cur), hard: known(limit.rlim_max) })
}

/// Changes the limit of descriptors of another process.
pub fn set_open_files_of(pid: i32, limit: Limit) -> Result<(), Errno> {
    let pid = Pid::from_raw(pid).ok_or(Errno::ESRCH)?;
    prlimit(Some(pid), Resource::Nofile, limit.raw()).map(drop).map_err(of)
}
