//! ioctls and prctls (section C.6).

use crate::machine::{Counters, ME, Machine, attr, decoded, image, software, with};
use perfuse_engine::abi::{Attr, AttrFlags, Breakpoint, Errno, EventType, SampleType, Software};
use perfuse_engine::{AttrMemory, Ioctl, OpenArguments, State, Sysctl};

fn faults() -> Attr {
    software(Software::PAGE_FAULTS)
}

fn sampling(period: u64) -> Attr {
    let mut asked = faults();
    asked.set_period(period);
    asked
}

/// Rule C44: one event, or the whole group from any member.
#[test]
fn calls_are_for_an_event_or_its_group() {
    let mut machine = Machine::new(1);
    let off = with(faults(), AttrFlags::DISABLED);
    let leader = machine.own(&off);
    let member = machine.join(&off, leader).unwrap();
    let states = |machine: &Machine| [leader, member].map(|fd| machine.state(fd).unwrap());
    machine.enable(leader);
    assert_eq!(states(&machine), [State::Active, State::Off]);
    machine.ioctl(member, Ioctl::Disable { group: true }).unwrap();
    assert_eq!(states(&machine), [State::Off, State::Off]);
    machine.ioctl(member, Ioctl::Enable { group: true }).unwrap();
    assert_eq!(states(&machine), [State::Active, State::Active]);
    machine.fault(0, 3);
    machine.ioctl(member, Ioctl::Reset { group: true }).unwrap();
    assert_eq!([leader, member].map(|fd| machine.count(fd)), [0, 0]);
}

/// Rule C46: a member is only ready while its leader is off; an error ends with `ENABLE` where there is room.
#[test]
fn enabling_needs_the_leader_and_room() {
    let mut machine = Machine::new(1);
    machine.engine.register(Box::new(Counters::new(1))).unwrap();
    let off = with(faults(), AttrFlags::DISABLED);
    let leader = machine.own(&off);
    let member = machine.join(&off, leader).unwrap();
    machine.enable(member);
    assert_eq!(machine.state(member), Some(State::Inactive));
    let pinned = with(attr(EventType::RAW, 0), AttrFlags::PINNED);
    let first = machine.own(&pinned);
    let second = machine.own(&pinned);
    machine.enable(second);
    assert_eq!(machine.state(second), Some(State::Error));
    machine.disable(first);
    machine.enable(second);
    assert_eq!(machine.state(second), Some(State::Active));
}

/// Rule C47: `RESET` leaves the times, and the phase of sampling (rule I6).
#[test]
fn reset_leaves_times_and_phase() {
    let mut machine = Machine::new(1);
    let fd = machine.own(&sampling(10));
    let mut reader = machine.map(fd, 1);
    machine.fault(0, 7);
    machine.pass(50);
    machine.ioctl(fd, Ioctl::Reset { group: false }).unwrap();
    assert_eq!(machine.times(fd), (0, 50, 50));
    machine.fault(0, 3);
    assert_eq!(decoded(&reader.take(), &sampling(10)).len(), 1);
}

/// Rules C48, I1, I2: so many more overflows, and then the event is off.
#[test]
fn refresh_counts_overflows_down() {
    let mut machine = Machine::new(1);
    let fd = machine.own(&with(sampling(1), AttrFlags::DISABLED));
    let mut reader = machine.map(fd, 1);
    for more in [2, 2] {
        machine.ioctl(fd, Ioctl::Refresh(more)).unwrap();
    }
    machine.fault(0, 10);
    assert_eq!((machine.count(fd), machine.state(fd)), (4, Some(State::Off)));
    assert_eq!(decoded(&reader.take(), &sampling(1)).len(), 4);
    for unlimited in [0, -1] {
        machine.ioctl(fd, Ioctl::Refresh(unlimited)).unwrap();
        machine.fault(0, 100);
        assert_eq!(machine.state(fd), Some(State::Active));
    }
    let counting = machine.own(&faults());
    let inherited = machine.own(&with(sampling(1), AttrFlags::INHERIT));
    for fd in [counting, inherited] {
        assert_eq!(machine.ioctl(fd, Ioctl::Refresh(1)), Err(Errno::EINVAL));
    }
}

