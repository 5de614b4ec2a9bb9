//! When readers are woken (rules G14 to G18).

use super::ring::small;
use crate::machine::{Machine, Reader, with};
use perfuse_engine::abi::{Attr, AttrFlags, PollFlags};
use perfuse_engine::{Effect, OpenArguments};

/// The numbers of the records at which a reader was woken.
fn wakes(machine: &mut Machine, records: u64, mut reader: Option<&mut Reader>) -> Vec<u64> {
    machine.engine.effects().for_each(drop);
    let mut at = Vec::new();
    for number in 1..=records {
        machine.fault(0, 1);
        if machine.engine.effects().any(|effect| matches!(effect, Effect::Wake(_))) {
            at.push(number);
        }
        if let Some(reader) = &mut reader {
            reader.take();
        }
    }
    at
}

fn open(attr: &Attr, pages: usize) -> (Machine, i32, Reader) {
    let mut machine = Machine::new(1);
    let fd = machine.open(attr, OpenArguments::default()).unwrap();
    let reader = machine.map(fd, pages);
    (machine, fd, reader)
}

fn watermark(bytes: u32) -> Attr {
    let mut attr = small();
    attr.set_wakeup_watermark(bytes);
    attr
}

fn every(samples: u32) -> Attr {
    let mut attr = small();
    attr.set_wakeup_events(samples);
    attr
}

/// Rule G14, with its values.
#[test]
fn half_a_ring_wakes() {
    let (mut machine, ..) = open(&small(), 1);
    assert_eq!(wakes(&mut machine, 255, None), [129]);
    let (mut machine, ..) = open(&small(), 4);
    assert_eq!(wakes(&mut machine, 600, None), [513]);
    let (mut machine, ..) = open(&watermark(0), 1);
    assert_eq!(wakes(&mut machine, 255, None), [129]);
}

/// Rules G7, G14: strictly beyond the watermark, and once for each.
#[test]
fn a_watermark_wakes() {
    let (mut machine, ..) = open(&watermark(100), 1);
    let heads: Vec<_> = wakes(&mut machine, 38, None).iter().map(|number| number * 16).collect();
    assert_eq!(heads, [112, 208, 304, 416, 512, 608]);
    let (mut machine, _, mut reader) = open(&watermark(100_000), 1);
    let heads: Vec<_> =
        wakes(&mut machine, 600, Some(&mut reader)).iter().map(|number| number * 16).collect();
    assert_eq!(heads, [4112, 8208]);
}

/// Rule G7: also where the ring grows down.
#[test]
fn a_backward_ring_wakes_as_often() {
    let (mut machine, ..) = open(&with(watermark(100), AttrFlags::WRITE_BACKWARD), 1);
    let heads: Vec<_> = wakes(&mut machine, 38, None).iter().map(|number| number * 16).collect();
    assert_eq!(heads, [112, 208, 304, 416, 512, 608]);
}

/// Rules G15, G16: the number of samples, besides half the ring; 0 is off.
#[test]
fn numbers_of_samples_wake_too() {
    let (mut machine, ..) = open(&every(200), 1);
    assert_eq!(wakes(&mut machine, 255, None), [129, 200]);
    let (mut machine, ..) = open(&every(1), 1);
    assert_eq!(wakes(&mut machine, 5, None), [1, 2, 3, 4, 5]);
    let (mut machine, ..) = open(&every(0), 1);
    assert_eq!(wakes(&mut machine, 128, None), []);
}

/// Rule G15: other records do not count.
#[test]
fn only_samples_count() {
    let (mut machine, ..) = open(&with(every(2), AttrFlags::COMM), 1);
    machine.engine.effects().for_each(drop);
    (0..50).for_each(|_| machine.engine.comm(crate::machine::ME, 0, machine.now, b"name", false));
    assert_eq!(machine.engine.effects().filter(|effect| matches!(effect, Effect::Wake(_))).count(), 0);
}

/// Rules G17, G18: all who write to a ring count together, and all who hold it are woken.
#[test]
fn a_ring_is_woken_as_one() {
    let (mut machine, first, _reader) = open(&every(4), 1);
    let second = machine.open(&every(4), OpenArguments::default()).unwrap();
    machine.redirect(second, Some(first)).unwrap();
    machine.engine.effects().for_each(drop);
    machine.fault(0, 1);
    assert_eq!(machine.engine.effects().count(), 0);
    machine.fault(0, 1);
    let woken: Vec<_> = machine.engine.effects().collect();
    assert_eq!(woken, [first, second].map(|fd| Effect::Wake(machine.key(fd))));
    // Rule G24: one of them gets it.
    assert_eq!([second, first].map(|fd| machine.poll(fd)), [PollFlags::READABLE, PollFlags::empty()]);
}
