//! Recordings of counts that `stat record` of perfuse or perf has written, summed up as they were or in another way.

use super::model::{
    Aggregation, Event, Interval, Missing, MissingKind, Outcome, Reading, Report, Row, RowPlace, Run, Subject,
};
use crate::Error;
use perfuse::abi::{AttrFlags, Software};
use perfuse::kernel::Seat;
use perfuse_data::feature::{Feature, FeatureId, Section};
use perfuse_data::tool::{Stat, StatConfigEntry, Tool, ToolRecord};
use perfuse_data::{Form, PerfData};
use perfuse_events::abi::EventType;
use perfuse_events::{Exclude, Scale, Source, Unit};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// The state of a recording, as far as it has been read.
#[derive(Default)]
struct Played {
    aggregation: Option<Aggregation>,
    has_intervals: bool,
    scale: bool,
    threads: Vec<(u32, String)>,
    seats: Vec<Seat>,
    /// Of each event, by cpu and index of the thread: what was counted, and up to the interval before.
    counts: Vec<BTreeMap<(u32, u32), [Reading; 2]>>,
    intervals: usize,
    last_ns: u64,
}

/// Sums up what `stat record` of perfuse or perf has written, as it was or by `wanted`. `name` is what it is called if
/// it does not tell the command line that made it. Intervals are handed over as they end; the total comes with the
/// number of intervals. `None`: it holds no counts.
///
/// # Errors
///
/// The recording is broken, or `interval` takes no more.
pub fn replay(
    data: &mut PerfData<'_>,
    wanted: Option<Aggregation>,
    name: &str,
    mut interval: impl FnMut(&Report) -> io::Result<()>,
) -> Result<Option<(Report, usize)>, Error> {
    let (words, version) = about(data)?;
    let mut played = Played { scale: true, seats: seats(data)?, ..Played::default() };
    let name = match data.form() {
        Form::Pipe => "pipe".to_owned(),
        _ if words.is_empty() => name.to_owned(),
        _ => words.join(" "),
    };
    let mut total = None;
    let mut any = false;
    while let Some(entry) = data.next()? {
        if entry.is_kernel() {
            continue;
        }
        let Ok(ToolRecord { tool, .. }) = entry.tool() else { continue };
        let mut round = None;
        match tool {
            Tool::StatConfig(entries) => played.configure(entries.into_iter(), &version),
            Tool::ThreadMap(threads) => {
                played.threads = threads
                    .into_iter()
                    .map(|thread| {
                        (
                            thread.tid as u32,
                            String::from_utf8_lossy(&thread.comm).trim_end_matches('\0').to_owned(),
                        )
                    })
                    .collect();
            }
            Tool::Stat(stat) => {
                any = true;
                let events = entry.events();
                let index = events.by_id(stat.id).or((events.len() == 1).then_some(0));
                if let Some(index) = index {
                    played.take(index, &stat);
                }
            }
            Tool::StatRound(end) => round = Some(end),
            _ => {}
        }
        let Some(round) = round else { continue };
        let aggregation = wanted.or(played.aggregation).unwrap_or(Aggregation::Everything);
        let is_interval = round.kind == 0;
        let began = played.last_ns;
        let wall_ns = if is_interval { round.time_ns.saturating_sub(began) } else { round.time_ns };
        let mut report = played.report(entry.events(), &name, aggregation, wall_ns, is_interval);
        if is_interval {
            report.interval = Some(Interval { at_ns: round.time_ns, first: played.intervals == 0 });
            interval(&report)?;
            played.next_interval(round.time_ns);
        } else {
            total = Some(report);
        }
    }
    if !any {
        return Ok(None);
    }
    let aggregation = wanted.or(played.aggregation).unwrap_or(Aggregation::Everything);
    let total = match total {
        Some(total) => total,
        None => played.report(data.events(), &name, aggregation, played.last_ns, false),
    };
    Ok(Some((total, played.intervals)))
}

/// The command line that made it, and the version of who did.
fn about(data: &mut PerfData<'_>) -> Result<(Vec<String>, String), perfuse_data::Error> {
    let mut about = (Vec::new(), String::new());
    for id in [FeatureId::CMDLINE, FeatureId::VERSION] {
        match data.feature(id)? {
            Some(Section { feature: Feature::Cmdline(words), .. }) => {
                about.0 = words.iter().map(|word| word.to_string()).collect();
            }
            Some(Section { feature: Feature::Version(version), .. }) => {
                about.1 = version.to_string();
            }
            _ => {}
        }
    }
    Ok(about)
}

