//! `perfuse doctor`: what this machine, kernel and user allow to measure.

use crate::exit::Result;
use std::process::ExitCode;

/// Options of `perfuse doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs the subcommand.
pub(crate) fn run(_args: Args) -> Result {
    Ok(ExitCode::SUCCESS)
}
