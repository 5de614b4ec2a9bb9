//! `perfuse stat`: counts events while a command runs, in running processes, or on cpus.
//!
//! [`plan`] makes sense of the options, [`measure`] carries the plan out with the library's counters
//! ([`counting`]) and makes a [`model::Report`], which [`text`], [`classic`], [`csv`], [`jsonl`] and [`json`] print.

mod adjust;
mod args;
mod classic;
mod command;
mod compat;
mod counting;
mod csv;
mod derive;
mod hooks;
mod json;
mod jsonl;
mod measure;
mod merged;
mod metric_table;
mod metrics;
mod model;
mod output;
mod percore;
mod plan;
mod playback;
mod recorder;
mod rehearse;
mod runs_table;
mod select;
mod text;
mod topology;
mod unsupported;

use crate::cli::{Cli, Subcommand};
use crate::common::test_attr;
use crate::exit::{Failure, Result};
use crate::habits;
pub(crate) use args::Args;
use clap::{CommandFactory, FromArgMatches};
pub(crate) use command::CommandEvents;
pub(crate) use measure::nanoseconds;
pub(crate) use metrics::events_of;
use model::Exit;
pub(crate) use model::{Outcome, Run, Usage};
use output::Output;
pub(crate) use output::colors;
use perfuse::control::Control;
use plan::Plan;
pub(crate) use rehearse::rehearse;
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result {
    args.kernel.decide()?;
    args.events_dir.decide()?;
    test_attr::begin();
    let recorded;
    let (args, mut destination) = match args.command.first().and_then(|word| word.to_str()) {
        Some("report") => return playback::run(&playback_args(args)?),
        Some("record") => {
            recorded = with_recording(args)?;
            let destination = recorder::Destination::new(recorded.output.as_deref())?;
            // The file of -o is the recording's; results go where they go without it.
            (&*recorded, Some(destination))
        }
        _ => (args, None),
    };
    let plan = Plan::new(args)?;
    if destination.is_some() && plan.is_repeated() {
        return Err(Failure::usage("stat record records one run, without -r"));
    }
    let control = args.control.as_deref().map(Control::open).transpose()?;
    let mut output = Output::open(args, plan.is_repeated(), destination.is_some())?;
    let exit = measure::run(&plan, &mut output, control, destination.as_mut(), args.verbose)?;
    Ok(match exit {
        Exit::Code(code) => ExitCode::from(code as u8),
        Exit::Stopped => ExitCode::SUCCESS,
        Exit::Signal(signal) => ExitCode::from((128 + signal) as u8),
    })
}

/// The words of the command line, and which of them is the first of the command.
fn words(args: &Args) -> (Vec<OsString>, usize) {
    let words: Vec<OsString> = std::env::args_os().collect();
    let first = words.len().saturating_sub(args.command.len());
    (words, first)
}

/// `stat record` takes the options of `stat`, before its name and behind it.
fn with_recording(args: &Args) -> Result<Box<Args>> {
    let (mut words, at) = words(args);
    words.remove(at);
    match habits::parse_from(words) {
        Ok(Cli { subcommand: Subcommand::Stat(args) }) => Ok(args),
        Ok(_) => Err(Failure::usage("stat record has options of stat")),
        Err(error) => error.exit(),
    }
}

/// `stat report` has options of its own.
fn playback_args(args: &Args) -> Result<playback::Args> {
    let (words, at) = words(args);
    if words.get(at.wrapping_sub(1)).is_none_or(|word| word != "stat") {
        return Err(Failure::usage("the options of stat report stand behind it"));
    }
    let command = playback::Args::command().infer_long_args(true);
    let matches = command.try_get_matches_from(&words[at..]).unwrap_or_else(|error| error.exit());
    playback::Args::from_arg_matches(&matches).map_err(Failure::usage)
}
