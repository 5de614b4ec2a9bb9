//! Every refusal this machine can be brought to give, and whether the named cause is the true one: the
//! test arranges the cause, so it knows.

use perfuse::abi::{
    Attr, AttrFlags, BranchSampleType, Breakpoint, EventType, Hardware, OpenFlags, ReadFormat, SampleType,
    Software,
};
use perfuse::diagnosis::{Cause, Kind};
use perfuse::facts::Facts;
use perfuse::{
    Builder, Call, Cgroup, Command, Counter, Errno, Error, Event, Group, Inherit, Sampler, Target,
};
use perfuse_testkit::{Outcome, Sandbox, Skip, need};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

perfuse_testkit::suite! {
    no_pmu,
    a_user_and_the_kernel,
    a_user_and_a_whole_cpu,
    a_user_and_somebody_elses_process,
    a_user_and_probes,
    a_user_and_raw_tracepoint_data,
    a_user_and_the_tracing_file_system,
    a_seccomp_filter_with_eperm,
    a_seccomp_filter_with_enosys,
    too_many_descriptors,
    rings_beyond_the_locked_memory,
    arguments_that_contradict_each_other,
    bits_without_a_meaning,
    a_frequency_above_the_limit,
    targets_that_do_not_exist,
    members_that_do_not_go_with_their_leader,
    breakpoints_of_the_wrong_shape,
    more_breakpoints_than_registers,
    fields_newer_than_the_kernel,
    threads_that_are_gone,
    descriptors_of_something_else,
    a_leader_whose_task_has_ended,
    an_offline_cpu,
    pmus_and_tracepoints_that_do_not_exist,
    a_pmu_that_cannot_exclude,
    a_pmu_that_does_not_count_threads,
    branches_of_a_software_event,
    callchains_deeper_than_allowed,
    a_member_added_after_a_fork,
    calls_for_sampling_events_only,
    rings_that_cannot_be,
    programs_that_do_not_run,
    an_error_in_words,
}

/// Opens without any of the library's adaptation.
fn open_raw(
    mut attr: Attr,
    (pid, cpu): (i32, i32),
    group: Option<BorrowedFd<'_>>,
    flags: OpenFlags,
) -> Result<std::os::fd::OwnedFd, Error> {
    let call = Call::Open { attr, pid, cpu, grouped: group.is_some(), flags };
    let flags = flags | OpenFlags::FD_CLOEXEC;
    perfuse_sys::perf_event_open(&mut attr, pid, cpu, group, flags).map_err(|errno| Error::new(call, errno))
}

/// The error of opening `attr` for the calling thread.
#[track_caller]
fn refusal(attr: Attr) -> Error {
    open_raw(attr, (0, -1), None, OpenFlags::empty()).expect_err("this cannot be opened")
}

fn faults() -> Attr {
    let mut attr = Attr { config: Software::PAGE_FAULTS.0, ..Attr::new(EventType::SOFTWARE) };
    attr.flags = AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    attr
}

/// [`faults`], changed.
fn faults_with(change: impl FnOnce(&mut Attr)) -> Attr {
    let mut attr = faults();
    change(&mut attr);
    attr
}

#[track_caller]
fn expect(error: &Error, errno: Errno, cause: Cause) {
    assert_eq!((error.errno(), error.cause()), (errno, cause), "{error:#}");
}

/// Skips where a distribution closes perf_events to users altogether.
fn open_to_users() -> Outcome {
    let facts = Facts::gather();
    match (facts.paranoid, facts.closed_level()) {
        (Some(level), Some(closed)) if level >= closed => {
            Err(Skip::needs("perf_events for users", format_args!("kernel.perf_event_paranoid is {level}")))
        }
        _ => Ok(()),
    }
}

/// What a user is told in place of `cause` where the distribution closes the door before it.
fn or_closed(cause: Cause) -> Cause {
    if open_to_users().is_ok() { cause } else { Cause::ParanoidClosed }
}

fn needs_paranoid(above: i64) -> Outcome {
    match need::sysctl("kernel/perf_event_paranoid")? {
        level if level > above => Ok(()),
        level => Err(Skip::needs("a stricter kernel.perf_event_paranoid", format_args!("it is {level}"))),
    }
}

fn needs_kernel_refusal<T>(result: Result<T, Error>, what: &str) -> Result<Error, Skip> {
    result.err().ok_or_else(|| Skip::needs("a kernel that refuses", format_args!("this one allows {what}")))
}

