//! Maps: what programs share with each other and with whoever loaded them. A map is declared by a [`MapSpec`], made and charged
//! by [`Maps`], and used by the calls of `bpf(2)` ([`Map::lookup`], [`Map::update`], …) and by programs. Errors are Linux's errnos.
//! Values lie in memory of the map's own; programs know them by numbers (`memory.rs`), never by addresses of the host.

mod prefix;
mod ring;
mod table;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use perfuse_abi::Errno;
pub use ring::Ring;
use table::Table;

/// The errno of calls that a map has no answer to; only the kernel has it.
pub const ENOTSUPP: Errno = Errno(524);

/// `enum bpf_map_type`, as far as tracing programs use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapKind {
    /// Values by any key.
    Hash,
    /// Values by their number.
    Array,
    /// Programs to go on in.
    ProgArray,
    /// Events to write to and to read.
    PerfEventArray,
    /// A hash with a value for each cpu.
    PerCpuHash,
    /// An array with a value for each cpu.
    PerCpuArray,
    /// Callchains by their number.
    StackTrace,
    /// Cgroups to find tasks in.
    CgroupArray,
    /// A hash that gives up what was not used for longest.
    LruHash,
    /// The same, with a value for each cpu.
    LruPerCpuHash,
    /// Values by prefixes of bits: a key finds the longest one that it begins with.
    LpmTrie,
    /// First in, first out.
    Queue,
    /// Last in, first out.
    Stack,
    /// Records in order, for one reader.
    RingBuf,
}

/// With their numbers.
const KINDS: [(MapKind, u32, &str); 14] = [
    (MapKind::Hash, 1, "hash"),
    (MapKind::Array, 2, "array"),
    (MapKind::ProgArray, 3, "array of programs"),
    (MapKind::PerfEventArray, 4, "array of events"),
    (MapKind::PerCpuHash, 5, "per-cpu hash"),
    (MapKind::PerCpuArray, 6, "per-cpu array"),
    (MapKind::StackTrace, 7, "stack trace map"),
    (MapKind::CgroupArray, 8, "array of cgroups"),
    (MapKind::LruHash, 9, "LRU hash"),
    (MapKind::LruPerCpuHash, 10, "per-cpu LRU hash"),
    (MapKind::LpmTrie, 11, "trie of prefixes"),
    (MapKind::Queue, 22, "queue"),
    (MapKind::Stack, 23, "stack"),
    (MapKind::RingBuf, 27, "ring buffer"),
];

impl MapKind {
    /// Its number.
    pub fn number(self) -> u32 {
        KINDS.iter().find(|row| row.0 == self).map_or(0, |row| row.1)
    }

    /// The kind with this number, if it is one of those.
    pub fn of_number(number: u32) -> Option<MapKind> {
        KINDS.iter().find(|row| row.1 == number).map(|row| row.0)
    }

    /// In words.
    pub(crate) fn in_words(self) -> &'static str {
        KINDS.iter().find(|row| row.0 == self).map_or("", |row| row.2)
    }

    /// The kind that is called so [in words](Self::in_words).
    pub(crate) fn in_these_words(words: &str) -> Option<MapKind> {
        KINDS.iter().find(|row| row.2 == words).map(|row| row.0)
    }

    /// Whether each cpu has values of its own.
    pub fn is_per_cpu(self) -> bool {
        matches!(self, MapKind::PerCpuHash | MapKind::PerCpuArray | MapKind::LruPerCpuHash)
    }

    fn is_hash(self) -> bool {
        matches!(self, MapKind::Hash | MapKind::PerCpuHash) || self.is_lru()
    }

    fn is_lru(self) -> bool {
        matches!(self, MapKind::LruHash | MapKind::LruPerCpuHash)
    }

    /// Whether its values are objects of the owner's: programs, events, cgroups.
    pub fn has_objects(self) -> bool {
        matches!(self, MapKind::ProgArray | MapKind::PerfEventArray | MapKind::CgroupArray)
    }

    /// Whether programs get at values by `map_lookup_elem`.
    pub(crate) fn has_values(self) -> bool {
        self.is_hash() || matches!(self, MapKind::Array | MapKind::PerCpuArray | MapKind::LpmTrie)
    }
}

