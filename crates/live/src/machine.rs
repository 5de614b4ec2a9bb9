//! The engine with the tasks of this machine that it measures: one object for both fronts that serve
//! `perf_event_open(2)` from it.
//!
//! Two kinds of calls come in: those of programs, made by a *caller*, one of the tasks
//! ([`open`](Machine::open), [`ioctl`](Machine::ioctl), ...); and what happens to tasks
//! ([`adopt`](Machine::adopt), [`born`](Machine::born), [`exec`](Machine::exec), [`exit`](Machine::exit),
//! [`account`](Machine::account)). After each, [`effects`](Machine::effects)
//! tells the rest to be done. The fronts have [descriptors](crate::served); here events have keys.

use crate::bpf;
use crate::build_id::BuildIds;
use crate::clock::{ClockPmu, ClockRequests};
use crate::debug;
use crate::memory::Shared;
use crate::proc::{self, Reading, Wanted};
use crate::ptrace::Tid;
use crate::regs::ARCH;
use crate::step;
use crate::stopped::{ExitingThread, StoppedThread};
use crate::world::{View, World};
use perfuse_abi::{Attr, AttrFlags, ByteOrder, Errno, EventType, OpenFlags, PollFlags, SampleType, Software};
use perfuse_engine::{
    AtIp, CloneFlags, Config, CpuState, Engine, EventKey, MapRequest, OpenArguments, Sysctl, TaskFacts,
    TaskId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

mod clocks;
mod ioctls;
mod maps;
mod names;
mod namespaces;
mod probes;
mod programs;
mod rights;
mod sampled;
mod steps;
#[cfg(test)]
mod tests;
mod tracepoints;
mod watches;

pub(crate) use clocks::DueClock;
pub(crate) use namespaces::Namespaces;
pub(crate) use probes::ProbesAt;
pub use probes::{ProbedFile, UPROBE};
use programs::Carried;
pub(crate) use sampled::TickResult;
pub(crate) use tracepoints::Until;
pub(crate) use watches::ArmedBreakpoint;

/// How a machine behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Events that sample the kernel's part too are refused with `EACCES` to callers without `CAP_PERFMON`, as Linux does it
    /// for users who may not look at the kernel. Otherwise they have samples in system calls, without a place in the kernel.
    pub user_samples_only: bool,
    /// Records of context switches are written, as far as they can be told: a thread came as long before it was
    /// looked at as its clock has advanced, and goes then. So the sum of its time on cpus is right, and switches
    /// between two looks are one. Otherwise events that want them are refused with `EOPNOTSUPP`.
    pub estimate_switches: bool,
    /// Software events of which nobody tells a tracer can be opened, and stay 0: faults that the kernel mends where the
    /// processor cannot, the output of BPF programs, switches to other cgroups. Otherwise they are refused with `ENOENT`.
    pub untold_events: bool,
    /// Calls that SIGKILL ends are told as Linux tells them, with the result by which they would have been begun again. Otherwise
    /// they have no end, as for strace: a thread that sleeps when its process ends has not come back from its call.
    pub cut_calls: bool,
}

impl Settings {
    /// Linux' own perf asks for less by itself if it may not look at the kernel, and knows by `perf_event_paranoid`
    /// that it has to: so samples are as that says. And it takes software events for there.
    pub fn as_tools_expect() -> Self {
        let level = proc::sysctl("perf_event_paranoid").and_then(|text| text.trim().parse::<i64>().ok());
        let user_samples_only = level.is_none_or(|level| level >= 2);
        Settings { user_samples_only, untold_events: true, cut_calls: true, ..Settings::default() }
    }
}

/// The rights of a caller, in a call that opens an event.
#[derive(Clone, Copy, Debug)]
pub struct Rights {
    /// It may measure the target. That does not matter where the target is the caller itself.
    pub measures: bool,
    /// The file that a probe is in, as the caller sees it; `None`: as this process does.
    pub file: Option<Result<ProbedFile, Errno>>,
}

impl Rights {
    /// Those of this process: it could not have traced more.
    pub const OWN: Rights = Rights { measures: true, file: None };
}

/// A thread that is known.
#[derive(Debug)]
struct LiveTask {
    pid: Tid,
    tid: Tid,
    /// As it was told, if names are wanted.
    name: Vec<u8>,
    /// Of this very process: it can be asked without `/proc`, and is never traced.
    own: bool,
    /// Where its numbers are.
    files: proc::Files,
    /// Those that the engine has been told.
    told: Reading,
    /// When.
    told_at: u64,
    /// Stops of ours since, each of which `/proc` counts as a switch.
    stops: u64,
    /// Stops of ours, all of them.
    all_stops: u64,
    /// The shortest period of a clock that samples it.
    period: Option<u64>,
    sampling: sampled::SampledTask,
    last_tick: u64,
    /// Its breakpoints, whenever it runs.
    watches: Vec<ArmedBreakpoint>,
    /// Control pages of its events are mapped.
    has_pages: bool,
    /// Its instructions, if they are counted one by one.
    steps: steps::StepCount,
    /// Its system calls are told.
    tells_calls: bool,
    /// The one that it is in, if sleep is told.
    call: Option<tracepoints::RunningCall>,
    /// How often it had left its cpu by itself, stops among that, and how often it had been stopped, when that was asked last.
    waits: Option<(u64, u64)>,
}

