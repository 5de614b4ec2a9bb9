//! The flag sets of `<linux/perf_event.h>`. Every set keeps bits it does not know
//! (`from_bits_retain`), prints the names the kernel's header uses without their prefix, and, where a
//! bit may be refused by an older kernel, tells since which release it exists.

use crate::release::{Release, Since};
use bitflags::bitflags;

/// The release a single flag of a set appeared in; the oldest supported ABI where the table is silent.
pub(crate) fn since_in<T: Copy + PartialEq>(table: &[Since<T>], what: T) -> Release {
    table.iter().find(|entry| entry.what == what).map_or(Release::v2_6(31), |entry| entry.since)
}

/// Declares `const SINCE` and `fn since` of a flag set.
macro_rules! since {
    ($set:ident { $($flag:ident: [$major:literal, $minor:literal $(, $patch:literal)?]),+ $(,)? }) => {
        impl $set {
            /// The flags that came after the first published ABI (Linux 2.6.31), with the release of each.
            pub const SINCE: &'static [Since<$set>] = &[
                $(Since { what: $set::$flag, since: Release { major: $major, minor: $minor, patch: 0 $(+ $patch)? } }),+
            ];

            /// The first release that knows this single flag.
            pub fn since(self) -> Release {
                since_in(Self::SINCE, self)
            }
        }
    };
}

bitflags! {
    /// The last argument of `perf_event_open(2)`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct OpenFlags: u64 {
        /// `group_fd` is only an output target (with [`FD_OUTPUT`](Self::FD_OUTPUT)), not a leader.
        const FD_NO_GROUP = 1 << 0;
        /// Send records to the ring of `group_fd`. Broken in Linux 2.6.35 and later without `FD_NO_GROUP`.
        const FD_OUTPUT = 1 << 1;
        /// `pid` is a descriptor of a cgroup directory. Needs a cpu.
        const PID_CGROUP = 1 << 2;
        /// Close the descriptor on exec.
        const FD_CLOEXEC = 1 << 3;
        const _ = !0;
    }
}
since!(OpenFlags { FD_OUTPUT: [2, 6, 35], PID_CGROUP: [2, 6, 39], FD_CLOEXEC: [3, 14] });

bitflags! {
    /// `attr.sample_type`: what each `PERF_RECORD_SAMPLE` contains. The fields appear in a record in an
    /// order of their own (see [`Sample`](crate::record::Sample)), not in bit order.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[repr(transparent)]
    pub struct SampleType: u64 {
        /// Instruction pointer.
        const IP = 1 << 0;
        /// Process and thread id.
        const TID = 1 << 1;
        /// Timestamp.
        const TIME = 1 << 2;
        /// Data address, if applicable.
        const ADDR = 1 << 3;
        /// Counter values in the event's read format.
        const READ = 1 << 4;
        /// Stack backtrace.
        const CALLCHAIN = 1 << 5;
        /// Id of the event (of the original one, for an inherited copy).
        const ID = 1 << 6;
        /// CPU number.
        const CPU = 1 << 7;
        /// Current period.
        const PERIOD = 1 << 8;
        /// Id of the very event instance, inherited copies apart.
        const STREAM_ID = 1 << 9;
        /// Raw data, such as the fields of a tracepoint.
        const RAW = 1 << 10;
        /// Recent branches.
        const BRANCH_STACK = 1 << 11;
        /// User-level registers.
        const REGS_USER = 1 << 12;
        /// A copy of the user-level stack.
        const STACK_USER = 1 << 13;
        /// Hardware-provided cost.
        const WEIGHT = 1 << 14;
        /// Where in the memory hierarchy the data came from.
        const DATA_SRC = 1 << 15;
        /// Id at a fixed place: first in samples, last in other records.
        const IDENTIFIER = 1 << 16;
        /// Transactional memory details.
        const TRANSACTION = 1 << 17;
        /// Registers at the interrupt.
        const REGS_INTR = 1 << 18;
        /// Physical data address.
        const PHYS_ADDR = 1 << 19;
        /// A snapshot of the AUX area.
        const AUX = 1 << 20;
        /// Cgroup id of the current task.
        const CGROUP = 1 << 21;
        /// Page size of the data address.
        const DATA_PAGE_SIZE = 1 << 22;
        /// Page size of the instruction pointer.
        const CODE_PAGE_SIZE = 1 << 23;
        /// Hardware-provided costs, three of them. Excludes `WEIGHT`.
        const WEIGHT_STRUCT = 1 << 24;
        const _ = !0;
    }
}
since!(SampleType {
    STREAM_ID: [2, 6, 32],
    RAW: [2, 6, 32],
    BRANCH_STACK: [3, 4],
    REGS_USER: [3, 7],
    STACK_USER: [3, 7],
    WEIGHT: [3, 10],
    DATA_SRC: [3, 10],
    IDENTIFIER: [3, 12],
    TRANSACTION: [3, 13],
    REGS_INTR: [3, 19],
    PHYS_ADDR: [4, 14],
    AUX: [5, 5],
    CGROUP: [5, 7],
    DATA_PAGE_SIZE: [5, 11],
    CODE_PAGE_SIZE: [5, 11],
    WEIGHT_STRUCT: [5, 12],
});

