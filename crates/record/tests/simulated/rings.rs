//! Rings that fill up, are overwritten, wake their readers; recordings in parts and up to a size.

use super::*;
use perfuse::abi::record::RecordFormat;
use perfuse_data::NewEvent;
use perfuse_data::feature::{BuildIdEntry, Feature};
use perfuse_data::replay::{Lost, Replay};
use perfuse_record::{Error, Sink, Switch, Written};
use perfuse_sys::page_size;
use perfuse_testkit::{Outcome, Skip};
use std::io;
use std::time::Duration;

/// Sizes of rings are told for pages as most machines have them.
fn need_small_pages() -> Outcome {
    match page_size() {
        4096 => Ok(()),
        bytes => Err(Skip::needs("pages of 4 KiB", format!("they have {bytes} bytes"))),
    }
}

/// A sample each ten microseconds, for twenty milliseconds.
fn many(kernel: SimKernel, events: &str) -> Plan {
    let mut plan = plan(kernel, Target::Threads(vec![FIRST]), events);
    plan.rate = Rate::Period(10_000);
    plan
}

const BUSY: &str = "
    program worker
      compute 20ms cycles=1000 instructions=1000
    end
    set perf_event_max_sample_rate 1000000
    start worker
";

/// Two thousand samples; those that the reader has no time for are told, and none is told twice.
pub(super) fn what_finds_no_room_is_counted_and_told() -> Outcome {
    need_small_pages()?;
    let mut plan = many(kernel(BUSY).with_latency(5_000_000), "cycles");
    plan.pages = Some(1);
    let made = make(&plan);
    let sums = made.ended.sums;
    // The record of the task's end can be lost as well.
    let ends = made.told(RecordType::EXIT, |_| ()).len() as u64;
    assert_eq!(sums.samples + ends + sums.lost, 2001, "{sums:?}");
    assert!(sums.lost > 1000, "{sums:?}");
    assert!(made.remarks.contains(&Remark::Lost { records: sums.lost, ring: 4096 }), "{:?}", made.remarks);
    let told = made.told(RecordType::LOST, |record| match record.record {
        Record::Lost(lost) => lost.lost,
        _ => 0,
    });
    let samples = made.told(RecordType::LOST_SAMPLES, |record| match record.record {
        Record::LostSamples(lost) => lost,
        _ => 0,
    });
    // The last loss has no record in the ring, as none found room after it; the event itself knows of it.
    assert!(told.iter().sum::<u64>() <= sums.lost && !told.is_empty(), "{told:?}");
    assert_eq!(samples, [sums.lost]);
    // A reader of the recording adds up both kinds of records.
    let mut lost = Lost::default();
    let data = PerfData::from_reader(made.bytes.as_slice(), ReadOptions::default()).expect("a recording");
    let read: Result<(), perfuse_data::Error> = Replay::new(data).each(|step| {
        lost.add(&step?);
        Ok(())
    });
    read.expect("whole records");
    assert_eq!(lost.total(), sums.lost);
    Ok(())
}

pub(super) fn a_larger_ring_loses_nothing() -> Outcome {
    let mut plan = many(kernel(BUSY).with_latency(5_000_000), "cycles");
    plan.pages = Some(16);
    let made = make(&plan);
    assert_eq!((made.ended.sums.samples, made.ended.sums.lost), (2000, 0));
    assert!(made.remarks.is_empty(), "{:?}", made.remarks);
    Ok(())
}

pub(super) fn a_ring_that_is_overwritten_keeps_the_newest() -> Outcome {
    need_small_pages()?;
    let mut plan = many(kernel(BUSY), "cycles");
    (plan.pages, plan.overwrite, plan.tail_synthesize) = (Some(1), true, true);
    let made = make(&plan);
    let times = made.times("cycles");
    // As many of 32 bytes as fit into a page with the record of the task's end; without a gap, up to the last.
    assert_eq!(times.len(), 126);
    assert_eq!(times.last(), Some(&20_000));
    assert!(times.windows(2).all(|pair| pair[1] == pair[0] + 10), "{times:?}");
    assert_eq!(made.ended.sums.lost, 0);
    Ok(())
}

pub(super) fn one_event_is_overwritten_and_another_is_not() -> Outcome {
    need_small_pages()?;
    let mut plan = many(kernel(BUSY), "cycles/overwrite/,instructions/period=100000/");
    plan.pages = Some(1);
    let made = make(&plan);
    let (kept, all) = (made.times("cycles/overwrite/"), made.times("instructions/period=100000/"));
    assert_eq!(all, (1..=200).map(|n| n * 100).collect::<Vec<_>>());
    assert!(kept.len() < 127 && kept.last() == Some(&20_000), "{kept:?}");
    Ok(())
}

/// Where in the machine's time each batch of records came.
fn read_at(plan: &Plan, kernel: &SimKernel) -> Vec<u64> {
    let mut sink = Timed::new(kernel);
    record(plan, &mut sink, &mut (), None).expect("a recording");
    sink.at
}

/// Takes note of the times when it gets records, when it is to hand them on, and when a part is complete, in microseconds.
struct Timed<'a> {
    kernel: &'a SimKernel,
    at: Vec<u64>,
    flushed: Vec<u64>,
    completed: Vec<u64>,
}

