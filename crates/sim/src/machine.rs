//! The machine: cpus that run tasks in turns, time that jumps from one thing that happens to the next.

mod cpu_state;
mod run;
mod steps;

use crate::hardware::{CounterView, PmuModel, SimPmu};
use crate::program::{Cursor, Program, Step};
use crate::reader::{AuxReader, Reader};
use crate::trace::{TraceModel, Traces};
use crate::world::World;
use cpu_state::SimCpuState;
use perfuse_engine::abi::wire::{Layout, Writer};
use perfuse_engine::abi::{Attr, ByteOrder, Errno, EventType, PollFlags};
use perfuse_engine::{
    CgroupId, Config, Effect, Engine, EventKey, Ioctl, Leaving, MapRequest, Memory, Notice, OpenArguments,
    PmuId, State, TaskFacts, TaskId, Trap, Watch,
};
use std::collections::BTreeMap;
use std::sync::Arc;

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
    /// The PMU that traces; `None` for a machine without.
    pub trace: Option<TraceModel>,
    /// From which all chance comes.
    pub seed: u64,
    /// How long after an interrupt of the PMU the next one comes at the earliest.
    pub interrupt_ns: u64,
    /// Interrupts of the PMU that are due when a step ends come in the middle of the next record that is written.
    pub nesting: bool,
    /// How long the interrupt of a sample takes, as is told to the kernel, which limits it (rule I24).
    pub sample_ns: Option<u64>,
    /// After so many steps the machine stands still: so each run comes to an end.
    pub budget: u64,
    /// Tasks there may be at once.
    pub most_tasks: usize,
    /// Bytes of a page.
    pub page_bytes: usize,
}

impl Default for Setup {
    /// One cpu with a PMU of four counters.
    fn default() -> Self {
        Setup {
            cpus: 1,
            hz: 250,
            slice_ns: 4_000_000,
            pmu: Some(PmuModel::default()),
            trace: None,
            seed: 1,
            interrupt_ns: 1000,
            nesting: false,
            sample_ns: None,
            budget: u64::MAX,
            most_tasks: 4096,
            page_bytes: 4096,
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
    /// What the processes have mapped.
    mapped: BTreeMap<u32, Vec<Mapped>>,
    programs: BTreeMap<String, Program>,
    next_pid: u32,
    pmu: Option<(PmuId, CounterView)>,
    traces: Option<(PmuId, Traces)>,
    /// The interrupt that is to come in the middle of a record.
    nested: Option<(PmuId, u32, SimCpuState)>,
    watches: BTreeMap<EventKey, Watch>,
    /// Signals that events sent to tasks.
    pub traps: Vec<(u64, Trap)>,
    /// Actions of the handlers of signals, by the id of their event.
    pub handlers: BTreeMap<u64, Handler>,
    /// Notices of each event, by its id; those of copies in child tasks count as the original's.
    pub notices: BTreeMap<u64, Notices>,
    used: u64,
    /// What is to be done outside of the machine, if anybody wants to hear of it.
    pub(crate) told: Option<Vec<Effect>>,
    /// The task of each cpu, from when on.
    pub schedule: Vec<Switch>,
    /// The first name of each task, those that have ended too.
    first_names: BTreeMap<TaskId, String>,
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

/// The handler of an event's signals in a program: it switches the event off, looks, and goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Handler {
    /// It switches the event on again.
    Enable,
    /// It allows one more overflow.
    Refresh,
}

/// A task that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LivingTask<'a> {
    /// Its number.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// The process that its own was started by.
    pub parent: Option<u32>,
    /// Its name.
    pub name: &'a str,
}

/// A file that a process has mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The first address.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Executable.
    pub executable: bool,
    /// The file.
    pub name: String,
}

