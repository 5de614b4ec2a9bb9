//! The options, checked: whom to record, which events, how, and where to.

use super::args::Args;
use super::terms;
use super::words::{Synth, branches, chains, clock, frequency, pages, processes_of, registers, size, switch};
use crate::common::start::Start;
use crate::common::{cpus, events};
use crate::exit::Failure;
use perfuse::abi::{AttrFlags, BranchSampleType, EventType, Hardware};
use perfuse::online_cpus;
use perfuse_events::{EventSet, EventSpec, Precise, Source};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is to be recorded, and how.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) whom: Whom,
    /// Of what the cpus record, only these processes, or the command, are kept, with what they start.
    pub(super) follow: Option<Vec<u32>>,
    /// Whole cpus may be sampled in place of the command: see [`Plan::following`].
    pub(super) may_follow: bool,
    /// The command to run: what is recorded, or what tells when to stop.
    pub(super) command: Vec<OsString>,
    pub(super) events: Vec<Request>,
    /// No events were asked for: where there are no cycles, the clock will do.
    pub(super) default_events: bool,
    pub(super) rate: Rate,
    /// The rate was asked for.
    pub(super) rate_given: bool,
    pub(super) chains: Option<Chains>,
    pub(super) start: Start,
    pub(super) inherit: bool,
    /// Each thread with a ring of its own.
    pub(super) by_thread: bool,
    /// Pages of a ring, if asked for.
    pub(super) pages: Option<usize>,
    pub(super) overwrite: bool,
    pub(super) tail_synthesize: bool,
    /// What is told about what was there before.
    pub(super) synth: Synth,
    pub(super) clock: Option<i32>,
    pub(super) compression: Option<i32>,
    pub(super) build_ids: bool,
    /// BPF programs are told of, those there are and those that come.
    pub(super) bpf: bool,
    /// Records wait in their ring until it is half full.
    pub(super) buffering: bool,
    pub(super) fields: Fields,
    /// Flags of the event that tells about tasks.
    pub(super) sideband: AttrFlags,
    pub(super) branches: BranchSampleType,
    pub(super) output: Destination,
    pub(super) switch: Switch,
    pub(super) timestamp_filename: bool,
    /// How many files of a switched output are kept.
    pub(super) max_files: Option<usize>,
    pub(super) max_bytes: Option<u64>,
    pub(super) verbose: bool,
    pub(super) quiet: bool,
    /// Remarks about options.
    pub(super) remarks: Vec<String>,
}

/// Who is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Whom {
    Command,
    Processes(Vec<u32>),
    Threads(Vec<u32>),
    Cpus(Vec<u32>),
}

/// An event to sample.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) spec: EventSpec,
    pub(super) filter: Option<String>,
    /// Neighbours with the same number form a group.
    pub(super) group: Option<u32>,
    /// What the group is called.
    pub(super) group_name: Option<String>,
    /// Rather apart from the group than not at all.
    pub(super) weak: bool,
    /// Only tasks of this cgroup are sampled.
    pub(super) cgroup: Option<String>,
}

impl Request {
    /// An event by itself.
    pub(super) fn new(spec: EventSpec) -> Self {
        Request { spec, filter: None, group: None, group_name: None, weak: false, cgroup: None }
    }
}

/// How often an event is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rate {
    Frequency(u64),
    Period(u64),
}

/// How call chains are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chains {
    FramePointers,
    /// From a copy of so many bytes of the stack.
    Stack(u32),
    LastBranches,
}

/// More about each sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) data: bool,
    pub(super) weight: bool,
    pub(super) physical: bool,
    pub(super) page_size: bool,
    pub(super) code_page_size: bool,
    pub(super) transaction: bool,
    /// Masks of registers.
    pub(super) user_regs: u64,
    pub(super) intr_regs: u64,
    /// Only totals are recorded.
    pub(super) no_samples: bool,
    pub(super) raw: bool,
    pub(super) times: bool,
    pub(super) cpu: bool,
    pub(super) identifier: bool,
    pub(super) period: bool,
    pub(super) cgroup: bool,
    pub(super) per_thread_counts: bool,
    /// `AttrFlags::EXCLUDE_*` for all events.
    pub(super) exclude: AttrFlags,
    /// Of call chains, the side that is left out.
    pub(super) exclude_chains: AttrFlags,
}

