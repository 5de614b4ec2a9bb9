//! `-j`: perf's JSON, an object a line with its values as strings, byte for byte: that is what it is for.
//!
//! So it has perf's oddities too. A value without a metric has the metric 0 with the unit `(null)`, which
//! is how the C library prints the null pointer that perf 6.1 passes on; an event without a value has the
//! empty unit. Programs made for perf's output know both; for others there is `--json`.

use super::compat::{self, PerfMetric};
use crate::{Aggregation, Event, Report, Row, RowPlace};
use serde_json::Value;
use std::fmt::Write;

/// All rows of a measurement or interval.
pub fn format(report: &Report, repeated: bool) -> String {
    let mut out = String::new();
    for (event, row) in compat::rows(report) {
        let prefix = prefix(report, row);
        let metrics = compat::metrics(report, event, row);
        let own = match metrics.first() {
            Some(metric) => metric_members(metric),
            // How the C library prints the null pointer that perf passes on.
            None if row.missing().is_none() => no_metric("(null)"),
            None => no_metric(""),
        };
        let _ = writeln!(out, "{{{prefix}{}{own}}}", members(report, event, row, repeated));
        for metric in metrics.iter().skip(1) {
            let _ = writeln!(out, "{{{prefix}{}}}", metric_members(metric));
        }
    }
    out
}

fn no_metric(unit: &str) -> String {
    format!("\"metric-value\" : 0.000000, \"metric-unit\" : \"{unit}\"")
}

fn metric_members(metric: &PerfMetric) -> String {
    let (value, unit) = (metric.value.unwrap_or(0.0), Value::from(metric.unit.as_str()));
    let mut members = format!("\"metric-value\" : {value:.6}, \"metric-unit\" : {unit}");
    if let Some(verdict) = metric.verdict {
        let _ = write!(members, ", \"metric-threshold\" : \"{verdict}\"");
    }
    members
}

/// Metrics without events: an object a place, with the values as strings.
pub fn metrics_alone(report: &Report) -> String {
    let mut out = String::new();
    for (row, metrics) in compat::alone(report) {
        let member = |metric: &PerfMetric| {
            let decimals = metric.decimals;
            let value = metric.value.map_or_else(String::new, |value| format!("{value:.decimals$}"));
            format!("{} : {}", Value::from(metric.unit.as_str()), Value::from(value))
        };
        let members: Vec<String> = metrics.iter().map(member).collect();
        let prefix = prefix(report, row);
        let prefix = if members.is_empty() { prefix.trim_end_matches(", ") } else { &prefix };
        let _ = writeln!(out, "{{{prefix}{}}}", members.join(", "));
    }
    out
}

fn prefix(report: &Report, row: &Row) -> String {
    let mut prefix = String::new();
    if let Some(interval) = report.interval {
        let (seconds, rest) = (interval.at_ns / 1_000_000_000, interval.at_ns % 1_000_000_000);
        let _ = write!(prefix, "\"interval\" : {seconds}.{rest:09}, ");
    }
    let place = |key: &str, name: String| format!("\"{key}\" : {}, ", Value::from(name));
    let number = match report.aggregation {
        // Of an event that is counted by core among others by cpu.
        Aggregation::Cpu => String::new(),
        _ => format!("\"aggregate-number\" : {}, ", compat::cpus(row)),
    };
    match &row.place {
        RowPlace::Everywhere => {}
        RowPlace::Cpu(cpu) => prefix += &place("cpu", cpu.to_string()),
        RowPlace::Core { .. } => prefix += &(place("core", compat::place(&row.place)) + &number),
        RowPlace::Cluster { .. } => prefix += &(place("cluster", compat::place(&row.place)) + &number),
        RowPlace::Cache { .. } => prefix += &(place("cache", compat::place(&row.place)) + &number),
        RowPlace::Die { .. } => prefix += &(place("die", compat::place(&row.place)) + &number),
        RowPlace::Socket(_) => prefix += &(place("socket", compat::place(&row.place)) + &number),
        RowPlace::Node(_) => prefix += &(place("node", compat::place(&row.place)) + &number),
        RowPlace::Thread { .. } => prefix += &place("thread", compat::place(&row.place)),
    }
    prefix
}

fn members(report: &Report, event: &Event, row: &Row, repeated: bool) -> String {
    let (unit, scale) = compat::unit(event);
    let spread = row.spread();
    let value = match (&spread, row.missing()) {
        (Some(spread), _) => format!("{:.6}", spread.mean * scale),
        (None, missing) => missing.map_or("", |missing| compat::absent(missing.kind)).to_owned(),
    };
    let mut out = format!(
        "\"counter-value\" : \"{value}\", \"unit\" : {}, \"event\" : {}, ",
        Value::from(unit),
        Value::from(event.name.as_str())
    );
    if report.cgroups {
        let _ = write!(out, "\"cgroup\" : {}, ", Value::from(event.cgroup.as_deref().unwrap_or("")));
    }
    if repeated {
        let _ = write!(out, "\"variance\" : {:.2}, ", spread.map_or(0.0, |spread| spread.error_percent()));
    }
    let _ = write!(
        out,
        "\"event-runtime\" : {:.0}, \"pcnt-running\" : {:.2}, ",
        row.running_ns().floor(),
        100.0 * row.share(),
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::samples::*;
    use crate::{Aggregation, Interval};

    fn lines(report: &Report) -> Vec<String> {
        format(report, report.is_repeated()).lines().map(str::to_owned).collect()
    }

    #[test]
    fn perfs_lines() {
        let lines = lines(&report(vec![
            counted("task-clock", &[362_067]),
            refused("cycles"),
            counted("faults", &[49]),
        ]));
        assert_eq!(
            lines,
            [
                r#"{"counter-value" : "0.362067", "unit" : "msec", "event" : "task-clock", "event-runtime" : 1000000, "pcnt-running" : 100.00, "metric-value" : 0.000301, "metric-unit" : "CPUs utilized"}"#,
                r#"{"counter-value" : "<not supported>", "unit" : "", "event" : "cycles", "event-runtime" : 0, "pcnt-running" : 100.00, "metric-value" : 0.000000, "metric-unit" : ""}"#,
                r#"{"counter-value" : "49.000000", "unit" : "", "event" : "faults", "event-runtime" : 1000000, "pcnt-running" : 100.00, "metric-value" : 135.334068, "metric-unit" : "K/sec"}"#,
            ]
        );
    }

    #[test]
    fn a_value_without_a_metric_has_perfs_null_unit() {
        let lines = lines(&report(vec![counted("faults", &[49])]));
        assert!(
            lines[0].ends_with(r#""metric-value" : 0.000000, "metric-unit" : "(null)"}"#),
            "{}",
            lines[0]
        );
    }

    #[test]
    fn every_line_is_json() {
        let mut report =
            report(vec![counted("instructions", &[10, 20]), counted("stalled-cycles-backend", &[5, 5])]);
        report.interval = Some(Interval { at_ns: 1_000_000_001, first: false });
        report.aggregation = Aggregation::Thread;
        for event in &mut report.events {
            event.name = "a \"quoted\" name".into();
            event.rows[0].place = RowPlace::Thread { name: "my\\prog".into(), tid: 7 };
        }
        let parsed: Vec<Value> =
            lines(&report).iter().map(|line| serde_json::from_str(line).expect(line)).collect();
        assert_eq!(parsed.len(), 3);
        assert_eq!(parsed[0]["interval"], 1.000000001);
        assert_eq!(parsed[0]["thread"], "my\\prog-7");
        assert_eq!(parsed[0]["variance"], 33.33);
    }
}
