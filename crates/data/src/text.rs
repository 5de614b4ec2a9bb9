//! Text that others have written: names of processes, threads, files, functions, events and cgroups, words of
//! command lines. A terminal obeys some characters, others move what stands next to them, and a line end makes
//! two lines of one; [`foreign`] makes such text harmless, and all of it goes through it on its way into a
//! line. Here are the widths of texts, columns ([`LineBuffer`]) and fields of CSV too.

mod columns;

pub use columns::LineBuffer;
use std::borrow::Cow;
use std::fmt::Write as _;
use unicode_width::UnicodeWidthStr;

/// Whether a terminal would do something else with a character than show it: controls, ends of lines and
/// paragraphs, and what changes the direction of the text around it.
#[inline]
pub fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}')
}

/// Whether all of this is letters that everybody has.
#[inline]
pub fn is_plain(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| (b' '..=b'~').contains(byte))
}

/// Writes an active character as it is written in JSON: where text is JSON already, it stays the same text.
pub fn escape(out: &mut String, c: char) {
    let _ = match c {
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        c => write!(out, "\\u{:04x}", u32::from(c)),
    };
}

/// Text of others as a part of a line: with `\n` and `\u001b` for characters that a terminal would obey, and
/// the replacement character for what is no UTF-8.
pub fn foreign<'a>(text: &'a (impl AsRef<[u8]> + ?Sized)) -> Cow<'a, str> {
    let bytes = text.as_ref();
    let text = String::from_utf8_lossy(bytes);
    if is_plain(bytes) || !text.contains(is_active) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_active(c) { escape(&mut out, c) } else { out.push(c) }
    }
    out.into()
}

/// The columns that a text takes on a terminal.
pub fn width(text: &str) -> usize {
    if is_plain(text.as_bytes()) { text.len() } else { text.width() }
}

/// A text at the left of a column. (Widths of `format!` end at 65 535.)
pub fn left(text: &str, columns: usize) -> String {
    let mut out = text.to_owned();
    spaces(&mut out, columns.saturating_sub(width(text)));
    out
}

/// A text at the right of a column.
pub fn right(text: &str, columns: usize) -> String {
    let mut out = String::new();
    spaces(&mut out, columns.saturating_sub(width(text)));
    out + text
}

/// So many spaces.
pub fn spaces(out: &mut String, count: usize) {
    out.extend(std::iter::repeat_n(' ', count));
}

/// As much of a text as fits into so many columns, and whether that is all.
pub fn beginning(text: &str, columns: usize) -> (&str, bool) {
    if width(text) <= columns {
        return (text, true);
    }
    let (mut taken, mut end) = (0, 0);
    for (at, c) in text.char_indices() {
        taken += width(c.encode_utf8(&mut [0; 4]));
        if taken > columns {
            break;
        }
        end = at + c.len_utf8();
    }
    (&text[..end], false)
}

/// A text that takes no more than so many columns: where it is too long, its beginning and a mark.
pub fn cut<'t>(text: &'t str, columns: usize, mark: &str) -> Cow<'t, str> {
    match beginning(text, columns) {
        (all, true) => all.into(),
        _ => (beginning(text, columns.saturating_sub(width(mark))).0.to_owned() + mark).into(),
    }
}

/// Text of others as a field of a row: in quotes where else it would be two fields, or the end of the row.
pub fn field<'t>(text: &'t (impl AsRef<[u8]> + ?Sized), separator: &str) -> Cow<'t, str> {
    let text = foreign(text);
    let is_cut = !separator.is_empty() && text.contains(separator);
    if is_cut || text.contains('"') { format!("\"{}\"", text.replace('"', "\"\"")).into() } else { text }
}

/// A number as C's `%#x` has it: zero without prefix.
#[derive(Clone, Copy, Debug)]
pub struct Hex(pub u64);

impl std::fmt::Display for Hex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            0 => f.write_str("0"),
            number => write!(f, "{number:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_written_out() {
        assert_eq!(foreign("a\x1b]0;b\x07\r\n\tc"), "a\\u001b]0;b\\u0007\\r\\n\\tc");
        assert_eq!(
            foreign("\u{9b}31m \u{202e}x\u{2066}\u{61c}\x7f"),
            "\\u009b31m \\u202ex\\u2066\\u061c\\u007f"
        );
        assert_eq!(foreign(b"\xff\x9b!"), "\u{fffd}\u{fffd}!");
        for plain in ["", "a b", "naïve 漢字 e\u{301}", "back\\slash \"quotes\""] {
            assert!(matches!(foreign(plain), Cow::Borrowed(same) if same == plain));
        }
    }

    #[test]
    fn columns_are_those_of_the_terminal() {
        assert_eq!((left("漢字", 6), right("e\u{301}", 3)), ("漢字  ".into(), "  e\u{301}".into()));
        assert_eq!(right("", 70_000).len(), 70_000);
        assert_eq!(cut("漢字漢字", 5, "…"), "漢字…");
        assert_eq!(cut("漢字漢字", 8, "…"), "漢字漢字");
        assert_eq!(cut("abc", 2, "..."), "...");
        assert_eq!(beginning("e\u{301}x", 1), ("e\u{301}", false));
    }

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(field("a b", ","), "a b");
        assert_eq!(field("f<a, b>", ","), "\"f<a, b>\"");
        assert_eq!(field("operator\"\"_s\n", ","), "\"operator\"\"\"\"_s\\n\"");
        assert_eq!((field("a,b", ";"), field("a,b", "")), ("a,b".into(), "a,b".into()));
    }
}