/// Flags of maps and of updates, with the names of `<linux/bpf.h>`.
#[allow(missing_docs, reason = "the names are those of the header")]
pub mod flag {
    pub const ANY: u64 = 0;
    pub const NOEXIST: u64 = 1;
    pub const EXIST: u64 = 2;
    pub const LOCK: u64 = 4;

    pub const NO_PREALLOC: u32 = 1 << 0;
    pub const NO_COMMON_LRU: u32 = 1 << 1;
    pub const NUMA_NODE: u32 = 1 << 2;
    pub const RDONLY: u32 = 1 << 3;
    pub const WRONLY: u32 = 1 << 4;
    pub const STACK_BUILD_ID: u32 = 1 << 5;
    pub const ZERO_SEED: u32 = 1 << 6;
    pub const RDONLY_PROG: u32 = 1 << 7;
    pub const WRONLY_PROG: u32 = 1 << 8;
    pub const MMAPABLE: u32 = 1 << 10;
    pub const PRESERVE_ELEMS: u32 = 1 << 11;
    pub const INNER_MAP: u32 = 1 << 12;
}
use flag::*;

/// A map as it is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapSpec {
    /// What it is.
    pub kind: MapKind,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value (of a cpu).
    pub value_size: u32,
    /// Values it has at most; of a ring buffer its bytes.
    pub max_entries: u32,
    /// Of [`flag`].
    pub flags: u32,
}

/// Callchains are at most so long (`kernel.perf_event_max_stack`).
const MOST_FRAMES: u32 = 127;
/// `KMALLOC_MAX_SIZE`.
const KMALLOC_MAX: u64 = 4 << 20;
/// `PCPU_MIN_UNIT_SIZE`.
const PER_CPU_MAX: u32 = 32 << 10;
const PAGE: u32 = 4096;
/// `LPM_VAL_SIZE_MAX`: what is left of an allocation.
const LPM_VALUE_MAX: u32 = KMALLOC_MAX as u32 - prefix::MOST_BYTES - 40;

impl MapSpec {
    /// A map without flags.
    pub const fn new(kind: MapKind, key_size: u32, value_size: u32, max_entries: u32) -> Self {
        MapSpec { kind, key_size, value_size, max_entries, flags: 0 }
    }

