//! The reader on recordings made by hand: every form, both byte orders, and what may be odd about them.

#[path = "support/build.rs"]
mod build;

#[cfg(feature = "compress")]
use build::zstd;
use build::{Build, attr};
use perfuse_abi::record::{Record, RecordType};
use perfuse_abi::{Attr, ByteOrder, EventType, SampleType};
use perfuse_data::feature::{BuildIdEntry, EventDesc, EventDescs, Feature, FeatureId, NrCpus, TracingData};
use perfuse_data::tool::{Auxtrace, CpuMap, EventUpdate, IdIndex, IdIndexEntry, Tool, Update, kind};
use perfuse_data::{AttrBytes, Error, FileHeader, FileSection, Form, PerfData, ReadOptions};
use std::io::{Cursor, Read};

const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];

fn open(bytes: &[u8]) -> PerfData<'_> {
    PerfData::from_seekable(Cursor::new(bytes), ReadOptions::default()).expect("a recording")
}

fn stream(bytes: &[u8]) -> PerfData<'_> {
    PerfData::from_reader(bytes, ReadOptions::default()).expect("a recording")
}

fn failure(bytes: &[u8]) -> String {
    match PerfData::from_seekable(Cursor::new(bytes), ReadOptions::default()) {
        Ok(_) => panic!("it opens"),
        Err(error) => error.to_string(),
    }
}

/// Types of all records, and the error at the end.
fn types(mut data: PerfData<'_>) -> (Vec<u32>, Option<Error>) {
    let mut types = Vec::new();
    loop {
        match data.next() {
            Ok(Some(entry)) => types.push(entry.kind().0),
            Ok(None) => return (types, None),
            Err(error) => {
                assert!(matches!(data.next(), Ok(None)), "nothing follows an error");
                return (types, Some(error));
            }
        }
    }
}

/// For each record of the kernel its event, thread and time.
fn events(mut data: PerfData<'_>) -> Vec<(Option<usize>, u32, u64)> {
    let mut events = Vec::new();
    while let Some(entry) = data.next().expect("a whole recording") {
        if entry.is_kernel() {
            let decoded = entry.decode().expect("a whole record");
            assert!(decoded.extra.is_empty());
            assert_eq!(decoded.time(), entry.time());
            events.push((
                entry.event_index(),
                decoded.tid().map_or(0, |tid| tid.tid),
                entry.time().unwrap_or(0),
            ));
        }
    }
    events
}

/// Two events whose samples differ.
fn two_events(order: ByteOrder) -> Build {
    let other = Attr { sample_type: attr().sample_type | SampleType::CPU | SampleType::ADDR, ..attr() };
    Build::new(order)
        .event(attr(), &[7, 8])
        .event(other, &[9])
        .comm(0, 8, "first", 100)
        .sample(0, 7, 0x1000, 101)
        .sample(1, 9, 0x2000, 102)
        .comm(1, 9, "second", 103)
        .comm(0, 0, "synthesized", 0)
}

#[test]
fn files_and_pipes_tell_the_same() {
    for order in ORDERS {
        let build =
            two_events(order).section(FeatureId::NRCPUS, Feature::NrCpus(NrCpus { available: 4, online: 3 }));
        let expected = [
            (Some(0), 11, 100),
            (Some(0), 11, 101),
            (Some(1), 11, 102),
            (Some(1), 11, 103),
            (Some(0), 11, 0),
        ];
        assert_eq!(events(open(&build.file())), expected);
        assert_eq!(events(stream(&build.pipe())), expected);
        assert_eq!(events(open(&build.pipe())), expected, "a pipe that became a file");
        for mut data in [open(&build.file()), stream(&build.pipe())] {
            while data.next().expect("a whole recording").is_some() {}
            assert_eq!((data.order(), data.events().len()), (order, 2));
            assert_eq!(data.events()[0].ids, [7, 8]);
            assert!(data.features().eq([FeatureId::NRCPUS]));
            let section = data.feature(FeatureId::NRCPUS).expect("reads").expect("is there");
            assert_eq!(section.feature, Feature::NrCpus(NrCpus { available: 4, online: 3 }));
            assert!(data.feature(FeatureId::ARCH).expect("reads").is_none());
            assert!(data.problems().is_empty());
        }
    }
}

