//! Linux perf_events for Rust programs: count, sample and trace, on your own thread or the whole
//! machine, through one interface.
//!
//! ```
//! # if perfuse::Perf::linux_refuses().is_some() { return Ok(()) }
//! use perfuse::{Counter, abi::Software};
//!
//! let mut faults = Counter::new(Software::PAGE_FAULTS)?;
//! faults.enable()?;
//! let touched = vec![1u8; 1 << 20];
//! println!("{} page faults", faults.read()?.value);
//! # drop(touched);
//! # Ok::<(), perfuse::Error>(())
//! ```
//!
//! * [`Counter`] counts one [`Event`] on one [`Target`]; [`Builder`] has the options, all of
//!   `perf_event_attr` among them.
//! * [`Group`] counts events together, so that their ratios are true.
//! * [`CounterSet`] opens many events on a [`Scope`]: a [`Command`], a process with its threads, the
//!   system, a cgroup.
//! * [`Sampler`] reads records in place from a ring that many events share; [`abi::record`] takes them
//!   apart.
//! * [`SamplerSet`] does so for a whole [`Scope`], such as [a process](SamplerSet::process), with one ring for each cpu.
//! * [`measurement`] is the loop around all that: until the command has ended, a signal, an order or a limit.
//! * [`UserCounter`] reads a counter without a system call.
//! * [`Programs`] are BPF programs with their maps, at tracepoints or events; [`Messages`] reads what they send.
//!
//! Three habits run through all of it. **Options adapt**: what is merely [preferred](Builder::prefer)
//! steps down on a kernel that does not know it or a user who may not have it, and
//! [`Counter::given_up`] tells; what is required fails. **Errors explain themselves**: an [`Error`]
//! knows the call, the errno, the cause and what would help ([`diagnosis`]). **Counts say what they are
//! worth**: [`Count::scaled`] tells an exact count from an estimate and from none at all.
//!
//! The kernel that answers is a [`kernel::Kernel`], and a value of the program's: the running Linux unless a [`Perf`] is
//! given, such as the [embedded](Perf::embedded) one for places where Linux refuses, or whichever is
//! [available](Perf::available).
#![deny(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use perfuse_abi as abi;
pub use perfuse_bpf as bpf;
pub use perfuse_sys::Errno;
pub use perfuse_sys::poll::Readiness;
pub use perfuse_sys::process::Usage;
pub use perfuse_sys::signal::Owner as SignalOwner;

mod attr_files;
mod aux;
mod available;
mod builder;
mod call;
pub mod catalogue;
mod command;
pub mod control;
mod count;
mod counter;
pub mod diagnosis;
pub mod doctor;
// There is one for these architectures; a program that does not want it leaves the feature away.
#[cfg_attr(
    not(all(feature = "embedded", any(target_arch = "x86_64", target_arch = "aarch64"))),
    path = "embedded/absent.rs"
)]
mod embedded;
mod error;
mod event;
pub mod facts;
mod group;
mod handle;
pub mod kernel;
mod language;
mod linux;
pub mod measurement;
mod messages;
mod mounted;
mod options;
mod own_pmus;
mod perf;
mod pmu;
mod programs;
mod ring;
mod sampler;
mod sampler_set;
mod scope;
mod set;
mod support;
mod sysfs;
mod target;
mod topology;
pub mod tracefs;
mod user;

pub use attr_files::with_attr_files;
pub use builder::Builder;
pub use call::{Call, Subject};
pub use command::{Command, HeldCommand, RunningCommand};
pub use control::Start;
pub use count::{Count, Scaled};
pub use counter::Counter;
pub use embedded::call_texts;
pub use error::{Error, Result};
pub use event::{Event, ProbePlace};
pub use group::{Counts, Group, Member};
pub use language::SpecError;
pub use messages::{Message, Messages};
pub use options::{Clock, GivenUp, GivenUpWhy, Inherit};
pub use own_pmus::{OWN_PMUS, OWN_UPROBE};
pub use perf::Perf;
pub use pmu::{Config, Format, Pmu, cpu_list, online_cpus, parse_cpu_list};
pub use programs::{ProgramAttempt, ProgramError, Programs};
pub use ring::{Batch, Snapshot};
pub use sampler::{
    RingOptions, Sampler, SamplerBatch, SamplerBuilder, SamplerRecord, SamplerSnapshot, Source, SourceMut,
    Wait,
};
pub use sampler_set::{SamplerSet, SetBatch, SetSource};
pub use scope::{Scope, Slot};
pub use set::{Answers, CounterSet, Rehearsed, SetEvent};
pub use support::Support;
pub use target::{Cgroup, Target, Thread};
pub use user::UserCounter;

#[cfg(test)]
mod threads {
    fn is_send<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}

    #[test]
    fn the_main_types_go_from_thread_to_thread() {
        is_shared::<crate::Builder>();
        is_shared::<crate::Counter>();
        is_shared::<crate::Group>();
        is_shared::<crate::CounterSet>();
        is_shared::<crate::SamplerBuilder>();
        is_shared::<crate::Support>();
        is_shared::<crate::Error>();
        is_shared::<crate::Target>();
        is_shared::<crate::diagnosis::Diagnosis>();
        is_shared::<crate::facts::Facts>();
        is_send::<crate::Sampler>();
        is_send::<crate::SamplerSet>();
        is_send::<crate::Programs>();
        is_send::<crate::Command>();
        is_send::<crate::HeldCommand>();
        is_send::<crate::RunningCommand>();
    }
}
