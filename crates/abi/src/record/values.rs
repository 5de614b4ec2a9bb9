//! The parts of a sample that have an inner structure: raw data, registers, stacks, weights.

use crate::event::named_numbers;
use crate::wire::{Codec, Layout, Words};
use core::fmt;

/// Opaque data, such as a tracepoint's fields or what a BPF program wrote. The kernel pads it with zeros
/// so that it ends at a multiple of 8 bytes, and counts the padding (rule H15): what was written cannot
/// be told from it any more. Compares with the padding.
#[derive(Clone, Copy, Default)]
pub struct Raw<'a> {
    bytes: &'a [u8],
    /// Zeros to be written after the bytes.
    zeros: u8,
}

impl<'a> Raw<'a> {
    /// Data to be written, which gets the kernel's padding.
    #[inline]
    pub fn new(data: &'a [u8]) -> Self {
        Raw { bytes: data, zeros: ((data.len() + 4).wrapping_neg() % 8) as u8 }
    }

    /// The data: with padding if it was decoded, without if it was given to [`new`](Self::new).
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes with padding: the `size` on the wire.
    #[inline]
    pub fn size(&self) -> usize {
        self.bytes.len() + usize::from(self.zeros)
    }
}

impl<'a> Layout<'a> for Raw<'a> {
    #[inline]
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        // Data beyond 32 bits would need a record beyond 16.
        let mut size = self.size() as u32;
        c.u32("raw size", &mut size)?;
        let mut zeros = &[0; 7][..usize::from(self.zeros)];
        c.bytes("raw", u64::from(size).saturating_sub(zeros.len() as u64), &mut self.bytes)?;
        c.bytes("raw padding", zeros.len() as u64, &mut zeros)
    }
}

impl PartialEq for Raw<'_> {
    fn eq(&self, other: &Self) -> bool {
        let padded = |raw: &Self| raw.bytes.iter().copied().chain((0..raw.zeros).map(|_| 0));
        self.size() == other.size() && padded(self).eq(padded(other))
    }
}

impl Eq for Raw<'_> {}

impl fmt::Debug for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Raw({} bytes: \"{}\")", self.size(), self.bytes.escape_ascii())
    }
}

/// Values of registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Regs<'a> {
    /// Whether there are any, and of which width.
    pub abi: RegsAbi,
    /// The registers that were asked for, one bit each (see [`regs`](crate::regs)).
    pub mask: u64,
    /// The values in the order of their bits; none with [`RegsAbi::ABI_NONE`].
    pub words: Words<'a>,
}

impl<'a> Regs<'a> {
    /// The value of the register with this number, if it was asked for and is there.
    ///
    /// ```
    /// use perfuse_abi::record::{Regs, RegsAbi};
    /// let regs = Regs { abi: RegsAbi::ABI_64, mask: 1 << 7 | 1 << 8, words: [0x7ffe, 0x401000][..].into() };
    /// assert_eq!(regs.get(8), Some(0x401000));
    /// assert_eq!(regs.get(0), None);
    /// ```
    #[inline]
    pub fn get(&self, register: u32) -> Option<u64> {
        let bit = 1u64.checked_shl(register)?;
        if self.mask & bit == 0 {
            return None;
        }
        self.words.get((self.mask & (bit - 1)).count_ones() as usize)
    }

    /// Numbers and values of all registers that are there.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + use<'a> {
        let mask = self.mask;
        (0..64).filter(move |register| mask >> register & 1 != 0).zip(self.words)
    }

    #[inline]
    pub(super) fn layout<C: Codec<'a>>(&mut self, c: &mut C, mask: u64) -> Result<(), C::Error> {
        self.mask = mask;
        c.u64("registers' abi", &mut self.abi.0)?;
        let count = if self.abi == RegsAbi::ABI_NONE { 0 } else { mask.count_ones() };
        c.seq("registers", count.into(), &mut self.words)
    }
}

named_numbers! {
    /// Width of register values.
    RegsAbi(u64) "PERF_SAMPLE_REGS_" {
        /// There were no registers: no values follow. So it is for the user's in a kernel thread.
        ABI_NONE = 0,
        /// A 32-bit task.
        ABI_32 = 1,
        /// A 64-bit task.
        ABI_64 = 2,
    }
}

/// A copy of the user's stack, from the stack pointer upwards.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct UserStack<'a> {
    /// The space that was reserved for the copy; what the kernel could not copy is not meaningful.
    pub bytes: &'a [u8],
    /// How many of the bytes were copied. Not written if there is no space.
    pub dyn_size: u64,
}

impl<'a> UserStack<'a> {
    /// The bytes that were copied.
    #[inline]
    pub fn copied(&self) -> &'a [u8] {
        let len = usize::try_from(self.dyn_size).unwrap_or(usize::MAX);
        self.bytes.get(..len).unwrap_or(self.bytes)
    }
}

impl<'a> Layout<'a> for UserStack<'a> {
    #[inline]
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        let mut size = self.bytes.len() as u64;
        c.u64("user stack size", &mut size)?;
        c.bytes("user stack", size, &mut self.bytes)?;
        if size == 0 {
            return Ok(());
        }
        c.u64("user stack dyn_size", &mut self.dyn_size)
    }
}

impl fmt::Debug for UserStack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserStack({} bytes, {} copied)", self.bytes.len(), self.dyn_size)
    }
}

/// The hardware's cost of what was sampled, such as the latency of a load. On the wire both forms are one
/// 64-bit number, with `var1` in its lowest half in both byte orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// One cost ([`SampleType::WEIGHT`](crate::SampleType::WEIGHT)).
    Full(u64),
    /// Three costs ([`SampleType::WEIGHT_STRUCT`](crate::SampleType::WEIGHT_STRUCT)).
    Struct {
        /// The first one, which is what `Full` has otherwise.
        var1: u32,
        /// The second one.
        var2: u16,
        /// The third one.
        var3: u16,
    },
}

impl Default for Weight {
    fn default() -> Self {
        Weight::Full(0)
    }
}

impl Weight {
    /// The number on the wire.
    #[inline]
    pub const fn bits(self) -> u64 {
        match self {
            Weight::Full(bits) => bits,
            Weight::Struct { var1, var2, var3 } => var1 as u64 | (var2 as u64) << 32 | (var3 as u64) << 48,
        }
    }

    /// The three costs in a number.
    #[inline]
    pub const fn from_struct_bits(bits: u64) -> Self {
        Weight::Struct { var1: bits as u32, var2: (bits >> 32) as u16, var3: (bits >> 48) as u16 }
    }

    /// The cost, or the first of the three.
    #[inline]
    pub const fn first(self) -> u64 {
        match self {
            Weight::Full(cost) => cost,
            Weight::Struct { var1, .. } => var1 as u64,
        }
    }

    #[inline]
    pub(super) fn layout<'a, C: Codec<'a>>(&mut self, c: &mut C, three: bool) -> Result<(), C::Error> {
        let mut bits = self.bits();
        c.u64("weight", &mut bits)?;
        *self = if three { Weight::from_struct_bits(bits) } else { Weight::Full(bits) };
        Ok(())
    }
}
