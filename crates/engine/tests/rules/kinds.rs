//! Kinds of events: software, breakpoints, tracepoints, probes (section J), and what PMUs are asked (N).

use crate::machine::{Counters, KERNEL, ME, Machine, USER, attr, software, with};
use perfuse_engine::abi::regs::Arch;
use perfuse_engine::abi::{Attr, AttrFlags, Breakpoint, Errno, EventType, SampleType, Software};
use perfuse_engine::{
    CloneFlags, Config, Effect, Filter, Hit, Ioctl, OpenArguments, ProbePmu, Probes, Sysctl,
};

fn faults() -> Attr {
    software(Software::PAGE_FAULTS)
}

/// Rule J1: which there are, and what they cannot have.
#[test]
fn there_are_twelve_software_events() {
    let mut machine = Machine::new(1);
    for config in 0..12 {
        assert_eq!(machine.refusal(&attr(EventType::SOFTWARE, config)), None);
    }
    for config in [12, 1 << 32] {
        assert_eq!(machine.refusal(&attr(EventType::SOFTWARE, config)), Some(Errno::ENOENT));
    }
    let mut branches = attr(EventType::SOFTWARE, 99);
    branches.sample_type = SampleType::BRANCH_STACK;
    branches.branch_sample_type = perfuse_engine::abi::BranchSampleType::ANY;
    assert_eq!(machine.refusal(&branches), Some(Errno::EOPNOTSUPP));
}

/// Rule J2: modes that are left out are not counted.
#[test]
fn modes_are_left_out() {
    let mut machine = Machine::new(1);
    let user = machine.own(&with(faults(), AttrFlags::EXCLUDE_KERNEL));
    let kernel = machine.own(&with(faults(), AttrFlags::EXCLUDE_USER));
    for cpu_state in [USER, KERNEL, KERNEL] {
        machine.engine.software(0, machine.now, Software::PAGE_FAULTS, 1, 0, &cpu_state);
    }
    assert_eq!([user, kernel].map(|fd| machine.count(fd)), [1, 2]);
}

/// Rule J3: all that match hear of an occurrence, of the task and of the cpu.
#[test]
fn everybody_who_matches_counts() {
    let mut machine = Machine::new(2);
    machine.task(200);
    let own = [machine.own(&faults()), machine.own(&faults()), machine.wide(&faults(), 0).unwrap()];
    let others = [
        machine.open(&faults(), OpenArguments { pid: 200, ..OpenArguments::default() }).unwrap(),
        machine.wide(&faults(), 1).unwrap(),
        machine.own(&software(Software::PAGE_FAULTS_MAJ)),
        machine.own(&software(Software::DUMMY)),
    ];
    machine.fault(0, 3);
    assert_eq!(own.map(|fd| machine.count(fd)), [3; 3]);
    assert_eq!(others.map(|fd| machine.count(fd)), [0; 4]);
}

/// Rules Q19, Q20: migrations count where the task arrives; switches and migrations are the kernel's doing.
#[test]
fn switches_and_migrations_are_the_kernels() {
    let mut machine = Machine::new(2);
    let switches = machine.own(&software(Software::CONTEXT_SWITCHES));
    let hidden = machine.own(&with(software(Software::CONTEXT_SWITCHES), AttrFlags::EXCLUDE_KERNEL));
    let wide = [0, 1].map(|cpu| machine.wide(&software(Software::CPU_MIGRATIONS), cpu).unwrap());
    machine.switch(0, None);
    machine.switch(1, Some(ME));
    assert_eq!([switches, hidden].map(|fd| machine.count(fd)), [1, 0]);
    assert_eq!(wide.map(|fd| machine.count(fd)), [0, 1]);
}

fn breakpoint(kind: u32, addr: u64, len: u64) -> Attr {
    let mut asked = attr(EventType::BREAKPOINT, 0);
    (asked.bp_type, asked.config1, asked.config2) = (Breakpoint(kind), addr, len);
    asked
}

