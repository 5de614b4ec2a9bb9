//! The options of a report as the command line has them, made into what they amount to.

use super::Args;
use crate::exit::{Failure, Result};
use perfuse_abi::{AttrFlags, BranchSampleType, EventType, SampleType};
use perfuse_data::Event;
use perfuse_data::replay::Formats;
use perfuse_profile::{Column, Entry, FieldKey, Key, Mode, Order, field_keys};

/// How call trees are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Percentages of everything.
    Graph,
    /// Percentages of the branch above.
    Fractal,
    /// Each callchain by itself.
    Flat,
    /// A line for each callchain.
    Folded,
    /// Not at all.
    None,
}

/// The number at the branches of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Percent,
    Period,
    Count,
}

/// The call graph that `-g` asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallGraph {
    pub(super) style: Style,
    pub(super) least_percent: f64,
    /// The most branches of a fork.
    pub(super) most: usize,
    pub(super) caller_first: bool,
    /// Frames are told apart by address, not by function.
    pub(super) by_address: bool,
    pub(super) value: Value,
}

/// Numbers of threads.
#[derive(Clone, Debug)]
pub(super) struct Numbers(pub(super) Vec<u32>);

pub(super) fn numbers(text: &str) -> std::result::Result<Numbers, String> {
    let numbers = perfuse::parse_cpu_list(text).filter(|numbers| !numbers.contains(&0));
    numbers.map(Numbers).ok_or_else(|| format!("'{text}': numbers of threads such as 1 or 1-2,8"))
}

/// A list of names on the command line; one that begins with `+` adds to what there is.
#[derive(Clone, Debug)]
pub(super) struct List<T> {
    pub(super) adds: bool,
    pub(super) items: Vec<T>,
    /// The items that braces join to the one before, in one level of a hierarchy.
    joined: Vec<T>,
}

pub(super) fn list_of_names(text: &str) -> std::result::Result<List<String>, String> {
    let (adds, text) = text.strip_prefix('+').map_or((false, text), |rest| (true, rest));
    let (mut items, mut joined) = (Vec::new(), Vec::new());
    for (index, part) in text.split(['{', '}']).enumerate() {
        let names = part.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
        let first = items.len();
        items.extend(names);
        // Every other part is inside of braces.
        if index % 2 == 1 {
            joined.extend(items.iter().skip(first + 1).cloned());
        }
    }
    if items.is_empty() { Err("names nothing".into()) } else { Ok(List { adds, items, joined }) }
}

fn unknown(name: &str) -> Failure {
    let reason = match name {
        "type" | "typeoff" | "typecln" => "types of data are not read from debug information yet",
        "ipc_lbr" | "ipc_null" => "needs the instructions between branches, which are not read",
        _ => "",
    };
    if !reason.is_empty() {
        return Failure::usage(format_args!("'{name}': {reason}"));
    }
    let near = perfuse_events::nearest(name, Column::names());
    let hint = match near.is_empty() {
        true => String::new(),
        false => format!("; did you mean {}?", near.join(" or ")),
    };
    Failure::usage(format_args!(
        "'{name}' is nothing that a report can show{hint}\n  there are overhead, comm, dso, symbol, srcline, pid, tid, cpu, \
         time, and fields of recorded tracepoints; perfuse report --help has all"
    ))
}

/// The parts of a recording that decide what a report shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recorded<'r> {
    pub(super) events: &'r [Event],
    pub(super) formats: &'r Formats,
}

impl Recorded<'_> {
    fn any_has(&self, fields: SampleType) -> bool {
        self.events.iter().any(|event| event.attr.sample_type.contains(fields))
    }

    fn has_chains(&self) -> bool {
        self.any_has(SampleType::CALLCHAIN)
    }

    /// Branches that are not the processor's way to tell callchains.
    fn has_branches(&self) -> bool {
        let calls = |event: &Event| event.attr.branch_sample_type.contains(BranchSampleType::CALL_STACK);
        self.any_has(SampleType::BRANCH_STACK) && !self.events.iter().any(calls)
    }

    /// Whether the switches of threads were recorded.
    fn has_switches(&self) -> bool {
        let has_switches = |event: &Event| event.attr.flags.contains(AttrFlags::CONTEXT_SWITCH);
        self.events.is_empty() || self.events.iter().any(has_switches)
    }

    fn is_traced(&self) -> bool {
        let is_traced = |event: &Event| event.attr.type_ == EventType::TRACEPOINT;
        !self.events.is_empty() && self.events.iter().all(is_traced)
    }
}

