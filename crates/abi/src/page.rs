//! `struct perf_event_mmap_page`: the first page of an event's mapping, through which the kernel tells
//! where the ring stands and how to read a counter without a system call.
//!
//! Here are the layout ([`MmapPage`], [`offset`]) and the arithmetic ([`TimeConversion`],
//! [`UserCount`]), as pure functions of values that were read elsewhere. Touching the shared memory, the
//! `lock` protocol and the counter instructions belong to those who have a mapping. The rule letters
//! are those of the project's `docs/semantics`.

use crate::order::ByteOrder;
use crate::read::Times;
use crate::wire::{Codec, Layout};
use bitflags::bitflags;

bitflags! {
    /// `capabilities`, in the layout of a little-endian machine (see [`from_native`](Self::from_native)).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[repr(transparent)]
    pub struct Capabilities: u64 {
        /// Always clear; old kernels had two bits here by mistake.
        const BIT0 = 1 << 0;
        /// Always set since Linux 3.12: the bits from here on mean what is said here.
        const BIT0_IS_DEPRECATED = 1 << 1;
        /// The counter can be read by an instruction.
        const USER_RDPMC = 1 << 2;
        /// `time_shift`, `time_mult` and `time_offset` are valid.
        const USER_TIME = 1 << 3;
        /// `time_zero` is valid.
        const USER_TIME_ZERO = 1 << 4;
        /// `time_cycles` and `time_mask` are valid: the hardware's clock has less than 64 bits.
        const USER_TIME_SHORT = 1 << 5;
        const _ = !0;
    }
}

impl Capabilities {
    const WIDTHS: [u32; 6] = [1; 6];

    /// The capabilities in a word as this machine has it in memory. On a big-endian one the compiler
    /// places bit-fields from the other end.
    pub fn from_native(word: u64) -> Self {
        Self::from_bits_retain(ByteOrder::NATIVE.bitfield64(word, &Self::WIDTHS, false))
    }
}

/// The page, with the C layout of Linux 6.x. [`Layout`] writes and reads it in either byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct MmapPage {
    /// Version of this structure: 0.
    pub version: u32,
    /// Lowest version it is compatible with.
    pub compat_version: u32,
    /// Odd while the fields up to `time_mask` are changing; each change adds two (rule F31).
    pub lock: u32,
    /// Number of the hardware counter plus one; 0 when there is none to read.
    pub index: u32,
    /// To be added to the counter.
    pub offset: i64,
    /// Nanoseconds enabled, at the last update.
    pub time_enabled: u64,
    /// Nanoseconds counting, at the last update.
    pub time_running: u64,
    /// Tells which of the other fields are valid.
    pub capabilities: Capabilities,
    /// Bits of the counter.
    pub pmc_width: u16,
    /// Of the conversion of cycles to ns.
    pub time_shift: u16,
    /// Of the conversion of cycles to ns.
    pub time_mult: u32,
    /// Nanoseconds to add to get the time since the last update.
    pub time_offset: u64,
    /// Nanoseconds to add to get the clock of records.
    pub time_zero: u64,
    /// Bytes up to the reserved ones.
    pub size: u32,
    /// Reserved, zero.
    pub reserved_1: u32,
    /// Start of the short clock's current turn.
    pub time_cycles: u64,
    /// Mask of the short clock's bits.
    pub time_mask: u64,
    /// Reserved, zero.
    pub reserved: [u64; 116],
    /// Where the kernel will write next; counts up without limit (down, if writing backward).
    pub data_head: u64,
    /// Where the user will read next.
    pub data_tail: u64,
    /// Start of the ring in the mapping.
    pub data_offset: u64,
    /// Bytes of the ring.
    pub data_size: u64,
    /// As `data_head`, of the AUX area.
    pub aux_head: u64,
    /// As `data_tail`, of the AUX area.
    pub aux_tail: u64,
    /// Start of the AUX area in the mapping; set by the user.
    pub aux_offset: u64,
    /// Bytes of the AUX area; set by the user.
    pub aux_size: u64,
}

impl MmapPage {
    /// The value of `size`: the bytes before the reserved ones.
    pub const HEADER_SIZE: u32 = core::mem::offset_of!(MmapPage, reserved) as u32;
}

