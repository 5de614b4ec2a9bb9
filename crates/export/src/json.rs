//! Texts as JSON has them.

use std::fmt;

/// A string with its quotes, in which all is escaped that JSON wants, and what would end a script in a page.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for letter in self.0.chars() {
            match letter {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => write!(f, "\\u{:04x}", letter as u32)?,
                _ if (letter as u32) < 0x20 || letter == '\u{7f}' => write!(f, "\\u{:04x}", letter as u32)?,
                _ => write!(f, "{letter}")?,
            }
        }
        f.write_str("\"")
    }
}
