//! Addresses become frames: an object and a symbol in it. Each frame is kept once and is a number; what an
//! address of some maps is, is worked out once.

use super::hash::FastMap;
use perfuse_abi::record::{Callchain, CallchainContext};
use perfuse_data::session::{Level, Map, ObjectKind, Session};
use perfuse_symbols::{BuildId, Dso, DsoKey, DsoKind, Place, Reference, Symbolizer};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Addresses that are remembered; then they are worked out again.
const MOST_ADDRESSES: usize = 1 << 22;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FrameId(pub(crate) u32);

/// A function, or an address where none is known.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// The object it is in, as an index; 0 is none.
    pub(crate) object: u32,
    /// The function, demangled; where none is known, nothing.
    pub(crate) symbol: Option<Box<str>>,
    /// Where none is known, the address, in the object's own counting.
    pub(crate) address: u64,
    /// Whose code it is.
    pub(crate) level: Level,
}

/// What an address is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located {
    pub(crate) frame: FrameId,
    /// From the start of the symbol.
    pub(crate) offset: u64,
    /// The address as the object counts.
    pub(crate) place: u64,
}

struct Object {
    name: Box<str>,
    short: Box<str>,
    dso: Option<Arc<Dso>>,
}

pub(crate) struct Frames {
    symbolizer: Symbolizer,
    objects: Vec<Object>,
    /// By the session's number of the object, and the process for memory without a file.
    object_ids: FastMap<(u32, u32), u32>,
    frames: Vec<Frame>,
    /// By object, and symbol (or address) in it.
    frame_ids: FastMap<(u32, u64, bool), FrameId>,
    /// By the state of the maps, and address.
    addresses: FastMap<(u64, u64), Located>,
    demangle: bool,
}

impl Frames {
    pub(crate) fn new(demangle: bool) -> Self {
        let none = Object { name: "[unknown]".into(), short: "[unknown]".into(), dso: None };
        Frames {
            symbolizer: Symbolizer::default(),
            objects: vec![none],
            object_ids: FastMap::default(),
            frames: Vec::new(),
            frame_ids: FastMap::default(),
            addresses: FastMap::default(),
            demangle,
        }
    }

    pub(crate) fn get(&self, id: FrameId) -> &Frame {
        &self.frames[id.0 as usize]
    }

    /// Name of an object: its path.
    pub(crate) fn object(&self, object: u32) -> &str {
        &self.objects[object as usize].name
    }

    /// The name that reports show: without folders.
    pub(crate) fn short_object(&self, object: u32) -> &str {
        &self.objects[object as usize].short
    }

    /// Why an object's symbols are missing, of those that were asked for any.
    pub(crate) fn missing(&self) -> impl Iterator<Item = (&str, String)> {
        let with_reason = |object: &Object| object.dso.as_ref()?.missing().map(ToString::to_string);
        self.objects.iter().filter_map(move |object| Some((&*object.name, with_reason(object)?)))
    }

    /// What an address of a thread is now.
    #[inline]
    pub(crate) fn locate(&mut self, session: &Session, pid: u32, tid: u32, level: Level, ip: u64) -> Located {
        let maps = match level {
            Level::User => session.maps_of(pid, tid).id(),
            Level::Kernel => session.kernel_maps().id(),
            _ => 0,
        };
        let key = (maps << 3 | level as u64, ip);
        if let Some(located) = self.addresses.get(&key) {
            return *located;
        }
        let located = self.work_out(session, pid, tid, level, ip);
        if self.addresses.len() >= MOST_ADDRESSES {
            self.addresses.clear();
        }
        self.addresses.insert(key, located);
        located
    }

    fn work_out(&mut self, session: &Session, pid: u32, tid: u32, level: Level, ip: u64) -> Located {
        let Some(found) = session.resolve(pid, tid, level, ip) else {
            let frame = self.frame((0, ip, false), || (None, level));
            return Located { frame, offset: 0, place: ip };
        };
        let place = found.place;
        let object = self.object_of(session, &found.map, pid);
        let level = if found.in_kernel && level == Level::User { Level::Kernel } else { level };
        if session.object(found.map.object).kind == ObjectKind::KernelSymbol {
            let name = self.objects[object as usize].name.clone();
            let frame = self.frame((object, 0, true), || (Some(name), level));
            return Located { frame, offset: ip - found.map.start, place };
        }
        let dso = self.objects[object as usize].dso.clone();
        let where_ = if found.map.by_address { Place::Address(place) } else { Place::FileOffset(place) };
        match dso.as_deref().and_then(|dso| dso.find(where_)) {
            Some(symbol) => {
                let demangle = self.demangle;
                let name = || {
                    let name = if demangle { symbol.symbol.demangled() } else { symbol.symbol.name() };
                    (Some(name.into()), level)
                };
                let frame = self.frame((object, symbol.symbol.id.0, true), name);
                Located { frame, offset: symbol.offset, place }
            }
            None => {
                let frame = self.frame((object, place, false), || (None, level));
                Located { frame, offset: 0, place }
            }
        }
    }

    fn frame(&mut self, key: (u32, u64, bool), make: impl FnOnce() -> (Option<Box<str>>, Level)) -> FrameId {
        let next = FrameId(self.frames.len() as u32);
        *self.frame_ids.entry(key).or_insert_with(|| {
            let (symbol, level) = make();
            self.frames.push(Frame { object: key.0, symbol, address: key.1, level });
            next
        })
    }

    fn object_of(&mut self, session: &Session, map: &Map, pid: u32) -> u32 {
        let object = session.object(map.object);
        let is_user = object.kind == ObjectKind::User;
        let key = (map.object.0, if is_user && map.by_address { pid } else { 0 });
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
        let dso = dso_key.map(|key| self.symbolizer.dso(&key.with_build_id(build_id)));
        let name = String::from_utf8_lossy(&object.name).into_owned();
        let anonymous = dso.as_ref().is_some_and(|dso| matches!(dso.key().kind, DsoKind::Anonymous { .. }));
        let short = match anonymous {
            true => format!("{name} of {pid}"),
            false => super::base_name(&name).to_owned(),
        };
        let short = if anonymous && name == "//anon" { "[anon]".to_owned() } else { short };
        let id = self.objects.len() as u32;
        self.objects.push(Object { name: name.into(), short: short.into(), dso });
        self.object_ids.insert(key, id);
        id
    }

    /// The frames of a callchain, callee first; what is no address is left out.
    pub(crate) fn chain(
        &mut self,
        session: &Session,
        (pid, tid): (u32, u32),
        level: Level,
        chain: &Callchain<'_>,
        mut visit: impl FnMut(Located, u64),
    ) {
        let mut level = level;
        let mut deferred = false;
        for word in chain.words.iter() {
            if let Some(context) = CallchainContext::of(word) {
                deferred = context == CallchainContext::USER_DEFERRED;
                level = match context {
                    CallchainContext::KERNEL => Level::Kernel,
                    CallchainContext::USER => Level::User,
                    CallchainContext::HV => Level::Hypervisor,
                    CallchainContext::GUEST_KERNEL => Level::GuestKernel,
                    CallchainContext::GUEST_USER => Level::GuestUser,
                    _ => Level::Unknown,
                };
            } else if !deferred {
                visit(self.locate(session, pid, tid, level, word), word);
            }
        }
    }
}
