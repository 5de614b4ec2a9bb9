//! `perfuse stat report`: shows what `stat record` of perfuse or perf has written, summed up as it was or in
//! another way.

use super::output::{Formats, Output};
use crate::exit::{Failure, Result};
use crate::recording::Input;
use perfuse_stat::{Aggregation, Error, Observer};
use std::process::ExitCode;

/// Options of `perfuse stat report`.
#[derive(Debug, clap::Parser)]
#[command(
    name = "perfuse stat report",
    about = "Show what perfuse stat record, or perf stat record, has written"
)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,

    /// A row for each cpu
    #[arg(short = 'A', long, group = "aggregation")]
    no_aggr: bool,

    /// A row for each core
    #[arg(long, group = "aggregation")]
    per_core: bool,

    /// A row for each die
    #[arg(long, group = "aggregation")]
    per_die: bool,

    /// A row for each socket
    #[arg(long, group = "aggregation")]
    per_socket: bool,

    /// A row for each NUMA node
    #[arg(long, group = "aggregation")]
    per_node: bool,

    /// A row for each thread
    #[arg(long, group = "aggregation")]
    per_thread: bool,

    #[command(flatten)]
    formats: Formats,
}

/// Shows a recording.
pub(super) fn run(args: &Args) -> Result {
    let mut data = args.input.open()?;
    let wanted = match args {
        Args { no_aggr: true, .. } => Some(Aggregation::Cpu),
        Args { per_core: true, .. } => Some(Aggregation::Core),
        Args { per_die: true, .. } => Some(Aggregation::Die),
        Args { per_socket: true, .. } => Some(Aggregation::Socket),
        Args { per_node: true, .. } => Some(Aggregation::Node),
        Args { per_thread: true, .. } => Some(Aggregation::Thread),
        _ => None,
    };
    let mut output = Output::of_recording(&args.formats)?;
    let name = args.input.name();
    let replayed = perfuse_stat::replay(&mut data, wanted, &name, |report| output.interval(report));
    let (total, intervals) = match replayed {
        Ok(Some(replayed)) => replayed,
        Ok(None) => {
            let why = "there are no counts in it; perfuse stat record makes such files";
            return Err(Failure::new(format_args!("{name}: {why}")));
        }
        Err(Error::Data(error)) => return Err(Failure::new(format_args!("{name}: {error}"))),
        Err(error) => return Err(error.into()),
    };
    output.total(&total, intervals > 0)?;
    Ok(ExitCode::SUCCESS)
}
