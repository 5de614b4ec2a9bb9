//! Recordings for an older perf: what it knows is as it was, and what it does not know is in a form that it knows, or left out.

#[path = "support/build.rs"]
mod build;

use build::{Build, attr};
use perfuse_abi::record::{
    BuildId, Callchain, CallchainContext, CallchainDeferred, CpuMode, Decoded, Misc, Mmap2, MmapFile, Record,
    RecordType, Sample, SampleId, Tid, Weight,
};
use perfuse_abi::wire::Words;
use perfuse_abi::{Attr, AttrFlags, ByteOrder, Release, SampleType};
use perfuse_data::feature::{EventDesc, EventDescs, Feature, FeatureId};
use perfuse_data::replay::{Replay, Step};
use perfuse_data::rewrite::{Rewritten, Target, convert};
use perfuse_data::tool::{Tool, kind};
use perfuse_data::{AttrBytes, PerfData, ReadOptions};
use std::io::Cursor;

const OLD: Release = Release::new(5, 10);
const TID: Tid = Tid { pid: 10, tid: 11 };

fn open(bytes: &[u8]) -> PerfData<'_> {
    PerfData::from_seekable(Cursor::new(bytes), ReadOptions::default()).expect("a recording")
}

fn converted(bytes: &[u8], release: Release) -> (Vec<u8>, Rewritten) {
    let mut out = Cursor::new(Vec::new());
    let done = convert(open(bytes), Target::file(&mut out), release).expect("a recording of it");
    (out.into_inner(), done)
}

/// Hands over each record of the kernel.
fn each(bytes: &[u8], mut visit: impl FnMut(&Decoded<'_>)) {
    let mut data = open(bytes);
    while let Some(entry) = data.next().expect("a whole recording") {
        if entry.is_kernel() {
            visit(&entry.decode().expect("its layout"));
        }
    }
}

/// The times of samples with their callchains.
fn chains(bytes: &[u8]) -> Vec<(u64, Vec<u64>)> {
    let mut all = Vec::new();
    each(bytes, |decoded| {
        if let Record::Sample(sample) = &decoded.record {
            let words = sample.callchain.iter().flat_map(|chain| chain.words.iter()).collect();
            all.push((sample.time.unwrap_or(0), words));
        }
    });
    all
}

fn with_trailer(record: Record<'static>, time: u64, misc: Misc) -> Decoded<'static> {
    let sample_id = SampleId { tid: Some(TID), time: Some(time), identifier: Some(1), ..SampleId::default() };
    Decoded { misc, record, sample_id, extra: &[] }
}

#[test]
fn what_an_old_perf_knows_is_the_same() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let attr = Attr { size: Attr::SIZE_VER5, ..attr() };
        let build = Build::new(order).event(attr, &[1]).comm(0, 1, "name", 5).sample(0, 1, 0x10, 10);
        let build = build.section(FeatureId::HOSTNAME, Feature::Hostname("host".into()));
        let (file, done) = converted(&build.file(), OLD);
        assert_eq!((done.samples, done.kept), (1, 1));
        assert!(done.changes.is_empty(), "{:?}", done.changes);
        assert_eq!(open(&file).events()[..], open(&build.file()).events()[..]);
        let (pipe, _) = converted(&build.pipe(), OLD);
        assert_eq!(pipe, build.pipe(), "a pipe stays one, byte by byte");
    }
}

