//! `perfuse data convert`: a recording in perf's form of JSON.

use crate::common::unsupported::{OfData, Unsupported};
use crate::exit::{Failure, Result};
use crate::export;
use crate::recording::stacks::{self, Stacks};
use crate::recording::{self, Input, SymbolFiles};
use crate::term::foreign::foreign;
use crate::term::out::{self, say};
use perfuse_data::Ordered;
use perfuse_data::describe;
use perfuse_data::replay::{Replay, Step};
use perfuse_export::script::PerfJson;
use perfuse_profile::{Lookup, Plan};
use std::fs::OpenOptions;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `perfuse data`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  perfuse data convert --to-json out.json\n  perfuse data convert --to-json - -i old.data | jq '.samples | length'"
)]
pub(crate) struct Args {
    /// The action: convert
    #[arg(value_name = "convert", value_parser = ["convert"])]
    what: String,
    /// Write it there; - is standard output
    #[arg(long, value_name = "FILE")]
    to_json: Option<PathBuf>,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    symbol_files: SymbolFiles,
    #[command(flatten)]
    _untaken: Unsupported<OfData>,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result {
    debug_assert_eq!(args.what, "convert", "there is nothing else");
    let Some(path) = &args.to_json else {
        return Err(Failure::usage(
            "data convert wants a file to write: --to-json out.json, or --to-json - for standard output",
        ));
    };
    if export::is_stdout(path) {
        return write(&mut BufWriter::new(out::stdout()), args, &Failure::from).map(|_| ExitCode::SUCCESS);
    }
    let name = foreign(path.as_os_str().as_encoded_bytes());
    let mut options = OpenOptions::new();
    options.write(true).create(true).create_new(!args.input.force).truncate(args.input.force);
    let file = options.open(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Failure::new(format_args!("{name} exists already; --force overwrites it"))
        }
        _ => Failure::new(format_args!("cannot create {name}: {error}")),
    })?;
    let samples = write(&mut BufWriter::new(file), args, &|error| export::failed(path, &error))?;
    let ending = if samples == 1 { "" } else { "s" };
    say(format_args!("wrote {name} ({samples} sample{ending})"));
    Ok(ExitCode::SUCCESS)
}

/// Writes the recording, and tells how many samples it has.
fn write(out: &mut dyn Write, args: &Args, failed: &dyn Fn(io::Error) -> Failure) -> Result<u64> {
    let symbols = args.symbol_files.symbols(args.input.force);
    let mut data = args.input.open_named(&symbols)?;
    let machine = describe::machine(&mut data);
    let mut stacks = Stacks::new(&symbols, &machine, Plan::MAX_STACK);
    let captured = recording::header::changed(&args.input, "%Y-%m-%dT%H:%M:%SZ").unwrap_or_default();
    let lookup = Lookup::new(symbols.with_debug_info(false, false), true);
    let mut json = PerfJson::begin(out, &mut data, lookup, &captured, &machine).map_err(failed)?;
    let mut each = |step: &Step<'_>| json.add(step).map_err(failed);
    recording::replay(Replay::of(Ordered::new(data)), |step| stacks.visit(step, &mut each))?;
    let samples = json.end().map_err(failed)?;
    stacks::say(&stacks.unwinder);
    Ok(samples)
}