/// The part of samples that a report is of.
fn mode(args: &Args, recorded: &Recorded<'_>) -> Result<Mode> {
    let has_branches = recorded.has_branches();
    if args.mem_mode {
        if args.branch_stack {
            return Err(Failure::usage("branches and accesses to memory are two reports: -b or --mem-mode"));
        }
        if !recorded.events.is_empty() && !recorded.any_has(SampleType::DATA_SRC) {
            let hint = "it was recorded without -d";
            return Err(Failure::new(format_args!("{} tells of no data: {hint}", args.input.name())));
        }
        return Ok(Mode::Memory);
    }
    if args.branch_stack && !has_branches && !recorded.events.is_empty() {
        let hint = "it was recorded without -b";
        return Err(Failure::new(format_args!("{} has no branches: {hint}", args.input.name())));
    }
    let is_wanted = args.branch_stack || has_branches && !args.no_branch_stack && args.html.is_none();
    Ok(if is_wanted { Mode::Branches } else { Mode::Samples })
}

/// The report that the options ask for.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) mode: Mode,
    /// Fields of tracepoints that are keys, by number; the text of tracepoints comes before them.
    pub(super) given: Vec<FieldKey>,
    /// The keys as they were named, for accesses to memory.
    pub(super) order_names: String,
    /// Entries that differ in one of these are apart.
    pub(super) keys: Vec<Key>,
    /// The keys of each level of a hierarchy.
    pub(super) levels: Vec<Vec<Key>>,
    pub(super) columns: Vec<Column>,
    /// Entries are sorted by these.
    pub(super) sort: Vec<Column>,
    pub(super) children: bool,
    pub(super) graph: CallGraph,
    /// The share of a function alone is titled so, beside its share with what it calls.
    pub(super) says_self: bool,
    /// The first frame of a tree is left out where it is the entry itself.
    pub(super) skips_first: bool,
    /// By this share entries are limited, and sorted in a hierarchy.
    pub(super) rank: Column,
    /// Whether it matters how many threads ran.
    pub(super) counts_threads: bool,
}

/// The keys of accesses to memory.
const OF_MEMORY: &str =
    "local_weight,mem,sym,dso,symbol_daddr,dso_daddr,snoop,tlb,locked,blocked,local_ins_lat";

impl Plan {
    /// Whether addresses are told, not functions alone.
    pub(super) fn is_by_address(&self) -> bool {
        self.graph.by_address || self.tells_lines() || self.keys.iter().any(|key| key.is_of_address())
    }

    /// Whether the latency is told beside the event.
    pub(super) fn tells_latency(&self) -> bool {
        self.columns.iter().any(|column| column.is_of_latency())
    }

    /// The rank of an entry among others.
    pub(super) fn rank(&self, entry: &Entry) -> u64 {
        match self.rank {
            Column::Total => entry.total_weight,
            Column::Latency => entry.latency.0,
            Column::LatencyTotal => entry.latency.1,
            _ => entry.self_weight,
        }
    }

