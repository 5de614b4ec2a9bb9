//! Events of a group in one table: an entry is one line, with a share for each event.

use super::text::{self, Lines, Paint, Width};
use super::tree::Drawing;
use super::{Args, Plan, Read, Shown, Style, with_shown};
use crate::exit::Result;
use crate::recording;
use crate::term::foreign::{field, foreign, left, right};
use perfuse_data::PerfData;
use perfuse_data::feature::{Feature, FeatureId};
use perfuse_profile::{Column, Entry, Key};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write;

/// Events that are shown together.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// What it was called; nothing for events that were recorded apart.
    name: Option<String>,
    pub(super) first: usize,
    pub(super) members: usize,
}

/// The groups of a recording, with each event in one: those it was recorded with, unless asked otherwise.
pub(super) fn of(data: &mut PerfData<'_>, events: usize, args: &Args) -> Vec<Group> {
    let mut recorded: Vec<Group> = Vec::new();
    if !args.no_group && !args.hierarchy {
        if let Some(Feature::GroupDesc(list)) = recording::feature(data, FeatureId::GROUP_DESC) {
            let named = |name: String| match name.as_str() {
                "" | "{anon_group}" => Some("anon group".to_owned()),
                _ => Some(name),
            };
            recorded.extend(list.iter().map(|group| Group {
                name: named(group.name.to_string()),
                first: group.leader as usize,
                members: group.members as usize,
            }));
        }
        recorded.retain(|group| group.members > 1);
        if recorded.is_empty() && args.group && events > 1 {
            recorded.push(Group { name: None, first: 0, members: events });
        }
    }
    let (mut groups, mut next) = (Vec::new(), 0);
    while next < events {
        let group = recorded.iter().find(|group| group.first == next);
        let members = group.map_or(1, |group| group.members.min(events - next));
        groups.push(Group { name: group.and_then(|group| group.name.clone()), first: next, members });
        next += members;
    }
    groups
}

/// A line: an entry of some of the events.
struct Row<'s> {
    /// The first event that has it.
    member: usize,
    entries: Vec<Option<&'s Entry>>,
    texts: Vec<String>,
}

impl<'s> Row<'s> {
    fn entry(&self) -> Option<&'s Entry> {
        self.entries[self.member]
    }

    /// What decides where it stands: its shares, that of the chosen event first.
    fn rank(&self, by_total: bool, first: usize) -> Vec<u64> {
        let weight = |entry: &Option<&Entry>| {
            entry.map_or(0, |entry| if by_total { entry.total_weight } else { entry.self_weight })
        };
        let mut ranks: Vec<u64> = self.entries.iter().map(weight).collect();
        if first < ranks.len() {
            ranks[..=first].rotate_right(1);
        }
        ranks
    }
}

/// Prints the table of a group.
pub(super) fn print(
    out: &mut impl Write,
    args: &Args,
    plan: &Plan,
    read: &Read,
    group: &Group,
) -> Result<()> {
    collect(args, plan, read, group, &mut Vec::new(), |all| table(out, args, plan, all, group))
}

/// Sums up each member in turn, and hands all of them over.
fn collect<R>(
    args: &Args,
    plan: &Plan,
    read: &Read,
    group: &Group,
    before: &mut Vec<&Shown<'_>>,
    work: impl FnOnce(&[&Shown<'_>]) -> R,
) -> R {
    if before.len() == group.members {
        return work(before);
    }
    let index = group.first + before.len();
    let mut work = Some(work);
    let mut result = None;
    with_shown(args, plan, read, index, |shown| {
        let mut all: Vec<&Shown<'_>> = before.clone();
        all.push(shown);
        let work = work.take();
        result = work.map(|work| collect_rest(args, plan, read, group, all, Box::new(work)));
    });
    match result {
        Some(result) => result,
        None => unreachable!("the work is done once"),
    }
}

type Work<'w, R> = Box<dyn FnOnce(&[&Shown<'_>]) -> R + 'w>;

fn collect_rest<R>(
    args: &Args,
    plan: &Plan,
    read: &Read,
    group: &Group,
    all: Vec<&Shown<'_>>,
    work: Work<'_, R>,
) -> R {
    let mut all = all;
    collect(args, plan, read, group, &mut all, work)
}

