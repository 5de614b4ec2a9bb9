//! The recordings that the transcripts are about, written by `perfuse-data` from numbers that are always the same: a
//! program that works, reads and dies, as each kind of event sees it.

use perfuse_abi::read::ReadValues;
use perfuse_abi::record::*;
use perfuse_abi::wire::{Seq, Text, Words};
use perfuse_abi::{
    Attr, AttrFlags, AuxFlags, BranchSampleType, ByteOrder, EventType, ReadFormat, SampleType,
};
use perfuse_data::feature::*;
use perfuse_data::tool::*;
use perfuse_data::{NewEvent, Writer};
use std::io::Cursor;

/// The build-ids of `grind`, `libtext.so` and the kernel.
pub(crate) const BUILD_IDS: [u8; 3] = [0x11, 0x22, 0x33];
const KERNEL: u64 = 0xffff_ffff_8100_0000;
const MODULE: u64 = 0xffff_ffff_c000_0000;
const LIBRARY: u64 = 0x7f00_0000_0000;
/// Where `grind` works: in `hash`, `store::insert`, `lookup`, `work` and `_start`; and in the library.
const HASH: u64 = 0x400147;
const INSERT: u64 = 0x400187;
const LOOKUP: u64 = 0x4001c5;
const WORK: u64 = 0x400210;
const START: u64 = 0x400241;
const MEASURE: u64 = LIBRARY + 0x248;
const WIDTH: u64 = LIBRARY + 0x2c5;
/// Callchains with how often they are seen, innermost frame first.
const CHAINS: [(&[u64], u64); 9] = [
    (&[HASH, INSERT, WORK, START], 9),
    (&[HASH, LOOKUP, WORK, START], 6),
    (&[INSERT, WORK, START], 2),
    (&[MEASURE, WIDTH, WORK, START], 3),
    (&[WIDTH, WORK, START], 1),
    (&[KERNEL + 0x3010, KERNEL + 0x2020, KERNEL + 0x1030, WIDTH, WORK, START], 3),
    (&[KERNEL + 0x5040, KERNEL + 0x4050, LOOKUP, WORK, START], 2),
    (&[MODULE + 0x110, MODULE + 0x20, KERNEL + 0x2020, KERNEL + 0x1030, MEASURE], 1),
    (&[0x1234_5678, WORK], 1),
];
const SH: Tid = Tid { pid: 100, tid: 100 };
const GRIND: Tid = Tid { pid: 200, tid: 200 };
const THREAD: Tid = Tid { pid: 200, tid: 201 };
const OTHER: Tid = Tid { pid: 300, tid: 300 };

/// A recording that is being made.
struct Making {
    writer: Writer<Cursor<Vec<u8>>>,
    format: RecordFormat,
    ids: Vec<u64>,
    time: u64,
    random: u64,
}

fn attr(kind: EventType, config: u64, period: u64, more: SampleType) -> Attr {
    let mut attr = Attr { config, ..Attr::new(kind) };
    let usual = SampleType::IDENTIFIER | SampleType::IP | SampleType::TID | SampleType::TIME;
    attr.sample_type = usual | SampleType::CPU | SampleType::PERIOD | more;
    attr.sample_period = period;
    attr.flags |= AttrFlags::SAMPLE_ID_ALL;
    attr
}

fn event(attr: Attr, name: &str, ids: &[u64]) -> NewEvent {
    NewEvent { attr, name: name.into(), ids: ids.to_vec() }
}

impl Making {
    fn new(events: &[NewEvent]) -> Self {
        Self::with(Writer::file(Cursor::new(Vec::new()), events), events)
    }

    fn with(writer: std::io::Result<Writer<Cursor<Vec<u8>>>>, events: &[NewEvent]) -> Self {
        let format = RecordFormat::of(&events[0].attr, ByteOrder::NATIVE);
        let ids = events.iter().map(|event| event.ids[0]).collect();
        Making { writer: writer.unwrap(), format, ids, time: 5_000_000_000, random: 1 }
    }

