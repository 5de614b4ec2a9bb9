//! Fork, exec, exit (section D).

use crate::machine::{Counters, ME, Machine, attr, decoded, software, with};
use perfuse_engine::abi::record::Record;
use perfuse_engine::abi::{Attr, AttrFlags, Errno, EventType, PollFlags, ReadFormat, SampleType, Software};
use perfuse_engine::{CloneFlags, Ioctl, OpenArguments, State, TaskId};

const PROCESS: CloneFlags = CloneFlags { thread: false, clear_sighand: false };
const THREAD: CloneFlags = CloneFlags { thread: true, clear_sighand: false };

fn inherited() -> Attr {
    with(software(Software::PAGE_FAULTS), AttrFlags::INHERIT)
}

/// An event, and what it counts when a child has two faults.
fn counts_child(asked: &Attr, flags: CloneFlags) -> u64 {
    let mut machine = Machine::new(1);
    let fd = machine.own(asked);
    let child = machine.fork(ME, 200, flags).unwrap();
    machine.faults_of(child, 2);
    machine.count(fd)
}

/// Rules D1, D5: tasks that forked before, and children of others, are not counted; grandchildren are.
#[test]
fn children_of_the_task_are_counted() {
    let mut machine = Machine::new(1);
    let before = machine.fork(ME, 200, PROCESS).unwrap();
    let fd = machine.own(&inherited());
    let child = machine.fork(ME, 201, PROCESS).unwrap();
    let grandchild = machine.fork(child, 202, PROCESS).unwrap();
    let stranger = machine.fork(before, 203, PROCESS).unwrap();
    for (task, count) in [(before, 1), (child, 10), (grandchild, 100), (stranger, 1000)] {
        machine.faults_of(task, count);
    }
    assert_eq!(machine.count(fd), 110);
    let wide = machine.wide(&inherited(), 0).unwrap();
    let late = machine.fork(ME, 204, PROCESS).unwrap();
    machine.faults_of(late, 1);
    assert_eq!(machine.count(wide), 1);
}

/// Rules D2, I32: events that are inherited.
#[test]
fn what_is_inherited_depends_on_how_one_forks() {
    assert_eq!(counts_child(&software(Software::PAGE_FAULTS), PROCESS), 0);
    assert_eq!(counts_child(&inherited(), PROCESS), 2);
    let threads = with(inherited(), AttrFlags::INHERIT_THREAD);
    assert_eq!(counts_child(&threads, PROCESS), 0);
    assert_eq!(counts_child(&threads, THREAD), 2);
    let trap = with(inherited(), AttrFlags::SIGTRAP | AttrFlags::REMOVE_ON_EXEC);
    assert_eq!(counts_child(&trap, PROCESS), 2);
    assert_eq!(counts_child(&trap, CloneFlags { thread: false, clear_sighand: true }), 0);
}

/// Rule D3: copies start as the event of the forking task is, not as it was opened.
#[test]
fn copies_are_on_if_the_event_is() {
    let mut machine = Machine::new(1);
    let fd = machine.own(&with(inherited(), AttrFlags::DISABLED));
    machine.enable(fd);
    let child = machine.fork(ME, 200, PROCESS).unwrap();
    machine.faults_of(child, 2);
    assert_eq!(machine.count(fd), 2);
    machine.disable(fd);
    let child = machine.fork(ME, 201, PROCESS).unwrap();
    machine.faults_of(child, 2);
    assert_eq!(machine.count(fd), 2);
    // `ENABLE` is for all copies (rule C44).
    machine.enable(fd);
    machine.faults_of(child, 2);
    assert_eq!(machine.count(fd), 4);
}

