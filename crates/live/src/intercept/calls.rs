//! The calls of a tool, and their answers. Arguments are at user addresses of the tool; calls that are not about an
//! event of ours go on to the kernel unchanged.

use super::files::{Descriptor, File, SignalOwner};
use super::filter::{WAITS, can_wait};
use super::inject::{self, Injector};
use super::{Intercept, Note, Process, Untraceable, Wait, listener};
use crate::bpf::Reply;
use crate::machine::{Machine, Rights};
use crate::proc::{self, Namespace};
use crate::ptrace::{Resume, Tid};
use crate::regs::{Registers, Width};
use crate::remote;
use crate::served::{carry_out, settle};
use crate::supervisor::{Next, Supervisor};
use perfuse_abi::{Attr, AttrFlags, ByteOrder, Errno, EventType, OpenFlags, Software, ioctl};
use perfuse_engine::{Access, AttrMemory, BpfQuery, EventKey, Ioctl, OpenArguments, TaskId, UserMemory};
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The answer to a call that a filter stopped.
pub(super) enum Answer {
    /// It is the kernel's.
    Pass,
    /// It is not done; this is its answer.
    With(Result<u64, Errno>),
    /// It has been done: the thread is behind it.
    Done(Result<u64, Errno>),
    /// So the thread goes on; nothing else is to be done.
    Next(Next),
}

fn word(answer: Result<u64, Errno>) -> i64 {
    answer.map_or_else(|errno| -i64::from(errno.0), |value| value as i64)
}

/// A call as this program would make it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SystemCall {
    pub(super) width: Width,
    /// As the thread has it.
    number: u64,
    pub(super) call: libc::c_long,
    arguments: [u64; 6],
}

impl SystemCall {
    /// `None`: one that no filter of ours stops.
    pub(super) fn new(width: Width, number: u64, arguments: [u64; 6]) -> Option<Self> {
        let call = width.call(number)?;
        let arguments = arguments.map(|argument| width.argument(argument));
        Some(SystemCall { width, number, call, arguments })
    }

    pub(super) fn arguments(&self) -> [u64; 6] {
        self.arguments
    }

    fn of(registers: &Registers) -> Option<Self> {
        Self::new(registers.width(), registers.call(), std::array::from_fn(|index| registers.argument(index)))
    }
}

/// The number of no thread.
const NOBODY: i32 = i32::MAX;

/// A tool's memory from some address on.
pub(super) struct Memory {
    pub(super) tid: Tid,
    pub(super) addr: u64,
}

impl UserMemory for Memory {
    fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), Errno> {
        remote::read_exact(self.tid, self.addr.wrapping_add(offset as u64), into).map_err(|_| Errno::EFAULT)
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Errno> {
        let addr = self.addr.wrapping_add(offset as u64);
        remote::write_as_program(self.tid, addr, bytes).map_err(|_| Errno::EFAULT)
    }
}

impl Intercept {
    /// `perf_event_open` or `bpf`, refused by a SIGSYS that is about to be delivered.
    pub(super) fn trapped(
        &mut self,
        supervisor: &mut Supervisor,
        tid: Tid,
        width: Width,
    ) -> Result<(), Errno> {
        let mut registers = Registers::in_call(tid, width)?;
        let call = SystemCall::of(&registers).map(|call| call.call);
        let answer = match call {
            Some(libc::SYS_bpf) => match self.bpf(supervisor, tid, &registers) {
                Ok(Reply::Opens(file)) => self.give_descriptor(supervisor, tid, &registers, file),
                Ok(Reply::Number(number)) => Ok(number),
                Err(errno) => Err(errno),
            },
            _ => self.open(supervisor, tid, &registers),
        };
        self.tell_stops(supervisor, tid);
        registers.set_result(word(answer));
        registers.give(tid)
    }

    /// A call that was stopped before it is done.
    pub(super) fn traced(
        &mut self,
        supervisor: &mut Supervisor,
        tid: Tid,
        width: Width,
    ) -> Result<Next, Errno> {
        let mut registers = Registers::in_call(tid, width)?;
        // Its last call is over.
        self.closing.remove(&tid);
        self.wait_is_over(tid);
        let answer = self.answer(supervisor, tid, &registers);
        self.tell_stops(supervisor, tid);
        let answer = answer?;
        let closed = self.table.take_closed();
        if !closed.is_empty() {
            self.closing.insert(tid, closed);
        }
        match answer {
            Answer::Pass => {}
            Answer::With(answer) => {
                registers.set_result(word(answer));
                registers.replace_call(tid, None)?;
            }
            Answer::Done(answer) => {
                let result = word(answer);
                registers.set_result(result);
                registers.give(tid)?;
                supervisor.call_was_done(tid, result);
            }
            Answer::Next(next) => return Ok(next),
        }
        Ok(Next::Go(Resume::Continue(0)))
    }

