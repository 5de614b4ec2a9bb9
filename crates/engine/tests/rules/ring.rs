//! The ring itself (rules G1 to G13).

use crate::machine::{Machine, PAGE, decoded, records, software, with};
use perfuse_engine::abi::record::{Record, RecordType};
use perfuse_engine::abi::{Attr, AttrFlags, ReadFormat, SampleType, Software};
use perfuse_engine::ring::{Full, Ring, RingOptions};
use perfuse_engine::{AtomicU64, CloneFlags, Hit, Ioctl, MapRequest, Memory, OpenArguments};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Sixteen bytes a sample; `read(2)` tells how many were lost.
pub(crate) fn small() -> Attr {
    let mut attr = software(Software::PAGE_FAULTS);
    attr.set_period(1);
    attr.sample_type = SampleType::IP;
    attr.read_format = ReadFormat::LOST;
    attr
}

fn ring(options: RingOptions) -> (Ring, Arc<dyn Memory>) {
    let memory: Arc<dyn Memory> =
        Arc::new((0..2 * PAGE / 8).map(|_| AtomicU64::new(0)).collect::<Vec<AtomicU64>>());
    (Ring::new(memory.clone(), PAGE, options), memory)
}

fn word(memory: &Arc<dyn Memory>, at: usize) -> u64 {
    memory.words()[at / 8].load(Ordering::Acquire)
}

fn write(ring: &Ring, bytes: &[u8]) -> Result<bool, Full> {
    let mut slot = ring.begin(bytes.len(), 24)?;
    slot.put(bytes);
    Ok(slot.finish())
}

/// Rule G1: without a ring nothing is counted as lost.
#[test]
fn records_without_a_ring_vanish_uncounted() {
    let mut machine = Machine::new(1);
    let fd = machine.open(&small(), OpenArguments::default()).unwrap();
    machine.fault(0, 9);
    assert_eq!(machine.words(fd).unwrap(), [9, 0]);
}

/// Rules G2, E5: nor are those of a ring that has no data; a paused one counts.
#[test]
fn a_paused_ring_counts_what_it_loses() {
    let mut machine = Machine::new(1);
    let fd = machine.open(&small(), OpenArguments::default()).unwrap();
    let mut reader = machine.map(fd, 1);
    machine.ioctl(fd, Ioctl::PauseOutput(true)).unwrap();
    machine.fault(0, 5);
    machine.ioctl(fd, Ioctl::PauseOutput(false)).unwrap();
    assert_eq!(machine.words(fd).unwrap(), [5, 5]);
    machine.fault(0, 1);
    let bytes = reader.take();
    let kinds: Vec<_> = records(&bytes).iter().map(|record| record.header.kind).collect();
    assert_eq!(kinds, [RecordType::LOST, RecordType::SAMPLE]);
    let empty = machine.open(&small(), OpenArguments::default()).unwrap();
    machine.map(empty, 0);
    machine.fault(0, 4);
    assert_eq!(machine.words(empty).unwrap(), [4, 0]);
}

/// Rules G3, G5, G8: 255 records of 16 bytes in a page; then those that are lost are told, with the
/// trailer.
#[test]
fn a_ring_never_fills_completely() {
    let mut machine = Machine::new(1);
    let attr = with(small(), AttrFlags::SAMPLE_ID_ALL);
    let fd = machine.open(&attr, OpenArguments::default()).unwrap();
    let mut reader = machine.map(fd, 1);
    machine.fault(0, 300);
    assert_eq!(reader.head(), 255 * 16);
    assert_eq!(reader.take().len(), 255 * 16);
    assert_eq!(machine.words(fd).unwrap(), [300, 45]);
    machine.fault(0, 1);
    let bytes = reader.take();
    let all = decoded(&bytes, &attr);
    let id = machine.ioctl(fd, Ioctl::Id).unwrap();
    let Record::Lost(lost) = all[0].record else { panic!("{:?}", all[0]) };
    assert_eq!((lost.id, lost.lost, all.len()), (id, 45, 2));
    assert_eq!(records(&bytes)[0].header.size, 24);
    // `RESET` keeps the number (rule C47).
    machine.ioctl(fd, Ioctl::Reset { group: false }).unwrap();
    assert_eq!(machine.words(fd).unwrap(), [0, 45]);
}

/// Rule E5: losses of children are counted for the original.
#[test]
fn children_lose_for_their_parent() {
    let mut machine = Machine::new(1);
    let arguments = OpenArguments { cpu: 0, ..OpenArguments::default() };
    let fd = machine.open(&with(small(), AttrFlags::INHERIT), arguments).unwrap();
    machine.map(fd, 1);
    machine.fault(0, 250);
    let child = machine.fork(crate::machine::ME, 200, CloneFlags::default()).unwrap();
    machine.switch(0, Some(child));
    machine.fault(0, 10);
    assert_eq!(machine.words(fd).unwrap(), [260, 5]);
}