/// A process of known threads.
#[derive(Debug, Default)]
struct Process {
    threads: usize,
    maps: maps::Maps,
}

/// The engine with its tasks.
#[derive(Debug)]
pub struct Machine {
    engine: Engine,
    world: World,
    tasks: BTreeMap<TaskId, LiveTask>,
    processes: BTreeMap<Tid, Process>,
    /// Events on threads of this very process.
    on_own: BTreeMap<EventKey, TaskId>,
    wanted: Wanted,
    names: names::Names,
    links: namespaces::Links,
    rights: rights::Rights,
    /// An event has asked for callers or stacks.
    stacks: bool,
    /// An event has asked for counts in its samples.
    reads_at_hits: bool,
    clock_requests: ClockRequests,
    sampled: sampled::SampledTasks,
    pending_effects: watches::PendingEffects,
    places: Option<probes::ProbeTable>,
    stepping: steps::Stepping,
    tracepoints: tracepoints::Tracepoints,
    clocks: clocks::Clocks,
    /// What programs have made by `bpf(2)`.
    bpf: bpf::Shared,
    /// Once an event asks for them.
    build_ids: Option<BuildIds>,
    estimate_switches: bool,
    untold_events: bool,
    cut_calls: bool,
    /// The last numbers of a task could not be read.
    lost: bool,
    /// The thread of ours whose numbers were told last since a call [began](Self::call_begins).
    own_told: Option<Tid>,
    last_task: u64,
    births: u64,
    cpus: u32,
    tick_ns: u64,
}

impl Machine {
    /// A machine without tasks.
    pub fn new(settings: Settings) -> Self {
        let cpus = perfuse_sys::thread::configured_cpus().clamp(1, 1 << 14) as u32;
        let config = Config {
            cpus,
            hz: proc::tick_rate(),
            page_bytes: perfuse_sys::page_size(),
            arch: ARCH,
            task_size: crate::TASK_SIZE,
            ..Config::default()
        };
        let tick_ns = config.tick_ns();
        let mut engine = Engine::new(config);
        let clock_requests = ClockRequests::default();
        // PMUs of which nothing would tell are not there.
        for name in ["cpu_clock", "task_clock"] {
            if let Some((pmu, _)) = engine.pmu_by_name(name) {
                engine.unregister(pmu, 0);
            }
        }
        for which in [Software::CPU_CLOCK, Software::TASK_CLOCK] {
            let clock = ClockPmu::new(which, clock_requests.clone(), settings.user_samples_only);
            let registered = engine.register(Box::new(clock));
            debug_assert!(registered.is_ok(), "its type has just become free");
        }
        let places = probes::ProbeTable::new(&mut engine);
        let stepping = steps::Stepping::new(&mut engine);
        let tracepoints = tracepoints::Tracepoints::new(&mut engine);
        // One's own tasks with the kernel's part of their counts, and nothing beyond (section B).
        let set = engine.set_sysctl(Sysctl::PerfEventParanoid, "1");
        debug_assert!(set.is_ok(), "every number is allowed");
        let world = World { page_bytes: engine.config().page_bytes, ..World::default() };
        let mut machine = Machine {
            engine,
            world,
            tasks: BTreeMap::new(),
            processes: BTreeMap::new(),
            on_own: BTreeMap::new(),
            wanted: Wanted::default(),
            names: names::Names::default(),
            links: namespaces::Links::default(),
            rights: rights::Rights::default(),
            stacks: false,
            reads_at_hits: false,
            clock_requests,
            sampled: sampled::SampledTasks::default(),
            pending_effects: watches::PendingEffects::default(),
            places,
            stepping,
            tracepoints,
            clocks: clocks::Clocks::default(),
            bpf: bpf::Shared::new(),
            build_ids: None,
            estimate_switches: settings.estimate_switches,
            untold_events: settings.untold_events,
            cut_calls: settings.cut_calls,
            lost: false,
            last_task: 0,
            own_told: None,
            births: 0,
            cpus,
            tick_ns,
        };
        machine.set_clocks();
        machine
    }

    /// Records have CLOCK_MONOTONIC; how far the others are ahead of it.
    fn set_clocks(&mut self) {
        for clock in [0, 1, 4, 7, 11] {
            let ahead = proc::clock_ns(clock) as i64 - self.now() as i64;
            self.engine.set_clock(clock, if clock == libc::CLOCK_MONOTONIC { 0 } else { ahead });
        }
    }

    /// The time of records: `CLOCK_MONOTONIC`.
    pub fn now(&self) -> u64 {
        proc::now_ns()
    }

    /// Ticks a second of the kernel below, which limit how exact the clocks of running threads are.
    pub fn tick_rate(&self) -> u32 {
        self.engine.config().hz
    }

