//! `perfuse record`: samples a command while it runs, running processes, or cpus, into a perf.data file.
//!
//! [`plan`] makes sense of the options (their [`words`]), [`opening`] opens the events that [`attrs`]
//! describes, [`session`] moves records from the rings to the file and deals with all that happens meanwhile,
//! [`start`] writes what comes before the records ([`synthesis`]) and [`sections`] what comes after them.

mod args;
mod attrs;
mod bpf;
mod files;
mod follow;
mod formats;
mod kernel;
mod live;
mod machine;
mod opening;
mod plan;
mod pmus;
mod sections;
mod selection;
mod session;
mod start;
mod synthesis;
mod tally;
mod units;
mod words;

use crate::common::control::Control;
use crate::exit::Result;
pub(crate) use args::Args;
use plan::{Destination, Plan};
use session::Session;

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result {
    let plan = Plan::new(args)?;
    let control = args.control.as_deref().map(Control::open).transpose()?;
    let stdout = (plan.output == Destination::Pipe).then(files::take_standard_output).transpose()?;
    Session::run(&plan, control, stdout)
}
