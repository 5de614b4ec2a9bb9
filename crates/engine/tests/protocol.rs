//! A writer and a reader of a ring on threads of their own, as it is in use: every record arrives once, whole
//! and in order, or is told as lost. `.ci/miri` runs it under Miri, which lets loads see old values wherever
//! the orderings allow it; `loom.rs` beside this tries every interleaving of a few records.

use perfuse_engine::abi::page::offset;
use perfuse_engine::ring::{Ring, RingOptions};
use perfuse_engine::{AtomicU64, Memory};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

const PAGE: usize = 4096;
/// Words of data.
const DATA: usize = 64;
const RECORDS: u64 = if cfg!(miri) { 50 } else { 200_000 };

/// A record: its length in words and what it is, a number, and that number again until it is full.
fn record(kind: u64, number: u64, words: u64) -> Vec<u8> {
    let mut bytes = (kind << 32 | words).to_ne_bytes().to_vec();
    (1..words).for_each(|_| bytes.extend(number.to_ne_bytes()));
    bytes
}

const SAMPLE: u64 = 9;
const LOST: u64 = 2;

/// Writes all records and ends with one that is written again until there is room for it; how many were lost.
fn write(ring: &Ring) -> u64 {
    let mut lost = 0;
    for number in 1..=RECORDS {
        let words = 2 + number % 7;
        loop {
            match ring.begin(words as usize * 8, 16) {
                Ok(mut slot) => {
                    if let Some(lost) = slot.lost() {
                        slot.put(&record(LOST, lost, 2));
                    }
                    slot.put(&record(SAMPLE, number, words));
                    slot.finish();
                    break;
                }
                Err(_) => lost += 1,
            }
            if number < RECORDS {
                break;
            }
            thread::yield_now();
        }
    }
    lost
}

#[test]
fn all_records_arrive_or_are_told_as_lost() {
    let words = (0..PAGE / 8 + DATA).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    let memory: Arc<dyn Memory> = Arc::new(words);
    let ring = Ring::new(memory.clone(), PAGE, RingOptions::default());
    let writer = thread::spawn(move || write(&ring));
    let words = memory.words();
    let (mut tail, mut last, mut seen, mut told) = (0, 0, 0, 0);
    while last < RECORDS {
        let head = words[offset::DATA_HEAD / 8].load(Ordering::Acquire);
        while tail < head {
            let word = |at: u64| words[PAGE / 8 + (at as usize & (DATA - 1))].load(Ordering::Relaxed);
            let first = word(tail / 8);
            let (kind, len) = (first >> 32, first & 0xffff_ffff);
            let number = word(tail / 8 + 1);
            assert!((1..len).all(|at| word(tail / 8 + at) == number), "a torn record after {last}");
            match kind {
                LOST => told += number,
                kind => {
                    assert!(kind == SAMPLE && number > last, "{number} after {last}");
                    assert_eq!(len, 2 + number % 7);
                    (seen, last) = (seen + 1, number);
                }
            }
            tail += len * 8;
        }
        words[offset::DATA_TAIL / 8].store(tail, Ordering::Release);
        thread::yield_now();
    }
    let lost = writer.join().expect("the writer does not panic");
    assert_eq!(told, lost);
    // The last one may have been tried, and lost, several times.
    assert!(seen + lost >= RECORDS, "{seen} and {lost} of {RECORDS}");
}
