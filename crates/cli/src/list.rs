//! `perfuse list`: the events of this machine, by kind, with what they mean and whether they work here and
//! for this user.
//!
//! The libraries ask the machine (`perfuse::catalogue`, and `perfuse_stat::metrics` for metrics); [`text`], [`json`] and
//! [`perfuse_tui::browse_events`] show.

mod json;
mod text;

use crate::common::events;
use crate::common::kernel;
use crate::common::tables::EventsDir;
use crate::common::unsupported::{OfList, Unsupported};
use crate::exit::{Failure, Result, reason};
use crate::term::out::{self, Out};
use perfuse::catalogue::{Depth, Kind, Wanted};
use perfuse_stat::metrics::{catalogue, catalogue_of_names};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

const AFTER: &str = "\
Examples:
  perfuse list                     on a terminal: type to search; else everything
  perfuse list fault               events with this word in their name or description
  perfuse list 'sched:*wak*'       names that match a pattern
  perfuse list sw pmu              kinds: hw, cache, sw, tool, pmu, tracepoint, metric
  perfuse list -v sched_switch     with encoding and fields
  perfuse list --json              for programs";

/// Options of `perfuse list`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// Words, patterns or kinds; an event is shown if it fits all words and patterns, and one of the kinds
    #[arg(value_name = "WORD")]
    words: Vec<String>,

    /// Also how each event is encoded, and the fields of tracepoints
    #[arg(short = 'v', long, visible_alias = "details")]
    verbose: bool,

    /// One JSON object (schema perfuse.list/1)
    #[arg(long, group = "format")]
    json: bool,

    /// The same as perf writes it: a list of objects
    #[arg(short = 'j', group = "format")]
    perf_json: bool,

    /// Write to this file
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// The names alone, one to a line
    #[arg(long, group = "format")]
    raw_dump: bool,

    #[command(flatten)]
    events_dir: EventsDir,

    /// Text on a terminal too
    #[arg(long, group = "format")]
    plain: bool,

    #[command(flatten)]
    _untaken: Unsupported<OfList>,
}

/// Completions of the last word of an unfinished list, each with all that stands before it. The list is of events, or
/// with `metrics` of metrics.
pub(crate) fn completions(list: &str, metrics: bool) -> Vec<String> {
    let machine = events::machine();
    let begun = list.rfind([',', '{']).map_or(0, |at| at + 1);
    let (before, word) = list.split_at(begun);
    let wanted = |kind: Kind| (kind == Kind::Metric) == metrics && kind != Kind::Form;
    let names = catalogue_of_names(&machine, &wanted).entries.into_iter().flat_map(|entry| {
        // An event of a PMU is found by its own name too, a metric by that of a group.
        std::iter::once(entry.name).chain(entry.aliases)
    });
    let fits = |name: &String| name.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    let mut found: Vec<String> = names.filter(fits).map(|name| format!("{before}{name}")).collect();
    found.sort();
    found.dedup();
    found
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result {
    args.events_dir.decide()?;
    let kernel = kernel::of_the_environment()?;
    let mut machine = events::of_kernel(&kernel);
    if !kernel.facts().is_embedded {
        machine.beside = &[];
    }
    let depth = if args.verbose || args.json || args.perf_json { Depth::Encodings } else { Depth::Names };
    let wanted = Wanted::new(&args.words);
    let on_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let chosen_format =
        args.json || args.perf_json || args.output.is_some() || args.raw_dump || args.plain || args.verbose;
    if on_terminal && !chosen_format && args.words.is_empty() {
        let all = catalogue(&kernel, &machine, depth, &|_| true);
        perfuse_tui::browse_events(&kernel, &machine, all)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut all = match args.raw_dump {
        true => catalogue_of_names(&machine, &|kind| wanted.takes_kind(kind)),
        false => catalogue(&kernel, &machine, depth, &|kind| wanted.takes_kind(kind)),
    };
    let close = if args.words.is_empty() { Vec::new() } else { wanted.close(&all) };
    all.entries.retain(|entry| wanted.takes(entry));
    let nothing = all.entries.is_empty() && !args.words.is_empty();
    let mut out = Vec::new();
    if args.json {
        json::print(&mut out, &machine, &all)?;
    } else if args.perf_json {
        json::print_as_perf(&mut out, &all)?;
    } else if args.raw_dump {
        all.entries.iter().try_for_each(|entry| writeln!(out, "{}", entry.name))?;
    } else {
        text::print(&mut out, &machine, &all, args.verbose)?;
    }
    match &args.output {
        Some(path) => {
            std::fs::File::create(path).and_then(|file| Out::new(file, false).write_all(&out)).map_err(
                |error| Failure::new(format_args!("cannot write {}: {}", path.display(), reason(&error))),
            )?
        }
        None => out::print(&out)?,
    }
    if nothing {
        let hint =
            if close.is_empty() { String::new() } else { format!("; did you mean {}?", close.join(", ")) };
        let words = args.words.join(" ");
        return Err(Failure::new(format_args!("no event fits '{words}'{hint}")).with_status(1));
    }
    Ok(ExitCode::SUCCESS)
}
