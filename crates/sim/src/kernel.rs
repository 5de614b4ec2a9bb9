//! The machine as a kernel of perfuse's: what measures with Linux or with the embedded kernel measures it without a
//! difference, and every count is known beforehand.
//!
//! Descriptors are ends of pipes and rings are memfds, [served](perfuse_live::served) as the embedded kernel's are. Time
//! passes only while somebody waits ([`Surroundings::poll`]), or by [`SimKernel::run_for`]: from one thing that happens to
//! the next, until what is waited for has come. So nothing depends on how fast the measuring program is, and the same calls
//! see the same things in the same nanosecond.

mod surroundings;

use crate::machine::{Machine, Setup};
use crate::scenario::{self, Action, Line, Scenario, Statement};
use crate::world::Allocate;
use perfuse::diagnosis::{Cause, Diagnosis};
use perfuse::kernel::{Kernel, KernelFacts, Mapping, Notice, Protection, Request, Surroundings};
use perfuse::{Call, Cgroup, SignalOwner, Subject, Support};
use perfuse_abi::wire::{Layout, Writer};
use perfuse_abi::{Attr, ByteOrder, Errno, EventType, IocFlags, OpenFlags, PollFlags};
use perfuse_engine::{
    AttrMemory, CgroupId, Effect, EventKey, Ioctl, MapRequest, Memory, OpenArguments, TaskId,
};
use perfuse_live::memory::Given;
use perfuse_live::served::{self, Answers, Descriptors, Served};
use perfuse_sys::{page_size, pipe, signal};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A simulated machine as a kernel.
///
/// Its tasks and cpus are what is measured, by their numbers on that machine. The program that measures is none of its
/// tasks: it takes no time there, and may do what the machine's [world](crate::World) lets it.
///
/// ```
/// use perfuse::{Counter, Perf, Target, abi::Hardware};
/// use perfuse_sim::{SimKernel, scenario::Scenario};
///
/// let scenario: Scenario = "
///     program worker
///       compute 5ms cycles=1000
///     end
///     start worker
/// ".parse()?;
/// let kernel = std::sync::Arc::new(SimKernel::of(&scenario));
/// let perf = Perf::from(kernel.clone());
/// let mut cycles = perf.counter(Hardware::CPU_CYCLES).target(Target::thread(100)).open()?;
/// cycles.enable()?;
/// kernel.run_for(2_000_000);
/// assert_eq!(cycles.read()?.value, 2_000_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SimKernel {
    state: Mutex<State>,
    /// The moment that the machine was switched on, as this process tells time.
    began: Instant,
    support: OnceLock<Support>,
    cgroups: BTreeMap<String, Cgroup>,
}

#[derive(Debug)]
struct State {
    machine: Machine,
    open: Open,
    given: Arc<Mutex<Given>>,
    script: VecDeque<Scripted>,
    /// The machine stands still from then on; `None`: when its tasks have ended.
    ends_at: Option<u64>,
    /// How long those who are woken need until they run.
    latency_ns: u64,
    /// What could not be done, with its line in the scenario.
    failed: Vec<String>,
}

/// What it does to the machine; or why that cannot be done.
type Act = dyn FnOnce(&mut Machine) -> Result<(), String> + Send;

/// Something that happens at a time, by whatever else than a task.
struct Scripted {
    at: u64,
    action: Box<Act>,
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted").field("at", &self.at).finish_non_exhaustive()
    }
}

/// The open events.
#[derive(Debug, Default)]
struct Open(BTreeMap<EventKey, OpenEvent>);

/// An open event.
#[derive(Debug)]
struct OpenEvent {
    served: Served,
    mappings: usize,
    aux_mappings: usize,
}

/// The task that calls: none of the machine's.
const OUTSIDE: TaskId = TaskId(0);

impl OpenEvent {
    /// The signals of its descriptor stop.
    fn stop_signals(&self) {
        if let Some(end) = self.served.kept() {
            // A pipe that is there has flags.
            let _ = signal::stop_delivery(end);
        }
    }
}

impl Descriptors<Machine> for Open {
    fn served(&mut self, event: EventKey) -> Option<&mut Served> {
        self.0.get_mut(&event).map(|event| &mut event.served)
    }

