//! `perf_event_open(2)` for unmodified tools: their system calls about events are stopped and answered by
//! the [machine](crate::machine).
//!
//! A tool is started with a seccomp `filter` that stops its `perf_event_open`. Once it opens an event, a
//! second one stops its calls about descriptors of events, which get high numbers so that the filter knows
//! them. The programs that it then measures were mostly started before, and pay nothing for their calls.
//!
//! - `files`: which process has which event open under which number. Its pipes are [served](crate::served).
//! - `inject`: system calls that the tool does for us.
//! - `fd_passing`: how descriptors get into tools that cannot open them; `rights`: the rights of tools over others.
//! - `ending`: signals that ask for the end.
//! - `calls`: the answers, one function a call; `bpf`: those of `bpf(2)`.
//! - `tracers`: programs that trace others.
//! - `listener`: calls that wait for their answers instead of being stopped, which costs half.
//! - here: the lives of processes, and the effects of the engine.
//!
//! # Limits
//!
//! Events that were passed to another process through a
//! socket. A tool that blocks or ignores SIGSYS where `perf_event_open` has to be stopped by that
//! signal, in a container, finds it unblocked and with its default action.

mod bpf;
mod calls;
mod ending;
mod fd_passing;
mod files;
mod filter;
mod inject;
mod launch;
mod listener;
mod note;
mod rights;
mod rings;
mod tracefs;
mod tracers;

use crate::machine::Machine;
use crate::proc::{self, Namespace};
use crate::ptrace::{self, Resume, SignalInfo, Tid};
use crate::regs::Registers;
use crate::served::{Descriptors, Served, carry_out};
use crate::supervisor::{Front, Next, Supervisor};
use crate::width::Width;
use ending::EndRequest;
use files::{File, Files, MappedRing, Table};
pub use filter::Means;
use inject::{Injector, Remains};
pub use launch::{Error, Options, run};
use listener::Listeners;
pub use note::{Note, OnNote, Untraceable};
use perfuse_abi::Errno;
use perfuse_engine::{EventKey, Notice, Trap};
use perfuse_sys::process::{self, Usage};
use perfuse_sys::{limits, signal};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tracers::TraceRequest;

/// A [`Front`] that serves a tool, and all that it starts.
#[derive(Debug)]
pub struct Intercept {
    tool: Tid,
    means: Means,
    /// Descriptors of events have numbers from here on.
    first: i32,
    table: Table,
    processes: HashMap<Tid, Process>,
    /// The process of each thread.
    threads: HashMap<Tid, Tid>,
    /// The events that threads waited for by the last call that was heard of.
    waits: HashMap<Tid, Wait>,
    /// Events that threads are about to close.
    closing: HashMap<Tid, Vec<files::OpenEvent>>,
    /// Signals that were sent to threads which ran into an event, and their details.
    sent: Vec<SentTrap>,
    /// Signals that pipes send as they are hung up, and events do not: those that are to be dropped.
    unwanted: Vec<UnwantedSignal>,
    /// Whether the tool has its filter.
    prepared: Option<Result<(), Errno>>,
    ended: Option<i32>,
    /// The request to end, if there is one.
    end_request: Arc<EndRequest>,
    /// Those of filters, where they can be had.
    listeners: Option<Listeners>,
    own: Weak<Mutex<Intercept>>,
    /// How many filters this process has, which the tool has too.
    filters_here: Option<usize>,
    on_note: OnNote,
    told_of_switches: bool,
    /// Events of whole cpus were refused, and no other has been opened since.
    lacks_cpus: bool,
    told_of_shortness: bool,
    told_of_unreachable: bool,
    told_of_rings: bool,
    told_of_kept: bool,
    told_of_traced_elsewhere: bool,
    /// Threads that want to trace others, and are not done with it.
    trace_requests: HashMap<Tid, TraceRequest>,
    /// Threads in a clone with `CLONE_UNTRACED`, and its flags.
    cloning: HashMap<Tid, u64>,
    /// Processes that were not the tool's to measure, of which it has been told.
    untraceable: BTreeSet<Tid>,
    /// Of the tool's objects of `bpf(2)`.
    objects: bpf::Objects,
}

