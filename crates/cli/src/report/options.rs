//! The options of a report as the command line has them, made into what they amount to.

use super::Args;
use crate::exit::{Failure, Result};
use perfuse_profile::{Column, Key};

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

/// What stands at the branches of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Percent,
    Period,
    Count,
}

/// What `-g` asks for.
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

/// A list of names on the command line; one that begins with `+` adds to what there is.
#[derive(Clone, Debug)]
pub(super) struct List<T> {
    pub(super) adds: bool,
    pub(super) items: Vec<T>,
}

pub(super) fn list_of_columns(text: &str) -> std::result::Result<List<Column>, String> {
    let (adds, text) = text.strip_prefix('+').map_or((false, text), |rest| (true, rest));
    let column = |name: &str| Column::named(name).ok_or_else(|| unknown(name));
    let items: Vec<Column> = text
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(column)
        .collect::<std::result::Result<_, _>>()?;
    if items.is_empty() { Err("names nothing".into()) } else { Ok(List { adds, items }) }
}

fn unknown(name: &str) -> String {
    let near = perfuse_events::nearest(name, Column::names());
    let hint = match near.is_empty() {
        true => String::new(),
        false => format!("; did you mean {}?", near.join(" or ")),
    };
    let all: Vec<&str> = Column::names().collect();
    format!("'{name}' is nothing a report can tell{hint} There are: {}", all.join(", "))
}

/// What the options amount to.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// What entries are told apart by.
    pub(super) keys: Vec<Key>,
    pub(super) columns: Vec<Column>,
    /// What entries are sorted by.
    pub(super) sort: Vec<Column>,
    pub(super) children: bool,
    pub(super) graph: CallGraph,
    /// The share of a function alone is titled so, beside its share with what it calls.
    pub(super) says_self: bool,
    /// The first frame of a tree is left out where it is the entry itself.
    pub(super) skips_first: bool,
}

const DEFAULT_KEYS: [Key; 3] = [Key::Comm, Key::Dso, Key::Symbol];

impl Plan {
    pub(super) fn new(args: &Args, has_chains: bool) -> Result<Self> {
        let children = has_chains && !args.no_children;
        let graph = call_graph(args, has_chains, children)?;
        let shares = {
            let mut shares = Vec::new();
            shares.extend(children.then_some(Column::Total));
            shares.push(Column::Own);
            if args.show_cpu_utilization {
                shares.extend([Column::OwnKernel, Column::OwnUser]);
            }
            shares.extend(args.show_nr_samples.then_some(Column::Samples));
            shares.extend(args.show_total_period.then_some(Column::Period));
            shares
        };
        let default_keys = DEFAULT_KEYS.map(Column::Key);
        let sort = match &args.sort {
            None => None,
            Some(list) if list.adds => Some([&default_keys[..], &list.items].concat()),
            Some(list) => Some(list.items.clone()),
        };
        let strict_fields = args.fields.as_ref().filter(|list| !list.adds);
        let (mut columns, mut order) = match (strict_fields, sort) {
            (Some(fields), sort) => (fields.items.clone(), sort.unwrap_or_default()),
            (None, sort) => {
                // Shares come first, unless where they come is told.
                let sort = sort.unwrap_or(default_keys.to_vec());
                let mut order = Vec::new();
                order.extend(children.then_some(Column::Total).filter(|total| !sort.contains(total)));
                order.extend(Some(Column::Own).filter(|own| !sort.contains(own)));
                order.extend(sort);
                let mut columns = shares;
                columns.extend(args.fields.iter().flat_map(|list| list.items.iter().copied()));
                (columns, order)
            }
        };
        columns.extend(order.clone());
        order.extend(columns.clone());
        if !children {
            columns.retain(|&column| column != Column::Total);
            order.retain(|&column| column != Column::Total);
        }
        let (columns, order) = (without_repetition(columns), without_repetition(order));
        let keys = order.iter().filter_map(|column| column.key()).collect();
        let says_self = children && strict_fields.is_none();
        let starts_with_symbol = args.sort.as_ref().and_then(|list| list.items.first());
        let skips_first = starts_with_symbol == Some(&Column::Key(Key::Symbol))
            && args.fields.is_none()
            && args.sort.as_ref().is_some_and(|list| !list.adds);
        Ok(Plan { keys, columns, sort: order, children, graph, says_self, skips_first })
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
            "address" => graph.by_address = true,
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
