//! Recordings made of recordings: nothing is lost that is kept, and what is left out is what the filter says.

#[path = "support/build.rs"]
mod build;

use build::{Build, attr};
use perfuse_abi::read::ReadValues;
use perfuse_abi::record::{
    Decoded, Lost, Mmap, Raw, Record, RecordType, Regs, RegsAbi, Sample, Tid, UserStack,
};
use perfuse_abi::wire::{Seq, Words};
use perfuse_abi::{Attr, ByteOrder, EventType, ReadFormat, SampleType};
use perfuse_data::feature::{
    BuildIdEntry, EventDesc, EventDescs, Feature, FeatureId, SampleTime, Section, System, TracingData,
};
use perfuse_data::replay::{Filter, Replay, Switches};
use perfuse_data::rewrite::{Cut, RewriteError, Rewritten, Target, merge, strip};
use perfuse_data::tool::{Auxtrace, AuxtraceInfo, EventUpdate, Thread, Tool, ToolRecord, Update, kind};
use perfuse_data::{AttrBytes, Form, PerfData, ReadOptions};
use proptest::prelude::*;
use std::io::{Cursor, Read};

fn open(bytes: &[u8]) -> PerfData<'_> {
    PerfData::from_seekable(Cursor::new(bytes), ReadOptions::default()).expect("a recording")
}

fn cut_of(cut: &Cut, bytes: &[u8]) -> (Vec<u8>, Rewritten) {
    let mut out = Cursor::new(Vec::new());
    let done = cut.run(open(bytes), Target::file(&mut out)).expect("a recording of it");
    (out.into_inner(), done)
}

/// A section, as bytes.
type Bytes = (FeatureId, Vec<u8>);

/// Asks for a part.
type Ask = fn(&mut Filter);

/// All records with what follows them, and all sections, byte by byte; places in the file are none of it.
fn contents(bytes: &[u8]) -> (Vec<Vec<u8>>, Vec<Bytes>) {
    let mut data = open(bytes);
    let mut records = Vec::new();
    while let Some(entry) = data.next().expect("a whole recording") {
        let (mut bytes, is_aux) = (entry.bytes().to_vec(), entry.kind() == kind::AUXTRACE);
        if is_aux {
            data.payload().read_to_end(&mut bytes).unwrap();
        }
        records.push(bytes);
    }
    let ids: Vec<FeatureId> = data.features().filter(|id| *id != FeatureId::AUXTRACE).collect();
    let section = |id| (id, data.feature_bytes(id).unwrap().unwrap().to_vec());
    (records, ids.into_iter().map(section).collect())
}

/// Times of the samples that a filter admits, as those do who read recordings.
fn admitted(bytes: &[u8], filter: &Filter) -> Vec<u64> {
    let mut times = Vec::new();
    Replay::new(open(bytes))
        .each(|step| {
            let step = step?;
            if let Some(sample) = step.sample() {
                let tid = sample.tid.unwrap_or_default();
                let comm = step.session.comm_of(tid.tid);
                let comm = comm.map_or(&b""[..], |comm| step.session.comm(comm));
                if filter.admits_moment(sample.cpu.map(|cpu| cpu.cpu), sample.time)
                    && filter.admits_task(tid.pid, tid.tid, comm)
                {
                    times.extend(sample.time);
                }
            }
            Ok::<(), perfuse_data::Error>(())
        })
        .unwrap();
    times
}

fn sections(build: Build) -> Build {
    let times = Feature::SampleTime(SampleTime { first_ns: 10, last_ns: 90 });
    build
        .section(FeatureId::HOSTNAME, Feature::Hostname("host".into()))
        .section(FeatureId::SAMPLE_TIME, times)
}

