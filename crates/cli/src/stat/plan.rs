//! The options, checked: what is to be measured, and how.

use super::args::Args;
use super::select::Chosen;
use crate::common::{cpus, events, processes};
use crate::exit::Failure;
use crate::term::out::say;
use perfuse::{Perf, Start};
use perfuse_events::Machine;
use perfuse_stat::metrics::{self, Measured};
use perfuse_stat::{Aggregation, PerCore, Plan, Request, Requests, Target};
use std::path::Path;
use std::time::Duration;

/// Makes the plan that the options ask for.
pub(super) fn plan(args: &Args, kernel: Perf) -> Result<Plan, Failure> {
    let target = target(args, &kernel)?;
    let on_cpus = matches!(target, Target::Cpus { .. });
    let aggregation = match args {
        Args { no_aggr: true, .. } => Aggregation::Cpu,
        Args { per_core: true, .. } => Aggregation::Core,
        Args { per_cluster: true, .. } => Aggregation::Cluster,
        Args { per_cache: Some(level), .. } => Aggregation::Cache(level.0),
        Args { per_die: true, .. } => Aggregation::Die,
        Args { per_socket: true, .. } => Aggregation::Socket,
        Args { per_node: true, .. } => Aggregation::Node,
        Args { per_thread: true, .. } => Aggregation::Thread,
        _ => Aggregation::Everything,
    };
    match aggregation {
        Aggregation::Everything => {}
        Aggregation::Thread if matches!(target, Target::Command | Target::Cpus { .. }) => {
            return Err(Failure::usage("--per-thread needs -p, -t or -a"));
        }
        Aggregation::Thread => {}
        _ if on_cpus => {}
        _ => {
            return Err(Failure::usage(
                "rows by cpu, core, cluster, cache, die, socket or node need -a, -C or -G",
            ));
        }
    }
    if args.repeat.is_some() && args.command.is_empty() {
        return Err(Failure::usage("-r needs a command to repeat"));
    }
    let (events, metrics) = if args.null { Default::default() } else { requests(args, on_cpus, &kernel)? };
    let mut plan = Plan::new(target, args.command.clone(), events);
    plan.kernel = kernel;
    plan.cgroups = args.selection.has_cgroups() || args.for_each_cgroup.is_some();
    plan.aggregation = aggregation;
    plan.metrics = metrics.into();
    plan.runs = match args.repeat {
        Some(0) => None,
        times => Some(times.unwrap_or(1)),
    };
    plan.interval = args.interval_print.map(Duration::from_millis);
    plan.intervals = args.interval_count;
    plan.timeout = args.timeout.map(Duration::from_millis);
    plan.start = Start::after(args.delay);
    plan.inherit = !args.no_inherit;
    plan.scale = !args.no_scale;
    plan.merge = !args.no_merge && !args.no_aggr;
    plan.per_core = if args.percore_show_thread { PerCore::EachThread } else { PerCore::Row };
    plan.pre.clone_from(&args.pre);
    plan.post.clone_from(&args.post);
    plan.sync = args.sync;
    plan.verbose = args.verbose;
    plan.owns_process = true;
    Ok(plan)
}

fn target(args: &Args, kernel: &Perf) -> Result<Target, Failure> {
    processes::are_there(kernel, &args.pid, &args.tid)?;
    let chosen = [
        ("-p", !args.pid.is_empty()),
        ("-t", !args.tid.is_empty()),
        ("-C", args.cpu.is_some()),
        ("-a", args.all_cpus),
    ];
    processes::overridden(&chosen).into_iter().for_each(say);
    if !args.pid.is_empty() {
        return Ok(Target::Processes(processes::all(&args.pid)));
    }
    if !args.tid.is_empty() {
        return Ok(Target::Threads(args.tid.clone()));
    }
    if args.per_thread && args.cpu.is_none() && (args.all_cpus || args.command.is_empty()) {
        return Ok(Target::EveryThread(every_thread(kernel)));
    }
    if let Some(list) = &args.cpu {
        let (cpus, remark) = cpus::chosen(kernel, list)?;
        if let Some(remark) = remark {
            say(remark);
        }
        return Ok(Target::Cpus { cpus, all: false });
    }
    // A separator that is a word was meant to be the command.
    let separator = args.field_separator.as_deref().filter(|text| text.starts_with(char::is_alphabetic));
    if let Some(word) = separator.filter(|word| word.len() > 1 && !args.all_cpus && args.command.is_empty()) {
        return Err(Failure::usage(format_args!(
            "-x takes '{word}' for the separator, and no command is left\n  try: perfuse stat -x, -- {word}"
        )));
    }
    // As in perf, a command line without a target means the whole machine.
    let everybody = args.all_cpus || args.command.is_empty();
    if everybody || args.selection.has_cgroups() || args.for_each_cgroup.is_some() {
        return Ok(Target::Cpus { cpus: kernel.surroundings().online_cpus(), all: true });
    }
    Ok(Target::Command)
}

