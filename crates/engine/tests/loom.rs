//! The ring's protocol under every interleaving (and every reordering that the model checker knows) of a
//! writer and a reader on another cpu, and with an interrupt that writes too at every single place of the
//! writer: between any two of its atomic operations.
//!
//! Runs with `RUSTFLAGS="--cfg loom" cargo test -p perfuse-engine --test loom --release`.
//!
//! Each test was tried by breaking `ring.rs`, and says which fault it notices. Two faults none of
//! them can notice, since the model checker does not let a load see what is stored later: that the writer's
//! load of the tail is `Acquire`, and that the reader's store of it is `Release`.
#![cfg(loom)]

use loom::thread;
use perfuse_engine::abi::page::{MmapPage, offset};
use perfuse_engine::ring::{Ring, RingOptions};
use perfuse_engine::{AtomicU64, Memory, interrupt_after};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The smallest page that has all fields, and eight words of data: four records.
const PAGE: usize = 1088;
const DATA: usize = 8;

#[derive(Debug)]
struct Words(Vec<AtomicU64>);

impl Memory for Words {
    fn words(&self) -> &[AtomicU64] {
        &self.0
    }
}

fn ring(options: RingOptions) -> (Arc<Ring>, Arc<dyn Memory>) {
    let memory: Arc<dyn Memory> = Arc::new(Words((0..PAGE / 8 + DATA).map(|_| AtomicU64::new(0)).collect()));
    (Arc::new(Ring::new(memory.clone(), PAGE, options)), memory)
}

/// A record of 16 bytes: a number and its opposite, which show that it is whole.
fn record(number: u64) -> Vec<u8> {
    [number.to_ne_bytes(), (!number).to_ne_bytes()].concat()
}

/// The outcome of writing.
#[derive(Debug, Default)]
struct Written {
    /// How many records are in the ring, and how many are not.
    whole: u64,
    lost: u64,
    /// How many wakeups there were.
    wakes: u64,
}

/// Writes a record; one that tells of lost ones, of the same size, goes before it: its number is theirs plus
/// 100.
fn write(ring: &Ring, number: u64, written: &RefCell<Written>) {
    let slot = ring.begin(16, 16);
    let wakes = match slot {
        Ok(mut slot) => {
            if let Some(lost) = slot.lost() {
                slot.put(&record(100 + lost));
            }
            slot.put(&record(number));
            written.borrow_mut().whole += 1;
            slot.finish()
        }
        Err(full) => {
            written.borrow_mut().lost += 1;
            full.wakes
        }
    };
    written.borrow_mut().wakes += u64::from(wakes);
}

/// Writes a record; after so many operations an interrupt writes another one, and is itself interrupted
/// after so many.
fn write_interrupted(ring: &Arc<Ring>, written: &Rc<RefCell<Written>>, first: usize, second: Option<usize>) {
    let (inner, account) = (ring.clone(), written.clone());
    interrupt_after(first, move || {
        if let Some(second) = second {
            let (innermost, account) = (inner.clone(), account.clone());
            interrupt_after(second, move || write(&innermost, 3, &account));
        }
        write(&inner, 2, &account);
    });
    write(ring, 1, written);
    interrupt_after(usize::MAX, || ());
}

/// More operations than writing a record takes: an interrupt that would come later does not come.
const OPERATIONS: usize = 18;

/// Reads what there is, upward from the tail, and gives the room back: the records' numbers.
fn read(memory: &dyn Memory, tail: &mut u64) -> Vec<u64> {
    let words = memory.words();
    let head = words[offset::DATA_HEAD / 8].load(Ordering::Acquire);
    let numbers = between(memory, *tail, head);
    *tail = head;
    words[offset::DATA_TAIL / 8].store(head, Ordering::Release);
    numbers
}

/// The numbers of the records from one place to another.
fn between(memory: &dyn Memory, from: u64, to: u64) -> Vec<u64> {
    let words = memory.words();
    let mut numbers = Vec::new();
    let mut at = from;
    while at != to {
        let word = |word: u64| words[PAGE / 8 + (word as usize & (DATA - 1))].load(Ordering::Relaxed);
        let (number, check) = (word(at / 8), word(at / 8 + 1));
        assert_eq!(check, !number, "a torn record");
        numbers.push(number);
        at = at.wrapping_add(16);
    }
    numbers
}

/// How many were lost, as records tell.
fn told(numbers: &[u64]) -> u64 {
    numbers.iter().filter(|number| **number >= 100).map(|number| number - 100).sum()
}