#[test]
fn attrs_of_every_size_are_found_wherever_they_are() {
    for (order, size) in ORDERS.into_iter().flat_map(|order| [64, 72, 96, 128, 144].map(|size| (order, size)))
    {
        let attr = Attr { size, ..attr() };
        let build = Build::new(order).event(attr, &[1]).sample(0, 1, 2, 3);
        let data = build.file();
        assert_eq!(open(&data).events()[0].attr, attr);
        assert_eq!(events(open(&data)), [(Some(0), 11, 3)]);
    }
    // Data first, then attrs in steps of 200 bytes, then their ids.
    let build = Build::new(ByteOrder::Little).event(attr(), &[1]).sample(0, 1, 2, 3);
    let data_end = FileHeader::SIZE + build.records.len() as u64;
    let header = FileHeader {
        attr_size: 200,
        attrs: FileSection { offset: data_end, size: 400 },
        data: FileSection { offset: FileHeader::SIZE, size: build.records.len() as u64 },
        ..FileHeader::default()
    };
    let mut body = build.records.clone();
    for ids in [FileSection { offset: data_end + 400, size: 8 }, FileSection::default()] {
        let mut newer = build.attr_bytes(&Attr { size: 184, ..attr() });
        newer[150] = 77;
        body.extend(newer);
        body.extend([ids.offset, ids.size].map(u64::to_le_bytes).as_flattened());
    }
    body.extend(1u64.to_le_bytes());
    let file = build.with_header(&header, &body);
    let data = open(&file);
    assert_eq!(
        (data.events().len(), &*data.events()[0].ids, data.events()[0].attr_tail[6]),
        (2, &[1][..], 77)
    );
    assert_eq!(events(data), [(Some(0), 11, 3)]);
}

#[test]
fn an_interrupted_recording_goes_to_the_end_of_the_file() {
    for order in ORDERS {
        let mut file = two_events(order).file();
        let records = types(open(&file)).0;
        let table = file.len() - 2 * 16;
        file.truncate(table);
        file[48..56].fill(0);
        assert_eq!(types(open(&file)).0, records);
    }
}

#[test]
fn the_magic_before_perf_3_4_says_nothing_of_the_byte_order() {
    for order in ORDERS {
        let mut file = two_events(order).file();
        file[..8].copy_from_slice(b"PERFFILE");
        assert_eq!((open(&file).order(), events(open(&file)).len()), (order, 5));
    }
}

#[test]
fn a_header_without_features_is_shorter() {
    let build = Build::new(ByteOrder::Big).event(attr(), &[1]).sample(0, 1, 2, 3);
    let mut file = build.file();
    file[8..16].copy_from_slice(&72u64.to_be_bytes());
    let data = open(&file);
    assert_eq!(data.features().count(), 0);
    assert!(matches!(data.form(), Form::File(header) if header.size == 72));
    assert_eq!(events(data), [(Some(0), 11, 3)]);
}

#[test]
fn unknown_features_are_kept_and_missing_ones_do_no_harm() {
    let unknown = |id, bytes| Feature::Unknown { id: FeatureId(id), bytes };
    let build = Build::new(ByteOrder::Little)
        .event(attr(), &[])
        .round()
        .section(FeatureId(200), unknown(200, b"newer"))
        .section(FeatureId::CPUDESC, unknown(8, b""))
        .section(FeatureId::ARCH, Feature::Arch("riscv64".into()));
    let file = build.file_with(3);
    let mut data = open(&file);
    assert_eq!(data.feature_bytes(FeatureId(200)).expect("reads"), Some(&b"newer"[..]));
    let mut feature =
        |id| data.feature(id).map(|section| section.map(|section| format!("{:?}", section.feature)));
    assert_eq!(
        feature(FeatureId::CPUDESC).expect("reads").expect("is there"),
        "Unknown { id: FeatureId(8), bytes: [] }"
    );
    assert_eq!(feature(FeatureId::ARCH).expect("reads").expect("is there"), "Arch(\"riscv64\")");
    // The table is cut off: the records are all there, and what is missing is told.
    let file = &file[..file.len() - 150];
    let data = open(file);
    assert_eq!(data.problems().len(), 1);
    assert!(
        data.problems()[0].to_string().starts_with("table of features at offset 0x1"),
        "{:?}",
        data.problems()
    );
}