    /// What Linux would say to it.
    pub fn check(&self) -> Result<(), Errno> {
        let &MapSpec { kind, key_size, value_size, max_entries, flags } = self;
        let access = RDONLY | WRONLY | RDONLY_PROG | WRONLY_PROG;
        let known = match kind {
            MapKind::Array => NUMA_NODE | access | MMAPABLE | INNER_MAP,
            MapKind::PerCpuArray => access,
            MapKind::ProgArray | MapKind::CgroupArray => NUMA_NODE | RDONLY | WRONLY,
            MapKind::PerfEventArray => NUMA_NODE | RDONLY | WRONLY | PRESERVE_ELEMS,
            MapKind::StackTrace => NUMA_NODE | RDONLY | WRONLY | STACK_BUILD_ID,
            MapKind::Queue | MapKind::Stack => NUMA_NODE | access,
            MapKind::RingBuf => NUMA_NODE,
            MapKind::LpmTrie => NO_PREALLOC | NUMA_NODE | access,
            _ => NO_PREALLOC | NO_COMMON_LRU | NUMA_NODE | access | ZERO_SEED,
        };
        let both = |flags: u32, a: u32, b: u32| flags & (a | b) == a | b;
        let wrong = flags & !known != 0
            || both(flags, RDONLY_PROG, WRONLY_PROG)
            || both(flags, RDONLY, WRONLY)
            || flags & NO_COMMON_LRU != 0 && !kind.is_lru();
        if wrong {
            return Err(Errno::EINVAL);
        }
        if kind.is_lru() && flags & NO_PREALLOC != 0 {
            return Err(ENOTSUPP);
        }
        if kind.is_per_cpu() && flags & NUMA_NODE != 0 {
            return Err(Errno::EINVAL);
        }
        let sizes = match kind {
            MapKind::Array | MapKind::PerCpuArray => key_size == 4 && value_size != 0 && max_entries != 0,
            _ if kind.has_objects() => key_size == 4 && value_size == 4 && max_entries != 0,
            MapKind::StackTrace => {
                let (frame, most) =
                    if flags & STACK_BUILD_ID != 0 { (32, MOST_FRAMES) } else { (8, MOST_FRAMES) };
                let frames = value_size / frame;
                key_size == 4 && max_entries != 0 && frames != 0 && value_size % frame == 0 && frames <= most
            }
            MapKind::Queue | MapKind::Stack => key_size == 0 && value_size != 0 && max_entries != 0,
            MapKind::LpmTrie => {
                (5..=prefix::MOST_BYTES).contains(&key_size)
                    && (1..=LPM_VALUE_MAX).contains(&value_size)
                    && max_entries != 0
                    && flags & NO_PREALLOC != 0
            }
            MapKind::RingBuf => {
                key_size == 0 && value_size == 0 && max_entries.is_power_of_two() && max_entries % PAGE == 0
            }
            _ => key_size != 0 && value_size != 0 && max_entries != 0,
        };
        if !sizes {
            return Err(Errno::EINVAL);
        }
        let too_big = match kind {
            MapKind::Array => value_size > i32::MAX as u32,
            MapKind::Queue | MapKind::Stack => u64::from(value_size) > KMALLOC_MAX,
            _ if kind.is_hash() => u64::from(key_size) + u64::from(value_size) >= KMALLOC_MAX - 64,
            _ => false,
        };
        if too_big || kind.is_per_cpu() && value_size > PER_CPU_MAX {
            return Err(Errno::E2BIG);
        }
        Ok(())
    }

    /// Bytes that the map may take in the end.
    pub fn cost_bytes(&self, cpus: u32) -> u64 {
        let cells = if self.kind.is_per_cpu() { u64::from(cpus) } else { 1 };
        let value = u64::from(self.value_size).next_multiple_of(8).saturating_mul(cells);
        let each = match self.kind {
            MapKind::RingBuf => return u64::from(self.max_entries),
            kind if kind.has_objects() => 8,
            MapKind::Array | MapKind::PerCpuArray => value,
            MapKind::StackTrace => value + 16,
            MapKind::LpmTrie => value + 3 * u64::from(self.key_size) + 160,
            // Of hashes the links, too.
            _ => value + u64::from(self.key_size) + 24,
        };
        each.saturating_mul(u64::from(self.max_entries))
    }
}

/// The number of a map among [`Maps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MapId(pub u32);

/// The maps of one owner, who says how much memory they may take together.
#[derive(Debug)]
pub struct Maps {
    maps: Vec<Option<Map>>,
    cpus: u32,
    used_bytes: u64,
    limit_bytes: u64,
    seed: u64,
}

/// So many maps can be named by pointers of programs.
const MOST_MAPS: usize = 60_000;

impl Maps {
    /// None yet, for a machine of so many cpus; `seed` keeps programs from guessing which keys of a hash collide.
    pub fn new(cpus: u32, limit_bytes: u64, seed: u64) -> Self {
        Maps { maps: Vec::new(), cpus: cpus.max(1), used_bytes: 0, limit_bytes, seed }
    }

    /// Makes a map. `ENOMEM` if it could outgrow the owner's limit; else as Linux.
    pub fn create(&mut self, spec: MapSpec) -> Result<MapId, Errno> {
        spec.check()?;
        let cost = spec.cost_bytes(self.cpus);
        if cost > self.limit_bytes - self.used_bytes {
            return Err(Errno::ENOMEM);
        }
        let id = match self.maps.iter().position(Option::is_none) {
            Some(free) => free,
            None if self.maps.len() >= MOST_MAPS => return Err(Errno::ENFILE),
            None => {
                self.maps.push(None);
                self.maps.len() - 1
            }
        };
        self.used_bytes += cost;
        self.seed = self.seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.maps[id] = Some(Map::new(spec, self.cpus, self.seed));
        Ok(MapId(id as u32))
    }

