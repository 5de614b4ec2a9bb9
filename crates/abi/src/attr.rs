//! `struct perf_event_attr`: what to count, and how. One Rust struct with the C layout of the newest
//! published size; older and newer sizes are read and written through [`WireAttr`].

mod fields;
mod show;
#[cfg(test)]
mod tests;
mod wire;

use crate::event::{Breakpoint, EventType};
use crate::flags::{AttrFlags, AuxAction, BranchSampleType, ReadFormat, SampleType};
use core::mem::offset_of;
use core::ops::Range;
pub use fields::{Field, FieldKind, Requirement};
pub use wire::{AttrError, WireAttr};

/// Everything `perf_event_open(2)` can be told about an event. The layout is that of
/// `struct perf_event_attr` of Linux 6.19 (`PERF_ATTR_SIZE_VER9`, 144 bytes), so a pointer to it may be
/// handed to the kernel.
///
/// Members of C unions have one name here and methods for the others: `sample_period` is also
/// [`sample_freq`](Attr::sample_freq), `config1` is also [`bp_addr`](Attr::bp_addr),
/// [`kprobe_func`](Attr::kprobe_func) and [`uprobe_path`](Attr::uprobe_path), and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Attr {
    /// The PMU.
    pub type_: EventType,
    /// How much of this struct is meant, in bytes; see the `SIZE_VER*` constants.
    pub size: u32,
    /// The event, as its PMU numbers it.
    pub config: u64,
    /// Occurrences between samples; 0 only counts. With [`AttrFlags::FREQ`]: samples per second.
    pub sample_period: u64,
    /// Contents of samples.
    pub sample_type: SampleType,
    /// Layout of `read(2)`.
    pub read_format: ReadFormat,
    /// The bit-field: `disabled`, `inherit`, ... and `precise_ip`.
    pub flags: AttrFlags,
    /// Samples before a wake-up; with [`AttrFlags::WATERMARK`]: bytes before a wake-up.
    pub wakeup: u32,
    /// The kinds of access that a breakpoint watches.
    pub bp_type: Breakpoint,
    /// More of the event; address of a breakpoint; pointer to a probe's function or path.
    pub config1: u64,
    /// More of the event; length of a breakpoint in bytes; address or offset of a probe.
    pub config2: u64,
    /// Which branches to record.
    pub branch_sample_type: BranchSampleType,
    /// Which user registers to record, one bit each (see [`regs`](crate::regs)).
    pub sample_regs_user: u64,
    /// How much user stack to record, in bytes: a multiple of 8 below 65535.
    pub sample_stack_user: u32,
    /// The clock of timestamps, with [`AttrFlags::USE_CLOCKID`].
    pub clockid: i32,
    /// Which registers at the interrupt to record.
    pub sample_regs_intr: u64,
    /// AUX bytes before a wake-up; 0: half of the area.
    pub aux_watermark: u32,
    /// Frames per callchain; 0: the system's limit.
    pub sample_max_stack: u16,
    /// Reserved, zero.
    pub reserved_2: u16,
    /// AUX bytes per sample.
    pub aux_sample_size: u32,
    /// Actions of the event on the AUX trace.
    pub aux_action: AuxAction,
    /// `si_perf_data` of the SIGTRAP.
    pub sig_data: u64,
    /// More of the event.
    pub config3: u64,
    /// More of the event.
    pub config4: u64,
}

impl Attr {
    /// Linux 2.6.31: up to `config1`.
    pub const SIZE_VER0: u32 = 64;
    /// Linux 2.6.33: adds `config2`.
    pub const SIZE_VER1: u32 = 72;
    /// Linux 3.4: adds `branch_sample_type`.
    pub const SIZE_VER2: u32 = 80;
    /// Linux 3.7: adds `sample_regs_user` and `sample_stack_user`.
    pub const SIZE_VER3: u32 = 96;
    /// Linux 3.19: adds `sample_regs_intr`.
    pub const SIZE_VER4: u32 = 104;
    /// Linux 4.1: adds `aux_watermark`, later `sample_max_stack`.
    pub const SIZE_VER5: u32 = 112;
    /// Linux 5.5: adds `aux_sample_size`, later `aux_action`.
    pub const SIZE_VER6: u32 = 120;
    /// Linux 5.13: adds `sig_data`.
    pub const SIZE_VER7: u32 = 128;
    /// Linux 6.3: adds `config3`.
    pub const SIZE_VER8: u32 = 136;
    /// Linux 6.19: adds `config4`.
    pub const SIZE_VER9: u32 = 144;

