//! From a plan, which is plain data, to a recording.
//!
//! [`record`] opens what a [`Plan`] asks for, moves records from the rings to a [`Sink`] (a perf.data file, a pipe,
//! memory, or one of your own), tells beforehand what ran already, and tells an [`Observer`] what happens. It works with
//! Linux, the embedded kernel and any other of `perfuse`, such as a simulated one, and prints nothing.
//!
//! ```no_run
//! use perfuse_record::{FileSink, Plan, Target, record};
//!
//! let plan = Plan::new(Target::Command, vec!["true".into()]);
//! let ended = record(&plan, &mut FileSink::new("perf.data"), &mut (), None)?;
//! println!("{} samples", ended.sums.samples);
//! # Ok::<(), perfuse_record::Error>(())
//! ```
//!
//! Inside, `opening` opens the events that `attrs` and `terms` describe, `session` goes from beginning to end, `start`
//! writes what comes before the records (`synthesis`) and `sections` what comes after them; stacks are unwound between the
//! rings and the sink (`unwound`).
#![forbid(unsafe_code)]

mod arguments;
mod attrs;
mod choice;
mod clocks;
mod error;
mod fold;
mod follow;
mod followed;
mod observer;
mod off_cpu;
mod opening;
mod plan;
mod probes;
mod rehearse;
mod remark;
mod rings;
mod sections;
mod session;
mod sieve;
mod sink;
mod start;
mod streamed;
mod summed;
mod synthesis;
mod tally;
mod terms;
mod texts;
mod unwound;

pub use arguments::Arguments;
pub use attrs::registers;
pub use choice::{CallChains, Choice, Why};
pub use error::Error;
pub use followed::NotInKernel;
pub use observer::{Ended, Observer, Sums};
pub use perfuse_unwind::Sums as StackSums;
pub use plan::{
    Chains, Fields, HZ, Plan, Rate, Request, Switch, Synth, Target, branch_kind_names, branch_kinds,
};
pub use probes::find_probes;
pub use rehearse::rehearse;
pub use remark::Remark;
pub use sections::take_formats;
pub use sink::{FileSink, Sink, Stamp, StreamSink, Written};
pub use streamed::{Beside, streamed};
pub use summed::{Summed, SummedRows, SummingUp};
pub use terms::{check, join_tracers, remark};
pub use texts::{Texts, look_at_process};

use perfuse::control::Control;

/// Makes a recording: until its command or its target ends, a signal or an order says so, or the observer.
///
/// # Errors
///
/// Events are refused, the command cannot be executed, the sink takes no more. All that was written until then can be
/// read.
pub fn record(
    plan: &Plan,
    sink: &mut dyn Sink,
    observer: &mut dyn Observer,
    control: Option<Control>,
) -> Result<Ended, Error> {
    session::Session::run(plan, sink, observer, control)
}

#[cfg(test)]
mod threads {
    fn is_send<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}

    #[test]
    fn the_main_types_go_from_thread_to_thread() {
        is_shared::<crate::Plan>();
        is_shared::<crate::Error>();
        is_shared::<crate::Remark>();
        is_shared::<crate::Ended>();
        is_shared::<crate::Written>();
        is_send::<crate::FileSink>();
        is_send::<crate::StreamSink<Vec<u8>>>();
    }
}