    /// The map with this number. `EBADF` if there is none.
    pub fn get(&self, id: MapId) -> Result<&Map, Errno> {
        self.maps.get(id.0 as usize).and_then(Option::as_ref).ok_or(Errno::EBADF)
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, id: MapId) -> Result<&mut Map, Errno> {
        self.maps.get_mut(id.0 as usize).and_then(Option::as_mut).ok_or(Errno::EBADF)
    }

    /// Frees a map. Programs that still name it fault where they touch it; the owner keeps maps as long as their programs.
    pub fn remove(&mut self, id: MapId) -> Result<(), Errno> {
        let place = self.maps.get_mut(id.0 as usize).ok_or(Errno::EBADF)?;
        let map = place.take().ok_or(Errno::EBADF)?;
        self.used_bytes -= map.spec.cost_bytes(self.cpus);
        Ok(())
    }

    /// Bytes that all maps may take in the end.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// For so many cpus.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }
}

/// A map.
#[derive(Debug)]
pub struct Map {
    spec: MapSpec,
    cells: u32,
    frozen: bool,
    /// Bytes of a value of one cpu, in whole words.
    cell_bytes: usize,
    /// Of a pointer into values, so many bits are the place in a cell: one more than it takes, so that what lies beyond a cell is
    /// never the next one.
    shift: u32,
    /// Values that programs point to, one cell after another.
    values: Vec<u8>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Array,
    Hash(Table),
    /// Keys cut to their bits; and as they were given, which readers of keys are told.
    Prefixes(Table, BTreeMap<Vec<u8>, Vec<u8>>),
    List(VecDeque<Box<[u8]>>),
    Ring(Ring),
    Stacks(Vec<Option<Box<[u64]>>>),
    Handles(Vec<Option<u32>>),
}

impl Map {
    fn new(spec: MapSpec, cpus: u32, seed: u64) -> Self {
        let entries = spec.max_entries as usize;
        let cells = if spec.kind.is_per_cpu() { cpus } else { 1 };
        let cell_bytes = (spec.value_size as usize).next_multiple_of(8);
        let (values, kind) = match spec.kind {
            MapKind::Array | MapKind::PerCpuArray => {
                (vec![0; entries * cells as usize * cell_bytes], Kind::Array)
            }
            kind if kind.has_objects() => (Vec::new(), Kind::Handles(vec![None; entries])),
            MapKind::StackTrace => (Vec::new(), Kind::Stacks(vec![None; entries.next_power_of_two()])),
            MapKind::Queue | MapKind::Stack => (Vec::new(), Kind::List(VecDeque::new())),
            MapKind::RingBuf => (Vec::new(), Kind::Ring(Ring::new(entries))),
            MapKind::LpmTrie => {
                let table = Table::new(spec.key_size as usize, entries, false, seed);
                (Vec::new(), Kind::Prefixes(table, BTreeMap::new()))
            }
            _ => (
                Vec::new(),
                Kind::Hash(Table::new(spec.key_size as usize, entries, spec.kind.is_lru(), seed)),
            ),
        };
        let shift = spec.value_size.max(1).next_power_of_two().trailing_zeros() + 1;
        Map { spec, cells, frozen: false, cell_bytes, shift, values, kind }
    }

    /// As it was declared.
    pub fn spec(&self) -> &MapSpec {
        &self.spec
    }

    /// Bytes of a value as the calls of `bpf(2)` have it: of all cpus, in whole words, where each has its own.
    pub fn user_value_bytes(&self) -> usize {
        match self.spec.kind {
            kind if kind.is_per_cpu() => self.cell_bytes * self.cells as usize,
            _ => self.spec.value_size as usize,
        }
    }

    /// From now on the calls of `bpf(2)` change nothing. `EBUSY` if that is so already.
    pub fn freeze(&mut self) -> Result<(), Errno> {
        if self.frozen {
            return Err(Errno::EBUSY);
        }
        self.frozen = true;
        Ok(())
    }