    fn hanging_up(&mut self, event: EventKey) {
        self.0.get(&event).into_iter().for_each(OpenEvent::stop_signals);
    }
}

impl Answers for Machine {
    fn take_effects(&mut self) -> Vec<Effect> {
        self.carry_out();
        self.told.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn poll(&mut self, event: EventKey) -> PollFlags {
        self.engine.poll(event)
    }

    fn has_hung_up(&self, event: EventKey) -> bool {
        self.engine.has_hung_up(event)
    }

    fn is_over(&self, event: EventKey) -> bool {
        self.engine.is_over(event)
    }
}

/// Memory of rings that others can map.
#[derive(Debug)]
struct Mappable(Arc<Mutex<Given>>);

impl Allocate for Mappable {
    fn allocate(&mut self, bytes: usize) -> Result<Arc<dyn Memory>, Errno> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).allocate(bytes)
    }
}

impl SimKernel {
    /// A machine with its tasks. It stands still when all have ended. Its rings can be mapped where its pages are as
    /// [large](Setup::page_bytes) as those of this process.
    pub fn new(mut machine: Machine) -> Self {
        let given = Arc::default();
        machine.told = Some(Vec::new());
        machine.world.memory = Box::new(Mappable(Arc::clone(&given)));
        let state = State {
            machine,
            open: Open::default(),
            given,
            script: VecDeque::new(),
            ends_at: None,
            latency_ns: 0,
            failed: Vec::new(),
        };
        SimKernel {
            state: Mutex::new(state),
            began: Instant::now(),
            support: OnceLock::new(),
            cgroups: BTreeMap::new(),
        }
    }

    /// The machine of a scenario, its tasks, and what happens to both: what stands before the first `run` has happened, the
    /// rest comes in its time, and after the last `run` the machine stands still. The events of the scenario, and what is
    /// expected and shown of them, are left out.
    pub fn of(scenario: &Scenario) -> Self {
        let setup = Setup { page_bytes: page_size(), ..scenario.setup.clone() };
        let mut kernel = Self::new(scenario::machine(scenario, setup));
        for (place, (name, _)) in scenario.cgroups.iter().enumerate() {
            kernel = kernel.with_cgroup(name, scenario::cgroup_id(place));
        }
        let tasks = Arc::new(Mutex::new(BTreeMap::new()));
        let mut now = 0;
        for Line { number, statement } in &scenario.statements {
            let number = *number;
            match statement {
                Statement::Run(ns) => now += ns,
                Statement::Start { program, name } => {
                    let (program, name, tasks) = (program.clone(), name.clone(), tasks.clone());
                    kernel.add(now, move |machine| {
                        let task = machine.spawn(&program).ok_or("there are too many tasks")?;
                        lock(&tasks).insert(name, task);
                        Ok(())
                    });
                }
                Statement::Do { at, action, fails } => {
                    let (action, fails, tasks) = (action.clone(), *fails, tasks.clone());
                    kernel.add(at.unwrap_or(now), move |machine| {
                        let told = |problem: String| format!("line {number}: {problem}");
                        act(machine, &lock(&tasks), &action, fails).map_err(told)
                    });
                }
                Statement::Open(_) | Statement::Expect(_) | Statement::Show(_) => {}
            }
        }
        let mut state = kernel.state();
        state.ends_at = (now > 0).then_some(now);
        state.act();
        drop(state);
        kernel
    }

    /// Its cgroup of this number has a name.
    #[must_use]
    pub fn with_cgroup(mut self, name: &str, cgroup: CgroupId) -> Self {
        // Any descriptor will do: this process can have no other of the same number.
        if let Ok((descriptor, _)) = pipe::nonblocking(true) {
            self.state().machine.world.cgroups.insert(descriptor.as_raw_fd(), cgroup);
            self.cgroups.insert(name.to_owned(), Cgroup::of(name, descriptor));
        }
        self
    }

    /// Those who wait run so long after they were woken: rings fill up meanwhile.
    #[must_use]
    pub fn with_latency(self, ns: u64) -> Self {
        self.state().latency_ns = ns;
        self
    }

    /// At a time of the machine, in nanoseconds, this is done.
    #[must_use]
    pub fn at(self, ns: u64, action: impl FnOnce(&mut Machine) + Send + 'static) -> Self {
        self.add(ns, |machine| {
            action(machine);
            Ok(())
        });
        self
    }

