//! A report as text, as perf writes it: comment lines, a header, columns of fixed width, trees under them.

use super::options::{Plan, Style};
use super::tree::Drawing;
use super::{Args, Shown, workers};
use crate::exit::Result;
use perfuse_profile::{Column, Entry, Frames, Key};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};

/// On a terminal whose width is not told, lines are cut here.
const WIDTH: usize = 80;

/// How percentages stand out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint(pub(super) bool);

impl Paint {
    /// Red from 5 % on, green from 0.5 % on.
    pub(super) fn percent(self, out: &mut String, percent: f64, text: &str) {
        let colour = match percent.abs() {
            percent if percent >= 5.0 => "\x1b[31m",
            percent if percent >= 0.5 => "\x1b[32m",
            _ => "",
        };
        let _ = match (self.0, colour) {
            (false, _) | (_, "") => write!(out, "{text}"),
            _ => write!(out, "{colour}{text}\x1b[m"),
        };
    }
}

/// Takes lines, and cuts those that are longer than the terminal.
struct Lines<'o, W> {
    out: &'o mut W,
    limit: Option<usize>,
    cut: usize,
}

impl<W: Write> Lines<'_, W> {
    fn put(&mut self, line: &str) -> Result<()> {
        let line = line.trim_end_matches(' ');
        match self.limit.and_then(|limit| cut_at(line, limit)) {
            Some(end) => {
                self.cut += 1;
                let reset = if line[..end].contains('\x1b') { "\x1b[m" } else { "" };
                writeln!(self.out, "{}…{reset}", &line[..end])?;
            }
            None => writeln!(self.out, "{line}")?,
        }
        Ok(())
    }
}

/// Where a line that is too long is cut, so that it and a mark fit. Colours take no room.
fn cut_at(line: &str, limit: usize) -> Option<usize> {
    let (mut width, mut cut, mut in_colour) = (0, None, false);
    for (at, letter) in line.char_indices() {
        match letter {
            '\x1b' => in_colour = true,
            'm' if in_colour => in_colour = false,
            _ if in_colour => {}
            _ => {
                if width == limit - 1 {
                    cut = Some(at);
                }
                width += 1;
            }
        }
    }
    if width > limit { cut } else { None }
}

pub(super) fn print(out: &mut impl Write, args: &Args, plan: &Plan, shown: &Shown<'_>) -> Result<()> {
    let separator = args.field_separator.as_deref();
    let elided = elided(args, plan);
    let columns: Vec<Column> =
        plan.columns.iter().copied().filter(|column| !elided.iter().any(|(of, _)| of == column)).collect();
    if !args.quiet {
        let (number, unit) = in_thousands(shown.samples);
        let span = match &args.filter.time {
            Some(span) => format!(" (time slices: {})", span.text),
            None => String::new(),
        };
        writeln!(out, "# Samples: {number}{unit} of event '{}'{span}", shown.name)?;
        writeln!(out, "# Event count (approx.): {}\n#", shown.whole)?;
    }
    let titles: Vec<String> = columns.iter().map(|&column| title(column, plan)).collect();
    let widths = widths(args, &columns, &titles, shown);
    let paint = Paint(super::has_colour(args));
    let limit = (separator.is_none() && std::io::stdout().is_terminal()).then(terminal_width);
    let mut lines = Lines { out, limit, cut: 0 };
    if !args.quiet {
        let mut line = String::from("# ");
        for (index, (title, width)) in titles.iter().zip(&widths).enumerate() {
            let width = width.whole;
            let between = if index > 0 { separator.unwrap_or("  ") } else { "" };
            let _ = match (separator, columns[index]) {
                (Some(_), _) => write!(line, "{between}{}", title.trim_start()),
                (None, Column::Key(_)) => write!(line, "{between}{title:<width$}"),
                (None, _) => write!(line, "{between}{title:>width$}"),
            };
        }
        lines.put(&line)?;
        if separator.is_none() {
            let dots: Vec<String> = widths.iter().map(|width| ".".repeat(width.whole)).collect();
            lines.put(&format!("# {}", dots.join("  ")))?;
            lines.put("#")?;
        }
    }
    let drawing = Drawing::new(plan, shown, paint, separator);
    let render = |entries: &[&Entry]| -> Result<(Vec<u8>, usize)> {
        let mut text = Vec::new();
        let mut lines = Lines { out: &mut text, limit, cut: 0 };
        let (mut line, mut tree) = (String::new(), String::new());
        for entry in entries {
            line.clear();
            for (index, (&column, &width)) in columns.iter().zip(&widths).enumerate() {
                let is_last = index + 1 == columns.len();
                match separator {
                    Some(separator) if index > 0 => line.push_str(separator),
                    Some(_) => {}
                    None => line.push_str("  "),
                }
                cell(&mut line, entry, column, width, shown, paint, separator, is_last);
            }
            lines.put(&line)?;
            if plan.graph.style != Style::None {
                tree.clear();
                drawing.draw(&mut tree, entry);
                lines.out.extend_from_slice(tree.as_bytes());
            }
        }
        let cut = lines.cut;
        Ok((text, cut))
    };
    let mut cut = lines.cut;
    workers::in_order(&shown.entries, render, |rendered| {
        let (text, more) = rendered?;
        cut += more;
        Ok(out.write_all(&text)?)
    })?;
    if args.quiet {
        return Ok(());
    }
    writeln!(out, "\n")?;
    if shown.all.len() > shown.entries.len() {
        let (limit, count) = (args.percent_limit, shown.entries.len());
        writeln!(out, "# {count} of {} entries shown; the others are below {limit} %", shown.all.len())?;
    }
    if cut > 0 {
        writeln!(out, "# {cut} lines were cut to the terminal; into a pipe they are whole")?;
    }
    Ok(())
}

