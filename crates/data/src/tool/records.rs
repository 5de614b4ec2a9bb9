//! The bodies of tool records.

use super::CpuMap;
use crate::layout::{AttrBytes, FileCodec, FileLayout, Surroundings};
use perfuse_abi::wire::{Codec, Item, Layout, Seq, Text, Words};

/// An event: its attr, then its ids up to the end of the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderAttr<'a> {
    /// How it was opened. As many bytes as its own `size` field tells.
    pub attr: AttrBytes<'a>,
    /// The ids of its instances.
    pub ids: Words<'a>,
}

impl<'a> FileLayout<'a> for HeaderAttr<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, around: &Surroundings) -> Result<(), C::Error> {
        let len = self.attr.0.len().max(around.attr_len);
        c.bytes("attr", len as u64, &mut self.attr.0)?;
        let ids = around.end.saturating_sub(c.position()) / 8;
        c.seq("ids", self.ids.len().max(ids) as u64, &mut self.ids)
    }
}

/// The name of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventType<'a> {
    /// `attr.config` of the event.
    pub id: u64,
    /// Its name.
    pub name: Text<'a>,
}

impl<'a> FileLayout<'a> for EventType<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        c.u64("id", &mut self.id)?;
        c.text("name", &mut self.name)
    }
}

/// The owners of ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdIndex<'a> {
    /// The ids.
    pub entries: Seq<'a, IdIndexEntry>,
    /// For each id the guest it belongs to (perf 6.0).
    pub guests: Option<Seq<'a, Guest>>,
}

/// The owner of an id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdIndexEntry {
    /// The id.
    pub id: u64,
    /// Number of the ring it was written to.
    pub index: u64,
    /// Its cpu; all ones if it follows a thread.
    pub cpu: u64,
    /// Its thread; all ones if it belongs to a cpu.
    pub tid: u64,
}

impl<'a> Layout<'a> for IdIndexEntry {
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u64("id", &mut self.id)?;
        c.u64("index", &mut self.index)?;
        c.u64("cpu", &mut self.cpu)?;
        c.u64("tid", &mut self.tid)
    }
}

impl Item for IdIndexEntry {
    const SIZE: usize = 32;
}

/// A guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    /// Process of the virtual machine.
    pub machine_pid: u64,
    /// Its cpu.
    pub vcpu: u64,
}

impl<'a> Layout<'a> for Guest {
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u64("machine_pid", &mut self.machine_pid)?;
        c.u64("vcpu", &mut self.vcpu)
    }
}

impl Item for Guest {
    const SIZE: usize = 16;
}

impl<'a> FileLayout<'a> for IdIndex<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, around: &Surroundings) -> Result<(), C::Error> {
        let mut count = self.entries.len() as u64;
        c.u64("number of ids", &mut count)?;
        c.seq("ids", count, &mut self.entries)?;
        let has_guests = count > 0 && around.has(c, count.saturating_mul(16), self.guests.is_some());
        c.optional(has_guests, "guests", &mut self.guests, |c, v| c.seq("guests", count, v))
    }
}

/// About AUX data to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuxtraceInfo<'a> {
    /// The kind of trace: 1 Intel PT, 2 Intel BTS, 3 CoreSight, 4 Arm SPE, 5 s390, 6 HiSilicon PTT.
    pub kind: u32,
    /// Reserved.
    pub reserved: u32,
    /// Facts for its decoder.
    pub private: Words<'a>,
}

impl<'a> FileLayout<'a> for AuxtraceInfo<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, around: &Surroundings) -> Result<(), C::Error> {
        c.u32("type", &mut self.kind)?;
        c.u32("reserved", &mut self.reserved)?;
        let read = around.end.saturating_sub(c.position()) / 8;
        c.seq("private data", self.private.len().max(read) as u64, &mut self.private)
    }
}

/// AUX data, which follows the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Auxtrace {
    /// Bytes after the record.
    pub size: u64,
    /// Where they were in the AUX area, counted like `aux_head`.
    pub offset: u64,
    /// A number that the decoder gave itself.
    pub reference: u64,
    /// Number of the AUX area.
    pub index: u32,
    /// The thread it follows.
    pub tid: u32,
    /// The cpu it belongs to.
    pub cpu: u32,
    /// Reserved.
    pub reserved: u32,
}

