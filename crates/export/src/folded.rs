//! Folded stacks: the format of flamegraph.pl and inferno, which everything reads.

use crate::stacks::{Stacks, StacksBuilder};
use std::fmt;
use std::io::{self, BufRead, Read, Write};

/// A longer line is none.
const MAX_LINE: u64 = 1 << 20;
/// Bytes of names and stacks that are kept.
const MAX_BYTES: usize = 256 << 20;
/// A stack of folded lines is no deeper.
const MAX_DEPTH: usize = 1 << 14;

/// A line that is no folded stack, or too much of them.
#[derive(Debug)]
#[non_exhaustive]
pub struct FoldedError {
    /// The line, counted from 1.
    pub line: usize,
    /// The fault.
    pub problem: String,
}

impl fmt::Display for FoldedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for FoldedError {}

/// Writes the first event.
pub(crate) fn write(stacks: &Stacks, to: &mut dyn Write) -> io::Result<()> {
    let mut line = String::new();
    for row in stacks.rows().iter().filter(|row| row.event == 0) {
        line.clear();
        let thread = Some(row.thread.as_str()).filter(|thread| !thread.is_empty());
        let names = row.stack.iter().map(|function| stacks.functions()[*function as usize].name.as_str());
        for (index, name) in thread.into_iter().chain(names).enumerate() {
            if index > 0 {
                line.push(';');
            }
            // The format has no word for these letters, some of which end a line for readers in JavaScript.
            line.extend(name.chars().map(|letter| match letter {
                ';' => ':',
                '\u{2028}' | '\u{2029}' => '?',
                _ if letter.is_control() => '?',
                _ => letter,
            }));
        }
        // A line that begins so is a remark.
        if line.starts_with('#') {
            line.replace_range(..1, "?");
        }
        writeln!(to, "{line} {}", row.weight)?;
    }
    Ok(())
}

impl Stacks {
    /// Reads folded stacks, as flamegraph.pl, inferno and others write them: names with `;` between them, a space, a number.
    /// Empty lines and those that begin with `#` are left out. They are an event of the name `samples`.
    ///
    /// # Errors
    /// A line that is none, one of more than 1 MiB, more than 256 MiB of names and stacks, and those of reading.
    pub fn from_folded(mut from: impl BufRead) -> Result<Self, FoldedError> {
        let mut made = StacksBuilder::default();
        made.event("samples");
        let (mut bytes, mut kept) = (Vec::new(), 0usize);
        for line in 1.. {
            let error = |problem: &str| FoldedError { line, problem: problem.to_owned() };
            bytes.clear();
            let read = from.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes);
            if read.map_err(|why| error(&why.to_string()))? == 0 {
                break;
            }
            if bytes.len() as u64 == MAX_LINE && bytes.last() != Some(&b'\n') {
                return Err(error("longer than 1 MiB"));
            }
            let text = String::from_utf8_lossy(&bytes);
            let text = text.trim_end();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let (names, weight) =
                text.rsplit_once(' ').ok_or_else(|| error("no space with a number behind it at the end"))?;
            let weight: u64 = weight.parse().map_err(|_| error("its last word is no whole number"))?;
            if names.split(';').count() > MAX_DEPTH {
                return Err(error("more than 16384 frames"));
            }
            kept += names.len() + 64;
            if kept > MAX_BYTES {
                return Err(error("more than 256 MiB of stacks"));
            }
            let stack = names.split(';').map(|name| made.function(name, "")).collect();
            made.add(0, "", stack, weight, 1);
        }
        Ok(made.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_neither_a_remark_nor_two_frames() {
        let mut made = StacksBuilder::default();
        made.event("cycles");
        let stack = vec![made.function("#main;x\n", ""), made.function("f", "")];
        made.add(0, "", stack, 7, 1);
        let mut text = Vec::new();
        write(&made.finish(), &mut text).expect("a vector takes all");
        assert_eq!(String::from_utf8_lossy(&text), "?main:x?;f 7\n");
    }
}
