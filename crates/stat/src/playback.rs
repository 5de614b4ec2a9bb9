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
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;

/// Rows of all reports together, besides so many for each count: whoever records tells all counts before the end of an interval, so
/// that real recordings have about as many rows as counts.
const ROWS: usize = 64 << 10;
const ROWS_PER_COUNT: usize = 4;

/// The state of a recording, as far as it has been read.
#[derive(Default)]
struct Played {
    aggregation: Option<Aggregation>,
    has_intervals: bool,
    scale: bool,
    threads: Vec<(u32, String)>,
    seats: Vec<Seat>,
    /// The NUMA node of each cpu.
    nodes: Vec<u32>,
    /// Of each event, by cpu and index of the thread: what was counted, and up to the interval before.
    counts: Vec<BTreeMap<(u32, u32), [Reading; 2]>>,
    intervals: usize,
    last_ns: u64,
    /// Rows that there is room for.
    room: usize,
    /// Ends of intervals that were passed over for want of room.
    left_out: usize,
}

/// What was counted at a place, and of how many targets it is the sum.
type PlaceSum = (Reading, u32);

/// Sums up what `stat record` of perfuse or perf has written, as it was or by `wanted`. `name` is what it is called if
/// it does not tell the command line that made it. Intervals are handed over as they end; the total comes with the
/// number of intervals. `None`: it holds no counts. Intervals in which hardly anything was counted become a part of the next one
/// where a recording has very many of them; a warning of the total tells their number.
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
    let (seats, nodes) = (seats(data)?, nodes(data)?);
    let mut played = Played { scale: true, seats, nodes, room: ROWS, ..Played::default() };
    let name = match data.form() {
        Form::Pipe => "pipe".to_owned(),
        _ if words.is_empty() => name.to_owned(),
        _ => words.join(" "),
    };
    let mut total_ns = None;
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
        if round.kind != 0 {
            // The end of all, behind which nothing is counted.
            total_ns = Some(round.time_ns);
        } else if played.takes_room() {
            let aggregation = wanted.or(played.aggregation).unwrap_or(Aggregation::Everything);
            let wall_ns = round.time_ns.saturating_sub(played.last_ns);
            let mut report = played.report(entry.events(), &name, aggregation, wall_ns, true);
            report.interval = Some(Interval { at_ns: round.time_ns, first: played.intervals == 0 });
            interval(&report)?;
            played.next_interval(round.time_ns);
        } else {
            played.left_out += 1;
        }
    }
    if !any {
        return Ok(None);
    }
    let aggregation = wanted.or(played.aggregation).unwrap_or(Aggregation::Everything);
    let total_ns = total_ns.unwrap_or(played.last_ns);
    let mut total = played.report(data.events(), &name, aggregation, total_ns, false);
    if played.left_out > 0 {
        total.warnings.push(format!(
            "{} ends of intervals were passed over: nearly nothing was counted before them",
            played.left_out
        ));
    }
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

/// More cpus than Linux has, and more ranges of them than machines have nodes.
const MOST_CPUS: u32 = 1 << 13;
const MOST_RANGES: usize = 1 << 12;

