//! The report for people: what works, why the rest does not, and what the system is set to.

use crate::common::columns;
use crate::term::foreign::width;
use crate::term::glyphs::Glyphs;
use crate::term::table::{paint, wrap_from};
use anstyle::{AnsiColor, Style};
use perfuse::doctor::{Check, Reason, Report, Verdict};
use std::io::{self, Write};

/// The width lines are broken at, where there are as many columns.
const WIDTH: usize = 80;
/// And no earlier than here.
const NARROWEST: usize = 40;

/// The sign of a verdict, in its colour.
pub(crate) fn sign(glyphs: &Glyphs, verdict: Verdict) -> String {
    let (sign, colour) = match verdict {
        Verdict::Yes => ("✓", AnsiColor::Green),
        Verdict::Partly => ("▲", AnsiColor::Yellow),
        Verdict::No => ("✗", AnsiColor::Red),
    };
    paint(&glyphs.text(sign), colour.on_default())
}

/// Columns that a sign takes.
pub(crate) fn sign_width(glyphs: &Glyphs) -> usize {
    width(&glyphs.text("✓"))
}

/// Writes a text from the current column on, broken between words; further lines start at that column too.
pub(crate) fn wrapped(out: &mut dyn Write, text: &str, from: usize) -> io::Result<()> {
    out.write_all(wrap_from(text, from, columns().clamp(NARROWEST, WIDTH)).as_bytes())
}

/// Writes remedies, one to a line, from column `from` on.
pub(crate) fn remedies(
    out: &mut dyn Write,
    glyphs: &Glyphs,
    remedies: &[String],
    from: usize,
) -> io::Result<()> {
    for remedy in remedies {
        let arrow = format!("{} ", glyphs.arrow);
        write!(out, "{:from$}{arrow}", "")?;
        wrapped(out, &glyphs.text(remedy), from + width(&arrow))?;
    }
    Ok(())
}

/// Writes it all.
pub(super) fn print(out: &mut dyn Write, glyphs: &Glyphs, report: &Report) -> io::Result<()> {
    let bold = Style::new().bold();
    let heading = |out: &mut dyn Write, text: &str| writeln!(out, "\n {bold}{text}{bold:#}");
    write!(out, " ")?;
    wrapped(out, &glyphs.text(&headline(report)), 1)?;

    heading(out, "Measurements on this machine")?;
    let width = report.checks.iter().map(|check| check.title.len()).max().unwrap_or(0);
    for check in &report.checks {
        line(out, glyphs, check.verdict, check.title, width, &seen(check))?;
    }

    let groups = by_cause(&report.checks);
    if !groups.is_empty() {
        heading(out, "Why, and what would change it")?;
    }
    for (titles, verdict, reason) in groups {
        write!(out, "   {} ", sign(glyphs, verdict))?;
        let from = 4 + sign_width(glyphs);
        wrapped(out, &titles.join(", "), from)?;
        let errno = reason.errno.as_ref().map_or_else(String::new, |errno| format!(" ({errno})"));
        write!(out, "{:from$}", "")?;
        wrapped(out, &glyphs.text(&format!("{}{errno}: {}", reason.tried, reason.explanation)), from)?;
        remedies(out, glyphs, &reason.remedies, from)?;
    }

    heading(out, "Settings")?;
    let width = report.settings.iter().map(|setting| setting.title.len()).max().unwrap_or(0);
    for setting in &report.settings {
        line(out, glyphs, setting.verdict, setting.title, width, &setting.text)?;
        remedies(out, glyphs, &setting.remedies, 6 + sign_width(glyphs) + width)?;
    }
    if let Some(text) = &report.normal_user {
        let from = 6 + sign_width(glyphs) + width;
        write!(out, "   {:1$} {2:width$}  ", "", sign_width(glyphs), "other users")?;
        wrapped(out, &glyphs.text(text), from)?;
    }

    let count = |verdict| {
        let checks = report.checks.iter().filter(|check| check.verdict == verdict).count();
        checks + report.settings.iter().filter(|setting| setting.verdict == verdict).count()
    };
    let text = format!(
        "{} ✗  {} ▲      --json for scripts · --for 'record -a -e cycles' tests one plan",
        count(Verdict::No),
        count(Verdict::Partly)
    );
    writeln!(out, "\n {}", glyphs.text(&text))
}

fn line(
    out: &mut dyn Write,
    glyphs: &Glyphs,
    verdict: Verdict,
    title: &str,
    width: usize,
    text: &str,
) -> io::Result<()> {
    write!(out, "   {} {title:width$}  ", sign(glyphs, verdict))?;
    wrapped(out, &glyphs.text(text), 6 + sign_width(glyphs) + width)
}

/// Kernel, processor, what is below and around, user.
fn headline(report: &Report) -> String {
    let facts = &report.facts;
    let mut parts = vec![format!("Linux {}", facts.release), facts.arch.to_owned()];
    parts.extend(facts.cpu_model.clone());
    parts.extend(facts.hypervisor.as_ref().map(|name| match name.as_str() {
        "a hypervisor" => "virtual machine".to_owned(),
        name => format!("virtual machine ({name})"),
    }));
    parts.extend(facts.container.as_ref().map(|name| format!("{name} container")));
    parts.extend(facts.uid.map(|uid| format!("uid {uid}")));
    parts.join(" · ")
}

/// The text beside a check: the detail that was seen, or the reason in a word.
fn seen(check: &Check) -> String {
    match &check.reason {
        Some(reason) if check.detail.is_empty() => {
            let errno = reason.errno.as_ref().map_or_else(String::new, |errno| format!(" ({errno})"));
            format!("{}{errno}", reason.words)
        }
        _ => check.detail.clone(),
    }
}

/// One entry for each cause: checks with the same cause have the same remedy.
fn by_cause(checks: &[Check]) -> Vec<(Vec<&str>, Verdict, &Reason)> {
    let mut groups: Vec<(Vec<&str>, Verdict, &Reason)> = Vec::new();
    for check in checks {
        let Some(reason) = &check.reason else { continue };
        match groups.iter_mut().find(|(_, _, known)| known.cause == reason.cause) {
            Some((titles, verdict, _)) => {
                titles.push(check.title);
                if check.verdict == Verdict::No {
                    *verdict = Verdict::No;
                }
            }
            None => groups.push((vec![check.title], check.verdict, reason)),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        let mut out = Vec::new();
        wrapped(&mut out, &"word ".repeat(30), 10).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().skip(1).all(|line| line.starts_with("          word")), "{text}");
        // The caller has written the first ten columns.
        assert!(
            text.lines().enumerate().all(|(i, line)| line.len() <= if i == 0 { 70 } else { 80 }),
            "{text}"
        );
    }
}
