//! The subsystem as a whole: what it holds, how it is made, and the small steps that all others share.

use crate::aux::DriverRecord;
use crate::bpf::Attached;
use crate::buffer::{Buffer, BufferKey};
use crate::context::{Clock, Context, ContextKey, ContextKind};
use crate::cpu::Cpu;
use crate::effect::{Effect, Notice};
use crate::event::{Event, EventKey, State, Times};
use crate::host::CgroupId;
use crate::overflow::Nested;
use crate::pmu::{Cx, Hw, Pmu, PmuId, Registry};
use crate::pmus;
use crate::sample::Scratch;
use crate::sideband::SidebandCounts;
use crate::slab::Slab;
use crate::sysctl::Sysctls;
use crate::task::{Task, TaskId};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use perfuse_abi::page::TimeConversion;
use perfuse_abi::regs::Arch;
use perfuse_abi::{Attr, Errno, EventType};

/// The machine that the subsystem is for: the constants that a kernel is compiled with, so to say.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of cpus; all are online at first.
    pub cpus: u32,
    /// Ticks a second.
    pub hz: u32,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Size of the attr it knows: 136 is that of Linux 6.18.
    pub attr_size: u32,
    /// The architecture, which decides what registers there are.
    pub arch: Arch,
    /// Breakpoints each cpu has.
    pub breakpoints: u32,
    /// The first address that is the kernel's.
    pub task_size: u64,
}

impl Default for Config {
    /// A small x86-64 machine with Linux 6.18.
    fn default() -> Self {
        Config {
            cpus: 1,
            hz: 250,
            page_bytes: 4096,
            attr_size: Attr::SIZE_VER8,
            arch: Arch::X86_64,
            breakpoints: 4,
            task_size: 0x7fff_ffff_f000,
        }
    }
}

impl Config {
    /// Nanoseconds between ticks.
    pub fn tick_ns(&self) -> u64 {
        1_000_000_000 / u64::from(self.hz)
    }
}

/// The perf_event subsystem of one machine.
#[derive(Debug)]
pub struct Engine {
    pub(crate) config: Config,
    pub(crate) sysctls: Sysctls,
    pub(crate) pmus: Registry,
    pub(crate) events: Slab<Event>,
    /// The tasks that have opened events: few of all, so that most can end without a look at all events.
    pub(crate) owners: BTreeSet<TaskId>,
    pub(crate) contexts: Slab<Context>,
    pub(crate) buffers: Slab<Buffer>,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) tasks: BTreeMap<TaskId, Task>,
    /// The parent of each cgroup that is not the root.
    pub(crate) cgroup_parents: BTreeMap<CgroupId, CgroupId>,
    pub(crate) effects: Vec<Effect>,
    /// The last id that was given (rule: one counter for all events).
    pub(crate) last_id: u64,
    pub(crate) last_sequence: u64,
    pub(crate) sideband_counts: SidebandCounts,
    /// Pages that each user has locked in buffers (rule F20).
    pub(crate) locked: BTreeMap<u32, u64>,
    /// Pages charged to address spaces.
    pub(crate) pinned: BTreeMap<u64, u64>,
    pub(crate) breakpoints: pmus::breakpoint::Slots,
    /// The difference of another clock to that of records, by its `clockid`.
    pub(crate) clocks: BTreeMap<i32, i64>,
    pub(crate) user_clock: Option<TimeConversion>,
    pub(crate) scratch: Scratch,
    /// Room that is used again: for the listeners of an occurrence, for the groups of a pass with the places
    /// they have, and for the members of a group.
    pub(crate) heard: Vec<EventKey>,
    pub(crate) turns: Vec<(u64, EventKey)>,
    pub(crate) members: Vec<EventKey>,
    /// Records that the driver which is called wants written.
    pub(crate) driver_records: Vec<DriverRecord>,
    /// BPF programs of tracepoints and probes (rule K4), by type and number.
    pub(crate) programs: BTreeMap<(EventType, u64), Vec<Attached>>,
    /// The interrupt that comes in the middle of the next record.
    pub(crate) nested: Option<Nested>,
    /// Events that are to be switched off as soon as nothing moves.
    pub(crate) to_disable: Vec<EventKey>,
    /// A host tells of where tasks were: they do not switch.
    pub(crate) placing: bool,
}

/// How much the engine holds ([`Engine::holdings`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Tasks.
    pub tasks: usize,
    /// Events, copies in child tasks among them.
    pub events: usize,
    /// Rings.
    pub rings: usize,
    /// Entries for events: in contexts, timers, breakpoint slots and lists of listeners.
    pub entries: usize,
    /// Pages that users are charged for.
    pub locked_pages: u64,
}

