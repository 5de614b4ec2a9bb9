//! The layout for people: a table of measures, the spread of the one that decides, what it comes to in a
//! sentence, and what the reader should know.

use crate::common::WHOLE;
use crate::term::foreign::{foreign, left, width};
use crate::term::glyphs::{ASCII, Glyphs, shorten};
use crate::term::number;
use crate::term::table::{Cell, Column, Side, Table, paint, wrap};
use anstream::adapter::strip_str;
use anstyle::{AnsiColor, Style};
use perfuse_stat::Spread;
use perfuse_stat::compare::{
    Comparison, Direction, Histogram, Judged, Measure, Saved, Series, State, Unit, Verdict,
};
use perfuse_stat::compare::{not_counted, reason, sentence, waits};

/// How to write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) glyphs: &'static Glyphs,
    /// The table and the sentences only.
    pub(super) quiet: bool,
    pub(super) columns: usize,
}

/// Names up to here fit above columns.
const SHORT: usize = 20;
const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const WARN: Style = AnsiColor::Yellow.on_default();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();

/// Everything.
pub(super) fn format(saved: &Saved, facts: &str, options: &Options) -> String {
    let comparison = &saved.done.comparison;
    let columns = options.columns.clamp(20, WHOLE);
    let mut out = format!("\n{}\n", wrap(" ", facts, columns));
    out += &table(comparison, options);
    for missing in not_counted(comparison) {
        out += &paint(&wrap("   ", &missing, columns), DIM);
    }
    if !options.quiet {
        out += &histogram(comparison, options);
    }
    out.push('\n');
    for candidate in 1..comparison.candidates.len() {
        out += &paint(&wrap(" ", &sentence(comparison, candidate), columns), BOLD);
    }
    if !options.quiet {
        reason(comparison).iter().for_each(|reason| out += &wrap(" ", reason, columns));
        for warning in &saved.warnings {
            out += &paint(&wrap(&format!(" {} ", options.glyphs.warning), warning, columns), WARN);
        }
    }
    out + "\n"
}

/// How much a table shows.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Two commands stand above columns.
    side_by_side: bool,
    /// All measures, not only the one that decides.
    all: bool,
    /// How far runs are from their mean.
    sigma: bool,
    verdict: bool,
    /// Room for the names of commands.
    name: usize,
}

/// From the widest to the narrowest.
const LAYOUTS: [Layout; 8] = [
    Layout { side_by_side: true, all: true, sigma: true, verdict: true, name: SHORT },
    Layout { side_by_side: true, all: true, sigma: false, verdict: true, name: SHORT },
    Layout { side_by_side: false, all: true, sigma: true, verdict: true, name: 60 },
    Layout { side_by_side: false, all: true, sigma: true, verdict: true, name: 36 },
    Layout { side_by_side: false, all: false, sigma: true, verdict: true, name: 36 },
    Layout { side_by_side: false, all: false, sigma: false, verdict: true, name: 28 },
    Layout { side_by_side: false, all: false, sigma: false, verdict: true, name: 16 },
    Layout { side_by_side: false, all: false, sigma: false, verdict: false, name: 16 },
];

/// The first of the layouts that fits.
fn table(comparison: &Comparison, options: &Options) -> String {
    let names = &comparison.candidates;
    let can_be_above = names.len() == 2 && names.iter().all(|name| width(&name.name) <= SHORT);
    let tables = LAYOUTS.iter().filter(|layout| !layout.side_by_side || can_be_above).map(|layout| {
        let shown: Vec<_> = match layout.all {
            true => measured(comparison).collect(),
            false => vec![comparison.decisive()],
        };
        let others = measured(comparison).count() - shown.len().min(measured(comparison).count());
        let table = match layout.side_by_side {
            true => side_by_side(comparison, &shown, layout, options),
            false => one_below_the_other(comparison, &shown, layout, options),
        };
        (table.format(), others)
    });
    let mut narrowest = (String::new(), 0);
    for (text, others) in tables {
        let fits = text.lines().all(|line| width(&strip_str(line).to_string()) <= options.columns);
        narrowest = (text, others);
        if fits {
            break;
        }
    }
    let (text, others) = narrowest;
    match others {
        0 => text,
        1 => text + &paint("   1 more measure where there is more room\n", DIM),
        others => text + &paint(&format!("   {others} more measures where there is more room\n"), DIM),
    }
}

