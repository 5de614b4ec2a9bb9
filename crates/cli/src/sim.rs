//! `perfuse sim`: plays scenarios on a machine that exists only in memory.

use crate::exit::{Failure, Result};
use perfuse_sim::scenario::{Scenario, play};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `perfuse sim`.
#[derive(Debug, clap::Args)]
#[command(after_help = "A scenario describes a machine, programs, events and what is done to them:\n\n  \
                  program worker\n    compute 10ms cycles=3000\n  end\n  start worker\n  open c cycles on worker\n  \
                  run 20ms\n  expect c 30000000\n  show counts\n\n\
                  The exit status is 1 if something was not as expected. docs/scenarios.md has all statements.")]
pub(crate) struct Args {
    /// Files with scenarios; - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Say only what was not as expected
    #[arg(short = 'q', long)]
    quiet: bool,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result {
    let mut missed = 0;
    for file in &args.files {
        let scenario: Scenario = text(file)?
            .parse()
            .map_err(|error| Failure::usage(format_args!("{}: {error}", file.display())))?;
        let outcome = play(&scenario);
        if !args.quiet {
            std::io::stdout().write_all(outcome.text.as_bytes())?;
        }
        for (line, found) in &outcome.failed {
            anstream::eprintln!("{}:{line}: {found}", file.display());
        }
        missed += outcome.failed.len();
    }
    Ok(if missed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn text(file: &Path) -> std::result::Result<String, Failure> {
    let mut text = String::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(file).map(|read| text = read)
    };
    read.map_err(|error| Failure::new(format_args!("cannot read {}: {error}", file.display())))?;
    Ok(text)
}
