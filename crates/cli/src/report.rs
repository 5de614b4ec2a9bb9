//! `perfuse report`: where the samples of a recording were, as text for people and pipes, or JSON.

mod facts;
mod json;
mod options;
mod progress;
mod text;
mod tree;
mod workers;

use crate::exit::Result;
use crate::recording::{self, Filter, Input};
pub(crate) use facts::kind_name;
use options::{List, Plan, Style, list_of_columns};
use perfuse_abi::SampleType;
use perfuse_abi::record::Record;
use perfuse_data::Event;
use perfuse_data::session::{Level, Session};
use perfuse_profile::{Collector, Column, Entry, Frames, Key, Names, Order, Profile, Report};
use progress::Progress;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Options of `perfuse report`.
///
/// Percentages are of all samples of the event, also of those that a filter leaves out.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  perfuse report                          functions, most expensive first\n  perfuse report --no-children -g caller  with who called them\n  perfuse report -s comm,dso              programs and their libraries\n  perfuse report --json | jq .events[0]"
)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    filter: Filter,
    /// Only these objects, by name with or without folders
    #[arg(short, long, visible_alias = "dsos", value_name = "NAME,...", value_delimiter = ',')]
    dso: Vec<String>,
    /// Only these functions
    #[arg(short = 'S', long, visible_alias = "symbols", value_name = "NAME,...", value_delimiter = ',')]
    symbol: Vec<String>,
    /// Only functions with this in their name
    #[arg(long, value_name = "TEXT")]
    symbol_filter: Option<String>,
    /// What to tell apart: comm, dso, symbol (default), pid, tgid, cpu, time, srcline, weight, cgroup, ...; with + in front, besides
    #[arg(short, long, value_name = "KEY,...", value_parser = list_of_columns)]
    sort: Option<List<Column>>,
    /// Columns: overhead, overhead_children, sample, period, and what one can sort by; with + in front, besides
    #[arg(short = 'F', long, value_name = "FIELD,...", value_parser = list_of_columns)]
    fields: Option<List<Column>>,
    /// Show the number of samples
    #[arg(short = 'n', long)]
    show_nr_samples: bool,
    /// Show the occurrences of the event that samples stand for
    #[arg(long)]
    show_total_period: bool,
    /// Show the shares in the kernel and in programs
    #[arg(long)]
    show_cpu_utilization: bool,
    /// Count what a function calls as its own too (default where there are callchains)
    #[arg(long, overrides_with = "no_children")]
    children: bool,
    /// Count only what is in the function itself
    #[arg(long, overrides_with = "children")]
    no_children: bool,
    /// Call trees: graph, fractal, flat, folded or none; a least percentage and a most number of branches; caller or callee first; function or address; percent, period or count
    #[arg(short = 'g', long, value_name = "STYLE[,PERCENT[,NUMBER]][,ORDER][,KEY][,VALUE]", num_args = 0..=1, default_missing_value = "graph")]
    call_graph: Option<String>,
    /// Call trees with the outermost caller first
    #[arg(short = 'G', long)]
    inverted: bool,
    /// Take only so many frames of a callchain
    #[arg(long, value_name = "NUMBER", default_value_t = u32::MAX, hide_default_value = true)]
    max_stack: u32,
    /// Leave out entries below this many percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    percent_limit: f64,
    /// Of what percentages are: of all samples, or relative to those that filters leave
    #[arg(long, value_name = "HOW", default_value = "absolute", value_parser = ["absolute", "relative"])]
    percentage: String,
    /// The steps of the key time, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    time_quantum: u64,
    /// Between columns, without padding
    #[arg(short = 't', long, value_name = "TEXT")]
    field_separator: Option<String>,
    /// Widths of columns; 0 is as wide as needed
    #[arg(short = 'w', long, value_name = "WIDTH,...", value_delimiter = ',')]
    column_widths: Vec<usize>,
    /// No lines that begin with #
    #[arg(short, long)]
    quiet: bool,
    /// Taken for perf's sake: the report is text
    #[arg(long, hide = true)]
    stdio: bool,
    /// When to use colours: always, never, or auto on a terminal
    #[arg(long, value_name = "WHEN", num_args = 0..=1, default_value = "auto", default_missing_value = "always", value_parser = ["always", "never", "auto"])]
    stdio_color: String,
    #[command(flatten)]
    header: recording::header::Shown,
    /// Show only how many records of each kind there are
    #[arg(long)]
    stats: bool,
    /// Show only the tasks and whose children they are
    #[arg(long)]
    tasks: bool,
    /// Show only the tasks and what they have mapped
    #[arg(long)]
    mmaps: bool,
    /// Show only the records, each with what is in it
    #[arg(short = 'D', long)]
    dump_raw_trace: bool,
    /// Names as they are in the files
    #[arg(long)]
    no_demangle: bool,
    /// Taken for perf's sake: inlined functions are not told apart yet
    #[arg(long, hide = true)]
    no_inline: bool,
    /// Write one JSON object (schema perfuse.report/1) in place of text
    #[arg(long)]
    json: bool,
}