#[test]
fn names_units_scales_and_cpus_of_events_are_told_by_others() {
    for order in ORDERS {
        let mut build = two_events(order);
        let attrs: Vec<_> = build.attrs.iter().map(|(attr, _)| build.attr_bytes(attr)).collect();
        let [first, second] = [&attrs[0][..], &attrs[1]];
        let descs = EventDescs {
            attr_size: 144,
            events: vec![
                EventDesc { attr: AttrBytes(second), name: "b".into(), ids: (&[9][..]).into() },
                EventDesc { attr: AttrBytes(first), name: "a".into(), ids: (&[7, 8][..]).into() },
            ],
        };
        let mut bytes = Vec::new();
        perfuse_data::feature::Section::from(Feature::EventDesc(descs)).encode(order, &mut bytes).unwrap();
        build.sections.push((FeatureId::EVENT_DESC, bytes));
        let update = |update| Tool::EventUpdate(EventUpdate { id: 9, update });
        let cpus = CpuMap::Range { any: 0, reserved: 0, start: 2, end: 5 };
        let build = build
            .tool(update(Update::Unit("msec".into())))
            .tool(update(Update::Scale(1e-6)))
            .tool(update(Update::Cpus(cpus)));
        for mut data in [open(&build.file()), stream(&build.pipe())] {
            while data.next().expect("a whole recording").is_some() {}
            let [first, second] = &data.events()[..] else { panic!("two events") };
            assert_eq!((first.name.as_deref(), second.name.as_deref()), (Some("a"), Some("b")));
            assert_eq!((second.unit.as_deref(), second.scale), (Some("msec"), Some(1e-6)));
            assert_eq!(second.cpus, Some(vec![2..=5]));
        }
    }
}

#[test]
fn an_id_index_tells_what_ids_belong_to() {
    let entries = [IdIndexEntry { id: 7, index: 1, cpu: 3, tid: u64::MAX }];
    let index = IdIndex { entries: entries[..].into(), guests: None };
    let build = two_events(ByteOrder::Big).tool(Tool::IdIndex(index));
    let bytes = build.file();
    let mut data = open(&bytes);
    while data.next().expect("a whole recording").is_some() {}
    assert_eq!(data.events().owner(7), Some(&entries[0]));
    assert_eq!(data.events().owner(8), None);
}

#[test]
fn a_record_of_no_event_is_read_where_all_events_have_one_layout() {
    let same = Build::new(ByteOrder::Little).event(attr(), &[1]).event(attr(), &[2]).sample(0, 3, 0, 50);
    assert_eq!(events(open(&same.file())), [(None, 11, 50)]);
    let different = two_events(ByteOrder::Little).sample(0, 99, 0, 50);
    let bytes = different.file();
    let mut data = open(&bytes);
    let mut last = None;
    while let Some(entry) = data.next().expect("a whole recording") {
        last = Some(entry.decode().map(drop).map_err(|error| error.to_string()));
    }
    let error = last.expect("a record").expect_err("of no event");
    assert!(
        error.starts_with("PERF_RECORD_SAMPLE at offset 0x") && error.ends_with("no event has its id 99"),
        "{error}"
    );
}

#[test]
fn ids_inside_of_samples_tell_events_without_identifier() {
    let base = SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::ID;
    let first = Attr { sample_type: base, ..attr() };
    // The other's id is at another place.
    let second = Attr { sample_type: base | SampleType::ADDR, ..attr() };
    for order in ORDERS {
        let build = Build::new(order)
            .event(first, &[1])
            .event(second, &[2])
            .sample(1, 2, 0, 60)
            .sample(0, 1, 0, 61)
            .comm(1, 2, "x", 62);
        assert_eq!(events(open(&build.file())), [(Some(1), 11, 60), (Some(0), 11, 61), (Some(1), 11, 62)]);
    }
}

