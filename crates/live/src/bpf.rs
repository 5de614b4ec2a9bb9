//! `bpf(2)` in the kernel's place, for the programs of one hosting: maps, programs and links with their ids, open files of these,
//! and how long each lives. The objects themselves are those of `perfuse-bpf`, which verifies programs and runs them.
//!
//! A front answers the calls by [`Shared::call`]: it is the [`Caller`], whose memory and descriptors the arguments name, and makes
//! descriptors of the files that are opened. A program on an event is an [`Attachment`], which the engine runs.
//!
//! - `attr`: the arguments of a call.
//! - `maps`, `programs`, `types`, `info`: the commands.
//! - `test_run`: `BPF_PROG_TEST_RUN`.
//! - `run`: programs on events, and what their helpers see.
//! - `tasks`: what the kernel would have of the threads that programs run for.
//! - `mapped`: memory of maps that tools have mapped.
//!
//! An object lives as long as something leads to it: a file, a program that uses a map, an array of programs, an event or a link. What
//! nothing leads to is found by going from there, as arrays of programs may lead in circles.

mod attr;
mod info;
mod mapped;
mod maps;
mod programs;
mod run;
mod tasks;
mod test_run;
#[cfg(test)]
mod tests;
mod types;

use crate::proc;
use crate::ptrace::Tid;
use attr::Attr;
use perfuse_abi::Errno;
use perfuse_bpf::{Fault, Machine, MapId, MapKind, Maps, ProgramId, ProgramType};
use perfuse_engine::{BpfProgram, Engine, EventKey, ProgramKind, TaskId};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Memory that all maps of a hosting may take together.
const MAPS_LIMIT: u64 = 512 << 20;
/// Instructions that all programs of a hosting may have together.
const INSTRUCTIONS_LIMIT: usize = 4 << 20;

/// Commands that take more than the objects.
pub(crate) const TEST_RUN: u32 = 10;
pub(crate) const LINK_CREATE: u32 = 28;

/// An open file, as copies of its descriptor share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileId(u64);

/// An object, by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Object {
    Map(u32),
    Program(u32),
    Link(u32),
    Types(u32),
}

#[derive(Clone, Copy, Debug)]
struct File {
    object: Object,
    reads: bool,
    writes: bool,
}

/// The kind of file that a caller's descriptor has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// Not open.
    Nothing,
    /// Of something else.
    Other,
    /// Of an event.
    Event(EventKey),
    /// Of an object here.
    Bpf(FileId),
}

/// The thread that calls, with its memory and descriptors.
pub(crate) trait Caller {
    /// Reads memory: `EFAULT`.
    fn read(&self, addr: u64, into: &mut [u8]) -> Result<(), Errno>;

    /// Writes memory: `EFAULT`.
    fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Errno>;

    /// The file of a descriptor of its own.
    fn opened(&self, fd: i32) -> Opened;

    /// The file of a descriptor of another process, by the number that the caller has for that; `None`: there is no such process.
    fn opened_in(&self, pid: i32, fd: i32) -> Option<Opened>;

    /// The id of the cgroup whose directory a descriptor of its own has open: `EBADF`.
    fn cgroup(&self, fd: i32) -> Result<u64, Errno>;

    /// The real user.
    fn uid(&self) -> u32;

    /// Process and thread.
    fn thread(&self) -> (Tid, Tid);

    /// An event is open from now on by one descriptor more: an array or a link has it.
    fn hold(&mut self, event: EventKey);
}

/// A probe, as the one who opened it named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) path: Vec<u8>,
    pub(crate) offset: u64,
    pub(crate) semaphore: u64,
    pub(crate) returns: bool,
}

/// The machine around the objects.
pub(crate) struct Kernel<'a> {
    pub(crate) engine: &'a mut Engine,
    /// The caller's cpu, where it is if the command is [`TEST_RUN`], and the time.
    pub(crate) place: (u32, u64),
    /// The probe of an event, if it is one's.
    pub(crate) probe_of: &'a dyn Fn(EventKey) -> Option<Probe>,
}

/// The answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A number, 0 for most.
    Number(u64),
    /// A descriptor of this file.
    Opens(FileId),
}

const DONE: Result<Reply, Errno> = Ok(Reply::Number(0));

/// Something to be told to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// The tool asked for something that is not served.
    NotServed(String),
    /// A program ended before its end.
    Faulted(String, Fault),
}