    /// The next of numbers that look random, below `limit`.
    fn next(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.random >> 33) % limit
    }

    fn tool(&mut self, tool: Tool<'_>) {
        self.writer.tool(tool).unwrap();
    }

    /// A record of a task on a cpu, half a millisecond after the one before.
    fn add(&mut self, tid: Tid, cpu: u32, misc: Misc, mut record: Record<'_>) {
        self.time += 500_000;
        let (tid, time, cpu) = (Some(tid), Some(self.time), Some(Cpu::from(cpu)));
        let mut sample_id = SampleId { tid, time, cpu, identifier: Some(self.ids[0]), ..SampleId::default() };
        if let Record::Sample(sample) = &mut record {
            (sample.tid, sample.time, sample.cpu) = (tid, time, cpu);
            sample.identifier = sample.identifier.or(Some(self.ids[0]));
            sample.period = sample.period.or(Some(1_000_000));
            sample_id = SampleId::default();
        }
        let record = Decoded { misc, record, sample_id, extra: &[] };
        self.writer.record(&record, &self.format).unwrap();
    }

    fn side(&mut self, tid: Tid, record: Record<'_>) {
        self.add(tid, 0, Misc::empty().with_cpu_mode(CpuMode::USER), record);
    }

    fn comm(&mut self, tid: Tid, name: &str, misc: Misc) {
        self.add(tid, 0, misc, Record::Comm(Comm { tid, name: Text::new(name.as_bytes()) }));
    }

    fn fork(&mut self, parent: Tid, child: Tid) {
        let task =
            Task { pid: child.pid, ppid: parent.pid, tid: child.tid, ptid: parent.tid, time: self.time };
        self.side(child, Record::Fork(task));
    }

    fn map(&mut self, tid: Tid, addr: u64, len: u64, name: &str, build_id: Option<u8>) {
        let id = build_id.and_then(|byte| perfuse_abi::record::BuildId::new(&[byte; 20]));
        let inode = MmapFile::Inode { maj: 8, min: 1, ino: 77, ino_generation: 5 };
        let file = id.map_or(inode, MmapFile::BuildId);
        let filename = Text::new(name.as_bytes());
        let map = Mmap2 { tid, addr, len, file, prot: 5, flags: 2, filename, ..Mmap2::default() };
        self.side(tid, Record::Mmap2(map));
    }

    /// The kernel and a module; a shell, the program with its library that it starts, and another of its name's.
    fn start(&mut self) {
        let kernel = Tid { pid: u32::MAX, tid: 0 };
        for (addr, len, name, id) in [
            (KERNEL, 0x10000, "[kernel.kallsyms]_text", BUILD_IDS[2]),
            // The file of the module is nowhere.
            (MODULE, 0x1000, "[demo]", 0x44),
        ] {
            let file =
                perfuse_abi::record::BuildId::new(&[id; 20]).map_or(MmapFile::default(), MmapFile::BuildId);
            let (pgoff, filename) = (if name == "[demo]" { 0 } else { addr }, Text::new(name.as_bytes()));
            let map = Mmap2 { tid: kernel, addr, len, pgoff, file, prot: 5, flags: 2, filename };
            self.add(kernel, 0, Misc::empty().with_cpu_mode(CpuMode::KERNEL), Record::Mmap2(map));
        }
        self.comm(SH, "sh", Misc::COMM_EXEC);
        self.map(SH, 0x400000, 0x1000, "/opt/demo/sh", None);
        self.fork(SH, GRIND);
        self.comm(GRIND, "grind", Misc::COMM_EXEC);
        self.map(GRIND, 0x400000, 0x1000, "/opt/demo/grind", Some(BUILD_IDS[0]));
        self.map(GRIND, LIBRARY, 0x1000, "/opt/demo/libtext.so", Some(BUILD_IDS[1]));
        self.fork(GRIND, THREAD);
        self.comm(THREAD, "grind-io", Misc::empty());
        self.fork(SH, OTHER);
    }

    fn sample(&mut self, tid: Tid, chain: &[u64], sample: Sample<'_>) {
        let is_kernel = |ip: &u64| *ip >= 1 << 63;
        let mut words = Vec::new();
        let (kernel, user) = chain.split_at(chain.iter().take_while(|ip| is_kernel(ip)).count());
        for (context, ips) in [(CallchainContext::KERNEL, kernel), (CallchainContext::USER, user)] {
            if !ips.is_empty() {
                words.push(context.0);
                words.extend(ips);
            }
        }
        let mut sample = sample; // lives no longer than `words`
        // Most samples are where their callchain begins.
        let ip = *sample.ip.get_or_insert(chain[0]);
        sample.callchain = Some(Callchain { words: Words::from(&words[..]) });
        let mode = if is_kernel(&ip) { CpuMode::KERNEL } else { CpuMode::USER };
        let cpu = tid.tid % 2;
        self.add(tid, cpu, Misc::empty().with_cpu_mode(mode), Record::Sample(sample));
    }

    /// A task and the places in its callchain, by chance.
    fn place(&mut self) -> (Tid, &'static [u64]) {
        let tid = [GRIND, GRIND, THREAD, OTHER][self.next(4) as usize];
        let mut number = self.next(CHAINS.iter().map(|(_, weight)| weight).sum());
        for (chain, weight) in CHAINS {
            match number.checked_sub(weight) {
                Some(rest) => number = rest,
                None => return (tid, chain),
            }
        }
        unreachable!("the number is below the sum")
    }

    /// A sample of `grind` with its last branches, the newest first.
    fn branches(&mut self, ip: u64, entries: &[BranchEntry]) {
        let mut sample = Sample::default();
        sample.branch_stack = Some(BranchStack { hw_idx: None, entries: Seq::from(entries), counters: None });
        self.sample(GRIND, &[ip], sample);
    }

    fn finish_with_branches(self) -> Vec<u8> {
        let mut features = machine(&["perf", "record", "-b", "./grind"]);
        features.push(Feature::BranchStack);
        self.finish(features)
    }

    fn finish(mut self, mut features: Vec<Feature<'_>>) -> Vec<u8> {
        self.tool(Tool::FinishedRound);
        let end = SampleTime { first_ns: 5_000_000_000, last_ns: self.time };
        features.insert(0, Feature::SampleTime(end));
        self.writer.finish(features).unwrap().into_inner()
    }
}

