//! The machine: cpus that run tasks in turns, time that jumps from one thing that happens to the next.

use crate::hardware::{PmuModel, Rates, SimPmu, Watcher};
use crate::program::{Cursor, Program, Step};
use crate::world::World;
use perfuse_engine::abi::record::{MmapFile, RegsAbi};
use perfuse_engine::abi::wire::{Layout, Writer};
use perfuse_engine::abi::{Attr, ByteOrder, Errno, EventType, Software};
use perfuse_engine::{
    CloneFlags, Config, Effect, Engine, EventKey, Ioctl, Leaving, MapRequest, Mapping, Moment, OpenArguments,
    PmuId, Registers, State, TaskFacts, TaskId, Trap, Watch,
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
}

impl Default for Setup {
    /// One cpu with a PMU of four counters.
    fn default() -> Self {
        Setup { cpus: 1, hz: 250, slice_ns: 4_000_000, pmu: Some(PmuModel::default()), seed: 1 }
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
    /// Who ran where, from when on.
    pub schedule: Vec<Turn>,
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
    offline: bool,
}

#[derive(Debug)]
struct SimTask {
    pid: u32,
    name: String,
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
        let task = self.new_task(&program, None);
        let pid = self.tasks[&task].pid;
        self.engine.add_task(task, TaskFacts::new(pid, pid));
        self.make_ready(task);
        Some(task)
    }

    fn new_task(&mut self, program: &Program, parent: Option<TaskId>) -> TaskId {
        let pid = self.next_pid;
        self.next_pid += 1;
        let task = TaskId(pid.into());
        let own = SimTask {
            pid,
            name: program.name.clone(),
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

    /// Maps the ring of an event.
    pub fn map(&mut self, fd: i32, data_pages: usize) -> Result<crate::reader::Reader, Errno> {
        let event = self.event(fd).ok_or(Errno::EBADF)?;
        let request = MapRequest::ring(data_pages);
        let memory = self.engine.mmap(&mut self.world, TaskId(0), event, self.now, request)?;
        Ok(crate::reader::Reader::new(memory, self.world.page_bytes))
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
        self.event(fd).and_then(|event| self.engine.state(event)) == Some(State::Active)
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
                    // Tasks here take every signal at once.
                    self.engine.trap_delivered(trap.event);
                }
                // Readers look when they like.
                Effect::Wake(_) | Effect::Signal(..) | Effect::RateLowered { .. } => {}
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
            if !moved {
                return;
            }
        }
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
                for number in 0..count {
                    let addr = addr + number * 4096;
                    let kind = if major { Software::PAGE_FAULTS_MAJ } else { Software::PAGE_FAULTS_MIN };
                    self.engine.software(cpu, now, Software::PAGE_FAULTS, 1, addr, &doing);
                    self.engine.software(cpu, now, kind, 1, addr, &doing);
                }
            }
            Some(Step::Sleep(ns)) => {
                if let Some(own) = self.tasks.get_mut(&task) {
                    own.wakes_at = Some(now + ns);
                }
                self.put(cpu, None, Leaving::Sleeps);
            }
            Some(Step::Start { program, thread }) => self.start(task, cpu, &program, thread),
            Some(Step::Exec(name)) => {
                if let (Some(own), Some(program)) = (self.tasks.get_mut(&task), self.programs.get(&name)) {
                    own.cursor = Cursor::new(program.steps.clone());
                    own.name.clone_from(&name);
                }
                self.engine.exec(task, cpu, now, name.as_bytes(), false);
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
            Some(Step::Tracepoint { id, count }) => {
                self.engine.tracepoint(cpu, now, id, count, &[], &doing);
            }
            _ => {}
        }
        self.carry_out();
        true
    }

    fn start(&mut self, parent: TaskId, cpu: u32, program: &str, thread: bool) {
        let Some(program) = self.programs.get(program).cloned() else { return };
        let child = self.new_task(&program, Some(parent));
        let pid = self.tasks[&child].pid;
        let process = if thread { self.tasks[&parent].pid } else { pid };
        let flags = CloneFlags { thread, clear_sighand: false };
        let facts = TaskFacts::new(process, pid);
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
                && addr < watch.addr + watch.len
                && watch.addr < addr + len
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
            moments.extend(task.left_ns.map(|left| self.now + left));
            if !own.queue.is_empty() {
                moments.push(own.slice_ends);
            }
            if let (Some((kernel, rates)), Some((_, watcher))) = (self.working(cpu), &self.pmu) {
                moments.extend(watcher.next_overflow(cpu, kernel, &rates).map(|ns| self.now + ns));
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
                if watcher.next_overflow(cpu, kernel, &rates) == Some(0) {
                    self.engine.interrupt(*pmu, cpu, now, None, &doing);
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
    Program { name: name.to_owned(), steps: Rc::from(steps), on: None }
}
