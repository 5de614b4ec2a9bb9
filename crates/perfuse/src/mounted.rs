//! Where the tracing file system is mounted: for all, or for this process alone.

use perfuse_sys::Errno;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

/// Where Linux puts it, and where older systems mount it.
pub(crate) use perfuse_events::TRACEFS as PLACES;

/// The mount of this process's own, once it was needed: or what refused it.
pub(crate) static OWN: OnceLock<Result<OwnedFd, Errno>> = OnceLock::new();

/// The result of the mount of this process's own; `None` where nobody has needed it yet.
pub(crate) fn own() -> Option<Result<(), Errno>> {
    OWN.get().map(|own| own.as_ref().map(drop).map_err(|errno| *errno))
}
