//! What a machine has to be asked about its events, as a trait: the running machine, a recorded one, or
//! none.

use alloc::string::String;
use alloc::vec::Vec;

/// Knows the events of one machine.
pub trait Catalogue {
    /// The id of a tracepoint: `attr.config`.
    fn tracepoint(&self, system: &str, name: &str) -> Result<u64, Refusal>;

    /// All tracepoints, as (system, name), for wildcards and suggestions. Asked for only when needed.
    fn tracepoints(&self) -> Result<Vec<(String, String)>, Refusal>;
}

/// Why a catalogue does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such event.
    Unknown,
    /// The machine cannot be asked; the reason, and what would help, for people.
    Unreadable(String),
}

/// Knows nothing about any machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCatalogue;

impl Catalogue for NoCatalogue {
    fn tracepoint(&self, _system: &str, _name: &str) -> Result<u64, Refusal> {
        self.tracepoints().map(|_| 0)
    }

    fn tracepoints(&self) -> Result<Vec<(String, String)>, Refusal> {
        Err(Refusal::Unreadable("no machine was given to look at".into()))
    }
}

/// Whether `name` matches `pattern`: `*`, `?`, `[a-c]`, `[!a]`, as shells do.
pub(crate) fn glob(pattern: &str, name: &str) -> bool {
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
pub(crate) fn is_pattern(name: &str) -> bool {
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