/// Notices a `DATA_HEAD` that is not stored with `Release`, and one that is stored by an inner writer.
#[test]
fn a_reader_never_sees_a_torn_record() {
    for place in 0..OPERATIONS {
        loom::model(move || {
            let (ring, memory) = ring(RingOptions::default());
            let writer = thread::spawn(move || {
                let written = Rc::default();
                write_interrupted(&ring, &written, place, None);
                written.take().whole
            });
            let mut tail = 0;
            let mut numbers = read(&*memory, &mut tail);
            let whole = writer.join().expect("the writer does not panic");
            numbers.extend(read(&*memory, &mut tail));
            assert_eq!(numbers.len() as u64, whole);
            numbers.sort_unstable();
            let expected: &[u64] = if whole == 1 { &[1] } else { &[1, 2] };
            assert_eq!(numbers, expected);
        });
    }
}

/// Interrupts that are interrupted, at every place of both: the outermost writer publishes all (rule G9), and
/// nothing is written twice to one place. Notices an `end` that does not look at the head again.
#[test]
fn three_levels_of_writers_leave_whole_records() {
    for place in 0..OPERATIONS {
        for inner in 0..OPERATIONS {
            loom::model(move || {
                let (ring, memory) = ring(RingOptions::default());
                let written = Rc::default();
                write_interrupted(&ring, &written, place, Some(inner));
                let mut numbers = read(&*memory, &mut 0);
                numbers.sort_unstable();
                let expected: Vec<u64> = (1..=written.take().whole).collect();
                assert_eq!(numbers, expected, "interrupted at {place}, and there at {inner}");
            });
        }
    }
}

/// A reader is woken by any writer that crosses the watermark (rule G14). Notices a `begin` that looks at the wakeups
/// after it counts itself, and a full ring whose wakeup is forgotten.
#[test]
fn a_crossed_watermark_always_wakes() {
    for place in 0..OPERATIONS {
        for full in [false, true] {
            loom::model(move || {
                // Crossed by two records, or by each.
                let watermark = Some(if full { 8 } else { 24 });
                let (ring, _) = ring(RingOptions { watermark, ..RingOptions::default() });
                let written: Rc<RefCell<Written>> = Rc::default();
                if full {
                    // Room for one more: that from the interrupt, if it comes first.
                    write(&ring, 7, &written);
                    write(&ring, 8, &written);
                    written.take();
                }
                write_interrupted(&ring, &written, place, None);
                let written = written.take();
                let crossed = if full { written.whole > 0 } else { written.whole == 2 };
                assert_eq!(written.wakes > 0, crossed, "interrupted at {place}: {written:?}");
            });
        }
    }
}

/// The reader gives room back while the writer looks for it: nothing that was not read is overwritten, and
/// records that tell of lost ones, with those that are still to be told, add up. Notices a `begin` that does
/// not count what it has no room for, and one that asks for too little room.
#[test]
fn what_is_lost_adds_up() {
    for place in [0, 1, 4, 7, 11] {
        loom::model(move || {
            let (ring, memory) = ring(RingOptions::default());
            let written: Rc<RefCell<Written>> = Rc::default();
            // Three of at most three, as a ring never fills completely, and one too many.
            (0..4).for_each(|_| write(&ring, 9, &written));
            let before = written.take();
            assert_eq!((before.whole, before.lost), (3, 1));
            let writer = {
                let ring = ring.clone();
                thread::spawn(move || {
                    let written = Rc::default();
                    write_interrupted(&ring, &written, place, None);
                    let written = written.take();
                    (written.whole, written.lost)
                })
            };
            let mut tail = 0;
            let mut numbers = read(&*memory, &mut tail);
            let (whole, lost) = writer.join().expect("the writer does not panic");
            numbers.extend(read(&*memory, &mut tail));
            // Losses that were not told yet are told with the next record.
            let last = Rc::default();
            write(&ring, 5, &last);
            let last = last.take();
            numbers.extend(read(&*memory, &mut tail));
            let records = numbers.iter().filter(|number| **number < 100).count() as u64;
            assert_eq!((records, last.lost), (3 + whole + 1, 0), "{numbers:?}");
            assert_eq!(told(&numbers), 1 + lost, "{numbers:?}");
        });
    }
}