fn no_pmu() -> Outcome {
    need::no_hardware_pmu()?;
    for event in [Hardware::CPU_CYCLES, Hardware::BRANCH_MISSES] {
        let error = Counter::new(event).expect_err("there is no PMU");
        if error.errno() == Errno::EACCES {
            return open_to_users();
        }
        expect(&error, Errno::ENOENT, Cause::NoHardwarePmu);
        assert!(error.is_unsupported() && !error.is_permission());
        assert!(!format!("{error:#}").contains("sysctl kernel"), "{error:#}");
    }
    Ok(())
}

fn a_user_and_the_kernel() -> Outcome {
    needs_paranoid(1)?;
    Sandbox::new().unprivileged().within("a_user_and_the_kernel", || {
        let error = Builder::new(Software::PAGE_FAULTS).user_and_kernel().open().expect_err("paranoid");
        expect(&error, Errno::EACCES, or_closed(Cause::ParanoidKernel));
        assert!(error.is_permission());
        let remedies = &error.diagnosis().remedies;
        assert!(remedies.iter().any(|r| r.ends_with("sysctl kernel.perf_event_paranoid=1")), "{error:#}");
        open_to_users()?;
        // The first remedy works.
        assert!(remedies[0].contains(":u"), "{error:#}");
        Builder::new(Software::PAGE_FAULTS).user_only().open().expect("user space of one's own");
        Ok(())
    })
}

fn a_user_and_a_whole_cpu() -> Outcome {
    needs_paranoid(0)?;
    Sandbox::new().unprivileged().within("a_user_and_a_whole_cpu", || {
        let builder = Builder::new(Software::PAGE_FAULTS).user_only().target(Target::cpu(0));
        let error = builder.open().expect_err("paranoid");
        expect(&error, Errno::EACCES, or_closed(Cause::ParanoidCpuWide));
        let remedies = &error.diagnosis().remedies;
        assert!(remedies.iter().any(|r| r.ends_with("sysctl kernel.perf_event_paranoid=0")), "{error:#}");
        Ok(())
    })
}

fn a_user_and_somebody_elses_process() -> Outcome {
    Sandbox::new().unprivileged().within("a_user_and_somebody_elses_process", || {
        use std::os::unix::fs::MetadataExt;
        if std::fs::metadata("/proc/1").map_or(1, |init| init.uid()) != 0 {
            return Err(Skip::needs("a process of root", "process 1 is none"));
        }
        let builder = Builder::new(Software::PAGE_FAULTS).user_only().target(Target::thread(1));
        let error = builder.open().expect_err("root's process");
        expect(&error, Errno::EACCES, or_closed(Cause::ForeignTask));
        if error.cause() == Cause::ForeignTask {
            assert!(error.to_string().contains("belongs to uid 0"), "{error:#}");
        }
        Ok(())
    })
}

fn a_user_and_probes() -> Outcome {
    Sandbox::new().unprivileged().within("a_user_and_probes", || {
        let facts = Facts::gather();
        let pmu = facts.pmu_named("uprobe").ok_or_else(|| Skip::needs("uprobes", "no such PMU"))?;
        let mut attr = Attr::new(EventType(pmu.type_));
        attr.flags = AttrFlags::EXCLUDE_KERNEL;
        let error = refusal(attr);
        expect(&error, Errno::EACCES, or_closed(Cause::PrivilegedFeature));
        if open_to_users().is_ok() {
            assert!(!format!("{error:#}").contains("sysctl kernel"), "no level allows probes: {error:#}");
        }
        Ok(())
    })
}

fn a_user_and_raw_tracepoint_data() -> Outcome {
    needs_paranoid(-1)?;
    Sandbox::new().unprivileged().within("a_user_and_raw_tracepoint_data", || {
        open_to_users()?;
        // Users cannot look ids up, but they can count tracepoints.
        let attr = |id| Attr { type_: EventType::TRACEPOINT, config: id, ..faults() };
        let known = |id: &u64| open_raw(attr(*id), (0, -1), None, OpenFlags::empty()).is_ok();
        let id =
            (1..5000).find(known).ok_or_else(|| Skip::needs("tracepoints", "no id below 5000 is one"))?;
        let mut raw = attr(id);
        raw.sample_type = SampleType::RAW;
        raw.set_period(1);
        expect(&refusal(raw), Errno::EPERM, Cause::ParanoidTracepoint);
        Ok(())
    })
}