/// Two events, a thread that changes its name, and turns whose rings are not in order.
fn recording(order: ByteOrder) -> Build {
    let with_cpu = Attr { sample_type: attr().sample_type | SampleType::CPU, ..attr() };
    let build = Build::new(order).event(with_cpu, &[1, 2]).event(with_cpu, &[3]);
    let build =
        build.comm(0, 1, "first", 5).sample(0, 1, 0x10, 10).sample(1, 3, 0x20, 30).sample(0, 2, 0x10, 20);
    let build = build.round().comm(0, 1, "second", 50).sample(0, 1, 0x30, 70).sample(1, 3, 0x30, 40);
    sections(build.round().sample(0, 2, 0x30, 90))
}

fn by_time(text: &str) -> Cut {
    let mut cut = Cut::default();
    cut.filter.time = Some(text.parse().unwrap());
    cut
}

#[test]
fn with_everything_kept_a_recording_is_the_same() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let build = recording(order);
        let (file, done) = cut_of(&Cut::default(), &build.file());
        assert_eq!((done.samples, done.kept), (6, 6));
        assert_eq!(contents(&file), contents(&build.file()));
        assert_eq!(open(&file).events()[..], open(&build.file()).events()[..]);
        let (pipe, _) = cut_of(&Cut::default(), &build.pipe());
        assert_eq!(pipe, build.pipe(), "a pipe stays one, byte by byte");
    }
}

#[test]
fn samples_are_those_that_the_filter_admits() {
    let file = recording(ByteOrder::Big).file();
    let filters: [(&str, Ask); 6] = [
        ("time", |filter| filter.time = "0.00000002,0.00000004".parse().ok()),
        ("part", |filter| filter.time = "0%-50%".parse().ok()),
        ("comm", |filter| filter.comms = vec!["first".into()]),
        ("pid", |filter| filter.pids = vec![10]),
        ("tid", |filter| filter.tids = vec![12]),
        ("cpu", |filter| filter.cpus = "1".parse().ok()),
    ];
    for (name, set) in filters {
        let mut cut = Cut::default();
        set(&mut cut.filter);
        let mut filter = cut.filter.clone();
        filter.time.iter_mut().for_each(|spans| spans.settle(&mut open(&file)).unwrap());
        let expected = admitted(&file, &filter);
        let (part, done) = cut_of(&cut, &file);
        assert_eq!(admitted(&part, &Filter::default()), expected, "{name}");
        assert_eq!(done.kept, expected.len() as u64, "{name}");
        let others = |bytes: &[u8]| {
            let mut others = contents(bytes).0;
            others.retain(|record| record[..4] != [0, 0, 0, 9]);
            others.sort();
            others
        };
        assert_eq!(others(&part), others(&file), "{name}: all other records are there");
        assert_eq!(contents(&cut_of(&cut_in_seconds(&cut, &filter), &part).0), contents(&part), "{name}");
    }
}

/// A cut again, of spans and not of parts of what is one.
fn cut_in_seconds(cut: &Cut, filter: &Filter) -> Cut {
    let mut again = cut.clone();
    again.filter.time.clone_from(&filter.time);
    again
}

#[test]
fn the_times_are_those_of_the_samples_that_are_left() {
    let (part, _) = cut_of(&by_time("0.00000002,0.00000004"), &recording(ByteOrder::Little).file());
    let mut data = open(&part);
    let Some(Section { feature: Feature::SampleTime(times), .. }) =
        data.feature(FeatureId::SAMPLE_TIME).unwrap()
    else {
        panic!("there are no times")
    };
    assert_eq!((times.first_ns, times.last_ns), (20, 40));
}

#[test]
fn events_are_kept_by_name() {
    let build = recording(ByteOrder::Little);
    let name = open(&build.file()).events()[0].display_name();
    let mut cut = Cut { events: vec![name], ..Cut::default() };
    // Both have the same name.
    assert_eq!(cut_of(&cut, &build.file()).1.kept, 6);
    cut.events = vec!["nonsense".into()];
    for bytes in [build.file(), build.pipe()] {
        let mut out = Cursor::new(Vec::new());
        let error = cut.run(open(&bytes), Target::file(&mut out)).unwrap_err();
        assert!(matches!(&error, RewriteError::NoEvent { name, .. } if name == "nonsense"), "{error}");
    }
}

