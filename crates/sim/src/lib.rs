//! A deterministic machine to run the perf_event subsystem on.
//!
//! [`Machine`] has cpus, tasks that follow [programs](Program), a scheduler and a PMU with counters and
//! constraints; it drives a [`perfuse_engine::Engine`] through the same door as a real host. Given the
//! same setup and the same calls, everything happens again in the same nanosecond.
//!
//! ```
//! use perfuse_engine::OpenArguments;
//! use perfuse_engine::abi::{Attr, EventType, Hardware};
//! use perfuse_sim::{Machine, Setup, Step, program};
//!
//! let mut machine = Machine::new(Setup::default());
//! let rates = [3000, 0, 0, 0, 0, 0, 0, 0, 0, 0]; // 3 cycles a ns
//! machine.know(program("work", vec![Step::Compute { ns: 1_000_000, kernel: false, rates }]));
//! let task = machine.spawn("work").unwrap();
//! let cycles = Attr { config: Hardware::CPU_CYCLES.0, ..Attr::new(EventType::HARDWARE) };
//! let fd = machine.open(task, &cycles, OpenArguments::default()).unwrap();
//! machine.run_until(2_000_000);
//! assert_eq!(machine.read(fd).unwrap(), [3_000_000]);
//! ```
#![forbid(unsafe_code)]

mod hardware;
#[cfg(all(feature = "kernel", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod kernel;
mod machine;
mod program;
mod reader;
pub mod scenario;
mod trace;
mod tracing;
mod world;

pub use hardware::{KINDS, NAMES, PmuModel, Rates};
#[cfg(all(feature = "kernel", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use kernel::SimKernel;
pub use machine::{Handler, LivingTask, Machine, Mapped, Notices, ROOT, Setup, Switch, program};
pub use program::{Program, Step};
pub use reader::{AuxReader, Reader};
pub use trace::{TRACE, TraceModel};
pub use world::World;

#[cfg(test)]
mod threads {
    fn is_send<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}

    #[test]
    fn the_main_types_go_from_thread_to_thread() {
        is_shared::<crate::scenario::Scenario>();
        is_shared::<crate::scenario::ScenarioError>();
        is_shared::<crate::scenario::Outcome>();
        is_shared::<crate::Setup>();
        is_shared::<crate::Program>();
        is_send::<crate::Machine>();
    }
}
