//! `perfuse version` and `perfuse check`: which perfuse this is and what is built in, in the words of `perf version` and `perf check`.

use crate::exit::{Failure, Result};
use crate::term::out;
use std::io::Write;
use std::process::ExitCode;

/// Options of `perfuse version`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also what is built in, by the names of perf's features
    #[arg(long)]
    build_options: bool,

    /// The same
    #[arg(short = 'v', long, hide = true)]
    verbose: bool,
}

/// Options of `perfuse check`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The one thing that is checked
    #[arg(value_name = "feature", value_parser = ["feature"])]
    subject: String,
    /// Names of features, as perfuse version --build-options lists them
    #[arg(value_name = "NAME,...", required = true, value_delimiter = ',')]
    names: Vec<String>,
    /// Only the exit status tells: 0 if all of them are built in, else 1
    #[arg(short, long)]
    quiet: bool,
}

/// perf's features, a row for each: its name, the macro that it shows, and whether perfuse does the same.
const FEATURES: &str = include_str!("version/features.txt");

fn features() -> impl Iterator<Item = [&'static str; 3]> {
    let rows = FEATURES.lines().filter(|line| !line.starts_with('#'));
    rows.filter_map(|line| line.split(' ').collect::<Vec<_>>().try_into().ok())
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result {
    let mut out = out::stdout();
    writeln!(out, "perfuse {}", env!("CARGO_PKG_VERSION"))?;
    if args.build_options || args.verbose {
        features().try_for_each(|feature| tell(&mut out, feature))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn tell(out: &mut impl Write, [name, name_of_macro, state]: [&str; 3]) -> std::io::Result<()> {
    writeln!(out, "{name:>22}: [ {state:<3} ]  # {name_of_macro}")
}

/// Runs `perfuse check`: names of features or of their macros, in any case, as in perf.
pub(crate) fn check(args: &CheckArgs) -> Result {
    let mut out = out::stdout();
    let mut status = ExitCode::SUCCESS;
    for wanted in &args.names {
        let mut named = features().filter(|[name, name_of_macro, _]| {
            name.eq_ignore_ascii_case(wanted) || name_of_macro.eq_ignore_ascii_case(wanted)
        });
        let Some(feature) = named.next() else {
            out.flush()?;
            let near = perfuse_events::nearest(wanted, features().map(|[name, ..]| name));
            let hint = match near.is_empty() {
                true => "perfuse version --build-options lists them".to_owned(),
                false => format!("did you mean {}?", near.join(" or ")),
            };
            return Err(Failure::new(format_args!("there is no feature '{wanted}'; {hint}")).with_status(1));
        };
        if !args.quiet {
            tell(&mut out, feature)?;
        }
        if feature[2] != "on" {
            status = ExitCode::FAILURE;
        }
    }
    out.flush()?;
    Ok(status)
}
