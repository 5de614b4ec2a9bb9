//! Questions to a machine about its events, as a trait: the running machine, a recorded one, or
//! none.

use crate::format::Format;
use crate::probe::ProbePlace;
use alloc::string::String;
use alloc::vec::Vec;

/// Knows the events of one machine. An event without an answer does not exist on that machine.
pub trait Catalogue {
    /// The id of a tracepoint: `attr.config`.
    fn tracepoint(&self, system: &str, name: &str) -> Result<u64, Refusal>;

    /// All tracepoints, as (system, name), for wildcards and suggestions. Asked for only when needed.
    fn tracepoints(&self) -> Result<Vec<(String, String)>, Refusal>;

    /// The names of all PMUs, in order. Asked for only when needed.
    fn pmus(&self) -> Result<Vec<String>, Refusal> {
        Ok(Vec::new())
    }

    /// A PMU, by its name.
    fn pmu(&self, _name: &str) -> Result<Pmu, Refusal> {
        Err(Refusal::Unknown)
    }

    /// The PMUs of the cores where these are of several kinds: each has its own `cycles`. Empty elsewhere.
    fn cores(&self) -> Vec<String> {
        Vec::new()
    }

    /// Where a term of a PMU goes.
    fn format(&self, _pmu: &str, _term: &str) -> Option<Format> {
        None
    }

    /// The terms of a PMU, for lists and suggestions.
    fn formats(&self, _pmu: &str) -> Vec<String> {
        Vec::new()
    }

    /// An event that a PMU names.
    fn pmu_event(&self, _pmu: &str, _name: &str) -> Option<PmuEvent> {
        None
    }

    /// All events that a PMU names, for lists and suggestions.
    fn pmu_events(&self, _pmu: &str) -> Vec<String> {
        Vec::new()
    }

    /// Where a probe is; a compiler may have put it at several places.
    fn probe(&self, _place: &ProbePlace) -> Result<Vec<Probe>, Refusal> {
        Err(Refusal::Unreadable("nobody was asked to look into files".into()))
    }
}

/// A PMU, as far as all of its events share it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pmu {
    /// `attr.type` of its events.
    pub type_: u32,
    /// The cpus on which its events are to be opened, if it says so: one for each thing it measures (an
    /// uncore PMU's `cpumask`), or all it belongs to (`cpus` of one of several kinds of cores).
    pub cpus: Option<Vec<u32>>,
    /// It belongs to the cores of a cpu.
    pub is_core: bool,
}

/// An event that a PMU names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PmuEvent {
    /// Its terms, such as `event=0x3c,umask=0x1`.
    pub terms: String,
    /// The factor of counts, and the unit they then have.
    pub scale: Option<Scale>,
    /// Its value is a state, not a number of occurrences: two of them have no difference.
    pub snapshot: bool,
    /// Counted once for a whole package.
    pub per_package: bool,
    /// A sentence about it.
    pub description: String,
}

/// A factor with the unit of the product.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// The factor of counts.
    pub factor: f64,
    /// The unit of the product; may be empty.
    pub unit: String,
}

// A factor that is read from a file is a number.
impl Eq for Scale {}

/// Where a probe is, in the terms of the PMU that makes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Probe {
    /// The function, where the place is a pattern for several; else empty.
    pub symbol: String,
    /// `attr.type`: the PMU `uprobe` or `kprobe`.
    pub type_: u32,
    /// The offset in the file; for the kernel, from the function.
    pub offset: u64,
    /// The offset in the file of the counter that says somebody listens; 0: none.
    pub semaphore: u64,
}

/// Why a catalogue does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such event.
    Unknown,
    /// The machine cannot be asked; the reason, and what would help, for people.
    Unreadable(String),
}

/// Knows nothing about any machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCatalogue;

fn nobody<T>() -> Result<T, Refusal> {
    Err(Refusal::Unreadable("no machine was given to look at".into()))
}

impl Catalogue for NoCatalogue {
    fn tracepoint(&self, _system: &str, _name: &str) -> Result<u64, Refusal> {
        nobody()
    }

    fn tracepoints(&self) -> Result<Vec<(String, String)>, Refusal> {
        nobody()
    }

    fn pmus(&self) -> Result<Vec<String>, Refusal> {
        nobody()
    }
}

/// Whether `name` matches `pattern`: `*`, `?`, `[a-c]`, `[!a]`, as shells do.
pub fn glob(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    // Where to go on when what follows the last star does not match: one character further.
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
                continue;
            }
            Some('[') => {
                if let Some(after) = class(&pattern[p..], name[n]) {
                    (p, n) = (p + after, n + 1);
                    continue;
                }
            }
            Some(&c) if c == '?' || c == name[n] => {
                (p, n) = (p + 1, n + 1);
                continue;
            }
            _ => {}
        }
        let Some((at, from)) = star else {
            return false;
        };
        star = Some((at, from + 1));
        (p, n) = (at + 1, from + 1);
    }
    pattern[p..].iter().all(|&c| c == '*')
}

/// The length of the bracket expression at the start of `pattern` if it takes `c`.
fn class(pattern: &[char], c: char) -> Option<usize> {
    let negated = matches!(pattern.get(1), Some('!' | '^'));
    let first = if negated { 2 } else { 1 };
    let close = first + 1 + pattern.get(first + 1..)?.iter().position(|&c| c == ']')?;
    let members = &pattern[first..close];
    let mut found = false;
    let mut at = 0;
    while at < members.len() {
        match members[at..] {
            [low, '-', high, ..] => {
                found |= (low..=high).contains(&c);
                at += 3;
            }
            [member, ..] => {
                found |= member == c;
                at += 1;
            }
            [] => {}
        }
    }
    (found != negated).then_some(close + 1)
}

/// Whether a name has wildcards.
pub fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn globs() {
        for (pattern, name) in [
            ("sched_*", "sched_switch"),
            ("*wak*up*", "sched_wakeup_new"),
            ("a?c", "abc"),
            ("*", ""),
            ("[a-c]x", "bx"),
            ("[!a]x", "bx"),
            ("a*b*c", "axxbxbc"),
            ("[]]", "]"),
        ] {
            assert!(glob(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("sched_", "sched_switch"), ("a?c", "ac"), ("[!b]x", "bx"), ("[a", "a"), ("", "a"), ("*b", "ba")]
        {
            assert!(!glob(pattern, name), "{pattern} {name}");
        }
    }
}
