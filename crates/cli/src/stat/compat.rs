//! What perf's two machine formats share: the order of rows, and how perf writes values and metrics.
//! The shapes are those of perf 6.1.

use super::derive::{self, Kind, Whole};
use super::model::{Aggregation, Event, MissingKind, Place, Report, Row};
use perfuse_events::abi::{Cache, EventType, Software};
use perfuse_events::{Source, Unit};

/// Every row with its event, as perf orders them: by place first for cores and sockets, else by event.
pub(super) fn rows(report: &Report) -> Vec<(&Event, &Row)> {
    let by_event = report.events.iter().flat_map(|event| event.rows.iter().map(move |row| (event, row)));
    match report.aggregation {
        Aggregation::Core | Aggregation::Die | Aggregation::Socket | Aggregation::Node => {
            let all: Vec<_> = by_event.collect();
            let at = |place: &Place| {
                all.iter().filter(|(_, row)| row.place == *place).copied().collect::<Vec<_>>()
            };
            report.places().into_iter().flat_map(at).collect()
        }
        _ => by_event.collect(),
    }
}

/// A metric as perf writes it: the number of decimals, the value and the unit. `None`: no metric.
#[derive(Debug, PartialEq)]
pub(super) struct PerfMetric {
    pub(super) decimals: usize,
    /// `None` where only the unit is known.
    pub(super) value: Option<f64>,
    pub(super) unit: String,
}

/// The metric of a row.
pub(super) fn metric(report: &Report, event: &Event, row: &Row) -> Option<PerfMetric> {
    let Some(metric) = derive::metric(report, event, &row.place) else {
        // perf divides by a clock that did not run, and makes that 0.
        let idle = row.missing().is_none() && derive::has_idle_clock(report, event, &row.place);
        return idle.then(|| PerfMetric { decimals: 3, value: Some(0.0), unit: "/sec".into() });
    };
    let (decimals, factor, unit) = match metric.kind {
        Kind::CpusUsed => (3, 1.0, "CPUs utilized"),
        Kind::GigaHertz => (3, 1.0, "GHz"),
        Kind::PerCycle => (2, 1.0, "insn per cycle"),
        Kind::ShareOf(Whole::CacheReferences) => (3, 100.0, "of all cache refs"),
        Kind::ShareOf(whole) => (2, 100.0, share_unit(whole)),
        Kind::PerSecond => {
            let (value, prefix) = per_second(metric.value.unwrap_or(0.0));
            return Some(PerfMetric { decimals: 3, value: Some(value), unit: format!("{prefix}/sec") });
        }
    };
    Some(PerfMetric { decimals, value: metric.value.map(|value| value * factor), unit: unit.into() })
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
pub(super) fn unit(event: &Event) -> (&'static str, f64) {
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

/// What stands in place of a value.
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
pub(super) fn place(place: &Place) -> String {
    match place {
        Place::Everywhere => String::new(),
        Place::Cpu(cpu) => format!("CPU{cpu}"),
        Place::Core { socket, die, core } => format!("S{socket}-D{die}-C{core}"),
        Place::Die { socket, die } => format!("S{socket}-D{die}"),
        Place::Socket(socket) => format!("S{socket}"),
        Place::Node(node) => format!("N{node}"),
        Place::Thread { name, tid } => format!("{name}-{tid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::samples::*;
    use super::super::model::{Missing, Outcome};
    use super::*;

    #[test]
    fn a_clock_that_did_not_run_makes_a_rate_of_zero() {
        let idle = event("task-clock", Outcome::Missing(Missing::never_enabled()));
        let report = report(vec![idle, counted("duration_time", &[7])]);
        let of = |event: &Event| metric(&report, event, &event.rows[0]).map(|metric| metric.value);
        assert_eq!(of(&report.events[0]), None);
        assert_eq!(of(&report.events[1]), Some(Some(0.0)));
    }

    #[test]
    fn rates_end_at_g() {
        assert_eq!(per_second(1000.0), (1000.0, ""));
        assert_eq!(per_second(125_109.0), (125.109, "K"));
        assert_eq!(per_second(64.778e12), (64778.0, "G"));
    }
}
