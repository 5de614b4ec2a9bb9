//! Recordings that the tests write: two events, a record of the kernel, and every section.

use perfuse_abi::record::{Comm, Cpu, Decoded, Record, RecordFormat, SampleId, Tid};
use perfuse_abi::wire::{Seq, Text, Words};
use perfuse_abi::{Attr, AttrFlags, ByteOrder, EventType, SampleType};
use perfuse_data::feature::*;
use perfuse_data::{NewEvent, Str};

pub(crate) fn events() -> Vec<NewEvent> {
    let mut attr = Attr::new(EventType::SOFTWARE);
    attr.sample_type = SampleType::IDENTIFIER | SampleType::TID | SampleType::TIME | SampleType::CPU;
    attr.flags |= AttrFlags::SAMPLE_ID_ALL;
    let event = |name: &str, ids: &[u64]| NewEvent { attr, name: name.into(), ids: ids.to_vec() };
    vec![event("cpu-clock", &[11, 12]), event("page-faults:u", &[13])]
}

/// A COMM record as the kernel would leave it in a ring.
pub(crate) fn comm(name: &[u8], time: u64) -> Vec<u8> {
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

/// A section of each kind that the writer does not make itself.
pub(crate) fn features() -> Vec<Feature<'static>> {
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
            levels: vec![CacheLevel {
                level: 1,
                line_size: 64,
                sets: 64,
                ways: 8,
                kind: "Data".into(),
                size: "32K".into(),
                cpus: "0-1".into(),
            }],
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
        Feature::Stat,
        Feature::BpfPrograms(vec![BpfProgram { arrays: 0, info: &[5, 0, 0, 0, 77, 0, 0, 0], data: &[1, 2] }]),
        Feature::BpfTypes(vec![Btf { id: 78, bytes: &[9; 24] }]),
        Feature::CpuPmuCaps(vec![Capability { name: "branches".into(), value: "32".into() }]),
        Feature::PmuCaps(vec![PmuCaps {
            caps: vec![Capability { name: "max_precise".into(), value: "3".into() }],
            pmu: "cpu_atom".into(),
        }]),
        Feature::HybridTopology(vec![HybridNode { pmu: "cpu_atom".into(), cpus: "0-1".into() }]),
        Feature::CpuDomains(CpuDomains {
            schedstat_version: 17,
            max_domains: 1,
            cpus: vec![CpuDomain {
                cpu: 1,
                domains: vec![SchedDomain {
                    domain: 0,
                    name: Some("MC".into()),
                    mask: "3".into(),
                    list: "0-1".into(),
                }],
            }],
        }),
        Feature::EMachine { machine: 62, flags: 0 },
        Feature::CacheLineSize(64),
        Feature::Compressed(Compressed::default()),
        Feature::BuildIds(vec![BuildIdEntry {
            id: [7; 20],
            len: 20,
            misc: BuildIdEntry::HAS_LEN,
            name: "/bin/x".into(),
            ..BuildIdEntry::default()
        }]),
        Feature::TracingData(Box::new(TracingData {
            systems: vec![System { name: b"sched", formats: vec![b"name: sched_switch\n"] }],
            saved_cmdlines: Some(b"1 init\n"),
            ..TracingData::default()
        })),
    ]
}
