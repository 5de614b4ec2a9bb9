//! `PERF_SAMPLE_DATA_SRC`: where in the memory hierarchy the data of a sampled access came from.

use crate::event::named_numbers;
use bitflags::bitflags;
use core::fmt;

/// The word of eleven fields. Its value is the same in both byte orders.
///
/// ```
/// use perfuse_abi::record::{DataSrc, MemLvlNum, MemOp};
///
/// let src = DataSrc(0x6810_0142);
/// assert_eq!(src.op(), MemOp::LOAD);
/// assert_eq!(src.to_string(), "load, L1 hit, snoop none, TLB L1|L2 hit");
/// assert_eq!(DataSrc::NA.lvl_num(), MemLvlNum::NA);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct DataSrc(pub u64);

/// Shift and width of each field.
const OP: (u32, u32) = (0, 5);
const LVL: (u32, u32) = (5, 14);
const SNOOP: (u32, u32) = (19, 5);
const LOCK: (u32, u32) = (24, 2);
const DTLB: (u32, u32) = (26, 7);
const LVL_NUM: (u32, u32) = (33, 4);
const REMOTE: (u32, u32) = (37, 1);
const SNOOPX: (u32, u32) = (38, 2);
const BLK: (u32, u32) = (40, 3);
const HOPS: (u32, u32) = (43, 3);
const REGION: (u32, u32) = (46, 5);

const fn mask((_, width): (u32, u32)) -> u64 {
    (1 << width) - 1
}

impl DataSrc {
    /// "Not available" in every field that has such a value: what the kernel gives when the hardware
    /// tells nothing.
    pub const NA: DataSrc = DataSrc(0)
        .with_op(MemOp::NA)
        .with_lvl(MemLvl::NA)
        .with_snoop(MemSnoop::NA)
        .with_lock(MemLock::NA)
        .with_dtlb(MemTlb::NA)
        .with_lvl_num(MemLvlNum::NA);

    #[inline]
    const fn get(self, field: (u32, u32)) -> u64 {
        self.0 >> field.0 & mask(field)
    }

    #[inline]
    const fn set(self, field: (u32, u32), value: u64) -> Self {
        DataSrc(self.0 & !(mask(field) << field.0) | (value & mask(field)) << field.0)
    }

    /// The kind of access.
    pub const fn op(self) -> MemOp {
        MemOp::from_bits_retain(self.get(OP) as u8)
    }

    /// The level, the old way.
    pub const fn lvl(self) -> MemLvl {
        MemLvl::from_bits_retain(self.get(LVL) as u16)
    }

    /// The result of snooping other caches.
    pub const fn snoop(self) -> MemSnoop {
        MemSnoop::from_bits_retain(self.get(SNOOP) as u8)
    }

    /// Whether the access was locked.
    pub const fn lock(self) -> MemLock {
        MemLock::from_bits_retain(self.get(LOCK) as u8)
    }

    /// How the address was translated.
    pub const fn dtlb(self) -> MemTlb {
        MemTlb::from_bits_retain(self.get(DTLB) as u8)
    }

    /// The level, the new way; 0 if only [`lvl`](Self::lvl) is filled.
    pub const fn lvl_num(self) -> MemLvlNum {
        MemLvlNum(self.get(LVL_NUM) as u8)
    }

    /// Whether the level is that of another node.
    pub const fn remote(self) -> bool {
        self.get(REMOTE) != 0
    }

    /// More about snooping.
    pub const fn snoopx(self) -> MemSnoopX {
        MemSnoopX::from_bits_retain(self.get(SNOOPX) as u8)
    }

    /// Reasons why the access had to wait.
    pub const fn blk(self) -> MemBlk {
        MemBlk::from_bits_retain(self.get(BLK) as u8)
    }

    /// How far away the data was; 0 if not told.
    pub const fn hops(self) -> MemHops {
        MemHops(self.get(HOPS) as u8)
    }

    /// The region of memory (Linux 7.0).
    pub const fn region(self) -> MemRegion {
        MemRegion(self.get(REGION) as u8)
    }

    /// The same word with another kind of access.
    #[must_use]
    pub const fn with_op(self, op: MemOp) -> Self {
        self.set(OP, op.bits() as u64)
    }

    /// The same word with another level, the old way.
    #[must_use]
    pub const fn with_lvl(self, lvl: MemLvl) -> Self {
        self.set(LVL, lvl.bits() as u64)
    }

