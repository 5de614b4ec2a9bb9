//! The account for the pages of a ring (rules F7, F20 to F22).

use crate::machine::{ME, Machine, software};
use perfuse_engine::abi::{Errno, Software};
use perfuse_engine::{LockLimit, MapRequest, OpenArguments, Sysctl};

/// Maps a ring of one page of data, whose two pages are charged, so many times.
fn map_until_refused(machine: &mut Machine) -> usize {
    for number in 0..200 {
        let fd = machine.open(&software(Software::DUMMY), OpenArguments::default()).unwrap();
        let key = machine.key(fd);
        match machine.engine.mmap(&mut machine.world, ME, key, machine.now, MapRequest::ring(1)) {
            Ok(_) => {}
            Err(errno) => {
                assert_eq!(errno, Errno::EPERM);
                return number;
            }
        }
    }
    usize::MAX
}

fn limited(cpus: u32, pages: u64) -> Machine {
    let mut machine = Machine::new(cpus);
    machine.world.privileged = false;
    machine.world.limit = LockLimit { user: 1000, pages, space: 1 };
    machine.engine.set_sysctl(Sysctl::PerfEventParanoid, "1").unwrap();
    machine
}

/// Rules F7, F20: 516 KiB a cpu are 129 pages; pages beyond are on the process.
#[test]
fn a_user_may_lock_so_much_a_cpu_and_the_process_the_rest() {
    assert_eq!(map_until_refused(&mut limited(2, 0)), 129);
    assert_eq!(map_until_refused(&mut limited(1, 0)), 64);
    assert_eq!(map_until_refused(&mut limited(1, 1)), 65);
    assert_eq!(map_until_refused(&mut limited(2, 20)), 139);
    let mut machine = limited(1, 0);
    machine.engine.set_sysctl(Sysctl::PerfEventMlockKb, "16").unwrap();
    assert_eq!(map_until_refused(&mut machine), 2);
}

/// Rule F20: all are allowed at -1, and with the capability.
#[test]
fn who_may_lock_memory_is_not_counted() {
    let mut machine = limited(1, 0);
    machine.engine.set_sysctl(Sysctl::PerfEventParanoid, "-1").unwrap();
    assert_eq!(map_until_refused(&mut machine), usize::MAX);
    let mut machine = limited(1, 0);
    machine.world.privileged = true;
    assert_eq!(map_until_refused(&mut machine), usize::MAX);
}

/// Rule F21: the pages of the address space count, even where the user has room.
#[test]
fn a_limit_that_was_lowered_refuses() {
    let mut machine = limited(1, 10);
    assert_eq!(map_until_refused(&mut machine), 69);
    // Another user's account is empty; the address space is the same.
    machine.world.limit = LockLimit { user: 1001, pages: 5, space: 1 };
    assert_eq!(map_until_refused(&mut machine), 0);
    machine.world.limit = LockLimit { user: 1001, pages: 5, space: 2 };
    assert_eq!(map_until_refused(&mut machine), 67);
}

/// Rule F22: a ring that is mapped again is paid for again, and that is never given back.
#[test]
fn mapping_again_is_charged_for_good() {
    let mut machine = limited(1, 0);
    let fd = machine.open(&software(Software::DUMMY), OpenArguments::default()).unwrap();
    for _ in 0..2 {
        machine.map(fd, 32);
    }
    let key = machine.key(fd);
    (0..2).for_each(|_| machine.engine.munmap(key, machine.now));
    assert_eq!(map_until_refused(&mut machine), (129 - 33) / 2);
}