    pub(super) fn new(args: &Args, recorded: &Recorded<'_>) -> Result<Self> {
        let mode = mode(args, recorded)?;
        let has_chains = recorded.has_chains() && mode != Mode::Branches;
        let children = has_chains && !args.no_children && !args.hierarchy && mode == Mode::Samples;
        // Trees begin with the outermost caller also where totals would be shown, but for the kind of table.
        let graph = call_graph(args, has_chains, has_chains && !args.no_children)?;
        // Shares with what functions call come before those without. The one that decides is the first of either.
        let ranks = match args.latency {
            true => vec![Column::LatencyTotal, Column::Total, Column::Latency, Column::Own],
            false => vec![Column::Total, Column::Own],
        };
        let shares = {
            let mut shares = ranks.clone();
            if args.show_cpu_utilization {
                shares.extend([Column::OwnKernel, Column::OwnUser]);
            }
            shares.extend(args.show_nr_samples.then_some(Column::Samples));
            shares.extend(args.show_total_period.then_some(Column::Period));
            shares
        };
        let mut given = Vec::new();
        // Options that the configuration sets stand for tables, and a page has its own.
        let is_page = args.html.is_some();
        let default_names = match mode {
            _ if is_page => "comm,pid,cpu",
            Mode::Branches => "comm,dso_from,symbol_from,symbol_to,cycles",
            Mode::Memory => OF_MEMORY,
            Mode::Samples if recorded.is_traced() && args.raw_trace => "trace_fields",
            Mode::Samples if recorded.is_traced() => "trace",
            Mode::Samples => "comm,dso,symbol",
        };
        let mut columns_of = |names: &[String]| -> Result<Vec<Column>> {
            let mut columns = Vec::new();
            for name in names {
                if let Some(column) = Column::named(name) {
                    columns.push(column);
                    continue;
                }
                let found = field_keys(name, recorded.events, recorded.formats, args.raw_trace);
                if found.is_empty() {
                    match Column::shortened(name) {
                        Some(column) => columns.push(column),
                        None if !recorded.events.is_empty() => return Err(unknown(name)),
                        None => {}
                    }
                }
                for field in found {
                    given.push(field);
                    columns.push(Column::Key(Key::Given(u16::try_from(given.len()).unwrap_or(u16::MAX))));
                }
            }
            Ok(columns)
        };
        let default_names: Vec<String> = default_names.split(',').map(str::to_owned).collect();
        let sort_names = match args.sort.as_ref().filter(|_| !is_page) {
            None => None,
            Some(list) if list.adds => Some([&default_names[..], &list.items].concat()),
            Some(list) => Some(list.items.clone()),
        };
        let fields = args
            .fields
            .as_ref()
            .filter(|_| !is_page)
            .map(|list| columns_of(&list.items))
            .transpose()?
            .unwrap_or_default();
        let is_strict = args.fields.as_ref().is_some_and(|list| !list.adds);
        let order_names = sort_names.as_ref().unwrap_or(&default_names).join(",");
        let braced = args.sort.as_ref().map_or(&[][..], |list| &list.joined);
        let (mut joined, mut sort) = (Vec::new(), None);
        for name in sort_names.iter().flatten() {
            let columns = columns_of(std::slice::from_ref(name))?;
            joined.extend(columns.iter().filter(|_| braced.contains(name)));
            sort.get_or_insert_with(Vec::new).extend(columns);
        }
        let (mut columns, mut order) = match (is_strict, sort) {
            (true, sort) => (fields, sort.unwrap_or_default()),
            (false, sort) => {
                // Shares come first, unless where they come is told.
                let sort = match sort {
                    Some(sort) => sort,
                    None => columns_of(&default_names)?,
                };
                let mut columns = shares;
                let mut order: Vec<Column> =
                    ranks.iter().copied().filter(|rank| !sort.contains(rank)).collect();
                // A latency among the keys takes the place of the share.
                if !args.latency && sort.iter().any(|column| column.is_of_latency()) {
                    order.clear();
                    columns.retain(|column| !ranks.contains(column));
                    columns.extend(sort.iter().copied().filter(|column| column.is_of_latency()));
                }
                order.extend(sort);
                columns.extend(fields);
                (columns, order)
            }
        };
        if args.parent.is_some() && !order.contains(&Column::Key(Key::Parent)) {
            order.push(Column::Key(Key::Parent));
        }
        columns.extend(order.clone());
        order.extend(columns.clone());
        if !children {
            let is_kept = |column: &Column| !matches!(column, Column::Total | Column::LatencyTotal);
            columns.retain(is_kept);
            order.retain(is_kept);
        }
        let (columns, order) = (without_repetition(columns), without_repetition(order));
        let keys: Vec<Key> = order.iter().filter_map(|column| column.key()).collect();
        let mut levels: Vec<Vec<Key>> = Vec::new();
        for &column in &columns {
            let Some(key) = column.key() else { continue };
            match levels.last_mut().filter(|_| joined.contains(&column)) {
                Some(level) => level.push(key),
                None => levels.push(vec![key]),
            }
        }
        let counts_threads = keys.contains(&Key::Parallelism)
            || args.parallelism.is_some()
            || columns.iter().any(|column| column.is_of_latency());
        if counts_threads && !recorded.has_switches() {
            let hint = "it was recorded without --latency";
            return Err(Failure::new(format_args!(
                "{} does not tell how many threads ran: {hint}",
                args.input.name()
            )));
        }
        let by_latency = columns.iter().find(|column| !matches!(column, Column::Key(_)));
        let rank = match by_latency.filter(|column| column.is_of_latency()) {
            Some(&latency) => latency,
            None if children => Column::Total,
            None => Column::Own,
        };
        if let Some(key) = keys.iter().find(|key| key.is_of_branch()).filter(|_| mode != Mode::Branches) {
            let hint = if recorded.has_branches() { "with -b" } else { "recorded with -b" };
            return Err(Failure::usage(format_args!("{} is of branches: {hint}", key.name())));
        }
        let says_self = children && !is_strict;
        let starts_with_symbol = args.sort.as_ref().and_then(|list| list.items.first());
        let skips_first = starts_with_symbol.is_some_and(|name| Key::named(name) == Some(Key::Symbol))
            && args.fields.is_none()
            && args.sort.as_ref().is_some_and(|list| !list.adds);
        Ok(Plan {
            mode,
            given,
            order_names,
            keys,
            levels,
            columns,
            sort: order,
            children,
            graph,
            says_self,
            skips_first,
            rank,
            counts_threads,
        })
    }

