//! Sections about the recording itself: its events, files, AUX data, compression.

use crate::layout::{AttrBytes, FileCodec, FileLayout, Str, Surroundings, items};
use perfuse_abi::record::{Header, Misc, RecordType};
use perfuse_abi::wire::{Codec, Item, Layout, Seq, Words};

/// The build-id of a file that had samples; also the record of type 67.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildIdEntry<'a> {
    /// The type in its header: 0 where perf writes it into the section, 67 (which the record has)
    /// elsewhere.
    pub kind: RecordType,
    /// Flags: the cpu mode tells kernel from user, [`HAS_LEN`](Self::HAS_LEN) whether `len` is meant.
    pub misc: Misc,
    /// Process id of the (guest) kernel it belongs to; -1 for the host.
    pub pid: i32,
    /// The build-id, filled up with zeros.
    pub id: [u8; 20],
    /// Length of the build-id, if told.
    pub len: u8,
    /// Reserved.
    pub reserved: [u8; 3],
    /// Path of the file.
    pub name: Str<'a>,
}

impl Default for BuildIdEntry<'_> {
    fn default() -> Self {
        let (kind, misc, name) = (RecordType(0), Misc::empty(), Str::default());
        BuildIdEntry { kind, misc, pid: -1, id: [0; 20], len: 0, reserved: [0; 3], name }
    }
}

impl<'a> BuildIdEntry<'a> {
    /// The flag in `misc` that `len` is meant.
    pub const HAS_LEN: Misc = Misc::from_bits_retain(1 << 15);
    /// Bytes of a record before its name.
    const BEFORE_NAME: usize = Header::SIZE + 28;

    /// The build-id itself.
    pub fn bytes(&self) -> &[u8] {
        let told = self.misc.contains(Self::HAS_LEN) && usize::from(self.len) <= self.id.len();
        if told { &self.id[..usize::from(self.len)] } else { &self.id }
    }

    /// Lays out the part behind the header; the name takes `name_len` bytes.
    pub(crate) fn body<C: Codec<'a>>(&mut self, c: &mut C, name_len: u64) -> Result<(), C::Error> {
        let mut pid = self.pid;
        c.i32("pid", &mut pid)?;
        self.pid = pid;
        c.fixed("build-id", &mut self.id)?;
        c.u8("length of the build-id", &mut self.len)?;
        c.fixed("reserved", &mut self.reserved)?;
        self.name.content(c, "name", name_len)
    }
}

/// A sequence of build-ids with headers, up to the end of the section.
pub(super) fn build_ids<'a, C: FileCodec<'a>>(
    c: &mut C,
    v: &mut Vec<BuildIdEntry<'a>>,
    around: &Surroundings,
) -> Result<(), C::Error> {
    let mut index = 0;
    while around.has(c, Header::SIZE as u64, index < v.len()) {
        if v.len() == index {
            v.push(BuildIdEntry::default());
        }
        let build_id = &mut v[index];
        let size = (BuildIdEntry::BEFORE_NAME + build_id.name.len()) as u16;
        let mut header = Header { kind: build_id.kind, misc: build_id.misc, size };
        header.layout(c)?;
        (build_id.kind, build_id.misc) = (header.kind, header.misc);
        // A size below that of an empty name becomes one that no bytes can fill.
        build_id.body(c, u64::from(header.size).wrapping_sub(BuildIdEntry::BEFORE_NAME as u64))?;
        index += 1;
    }
    Ok(())
}

/// The events of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventDescs<'a> {
    /// Bytes of each attr.
    pub attr_size: u32,
    /// The events.
    pub events: Vec<EventDesc<'a>>,
}

/// An event with its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventDesc<'a> {
    /// How it was opened.
    pub attr: AttrBytes<'a>,
    /// Its name, such as `cycles:u`.
    pub name: Str<'a>,
    /// The ids of its instances.
    pub ids: Words<'a>,
}

impl<'a> FileLayout<'a> for EventDescs<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        let mut count = self.events.len() as u32;
        c.u32("number of events", &mut count)?;
        c.u32("size of an attr", &mut self.attr_size)?;
        items(c, count.into(), &mut self.events, |c, event| {
            c.bytes("attr", self.attr_size.into(), &mut event.attr.0)?;
            let mut ids = event.ids.len() as u32;
            c.u32("number of ids", &mut ids)?;
            event.name.counted(c, "name")?;
            c.seq("ids", ids.into(), &mut event.ids)
        })
    }
}

/// A PMU of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PmuMapping<'a> {
    /// `attr.type` of its events.
    pub kind: u32,
    /// Its name.
    pub name: Str<'a>,
}

impl<'a> FileLayout<'a> for PmuMapping<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        c.u32("type", &mut self.kind)?;
        self.name.counted(c, "name")
    }
}

/// A group of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group<'a> {
    /// Its name; `{anon_group}` if it was given none.
    pub name: Str<'a>,
    /// Index of its leader among the events.
    pub leader: u32,
    /// Number of events, the leader included. They follow it.
    pub members: u32,
}

impl<'a> FileLayout<'a> for Group<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        self.name.counted(c, "name")?;
        c.u32("leader", &mut self.leader)?;
        c.u32("number of members", &mut self.members)
    }
}

/// An AUXTRACE record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuxtraceEntry {
    /// Where it is in the file.
    pub offset: u64,
    /// Its size in bytes, without the data that follows it.
    pub size: u64,
}

impl<'a> Layout<'a> for AuxtraceEntry {
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u64("offset", &mut self.offset)?;
        c.u64("size", &mut self.size)
    }
}

impl Item for AuxtraceEntry {
    const SIZE: usize = 16;
}

/// Where the AUXTRACE records are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuxtraceIndex<'a> {
    /// There is no count before the records: so simpleperf writes it.
    pub is_bare: bool,
    /// The records.
    pub records: Seq<'a, AuxtraceEntry>,
}

impl<'a> FileLayout<'a> for AuxtraceIndex<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, around: &Surroundings) -> Result<(), C::Error> {
        // Records have 16 bytes, the count has 8.
        let len = around.end.saturating_sub(c.position());
        self.is_bare |= len > 0 && len % AuxtraceEntry::SIZE == 0;
        let mut count = (self.records.len().max(len / AuxtraceEntry::SIZE)) as u64;
        if !self.is_bare {
            c.u64("number of AUXTRACE records", &mut count)?;
        }
        c.seq("AUXTRACE records", count, &mut self.records)
    }
}

/// Times of the first and the last sample, on the clock of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleTime {
    /// Of the first, in ns.
    pub first_ns: u64,
    /// Of the last, in ns.
    pub last_ns: u64,
}

impl<'a> FileLayout<'a> for SampleTime {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        c.u64("first", &mut self.first_ns)?;
        c.u64("last", &mut self.last_ns)
    }
}

/// How records are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compressed {
    /// Version of this layout: 0.
    pub version: u32,
    /// 1: zstd.
    pub kind: u32,
    /// Level of the compression.
    pub level: u32,
    /// About how many times smaller.
    pub ratio: u32,
    /// Bytes of the ring buffers.
    pub mmap_len: u32,
}

impl Default for Compressed {
    fn default() -> Self {
        Compressed { version: 0, kind: 1, level: 1, ratio: 1, mmap_len: 0 }
    }
}

impl<'a> FileLayout<'a> for Compressed {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        c.u32("version", &mut self.version)?;
        c.u32("type", &mut self.kind)?;
        c.u32("level", &mut self.level)?;
        c.u32("ratio", &mut self.ratio)?;
        c.u32("length of the ring", &mut self.mmap_len)
    }
}
