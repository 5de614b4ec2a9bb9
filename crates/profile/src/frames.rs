//! Addresses become frames: an object and a symbol in it. Each frame is kept once and is a number; what an
//! address of some maps is, is worked out once.

use crate::hash::FastMap;
use perfuse_abi::record::{CallchainContext, Sample};
use perfuse_abi::{Attr, AttrFlags};
use perfuse_data::session::{Level, Map, ObjectKind, Session};
use perfuse_symbols::{Address, BuildId, Dso, DsoKey, Reference, SymbolKind, Symbolizer};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Addresses that are remembered; then they are worked out again.
const MOST_ADDRESSES: usize = 1 << 22;

/// More frames than this are not told apart: what comes then is one frame, which says so. A frame takes some 300 bytes
/// with all that leads to it.
const MOST_FRAMES: usize = 1 << 20;

/// The frame that stands for all those that are not told apart.
const REST: Identity = (0, Some(u64::MAX), 0);

/// The number of a [`Frame`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u32);

/// A function, or an address where none is known.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Frame {
    /// The object it is in, a number that [`Frames::object`] takes; 0 is none.
    pub object: u32,
    /// The function, demangled; where none is known, nothing.
    pub symbol: Option<Box<str>>,
    /// The start of the function; where none is known, the address, in the object's own counting.
    pub address: u64,
    /// The address in the process, where no function is known or frames are kept by address.
    pub ip: u64,
    /// From the start of the function, if frames are kept by address.
    pub offset: u64,
    /// Bytes of the function; 0 where none is known.
    pub size: u64,
    /// Bytes of what was mapped there of the object.
    pub mapped: u64,
    /// Whose code it is.
    pub level: Level,
    /// Whether it is data rather than code.
    pub is_data: bool,
}

impl Frame {
    /// An address of which nothing is known.
    fn unknown(ip: u64, level: Level) -> Self {
        Frame {
            object: 0,
            symbol: None,
            address: ip,
            ip,
            offset: 0,
            size: 0,
            mapped: 0,
            level,
            is_data: false,
        }
    }
}

/// The meaning of an address.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Located {
    /// The frame.
    pub frame: FrameId,
    /// From the start of the symbol.
    pub offset: u64,
    /// The address as the object counts.
    pub place: u64,
    /// Whether it is so at this time only: the process tells what code it makes, and may make other code there.
    pub is_timed: bool,
}

/// A thread at a moment: what its addresses are depends on this.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The time, on the clock that compilers tell of their code by. The last moment there is if it is not known.
    pub time: u64,
}

impl Moment {
    /// That of a sample of an event. Its time counts if it was recorded by the monotonic clock.
    #[inline]
    pub fn of(attr: &Attr, sample: &Sample<'_>) -> Self {
        const CLOCK_MONOTONIC: i32 = 1;
        let tid = sample.tid.unwrap_or_default();
        let is_known = attr.flags.contains(AttrFlags::USE_CLOCKID) && attr.clockid == CLOCK_MONOTONIC;
        let time = sample.time.filter(|_| is_known).unwrap_or(u64::MAX);
        Moment { pid: tid.pid, tid: tid.tid, time }
    }
}

struct Object {
    name: Box<str>,
    short: Box<str>,
    /// The number that objects with the same short name have in common.
    alias: u32,
    /// In which order the recording told of it.
    order: u32,
    dso: Option<Arc<Dso>>,
}

/// The identity of a frame: the object, its symbol if it has one, and an address.
type Identity = (u32, Option<u64>, u64);

/// All frames of a recording, and what leads from addresses to them.
pub struct Frames {
    symbolizer: Symbolizer,
    objects: Vec<Object>,
    /// By the session's number of the object, and for memory without a file the process, and whether it is code.
    object_ids: FastMap<(u32, u32, u32), u32>,
    /// By short name, the first object of it.
    aliases: HashMap<Box<str>, u32>,
    frames: Vec<Frame>,
    frame_ids: FastMap<Identity, FrameId>,
    /// By the state of the maps, and address.
    addresses: FastMap<(u64, u64), FrameId>,
    /// By the state of the maps and how much code the process made, a number for both.
    states: FastMap<(u64, u64), u64>,
    /// By process and file, the jitdumps that were read, and whether their times are those of samples.
    dumps: FastMap<(u32, u32), bool>,
    demangle: bool,
    by_address: bool,
}

