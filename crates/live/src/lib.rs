//! `perf_event_open(2)` for real processes where Linux refuses it: a host that feeds the
//! [engine](perfuse_engine::Engine) with what `ptrace(2)`, `/proc` and the clocks tell about processes.
//!
//! Nothing here is privileged. A process may trace its own children nearly everywhere (Docker's
//! default seccomp profile, gVisor, any `perf_event_paranoid`), so these can be measured: a command
//! and all that it starts, one's own threads, and processes that may be attached to.
//!
//! # Shape
//!
//! ```text
//!   programs' calls                                      what happens to tracees
//!   (library: in process; hosted tools: intercepted)                │
//!        │                                                          │
//!        ▼                                                          ▼
//!   Machine ◄──────────────────────────────────────────────── Supervisor ◄── Front
//!    engine, tasks, readings, memory of rings                  waits, follows, samples
//!                                                               │
//!                                                 ptrace, remote, regs, proc
//! ```
//!
//! - [`machine::Machine`] is the engine with its tasks. Calls of programs and happenings of tasks go in,
//!   [effects](machine::Machine::effects) come out. It reads clocks and `/proc`, but does no ptrace, so it
//!   can be used from any thread, behind a mutex.
//! - [`supervisor::Supervisor`] is the loop of the one thread that traces. It knows the state of each
//!   tracee, follows what they start, takes samples, and passes all signals on. A
//!   [`supervisor::Front`] does the rest with stops (system calls that are intercepted) or between them (commands of
//!   other threads).
//! - `bpf` has the maps, programs and links that hosted programs make by `bpf(2)`, and runs programs on events.
//! - [`served`] has the descriptors of events, and carries out the effects of the engine on them.
//! - [`ptrace`], [`remote`], [`regs`] and [`proc`] are the calls themselves.
//!
//! # How a thread's time reaches the engine
//!
//! Linux' perf hears of every switch. A tracer does not: it learns *afterwards* how long a thread has run,
//! when it stops, dies, or is asked for. So the machine tells the engine of a stretch on a cpu at its end
//! ([`Engine::place`](perfuse_engine::Engine::place)): it came as many ns ago as its clock has advanced, and
//! goes now. All times and clock counts follow from that, exactly. Faults, switches and migrations are told
//! within the stretch, so that they count for the events that were on.
#![cfg(all(
    any(target_os = "linux", target_os = "android"),
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_pointer_width = "64"
))]

pub use perfuse_engine as engine;

mod bpf;
mod build_id;
pub mod call_texts;
mod cgroups;
mod clock;
mod debug;
#[cfg(any(test, target_arch = "aarch64"))]
mod exclusive;
mod frameless;
mod handler;
pub mod intercept;
pub mod look;
pub mod machine;
pub mod memory;
pub mod proc;
pub mod ptrace;
pub mod regs;
pub mod remote;
mod sampling;
pub mod served;
pub mod step;
pub mod stopped;
pub mod supervisor;
mod text;
pub mod tracepoints;
mod width;
mod world;

/// The kernel's first address, where no code of it is: samples in the kernel show it, as their place is unknown
/// there.
#[cfg(target_arch = "x86_64")]
pub(crate) const SOMEWHERE_IN_KERNEL: u64 = 0xffff_8000_0000_0000;
/// The same.
#[cfg(target_arch = "aarch64")]
pub(crate) const SOMEWHERE_IN_KERNEL: u64 = 0xffff_0000_0000_0000;

/// The end of user memory.
#[cfg(target_arch = "x86_64")]
pub(crate) const TASK_SIZE: u64 = 0x7fff_ffff_f000;
/// The end of user memory.
#[cfg(target_arch = "aarch64")]
pub(crate) const TASK_SIZE: u64 = 1 << 48;

#[cfg(test)]
mod threads {
    fn is_send<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}

    #[test]
    fn the_main_types_go_from_thread_to_thread() {
        is_shared::<crate::machine::Settings>();
        is_shared::<crate::intercept::Shared>();
        is_shared::<crate::served::Served>();
        is_send::<crate::machine::Machine>();
        is_send::<crate::supervisor::Supervisor>();
    }
}
