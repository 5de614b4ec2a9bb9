//! A report as text, as perf writes it: comment lines, a header, columns of fixed width, trees under them.

use super::options::{Plan, Style};
use super::tree::Drawing;
use super::{Args, Shown};
use crate::common::style;
use crate::exit::Result;
use crate::term::foreign::{beginning, cut, field, foreign, left, right, width as columns_of};
use crate::term::lines::{Lines, Paint};
use perfuse_profile::{Column, Entry, Frames, Key, Mode, in_order};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};

/// No column before the last one is wider by itself.
const WIDEST: usize = 1024;

pub(super) fn print(out: &mut impl Write, args: &Args, plan: &Plan, shown: &Shown<'_>) -> Result<()> {
    let separator = args.field_separator.as_deref();
    let elided = elided(args, plan);
    let is_elided = |column: &Column| elided.iter().any(|(of, _)| of == column);
    // Fields of other tracepoints are columns of theirs.
    let is_of_other = |column: &Column| {
        let given = column.key().and_then(|key| plan.given_of(key));
        given.is_some_and(|given| !given.is_of(shown.event))
    };
    let is_left = |column: &Column| !is_elided(column) && !is_of_other(column);
    let columns: Vec<Column> = plan.columns.iter().copied().filter(is_left).collect();
    if !args.quiet {
        what(out, args, plan, &format!("event '{}'", foreign(shown.name)), (shown.samples, shown.whole))?;
    }
    let titles: Vec<String> = columns.iter().map(|&column| title(column, plan)).collect();
    let widths = widths(args, plan, &columns, &titles, shown);
    let paint = Paint(args.text.is_coloured());
    let limit = limit(separator);
    let mut lines = Lines { out, limit, cut: 0 };
    if !args.quiet {
        let mut line = String::from("# ");
        for (index, (title, width)) in titles.iter().zip(&widths).enumerate() {
            let width = width.whole;
            let between = if index > 0 { separator.unwrap_or("  ") } else { "" };
            let _ = match (separator, columns[index]) {
                (Some(separator), _) => write!(line, "{between}{}", field(title.trim_start(), separator)),
                (None, Column::Key(Key::Given(1..))) => write!(line, "{between}{}", right(title, width)),
                (None, Column::Key(_)) => write!(line, "{between}{}", left(beginning(title, width).0, width)),
                (None, _) => write!(line, "{between}{}", right(title, width)),
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
                lines.put_all(&tree)?;
            }
        }
        let cut = lines.cut;
        Ok((text, cut))
    };
    let mut cut = lines.cut;
    in_order(&shown.entries, render, |rendered| -> Result<()> {
        let (text, more) = rendered?;
        cut += more;
        Ok(out.write_all(&text)?)
    })?;
    if !args.quiet {
        writeln!(out, "\n")?;
    }
    super::tell_none_left(out, args, &[shown])?;
    if args.quiet {
        return Ok(());
    }
    super::tell_few(out, args, shown.entries.len(), shown.all.len())?;
    if cut > 0 {
        writeln!(out, "# {cut} lines were cut to the terminal; into a pipe they are whole")?;
    }
    Ok(())
}

/// Writes the lines above a table: the number of samples, their event, and their sum.
pub(super) fn what(
    out: &mut impl Write,
    args: &Args,
    plan: &Plan,
    of: &str,
    (samples, whole): (u64, u64),
) -> Result<()> {
    let (number, unit) = in_thousands(samples);
    let span = match &args.filter.time {
        Some(span) => format!(" (time slices: {})", foreign(span.text())),
        None => String::new(),
    };
    writeln!(out, "# Samples: {number}{unit} of {of}{span}")?;
    match plan.mode {
        Mode::Memory => {
            writeln!(out, "# Total weight : {whole}\n# Sort order   : {}", plan.order_names)?;
        }
        _ => writeln!(out, "# Event count (approx.): {whole}")?,
    }
    if let Some(socket) = args.socket_filter {
        writeln!(out, "# Processor Socket: {socket}")?;
    }
    writeln!(out, "#")?;
    Ok(())
}

