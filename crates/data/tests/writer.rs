//! Recordings are read as they were written: sections, tool records and records of the kernel, in files and pipes,
//! compressed or not, and whatever is left of a file that was cut off.

#[path = "support/written.rs"]
mod written;

use perfuse_abi::Attr;
use perfuse_abi::record::RecordType;
use perfuse_abi::wire::{Seq, Text};
use perfuse_data::feature::*;
use perfuse_data::tool::*;
use perfuse_data::{Error, Location, Ordered, PerfData, ReadOptions, Writer};
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use written::{comm, events, features};

fn tools() -> Vec<Tool<'static>> {
    static ENTRIES: [IdIndexEntry; 2] = [
        IdIndexEntry { id: 11, index: 0, cpu: 0, tid: u64::MAX },
        IdIndexEntry { id: 12, index: 1, cpu: 1, tid: 7 },
    ];
    static THREADS: [Thread; 1] = [Thread { tid: 7, comm: *b"seven\0\0\0\0\0\0\0\0\0\0\0" }];
    static CPUS: [Cpu16; 3] = [Cpu16(0), Cpu16(1), Cpu16(4)];
    vec![
        Tool::IdIndex(IdIndex { entries: Seq::from(&ENTRIES[..]), guests: None }),
        Tool::EventUpdate(EventUpdate { id: 11, update: Update::Unit(Text::new(b"msec")) }),
        Tool::EventUpdate(EventUpdate { id: 11, update: Update::Scale(1e-6) }),
        Tool::ThreadMap(Seq::from(&THREADS[..])),
        Tool::CpuMap(CpuMap::Cpus(Seq::from(&CPUS[..]))),
        Tool::FinishedInit,
        Tool::FinishedRound,
    ]
}

/// A file with everything in it, and the kernel's records of it.
fn whole_file() -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut writer = Writer::file(Cursor::new(Vec::new()), &events()).unwrap();
    for tool in tools() {
        writer.tool(tool).unwrap();
    }
    let records: Vec<_> = (0..20u64).map(|n| comm(&vec![b'x'; 1 + n as usize % 15], n)).collect();
    // As from a ring that ends within a record.
    let stream = records.concat();
    writer.records(&[&stream[..100], &stream[100..]]).unwrap();
    writer.tool(Tool::FinishedRound).unwrap();
    (writer.finish(features()).unwrap().into_inner(), records)
}

/// All records as bytes, and the error that ended them.
fn all(bytes: &[u8]) -> (Vec<(RecordType, Vec<u8>)>, Option<String>) {
    let mut data = match PerfData::from_seekable(Cursor::new(bytes), ReadOptions::default()) {
        Ok(data) => data,
        Err(error) => return (Vec::new(), Some(error.to_string())),
    };
    let mut records = Vec::new();
    loop {
        match data.next() {
            Ok(Some(entry)) => records.push((entry.kind(), entry.bytes().to_vec())),
            Ok(None) => return (records, None),
            Err(error) => return (records, Some(error.to_string())),
        }
    }
}

#[test]
fn a_file_is_read_as_it_was_written() {
    let (bytes, written) = whole_file();
    let mut data = PerfData::from_seekable(Cursor::new(&bytes), ReadOptions::default()).unwrap();
    let found: Vec<_> = data.events().iter().map(|event| (event.ids.clone(), event.attr)).collect();
    for ((ids, attr), event) in found.iter().zip(events()) {
        assert_eq!(ids, &event.ids);
        assert_eq!(Attr { size: event.attr.size, ..*attr }, event.attr);
        assert_eq!(attr.size, Attr::SIZE_VER7, "what perf 6.1 takes");
    }
    let names: Vec<_> = data.events().iter().map(|event| event.name.clone()).collect();
    assert!(format!("{names:?}").contains("page-faults:u"));
    let (mut tools_read, mut records) = (Vec::new(), Vec::new());
    while let Some(entry) = data.next().unwrap() {
        match entry.is_kernel() {
            true => records.push(entry.bytes().to_vec()),
            false => {
                assert_eq!(entry.bytes().len() % 8, 0, "perf 7 refuses others: {entry:?}");
                tools_read.push(format!("{:?}", entry.tool().unwrap().tool));
            }
        }
    }
    let mut tools_written: Vec<_> = tools().iter().map(|tool| format!("{tool:?}")).collect();
    tools_written.push(format!("{:?}", Tool::FinishedRound));
    assert_eq!(tools_read, tools_written);
    assert_eq!(records, written);
    assert!(data.problems().is_empty(), "{:?}", data.problems());
    for feature in features() {
        let section = data.feature(feature.id()).unwrap().expect("it was written");
        assert_eq!(section.feature, feature);
        assert!(section.extra.is_empty());
    }
}

