//! perf's text, byte for byte: for scripts that were written against `perf stat`. Chosen by `--perf-style`,
//! by `PERFUSE_STYLE=perf`, or by calling the program `perf`. The layout is that of perf 6.1 in the C locale.

use super::compat::{self, PerfMetric};
use crate::Spread;
use crate::{Aggregation, Event, Report, Row, Subject};
use perfuse::cpu_list;
use perfuse_data::text::{foreign, left, right, width};
use std::fmt::Write;

/// Widths of the columns.
const VALUE: usize = 18;
const NAME: usize = 32;
/// Of names of events that were not counted.
const SHORT_NAME: usize = 25;
const METRIC: usize = 35;
/// Of a metric without its event.
const LONE_METRIC: usize = 20;

/// How it is to look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// Digits in groups of three.
    pub grouped: bool,
    /// A spread behind each count.
    pub repeated: bool,
    /// Metrics and no events.
    pub metrics_alone: bool,
    /// The time of each run.
    pub with_runs: bool,
    /// Nothing was to be counted.
    pub nothing: bool,
}

/// A whole measurement.
pub fn format(report: &Report, options: &Style) -> String {
    let mut out = format!("\n Performance counter stats for {}", subject(report));
    if report.is_repeated() {
        let _ = write!(out, " ({} runs)", report.runs.len());
    }
    out += ":\n\n";
    out += &body(report, options);
    out + &foot(report, options)
}

/// An interval, with the names of the columns before every 25th.
pub fn interval(report: &Report, options: &Style, number: usize) -> String {
    let heading = match number % 25 {
        0 if !options.metrics_alone => heading(report),
        _ => String::new(),
    };
    heading + &body(report, options)
}

fn subject(report: &Report) -> String {
    let list = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    match &report.subject {
        Subject::Command(words) => format!("'{}'", foreign(&words.join(" "))),
        Subject::Processes(pids) => format!("process id '{}'", list(pids)),
        Subject::Threads(tids) => format!("thread id '{}'", list(tids)),
        Subject::EveryThread | Subject::Cpus { all: true, .. } => "'system wide'".to_owned(),
        Subject::Recording(name) => format!("'{}'", foreign(name)),
        Subject::Cpus { cpus, all: false } => format!("'CPU(s) {}'", cpu_list(cpus)),
    }
}

fn heading(report: &Report) -> String {
    let (columns, unit) = (columns(report), right("unit", unit_width(report)));
    format!("#           time {columns}counts {unit} events\n")
}

/// The heads of the columns that tell the place.
fn columns(report: &Report) -> &'static str {
    match report.aggregation {
        Aggregation::Everything => "            ",
        Aggregation::Cpu => "CPU                    ",
        Aggregation::Core => "core            cpus             ",
        Aggregation::Cluster => "cluster          cpus             ",
        Aggregation::Cache(_) => "cache              cpus             ",
        Aggregation::Die => "die          cpus             ",
        Aggregation::Socket => "socket cpus             ",
        Aggregation::Node => "node   cpus             ",
        Aggregation::Thread => "            comm-pid                  ",
    }
}

fn unit_width(report: &Report) -> usize {
    report.events.iter().map(|event| width(&foreign(compat::unit(event).0))).max().unwrap_or(0).max(4)
}

fn body(report: &Report, options: &Style) -> String {
    if options.metrics_alone {
        return metrics_alone(report);
    }
    let unit_width = unit_width(report);
    let mut out = String::new();
    for (event, row) in compat::rows(report) {
        let prefix = prefix(report, row);
        out += &prefix;
        let metrics = compat::metrics(report, event, row);
        out += &line(report, event, row, metrics.first(), options, unit_width);
        for metric in metrics.iter().skip(1) {
            let before = VALUE + 1 + unit_width + 1 + NAME;
            let _ = writeln!(out, "{prefix}{}{}", left("", before), metric_field(Some(metric)));
        }
    }
    out
}

/// Time and place.
fn prefix(report: &Report, row: &Row) -> String {
    let mut out = String::new();
    if let Some(interval) = report.interval {
        let (seconds, rest) = (interval.at_ns / 1_000_000_000, interval.at_ns % 1_000_000_000);
        let _ = write!(out, "{seconds:6}.{rest:09} ");
    }
    let (name, cpus) = (compat::place(&row.place), compat::cpus(row));
    let _ = match report.aggregation {
        Aggregation::Everything => Ok(()),
        Aggregation::Cpu => write!(out, "{name:<10} "),
        // The last number of the place has a width, whatever the others have taken.
        Aggregation::Core | Aggregation::Cluster | Aggregation::Cache(_) | Aggregation::Die => {
            let (most, last) =
                name.split_at(name.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1));
            write!(out, "{most}{last:<8} {cpus:4} ")
        }
        Aggregation::Socket | Aggregation::Node => write!(out, "{name:<6} {cpus:4} "),
        Aggregation::Thread => {
            let (name, tid) = name.rsplit_once('-').unwrap_or((&name, ""));
            write!(out, "{}-{tid:<8} ", right(&foreign(name), 16))
        }
    };
    out
}

