//! The options, checked: a plan of whom to record, which events, and how; and where to.

use super::args::Args;
use super::words::{branches, chains, clock, frequency, pages, processes_of, registers, size, switch};
use crate::common::{cpus, events, processes, style};
use crate::exit::Failure;
use crate::recording::is_read_from_pipe;
use perfuse::abi::AttrFlags;
use perfuse::{Perf, Start};
use perfuse_events::{Cgroups, EventSet};
use perfuse_record::{
    CallChains, Chains, Choice, Fields, HZ, Plan, Rate, Request, Switch, Target, check, join_tracers,
};
use std::path::PathBuf;

/// A plan made of the options, and the parts of them that are the program's.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) plan: Plan,
    pub(super) output: Destination,
    /// The time stands in the file's name.
    pub(super) is_stamped: bool,
    /// How many files of a switched output are kept.
    pub(super) max_files: Option<usize>,
    pub(super) quiet: bool,
    /// Remarks about options.
    pub(super) remarks: Vec<String>,
}

/// Where the recording goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    File(PathBuf),
    Pipe,
    /// The same, as standard output is a pipe and no file was named.
    PipeAtHand,
}

impl Destination {
    /// As perf has it, `perf record COMMAND | perf report` needs no `-o -`. Several files, and names with a time, are no pipe's.
    fn new(args: &Args, is_pipe: bool) -> Self {
        let has_files = args.switch_output.is_some() || args.overwrite || args.timestamp_filename;
        match &args.output {
            Some(path) if path.as_os_str() == "-" => Destination::Pipe,
            Some(path) => Destination::File(path.clone()),
            None if is_pipe && !has_files => Destination::PipeAtHand,
            None => Destination::File("perf.data".into()),
        }
    }

    pub(super) fn is_file(&self) -> bool {
        matches!(self, Destination::File(_))
    }
}

/// Whole cpus are sampled without being asked for up to the rate that perf has by default.
const MOST_FOLLOWED_HZ: u64 = 4000;

