//! Scheduling: contexts, groups, turns (sections C.1 to C.3).

use crate::machine::{Counters, ME, Machine, attr, software, with};
use perfuse_engine::abi::{Attr, AttrFlags, EventType, OpenFlags, ReadFormat, Software};
use perfuse_engine::{CgroupId, OpenArguments, State, TaskId};

fn raw() -> Attr {
    attr(EventType::RAW, 0)
}

fn pinned() -> Attr {
    with(raw(), AttrFlags::PINNED)
}

fn alone() -> Attr {
    with(raw(), AttrFlags::EXCLUSIVE)
}

fn machine(counters: usize) -> Machine {
    let mut machine = Machine::new(2);
    machine.engine.register(Box::new(Counters::new(counters))).unwrap();
    machine
}

/// Which of these count now.
fn on(machine: &Machine, fds: &[i32]) -> String {
    let mark = |&fd| if machine.state(fd) == Some(State::Active) { '1' } else { '0' };
    fds.iter().map(mark).collect()
}

/// Rules C1, C2, C10: cpu pinned, task pinned, cpu flexible, task flexible; in each the oldest first.
#[test]
fn pinned_go_before_flexible_and_cpus_before_tasks() {
    let mut machine = machine(2);
    let task_flexible = machine.own(&raw());
    let cpu_flexible = machine.wide(&raw(), 0).unwrap();
    assert_eq!(on(&machine, &[task_flexible, cpu_flexible]), "11");
    let task_pinned = machine.own(&pinned());
    assert_eq!(on(&machine, &[task_flexible, cpu_flexible, task_pinned]), "011");
    let cpu_pinned = machine.wide(&pinned(), 0).unwrap();
    assert_eq!(on(&machine, &[task_flexible, cpu_flexible, task_pinned, cpu_pinned]), "0011");
    machine.wide(&pinned(), 0).unwrap();
    assert_eq!(on(&machine, &[task_flexible, cpu_flexible, task_pinned, cpu_pinned]), "0001");
    assert_eq!(machine.state(task_pinned), Some(State::Error));
}

/// Rules C3, C5, C12: groups of software events are never in the way, and nothing is in theirs.
#[test]
fn software_always_fits() {
    let mut machine = machine(1);
    let first = machine.own(&raw());
    let second = machine.own(&raw());
    let faults = machine.own(&software(Software::PAGE_FAULTS));
    machine.join(&software(Software::DUMMY), faults).unwrap();
    assert_eq!(on(&machine, &[first, second, faults]), "101");
    // Rule C37: mixed, they wait as hardware does.
    let mixed = machine.own(&raw());
    let sibling = machine.join(&software(Software::PAGE_FAULTS), mixed).unwrap();
    assert_eq!(on(&machine, &[mixed, sibling]), "00");
}

/// Rule C4: an event of a cgroup belongs to its cpu. Rules C11, C21, C34: it counts and ages while a task of
/// the cgroup or of one within it runs there.
#[test]
fn cgroups_count_their_tasks_on_one_cpu() {
    let mut machine = machine(4);
    machine.engine.add_cgroup(CgroupId(2), CgroupId(1));
    machine.engine.add_cgroup(CgroupId(3), CgroupId(2));
    machine.world.cgroups.insert(7, CgroupId(2));
    let arguments =
        OpenArguments { pid: 7, cpu: 0, flags: OpenFlags::PID_CGROUP, ..OpenArguments::default() };
    let fd = machine.open(&software(Software::PAGE_FAULTS), arguments).unwrap();
    let hardware = machine.open(&raw(), arguments).unwrap();
    let inner = machine.task(200);
    machine.engine.move_to_cgroup(inner, CgroupId(3), machine.now);
    machine.fault(0, 5);
    machine.pass(100);
    assert_eq!(machine.times(fd), (0, 0, 0));
    machine.switch(0, Some(inner));
    machine.fault(0, 2);
    machine.pass(70);
    machine.switch(0, Some(ME));
    machine.pass(100);
    assert_eq!(machine.times(fd), (2, 70, 70));
    assert_eq!(machine.times(hardware), (70, 70, 70));
    // On another cpu it hears nothing.
    machine.switch(1, Some(inner));
    machine.fault(1, 2);
    assert_eq!(machine.count(fd), 2);
}

