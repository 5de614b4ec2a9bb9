//! Tables of calls, and rows by keys.

use super::Args;
use crate::term::foreign::foreign;
use crate::term::glyphs;
use crate::term::number::{grouped, time};
use crate::term::table::{Cell, Column, Side, Table};
use anstyle::Style;
use perfuse_data::replay::SampleRecord;
use perfuse_record::SummedRows;
use perfuse_trace::{Asked, CallRecord, CallRow, CallSums, Calls, Distribution, Groups, Value, errno_name};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Something that a row tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Count,
    Sum,
    Avg,
    Min,
    Max,
    P50,
    P90,
    P99,
    Hist,
}

impl What {
    const ALL: [(&'static str, What); 9] = [
        ("count", What::Count),
        ("sum", What::Sum),
        ("avg", What::Avg),
        ("min", What::Min),
        ("max", What::Max),
        ("p50", What::P50),
        ("p90", What::P90),
        ("p99", What::P99),
        ("hist", What::Hist),
    ];

    pub(super) fn named(name: &str) -> Result<Self, String> {
        let found = What::ALL.iter().find(|(known, _)| *known == name).map(|(_, what)| *what);
        found.ok_or_else(|| "rows tell count, sum, avg, min, max, p50, p90, p99, hist".to_owned())
    }

    /// Whether it takes more than counts, sums and extremes.
    pub(super) fn is_spread(self) -> bool {
        matches!(self, What::P50 | What::P90 | What::P99 | What::Hist)
    }

    fn name(self) -> &'static str {
        What::ALL.iter().find(|(_, what)| *what == self).map_or("", |(name, _)| name)
    }

    fn value(self, row: &Distribution) -> f64 {
        let number = |value: Option<i128>| value.map_or(0.0, |value| value as f64);
        match self {
            What::Count | What::Hist => row.count() as f64,
            What::Sum => row.sum() as f64,
            What::Avg => row.mean().unwrap_or(0.0),
            What::Min => number(row.min()),
            What::Max => number(row.max()),
            What::P50 => number(row.quantile(0.5)),
            What::P90 => number(row.quantile(0.9)),
            What::P99 => number(row.quantile(0.99)),
        }
    }
}

/// What all lines come to.
pub(super) struct Sums {
    calls: Option<CallSums>,
    groups: Option<Groups>,
}

impl Sums {
    pub(super) fn new(args: &Args) -> Self {
        let has_calls = args.summary || args.with_summary || args.count;
        Sums { calls: has_calls.then(CallSums::default), groups: args.has_rows().then(Groups::default) }
    }

    /// Of what the kernel has summed up.
    pub(super) fn of(rows: SummedRows) -> Self {
        match rows {
            SummedRows::Calls(calls) => Sums { calls: Some(calls), groups: None },
            SummedRows::Keys(groups) => Sums { calls: None, groups: Some(groups) },
        }
    }

    pub(super) fn call(&mut self, asked: &Asked, record: &CallRecord<'_>) {
        if !CallSums::has(record.call, record.calls) {
            return;
        }
        if let Some(calls) = &mut self.calls {
            calls.add(record.call, record.comm);
        }
        if let Some(groups) = &mut self.groups {
            groups.add(asked, record);
        }
    }

    pub(super) fn sample(&mut self, asked: &Asked, record: &SampleRecord<'_>) {
        if let Some(groups) = &mut self.groups {
            groups.add(asked, record);
        }
    }

    /// All tables.
    pub(super) fn text(&self, args: &Args, table: &Calls) -> String {
        let mut out = String::new();
        if let Some(calls) = &self.calls {
            if args.json {
                out += &(json(calls, table).to_string() + "\n");
            } else if args.count {
                out += &like_strace(calls.by_call().iter(), table);
            } else {
                by_thread(&mut out, calls, table);
            }
        }
        if let Some(groups) = &self.groups {
            out += &rows(args, groups);
        }
        out
    }
}

