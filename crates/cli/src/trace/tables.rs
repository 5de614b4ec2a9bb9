//! Tables of calls, and rows by keys.

use super::Args;
use crate::term::foreign::foreign;
use crate::term::glyphs;
use crate::term::number::{grouped, time};
use crate::term::table::{Cell, Column, Side, Table};
use anstyle::Style;
use perfuse_data::replay::Told;
use perfuse_record::SummedRows;
use perfuse_trace::{
    CallRow, CallSums, Calls, Distribution, Groups, Record, Statistic as What, Value, errno_name,
};
use std::collections::BTreeMap;
use std::fmt::Write;

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

    pub(super) fn add(&mut self, told: &Told<'_>) {
        let (asked, record): (_, &dyn Record) = match *told {
            Told::Call(record, asked, _) if CallSums::has(record.call, record.calls) => {
                self.calls.iter_mut().for_each(|calls| calls.add(record.call, record.comm));
                (asked, record)
            }
            Told::Sample(ref sample, asked, _) => (asked, sample.record),
            _ => return,
        };
        self.groups.iter_mut().for_each(|groups| groups.add(asked, record));
    }

    /// All tables.
    pub(super) fn text(&self, args: &Args, table: &Calls) -> String {
        let mut out = String::new();
        if let Some(calls) = &self.calls {
            if args.json {
                out += &(calls.json(table).to_string() + "\n");
            } else if args.is_total() {
                out += &calls.like_strace(table, args.max_summary);
            } else {
                by_thread(&mut out, calls, table, args.max_summary);
            }
        }
        if let Some(groups) = &self.groups {
            out += &rows(args, groups);
        }
        out
    }
}

/// A table for each thread, those with the most calls first.
fn by_thread(out: &mut String, calls: &CallSums, table: &Calls, most: usize) {
    let mut threads: BTreeMap<u32, Vec<(u64, &CallRow)>> = BTreeMap::new();
    calls.rows.iter().for_each(|((tid, number), row)| threads.entry(*tid).or_default().push((*number, row)));
    let mut threads: Vec<_> = threads.into_iter().collect();
    let count = |rows: &[(u64, &CallRow)]| rows.iter().map(|(_, row)| row.calls()).sum::<u64>();
    threads.sort_by_key(|(tid, rows)| (std::cmp::Reverse(count(rows)), *tid));
    for (tid, mut rows) in threads {
        let name = calls.names.get(&tid).map_or("", |(_, name)| name);
        let _ = writeln!(out, "{} ({tid}), {} calls", foreign(name), grouped(count(&rows)));
        rows.sort_by_key(|(number, row)| (std::cmp::Reverse(row.times.sum()), *number));
        let cells = rows.iter().take(most).map(|(number, row)| {
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
    if args.json {
        return groups.json(&args.by, &show, args.top).to_string() + "\n";
    }
    let mut found = groups.rows(|row| show[0].value(row));
    found.truncate(args.top.unwrap_or(usize::MAX));
    let key = |value: &Option<Value>| match value {
        None => "-".to_owned(),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Text(text)) => foreign(text).to_string(),
    };
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