impl Default for MmapPage {
    /// A page of zeros.
    fn default() -> Self {
        MmapPage {
            version: 0,
            compat_version: 0,
            lock: 0,
            index: 0,
            offset: 0,
            time_enabled: 0,
            time_running: 0,
            capabilities: Capabilities::empty(),
            pmc_width: 0,
            time_shift: 0,
            time_mult: 0,
            time_offset: 0,
            time_zero: 0,
            size: 0,
            reserved_1: 0,
            time_cycles: 0,
            time_mask: 0,
            reserved: [0; 116],
            data_head: 0,
            data_tail: 0,
            data_offset: 0,
            data_size: 0,
            aux_head: 0,
            aux_tail: 0,
            aux_offset: 0,
            aux_size: 0,
        }
    }
}

impl<'a> Layout<'a> for MmapPage {
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u32("version", &mut self.version)?;
        c.u32("compat_version", &mut self.compat_version)?;
        c.u32("lock", &mut self.lock)?;
        c.u32("index", &mut self.index)?;
        let mut offset = self.offset as u64;
        c.u64("offset", &mut offset)?;
        self.offset = offset as i64;
        c.u64("time_enabled", &mut self.time_enabled)?;
        c.u64("time_running", &mut self.time_running)?;
        let mut capabilities = self.capabilities.bits();
        c.bitfield("capabilities", &Capabilities::WIDTHS, &mut capabilities)?;
        self.capabilities = Capabilities::from_bits_retain(capabilities);
        c.u16("pmc_width", &mut self.pmc_width)?;
        c.u16("time_shift", &mut self.time_shift)?;
        c.u32("time_mult", &mut self.time_mult)?;
        c.u64("time_offset", &mut self.time_offset)?;
        c.u64("time_zero", &mut self.time_zero)?;
        c.u32("size", &mut self.size)?;
        c.u32("reserved", &mut self.reserved_1)?;
        c.u64("time_cycles", &mut self.time_cycles)?;
        c.u64("time_mask", &mut self.time_mask)?;
        for word in &mut self.reserved {
            c.u64("reserved", word)?;
        }
        c.u64("data_head", &mut self.data_head)?;
        c.u64("data_tail", &mut self.data_tail)?;
        c.u64("data_offset", &mut self.data_offset)?;
        c.u64("data_size", &mut self.data_size)?;
        c.u64("aux_head", &mut self.aux_head)?;
        c.u64("aux_tail", &mut self.aux_tail)?;
        c.u64("aux_offset", &mut self.aux_offset)?;
        c.u64("aux_size", &mut self.aux_size)
    }
}

/// Offsets of the fields in the page, in bytes, for those who access the shared memory field by field.
pub mod offset {
    use super::MmapPage;
    use core::mem::offset_of;

    /// `version`, u32.
    pub const VERSION: usize = offset_of!(MmapPage, version);
    /// `compat_version`, u32.
    pub const COMPAT_VERSION: usize = offset_of!(MmapPage, compat_version);
    /// `lock`, u32.
    pub const LOCK: usize = offset_of!(MmapPage, lock);
    /// `index`, u32.
    pub const INDEX: usize = offset_of!(MmapPage, index);
    /// `offset`, i64.
    pub const OFFSET: usize = offset_of!(MmapPage, offset);
    /// `time_enabled`, u64.
    pub const TIME_ENABLED: usize = offset_of!(MmapPage, time_enabled);
    /// `time_running`, u64.
    pub const TIME_RUNNING: usize = offset_of!(MmapPage, time_running);
    /// `capabilities`, u64.
    pub const CAPABILITIES: usize = offset_of!(MmapPage, capabilities);
    /// `pmc_width`, u16.
    pub const PMC_WIDTH: usize = offset_of!(MmapPage, pmc_width);
    /// `time_shift`, u16.
    pub const TIME_SHIFT: usize = offset_of!(MmapPage, time_shift);
    /// `time_mult`, u32.
    pub const TIME_MULT: usize = offset_of!(MmapPage, time_mult);
    /// `time_offset`, u64.
    pub const TIME_OFFSET: usize = offset_of!(MmapPage, time_offset);
    /// `time_zero`, u64.
    pub const TIME_ZERO: usize = offset_of!(MmapPage, time_zero);
    /// `size`, u32.
    pub const SIZE: usize = offset_of!(MmapPage, size);
    /// `time_cycles`, u64.
    pub const TIME_CYCLES: usize = offset_of!(MmapPage, time_cycles);
    /// `time_mask`, u64.
    pub const TIME_MASK: usize = offset_of!(MmapPage, time_mask);
    /// `data_head`, u64.
    pub const DATA_HEAD: usize = offset_of!(MmapPage, data_head);
    /// `data_tail`, u64.
    pub const DATA_TAIL: usize = offset_of!(MmapPage, data_tail);
    /// `data_offset`, u64.
    pub const DATA_OFFSET: usize = offset_of!(MmapPage, data_offset);
    /// `data_size`, u64.
    pub const DATA_SIZE: usize = offset_of!(MmapPage, data_size);
    /// `aux_head`, u64.
    pub const AUX_HEAD: usize = offset_of!(MmapPage, aux_head);
    /// `aux_tail`, u64.
    pub const AUX_TAIL: usize = offset_of!(MmapPage, aux_tail);
    /// `aux_offset`, u64.
    pub const AUX_OFFSET: usize = offset_of!(MmapPage, aux_offset);
    /// `aux_size`, u64.
    pub const AUX_SIZE: usize = offset_of!(MmapPage, aux_size);
}

