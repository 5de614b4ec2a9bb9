//! `perfuse report`: where the samples of a recording were, as text for people and pipes, or JSON.

mod facts;
mod groups;
mod hierarchy;
mod json;
mod options;
mod screen;
mod text;
mod tree;

use crate::common::pages::{self, Paging};
use crate::common::style;
use crate::common::unsupported::{OfReport, Unsupported};
use crate::exit::{Failure, Result};
use crate::export;
use crate::recording::functions::FunctionArgs;
use crate::recording::passed::Passed;
use crate::recording::progress::Progress;
use crate::recording::stacks;
use crate::recording::{self, FilterArgs, Input, SymbolFiles};
use crate::term::number::grouped;
use crate::term::out::say;
use options::{List, Numbers, Plan, Recorded, Style, list_of_names, numbers};
use perfuse_abi::SampleType;
use perfuse_data::describe;
use perfuse_data::feature::{Feature, FeatureId};
use perfuse_data::replay::{Formats, Lost, Replay};
use perfuse_data::{Event, EventGroup, Grouping, PerfData};
use perfuse_html::Page;
use perfuse_profile::{
    Admitted, Column, Entry, Frames, KeptProfile, Key, LocalSymbols, Lookup, Mode, NameTest, Names, Origin,
    Profile, Reading, Running, SampleRow, Sources, TracepointTexts, Trees, View, ViewPlan,
};
use perfuse_unwind::{End, Unwinder};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `perfuse report`.
///
/// Percentages are of all samples of the event, also of those that a filter leaves out.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  perfuse report                          functions, most expensive first\n  perfuse report --no-children -g caller  with who called them\n  perfuse report -s comm,dso              programs and their libraries\n  perfuse report --json | jq .events[0]\n  perfuse report --html report.html       a page to look at and to pass on"
)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    symbol_files: SymbolFiles,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    functions: FunctionArgs,
    /// Tell entries apart by: comm, dso, symbol (default), pid, tgid, cpu, time, srcline, weight, cgroup, trace, fields of tracepoints, ...; with + in front, besides
    #[arg(short, long, value_name = "KEY,...", value_parser = list_of_names)]
    sort: Option<List<String>>,
    /// Columns: overhead, overhead_children, sample, period, and all keys of --sort; with + in front, besides
    #[arg(short = 'F', long, value_name = "FIELD,...", value_parser = list_of_names)]
    fields: Option<List<String>>,
    /// The branches that samples tell of, not the samples (default where they do)
    #[arg(short = 'b', long, overrides_with = "no_branch_stack")]
    branch_stack: bool,
    /// The samples, though they tell of branches
    #[arg(long, overrides_with = "branch_stack")]
    no_branch_stack: bool,
    /// The cost of accesses to memory, and the data that they reached
    #[arg(long)]
    mem_mode: bool,
    /// The events of a group in one table (default for events that were recorded as a group); all events, if none were
    #[arg(long, overrides_with = "no_group")]
    group: bool,
    /// A table for each event
    #[arg(long, overrides_with = "group")]
    no_group: bool,
    /// Sort by this event of the group, the first being 0
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    group_sort_idx: usize,
    /// Each key under the one before, with the sums of what is under it
    #[arg(short = 'H', long)]
    hierarchy: bool,
    /// Sort by latency, which is time that passed: each sample's share divided by the number of threads that ran (record --latency)
    #[arg(long)]
    latency: bool,
    /// Only samples while so many threads ran, such as 1-2
    #[arg(long, value_name = "NUMBERS", value_parser = numbers)]
    parallelism: Option<Numbers>,
    /// The key parent: the first caller with such a name; ^sys_|^do_page_fault unless told
    #[arg(short = 'p', long, value_name = "REGEX", value_parser = regex_lite::Regex::new)]
    parent: Option<regex_lite::Regex>,
    /// Only what has such a caller
    #[arg(short = 'x', long)]
    exclude_other: bool,
    /// Count what these functions call as their own
    #[arg(long, value_name = "REGEX", value_parser = regex_lite::Regex::new)]
    ignore_callees: Option<regex_lite::Regex>,
    /// Fields of tracepoints as they were recorded, not as their authors would print them
    #[arg(long)]
    raw_trace: bool,
    /// Only samples of this processor socket
    #[arg(long, value_name = "NUMBER")]
    socket_filter: Option<u32>,
    /// Times with nine digits
    #[arg(long)]
    ns: bool,
    /// Taken for perf's sake: there is no more to say
    #[arg(short, long, hide = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Show the number of samples
    #[arg(short = 'n', long)]
    show_nr_samples: bool,
    /// Show the occurrences of the event that samples stand for
    #[arg(long)]
    show_total_period: bool,
    /// Show the shares in the kernel and in programs
    #[arg(long, alias = "showcpuutilization")]
    show_cpu_utilization: bool,
    /// Count what a function calls as its own too (default where there are callchains)
    #[arg(long, overrides_with = "no_children")]
    children: bool,
    /// Count only what is in the function itself
    #[arg(long, overrides_with = "children")]
    no_children: bool,
    /// Call trees: graph, fractal, flat, folded or none; a least percentage and a most number of branches; caller or callee first; function or address; percent, period or count
    #[arg(short = 'g', long, value_name = "STYLE[,PERCENT[,NUMBER]][,ORDER][,KEY][,VALUE]", num_args = 0..=1, default_missing_value = "graph,caller")]
    call_graph: Option<String>,
    /// Call trees with the outermost caller first
    #[arg(short = 'G', long)]
    inverted: bool,
    /// Take only so many frames of a callchain, from where the sample was
    #[arg(long, value_name = "NUMBER", default_value_t = perfuse_profile::Plan::MAX_STACK)]
    max_stack: usize,
    /// Show functions that were inlined into others in callchains (default)
    #[arg(long, hide = true, overrides_with = "no_inline")]
    inline: bool,
    /// Do not look for functions that were inlined into others
    #[arg(long, overrides_with = "inline")]
    no_inline: bool,
    /// Leave out entries below this many percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    percent_limit: f64,
    /// Base of percentages: all samples, or relative to those that filters leave
    #[arg(long, value_name = "HOW", default_value = "absolute", value_parser = ["absolute", "relative"])]
    percentage: String,
    /// The steps of the key time: milliseconds, or with a unit (s, ms, us, ns)
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = quantum)]
    time_quantum: u64,
    /// Between columns, without padding
    #[arg(short = 't', long, value_name = "TEXT")]
    field_separator: Option<String>,
    /// Widths of columns, 4096 at most; 0 is as wide as needed
    #[arg(short = 'w', long, value_name = "WIDTH,...", value_delimiter = ',', value_parser = column_width)]
    column_widths: Vec<usize>,
    /// No lines that begin with #
    #[arg(short, long)]
    quiet: bool,
    /// Look around on the terminal, which is the default there: functions, callers and callees, call tree, flame graph, code, threads over time; ? there has the keys
    #[arg(long, conflicts_with_all = ["json", "html", "dump_raw_trace", "stats", "tasks", "mmaps", "stdio"])]
    tui: bool,
    #[command(flatten)]
    text: style::Text,
    #[command(flatten)]
    paging: Paging,
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
    /// Show only the records, each with its contents
    #[arg(short = 'D', long)]
    dump_raw_trace: bool,
    /// Names as they are in the files
    #[arg(long)]
    no_demangle: bool,
    /// Call source files by their whole paths
    #[arg(long)]
    full_source_path: bool,
    #[command(flatten)]
    unsupported: Unsupported<OfReport>,
    /// Write one JSON object (schema perfuse.report/1) in place of text
    #[arg(long, conflicts_with_all = ["dump_raw_trace", "stats", "tasks", "mmaps", "header", "header_only", "show_cpu_utilization"])]
    json: bool,
    /// Write one page of HTML in place of text: flame graphs, functions, call trees, a timeline; - is standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "dump_raw_trace", "stats", "tasks", "mmaps", "header", "header_only",
        "show_info", "sort", "fields", "branch_stack", "mem_mode", "group", "no_group", "hierarchy", "parent",
        "exclude_other", "ignore_callees", "raw_trace", "ns", "show_nr_samples", "show_total_period", "show_cpu_utilization",
        "children", "no_children", "call_graph", "inverted", "percent_limit", "percentage", "time_quantum", "field_separator", "column_widths"])]
    html: Option<PathBuf>,
    /// Of --html: neither source lines nor their text
    #[arg(long, requires = "html")]
    no_source: bool,
}

