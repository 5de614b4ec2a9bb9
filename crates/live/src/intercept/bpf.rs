//! `bpf(2)` of a tool, answered by the [objects](crate::bpf) of the machine: descriptors of these, their calls, and what is to be told.
//!
//! A descriptor is the reading end of a pipe, as that of an event is, with a number that the filter knows. Those of ring buffers
//! have a pipe for each ring, in which a byte says that there is something to read; all others have the same one, which stays empty.

use super::calls::{Answer, Memory, SystemCall, caller, done};
use super::files::{File, Files};
use super::inject::{self, MapAt};
use super::rings::MapCall;
use super::{Intercept, Note, Process};
use crate::bpf::{Caller, FileId, Opened, Reply, Told};
use crate::cgroups;
use crate::machine::Machine;
use crate::proc;
use crate::ptrace::Tid;
use crate::regs::Registers;
use crate::remote;
use crate::supervisor::Supervisor;
use crate::tracepoints;
use perfuse_abi::Errno;
use perfuse_engine::{EventKey, UserMemory as _};
use perfuse_sys::pipe;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};

/// A pipe, both of whose ends are kept.
#[derive(Debug)]
struct Bell {
    reading: OwnedFd,
    writing: OwnedFd,
}

impl Bell {
    fn new() -> Result<Self, Errno> {
        let (reading, writing) = pipe::nonblocking(true)?;
        Ok(Bell { reading, writing })
    }

    /// Says that there is something to read, to who waits and to who asks.
    fn ring(&self) {
        self.silence();
        pipe::put(self.writing.as_fd());
    }

    fn silence(&self) {
        pipe::drain(self.reading.as_fd());
    }
}

/// Notes about one tool.
const MOST_TOLD: usize = 64;

/// The front's part of the objects.
#[derive(Debug, Default)]
pub(super) struct Objects {
    quiet: Option<Bell>,
    /// Of ring buffers, by the ids of the maps; whether something is to be read.
    rings: BTreeMap<u32, (Bell, bool)>,
    /// Notes that the user has got; after [`MOST_TOLD`] of them no more come.
    told: BTreeSet<String>,
}

/// A thread that calls.
struct Tool<'a> {
    pid: Tid,
    tid: Tid,
    files: &'a Files,
    processes: &'a HashMap<Tid, Process>,
    threads: &'a HashMap<Tid, Tid>,
    /// Events that an array or a link has from now on.
    held: Vec<EventKey>,
}

/// The file of a descriptor of a thread, whose open files these are.
fn opened(files: &Files, tid: Tid, fd: i32) -> Opened {
    match files.file(fd) {
        Some(File::Event(event)) => Opened::Event(event),
        Some(File::Bpf(file)) => Opened::Bpf(file),
        None if proc::is_open(tid, fd) => Opened::Other,
        None => Opened::Nothing,
    }
}

/// A path in a thread's memory, if it is not longer than those that are looked for.
pub(super) fn path_at(tid: Tid, addr: u64) -> Option<String> {
    const MOST: usize = 160;
    let mut bytes = [0; MOST];
    let got = remote::read(tid, addr, &mut bytes).ok()?;
    let end = bytes[..got].iter().position(|byte| *byte == 0)?;
    Some(std::str::from_utf8(&bytes[..end]).ok()?.to_owned())
}

impl Caller for Tool<'_> {
    fn read(&self, addr: u64, into: &mut [u8]) -> Result<(), Errno> {
        Memory { tid: self.tid, addr }.read(0, into)
    }

    fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Errno> {
        Memory { tid: self.tid, addr }.write(0, bytes)
    }

    fn opened(&self, fd: i32) -> Opened {
        opened(self.files, self.tid, fd)
    }

    fn cgroup(&self, fd: i32) -> Result<u64, Errno> {
        cgroups::behind(self.tid, fd).ok_or(Errno::EBADF)
    }

    fn uid(&self) -> u32 {
        proc::real_ids(self.tid).map_or(0, |(user, _)| user)
    }

    fn opened_in(&self, pid: i32, fd: i32) -> Option<Opened> {
        let Some(process) = self.threads.get(&pid).and_then(|process| self.processes.get(process)) else {
            proc::process_of(pid)?;
            return Some(if proc::is_open(pid, fd) { Opened::Other } else { Opened::Nothing });
        };
        Some(opened(&process.files, pid, fd))
    }

    fn thread(&self) -> (Tid, Tid) {
        (self.pid, self.tid)
    }

    fn hold(&mut self, event: EventKey) {
        self.held.push(event);
    }
}

impl Intercept {
    /// `bpf`, where the thread is stopped at the call or behind it; a file that is opened has [no descriptor](Self::give_descriptor) yet.
    pub(super) fn bpf(
        &mut self,
        supervisor: &Supervisor,
        tid: Tid,
        registers: &Registers,
    ) -> Result<Reply, Errno> {
        let [command, addr, size] = [0, 1, 2].map(|index| registers.argument(index));
        let task = caller(supervisor.shared(), tid)?;
        let pid = self.threads.get(&tid).copied().unwrap_or(tid);
        self.processes.entry(pid).or_default();
        let (processes, threads) = (&self.processes, &self.threads);
        let mut tool = Tool { pid, tid, files: &processes[&pid].files, processes, threads, held: Vec::new() };
        let reply = supervisor.machine().call_bpf(task, &mut tool, command as u32, addr, size as u32);
        for event in tool.held {
            self.table.hold(File::Event(event));
        }
        self.let_events_go(supervisor);
        self.tell_of_bpf(&supervisor.machine());
        reply
    }