    /// The task of a thread that is known.
    pub fn task_of(&self, tid: Tid) -> Option<TaskId> {
        self.world.by_tid.get(&tid).copied()
    }

    /// Process and thread of a task.
    pub fn tid_of(&self, task: TaskId) -> Option<(Tid, Tid)> {
        self.tasks.get(&task).map(|known| (known.pid, known.tid))
    }

    fn add(&mut self, pid: Tid, tid: Tid, told: Reading, name: Vec<u8>) -> TaskId {
        self.last_task += 1;
        let task = TaskId(self.last_task);
        let own = pid == std::process::id() as Tid;
        let files = proc::Files::new(pid, tid);
        let known = LiveTask {
            pid,
            tid,
            name,
            own,
            files,
            told,
            told_at: 0,
            stops: 0,
            all_stops: 0,
            period: None,
            sampling: sampled::SampledTask::default(),
            last_tick: 0,
            watches: Vec::new(),
            has_pages: false,
            steps: steps::StepCount::default(),
            tells_calls: false,
            call: None,
            waits: None,
        };
        self.tasks.insert(task, known);
        self.bpf.set_thread(task, Some((pid, tid)));
        self.processes.entry(pid).or_default().threads += 1;
        self.world.by_tid.insert(tid, task);
        task
    }

    /// A thread that runs already becomes a task; its time up to now is not counted. `None` if there is
    /// no such thread.
    pub fn adopt(&mut self, pid: Tid, tid: Tid) -> Option<TaskId> {
        let own = pid == std::process::id() as Tid;
        let told = read(&mut proc::Files::new(pid, tid), tid, own, self.wanted)?;
        if let Some(task) = self.task_of(tid) {
            // The ends of our own threads are not told, and their numbers are given again.
            let other = own && self.tasks.get(&task).is_some_and(|known| told.time_ns < known.told.time_ns);
            if !other {
                if own {
                    // Its work before the call that is made for it.
                    self.account(task, &told, None);
                    self.own_told = Some(tid);
                }
                return Some(task);
            }
            self.end(task, None);
        }
        let name = self.first_name(pid, tid);
        let task = self.add(pid, tid, told, name);
        self.engine.add_task(task, TaskFacts::new(pid as u32, tid as u32));
        self.see(task, None);
        Some(task)
    }

    /// How many tasks other tasks have made up to now, each of which took a stop of both.
    pub fn births(&self) -> u64 {
        self.births
    }

    /// The calling thread.
    pub fn adopt_caller(&mut self) -> TaskId {
        let (pid, tid) = (std::process::id() as Tid, proc::own_tid());
        self.adopt(pid, tid).unwrap_or(TaskId(0))
    }

    /// A task made another one, whose numbers count from their zeros.
    pub fn born(&mut self, parent: TaskId, pid: Tid, tid: Tid) -> TaskId {
        if let Some(task) = self.task_of(tid) {
            return task;
        }
        self.births += 1;
        // Readers of the FORK record take it to have the name of its parent.
        let name = self.tasks.get(&parent).map(|parent| parent.name.clone()).unwrap_or_default();
        let task = self.add(pid, tid, Reading::default(), name);
        let (now, thread) = (self.now(), pid != tid);
        let cpu = self.cpu_of(parent);
        self.engine.place(cpu, now, None);
        let facts = TaskFacts::new(pid as u32, tid as u32);
        let flags = CloneFlags { thread, clear_sighand: false };
        if self.world.namespaces.any() || self.links.are_wanted() {
            self.engine.add_task(task, facts);
            self.see(task, Some(parent));
            self.know_namespaces(task, tid);
        }
        if self.engine.fork(parent, task, facts, flags, cpu, now).is_err() {
            // It goes on unmeasured, where a kernel would have failed the fork.
            self.engine.add_task(task, facts);
        }
        if !thread {
            let parent = self.tasks.get(&parent).map(|parent| parent.pid);
            let copy =
                parent.and_then(|parent| self.processes.get(&parent)).map(|parent| parent.maps.clone());
            self.processes.entry(pid).or_default().maps = copy.unwrap_or_default();
        }
        self.within(task, now, |_, _| {});
        self.tell_fork(parent, tid);
        task
    }

    /// A task, stopped, has replaced its program. `tid`: its number now, that of its process; who had it
    /// before is gone.
    pub fn exec(&mut self, task: TaskId, tid: Tid) {
        if let Some(former) = self.task_of(tid).filter(|former| *former != task) {
            self.tell_end(former);
            self.end(former, None);
        }
        let Some(known) = self.tasks.get_mut(&task) else { return };
        let old = std::mem::replace(&mut known.tid, tid);
        let pid = known.pid;
        if old != tid {
            known.files = proc::Files::new(pid, tid);
            self.engine.renumber(task, perfuse_abi::record::Tid { pid: pid as u32, tid: tid as u32 });
        }
        self.bpf.set_thread(task, Some((pid, tid)));
        self.world.by_tid.remove(&old);
        self.world.by_tid.insert(tid, task);
        if old != tid {
            self.see(task, None);
        }
        self.update(task);
        let name = proc::comm(pid, tid);
        if let Some(known) = self.tasks.get_mut(&task) {
            known.name.clone_from(&name);
        }
        let now = self.now();
        let fresh = proc::has_gained_rights(pid);
        self.within(task, now, |engine, cpu| engine.exec(task, cpu, now, &name, fresh));
        self.tell_namespaces(task);
        self.processes.entry(pid).or_default().maps = maps::Maps::default();
        self.update_maps(task);
        self.see_rights(pid);
        // Events that were switched on by it start here.
        self.within(task, now, |_, _| {});
        self.tell_exec(task, old);
    }