/// The sections about the machine that a recording is from.
fn machine(command: &'static [&'static str]) -> Vec<Feature<'static>> {
    static CPUS: [CpuId; 2] = [CpuId { core: 0, socket: 0 }, CpuId { core: 0, socket: 1 }];
    static MEMORY: [u64; 1] = [0b11];
    let id = |byte: u8, name, mode| perfuse_data::feature::BuildIdEntry {
        id: [byte; 20],
        len: 20,
        misc: perfuse_data::feature::BuildIdEntry::HAS_LEN | Misc::empty().with_cpu_mode(mode),
        pid: -1,
        name,
        ..perfuse_data::feature::BuildIdEntry::default()
    };
    vec![
        Feature::Hostname("demo".into()),
        Feature::OsRelease("6.12.0-demo".into()),
        Feature::Version("6.12".into()),
        Feature::Arch("x86_64".into()),
        Feature::NrCpus(NrCpus { available: 2, online: 2 }),
        Feature::CpuDesc("Demo processor".into()),
        Feature::CpuId("Demo,6,1,2".into()),
        Feature::TotalMem(4 << 20),
        Feature::Cmdline(command.iter().map(|&word| word.into()).collect()),
        Feature::CpuTopology(CpuTopology {
            core_siblings: vec!["0".into(), "1".into()],
            thread_siblings: vec!["0".into(), "1".into()],
            cpus: Some(Seq::from(&CPUS[..])),
            dies: None,
        }),
        Feature::NumaTopology(vec![NumaNode {
            node: 0,
            total_kib: 4 << 20,
            free_kib: 1 << 20,
            cpus: "0-1".into(),
        }]),
        Feature::PmuMappings(vec![PmuMapping { kind: 1, name: "software".into() }]),
        Feature::Cache(Cache {
            levels: vec![CacheLevel {
                level: 1,
                line_size: 64,
                sets: 64,
                ways: 8,
                kind: "Data".into(),
                size: "32K".into(),
                cpus: "0".into(),
            }],
            version: 1,
        }),
        Feature::MemTopology(MemTopology {
            version: 1,
            block_size: 1 << 27,
            nodes: vec![MemNode { node: 0, size: 2, bits: 2, set: Words::from(&MEMORY[..]) }],
        }),
        Feature::CacheLineSize(64),
        Feature::BuildIds(vec![
            id(BUILD_IDS[0], "/opt/demo/grind".into(), CpuMode::USER),
            id(BUILD_IDS[1], "/opt/demo/libtext.so".into(), CpuMode::USER),
            id(BUILD_IDS[2], "[kernel.kallsyms]".into(), CpuMode::KERNEL),
        ]),
    ]
}

fn clock() -> [NewEvent; 1] {
    [event(attr(EventType::SOFTWARE, 0, 1_000_000, SampleType::CALLCHAIN), "cpu-clock", &[1, 2])]
}

