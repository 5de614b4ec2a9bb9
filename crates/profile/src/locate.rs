//! Addresses of a [`Session`] become locations: which object was mapped there, and where in it the address is. Nothing is
//! looked up in files here, but in what processes tell of the code that they make (jitdumps).

use crate::hash::FastMap;
use crate::source::{TimedAddress, dso_key};
use crate::strings::Strings;
use crate::tables::{ANY_TIME, ChainStart, Location, Object, ObjectId, ObjectKind};
use perfuse_abi::record::{CallchainContext, Sample};
use perfuse_abi::{Attr, AttrFlags};
use perfuse_data::session::{self, Level, Map, Resolved, Session};
use perfuse_symbols::{Address, BuildId, Dso, MappedAt, Symbolizer};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// A thread at a time: its addresses depend on both.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ThreadTime {
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The time, on the clock that compilers tell of their code by. The last moment there is if it is not known.
    pub time: u64,
}

impl ThreadTime {
    /// Those of a sample of an event. The time counts if it was recorded by the monotonic clock.
    #[inline]
    pub fn of(attr: &Attr, sample: &Sample<'_>) -> Self {
        const CLOCK_MONOTONIC: i32 = 1;
        let tid = sample.tid.unwrap_or_default();
        let is_known = attr.flags.contains(AttrFlags::USE_CLOCKID) && attr.clockid == CLOCK_MONOTONIC;
        let time = sample.time.filter(|_| is_known).unwrap_or(ANY_TIME);
        ThreadTime { pid: tid.pid, tid: tid.tid, time }
    }
}

/// Turns addresses into locations, and keeps the objects that these are in.
#[derive(Default)]
pub(crate) struct Locator {
    pub(crate) strings: Strings,
    pub(crate) objects: Vec<Object>,
    /// By the session's number of the object, the process for memory without a file or by which a file without a build-id is found,
    /// and whether it is code that was made.
    ids: FastMap<(u32, u32, u32), ObjectId>,
    /// Reads jitdumps, and knows functions.
    code: Option<Arc<Symbolizer>>,
    /// Of objects, what is asked for their functions.
    dsos: Vec<Option<Arc<Dso>>>,
    /// By process and file, the jitdumps that were read, and whether their times are those of samples.
    dumps: FastMap<(u32, u32), bool>,
    /// Of code that was made: by object, address and function, the time at which that was found there first.
    times: FastMap<(u32, u64, u64), u64>,
    /// By the number of the maps and how much code the process has made, a number for both.
    states: FastMap<(u64, u64), u64>,
}

impl Locator {
    pub(crate) fn new(code: Option<Arc<Symbolizer>>) -> Self {
        let mut strings = Strings::default();
        let unknown = Object {
            path: strings.id(b"[unknown]"),
            kind: ObjectKind::Unknown,
            build_id: None,
            pid: 0,
            by_address: true,
            is_made: false,
            seen_by: None,
            order: 0,
        };
        Locator { strings, objects: vec![unknown], code, ..Locator::default() }
    }

    /// The same without the objects that it has met.
    pub(crate) fn renewed(&self) -> Self {
        // Jitdumps that were taken in are not taken in again.
        Locator { dumps: self.dumps.clone(), ..Locator::new(self.code.clone()) }
    }

    /// The location of an address of a thread.
    pub(crate) fn locate(&mut self, session: &Session, at: ThreadTime, level: Level, ip: u64) -> Location {
        let unknown = Location {
            object: ObjectId(0),
            level,
            ip,
            address: ip,
            mapped: 0,
            time: ANY_TIME,
            chain: ChainStart::Here,
        };
        if let Some(found) = session.resolve(at.pid, at.tid, level, ip) {
            return self.located(session, at, level, ip, &found);
        }
        let Some(found) = session.behind_kernel(level, ip) else { return unknown };
        let location = self.located(session, at, level, ip, &found);
        if self.function_at(&location, false).is_some() { location } else { unknown }
    }