/// Where each cpu of the recorded machine sits.
fn seats(data: &mut PerfData<'_>) -> Result<Vec<Seat>, perfuse_data::Error> {
    let Some(Section { feature: Feature::CpuTopology(topology), .. }) =
        data.feature(FeatureId::CPU_TOPOLOGY)?
    else {
        return Ok(Vec::new());
    };
    let dies = topology.dies.map_or(Vec::new(), |dies| dies.of_cpu);
    let cpus = topology.cpus.into_iter().flatten().enumerate();
    Ok(cpus
        .map(|(at, cpu)| Seat { socket: cpu.socket, die: dies.get(at).copied().unwrap_or(0), core: cpu.core })
        .collect())
}

/// The meaning of perf's number for a way to sum up: versions have counted differently.
fn aggregation(number: u64, version: &str) -> Option<Aggregation> {
    use Aggregation::{Core, Cpu, Die, Everything, Node, Socket, Thread};
    let mut parts = version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse::<u32>().ok());
    let is_ours = version.starts_with("perfuse");
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    let known: &[Option<Aggregation>] = match version {
        // Clusters since 6.9, caches since 6.5.
        version if version >= (6, 9) && !is_ours => &[
            Some(Cpu),
            Some(Everything),
            Some(Socket),
            Some(Die),
            None,
            None,
            Some(Core),
            Some(Thread),
            None,
            Some(Node),
        ],
        version if version >= (6, 5) && !is_ours => &[
            Some(Cpu),
            Some(Everything),
            Some(Socket),
            Some(Die),
            None,
            Some(Core),
            Some(Thread),
            None,
            Some(Node),
        ],
        _ => &[
            Some(Cpu),
            Some(Everything),
            Some(Socket),
            Some(Die),
            Some(Core),
            Some(Thread),
            None,
            Some(Node),
        ],
    };
    known.get(number as usize).copied().flatten()
}

impl Played {
    fn configure(&mut self, entries: impl Iterator<Item = StatConfigEntry>, version: &str) {
        for StatConfigEntry { tag, value } in entries {
            match tag {
                0 => self.aggregation = aggregation(value, version),
                1 => self.has_intervals = value > 0,
                2 => self.scale = value != 0,
                _ => {}
            }
        }
    }

    fn take(&mut self, event: usize, stat: &Stat) {
        if self.counts.len() <= event {
            self.counts.resize_with(event + 1, BTreeMap::new);
        }
        let Stat { value: raw, enabled_ns, running_ns, .. } = *stat;
        let [now, _] = self.counts[event].entry((stat.cpu, stat.thread)).or_default();
        *now = Reading { value: raw, raw, enabled_ns, running_ns };
    }

    fn next_interval(&mut self, time_ns: u64) {
        for [now, before] in self.counts.iter_mut().flat_map(BTreeMap::values_mut) {
            *before = *now;
        }
        self.intervals += 1;
        self.last_ns = time_ns;
    }

    fn place(&self, aggregation: Aggregation, cpu: u32, thread: u32) -> RowPlace {
        let Seat { socket, die, core } = self.seats.get(cpu as usize).copied().unwrap_or_default();
        match aggregation {
            Aggregation::Everything => RowPlace::Everywhere,
            Aggregation::Cpu => RowPlace::Cpu(cpu),
            Aggregation::Core => RowPlace::Core { socket, die, core },
            Aggregation::Die => RowPlace::Die { socket, die },
            Aggregation::Socket => RowPlace::Socket(socket),
            Aggregation::Node => RowPlace::Node(0),
            Aggregation::Thread => {
                let (tid, name) = self.threads.get(thread as usize).cloned().unwrap_or_default();
                RowPlace::Thread { name, tid }
            }
        }
    }

    /// The report of all counts, or of those since the interval before.
    fn report(
        &self,
        events: &[perfuse_data::Event],
        name: &str,
        aggregation: Aggregation,
        wall_ns: u64,
        since_last: bool,
    ) -> Report {
        let places: Vec<RowPlace> = {
            let keys = self.counts.iter().flat_map(BTreeMap::keys);
            let mut places = Vec::new();
            for &(cpu, thread) in keys {
                let place = self.place(aggregation, cpu, thread);
                if !places.contains(&place) {
                    places.push(place);
                }
            }
            places
        };
        let event = |(index, event): (usize, &perfuse_data::Event)| {
            let none = BTreeMap::new();
            let counts = self.counts.get(index).unwrap_or(&none);
            let row = |place: &RowPlace| self.row(aggregation, place, counts, since_last);
            Event { rows: places.iter().map(row).collect(), ..described(event) }
        };
        Report {
            subject: Subject::Recording(name.to_owned()),
            exit: None,
            runs: vec![Run { wall_ns, usage: None }],
            interval: None,
            aggregation,
            cgroups: false,
            events: events.iter().enumerate().map(event).collect(),
            metrics: Arc::new([]),
            warnings: Vec::new(),
        }
    }