fn line(
    report: &Report,
    event: &Event,
    row: &Row,
    metric: Option<&PerfMetric>,
    options: &Style,
    unit_width: usize,
) -> String {
    let (unit, scale) = compat::unit(event);
    let (name, unit) = (foreign(&event.name), left(&foreign(unit), unit_width));
    let cgroup = match report.cgroups {
        true => format!(" {}", foreign(event.cgroup.as_deref().unwrap_or(""))),
        false => String::new(),
    };
    let Some(spread) = row.spread() else {
        let absent = row.missing().map_or("", |missing| compat::absent(missing.kind));
        let name = left(&name, SHORT_NAME);
        return format!("{absent:>VALUE$} {unit} {name}{cgroup}{:METRIC$}\n", "");
    };
    let decimals = if scale.fract() == 0.0 { 0 } else { 2 };
    let value = decimal(spread.mean * scale, decimals, options.grouped);
    let mut out = format!("{value:>VALUE$} {unit} {}{cgroup}", left(&name, NAME));
    out += &metric_field(metric);
    if options.repeated {
        out += &noise(&spread);
    }
    if row.share() != 1.0 {
        let _ = write!(out, "  ({:.2}%)", 100.0 * row.share());
    }
    out + "\n"
}

fn decimal(value: f64, decimals: usize, grouped: bool) -> String {
    let text = format!("{value:.decimals$}");
    if !grouped {
        return text;
    }
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    whole.parse().map_or(text.clone(), |whole: u64| in_threes(whole) + rest)
}

/// Digits in groups of three.
fn in_threes(value: u64) -> String {
    let digits = value.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group));
    groups.collect::<Vec<_>>().join(",")
}

/// A metric in its column, or the column without one.
fn metric_field(metric: Option<&PerfMetric>) -> String {
    let Some(PerfMetric { decimals, value: Some(value), unit, .. }) = metric else {
        return format!("{:METRIC$}", "");
    };
    let unit = unit.as_str();
    let number = match (*decimals, unit) {
        (2, "insn per cycle" | "stalled cycles per insn") => format!("{value:7.2} "),
        (3, "of all cache refs") => format!("{value:8.3} %"),
        (2, _) if unit.starts_with("of all") || unit.ends_with("cycles idle") => format!("{value:7.2}%"),
        (decimals, _) => format!("{value:8.decimals$}"),
    };
    format!(" # {number} {}", left(&foreign(unit), METRIC.saturating_sub(4 + number.len())))
}

fn noise(spread: &Spread) -> String {
    let percent = spread.error_percent();
    if percent == 0.0 { String::new() } else { format!("  ( +-{percent:6.2}% )") }
}

fn metrics_alone(report: &Report) -> String {
    let mut out = String::new();
    for (number, (row, metrics)) in compat::alone(report).into_iter().enumerate() {
        let prefix = prefix(report, row);
        if number == 0 && report.interval.is_none_or(|interval| interval.first) {
            let head = match report.interval {
                // As perf has it, narrower than the lines below.
                Some(_) => match columns(report).trim_end() {
                    "" => "#           time ".to_owned(),
                    place => format!("#           time {place:7} "),
                },
                None => left("", width(&prefix)),
            };
            out += &head;
            for PerfMetric { unit, .. } in &metrics {
                let _ = write!(out, "{} ", right(&foreign(unit), LONE_METRIC));
            }
            out.push('\n');
        }
        out += &prefix;
        for PerfMetric { decimals, value, .. } in metrics {
            let value = value.map_or_else(String::new, |value| format!("{value:.decimals$}"));
            let _ = write!(out, "{value:>LONE_METRIC$} ");
        }
        out.push('\n');
    }
    out
}

fn foot(report: &Report, options: &Style) -> String {
    let mut out = if options.nothing { String::new() } else { "\n".to_owned() };
    let seconds = |ns: f64| ns / 1e9;
    let Some(wall) = report.wall_ns() else { return out + "\n\n" };
    if report.is_repeated() {
        let error = wall.error();
        let decimals = decimals_for(seconds(error));
        if options.with_runs {
            out += &runs(report, wall.mean, decimals);
        }
        let _ = write!(
            out,
            " {:17.decimals$} +- {:.decimals$} seconds time elapsed{}",
            seconds(wall.mean),
            seconds(error),
            noise(&wall)
        );
    } else {
        let _ = write!(out, " {:17.9} seconds time elapsed", seconds(wall.mean));
        let used = report.runs.first().and_then(|run| run.usage);
        if let Some(usage) = used {
            let (user, system) = (seconds(usage.user_ns as f64), seconds(usage.system_ns as f64));
            let _ = write!(out, "\n\n {user:17.9} seconds user\n {system:17.9} seconds sys\n");
        }
    }
    out + "\n\n"
}

