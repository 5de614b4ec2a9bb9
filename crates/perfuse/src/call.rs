//! A request to a kernel: the call and the event it was about, as errors and diagnoses name them.

use perfuse_abi::{Attr, OpenFlags};
use std::ffi::OsString;
use std::path::PathBuf;

/// A system call that failed, as far as its arguments matter for the reason.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Call {
    /// `perf_event_open(2)`.
    Open {
        /// The event.
        attr: Attr,
        /// The thread, 0 for the caller, -1 for all; a descriptor with [`OpenFlags::PID_CGROUP`].
        pid: i32,
        /// The cpu, -1 for all.
        cpu: i32,
        /// The event that leads the group it was to join.
        leader: Option<Box<Subject>>,
        /// The last argument.
        flags: OpenFlags,
    },
    /// `read(2)` of an event.
    Read,
    /// An ioctl of an event, by its code (see [`perfuse_abi::ioctl`]).
    Ioctl(u32),
    /// `mmap(2)` of a ring or of an AUX area.
    Mmap {
        /// Length: for a ring one page more than its data.
        bytes: usize,
        /// 0 for a ring, `aux_offset` for an AUX area.
        offset: u64,
    },
    /// `poll(2)`.
    Poll,
    /// `prctl(2)`.
    Prctl,
    /// `fcntl(2)`.
    Fcntl,
    /// Starting a program to be measured.
    Spawn {
        /// Its name, as given.
        program: OsString,
    },
    /// Waiting for a program, or sending it a signal.
    Process,
    /// Catching signals.
    Signals,
    /// A file of /proc, /sys or the tracing file system that was needed.
    File {
        /// Where it is, or ought to be.
        path: PathBuf,
    },
    /// Opening a cgroup.
    Cgroup {
        /// Its path, as it was named.
        path: PathBuf,
    },
}

/// The event an error is about, as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Subject {
    /// The event to count.
    pub attr: Attr,
    /// The thread, 0 for the caller, -1 for all; a descriptor for a cgroup.
    pub pid: i32,
    /// The cpu, -1 for all.
    pub cpu: i32,
    /// It is bound to a cgroup.
    pub cgroup: bool,
}

impl Subject {
    /// The event of `attr` on that thread and cpu.
    pub fn new(attr: Attr, pid: i32, cpu: i32) -> Self {
        Subject { attr, pid, cpu, cgroup: false }
    }

    /// [`new`](Self::new), where the open flags tell what `pid` is.
    pub fn with_flags(attr: Attr, pid: i32, cpu: i32, flags: OpenFlags) -> Self {
        Subject { attr, pid, cpu, cgroup: flags.contains(OpenFlags::PID_CGROUP) }
    }

    /// The event that was to be opened.
    pub(crate) fn of(call: &Call) -> Option<Self> {
        match *call {
            Call::Open { attr, pid, cpu, flags, .. } => Some(Self::with_flags(attr, pid, cpu, flags)),
            _ => None,
        }
    }
}