#[test]
fn a_file_becomes_a_pipe_with_all_it_told() {
    let file = recording(ByteOrder::Little).file();
    let mut out = Vec::new();
    Cut::default().run(open(&file), Target::pipe(&mut out)).unwrap();
    let mut data = PerfData::from_reader(&out[..], ReadOptions::default()).unwrap();
    assert_eq!(*data.form(), Form::Pipe);
    while data.next().unwrap().is_some() {}
    assert_eq!(data.events()[1].ids, [3]);
    assert!(data.features().eq([FeatureId::HOSTNAME, FeatureId::SAMPLE_TIME]));
    assert_eq!(admitted(&out, &Filter::default()), admitted(&file, &Filter::default()));
}

#[test]
fn aux_data_and_formats_of_tracepoints_follow_their_records() {
    let order = ByteOrder::Little;
    let mut build = recording(order);
    let record = Tool::Auxtrace(Auxtrace { size: 16, ..Auxtrace::default() });
    ToolRecord::from(record).encode(order, &mut build.records).unwrap();
    build.records.extend([0xff; 16]);
    let build = build.sample(0, 1, 1, 95);
    let (file, _) = cut_of(&by_time("0,0.00000009"), &build.file());
    let data = &mut open(&file);
    let Some(Section { feature: Feature::Auxtrace(index), .. }) = data.feature(FeatureId::AUXTRACE).unwrap()
    else {
        panic!("there is no index")
    };
    let place = index.records.get(0).unwrap();
    let header = &file[place.offset as usize..][..8];
    assert_eq!((header[0], place.size), (71, 48));
    assert_eq!(&file[(place.offset + place.size) as usize..][..16], [0xff; 16]);

    let mut pipe = recording(order);
    let tracing = Tool::TracingData { size: 24, padding: Default::default() };
    ToolRecord::from(tracing).encode(order, &mut pipe.records).unwrap();
    pipe.records.extend([0x17; 24]);
    let pipe = pipe.sample(0, 1, 1, 95).pipe();
    assert_eq!(cut_of(&Cut::default(), &pipe).0, pipe);
    let end = pipe.len() - 60;
    let (short, done) = cut_of(&Cut::default(), &pipe[..end]);
    assert_eq!((done.problems.len(), short.len() <= end), (1, true));
}

#[test]
fn of_a_recording_that_was_cut_off_there_is_what_can_be_read() {
    let file = recording(ByteOrder::Little).file();
    for len in 16..file.len() {
        let Ok(data) = PerfData::from_seekable(Cursor::new(&file[..len]), ReadOptions::default()) else {
            continue;
        };
        let mut out = Cursor::new(Vec::new());
        let done = Cut::default().run(data, Target::file(&mut out)).unwrap();
        let (records, _) = contents(out.get_ref());
        assert!(records.len() <= 11 && done.kept <= 6, "{len}");
    }
}

#[test]
fn a_recording_without_records_stays_one() {
    let file = sections(Build::new(ByteOrder::Little).event(attr(), &[1])).file_with(0);
    let (copy, _) = cut_of(&Cut::default(), &file);
    let first = open(&copy).next().unwrap().map(|entry| entry.kind());
    assert_eq!(first, Some(kind::FINISHED_ROUND));
}

fn sample(time: u64, id: u64) -> Record<'static> {
    let mut sample = Sample::default();
    (sample.identifier, sample.ip, sample.tid) = (Some(id), Some(time), Some(Default::default()));
    (sample.time, sample.period) = (Some(time), Some(1));
    Record::Sample(sample)
}