#[test]
fn attrs_and_samples_have_what_the_release_knows() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let newer = SampleType::CODE_PAGE_SIZE | SampleType::DATA_PAGE_SIZE | SampleType::WEIGHT_STRUCT;
        let mut attr = Attr { sample_type: attr().sample_type | newer | SampleType::CGROUP, ..attr() };
        attr.flags |= AttrFlags::REMOVE_ON_EXEC | AttrFlags::BUILD_ID;
        (attr.config3, attr.size) = (7, Attr::SIZE_VER9);
        let mut sample = Sample::default();
        (sample.identifier, sample.ip, sample.tid) = (Some(1), Some(0x10), Some(TID));
        (sample.time, sample.period, sample.cgroup) = (Some(5), Some(1), Some(77));
        (sample.data_page_size, sample.code_page_size) = (Some(4096), Some(4096));
        sample.weight = Some(Weight::Struct { var1: 9, var2: 8, var3: 7 });
        let build = Build::new(order).event(attr, &[1]).kernel(0, Record::Sample(sample));
        let bytes = build.attr_bytes(&attr);
        let bytes: &'static [u8] = bytes.leak();
        let event = EventDesc { attr: AttrBytes(bytes), name: "cycles".into(), ids: (&[1u64][..]).into() };
        let descs = EventDescs { attr_size: bytes.len() as u32, events: vec![event] };
        let build = build.section(FeatureId::EVENT_DESC, Feature::EventDesc(descs));
        let (file, done) = converted(&build.file(), OLD);
        assert_eq!(done.kept, 1);
        let mut data = open(&file);
        let found = data.events()[0].attr;
        assert_eq!(found.size, Attr::SIZE_VER6);
        assert_eq!(found.config3, 0);
        assert!(!found.sample_type.intersects(newer));
        assert!(found.sample_type.contains(SampleType::CGROUP | SampleType::WEIGHT));
        assert!(!found.flags.intersects(AttrFlags::REMOVE_ON_EXEC | AttrFlags::BUILD_ID));
        let Some(section) = data.feature(FeatureId::EVENT_DESC).unwrap() else { panic!("it had one") };
        let Feature::EventDesc(descs) = section.feature else { panic!("its layout") };
        assert_eq!(descs.attr_size, Attr::SIZE_VER6);
        assert_eq!(descs.events[0].attr.decode(order).unwrap().attr.sample_type, found.sample_type);
        each(&file, |decoded| {
            let Record::Sample(found) = &decoded.record else { panic!("{decoded:?}") };
            assert_eq!((found.weight, found.cgroup), (Some(Weight::Full(9)), Some(77)));
            assert_eq!((found.data_page_size, found.code_page_size), (None, None));
        });
        // The perf of today knows all of it.
        let (file, done) = converted(&build.file(), Release::new(6, 19));
        assert!(done.changes.is_empty(), "{:?}", done.changes);
        assert_eq!(open(&file).events()[..], open(&build.file()).events()[..]);
    }
}

#[test]
fn a_mapping_with_a_build_id_is_one_with_an_inode() {
    let mut id = BuildId { size: 20, ..BuildId::default() };
    id.bytes = [0xab; 20];
    let filename = (&b"/bin/a"[..]).into();
    let map = Mmap2 {
        tid: TID,
        addr: 0x1000,
        len: 0x1000,
        file: MmapFile::BuildId(id),
        filename,
        ..Mmap2::default()
    };
    let misc = Misc::MMAP_BUILD_ID.with_cpu_mode(CpuMode::USER);
    let mut build = Build::new(ByteOrder::Little).event(attr(), &[1]);
    for time in [5, 6] {
        build = build.kernel(0, with_trailer(Record::Mmap2(map), time, misc));
    }
    let (file, done) = converted(&build.file(), OLD);
    assert_eq!(done.changes["mappings with build-ids, written with inodes"], 2);
    let (mut ids, mut maps) = (0, 0);
    let mut data = open(&file);
    while let Some(entry) = data.next().unwrap() {
        if entry.kind() == kind::HEADER_BUILD_ID {
            let Ok(Tool::BuildId(told)) = entry.tool().map(|tool| tool.tool) else { panic!("its layout") };
            assert_eq!((told.id, told.name.as_bytes()), ([0xab; 20], &b"/bin/a"[..]));
            ids += 1;
        } else if let Ok(Decoded { record: Record::Mmap2(map), misc, .. }) = entry.decode() {
            assert!(matches!(map.file, MmapFile::Inode { .. }) && !misc.contains(Misc::MMAP_BUILD_ID));
            maps += 1;
        }
    }
    assert_eq!((ids, maps), (1, 2), "each name is told once");
    assert!(converted(&build.file(), Release::new(6, 1)).1.changes.is_empty());
}