    /// The same word with another result of snooping.
    #[must_use]
    pub const fn with_snoop(self, snoop: MemSnoop) -> Self {
        self.set(SNOOP, snoop.bits() as u64)
    }

    /// The same word with another lock.
    #[must_use]
    pub const fn with_lock(self, lock: MemLock) -> Self {
        self.set(LOCK, lock.bits() as u64)
    }

    /// The same word with another translation.
    #[must_use]
    pub const fn with_dtlb(self, dtlb: MemTlb) -> Self {
        self.set(DTLB, dtlb.bits() as u64)
    }

    /// The same word with another level, the new way.
    #[must_use]
    pub const fn with_lvl_num(self, level: MemLvlNum) -> Self {
        self.set(LVL_NUM, level.0 as u64)
    }

    /// The same word with the level on another node, or on this one.
    #[must_use]
    pub const fn with_remote(self, remote: bool) -> Self {
        self.set(REMOTE, remote as u64)
    }

    /// The same word with more about snooping.
    #[must_use]
    pub const fn with_snoopx(self, snoopx: MemSnoopX) -> Self {
        self.set(SNOOPX, snoopx.bits() as u64)
    }

    /// The same word with another hold-up.
    #[must_use]
    pub const fn with_blk(self, blk: MemBlk) -> Self {
        self.set(BLK, blk.bits() as u64)
    }

    /// The same word with another distance.
    #[must_use]
    pub const fn with_hops(self, hops: MemHops) -> Self {
        self.set(HOPS, hops.0 as u64)
    }

    /// The same word with another region.
    #[must_use]
    pub const fn with_region(self, region: MemRegion) -> Self {
        self.set(REGION, region.0 as u64)
    }
}

/// Declares the sets of bits of some fields, with the words that [`DataSrc`] is displayed in.
macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident($int:ty) { $($(#[$fdoc:ident = $ftext:literal])* $flag:ident = $bit:literal $word:literal,)+ })+) => {$(
        bitflags! {
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
            pub struct $name: $int {
                $($(#[$fdoc = $ftext])* const $flag = $bit;)+
                const _ = !0;
            }
        }

        impl $name {
            const WORDS: &'static [($name, &'static str)] = &[$(($name::$flag, $word)),+];

            /// The words of the bits that are set.
            fn words(self) -> impl Iterator<Item = &'static str> {
                Self::WORDS.iter().filter(move |(flag, _)| self.contains(*flag)).map(|(_, word)| *word)
            }
        }
    )+};
}

fields! {
    /// Kind of access.
    MemOp(u8) {
        /// Not available.
        NA = 0x01 "not available",
        /// Load.
        LOAD = 0x02 "load",
        /// Store.
        STORE = 0x04 "store",
        /// Prefetch.
        PFETCH = 0x08 "prefetch",
        /// Execution.
        EXEC = 0x10 "execution",
    }

    /// Level of the hierarchy and hit or miss, in the old way that newer cpus do not fit in.
    MemLvl(u16) {
        /// Not available.
        NA = 0x01 "not available",
        /// Hit.
        HIT = 0x02 "hit",
        /// Miss.
        MISS = 0x04 "miss",
        /// Level 1.
        L1 = 0x08 "L1",
        /// Line fill buffer.
        LFB = 0x10 "line fill buffer",
        /// Level 2.
        L2 = 0x20 "L2",
        /// Level 3.
        L3 = 0x40 "L3",
        /// Local memory.
        LOC_RAM = 0x80 "local memory",
        /// Memory one hop away.
        REM_RAM1 = 0x100 "remote memory (1 hop)",
        /// Memory two hops away.
        REM_RAM2 = 0x200 "remote memory (2 hops)",
        /// Cache one hop away.
        REM_CCE1 = 0x400 "remote cache (1 hop)",
        /// Cache two hops away.
        REM_CCE2 = 0x800 "remote cache (2 hops)",
        /// I/O memory.
        IO = 0x1000 "I/O memory",
        /// Uncached memory.
        UNC = 0x2000 "uncached memory",
    }

    /// The result of snooping other caches.
    MemSnoop(u8) {
        /// Not available.
        NA = 0x01 "not available",
        /// No snoop.
        NONE = 0x02 "none",
        /// Hit.
        HIT = 0x04 "hit",
        /// Miss.
        MISS = 0x08 "miss",
        /// Hit in a modified line.
        HITM = 0x10 "hit modified",
    }

    /// More about snooping.
    MemSnoopX(u8) {
        /// Forwarded.
        FWD = 0x01 "forwarded",
        /// From a peer.
        PEER = 0x02 "from a peer",
    }

    /// Whether the access was locked.
    MemLock(u8) {
        /// Not available.
        NA = 0x01 "not available",
        /// Locked.
        LOCKED = 0x02 "locked",
    }

    /// How the address was translated.
    MemTlb(u8) {
        /// Not available.
        NA = 0x01 "not available",
        /// Hit.
        HIT = 0x02 "hit",
        /// Miss.
        MISS = 0x04 "miss",
        /// Level 1.
        L1 = 0x08 "L1",
        /// Level 2.
        L2 = 0x10 "L2",
        /// The hardware walked the page table.
        WK = 0x20 "hardware walker",
        /// The kernel handled a fault.
        OS = 0x40 "fault handler",
    }

    /// Reasons why the access had to wait.
    MemBlk(u8) {
        /// Not available.
        NA = 0x01 "not available",
        /// The data could not be forwarded.
        DATA = 0x02 "by data",
        /// The address was in conflict with another.
        ADDR = 0x04 "by address",
    }
}