/// Callchains of several tasks, and a record of each kind of side-band.
fn chains(mut making: Making) -> Making {
    making.start();
    for _ in 0..20 {
        let (tid, chain) = making.place();
        making.sample(tid, chain, Sample::default());
    }
    making.side(GRIND, Record::Lost(Lost { id: 1, lost: 7 }));
    making.side(GRIND, Record::LostSamples(3));
    let throttle = Throttle { time: making.time, id: 1, stream_id: 1 };
    making.side(GRIND, Record::Throttle(throttle));
    making.side(GRIND, Record::Unthrottle(throttle));
    making.add(GRIND, 1, Misc::SWITCH_OUT, Record::SwitchCpuWide(THREAD));
    making.add(THREAD, 1, Misc::empty(), Record::SwitchCpuWide(GRIND));
    making.tool(Tool::FinishedRound);
    for _ in 0..20 {
        let (tid, chain) = making.place();
        making.sample(tid, chain, Sample::default());
    }
    let time = making.time;
    making.side(THREAD, Record::Exit(Task { pid: 200, ppid: 100, tid: 201, ptid: 100, time }));
    making
}

/// Of an event that is precise: samples that are some instructions before their callchains begin, also in another function, or on the other
/// side of a system call; and callchains that are empty, or whose frames were none.
fn precise() -> Vec<u8> {
    let mut making = Making::new(&clock());
    making.start();
    let places: [(u64, &[u64]); 8] = [
        (HASH, &[HASH + 4, INSERT, WORK, START]),
        (INSERT, &[HASH + 2, INSERT, WORK, START]),
        (HASH + 9, &[INSERT + 1, WORK, START]),
        (WORK, &[WIDTH, WORK, START]),
        (KERNEL + 0x3010, &[WIDTH, WORK, START]),
        (MEASURE, &[MEASURE, u64::MAX]),
        (0x1234_0000, &[0x1234_5678, WORK]),
        (LOOKUP, &[0x1234_5678, LOOKUP, 0x9999_0000, WORK]),
    ];
    for (place, chain) in places.into_iter().cycle().take(40) {
        let mut sample = Sample::default();
        sample.ip = Some(place);
        making.sample(GRIND, chain, sample);
    }
    making.finish(machine(&["perf", "record", "-g", "-e", "cycles:pp", "./grind"]))
}

/// So many samples in each of some functions, in turns: for comparing.
fn counted(functions: &[(u64, u64)]) -> Vec<u8> {
    let clock = event(attr(EventType::SOFTWARE, 0, 1_000_000, SampleType::CALLCHAIN), "cpu-clock", &[1]);
    let mut making = Making::new(&[clock]);
    making.start();
    for &(address, count) in functions {
        (0..count).for_each(|_| making.sample(GRIND, &[address], Sample::default()));
    }
    making.finish(machine(&["perf", "record", "./grind"]))
}

/// A thread that works alone, then with another one, which ends, and then alone again.
fn together() -> Vec<u8> {
    let mut attr = attr(EventType::SOFTWARE, 0, 1_000_000, SampleType::CALLCHAIN);
    attr.flags |= AttrFlags::CONTEXT_SWITCH;
    let mut making = Making::new(&[event(attr, "cpu-clock", &[1])]);
    making.start();
    (0..10).for_each(|_| making.sample(GRIND, &[LOOKUP, WORK], Sample::default()));
    making.add(THREAD, 1, Misc::empty(), Record::Switch);
    for _ in 0..15 {
        making.sample(GRIND, &[HASH, WORK], Sample::default());
        making.sample(THREAD, &[HASH, INSERT], Sample::default());
    }
    let time = making.time;
    making.side(THREAD, Record::Exit(Task { pid: 200, ppid: 100, tid: 201, ptid: 100, time }));
    (0..5).for_each(|_| making.sample(GRIND, &[INSERT, WORK], Sample::default()));
    making.finish(machine(&["perf", "record", "--latency", "-g", "./grind"]))
}