/// A sample whose user part comes with a cookie.
fn waits(time: u64, cookie: u64) -> Decoded<'static> {
    let words = vec![CallchainContext::KERNEL.0, 7, CallchainContext::USER_DEFERRED.0, cookie];
    let mut sample = Sample::default();
    (sample.identifier, sample.ip, sample.tid) = (Some(1), Some(7), Some(TID));
    (sample.time, sample.period) = (Some(time), Some(1));
    sample.callchain = Some(Callchain { words: Words::from(&*words.leak()) });
    Record::Sample(sample).into()
}

fn comes(time: u64, cookie: u64, ips: &'static [u64]) -> Decoded<'static> {
    let deferred = CallchainDeferred { cookie, ips: ips.into() };
    with_trailer(Record::CallchainDeferred(deferred), time, Misc::empty())
}

#[test]
fn callchains_that_came_in_parts_are_whole() {
    let mut attr = Attr { sample_type: attr().sample_type | SampleType::CALLCHAIN, ..attr() };
    attr.flags |= AttrFlags::DEFER_CALLCHAIN | AttrFlags::DEFER_OUTPUT;
    let (kernel, user) = (CallchainContext::KERNEL.0, CallchainContext::USER.0);
    let build = Build::new(ByteOrder::Little)
        .event(attr, &[1])
        .kernel(0, waits(10, 1))
        .kernel(0, waits(11, 1))
        .comm(0, 1, "name", 12)
        .kernel(0, comes(13, 1, &[0x100, 0x200]))
        .kernel(0, waits(20, 2))
        .kernel(0, comes(21, 9, &[0x100]))
        .kernel(0, comes(22, 2, &[CallchainContext::USER.0, 0x300]))
        .kernel(0, waits(30, 3));
    let (file, done) = converted(&build.file(), Release::new(6, 1));
    let whole = vec![kernel, 7, user, 0x100, 0x200];
    let wanted =
        vec![(10, whole.clone()), (11, whole), (20, vec![kernel, 7, user, 0x300]), (30, vec![kernel, 7])];
    assert_eq!(chains(&file), wanted);
    assert_eq!(done.changes["callchains, joined with their user part"], 3);
    assert_eq!(done.changes["callchains whose user part did not come"], 1);
    assert_eq!(done.changes["user parts of callchains without a sample, left out"], 1);
    assert_eq!(
        (done.samples, open(&file).events()[0].attr.flags.intersects(attr.flags - attr.flags)),
        (4, false)
    );
    let mut kinds = Vec::new();
    each(&file, |decoded| kinds.push(decoded.record.kind()));
    let (sample, comm) = (RecordType::SAMPLE, RecordType::COMM);
    assert_eq!(kinds, [sample, sample, comm, sample, sample], "their order stays");
    // Those who go through the recording get them so too, when the rest has come.
    let mut seen = Vec::new();
    let file = build.file();
    let mut look = |step: Result<Step<'_>, perfuse_data::Error>| -> Result<(), perfuse_data::Error> {
        let step = step?;
        let chain = step.sample().and_then(|sample| sample.callchain);
        seen.push((
            step.decoded.map_or(0, |decoded| decoded.time().unwrap_or(0)),
            chain.map(|chain| chain.words.iter().collect()),
        ));
        Ok(())
    };
    Replay::new(open(&file)).joined().each(&mut look).expect("a whole recording");
    let [first, second, third, last] =
        <[_; 4]>::try_from(wanted).expect("four").map(|(time, chain)| (time, Some(chain)));
    let none = |time: u64| (time, None);
    assert_eq!(seen, [none(12), none(13), first, second, none(21), none(22), third, last]);
}

#[test]
fn records_that_are_not_known_are_left_out_and_counted() {
    let build = Build::new(ByteOrder::Little).event(attr(), &[1]).sample(0, 1, 0x10, 10);
    let mut unknown = 99u32.to_le_bytes().to_vec();
    unknown.extend([0, 0, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let build = build.bytes(&unknown).tool(Tool::FinishedInit).sample(0, 1, 0x10, 11);
    let (file, done) = converted(&build.file(), OLD);
    assert_eq!(done.changes["records of the tool that are not known, left out"], 2);
    assert_eq!((done.samples, done.kept), (2, 2));
    let mut samples = 0;
    each(&file, |_| samples += 1);
    assert_eq!(samples, 2);
}