    fn row(
        &self,
        aggregation: Aggregation,
        place: &RowPlace,
        counts: &BTreeMap<(u32, u32), [Reading; 2]>,
        since_last: bool,
    ) -> Row {
        let mut sum = Reading::default();
        let mut targets = 0;
        for (_, [now, before]) in
            counts.iter().filter(|((cpu, thread), _)| self.place(aggregation, *cpu, *thread) == *place)
        {
            let before = if since_last { *before } else { Reading::default() };
            let raw = now.raw.wrapping_sub(before.raw);
            let enabled_ns = now.enabled_ns.saturating_sub(before.enabled_ns);
            let running_ns = now.running_ns.saturating_sub(before.running_ns);
            let value = match self.scale && running_ns > 0 && running_ns < enabled_ns {
                true => (raw as f64 * enabled_ns as f64 / running_ns as f64) as u64,
                false => raw,
            };
            targets += 1;
            sum = Reading {
                value: sum.value.wrapping_add(value),
                raw: sum.raw.wrapping_add(raw),
                enabled_ns: sum.enabled_ns + enabled_ns,
                running_ns: sum.running_ns + running_ns,
            };
        }
        let outcome = match (targets, sum) {
            (0, _) => Outcome::Missing(Missing::plain(
                MissingKind::NotSupported,
                "not-recorded",
                "could not be counted where it was recorded",
            )),
            (_, Reading { enabled_ns: 0, .. }) => Outcome::Missing(Missing::never_enabled()),
            (_, Reading { running_ns: 0, .. }) => Outcome::Missing(Missing::never_scheduled()),
            _ => Outcome::Counted(vec![sum]),
        };
        Row { place: place.clone(), targets: targets.max(1), outcome }
    }
}

/// An event without its rows.
fn described(event: &perfuse_data::Event) -> Event {
    let attr = &event.attr;
    let clocks = [Software::CPU_CLOCK.0, Software::TASK_CLOCK.0];
    let is_clock = attr.type_ == EventType::SOFTWARE && clocks.contains(&attr.config);
    let flag = |flag: AttrFlags| attr.flags.contains(flag);
    let unit = event.unit.clone().unwrap_or_default();
    let scale = (!is_clock && (event.scale.is_some() || !unit.is_empty()))
        .then(|| Scale { factor: event.scale.unwrap_or(1.0), unit: unit.clone() });
    Event {
        name: event.display_name(),
        source: Source::Kernel { type_: attr.type_, config: attr.config, more: [0; 4] },
        exclude: Exclude {
            user: flag(AttrFlags::EXCLUDE_USER),
            kernel: flag(AttrFlags::EXCLUDE_KERNEL),
            hv: flag(AttrFlags::EXCLUDE_HV),
            idle: flag(AttrFlags::EXCLUDE_IDLE),
            host: flag(AttrFlags::EXCLUDE_HOST),
            guest: flag(AttrFlags::EXCLUDE_GUEST),
        },
        unit: if is_clock || unit == "ns" { Unit::Nanoseconds } else { Unit::Count },
        scale: scale.filter(|scale| scale.unit != "ns"),
        cgroup: None,
        impossible: false,
        lost_kernel_side: false,
        lost_children: false,
        rows: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_perf_number_their_sums_differently() {
        for (number, version, expected) in [
            (1, "6.1.170", Some(Aggregation::Everything)),
            (4, "6.1.170", Some(Aggregation::Core)),
            (5, "6.8.1", Some(Aggregation::Core)),
            (4, "6.8.1", None),
            (6, "6.12.0", Some(Aggregation::Core)),
            (9, "6.12.0", Some(Aggregation::Node)),
            (4, "perfuse 9.9.9", Some(Aggregation::Core)),
            (99, "6.1", None),
        ] {
            assert_eq!(aggregation(number, version), expected, "{number} of {version}");
        }
    }

    #[test]
    fn intervals_are_differences_and_the_total_is_not() {
        let mut played = Played { scale: true, ..Played::default() };
        let stat =
            |value, time| Stat { id: 1, cpu: 0, thread: 0, value, enabled_ns: time, running_ns: time / 2 };
        played.take(0, &stat(10, 100));
        let value = |played: &Played, since_last| {
            let row =
                played.row(Aggregation::Everything, &RowPlace::Everywhere, &played.counts[0], since_last);
            row.readings()[0]
        };
        assert_eq!(value(&played, true).value, 20, "half of the time");
        played.next_interval(100);
        played.take(0, &stat(40, 200));
        assert_eq!((value(&played, true).raw, value(&played, false).raw), (30, 40));
    }
}
