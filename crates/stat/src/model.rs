//! A finished measurement (or one interval of it) as plain data: what every output format is made from.
//! Nothing here knows how the numbers were obtained or how they will look.

use crate::measured::Measured;
use crate::spread::Spread;
use perfuse_events::{Exclude, Scale, Source, Tool, Unit};
use std::fmt;
use std::sync::Arc;

/// A measurement.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use]
pub struct Report {
    /// The command, tasks or cpus that were measured.
    pub subject: Subject,
    /// How the command ended (the last one of several runs); `None` without a command, or while it runs.
    pub exit: Option<Exit>,
    /// One entry a run; the interval's for an interval.
    pub runs: Vec<Run>,
    /// Set for an interval of a measurement that goes on.
    pub interval: Option<Interval>,
    /// The set of targets that one row stands for.
    pub aggregation: Aggregation,
    /// Events have cgroups, at least some.
    pub cgroups: bool,
    /// The events, in order.
    pub events: Vec<Event>,
    /// Numbers made of several events.
    pub metrics: Arc<[Measured]>,
    /// Warnings for the reader about the whole.
    pub warnings: Vec<String>,
}

/// The subject of a measurement: a command, tasks, or cpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A command with its arguments, and all it starts.
    Command(Vec<String>),
    /// Processes with their threads.
    Processes(Vec<u32>),
    /// Threads.
    Threads(Vec<u32>),
    /// All threads of the system.
    EveryThread,
    /// The subject of a recording of counts, in words.
    Recording(String),
    /// These cpus; the flag tells that they are all.
    Cpus {
        /// Their numbers.
        cpus: Vec<u32>,
        /// All that are online.
        all: bool,
    },
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// A time limit was over, and perfuse ended it.
    Stopped,
}

/// One run, as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Run {
    /// How long it took.
    pub wall_ns: u64,
    /// The resources that the command used, if there was one and it was the subject.
    pub usage: Option<Usage>,
}

impl Run {
    /// The value of an event that the measuring program measures itself.
    pub(crate) fn of_tool(&self, tool: Tool) -> Outcome {
        let value = match (tool, self.usage) {
            (Tool::DurationTime, _) => Some(self.wall_ns),
            (Tool::UserTime, usage) => usage.map(|usage| usage.user_ns),
            (Tool::SystemTime, usage) => usage.map(|usage| usage.system_ns),
        };
        match value {
            Some(value) => {
                let reading = Reading { value, raw: value, enabled_ns: value, running_ns: value };
                Outcome::Counted(vec![reading])
            }
            None => Outcome::Missing(Missing::plain(
                MissingKind::NeverEnabled,
                "no-command",
                "known only at the end of a command",
            )),
        }
    }
}

/// The resources that a command used, its children included.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Time in user space.
    pub user_ns: u64,
    /// Time in the kernel.
    pub system_ns: u64,
    /// The most memory that it had.
    pub peak_rss_bytes: u64,
    /// Page faults without input or output.
    pub minor_faults: u64,
    /// Page faults that had to read.
    pub major_faults: u64,
}

/// When an interval ended, from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// From the start of the measurement.
    pub at_ns: u64,
    /// The first one of the measurement.
    pub first: bool,
}

/// The set of targets that one row stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Aggregation {
    /// All targets together.
    Everything,
    /// A cpu.
    Cpu,
    /// A core.
    Core,
    /// A cluster of cores.
    Cluster,
    /// A cache: of this level, or the last one.
    Cache(Option<u32>),
    /// A die.
    Die,
    /// A socket.
    Socket,
    /// A NUMA node.
    Node,
    /// A thread.
    Thread,
}

