//! Faults of a list, with their places.

use crate::catalogue::Refusal;
use crate::modifiers::{LETTERS, Modifiers, ModifiersError};
use crate::names::known_names;
use crate::nearest::nearest;
use crate::terms;
use crate::tree::Span;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// A list that has no meaning. `Display` is one line; [`explain`](Self::explain) shows the place too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventError {
    text: String,
    at: Span,
    problem: Box<Problem>,
}

/// Up to so many names are told one by one.
const FEW: usize = 12;

/// The fault.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// Something else should stand here.
    Expected {
        /// The expected text.
        what: &'static str,
        /// The text that stands there; empty at the end.
        found: String,
    },
    /// A single quote that is never closed.
    OpenQuote,
    /// No event has this name.
    UnknownEvent {
        /// The name.
        name: String,
        /// Names like it.
        nearest: Vec<String>,
    },
    /// A cache that does not do this.
    ImpossibleCache,
    /// A part of a cache event's name that is no operation and no result, or the second of its kind.
    StrayCachePart,
    /// Not a number, or too large.
    BadNumber(String),
    /// Wrong modifier letters.
    Modifiers(ModifiersError),
    /// The machine has no such tracepoint.
    UnknownTracepoint {
        /// As written.
        name: String,
        /// Names like it.
        nearest: Vec<String>,
    },
    /// The machine's tracepoints cannot be looked at.
    NoTracepoints {
        /// As written.
        name: String,
        /// Why.
        reason: String,
        /// Events like it, if it may be a misspelt event with modifiers.
        nearest: Vec<String>,
    },
    /// A term that this event does not take.
    UnknownTerm {
        /// The term.
        key: String,
        /// The PMU that does not have it; may be empty.
        pmu: String,
        /// Terms like it.
        nearest: Vec<String>,
        /// All terms there are, if they are few.
        known: Vec<String>,
    },
    /// A term that wants a value, or a value it does not take.
    TermValue(String),
    /// A value that has no room.
    TermTooLarge {
        /// The term.
        key: String,
        /// The largest value.
        max: u64,
    },
    /// A term without which an event of a PMU has no meaning.
    MissingParameter(String),
    /// The machine has no such PMU.
    UnknownPmu {
        /// As written.
        name: String,
        /// PMUs like it.
        nearest: Vec<String>,
        /// All there are.
        known: Vec<String>,
    },
    /// The machine's PMUs cannot be looked at.
    NoPmus {
        /// As written.
        name: String,
        /// Why.
        reason: String,
    },
    /// A probe that cannot be made.
    NoProbe {
        /// As written.
        name: String,
        /// Why.
        reason: String,
    },
}

impl Problem {
    /// `more` are the names of the machine, next to those that every machine has.
    pub(crate) fn unknown_event(name: &str, more: &[String]) -> Self {
        let known = known_names().into_iter().chain(more.iter().map(String::as_str));
        Problem::UnknownEvent { name: name.into(), nearest: nearest(name, known) }
    }

    pub(crate) fn unknown_pmu(name: &str, known: &[String]) -> Self {
        let close = nearest(name, known.iter().map(String::as_str));
        let few = if known.len() <= FEW { known.to_vec() } else { Vec::new() };
        Problem::UnknownPmu { name: name.into(), nearest: close, known: few }
    }

    pub(crate) fn unknown_term<'a>(key: &str, pmu: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let known: Vec<&str> = known.collect();
        // One that exists may still mean nothing for this event.
        let close = nearest(key, known.iter().copied().filter(|name| *name != key));
        let few = known.len() <= 2 * FEW && close.is_empty();
        let known = if few { known.into_iter().map(Into::into).collect() } else { Vec::new() };
        Problem::UnknownTerm { key: key.into(), pmu: pmu.into(), nearest: close, known }
    }

    pub(crate) fn probe(name: &str, refusal: Refusal) -> Self {
        let reason = match refusal {
            Refusal::Unreadable(reason) => reason,
            Refusal::Unknown => "there is no such place".into(),
        };
        Problem::NoProbe { name: name.into(), reason }
    }

    pub(crate) fn tracepoint(system: &str, name: &str, refusal: Refusal, known: &[String]) -> Self {
        let full = alloc::format!("{system}:{name}");
        // A misspelt event with modifiers looks like a tracepoint.
        let mut events = match Modifiers::new(name) {
            Ok(_) => nearest(system, known_names()),
            Err(_) => Vec::new(),
        };
        events.iter_mut().for_each(|event| *event = alloc::format!("{event}:{name}"));
        match refusal {
            Refusal::Unreadable(reason) => Problem::NoTracepoints { name: full, reason, nearest: events },
            Refusal::Unknown => {
                let close = nearest(&full, known.iter().map(String::as_str));
                Problem::UnknownTracepoint {
                    name: full,
                    nearest: if close.is_empty() { events } else { close },
                }
            }
        }
    }

    /// Names that may have been meant.
    pub fn nearest(&self) -> &[String] {
        match self {
            Problem::UnknownEvent { nearest, .. }
            | Problem::UnknownTracepoint { nearest, .. }
            | Problem::UnknownPmu { nearest, .. }
            | Problem::UnknownTerm { nearest, .. }
            | Problem::NoTracepoints { nearest, .. } => nearest,
            _ => &[],
        }
    }
}