    /// A task has ended; its last numbers can still be read, or are these (`read`).
    pub fn exit(&mut self, task: TaskId) {
        let (short, wanted) = (proc::times_short(), self.wanted);
        self.sample_end(task);
        let reading = self.tasks.get_mut(&task).and_then(|known| known.read(wanted));
        if let Some(reading) = reading {
            self.account(task, &reading.of_the_dead(), None);
        }
        self.lost |= proc::times_short() != short;
        self.see_name(task);
        self.tell_end(task);
        let parent = self.tasks.get(&task).and_then(|known| match known.pid == known.tid {
            true => self.task_of(proc::parent_of(known.pid)?),
            false => self.task_of(known.pid),
        });
        self.end(task, parent);
    }

    /// A task was looked at, and could not be stopped any more: it was in its last system call.
    fn sample_end(&mut self, task: TaskId) {
        if !self.is_due(task) {
            return;
        }
        let Some(reading) = self.read_stopped(task).map(Reading::of_the_dead) else { return };
        if let Some(weight) = self.weigh(task, self.now(), &reading, true) {
            self.sample_at(task, &reading, &ExitingThread, weight);
        }
    }

    fn end(&mut self, task: TaskId, parent: Option<TaskId>) {
        let (now, cpu) = (self.now(), self.cpu_of(task));
        self.vacate(&[task], now);
        self.engine.place(cpu, now, None);
        self.engine.exit(task, parent, cpu, now);
        self.engine.reap(task, now);
        self.world.namespaces.forget(task);
        self.links.forget(task);
        self.bpf.set_thread(task, None);
        if let Some(known) = self.tasks.remove(&task) {
            self.sampled.changed(task, known.period.filter(|_| !known.own), None);
            if self.world.by_tid.get(&known.tid) == Some(&task) {
                self.world.by_tid.remove(&known.tid);
            }
            if let Some(process) = self.processes.get_mut(&known.pid) {
                process.threads -= 1;
                if process.threads == 0 {
                    self.processes.remove(&known.pid);
                }
            }
        }
    }

    /// A task is stopped by us: not a switch of its own.
    pub fn stopped(&mut self, task: TaskId) {
        self.stopped_often(task, 1);
    }

    /// The same, several times.
    pub fn stopped_often(&mut self, task: TaskId, times: u64) {
        if let Some(known) = self.tasks.get_mut(&task) {
            known.stops += times;
            known.all_stops += times;
        }
    }

    /// Reads a task's numbers and tells the engine of the new part.
    pub fn update(&mut self, task: TaskId) {
        let wanted = self.wanted;
        let Some(known) = self.tasks.get_mut(&task) else { return };
        let short = proc::times_short();
        match known.read(wanted) {
            Some(reading) => {
                if known.own {
                    self.own_told = Some(known.tid);
                }
                self.account(task, &reading, None);
            }
            // One of our own threads, whose ends are not told.
            None if known.own && proc::times_short() == short => self.end(task, None),
            None => {}
        }
    }

    /// The numbers of a task that is stopped, which are exact.
    pub(crate) fn read_stopped(&mut self, task: TaskId) -> Option<Reading> {
        let wanted = self.wanted;
        let known = self.tasks.get_mut(&task)?;
        let mut reading = known.read(wanted)?;
        if !wanted.faults {
            reading.cpu = known.sampling.cpu;
        }
        Some(reading)
    }

    /// Whether samples show the memory of tasks: their callers or their stacks.
    pub(crate) fn wants_stacks(&self) -> bool {
        self.stacks
    }

    /// A task was stopped with these numbers, and is sampled with this weight. It is stopped still, unless none
    /// [wants stacks](Self::wants_stacks).
    pub(crate) fn sample(&mut self, task: TaskId, reading: &Reading, stopped: &StoppedThread, weight: u64) {
        self.see_maps(task, stopped);
        self.sample_at(task, reading, stopped, weight);
    }

    fn sample_at(&mut self, task: TaskId, reading: &Reading, moment: &dyn CpuState, weight: u64) {
        let Some(period) = self.tasks.get(&task).and_then(|known| known.period) else { return };
        self.see_name(task);
        self.clock_requests.sample(weight, period);
        self.account(task, reading, Some(moment));
        self.clock_requests.sample(0, 0);
    }