impl Frames {
    /// With names demangled, or as they are in the files.
    pub fn new(demangle: bool) -> Self {
        let unknown = "[unknown]";
        let none = Object { name: unknown.into(), short: unknown.into(), alias: 0, order: 0, dso: None };
        Frames {
            symbolizer: Symbolizer::default(),
            objects: vec![none],
            object_ids: FastMap::default(),
            aliases: HashMap::from([(unknown.into(), 0)]),
            frames: Vec::new(),
            frame_ids: FastMap::default(),
            addresses: FastMap::default(),
            states: FastMap::default(),
            dumps: FastMap::default(),
            demangle,
            by_address: false,
        }
    }

    /// Believes what files of any user say of code made at run time
    /// ([`SymbolOptions::any_owner`](perfuse_symbols::SymbolOptions::any_owner)).
    #[must_use]
    pub fn believing_anybody(self, any_owner: bool) -> Self {
        let mut options = perfuse_symbols::SymbolOptions::default();
        options.any_owner = any_owner;
        Frames { symbolizer: Symbolizer::new(options), ..self }
    }

    /// Keeps frames by address rather than by function.
    #[must_use]
    pub fn by_address(self, by_address: bool) -> Self {
        Frames { by_address, ..self }
    }

    /// Whether frames are kept by address.
    pub(crate) fn is_by_address(&self) -> bool {
        self.by_address
    }

    /// A frame by its number.
    #[inline]
    pub fn get(&self, id: FrameId) -> &Frame {
        &self.frames[id.0 as usize]
    }

    /// Forgets what addresses are; the frames stay.
    pub(crate) fn forget_addresses(&mut self) {
        (self.addresses, self.states) = (FastMap::default(), FastMap::default());
    }

    /// How many frames there are: their numbers begin at 0.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Name of an object: its path.
    pub fn object(&self, object: u32) -> &str {
        &self.objects[object as usize].name
    }

    /// The name that reports show: without folders.
    pub fn short_object(&self, object: u32) -> &str {
        &self.objects[object as usize].short
    }

    /// The same number for all objects that reports show by the same name.
    pub(crate) fn alias(&self, object: u32) -> u32 {
        self.objects[object as usize].alias
    }

    /// Orders objects as the recording told of them.
    pub(crate) fn order(&self, object: u32) -> u32 {
        self.objects[object as usize].order
    }

    /// Why an object's symbols are missing, of those that were asked for any.
    pub fn missing(&self) -> impl Iterator<Item = (&str, String)> {
        let with_reason = |object: &Object| object.dso.as_ref()?.missing().map(ToString::to_string);
        self.objects.iter().filter_map(move |object| Some((&*object.name, with_reason(object)?)))
    }

    /// The time by which code that the process makes is looked up, and how much of that code there is then;
    /// nothing for a process that does not tell of any. Takes its jitdump in when it is first seen.
    #[inline]
    pub(crate) fn code_time(&mut self, session: &Session, at: Moment) -> Option<(u64, u64)> {
        let dump = session.maps_of(at.pid, at.tid).jit_dump()?;
        let time = self.take_dump(session, &dump, dump.pid, at.time);
        Some((time, self.symbolizer.jit_known_at(dump.pid, time)))
    }

    /// Takes a jitdump in for the memory that a process mapped, once. Gives the time to look there.
    fn take_dump(&mut self, session: &Session, dump: &Map, pid: u32, time: u64) -> u64 {
        let Frames { symbolizer, dumps, .. } = self;
        let has_time = *dumps.entry((pid, dump.object.0)).or_insert_with(|| {
            let path = Path::new(OsStr::from_bytes(&session.object(dump.object).name));
            // One that is not there is no worse than none: the memory stays without names, which is told.
            symbolizer.add_jitdump(pid, path).is_ok_and(|added| !added.header.has_processor_time())
        });
        if has_time { time } else { u64::MAX }
    }

    /// A number in place of that of the maps of a process that makes code, of which this much is known.
    pub(crate) fn state_of(&mut self, maps: u64, code: u64) -> u64 {
        let next = 1 << 56 | self.states.len() as u64;
        *self.states.entry((maps, code)).or_insert(next)
    }

    /// The frame that an address of a thread is, when the number of the maps is known.
    #[inline]
    pub(crate) fn frame_at(
        &mut self,
        session: &Session,
        at: Moment,
        maps: u64,
        level: Level,
        ip: u64,
    ) -> FrameId {
        let key = (maps << 3 | level as u64, ip);
        if let Some(&frame) = self.addresses.get(&key) {
            return frame;
        }
        let located = self.locate(session, at, level, ip);
        if self.addresses.len() >= MOST_ADDRESSES {
            self.addresses.clear();
        }
        self.addresses.insert(key, located.frame);
        located.frame
    }