/// Rule C49: which periods can be set.
#[test]
fn periods_can_be_changed() {
    let mut machine = Machine::new(1);
    let counting = machine.own(&faults());
    assert_eq!(machine.ioctl(counting, Ioctl::Period(1)), Err(Errno::EINVAL));
    let fd = machine.own(&sampling(10));
    for (period, answer) in [(0, Err(Errno::EINVAL)), (1 << 63, Err(Errno::EINVAL)), (1 << 40, Ok(0))] {
        assert_eq!(machine.ioctl(fd, Ioctl::Period(period)), answer);
    }
    let frequency = with(sampling(10), AttrFlags::FREQ);
    let fd = machine.own(&frequency);
    assert_eq!(machine.ioctl(fd, Ioctl::Period(100_001)), Err(Errno::EINVAL));
    // Clocks take a frequency as a period from the start (rule I20).
    let mut clock = software(Software::CPU_CLOCK);
    clock.set_sample_freq(1000);
    let fd = machine.own(&clock);
    assert_eq!(machine.ioctl(fd, Ioctl::Period(200_000)), Ok(0));
}

/// Rule C49b: the next occurrence overflows, then comes an interval of the old length.
#[test]
fn a_changed_period_starts_with_an_overflow() {
    for (old, new, expected) in [(100, 10, [1, 100, 110, 120]), (100, 300, [1, 100, 400, 700])] {
        let mut machine = Machine::new(1);
        let fd = machine.own(&sampling(old));
        let mut reader = machine.map(fd, 1);
        machine.fault(0, 42);
        machine.ioctl(fd, Ioctl::Period(new)).unwrap();
        let mut at = Vec::new();
        for occurrence in 1..=expected[3] {
            machine.fault(0, 1);
            if !reader.take().is_empty() {
                at.push(occurrence);
            }
        }
        assert_eq!(at, expected);
    }
    // A host that tells of what a task did bit by bit switches nothing.
    let mut machine = Machine::new(1);
    let fd = machine.own(&sampling(100));
    let mut reader = machine.map(fd, 1);
    machine.fault(0, 42);
    machine.ioctl(fd, Ioctl::Period(10)).unwrap();
    let mut at = Vec::new();
    for occurrence in 1..=120 {
        machine.engine.place(0, machine.now, None);
        machine.engine.place(0, machine.now, Some(ME));
        machine.fault(0, 1);
        if !reader.take().is_empty() {
            at.push(occurrence);
        }
    }
    assert_eq!(at, [1, 100, 110, 120]);
    // Switched out and in, there is a full new period.
    let mut machine = Machine::new(1);
    let fd = machine.own(&sampling(100));
    let mut reader = machine.map(fd, 1);
    machine.ioctl(fd, Ioctl::Period(10)).unwrap();
    machine.switch(0, None);
    machine.switch(0, Some(ME));
    machine.fault(0, 9);
    assert!(reader.take().is_empty());
    machine.fault(0, 1);
    assert!(!reader.take().is_empty());
}

/// Rules C50, C53, C55: output, ids, pauses.
#[test]
fn output_can_be_redirected_and_paused() {
    let mut machine = Machine::new(1);
    let asked = Attr { sample_type: SampleType::ID, ..sampling(1) };
    let target = machine.own(&asked);
    let other = machine.own(&asked);
    assert_eq!(machine.ioctl(other, Ioctl::PauseOutput(true)), Err(Errno::EINVAL));
    let mut reader = machine.map(target, 1);
    let key = machine.key(target);
    machine.ioctl(other, Ioctl::SetOutput(Some(key))).unwrap();
    machine.fault(0, 1);
    let bytes = reader.take();
    let mut ids: Vec<u64> = decoded(&bytes, &asked).iter().map(|record| record.id().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [target, other].map(|fd| machine.ioctl(fd, Ioctl::Id).unwrap()));
    machine.ioctl(other, Ioctl::PauseOutput(true)).unwrap();
    machine.fault(0, 1);
    assert!(reader.take().is_empty());
}

