//! The embedded kernel: `perf_event_open(2)` served in this process by perfuse's own implementation of the
//! subsystem, by `ptrace(2)`, `/proc` and the clocks. For places where Linux refuses.
//!
//! An event's descriptor is the reading end of a pipe, [served](perfuse_live::served) as it is to tools whose calls are
//! intercepted. Rings are memfds. Calls of the measuring threads are done on those threads, behind one mutex; only what
//! ptrace has to do is done by a thread of its own, which is started when the first other process is to be
//! measured.

mod explain;
mod supervisor;

use crate::SignalOwner;
use crate::call::{Call, Subject};
use crate::diagnosis::Diagnosis;
use crate::kernel::{Kernel, KernelFacts, Mapping, Notice, Protection, Request, Wrap};
use crate::support::Support;
use perfuse_abi::wire::{Layout, Writer};
use perfuse_abi::{Attr, AttrFlags, ByteOrder, EventType, IocFlags, OpenFlags, Software};
use perfuse_live::engine::{AttrMemory, EventKey, Ioctl, MapRequest, OpenArguments};
use perfuse_live::machine::{Machine, Rights, Settings};
use perfuse_live::proc;
use perfuse_live::served::{self, Descriptors, Served};
use perfuse_sys::{Errno, page_size, signal};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

pub use perfuse_live::call_texts;
pub(crate) use perfuse_live::tracepoints::{
    ASLEEP, define as define_tracepoint, own as tracepoints, own_format as format_of_tracepoint,
};
pub(crate) use supervisor::{ended, wait_for_end};

/// Whether there is memory for rings: not where a sandbox refuses `memfd_create(2)`.
pub(crate) fn ring_memory() -> Result<(), Errno> {
    perfuse_live::memory::can_be_had()
}

/// The embedded kernel: see [`Perf::embedded`](crate::Perf::embedded), which also tells what it changes in its process.
#[derive(Debug)]
pub(crate) struct Embedded {
    machine: Arc<Mutex<Machine>>,
    files: Arc<Files>,
    supervisor: Mutex<Option<supervisor::Link>>,
    support: OnceLock<Support>,
}

/// The embedded kernel, shared by all who use it: a process has one tracer for each of those that it measures.
pub(crate) fn embedded() -> Option<Arc<dyn Kernel>> {
    Some(instance().clone())
}

/// The same, which counts `instructions:u` by single steps.
pub(crate) fn stepping() -> Option<Arc<dyn Kernel>> {
    Some(Arc::new(Stepping(instance().clone())))
}

fn instance() -> &'static Arc<Embedded> {
    static EMBEDDED: OnceLock<Arc<Embedded>> = OnceLock::new();
    EMBEDDED.get_or_init(Arc::default)
}

/// The embedded kernel for those who want instructions counted by single steps.
#[derive(Debug)]
struct Stepping(Arc<Embedded>);

impl Wrap for Stepping {
    fn inner(&self) -> &dyn Kernel {
        &*self.0
    }

    fn perf_event_open(
        &self,
        attr: &mut Attr,
        pid: i32,
        cpu: i32,
        group: Option<BorrowedFd<'_>>,
        flags: OpenFlags,
    ) -> Result<OwnedFd, Errno> {
        self.0.open_attr(attr, (pid, cpu), group, flags, true)
    }
}

impl Default for Embedded {
    fn default() -> Self {
        Embedded {
            machine: Arc::new(Mutex::new(Machine::new(Settings::default()))),
            files: Arc::default(),
            supervisor: Mutex::default(),
            support: OnceLock::new(),
        }
    }
}

/// The open events, locked after the machine where both are locked.
#[derive(Debug, Default)]
struct Files(Mutex<Open>);

/// The open events, and their keys by the numbers of their descriptors.
#[derive(Debug, Default)]
struct Open {
    numbers: HashMap<RawFd, EventKey>,
    events: BTreeMap<EventKey, OpenEvent>,
}

/// An open event.
#[derive(Debug)]
struct OpenEvent {
    served: Served,
    mappings: usize,
}