fn a_user_and_the_tracing_file_system() -> Outcome {
    need::root()?;
    need::tracefs()?;
    let unknown = Event::tracepoint("sched:sched_swich").expect_err("misspelt");
    expect(&unknown, Errno::ENOENT, Cause::UnknownTracepoint);
    Sandbox::new().unprivileged().within("a_user_and_the_tracing_file_system", || {
        let error = Event::tracepoint("sched:sched_switch");
        let error = needs_kernel_refusal(error, "users to read the tracing file system")?;
        expect(&error, Errno::EACCES, Cause::FilePermission);
        Ok(())
    })
}

fn refused_by_a_filter(test: &str, errno: Errno) -> Outcome {
    Sandbox::new().refusing_perf_event_open(errno.0).within(test, || {
        for error in [
            Counter::new(Software::PAGE_FAULTS).expect_err("refused"),
            Counter::new(Hardware::CPU_CYCLES).expect_err("refused"),
            Builder::new(Software::TASK_CLOCK).target(Target::cpu(0)).open().expect_err("refused"),
        ] {
            expect(&error, errno, Cause::Seccomp);
            assert!(error.is_permission());
            assert!(!format!("{error:#}").contains("sysctl kernel"), "no sysctl helps: {error:#}");
        }
        Ok(())
    })
}

fn a_seccomp_filter_with_eperm() -> Outcome {
    refused_by_a_filter("a_seccomp_filter_with_eperm", Errno::EPERM)
}

fn a_seccomp_filter_with_enosys() -> Outcome {
    refused_by_a_filter("a_seccomp_filter_with_enosys", Errno::ENOSYS)
}

fn too_many_descriptors() -> Outcome {
    Sandbox::new().open_files(32).within("too_many_descriptors", || {
        let mut counters = Vec::new();
        let error = loop {
            match Builder::new(Software::DUMMY).user_only().open() {
                Ok(counter) => counters.push(counter),
                Err(error) => break error,
            }
            assert!(counters.len() < 32, "the limit does not hold");
        };
        if error.errno() == Errno::EACCES {
            return open_to_users();
        }
        expect(&error, Errno::EMFILE, Cause::OpenFiles);
        assert!(error.to_string().contains("limit 32"), "{error:#}");
        assert_eq!(error.cause().kind(), Kind::Limit);
        Ok(())
    })
}

fn rings_beyond_the_locked_memory() -> Outcome {
    needs_paranoid(-1)?;
    Sandbox::new().unprivileged().locked_bytes(64 << 10).within("rings_beyond_the_locked_memory", || {
        open_to_users()?;
        let facts = Facts::gather();
        let share = facts.ring_share_bytes().ok_or_else(|| Skip::needs("perf_event_mlock_kb", "unknown"))?;
        let pages = (share as usize / facts.page_bytes * 2).next_power_of_two();
        let event = Builder::new(Software::CPU_CLOCK).user_only().period(1_000_000);
        let error =
            Sampler::builder().event(event).exactly_pages(pages).open().expect_err("beyond the limit");
        expect(&error, Errno::EPERM, Cause::LockedMemory);
        let text = error.to_string();
        let asked = format!("{} KiB of locked memory", (pages + 1) * facts.page_bytes / 1024);
        for number in [asked, format!("{} KiB per user", share / 1024), "64 KiB per process".to_owned()] {
            assert!(text.contains(&number), "{number}: {text}");
        }
        Ok(())
    })
}

