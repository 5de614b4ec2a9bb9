//! `perfuse stat`: counts events while a command runs, in running processes, or on cpus.
//!
//! [`plan`] makes sense of the options, [`measure`] carries the plan out with the library's counters
//! ([`counting`]) and makes a [`model::Report`], which [`text`], [`csv`], [`jsonl`] and [`json`] print.

mod args;
mod compat;
mod counting;
mod csv;
mod derive;
mod json;
mod jsonl;
mod measure;
mod model;
mod number;
mod output;
mod plan;
mod rehearse;
mod select;
mod statistics;
mod table;
mod text;
mod topology;

use crate::common::control::Control;
use crate::exit::Result;
pub(crate) use args::Args;
pub(crate) use counting::builder;
use model::Exit;
pub(crate) use number::{bytes, grouped};
use output::Output;
pub(crate) use output::glyphs;
use plan::Plan;
pub(crate) use rehearse::{Rehearsed, rehearse};
use std::process::ExitCode;
pub(crate) use text::Glyphs;

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result {
    let plan = Plan::new(args)?;
    let control = args.control.as_deref().map(Control::open).transpose()?;
    let mut output = Output::open(args, plan.is_repeated())?;
    let exit = measure::run(&plan, &mut output, control, args.verbose)?;
    Ok(match exit {
        Exit::Code(code) => ExitCode::from(code as u8),
        Exit::Stopped => ExitCode::SUCCESS,
        Exit::Signal(signal) => ExitCode::from((128 + signal) as u8),
    })
}
