//! Recordings are read as they were written, in both byte orders: every feature section, every tool record.

use perfuse_abi::ByteOrder;
use perfuse_abi::record::{Misc, RawRecord, RecordType};
use perfuse_abi::wire::{Seq, Text};
use perfuse_data::feature::*;
use perfuse_data::tool::*;
use perfuse_data::{AttrBytes, Str};
use proptest::collection::vec;
use proptest::prelude::*;

/// Data to borrow.
#[derive(Clone, Debug)]
struct Pool {
    bytes: Vec<u8>,
    words: Vec<u64>,
    cpus: Vec<CpuId>,
    sections: Vec<AuxtraceEntry>,
    ids: Vec<IdIndexEntry>,
    guests: Vec<Guest>,
    threads: Vec<Thread>,
    terms: Vec<StatConfigEntry>,
    cpus16: Vec<Cpu16>,
    cpus32: Vec<Cpu32>,
    variables: Vec<BpfVariable>,
}

fn pools() -> impl Strategy<Value = Pool> {
    (vec(any::<u8>(), 600), vec(any::<u64>(), 40)).prop_map(|(bytes, words)| {
        let array = |word: u64| word.to_le_bytes();
        let comm = |word: u64| std::array::from_fn(|i| array(word)[i % 8]);
        Pool {
            cpus: words.iter().map(|&w| CpuId { core: w as u32, socket: (w >> 32) as u32 }).collect(),
            sections: words.windows(2).map(|w| AuxtraceEntry { offset: w[0], size: w[1] }).collect(),
            ids: words
                .windows(4)
                .map(|w| IdIndexEntry { id: w[0], index: w[1], cpu: w[2], tid: w[3] })
                .collect(),
            guests: words.windows(2).map(|w| Guest { machine_pid: w[0], vcpu: w[1] }).collect(),
            threads: words.windows(2).map(|w| Thread { tid: w[0], comm: comm(w[1]) }).collect(),
            terms: words.windows(2).map(|w| StatConfigEntry { tag: w[0], value: w[1] }).collect(),
            cpus16: words.iter().map(|&w| Cpu16(w as u16)).collect(),
            cpus32: words.iter().map(|&w| Cpu32(w as u32)).collect(),
            variables: words.iter().take(3).map(|&w| variable(w)).collect(),
            bytes,
            words,
        }
    })
}

fn variable(word: u64) -> BpfVariable {
    let byte = |i: usize| word.to_le_bytes()[i % 8];
    BpfVariable { key: std::array::from_fn(byte), value: std::array::from_fn(byte) }
}

/// Makes values, led by a list of numbers: smaller ones make simpler values.
struct Source<'a> {
    pool: &'a Pool,
    choices: std::slice::Iter<'a, u64>,
}

impl<'a> Source<'a> {
    fn u64(&mut self) -> u64 {
        self.choices.next().copied().unwrap_or(0)
    }

    fn u32(&mut self) -> u32 {
        self.u64() as u32
    }

    fn u16(&mut self) -> u16 {
        self.u64() as u16
    }

