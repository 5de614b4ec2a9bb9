//! Records that go to another event's ring (rules G30 to G33).

use super::ring::small;
use crate::machine::{Machine, decoded, with};
use perfuse_engine::abi::{AttrFlags, Errno, OpenFlags, SampleType};
use perfuse_engine::{CloneFlags, EventKey, OpenArguments};

const ANY: OpenArguments = OpenArguments { pid: 0, cpu: -1, group_fd: -1, flags: OpenFlags::empty() };

fn mapped(machine: &mut Machine, arguments: OpenArguments) -> i32 {
    let fd = machine.open(&small(), arguments).unwrap();
    machine.map(fd, 1);
    fd
}

/// Rule G30: the two must measure the same.
#[test]
fn output_needs_the_same_cpu_context_clock_and_direction() {
    let mut machine = Machine::new(2);
    machine.task(200);
    let target = mapped(&mut machine, ANY);
    let refused = |machine: &mut Machine, attr, arguments| {
        let fd = machine.open(&attr, arguments).unwrap();
        assert_eq!(machine.redirect(fd, Some(target)), Err(Errno::EINVAL), "{attr:?} {arguments:?}");
    };
    refused(&mut machine, small(), OpenArguments { cpu: 0, ..ANY });
    refused(&mut machine, small(), OpenArguments { pid: 200, ..ANY });
    refused(&mut machine, with(small(), AttrFlags::WRITE_BACKWARD), ANY);
    let mut clock = with(small(), AttrFlags::USE_CLOCKID);
    clock.clockid = 1;
    refused(&mut machine, clock, ANY);
    assert_eq!(machine.redirect(target, Some(target)), Err(Errno::EINVAL));
    // One that is mapped itself keeps its ring, and cannot be detached.
    let other = mapped(&mut machine, ANY);
    assert_eq!(machine.redirect(other, Some(target)), Err(Errno::EINVAL));
    assert_eq!(machine.redirect(other, None), Err(Errno::EINVAL));
    // And one without a ring has none to give.
    let [first, second] = [(); 2].map(|()| machine.open(&small(), ANY).unwrap());
    assert_eq!(machine.redirect(first, Some(second)), Err(Errno::EINVAL));
    let output =
        OpenArguments { group_fd: second, flags: OpenFlags::FD_OUTPUT | OpenFlags::FD_NO_GROUP, ..ANY };
    assert_eq!(machine.open(&small(), output), Err(Errno::EINVAL));
}

/// Rule G31: the ring of a cpu can be shared between tasks.
#[test]
fn a_cpu_bound_ring_serves_several_tasks() {
    let mut machine = Machine::new(2);
    machine.task(200);
    let here = OpenArguments { cpu: 0, ..ANY };
    let target = mapped(&mut machine, here);
    let other = machine.open(&small(), OpenArguments { pid: 200, ..here }).unwrap();
    assert_eq!(machine.redirect(other, Some(target)), Ok(0));
}

/// Rules G30, G32: the ring that the target has at that moment is taken, be it another's.
#[test]
fn redirection_is_once_and_can_be_chained() {
    let mut machine = Machine::new(1);
    let mut attr = small();
    attr.sample_type = SampleType::ID;
    let fds = [(); 3].map(|()| machine.open(&attr, ANY).unwrap());
    let mut reader = machine.map(fds[0], 1);
    machine.redirect(fds[1], Some(fds[0])).unwrap();
    machine.redirect(fds[2], Some(fds[1])).unwrap();
    machine.fault(0, 1);
    assert_eq!(decoded(&reader.take(), &attr).len(), 3);
    // The one in the middle leaves; the one behind it stays.
    machine.redirect(fds[1], None).unwrap();
    machine.fault(0, 1);
    assert_eq!(decoded(&reader.take(), &attr).len(), 2);
}

/// Rule G32: to nowhere, if the ring has no data.
#[test]
fn a_ring_without_data_swallows_records() {
    let mut machine = Machine::new(1);
    let target = machine.open(&small(), ANY).unwrap();
    machine.map(target, 0);
    let other = machine.open(&small(), ANY).unwrap();
    assert_eq!(machine.redirect(other, Some(target)), Ok(0));
    machine.fault(0, 3);
    assert_eq!(machine.words(other).unwrap(), [3, 0]);
}

/// Rule G33: children write where their original does, wherever that is by then.
#[test]
fn children_follow_their_original() {
    let mut machine = Machine::new(1);
    let inherited = with(small(), AttrFlags::INHERIT);
    let here = OpenArguments { cpu: 0, ..ANY };
    let fd = machine.open(&inherited, here).unwrap();
    let target = machine.open(&inherited, here).unwrap();
    let child = machine.fork(crate::machine::ME, 200, CloneFlags::default()).unwrap();
    let mut reader = machine.map(target, 1);
    machine.redirect(fd, Some(target)).unwrap();
    machine.switch(0, Some(child));
    machine.fault(0, 1);
    assert_eq!(decoded(&reader.take(), &inherited).len(), 2);
}

/// A descriptor that is closed is none to write to.
#[test]
fn a_closed_target_is_no_target() {
    let mut machine = Machine::new(1);
    let target = machine.open(&small(), ANY).unwrap();
    let key: EventKey = machine.key(target);
    machine.close(target);
    let fd = machine.open(&small(), ANY).unwrap();
    let own = machine.key(fd);
    let ioctl = perfuse_engine::Ioctl::SetOutput(Some(key));
    let caller = crate::machine::ME;
    assert_eq!(machine.engine.ioctl(&mut machine.world, caller, own, machine.now, ioctl), Err(Errno::EBADF));
}
