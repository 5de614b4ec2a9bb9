//! A machine for tests: a host that allows everything unless told otherwise, a clock that is set by hand,
//! and a PMU with a settable number of counters.

#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) use super::image::image;
use perfuse_engine::abi::record::{Decoded, RawRecord, RecordFormat, Records};
use perfuse_engine::abi::{Attr, AttrFlags, ByteOrder, Errno, EventType, PollFlags, ReadFormat, Software};
use perfuse_engine::{
    Access, AtIp, AtomicU64, BpfProgram, Capability, CgroupId, CloneFlags, Config, Cx, Engine, EventKey,
    Host, Hw, Ioctl, Leaving, LockLimit, MapRequest, Memory, OpenArguments, PidNamespace, Pmu, PmuInfo,
    SecurityStep, State, Sysctl, Target, TaskFacts, TaskId, Transaction,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(crate) const PAGE: usize = 4096;

/// Answers of the world.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) privileged: bool,
    pub(crate) may_trace: bool,
    pub(crate) tasks: BTreeMap<u32, TaskId>,
    pub(crate) descriptors: BTreeMap<i32, EventKey>,
    pub(crate) cgroups: BTreeMap<i32, CgroupId>,
    pub(crate) limit: LockLimit,
    pub(crate) namespace: PidNamespace,
    pub(crate) out_of_descriptors: bool,
    /// Pages that there are for one ring.
    pub(crate) most_pages: usize,
    /// BPF programs.
    pub(crate) programs: BTreeMap<i32, BpfProgram>,
    /// The step that a security module refuses, with `EPERM`.
    pub(crate) refused: Option<SecurityStep>,
}

impl Host for World {
    fn capable(&self, _caller: TaskId, _capability: Capability) -> bool {
        self.privileged
    }

    fn may_access(&self, _caller: TaskId, _target: TaskId, _access: Access) -> bool {
        self.may_trace
    }

    fn find_task(&self, _caller: TaskId, pid: u32) -> Option<TaskId> {
        self.tasks.get(&pid).copied()
    }

    fn event_of(&self, _caller: TaskId, fd: i32) -> Option<EventKey> {
        self.descriptors.get(&fd).copied()
    }

    fn reserve_descriptor(&mut self, _caller: TaskId) -> Result<(), Errno> {
        if self.out_of_descriptors { Err(Errno::EMFILE) } else { Ok(()) }
    }

    fn cgroup_of(&self, _caller: TaskId, fd: i32) -> Result<CgroupId, Errno> {
        self.cgroups.get(&fd).copied().ok_or(Errno::EBADF)
    }

    fn bpf_program(&self, _caller: TaskId, fd: i32) -> Result<BpfProgram, Errno> {
        self.programs.get(&fd).cloned().ok_or(if fd < 0 { Errno::EBADF } else { Errno::EINVAL })
    }

    fn namespace_of(&self, _caller: TaskId) -> PidNamespace {
        self.namespace
    }

    fn lock_limit(&self, _caller: TaskId) -> LockLimit {
        self.limit
    }

    fn security(&self, _caller: TaskId, step: SecurityStep) -> Result<(), Errno> {
        if self.refused == Some(step) { Err(Errno::EPERM) } else { Ok(()) }
    }

    fn allocate(&mut self, _caller: TaskId, pages: usize) -> Result<Arc<dyn Memory>, Errno> {
        if pages > self.most_pages {
            return Err(Errno::ENOMEM);
        }
        Ok(Arc::new((0..pages * PAGE / 8).map(|_| AtomicU64::new(0)).collect::<Vec<_>>()))
    }
}

/// The machine.
pub(crate) struct Machine {
    pub(crate) engine: Engine,
    pub(crate) world: World,
    pub(crate) now: u64,
    next_fd: i32,
}

pub(crate) const ME: TaskId = TaskId(100);
pub(crate) const USER: AtIp = AtIp { user: true, ip: 0x40_1000 };
pub(crate) const KERNEL: AtIp = AtIp { user: false, ip: 0xffff_ffff_8100_0000 };

impl Machine {
    /// With so many cpus; the task [`ME`] runs on cpu 0.
    pub(crate) fn new(cpus: u32) -> Self {
        Machine::of(cpus, 100, 100)
    }

