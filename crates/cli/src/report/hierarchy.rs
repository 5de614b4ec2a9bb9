//! A report in which each key stands under the one before, with the sums of what is under it.

use super::text;
use super::tree::Drawing;
use super::{Args, Plan, Shown, Style};
use crate::exit::Result;
use crate::term::foreign::{field, foreign, right};
use crate::term::lines::{Lines, Paint};
use perfuse_profile::{Column, Hierarchy, Key, Node};
use std::fmt::Write as _;
use std::io::Write;

/// Blanks by which a level is moved to the right.
const INDENT: usize = 3;

/// Prints the hierarchy of an event.
pub(super) fn print(out: &mut impl Write, args: &Args, plan: &Plan, shown: &Shown<'_>) -> Result<()> {
    let (numbers, keys): (Vec<Column>, Vec<Column>) =
        plan.columns.iter().partition(|column| column.key().is_none());
    let keys: Vec<Key> = keys.iter().filter_map(|column| column.key()).collect();
    if !args.quiet {
        text::what(
            out,
            args,
            plan,
            &format!("event '{}'", foreign(shown.name)),
            (shown.samples, shown.whole),
        )?;
    }
    let mut tree = Hierarchy::new(shown.view, &keys, &shown.all);
    tree.sort_by(|sum| plan.rank(sum));
    let separator = args.field_separator.as_deref();
    let paint = Paint(args.text.is_coloured());
    let titles: Vec<String> = plan.columns.iter().map(|&column| text::title(column, plan)).collect();
    let widths = text::widths(args, plan, &plan.columns, &titles, shown);
    let width_of = |column: Column| {
        let place = plan.columns.iter().position(|&other| other == column);
        place.map_or_else(Default::default, |place| widths[place])
    };
    let indent = keys.len().saturating_sub(1) * INDENT;
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
            let (title, width) = (text::title(column, plan), width_of(column).whole);
            let _ = match separator {
                Some(separator) => write!(line, "{}{between}", field(title.trim_start(), separator)),
                None => write!(line, "{}{between}", right(&title, width)),
            };
            let _ = write!(dots, "{}{}", if index > 0 { ".." } else { "" }, ".".repeat(width));
        }
        let names: Vec<String> =
            keys.iter().map(|&key| text::title(Column::Key(key), plan).trim().to_owned()).collect();
        let names = names.join(" / ");
        lines.put(&format!("{line}{names}"))?;
        let levels = keys.iter().enumerate();
        let widest = levels.map(|(depth, &key)| depth * INDENT + width_of(Column::Key(key)).whole);
        let widest = widest.max().unwrap_or(0).max(names.len());
        lines.put(&format!("{dots}{between}{}", ".".repeat(widest)))?;
        lines.put("#")?;
    }
    let drawing = Drawing::new(plan, shown, paint, separator);
    let whole = shown.whole_of(plan.rank).max(1);
    let percent = |node: &Node<'_>| plan.rank(&node.sum) as f64 * 100.0 / whole as f64;
    let is_enough = |child: &&usize| percent(&tree.nodes[**child]) >= args.percent_limit;
    let top = tree.nodes[0].children.iter().rev();
    let mut left: Vec<(usize, usize)> = top.map(|&node| (node, 0)).collect();
    while let Some((index, depth)) = left.pop() {
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
            text::cell(&mut line, &node.sum, column, width_of(column), shown, paint, separator, false);
        }
        if separator.is_none() {
            line.push_str(&" ".repeat(indent));
        }
        match separator {
            Some(separator) => {
                line.push_str(&format!("{separator}{}", field(node.text.trim_start(), separator)))
            }
            None => line.push_str(&format!("  {}", foreign(node.text.trim_start()))),
        }
        lines.put(&line)?;
        if let Some(entry) = node.entry {
            if plan.graph.style != Style::None {
                let mut drawn = String::new();
                drawing.draw(&mut drawn, entry);
                lines.put_all(&drawn)?;
            }
        } else if !node.children.iter().any(|child| is_enough(&child)) {
            let indent = " ".repeat((keys.len() + depth + 2) * INDENT + 8 * numbers.len() + 4);
            lines.put(&format!("{indent}no entry >= {:.2}%", args.percent_limit))?;
        }
        left.extend(node.children.iter().rev().map(|&child| (child, depth + 1)));
    }
    if !args.quiet {
        writeln!(lines.out, "\n")?;
    }
    let top = &tree.nodes[0].children;
    super::tell_few(lines.out, args, top.iter().filter(is_enough).count(), top.len())?;
    super::tell_none_left(lines.out, args, &[shown])
}