#[test]
fn without_periods_a_sample_weighs_what_was_asked_for() {
    let attr = Attr { sample_type: SampleType::IP | SampleType::TIME, sample_period: 1000, ..attr() };
    let build = Build::new(ByteOrder::Little).event(attr, &[]).sample(0, 0, 5, 6);
    let bytes = build.file();
    let mut data = open(&bytes);
    let entry = data.next().expect("reads").expect("a sample");
    let Ok(Record::Sample(sample)) = entry.decode().map(|decoded| decoded.record) else { panic!("a sample") };
    assert_eq!(entry.event().expect("the only one").weight(&sample), 1000);
}

#[test]
fn aux_data_is_passed_over_or_read() {
    for order in ORDERS {
        let auxtrace = Auxtrace { size: 600_000, ..Auxtrace::default() };
        let build = Build::new(order)
            .event(attr(), &[1])
            .tool(Tool::Auxtrace(auxtrace))
            .bytes(&vec![0xab; 600_000])
            .sample(0, 1, 2, 3);
        for (read, file) in [(false, true), (true, true), (false, false), (true, false)] {
            let bytes = if file { build.file() } else { build.pipe() };
            let mut data = if file { open(&bytes) } else { stream(&bytes) };
            while data.next().expect("reads").expect("a record").kind() != kind::AUXTRACE {}
            if read {
                let mut payload = Vec::new();
                assert_eq!(data.payload().left(), 600_000);
                data.payload().take(500_000).read_to_end(&mut payload).expect("reads");
                assert!(payload.len() == 500_000 && payload.iter().all(|&byte| byte == 0xab));
            }
            assert_eq!(data.next().expect("reads").expect("a record").time(), Some(3));
            assert!(data.next().expect("reads").is_none());
        }
        let cut = build.pipe();
        let (types, error) = types(stream(&cut[..cut.len() - 200]));
        assert_eq!(types, [64, 71]);
        let error = error.expect("it is cut off").to_string();
        assert!(error.starts_with("data after a record at offset 0x"), "{error}");
        assert!(error.ends_with("it needs 600000 bytes, and the file ends after 599848"), "{error}");
    }
}

#[test]
fn tracing_data_in_a_pipe_becomes_a_section() {
    for (order, inside) in ORDERS.into_iter().flat_map(|order| [(order, false), (order, true)]) {
        let tracing = TracingData { is_big_endian: order == ByteOrder::Big, ..TracingData::default() };
        let mut bytes = Vec::new();
        let feature = Feature::TracingData(Box::new(tracing));
        perfuse_data::feature::Section::from(feature.clone()).encode(order, &mut bytes).unwrap();
        let size = bytes.len() as u32;
        let build = Build::new(order).event(attr(), &[1]);
        let build = if inside {
            // As simpleperf writes it.
            let body = [&order.bytes32(size)[..], &bytes].concat();
            build.tool(Tool::Unknown { kind: kind::HEADER_TRACING_DATA, body: &body })
        } else {
            build.tool(Tool::TracingData { size, padding: Default::default() }).bytes(&bytes)
        };
        let bytes = build.sample(0, 1, 2, 3).pipe();
        let mut data = stream(&bytes);
        while data.next().expect("a whole recording").is_some() {}
        let section = data.feature(FeatureId::TRACING_DATA).expect("reads").expect("is there");
        assert_eq!(section.feature, feature);
    }
}

#[test]
#[cfg(feature = "compress")]
fn compressed_records_are_one_stream() {
    for order in ORDERS {
        let inner =
            Build::new(order).event(attr(), &[1]).sample(0, 1, 2, 10).comm(0, 1, "x", 11).sample(0, 1, 2, 12);
        // The second record lies in two pieces, and one of the tool's between them.
        let (first, second) = inner.records.split_at(80);
        for is_new in [false, true] {
            let pack = |bytes| match is_new {
                false => Tool::Compressed(bytes),
                true => Tool::Compressed2 { bytes, padding: Default::default() },
            };
            let packed = zstd(&[first, &second[..30], &second[30..]]);
            let build = Build::new(order)
                .event(attr(), &[1])
                .tool(pack(&packed[0]))
                .round()
                .tool(pack(&packed[1]))
                .tool(pack(&packed[2]))
                .round();
            let whole = [9, 68, 3, 9, 68];
            for bytes in [build.file(), build.pipe()] {
                let mut data = open(&bytes);
                let (mut found, mut unpacked) = (Vec::new(), Vec::new());
                while let Some(entry) = data.next().expect("a whole recording") {
                    found.push(entry.kind().0);
                    unpacked.extend(entry.location.unpacked);
                    assert_eq!(entry.bytes().len(), usize::from(entry.raw.header.size));
                }
                found.retain(|&kind| kind != 64);
                assert_eq!((&found[..], &unpacked[..]), (&whole[..], &[0, 48, 96][..]));
            }
            let options = ReadOptions::new().with_unpack(false);
            let file = build.file();
            let packed = PerfData::from_seekable(Cursor::new(&file), options).expect("a recording");
            let kind = if is_new { 83 } else { 81 };
            assert_eq!(types(packed).0, [kind, 68, kind, kind, 68]);
        }
    }
}

