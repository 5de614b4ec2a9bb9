//! A report as text: comment lines, a header, columns of fixed width, trees under them.

use super::chains::{Drawing, Style};
use super::keys::{Column, Names};
use super::profile::Entry;
use super::{Args, EventProfile, Plan, Summary};
use crate::exit::Result;
use crate::recording::frames::Frames;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};

/// On a terminal whose width is not told, lines are cut here.
const WIDTH: usize = 80;

pub(super) fn print(
    out: &mut impl Write,
    args: &Args,
    plan: &Plan,
    event: &mut EventProfile,
    summary: &Summary,
) -> Result<()> {
    let name = event.name.clone();
    let tree = event.profile.finish();
    let profile = tree.profile;
    let names = Names {
        frames: &summary.frames,
        session: &summary.session,
        context_keys: &plan.context_keys,
        contexts: &profile.contexts,
    };
    let (entries, count) = super::entries(args, plan, &tree, &names);
    writeln!(out, "# Samples: {} of event '{name}'", profile.samples)?;
    writeln!(out, "# Event count (approx.): {}\n#", profile.weight)?;
    let titles: Vec<&str> = plan.columns.iter().map(|&column| title(column, plan)).collect();
    let cell = |entry: &Entry, column| cell(entry, column, &names, profile.weight);
    let mut widths: Vec<usize> = titles.iter().map(|title| title.len()).collect();
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|entry| plan.columns.iter().map(|&column| cell(entry, column)).collect())
        .collect();
    for row in &rows {
        for (width, text) in widths.iter_mut().zip(row) {
            *width = (*width).max(text.chars().count());
        }
    }
    let line = |texts: &[&str]| {
        let mut line = String::new();
        for (index, (text, &width)) in texts.iter().zip(&widths).enumerate() {
            let between = if index > 0 { "  " } else { "" };
            let _ = match plan.columns[index] {
                Column::Key(_) => write!(line, "{between}{text:<width$}"),
                _ => write!(line, "{between}{text:>width$}"),
            };
        }
        line.trim_end().to_owned()
    };
    let dots: Vec<String> = widths.iter().map(|&width| ".".repeat(width)).collect();
    let limit = std::io::stdout().is_terminal().then(terminal_width);
    let mut cut = 0;
    let mut put = |out: &mut dyn Write, line: String| match limit {
        Some(limit) if line.chars().count() > limit => {
            cut += 1;
            let start: String = line.chars().take(limit.saturating_sub(1)).collect();
            writeln!(out, "{start}…")
        }
        _ => writeln!(out, "{line}"),
    };
    put(out, format!("# {}", line(&titles)))?;
    put(out, format!("# {}", line(&dots.iter().map(String::as_str).collect::<Vec<_>>())))?;
    writeln!(out, "#")?;
    let drawing = Drawing {
        frames: &summary.frames,
        style: plan.style,
        least_percent: plan.least_percent,
        total: profile.weight.max(1),
        to_callees: plan.to_callees,
    };
    for (entry, row) in entries.iter().zip(&rows) {
        put(out, format!("  {}", line(&row.iter().map(String::as_str).collect::<Vec<_>>())))?;
        if plan.style != Style::None {
            let mut text = String::new();
            drawing.draw(&mut text, &tree, entry);
            out.write_all(text.as_bytes())?;
        }
    }
    writeln!(out)?;
    if count > entries.len() {
        let limit = args.percent_limit;
        writeln!(out, "# {} of {count} entries shown; the others are below {limit} %", entries.len())?;
    }
    if cut > 0 {
        writeln!(out, "# {cut} lines were cut to the terminal; into a pipe they are whole")?;
    }
    Ok(())
}

fn terminal_width() -> usize {
    std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).unwrap_or(WIDTH).max(20)
}

fn title(column: Column, plan: &Plan) -> &'static str {
    match column {
        Column::Total => "Children",
        Column::Own if plan.columns.contains(&Column::Total) => "    Self",
        Column::Own => "Overhead",
        Column::Samples => "     Samples",
        Column::Period => "      Period",
        Column::Key(key) => key.title(),
    }
}

fn cell(entry: &Entry, column: Column, names: &Names<'_>, whole: u64) -> String {
    let percent = |weight: u64| format!("{:.2}%", weight as f64 * 100.0 / whole.max(1) as f64);
    match column {
        Column::Total => percent(entry.total_weight),
        Column::Own => percent(entry.self_weight),
        Column::Samples => entry.self_samples.to_string(),
        Column::Period => entry.self_weight.to_string(),
        Column::Key(key) => names.text(entry, key),
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