/// Writes the lines above all tables.
pub(super) fn head(out: &mut impl Write, args: &Args, plan: &Plan, lost: u64) -> Result<()> {
    if !args.header.header {
        writeln!(out, "# --header and --header-only show what the recording says of itself.\n#")?;
    }
    for (column, value) in elided(args, plan) {
        writeln!(out, "# {}: {}", column.key().map_or("", Key::name), foreign(value))?;
    }
    writeln!(out, "#\n# Total Lost Samples: {lost}\n#")?;
    Ok(())
}

/// Columns for which the user asked for one value alone, with that value: it stands above the table instead.
pub(super) fn elided<'a>(args: &'a Args, plan: &Plan) -> Vec<(Column, &'a str)> {
    let lists = [
        (Key::Dso, &args.functions.dso),
        (Key::Comm, &args.filter.comm),
        (Key::Symbol, &args.functions.symbol),
    ];
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

/// Where lines end, if they are for a terminal.
pub(super) fn limit(separator: Option<&str>) -> Option<usize> {
    let out = std::io::stdout();
    (separator.is_none() && out.is_terminal()).then(|| style::columns(out).max(20))
}

pub(super) fn title(column: Column, plan: &Plan) -> String {
    match column {
        Column::Total => "Children",
        Column::Own if plan.says_self => "Self",
        Column::Own => "Overhead",
        Column::Latency | Column::LatencyTotal => "Latency",
        Column::OwnKernel => "sys",
        Column::OwnUser => "usr",
        Column::OwnGuestKernel => "guest sys",
        Column::OwnGuestUser => "guest usr",
        Column::Samples => "Samples",
        Column::Period => "Period",
        Column::Key(key) => {
            return plan
                .given_of(key)
                .map_or_else(|| key.title().to_owned(), |given| foreign(&given.name).into());
        }
        _ => "",
    }
    .to_owned()
}

/// How wide a column is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Width {
    /// As was asked for, or as wide as its longest text.
    pub(super) told: usize,
    /// With its title, if that is not cut.
    pub(super) whole: usize,
}

/// The widths of columns: each is as wide as its longest text, unless `-w` gives a width.
pub(super) fn widths(
    args: &Args,
    plan: &Plan,
    columns: &[Column],
    titles: &[String],
    shown: &Shown<'_>,
) -> Vec<Width> {
    let has_unresolved = shown.all.iter().any(|entry| shown.view.frames.get(entry.frame).symbol.is_none());
    let mut widths = Vec::with_capacity(columns.len());
    for (index, (&column, title)) in columns.iter().zip(titles).enumerate() {
        let told = args.column_widths.get(index).copied().filter(|&width| width > 0);
        let natural = || match column {
            Column::Key(key) => {
                let least = match key {
                    Key::Dso if has_unresolved && args.functions.dso.is_empty() => 16,
                    Key::Time if args.ns => 16,
                    Key::Weight | Key::LocalWeight | Key::Time | Key::Snoop => 12,
                    Key::InsLat | Key::LocalInsLat | Key::PStageCyc | Key::LocalPStageCyc => 13,
                    Key::CgroupId => 20,
                    Key::Cgroup | Key::Socket | Key::Locked | Key::CodePageSize => 6,
                    Key::Tlb | Key::PhysDaddr | Key::DataPageSize => 22,
                    Key::SymbolFrom | Key::SymbolTo | Key::SymbolDaddr | Key::SymbolIaddr => 22,
                    Key::Mem => 24,
                    Key::Blocked => 10,
                    Key::Addr => 18,
                    key => plan.given_of(key).map_or(3, |given| given.least_width()),
                };
                // There is room for an address next to the name of data.
                let more = match key {
                    Key::SymbolDaddr | Key::SymbolIaddr | Key::Dcacheline => 18,
                    key => plan.given_of(key).map_or(0, |given| usize::from(given.is_open_text())),
                };
                let longest = |entries: &[&Entry]| {
                    let mut text = String::new();
                    let lengths = entries.iter().map(|entry| {
                        text.clear();
                        shown.view.write(&mut text, entry, key);
                        let length = columns_of(&foreign(&text));
                        length + if more > 0 && !text.contains("] 0") { more } else { 0 }
                    });
                    lengths.max().unwrap_or(0)
                };
                let mut whole = least;
                let known = in_order(&shown.all, longest, |length| {
                    whole = whole.max(length);
                    Ok::<(), ()>(())
                });
                // An entry without a cpu sticks out.
                if matches!(key, Key::Cpu | Key::Socket) { least } else { known.map_or(least, |()| whole) }
            }
            Column::Samples | Column::Period => 12,
            Column::LatencyTotal => 7,
            _ => 8,
        };
        // Shares are never narrower than their titles; keys are as narrow as was asked for.
        widths.push(match (told, column.key()) {
            (Some(told), Some(_)) => Width { told, whole: told },
            (Some(told), None) => Width { told, whole: told.max(title.len()) },
            (None, _) => {
                let whole = natural().max(columns_of(title));
                // A single name makes no column of all others' lines, unless there is nothing after it.
                let whole = if index + 1 < columns.len() { whole.min(WIDEST) } else { whole };
                Width { told: whole, whole }
            }
        });
    }
    widths
}