fn arguments_that_contradict_each_other() -> Outcome {
    usable()?;
    for attr in [
        faults_with(|a| a.flags |= AttrFlags::SIGTRAP),
        faults_with(|a| a.flags |= AttrFlags::INHERIT_THREAD),
        faults_with(|a| a.flags |= AttrFlags::REMOVE_ON_EXEC | AttrFlags::ENABLE_ON_EXEC),
        faults_with(|a| a.sample_type = SampleType::WEIGHT | SampleType::WEIGHT_STRUCT),
        faults_with(|a| a.sample_type = SampleType::BRANCH_STACK),
        faults_with(|a| a.sample_type = SampleType::REGS_USER),
        faults_with(|a| {
            a.flags |= AttrFlags::INHERIT;
            a.sample_type = SampleType::READ;
        }),
    ] {
        let error = refusal(attr);
        // On an older kernel the newer flag is the first obstacle.
        if error.cause() != Cause::TooNew {
            expect(&error, Errno::EINVAL, Cause::Contradiction);
        }
    }
    let stack = |a: &mut Attr| {
        a.sample_type = SampleType::STACK_USER;
        a.sample_stack_user = 12;
    };
    expect(&refusal(faults_with(stack)), Errno::EINVAL, Cause::OutOfRange);
    expect(&refusal(faults_with(|a| a.sample_period = 1 << 63)), Errno::EINVAL, Cause::OutOfRange);
    let clock = |a: &mut Attr| {
        a.flags |= AttrFlags::USE_CLOCKID;
        a.clockid = 2;
    };
    expect(&refusal(faults_with(clock)), Errno::EINVAL, Cause::Clock);
    Ok(())
}

/// Skips where not even one's own page faults may be counted.
fn usable() -> Outcome {
    match open_raw(faults(), (0, -1), None, OpenFlags::empty()) {
        Ok(_) => Ok(()),
        Err(error) => Err(Skip::needs("perf_events", error)),
    }
}

fn bits_without_a_meaning() -> Outcome {
    usable()?;
    for attr in [
        faults_with(|a| a.flags |= AttrFlags::from_bits_retain(1 << 60)),
        faults_with(|a| a.sample_type = SampleType::from_bits_retain(1 << 40)),
        faults_with(|a| a.read_format = ReadFormat::from_bits_retain(1 << 20)),
        faults_with(|a| a.reserved_2 = 1),
        faults_with(|a| {
            a.sample_type = SampleType::BRANCH_STACK;
            a.branch_sample_type = BranchSampleType::from_bits_retain(1 << 40);
        }),
    ] {
        expect(&refusal(attr), Errno::EINVAL, Cause::UnknownBits);
    }
    let flags = OpenFlags::from_bits_retain(1 << 9);
    let error = open_raw(faults(), (0, -1), None, flags).expect_err("no such flag");
    expect(&error, Errno::EINVAL, Cause::UnknownBits);
    Ok(())
}

fn a_frequency_above_the_limit() -> Outcome {
    usable()?;
    let limit = need::sysctl("kernel/perf_event_max_sample_rate")?;
    let error = refusal(faults_with(|a| a.set_sample_freq(limit as u64 + 1)));
    expect(&error, Errno::EINVAL, Cause::SampleRate);
    assert!(error.to_string().contains(&limit.to_string()), "{error:#}");
    Ok(())
}

fn targets_that_do_not_exist() -> Outcome {
    usable()?;
    let at = |pid, cpu, flags| open_raw(faults(), (pid, cpu), None, flags).expect_err("no such target");
    expect(&at(-1, -1, OpenFlags::empty()), Errno::EINVAL, Cause::NoTarget);
    let cpus =
        Facts::gather().possible_cpus.ok_or_else(|| Skip::needs("a list of cpus", "sysfs has none"))?;
    expect(&at(0, cpus as i32, OpenFlags::empty()), Errno::EINVAL, Cause::NoSuchCpu);
    let file = File::open("/dev/null").expect("/dev/null");
    expect(&at(file.as_raw_fd(), -1, OpenFlags::PID_CGROUP), Errno::EINVAL, Cause::NoTarget);
    Ok(())
}

fn members_that_do_not_go_with_their_leader() -> Outcome {
    usable()?;
    let open = |attr: Attr, leader| open_raw(attr, (0, -1), leader, OpenFlags::empty());
    let leader = open(faults(), None).expect("page faults");
    for attr in [
        faults_with(|a| a.flags |= AttrFlags::INHERIT),
        faults_with(|a| a.flags |= AttrFlags::PINNED),
        faults_with(|a| {
            a.flags |= AttrFlags::USE_CLOCKID;
            a.clockid = 1;
        }),
    ] {
        let error = open(attr, Some(leader.as_fd())).expect_err("they differ");
        expect(&error, Errno::EINVAL, Cause::Group);
    }
    // What is wrong with the event itself is told first.
    let wrong = faults_with(|a| a.flags |= AttrFlags::SIGTRAP | AttrFlags::INHERIT);
    let error = open(wrong, Some(leader.as_fd())).expect_err("sigtrap");
    assert_ne!(error.cause(), Cause::Group, "{error:#}");
    Ok(())
}

