//! Processes as they ran, replayed: sideband records in, and for any moment the processes, threads and mappings
//! out.
//!
//! [`Session`] is told each record in the order of time ([`Ordered`](crate::Ordered) gives that) and can be
//! asked at any point what an address of a thread was then. It names things; what is in the files it names,
//! such as symbols, is for others. Memory follows the number of distinct things, not of records: maps are
//! shared between a process and its forked child until one of them changes.

mod maps;
mod objects;
#[cfg(test)]
mod tests;
mod text;

pub use maps::{Map, Maps};
pub use objects::{Object, ObjectId, ObjectKind};
pub use text::KernelText;

use maps::Held;
use objects::Objects;
use perfuse_abi::record::{
    BuildId, CpuMode, Decoded, Ksymbol, KsymbolFlags, Misc, MmapFile, NamespaceLink, Record, Tid,
};
use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// So many ended processes are remembered: their last samples may come after their end.
const ENDED: usize = 4096;
/// More processes, threads, names, cgroups and BPF programs than this are not told apart.
const MOST: usize = 1 << 19;
/// Of names of threads and of cgroups, each, no more than so many bytes are kept.
const MOST_TEXT: usize = 32 << 20;
/// An image of Linux is at most this large, on x86 and on arm64.
const LARGEST_KERNEL: u64 = 1 << 30;

/// The name of a thread, as a number: [`Session::comm`] has the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommId(pub u32);

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Thread {
    /// Its process.
    pub pid: u32,
    /// The thread that made it, if that was told.
    pub parent: Option<u32>,
    /// Its name.
    pub comm: CommId,
    /// Whether it ended.
    pub ended: bool,
    /// Its namespaces by [`Namespace`](perfuse_abi::record::Namespace), if they were told.
    pub namespaces: Arc<[NamespaceLink]>,
}

/// The owner of the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// The kernel's.
    Kernel,
    /// The program's.
    User,
    /// A guest's kernel's.
    GuestKernel,
    /// A program's in a guest.
    GuestUser,
    /// The hypervisor's.
    Hypervisor,
    /// It was not recorded.
    Unknown,
}

impl Level {
    /// That of a record's flags.
    pub fn of(misc: Misc) -> Self {
        match misc.cpu_mode() {
            CpuMode::KERNEL => Level::Kernel,
            CpuMode::USER => Level::User,
            CpuMode::GUEST_KERNEL => Level::GuestKernel,
            CpuMode::GUEST_USER => Level::GuestUser,
            CpuMode::HYPERVISOR => Level::Hypervisor,
            _ => Level::Unknown,
        }
    }

    /// The text in place of an object where no mapping is known.
    pub fn object_name(self) -> &'static str {
        match self {
            Level::Kernel => "[kernel]",
            Level::GuestKernel => "[guest.kernel]",
            Level::GuestUser => "[guest.user]",
            Level::Hypervisor => "[hypervisor]",
            Level::User | Level::Unknown => "[unknown]",
        }
    }

    /// The letter that perf's reports show.
    pub fn letter(self) -> char {
        match self {
            Level::Kernel => 'k',
            Level::User => '.',
            Level::GuestKernel => 'g',
            Level::GuestUser => 'u',
            Level::Hypervisor => 'H',
            Level::Unknown => '?',
        }
    }
}

/// The meaning of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The mapping it lies in.
    pub map: Map,
    /// Whether the mapping is one of the kernel's; then the address is what its symbols count by.
    pub in_kernel: bool,
    /// The address as the mapped object counts: an offset in a file, or the address itself.
    pub place: u64,
}

/// A BPF program that was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BpfProgram {
    /// The hash of its instructions.
    pub tag: [u8; 8],
    /// Whether it is still loaded.
    pub loaded: bool,
}

/// Processes, threads and mappings at the moment of the record that was told last.
#[derive(Debug)]
pub struct Session {
    threads: HashMap<u32, Thread>,
    /// The maps of each process.
    maps: HashMap<u32, Arc<Maps>>,
    kernel: Arc<Maps>,
    guest_kernel: Arc<Maps>,
    nothing: Arc<Maps>,
    /// How many mappings there are in all maps.
    held: Held,
    objects: Objects,
    comms: Vec<Box<[u8]>>,
    /// Bytes of names of threads, and of cgroups.
    text_bytes: [usize; 2],
    comm_ids: HashMap<Box<[u8]>, CommId>,
    cgroups: HashMap<u64, Box<[u8]>>,
    bpf: HashMap<u32, BpfProgram>,
    ended: VecDeque<u32>,
    text: KernelText,
    dropped: u64,
}