    /// The location of an address that was found in a mapping.
    fn located(
        &mut self,
        session: &Session,
        at: ThreadTime,
        level: Level,
        ip: u64,
        found: &Resolved,
    ) -> Location {
        let map = &found.map;
        let object = self.object_of(session, map, at.pid);
        let kind = self.objects[object.0 as usize].kind;
        let address = match kind {
            // Modules tell of symbols by their address, and of what has none as other files do.
            ObjectKind::Module(_) => ip.wrapping_sub(map.start).wrapping_add(map.pgoff),
            ObjectKind::Function => map.start,
            _ => found.place,
        };
        let is_own = map.by_address && !found.in_kernel && kind != ObjectKind::Function;
        let dump = session.maps_of(at.pid, at.tid).jit_dump().filter(|_| is_own);
        let time = dump.and_then(|dump| self.take_dump(session, &dump, map.pid, at.time));
        let time = time.filter(|&time| time != ANY_TIME).map(|time| self.first_time(object, ip, time));
        let mapped = map.end - map.start;
        Location {
            object,
            level,
            ip,
            address,
            mapped,
            time: time.unwrap_or(ANY_TIME),
            chain: ChainStart::Here,
        }
    }

    /// How much code there is that the process told of until a time; nothing for a process that tells of none. Takes its
    /// jitdump in when it is first seen.
    #[inline]
    pub(crate) fn code_known(&mut self, session: &Session, at: ThreadTime) -> Option<u64> {
        let dump = session.maps_of(at.pid, at.tid).jit_dump()?;
        let time = self.take_dump(session, &dump, dump.pid, at.time)?;
        Some(self.code.as_ref()?.jit_known_at(dump.pid, time))
    }

    /// Takes a jitdump in for the memory that a process mapped, once. Gives the time to look there.
    fn take_dump(&mut self, session: &Session, dump: &Map, pid: u32, time: u64) -> Option<u64> {
        let Locator { code, dumps, .. } = self;
        let code = code.as_ref()?;
        let has_time = *dumps.entry((pid, dump.object.0)).or_insert_with(|| {
            let path = Path::new(OsStr::from_bytes(&session.object(dump.object).name));
            if let Some(has_times) = code.sealed_has_times(pid) {
                return has_times;
            }
            code.meet(pid, [mapping(session, dump)]);
            // One that is not there is no worse than none: the memory stays without names, which is told.
            code.add_jitdump(pid, path).is_ok_and(|added| !added.header.has_processor_time())
        });
        Some(if has_time { time } else { ANY_TIME })
    }

    /// A time at which the same code was at an address of memory with code that its process makes: the first that is
    /// asked for, so that the address is one location as long as its code stays.
    fn first_time(&mut self, object: ObjectId, ip: u64, time: u64) -> u64 {
        let Some(code) = &self.code else { return time };
        let dso = code.dso(&dso_key(&self.strings, &self.objects[object.0 as usize]));
        let function = dso.find_at(Address::Memory(ip), time).map_or(u64::MAX, |found| found.symbol.id.0);
        *self.times.entry((object.0, ip, function)).or_insert(time)
    }

    /// The number of the function at a location of the kernel or of a file, if one is known; `inlined`: of the address in the
    /// file, if other functions may have been inlined there.
    pub(crate) fn function_at(&mut self, location: &Location, inlined: bool) -> Option<u64> {
        let Locator { code, strings, objects, dsos, .. } = self;
        let object = &objects[location.object.0 as usize];
        let is_of_file = match object.kind {
            ObjectKind::User => !object.by_address,
            ObjectKind::Kernel(..) | ObjectKind::Module(_) => true,
            _ => false,
        };
        let code = code.as_ref().filter(|_| is_of_file && !location.is_timed())?;
        if dsos.len() < objects.len() {
            dsos.resize(objects.len(), None);
        }
        let dso = dsos[location.object.0 as usize].get_or_insert_with(|| code.dso(&dso_key(strings, object)));
        let TimedAddress { address, time } = TimedAddress::of(location, object);
        let function = dso.find_at(address, time)?.symbol.id.0;
        Some(if inlined && dso.has_debug_info() { location.address } else { function })
    }