/// The relation between a cpu's raw clock (TSC, `cntvct`) and the kernel's time (rule F35):
/// `ns = cycles · mult / 2^shift`, plus an offset. All sums wrap, as the kernel's do; no product
/// overflows.
///
/// ```
/// use perfuse_abi::page::TimeConversion;
/// // A clock of 62.5 MHz: 16 ns a cycle.
/// let clock = TimeConversion { shift: 21, mult: 1 << 25, zero_ns: 1_000, ..TimeConversion::default() };
/// assert_eq!(clock.scale(5), 80);
/// assert_eq!(clock.clock_ns(5), 1_080);
/// assert_eq!(clock.cycles_at(1_080), Some(5));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeConversion {
    /// `time_shift`.
    pub shift: u16,
    /// `time_mult`.
    pub mult: u32,
    /// `time_offset`: added for the time since the page was updated.
    pub offset_ns: u64,
    /// `time_zero`: added for the clock of records. Valid with [`Capabilities::USER_TIME_ZERO`].
    pub zero_ns: u64,
    /// `time_cycles` and `time_mask`, for a clock of fewer than 64 bits.
    pub short: Option<ShortClock>,
}

/// A raw clock that wraps before 64 bits do ([`Capabilities::USER_TIME_SHORT`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShortClock {
    /// `time_cycles`: a recent full value.
    pub cycles: u64,
    /// `time_mask`: ones for the bits the clock has.
    pub mask: u64,
}

impl TimeConversion {
    /// The conversion a page offers; `None` without [`Capabilities::USER_TIME`].
    pub fn of(page: &MmapPage) -> Option<Self> {
        let can = page.capabilities;
        can.contains(Capabilities::USER_TIME).then(|| TimeConversion {
            shift: page.time_shift,
            mult: page.time_mult,
            offset_ns: page.time_offset,
            zero_ns: page.time_zero,
            short: can
                .contains(Capabilities::USER_TIME_SHORT)
                .then_some(ShortClock { cycles: page.time_cycles, mask: page.time_mask }),
        })
    }

    /// The full value of a raw clock reading.
    #[inline]
    pub fn extend(&self, cycles: u64) -> u64 {
        match self.short {
            Some(ShortClock { cycles: recent, mask }) => {
                recent.wrapping_add(cycles.wrapping_sub(recent) & mask)
            }
            None => cycles,
        }
    }

    /// `cycles` as a duration in ns. The same as the header's formula in two parts, which exists only to
    /// avoid 128-bit products.
    #[inline]
    pub fn scale(&self, cycles: u64) -> u64 {
        let product = u128::from(cycles) * u128::from(self.mult);
        product.checked_shr(self.shift.into()).unwrap_or(0) as u64
    }

    /// Nanoseconds between the last update of the page and this reading of the raw clock.
    #[inline]
    pub fn delta_ns(&self, cycles: u64) -> u64 {
        self.offset_ns.wrapping_add(self.scale(self.extend(cycles)))
    }

    /// This reading of the raw clock on the clock that stamps records.
    #[inline]
    pub fn clock_ns(&self, cycles: u64) -> u64 {
        self.zero_ns.wrapping_add(self.scale(self.extend(cycles)))
    }

    /// The raw clock's reading at `clock_ns` of the records' clock, rounded down; `None` if the
    /// conversion cannot be reversed.
    #[inline]
    pub fn cycles_at(&self, clock_ns: u64) -> Option<u64> {
        let time = u128::from(clock_ns.wrapping_sub(self.zero_ns));
        let shifted = if self.shift < 64 { time << self.shift } else { return None };
        shifted.checked_div(self.mult.into()).map(|cycles| cycles as u64)
    }
}

