//! Standard output and standard error, as the program writes text to them. They spell out all that a
//! terminal would obey, but for line ends, tabs, and colours where they are wanted: so names that others have
//! chosen do no harm, even those that nobody has made [`foreign`] on the way.

use super::foreign::{beginning, escape, foreign, is_active};
use anstream::{AutoStream, ColorChoice};
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// So many lines are held at most.
const MOST_HELD: usize = 256;

/// So much is collected before it is handed on.
const ENOUGH: usize = 64 << 10;

/// Takes text, and hands on what is harmless of it: whole lines, and the rest when it is flushed or dropped.
#[derive(Debug)]
pub struct Out<W: Write> {
    to: W,
    /// Whether colours are handed on; else they are left out.
    coloured: bool,
    held: Vec<u8>,
    /// So many bytes at the beginning of `held` have no line end.
    searched: usize,
}

/// Standard output, coloured if it is a terminal that takes colours.
pub fn stdout() -> Out<io::StdoutLock<'static>> {
    Out::new(io::stdout().lock(), wants_colours(ColorChoice::Auto, &io::stdout()))
}

/// Standard error, coloured if it is a terminal that takes colours.
pub fn stderr() -> Out<io::StderrLock<'static>> {
    Out::new(io::stderr().lock(), wants_colours(ColorChoice::Auto, &io::stderr()))
}

/// Whether what goes there is to be coloured.
pub fn wants_colours(choice: ColorChoice, stream: &impl anstream::stream::RawStream) -> bool {
    match choice {
        // Builders of software are taken for terminals with colours, even if they say that theirs is none.
        ColorChoice::Auto if is_dumb() => false,
        ColorChoice::Auto => AutoStream::choice(stream) != ColorChoice::Never,
        choice => choice != ColorChoice::Never,
    }
}

/// Whether the terminal has no colours, whoever asks for them by way of `CI`; `CLICOLOR_FORCE` is stronger.
fn is_dumb() -> bool {
    let forced = std::env::var_os("CLICOLOR_FORCE").is_some_and(|value| value != "0");
    !forced && std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Writes a whole text to standard output.
pub fn print(text: &[u8]) -> io::Result<()> {
    let mut out = stdout();
    out.write_all(text)?;
    out.flush()
}

/// Lines that were said while they were [held](hold).
static HELD: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// Holds all that is [said](say), while a drawing is on the terminal, until this is dropped. A line that was said twice is then said once.
#[derive(Debug)]
pub struct Held(());

/// From now on, lines wait.
pub fn hold() -> Held {
    held().get_or_insert_default();
    Held(())
}

fn held() -> MutexGuard<'static, Option<Vec<String>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Held {
    fn drop(&mut self) {
        let lines = held().take().unwrap_or_default();
        for (at, line) in lines.iter().enumerate() {
            if !lines[..at].contains(line) {
                say(line);
            }
        }
    }
}

/// Says a line on standard error, as `perfuse`.
pub fn say(text: impl std::fmt::Display) {
    if let Some(lines) = &mut *held() {
        if lines.len() < MOST_HELD {
            lines.push(text.to_string());
        }
        return;
    }
    // When standard error is gone there is no place left to complain.
    let _ = writeln!(stderr(), "perfuse: {text}");
}

/// Complaints about one thing: the first of them are said as they come, further ones are counted, and their number is said
/// when this is dropped.
#[derive(Debug)]
pub struct Complaints {
    /// What all are about, behind a number: "further errors".
    about: &'static str,
    count: u64,
}

impl Complaints {
    /// So many are said each in its own words.
    pub const MOST: u64 = 20;

    /// None yet, about such things: "further errors".
    pub const fn about(about: &'static str) -> Self {
        Complaints { about, count: 0 }
    }

    /// Says one, if it is among the first.
    pub fn say(&mut self, text: impl std::fmt::Display) {
        self.count += 1;
        if self.count <= Self::MOST {
            say(text);
        }
    }

    /// How many were counted and not said.
    pub fn left_out(&self) -> u64 {
        self.count.saturating_sub(Self::MOST)
    }
}

impl Drop for Complaints {
    fn drop(&mut self) {
        if self.left_out() > 0 {
            say(format_args!("{} {}", self.left_out(), self.about));
        }
    }
}

/// Takes the last so many lines away from the terminal that standard error is, and what stands behind them.
pub fn take_back(lines: usize) {
    let _ = write!(io::stderr(), "\r{}\x1b[J", "\x1b[A".repeat(lines));
}

/// Takes away what [`progress`] has shown.
pub fn progress_ends() {
    let _ = write!(io::stderr(), "\r\x1b[K");
}

/// Shows a line on the terminal that standard error is, in place of the last such line.
pub fn progress(line: &str) {
    let mut err = io::stderr().lock();
    let _ = write!(err, "\r\x1b[K{}", foreign(line));
    let _ = err.flush();
}

/// Lines on standard output of which each text takes the place of the one before, on a terminal; elsewhere they follow each other.
#[derive(Debug, Default)]
pub struct Redrawn {
    lines: usize,
}

