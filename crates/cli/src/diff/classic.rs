//! The options and the table of `perf diff`: what was before, and what is computed of it and of what came after.

use crate::common::style;
use crate::common::unsupported::{PerfOption, PerfOptions, Unsupported};
use crate::term::foreign::{field, foreign, left, right, width};
use clap::{ArgMatches, Command, FromArgMatches};
use perfuse_diff::{Compute, Computed, compute};
use perfuse_profile::{Key, View};

/// Options that make the table perf's.
#[derive(Debug, clap::Args)]
pub(super) struct ClassicArgs {
    /// perf's table with this: delta, delta-abs, ratio, wdiff:W1,W2
    #[arg(short = 'c', long, value_name = "HOW")]
    compute: Option<Compute>,
    /// perf's table by what is computed (1), or by the share before (0)
    #[arg(short, long, value_name = "COLUMN", value_parser = clap::value_parser!(u8).range(..2))]
    order: Option<u8>,
    /// perf's table without functions that are new
    #[arg(short, long)]
    baseline_only: bool,
    /// perf's table with the occurrences of the event
    #[arg(short, long)]
    period: bool,
    /// perf's table with each computation
    #[arg(short = 'F', long)]
    formula: bool,
    /// perf's table with this between columns, without padding
    #[arg(short = 't', long, value_name = "TEXT")]
    field_separator: Option<String>,
    /// No lines that begin with #, in perf's table
    #[arg(short, long)]
    quiet: bool,
    /// Base of percentages in perf's table: all samples, or relative to those that filters leave
    #[arg(long, value_name = "HOW", default_value = "absolute", hide_default_value = true, value_parser = ["absolute", "relative"])]
    percentage: String,
    #[command(flatten)]
    _untaken: Unsupported<OfDiff>,
}

/// Options of `perf diff` that mean nothing here, or are refused.
#[derive(Clone, Debug)]
struct OfDiff;

impl PerfOptions for OfDiff {
    const OPTIONS: &'static [PerfOption] = &[
        PerfOption::ignored("modules").letter('m'),
        PerfOption::ignored("verbose").letter('v'),
        PerfOption::refused("dump-raw-trace", "perfuse report -D shows the records of one recording")
            .letter('D'),
        PerfOption::refused(
            "stream",
            "callchains are not compared; perfuse compare --profile compares functions",
        ),
        PerfOption::refused("cycles-hist", "cycles of basic blocks are not read"),
    ];
}

/// Arguments of which none has a letter that is another option's here: `-c` is `--compute`, as in perf.
#[derive(Debug)]
pub(super) struct WithoutLetter<T>(pub(super) T);

impl<T: clap::Args> clap::Args for WithoutLetter<T> {
    fn augment_args(command: Command) -> Command {
        T::augment_args(command).mut_arg("comm", |arg| arg.short(None))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: FromArgMatches> FromArgMatches for WithoutLetter<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        T::from_arg_matches(matches).map(WithoutLetter)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// A column: its title, and how wide it is at least. Keys stand at the left, numbers at the right.
struct Column {
    title: &'static str,
    least: usize,
    is_key: bool,
}

impl ClassicArgs {
    /// Whether perf's table is shown.
    pub(super) fn is_wanted(&self) -> bool {
        style::is_perfs(false)
            || self.compute.is_some()
            || self.order.is_some()
            || self.baseline_only
            || self.period
            || self.formula
            || self.field_separator.is_some()
            || self.percentage == "relative"
    }

    /// The table of an event. Tables after the first have an empty line before them.
    pub(super) fn table(&self, event: &str, views: [&View<'_>; 2], keys: &[Key], is_first: bool) -> String {
        let how = self.compute.unwrap_or_default();
        let wholes = views.map(|view| match self.percentage == "relative" {
            true => view.entries.iter().map(|entry| entry.self_weight).sum(),
            false => view.event.weight,
        });
        let mut rows = compute(views, keys, wholes, how, self.order == Some(0));
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
        if let Some(separator) = &self.field_separator {
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