/// One event with its rows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event {
    /// As perf prints it.
    pub name: String,
    /// Where it is counted.
    pub source: Source,
    /// The sides that its modifiers leave out.
    pub exclude: Exclude,
    /// The unit of its values.
    pub unit: Unit,
    /// The factor for its values, and the unit of the product.
    pub scale: Option<Scale>,
    /// Only tasks of this cgroup were counted.
    pub cgroup: Option<String>,
    /// Counts user space only although the kernel alone makes this event happen: it is always zero.
    pub impossible: bool,
    /// The kernel side was asked for and refused.
    pub lost_kernel_side: bool,
    /// Threads and processes that the measured tasks start are left out, against the user's wish.
    pub lost_children: bool,
    /// One per [`RowPlace`], in order.
    pub rows: Vec<Row>,
}

impl Event {
    /// The row of a place. Those of cpus stand in order, and are found at once.
    pub fn row_at(&self, place: &RowPlace) -> Option<&Row> {
        match self.rows.binary_search_by(|row| row.place.cmp(place)) {
            Ok(at) => self.rows.get(at),
            Err(_) => self.rows.iter().find(|row| row.place == *place),
        }
    }
}

/// An event at a place.
#[derive(Clone, Debug)]
pub struct Row {
    /// Where.
    pub place: RowPlace,
    /// Of how many targets its count is the sum.
    pub targets: u32,
    /// The count, or the reason for its absence.
    pub outcome: Outcome,
}

/// Where something was counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowPlace {
    /// All targets together.
    Everywhere,
    /// A cpu.
    Cpu(u32),
    /// A core.
    Core {
        /// Its socket.
        socket: u32,
        /// Its die.
        die: u32,
        /// Its number on the die.
        core: u32,
    },
    /// A cluster of cores.
    Cluster {
        /// Its socket.
        socket: u32,
        /// Its die.
        die: u32,
        /// Its number.
        cluster: u32,
    },
    /// A cache that cpus share.
    Cache {
        /// Its socket.
        socket: u32,
        /// Its die.
        die: u32,
        /// Its level; 0 is none.
        level: u32,
        /// The first of its cpus.
        first_cpu: u32,
    },
    /// A die.
    Die {
        /// Its socket.
        socket: u32,
        /// Its die.
        die: u32,
    },
    /// A socket.
    Socket(u32),
    /// A NUMA node.
    Node(u32),
    /// A thread.
    Thread {
        /// Its name.
        name: String,
        /// Its number.
        tid: u32,
    },
}

impl RowPlace {
    /// Whether it is a part of the machine that has several cpus, or could have.
    pub(crate) fn is_part(&self) -> bool {
        !matches!(self, RowPlace::Everywhere | RowPlace::Cpu(_) | RowPlace::Thread { .. })
    }
}

impl fmt::Display for RowPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RowPlace::Everywhere => Ok(()),
            RowPlace::Cpu(cpu) => write!(f, "cpu {cpu}"),
            RowPlace::Core { socket, die, core } => write!(f, "S{socket}-D{die}-C{core}"),
            RowPlace::Cluster { socket, die, cluster } => write!(f, "S{socket}-D{die}-CLS{cluster}"),
            RowPlace::Cache { socket, die, level, first_cpu } => {
                write!(f, "S{socket}-D{die}-L{level}-ID{first_cpu}")
            }
            RowPlace::Die { socket, die } => write!(f, "S{socket}-D{die}"),
            RowPlace::Socket(socket) => write!(f, "socket {socket}"),
            RowPlace::Node(node) => write!(f, "node {node}"),
            RowPlace::Thread { name, tid } => write!(f, "{name} {tid}"),
        }
    }
}

/// The count of an event, or the reason for its absence.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It was counted, once a run; at least one entry.
    Counted(Vec<Reading>),
    /// It was not counted.
    Missing(Missing),
}

/// A count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The value to show: scaled to the time enabled, unless that was not wanted.
    pub value: u64,
    /// The value the kernel counted.
    pub raw: u64,
    /// For how long it was enabled.
    pub enabled_ns: u64,
    /// For how long it was counting.
    pub running_ns: u64,
}

