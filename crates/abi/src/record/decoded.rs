//! Every kind of record, taken apart.

use super::{
    Aux, BpfEvent, CallchainDeferred, Cgroup, Comm, Cpu, Header, Ksymbol, Lost, Misc, Mmap, Mmap2, MmapFile,
    Namespaces, RawRecord, Read, RecordFormat, RecordType, Sample, SampleId, Task, TextPoke, Throttle, Tid,
};
use crate::wire::{Codec, Counter, EncodeError, Layout, Reader, Short, Sink, Writer};

/// The content of a record, by its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "samples are the common case, and boxing them would cost more")]
pub enum Record<'a> {
    /// A mapping was made.
    Mmap(Mmap<'a>),
    /// Records were lost.
    Lost(Lost),
    /// A task changed its name.
    Comm(Comm<'a>),
    /// A task ended.
    Exit(Task),
    /// The event is paused: too many interrupts.
    Throttle(Throttle),
    /// The event continues.
    Unthrottle(Throttle),
    /// A task started.
    Fork(Task),
    /// Values of an inherited event.
    Read(Read<'a>),
    /// The event overflowed.
    Sample(Sample<'a>),
    /// A mapping was made, with inode or build-id.
    Mmap2(Mmap2<'a>),
    /// Data came to the AUX area.
    Aux(Aux),
    /// Instruction tracing of a task started.
    ItraceStart(Tid),
    /// The hardware lost this many samples.
    LostSamples(u64),
    /// The task came to the cpu, or left it if [`Misc::SWITCH_OUT`] is set.
    Switch,
    /// The same, with the task that was before or comes next.
    SwitchCpuWide(Tid),
    /// The namespaces of a task.
    Namespaces(Namespaces<'a>),
    /// A kernel symbol came or went.
    Ksymbol(Ksymbol<'a>),
    /// A BPF program came or went.
    BpfEvent(BpfEvent),
    /// A cgroup was made.
    Cgroup(Cgroup<'a>),
    /// Kernel code was changed.
    TextPoke(TextPoke<'a>),
    /// The hardware's id of the event in AUX data.
    AuxOutputHwId(u64),
    /// The user part of a callchain.
    CallchainDeferred(CallchainDeferred<'a>),
    /// Any other type: of a newer kernel, or of a tool.
    Unknown {
        /// The type.
        kind: RecordType,
        /// What is between the header and the trailer.
        body: &'a [u8],
    },
}

impl<'a> Record<'a> {
    /// The type on the wire.
    #[inline]
    pub fn kind(&self) -> RecordType {
        match self {
            Record::Mmap(_) => RecordType::MMAP,
            Record::Lost(_) => RecordType::LOST,
            Record::Comm(_) => RecordType::COMM,
            Record::Exit(_) => RecordType::EXIT,
            Record::Throttle(_) => RecordType::THROTTLE,
            Record::Unthrottle(_) => RecordType::UNTHROTTLE,
            Record::Fork(_) => RecordType::FORK,
            Record::Read(_) => RecordType::READ,
            Record::Sample(_) => RecordType::SAMPLE,
            Record::Mmap2(_) => RecordType::MMAP2,
            Record::Aux(_) => RecordType::AUX,
            Record::ItraceStart(_) => RecordType::ITRACE_START,
            Record::LostSamples(_) => RecordType::LOST_SAMPLES,
            Record::Switch => RecordType::SWITCH,
            Record::SwitchCpuWide(_) => RecordType::SWITCH_CPU_WIDE,
            Record::Namespaces(_) => RecordType::NAMESPACES,
            Record::Ksymbol(_) => RecordType::KSYMBOL,
            Record::BpfEvent(_) => RecordType::BPF_EVENT,
            Record::Cgroup(_) => RecordType::CGROUP,
            Record::TextPoke(_) => RecordType::TEXT_POKE,
            Record::AuxOutputHwId(_) => RecordType::AUX_OUTPUT_HW_ID,
            Record::CallchainDeferred(_) => RecordType::CALLCHAIN_DEFERRED,
            Record::Unknown { kind, .. } => *kind,
        }
    }

    /// An empty record of a type, for a reader to fill.
    #[inline]
    fn empty(kind: RecordType, misc: Misc) -> Self {
        match kind {
            RecordType::MMAP => Record::Mmap(Mmap::default()),
            RecordType::LOST => Record::Lost(Lost::default()),
            RecordType::COMM => Record::Comm(Comm::default()),
            RecordType::EXIT => Record::Exit(Task::default()),
            RecordType::THROTTLE => Record::Throttle(Throttle::default()),
            RecordType::UNTHROTTLE => Record::Unthrottle(Throttle::default()),
            RecordType::FORK => Record::Fork(Task::default()),
            RecordType::READ => Record::Read(Read::default()),
            RecordType::SAMPLE => Record::Sample(Sample::default()),
            RecordType::MMAP2 => {
                let has_build_id = misc.contains(Misc::MMAP_BUILD_ID);
                let file =
                    if has_build_id { MmapFile::BuildId(Default::default()) } else { MmapFile::default() };
                Record::Mmap2(Mmap2 { file, ..Mmap2::default() })
            }
            RecordType::AUX => Record::Aux(Aux::default()),
            RecordType::ITRACE_START => Record::ItraceStart(Tid::default()),
            RecordType::LOST_SAMPLES => Record::LostSamples(0),
            RecordType::SWITCH => Record::Switch,
            RecordType::SWITCH_CPU_WIDE => Record::SwitchCpuWide(Tid::default()),
            RecordType::NAMESPACES => Record::Namespaces(Namespaces::default()),
            RecordType::KSYMBOL => Record::Ksymbol(Ksymbol::default()),
            RecordType::BPF_EVENT => Record::BpfEvent(BpfEvent::default()),
            RecordType::CGROUP => Record::Cgroup(Cgroup::default()),
            RecordType::TEXT_POKE => Record::TextPoke(TextPoke::default()),
            RecordType::AUX_OUTPUT_HW_ID => Record::AuxOutputHwId(0),
            RecordType::CALLCHAIN_DEFERRED => Record::CallchainDeferred(CallchainDeferred::default()),
            kind => Record::Unknown { kind, body: &[] },
        }
    }

    /// The body in both directions.
    #[inline]
    fn layout<C: Codec<'a>>(&mut self, c: &mut C, format: &RecordFormat) -> Result<(), C::Error> {
        match self {
            Record::Mmap(v) => v.layout(c),
            Record::Lost(v) => v.layout(c),
            Record::Comm(v) => v.layout(c),
            Record::Exit(v) | Record::Fork(v) => v.layout(c),
            Record::Throttle(v) | Record::Unthrottle(v) => v.layout(c),
            Record::Read(v) => v.layout(c, format.read_format),
            Record::Sample(v) => v.layout(c, format, false),
            Record::Mmap2(v) => v.layout(c),
            Record::Aux(v) => v.layout(c),
            Record::ItraceStart(v) | Record::SwitchCpuWide(v) => v.layout(c),
            Record::LostSamples(v) => c.u64("lost", v),
            Record::Switch => Ok(()),
            Record::Namespaces(v) => v.layout(c),
            Record::Ksymbol(v) => v.layout(c),
            Record::BpfEvent(v) => v.layout(c),
            Record::Cgroup(v) => v.layout(c),
            Record::TextPoke(v) => v.layout(c),
            Record::AuxOutputHwId(v) => c.u64("hw_id", v),
            Record::CallchainDeferred(v) => v.layout(c),
            Record::Unknown { body, .. } => c.rest(body),
        }
    }
}

/// A record taken apart: what every record has, and its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// Flags of the header.
    pub misc: Misc,
    /// The content.
    pub record: Record<'a>,
    /// The trailer. Empty for samples, which have these fields themselves: see [`id`](Self::id) and its
    /// neighbours.
    pub sample_id: SampleId,
    /// Bytes between the known fields and the trailer, which a newer kernel may have put there.
    pub extra: &'a [u8],
}

impl<'a> From<Record<'a>> for Decoded<'a> {
    /// With everything else empty.
    #[inline]
    fn from(record: Record<'a>) -> Self {
        Decoded { misc: Misc::empty(), record, sample_id: SampleId::default(), extra: &[] }
    }
}

/// Whether records of a type end with a [`SampleId`].
#[inline]
fn has_trailer(kind: RecordType) -> bool {
    kind != RecordType::SAMPLE && kind.is_kernel()
}

impl<'a> Decoded<'a> {
    #[inline]
    pub(super) fn decode(raw: &RawRecord<'a>, format: &RecordFormat) -> Result<Self, Short> {
        let Header { kind, misc, .. } = raw.header;
        let mut decoded = Decoded { misc, ..Decoded::from(Record::empty(kind, misc)) };
        let mut body = raw.body;
        if has_trailer(kind) {
            let trailer_len = format.trailer_len();
            let Some((before, trailer)) = body.len().checked_sub(trailer_len).map(|at| body.split_at(at))
            else {
                let available = body.len();
                return Err(Short {
                    what: "sample_id",
                    offset: Header::SIZE,
                    needed: trailer_len,
                    available,
                });
            };
            body = before;
            let mut reader = Reader::at(trailer, format.order, Header::SIZE + before.len());
            decoded.sample_id.layout(&mut reader, format)?;
        }
        let mut reader = Reader::at(body, format.order, Header::SIZE);
        match &mut decoded.record {
            Record::Sample(sample) => sample.decode(&mut reader, format)?,
            record => record.layout(&mut reader, format)?,
        }
        decoded.extra = reader.remaining();
        Ok(decoded)
    }

    /// Bytes of the record, header included.
    #[inline]
    pub fn encoded_len(&self, format: &RecordFormat) -> Result<usize, EncodeError> {
        let mut counter = Counter::default();
        self.encode_body(format, &mut counter)?;
        Ok(Header::SIZE + counter.bytes)
    }

    /// Writes the record: header, body, extra bytes and trailer. Nothing is written if the record is too
    /// long or lacks a field; if the sink is full, a part may have been.
    ///
    /// The header's size is computed, and for MMAP2 the bit that tells build-ids from inodes is set as
    /// the content demands.
    #[inline]
    pub fn encode(&self, format: &RecordFormat, sink: &mut impl Sink) -> Result<(), EncodeError> {
        let len = self.encoded_len(format)?;
        let size = u16::try_from(len).map_err(|_| EncodeError::TooLong { size: len })?;
        let mut header = Header { kind: self.record.kind(), misc: self.wire_misc(), size };
        header.layout(&mut Writer::new(sink, format.order))?;
        self.encode_body(format, sink)
    }

    #[inline]
    fn encode_body(&self, format: &RecordFormat, sink: &mut impl Sink) -> Result<(), EncodeError> {
        let mut writer = Writer::at(sink, format.order, Header::SIZE);
        let (mut record, mut extra, mut sample_id) = (self.record, self.extra, self.sample_id);
        record.layout(&mut writer, format)?;
        writer.rest(&mut extra)?;
        if has_trailer(self.record.kind()) { sample_id.layout(&mut writer, format) } else { Ok(()) }
    }

    #[inline]
    fn wire_misc(&self) -> Misc {
        match &self.record {
            Record::Mmap2(mmap) => {
                let build_id = matches!(mmap.file, MmapFile::BuildId(_));
                if build_id { self.misc | Misc::MMAP_BUILD_ID } else { self.misc - Misc::MMAP_BUILD_ID }
            }
            _ => self.misc,
        }
    }

    /// Id of the event the record belongs to, if the format has it.
    #[inline]
    pub fn id(&self) -> Option<u64> {
        match &self.record {
            Record::Sample(sample) => sample.identifier.or(sample.id),
            _ => self.sample_id.identifier.or(self.sample_id.id),
        }
    }

    /// Process and thread the record was written in, if the format has them.
    #[inline]
    pub fn tid(&self) -> Option<Tid> {
        match &self.record {
            Record::Sample(sample) => sample.tid,
            _ => self.sample_id.tid,
        }
    }

    /// Time of the record on the event's clock, if the format has it.
    #[inline]
    pub fn time(&self) -> Option<u64> {
        match &self.record {
            Record::Sample(sample) => sample.time,
            _ => self.sample_id.time,
        }
    }

    /// CPU the record was written on, if the format has it.
    #[inline]
    pub fn cpu(&self) -> Option<u32> {
        let Cpu { cpu, .. } = match &self.record {
            Record::Sample(sample) => sample.cpu,
            _ => self.sample_id.cpu,
        }?;
        Some(cpu)
    }
}