impl Args {
    /// The filters of functions and objects, as options of a command line.
    fn filters_of_functions(&self) -> Vec<String> {
        let mut words = self.functions.words();
        words.extend(self.exclude_other.then(|| "-x".to_owned()));
        words
    }

    /// The sentence for tables that filters leave without a line, though there are samples.
    fn none_left(&self, tables: &[&Shown<'_>]) -> Option<String> {
        let words = [self.filter.words_of_tasks(), self.filters_of_functions()].concat();
        let samples: u64 = tables.iter().map(|shown| shown.view.event.samples).sum();
        let is_empty = tables.iter().all(|shown| shown.all.is_empty());
        (is_empty && samples > 0 && !words.is_empty())
            .then(|| format!("none of {} samples passes {}", grouped(samples), words.join(" ")))
    }
}

/// A recording that was read: its profile, the names in it, and all that its events have in common.
struct Read {
    events: Vec<Event>,
    /// Events that are shown together, each by its first and how many there are.
    groups: Vec<EventGroup>,
    names: Vec<String>,
    profile: Profile,
    frames: Frames,
    passed: Passed,
    lost: u64,
    origin: Origin,
    symbols: LocalSymbols,
    /// How the stacks that were unwound have ended.
    ends: Vec<(End, u64)>,
}

/// The part of an event's view that is shown.
struct Shown<'s> {
    name: &'s str,
    event: &'s Event,
    samples: u64,
    /// All that percentages are of.
    whole: u64,
    /// The same of latencies.
    latency: u64,
    view: &'s View<'s>,
    /// Makes the call trees, if any are shown.
    trees: Option<Trees<'s>>,
    /// In order, without those below the limit.
    entries: Vec<&'s Entry>,
    all: Vec<&'s Entry>,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result {
    if let Some(to) = &args.html {
        return page(args, to);
    }
    if screen::is_wanted(args)? {
        return screen::look_around(args);
    }
    pages::paged(args.paging, args.text.is_coloured(), |out| show(out, args))
}