#[test]
fn a_file_that_was_cut_off_anywhere_is_read_up_to_there() {
    let (bytes, _) = whole_file();
    let (complete, error) = all(&bytes);
    assert_eq!(error, None);
    // An interrupted recording: the header was not completed.
    let mut interrupted = bytes.clone();
    interrupted[48..56].fill(0);
    interrupted[72..104].fill(0);
    let data_at = 104 + 3 * 8 + 2 * (u64::from(Attr::SIZE_VER7) + 16);
    let mut end = data_at as usize;
    let ends: Vec<_> = complete
        .iter()
        .map(|(_, bytes)| {
            end += bytes.len();
            end
        })
        .collect();
    for cut in data_at as usize..=end {
        let (records, error) = all(&interrupted[..cut]);
        let whole = ends.iter().filter(|&&end| end <= cut).count();
        assert_eq!(records, complete[..whole], "cut at {cut}");
        assert_eq!(
            error.is_some(),
            whole < ends.len() && cut != ends.get(whole.wrapping_sub(1)).copied().unwrap_or(data_at as usize),
            "{cut}: {error:?}"
        );
    }
    // Before the first record, there is an error and no more.
    for cut in 0..data_at as usize {
        assert_eq!(all(&interrupted[..cut]).0, [], "cut at {cut}");
    }
}

/// Everything that a reader delivers, in the order of the file or by time, and where it was.
fn delivered(data: Result<PerfData<'_>, Error>, by_time: bool) -> Vec<(Location, Vec<u8>)> {
    let (Ok(data), mut found) = (data, Vec::new()) else { return Vec::new() };
    if by_time {
        let mut ordered = Ordered::new(data);
        while let Ok(Some(entry)) = ordered.next() {
            found.push((entry.location, entry.bytes().to_vec()));
        }
    } else {
        let mut data = data;
        while let Ok(Some(entry)) = data.next() {
            found.push((entry.location, entry.bytes().to_vec()));
        }
    }
    found
}

#[test]
fn a_recording_of_any_form_that_was_cut_off_gives_all_that_is_whole() {
    fn fill<W: Write>(writer: &mut Writer<W>) {
        for tool in tools() {
            writer.tool(tool).unwrap();
        }
        for turn in 0..4u64 {
            #[cfg(feature = "compress")]
            if turn == 2 {
                writer.compress(1).unwrap();
            }
            let records: Vec<_> = (0..6).map(|n| comm(b"cut", 1 + turn * 10 + (n * 5) % 7)).collect();
            writer.records(&[&records.concat()]).unwrap();
            writer.aux(Auxtrace::default(), &[b"some AUX data"]).unwrap();
            writer.tool(Tool::FinishedRound).unwrap();
        }
        writer.flush().unwrap();
    }
    let mut file = Writer::file(Cursor::new(Vec::new()), &events()).unwrap();
    fill(&mut file);
    // Not finished: as it is after a crash.
    let file = file.get_ref().get_ref().clone();
    let mut pipe = Writer::pipe(Vec::new(), &events()).unwrap();
    pipe.features(features()).unwrap();
    fill(&mut pipe);
    let pipe = pipe.get_ref().clone();
    for bytes in [file, pipe] {
        let read = |cut: usize, by_time| {
            delivered(PerfData::from_seekable(Cursor::new(&bytes[..cut]), ReadOptions::default()), by_time)
        };
        let whole = read(bytes.len(), false);
        assert!(whole.len() > 24 + tools().len());
        let mut seen = 0;
        for cut in 0..=bytes.len() {
            let found = read(cut, false);
            assert!(found == whole[..found.len()] && found.len() >= seen, "cut at {cut}");
            seen = found.len();
            // By time, the same records.
            let (mut found, mut sorted) = (found, read(cut, true));
            found.sort();
            sorted.sort();
            assert!(found == sorted, "cut at {cut}");
        }
        assert_eq!(seen, whole.len());
    }
}