#[test]
#[cfg(feature = "compress")]
fn what_a_record_unpacks_to_may_be_cut_off_or_damaged() {
    let inner = Build::new(ByteOrder::Little).event(attr(), &[1]).sample(0, 1, 2, 10).sample(0, 1, 2, 11);
    let packed = zstd(&[&inner.records[..60]]);
    let build = Build::new(ByteOrder::Little).event(attr(), &[1]).tool(Tool::Compressed(&packed[0]));
    let (found, error) = types(open(&build.file()));
    assert_eq!(found, [9]);
    let error = error.expect("the second sample is cut off").to_string();
    assert!(error.starts_with("compressed record at offset 0x"), "{error}");
    assert!(error.contains("(byte 0x30 of what is compressed): it needs 13 bytes"), "{error}");
    let build = Build::new(ByteOrder::Little).event(attr(), &[1]).tool(Tool::Compressed(b"no zstd")).round();
    let error = types(open(&build.file())).1.expect("not a stream").to_string();
    assert!(error.ends_with("not a zstd stream: Unknown frame descriptor"), "{error}");
}

/// The first sixteen bits of flags are the high half of the size of a record of simpleperf.
#[test]
#[cfg(feature = "compress")]
fn a_record_that_claims_more_than_is_kept_ends_what_is_compressed() {
    for order in ORDERS {
        let mut record = order.bytes32(32770).to_vec();
        record.extend(order.bytes16(0xffff));
        record.extend(order.bytes16(0xfff8));
        record.resize(60_000, 1);
        let build = Build::new(order).event(attr(), &[1]).tool(Tool::Compressed(&zstd(&[&record])[0]));
        let (found, error) = types(open(&build.file()));
        assert!(found.is_empty());
        let error = error.expect("it is too large").to_string();
        assert!(
            error.contains("(byte 0x0 of what is compressed): its size of 4294967288 exceeds"),
            "{error}"
        );
    }
}

#[test]
#[cfg(not(feature = "compress"))]
fn without_a_decoder_compressed_records_are_named_or_delivered_as_they_are() {
    let build = Build::new(ByteOrder::Little).event(attr(), &[1]).round().tool(Tool::Compressed(b"any"));
    let file = build.file();
    let (found, error) = types(open(&file));
    let error = error.expect("there is no decoder").to_string();
    assert_eq!(found, [68]);
    assert!(error.starts_with("compressed record at offset 0x"), "{error}");
    assert!(error.ends_with("without the feature \"compress\" that could read it"), "{error}");
    let options = ReadOptions::new().with_unpack(false);
    let packed = PerfData::from_seekable(Cursor::new(&file), options).expect("a recording");
    assert_eq!(types(packed).0, [68, 81]);
}