/// Where the recording goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    File(PathBuf),
    Pipe,
}

/// When to go on in a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switch {
    Never,
    Signal,
    Size(u64),
    Every(Duration),
}

/// Samples a second, unless asked otherwise: a prime number, so that what the machine does in step with
/// its clock is not missed or hit always.
const HZ: u64 = 997;

/// Whole cpus are sampled without being asked for up to the rate that perf has by default.
const MOST_FOLLOWED_HZ: u64 = 4000;

impl Plan {
    pub(super) fn new(args: &Args) -> Result<Self, Failure> {
        let mut remarks = Vec::new();
        for (given, why) in [
            (&args.clang_path, "--clang-path means nothing here: nothing is compiled"),
            (&args.clang_opt, "--clang-opt means nothing here: nothing is compiled"),
            (&args.vmlinux, "--vmlinux means nothing here: no kernel image is needed to record"),
        ] {
            remarks.extend(given.is_some().then(|| why.to_owned()));
        }
        let whom = whom(args, &mut remarks)?;
        let rate = match (args.count, args.frequency.as_deref()) {
            (Some(period), _) => Rate::Period(period),
            (None, Some(text)) => Rate::Frequency(frequency(text, args.strict_freq, &mut remarks)?),
            (None, None) => Rate::Frequency(HZ),
        };
        let mut sideband = AttrFlags::empty();
        let chosen = [
            (args.switch_events, AttrFlags::CONTEXT_SWITCH),
            (args.namespaces, AttrFlags::NAMESPACES),
            (args.all_cgroups, AttrFlags::CGROUP),
        ];
        chosen.iter().filter(|(on, _)| *on).for_each(|(_, flag)| sideband |= *flag);
        let exclude = match (args.all_user, args.all_kernel) {
            (true, _) => AttrFlags::EXCLUDE_KERNEL,
            (_, true) => AttrFlags::EXCLUDE_USER,
            _ => AttrFlags::empty(),
        };
        let exclude_chains = match (args.user_callchains, args.kernel_callchains) {
            (true, _) => AttrFlags::EXCLUDE_CALLCHAIN_KERNEL,
            (_, true) => AttrFlags::EXCLUDE_CALLCHAIN_USER,
            _ => AttrFlags::empty(),
        };
        let start = Start::after(args.delay);
        let output = match &args.output {
            Some(path) if path.as_os_str() == "-" => Destination::Pipe,
            Some(path) => Destination::File(path.clone()),
            None => Destination::File("perf.data".into()),
        };
        let switch = args.switch_output.as_deref().map_or(Ok(Switch::Never), switch)?;
        if output == Destination::Pipe
            && (switch != Switch::Never || args.overwrite || args.timestamp_filename)
        {
            return Err(Failure::usage(
                "a pipe is one stream: no --switch-output, --overwrite, --timestamp-filename",
            ));
        }
        let (chains, branches) = (chains(args)?, branches(args)?);
        if chains == Some(Chains::LastBranches) && !branches.is_empty() {
            return Err(Failure::usage("-b and -j want the branches that --call-graph lbr is made of"));
        }
        let (mut whom, mut follow) = (whom, None);
        if args.follow {
            follow = Some(match whom {
                Whom::Processes(pids) => pids,
                _ => Vec::new(),
            });
            whom = Whom::Cpus(online_cpus());
        }
        let events = requests(args)?;
        if follow.is_some() && events.iter().any(|request| request.spec.options.time == Some(false)) {
            return Err(Failure::usage(
                "--follow goes by the times of samples: the term time=0 takes them away",
            ));
        }
        remarks.extend(events.iter().filter_map(|request| terms::remark(&request.spec)));
        // What was asked for in detail is asked of the kernel as perf does; and others on the machine are not
        // interrupted more often, or with more to do, than by a recording of perf.
        let may_follow = whom == Whom::Command
            && args.selection.lists.is_empty()
            && matches!(rate, Rate::Frequency(hz) if hz <= MOST_FOLLOWED_HZ)
            && matches!(chains, None | Some(Chains::FramePointers))
            && branches.is_empty()
            && !(args.no_follow || args.no_inherit || args.per_thread || args.overwrite)
            && !(args.stat || args.no_samples || args.switch_events);
        let on_cpus = matches!(whom, Whom::Cpus(_));
        Ok(Plan {
            follow,
            may_follow,
            command: args.command.clone(),
            events,
            default_events: args.selection.lists.is_empty(),
            rate,
            rate_given: args.count.is_some() || args.frequency.is_some(),
            chains,
            start,
            inherit: !args.no_inherit && !args.per_thread,
            by_thread: args.per_thread,
            pages: args.mmap_pages.as_deref().map(pages).transpose()?,
            overwrite: args.overwrite,
            synth: args.synth,
            tail_synthesize: args.tail_synthesize || args.overwrite,
            clock: clock(&args.clockid)?,
            compression: args.compression.level,
            build_ids: !args.no_buildid,
            bpf: !args.no_bpf_event,
            buffering: !args.no_buffering,
            fields: Fields {
                data: args.data,
                weight: args.weight,
                physical: args.phys_data,
                page_size: args.data_page_size,
                code_page_size: args.code_page_size,
                transaction: args.transaction,
                user_regs: args.user_regs.as_deref().map_or(Ok(0), registers)?,
                intr_regs: args.intr_regs.as_deref().map_or(Ok(0), registers)?,
                no_samples: args.no_samples,
                raw: args.raw_samples,
                times: args.running_time,
                cpu: args.sample_cpu || on_cpus,
                identifier: args.sample_identifier,
                period: args.period,
                cgroup: args.all_cgroups,
                per_thread_counts: args.stat,
                exclude,
                exclude_chains,
            },
            sideband,
            branches,
            output,
            switch,
            timestamp_filename: args.timestamp_filename || switch != Switch::Never,
            max_files: args.switch_max_files,
            max_bytes: args.max_size.as_deref().map(size).transpose()?,
            verbose: args.verbose,
            quiet: args.quiet,
            remarks,
            whom,
        })
    }
}