/// The bytes of a file at each moment of its making.
#[test]
fn a_crash_while_finishing_loses_nothing() {
    /// Keeps what a disk would hold after each write.
    #[derive(Default)]
    struct Disk {
        file: Cursor<Vec<u8>>,
        states: Vec<Vec<u8>>,
    }
    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = self.file.write(&bytes[..bytes.len().min(64)])?;
            self.states.push(self.file.get_ref().clone());
            Ok(count)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    impl Seek for Disk {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.file.seek(to)
        }
    }
    let mut writer = Writer::file(Disk::default(), &events()).unwrap();
    writer.records(&[&comm(b"one", 1), &comm(b"two", 2)]).unwrap();
    writer.flush().unwrap();
    let before = writer.get_ref().states.len();
    let disk = writer.finish(features()).unwrap();
    for (number, state) in disk.states.iter().enumerate().skip(before - 1) {
        let (records, _) = all(state);
        let comms = records.iter().filter(|(kind, _)| *kind == RecordType::COMM).count();
        assert_eq!(comms, 2, "after write {number}");
    }
}

#[test]
fn a_pipe_is_read_as_it_was_written() {
    let mut writer = Writer::pipe(Vec::new(), &events()).unwrap();
    writer.features(features()).unwrap();
    for tool in tools() {
        writer.tool(tool).unwrap();
    }
    writer.records(&[&comm(b"one", 1)]).unwrap();
    writer.flush().unwrap();
    let bytes = writer.get_ref().clone();
    let mut data = PerfData::from_reader(&bytes[..], ReadOptions::default()).unwrap();
    let mut kinds = Vec::new();
    while let Some(entry) = data.next().unwrap() {
        kinds.push(entry.kind());
    }
    assert_eq!(kinds[..2], [kind::HEADER_ATTR; 2]);
    assert_eq!(kinds.last(), Some(&RecordType::COMM));
    assert_eq!(data.events().iter().map(|event| event.ids.len()).sum::<usize>(), 3);
    for feature in features() {
        let id = feature.id();
        let section = data.feature(id).unwrap().map(|section| section.feature);
        match id {
            FeatureId::BUILD_ID => assert_eq!(section, None),
            _ => assert_eq!(section, Some(feature)),
        }
    }
}

#[test]
#[cfg(feature = "compress")]
fn compressed_records_come_out_as_they_went_in() {
    for level in [1, 3, 12] {
        let mut writer = Writer::file(Cursor::new(Vec::new()), &events()).unwrap();
        writer.compress(level).unwrap();
        let mut written = Vec::new();
        let mut seed = 1u32;
        for round in 0..12u64 {
            let mut stream = Vec::new();
            for n in 0..round * 300 {
                seed = seed.wrapping_mul(1664525).wrapping_add(1013904223);
                stream.push(comm(format!("{seed:x}").as_bytes(), n));
            }
            let bytes = stream.concat();
            let (first, second) = bytes.split_at(bytes.len() / 16 * 8);
            writer.records(&[first, second]).unwrap();
            writer.tool(Tool::FinishedRound).unwrap();
            written.extend(stream);
        }
        let (before, after) = writer.compressed().unwrap();
        assert!(before > 2 * after, "{before} {after}");
        let bytes = writer.finish(features()).unwrap().into_inner();
        let (records, error) = all(&bytes);
        assert_eq!(error, None);
        let comms = records.iter().filter(|(kind, _)| *kind == RecordType::COMM);
        assert!(comms.map(|(_, bytes)| bytes).eq(&written));
    }
}

