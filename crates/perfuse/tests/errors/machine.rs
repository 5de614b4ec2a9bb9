//! Things that are missing: kernels too old, threads that are gone, PMUs that cannot.

use super::*;

pub(super) fn no_pmu() -> Outcome {
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
    // In a set each event has an error of its own, though only the first one is looked into.
    let events = [Hardware::CPU_CYCLES, Hardware::INSTRUCTIONS];
    let events = events.map(|event| Builder::new(event).user_only().into());
    let set = CounterSet::open(&Scope::threads(&[0]), &events).expect("a set opens all the same");
    let errors = [0, 1].map(|event| set.error(event).expect("there is no PMU"));
    errors.iter().for_each(|error| expect(error, Errno::ENOENT, Cause::NoHardwarePmu));
    assert_eq!(errors[0].diagnosis(), errors[1].diagnosis());
    let attempts = errors.map(Error::attempt);
    assert_eq!(
        attempts,
        ["cannot open cycles:u for this thread", "cannot open instructions:u for this thread"]
    );
    Ok(())
}

pub(super) fn fields_newer_than_the_kernel() -> Outcome {
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

pub(super) fn threads_that_are_gone() -> Outcome {
    usable()?;
    let running = Command::new("true").hold().and_then(|held| held.release()).expect("true runs");
    let pid = running.pid();
    let of = |pid| open_raw(faults(), (pid, -1), None, OpenFlags::empty()).expect_err("it has ended");
    running.wait().expect("it ends");
    expect(&of(pid as i32), Errno::ESRCH, Cause::NoSuchTask);
    assert!(of(-2).is_gone());
    Ok(())
}

pub(super) fn descriptors_of_something_else() -> Outcome {
    usable()?;
    let null = File::open("/dev/null").expect("/dev/null");
    let error = open_raw(faults(), (0, -1), Some((null.as_fd(), faults())), OpenFlags::empty())
        .expect_err("no leader");
    expect(&error, Errno::EBADF, Cause::NotAnEvent);
    let root = File::open("/").expect("the root directory");
    let error = open_raw(faults(), (root.as_raw_fd(), 0), None, OpenFlags::PID_CGROUP);
    expect(&error.expect_err("no cgroup"), Errno::EBADF, Cause::NotACgroup);
    let error = Cgroup::open("/no/such/cgroup").expect_err("no such directory");
    expect(&error, Errno::ENOENT, Cause::NoFile);
    Ok(())
}

pub(super) fn a_leader_whose_task_has_ended() -> Outcome {
    usable()?;
    let held = Command::new("true").hold().expect("true can be started");
    let target = (held.pid() as i32, -1);
    let leader = open_raw(faults(), target, None, OpenFlags::empty()).expect("a child of one's own");
    held.release().and_then(|running| running.wait()).expect("it ends");
    let member = open_raw(faults(), (0, -1), Some((leader.as_fd(), faults())), OpenFlags::empty());
    let error = member.expect_err("the leader measures another thread");
    if error.errno() == Errno::EINVAL {
        return Err(Skip::needs("a kernel that checks for it", "this one compares the threads first"));
    }
    expect(&error, Errno::ENODEV, Cause::LeaderGone);
    Ok(())
}

pub(super) fn an_offline_cpu() -> Outcome {
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

pub(super) fn pmus_and_tracepoints_that_do_not_exist() -> Outcome {
    usable()?;
    let of = |type_, config| refusal(Attr { type_, config, ..faults() });
    expect(&of(EventType(0x7fff_fff0), 0), Errno::ENOENT, Cause::UnknownPmu);
    expect(&of(EventType::SOFTWARE, 4711), Errno::ENOENT, Cause::UnknownEvent);
    let pmus = Facts::gather().pmus.unwrap_or_default();
    if !pmus.iter().any(|pmu| pmu.name() == "tracepoint") {
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
    Ok(pmu.event_type())
}

pub(super) fn a_pmu_that_cannot_exclude() -> Outcome {
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

pub(super) fn a_pmu_that_does_not_count_threads() -> Outcome {
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

pub(super) fn branches_of_a_software_event() -> Outcome {
    usable()?;
    let error = refusal(faults_with(|a| {
        a.sample_type = SampleType::BRANCH_STACK;
        a.branch_sample_type = BranchSampleType::ANY | BranchSampleType::USER;
        a.set_period(1);
    }));
    expect(&error, Errno::EOPNOTSUPP, Cause::NoBranchStack);
    Ok(())
}

pub(super) fn callchains_deeper_than_allowed() -> Outcome {
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

pub(super) fn a_member_added_after_a_fork() -> Outcome {
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

pub(super) fn calls_for_sampling_events_only() -> Outcome {
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

pub(super) fn rings_that_cannot_be() -> Outcome {
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

pub(super) fn programs_that_do_not_run() -> Outcome {
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

pub(super) fn an_error_in_words() -> Outcome {
    usable()?;
    let error = refusal(faults_with(|a| a.flags |= AttrFlags::INHERIT_THREAD));
    assert_eq!(
        error.to_string(),
        "cannot open page-faults:u for this thread: inherit_thread without inherit (EINVAL)"
    );
    assert_eq!(format!("{error:#}"), format!("{error}\n  → set inherit too"));
    let Call::Open { attr, pid: 0, cpu: -1, leader: None, .. } = error.call() else {
        panic!("the call is kept")
    };
    assert!(attr.flags.contains(AttrFlags::INHERIT_THREAD));
    let io = std::io::Error::from(error.clone());
    assert_eq!((io.kind(), io.to_string()), (std::io::ErrorKind::InvalidInput, error.to_string()));
    Ok(())
}
