//! The eight bytes every record starts with, and records as bytes.

use super::{Decoded, RecordFormat};
use crate::event::named_numbers;
use crate::order::ByteOrder;
use crate::wire::{Codec, Layout, Reader, Short};
use bitflags::bitflags;
use core::fmt;

named_numbers! {
    /// `header.type`. Numbers from [`USER_TYPE_START`](Self::USER_TYPE_START) on are records of tools,
    /// which kernels never write.
    RecordType(u32) "PERF_RECORD_" {
        /// A mapping was made.
        MMAP = 1,
        /// Records were lost.
        LOST = 2,
        /// A task changed its name.
        COMM = 3,
        /// A task ended.
        EXIT = 4,
        /// The event is paused: too many interrupts.
        THROTTLE = 5,
        /// The event continues.
        UNTHROTTLE = 6,
        /// A task started.
        FORK = 7,
        /// Values of an inherited event.
        READ = 8,
        /// The event overflowed.
        SAMPLE = 9,
        /// A mapping was made, with inode or build-id (Linux 3.12).
        MMAP2 = 10,
        /// Data came to the AUX area (Linux 4.1).
        AUX = 11,
        /// Instruction tracing started (Linux 4.1).
        ITRACE_START = 12,
        /// The hardware lost samples (Linux 4.2).
        LOST_SAMPLES = 13,
        /// The task came to the cpu or left it (Linux 4.3).
        SWITCH = 14,
        /// Another task came to the cpu (Linux 4.3).
        SWITCH_CPU_WIDE = 15,
        /// The namespaces of a task (Linux 4.12).
        NAMESPACES = 16,
        /// A kernel symbol came or went (Linux 5.1).
        KSYMBOL = 17,
        /// A BPF program came or went (Linux 5.1).
        BPF_EVENT = 18,
        /// A cgroup was made (Linux 5.7).
        CGROUP = 19,
        /// Kernel code was changed (Linux 5.9).
        TEXT_POKE = 20,
        /// The hardware's id of an event in AUX data (Linux 5.16).
        AUX_OUTPUT_HW_ID = 21,
        /// The user part of a callchain (Linux 6.19).
        CALLCHAIN_DEFERRED = 22,
    }
}

impl RecordType {
    /// The first number that `perf.data` uses for records of its own.
    pub const USER_TYPE_START: u32 = 64;

    /// Whether a kernel writes such records.
    #[inline]
    pub const fn is_kernel(self) -> bool {
        self.0 < Self::USER_TYPE_START
    }
}

impl fmt::Display for RecordType {
    /// The name without its prefix, or the number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.header_name().and_then(|name| name.strip_prefix("PERF_RECORD_")) {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

bitflags! {
    /// `header.misc`. The lowest three bits are the [cpu mode](Self::cpu_mode); the meaning of bits 13
    /// and 14 depends on the type of the record, hence the several names of each.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[repr(transparent)]
    pub struct Misc: u16 {
        /// A tool's reading of `/proc/PID/maps` was cut short.
        const PROC_MAP_PARSE_TIMEOUT = 1 << 12;
        /// Reserved for an extension.
        const EXT_RESERVED = 1 << 15;
        const _ = !0;
    }
}

impl Misc {
    /// The bits of the cpu mode.
    pub const CPUMODE_MASK: Misc = Misc::from_bits_retain(7);
    /// MMAP, MMAP2: the mapping is not executable.
    pub const MMAP_DATA: Misc = Misc::from_bits_retain(1 << 13);
    /// COMM: the name came with an exec.
    pub const COMM_EXEC: Misc = Misc::from_bits_retain(1 << 13);
    /// FORK: used inside the perf tool.
    pub const FORK_EXEC: Misc = Misc::from_bits_retain(1 << 13);
    /// SWITCH, SWITCH_CPU_WIDE: away from the cpu.
    pub const SWITCH_OUT: Misc = Misc::from_bits_retain(1 << 13);
    /// SAMPLE: the instruction pointer is exactly that of the event.
    pub const EXACT_IP: Misc = Misc::from_bits_retain(1 << 14);
    /// SWITCH, SWITCH_CPU_WIDE: preempted, not waiting.
    pub const SWITCH_OUT_PREEMPT: Misc = Misc::from_bits_retain(1 << 14);
    /// MMAP2: carries a build-id, not an inode.
    pub const MMAP_BUILD_ID: Misc = Misc::from_bits_retain(1 << 14);

    /// The mode of the cpu.
    #[inline]
    pub const fn cpu_mode(self) -> CpuMode {
        CpuMode(self.bits() & Self::CPUMODE_MASK.bits())
    }

    /// The same bits with another cpu mode; only its three lowest bits are used.
    #[inline]
    #[must_use]
    pub const fn with_cpu_mode(self, mode: CpuMode) -> Self {
        let rest = self.bits() & !Self::CPUMODE_MASK.bits();
        Self::from_bits_retain(rest | mode.0 & Self::CPUMODE_MASK.bits())
    }
}

impl From<CpuMode> for Misc {
    #[inline]
    fn from(mode: CpuMode) -> Self {
        Misc::empty().with_cpu_mode(mode)
    }
}

named_numbers! {
    /// The mode that the cpu was in.
    CpuMode(u16) "PERF_RECORD_MISC_" {
        /// Not known.
        CPUMODE_UNKNOWN = 0,
        /// The kernel.
        KERNEL = 1,
        /// A program.
        USER = 2,
        /// The hypervisor.
        HYPERVISOR = 3,
        /// A guest's kernel.
        GUEST_KERNEL = 4,
        /// A program in a guest.
        GUEST_USER = 5,
    }
}

/// The beginning of every record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The kind of record.
    pub kind: RecordType,
    /// Flags.
    pub misc: Misc,
    /// Bytes of the whole record, this header included.
    pub size: u16,
}

