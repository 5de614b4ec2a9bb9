//! `perf_event_open(2)`, check by check (section B).

use crate::machine::{Counters, ME, Machine, attr, software, with};
use perfuse_engine::abi::regs::Arch;
use perfuse_engine::abi::{
    Attr, AttrFlags, AuxAction, Breakpoint, Errno, EventType, OpenFlags, ReadFormat, SampleType, Software,
};
use perfuse_engine::{
    CgroupId, Config, Engine, Ioctl, OpenArguments, PmuCaps, PmuInfo, SecurityStep, Sysctl, TaskContext,
    TaskFacts, TaskId,
};

fn faults() -> Attr {
    software(Software::PAGE_FAULTS)
}

fn on(pid: i32, cpu: i32) -> OpenArguments {
    OpenArguments { pid, cpu, ..OpenArguments::default() }
}

fn of_cgroup(fd: i32, cpu: i32) -> OpenArguments {
    OpenArguments { pid: fd, cpu, flags: OpenFlags::PID_CGROUP, ..OpenArguments::default() }
}

/// A PMU with one counter, of type 50, with these properties.
fn special(caps: PmuCaps, context: TaskContext) -> Box<Counters> {
    let info = PmuInfo { type_: Some(EventType(50)), caps, context, ..PmuInfo::hardware("special") };
    let mut counters = Counters::new(4);
    counters.info = info;
    Box::new(counters)
}

fn with_special(caps: PmuCaps) -> Machine {
    let mut machine = Machine::new(2);
    machine.engine.register(special(caps, TaskContext::Hardware)).unwrap();
    machine
}

/// Rule B1: flags come before everything.
#[test]
fn unknown_flags_are_refused_before_the_attr_is_read() {
    let mut machine = Machine::new(1);
    let flags = OpenFlags::from_bits_retain(16);
    let arguments = OpenArguments { flags, ..OpenArguments::default() };
    assert_eq!(machine.open_bytes(ME, &mut Vec::new(), arguments), Err(Errno::EINVAL));
    assert_eq!(machine.open_bytes(ME, &mut Vec::new(), OpenArguments::default()), Err(Errno::EFAULT));
}

/// Rules B3, B22, E1: a refusal of a security module is passed on.
#[test]
fn security_modules_are_asked() {
    let mut machine = Machine::new(1);
    for step in [SecurityStep::Open, SecurityStep::Kernel, SecurityStep::Alloc] {
        machine.world.refused = Some(step);
        assert_eq!(machine.refusal(&faults()), Some(Errno::EPERM), "{step:?}");
    }
    machine.world.refused = Some(SecurityStep::Cpu);
    assert_eq!(machine.refusal(&faults()), None);
    assert_eq!(machine.wide(&faults(), 0), Err(Errno::EPERM));
}

/// Rule B4: the kernel is for users with the right to look at it.
#[test]
fn counting_the_kernel_needs_permission() {
    let mut machine = Machine::new(1);
    machine.world.privileged = false;
    for level in ["2", "3", "4"] {
        machine.sysctl(Sysctl::PerfEventParanoid, level);
        assert_eq!(machine.refusal(&faults()), Some(Errno::EACCES));
        assert_eq!(machine.refusal(&with(faults(), AttrFlags::EXCLUDE_KERNEL)), None);
    }
    machine.sysctl(Sysctl::PerfEventParanoid, "1");
    assert_eq!(machine.refusal(&faults()), None);
}

/// Rules B5, B7: namespaces need privilege at every level, physical addresses as much as the kernel.
#[test]
fn namespaces_and_physical_addresses_need_privilege() {
    let mut machine = Machine::new(1);
    machine.world.privileged = false;
    machine.sysctl(Sysctl::PerfEventParanoid, "-1");
    let namespaces = with(faults(), AttrFlags::NAMESPACES);
    assert_eq!(machine.refusal(&namespaces), Some(Errno::EACCES));
    let mut physical = with(faults(), AttrFlags::EXCLUDE_KERNEL);
    physical.sample_type = SampleType::PHYS_ADDR;
    assert_eq!(machine.refusal(&physical), None);
    machine.sysctl(Sysctl::PerfEventParanoid, "2");
    assert_eq!(machine.refusal(&physical), Some(Errno::EACCES));
}

