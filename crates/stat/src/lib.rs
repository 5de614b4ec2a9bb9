//! From a plan, which is plain data, to counts.
//!
//! [`count`] opens what a [`Plan`] asks for, lets time pass, tells an [`Observer`] of intervals, and makes a [`Report`]
//! of all runs: values merged and summed up by place, with their spread ([`Spread`]), [`metrics`], what they amount to
//! ([`derive`](mod@derive)), and why something is missing. Counts are [recorded](Destination) and [replayed](replay) too. It works
//! with Linux, the embedded kernel and any other of `perfuse`, such as a simulated one, and prints nothing.
//!
//! ```
//! # if perfuse::Perf::linux_refuses().is_some() { return Ok(()) }
//! use perfuse_events::Machine;
//! use perfuse_stat::{Plan, Requests, Target, count};
//!
//! let mut requests = Requests::default();
//! requests.add("task-clock,page-faults", &Machine::new())?;
//! let plan = Plan::new(Target::Command, vec!["true".into()], requests.all);
//! if let Some(report) = count(&plan, &mut (), None, None)? {
//!     for event in &report.events {
//!         println!("{}: {:?}", event.name, event.rows[0].spread().map(|spread| spread.mean));
//!     }
//! }
//! # Ok::<(), perfuse_stat::Error>(())
//! ```
#![forbid(unsafe_code)]

mod command;
pub mod compare;
mod counting;
pub mod derive;
mod error;
pub mod format;
mod hooks;
mod measure;
mod measured;
mod merged;
pub mod metrics;
mod model;
mod percore;
mod plan;
mod playback;
mod recorder;
mod rehearse;
mod requests;
mod spread;

pub use command::{CommandCounting, CommandEvents, LastRun};
pub use error::Error;
pub use measure::{Observer, count, nanoseconds};
#[cfg(feature = "samples")]
pub use model::samples;
pub use model::{
    Aggregation, Event, Exit, Interval, Missing, MissingKind, Outcome, Reading, Report, Row, RowPlace, Run,
    Subject, Usage,
};
pub use plan::{PerCore, Plan, Request, Requests, Target};
pub use playback::replay;
pub use recorder::Destination;
pub use rehearse::rehearse;
pub use spread::{Spread, beyond, student_t};

#[cfg(test)]
mod threads {
    fn is_shared<T: Send + Sync>() {}

    #[test]
    fn the_main_types_go_from_thread_to_thread() {
        is_shared::<crate::Plan>();
        is_shared::<crate::Requests>();
        is_shared::<crate::Report>();
        is_shared::<crate::Error>();
        is_shared::<crate::compare::Comparison>();
        is_shared::<crate::compare::ComparePlan>();
    }
}