    /// Whether it was [frozen](Self::freeze).
    pub fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// Whether nobody can change the values any more: the verifier then reads them.
    pub fn is_constant(&self) -> bool {
        self.frozen && self.spec.flags & RDONLY_PROG != 0
    }

    /// Whether a program may read values.
    pub fn is_readable_by_programs(&self) -> bool {
        self.spec.flags & WRONLY_PROG == 0
    }

    /// Whether a program may write values.
    pub fn is_writable_by_programs(&self) -> bool {
        self.spec.flags & RDONLY_PROG == 0
    }

    fn may_be_read(&self) -> Result<(), Errno> {
        if self.spec.flags & WRONLY != 0 { Err(Errno::EPERM) } else { Ok(()) }
    }

    fn may_be_changed(&self) -> Result<(), Errno> {
        if self.spec.flags & RDONLY != 0 || self.frozen { Err(Errno::EPERM) } else { Ok(()) }
    }

    fn key<'a>(&self, key: &'a [u8]) -> Result<&'a [u8], Errno> {
        if key.len() == self.spec.key_size as usize { Ok(key) } else { Err(Errno::EINVAL) }
    }

    // The calls of bpf(2).

    /// `BPF_MAP_LOOKUP_ELEM`: a copy of the value, of all cpus where each has one. `ENOENT` if there is none.
    pub fn lookup(&self, key: &[u8]) -> Result<Vec<u8>, Errno> {
        self.may_be_read()?;
        let key = self.key(key)?;
        match &self.kind {
            Kind::Array | Kind::Hash(_) | Kind::Prefixes(..) => {
                let slot = self.slot(key).ok_or(Errno::ENOENT)?;
                let at = slot * self.cells as usize * self.cell_bytes;
                Ok(self.values[at..][..self.user_value_bytes()].to_vec())
            }
            Kind::List(list) => match self.spec.kind {
                MapKind::Queue => list.front(),
                _ => list.back(),
            }
            .map(|value| value.to_vec())
            .ok_or(Errno::ENOENT),
            Kind::Stacks(stacks) => {
                let stack = stacks.get(index(key)).and_then(Option::as_ref).ok_or(Errno::ENOENT)?;
                let mut value: Vec<u8> = stack.iter().flat_map(|frame| frame.to_ne_bytes()).collect();
                value.resize(self.spec.value_size as usize, 0);
                Ok(value)
            }
            Kind::Handles(handles) if self.spec.kind == MapKind::ProgArray => {
                let handle = handles.get(index(key)).copied().flatten().ok_or(Errno::ENOENT)?;
                Ok(handle.to_ne_bytes().to_vec())
            }
            Kind::Handles(_) | Kind::Ring(_) => Err(ENOTSUPP),
        }
    }

    /// `BPF_MAP_UPDATE_ELEM`. Of [arrays of objects](MapKind::has_objects) the value is the owner's number of the thing, which the owner has
    /// made of a descriptor.
    pub fn update(&mut self, key: &[u8], value: &[u8], flags: u64) -> Result<(), Errno> {
        self.may_be_changed()?;
        self.key(key)?;
        if value.len() != self.user_value_bytes() {
            return Err(Errno::EINVAL);
        }
        match &mut self.kind {
            Kind::Handles(handles) => {
                if flags != ANY {
                    return Err(Errno::EINVAL);
                }
                let place = handles.get_mut(index(key)).ok_or(Errno::E2BIG)?;
                *place = Some(u32::from_ne_bytes(value.try_into().map_err(|_| Errno::EINVAL)?));
                Ok(())
            }
            _ => self.set(key, value, flags, None),
        }
    }

    /// `BPF_MAP_DELETE_ELEM`.
    pub fn delete(&mut self, key: &[u8]) -> Result<(), Errno> {
        self.may_be_changed()?;
        self.key(key)?;
        self.unset(key)
    }

    /// `BPF_MAP_GET_NEXT_KEY`: the first key, or the one after this; a key that is not there has the first one after it, except
    /// in hashes of changing content, as on Linux. `ENOENT` after the last.
    pub fn next_key(&self, key: Option<&[u8]>) -> Result<Vec<u8>, Errno> {
        self.may_be_read()?;
        if let Some(key) = key {
            self.key(key)?;
            // A map without keys has none to come after.
            if key.is_empty() {
                return Err(Errno::EINVAL);
            }
        }
        let after = |count: usize| match key.map(index) {
            None => Ok(0),
            Some(index) if index >= count => Ok(0),
            Some(index) if index + 1 == count => Err(Errno::ENOENT),
            Some(index) => Ok(index + 1),
        };
        let number = match &self.kind {
            Kind::Hash(table) => return table.next_key(key).map(<[u8]>::to_vec).ok_or(Errno::ENOENT),
            Kind::Prefixes(table, told) => {
                let next = prefix::next(table.keys(), key).ok_or(Errno::ENOENT)?;
                return Ok(told.get(next).cloned().unwrap_or_else(|| next.to_vec()));
            }
            Kind::Array => after(self.spec.max_entries as usize)?,
            Kind::Handles(handles) => after(handles.len())?,
            Kind::Stacks(stacks) => {
                let first = key.map(index).filter(|index| *index < stacks.len()).map_or(0, |index| index + 1);
                let next = (first..stacks.len()).find(|index| stacks[*index].is_some());
                next.ok_or(Errno::ENOENT)?
            }
            Kind::List(_) => return Err(Errno::EINVAL),
            Kind::Ring(_) => return Err(ENOTSUPP),
        };
        Ok((number as u32).to_ne_bytes().to_vec())
    }

    /// The keys of a trie of prefixes that stand behind this one, or all, in the order of [`next_key`](Self::next_key): those of other
    /// maps are asked for one by one.
    pub fn prefixes_after(&self, key: Option<&[u8]>) -> Vec<Vec<u8>> {
        let Kind::Prefixes(table, told) = &self.kind else { return Vec::new() };
        let keys = prefix::all_after(table.keys(), key).into_iter();
        keys.map(|key| told.get(key).cloned().unwrap_or_else(|| key.to_vec())).collect()
    }

    /// `BPF_MAP_LOOKUP_AND_DELETE_ELEM`: takes a value out.
    pub fn lookup_and_delete(&mut self, key: &[u8]) -> Result<Vec<u8>, Errno> {
        self.may_be_read()?;
        self.may_be_changed()?;
        self.key(key)?;
        match &mut self.kind {
            Kind::Hash(_) | Kind::Stacks(_) => {
                let value = self.lookup(key)?;
                self.unset(key)?;
                Ok(value)
            }
            Kind::List(list) => {
                let value = if self.spec.kind == MapKind::Queue { list.pop_front() } else { list.pop_back() };
                value.map(|value| value.into_vec()).ok_or(Errno::ENOENT)
            }
            _ => Err(ENOTSUPP),
        }
    }

    /// The owner's numbers of what is in an array of programs or events.
    pub fn handles(&self) -> impl Iterator<Item = u32> + '_ {
        let handles = if let Kind::Handles(handles) = &self.kind { &handles[..] } else { &[] };
        handles.iter().copied().flatten()
    }

    /// Takes out of an array of programs or events what its owner no longer has there.
    pub fn retain_handles(&mut self, keep: impl Fn(u32) -> bool) {
        if let Kind::Handles(handles) = &mut self.kind {
            handles.iter_mut().for_each(|handle| *handle = handle.filter(|handle| keep(*handle)));
        }
    }

    /// The values of an array, one after another in whole words, as `mmap(2)` shows them: of other maps none.
    pub fn cells(&self) -> &[u8] {
        if matches!(self.kind, Kind::Array) { &self.values } else { &[] }
    }

    /// The same, to change them.
    pub fn cells_mut(&mut self) -> &mut [u8] {
        if matches!(self.kind, Kind::Array) { &mut self.values } else { &mut [] }
    }

    /// The ring of a ring buffer.
    pub fn ring(&mut self) -> Option<&mut Ring> {
        match &mut self.kind {
            Kind::Ring(ring) => Some(ring),
            _ => None,
        }
    }

    // What programs do.

    /// Where the value of a key is.
    fn slot(&self, key: &[u8]) -> Option<usize> {
        match &self.kind {
            Kind::Array => Some(index(key)).filter(|index| *index < self.spec.max_entries as usize),
            Kind::Hash(table) => table.find(key),
            Kind::Prefixes(table, _) => prefix::longest(key, |prefix| table.find(prefix)),
            _ => None,
        }
    }

    /// The number of the cell with the value of a key and cpu.
    pub(crate) fn cell(&mut self, key: &[u8], cpu: u32) -> Option<u64> {
        let slot = self.slot(key)?;
        if let Kind::Hash(table) = &mut self.kind {
            table.touch(slot);
        }
        let cpu = if self.cells == 1 { 0 } else { Some(cpu).filter(|cpu| *cpu < self.cells)? };
        Some(slot as u64 * u64::from(self.cells) + u64::from(cpu))
    }

    /// How many low bits of a pointer are the place in a cell.
    pub(crate) fn shift(&self) -> u32 {
        self.shift
    }

    /// The bytes of a cell.
    pub(crate) fn cell_value(&self, cell: u64) -> Option<&[u8]> {
        let at = usize::try_from(cell).ok()?.checked_mul(self.cell_bytes)?;
        self.values.get(at..)?.get(..self.spec.value_size as usize)
    }

    /// The same, to change them.
    pub(crate) fn cell_value_mut(&mut self, cell: u64) -> Option<&mut [u8]> {
        let at = usize::try_from(cell).ok()?.checked_mul(self.cell_bytes)?;
        self.values.get_mut(at..)?.get_mut(..self.spec.value_size as usize)
    }

    /// Sets a value: of one cpu, or of all that the value has.
    pub(crate) fn set(
        &mut self,
        key: &[u8],
        value: &[u8],
        flags: u64,
        cpu: Option<u32>,
    ) -> Result<(), Errno> {
        // No value has a lock.
        if flags & LOCK != 0 {
            return Err(Errno::EINVAL);
        }
        if matches!(self.kind, Kind::Ring(_)) {
            return Err(ENOTSUPP);
        }
        if flags > EXIST {
            return Err(Errno::EINVAL);
        }
        let cells = self.cells as usize;
        // Bits behind the prefix are nothing.
        let cut;
        let given = key;
        let mut key = key;
        if matches!(self.kind, Kind::Prefixes(..)) {
            cut = prefix::cut(key).ok_or(Errno::EINVAL)?;
            key = &cut;
        }
        let slot = match &mut self.kind {
            Kind::Array => {
                let slot = index(key);
                if slot >= self.spec.max_entries as usize {
                    return Err(Errno::E2BIG);
                }
                if flags == NOEXIST {
                    return Err(Errno::EEXIST);
                }
                slot
            }
            Kind::Hash(table) | Kind::Prefixes(table, _) => match table.find(key) {
                Some(_) if flags == NOEXIST => return Err(Errno::EEXIST),
                Some(slot) => {
                    table.touch(slot);
                    slot
                }
                None if flags == EXIST => return Err(Errno::ENOENT),
                None => {
                    let full = if self.spec.kind == MapKind::LpmTrie { Errno::ENOSPC } else { Errno::E2BIG };
                    let slot = table.insert(key).ok_or(full)?;
                    let at = slot * cells * self.cell_bytes;
                    let end = at + cells * self.cell_bytes;
                    if self.values.len() < end {
                        self.values.resize(end, 0);
                    }
                    self.values[at..end].fill(0);
                    slot
                }
            },
            Kind::List(_) => return self.push(value, flags),
            Kind::Stacks(_) => return Err(Errno::EINVAL),
            Kind::Handles(_) | Kind::Ring(_) => return Err(ENOTSUPP),
        };
        if let Kind::Prefixes(_, told) = &mut self.kind {
            told.insert(key.to_vec(), given.to_vec());
        }
        let cpu = if cells == 1 { 0 } else { cpu.unwrap_or(0) as usize };
        let at = (slot * cells + cpu.min(cells - 1)) * self.cell_bytes;
        self.values[at..][..value.len()].copy_from_slice(value);
        Ok(())
    }

    /// Forgets the value of a key.
    pub(crate) fn unset(&mut self, key: &[u8]) -> Result<(), Errno> {
        match &mut self.kind {
            Kind::Hash(table) => table.remove(key).then_some(()).ok_or(Errno::ENOENT),
            Kind::Prefixes(table, told) => {
                let key = prefix::cut(key).ok_or(Errno::EINVAL)?;
                told.remove(&key);
                table.remove(&key).then_some(()).ok_or(Errno::ENOENT)
            }
            Kind::Handles(handles) => {
                let place = handles.get_mut(index(key)).ok_or(Errno::E2BIG)?;
                place.take().map(|_| ()).ok_or(Errno::ENOENT)
            }
            Kind::Stacks(stacks) => {
                let place = stacks.get_mut(index(key)).ok_or(Errno::E2BIG)?;
                place.take().map(|_| ()).ok_or(Errno::ENOENT)
            }
            Kind::Array | Kind::List(_) => Err(Errno::EINVAL),
            Kind::Ring(_) => Err(ENOTSUPP),
        }
    }

    /// Onto a queue or stack; with `EXIST` the oldest makes room.
    pub(crate) fn push(&mut self, value: &[u8], flags: u64) -> Result<(), Errno> {
        let most = self.spec.max_entries as usize;
        let Kind::List(list) = &mut self.kind else { return Err(Errno::EINVAL) };
        if flags != ANY && flags != EXIST {
            return Err(Errno::EINVAL);
        }
        if list.len() >= most {
            if flags != EXIST {
                return Err(Errno::E2BIG);
            }
            list.pop_front();
        }
        list.push_back(value.into());
        Ok(())
    }

    /// From a queue or stack, or a look at what would come.
    pub(crate) fn pop(&mut self, takes: bool) -> Result<Box<[u8]>, Errno> {
        let first = self.spec.kind == MapKind::Queue;
        let Kind::List(list) = &mut self.kind else { return Err(Errno::EINVAL) };
        let value = match (first, takes) {
            (true, true) => list.pop_front(),
            (false, true) => list.pop_back(),
            (true, false) => list.front().cloned(),
            (false, false) => list.back().cloned(),
        };
        value.ok_or(Errno::ENOENT)
    }

    /// The owner's number of an event or program in an array of these.
    pub(crate) fn handle(&self, at: u64) -> Result<u32, Errno> {
        let Kind::Handles(handles) = &self.kind else { return Err(Errno::EINVAL) };
        let handle = usize::try_from(at).ok().and_then(|at| handles.get(at)).ok_or(Errno::E2BIG)?;
        handle.ok_or(Errno::ENOENT)
    }

    /// The number of a callchain, which is kept (`bpf_get_stackid`).
    pub(crate) fn stack_id(&mut self, frames: &[u64], flags: u64) -> Result<u32, Errno> {
        const COMPARE_HASHES: u64 = 1 << 9;
        const REPLACE: u64 = 1 << 10;
        let most = self.spec.value_size as usize / 8;
        let Kind::Stacks(stacks) = &mut self.kind else { return Err(Errno::EINVAL) };
        let frames = &frames[..frames.len().min(most)];
        let hash = table::hash(0, frames.iter().flat_map(|frame| frame.to_ne_bytes()));
        let at = hash as usize & (stacks.len() - 1);
        match &stacks[at] {
            Some(there)
                if **there == *frames || flags & COMPARE_HASHES != 0 && there.len() == frames.len() => {}
            Some(_) if flags & REPLACE == 0 => return Err(Errno::EEXIST),
            _ => stacks[at] = Some(frames.into()),
        }
        Ok(at as u32)
    }
}

/// A key that is a number.
fn index(key: &[u8]) -> usize {
    key.first_chunk().map_or(usize::MAX, |key| u32::from_ne_bytes(*key) as usize)
}
