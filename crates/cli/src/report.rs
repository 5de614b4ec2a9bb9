//! `perfuse report`: where the samples of a recording were, as text for people and pipes, or JSON.

mod chains;
mod facts;
mod json;
mod keys;
mod profile;
mod text;

use crate::exit::{Failure, Result};
use crate::recording::frames::{FrameId, Frames};
use crate::recording::{self, Filter, Input};
use chains::Style;
pub(crate) use facts::kind_name;
use keys::{Column, Key, Names};
use perfuse_abi::record::{Record, Sample};
use perfuse_data::session::{Level, Session};
use profile::Profile;
use std::io::Write;
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
    #[arg(long, visible_alias = "dsos", value_name = "NAME,...", value_delimiter = ',')]
    dso: Vec<String>,
    /// Only these functions
    #[arg(short = 'S', long, visible_alias = "symbols", value_name = "NAME,...", value_delimiter = ',')]
    symbol: Vec<String>,
    /// Only functions with this in their name
    #[arg(long, value_name = "TEXT")]
    symbol_filter: Option<String>,
    /// What to tell apart: comm, dso, symbol, pid, tid, cpu, cgroup, time, weight
    #[arg(short, long, value_name = "KEY,...", default_value = "comm,dso,symbol", value_parser = list_of_keys)]
    sort: KeyList,
    /// Columns: overhead, overhead_children, sample, period, and what one can sort by
    #[arg(short = 'F', long, value_name = "FIELD,...", value_parser = list_of_columns)]
    fields: Option<ColumnList>,
    /// Show the number of samples
    #[arg(short = 'n', long)]
    show_nr_samples: bool,
    /// Count what a function calls as its own too (default where there are callchains)
    #[arg(long, overrides_with = "no_children")]
    children: bool,
    /// Count only what is in the function itself
    #[arg(long, overrides_with = "children")]
    no_children: bool,
    /// Call trees: graph, fractal, folded or none; with a least percentage; caller or callee first
    #[arg(short = 'g', long, value_name = "STYLE[,PERCENT][,ORDER]", num_args = 0..=1, default_missing_value = "graph")]
    call_graph: Option<String>,
    /// Leave out entries below this many percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    percent_limit: f64,
    /// Taken for perf's sake: the report is text
    #[arg(long, hide = true)]
    stdio: bool,
    /// Show what the recording says of itself first
    #[arg(long)]
    header: bool,
    /// Show only what the recording says of itself
    #[arg(long)]
    header_only: bool,
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

#[derive(Clone, Debug)]
struct KeyList(Vec<Key>);
#[derive(Clone, Debug)]
struct ColumnList(Vec<Column>);

fn list_of_keys(text: &str) -> std::result::Result<KeyList, String> {
    keys::keys(text).map(KeyList)
}

fn list_of_columns(text: &str) -> std::result::Result<ColumnList, String> {
    keys::columns(text).map(ColumnList)
}

/// An event and what was found of it.
#[derive(Debug, Default)]
struct EventProfile {
    name: String,
    profile: Profile,
}

/// What the options amount to.
#[derive(Clone, Debug)]
struct Plan {
    context_keys: Vec<Key>,
    keys: Vec<Key>,
    columns: Vec<Column>,
    children: bool,
    style: Style,
    least_percent: f64,
    to_callees: bool,
}

