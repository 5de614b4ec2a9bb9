//! The answers of `poll(2)`, and signals (rules G20 to G26).

use super::ring::small;
use crate::machine::{Counters, ME, Machine, attr, with};
use perfuse_engine::abi::{AttrFlags, EventType, PollFlags};
use perfuse_engine::{Effect, Ioctl, Notice, OpenArguments};

const NOTHING: PollFlags = PollFlags::empty();
const IN: PollFlags = PollFlags::READABLE;
const ERR: PollFlags = PollFlags::ERR;
const HUP: PollFlags = PollFlags::HUP;

/// Whether an effect since the last time was to wake waits for this.
fn woken(machine: &mut Machine, fd: i32) -> bool {
    let key = machine.key(fd);
    machine.engine.effects().filter(|effect| *effect == Effect::Wake(key)).count() > 0
}

/// Rules G23, G24: no ring is a hang-up; unread records alone are nothing.
#[test]
fn poll_tells_of_wake_ups_once() {
    let mut machine = Machine::new(1);
    let fd = machine.open(&small(), OpenArguments::default()).unwrap();
    assert_eq!(machine.poll(fd), HUP);
    machine.map(fd, 1);
    machine.fault(0, 100);
    assert_eq!(machine.poll(fd), NOTHING);
    machine.fault(0, 50);
    assert_eq!([machine.poll(fd), machine.poll(fd)], [IN, NOTHING]);
}

/// Rules G21, G25: when the task has ended there is nothing to wait for, even with records unread.
#[test]
fn the_end_of_the_task_is_a_hang_up() {
    let mut machine = Machine::new(1);
    let fd = machine.open(&small(), OpenArguments::default()).unwrap();
    machine.map(fd, 1);
    machine.fault(0, 200);
    machine.engine.effects().for_each(drop);
    machine.engine.exit(ME, None, 0, machine.now);
    assert!(woken(&mut machine, fd));
    assert_eq!(machine.poll(fd), HUP);
}

/// Rules G20, G22, G25: errors.
#[test]
fn failed_and_revoked_events_are_errors() {
    let mut machine = Machine::new(1);
    let pmu = machine.engine.register(Box::new(Counters::new(1))).unwrap();
    let pinned = with(attr(EventType::RAW, 0), AttrFlags::PINNED);
    let first = machine.open(&pinned, OpenArguments::default()).unwrap();
    let second = machine.open(&pinned, OpenArguments::default()).unwrap();
    machine.map(first, 1);
    assert!(woken(&mut machine, second));
    assert_eq!([first, second].map(|fd| machine.poll(fd)), [NOTHING, ERR]);
    machine.engine.unregister(pmu, machine.now);
    assert!(woken(&mut machine, first));
    assert_eq!(machine.poll(first), ERR);
}

/// Rule G25: a wait hears that the ring was taken away.
#[test]
fn a_ring_that_goes_wakes() {
    let mut machine = Machine::new(1);
    let first = machine.open(&small(), OpenArguments::default()).unwrap();
    let second = machine.open(&small(), OpenArguments::default()).unwrap();
    machine.map(first, 1);
    machine.redirect(second, Some(first)).unwrap();
    machine.engine.effects().for_each(drop);
    machine.redirect(second, None).unwrap();
    assert!(woken(&mut machine, second));
    assert_eq!(machine.poll(second), HUP);
}

/// Rules G26, C48: each overflow signals, with or without a ring; the last one differently.
#[test]
fn each_overflow_signals() {
    let mut machine = Machine::new(1);
    let fd = machine.open(&with(small(), AttrFlags::DISABLED), OpenArguments::default()).unwrap();
    let key = machine.key(fd);
    machine.engine.set_async(key, true);
    machine.ioctl(fd, Ioctl::Refresh(3)).unwrap();
    machine.engine.effects().for_each(drop);
    machine.fault(0, 9);
    let signals: Vec<_> = machine
        .engine
        .effects()
        .filter_map(|effect| match effect {
            Effect::Signal(event, notice) if event == key => Some(notice),
            _ => None,
        })
        .collect();
    assert_eq!(signals, [Notice::In, Notice::In, Notice::Hup]);
    assert_eq!(machine.words(fd).unwrap()[0], 3);
}

/// Rule G26: so do wake-ups by other records.
#[test]
fn a_watermark_signals_too() {
    let mut machine = Machine::new(1);
    let mut attr = with(small(), AttrFlags::COMM);
    attr.set_wakeup_watermark(16);
    let fd = machine.open(&attr, OpenArguments::default()).unwrap();
    let key = machine.key(fd);
    machine.engine.set_async(key, true);
    machine.map(fd, 1);
    machine.engine.effects().for_each(drop);
    machine.engine.comm(ME, 0, machine.now, b"name", false);
    assert!(machine.engine.effects().any(|effect| effect == Effect::Signal(key, Notice::In)));
}