impl Default for Session {
    fn default() -> Self {
        let held = Held::default();
        let mut session = Session {
            threads: HashMap::new(),
            maps: HashMap::new(),
            kernel: Arc::new(Maps::new(held.clone())),
            guest_kernel: Arc::new(Maps::new(held.clone())),
            nothing: Arc::default(),
            held,
            objects: Objects::default(),
            comms: Vec::new(),
            text_bytes: [0; 2],
            comm_ids: HashMap::new(),
            cgroups: HashMap::new(),
            bpf: HashMap::new(),
            ended: VecDeque::new(),
            text: KernelText::default(),
            dropped: 0,
        };
        let comm = session.intern(b"swapper");
        let idle = Thread { pid: 0, parent: None, comm, ended: false, namespaces: Arc::default() };
        session.threads.insert(0, idle);
        session
    }
}

impl Session {
    /// With nothing but the idle task.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in what a record tells; most samples tell nothing.
    pub fn apply(&mut self, decoded: &Decoded<'_>) {
        match &decoded.record {
            Record::Sample(_) => {}
            Record::Mmap(mmap) => {
                let range = (mmap.addr, mmap.len, mmap.pgoff);
                self.map(decoded.misc, mmap.tid, range, mmap.filename.as_bytes(), (None, 0), (0, 0));
            }
            Record::Mmap2(mmap) => {
                let range = (mmap.addr, mmap.len, mmap.pgoff);
                let file = match mmap.file {
                    MmapFile::BuildId(id) => (Some(id), 0),
                    MmapFile::Inode { ino, .. } => (None, ino),
                };
                let rights = (mmap.prot, mmap.flags);
                self.map(decoded.misc, mmap.tid, range, mmap.filename.as_bytes(), file, rights);
            }
            Record::Comm(comm) => {
                let id = self.intern(comm.name.as_bytes());
                if decoded.misc.contains(Misc::COMM_EXEC) {
                    if let Some(old) = self.maps.remove(&comm.tid.pid) {
                        self.maps.insert(comm.tid.pid, Arc::new(Maps::after_exec(old)));
                    }
                }
                if let Some(thread) = self.thread_mut(comm.tid) {
                    thread.comm = id;
                }
            }
            Record::Fork(task) => self.fork(task, !decoded.misc.contains(Misc::FORK_EXEC)),
            Record::Exit(task) => self.exit(task.tid),
            Record::Namespaces(namespaces) => {
                let links = namespaces.links.iter().take(16).collect();
                if let Some(thread) = self.thread_mut(namespaces.tid) {
                    thread.namespaces = links;
                }
            }
            Record::Ksymbol(symbol) => self.ksymbol(symbol),
            Record::BpfEvent(event) => match event.kind.0 {
                1 if self.bpf.len() < MOST => {
                    self.bpf.insert(event.id, BpfProgram { tag: event.tag, loaded: true });
                }
                1 => self.dropped += 1,
                2 => {
                    if let Some(program) = self.bpf.get_mut(&event.id) {
                        program.loaded = false;
                    }
                }
                _ => {}
            },
            Record::Cgroup(cgroup) => {
                let path = cgroup.path.as_bytes();
                if self.cgroups.len() < MOST && takes(&mut self.text_bytes[1], path) {
                    self.cgroups.insert(cgroup.id, path.into());
                } else {
                    self.dropped += 1;
                }
            }
            Record::TextPoke(poke) => self.text.poke(poke),
            _ => {}
        }
    }

    /// The meaning of an address of a thread. `None` if no mapping is known there, as for everything in a guest's
    /// programs and the hypervisor, of which a recording tells no maps: see [`Level::object_name`].
    ///
    /// This is where code was, which is all there is to know of what comes from a file. Where the process made
    /// code itself ([`Maps::jit_dump`]), what was there also depends on the time of the sample.
    #[inline]
    pub fn resolve(&self, pid: u32, tid: u32, level: Level, address: u64) -> Option<Resolved> {
        let (maps, in_kernel) = match level {
            Level::Kernel => (&*self.kernel, true),
            Level::GuestKernel => (&*self.guest_kernel, true),
            Level::User => (self.maps_of(pid, tid), false),
            _ => return None,
        };
        let map = maps.find(address)?;
        Some(Resolved { map, in_kernel, place: map.place(address) })
    }

