//! The perf_event subsystem of an operating system kernel, as a library.
//!
//! This crate does the work of Linux between `perf_event_open(2)` and the records in a ring: attrs are checked
//! in the kernel's order, events live in contexts of tasks and cpus, groups get counters in turns, times
//! are kept, samples and side-band records are written, tasks inherit. The specification is the
//! project's `docs/semantics.md`; comments cite its rules as "rule C12".
//!
//! **It has no world.** The engine performs no I/O, has no clock and no threads, and knows a cpu, a task
//! or a page fault only because its *host* told it. A host
//!
//! - tells what happens: [`Engine::switch`], [`Engine::fork`], [`Engine::exec`], [`Engine::exit`],
//!   [`Engine::software`], [`Engine::mapped`], [`Engine::tick`], and calls [`Engine::expire`] at
//!   [`Engine::deadline`]; each call says on which cpu, and when;
//! - hands on the calls of programs: [`Engine::open`], [`Engine::ioctl`], [`Engine::read`],
//!   [`Engine::mmap`], [`Engine::poll`], [`Engine::close`];
//! - answers a few questions about permissions and names ([`Host`]);
//! - carries out [`Effect`]s: wakes readers, sends signals, programs debug registers;
//! - brings PMUs of its own ([`Pmu`]).
//!
//! So every behaviour can be tested at full speed and replayed exactly. Given the same calls the engine
//! does the same.
//!
//! Its limit: it does not run on several threads at once (give it to one, or lock it); only the
//! [`Ring`](ring::Ring) is shared with readers while it is written.
#![cfg_attr(not(loom), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod attr;
mod aux;
mod bpf;
mod buffer;
mod context;
mod cpu;
mod cpu_state;
mod effect;
mod engine;
mod event;
mod host;
mod ioctl;
mod open;
mod overflow;
mod pmu;
mod pmus;
mod read;
pub mod ring;
mod sample;
mod sched;
mod sideband;
mod slab;
mod sync;
mod sysctl;
mod sysfs;
mod task;

pub use attr::UserMemory;
pub use aux::AuxRoom;
pub use bpf::{BpfProgram, BpfQuery, Events, ProgramContext, ProgramKind, Run};
pub use buffer::MapRequest;
pub use cpu_state::{AtIp, CpuState, Registers};
pub use effect::{Effect, Notice, Trap, Watch};
pub use engine::{Config, Engine, Holdings};
pub use event::{EventKey, State};
pub use host::{Access, Capability, CgroupId, Host, LockLimit, Memory, PidNamespace, SecurityStep};
pub use ioctl::{AttrMemory, Ioctl};
pub use open::OpenArguments;
pub use perfuse_abi as abi;
pub use pmu::{
    Cx, Description, Hw, Overflow, Pmu, PmuCaps, PmuId, PmuInfo, SysfsFile, THROTTLED, Target, TaskContext,
    Transaction,
};
pub use pmus::probe::{ProbePmu, Probes};
pub use pmus::tracepoint::{Filter, FilterMaker, Hit};
pub use sample::SampleData;
pub use sideband::Mapping;
pub use slab::Key;
pub use sync::AtomicU64;
#[cfg(loom)]
pub use sync::interrupt_after;
pub use sysctl::Sysctl;
pub use task::{CloneFlags, Leaving, TaskFacts, TaskId};

#[cfg(test)]
mod threads {
    fn is_send<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}

    #[test]
    fn the_main_types_go_from_thread_to_thread() {
        is_shared::<crate::Config>();
        is_shared::<crate::Effect>();
        is_shared::<crate::Notice>();
        is_shared::<crate::OpenArguments>();
        is_shared::<crate::Sysctl>();
        is_shared::<crate::BpfProgram>();
        is_send::<crate::Engine>();
    }
}