impl Engine {
    /// A machine with the PMUs that every kernel has: `software` (1), `tracepoint` (2), `breakpoint` (5),
    /// `cpu_clock` (6) and `task_clock` (7).
    pub fn new(config: Config) -> Self {
        let mut contexts = Slab::new();
        let cpus =
            (0..config.cpus).map(|cpu| Cpu::new(contexts.insert(|_| Context::new(ContextKind::Cpu(cpu)))));
        let cpus = cpus.collect();
        let mut engine = Engine {
            sysctls: Sysctls::new(&config),
            pmus: Registry::default(),
            events: Slab::new(),
            owners: BTreeSet::new(),
            contexts,
            buffers: Slab::new(),
            cpus,
            tasks: BTreeMap::new(),
            cgroup_parents: BTreeMap::new(),
            effects: Vec::new(),
            last_id: 0,
            last_sequence: 0,
            sideband_counts: SidebandCounts::default(),
            locked: BTreeMap::new(),
            pinned: BTreeMap::new(),
            breakpoints: pmus::breakpoint::Slots::new(config.cpus, config.breakpoints),
            clocks: BTreeMap::new(),
            user_clock: None,
            scratch: Scratch::default(),
            heard: Vec::new(),
            turns: Vec::new(),
            members: Vec::new(),
            driver_records: Vec::new(),
            programs: BTreeMap::new(),
            nested: None,
            to_disable: Vec::new(),
            placing: false,
            config,
        };
        for pmu in pmus::built_in(&engine.config) {
            let registered = engine.register(pmu);
            debug_assert!(registered.is_ok(), "the types of built-in PMUs are free at first");
        }
        engine
    }

    /// The machine.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Registers a PMU; its type is the one it asks for, or the next free one. `EEXIST` if its name or
    /// its type is taken.
    pub fn register(&mut self, pmu: Box<dyn Pmu>) -> Result<PmuId, Errno> {
        self.release_pmus();
        // One tick, and at least a millisecond (rule C25).
        let interval = (1000 / u64::from(self.config.hz)).max(1) * 1_000_000;
        self.pmus.add(pmu, interval)
    }

    /// Gives the places of PMUs away that are gone and that no event, no group and no AUX area refers to.
    fn release_pmus(&mut self) {
        for pmu in self.pmus.gone().collect::<Vec<_>>() {
            let own = |event: EventKey| self.events[event].pmu == pmu || self.events[event].place == pmu;
            let used = self.events.keys().any(own)
                || self.contexts.keys().any(|context| self.contexts[context].pmus.contains_key(&pmu))
                || self.buffers.keys().any(|buffer| self.buffers[buffer].aux_pmu() == Some(pmu));
            if !used {
                for cpu in &mut self.cpus {
                    cpu.pmus.remove(&pmu);
                }
                self.pmus.release(pmu);
            }
        }
    }

    /// The state of an event; `None` once it is gone.
    pub fn state(&self, event: EventKey) -> Option<State> {
        self.events.get(event).map(|event| event.state)
    }

    /// The cpu that an event counts on.
    pub fn counts_on(&self, event: EventKey) -> Option<u32> {
        self.events.get(event).and_then(|event| event.on)
    }

    /// How many of an event and its copies in child tasks count at this moment.
    pub fn counting(&self, event: EventKey) -> usize {
        let Some(own) = self.events.get(event) else { return 0 };
        let all = core::iter::once(event).chain(own.children.values().copied());
        all.filter(|&event| self.state(event) == Some(State::Active)).count()
    }

    /// The leader and the siblings of the group that an event is in.
    pub fn group(&self, event: EventKey) -> Vec<EventKey> {
        if self.events.get(event).is_some() { self.group_of(event) } else { Vec::new() }
    }

    /// The attr of an event, as it was opened and changed since.
    pub fn attr(&self, event: EventKey) -> Option<&perfuse_abi::Attr> {
        self.events.get(event).map(|event| event.attr())
    }

    /// The id of an event, as records carry it.
    pub fn id(&self, event: EventKey) -> Option<u64> {
        self.events.get(event).map(|event| event.id)
    }

