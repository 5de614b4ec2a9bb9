//! Texts for people, during and after a recording: a line on a terminal that is gone at the end, remarks with what
//! would help, and a summary.

use super::plan::{Asked, Destination};
use crate::common::style;
use crate::term::foreign::{beginning, cut, foreign};
use crate::term::glyphs::{self, Glyphs};
use crate::term::number::{bytes, grouped};
use crate::term::out;
use perfuse_record::{Chains, Ended, Observer, Plan, Remark, Sums, Target, Written};
use perfuse_sys::signal::SIGTERM;
use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

/// How often the line is written.
const EVERY: Duration = Duration::from_millis(250);

/// Standard error, as a recording uses it. When it is gone there is nobody to talk to, and the recording
/// goes on.
pub(super) struct Live<'a> {
    asked: &'a Asked,
    glyphs: &'static Glyphs,
    /// A line is written.
    on: bool,
    shown: bool,
    subject: String,
    start: Instant,
    due: Instant,
    before: (Instant, u64),
}

/// The command, processes, threads or cpus that are recorded, in words.
fn subject(plan: &Plan, pid: Option<u32>) -> String {
    let words: Vec<_> = plan.command.iter().map(|word| word.to_string_lossy()).collect();
    let numbers = |all: &[u32]| all.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    match (&plan.target, pid, plan.follow.as_deref()) {
        (Target::Command, Some(pid), _) | (Target::Cpus(_), Some(pid), Some([])) => {
            format!("{} [pid {pid}]", words.join(" "))
        }
        (Target::Cpus(_), _, Some(pids @ [_, ..])) => format!("process {}", numbers(pids)),
        (Target::Processes(pids), ..) => format!("process {}", numbers(pids)),
        (Target::Threads(tids), ..) => format!("thread {}", numbers(tids)),
        (Target::Cpus(cpus), ..) => format!("{} cpus", cpus.len()),
        _ => words.join(" "),
    }
}

/// The text of a remark, with what would help.
fn words(remark: &Remark, asked: &Asked) -> String {
    match remark {
        Remark::Following(_) => format!("{remark} (--follow)"),
        Remark::ProbesAlone(_) => format!("{remark}; -a records all"),
        Remark::UserOnly(_) if asked.output.is_file() => {
            format!("{remark} (perfuse doctor tells more)")
        }
        Remark::LargeRings(held) => format!(
            "the rings hold {} until they are written: files may exceed the size of --switch-output",
            bytes(*held as f64)
        ),
        Remark::Incomplete { sums, copied } if sums.deeper > 0 && *copied < Chains::MOST_STACK_BYTES => {
            format!("{remark}; --call-graph unwound,{} copies more", Chains::MOST_STACK_BYTES)
        }
        Remark::SizeReached => "the size of --max-size is reached".to_owned(),
        Remark::Lost { records, ring } => format!(
            "{} records lost: rings of {} were full before they could be read; larger ones: -m {}M; \
             fewer records: a lower -F, a higher -c, --filter",
            grouped(*records),
            bytes(*ring as f64),
            (ring >> 20).max(1) * 8
        ),
        Remark::Unseen { short: None, embedded: false, late: false, .. } => {
            format!("{remark}; --follow sees those, where whole cpus may be sampled")
        }
        remark => remark.to_string(),
    }
}

impl<'a> Live<'a> {
    pub(super) fn new(asked: &'a Asked) -> Self {
        let now = Instant::now();
        Live {
            asked,
            glyphs: glyphs::of_the_locale(),
            on: io::stderr().is_terminal() && !asked.quiet,
            shown: false,
            subject: String::new(),
            start: now,
            due: now + EVERY,
            before: (now, 0),
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            out::progress_ends();
        }
    }

    /// Says something that matters to what is recorded.
    fn warn(&mut self, text: &str) {
        self.clear();
        if !self.asked.quiet {
            let _ = writeln!(out::stderr(), "{} {text}", self.glyphs.warning);
        }
    }
}

impl Observer for Live<'_> {
    fn begins(&mut self, plan: &Plan, command: Option<u32>) {
        self.subject = cut(&foreign(&subject(plan, command)), 60, "..").into_owned();
        self.start = Instant::now();
        (self.due, self.before) = (self.start + EVERY, (self.start, 0));
        self.asked.remarks.iter().for_each(|remark| self.warn(remark));
    }

    fn remark(&mut self, remark: &Remark) {
        match remark {
            Remark::Control(line) => {
                self.clear();
                let _ = writeln!(out::stderr(), "{}", foreign(line));
            }
            remark => self.warn(&words(remark, self.asked)),
        }
    }

    fn detail(&mut self, text: &str) {
        if self.asked.plan.verbose {
            self.clear();
            let _ = writeln!(out::stderr(), "# {text}");
        }
    }

    fn due(&self) -> Option<Instant> {
        self.on.then_some(self.due)
    }

    /// Writes the line if it is time.
    fn progress(&mut self, sums: Sums) -> ControlFlow<()> {
        let now = Instant::now();
        if !self.on || now < self.due {
            return ControlFlow::Continue(());
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
        let width = style::columns(io::stderr()) - 1;
        let subject =
            cut(&self.subject, width.saturating_sub("recording ".len() + facts.chars().count()), "..");
        let line = format!("recording {subject}{facts}");
        out::progress(beginning(&line, width).0);
        self.shown = true;
        (self.due, self.before) = (now + EVERY, (now, sums.samples));
        ControlFlow::Continue(())
    }

    /// The last words.
    fn ends(&mut self, end: &Ended) {
        self.clear();
        if self.asked.quiet {
            return;
        }
        let dot = self.glyphs.dot;
        let exit = end.status.map(|status| match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit {code}"),
            (None, Some(SIGTERM)) if end.stopped => "stopped".to_owned(),
            (None, signal) => format!("killed by signal {}", signal.unwrap_or(0)),
        });
        let mut facts = vec![format!("{:.2} s", self.start.elapsed().as_secs_f64())];
        facts.extend(exit);
        let of = if end.events > 1 { format!(" of {} events", end.events) } else { String::new() };
        facts.push(format!("{} samples{of}", grouped(end.sums.samples)));
        facts.push(format!("{} lost", grouped(end.sums.lost)));
        facts.extend(end.stacks.map(|stacks| {
            format!("{} of {} stacks incomplete", grouped(stacks.incomplete()), grouped(stacks.stacks))
        }));
        let _ = writeln!(out::stderr(), "{}", facts.join(&format!(" {dot} ")));
    }

    fn wrote(&mut self, written: &Written) {
        self.clear();
        if self.asked.quiet {
            return;
        }
        let ratio = match written.compressed {
            Some((before, after)) if after > 0 => {
                format!(", compressed {:.1} times", before as f64 / after as f64)
            }
            _ => String::new(),
        };
        let name = match (written.path.as_deref(), &self.asked.output) {
            (Some(path), _) => foreign(path.as_os_str().as_encoded_bytes()).into_owned(),
            (None, Destination::PipeAtHand) => "into the pipe that standard output is".to_owned(),
            (None, _) => "to standard output".to_owned(),
        };
        let hint = if self.asked.output == Destination::PipeAtHand { "; -o FILE writes a file" } else { "" };
        let _ = writeln!(out::stderr(), "wrote {name} ({}{ratio}){hint}", bytes(written.bytes as f64));
    }
}