#[test]
#[cfg(feature = "compress")]
fn a_compressed_record_whose_size_overflowed_is_read_all_the_same() {
    for order in ORDERS {
        let mut inner = Build::new(order).event(attr(), &[1]);
        while inner.records.len() < 65_530 {
            inner = inner.sample(0, 1, 2, 3);
        }
        // data_size 65529 and more: the padded size needs 17 bits, and there is no padding.
        let packed = &zstd(&[&inner.records])[0];
        let mut body = order.bytes64(packed.len() as u64).to_vec();
        body.extend(packed);
        let size = (16 + packed.len()).next_multiple_of(8);
        assert!(size > 65_535);
        let mut record = order.bytes32(83).to_vec();
        record.extend([0, 0]);
        record.extend(order.bytes16(size as u16));
        record.extend(body);
        let build = Build::new(order).event(attr(), &[1]).bytes(&record).round();
        let (found, error) = types(open(&build.file()));
        assert!(error.is_none(), "{error:?}");
        assert_eq!((found.len(), found.last()), (inner.records.len() / 48 + 1, Some(&68)));
        // A size that only looks like it.
        let mut wrong = record.clone();
        wrong[6..8].copy_from_slice(&order.bytes16(size as u16 + 8));
        let error = types(open(&Build::new(order).event(attr(), &[1]).bytes(&wrong).file())).1;
        let error = error.expect("a wrong size").to_string();
        assert!(
            error.starts_with("COMPRESSED2 record at offset 0x") && error.contains("data_size is"),
            "{error}"
        );
    }
}

#[test]
fn records_of_simpleperf_may_be_longer_than_64_kib() {
    for order in ORDERS {
        let mut record = order.bytes32(32770).to_vec();
        record.extend(order.bytes16(6)); // the high half of the size
        record.extend(order.bytes16(8));
        record.resize((6 << 16) + 8, 1);
        let build = Build::new(order).event(attr(), &[1]).bytes(&record).sample(0, 1, 2, 3);
        assert_eq!(types(open(&build.file())).0, [32770, 9]);
        assert_eq!(types(stream(&build.pipe())).0, [64, 32770, 9]);
    }
}

#[test]
fn errors_name_structure_place_and_cause() {
    let file = Build::new(ByteOrder::Little).event(attr(), &[1]).sample(0, 1, 2, 3).round().file();
    assert_eq!(failure(b"PERF"), "file header at offset 0x0: it needs 16 bytes, and the file ends after 4");
    assert_eq!(
        failure(b"\x7fELF\x02\x01\x01\x00________"),
        "file header at offset 0x0: \"\\x7fELF\\x02\\x01\\x01\\x00\" instead of \"PERFILE2\": not a perf.data file"
    );
    assert_eq!(
        failure(&file[..50]),
        "file header at offset 0x8: it needs 96 bytes, and the file ends after 42"
    );
    let changed = |place: usize, value: u64| {
        let mut file = file.clone();
        file[place..place + 8].copy_from_slice(&value.to_le_bytes());
        file
    };
    assert_eq!(
        failure(&changed(8, 103)),
        "file header at offset 0x8: size is 103, not 16 (a pipe), 72 or 104 (a file)"
    );
    assert_eq!(
        failure(&changed(16, 1)),
        "file header at offset 0x10: attr_size is 1, not that of an attr and its ids: 80 to 4112"
    );
    assert_eq!(
        failure(&changed(32, 1 << 60)),
        "attrs at offset 0x70: its size of 1152921504606846976 exceeds the limit of 67108864"
    );
    assert_eq!(
        failure(&changed(24, 1 << 20)),
        "attrs at offset 0x100000: it needs 160 bytes, and the file ends after 0"
    );
    let error = match PerfData::from_reader(&file[..], ReadOptions::default()) {
        Ok(_) => panic!("it opens"),
        Err(error) => error.to_string(),
    };
    assert!(
        error.ends_with("the attrs and data of this file can only be found in a file that can seek"),
        "{error}"
    );
    let error = |place: usize, value: u8| {
        let mut file = file.clone();
        file[place] = value;
        let (types, error) = types(open(&file));
        (types.len(), error.expect("it is broken").to_string())
    };
    let start = 0x70 + 160;
    assert_eq!(
        error(start + 6, 7),
        (0, format!("record at offset {start:#x}: header.size is 7, not 8, its own size, or more"))
    );
    assert_eq!(
        error(start + 48 + 7, 1),
        (1, format!("record at offset {:#x}: it needs 264 bytes, and the file ends after 8", start + 48))
    );
}