/// A task got a cpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
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
    /// The same of the PMU that traces.
    trace_quiet_until: u64,
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
    /// The rest of the step at hand.
    left_ns: Option<u64>,
    on: Option<u32>,
    cpu: u32,
    parent: Option<TaskId>,
    children: usize,
    wakes_at: Option<u64>,
    waits: bool,
}

/// The cgroup of tasks that are in no other.
pub const ROOT: CgroupId = CgroupId(1);

impl Machine {
    /// A machine that has nothing to do.
    pub fn new(setup: Setup) -> Self {
        let Setup { cpus, hz, page_bytes, .. } = setup;
        let config = Config { cpus, hz, page_bytes, ..Config::default() };
        let tick = config.tick_ns();
        let world = World::new(config.page_bytes);
        let mut engine = Engine::new(config);
        let pmu = setup.pmu.clone().map(|model| {
            let (pmu, counter_view) = SimPmu::new(model, setup.cpus, setup.seed);
            let id = engine.register(Box::new(pmu)).expect("the type is free on a new machine");
            (id, counter_view)
        });
        let traces = setup.trace.map(|model| {
            let (pmu, traces) = Traces::new(model, setup.cpus);
            let id = engine.register(Box::new(pmu)).expect("the type is free on a new machine");
            (id, traces)
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
            mapped: BTreeMap::new(),
            programs: BTreeMap::new(),
            next_pid: 100,
            pmu,
            traces,
            nested: None,
            watches: BTreeMap::new(),
            traps: Vec::new(),
            handlers: BTreeMap::new(),
            notices: BTreeMap::new(),
            used: 0,
            told: None,
            schedule: Vec::new(),
            first_names: BTreeMap::new(),
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

    /// The first name of a task, whether it has ended or not.
    pub fn first_name(&self, task: TaskId) -> &str {
        self.first_names.get(&task).map_or("", String::as_str)
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

    /// All tasks, by number.
    pub fn tasks(&self) -> impl Iterator<Item = LivingTask<'_>> {
        self.tasks.values().map(|task| {
            let first = self.tasks.get(&TaskId(task.process.into())).unwrap_or(task);
            let parent = first.parent.and_then(|parent| self.tasks.get(&parent));
            LivingTask {
                tid: task.pid,
                pid: task.process,
                parent: parent.map(|parent| parent.process),
                name: &task.name,
            }
        })
    }

    /// What a process has mapped, in order.
    pub fn mapped(&self, pid: u32) -> &[Mapped] {
        self.mapped.get(&pid).map_or(&[], Vec::as_slice)
    }

    /// The cpus that are online.
    pub fn online_cpus(&self) -> impl Iterator<Item = u32> {
        (0u32..).zip(&self.cpus).filter(|(_, cpu)| !cpu.offline).map(|(number, _)| number)
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
        self.first_names.insert(task, program.name.clone());
        task
    }

    /// Opens an event as a program of task `caller` would; the descriptor.
    pub fn open(&mut self, caller: TaskId, attr: &Attr, arguments: OpenArguments) -> Result<i32, Errno> {
        let mut bytes = Vec::new();
        let mut attr = *attr;
        attr.size = attr.size.min(self.engine.config().attr_size);
        attr.layout(&mut Writer::new(&mut bytes, ByteOrder::NATIVE)).map_err(|_| Errno::EFAULT)?;
        let event = self.open_event(caller, &mut bytes, arguments)?;
        Ok(self.world.install(event))
    }

    /// Opens an event, by the bytes of its attr.
    pub(crate) fn open_event(
        &mut self,
        caller: TaskId,
        attr: &mut Vec<u8>,
        arguments: OpenArguments,
    ) -> Result<EventKey, Errno> {
        let event = self.engine.open(&mut self.world, caller, self.now, attr, arguments);
        self.carry_out();
        event
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
        Ok(Reader::new(self.map_memory(caller, fd, request)?, self.world.page_bytes))
    }

    /// The memory of a mapping of an event.
    pub(crate) fn map_memory(
        &mut self,
        caller: TaskId,
        fd: i32,
        request: MapRequest,
    ) -> Result<Arc<dyn Memory>, Errno> {
        let event = self.event(fd).ok_or(Errno::EBADF)?;
        let memory = self.engine.mmap(&mut self.world, caller, event, self.now, request)?;
        self.carry_out();
        Ok(memory)
    }

    /// Maps the AUX area of an event behind its ring (rule F40).
    pub fn map_aux(
        &mut self,
        caller: TaskId,
        fd: i32,
        ring: &Reader,
        pages: usize,
        writable: bool,
    ) -> Result<AuxReader, Errno> {
        let (offset, size) = ring.place_aux(pages);
        let pages = size as usize / self.world.page_bytes;
        let request = MapRequest { pages, offset, shared: true, writable };
        Ok(AuxReader::new(self.map_memory(caller, fd, request)?, !writable))
    }

    /// Unmaps it.
    pub fn unmap_aux(&mut self, fd: i32) -> Result<(), Errno> {
        let event = self.event(fd).ok_or(Errno::EBADF)?;
        self.engine.munmap_aux(event, self.now);
        self.carry_out();
        Ok(())
    }

    /// Unmaps the ring of an event.
    pub fn unmap(&mut self, fd: i32) -> Result<(), Errno> {
        let event = self.event(fd).ok_or(Errno::EBADF)?;
        self.engine.munmap(event, self.now);
        self.carry_out();
        Ok(())
    }

    /// The answer of `poll(2)`.
    pub fn poll(&mut self, fd: i32) -> Result<PollFlags, Errno> {
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

    /// How many of an event and its copies in child tasks count now.
    pub fn counting(&self, fd: i32) -> usize {
        self.event(fd).map_or(0, |event| self.engine.counting(event))
    }

    /// A cpu goes offline; its task leaves it.
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

    /// Counts a notice of an event; the answer is the action of the handler of its signals.
    fn notice(&mut self, event: EventKey, note: impl FnOnce(&mut Notices)) -> Option<Handler> {
        // The id is that of the original.
        let id = self.engine.ioctl(&mut self.world, TaskId(0), event, self.now, Ioctl::Id).ok()?;
        note(self.notices.entry(id).or_default());
        self.handlers.get(&id).copied()
    }

    /// Carries out the engine's effects.
    pub(crate) fn carry_out(&mut self) {
        let mut signals = Vec::new();
        for effect in self.engine.effects().collect::<Vec<_>>() {
            if matches!(effect, Effect::Wake(_) | Effect::Signal(..)) {
                self.told.iter_mut().for_each(|told| told.push(effect.clone()));
            }
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
                Effect::Wake(event) => {
                    self.notice(event, |notices| notices.wakes += 1);
                }
                Effect::Signal(event, notice) => {
                    let count = |notices: &mut Notices| match notice {
                        Notice::Hup => notices.hups += 1,
                        _ => notices.signals += 1,
                    };
                    signals.extend(self.notice(event, count).map(|handler| (event, handler)));
                }
                Effect::RateLowered { .. } => {}
            }
        }
        for (event, handler) in signals {
            self.handle(event, handler);
        }
    }

    /// The handler of an event's signal runs.
    fn handle(&mut self, event: EventKey, handler: Handler) {
        let again = match handler {
            Handler::Enable => Ioctl::Enable { group: false },
            Handler::Refresh => Ioctl::Refresh(1),
        };
        for ioctl in [Ioctl::Disable { group: false }, again] {
            // It may be gone by now.
            let _ = self.engine.ioctl(&mut self.world, TaskId(0), event, self.now, ioctl);
        }
        if self.spend(1) > 0 {
            self.carry_out();
        }
    }

    /// Whether any task is left.
    pub fn has_tasks(&self) -> bool {
        !self.tasks.is_empty()
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
    Program { name: name.to_owned(), steps: Arc::from(steps), on: None, cgroup: None }
}
