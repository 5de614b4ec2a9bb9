//! The reader against recordings of perf 3.2 to 6.16, of simpleperf, of both byte orders, and against
//! malformed ones. They are not part of the project: the tests are skipped where they are not.
//!
//! Compared with: the number of records of each type, counted by an independent program, and the
//! text of `perf report -D`, which names place, size and type of each record and the contents of samples.

use perfuse_abi::record::{Record, RecordType};
use perfuse_data::feature::{Feature, FeatureId};
use perfuse_data::tool::kind;
use perfuse_data::{Error, Form, Ordered, PerfData, ReadOptions};
use perfuse_testkit::{Outcome, Skip, need, suite};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

suite! {
    deterministic:
        good_files_are_read_completely,
        every_section_of_good_files_is_read_and_written_again,
        records_are_those_perf_dumps,
        malformed_files_end_in_a_located_error_or_at_their_end,
        malformed_files_deliver_what_perf_reads_of_them,
        every_prefix_of_a_file_is_read_up_to_its_end;
}

struct File {
    path: PathBuf,
    name: String,
    kind: String,
    is_perf_data: bool,
    records: BTreeMap<String, u64>,
    dump: Option<PathBuf>,
}

fn corpus() -> Result<Vec<File>, Skip> {
    let root = need::shared("corpus/manifest.json")?;
    let folder = root.parent().expect("a folder");
    let text = std::fs::read_to_string(&root).expect("the list of files");
    let list: Vec<Value> = serde_json::from_str(&text).expect("a list of files");
    let file = |entry: &Value| {
        let text = |key: &str| entry[key].as_str().unwrap_or_default();
        File {
            path: folder.join(text("file")),
            name: text("file").trim_start_matches("files/").to_owned(),
            kind: text("kind").to_owned(),
            is_perf_data: entry["endian"].is_string(),
            records: counts(&entry["records"]),
            dump: entry["perf_dump"].as_str().map(|dump| folder.join(dump)),
        }
    };
    Ok(list.iter().map(file).collect())
}

fn counts(records: &Value) -> BTreeMap<String, u64> {
    let number = |value: &Value| value.as_u64().expect("a count");
    records.as_object().into_iter().flatten().map(|(name, count)| (name.clone(), number(count))).collect()
}

fn good() -> Result<Vec<File>, Skip> {
    Ok(corpus()?.into_iter().filter(|file| file.kind == "real" && file.is_perf_data).collect())
}

fn malformed() -> Result<Vec<File>, Skip> {
    Ok(corpus()?.into_iter().filter(|file| file.kind != "real" || !file.is_perf_data).collect())
}

/// The name that the list of files gives a type.
fn listed_name(kind: RecordType) -> String {
    let name = kind.header_name().map(|name| name.trim_start_matches("PERF_RECORD_"));
    match (name, kind::name(kind)) {
        (Some(name), _) => name.to_owned(),
        (None, Some(name)) if kind != kind::BPF_METADATA => {
            format!("U_{}", name.trim_start_matches("HEADER_"))
        }
        _ => format!("type{}", kind.0),
    }
}

const RAW: ReadOptions = ReadOptions::new().with_unpack(false).with_max_section(256 << 20);

/// Counts the records of each type, and takes each apart.
fn count(mut data: PerfData<'_>) -> (BTreeMap<String, u64>, Option<Error>) {
    let mut counts = BTreeMap::new();
    loop {
        match data.next() {
            Ok(Some(entry)) => {
                *counts.entry(listed_name(entry.kind())).or_default() += 1;
                if let Err(error) =
                    if entry.is_kernel() { entry.decode().map(drop) } else { entry.tool().map(drop) }
                {
                    return (counts, Some(error));
                }
            }
            Ok(None) => return (counts, None),
            Err(error) => return (counts, Some(error)),
        }
    }
}

