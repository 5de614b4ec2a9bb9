//! Things that can be mapped, each once: files, the kernel, its modules, code that it has made.

use perfuse_abi::record::BuildId;
use std::collections::HashMap;
use std::sync::Arc;

/// The number of an [`Object`] within its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(pub u32);

/// The kind of a mapped thing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ObjectKind {
    /// Something in a process: a file, the vdso, memory without a file.
    User,
    /// The kernel. Its mapping tells where one of its symbols was.
    Kernel {
        /// The symbol; empty if there was none.
        symbol: Box<[u8]>,
        /// Its address.
        address: u64,
    },
    /// A kernel module.
    Module {
        /// Where it was loaded.
        base: u64,
    },
    /// Code that the kernel made and told of, such as a BPF program: the object is one symbol, of its name.
    KernelSymbol,
}

/// Something that was mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Object {
    /// Its path, or what the kernel shows in place of one.
    pub name: Arc<[u8]>,
    /// Its kind.
    pub kind: ObjectKind,
    /// Its build-id, if the recording has it.
    pub build_id: Option<BuildId>,
}

impl Object {
    /// Keeps the build-id that a recording tells of the kernel.
    fn set_kernel(&mut self, name: &[u8], id: BuildId) {
        self.build_id = self.build_id.or(Some(id));
        if !name.starts_with(b"[") {
            self.name = name.into();
        }
    }
}

/// More objects than this are not told apart, and of their names no more than so many bytes.
const MOST: usize = 1 << 20;
const MOST_BYTES: usize = 64 << 20;

/// The identity of an object: name, kind, and the build-id that its mapping told.
type Identity = (Arc<[u8]>, ObjectKind, Option<[u8; 20]>);

#[derive(Debug, Default)]
pub(super) struct Objects {
    list: Vec<Object>,
    ids: HashMap<Identity, ObjectId>,
    names: HashMap<Arc<[u8]>, Named>,
    /// Bytes of names.
    bytes: usize,
    /// Those that are the kernel, and have no file's name yet.
    kernels: Vec<ObjectId>,
    /// The file and the build-id of the kernel.
    kernel: Option<(Arc<[u8]>, BuildId)>,
}

/// The parts of a name.
#[derive(Debug, Default)]
struct Named {
    build_id: Option<BuildId>,
    /// The objects that have no build-id yet.
    without: Vec<ObjectId>,
}

impl Objects {
    pub(super) fn intern(
        &mut self,
        name: &[u8],
        kind: ObjectKind,
        build_id: Option<BuildId>,
    ) -> Option<ObjectId> {
        let name = self.name(name)?;
        let key = (name.clone(), kind, build_id.map(|id| id.bytes));
        if let Some(&id) = self.ids.get(&key) {
            return Some(id);
        }
        let symbol_bytes = match &key.1 {
            ObjectKind::Kernel { symbol, .. } => symbol.len(),
            _ => 0,
        };
        if self.list.len() >= MOST || self.bytes + symbol_bytes > MOST_BYTES {
            return None;
        }
        self.bytes += symbol_bytes;
        let id = ObjectId(self.list.len() as u32);
        let named = self.names.entry(name.clone()).or_default();
        let build_id = build_id.or(named.build_id);
        let mut object = Object { name, kind: key.1.clone(), build_id };
        if matches!(object.kind, ObjectKind::Kernel { .. }) && object.name.starts_with(b"[kernel") {
            if let Some((name, id)) = &self.kernel {
                object.set_kernel(name, *id);
            }
            if object.name.starts_with(b"[") {
                self.kernels.push(id);
            }
        }
        if object.build_id.is_none() {
            named.without.push(id);
        }
        self.list.push(object);
        self.ids.insert(key, id);
        Some(id)
    }

    /// A name, kept once.
    fn name(&mut self, name: &[u8]) -> Option<Arc<[u8]>> {
        if let Some((known, _)) = self.names.get_key_value(name) {
            return Some(known.clone());
        }
        if self.names.len() >= MOST || self.bytes + name.len() > MOST_BYTES {
            return None;
        }
        self.bytes += name.len();
        let name: Arc<[u8]> = name.into();
        self.names.insert(name.clone(), Named::default());
        Some(name)
    }

    pub(super) fn get(&self, id: ObjectId) -> &Object {
        &self.list[id.0 as usize]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ObjectId, &Object)> {
        self.list.iter().enumerate().map(|(index, object)| (ObjectId(index as u32), object))
    }

    pub(super) fn set_kernel(&mut self, name: &[u8], id: BuildId) {
        let is_file = !name.starts_with(b"[");
        // All have a build-id after the first time, and a file's name after the first file.
        if is_file || self.kernel.is_none() {
            for object in &self.kernels {
                self.list[object.0 as usize].set_kernel(name, id);
            }
        }
        if is_file {
            self.kernels.clear();
        }
        self.kernel = self.name(name).map(|name| (name, id));
    }

    pub(super) fn set_build_id(&mut self, name: &[u8], id: BuildId) {
        let Some(name) = self.name(name) else { return };
        let named = self.names.entry(name).or_default();
        named.build_id = Some(id);
        for object in named.without.drain(..) {
            let object = &mut self.list[object.0 as usize];
            object.build_id = object.build_id.or(Some(id));
        }
    }
}