named_numbers! {
    /// Level of the hierarchy.
    MemLvlNum(u8) "PERF_MEM_LVLNUM_" {
        /// Level 1.
        L1 = 1,
        /// Level 2.
        L2 = 2,
        /// Level 3.
        L3 = 3,
        /// Level 4.
        L4 = 4,
        /// Miss handling buffer of level 2 (Linux 6.11).
        L2_MHB = 5,
        /// Memory-side cache (Linux 6.11).
        MSC = 6,
        /// Level 0 (Linux 7.0).
        L0 = 7,
        /// Uncached (Linux 6.6).
        UNC = 8,
        /// Memory behind CXL.
        CXL = 9,
        /// I/O.
        IO = 10,
        /// Some cache.
        ANY_CACHE = 11,
        /// Line fill buffer.
        LFB = 12,
        /// Memory.
        RAM = 13,
        /// Persistent memory.
        PMEM = 14,
        /// Not available.
        NA = 15,
    }
}

named_numbers! {
    /// How far away the data was.
    MemHops(u8) "PERF_MEM_HOPS_" {
        /// Another core of the node; the header calls it `HOPS_0`.
        H0 = 1,
        /// Another node of the socket.
        H1 = 2,
        /// Another socket of the board.
        H2 = 3,
        /// Another board.
        H3 = 4,
    }
}

named_numbers! {
    /// Region of memory (Linux 7.0).
    MemRegion(u8) "PERF_MEM_REGION_" {
        /// Not available.
        NA = 0,
        /// Reserved.
        RSVD = 1,
        /// Local, shared.
        L_SHARE = 2,
        /// Local, not shared.
        L_NON_SHARE = 3,
        /// Other, I/O.
        O_IO = 4,
        /// Other, shared.
        O_SHARE = 5,
        /// Other, not shared.
        O_NON_SHARE = 6,
        /// Memory-mapped I/O.
        MMIO = 7,
        /// Memory range 0.
        MEM0 = 8,
        /// Memory range 1.
        MEM1 = 9,
        /// Memory range 2.
        MEM2 = 10,
        /// Memory range 3.
        MEM3 = 11,
        /// Memory range 4.
        MEM4 = 12,
        /// Memory range 5.
        MEM5 = 13,
        /// Memory range 6.
        MEM6 = 14,
        /// Memory range 7.
        MEM7 = 15,
    }
}

impl fmt::Display for DataSrc {
    /// In words, without the fields that tell nothing; "not available" if none tells anything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Parts { f, first: true };
        out.part("", (self.op() - MemOp::NA).words(), "")?;
        self.fmt_level(&mut out)?;
        let snoop = (self.snoop() - MemSnoop::NA).words().chain(self.snoopx().words());
        out.part("snoop ", snoop, "")?;
        let dtlb = self.dtlb() - MemTlb::NA;
        let outcome = outcome(dtlb.contains(MemTlb::HIT), dtlb.contains(MemTlb::MISS));
        let level = dtlb - MemTlb::HIT - MemTlb::MISS;
        if level.is_empty() && !dtlb.is_empty() {
            out.part("TLB", core::iter::once(""), outcome)?;
        } else {
            out.part("TLB ", level.words(), outcome)?;
        }
        out.part("", (self.lock() - MemLock::NA).words(), "")?;
        out.part("blocked ", (self.blk() - MemBlk::NA).words(), "")?;
        if self.region() != MemRegion::NA {
            let name = self.region().header_name().and_then(|name| name.strip_prefix("PERF_MEM_REGION_"));
            out.part("region ", core::iter::once(name.unwrap_or("unknown")), "")?;
        }
        if out.first { f.write_str("not available") } else { Ok(()) }
    }
}

