//! The options, checked: what is to be measured, and how.

use super::adjust;
use super::args::Args;
use super::metrics::{self, Measured};
use super::model::Aggregation;
use super::select::Chosen;
use crate::common::{cpus, events};
use crate::exit::Failure;
use crate::term::out::say;
use perfuse::{Start, online_cpus};
use perfuse_events::abi::EventType;
use perfuse_events::{EventSet, EventSpec, Machine, Options};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// What is to be measured, and how.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) whom: Whom,
    /// The command to run: what is measured, or what tells when to stop.
    pub(super) command: Vec<OsString>,
    /// Cgroups were named, be it for some events only.
    pub(super) cgroups: bool,
    pub(super) aggregation: Aggregation,
    pub(super) events: Vec<Request>,
    /// What the events amount to together.
    pub(super) metrics: Rc<[Measured]>,
    /// How often the command is run; `None`: until interrupted.
    pub(super) runs: Option<u32>,
    pub(super) interval: Option<Duration>,
    pub(super) intervals: Option<u32>,
    pub(super) timeout: Option<Duration>,
    pub(super) start: Start,
    pub(super) inherit: bool,
    pub(super) scale: bool,
    /// An event of several PMUs is one.
    pub(super) merge: bool,
    pub(super) per_core: PerCore,
    /// Shell commands before and after each run.
    pub(super) pre: Option<OsString>,
    pub(super) post: Option<OsString>,
    /// Disks are brought up to date before each run.
    pub(super) sync: bool,
}

/// Who is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Whom {
    Command,
    Processes(Vec<u32>),
    Threads(Vec<u32>),
    /// These are all threads of the system.
    EveryThread(Vec<u32>),
    Cpus {
        cpus: Vec<u32>,
        all: bool,
    },
}

/// Where the sum over the threads of a core is shown, of events with the term `percore`, if cpus have rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PerCore {
    /// In a row of its own.
    Row,
    /// In the row of each of them.
    EachThread,
}

/// An event to count.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) spec: EventSpec,
    /// Neighbours with the same number form a group.
    pub(super) group: Option<u32>,
    /// Rather apart from the group than not at all.
    pub(super) weak: bool,
    /// Only tasks of this cgroup are counted.
    pub(super) cgroup: Option<String>,
    /// Which item of the lists it comes from.
    pub(super) wish: u32,
    /// Of a tracepoint, which hits are counted.
    pub(super) filter: Option<String>,
}

impl Plan {
    pub(super) fn new(args: &Args) -> Result<Self, Failure> {
        let whom = whom(args)?;
        let on_cpus = matches!(whom, Whom::Cpus { .. });
        let aggregation = match args {
            Args { no_aggr: true, .. } => Aggregation::Cpu,
            Args { per_core: true, .. } => Aggregation::Core,
            Args { per_die: true, .. } => Aggregation::Die,
            Args { per_socket: true, .. } => Aggregation::Socket,
            Args { per_node: true, .. } => Aggregation::Node,
            Args { per_thread: true, .. } => Aggregation::Thread,
            _ => Aggregation::Everything,
        };
        match aggregation {
            Aggregation::Everything => {}
            Aggregation::Thread if matches!(whom, Whom::Command | Whom::Cpus { .. }) => {
                return Err(Failure::usage("--per-thread needs -p, -t or -a"));
            }
            Aggregation::Thread => {}
            _ if on_cpus => {}
            _ => return Err(Failure::usage("rows by cpu, core, die, socket or node need -a, -C or -G")),
        }
        if args.repeat.is_some() && args.command.is_empty() {
            return Err(Failure::usage("-r needs a command to repeat"));
        }
        let (events, metrics) = if args.null { Default::default() } else { requests(args, on_cpus)? };
        Ok(Plan {
            command: args.command.clone(),
            cgroups: args.selection.has_cgroups() || args.for_each_cgroup.is_some(),
            aggregation,
            events,
            metrics: metrics.into(),
            runs: match args.repeat {
                Some(0) => None,
                times => Some(times.unwrap_or(1)),
            },
            interval: args.interval_print.map(Duration::from_millis),
            intervals: args.interval_count,
            timeout: args.timeout.map(Duration::from_millis),
            start: Start::after(args.delay),
            inherit: !args.no_inherit,
            scale: !args.no_scale,
            merge: !args.no_merge && !args.no_aggr,
            per_core: if args.percore_show_thread { PerCore::EachThread } else { PerCore::Row },
            pre: args.pre.clone(),
            post: args.post.clone(),
            sync: args.sync,
            whom,
        })
    }

