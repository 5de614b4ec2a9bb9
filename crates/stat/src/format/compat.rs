//! The common part of perf's two machine formats: the order of rows, and how perf writes values and metrics.
//! The shapes are those of perf 6.1.

use crate::derive::{self, Kind, Whole};
use crate::metrics;
use crate::{Aggregation, Event, MissingKind, Report, Row, RowPlace, Subject};
use perfuse_events::abi::{Cache, EventType, Software};
use perfuse_events::{Source, Unit};

/// Every row with its event, as perf orders them: by place first for cores and sockets, else by event.
pub(super) fn rows(report: &Report) -> Vec<(&Event, &Row)> {
    let by_event = report.events.iter().flat_map(|event| event.rows.iter().map(move |row| (event, row)));
    match report.aggregation {
        Aggregation::Core
        | Aggregation::Cluster
        | Aggregation::Cache(_)
        | Aggregation::Die
        | Aggregation::Socket
        | Aggregation::Node => {
            let all: Vec<_> = by_event.collect();
            let at = |place: &RowPlace| {
                all.iter().filter(|(_, row)| row.place == *place).copied().collect::<Vec<_>>()
            };
            report.places().into_iter().flat_map(at).collect()
        }
        Aggregation::Thread => by_thread(report),
        _ => by_event.collect(),
    }
}

/// perf puts the threads where most was counted first, and of all threads of the system tells only those
/// where anything was.
fn by_thread(report: &Report) -> Vec<(&Event, &Row)> {
    let count = |row: &Row| row.spread().map_or(0.0, |spread| spread.mean);
    let only_busy = report.subject == Subject::EveryThread;
    let of = |event: &'_ Event| -> Vec<usize> {
        let mut order: Vec<usize> = (0..event.rows.len()).collect();
        let nothing = order.iter().all(|&at| count(&event.rows[at]) == 0.0);
        order.retain(|&at| nothing || !only_busy || count(&event.rows[at]) > 0.0);
        order.sort_by(|&a, &b| count(&event.rows[b]).total_cmp(&count(&event.rows[a])));
        // Of an event that was counted nowhere, one line tells so.
        order.truncate(if nothing && only_busy { 1 } else { usize::MAX });
        order
    };
    let events = report.events.iter();
    events.flat_map(|event| of(event).into_iter().map(move |at| (event, &event.rows[at]))).collect()
}

/// A metric as perf writes it: the number of decimals, the value and the unit. `None`: no metric.
#[derive(Debug, PartialEq)]
pub(super) struct PerfMetric {
    pub(super) decimals: usize,
    /// `None` where only the unit is known.
    pub(super) value: Option<f64>,
    pub(super) unit: String,
    /// Perf's word for a value that is beyond its threshold, or within.
    pub(super) verdict: Option<&'static str>,
}

/// The metrics of a row: the first stands in the event's own line, the others in lines of theirs.
pub(super) fn metrics(report: &Report, event: &Event, row: &Row) -> Vec<PerfMetric> {
    let mut all: Vec<PerfMetric> = metric(report, event, row).into_iter().collect();
    all.extend(derive::stalled_per_instruction(report, event, &row.place).map(|stalled| PerfMetric {
        decimals: 2,
        value: Some(stalled),
        unit: "stalled cycles per insn".into(),
        verdict: None,
    }));
    let at = report.events.iter().position(|own| std::ptr::eq(own, event));
    if let (Some(at), None) = (at, row.missing()) {
        all.extend(metrics::beside(report, at, &row.place).map(|value| of_table(&value)));
    }
    all
}

/// A metric of a table.
fn of_table(value: &metrics::Value<'_>) -> PerfMetric {
    let (decimals, unit) = match value.scale {
        Some(scale) => (1, format!("{}  {}", scale.unit, value.name)),
        None => (2, value.name.to_owned()),
    };
    let verdict = value.is_beyond.map(|beyond| if beyond { "bad" } else { "good" });
    PerfMetric { decimals, value: value.value, unit: unit.trim_start().into(), verdict }
}

/// Metrics without events: those of each place that perf shows so.
pub(super) fn alone(report: &Report) -> Vec<(&Row, Vec<PerfMetric>)> {
    let Some(first) = report.events.iter().max_by_key(|event| event.rows.len()) else { return Vec::new() };
    let at = |place: &RowPlace| {
        let mut found = Vec::new();
        for (number, event) in report.events.iter().enumerate() {
            let row = event.row_at(place);
            // perf leaves out what is no ratio.
            let is_ratio = |metric: &PerfMetric| {
                !["/sec", "CPUs utilized"].iter().any(|rate| metric.unit.contains(rate))
            };
            // Without metrics of tables, those that events have by themselves are meant.
            let own = row.filter(|_| report.metrics.is_empty());
            found.extend(own.and_then(|row| metric(report, event, row)).filter(is_ratio));
            found.extend(metrics::beside(report, number, place).map(|value| of_table(&value)));
        }
        found
    };
    first.rows.iter().map(|row| (row, at(&row.place))).collect()
}

