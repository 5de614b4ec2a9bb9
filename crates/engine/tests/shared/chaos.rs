//! Everything at once: arbitrary calls of programs and arbitrary things that happen on the machine, and what
//! must be true after each (the invariants of `docs/semantics.md`): nothing panics, times never run
//! backwards, no event counts longer than it is enabled or open, a group counts as a whole or not at all, no
//! read gives more than there is room for, rings hold whole records whatever their readers do to the control
//! page, and when all is closed nothing is left.

use super::machine::{self, Counters, KERNEL, ME, Machine, Reader, USER, attr, image, records, software};
use super::random::Random;
use super::tracer::{TRACE, Tracer};
use perfuse_engine::abi::page::{ShortClock, TimeConversion};
use perfuse_engine::abi::record::{
    BpfEvent, BranchEntry, DataSrc, Ksymbol, MmapFile, NamespaceLink, RegsAbi, Weight,
};
use perfuse_engine::abi::{
    Attr, AttrFlags, AuxAction, BranchSampleType, Breakpoint, ByteOrder, Errno, EventType, OpenFlags,
    PollFlags, ReadFormat, SampleType, Software, Txn,
};
use perfuse_engine::{
    AttrMemory, CgroupId, CloneFlags, CpuState, Effect, EventKey, Filter, Hit, Holdings, Ioctl, Leaving,
    LockLimit, MapRequest, Mapping, OpenArguments, PmuId, ProbePmu, Probes, Registers, SampleData,
    SecurityStep, State, Sysctl, TaskFacts, TaskId,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const CPUS: u32 = 3;
/// Events that are open at once.
const MOST: usize = 16;
/// Pages of one ring.
const PAGES: usize = 65;

/// A machine to which everything happens.
pub(crate) struct Chaos {
    random: Random,
    machine: Machine,
    counters: PmuId,
    tracer: PmuId,
    probes: PmuId,
    tasks: Vec<TaskId>,
    running: BTreeMap<u32, TaskId>,
    fds: Vec<i32>,
    known: BTreeMap<i32, Known>,
    maps: Vec<Mapped>,
    /// Pages of rings that were mapped again, which are never given back (rule F22).
    again: u64,
    next_pid: u32,
    /// How many events were opened.
    pub(crate) opened: u64,
    steps: u64,
    /// The name in failures.
    name: String,
}

/// An event that is open.
struct Known {
    attr: Attr,
    opened_at: u64,
    /// Enabled and running at the last look.
    times: (u64, u64),
}

/// A mapping.
struct Mapped {
    key: EventKey,
    /// Of the AUX area.
    aux: bool,
    /// The view of the only reader of a ring.
    reader: Option<Reader>,
    backward: bool,
    /// Garbage was written to its control page.
    spoilt: bool,
}

/// Probes everywhere but at some places.
#[derive(Debug)]
struct Places;

impl Probes for Places {
    fn set(&mut self, attr: &Attr, returns: bool) -> Result<u64, Errno> {
        if attr.config2 < 4 { Ok(attr.config2 * 2 + u64::from(returns)) } else { Err(Errno::ENOENT) }
    }

    fn clear(&mut self, _number: u64) {}
}

/// A program about which much is known.
struct Rich {
    user: bool,
    depth: usize,
    stack: u64,
}

impl CpuState for Rich {
    fn is_user(&self) -> bool {
        self.user
    }

    fn ip(&self) -> u64 {
        if self.user { 0x40_0000 } else { 0xffff_8000_0000_0000 }
    }

    fn registers(&self, _which: Registers) -> RegsAbi {
        RegsAbi::ABI_64
    }

    fn register(&self, _which: Registers, number: u32) -> u64 {
        number.into()
    }

    fn kernel_chain(&self, most: usize, chain: &mut Vec<u64>) {
        chain.extend((0..self.depth.min(most) as u64).map(|level| 0xffff_8000_0000_0000 + level));
    }

    fn user_chain(&self, most: usize, chain: &mut Vec<u64>) {
        chain.extend((0..self.depth.min(most) as u64).map(|level| 0x40_0000 + level));
    }

    fn user_stack_left(&self) -> u64 {
        self.stack
    }

    fn user_stack(&self, len: usize, bytes: &mut Vec<u8>) {
        bytes.resize(len.min(self.stack as usize), 7);
    }
}

/// A text that is a number lets only records of that length pass.
fn filter(_id: u64, text: &str) -> Result<Filter, Errno> {
    let len: usize = text.parse().map_err(|_| Errno::EINVAL)?;
    Ok(Box::new(move |record| record.len() == len))
}

impl Chaos {
    /// `name`: how the same comes again.
    pub(crate) fn new(random: Random, name: String) -> Self {
        let mut machine = Machine::new(CPUS);
        let counters = machine.engine.register(Box::new(Counters::new(3))).expect("the type is free");
        let tracer = machine.engine.register(Box::new(Tracer::default())).expect("the type is free");
        let probes = Box::new(ProbePmu::uprobe(Box::new(Places)));
        let probes = machine.engine.register(probes).expect("the name is free");
        machine.engine.set_filter_maker(filter);
        (1..4).for_each(|id| machine.engine.declare_tracepoint(id));
        machine.engine.declare_open_tracepoint(4);
        machine.world.most_pages = PAGES;
        for cgroup in 2..5 {
            machine.engine.add_cgroup(CgroupId(cgroup), CgroupId(cgroup / 2));
            machine.world.cgroups.insert(1000 + cgroup as i32, CgroupId(cgroup));
        }
        Chaos {
            random,
            machine,
            counters,
            tracer,
            probes,
            tasks: vec![ME],
            running: BTreeMap::from([(0, ME)]),
            fds: Vec::new(),
            known: BTreeMap::new(),
            maps: Vec::new(),
            again: 0,
            next_pid: 200,
            opened: 0,
            steps: 0,
            name,
        }
    }

    /// So many steps, or until nothing is left to choose by; then all is closed.
    pub(crate) fn play(&mut self, steps: u64) {
        for _ in 0..steps {
            if self.random.is_over() {
                break;
            }
            self.step();
            self.check();
        }
        self.end();
    }

    fn step(&mut self) {
        self.steps += 1;
        let cpu = self.random.below(CPUS as usize) as u32;
        match self.random.below(32) {
            0..=3 if self.fds.len() < MOST => self.open(),
            0..=4 if !self.fds.is_empty() => {
                let at = self.random.below(self.fds.len());
                let fd = self.fds.remove(at);
                self.known.remove(&fd);
                self.machine.close(fd);
            }
            5..=9 if !self.fds.is_empty() => self.ioctl(),
            10 if !self.fds.is_empty() => self.map(),
            11 if !self.maps.is_empty() => {
                let at = self.random.below(self.maps.len());
                self.unmap(at);
            }
            12..=16 => self.switch(cpu),
            17 => self.fork(cpu),
            18 => self.exit(cpu),
            19 => self.task_changes(cpu),
            20..=23 => self.occurs(cpu),
            24 => self.interrupts(cpu),
            25 => self.sideband(cpu),
            26 => self.machine.engine.tick(cpu, self.machine.now),
            27 => self.settings(),
            28 if !self.maps.is_empty() => self.spoil(),
            29 if !self.fds.is_empty() => self.look(),
            _ => {
                let ns = self.random.of(&[1, 1000, 100_000, 5_000_000]);
                self.machine.pass(ns);
            }
        }
        let all: Vec<Effect> = self.machine.engine.effects().collect();
        for effect in all {
            // A trapped task soon handles it, or never.
            if let Effect::Trap(trap) = effect {
                if self.random.one_in(2) {
                    self.machine.engine.trap_delivered(trap.event);
                }
            }
        }
    }

    fn open(&mut self) {
        let random = &mut self.random;
        let mut asked = match random.below(8) {
            0 | 1 => software(Software::PAGE_FAULTS),
            2 => {
                software(random.of(&[Software::DUMMY, Software::CONTEXT_SWITCHES, Software::CPU_MIGRATIONS]))
            }
            3 => software(random.of(&[Software::CPU_CLOCK, Software::TASK_CLOCK])),
            4 => match random.below(4) {
                0 => attr(EventType::TRACEPOINT, random.below(6) as u64),
                1 => attr(EventType(8), random.below(2) as u64),
                2 => attr(TRACE, 0),
                _ => {
                    let mut asked = attr(EventType::BREAKPOINT, 0);
                    asked.bp_type = random.of(&[Breakpoint::R, Breakpoint::W, Breakpoint::RW, Breakpoint::X]);
                    (asked.config1, asked.config2) = (0x1000, random.of(&[1, 2, 4, 8]));
                    asked
                }
            },
            _ => attr(EventType::RAW, random.below(5) as u64),
        };
        // Each flag that there is, in one of eight events; one that is refused everywhere more seldom.
        let rare = AttrFlags::SIGTRAP.union(AttrFlags::REMOVE_ON_EXEC).union(AttrFlags::AUX_OUTPUT);
        let rare = rare.union(AttrFlags::USE_CLOCKID).union(AttrFlags::INHERIT_THREAD);
        let rare = rare.union(AttrFlags::FREQ);
        for flag in (0..38).map(|bit| AttrFlags::from_bits_retain(1 << bit)) {
            if random.one_in(if rare.contains(flag) { 60 } else { 8 }) {
                asked.flags |= flag;
            }
        }
        if asked.flags.contains(AttrFlags::SIGTRAP) && random.one_in(2) {
            asked.flags |= AttrFlags::REMOVE_ON_EXEC;
        }
        if random.one_in(3) {
            asked.set_period(random.of(&[1, 3, 1000, 100_000]));
            asked.sample_type = SampleType::TID | SampleType::TIME | SampleType::ID;
            if random.one_in(3) {
                asked.sample_type |= SampleType::READ | SampleType::CALLCHAIN;
            }
            if random.one_in(3) {
                asked.sample_type |= SampleType::from_bits_retain(random.bits(25, 4));
                asked.branch_sample_type = BranchSampleType::ANY | BranchSampleType::USER;
                (asked.sample_regs_user, asked.sample_regs_intr) = (0xff, 3);
                asked.sample_stack_user = random.of(&[8, 512, 65_528]);
            }
        } else if random.one_in(6) {
            asked.set_sample_freq(1000);
        }
        if random.one_in(4) {
            asked.read_format |= ReadFormat::from_bits_retain(random.bits(5, 2));
        }
        if random.one_in(20) {
            asked.aux_action = AuxAction::from_bits_retain(random.below(8) as u32);
            asked.aux_sample_size = random.of(&[0, 64, 4096]);
        }
        let mut bytes = image(&asked);
        // Other bytes that a program may hand over.
        if random.one_in(8) {
            let size = random.of(&[0, 63, 64, 71, 72, 96, 112, 128, 136, 144, 152, 4096, 4104, 65_536]);
            bytes.resize(size.max(64) + random.below(9), 0);
            bytes[4..8].copy_from_slice(&(size as u32).to_ne_bytes());
            for _ in 0..random.below(6) {
                let at = random.below(bytes.len());
                bytes[at] = random.byte();
            }
            let len = if random.one_in(2) { random.below(200) } else { bytes.len() };
            bytes.truncate(len);
        }
        let cgroup = random.one_in(10);
        let (pid, cpu) = match random.below(4) {
            0 => (-1, random.below(CPUS as usize) as i32),
            1 => (random.of(&self.tasks).0 as i32, random.below(CPUS as usize) as i32),
            _ => (random.of(&self.tasks).0 as i32, -1),
        };
        let group_fd = if !self.fds.is_empty() && random.one_in(3) { random.of(&self.fds) } else { -1 };
        let mut arguments = OpenArguments {
            pid: if cgroup { 1002 + random.below(3) as i32 } else { pid },
            cpu: if cgroup { cpu.max(0) } else { cpu },
            group_fd,
            flags: if cgroup { OpenFlags::PID_CGROUP } else { OpenFlags::empty() },
        };
        if random.one_in(16) {
            arguments = OpenArguments {
                pid: random.next() as i32,
                cpu: random.below(6) as i32 - 2,
                group_fd: if random.one_in(2) { group_fd } else { random.next() as i32 },
                flags: OpenFlags::from_bits_retain(random.bits(5, 2)),
            };
        }
        let caller = random.of(&self.tasks);
        if let Ok(fd) = self.machine.open_bytes(caller, &mut bytes, arguments) {
            self.fds.push(fd);
            let wire = Attr::decode(&bytes, ByteOrder::NATIVE).expect("the engine could");
            let known = Known { attr: wire.attr, opened_at: self.machine.now, times: (0, 0) };
            self.known.insert(fd, known);
            self.opened += 1;
        }
    }

    fn ioctl(&mut self) {
        let random = &mut self.random;
        let (fd, other) = (random.of(&self.fds), random.of(&self.fds));
        let group = random.one_in(2);
        let other = self.machine.key(other);
        let mut text: Vec<u8> = Vec::new();
        let mut bytes = self.known.get(&fd).map_or(Vec::new(), |known| image(&known.attr));
        let which = random.below(11);
        if which == 9 {
            let len = random.of(&[0, 1, 2, 20, 5000]);
            text.extend((0..len).map(|_| random.byte()));
            if random.one_in(2) {
                text = random.below(40).to_string().into_bytes();
            }
        }
        if which == 10 {
            for _ in 0..random.below(4) {
                let at = random.below(bytes.len());
                bytes[at] = random.byte();
            }
        }
        let text = String::from_utf8_lossy(&text);
        let mut memory = AttrMemory(&mut bytes);
        let ioctl = match which {
            0 | 1 => Ioctl::Enable { group },
            2 => Ioctl::Disable { group },
            3 => Ioctl::Reset { group },
            4 => Ioctl::Refresh(random.of(&[0, 1, 2, -1])),
            5 => Ioctl::Period(random.of(&[0, 1, 10, 50_000, u64::MAX])),
            6 => Ioctl::SetOutput(group.then_some(other)),
            7 => Ioctl::PauseOutput(group),
            8 => Ioctl::Id,
            9 => Ioctl::SetFilter(&text),
            _ => Ioctl::ModifyAttributes(&mut memory),
        };
        // Many are refused, as they should be.
        let _ = self.machine.ioctl(fd, ioctl);
    }

    fn map(&mut self) {
        let random = &mut self.random;
        let fd = random.of(&self.fds);
        let key = self.machine.key(fd);
        let has_reader = |maps: &[Mapped]| maps.iter().position(|map| map.key == key && !map.aux);
        let aux = random.one_in(4);
        let mut request = MapRequest {
            pages: random.of(&[2, 2, 3, 9, 1, 4, 0, 1 << 30]),
            offset: 0,
            shared: !random.one_in(20),
            writable: !random.one_in(5),
        };
        if aux {
            // A program tells first where the area is to be.
            if let Some(reader) = has_reader(&self.maps).and_then(|at| self.maps[at].reader.as_ref()) {
                let words = reader.memory.words();
                request.offset = random.of(&[9, 16, 3, 1 << 20]) * machine::PAGE as u64;
                request.pages = random.of(&[1, 2, 4, 3, 64]);
                words[1072 / 8].store(request.offset, Ordering::Release);
                words[1080 / 8].store((request.pages * machine::PAGE) as u64, Ordering::Release);
            }
        }
        let now = self.machine.now;
        let Ok(memory) = self.machine.engine.mmap(&mut self.machine.world, ME, key, now, request) else {
            return;
        };
        let aux = request.offset != 0;
        if !aux && self.maps.iter().any(|map| map.key == key) {
            self.again += request.pages as u64;
        }
        let known = &self.known[&fd].attr;
        // A ring has one reader; one that is overwritten none who can keep up.
        let reads = !aux && request.writable && has_reader(&self.maps).is_none();
        let reader = reads.then(|| Reader::of(memory));
        let backward = known.flags.contains(AttrFlags::WRITE_BACKWARD);
        self.maps.push(Mapped { key, aux, reader, backward, spoilt: false });
    }

    fn unmap(&mut self, at: usize) {
        let mapped = self.maps.swap_remove(at);
        if mapped.aux {
            self.machine.engine.munmap_aux(mapped.key, self.machine.now);
        } else {
            self.machine.engine.munmap(mapped.key, self.machine.now);
        }
    }

    /// A reader writes whatever it likes to the pages it shares.
    fn spoil(&mut self) {
        let random = &mut self.random;
        let at = random.below(self.maps.len());
        let Some(reader) = &self.maps[at].reader else { return };
        let words = reader.memory.words();
        let place = if random.one_in(2) {
            random.of(&[1024, 1032, 1040, 1048, 1056, 1064, 1072, 1080, 8]) / 8
        } else {
            random.below(words.len())
        };
        let value = random.of(&[0, 8, 4096, 1 << 20, u64::MAX, 1 << 63]);
        words[place].store(value, Ordering::Release);
        let memory = reader.memory.clone();
        for other in &mut self.maps {
            let same = other.reader.as_ref().is_some_and(|reader| Arc::ptr_eq(&reader.memory, &memory));
            other.spoilt |= same;
        }
    }

    fn switch(&mut self, cpu: u32) {
        let idle: Vec<TaskId> = self
            .tasks
            .iter()
            .copied()
            .filter(|task| !self.running.values().any(|other| other == task))
            .collect();
        let next = if idle.is_empty() || self.random.one_in(5) { None } else { Some(self.random.of(&idle)) };
        let leaving = self.random.of(&[Leaving::Sleeps, Leaving::Preempted]);
        self.machine.engine.switch(cpu, self.machine.now, leaving, next, &KERNEL);
        match next {
            Some(next) => self.running.insert(cpu, next),
            None => self.running.remove(&cpu),
        };
    }

    fn fork(&mut self, cpu: u32) {
        let Some(parent) = self.running.get(&cpu).copied() else { return };
        if self.tasks.len() > 12 {
            return;
        }
        let pid = self.next_pid;
        self.next_pid += 1;
        let child = TaskId(pid.into());
        let flags = CloneFlags { thread: self.random.one_in(2), clear_sighand: self.random.one_in(4) };
        let facts = TaskFacts::new(pid, pid);
        let forked = self.machine.engine.fork(parent, child, facts, flags, cpu, self.machine.now);
        if forked.is_ok() {
            self.machine.world.tasks.insert(pid, child);
            self.tasks.push(child);
        }
    }

    fn exit(&mut self, cpu: u32) {
        let Some(task) = self.running.get(&cpu).copied().filter(|task| *task != ME) else { return };
        let now = self.machine.now;
        self.machine.engine.exit(task, Some(ME), cpu, now);
        self.machine.engine.switch(cpu, now, Leaving::Sleeps, None, &KERNEL);
        self.running.remove(&cpu);
        self.tasks.retain(|other| *other != task);
        if self.random.one_in(2) {
            self.machine.engine.reap(task, now);
        }
    }

    /// One step in the life of a task, or of a cpu.
    fn task_changes(&mut self, cpu: u32) {
        let now = self.machine.now;
        match self.random.below(4) {
            0 => {
                let (task, cgroup) = (self.random.of(&self.tasks), self.random.of(&[1, 2, 3, 4]));
                self.machine.engine.move_to_cgroup(task, CgroupId(cgroup), now);
            }
            1 => {
                let task = self.random.of(&self.tasks);
                self.machine.engine.prctl(task, self.random.one_in(2), now);
            }
            2 if self.random.one_in(8) && cpu > 0 => {
                self.machine.engine.cpu_offline(cpu, now);
                self.machine.engine.cpu_online(cpu);
            }
            _ => {
                if let Some(task) = self.running.get(&cpu).copied() {
                    let fresh = self.random.one_in(4);
                    self.machine.engine.exec(task, cpu, now, b"new", fresh);
                }
            }
        }
    }

    fn rich(&mut self) -> Rich {
        let random = &mut self.random;
        Rich {
            user: random.one_in(2),
            depth: random.of(&[0, 1, 20, 500]),
            stack: random.of(&[0, 8, 4096, 1 << 20]),
        }
    }

    /// Something that is counted.
    fn occurs(&mut self, cpu: u32) {
        let now = self.machine.now;
        let engine = &mut self.machine.engine;
        match self.random.below(7) {
            0..=2 => {
                for _ in 0..self.random.below(4) {
                    engine.software(cpu, now, Software::PAGE_FAULTS, 1, 0x7000, &USER);
                }
            }
            3 => {
                let event = self.random.of(&[Software::CPU_MIGRATIONS, Software::ALIGNMENT_FAULTS]);
                let count = self.random.of(&[0, 1, 1000, u64::MAX]);
                let cpu_state = self.rich();
                self.machine.engine.software(cpu, now, event, count, u64::MAX, &cpu_state);
            }
            4 => {
                let raw = vec![1; self.random.of(&[0, 7, 8, 300, 70_000])];
                let target = if self.random.one_in(3) { Some(self.random.of(&self.tasks)) } else { None };
                let count = self.random.of(&[1, 0, 5]);
                let hit = Hit { count, target, ..Hit::new(self.random.below(6) as u64, &raw) };
                let cpu_state = self.rich();
                if self.random.one_in(2) {
                    self.machine.engine.probe(self.probes, cpu, now, &hit, &cpu_state);
                } else {
                    self.machine.engine.tracepoint(cpu, now, &hit, &cpu_state);
                }
            }
            5 => {
                let Self { machine, fds, .. } = self;
                let hit = |key: &EventKey| machine.engine.counts_on(*key) == Some(cpu);
                let hits: Vec<EventKey> = fds.iter().map(|&fd| machine.key(fd)).filter(hit).collect();
                self.machine.engine.breakpoints(&hits, cpu, now, &USER);
            }
            _ => {
                let pmu = self.random.of(&[self.counters, self.tracer]);
                let took = self.random.of(&[None, Some(0), Some(1000), Some(10_000_000)]);
                let engine = &mut self.machine.engine;
                match self.random.below(4) {
                    0 => engine.interrupt_within(pmu, cpu, Box::new(KERNEL)),
                    1 => drop(engine.interrupt_came(now)),
                    _ => engine.interrupt(pmu, cpu, now, took, &KERNEL),
                }
            }
        }
    }

    /// A counter of the hardware overflows, and tells all that it can.
    fn interrupts(&mut self, cpu: u32) {
        let all = self.fds.iter().map(|&fd| (self.machine.key(fd), self.known[&fd].attr.type_));
        let on = all.filter(|(key, type_)| {
            *type_ == EventType::RAW && self.machine.engine.counts_on(*key) == Some(cpu)
        });
        let on: Vec<EventKey> = on.map(|(key, _)| key).collect();
        if on.is_empty() {
            return;
        }
        let branches = vec![BranchEntry::default(); self.random.of(&[0, 1, 32, 4000])];
        let cpu_state = self.rich();
        let data = SampleData {
            addr: Some(self.random.next()),
            exact_ip: self.random.one_in(2),
            weight: self.random.of(&[
                None,
                Some(Weight::Full(9)),
                Some(Weight::Struct { var1: 1, var2: 2, var3: 3 }),
            ]),
            data_src: self.random.of(&[None, Some(DataSrc::NA)]),
            transaction: Txn::from_bits_retain(5),
            branches: Some((&branches, self.random.of(&[None, Some(3)]))),
            ..SampleData::new(&cpu_state)
        };
        let event = self.random.of(&on);
        self.machine.engine.counter_overflowed(event, cpu, self.machine.now, &data);
    }

    fn sideband(&mut self, cpu: u32) {
        let now = self.machine.now;
        let task = self.random.of(&self.tasks);
        let name = vec![b'n'; self.random.of(&[0, 1, 15, 16, 200, 5000, 70_000])];
        let engine = &mut self.machine.engine;
        match self.random.below(7) {
            0 => engine.comm(task, cpu, now, &name, false),
            1 | 2 => {
                let mapping = Mapping {
                    addr: self.random.next(),
                    len: 4096,
                    pgoff: 0,
                    file: MmapFile::Inode { maj: 8, min: 1, ino: 1, ino_generation: 0 },
                    build_id: self.random.of(&[None, Some(&[3; 20]), Some(&[])]),
                    prot: self.random.of(&[1, 5]),
                    flags: 2,
                    name: &name,
                };
                engine.mapped(task, cpu, now, &mapping);
            }
            3 => engine.set_namespaces(task, cpu, now, &[NamespaceLink { dev: 1, ino: 2 }; 7]),
            4 => engine.ksymbol(cpu, now, Ksymbol { addr: 1, len: 2, ..Ksymbol::default() }),
            5 => {
                engine.bpf_event(cpu, now, BpfEvent::default());
                engine.cgroup_made(cpu, now, 9, &name);
            }
            _ => engine.text_poke(cpu, now, 0x1000, &name, &name),
        }
    }

    /// Settings, and the end of PMUs.
    fn settings(&mut self) {
        let random = &mut self.random;
        let world = &mut self.machine.world;
        let engine = &mut self.machine.engine;
        // A setting that forbids much does not last long.
        (world.privileged, world.may_trace, world.out_of_descriptors) = (true, true, false);
        world.refused = None;
        match random.below(14) {
            0 => (world.privileged, world.may_trace) = (false, random.one_in(2)),
            1 => world.out_of_descriptors = true,
            2 => {
                let step = random.of(&[SecurityStep::Open, SecurityStep::Write, SecurityStep::Read]);
                world.refused = Some(step);
            }
            3 => world.limit = LockLimit { pages: random.of(&[u64::MAX, 0, 10]), ..world.limit },
            4..=6 => {
                let which = random.of(&Sysctl::ALL);
                let texts =
                    ["", "0", "-1", "2", "1", "25", "100", "127", "1000", "100000", "0x10", "017", "x"];
                let _ = engine.set_sysctl(which, random.of(&texts));
            }
            7 => {
                let short = random.of(&[None, Some(ShortClock { cycles: 1, mask: 0xff })]);
                let clock = TimeConversion { shift: 1, mult: 2, offset_ns: 3, zero_ns: 4, short };
                engine.set_user_clock(random.of(&[None, Some(clock)]));
                engine.set_clock(random.of(&[0, 1, 7]), random.of(&[0, -5, i64::MAX]));
            }
            8 => {
                let _ = engine.set_mux_interval_ms(self.counters, random.of(&[0, 1, 100, u64::MAX]));
            }
            9 if random.one_in(8) => {
                engine.unregister(self.counters, self.machine.now);
                let again = engine.register(Box::new(Counters::new(2)));
                self.counters = again.expect("its type is free again");
            }
            _ => {
                assert!(!engine.device_files(self.counters).is_empty(), "{}", self.name);
            }
        }
    }

    /// Reads and polls: neither gives more than it may.
    fn look(&mut self) {
        let random = &mut self.random;
        let key = self.machine.key(random.of(&self.fds));
        let room = random.of(&[0, 8, 24, 40, 4096, usize::MAX]);
        let mut bytes = Vec::new();
        if self.machine.engine.read(key, self.machine.now, room, &mut bytes).is_ok() {
            assert!(bytes.len() <= room && bytes.len() % 8 == 0, "{}: {} bytes", self.name, bytes.len());
        }
        let found = self.machine.engine.poll(key);
        let one = [PollFlags::empty(), PollFlags::READABLE, PollFlags::ERR, PollFlags::HUP];
        assert!(one.contains(&found), "{}: poll {found:?}", self.name);
        self.machine.engine.set_async(key, random.one_in(2));
    }

    fn check(&mut self) {
        let place = format!("{} step {}", self.name, self.steps);
        for &fd in &self.fds {
            let now = self.machine.now;
            let known = self.known.get_mut(&fd).expect("an open event");
            let both = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
            if !known.attr.read_format.contains(both) {
                continue;
            }
            let Ok(words) = self.machine.words(fd) else { continue };
            if words.is_empty() {
                continue;
            }
            let (enabled, running) = (words[1], words[2]);
            assert!(running <= enabled, "{place}: {fd} counted {running} of {enabled}");
            // Without copies in children: a group's leader may change, and children come and go.
            let alone = !known.attr.flags.contains(AttrFlags::INHERIT)
                && !known.attr.read_format.contains(ReadFormat::GROUP);
            if alone {
                let before = std::mem::replace(&mut known.times, (enabled, running));
                assert!(before.0 <= enabled && before.1 <= running, "{place}: {fd} {before:?} {words:?}");
                let open_for = now - known.opened_at;
                assert!(enabled <= open_for, "{place}: {fd} is open for {open_for}, enabled {enabled}");
            }
        }
        for Mapped { reader, backward, spoilt, .. } in &mut self.maps {
            let Some(reader) = reader else { continue };
            if *backward || *spoilt {
                continue;
            }
            let bytes = reader.take();
            let sizes: usize = records(&bytes).iter().map(|record| usize::from(record.header.size)).sum();
            assert_eq!(sizes, bytes.len(), "{place}: whole records");
        }
        self.groups(&place);
    }

    /// The type of the PMU that counts an open event.
    fn pmu_of(&self, key: EventKey) -> Option<EventType> {
        let fd = self.fds.iter().find(|&&fd| self.machine.key(fd) == key)?;
        let attr = self.known.get(fd)?.attr;
        Some(match attr.type_ {
            EventType::HARDWARE => EventType::RAW,
            EventType::SOFTWARE if attr.config == Software::CPU_CLOCK.0 => EventType(6),
            EventType::SOFTWARE if attr.config == Software::TASK_CLOCK.0 => EventType(7),
            type_ => type_,
        })
    }

    /// A group is on a cpu as a whole or not at all (rule C13).
    fn groups(&self, place: &str) {
        let engine = &self.machine.engine;
        for &fd in &self.fds {
            let key: EventKey = self.machine.key(fd);
            let members = engine.group(key);
            let states: Vec<State> = members.iter().filter_map(|&member| engine.state(member)).collect();
            let leader_on = states.first() == Some(&State::Active);
            let is_hardware = |&member: &EventKey| {
                self.pmu_of(member).is_some_and(|pmu| [EventType::RAW, TRACE].contains(&pmu))
            };
            let hardware = members.iter().any(is_hardware);
            for (member, state) in members.iter().zip(&states).skip(1) {
                assert!(
                    *state != State::Active || leader_on,
                    "{place}: {member:?} counts without its leader"
                );
                // Rule C23: beside another PMU's software events one waits for the leader's next turn.
                let waits = !hardware && self.pmu_of(*member) != self.pmu_of(members[0]);
                assert!(
                    *state != State::Inactive || !leader_on || waits,
                    "{place}: {member:?} is left out of its group: {states:?}"
                );
            }
        }
    }

    /// All is closed, and nothing is left.
    fn end(&mut self) {
        for cpu in 0..CPUS {
            self.machine.engine.switch(cpu, self.machine.now, Leaving::Sleeps, None, &KERNEL);
        }
        // Some close their descriptors first, some their mappings.
        let maps_first = self.random.one_in(2);
        for turn in [maps_first, !maps_first] {
            if turn {
                while !self.maps.is_empty() {
                    self.unmap(0);
                }
            } else {
                std::mem::take(&mut self.fds).into_iter().for_each(|fd| self.machine.close(fd));
            }
        }
        let left = self.machine.engine.holdings();
        let nothing = Holdings { tasks: left.tasks, locked_pages: self.again, ..Holdings::default() };
        assert_eq!(left, nothing, "{}: something is left", self.name);
    }
}
