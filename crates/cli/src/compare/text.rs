//! The layout for people: a table of measures, the spread of the one that decides, what it comes to in a
//! sentence, and what the reader should know.

use crate::term::foreign::{foreign, left, width};
use crate::term::glyphs::{ASCII, Glyphs, shorten};
use crate::term::number;
use crate::term::table::{Cell, Column, Side, Table, paint, wrap};
use anstyle::{AnsiColor, Style};
use perfuse_stat::Spread;
use perfuse_stat::compare::{Comparison, Direction, Done, Histogram, Judged, Measure, Series, Unit, Verdict};
use perfuse_stat::compare::{not_counted, sentence};

/// How to write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) glyphs: &'static Glyphs,
    /// The table and the sentences only.
    pub(super) quiet: bool,
}

const COLUMNS: usize = 100;
/// Names up to here fit above columns.
const SHORT: usize = 20;
const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const WARN: Style = AnsiColor::Yellow.on_default();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();

/// Everything.
pub(super) fn format(done: &Done, facts: &str, warnings: &[String], options: &Options) -> String {
    let comparison = &done.comparison;
    let mut out = format!("\n {facts}\n\n");
    out += &table(comparison, options);
    for missing in not_counted(comparison) {
        out += &paint(&wrap("   ", &missing, COLUMNS), DIM);
    }
    if !options.quiet {
        out += &histogram(comparison, options);
    }
    out.push('\n');
    for candidate in 1..comparison.candidates.len() {
        out += &paint(&wrap(" ", &sentence(comparison, candidate), COLUMNS), BOLD);
    }
    if !options.quiet {
        for warning in warnings {
            out += &paint(&wrap(&format!(" {} ", options.glyphs.warning), warning, COLUMNS), WARN);
        }
    }
    out + "\n"
}

fn table(comparison: &Comparison, options: &Options) -> String {
    let short = comparison.candidates.iter().all(|candidate| width(&candidate.name) <= SHORT);
    match comparison.candidates.len() {
        2 if short => side_by_side(comparison, options),
        _ => one_below_the_other(comparison, options),
    }
}

/// Two commands: a line for each measure.
fn side_by_side(comparison: &Comparison, options: &Options) -> String {
    let column = |gap, side| Column { gap, side, least: 0 };
    let (left, right) = (Side::Left, Side::Right);
    let mut table = Table { columns: vec![column(3, left)], rows: Vec::new() };
    for _ in 0..2 {
        table.columns.extend([column(3, right), column(1, left), column(1, left)]);
    }
    table.columns.extend([column(2, right), column(2, left), column(2, left)]);
    let names = &comparison.candidates;
    let head = [
        "",
        &names[0].name,
        "",
        options.glyphs.sigma,
        &names[1].name,
        "",
        options.glyphs.sigma,
        "difference",
        "95 % interval",
        "",
    ];
    table.rows.push(head.map(|title| Cell::styled(title, DIM)).to_vec());
    for measure in measured(comparison) {
        let mut cells = vec![Cell::new(&*measure.title)];
        for series in &measure.series {
            cells.extend(value_cells(measure, series, options));
        }
        cells.extend(difference_cells(measure, 1));
        table.rows.push(cells);
    }
    table.format()
}