/// Rule B6: frequencies have a limit, periods have 63 bits.
#[test]
fn frequencies_and_periods_have_limits() {
    let mut machine = Machine::new(1);
    let mut asked = with(faults(), AttrFlags::FREQ);
    for (frequency, errno) in [(0, None), (100_000, None), (100_001, Some(Errno::EINVAL))] {
        asked.sample_period = frequency;
        assert_eq!(machine.refusal(&asked), errno, "{frequency}");
    }
    let mut asked = faults();
    asked.sample_period = 1 << 63;
    assert_eq!(machine.refusal(&asked), Some(Errno::EINVAL));
    asked.sample_period -= 1;
    assert_eq!(machine.refusal(&asked), None);
}

/// Rule B8: lockdown hides registers.
#[test]
fn lockdown_hides_registers() {
    let mut machine = Machine::new(1);
    machine.world.refused = Some(SecurityStep::Registers);
    let mut asked = faults();
    assert_eq!(machine.refusal(&asked), None);
    (asked.sample_type, asked.sample_regs_intr) = (SampleType::REGS_INTR, 1);
    assert_eq!(machine.refusal(&asked), Some(Errno::EPERM));
}

/// Rules B9, B19: cgroups need a cpu, and a directory.
#[test]
fn cgroups_are_given_by_their_directory() {
    let mut machine = Machine::new(2);
    machine.engine.add_cgroup(CgroupId(2), CgroupId(1));
    machine.world.cgroups.insert(7, CgroupId(2));
    machine.world.cgroups.insert(8, CgroupId(1));
    for arguments in [of_cgroup(-1, 0), of_cgroup(7, -1)] {
        assert_eq!(machine.open(&faults(), arguments), Err(Errno::EINVAL));
    }
    assert_eq!(machine.open(&faults(), of_cgroup(9, 0)), Err(Errno::EBADF));
    let leader = machine.open(&faults(), of_cgroup(7, 0)).unwrap();
    let other = OpenArguments { group_fd: leader, ..of_cgroup(8, 0) };
    assert_eq!(machine.open(&faults(), other), Err(Errno::EINVAL));
    let plain = OpenArguments { group_fd: leader, ..on(-1, 0) };
    assert!(machine.open(&faults(), plain).is_ok());
}

/// Rules B10, B11, B12: descriptors first, then the group, then the task.
#[test]
fn descriptors_groups_and_tasks_are_looked_at_in_this_order() {
    let mut machine = Machine::new(1);
    machine.world.out_of_descriptors = true;
    let wrong = OpenArguments { pid: 12345, group_fd: 99, ..OpenArguments::default() };
    assert_eq!(machine.open(&faults(), wrong), Err(Errno::EMFILE));
    machine.world.out_of_descriptors = false;
    assert_eq!(machine.open(&faults(), wrong), Err(Errno::EBADF));
    assert_eq!(machine.open(&faults(), OpenArguments { group_fd: -2, ..wrong }), Err(Errno::EBADF));
    for pid in [12345, -2] {
        assert_eq!(machine.open(&faults(), on(pid, 100)), Err(Errno::ESRCH));
    }
    // Without a group, its flags mean nothing.
    let flags = OpenFlags::FD_NO_GROUP | OpenFlags::FD_OUTPUT;
    assert!(machine.open(&faults(), OpenArguments { flags, ..OpenArguments::default() }).is_ok());
    // The task of the leader is gone.
    let task = machine.task(200);
    let leader = machine.open(&faults(), on(200, -1)).unwrap();
    machine.exit(task);
    for flags in [OpenFlags::empty(), OpenFlags::FD_NO_GROUP] {
        let join = OpenArguments { group_fd: leader, flags, ..OpenArguments::default() };
        assert_eq!(machine.open(&faults(), join), Err(Errno::ENODEV));
    }
}

