//! Resource limits that measuring runs into: descriptors and locked memory.

use crate::Errno;

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

/// Raises the soft limit of descriptors to the hard one and returns it. One descriptor per event, cpu
/// and thread adds up.
pub fn raise_open_files() -> Result<u64, Errno> {
    let limit = open_files()?;
    if limit.soft < limit.hard {
        let raised = libc::rlimit { rlim_cur: limit.hard as _, rlim_max: limit.hard as _ };
        // SAFETY: the pointer is to a live rlimit.
        crate::errno::check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) })?;
    }
    Ok(limit.hard)
}

/// Sees to it that `needed` descriptors can be open, as far as the hard limit lets it: that one somebody
/// set on purpose, and what is measured would inherit another. Where it is not enough, the opens tell.
pub fn provide_open_files(needed: u64) {
    if open_files().is_ok_and(|limit| limit.soft < needed) {
        let _ = raise_open_files();
    }
}