/// The threads that there are.
fn every_thread(kernel: &Perf) -> Vec<u32> {
    let surroundings = kernel.surroundings();
    let processes = surroundings.processes().into_iter();
    let mut tids: Vec<u32> =
        processes.flat_map(|pid| surroundings.threads(pid).unwrap_or_default()).collect();
    tids.sort_unstable();
    tids
}

/// The events of memory transactions.
const TRANSACTIONS: &str =
    "task-clock,{instructions,cycles,cpu/cycles-t/,cpu/tx-start/,cpu/el-start/,cpu/cycles-ct/}";

/// The default events, after a clock.
const DEFAULT: &str =
    "context-switches,cpu-migrations,page-faults,cycles,instructions,branches,branch-misses";

/// The events that each `-d` adds.
const DETAILED: [&str; 3] = [
    "L1-dcache-loads,L1-dcache-load-misses,LLC-loads,LLC-load-misses",
    "L1-icache-loads,L1-icache-load-misses,dTLB-loads,dTLB-load-misses,iTLB-loads,iTLB-load-misses",
    "L1-dcache-prefetches,L1-dcache-prefetch-misses",
];

fn requests(args: &Args, on_cpus: bool, kernel: &Perf) -> Result<(Vec<Request>, Vec<Measured>), Failure> {
    let catalogue = events::of_kernel(kernel);
    let mut requests = Requests::default();
    let mut choice = args.metrics.choice();
    if args.topdown {
        choice.metrics.push(format!("TopdownL{}", args.td_level));
    }
    let by_default = !args.selection.has_events() && choice.metrics.is_empty() && !args.transaction;
    if args.transaction {
        requests.add(TRANSACTIONS, &catalogue)?;
    }
    if let Some(list) = args.selection.1.as_ref().filter(|_| by_default) {
        requests.add(list, &catalogue)?;
        add_details(&mut requests, args, &catalogue)?;
    } else if by_default {
        let clock = if on_cpus || args.per_thread { "cpu-clock" } else { "task-clock" };
        let stalled = stalled_cycles().filter(|_| !kernel.facts().is_simulated);
        for list in [clock, DEFAULT].map(str::to_owned).into_iter().chain(stalled) {
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
    let metrics = metrics::add(&choice, on_cpus, &catalogue, &mut requests)?;
    if let Some(pmu) = &args.cputype {
        requests.only_cores(pmu)?;
    }
    if args.all_user || args.all_kernel {
        requests.only_side(args.all_kernel);
    }
    if args.group {
        requests.join();
    }
    if let Some(list) = &args.for_each_cgroup {
        requests.for_each_cgroup(list)?;
    }
    Ok((requests.all, metrics))
}

fn add_details(requests: &mut Requests, args: &Args, catalogue: &Machine) -> Result<(), Failure> {
    Ok(DETAILED.iter().take(args.detailed.into()).try_for_each(|list| requests.add(list, catalogue))?)
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
            Subcommand::Stat(args) => {
                super::plan(&args, Perf::linux()).map_err(|failure| failure.to_string())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_may_follow_two_dashes_or_not() {
        for line in ["-e cs ls -l -e x", "-e cs -- ls -l -e x"] {
            let plan = plan(line).unwrap();
            assert_eq!(plan.command, ["ls", "-l", "-e", "x"]);
            assert_eq!((plan.target, plan.events.len()), (Target::Command, 1));
        }
    }

    #[test]
    fn processes_go_before_cpus() {
        let own = std::process::id();
        for line in [format!("-p {own} -a"), format!("-a -p {own} -C 0 -t {own}")] {
            assert_eq!(plan(&line).unwrap().target, Target::Processes(vec![own]), "{line}");
        }
        assert_eq!(plan(&format!("-a -t {own}")).unwrap().target, Target::Threads(vec![own]));
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
        assert_eq!(plan("-e cs").unwrap().target, plan("-a").unwrap().target);
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
            assert!(plan.cgroups && matches!(plan.target, Target::Cpus { all: true, .. }), "{line}");
        }
        assert!(plan("-G a -d").unwrap().events.iter().all(|event| event.cgroup.as_deref() == Some("a")));
    }

    #[test]
    fn delays_and_repeats() {
        assert_eq!(plan("-D -1 true").unwrap().start, Start::WhenTold);
        assert_eq!(["true", "-i true"].map(|line| plan(line).unwrap().inherit), [true, false]);
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
