//! Metrics for people: a table below that of the events, or in its place.

use super::looks::{DIM, Options, WARN};
use crate::term::glyphs::shorten;
use crate::term::number;
use crate::term::table::{Cell, Column, Side, Table};
use anstyle::{AnsiColor, Style};
use perfuse_stat::derive::{self, Kind};
use perfuse_stat::metrics;
use perfuse_stat::{Report, RowPlace};

/// Columns that are left for what is said about a value.
const REMARK: usize = 40;
const GOOD: Style = AnsiColor::Green.on_default();

/// A line of the table, but for its place.
struct Line {
    name: String,
    value: Option<f64>,
    unit: String,
    remark: Cell,
}

/// The table; empty where there is nothing to tell.
pub(super) fn format(report: &Report, options: &Options, with_header: bool) -> String {
    let places = report.places();
    let of = |place| lines(report, place, options).into_iter().map(move |line| (place, line));
    let lines: Vec<(&RowPlace, Line)> = places.iter().copied().flat_map(of).collect();
    if lines.is_empty() {
        return match options.metrics_alone && with_header {
            true => "   no metric can be made of these events\n".into(),
            false => String::new(),
        };
    }
    let with_place = places.iter().any(|place| **place != RowPlace::Everywhere);
    let column = |gap, side, least| Column { gap, side, least };
    let mut columns = Vec::new();
    let mut titles = Vec::new();
    if report.interval.is_some() {
        columns.push(column(2, Side::Right, 9));
        titles.push("time");
    }
    if with_place {
        columns.push(column(2, Side::Left, 5));
        titles.push("where");
    }
    columns.extend([
        column(3, Side::Left, if options.columns < 70 { 14 } else { 20 }),
        column(2, Side::Right, 8),
        column(1, Side::Left, 2),
        column(2, Side::Left, 0),
    ]);
    titles.extend(["metric", "value"]);
    let mut table = Table { columns, rows: Vec::new() };
    if with_header {
        table.rows.push(titles.into_iter().map(|title| Cell::styled(title, DIM)).collect());
    }
    for (at, line) in lines {
        let mut cells = Vec::new();
        if let Some(interval) = report.interval {
            cells.push(Cell::styled(format!("{:.3} s", interval.at_ns as f64 / 1e9), DIM));
        }
        if with_place {
            cells.push(Cell::new(at.to_string()));
        }
        cells.push(Cell::new(line.name));
        match line.value {
            Some(value) => {
                let quantity = number::count(value);
                // Below a thousand four digits say more than a prefix.
                let digits = match quantity.unit.is_empty() && value.fract() != 0.0 {
                    true => number::significant(value, 4),
                    false => quantity.digits,
                };
                cells.extend([Cell::new(digits), Cell::new(format!("{}{}", quantity.unit, line.unit))]);
            }
            None => cells.extend([Cell::styled(options.glyphs.none, WARN), Cell::new("")]),
        }
        cells.push(line.remark);
        table.rows.push(cells);
    }
    table.format()
}

fn lines(report: &Report, place: &RowPlace, options: &Options) -> Vec<Line> {
    let mut lines = Vec::new();
    // Without metrics of tables, those that events have by themselves are meant.
    if options.metrics_alone && report.metrics.is_empty() {
        for event in &report.events {
            let Some(metric) = derive::metric(report, event, place) else { continue };
            let (factor, unit) = match metric.kind {
                Kind::CpusUsed => (1.0, "CPUs used"),
                Kind::PerSecond => (1.0, "/s"),
                Kind::GigaHertz => (1e9, "Hz"),
                Kind::PerCycle => (1.0, "per cycle"),
                Kind::ShareOf(_) => (100.0, "%"),
            };
            lines.push(Line {
                name: event.name.clone(),
                value: metric.value.map(|value| value * factor),
                unit: unit.into(),
                remark: Cell::default(),
            });
        }
    }
    for measured in report.metrics.iter() {
        let value = metrics::value(report, measured, place);
        let remark = match (value.value, value.is_beyond, value.threshold) {
            (None, ..) => Cell::styled("not counted, or divided by 0", WARN),
            (Some(_), Some(true), Some(threshold)) => {
                let text = format!("{} {threshold}", options.glyphs.warning);
                Cell::styled(shorten(&text, REMARK, options.glyphs), WARN)
            }
            (Some(_), Some(false), _) => Cell::styled("good", GOOD),
            _ => Cell::styled(shorten(value.description, REMARK, options.glyphs), DIM),
        };
        lines.push(Line {
            name: value.name.to_owned(),
            value: value.value,
            unit: value.scale.map_or_else(String::new, |scale| scale.unit.clone()),
            remark,
        });
    }
    lines
}