/// A table for each thread, those with the most calls first.
fn by_thread(out: &mut String, calls: &CallSums, table: &Calls) {
    let mut threads: BTreeMap<u32, Vec<(u64, &CallRow)>> = BTreeMap::new();
    calls.rows.iter().for_each(|((tid, number), row)| threads.entry(*tid).or_default().push((*number, row)));
    let mut threads: Vec<_> = threads.into_iter().collect();
    let count = |rows: &[(u64, &CallRow)]| rows.iter().map(|(_, row)| row.calls()).sum::<u64>();
    threads.sort_by_key(|(tid, rows)| (std::cmp::Reverse(count(rows)), *tid));
    for (tid, mut rows) in threads {
        let name = calls.names.get(&tid).map_or("", |(_, name)| name);
        let _ = writeln!(out, "{} ({tid}), {} calls", foreign(name), grouped(count(&rows)));
        rows.sort_by_key(|(number, row)| (std::cmp::Reverse(row.times.sum()), *number));
        let cells = rows.iter().map(|(number, row)| {
            let mut cells = vec![Cell::new(table.name(*number)), Cell::new(grouped(row.calls()))];
            cells.push(Cell::new(if row.errors.is_empty() { String::new() } else { grouped(row.failed()) }));
            let shown = [What::Sum, What::Min, What::Avg, What::P99, What::Max];
            cells.extend(shown.iter().map(|what| Cell::new(quantity(what.value(&row.times), true))));
            let errors = row.errors.iter().map(|(error, count)| {
                let name = errno_name(*error).map_or_else(|| error.to_string(), str::to_owned);
                if *count > 1 { format!("{name} {}", grouped(*count)) } else { name }
            });
            cells.push(Cell::new(errors.collect::<Vec<_>>().join(", ")));
            cells
        });
        let head = ["call", "calls", "errors", "total", "min", "avg", "p99", "max", ""];
        *out += &format_table(&head, 1, cells.collect());
        out.push('\n');
    }
}

fn json(calls: &CallSums, table: &Calls) -> serde_json::Value {
    let mut rows: Vec<_> = calls.rows.iter().collect();
    rows.sort_by_key(|(key, _)| **key);
    let rows = rows.into_iter().map(|((tid, number), row)| {
        let (pid, name) = calls.names.get(tid).cloned().unwrap_or_default();
        let named = |(error, count): (&u16, &u64)| {
            (errno_name(*error).map_or_else(|| error.to_string(), str::to_owned), json!(count))
        };
        let errors: serde_json::Map<_, _> = row.errors.iter().map(named).collect();
        let times = &row.times;
        json!({
            "pid": pid, "tid": tid, "comm": name, "call": table.name(*number), "calls": row.calls(),
            "errors": errors, "total_ns": times.sum() as u64, "min_ns": times.min().map(|ns| ns as u64),
            "p50_ns": times.quantile(0.5).map(|ns| ns as u64), "p99_ns": times.quantile(0.99).map(|ns| ns as u64),
            "max_ns": times.max().map(|ns| ns as u64),
        })
    });
    json!({ "schema": "perfuse.trace/1", "calls": rows.collect::<Vec<_>>() })
}

/// strace's table: the most time first.
fn like_strace<'r>(rows: impl Iterator<Item = (&'r u64, &'r CallRow)>, table: &Calls) -> String {
    let mut rows: Vec<(&u64, &CallRow)> = rows.collect();
    rows.sort_by_key(|(number, row)| (std::cmp::Reverse(row.times.sum()), **number));
    let whole: f64 = rows.iter().map(|(_, row)| row.times.sum() as f64).sum();
    let line = "------ ----------- ----------- --------- --------- ----------------\n";
    let mut out = String::from("% time     seconds  usecs/call     calls    errors syscall\n") + line;
    let mut all = CallRow::default();
    let row = |out: &mut String, name: &str, row: &CallRow| {
        let sum = row.times.sum() as f64;
        let share = if whole > 0.0 { sum * 100.0 / whole } else { 0.0 };
        let errors = if row.failed() == 0 { String::new() } else { row.failed().to_string() };
        let each = sum / 1000.0 / row.calls().max(1) as f64;
        let _ = writeln!(
            out,
            "{share:>6.2} {:>11.6} {each:>11.0} {:>9} {errors:>9} {name}",
            sum / 1e9,
            row.calls()
        );
    };
    for (number, each) in rows {
        row(&mut out, &table.name(*number), each);
        all.add(each);
    }
    out += line;
    row(&mut out, "total", &all);
    out
}