impl<'a> Timed<'a> {
    fn new(kernel: &'a SimKernel) -> Self {
        Timed { kernel, at: Vec::new(), flushed: Vec::new(), completed: Vec::new() }
    }

    fn now(&self) -> u64 {
        self.kernel.with_machine(|machine| machine.now()) / 1000
    }
}

impl Sink for Timed<'_> {
    fn is_stream(&self) -> bool {
        false
    }

    fn begin(&mut self, _: &[NewEvent], _: Vec<Feature<'_>>, _: Option<i32>) -> Result<(), Error> {
        Ok(())
    }

    fn records(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        if parts.iter().any(|part| !part.is_empty()) {
            self.at.push(self.now());
        }
        Ok(())
    }

    fn record(&mut self, _: &perfuse::abi::record::Decoded<'_>, _: &RecordFormat) -> io::Result<()> {
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flushed.push(self.now());
        Ok(())
    }

    fn len(&self) -> u64 {
        0
    }

    fn complete(&mut self, _: Vec<Feature<'_>>, _: &[BuildIdEntry<'_>], _: bool) -> Result<Written, Error> {
        self.completed.push(self.now());
        Ok(Written::default())
    }

    fn fail(&mut self, error: io::Error) -> Error {
        Error::Io(error)
    }
}

pub(super) fn readers_are_woken_at_half_a_ring() -> Outcome {
    need_small_pages()?;
    let kernel = Arc::new(kernel(BUSY));
    let mut plan = plan(kernel.clone(), Target::Threads(vec![FIRST]), "cycles");
    (plan.pages, plan.rate) = (Some(1), Rate::Period(10_000));
    let at = read_at(&plan, &kernel);
    // A sample has 32 bytes; what goes beyond each half wakes (rule G15).
    let woken: Vec<u64> = (1..).map(|n| (n * 2048 / 32 + 1) * 10).take_while(|us| *us < 20_000).collect();
    assert_eq!(woken[..2], [650, 1290]);
    assert_eq!(at[..woken.len()], woken);
    Ok(())
}

/// Whoever ends the recorder, what was sampled is in the file.
pub(super) fn what_was_read_is_handed_on_at_once() -> Outcome {
    let kernel = Arc::new(kernel(WORKER));
    let mut plan = plan(kernel.clone(), Target::Threads(vec![FIRST]), "cycles");
    (plan.buffering, plan.compression) = (false, Some(1));
    let mut sink = Timed::new(&kernel);
    record(&plan, &mut sink, &mut (), None).expect("a recording");
    assert_eq!(sink.at[..9], ms(1..=9));
    assert!(sink.at.iter().all(|at| sink.flushed.contains(at)), "{:?} {:?}", sink.at, sink.flushed);
    Ok(())
}

pub(super) fn without_buffering_each_sample_wakes() -> Outcome {
    let kernel = Arc::new(kernel(WORKER));
    let mut plan = plan(kernel.clone(), Target::Threads(vec![FIRST]), "cycles");
    plan.buffering = false;
    assert_eq!(read_at(&plan, &kernel)[..9], ms(1..=9));
    Ok(())
}

pub(super) fn a_recording_stops_at_its_size() -> Outcome {
    need_small_pages()?;
    let mut plan = many(kernel(BUSY), "cycles");
    (plan.pages, plan.max_bytes) = (Some(1), Some(8192));
    let made = make(&plan);
    assert!(made.ended.stopped && made.remarks.contains(&Remark::SizeReached), "{:?}", made.remarks);
    // It stops after the half ring that reaches the size.
    assert!((8192..8192 + 4096).contains(&made.ended.sums.bytes), "{:?}", made.ended.sums);
    Ok(())
}

pub(super) fn parts_follow_one_another_in_time_and_lose_nothing() -> Outcome {
    let kernel = Arc::new(kernel(BUSY));
    let mut plan = plan(kernel.clone(), Target::Threads(vec![FIRST]), "cycles");
    (plan.rate, plan.switch) = (Rate::Period(10_000), Switch::Every(Duration::from_millis(6)));
    let mut sink = Timed::new(&kernel);
    let ended = record(&plan, &mut sink, &mut (), None).expect("a recording");
    assert_eq!(sink.completed, ms([6, 12, 18, 20]));
    assert_eq!((ended.sums.samples, ended.sums.lost), (2000, 0));
    Ok(())
}

pub(super) fn locked_memory_that_is_short_makes_smaller_rings() -> Outcome {
    need_small_pages()?;
    let scenario = format!("unprivileged\nset perf_event_mlock_kb 0\nlocked-memory 9\n{BUSY}");
    let mut plan = many(kernel(&scenario), "cycles:u");
    plan.pages = Some(64);
    let made = make(&plan);
    let small = made.remarks.iter().find_map(|remark| match remark {
        Remark::SmallRings { bytes, wished, .. } => Some((*bytes, *wished)),
        _ => None,
    });
    assert_eq!(small, Some((8 * 4096, 64 * 4096)), "{:?}", made.remarks);
    assert_eq!(made.ended.sums.samples, 2000);
    Ok(())
}