/// Rule J20: valid breakpoints, in the order of the checks.
#[test]
fn breakpoints_are_checked_in_order() {
    let mut machine = Machine::new(1);
    let mut answer = |kind, addr, len| {
        let fd = machine.open(&breakpoint(kind, addr, len), OpenArguments::default());
        fd.map(|fd| machine.close(fd)).err()
    };
    for kind in [0, 1, 5, 6, 7, 8] {
        assert_eq!(answer(kind, 8, 8), Some(Errno::EINVAL), "kind {kind}");
    }
    for len in [1, 2, 4, 8] {
        assert_eq!([2, 3].map(|kind| answer(kind, 0x1000, len)), [None; 2], "{len} bytes");
    }
    assert_eq!([3, 0, 24].map(|len| answer(2, 0x1000, len)), [Some(Errno::EINVAL); 3]);
    assert_eq!(answer(2, 0x1000, 16), Some(Errno::EOPNOTSUPP));
    assert_eq!(answer(2, 0x1001, 2), Some(Errno::EINVAL));
    assert_eq!([8, 4].map(|len| answer(4, 0x1001, len)), [None, Some(Errno::EINVAL)]);
    assert_eq!(answer(2, 0, 8), None);
    let kernel = 0xffff_8000_0000_0000;
    assert_eq!(answer(2, kernel, 8), None);
    let hidden = with(breakpoint(2, kernel, 8), AttrFlags::EXCLUDE_KERNEL);
    assert_eq!(machine.refusal(&hidden), Some(Errno::EINVAL));
    machine.world.privileged = false;
    machine.sysctl(Sysctl::PerfEventParanoid, "1");
    assert_eq!(machine.refusal(&breakpoint(2, kernel, 8)), Some(Errno::EPERM));
}

/// Rule J20 on arm64.
#[test]
fn breakpoints_of_arm64() {
    let config = Config { arch: Arch::Arm64, task_size: 1 << 48, ..Config::default() };
    let mut machine = Machine::configured(config, 100, 100);
    let mut answer = |kind, addr, len| {
        let fd = machine.open(&breakpoint(kind, addr, len), OpenArguments::default());
        fd.map(|fd| machine.close(fd)).err()
    };
    for kind in [0, 5, 6, 7, 8] {
        assert_eq!(answer(kind, 8, 8), Some(Errno::EINVAL), "kind {kind}");
    }
    for len in 1..=8 {
        assert_eq!([1, 2, 3, 4].map(|kind| answer(kind, 0x1000, len)), [None; 4], "{len} bytes");
    }
    assert_eq!([0, 9, 16].map(|len| answer(2, 0x1000, len)), [Some(Errno::EINVAL); 3]);
    assert_eq!([answer(2, 0x1006, 2), answer(2, 0x1007, 2)], [None, Some(Errno::EINVAL)]);
    assert_eq!(answer(4, 0x1002, 8), None);
    assert_eq!(answer(2, 0xffff_8000_0000_0000, 8), Some(Errno::EINVAL));
}

/// Rules J21, J22: four a cpu, from the opening to the closing; tasks do not disturb each other.
#[test]
fn there_are_four_slots() {
    let mut machine = Machine::new(2);
    let watch = with(breakpoint(2, 8, 8), AttrFlags::DISABLED);
    let fds: Vec<i32> = (0..4).map(|_| machine.own(&watch)).collect();
    assert_eq!(machine.refusal(&watch), Some(Errno::ENOSPC));
    assert_eq!(machine.refusal(&breakpoint(2, 8, 3)), Some(Errno::ENOSPC));
    assert_eq!(machine.refusal(&breakpoint(0, 8, 8)), Some(Errno::EINVAL));
    machine.task(200);
    let other = OpenArguments { pid: 200, ..OpenArguments::default() };
    let others = machine.open(&watch, other).unwrap();
    // A cpu needs room beside the task that has most.
    assert_eq!(machine.wide(&watch, 1), Err(Errno::ENOSPC));
    machine.close(fds[0]);
    assert!(machine.wide(&watch, 1).is_ok());
    assert_eq!(machine.refusal(&watch), Some(Errno::ENOSPC));
    let bound = OpenArguments { cpu: 0, ..OpenArguments::default() };
    assert!(machine.open(&watch, bound).is_ok());
    machine.close(others);
}

/// Rules J23, J25: the host is told what to watch and tells of hits; a trap has the address.
#[test]
fn hits_are_counted() {
    let mut machine = Machine::new(1);
    let mut asked = breakpoint(3, 0x5000, 4);
    asked.set_period(1);
    asked.flags = AttrFlags::SIGTRAP | AttrFlags::REMOVE_ON_EXEC | AttrFlags::EXCLUDE_KERNEL;
    let fd = machine.own(&asked);
    let key = machine.key(fd);
    let watched = machine.engine.effects().find_map(|effect| match effect {
        Effect::Watch(watch) => Some((watch.cpu, watch.kind, watch.addr, watch.len)),
        _ => None,
    });
    assert_eq!(watched, Some((0, 3, 0x5000, 4)));
    for cpu_state in [USER, KERNEL] {
        machine.engine.breakpoint(key, 0, machine.now, &cpu_state);
    }
    assert_eq!(machine.count(fd), 1);
    let trap = machine.engine.effects().find_map(|effect| match effect {
        Effect::Trap(trap) => Some(trap.addr),
        _ => None,
    });
    assert_eq!(trap, Some(0x5000));
    machine.close(fd);
    assert!(machine.engine.effects().any(|effect| matches!(effect, Effect::Unwatch { cpu: 0, .. })));
}