/// A ring that is written from its end, whose reader takes room back from above (rule G11), interrupted too.
/// Notices what the first test does, and a `room` that counts upward.
#[test]
fn a_backward_ring_has_its_newest_record_first() {
    for place in 0..OPERATIONS {
        loom::model(move || {
            let options = RingOptions { overwrite: true, backward: true, ..RingOptions::default() };
            let (ring, memory) = ring(options);
            let writer = thread::spawn(move || {
                let written = Rc::default();
                write(&ring, 4, &written);
                write_interrupted(&ring, &written, place, None);
            });
            // Not more than fits: a record that a reader has begun to look at stays there.
            let head = memory.words()[offset::DATA_HEAD / 8].load(Ordering::Acquire);
            let numbers = between(&*memory, head, 0);
            let possible = [&[][..], &[4], &[1, 4], &[2, 4], &[2, 1, 4], &[1, 2, 4]];
            assert!(possible.contains(&&numbers[..]), "{numbers:?}");
            writer.join().expect("the writer does not panic");
        });
    }
    loom::model(|| {
        let (ring, memory) = ring(RingOptions { backward: true, ..RingOptions::default() });
        let written = Rc::default();
        (1..=4).for_each(|number| write(&ring, number, &written));
        assert_eq!((written.borrow().whole, written.borrow().lost), (3, 1));
        let writer = thread::spawn(move || {
            let written = Rc::default();
            write(&ring, 5, &written);
            written.take().whole
        });
        let words = memory.words();
        let head = words[offset::DATA_HEAD / 8].load(Ordering::Acquire);
        let mut numbers = between(&*memory, head, 0);
        words[offset::DATA_TAIL / 8].store(head, Ordering::Release);
        let whole = writer.join().expect("the writer does not panic");
        let end = words[offset::DATA_HEAD / 8].load(Ordering::Acquire);
        if end != head {
            numbers = [between(&*memory, end, head), numbers].concat();
        }
        let expected: &[u64] = if whole == 1 { &[101, 5, 3, 2, 1] } else { &[3, 2, 1] };
        assert_eq!(numbers, expected);
    });
}

/// A ring that nobody reads keeps its newest records, under any interrupts (rule G10). Notices an overwritten
/// ring that looks at its tail.
#[test]
fn an_overwritten_ring_keeps_the_newest() {
    for place in 0..OPERATIONS {
        loom::model(move || {
            let (ring, memory) = ring(RingOptions { overwrite: true, ..RingOptions::default() });
            let written: Rc<RefCell<Written>> = Rc::default();
            (10..14).for_each(|number| write(&ring, number, &written));
            write_interrupted(&ring, &written, place, None);
            assert_eq!(written.borrow().lost, 0);
            let head = memory.words()[offset::DATA_HEAD / 8].load(Ordering::Acquire);
            let numbers = between(&*memory, head - 64, head);
            let newest = &numbers[4 - (written.borrow().whole as usize - 4)..];
            let mut newest = newest.to_vec();
            newest.sort_unstable();
            assert_eq!(newest, (1..=newest.len() as u64).collect::<Vec<_>>(), "{numbers:?}");
        });
    }
}

/// Another cpu stops and resumes the ring while it is written to: each record is there as a whole, or counted
/// as lost. Notices a pause that does not count, and one that comes between the parts of a record.
#[test]
fn a_pause_loses_whole_records() {
    loom::model(|| {
        let (ring, memory) = ring(RingOptions::default());
        let writer = {
            let ring = ring.clone();
            thread::spawn(move || {
                let written: Rc<RefCell<Written>> = Rc::default();
                (1..=2).for_each(|number| write(&ring, number, &written));
                let written = written.take();
                (written.whole, written.lost)
            })
        };
        assert!(ring.pause(true));
        assert!(ring.pause(false));
        let mut tail = 0;
        let mut numbers = read(&*memory, &mut tail);
        let (whole, lost) = writer.join().expect("the writer does not panic");
        write(&ring, 3, &Rc::default());
        numbers.extend(read(&*memory, &mut tail));
        let records = numbers.iter().filter(|number| **number < 100).count() as u64;
        assert_eq!((records, told(&numbers)), (whole + 1, lost), "{numbers:?}");
        assert_eq!(whole + lost, 2);
    });
}

/// The control page, as a reader reads it that finds `lock` the same before and after (rule F31). Notices an
/// update whose fence, or whose last store, is weaker; and a lock that is not odd meanwhile.
#[test]
fn a_control_page_is_never_seen_half_done() {
    loom::model(|| {
        let (ring, memory) = ring(RingOptions::default());
        let writer = thread::spawn(move || {
            ring.show(&MmapPage { index: 7, offset: 7, time_enabled: 7, ..MmapPage::default() });
        });
        // Twice, as a reader does it that found an update on its way.
        for _ in 0..2 {
            let words = memory.words();
            let lock = words[offset::LOCK / 8].load(Ordering::Acquire);
            let seen = [offset::OFFSET, offset::TIME_ENABLED].map(|at| words[at / 8].load(Ordering::Relaxed));
            loom::sync::atomic::fence(Ordering::Acquire);
            let after = words[offset::LOCK / 8].load(Ordering::Relaxed);
            let bytes = lock.to_ne_bytes();
            let version = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            let index = u64::from(u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]));
            if lock == after && version % 2 == 0 {
                assert_eq!(seen, [index; 2], "half of an update");
            }
        }
        writer.join().expect("the writer does not panic");
    });
}
