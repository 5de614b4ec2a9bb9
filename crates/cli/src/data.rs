//! `perfuse data convert`: a recording in perf's form of JSON.

use crate::common::unsupported::{OfData, Unsupported};
use crate::exit::{Failure, Result};
use crate::recording::stacks::{self, Stacks};
use crate::recording::{self, Input, SymbolFiles};
use crate::term::foreign::foreign;
use crate::term::out::say;
use perfuse_abi::record::Record;
use perfuse_data::Ordered;
use perfuse_data::describe::{self, Fields};
use perfuse_data::replay::{Replay, Step};
use perfuse_export::script::{PerfJson, Sample};
use perfuse_profile::{Lookup, Plan};
use std::fs::OpenOptions;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `perfuse data`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  perfuse data convert --to-json out.json\n  perfuse data convert --to-json - -i old.data | jq '.samples | length'"
)]
pub(crate) struct Args {
    /// What to do: convert
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
    if path.as_os_str() == "-" {
        return write(std::io::stdout().lock(), args).map(|_| ExitCode::SUCCESS);
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
    let samples = write(BufWriter::new(file), args)?;
    let ending = if samples == 1 { "" } else { "s" };
    say(format_args!("wrote {name} ({samples} sample{ending})"));
    Ok(ExitCode::SUCCESS)
}

/// Writes the recording, and tells how many samples it has.
fn write(mut out: impl Write, args: &Args) -> Result<u64> {
    let symbols = args.symbol_files.symbols(args.input.force);
    let mut data = args.input.open_named(&symbols)?;
    let machine = describe::machine(&mut data);
    let mut stacks = Stacks::new(&symbols, &machine, Plan::MAX_STACK);
    let captured = recording::header::changed(&args.input, "%Y-%m-%dT%H:%M:%SZ").unwrap_or_default();
    let mut json = PerfJson::new(
        &mut data,
        Lookup::new(symbols.with_debug_info(false, false), true),
        &captured,
        &machine,
    );
    let fields = Fields::default();
    let mut each = |step: &Step<'_>| {
        let (Some(decoded), Some(event)) = (step.decoded, step.entry.event()) else { return Ok(()) };
        let Record::Sample(sample) = &decoded.record else { return Ok(()) };
        let (session, formats) = (step.session, step.formats);
        let period = sample.period.unwrap_or(0);
        json.sample(&Sample { event, fields: &fields, period, decoded, sample, session, formats });
        if json.bytes() >= 1 << 16 {
            json.take(&mut out)?;
        }
        Ok(())
    };
    recording::replay(Replay::of(Ordered::new(data)), |step| stacks.visit(step, &mut each))?;
    let samples = json.end(&mut out)?;
    out.flush()?;
    stacks::say(&stacks.unwinder);
    Ok(samples)
}