    /// The same, where [`ME`] has these numbers.
    pub(crate) fn of(cpus: u32, pid: u32, tid: u32) -> Self {
        Machine::configured(Config { cpus, ..Config::default() }, pid, tid)
    }

    /// The same, of another make.
    pub(crate) fn configured(config: Config, pid: u32, tid: u32) -> Self {
        let mut engine = Engine::new(config);
        engine.add_task(ME, TaskFacts::new(pid, tid));
        let world = World {
            privileged: true,
            may_trace: true,
            tasks: BTreeMap::from([(tid, ME)]),
            descriptors: BTreeMap::new(),
            cgroups: BTreeMap::new(),
            limit: LockLimit { user: 1000, pages: u64::MAX, space: 1 },
            namespace: PidNamespace::default(),
            out_of_descriptors: false,
            most_pages: 1 << 20,
            programs: BTreeMap::new(),
            refused: None,
        };
        let mut machine = Machine { engine, world, now: 1_000_000, next_fd: 3 };
        machine.switch(0, Some(ME));
        machine
    }

    pub(crate) fn task(&mut self, pid: u32) -> TaskId {
        let task = TaskId(u64::from(pid));
        self.engine.add_task(task, TaskFacts::new(pid, pid));
        self.world.tasks.insert(pid, task);
        task
    }

    pub(crate) fn switch(&mut self, cpu: u32, next: Option<TaskId>) {
        self.engine.switch(cpu, self.now, Leaving::Preempted, next, &KERNEL);
    }

    /// Time passes; timers come when they are due.
    pub(crate) fn pass(&mut self, ns: u64) {
        let end = self.now + ns;
        loop {
            let cpus = 0..self.engine.config().cpus;
            let next = cpus.filter_map(|cpu| Some((self.engine.deadline(cpu)?, cpu))).min();
            match next {
                Some((at, cpu)) if at <= end => {
                    self.now = at.max(self.now);
                    self.engine.expire(cpu, self.now, &USER);
                }
                _ => break,
            }
        }
        self.now = end;
    }

    pub(crate) fn open_as(
        &mut self,
        caller: TaskId,
        attr: &Attr,
        arguments: OpenArguments,
    ) -> Result<i32, Errno> {
        self.open_bytes(caller, &mut image(attr), arguments)
    }

    pub(crate) fn open_bytes(
        &mut self,
        caller: TaskId,
        bytes: &mut Vec<u8>,
        arguments: OpenArguments,
    ) -> Result<i32, Errno> {
        let key = self.engine.open(&mut self.world, caller, self.now, bytes, arguments)?;
        let fd = self.next_fd;
        self.next_fd += 1;
        self.world.descriptors.insert(fd, key);
        Ok(fd)
    }

    pub(crate) fn open(&mut self, attr: &Attr, arguments: OpenArguments) -> Result<i32, Errno> {
        self.open_as(ME, attr, arguments)
    }

    /// On the caller, in a group.
    pub(crate) fn join(&mut self, attr: &Attr, leader: i32) -> Result<i32, Errno> {
        self.open(attr, OpenArguments { group_fd: leader, ..OpenArguments::default() })
    }

    /// On all tasks of a cpu.
    pub(crate) fn wide(&mut self, attr: &Attr, cpu: i32) -> Result<i32, Errno> {
        self.open(attr, OpenArguments { pid: -1, cpu, ..OpenArguments::default() })
    }

    /// On the caller, alone; it works.
    pub(crate) fn own(&mut self, attr: &Attr) -> i32 {
        self.open(attr, OpenArguments::default()).expect("it can be opened")
    }

    /// The errno of opening it on the caller.
    pub(crate) fn refusal(&mut self, attr: &Attr) -> Option<Errno> {
        self.open(attr, OpenArguments::default()).err()
    }

    pub(crate) fn sysctl(&mut self, which: Sysctl, text: &str) {
        self.engine.set_sysctl(which, text).expect("it can be set");
    }

    pub(crate) fn state(&self, fd: i32) -> Option<State> {
        self.engine.state(self.key(fd))
    }

    /// The caller forks; both live.
    pub(crate) fn fork(&mut self, parent: TaskId, pid: u32, flags: CloneFlags) -> Result<TaskId, Errno> {
        let child = TaskId(u64::from(pid));
        let facts = TaskFacts::new(if flags.thread { parent.0 as u32 } else { pid }, pid);
        self.engine.fork(parent, child, facts, flags, 0, self.now)?;
        self.world.tasks.insert(pid, child);
        Ok(child)
    }

