//! Records by time: turns, equal times, records without times, limits.

#[path = "support/build.rs"]
mod build;

use build::{Build, attr};
use perfuse_abi::ByteOrder;
use perfuse_abi::record::Record;
use perfuse_data::{Ordered, PerfData, ReadOptions};
use std::io::Cursor;

fn ordered(bytes: &[u8]) -> Ordered<'_> {
    Ordered::new(PerfData::from_seekable(Cursor::new(bytes), ReadOptions::default()).expect("a recording"))
}

/// Type and time of each record, in the order of delivery.
fn times(mut ordered: Ordered<'_>) -> (Vec<(u32, u64)>, Ordered<'_>) {
    let mut times = Vec::new();
    while let Some(entry) = ordered.next().expect("a whole recording") {
        times.push((entry.kind().0, entry.time().unwrap_or(0)));
    }
    (times, ordered)
}

fn samples(mut build: Build, times: &[u64]) -> Build {
    for &time in times {
        build = build.sample(0, 1, time, time);
    }
    build
}

fn build() -> Build {
    Build::new(ByteOrder::Little).event(attr(), &[1])
}

#[test]
fn a_turn_is_delivered_when_the_next_one_ends() {
    // Two rings, emptied in turns: the second ring's records of the first turn are older than some of the
    // first ring's, and records of the second turn older than those.
    let build = samples(build(), &[10, 20, 30, 15, 25]).round();
    let build = samples(build, &[40, 50, 28, 45]).round();
    let build = samples(build, &[60, 55]);
    let file = build.file();
    let (found, ordered) = times(ordered(&file));
    let mark = (68, 0);
    let expected = [
        mark,
        mark,
        (9, 10),
        (9, 15),
        (9, 20),
        (9, 25),
        (9, 28),
        (9, 30),
        (9, 40),
        (9, 45),
        (9, 50),
        (9, 55),
        (9, 60),
    ];
    // The first mark frees nothing, the second everything up to 30, the end the rest.
    assert_eq!((found, ordered.late()), (expected.to_vec(), 0));
}

#[test]
fn equal_times_keep_the_order_of_the_file() {
    let mut build = build();
    for ip in 0..100 {
        build = build.sample(0, 1, ip, 5 + ip % 2);
    }
    let file = build.file();
    let mut ordered = ordered(&file);
    let mut ips = Vec::new();
    while let Some(entry) = ordered.next().expect("a whole recording") {
        let decoded = entry.decode().expect("a sample");
        let perfuse_abi::record::Record::Sample(sample) = decoded.record else { panic!("a sample") };
        ips.push(sample.ip.expect("an address"));
    }
    assert!(ips.iter().copied().eq((0..100).step_by(2).chain((1..100).step_by(2))));
}

#[test]
fn what_has_no_time_is_delivered_at_once() {
    let build = samples(build(), &[10]).comm(0, 1, "synthesized", 0).comm(0, 1, "real", 5);
    let (found, _) = times(ordered(&build.file()));
    assert_eq!(found, [(3, 0), (3, 5), (9, 10)]);
}

#[test]
fn without_marks_everything_is_sorted_up_to_the_limit() {
    let backwards: Vec<u64> = (1..2000).rev().collect();
    let file = samples(build(), &backwards).file();
    let (found, all) = times(ordered(&file));
    assert!(found.iter().map(|&(_, time)| time).eq(1..2000));
    assert_eq!(all.late(), 0);
    // With room for a hundred records, the order is lost, but no record is, and that is told.
    let data = PerfData::from_seekable(Cursor::new(&file[..]), ReadOptions::default()).expect("a recording");
    let (mut found, limited) = times(Ordered::with_limit(data, 10_000));
    assert!(limited.late() > 1000);
    found.sort_unstable();
    assert!(found.iter().map(|&(_, time)| time).eq(1..2000));
}

/// Of a file only the places of records are kept: with three megabytes it is in order for ten.
#[test]
fn a_file_without_marks_is_sorted_by_places() {
    static LONG: &str = concat!(
        "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
        "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
        "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
    );
    let names: [&str; 7] = std::array::from_fn(|length| &LONG[..100 + 30 * length]);
    // Two rings one after the other, and a third that goes backwards.
    let times = (1..30_000u64)
        .map(|n| n * 3)
        .chain((1..10_000).map(|n| n * 9 + 1))
        .chain((1..10_000).rev().map(|n| n * 9 + 2));
    let mut records = build();
    let mut expected: Vec<(u64, usize)> = Vec::new();
    for (number, time) in times.enumerate() {
        let name = names[number % names.len()];
        records = records.comm(0, 1, name, time);
        expected.push((time, name.len()));
    }
    expected.sort_by_key(|&(time, _)| time);
    let file = records.file();
    assert!(file.len() > 10 << 20, "{}", file.len());
    let data = PerfData::from_seekable(Cursor::new(&file[..]), ReadOptions::default()).expect("a recording");
    let mut ordered = Ordered::with_limit(data, 3 << 20);
    for (time, len) in expected {
        let entry = ordered.next().expect("no error").expect("as many as were written");
        let decoded = entry.decode().expect("a whole record");
        let Record::Comm(comm) = decoded.record else { panic!("{decoded:?}") };
        assert_eq!((entry.time(), comm.name.as_bytes().len()), (Some(time), len));
        let at = entry.location.offset as usize;
        assert_eq!(&file[at..at + entry.bytes().len()], entry.bytes());
    }
    assert!(ordered.next().expect("no error").is_none());
    assert_eq!(ordered.late(), 0);
}

#[test]
fn an_error_comes_after_what_was_read_before_it() {
    let file = samples(build(), &[30, 10, 20]).bytes(&[9, 0, 0, 0, 0, 0, 3, 0]).file();
    let mut found = Vec::new();
    let mut ordered = ordered(&file);
    let error = loop {
        match ordered.next() {
            Ok(entry) => found.push(entry.expect("an error before the end").time().expect("a time")),
            Err(error) => break error.to_string(),
        }
    };
    assert_eq!(found, [10, 20, 30]);
    assert!(error.contains("header.size is 3"), "{error}");
    assert!(ordered.next().expect("no second error").is_none());
}

#[test]
fn many_records_go_through_little_memory() {
    let mut records = build();
    for turn in 0..200 {
        let times: Vec<u64> = (0..1000).map(|i| 1 + turn * 1000 + i * 7 % 1000).collect();
        records = samples(records, &times).round();
    }
    let file = records.file();
    let mut ordered = ordered(&file);
    let (mut last, mut count) = (0, 0);
    while let Some(entry) = ordered.next().expect("a whole recording") {
        if let Some(time) = entry.time() {
            assert!(time > last);
            (last, count) = (time, count + 1);
        }
    }
    assert_eq!((count, ordered.late()), (200_000, 0));
}