/// Rule B13: a task's group agrees on inheriting.
#[test]
fn a_group_agrees_on_inheriting() {
    let mut machine = Machine::new(1);
    let leader = machine.own(&faults());
    assert_eq!(machine.join(&with(faults(), AttrFlags::INHERIT), leader), Err(Errno::EINVAL));
    let leader = machine.wide(&faults(), 0).unwrap();
    let wide = OpenArguments { group_fd: leader, ..on(-1, 0) };
    assert!(machine.open(&with(faults(), AttrFlags::INHERIT), wide).is_ok());
}

/// Rules B14, Q30: which cpus there are; before the PMU is asked, which is asked before permissions.
#[test]
fn cpus_must_be_possible() {
    let mut machine = Machine::new(2);
    let nobodys = attr(EventType(99), 0);
    for cpu in [2, -2, 100] {
        assert_eq!(machine.open(&nobodys, on(0, cpu)), Err(Errno::EINVAL));
    }
    assert_eq!(machine.wide(&nobodys, -1), Err(Errno::EINVAL));
    machine.world.privileged = false;
    let nobodys = with(nobodys, AttrFlags::EXCLUDE_KERNEL);
    assert_eq!(machine.wide(&nobodys, 1), Err(Errno::ENOENT));
    assert_eq!(machine.wide(&with(faults(), AttrFlags::EXCLUDE_KERNEL), 1), Err(Errno::EACCES));
}

/// Rule B15: SIGTRAP has a thread to go to; values of inherited events are told with the thread.
#[test]
fn traps_and_values_need_a_thread() {
    let mut machine = Machine::new(1);
    let trap = with(faults(), AttrFlags::SIGTRAP | AttrFlags::REMOVE_ON_EXEC);
    assert_eq!(machine.wide(&trap, 0), Err(Errno::EINVAL));
    let mut read = with(faults(), AttrFlags::INHERIT);
    read.sample_type = SampleType::READ;
    assert_eq!(machine.refusal(&read), Some(Errno::EINVAL));
    read.sample_type |= SampleType::TID;
    assert_eq!(machine.refusal(&read), None);
}

/// Rule Q27: ids are given to events, also to those that fail later.
#[test]
fn failures_consume_ids() {
    let mut machine = Machine::new(1);
    let id = |machine: &mut Machine| {
        let fd = machine.own(&faults());
        machine.ioctl(fd, Ioctl::Id).unwrap()
    };
    let first = id(&mut machine);
    for _ in 0..5 {
        assert_eq!(machine.refusal(&attr(EventType(99), 0)), Some(Errno::ENOENT));
    }
    assert_eq!(id(&mut machine), first + 6);
    // Before there is an event there is no id.
    assert_eq!(machine.open(&faults(), on(0, 100)), Err(Errno::EINVAL));
    assert_eq!(id(&mut machine), first + 7);
}

/// Rule B16: the PMU that is responsible for a type.
#[test]
fn pmus_are_found_by_type() {
    let mut machine = Machine::new(1);
    for type_ in [EventType::HARDWARE, EventType::HW_CACHE, EventType::RAW, EventType(99)] {
        assert_eq!(machine.refusal(&attr(type_, 0)), Some(Errno::ENOENT));
    }
    // The upper half of a hardware event's config names a PMU, which must know of that.
    for key in [1, 2, 5, 0x77] {
        assert_eq!(machine.refusal(&attr(EventType::HARDWARE, key << 32)), Some(Errno::ENOENT));
    }
    assert_eq!(machine.refusal(&attr(EventType(6), 0)), None);
    assert_eq!(machine.refusal(&attr(EventType(7), 1)), None);
    machine.engine.register(Box::new(Counters::new(1))).unwrap();
    assert_eq!(machine.refusal(&attr(EventType::HARDWARE, 0)), None);
    assert_eq!(machine.refusal(&attr(EventType::RAW, 0)), None);
}