/// An [`Intercept`], which the threads that listen to filters use too. The machine is locked after it.
#[derive(Clone, Debug)]
pub struct Shared(Arc<Mutex<Intercept>>);

impl Shared {
    /// For a tool that `supervisor` traces.
    pub fn new(intercept: Intercept, supervisor: &Supervisor) -> Self {
        let own = Arc::new(Mutex::new(intercept));
        {
            let mut intercept = own.lock().unwrap_or_else(PoisonError::into_inner);
            intercept.own = Arc::downgrade(&own);
            // Without them all calls are stopped.
            intercept.listeners = Listeners::new(supervisor.shared().clone(), supervisor.waker()).ok();
        }
        Shared(own)
    }

    /// The one thing.
    pub fn lock(&self) -> MutexGuard<'_, Intercept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Front for Shared {
    fn signal(&mut self, supervisor: &mut Supervisor, tid: Tid, signal: i32) -> Option<Next> {
        self.lock().signal(supervisor, tid, signal)
    }

    fn seccomp(&mut self, supervisor: &mut Supervisor, tid: Tid) -> Next {
        self.lock().seccomp(supervisor, tid)
    }

    fn born(&mut self, supervisor: &mut Supervisor, parent: Tid, child: Tid) {
        self.lock().born(supervisor, parent, child);
    }

    fn exec(&mut self, supervisor: &mut Supervisor, tid: Tid, former: Tid) {
        self.lock().exec(supervisor, tid, former);
    }

    fn syscall(&mut self, supervisor: &mut Supervisor, tid: Tid) -> Next {
        self.lock().syscall(supervisor, tid)
    }

    fn released(&mut self, supervisor: &mut Supervisor, tid: Tid) {
        self.lock().released(supervisor, tid);
    }

    fn taking(&mut self, take: &mut dyn FnMut()) {
        let _lock = self.lock();
        take();
    }

    fn ended(&mut self, supervisor: &mut Supervisor, tid: Tid, status: i32, usage: &Usage) {
        self.lock().ended(supervisor, tid, status, usage);
    }

    fn effects(&mut self, machine: &Mutex<Machine>) {
        self.lock().effects(machine);
    }

    fn between(&mut self, supervisor: &mut Supervisor) -> bool {
        self.lock().between(supervisor)
    }
}

/// A process of the tool.
#[derive(Debug, Default)]
struct Process {
    threads: usize,
    files: Files,
    /// By address.
    rings: BTreeMap<u64, MappedRing>,
    /// The second filter is on it.
    filtered: bool,
    /// Numbers below those of events that a `dup2` gave to one; there is a filter for each.
    low: BTreeSet<i32>,
    /// Whether there is a filter for calls that take paths; `None`: it was not wanted yet.
    hears_of_paths: Option<bool>,
    /// Upper halves of addresses where rings are or were; there is a filter for each.
    watched: BTreeSet<u32>,
    /// Of calls that it has done for us.
    remains: Remains,
    /// Its pid namespace, once that is known, if it is another than this process's.
    namespace: Option<Option<Namespace>>,
    /// The signal by which it has been asked to end; 0: none.
    asked: i32,
}

/// A signal on its way, of an event with `attr.sigtrap`.
#[derive(Clone, Copy, Debug)]
struct SentTrap {
    to: Tid,
    trap: Trap,
    /// The thread blocked the signal, so that it comes later than it should.
    late: bool,
}

/// A call that waits for descriptors.
#[derive(Debug)]
struct Wait {
    /// The number of the call, as its thread made it.
    call: u64,
    events: Vec<EventKey>,
}

impl Wait {
    /// Whether its thread sleeps in it; `None`: it runs, on its way into it or out of it perhaps, or nothing tells.
    fn sleeps(&self, tid: Tid) -> Option<bool> {
        match proc::call_of(tid)? {
            Some(call) if call != self.call => Some(false),
            // One that is stopped in a call begins it again.
            Some(_) => proc::sleeps(tid).then_some(true),
            None => Some(false),
        }
    }
}