fn tracepoint(id: u64) -> Attr {
    attr(EventType::TRACEPOINT, id)
}

/// Rules J30, J31: ids that are known; the data are for some users only.
#[test]
fn data_of_tracepoints_need_permission() {
    let mut machine = Machine::new(1);
    machine.engine.declare_tracepoint(5);
    machine.engine.declare_open_tracepoint(6);
    for id in [4, 5 | 1 << 32] {
        assert_eq!(machine.refusal(&tracepoint(id)), Some(Errno::EINVAL));
    }
    machine.world.privileged = false;
    machine.sysctl(Sysctl::PerfEventParanoid, "0");
    assert_eq!(machine.refusal(&tracepoint(5)), None);
    let data = |id| Attr { sample_type: SampleType::RAW, ..tracepoint(id) };
    assert_eq!(machine.refusal(&data(5)), Some(Errno::EPERM));
    assert_eq!(machine.refusal(&data(6)), None);
    assert_eq!(machine.wide(&data(6), 0), Err(Errno::EPERM));
    machine.sysctl(Sysctl::PerfEventParanoid, "-1");
    assert_eq!(machine.refusal(&data(5)), None);
}

/// Rule J32: tracepoints are the kernel's, and have a weight.
#[test]
fn tracepoints_count_their_weight() {
    let mut machine = Machine::new(1);
    machine.engine.declare_tracepoint(5);
    let fds = [AttrFlags::empty(), AttrFlags::EXCLUDE_USER, AttrFlags::EXCLUDE_KERNEL]
        .map(|flags| machine.own(&with(tracepoint(5), flags)));
    machine.engine.tracepoint(0, machine.now, &Hit { count: 7, ..Hit::new(5, &[]) }, &KERNEL);
    assert_eq!(fds.map(|fd| machine.count(fd)), [7, 7, 0]);
}

/// Rule J33: occurrences of a task are also for its events that are bound to this cpu.
#[test]
fn a_tracepoint_may_be_about_another_task() {
    let mut machine = Machine::new(2);
    machine.engine.declare_tracepoint(5);
    let target = machine.task(200);
    let mut on = |pid, cpu| {
        machine.open(&tracepoint(5), OpenArguments { pid, cpu, ..OpenArguments::default() }).unwrap()
    };
    let fds = [on(0, -1), on(200, 0), on(200, 1), on(200, -1)];
    let hit = Hit { target: Some(target), ..Hit::new(5, &[]) };
    machine.engine.tracepoint(0, machine.now, &hit, &KERNEL);
    assert_eq!(fds.map(|fd| machine.count(fd)), [1, 1, 0, 0]);
}

/// Rule J34: a filter is set once, and what it leaves out is not counted.
#[test]
fn filters_leave_out_hits() {
    let mut machine = Machine::new(1);
    machine.engine.declare_tracepoint(5);
    machine.engine.set_filter_maker(|_, text| {
        let wanted: u8 = text.strip_prefix("first == ").and_then(|n| n.parse().ok()).ok_or(Errno::EINVAL)?;
        Ok(Box::new(move |record| record.first() == Some(&wanted)))
    });
    let fd = machine.own(&tracepoint(5));
    for text in ["", "first", "0"] {
        assert_eq!(machine.ioctl(fd, Ioctl::SetFilter(text)), Err(Errno::EINVAL));
    }
    assert_eq!(machine.ioctl(fd, Ioctl::SetFilter("first == 2")), Ok(0));
    assert_eq!(machine.ioctl(fd, Ioctl::SetFilter("first == 2")), Err(Errno::EEXIST));
    for first in [1, 2, 3] {
        machine.engine.tracepoint(0, machine.now, &Hit::new(5, &[first]), &KERNEL);
    }
    assert_eq!(machine.count(fd), 1);
}