    /// A task runs on cpu 0, has page faults, and makes room for [`ME`] again.
    pub(crate) fn faults_of(&mut self, task: TaskId, count: u64) {
        self.switch(0, Some(task));
        self.fault(0, count);
        self.switch(0, Some(ME));
    }

    pub(crate) fn exit(&mut self, task: TaskId) {
        self.engine.exit(task, None, 0, self.now);
    }

    pub(crate) fn key(&self, fd: i32) -> EventKey {
        self.world.descriptors[&fd]
    }

    pub(crate) fn close(&mut self, fd: i32) {
        let key = self.world.descriptors.remove(&fd).expect("an open descriptor");
        self.engine.close(key, self.now);
    }

    pub(crate) fn ioctl(&mut self, fd: i32, ioctl: Ioctl<'_>) -> Result<u64, Errno> {
        let key = self.key(fd);
        self.engine.ioctl(&mut self.world, ME, key, self.now, ioctl)
    }

    pub(crate) fn enable(&mut self, fd: i32) {
        self.ioctl(fd, Ioctl::Enable { group: false }).expect("it never fails");
    }

    pub(crate) fn disable(&mut self, fd: i32) {
        self.ioctl(fd, Ioctl::Disable { group: false }).expect("it never fails");
    }

    /// The words that `read(2)` gives.
    pub(crate) fn words(&mut self, fd: i32) -> Result<Vec<u64>, Errno> {
        let mut bytes = Vec::new();
        let key = self.key(fd);
        self.engine.read(key, self.now, 1 << 16, &mut bytes)?;
        Ok(bytes.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().expect("a word"))).collect())
    }

    /// Value, time enabled, time running; the event has to have both times.
    pub(crate) fn times(&mut self, fd: i32) -> (u64, u64, u64) {
        let words = self.words(fd).expect("it can be read");
        (words[0], words[1], words[2])
    }

    pub(crate) fn count(&mut self, fd: i32) -> u64 {
        self.words(fd).expect("it can be read")[0]
    }

    pub(crate) fn fault(&mut self, cpu: u32, count: u64) {
        for _ in 0..count {
            self.engine.software(cpu, self.now, Software::PAGE_FAULTS, 1, 0x7000, &USER);
        }
    }

    /// A page fault at an address.
    pub(crate) fn fault_at(&mut self, cpu: u32, addr: u64) {
        self.engine.software(cpu, self.now, Software::PAGE_FAULTS, 1, addr, &USER);
    }

    /// Sends the records of one event to the ring of another.
    pub(crate) fn redirect(&mut self, fd: i32, target: Option<i32>) -> Result<u64, Errno> {
        let target = target.map(|fd| self.key(fd));
        self.ioctl(fd, Ioctl::SetOutput(target))
    }

    /// The answer to `poll(2)`.
    pub(crate) fn poll(&mut self, fd: i32) -> PollFlags {
        let key = self.key(fd);
        self.engine.poll(key)
    }

    pub(crate) fn map(&mut self, fd: i32, pages: usize) -> Reader {
        self.try_map(fd, pages).expect("it can be mapped")
    }

    pub(crate) fn try_map(&mut self, fd: i32, pages: usize) -> Option<Reader> {
        let key = self.key(fd);
        let memory = self.engine.mmap(&mut self.world, ME, key, self.now, MapRequest::ring(pages));
        memory.ok().map(Reader::of)
    }
}

/// An attr of the size that the engine knows, with both times.
pub(crate) fn attr(type_: EventType, config: u64) -> Attr {
    Attr {
        config,
        size: Attr::SIZE_VER8,
        read_format: ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING,
        ..Attr::new(type_)
    }
}

pub(crate) fn software(which: Software) -> Attr {
    attr(EventType::SOFTWARE, which.0)
}

pub(crate) fn with(mut attr: Attr, flags: AttrFlags) -> Attr {
    attr.flags |= flags;
    attr
}

/// Reads a ring.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) memory: Arc<dyn Memory>,
    tail: u64,
}

impl Reader {
    pub(crate) fn of(memory: Arc<dyn Memory>) -> Self {
        Reader { memory, tail: 0 }
    }