    /// The kernel's own mapping, for an address that no mapping has and that lies behind its end. Recorders tell where the kernel's code
    /// ends, and there is more of it behind its data: what runs at the start, such as `start_kernel`, which is at the bottom of the
    /// first cpu's idle stacks. Only symbols tell whether the kernel has something there.
    pub fn behind_kernel(&self, level: Level, address: u64) -> Option<Resolved> {
        let maps = match level {
            Level::Kernel => &self.kernel,
            Level::GuestKernel => &self.guest_kernel,
            _ => return None,
        };
        let is_kernel = |map: &Map| matches!(self.object(map.object).kind, ObjectKind::Kernel { .. });
        let map = maps.last_from(address).filter(is_kernel)?;
        let is_near = (map.end..map.end.saturating_add(LARGEST_KERNEL)).contains(&address);
        is_near.then(|| Resolved { map, in_kernel: true, place: map.place(address) })
    }

    /// The maps that user addresses of a thread are looked up in. Those of its process, which a thread that
    /// was never told of has too.
    #[inline]
    pub fn maps_of(&self, pid: u32, tid: u32) -> &Maps {
        let process = self.maps.get(&pid).or_else(|| self.maps.get(&self.threads.get(&tid)?.pid));
        process.unwrap_or(&self.nothing)
    }

    /// The maps of the kernel: itself, its modules, BPF programs.
    pub fn kernel_maps(&self) -> &Maps {
        &self.kernel
    }

    /// A thread by its id.
    pub fn thread(&self, tid: u32) -> Option<&Thread> {
        self.threads.get(&tid)
    }

    /// All threads that are remembered, in no order.
    pub fn threads(&self) -> impl Iterator<Item = (u32, &Thread)> {
        self.threads.iter().map(|(&tid, thread)| (tid, thread))
    }

    /// The processes with maps, in no order.
    pub fn processes(&self) -> impl Iterator<Item = (u32, &Maps)> {
        self.maps.iter().map(|(&pid, maps)| (pid, &**maps))
    }

    /// The name that a thread has now. `None` if it was never told of: a process whose thread is ending has other samples with -1 in
    /// the place of its number.
    pub fn comm_of(&self, tid: u32) -> Option<CommId> {
        self.threads.get(&tid).map(|thread| thread.comm)
    }

