//! More events than a text would name.

use perfuse_engine::OpenArguments;
use perfuse_engine::abi::{Attr, Errno, EventType, Hardware, ReadFormat, Software};
use perfuse_sim::{KINDS, Machine, Setup, Step, program};

/// A machine with four counters, and a task that works for ten seconds, at a thousand cycles a microsecond.
fn machine() -> (Machine, perfuse_engine::TaskId) {
    let mut machine = Machine::new(Setup::default());
    let mut rates = [0; KINDS];
    rates[0] = 1000;
    let work = |ns| Step::Compute { ns, kernel: false, rates };
    let fault = Step::Fault { count: 1, major: false, addr: 0x1000 };
    machine.know(program("work", vec![work(1_000_000), fault, work(10_000_000_000)]));
    let task = machine.spawn("work").expect("it is known");
    (machine, task)
}

/// Rules C25, C27: everyone's turn is as long, and the counters are never idle.
#[test]
fn a_thousand_events_share_four_counters() {
    const EVENTS: u64 = 1000;
    let (mut machine, task) = machine();
    let asked = Attr {
        config: Hardware::CPU_CYCLES.0,
        read_format: ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING,
        ..Attr::new(EventType::HARDWARE)
    };
    let open = |machine: &mut Machine| machine.open(task, &asked, OpenArguments::default());
    let all: Vec<i32> = (0..EVENTS).map(|_| open(&mut machine).expect("there is no limit")).collect();
    // A turn is a tick of 4 ms, and after a thousand of them all have had four.
    let turns = EVENTS * 4_000_000;
    machine.run_until(turns);
    for fd in all {
        assert_eq!(machine.read(fd), Ok(vec![16_000_000, turns, 16_000_000]));
    }
}

/// Rule B31: a group is as large as its reading may be, and then is read whole.
#[test]
fn a_huge_group_is_read_whole() {
    let (mut machine, task) = machine();
    machine.world.privileged = true;
    let asked = Attr {
        config: Software::PAGE_FAULTS.0,
        read_format: ReadFormat::GROUP | ReadFormat::ID,
        ..Attr::new(EventType::SOFTWARE)
    };
    let leader = machine.open(task, &asked, OpenArguments::default()).expect("a leader");
    let member = OpenArguments { group_fd: leader, ..OpenArguments::default() };
    let mut members = 1;
    let refused = loop {
        match machine.open(task, &asked, member) {
            Ok(_) => members += 1,
            Err(errno) => break errno,
        }
    };
    // The number of members, then value and id of each, in less than 16 KiB.
    assert_eq!((members, refused), (1023, Errno::E2BIG));
    machine.run_until(2_000_000);
    let words = machine.read(leader).expect("it can be read");
    assert_eq!((words.len(), words[0]), (1 + 2 * 1023, 1023));
    assert!(words[1..].chunks(2).all(|member| member[0] == 1), "all saw the fault");
    let mut ids: Vec<u64> = words[1..].chunks(2).map(|member| member[1]).collect();
    ids.dedup();
    assert_eq!(ids.len(), 1023);
}