#[derive(Debug)]
struct Map {
    map: MapId,
    name: [u8; 16],
    /// Open files.
    files: usize,
    /// The elements of an array of events or programs, by place: the file through which each was set (rule K22), and its number.
    set_by: BTreeMap<u32, (FileId, u32)>,
    /// The types that it was made with: their id, that of keys, and that of values.
    types: [u32; 3],
    /// The type of the programs of an array of programs, once there is one.
    owner: Option<ProgramType>,
    mapped: Option<mapped::Mapped>,
}

#[derive(Debug)]
struct Program {
    program: ProgramId,
    program_type: ProgramType,
    name: [u8; 16],
    gpl: bool,
    slots: Vec<u8>,
    maps: Vec<u32>,
    types: Option<u32>,
    loaded_ns: u64,
    uid: u32,
    /// The process that loaded it.
    process: Tid,
    sees: Sight,
    tag: [u8; 8],
    attachments: Vec<Weak<Attachment>>,
    faulted: bool,
}

/// The tasks whose hits of a tracepoint or a probe a program may see: those that the one who loaded it may look at.
#[derive(Clone, Debug)]
pub(crate) enum Sight {
    All,
    Of(proc::Credentials),
}

impl Sight {
    pub(crate) fn of(loader: Tid) -> Self {
        match proc::may_measure_all(loader) {
            true => Sight::All,
            false => Sight::Of(proc::Credentials::of(loader)),
        }
    }

    pub(crate) fn has(&self, tid: Tid) -> bool {
        match self {
            Sight::All => true,
            Sight::Of(credentials) => credentials.may_look_at(tid),
        }
    }
}

#[derive(Debug)]
struct Link {
    program: u32,
    event: EventKey,
    cookie: u64,
    /// Open files.
    files: usize,
}

/// All objects of a hosting.
#[derive(Debug)]
struct State {
    machine: Machine,
    maps: BTreeMap<u32, Map>,
    programs: BTreeMap<u32, Program>,
    /// Their ids by the numbers of the machine.
    ids: BTreeMap<ProgramId, u32>,
    links: BTreeMap<u32, Link>,
    types: BTreeMap<u32, types::Types>,
    files: BTreeMap<FileId, File>,
    /// Events in arrays, by the number that the arrays have.
    events: BTreeMap<u32, EventKey>,
    /// Events of probes whose programs run at the hits of all tasks that these may see.
    carriers: BTreeSet<EventKey>,
    /// Events that an array or a link no longer has.
    released: Vec<EventKey>,
    /// Rings with a record for a reader who waits.
    woken: BTreeSet<u32>,
    threads: BTreeMap<TaskId, (Tid, Tid)>,
    told: Vec<Told>,
    /// Files that were closed since objects were last collected.
    stale: usize,
    last: [u32; 5],
    last_file: u64,
    random: u64,
}

/// The objects, as calls, programs on events and the machine share them.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<Mutex<State>>);

/// A program on an event.
#[derive(Debug)]
pub(crate) struct Attachment {
    state: Weak<Mutex<State>>,
    program: u32,
    cookie: u64,
}

/// Places of the last numbers.
const MAP: usize = 0;
const PROGRAM: usize = 1;
const LINK: usize = 2;
const EVENT: usize = 3;
const TYPES: usize = 4;