/// Rule J34: copies are filtered as their original.
#[test]
fn filters_are_inherited() {
    let mut machine = Machine::new(1);
    machine.engine.declare_tracepoint(5);
    machine.engine.set_filter_maker(|_, _| Ok(Box::new(|record| record == [2])));
    let fd = machine.own(&with(tracepoint(5), AttrFlags::INHERIT));
    machine.ioctl(fd, Ioctl::SetFilter("")).unwrap();
    let child = machine.fork(ME, 200, CloneFlags::default()).unwrap();
    machine.switch(0, Some(child));
    for record in [[1], [2], [3]] {
        machine.engine.tracepoint(0, machine.now, &Hit::new(5, &record), &KERNEL);
    }
    assert_eq!(machine.count(fd), 1);
}

/// Places that probes can be set at: config2 below 100.
#[derive(Debug)]
pub(crate) struct Places;

impl Probes for Places {
    fn set(&mut self, attr: &Attr, returns: bool) -> Result<u64, Errno> {
        match attr.config2 {
            place @ ..100 => Ok(place * 2 + u64::from(returns)),
            100 => Err(Errno::ENOENT),
            101 => Err(Errno::EILSEQ),
            _ => Err(Errno::EINVAL),
        }
    }

    fn clear(&mut self, _number: u64) {}

    fn filter(&mut self, number: u64, text: &str) -> Result<Filter, Errno> {
        let wanted = text.parse().map_err(|_| Errno::EINVAL)?;
        Ok(Box::new(move |record| record == [number as u8, wanted]))
    }
}

/// Rules J50, J51, J52, J53: probes are for the privileged; where they can be the host says; modes and filters
/// as for tracepoints.
#[test]
fn probes_are_set_by_the_host() {
    let mut machine = Machine::new(1);
    let kprobes = machine.engine.register(Box::new(ProbePmu::kprobe(Box::new(Places)))).unwrap();
    let uprobes = machine.engine.register(Box::new(ProbePmu::uprobe(Box::new(Places)))).unwrap();
    let type_ = |machine: &Machine, name| machine.engine.pmu_by_name(name).unwrap().1;
    assert_eq!(type_(&machine, "kprobe"), EventType(8));
    assert_eq!(type_(&machine, "uprobe"), EventType(9));
    let probe = |type_, config, place| Attr { config2: place, ..attr(EventType(type_), config) };
    for (place, errno) in [(100, Errno::ENOENT), (101, Errno::EILSEQ), (102, Errno::EINVAL)] {
        assert_eq!(machine.refusal(&probe(8, 0, place)), Some(errno));
    }
    let hidden = |attr| with(attr, AttrFlags::EXCLUDE_KERNEL);
    let fds =
        [probe(8, 0, 3), hidden(probe(8, 0, 3)), probe(9, 0, 3), hidden(probe(9, 0, 3)), probe(9, 1, 3)]
            .map(|attr| machine.own(&attr));
    machine.engine.probe(kprobes, 0, machine.now, &Hit::new(6, &[]), &KERNEL);
    machine.engine.probe(uprobes, 0, machine.now, &Hit::new(6, &[]), &USER);
    machine.engine.probe(uprobes, 0, machine.now, &Hit::new(7, &[]), &USER);
    machine.engine.probe(uprobes, 0, machine.now, &Hit::new(7, &[]), &USER);
    assert_eq!(fds.map(|fd| machine.count(fd)), [1, 0, 1, 1, 2]);
    assert_eq!(machine.ioctl(fds[2], Ioctl::SetFilter("ip == 1")), Err(Errno::EINVAL));
    assert_eq!(machine.ioctl(fds[2], Ioctl::SetFilter("5")), Ok(0));
    assert_eq!(machine.ioctl(fds[2], Ioctl::SetFilter("5")), Err(Errno::EEXIST));
    for record in [[6, 5], [6, 4], [7, 5]] {
        machine.engine.probe(uprobes, 0, machine.now, &Hit::new(6, &record), &USER);
    }
    assert_eq!(machine.count(fds[2]), 2);
    machine.world.privileged = false;
    machine.sysctl(Sysctl::PerfEventParanoid, "-1");
    assert_eq!(machine.refusal(&probe(9, 0, 100)), Some(Errno::EACCES));
}

/// Rules N2, N3: a counter that cannot be had is no failure of the opening; one that only counts never samples.
#[test]
fn counters_are_given_and_taken() {
    let mut machine = Machine::new(1);
    machine.engine.register(Box::new(Counters::new(1))).unwrap();
    let fds = [0, 1].map(|config| machine.own(&attr(EventType::RAW, config)));
    machine.pass(100);
    assert_eq!(fds.map(|fd| machine.count(fd)), [100, 0]);
    let mut reader = machine.map(fds[0], 1);
    machine.pass(10_000_000);
    assert!(reader.take().is_empty());
}
