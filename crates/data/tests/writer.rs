//! What is written is what is read: sections, tool records and records of the kernel, in files and pipes,
//! compressed or not, and whatever is left of a file that was cut off.

use perfuse_abi::record::{Comm, Cpu, Decoded, Record, RecordFormat, RecordType, SampleId, Tid};
use perfuse_abi::wire::{Seq, Text, Words};
use perfuse_abi::{Attr, AttrFlags, ByteOrder, EventType, SampleType};
use perfuse_data::feature::*;
use perfuse_data::tool::*;
use perfuse_data::{NewEvent, Options, PerfData, Str, Writer};
use std::io::{self, Cursor, Seek, SeekFrom, Write};

fn events() -> Vec<NewEvent> {
    let mut attr = Attr::new(EventType::SOFTWARE);
    attr.sample_type = SampleType::IDENTIFIER | SampleType::TID | SampleType::TIME | SampleType::CPU;
    attr.flags |= AttrFlags::SAMPLE_ID_ALL;
    let event = |name: &str, ids: &[u64]| NewEvent { attr, name: name.into(), ids: ids.to_vec() };
    vec![event("cpu-clock", &[11, 12]), event("page-faults:u", &[13])]
}

/// A COMM record as the kernel would leave it in a ring.
fn comm(name: &[u8], time: u64) -> Vec<u8> {
    let sample_id = SampleId {
        tid: Some(Tid { pid: 1, tid: 2 }),
        time: Some(time),
        cpu: Some(Cpu::from(0)),
        identifier: Some(12),
        ..SampleId::default()
    };
    let record = Record::Comm(Comm { tid: Tid { pid: 1, tid: 2 }, name: Text::new(name) });
    let format = RecordFormat::of(&events()[0].attr, ByteOrder::NATIVE);
    let mut bytes = Vec::new();
    Decoded { sample_id, ..Decoded::from(record) }.encode(&format, &mut bytes).unwrap();
    bytes
}

fn tools() -> Vec<Tool<'static>> {
    static ENTRIES: [IdIndexEntry; 2] = [
        IdIndexEntry { id: 11, index: 0, cpu: 0, tid: u64::MAX },
        IdIndexEntry { id: 12, index: 1, cpu: 1, tid: 7 },
    ];
    static THREADS: [Thread; 1] = [Thread { tid: 7, comm: *b"seven\0\0\0\0\0\0\0\0\0\0\0" }];
    static CPUS: [Cpu16; 2] = [Cpu16(0), Cpu16(1)];
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

fn features() -> Vec<Feature<'static>> {
    static WORD: [u64; 1] = [0b101];
    static CPU_IDS: [CpuId; 2] = [CpuId { core: 0, socket: 0 }, CpuId { core: 1, socket: 0 }];
    let pair = || vec![Str::new("0"), Str::new("1")];
    vec![
        Feature::Hostname("host".into()),
        Feature::OsRelease("6.1".into()),
        Feature::Version("perfuse".into()),
        Feature::Arch("x86_64".into()),
        Feature::NrCpus(NrCpus { available: 2, online: 2 }),
        Feature::CpuDesc("cpu".into()),
        Feature::CpuId("V,1,2,3".into()),
        Feature::TotalMem(1 << 20),
        Feature::Cmdline(vec!["perfuse".into(), "record".into(), "".into()]),
        Feature::CpuTopology(CpuTopology {
            core_siblings: vec!["0-1".into()],
            thread_siblings: pair(),
            cpus: Some(Seq::from(&CPU_IDS[..])),
            dies: Some(Dies { siblings: vec!["0-1".into()], of_cpu: vec![0, 0] }),
        }),
        Feature::NumaTopology(vec![NumaNode { node: 0, total_kib: 5, free_kib: 3, cpus: "0-1".into() }]),
        Feature::PmuMappings(vec![PmuMapping { kind: 1, name: "software".into() }]),
        Feature::GroupDesc(vec![Group { name: "{anon_group}".into(), leader: 0, members: 2 }]),
        Feature::Cache(Cache {
            levels: vec![CacheLevel { level: 1, line_size: 64, size: "32K".into(), ..CacheLevel::default() }],
            ..Cache::default()
        }),
        Feature::SampleTime(SampleTime { first_ns: 1, last_ns: 9 }),
        Feature::MemTopology(MemTopology {
            block_size: 1 << 27,
            nodes: vec![MemNode { node: 0, size: 3, bits: 3, set: Words::from(&WORD[..]) }],
            ..MemTopology::default()
        }),
        Feature::ClockResolution(1),
        Feature::Clock(Clock { clock_id: 1, wall_ns: 5, clock_ns: 6, ..Clock::default() }),
        Feature::BranchStack,
        Feature::Compressed(Compressed::default()),
        Feature::BuildIds(vec![BuildId {
            id: [7; 20],
            len: 20,
            misc: BuildId::HAS_LEN,
            name: "/bin/x".into(),
            ..BuildId::default()
        }]),
        Feature::TracingData(Box::new(TracingData {
            systems: vec![System { name: b"sched", formats: vec![b"name: sched_switch\n"] }],
            saved_cmdlines: Some(b"1 init\n"),
            ..TracingData::default()
        })),
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
    let mut data = match PerfData::from_seekable(Cursor::new(bytes), Options::default()) {
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
    let mut data = PerfData::from_seekable(Cursor::new(&bytes), Options::default()).unwrap();
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
            false => tools_read.push(format!("{:?}", entry.tool().unwrap().tool)),
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
        assert_eq!(section.extra, []);
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

/// What a file looks like at each moment of its making.
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
    let mut data = PerfData::from_reader(&bytes[..], Options::default()).unwrap();
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
    for room in 430..700 {
        let mut writer = Writer::file(Full(Cursor::new(Vec::new()), room), &events()).unwrap();
        let mut whole = 0;
        let start = writer.len() as usize;
        let record = comm(b"name", 1);
        while writer.records(&[&record[..8], &record[8..]]).is_ok() {
            whole += 1;
        }
        assert_eq!(whole, (room - start) / record.len());
        let (records, error) = all(writer.abandon().unwrap().0.get_ref());
        // A size of zero cannot be told from none.
        assert!(records.len() == whole && (error.is_none() || whole == 0), "{room}: {error:?}");
    }
}