/// Rules D3, D32: a grandchild is counted although the task of the original is gone, and keeps it alive.
#[test]
fn descendants_are_counted_after_the_first_has_ended() {
    let mut machine = Machine::new(1);
    let first = machine.task(300);
    let fd = machine.open(&inherited(), OpenArguments { pid: 300, ..OpenArguments::default() }).unwrap();
    let child = machine.fork(first, 301, PROCESS).unwrap();
    machine.exit(first);
    assert_eq!(machine.state(fd), Some(State::Exit));
    let grandchild = machine.fork(child, 302, PROCESS).unwrap();
    machine.exit(child);
    machine.faults_of(grandchild, 3);
    assert_eq!(machine.count(fd), 3);
    machine.exit(grandchild);
    assert_eq!(machine.poll(fd), PollFlags::HUP);
    assert_eq!(machine.count(fd), 3);
}

/// Rule D4: where a copy cannot be made there is no fork.
#[test]
fn a_fork_fails_with_its_copies() {
    let mut machine = Machine::new(1);
    let mut breakpoint = with(attr(EventType::BREAKPOINT, 0), AttrFlags::INHERIT);
    (breakpoint.bp_type, breakpoint.config1, breakpoint.config2) = (perfuse_engine::abi::Breakpoint::W, 8, 8);
    machine.own(&breakpoint);
    let mut wide = breakpoint;
    wide.flags = AttrFlags::empty();
    (0..3).for_each(|_| {
        machine.wide(&wide, 0).unwrap();
    });
    // Each task has its slot beside the cpu's.
    let child = machine.fork(ME, 200, PROCESS);
    assert!(child.is_ok());
    assert_eq!(machine.wide(&wide, 0), Err(Errno::ENOSPC));
}

/// Rule D6: on all cpus an inherited event has no ring of its own.
#[test]
fn inherited_events_are_mapped_on_one_cpu() {
    let mut machine = Machine::new(1);
    let fd = machine.own(&inherited());
    assert!(machine.try_map(fd, 1).is_none());
    let bound = machine.open(&inherited(), OpenArguments { cpu: 0, ..OpenArguments::default() }).unwrap();
    assert!(machine.try_map(bound, 1).is_some());
}

/// Rule D7: values in samples are those of the task alone.
#[test]
fn samples_hold_the_values_of_one_task() {
    let mut machine = Machine::new(1);
    let mut asked = inherited();
    asked.set_period(1);
    asked.sample_type = SampleType::READ | SampleType::TID;
    let fd = machine.open(&asked, OpenArguments { cpu: 0, ..OpenArguments::default() }).unwrap();
    let mut reader = machine.map(fd, 1);
    machine.fault(0, 5);
    reader.take();
    let child = machine.fork(ME, 200, PROCESS).unwrap();
    machine.faults_of(child, 1);
    let bytes = reader.take();
    let records = decoded(&bytes, &asked);
    let Record::Sample(sample) = records[0].record else { panic!("{records:?}") };
    assert_eq!(sample.tid.unwrap().pid, 200);
    assert_eq!(sample.read.unwrap().entries().next().unwrap().value, 1);
}

/// Rules D7, D14, D30: the count of a copy is told while its group is whole, and it has lost nothing.
#[test]
fn a_read_record_has_the_whole_group() {
    let mut machine = Machine::new(1);
    let flags = AttrFlags::INHERIT | AttrFlags::INHERIT_STAT;
    let mut asked = with(software(Software::PAGE_FAULTS), flags);
    asked.read_format = ReadFormat::GROUP | ReadFormat::LOST;
    let leader = machine.open(&asked, OpenArguments { cpu: 0, ..OpenArguments::default() }).unwrap();
    let arguments = OpenArguments { cpu: 0, group_fd: leader, ..OpenArguments::default() };
    let member = machine.open(&asked, arguments).unwrap();
    let mut reader = machine.map(member, 1);
    let child = machine.fork(ME, 200, PROCESS).unwrap();
    machine.faults_of(child, 3);
    machine.exit(child);
    let bytes = reader.take();
    let told = decoded(&bytes, &asked);
    let Record::Read(read) = &told[0].record else { panic!("{told:?}") };
    let values: Vec<_> = read.values.entries().map(|entry| (entry.value, entry.lost)).collect();
    assert_eq!(values, [(3, Some(0)), (3, Some(0))]);
}