    /// Looks up an address of a thread at a moment. Nothing is remembered here: callers remember the result.
    pub fn locate(&mut self, session: &Session, at: Moment, level: Level, ip: u64) -> Located {
        self.locate_as(session, at, level, ip, self.by_address)
    }

    /// The same, with frames told apart by address or not.
    pub(crate) fn locate_as(
        &mut self,
        session: &Session,
        at: Moment,
        level: Level,
        ip: u64,
        by_address: bool,
    ) -> Located {
        let Moment { pid, tid, .. } = at;
        let mut new = Frame::unknown(ip, level);
        let Some(found) = session.resolve(pid, tid, level, ip) else {
            let frame = self.intern((0, None, ip), || new);
            return Located { frame, offset: 0, place: ip, is_timed: false };
        };
        let place = found.place;
        let object = self.object_of(session, &found.map);
        new.object = object;
        // Modules tell of symbols by their address, and of what has none as other files do.
        let kind = &session.object(found.map.object).kind;
        new.address = if matches!(kind, ObjectKind::Module { .. }) {
            ip - found.map.start + found.map.pgoff
        } else {
            place
        };
        new.mapped = found.map.end - found.map.start;
        new.level = if found.in_kernel && level == Level::User { Level::Kernel } else { level };
        if *kind == ObjectKind::KernelSymbol {
            let name = self.objects[object as usize].name.clone();
            (new.address, new.size) = (found.map.start, found.map.end - found.map.start);
            let offset = ip - found.map.start;
            let frame = self.of_function(new, 0, (offset, by_address), || name);
            return Located { frame, offset, place, is_timed: false };
        }
        let is_made = found.map.by_address && !found.in_kernel;
        let dump = session.maps_of(pid, tid).jit_dump().filter(|_| is_made);
        let is_timed = dump.is_some();
        let time = dump.map_or(u64::MAX, |dump| self.take_dump(session, &dump, found.map.pid, at.time));
        let dso = self.objects[object as usize].dso.clone();
        let where_ = if found.map.by_address { Address::Memory(place) } else { Address::FileOffset(place) };
        match dso.as_deref().and_then(|dso| dso.find_at(where_, time)) {
            Some(found) => {
                let symbol = found.symbol;
                (new.address, new.size) = (symbol.start, symbol.size);
                new.is_data = symbol.kind == SymbolKind::Object;
                let demangle = self.demangle;
                // A name is made only of a function that is new: that is what takes time.
                let frame = self.of_function(new, symbol.id.0, (found.offset, by_address), || {
                    if demangle { symbol.demangled().into() } else { symbol.name().into() }
                });
                Located { frame, offset: found.offset, place, is_timed }
            }
            None => {
                let frame = self.intern((object, None, ip), || new);
                Located { frame, offset: 0, place, is_timed }
            }
        }
    }

    fn of_function(
        &mut self,
        new: Frame,
        symbol: u64,
        (offset, by_address): (u64, bool),
        name: impl FnOnce() -> Box<str>,
    ) -> FrameId {
        let (ip, offset) = if by_address { (new.ip, offset) } else { (0, 0) };
        self.intern((new.object, Some(symbol), ip), || Frame { symbol: Some(name()), ip, offset, ..new })
    }

    fn intern(&mut self, identity: Identity, make: impl FnOnce() -> Frame) -> FrameId {
        if let Some(&known) = self.frame_ids.get(&identity) {
            return known;
        }
        let is_rest = self.frames.len() >= MOST_FRAMES;
        if let (true, Some(&rest)) = (is_rest, self.frame_ids.get(&REST)) {
            return rest;
        }
        let next = FrameId(self.frames.len() as u32);
        self.frame_ids.insert(if is_rest { REST } else { identity }, next);
        self.frames.push(match is_rest {
            true => Frame {
                symbol: Some("[more than are told apart]".into()),
                ..Frame::unknown(0, Level::Unknown)
            },
            false => make(),
        });
        next
    }