impl<'a> FileLayout<'a> for Auxtrace {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        c.u64("size", &mut self.size)?;
        c.u64("offset", &mut self.offset)?;
        c.u64("reference", &mut self.reference)?;
        c.u32("index", &mut self.index)?;
        c.u32("tid", &mut self.tid)?;
        c.u32("cpu", &mut self.cpu)?;
        c.u32("reserved", &mut self.reserved)
    }
}

/// AUX data could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuxtraceError {
    /// Kind of error.
    pub kind: u32,
    /// Its code.
    pub code: u32,
    /// On this cpu.
    pub cpu: u32,
    /// In this process.
    pub pid: u32,
    /// In this thread.
    pub tid: u32,
    /// Which form the record has: from 1 on there is a time, from 2 on a guest.
    pub form: u32,
    /// At this address.
    pub ip: u64,
    /// At this time.
    pub time: Option<u64>,
    /// The message, filled up with NULs.
    pub message: [u8; 64],
    /// In this guest.
    pub guest: Option<AuxtraceErrorGuest>,
}

/// The guest of an [`AuxtraceError`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuxtraceErrorGuest {
    /// Process of the virtual machine.
    pub machine_pid: u32,
    /// Its cpu.
    pub vcpu: u32,
}

impl Default for AuxtraceError {
    fn default() -> Self {
        AuxtraceError {
            kind: 0,
            code: 0,
            cpu: 0,
            pid: 0,
            tid: 0,
            form: 0,
            ip: 0,
            time: None,
            message: [0; 64],
            guest: None,
        }
    }
}

impl<'a> FileLayout<'a> for AuxtraceError {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        c.u32("type", &mut self.kind)?;
        c.u32("code", &mut self.code)?;
        c.u32("cpu", &mut self.cpu)?;
        c.u32("pid", &mut self.pid)?;
        c.u32("tid", &mut self.tid)?;
        c.u32("form", &mut self.form)?;
        c.u64("ip", &mut self.ip)?;
        c.optional_u64(self.form >= 1, "time", &mut self.time)?;
        c.fixed("message", &mut self.message)?;
        c.optional(self.form >= 2, "guest", &mut self.guest, |c, v| {
            c.u32("machine_pid", &mut v.machine_pid)?;
            c.u32("vcpu", &mut v.vcpu)
        })
    }
}

/// A thread that was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Its id.
    pub tid: u64,
    /// Its name, filled up with NULs.
    pub comm: [u8; 16],
}

impl<'a> Layout<'a> for Thread {
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u64("tid", &mut self.tid)?;
        c.fixed("comm", &mut self.comm)
    }
}

impl Item for Thread {
    const SIZE: usize = 24;
}

/// How `perf stat` was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatConfigEntry {
    /// 0: aggregation; 1: interval in ms; 2: whether counts are scaled; 3: topology level.
    pub tag: u64,
    /// Its value.
    pub value: u64,
}

impl<'a> Layout<'a> for StatConfigEntry {
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u64("tag", &mut self.tag)?;
        c.u64("value", &mut self.value)
    }
}

impl Item for StatConfigEntry {
    const SIZE: usize = 16;
}

/// A count of `perf stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Id of the event.
    pub id: u64,
    /// Its cpu; all ones if it follows a thread.
    pub cpu: u32,
    /// Index of its thread among those measured.
    pub thread: u32,
    /// The count.
    pub value: u64,
    /// Time enabled, in ns.
    pub enabled_ns: u64,
    /// Time counting, in ns.
    pub running_ns: u64,
}

impl<'a> FileLayout<'a> for Stat {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        c.u64("id", &mut self.id)?;
        c.u32("cpu", &mut self.cpu)?;
        c.u32("thread", &mut self.thread)?;
        c.u64("value", &mut self.value)?;
        c.u64("time enabled", &mut self.enabled_ns)?;
        c.u64("time running", &mut self.running_ns)
    }
}

/// An interval of `perf stat` ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatRound {
    /// 0: an interval; 1: the last.
    pub kind: u64,
    /// When, in ns since the start.
    pub time_ns: u64,
}

impl<'a> FileLayout<'a> for StatRound {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        c.u64("type", &mut self.kind)?;
        c.u64("time", &mut self.time_ns)
    }
}

/// More about an event.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EventUpdate<'a> {
    /// Its id.
    pub id: u64,
    /// The new unit, factor, name or cpus.
    pub update: Update<'a>,
}