/// Rule G8: a LOST record that comes with a copy's record is the original's, and so is the stream id behind it.
#[test]
fn lost_records_are_the_originals() {
    let mut machine = Machine::new(1);
    let mut asked = with(inherited(), AttrFlags::SAMPLE_ID_ALL);
    (asked.sample_period, asked.sample_type) = (1, SampleType::IP | SampleType::STREAM_ID);
    let fd = machine.open(&asked, OpenArguments { cpu: 0, ..OpenArguments::default() }).unwrap();
    let id = machine.ioctl(fd, Ioctl::Id).unwrap();
    let mut reader = machine.map(fd, 1);
    // Not all is inherited: contexts are no clones (rule D20).
    machine.own(&software(Software::DUMMY));
    let child = machine.fork(ME, 200, PROCESS).unwrap();
    machine.faults_of(child, 1);
    machine.ioctl(fd, Ioctl::PauseOutput(true)).unwrap();
    machine.faults_of(child, 2);
    machine.ioctl(fd, Ioctl::PauseOutput(false)).unwrap();
    machine.faults_of(child, 2);
    let bytes = reader.take();
    let told = decoded(&bytes, &asked);
    let streams: Vec<_> = (told.iter())
        .map(|told| match told.record {
            Record::Sample(sample) => sample.stream_id == Some(id),
            _ => told.sample_id.stream_id == Some(id),
        })
        .collect();
    assert_eq!(streams, [false, true, true, false]);
    assert!(matches!(told[1].record, Record::Lost(lost) if lost.lost == 2));
}

/// Rule D14: while a copy lives, a group reading tells no lost records; the copies' are told to the original.
#[test]
fn group_readings_with_copies_hide_what_was_lost() {
    let mut machine = Machine::new(1);
    let mut asked = inherited();
    (asked.sample_period, asked.read_format) = (1, ReadFormat::GROUP | ReadFormat::LOST);
    let fd = machine.open(&asked, OpenArguments { cpu: 0, ..OpenArguments::default() }).unwrap();
    let _reader = machine.map(fd, 1);
    machine.ioctl(fd, Ioctl::PauseOutput(true)).unwrap();
    machine.fault(0, 2);
    assert_eq!(machine.words(fd).unwrap(), [1, 2, 2]);
    let child = machine.fork(ME, 200, PROCESS).unwrap();
    machine.faults_of(child, 3);
    assert_eq!(machine.words(fd).unwrap(), [1, 5, 0]);
    machine.exit(child);
    assert_eq!(machine.words(fd).unwrap(), [1, 5, 5]);
}

/// Rules D10, D11, D14: the sum over the living and the dead, under the id of the original.
#[test]
fn a_value_is_the_sum_of_all_copies() {
    let mut machine = Machine::new(1);
    let mut asked = inherited();
    asked.read_format |= ReadFormat::ID;
    let fd = machine.own(&asked);
    let id = machine.ioctl(fd, Ioctl::Id).unwrap();
    // Not all is inherited: contexts are no clones (rule D20), and the original stays here.
    machine.own(&software(Software::DUMMY));
    let child = machine.fork(ME, 200, PROCESS).unwrap();
    machine.switch(0, Some(child));
    machine.fault(0, 5);
    machine.pass(30);
    machine.switch(0, Some(ME));
    machine.fault(0, 1);
    machine.pass(10);
    assert_eq!(machine.words(fd).unwrap(), [6, 40, 40, id]);
    machine.exit(child);
    assert_eq!(machine.words(fd).unwrap(), [6, 40, 40, id]);
    // Rule C47: counts of children that have ended stay.
    machine.ioctl(fd, Ioctl::Reset { group: false }).unwrap();
    assert_eq!(machine.words(fd).unwrap()[0], 5);
}