/// What stands above all tables.
pub(super) fn head(out: &mut impl Write, args: &Args, plan: &Plan, lost: u64) -> Result<()> {
    if !args.header.header {
        writeln!(out, "# What the recording says of itself is shown by --header or --header-only.\n#")?;
    }
    for (column, value) in elided(args, plan) {
        writeln!(out, "# {}: {value}", column.key().map_or("", Key::name))?;
    }
    writeln!(out, "#\n# Total Lost Samples: {lost}\n#")?;
    Ok(())
}

/// What is the same for all, because only that was asked for, and stands above the table instead.
fn elided<'a>(args: &'a Args, plan: &Plan) -> Vec<(Column, &'a str)> {
    let lists = [(Key::Dso, &args.dso), (Key::Comm, &args.filter.comm), (Key::Symbol, &args.symbol)];
    let single = lists.into_iter().filter_map(|(key, list)| match &list[..] {
        [only] if plan.keys.contains(&key) => Some((Column::Key(key), only.as_str())),
        _ => None,
    });
    let elided: Vec<_> = single.collect();
    // Something must be left.
    if elided.len() == plan.keys.len() { Vec::new() } else { elided }
}

/// A number as perf writes it above a table, cut to thousands.
fn in_thousands(number: u64) -> (u64, char) {
    let mut result = (number, ' ');
    for unit in ['K', 'M', 'G'] {
        if result.0 > 1000 {
            result = (result.0 / 1000, unit);
        }
    }
    result
}

fn terminal_width() -> usize {
    std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).unwrap_or(WIDTH).max(20)
}

fn title(column: Column, plan: &Plan) -> String {
    match column {
        Column::Total => "Children",
        Column::Own if plan.says_self => "Self",
        Column::Own => "Overhead",
        Column::OwnKernel => "sys",
        Column::OwnUser => "usr",
        Column::OwnGuestKernel => "guest sys",
        Column::OwnGuestUser => "guest usr",
        Column::Samples => "Samples",
        Column::Period => "Period",
        Column::Key(key) => key.title(),
        _ => "",
    }
    .to_owned()
}

/// How wide a column is.
#[derive(Clone, Copy, Debug, Default)]
struct Width {
    /// As was asked for, or as wide as its longest text.
    told: usize,
    /// With its title, if that is not cut.
    whole: usize,
}

