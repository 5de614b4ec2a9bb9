//! The list for people.

use crate::doctor::{sign as sign_of, sign_width, wrapped};
use crate::term::foreign::{foreign, left, width};
use crate::term::glyphs::{self, Glyphs};
use anstyle::Style;
use perfuse::catalogue::{Entry, Kind, Listing, Works, fields};
use perfuse::doctor::Verdict;
use perfuse_events::{Catalogue as _, Machine};
use std::io::{self, Write};
use std::sync::Arc;

/// Columns of names, where descriptions follow.
const NAMES: usize = 30;

pub(super) fn print(out: &mut dyn Write, machine: &Machine, all: &Listing, verbose: bool) -> io::Result<()> {
    let glyphs = glyphs::of_the_locale();
    let bold = Style::new().bold();
    out.write_all(summary(&all.entries).as_bytes())?;
    let mut kinds: Vec<(Kind, Vec<&Entry>)> = all.by_kind().into_iter().collect();
    for (_, entries) in &mut kinds {
        entries.sort_by_key(|entry| rank(entry));
    }
    // Kinds with something that works come first.
    kinds.sort_by_key(|(_, entries)| entries.first().map(|entry| rank(entry)));
    for (kind, entries) in kinds {
        let shared = same(&entries);
        writeln!(out, "\n {bold}{}{bold:#}", kind.title())?;
        if let Some(works) = shared {
            told(out, glyphs, works, entries.len())?;
        }
        for entry in &entries {
            line(out, glyphs, entry, shared.is_none())?;
            if verbose {
                details(out, entry)?;
            }
        }
        if verbose && kind == Kind::Form {
            terms(out, machine)?;
        }
    }
    for (kind, reason) in &all.missing {
        writeln!(out, "\n {bold}{}{bold:#}", kind.title())?;
        write!(out, "   {} ", sign_of(glyphs, Verdict::No))?;
        wrapped(out, &glyphs.text(reason), 4 + sign_width(glyphs))?;
    }
    Ok(())
}

/// Working events come first, then those that nobody has tried.
fn rank(entry: &Entry) -> u8 {
    match entry.works {
        Works::Yes | Works::UserOnly => 0,
        Works::Unknown => 1,
        Works::No(_) => 2,
    }
}

/// A line about all of them: how many work.
fn summary(entries: &[Entry]) -> String {
    let tried = entries.iter().filter(|entry| !matches!(entry.works, Works::Unknown)).count();
    let works = entries.iter().filter(|entry| rank(entry) == 0).count();
    let partly = entries.iter().filter(|entry| matches!(entry.works, Works::UserOnly)).count();
    match (tried, partly) {
        (0, _) => String::new(),
        (_, 0) => format!("\n {works} of {tried} work here\n"),
        _ => format!("\n {works} of {tried} work here, {partly} of them for user space only\n"),
    }
}

/// The verdict of all entries, if it is the same for all.
fn same<'e>(entries: &[&'e Entry]) -> Option<&'e Works> {
    let first = &entries.first()?.works;
    let alike = |entry: &&Entry| match (&entry.works, first) {
        (Works::No(a), Works::No(b)) => Arc::ptr_eq(a, b) || a == b,
        (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
    };
    (entries.len() > 1 && !matches!(first, Works::Unknown) && entries.iter().all(alike)).then_some(first)
}

fn sign(glyphs: &Glyphs, works: &Works) -> String {
    match works {
        Works::Yes => sign_of(glyphs, Verdict::Yes),
        Works::UserOnly => sign_of(glyphs, Verdict::Partly),
        Works::No(_) => sign_of(glyphs, Verdict::No),
        Works::Unknown => " ".repeat(sign_width(glyphs)),
    }
}

/// One line about a whole kind.
fn told(out: &mut dyn Write, glyphs: &Glyphs, works: &Works, count: usize) -> io::Result<()> {
    let text = match works {
        Works::Yes => format!("all {count} work here"),
        Works::UserOnly => {
            format!("all {count} work here for user space; this user may not have the kernel's side")
        }
        Works::No(reason) => format!("none of these {count} works here: {}", reason.words),
        Works::Unknown => return Ok(()),
    };
    write!(out, "   {} ", sign(glyphs, works))?;
    wrapped(out, &glyphs.text(&text), 4 + sign_width(glyphs))
}

fn line(out: &mut dyn Write, glyphs: &Glyphs, entry: &Entry, with_sign: bool) -> io::Result<()> {
    let lead = if with_sign { format!("   {} ", sign(glyphs, &entry.works)) } else { "   ".into() };
    let from = if with_sign { 4 + sign_width(glyphs) } else { 3 };
    let names = match entry.kind {
        // The groups of a metric are told last.
        Kind::Pmu | Kind::Metric => entry.name.clone(),
        _ => std::iter::once(&entry.name).chain(&entry.aliases).cloned().collect::<Vec<_>>().join(", "),
    };
    let names = foreign(&names);
    let mut about: Vec<String> = Vec::new();
    about.extend(Some(entry.description.clone()).filter(|text| !text.is_empty()));
    about.extend(Some(format!("in {}", entry.unit)).filter(|_| !entry.unit.is_empty()));
    if entry.kind == Kind::Metric && !entry.aliases.is_empty() {
        about.push(format!("group {}", entry.aliases.join(", ")));
    }
    if let (Works::No(reason), true) = (&entry.works, with_sign) {
        about.push(format!("not here: {}", reason.words));
    }
    if about.is_empty() {
        return writeln!(out, "{lead}{names}");
    }
    write!(out, "{lead}{names}")?;
    let to = from + NAMES;
    match (from + width(&names)) < to {
        true => write!(out, "{}", left("", to - from - width(&names)))?,
        false => write!(out, "\n{}", left("", to))?,
    }
    wrapped(out, &glyphs.text(&about.join("; ")), to)
}

fn details(out: &mut dyn Write, entry: &Entry) -> io::Result<()> {
    let dim = Style::new().dimmed();
    if !entry.terms.is_empty() {
        writeln!(out, "       {dim}{}{dim:#}", entry.terms)?;
    }
    if let Some(encoding) = entry.encoding_text() {
        writeln!(out, "       {dim}{encoding}{dim:#}")?;
    }
    if entry.kind == Kind::Tracepoint {
        for (name, type_) in fields(&entry.name) {
            writeln!(out, "       {dim}{name}: {type_}{dim:#}")?;
        }
    }
    Ok(())
}

/// The terms of every PMU that has some.
fn terms(out: &mut dyn Write, machine: &Machine) -> io::Result<()> {
    for pmu in machine.pmus().unwrap_or_default() {
        let terms = machine.formats(&pmu);
        if terms.is_empty() {
            continue;
        }
        write!(out, "   {pmu}/ takes ")?;
        let places = terms.iter().filter_map(|term| {
            let format = machine.format(&pmu, term)?;
            Some(format!("{term} (at most {:#x})", format.max()))
        });
        let text = places.collect::<Vec<_>>().join(", ");
        wrapped(out, &text, 3 + pmu.chars().count() + 8)?;
    }
    Ok(())
}
