//! The ring's protocol under every interleaving (and every reordering that the memory model allows) of a
//! writer, who is interrupted by another one on the same cpu, and a reader on another.
//!
//! Runs with `RUSTFLAGS="--cfg loom" cargo test -p perfuse-engine --test loom --release`.
#![cfg(loom)]

use loom::thread;
use perfuse_engine::ring::{Ring, RingOptions};
use perfuse_engine::{AtomicU64, Memory};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The smallest page that has all fields, and four words of data.
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

fn record(number: u64) -> Vec<u8> {
    [number.to_ne_bytes(), (!number).to_ne_bytes()].concat()
}

/// Writes a record, and another one from an interrupt in between.
fn write(ring: &Ring, number: u64, interrupt: Option<u64>) {
    let mut slot = ring.begin(16, 24);
    if let Some(number) = interrupt {
        write(ring, number, None);
    }
    if let Ok(slot) = &mut slot {
        assert_eq!(slot.lost(), None, "nothing is lost before it is full");
        slot.put(&record(number));
    }
    if let Ok(slot) = slot {
        slot.finish();
    }
}

/// Reads what there is, and gives the room back: the records' numbers.
fn read(memory: &dyn Memory, tail: &mut u64) -> Vec<u64> {
    let words = memory.words();
    let head = words[1024 / 8].load(Ordering::Acquire);
    let mut numbers = Vec::new();
    while *tail < head {
        let at = |word: u64| words[PAGE / 8 + (word as usize & (DATA - 1))].load(Ordering::Relaxed);
        let (number, check) = (at(*tail / 8), at(*tail / 8 + 1));
        assert_eq!(check, !number, "a torn record");
        numbers.push(number);
        *tail += 16;
    }
    words[1032 / 8].store(*tail, Ordering::Release);
    numbers
}

#[test]
fn a_reader_never_sees_a_torn_record() {
    loom::model(|| {
        let (ring, memory) = ring(RingOptions::default());
        let writer = thread::spawn(move || {
            write(&ring, 1, Some(2));
            write(&ring, 3, None);
        });
        let mut tail = 0;
        let mut numbers = read(&*memory, &mut tail);
        numbers.extend(read(&*memory, &mut tail));
        writer.join().expect("the writer does not panic");
        numbers.extend(read(&*memory, &mut tail));
        // In the order in which the room was taken (rule G13).
        assert_eq!(numbers, [1, 2, 3]);
    });
}

/// The reader gives room back while the writer looks for it: nothing that was not read is overwritten.
#[test]
fn room_is_used_again_only_when_it_was_given_back() {
    loom::model(|| {
        let (ring, memory) = ring(RingOptions::default());
        // Three of at most three: a ring never fills completely.
        (1..=3).for_each(|number| write(&ring, number, None));
        let writer = thread::spawn(move || {
            let mut slot = ring.begin(16, 24)?;
            slot.put(&record(4));
            slot.finish();
            Ok::<_, perfuse_engine::ring::Full>(())
        });
        let mut tail = 0;
        let mut numbers = read(&*memory, &mut tail);
        let written = writer.join().expect("the writer does not panic").is_ok();
        numbers.extend(read(&*memory, &mut tail));
        let expected: &[u64] = if written { &[1, 2, 3, 4] } else { &[1, 2, 3] };
        assert_eq!(numbers, expected);
    });
}
