//! The table of `perf diff`, as text: what was before, and what is computed of it and of what came after.

use crate::compute::{Compute, Computed, compute};
use perfuse_data::text::{field, foreign, left, right, width};
use perfuse_profile::{Key, View};

/// The looks of the table, by perf's options.
#[derive(Clone, Debug, Default)]
pub struct Classic {
    /// The computation.
    pub compute: Compute,
    /// Rows stand by the share before (`-o 0`), not by what is computed.
    pub by_baseline: bool,
    /// Without entries that are new, or gone (`-b`).
    pub baseline_only: bool,
    /// With the occurrences of the event (`-p`).
    pub period: bool,
    /// With each computation (`-F`).
    pub formula: bool,
    /// Shares are of the entries that are there, not of all samples.
    pub is_relative: bool,
    /// This stands between columns, in place of padding.
    pub separator: Option<String>,
    /// No lines that begin with `#`.
    pub quiet: bool,
}

/// A column: its title, and how wide it is at least. Keys stand at the left, numbers at the right.
struct Column {
    title: &'static str,
    least: usize,
    is_key: bool,
}

impl Classic {
    /// The table of an event. Tables after the first have an empty line before them.
    pub fn table(&self, event: &str, views: [&View<'_>; 2], keys: &[Key], is_first: bool) -> String {
        let how = self.compute;
        let wholes = views.map(|view| match self.is_relative {
            true => view.entries.iter().map(|entry| entry.self_weight).sum(),
            false => view.event.weight,
        });
        let mut rows = compute(views, keys, wholes, how, self.by_baseline);
        if self.baseline_only {
            rows.retain(|row| row.periods.iter().all(Option::is_some));
        }
        let columns = self.columns(how, keys);
        let cells: Vec<Vec<String>> = rows.iter().map(|row| self.cells(row, how, wholes)).collect();
        let before = if is_first || self.quiet { "" } else { "\n" };
        before.to_owned() + &self.format(event, &columns, &cells)
    }

    fn columns(&self, how: Compute, keys: &[Key]) -> Vec<Column> {
        let number = |title, least| Column { title, least, is_key: false };
        let mut columns = vec![number("Baseline", 8)];
        columns.extend(self.period.then(|| number("Base period", 14)));
        columns.push(match how {
            Compute::Delta => number("Delta", 7),
            Compute::DeltaAbs => number("Delta Abs", 9),
            Compute::Ratio => number("Ratio", 14),
            Compute::WeightedDiff(..) => number("Weighted diff", 14),
        });
        columns.extend(self.formula.then(|| number("Formula", 70)));
        columns.extend(self.period.then(|| number("Period", 14)));
        columns.extend(keys.iter().map(|key| Column { title: key.title(), least: 0, is_key: true }));
        columns
    }

    fn cells(&self, row: &Computed, how: Compute, wholes: [u64; 2]) -> Vec<String> {
        let text = |period: Option<u64>| period.map_or_else(String::new, |period| period.to_string());
        let percent = |percent: f64| format!("{percent:.2}%");
        let mut cells = vec![row.percents[0].map_or_else(String::new, percent)];
        cells.extend(self.period.then(|| row.periods[0].unwrap_or(0).to_string()));
        cells.push(match (row.value, how) {
            (Some(value), Compute::Delta | Compute::DeltaAbs) => format!("{value:+.2}%"),
            (Some(value), Compute::Ratio) => format!("{value:.6}"),
            (Some(value), Compute::WeightedDiff(..)) => format!("{value:.0}"),
            (None, _) if row.periods[1].is_none() => String::new(),
            (None, _) => "N/A".to_owned(),
        });
        cells.extend(self.formula.then(|| row.formula(how, wholes)));
        cells.extend(self.period.then(|| text(row.periods[1])));
        cells.extend(row.texts.iter().cloned());
        cells
    }

    fn format(&self, event: &str, columns: &[Column], rows: &[Vec<String>]) -> String {
        let mut out = String::new();
        if let Some(separator) = &self.separator {
            let line = |cells: Vec<&str>| {
                let cells: Vec<_> = cells.iter().map(|cell| field(cell.trim_start(), separator)).collect();
                cells.join(separator) + "\n"
            };
            if !self.quiet {
                let titles = columns.iter().map(|column| column.title).collect();
                out += &format!("# Event '{}'\n#\n# {}", foreign(event), line(titles));
            }
            rows.iter().for_each(|row| out += &line(row.iter().map(String::as_str).collect()));
            return out;
        }
        let widest = |at: usize| rows.iter().map(|row| width(&foreign(&row[at]))).max().unwrap_or(0);
        let room = |(at, column): (usize, &Column)| widest(at).max(width(column.title)).max(column.least);
        let widths: Vec<usize> = columns.iter().enumerate().map(room).collect();
        let place = |at: usize, text: &str| match columns[at].is_key {
            true => left(&foreign(text), widths[at]),
            false => right(text, widths[at]),
        };
        if !self.quiet {
            let titles: Vec<String> =
                columns.iter().enumerate().map(|(at, of)| place(at, of.title)).collect();
            let dots: Vec<String> = widths.iter().map(|&width| ".".repeat(width)).collect();
            let titles = titles.join("  ");
            out += &format!(
                "# Event '{}'\n#\n# {}\n# {}\n#\n",
                foreign(event),
                titles.trim_end(),
                dots.join("  ")
            );
        }
        for row in rows {
            let cells: Vec<String> = row.iter().enumerate().map(|(at, cell)| place(at, cell)).collect();
            out += &format!("  {}\n", cells.join("  ").trim_end());
        }
        out
    }
}