/// Rule G5: a record of the size of the data never fits.
#[test]
fn a_record_as_large_as_the_ring_does_not_fit() {
    for backward in [false, true] {
        let (ring, _) = ring(RingOptions { backward, ..RingOptions::default() });
        assert_eq!(write(&ring, &[1; PAGE]), Err(Full::default()));
        assert!(write(&ring, &[1; PAGE - 24 - 8]).is_ok());
    }
}

/// Rule G10: without a reader to wait for, a record may lie over itself.
#[test]
fn a_record_larger_than_the_ring_overwrites_itself() {
    for backward in [false, true] {
        let (ring, memory) = ring(RingOptions { overwrite: true, backward, ..RingOptions::default() });
        let bytes: Vec<u8> = (0..16_432 / 8).flat_map(|word: u64| word.to_ne_bytes()).collect();
        assert!(write(&ring, &bytes).is_ok());
        let head = word(&memory, 1024);
        assert_eq!(head, if backward { 16_432u64.wrapping_neg() } else { 16_432 });
        let start = if backward { head } else { 0 };
        for number in (16_432 - 4096) / 8..16_432 / 8 {
            let at = start.wrapping_add(number * 8) as usize % PAGE;
            assert_eq!(word(&memory, PAGE + at), number);
        }
    }
}

/// Rules G6, G11: a backward ring grows down from 0, and is read upward from its head.
#[test]
fn a_backward_ring_has_the_newest_first() {
    let mut machine = Machine::new(1);
    let mut attr = with(small(), AttrFlags::WRITE_BACKWARD);
    attr.sample_type = SampleType::ADDR;
    for writable in [true, false] {
        let fd = machine.open(&attr, OpenArguments::default()).unwrap();
        let key = machine.key(fd);
        let request = MapRequest { writable, ..MapRequest::ring(1) };
        let caller = crate::machine::ME;
        let memory = machine.engine.mmap(&mut machine.world, caller, key, machine.now, request).unwrap();
        let reader = crate::machine::Reader::of(memory);
        for addr in 1..=3 {
            machine.fault_at(0, addr);
        }
        assert_eq!(reader.head(), 48u64.wrapping_neg());
        let bytes = reader.newest(48);
        let addrs: Vec<_> = decoded(&bytes, &attr)
            .iter()
            .map(|record| match record.record {
                Record::Sample(sample) => sample.addr.unwrap(),
                ref other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(addrs, [3, 2, 1]);
        (4..=300).for_each(|addr| machine.fault_at(0, addr));
        // Rule G11: the tail is heeded where it can be moved.
        assert_eq!(reader.head(), (16 * if writable { 255 } else { 300u64 }).wrapping_neg());
        machine.close(fd);
        machine.engine.munmap(key, machine.now);
    }
}

/// Rule G8: records are split where the ring ends.
#[test]
fn a_record_may_go_over_the_edge() {
    let mut machine = Machine::new(1);
    let mut attr = small();
    attr.sample_type |= SampleType::ADDR;
    let fd = machine.open(&attr, OpenArguments::default()).unwrap();
    let mut reader = machine.map(fd, 1);
    let mut expected = 0;
    for _ in 0..50 {
        for number in 0..100 {
            machine.fault_at(0, expected + number);
        }
        let bytes = reader.take();
        for record in decoded(&bytes, &attr) {
            let Record::Sample(sample) = record.record else { panic!("{record:?}") };
            assert_eq!(sample.addr, Some(expected));
            expected += 1;
        }
    }
    assert_eq!(expected, 5000);
}

/// Rules G4, G9, G13: records of an interrupt become visible together with the one that it interrupted, behind
/// it.
#[test]
fn a_nested_record_appears_with_the_interrupted_one() {
    let (ring, memory) = ring(RingOptions::default());
    let mut outer = ring.begin(16, 24).unwrap();
    assert!(!write(&ring, &[2; 16]).unwrap());
    assert_eq!(word(&memory, 1024), 0);
    outer.put(&[1; 16]);
    outer.finish();
    assert_eq!(word(&memory, 1024), 32);
    assert_eq!([PAGE, PAGE + 16].map(|at| word(&memory, at)), [[1; 8], [2; 8]].map(u64::from_ne_bytes));
}

/// Rule G12, where the engine differs: a record too long for a header is lost and counted.
#[test]
fn a_record_too_long_for_its_header_is_lost() {
    let mut machine = Machine::new(1);
    machine.engine.declare_tracepoint(7);
    let mut attr = small();
    (attr.type_, attr.config) = (perfuse_engine::abi::EventType::TRACEPOINT, 7);
    attr.sample_type = SampleType::RAW;
    let fd = machine.open(&attr, OpenArguments::default()).unwrap();
    let mut reader = machine.map(fd, 64);
    machine.engine.tracepoint(0, machine.now, &Hit::new(7, &[1; 70_000]), &crate::machine::KERNEL);
    assert_eq!((machine.words(fd).unwrap(), reader.head()), (vec![1, 1], 0));
    machine.engine.tracepoint(0, machine.now, &Hit::new(7, &[1; 4]), &crate::machine::KERNEL);
    let bytes = reader.take();
    assert!(matches!(decoded(&bytes, &attr)[0].record, Record::Lost(lost) if lost.lost == 1));
}