const fn outcome(hit: bool, miss: bool) -> &'static str {
    match (hit, miss) {
        (false, false) => "",
        (true, false) => " hit",
        (false, true) => " miss",
        (true, true) => " hit or miss",
    }
}

impl DataSrc {
    /// The level by its number, or the old way if that tells nothing.
    fn fmt_level(self, out: &mut Parts<'_, '_>) -> fmt::Result {
        let lvl = self.lvl() - MemLvl::NA;
        let outcome = outcome(lvl.contains(MemLvl::HIT), lvl.contains(MemLvl::MISS));
        let remote = if self.remote() { "remote " } else { "" };
        match self.lvl_num() {
            MemLvlNum(0) | MemLvlNum::NA => {
                out.part(remote, (lvl - MemLvl::HIT - MemLvl::MISS).words(), outcome)?;
            }
            level => {
                let name = level.header_name().and_then(|name| name.strip_prefix("PERF_MEM_LVLNUM_"));
                out.part(remote, core::iter::once(name.unwrap_or("unknown level")), outcome)?;
            }
        }
        let distance = match self.hops() {
            MemHops::H0 => "another core",
            MemHops::H1 => "another node",
            MemHops::H2 => "another socket",
            MemHops::H3 => "another board",
            MemHops(0) => return Ok(()),
            MemHops(_) => "an unknown distance",
        };
        out.part("at ", core::iter::once(distance), "")
    }
}

/// Writes non-empty parts with commas between them.
struct Parts<'f, 'w> {
    f: &'f mut fmt::Formatter<'w>,
    first: bool,
}

impl Parts<'_, '_> {
    fn part(&mut self, before: &str, words: impl Iterator<Item = &'static str>, after: &str) -> fmt::Result {
        let mut any = false;
        for word in words {
            let lead = match (any, self.first) {
                (true, _) => "|",
                (false, true) => before,
                (false, false) => {
                    self.f.write_str(", ")?;
                    before
                }
            };
            write!(self.f, "{lead}{word}")?;
            (any, self.first) = (true, false);
        }
        if any { self.f.write_str(after) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn not_available_is_the_kernel_s_default() {
        assert_eq!(DataSrc::NA.0, 0x1e_0508_0021);
        assert_eq!(DataSrc::NA.to_string(), "not available");
    }

    #[test]
    fn every_field_has_its_own_bits() {
        let full = DataSrc(0)
            .with_op(MemOp::all())
            .with_lvl(MemLvl::all())
            .with_snoop(MemSnoop::all())
            .with_lock(MemLock::all())
            .with_dtlb(MemTlb::all())
            .with_lvl_num(MemLvlNum::NA)
            .with_remote(true)
            .with_snoopx(MemSnoopX::all())
            .with_blk(MemBlk::all())
            .with_hops(MemHops(7))
            .with_region(MemRegion(31));
        assert_eq!(full.0, (1 << 51) - 1);
    }

    #[test]
    fn words_of_a_load_from_another_socket() {
        let src = DataSrc::NA
            .with_op(MemOp::LOAD)
            .with_lvl(MemLvl::HIT)
            .with_lvl_num(MemLvlNum::ANY_CACHE)
            .with_remote(true)
            .with_hops(MemHops::H2)
            .with_snoop(MemSnoop::HITM)
            .with_snoopx(MemSnoopX::PEER)
            .with_dtlb(MemTlb::L1 | MemTlb::L2 | MemTlb::MISS)
            .with_lock(MemLock::LOCKED)
            .with_blk(MemBlk::ADDR)
            .with_region(MemRegion::MEM3);
        let words = "load, remote ANY_CACHE hit, at another socket, snoop hit modified|from a peer, TLB L1|L2 miss, \
                     locked, blocked by address, region MEM3";
        assert_eq!(src.to_string(), words);
    }
}