    /// Tells the engine of the new part of a task's numbers: it ran for as long as its clock has advanced, up
    /// to now. `stopped`: where it is.
    pub fn account(&mut self, task: TaskId, reading: &Reading, stopped: Option<&dyn CpuState>) {
        let now = self.now();
        let (cpus, tick_ns, wanted) = (self.cpus, self.tick_ns, self.wanted);
        let Some(known) = self.tasks.get_mut(&task) else { return };
        let told = known.told;
        let ran = reading.time_ns.saturating_sub(told.time_ns);
        // The reading has only the parts that are wanted.
        let new = |wanted: bool, now: u64, before: u64| if wanted { now.saturating_sub(before) } else { 0 };
        let minor = new(wanted.faults, reading.minor, told.minor);
        let major = new(wanted.faults, reading.major, told.major);
        let all_switches = new(wanted.switches, reading.switches, told.switches);
        let ours = known.stops.min(all_switches);
        let switches = all_switches - ours;
        let migrations = new(wanted.migrations, reading.migrations, told.migrations);
        known.stops -= ours;
        let cpu = if reading.cpu < cpus { reading.cpu } else { 0 };
        known.told = Reading {
            time_ns: told.time_ns + ran,
            waited_ns: reading.waited_ns,
            arrivals: reading.arrivals,
            minor: told.minor + minor,
            major: told.major + major,
            switches: told.switches + all_switches,
            migrations: told.migrations + migrations,
            cpu,
        };
        let ticks = stopped.is_some() && now.saturating_sub(known.last_tick) >= tick_ns;
        if ticks {
            known.last_tick = now;
        }
        let counts = minor + major + switches + migrations + known.steps.untold;
        if ran == 0 && counts == 0 && stopped.is_none() {
            return;
        }
        let came = now.saturating_sub(ran);
        let told_at = std::mem::replace(&mut known.told_at, now);
        self.come(task, cpu, came);
        let switches_are_told = self.estimate_switches && ran > 0;
        if switches_are_told {
            // It ran on while its numbers were read the last time; it goes only then.
            self.engine.record_placed(cpu, came.max(told_at), true);
        }
        let (user, kernel) = [true, false].map(|user| AtIp { user, ip: 0 }).into();
        let faults = [
            (Software::PAGE_FAULTS, minor + major, &user),
            (Software::PAGE_FAULTS_MIN, minor, &user),
            (Software::PAGE_FAULTS_MAJ, major, &user),
            (Software::CONTEXT_SWITCHES, switches, &kernel),
            (Software::CPU_MIGRATIONS, migrations, &kernel),
        ];
        for (which, count, place) in faults {
            if count > 0 {
                self.engine.software(cpu, now, which, count, 0, place);
            }
        }
        self.tell_steps(task, cpu, now, stopped);
        if let Some(stopped) = stopped {
            if ticks {
                self.engine.tick(cpu, now);
            }
            if self.engine.deadline(cpu).is_some_and(|at| at <= now) {
                self.engine.expire(cpu, now, stopped);
            }
        }
        if switches_are_told {
            self.engine.record_placed(cpu, now, false);
        }
        self.leave(task, cpu, now);
    }

    /// The cpu where a task was seen last.
    pub fn cpu_of(&self, task: TaskId) -> u32 {
        self.tasks.get(&task).map_or(0, |known| known.told.cpu)
    }

    /// Does something while a task is on its cpu, for no time.
    fn within(&mut self, task: TaskId, now: u64, act: impl FnOnce(&mut Engine, u32)) {
        let cpu = self.cpu_of(task);
        self.come(task, cpu, now);
        act(&mut self.engine, cpu);
        self.leave(task, cpu, now);
    }

    /// The same at a hit, in a task that goes on: its control pages are written when it really leaves.
    fn within_hit(&mut self, task: TaskId, now: u64, act: impl FnOnce(&mut Engine, u32)) {
        let cpu = self.cpu_of(task);
        self.come(task, cpu, now);
        act(&mut self.engine, cpu);
        self.leave_or_stay(task, cpu, now, true);
    }

    /// A task comes to a cpu, where it may be still; no other is.
    fn come(&mut self, task: TaskId, cpu: u32, at: u64) {
        if self.engine.place_of(task).is_some_and(|other| other != cpu) {
            self.vacate(&[task], at);
        }
        if self.engine.current(cpu) != Some(task) {
            self.engine.place(cpu, at, None);
        }
        self.engine.place(cpu, at, Some(task));
    }

    /// Leaves the cpus if several tasks are there: a request of an event that is switched on would be taken for that of another task.
    fn vacate_if_several(&mut self, tasks: &[TaskId], now: u64) {
        if tasks.len() > 1 {
            self.vacate(tasks, now);
        }
    }

    /// Tasks leave the cpus where they were kept.
    fn vacate(&mut self, tasks: &[TaskId], now: u64) {
        for cpu in tasks.iter().filter_map(|&task| self.engine.place_of(task)).collect::<Vec<_>>() {
            self.engine.place(cpu, now, None);
        }
    }

