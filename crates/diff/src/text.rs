//! Reports as text for people, as wide as the terminal.

use crate::export::Named;
use crate::{Line, Method, Report, Verdict};
use anstyle::{AnsiColor, Style};
use perfuse_term::foreign::width;
use perfuse_term::glyphs::{Glyphs, shorten};
use perfuse_term::number;
use perfuse_term::table::{Cell, Column, Side, Table, paint, wrap};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const MORE: Style = AnsiColor::Red.on_default();
const LESS: Style = AnsiColor::Green.on_default();

/// From here on there is room for amounts beside shares.
const WIDE: usize = 100;
/// Nothing is wider than that, but for names where there is room.
const WORDS: usize = 110;

/// Whether an event of this name is a clock, whose occurrences are ns.
pub fn is_time(event: &str) -> bool {
    ["cpu-clock", "task-clock"].iter().any(|clock| event.starts_with(clock))
}

/// How much is shown, and where.
#[derive(Clone, Copy, Debug)]
pub struct Looks {
    /// Columns of the terminal.
    pub columns: usize,
    /// Signs of the locale.
    pub glyphs: &'static Glyphs,
    /// At most so many functions.
    pub lines: usize,
    /// Only functions that differ.
    pub called: bool,
}

/// A report as text: the sides, the functions, what it comes to.
pub fn text(named: &Named<'_>, looks: &Looks) -> String {
    let Named { report, sides, event, .. } = *named;
    let words = looks.columns.min(WORDS);
    let run = if report.method == Method::Recordings { "" } else { " a run" };
    let mut out = String::from("\n");
    for (at, word) in ["before", "after"].into_iter().enumerate() {
        let samples = number::count(report.samples[at] as f64).joined();
        let whole = amount(named, report.wholes[at], looks);
        let said = format!("{}: {samples} samples, {whole} of {event}{run}", sides[at]);
        out += &wrap(&format!(" {word:7} "), &said, words);
    }
    out.push('\n');
    let is_shown = |line: &&Line| !looks.called || line.verdict.is_called();
    let shown: Vec<&Line> = report.lines.iter().filter(is_shown).take(looks.lines).collect();
    out += &table(named, &shown, looks);
    out.push('\n');
    out += &paint(&wrap(" ", &summary(report), words), BOLD);
    let others = report.lines.len() - shown.len();
    if others > 0 {
        out += &paint(&wrap(" ", &format!("{others} more functions are not shown"), words), DIM);
    }
    out + "\n"
}

fn amount(named: &Named<'_>, amount: f64, looks: &Looks) -> String {
    let quantity = if named.is_time { number::time(amount, looks.glyphs) } else { number::count(amount) };
    quantity.joined()
}

fn summary(report: &Report) -> String {
    match report.called().count() {
        0 => format!("Noise: of {} functions none differs surely.", report.judged),
        1 => format!("Of {} functions one differs surely.", report.judged),
        called => format!("Of {} functions {called} differ surely.", report.judged),
    }
}

fn table(named: &Named<'_>, shown: &[&Line], looks: &Looks) -> String {
    let column = |gap, side| Column { gap, side, least: 0 };
    let (left, right) = (Side::Left, Side::Right);
    let (glyphs, method) = (looks.glyphs, named.report.method);
    let is_wide = looks.columns >= WIDE;
    let mut table = Table { columns: vec![column(2, right), column(2, right)], rows: Vec::new() };
    let mut head = vec!["before", "after"];
    if is_wide {
        table.columns.extend([column(2, right), column(2, right)]);
        head.extend(["before", "after"]);
    }
    table.columns.extend([column(2, right), column(2, left), column(2, left), column(2, left)]);
    head.push(if method == Method::Recordings { "points" } else { "difference" });
    head.extend(["95 % interval", "", "function"]);
    table.rows.push(head.iter().map(|title| Cell::styled(*title, DIM)).collect());
    for line in shown {
        let side = |at: usize, cell: String| match line.samples[at] {
            0 => glyphs.none.to_owned(),
            _ => cell,
        };
        let shares = [0, 1].map(|at| Cell::new(side(at, format!("{:.2} %", 100.0 * line.shares[at]))));
        let amounts = [0, 1].map(|at| Cell::new(side(at, amount(named, line.amounts[at], looks))));
        let (first, second) = match method {
            Method::Recordings => (shares, amounts),
            Method::Rounds(_) => (amounts, shares),
        };
        let mut cells = first.to_vec();
        if is_wide {
            cells.extend(second);
        }
        let (digits, interval) = match (line.relative, method) {
            (Some(relative), _) => relative.as_percent(),
            (None, Method::Recordings) => line.difference.shown(100.0),
            (None, Method::Rounds(_)) => (glyphs.none.to_owned(), String::new()),
        };
        let style = match line.verdict {
            Verdict::More | Verdict::New => MORE,
            Verdict::Less | Verdict::Vanished => LESS,
            _ => DIM,
        };
        cells.extend([Cell::new(digits), Cell::new(interval)]);
        cells.extend([Cell::styled(line.verdict.word(method), style), Cell::new(&line.name)]);
        table.rows.push(cells);
    }
    // The rest of the line is the name's.
    let names = table.columns.len() - 1;
    let widest = |at: usize| table.rows.iter().map(|row| width(&row[at].text)).max().unwrap_or(0);
    let taken: usize = (0..names).map(|at| table.columns[at].gap + widest(at)).sum();
    let room = looks.columns.saturating_sub(taken + table.columns[names].gap).max(12);
    table.rows.iter_mut().for_each(|row| row[names].text = shorten(&row[names].text, room, glyphs));
    table.format()
}
