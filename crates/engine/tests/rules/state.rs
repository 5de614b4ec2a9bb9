//! States, times, closing (sections C.4, C.5) and reading (section E).

use crate::machine::{Counters, ME, Machine, attr, software, with};
use perfuse_engine::abi::{Attr, AttrFlags, Errno, EventType, PollFlags, ReadFormat, Software};
use perfuse_engine::{Ioctl, OpenArguments, PmuInfo, State};

fn faults() -> Attr {
    software(Software::PAGE_FAULTS)
}

/// Rule C30: the states an event goes through.
#[test]
fn an_event_is_off_inactive_or_active() {
    let mut machine = Machine::new(1);
    let fd = machine.own(&with(faults(), AttrFlags::DISABLED));
    assert_eq!(machine.state(fd), Some(State::Off));
    machine.enable(fd);
    assert_eq!(machine.state(fd), Some(State::Active));
    machine.switch(0, None);
    assert_eq!(machine.state(fd), Some(State::Inactive));
    machine.exit(ME);
    assert_eq!(machine.state(fd), Some(State::Exit));
    let order = [State::Dead, State::Revoked, State::Exit, State::Error, State::Off, State::Inactive];
    assert!(order.is_sorted() && order[5] < State::Active);
}

/// Rules C31, C32: members of a leader that is off have its state; from its start on they age.
#[test]
fn members_age_with_their_leader() {
    let mut machine = Machine::new(1);
    let leader = machine.own(&with(faults(), AttrFlags::DISABLED));
    let member = machine.join(&faults(), leader).unwrap();
    machine.pass(100);
    assert_eq!(machine.times(member), (0, 0, 0));
    machine.enable(leader);
    machine.pass(30);
    machine.disable(leader);
    machine.pass(100);
    assert_eq!(machine.times(member), (0, 30, 30));
}

/// Rule C33: an event that is bound to another cpu is enabled and does not run.
#[test]
fn an_event_on_another_cpu_waits() {
    let mut machine = Machine::new(2);
    let arguments = OpenArguments { cpu: 1, ..OpenArguments::default() };
    let fd = machine.open(&faults(), arguments).unwrap();
    machine.pass(40);
    assert_eq!(machine.times(fd), (0, 40, 0));
    machine.switch(0, None);
    machine.pass(40);
    machine.switch(1, Some(ME));
    machine.pass(5);
    assert_eq!(machine.times(fd), (0, 45, 5));
}

/// Rule C36: a hardware member takes a software group along, and what `ENABLE` did to it is forgotten.
#[test]
fn a_moved_group_starts_as_it_was_opened() {
    let mut machine = Machine::new(1);
    machine.engine.register(Box::new(Counters::new(2))).unwrap();
    let leader = machine.own(&with(faults(), AttrFlags::DISABLED));
    machine.enable(leader);
    machine.fault(0, 3);
    machine.pass(10);
    machine.join(&attr(EventType::RAW, 0), leader).unwrap();
    assert_eq!(machine.state(leader), Some(State::Off));
    assert_eq!(machine.times(leader), (3, 10, 10));
    let leader = machine.own(&faults());
    machine.disable(leader);
    machine.join(&attr(EventType::RAW, 0), leader).unwrap();
    assert_eq!(machine.state(leader), Some(State::Active));
}

/// Rule C38: the last descriptor and the last mapping keep an event.
#[test]
fn a_mapping_keeps_the_event() {
    let mut machine = Machine::new(1);
    let fd = machine.own(&faults());
    machine.map(fd, 1);
    let key = machine.key(fd);
    machine.close(fd);
    assert_eq!(machine.engine.state(key), Some(State::Active));
    machine.engine.munmap(key, machine.now);
    assert_eq!(machine.engine.state(key), None);
}

/// Rules C39, C41: members go on without their leader; without a member there is less to read.
#[test]
fn groups_survive_who_leaves() {
    let mut machine = Machine::new(1);
    let mut asked = faults();
    asked.read_format = ReadFormat::GROUP;
    let leader = machine.own(&asked);
    let members: Vec<i32> = (0..3).map(|_| machine.join(&faults(), leader).unwrap()).collect();
    machine.fault(0, 1);
    assert_eq!(machine.words(leader).unwrap(), [4, 1, 1, 1, 1]);
    machine.close(members[0]);
    assert_eq!(machine.words(leader).unwrap(), [3, 1, 1, 1]);
    machine.pass(10);
    machine.close(leader);
    machine.fault(0, 1);
    machine.pass(10);
    for &fd in &members[1..] {
        assert_eq!(machine.times(fd), (2, 20, 20));
        assert_eq!(machine.engine.group(machine.key(fd)).len(), 1);
    }
    // Of a leader that was off they age at once, and run from the next turn on.
    let leader = machine.own(&with(faults(), AttrFlags::DISABLED));
    let member = machine.join(&faults(), leader).unwrap();
    machine.close(leader);
    machine.pass(10);
    assert_eq!(machine.times(member), (0, 10, 0));
    machine.switch(0, None);
    machine.switch(0, Some(ME));
    machine.pass(10);
    assert_eq!(machine.times(member), (0, 20, 10));
}