/// Rules D12, D13: copies of a group that is no longer the same cannot be added up.
#[test]
fn groups_must_be_the_same_in_children() {
    let mut machine = Machine::new(1);
    let mut asked = inherited();
    asked.read_format |= ReadFormat::GROUP;
    let leader = machine.own(&asked);
    let child = machine.fork(ME, 200, PROCESS).unwrap();
    machine.faults_of(child, 2);
    machine.pass(10);
    assert_eq!(machine.words(leader).unwrap(), [1, 10, 10, 2]);
    machine.join(&asked, leader).unwrap();
    assert_eq!(machine.words(leader), Err(Errno::ECHILD));
    machine.exit(child);
    assert_eq!(machine.words(leader).unwrap(), [2, 10, 10, 2, 0]);
}

/// Rules D20, D21: clones change hands at a switch; counts are the same.
#[test]
fn clones_are_swapped() {
    let mut machine = Machine::new(1);
    let asked = with(inherited(), AttrFlags::INHERIT_STAT);
    let fd = machine.own(&asked);
    let child = machine.fork(ME, 200, PROCESS).unwrap();
    for _ in 0..3 {
        machine.fault(0, 1);
        machine.pass(10);
        machine.faults_of(child, 10);
    }
    assert_eq!(machine.times(fd), (33, 30, 30));
    machine.exit(child);
    assert_eq!(machine.times(fd), (33, 30, 30));
    machine.fault(0, 1);
    assert_eq!(machine.count(fd), 34);
}