proptest! {
    #[test]
    fn a_cut_of_a_cut_is_the_cut_of_both(
        times in proptest::collection::vec(1..1000u64, 0..60), (a, b) in (0..1000u64, 0..1000u64),
    ) {
        let build = times.iter().fold(Build::new(ByteOrder::Little).event(attr(), &[1]).round(), |build, &time| {
            build.kernel(0, sample(time, 1))
        });
        let file = build.file();
        let (from, to) = (a.min(b), a.max(b));
        let span = |from: u64, to: u64| by_time(&format!("0.{from:09},0.{to:09}"));
        let whole = contents(&cut_of(&Cut::default(), &file).0);
        prop_assert_eq!(whole, contents(&file));
        let once = cut_of(&span(from, to), &file).0;
        let twice = cut_of(&span(0, to), &cut_of(&span(from, 1000), &file).0).0;
        prop_assert_eq!(contents(&once), contents(&twice));
        let expected = times.iter().filter(|time| (from..=to).contains(time)).count();
        prop_assert_eq!(contents(&once).0.len(), expected + 1);
    }

    /// Of samples in turns of "on ... off", which end before the next one begins.
    #[test]
    fn events_switch_samples_on_and_off(
        // The event of each sample, in the order of time.
        events in proptest::collection::vec(0..3usize, 0..60),
        (on, off) in (proptest::option::of(0..3usize), proptest::option::of(0..3usize)),
        are_shown: bool,
        seed: u64,
    ) {
        const NAMES: [&str; 3] = ["cpu-clock", "page-faults", "context-switches"];
        let attrs = [0, 2, 3].map(|config| Attr { config, ..attr() });
        let build = attrs.iter().zip(1..).fold(Build::new(ByteOrder::Little), |build, (attr, id)| build.event(*attr, &[id]));
        // Rings are not read in the order of time.
        let mut order: Vec<usize> = (0..events.len()).collect();
        order.sort_by_key(|&at| (at as u64 + 1).wrapping_mul(seed | 1));
        let build = order.iter().fold(build, |build, &at| {
            build.kernel(events[at], sample(at as u64 + 1, events[at] as u64 + 1))
        });
        let name = |event: Option<usize>| event.map(|event| NAMES[event].to_owned());
        let mut cut = Cut::default();
        cut.filter.switches = Switches { on: name(on), off: name(off), are_shown };
        let (part, done) = cut_of(&cut, &build.file());

        let mut expected = Vec::new();
        let mut rest = &events[..];
        let at = |rest: &[usize]| (events.len() - rest.len()) as u64;
        let next = |rest: &[usize], event: Option<usize>| rest.iter().position(|found| Some(*found) == event);
        if on.is_none() {
            let end = next(rest, off).unwrap_or(rest.len());
            expected.extend((1..=end as u64 + u64::from(are_shown)).filter(|time| *time <= rest.len() as u64));
            rest = &[];
        }
        while let Some(begin) = next(rest, on) {
            rest = &rest[begin + 1..];
            expected.extend(are_shown.then(|| at(rest)));
            let end = next(rest, off).unwrap_or(rest.len());
            expected.extend(at(rest) + 1..=at(rest) + end as u64);
            rest = &rest[end..];
            if !rest.is_empty() {
                rest = &rest[1..];
                expected.extend(are_shown.then(|| at(rest)));
            }
        }
        prop_assert_eq!(admitted(&part, &Filter::default()), expected.clone());
        prop_assert_eq!(done.kept, expected.len() as u64);
    }
}

fn merged(files: &[Vec<u8>]) -> Result<Vec<u8>, RewriteError> {
    let mut out = Cursor::new(Vec::new());
    let options = ReadOptions::default();
    let open = |index: usize| PerfData::from_seekable(Cursor::new(files[index].clone()), options);
    let done = merge(files.len(), open, Target::file(&mut out))?;
    assert_eq!((done.samples, done.problems.len()), (done.kept, 0));
    Ok(out.into_inner())
}

/// Records without marks of turns, in no order.
fn sorted_records(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut records = contents(bytes).0;
    records.retain(|record| record.len() > 8);
    records.sort();
    records
}