    /// A task runs no longer: takes the requests of its events while it was on its cpu. Where they ask for nothing,
    /// it is kept there, as telling of it once more is then no matter of how many they are.
    fn leave(&mut self, task: TaskId, cpu: u32, now: u64) {
        let has_pages = self.tasks.get(&task).is_some_and(|known| known.has_pages);
        self.leave_or_stay(task, cpu, now, !has_pages);
    }

    fn leave_or_stay(&mut self, task: TaskId, cpu: u32, now: u64, may_stay: bool) {
        self.note_watches(task);
        self.note_steps(task);
        self.note_calls(task, cpu);
        let period = self.clock_requests.take();
        let asks = period.is_some() || self.is_to_be_stepped(task);
        match self.tasks.get(&task).filter(|known| !asks && may_stay && known.watches.is_empty()) {
            Some(_) => self.engine.pause(cpu, now),
            None => self.engine.place(cpu, now, None),
        }
        if let Some(known) = self.tasks.get_mut(&task) {
            let before = std::mem::replace(&mut known.period, period);
            if before.is_none() {
                known.sampling.is_sampled_from(known.told.time_ns);
            }
            if !known.own {
                self.sampled.changed(task, before, period);
            }
        }
    }

    /// Whether an event samples a task.
    pub(crate) fn is_sampled(&self, task: TaskId) -> bool {
        self.tasks.get(&task).is_some_and(|known| known.period.is_some())
    }

    /// Brings the counts of all tasks up to date that an event measures.
    fn update_targets(&mut self, event: EventKey) {
        for task in self.engine.targets(event) {
            self.update_with_sleep(task);
        }
    }

    /// Brings the counts of a task up to date, with the sleep that it is in.
    fn update_with_sleep(&mut self, task: TaskId) {
        self.update(task);
        self.tell_sleep(task, Until::Now);
    }

    /// The events on a task may have changed.
    fn look_again(&mut self, tasks: Vec<TaskId>) {
        let now = self.now();
        for task in tasks {
            self.within(task, now, |_, _| {});
        }
    }

    /// `perf_event_open(2)` of a task. `attr`: a copy of the caller's, whose size field is changed where
    /// the call changes it. `group`: the event of `group_fd`, if it is one.
    ///
    /// The target has to be [adopted](Self::adopt) before (`ESRCH`). `rights`: those of the caller, which the front
    /// has asked. Beyond what Linux refuses: `EACCES`
    /// for whole cpus, unless the event is to carry BPF programs that the caller has loaded, and for samples with the kernel's part if [only the user's](Settings::user_samples_only) are to be had;
    /// `ENOENT` for events of which nothing tells, breakpoints among them where debug registers are without
    /// effect; `EOPNOTSUPP` for samples of single faults and switches, for records of switches, and for
    /// breakpoints in this very process.
    pub fn open(
        &mut self,
        caller: TaskId,
        attr: &mut Vec<u8>,
        mut arguments: OpenArguments,
        group: Option<EventKey>,
        mut rights: Rights,
    ) -> Result<EventKey, Errno> {
        let carries = self.carry_programs(caller, attr, &mut arguments);
        rights.measures |= carries.is_some();
        let seen = Attr::peek(attr, ByteOrder::NATIVE);
        let Attr { type_, sample_period: period, flags, .. } = seen;
        if period != 0 || seen.sample_type.contains(SampleType::CALLCHAIN) {
            self.follow_limits();
        }
        self.reads_at_hits |= seen.sample_type.contains(SampleType::READ);
        if type_ == EventType::TRACEPOINT {
            self.know_tracepoint(seen.config);
        }
        self.stacks |= seen.sample_type.intersects(SampleType::CALLCHAIN | SampleType::STACK_USER);
        let software = type_ == EventType::SOFTWARE;
        let refused = match Software(seen.config) {
            // A switch is not heard of, only how many there were.
            _ if flags.contains(AttrFlags::CONTEXT_SWITCH) && !self.estimate_switches => {
                Some(Errno::EOPNOTSUPP)
            }
            _ if type_ == EventType::BREAKPOINT && debug::works().is_err() => Some(Errno::ENOENT),
            _ if type_ == step::TYPE && step::works().is_err() => Some(Errno::ENOENT),
            _ if !software => None,
            Software::CPU_CLOCK | Software::TASK_CLOCK | Software::DUMMY => None,
            Software::ALIGNMENT_FAULTS
            | Software::EMULATION_FAULTS
            | Software::BPF_OUTPUT
            | Software::CGROUP_SWITCHES
                if self.untold_events =>
            {
                None
            }
            // gVisor shows zeros.
            _ if !proc::shows_the_dead() => Some(Errno::ENOENT),
            Software::PAGE_FAULTS | Software::PAGE_FAULTS_MIN | Software::PAGE_FAULTS_MAJ => {
                self.want(Wanted { faults: true, ..self.wanted });
                (period != 0).then_some(Errno::EOPNOTSUPP)
            }
            Software::CONTEXT_SWITCHES => {
                self.want(Wanted { switches: true, ..self.wanted });
                (period != 0).then_some(Errno::EOPNOTSUPP)
            }
            Software::CPU_MIGRATIONS => {
                self.want(Wanted { migrations: true, ..self.wanted });
                (period != 0).then_some(Errno::EOPNOTSUPP)
            }
            _ => Some(Errno::ENOENT),
        };
        // An event that is on at once does not count the time before.
        let target = match arguments.pid {
            0 => Some(caller),
            pid => self.task_of(pid),
        };
        let own = target.is_some_and(|target| self.tasks.get(&target).is_some_and(|known| known.own));
        // Traps of our own threads would have no tracer.
        let probe = self.places.as_ref().is_some_and(|places| places.type_ == type_);
        let point = self.place_tracepoint(&seen, target.filter(|_| rights.measures));
        let sets_traps = probe
            || point.is_some()
            || [EventType::BREAKPOINT, EventType::HARDWARE, step::TYPE].contains(&type_);
        let refused = refused.or((own && sets_traps).then_some(Errno::EOPNOTSUPP));
        let refused = refused.or(point.and_then(Result::err));
        let probe = self.place_probe(caller, attr, rights.file, target.filter(|_| rights.measures));
        let probe = probe.or(point.and_then(Result::ok));
        target.into_iter().for_each(|target| self.update(target));
        if flags.contains(AttrFlags::COMM) {
            self.want_names();
        }
        if let (true, Some(target)) = (flags.contains(AttrFlags::NAMESPACES), target) {
            self.want_namespaces(target);
        }
        if flags.contains(AttrFlags::BUILD_ID) {
            self.build_ids.get_or_insert_default();
        }
        // Existing mappings are not told.
        if let (true, Some(target)) = (flags.contains(AttrFlags::MMAP), target.filter(|_| !own)) {
            self.update_maps(target);
        }
        let now = self.now();
        let tid = self.tid_of(caller).map(|(_, tid)| tid);
        let mut view = View { group, allowed: rights.measures, ..View::new(&mut self.world, tid) };
        if arguments.pid == -1 && programs::only_writes_what_programs_do(&seen) {
            (view.shows_nothing, view.perfmon) = (true, true.into());
        }
        let event = self.engine.open(&mut view, caller, now, attr, arguments)?;
        if let Some(errno) = refused {
            self.engine.close(event, now);
            return Err(errno);
        }
        if let Some(target) = target.filter(|_| own) {
            self.on_own.insert(event, target);
        }
        match carries {
            Some(Carried { sight, clock: Some((cpu, period)) }) => self.add_clock(event, cpu, period, sight),
            carries => {
                if let Some(number) = probe {
                    self.probe_opened(event, number, carries.map(|carries| carries.sight));
                }
            }
        }
        self.look_again(target.into_iter().collect());
        Ok(event)
    }

