//! What people see while and after a recording: a line on a terminal that is gone at the end, remarks, and
//! a summary.

use super::plan::{Plan, Whom};
use crate::term;
use crate::term::foreign::{beginning, cut, foreign};
use crate::term::glyphs::{self, Glyphs};
use crate::term::number::{bytes, grouped};
use crate::term::out;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// How often the line is written.
const EVERY: Duration = Duration::from_millis(250);

/// Standard error, as a recording uses it. When it is gone there is nobody to talk to, and the recording
/// goes on.
pub(super) struct Live {
    glyphs: &'static Glyphs,
    /// A line is written.
    on: bool,
    quiet: bool,
    shown: bool,
    subject: String,
    start: Instant,
    due: Instant,
    before: (Instant, u64),
}

/// What a recording amounts to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) samples: u64,
    pub(super) bytes: u64,
    pub(super) lost: u64,
}

impl Live {
    pub(super) fn new(plan: &Plan, pid: Option<u32>) -> Self {
        let words: Vec<_> = plan.command.iter().map(|word| word.to_string_lossy()).collect();
        let numbers = |all: &[u32]| all.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let subject = match (&plan.whom, pid) {
            (Whom::Command, Some(pid)) => format!("{} [pid {pid}]", words.join(" ")),
            (Whom::Cpus(_), Some(pid)) if plan.follow.as_ref().is_some_and(Vec::is_empty) => {
                format!("{} [pid {pid}]", words.join(" "))
            }
            (Whom::Cpus(_), _) if plan.follow.as_ref().is_some_and(|pids| !pids.is_empty()) => {
                format!("process {}", numbers(plan.follow.as_deref().unwrap_or_default()))
            }
            (Whom::Command, None) => words.join(" "),
            (Whom::Processes(pids), _) => format!("process {}", numbers(pids)),
            (Whom::Threads(tids), _) => format!("thread {}", numbers(tids)),
            (Whom::Cpus(cpus), _) => format!("{} cpus", cpus.len()),
        };
        let now = Instant::now();
        Live {
            glyphs: glyphs::of_the_locale(),
            on: io::stderr().is_terminal() && !plan.quiet,
            quiet: plan.quiet,
            shown: false,
            subject: cut(&foreign(&subject), 60, "..").into_owned(),
            start: now,
            due: now + EVERY,
            before: (now, 0),
        }
    }

    /// When the line is to be written next, if ever.
    pub(super) fn due(&self) -> Option<Instant> {
        self.on.then_some(self.due)
    }

    /// Writes the line if it is time.
    pub(super) fn show(&mut self, sums: Sums) {
        let now = Instant::now();
        if !self.on || now < self.due {
            return;
        }
        let seconds = (now - self.before.0).as_secs_f64();
        let rate = (sums.samples - self.before.1.min(sums.samples)) as f64 / seconds.max(1e-3);
        let time = now - self.start;
        let lost = if sums.lost > 0 { format!("   lost {}", grouped(sums.lost)) } else { String::new() };
        let facts = format!(
            "  {:02}:{:04.1}   {} samples   {} /s   {}{lost}   ^C stops",
            time.as_secs() / 60,
            time.as_secs_f64() % 60.0,
            grouped(sums.samples),
            grouped(rate.round() as u64),
            bytes(sums.bytes as f64),
        );
        // A line that is wrapped could not be taken back.
        let width = term::columns(io::stderr()) - 1;
        let subject =
            cut(&self.subject, width.saturating_sub("recording ".len() + facts.chars().count()), "..");
        let line = format!("recording {subject}{facts}");
        out::progress(beginning(&line, width).0);
        self.shown = true;
        (self.due, self.before) = (now + EVERY, (now, sums.samples));
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            out::progress_ends();
        }
    }

    /// Says something that matters to what is recorded.
    pub(super) fn warn(&mut self, text: &str) {
        self.clear();
        if !self.quiet {
            let _ = writeln!(out::stderr(), "{} {text}", self.glyphs.warning);
        }
    }

    /// Says something that was asked for.
    pub(super) fn say(&mut self, text: &str) {
        self.clear();
        let _ = writeln!(out::stderr(), "# {text}");
    }

    /// The last words.
    pub(super) fn summary(&mut self, exit: Option<&str>, sums: Sums, events: usize) {
        self.clear();
        if self.quiet {
            return;
        }
        let dot = self.glyphs.dot;
        let mut facts = vec![format!("{:.2} s", self.start.elapsed().as_secs_f64())];
        facts.extend(exit.map(str::to_owned));
        let of = if events > 1 { format!(" of {events} events") } else { String::new() };
        facts.push(format!("{} samples{of}", grouped(sums.samples)));
        facts.push(format!("{} lost", grouped(sums.lost)));
        let _ = writeln!(out::stderr(), "{}", facts.join(&format!(" {dot} ")));
    }

    /// A file is complete.
    pub(super) fn wrote(&mut self, path: Option<&Path>, size: u64, compressed: Option<(u64, u64)>) {
        self.clear();
        if self.quiet {
            return;
        }
        let ratio = match compressed {
            Some((before, after)) if after > 0 => {
                format!(", compressed {:.1} times", before as f64 / after as f64)
            }
            _ => String::new(),
        };
        let name = path.map_or_else(
            || "to standard output".to_owned(),
            |path| foreign(path.as_os_str().as_encoded_bytes()).into_owned(),
        );
        let _ = writeln!(out::stderr(), "wrote {name} ({}{ratio})", bytes(size as f64));
    }
}
