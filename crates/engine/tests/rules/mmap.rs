//! Mapping rings (rules F1 to F13).

use crate::machine::{ME, Machine, Reader, decoded, software, with};
use perfuse_engine::abi::{Attr, AttrFlags, Errno, PollFlags, SampleType, Software};
use perfuse_engine::{MapRequest, OpenArguments};

fn sampling() -> Attr {
    let mut attr = software(Software::PAGE_FAULTS);
    attr.set_period(1);
    attr.sample_type = SampleType::IP;
    attr
}

fn try_map(machine: &mut Machine, fd: i32, request: MapRequest) -> Result<Reader, Errno> {
    let key = machine.key(fd);
    let memory = machine.engine.mmap(&mut machine.world, ME, key, machine.now, request)?;
    Ok(Reader::of(memory))
}

/// Rule F1.
#[test]
fn an_inherited_event_is_mapped_for_one_cpu_only() {
    let mut machine = Machine::new(1);
    let inherited = with(sampling(), AttrFlags::INHERIT);
    let everywhere = machine.open(&inherited, OpenArguments::default()).unwrap();
    assert_eq!(try_map(&mut machine, everywhere, MapRequest::ring(1)).err(), Some(Errno::EINVAL));
    let here = machine.open(&inherited, OpenArguments { cpu: 0, ..OpenArguments::default() }).unwrap();
    assert!(try_map(&mut machine, here, MapRequest::ring(1)).is_ok());
}

/// Rules F2, F5, F8: F2 comes before all that is about sizes.
#[test]
fn a_ring_is_a_shared_power_of_two_of_pages() {
    let mut machine = Machine::new(1);
    let fd = machine.open(&sampling(), OpenArguments::default()).unwrap();
    let private = MapRequest { shared: false, ..MapRequest::ring(1) };
    assert_eq!(try_map(&mut machine, fd, private).err(), Some(Errno::EINVAL));
    for wrong in [3, 5, 6, 7, 12] {
        assert_eq!(try_map(&mut machine, fd, MapRequest::ring(wrong)).err(), Some(Errno::EINVAL), "{wrong}");
    }
    assert_eq!(try_map(&mut machine, fd, MapRequest::ring(1 << 19)).err(), Some(Errno::ENOMEM));
    for right in [0, 1, 2, 64] {
        assert!(try_map(&mut machine, fd, MapRequest::ring(right)).is_ok(), "{right}");
        let key = machine.key(fd);
        machine.engine.munmap(key, machine.now);
    }
}

/// Rules F3, D31: a ring can be had when the task has ended, not when the PMU is gone.
#[test]
fn a_ring_can_be_mapped_after_the_task_has_ended() {
    let mut machine = Machine::new(1);
    let fd = machine.open(&sampling(), OpenArguments::default()).unwrap();
    machine.engine.exit(ME, None, 0, machine.now);
    assert!(try_map(&mut machine, fd, MapRequest::ring(1)).is_ok());
}

/// Rule F6.
#[test]
fn a_second_mapping_shows_the_same_ring() {
    let mut machine = Machine::new(1);
    let fd = machine.open(&sampling(), OpenArguments::default()).unwrap();
    let first = try_map(&mut machine, fd, MapRequest::ring(2)).unwrap();
    assert_eq!(try_map(&mut machine, fd, MapRequest::ring(1)).err(), Some(Errno::EINVAL));
    let second = try_map(&mut machine, fd, MapRequest::ring(2)).unwrap();
    assert!(std::sync::Arc::ptr_eq(&first.memory, &second.memory));
    let other = machine.open(&sampling(), OpenArguments::default()).unwrap();
    machine.redirect(other, Some(fd)).unwrap();
    assert_eq!(try_map(&mut machine, other, MapRequest::ring(2)).err(), Some(Errno::EBUSY));
    assert_eq!(try_map(&mut machine, other, MapRequest::ring(1)).err(), Some(Errno::EINVAL));
}

/// Rules F10, F13: a reader that cannot write the tail is not waited for.
#[test]
fn a_ring_mapped_for_reading_only_is_overwritten() {
    let mut machine = Machine::new(1);
    let fd = machine.open(&sampling(), OpenArguments::default()).unwrap();
    let reader = try_map(&mut machine, fd, MapRequest { writable: false, ..MapRequest::ring(1) }).unwrap();
    assert_eq!(reader.head(), 0);
    machine.fault(0, 1000);
    assert_eq!(reader.head(), 16_000);
}

/// Rule F13: the engine takes any tail of the reader modulo the size.
#[test]
fn a_mad_tail_costs_records_and_nothing_else() {
    let mut machine = Machine::new(1);
    let fd = machine.open(&sampling(), OpenArguments::default()).unwrap();
    let reader = try_map(&mut machine, fd, MapRequest::ring(1)).unwrap();
    for tail in [u64::MAX, 1 << 63, 7, 4096 * 3 + 5] {
        reader.set_tail(tail);
        machine.fault(0, 300);
    }
    assert!(reader.head() < 4 * 4096);
}

/// Rule F12: a mapping holds the event, which goes on recording.
#[test]
fn a_mapping_keeps_a_closed_event_recording() {
    let mut machine = Machine::new(1);
    let attr = sampling();
    let fd = machine.open(&attr, OpenArguments::default()).unwrap();
    let mut reader = machine.map(fd, 1);
    let key = machine.key(fd);
    machine.close(fd);
    machine.fault(0, 3);
    assert_eq!(decoded(&reader.take(), &attr).len(), 3);
    machine.engine.munmap(key, machine.now);
    assert_eq!(machine.engine.state(key), None);
}

/// Rule F12: the last mapping of a buffer takes it from all who were sent there; they can have their own
/// then.
#[test]
fn the_last_mapping_takes_the_buffer_from_all() {
    let mut machine = Machine::new(1);
    let mapped = machine.open(&sampling(), OpenArguments::default()).unwrap();
    let other = machine.open(&sampling(), OpenArguments::default()).unwrap();
    machine.map(mapped, 1);
    machine.redirect(other, Some(mapped)).unwrap();
    let (mapped, other_key) = (machine.key(mapped), machine.key(other));
    assert_eq!(machine.engine.poll(other_key), PollFlags::empty());
    machine.engine.munmap(mapped, machine.now);
    assert_eq!(machine.engine.poll(other_key), PollFlags::HUP);
    machine.fault(0, 5);
    let mut own = machine.map(other, 4);
    machine.fault(0, 1);
    assert_eq!(decoded(&own.take(), &sampling()).len(), 1);
}
