//! Rates and ratios: what a count means next to the others of the same place.

use super::model::{Event, MissingKind, Report, Row, RowPlace};
use perfuse_events::abi::{Cache, CacheEvent, CacheOp, CacheResult, EventType, Hardware, Software};
use perfuse_events::{Exclude, Source};

/// A derived number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// Its kind.
    pub kind: Kind,
    /// `None` where what it is derived from was not counted.
    pub value: Option<f64>,
}

/// The kind of a derived number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// CPU time by wall time.
    CpusUsed,
    /// Per second of CPU time.
    PerSecond,
    /// Cycles per ns of CPU time.
    GigaHertz,
    /// Instructions per cycle.
    PerCycle,
    /// The fraction of another event.
    ShareOf(Whole),
}

/// The whole that a share is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// Branches.
    Branches,
    /// References to the last cache.
    CacheReferences,
    /// Cycles, of those in which the front end stalled.
    CyclesFrontend,
    /// Cycles, of those in which the back end stalled.
    CyclesBackend,
    /// Loads from a cache.
    Loads(Cache),
}

/// The metric of an event at a place; `None` where there is none to tell.
pub fn metric(report: &Report, event: &Event, place: &RowPlace) -> Option<Metric> {
    let value = value_at(event, place)?;
    let other = |source| of(report, event, place, source);
    let hardware = |event: Hardware| other((EventType::HARDWARE, event.0));
    let ratio = |whole: Option<f64>| whole.filter(|&whole| whole > 0.0).map(|whole| value / whole);
    let share = |kind, whole| Some(Metric { kind: Kind::ShareOf(kind), value: ratio(whole) });
    match source(event) {
        Some((EventType::SOFTWARE, clock)) if is_clock(clock) => {
            let wall = report.wall_ns().map(|wall| wall.mean);
            return Some(Metric { kind: Kind::CpusUsed, value: ratio(wall) });
        }
        Some((EventType::HARDWARE, config)) => match Hardware(config) {
            Hardware::INSTRUCTIONS => {
                return Some(Metric { kind: Kind::PerCycle, value: ratio(hardware(Hardware::CPU_CYCLES)) });
            }
            Hardware::BRANCH_MISSES => {
                return share(Whole::Branches, hardware(Hardware::BRANCH_INSTRUCTIONS));
            }
            Hardware::CACHE_MISSES => {
                return share(Whole::CacheReferences, hardware(Hardware::CACHE_REFERENCES));
            }
            Hardware::STALLED_CYCLES_FRONTEND => {
                return share(Whole::CyclesFrontend, hardware(Hardware::CPU_CYCLES));
            }
            Hardware::STALLED_CYCLES_BACKEND => {
                return share(Whole::CyclesBackend, hardware(Hardware::CPU_CYCLES));
            }
            Hardware::CPU_CYCLES => {
                return Some(Metric { kind: Kind::GigaHertz, value: ratio(clock_ns(report, event, place)) });
            }
            _ => {}
        },
        Some((EventType::HW_CACHE, config)) => {
            let (cache, _) = CacheEvent::from_config(config);
            if (cache.op, cache.result) == (CacheOp::READ, CacheResult::MISS) && cache.cache != Cache::NODE {
                let all = CacheEvent { result: CacheResult::ACCESS, ..cache };
                let loads = other((EventType::HW_CACHE, all.config()));
                return share(Whole::Loads(cache.cache), loads);
            }
        }
        _ => {}
    }
    let clock = clock_ns(report, event, place)?;
    Some(Metric { kind: Kind::PerSecond, value: ratio(Some(clock / 1e9)) })
}

/// Stalled cycles per instruction: the one metric that is an event's second.
pub fn stalled_per_instruction(report: &Report, event: &Event, place: &RowPlace) -> Option<f64> {
    let instructions = value_at(event, place).filter(|&value| value > 0.0)?;
    if source(event)? != (EventType::HARDWARE, Hardware::INSTRUCTIONS.0) {
        return None;
    }
    let stalled = [Hardware::STALLED_CYCLES_FRONTEND, Hardware::STALLED_CYCLES_BACKEND]
        .into_iter()
        .filter_map(|stalled| of(report, event, place, (EventType::HARDWARE, stalled.0)))
        .fold(0.0, f64::max);
    (stalled > 0.0).then_some(stalled / instructions)
}

fn source(event: &Event) -> Option<(EventType, u64)> {
    match event.source {
        Source::Kernel { type_, config, .. } => Some((type_, config)),
        _ => None,
    }
}

fn is_clock(config: u64) -> bool {
    [Software::CPU_CLOCK, Software::TASK_CLOCK].contains(&Software(config))
}

/// The mean value of an event at a place.
fn value_at(event: &Event, place: &RowPlace) -> Option<f64> {
    event.row_at(place)?.spread().map(|spread| spread.mean)
}