/// Rules B16, N6: the limits of PMUs.
#[test]
fn pmus_say_what_they_cannot_do() {
    let mut machine = with_special(PmuCaps { no_exclude: true, no_interrupt: true, ..PmuCaps::default() });
    let special = attr(EventType(50), 0);
    for flag in [AttrFlags::EXCLUDE_USER, AttrFlags::EXCLUDE_IDLE, AttrFlags::EXCLUDE_GUEST] {
        assert_eq!(machine.refusal(&with(special, flag)), Some(Errno::EINVAL));
    }
    // Rule B23: it cannot sample.
    assert_eq!(machine.refusal(&Attr { sample_period: 1, ..special }), Some(Errno::EOPNOTSUPP));
    let mut registers = special;
    (registers.sample_type, registers.sample_regs_user) = (SampleType::REGS_USER, 1 << 33);
    assert_eq!(machine.refusal(&registers), Some(Errno::EOPNOTSUPP));
    let mut machine = with_special(PmuCaps { extended_regs: true, ..PmuCaps::default() });
    assert_eq!(machine.refusal(&registers), None);
    assert_eq!(machine.refusal(&Attr { sample_period: 1, ..special }), None);
}

/// Rule B16: vector registers are above bit 32 on x86 alone; on arm64 that is the program counter.
#[test]
fn the_program_counter_of_arm64_is_no_vector_register() {
    let mut machine = Machine::new(1);
    let of = |arch: Arch| Config { arch, ..Config::default() };
    let program_counter = Attr {
        sample_period: 100_000,
        sample_type: SampleType::REGS_USER,
        sample_regs_user: 1 << 32,
        ..software(Software::CPU_CLOCK)
    };
    for (arch, refusal) in [(Arch::Arm64, None), (Arch::X86_64, Some(Errno::EOPNOTSUPP))] {
        machine.engine = Engine::new(of(arch));
        machine.engine.add_task(ME, TaskFacts::new(100, 100));
        assert_eq!(machine.refusal(&program_counter), refusal, "{arch:?}");
    }
}

/// Rule B17: an uncore PMU measures no tasks.
#[test]
fn uncore_pmus_measure_no_tasks() {
    let mut machine = Machine::new(1);
    machine.engine.register(special(PmuCaps::default(), TaskContext::None)).unwrap();
    machine.world.cgroups.insert(7, CgroupId(1));
    let special = attr(EventType(50), 0);
    assert_eq!(machine.refusal(&special), Some(Errno::EINVAL));
    assert_eq!(machine.open(&special, of_cgroup(7, 0)), Err(Errno::EINVAL));
    assert!(machine.wide(&special, 0).is_ok());
}

/// Rules B18, B32: flags about AUX data need a PMU that writes them.
#[test]
fn aux_belongs_to_aux() {
    let mut machine = with_special(PmuCaps { itrace: true, aux_pause: true, ..PmuCaps::default() });
    let acts = |bits| Attr { aux_action: AuxAction::from_bits_retain(bits), ..faults() };
    assert_eq!(machine.refusal(&with(faults(), AttrFlags::AUX_OUTPUT)), Some(Errno::EOPNOTSUPP));
    assert_eq!(machine.refusal(&acts(1)), Some(Errno::EOPNOTSUPP));
    assert_eq!(machine.refusal(&acts(6)), Some(Errno::EINVAL));
    assert_eq!(machine.refusal(&acts(2)), Some(Errno::EINVAL));
    let leader = machine.own(&attr(EventType(50), 0));
    assert!(machine.join(&acts(2), leader).is_ok());
    let plain = machine.own(&faults());
    assert_eq!(machine.join(&acts(2), plain), Err(Errno::EINVAL));
    assert_eq!(machine.join(&Attr { aux_sample_size: 8, ..faults() }, plain), Err(Errno::EINVAL));
    let paused = Attr { aux_action: AuxAction::START_PAUSED, ..attr(EventType(50), 0) };
    assert_eq!(machine.refusal(&paused), None);
}