    fn u8(&mut self) -> u8 {
        self.u64() as u8
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.u64() % limit as u64) as usize
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.below(2) == 1 { Some(make(self)) } else { None }
    }

    fn slice<T>(&mut self, from: &'a [T]) -> &'a [T] {
        let start = self.below(from.len());
        &from[start..start + self.below((from.len() - start + 1).min(60))]
    }

    fn bytes(&mut self) -> &'a [u8] {
        self.slice(&self.pool.bytes)
    }

    fn str(&mut self) -> Str<'a> {
        Str::new(self.bytes())
    }

    fn text(&mut self) -> Text<'a> {
        Text::new(self.bytes())
    }

    /// Bytes without a NUL.
    fn name(&mut self) -> &'a [u8] {
        self.text().as_bytes()
    }

    fn vec<T>(&mut self, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(4)).map(|_| make(self)).collect()
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.u8())
    }

    fn build_id(&mut self, kind: u32) -> BuildIdEntry<'a> {
        BuildIdEntry {
            kind: RecordType(kind),
            misc: Misc::from_bits_retain(self.u16()),
            pid: self.u32() as i32,
            id: self.array(),
            len: self.u8(),
            reserved: self.array(),
            name: self.str(),
        }
    }

    fn capability(&mut self) -> Capability<'a> {
        Capability { name: self.str(), value: self.str() }
    }

    fn event_descs(&mut self) -> EventDescs<'a> {
        let len = 8 * self.below(20);
        let event = |s: &mut Self| EventDesc {
            attr: AttrBytes(&s.pool.bytes[..len]),
            name: s.str(),
            ids: s.slice(&s.pool.words).into(),
        };
        EventDescs { attr_size: len as u32, events: self.vec(event) }
    }

    fn cpu_topology(&mut self) -> CpuTopology<'a> {
        let cpus = self.maybe(|s| &s.pool.cpus[..3 + s.below(9)]);
        let count = cpus.map_or(0, <[_]>::len);
        CpuTopology {
            core_siblings: self.vec(Self::str),
            thread_siblings: self.vec(Self::str),
            cpus: cpus.map(Seq::from),
            dies: cpus.and(self.maybe(|s| Dies {
                siblings: s.vec(Self::str),
                of_cpu: (0..count).map(|_| s.u32()).collect(),
            })),
        }
    }

    fn cpu_domains(&mut self) -> CpuDomains<'a> {
        let version = [15, 17][self.below(2)];
        let domain = |s: &mut Self| SchedDomain {
            domain: s.u32(),
            name: (version >= 17).then(|| s.str()),
            mask: s.str(),
            list: s.str(),
        };
        CpuDomains {
            schedstat_version: version,
            max_domains: self.u32(),
            cpus: self.vec(|s| CpuDomain { cpu: s.u32(), domains: s.vec(domain) }),
        }
    }

    fn tracing_data(&mut self) -> TracingData<'a> {
        let system = |s: &mut Self| System { name: s.name(), formats: s.vec(Self::bytes) };
        let is_new = self.below(2) == 1;
        TracingData {
            version: if is_new { b"0.6" } else { b"0.5" },
            is_big_endian: self.below(2) == 1,
            long_size: self.u8(),
            page_size: self.u32(),
            header_page: self.bytes(),
            header_event: self.bytes(),
            ftrace_formats: self.vec(Self::bytes),
            systems: self.vec(system),
            kallsyms: self.bytes(),
            printk_formats: self.bytes(),
            saved_cmdlines: is_new.then(|| self.bytes()),
        }
    }

    fn feature(&mut self, id: FeatureId) -> Feature<'a> {
        match id {
            FeatureId::TRACING_DATA => Feature::TracingData(Box::new(self.tracing_data())),
            FeatureId::BUILD_ID => Feature::BuildIds(self.vec(|s| s.build_id(0))),
            FeatureId::HOSTNAME => Feature::Hostname(self.str()),
            FeatureId::OSRELEASE => Feature::OsRelease(self.str()),
            FeatureId::VERSION => Feature::Version(self.str()),
            FeatureId::ARCH => Feature::Arch(self.str()),
            FeatureId::NRCPUS => Feature::NrCpus(NrCpus { available: self.u32(), online: self.u32() }),
            FeatureId::CPUDESC => Feature::CpuDesc(self.str()),
            FeatureId::CPUID => Feature::CpuId(self.str()),
            FeatureId::TOTAL_MEM => Feature::TotalMem(self.u64()),
            FeatureId::CMDLINE => Feature::Cmdline(self.vec(Self::str)),
            FeatureId::EVENT_DESC => Feature::EventDesc(self.event_descs()),
            FeatureId::CPU_TOPOLOGY => Feature::CpuTopology(self.cpu_topology()),
            FeatureId::NUMA_TOPOLOGY => Feature::NumaTopology(self.vec(|s| NumaNode {
                node: s.u32(),
                total_kib: s.u64(),
                free_kib: s.u64(),
                cpus: s.str(),
            })),
            FeatureId::BRANCH_STACK => Feature::BranchStack,
            FeatureId::PMU_MAPPINGS => {
                Feature::PmuMappings(self.vec(|s| PmuMapping { kind: s.u32(), name: s.str() }))
            }
            FeatureId::GROUP_DESC => {
                Feature::GroupDesc(self.vec(|s| Group { name: s.str(), leader: s.u32(), members: s.u32() }))
            }
            FeatureId::AUXTRACE => {
                let records: &[_] = self.slice(&self.pool.sections);
                let is_bare = !records.is_empty() && self.below(2) == 1;
                Feature::Auxtrace(AuxtraceIndex { is_bare, records: records.into() })
            }
            FeatureId::STAT => Feature::Stat,
            FeatureId::CACHE => Feature::Cache(Cache {
                version: self.u32(),
                levels: self.vec(|s| CacheLevel {
                    level: s.u32(),
                    line_size: s.u32(),
                    sets: s.u32(),
                    ways: s.u32(),
                    kind: s.str(),
                    size: s.str(),
                    cpus: s.str(),
                }),
            }),
            FeatureId::SAMPLE_TIME => {
                Feature::SampleTime(SampleTime { first_ns: self.u64(), last_ns: self.u64() })
            }
            FeatureId::MEM_TOPOLOGY => Feature::MemTopology(MemTopology {
                version: self.u64(),
                block_size: self.u64(),
                nodes: self.vec(|s| {
                    let set: &[u64] = s.slice(&s.pool.words);
                    let bits = (set.len() as u64 * 64).saturating_sub(s.below(64) as u64);
                    MemNode { node: s.u64(), size: s.u64(), bits, set: set.into() }
                }),
            }),
            FeatureId::CLOCKID => Feature::ClockResolution(self.u64()),
            FeatureId::DIR_FORMAT => Feature::DirFormat(self.u64()),
            FeatureId::BPF_PROG_INFO => Feature::BpfPrograms(self.vec(|s| BpfProgram {
                arrays: s.u64(),
                info: s.bytes(),
                data: s.bytes(),
            })),
            FeatureId::BPF_BTF => Feature::BpfTypes(self.vec(|s| Btf { id: s.u32(), bytes: s.bytes() })),
            FeatureId::COMPRESSED => Feature::Compressed(Compressed {
                version: self.u32(),
                kind: self.u32(),
                level: self.u32(),
                ratio: self.u32(),
                mmap_len: self.u32(),
            }),
            FeatureId::CPU_PMU_CAPS => Feature::CpuPmuCaps(self.vec(Self::capability)),
            FeatureId::CLOCK_DATA => Feature::Clock(Clock {
                version: self.u32(),
                clock_id: self.u32(),
                wall_ns: self.u64(),
                clock_ns: self.u64(),
            }),
            FeatureId::HYBRID_TOPOLOGY => {
                Feature::HybridTopology(self.vec(|s| HybridNode { pmu: s.str(), cpus: s.str() }))
            }
            FeatureId::PMU_CAPS => {
                Feature::PmuCaps(self.vec(|s| PmuCaps { caps: s.vec(Self::capability), pmu: s.str() }))
            }
            FeatureId::CPU_DOMAIN_INFO => Feature::CpuDomains(self.cpu_domains()),
            FeatureId::E_MACHINE => Feature::EMachine { machine: self.u32(), flags: self.u32() },
            FeatureId::CLN_SIZE => Feature::CacheLineSize(self.u32()),
            id => Feature::Unknown { id, bytes: self.bytes() },
        }
    }

    fn cpu_map(&mut self) -> CpuMap<'a> {
        match self.below(5) {
            0 => CpuMap::Cpus(self.slice(&self.pool.cpus16).into()),
            1 => CpuMap::Mask32(self.slice(&self.pool.cpus32).into()),
            2 => CpuMap::Mask64 { padding: self.array(), mask: self.slice(&self.pool.words).into() },
            3 => CpuMap::Range { any: self.u8(), reserved: self.u8(), start: self.u16(), end: self.u16() },
            _ => CpuMap::Unknown { form: 3 + self.below(9) as u16, bytes: self.bytes() },
        }
    }

    fn update(&mut self) -> Update<'a> {
        match self.below(5) {
            0 => Update::Unit(self.text()),
            1 => Update::Scale(f64::from(self.u32()) / 3.0),
            2 => Update::Name(self.text()),
            3 => Update::Cpus(self.cpu_map()),
            _ => Update::Unknown { kind: 4 + self.below(9) as u64, bytes: self.bytes() },
        }
    }

    fn cpu_counts(&mut self) -> CpuCounts {
        CpuCounts {
            yields: self.u32(),
            legacy: self.u32(),
            schedules: self.u32(),
            idle: self.u32(),
            wakeups: self.u32(),
            local_wakeups: self.u32(),
            run_ns: self.u64(),
            wait_ns: self.u64(),
            slices: self.u64(),
        }
    }

    fn three(&mut self) -> [u32; 3] {
        [self.u32(), self.u32(), self.u32()]
    }

    fn domain_counts(&mut self, version: u16) -> DomainCounts {
        let mut balancing = || Balancing {
            count: self.u32(),
            balanced: self.u32(),
            failed: self.u32(),
            imbalance: self.u32(),
            imbalances: (version >= 17).then(|| self.three()),
            gained: self.u32(),
            hot_gained: self.u32(),
            no_busier_queue: self.u32(),
            no_busier_group: self.u32(),
        };
        let (idle, busy, newly_idle) = (balancing(), balancing(), balancing());
        DomainCounts {
            idle,
            busy,
            newly_idle,
            active: self.three(),
            exec: self.three(),
            fork: self.three(),
            remote_wakeups: self.u32(),
            affine_wakeups: self.u32(),
            balancing_wakeups: self.u32(),
        }
    }

    /// An attr with its ids; the bytes of an attr say how many they are.
    fn header_attr(&mut self, attr: &'a [u8]) -> HeaderAttr<'a> {
        HeaderAttr { attr: AttrBytes(attr), ids: self.slice(&self.pool.words).into() }
    }

    fn tool(&mut self, kind: RecordType, attr: &'a [u8]) -> Tool<'a> {
        match kind {
            kind::HEADER_ATTR => Tool::HeaderAttr(self.header_attr(attr)),
            kind::HEADER_EVENT_TYPE => Tool::EventType(EventType { id: self.u64(), name: self.text() }),
            kind::HEADER_TRACING_DATA => Tool::TracingData { size: self.u32(), padding: Default::default() },
            kind::HEADER_BUILD_ID => Tool::BuildId(self.build_id(67)),
            kind::FINISHED_ROUND => Tool::FinishedRound,
            kind::ID_INDEX => {
                let count = self.below(20);
                let entries = self.pool.ids[..count].into();
                let guests = if count > 0 { self.maybe(|s| s.pool.guests[..count].into()) } else { None };
                Tool::IdIndex(IdIndex { entries, guests })
            }
            kind::AUXTRACE_INFO => Tool::AuxtraceInfo(AuxtraceInfo {
                kind: self.u32(),
                reserved: self.u32(),
                private: self.slice(&self.pool.words).into(),
            }),
            kind::AUXTRACE => Tool::Auxtrace(Auxtrace {
                size: self.u64(),
                offset: self.u64(),
                reference: self.u64(),
                index: self.u32(),
                tid: self.u32(),
                cpu: self.u32(),
                reserved: self.u32(),
            }),
            kind::AUXTRACE_ERROR => {
                let form = self.below(3) as u32;
                Tool::AuxtraceError(AuxtraceError {
                    kind: self.u32(),
                    code: self.u32(),
                    cpu: self.u32(),
                    pid: self.u32(),
                    tid: self.u32(),
                    form,
                    ip: self.u64(),
                    time: (form >= 1).then(|| self.u64()),
                    message: self.array(),
                    guest: (form >= 2)
                        .then(|| AuxtraceErrorGuest { machine_pid: self.u32(), vcpu: self.u32() }),
                })
            }
            kind::THREAD_MAP => Tool::ThreadMap(self.slice(&self.pool.threads).into()),
            kind::CPU_MAP => Tool::CpuMap(self.cpu_map()),
            kind::STAT_CONFIG => Tool::StatConfig(self.slice(&self.pool.terms).into()),
            kind::STAT => Tool::Stat(Stat {
                id: self.u64(),
                cpu: self.u32(),
                thread: self.u32(),
                value: self.u64(),
                enabled_ns: self.u64(),
                running_ns: self.u64(),
            }),
            kind::STAT_ROUND => Tool::StatRound(StatRound { kind: self.u64(), time_ns: self.u64() }),
            kind::EVENT_UPDATE => Tool::EventUpdate(EventUpdate { id: self.u64(), update: self.update() }),
            kind::TIME_CONV => Tool::TimeConv(TimeConv {
                shift: self.u64(),
                mult: self.u64(),
                zero: self.u64(),
                cap: self.maybe(|s| TimeConvCap {
                    cycles: s.u64(),
                    mask: s.u64(),
                    has_zero: s.u8(),
                    is_short: s.u8(),
                    reserved: s.array(),
                }),
            }),
            kind::HEADER_FEATURE => Tool::HeaderFeature { id: FeatureId(self.u64()), bytes: self.bytes() },
            kind::COMPRESSED => Tool::Compressed(self.bytes()),
            kind::FINISHED_INIT => Tool::FinishedInit,
            kind::COMPRESSED2 => Tool::Compressed2 { bytes: self.bytes(), padding: Default::default() },
            kind::BPF_METADATA => Tool::BpfMetadata(BpfMetadata {
                program: &self.pool.bytes[..512],
                variables: self.slice(&self.pool.variables).into(),
            }),
            kind::SCHEDSTAT_CPU => {
                let (timestamp, cpu, version) = (self.u64(), self.u32(), 14 + self.below(5) as u16);
                let counts = (15..=17).contains(&version).then(|| self.cpu_counts());
                let other = if counts.is_none() { self.bytes() } else { &[] };
                let padding = self.array();
                Tool::SchedstatCpu(SchedstatCpu { timestamp, cpu, version, padding, counts, other })
            }
            kind::SCHEDSTAT_DOMAIN => {
                let (timestamp, cpu, version) = (self.u64(), self.u32(), 14 + self.below(5) as u16);
                let counts = (15..=17).contains(&version).then(|| self.domain_counts(version));
                let other = if counts.is_none() { self.bytes() } else { &[] };
                let domain = self.u16();
                Tool::SchedstatDomain(SchedstatDomain { timestamp, cpu, version, domain, counts, other })
            }
            kind => Tool::Unknown { kind, body: self.bytes() },
        }
    }
}

fn orders() -> impl Strategy<Value = ByteOrder> {
    prop_oneof![Just(ByteOrder::Little), Just(ByteOrder::Big)]
}

fn choices() -> impl Strategy<Value = Vec<u64>> {
    vec(prop_oneof![0u64..64, any::<u64>()], 200)
}

fn feature_ids() -> impl Strategy<Value = FeatureId> {
    let unknown = [0, 35, 128, 255].map(FeatureId);
    let all: Vec<_> = FeatureId::ALL.iter().copied().chain(unknown).collect();
    proptest::sample::select(all)
}

fn kinds() -> impl Strategy<Value = RecordType> {
    let unknown = [87, 32768, u32::MAX].map(RecordType);
    let all: Vec<_> = kind::ALL.iter().copied().chain(unknown).collect();
    proptest::sample::select(all)
}

/// An attr of a size, as bytes of this order.
fn attr(size: u32, order: ByteOrder) -> Vec<u8> {
    let mut bytes = vec![7; size as usize];
    bytes[4..8].copy_from_slice(&order.bytes32(size));
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_section_that_was_written_is_read_as_it_was(
        pool in pools(), choices in choices(), id in feature_ids(), order in orders(),
    ) {
        let mut source = Source { pool: &pool, choices: choices.iter() };
        let feature = source.feature(id);
        let cpus = match &feature {
            Feature::CpuTopology(topology) => topology.cpus.map_or(0, |cpus| cpus.len()),
            _ => 0,
        };
        let extra = match feature {
            // A layout without an end of its own has nothing after it.
            Feature::BuildIds(_) | Feature::CpuDomains(_) | Feature::Unknown { .. } => &[][..],
            Feature::CpuTopology(_) | Feature::Auxtrace(_) | Feature::TracingData(_) => &[],
            Feature::BranchStack | Feature::Stat => &[],
            _ => source.bytes(),
        };
        let section = Section { feature, extra };
        let mut bytes = Vec::new();
        section.encode(order, &mut bytes).unwrap();
        // Without bytes, there is nothing to tell what it was.
        if !bytes.is_empty() || matches!(section.feature, Feature::BranchStack | Feature::Stat) {
            prop_assert_eq!(Section::decode(id, &bytes, order, cpus as u32).unwrap(), section);
        }
    }

    #[test]
    fn a_tool_record_that_was_written_is_read_as_it_was(
        pool in pools(), choices in choices(), kind in kinds(), order in orders(), size in 8u32..20,
    ) {
        let mut source = Source { pool: &pool, choices: choices.iter() };
        let attr = attr(size * 8, order);
        let mut record = ToolRecord::from(source.tool(kind, &attr));
        if !matches!(record.tool, Tool::BuildId(_)) {
            record.misc = Misc::from_bits_retain(source.u16());
        }
        let mut bytes = Vec::new();
        record.encode(order, &mut bytes).unwrap();
        let (raw, rest) = RawRecord::split(&bytes, order).unwrap();
        prop_assert!(rest.is_empty());
        prop_assert_eq!(raw.header.kind, kind);
        prop_assert_eq!(ToolRecord::decode(&raw, order).unwrap(), record);
    }

    #[test]
    fn arbitrary_bytes_are_read_or_refused_and_written_again(
        bytes in vec(prop_oneof![Just(0u8), 0..4u8, any::<u8>()], 0..300),
        id in feature_ids(), kind in kinds(), order in orders(), cpus in 0u32..5,
    ) {
        if let Ok(section) = Section::decode(id, &bytes, order, cpus) {
            let mut again = Vec::new();
            section.encode(order, &mut again).unwrap();
            prop_assert_eq!(&again, &bytes);
        }
        let mut whole = order.bytes32(kind.0).to_vec();
        whole.extend([0, 0]);
        whole.extend(order.bytes16(bytes.len() as u16 + 8));
        whole.extend(&bytes);
        let (raw, _) = RawRecord::split(&whole, order).unwrap();
        if let Ok(record) = ToolRecord::decode(&raw, order) {
            let mut again = Vec::new();
            record.encode(order, &mut again).unwrap();
            prop_assert_eq!(&again, &whole);
        }
    }
}

#[test]
fn a_string_is_padded_as_perf_does_and_keeps_the_padding_it_came_with() {
    let mut bytes = Vec::new();
    Section::from(Feature::Hostname("box".into())).encode(ByteOrder::Big, &mut bytes).unwrap();
    assert_eq!((bytes.len(), &bytes[..8]), (68, &b"\0\0\0\x40box\0"[..]));
    for (text, len) in [("", 64), (&*"x".repeat(63), 64), (&*"x".repeat(64), 128)] {
        let mut bytes = Vec::new();
        Section::from(Feature::Arch(Str::new(text))).encode(ByteOrder::Little, &mut bytes).unwrap();
        assert_eq!(bytes.len(), 4 + len);
    }
    let odd = b"\x06\0\0\0ab\0xyz";
    let section = Section::decode(FeatureId::ARCH, odd, ByteOrder::Little, 0).unwrap();
    assert_eq!(section.feature, Feature::Arch("ab".into()));
    let mut again = Vec::new();
    section.encode(ByteOrder::Little, &mut again).unwrap();
    assert_eq!(again, odd);
}

#[test]
fn an_error_names_the_field_that_is_short() {
    let bytes = [1, 0, 0, 0, 9, 0, 0, 0];
    let error = Section::decode(FeatureId::BPF_BTF, &bytes, ByteOrder::Little, 0).unwrap_err();
    assert_eq!(error.to_string(), "types at byte 8 needs 4 bytes, 0 are left");
    let error = Section::decode(FeatureId::CMDLINE, &[0xff; 8], ByteOrder::Little, 0).unwrap_err();
    assert_eq!(error.to_string(), "string at byte 8 needs 4294967295 bytes, 0 are left");
}

/// The lines of a domain in `/proc/schedstat` of versions 15 and 17, as perf puts them into records.
#[test]
fn counts_of_a_scheduling_domain_are_found_where_each_version_has_them() {
    for (version, count, idle, busy, active) in
        [(15u16, 36u32, 0, 8, 24), (16, 36, 8, 0, 24), (17, 45, 11, 0, 33)]
    {
        let mut body = vec![0; 8];
        body.extend([3, 0, 0, 0]);
        body.extend(version.to_le_bytes());
        body.extend([1, 0]);
        (0..count).for_each(|n| body.extend(n.to_le_bytes()));
        // The record has room for the counts of any version.
        body.resize(200, 0);
        let mut bytes = kind::SCHEDSTAT_DOMAIN.0.to_le_bytes().to_vec();
        bytes.extend([0, 0, 208, 0]);
        bytes.extend(&body);
        let (raw, _) = RawRecord::split(&bytes, ByteOrder::Little).unwrap();
        let record = ToolRecord::decode(&raw, ByteOrder::Little).unwrap();
        let Tool::SchedstatDomain(SchedstatDomain { cpu: 3, domain: 1, counts: Some(counts), .. }) =
            record.tool
        else {
            panic!("{record:?}");
        };
        assert_eq!((counts.idle.count, counts.busy.count, counts.active[0]), (idle, busy, active));
        assert_eq!(counts.busy.imbalances, (version == 17).then_some([4, 5, 6]));
        assert_eq!((counts.balancing_wakeups, record.extra.len()), (count - 1, 184 - 4 * count as usize));
    }
}