bitflags! {
    /// `attr.read_format`: what `read(2)` returns and in which layout (see [`read`](crate::read)).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[repr(transparent)]
    pub struct ReadFormat: u64 {
        /// Nanoseconds the event was enabled.
        const TOTAL_TIME_ENABLED = 1 << 0;
        /// Nanoseconds the event was really counting.
        const TOTAL_TIME_RUNNING = 1 << 1;
        /// Id of the event.
        const ID = 1 << 2;
        /// The values of the whole group.
        const GROUP = 1 << 3;
        /// Number of records the event lost.
        const LOST = 1 << 4;
        const _ = !0;
    }
}
since!(ReadFormat { LOST: [6, 0] });

bitflags! {
    /// `attr.branch_sample_type`: which branches [`SampleType::BRANCH_STACK`] asks for.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[repr(transparent)]
    pub struct BranchSampleType: u64 {
        /// Branches whose target is in user space.
        const USER = 1 << 0;
        /// Branches whose target is in the kernel.
        const KERNEL = 1 << 1;
        /// Branches whose target is in the hypervisor.
        const HV = 1 << 2;
        /// Any branch.
        const ANY = 1 << 3;
        /// Any call.
        const ANY_CALL = 1 << 4;
        /// Any return.
        const ANY_RETURN = 1 << 5;
        /// Indirect calls.
        const IND_CALL = 1 << 6;
        /// Transaction aborts.
        const ABORT_TX = 1 << 7;
        /// Branches in a transaction.
        const IN_TX = 1 << 8;
        /// Branches outside a transaction.
        const NO_TX = 1 << 9;
        /// Conditional branches.
        const COND = 1 << 10;
        /// The call stack, kept by the hardware.
        const CALL_STACK = 1 << 11;
        /// Indirect jumps.
        const IND_JUMP = 1 << 12;
        /// Direct calls.
        const CALL = 1 << 13;
        /// Do not fill the flags.
        const NO_FLAGS = 1 << 14;
        /// Do not fill the cycle counts.
        const NO_CYCLES = 1 << 15;
        /// Fill the branch type.
        const TYPE_SAVE = 1 << 16;
        /// Give the hardware's index of the newest branch.
        const HW_INDEX = 1 << 17;
        /// Fill the privilege level.
        const PRIV_SAVE = 1 << 18;
        /// Give occurrence counts of other events per branch.
        const COUNTERS = 1 << 19;
        const _ = !0;
    }
}
since!(BranchSampleType {
    USER: [3, 4],
    KERNEL: [3, 4],
    HV: [3, 4],
    ANY: [3, 4],
    ANY_CALL: [3, 4],
    ANY_RETURN: [3, 4],
    IND_CALL: [3, 4],
    ABORT_TX: [3, 11],
    IN_TX: [3, 11],
    NO_TX: [3, 11],
    COND: [3, 16],
    CALL_STACK: [4, 1],
    IND_JUMP: [4, 2],
    CALL: [4, 4],
    NO_FLAGS: [4, 5],
    NO_CYCLES: [4, 5],
    TYPE_SAVE: [4, 14],
    HW_INDEX: [5, 7],
    PRIV_SAVE: [6, 1],
    COUNTERS: [6, 8],
});