fn show(mut out: impl Write, args: &Args) -> Result {
    args.header.print(&mut out, &args.input)?;
    if args.header.header_only {
        // Nothing else was asked for.
    } else if args.dump_raw_trace {
        recording::dump(&mut out, &args.input, true)?;
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

/// Writes the page of `--html`.
fn page(args: &Args, to: &Path) -> Result {
    export::refuse_terminal(to, "a page is no text for a terminal; a file is named by --html report.html")?;
    let (mut read, plan) = read(args)?;
    args.functions.apply(&mut read.profile, &read.frames);
    let samples: u64 = read.profile.samples().iter().map(|row| row.samples).sum();
    if samples == 0 {
        let why = read.none_left(args, &plan).unwrap_or_else(|| "there are no samples to show".to_owned());
        return Err(Failure::new(format_args!("{}: {why}", args.input.name())));
    }
    let page = Page::new(&args.input.name(), &read.profile, &read.frames).of(&read.origin);
    let filters = [args.filter.words(), args.filters_of_functions()].concat().join(" ");
    let filters = (!filters.is_empty()).then(|| ("only samples of".to_owned(), filters));
    let page = page.with_facts(recording::header::written(&args.input)).with_facts(filters);
    let page = page.with_facts(read.deepest(args.max_stack)).with_facts(stacks::facts(&read.ends));
    let page = page.with_lost(read.lost);
    let sources = Sources::new().sealed(&read.symbols);
    export::write_to(to, samples, |out| match args.no_source {
        true => page.write(out),
        false => page.write_with_sources(&sources, out),
    })
}

/// Says of tables under which no line stands why that is.
fn tell_none_left(out: &mut impl Write, args: &Args, tables: &[&Shown<'_>]) -> Result<()> {
    match args.none_left(tables) {
        Some(none) if args.quiet => say(none),
        Some(none) => writeln!(out, "# {none}")?,
        None => {}
    }
    Ok(())
}

/// The same of entries that are below the limit.
fn tell_few(out: &mut impl Write, args: &Args, shown: usize, all: usize) -> Result<()> {
    if shown < all && !args.quiet {
        let limit = args.percent_limit;
        writeln!(out, "# {shown} of {all} entries shown; the others are below {limit} %")?;
    }
    Ok(())
}

fn print(out: &mut impl Write, args: &Args) -> Result<()> {
    let (read, plan) = read(args)?;
    if args.json {
        read.none_left(args, &plan).into_iter().for_each(say);
        return json::print(out, args, &plan, &read);
    }
    if !args.quiet {
        text::head(out, args, &plan, read.lost)?;
    }
    let mut is_empty = true;
    for group in &read.groups {
        let members = group.members();
        if !members.clone().any(|index| read.samples_of(index) > 0) {
            continue;
        }
        is_empty = false;
        let views: Vec<View<'_>> = members.clone().map(|index| read.view(args, &plan, index)).collect();
        let shown = members.zip(&views).map(|(index, view)| Shown::new(args, &plan, &read, index, view));
        let shown: Vec<Shown<'_>> = shown.collect();
        match &shown[..] {
            all if args.hierarchy => hierarchy::print(out, args, &plan, all, group)?,
            [shown] => text::print(out, args, &plan, shown)?,
            all => groups::print(out, args, &plan, all, group)?,
        }
    }
    let none = read.none_pass(args);
    if args.quiet {
        none.into_iter().for_each(say);
        return Ok(());
    }
    match none {
        Some(none) => writeln!(out, "# {none}")?,
        None if is_empty => writeln!(out, "# The recording has no samples.")?,
        None => {}
    }
    text::missing(out, &read.frames)
}

/// The machine of the recording, as far as a report depends on it.
struct Machine {
    name: String,
    /// The socket of each cpu.
    sockets: Vec<u32>,
    /// How many cpus there were; 0 if that was not recorded.
    cpus: usize,
}

impl Machine {
    fn of(data: &mut PerfData<'_>) -> Self {
        let cpus = match recording::feature(data, FeatureId::NRCPUS) {
            Some(Feature::NrCpus(cpus)) => cpus.available as usize,
            _ => 0,
        };
        Machine { name: describe::machine(data), sockets: facts::sockets(data), cpus }
    }
}

/// Takes samples in, once the keys that tell them apart are known.
struct Collecting {
    plan: Plan,
    symbols: LocalSymbols,
    reading: Reading,
}

impl Collecting {
    fn new(args: &Args, recorded: &Recorded<'_>, machine: &Machine, symbols: &LocalSymbols) -> Result<Self> {
        let plan = Plan::new(args, recorded)?;
        let symbols = symbols.clone().with_debug_info(
            has_inlined(args, &plan),
            plan.graph.by_address || plan.tells_lines() || has_source(args),
        );
        let texts = TracepointTexts::new(&plan.keys, &plan.given, args.raw_trace);
        let collected = collect_plan(args, &plan, &machine.sockets, &symbols);
        let unwinder = collected.chains.then(|| Unwinder::new(symbols.symbolizer().clone(), &machine.name));
        let mut reading = Reading::new(collected)
            .of(plan.mode)
            .with_texts(texts, Lookup::new(symbols.clone(), !args.no_demangle));
        if let Some(unwinder) = unwinder {
            reading = reading.unwinding(unwinder.with_most(args.max_stack));
        }
        if plan.counts_threads {
            reading = reading.counting(Running::new(machine.cpus));
        }
        Ok(Collecting { plan, symbols, reading })
    }
}

/// Hears of a reading while it goes on.
trait Watch {
    /// The report that it becomes is known.
    fn begins(&mut self, _plan: &Plan) {}

    /// It came to a place in the file; whether it is to go on.
    fn at(&mut self, offset: u64) -> ControlFlow<()>;

    /// All records have been read; names are looked up.
    fn looks_up(&mut self) {}

    /// All is known.
    fn ends(&mut self) {}
}

impl Watch for Progress {
    #[inline]
    fn at(&mut self, offset: u64) -> ControlFlow<()> {
        self.at(offset);
        ControlFlow::Continue(())
    }

    fn looks_up(&mut self) {
        self.says("looking up names");
    }

    fn ends(&mut self) {
        self.finish();
    }
}

/// Reads all samples.
fn read(args: &Args) -> Result<(Read, Plan)> {
    read_watched(args, &mut Progress::new(args.input.path()))
}

/// The same, or as much as `watch` wants to be read.
fn read_watched(args: &Args, watch: &mut impl Watch) -> Result<(Read, Plan)> {
    let (mut data, local) = args.input.open_or_import(args.symbol_files.symbols(args.input.force))?;
    let mut collecting: Option<Collecting> = None;
    let mut lost = Lost::default();
    let machine = Machine::of(&mut data);
    let mut wanted = Admitted::new(args.filter.of(&mut data, &args.input)?, &local);
    let replay = Replay::new(data);
    // The events of a file are known from the start, those of a pipe at the first sample.
    let events: Vec<Event> = replay.data().events().iter().cloned().collect();
    if !events.is_empty() {
        let recorded = Recorded { events: &events, formats: replay.formats() };
        let made = Collecting::new(args, &recorded, &machine, &local)?;
        watch.begins(&made.plan);
        collecting = Some(made);
    }
    let is_socket = |cpu: Option<u32>| {
        let socket = cpu.and_then(|cpu| machine.sockets.get(cpu as usize));
        args.socket_filter.is_none_or(|only| socket == Some(&only))
    };
    let mut passed = Passed::default();
    let replay = recording::replay_until(replay, |step| {
        if watch.at(step.entry.location.offset).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        lost.add(step);
        args.unsupported.heed(step)?;
        if let Some(sample) = step.sample() {
            let cpu = sample.cpu.map(|cpu| cpu.cpu);
            let passes = is_socket(cpu) && wanted.admits(step, sample)?;
            passed.count(sample, passes);
            if !passes {
                return Ok(ControlFlow::Continue(()));
            }
            if collecting.is_none() {
                let events: Vec<Event> = step.entry.events().iter().cloned().collect();
                let recorded = Recorded { events: &events, formats: step.formats };
                let made = Collecting::new(args, &recorded, &machine, &local)?;
                watch.begins(&made.plan);
                collecting = Some(made);
            }
        }
        if let Some(collecting) = &mut collecting {
            collecting.reading.step(step);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let Collecting { plan, symbols, reading } = match collecting {
        Some(collecting) => collecting,
        None => {
            Collecting::new(args, &Recorded { events: &[], formats: &Formats::default() }, &machine, &local)?
        }
    };
    reading.unwinder().into_iter().for_each(stacks::say);
    let ends = reading.unwinder().into_iter().flat_map(Unwinder::ends).collect();
    let (mut data, session) = replay.into_parts();
    let events: Vec<Event> = data.events().iter().cloned().collect();
    let grouping = match (args.no_group, args.group) {
        (true, _) => Grouping::Apart,
        (false, true) => Grouping::Together,
        (false, false) => Grouping::Recorded,
    };
    let groups = EventGroup::of(&mut data, grouping, groups::MOST);
    let names = events.iter().map(Event::display_name).collect();
    let origin = Origin::read(&mut data);
    let profile = reading.finish(&session);
    watch.looks_up();
    let frames = frames(args, &plan, &profile, &symbols);
    watch.ends();
    let lost = lost.total();
    Ok((Read { events, groups, names, profile, frames, passed, lost, origin, symbols, ends }, plan))
}

/// The frames of a profile, with their names.
fn frames(args: &Args, plan: &Plan, profile: &Profile, symbols: &LocalSymbols) -> Frames {
    let functions = Names::new(profile, symbols).mangled(args.no_demangle);
    functions.look_up_all();
    Frames::new(&functions, plan.is_by_address() || has_source(args)).with_full_paths(args.full_source_path)
}

/// The profile that the recording became when it was read before, with the names of now.
fn read_kept(args: &Args, kept: &KeptProfile) -> Result<Option<(Profile, Frames)>> {
    let Some(profile) = kept.read() else { return Ok(None) };
    let (mut data, local) = args.input.open_or_import(args.symbol_files.symbols(args.input.force))?;
    let machine = Machine::of(&mut data);
    let replay = Replay::new(data);
    let events: Vec<Event> = replay.data().events().iter().cloned().collect();
    let recorded = Recorded { events: &events, formats: replay.formats() };
    let Collecting { plan, symbols, .. } = Collecting::new(args, &recorded, &machine, &local)?;
    let frames = frames(args, &plan, &profile, &symbols);
    Ok(Some((profile, frames)))
}

impl Read {
    /// How many samples have as many callers as are taken, as a fact to tell.
    fn deepest(&self, most: usize) -> Option<(String, String)> {
        let is_deep = |row: &&SampleRow| self.profile.stack(row.stack).take(most).count() == most;
        let samples: u64 = self.profile.samples().iter().filter(is_deep).map(|row| row.samples).sum();
        let told =
            format!("{samples} samples have {most} frames or more; the outermost beyond these are left out");
        (samples > 0).then(|| ("deep stacks".to_owned(), told))
    }

    fn samples_of(&self, index: usize) -> u64 {
        self.profile.event(index).samples
    }

    /// The sentence for a recording with samples of which none passes the filters of times and cpus.
    fn none_pass(&self, args: &Args) -> Option<String> {
        let socket = args.socket_filter.map(|socket| format!("--socket-filter {socket}"));
        let others: Vec<String> = socket.into_iter().chain(args.filters_of_functions()).collect();
        self.passed.none(&args.filter, &others)
    }

    /// The same of all filters.
    fn none_left(&self, args: &Args, plan: &Plan) -> Option<String> {
        let views: Vec<View<'_>> = (0..self.events.len()).map(|index| self.view(args, plan, index)).collect();
        let tables = views.iter().enumerate().map(|(index, view)| Shown::new(args, plan, self, index, view));
        let tables: Vec<Shown<'_>> = tables.collect();
        self.none_pass(args).or_else(|| args.none_left(&tables.iter().collect::<Vec<_>>()))
    }

    fn view(&self, args: &Args, plan: &Plan, index: usize) -> View<'_> {
        View::new(&self.profile, &self.frames, index, &view_plan(args, plan))
    }
}

/// No column is wider: all of it is written in each line.
const WIDEST: usize = 4096;

fn column_width(text: &str) -> std::result::Result<usize, String> {
    let width = text.parse().ok().filter(|&width| width <= WIDEST);
    width.ok_or_else(|| format!("a number of columns, {WIDEST} at most"))
}

/// `--time-quantum`, in nanoseconds.
fn quantum(text: &str) -> std::result::Result<u64, String> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "" | "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "us" => 1000,
        "ns" => 1,
        unit => return Err(format!("'{unit}' is none of s, ms, us, ns")),
    };
    let number = number.parse::<u64>().ok().filter(|&number| number > 0);
    number.and_then(|number| number.checked_mul(unit)).ok_or_else(|| "a time such as 10ms".to_owned())
}

/// Whether functions that were inlined are shown.
fn has_inlined(args: &Args, plan: &Plan) -> bool {
    let has_chains = plan.children || plan.graph.style != Style::None || args.html.is_some();
    has_chains && !args.no_inline
}

/// Whether source lines are in a page.
fn has_source(args: &Args) -> bool {
    args.html.is_some() && !args.no_source
}

/// The parts of samples that the profile has to collect for a report.
fn collect_plan(args: &Args, plan: &Plan, sockets: &[u32], symbols: &LocalSymbols) -> perfuse_profile::Plan {
    let mut collected = perfuse_profile::Plan::new(&plan.keys);
    let has_parent = plan.keys.contains(&Key::Parent);
    collected.chains = plan.children || plan.graph.style != Style::None || has_parent || args.html.is_some();
    collected.max_stack = args.max_stack;
    collected.time_step_ns = args.time_quantum;
    collected.times = args.html.is_some() || screen::is_on(args);
    if screen::is_on(args) {
        // The threads and cpus of the page of time.
        let more = [Key::Pid, Key::Cpu].into_iter().filter(|key| !plan.keys.contains(key));
        collected.keys.extend(more);
    }
    collected.sockets = sockets.to_vec();
    collected.code = Some(symbols.symbolizer().clone());
    (collected.by_function, collected.inlined) =
        (!plan.is_by_address(), has_inlined(args, plan) || has_source(args));
    collected.tasks.comms.clone_from(&args.filter.comm);
    collected.tasks.pids.clone_from(&args.filter.pid);
    collected.tasks.tids.clone_from(&args.filter.tid);
    collected.tasks.parallelism = args.parallelism.as_ref().map_or_else(Vec::new, |list| list.0.clone());
    if plan.tells_latency() && !collected.keys.contains(&Key::Parallelism) {
        collected.keys.push(Key::Parallelism);
    }
    // A branch is judged by where its sample was.
    if plan.mode == Mode::Branches
        && !view_plan(args, plan).filter.admits_all()
        && !collected.keys.contains(&Key::SymbolIaddr)
    {
        collected.keys.push(Key::SymbolIaddr);
    }
    collected
}

/// How the entries of a report are made.
fn view_plan(args: &Args, plan: &Plan) -> ViewPlan {
    let mut view = ViewPlan::new(&plan.keys);
    view.order = plan.order();
    view.ns = args.ns;
    view.latency = plan.tells_latency();
    view.of_branches = plan.mode == Mode::Branches;
    if plan.keys.contains(&Key::Parent) {
        let regex = args.parent.clone().or_else(|| regex_lite::Regex::new("^sys_|^do_page_fault").ok());
        view.parent = regex.map(|regex| NameTest::new(move |name| regex.is_match(name)));
    }
    let callees = args.ignore_callees.clone();
    view.ignore_callees = callees.map(|regex| NameTest::new(move |name| regex.is_match(name)));
    view.filter = args.functions.filter();
    view
}

impl<'s> Shown<'s> {
    fn new(args: &Args, plan: &Plan, read: &'s Read, index: usize, view: &'s View<'s>) -> Self {
        let name = read.names[index].as_str();
        let is_relative = args.percentage == "relative";
        let (samples, whole, latency) = match is_relative {
            true => {
                let mut sum = Entry::default();
                view.entries.iter().for_each(|entry| sum.add(entry));
                (sum.self_samples, sum.self_weight, sum.latency.0)
            }
            false => {
                let latency = if plan.tells_latency() { view.whole_latency() } else { 0 };
                (view.event.samples, view.event.weight, latency)
            }
        };
        let has_name = |entry: &&Entry| {
            let symbol = view.frames.get(entry.frame).symbol.as_deref().unwrap_or("");
            args.functions.symbol_filter.as_ref().is_none_or(|part| symbol.contains(part.as_str()))
        };
        let has_parent = |entry: &&Entry| {
            !args.exclude_other
                || !plan.keys.contains(&Key::Parent)
                || view.text(entry, Key::Parent) != "[other]"
        };
        let is_shown = |entry: &&Entry| (plan.children || entry.self_samples > 0) && has_parent(entry);
        let mut all: Vec<&Entry> = view.entries.iter().filter(is_shown).filter(has_name).collect();
        let trees = (plan.graph.style != Style::None).then(|| plan.order());
        view.sort(&mut all, &plan.sort, trees);
        let event = &read.events[index];
        // An event may be recorded without what others have: -e instructions/call-graph=no/.
        let has_chains = event.attr.sample_type.contains(SampleType::CALLCHAIN);
        let trees = trees.filter(|_| has_chains).map(|_| tree::trees(plan, whole, view));
        let mut shown = Shown { name, event, samples, whole, latency, view, trees, entries: Vec::new(), all };
        let of = shown.whole_of(plan.rank).max(1) as f64;
        let is_enough = |entry: &&Entry| plan.rank(entry) as f64 * 100.0 / of >= args.percent_limit;
        shown.entries = shown.all.iter().copied().filter(is_enough).collect();
        shown
    }

    /// All that the percentages of a column are of.
    fn whole_of(&self, column: Column) -> u64 {
        if column.is_of_latency() { self.latency } else { self.whole }
    }
}