    /// The name of a key in lists.
    pub(super) fn name_of(&self, key: Key) -> &str {
        self.given_of(key).map_or(key.name(), |given| given.name.as_str())
    }

    /// The field that a key is, if it is one.
    pub(super) fn given_of(&self, key: Key) -> Option<&FieldKey> {
        match key {
            Key::Given(number) => self.given.get(usize::from(number.checked_sub(1)?)),
            _ => None,
        }
    }

    /// Whether source lines are shown.
    pub(super) fn tells_lines(&self) -> bool {
        self.keys.iter().any(|key| key.is_of_line())
    }

    /// How call trees are read.
    pub(super) fn order(&self) -> Order {
        Order::new(self.graph.caller_first, self.children)
    }
}

fn without_repetition(columns: Vec<Column>) -> Vec<Column> {
    let mut list = Vec::with_capacity(columns.len());
    for column in columns {
        if !list.contains(&column) {
            list.push(column);
        }
    }
    list
}

fn call_graph(args: &Args, has_chains: bool, children: bool) -> Result<CallGraph> {
    let mut graph = CallGraph {
        style: Style::Graph,
        least_percent: if args.percent_limit > 0.0 { args.percent_limit } else { 0.5 },
        most: usize::MAX,
        caller_first: children,
        by_address: false,
        value: Value::Percent,
    };
    let mut has_percent = false;
    for word in args.call_graph.iter().flat_map(|text| text.split(',')).filter(|word| !word.is_empty()) {
        match word {
            "graph" => graph.style = Style::Graph,
            "fractal" => graph.style = Style::Fractal,
            "flat" => graph.style = Style::Flat,
            "folded" => graph.style = Style::Folded,
            "none" => graph.style = Style::None,
            "caller" => graph.caller_first = true,
            "callee" => graph.caller_first = false,
            "function" => graph.by_address = false,
            "address" => graph.by_address = args.html.is_none(),
            "percent" => graph.value = Value::Percent,
            "period" => graph.value = Value::Period,
            "count" => graph.value = Value::Count,
            number => match (has_percent, number.parse::<f64>()) {
                (false, Ok(percent)) => (graph.least_percent, has_percent) = (percent, true),
                (true, Ok(most)) => graph.most = if most >= 1.0 { most as usize } else { usize::MAX },
                (_, Err(_)) => {
                    let known = "graph, fractal, flat, folded, none, caller, callee, function, address, percent, period, count, a percentage or a number of branches";
                    return Err(Failure::usage(format_args!("-g '{number}': not one of {known}")));
                }
            },
        }
    }
    if args.inverted {
        graph.caller_first = true;
    }
    if !has_chains {
        if args.call_graph.as_deref().is_some_and(|text| text != "none") {
            let hint = "it was recorded without -g";
            return Err(Failure::new(format_args!("{} has no callchains: {hint}", args.input.name())));
        }
        graph.style = Style::None;
    }
    Ok(graph)
}