fn column(gap: usize, side: Side) -> Column {
    Column { gap, side, least: 0 }
}

/// Two commands: a line for each measure.
fn side_by_side(comparison: &Comparison, shown: &[&Measure], layout: &Layout, options: &Options) -> Table {
    let (left, right) = (Side::Left, Side::Right);
    let mut table = Table { columns: vec![column(3, left)], rows: Vec::new() };
    let mut head = vec![""];
    for candidate in &comparison.candidates {
        table.columns.extend([column(3, right), column(1, left)]);
        head.extend([&*candidate.name, ""]);
        if layout.sigma {
            table.columns.push(column(1, left));
            head.push(options.glyphs.sigma);
        }
    }
    table.columns.extend([column(2, right), column(2, left), column(2, left)]);
    head.extend(["difference", "95 % interval", ""]);
    table.rows.push(head.iter().map(|title| Cell::styled(*title, DIM)).collect());
    for measure in shown {
        let is_decisive = measure.id == comparison.decisive().id;
        let mut cells = vec![Cell::styled(&*measure.title, if is_decisive { BOLD } else { Style::new() })];
        for series in &measure.series {
            cells.extend(value_cells(measure, series, layout, options));
        }
        cells.extend(difference_cells(measure, 1, layout));
        table.rows.push(cells);
    }
    table
}

/// Any number of commands: a line for each measure of each.
fn one_below_the_other(
    comparison: &Comparison,
    shown: &[&Measure],
    layout: &Layout,
    options: &Options,
) -> Table {
    let (left, right) = (Side::Left, Side::Right);
    let is_alone = comparison.candidates.len() == 1;
    let mut table = Table::default();
    let mut titles = Vec::new();
    if layout.all {
        table.columns.push(column(3, left));
        titles.push("");
    }
    // One measure stands above the names.
    table.columns.extend([column(if layout.all { 2 } else { 3 }, left), column(2, right), column(1, left)]);
    titles.extend([if layout.all { "" } else { &*shown[0].title }, "mean", ""]);
    if layout.sigma {
        table.columns.push(column(1, left));
        titles.push(options.glyphs.sigma);
    }
    table.columns.extend([column(2, right), column(2, left), column(2, left)]);
    if !is_alone {
        titles.extend(["difference", "95 % interval", ""]);
    }
    table.rows.push(titles.iter().map(|title| Cell::styled(*title, DIM)).collect());
    let labels = labels(comparison, layout.name, options.glyphs);
    for (number, measure) in shown.iter().enumerate() {
        if number > 0 && !is_alone {
            table.rows.push(Vec::new());
        }
        for (at, (label, series)) in labels.iter().zip(&measure.series).enumerate() {
            let mut cells = Vec::new();
            if layout.all {
                cells.push(Cell::new(if at == 0 { measure.title.as_str() } else { "" }));
            }
            cells.push(Cell::new(label));
            cells.extend(value_cells(measure, series, layout, options));
            match at {
                0 if !is_alone => cells.push(Cell::styled("reference", DIM)),
                _ => cells.extend(difference_cells(measure, at, layout)),
            }
            table.rows.push(cells);
        }
    }
    table
}

/// The names in so much room. Where they would look alike, the words that all begin and end with are left out.
fn labels(comparison: &Comparison, room: usize, glyphs: &Glyphs) -> Vec<String> {
    let names: Vec<&str> = comparison.candidates.iter().map(|candidate| candidate.name.as_str()).collect();
    let short: Vec<String> = names.iter().map(|name| middle(name, room, glyphs)).collect();
    let is_told_apart =
        (1..short.len()).all(|at| !short[..at].contains(&short[at]) || names[..at].contains(&names[at]));
    if is_told_apart {
        return short;
    }
    let words: Vec<Vec<&str>> = names.iter().map(|name| name.split(' ').collect()).collect();
    let least = words.iter().map(Vec::len).min().unwrap_or(0);
    let first = |at: &usize| words.iter().all(|of| of[*at] == words[0][*at]);
    let before = (0..least).take_while(first).count();
    let last =
        |at: &usize| words.iter().all(|of| of[of.len() - 1 - *at] == words[0][words[0].len() - 1 - *at]);
    let after = (0..least - before).take_while(last).count();
    let sign = |count: usize| if count > 0 { glyphs.ellipsis } else { "" };
    let cut = words.iter().map(|of| {
        let inner = of[before..of.len() - after].join(" ");
        middle(&format!("{}{inner}{}", sign(before), sign(after)), room, glyphs)
    });
    cut.collect()
}