    /// Lets time pass.
    pub fn run_for(&self, ns: u64) {
        let mut state = self.state();
        let end = state.machine.now().saturating_add(ns);
        state.run_through(end);
    }

    /// Looks at the machine, or does something to it.
    pub fn with_machine<T>(&self, look: impl FnOnce(&mut Machine) -> T) -> T {
        let mut state = self.state();
        let seen = look(&mut state.machine);
        state.finish();
        seen
    }

    fn add(&self, at: u64, action: impl FnOnce(&mut Machine) -> Result<(), String> + Send + 'static) {
        let script = &mut self.state().script;
        let place = script.partition_point(|other| other.at <= at);
        script.insert(place, Scripted { at, action: Box::new(action) });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn open(&self, attr: &mut Vec<u8>, arguments: OpenArguments) -> Result<OwnedFd, Errno> {
        let (served, reading) = Served::new(arguments.flags.contains(OpenFlags::FD_CLOEXEC))?;
        let mut state = self.state();
        let event = state.machine.open_event(OUTSIDE, attr, arguments)?;
        state.machine.world.descriptors.insert(reading.as_raw_fd(), event);
        state.open.0.insert(event, OpenEvent { served, mappings: 0, aux_mappings: 0 });
        state.settle(event);
        state.finish();
        Ok(reading)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does what a scenario says about its machine; actions on its events are left out.
fn act(
    machine: &mut Machine,
    tasks: &BTreeMap<String, TaskId>,
    action: &Action,
    fails: Option<Errno>,
) -> Result<(), String> {
    let done = scenario::act_on_machine(machine, tasks, action);
    match (done.transpose()?, fails) {
        (None, _) | (Some(Ok(())), None) => Ok(()),
        (Some(Ok(())), Some(errno)) => Err(format!("it was done; it should have failed: {errno}")),
        (Some(Err(found)), Some(errno)) if found == errno => Ok(()),
        (Some(Err(found)), _) => Err(format!("it failed: {found}")),
    }
}

impl State {
    /// Carries out what a call has brought about.
    fn finish(&mut self) {
        served::carry_out(&mut self.machine, &mut self.open);
    }

    /// Something that decides whether an event hangs up has changed.
    fn settle(&mut self, event: EventKey) {
        served::settle(&self.machine, &mut self.open, event);
    }

    /// Does what is due; whether there was any.
    fn act(&mut self) -> bool {
        let mut any = false;
        while self.script.front().is_some_and(|next| next.at <= self.machine.now()) {
            if let Some(Scripted { action, .. }) = self.script.pop_front() {
                self.failed.extend(action(&mut self.machine).err());
                any = true;
            }
        }
        self.finish();
        any
    }

    /// Whether nothing will happen any more.
    fn is_over(&self) -> bool {
        let has_ended = match self.ends_at {
            Some(end) => self.machine.now() >= end,
            None => self.script.is_empty() && !self.machine.has_tasks(),
        };
        has_ended || self.machine.is_exhausted()
    }

    /// Runs until a time, or until something was done outside; whether it was.
    fn run(&mut self, end: u64) -> bool {
        loop {
            let end = self.ends_at.map_or(end, |last| last.min(end));
            let stop = self.script.front().map_or(end, |next| next.at.clamp(self.machine.now(), end));
            self.machine.run_until_told(stop);
            let is_told = self.machine.told.as_ref().is_some_and(|told| !told.is_empty());
            self.finish();
            if is_told || self.machine.now() >= stop && self.act() {
                return true;
            }
            if self.machine.now() >= end || self.is_over() {
                return false;
            }
        }
    }

    /// Runs until a time.
    fn run_through(&mut self, end: u64) {
        while self.machine.now() < end && !self.is_over() {
            self.run(end);
        }
    }

    fn event(&self, fd: BorrowedFd<'_>) -> Result<EventKey, Errno> {
        self.machine.event(fd.as_raw_fd()).ok_or(Errno::EBADF)
    }
}

impl Kernel for SimKernel {
    fn name(&self) -> &str {
        "simulated"
    }

    fn facts(&self) -> KernelFacts {
        KernelFacts::simulated()
    }

    fn surroundings(&self) -> &dyn Surroundings {
        self
    }

    fn perf_event_open(
        &self,
        attr: &mut Attr,
        pid: i32,
        cpu: i32,
        group: Option<BorrowedFd<'_>>,
        flags: OpenFlags,
    ) -> Result<OwnedFd, Errno> {
        let mut bytes = Vec::new();
        attr.layout(&mut Writer::new(&mut bytes, ByteOrder::NATIVE)).map_err(|_| Errno::EINVAL)?;
        let group_fd = group.map_or(-1, |fd| fd.as_raw_fd());
        let opened = self.open(&mut bytes, OpenArguments { pid, cpu, group_fd, flags });
        // On E2BIG the size that is known stands there (rule A4).
        attr.size = Attr::peek(&bytes, ByteOrder::NATIVE).size;
        opened
    }

    fn perf_event_open_bytes(&self, attr: &mut [u8], pid: i32, cpu: i32) -> Result<OwnedFd, Errno> {
        let mut bytes = attr.to_vec();
        let arguments = OpenArguments { pid, cpu, group_fd: -1, flags: OpenFlags::FD_CLOEXEC };
        let opened = self.open(&mut bytes, arguments);
        attr.copy_from_slice(&bytes);
        opened
    }

    fn read(&self, event: BorrowedFd<'_>, words: &mut [u64]) -> Result<usize, Errno> {
        let mut state = self.state();
        let event = state.event(event)?;
        let (mut bytes, now) = (Vec::new(), state.machine.now());
        state.machine.engine.read(event, now, size_of_val(words), &mut bytes)?;
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(size_of::<u64>())) {
            *word = u64::from_ne_bytes(bytes.try_into().map_err(|_| Errno::EFAULT)?);
        }
        Ok(bytes.len() / size_of::<u64>())
    }

    fn ioctl(&self, event: BorrowedFd<'_>, request: Request<'_>) -> Result<u64, Errno> {
        let mut state = self.state();
        let key = state.event(event)?;
        let group = |flags: IocFlags| flags.contains(IocFlags::GROUP);
        let mut attr = Vec::new();
        let mut memory;
        let ioctl = match request {
            Request::Enable(flags) => Ioctl::Enable { group: group(flags) },
            Request::Disable(flags) => Ioctl::Disable { group: group(flags) },
            Request::Reset(flags) => Ioctl::Reset { group: group(flags) },
            Request::Refresh(overflows) => Ioctl::Refresh(overflows),
            Request::Period(period) => Ioctl::Period(period),
            Request::SetOutput(None) => Ioctl::SetOutput(None),
            // Linux answers EINVAL where that is no event (rule G30).
            Request::SetOutput(Some(target)) => {
                Ioctl::SetOutput(Some(state.event(target).map_err(|_| Errno::EINVAL)?))
            }
            Request::SetFilter(filter) => Ioctl::SetFilter(filter.to_str().map_err(|_| Errno::EINVAL)?),
            Request::Id => Ioctl::Id,
            Request::PauseOutput(pause) => Ioctl::PauseOutput(pause),
            Request::ModifyAttributes(wanted) => {
                let mut wanted = *wanted;
                wanted.layout(&mut Writer::new(&mut attr, ByteOrder::NATIVE)).map_err(|_| Errno::EINVAL)?;
                memory = AttrMemory(&mut attr);
                Ioctl::ModifyAttributes(&mut memory)
            }
            // There are no programs (rule K1).
            _ => return Err(Errno::EINVAL),
        };
        let answer = state.machine.ioctl(event.as_raw_fd(), ioctl);
        state.settle(key);
        state.finish();
        answer
    }

    fn mmap(
        &self,
        event: BorrowedFd<'_>,
        len: usize,
        protection: Protection,
        offset: u64,
    ) -> Result<Mapping, Errno> {
        let mut state = self.state();
        let (key, fd) = (state.event(event)?, event.as_raw_fd());
        let (pages, writable) = (len.div_ceil(page_size()), protection == Protection::ReadWrite);
        let request = MapRequest { pages, offset, shared: true, writable };
        if state.machine.setup().page_bytes != page_size() {
            return Err(Errno::EINVAL);
        }
        let memory = state.machine.map_memory(OUTSIDE, fd, request)?;
        let shared = lock(&state.given).shared(&memory);
        let mapped =
            shared.ok_or(Errno::ENOMEM).and_then(|shared| Mapping::new(shared.as_fd(), len, protection, 0));
        if let (Ok(_), Some(open)) = (&mapped, state.open.0.get_mut(&key)) {
            open.mappings += usize::from(offset == 0);
            open.aux_mappings += usize::from(offset != 0);
        }
        if mapped.is_err() {
            // It was mapped a moment ago.
            let _ = if offset == 0 { state.machine.unmap(fd) } else { state.machine.unmap_aux(fd) };
        }
        state.settle(key);
        state.finish();
        mapped
    }

    fn prctl(&self, enable: bool) -> Result<(), Errno> {
        let mut state = self.state();
        state.machine.prctl(OUTSIDE, enable);
        state.finish();
        Ok(())
    }

    fn acknowledge(&self, event: BorrowedFd<'_>) {
        let mut state = self.state();
        if let Some(served) = state.event(event).ok().and_then(|key| state.open.served(key)) {
            served.acknowledge(event);
        }
    }

    fn deliver_signal(&self, event: BorrowedFd<'_>, owner: SignalOwner, signal: i32) -> Result<(), Errno> {
        let mut state = self.state();
        let key = state.event(event)?;
        let end = event.try_clone_to_owned().map_err(|_| Errno::EMFILE)?;
        signal::deliver(event, owner, signal)?;
        if let Some(served) = state.open.served(key) {
            served.keep(end);
            served.set_asynchronous(true);
        }
        state.machine.engine.set_async(key, true);
        state.settle(key);
        Ok(())
    }

    fn close(&self, event: OwnedFd) {
        let mut state = self.state();
        let fd = event.as_raw_fd();
        let open = state.event(event.as_fd()).ok().and_then(|key| state.open.0.remove(&key));
        if let Some(open) = open {
            open.stop_signals();
            // All of these are there.
            for _ in 0..open.aux_mappings {
                let _ = state.machine.unmap_aux(fd);
            }
            for _ in 0..open.mappings {
                let _ = state.machine.unmap(fd);
            }
            let _ = state.machine.close(fd);
            state.finish();
        }
    }

    fn take_notices(&self) -> Vec<Notice> {
        self.state().failed.drain(..).map(Notice::Words).collect()
    }

    fn support(&self) -> &Support {
        self.support.get_or_init(|| Support::probe(self))
    }

    fn explain(&self, call: &Call, _subject: Option<&Subject>, errno: Errno) -> Option<Diagnosis> {
        let Call::Open { attr, leader, .. } = call else { return None };
        let hardware = [EventType::HARDWARE, EventType::HW_CACHE, EventType::RAW].contains(&attr.type_);
        let (cause, text) = match errno {
            Errno::ENOENT if hardware && self.state().machine.setup().pmu.is_none() => {
                (Cause::NoHardwarePmu, "the simulated machine has no PMU")
            }
            Errno::ENOENT => (Cause::UnknownEvent, "the simulated machine has no such event"),
            Errno::ESRCH => (Cause::NoSuchTask, "the simulated machine has no such task"),
            Errno::EACCES => (Cause::ParanoidKernel, "the simulated machine does not let this user"),
            Errno::EINVAL if leader.is_some() => (Cause::Group, "its group would not fit on the PMU"),
            _ => return None,
        };
        Some(Diagnosis::new(cause, text))
    }
}

impl State {
    /// Waits for the descriptors: time passes up to a moment of the machine.
    fn poll(
        &mut self,
        fds: &[BorrowedFd<'_>],
        deadline: u64,
    ) -> Result<Vec<perfuse::kernel::Readiness>, Errno> {
        /// Descriptors that are none of the machine's are looked at so often.
        const LOOK_EVERY_NS: u64 = 100_000_000;
        loop {
            let found = perfuse_sys::poll::poll(fds, Some(Duration::ZERO))?;
            let now = self.machine.now();
            if now >= deadline || self.is_over() || found.iter().any(|found| found.any()) {
                return Ok(found);
            }
            if self.run(deadline.min(now + LOOK_EVERY_NS)) {
                self.run_through((self.machine.now() + self.latency_ns).min(deadline));
            }
        }
    }
}