    /// Takes the effects since the host asked last.
    pub fn effects(&mut self) -> impl Iterator<Item = Effect> + '_ {
        self.effects.drain(..)
    }

    /// How much is held at this moment. With all descriptors closed and all mappings gone, only tasks are left.
    pub fn holdings(&self) -> Holdings {
        let of_cpu = |cpu: &Cpu| cpu.listeners.len() + cpu.timers.len() + cpu.sideband.len();
        let members = self.contexts.keys().map(|key| {
            let own = &self.contexts[key];
            own.events.len() + own.pinned.all().count() + own.flexible.all().count()
        });
        Holdings {
            tasks: self.tasks.len(),
            events: self.events.keys().count(),
            rings: self.buffers.keys().count(),
            entries: self.cpus.iter().map(of_cpu).sum::<usize>()
                + members.sum::<usize>()
                + self.programs.values().map(Vec::len).sum::<usize>()
                + self.breakpoints.len(),
            locked_pages: self.locked.values().chain(self.pinned.values()).sum(),
        }
    }

    /// Tells how far a clock of `clock_gettime(2)` is ahead of the clock of records, in ns.
    pub fn set_clock(&mut self, clockid: i32, ahead_ns: i64) {
        self.clocks.insert(clockid, ahead_ns);
    }

    pub(crate) fn wake(&mut self, event: EventKey) {
        self.effects.push(Effect::Wake(event));
    }

    pub(crate) fn signal(&mut self, event: EventKey, notice: Notice) {
        if self.events[event].asynchronous {
            self.effects.push(Effect::Signal(event, notice));
        }
    }

    /// The effective state of an event (rule C31).
    pub(crate) fn effective_state(&self, event: EventKey) -> State {
        let event = &self.events[event];
        let leader = self.events.get(event.leader).map_or(event.state, |leader| leader.state);
        if leader <= State::Off { leader } else { event.state }
    }

    /// The time on the clock that an event's times follow.
    pub(crate) fn clock_of(&self, event: EventKey, now: u64) -> u64 {
        match self.events[event].clock() {
            None => self.events[event].times.stamp,
            Some(Clock::Context(context)) => self.contexts[context].clock.at(now),
            Some(Clock::Cgroup { cpu, cgroup }) => {
                self.cpus[cpu as usize].cgroups.get(&cgroup).map_or(0, |clock| clock.at(now))
            }
        }
    }

    /// Brings the times of an event up to date (rule C32).
    pub(crate) fn update_times(&mut self, event: EventKey, now: u64) {
        self.events[event].times = self.times_of(event, now);
    }

    /// The times of an event now.
    pub(crate) fn times_of(&self, event: EventKey, now: u64) -> Times {
        let (clock, state) = (self.clock_of(event, now), self.effective_state(event));
        self.events[event].times.at(clock, state)
    }

    /// Changes an event's state, with its times, and those of siblings who depend on it (rule C32).
    pub(crate) fn set_state(&mut self, event: EventKey, state: State, now: u64) {
        let before = self.events[event].state;
        if before == state {
            return;
        }
        self.update_times(event, now);
        if (before <= State::Off) != (state <= State::Off) {
            for sibling in self.siblings_of(event) {
                self.update_times(sibling, now);
            }
        }
        self.events[event].state = state;
    }

    /// Calls the driver of an event, as far as both still exist.
    pub(crate) fn drive<R>(
        &mut self,
        event: EventKey,
        cpu: u32,
        now: u64,
        call: impl FnOnce(&mut dyn Pmu, &mut Cx<'_>, &mut Hw) -> R,
    ) -> Option<R> {
        let context = self.events[event].context;
        let context_now = context.map_or(now, |context| self.contexts[context].clock.at(now));
        let traces = self.pmus.get(self.events[event].pmu).info.caps.aux;
        let buffer = if traces { self.buffer_of(event) } else { None };
        let aux = buffer.and_then(|key| self.buffers[key].aux_output());
        let key = event;
        let event = &mut self.events[event];
        let place = &mut self.cpus[cpu as usize];
        let driver = self.pmus.driver(event.pmu)?;
        let (timers, listeners) = (&mut place.timers, &mut place.listeners);
        let (effects, driver_records) = (&mut self.effects, &mut self.driver_records);
        let mut cx = Cx { cpu, now, context_now, timers, listeners, effects, driver_records, aux };
        let result = call(driver, &mut cx, &mut event.hw);
        if !self.driver_records.is_empty() {
            self.write_driver_records(key, cpu, now);
        }
        Some(result)
    }

    /// Brings the count of an event up to date.
    pub(crate) fn update_count(&mut self, event: EventKey, now: u64) {
        if let (State::Active, Some(cpu)) = (self.events[event].state, self.events[event].on) {
            self.drive(event, cpu, now, |pmu, cx, hw| pmu.read(cx, hw));
        }
    }

    /// Where a context is on a cpu: a cpu's own always is there, a task's while the task runs.
    pub(crate) fn cpu_of(&self, context: ContextKey) -> Option<u32> {
        match self.contexts[context].kind {
            ContextKind::Cpu(cpu) => self.cpus[cpu as usize].online.then_some(cpu),
            ContextKind::Task(task) => {
                let cpu = self.tasks.get(&task)?.on?;
                (self.cpus[cpu as usize].task_context == Some(context)).then_some(cpu)
            }
        }
    }

    /// The cgroup of a task with all it lies in, the innermost first.
    pub(crate) fn cgroups_of(&self, task: Option<TaskId>) -> impl Iterator<Item = CgroupId> + '_ {
        let own = task.and_then(|task| self.tasks.get(&task)).map(|task| task.cgroup);
        let all = core::iter::successors(own, |cgroup| self.cgroup_parents.get(cgroup).copied());
        // A ring of parents would be the host's mistake.
        all.take(self.cgroup_parents.len() + 1)
    }

    /// Whether an event may run on a cpu now: its own, and with a task of its cgroup.
    pub(crate) fn matches(&self, event: EventKey, cpu: u32) -> bool {
        let event = &self.events[event];
        if event.cpu.is_some_and(|own| own != cpu) {
            return false;
        }
        let current = self.cpus[cpu as usize].current;
        event.cgroup.is_none_or(|cgroup| self.cgroups_of(current).any(|other| other == cgroup))
    }

    /// The leader and the siblings of the group that an event is in.
    pub(crate) fn group_of(&self, event: EventKey) -> Vec<EventKey> {
        let leader = self.events[event].leader;
        core::iter::once(leader).chain(self.events[leader].siblings.iter()).collect()
    }

    pub(crate) fn siblings_of(&self, leader: EventKey) -> Vec<EventKey> {
        self.events[leader].siblings.iter().collect()
    }

    /// The copies of an event in child tasks.
    pub(crate) fn copies_of(&self, event: EventKey) -> Vec<EventKey> {
        self.events[event].children.values().copied().collect()
    }

    /// The task that an event measures now: clone contexts change hands (rule D20).
    pub(crate) fn target_of(&self, event: EventKey) -> Option<TaskId> {
        match self.contexts[self.events[event].context?].kind {
            ContextKind::Task(task) => Some(task),
            ContextKind::Cpu(_) => None,
        }
    }

    /// The leader first, then the siblings, in room that is used again: to be [given back](Self::done_with).
    pub(crate) fn members(&mut self, leader: EventKey) -> Vec<EventKey> {
        let mut members = core::mem::take(&mut self.members);
        members.push(leader);
        members.extend(self.events[leader].siblings.iter());
        members
    }

    pub(crate) fn done_with(&mut self, mut members: Vec<EventKey>) {
        members.clear();
        self.members = members;
    }

    pub(crate) fn buffer_of(&self, event: EventKey) -> Option<BufferKey> {
        self.events[self.events[event].original()].buffer
    }
}

