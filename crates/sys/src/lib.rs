//! The raw calls around `perf_event_open(2)` on Linux and Android, one function each, with the argument
//! types the kernel really has. This is the workspace's place for `unsafe` system calls: what is here
//! is safe to call unless marked otherwise, and adds nothing to what the kernel does.
//!
//! * [`perf_event_open`] and [`read`]; [`ioctl`]: the twelve ioctls; [`prctl`].
//! * [`Mapping`]: the ring, control page and AUX area as shared memory.
//! * [`arch`]: the time-stamp counter and performance counters, read in user space.
//! * [`bpf`]: which BPF programs are loaded.
//! * [`detached_tracefs`]: names and ids of tracepoints where nothing is mounted.
//! * [`poll`], [`epoll`], [`pipe`], [`signal`], [`process`], [`wait`], [`limits`], [`inherited`]: what measuring other programs takes.
//! * [`clock`], [`thread`], [`pidfd`], [`memfd`], [`seccomp`], [`socket`], [`mod@file`]: what serving other programs takes.
//!
//! Calls that rustix has are made through it; the others through libc.
//!
//! The safe library with counters, groups and samplers is `perfuse`.
#![cfg(any(target_os = "linux", target_os = "android"))]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod arch;
pub mod bpf;
pub mod clock;
pub mod epoll;
mod errno;
pub mod file;
mod inherited;
pub mod ioctl;
pub mod limits;
mod map;
pub mod memfd;
mod open;
pub mod pidfd;
pub mod pipe;
pub mod poll;
pub mod prctl;
pub mod process;
pub mod seccomp;
pub mod signal;
pub mod socket;
pub mod thread;
mod tracefs;
pub mod wait;

pub use errno::io_error;
pub use inherited::inherited;
pub use map::{Mapping, Protection};
pub use open::{perf_event_open, perf_event_open_bytes, perf_event_open_is_reachable, read};
pub use perfuse_abi as abi;
pub use perfuse_abi::Errno;
pub use tracefs::{detached_tracefs, mount_tracefs};

/// The kernel's page size in bytes.
pub fn page_size() -> usize {
    // SAFETY: sysconf has no preconditions.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// `uname -r`, such as `6.12.9-amd64`.
pub fn uname_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

#[cfg(test)]
mod threads {
    fn is_shared<T: Send + Sync>() {}

    #[test]
    fn the_main_types_go_from_thread_to_thread() {
        is_shared::<crate::Errno>();
        is_shared::<crate::Mapping>();
        is_shared::<crate::process::Held>();
        is_shared::<crate::process::Child>();
    }
}