fn good_files_are_read_completely() -> Outcome {
    let files = good()?;
    let (mut records, mut bad) = (0, Vec::new());
    for file in &files {
        // perf's output to the terminal got into the first of these; the other was made to have a
        // sample of size zero. The records before are counted.
        let broken_at_end = ["sleep.compressed2.pipe.data", "piped.corrupted.zero_size_sample-3.2"];
        let ends_badly = broken_at_end.iter().any(|name| file.name.ends_with(name));
        // Its first record is one that the counting program does not know.
        let counter_stops = file.name.ends_with("perf_with_tracepoint_event.data");
        let (counts, error) = match PerfData::open_with(&file.path, RAW) {
            Ok(data) => {
                bad.extend(data.problems().iter().map(|problem| format!("{}: {problem}", file.name)));
                count(data)
            }
            Err(error) => (BTreeMap::new(), Some(error)),
        };
        if let Some(error) = error.filter(|_| !ends_badly) {
            bad.push(format!("{}: {error}", file.name));
        }
        if counter_stops {
            assert!(counts.values().sum::<u64>() > 1, "{}: {counts:?}", file.name);
        } else if counts != file.records {
            bad.push(format!("{}: {counts:?} instead of {:?}", file.name, file.records));
        }
        let (unpacked, error) = count(PerfData::open(&file.path).expect("opens again"));
        if let Some(error) = error.filter(|_| !ends_badly) {
            bad.push(format!("{}: unpacked: {error}", file.name));
        }
        records += unpacked.values().sum::<u64>();
    }
    assert!(bad.is_empty(), "{} files, but\n{}", files.len(), bad.join("\n"));
    println!("{} files, {records} records", files.len());
    Ok(())
}

fn every_section_of_good_files_is_read_and_written_again() -> Outcome {
    let mut seen: BTreeMap<FeatureId, u32> = BTreeMap::new();
    let mut bad = Vec::new();
    for file in good()? {
        let mut data = PerfData::open(&file.path).expect("opens");
        while let Ok(Some(_)) = data.next() {}
        let ids: Vec<_> = data.features().collect();
        for id in ids {
            let bytes = match data.feature_bytes(id) {
                Ok(bytes) => bytes.expect("a section that is listed").to_vec(),
                Err(error) => {
                    bad.push(format!("{}: {error}", file.name));
                    continue;
                }
            };
            let order = data.order();
            match data.feature(id) {
                Ok(Some(section)) => {
                    *seen.entry(id).or_default() += 1;
                    let mut again = Vec::new();
                    section.encode(order, &mut again).expect("what was read can be written");
                    if again != bytes {
                        bad.push(format!("{}: {id} is written otherwise than it was read", file.name));
                    }
                    if section.extra.iter().any(|&byte| byte != 0) {
                        bad.push(format!("{}: {id} has {} more bytes", file.name, section.extra.len()));
                    }
                    if let Feature::Unknown { id, .. } = section.feature {
                        if id.0 < 128 && !bytes.is_empty() {
                            bad.push(format!("{}: {id} is not known", file.name));
                        }
                    }
                }
                Ok(None) => bad.push(format!("{}: {id} vanished", file.name)),
                Err(error) => bad.push(format!("{}: {error}", file.name)),
            }
        }
    }
    println!("{seen:?}");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    Ok(())
}

/// perf's words on a sample: time, then `pid/tid: 0xip period: n`.
type SampleLine = (u64, String);

/// Place, size and type of each record, and the samples.
type Dump = (Vec<(u64, u64, u32)>, Vec<SampleLine>);

