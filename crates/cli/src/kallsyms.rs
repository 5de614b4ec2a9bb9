//! `perfuse kallsyms`: where functions and data of the running kernel are, in the words of `perf kallsyms`.

use crate::exit::{Failure, Result};
use crate::term::foreign::foreign;
use crate::term::out;
use perfuse_symbols::{KernelSymbols, NamedSymbol};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `perfuse kallsyms`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  perfuse kallsyms schedule vfs_read\n\nThe exit status is 1 where a name is not found."
)]
pub(crate) struct Args {
    /// Names of functions or data
    #[arg(required = true, value_name = "SYMBOL")]
    names: Vec<String>,
    /// Look in this copy of /proc/kallsyms
    #[arg(long, value_name = "FILE")]
    kallsyms: Option<PathBuf>,
    /// Taken for perf's sake: there is no more to say
    #[arg(short, long, hide = true)]
    verbose: bool,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result {
    let names: Vec<&str> = args.names.iter().map(String::as_str).collect();
    let found = KernelSymbols::named(args.kallsyms.as_deref(), &names).map_err(Failure::new)?;
    let mut out = out::stdout();
    let mut status = ExitCode::SUCCESS;
    for (name, places) in names.into_iter().zip(found) {
        let name = foreign(name);
        if places.is_empty() {
            writeln!(out, "{name}: not found")?;
            status = ExitCode::FAILURE;
        }
        for NamedSymbol { module, start, size, .. } in places {
            let [short, long] = match module {
                None => ["kernel", "kernel.kallsyms"].map(str::to_owned),
                Some(module) => [(); 2].map(|()| foreign(&module).into_owned()),
            };
            let place = format!("{start:#x}-{:#x}", start.saturating_add(size));
            writeln!(out, "{name}: [{short}] [{long}] {place} ({place})")?;
        }
    }
    out.flush()?;
    Ok(status)
}