#[test]
#[cfg(feature = "compress")]
fn a_directory_is_read_file_by_file() {
    let folder = std::env::temp_dir().join(format!("perfuse-data-directory-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("kcore_dir")).expect("a folder");
    let order = ByteOrder::Big;
    let main = Build::new(order)
        .event(attr(), &[1])
        .comm(0, 1, "main", 1)
        .section(FeatureId::DIR_FORMAT, Feature::DirFormat(1));
    std::fs::write(folder.join("data"), main.file()).expect("writes");
    for (number, times) in [(0, [10, 30]), (1, [20, 40])] {
        let records =
            Build::new(order).event(attr(), &[1]).sample(0, 1, 2, times[0]).sample(0, 1, 2, times[1]);
        let packed = zstd(&[&records.records]).remove(0);
        let bytes = Build::new(order).tool(Tool::Compressed(&packed)).records;
        std::fs::write(folder.join(format!("data.{number}")), bytes).expect("writes");
    }
    let times = |entry: perfuse_data::FileRecord<'_>| (entry.location.part, entry.time().expect("a time"));
    let mut data = PerfData::open(&folder).expect("opens");
    let mut found = Vec::new();
    while let Some(entry) = data.next().expect("a whole recording") {
        found.push(times(entry));
    }
    assert_eq!(found, [(0, 1), (1, 10), (1, 30), (2, 20), (2, 40)]);
    let mut data = perfuse_data::Ordered::new(PerfData::open(&folder).expect("opens"));
    let mut found = Vec::new();
    while let Some(entry) = data.next().expect("a whole recording") {
        found.push(times(entry));
    }
    assert_eq!(found, [(0, 1), (1, 10), (2, 20), (1, 30), (2, 40)]);
    std::fs::remove_dir_all(folder).expect("removes");
}

#[test]
fn build_ids_of_files_with_odd_headers() {
    let build_id = BuildIdEntry {
        id: [5; 20],
        len: 16,
        misc: BuildIdEntry::HAS_LEN,
        name: "/bin/x".into(),
        ..BuildIdEntry::default()
    };
    assert_eq!(build_id.bytes(), [5; 16]);
    let lying = BuildIdEntry { len: 21, ..build_id };
    assert_eq!(lying.bytes(), [5; 20]);
    // A size that does not reach the name.
    let mut bytes = Vec::new();
    perfuse_data::feature::Section::from(Feature::BuildIds(vec![build_id]))
        .encode(ByteOrder::Little, &mut bytes)
        .unwrap();
    bytes[6..8].copy_from_slice(&20u16.to_le_bytes());
    let section = perfuse_data::feature::Section::decode(FeatureId::BUILD_ID, &bytes, ByteOrder::Little, 0);
    assert!(section.unwrap_err().to_string().starts_with("name at byte 36 needs"));
}

#[test]
fn a_pipe_that_never_ends_is_read_record_by_record() {
    struct Endless(Vec<u8>, usize);
    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            // A byte or two at a time, from the same records again and again.
            let start = if self.1 < 16 { self.1 } else { 16 + (self.1 - 16) % (self.0.len() - 16) };
            let count = buffer.len().min(2).min(self.0.len() - start);
            buffer[..count].copy_from_slice(&self.0[start..start + count]);
            self.1 += count;
            Ok(count)
        }
    }
    let bytes = Build::new(ByteOrder::Little).event(attr(), &[1]).sample(0, 1, 2, 3).round().pipe();
    let mut data = PerfData::from_reader(Endless(bytes, 0), ReadOptions::default()).expect("a recording");
    for _ in 0..3000 {
        assert!(data.next().expect("reads").is_some());
    }
    assert_eq!(data.events().len(), 1000);
}

#[test]
fn a_recording_without_events_has_records_all_the_same() {
    let comm = Build::new(ByteOrder::Little).event(Attr::new(EventType::SOFTWARE), &[]).comm(0, 0, "x", 0);
    let bytes = Build::new(ByteOrder::Little)
        .bytes(&comm.records)
        .bytes(&[9, 0, 0, 0, 0, 0, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let bytes = bytes.pipe();
    let mut data = stream(&bytes);
    let comm = data.next().expect("reads").expect("a record").decode().expect("a whole record");
    assert!(matches!(comm.record, Record::Comm(comm) if comm.name.as_bytes() == b"x"));
    let sample = data.next().expect("reads").expect("a record");
    assert_eq!((sample.kind(), sample.event_index(), sample.raw.header.size), (RecordType::SAMPLE, None, 16));
    assert!(
        sample.decode().expect_err("of no event").to_string().ends_with("which of the events it belongs to")
    );
}