impl Asked {
    pub(super) fn new(args: &Args, kernel: Perf) -> Result<Self, Failure> {
        let mut remarks = Vec::new();
        for (given, why) in [
            (&args.clang_path, "--clang-path means nothing here: nothing is compiled"),
            (&args.clang_opt, "--clang-opt means nothing here: nothing is compiled"),
            (&args.vmlinux, "--vmlinux means nothing here: no kernel image is needed to record"),
        ] {
            remarks.extend(given.is_some().then(|| why.to_owned()));
        }
        let target = target(args, &kernel, &mut remarks)?;
        let rate = match (args.count, args.frequency.as_deref()) {
            (Some(period), _) => Rate::Period(period),
            (None, Some(text)) => Rate::Frequency(frequency(text, args.strict_freq, &mut remarks)?),
            (None, None) => Rate::Frequency(HZ),
        };
        let mut sideband = AttrFlags::empty();
        let chosen = [
            (args.switch_events || args.latency, AttrFlags::CONTEXT_SWITCH),
            (args.namespaces, AttrFlags::NAMESPACES),
            (args.data_mmap, AttrFlags::MMAP_DATA),
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
        let output = Destination::new(args, is_read_from_pipe());
        let switch = args.switch_output.as_deref().map_or(Ok(Switch::Never), switch)?;
        if !output.is_file() && (switch != Switch::Never || args.overwrite || args.timestamp_filename) {
            return Err(Failure::usage(
                "a pipe is one stream: no --switch-output, --overwrite, --timestamp-filename",
            ));
        }
        let (asked, branches) = (chains(args)?, branches(args)?);
        if asked == CallChains::By(Some(Chains::LastBranches)) && !branches.is_empty() {
            return Err(Failure::usage("-b and -j want the branches that --call-graph lbr is made of"));
        }
        let (mut target, mut follow) = (target, None);
        if args.follow {
            follow = Some(match target {
                Target::Processes(pids) => pids,
                _ => Vec::new(),
            });
            target = Target::Cpus(kernel.surroundings().online_cpus());
        }
        if args.latency && matches!(target, Target::Cpus(_)) {
            return Err(Failure::usage(
                "--latency is that of a command, processes or threads, and not of whole cpus",
            ));
        }
        let chains = match asked {
            CallChains::By(chains) => chains,
            CallChains::Auto if args.fold || kernel.facts().is_simulated => Some(Chains::FramePointers),
            CallChains::Auto => {
                let search = std::env::var_os("PATH").unwrap_or_default();
                let choice = Choice::of(&target, follow.as_deref(), &args.command, &search);
                remarks.push(choice.to_string());
                Some(choice.chains)
            }
        };
        let mut events = requests(args, &kernel)?;
        events.extend(args.off_cpu.then(Request::off_cpu));
        if follow.is_some() && events.iter().any(|request| request.spec.options.time == Some(false)) {
            return Err(Failure::usage(
                "--follow goes by the times of samples: the term time=0 takes them away",
            ));
        }
        remarks.extend(events.iter().filter_map(|request| perfuse_record::remark(&request.spec)));
        // A user who asks for details gets the attrs that perf would ask for. And other programs on the machine are
        // interrupted as often, and for as long, as by a recording of perf.
        let may_follow = target == Target::Command
            && args.selection.lists.is_empty()
            && matches!(rate, Rate::Frequency(hz) if hz <= MOST_FOLLOWED_HZ)
            && matches!(chains, None | Some(Chains::FramePointers))
            && branches.is_empty()
            && !(args.no_inherit || args.per_thread || args.overwrite)
            && !(args.stat || args.no_samples || args.switch_events || args.latency);
        let on_cpus = matches!(target, Target::Cpus(_));
        let mut plan = Plan::new(target, args.command.clone());
        plan.kernel = kernel;
        plan.follow = follow;
        plan.may_follow = may_follow;
        plan.never_follow = args.no_follow;
        plan.fold = args.fold;
        plan.events = events;
        // perf takes the clock in place of cycles that are asked for, too.
        plan.default_events = args.selection.lists.is_empty()
            || style::is_perfs(false) && plan.events.iter().any(|request| request.spec.is_cycles());
        plan.rate = rate;
        plan.rate_given = args.count.is_some() || args.frequency.is_some();
        plan.chains = chains;
        plan.start = Start::after(args.delay);
        plan.inherit = !args.no_inherit && !args.per_thread;
        plan.by_thread = args.per_thread;
        plan.pages = args.mmap_pages.as_deref().map(pages).transpose()?;
        plan.overwrite = args.overwrite;
        plan.synth = args.synth;
        plan.tail_synthesize = args.tail_synthesize || args.overwrite;
        plan.clock = clock(&args.clockid)?;
        plan.compression = args.compression.level;
        plan.build_ids = !args.no_buildid;
        plan.bpf = !args.no_bpf_event;
        plan.buffering = !args.no_buffering;
        plan.fields = Fields {
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
        };
        plan.sideband = sideband;
        plan.branches = branches;
        plan.switch = switch;
        plan.max_bytes = args.max_size.as_deref().map(size).transpose()?;
        plan.verbose = args.verbose;
        plan.owns_process = true;
        let is_stamped = args.timestamp_filename || switch != Switch::Never;
        Ok(Asked { plan, output, is_stamped, max_files: args.switch_max_files, quiet: args.quiet, remarks })
    }
}

fn target(args: &Args, kernel: &Perf, remarks: &mut Vec<String>) -> Result<Target, Failure> {
    processes::are_there(kernel, &args.pid, &args.tid)?;
    remarks.extend(processes::overridden(&[
        ("-p", !args.pid.is_empty()),
        ("-t", !args.tid.is_empty()),
        ("-u", args.uid.is_some()),
        ("-C", args.cpu.is_some()),
        ("-a", args.all_cpus),
    ]));
    if !args.pid.is_empty() {
        return Ok(Target::Processes(processes::all(&args.pid)));
    }
    if !args.tid.is_empty() {
        return Ok(Target::Threads(args.tid.clone()));
    }
    if let Some(user) = &args.uid {
        return Ok(Target::Processes(processes_of(user)?));
    }
    if let Some(list) = &args.cpu {
        let (cpus, remark) = cpus::chosen(kernel, list)?;
        remarks.extend(remark);
        return Ok(Target::Cpus(cpus));
    }
    // Without a command it is the whole system, as with perf.
    if args.all_cpus || args.selection.has_cgroups() || args.command.is_empty() {
        return Ok(Target::Cpus(kernel.surroundings().online_cpus()));
    }
    Ok(Target::Command)
}

fn requests(args: &Args, kernel: &Perf) -> Result<Vec<Request>, Failure> {
    let catalogue = events::of_kernel(kernel);
    let mut requests = Vec::new();
    let (mut groups, mut cgroups) = (0, Cgroups::default());
    for listed in &args.selection.lists {
        for EventSet { name, weak, events, .. } in events::resolve(&listed.events, &catalogue)? {
            groups += 1;
            if let Some(spec) = events.iter().find(|spec| spec.is_tools()) {
                let name = &spec.name;
                return Err(Failure::usage(format_args!("{name} cannot be sampled; perfuse stat counts it")));
            }
            let group = (events.len() > 1).then_some(groups);
            events.iter().try_for_each(check)?;
            requests.extend(events.into_iter().map(|spec| Request {
                filter: listed.filter.clone(),
                group,
                group_name: name.clone(),
                weak,
                ..Request::new(spec)
            }));
        }
        listed.cgroups.iter().try_for_each(|list| bind(list, &mut requests, &mut cgroups))?;
    }
    if requests.is_empty() {
        requests.push(Request::cycles());
    }
    join_tracers(&mut requests)?;
    if args.group {
        requests.iter_mut().for_each(|request| (request.group, request.weak) = (Some(0), false));
    }
    if args.exclude_perf {
        exclude_ourselves(&mut requests)?;
    }
    args.selection.cgroups.iter().try_for_each(|list| bind(list, &mut requests, &mut cgroups))?;
    Ok(requests)
}

/// The hits of this program are left out, in addition to what other filters leave out.
fn exclude_ourselves(requests: &mut [Request]) -> Result<(), Failure> {
    let own = format!("common_pid != {}", std::process::id());
    let mut any = false;
    for request in requests.iter_mut().filter(|request| request.is_tracepoint()) {
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

fn bind(list: &str, requests: &mut [Request], cgroups: &mut Cgroups) -> Result<(), Failure> {
    let mut places: Vec<_> = requests.iter_mut().map(|request| &mut request.cgroup).collect();
    match cgroups.bind(list, &mut places) {
        true => Ok(()),
        false => Err(Failure::usage("-G names more cgroups than there are events before it")),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::cli::{Cli, Subcommand};
    use clap::Parser;
    use perfuse::abi::regs::Arch;
    use perfuse_sys::page_size;
    use std::time::Duration;

    pub(in crate::record) fn args(line: &str) -> Result<Box<Args>, String> {
        let cli = Cli::try_parse_from(["perfuse", "record"].into_iter().chain(line.split_whitespace()));
        match cli.map_err(|error| error.to_string())?.subcommand {
            Subcommand::Record(args) => Ok(args.0),
            other => panic!("{other:?}"),
        }
    }

    fn asked(line: &str) -> Result<Asked, String> {
        Asked::new(&*args(line)?, Perf::linux()).map_err(|failure| failure.to_string())
    }

    fn plan(line: &str) -> Result<Plan, String> {
        asked(line).map(|asked| asked.plan)
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
    fn whole_cpus_in_place_of_tasks() {
        let own = std::process::id();
        for line in ["true".to_owned(), format!("-p {own}"), format!("-e cs -p {own}")] {
            assert!(!plan(&line).unwrap().never_follow, "{line}");
            let plan = plan(&format!("--no-follow {line}")).unwrap();
            assert!(plan.never_follow && plan.following().is_none(), "{line}");
        }
    }

    #[test]
    fn processes_go_before_cpus() {
        let own = std::process::id();
        for (line, said) in [
            (format!("-p {own} -a"), "-p overrides -a"),
            (format!("-a -C 0 -t {own} -p {own}"), "-p overrides -t, -C and -a"),
            (format!("-t {own} -a -u root"), "-t overrides -u and -a"),
        ] {
            let asked = asked(&line).unwrap();
            assert!(!matches!(asked.plan.target, Target::Cpus(_)), "{line}");
            assert_eq!(asked.remarks, [said], "{line}");
        }
        assert!(asked("-C 0 -a").unwrap().remarks.is_empty());
    }

    #[test]
    fn latency_takes_the_switches_of_threads_and_their_own_clocks() {
        let plan = plan("--latency true").unwrap();
        assert!(plan.sideband.contains(AttrFlags::CONTEXT_SWITCH) && !plan.may_follow);
        for line in ["--latency -a", "--latency -C 0 true", "--latency --follow true"] {
            assert!(super::tests::plan(line).unwrap_err().contains("--latency"), "{line}");
        }
    }

    #[test]
    fn delays() {
        let start = |line: &str| plan(line).unwrap().start;
        assert_eq!(start("true"), Start::AtOnce);
        assert_eq!(start("-D 50 true"), Start::After(Duration::from_millis(50)));
        assert_eq!(start("-D -1 true"), Start::WhenTold);
    }

    #[test]
    fn call_chains() {
        let chains = |line: &str| plan(line).map(|plan| plan.chains);
        assert_eq!(chains("true"), Ok(None));
        assert_eq!(chains("--call-graph fp true"), Ok(Some(Chains::FramePointers)));
        assert_eq!(chains("-g --call-graph fp true"), Ok(Some(Chains::FramePointers)));
        assert_eq!(chains("--call-graph dwarf true"), Ok(Some(Chains::Stack(8192))));
        assert_eq!(chains("--call-graph dwarf,1001 true"), Ok(Some(Chains::Stack(1008))));
        assert_eq!(chains("--call-graph unwound true"), Ok(Some(Chains::Unwound(None))));
        assert_eq!(chains("--call-graph unwound,1001 true"), Ok(Some(Chains::Unwound(Some(1008)))));
        for auto in ["-g", "--call-graph auto"] {
            assert!(asked(&format!("{auto} true")).unwrap().remarks[0].starts_with("call chains "));
        }
        assert_eq!(chains("--call-graph lbr true"), Ok(Some(Chains::LastBranches)));
        assert!(chains("--call-graph dwarf,65536 true").is_err() && chains("--call-graph x true").is_err());
    }

    #[test]
    fn outputs() {
        let output = |line: &str, is_pipe| Destination::new(&args(line).unwrap(), is_pipe);
        let file = |name: &str| Destination::File(name.into());
        for is_pipe in [false, true] {
            assert_eq!(output("-o - true", is_pipe), Destination::Pipe);
            assert_eq!(output("-o x true", is_pipe), file("x"));
            for line in ["--switch-output true", "--overwrite true", "--timestamp-filename true"] {
                assert_eq!(output(line, is_pipe), file("perf.data"));
            }
        }
        assert_eq!(output("true", false), file("perf.data"));
        assert_eq!(output("true", true), Destination::PipeAtHand);
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
        for (line, expected) in [
            ("-e cs,faults -G a", "a a"),
            ("-e cs,faults -G a,b", "a b"),
            ("-e cs,faults -G ,b", "- b"),
            ("-e cs,faults true", "- -"),
            ("-e cs -G a -e faults", "a -"),
            ("-e cs -G a -e faults -G b", "a b"),
            ("-G a -e cs -e faults", "a a"),
        ] {
            let bound = events(line);
            let bound: Vec<_> = bound.iter().map(|event| event.cgroup.as_deref().unwrap_or("-")).collect();
            assert_eq!(bound.join(" "), expected, "{line}");
        }
    }

    #[test]
    fn registers_have_names() {
        let (all, ip) = (perfuse_record::registers(), Arch::NATIVE.map(|arch| 1 << arch.ip()));
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
            "--latency -a",
            "-e nonsense true",
            "-C 3-1",
            "-b -j any true",
            "-e cs -G a,b true",
            "-b --call-graph lbr true",
            "--exclude-perf -e cs true",
            "--synth nonsense true",
            "--kcore true",
            "-S true",
        ] {
            assert!(plan(line).is_err(), "{line}");
        }
    }
}
