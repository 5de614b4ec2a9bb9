//! Columns of text: aligned, styled, as wide as what stands in them.

use super::foreign::{foreign, spaces, width};
use anstyle::Style;

/// A cell: its text, made harmless, and its looks.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// The text.
    pub text: String,
    /// Its looks.
    pub style: Style,
}

impl Cell {
    /// A plain one.
    pub fn new(text: impl AsRef<str>) -> Self {
        Cell::styled(text, Style::new())
    }

    /// One with looks.
    pub fn styled(text: impl AsRef<str>, style: Style) -> Self {
        Cell { text: foreign(text.as_ref()).into_owned(), style }
    }
}

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// At the left.
    Left,
    /// At the right.
    Right,
}

/// A column: what separates it from the one before, its side, and its least width.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Spaces before it.
    pub gap: usize,
    /// The side of its texts.
    pub side: Side,
    /// It is at least so wide.
    pub least: usize,
}

/// Rows of cells. A row may be shorter than the table; its last cell then takes the room that is left
/// and makes no column wider.
#[derive(Debug, Default)]
pub struct Table {
    /// From left to right.
    pub columns: Vec<Column>,
    /// From top to bottom.
    pub rows: Vec<Vec<Cell>>,
}

/// A style around a text, nothing for plain text.
pub fn paint(text: &str, style: Style) -> String {
    if style.is_plain() { text.to_owned() } else { format!("{style}{text}{style:#}") }
}

impl Table {
    /// Lines, each ended by a line feed and without spaces before that.
    pub fn format(&self) -> String {
        let widths = self.widths();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::new();
            // Spaces are written only when something follows them.
            let mut pending = 0;
            for (at, (cell, column)) in row.iter().zip(&self.columns).enumerate() {
                let spans = at + 1 == row.len() && row.len() < self.columns.len();
                let room = if spans { 0 } else { widths[at].saturating_sub(width(&cell.text)) };
                pending += column.gap;
                if column.side == Side::Right && !spans {
                    pending += room;
                }
                if !cell.text.is_empty() {
                    line.extend(std::iter::repeat_n(' ', pending));
                    line += &paint(&cell.text, cell.style);
                    pending = 0;
                } else if column.side == Side::Right && !spans {
                    continue;
                }
                if column.side == Side::Left {
                    pending += room;
                }
            }
            out += &line;
            out.push('\n');
        }
        out
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(|column| column.least).collect();
        for row in &self.rows {
            let own = if row.len() < self.columns.len() { row.len().saturating_sub(1) } else { row.len() };
            for (widest, cell) in widths.iter_mut().zip(&row[..own]) {
                *widest = (*widest).max(width(&cell.text));
            }
        }
        widths
    }
}

/// Words in lines of at most `columns`: the first after `first`, the others after as many spaces.
pub fn wrap(first: &str, text: &str, columns: usize) -> String {
    first.to_owned() + &wrap_from(text, width(first), columns)
}

/// Words in lines of at most `columns`, all from column `from` on, where the first line is already.
pub fn wrap_from(text: &str, from: usize, columns: usize) -> String {
    let mut out = String::new();
    let mut at = from;
    for (number, word) in text.split_whitespace().enumerate() {
        let word = foreign(word);
        if number > 0 && at + 1 + width(&word) > columns {
            out.push('\n');
            spaces(&mut out, from);
            at = from;
        } else if number > 0 {
            out.push(' ');
            at += 1;
        }
        out += &word;
        at += width(&word);
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_lines_end_without_spaces() {
        let column = |gap, side| Column { gap, side, least: 0 };
        let cells = |texts: &[&str]| texts.iter().map(|&text| Cell::new(text)).collect();
        let table = Table {
            columns: vec![column(1, Side::Left), column(2, Side::Right), column(1, Side::Left)],
            rows: vec![
                cells(&["event", "count", ""]),
                cells(&["cs", "7", "k"]),
                cells(&["faults", "a long reason why not"]),
            ],
        };
        assert_eq!(table.format(), " event   count\n cs          7 k\n faults  a long reason why not\n");
    }

    #[test]
    fn text_wraps_under_its_start() {
        assert_eq!(wrap("- ", "one two three", 9), "- one two\n  three\n");
        // The caller has written the first ten columns.
        let text = wrap_from(&"word ".repeat(30), 10, 80);
        assert!(
            text.lines().skip(1).all(|line| line.starts_with("          word") && line.len() <= 80),
            "{text}"
        );
        assert!(text.lines().next().is_some_and(|line| line.len() <= 70), "{text}");
    }
}
