//! Events that count: software events, groups, times, multiplexing.

use crate::machine::{Counters, Machine, attr, decoded, software, with};
use perfuse_engine::abi::record::Record;
use perfuse_engine::abi::{AttrFlags, Errno, EventType, ReadFormat, SampleType, Software};
use perfuse_engine::{Ioctl, OpenArguments};

#[test]
fn page_faults_are_counted_while_the_event_is_on() {
    let mut machine = Machine::new(1);
    let fd = machine.open(&software(Software::PAGE_FAULTS), OpenArguments::default()).unwrap();
    machine.fault(0, 3);
    machine.pass(1000);
    assert_eq!(machine.times(fd), (3, 1000, 1000));
    machine.disable(fd);
    machine.fault(0, 5);
    machine.pass(500);
    assert_eq!(machine.times(fd), (3, 1000, 1000));
}

/// Rule C33: a task that does not run gains no time.
#[test]
fn a_sleeping_task_gains_no_time() {
    let mut machine = Machine::new(1);
    let fd = machine.open(&software(Software::TASK_CLOCK), OpenArguments::default()).unwrap();
    machine.pass(100);
    machine.switch(0, None);
    machine.pass(1000);
    machine.switch(0, Some(crate::machine::ME));
    machine.pass(10);
    assert_eq!(machine.times(fd), (110, 110, 110));
}

/// Rules C32, C45: a sibling of a disabled leader has neither count nor times.
#[test]
fn siblings_follow_a_disabled_leader() {
    let mut machine = Machine::new(1);
    let leader = with(software(Software::DUMMY), AttrFlags::DISABLED);
    let leader = machine.open(&leader, OpenArguments::default()).unwrap();
    let sibling = machine.join(&software(Software::PAGE_FAULTS), leader).unwrap();
    machine.fault(0, 2);
    machine.pass(100);
    assert_eq!(machine.times(sibling), (0, 0, 0));
    machine.enable(leader);
    machine.fault(0, 2);
    machine.pass(100);
    assert_eq!(machine.times(sibling), (2, 100, 100));
}

/// Rule C27: the window of counting groups moves by one group at each turn.
#[test]
fn ten_events_share_seven_counters() {
    let mut machine = Machine::new(1);
    machine.engine.register(Box::new(Counters::new(7))).unwrap();
    let fds: Vec<i32> = (0..10)
        .map(|config| machine.open(&attr(EventType::RAW, config), OpenArguments::default()).unwrap())
        .collect();
    let mut pictures = Vec::new();
    for _ in 0..5 {
        let before: Vec<u64> = fds.iter().map(|&fd| machine.times(fd).2).collect();
        machine.pass(1_000_000);
        let running = fds.iter().zip(before).map(|(&fd, before)| machine.times(fd).2 > before);
        pictures.push(running.map(|on| if on { '1' } else { '0' }).collect::<String>());
        machine.pass(3_000_000);
    }
    assert_eq!(pictures, ["1111111000", "0111111100", "0011111110", "0001111111", "1000111111"]);
}

/// Rule C12: a pinned event that does not fit goes to the error state, and reads as the end of a file.
#[test]
fn a_pinned_event_that_does_not_fit_is_in_error() {
    let mut machine = Machine::new(1);
    machine.engine.register(Box::new(Counters::new(1))).unwrap();
    let pinned = with(attr(EventType::RAW, 0), AttrFlags::PINNED);
    let first = machine.open(&pinned, OpenArguments::default()).unwrap();
    let second = machine.open(&pinned, OpenArguments::default()).unwrap();
    assert_eq!(machine.words(second), Ok(vec![]));
    machine.pass(10);
    assert_eq!(machine.times(first), (10, 10, 10));
    // Rule C18: it does not come back by itself, but when it is enabled.
    machine.close(first);
    machine.pass(10);
    assert_eq!(machine.words(second), Ok(vec![]));
    machine.enable(second);
    machine.pass(10);
    assert_eq!(machine.times(second).0, 10);
}

/// Rules E3, E4: the layout of a group read.
#[test]
fn a_group_is_read_at_once() {
    let mut machine = Machine::new(1);
    let mut first = software(Software::PAGE_FAULTS);
    first.read_format = ReadFormat::GROUP | ReadFormat::ID;
    let leader = machine.open(&first, OpenArguments::default()).unwrap();
    let sibling = machine.join(&software(Software::CONTEXT_SWITCHES), leader).unwrap();
    machine.fault(0, 4);
    let ids: Vec<u64> = [leader, sibling].map(|fd| machine.ioctl(fd, Ioctl::Id).unwrap()).to_vec();
    assert_eq!(machine.words(leader).unwrap(), [2, 4, ids[0], 0, ids[1]]);
    assert_eq!(machine.join(&with(first, AttrFlags::PINNED), leader), Err(Errno::EINVAL));
}

#[test]
fn samples_come_at_every_period() {
    let mut machine = Machine::new(1);
    let mut asked = software(Software::PAGE_FAULTS);
    asked.set_period(10);
    asked.sample_type = SampleType::IP | SampleType::TID | SampleType::ADDR;
    let fd = machine.open(&asked, OpenArguments::default()).unwrap();
    let mut reader = machine.map(fd, 1);
    machine.fault(0, 35);
    let bytes = reader.take();
    let all = decoded(&bytes, &asked);
    assert_eq!(all.len(), 3);
    let Record::Sample(sample) = all[0].record else { panic!("{:?}", all[0]) };
    assert_eq!((sample.ip, sample.addr), (Some(crate::machine::USER.ip), Some(0x7000)));
    assert_eq!(sample.tid.map(|tid| tid.pid), Some(100));
}

/// Rules I20, I23: cpu-clock samples by time.
#[test]
fn clocks_sample_by_time() {
    let mut machine = Machine::new(1);
    let mut asked = software(Software::CPU_CLOCK);
    asked.set_period(1_000_000);
    asked.sample_type = SampleType::TIME;
    let fd = machine.open(&asked, OpenArguments::default()).unwrap();
    let mut reader = machine.map(fd, 1);
    let start = machine.now;
    machine.pass(3_500_000);
    let bytes = reader.take();
    let times: Vec<_> = decoded(&bytes, &asked).iter().map(|record| record.time().unwrap() - start).collect();
    assert_eq!(times, [1_000_000, 2_000_000, 3_000_000]);
    // The phase survives a pause (rule I22).
    machine.disable(fd);
    machine.pass(5_000_000);
    machine.enable(fd);
    let start = machine.now;
    machine.pass(600_000);
    let bytes = reader.take();
    let times: Vec<_> = decoded(&bytes, &asked).iter().map(|record| record.time().unwrap() - start).collect();
    assert_eq!(times, [500_000]);
}