#[expect(clippy::too_many_arguments, reason = "what a cell depends on")]
pub(super) fn cell(
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
        let percent = weight as f64 * 100.0 / shown.whole_of(column).max(1) as f64;
        let text = match separator {
            Some(_) => format!("{percent:.2}%"),
            None => format!(" {}%", right(&format!("{percent:.2}"), told.saturating_sub(2))),
        };
        paint.percent(line, percent, &text);
        line.extend(std::iter::repeat_n(' ', width.saturating_sub(text.len())));
    };
    match column {
        Column::Total => percent(entry.total_weight),
        Column::Own => percent(entry.self_weight),
        Column::Latency => percent(entry.latency.0),
        Column::LatencyTotal => percent(entry.latency.1),
        Column::OwnKernel | Column::OwnUser | Column::OwnGuestKernel | Column::OwnGuestUser => {
            percent(entry.self_in(column));
        }
        Column::Samples | Column::Period => {
            let number = if column == Column::Samples { entry.self_samples } else { entry.self_weight };
            line.push_str(&right(&number.to_string(), told));
            line.extend(std::iter::repeat_n(' ', width.saturating_sub(told)));
        }
        Column::Key(key) => {
            let name = shown.view.text(entry, key);
            match separator {
                Some(separator) => line.push_str(&field(&name, separator)),
                None => {
                    let name = foreign(&name);
                    let name = match key {
                        Key::Cpu | Key::Socket => name,
                        // perf marks no cut where a width was asked for.
                        _ => cut(&name, width, if width == WIDEST { "…" } else { "" }),
                    };
                    match (is_number(key), is_last) {
                        (true, _) => line.push_str(&right(&name, width)),
                        (false, false) => line.push_str(&left(&name, width)),
                        (false, true) => line.push_str(&name),
                    }
                }
            }
        }
        _ => {}
    }
}

/// Whether a key stands at the right side of its column.
fn is_number(key: Key) -> bool {
    matches!(key, Key::SymbolSize | Key::DsoSize | Key::Parallelism)
        || matches!(key, Key::Given(number) if number > 0)
}

/// Why functions have no names.
pub(super) fn missing(out: &mut impl Write, frames: &Frames) -> Result<()> {
    for (told, (name, reason)) in frames.missing().enumerate() {
        if told == 10 {
            writeln!(out, "# and more objects without all their names")?;
            break;
        }
        writeln!(out, "# {}: {}", foreign(name), foreign(&reason))?;
    }
    if frames.missing().next().is_some()
        && std::env::var_os("DEBUGINFOD_URLS").is_some_and(|urls| !urls.is_empty())
    {
        writeln!(
            out,
            "# perfuse buildid-cache --debuginfod -a RECORDING asks the servers of DEBUGINFOD_URLS for files that are not here"
        )?;
    }
    Ok(())
}