/// A name in so much room, cut in its middle: commands often differ at their ends alone.
fn middle(name: &str, room: usize, glyphs: &Glyphs) -> String {
    let name = foreign(name);
    if width(&name) <= room {
        return name.into_owned();
    }
    let half = room / 2;
    let mut end = "";
    for (at, _) in name.char_indices().rev() {
        if width(&name[at..]) > room - half {
            break;
        }
        end = &name[at..];
    }
    shorten(&name, half, glyphs) + end
}

/// The measures of which there is anything.
fn measured(comparison: &Comparison) -> impl Iterator<Item = &Measure> {
    let known = |measure: &&Measure| measure.series.iter().any(|series| series.spread().is_some());
    comparison.measures.iter().filter(known)
}

/// Digits, unit, spread.
fn value_cells(measure: &Measure, series: &Series, layout: &Layout, options: &Options) -> Vec<Cell> {
    let cells = if layout.sigma { 3 } else { 2 };
    let Some(spread) = series.spread() else {
        let mut none = vec![Cell::default(); cells];
        none[0] = Cell::styled(options.glyphs.none, WARN);
        return none;
    };
    let (digits, unit, sigma) = value(measure.unit, &spread, options.glyphs);
    // The kernel loses a little of an event's time between opening it and the exec.
    let estimate = if series.share < 0.995 { "~ " } else { "" };
    let mut all = vec![Cell::new(format!("{estimate}{digits}")), Cell::new(unit), Cell::styled(sigma, DIM)];
    all.truncate(cells);
    all
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

fn difference_cells(measure: &Measure, candidate: usize, layout: &Layout) -> Vec<Cell> {
    let Some(Judged { difference, verdict, .. }) = measure.judged[candidate] else { return Vec::new() };
    let (digits, interval) = match difference.relative {
        Some(relative) => relative.as_percent(),
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
    let words = if layout.verdict { verdict.words(measure.unit) } else { "" };
    vec![Cell::new(digits), Cell::new(interval), Cell::styled(words, style)]
}

/// The rounds and means so far, and what is still waited for, in a line of a terminal.
pub(super) fn so_far(state: &State<'_>, columns: usize) -> String {
    let comparison = state.comparison;
    let measure = comparison.decisive();
    let means = comparison.candidates.iter().zip(&measure.series).map(|(candidate, series)| {
        let name = shorten(&candidate.name, 16, &ASCII);
        let mean = series.spread().map(|spread| number::time(spread.mean, &ASCII).joined());
        format!("{name} {}", mean.unwrap_or_default())
    });
    let mut parts = vec![format!("round {}", state.done)];
    parts.extend(means);
    if let (2, Some(Some(judged))) = (comparison.candidates.len(), measure.judged.last()) {
        parts.extend(judged.difference.relative.map(|relative| relative.as_percent().0));
    }
    parts.push(waits(state));
    shorten(&format!(" {}", parts.join("  ")), columns.saturating_sub(1), &ASCII)
}

/// Columns of a histogram, at most.
const CELLS: usize = 40;

/// The runs of each command on one scale.
fn histogram(comparison: &Comparison, options: &Options) -> String {
    let measure = comparison.decisive();
    let room = comparison.candidates.iter().map(|candidate| width(&candidate.name)).max().unwrap_or(0);
    let room = room.min(SHORT);
    // The title, the name, and runs beyond the scale.
    let cells = options.columns.saturating_sub(3 + 12 + 1 + room + 2 + 14).clamp(10, CELLS);
    let Some(histogram) = Histogram::of(measure, cells) else { return String::new() };
    let one = Spread { n: 1, mean: histogram.width, sigma: 0.0 };
    let (digits, unit, _) = value(measure.unit, &one, options.glyphs);
    let mut out = String::from("\n");
    let labels = labels(comparison, room, options.glyphs);
    for (at, (label, row)) in labels.iter().zip(&histogram.rows).enumerate() {
        let (counts, beyond) = (&row.counts, row.beyond);
        let top = counts.iter().copied().max().unwrap_or(0).max(1);
        let glyphs = options.glyphs.bars;
        let bar = |&count: &usize| match count {
            0 => ' ',
            count => glyphs[(count * glyphs.len()).div_ceil(top).clamp(1, glyphs.len()) - 1],
        };
        let bars: String = counts.iter().map(bar).collect();
        let title = if at == 0 { measure.title.as_str() } else { "" };
        let far = if beyond > 0 { format!("  +{beyond} beyond") } else { String::new() };
        let name = left(&foreign(label), room);
        let line = format!("   {title:12} {name}  {bars}{far}");
        out += &(line.trim_end().to_owned() + "\n");
    }
    let scale = format!("each column {digits} {unit}");
    out + &paint(&format!("   {:12} {}  {}", "", left("", room), scale.trim_end()), DIM) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfuse_stat::compare::Done;
    use perfuse_stat::compare::samples::comparison;
    use std::time::Duration;

    fn saved(comparison: Comparison, warnings: &[&str]) -> Saved {
        let done = Done {
            comparison,
            rounds: 10,
            elapsed: Duration::from_secs(2),
            failures: 0,
            failure: None,
            interrupted: false,
            precise: false,
            certain: false,
        };
        Saved::here(done, 1, 0, warnings.iter().map(|&warning| warning.to_owned()).collect())
    }

    fn plain(text: &str) -> String {
        strip_str(text).to_string()
    }

    #[test]
    fn nothing_is_wider_than_the_terminal() {
        let mut compared = comparison(&[
            ("wall", Unit::Nanoseconds, 1e8, 1.06e8, 1e5),
            ("instructions", Unit::Count, 3_145_728_000.0, 4_145_728_000.0, 12_345.0),
        ]);
        for names in [["old", "new"], ["gzip -kc1 big.json", "gzip -kc9 big.json"]] {
            for (candidate, name) in compared.candidates.iter_mut().zip(names) {
                candidate.name = name.to_owned();
            }
            for columns in [60, 80, 100, 120, 200] {
                let options = Options { glyphs: &ASCII, quiet: false, columns };
                let text = plain(&format(&saved(compared.clone(), &[]), "2 commands", &options));
                assert!(text.lines().all(|line| line.len() <= columns), "{columns}:\n{text}");
                assert!(columns > 60 || text.contains("1 more measure"), "{columns}:\n{text}");
                assert!(columns < 120 || !text.contains("more measure"), "{columns}:\n{text}");
            }
        }
    }

    #[test]
    fn long_names_are_cut_in_their_middle() {
        assert_eq!(middle("short", 10, &ASCII), "short");
        assert_eq!(middle("prog --level 1 --out /tmp/a", 16, &ASCII), "prog ...t /tmp/a");
        assert_eq!(middle("日本語日本語日本語", 9, &ASCII), "...本語");
        let mut compared = comparison(&[("wall", Unit::Nanoseconds, 1e8, 1.06e8, 1e5)]);
        for (candidate, level) in compared.candidates.iter_mut().zip([1, 9]) {
            candidate.name = format!("gzip --keep --stdout -{level} measurements/big.json");
        }
        assert_eq!(labels(&compared, 16, &ASCII), ["...-1...", "...-9..."]);
        assert_eq!(labels(&compared, 80, &ASCII), [0, 1].map(|at| compared.candidates[at].name.clone()));
    }

    #[test]
    fn two_commands_stand_side_by_side() {
        let compared = comparison(&[
            ("wall", Unit::Nanoseconds, 1e8, 1.06e8, 1e5),
            ("rss", Unit::Bytes, 3145728.0, 3145728.0, 0.0),
            ("migrations", Unit::Count, 0.0, 2.0, 0.0),
        ]);
        let options = Options { glyphs: &ASCII, quiet: false, columns: WHOLE };
        let text = plain(&format(&saved(compared, &["Mind the gap."]), "2 commands", &options));
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
