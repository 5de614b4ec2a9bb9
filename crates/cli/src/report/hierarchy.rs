//! A report in which each key stands under the one before, with the sums of what is under it.

use super::groups;
use super::text;
use super::tree::Drawing;
use super::{Args, Plan, Shown, Style};
use crate::exit::Result;
use crate::term::foreign::{field, right};
use crate::term::lines::{Lines, Paint};
use perfuse_data::EventGroup;
use perfuse_profile::{Column, Entry, Hierarchy, JoinedRow, Key, Node, View};
use std::fmt::Write as _;
use std::io::Write;

/// Blanks by which a level is moved to the right.
const INDENT: usize = 3;

/// Prints the hierarchy of a group, or of an event alone.
pub(super) fn print(
    out: &mut impl Write,
    args: &Args,
    plan: &Plan,
    all: &[Shown<'_>],
    group: &EventGroup,
) -> Result<()> {
    let (shown, levels) = (&all[0], &plan.levels);
    let numbers: Vec<Column> = plan.columns.iter().copied().filter(|column| column.key().is_none()).collect();
    groups::head(out, args, plan, all, group)?;
    let views: Vec<&View<'_>> = all.iter().map(|shown| shown.view).collect();
    let rows = match all {
        [shown] => {
            // Nodes of the same sum are in the order of their keys.
            let keys: Vec<Column> = levels.iter().flatten().map(|&key| Column::Key(key)).collect();
            let mut entries = shown.all.clone();
            shown.view.sort(&mut entries, &keys, None);
            entries.into_iter().map(JoinedRow::alone).collect()
        }
        all => groups::joined(args, plan, all),
    };
    let mut tree = Hierarchy::new(&views, &rows, levels);
    tree.sort_by(|sum| plan.rank(sum));
    let separator = args.field_separator.as_deref();
    let paint = Paint(args.text.is_coloured());
    let titles: Vec<String> = plan.columns.iter().map(|&column| text::title(column, plan)).collect();
    let widths = groups::widths(args, plan, &plan.columns, &titles, all);
    let width_of = |column: Column| {
        let place = plan.columns.iter().position(|&other| other == column);
        place.map_or_else(Default::default, |place| widths[place])
    };
    let indent = levels.len().saturating_sub(1) * INDENT;
    let limit = text::limit(separator);
    let mut lines = Lines { out, limit, cut: 0 };
    if !args.quiet {
        let between = separator.unwrap_or("  ");
        let mut line = String::from("# ");
        let mut dots = String::from("# ");
        if separator.is_none() {
            line.push_str(&" ".repeat(indent));
            dots.push_str(&".".repeat(indent));
        }
        for (index, &column) in numbers.iter().enumerate() {
            let width = width_of(column);
            let width = (width.told * all.len()).max(width.whole);
            let title = text::title(column, plan);
            let _ = match separator {
                Some(separator) => write!(line, "{}{between}", field(title.trim_start(), separator)),
                None => write!(line, "{}{between}", right(&title, width)),
            };
            let _ = write!(dots, "{}{}", if index > 0 { ".." } else { "" }, ".".repeat(width));
        }
        let name = |&key: &Key| text::title(Column::Key(key), plan).trim().to_owned();
        let names = |keys: &Vec<Key>| keys.iter().map(name).collect::<Vec<_>>().join("+");
        let names = levels.iter().map(names).collect::<Vec<_>>().join(" / ");
        lines.put(&format!("{line}{names}"))?;
        let width =
            |keys: &[Key]| keys.iter().map(|&key| width_of(Column::Key(key)).whole + 2).sum::<usize>();
        let widest =
            levels.iter().enumerate().map(|(depth, keys)| depth * INDENT + width(keys).saturating_sub(2));
        let widest = widest.max().unwrap_or(0).max(names.len());
        lines.put(&format!("{dots}{between}{}", ".".repeat(widest)))?;
        lines.put("#")?;
    }
    let drawing = Drawing::new(plan, shown, paint, separator);
    let whole = shown.whole_of(plan.rank).max(1);
    let percent = |node: &Node<'_>| node.sum(0).map_or(0, |sum| plan.rank(sum)) as f64 * 100.0 / whole as f64;
    let is_enough = |child: &&usize| percent(&tree.nodes[**child]) >= args.percent_limit;
    let none = Entry::default();
    let mut open: Vec<(usize, usize)> = tree.top.iter().rev().map(|&node| (node, 0)).collect();
    while let Some((index, depth)) = open.pop() {
        let node = &tree.nodes[index];
        if percent(node) < args.percent_limit {
            continue;
        }
        let mut line = if separator.is_none() { " ".repeat(depth * INDENT) } else { String::new() };
        for (place, &column) in numbers.iter().enumerate() {
            match separator {
                Some(separator) if place > 0 => line.push_str(separator),
                Some(_) => {}
                None => line.push_str("  "),
            }
            let sums = (0..all.len()).map(|event| node.sum(event).unwrap_or(&none));
            groups::cells(&mut line, sums, column, width_of(column), (all, paint, separator));
        }
        if separator.is_none() {
            line.push_str(&" ".repeat(indent));
        }
        let (member, entry) = node.first;
        for &key in &levels[depth] {
            let (column, mut text) = (Column::Key(key), String::new());
            let width = width_of(column);
            text::cell(&mut text, entry, column, width, &all[member], paint, separator, false);
            let _ = write!(line, "{}{}", separator.unwrap_or("  "), text.trim_start());
        }
        if separator.is_none() {
            line.truncate(line.trim_end().len());
        }
        lines.put(&line)?;
        if node.children.is_empty() {
            if let (true, Some(entry)) = (plan.graph.style != Style::None, node.entry) {
                let mut drawn = String::new();
                drawing.draw(&mut drawn, entry);
                lines.put_all(&drawn)?;
            }
        } else if !node.children.iter().any(|child| is_enough(&child)) {
            let indent = " ".repeat((levels.len() + depth + 2) * INDENT + 8 * numbers.len() * all.len() + 4);
            lines.put(&format!("{indent}no entry >= {:.2}%", args.percent_limit))?;
        }
        open.extend(node.children.iter().rev().map(|&child| (child, depth + 1)));
    }
    if !args.quiet {
        writeln!(lines.out, "\n")?;
    }
    super::tell_few(lines.out, args, tree.top.iter().filter(is_enough).count(), tree.top.len())?;
    super::tell_none_left(lines.out, args, &all.iter().collect::<Vec<_>>())
}