#[test]
fn a_full_disk_leaves_whole_records() {
    struct Full(Cursor<Vec<u8>>, usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let room = self.1.saturating_sub(self.0.position() as usize).min(bytes.len());
            if room == 0 { Err(io::ErrorKind::StorageFull.into()) } else { self.0.write(&bytes[..room]) }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    impl Seek for Full {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }
    for room in 430..1000 {
        let mut writer = Writer::file(Full(Cursor::new(Vec::new()), room), &events()).unwrap();
        let mut whole = 0;
        let start = writer.len() as usize;
        let record = comm(b"name", 1);
        let mut taken = start;
        loop {
            // Every fourth is AUX data that looks like records.
            let is_aux = whole % 4 == 3;
            let result = match is_aux {
                true => writer.aux(Auxtrace::default(), &[&record, &record]),
                false => writer.records(&[&record[..8], &record[8..]]),
            };
            let len = if is_aux { 48 + 2 * record.len() } else { record.len() };
            assert_eq!(result.is_ok(), taken + len <= room);
            if result.is_err() {
                break;
            }
            (whole, taken) = (whole + 1, taken + len);
        }
        let (records, error) = all(writer.abandon().unwrap().0.get_ref());
        // A size of zero cannot be told from none.
        assert!(records.len() == whole && (error.is_none() || whole == 0), "{room}: {error:?}");
    }
}

/// A folder for one test's files, removed at its end.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("perfuse-data-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_directory_has_a_file_for_each_thread() {
    let folder = Folder::new("directory");
    let path = folder.0.join("perf.data");
    let mut main = Writer::directory(&path, &events()).unwrap();
    assert!(Writer::directory(&path, &events()).is_err(), "nothing is overwritten");
    let parts: Vec<_> = (0..3u64)
        .map(|number| {
            let path = path.clone();
            std::thread::spawn(move || {
                let mut part = Writer::part(&path, number as u32).unwrap();
                #[cfg(feature = "compress")]
                if number == 1 {
                    part.compress(1).unwrap();
                }
                for n in 0..100 {
                    part.records(&[&comm(b"part", 1 + 3 * n + number)]).unwrap();
                }
                part.flush().unwrap();
            })
        })
        .collect();
    main.records(&[&comm(b"main", 1)]).unwrap();
    main.finish(features()).unwrap();
    parts.into_iter().for_each(|part| part.join().unwrap());
    let mut data = PerfData::open(&path).unwrap();
    let format = data.feature(FeatureId::DIR_FORMAT).unwrap().map(|section| section.feature);
    assert_eq!(format, Some(Feature::DirFormat(1)));
    let mut ordered = Ordered::new(data);
    let mut times = Vec::new();
    while let Some(entry) = ordered.next().unwrap() {
        times.push(entry.time().unwrap());
    }
    assert!(times.is_sorted() && times.len() == 301, "{times:?}");
}

#[test]
fn aux_data_follows_its_record_and_has_an_index() {
    let data: Vec<u8> = (0..100_003u32).map(|n| n as u8).collect();
    let record =
        |index| Auxtrace { offset: 4096, reference: 7, index, tid: 9, cpu: 1, ..Auxtrace::default() };
    let info = Tool::AuxtraceInfo(AuxtraceInfo { kind: 1, ..AuxtraceInfo::default() });
    let read = |mut recording: PerfData<'_>| {
        let (mut found, mut places) = (Vec::new(), Vec::new());
        while let Some(entry) = recording.next().unwrap() {
            if let Tool::Auxtrace(record) = entry.tool().unwrap().tool {
                places
                    .push(AuxtraceEntry { offset: entry.location.offset, size: entry.bytes().len() as u64 });
                assert_eq!(entry.payload_len(), record.size);
                let mut bytes = Vec::new();
                recording.payload().read_to_end(&mut bytes).unwrap();
                found.push((record.index, bytes));
            }
        }
        let index = recording.feature(FeatureId::AUXTRACE).unwrap().map(|section| match section.feature {
            Feature::Auxtrace(index) => index.records.iter().collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        });
        let padded = [&data[..], &[0; 5]].concat();
        assert!(found == [(0, padded), (1, vec![]), (2, b"eight888".to_vec())]);
        (places, index)
    };
    fn write<W: Write>(writer: &mut Writer<W>, info: Tool<'_>, all: [(Auxtrace, &[&[u8]]); 3]) {
        writer.tool(info).unwrap();
        for (record, parts) in all {
            writer.aux(record, parts).unwrap();
            writer.records(&[&comm(b"between", 1)]).unwrap();
        }
    }
    let parts = [&data[..70_000], &data[70_000..]];
    let all = [(record(0), &parts[..]), (record(1), &[]), (record(2), &[&b"eight888"[..]])];
    let mut writer = Writer::file(Cursor::new(Vec::new()), &events()).unwrap();
    write(&mut writer, info, all);
    let file = writer.finish(features()).unwrap().into_inner();
    let (places, index) = read(PerfData::from_seekable(Cursor::new(&file), ReadOptions::default()).unwrap());
    assert_eq!(index, Some(places));
    let mut pipe = Writer::pipe(Vec::new(), &events()).unwrap();
    write(&mut pipe, info, all);
    pipe.flush().unwrap();
    assert_eq!(read(PerfData::from_reader(&pipe.get_ref()[..], ReadOptions::default()).unwrap()).1, None);
}