impl Redrawn {
    /// Writes a text in place of the last. Where the terminal has too few lines for it, the first ones are shown, unless it `is_last`.
    ///
    /// # Errors
    ///
    /// Those of standard output.
    pub fn draw(&mut self, text: &str, is_last: bool) -> io::Result<()> {
        if !io::stdout().is_terminal() {
            return print(text.as_bytes());
        }
        let (rows, columns) = (crate::rows(io::stdout()), crate::columns(io::stdout()));
        let most = if is_last { usize::MAX } else { rows.saturating_sub(1).max(1) };
        let width = if is_last { usize::MAX } else { columns.max(2) - 1 };
        // Of a line that is cut the colours are left out, too.
        let cut = |line: &str| match anstream::adapter::strip_str(line).to_string() {
            plain if beginning(&plain, width).1 => line.to_owned(),
            plain => beginning(&plain, width).0.to_owned(),
        };
        let lines: Vec<String> = text.lines().take(most).map(cut).collect();
        {
            let mut raw = io::stdout().lock();
            if self.lines > 0 {
                write!(raw, "\x1b[{}A", self.lines)?;
            }
            raw.write_all(b"\r\x1b[J")?;
        }
        self.lines = lines.len();
        print((lines.join("\n") + "\n").as_bytes())
    }
}

impl<W: Write> Out<W> {
    /// Writes there, with colours or without.
    pub fn new(to: W, coloured: bool) -> Self {
        Out { to, coloured, held: Vec::new(), searched: 0 }
    }

    /// Moves the cursor, or does whatever else is wanted of a terminal, where colours are taken too.
    pub fn control(&mut self, sequence: &'static str) -> io::Result<()> {
        self.flush()?;
        if !self.coloured {
            return Ok(());
        }
        self.to.write_all(sequence.as_bytes())
    }

    /// Hands on what is held before a place.
    fn pass(&mut self, end: usize) -> io::Result<()> {
        let text = &self.held[..end];
        let passed = match is_harmless(text) {
            true => self.to.write_all(text),
            false => self.to.write_all(tamed(&String::from_utf8_lossy(text), self.coloured).as_bytes()),
        };
        // A text that could not be written is not tried again.
        self.held.drain(..end);
        self.searched = 0;
        passed
    }
}

/// Whether a text is all letters that everybody has, blanks, tabs and line ends. Looks at a block at once, as most texts are.
fn is_harmless(text: &[u8]) -> bool {
    let is = |&byte: &u8| (b' '..=b'~').contains(&byte) | (byte == b'\n') | (byte == b'\t');
    text.chunks(1024).all(|block| block.iter().fold(true, |all, byte| all & is(byte)))
}

/// The harmless part of a text.
fn tamed(text: &str, coloured: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, c)) = rest.find(is_active).map(|at| (&rest[..at], &rest[at..])) {
        out.push_str(before);
        let first = c.chars().next().unwrap_or_default();
        let colour = colour(c);
        rest = match (first, colour) {
            ('\n' | '\t', _) => {
                out.push(first);
                &c[1..]
            }
            (_, Some(length)) => {
                out.push_str(if coloured { &c[..length] } else { "" });
                &c[length..]
            }
            _ => {
                escape(&mut out, first);
                &c[first.len_utf8()..]
            }
        };
    }
    out + rest
}

/// How long the colour is that a text begins with: `ESC [`, numbers, `m`.
fn colour(text: &str) -> Option<usize> {
    let numbers = text.strip_prefix("\x1b[")?;
    let end = numbers.find(|c: char| !(c.is_ascii_digit() || c == ';'))?;
    numbers[end..].starts_with('m').then_some(end + 3)
}

impl<W: Write> Write for Out<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        if self.held.len() >= ENOUGH {
            // Neither a character nor a colour lies across the end of a line.
            let ends = self.held[self.searched..].iter().rposition(|&byte| byte == b'\n');
            if let Some(end) = ends {
                self.pass(self.searched + end + 1)?;
            }
            self.searched = self.held.len();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass(self.held.len())?;
        self.to.flush()
    }
}

impl<W: Write> Drop for Out<W> {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(bytes: &[u8], coloured: bool) -> String {
        let mut to = Vec::new();
        let mut out = Out::new(&mut to, coloured);
        // However it comes.
        bytes.chunks(3).for_each(|part| out.write_all(part).expect("a vector takes all"));
        drop(out);
        String::from_utf8(to).expect("text")
    }

    #[test]
    fn only_colours_and_ends_of_lines_get_through() {
        let text = "\x1b[1;31mred\x1b[0m\ta\x1b[2Jb\x1b]0;c\x07\x1b[31\u{9b}\u{202e}é\r\n\x1b[m";
        assert_eq!(
            passed(text.as_bytes(), true),
            "\x1b[1;31mred\x1b[0m\ta\\u001b[2Jb\\u001b]0;c\\u0007\\u001b[31\\u009b\\u202eé\\r\n\x1b[m"
        );
        let plain = "red\ta\\u001b[2Jb\\u001b]0;c\\u0007\\u001b[31\\u009b\\u202eé\\r\n";
        assert_eq!(passed(text.as_bytes(), false), plain);
        assert_eq!(passed(b"a\xffb", false), "a\u{fffd}b");
    }

    #[test]
    fn json_stays_the_same_json() {
        let name = "\u{9b}\u{202e}\x7f\x1b\"\n";
        let json = serde_json::to_string(name).expect("JSON");
        let read: String = serde_json::from_str(&passed(json.as_bytes(), true)).expect("JSON");
        assert_eq!(read, name);
    }

    #[test]
    fn long_lines_come_whole() {
        let text = format!("{}é\n", "é\x1b".repeat(ENOUGH));
        assert_eq!(passed(text.as_bytes(), true), text.replace('\x1b', "\\u001b"));
    }
}