impl EventError {
    pub(crate) fn new(text: &str, at: Span, problem: Problem) -> Self {
        EventError { text: text.into(), at, problem: Box::new(problem) }
    }

    /// The fault.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Where in the text, in bytes.
    pub fn span(&self) -> Span {
        self.at
    }

    /// The first wrong column, from 1, in characters.
    pub fn column(&self) -> usize {
        self.text[..self.at.start].chars().count() + 1
    }

    /// Three lines: what is wrong, the part of the list, and carets below the wrong part with the names that may have
    /// been meant.
    pub fn explain(&self) -> String {
        use fmt::Write;
        let mut out = alloc::format!("{self}");
        // At most this much of a long list, on either side.
        const CONTEXT: usize = 30;
        let before: Vec<char> = self.text[..self.at.start].chars().collect();
        let wrong: Vec<char> = self.text[self.at.start..self.at.end].chars().take(2 * CONTEXT).collect();
        let after: Vec<char> = self.text[self.at.end..].chars().collect();
        let cut_before = before.len().saturating_sub(CONTEXT);
        let cut_after = after.len().min(CONTEXT);
        let line = |c: &char| if c.is_control() { ' ' } else { *c };
        let (dots, tail) =
            (if cut_before > 0 { "…" } else { "" }, if cut_after < after.len() { "…" } else { "" });
        let shown: String =
            before[cut_before..].iter().chain(&wrong).chain(&after[..cut_after]).map(line).collect();
        let indent = before.len() - cut_before + dots.chars().count();
        // Writing to a string does not fail.
        let _ = write!(
            out,
            "\n  {dots}{shown}{tail}\n  {:indent$}{:^<width$}",
            "",
            "",
            width = wrong.len().max(1)
        );
        if !self.problem.nearest().is_empty() {
            let _ = write!(out, " did you mean {}?", self.problem.nearest().join(", "));
        }
        out
    }
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column(), self.problem)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Expected { what, found } if found.is_empty() => {
                write!(f, "{what} is missing at the end")
            }
            Problem::Expected { what, found } => write!(f, "expected {what}, found '{found}'"),
            Problem::OpenQuote => f.write_str("a quote is not closed"),
            Problem::UnknownEvent { name, .. } => write!(f, "there is no event '{name}'"),
            Problem::ImpossibleCache => f.write_str("no cpu counts this for that cache"),
            Problem::StrayCachePart => f.write_str(
                "expected an operation (load, store, prefetch) or a result (refs, misses), each at most once",
            ),
            Problem::BadNumber(text) => write!(f, "'{text}' is no number, or too large"),
            Problem::Modifiers(error @ ModifiersError::Unknown(_)) => {
                write!(f, "{error}; there are {LETTERS}")
            }
            Problem::Modifiers(error) => error.fmt(f),
            Problem::UnknownTracepoint { name, .. } => write!(f, "there is no event or tracepoint '{name}'"),
            Problem::NoTracepoints { name, reason, .. } => {
                write!(f, "cannot look up the tracepoint '{name}': {reason}")
            }
            Problem::UnknownTerm { key, pmu, known, .. } => {
                match pmu.is_empty() {
                    true => write!(f, "the term '{key}' means nothing here")?,
                    false => write!(f, "the PMU {pmu} has no term or event '{key}'")?,
                }
                if known.is_empty() { Ok(()) } else { write!(f, "; there are {}", known.join(", ")) }
            }
            Problem::TermValue(key) => write!(f, "the term '{key}' wants {}", terms::values(key)),
            Problem::TermTooLarge { key, max } => {
                write!(f, "there is no room for this value of the term '{key}'; the largest is {max:#x}")
            }
            Problem::MissingParameter(key) => {
                write!(f, "this event wants to be told its '{key}': add the term {key}=...")
            }
            Problem::UnknownPmu { name, known, .. } => {
                write!(f, "there is no PMU or event '{name}'")?;
                if known.is_empty() { Ok(()) } else { write!(f, "; the PMUs are {}", known.join(", ")) }
            }
            Problem::NoPmus { name, reason } => write!(f, "cannot look up the PMU '{name}': {reason}"),
            Problem::NoProbe { name, reason } => write!(f, "cannot make the probe '{name}': {reason}"),
        }
    }
}

impl core::error::Error for EventError {}
