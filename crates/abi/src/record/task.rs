//! Actions of tasks: names, forks and exits, mappings, namespaces.

use super::Tid;
use crate::ByteOrder;
use crate::event::named_numbers;
use crate::wire::{Codec, Item, Layout, Seq, Text};
use core::fmt;

/// `PERF_RECORD_COMM`: the task has a new name. With [`Misc::COMM_EXEC`](super::Misc::COMM_EXEC) because
/// of an exec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comm<'a> {
    /// The task.
    pub tid: Tid,
    /// Its name, of at most 15 bytes.
    pub name: Text<'a>,
}

impl<'a> Layout<'a> for Comm<'a> {
    #[inline]
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        self.tid.layout(c)?;
        c.text("comm", &mut self.name)
    }
}

/// `PERF_RECORD_FORK` and `PERF_RECORD_EXIT`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Process of the task.
    pub pid: u32,
    /// Process it comes from; at exit the real parent.
    pub ppid: u32,
    /// The task.
    pub tid: u32,
    /// Thread it comes from; at exit the same as `ppid`.
    pub ptid: u32,
    /// When, on the event's clock.
    pub time: u64,
}

impl<'a> Layout<'a> for Task {
    #[inline]
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u32("pid", &mut self.pid)?;
        c.u32("ppid", &mut self.ppid)?;
        c.u32("tid", &mut self.tid)?;
        c.u32("ptid", &mut self.ptid)?;
        c.u64("time", &mut self.time)
    }
}

/// `PERF_RECORD_MMAP`: a mapping was made. Executable, unless
/// [`Misc::MMAP_DATA`](super::Misc::MMAP_DATA) is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mmap<'a> {
    /// The task.
    pub tid: Tid,
    /// Start address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
    /// Offset in the file, in bytes.
    pub pgoff: u64,
    /// The file, or a name in brackets (rule H50).
    pub filename: Text<'a>,
}

impl<'a> Layout<'a> for Mmap<'a> {
    #[inline]
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        self.tid.layout(c)?;
        c.u64("addr", &mut self.addr)?;
        c.u64("len", &mut self.len)?;
        c.u64("pgoff", &mut self.pgoff)?;
        c.text("filename", &mut self.filename)
    }
}

/// `PERF_RECORD_MMAP2`: a mapping was made, with what identifies the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mmap2<'a> {
    /// The task.
    pub tid: Tid,
    /// Start address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
    /// Offset in the file, in bytes.
    pub pgoff: u64,
    /// Which file.
    pub file: MmapFile,
    /// `PROT_*`.
    pub prot: u32,
    /// `MAP_*`.
    pub flags: u32,
    /// The file, or a name in brackets (rule H50).
    pub filename: Text<'a>,
}

impl<'a> Layout<'a> for Mmap2<'a> {
    /// The variant of `file` decides the layout, for readers too.
    #[inline]
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        self.tid.layout(c)?;
        c.u64("addr", &mut self.addr)?;
        c.u64("len", &mut self.len)?;
        c.u64("pgoff", &mut self.pgoff)?;
        match &mut self.file {
            MmapFile::Inode { maj, min, ino, ino_generation } => {
                c.u32("maj", maj)?;
                c.u32("min", min)?;
                c.u64("ino", ino)?;
                c.u64("ino_generation", ino_generation)?;
            }
            MmapFile::BuildId(id) => {
                c.u8("build_id_size", &mut id.size)?;
                c.fixed("build_id, reserved", &mut id.reserved)?;
                c.fixed("build_id", &mut id.bytes)?;
            }
        }
        c.u32("prot", &mut self.prot)?;
        c.u32("flags", &mut self.flags)?;
        c.text("filename", &mut self.filename)
    }
}

/// The identity of a mapped file. On the wire
/// [`Misc::MMAP_BUILD_ID`](super::Misc::MMAP_BUILD_ID) tells the two apart. Kernels up to 6.18 set that
/// bit by mistake in some records that have an inode (rule H52): what [cannot be](BuildId::is_plausible) a build-id is
/// read as an inode, and written as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MmapFile {
    /// By its place.
    Inode {
        /// Major number of the device.
        maj: u32,
        /// Minor number of the device.
        min: u32,
        /// Inode number.
        ino: u64,
        /// Generation of the inode.
        ino_generation: u64,
    },
    /// By its content.
    BuildId(BuildId),
}

impl Default for MmapFile {
    fn default() -> Self {
        MmapFile::Inode { maj: 0, min: 0, ino: 0, ino_generation: 0 }
    }
}