    /// A command, yet to be named, with all that it starts.
    pub(super) fn for_command(lists: &[String]) -> Result<Self, Failure> {
        let machine = events::machine();
        let mut requests = Requests::default();
        lists.iter().try_for_each(|list| requests.add(list, &machine))?;
        Ok(Plan {
            whom: Whom::Command,
            command: Vec::new(),
            cgroups: false,
            aggregation: Aggregation::Everything,
            events: requests.all,
            metrics: Rc::new([]),
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
        })
    }

    /// Several runs were asked for.
    pub(super) fn is_repeated(&self) -> bool {
        self.runs != Some(1)
    }
}

fn whom(args: &Args) -> Result<Whom, Failure> {
    if !args.pid.is_empty() {
        return Ok(Whom::Processes(args.pid.clone()));
    }
    if !args.tid.is_empty() {
        return Ok(Whom::Threads(args.tid.clone()));
    }
    if args.per_thread && args.cpu.is_none() && (args.all_cpus || args.command.is_empty()) {
        return Ok(Whom::EveryThread(every_thread()));
    }
    if let Some(list) = &args.cpu {
        let (cpus, remark) = cpus::chosen(list)?;
        if let Some(remark) = remark {
            say(remark);
        }
        return Ok(Whom::Cpus { cpus, all: false });
    }
    // As in perf, who names nobody means everybody.
    let everybody = args.all_cpus || args.command.is_empty();
    if everybody || args.selection.has_cgroups() || args.for_each_cgroup.is_some() {
        return Ok(Whom::Cpus { cpus: online_cpus(), all: true });
    }
    Ok(Whom::Command)
}

/// The threads that there are.
fn every_thread() -> Vec<u32> {
    let numbers = |dir: &Path| -> Vec<u32> {
        let names = fs::read_dir(dir).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.file_name()));
        names.filter_map(|name| name.to_str()?.parse().ok()).collect()
    };
    let proc = Path::new("/proc");
    let mut tids: Vec<u32> =
        numbers(proc).iter().flat_map(|pid| numbers(&proc.join(pid.to_string()).join("task"))).collect();
    tids.sort_unstable();
    tids
}

/// The events of memory transactions.
const TRANSACTIONS: &str =
    "task-clock,{instructions,cycles,cpu/cycles-t/,cpu/tx-start/,cpu/el-start/,cpu/cycles-ct/}";

/// What is counted by default, after a clock.
const DEFAULT: &str =
    "context-switches,cpu-migrations,page-faults,cycles,instructions,branches,branch-misses";

/// What each `-d` adds.
const DETAILED: [&str; 3] = [
    "L1-dcache-loads,L1-dcache-load-misses,LLC-loads,LLC-load-misses",
    "L1-icache-loads,L1-icache-load-misses,dTLB-loads,dTLB-load-misses,iTLB-loads,iTLB-load-misses",
    "L1-dcache-prefetches,L1-dcache-prefetch-misses",
];

fn requests(args: &Args, on_cpus: bool) -> Result<(Vec<Request>, Vec<Measured>), Failure> {
    let catalogue = events::machine();
    let mut requests = Requests::default();
    let mut metric_options = args.metrics.clone();
    if args.topdown {
        metric_options.metrics.push(format!("TopdownL{}", args.td_level));
    }
    let by_default = !args.selection.has_events() && metric_options.metrics.is_empty() && !args.transaction;
    if args.transaction {
        requests.add(TRANSACTIONS, &catalogue)?;
    }
    if by_default {
        let clock = if on_cpus || args.per_thread { "cpu-clock" } else { "task-clock" };
        for list in [clock, DEFAULT].map(str::to_owned).into_iter().chain(stalled_cycles()) {
            requests.add(&list, &catalogue)?;
        }
        add_details(&mut requests, args, &catalogue)?;
    }
    for chosen in &args.selection.0 {
        match chosen {
            Chosen::Events(list) => requests.add(list, &catalogue)?,
            Chosen::Cgroups(list) => requests.bind(list)?,
            Chosen::Filter(filter) => requests.filter(filter)?,
        }
    }
    if !by_default {
        // As in perf, after those of -e and outside of their cgroups.
        add_details(&mut requests, args, &catalogue)?;
    }
    let metrics = metrics::add(&metric_options, on_cpus, &catalogue, &mut requests)?;
    adjust::apply(args, &mut requests.all)?;
    Ok((requests.all, metrics))
}