    /// The limits of samples are those of the kernel below, which may change at any time (rules B6, B21, I11).
    fn follow_limits(&mut self) {
        let limits =
            [Sysctl::PerfEventMaxSampleRate, Sysctl::PerfEventMaxStack, Sysctl::PerfEventMaxContextsPerStack];
        for limit in limits {
            // Where they are not shown, as in gVisor, they stay as Linux has them at first.
            if let Some(text) = proc::sysctl(limit.name()) {
                let _ = self.engine.follow_sysctl(limit, &text);
            }
        }
    }

    /// Whether [`open`](Self::open) would succeed for a thread that is no task, which stands there as one for that moment only:
    /// so what Linux asks before the rights over it is answered first (rules B13 to B28).
    pub(crate) fn would_open(
        &mut self,
        whom: (Tid, Tid),
        caller: TaskId,
        attr: &mut Vec<u8>,
        arguments: OpenArguments,
        group: Option<EventKey>,
        rights: Rights,
    ) -> Result<(), Errno> {
        let (pid, tid) = whom;
        let task = self.adopt(pid, tid).ok_or(Errno::ESRCH)?;
        if proc::is_dead(tid) {
            let (now, cpu) = (self.now(), self.cpu_of(task));
            self.engine.place(cpu, now, None);
            self.engine.exit(task, None, cpu, now);
        }
        let opened = self.open(caller, attr, arguments, group, rights);
        opened.iter().for_each(|&event| self.close(event));
        self.end(task, None);
        opened.map(drop)
    }

    /// Something new is wanted of all readings: it counts from now on.
    fn want(&mut self, wanted: Wanted) {
        if wanted == self.wanted {
            return;
        }
        let before = std::mem::replace(&mut self.wanted, wanted);
        for known in self.tasks.values_mut() {
            let Some(reading) = known.read(wanted) else { continue };
            let told = &mut known.told;
            if wanted.faults && !before.faults {
                (told.minor, told.major) = (reading.minor, reading.major);
            }
            if wanted.switches && !before.switches {
                (told.switches, known.stops) = (reading.switches, 0);
            }
            if wanted.migrations && !before.migrations {
                told.migrations = reading.migrations;
            }
        }
    }

