//! Feature sections: what a recording tells about the machine, the tool and itself, beyond the events.
//!
//! In a file they follow the data, each found through a table; in a pipe they come as records. Each is one
//! layout that is read and written, and each is known by a number that is also its bit in the header.

mod bpf;
mod machine;
mod session;
mod topology;
mod tracing;

pub use bpf::{BpfFunction, BpfProgram, Btf};
pub use machine::{Cache, CacheLevel, Capability, Clock, CpuDomain, CpuDomains, PmuCaps, SchedDomain};
pub use session::{
    AuxtraceEntry, AuxtraceIndex, BuildIdEntry, Compressed, EventDesc, EventDescs, Group, PmuMapping,
    SampleTime,
};
pub use topology::{CpuId, CpuTopology, Dies, HybridNode, MemNode, MemTopology, NrCpus, NumaNode};
pub use tracing::{System, TracingData};

use crate::layout::{FileCodec, FileLayout, Str, Surroundings, list};
use perfuse_abi::ByteOrder;
use perfuse_abi::wire::{Codec, EncodeError, Reader, Short, Sink, Writer};
use std::fmt;

/// The number of a feature section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeatureId(pub u64);

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident = $number:literal),+ $(,)?) => {
        impl FeatureId {
            $($(#[$doc])* pub const $name: Self = FeatureId($number);)+

            /// Every number that this crate knows.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The name, as in perf's `HEADER_*` without the prefix.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some(stringify!($name)),)+
                    _ => None,
                }
            }
        }
    };
}

features! {
    /// Formats of tracepoints.
    TRACING_DATA = 1,
    /// Build-ids of files that had samples.
    BUILD_ID = 2,
    /// Name of the machine.
    HOSTNAME = 3,
    /// Release of its kernel.
    OSRELEASE = 4,
    /// Version of the tool that recorded.
    VERSION = 5,
    /// Architecture, as `uname -m`.
    ARCH = 6,
    /// Number of cpus.
    NRCPUS = 7,
    /// Name of the cpu.
    CPUDESC = 8,
    /// Identification of the cpu.
    CPUID = 9,
    /// Memory of the machine.
    TOTAL_MEM = 10,
    /// Command line of the tool.
    CMDLINE = 11,
    /// Events with names and ids.
    EVENT_DESC = 12,
    /// Which cpus share cores, dies and packages.
    CPU_TOPOLOGY = 13,
    /// NUMA nodes.
    NUMA_TOPOLOGY = 14,
    /// Samples have branch stacks. No content.
    BRANCH_STACK = 15,
    /// Numbers and names of PMUs.
    PMU_MAPPINGS = 16,
    /// Groups of events.
    GROUP_DESC = 17,
    /// Where the AUX data is.
    AUXTRACE = 18,
    /// A recording of `perf stat`. No content.
    STAT = 19,
    /// Caches of the cpus.
    CACHE = 20,
    /// Times of the first and the last sample.
    SAMPLE_TIME = 21,
    /// Blocks of memory per node.
    MEM_TOPOLOGY = 22,
    /// Resolution of the clock of `-k`.
    CLOCKID = 23,
    /// The data is in more files of a directory.
    DIR_FORMAT = 24,
    /// BPF programs.
    BPF_PROG_INFO = 25,
    /// Types of BPF programs.
    BPF_BTF = 26,
    /// How records are compressed.
    COMPRESSED = 27,
    /// Capabilities of the cpu's PMU.
    CPU_PMU_CAPS = 28,
    /// Readings of the clock of `-k` and of the wall clock at one moment.
    CLOCK_DATA = 29,
    /// Core PMUs of a hybrid machine.
    HYBRID_TOPOLOGY = 30,
    /// Capabilities of PMUs.
    PMU_CAPS = 31,
    /// Scheduling domains.
    CPU_DOMAIN_INFO = 32,
    /// ELF machine of the recorded machine.
    E_MACHINE = 33,
    /// Bytes of a cache line.
    CLN_SIZE = 34,
    /// Names of functions, lines and instructions that `perfuse seal` put inside. perf passes over it.
    SEALED = 250,
}

impl FeatureId {
    /// Number of bits in the header.
    pub const BITS: u64 = 256;
}