/// Rules B20, B33: an exclusive PMU is either for tasks or for cpus, and for one event at a place.
#[test]
fn an_exclusive_pmu_takes_one_kind_of_events() {
    let mut machine = with_special(PmuCaps { exclusive: true, ..PmuCaps::default() });
    let special = attr(EventType(50), 0);
    let first = machine.open(&special, on(0, 0)).unwrap();
    assert_eq!(machine.wide(&special, 1), Err(Errno::EBUSY));
    assert_eq!(machine.open(&special, on(0, -1)), Err(Errno::EBUSY));
    assert!(machine.open(&special, on(0, 1)).is_ok());
    machine.task(200);
    assert!(machine.open(&special, on(200, -1)).is_ok());
    machine.close(first);
    assert!(machine.open(&special, on(0, 0)).is_ok());
}

/// Rule B24: which clocks there are depends on the PMU.
#[test]
fn clocks_depend_on_the_pmu() {
    let mut machine = Machine::new(1);
    machine.engine.declare_tracepoint(1);
    let mut breakpoint = attr(EventType::BREAKPOINT, 0);
    (breakpoint.bp_type, breakpoint.config1, breakpoint.config2) = (Breakpoint::W, 8, 8);
    for (asked, slow) in [
        (faults(), None),
        (breakpoint, Some(Errno::EINVAL)),
        (attr(EventType::TRACEPOINT, 1), Some(Errno::EINVAL)),
    ] {
        let mut clock = |clockid| {
            let fd = machine
                .open(&Attr { clockid, ..with(asked, AttrFlags::USE_CLOCKID) }, OpenArguments::default());
            fd.map(|fd| machine.close(fd)).err()
        };
        assert_eq!([1, 4].map(&mut clock), [None; 2]);
        assert_eq!([0, 7, 11].map(&mut clock), [slow; 3]);
        assert_eq!([2, 3, 12, -1].map(&mut clock), [Some(Errno::EINVAL); 4]);
    }
    assert_eq!(machine.refusal(&Attr { clockid: 12, ..faults() }), None);
}

/// Rule B25: other tasks can be measured by those who may look at them.
#[test]
fn other_tasks_need_permission() {
    let mut machine = Machine::new(1);
    (machine.world.privileged, machine.world.may_trace) = (false, false);
    machine.task(200);
    let asked = with(faults(), AttrFlags::EXCLUDE_KERNEL);
    assert_eq!(machine.open(&asked, on(200, -1)), Err(Errno::EACCES));
    assert!(machine.open(&asked, on(100, -1)).is_ok());
    machine.world.may_trace = true;
    assert!(machine.open(&asked, on(200, -1)).is_ok());
    let trap = with(asked, AttrFlags::SIGTRAP | AttrFlags::REMOVE_ON_EXEC);
    assert!(machine.open(&trap, on(200, -1)).is_ok());
}

/// Rules B26, B27: cpus need permission and must be online, tasks must live.
#[test]
fn targets_must_be_there() {
    let mut machine = Machine::new(2);
    machine.engine.cpu_offline(1, machine.now);
    assert_eq!(machine.wide(&faults(), 1), Err(Errno::ENODEV));
    assert!(machine.open(&faults(), on(0, 1)).is_ok());
    let task = machine.task(200);
    machine.exit(task);
    assert_eq!(machine.open(&faults(), on(200, -1)), Err(Errno::ESRCH));
    machine.world.privileged = false;
    let asked = with(faults(), AttrFlags::EXCLUDE_KERNEL);
    assert_eq!(machine.wide(&asked, 0), Err(Errno::EACCES));
    machine.sysctl(Sysctl::PerfEventParanoid, "0");
    assert!(machine.wide(&asked, 0).is_ok());
}

