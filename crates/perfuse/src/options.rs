//! The words of a [`Builder`](crate::Builder)'s options and of its answers: who inherits an event, which clock its records
//! have, what was given up.

use perfuse_abi::Release;
use perfuse_sys::Errno;
use std::fmt;

/// Which tasks inherit an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inherit {
    /// None.
    No,
    /// New threads of the process (Linux 5.13).
    Threads,
    /// New threads and child processes.
    All,
}

/// A clock for the timestamps of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(i32)]
pub enum Clock {
    /// `CLOCK_REALTIME`; software events only.
    Realtime = 0,
    /// `CLOCK_MONOTONIC`.
    Monotonic = 1,
    /// `CLOCK_MONOTONIC_RAW`.
    MonotonicRaw = 4,
    /// `CLOCK_BOOTTIME`; software events only.
    Boottime = 7,
    /// `CLOCK_TAI`; software events only.
    Tai = 11,
}

/// A preference that had to be given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// The option: the C name of a flag or field, such as `build_id` or `read_format LOST`; or "kernel
    /// side" where only user space is counted.
    pub what: String,
    /// Why.
    pub why: GivenUpWhy,
}

/// Why a preference had to be given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GivenUpWhy {
    /// The kernel does not know it; it came with this release.
    UnknownToKernel(Release),
    /// The kernel refused it, for this event or this user.
    Refused(Errno),
    /// Every `fork(2)` of the measured task would fail: Linux reads the name of the file or function of a
    /// probe again for the child, from memory of whoever forks.
    BreaksForks,
}

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why {
            GivenUpWhy::UnknownToKernel(since) => {
                write!(f, "{} (this kernel does not know it; Linux {since} does)", self.what)
            }
            GivenUpWhy::Refused(errno) => write!(f, "{} (refused: {errno})", self.what),
            GivenUpWhy::BreaksForks => {
                write!(f, "{} (Linux could start no children under an inherited probe)", self.what)
            }
        }
    }
}
