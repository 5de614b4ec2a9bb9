//! Tool records: what perf itself puts between the kernel's records, with types from 64 on.
//!
//! Layouts are read and written by the same functions. A record of a type that is not known, such as those
//! of Android's simpleperf from 32768 on, keeps its bytes.

mod cpu_map;
mod records;
mod schedstat;

pub use cpu_map::{Cpu16, Cpu32, CpuMap};
pub use records::{
    Auxtrace, AuxtraceError, AuxtraceErrorGuest, AuxtraceInfo, BpfMetadata, BpfVariable, EventType,
    EventUpdate, Guest, HeaderAttr, IdIndex, IdIndexEntry, Stat, StatConfigEntry, StatRound, Thread,
    TimeConv, TimeConvCap, Update,
};

pub use schedstat::{Balancing, CpuCounts, DomainCounts, SchedstatCpu, SchedstatDomain};

use crate::feature::{BuildIdEntry, FeatureId};
use crate::layout::{FileCodec, FileLayout, Surroundings};
use perfuse_abi::record::{Header, Misc, RawRecord, RecordType};
use perfuse_abi::wire::{Codec, Counter, EncodeError, Layout, Padding, Reader, Seq, Short, Sink, Writer};
use perfuse_abi::{Attr, ByteOrder};

/// The types of tool records.
pub mod kind {
    use super::RecordType;