/// What was read: for each event a profile, and what all have in common.
struct Read {
    names: Vec<String>,
    profiles: Vec<Profile>,
    /// The keys that the contexts of the profiles have.
    keys: Vec<Key>,
    frames: Frames,
    session: Session,
    lost: u64,
    machine: facts::Machine,
}

/// What is shown of an event.
struct Shown<'s> {
    name: &'s str,
    samples: u64,
    /// What percentages are of.
    whole: u64,
    report: &'s Report<'s>,
    frames: &'s Frames,
    names: Names<'s>,
    /// In order, without those below the limit.
    entries: Vec<&'s Entry>,
    all: Vec<&'s Entry>,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result {
    let mut out = std::io::BufWriter::with_capacity(64 << 10, std::io::stdout().lock());
    args.header.print(&mut out, &args.input)?;
    if args.header.header_only {
        // Nothing else was asked for.
    } else if args.dump_raw_trace {
        recording::dump::print(&mut out, &args.input, true)?;
        facts::stats(&mut out, &args.input, true)?;
    } else if args.stats {
        facts::stats(&mut out, &args.input, false)?;
    } else if args.tasks || args.mmaps {
        facts::tasks(&mut out, &args.input, args.mmaps)?;
    } else {
        print(&mut out, args)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn has_colour(args: &Args) -> bool {
    match args.stdio_color.as_str() {
        "always" => true,
        "never" => false,
        _ => {
            let choice = anstream::AutoStream::choice(&std::io::stdout());
            std::io::stdout().is_terminal() && choice != anstream::ColorChoice::Never
        }
    }
}

fn print(out: &mut impl Write, args: &Args) -> Result<()> {
    let (read, plan) = read(args)?;
    if args.json {
        return json::print(out, args, &plan, &read);
    }
    if !args.quiet {
        text::head(out, args, &plan, read.lost)?;
    }
    let mut is_empty = true;
    for (name, profile) in read.names.iter().zip(&read.profiles).filter(|(_, profile)| profile.samples > 0) {
        is_empty = false;
        with_shown(args, &plan, &read, name, profile, |shown| text::print(out, args, &plan, shown))?;
    }
    if args.quiet {
        return Ok(());
    }
    if is_empty {
        writeln!(out, "# The recording has no samples.")?;
    }
    text::missing(out, &read.frames)
}

/// Reads all samples.
fn read(args: &Args) -> Result<(Read, Plan)> {
    let mut session = Session::new();
    let mut progress = Progress::new(&args.input.input);
    let data = args.input.open()?;
    let mut collecting: Option<(Plan, Collector)> = None;
    let mut lost = 0;
    let has_chains = |event: &Event| event.attr.sample_type.contains(SampleType::CALLCHAIN);
    // The events of a file are known from the start, those of a pipe at the first sample.
    if !data.events().is_empty() {
        collecting = Some(prepare(args, data.events().iter().any(has_chains))?);
    }
    let mut ordered = recording::replay(data, &mut session, |entry, decoded, session, _| {
        progress.at(entry.location.offset);
        let Some(decoded) = decoded else { return Ok(()) };
        let sample = match &decoded.record {
            Record::Sample(sample) => sample,
            other => {
                lost += match other {
                    Record::Lost(record) => record.lost,
                    Record::LostSamples(count) => *count,
                    _ => 0,
                };
                if let Some((_, collector)) = &mut collecting {
                    collector.session_changed();
                }
                return Ok(());
            }
        };
        let (Some(index), Some(event)) = (entry.event_index(), entry.event()) else { return Ok(()) };
        if !args.filter.admits_moment(sample.cpu.map(|cpu| cpu.cpu), sample.time) {
            return Ok(());
        }
        let (_, collector) = match &mut collecting {
            Some(collecting) => collecting,
            empty => empty.insert(prepare(args, has_chains(event))?),
        };
        collector.add((index, &event.attr), session, sample, Level::of(decoded.misc), event.weight(sample));
        Ok(())
    })?;
    progress.finish();
    let (plan, collector) = match collecting {
        Some(collecting) => collecting,
        None => prepare(args, false)?,
    };
    let names = ordered.data().events().iter().map(recording::event_name).collect();
    let machine = facts::Machine::read(ordered.data_mut());
    let keys = collector.keys().to_vec();
    let (profiles, frames) = collector.finish();
    Ok((Read { names, profiles, keys, frames, session, lost, machine }, plan))
}

fn prepare(args: &Args, has_chains: bool) -> Result<(Plan, Collector)> {
    let plan = Plan::new(args, has_chains)?;
    let by_address = plan.graph.by_address || plan.keys.iter().any(|key| key.is_of_address());
    let frames = Frames::new(!args.no_demangle).by_address(by_address);
    let collector = Collector::new(collect_plan(args, &plan), frames);
    Ok((plan, collector))
}

/// What to collect for a report.
fn collect_plan(args: &Args, plan: &Plan) -> perfuse_profile::Plan {
    let mut collected = perfuse_profile::Plan::new(&plan.keys);
    collected.chains = plan.children || plan.graph.style != Style::None;
    collected.max_stack = if args.max_stack == u32::MAX { usize::MAX } else { args.max_stack as usize };
    collected.time_step_ns = args.time_quantum * 1_000_000;
    collected.filter.comms.clone_from(&args.filter.comm);
    collected.filter.pids.clone_from(&args.filter.pid);
    collected.filter.tids.clone_from(&args.filter.tid);
    collected.filter.objects.clone_from(&args.dso);
    collected.filter.symbols.clone_from(&args.symbol);
    collected
}

/// Sums a profile up, and hands it over with its entries in order.
fn with_shown<R>(
    args: &Args,
    plan: &Plan,
    read: &Read,
    name: &str,
    profile: &Profile,
    work: impl FnOnce(&Shown<'_>) -> R,
) -> R {
    let order = Order::new(plan.graph.caller_first, plan.children);
    let report = Report::new(profile, &read.frames, &plan.keys, order);
    let names = Names::new(&read.frames, &read.session, profile, &read.keys);
    let is_relative = args.percentage == "relative";
    let (samples, whole) = match is_relative {
        true => {
            let counted =
                |sum: (u64, u64), entry: &Entry| (sum.0 + entry.self_samples, sum.1 + entry.self_weight);
            report.entries.iter().fold((0, 0), counted)
        }
        false => (profile.samples, profile.weight),
    };
    let has_name = |entry: &&Entry| {
        let symbol = read.frames.get(entry.frame).symbol.as_deref().unwrap_or("");
        args.symbol_filter.as_ref().is_none_or(|part| symbol.contains(part.as_str()))
    };
    let is_shown = |entry: &&Entry| plan.children || entry.self_samples > 0;
    let mut all: Vec<&Entry> = report.entries.iter().filter(is_shown).filter(has_name).collect();
    let trees = (plan.graph.style != Style::None).then_some(order);
    names.sort(&mut all, &plan.sort, trees);
    let rank = |entry: &Entry| if plan.children { entry.total_weight } else { entry.self_weight };
    let is_enough = |entry: &&Entry| rank(entry) as f64 * 100.0 / whole.max(1) as f64 >= args.percent_limit;
    let entries = all.iter().copied().filter(is_enough).collect();
    let frames = &read.frames;
    work(&Shown { name, samples, whole, report: &report, frames, names, entries, all })
}