/// Rule C13: a group that does not fit leaves no member behind on the cpu.
#[test]
fn a_group_is_on_as_a_whole() {
    let mut machine = machine(2);
    let single = machine.own(&raw());
    let leader = machine.own(&raw());
    let sibling = machine.join(&raw(), leader).unwrap();
    for _ in 0..10 {
        machine.pass(1_000_000);
        assert!(["10 0", "01 1"].contains(&&*format!(
            "{} {}",
            on(&machine, &[single, leader]),
            on(&machine, &[sibling])
        )));
        assert_eq!(machine.times(leader).2, machine.times(sibling).2);
    }
    assert!(machine.times(leader).2 > 0 && machine.times(single).2 > 0);
}

/// Rule C14: a place on the counter begins and ends with the time running.
#[test]
fn exclusiveness_ends_with_the_event() {
    let mut machine = machine(2);
    let exclusive = machine.own(&alone());
    let other = machine.own(&raw());
    assert_eq!(on(&machine, &[exclusive, other]), "10");
    machine.disable(exclusive);
    machine.pass(4_000_000);
    assert_eq!(on(&machine, &[exclusive, other]), "01");
}

/// Rule C15: exclusive is meant within a list: flexible ones run beside pinned ones.
#[test]
fn an_exclusive_group_runs_beside_pinned_ones() {
    let mut machine = machine(4);
    let first = machine.own(&pinned());
    let exclusive = machine.own(&alone());
    assert_eq!(on(&machine, &[first, exclusive]), "11");
    // A pinned exclusive one beside a pinned one is in error.
    let both = machine.own(&with(alone(), AttrFlags::PINNED));
    assert_eq!(machine.state(both), Some(State::Error));
    // One of the cpu blocks all that come later.
    let wide = machine.wide(&with(alone(), AttrFlags::PINNED), 0).unwrap();
    assert_eq!(on(&machine, &[wide, first, exclusive]), "100");
    assert_eq!(machine.state(first), Some(State::Error));
}

/// Rule C16: the place in the queue decides.
#[test]
fn an_exclusive_group_waits_for_its_turn() {
    let mut machine = machine(4);
    let first = machine.own(&raw());
    let exclusive = machine.own(&alone());
    let last = machine.own(&raw());
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..12 {
        machine.pass(1_000_000);
        seen.insert(on(&machine, &[first, exclusive, last]));
    }
    let expected = ["100", "010", "101"].map(String::from);
    assert_eq!(seen, expected.into());
}

/// Rule C17: one that comes switched off takes no counter from others, and gives none a turn.
#[test]
fn an_event_that_is_off_moves_nobody() {
    let mut machine = machine(1);
    let first = machine.own(&raw());
    let second = machine.own(&raw());
    machine.close(first);
    machine.own(&with(raw(), AttrFlags::DISABLED));
    assert_eq!(on(&machine, &[second]), "0");
    machine.own(&software(Software::DUMMY));
    assert_eq!(on(&machine, &[second]), "0", "another PMU's turn");
    machine.own(&raw());
    assert_eq!(on(&machine, &[second]), "1");
}

/// Rule C23: a software event whose leader is another PMU's waits for the leader's next turn.
#[test]
fn a_software_event_under_another_pmus_leader_waits_for_a_switch() {
    let mut machine = Machine::new(1);
    let leader = machine.own(&software(Software::TASK_CLOCK));
    let member = machine.join(&software(Software::PAGE_FAULTS), leader).unwrap();
    assert_eq!(on(&machine, &[leader, member]), "10");
    machine.switch(0, None);
    machine.switch(0, Some(ME));
    assert_eq!(on(&machine, &[leader, member]), "11");
    machine.disable(member);
    machine.enable(member);
    assert_eq!(on(&machine, &[leader, member]), "10");
    machine.disable(leader);
    machine.enable(leader);
    assert_eq!(on(&machine, &[leader, member]), "11");
}

/// Rule C17: an event that comes displaces those of lower priority at once. Rule C18: a free counter waits for the
/// next turn, and a pinned event in error until it is enabled.
#[test]
fn coming_is_at_once_and_going_is_not() {
    let mut machine = machine(1);
    let flexible = machine.own(&raw());
    let strong = machine.own(&pinned());
    assert_eq!(on(&machine, &[flexible, strong]), "01");
    machine.disable(strong);
    assert_eq!(on(&machine, &[flexible, strong]), "00");
    machine.pass(4_000_000);
    assert_eq!(on(&machine, &[flexible, strong]), "10");
    machine.enable(strong);
    assert_eq!(on(&machine, &[flexible, strong]), "01");
}

