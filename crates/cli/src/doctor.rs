//! `perfuse doctor`: what this machine, kernel and user allow to measure, found out by trying.

mod json;
mod plan;
mod text;

use crate::common::kernel::{self, Tried};
use crate::exit::Result;
use crate::term::{glyphs, out};
use std::process::ExitCode;
pub(crate) use text::{sign, sign_width, wrapped};

const AFTER: &str = "\
Examples:
  perfuse doctor                             all, for people
  perfuse doctor --for 'stat -a -e cycles'   would this work?
  perfuse doctor --json                      for programs

The exit status is 0; with --for it is 1 if the plan would not work.";

/// Options of `perfuse doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// Write one JSON object (schema perfuse.doctor/1) in place of text
    #[arg(long)]
    json: bool,
    /// Try exactly the events of a perfuse command line, such as 'stat -a -e cycles'
    #[arg(long = "for", value_name = "COMMAND LINE")]
    plan: Option<String>,
}

/// Runs the subcommand. `rehearse` tries the events of a command line.
pub(crate) fn run(args: Args, rehearse: &dyn Fn(&str) -> Result<Tried>) -> Result {
    if let Some(plan) = &args.plan {
        let (kernel, tried) = rehearse(plan)?;
        return plan::tell(plan, args.json, &kernel, &tried);
    }
    let report = perfuse::doctor::examine(&kernel::of_the_environment()?);
    // Collected first: the report appears at once, and a reader that goes away cannot stop a check.
    let mut bytes = Vec::new();
    if args.json {
        json::print(&mut bytes, &report)?;
    } else {
        text::print(&mut bytes, glyphs::of_the_locale(), &report)?;
    }
    out::print(&bytes)?;
    Ok(ExitCode::SUCCESS)
}