    fn answer(
        &mut self,
        supervisor: &mut Supervisor,
        tid: Tid,
        registers: &Registers,
    ) -> Result<Answer, Errno> {
        let Some(system_call) = SystemCall::of(registers) else { return Ok(Answer::Pass) };
        let call = system_call.call;
        let [first, second, ..] = system_call.arguments;
        let fd = first as i32;
        match call {
            libc::SYS_perf_event_open => {
                inject::skip(tid, registers)?;
                self.stopped_again(supervisor, tid);
                return Ok(Answer::Done(self.open(supervisor, tid, registers)));
            }
            libc::SYS_bpf => {
                let answer = match self.bpf(supervisor, tid, registers) {
                    Ok(Reply::Opens(file)) => {
                        if let Err(killed) = inject::skip(tid, registers) {
                            self.closed(supervisor, [File::Bpf(file)]);
                            return Err(killed);
                        }
                        self.stopped_again(supervisor, tid);
                        return Ok(Answer::Done(self.give_descriptor(supervisor, tid, registers, file)));
                    }
                    Ok(Reply::Number(number)) => Ok(number),
                    Err(errno) => Err(errno),
                };
                if self.process(tid).hears_of_paths.is_some() {
                    return Ok(Answer::With(answer));
                }
                inject::skip(tid, registers)?;
                self.stopped_again(supervisor, tid);
                self.hear_of_paths(tid, registers);
                return Ok(Answer::Done(answer));
            }
            call if can_wait(call) => {
                let answer = self.answered(supervisor.shared(), tid, &system_call);
                return Ok(answer.map_or(Answer::Pass, Answer::With));
            }
            libc::SYS_mprotect => {
                if let Err(errno) = self.reprotect(tid, first, second, registers.argument(2)) {
                    return Ok(Answer::With(Err(errno)));
                }
                let has = |right: i32| registers.argument(2) & right as u64 != 0;
                return if has(libc::PROT_EXEC) {
                    self.map_code(supervisor, tid)
                } else if has(libc::PROT_WRITE) {
                    self.make_writable(supervisor, tid, registers, first, second)
                } else {
                    Ok(Answer::Pass)
                };
            }
            libc::SYS_madvise | libc::SYS_msync | libc::SYS_remap_file_pages => {
                let refused = self.is_refused_by_rings(tid, call, first, second, registers.argument(2));
                return Ok(refused.map_or(Answer::Pass, |errno| Answer::With(Err(errno))));
            }
            libc::SYS_munmap => return Ok(self.unmap(supervisor, tid, first, second)),
            libc::SYS_mremap => return self.remap(supervisor, tid, registers),
            libc::SYS_mmap if registers.argument(3) & libc::MAP_FIXED as u64 != 0 => {
                if let Answer::With(refused) = self.unmap(supervisor, tid, first, second) {
                    return Ok(Answer::With(refused));
                }
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => return self.open_file(supervisor, tid, registers, first, second),
            libc::SYS_openat => {
                return self.open_file(supervisor, tid, registers, second, registers.argument(2));
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_readlink => {
                return Ok(self.read_link(supervisor, tid, first, second, registers.argument(2)));
            }
            libc::SYS_readlinkat => {
                let [into, room] = [2, 3].map(|index| registers.argument(index));
                return Ok(self.read_link(supervisor, tid, second, into, room));
            }
            libc::SYS_close_range => {
                self.close_range(supervisor, tid, first as u32, second as u32, registers.argument(2));
                return Ok(Answer::Pass);
            }
            libc::SYS_ptrace => return self.trace(supervisor, tid, registers, &system_call),
            libc::SYS_clone => return self.clone_traced(tid, registers),
            libc::SYS_dup3 => return self.replace(supervisor, tid, registers, registers.argument(2)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_dup2 => return self.replace(supervisor, tid, registers, 0),
            _ => {}
        }
        let fd = if call == libc::SYS_mmap { registers.argument(4) as i32 } else { fd };
        let Some(file) = self.process(tid).files.file(fd) else {
            if call == libc::SYS_mmap && registers.argument(2) & libc::PROT_EXEC as u64 != 0 {
                return self.map_code(supervisor, tid);
            }
            return Ok(Answer::Pass);
        };
        Ok(match call {
            libc::SYS_close => {
                let closed = self.close(tid, fd);
                self.closed(supervisor, closed);
                Answer::Pass
            }
            libc::SYS_dup => self.duplicate(supervisor, tid, registers, file, 0, false)?,
            libc::SYS_fcntl => match second as i32 {
                command @ (libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => {
                    let least = registers.argument(2);
                    self.duplicate(supervisor, tid, registers, file, least, command == libc::F_DUPFD_CLOEXEC)?
                }
                command => self.control(supervisor, tid, fd, file, command, registers.argument(2))?,
            },
            libc::SYS_fstat | libc::SYS_newfstatat | libc::SYS_statx => {
                self.tell_kind(supervisor, tid, registers, call)?
            }
            libc::SYS_mmap => {
                inject::skip(tid, registers)?;
                self.stopped_again(supervisor, tid);
                Answer::Done(match file {
                    File::Event(event) => self.map(supervisor, tid, registers, event),
                    File::Bpf(file) => self.map_object(supervisor, tid, registers, file),
                })
            }
            _ => Answer::Pass,
        })
    }

    /// A call that [waits](super::listener) for its answer; `None`: it is the kernel's.
    pub(super) fn waiting(
        &mut self,
        machine: &Mutex<Machine>,
        tid: Tid,
        system_call: &SystemCall,
    ) -> Option<Result<u64, Errno>> {
        // One with `CLONE_UNTRACED` has the filter, too.
        if !self.threads.contains_key(&tid) {
            return None;
        }
        {
            let mut machine = lock(machine);
            if let Some(task) = machine.task_of(tid) {
                machine.stopped(task);
            }
        }
        self.wait_is_over(tid);
        let answer = self.answered(machine, tid, system_call);
        carry_out(&mut *lock(machine), self);
        answer
    }

    /// The last call of a thread is over.
    pub(super) fn wait_is_over(&mut self, tid: Tid) {
        if let Some(wait) = self.waits.remove(&tid) {
            self.table.after_wait(wait.events);
        }
    }

    /// The answer to one of the calls that [can wait](can_wait) for it; `None`: it is the kernel's.
    fn answered(
        &mut self,
        machine: &Mutex<Machine>,
        tid: Tid,
        system_call: &SystemCall,
    ) -> Option<Result<u64, Errno>> {
        let SystemCall { width, call, arguments: [first, second, third, ..], .. } = *system_call;
        if WAITS.contains(&call) {
            let pid = self.threads.get(&tid).copied().unwrap_or(tid);
            if let Some(process) = self.processes.get(&pid) {
                let numbers = awaited(tid, system_call);
                let events = self.table.before_wait(&process.files, numbers.as_deref());
                self.waits.insert(tid, Wait { call: system_call.number, events });
            }
            self.before_wait_for_rings(machine, tid);
            return None;
        }
        if call == libc::SYS_prctl {
            let enable = first as i32 == ioctl::PR_TASK_PERF_EVENTS_ENABLE;
            return Some(caller(machine, tid).map(|caller| {
                lock(machine).prctl(caller, enable);
                0
            }));
        }
        let event = match self.process(tid).files.file(first as i32)? {
            File::Event(event) => event,
            File::Bpf(_) => return self.answered_of_object(tid, system_call),
        };
        match call {
            libc::SYS_read => Some(read(machine, tid, event, second, third)),
            libc::SYS_readv => Some(read_parts(machine, tid, event, width, second, third)),
            // Without a position it is the same; with one, pipes refuse it as events do.
            libc::SYS_preadv2 if is_without_position(system_call) => {
                Some(read_parts(machine, tid, event, width, second, third))
            }
            libc::SYS_preadv2 => None,
            libc::SYS_write | libc::SYS_writev => Some(Err(Errno::EINVAL)),
            libc::SYS_ioctl
                if self.is_of_any_file(machine, tid, first as i32, event, second as u32, third) =>
            {
                None
            }
            libc::SYS_ioctl => Some(self.ioctl(machine, tid, event, width.ioctl(second as u32), third)),
            _ => None,
        }
    }

    /// Memory becomes code, which is told of.
    fn map_code(&self, supervisor: &Supervisor, tid: Tid) -> Result<Answer, Errno> {
        let answer = done(tid)?;
        self.stopped_again(supervisor, tid);
        supervisor.machine().has_mapped(tid);
        Ok(Answer::Done(answer))
    }

    /// A tracee was stopped once more than the supervisor knows.
    pub(super) fn stopped_again(&self, supervisor: &Supervisor, tid: Tid) {
        let mut machine = supervisor.machine();
        if let Some(task) = machine.task_of(tid) {
            machine.stopped(task);
        }
    }

    /// A thread has been stopped for calls that it did for us.
    fn tell_stops(&mut self, supervisor: &Supervisor, tid: Tid) {
        let stops = self.process(tid).remains.take_stops();
        let mut machine = supervisor.machine();
        if let (1.., Some(task)) = (stops, machine.task_of(tid)) {
            machine.stopped_often(task, stops);
        }
    }

    /// `perf_event_open`: the thread is behind the call.
    fn open(&mut self, supervisor: &mut Supervisor, tid: Tid, registers: &Registers) -> Result<u64, Errno> {
        let argument = |index| registers.argument(index);
        let mut memory = Memory { tid, addr: argument(0) };
        let flags = OpenFlags::from_bits_retain(argument(4));
        let [pid, cpu, group_fd] = [1, 2, 3].map(|index| argument(index) as i32);
        let arguments = OpenArguments { pid, cpu, group_fd, flags };
        let group = self.process(tid).files.get(group_fd);
        let caller = caller(supervisor.shared(), tid)?;
        let mut attr = copy_attr(&memory);
        let seen = Attr::peek(&attr, ByteOrder::NATIVE);
        let switches = seen.flags.contains(AttrFlags::CONTEXT_SWITCH);
        let is_dummy = (seen.type_, seen.config) == (EventType::SOFTWARE, Software::DUMMY.0);
        let access = if seen.flags.contains(AttrFlags::SIGTRAP) { Access::Attach } else { Access::Read };
        let namespace = self.namespace_of(tid);
        if let Ok(Some(namespace)) = namespace {
            supervisor.machine().comes_from(caller, namespace);
        }
        let whom = match pid {
            1.. => {
                let whom = self.whom(supervisor, tid, registers, namespace, pid).ok();
                let is_there =
                    |whom: &Tid| self.threads.contains_key(whom) || proc::process_of(*whom).is_some();
                whom.filter(is_there).unwrap_or(NOBODY)
            }
            pid => pid,
        };
        let arguments = OpenArguments { pid: whom, ..arguments };
        let mut allowed = whom == NOBODY || self.may(tid, registers, access, pid, whom);
        let probed = supervisor.machine().is_probe(&attr);
        let file = probed.map(|path| self.injector(tid, registers).look_at(path));
        let rights = |measures| Rights { measures, file };
        self.tell_stops(supervisor, tid);
        let is_task = whom <= 0 || whom == NOBODY || supervisor.machine().task_of(whom).is_some();
        let mut would_open = Ok(());
        if !is_task {
            let process = proc::process_of(whom).ok_or(Errno::ESRCH)?;
            let asked = (process, whom);
            // What it becomes for that moment it is not to be when it is opened.
            let mut tried = attr.clone();
            would_open =
                supervisor.machine().would_open(asked, caller, &mut tried, arguments, group, rights(allowed));
            if would_open.is_err() {
                attr = tried;
            } else {
                self.attach(supervisor, process)?;
                // Until now its number could become another's, and it could gain rights.
                allowed = self.may(tid, registers, access, pid, whom);
                self.tell_stops(supervisor, tid);
            }
        }
        let opened = would_open
            .and_then(|()| supervisor.machine().open(caller, &mut attr, arguments, group, rights(allowed)));
        if !allowed && opened == Err(Errno::EACCES) {
            self.tell_untraceable(whom, Untraceable::NotIts);
        }
        if opened == Err(Errno::EOPNOTSUPP)
            && switches
            && !std::mem::replace(&mut self.told_of_switches, true)
        {
            (self.on_note.0)(&Note::Switches);
        }
        match opened {
            Ok(_) => self.lacks_cpus = false,
            // perf looks for new BPF programs with one that counts nothing, and does without it.
            Err(Errno::EACCES) if pid == -1 && !is_dummy => self.lacks_cpus = true,
            _ => {}
        }
        // E2BIG comes with the size that there is.
        if Attr::peek(&attr, ByteOrder::NATIVE).size != seen.size {
            let _ = memory.write(Attr::SIZE_FIELD.start, &attr[Attr::SIZE_FIELD]);
        }
        let event = opened?;
        let fd = self.install(tid, registers, event, flags.contains(OpenFlags::FD_CLOEXEC));
        if fd == Err(Errno::EACCES) && !std::mem::replace(&mut self.told_of_unreachable, true) {
            (self.on_note.0)(&Note::Unreachable { pid: tid });
        }
        if fd.is_err() {
            self.table.forget(event);
            supervisor.machine().close(event);
        }
        settle(&*supervisor.machine(), self, event);
        fd
    }

    /// The pid namespace of a thread, if it is another than this process's.
    pub(super) fn namespace_of(&mut self, tid: Tid) -> Result<Option<Namespace>, Errno> {
        let pid = self.threads.get(&tid).copied().unwrap_or(tid);
        let process = self.processes.entry(pid).or_default();
        if process.namespace.is_none() {
            process.namespace = Some(proc::namespace_of(pid)?);
        }
        Ok(process.namespace.flatten())
    }

    /// The thread that a thread calls so, by our number.
    pub(super) fn whom(
        &mut self,
        supervisor: &Supervisor,
        tid: Tid,
        registers: &Registers,
        namespace: Result<Option<Namespace>, Errno>,
        number: i32,
    ) -> Result<Tid, Errno> {
        let Some(namespace) = namespace? else { return Ok(number) };
        let known = supervisor.machine().tid_in(namespace, number);
        if let Some(known) = known {
            return Ok(known);
        }
        let whom = self.injector(tid, registers).whom(number)?;
        if self.answers_for_itself(tid) { Err(Errno::ESRCH) } else { Ok(whom) }
    }

    /// Whether a thread may measure a thread of a process, which it calls `number`.
    pub(super) fn may(
        &mut self,
        tid: Tid,
        registers: &Registers,
        access: Access,
        number: i32,
        whom: Tid,
    ) -> bool {
        let process = |tid| self.threads.get(&tid);
        if number <= 0
            || process(whom).is_some() && process(whom) == process(tid)
            || access == Access::Read && proc::may_measure_all(tid)
        {
            return true;
        }
        let may = self.injector(tid, registers).may(access, number);
        may && (!self.answers_for_itself(tid) || proc::Credentials::of(tid).may_look_at(whom))
    }

    /// Whether a thread has filters that are not ours, which may have answered a call in the kernel's place. Filters
    /// stay, so this is asked after the call.
    fn answers_for_itself(&mut self, tid: Tid) -> bool {
        let Some(own) = self.filters_here else { return false };
        let process = self.process(tid);
        let ours = 1
            + usize::from(process.filtered)
            + usize::from(process.hears_of_paths == Some(true))
            + process.low.len()
            + process.watched.len();
        proc::filters_of(tid) != Some(own + ours)
    }

    /// The calls that a thread which is behind a system call can do for us.
    fn injector(&mut self, tid: Tid, registers: &Registers) -> Injector<'_> {
        let process = self.process(tid);
        process.injector(tid, registers)
    }

    /// Makes the descriptor of a new event.
    fn install(
        &mut self,
        tid: Tid,
        registers: &Registers,
        event: EventKey,
        close_on_exec: bool,
    ) -> Result<u64, Errno> {
        let pipe = self.table.create(event)?.served.number();
        self.install_file(tid, registers, (File::Event(event), pipe), close_on_exec)
    }

    /// Makes a descriptor of a file, whose calls are answered from now on: a copy of this process's.
    pub(super) fn install_file(
        &mut self,
        tid: Tid,
        registers: &Registers,
        (file, pipe): (File, RawFd),
        close_on_exec: bool,
    ) -> Result<u64, Errno> {
        let first = self.first;
        let pid = self.threads.get(&tid).copied().unwrap_or(tid);
        let process = self.processes.entry(pid).or_default();
        let high = process.files.count_from(first);
        let filtered = process.filtered;
        let mut injector = process.injector(tid, registers);
        let fd = injector.open_high(pipe, first, high, close_on_exec)?;
        if !filtered {
            let listening = match (&self.listeners, self.own.upgrade()) {
                (Some(listeners), Some(own)) => {
                    let program = inject::owners(first, i32::MAX, true);
                    listener::install(&mut injector, pid, fd, &program, listeners, own)
                }
                _ => Err(Errno::EOPNOTSUPP),
            };
            if listening.is_err() {
                injector.install(&inject::owners(first, i32::MAX, false))?;
            }
            process.filtered = true;
        }
        // We should have heard of an older file with that number; it is gone now in any case.
        let _ = self.table.install(&mut process.files, fd, Descriptor { file, close_on_exec });
        Ok(fd as u64)
    }

    fn close(&mut self, tid: Tid, fd: i32) -> Option<File> {
        let pid = self.threads.get(&tid).copied().unwrap_or(tid);
        let process = self.processes.get_mut(&pid)?;
        self.table.close(&mut process.files, fd)
    }

    fn close_range(&mut self, supervisor: &mut Supervisor, tid: Tid, from: u32, to: u32, flags: u64) {
        const CLOSE_ON_EXEC: u64 = 4;
        let pid = self.threads.get(&tid).copied().unwrap_or(tid);
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let inside = |fd: i32| (from..=to).contains(&(fd as u32));
        if flags & CLOSE_ON_EXEC != 0 {
            process.files.close_on_exec_where(inside);
            return;
        }
        let closed = self.table.close_all(&mut process.files, |fd, _| inside(fd));
        self.closed(supervisor, closed);
    }

    /// `dup` and `F_DUPFD` are done with a number that the filter knows.
    fn duplicate(
        &mut self,
        supervisor: &Supervisor,
        tid: Tid,
        registers: &Registers,
        file: File,
        least: u64,
        close_on_exec: bool,
    ) -> Result<Answer, Errno> {
        let mut changed = *registers;
        let command = if close_on_exec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
        changed.set_argument(1, command as u64);
        changed.set_argument(2, least.max(self.first as u64));
        // It makes a descriptor that has no event yet, if this fails: of a thread that was killed.
        changed.replace_call(tid, Some(libc::SYS_fcntl))?;
        let answer = done(tid)?;
        self.stopped_again(supervisor, tid);
        if let Ok(fd) = answer {
            let pid = self.threads.get(&tid).copied().unwrap_or(tid);
            let process = self.processes.entry(pid).or_default();
            let _ = self.table.install(&mut process.files, fd as i32, Descriptor { file, close_on_exec });
        }
        Ok(Answer::Done(answer))
    }

    /// `dup2` and `dup3` (which has `flags`): an older descriptor with that number is closed.
    fn replace(
        &mut self,
        supervisor: &mut Supervisor,
        tid: Tid,
        registers: &Registers,
        flags: u64,
    ) -> Result<Answer, Errno> {
        let [old, new] = [0, 1].map(|index| registers.argument(index) as i32);
        let answer = done(tid)?;
        self.stopped_again(supervisor, tid);
        if answer.is_err() || old == new {
            return Ok(Answer::Done(answer));
        }
        let first = self.first;
        let pid = self.threads.get(&tid).copied().unwrap_or(tid);
        let process = self.processes.entry(pid).or_default();
        let closed = match process.files.file(old) {
            None => self.table.close(&mut process.files, new),
            Some(file) => {
                let close_on_exec = flags as i32 & libc::O_CLOEXEC != 0;
                // A number that the tool has chosen, and no filter knows.
                if new < first && process.low.insert(new) {
                    let mut injector = Injector::new(tid, registers, &mut process.remains);
                    injector.install(&inject::owners(new, new, false))?;
                }
                self.table.install(&mut process.files, new, Descriptor { file, close_on_exec })
            }
        };
        self.closed(supervisor, closed);
        Ok(Answer::Done(answer))
    }

    /// `fcntl`: the kernel does it to the pipe, and some of it has to be known here, too.
    fn control(
        &mut self,
        supervisor: &Supervisor,
        tid: Tid,
        fd: i32,
        file: File,
        command: i32,
        argument: u64,
    ) -> Result<Answer, Errno> {
        const F_SETSIG: i32 = 10;
        const F_SETOWN_EX: i32 = 15;
        /// In 64-bit programs the C library passes 0 for it.
        const O_LARGEFILE: i32 = if cfg!(target_arch = "x86_64") { 0o100_000 } else { 0o400_000 };
        const HEARD: [i32; 6] =
            [libc::F_SETFD, libc::F_GETFL, libc::F_SETFL, F_SETSIG, libc::F_SETOWN, F_SETOWN_EX];
        if [libc::F_GETPIPE_SZ, libc::F_SETPIPE_SZ].contains(&command) {
            return Ok(Answer::With(Err(Errno::EBADF)));
        }
        if !HEARD.contains(&command) {
            return Ok(Answer::Pass);
        }
        let answer = done(tid)?;
        self.stopped_again(supervisor, tid);
        let Ok(flags) = answer else { return Ok(Answer::Done(answer)) };
        if command == libc::F_GETFL {
            // The flags of the pipe are not those of an event.
            let of_pipe = (libc::O_ACCMODE | O_LARGEFILE | libc::O_NONBLOCK) as u64;
            let access = match file {
                File::Event(_) => libc::O_RDWR,
                File::Bpf(file) => supervisor.machine().bpf().access_of(file),
            };
            return Ok(Answer::Done(Ok(flags & !of_pipe | access as u64)));
        }
        if command == libc::F_SETFD {
            let on = argument as i32 & libc::FD_CLOEXEC != 0;
            self.process(tid).files.set_close_on_exec(fd, on);
        }
        let File::Event(event) = file else { return Ok(Answer::Done(answer)) };
        if command == libc::F_SETFL {
            self.set_asynchronous(&mut supervisor.machine(), fd, event, argument as i32 & libc::O_ASYNC != 0);
        }
        let Some(open) = self.table.get(event) else { return Ok(Answer::Done(answer)) };
        match command {
            F_SETSIG => open.signal = argument as i32,
            libc::F_SETOWN => open.owner = SignalOwner::of_number(argument as i32),
            F_SETOWN_EX => {
                let mut bytes = [0; 8];
                let read = (Memory { tid, addr: argument }).read(0, &mut bytes);
                let half = |at: usize| i32::from_ne_bytes(std::array::from_fn(|index| bytes[at + index]));
                open.owner = read.ok().and_then(|()| SignalOwner::of_kind(half(0), half(4)));
            }
            _ => {}
        }
        Ok(Answer::Done(answer))
    }

    /// An ioctl that all files have, which the kernel does to the pipe: the engine is told of it where it has to
    /// know.
    fn is_of_any_file(
        &mut self,
        machine: &Mutex<Machine>,
        tid: Tid,
        fd: i32,
        event: EventKey,
        code: u32,
        argument: u64,
    ) -> bool {
        const FIONBIO: u32 = 0x5421;
        const FIONCLEX: u32 = 0x5450;
        const FIOCLEX: u32 = 0x5451;
        const FIOASYNC: u32 = 0x5452;
        match code {
            FIONBIO => {}
            FIOCLEX | FIONCLEX => self.process(tid).files.set_close_on_exec(fd, code == FIOCLEX),
            FIOASYNC => {
                let mut on = [0; 4];
                if (Memory { tid, addr: argument }).read(0, &mut on).is_ok() {
                    self.set_asynchronous(&mut lock(machine), fd, event, on != [0; 4]);
                }
            }
            _ => return false,
        }
        true
    }

    /// `O_ASYNC` has been set by this number, or is about to be.
    fn set_asynchronous(&mut self, machine: &mut Machine, fd: i32, event: EventKey, on: bool) {
        let Some(open) = self.table.get(event) else { return };
        open.set_asynchronous(fd, on);
        machine.set_async(event, on);
        if on {
            settle(machine, self, event);
        }
    }

    fn ioctl(
        &mut self,
        machine: &Mutex<Machine>,
        tid: Tid,
        event: EventKey,
        code: u32,
        argument: u64,
    ) -> Result<u64, Errno> {
        let caller = caller(machine, tid)?;
        let group = argument & 1 != 0;
        let mut memory = Memory { tid, addr: argument };
        let text;
        let mut attr;
        let mut query;
        let call = match code {
            ioctl::ENABLE => Ioctl::Enable { group },
            ioctl::DISABLE => Ioctl::Disable { group },
            ioctl::RESET => Ioctl::Reset { group },
            ioctl::REFRESH => Ioctl::Refresh(argument as i32),
            ioctl::PAUSE_OUTPUT => Ioctl::PauseOutput(argument != 0),
            ioctl::PERIOD => {
                let mut word = [0; 8];
                memory.read(0, &mut word)?;
                Ioctl::Period(u64::from_ne_bytes(word))
            }
            // All 64 bits of it: from a 32-bit program -1 is a number that is not open.
            ioctl::SET_OUTPUT if argument == u64::MAX => Ioctl::SetOutput(None),
            ioctl::SET_OUTPUT => {
                let target = self.process(tid).files.get(argument as i32);
                Ioctl::SetOutput(Some(target.ok_or(Errno::EBADF)?))
            }
            ioctl::SET_FILTER => {
                text = c_string(tid, argument)?;
                Ioctl::SetFilter(&text)
            }
            ioctl::ID => {
                let id = lock(machine).ioctl(caller, event, Ioctl::Id)?;
                memory.write(0, &id.to_ne_bytes())?;
                return Ok(0);
            }
            ioctl::MODIFY_ATTRIBUTES => {
                attr = AttrMemory(&mut memory);
                Ioctl::ModifyAttributes(&mut attr)
            }
            ioctl::SET_BPF => {
                let fd = argument as i32;
                let file = self.process(tid).files.bpf(fd);
                let none = if proc::is_open(tid, fd) { Errno::EINVAL } else { Errno::EBADF };
                return lock(machine).set_program(caller, event, file.ok_or(none));
            }
            // There are no tracepoints, so that nothing is read of the argument.
            ioctl::QUERY_BPF => {
                query = BpfQuery::default();
                Ioctl::QueryBpf(&mut query)
            }
            _ => return Err(Errno::ENOTTY),
        };
        let mut machine = lock(machine);
        let answer = machine.ioctl(caller, event, call);
        settle(&*machine, self, event);
        answer
    }
}

impl Process {
    pub(super) fn injector(&mut self, tid: Tid, registers: &Registers) -> Injector<'_> {
        let outside = self.namespace.flatten().is_some();
        Injector::new(tid, registers, &mut self.remains).outside(outside)
    }
}

pub(super) fn caller(machine: &Mutex<Machine>, tid: Tid) -> Result<TaskId, Errno> {
    lock(machine).task_of(tid).ok_or(Errno::ESRCH)
}

fn lock(machine: &Mutex<Machine>) -> MutexGuard<'_, Machine> {
    machine.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets the kernel do the call at which a thread is stopped; its answer.
pub(super) fn done(tid: Tid) -> Result<Result<u64, Errno>, Errno> {
    Ok(match inject::finish(tid)?.result() {
        error @ -4095..=-1 => Err(Errno(-error as i32)),
        value => Ok(value as u64),
    })
}

fn read(machine: &Mutex<Machine>, tid: Tid, event: EventKey, into: u64, room: u64) -> Result<u64, Errno> {
    let mut bytes = Vec::new();
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    lock(machine).read(event, room, &mut bytes)?;
    Memory { tid, addr: into }.write(0, &bytes)?;
    Ok(bytes.len() as u64)
}

/// `readv(2)`: the kernel reads each part by itself, until one is not filled.
fn read_parts(
    machine: &Mutex<Machine>,
    tid: Tid,
    event: EventKey,
    width: Width,
    parts: u64,
    count: u64,
) -> Result<u64, Errno> {
    /// `UIO_MAXIOV`.
    const MOST: u64 = 1024;
    if count > MOST {
        return Err(Errno::EINVAL);
    }
    let size = if width == Width::Native { 8 } else { 4 };
    let mut words = vec![0; 2 * size * count as usize];
    Memory { tid, addr: parts }.read(0, &mut words)?;
    let words = words.chunks_exact(size).map(|word| match width {
        Width::Native => u64::from_le_bytes(std::array::from_fn(|index| word[index])),
        Width::Narrow => u64::from(u32::from_le_bytes(std::array::from_fn(|index| word[index]))),
    });
    let words: Vec<u64> = words.collect();
    let parts = || words.chunks_exact(2);
    if parts().all(|part| part[1] == 0) {
        return Ok(0);
    }
    let mut done = 0;
    for part in parts() {
        match read(machine, tid, event, part[0], part[1]) {
            Err(errno) if done == 0 => return Err(errno),
            Err(_) => break,
            Ok(bytes) => {
                done += bytes;
                if bytes != part[1] {
                    break;
                }
            }
        }
    }
    Ok(done)
}

/// Whether a `preadv2(2)` reads from where the file stands: the position is -1, in two halves where words are narrow.
fn is_without_position(system_call: &SystemCall) -> bool {
    let [_, _, _, low, high, flags] = system_call.arguments;
    let position = match system_call.width {
        Width::Native => low == u64::MAX,
        Width::Narrow => [low, high] == [u64::from(u32::MAX); 2],
    };
    position && flags == 0
}

/// As much of an attr as the engine may want to see, and is there.
fn copy_attr(memory: &Memory) -> Vec<u8> {
    let mut attr = vec![0; Attr::SIZE_FIELD.end];
    if memory.read(0, &mut attr).is_err() {
        return Vec::new();
    }
    let size = match Attr::peek(&attr, ByteOrder::NATIVE).size {
        0 => Attr::SIZE_VER0,
        size => size,
    };
    let size = size.clamp(Attr::SIZE_FIELD.end as u32, perfuse_sys::page_size() as u32);
    let mut whole = vec![0; size as usize];
    if memory.read(0, &mut whole).is_ok() { whole } else { attr }
}

/// The descriptors that a call waits for; `None`: what cannot be known.
fn awaited(tid: Tid, system_call: &SystemCall) -> Option<Vec<i32>> {
    const MOST: u64 = 1 << 16;
    let [first, second, third, fourth, ..] = system_call.arguments;
    let mut all = Vec::new();
    match system_call.call {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll if second <= MOST => all = polled(tid, first, second)?,
        libc::SYS_ppoll if second <= MOST => all = polled(tid, first, second)?,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_select if first <= MOST => {
            [second, third, fourth].into_iter().for_each(|set| selected(tid, set, first, &mut all));
        }
        libc::SYS_pselect6 if first <= MOST => {
            [second, third, fourth].into_iter().for_each(|set| selected(tid, set, first, &mut all));
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_epoll_wait => all = told_by_epoll(tid, first, third)?,
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => all = told_by_epoll(tid, first, third)?,
        _ => return None,
    }
    Some(all)
}

/// Those of an epoll, of which so many are told at most: `None` if these may be fewer than it has.
fn told_by_epoll(tid: Tid, epoll: u64, most: u64) -> Option<Vec<i32>> {
    proc::watched_by_epoll(tid, epoll as i32).filter(|all| all.len() as u64 <= most)
}

/// Those of so many `struct pollfd`.
fn polled(tid: Tid, addr: u64, count: u64) -> Option<Vec<i32>> {
    let mut bytes = vec![0; 8 * count as usize];
    remote::read_exact(tid, addr, &mut bytes).ok()?;
    let number = |one: &[u8]| one.first_chunk().map_or(-1, |bytes| i32::from_ne_bytes(*bytes));
    Some(bytes.chunks_exact(8).map(number).collect())
}

/// Those below `end` in an `fd_set`, which may be none.
fn selected(tid: Tid, addr: u64, end: u64, all: &mut Vec<i32>) {
    let mut bytes = vec![0u8; end.div_ceil(8) as usize];
    if addr != 0 && remote::read_exact(tid, addr, &mut bytes).is_ok() {
        all.extend((0..end as i32).filter(|&fd| bytes[fd as usize / 8] & 1 << (fd % 8) != 0));
    }
}

/// A text that ends with a NUL and is shorter than a page.
fn c_string(tid: Tid, addr: u64) -> Result<String, Errno> {
    let mut bytes = vec![0; perfuse_sys::page_size()];
    let got = remote::read(tid, addr, &mut bytes).map_err(|_| Errno::EFAULT)?;
    match bytes[..got].iter().position(|&byte| byte == 0) {
        Some(end) => String::from_utf8(bytes[..end].to_vec()).map_err(|_| Errno::EINVAL),
        None if got == bytes.len() => Err(Errno::EINVAL),
        None => Err(Errno::EFAULT),
    }
}