/// Rules D30, D31: EXIT, then READ with the count of the child; afterwards values remain and the group takes no
/// member.
#[test]
fn a_task_ends_with_its_records() {
    let mut machine = Machine::new(1);
    let mut asked = with(inherited(), AttrFlags::INHERIT_STAT | AttrFlags::TASK);
    asked.sample_type = SampleType::TID;
    let fd = machine.open(&asked, OpenArguments { cpu: 0, ..OpenArguments::default() }).unwrap();
    // One more event that is not inherited: contexts are no clones.
    machine.own(&software(Software::DUMMY));
    let mut reader = machine.map(fd, 1);
    let child = machine.fork(ME, 200, PROCESS).unwrap();
    machine.switch(0, Some(child));
    machine.fault(0, 4);
    machine.exit(child);
    machine.switch(0, Some(ME));
    let bytes = reader.take();
    let told: Vec<String> = decoded(&bytes, &asked)
        .iter()
        .map(|record| match record.record {
            Record::Fork(task) => format!("fork {}", task.pid),
            Record::Exit(task) => format!("exit {}", task.pid),
            Record::Read(read) => {
                format!("read {} {}", read.tid.pid, read.values.entries().next().unwrap().value)
            }
            ref other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(told, ["fork 200", "exit 200", "read 200 4"]);
    machine.exit(ME);
    assert_eq!((machine.count(fd), machine.poll(fd)), (4, PollFlags::HUP));
    for call in
        [Ioctl::Enable { group: false }, Ioctl::Disable { group: true }, Ioctl::Reset { group: false }]
    {
        assert_eq!(machine.ioctl(fd, call), Ok(0));
    }
    assert_eq!(machine.count(fd), 4);
    assert!(machine.try_map(fd, 1).is_some());
}

/// Rule C42: closing the original ends the copies.
#[test]
fn copies_end_with_the_original() {
    let mut machine = Machine::new(1);
    machine.engine.register(Box::new(Counters::new(1))).unwrap();
    let fd = machine.own(&with(attr(EventType::RAW, 0), AttrFlags::INHERIT));
    let child = machine.fork(ME, 200, PROCESS).unwrap();
    machine.close(fd);
    // The counter is free in both.
    let pinned = with(attr(EventType::RAW, 0), AttrFlags::PINNED);
    let fd = machine.open(&pinned, OpenArguments { pid: 200, ..OpenArguments::default() }).unwrap();
    machine.switch(0, Some(child));
    assert_eq!(machine.state(fd), Some(State::Active));
}

fn exec(machine: &mut Machine, fresh: bool) {
    machine.engine.exec(ME, 0, machine.now, b"new", fresh);
}

/// Rules D40, D41: enabled at exec, each event for itself and once.
#[test]
fn exec_enables_once() {
    let mut machine = Machine::new(1);
    let asked = with(software(Software::PAGE_FAULTS), AttrFlags::DISABLED);
    let waiting = with(asked, AttrFlags::ENABLE_ON_EXEC);
    let leader = machine.own(&waiting);
    let stays = machine.join(&asked, leader).unwrap();
    let starts = machine.join(&software(Software::PAGE_FAULTS), leader).unwrap();
    exec(&mut machine, false);
    let states = [leader, stays, starts].map(|fd| machine.state(fd).unwrap());
    assert_eq!(states, [State::Active, State::Off, State::Active]);
    machine.disable(leader);
    exec(&mut machine, false);
    assert_eq!(machine.state(leader), Some(State::Off));
}

/// Rules C17, D41: a sibling that exec enables gets its turn with its pinned leader, though it is not pinned
/// itself.
#[test]
fn exec_enables_the_sibling_of_a_pinned_leader() {
    let mut machine = Machine::new(1);
    let leader = machine.own(&with(software(Software::PAGE_FAULTS), AttrFlags::PINNED));
    let waiting = AttrFlags::DISABLED | AttrFlags::ENABLE_ON_EXEC;
    let sibling = machine.join(&with(software(Software::PAGE_FAULTS), waiting), leader).unwrap();
    exec(&mut machine, false);
    assert_eq!([leader, sibling].map(|fd| machine.state(fd)), [Some(State::Active); 2]);
}

/// Rules D40, D42, D44: removed at exec, before the new name is told; others go on.
#[test]
fn exec_removes_who_wants_it() {
    let mut machine = Machine::new(1);
    let asked = with(software(Software::PAGE_FAULTS), AttrFlags::COMM);
    let leaves = with(asked, AttrFlags::REMOVE_ON_EXEC);
    let leader = machine.own(&leaves);
    let sibling = machine.join(&asked, leader).unwrap();
    let readers = [leader, sibling].map(|fd| machine.map(fd, 1));
    machine.fault(0, 1);
    exec(&mut machine, false);
    machine.fault(0, 1);
    assert_eq!([leader, sibling].map(|fd| machine.count(fd)), [1, 2]);
    assert_eq!((machine.state(leader), machine.poll(leader)), (Some(State::Exit), PollFlags::HUP));
    let told = readers.map(|mut reader| decoded(&reader.take(), &asked).len());
    assert_eq!(told, [0, 1]);
    assert_eq!(machine.join(&asked, leader), Err(Errno::ENODEV));
    assert!(machine.join(&asked, sibling).is_ok());
}

/// Rule D43: a task that may no longer be looked at is no longer measured.
#[test]
fn a_privileged_program_is_not_measured() {
    let mut machine = Machine::new(1);
    let asked = with(software(Software::PAGE_FAULTS), AttrFlags::TASK | AttrFlags::COMM);
    let fd = machine.own(&asked);
    let mut reader = machine.map(fd, 1);
    machine.fault(0, 2);
    exec(&mut machine, true);
    machine.fault(0, 2);
    assert_eq!((machine.count(fd), machine.poll(fd)), (2, PollFlags::HUP));
    let bytes = reader.take();
    let all = decoded(&bytes, &asked);
    assert!(matches!(all[0].record, Record::Comm(_)) && matches!(all[1].record, Record::Exit(_)), "{all:?}");
    // The task lives, and those who may can measure it again.
    let again = machine.own(&asked);
    machine.fault(0, 1);
    assert_eq!(machine.count(again), 1);
    assert_eq!(TaskId(100), ME);
}