impl fmt::Display for FeatureId {
    /// The name, or the number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

/// The content of a feature section.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Feature<'a> {
    /// [`FeatureId::TRACING_DATA`]
    TracingData(Box<TracingData<'a>>),
    /// [`FeatureId::BUILD_ID`]
    BuildIds(Vec<BuildIdEntry<'a>>),
    /// [`FeatureId::HOSTNAME`]
    Hostname(Str<'a>),
    /// [`FeatureId::OSRELEASE`]
    OsRelease(Str<'a>),
    /// [`FeatureId::VERSION`]
    Version(Str<'a>),
    /// [`FeatureId::ARCH`]
    Arch(Str<'a>),
    /// [`FeatureId::NRCPUS`]
    NrCpus(NrCpus),
    /// [`FeatureId::CPUDESC`]
    CpuDesc(Str<'a>),
    /// [`FeatureId::CPUID`]
    CpuId(Str<'a>),
    /// [`FeatureId::TOTAL_MEM`], in KiB
    TotalMem(u64),
    /// [`FeatureId::CMDLINE`], one word each
    Cmdline(Vec<Str<'a>>),
    /// [`FeatureId::EVENT_DESC`]
    EventDesc(EventDescs<'a>),
    /// [`FeatureId::CPU_TOPOLOGY`]
    CpuTopology(CpuTopology<'a>),
    /// [`FeatureId::NUMA_TOPOLOGY`]
    NumaTopology(Vec<NumaNode<'a>>),
    /// [`FeatureId::BRANCH_STACK`]
    BranchStack,
    /// [`FeatureId::PMU_MAPPINGS`]
    PmuMappings(Vec<PmuMapping<'a>>),
    /// [`FeatureId::GROUP_DESC`]
    GroupDesc(Vec<Group<'a>>),
    /// [`FeatureId::AUXTRACE`]
    Auxtrace(AuxtraceIndex<'a>),
    /// [`FeatureId::STAT`]
    Stat,
    /// [`FeatureId::CACHE`]
    Cache(Cache<'a>),
    /// [`FeatureId::SAMPLE_TIME`]
    SampleTime(SampleTime),
    /// [`FeatureId::MEM_TOPOLOGY`]
    MemTopology(MemTopology<'a>),
    /// [`FeatureId::CLOCKID`], in ns
    ClockResolution(u64),
    /// [`FeatureId::DIR_FORMAT`]: the version of the directory's format
    DirFormat(u64),
    /// [`FeatureId::BPF_PROG_INFO`]
    BpfPrograms(Vec<BpfProgram<'a>>),
    /// [`FeatureId::BPF_BTF`]
    BpfTypes(Vec<Btf<'a>>),
    /// [`FeatureId::COMPRESSED`]
    Compressed(Compressed),
    /// [`FeatureId::CPU_PMU_CAPS`]
    CpuPmuCaps(Vec<Capability<'a>>),
    /// [`FeatureId::CLOCK_DATA`]
    Clock(Clock),
    /// [`FeatureId::HYBRID_TOPOLOGY`]
    HybridTopology(Vec<HybridNode<'a>>),
    /// [`FeatureId::PMU_CAPS`]
    PmuCaps(Vec<PmuCaps<'a>>),
    /// [`FeatureId::CPU_DOMAIN_INFO`]
    CpuDomains(CpuDomains<'a>),
    /// [`FeatureId::E_MACHINE`]
    EMachine {
        /// `e_machine`
        machine: u32,
        /// `e_flags`
        flags: u32,
    },
    /// [`FeatureId::CLN_SIZE`], in bytes
    CacheLineSize(u32),
    /// Any other: of a newer perf, or of another tool. Also one that should have content and is empty: perf
    /// lists sections that it then cannot write, and ends those in a pipe with an empty one.
    Unknown {
        /// Its number.
        id: FeatureId,
        /// Its bytes.
        bytes: &'a [u8],
    },
}

/// A feature section, and what follows the known fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section<'a> {
    /// The content.
    pub feature: Feature<'a>,
    /// Bytes after the known fields: padding, or what a newer perf added.
    pub extra: &'a [u8],
}

impl<'a> From<Feature<'a>> for Section<'a> {
    fn from(feature: Feature<'a>) -> Self {
        Section { feature, extra: &[] }
    }
}

/// Makes a feature of empty content, so that one match names the layout of each.
macro_rules! feature_table {
    ($($id:ident => $variant:ident: |$c:ident, $v:ident, $s:tt| $layout:expr),+ $(,)?) => {
        impl<'a> Feature<'a> {
            /// Its number.
            pub fn id(&self) -> FeatureId {
                match self {
                    $(Feature::$variant(_) => FeatureId::$id,)+
                    Feature::TracingData(_) => FeatureId::TRACING_DATA,
                    Feature::BranchStack => FeatureId::BRANCH_STACK,
                    Feature::Stat => FeatureId::STAT,
                    Feature::EMachine { .. } => FeatureId::E_MACHINE,
                    Feature::Unknown { id, .. } => *id,
                }
            }

            fn empty(id: FeatureId) -> Self {
                match id {
                    $(FeatureId::$id => Feature::$variant(Default::default()),)+
                    FeatureId::TRACING_DATA => Feature::TracingData(Box::default()),
                    FeatureId::BRANCH_STACK => Feature::BranchStack,
                    FeatureId::STAT => Feature::Stat,
                    FeatureId::E_MACHINE => Feature::EMachine { machine: 0, flags: 0 },
                    id => Feature::Unknown { id, bytes: &[] },
                }
            }

            fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, s: &Surroundings) -> Result<(), C::Error> {
                match self {
                    $(Feature::$variant($v) => {
                        let ($c, $s) = (c, s);
                        $layout
                    })+
                    Feature::TracingData(v) => v.layout(c, s),
                    Feature::BranchStack | Feature::Stat => Ok(()),
                    Feature::EMachine { machine, flags } => {
                        c.u32("e_machine", machine)?;
                        c.u32("e_flags", flags)
                    }
                    Feature::Unknown { bytes, .. } => c.rest(bytes),
                }
            }
        }
    };
}

feature_table! {
    BUILD_ID => BuildIds: |c, v, s| session::build_ids(c, v, s),
    HOSTNAME => Hostname: |c, v, s| v.layout(c, s),
    OSRELEASE => OsRelease: |c, v, s| v.layout(c, s),
    VERSION => Version: |c, v, s| v.layout(c, s),
    ARCH => Arch: |c, v, s| v.layout(c, s),
    NRCPUS => NrCpus: |c, v, s| v.layout(c, s),
    CPUDESC => CpuDesc: |c, v, s| v.layout(c, s),
    CPUID => CpuId: |c, v, s| v.layout(c, s),
    TOTAL_MEM => TotalMem: |c, v, _| c.u64("total memory", v),
    CMDLINE => Cmdline: |c, v, s| list(c, "number of words", v, s),
    EVENT_DESC => EventDesc: |c, v, s| v.layout(c, s),
    CPU_TOPOLOGY => CpuTopology: |c, v, s| v.layout(c, s),
    NUMA_TOPOLOGY => NumaTopology: |c, v, s| list(c, "number of nodes", v, s),
    PMU_MAPPINGS => PmuMappings: |c, v, s| list(c, "number of PMUs", v, s),
    GROUP_DESC => GroupDesc: |c, v, s| list(c, "number of groups", v, s),
    AUXTRACE => Auxtrace: |c, v, s| v.layout(c, s),
    CACHE => Cache: |c, v, s| v.layout(c, s),
    SAMPLE_TIME => SampleTime: |c, v, s| v.layout(c, s),
    MEM_TOPOLOGY => MemTopology: |c, v, s| v.layout(c, s),
    CLOCKID => ClockResolution: |c, v, _| c.u64("resolution", v),
    DIR_FORMAT => DirFormat: |c, v, _| c.u64("version", v),
    BPF_PROG_INFO => BpfPrograms: |c, v, s| list(c, "number of programs", v, s),
    BPF_BTF => BpfTypes: |c, v, s| list(c, "number of types", v, s),
    COMPRESSED => Compressed: |c, v, s| v.layout(c, s),
    CPU_PMU_CAPS => CpuPmuCaps: |c, v, s| list(c, "number of capabilities", v, s),
    CLOCK_DATA => Clock: |c, v, s| v.layout(c, s),
    HYBRID_TOPOLOGY => HybridTopology: |c, v, s| list(c, "number of PMUs", v, s),
    PMU_CAPS => PmuCaps: |c, v, s| list(c, "number of PMUs", v, s),
    CPU_DOMAIN_INFO => CpuDomains: |c, v, s| v.layout(c, s),
    CLN_SIZE => CacheLineSize: |c, v, _| c.u32("size of a cache line", v),
}

impl Feature<'_> {
    /// The meaning of a section without bytes.
    fn without_bytes(id: FeatureId) -> Self {
        match id {
            FeatureId::BRANCH_STACK => Feature::BranchStack,
            FeatureId::STAT => Feature::Stat,
            FeatureId::BUILD_ID => Feature::BuildIds(Vec::new()),
            id => Feature::Unknown { id, bytes: &[] },
        }
    }
}

impl<'a> Section<'a> {
    /// Reads section `id`. `cpus` is the [number of cpus](NrCpus) that the machine could have, which the
    /// layout of [`CpuTopology`] depends on: 0 if it is not known.
    pub fn decode(id: FeatureId, bytes: &'a [u8], order: ByteOrder, cpus: u32) -> Result<Self, Short> {
        let order = Self::order(id, bytes).unwrap_or(order);
        let mut reader = Reader::new(bytes, order);
        let mut feature = if bytes.is_empty() { Feature::without_bytes(id) } else { Feature::empty(id) };
        feature.layout(&mut reader, &Surroundings { end: bytes.len(), cpus, attr_len: 0 })?;
        Ok(Section { feature, extra: reader.remaining() })
    }

    /// The byte order that a section states by itself.
    fn order(id: FeatureId, bytes: &[u8]) -> Option<ByteOrder> {
        if id == FeatureId::TRACING_DATA { TracingData::order_of(bytes) } else { None }
    }

    /// Writes the section. Tracing data is written in the byte order it states.
    pub fn encode(&self, order: ByteOrder, sink: &mut impl Sink) -> Result<(), EncodeError> {
        let order = if let Feature::TracingData(data) = &self.feature { data.order() } else { order };
        let mut writer = Writer::new(sink, order);
        self.feature.clone().layout(&mut writer, &Surroundings::default())?;
        writer.rest(&mut { self.extra })
    }
}