#[test]
fn merged_alone_a_recording_is_the_same_in_the_order_of_time() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let file = recording(order).file();
        let alone = merged(std::slice::from_ref(&file)).unwrap();
        assert_eq!(sorted_records(&alone), sorted_records(&file));
        assert_eq!(admitted(&alone, &Filter::default()), admitted(&file, &Filter::default()));
        let mut data = open(&alone);
        assert_eq!(data.events().len(), 2);
        assert!(data.feature(FeatureId::HOSTNAME).unwrap().is_some());
    }
}

#[test]
fn parts_of_a_recording_merged_are_the_whole() {
    let file = recording(ByteOrder::Big).file();
    let parts = ["0,0.00000003", "0.000000031,"].map(|span| cut_of(&by_time(span), &file).0);
    for parts in [parts.clone(), [parts[1].clone(), parts[0].clone()]] {
        let whole = merged(&parts).unwrap();
        assert_eq!(admitted(&whole, &Filter::default()), admitted(&file, &Filter::default()));
        let mut data = open(&whole);
        let Ok(Some(Section { feature: Feature::SampleTime(times), .. })) =
            data.feature(FeatureId::SAMPLE_TIME)
        else {
            panic!("there are no times")
        };
        assert_eq!((times.first_ns, times.last_ns), (10, 90));
    }
}

/// The event of each sample, by time.
fn events_of(bytes: &[u8]) -> Vec<(u64, usize)> {
    let mut found = Vec::new();
    Replay::new(open(bytes))
        .each(|step| {
            let step = step?;
            let event = step.entry.event_index();
            found.extend(step.sample().and_then(|sample| Some((sample.time?, event?))));
            Ok::<(), perfuse_data::Error>(())
        })
        .unwrap();
    found
}

#[test]
fn ids_that_collide_are_numbered_anew_and_every_sample_keeps_its_event() {
    let order = ByteOrder::Little;
    let (cycles, faults) = (attr(), Attr { config: 2, ..attr() });
    let a = Build::new(order).event(cycles, &[1]).event(faults, &[2]).sample(0, 1, 1, 10).sample(1, 2, 1, 30);
    // The same ids the other way round.
    let b = Build::new(order).event(faults, &[1]).event(cycles, &[2]).sample(0, 1, 1, 20).sample(1, 2, 1, 40);
    let whole = merged(&[a.file(), b.pipe()]).unwrap();
    assert_eq!(events_of(&whole), [(10, 0), (20, 1), (30, 1), (40, 0)]);
    let ids: Vec<usize> = open(&whole).events().iter().map(|event| event.ids.len()).collect();
    assert_eq!(ids, [2, 2]);
    let pipe = {
        let (files, mut out) = ([a.file(), b.file()], Vec::new());
        let open =
            |index: usize| PerfData::from_seekable(Cursor::new(files[index].clone()), Default::default());
        merge(2, open, Target::pipe(&mut out)).unwrap();
        out
    };
    assert_eq!(events_of(&pipe), events_of(&whole));
}

#[test]
fn ids_within_groups_and_other_records_are_numbered_anew() {
    let order = ByteOrder::Big;
    let format = ReadFormat::GROUP | ReadFormat::ID | ReadFormat::TOTAL_TIME_ENABLED;
    let leader = Attr { sample_type: attr().sample_type | SampleType::READ, read_format: format, ..attr() };
    static VALUES: [u64; 6] = [2, 5, 100, 7, 200, 8];
    let build = |time| {
        let mut sample = Sample::default();
        (sample.identifier, sample.ip, sample.tid) = (Some(7), Some(1), Some(Default::default()));
        (sample.time, sample.period) = (Some(time), Some(1));
        sample.read = ReadValues::from_words(&VALUES, format).ok();
        let lost = Record::Lost(Lost { id: 8, lost: 3 });
        let mut lost = Decoded::from(lost);
        (lost.sample_id.tid, lost.sample_id.time) = (Some(Default::default()), Some(time));
        lost.sample_id.identifier = Some(8);
        Build::new(order).event(leader, &[7, 8]).kernel(0, Record::Sample(sample)).kernel(0, lost)
    };
    let whole = merged(&[build(1).file(), build(2).file()]).unwrap();
    let mut found = Vec::new();
    let mut data = open(&whole);
    while let Some(entry) = data.next().unwrap() {
        match entry.is_kernel().then(|| entry.decode().unwrap()) {
            Some(Decoded { record: Record::Sample(sample), .. }) => {
                found.extend(sample.read.unwrap().entries().filter_map(|entry| entry.id));
                found.extend(sample.identifier);
            }
            Some(Decoded { record: Record::Lost(lost), sample_id, .. }) => {
                found.extend([Some(lost.id), sample_id.identifier].into_iter().flatten());
            }
            _ => {}
        }
    }
    let [a, b, c, d] = open(&whole).events()[0].ids[..] else { panic!("there are four ids") };
    assert!((a, b) == (7, 8) && ![7, 8].contains(&c) && ![7, 8].contains(&d));
    assert_eq!(found, [a, b, a, b, b, c, d, c, d, d]);
}