fn format_table(head: &[&str], left: usize, rows: Vec<Vec<Cell>>) -> String {
    let is_left = |index: usize| index < left || head[index].is_empty();
    let columns = (0..head.len()).map(|index| Column {
        gap: if index == 0 { 1 } else { 2 },
        side: if is_left(index) { Side::Left } else { Side::Right },
        least: 0,
    });
    let head = head.iter().map(|name| Cell::styled(*name, Style::new().bold())).collect();
    Table { columns: columns.collect(), rows: std::iter::once(head).chain(rows).collect() }.format()
}

/// A number, as a time or as it is.
fn quantity(value: f64, is_time: bool) -> String {
    match is_time {
        true => time(value, glyphs::of_the_locale()).joined(),
        false if value.fract() == 0.0 && value >= 0.0 => grouped(value as u64),
        false => format!("{value:.1}").trim_end_matches(".0").to_owned(),
    }
}

/// Rows by keys.
fn rows(args: &Args, groups: &Groups) -> String {
    let is_time = args.of.as_ref().is_none_or(|of| of.as_str() == "duration");
    let show = match &args.show[..] {
        [] => vec![What::Count, What::Sum, What::Avg, What::P50, What::P99, What::Max],
        show => show.to_vec(),
    };
    let mut found = groups.rows(|row| show[0].value(row));
    found.truncate(args.top.unwrap_or(usize::MAX));
    let key = |value: &Option<Value>| match value {
        None => "-".to_owned(),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Text(text)) => foreign(text).to_string(),
    };
    if args.json {
        let rows = found.iter().map(|(keys, row)| {
            let mut object = serde_json::Map::new();
            args.by.iter().zip(*keys).for_each(|(by, value)| {
                let value = match value {
                    Some(Value::Number(number)) => i64::try_from(*number)
                        .map_or_else(|_| json!(number.to_string()), |number| json!(number)),
                    value => json!(value.as_ref().map(|_| key(value))),
                };
                object.insert(by.to_string(), value);
            });
            for what in &show {
                let value = match what {
                    What::Hist => json!(
                        row.powers()
                            .iter()
                            .map(|(from, below, count)| json!([*from as i64, *below as i64, count]))
                            .collect::<Vec<_>>()
                    ),
                    what => json!(what.value(row)),
                };
                object.insert(what.name().to_owned(), value);
            }
            serde_json::Value::Object(object)
        });
        return json!({ "schema": "perfuse.trace/1", "rows": rows.collect::<Vec<_>>() }).to_string() + "\n";
    }
    let columns: Vec<What> = show.iter().copied().filter(|what| *what != What::Hist).collect();
    let names: Vec<String> = args.by.iter().map(ToString::to_string).collect();
    let head: Vec<&str> =
        names.iter().map(String::as_str).chain(columns.iter().map(|what| what.name())).collect();
    let cells = |keys: &[Option<Value>], row: &Distribution| {
        let keys = keys.iter().map(|value| Cell::new(key(value)));
        let values =
            columns.iter().map(|what| Cell::new(quantity(what.value(row), is_time && *what != What::Count)));
        keys.chain(values).collect::<Vec<_>>()
    };
    let mut out = String::new();
    if show.contains(&What::Hist) {
        for (keys, row) in &found {
            if !head.is_empty() {
                out += &format_table(&head, names.len(), vec![cells(keys, row)]);
            }
            histogram(&mut out, row, is_time);
            out.push('\n');
        }
    } else {
        out += &format_table(&head, names.len(), found.iter().map(|(keys, row)| cells(keys, row)).collect());
    }
    if groups.others() > 0 {
        let _ = writeln!(
            out,
            "{} more were in rows beyond the {} that are kept",
            grouped(groups.others()),
            grouped(1 << 16)
        );
    }
    out
}

/// A bar for each power of two.
fn histogram(out: &mut String, row: &Distribution, is_time: bool) {
    let powers = row.powers();
    let most = powers.iter().map(|(.., count)| *count).max().unwrap_or(1).max(1);
    let bar = glyphs::of_the_locale().bars.last().copied().unwrap_or('#').to_string();
    let cells = powers.iter().map(|(from, below, count)| {
        let bound = |value: i128| quantity(value as f64, is_time);
        let width = (*count * 40).div_ceil(most) as usize;
        vec![
            Cell::new(bound(*from)),
            Cell::new(bound(*below)),
            Cell::new(grouped(*count)),
            Cell::new(bar.repeat(width)),
        ]
    });
    *out += &format_table(&["from", "below", "count", ""], 0, cells.collect());
}