/// Rule B28: events that can be in a group.
#[test]
fn a_group_has_one_clock_cpu_and_context() {
    let mut machine = Machine::new(2);
    let leader = machine.own(&faults());
    let sibling = machine.join(&faults(), leader).unwrap();
    assert_eq!(machine.join(&faults(), sibling), Err(Errno::EINVAL));
    let clock = Attr { clockid: 1, ..with(faults(), AttrFlags::USE_CLOCKID) };
    assert_eq!(machine.join(&clock, leader), Err(Errno::EINVAL));
    machine.task(200);
    for (pid, cpu) in [(0, 0), (200, -1), (-1, 0)] {
        let arguments = OpenArguments { group_fd: leader, ..on(pid, cpu) };
        assert_eq!(machine.open(&faults(), arguments), Err(Errno::EINVAL));
    }
    for flag in [AttrFlags::PINNED, AttrFlags::EXCLUSIVE] {
        assert_eq!(machine.join(&with(faults(), flag), leader), Err(Errno::EINVAL));
    }
}

/// Rules B29, N1: a group has one hardware PMU, and must fit it.
#[test]
fn a_group_has_one_hardware_pmu() {
    let mut machine = with_special(PmuCaps::default());
    machine.engine.register(Box::new(Counters::new(2))).unwrap();
    let raw = attr(EventType::RAW, 0);
    let leader = machine.own(&raw);
    assert_eq!(machine.join(&attr(EventType(50), 0), leader), Err(Errno::EINVAL));
    machine.join(&raw, leader).unwrap();
    // Software members take no counter.
    machine.join(&faults(), leader).unwrap();
    assert_eq!(machine.join(&raw, leader), Err(Errno::EINVAL));
    // The group is moved to where the hardware is.
    let software = machine.own(&faults());
    assert!(machine.join(&raw, software).is_ok());
    assert_eq!(machine.join(&attr(EventType(50), 0), software), Err(Errno::EINVAL));
}

/// Rule B30: output goes where there is a ring.
#[test]
fn output_goes_to_a_ring() {
    let mut machine = Machine::new(1);
    let target = machine.own(&faults());
    let flags = OpenFlags::FD_OUTPUT | OpenFlags::FD_NO_GROUP;
    let arguments = OpenArguments { group_fd: target, flags, ..OpenArguments::default() };
    assert_eq!(machine.open(&faults(), arguments), Err(Errno::EINVAL));
    machine.map(target, 1);
    assert!(machine.open(&faults(), arguments).is_ok());
}

/// Rules B31, E6: one read has a limit.
#[test]
fn a_group_has_a_limited_size() {
    let mut machine = Machine::new(1);
    let mut asked = software(Software::DUMMY);
    asked.read_format = ReadFormat::from_bits_retain(31);
    let leader = machine.own(&asked);
    for _ in 0..680 {
        machine.join(&asked, leader).unwrap();
    }
    assert_eq!(machine.join(&asked, leader), Err(Errno::E2BIG));
    assert_eq!(machine.words(leader).unwrap().len(), 3 + 681 * 3);
}

/// Rules B34, C43: the event is the caller's, as long as there is a descriptor.
#[test]
fn events_outlive_who_opened_them() {
    let mut machine = Machine::new(1);
    let opener = machine.task(200);
    let fd = machine.open_as(opener, &faults(), on(100, -1)).unwrap();
    machine.exit(opener);
    machine.engine.reap(opener, machine.now);
    machine.fault(0, 2);
    assert_eq!(machine.count(fd), 2);
    assert_eq!(machine.engine.id(machine.key(fd)), Some(1));
    assert_eq!(TaskId(100), ME);
}