/// Why there is no count.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missing {
    /// Which way.
    pub kind: MissingKind,
    /// A few words.
    pub short: String,
    /// A stable word for scripts.
    pub cause: String,
    /// The errno's name.
    pub errno: Option<String>,
    /// Sentences, for a footnote; may be empty.
    pub explanation: String,
    /// Remedies.
    pub remedies: Vec<String>,
}

/// The two ways not to count that perf tells apart, and what lies behind the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingKind {
    /// It could not be opened.
    NotSupported,
    /// It was open but never counted: other events held the hardware.
    NeverScheduled,
    /// It was open but never enabled, or what it measures never ran.
    NeverEnabled,
}

impl Missing {
    /// One that needs no explanation.
    pub fn plain(kind: MissingKind, cause: &str, short: &str) -> Self {
        Missing {
            kind,
            short: short.into(),
            cause: cause.into(),
            errno: None,
            explanation: String::new(),
            remedies: Vec::new(),
        }
    }

    /// Of an event for which there was no room.
    pub fn never_scheduled() -> Self {
        Self::plain(MissingKind::NeverScheduled, "not-scheduled", "not counted: never on the PMU")
    }

    /// Of a pinned event: an event is either always on the PMU then, or in an error state.
    pub fn no_room() -> Self {
        Self::plain(MissingKind::NeverScheduled, "no-room", "pinned, and no counter was free")
    }

    /// Of an event whose targets never ran.
    pub fn never_enabled() -> Self {
        Self::plain(MissingKind::NeverEnabled, "not-enabled", "nothing ran while it was enabled")
    }
}

impl Row {
    /// The readings; empty when it was not counted.
    pub fn readings(&self) -> &[Reading] {
        match &self.outcome {
            Outcome::Counted(readings) => readings,
            Outcome::Missing(_) => &[],
        }
    }

    /// The value with its spread over the runs.
    pub fn spread(&self) -> Option<Spread> {
        Spread::of(self.readings().iter().map(|reading| reading.value as f64))
    }

    /// Mean time it was counting.
    pub fn running_ns(&self) -> f64 {
        Spread::of(self.readings().iter().map(|reading| reading.running_ns as f64)).map_or(0.0, |s| s.mean)
    }

    /// The share of its time it was counting, over all runs.
    pub fn share(&self) -> f64 {
        let enabled: u64 = self.readings().iter().map(|reading| reading.enabled_ns).sum();
        let running: u64 = self.readings().iter().map(|reading| reading.running_ns).sum();
        if enabled == 0 { 1.0 } else { running as f64 / enabled as f64 }
    }

    /// Why there are no readings, if there are none.
    pub fn missing(&self) -> Option<&Missing> {
        match &self.outcome {
            Outcome::Missing(missing) => Some(missing),
            Outcome::Counted(_) => None,
        }
    }
}

impl Report {
    /// The same without the rows of what was counted and did not happen, and without events that have no other.
    pub fn without_zeros(&self) -> Report {
        let mut report = self.clone();
        for event in &mut report.events {
            event.rows.retain(|row| row.spread().is_none_or(|spread| spread.mean != 0.0));
        }
        report.events.retain(|event| !event.rows.is_empty());
        report
    }

    /// Wall time with its spread over the runs.
    pub fn wall_ns(&self) -> Option<Spread> {
        Spread::of(self.runs.iter().map(|run| run.wall_ns as f64))
    }

    /// Something the command used, with its spread over the runs.
    pub fn usage(&self, what: impl Fn(&Usage) -> u64) -> Option<Spread> {
        Spread::of(self.runs.iter().filter_map(|run| run.usage.as_ref()).map(|usage| what(usage) as f64))
    }

    /// The cgroup of all events, if they have the same.
    pub fn common_cgroup(&self) -> Option<&str> {
        let first = self.events.first()?.cgroup.as_deref()?;
        self.events.iter().all(|event| event.cgroup.as_deref() == Some(first)).then_some(first)
    }