/// A record of each kind that the kernel makes, but for those of [`chains`].
fn kinds() -> Vec<u8> {
    let mut making = Making::new(&clock());
    making.start();
    let map =
        Mmap { tid: GRIND, addr: 0x500000, len: 0x1000, pgoff: 0, filename: Text::new(b"/opt/demo/old") };
    making.side(GRIND, Record::Mmap(map));
    making.side(GRIND, Record::Aux(Aux { offset: 0x1000, size: 0x800, flags: AuxFlags::TRUNCATED }));
    making.side(GRIND, Record::ItraceStart(GRIND));
    making.add(GRIND, 0, Misc::SWITCH_OUT, Record::Switch);
    let links: Vec<_> = (0..7).map(|n| NamespaceLink { dev: 4, ino: 0xf000_0000 + n }).collect();
    making.side(GRIND, Record::Namespaces(Namespaces { tid: GRIND, links: Seq::from(&links[..]) }));
    making.side(GRIND, Record::Cgroup(Cgroup { id: 9, path: Text::new(b"/demo") }));
    let program = KsymbolType::BPF;
    let (addr, flags, name) = (KERNEL + 0x8000, KsymbolFlags::empty(), Text::new(b"bpf_prog_demo"));
    making.side(GRIND, Record::Ksymbol(Ksymbol { addr, len: 64, kind: program, flags, name }));
    making.side(
        GRIND,
        Record::BpfEvent(BpfEvent { kind: BpfEventType::PROG_LOAD, flags: 0, id: 7, tag: [5; 8] }),
    );
    let poke = TextPoke { addr: KERNEL + 0x3000, old: &[0x90], new: &[0xcc], ..TextPoke::default() };
    making.side(GRIND, Record::TextPoke(poke));
    making.side(GRIND, Record::AuxOutputHwId(3));
    let read = Read { tid: GRIND, values: ReadValues::from_words(&[12], ReadFormat::empty()).unwrap() };
    making.side(GRIND, Record::Read(read));
    let ips = [INSERT, WORK];
    let rest = CallchainDeferred { cookie: 77, ips: Words::from(&ips[..]) };
    making.side(GRIND, Record::CallchainDeferred(rest));
    making.sample(GRIND, CHAINS[5].0, Sample::default());
    making.sample(GRIND, CHAINS[7].0, Sample::default());
    // Of a thread that no record has told of.
    making.sample(Tid { pid: 400, tid: 401 }, CHAINS[0].0, Sample::default());
    making.finish(machine(&["perf", "record", "-g", "./grind"]))
}

/// Letters of two columns, and one that is put together from two.
const WIDE: &str = "\u{65e5}\u{672c}\u{8a9e}";
const COMBINED: &str = "cafe\u{301}";

/// Names of processes, files and functions with such letters, beside plain ones.
fn wide() -> Vec<u8> {
    let mut making = Making::new(&clock());
    making.start();
    making.comm(OTHER, WIDE, Misc::COMM_EXEC);
    making.map(OTHER, 0x400000, 0x1000, "/opt/demo/grind", Some(BUILD_IDS[0]));
    making.map(
        OTHER,
        LIBRARY,
        0x1000,
        "/opt/\u{30c7}\u{30e2}/\u{30e9}\u{30a4}\u{30d6}\u{30e9}\u{30ea}.so",
        None,
    );
    making.comm(THREAD, COMBINED, Misc::empty());
    making.map(THREAD, 0x600000, 0x1000, "/opt/demo/nai\u{308}ve.so", None);
    let programs =
        [(KERNEL + 0x20000, "bpf_prog_\u{95a2}\u{6570}"), (KERNEL + 0x21000, "bpf_prog_e\u{301}tude")];
    for (addr, name) in programs {
        let (kind, flags, name) = (KsymbolType::BPF, KsymbolFlags::empty(), Text::new(name.as_bytes()));
        making.side(GRIND, Record::Ksymbol(Ksymbol { addr, len: 4096, kind, flags, name }));
    }
    let places: [(Tid, &[u64], u64); 7] = [
        (GRIND, &[HASH, WORK, START], 5),
        (OTHER, &[INSERT, WORK, START], 4),
        (OTHER, &[LIBRARY + 0x10, WORK, START], 3),
        (OTHER, &[KERNEL + 0x20010, LIBRARY + 0x10, WORK], 3),
        (THREAD, &[0x600010, WORK, START], 2),
        (THREAD, &[KERNEL + 0x21010, WORK, START], 2),
        (OTHER, &[KERNEL + 0x2020, WORK, START], 1),
    ];
    for (tid, chain, count) in places {
        (0..count).for_each(|_| making.sample(tid, chain, Sample::default()));
    }
    making.finish(machine(&["perf", "record", "-g", WIDE]))
}