    /// Its text; perf's name for a thread that has none, such as `:-1`.
    pub fn name_of(&self, tid: u32) -> Cow<'_, [u8]> {
        self.comm_of(tid).map_or_else(|| nameless(tid).into(), |comm| self.comm(comm).into())
    }

    /// The text of a name.
    pub fn comm(&self, id: CommId) -> &[u8] {
        self.comms.get(id.0 as usize).map_or(&[], |name| name)
    }

    /// A mapped object.
    pub fn object(&self, id: ObjectId) -> &Object {
        self.objects.get(id)
    }

    /// Everything that was mapped, in the order of its first mapping.
    pub fn objects(&self) -> impl Iterator<Item = (ObjectId, &Object)> {
        self.objects.iter()
    }

    /// Takes a build-id, of the section or of a record. The kernel's may be told under the name of the file that the
    /// recording machine had of it, which is its name from then on.
    pub fn set_build_id(&mut self, told: &crate::feature::BuildIdEntry<'_>) {
        let Some(id) = BuildId::new(told.bytes()) else { return };
        let name = told.name.as_bytes();
        match told.misc.cpu_mode() {
            CpuMode::KERNEL if !is_module_name(name) => self.objects.set_kernel(name, id),
            _ => self.objects.set_build_id(name, id),
        }
    }

    /// The path of a cgroup.
    pub fn cgroup(&self, id: u64) -> Option<&[u8]> {
        self.cgroups.get(&id).map(|path| &**path)
    }

    /// A BPF program by the kernel's number.
    pub fn bpf_program(&self, id: u32) -> Option<&BpfProgram> {
        self.bpf.get(&id)
    }

    /// The changes of the kernel's code up to now.
    pub fn kernel_text(&self) -> &KernelText {
        &self.text
    }

    /// How often a record told of more threads, mappings, names, cgroups or programs than are kept: what it told is not
    /// known.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn intern(&mut self, name: &[u8]) -> CommId {
        if let Some(&id) = self.comm_ids.get(name) {
            return id;
        }
        let id = CommId(self.comms.len() as u32);
        if self.comms.len() < MOST && takes(&mut self.text_bytes[0], name) {
            self.comms.push(name.into());
            self.comm_ids.insert(name.into(), id);
        } else {
            self.dropped += 1;
        }
        id
    }

    /// The thread, made if it is new; `None` if there are too many, or if it is one whose number is gone.
    fn thread_mut(&mut self, tid: Tid) -> Option<&mut Thread> {
        // A task that is ending has -1 for its number, and so has any other that is.
        if tid.tid == u32::MAX {
            return None;
        }
        if !self.threads.contains_key(&tid.tid) {
            if self.threads.len() >= MOST {
                self.dropped += 1;
                return None;
            }
            let comm = match self.threads.get(&tid.pid) {
                Some(leader) => leader.comm,
                None => self.intern(&nameless(tid.tid)),
            };
            let thread =
                Thread { pid: tid.pid, parent: None, comm, ended: false, namespaces: Arc::default() };
            self.threads.insert(tid.tid, thread);
        }
        let thread = self.threads.get_mut(&tid.tid)?;
        thread.pid = tid.pid;
        Some(thread)
    }

    fn fork(&mut self, task: &perfuse_abi::record::Task, clone_maps: bool) {
        let parent = self.threads.get(&task.ptid).or_else(|| self.threads.get(&task.ppid));
        let (comm, namespaces) = match parent {
            Some(parent) => (Some(parent.comm), parent.namespaces.clone()),
            None => (None, Arc::default()),
        };
        // The number may have been another's, who ended without a word.
        self.threads.remove(&task.tid);
        if task.pid != task.ppid {
            self.maps.remove(&task.pid);
            if clone_maps {
                if let Some(maps) = self.maps.get(&task.ppid).cloned() {
                    self.maps.insert(task.pid, maps);
                }
            }
        }
        if let Some(thread) = self.thread_mut(Tid { pid: task.pid, tid: task.tid }) {
            thread.parent = Some(task.ptid);
            thread.namespaces = namespaces;
            if let Some(comm) = comm {
                thread.comm = comm;
            }
        }
    }

    fn exit(&mut self, tid: u32) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        if std::mem::replace(&mut thread.ended, true) {
            return;
        }
        self.ended.push_back(tid);
        if self.ended.len() > ENDED {
            let Some(oldest) = self.ended.pop_front() else { return };
            // The number may be in use again.
            if self.threads.get(&oldest).is_some_and(|thread| thread.ended) {
                self.threads.remove(&oldest);
                self.maps.remove(&oldest);
            }
        }
    }

    fn map(
        &mut self,
        misc: Misc,
        tid: Tid,
        (start, len, pgoff): (u64, u64, u64),
        name: &[u8],
        (build_id, inode): (Option<BuildId>, u64),
        (prot, flags): (u32, u32),
    ) {
        let level = Level::of(misc);
        let end = match len {
            // Old perf did not know where the kernel ends.
            0 if level == Level::Kernel => u64::MAX,
            len => start.saturating_add(len),
        };
        if start >= end {
            return;
        }
        let in_kernel = matches!(level, Level::Kernel | Level::GuestKernel);
        let kind = match name.iter().position(|&byte| byte == b']') {
            Some(end) if in_kernel && is_kernel_name(name) => {
                let symbol = name[end + 1..].into();
                ObjectKind::Kernel { symbol, address: pgoff }
            }
            _ if in_kernel => ObjectKind::Module { base: start },
            _ => ObjectKind::User,
        };
        let name = match kind {
            ObjectKind::Kernel { .. } => {
                &name[..name.len() - name.iter().rev().position(|&b| b == b']').unwrap_or(0)]
            }
            _ => name,
        };
        let by_address = match kind {
            // A program in memory that the kernel knew the build-id of is a file all the same.
            ObjectKind::User => has_no_file(name) && build_id.is_none(),
            _ => true,
        };
        let is_dump = kind == ObjectKind::User && is_jit_dump(name);
        let is_vdso = kind == ObjectKind::User && name == b"[vdso]";
        let Some(object) = self.objects.intern(name, kind, build_id) else {
            self.dropped += 1;
            return;
        };
        let pid = if in_kernel { 0 } else { tid.pid };
        let map = Map { start, end, pgoff, object, pid, prot, flags, inode, by_address };
        let maps = match level {
            Level::Kernel => &mut self.kernel,
            Level::GuestKernel => &mut self.guest_kernel,
            Level::User | Level::Unknown => {
                if self.maps.len() >= MOST && !self.maps.contains_key(&tid.pid) {
                    self.dropped += 1;
                    return;
                }
                self.thread_mut(tid);
                let held = &self.held;
                self.maps.entry(tid.pid).or_insert_with(|| Arc::new(Maps::new(held.clone())))
            }
            Level::GuestUser | Level::Hypervisor => return,
        };
        let maps = Arc::make_mut(maps);
        if maps.is_moved_text(&map) {
            return;
        }
        let is_kept = maps.insert(map, is_vdso);
        self.dropped += u64::from(!is_kept);
        if let Some(text) = maps.moved_text_before(&map) {
            maps.insert(text, false);
        }
        if is_dump {
            maps.set_jit_dump(map);
        }
    }

    fn ksymbol(&mut self, symbol: &Ksymbol<'_>) {
        let kernel = Arc::make_mut(&mut self.kernel);
        if symbol.flags.contains(KsymbolFlags::UNREGISTER) {
            return kernel.remove_symbol(symbol.addr);
        }
        let (start, end) = (symbol.addr, symbol.addr.saturating_add(symbol.len.into()));
        let kind = ObjectKind::KernelSymbol;
        let Some(object) = self.objects.intern(symbol.name.as_bytes(), kind, None) else {
            self.dropped += 1;
            return;
        };
        if start < end {
            let (pid, prot, flags, inode) = (0, 0, 0, 0);
            let is_kept = kernel.insert_symbol(Map {
                start,
                end,
                pgoff: start,
                object,
                pid,
                prot,
                flags,
                inode,
                by_address: true,
            });
            self.dropped += u64::from(!is_kept);
        }
    }
}

