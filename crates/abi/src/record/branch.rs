//! Branch stacks: the last branches the cpu took.

use crate::event::named_numbers;
use crate::flags::BranchSampleType;
use crate::wire::{Codec, Item, Layout, Seq, Words};
use core::fmt;

/// The branches of a sample, newest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BranchStack<'a> {
    /// The hardware's index of the newest branch, with [`BranchSampleType::HW_INDEX`]; all ones if it has
    /// none. The kernel leaves it out if it has no branch stack at all, but gives it with an empty one.
    pub hw_idx: Option<u64>,
    /// The branches.
    pub entries: Seq<'a, BranchEntry>,
    /// For each branch the occurrences of other events, with [`BranchSampleType::COUNTERS`]. The PMU's
    /// `caps/branch_counter_nr` and `caps/branch_counter_width` tell how they are packed.
    pub counters: Option<Words<'a>>,
}

impl<'a> BranchStack<'a> {
    /// `index_of_empty` tells a reader whether an empty stack has a `hw_idx`: its bytes do not.
    #[inline]
    pub(super) fn layout<C: Codec<'a>>(
        &mut self,
        c: &mut C,
        format: BranchSampleType,
        index_of_empty: bool,
    ) -> Result<(), C::Error> {
        let mut nr = self.entries.len() as u64;
        c.u64("length of the branch stack", &mut nr)?;
        let has_index = nr > 0 || index_of_empty || self.hw_idx.is_some();
        let wanted = format.contains(BranchSampleType::HW_INDEX) && has_index;
        c.optional_u64(wanted, "branch hw_idx", &mut self.hw_idx)?;
        c.seq("branch stack", nr, &mut self.entries)?;
        let wanted = format.contains(BranchSampleType::COUNTERS);
        c.optional(wanted, "branch counters", &mut self.counters, |c, v| c.seq("branch counters", nr, v))
    }
}

/// One branch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BranchEntry {
    /// Address of the branching instruction.
    pub from: u64,
    /// Where it went.
    pub to: u64,
    /// Its flags: predicted, aborted, cycles and so on.
    pub flags: BranchFlags,
}

impl<'a> Layout<'a> for BranchEntry {
    #[inline]
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u64("branch from", &mut self.from)?;
        c.u64("branch to", &mut self.to)?;
        c.bitfield("branch flags", &BranchFlags::WIDTHS, &mut self.flags.0)
    }
}

impl Item for BranchEntry {
    const SIZE: usize = 24;
}

/// The bit-field of a branch, in the layout of a little-endian machine.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct BranchFlags(pub u64);

impl BranchFlags {
    /// Widths of mispred, predicted, in_tx, abort, cycles, type, spec, new_type, priv.
    const WIDTHS: [u32; 9] = [1, 1, 1, 1, 16, 4, 2, 4, 3];

    #[inline]
    const fn field(self, index: usize) -> u64 {
        let (mut shift, mut before) = (0, 0);
        while before < index {
            shift += Self::WIDTHS[before];
            before += 1;
        }
        self.0 >> shift & ((1 << Self::WIDTHS[index]) - 1)
    }

    /// Its target was mispredicted.
    #[inline]
    pub const fn mispred(self) -> bool {
        self.field(0) != 0
    }

    /// Its target was predicted. Neither is set if the hardware does not tell.
    #[inline]
    pub const fn predicted(self) -> bool {
        self.field(1) != 0
    }

    /// It was in a hardware transaction.
    #[inline]
    pub const fn in_tx(self) -> bool {
        self.field(2) != 0
    }

    /// It aborted a hardware transaction.
    #[inline]
    pub const fn abort(self) -> bool {
        self.field(3) != 0
    }

    /// Cycles since the branch before; 0 if the hardware does not tell.
    #[inline]
    pub const fn cycles(self) -> u16 {
        self.field(4) as u16
    }

    /// Its type; [`BranchType::EXTEND_ABI`] refers to [`new_kind`](Self::new_kind).
    #[inline]
    pub const fn kind(self) -> BranchType {
        BranchType(self.field(5) as u8)
    }

    /// How it was speculated.
    #[inline]
    pub const fn spec(self) -> BranchSpec {
        BranchSpec(self.field(6) as u8)
    }

    /// Further types.
    #[inline]
    pub const fn new_kind(self) -> BranchNewType {
        BranchNewType(self.field(7) as u8)
    }

    /// Privilege level, with [`BranchSampleType::PRIV_SAVE`].
    #[inline]
    pub const fn privilege(self) -> BranchPriv {
        BranchPriv(self.field(8) as u8)
    }
}