#[cfg(test)]
mod tests {
    use super::{Config, Engine};
    use crate::pmus;

    #[test]
    fn places_of_pmus_that_are_gone_are_used_again() {
        let mut engine = Engine::new(Config::default());
        let first = pmus::built_in(engine.config()).len();
        let mut ids = alloc::vec::Vec::new();
        for _ in 0..100 {
            let probes = alloc::boxed::Box::new(crate::ProbePmu::uprobe(alloc::boxed::Box::new(NoProbes)));
            let id = engine.register(probes).expect("there is no other");
            assert_eq!(engine.pmu_by_name("uprobe").map(|(id, _)| id), Some(id));
            engine.unregister(id, 0);
            assert!(engine.device_files(id).is_empty());
            ids.push(id);
        }
        assert_eq!(engine.pmus.places(), first + 1);
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "no id is given twice");
        assert!(engine.set_mux_interval_ms(ids[0], 5).is_err());
    }

    #[derive(Debug)]
    struct NoProbes;

    impl crate::Probes for NoProbes {
        fn set(&mut self, _attr: &perfuse_abi::Attr, _returns: bool) -> Result<u64, perfuse_abi::Errno> {
            Err(perfuse_abi::Errno::ENOENT)
        }

        fn clear(&mut self, _number: u64) {}

        fn filter(&mut self, _number: u64, _text: &str) -> Result<crate::Filter, perfuse_abi::Errno> {
            Err(perfuse_abi::Errno::EINVAL)
        }
    }
}