impl MmapFile {
    /// Whether the bytes of a place could also be those of a build-id.
    pub(super) fn is_like_build_id(&self, order: ByteOrder) -> bool {
        let MmapFile::Inode { maj, min, ino, ino_generation } = *self else { return true };
        let word =
            |word: u32| if order == ByteOrder::Little { word.to_le_bytes() } else { word.to_be_bytes() };
        let long =
            |long: u64| if order == ByteOrder::Little { long.to_le_bytes() } else { long.to_be_bytes() };
        let [size, reserved @ ..] = word(maj);
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&word(min));
        bytes[4..12].copy_from_slice(&long(ino));
        bytes[12..].copy_from_slice(&long(ino_generation));
        BuildId { size, reserved, bytes }.is_plausible()
    }
}

/// A build-id in its field of 20 bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct BuildId {
    /// How many of the bytes are meant. A wrong file may say more than there are.
    pub size: u8,
    /// Reserved, zeros.
    pub reserved: [u8; 3],
    /// The bytes, zeros after the last one.
    pub bytes: [u8; 20],
}

impl BuildId {
    /// A build-id of these bytes; `None` for more than 20.
    pub fn new(id: &[u8]) -> Option<Self> {
        let mut bytes = [0; 20];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        Some(BuildId { size: id.len() as u8, reserved: [0; 3], bytes })
    }

    /// The bytes that are meant.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.size)).unwrap_or(&self.bytes)
    }

    /// Whether this can be a build-id. While one event asks for build-ids, kernels set
    /// [`Misc::MMAP_BUILD_ID`](super::Misc::MMAP_BUILD_ID) also in the mappings of events that did not (rule H52): those
    /// have a device and an inode where the flag promises a build-id.
    ///
    /// The size is the low byte of the device's major number there, so a disk (8) or a loop device (7) may look like the
    /// size of a short build-id. It is told by what follows: a minor number of 20 bits and an inode of 32, which of
    /// random build-ids of 8 bytes one in 4096 has, and of 20 bytes none.
    pub fn is_plausible(&self) -> bool {
        let Some((id, rest)) = self.bytes.split_at_checked(self.size.into()) else { return false };
        let [min0, min1, min2, min3, _, _, _, _, ino @ ..] = &self.bytes;
        let is_inode =
            u32::from_le_bytes([*min0, *min1, *min2, *min3]) >> 20 == 0 && ino.starts_with(&[0; 4]);
        let is_zero = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
        !is_zero(id) && is_zero(rest) && self.reserved == [0; 3] && !is_inode
    }
}

impl fmt::Display for BuildId {
    /// In hexadecimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self}")?;
        if usize::from(self.size) > self.bytes.len() {
            write!(f, ", size: {}", self.size)?;
        }
        if self.reserved != [0; 3] {
            write!(f, ", reserved: {:?}", self.reserved)?;
        }
        f.write_str(")")
    }
}

/// `PERF_RECORD_NAMESPACES`: a task started, or moved to other namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Namespaces<'a> {
    /// The task.
    pub tid: Tid,
    /// Its namespaces, indexed by [`Namespace`].
    pub links: Seq<'a, NamespaceLink>,
}

impl Namespaces<'_> {
    /// The task's namespace of a kind.
    pub fn get(&self, kind: Namespace) -> Option<NamespaceLink> {
        self.links.get(kind.0 as usize)
    }
}

impl<'a> Layout<'a> for Namespaces<'a> {
    #[inline]
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        self.tid.layout(c)?;
        let mut nr = self.links.len() as u64;
        c.u64("nr_namespaces", &mut nr)?;
        c.seq("namespaces", nr, &mut self.links)
    }
}

named_numbers! {
    /// A kind of namespace, as an index; the header's names end in `_NS_INDEX`.
    Namespace(u32) "" {
        /// Network.
        NET = 0,
        /// Host name.
        UTS = 1,
        /// System V IPC.
        IPC = 2,
        /// Process ids.
        PID = 3,
        /// Users.
        USER = 4,
        /// Mounts.
        MNT = 5,
        /// Cgroups.
        CGROUP = 6,
    }
}

/// Identity of a namespace: its file in `/proc/PID/ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NamespaceLink {
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
}

impl<'a> Layout<'a> for NamespaceLink {
    #[inline]
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u64("namespace device", &mut self.dev)?;
        c.u64("namespace inode", &mut self.ino)
    }
}

impl Item for NamespaceLink {
    const SIZE: usize = 16;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn build_ids_of_all_sizes() {
        let id = BuildId::new(&[0xab; 16]).unwrap();
        assert_eq!(id.as_bytes(), [0xab; 16]);
        assert_eq!(format!("{id:?}"), format!("BuildId({})", "ab".repeat(16)));
        assert_eq!(BuildId::new(&[1; 21]), None);
        assert_eq!(BuildId { size: 21, ..id }.as_bytes().len(), 20);
        assert_eq!(BuildId::default().as_bytes(), []);
    }
}