/// A signal that is not to come.
#[derive(Clone, Copy, Debug)]
struct UnwantedSignal {
    signal: i32,
    to: Tid,
    process: bool,
}

/// The codes of signals of descriptors, and the `si_band` that Linux sends with the second.
const POLL_IN: i32 = 1;
const POLL_HUP: i32 = 6;
const BAND_HUP: u64 = 0x18;
const SYS_SECCOMP: i32 = 1;

impl Intercept {
    /// For a child of this thread that is held before its exec, and seized with
    /// [`ptrace::TRACESECCOMP`].
    fn new(tool: Tid, means: Means, end_request: Arc<EndRequest>, on_note: OnNote) -> Result<Self, Errno> {
        let first = inject::first_number(limits::open_files()?.soft);
        let process = Process { threads: 1, ..Process::default() };
        Ok(Intercept {
            tool,
            means,
            first,
            table: Table::default(),
            processes: HashMap::from([(tool, process)]),
            threads: HashMap::from([(tool, tool)]),
            waits: HashMap::new(),
            closing: HashMap::new(),
            sent: Vec::new(),
            unwanted: Vec::new(),
            prepared: None,
            ended: None,
            end_request,
            listeners: None,
            own: Weak::new(),
            filters_here: proc::filters_of(proc::own_tid()),
            on_note,
            told_of_switches: false,
            lacks_cpus: false,
            told_of_shortness: false,
            told_of_unreachable: false,
            told_of_rings: false,
            told_of_kept: false,
            told_of_traced_elsewhere: false,
            trace_requests: HashMap::new(),
            cloning: HashMap::new(),
            untraceable: BTreeSet::new(),
            objects: bpf::Objects::default(),
        })
    }

    /// The program of the tool has just been put in place: it gets its filter.
    fn prepare(&mut self) -> Result<(), Errno> {
        inject::finish(self.tool)?;
        let remains = &mut self.processes.entry(self.tool).or_default().remains;
        let mut injector = Injector::of_new_program(self.tool, remains)?;
        injector.renounce_privileges()?;
        injector.install(&filter::for_all(self.means))
    }

    /// A process that the tool may measure, and did not start, is traced from now on, if we can.
    fn attach(&mut self, supervisor: &mut Supervisor, pid: Tid) -> Result<(), Errno> {
        match supervisor.attach(pid) {
            Err(errno) if errno != Errno::ESRCH => {
                self.tell_untraceable(pid, Untraceable::find(pid, errno));
                Err(Errno::EACCES)
            }
            attached => attached,
        }
    }

    fn tell_untraceable(&mut self, pid: Tid, why: Untraceable) {
        if self.untraceable.insert(pid) {
            (self.on_note.0)(&Note::Untraceable { pid, why });
        }
    }

    /// Whether the tool and all that it started have ended, and nothing is left in processes that go on: it would
    /// kill them.
    fn is_over(&self, supervisor: &Supervisor) -> bool {
        self.threads.is_empty() && supervisor.watches_are_settled() && supervisor.probes_are_settled()
    }

    /// Whether the tool could get its filter. One that could not has been killed.
    pub fn prepared(&self) -> Result<(), Errno> {
        self.prepared.unwrap_or(Ok(()))
    }

    /// The wait status of the tool, once it has ended.
    pub fn status(&self) -> Option<i32> {
        self.ended
    }

    /// The process of a thread; an empty one for a thread that is not the tool's.
    fn process(&mut self, tid: Tid) -> &mut Process {
        let pid = self.threads.get(&tid).copied().unwrap_or(tid);
        self.processes.entry(pid).or_default()
    }

    /// Closes what the last descriptor is gone of.
    fn closed(&mut self, supervisor: &Supervisor, files: impl IntoIterator<Item = File>) {
        for file in files {
            match file {
                File::Event(event) => supervisor.machine().close(event),
                File::Bpf(file) => {
                    supervisor.machine().bpf_is_closed(file);
                    self.let_events_go(supervisor);
                }
            }
        }
    }