impl BranchSampleType {
    /// The three privilege levels; without any of them the kernel uses the event's own.
    pub const PLM_ALL: Self = Self::USER.union(Self::KERNEL).union(Self::HV);
}

bitflags! {
    /// The single-bit members of the bit-field at offset 40 of `perf_event_attr`, in the layout of a
    /// little-endian machine. The two bits of `precise_ip` (15 and 16) are kept here too, see
    /// [`precise_ip`](Self::precise_ip).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[repr(transparent)]
    pub struct AttrFlags: u64 {
        /// Created off.
        const DISABLED = 1 << 0;
        /// New children of the task are counted too.
        const INHERIT = 1 << 1;
        /// Must always be on the PMU, or go to the error state.
        const PINNED = 1 << 2;
        /// Must be alone on the PMU.
        const EXCLUSIVE = 1 << 3;
        /// Do not count user space.
        const EXCLUDE_USER = 1 << 4;
        /// Do not count the kernel.
        const EXCLUDE_KERNEL = 1 << 5;
        /// Do not count the hypervisor.
        const EXCLUDE_HV = 1 << 6;
        /// Do not count when idle.
        const EXCLUDE_IDLE = 1 << 7;
        /// `PERF_RECORD_MMAP` for executable mappings.
        const MMAP = 1 << 8;
        /// `PERF_RECORD_COMM`.
        const COMM = 1 << 9;
        /// `sample_freq` is used, not `sample_period`.
        const FREQ = 1 << 10;
        /// Counts of each task, on context switches between them and in `PERF_RECORD_READ`.
        const INHERIT_STAT = 1 << 11;
        /// The next exec switches the event on.
        const ENABLE_ON_EXEC = 1 << 12;
        /// `PERF_RECORD_FORK` and `PERF_RECORD_EXIT`.
        const TASK = 1 << 13;
        /// `wakeup_watermark` is used, not `wakeup_events`.
        const WATERMARK = 1 << 14;
        /// `PERF_RECORD_MMAP` for other mappings too.
        const MMAP_DATA = 1 << 17;
        /// Every record carries the sample-id trailer.
        const SAMPLE_ID_ALL = 1 << 18;
        /// Do not count the host when a guest runs beside it.
        const EXCLUDE_HOST = 1 << 19;
        /// Do not count guests.
        const EXCLUDE_GUEST = 1 << 20;
        /// Leave kernel frames out of callchains.
        const EXCLUDE_CALLCHAIN_KERNEL = 1 << 21;
        /// Leave user frames out of callchains.
        const EXCLUDE_CALLCHAIN_USER = 1 << 22;
        /// `PERF_RECORD_MMAP2` in place of `PERF_RECORD_MMAP`.
        const MMAP2 = 1 << 23;
        /// The kernel tells exec's COMM records apart.
        const COMM_EXEC = 1 << 24;
        /// `clockid` chooses the clock of timestamps.
        const USE_CLOCKID = 1 << 25;
        /// `PERF_RECORD_SWITCH` and `PERF_RECORD_SWITCH_CPU_WIDE`.
        const CONTEXT_SWITCH = 1 << 26;
        /// The ring is written from its end to its beginning.
        const WRITE_BACKWARD = 1 << 27;
        /// `PERF_RECORD_NAMESPACES`.
        const NAMESPACES = 1 << 28;
        /// `PERF_RECORD_KSYMBOL`.
        const KSYMBOL = 1 << 29;
        /// `PERF_RECORD_BPF_EVENT`.
        const BPF_EVENT = 1 << 30;
        /// Precise samples go to the AUX area of the leader.
        const AUX_OUTPUT = 1 << 31;
        /// `PERF_RECORD_CGROUP`.
        const CGROUP = 1 << 32;
        /// `PERF_RECORD_TEXT_POKE`.
        const TEXT_POKE = 1 << 33;
        /// Build-id in place of the inode in `PERF_RECORD_MMAP2`.
        const BUILD_ID = 1 << 34;
        /// Only threads inherit, not child processes.
        const INHERIT_THREAD = 1 << 35;
        /// The event is taken off the task at exec.
        const REMOVE_ON_EXEC = 1 << 36;
        /// Overflow sends a synchronous SIGTRAP.
        const SIGTRAP = 1 << 37;
        /// User callchains may be delivered later, on return to user space.
        const DEFER_CALLCHAIN = 1 << 38;
        /// `PERF_RECORD_CALLCHAIN_DEFERRED` goes to this event's ring.
        const DEFER_OUTPUT = 1 << 39;
        const _ = !0;
    }
}
since!(AttrFlags {
    INHERIT_STAT: [2, 6, 31],
    ENABLE_ON_EXEC: [2, 6, 31],
    TASK: [2, 6, 31],
    WATERMARK: [2, 6, 32],
    MMAP_DATA: [2, 6, 36],
    SAMPLE_ID_ALL: [2, 6, 38],
    EXCLUDE_HOST: [3, 2],
    EXCLUDE_GUEST: [3, 2],
    EXCLUDE_CALLCHAIN_KERNEL: [3, 7],
    EXCLUDE_CALLCHAIN_USER: [3, 7],
    MMAP2: [3, 16],
    COMM_EXEC: [3, 16],
    USE_CLOCKID: [4, 1],
    CONTEXT_SWITCH: [4, 3],
    WRITE_BACKWARD: [4, 7],
    NAMESPACES: [4, 12],
    KSYMBOL: [5, 1],
    BPF_EVENT: [5, 1],
    AUX_OUTPUT: [5, 4],
    CGROUP: [5, 7],
    TEXT_POKE: [5, 9],
    BUILD_ID: [5, 12],
    INHERIT_THREAD: [5, 13],
    REMOVE_ON_EXEC: [5, 13],
    SIGTRAP: [5, 13],
    DEFER_CALLCHAIN: [6, 19],
    DEFER_OUTPUT: [6, 19],
});

