//! Impossible requests: attrs and arguments that contradict themselves or the rules.

use super::*;

pub(super) fn arguments_that_contradict_each_other() -> Outcome {
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

pub(super) fn bits_without_a_meaning() -> Outcome {
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

pub(super) fn a_frequency_above_the_limit() -> Outcome {
    usable()?;
    let limit = need::sysctl("kernel/perf_event_max_sample_rate")?;
    let error = refusal(faults_with(|a| a.set_sample_freq(limit as u64 + 1)));
    expect(&error, Errno::EINVAL, Cause::SampleRate);
    assert!(error.to_string().contains(&limit.to_string()), "{error:#}");
    Ok(())
}

pub(super) fn targets_that_do_not_exist() -> Outcome {
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

pub(super) fn members_that_do_not_go_with_their_leader() -> Outcome {
    usable()?;
    let open = |attr: Attr, leader| open_raw(attr, (0, -1), leader, OpenFlags::empty());
    let leader = open(faults(), None).expect("page faults");
    for (attr, words) in [
        (faults_with(|a| a.flags |= AttrFlags::INHERIT), "is inherited and its leader is not"),
        (faults_with(|a| a.flags |= AttrFlags::PINNED), "pinned"),
        (
            faults_with(|a| {
                a.flags |= AttrFlags::USE_CLOCKID;
                a.clockid = 1;
            }),
            "clocks",
        ),
    ] {
        let error = open(attr, Some((leader.as_fd(), faults()))).expect_err("they differ");
        expect(&error, Errno::EINVAL, Cause::Group);
        assert!(error.diagnosis().explanation.contains(words), "{error:#}");
    }
    // Faults of the event itself are told first.
    let wrong = faults_with(|a| a.flags |= AttrFlags::SIGTRAP | AttrFlags::INHERIT);
    let error = open(wrong, Some((leader.as_fd(), faults()))).expect_err("sigtrap");
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

pub(super) fn breakpoints_of_the_wrong_shape() -> Outcome {
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

pub(super) fn more_breakpoints_than_registers() -> Outcome {
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
