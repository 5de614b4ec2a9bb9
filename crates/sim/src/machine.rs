//! The machine: cpus that run tasks in turns, time that jumps from one thing that happens to the next.

use crate::hardware::{PmuModel, Rates, SimPmu, Watcher};
use crate::program::{Cursor, Program, Step};
use crate::reader::Reader;
use crate::world::World;
use perfuse_engine::abi::record::{MmapFile, RegsAbi};
use perfuse_engine::abi::wire::{Layout, Writer};
use perfuse_engine::abi::{Attr, ByteOrder, Errno, EventType, Software};
use perfuse_engine::{
    CgroupId, CloneFlags, Config, Effect, Engine, EventKey, Hit, Ioctl, Leaving, MapRequest, Mapping, Moment,
    Notice, OpenArguments, PmuId, Registers, State, TaskFacts, TaskId, Trap, Watch,
};
use std::collections::BTreeMap;
use std::rc::Rc;

/// How a machine is built.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Number of cpus.
    pub cpus: u32,
    /// Ticks a second.
    pub hz: u32,
    /// How long a task runs before another one gets its turn.
    pub slice_ns: u64,
    /// The PMU; `None` for a machine without.
    pub pmu: Option<PmuModel>,
    /// From which all chance comes.
    pub seed: u64,
    /// How long after an interrupt of the PMU the next one comes at the earliest.
    pub interrupt_ns: u64,
    /// How long the interrupt of a sample takes, as is told to the kernel, which limits it (rule I24).
    pub sample_ns: Option<u64>,
    /// After so many steps the machine stands still: whatever it is made to do comes to an end.
    pub budget: u64,
    /// Tasks there may be at once.
    pub most_tasks: usize,
}

impl Default for Setup {
    /// One cpu with a PMU of four counters.
    fn default() -> Self {
        Setup {
            cpus: 1,
            hz: 250,
            slice_ns: 4_000_000,
            pmu: Some(PmuModel::default()),
            seed: 1,
            interrupt_ns: 1000,
            sample_ns: None,
            budget: u64::MAX,
            most_tasks: 4096,
        }
    }
}

/// The machine.
#[derive(Debug)]
pub struct Machine {
    /// The subsystem.
    pub engine: Engine,
    /// Its host's answers.
    pub world: World,
    now: u64,
    setup: Setup,
    cpus: Vec<SimCpu>,
    tasks: BTreeMap<TaskId, SimTask>,
    programs: BTreeMap<String, Program>,
    next_pid: u32,
    pmu: Option<(PmuId, Watcher)>,
    watches: BTreeMap<EventKey, Watch>,
    /// Signals that events sent to tasks.
    pub traps: Vec<(u64, Trap)>,
    /// What was told of each event, by its id; what copies in child tasks tell is told of the original.
    pub notices: BTreeMap<u64, Notices>,
    used: u64,
    /// Who ran where, from when on.
    pub schedule: Vec<Turn>,
}

/// How often something was told of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notices {
    /// Those who wait for it were woken.
    pub wakes: u64,
    /// A signal that there is something to read, or that it failed (rule G26).
    pub signals: u64,
    /// A signal that it is over.
    pub hups: u64,
    /// SIGTRAP (rule I30).
    pub traps: u64,
}

/// A task got a cpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// When.
    pub at: u64,
    /// The cpu.
    pub cpu: u32,
    /// The task; `None`: the cpu has nothing to do.
    pub task: Option<TaskId>,
}

#[derive(Debug, Default)]
struct SimCpu {
    queue: Vec<TaskId>,
    current: Option<TaskId>,
    slice_ends: u64,
    next_tick: u64,
    /// No interrupt of the PMU comes before.
    quiet_until: u64,
    offline: bool,
}

#[derive(Debug)]
struct SimTask {
    pid: u32,
    process: u32,
    cgroup: CgroupId,
    name: String,
    program: String,
    cursor: Cursor,
    /// What is left of the step at hand.
    left_ns: Option<u64>,
    on: Option<u32>,
    cpu: u32,
    parent: Option<TaskId>,
    children: usize,
    wakes_at: Option<u64>,
    waits: bool,
}

/// What a cpu does at a moment.
#[derive(Clone, Copy, Debug)]
struct Doing {
    user: bool,
    idle: bool,
    place: u64,
    pid: u32,
}

