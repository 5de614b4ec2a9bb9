//! Where tasks are between the calls that tell of them.

use super::{Machine, Rights, Settings};
use perfuse_abi::wire::{Layout, Writer};
use perfuse_abi::{Attr, AttrFlags, ByteOrder, EventType, Software};
use perfuse_engine::{EventKey, OpenArguments, TaskId};

fn open(machine: &mut Machine, task: TaskId, which: Software, period: u64) -> EventKey {
    let mut attr = Attr { config: which.0, ..Attr::new(EventType::SOFTWARE) };
    attr.flags |= AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    attr.sample_period = period;
    let mut bytes = Vec::new();
    attr.layout(&mut Writer::new(&mut bytes, ByteOrder::NATIVE)).expect("room");
    machine.open(task, &mut bytes, OpenArguments::default(), None, Rights::OWN).expect("it can be opened")
}

/// Rules B6, B21: the limits of samples are those of the kernel below.
#[test]
fn limits_are_those_of_the_kernel_below() {
    use perfuse_engine::Sysctl;
    let mut machine = Machine::new(Settings::default());
    let task = machine.adopt_caller();
    machine.engine.follow_sysctl(Sysctl::PerfEventMaxStack, "0").expect("a number");
    machine.engine.follow_sysctl(Sysctl::PerfEventMaxSampleRate, "1").expect("a number");
    open(&mut machine, task, Software::CPU_CLOCK, 1_000_000);
    for which in [Sysctl::PerfEventMaxStack, Sysctl::PerfEventMaxSampleRate] {
        if let Some(text) = crate::proc::sysctl(which.name()) {
            assert_eq!(machine.engine.sysctl(which), text.trim());
        }
    }
}

/// Telling of a task costs nothing for each of its events, however many they are, as these stay on the cpu; but those that
/// ask for something are asked each time.
#[test]
fn a_task_keeps_its_place_while_nothing_is_asked_of_it() {
    let mut machine = Machine::new(Settings::default());
    let task = machine.adopt_caller();
    let counting = [(); 3].map(|()| open(&mut machine, task, Software::TASK_CLOCK, 0));
    let stays = |machine: &mut Machine| {
        machine.update(task);
        let on = counting.map(|event| machine.engine.counts_on(event));
        assert!(on.iter().all(|other| *other == on[0]));
        assert_eq!(machine.engine.place_of(task), on[0]);
        on[0].is_some()
    };
    assert!(stays(&mut machine));
    let values = |machine: &mut Machine| {
        let mut bytes = Vec::new();
        machine.engine.read(counting[0], machine.now(), 8, &mut bytes).expect("it can be read");
        u64::from_ne_bytes(bytes.try_into().expect("one number"))
    };
    let first = values(&mut machine);
    assert_eq!(first, values(&mut machine), "it is told of no time");
    machine.update(task);
    assert!(values(&mut machine) > first);
    let sampling = open(&mut machine, task, Software::CPU_CLOCK, 1_000_000);
    assert!(!stays(&mut machine));
    machine.close(sampling);
    assert!(stays(&mut machine));
    // Another one takes its cpu.
    let cpu = machine.cpu_of(task);
    let now = machine.now();
    let other = machine.born(task, 1 << 29, 1 << 29);
    assert_eq!(machine.engine.place_of(task), None);
    machine.come(other, cpu, now);
    assert_eq!(machine.engine.place_of(other), Some(cpu));
    machine.end(other, Some(task));
    assert_eq!(machine.engine.current(cpu), None);
}
