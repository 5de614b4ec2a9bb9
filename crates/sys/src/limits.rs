//! Resource limits that measuring runs into: descriptors and locked memory.

use crate::Errno;
use std::sync::OnceLock;

/// A soft and a hard limit; `u64::MAX` is "unlimited".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// What holds now.
    pub soft: u64,
    /// How far the process may raise it.
    pub hard: u64,
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
type Resource = libc::c_int;

#[allow(clippy::unnecessary_cast, reason = "rlim_t is narrower on some targets")]
fn get(resource: Resource) -> Result<Limit, Errno> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live rlimit.
    crate::errno::check(unsafe { libc::getrlimit(resource, &mut limit) })?;
    Ok(Limit { soft: limit.rlim_cur as u64, hard: limit.rlim_max as u64 })
}

/// `RLIMIT_NOFILE`: how many descriptors the process may have.
pub fn open_files() -> Result<Limit, Errno> {
    get(libc::RLIMIT_NOFILE)
}

/// `RLIMIT_MEMLOCK`: how many bytes the process may lock, rings beyond the per-user share included.
pub fn locked_bytes() -> Result<Limit, Errno> {
    get(libc::RLIMIT_MEMLOCK)
}

/// The limit of descriptors before this process raised it, which its children have again.
static BEFORE: OnceLock<Limit> = OnceLock::new();

/// Descriptors for all else that a process has open beside its events: standard files, rings' files, output.
pub const OTHERS: u64 = 64;

/// Sees to it that `needed` descriptors can be open, one for each event, cpu and thread, as far as that may
/// be had: the soft limit is raised to the hard one, and that one by those who may (`CAP_SYS_RESOURCE`). What
/// this process [starts](crate::process::spawn) afterwards has the limits of before. Where it is not enough,
/// the opens tell.
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
    let limit = libc::rlimit { rlim_cur: limit.soft as _, rlim_max: limit.hard as _ };
    // SAFETY: the pointer is to a live rlimit.
    crate::errno::check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }).map(drop)
}