/// Rule C19: a task that comes with pinned events takes the counter from the cpu's flexible ones.
#[test]
fn a_task_brings_its_pinned_events() {
    let mut machine = machine(1);
    machine.task(200);
    let arguments = OpenArguments { pid: 200, ..OpenArguments::default() };
    let strong = machine.open(&pinned(), arguments).unwrap();
    let wide = machine.wide(&raw(), 0).unwrap();
    assert_eq!(on(&machine, &[strong, wide]), "01");
    machine.switch(0, Some(TaskId(200)));
    assert_eq!(on(&machine, &[strong, wide]), "10");
    machine.switch(0, Some(ME));
    assert_eq!(on(&machine, &[strong, wide]), "00");
}

/// Rules C20, C28: events of the cpu have their turns first and tasks get what is left, which may be nothing.
#[test]
fn cpus_can_starve_tasks() {
    let mut machine = machine(2);
    let own = machine.own(&raw());
    let wide: Vec<i32> = (0..3).map(|_| machine.wide(&raw(), 0).unwrap()).collect();
    machine.pass(100_000_000);
    assert_eq!(machine.times(own).2, 0);
    assert!(wide.iter().all(|&fd| machine.times(fd).2 > 0));
    machine.close(wide[0]);
    machine.close(wide[1]);
    machine.pass(8_000_000);
    assert_eq!(on(&machine, &[own, wide[2]]), "11");
}

/// Rule C22: a cpu that goes takes its own events with it, for good, and leaves what tasks have there.
#[test]
fn a_cpu_that_goes_ends_its_events() {
    let mut machine = machine(2);
    machine.switch(1, None);
    let software = software(Software::PAGE_FAULTS);
    let wide = machine.wide(&software, 1).unwrap();
    let arguments = OpenArguments { cpu: 1, ..OpenArguments::default() };
    let bound = machine.open(&software, arguments).unwrap();
    machine.fault(1, 3);
    machine.engine.cpu_offline(1, machine.now);
    assert_eq!(machine.state(wide), Some(State::Off));
    assert_eq!(machine.count(wide), 3);
    machine.enable(wide);
    machine.engine.cpu_online(1);
    machine.fault(1, 3);
    assert_eq!((machine.count(wide), machine.state(wide)), (3, Some(State::Off)));
    let join = OpenArguments { pid: -1, cpu: 1, group_fd: wide, ..OpenArguments::default() };
    assert_eq!(machine.open(&software, join), Err(perfuse_engine::abi::Errno::ENODEV));
    machine.switch(0, None);
    machine.switch(1, Some(ME));
    machine.fault(1, 2);
    assert_eq!(machine.count(bound), 2);
}

/// Rules C25, C26: the timer of turns runs while a group waits, at the interval of the PMU; the first in the
/// queue goes to its end.
#[test]
fn turns_are_taken_while_somebody_waits() {
    let mut machine = machine(1);
    let (pmu, _) = machine.engine.pmu_by_name("cpu").unwrap();
    machine.engine.set_mux_interval_ms(pmu, 20).unwrap();
    let first = machine.own(&raw());
    assert_eq!(machine.engine.deadline(0), None);
    let second = machine.own(&raw());
    assert_eq!(machine.engine.deadline(0), Some(machine.now + 20_000_000));
    machine.pass(19_999_999);
    assert_eq!(on(&machine, &[first, second]), "10");
    machine.pass(1);
    assert_eq!(on(&machine, &[first, second]), "01");
    machine.close(first);
    machine.pass(40_000_000);
    assert_eq!(machine.engine.deadline(0), None);
}

/// Rule C40: an event that makes sense only with its leader fails without it, and cannot be enabled.
#[test]
fn dependent_events_fail_with_their_leader() {
    let mut machine = Machine::new(1);
    let mut counters = Counters::new(4);
    counters.dependent = Some(9);
    machine.engine.register(Box::new(counters)).unwrap();
    let leader = machine.own(&raw());
    let dependent = machine.join(&attr(EventType::RAW, 9), leader).unwrap();
    let sibling = machine.join(&raw(), leader).unwrap();
    machine.close(leader);
    assert_eq!(on(&machine, &[dependent, sibling]), "01");
    machine.enable(dependent);
    assert_eq!(machine.state(dependent), Some(State::Error));
}

/// Rules E8, N4: a group is read in one transaction; that does not change what it counts.
#[test]
fn hardware_groups_are_read_at_once() {
    let mut machine = machine(2);
    let leader = machine.own(&Attr { read_format: ReadFormat::GROUP, ..raw() });
    machine.join(&raw(), leader).unwrap();
    machine.pass(50);
    assert_eq!(machine.words(leader).unwrap(), [2, 50, 50]);
}
