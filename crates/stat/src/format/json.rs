//! `--json`: the measurement as one object (one a line with `-I`), schema `perfuse.stat/1`: numbers are
//! numbers, times say their unit in the name, and an event without a value has a reason. Members that do not
//! apply (the exit of a measurement without a command, a metric) are left out.

use crate::Spread;
use crate::derive::{self, Kind, Whole};
use crate::metrics;
use crate::{Event, Exit, MissingKind, Report, Row, RowPlace, Subject, Usage};
use perfuse_events::Unit;
use perfuse_events::abi::Cache;
use serde::Serialize;

const SCHEMA: &str = "perfuse.stat/1";

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    target: Target<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<IntervalOf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit: Option<ExitOf>,
    runs: usize,
    wall_s: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_s: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_s: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_rss_bytes: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    minor_faults: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    major_faults: Option<Value>,
    events: Vec<Row_<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    metrics: Vec<MetricOf<'a>>,
    warnings: &'a [String],
}

/// A metric of a table.
#[derive(Serialize)]
struct MetricOf<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<PlaceOf<'a>>,
    value: Option<f64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    unit: &'a str,
    /// The condition under which the value deserves attention.
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<String>,
    /// Whether it holds for this value.
    #[serde(skip_serializing_if = "Option::is_none")]
    beyond_threshold: Option<bool>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Target<'a> {
    Command(&'a [String]),
    Processes(&'a [u32]),
    Threads(&'a [u32]),
    EveryThread,
    Recording(&'a str),
    Cpus(&'a [u32]),
}

#[derive(Serialize)]
struct IntervalOf {
    /// When it ended, from the start.
    at_s: f64,
    length_s: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum ExitOf {
    Code(i32),
    Signal(i32),
    Stopped,
}

/// A number, or what several runs say about it.
#[derive(Serialize)]
#[serde(untagged)]
enum Value {
    One(Number),
    Several(Distribution),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Number {
    Whole(u64),
    Fraction(f64),
}

#[derive(Serialize)]
struct Distribution {
    /// One a run, in order.
    runs: Vec<Number>,
    mean: f64,
    /// Standard deviation of the runs.
    sigma: f64,
    /// Of the mean, with 95 % confidence.
    interval95: (f64, f64),
}

#[derive(Serialize)]
struct Row_<'a> {
    name: &'a str,
    /// The cgroup whose tasks it counts, if not everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<PlaceOf<'a>>,
    unit: &'a str,
    /// The factor that brought the value into that unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    scale: Option<f64>,
    value: Option<Value>,
    /// The kernel's count, where the value is an estimate made from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<u64>,
    scaled: bool,
    enabled_ns: u64,
    running_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    metric: Option<Metric>,
    #[serde(flatten)]
    missing: Option<MissingOf<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum PlaceOf<'a> {
    Cpu(u32),
    Core { socket: u32, die: u32, core: u32, cpus: u32 },
    Cluster { socket: u32, die: u32, cluster: u32, cpus: u32 },
    Cache { socket: u32, die: u32, level: u32, first_cpu: u32, cpus: u32 },
    Die { socket: u32, die: u32, cpus: u32 },
    Socket { socket: u32, cpus: u32 },
    Node { node: u32, cpus: u32 },
    Thread { tid: u32, name: &'a str },
}

#[derive(Serialize)]
struct Metric {
    name: String,
    value: f64,
}

#[derive(Serialize)]
struct MissingOf<'a> {
    reason: &'static str,
    cause: &'a str,
    errno: Option<&'a str>,
    explanation: &'a str,
    remedies: &'a [String],
}

/// One line with one object.
pub fn format(report: &Report) -> String {
    let wall: Vec<u64> = report.runs.iter().map(|run| run.wall_ns).collect();
    let used = |what: fn(&Usage) -> u64, unit| {
        let values: Vec<u64> = report.runs.iter().filter_map(|run| run.usage.as_ref()).map(what).collect();
        value(&values, unit)
    };
    let document = Document {
        schema: SCHEMA,
        target: match &report.subject {
            Subject::Command(words) => Target::Command(words),
            Subject::Processes(pids) => Target::Processes(pids),
            Subject::Threads(tids) => Target::Threads(tids),
            Subject::EveryThread => Target::EveryThread,
            Subject::Recording(name) => Target::Recording(name),
            Subject::Cpus { cpus, .. } => Target::Cpus(cpus),
        },
        interval: report.interval.map(|interval| IntervalOf {
            at_s: interval.at_ns as f64 / 1e9,
            length_s: report.wall_ns().map_or(0.0, |wall| wall.mean / 1e9),
        }),
        exit: report.exit.map(|exit| match exit {
            Exit::Code(code) => ExitOf::Code(code),
            Exit::Signal(signal) => ExitOf::Signal(signal),
            Exit::Stopped => ExitOf::Stopped,
        }),
        runs: report.runs.len(),
        wall_s: value(&wall, 1e9),
        user_s: used(|usage| usage.user_ns, 1e9),
        system_s: used(|usage| usage.system_ns, 1e9),
        peak_rss_bytes: used(|usage| usage.peak_rss_bytes, 1.0),
        minor_faults: used(|usage| usage.minor_faults, 1.0),
        major_faults: used(|usage| usage.major_faults, 1.0),
        events: report
            .events
            .iter()
            .flat_map(|event| event.rows.iter().map(|row| self::row(report, event, row)))
            .collect(),
        metrics: metrics(report),
        warnings: &report.warnings,
    };
    // Plain data with string keys: nothing in it can fail to serialize.
    serde_json::to_string(&document).unwrap_or_default() + "\n"
}

fn metrics(report: &Report) -> Vec<MetricOf<'_>> {
    let rows = report.events.iter().map(|event| &event.rows).max_by_key(|rows| rows.len());
    let mut all = Vec::new();
    for measured in report.metrics.iter() {
        for row in rows.into_iter().flatten() {
            let value = metrics::value(report, measured, &row.place);
            all.push(MetricOf {
                name: value.name,
                place: place(row),
                value: value.value,
                unit: value.scale.map_or("", |scale| &scale.unit),
                threshold: value.threshold.map(ToString::to_string),
                beyond_threshold: value.is_beyond,
            });
        }
    }
    all
}

fn place(row: &Row) -> Option<PlaceOf<'_>> {
    let cpus = row.targets;
    match &row.place {
        RowPlace::Everywhere => None,
        RowPlace::Cpu(cpu) => Some(PlaceOf::Cpu(*cpu)),
        &RowPlace::Core { socket, die, core } => Some(PlaceOf::Core { socket, die, core, cpus }),
        &RowPlace::Cluster { socket, die, cluster } => Some(PlaceOf::Cluster { socket, die, cluster, cpus }),
        &RowPlace::Cache { socket, die, level, first_cpu } => {
            Some(PlaceOf::Cache { socket, die, level, first_cpu, cpus })
        }
        &RowPlace::Die { socket, die } => Some(PlaceOf::Die { socket, die, cpus }),
        &RowPlace::Socket(socket) => Some(PlaceOf::Socket { socket, cpus }),
        &RowPlace::Node(node) => Some(PlaceOf::Node { node, cpus }),
        RowPlace::Thread { name, tid } => Some(PlaceOf::Thread { tid: *tid, name }),
    }
}

fn row<'a>(report: &Report, event: &'a Event, row: &'a Row) -> Row_<'a> {
    let readings = row.readings();
    let scaled = readings.iter().any(|reading| reading.value != reading.raw);
    let mut warnings = Vec::new();
    if event.impossible && row.missing().is_none() {
        warnings.push("always zero in user space");
    }
    if event.lost_kernel_side {
        warnings.push("user space only");
    }
    if event.lost_children {
        warnings.push("without children");
    }
    Row_ {
        name: &event.name,
        cgroup: event.cgroup.as_deref(),
        place: place(row),
        unit: match (&event.scale, event.unit) {
            (Some(scale), _) => &scale.unit,
            (None, Unit::Count) => "count",
            (None, Unit::Nanoseconds) => "ns",
        },
        scale: event.scale.as_ref().map(|scale| scale.factor),
        value: value(
            &readings.iter().map(|reading| reading.value).collect::<Vec<_>>(),
            event.scale.as_ref().map_or(1.0, |scale| 1.0 / scale.factor),
        ),
        raw: if scaled && readings.len() == 1 { Some(readings[0].raw) } else { None },
        scaled,
        enabled_ns: readings.iter().map(|reading| reading.enabled_ns).sum(),
        running_ns: readings.iter().map(|reading| reading.running_ns).sum(),
        metric: derive::metric(report, event, &row.place)
            .and_then(|metric| Some(Metric { name: metric_name(metric.kind), value: metric.value? })),
        missing: row.missing().map(|missing| MissingOf {
            reason: match missing.kind {
                MissingKind::NotSupported => "unsupported",
                MissingKind::NeverScheduled => "not_scheduled",
                MissingKind::NeverEnabled => "not_enabled",
            },
            cause: &missing.cause,
            errno: missing.errno.as_deref(),
            explanation: if missing.explanation.is_empty() { &missing.short } else { &missing.explanation },
            remedies: &missing.remedies,
        }),
        warnings,
    }
}

/// In units of so many of the values' own; `None` without a value.
fn value(values: &[u64], unit: f64) -> Option<Value> {
    let number = |&value: &u64| match unit {
        1.0 => Number::Whole(value),
        unit => Number::Fraction(value as f64 / unit),
    };
    let spread = Spread::of(values.iter().map(|&value| value as f64))?;
    Some(match spread.interval95() {
        Some((low, high)) => Value::Several(Distribution {
            runs: values.iter().map(number).collect(),
            mean: spread.mean / unit,
            sigma: spread.sigma / unit,
            interval95: (low / unit, high / unit),
        }),
        None => Value::One(number(&values[0])),
    })
}

fn metric_name(kind: Kind) -> String {
    let cache = |cache| match cache {
        Cache::L1D => "l1_dcache_loads",
        Cache::L1I => "l1_icache_loads",
        Cache::DTLB => "dtlb_loads",
        Cache::ITLB => "itlb_loads",
        Cache::BPU => "branch_loads",
        _ => "llc_loads",
    };
    match kind {
        Kind::CpusUsed => "cpus_used".into(),
        Kind::PerSecond => "per_cpu_second".into(),
        Kind::GigaHertz => "ghz".into(),
        Kind::PerCycle => "per_cycle".into(),
        Kind::ShareOf(Whole::Branches) => "fraction_of_branches".into(),
        Kind::ShareOf(Whole::CacheReferences) => "fraction_of_cache_references".into(),
        Kind::ShareOf(Whole::CyclesFrontend | Whole::CyclesBackend) => "fraction_of_cycles".into(),
        Kind::ShareOf(Whole::Loads(which)) => format!("fraction_of_{}", cache(which)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::samples::*;
    use crate::{Missing, Outcome};
    use serde_json::{Value as Json, json};

    fn parsed(report: &Report) -> Json {
        serde_json::from_str(&format(report)).unwrap()
    }

    #[test]
    fn numbers_are_numbers_and_every_null_has_a_reason() {
        let never = event("LLC-loads", Outcome::Missing(Missing::never_scheduled()));
        let value =
            parsed(&report(vec![counted("cycles", &[8_912_034_551]), refused("instructions"), never]));
        assert_eq!(value["schema"], "perfuse.stat/1");
        assert_eq!(value["target"]["command"], json!(["./parse", "big.json"]));
        assert_eq!(value["exit"], json!({"code": 0}));
        assert_eq!(value["wall_s"], 1.204);
        assert_eq!(value["peak_rss_bytes"], 3 << 20);
        assert_eq!(value["events"][0]["value"], 8_912_034_551u64);
        assert_eq!(value["events"][1]["value"], Json::Null);
        assert_eq!(value["events"][1]["errno"], "ENOENT");
        assert_eq!(value["events"][1]["reason"], "unsupported");
        assert_eq!(value["events"][2]["reason"], "not_scheduled");
        assert!(value["events"][2]["explanation"].as_str().unwrap().contains("never on the PMU"));
    }

    #[test]
    fn estimates_and_repeats_say_what_they_are() {
        let value = parsed(&report(vec![partly("cycles", &[1000], 2000, 1000)]));
        assert_eq!(value["events"][0]["scaled"], true);
        assert_eq!(value["events"][0]["raw"], 500);
        let value = parsed(&report(vec![counted("faults", &[48, 50, 52])]));
        assert_eq!(value["runs"], 3);
        assert_eq!(value["events"][0]["value"]["runs"], json!([48, 50, 52]));
        assert_eq!(value["wall_s"]["runs"], json!([1.204, 1.204, 1.204]));
        assert_eq!(value["events"][0]["value"]["sigma"], 2.0);
        assert!(value["events"][0]["value"]["interval95"][0].as_f64().unwrap() < 46.0);
    }
}