impl Plan {
    /// The same recording made by sampling whole cpus, if that is a matter of course: clocks of tasks begin
    /// anew in each process, and never sample one that ends within a period.
    pub(super) fn following(&self) -> Option<Plan> {
        let mut plan = self.may_follow.then(|| self.clone())?;
        (plan.whom, plan.follow) = (Whom::Cpus(online_cpus()), Some(Vec::new()));
        plan.fields.cpu = true;
        Some(plan)
    }

    /// The recording of running processes made in the same way: as whole cpus need few descriptors, it can be
    /// had where there are too many threads. What it says about each process is the same.
    pub(super) fn following_processes(&self) -> Option<Plan> {
        let Whom::Processes(pids) = &self.whom else { return None };
        let same = |request: &Request| {
            request.spec.options.time != Some(false) && !request.spec.sample_read && request.cgroup.is_none()
        };
        let may = self.inherit
            && !(self.by_thread || self.overwrite || self.fields.no_samples || self.fields.per_thread_counts)
            && self.events.iter().all(same);
        may.then(|| {
            let mut plan = self.clone();
            (plan.whom, plan.follow) = (Whom::Cpus(online_cpus()), Some(pids.clone()));
            plan.fields.cpu = true;
            plan
        })
    }
}

fn whom(args: &Args, remarks: &mut Vec<String>) -> Result<Whom, Failure> {
    let gone = |kind: &str, ids: &[u32]| {
        let gone = ids.iter().find(|id| !Path::new(&format!("/proc/{id}")).exists());
        gone.map_or(Ok(()), |id| Err(Failure::new(format_args!("there is no {kind} {id}, or not any more"))))
    };
    gone("process", &args.pid)?;
    gone("thread", &args.tid)?;
    if !args.pid.is_empty() {
        return Ok(Whom::Processes(args.pid.clone()));
    }
    if let Some(user) = &args.uid {
        return Ok(Whom::Processes(processes_of(user)?));
    }
    if !args.tid.is_empty() {
        return Ok(Whom::Threads(args.tid.clone()));
    }
    if let Some(list) = &args.cpu {
        let (cpus, remark) = cpus::chosen(list)?;
        remarks.extend(remark);
        return Ok(Whom::Cpus(cpus));
    }
    // Without a command it is the whole system, as with perf.
    if args.all_cpus || args.cgroup.is_some() || args.command.is_empty() {
        return Ok(Whom::Cpus(online_cpus()));
    }
    Ok(Whom::Command)
}