/// What a column takes: as much as its longest text, unless it was told.
fn widths(args: &Args, columns: &[Column], titles: &[String], shown: &Shown<'_>) -> Vec<Width> {
    let has_unresolved = shown.all.iter().any(|entry| shown.frames.get(entry.frame).symbol.is_none());
    let mut widths = Vec::with_capacity(columns.len());
    for (index, (&column, title)) in columns.iter().zip(titles).enumerate() {
        let told = args.column_widths.get(index).copied().filter(|&width| width > 0);
        let natural = || match column {
            Column::Key(key) => {
                let least = match key {
                    Key::Dso if has_unresolved && args.dso.is_empty() => 16,
                    Key::Weight | Key::LocalWeight | Key::Time => 12,
                    _ => 3,
                };
                let longest = |entries: &[&Entry]| {
                    let mut text = String::new();
                    let lengths = entries.iter().map(|entry| {
                        text.clear();
                        shown.names.write(&mut text, entry, key);
                        if text.is_ascii() { text.len() } else { text.chars().count() }
                    });
                    lengths.max().unwrap_or(0)
                };
                let mut whole = least;
                let known = workers::in_order(&shown.all, longest, |length| {
                    whole = whole.max(length);
                    Ok(())
                });
                known.map_or(least, |()| whole)
            }
            Column::Samples | Column::Period => 12,
            _ => 8,
        };
        // Shares are never narrower than their titles; keys are as narrow as was asked for.
        widths.push(match (told, column.key()) {
            (Some(told), Some(_)) => Width { told, whole: told },
            (Some(told), None) => Width { told, whole: told.max(title.len()) },
            (None, _) => {
                let whole = natural().max(title.len());
                Width { told: whole, whole }
            }
        });
    }
    widths
}

#[expect(clippy::too_many_arguments, reason = "what a cell depends on")]
fn cell(
    line: &mut String,
    entry: &Entry,
    column: Column,
    width: Width,
    shown: &Shown<'_>,
    paint: Paint,
    separator: Option<&str>,
    is_last: bool,
) {
    let Width { told, whole: width } = if separator.is_some() { Width::default() } else { width };
    let mut percent = |weight: u64| {
        let percent = weight as f64 * 100.0 / shown.whole.max(1) as f64;
        let text = match separator {
            Some(_) => format!("{percent:.2}%"),
            None => format!(" {percent:>digits$.2}%", digits = told.saturating_sub(2)),
        };
        paint.percent(line, percent, &text);
        line.extend(std::iter::repeat_n(' ', width.saturating_sub(text.len())));
    };
    match column {
        Column::Total => percent(entry.total_weight),
        Column::Own => percent(entry.self_weight),
        Column::OwnKernel | Column::OwnUser | Column::OwnGuestKernel | Column::OwnGuestUser => {
            percent(entry.self_in(column));
        }
        Column::Samples | Column::Period => {
            let number = if column == Column::Samples { entry.self_samples } else { entry.self_weight };
            let _ = write!(line, "{number:>told$}");
            line.extend(std::iter::repeat_n(' ', width.saturating_sub(told)));
        }
        Column::Key(key) => {
            let start = line.len();
            shown.names.write(line, entry, key);
            match separator.and_then(|text| text.chars().next()) {
                // What separates columns must not be in them.
                Some(separator) if line[start..].contains(separator) => {
                    let text = line[start..].replace(separator, ".");
                    line.replace_range(start.., &text);
                }
                Some(_) => {}
                None => {
                    let text = &line[start..];
                    let length = if text.is_ascii() { text.len() } else { text.chars().count() };
                    if length > width {
                        let end = text.char_indices().nth(width).map_or(text.len(), |(at, _)| at);
                        line.truncate(start + end);
                    } else if key == Key::SymbolSize {
                        line.insert_str(start, &" ".repeat(width - length));
                    } else if !is_last {
                        line.extend(std::iter::repeat_n(' ', width - length));
                    }
                }
            }
        }
        _ => {}
    }
}

/// Why functions have no names.
pub(super) fn missing(out: &mut impl Write, frames: &Frames) -> Result<()> {
    for (told, (name, reason)) in frames.missing().enumerate() {
        if told == 10 {
            writeln!(out, "# and more objects without all their names")?;
            break;
        }
        writeln!(out, "# {name}: {reason}")?;
    }
    Ok(())
}
