//! The parsed list, before anything was looked up: close enough to the text to print it back.

use crate::lexer::is_mark;
use crate::modifiers::Modifiers;
use crate::names::{Hardware, Software, Tool};
use crate::probe::ProbePlace;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use perfuse_abi::{Breakpoint, CacheEvent};

/// A part of the text, as byte offsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// A parsed list of events. [`FromStr`](core::str::FromStr) reads it, `Display` writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventList {
    /// The parsed text; errors of later steps quote it.
    pub text: String,
    /// Its items in order; at least one when parsed.
    pub items: Vec<Item>,
}

/// A member of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An event of its own.
    Single(Event),
    /// Events to be counted together.
    Group(Group),
}

/// `name{a,b}:modifiers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The name before the brace.
    pub name: Option<String>,
    /// Its members, the leader first; at least one when parsed.
    pub events: Vec<Event>,
    /// Modifiers of all of them, on top of their own.
    pub modifiers: Option<Modifiers>,
    /// Where its modifiers stand.
    pub modifiers_at: Span,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its source of counts.
    pub what: What,
    /// How that was written.
    pub spelling: String,
    /// The terms between slashes; `None` without slashes.
    pub terms: Option<Vec<Term>>,
    /// Letters after the last colon (or slash); `None` without a colon.
    pub modifiers: Option<Modifiers>,
    /// Where it stands in the text.
    pub at: Span,
}

/// The source of an event's counts, as far as its spelling tells.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// A common hardware event.
    Hardware(Hardware),
    /// An event of the kernel.
    Software(Software),
    /// A cache event.
    Cache(CacheEvent),
    /// Something the tool measures itself.
    Tool(Tool),
    /// The cpu's own event code.
    Raw(u64),
    /// Type and config by number.
    Numeric {
        /// `attr.type`.
        type_: u32,
        /// `attr.config`.
        config: u64,
    },
    /// Accesses to memory.
    Breakpoint {
        /// Which.
        access: Breakpoint,
        /// Where.
        addr: u64,
        /// How many bytes; `None` leaves it to the kind of access.
        len: Option<u64>,
    },
    /// A place in a program, a library or the kernel.
    Probe(ProbePlace),
    /// A PMU, if terms follow it, or an event that a PMU names.
    Named(String),
    /// `system:name`, either with wildcards perhaps.
    Tracepoint {
        /// The subsystem.
        system: String,
        /// The tracepoint.
        name: String,
    },
}

/// `key=value`, or `key` alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// Before the equals sign.
    pub key: String,
    /// After it, without quotes.
    pub value: Option<String>,
    /// Where it stands in the text.
    pub at: Span,
}

impl Event {
    /// Its name as perf prints it: what was written, modifiers included, but for tracepoints, whose
    /// modifiers perf drops.
    pub fn display_name(&self) -> String {
        let name = self.terms.iter().flatten().find(|term| term.key == "name");
        match (name.and_then(|term| term.value.clone()), &self.what) {
            (Some(name), _) => name,
            (None, What::Tracepoint { .. }) => self.spelling.clone(),
            (None, _) => alloc::format!("{self}"),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spelling)?;
        if let Some(terms) = &self.terms {
            f.write_str("/")?;
            separated(f, terms)?;
            f.write_str("/")?;
        }
        match &self.modifiers {
            // Directly after the slash, as perf prints it.
            Some(modifiers) if self.terms.is_some() && !modifiers.letters().is_empty() => {
                write!(f, "{modifiers}")
            }
            Some(modifiers) => write!(f, ":{modifiers}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        match &self.value {
            Some(value) if value.is_empty() || value.contains(|c: char| is_mark(c) || c.is_whitespace()) => {
                write!(f, "='{value}'")
            }
            Some(value) => write!(f, "={value}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{{", self.name.as_deref().unwrap_or_default())?;
        separated(f, &self.events)?;
        f.write_str("}")?;
        self.modifiers.as_ref().map_or(Ok(()), |modifiers| write!(f, ":{modifiers}"))
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Single(event) => event.fmt(f),
            Item::Group(group) => group.fmt(f),
        }
    }
}

impl fmt::Display for EventList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        separated(f, &self.items)
    }
}

fn separated<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: &[T]) -> fmt::Result {
    items.iter().enumerate().try_for_each(|(n, item)| {
        f.write_str(if n == 0 { "" } else { "," })?;
        item.fmt(f)
    })
}