/// The part of the page that must be read between two equal, even values of `lock`, and what follows
/// from it (rules F32 to F35).
///
/// ```
/// use perfuse_abi::page::UserCount;
/// let count = UserCount { index: 3, offset: 1_000, pmc_width: 48, rdpmc: true, ..UserCount::default() };
/// assert_eq!(count.counter(), Some(2)); // read this counter, e.g. with rdpmc
/// assert_eq!(count.value(Some(0xffff_ffff_fff0)), Some(984)); // which holds -16 in 48 bits
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserCount {
    /// `index`.
    pub index: u32,
    /// `offset`.
    pub offset: i64,
    /// `pmc_width`.
    pub pmc_width: u16,
    /// Whether [`Capabilities::USER_RDPMC`] is set.
    pub rdpmc: bool,
    /// `time_enabled` and `time_running`.
    pub times: Times,
    /// How to bring the times up to date.
    pub conversion: Option<TimeConversion>,
}

impl UserCount {
    /// The fields of a page.
    pub fn of(page: &MmapPage) -> Self {
        UserCount {
            index: page.index,
            offset: page.offset,
            pmc_width: page.pmc_width,
            rdpmc: page.capabilities.contains(Capabilities::USER_RDPMC),
            times: Times { enabled_ns: page.time_enabled, running_ns: page.time_running },
            conversion: TimeConversion::of(page),
        }
    }

    /// The hardware counter to read, if the event is on one and the kernel allows it.
    #[inline]
    pub fn counter(&self) -> Option<u32> {
        if self.rdpmc { self.index.checked_sub(1) } else { None }
    }

    /// The count, given what the [`counter`](Self::counter) shows. `None` if one should have been read
    /// and was not, or the event is on a counter that only the kernel may read: then `read(2)` is the
    /// way. An event that is on no counter has its count in the page, as of the last update.
    #[inline]
    pub fn value(&self, pmc: Option<u64>) -> Option<u64> {
        match (self.index, self.counter(), pmc) {
            (0, _, _) => Some(self.offset as u64),
            (_, Some(_), Some(pmc)) => {
                Some(self.offset.wrapping_add(sign_extend(pmc, self.pmc_width)) as u64)
            }
            _ => None,
        }
    }

    /// The times at this reading of the raw clock; as of the last update, if there is no conversion.
    #[inline]
    pub fn times(&self, cycles: u64) -> Times {
        let Some(conversion) = self.conversion else { return self.times };
        let delta = conversion.delta_ns(cycles);
        let Times { enabled_ns, running_ns } = self.times;
        Times {
            enabled_ns: enabled_ns.wrapping_add(delta),
            running_ns: if self.index != 0 { running_ns.wrapping_add(delta) } else { running_ns },
        }
    }
}

