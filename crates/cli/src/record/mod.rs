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
mod rehearse;
mod sections;
mod selection;
mod session;
mod start;
mod synthesis;
mod tally;
mod terms;
mod units;
mod unsupported;
mod words;

use crate::common::control::Control;
use crate::common::test_attr;
use crate::exit::{Failure, Result};
pub(crate) use args::Args;
pub(crate) use files::{fresh_file, take_standard_output};
pub(crate) use machine::Machine;
use plan::{Destination, Plan};
pub(crate) use rehearse::rehearse;
use session::Session;
use std::process::ExitCode;

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result {
    args.kernel.decide()?;
    args.events_dir.decide()?;
    test_attr::begin();
    let plan = Plan::new(args)?;
    if args.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(priority) = args.realtime {
        // What is started does not inherit it.
        perfuse_sys::process::go_first(priority).map_err(|errno| {
            Failure::new(format_args!("--realtime {priority}: {}", perfuse_sys::io_error(errno)))
        })?;
    }
    let control = args.control.as_deref().map(Control::open).transpose()?;
    let stdout = (plan.output == Destination::Pipe).then(files::take_standard_output).transpose()?;
    Session::run(&plan, control, stdout)
}
