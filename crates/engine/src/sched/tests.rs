//! How much work a call is among thousands of events: no more than among a few.

use crate::engine::{Config, Engine};
use crate::event::{EventKey, State};
use crate::host::Host;
use crate::open::OpenArguments;
use crate::task::{CloneFlags, Leaving, TaskFacts, TaskId};
use alloc::vec::Vec;
use perfuse_abi::wire::{Layout, Writer};
use perfuse_abi::{Attr, AttrFlags, ByteOrder, EventType, Software};

const ME: TaskId = TaskId(1);
const CHILD: TaskId = TaskId(2);

/// A host that allows everything. The only descriptor is that of the leader.
struct World(Option<EventKey>);

impl Host for World {
    fn event_of(&self, _caller: TaskId, _fd: i32) -> Option<EventKey> {
        self.0
    }
}

fn machine() -> Engine {
    let mut engine = Engine::new(Config::default());
    engine.add_task(ME, TaskFacts::new(1, 1));
    engine.switch(0, 10, Leaving::Sleeps, Some(ME), &crate::AtIp::default());
    engine
}

fn open(engine: &mut Engine, leader: Option<EventKey>, flags: AttrFlags) -> EventKey {
    let mut attr = Attr { size: Attr::SIZE_VER8, ..Attr::new(EventType::SOFTWARE) };
    attr.config = Software::PAGE_FAULTS.0;
    attr.flags = flags | AttrFlags::EXCLUDE_KERNEL;
    let mut bytes = Vec::new();
    attr.layout(&mut Writer::new(&mut bytes, ByteOrder::NATIVE)).expect("room");
    let group_fd = if leader.is_some() { 3 } else { -1 };
    let arguments = OpenArguments { group_fd, ..OpenArguments::default() };
    engine.open(&mut World(leader), ME, 20, &mut bytes, arguments).expect("it can be opened")
}

fn open_all(engine: &mut Engine, count: usize, group: bool, flags: AttrFlags) -> Vec<EventKey> {
    let mut events = Vec::new();
    for _ in 0..count {
        let leader = events.first().copied().filter(|_| group);
        events.push(open(engine, leader, flags));
    }
    events
}

/// How often entries were looked at while this was done.
fn looks(engine: &mut Engine, act: impl FnOnce(&mut Engine)) -> u64 {
    let all = |engine: &Engine| engine.events.looks.get() + engine.contexts.looks.get();
    let before = all(engine);
    act(engine);
    all(engine) - before
}

/// Opens and closes one more in the middle of `count`, and then all; how much work each step was.
fn steps(count: usize, group: bool) -> Vec<u64> {
    let mut engine = machine();
    let mut events = open_all(&mut engine, count, group, AttrFlags::empty());
    let leader = group.then_some(events[0]);
    let mut steps = Vec::new();
    steps.push(looks(&mut engine, |engine| events.push(open(engine, leader, AttrFlags::empty()))));
    let last = *events.last().expect("it was opened");
    assert!(events.iter().all(|&event| engine.state(event) == Some(State::Active)));
    steps.push(looks(&mut engine, |engine| engine.disable_event(last, 30)));
    steps.push(looks(&mut engine, |engine| engine.enable_event(last, 40)));
    assert_eq!(engine.state(last), Some(State::Active));
    let middle = events.remove(count / 2);
    steps.push(looks(&mut engine, |engine| engine.close(middle, 50)));
    // The leader goes first: from then on the others are on their own.
    let leader = events.remove(0);
    let leaves = looks(&mut engine, |engine| engine.close(leader, 60));
    steps.push(if group { leaves / count as u64 } else { leaves });
    assert!(events.iter().all(|&event| engine.state(event) == Some(State::Active)));
    steps.push(looks(&mut engine, |engine| engine.close(events[events.len() / 2], 70)));
    steps.push(looks(&mut engine, |engine| engine.close(events[0], 80)));
    events.into_iter().for_each(|event| engine.close(event, 90));
    assert_eq!(engine.holdings().entries, 0);
    steps
}

#[test]
#[cfg_attr(miri, ignore = "thousands of events take Miri minutes")]
fn a_sibling_comes_and_goes_among_thousands_as_among_a_few() {
    let (few, many) = (steps(40, true), steps(4000, true));
    assert!(few.iter().zip(&many).all(|(few, many)| many <= few), "{few:?} {many:?}");
}

#[test]
#[cfg_attr(miri, ignore = "thousands of events take Miri minutes")]
fn an_event_comes_and_goes_among_thousands_as_among_a_few() {
    assert_eq!(steps(40, false), steps(4000, false));
}

#[test]
#[cfg_attr(miri, ignore = "thousands of events take Miri minutes")]
fn a_fork_copies_each_event_with_the_same_work() {
    let each = |count: usize, group: bool| {
        let mut engine = machine();
        open_all(&mut engine, count, group, AttrFlags::INHERIT);
        let fork = looks(&mut engine, |engine| {
            let facts = TaskFacts::new(2, 2);
            engine.fork(ME, CHILD, facts, CloneFlags::default(), 0, 30).expect("all can be copied");
        });
        let end = looks(&mut engine, |engine| engine.exit(CHILD, Some(ME), 0, 40));
        (fork / count as u64, end / count as u64)
    };
    for group in [true, false] {
        let (few, many) = (each(40, group), each(4000, group));
        assert!(many.0 <= few.0 && many.1 <= few.1, "{few:?} {many:?}");
    }
}

/// Children of one task come and go, in any order.
#[test]
#[cfg_attr(miri, ignore = "thousands of events take Miri minutes")]
fn a_copy_goes_among_thousands_as_among_a_few() {
    let end = |children: u64| {
        let mut engine = machine();
        open(&mut engine, None, AttrFlags::INHERIT);
        for child in 0..children {
            let facts = TaskFacts::new(100 + child as u32, 100 + child as u32);
            engine.fork(ME, TaskId(100 + child), facts, CloneFlags::default(), 0, 30).expect("a copy");
        }
        looks(&mut engine, |engine| engine.exit(TaskId(100 + children / 2), Some(ME), 0, 40))
    };
    assert_eq!(end(10), end(2000));
}