/// An event that watches memory, or what the machine has against it.
fn watch(bp_type: Breakpoint, addr: u64, len: u64) -> Attr {
    let mut attr = Attr { bp_type, config1: addr, config2: len, ..Attr::new(EventType::BREAKPOINT) };
    attr.flags = AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    attr
}

fn needs_breakpoints() -> Outcome {
    usable()?;
    match open_raw(watch(Breakpoint::W, 0x1000, 8), (0, -1), None, OpenFlags::empty()) {
        Ok(_) => Ok(()),
        Err(error) => Err(Skip::needs("breakpoints", error)),
    }
}

fn breakpoints_of_the_wrong_shape() -> Outcome {
    needs_breakpoints()?;
    let nothing = refusal(watch(Breakpoint::EMPTY, 0x1000, 8));
    expect(&nothing, Errno::EINVAL, Cause::BreakpointShape);
    if cfg!(target_arch = "x86_64") {
        for attr in [
            watch(Breakpoint::W, 0x1000, 3),
            watch(Breakpoint::W, 0x1001, 4),
            watch(Breakpoint::R, 0x1000, 4),
            watch(Breakpoint::X, 0x1000, 4),
        ] {
            expect(&refusal(attr), Errno::EINVAL, Cause::BreakpointShape);
        }
    }
    Ok(())
}

fn more_breakpoints_than_registers() -> Outcome {
    needs_breakpoints()?;
    let mut open = Vec::new();
    let error = loop {
        match open_raw(watch(Breakpoint::W, 0x1000, 8), (0, -1), None, OpenFlags::empty()) {
            Ok(fd) => open.push(fd),
            Err(error) => break error,
        }
        assert!(open.len() <= 16, "no processor has that many");
    };
    drop(open);
    expect(&error, Errno::ENOSPC, Cause::BreakpointSlots);
    assert_eq!(error.cause().kind(), Kind::Busy);
    Ok(())
}

fn fields_newer_than_the_kernel() -> Outcome {
    usable()?;
    let attr = faults_with(|a| a.config4 = 1);
    match open_raw(attr, (0, -1), None, OpenFlags::empty()) {
        Ok(_) => return Err(Skip::needs("an older kernel", "this one knows config4")),
        Err(error) => {
            expect(&error, Errno::E2BIG, Cause::TooNew);
            assert!(error.to_string().contains("config4 came with"), "{error:#}");
            assert!(error.is_unsupported());
        }
    }
    let deferred = faults_with(|a| a.flags |= AttrFlags::DEFER_CALLCHAIN);
    expect(&refusal(deferred), Errno::EINVAL, Cause::TooNew);
    Ok(())
}

fn threads_that_are_gone() -> Outcome {
    usable()?;
    let running = Command::new("true").hold().and_then(|held| held.release()).expect("true runs");
    let pid = running.pid();
    let of = |pid| open_raw(faults(), (pid, -1), None, OpenFlags::empty()).expect_err("it has ended");
    running.wait().expect("it ends");
    expect(&of(pid as i32), Errno::ESRCH, Cause::NoSuchTask);
    assert!(of(-2).is_gone());
    Ok(())
}

fn descriptors_of_something_else() -> Outcome {
    usable()?;
    let null = File::open("/dev/null").expect("/dev/null");
    let error = open_raw(faults(), (0, -1), Some(null.as_fd()), OpenFlags::empty()).expect_err("no leader");
    expect(&error, Errno::EBADF, Cause::NotAnEvent);
    let root = File::open("/").expect("the root directory");
    let error = open_raw(faults(), (root.as_raw_fd(), 0), None, OpenFlags::PID_CGROUP);
    expect(&error.expect_err("no cgroup"), Errno::EBADF, Cause::NotACgroup);
    let error = Cgroup::open("/no/such/cgroup").expect_err("no such directory");
    expect(&error, Errno::ENOENT, Cause::NoFile);
    Ok(())
}

