//! `perfuse stat`: counts events while a command runs.

use crate::exit::Result;
use std::process::ExitCode;

/// Options of `perfuse stat`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs the subcommand.
pub(crate) fn run(_args: Args) -> Result {
    Ok(ExitCode::SUCCESS)
}