    /// Its memory is gone, and the rings in it.
    fn unmap_all(&mut self, supervisor: &Supervisor, rings: BTreeMap<u64, MappedRing>) {
        for mapped in rings.into_values() {
            self.unmapped(supervisor, mapped);
        }
    }

    fn unmapped(&mut self, supervisor: &Supervisor, mapped: MappedRing) {
        supervisor.machine().munmap(mapped.event);
        let still = self
            .processes
            .values()
            .any(|process| process.rings.values().any(|ring| ring.event == mapped.event));
        if let (false, Some(open)) = (still, self.table.get(mapped.event)) {
            open.served.set_ring(None);
        }
    }

    /// The signal to a thread that has run into an event that wants it, which is a tracee.
    fn send(&mut self, sent: SentTrap) {
        self.sent.push(sent);
        let pid = self.threads.get(&sent.to).copied().unwrap_or(sent.to);
        if signal::send_to_thread(pid, sent.to, libc::SIGTRAP).is_err() {
            self.sent.pop();
        }
    }

    /// A signal that we sent is told as the kernel would have.
    fn dress(&mut self, supervisor: &Supervisor, tid: Tid) {
        let Some(at) = self.sent.iter().position(|sent| sent.to == tid) else { return };
        let Ok(before) = ptrace::signal_info(tid) else { return };
        if before.code() > 0 || before.sender() != std::process::id() as Tid {
            return;
        }
        let SentTrap { trap, late, .. } = self.sent.remove(at);
        supervisor.machine().trap_delivered(trap.event);
        // The fields of siginfo: number, errno; code; then what depends on the code.
        let mut words = [0u64; 16];
        words[0] = libc::SIGTRAP as u64;
        words[1] = perfuse_abi::ioctl::TRAP_PERF as u64;
        (words[2], words[3]) = (trap.addr, trap.data);
        words[4] = u64::from(trap.type_.0) | u64::from(late) << 32;
        // One that was killed meanwhile needs none.
        let _ = ptrace::set_signal_info(tid, &SignalInfo(words));
    }

    /// The last signal of an event says that no more come, where a pipe always says that there is something.
    fn tell_last(&self, tid: Tid, signal: i32) {
        let Ok(SignalInfo(mut words)) = ptrace::signal_info(tid) else { return };
        let (code, fd) = (words[1] as i32, words[3] as i32);
        let waiting = || ptrace::signals_waiting(tid, signal, fd);
        if code == POLL_IN && self.table.is_last(signal, fd, waiting) {
            words[1] = words[1] >> 32 << 32 | POLL_HUP as u64;
            words[2] = BAND_HUP;
            // One that was killed meanwhile needs none.
            let _ = ptrace::set_signal_info(tid, &SignalInfo(words));
        }
    }

    /// Whether a signal is one that a pipe sent as it was hung up. It is not told.
    fn takes_unwanted(&mut self, tid: Tid, signal: i32) -> bool {
        let pid = self.threads.get(&tid).copied().unwrap_or(tid);
        let is = |own: &UnwantedSignal| own.signal == signal && own.to == if own.process { pid } else { tid };
        let Some(at) = self.unwanted.iter().position(is) else { return false };
        // Those of the kernel; programs send others.
        let takes = ptrace::signal_info(tid).is_ok_and(|info| info.code() > 0);
        if takes {
            self.unwanted.swap_remove(at);
        }
        takes
    }

    /// How the call was made that our filter answered with a SIGSYS; `None`: it is another one.
    fn own_trap(tid: Tid) -> Option<Width> {
        let info = ptrace::signal_info(tid).ok().filter(|info| info.code() == SYS_SECCOMP)?;
        // The errno is the answer's low half.
        filter::width_of(info.errno() as u64)
    }

