//! Looks of text output: text that is harmless on terminals ([`foreign`], of `perfuse-data`, and [`out`]), numbers and units
//! ([`number`]), tables and wrapped lines ([`table`]), lines with percentages ([`lines`]), names of functions in little room ([`names`]), and what the terminal and the locale can show ([`glyphs`], [`columns`]),
//! programs that show it a screen at a time ([`pager`]), and the clipboard ([`clipboard`]).
//!
//! Nothing here knows what is told. [`out`] is the one module that writes, and to standard output and standard error alone.

#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod glyphs;
pub mod lines;
pub mod names;
pub mod number;
pub mod out;
pub mod pager;
pub mod table;

pub use perfuse_data::text as foreign;
use std::os::fd::AsFd;

/// Columns of a terminal that does not tell.
const COLUMNS: usize = 80;
const ROWS: usize = 24;

/// The columns of a terminal: those that `COLUMNS` in the environment says, those that the terminal says, or 80.
pub fn columns(terminal: impl AsFd) -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let seen = || rustix::termios::tcgetwinsize(terminal).ok().map(|size| size.ws_col.into());
    told.or_else(seen).filter(|&columns| columns > 0).unwrap_or(COLUMNS)
}

/// The lines of a terminal: those that it says, or 24.
pub fn rows(terminal: impl AsFd) -> usize {
    let seen = rustix::termios::tcgetwinsize(terminal).ok().map(|size| size.ws_row.into());
    seen.filter(|&rows| rows > 0).unwrap_or(ROWS)
}

/// The words that make a terminal put a text on the clipboard (OSC 52).
pub fn clipboard(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut code = String::new();
    for three in text.as_bytes().chunks(3) {
        let bits = (0..3).fold(0u32, |bits, at| bits << 8 | u32::from(three.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize];
            code.push(if at <= three.len() { char::from(digit) } else { '=' });
        }
    }
    format!("\x1b]52;c;{code}\x07")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_copied_as_terminals_want_them() {
        assert_eq!(clipboard("cs"), "\x1b]52;c;Y3M=\x07");
        assert_eq!(clipboard("tsc"), "\x1b]52;c;dHNj\x07");
        assert_eq!(clipboard("a:bc"), "\x1b]52;c;YTpiYw==\x07");
    }
}