impl Shared {
    /// Without objects.
    pub(crate) fn new() -> Self {
        let seed = RandomState::new().hash_one(0);
        let cpus = perfuse_sys::thread::possible_cpus().clamp(1, 1 << 14) as u32;
        Shared(Arc::new(Mutex::new(State {
            machine: Machine::new(Maps::new(cpus, MAPS_LIMIT, seed)),
            maps: BTreeMap::new(),
            programs: BTreeMap::new(),
            ids: BTreeMap::new(),
            links: BTreeMap::new(),
            types: BTreeMap::new(),
            files: BTreeMap::new(),
            events: BTreeMap::new(),
            carriers: BTreeSet::new(),
            released: Vec::new(),
            woken: BTreeSet::new(),
            threads: BTreeMap::new(),
            told: Vec::new(),
            stale: 0,
            last: [0; 5],
            last_file: 0,
            random: seed,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers `bpf(2)`: a command, the address of its arguments, and how many bytes these have.
    pub(crate) fn call(
        &self,
        kernel: &mut Kernel<'_>,
        caller: &mut dyn Caller,
        command: u32,
        addr: u64,
        size: u32,
    ) -> Result<Reply, Errno> {
        let attr = Attr::read(caller, addr, size)?;
        let mut state = self.lock();
        state.know_kernel();
        match command {
            LINK_CREATE => state.create_link(self, kernel.engine, caller, &attr),
            command => state.command(kernel, caller, command, &attr),
        }
    }

    /// The last descriptor of a file is closed.
    pub(crate) fn closed(&self, engine: &mut Engine, file: FileId) {
        let mut state = self.lock();
        let Some(File { object, .. }) = state.files.remove(&file) else { return };
        match object {
            Object::Map(id) => state.map_is_closed(id, file),
            Object::Link(id) => state.end_link(engine, id),
            Object::Types(id) => drop(state.types.get_mut(&id).map(|own| own.files -= 1)),
            Object::Program(_) => {}
        }
        state.stale += 1;
        // So that all of it costs as much as what there is.
        if state.stale > 16 + (state.maps.len() + state.programs.len()) / 2 {
            state.collect();
        }
    }

    /// The program of a file, to be attached to an event without a cookie. `EINVAL` of another object.
    pub(crate) fn program(&self, file: FileId) -> Result<BpfProgram, Errno> {
        let mut state = self.lock();
        let Some(&File { object: Object::Program(id), .. }) = state.files.get(&file) else {
            return Err(Errno::EINVAL);
        };
        state.attachment(self, id, 0)
    }

    /// Whether a program was ever loaded: who may do that may ask for programs, too (rule K10).
    pub(crate) fn is_used(&self) -> bool {
        self.lock().last[PROGRAM] > 0
    }

    /// Events that are open by one descriptor less.
    pub(crate) fn take_released(&self) -> Vec<EventKey> {
        std::mem::take(&mut self.lock().released)
    }

    /// News for the user, each of which is handed over once.
    pub(crate) fn take_told(&self) -> Vec<Told> {
        std::mem::take(&mut self.lock().told)
    }

    /// Whether any program of a tracepoint may see the hits of a thread.
    pub(crate) fn may_trace(&self, tid: Tid) -> bool {
        let state = self.lock();
        let mut programs = state.programs.values();
        programs.any(|own| own.program_type == ProgramType::Tracepoint && own.sees.has(tid))
    }

    /// Whether a process has loaded programs of this type.
    pub(crate) fn has_loaded(&self, process: Tid, program_type: ProgramType) -> bool {
        let state = self.lock();
        let mut programs = state.programs.values();
        programs.any(|own| own.program_type == program_type && own.process == process)
    }

    /// The program of an event of a probe runs at the hits of all tasks that it may see, or no longer.
    pub(crate) fn set_carrier(&self, event: EventKey, carries: bool) {
        let carriers = &mut self.lock().carriers;
        let _ = if carries { carriers.insert(event) } else { carriers.remove(&event) };
    }

    /// A task is this process and thread from now on; `None`: it is gone.
    pub(crate) fn set_thread(&self, task: TaskId, numbers: Option<(Tid, Tid)>) {
        let threads = &mut self.lock().threads;
        match numbers {
            Some(numbers) => drop(threads.insert(task, numbers)),
            None => drop(threads.remove(&task)),
        }
    }

    /// What `/proc` says of a file of this object.
    pub(crate) fn name_of(&self, file: FileId) -> &'static str {
        match self.lock().files.get(&file).map(|file| file.object) {
            Some(Object::Map(_)) | None => "anon_inode:bpf-map",
            Some(Object::Program(_)) => "anon_inode:bpf-prog",
            Some(Object::Link(_)) => "anon_inode:bpf_link",
            Some(Object::Types(_)) => "anon_inode:btf",
        }
    }

    /// How a file is open, as `F_GETFL` tells it.
    pub(crate) fn access_of(&self, file: FileId) -> i32 {
        match self.lock().files.get(&file) {
            Some(File { reads: true, writes: false, .. }) => libc::O_RDONLY,
            Some(File { reads: false, writes: true, .. }) => libc::O_WRONLY,
            _ => libc::O_RDWR,
        }
    }
}

impl State {
    fn command(
        &mut self,
        kernel: &mut Kernel<'_>,
        caller: &mut dyn Caller,
        command: u32,
        attr: &Attr,
    ) -> Result<Reply, Errno> {
        const NOT_SERVED: [(u32, &str); 10] = [
            (6, "BPF_OBJ_PIN"),
            (7, "BPF_OBJ_GET"),
            (8, "BPF_PROG_ATTACH"),
            (9, "BPF_PROG_DETACH"),
            (16, "BPF_PROG_QUERY"),
            (17, "BPF_RAW_TRACEPOINT_OPEN"),
            (32, "BPF_ENABLE_STATS"),
            (33, "BPF_ITER_CREATE"),
            (36, "BPF_TOKEN_CREATE"),
            (37, "BPF_PROG_STREAM_READ_BY_FD"),
        ];
        if matches!(command, 11..=14 | 19 | 23 | 30 | 31) {
            self.collect();
        }
        match command {
            0 => self.create_map(caller, attr),
            1 => self.lookup(caller, attr),
            2 => self.update(kernel.engine, caller, attr),
            3 => self.delete(caller, attr),
            4 => self.next_key(caller, attr),
            5 => self.load(caller, attr),
            TEST_RUN => self.test_run(kernel, caller, attr),
            11 => next_id(caller, attr, &self.programs),
            12 => next_id(caller, attr, &self.maps),
            31 => next_id(caller, attr, &self.links),
            23 => next_id(caller, attr, &self.types),
            13 => self.open_by_id(attr, Object::Program),
            14 => self.open_by_id(attr, Object::Map),
            19 => self.open_by_id(attr, Object::Types),
            30 => self.open_by_id(attr, Object::Link),
            18 => self.load_types(caller, attr),
            15 => self.info(kernel, caller, attr),
            20 => self.query_descriptor(kernel, caller, attr),
            21 => self.take(caller, attr),
            22 => self.freeze(caller, attr),
            24..=27 => self.batch(kernel.engine, caller, command, attr),
            29 => self.update_link(caller, attr),
            34 => self.detach_link(caller, attr),
            35 => self.bind_map(caller, attr),
            command => {
                if let Some((_, name)) = NOT_SERVED.iter().find(|(number, _)| *number == command) {
                    self.tell_not_served((*name).to_owned());
                }
                Err(Errno::EINVAL)
            }
        }
    }

    fn tell_not_served(&mut self, what: String) {
        self.told.push(Told::NotServed(what));
    }

    fn number(&mut self, which: usize) -> u32 {
        self.last[which] = self.last[which].wrapping_add(1).max(1);
        self.last[which]
    }

    fn open(&mut self, object: Object, reads: bool, writes: bool) -> FileId {
        self.last_file += 1;
        let file = FileId(self.last_file);
        match object {
            Object::Map(id) => drop(self.maps.get_mut(&id).map(|own| own.files += 1)),
            Object::Link(id) => drop(self.links.get_mut(&id).map(|own| own.files += 1)),
            Object::Types(id) => drop(self.types.get_mut(&id).map(|own| own.files += 1)),
            Object::Program(_) => {}
        }
        self.files.insert(file, File { object, reads, writes });
        file
    }

    /// The file of a descriptor: `EBADF`, `EINVAL`.
    fn file(&self, caller: &dyn Caller, fd: i32) -> Result<(FileId, File), Errno> {
        match caller.opened(fd) {
            Opened::Nothing => Err(Errno::EBADF),
            Opened::Bpf(id) => self.files.get(&id).map(|file| (id, *file)).ok_or(Errno::EINVAL),
            Opened::Other | Opened::Event(_) => Err(Errno::EINVAL),
        }
    }

    fn program_of(&self, caller: &dyn Caller, fd: i32) -> Result<u32, Errno> {
        match self.file(caller, fd)?.1.object {
            Object::Program(id) => Ok(id),
            _ => Err(Errno::EINVAL),
        }
    }

    /// `BPF_*_GET_FD_BY_ID`.
    fn open_by_id(&mut self, attr: &Attr, object: fn(u32) -> Object) -> Result<Reply, Errno> {
        let (id, flags) = (attr.u32(0), attr.u32(8));
        let object = object(id);
        match object {
            Object::Map(_) => attr.ends_at(12)?,
            Object::Types(_) => attr.ends_at(16)?,
            Object::Program(_) | Object::Link(_) => attr.ends_at(4)?,
        }
        let there = match object {
            Object::Map(id) => self.maps.contains_key(&id),
            Object::Program(id) => self.programs.contains_key(&id),
            Object::Link(id) => self.links.contains_key(&id),
            Object::Types(id) => self.types.contains_key(&id),
        };
        let known = if matches!(object, Object::Map(_)) { maps::ACCESS } else { 0 };
        if flags & !known != 0 {
            return Err(Errno::EINVAL);
        }
        if !there {
            return Err(Errno::ENOENT);
        }
        let (reads, writes) = maps::access(flags)?;
        Ok(Reply::Opens(self.open(object, reads, writes)))
    }

    /// A program as the engine attaches it.
    fn attachment(&mut self, shared: &Shared, id: u32, cookie: u64) -> Result<BpfProgram, Errno> {
        let program = self.programs.get_mut(&id).ok_or(Errno::EBADF)?;
        let run = Arc::new(Attachment { state: Arc::downgrade(&shared.0), program: id, cookie });
        program.attachments.retain(|other| other.strong_count() > 0);
        program.attachments.push(Arc::downgrade(&run));
        let kind = match program.program_type {
            ProgramType::Kprobe => ProgramKind::Kprobe,
            ProgramType::Tracepoint => ProgramKind::Tracepoint,
            ProgramType::PerfEvent => ProgramKind::PerfEvent,
            _ => ProgramKind::Other,
        };
        let verified = self.machine.program(program.program)?.verified();
        Ok(BpfProgram { id, kind, wants_stacks: verified.wants_stacks, run })
    }

    /// `BPF_LINK_CREATE` on an event (rules K2, K33).
    fn create_link(
        &mut self,
        shared: &Shared,
        engine: &mut Engine,
        caller: &mut dyn Caller,
        attr: &Attr,
    ) -> Result<Reply, Errno> {
        const PERF_EVENT: u32 = 41;
        attr.ends_at(60)?;
        let [program, target] = [0, 4].map(|at| attr.u32(at) as i32);
        let (attach_type, flags, cookie) = (attr.u32(8), attr.u32(12), attr.u64(16));
        let id = self.program_of(caller, program)?;
        let on_events = matches!(
            self.programs[&id].program_type,
            ProgramType::Kprobe | ProgramType::Tracepoint | ProgramType::PerfEvent
        );
        if !on_events || attach_type != PERF_EVENT || flags != 0 {
            return Err(Errno::EINVAL);
        }
        let Opened::Event(event) = caller.opened(target) else { return Err(Errno::EBADF) };
        let attachment = self.attachment(shared, id, cookie)?;
        engine.attach_program(event, attachment)?;
        caller.hold(event);
        let link = self.number(LINK);
        self.links.insert(link, Link { program: id, event, cookie, files: 0 });
        Ok(Reply::Opens(self.open(Object::Link(link), true, true)))
    }

    fn end_link(&mut self, engine: &mut Engine, id: u32) {
        let Some(own) = self.links.get_mut(&id) else { return };
        own.files -= 1;
        if own.files > 0 {
            return;
        }
        if let Some(link) = self.links.remove(&id) {
            engine.detach_program(link.event);
            self.released.push(link.event);
        }
    }

    /// `BPF_LINK_DETACH`: links of events end when they are closed.
    fn detach_link(&self, caller: &dyn Caller, attr: &Attr) -> Result<Reply, Errno> {
        attr.ends_at(4)?;
        match self.file(caller, attr.u32(0) as i32)?.1.object {
            Object::Link(_) => Err(Errno::EOPNOTSUPP),
            _ => Err(Errno::EINVAL),
        }
    }

    /// `BPF_LINK_UPDATE`: links of events keep their program.
    fn update_link(&self, caller: &dyn Caller, attr: &Attr) -> Result<Reply, Errno> {
        attr.ends_at(16)?;
        self.file(caller, attr.u32(0) as i32)?;
        Err(Errno::EINVAL)
    }

    /// A file of a map is closed (rule K22).
    fn map_is_closed(&mut self, id: u32, file: FileId) {
        const PRESERVE_ELEMS: u32 = perfuse_bpf::map::flag::PRESERVE_ELEMS;
        let Some(own) = self.maps.get_mut(&id) else { return };
        own.files -= 1;
        let last = own.files == 0;
        let Ok(map) = self.machine.maps.get_mut(own.map) else { return };
        let goes = match map.spec().kind {
            MapKind::PerfEventArray => map.spec().flags & PRESERVE_ELEMS == 0,
            // Programs that wait in an array for each other would keep each other for ever.
            MapKind::ProgArray => last,
            _ => false,
        };
        if !goes {
            return;
        }
        let by_all = map.spec().kind == MapKind::ProgArray;
        let gone: Vec<u32> =
            own.set_by.values().filter(|(by, _)| by_all || *by == file).map(|set| set.1).collect();
        if by_all {
            map.retain_handles(|_| false);
            own.set_by.clear();
            return;
        }
        map.retain_handles(|handle| !gone.contains(&handle));
        own.set_by.retain(|_, (_, handle)| !gone.contains(handle));
        gone.into_iter().for_each(|handle| self.release_event(handle));
    }

    fn release_event(&mut self, handle: u32) {
        self.released.extend(self.events.remove(&handle));
    }

    /// Lets objects go that nothing leads to.
    fn collect(&mut self) {
        self.stale = 0;
        let (mut maps, mut programs) = (BTreeSet::new(), BTreeSet::new());
        let mut open_programs: Vec<u32> = self.links.values().map(|link| link.program).collect();
        let mut open_maps: Vec<u32> = Vec::new();
        for file in self.files.values() {
            match file.object {
                Object::Map(id) => open_maps.push(id),
                Object::Program(id) => open_programs.push(id),
                Object::Link(_) | Object::Types(_) => {}
            }
        }
        let is_attached = |program: &Program| program.attachments.iter().any(|one| one.strong_count() > 0);
        open_programs.extend(self.programs.iter().filter(|(_, own)| is_attached(own)).map(|(id, _)| *id));
        let is_mapped = |own: &Map| own.files == 0 && own.is_mapped();
        open_maps.extend(self.maps.iter().filter(|(_, own)| is_mapped(own)).map(|(id, _)| *id));
        while !open_maps.is_empty() || !open_programs.is_empty() {
            for id in std::mem::take(&mut open_programs) {
                if programs.insert(id) {
                    open_maps.extend(self.programs.get(&id).into_iter().flat_map(|own| &own.maps));
                }
            }
            for id in std::mem::take(&mut open_maps) {
                if maps.insert(id) {
                    open_programs.extend(self.programs_in(id));
                }
            }
        }
        let gone: Vec<u32> = self.programs.keys().filter(|id| !programs.contains(id)).copied().collect();
        for id in gone {
            if let Some(own) = self.programs.remove(&id) {
                self.ids.remove(&own.program);
                let unloaded = self.machine.unload(own.program);
                debug_assert!(unloaded.is_ok(), "each program is loaded once");
            }
        }
        let gone: Vec<u32> = self.maps.keys().filter(|id| !maps.contains(id)).copied().collect();
        for id in gone {
            let Some(own) = self.maps.remove(&id) else { continue };
            let is_of_events =
                self.machine.maps.get(own.map).is_ok_and(|map| map.spec().kind == MapKind::PerfEventArray);
            if is_of_events {
                own.set_by.into_values().for_each(|(_, handle)| self.release_event(handle));
            }
            let removed = self.machine.maps.remove(own.map);
            debug_assert!(removed.is_ok(), "each map is made once");
        }
        let of_programs = self.programs.values().filter_map(|own| own.types);
        let used: BTreeSet<u32> = of_programs.chain(self.maps.values().map(|own| own.types[0])).collect();
        self.types.retain(|id, own| *id == types::KERNEL || own.files > 0 || used.contains(id));
    }

    /// The programs in an array of programs, by their ids.
    fn programs_in(&self, map: u32) -> Vec<u32> {
        let Some(map) = self.maps.get(&map).and_then(|own| self.machine.maps.get(own.map).ok()) else {
            return Vec::new();
        };
        if map.spec().kind != MapKind::ProgArray {
            return Vec::new();
        }
        map.handles().filter_map(|handle| self.id_of(ProgramId(handle))).collect()
    }

    fn id_of(&self, program: ProgramId) -> Option<u32> {
        self.ids.get(&program).copied()
    }
}

/// `BPF_*_GET_NEXT_ID`.
fn next_id<T>(caller: &mut dyn Caller, attr: &Attr, all: &BTreeMap<u32, T>) -> Result<Reply, Errno> {
    attr.ends_at(8)?;
    let start = attr.u32(0);
    if start >= i32::MAX as u32 {
        return Err(Errno::EINVAL);
    }
    let next = all.range(start + 1..).next().ok_or(Errno::ENOENT)?;
    caller.write(attr.address_of(4), &next.0.to_ne_bytes())?;
    DONE
}

/// A name of an object (`bpf_obj_name_cpy`): `EINVAL`.
fn name(bytes: &[u8; 16]) -> Result<[u8; 16], Errno> {
    let end = bytes.iter().position(|byte| *byte == 0).ok_or(Errno::EINVAL)?;
    let fine = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    if !bytes[..end].iter().all(fine) {
        return Err(Errno::EINVAL);
    }
    let mut name = [0; 16];
    name[..end].copy_from_slice(&bytes[..end]);
    Ok(name)
}
