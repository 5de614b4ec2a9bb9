//! Reading perf.data: every record of a recording with callchains, against reading the bytes of the file
//! and against the crate linux-perf-data.
//!
//! The file is what the environment variable `PERFUSE_BENCH_DATA` names; else perf records one of about
//! 100 MB, which needs root and the tracing file system.

use crate::measure::{Contestant, compare};
use linux_perf_data::{PerfFileReader, PerfFileRecord};
use perfuse_data::abi::record::{Decoded, Record, RecordType};
use perfuse_data::{Ordered, PerfData};
use std::fs::File;
use std::hint::black_box;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

pub fn iterate() {
    let given = std::env::var_os("PERFUSE_BENCH_DATA").map(PathBuf::from);
    let path = given.clone().unwrap_or_else(|| std::env::temp_dir().join("perfuse-bench.data"));
    if given.is_none() && !record(&path) {
        println!("reading perf.data: not measured: perf cannot record system calls here\n");
        return;
    }
    let size = path.metadata().map_or(0, |metadata| metadata.len());
    let records = walk(&path, |_| {});
    let title =
        format!("a record of {size} bytes with {records} records", size = size / 1_000_000 * 1_000_000);
    let read = || bytes(&path);
    let all = || walk(&path, |_| {});
    let times = || walk(&path, |entry| _ = black_box((entry.event_index(), entry.time())));
    let decoded = || {
        walk(&path, |entry| {
            let mut decoded = Decoded::from(Record::Switch);
            let _ = black_box(entry.fill(&mut decoded));
            black_box(&decoded);
        })
    };
    let ordered = || by_time(&path);
    let theirs = || peer(&path, false);
    let parsed = || peer(&path, true);
    compare(
        &title,
        7,
        vec![
            timed(records, "read the file", &read),
            timed(records, "PerfData::next", &all),
            timed(records, "  with event and time", &times),
            timed(records, "  with every field", &decoded),
            timed(records, "Ordered::next", &ordered),
            timed(records, "linux-perf-data (by time)", &theirs),
            timed(records, "  with every field it knows", &parsed),
        ],
    );
    if given.is_none() {
        let _ = std::fs::remove_file(&path);
    }
}

/// One pass over the file, in ns for each of its records.
fn timed<'a>(records: u64, name: &'static str, pass: &'a dyn Fn() -> u64) -> Contestant<'a> {
    Contestant::timed(name, move || {
        let start = Instant::now();
        black_box(pass());
        start.elapsed().as_nanos() as f64 / records as f64
    })
}

/// Has perf record a program that makes a system call after the other.
fn record(path: &Path) -> bool {
    let events = ["-e", "raw_syscalls:sys_enter", "-g", "-m", "4096"];
    let work = ["--", "dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=400000"];
    let mut command = Command::new("perf");
    command.args(["record", "-q", "-N", "-o"]).arg(path).args(events).args(work);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn bytes(path: &Path) -> u64 {
    let mut file = File::open(path).expect("the recording");
    let mut buffer = vec![0; 256 << 10];
    let mut sum = 0;
    loop {
        match file.read(&mut buffer).expect("reads") {
            0 => return sum,
            count => sum += count as u64,
        }
    }
}

fn walk(path: &Path, mut work: impl FnMut(perfuse_data::FileRecord<'_>)) -> u64 {
    let mut data = PerfData::open(path).expect("the recording");
    let mut records = 0;
    while let Some(entry) = data.next().expect("a record") {
        work(entry);
        records += 1;
    }
    records
}

fn by_time(path: &Path) -> u64 {
    let mut data = Ordered::new(PerfData::open(path).expect("the recording"));
    let mut records = 0;
    while let Some(entry) = data.next().expect("a record") {
        black_box(entry.raw);
        records += 1;
    }
    records
}

fn peer(path: &Path, parse: bool) -> u64 {
    let file = BufReader::new(File::open(path).expect("the recording"));
    let PerfFileReader { mut perf_file, mut record_iter } = PerfFileReader::parse_file(file).expect("opens");
    let mut records = 0;
    while let Some(record) = record_iter.next_record(&mut perf_file).expect("a record") {
        match &record {
            // It panics at a mapping whose build-id is none (see docs/perf-data.md); samples are what counts.
            PerfFileRecord::EventRecord { record, .. }
                if parse && record.record_type.0 == RecordType::SAMPLE.0 =>
            {
                _ = black_box(record.parse());
            }
            _ => {}
        }
        black_box(&record);
        records += 1;
    }
    records
}