/// A change that an [`EventUpdate`] tells.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Update<'a> {
    /// The unit of its counts.
    Unit(Text<'a>),
    /// The factor of counts.
    Scale(f64),
    /// Its name.
    Name(Text<'a>),
    /// The cpus it counts on.
    Cpus(CpuMap<'a>),
    /// Something newer.
    Unknown {
        /// Its number.
        kind: u64,
        /// Its bytes.
        bytes: &'a [u8],
    },
}

impl Default for Update<'_> {
    fn default() -> Self {
        Update::Unit(Text::default())
    }
}

impl Update<'_> {
    fn kind(&self) -> u64 {
        match self {
            Update::Unit(_) => 0,
            Update::Scale(_) => 1,
            Update::Name(_) => 2,
            Update::Cpus(_) => 3,
            Update::Unknown { kind, .. } => *kind,
        }
    }
}

impl<'a> FileLayout<'a> for EventUpdate<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, around: &Surroundings) -> Result<(), C::Error> {
        let mut kind = self.update.kind();
        c.u64("type", &mut kind)?;
        c.u64("id", &mut self.id)?;
        if kind != self.update.kind() {
            self.update = match kind {
                1 => Update::Scale(0.0),
                2 => Update::Name(Text::default()),
                3 => Update::Cpus(CpuMap::default()),
                kind => Update::Unknown { kind, bytes: &[] },
            };
        }
        match &mut self.update {
            Update::Unit(text) | Update::Name(text) => c.text("text", text),
            Update::Scale(scale) => {
                let mut bits = scale.to_bits();
                c.u64("scale", &mut bits)?;
                *scale = f64::from_bits(bits);
                Ok(())
            }
            Update::Cpus(cpus) => cpus.layout(c, around),
            Update::Unknown { bytes, .. } => c.rest(bytes),
        }
    }
}

/// How the cpu's clock converts to the time of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeConv {
    /// As in the control page.
    pub shift: u64,
    /// As in the control page.
    pub mult: u64,
    /// As in the control page.
    pub zero: u64,
    /// For clocks of fewer than 64 bits (perf 5.11).
    pub cap: Option<TimeConvCap>,
}

/// The later part of [`TimeConv`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeConvCap {
    /// As in the control page.
    pub cycles: u64,
    /// As in the control page.
    pub mask: u64,
    /// Whether the times are meant.
    pub has_zero: u8,
    /// Whether cycles and mask are meant.
    pub is_short: u8,
    /// Reserved.
    pub reserved: [u8; 6],
}

impl<'a> FileLayout<'a> for TimeConv {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, around: &Surroundings) -> Result<(), C::Error> {
        c.u64("shift", &mut self.shift)?;
        c.u64("mult", &mut self.mult)?;
        c.u64("zero", &mut self.zero)?;
        let has_cap = around.has(c, 24, self.cap.is_some());
        c.optional(has_cap, "cycles", &mut self.cap, |c, v| {
            c.u64("cycles", &mut v.cycles)?;
            c.u64("mask", &mut v.mask)?;
            c.u8("has zero", &mut v.has_zero)?;
            c.u8("is short", &mut v.is_short)?;
            c.fixed("reserved", &mut v.reserved)
        })
    }
}

/// Variables of a BPF program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BpfMetadata<'a> {
    /// Name of the program, filled up with NULs to 512 bytes.
    pub program: &'a [u8],
    /// Its variables.
    pub variables: Seq<'a, BpfVariable>,
}

const PROGRAM_LEN: usize = 512;

impl Default for BpfMetadata<'_> {
    fn default() -> Self {
        BpfMetadata { program: &[0; PROGRAM_LEN], variables: Seq::default() }
    }
}

/// A variable of a BPF program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BpfVariable {
    /// Its name, filled up with NULs.
    pub key: [u8; 64],
    /// Its value as text, filled up with NULs.
    pub value: [u8; 256],
}

impl Default for BpfVariable {
    fn default() -> Self {
        BpfVariable { key: [0; 64], value: [0; 256] }
    }
}

impl<'a> Layout<'a> for BpfVariable {
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.fixed("key", &mut self.key)?;
        c.fixed("value", &mut self.value)
    }
}

impl Item for BpfVariable {
    const SIZE: usize = 320;
}

impl<'a> FileLayout<'a> for BpfMetadata<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        c.bytes("program", PROGRAM_LEN as u64, &mut self.program)?;
        let mut count = self.variables.len() as u64;
        c.u64("number of variables", &mut count)?;
        c.seq("variables", count, &mut self.variables)
    }
}