    /// Every published size, oldest first.
    pub const SIZES: [u32; 10] = [
        Self::SIZE_VER0,
        Self::SIZE_VER1,
        Self::SIZE_VER2,
        Self::SIZE_VER3,
        Self::SIZE_VER4,
        Self::SIZE_VER5,
        Self::SIZE_VER6,
        Self::SIZE_VER7,
        Self::SIZE_VER8,
        Self::SIZE_VER9,
    ];

    /// Where the `size` field stands: the only bytes that `perf_event_open(2)` writes (rules A3 and A4).
    pub const SIZE_FIELD: Range<usize> = offset_of!(Attr, size)..offset_of!(Attr, size) + size_of::<u32>();

    /// The largest size the kernel looks at (one page).
    pub const SIZE_MAX: u32 = 4096;

    /// An attr of the newest size that is zero but for its type: a counter that starts at once and
    /// counts everywhere.
    pub const fn new(type_: EventType) -> Self {
        Attr {
            type_,
            size: Self::SIZE_VER9,
            config: 0,
            sample_period: 0,
            sample_type: SampleType::empty(),
            read_format: ReadFormat::empty(),
            flags: AttrFlags::empty(),
            wakeup: 0,
            bp_type: Breakpoint::EMPTY,
            config1: 0,
            config2: 0,
            branch_sample_type: BranchSampleType::empty(),
            sample_regs_user: 0,
            sample_stack_user: 0,
            clockid: 0,
            sample_regs_intr: 0,
            aux_watermark: 0,
            sample_max_stack: 0,
            reserved_2: 0,
            aux_sample_size: 0,
            aux_action: AuxAction::empty(),
            sig_data: 0,
            config3: 0,
            config4: 0,
        }
    }

    /// The period, unless the attr asks for a frequency or only counts.
    pub fn period(&self) -> Option<u64> {
        (self.sample_period != 0 && !self.flags.contains(AttrFlags::FREQ)).then_some(self.sample_period)
    }

    /// The frequency in Hz, if the attr asks for one.
    pub fn sample_freq(&self) -> Option<u64> {
        self.flags.contains(AttrFlags::FREQ).then_some(self.sample_period)
    }

    /// Samples every `occurrences`.
    pub fn set_period(&mut self, occurrences: u64) {
        self.sample_period = occurrences;
        self.flags.remove(AttrFlags::FREQ);
    }

    /// Samples about `hz` times a second; the kernel adapts the period.
    pub fn set_sample_freq(&mut self, hz: u64) {
        self.sample_period = hz;
        self.flags.insert(AttrFlags::FREQ);
    }

    /// Samples before a wake-up, unless a watermark is asked for.
    pub fn wakeup_events(&self) -> Option<u32> {
        (!self.flags.contains(AttrFlags::WATERMARK)).then_some(self.wakeup)
    }

    /// Bytes before a wake-up, if asked for.
    pub fn wakeup_watermark(&self) -> Option<u32> {
        self.flags.contains(AttrFlags::WATERMARK).then_some(self.wakeup)
    }

    /// Wakes the reader every `samples` (and at half the ring). 0 leaves only the latter.
    pub fn set_wakeup_events(&mut self, samples: u32) {
        self.wakeup = samples;
        self.flags.remove(AttrFlags::WATERMARK);
    }

    /// Wakes the reader every `bytes`.
    pub fn set_wakeup_watermark(&mut self, bytes: u32) {
        self.wakeup = bytes;
        self.flags.insert(AttrFlags::WATERMARK);
    }

    /// `config1` as the address a breakpoint watches.
    pub fn bp_addr(&self) -> u64 {
        self.config1
    }

    /// `config2` as the length in bytes a breakpoint watches.
    pub fn bp_len(&self) -> u64 {
        self.config2
    }

    /// `config1` as a pointer to the name of the probed kernel function.
    pub fn kprobe_func(&self) -> u64 {
        self.config1
    }

    /// `config2` as the probed kernel address, where `kprobe_func` is null.
    pub fn kprobe_addr(&self) -> u64 {
        self.config2
    }

    /// `config1` as a pointer to the path of the probed file.
    pub fn uprobe_path(&self) -> u64 {
        self.config1
    }

    /// `config2` as an offset into the probed function or file.
    pub fn probe_offset(&self) -> u64 {
        self.config2
    }
}

impl Default for Attr {
    /// `Attr::new(EventType::HARDWARE)`.
    fn default() -> Self {
        Attr::new(EventType::HARDWARE)
    }
}