/// What all events share.
struct Summary {
    lost: u64,
    frames: Frames,
    session: Session,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    if args.header || args.header_only {
        recording::header::print(&mut out, &args.input)?;
    }
    if args.header_only {
        // Nothing else was asked for.
    } else if args.dump_raw_trace {
        recording::dump::print(&mut out, &args.input, true)?;
        facts::stats(&mut out, &args.input, true)?;
    } else if args.stats {
        facts::stats(&mut out, &args.input, false)?;
    } else if args.tasks || args.mmaps {
        facts::tasks(&mut out, &args.input, args.mmaps)?;
    } else {
        profile_report(&mut out, args)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn profile_report(out: &mut impl Write, args: &Args) -> Result<()> {
    let columns = args.fields.as_ref().map(|list| list.0.as_slice());
    let sort: Vec<Key> = match columns {
        Some(columns) => {
            let key = |column: &Column| if let Column::Key(key) = column { Some(*key) } else { None };
            columns.iter().filter_map(key).collect()
        }
        None => args.sort.0.clone(),
    };
    let context_keys: Vec<Key> = sort.iter().copied().filter(|key| !key.is_of_frame()).collect();
    let mut summary = Summary { lost: 0, frames: Frames::new(!args.no_demangle), session: Session::new() };
    let mut events = Vec::new();
    collect(args, &context_keys, &mut events, &mut summary)?;
    let has_chains = events.iter().any(|event| event.profile.chains > 0);
    let plan = plan(args, context_keys, sort, has_chains)?;
    if args.json {
        return json::print(out, args, &plan, &mut events, &summary);
    }
    writeln!(out, "# Total Lost Samples: {}\n#", summary.lost)?;
    for event in events.iter_mut().filter(|event| event.profile.samples > 0) {
        text::print(out, args, &plan, event, &summary)?;
    }
    if events.iter().all(|event| event.profile.samples == 0) {
        writeln!(out, "# The recording has no samples.")?;
    }
    text::missing(out, &summary.frames)
}

fn plan(args: &Args, context_keys: Vec<Key>, keys: Vec<Key>, has_chains: bool) -> Result<Plan> {
    let children = has_chains && !args.no_children
        || args.children
        || args.fields.as_ref().is_some_and(|list| list.0.contains(&Column::Total));
    let mut plan = Plan {
        context_keys,
        columns: Vec::new(),
        keys,
        children,
        style: if has_chains { Style::Graph } else { Style::None },
        least_percent: 0.5,
        to_callees: children,
    };
    for word in args.call_graph.iter().flat_map(|text| text.split(',')) {
        match word {
            "graph" => plan.style = Style::Graph,
            "fractal" => plan.style = Style::Fractal,
            "folded" => plan.style = Style::Folded,
            "none" => plan.style = Style::None,
            "caller" => plan.to_callees = true,
            "callee" => plan.to_callees = false,
            // What perf takes besides, and what is the only way here.
            "function" | "percent" | "flat" => {}
            number => match number.parse() {
                Ok(percent) => plan.least_percent = percent,
                Err(_) => {
                    let known = "graph, fractal, folded, none, caller, callee or a percentage";
                    return Err(Failure::usage(format_args!("-g '{number}': not one of {known}")));
                }
            },
        }
    }
    if !has_chains {
        plan.style = Style::None;
    }
    plan.columns = match &args.fields {
        Some(list) => list.0.clone(),
        None => {
            let mut columns = Vec::new();
            columns.extend(plan.children.then_some(Column::Total));
            columns.push(Column::Own);
            columns.extend(args.show_nr_samples.then_some(Column::Samples));
            columns.extend(plan.keys.iter().map(|&key| Column::Key(key)));
            columns
        }
    };
    Ok(plan)
}

/// Reads all samples.
fn collect(args: &Args, keys: &[Key], events: &mut Vec<EventProfile>, summary: &mut Summary) -> Result<()> {
    let (mut stack, mut values): (Vec<FrameId>, Vec<u64>) = Default::default();
    let Summary { lost, frames, session } = summary;
    let ordered = recording::replay(args.input.open()?, session, |entry, decoded, session, _| {
        let Some(decoded) = decoded else { return Ok(()) };
        let sample = match &decoded.record {
            Record::Sample(sample) => sample,
            Record::Lost(record) => {
                *lost += record.lost;
                return Ok(());
            }
            Record::LostSamples(count) => {
                *lost += count;
                return Ok(());
            }
            _ => return Ok(()),
        };
        let Some(index) = entry.event_index() else { return Ok(()) };
        while events.len() <= index {
            events.push(EventProfile::default());
        }
        let tid = sample.tid.unwrap_or_default();
        let comm = session.comm_of(tid.pid, tid.tid);
        let comm_text = comm.map_or(&b""[..], |comm| session.comm(comm));
        let filter = &args.filter;
        let cpu = sample.cpu.map(|cpu| cpu.cpu);
        let weight = entry.event().map_or(1, |event| event.weight(sample));
        let profile = &mut events[index].profile;
        if !filter.admits_moment(cpu, sample.time) {
            return Ok(());
        }
        profile.samples += 1;
        profile.weight += weight;
        if !filter.admits_task(tid.pid, tid.tid, comm_text) {
            return Ok(());
        }
        values.clear();
        let comm = u64::from(comm.unwrap_or_default().0);
        values.extend(keys.iter().map(|key| match key {
            Key::Comm => comm,
            Key::Pid => u64::from(tid.pid) << 32 | comm,
            Key::Tid => u64::from(tid.tid) << 32 | comm,
            Key::Cpu => cpu.map_or(u64::MAX, u64::from),
            Key::Cgroup => sample.cgroup.unwrap_or(0),
            Key::Time => sample.time.unwrap_or(0) / 1000 * 1000,
            Key::Weight => sample.weight.map_or(0, |weight| weight.bits()),
            Key::Dso | Key::Symbol => 0,
        }));
        let root = profile.context(&values);
        stack.clear();
        stack_of(frames, session, sample, Level::of(decoded.misc), &mut stack);
        profile.chains += u64::from(sample.callchain.is_some());
        profile.add(root, &stack, weight);
        Ok(())
    })?;
    for (index, event) in ordered.data().events().iter().enumerate() {
        if events.len() <= index {
            events.push(EventProfile::default());
        }
        events[index].name = recording::event_name(event);
    }
    Ok(())
}

/// The frames of a sample, innermost first. A callchain begins with where the sample was.
fn stack_of(
    frames: &mut Frames,
    session: &Session,
    sample: &Sample<'_>,
    level: Level,
    stack: &mut Vec<FrameId>,
) {
    let tid = sample.tid.unwrap_or_default();
    let leaf = frames.locate(session, tid.pid, tid.tid, level, sample.ip.unwrap_or(0)).frame;
    stack.push(leaf);
    if let Some(chain) = &sample.callchain {
        let mut is_first = true;
        frames.chain(session, (tid.pid, tid.tid), level, chain, |located, _| {
            if !std::mem::take(&mut is_first) {
                stack.push(located.frame);
            }
        });
    }
}

/// The entries to show, most expensive first, and how many there were.
fn entries(
    args: &Args,
    plan: &Plan,
    tree: &profile::Tree<'_>,
    names: &Names<'_>,
) -> (Vec<profile::Entry>, usize) {
    let frames = names.frames;
    let mut objects = std::collections::HashMap::new();
    let (by_symbol, by_object) = (plan.keys.contains(&Key::Symbol), plan.keys.contains(&Key::Dso));
    let entries = tree.entries(|frame| match (by_symbol, by_object) {
        (true, _) => frame.0,
        (false, false) => 0,
        (false, true) => {
            let next = objects.len() as u32;
            *objects.entry(frames.short_object(frames.get(frame).object)).or_insert(next)
        }
    });
    let whole = tree.profile.weight.max(1) as f64;
    let rank = |entry: &profile::Entry| if plan.children { entry.total_weight } else { entry.self_weight };
    let mut shown: Vec<_> = entries
        .into_iter()
        .filter(|entry| plan.children || entry.self_samples > 0)
        .filter(|entry| is_wanted(args, frames, entry))
        .collect();
    let count = shown.len();
    shown.retain(|entry| rank(entry) as f64 * 100.0 / whole >= args.percent_limit);
    shown.sort_by_cached_key(|entry| {
        let keys: Vec<_> = plan.keys.iter().map(|&key| names.text(entry, key)).collect();
        (std::cmp::Reverse((rank(entry), entry.self_weight)), keys)
    });
    (shown, count)
}

fn is_wanted(args: &Args, frames: &Frames, entry: &profile::Entry) -> bool {
    let frame = frames.get(entry.frame);
    let symbol = frame.symbol.as_deref().unwrap_or("");
    let object =
        |name: &String| name == frames.object(frame.object) || name == frames.short_object(frame.object);
    (args.dso.is_empty() || args.dso.iter().any(object))
        && (args.symbol.is_empty() || args.symbol.iter().any(|name| name == symbol))
        && args.symbol_filter.as_ref().is_none_or(|part| symbol.contains(part.as_str()))
}