#[test]
fn recordings_of_different_worlds_are_refused() {
    let little = |build: Build| build.sample(0, 1, 1, 10).file();
    let host = |name: &'static str| {
        let build = Build::new(ByteOrder::Little).event(attr(), &[1]);
        little(build.section(FeatureId::HOSTNAME, Feature::Hostname(name.into())))
    };
    let arch = |name: &'static str| {
        let build = Build::new(ByteOrder::Little).event(attr(), &[1]);
        little(build.section(FeatureId::ARCH, Feature::Arch(name.into())))
    };
    let unnamed = Attr { sample_type: SampleType::IP | SampleType::TID | SampleType::TIME, ..attr() };
    let other = Attr { config: 3, ..unnamed };
    let cases = [
        ("byte orders", little(recording(ByteOrder::Little)), recording(ByteOrder::Big).file()),
        ("architectures", arch("x86_64"), arch("aarch64")),
        ("different machines", host("a"), host("b")),
        (
            "do not tell their event",
            Build::new(ByteOrder::Little).event(unnamed, &[1]).sample(0, 1, 1, 10).file(),
            Build::new(ByteOrder::Little).event(other, &[1]).sample(0, 1, 1, 20).file(),
        ),
    ];
    for (reason, one, other) in cases {
        match merged(&[one, other]) {
            Err(error @ RewriteError::Refused(_)) => assert!(error.to_string().contains(reason), "{error}"),
            result => panic!("{reason}: {result:?}"),
        }
    }
    assert!(merged(&[]).is_err());
}

fn stripped(bytes: &[u8]) -> (Vec<u8>, Rewritten) {
    let mut out = Cursor::new(Vec::new());
    let done = strip(open(bytes), Target::file(&mut out)).expect("a recording without it");
    (out.into_inner(), done)
}

fn has(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|window| window == word)
}