    /// `read(2)`: fills `bytes`, none for an event in the error state.
    ///
    /// `ENODATA`: it measured another thread of this very process, which has ended. A tracee's last numbers
    /// can be read when it is dead, but no process traces itself. `EMFILE`: this process has no descriptor left to
    /// look at `/proc` with, or had none when the end of a task was to be counted.
    pub fn read(&mut self, event: EventKey, room: usize, bytes: &mut Vec<u8>) -> Result<(), Errno> {
        let short = proc::times_short();
        let members = self.engine.group(event);
        let targets: BTreeSet<TaskId> =
            members.into_iter().flat_map(|member| self.engine.targets(member)).collect();
        targets.into_iter().for_each(|target| self.update_with_sleep(target));
        if self.lost || proc::times_short() != short {
            return Err(Errno::EMFILE);
        }
        if self.on_own.get(&event).is_some_and(|task| !self.tasks.contains_key(task)) {
            return Err(Errno::ENODATA);
        }
        let now = self.now();
        self.engine.read(event, now, room, bytes)
    }

    /// `mmap(2)`: the memory to map instead, from its start on.
    pub fn mmap(
        &mut self,
        caller: TaskId,
        event: EventKey,
        request: MapRequest,
    ) -> Result<Arc<Shared>, Errno> {
        let now = self.now();
        let tid = self.tid_of(caller).map(|(_, tid)| tid);
        let mut view = View::new(&mut self.world, tid);
        let memory = self.engine.mmap(&mut view, caller, event, now, request)?;
        for target in self.engine.targets(event) {
            self.tasks.entry(target).and_modify(|known| known.has_pages = true);
        }
        self.world.memory.shared(&memory).ok_or(Errno::ENOMEM)
    }

    /// A mapping of an event's ring is gone.
    pub fn munmap(&mut self, event: EventKey) {
        let now = self.now();
        self.engine.munmap(event, now);
    }

    /// The answer to `poll(2)`, which takes readiness to read away (rule G20).
    pub fn poll(&mut self, event: EventKey) -> PollFlags {
        self.engine.poll(event)
    }

    /// Whether `poll(2)` answers that there will be nothing to read: what it measures has ended (rule G21), or it has no
    /// ring (rule G23).
    pub fn has_hung_up(&self, event: EventKey) -> bool {
        self.engine.has_hung_up(event)
    }

    /// Whether the targets of an event and of its copies have ended.
    pub fn is_over(&self, event: EventKey) -> bool {
        self.engine.is_over(event)
    }

    /// A call of this thread begins.
    pub fn call_begins(&mut self) {
        self.own_told = None;
    }

    /// A call of this thread is over: what was done for it since its numbers were read last counts for
    /// nobody. If they were not read in this call, what the thread itself has done since is told another time.
    pub fn forget_own_work(&mut self) {
        let wanted = self.wanted;
        let tid = proc::own_tid();
        if self.own_told != Some(tid) {
            return;
        }
        let task = self.task_of(tid);
        if let Some(known) = task.and_then(|task| self.tasks.get_mut(&task)).filter(|known| known.own) {
            known.told = proc::read_own(wanted);
        }
    }

    /// `O_ASYNC` of a descriptor is set or cleared.
    pub fn set_async(&mut self, event: EventKey, on: bool) {
        self.engine.set_async(event, on);
    }

    /// The last descriptor of an event is closed.
    pub fn close(&mut self, event: EventKey) {
        let tasks = self.engine.targets(event);
        self.on_own.remove(&event);
        self.probe_closed(event);
        self.remove_clock(event);
        let now = self.now();
        self.engine.close(event, now);
        self.look_again(tasks);
    }

    /// `prctl(2)`: all events that the caller opened are switched on or off.
    pub fn prctl(&mut self, caller: TaskId, enable: bool) {
        let tasks: Vec<TaskId> = self.tasks.keys().copied().collect();
        for &task in &tasks {
            self.update(task);
        }
        let now = self.now();
        self.vacate_if_several(&tasks, now);
        self.engine.prctl(caller, enable, now);
        self.look_again(tasks);
    }

    /// The type of a PMU by name.
    pub fn pmu_type(&self, name: &str) -> Option<EventType> {
        self.engine.pmu_by_name(name).map(|(_, type_)| type_)
    }
}

impl LiveTask {
    fn read(&mut self, wanted: Wanted) -> Option<Reading> {
        read(&mut self.files, self.tid, self.own, wanted)
    }
}

/// The numbers of a thread, by the best way there is.
fn read(files: &mut proc::Files, tid: Tid, own: bool, wanted: Wanted) -> Option<Reading> {
    match own {
        true if tid == proc::own_tid() => Some(proc::read_own(wanted)),
        true => {
            let reading = files.read(tid, wanted)?;
            Some(proc::of_sibling(tid, reading))
        }
        false => files.read(tid, wanted),
    }
}

/// The flags of `perf_event_open(2)` that are the descriptor's affair.
pub const DESCRIPTOR_FLAGS: OpenFlags = OpenFlags::FD_CLOEXEC;
