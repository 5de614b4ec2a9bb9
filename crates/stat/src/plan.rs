//! The plan of a measurement, as plain data: which tasks or cpus, which events, and for how long.

use crate::Error;
use crate::measured::Measured;
use crate::model::Aggregation;
use perfuse::{Perf, Start};
use perfuse_events::abi::EventType;
use perfuse_events::{Cgroups, EventList, EventOptions, EventSet, EventSpec, Machine};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

/// The targets, the events, and the way to measure them.
#[derive(Debug)]
pub struct Plan {
    /// Which kernel counts.
    pub kernel: Perf,
    /// The processes, threads, cgroups or cpus to measure.
    pub target: Target,
    /// The command to run: what is measured, or what tells when to stop.
    pub command: Vec<OsString>,
    /// Cgroups were named, be it for some events only.
    pub cgroups: bool,
    /// The set of targets that one row stands for.
    pub aggregation: Aggregation,
    /// The events.
    pub events: Vec<Request>,
    /// Numbers made of several events.
    pub metrics: Arc<[Measured]>,
    /// How often the command is run; `None`: until interrupted.
    pub runs: Option<u32>,
    /// Results are told again and again after so long.
    pub interval: Option<Duration>,
    /// Measuring ends after so many intervals.
    pub intervals: Option<u32>,
    /// Measuring ends after so long.
    pub timeout: Option<Duration>,
    /// When counting starts.
    pub start: Start,
    /// Threads and processes that the targets start are counted too.
    pub inherit: bool,
    /// Values are scaled to the time enabled.
    pub scale: bool,
    /// An event of several PMUs is one.
    pub merge: bool,
    /// Where sums over the threads of a core are shown.
    pub per_core: PerCore,
    /// Shell commands before and after each run.
    pub pre: Option<OsString>,
    /// The one after.
    pub post: Option<OsString>,
    /// Disks are brought up to date before each run.
    pub sync: bool,
    /// The observer is told how each event was opened.
    pub verbose: bool,
    /// Signals that end programs (SIGINT, SIGTERM, SIGHUP) are caught, and end the measurement: for programs that do
    /// nothing else meanwhile.
    pub owns_process: bool,
}

/// The tasks or cpus that are measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The command of the plan, with all that it starts.
    Command,
    /// Processes with their threads.
    Processes(Vec<u32>),
    /// Threads.
    Threads(Vec<u32>),
    /// These are all threads of the system.
    EveryThread(Vec<u32>),
    /// All that runs on these cpus.
    Cpus {
        /// Their numbers.
        cpus: Vec<u32>,
        /// All that are online.
        all: bool,
    },
}

/// Where the sum over the threads of a core is shown, of events with the term `percore`, if cpus have rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerCore {
    /// In a row of its own.
    Row,
    /// In the row of each of them.
    EachThread,
}

/// An event to count.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which.
    pub spec: EventSpec,
    /// Neighbours with the same number form a group.
    pub group: Option<u32>,
    /// Rather apart from the group than not at all.
    pub weak: bool,
    /// Only tasks of this cgroup are counted.
    pub cgroup: Option<String>,
    /// Which item of the lists it comes from.
    pub wish: u32,
    /// Of a tracepoint, which hits are counted.
    pub filter: Option<String>,
}

impl Plan {
    /// All that a target does, in one run, summed up, by Linux. `command` is what is measured if that is the target, or tells
    /// when to stop.
    pub fn new(target: Target, command: Vec<OsString>, events: Vec<Request>) -> Self {
        Plan {
            kernel: Perf::linux(),
            target,
            command,
            cgroups: false,
            aggregation: Aggregation::Everything,
            events,
            metrics: Arc::new([]),
            runs: Some(1),
            interval: None,
            intervals: None,
            timeout: None,
            start: Start::AtOnce,
            inherit: true,
            scale: true,
            merge: false,
            per_core: PerCore::Row,
            pre: None,
            post: None,
            sync: false,
            verbose: false,
            owns_process: false,
        }
    }

    /// Several runs were asked for.
    pub fn is_repeated(&self) -> bool {
        self.runs != Some(1)
    }
}