/// A recording in which every text says SECRET.
fn private(order: ByteOrder) -> Build {
    let kinds = SampleType::RAW | SampleType::STACK_USER | SampleType::REGS_USER;
    let traced = Attr {
        type_: EventType::TRACEPOINT,
        config: 77,
        sample_type: attr().sample_type | kinds,
        sample_regs_user: 1,
        ..attr()
    };
    let word = u64::from_le_bytes(*b"SECRET!!");
    let mut sample = Sample::default();
    (sample.identifier, sample.ip, sample.tid) = (Some(1), Some(1), Some(Default::default()));
    (sample.time, sample.period) = (Some(10), Some(1));
    sample.raw = Some(Raw::new(b"\x4d\0\0\0\x0a\0\0\0SECRET"));
    static WORDS: [u64; 1] = [u64::from_le_bytes(*b"SECRET!!")];
    sample.regs_user = Some(Regs { abi: RegsAbi::ABI_64, mask: 1, words: Words::from(&WORDS[..]) });
    sample.stack_user = Some(UserStack { bytes: b"SECRETS.", dyn_size: 8 });
    let tid = Tid { pid: 10, tid: 11 };
    let map = |filename: &'static str| {
        let map = Mmap { tid, addr: 0x1000, len: 0x1000, pgoff: 0, filename: filename.into() };
        let mut map = Decoded::from(Record::Mmap(map));
        (map.sample_id.tid, map.sample_id.time, map.sample_id.identifier) = (Some(tid), Some(5), Some(1));
        map
    };
    static THREADS: [Thread; 1] = [Thread { tid: 11, comm: *b"SECRET\0\0\0\0\0\0\0\0\0\0" }];
    let format = b"name: SECRET\nID: 77\nformat:\n\tfield:unsigned long __probe_ip;".as_slice();
    let tracing = TracingData {
        is_big_endian: order == ByteOrder::Big,
        systems: vec![System { name: b"SECRET", formats: vec![format] }],
        saved_cmdlines: Some(b"11 SECRET"),
        printk_formats: b"SECRET",
        ..TracingData::default()
    };
    let build_id = BuildIdEntry { name: "/home/SECRET/prog".into(), ..BuildIdEntry::default() };
    let traced_bytes = Build::new(order).attr_bytes(&traced).leak();
    let desc =
        EventDesc { attr: AttrBytes(traced_bytes), name: "SECRET:SECRET".into(), ids: Words::default() };
    let descs = EventDescs { attr_size: traced_bytes.len() as u32, events: vec![desc] };
    Build::new(order)
        .event(traced, &[1])
        .comm(0, 1, "SECRET", 1)
        .kernel(0, map("/home/SECRET/prog"))
        .kernel(0, map("/home/SECRET/lib.so"))
        .kernel(0, map("[vdso]"))
        .kernel(0, map("/home/SECRET/prog"))
        .kernel(0, Record::Sample(sample))
        .tool(Tool::ThreadMap(Seq::from(&THREADS[..])))
        .tool(Tool::EventUpdate(EventUpdate { id: word, update: Update::Name("SECRET".into()) }))
        .tool(Tool::Unknown { kind: RecordType(120), body: b"SECRET!!" })
        .section(FeatureId::HOSTNAME, Feature::Hostname("SECRET".into()))
        .section(FeatureId::OSRELEASE, Feature::OsRelease("6.1".into()))
        .section(FeatureId::CMDLINE, Feature::Cmdline(vec!["SECRET".into()]))
        .section(FeatureId::BUILD_ID, Feature::BuildIds(vec![build_id]))
        .section(FeatureId::TRACING_DATA, Feature::TracingData(Box::new(tracing)))
        .section(FeatureId::EVENT_DESC, Feature::EventDesc(descs))
        .section(FeatureId(40), Feature::Unknown { id: FeatureId(40), bytes: b"SECRET" })
}

#[test]
fn no_private_text_is_left() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let build = private(order);
        for whole in [build.file(), build.pipe()] {
            assert!(has(&whole, b"SECRET"));
            let (file, done) = stripped(&whole);
            assert!(!has(&file, b"SECRET") && !has(&file, b"!!TERCES"), "{order:?} {:?}", done.changes);
            assert_eq!((done.samples, done.kept), (1, 1));
            assert!(has(&file, b"[vdso]") && has(&file, b"6.1"));
            // The same name is the same everywhere: twice as a mapping, once with its build-id.
            let count = file.windows(8).filter(|window| window == b"/file-1\0").count();
            assert_eq!(count, 3, "{:?}", done.changes);
            let (again, _) = stripped(&file);
            assert_eq!(contents(&again).0, contents(&file).0, "nothing is left to be replaced");
        }
    }
}

#[test]
fn traces_of_processors_cannot_be_stripped() {
    let build = recording(ByteOrder::Little).tool(Tool::AuxtraceInfo(AuxtraceInfo::default()));
    let mut out = Cursor::new(Vec::new());
    assert!(matches!(strip(open(&build.file()), Target::file(&mut out)), Err(RewriteError::Refused(_))));
}