fn a_leader_whose_task_has_ended() -> Outcome {
    usable()?;
    let held = Command::new("true").hold().expect("true can be started");
    let target = (held.pid() as i32, -1);
    let leader = open_raw(faults(), target, None, OpenFlags::empty()).expect("a child of one's own");
    held.release().and_then(|running| running.wait()).expect("it ends");
    let member = open_raw(faults(), (0, -1), Some(leader.as_fd()), OpenFlags::empty());
    let error = member.expect_err("the leader measures another thread");
    if error.errno() == Errno::EINVAL {
        return Err(Skip::needs("a kernel that checks for it", "this one compares the threads first"));
    }
    expect(&error, Errno::ENODEV, Cause::LeaderGone);
    Ok(())
}

fn an_offline_cpu() -> Outcome {
    need::root()?;
    usable()?;
    let facts = Facts::gather();
    let online = facts.online_cpus.unwrap_or_default();
    let offline = (0..facts.possible_cpus.unwrap_or(0)).find(|cpu| !online.contains(cpu));
    let cpu = offline.ok_or_else(|| Skip::needs("a cpu that is offline", "all are online"))?;
    let error = open_raw(faults(), (-1, cpu as i32), None, OpenFlags::empty()).expect_err("offline");
    expect(&error, Errno::ENODEV, Cause::CpuOffline);
    Ok(())
}

fn pmus_and_tracepoints_that_do_not_exist() -> Outcome {
    usable()?;
    let of = |type_, config| refusal(Attr { type_, config, ..faults() });
    expect(&of(EventType(0x7fff_fff0), 0), Errno::ENOENT, Cause::UnknownPmu);
    expect(&of(EventType::SOFTWARE, 4711), Errno::ENOENT, Cause::UnknownEvent);
    let pmus = Facts::gather().pmus.unwrap_or_default();
    if !pmus.iter().any(|pmu| pmu.name == "tracepoint") {
        return Err(Skip::needs("tracepoints", "no such PMU"));
    }
    expect(&of(EventType::TRACEPOINT, 0x7fff_fff0), Errno::EINVAL, Cause::UnknownTracepoint);
    Ok(())
}

/// The type of the PMU `name`.
fn pmu(name: &str) -> Result<EventType, Skip> {
    usable()?;
    let facts = Facts::gather();
    let pmu = facts.pmu_named(name).ok_or_else(|| Skip::needs(name, "no such PMU"))?;
    Ok(EventType(pmu.type_))
}

fn a_pmu_that_cannot_exclude() -> Outcome {
    need::root()?;
    let type_ = pmu("msr")?;
    let tsc = Attr::new(type_);
    open_raw(tsc, (0, -1), None, OpenFlags::empty()).map_err(|error| Skip::needs("msr/tsc/", error))?;
    let user = Attr { flags: AttrFlags::EXCLUDE_KERNEL, ..tsc };
    expect(&refusal(user), Errno::EINVAL, Cause::NoExclude);
    let sampling = Attr { sample_period: 1000, ..tsc };
    expect(&refusal(sampling), Errno::EINVAL, Cause::NoSampling);
    Ok(())
}

fn a_pmu_that_does_not_count_threads() -> Outcome {
    need::root()?;
    let type_ = pmu("power")?;
    let energy = (1..8).map(|config| Attr { config, ..Attr::new(type_) });
    let on_cpu = |attr: &Attr| open_raw(*attr, (-1, 0), None, OpenFlags::empty()).is_ok();
    let attr = energy.into_iter().find(on_cpu);
    let attr = attr.ok_or_else(|| Skip::needs("power/energy-*/", "the processor has none of them"))?;
    let error = refusal(attr);
    expect(&error, Errno::EINVAL, Cause::NotPerTask);
    Ok(())
}

fn branches_of_a_software_event() -> Outcome {
    usable()?;
    let error = refusal(faults_with(|a| {
        a.sample_type = SampleType::BRANCH_STACK;
        a.branch_sample_type = BranchSampleType::ANY | BranchSampleType::USER;
        a.set_period(1);
    }));
    expect(&error, Errno::EOPNOTSUPP, Cause::NoBranchStack);
    Ok(())
}

fn callchains_deeper_than_allowed() -> Outcome {
    usable()?;
    let limit = need::sysctl("kernel/perf_event_max_stack")?;
    if limit >= 65535 {
        return Err(Skip::needs("a limit of callchains", format_args!("it is {limit}")));
    }
    let error = refusal(faults_with(|a| {
        a.sample_type = SampleType::CALLCHAIN;
        a.flags |= AttrFlags::EXCLUDE_CALLCHAIN_KERNEL;
        a.sample_max_stack = u16::MAX;
        a.set_period(1);
    }));
    expect(&error, Errno::EOVERFLOW, Cause::StackDepth);
    assert!(error.to_string().contains(&format!("is {limit}")), "{error:#}");
    Ok(())
}

