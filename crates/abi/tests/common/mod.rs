//! Arbitrary records. A [`Pool`] owns data of all kinds; a [`Source`] makes records that borrow from it,
//! led by a list of numbers: the same numbers give the same record, and smaller numbers simpler ones.

use perfuse_abi::read::ReadValues;
use perfuse_abi::record::*;
use perfuse_abi::wire::Text;
use perfuse_abi::{AuxFlags, BranchSampleType, ByteOrder, ReadFormat, SampleType, Txn};
use proptest::collection::vec;
use proptest::prelude::*;

/// Data to borrow.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    bytes: Vec<u8>,
    words: Vec<u64>,
    branches: Vec<BranchEntry>,
    links: Vec<NamespaceLink>,
    /// For each number of members the words of a group, with its count and far enough for every format.
    groups: Vec<Vec<u64>>,
}

pub(crate) fn pools() -> impl Strategy<Value = Pool> {
    (vec(any::<u8>(), 256), vec(any::<u64>(), 80)).prop_map(|(bytes, words)| {
        let branch = |w: &[u64]| BranchEntry { from: w[0], to: w[1], flags: BranchFlags(w[2]) };
        Pool {
            branches: words.windows(3).take(32).map(branch).collect(),
            links: words.windows(2).map(|w| NamespaceLink { dev: w[0], ino: w[1] }).collect(),
            groups: (0..5).map(|nr| std::iter::once(nr).chain(words.iter().copied()).collect()).collect(),
            bytes,
            words,
        }
    })
}

/// The numbers that lead a [`Source`]. Most fields want small ones, flags want many bits.
pub(crate) fn choices() -> impl Strategy<Value = Vec<u64>> {
    vec(prop_oneof![0u64..64, any::<u64>()], 100)
}

pub(crate) fn orders() -> impl Strategy<Value = ByteOrder> {
    prop_oneof![Just(ByteOrder::Little), Just(ByteOrder::Big)]
}

pub(crate) struct Source<'a> {
    pool: &'a Pool,
    choices: std::slice::Iter<'a, u64>,
}

/// Every type of record, and some that nobody knows.
pub(crate) fn kinds() -> Vec<RecordType> {
    let unknown = [0, 23, 40, 63, 64, 81, 1000, u32::MAX].map(RecordType);
    RecordType::ALL.iter().copied().chain(unknown).collect()
}

impl<'a> Source<'a> {
    pub(crate) fn new(pool: &'a Pool, choices: &'a [u64]) -> Self {
        Source { pool, choices: choices.iter() }
    }

    /// The next number; zeros when there are none left.
    fn u64(&mut self) -> u64 {
        self.choices.next().copied().unwrap_or(0)
    }

    fn u32(&mut self) -> u32 {
        self.u64() as u32
    }

    fn u16(&mut self) -> u16 {
        self.u64() as u16
    }