fn requests(args: &Args) -> Result<Vec<Request>, Failure> {
    let catalogue = events::machine();
    let mut requests = Vec::new();
    let mut groups = 0;
    for listed in &args.selection.lists {
        for EventSet { name, weak, events, .. } in events::resolve(&listed.events, &catalogue)? {
            groups += 1;
            if let Some(spec) = events.iter().find(|spec| spec.is_tools()) {
                let name = &spec.name;
                return Err(Failure::usage(format_args!("{name} cannot be sampled; perfuse stat counts it")));
            }
            let group = (events.len() > 1).then_some(groups);
            events.iter().try_for_each(terms::check)?;
            requests.extend(events.into_iter().map(|spec| Request {
                filter: listed.filter.clone(),
                group,
                group_name: name.clone(),
                weak,
                ..Request::new(spec)
            }));
        }
    }
    if requests.is_empty() {
        let source =
            Source::Kernel { type_: EventType::HARDWARE, config: Hardware::CPU_CYCLES.0, more: [0; 4] };
        requests
            .push(Request::new(EventSpec { precise: Precise::Most, ..EventSpec::new("cycles:P", source) }));
    }
    terms::join_tracers(&mut requests)?;
    if args.group {
        requests.iter_mut().for_each(|request| (request.group, request.weak) = (Some(0), false));
    }
    if args.exclude_perf {
        exclude_ourselves(&mut requests)?;
    }
    if let Some(list) = &args.cgroup {
        bind(list, &mut requests)?;
    }
    Ok(requests)
}

/// The hits of this program are left out, in addition to what other filters leave out.
fn exclude_ourselves(requests: &mut [Request]) -> Result<(), Failure> {
    let own = format!("common_pid != {}", std::process::id());
    let mut any = false;
    for request in requests.iter_mut().filter(|request| super::attrs::is_tracepoint(request)) {
        any = true;
        request.filter = Some(match request.filter.take() {
            Some(filter) => format!("({filter}) && {own}"),
            None => own.clone(),
        });
    }
    match any {
        true => Ok(()),
        false => {
            Err(Failure::usage("--exclude-perf is for tracepoints, and there are none among the events"))
        }
    }
}