/// Events as they are collected from the command line.
#[derive(Default)]
pub struct Requests {
    /// The events so far.
    pub all: Vec<Request>,
    /// How many groups there are so far.
    pub groups: u32,
    /// How many items there were, and of the last, if it is of one of several PMUs, the name and the PMU.
    wishes: u32,
    last: Option<(String, String)>,
    cgroups: Cgroups,
    /// Where the events of the last list begin.
    list_begins: usize,
}

impl Requests {
    /// Adds the events of a list as it stands after `-e`.
    ///
    /// # Errors
    ///
    /// [`Error::Plan`]: an event is unknown, or has terms that are for recording.
    pub fn add(&mut self, list: &str, catalogue: &Machine) -> Result<(), Error> {
        self.list_begins = self.all.len();
        for set in resolve(list, catalogue)? {
            self.groups += 1;
            set.events.iter().try_for_each(only_counted)?;
            let group = (set.events.len() > 1).then_some(self.groups);
            let weak = set.weak;
            // Events of one item follow each other, a set each; their names tell which these are.
            let wish = self.wish(&set);
            let request = |spec| Request { spec, group, weak, cgroup: None, wish, filter: None };
            let requests = set.events.into_iter().map(request);
            self.all.extend(requests);
        }
        Ok(())
    }

    /// The item that a set comes from: that of the set before, if both are one event of several PMUs.
    fn wish(&mut self, set: &EventSet) -> u32 {
        let common = |spec: &EventSpec| {
            let pmu = spec.pmu.as_ref()?;
            Some((pmu.common_name.clone()?, pmu.name.clone()))
        };
        let own = set.events.first().and_then(common);
        // PMUs come in order: one that stood there already begins an item of its own.
        let goes_on =
            matches!((&self.last, &own), (Some((a, before)), Some((b, own))) if a == b && before < own);
        if !goes_on {
            self.wishes += 1;
        }
        self.last = own;
        self.wishes
    }

    /// For the events of the last list; of several, all have to hold.
    ///
    /// # Errors
    ///
    /// [`Error::Plan`]: one of them is no tracepoint.
    pub fn filter(&mut self, filter: &str) -> Result<(), Error> {
        for request in &mut self.all[self.list_begins..] {
            if request.spec.event_type() != Some(EventType::TRACEPOINT) {
                let name = &request.spec.name;
                return Err(Error::Plan(format!("--filter is for tracepoints, and {name} is none")));
            }
            request.filter = Some(match &request.filter {
                Some(first) => format!("({first}) && ({filter})"),
                None => filter.to_owned(),
            });
        }
        Ok(())
    }

    /// As in perf: one name is for all events so far; of several, the n-th is for the n-th event, counted
    /// over all options.
    ///
    /// # Errors
    ///
    /// [`Error::Plan`]: there are fewer events.
    pub fn bind(&mut self, list: &str) -> Result<(), Error> {
        if self.all.is_empty() {
            return Err(Error::Plan("-G is for events before it: say -e first".to_owned()));
        }
        let mut places: Vec<_> = self.all.iter_mut().map(|request| &mut request.cgroup).collect();
        match self.cgroups.bind(list, &mut places) {
            true => Ok(()),
            false => Err(Error::Plan("-G names more cgroups than there are events before it".to_owned())),
        }
    }
}

/// perf too takes no terms about samples here, but for their period, which it ignores.
fn only_counted(spec: &EventSpec) -> Result<(), Error> {
    let mut kept = EventOptions::default();
    kept.period = spec.options.period;
    kept.proposed_period = spec.options.proposed_period;
    kept.per_core = spec.options.per_core;
    kept.cpus.clone_from(&spec.options.cpus);
    kept.driver.clone_from(&spec.options.driver);
    let name = &spec.name;
    if spec.retire_latency {
        return Err(Error::Plan(format!(
            "{name}: retire latencies (modifier R) are not counted but sampled: perfuse record -W"
        )));
    }
    if spec.options == kept {
        return Ok(());
    }
    Err(Error::Plan(format!(
        "{name}: of the terms that are not the PMU's, counting takes name, period, percore and cpu; the others are \
         for perfuse record"
    )))
}

/// The events of a list as it stands after `-e`.
pub(crate) fn resolve(list: &str, machine: &Machine) -> Result<Vec<EventSet>, Error> {
    let sets = list.parse().and_then(|list: EventList| list.resolve(machine));
    sets.map_err(|error| Error::Plan(error.explain()))
}
