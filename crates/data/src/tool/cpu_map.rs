//! Sets of cpus in their three forms on the wire.

use crate::layout::{FileCodec, FileLayout, Surroundings};
use perfuse_abi::wire::{Codec, Item, Layout, Seq, Words};
use std::ops::RangeInclusive;

/// A set of cpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CpuMap<'a> {
    /// A list; 0xffff stands for any cpu.
    Cpus(Seq<'a, Cpu16>),
    /// One bit for each cpu, in words of 32 bits.
    Mask32(Seq<'a, Cpu32>),
    /// One bit for each cpu, in words of 64 bits.
    Mask64 {
        /// Bytes before the words, which a C compiler once left there.
        padding: [u8; 4],
        /// The words.
        mask: Words<'a>,
    },
    /// Neighbours (perf 6.1).
    Range {
        /// Any cpu belongs to it too.
        any: u8,
        /// Reserved.
        reserved: u8,
        /// The first.
        start: u16,
        /// The last.
        end: u16,
    },
    /// A form that is not known.
    Unknown {
        /// Its number.
        form: u16,
        /// The bytes behind it.
        bytes: &'a [u8],
    },
}

impl Default for CpuMap<'_> {
    fn default() -> Self {
        CpuMap::Cpus(Seq::default())
    }
}

/// A 16-bit number of a cpu.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu16(pub u16);

impl Cpu16 {
    /// Any cpu.
    pub const ANY: Self = Cpu16(u16::MAX);
}

impl<'a> Layout<'a> for Cpu16 {
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u16("cpu", &mut self.0)
    }
}

impl Item for Cpu16 {
    const SIZE: usize = 2;
}

/// 32 bits of a mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu32(pub u32);

impl<'a> Layout<'a> for Cpu32 {
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u32("word", &mut self.0)
    }
}

impl Item for Cpu32 {
    const SIZE: usize = 4;
}

impl<'a> CpuMap<'a> {
    /// The cpus, neighbours put together. "Any cpu" is none of them: see [`has_any`](Self::has_any).
    pub fn ranges(&self) -> Vec<RangeInclusive<u32>> {
        let mut ranges: Vec<RangeInclusive<u32>> = Vec::new();
        let mut add = |cpu: u32| match ranges.last_mut() {
            Some(last) if cpu > 0 && *last.end() == cpu - 1 => *last = *last.start()..=cpu,
            _ => ranges.push(cpu..=cpu),
        };
        let mut add_bits = |word: u64, first: usize| {
            (0..64).filter(|bit| word >> bit & 1 == 1).for_each(|bit| add(first as u32 + bit));
        };
        match self {
            CpuMap::Cpus(cpus) => {
                cpus.iter().filter(|cpu| *cpu != Cpu16::ANY).for_each(|Cpu16(cpu)| add(cpu.into()));
            }
            CpuMap::Mask32(mask) => {
                mask.iter().enumerate().for_each(|(index, Cpu32(word))| add_bits(word.into(), index * 32));
            }
            CpuMap::Mask64 { mask, .. } => {
                mask.iter().enumerate().for_each(|(index, word)| add_bits(word, index * 64));
            }
            CpuMap::Range { start, end, .. } => ranges.push(u32::from(*start)..=u32::from(*end)),
            CpuMap::Unknown { .. } => {}
        }
        ranges
    }

    /// Whether "any cpu" belongs to the set: that of events that follow threads.
    pub fn has_any(&self) -> bool {
        match self {
            CpuMap::Cpus(cpus) => cpus.iter().any(|cpu| cpu == Cpu16::ANY),
            CpuMap::Range { any, .. } => *any != 0,
            _ => false,
        }
    }

    fn form(&self) -> u16 {
        match self {
            CpuMap::Cpus(_) => 0,
            CpuMap::Mask32(_) | CpuMap::Mask64 { .. } => 1,
            CpuMap::Range { .. } => 2,
            CpuMap::Unknown { form, .. } => *form,
        }
    }
}

impl<'a> FileLayout<'a> for CpuMap<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        let mut form = self.form();
        c.u16("form", &mut form)?;
        if form != self.form() {
            *self = match form {
                1 => CpuMap::Mask32(Seq::default()),
                2 => CpuMap::Range { any: 0, reserved: 0, start: 0, end: 0 },
                form => CpuMap::Unknown { form, bytes: &[] },
            };
        }
        if form == 1 {
            return self.mask(c);
        }
        match self {
            CpuMap::Cpus(cpus) => {
                let mut count = cpus.len() as u16;
                c.u16("number of cpus", &mut count)?;
                c.seq("cpus", count.into(), cpus)
            }
            CpuMap::Range { any, reserved, start, end } => {
                c.u8("any cpu", any)?;
                c.u8("reserved", reserved)?;
                c.u16("first cpu", start)?;
                c.u16("last cpu", end)
            }
            CpuMap::Unknown { bytes, .. } => c.rest(bytes),
            CpuMap::Mask32(_) | CpuMap::Mask64 { .. } => Ok(()),
        }
    }
}

impl<'a> CpuMap<'a> {
    fn mask<C: FileCodec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        let (mut count, mut size) = match self {
            CpuMap::Mask64 { mask, .. } => (mask.len() as u16, 8u16),
            CpuMap::Mask32(mask) => (mask.len() as u16, 4),
            _ => (0, 4),
        };
        c.u16("number of words", &mut count)?;
        c.u16("size of a word", &mut size)?;
        if size == 8 && !matches!(self, CpuMap::Mask64 { .. }) {
            *self = CpuMap::Mask64 { padding: [0; 4], mask: Words::default() };
        }
        match self {
            CpuMap::Mask64 { padding, mask } => {
                c.fixed("padding", padding)?;
                c.seq("mask", count.into(), mask)
            }
            // Words of no other size exist; what claims so must have the bytes of them to be kept at all.
            CpuMap::Mask32(mask) if size == 4 => c.seq("mask", count.into(), mask),
            _ => c.bytes("mask of 4- or 8-byte words", u64::MAX, &mut { &[][..] }),
        }
    }
}
