//! What can be mapped, each thing once: files, the kernel, its modules, what it told of itself.

use perfuse_abi::record::BuildId;
use std::collections::HashMap;

/// The number of an [`Object`] within its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(pub u32);

/// What kind of thing was mapped.
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
    pub name: Box<[u8]>,
    /// What it is.
    pub kind: ObjectKind,
    /// Its build-id, if the recording has it.
    pub build_id: Option<BuildId>,
}

impl Object {
    /// What is told of the kernel, if this is it.
    fn set_kernel(&mut self, name: &[u8], id: BuildId) {
        if matches!(self.kind, ObjectKind::Kernel { .. }) && self.name.starts_with(b"[kernel") {
            self.build_id = self.build_id.or(Some(id));
            if !name.starts_with(b"[") {
                self.name = name.into();
            }
        }
    }
}

/// More objects than this are not told apart.
const MOST: usize = 1 << 20;

/// What makes an object another one: name, kind, and the build-id that its mapping told.
type Identity = (Box<[u8]>, ObjectKind, Option<[u8; 20]>);

#[derive(Debug, Default)]
pub(super) struct Objects {
    list: Vec<Object>,
    ids: HashMap<Identity, ObjectId>,
    build_ids: HashMap<Box<[u8]>, BuildId>,
    /// The file and the build-id of the kernel.
    kernel: Option<(Box<[u8]>, BuildId)>,
}

impl Objects {
    pub(super) fn intern(
        &mut self,
        name: &[u8],
        kind: ObjectKind,
        build_id: Option<BuildId>,
    ) -> Option<ObjectId> {
        let key = (name.into(), kind, build_id.map(|id| id.bytes));
        if let Some(&id) = self.ids.get(&key) {
            return Some(id);
        }
        if self.list.len() >= MOST {
            return None;
        }
        let id = ObjectId(self.list.len() as u32);
        let build_id = build_id.or_else(|| self.build_ids.get(name).copied());
        let mut object = Object { name: name.into(), kind: key.1.clone(), build_id };
        if let Some((name, id)) = &self.kernel {
            object.set_kernel(name, *id);
        }
        self.list.push(object);
        self.ids.insert(key, id);
        Some(id)
    }

    pub(super) fn get(&self, id: ObjectId) -> &Object {
        &self.list[id.0 as usize]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ObjectId, &Object)> {
        self.list.iter().enumerate().map(|(index, object)| (ObjectId(index as u32), object))
    }

    pub(super) fn set_kernel(&mut self, name: &[u8], id: BuildId) {
        self.list.iter_mut().for_each(|object| object.set_kernel(name, id));
        self.kernel = Some((name.into(), id));
    }

    pub(super) fn set_build_id(&mut self, name: &[u8], id: BuildId) {
        if self.build_ids.len() >= MOST {
            return;
        }
        self.build_ids.insert(name.into(), id);
        for object in self.list.iter_mut().filter(|object| &*object.name == name) {
            object.build_id = object.build_id.or(Some(id));
        }
    }
}
