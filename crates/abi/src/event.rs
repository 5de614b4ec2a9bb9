//! The event that is counted: `attr.type` and the meanings of `attr.config`. Each is a transparent number
//! with named constants, because types and ids unknown to this crate are everyday life: dynamic PMUs
//! get their type at boot.

use core::fmt;

/// Declares a transparent number with named constants and their header names.
macro_rules! named_numbers {
    ($(#[$doc:meta])* $name:ident($int:ty) $prefix:literal { $($(#[$cdoc:meta])* $konst:ident = $value:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub $int);

        impl $name {
            $($(#[$cdoc])* pub const $konst: Self = $name($value);)+

            /// Every value with a name.
            pub const ALL: &'static [Self] = &[$(Self::$konst),+];

            /// The name in the kernel's header, such as `PERF_TYPE_SOFTWARE`; `None` for an unknown value.
            pub const fn header_name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(concat!($prefix, stringify!($konst))),)+
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use named_numbers;

named_numbers! {
    /// `attr.type`: the PMU an event belongs to. Numbers from 6 on are given to PMUs as they register;
    /// `/sys/bus/event_source/devices/*/type` tells them.
    EventType(u32) "PERF_TYPE_" {
        /// The common hardware events, see [`Hardware`].
        HARDWARE = 0,
        /// Events of the kernel itself, see [`Software`].
        SOFTWARE = 1,
        /// Tracepoints; config is the tracepoint's id.
        TRACEPOINT = 2,
        /// Cache events, see [`CacheEvent`].
        HW_CACHE = 3,
        /// The cpu's own event codes.
        RAW = 4,
        /// Hardware breakpoints, see [`Breakpoint`].
        BREAKPOINT = 5,
    }
}

named_numbers! {
    /// `config` of [`EventType::HARDWARE`], in its lower half; on machines with several core PMUs the
    /// upper half is the PMU's type ([`on_pmu`](Self::on_pmu)).
    Hardware(u64) "PERF_COUNT_HW_" {
        /// Cycles. Frequency changes affect it.
        CPU_CYCLES = 0,
        /// Retired instructions.
        INSTRUCTIONS = 1,
        /// Accesses of the last-level cache, usually.
        CACHE_REFERENCES = 2,
        /// Misses of the last-level cache, usually.
        CACHE_MISSES = 3,
        /// Retired branches.
        BRANCH_INSTRUCTIONS = 4,
        /// Mispredicted branches.
        BRANCH_MISSES = 5,
        /// Bus cycles.
        BUS_CYCLES = 6,
        /// Cycles stalled during issue.
        STALLED_CYCLES_FRONTEND = 7,
        /// Cycles stalled during retirement.
        STALLED_CYCLES_BACKEND = 8,
        /// Cycles at a constant rate (Linux 3.3).
        REF_CPU_CYCLES = 9,
    }
}

impl Hardware {
    /// The config that asks the PMU of type `pmu` for this event (Linux 5.13, for hybrid cpus).
    pub const fn on_pmu(self, pmu: EventType) -> u64 {
        self.0 | (pmu.0 as u64) << 32
    }

    /// Splits a config into the event and the PMU type of its upper half (0: the kernel chooses).
    pub const fn from_config(config: u64) -> (Self, EventType) {
        (Hardware(config & 0xffff_ffff), EventType((config >> 32) as u32))
    }
}

named_numbers! {
    /// `config` of [`EventType::SOFTWARE`].
    Software(u64) "PERF_COUNT_SW_" {
        /// Wall time of the cpu, in ns (a high-resolution timer when sampling).
        CPU_CLOCK = 0,
        /// CPU time of the task, in ns.
        TASK_CLOCK = 1,
        /// Page faults.
        PAGE_FAULTS = 2,
        /// Context switches, counted in the kernel.
        CONTEXT_SWITCHES = 3,
        /// Migrations to another cpu, counted there.
        CPU_MIGRATIONS = 4,
        /// Page faults served without I/O.
        PAGE_FAULTS_MIN = 5,
        /// Page faults that needed I/O.
        PAGE_FAULTS_MAJ = 6,
        /// Unaligned accesses fixed by the kernel (never on x86).
        ALIGNMENT_FAULTS = 7,
        /// Emulated instructions.
        EMULATION_FAULTS = 8,
        /// Counts nothing; carries side-band records (Linux 3.12).
        DUMMY = 9,
        /// Counts nothing; carries what BPF programs write (Linux 4.4).
        BPF_OUTPUT = 10,
        /// Switches to a task of another cgroup (Linux 5.13).
        CGROUP_SWITCHES = 11,
    }
}

named_numbers! {
    /// Which cache: bits 0 to 7 of a cache event's config.
    Cache(u8) "PERF_COUNT_HW_CACHE_" {
        /// Level 1 data.
        L1D = 0,
        /// Level 1 instructions.
        L1I = 1,
        /// Last level.
        LL = 2,
        /// Data TLB.
        DTLB = 3,
        /// Instruction TLB.
        ITLB = 4,
        /// Branch prediction unit.
        BPU = 5,
        /// Local memory (Linux 3.1).
        NODE = 6,
    }
}

named_numbers! {
    /// The access to the cache: bits 8 to 15.
    CacheOp(u8) "PERF_COUNT_HW_CACHE_OP_" {
        /// Loads.
        READ = 0,
        /// Stores.
        WRITE = 1,
        /// Prefetches.
        PREFETCH = 2,
    }
}

named_numbers! {
    /// With which result: bits 16 to 23.
    CacheResult(u8) "PERF_COUNT_HW_CACHE_RESULT_" {
        /// All accesses.
        ACCESS = 0,
        /// Misses only.
        MISS = 1,
    }
}

/// `config` of [`EventType::HW_CACHE`] taken apart.
///
/// ```
/// use perfuse_abi::{Cache, CacheEvent, CacheOp, CacheResult, EventType};
/// let event = CacheEvent { cache: Cache::LL, op: CacheOp::READ, result: CacheResult::MISS };
/// assert_eq!(event.config(), 0x10002);
/// assert_eq!(CacheEvent::from_config(0x10002), (event, EventType(0)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheEvent {
    /// Which cache.
    pub cache: Cache,
    /// The access to it.
    pub op: CacheOp,
    /// With which result.
    pub result: CacheResult,
}

impl CacheEvent {
    /// The config of this event.
    pub const fn config(self) -> u64 {
        self.cache.0 as u64 | (self.op.0 as u64) << 8 | (self.result.0 as u64) << 16
    }

    /// The config that asks the PMU of type `pmu` (Linux 5.13, for hybrid cpus).
    pub const fn on_pmu(self, pmu: EventType) -> u64 {
        self.config() | (pmu.0 as u64) << 32
    }

    /// Takes a config apart; bits 24 to 31 have no meaning and are ignored.
    pub const fn from_config(config: u64) -> (Self, EventType) {
        let event = CacheEvent {
            cache: Cache(config as u8),
            op: CacheOp((config >> 8) as u8),
            result: CacheResult((config >> 16) as u8),
        };
        (event, EventType((config >> 32) as u32))
    }

    /// All 42 combinations the header can express.
    pub fn all() -> impl Iterator<Item = CacheEvent> {
        Cache::ALL.iter().flat_map(|&cache| {
            CacheOp::ALL.iter().flat_map(move |&op| {
                CacheResult::ALL.iter().map(move |&result| CacheEvent { cache, op, result })
            })
        })
    }
}

named_numbers! {
    /// `attr.bp_type`: what a breakpoint watches. Combined as bits.
    Breakpoint(u32) "HW_BREAKPOINT_" {
        /// Nothing.
        EMPTY = 0,
        /// Reads.
        R = 1,
        /// Writes.
        W = 2,
        /// Reads and writes.
        RW = 3,
        /// Execution.
        X = 4,
        /// Not a valid combination.
        INVALID = 7,
    }
}

impl fmt::Display for EventType {
    /// The number and, where there is one, the header's name, as `perf evlist -v` prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.header_name() {
            Some(name) => write!(f, "{} ({name})", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_half_of_a_hardware_config_is_a_pmu_type() {
        let config = Hardware::INSTRUCTIONS.on_pmu(EventType(10));
        assert_eq!(config, 0xa_0000_0001);
        assert_eq!(Hardware::from_config(config), (Hardware::INSTRUCTIONS, EventType(10)));
    }

    #[test]
    fn cache_events_round_trip() {
        assert_eq!(CacheEvent::all().count(), 42);
        for event in CacheEvent::all() {
            assert_eq!(CacheEvent::from_config(event.on_pmu(EventType(4))), (event, EventType(4)));
        }
    }

    #[test]
    fn header_names() {
        assert_eq!(EventType::HW_CACHE.header_name(), Some("PERF_TYPE_HW_CACHE"));
        assert_eq!(Software(11).header_name(), Some("PERF_COUNT_SW_CGROUP_SWITCHES"));
        assert_eq!(EventType(77).header_name(), None);
    }
}