    /// The kernel forces a SIGSYS that is blocked: unblocks it, and takes the handler away. A program that blocked all
    /// others has most likely blocked this one, too.
    fn block_again(tid: Tid) {
        const NEVER: u64 = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1);
        // Those that C libraries keep for themselves are not in their full sets.
        const INTERNAL: u64 = 7 << 31;
        let own = 1u64 << (libc::SIGSYS - 1);
        if let Ok(mask) = ptrace::signal_mask(tid) {
            if mask | NEVER | INTERNAL | own == u64::MAX && mask & own == 0 {
                let _ = ptrace::set_signal_mask(tid, mask | own);
            }
        }
    }
}

impl Descriptors for Intercept {
    fn served(&mut self, event: EventKey) -> Option<&mut Served> {
        self.table.get(event).map(|open| &mut open.served)
    }

    fn hanging_up(&mut self, event: EventKey) {
        let Some(open) = self.table.get(event) else { return };
        let members = |group| {
            let is_member = |&pid: &Tid| process::group_of(pid) == Ok(group);
            self.processes.keys().copied().filter(is_member).collect()
        };
        self.unwanted.extend(open.unwanted(members));
    }

    fn becoming_ready(&mut self, event: EventKey) -> bool {
        self.hanging_up(event);
        true
    }

    fn is_waited_for(&mut self, event: EventKey) -> Option<bool> {
        let mut all = self.waits.iter().filter(|(_, wait)| wait.events.contains(&event));
        all.try_fold(false, |found, (&tid, wait)| Some(found | wait.sleeps(tid)?))
    }

    /// The kernel has sent it, with the rights of the one who set the owner, in that one's namespace.
    fn has_signalled(&mut self, event: EventKey, notice: Notice) {
        if let Some(open) = self.table.get(event) {
            open.has_signalled(notice != Notice::In);
        }
    }

    fn trap(&mut self, machine: &Machine, trap: Trap) {
        if let Some((_, tid)) = machine.tid_of(trap.task) {
            let late = ptrace::signal_mask(tid).is_ok_and(|blocked| blocked & 1 << (libc::SIGTRAP - 1) != 0);
            self.send(SentTrap { to: tid, trap, late });
        }
    }
}

impl Front for Intercept {
    fn signal(&mut self, supervisor: &mut Supervisor, tid: Tid, signal: i32) -> Option<Next> {
        if signal == libc::SIGSYS && self.means == Means::Trap {
            if let Some(width) = Self::own_trap(tid) {
                Self::block_again(tid);
                // One that was killed meanwhile tells so next.
                let _ = self.trapped(supervisor, tid, width);
                return Some(Next::Go(Resume::Continue(0)));
            }
        }
        if !self.unwanted.is_empty() && self.takes_unwanted(tid, signal) {
            return Some(Next::Go(Resume::Continue(0)));
        }
        if signal == libc::SIGSEGV && self.is_store_to_data(tid) {
            return Some(Next::Go(Resume::Continue(libc::SIGBUS)));
        }
        if signal == libc::SIGTRAP && !self.sent.is_empty() {
            self.dress(supervisor, tid);
        } else if self.table.has_last() {
            self.tell_last(tid, signal);
        }
        None
    }

    fn seccomp(&mut self, supervisor: &mut Supervisor, tid: Tid) -> Next {
        if let Some(width) = ptrace::event_message(tid).ok().and_then(filter::width_of) {
            // One that was killed meanwhile tells so next.
            return self.traced(supervisor, tid, width).unwrap_or(Next::Go(Resume::Continue(0)));
        }
        // A filter of the program's own wants a tracer, which it has not: as Linux has it, the call is not done.
        if let Ok(mut registers) = Registers::of(tid) {
            registers.set_result(-i64::from(libc::ENOSYS));
            let _ = registers.replace_call(tid, None);
        }
        Next::Go(Resume::Continue(0))
    }

    fn syscall(&mut self, supervisor: &mut Supervisor, tid: Tid) -> Next {
        self.has_called(supervisor, tid);
        Next::Go(Resume::Continue(0))
    }

    fn released(&mut self, supervisor: &mut Supervisor, tid: Tid) {
        self.has_been_let_go(supervisor, tid);
    }