/// The cgroup that everybody is in who is in no other.
pub const ROOT: CgroupId = CgroupId(1);

/// Where programs lie, and the kernel.
const TEXT: u64 = 0x40_0000;
const KERNEL_TEXT: u64 = 0xffff_ffff_8100_0000;
const STACK: u64 = 0x7fff_ff00_0000;

impl Moment for Doing {
    fn is_user(&self) -> bool {
        self.user
    }

    fn ip(&self) -> u64 {
        if self.user { TEXT + self.place * 16 } else { KERNEL_TEXT }
    }

    fn is_idle(&self) -> bool {
        self.idle
    }

    fn has_user(&self) -> bool {
        !self.idle
    }

    fn registers(&self, which: Registers) -> RegsAbi {
        match which {
            Registers::User if self.idle => RegsAbi::ABI_NONE,
            _ => RegsAbi::ABI_64,
        }
    }

    fn register(&self, which: Registers, number: u32) -> u64 {
        // Numbers 7 and 8 are the stack and the instruction pointer of x86.
        match (number, which) {
            (7, _) => STACK,
            (8, Registers::Interrupted) => self.ip(),
            (8, Registers::User) => TEXT + self.place * 16,
            _ => u64::from(self.pid) << 8 | u64::from(number),
        }
    }

    fn user_chain(&self, most: usize, chain: &mut Vec<u64>) {
        let callers = [TEXT + self.place * 16, TEXT + 8];
        chain.extend(callers.into_iter().take(most));
    }

    fn user_stack_left(&self) -> u64 {
        4096
    }

    fn user_stack(&self, len: usize, bytes: &mut Vec<u8>) {
        bytes.resize(len.min(256), self.pid as u8);
    }
}

impl Machine {
    /// A machine that has nothing to do.
    pub fn new(setup: Setup) -> Self {
        let config = Config { cpus: setup.cpus, hz: setup.hz, ..Config::default() };
        let tick = config.tick_ns();
        let world = World::new(config.page_bytes);
        let mut engine = Engine::new(config);
        let pmu = setup.pmu.clone().map(|model| {
            let (pmu, watcher) = SimPmu::new(model, setup.cpus, setup.seed);
            let id = engine.register(Box::new(pmu)).expect("the type is free on a new machine");
            (id, watcher)
        });
        engine.set_filter_maker(crate::tracing::filter);
        let cpus = (0..setup.cpus).map(|_| SimCpu { next_tick: tick, ..SimCpu::default() }).collect();
        Machine {
            engine,
            world,
            now: 0,
            setup,
            cpus,
            tasks: BTreeMap::new(),
            programs: BTreeMap::new(),
            next_pid: 100,
            pmu,
            watches: BTreeMap::new(),
            traps: Vec::new(),
            notices: BTreeMap::new(),
            used: 0,
            schedule: Vec::new(),
        }
    }

    /// How it was built.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Nanoseconds since it was switched on.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Makes a program known, for [`Step::Start`] and [`Step::Exec`].
    pub fn know(&mut self, program: Program) {
        self.programs.insert(program.name.clone(), program);
    }

    /// The task with this number, which is the id of it as well.
    pub fn name(&self, task: TaskId) -> &str {
        self.tasks.get(&task).map_or("", |task| &task.name)
    }

    /// Starts a task with a program that is known.
    pub fn spawn(&mut self, program: &str) -> Option<TaskId> {
        let program = self.programs.get(program)?.clone();
        if self.tasks.len() >= self.setup.most_tasks {
            return None;
        }
        let task = self.new_task(&program, None, None);
        let pid = self.tasks[&task].pid;
        let cgroup = self.tasks[&task].cgroup;
        self.engine.add_task(task, TaskFacts { cgroup, ..TaskFacts::new(pid, pid) });
        self.make_ready(task);
        Some(task)
    }

    /// The living tasks that run a program, oldest first.
    pub fn running(&self, program: &str) -> impl Iterator<Item = TaskId> {
        let all = self.tasks.iter().filter(move |(_, task)| task.program == program);
        all.map(|(id, _)| *id).collect::<Vec<_>>().into_iter()
    }

    /// Whether a task has not ended.
    pub fn lives(&self, task: TaskId) -> bool {
        self.tasks.contains_key(&task)
    }

