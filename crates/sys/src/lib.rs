//! The raw calls around `perf_event_open(2)` on Linux and Android, one function each, with the argument
//! types the kernel really has. This is the workspace's place for `unsafe` system calls: what is here
//! is safe to call unless marked otherwise, and adds nothing to what the kernel does.
//!
//! * [`perf_event_open`] and [`read`]; [`ioctl`]: the twelve ioctls; [`prctl`].
//! * [`Mapping`]: the ring, control page and AUX area as shared memory.
//! * [`arch`]: the time-stamp counter and performance counters, read in user space.
//! * [`bpf`]: which BPF programs are loaded.
//! * [`detached_tracefs`]: names and ids of tracepoints where nothing is mounted.
//! * [`poll`], [`signal`], [`process`], [`limits`], [`inherited`]: what measuring other programs takes.
//!
//! The safe library with counters, groups and samplers is `perfuse`.
#![cfg(any(target_os = "linux", target_os = "android"))]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod arch;
pub mod bpf;
mod errno;
mod inherited;
pub mod ioctl;
pub mod limits;
mod map;
mod open;
pub mod pipe;
pub mod poll;
pub mod prctl;
pub mod process;
pub mod signal;
mod tracefs;

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
    // SAFETY: an all-zero utsname is a valid value of that plain struct.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live utsname.
    unsafe { libc::uname(&mut name) };
    let bytes: Vec<u8> =
        name.release.iter().take_while(|&&c| c != 0).map(|&c| u8::from_ne_bytes(c.to_ne_bytes())).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