/// Any number of commands: a line for each measure of each.
fn one_below_the_other(comparison: &Comparison, options: &Options) -> String {
    let column = |gap, side| Column { gap, side, least: 0 };
    let (left, right) = (Side::Left, Side::Right);
    let mut table = Table::default();
    table.columns.extend([column(3, left), column(2, left), column(2, right), column(1, left)]);
    table.columns.extend([column(1, left), column(2, right), column(2, left), column(2, left)]);
    let mut titles = vec!["", "", "mean", "", options.glyphs.sigma];
    if comparison.candidates.len() > 1 {
        titles.extend(["difference", "95 % interval", ""]);
    }
    table.rows.push(titles.iter().map(|title| Cell::styled(*title, DIM)).collect());
    for measure in measured(comparison) {
        for (at, (candidate, series)) in comparison.candidates.iter().zip(&measure.series).enumerate() {
            let mut cells = vec![
                Cell::new(if at == 0 { measure.title.as_str() } else { "" }),
                Cell::new(shorten(&candidate.name, 36, options.glyphs)),
            ];
            cells.extend(value_cells(measure, series, options));
            match at {
                0 if comparison.candidates.len() > 1 => cells.push(Cell::styled("reference", DIM)),
                _ => cells.extend(difference_cells(measure, at)),
            }
            table.rows.push(cells);
        }
        if comparison.candidates.len() > 1 {
            table.rows.push(Vec::new());
        }
    }
    table.format()
}

/// The measures of which there is anything.
fn measured(comparison: &Comparison) -> impl Iterator<Item = &Measure> {
    let known = |measure: &&Measure| measure.series.iter().any(|series| series.spread().is_some());
    comparison.measures.iter().filter(known)
}

/// Digits, unit, spread.
fn value_cells(measure: &Measure, series: &Series, options: &Options) -> [Cell; 3] {
    let Some(spread) = series.spread() else {
        return [Cell::styled(options.glyphs.none, WARN), Cell::default(), Cell::default()];
    };
    let (digits, unit, sigma) = value(measure.unit, &spread, options.glyphs);
    // The kernel loses a little of an event's time between opening it and the exec.
    let estimate = if series.share < 0.995 { "~ " } else { "" };
    [Cell::new(format!("{estimate}{digits}")), Cell::new(unit), Cell::styled(sigma, DIM)]
}

fn value(unit: Unit, spread: &Spread, glyphs: &Glyphs) -> (String, String, String) {
    let steps = [(1.0, "B"), (1024.0, "KiB"), (1048576.0, "MiB"), (1073741824.0, "GiB")];
    let bytes = |size: &&(f64, &str)| spread.mean < 1000.0 * size.0;
    let (size, name) = match unit {
        Unit::Bytes => *steps.iter().find(bytes).unwrap_or(&steps[3]),
        Unit::Nanoseconds | Unit::Count => (1.0, ""),
    };
    let in_ns = unit == Unit::Nanoseconds;
    let (mean, sigma, _) = number::with_spread(spread.mean / size, spread.sigma / size, None, in_ns, glyphs);
    (mean.digits, mean.unit + name, sigma)
}

fn difference_cells(measure: &Measure, candidate: usize) -> Vec<Cell> {
    let Some(Judged { difference, verdict, .. }) = measure.judged[candidate] else { return Vec::new() };
    let (digits, interval) = match difference.relative {
        Some(relative) => {
            let (digits, interval) = relative.shown(100.0);
            (format!("{digits} %"), interval)
        }
        None => {
            let (size, unit) = match measure.unit {
                Unit::Nanoseconds => (1e6, " ms"),
                Unit::Bytes => (1024.0, " KiB"),
                Unit::Count => (1.0, ""),
            };
            let (digits, interval) = difference.absolute.shown(1.0 / size);
            (format!("{digits}{unit}"), interval)
        }
    };
    let style = match verdict {
        Verdict::Called(Direction::Less) => GOOD,
        Verdict::Called(Direction::More) => BAD,
        _ => DIM,
    };
    vec![Cell::new(digits), Cell::new(interval), Cell::styled(verdict.words(measure.unit), style)]
}