impl Header {
    /// Bytes of a header.
    pub const SIZE: usize = 8;

    /// The header at the start of `bytes`, if all of it is there; whether its record is, and whether its size is possible,
    /// [`RawRecord::split`] tells.
    #[inline]
    pub fn peek(bytes: &[u8], order: ByteOrder) -> Option<Self> {
        let mut header = Header::default();
        header.layout(&mut Reader::new(bytes, order)).ok().map(|()| header)
    }
}

impl<'a> Layout<'a> for Header {
    #[inline]
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u32("header.type", &mut self.kind.0)?;
        let mut misc = self.misc.bits();
        c.u16("header.misc", &mut misc)?;
        self.misc = Misc::from_bits_retain(misc);
        c.u16("header.size", &mut self.size)
    }
}

/// Bytes do not start with a whole record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordError {
    /// The header, or the record it announces, is not all there.
    Short(Short),
    /// `header.size` is less than the header itself.
    Size {
        /// The size given.
        size: u16,
    },
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Short(short) => short.fmt(f),
            RecordError::Size { size } => {
                write!(f, "header.size is {size}, less than the 8 of the header itself")
            }
        }
    }
}

impl core::error::Error for RecordError {}

impl From<Short> for RecordError {
    fn from(short: Short) -> Self {
        RecordError::Short(short)
    }
}

/// One record as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// Its header.
    pub header: Header,
    /// Everything after the header: `header.size - 8` bytes.
    pub body: &'a [u8],
}

impl<'a> RawRecord<'a> {
    /// The record at the start of `bytes`, and the bytes after it.
    #[inline]
    pub fn split(bytes: &'a [u8], order: ByteOrder) -> Result<(Self, &'a [u8]), RecordError> {
        let mut reader = Reader::new(bytes, order);
        let mut header = Header::default();
        header.layout(&mut reader)?;
        let Some(len) = usize::from(header.size).checked_sub(Header::SIZE) else {
            return Err(RecordError::Size { size: header.size });
        };
        let mut body: &[u8] = &[];
        reader.bytes("record", len as u64, &mut body)?;
        Ok((RawRecord { header, body }, reader.remaining()))
    }

    /// Takes the record apart. Tells which field does not fit where in the record, counted from its
    /// header. [`Decoded::fill`] does the same without moving the result.
    #[inline]
    pub fn decode(&self, format: &RecordFormat) -> Result<Decoded<'a>, Short> {
        Decoded::decode(self, format)
    }
}

/// Iterator over the records in a buffer. Ends after the first error.
#[derive(Clone, Debug)]
#[must_use = "iterators do nothing unless they are consumed"]
pub struct Records<'a> {
    rest: &'a [u8],
    order: ByteOrder,
    failed: bool,
}

impl<'a> Records<'a> {
    /// The records of `bytes`, one after the other.
    #[inline]
    pub fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Records { rest: bytes, order, failed: false }
    }

    /// The bytes not taken apart yet: after an error, the bytes from the bad record on.
    #[inline]
    pub fn remaining(&self) -> &'a [u8] {
        self.rest
    }
}

impl core::iter::FusedIterator for Records<'_> {}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RawRecord<'a>, RecordError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() || self.failed {
            return None;
        }
        match RawRecord::split(self.rest, self.order) {
            Ok((record, rest)) => {
                self.rest = rest;
                Some(Ok(record))
            }
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn records_are_taken_one_after_the_other() {
        let bytes = [14, 0, 0, 0, 0, 0x20, 8, 0, 13, 0, 0, 0, 2, 0, 16, 0, 5, 0, 0, 0, 0, 0, 0, 0];
        let records: Vec<_> = Records::new(&bytes, ByteOrder::Little).map(Result::unwrap).collect();
        assert_eq!(records[0].header.kind, RecordType::SWITCH);
        assert!(records[0].header.misc.contains(Misc::SWITCH_OUT));
        assert_eq!((records[1].header.misc.cpu_mode(), records[1].body), (CpuMode::USER, &bytes[16..]));
        assert_eq!(records.len(), 2);
    }

    #[test]
    fn a_size_below_eight_ends_the_iteration() {
        let bytes = [1, 0, 0, 0, 0, 0, 7, 0, 0];
        let mut records = Records::new(&bytes, ByteOrder::Little);
        assert_eq!(records.next(), Some(Err(RecordError::Size { size: 7 })));
        assert_eq!((records.next(), records.remaining()), (None, &bytes[..]));
    }

    #[test]
    fn a_record_that_is_not_all_there_says_what_is_missing() {
        let error = |bytes: &[u8]| RawRecord::split(bytes, ByteOrder::Big).unwrap_err().to_string();
        use std::string::ToString;
        assert_eq!(error(&[0, 0, 0, 1, 0]), "header.misc at byte 4 needs 2 bytes, 1 are left");
        assert_eq!(error(&[0, 0, 0, 1, 0, 0, 1, 0, 9]), "record at byte 8 needs 248 bytes, 1 are left");
    }

    #[test]
    fn names_of_types() {
        use std::string::ToString;
        assert_eq!(RecordType::SWITCH_CPU_WIDE.to_string(), "SWITCH_CPU_WIDE");
        assert_eq!(RecordType(99).to_string(), "99");
        assert!(RecordType(63).is_kernel() && !RecordType(64).is_kernel());
    }
}