/// The mean value of the first event that counts this there, in the cgroup and on the side of `event`:
/// the kernel's instructions have nothing to do with the cycles of user space.
fn of(report: &Report, event: &Event, place: &RowPlace, wanted: (EventType, u64)) -> Option<f64> {
    // perf does not look at guests either: modifiers include them, and their absence does not.
    let side = |event: &Event| Exclude { guest: false, ..event.exclude };
    let same = |other: &&Event| {
        source(other) == Some(wanted) && other.cgroup == event.cgroup && side(other) == side(event)
    };
    report.events.iter().filter(same).find_map(|other| value_at(other, place))
}

/// CPU time at a place, in the cgroup of `event`. Clocks know no sides.
fn clock_ns(report: &Report, event: &Event, place: &RowPlace) -> Option<f64> {
    let clock = |clock: Software| {
        let is_it = |other: &&Event| {
            source(other) == Some((EventType::SOFTWARE, clock.0)) && other.cgroup == event.cgroup
        };
        report.events.iter().filter(is_it).find_map(|clock| value_at(clock, place))
    };
    [Software::TASK_CLOCK, Software::CPU_CLOCK].into_iter().find_map(clock)
}

/// Whether a clock was open in the cgroup of `event` and did not run at that place.
pub fn has_idle_clock(report: &Report, event: &Event, place: &RowPlace) -> bool {
    let clock = |other: &&Event| {
        matches!(source(other), Some((EventType::SOFTWARE, config)) if is_clock(config))
            && other.cgroup == event.cgroup
    };
    let idle = |row: &Row| {
        row.place == *place && row.missing().is_some_and(|missing| missing.kind != MissingKind::NotSupported)
    };
    report.events.iter().filter(clock).flat_map(|clock| &clock.rows).any(idle)
}

#[cfg(test)]
mod tests {
    use super::super::model::samples::{counted, default_events, refused, report};
    use super::*;

    fn metrics(events: Vec<Event>) -> Vec<Option<(Kind, Option<f64>)>> {
        let report = report(events);
        let metric = |event| metric(&report, event, &RowPlace::Everywhere).map(|m| (m.kind, m.value));
        report.events.iter().map(metric).collect()
    }

    #[test]
    fn the_default_events_explain_each_other() {
        let found = metrics(default_events());
        let rounded: Vec<_> =
            found.iter().map(|m| (m.unwrap().0, (m.unwrap().1.unwrap() * 100.0).round())).collect();
        assert_eq!(rounded[0], (Kind::CpusUsed, 192.0));
        assert_eq!(rounded[1], (Kind::PerSecond, 22983.0));
        assert_eq!(rounded[4], (Kind::GigaHertz, 386.0));
        assert_eq!(rounded[5], (Kind::PerCycle, 241.0));
        assert_eq!(rounded[7], (Kind::ShareOf(Whole::Branches), 1.0));
    }

    #[test]
    fn without_a_basis_there_is_no_value() {
        let found = metrics(vec![counted("instructions", &[5]), refused("cycles"), counted("cs", &[3])]);
        assert_eq!(found, [Some((Kind::PerCycle, None)), None, None]);
    }

    #[test]
    fn cgroups_explain_only_themselves() {
        let mut events = vec![counted("cpu-clock", &[2_000_000]), counted("cs", &[3]), counted("cs", &[4])];
        events[0].cgroup = Some("a".into());
        events[2].cgroup = Some("a".into());
        let kinds: Vec<_> = metrics(events).into_iter().map(|metric| metric.map(|(kind, _)| kind)).collect();
        assert_eq!(kinds, [Some(Kind::CpusUsed), None, Some(Kind::PerSecond)]);
    }

    #[test]
    fn each_side_explains_itself() {
        let values =
            |events| -> Vec<_> { metrics(events).into_iter().map(|m| m.and_then(|m| m.1)).collect() };
        let found = values(vec![
            counted("task-clock:u", &[1_000_000_000]),
            counted("cycles:u", &[100]),
            counted("cycles:k", &[10]),
            counted("instructions:k", &[40]),
            counted("instructions:u", &[50]),
            counted("instructions", &[90]),
            counted("faults:k", &[3]),
        ]);
        assert_eq!(found[3..], [Some(4.0), Some(0.5), None, Some(3.0)]);
    }

    #[test]
    fn misses_are_a_share_of_their_loads() {
        let found = metrics(vec![counted("l1d-misses", &[3]), counted("L1-dcache-loads", &[100])]);
        assert_eq!(found[0], Some((Kind::ShareOf(Whole::Loads(Cache::L1D)), Some(0.03))));
    }

    #[test]
    fn stalled_cycles_per_instruction() {
        let report = report(vec![counted("instructions", &[100]), counted("stalled-cycles-backend", &[50])]);
        assert_eq!(stalled_per_instruction(&report, &report.events[0], &RowPlace::Everywhere), Some(0.5));
        assert_eq!(stalled_per_instruction(&report, &report.events[1], &RowPlace::Everywhere), None);
    }
}