impl fmt::Debug for BranchFlags {
    /// Only what is set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("BranchFlags");
        let flags = [
            ("mispred", self.mispred()),
            ("predicted", self.predicted()),
            ("in_tx", self.in_tx()),
            ("abort", self.abort()),
        ];
        for (name, _) in flags.iter().filter(|(_, set)| *set) {
            out.field(name, &true);
        }
        let numbers = [
            ("cycles", u64::from(self.cycles())),
            ("type", self.field(5)),
            ("spec", self.field(6)),
            ("new_type", self.field(7)),
            ("priv", self.field(8)),
            ("reserved", self.0 >> 33),
        ];
        for (name, value) in numbers.iter().filter(|(_, value)| *value != 0) {
            out.field(name, value);
        }
        out.finish()
    }
}

named_numbers! {
    /// Type of a branch.
    BranchType(u8) "PERF_BR_" {
        /// Not known.
        UNKNOWN = 0,
        /// Conditional.
        COND = 1,
        /// Unconditional.
        UNCOND = 2,
        /// Indirect.
        IND = 3,
        /// Call.
        CALL = 4,
        /// Indirect call.
        IND_CALL = 5,
        /// Return.
        RET = 6,
        /// System call.
        SYSCALL = 7,
        /// Return from a system call.
        SYSRET = 8,
        /// Conditional call.
        COND_CALL = 9,
        /// Conditional return.
        COND_RET = 10,
        /// Return from an exception.
        ERET = 11,
        /// Interrupt.
        IRQ = 12,
        /// System error.
        SERROR = 13,
        /// Not in a transaction.
        NO_TX = 14,
        /// See [`BranchNewType`].
        EXTEND_ABI = 15,
    }
}

named_numbers! {
    /// More types of branches.
    BranchNewType(u8) "PERF_BR_NEW_" {
        /// Alignment fault.
        FAULT_ALGN = 0,
        /// Data fault.
        FAULT_DATA = 1,
        /// Instruction fault.
        FAULT_INST = 2,
        /// Of the architecture; arm64: FIQ.
        ARCH_1 = 3,
        /// Of the architecture; arm64: debug halt.
        ARCH_2 = 4,
        /// Of the architecture; arm64: debug exit.
        ARCH_3 = 5,
        /// Of the architecture; arm64: debug instruction.
        ARCH_4 = 6,
        /// Of the architecture; arm64: debug data.
        ARCH_5 = 7,
    }
}

named_numbers! {
    /// How a branch was speculated; the header's names start with `PERF_BR_`.
    BranchSpec(u8) "PERF_BR_" {
        /// Not available.
        SPEC_NA = 0,
        /// Speculated, on the wrong path.
        SPEC_WRONG_PATH = 1,
        /// Not speculated, on the right path.
        NON_SPEC_CORRECT_PATH = 2,
        /// Speculated, on the right path.
        SPEC_CORRECT_PATH = 3,
    }
}

named_numbers! {
    /// Privilege level of a branch.
    BranchPriv(u8) "PERF_BR_PRIV_" {
        /// Not known.
        UNKNOWN = 0,
        /// User.
        USER = 1,
        /// Kernel.
        KERNEL = 2,
        /// Hypervisor.
        HV = 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ByteOrder;
    use crate::wire::{Reader, Writer};
    use std::format;
    use std::vec::Vec;

    #[test]
    fn members_of_the_bit_field() {
        let flags = BranchFlags(1 | 1 << 3 | 1000 << 4 | 15 << 20 | 2 << 24 | 5 << 26 | 3 << 30);
        assert_eq!(
            (flags.mispred(), flags.predicted(), flags.in_tx(), flags.abort()),
            (true, false, false, true)
        );
        assert_eq!(flags.cycles(), 1000);
        assert_eq!((flags.kind(), flags.new_kind()), (BranchType::EXTEND_ABI, BranchNewType::ARCH_3));
        assert_eq!((flags.spec(), flags.privilege()), (BranchSpec::NON_SPEC_CORRECT_PATH, BranchPriv::HV));
        let shown = "BranchFlags { mispred: true, abort: true, cycles: 1000, type: 15, spec: 2, new_type: 5, priv: 3 }";
        assert_eq!(format!("{flags:?}"), shown);
    }

    #[test]
    fn a_big_endian_compiler_starts_at_the_other_end() {
        let mut entry = BranchEntry { from: 1, to: 2, flags: BranchFlags(1 | 0x1234 << 4) };
        let mut bytes = Vec::new();
        entry.layout(&mut Writer::new(&mut bytes, ByteOrder::Big)).unwrap();
        assert_eq!(bytes[16..], [0x81, 0x23, 0x40, 0, 0, 0, 0, 0]);
        let mut back = BranchEntry::default();
        back.layout(&mut Reader::new(&bytes, ByteOrder::Big)).unwrap();
        assert_eq!(back, entry);
    }
}