    fn object_of(&mut self, session: &Session, map: &Map) -> u32 {
        let object = session.object(map.object);
        let (is_user, pid) = (object.kind == ObjectKind::User, map.pid);
        let is_own = is_user && map.by_address;
        let made = made_code(session, map);
        let key = (map.object.0, if is_own { pid } else { 0 }, u32::from(made.is_some()));
        if let Some(&known) = self.object_ids.get(&key) {
            return known;
        }
        let build_id = object.build_id.and_then(|id| BuildId::new(id.as_bytes()));
        let path = OsStr::from_bytes(&object.name);
        let dso_key = match &object.kind {
            ObjectKind::Kernel { symbol, address } => {
                let symbol = String::from_utf8_lossy(symbol).into_owned();
                let reference = (!symbol.is_empty()).then_some(Reference { symbol, address: *address });
                Some(DsoKey::kernel(reference))
            }
            ObjectKind::Module { base } => Some(DsoKey::module(path, *base)),
            ObjectKind::User => Some(DsoKey::of_map(&object.name, pid)),
            _ => None,
        };
        let in_brackets = match (&object.kind, &dso_key) {
            (ObjectKind::Module { .. }, Some(key)) => Some(format!("[{}]", key.module_name())),
            (ObjectKind::Kernel { .. }, _) if path.to_string_lossy().contains("/vmlinux") => {
                Some("[kernel.vmlinux]".to_owned())
            }
            _ => None,
        };
        let dso = dso_key.map(|key| self.symbolizer.dso(&key.with_build_id(build_id)));
        let (name, short) = match made {
            Some(name) => (name, format!("[JIT] tid {pid}")),
            None => {
                let name = String::from_utf8_lossy(&object.name).into_owned();
                let short = in_brackets.unwrap_or_else(|| base_name(&name).to_owned());
                (name, short)
            }
        };
        let id = self.objects.len() as u32;
        let alias = *self.aliases.entry(short.as_str().into()).or_insert(id);
        let order = map.object.0;
        self.objects.push(Object { name: name.into(), short: short.into(), alias, order, dso });
        self.object_ids.insert(key, id);
        id
    }
}

/// Whose addresses follow a marker in a callchain. `None` where a cookie follows that is no address.
pub fn level_of(context: CallchainContext) -> Option<Level> {
    Some(match context {
        CallchainContext::KERNEL => Level::Kernel,
        CallchainContext::USER => Level::User,
        CallchainContext::HV => Level::Hypervisor,
        CallchainContext::GUEST_KERNEL => Level::GuestKernel,
        CallchainContext::GUEST_USER => Level::GuestUser,
        CallchainContext::USER_DEFERRED => return None,
        _ => Level::Unknown,
    })
}

/// Whether code may run in a mapping. Old kernels did not tell the rights of what is not data.
fn is_code(map: &Map) -> bool {
    const PROT_EXEC: u32 = 4;
    map.prot == 0 || map.prot & PROT_EXEC != 0
}

/// How reports call a map with code that its process made: as the file that would have its names.
pub fn made_code(session: &Session, map: &Map) -> Option<String> {
    let object = session.object(map.object);
    let is_own = object.kind == ObjectKind::User && map.by_address;
    let is_made = is_own && is_code(map) && is_made_at_run_time(&object.name);
    is_made.then(|| format!("/tmp/perf-{}.map", map.pid))
}

/// Whether code in memory of this name was made by the process itself, which reports show as perf does: as what is
/// in the file of its names.
fn is_made_at_run_time(name: &[u8]) -> bool {
    let starts: [&[u8]; 6] = [b"//anon", b"/dev/zero", b"/anon_hugepage", b"/SYSV", b"[stack", b"[heap]"];
    starts.iter().any(|start| name.starts_with(start))
}

/// The last part of a path.
fn base_name(path: &str) -> &str {
    match path.starts_with('/') {
        true => Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path),
        false => path,
    }
}

#[cfg(test)]
impl Frames {
    /// A frame at an address.
    pub(crate) fn intern_for_test(&mut self, ip: u64) {
        let new = Frame::unknown(ip, Level::User);
        self.intern((0, None, ip), || new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_bounded() {
        let mut frames = Frames::new(true);
        (0..MOST_FRAMES as u64 + 1000).for_each(|ip| frames.intern_for_test(ip));
        assert_eq!(frames.len(), MOST_FRAMES + 1);
        let rest = frames.get(FrameId(MOST_FRAMES as u32));
        assert_eq!(rest.symbol.as_deref(), Some("[more than are told apart]"));
        frames.intern_for_test(7);
        assert_eq!(frames.len(), MOST_FRAMES + 1);
    }
}
