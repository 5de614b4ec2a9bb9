//! Events of a group in one table: an entry is one line, with a share for each event.

use super::text::{self, Width};
use super::tree::Drawing;
use super::{Args, Plan, Shown, Style};
use crate::exit::Result;
use crate::term::foreign::{beginning, field, foreign, left, right};
use crate::term::lines::{Lines, Paint};
use perfuse_data::EventGroup;
use perfuse_profile::{Column, Entry, JoinedRow, join};
use std::fmt::Write as _;
use std::io::Write;

/// A table has a column for each event, and no more than these: one of any number of events and places would have a cell for each pair
/// of them.
pub(super) const MOST: usize = 128;

/// Writes the lines above the table of a group.
pub(super) fn head(
    out: &mut impl Write,
    args: &Args,
    plan: &Plan,
    all: &[Shown<'_>],
    group: &EventGroup,
) -> Result<()> {
    if args.quiet {
        return Ok(());
    }
    let names: Vec<String> = all.iter().map(|shown| foreign(shown.name).into_owned()).collect();
    let samples = all.iter().map(|shown| shown.samples).sum();
    let whole = all.iter().fold(0u64, |sum, shown| sum.saturating_add(shown.whole));
    let names = names.join(", ");
    let of = match (&group.name, all.len()) {
        (None, 1) => format!("event '{names}'"),
        (None, _) => format!("events '{names}'"),
        (Some(name), _) => format!("events '{} {{ {names} }}'", foreign(name)),
    };
    if let Some(whole) = group.part_of {
        let (first, last) = (group.first + 1, group.members().end);
        writeln!(out, "# Events {first} to {last}: their group has {whole}, and a table {MOST} at most")?;
    }
    text::what(out, args, plan, &of, (samples, whole))
}

/// The widths of columns that hold them for each of these.
pub(super) fn widths(
    args: &Args,
    plan: &Plan,
    columns: &[Column],
    titles: &[String],
    all: &[Shown<'_>],
) -> Vec<Width> {
    let mut widest = vec![Width::default(); columns.len()];
    for widths in all.iter().map(|shown| text::widths(args, plan, columns, titles, shown)) {
        for (widest, width) in widest.iter_mut().zip(widths) {
            let (told, whole) = (widest.told.max(width.told), widest.whole.max(width.whole));
            *widest = Width { told, whole };
        }
    }
    widest
}

/// Writes a number of each event.
pub(super) fn cells<'e>(
    line: &mut String,
    entries: impl Iterator<Item = &'e Entry>,
    column: Column,
    width: Width,
    (all, paint, separator): (&[Shown<'_>], Paint, Option<&str>),
) {
    let width = if all.len() > 1 { Width { whole: 0, ..width } } else { width };
    for (member, (shown, entry)) in all.iter().zip(entries).enumerate() {
        if let (Some(separator), true) = (separator, member > 0) {
            line.push_str(separator);
        }
        text::cell(line, entry, column, width, shown, paint, separator, false);
    }
}

/// Prints the table of a group.
pub(super) fn print(
    out: &mut impl Write,
    args: &Args,
    plan: &Plan,
    all: &[Shown<'_>],
    group: &EventGroup,
) -> Result<()> {
    let elided = text::elided(args, plan);
    let columns: Vec<Column> =
        plan.columns.iter().copied().filter(|column| !elided.iter().any(|(of, _)| of == column)).collect();
    let (rows, all_rows) = rows(args, plan, all);
    head(out, args, plan, all, group)?;
    let titles: Vec<String> = columns.iter().map(|&column| text::title(column, plan)).collect();
    let widths = widths(args, plan, &columns, &titles, all);
    let room = |index: usize| match columns[index] {
        Column::Key(_) => widths[index].whole,
        _ => (widths[index].told * all.len()).max(widths[index].whole),
    };
    let separator = args.field_separator.as_deref();
    let paint = Paint(args.text.is_coloured());
    let limit = text::limit(separator);
    let mut lines = Lines { out, limit, cut: 0 };
    if !args.quiet {
        let mut line = String::from("# ");
        for (index, title) in titles.iter().enumerate() {
            let between = if index > 0 { separator.unwrap_or("  ") } else { "" };
            let width = room(index);
            let _ = match (separator, columns[index]) {
                (Some(separator), _) => write!(line, "{between}{}", field(title.trim_start(), separator)),
                (None, Column::Key(_)) => write!(line, "{between}{}", left(beginning(title, width).0, width)),
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
    let none = Entry::default();
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
                let shown = &all[row.member];
                text::cell(&mut line, entry, column, widths[index], shown, paint, separator, is_last);
                continue;
            }
            let entries = row.entries.iter().map(|entry| entry.unwrap_or(&none));
            cells(&mut line, entries, column, widths[index], (all, paint, separator));
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
    super::tell_few(lines.out, args, rows.len(), all_rows)?;
    super::tell_none_left(lines.out, args, &all.iter().collect::<Vec<_>>())
}

/// The entries of all members, those that are alike together, in order.
pub(super) fn joined<'s>(args: &Args, plan: &Plan, all: &'s [Shown<'s>]) -> Vec<JoinedRow<'s>> {
    let views: Vec<_> = all.iter().map(|shown| (shown.view, &shown.all[..])).collect();
    join(&views, &plan.keys, plan.children, args.group_sort_idx)
}

/// The same of those above the limit; and how many there are with those below it.
fn rows<'s>(args: &Args, plan: &Plan, all: &'s [Shown<'s>]) -> (Vec<JoinedRow<'s>>, usize) {
    let mut rows = joined(args, plan, all);
    let count = rows.len();
    rows.retain(|row| {
        let share = |(entry, shown): (&Option<&Entry>, &Shown<'_>)| {
            let whole = shown.whole_of(plan.rank).max(1) as f64;
            entry.map_or(0.0, |entry| plan.rank(entry) as f64 * 100.0 / whole)
        };
        // The first event decides, as for a table of its own.
        args.percent_limit <= 0.0
            || row.entries.iter().zip(all).take(1).map(share).any(|of| of >= args.percent_limit)
    });
    (rows, count)
}