fn breakpoint(addr: u64) -> Attr {
    let mut asked = attr(EventType::BREAKPOINT, 0);
    (asked.bp_type, asked.config1, asked.config2) = (Breakpoint::W, addr, 8);
    asked
}

/// Rule C51: the fields of a breakpoint that can be changed.
#[test]
fn breakpoints_can_be_moved() {
    let mut machine = Machine::new(1);
    let fd = machine.own(&breakpoint(8));
    let modify = |machine: &mut Machine, fd, attr: &Attr| {
        let mut bytes = image(attr);
        machine.ioctl(fd, Ioctl::ModifyAttributes(&mut AttrMemory(&mut bytes)))
    };
    let mut moved = breakpoint(16);
    (moved.bp_type, moved.config2) = (Breakpoint::RW, 4);
    assert_eq!(modify(&mut machine, fd, &moved), Ok(0));
    assert_eq!(machine.state(fd), Some(State::Active));
    assert_eq!(modify(&mut machine, fd, &with(moved, AttrFlags::DISABLED)), Ok(0));
    assert_eq!(machine.state(fd), Some(State::Off));
    // Its attr says now that it is off, so after an error it is.
    machine.enable(fd);
    let other = Attr { read_format: perfuse_engine::abi::ReadFormat::ID, ..moved };
    assert_eq!(modify(&mut machine, fd, &other), Err(Errno::EINVAL));
    assert_eq!(machine.state(fd), Some(State::Off));
    assert_eq!(modify(&mut machine, fd, &faults()), Err(Errno::EINVAL));
    let software = machine.own(&faults());
    assert_eq!(modify(&mut machine, software, &faults()), Err(Errno::EOPNOTSUPP));
}

/// Rule C52: filters are for tracepoints, and shorter than a page.
#[test]
fn filters_are_for_tracepoints() {
    let mut machine = Machine::new(1);
    machine.engine.declare_tracepoint(1);
    machine.engine.set_filter_maker(|_, _| Ok(Box::new(|_| true)));
    let tracepoint = machine.own(&attr(EventType::TRACEPOINT, 1));
    let long = "x".repeat(4096);
    assert_eq!(machine.ioctl(tracepoint, Ioctl::SetFilter(&long)), Err(Errno::EINVAL));
    assert_eq!(machine.ioctl(tracepoint, Ioctl::SetFilter(&long[1..])), Ok(0));
    for asked in [faults(), breakpoint(8)] {
        let fd = machine.own(&asked);
        assert_eq!(machine.ioctl(fd, Ioctl::SetFilter("x == 1")), Err(Errno::EINVAL));
    }
}

/// Rule C57: `prctl` is for the events that the thread opened, on any target.
#[test]
fn prctl_is_for_what_one_opened() {
    let mut machine = Machine::new(2);
    let other = machine.task(200);
    let mine = machine.open(&faults(), OpenArguments { pid: 200, ..OpenArguments::default() }).unwrap();
    let wide = machine.wide(&faults(), 1).unwrap();
    let on_me = OpenArguments { pid: 100, ..OpenArguments::default() };
    let others = machine.open_as(other, &faults(), on_me).unwrap();
    machine.engine.prctl(ME, false, machine.now);
    let states = [mine, wide, others].map(|fd| machine.state(fd).unwrap());
    assert_eq!(states, [State::Off, State::Off, State::Active]);
    machine.engine.prctl(ME, true, machine.now);
    let states = [mine, wide].map(|fd| machine.state(fd).unwrap());
    assert_eq!(states, [State::Inactive, State::Active]);
}

/// Rule L3: a lower limit leaves those alone that are open.
#[test]
fn limits_are_for_what_comes() {
    let mut machine = Machine::new(1);
    let frequency = with(sampling(5000), AttrFlags::FREQ);
    let fd = machine.own(&frequency);
    machine.sysctl(Sysctl::PerfEventMaxSampleRate, "1000");
    assert_eq!(machine.refusal(&frequency), Some(Errno::EINVAL));
    assert_eq!(machine.ioctl(fd, Ioctl::Period(5000)), Err(Errno::EINVAL));
    assert_eq!(machine.state(fd), Some(State::Active));
}