fn table(out: &mut impl Write, args: &Args, plan: &Plan, all: &[&Shown<'_>], group: &Group) -> Result<()> {
    let elided = text::elided(args, plan);
    let columns: Vec<Column> =
        plan.columns.iter().copied().filter(|column| !elided.iter().any(|(of, _)| of == column)).collect();
    let rows = rows(args, plan, all);
    if !args.quiet {
        let names: Vec<&str> = all.iter().map(|shown| shown.name).collect();
        let samples = all.iter().map(|shown| shown.samples).sum();
        let whole = all.iter().fold(0u64, |sum, shown| sum.saturating_add(shown.whole));
        let names = names.join(", ");
        let of = match &group.name {
            Some(name) => format!("events '{name} {{ {names} }}'"),
            None => format!("events '{names}'"),
        };
        text::what(out, args, plan, &foreign(&of), (samples, whole))?;
    }
    let titles: Vec<String> = columns.iter().map(|&column| text::title(column, plan)).collect();
    let of_each: Vec<Vec<Width>> =
        all.iter().map(|shown| text::widths(args, plan, &columns, &titles, shown)).collect();
    let widest = |index: usize| {
        let told = of_each.iter().map(|widths| widths[index].told).max().unwrap_or(0);
        let whole = of_each.iter().map(|widths| widths[index].whole).max().unwrap_or(0);
        Width { told, whole }
    };
    let widths: Vec<Width> = (0..columns.len()).map(widest).collect();
    let room = |index: usize| match columns[index] {
        Column::Key(_) => widths[index].whole,
        _ => (widths[index].told * all.len()).max(widths[index].whole),
    };
    let separator = args.field_separator.as_deref();
    let paint = Paint(super::has_colour(args));
    let limit = text::limit(separator);
    let mut lines = Lines { out, limit, cut: 0 };
    if !args.quiet {
        let mut line = String::from("# ");
        for (index, title) in titles.iter().enumerate() {
            let between = if index > 0 { separator.unwrap_or("  ") } else { "" };
            let width = room(index);
            let _ = match (separator, columns[index]) {
                (Some(separator), _) => write!(line, "{between}{}", field(title.trim_start(), separator)),
                (None, Column::Key(_)) => write!(line, "{between}{}", left(title, width)),
                (None, _) => write!(line, "{between}{}", right(title, width)),
            };
        }
        lines.put(&line)?;
        if separator.is_none() {
            let dots: Vec<String> = (0..columns.len()).map(|index| ".".repeat(room(index))).collect();
            lines.put(&format!("# {}", dots.join("  ")))?;
            lines.put("#")?;
        }
    }
    let drawings: Vec<Drawing<'_>> =
        all.iter().map(|shown| Drawing::new(plan, shown, paint, separator)).collect();
    for row in &rows {
        let Some(entry) = row.entry() else { continue };
        let mut line = String::new();
        for (index, &column) in columns.iter().enumerate() {
            let is_last = index + 1 == columns.len();
            match separator {
                Some(separator) if index > 0 => line.push_str(separator),
                Some(_) => {}
                None => line.push_str("  "),
            }
            if let Column::Key(_) = column {
                let shown = all[row.member];
                text::cell(&mut line, entry, column, widths[index], shown, paint, separator, is_last);
                continue;
            }
            for (member, (shown, entry)) in all.iter().zip(&row.entries).enumerate() {
                if let (Some(separator), true) = (separator, member > 0) {
                    line.push_str(separator);
                }
                let none = Entry::default();
                let width = Width { whole: 0, ..widths[index] };
                let entry = entry.unwrap_or(&none);
                text::cell(&mut line, entry, column, width, shown, paint, separator, false);
            }
        }
        lines.put(&line)?;
        if let (true, Some(entry)) = (plan.graph.style != Style::None, row.entries[0]) {
            let mut tree = String::new();
            drawings[0].draw(&mut tree, entry);
            lines.put_all(&tree)?;
        }
    }
    if !args.quiet {
        writeln!(lines.out, "\n")?;
    }
    Ok(())
}

/// The entries of all members, those that are alike together, in order.
fn rows<'s>(args: &Args, plan: &Plan, all: &[&'s Shown<'s>]) -> Vec<Row<'s>> {
    let mut rows: Vec<Row<'s>> = Vec::new();
    let mut known: HashMap<(Vec<String>, u64), usize> = HashMap::new();
    for (member, shown) in all.iter().enumerate() {
        for &entry in &shown.all {
            // Whose code it is tells no functions apart: of what is outside of all maps, it may differ.
            let text = |&key: &Key| match (key, shown.names.text(entry, key)) {
                (Key::Symbol, text) => text.get(4..).unwrap_or_default().to_owned(),
                (_, text) => text,
            };
            let texts: Vec<String> = plan.keys.iter().map(text).collect();
            let frame = shown.frames.get(entry.frame);
            let place = if plan.keys.contains(&Key::Symbol) { frame.address } else { 0 };
            let index = *known.entry((texts.clone(), place)).or_insert(rows.len());
            if index == rows.len() {
                rows.push(Row { member, entries: vec![None; all.len()], texts });
            }
            rows[index].entries[member] = Some(entry);
        }
    }
    rows.retain(|row| {
        let share = |(entry, shown): (&Option<&Entry>, &&Shown<'_>)| {
            let rank = |entry: &Entry| if plan.children { entry.total_weight } else { entry.self_weight };
            entry.map_or(0.0, |entry| rank(entry) as f64 * 100.0 / shown.whole.max(1) as f64)
        };
        // The first event decides, as for a table of its own.
        args.percent_limit <= 0.0
            || row.entries.iter().zip(all).take(1).map(share).any(|of| of >= args.percent_limit)
    });
    let first = args.group_sort_idx;
    rows.sort_by_cached_key(|row| {
        let ranks: Vec<u64> = row.rank(plan.children, first).into_iter().map(|rank| !rank).collect();
        (ranks, row.texts.clone())
    });
    rows
}