    macro_rules! kinds {
        ($($(#[$doc:meta])* $name:ident = $number:literal),+ $(,)?) => {
            $($(#[$doc])* pub const $name: RecordType = RecordType($number);)+

            /// Every type that has a name here.
            pub const ALL: &[RecordType] = &[$($name),+];

            /// The name of a tool record, as in perf's `PERF_RECORD_*` without the prefix.
            pub fn name(kind: RecordType) -> Option<&'static str> {
                match kind.0 {
                    $($number => Some(stringify!($name)),)+
                    _ => None,
                }
            }
        };
    }

    /// From here on, types are those of Android's simpleperf.
    pub const SIMPLEPERF_START: RecordType = RecordType(32768);

    kinds! {
        /// An event.
        HEADER_ATTR = 64,
        /// The name of an event; no longer written.
        HEADER_EVENT_TYPE = 65,
        /// Formats of tracepoints, which follow the record.
        HEADER_TRACING_DATA = 66,
        /// The build-id of a file.
        HEADER_BUILD_ID = 67,
        /// Records before the round that ends here are older than those after the next.
        FINISHED_ROUND = 68,
        /// The owners of ids.
        ID_INDEX = 69,
        /// About AUX data to come.
        AUXTRACE_INFO = 70,
        /// AUX data, which follows the record.
        AUXTRACE = 71,
        /// AUX data could not be decoded.
        AUXTRACE_ERROR = 72,
        /// The threads that were measured.
        THREAD_MAP = 73,
        /// The cpus that were measured.
        CPU_MAP = 74,
        /// How `perf stat` was called.
        STAT_CONFIG = 75,
        /// A count of `perf stat`.
        STAT = 76,
        /// An interval of `perf stat` ends.
        STAT_ROUND = 77,
        /// More about an event.
        EVENT_UPDATE = 78,
        /// How the cpu's clock converts to time.
        TIME_CONV = 79,
        /// A feature section.
        HEADER_FEATURE = 80,
        /// Compressed records.
        COMPRESSED = 81,
        /// The synthesized records end.
        FINISHED_INIT = 82,
        /// Compressed records, padded (perf 6.16).
        COMPRESSED2 = 83,
        /// Variables of a BPF program (perf 6.17).
        BPF_METADATA = 84,
        /// Scheduler statistics of a cpu (perf 7.0).
        SCHEDSTAT_CPU = 85,
        /// Scheduler statistics of a domain (perf 7.0).
        SCHEDSTAT_DOMAIN = 86,
    }
}

/// The content of a tool record.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Tool<'a> {
    /// [`kind::HEADER_ATTR`]
    HeaderAttr(HeaderAttr<'a>),
    /// [`kind::HEADER_EVENT_TYPE`]
    EventType(EventType<'a>),
    /// [`kind::HEADER_TRACING_DATA`]: formats of tracepoints, which follow the record. In the recordings of
    /// simpleperf they are part of it.
    TracingData {
        /// Bytes of the formats.
        size: u32,
        /// Bytes that fill the record up.
        padding: Padding<'a>,
    },
    /// [`kind::HEADER_BUILD_ID`]
    BuildId(BuildIdEntry<'a>),
    /// [`kind::FINISHED_ROUND`]
    FinishedRound,
    /// [`kind::ID_INDEX`]
    IdIndex(IdIndex<'a>),
    /// [`kind::AUXTRACE_INFO`]
    AuxtraceInfo(AuxtraceInfo<'a>),
    /// [`kind::AUXTRACE`]
    Auxtrace(Auxtrace),
    /// [`kind::AUXTRACE_ERROR`]
    AuxtraceError(AuxtraceError),
    /// [`kind::THREAD_MAP`]
    ThreadMap(Seq<'a, Thread>),
    /// [`kind::CPU_MAP`]
    CpuMap(CpuMap<'a>),
    /// [`kind::STAT_CONFIG`]
    StatConfig(Seq<'a, StatConfigEntry>),
    /// [`kind::STAT`]
    Stat(Stat),
    /// [`kind::STAT_ROUND`]
    StatRound(StatRound),
    /// [`kind::EVENT_UPDATE`]
    EventUpdate(EventUpdate<'a>),
    /// [`kind::TIME_CONV`]
    TimeConv(TimeConv),
    /// [`kind::HEADER_FEATURE`]
    HeaderFeature {
        /// Which.
        id: FeatureId,
        /// Its bytes: see [`Section::decode`](crate::feature::Section::decode).
        bytes: &'a [u8],
    },
    /// [`kind::COMPRESSED`]: a piece of a zstd stream
    Compressed(&'a [u8]),
    /// [`kind::FINISHED_INIT`]
    FinishedInit,
    /// [`kind::COMPRESSED2`]: a piece of a zstd stream
    Compressed2 {
        /// The piece.
        bytes: &'a [u8],
        /// Bytes that fill the record up.
        padding: Padding<'a>,
    },
    /// [`kind::BPF_METADATA`]
    BpfMetadata(BpfMetadata<'a>),
    /// [`kind::SCHEDSTAT_CPU`]
    SchedstatCpu(SchedstatCpu<'a>),
    /// [`kind::SCHEDSTAT_DOMAIN`]
    SchedstatDomain(SchedstatDomain<'a>),
    /// Any other.
    Unknown {
        /// The type.
        kind: RecordType,
        /// Everything after the header.
        body: &'a [u8],
    },
}

/// A tool record taken apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ToolRecord<'a> {
    /// Flags of the header; those of a [`BuildIdEntry`] are its own.
    pub misc: Misc,
    /// The content.
    pub tool: Tool<'a>,
    /// Bytes after the known fields: padding, or what a newer perf added.
    pub extra: &'a [u8],
}

impl<'a> From<Tool<'a>> for ToolRecord<'a> {
    fn from(tool: Tool<'a>) -> Self {
        ToolRecord { misc: Misc::empty(), tool, extra: &[] }
    }
}

impl<'a> Tool<'a> {
    /// The type on the wire.
    pub fn kind(&self) -> RecordType {
        match self {
            Tool::HeaderAttr(_) => kind::HEADER_ATTR,
            Tool::EventType(_) => kind::HEADER_EVENT_TYPE,
            Tool::TracingData { .. } => kind::HEADER_TRACING_DATA,
            Tool::BuildId(_) => kind::HEADER_BUILD_ID,
            Tool::FinishedRound => kind::FINISHED_ROUND,
            Tool::IdIndex(_) => kind::ID_INDEX,
            Tool::AuxtraceInfo(_) => kind::AUXTRACE_INFO,
            Tool::Auxtrace(_) => kind::AUXTRACE,
            Tool::AuxtraceError(_) => kind::AUXTRACE_ERROR,
            Tool::ThreadMap(_) => kind::THREAD_MAP,
            Tool::CpuMap(_) => kind::CPU_MAP,
            Tool::StatConfig(_) => kind::STAT_CONFIG,
            Tool::Stat(_) => kind::STAT,
            Tool::StatRound(_) => kind::STAT_ROUND,
            Tool::EventUpdate(_) => kind::EVENT_UPDATE,
            Tool::TimeConv(_) => kind::TIME_CONV,
            Tool::HeaderFeature { .. } => kind::HEADER_FEATURE,
            Tool::Compressed(_) => kind::COMPRESSED,
            Tool::FinishedInit => kind::FINISHED_INIT,
            Tool::Compressed2 { .. } => kind::COMPRESSED2,
            Tool::BpfMetadata(_) => kind::BPF_METADATA,
            Tool::SchedstatCpu(_) => kind::SCHEDSTAT_CPU,
            Tool::SchedstatDomain(_) => kind::SCHEDSTAT_DOMAIN,
            Tool::Unknown { kind, .. } => *kind,
        }
    }

    /// The record of this type without content.
    fn empty(kind: RecordType) -> Self {
        match kind {
            kind::HEADER_ATTR => Tool::HeaderAttr(HeaderAttr::default()),
            kind::HEADER_EVENT_TYPE => Tool::EventType(EventType::default()),
            kind::HEADER_TRACING_DATA => Tool::TracingData { size: 0, padding: Padding::default() },
            kind::HEADER_BUILD_ID => Tool::BuildId(BuildIdEntry::default()),
            kind::FINISHED_ROUND => Tool::FinishedRound,
            kind::ID_INDEX => Tool::IdIndex(IdIndex::default()),
            kind::AUXTRACE_INFO => Tool::AuxtraceInfo(AuxtraceInfo::default()),
            kind::AUXTRACE => Tool::Auxtrace(Auxtrace::default()),
            kind::AUXTRACE_ERROR => Tool::AuxtraceError(AuxtraceError::default()),
            kind::THREAD_MAP => Tool::ThreadMap(Seq::default()),
            kind::CPU_MAP => Tool::CpuMap(CpuMap::default()),
            kind::STAT_CONFIG => Tool::StatConfig(Seq::default()),
            kind::STAT => Tool::Stat(Stat::default()),
            kind::STAT_ROUND => Tool::StatRound(StatRound::default()),
            kind::EVENT_UPDATE => Tool::EventUpdate(EventUpdate::default()),
            kind::TIME_CONV => Tool::TimeConv(TimeConv::default()),
            kind::HEADER_FEATURE => Tool::HeaderFeature { id: FeatureId(0), bytes: &[] },
            kind::COMPRESSED => Tool::Compressed(&[]),
            kind::FINISHED_INIT => Tool::FinishedInit,
            kind::COMPRESSED2 => Tool::Compressed2 { bytes: &[], padding: Padding::default() },
            kind::BPF_METADATA => Tool::BpfMetadata(BpfMetadata::default()),
            kind::SCHEDSTAT_CPU => Tool::SchedstatCpu(SchedstatCpu::default()),
            kind::SCHEDSTAT_DOMAIN => Tool::SchedstatDomain(SchedstatDomain::default()),
            kind => Tool::Unknown { kind, body: &[] },
        }
    }

    /// The body, in both directions.
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, around: &Surroundings) -> Result<(), C::Error> {
        match self {
            Tool::HeaderAttr(v) => v.layout(c, around),
            Tool::EventType(v) => v.layout(c, around),
            Tool::TracingData { size, padding } => {
                c.u32("size of the tracing data", size)?;
                c.pad8(padding)
            }
            Tool::BuildId(v) => {
                let len = v.name.len().max(around.end.saturating_sub(Header::SIZE + 28));
                v.body(c, len as u64)
            }
            Tool::IdIndex(v) => v.layout(c, around),
            Tool::AuxtraceInfo(v) => v.layout(c, around),
            Tool::Auxtrace(v) => v.layout(c, around),
            Tool::AuxtraceError(v) => v.layout(c, around),
            Tool::ThreadMap(v) => {
                let mut count = v.len() as u64;
                c.u64("number of threads", &mut count)?;
                c.seq("threads", count, v)
            }
            Tool::CpuMap(v) => v.layout(c, around),
            Tool::StatConfig(v) => {
                let mut count = v.len() as u64;
                c.u64("number of terms", &mut count)?;
                c.seq("terms", count, v)
            }
            Tool::Stat(v) => v.layout(c, around),
            Tool::StatRound(v) => v.layout(c, around),
            Tool::EventUpdate(v) => v.layout(c, around),
            Tool::TimeConv(v) => v.layout(c, around),
            Tool::HeaderFeature { id, bytes } => {
                c.u64("number of the feature", &mut id.0)?;
                c.rest(bytes)
            }
            Tool::Compressed(bytes) => c.rest(bytes),
            Tool::Compressed2 { bytes, padding } => {
                let mut len = bytes.len() as u64;
                c.u64("size of the compressed data", &mut len)?;
                c.bytes("compressed data", len, bytes)?;
                c.pad8(padding)
            }
            Tool::BpfMetadata(v) => v.layout(c, around),
            Tool::SchedstatCpu(v) => v.layout(c, around),
            Tool::SchedstatDomain(v) => v.layout(c, around),
            Tool::FinishedRound | Tool::FinishedInit => Ok(()),
            Tool::Unknown { body, .. } => c.rest(body),
        }
    }
}

/// The two halves of eight bytes.
fn words(bytes: &[u8; 8]) -> [[u8; 4]; 2] {
    let [a, b, c, d, e, f, g, h] = *bytes;
    [[a, b, c, d], [e, f, g, h]]
}

impl<'a> ToolRecord<'a> {
    /// Takes a record apart. Tells which field does not fit where in the record, counted from its header.
    pub fn decode(raw: &RawRecord<'a>, order: ByteOrder) -> Result<Self, Short> {
        let mut tool = Tool::empty(raw.header.kind);
        let mut reader = Reader::at(raw.body, order, Header::SIZE);
        let mut around = Surroundings { end: Header::SIZE + raw.body.len(), ..Surroundings::default() };
        if let (Tool::HeaderAttr(_), Some([_, size])) = (&tool, raw.body.first_chunk().map(words)) {
            around.attr_len = (order.u32(size) as usize).max(Attr::SIZE_VER0 as usize);
        }
        tool.layout(&mut reader, &around)?;
        let mut misc = raw.header.misc;
        if let Tool::BuildId(build_id) = &mut tool {
            build_id.misc = std::mem::take(&mut misc);
            build_id.kind = raw.header.kind;
        }
        Ok(ToolRecord { misc, tool, extra: reader.remaining() })
    }

    /// The same with zeros behind it, so that its size is a multiple of 8: perf 7 refuses records of other sizes. Extra bytes stay as
    /// they are.
    #[must_use]
    pub fn padded(mut self) -> Self {
        let mut counter = Counter::default();
        if self.extra.is_empty() && self.body(ByteOrder::NATIVE, &mut counter).is_ok() {
            self.extra = &[0; 7][..counter.bytes.wrapping_neg() % 8];
        }
        self
    }

    /// Writes the record: header, body and extra bytes. Nothing is written if it is too long.
    pub fn encode(&self, order: ByteOrder, sink: &mut impl Sink) -> Result<(), EncodeError> {
        let mut counter = Counter::default();
        self.body(order, &mut counter)?;
        let len = Header::SIZE + counter.bytes;
        let size = u16::try_from(len).map_err(|_| EncodeError::TooLong { size: len })?;
        let misc = if let Tool::BuildId(build_id) = &self.tool { build_id.misc } else { self.misc };
        let mut header = Header { kind: self.tool.kind(), misc, size };
        header.layout(&mut Writer::new(sink, order))?;
        self.body(order, sink)
    }

    fn body(&self, order: ByteOrder, sink: &mut impl Sink) -> Result<(), EncodeError> {
        let mut writer = Writer::at(sink, order, Header::SIZE);
        let (mut tool, mut extra) = (self.tool, self.extra);
        tool.layout(&mut writer, &Surroundings::default())?;
        writer.rest(&mut extra)
    }
}