impl Files {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, fd: BorrowedFd<'_>) -> Result<EventKey, Errno> {
        self.lock().numbers.get(&fd.as_raw_fd()).copied().ok_or(Errno::EBADF)
    }

    /// Carries out the effects of the machine.
    fn carry_out(&self, machine: &mut Machine) {
        served::carry_out(machine, &mut *self.lock());
    }

    /// Something that decides whether an event hangs up has changed.
    fn settle(&self, machine: &Machine, event: EventKey) {
        served::settle(machine, &mut *self.lock(), event);
    }
}

impl Open {
    /// Removes the event of a descriptor that is closed.
    fn remove(&mut self, fd: BorrowedFd<'_>) -> Option<(EventKey, OpenEvent)> {
        let key = self.numbers.remove(&fd.as_raw_fd())?;
        self.events.remove(&key).map(|event| (key, event))
    }
}

impl OpenEvent {
    /// The signals of its descriptor stop.
    fn stop_signals(&self) {
        if let Some(end) = self.served.kept() {
            // A pipe that is there has flags.
            let _ = signal::stop_delivery(end);
        }
    }
}

impl Descriptors for Open {
    fn served(&mut self, event: EventKey) -> Option<&mut Served> {
        self.events.get_mut(&event).map(|event| &mut event.served)
    }

    fn hanging_up(&mut self, event: EventKey) {
        self.events.get(&event).into_iter().for_each(OpenEvent::stop_signals);
    }
}

/// Why a thread cannot be looked at.
fn unseen() -> Errno {
    let failed = std::fs::File::open("/proc/self/status").err().and_then(|error| error.raw_os_error());
    let out_of_descriptors = failed.filter(|errno| [Errno::EMFILE.0, Errno::ENFILE.0].contains(errno));
    out_of_descriptors.map_or(Errno::ESRCH, Errno)
}

impl Embedded {
    fn machine(&self) -> MutexGuard<'_, Machine> {
        let mut machine = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
        machine.call_begins();
        machine
    }

    /// After a call: carries out its effects, and sets ticks for samples.
    fn finish(&self, machine: MutexGuard<'_, Machine>) {
        self.finish_with(machine, false);
    }

    /// The same; `ends`: there is no event any more.
    fn finish_with(&self, mut machine: MutexGuard<'_, Machine>, ends: bool) {
        self.files.carry_out(&mut machine);
        let changed = machine.period_has_changed();
        let probes = machine.probes_have_changed() || machine.steps_have_changed();
        let watches = machine.watches_have_changed() || probes;
        machine.forget_own_work();
        drop(machine);
        if changed || watches || ends {
            let link = self.supervisor.lock().unwrap_or_else(PoisonError::into_inner);
            if changed {
                link.iter().for_each(supervisor::Link::follow_ticks);
            }
            if watches || ends {
                link.iter().for_each(|link| link.follow_watches(ends));
            }
        }
    }

    /// A thread is to be measured: it has to be known, and one of another process traced.
    fn meet(&self, tid: i32, inherit: bool) -> Result<(), Errno> {
        let own = std::process::id() as i32;
        let pid = if tid == 0 { own } else { proc::process_of(tid).ok_or_else(unseen)? };
        if pid == own {
            // To follow its children, it would have to trace itself.
            if inherit {
                return Err(Errno::EOPNOTSUPP);
            }
            let tid = if tid == 0 { proc::own_tid() } else { tid };
            return self.machine().adopt(pid, tid).map(drop).ok_or_else(unseen);
        }
        let mut link = self.supervisor.lock().unwrap_or_else(PoisonError::into_inner);
        if link.is_none() {
            *link = Some(supervisor::start(self.machine.clone(), self.files.clone())?);
        }
        link.as_ref().map_or(Err(Errno::EAGAIN), |link| link.seize(pid, tid))
    }

    fn open(
        &self,
        attr: &mut Vec<u8>,
        arguments: OpenArguments,
        group: Option<EventKey>,
        steps: bool,
    ) -> Result<OwnedFd, Errno> {
        let Attr { type_, config, sample_period, flags, .. } = Attr::peek(attr, ByteOrder::NATIVE);
        let is_clock = type_ == EventType::SOFTWARE
            && [Software::CPU_CLOCK, Software::TASK_CLOCK].contains(&Software(config));
        if arguments.flags.contains(OpenFlags::PID_CGROUP) {
            return Err(Errno::EACCES);
        }
        // Signals of events are sent where calls are intercepted.
        if flags.contains(AttrFlags::SIGTRAP) {
            return Err(Errno::EOPNOTSUPP);
        }
        if arguments.pid >= 0 {
            self.meet(arguments.pid, flags.contains(AttrFlags::INHERIT))?;
            let own =
                arguments.pid == 0 || proc::process_of(arguments.pid) == Some(std::process::id() as i32);
            // Our own threads cannot be interrupted.
            if own && sample_period != 0 && is_clock {
                return Err(Errno::EOPNOTSUPP);
            }
        }
        let (served, reading) = Served::new(arguments.flags.contains(OpenFlags::FD_CLOEXEC))?;
        let mut machine = self.machine();
        let caller = machine.adopt_caller();
        machine.step_for_instructions(steps);
        let key = machine.open(caller, attr, arguments, group, Rights::OWN)?;
        {
            let mut files = self.files.lock();
            files.numbers.insert(reading.as_raw_fd(), key);
            files.events.insert(key, OpenEvent { served, mappings: 0 });
        }
        self.files.settle(&machine, key);
        self.finish(machine);
        Ok(reading)
    }

    /// Opens an event; `steps`: instructions are counted by single steps, as [`Event::single_step`](crate::Event::single_step)
    /// always is.
    fn open_attr(
        &self,
        attr: &mut Attr,
        (pid, cpu): (i32, i32),
        group: Option<BorrowedFd<'_>>,
        flags: OpenFlags,
        steps: bool,
    ) -> Result<OwnedFd, Errno> {
        let mut bytes = Vec::new();
        attr.layout(&mut Writer::new(&mut bytes, ByteOrder::NATIVE)).map_err(|_| Errno::EINVAL)?;
        let group_key = group.map(|fd| self.files.key(fd)).transpose()?;
        let group_fd = group.map_or(-1, |fd| fd.as_raw_fd());
        let arguments = OpenArguments { pid, cpu, group_fd, flags };
        let opened = self.open(&mut bytes, arguments, group_key, steps);
        // On E2BIG the size that is known stands there (rule A4).
        attr.size = Attr::peek(&bytes, ByteOrder::NATIVE).size;
        opened
    }
}

