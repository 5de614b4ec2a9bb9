//! Reports of the kernel and of the event itself: losses, throttling, values, traces, symbols, BPF
//! programs, cgroups, changed code.

use super::Tid;
use crate::event::named_numbers;
use crate::flags::{AuxFlags, ReadFormat};
use crate::read::ReadValues;
use crate::wire::{Codec, Layout, Padding, Text, Words};
use bitflags::bitflags;

/// `PERF_RECORD_LOST`: records found no room in the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Id of the event that reports it.
    pub id: u64,
    /// Number of records.
    pub lost: u64,
}

impl<'a> Layout<'a> for Lost {
    #[inline]
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u64("id", &mut self.id)?;
        c.u64("lost", &mut self.lost)
    }
}

/// `PERF_RECORD_THROTTLE` and `PERF_RECORD_UNTHROTTLE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttle {
    /// When, on the event's clock.
    pub time: u64,
    /// Id of the event.
    pub id: u64,
    /// Id of the event instance.
    pub stream_id: u64,
}

impl<'a> Layout<'a> for Throttle {
    #[inline]
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u64("time", &mut self.time)?;
        c.u64("id", &mut self.id)?;
        c.u64("stream_id", &mut self.stream_id)
    }
}

/// `PERF_RECORD_READ`: the values of an inherited event whose task ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read<'a> {
    /// The task.
    pub tid: Tid,
    /// The values.
    pub values: ReadValues<'a>,
}

impl<'a> Read<'a> {
    #[inline]
    pub(super) fn layout<C: Codec<'a>>(&mut self, c: &mut C, format: ReadFormat) -> Result<(), C::Error> {
        self.tid.layout(c)?;
        self.values.layout(c, format)
    }
}

/// `PERF_RECORD_AUX`: data came to the AUX area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aux {
    /// Where it starts, counted like `aux_head`.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// How it is.
    pub flags: AuxFlags,
}

impl<'a> Layout<'a> for Aux {
    #[inline]
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u64("aux_offset", &mut self.offset)?;
        c.u64("aux_size", &mut self.size)?;
        c.flags64("flags", &mut self.flags)
    }
}

/// `PERF_RECORD_KSYMBOL`: kernel code without a file came or went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ksymbol<'a> {
    /// Start address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
    /// The kind of symbol.
    pub kind: KsymbolType,
    /// Whether it went.
    pub flags: KsymbolFlags,
    /// Its name.
    pub name: Text<'a>,
}

impl<'a> Layout<'a> for Ksymbol<'a> {
    #[inline]
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u64("addr", &mut self.addr)?;
        c.u32("len", &mut self.len)?;
        c.u16("ksym_type", &mut self.kind.0)?;
        let mut flags = self.flags.bits();
        c.u16("flags", &mut flags)?;
        self.flags = KsymbolFlags::from_bits_retain(flags);
        c.text("name", &mut self.name)
    }
}

named_numbers! {
    /// `ksym_type`: what kind of code.
    KsymbolType(u16) "PERF_RECORD_KSYMBOL_TYPE_" {
        /// Not known.
        UNKNOWN = 0,
        /// A BPF program.
        BPF = 1,
        /// Out-of-line code: of kprobes, ftrace trampolines.
        OOL = 2,
    }
}

bitflags! {
    /// `flags` of [`Ksymbol`].
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct KsymbolFlags: u16 {
        /// The symbol went.
        const UNREGISTER = 1 << 0;
        const _ = !0;
    }
}

/// `PERF_RECORD_BPF_EVENT`: a BPF program was loaded or unloaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BpfEvent {
    /// The kind of change.
    pub kind: BpfEventType,
    /// Flags; none are defined.
    pub flags: u16,
    /// Id of the program.
    pub id: u32,
    /// Tag of the program: a hash of its code.
    pub tag: [u8; 8],
}

impl<'a> Layout<'a> for BpfEvent {
    #[inline]
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u16("type", &mut self.kind.0)?;
        c.u16("flags", &mut self.flags)?;
        c.u32("id", &mut self.id)?;
        c.fixed("tag", &mut self.tag)
    }
}

named_numbers! {
    /// `type` of [`BpfEvent`].
    BpfEventType(u16) "PERF_BPF_EVENT_" {
        /// Not known.
        UNKNOWN = 0,
        /// Loaded.
        PROG_LOAD = 1,
        /// Unloaded.
        PROG_UNLOAD = 2,
    }
}

/// `PERF_RECORD_CGROUP`: a cgroup was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cgroup<'a> {
    /// Its id, as in [`SampleType::CGROUP`](crate::SampleType::CGROUP).
    pub id: u64,
    /// Its path from the root of the hierarchy.
    pub path: Text<'a>,
}

impl<'a> Layout<'a> for Cgroup<'a> {
    #[inline]
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u64("id", &mut self.id)?;
        c.text("path", &mut self.path)
    }
}

/// `PERF_RECORD_TEXT_POKE`: the kernel changed its code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextPoke<'a> {
    /// Address of the change.
    pub addr: u64,
    /// The bytes before; none if code was added.
    pub old: &'a [u8],
    /// The bytes after; none if code was removed.
    pub new: &'a [u8],
    /// Bytes up to a multiple of 8.
    pub padding: Padding<'a>,
}

impl<'a> Layout<'a> for TextPoke<'a> {
    #[inline]
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        // A length beyond 16 bits is refused by `bytes`, which compares it with that of the slice.
        let (mut old_len, mut new_len) = (self.old.len() as u16, self.new.len() as u16);
        c.u64("addr", &mut self.addr)?;
        c.u16("old_len", &mut old_len)?;
        c.u16("new_len", &mut new_len)?;
        c.bytes("old bytes", old_len.into(), &mut self.old)?;
        c.bytes("new bytes", new_len.into(), &mut self.new)?;
        c.pad8(&mut self.padding)
    }
}

/// `PERF_RECORD_CALLCHAIN_DEFERRED`: the user part of the callchains that end in
/// [`CallchainContext::USER_DEFERRED`](super::CallchainContext::USER_DEFERRED) and this cookie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallchainDeferred<'a> {
    /// Tells which samples are meant.
    pub cookie: u64,
    /// The addresses, without a marker.
    pub ips: Words<'a>,
}

impl<'a> Layout<'a> for CallchainDeferred<'a> {
    #[inline]
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u64("cookie", &mut self.cookie)?;
        let mut nr = self.ips.len() as u64;
        c.u64("length of the callchain", &mut nr)?;
        c.seq("callchain", nr, &mut self.ips)
    }
}