    /// Whether several runs were made or asked for, so that there is a spread to show.
    pub fn is_repeated(&self) -> bool {
        self.runs.len() > 1
    }

    /// The places in order, as the events have them.
    pub fn places(&self) -> Vec<&RowPlace> {
        let most = self.events.iter().map(|event| &event.rows).max_by_key(|rows| rows.len());
        most.into_iter().flatten().map(|row| &row.place).collect()
    }
}

#[cfg(any(test, feature = "samples"))]
#[cfg_attr(not(feature = "samples"), expect(unreachable_pub, reason = "only the feature shows it to others"))]
pub mod samples {
    //! Hand-made measurements for the tests of the formats.

    use super::*;
    use perfuse_events::EventList;

    /// An event by name, counted with these values (one a run) all of its time.
    pub fn counted(name: &str, values: &[u64]) -> Event {
        partly(name, values, 1_000_000, 1_000_000)
    }

    /// The same with times.
    pub fn partly(name: &str, values: &[u64], enabled_ns: u64, running_ns: u64) -> Event {
        let reading =
            |&value| Reading { value, raw: value * running_ns / enabled_ns, enabled_ns, running_ns };
        event(name, Outcome::Counted(values.iter().map(reading).collect()))
    }

    /// A hardware event where there is no PMU.
    pub fn refused(name: &str) -> Event {
        event(name, Outcome::Missing(no_pmu()))
    }

    /// Why there is no hardware event there.
    pub fn no_pmu() -> Missing {
        Missing {
            kind: MissingKind::NotSupported,
            short: "no hardware PMU here".into(),
            cause: "no-hardware-pmu".into(),
            errno: Some("ENOENT".into()),
            explanation: "this virtual machine has no PMU".into(),
            remedies: vec!["on the host: -cpu host,pmu=on".into()],
        }
    }

    /// An event by name, with what became of it.
    pub fn event(name: &str, outcome: Outcome) -> Event {
        let list: EventList = name.parse().unwrap();
        let spec = list.resolve(&perfuse_events::NoCatalogue).unwrap()[0].events[0].clone();
        let rows = vec![Row { place: RowPlace::Everywhere, targets: 1, outcome }];
        let unit = spec.unit();
        let (name, source, exclude) = (spec.name, spec.source, spec.exclude);
        Event {
            name,
            source,
            exclude,
            unit,
            scale: None,
            cgroup: None,
            impossible: false,
            lost_kernel_side: false,
            lost_children: false,
            rows,
        }
    }

    /// `./parse big.json` with these events.
    pub fn report(events: Vec<Event>) -> Report {
        let runs =
            events.iter().flat_map(|event| &event.rows).map(|row| row.readings().len()).max().unwrap_or(1);
        let usage = Usage {
            user_ns: 2_271_000_000,
            system_ns: 34_000_000,
            peak_rss_bytes: 3 << 20,
            minor_faults: 282,
            major_faults: 0,
        };
        let run = Run { wall_ns: 1_204_000_000, usage: Some(usage) };
        Report {
            subject: Subject::Command(vec!["./parse".into(), "big.json".into()]),
            exit: Some(Exit::Code(0)),
            runs: vec![run; runs.max(1)],
            interval: None,
            aggregation: Aggregation::Everything,
            cgroups: false,
            events,
            metrics: Arc::new([]),
            warnings: Vec::new(),
        }
    }

    /// The events of the default set on a machine with a PMU.
    pub fn default_events() -> Vec<Event> {
        vec![
            counted("task-clock", &[2_310_400_000]),
            counted("context-switches", &[531]),
            counted("cpu-migrations", &[6]),
            counted("page-faults", &[282]),
            counted("cycles", &[8_912_034_551]),
            counted("instructions", &[21_470_000_000]),
            counted("branches", &[3_118_000_000]),
            counted("branch-misses", &[41_270_000]),
        ]
    }
}