    fn born(&mut self, supervisor: &mut Supervisor, parent: Tid, child: Tid) {
        if !self.threads.contains_key(&parent) {
            return;
        }
        self.has_cloned(parent);
        let pid = {
            let machine = supervisor.machine();
            machine.task_of(child).and_then(|task| machine.tid_of(task)).map_or(child, |(pid, _)| pid)
        };
        self.threads.insert(child, pid);
        let maker = self.process(parent);
        if pid != child {
            maker.threads += 1;
            return;
        }
        // Rings are not copied into a child (rule F10).
        let copy = Process {
            threads: 1,
            files: maker.files.clone(),
            rings: BTreeMap::new(),
            filtered: maker.filtered,
            low: maker.low.clone(),
            hears_of_paths: maker.hears_of_paths,
            watched: maker.watched.clone(),
            remains: maker.remains.of_child(),
            namespace: None,
            asked: 0,
        };
        self.table.copied(&copy.files);
        self.processes.insert(pid, copy);
    }

    fn exec(&mut self, supervisor: &mut Supervisor, tid: Tid, former: Tid) {
        if !self.threads.contains_key(&former) {
            return;
        }
        if former != tid {
            self.threads.remove(&former);
        }
        self.threads.insert(tid, tid);
        let others = self.threads.values().filter(|&&pid| pid == tid).count();
        let process = self.processes.entry(tid).or_default();
        process.threads = others;
        process.remains.forget_page();
        let rings = std::mem::take(&mut process.rings);
        let closed = self.table.close_all(&mut process.files, |_, descriptor| descriptor.close_on_exec);
        self.closed(supervisor, closed);
        self.unmap_all(supervisor, rings);
        if tid == self.tool && self.prepared.is_none() {
            let prepared = self.prepare();
            self.prepared = Some(prepared);
            if prepared.is_err() {
                let _ = signal::send(tid, libc::SIGKILL);
            }
        }
    }

    fn ended(&mut self, supervisor: &mut Supervisor, tid: Tid, status: i32, _usage: &Usage) {
        if tid == self.tool {
            self.ended = Some(status);
            self.end_request.tool_has_ended();
            // One that only looked whether it could have some has opened others then.
            if self.lacks_cpus && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) != 0 {
                (self.on_note.0)(&Note::WholeCpus);
            }
        }
        self.closing.remove(&tid);
        self.wait_is_over(tid);
        self.unwanted.retain(|own| own.process || own.to != tid);
        self.wants_no_more(supervisor, tid);
        self.cloning.remove(&tid);
        let Some(pid) = self.threads.remove(&tid) else { return };
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.threads = process.threads.saturating_sub(1);
        if process.threads > 0 {
            return;
        }
        if let Some(mut process) = self.processes.remove(&pid) {
            let closed = self.table.close_all(&mut process.files, |_, _| true);
            self.closed(supervisor, closed);
            self.unmap_all(supervisor, process.rings);
        }
        self.sent.retain(|sent| sent.to != tid);
        self.unwanted.retain(|own| own.to != pid);
    }

    fn effects(&mut self, machine: &Mutex<Machine>) {
        let mut machine = machine.lock().unwrap_or_else(PoisonError::into_inner);
        carry_out(&mut *machine, self);
        self.tell_of_bpf(&machine);
    }

    fn between(&mut self, supervisor: &mut Supervisor) -> bool {
        if !self.told_of_shortness && proc::times_short() > 0 {
            self.told_of_shortness = true;
            (self.on_note.0)(&Note::Short);
        }
        self.give_up_waiting(supervisor);
        for pid in supervisor.take_returned() {
            // It is asked again.
            self.processes.entry(pid).and_modify(|process| process.asked = 0);
        }
        if let Some(signal) = self.end_request.for_others() {
            for (&pid, process) in self.processes.iter_mut().filter(|(_, process)| process.asked != signal) {
                process.asked = signal;
                ending::ask(pid, supervisor.detached_process(pid), signal);
            }
        }
        !self.is_over(supervisor)
    }
}