impl AttrFlags {
    const PRECISE_IP_SHIFT: u32 = 15;
    /// The two bits of `precise_ip`.
    pub const PRECISE_IP_MASK: Self = Self::from_bits_retain(3 << Self::PRECISE_IP_SHIFT);

    /// Widths of the bit-field's members in declaration order, `precise_ip` being the only wide one.
    pub(crate) const WIDTHS: [u32; 39] = {
        let mut widths = [1; 39];
        widths[Self::PRECISE_IP_SHIFT as usize] = 2;
        widths
    };

    /// How far a sample's instruction pointer may be from the event: 0 anywhere, 1 constant skid, 2 no
    /// skid requested, 3 no skid required.
    pub const fn precise_ip(self) -> u8 {
        (self.bits() >> Self::PRECISE_IP_SHIFT & 3) as u8
    }

    /// The same flags with another `precise_ip`; only its two lowest bits are used.
    #[must_use]
    pub const fn with_precise_ip(self, level: u8) -> Self {
        let cleared = self.bits() & !Self::PRECISE_IP_MASK.bits();
        Self::from_bits_retain(cleared | ((level & 3) as u64) << Self::PRECISE_IP_SHIFT)
    }
}

bitflags! {
    /// `attr.aux_action` (Linux 6.13): what an event of an AUX group does to the trace.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[repr(transparent)]
    pub struct AuxAction: u32 {
        /// The AUX event starts paused.
        const START_PAUSED = 1 << 0;
        /// An overflow of this event pauses the AUX event.
        const PAUSE = 1 << 1;
        /// An overflow of this event resumes the AUX event.
        const RESUME = 1 << 2;
        const _ = !0;
    }
}
impl AuxAction {
    /// Widths of the bit-field's members in declaration order.
    pub(crate) const WIDTHS: [u32; 4] = [1, 1, 1, 29];
}
since!(AuxAction { START_PAUSED: [6, 13], PAUSE: [6, 13], RESUME: [6, 13] });