/// The lowest `width` bits of `value` as a signed number; all of them for a width of 0 or above 63.
#[inline]
pub const fn sign_extend(value: u64, width: u16) -> i64 {
    let unused = 64 - if width == 0 || width > 64 { 64 } else { width as u32 };
    (value << unused) as i64 >> unused
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Reader, Writer};
    use std::vec::Vec;

    #[test]
    fn offsets_are_those_of_the_header() {
        use offset::*;
        let offsets = [
            VERSION,
            COMPAT_VERSION,
            LOCK,
            INDEX,
            OFFSET,
            TIME_ENABLED,
            TIME_RUNNING,
            CAPABILITIES,
            PMC_WIDTH,
            TIME_SHIFT,
            TIME_MULT,
            TIME_OFFSET,
            TIME_ZERO,
            SIZE,
            TIME_CYCLES,
            TIME_MASK,
            DATA_HEAD,
            DATA_TAIL,
            DATA_OFFSET,
            DATA_SIZE,
            AUX_HEAD,
            AUX_TAIL,
            AUX_OFFSET,
            AUX_SIZE,
        ];
        let expected = [
            0, 4, 8, 12, 16, 24, 32, 40, 48, 50, 52, 56, 64, 72, 80, 88, 1024, 1032, 1040, 1048, 1056, 1064,
            1072, 1080,
        ];
        assert_eq!(offsets, expected);
        assert_eq!(size_of::<MmapPage>(), 1088);
        assert_eq!(MmapPage::HEADER_SIZE, 96);
    }

    /// A page in which every 16-bit unit is different.
    fn page() -> MmapPage {
        let bytes: Vec<u8> = (0..1088 / 2u16).flat_map(u16::to_le_bytes).collect();
        let mut page = MmapPage::default();
        page.layout(&mut Reader::new(&bytes, ByteOrder::Little)).unwrap();
        page
    }

    #[test]
    fn the_codec_puts_fields_where_the_struct_has_them() {
        let half = |byte: usize| byte as u64 / 2;
        let page = page();
        assert_eq!(u64::from(page.pmc_width), half(offset::PMC_WIDTH));
        assert_eq!(page.time_cycles & 0xffff, half(offset::TIME_CYCLES));
        assert_eq!(page.data_head & 0xffff, half(offset::DATA_HEAD));
        assert_eq!(page.aux_size & 0xffff, half(offset::AUX_SIZE));
    }

    #[test]
    fn a_page_survives_both_orders() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let mut bytes = Vec::new();
            page().layout(&mut Writer::new(&mut bytes, order)).unwrap();
            assert_eq!(bytes.len(), size_of::<MmapPage>());
            let mut back = MmapPage::default();
            back.layout(&mut Reader::new(&bytes, order)).unwrap();
            assert_eq!(back, page());
        }
    }

    #[test]
    fn big_endian_capabilities_start_at_the_highest_bit() {
        let mut page = MmapPage { capabilities: Capabilities::USER_RDPMC, ..MmapPage::default() };
        let mut bytes = Vec::new();
        page.layout(&mut Writer::new(&mut bytes, ByteOrder::Big)).unwrap();
        assert_eq!(bytes[offset::CAPABILITIES], 1 << 5);
    }

    #[test]
    fn the_product_agrees_with_the_formula_in_two_parts() {
        let clock = TimeConversion { shift: 31, mult: 0xfedc_ba98, ..TimeConversion::default() };
        for cycles in [0, 1, 12_345_678_901, u64::MAX / 3, u64::MAX] {
            let (quot, rem) = (cycles >> 31, cycles & ((1 << 31) - 1));
            let mult = u64::from(clock.mult);
            assert_eq!(clock.scale(cycles), quot.wrapping_mul(mult).wrapping_add((rem * mult) >> 31));
        }
    }

    #[test]
    fn extreme_conversions_do_not_panic() {
        for shift in [0, 31, 63, 64, 127, 128, u16::MAX] {
            for mult in [0, 1, u32::MAX] {
                let clock = TimeConversion { shift, mult, zero_ns: 5, ..TimeConversion::default() };
                clock.delta_ns(u64::MAX);
                clock.clock_ns(u64::MAX);
                assert_eq!(clock.cycles_at(u64::MAX).is_some(), mult != 0 && shift < 64);
            }
        }
    }

    #[test]
    fn a_32_bit_clock_that_wrapped_is_extended() {
        let short = Some(ShortClock { cycles: 0x5_ffff_fff0, mask: 0xffff_ffff });
        let clock = TimeConversion { short, ..TimeConversion::default() };
        assert_eq!(clock.extend(0x0000_0010), 0x6_0000_0010);
        assert_eq!(clock.extend(0xffff_fff8), 0x5_ffff_fff8);
    }

    #[test]
    fn the_offset_makes_the_delta_zero_at_the_update() {
        let updated_at = 1_000_000;
        let mut clock = TimeConversion { shift: 21, mult: 1 << 25, ..TimeConversion::default() };
        clock.offset_ns = 0u64.wrapping_sub(clock.scale(updated_at));
        assert_eq!(clock.delta_ns(updated_at), 0);
        assert_eq!(clock.delta_ns(updated_at + 62_500), 1_000_000);
        let times = Times { enabled_ns: 10, running_ns: 7 };
        let mut count = UserCount { times, conversion: Some(clock), ..UserCount::default() };
        assert_eq!(count.times(updated_at + 1), Times { enabled_ns: 26, running_ns: 7 });
        count.index = 1;
        assert_eq!(count.times(updated_at + 1), Times { enabled_ns: 26, running_ns: 23 });
    }

    #[test]
    fn a_software_event_has_its_count_in_the_page() {
        let page =
            MmapPage { offset: 10, capabilities: Capabilities::BIT0_IS_DEPRECATED, ..MmapPage::default() };
        let count = UserCount::of(&page);
        assert_eq!((count.counter(), count.value(None)), (None, Some(10)));
        assert_eq!(count.times(123), Times::default());
    }

    #[test]
    fn a_counter_for_the_kernel_only_cannot_be_read() {
        let count = UserCount { index: 2, offset: 10, ..UserCount::default() };
        assert_eq!((count.counter(), count.value(Some(3))), (None, None));
    }

    #[test]
    fn sign_extension_of_all_widths() {
        assert_eq!(sign_extend(0xffff_ffff, 32), -1);
        assert_eq!(sign_extend(0x7fff_ffff, 32), 0x7fff_ffff);
        assert_eq!(sign_extend(u64::MAX, 64), -1);
        assert_eq!(sign_extend(5, 0), 5);
        assert_eq!(sign_extend(5, 999), 5);
        assert_eq!(sign_extend(1, 1), -1);
    }
}