    /// A number in place of that of the maps of a process that makes code, of which this much is known.
    pub(crate) fn state_of(&mut self, maps: u64, code: u64) -> u64 {
        let next = 1 << 56 | self.states.len() as u64;
        *self.states.entry((maps, code)).or_insert(next)
    }

    /// An object that is one function of this name.
    pub(crate) fn function_object(&mut self, name: &str) -> ObjectId {
        let path = self.strings.id(name.as_bytes());
        let id = ObjectId(self.objects.len() as u32);
        self.objects.push(Object { path, kind: ObjectKind::Function, ..self.objects[0] });
        id
    }

    fn object_of(&mut self, session: &Session, map: &Map, pid: u32) -> ObjectId {
        let told = session.object(map.object);
        let is_own = told.kind == session::ObjectKind::User && map.by_address;
        let is_made = made_code(session, map).is_some();
        let seen_by = self.seen_by(session, map, pid);
        let apart = seen_by.filter(|_| told.build_id.is_none()).unwrap_or(0);
        let key = (map.object.0, if is_own { map.pid } else { apart }, u32::from(is_made));
        if let Some(&known) = self.ids.get(&key) {
            let object = &mut self.objects[known.0 as usize];
            object.seen_by = object.seen_by.or(seen_by);
            return known;
        }
        if let Some(code) = self.code.as_ref().filter(|_| is_made) {
            let of = session.maps_of(map.pid, map.pid);
            code.meet(map.pid, of.iter().filter(|map| !map.by_address).map(|map| mapping(session, map)));
        }
        let kind = match &told.kind {
            session::ObjectKind::Kernel { symbol, address } => {
                ObjectKind::Kernel(self.strings.id(symbol), *address)
            }
            session::ObjectKind::Module { base } => ObjectKind::Module(*base),
            session::ObjectKind::KernelSymbol => ObjectKind::Function,
            _ => ObjectKind::User,
        };
        let id = ObjectId(self.objects.len() as u32);
        self.objects.push(Object {
            path: self.strings.id(&told.name),
            kind,
            build_id: told.build_id.and_then(|id| BuildId::new(id.as_bytes())),
            pid: map.pid,
            by_address: map.by_address,
            is_made,
            seen_by,
            order: map.object.0,
        });
        self.ids.insert(key, id);
        id
    }

    /// The process by whose root folder the file of a mapping is looked for, if it is not this process.
    fn seen_by(&self, session: &Session, map: &Map, pid: u32) -> Option<u32> {
        let is_file = !map.by_address && session.object(map.object).kind == session::ObjectKind::User;
        self.code.as_ref().filter(|_| is_file)?.seen_by(pid, mapping(session, map))
    }
}

/// A mapping of a file, by which a process is told that has it.
fn mapping<'s>(session: &'s Session, map: &Map) -> MappedAt<'s> {
    MappedAt { address: map.start, name: &session.object(map.object).name, inode: map.inode }
}

/// The level of the addresses that follow a marker in a callchain. `None` where a cookie follows that is no address.
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

/// How reports call a map with code that its process made: as the file that would have its names.
pub fn made_code(session: &Session, map: &Map) -> Option<String> {
    let object = session.object(map.object);
    let is_own = object.kind == session::ObjectKind::User && map.by_address;
    let is_made = is_own && map.may_be_code() && is_made_at_run_time(&object.name);
    is_made.then(|| made_name(map.pid))
}

/// The file that would have the names of code that a process made.
pub(crate) fn made_name(pid: u32) -> String {
    format!("/tmp/perf-{pid}.map")
}

/// Whether code in memory of this name was made by the process itself, which reports show as perf does: as the
/// file with its names.
fn is_made_at_run_time(name: &[u8]) -> bool {
    let starts: [&[u8]; 6] = [b"//anon", b"/dev/zero", b"/anon_hugepage", b"/SYSV", b"[stack", b"[heap]"];
    starts.iter().any(|start| name.starts_with(start))
}