    fn bool(&mut self) -> bool {
        self.u64() % 2 == 1
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.u64() % limit as u64) as usize
    }

    fn slice<T>(&mut self, from: &'a [T], limit: usize) -> &'a [T] {
        let start = self.below(from.len() - limit);
        &from[start..start + self.below(limit + 1)]
    }

    fn bytes(&mut self) -> &'a [u8] {
        self.slice(&self.pool.bytes, 100)
    }

    fn words(&mut self, count: usize) -> &'a [u64] {
        let start = self.below(self.pool.words.len() - count);
        &self.pool.words[start..start + count]
    }

    fn text(&mut self) -> Text<'a> {
        Text::new(self.bytes())
    }

    fn tid(&mut self) -> Tid {
        Tid { pid: self.u32(), tid: self.u32() }
    }

    fn cpu(&mut self) -> Cpu {
        Cpu { cpu: self.u32(), res: if self.bool() { self.u32() } else { 0 } }
    }

    pub(crate) fn format(&mut self, order: ByteOrder) -> RecordFormat {
        RecordFormat {
            order,
            sample_id_all: self.bool(),
            sample_type: SampleType::from_bits_retain(self.u64()),
            read_format: ReadFormat::from_bits_retain(self.u64()),
            branch_sample_type: BranchSampleType::from_bits_retain(self.u64()),
            sample_regs_user: self.u64(),
            sample_regs_intr: self.u64(),
        }
    }

    fn read_values(&mut self, format: ReadFormat) -> ReadValues<'a> {
        let members = self.below(self.pool.groups.len());
        ReadValues::from_words(&self.pool.groups[members], format).expect("the pool has enough words")
    }

    fn regs(&mut self, mask: u64) -> Regs<'a> {
        let abi = RegsAbi(self.u64());
        let count = if abi == RegsAbi::ABI_NONE { 0 } else { mask.count_ones() as usize };
        Regs { abi, mask, words: self.words(count).into() }
    }

    fn branch_stack(&mut self, format: BranchSampleType) -> BranchStack<'a> {
        let entries = self.slice(&self.pool.branches, 20);
        BranchStack {
            hw_idx: format.contains(BranchSampleType::HW_INDEX).then(|| self.u64()),
            entries: entries.into(),
            counters: format.contains(BranchSampleType::COUNTERS).then(|| self.words(entries.len()).into()),
        }
    }

    fn user_stack(&mut self) -> UserStack<'a> {
        let bytes = self.bytes();
        let dyn_size = if bytes.is_empty() { 0 } else { self.u64() };
        UserStack { bytes, dyn_size }
    }

    fn sample(&mut self, format: &RecordFormat) -> Sample<'a> {
        let has = |flag| format.sample_type.contains(flag);
        let three = has(SampleType::WEIGHT_STRUCT);
        let mut sample = Sample::default();
        sample.identifier = has(SampleType::IDENTIFIER).then(|| self.u64());
        sample.ip = has(SampleType::IP).then(|| self.u64());
        sample.tid = has(SampleType::TID).then(|| self.tid());
        sample.time = has(SampleType::TIME).then(|| self.u64());
        sample.addr = has(SampleType::ADDR).then(|| self.u64());
        sample.id = has(SampleType::ID).then(|| self.u64());
        sample.stream_id = has(SampleType::STREAM_ID).then(|| self.u64());
        sample.cpu = has(SampleType::CPU).then(|| self.cpu());
        sample.period = has(SampleType::PERIOD).then(|| self.u64());
        sample.read = has(SampleType::READ).then(|| self.read_values(format.read_format));
        sample.callchain = has(SampleType::CALLCHAIN).then(|| self.slice(&self.pool.words, 40).into());
        sample.raw = has(SampleType::RAW).then(|| Raw::new(self.bytes()));
        sample.branch_stack =
            has(SampleType::BRANCH_STACK).then(|| self.branch_stack(format.branch_sample_type));
        sample.regs_user = has(SampleType::REGS_USER).then(|| self.regs(format.sample_regs_user));
        sample.stack_user = has(SampleType::STACK_USER).then(|| self.user_stack());
        sample.weight = (three || has(SampleType::WEIGHT)).then(|| {
            let bits = self.u64();
            if three { Weight::from_struct_bits(bits) } else { Weight::Full(bits) }
        });
        sample.data_src = has(SampleType::DATA_SRC).then(|| DataSrc(self.u64()));
        sample.transaction = has(SampleType::TRANSACTION).then(|| Txn::from_bits_retain(self.u64()));
        sample.regs_intr = has(SampleType::REGS_INTR).then(|| self.regs(format.sample_regs_intr));
        sample.phys_addr = has(SampleType::PHYS_ADDR).then(|| self.u64());
        sample.cgroup = has(SampleType::CGROUP).then(|| self.u64());
        sample.data_page_size = has(SampleType::DATA_PAGE_SIZE).then(|| self.u64());
        sample.code_page_size = has(SampleType::CODE_PAGE_SIZE).then(|| self.u64());
        sample.aux = has(SampleType::AUX).then(|| self.bytes());
        sample
    }

    fn sample_id(&mut self, format: &RecordFormat) -> SampleId {
        let has = |flag| format.sample_id_all && format.sample_type.contains(flag);
        SampleId {
            tid: has(SampleType::TID).then(|| self.tid()),
            time: has(SampleType::TIME).then(|| self.u64()),
            id: has(SampleType::ID).then(|| self.u64()),
            stream_id: has(SampleType::STREAM_ID).then(|| self.u64()),
            cpu: has(SampleType::CPU).then(|| self.cpu()),
            identifier: has(SampleType::IDENTIFIER).then(|| self.u64()),
        }
    }

    fn task(&mut self) -> Task {
        Task { pid: self.u32(), ppid: self.u32(), tid: self.u32(), ptid: self.u32(), time: self.u64() }
    }

    fn throttle(&mut self) -> Throttle {
        Throttle { time: self.u64(), id: self.u64(), stream_id: self.u64() }
    }

    fn mmap_file(&mut self) -> MmapFile {
        if self.bool() {
            // Readers take what is shorter, or begins as a place does, for none (rule H52).
            let len = 4 + self.below(17);
            let mut id = BuildId::new(&self.pool.bytes[..len]).expect("20 bytes at most");
            id.bytes[3] |= 0x80;
            MmapFile::BuildId(id)
        } else {
            MmapFile::Inode { maj: self.u32(), min: self.u32(), ino: self.u64(), ino_generation: self.u64() }
        }
    }

    fn record(&mut self, kind: RecordType, format: &RecordFormat) -> Record<'a> {
        match kind {
            RecordType::MMAP => Record::Mmap(Mmap {
                tid: self.tid(),
                addr: self.u64(),
                len: self.u64(),
                pgoff: self.u64(),
                filename: self.text(),
            }),
            RecordType::LOST => Record::Lost(Lost { id: self.u64(), lost: self.u64() }),
            RecordType::COMM => Record::Comm(Comm { tid: self.tid(), name: self.text() }),
            RecordType::EXIT => Record::Exit(self.task()),
            RecordType::THROTTLE => Record::Throttle(self.throttle()),
            RecordType::UNTHROTTLE => Record::Unthrottle(self.throttle()),
            RecordType::FORK => Record::Fork(self.task()),
            RecordType::READ => {
                Record::Read(Read { tid: self.tid(), values: self.read_values(format.read_format) })
            }
            RecordType::SAMPLE => Record::Sample(self.sample(format)),
            RecordType::MMAP2 => Record::Mmap2(Mmap2 {
                tid: self.tid(),
                addr: self.u64(),
                len: self.u64(),
                pgoff: self.u64(),
                file: self.mmap_file(),
                prot: self.u32(),
                flags: self.u32(),
                filename: self.text(),
            }),
            RecordType::AUX => Record::Aux(Aux {
                offset: self.u64(),
                size: self.u64(),
                flags: AuxFlags::from_bits_retain(self.u64()),
            }),
            RecordType::ITRACE_START => Record::ItraceStart(self.tid()),
            RecordType::LOST_SAMPLES => Record::LostSamples(self.u64()),
            RecordType::SWITCH => Record::Switch,
            RecordType::SWITCH_CPU_WIDE => Record::SwitchCpuWide(self.tid()),
            RecordType::NAMESPACES => Record::Namespaces(Namespaces {
                tid: self.tid(),
                links: self.slice(&self.pool.links, 9).into(),
            }),
            RecordType::KSYMBOL => Record::Ksymbol(Ksymbol {
                addr: self.u64(),
                len: self.u32(),
                kind: KsymbolType(self.u16()),
                flags: KsymbolFlags::from_bits_retain(self.u16()),
                name: self.text(),
            }),
            RecordType::BPF_EVENT => Record::BpfEvent(BpfEvent {
                kind: BpfEventType(self.u16()),
                flags: self.u16(),
                id: self.u32(),
                tag: self.u64().to_ne_bytes(),
            }),
            RecordType::CGROUP => Record::Cgroup(Cgroup { id: self.u64(), path: self.text() }),
            RecordType::TEXT_POKE => Record::TextPoke(TextPoke {
                addr: self.u64(),
                old: self.bytes(),
                new: self.bytes(),
                ..TextPoke::default()
            }),
            RecordType::AUX_OUTPUT_HW_ID => Record::AuxOutputHwId(self.u64()),
            RecordType::CALLCHAIN_DEFERRED => Record::CallchainDeferred(CallchainDeferred {
                cookie: self.u64(),
                ips: self.slice(&self.pool.words, 40).into(),
            }),
            kind => Record::Unknown { kind, body: self.bytes() },
        }
    }

    /// A record that `format` can express, so that nothing is lost by encoding it.
    pub(crate) fn decoded(&mut self, kind: RecordType, format: &RecordFormat) -> Decoded<'a> {
        let misc = Misc::from_bits_retain(self.u16());
        let record = self.record(kind, format);
        let has_trailer = kind.is_kernel() && kind != RecordType::SAMPLE;
        let sample_id = if has_trailer { self.sample_id(format) } else { SampleId::default() };
        let (misc, takes_the_rest) = match &record {
            Record::Mmap2(Mmap2 { file: MmapFile::BuildId(_), .. }) => (misc | Misc::MMAP_BUILD_ID, true),
            Record::Mmap2(_) => (misc - Misc::MMAP_BUILD_ID, true),
            Record::Mmap(_) | Record::Comm(_) | Record::Ksymbol(_) | Record::Cgroup(_) => (misc, true),
            Record::Unknown { .. } => (misc, true),
            // Bytes after an empty branch stack could be mistaken for its index.
            Record::Sample(sample) => {
                (misc, sample.branch_stack.is_some_and(|stack| stack.entries.is_empty()))
            }
            _ => (misc, false),
        };
        let extra = if takes_the_rest { &[] } else { self.bytes() };
        Decoded { misc, record, sample_id, extra }
    }
}