/// Reads a dump.
fn dump(path: &Path) -> Result<Dump, Skip> {
    let gzip = need::program("gzip")?;
    let output = Command::new(gzip).arg("-dc").arg(path).output().expect("gzip runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let (mut records, mut samples) = (Vec::new(), Vec::new());
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    for line in text.lines() {
        if let Some((place, rest)) = line.split_once('@') {
            if let (Some(offset), Some((before, kind))) = (hex(place), rest.split_once("]: event: ")) {
                let size = before.rsplit_once('[').and_then(|(_, size)| hex(size)).expect("a size");
                records.push((offset, size, kind.trim().parse().expect("a type")));
            }
        }
        if let Some((before, after)) = line.split_once(": PERF_RECORD_SAMPLE(") {
            // With -a, the cpu is before the time; without times, neither is there.
            let time = before.split_whitespace().rev().nth(2).and_then(|time| time.parse::<i128>().ok());
            let content = after.split_once("): ").expect("contents").1;
            let content = content.split(" addr:").next().expect("a first part");
            samples.push((time.unwrap_or(-1) as u64, content.to_owned()));
        }
    }
    Ok((records, samples))
}

/// Files of which perf 6.12 reads only a part, and why.
const PERF_STOPS: &[(&str, &str)] = &[
    (".compressed2.", "COMPRESSED2 is newer"),
    ("__s_etm__perf_", "it cannot decode the AUX data of simpleperf"),
    ("perf_with_callchain_record", "records of simpleperf"),
    ("s390x__be-pipe", "it takes records in a pipe for ones of its own byte order"),
];

/// How many of `wanted` are not in `found`; both are sorted.
fn missing<T: Ord>(found: &[T], wanted: &[T]) -> usize {
    let mut found = found.iter().peekable();
    wanted
        .iter()
        .filter(|wanted| {
            while found.next_if(|found| found < wanted).is_some() {}
            found.next_if(|found| found == wanted).is_none()
        })
        .count()
}

/// The same from this reader. perf counts places in a pipe from the end of the header.
fn ours(path: &Path, is_pipe: bool) -> Dump {
    let mut data = PerfData::open(path).expect("opens");
    let (mut records, mut samples) = (Vec::new(), Vec::new());
    while let Ok(Some(entry)) = data.next() {
        let header = entry.raw.header;
        let offset = entry.location.offset - if is_pipe { 16 } else { 0 };
        records.push((offset, u64::from(header.size), header.kind.0));
        if header.kind != RecordType::SAMPLE {
            continue;
        }
        let event = entry.event();
        let Ok(decoded) = entry.decode() else { continue };
        if let Record::Sample(sample) = &decoded.record {
            let tid = sample.tid.unwrap_or_default();
            let period = event.map_or(0, |event| event.weight(sample));
            let (pid, tid, ip) = (tid.pid as i32, tid.tid as i32, sample.ip.unwrap_or(0));
            let ip = if ip == 0 { "0".into() } else { format!("{ip:#x}") };
            let time = sample.time.unwrap_or(u64::MAX);
            samples.push((time, format!("{pid}/{tid}: {ip} period: {period}")));
        }
    }
    (records, samples)
}

fn records_are_those_perf_dumps() -> Outcome {
    let (mut files, mut records, mut samples, mut bad) = (0, 0, 0, Vec::new());
    for file in good()? {
        let Some(path) = &file.dump else { continue };
        let (mut theirs, mut their_samples) = dump(path)?;
        if theirs.is_empty() {
            continue;
        }
        let is_pipe = file.records.contains_key("U_ATTR");
        let (mut mine, mut my_samples) = ours(&file.path, is_pipe);
        theirs.sort_unstable();
        mine.sort_unstable();
        their_samples.sort_unstable();
        my_samples.sort_unstable();
        files += 1;
        records += mine.len();
        samples += my_samples.len();
        let stopped = PERF_STOPS.iter().any(|(name, _)| file.name.contains(name));
        let missing = missing(&mine, &theirs) + missing(&my_samples, &their_samples);
        if missing > 0 || (mine != theirs || my_samples != their_samples) != stopped {
            let missing = theirs.iter().filter(|record| !mine.contains(record)).count();
            let more: Vec<_> = mine.iter().filter(|record| !theirs.contains(record)).take(3).collect();
            bad.push(format!(
                "{}: {} records, perf {}, {missing} missing, more: {more:x?}",
                file.name,
                mine.len(),
                theirs.len()
            ));
        }
        if my_samples != their_samples && !stopped {
            let missing: Vec<_> = their_samples.iter().filter(|s| !my_samples.contains(s)).take(2).collect();
            let more: Vec<_> = my_samples.iter().filter(|s| !their_samples.contains(s)).take(2).collect();
            bad.push(format!(
                "{}: {} samples, perf {}; missing {missing:?} more {more:?}",
                file.name,
                my_samples.len(),
                their_samples.len()
            ));
        }
    }
    println!("{files} files, {records} records, {samples} samples");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    Ok(())
}

/// Reads everything that can be read, in both orders.
fn exhaust(data: Result<PerfData<'_>, Error>) -> (u64, Vec<Error>) {
    let mut data = match data {
        Ok(data) => data,
        Err(error) => return (0, vec![error]),
    };
    let (mut count, mut errors) = (0, Vec::new());
    let ids: Vec<_> = data.features().collect();
    errors.extend(ids.into_iter().filter_map(|id| data.feature(id).err()));
    loop {
        match data.next() {
            Ok(Some(entry)) => {
                count += 1;
                errors.extend(if entry.is_kernel() { entry.decode().err() } else { entry.tool().err() });
            }
            Ok(None) => return (count, errors),
            Err(error) => errors.push(error),
        }
    }
}

/// Memory that the process used at most so far, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn malformed_files_end_in_a_located_error_or_at_their_end() -> Outcome {
    let files = malformed()?;
    let (before, mut failed, mut records) = (peak_kib(), 0, 0);
    for file in &files {
        let start = Instant::now();
        let len = file.path.metadata().expect("a file").len();
        for options in [RAW, ReadOptions::default()] {
            let (count, errors) = exhaust(PerfData::open_with(&file.path, options));
            for error in errors.iter().filter(|error| error.structure.contains("record")) {
                assert!(error.location.offset <= len, "{}: {error}, but there are {len} bytes", file.name);
            }
            failed += u32::from(!errors.is_empty());
            records += count;
        }
        if let Ok(data) = PerfData::open(&file.path) {
            let mut ordered = Ordered::new(data);
            while !matches!(ordered.next(), Ok(None)) {}
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{} took {:?}", file.name, start.elapsed());
    }
    let grown = peak_kib() - before;
    println!(
        "{} files, {records} records, {failed} of {} readings with errors",
        files.len(),
        2 * files.len()
    );
    assert!(grown < 64 << 10, "memory grew by {grown} KiB");
    Ok(())
}

/// perf goes on where it can; so what it dumps of a malformed file is the least that is to be read of it.
fn malformed_files_deliver_what_perf_reads_of_them() -> Outcome {
    let (mut files, mut records, mut bad) = (0, 0, Vec::new());
    for file in malformed()? {
        let Some(path) = &file.dump else { continue };
        let len = file.path.metadata().expect("a file").len();
        let (mut theirs, _) = dump(path)?;
        // perf dumps a record before it finds that the end of it is not there, or cannot be unpacked.
        theirs.retain(|&(offset, size, kind)| offset + size <= len && kind != kind::COMPRESSED.0);
        let Ok(data) = PerfData::open(&file.path) else {
            if !theirs.is_empty() {
                bad.push(format!("{}: perf dumps {} records", file.name, theirs.len()));
            }
            continue;
        };
        let is_pipe = matches!(data.form(), Form::Pipe);
        let (mut mine, _) = ours(&file.path, is_pipe);
        theirs.sort_unstable();
        mine.sort_unstable();
        files += 1;
        records += theirs.len();
        let missing = missing(&mine, &theirs);
        if missing > 0 {
            bad.push(format!("{}: {missing} of {} missing, we read {}", file.name, theirs.len(), mine.len()));
        }
    }
    println!("{files} files, {records} records");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    Ok(())
}

fn every_prefix_of_a_file_is_read_up_to_its_end() -> Outcome {
    for name in ["generated-x86_64__v6.12-group.data", "generated-s390x__be-pipe-zstd.data"] {
        let path = need::shared("corpus/files")?.join(name);
        let bytes = std::fs::read(&path).expect("the file");
        let (mut last, whole) = (0, exhaust(PerfData::open(&path)).0);
        for len in 0..=bytes.len() {
            let (count, _) =
                exhaust(PerfData::from_seekable(Cursor::new(&bytes[..len]), ReadOptions::default()));
            assert!(count >= last, "{name}: {count} records in {len} bytes, {last} in one less");
            last = count;
        }
        assert_eq!(last, whole, "{name}");
    }
    Ok(())
}