/// Rules E1, E2: an event in error reads as the end of the file, before its size matters; its members do not.
#[test]
fn an_error_is_the_end_of_the_file() {
    let mut machine = Machine::new(1);
    machine.engine.register(Box::new(Counters::new(1))).unwrap();
    let pinned = with(attr(EventType::RAW, 0), AttrFlags::PINNED);
    machine.own(&pinned);
    let leader = machine.own(&pinned);
    let member = machine.join(&faults(), leader).unwrap();
    let mut bytes = Vec::new();
    let mut read = |machine: &mut Machine, fd, room| {
        let (key, now) = (machine.key(fd), machine.now);
        machine.engine.read(key, now, room, &mut bytes).map(|()| bytes.len())
    };
    assert_eq!(read(&mut machine, leader, 1), Ok(0));
    assert_eq!(read(&mut machine, member, 0), Err(Errno::ENOSPC));
    assert_eq!(read(&mut machine, member, 23), Err(Errno::ENOSPC));
    assert_eq!(read(&mut machine, member, 24), Ok(24));
    assert_eq!(read(&mut machine, member, 4096), Ok(24));
    assert_eq!(machine.times(member), (0, 0, 0));
    // Rule C45: disabling leaves it in error.
    machine.disable(leader);
    assert_eq!(machine.state(leader), Some(State::Error));
}

/// Rules E3, E4: all formats, alone and through a member of a group.
#[test]
fn all_formats_have_their_size_and_order() {
    for bits in 0..32u64 {
        let mut machine = Machine::new(1);
        let mut asked = faults();
        asked.read_format = ReadFormat::from_bits_retain(bits);
        let leader = machine.own(&faults());
        let member = machine.join(&asked, leader).unwrap();
        machine.fault(0, 2);
        machine.pass(7);
        let ids = [leader, member].map(|fd| machine.ioctl(fd, Ioctl::Id).unwrap());
        let has = |bit: u64| bits & bit != 0;
        let mut expected = Vec::new();
        let times = |expected: &mut Vec<u64>| {
            expected.extend([1, 2].into_iter().filter(|&bit| has(bit)).map(|_| 7));
        };
        let entry = |expected: &mut Vec<u64>, id| {
            expected.extend(has(4).then_some(id));
            expected.extend(has(16).then_some(0));
        };
        if has(8) {
            expected.push(2);
            times(&mut expected);
            for id in ids {
                expected.push(2);
                entry(&mut expected, id);
            }
        } else {
            expected.push(2);
            times(&mut expected);
            entry(&mut expected, ids[1]);
        }
        assert_eq!(machine.words(member).unwrap(), expected, "read_format {bits}");
    }
}

/// Rule E5: records of any kind that found no room are counted.
#[test]
fn lost_records_are_counted() {
    let mut machine = Machine::new(1);
    let mut asked = faults();
    asked.set_period(1);
    asked.read_format = ReadFormat::LOST;
    let fd = machine.own(&asked);
    machine.fault(0, 5);
    assert_eq!(machine.words(fd).unwrap(), [5, 0], "without a ring nothing is lost");
    machine.map(fd, 1);
    // 8 bytes each: a header without fields. One place stays free.
    machine.fault(0, 600);
    assert_eq!(machine.words(fd).unwrap(), [605, 600 - 511]);
    machine.ioctl(fd, Ioctl::Reset { group: false }).unwrap();
    assert_eq!(machine.words(fd).unwrap(), [0, 600 - 511]);
}

/// Rule E7: inherited events can be read as a group.
#[test]
fn inherited_groups_can_be_read() {
    let mut machine = Machine::new(1);
    let mut asked = with(faults(), AttrFlags::INHERIT);
    asked.read_format = ReadFormat::GROUP;
    let leader = machine.own(&asked);
    machine.join(&asked, leader).unwrap();
    machine.fault(0, 1);
    assert_eq!(machine.words(leader).unwrap(), [2, 1, 1]);
}

/// Rules M3, G20: a PMU that goes revokes its events: nothing can be done with them but closing.
#[test]
fn a_pmu_that_goes_revokes_its_events() {
    let mut machine = Machine::new(1);
    let mut counters = Counters::new(1);
    counters.info = PmuInfo { type_: Some(EventType(50)), ..PmuInfo::hardware("special") };
    let pmu = machine.engine.register(Box::new(counters)).unwrap();
    let fd = machine.own(&attr(EventType(50), 0));
    machine.engine.unregister(pmu, machine.now);
    assert_eq!(machine.state(fd), Some(State::Revoked));
    assert_eq!(machine.poll(fd), PollFlags::ERR);
    assert_eq!(machine.ioctl(fd, Ioctl::Enable { group: false }), Err(Errno::ENODEV));
    assert!(machine.try_map(fd, 1).is_none());
    assert_eq!(machine.refusal(&attr(EventType(50), 0)), Some(Errno::ENOENT));
    assert!(machine.engine.pmu_by_name("special").is_none());
    machine.close(fd);
}