fn add_details(requests: &mut Requests, args: &Args, catalogue: &Machine) -> Result<(), Failure> {
    DETAILED.iter().take(args.detailed.into()).try_for_each(|list| requests.add(list, catalogue))
}

/// Events as they are collected from the command line.
#[derive(Default)]
pub(super) struct Requests {
    pub(super) all: Vec<Request>,
    pub(super) groups: u32,
    /// How many items there were, and of the last, if it is of one of several PMUs, the name and the PMU.
    wishes: u32,
    last: Option<(String, String)>,
    /// How many cgroups were named, empty names included.
    cgroups: usize,
    /// Where the events of the last list begin.
    list_begins: usize,
}

impl Requests {
    fn add(&mut self, list: &str, catalogue: &Machine) -> Result<(), Failure> {
        self.list_begins = self.all.len();
        for set in events::resolve(list, catalogue)? {
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
    fn filter(&mut self, filter: &str) -> Result<(), Failure> {
        for request in &mut self.all[self.list_begins..] {
            if request.spec.event_type() != Some(EventType::TRACEPOINT) {
                let name = &request.spec.name;
                return Err(Failure::usage(format_args!("--filter is for tracepoints, and {name} is none")));
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
    fn bind(&mut self, list: &str) -> Result<(), Failure> {
        if self.all.is_empty() {
            return Err(Failure::usage("-G is for events before it: say -e first"));
        }
        for name in list.split(',') {
            let Some(request) = self.all.get_mut(self.cgroups) else {
                return Err(Failure::usage("-G names more cgroups than there are events before it"));
            };
            request.cgroup = Some(name.to_owned()).filter(|name| !name.is_empty());
            self.cgroups += 1;
        }
        if self.cgroups == 1 {
            let cgroup = self.all[0].cgroup.clone();
            self.all.iter_mut().for_each(|request| request.cgroup.clone_from(&cgroup));
        }
        Ok(())
    }
}

/// perf too takes no terms about samples here, but for their period, which it ignores.
fn only_counted(spec: &EventSpec) -> Result<(), Failure> {
    let kept = Options {
        period: spec.options.period,
        proposed_period: spec.options.proposed_period,
        per_core: spec.options.per_core,
        cpus: spec.options.cpus.clone(),
        driver: spec.options.driver.clone(),
        ..Options::default()
    };
    let name = &spec.name;
    if spec.retire_latency {
        return Err(Failure::usage(format_args!(
            "{name}: retire latencies (modifier R) are not counted but sampled: perfuse record -W"
        )));
    }
    if spec.options == kept {
        return Ok(());
    }
    Err(Failure::usage(format_args!(
        "{name}: of the terms that are not the PMU's, counting takes name, period, percore and cpu; the others are \
         for perfuse record"
    )))
}

/// The stalled-cycles events, of those cpus that name them.
fn stalled_cycles() -> impl Iterator<Item = String> {
    let names = ["stalled-cycles-frontend", "stalled-cycles-backend"];
    let known = |name: &&str| Path::new("/sys/bus/event_source/devices/cpu/events").join(name).exists();
    names.into_iter().filter(known).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Subcommand};
    use clap::Parser;

    fn plan(line: &str) -> Result<Plan, String> {
        let cli = Cli::try_parse_from(["perfuse", "stat"].into_iter().chain(line.split_whitespace()));
        match cli.map_err(|error| error.to_string())?.subcommand {
            Subcommand::Stat(args) => Plan::new(&args).map_err(|failure| failure.to_string()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_may_follow_two_dashes_or_not() {
        for line in ["-e cs ls -l -e x", "-e cs -- ls -l -e x"] {
            let plan = plan(line).unwrap();
            assert_eq!(plan.command, ["ls", "-l", "-e", "x"]);
            assert_eq!((plan.whom, plan.events.len()), (Whom::Command, 1));
        }
    }

    #[test]
    fn the_default_events_grow_with_detail() {
        let count = |line: &str| {
            let events = plan(line).unwrap().events;
            events.iter().filter(|event| !event.spec.name.starts_with("stalled")).count()
        };
        assert_eq!(
            ["true", "-d true", "-dd true", "-d -d -d -d true", "-e cs -d true"].map(count),
            [8, 12, 18, 20, 5]
        );
        assert_eq!(plan("-e cs").unwrap().whom, plan("-a").unwrap().whom);
        assert_eq!(plan("-a").unwrap().events[0].spec.name, "cpu-clock");
        assert_eq!(plan("-n true").unwrap().events.len(), 0);
    }

    #[test]
    fn groups_have_numbers() {
        let events = plan("-e cs,{faults,cycles} -e {cs,faults} true").unwrap().events;
        let groups: Vec<_> = events.iter().map(|event| event.group).collect();
        assert_eq!(groups, [None, Some(2), Some(2), Some(3), Some(3)]);
    }

    #[test]
    fn cgroups_are_those_of_events_before_them() {
        for (line, expected) in [
            ("-e cs,faults -G a", "a a"),
            ("-e cs,faults -G a,b", "a b"),
            ("-e cs,faults,cpu-clock -G a,,b", "a - b"),
            ("-e cs,faults -G ,b", "- b"),
            ("-e cs,faults -G a,", "a -"),
            ("-e cs -G a -e faults", "a -"),
            ("-e cs -G a -e faults -G b", "a b"),
            // perf counts names and events from the start, whatever options they stand in.
            ("-e cs,faults -G a -e cpu-clock -G b", "a b -"),
            ("-e cs,faults,cpu-clock -G a,b -e dummy -G a", "a b a -"),
            ("-e {cs,faults} -G a/b", "a/b a/b"),
            ("-e cs -G a -d", "a - - - -"),
        ] {
            let plan = plan(line).unwrap();
            let bound: Vec<_> =
                plan.events.iter().map(|event| event.cgroup.as_deref().unwrap_or("-")).collect();
            assert_eq!(bound.join(" "), expected, "{line}");
            assert!(plan.cgroups && matches!(plan.whom, Whom::Cpus { all: true, .. }), "{line}");
        }
        assert!(plan("-G a -d").unwrap().events.iter().all(|event| event.cgroup.as_deref() == Some("a")));
    }

    #[test]
    fn delays_and_repeats() {
        assert_eq!(plan("-D -1 true").unwrap().start, Start::WhenTold);
        assert_eq!(plan("-D 50 true").unwrap().start, Start::After(Duration::from_millis(50)));
        assert_eq!(plan("-r 0 true").unwrap().runs, None);
        assert_eq!(plan("-r 3 true").unwrap().runs, Some(3));
    }

    #[test]
    fn contradictions_are_refused() {
        for line in [
            "-r 3",
            "-r 3 -a",
            "-A true",
            "--per-core true",
            "--per-thread true",
            "--per-thread -C 0",
            "--table true",
            "--summary true",
            "-e cs --filter x true",
            "--for-each-cgroup a -G a -e cs",
            "--smi-cost true",
            "--cputype nonsense true",
            "--all-user --all-kernel true",
            "-p 1 -a",
            "-x , -j true",
            "-e nonsense true",
            "-C 3-1",
            "-e cs -G a,b",
            "-G a -e cs",
            "-e cs -G a -p 1",
            "--per-node true",
            "--interval-count 3 true",
            "-D -2 true",
        ] {
            assert!(plan(line).is_err(), "{line}");
        }
    }

    #[test]
    fn an_unknown_event_is_shown_with_what_was_meant() {
        let error = plan("-e cs,cyclse true").unwrap_err();
        assert!(error.contains("^^^^^^") && error.contains("did you mean cycles"), "{error}");
    }
}