/// perf's name for a thread whose name no record tells.
fn nameless(tid: u32) -> Vec<u8> {
    format!(":{}", tid as i32).into_bytes()
}

/// Whether there is room for a text, of which the bytes are counted then.
fn takes(bytes: &mut usize, text: &[u8]) -> bool {
    let has_room = *bytes + text.len() <= MOST_TEXT;
    *bytes += if has_room { text.len() } else { 0 };
    has_room
}

/// Whether this is the name of a kernel's own mapping, in a host or a guest.
fn is_kernel_name(name: &[u8]) -> bool {
    [&b"[kernel.kallsyms"[..], b"[kernel]", b"[guest.kernel.kallsyms"]
        .iter()
        .any(|start| name.starts_with(start))
}

/// Whether build-ids call a module of the kernel so, by its file or in brackets.
fn is_module_name(name: &[u8]) -> bool {
    let endings: [&[u8]; 4] = [b".ko", b".ko.gz", b".ko.xz", b".ko.zst"];
    let is_file = endings.iter().any(|ending| name.ends_with(ending));
    is_file || name.starts_with(b"[") && !is_kernel_name(name)
}

/// Whether this is the name of a jitdump, which a compiler that follows perf's convention maps to tell of it.
pub(crate) fn is_jit_dump(name: &[u8]) -> bool {
    let file = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
    let number = file.strip_prefix(b"jit-").and_then(|rest| rest.strip_suffix(b".dump"));
    number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

/// Whether a mapping has nothing behind it in which an offset would mean something.
fn has_no_file(name: &[u8]) -> bool {
    let starts: [&[u8]; 9] = [
        b"//anon",
        b"/anon_hugepage",
        b"/dev/zero",
        b"/dev/ashmem",
        b"/memfd:",
        b"/SYSV",
        b"[anon",
        b"[heap]",
        b"[stack",
    ];
    name.is_empty() || name == b"[vsyscall]" || starts.iter().any(|start| name.starts_with(start))
}