/// The metric of a row.
pub(super) fn metric(report: &Report, event: &Event, row: &Row) -> Option<PerfMetric> {
    let Some(metric) = derive::metric(report, event, &row.place) else {
        // perf divides by a clock that did not run, and makes that 0.
        let idle = row.missing().is_none() && derive::has_idle_clock(report, event, &row.place);
        return idle.then(|| PerfMetric {
            decimals: 3,
            value: Some(0.0),
            unit: "/sec".into(),
            verdict: None,
        });
    };
    let (decimals, factor, unit) = match metric.kind {
        Kind::CpusUsed => (3, 1.0, "CPUs utilized"),
        Kind::GigaHertz => (3, 1.0, "GHz"),
        Kind::PerCycle => (2, 1.0, "insn per cycle"),
        Kind::ShareOf(Whole::CacheReferences) => (3, 100.0, "of all cache refs"),
        Kind::ShareOf(whole) => (2, 100.0, share_unit(whole)),
        Kind::PerSecond => {
            let (value, prefix) = per_second(metric.value.unwrap_or(0.0));
            let unit = format!("{prefix}/sec");
            return Some(PerfMetric { decimals: 3, value: Some(value), unit, verdict: None });
        }
    };
    let value = metric.value.map(|value| value * factor);
    Some(PerfMetric { decimals, value, unit: unit.into(), verdict: None })
}

fn share_unit(whole: Whole) -> &'static str {
    match whole {
        Whole::Branches | Whole::Loads(Cache::BPU) => "of all branches",
        Whole::CacheReferences => "of all cache refs",
        Whole::CyclesFrontend => "frontend cycles idle",
        Whole::CyclesBackend => "backend cycles idle",
        Whole::Loads(Cache::L1D) => "of all L1-dcache accesses",
        Whole::Loads(Cache::L1I) => "of all L1-icache accesses",
        Whole::Loads(Cache::DTLB) => "of all dTLB cache accesses",
        Whole::Loads(Cache::ITLB) => "of all iTLB cache accesses",
        Whole::Loads(_) => "of all LL-cache accesses",
    }
}

/// Brings a rate below 1000, as far as G.
fn per_second(mut value: f64) -> (f64, &'static str) {
    for prefix in ["", "K", "M"] {
        if value <= 1000.0 {
            return (value, prefix);
        }
        value /= 1000.0;
    }
    (value, "G")
}

/// The unit column, and what the kernel's value is multiplied with.
pub(super) fn unit(event: &Event) -> (&str, f64) {
    if let Some(scale) = &event.scale {
        return (&scale.unit, scale.factor);
    }
    let clocks = [Software::CPU_CLOCK.0, Software::TASK_CLOCK.0];
    match (event.unit, event.source) {
        (Unit::Nanoseconds, Source::Kernel { type_: EventType::SOFTWARE, config, .. })
            if clocks.contains(&config) =>
        {
            ("msec", 1e-6)
        }
        (Unit::Nanoseconds, _) => ("ns", 1.0),
        (Unit::Count, _) => ("", 1.0),
    }
}

/// The words in place of a value.
pub(super) fn absent(kind: MissingKind) -> &'static str {
    match kind {
        MissingKind::NotSupported => "<not supported>",
        MissingKind::NeverScheduled | MissingKind::NeverEnabled => "<not counted>",
    }
}

/// How many cpus a row is made of, where it is made of several.
pub(super) fn cpus(row: &Row) -> u32 {
    match row.missing() {
        // perf counts the cpus an event was opened on, and at least one.
        Some(missing) if missing.kind == MissingKind::NotSupported => 1,
        Some(_) => 0,
        None => row.targets,
    }
}

/// The name of a place.
pub(super) fn place(place: &RowPlace) -> String {
    match place {
        RowPlace::Everywhere => String::new(),
        RowPlace::Cpu(cpu) => format!("CPU{cpu}"),
        RowPlace::Core { .. } | RowPlace::Cluster { .. } | RowPlace::Cache { .. } | RowPlace::Die { .. } => {
            place.to_string()
        }
        RowPlace::Socket(socket) => format!("S{socket}"),
        RowPlace::Node(node) => format!("N{node}"),
        RowPlace::Thread { name, tid } => format!("{name}-{tid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::samples::*;
    use crate::{Missing, Outcome};

    #[test]
    fn a_clock_that_did_not_run_makes_a_rate_of_zero() {
        let idle = event("task-clock", Outcome::Missing(Missing::never_enabled()));
        let report = report(vec![idle, counted("duration_time", &[7])]);
        let of = |event: &Event| metric(&report, event, &event.rows[0]).map(|metric| metric.value);
        assert_eq!(of(&report.events[0]), None);
        assert_eq!(of(&report.events[1]), Some(Some(0.0)));
    }

    #[test]
    fn zeros_are_left_out_and_reasons_stay() {
        let never = event("cycles", Outcome::Missing(Missing::never_enabled()));
        let all = report(vec![counted("faults", &[0, 3]), counted("cs", &[0, 0]), never]);
        let names: Vec<String> = all.without_zeros().events.into_iter().map(|event| event.name).collect();
        assert_eq!(names, ["faults", "cycles"]);
    }

    #[test]
    fn rates_end_at_g() {
        assert_eq!(per_second(1000.0), (1000.0, ""));
        assert_eq!(per_second(125_109.0), (125.109, "K"));
        assert_eq!(per_second(64.778e12), (64778.0, "G"));
    }
}