impl Kernel for Embedded {
    fn name(&self) -> &str {
        "perfuse"
    }

    fn facts(&self) -> KernelFacts {
        KernelFacts::embedded()
    }

    fn perf_event_open(
        &self,
        attr: &mut Attr,
        pid: i32,
        cpu: i32,
        group: Option<BorrowedFd<'_>>,
        flags: OpenFlags,
    ) -> Result<OwnedFd, Errno> {
        self.open_attr(attr, (pid, cpu), group, flags, false)
    }

    fn perf_event_open_bytes(&self, attr: &mut [u8], pid: i32, cpu: i32) -> Result<OwnedFd, Errno> {
        let mut bytes = attr.to_vec();
        let arguments = OpenArguments { pid, cpu, group_fd: -1, flags: OpenFlags::FD_CLOEXEC };
        let opened = self.open(&mut bytes, arguments, None, false);
        attr.copy_from_slice(&bytes);
        opened
    }

    fn read(&self, event: BorrowedFd<'_>, words: &mut [u64]) -> Result<usize, Errno> {
        let key = self.files.key(event)?;
        let mut bytes = Vec::new();
        let mut machine = self.machine();
        let read = machine.read(key, size_of_val(words), &mut bytes);
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().map_err(|_| Errno::EFAULT)?);
        }
        machine.forget_own_work();
        read.map(|()| bytes.len() / size_of::<u64>())
    }

    fn ioctl(&self, event: BorrowedFd<'_>, request: Request<'_>) -> Result<u64, Errno> {
        let key = self.files.key(event)?;
        let group = |flags: IocFlags| flags.contains(IocFlags::GROUP);
        let mut attr = Vec::new();
        let mut memory;
        let text;
        let ioctl = match request {
            Request::Enable(flags) => Ioctl::Enable { group: group(flags) },
            Request::Disable(flags) => Ioctl::Disable { group: group(flags) },
            Request::Reset(flags) => Ioctl::Reset { group: group(flags) },
            Request::Refresh(overflows) => Ioctl::Refresh(overflows),
            Request::Period(period) => Ioctl::Period(period),
            Request::SetOutput(None) => Ioctl::SetOutput(None),
            Request::SetOutput(Some(target)) => {
                // Linux answers EINVAL where that is no event (rule G30).
                Ioctl::SetOutput(Some(self.files.key(target).map_err(|_| Errno::EINVAL)?))
            }
            Request::SetFilter(filter) => {
                text = filter.to_str().map_err(|_| Errno::EINVAL)?;
                Ioctl::SetFilter(text)
            }
            Request::Id => Ioctl::Id,
            Request::PauseOutput(pause) => Ioctl::PauseOutput(pause),
            // There are no tracepoints, and no programs (rule K1).
            Request::SetBpf(_) | Request::QueryBpf(_) => return Err(Errno::EINVAL),
            Request::ModifyAttributes(wanted) => {
                wanted
                    .clone()
                    .layout(&mut Writer::new(&mut attr, ByteOrder::NATIVE))
                    .map_err(|_| Errno::EINVAL)?;
                memory = AttrMemory(&mut attr);
                Ioctl::ModifyAttributes(&mut memory)
            }
        };
        let mut machine = self.machine();
        let caller = machine.adopt_caller();
        let answer = machine.ioctl(caller, key, ioctl);
        self.files.settle(&machine, key);
        self.finish(machine);
        answer
    }

    fn mmap(
        &self,
        event: BorrowedFd<'_>,
        len: usize,
        protection: Protection,
        offset: u64,
    ) -> Result<Mapping, Errno> {
        let key = self.files.key(event)?;
        let mut machine = self.machine();
        let caller = machine.adopt_caller();
        let pages = len.div_ceil(page_size());
        let writable = protection == Protection::ReadWrite;
        let shared = machine.mmap(caller, key, MapRequest { pages, offset, shared: true, writable })?;
        let mapped = Mapping::new(shared.as_fd(), len, protection, 0);
        match &mapped {
            Ok(_) => {
                if let Some(event) = self.files.lock().events.get_mut(&key) {
                    event.mappings += 1;
                }
                self.files.settle(&machine, key);
            }
            Err(_) => machine.munmap(key),
        }
        self.finish(machine);
        mapped
    }

    fn prctl(&self, enable: bool) -> Result<(), Errno> {
        let mut machine = self.machine();
        let caller = machine.adopt_caller();
        machine.prctl(caller, enable);
        self.finish(machine);
        Ok(())
    }

    fn acknowledge(&self, event: BorrowedFd<'_>) {
        let mut files = self.files.lock();
        let key = files.numbers.get(&event.as_raw_fd()).copied();
        if let Some(served) = key.and_then(|key| files.served(key)) {
            served.acknowledge(event);
        }
    }

    fn deliver_signal(&self, event: BorrowedFd<'_>, owner: SignalOwner, signal: i32) -> Result<(), Errno> {
        let key = self.files.key(event)?;
        let end = event.try_clone_to_owned().map_err(|_| Errno::EMFILE)?;
        signal::deliver(event, owner, signal)?;
        if let Some(served) = self.files.lock().served(key) {
            served.keep(end);
            served.set_asynchronous(true);
        }
        let mut machine = self.machine();
        machine.set_async(key, true);
        self.files.settle(&machine, key);
        Ok(())
    }

    fn close(&self, event: OwnedFd) {
        let mut files = self.files.lock();
        let (open, ends) = (files.remove(event.as_fd()), files.numbers.is_empty());
        drop(files);
        if let Some((key, open)) = open {
            open.stop_signals();
            let mut machine = self.machine();
            (0..open.mappings).for_each(|_| machine.munmap(key));
            machine.close(key);
            self.finish_with(machine, ends);
        }
    }

    fn births(&self) -> u64 {
        self.machine().births()
    }

    fn take_notices(&self) -> Vec<Notice> {
        let deprived = self.machine().take_deprived().into_iter().map(Notice::Deprived);
        deprived.chain(perfuse_live::supervisor::take_unguarded().then_some(Notice::Unguarded)).collect()
    }

    fn support(&self) -> &Support {
        self.support.get_or_init(|| Support::probe(self))
    }

    fn explain(&self, call: &Call, _subject: Option<&Subject>, errno: Errno) -> Option<Diagnosis> {
        explain::explain(call, errno)
    }
}