fn a_member_added_after_a_fork() -> Outcome {
    usable()?;
    let builder = |event| Builder::new(event).user_only().inherit(Inherit::All);
    // An event that is not inherited keeps the contexts of parent and child apart (rule D20): swapped,
    // the leader would be the child's, and another member an EINVAL.
    let _apart = Builder::new(Software::DUMMY).user_only().open().expect("a dummy");
    let mut group = Group::new();
    group.add_built(builder(Software::PAGE_FAULTS)).expect("a leader");
    let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().expect("sleep runs");
    let added = group.add_built(builder(Software::CONTEXT_SWITCHES));
    let result = added.and_then(|_| group.read());
    sleeper.kill().and_then(|()| sleeper.wait()).expect("it can be ended");
    let error = needs_kernel_refusal(result, "groups that differ from their children's")?;
    expect(&error, Errno::ECHILD, Cause::GroupChanged);
    Ok(())
}

fn calls_for_sampling_events_only() -> Outcome {
    usable()?;
    let mut counter = Builder::new(Software::PAGE_FAULTS).user_only().open().expect("page faults");
    expect(&counter.refresh(1).expect_err("it only counts"), Errno::EINVAL, Cause::NotSampling);
    expect(&counter.set_period(1).expect_err("it only counts"), Errno::EINVAL, Cause::NotSampling);
    expect(&counter.set_filter("pid == 1").expect_err("no tracepoint"), Errno::EINVAL, Cause::Filter);
    expect(&counter.pause_output(true).expect_err("no ring"), Errno::EINVAL, Cause::Redirection);
    let moved = counter.move_breakpoint(Breakpoint::W, 0x1000, 8);
    expect(&moved.expect_err("no breakpoint"), Errno::EOPNOTSUPP, Cause::Contradiction);
    Ok(())
}

fn rings_that_cannot_be() -> Outcome {
    usable()?;
    let event = Builder::new(Software::PAGE_FAULTS).user_only().period(1);
    let inherited = Sampler::builder().event(event.clone().inherit(Inherit::All)).open();
    expect(&inherited.expect_err("no cpu"), Errno::EINVAL, Cause::RingInherit);
    // The library rounds sizes up; the kernel does not.
    let fd = open_raw(event.attr(), (0, -1), None, OpenFlags::empty()).expect("page faults");
    let bytes = 6 * perfuse_sys::page_size();
    let refused = perfuse_sys::Mapping::new(fd.as_fd(), bytes, perfuse_sys::Protection::ReadWrite, 0);
    let call = Call::Mmap { bytes, offset: 0 };
    let error = Error::new(call, refused.expect_err("five data pages"));
    expect(&error, Errno::EINVAL, Cause::RingSize);
    Ok(())
}

fn programs_that_do_not_run() -> Outcome {
    let run = |program: &str| {
        Command::new(program).hold().and_then(|held| held.release()).expect_err("it does not run")
    };
    // EACCES where a folder of the PATH is closed to this user.
    assert_eq!(run("no-such-program-as-this").cause(), Cause::NoProgram);
    expect(&run("/proc/self/no-such-file"), Errno::ENOENT, Cause::NoProgram);
    expect(&run("/proc/version"), Errno::EACCES, Cause::NotExecutable);
    expect(&run("/proc"), Errno::EACCES, Cause::NotExecutable);
    Ok(())
}

fn an_error_in_words() -> Outcome {
    usable()?;
    let error = refusal(faults_with(|a| a.flags |= AttrFlags::INHERIT_THREAD));
    assert_eq!(
        error.to_string(),
        "cannot open page-faults:u for this thread: inherit_thread without inherit (EINVAL)"
    );
    assert_eq!(format!("{error:#}"), format!("{error}\n  → set inherit too"));
    let Call::Open { attr, pid: 0, cpu: -1, grouped: false, .. } = error.call() else {
        panic!("the call is kept")
    };
    assert!(attr.flags.contains(AttrFlags::INHERIT_THREAD));
    let io = std::io::Error::from(error.clone());
    assert_eq!((io.kind(), io.to_string()), (std::io::ErrorKind::InvalidInput, error.to_string()));
    Ok(())
}
