//! `-x SEP`: perf's separated fields, byte for byte: prefix columns, value, unit, event, cgroup, spread,
//! run time, share, metric, metric unit.

use super::compat::{self, PerfMetric};
use crate::{Aggregation, Event, Report, Row, RowPlace};
use perfuse_data::text::field;
use std::fmt::Write;

/// All rows of a measurement or interval.
pub fn format(report: &Report, separator: &str, repeated: bool) -> String {
    let mut out = String::new();
    for (event, row) in compat::rows(report) {
        let prefix = prefix(report, row, separator);
        out += &prefix;
        out += &fields(report, event, row, repeated, separator).join(separator);
        let metrics = compat::metrics(report, event, row);
        let shown = |metric: Option<&PerfMetric>| match metric {
            Some(PerfMetric { decimals, value: Some(value), unit, .. }) => {
                format!("{separator}{value:.decimals$}{separator}{}\n", field(unit, separator))
            }
            _ => format!("{separator}{separator}\n"),
        };
        out += &shown(metrics.first());
        for metric in metrics.iter().skip(1) {
            // perf gives the second metric of an event a line with empty fields.
            let fields = if report.cgroups { 5 } else { 4 };
            let _ = write!(out, "{prefix}{}{}", separator.repeat(fields), shown(Some(metric)));
        }
    }
    out
}

/// Time and place, each with its separator.
fn prefix(report: &Report, row: &Row, separator: &str) -> String {
    let mut prefix = String::new();
    if let Some(interval) = report.interval {
        let (seconds, rest) = (interval.at_ns / 1_000_000_000, interval.at_ns % 1_000_000_000);
        let _ = write!(prefix, "{seconds:6}.{rest:09}{separator}");
    }
    match row.place {
        RowPlace::Everywhere => {}
        // Of an event that is counted by core among others by cpu.
        RowPlace::Core { .. } if report.aggregation == Aggregation::Cpu => {
            prefix += &(field(&compat::place(&row.place), separator) + separator);
        }
        ref part if part.is_part() => {
            let _ =
                write!(prefix, "{}{separator}{}{separator}", compat::place(&row.place), compat::cpus(row));
        }
        _ => prefix += &(field(&compat::place(&row.place), separator) + separator),
    }
    prefix
}

fn fields(report: &Report, event: &Event, row: &Row, repeated: bool, separator: &str) -> Vec<String> {
    let (unit, scale) = compat::unit(event);
    let spread = row.spread();
    let value = match (&spread, row.missing()) {
        (Some(spread), _) if scale == 1.0 => format!("{:.0}", spread.mean),
        (Some(spread), _) => format!("{:.2}", spread.mean * scale),
        (None, missing) => missing.map_or("", |missing| compat::absent(missing.kind)).to_owned(),
    };
    let mut fields =
        vec![value, field(unit, separator).into_owned(), field(&event.name, separator).into_owned()];
    fields.extend(
        report.cgroups.then(|| field(event.cgroup.as_deref().unwrap_or_default(), separator).into_owned()),
    );
    if repeated {
        fields.push(format!("{:.2}%", spread.map_or(0.0, |spread| spread.error_percent())));
    }
    fields.push(format!("{:.0}", row.running_ns().floor()));
    fields.push(format!("{:.2}", 100.0 * row.share()));
    fields
}

/// Metrics without events: a line of names, once, and one of values for each place.
pub fn metrics_alone(report: &Report, separator: &str) -> String {
    let mut out = String::new();
    let rows = compat::alone(report);
    if report.interval.is_none_or(|interval| interval.first) {
        let place = match report.aggregation {
            Aggregation::Everything => "",
            Aggregation::Cpu => "cpu,",
            Aggregation::Core => "core,cpus,",
            Aggregation::Cluster => "cluster,cpus,",
            Aggregation::Cache(_) => "cache,cpus,",
            Aggregation::Die => "die,cpus,",
            Aggregation::Socket => "socket,cpus,",
            Aggregation::Node => "node,cpus,",
            Aggregation::Thread => "comm-pid,",
        };
        let time = if report.interval.is_some() { "time," } else { "" };
        out += &(time.to_owned() + place).replace(',', separator);
        for metric in rows.first().into_iter().flat_map(|(_, metrics)| metrics) {
            let _ = write!(out, "{}{separator}", field(&metric.unit, separator));
        }
        out.push('\n');
    }
    for (row, metrics) in rows {
        out += &prefix(report, row, separator);
        for metric in metrics {
            let decimals = metric.decimals;
            let value = metric.value.map_or_else(String::new, |value| format!("{value:.decimals$}"));
            let _ = write!(out, "{value}{separator}");
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::samples::*;
    use crate::{Aggregation, Interval, Missing, Outcome};

    fn lines(report: &Report) -> Vec<String> {
        format(report, ",", report.is_repeated()).lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_default_events() {
        let lines = lines(&report(default_events()));
        assert_eq!(lines[0], "2310.40,msec,task-clock,1000000,100.00,1.919,CPUs utilized");
        assert_eq!(lines[1], "531,,context-switches,1000000,100.00,229.830,/sec");
        assert_eq!(lines[4], "8912034551,,cycles,1000000,100.00,3.857,GHz");
        assert_eq!(lines[5], "21470000000,,instructions,1000000,100.00,2.41,insn per cycle");
        assert_eq!(lines[7], "41270000,,branch-misses,1000000,100.00,1.32,of all branches");
    }

    #[test]
    fn what_was_not_counted() {
        let never = event("cs", Outcome::Missing(Missing::never_enabled()));
        let lines = lines(&report(vec![refused("cycles"), never, partly("faults", &[7], 200, 100)]));
        assert_eq!(
            lines,
            ["<not supported>,,cycles,0,100.00,,", "<not counted>,,cs,0,100.00,,", "7,,faults,100,50.00,,"]
        );
    }

    #[test]
    fn several_runs_show_the_standard_error() {
        let lines =
            lines(&report(vec![counted("faults", &[48, 50, 52]), counted("duration_time", &[10, 12, 14])]));
        assert_eq!(lines[0], "50,,faults,2.31%,1000000,100.00,,");
        assert_eq!(lines[1], "12,ns,duration_time,9.62%,1000000,100.00,,");
    }

    #[test]
    fn prefixes_of_time_place_and_cgroup() {
        let mut report = report(vec![counted("cs", &[3]), refused("cycles")]);
        report.interval = Some(Interval { at_ns: 50_091_969, first: true });
        report.cgroups = true;
        report.events[1].cgroup = Some("/".into());
        report.aggregation = Aggregation::Core;
        for event in &mut report.events {
            event.rows[0].place = RowPlace::Core { socket: 0, die: 0, core: 1 };
            event.rows[0].targets = 2;
        }
        assert_eq!(
            lines(&report),
            [
                "     0.050091969,S0-D0-C1,2,3,,cs,,1000000,100.00,,",
                "     0.050091969,S0-D0-C1,1,<not supported>,,cycles,/,0,100.00,,"
            ]
        );
    }

    #[test]
    fn stalled_cycles_get_a_line_of_their_own() {
        let lines =
            lines(&report(vec![counted("instructions", &[100]), counted("stalled-cycles-backend", &[50])]));
        assert_eq!(lines[1], ",,,,,0.50,stalled cycles per insn");
    }
}