/// The NUMA node of each cpu of the recorded machine.
fn nodes(data: &mut PerfData<'_>) -> Result<Vec<u32>, perfuse_data::Error> {
    let Some(Section { feature: Feature::NumaTopology(nodes), .. }) =
        data.feature(FeatureId::NUMA_TOPOLOGY)?
    else {
        return Ok(Vec::new());
    };
    let mut of_cpu = Vec::new();
    let lists = nodes.iter().map(|node| (node.node, node.cpus.to_string()));
    let mut left = MOST_RANGES;
    for (node, list) in lists {
        for range in list.split(',').take(left) {
            left -= 1;
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else { continue };
            for cpu in first..=last.min(MOST_CPUS - 1) {
                if of_cpu.len() <= cpu as usize {
                    of_cpu.resize(cpu as usize + 1, 0);
                }
                of_cpu[cpu as usize] = node;
            }
        }
    }
    Ok(of_cpu)
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
        self.room = self.room.saturating_add(ROWS_PER_COUNT);
    }

    /// Takes the room of a report of all counts, if there is some.
    fn takes_room(&mut self) -> bool {
        let rows = self.counts.iter().map(BTreeMap::len).sum::<usize>().max(1);
        let left = self.room.checked_sub(rows);
        self.room = left.unwrap_or(self.room);
        left.is_some()
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
            // Recordings do not tell of clusters and caches here.
            Aggregation::Cpu | Aggregation::Cluster | Aggregation::Cache(_) => RowPlace::Cpu(cpu),
            Aggregation::Core => RowPlace::Core { socket, die, core },
            Aggregation::Die => RowPlace::Die { socket, die },
            Aggregation::Socket => RowPlace::Socket(socket),
            Aggregation::Node => RowPlace::Node(self.nodes.get(cpu as usize).copied().unwrap_or(0)),
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
        let mut numbers: HashMap<RowPlace, usize> = HashMap::new();
        let mut sums: Vec<Vec<PlaceSum>> = Vec::new();
        for counts in &self.counts {
            sums.push(self.sums(aggregation, counts, since_last, &mut numbers));
        }
        let mut places: Vec<(RowPlace, usize)> = numbers.into_iter().collect();
        places.sort_unstable_by_key(|(_, number)| *number);
        // An event that was counted nowhere has a row for each place, unless there are very many of both.
        let is_full = events.len().saturating_mul(places.len()) <= ROWS.max(self.room);
        let event = |(index, event): (usize, &perfuse_data::Event)| {
            let sums = sums.get(index).map_or(&[][..], Vec::as_slice);
            let row = |(place, number): &(RowPlace, usize)| {
                row(place, sums.get(*number).copied().unwrap_or_default())
            };
            let is_told = |(_, number): &&(RowPlace, usize)| {
                is_full || *number == 0 || sums.get(*number).is_some_and(|(_, targets)| *targets > 0)
            };
            Event { rows: places.iter().filter(is_told).map(row).collect(), ..described(event) }
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

    /// What an event counted at each place, whose number is in `numbers` or comes to be there.
    fn sums(
        &self,
        aggregation: Aggregation,
        counts: &BTreeMap<(u32, u32), [Reading; 2]>,
        since_last: bool,
        numbers: &mut HashMap<RowPlace, usize>,
    ) -> Vec<PlaceSum> {
        let mut sums: Vec<PlaceSum> = Vec::new();
        for (&(cpu, thread), [now, before]) in counts {
            let next = numbers.len();
            let number = *numbers.entry(self.place(aggregation, cpu, thread)).or_insert(next);
            if sums.len() <= number {
                sums.resize(number + 1, PlaceSum::default());
            }
            let (sum, targets) = &mut sums[number];
            let before = if since_last { *before } else { Reading::default() };
            let raw = now.raw.wrapping_sub(before.raw);
            let enabled_ns = now.enabled_ns.saturating_sub(before.enabled_ns);
            let running_ns = now.running_ns.saturating_sub(before.running_ns);
            let value = match self.scale && running_ns > 0 && running_ns < enabled_ns {
                true => (raw as f64 * enabled_ns as f64 / running_ns as f64) as u64,
                false => raw,
            };
            *targets += 1;
            *sum = Reading {
                value: sum.value.wrapping_add(value),
                raw: sum.raw.wrapping_add(raw),
                enabled_ns: sum.enabled_ns.saturating_add(enabled_ns),
                running_ns: sum.running_ns.saturating_add(running_ns),
            };
        }
        sums
    }
}

/// The row of an event at a place.
fn row(place: &RowPlace, (sum, targets): PlaceSum) -> Row {
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
    use perfuse_data::feature::NumaNode;
    use perfuse_data::tool::StatRound;

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
    fn cpus_are_in_the_nodes_that_the_header_tells() {
        let lists = ["0,2-3", "1,4294967295", "x,7-5,9-4294967295"];
        let node = |(node, list): (u32, &&'static str)| NumaNode {
            node,
            total_kib: 0,
            free_kib: 0,
            cpus: (*list).into(),
        };
        let topology = Feature::NumaTopology((0..).zip(&lists).map(node).collect());
        let attr = perfuse::abi::Attr::new(EventType::SOFTWARE);
        let event = perfuse_data::NewEvent { attr, name: "event".into(), ids: vec![1] };
        let mut file = perfuse_data::Writer::file(io::Cursor::new(Vec::new()), &[event]).unwrap();
        // A file without records was not finished.
        file.tool(Tool::StatRound(StatRound { kind: 1, time_ns: 0 })).unwrap();
        let file = file.finish(vec![topology]).unwrap().into_inner();
        let mut data = PerfData::from_seekable(io::Cursor::new(file), Default::default()).unwrap();
        let nodes = nodes(&mut data).unwrap();
        assert_eq!(nodes[..10], [0, 1, 0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(nodes.len(), MOST_CPUS as usize);
    }

    #[test]
    fn intervals_are_differences_and_the_total_is_not() {
        let mut played = Played { scale: true, ..Played::default() };
        let stat =
            |value, time| Stat { id: 1, cpu: 0, thread: 0, value, enabled_ns: time, running_ns: time / 2 };
        played.take(0, &stat(10, 100));
        let value = |played: &Played, since_last| {
            let sums =
                played.sums(Aggregation::Everything, &played.counts[0], since_last, &mut HashMap::new());
            sums[0].0
        };
        assert_eq!(value(&played, true).value, 20, "half of the time");
        played.next_interval(100);
        played.take(0, &stat(40, 200));
        assert_eq!((value(&played, true).raw, value(&played, false).raw), (30, 40));
    }

    /// Each end of an interval makes a report of all counts.
    #[test]
    fn reports_have_about_as_many_rows_as_there_are_counts() {
        let mut played = Played { scale: true, room: ROWS, ..Played::default() };
        let stat = |cpu| Stat { id: 1, cpu, thread: 0, value: 1, enabled_ns: 1, running_ns: 1 };
        let mut round = |counts: u32| {
            (0..counts).for_each(|cpu| played.take(0, &stat(cpu)));
            played.takes_room()
        };
        assert!((0..500).all(|_| round(1000)), "all is counted before each end");
        let more = (0..10_000).filter(|_| round(0)).count();
        assert!((60..3000).contains(&more), "{more}");
        assert!(!round(1) && round(250), "more counts make more room");
    }

    #[test]
    fn events_and_places_have_rows_as_far_as_they_were_counted() {
        let mut played = Played { scale: true, room: ROWS, ..Played::default() };
        let stat = |cpu| Stat { id: 1, cpu, thread: 0, value: 1, enabled_ns: 1, running_ns: 1 };
        (0..2000).for_each(|cpu| played.take(0, &stat(cpu)));
        let event = |id| {
            let attr = perfuse::abi::Attr::new(EventType::SOFTWARE);
            perfuse_data::NewEvent { attr, name: "event".into(), ids: vec![id] }
        };
        let rows = |count: u64| {
            let events: Vec<perfuse_data::NewEvent> = (0..count).map(event).collect();
            let file = perfuse_data::Writer::file(io::Cursor::new(Vec::new()), &events).unwrap();
            let file = file.finish(Vec::new()).unwrap().into_inner();
            let data = PerfData::from_seekable(io::Cursor::new(file), Default::default()).unwrap();
            let report = played.report(data.events(), "it", Aggregation::Cpu, 1, false);
            report.events.iter().map(|event| event.rows.len()).collect::<Vec<_>>()
        };
        assert_eq!(rows(3), [2000, 2000, 2000]);
        assert_eq!(rows(300).iter().sum::<usize>(), 2000 + 299);
    }
}