/// A group of two events whose samples have the counts of both.
fn group() -> Vec<u8> {
    let more = SampleType::READ | SampleType::CALLCHAIN;
    let mut leader = attr(EventType::HARDWARE, 0, 100_000, more);
    leader.read_format = ReadFormat::GROUP | ReadFormat::ID;
    let second = Attr { config: 1, sample_period: 0, ..leader };
    let mut making = Making::new(&[event(leader, "cycles", &[1]), event(second, "instructions", &[2])]);
    making.start();
    let mut counts = [0u64; 2];
    for _ in 0..20 {
        let (tid, chain) = making.place();
        counts[0] += 100_000;
        counts[1] += 20_000 + making.next(300_000);
        let words = [2, counts[0], 1, counts[1], 2];
        let read = ReadValues::from_words(&words, leader.read_format).unwrap();
        let mut sample = Sample::default();
        (sample.read, sample.period) = (Some(read), Some(100_000));
        making.sample(tid, chain, sample);
    }
    let mut features = machine(&["perf", "record", "-e", "{cycles,instructions}:S", "-g", "./grind"]);
    features.push(Feature::GroupDesc(vec![Group { name: "".into(), leader: 0, members: 2 }]));
    making.finish(features)
}

/// The last branches before each sample.
fn branches() -> Vec<u8> {
    let mut attr = attr(EventType::HARDWARE, 0, 100_000, SampleType::BRANCH_STACK);
    attr.branch_sample_type = BranchSampleType::ANY | BranchSampleType::USER;
    let mut making = Making::new(&[event(attr, "cycles:u", &[1])]);
    making.start();
    for _ in 0..15 {
        let mut entries = Vec::new();
        for _ in 0..3 {
            let (from, to) =
                [(INSERT - 5, 0x400140), (0x400159, INSERT), (WORK, WIDTH - 5), (0x400155, 0x400145)]
                    [making.next(4) as usize];
            let missed = making.next(4) == 0;
            let flags = BranchFlags(if missed { 1 } else { 2 } | (1 + making.next(20)) << 4);
            entries.push(BranchEntry { from, to, flags });
        }
        let ip = [HASH, INSERT][making.next(2) as usize];
        making.branches(ip, &entries);
    }
    making.finish_with_branches()
}

/// The last branches before each sample, in their order: those that `grind` takes, and such as are not whole, or lie.
fn blocks() -> Vec<u8> {
    /// Branches in lists, and the place of the sample.
    type Walked = (&'static [&'static [(u64, u64)]], u64);
    const NOWHERE: u64 = 0x1234_5678;
    const IN_STORE: u64 = 0x400180;
    const CALLS: &[(u64, u64)] = &[(0x400204, IN_STORE), (0x400182, 0x400140)];
    const RETURNS: &[(u64, u64)] =
        &[(0x400155, 0x400145), (0x400159, INSERT), (0x40018a, 0x400209), (0x40020d, 0x4001c0)];
    const SAMPLES: [Walked; 13] = [
        (&[CALLS, &[RETURNS[0]], RETURNS, &[(0x4001c0, 0x400140)]], HASH),
        // At the branch itself, and behind one that is missing: below the sample, and above.
        (&[&[RETURNS[1], RETURNS[2], RETURNS[3]]], 0x40020d),
        (&[&[RETURNS[1], RETURNS[2], RETURNS[3]]], HASH),
        (&[&[RETURNS[1]]], LOOKUP),
        // An instruction does not end where the branch is said to be.
        (&[CALLS, &[(0x400148, 0x400140)]], 0x400142),
        // The kernel's branches are not all there.
        (&[CALLS, &[(KERNEL + 0x10, KERNEL + 0x20)], &[RETURNS[0]]], HASH),
        (&[&[(KERNEL + 0x10, HASH)], &[RETURNS[0]]], HASH),
        // Where no code is, or nothing at all.
        (&[&[(NOWHERE, NOWHERE + 9)], &[CALLS[1]]], HASH),
        (&[&[(0, 0), (0, 0)], &[CALLS[1]]], HASH),
        (&[CALLS, &[(0x400159, NOWHERE)]], HASH),
        // So much code lies between no two branches.
        (&[CALLS, &[(0x40_5000, 0x400140)]], HASH),
        (&[CALLS], 0x40_5000),
        (&[], HASH),
    ];
    let mut attr = attr(EventType::HARDWARE, 0, 100_000, SampleType::BRANCH_STACK);
    attr.branch_sample_type = BranchSampleType::ANY;
    let mut making = Making::new(&[event(attr, "cycles", &[1])]);
    making.start();
    for (branches, ip) in SAMPLES {
        let entry = |(number, &(from, to)): (usize, &(u64, u64))| {
            // Mispredicted, predicted, or neither in a transaction, each of some cycles; the fourth is one that was aborted.
            let flags = [0x1 | 7 << 4, 0x2 | 3 << 4, 0x4, 0x8 | 2 << 4][number % 4];
            BranchEntry { from, to, flags: BranchFlags(flags) }
        };
        let mut entries: Vec<_> = branches.iter().copied().flatten().enumerate().map(entry).collect();
        entries.reverse();
        making.branches(ip, &entries);
    }
    making.finish_with_branches()
}