/// One cgroup is for all events; of several, the n-th is for the n-th event.
fn bind(list: &str, requests: &mut [Request]) -> Result<(), Failure> {
    let names: Vec<_> = list.split(',').collect();
    if names.len() > requests.len().max(1) {
        return Err(Failure::usage("-G names more cgroups than there are events"));
    }
    for (index, request) in requests.iter_mut().enumerate() {
        let name = if names.len() == 1 { names[0] } else { names.get(index).copied().unwrap_or_default() };
        request.cgroup = Some(name.to_owned()).filter(|name| !name.is_empty());
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::attrs;
    use super::*;
    use crate::cli::{Cli, Subcommand};
    use clap::Parser;
    use perfuse::abi::regs::Arch;
    use perfuse_sys::page_size;

    pub(in crate::record) fn args(line: &str) -> Result<Box<Args>, String> {
        let cli = Cli::try_parse_from(["perfuse", "record"].into_iter().chain(line.split_whitespace()));
        match cli.map_err(|error| error.to_string())?.subcommand {
            Subcommand::Record(args) => Ok(args),
            other => panic!("{other:?}"),
        }
    }

    fn plan(line: &str) -> Result<Plan, String> {
        Plan::new(&*args(line)?).map_err(|failure| failure.to_string())
    }

    #[test]
    fn rates() {
        let rate = |line: &str| plan(line).unwrap().rate;
        assert_eq!(rate("true"), Rate::Frequency(997));
        assert_eq!(rate("-F 99 true"), Rate::Frequency(99));
        assert_eq!(rate("-c 1000 true"), Rate::Period(1000));
        for line in ["-F 0 true", "-F x true", "-c 0 true", "-F 1 -c 1 true"] {
            assert!(plan(line).is_err(), "{line}");
        }
    }

    #[test]
    fn call_chains() {
        let chains = |line: &str| plan(line).map(|plan| plan.chains);
        assert_eq!(chains("true"), Ok(None));
        assert_eq!(chains("-g true"), Ok(Some(Chains::FramePointers)));
        assert_eq!(chains("--call-graph dwarf true"), Ok(Some(Chains::Stack(8192))));
        assert_eq!(chains("--call-graph dwarf,1001 true"), Ok(Some(Chains::Stack(1008))));
        assert_eq!(chains("--call-graph lbr true"), Ok(Some(Chains::LastBranches)));
        assert!(chains("--call-graph dwarf,65536 true").is_err() && chains("--call-graph x true").is_err());
    }

    #[test]
    fn outputs() {
        assert_eq!(plan("true").unwrap().output, Destination::File("perf.data".into()));
        assert_eq!(plan("-o - true").unwrap().output, Destination::Pipe);
        let switch = |line: &str| plan(line).map(|plan| plan.switch);
        assert_eq!(switch("--switch-output true"), Ok(Switch::Signal));
        assert_eq!(switch("--switch-output=10M true"), Ok(Switch::Size(10 << 20)));
        assert_eq!(switch("--switch-output=2m true"), Ok(Switch::Every(Duration::from_secs(120))));
        assert!(switch("--switch-output=x true").is_err() && switch("--switch-output -o - true").is_err());
    }

    #[test]
    fn rings_and_clocks() {
        let pages = |line: &str| plan(line).map(|plan| plan.pages);
        assert_eq!(pages("-m 8 true"), Ok(Some(8)));
        assert_eq!(pages("-m 4M,2 true"), Ok(Some((4 << 20) / page_size())));
        assert!(pages("-m 0 true").is_err() && pages("-m x true").is_err());
        let clock = |line: &str| plan(line).map(|plan| plan.clock);
        assert_eq!(clock("true"), Ok(Some(1)));
        assert_eq!(clock("-k CLOCK_BOOTTIME true"), Ok(Some(7)));
        assert_eq!(clock("-k perf true"), Ok(None));
        assert!(clock("-k wall true").is_err());
    }

    #[test]
    fn groups_and_cgroups() {
        let events = |line: &str| plan(line).unwrap().events;
        let groups: Vec<_> = events("-e cs,{faults,cycles}:S -e a{cs,faults}:W true")
            .into_iter()
            .map(|request| (request.group, request.group_name, request.weak, request.spec.sample_read))
            .collect();
        let named = Some("a".to_owned());
        let [read, weak] = [(Some(2), None, false, true), (Some(3), named, true, false)];
        assert_eq!(groups, [(None, None, false, false), read.clone(), read, weak.clone(), weak]);
        for (line, expected) in [("-G a", "a a"), ("-G a,b", "a b"), ("-G ,b", "- b"), ("true", "- -")] {
            let bound = events(&format!("-e cs,faults {line}"));
            let bound: Vec<_> = bound.iter().map(|event| event.cgroup.as_deref().unwrap_or("-")).collect();
            assert_eq!(bound.join(" "), expected, "{line}");
        }
    }

    #[test]
    fn registers_have_names() {
        let (all, ip) = (attrs::registers(), Arch::NATIVE.map(|arch| 1 << arch.ip()));
        let masks = |line: &str| plan(line).map(|plan| (plan.fields.intr_regs, plan.fields.user_regs));
        assert_eq!(masks("-I true"), Ok((all, 0)));
        if let Some(ip) = ip {
            let name = if cfg!(target_arch = "x86_64") { "ip" } else { "pc" };
            assert_eq!(masks(&format!("--user-regs={name} true")), Ok((0, ip)));
        }
        assert!(masks("-I=nonsense true").unwrap_err().contains("there are"));
    }

    #[test]
    fn contradictions_are_refused() {
        for line in [
            "-p 1 -a",
            "-e nonsense true",
            "-C 3-1",
            "-b -j any true",
            "-e cs -G a,b true",
            "-b --call-graph lbr true",
            "--exclude-perf -e cs true",
            "--synth nonsense true",
            "--off-cpu true",
            "--kcore true",
            "--threads=cpu true",
            "-S true",
        ] {
            assert!(plan(line).is_err(), "{line}");
        }
    }
}
