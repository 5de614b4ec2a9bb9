//! The words of a line: numbers, times, ranges, and names out of a list.

use perfuse_abi::Errno;
use perfuse_events::nearest;
use std::cell::Cell;
use std::rc::Rc;

/// The fault of a line.
pub(super) type Result<T> = std::result::Result<T, String>;

/// The longest time: eleven days.
const LONGEST_NS: u64 = 1_000_000_000_000_000;

/// The words of a line.
pub(super) struct Words<'t> {
    line: &'t str,
    words: std::iter::Peekable<std::vec::IntoIter<&'t str>>,
    /// The column of the last word, for messages about it.
    column: Rc<Cell<usize>>,
}

impl<'t> Words<'t> {
    pub(super) fn of(line: &'t str, column: Rc<Cell<usize>>) -> Self {
        let said = line.split('#').next().unwrap_or_default();
        let words = said.split_whitespace().collect::<Vec<_>>();
        Words { line: said.trim_end(), words: words.into_iter().peekable(), column }
    }

    pub(super) fn next(&mut self) -> Option<&'t str> {
        let word = self.words.next()?;
        self.column.set(column_of(self.line, word));
        Some(word)
    }

    pub(super) fn need(&mut self, what: &str) -> Result<&'t str> {
        let end = self.line.chars().count();
        self.next().ok_or_else(|| {
            self.column.set(end + 2);
            format!("{what} is missing")
        })
    }

    /// Takes a word if it is the next one.
    pub(super) fn take(&mut self, word: &str) -> bool {
        self.words.peek() == Some(&word) && self.next().is_some()
    }

    /// The next word, unless it is this one.
    pub(super) fn next_but(&mut self, end: &str) -> Option<&'t str> {
        self.words.peek().filter(|word| **word != end)?;
        self.next()
    }

    pub(super) fn number(&mut self, what: &str) -> Result<u64> {
        number(self.need(what)?, what)
    }

    pub(super) fn small(&mut self, what: &str, least: u64, most: u64) -> Result<u64> {
        small(self.need(what)?, what, least, most)
    }

    pub(super) fn time(&mut self) -> Result<u64> {
        time(self.need("the time")?)
    }

    pub(super) fn end(&mut self) -> Result<()> {
        match self.next() {
            None => Ok(()),
            Some(word) => Err(format!("'{word}' is one word too many")),
        }
    }
}

/// The column of a word that is a part of a line, counted in characters from 1.
pub(super) fn column_of(line: &str, word: &str) -> usize {
    let at = word.as_ptr() as usize - line.as_ptr() as usize;
    line[..at].chars().count() + 1
}

/// A number, in decimal or with `0x`; `_` may part its digits.
pub(super) fn number(word: &str, what: &str) -> Result<u64> {
    let parsed = match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(&hex.replace('_', ""), 16),
        None => word.replace('_', "").parse(),
    };
    parsed.map_err(|_| format!("{what} is a number, not '{word}'"))
}

/// A number within limits.
pub(super) fn small(word: &str, what: &str, least: u64, most: u64) -> Result<u64> {
    let value = number(word, what)?;
    if (least..=most).contains(&value) {
        Ok(value)
    } else {
        Err(format!("{what} is {least} to {most}, not {word}"))
    }
}

/// A time in ns.
pub(super) fn time(word: &str) -> Result<u64> {
    let wrong = || format!("a time is a number with ns, us, ms or s, not '{word}'");
    let split = word.find(|c: char| !c.is_ascii_digit() && c != '_').ok_or_else(wrong)?;
    let (digits, unit) = word.split_at(split);
    let scale = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    let ns = digits.replace('_', "").parse::<u64>().ok().and_then(|value| value.checked_mul(scale));
    let ns = ns.ok_or_else(wrong)?;
    if ns > LONGEST_NS { Err(format!("'{word}' is too long, the most is 1000000s")) } else { Ok(ns) }
}

/// A number or a time, or two with `..` between.
pub(super) fn range(word: &str, what: &str) -> Result<(u64, u64)> {
    let value = |word: &str| time(word).or_else(|_| number(word, what));
    match word.split_once("..") {
        Some((low, high)) => Ok((value(low)?, value(high)?)),
        None => value(word).map(|value| (value, value)),
    }
}

/// An errno by its name.
pub(super) fn errno(word: &str) -> Option<Errno> {
    (1..=133).map(Errno).find(|errno| errno.name() == Some(word))
}

/// The message about an unknown word.
pub(super) fn unknown<'a>(
    what: &str,
    word: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
) -> String {
    let near = nearest(word, known.clone());
    let meant = match near.first() {
        Some(near) => format!("do you mean '{near}'? "),
        None => String::new(),
    };
    let known: Vec<&str> = known.into_iter().collect();
    format!("{what} '{word}': {meant}there are {}", known.join(", "))
}