/// So many that an error of this size is seen in two digits.
fn decimals_for(error: f64) -> usize {
    match error {
        error if error > 1.0 || error <= 0.0 => 2,
        error => (-error.log10()).ceil() as usize + 2,
    }
}

/// The time of each run, and how far it is from the mean.
fn runs(report: &Report, mean: f64, decimals: usize) -> String {
    let indent = 16_usize.saturating_sub(decimals);
    let mut out = format!("{:indent$}# Table of individual measurements:\n", "");
    for run in &report.runs {
        let (time, apart) = (run.wall_ns as f64 / 1e9, (run.wall_ns as f64 - mean) / 1e9);
        let bars = (apart * 1e9 / mean * 100.0).abs() as usize / 5 + 1;
        let width = decimals + 2;
        let _ = writeln!(
            out,
            "{:indent$}{time:width$.decimals$} ({apart:+.decimals$}) {}",
            "",
            "#".repeat(bars.min(MOST_BARS))
        );
    }
    let _ = write!(out, "\n{:indent$}# Final result:\n", "");
    out
}

/// A run that took a hundred times as long as the others needs no line of its own length.
const MOST_BARS: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::samples::*;
    use crate::{Interval, RowPlace};

    #[test]
    fn the_default_events_stand_where_perf_puts_them() {
        let text =
            format(&report(vec![counted("task-clock", &[812_345]), refused("cycles")]), &Style::default());
        assert_eq!(
            text,
            "\n Performance counter stats for './parse big.json':\n\n              \
             0.81 msec task-clock                       #    0.001 CPUs utilized          \n   \
             <not supported>      cycles                                                      \n\n       \
             1.204000000 seconds time elapsed\n\n       2.271000000 seconds user\n       \
             0.034000000 seconds sys\n\n\n"
        );
        let text = format(&report(default_events()), &Style { grouped: true, ..Style::default() });
        assert!(
            text.contains("    21,470,000,000      instructions                     #    2.41  insn per cycle         \n"),
            "{text}"
        );
        assert!(text.contains(" #    1.32% of all branches        \n"), "{text}");
    }

    #[test]
    fn several_runs_show_their_errors() {
        let mut report = report(vec![counted("faults", &[48, 50, 52]), counted("cs", &[3, 3, 3])]);
        for (run, wall_ns) in report.runs.iter_mut().zip([1_100_100, 841_900, 811_800]) {
            run.wall_ns = wall_ns;
        }
        let options = Style { repeated: true, with_runs: true, ..Style::default() };
        let text = format(&report, &options);
        assert!(text.contains("'./parse big.json' (3 runs):\n"), "{text}");
        assert!(text.contains(&format!(" faults{:61}  ( +-  2.31% )\n", "")), "{text}");
        assert!(text.contains(&format!(" cs{:65}\n", "")), "{text}");
        assert!(
            text.ends_with(
                "\n\n         # Table of individual measurements:\n         \
                 0.0011001 (+0.0001822) ####\n         0.0008419 (-0.0000760) ##\n         \
                 0.0008118 (-0.0001061) ###\n\n         # Final result:\n         \
                 0.0009179 +- 0.0000915 seconds time elapsed  ( +-  9.97% )\n\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn places_times_and_cgroups() {
        let mut report = report(vec![counted("cs", &[30])]);
        for (aggregation, place, targets, expected) in [
            (Aggregation::Cpu, RowPlace::Cpu(0), 1, "CPU0                       30      cs "),
            (
                Aggregation::Core,
                RowPlace::Core { socket: 0, die: 0, core: 1 },
                1,
                "S0-D0-C1           1                 30      cs ",
            ),
            (
                Aggregation::Die,
                RowPlace::Die { socket: 0, die: 0 },
                2,
                "S0-D0           2                 30      cs ",
            ),
            (Aggregation::Socket, RowPlace::Socket(0), 2, "S0        2                 30      cs "),
            (Aggregation::Node, RowPlace::Node(0), 2, "N0        2                 30      cs "),
            (
                Aggregation::Thread,
                RowPlace::Thread { name: "a-b".into(), tid: 14082 },
                1,
                "             a-b-14082                    30      cs ",
            ),
        ] {
            report.aggregation = aggregation;
            report.events[0].rows[0].place = place;
            report.events[0].rows[0].targets = targets;
            let text = body(&report, &Style::default());
            assert!(text.starts_with(expected), "{text}");
        }
        report.aggregation = Aggregation::Everything;
        report.interval = Some(Interval { at_ns: 50_091_969, first: true });
        report.cgroups = true;
        report.events[0].cgroup = Some("/".into());
        assert_eq!(
            interval(&report, &Style::default(), 0),
            format!(
                "#           time             counts unit events\n     0.050091969                 \
                 30      cs{:30} /{:35}\n",
                "", ""
            )
        );
        assert!(!interval(&report, &Style::default(), 1).contains('#'));
    }
}