bitflags! {
    /// `flags` of `PERF_RECORD_AUX`. Bits 8 to 15 are the trace format, see [`format`](Self::format).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct AuxFlags: u64 {
        /// The trace was cut to fit.
        const TRUNCATED = 1 << 0;
        /// The area is overwritten, this is a snapshot.
        const OVERWRITE = 1 << 1;
        /// The trace has gaps.
        const PARTIAL = 1 << 2;
        /// A sample collided with another.
        const COLLISION = 1 << 3;
        const _ = !0;
    }
}

impl AuxFlags {
    /// Format of CoreSight traces that went through a formatter.
    pub const CORESIGHT_FORMAT_CORESIGHT: u8 = 0;
    /// Format of raw CoreSight traces.
    pub const CORESIGHT_FORMAT_RAW: u8 = 1;

    /// The PMU-specific trace format (bits 8 to 15).
    pub const fn format(self) -> u8 {
        (self.bits() >> 8) as u8
    }
}

bitflags! {
    /// Argument of the enable, disable and reset ioctls.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct IocFlags: u32 {
        /// Apply to the whole group.
        const GROUP = 1 << 0;
        const _ = !0;
    }
}

bitflags! {
    /// The transaction word of a sample ([`SampleType::TRANSACTION`]). The upper half is the abort
    /// code, see [`abort_code`](Self::abort_code).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Txn: u64 {
        /// Lock elision.
        const ELISION = 1 << 0;
        /// A plain transaction.
        const TRANSACTION = 1 << 1;
        /// The instruction caused the abort.
        const SYNC = 1 << 2;
        /// The instruction is unrelated to the abort.
        const ASYNC = 1 << 3;
        /// A retry may succeed.
        const RETRY = 1 << 4;
        /// Conflict with another cpu.
        const CONFLICT = 1 << 5;
        /// Too much written.
        const CAPACITY_WRITE = 1 << 6;
        /// Too much read.
        const CAPACITY_READ = 1 << 7;
        const _ = !0;
    }
}

impl Txn {
    /// The abort code given by the program.
    pub const fn abort_code(self) -> u32 {
        (self.bits() >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precise_ip_sits_in_bits_15_and_16() {
        let flags = AttrFlags::DISABLED.with_precise_ip(2);
        assert_eq!(flags.bits(), 1 | 2 << 15);
        assert_eq!(flags.precise_ip(), 2);
        assert_eq!(flags.with_precise_ip(0), AttrFlags::DISABLED);
    }

    #[test]
    fn bit_field_widths_cover_forty_bits() {
        assert_eq!(AttrFlags::WIDTHS.iter().sum::<u32>(), 40);
    }

    #[test]
    fn releases_come_from_the_table() {
        assert_eq!(SampleType::WEIGHT_STRUCT.since(), Release::new(5, 12));
        assert_eq!(SampleType::IP.since(), Release::v2_6(31));
        assert_eq!(AttrFlags::SIGTRAP.since(), Release::new(5, 13));
    }

    #[test]
    fn unknown_bits_survive() {
        assert_eq!(SampleType::from_bits_retain(1 << 40).bits(), 1 << 40);
    }
}
