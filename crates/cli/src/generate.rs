//! What packagers install beside the program: shell completions and the manual page.

use crate::cli::Cli;
use crate::exit::Result;
use clap::CommandFactory;
use clap_complete::Shell;
use std::io::{self, Write};
use std::process::ExitCode;

/// Options of `perfuse completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell to write for
    shell: Shell,
}

/// Writes a completion script to standard output.
pub(crate) fn completions(args: Completions) -> Result {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "perfuse", &mut script);
    io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the manual page to standard output: the program, then each subcommand.
pub(crate) fn man() -> Result {
    let mut page = Vec::new();
    let mut command = Cli::command();
    command.build();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for subcommand in command.get_subcommands().filter(|c| c.get_name() != "help") {
        clap_mangen::Man::new(subcommand.clone()).render(&mut page)?;
    }
    io::stdout().write_all(&page)?;
    Ok(ExitCode::SUCCESS)
}