/// Accesses to memory, and how long they took.
fn memory() -> Vec<u8> {
    let more = SampleType::ADDR | SampleType::DATA_SRC | SampleType::WEIGHT | SampleType::PHYS_ADDR;
    let mut making = Making::new(&[event(attr(EventType(4), 0x1cd, 1000, more), "cpu/mem-loads/P", &[1])]);
    making.start();
    for _ in 0..15 {
        let (tid, chain) = making.place();
        let (level, weight) =
            [(MemLvl::L1, 4), (MemLvl::L2, 14), (MemLvl::LOC_RAM, 200)][making.next(3) as usize];
        let source =
            DataSrc::NA.with_op(MemOp::LOAD).with_lvl(level | MemLvl::HIT).with_snoop(MemSnoop::NONE);
        let addr = LIBRARY + 0x100 * making.next(8);
        let mut sample = Sample::default();
        sample.addr = Some(addr);
        sample.phys_addr = Some(0x1000_0000 + (addr & 0xfff));
        sample.weight = Some(Weight::Full(weight + making.next(5)));
        sample.data_src = Some(source.with_dtlb(MemTlb::L1 | MemTlb::HIT).with_lock(MemLock::NA));
        making.sample(tid, &chain[..1], sample);
    }
    making.finish(machine(&["perf", "mem", "record", "./grind"]))
}

const SWITCH: &str = "name: sched_switch
ID: 314
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;
\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;

print fmt: \"%s:%d [%d] %s ==>\", REC->prev_comm, REC->prev_pid, REC->prev_prio, REC->prev_state ? \
__print_flags(REC->prev_state, \"|\", { 0x1, \"S\" }, { 0x2, \"D\" }) : \"R\"
";

/// A tracepoint beside a clock.
fn tracing() -> Vec<u8> {
    let attr = attr(EventType::TRACEPOINT, 314, 1, SampleType::RAW);
    let mut making = Making::new(&[event(attr, "sched:sched_switch", &[1])]);
    making.start();
    for _ in 0..12 {
        let (tid, _) = making.place();
        let mut data = 314u16.to_ne_bytes().to_vec();
        data.extend([0, 0]);
        data.extend(tid.tid.to_ne_bytes());
        data.extend(b"grind\0\0\0\0\0\0\0\0\0\0\0");
        data.extend(tid.tid.to_ne_bytes());
        data.extend(120u32.to_ne_bytes());
        data.extend(making.next(3).to_ne_bytes());
        data.extend([0; 4]);
        let mut sample = Sample::default();
        sample.raw = Some(Raw::new(&data));
        sample.period = Some(1);
        making.sample(tid, &[KERNEL + 0x6010], sample);
    }
    let mut features = machine(&["perf", "record", "-e", "sched:sched_switch", "./grind"]);
    features.push(Feature::TracingData(Box::new(TracingData {
        systems: vec![System { name: b"sched", formats: vec![SWITCH.as_bytes()] }],
        long_size: 8,
        saved_cmdlines: Some(b"200 grind\n"),
        ..TracingData::default()
    })));
    making.finish(features)
}