    /// All data, as it lies there.
    pub(crate) fn data(&self) -> Vec<u8> {
        let words = &self.memory.words()[PAGE / 8..];
        words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect()
    }

    /// So many bytes upward from the head, of a ring that is written backward.
    pub(crate) fn newest(&self, len: usize) -> Vec<u8> {
        let (data, head) = (self.data(), self.head());
        (0..len as u64).map(|at| data[head.wrapping_add(at) as usize & (data.len() - 1)]).collect()
    }

    /// Tells the engine how far it was read, whatever was read.
    pub(crate) fn set_tail(&self, tail: u64) {
        self.memory.words()[1032 / 8].store(tail, Ordering::Release);
    }

    pub(crate) fn head(&self) -> u64 {
        self.memory.words()[1024 / 8].load(Ordering::Acquire)
    }

    /// Gives all room back, unread.
    pub(crate) fn skip(&mut self) {
        self.tail = self.head();
        self.memory.words()[1032 / 8].store(self.tail, Ordering::Release);
    }

    /// All bytes since the last time; the room is given back.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let words = &self.memory.words()[PAGE / 8..];
        let head = self.head();
        let range = (self.tail / 8)..(head / 8);
        let bytes =
            range.flat_map(|at| words[at as usize & (words.len() - 1)].load(Ordering::Relaxed).to_ne_bytes());
        let bytes = bytes.collect();
        self.tail = head;
        self.memory.words()[1032 / 8].store(head, Ordering::Release);
        bytes
    }
}

/// The records in bytes.
pub(crate) fn records(bytes: &[u8]) -> Vec<RawRecord<'_>> {
    Records::new(bytes, ByteOrder::NATIVE).map(|record| record.expect("a whole record")).collect()
}

/// All records decoded in the format of one event.
pub(crate) fn decoded<'a>(bytes: &'a [u8], attr: &Attr) -> Vec<Decoded<'a>> {
    let format = RecordFormat::of(attr, ByteOrder::NATIVE);
    records(bytes).iter().map(|record| record.decode(&format).expect("it is of the event")).collect()
}

/// A PMU with so many counters for each cpu; each counts a nanosecond as one.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) counters: usize,
    /// Its description: a hardware PMU named `cpu` of type RAW unless said otherwise.
    pub(crate) info: PmuInfo,
    /// Events with this config need their leader.
    pub(crate) dependent: Option<u64>,
    taken: BTreeMap<u32, Vec<EventKey>>,
}

impl Counters {
    pub(crate) fn new(counters: usize) -> Self {
        let info = PmuInfo { type_: Some(EventType::RAW), ..PmuInfo::hardware("cpu") };
        Counters { counters, info, dependent: None, taken: BTreeMap::new() }
    }
}

impl Pmu for Counters {
    fn info(&self) -> PmuInfo {
        self.info.clone()
    }

    fn event_init(&mut self, hw: &mut Hw, _target: &Target, group: &[&Hw]) -> Result<(), Errno> {
        let own = self.info.type_ == Some(hw.attr.type_);
        if !own && (self.info.name != "cpu" || hw.attr.type_ != EventType::HARDWARE) {
            return Err(Errno::ENOENT);
        }
        hw.needs_leader = self.dependent == Some(hw.attr.config);
        if group.len() >= self.counters { Err(Errno::EINVAL) } else { Ok(()) }
    }

    fn add(&mut self, cx: &mut Cx<'_>, hw: &mut Hw, start: bool) -> Result<(), Errno> {
        let taken = self.taken.entry(cx.cpu).or_default();
        if taken.len() >= self.counters {
            return Err(Errno::EAGAIN);
        }
        taken.push(hw.event);
        hw.stopped = !start;
        hw.prev = cx.now;
        Ok(())
    }

    fn del(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        self.read(cx, hw);
        hw.stopped = true;
        self.taken.entry(cx.cpu).or_default().retain(|&event| event != hw.event);
    }

    fn start(&mut self, cx: &mut Cx<'_>, hw: &mut Hw, _reload: bool) {
        hw.prev = cx.now;
        hw.stopped = false;
    }

    fn read(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        if !hw.stopped {
            hw.count += cx.now - hw.prev;
            hw.prev = cx.now;
        }
    }

    fn start_txn(&mut self, _cpu: u32, _transaction: Transaction) {}
}