/// The means so far, while the comparison goes on.
pub(super) fn so_far(comparison: &Comparison) -> String {
    let measure = comparison.decisive();
    let means = comparison.candidates.iter().zip(&measure.series).map(|(candidate, series)| {
        let name = shorten(&candidate.name, 16, &ASCII);
        let mean = series.spread().map(|spread| number::time(spread.mean, &ASCII).joined());
        format!("{name} {}", mean.unwrap_or_default())
    });
    let means: Vec<_> = means.collect();
    let difference = match (comparison.candidates.len(), measure.judged.last()) {
        (2, Some(Some(judged))) => judged.difference.relative.map_or(String::new(), |relative| {
            format!("  {:+.1} % +-{:.1}", relative.value * 100.0, relative.half_width() * 100.0)
        }),
        _ => String::new(),
    };
    shorten(&(means.join("  ") + &difference), 76, &ASCII)
}

/// Columns of a histogram.
const CELLS: usize = 40;

/// The runs of each command on one scale.
fn histogram(comparison: &Comparison, options: &Options) -> String {
    let measure = comparison.decisive();
    let Some(histogram) = Histogram::of(measure, CELLS) else { return String::new() };
    let room = comparison.candidates.iter().map(|candidate| width(&candidate.name)).max().unwrap_or(0);
    let room = room.min(SHORT);
    let mut out = String::from("\n");
    for (at, (candidate, row)) in comparison.candidates.iter().zip(&histogram.rows).enumerate() {
        let (counts, beyond) = (&row.counts, row.beyond);
        let top = counts.iter().copied().max().unwrap_or(0).max(1);
        let glyphs = options.glyphs.bars;
        let bar = |&count: &usize| match count {
            0 => ' ',
            count => glyphs[(count * glyphs.len()).div_ceil(top).clamp(1, glyphs.len()) - 1],
        };
        let bars: String = counts.iter().map(bar).collect();
        let title = if at == 0 { measure.title.as_str() } else { "" };
        let name = shorten(&candidate.name, SHORT, options.glyphs);
        let far = if beyond > 0 { format!("  +{beyond} beyond") } else { String::new() };
        let scale = match at {
            0 => {
                let one = Spread { n: 1, mean: histogram.width, sigma: 0.0 };
                let (digits, unit, _) = value(measure.unit, &one, options.glyphs);
                format!("  each column {digits} {unit}")
            }
            _ => String::new(),
        };
        let line = format!("   {title:12} {}  {bars}{far}", left(&foreign(&name), room));
        out += &if scale.is_empty() { line.trim_end().to_owned() } else { line + &paint(&scale, DIM) };
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfuse_stat::compare::samples::comparison;
    use std::time::Duration;

    fn done(comparison: Comparison) -> Done {
        Done {
            comparison,
            rounds: 10,
            elapsed: Duration::from_secs(2),
            failures: 0,
            failure: None,
            interrupted: false,
            precise: false,
        }
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn two_commands_stand_side_by_side() {
        let compared = comparison(&[
            ("wall", Unit::Nanoseconds, 1e8, 1.06e8, 1e5),
            ("rss", Unit::Bytes, 3145728.0, 3145728.0, 0.0),
            ("migrations", Unit::Count, 0.0, 2.0, 0.0),
        ]);
        let options = Options { glyphs: &ASCII, quiet: false };
        let text = plain(&format(&done(compared), "2 commands", &["Mind the gap.".into()], &options));
        let line = |start: &str| {
            text.lines().find(|line| line.trim_start().starts_with(start)).unwrap_or("").to_owned()
        };
        let words = |line: String| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            words(line("wall time")),
            "wall time 100.00 ms 0.30 106.00 ms 0.30 +6.00 % [+5.64, +6.36] slower",
            "{text}"
        );
        assert_eq!(words(line("peak RSS")), "peak RSS 3 MiB 0 3 MiB 0 0.00 % [0.00, 0.00] no change");
        assert_eq!(words(line("migrations")), "migrations 0 0 2 0 +2.00 [+2.00, +2.00] more");
        assert!(
            text.contains("new is 6.00 % slower than old (wall time; 95 % interval 5.64 to 6.36 %)."),
            "{text}"
        );
        assert!(text.contains("! Mind the gap."));
    }
}