    fn new_task(&mut self, program: &Program, parent: Option<TaskId>, process: Option<u32>) -> TaskId {
        let pid = self.next_pid;
        let inherited = parent.and_then(|parent| self.tasks.get(&parent)).map(|parent| parent.cgroup);
        self.next_pid += 1;
        let task = TaskId(pid.into());
        let own = SimTask {
            pid,
            process: process.unwrap_or(pid),
            cgroup: program.cgroup.or(inherited).unwrap_or(ROOT),
            name: program.name.clone(),
            program: program.name.clone(),
            cursor: Cursor::new(program.steps.clone()),
            left_ns: None,
            on: program.on,
            cpu: program.on.unwrap_or(0),
            parent,
            children: 0,
            wakes_at: None,
            waits: false,
        };
        self.tasks.insert(task, own);
        task
    }

    /// Opens an event as a program would, who is task `caller`; the descriptor.
    pub fn open(&mut self, caller: TaskId, attr: &Attr, arguments: OpenArguments) -> Result<i32, Errno> {
        let mut bytes = Vec::new();
        let mut attr = *attr;
        attr.size = attr.size.min(self.engine.config().attr_size);
        attr.layout(&mut Writer::new(&mut bytes, ByteOrder::NATIVE)).map_err(|_| Errno::EFAULT)?;
        let event = self.engine.open(&mut self.world, caller, self.now, &mut bytes, arguments)?;
        self.carry_out();
        Ok(self.world.install(event))
    }

    /// The event of a descriptor.
    pub fn event(&self, fd: i32) -> Option<EventKey> {
        self.world.descriptors.get(&fd).copied()
    }

    /// An ioctl, as a program without events of its own would do it.
    pub fn ioctl(&mut self, fd: i32, ioctl: Ioctl<'_>) -> Result<u64, Errno> {
        let event = self.event(fd).ok_or(Errno::EBADF)?;
        let answer = self.engine.ioctl(&mut self.world, TaskId(0), event, self.now, ioctl);
        self.carry_out();
        answer
    }

