//! Lines of a report: percentages stand out, and lines wider than the terminal are cut.

use crate::foreign::width as columns_of;
use std::fmt::Write as _;
use std::io::{self, Write};

/// How percentages stand out: in colours, or not at all.
#[derive(Clone, Copy, Debug)]
pub struct Paint(pub bool);

impl Paint {
    /// Red from 5 % on, green from 0.5 % on.
    pub fn percent(self, out: &mut String, percent: f64, text: &str) {
        let colour = match percent.abs() {
            percent if percent >= 5.0 => "\x1b[31m",
            percent if percent >= 0.5 => "\x1b[32m",
            _ => "",
        };
        let _ = match (self.0, colour) {
            (false, _) | (_, "") => write!(out, "{text}"),
            _ => write!(out, "{colour}{text}\x1b[m"),
        };
    }
}

/// Takes lines, and cuts those that are longer than the terminal.
pub struct Lines<'o, W> {
    /// Takes them.
    pub out: &'o mut W,
    /// The columns of the terminal; `None` if lines are for something else.
    pub limit: Option<usize>,
    /// How many lines were cut.
    pub cut: usize,
}

impl<W: Write> Lines<'_, W> {
    /// Takes the lines of a tree.
    pub fn put_all(&mut self, lines: &str) -> io::Result<()> {
        match self.limit {
            Some(_) => lines.lines().try_for_each(|line| self.put(line)),
            None => self.out.write_all(lines.as_bytes()),
        }
    }

    /// Takes a line.
    pub fn put(&mut self, line: &str) -> io::Result<()> {
        let line = line.trim_end_matches(' ');
        match self.limit.and_then(|limit| cut_at(line, limit)) {
            Some(end) => {
                self.cut += 1;
                let reset = if line[..end].contains('\x1b') { "\x1b[m" } else { "" };
                writeln!(self.out, "{}…{reset}", &line[..end])?;
            }
            None => writeln!(self.out, "{line}")?,
        }
        Ok(())
    }
}

/// Where a line that is too long is cut, so that it and a mark fit. Colours take no room.
fn cut_at(line: &str, limit: usize) -> Option<usize> {
    let (mut width, mut cut, mut in_colour) = (0, None, false);
    for (at, letter) in line.char_indices() {
        match letter {
            '\x1b' => in_colour = true,
            'm' if in_colour => in_colour = false,
            _ if in_colour => {}
            _ => {
                // A letter that takes no column belongs to the one before it.
                let columns = columns_of(letter.encode_utf8(&mut [0; 4]));
                if columns > 0 && width < limit && width + columns >= limit {
                    cut = Some(at);
                }
                width += columns;
            }
        }
    }
    if width > limit { cut } else { None }
}
