//! Command lines within a command line: those of `stat record` and of `flamegraph`, and the one that `doctor --for` is asked about.

use crate::cli::{Cli, Subcommand};
use crate::common::kernel::Tried;
use crate::exit::{Failure, Result};
use crate::{habits, record, report, stat, usage};
use clap::CommandFactory;
use std::ffi::OsString;

/// The options of `stat` in the words of a whole command line. Ends the program where they make no sense.
pub(crate) fn stat_args(words: Vec<OsString>) -> Result<Box<stat::Args>> {
    match habits::parse_from(&words) {
        Ok(Cli { subcommand: Subcommand::Stat(args) }) => Ok(args.0),
        Ok(_) => Err(Failure::usage("stat record has options of stat")),
        Err(error) => habits::end(&error, |error| usage::refusal(error, Cli::command(), &words)),
    }
}

/// The options of `record` in the words of a whole command line. Ends the program where they make no sense.
pub(crate) fn record_args(words: Vec<OsString>) -> Result<Box<record::Args>> {
    match habits::parse_from(&words) {
        Ok(Cli { subcommand: Subcommand::Record(args) }) => Ok(args.0),
        Ok(_) => Err(Failure::usage("these are not options of record")),
        Err(error) => habits::end(&error, |error| usage::refusal(error, Cli::command(), &words)),
    }
}

/// Runs `report` with the words of a whole command line.
pub(crate) fn report(words: Vec<OsString>) -> Result {
    match habits::parse_from(&words) {
        Ok(Cli { subcommand: Subcommand::Report(args) }) => report::run(&args),
        Ok(_) => Err(Failure::usage("these are not options of report")),
        Err(error) => habits::end(&error, |error| usage::refusal(error, Cli::command(), &words)),
    }
}

/// The commands whose plans can be tried.
const PLANS: &str = "plans are for stat and record";

/// Opens what a perfuse command line would open, and closes it again; tells the kernel too.
pub(crate) fn rehearse(line: &str) -> Result<Tried> {
    let words = shell_words::split(line).map_err(|_| Failure::usage("--for: a quotation mark is missing"))?;
    let words = match words.first().map(String::as_str) {
        Some("perfuse" | "perf") => &words[1..],
        _ => &words[..],
    };
    let Some((subcommand, arguments)) = words.split_first() else {
        return Err(Failure::usage("--for: the command line is empty"));
    };
    if Cli::command().find_subcommand(subcommand).is_none() {
        return Err(Failure::usage(format_args!("--for: there is no perfuse {subcommand}; {PLANS}")));
    }
    let words = ["perfuse", subcommand].into_iter().chain(arguments.iter().map(String::as_str));
    let words: Vec<OsString> = words.map(OsString::from).collect();
    let refused =
        |error| Failure::usage(format_args!("--for: {}", usage::refusal(&error, Cli::command(), &words)));
    match habits::parse_from::<Cli>(&words).map_err(refused)?.subcommand {
        Subcommand::Stat(args) => stat::rehearse(&args),
        Subcommand::Record(args) => record::rehearse(&args),
        _ => Err(Failure::usage(format_args!("--for: {PLANS}, not {subcommand}"))),
    }
}