/// Counts of two events on two cpus: of all time (aggregation 1), by cpu (0), or of three intervals.
fn counts(aggregation: u64, intervals: u64, command: &'static str) -> Vec<u8> {
    let counting = |kind, config| {
        let mut attr = Attr { config, ..Attr::new(kind) };
        attr.read_format = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING | ReadFormat::ID;
        attr.sample_type = SampleType::IDENTIFIER;
        attr
    };
    let events = [
        event(counting(EventType::SOFTWARE, 1), "task-clock", &[1, 2]),
        event(counting(EventType::HARDWARE, 0), "cycles", &[3, 4]),
        event(counting(EventType::HARDWARE, 1), "instructions", &[5, 6]),
        event(counting(EventType::SOFTWARE, 2), "page-faults", &[7, 8]),
    ];
    let mut making = Making::new(&events);
    let config = [(0, aggregation), (1, if intervals > 1 { 1000 } else { 0 }), (2, 1)]
        .map(|(tag, value)| StatConfigEntry { tag, value });
    making.tool(Tool::StatConfig(Seq::from(&config[..])));
    let mut name = [0; 16];
    name[..command.len()].copy_from_slice(command.as_bytes());
    let threads = [perfuse_data::tool::Thread { tid: 200, comm: name }];
    making.tool(Tool::ThreadMap(Seq::from(&threads[..])));
    for interval in 1..=intervals {
        for (number, value) in [400_000_000, 1_200_000_000, 1_500_000_000, 321].into_iter().enumerate() {
            for cpu in 0..2 {
                let (id, enabled_ns) = (number as u64 * 2 + u64::from(cpu) + 1, interval * 450_000_000);
                // The processor had no counter for one of them all of the time.
                let running_ns = if number == 2 { enabled_ns / 4 * 3 } else { enabled_ns };
                let value = interval * value / (1 + u64::from(cpu));
                making.tool(Tool::Stat(Stat { id, cpu, thread: 0, value, enabled_ns, running_ns }));
            }
        }
        let kind = u64::from(intervals == 1);
        making.tool(Tool::StatRound(StatRound { kind, time_ns: interval * 1_000_000_000 }));
    }
    let program = if command == "grind" { "./grind" } else { command };
    let mut features = machine(&[]);
    features.retain(|feature| !matches!(feature, Feature::Cmdline(_)));
    let words = ["perf", "stat", "record", program].map(Into::into);
    features.insert(8, Feature::Cmdline(words.to_vec()));
    features.push(Feature::Stat);
    making.writer.finish(features).unwrap().into_inner()
}

/// A program and its guest, with callchains of the processor's branch records.
fn guest() -> Vec<u8> {
    let mut calls = attr(EventType::HARDWARE, 0, 1000, SampleType::BRANCH_STACK);
    calls.branch_sample_type = BranchSampleType::USER | BranchSampleType::CALL_STACK;
    let mut making = Making::new(&[event(calls, "cycles", &[1])]);
    making.start();
    for mode in [CpuMode::USER, CpuMode::GUEST_KERNEL] {
        let stack = BranchStack { hw_idx: None, entries: Seq::from(&[][..]), counters: None };
        let mut sample = Sample::default();
        (sample.ip, sample.branch_stack) = (Some(HASH), Some(stack));
        making.add(GRIND, 0, Misc::empty().with_cpu_mode(mode), Record::Sample(sample));
    }
    making.finish(machine(&["perf", "record", "--call-graph", "lbr", "./grind"]))
}

/// All recordings with their names.
pub(crate) fn all() -> Vec<(&'static str, Vec<u8>)> {
    let command = || machine(&["perf", "record", "-g", "-e", "cpu-clock", "./grind", "a file"]);
    let whole = chains(Making::new(&clock())).finish(command());
    let mut pipe = Making::with(Writer::pipe(Cursor::new(Vec::new()), &clock()), &clock());
    pipe.writer.features(command()).unwrap();
    let mut pipe = chains(pipe).writer;
    pipe.flush().unwrap();
    let mut lying = whole.clone();
    lying[40..48].fill(0xff);
    vec![
        ("pipe.data", pipe.get_ref().get_ref().clone()),
        ("cut.data", whole[..whole.len() / 2].to_vec()),
        ("lying.data", lying),
        ("chains.data", whole),
        ("precise.data", precise()),
        ("before.data", counted(&[(HASH, 90), (INSERT, 60), (LOOKUP, 40), (WORK, 30), (KERNEL + 0x2020, 3)])),
        ("after.data", counted(&[(HASH, 30), (INSERT, 64), (WORK, 33), (WIDTH, 50), (KERNEL + 0x2020, 1)])),
        ("kinds.data", kinds()),
        ("together.data", together()),
        ("group.data", group()),
        ("branches.data", branches()),
        ("blocks.data", blocks()),
        ("memory.data", memory()),
        ("guest.data", guest()),
        ("tracing.data", tracing()),
        ("counts.data", counts(1, 1, "grind")),
        ("cpus.data", counts(0, 1, "grind")),
        ("intervals.data", counts(1, 3, "grind")),
        ("wide.data", wide()),
        ("wide-counts.data", counts(1, 1, WIDE)),
    ]
}
