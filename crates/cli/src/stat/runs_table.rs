//! `--table` for people: the time of each run, and how far it is from the mean.

use super::looks::{DIM, Options};
use crate::term::number;
use crate::term::table::{Cell, Column, Side, Table};
use perfuse_stat::Report;

/// Characters of the longest bar.
const BAR: usize = 40;

/// The table; empty without runs.
pub(super) fn format(report: &Report, options: &Options) -> String {
    let Some(wall) = report.wall_ns() else { return String::new() };
    let column = |gap, side, least| Column { gap, side, least };
    let columns = vec![
        column(3, Side::Right, 3),
        column(2, Side::Right, 8),
        column(1, Side::Left, 2),
        column(2, Side::Right, 8),
        column(2, Side::Left, 0),
    ];
    let titles = ["run", "wall", "", "to mean"].map(|title| Cell::styled(title, DIM));
    let mut table = Table { columns, rows: vec![titles.to_vec()] };
    let longest = report.runs.iter().map(|run| run.wall_ns).max().unwrap_or(1).max(1);
    for (number, run) in report.runs.iter().enumerate() {
        let time = number::time(run.wall_ns as f64, options.glyphs);
        let apart = 100.0 * (run.wall_ns as f64 / wall.mean - 1.0);
        let bar = (run.wall_ns as f64 / longest as f64 * BAR as f64).round() as usize;
        table.rows.push(vec![
            Cell::new((number + 1).to_string()),
            Cell::new(time.digits),
            Cell::new(time.unit),
            Cell::new(format!("{apart:+.1} %")),
            Cell::styled("#".repeat(bar), DIM),
        ]);
    }
    format!("\n{}", table.format())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::glyphs::ASCII;
    use perfuse_stat::samples::*;

    #[test]
    fn each_run_has_its_line() {
        let mut report = report(vec![counted("cs", &[1, 2])]);
        for (run, wall_ns) in report.runs.iter_mut().zip([1_000_000, 3_000_000]) {
            run.wall_ns = wall_ns;
        }
        let options = Options {
            glyphs: &ASCII,
            columns: 80,
            exact: false,
            quiet: false,
            metrics_alone: false,
            with_runs: true,
            hints: false,
        };
        let text = anstream::adapter::strip_str(&format(&report, &options)).to_string();
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[2].contains("1.000 ms") && lines[2].contains("-50.0 %  #############"), "{text}");
        assert!(lines[3].contains("3.000 ms") && lines[3].contains("+50.0 %  ####"), "{text}");
    }
}