    /// Reads an event: its words; none for one in the error state.
    pub fn read(&mut self, fd: i32) -> Result<Vec<u64>, Errno> {
        let event = self.event(fd).ok_or(Errno::EBADF)?;
        let mut bytes = Vec::new();
        self.engine.read(event, self.now, usize::MAX, &mut bytes)?;
        let words = bytes.chunks_exact(8);
        Ok(words.map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes"))).collect())
    }

    /// Maps the ring of an event, for `caller`.
    pub fn map(&mut self, caller: TaskId, fd: i32, request: MapRequest) -> Result<Reader, Errno> {
        let event = self.event(fd).ok_or(Errno::EBADF)?;
        let memory = self.engine.mmap(&mut self.world, caller, event, self.now, request)?;
        self.carry_out();
        Ok(Reader::new(memory, self.world.page_bytes))
    }

    /// Unmaps it.
    pub fn unmap(&mut self, fd: i32) -> Result<(), Errno> {
        let event = self.event(fd).ok_or(Errno::EBADF)?;
        self.engine.munmap(event, self.now);
        self.carry_out();
        Ok(())
    }

    /// What `poll(2)` answers.
    pub fn poll(&mut self, fd: i32) -> Result<u32, Errno> {
        Ok(self.engine.poll(self.event(fd).ok_or(Errno::EBADF)?))
    }

    /// `prctl(2)` of a task: its events are switched on or off (rule C57).
    pub fn prctl(&mut self, caller: TaskId, enable: bool) {
        self.engine.prctl(caller, enable, self.now);
        self.carry_out();
    }

    /// Makes a cgroup; its descriptor.
    pub fn make_cgroup(&mut self, parent: CgroupId) -> (CgroupId, i32) {
        let cgroup = CgroupId(ROOT.0 + 1 + self.world.cgroups.len() as u64);
        self.engine.add_cgroup(cgroup, parent);
        let fd = self.world.install_cgroup(cgroup);
        (cgroup, fd)
    }

    /// Moves a task to another cgroup.
    pub fn move_to_cgroup(&mut self, task: TaskId, cgroup: CgroupId) {
        if let Some(own) = self.tasks.get_mut(&task) {
            own.cgroup = cgroup;
        }
        self.engine.move_to_cgroup(task, cgroup, self.now);
        self.carry_out();
    }

    /// The state of an event.
    pub fn state(&self, fd: i32) -> Option<State> {
        self.event(fd).and_then(|event| self.engine.state(event))
    }

    /// Closes a descriptor.
    pub fn close(&mut self, fd: i32) -> Result<(), Errno> {
        let event = self.world.descriptors.remove(&fd).ok_or(Errno::EBADF)?;
        self.engine.close(event, self.now);
        self.carry_out();
        Ok(())
    }

    /// Whether an event counts now.
    pub fn is_active(&self, fd: i32) -> bool {
        self.state(fd) == Some(State::Active)
    }

    /// A cpu goes, with whom it ran.
    pub fn unplug(&mut self, cpu: u32) {
        self.put(cpu, None, Leaving::Preempted);
        self.cpus[cpu as usize].offline = true;
        self.engine.cpu_offline(cpu, self.now);
        for task in std::mem::take(&mut self.cpus[cpu as usize].queue) {
            self.make_ready(task);
        }
        self.carry_out();
    }

    /// A cpu comes back.
    pub fn plug(&mut self, cpu: u32) {
        let tick = self.engine.config().tick_ns();
        let own = &mut self.cpus[cpu as usize];
        own.offline = false;
        own.next_tick = (self.now / tick + 1) * tick;
        self.engine.cpu_online(cpu);
        self.carry_out();
    }

    /// The PMU goes for good.
    pub fn remove_pmu(&mut self) -> bool {
        let Some((pmu, _)) = self.pmu.take() else { return false };
        self.engine.unregister(pmu, self.now);
        self.carry_out();
        true
    }

    /// Whether it stands still because its [budget](Setup::budget) is used up.
    pub fn is_exhausted(&self) -> bool {
        self.used >= self.setup.budget
    }

    /// How many steps it has done: things that happen, and quick steps of programs.
    pub fn steps(&self) -> u64 {
        self.used
    }

    /// Uses some of the budget; how much there was to use.
    fn spend(&mut self, steps: u64) -> u64 {
        let spent = steps.min(self.setup.budget - self.used.min(self.setup.budget));
        self.used += spent;
        spent
    }

    fn notice(&mut self, event: EventKey, note: impl FnOnce(&mut Notices)) {
        // The id is that of the original.
        let id = self.engine.ioctl(&mut self.world, TaskId(0), event, self.now, Ioctl::Id);
        if let Ok(id) = id {
            note(self.notices.entry(id).or_default());
        }
    }

    /// Does what the engine asked for.
    fn carry_out(&mut self) {
        for effect in self.engine.effects().collect::<Vec<_>>() {
            match effect {
                Effect::Watch(watch) => {
                    self.watches.insert(watch.event, watch);
                }
                Effect::Unwatch { event, .. } => {
                    self.watches.remove(&event);
                }
                Effect::Trap(trap) => {
                    self.traps.push((self.now, trap));
                    self.notice(trap.event, |notices| notices.traps += 1);
                    // Tasks here take every signal at once.
                    self.engine.trap_delivered(trap.event);
                }
                // Readers look when they like; it is only told.
                Effect::Wake(event) => self.notice(event, |notices| notices.wakes += 1),
                Effect::Signal(event, Notice::Hup) => self.notice(event, |notices| notices.hups += 1),
                Effect::Signal(event, _) => self.notice(event, |notices| notices.signals += 1),
                Effect::RateLowered { .. } => {}
            }
        }
    }

    fn doing(&self, cpu: u32) -> Doing {
        match self.cpus[cpu as usize].current.and_then(|task| self.tasks.get(&task)) {
            None => Doing { user: false, idle: true, place: 0, pid: 0 },
            Some(task) => {
                let step = task.cursor.clone().step();
                let kernel = matches!(step, Some(Step::Compute { kernel: true, .. }));
                Doing { user: !kernel, idle: false, place: task.cursor.place(), pid: task.pid }
            }
        }
    }

    /// In the kernel, on behalf of whoever runs on the cpu.
    fn in_kernel(&self, cpu: u32) -> Doing {
        Doing { user: false, ..self.doing(cpu) }
    }

    /// Puts a task on a cpu in place of who is there.
    fn put(&mut self, cpu: u32, next: Option<TaskId>, leaving: Leaving) {
        let previous = self.cpus[cpu as usize].current;
        if previous == next {
            return;
        }
        if let (Some(previous), Leaving::Preempted) = (previous, leaving) {
            self.cpus[cpu as usize].queue.push(previous);
        }
        let doing = self.in_kernel(cpu);
        let own = &mut self.cpus[cpu as usize];
        own.current = next;
        own.slice_ends = self.now + self.setup.slice_ns;
        self.engine.switch(cpu, self.now, leaving, next, &doing);
        self.schedule.push(Turn { at: self.now, cpu, task: next });
        self.carry_out();
    }

    /// A task wants to run: it gets the cpu with the fewest waiting, where it may.
    fn make_ready(&mut self, task: TaskId) {
        let own = &self.tasks[&task];
        let load = |cpu: &SimCpu| cpu.queue.len() + usize::from(cpu.current.is_some());
        let last = own.cpu;
        let all = self.cpus.iter().enumerate().filter(|(_, cpu)| !cpu.offline);
        // Where it was before, unless another cpu has less to do.
        let best = all.min_by_key(|(index, cpu)| (load(cpu), *index as u32 != last));
        let cpu = own.on.or(best.map(|(index, _)| index as u32)).unwrap_or(0);
        self.cpus[cpu as usize].queue.push(task);
        if let Some(own) = self.tasks.get_mut(&task) {
            own.cpu = cpu;
        }
    }

    /// Runs until a time. What happens at that time has not happened yet.
    pub fn run_until(&mut self, end: u64) {
        loop {
            self.settle();
            if self.is_exhausted() {
                return;
            }
            self.spend(1);
            let next = self.next_moment().map_or(end, |next| next.clamp(self.now, end));
            self.advance(next - self.now);
            if self.now >= end {
                return;
            }
            self.happen();
        }
    }

    /// Whether any task is left.
    pub fn has_tasks(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Everything that takes no time is done: cpus get tasks, tasks do their quick steps.
    fn settle(&mut self) {
        loop {
            let mut moved = false;
            for cpu in 0..self.setup.cpus {
                let own = &mut self.cpus[cpu as usize];
                if own.current.is_none() && !own.queue.is_empty() && !own.offline {
                    let next = own.queue.remove(0);
                    self.put(cpu, Some(next), Leaving::Sleeps);
                    moved = true;
                }
                moved |= self.quick_step(cpu);
            }
            moved |= self.balance();
            if !moved || self.spend(1) == 0 {
                return;
            }
        }
    }

    /// A cpu that has nothing to do takes a task that waits elsewhere.
    fn balance(&mut self) -> bool {
        let idle = |cpu: &SimCpu| cpu.current.is_none() && cpu.queue.is_empty() && !cpu.offline;
        let Some(to) = self.cpus.iter().position(idle) else { return false };
        let free = |task: &&TaskId| self.tasks[*task].on.is_none_or(|on| on as usize == to);
        let found = self.cpus.iter().enumerate().find_map(|(from, cpu)| {
            // Who runs nowhere yet will run where it waits.
            cpu.current?;
            Some((from, *cpu.queue.iter().find(free)?))
        });
        let Some((from, task)) = found else { return false };
        self.cpus[from].queue.retain(|other| *other != task);
        self.cpus[to].queue.push(task);
        if let Some(own) = self.tasks.get_mut(&task) {
            own.cpu = to as u32;
        }
        true
    }

    /// Does the step at hand of a cpu's task, if it takes no time.
    fn quick_step(&mut self, cpu: u32) -> bool {
        let Some(task) = self.cpus[cpu as usize].current else { return false };
        let Some(own) = self.tasks.get_mut(&task) else { return false };
        if own.left_ns.is_some() {
            return false;
        }
        let step = own.cursor.step();
        let pid = own.pid;
        match step {
            Some(Step::Compute { ns, .. }) => {
                own.left_ns = Some(ns);
                return true;
            }
            Some(Step::Wait) if own.children > 0 => {
                own.waits = true;
                self.put(cpu, None, Leaving::Sleeps);
                return true;
            }
            None | Some(Step::Exit) => {
                self.exit(task, cpu);
                return true;
            }
            _ => own.cursor.advance(),
        }
        let doing = Doing { user: true, idle: false, place: self.tasks[&task].cursor.place(), pid };
        let now = self.now;
        match step {
            Some(Step::Fault { count, major, addr }) => {
                for number in 0..self.spend(count) {
                    let addr = addr.wrapping_add(number.wrapping_mul(4096));
                    let kind = if major { Software::PAGE_FAULTS_MAJ } else { Software::PAGE_FAULTS_MIN };
                    self.engine.software(cpu, now, Software::PAGE_FAULTS, 1, addr, &doing);
                    self.engine.software(cpu, now, kind, 1, addr, &doing);
                }
            }
            Some(Step::Sleep(ns)) => {
                if let Some(own) = self.tasks.get_mut(&task) {
                    own.wakes_at = Some(now.saturating_add(ns));
                }
                self.put(cpu, None, Leaving::Sleeps);
            }
            Some(Step::Start { program, thread }) => self.start(task, cpu, &program, thread),
            Some(Step::Prctl(enable)) => self.engine.prctl(task, enable, now),
            Some(Step::Enter(cgroup)) => self.move_to_cgroup(task, cgroup),
            Some(Step::Exec { program: name, fresh }) => {
                if let (Some(own), Some(program)) = (self.tasks.get_mut(&task), self.programs.get(&name)) {
                    own.cursor = Cursor::new(program.steps.clone());
                    own.name.clone_from(&name);
                    own.program.clone_from(&name);
                }
                self.engine.exec(task, cpu, now, name.as_bytes(), fresh);
            }
            Some(Step::Comm(name)) => {
                self.engine.comm(task, cpu, now, name.as_bytes(), false);
                if let Some(own) = self.tasks.get_mut(&task) {
                    own.name = name;
                }
            }
            Some(Step::Map { addr, len, executable, name }) => {
                let mapping = Mapping {
                    addr,
                    len,
                    pgoff: 0,
                    file: MmapFile::Inode { maj: 8, min: 1, ino: 1, ino_generation: 0 },
                    build_id: None,
                    prot: if executable { 5 } else { 3 },
                    flags: 2,
                    name: name.as_bytes(),
                };
                self.engine.mapped(task, cpu, now, &mapping);
            }
            Some(Step::Touch { addr, len, write }) => self.touch(cpu, addr, len, write, &doing),
            Some(Step::Tracepoint { id, count, value }) => {
                let record = crate::tracing::record(id, pid, value);
                let hit = Hit { count, ..Hit::new(id, &record) };
                self.engine.tracepoint(cpu, now, &hit, &doing);
            }
            _ => {}
        }
        self.carry_out();
        true
    }

    fn start(&mut self, parent: TaskId, cpu: u32, program: &str, thread: bool) {
        let Some(program) = self.programs.get(program).cloned() else { return };
        if self.tasks.len() >= self.setup.most_tasks {
            return;
        }
        let process = if thread { Some(self.tasks[&parent].process) } else { None };
        let child = self.new_task(&program, Some(parent), process);
        let (pid, process) = (self.tasks[&child].pid, self.tasks[&child].process);
        let flags = CloneFlags { thread, clear_sighand: false };
        let cgroup = self.tasks[&child].cgroup;
        let facts = TaskFacts { cgroup, ..TaskFacts::new(process, pid) };
        if self.engine.fork(parent, child, facts, flags, cpu, self.now).is_err() {
            self.tasks.remove(&child);
            return;
        }
        if let Some(own) = self.tasks.get_mut(&parent) {
            own.children += 1;
        }
        self.make_ready(child);
    }

    fn exit(&mut self, task: TaskId, cpu: u32) {
        let parent = self.tasks[&task].parent;
        self.engine.exit(task, parent, cpu, self.now);
        self.carry_out();
        self.put(cpu, None, Leaving::Sleeps);
        self.engine.reap(task, self.now);
        self.tasks.remove(&task);
        if let Some((parent, own)) = parent.and_then(|parent| Some((parent, self.tasks.get_mut(&parent)?))) {
            own.children -= 1;
            if own.waits && own.children == 0 {
                own.waits = false;
                self.make_ready(parent);
            }
        }
    }

    fn touch(&mut self, cpu: u32, addr: u64, len: u64, write: bool, doing: &Doing) {
        let hit = |watch: &&Watch| {
            let kind = watch.kind;
            watch.cpu == cpu
                && (kind & 2 != 0 && write || kind & 1 != 0 && !write)
                && addr < watch.addr.saturating_add(watch.len)
                && watch.addr < addr.saturating_add(len)
        };
        let events: Vec<EventKey> = self.watches.values().filter(hit).map(|watch| watch.event).collect();
        for event in events {
            self.engine.breakpoint(event, cpu, self.now, doing);
        }
    }

    /// What the task of a cpu works at.
    fn working(&self, cpu: u32) -> Option<(bool, Rates)> {
        let task = self.cpus[cpu as usize].current?;
        match self.tasks.get(&task)?.cursor.clone().step() {
            Some(Step::Compute { kernel, rates, .. }) => Some((kernel, rates)),
            _ => None,
        }
    }

    /// When the next thing happens.
    fn next_moment(&self) -> Option<u64> {
        let mut moments: Vec<u64> = self.tasks.values().filter_map(|task| task.wakes_at).collect();
        for cpu in 0..self.setup.cpus {
            let own = &self.cpus[cpu as usize];
            if own.offline {
                continue;
            }
            moments.push(own.next_tick);
            moments.extend(self.engine.deadline(cpu));
            let Some(task) = own.current.and_then(|task| self.tasks.get(&task)) else { continue };
            moments.extend(task.left_ns.map(|left| self.now.saturating_add(left)));
            if !own.queue.is_empty() {
                moments.push(own.slice_ends);
            }
            if let (Some((kernel, rates)), Some((_, watcher))) = (self.working(cpu), &self.pmu) {
                let overflow = watcher.next_overflow(cpu, kernel, &rates);
                moments.extend(overflow.map(|ns| self.now.saturating_add(ns).max(own.quiet_until)));
            }
        }
        moments.into_iter().min()
    }

    /// Time passes while all work.
    fn advance(&mut self, ns: u64) {
        for cpu in 0..self.setup.cpus {
            if let (Some((kernel, rates)), Some((_, watcher))) = (self.working(cpu), &self.pmu) {
                watcher.work(cpu, ns, kernel, &rates);
            }
            let task = self.cpus[cpu as usize].current.and_then(|task| self.tasks.get_mut(&task));
            if let Some(left) = task.and_then(|task| task.left_ns.as_mut()) {
                *left -= ns.min(*left);
            }
        }
        self.now += ns;
    }

    /// Everything that is due now.
    fn happen(&mut self) {
        let now = self.now;
        for cpu in 0..self.setup.cpus {
            if self.cpus[cpu as usize].offline {
                continue;
            }
            let doing = self.doing(cpu);
            if let (Some((kernel, rates)), Some((pmu, watcher))) = (self.working(cpu), &self.pmu) {
                let due = self.cpus[cpu as usize].quiet_until <= now;
                if due && watcher.next_overflow(cpu, kernel, &rates) == Some(0) {
                    self.cpus[cpu as usize].quiet_until = now + self.setup.interrupt_ns;
                    self.engine.interrupt(*pmu, cpu, now, self.setup.sample_ns, &doing);
                }
            }
            if self.engine.deadline(cpu).is_some_and(|at| at <= now) {
                self.engine.expire(cpu, now, &doing);
            }
            if self.cpus[cpu as usize].next_tick <= now {
                self.cpus[cpu as usize].next_tick += self.engine.config().tick_ns();
                self.engine.tick(cpu, now);
            }
            self.carry_out();
            let own = &self.cpus[cpu as usize];
            let Some(task) = own.current else { continue };
            let (slice_over, others) = (own.slice_ends <= now, !own.queue.is_empty());
            if let Some(own) = self.tasks.get_mut(&task) {
                if own.left_ns == Some(0) {
                    own.left_ns = None;
                    own.cursor.advance();
                }
            }
            if slice_over && others {
                let next = self.cpus[cpu as usize].queue.remove(0);
                self.put(cpu, Some(next), Leaving::Preempted);
            }
        }
        let due = |task: &SimTask| task.wakes_at.is_some_and(|at| at <= now);
        let awake: Vec<TaskId> = self.tasks.iter().filter(|(_, task)| due(task)).map(|(id, _)| *id).collect();
        for task in awake {
            if let Some(own) = self.tasks.get_mut(&task) {
                own.wakes_at = None;
            }
            self.make_ready(task);
        }
    }

    /// A tracepoint exists.
    pub fn declare_tracepoint(&mut self, id: u64) {
        self.engine.declare_tracepoint(id);
    }

    /// The type of a PMU by name.
    pub fn pmu_type(&self, name: &str) -> Option<EventType> {
        self.engine.pmu_by_name(name).map(|(_, type_)| type_)
    }
}

/// A program of these steps.
pub fn program(name: &str, steps: Vec<Step>) -> Program {
    Program { name: name.to_owned(), steps: Rc::from(steps), on: None, cgroup: None }
}