    /// The descriptor of a file that was opened: the thread is behind the call.
    pub(super) fn give_descriptor(
        &mut self,
        supervisor: &Supervisor,
        tid: Tid,
        registers: &Registers,
        file: FileId,
    ) -> Result<u64, Errno> {
        let pipe = self.pipe_of(&supervisor.machine(), file);
        let opened = pipe.and_then(|pipe| self.install_file(tid, registers, (File::Bpf(file), pipe), true));
        match opened {
            Ok(_) => self.hear_of_paths(tid, registers),
            Err(_) => self.closed(supervisor, [File::Bpf(file)]),
        }
        opened
    }

    /// Calls that read symbolic links are heard of from now on, and where there are no files that tell of tracepoints, those that open
    /// some.
    pub(super) fn hear_of_paths(&mut self, tid: Tid, registers: &Registers) {
        let process = self.process(tid);
        if process.hears_of_paths.is_none() {
            let filter = inject::links(!tracepoints::are_shown());
            // Where it cannot be had, a link tells of a pipe, and there is no file of tracepoints.
            process.hears_of_paths = Some(process.injector(tid, registers).install(&filter).is_ok());
        }
    }

    /// Arrays and links no longer have some events.
    pub(super) fn let_events_go(&mut self, supervisor: &Supervisor) {
        let released = supervisor.machine().bpf().take_released();
        for event in released {
            let closed = self.table.release(File::Event(event));
            self.closed(supervisor, closed);
        }
    }

    /// The pipe of a file's descriptors.
    fn pipe_of(&mut self, machine: &Machine, file: FileId) -> Result<RawFd, Errno> {
        let bell = match machine.bpf().has_records(file) {
            Some((ring, _)) => {
                self.objects.rings.retain(|ring, _| machine.bpf().is_there(*ring));
                match self.objects.rings.entry(ring) {
                    std::collections::btree_map::Entry::Occupied(known) => &known.into_mut().0,
                    std::collections::btree_map::Entry::Vacant(free) => &free.insert((Bell::new()?, false)).0,
                }
            }
            None => match &mut self.objects.quiet {
                Some(quiet) => quiet,
                none => none.insert(Bell::new()?),
            },
        };
        Ok(bell.reading.as_raw_fd())
    }

    /// A thread is about to wait: its ring buffers are ready if there is something in them.
    pub(super) fn before_wait_for_rings(&mut self, machine: &Mutex<Machine>, tid: Tid) {
        if self.objects.rings.is_empty() {
            return;
        }
        let bpf = machine.lock().unwrap_or_else(PoisonError::into_inner).bpf().clone();
        let pid = self.threads.get(&tid).copied().unwrap_or(tid);
        let Some(process) = self.processes.get(&pid) else { return };
        for (ring, is_ready) in process.files.bpf_files().filter_map(|file| bpf.has_records(file)) {
            let Some((bell, was_ready)) = self.objects.rings.get_mut(&ring) else { continue };
            match (std::mem::replace(was_ready, is_ready), is_ready) {
                (false, true) => bell.ring(),
                (true, false) => bell.silence(),
                _ => {}
            }
        }
    }

    /// Wakes readers of ring buffers, and tells the user what went wrong.
    pub(super) fn tell_of_bpf(&mut self, machine: &Machine) {
        for ring in machine.bpf().take_woken() {
            if let Some((bell, is_ready)) = self.objects.rings.get_mut(&ring) {
                bell.ring();
                *is_ready = true;
            }
        }
        for told in machine.bpf().take_told() {
            let note = match told {
                Told::NotServed(what) => Note::NotServed { what },
                Told::Faulted(program, fault) => Note::ProgramFaulted { program, why: fault.to_string() },
            };
            // A tool that loads programs of a thousand names writes no thousand lines.
            if self.objects.told.len() < MOST_TOLD && self.objects.told.insert(note.to_string()) {
                (self.on_note.0)(&note);
            }
        }
    }

    /// A call about the descriptor of an object that is answered without anything being done to the thread; `None`: it is the kernel's.
    pub(super) fn answered_of_object(
        &mut self,
        tid: Tid,
        system_call: &SystemCall,
    ) -> Option<Result<u64, Errno>> {
        const FIONBIO: u32 = 0x5421;
        const FIONCLEX: u32 = 0x5450;
        const FIOCLEX: u32 = 0x5451;
        let [fd, code, ..] = system_call.arguments();
        match (system_call.call, code as u32) {
            (libc::SYS_read | libc::SYS_readv | libc::SYS_write | libc::SYS_writev, _) => {
                Some(Err(Errno::EINVAL))
            }
            (libc::SYS_ioctl, FIONBIO) => None,
            (libc::SYS_ioctl, code @ (FIOCLEX | FIONCLEX)) => {
                self.process(tid).files.set_close_on_exec(fd as i32, code == FIOCLEX);
                None
            }
            (libc::SYS_ioctl, _) => Some(Err(Errno::ENOTTY)),
            _ => None,
        }
    }

