//! The report for people: what works, why the rest does not, and what the system is set to.

use super::report::{Check, Reason, Report, Verdict};
use anstyle::{AnsiColor, Style};
use std::io::{self, Write};

/// The width lines are broken at.
const WIDTH: usize = 80;

/// How to write: with all of Unicode, or where the locale has not got it, without.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Script {
    unicode: bool,
}

impl Script {
    /// As the locale says: `LC_ALL`, `LC_CTYPE` or `LANG`, the first that is set.
    pub(crate) fn of_the_locale() -> Self {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        Script { unicode: locale.contains("utf-8") || locale.contains("utf8") }
    }

    /// Replaces what the locale has no character for.
    pub(crate) fn text(self, text: &str) -> String {
        if self.unicode {
            return text.to_owned();
        }
        let mut plain = String::with_capacity(text.len());
        for c in text.chars() {
            match c {
                '✓' => plain.push_str("ok"),
                '▲' => plain.push_str(" !"),
                '✗' => plain.push_str("NO"),
                '→' => plain.push_str("->"),
                '·' => plain.push('-'),
                '…' => plain.push_str("..."),
                '×' => plain.push('x'),
                '“' | '”' => plain.push('"'),
                c if c.is_ascii() => plain.push(c),
                _ => plain.push('?'),
            }
        }
        plain
    }

    /// The sign of a verdict, in its colour.
    pub(crate) fn sign(self, verdict: Verdict) -> String {
        let (sign, colour) = match verdict {
            Verdict::Yes => ("✓", AnsiColor::Green),
            Verdict::Partly => ("▲", AnsiColor::Yellow),
            Verdict::No => ("✗", AnsiColor::Red),
        };
        let style = Style::new().fg_color(Some(colour.into()));
        format!("{style}{}{style:#}", self.text(sign))
    }

    /// Columns a sign takes.
    pub(crate) fn sign_width(self) -> usize {
        if self.unicode { 1 } else { 2 }
    }
}

/// Writes `text` from the current column `from` on, broken between words so that nothing but a single
/// long word passes column [`WIDTH`]; further lines start at column `from` too.
pub(crate) fn wrapped(out: &mut dyn Write, text: &str, from: usize) -> io::Result<()> {
    let mut column = from;
    for (index, word) in text.split(' ').enumerate() {
        let width = word.chars().count();
        if index > 0 && column + 1 + width > WIDTH {
            write!(out, "\n{:from$}", "")?;
            column = from;
        } else if index > 0 {
            write!(out, " ")?;
            column += 1;
        }
        write!(out, "{word}")?;
        column += width;
    }
    writeln!(out)
}

/// Writes remedies, one to a line, from column `from` on.
pub(crate) fn remedies(
    out: &mut dyn Write,
    script: Script,
    remedies: &[String],
    from: usize,
) -> io::Result<()> {
    for remedy in remedies {
        let arrow = script.text("→ ");
        write!(out, "{:from$}{arrow}", "")?;
        wrapped(out, &script.text(remedy), from + arrow.chars().count())?;
    }
    Ok(())
}

/// Writes it all.
pub(super) fn print(out: &mut dyn Write, script: Script, report: &Report) -> io::Result<()> {
    let bold = Style::new().bold();
    let heading = |out: &mut dyn Write, text: &str| writeln!(out, "\n {bold}{text}{bold:#}");
    write!(out, " ")?;
    wrapped(out, &script.text(&headline(report)), 1)?;

    heading(out, "What you can do here")?;
    let width = report.checks.iter().map(|check| check.title.len()).max().unwrap_or(0);
    for check in &report.checks {
        line(out, script, check.verdict, check.title, width, &seen(check))?;
    }

    let groups = by_cause(&report.checks);
    if !groups.is_empty() {
        heading(out, "Why, and what would change it")?;
    }
    for (titles, verdict, reason) in groups {
        write!(out, "   {} ", script.sign(verdict))?;
        let from = 4 + script.sign_width();
        wrapped(out, &titles.join(", "), from)?;
        let errno = reason.errno.as_ref().map_or_else(String::new, |errno| format!(" ({errno})"));
        write!(out, "{:from$}", "")?;
        wrapped(out, &script.text(&format!("{}{errno}: {}", reason.tried, reason.explanation)), from)?;
        remedies(out, script, &reason.remedies, from)?;
    }

    heading(out, "Settings")?;
    let width = report.settings.iter().map(|setting| setting.title.len()).max().unwrap_or(0);
    for setting in &report.settings {
        line(out, script, setting.verdict, setting.title, width, &setting.text)?;
        remedies(out, script, &setting.remedies, 6 + script.sign_width() + width)?;
    }
    if let Some(text) = &report.normal_user {
        let from = 6 + script.sign_width() + width;
        write!(out, "   {:1$} {2:width$}  ", "", script.sign_width(), "other users")?;
        wrapped(out, &script.text(text), from)?;
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
    writeln!(out, "\n {}", script.text(&text))
}

fn line(
    out: &mut dyn Write,
    script: Script,
    verdict: Verdict,
    title: &str,
    width: usize,
    text: &str,
) -> io::Result<()> {
    write!(out, "   {} {title:width$}  ", script.sign(verdict))?;
    wrapped(out, &script.text(text), 6 + script.sign_width() + width)
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

/// What a check's line says: what was seen, or in a word why not.
fn seen(check: &Check) -> String {
    match &check.reason {
        Some(reason) if check.detail.is_empty() => {
            let errno = reason.errno.as_ref().map_or_else(String::new, |errno| format!(" ({errno})"));
            format!("{}{errno}", reason.words)
        }
        _ => check.detail.clone(),
    }
}

/// One entry for each cause: whatever has the same cause has the same remedy.
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

    #[test]
    fn without_unicode_nothing_is_lost() {
        let plain = Script { unicode: false };
        assert_eq!(plain.text("✗ 516 × 3 → “raise” it …"), "NO 516 x 3 -> \"raise\" it ...");
        assert!(plain.sign(Verdict::Partly).contains(" !"));
    }
}