    /// `fstat` and its kin of an event or an object, whose file is of no kind, while a pipe is one.
    pub(super) fn tell_kind(
        &mut self,
        supervisor: &Supervisor,
        tid: Tid,
        registers: &Registers,
        call: libc::c_long,
    ) -> Result<Answer, Errno> {
        const MODE: u64 = if cfg!(target_arch = "aarch64") { 16 } else { 24 };
        const MODE_OF_STATX: u64 = 28;
        const KIND: u8 = 0xf0;
        let (buffer, flags, at) = match call {
            libc::SYS_fstat => (registers.argument(1), libc::AT_EMPTY_PATH, MODE),
            libc::SYS_newfstatat => (registers.argument(2), registers.argument(3) as i32, MODE),
            _ => (registers.argument(4), registers.argument(2) as i32, MODE_OF_STATX),
        };
        let answer = done(tid)?;
        self.stopped_again(supervisor, tid);
        if answer.is_ok() && flags & libc::AT_EMPTY_PATH != 0 {
            // The kind is in the high half of the mode's second byte.
            let mut mode = Memory { tid, addr: buffer.wrapping_add(at + 1) };
            let mut byte = [0];
            // The kernel has just written there.
            let _ = mode.read(0, &mut byte).and_then(|()| mode.write(0, &[byte[0] & !KIND]));
        }
        Ok(Answer::Done(answer))
    }

    /// `readlink` and `readlinkat`: what `/proc` says of a descriptor of an event or an object.
    pub(super) fn read_link(
        &mut self,
        supervisor: &Supervisor,
        tid: Tid,
        path: u64,
        into: u64,
        room: u64,
    ) -> Answer {
        let Some(file) = self.named_by(tid, path) else { return Answer::Pass };
        let name = match file {
            File::Event(_) => "anon_inode:[perf_event]",
            File::Bpf(file) => supervisor.machine().bpf().name_of(file),
        };
        if room as i32 <= 0 {
            return Answer::With(Err(Errno::EINVAL));
        }
        let shown = &name.as_bytes()[..name.len().min(room as usize)];
        let mut memory = Memory { tid, addr: into };
        Answer::With(memory.write(0, shown).map(|()| shown.len() as u64))
    }

    /// The file that a path in `/proc` is about, if it is one of a descriptor's.
    fn named_by(&self, tid: Tid, path: u64) -> Option<File> {
        let path = path_at(tid, path)?;
        let own = self.threads.get(&tid).copied()?;
        let (process, fd) = match path.strip_prefix("/dev/fd/") {
            Some(fd) => (own, fd),
            None => {
                let (process, fd) = path.strip_prefix("/proc/")?.split_once("/fd/")?;
                let number =
                    if matches!(process, "self" | "thread-self") { own } else { process.parse().ok()? };
                (self.threads.get(&number).copied()?, fd)
            }
        };
        self.processes.get(&process)?.files.file(fd.parse().ok()?)
    }

    /// `mmap` of a map: the thread is behind the call.
    pub(super) fn map_object(
        &mut self,
        supervisor: &Supervisor,
        tid: Tid,
        registers: &Registers,
        file: FileId,
    ) -> Result<u64, Errno> {
        let call = MapCall::of(registers)?;
        let MapCall { addr, prot, flags, offset, writable, shared, .. } = call;
        let len = call.whole()?;
        let pid = self.threads.get(&tid).copied().unwrap_or(tid);
        let region = supervisor.machine().bpf().map(file, pid, (offset, len), (writable, shared));
        self.tell_of_memory(region.is_err());
        let region = region?;
        let place = match MapAt::asked(registers.width(), addr, flags, 0) {
            MapAt::Preferably(_) => MapAt::Exactly(addr, 0),
            place => place,
        };
        let fd = region.memory.as_fd().as_raw_fd();
        // As on Linux, what was mapped to be read stays so.
        let access = if writable { libc::O_RDWR } else { libc::O_RDONLY };
        let mut injector = self.process(tid).injector(tid, registers);
        let [(first, _), rest @ ..] = &region.parts[..] else { return Err(Errno::EINVAL) };
        // The first part takes the room of all; the others come over what is too much.
        let start = injector.map((fd, *first, access), len, prot, flags, place)?;
        let mut at = start + region.parts[0].1;
        for (from, len) in rest {
            let over = MapAt::Exactly(at, libc::MAP_FIXED);
            if let Err(errno) = injector.map((fd, *from, access), *len, prot, flags, over) {
                // A part of it is worse than none.
                let _ = injector.call(libc::SYS_munmap, [start, len.saturating_add(at - start), 0, 0, 0, 0]);
                return Err(errno);
            }
            at += len;
        }
        Ok(start)
    }
}
