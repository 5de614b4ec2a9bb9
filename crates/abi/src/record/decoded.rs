//! Every kind of record, taken apart.

use super::{
    Aux, BpfEvent, BuildId, CallchainDeferred, Cgroup, Comm, Cpu, Header, Ksymbol, Lost, Misc, Mmap, Mmap2,
    MmapFile, Namespaces, RawRecord, Read, RecordFormat, RecordType, Sample, SampleId, Task, TextPoke,
    Throttle, Tid,
};
use crate::ByteOrder;
use crate::wire::{Codec, Counter, EncodeError, Layout, Reader, Short, Sink, Writer};

/// The content of a record, by its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "samples are the common case, and boxing them would cost more")]
#[non_exhaustive]
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
        /// The bytes between the header and the trailer.
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

    /// Reads the body. Each arm assigns by itself, so that it writes no more than its own record.
    #[inline]
    fn fill(
        &mut self,
        kind: RecordType,
        misc: Misc,
        c: &mut Reader<'a>,
        format: &RecordFormat,
    ) -> Result<(), Short> {
        match kind {
            RecordType::MMAP => *self = Record::Mmap(read(c)?),
            RecordType::LOST => *self = Record::Lost(read(c)?),
            RecordType::COMM => *self = Record::Comm(read(c)?),
            RecordType::EXIT => *self = Record::Exit(read(c)?),
            RecordType::THROTTLE => *self = Record::Throttle(read(c)?),
            RecordType::UNTHROTTLE => *self = Record::Unthrottle(read(c)?),
            RecordType::FORK => *self = Record::Fork(read(c)?),
            RecordType::READ => {
                let mut read = Read::default();
                read.layout(c, format.read_format)?;
                *self = Record::Read(read);
            }
            RecordType::SAMPLE => {
                // Every field of a sample is set by reading, so an earlier one need not be cleared.
                if !matches!(self, Record::Sample(_)) {
                    *self = Record::Sample(Sample::default());
                }
                if let Record::Sample(sample) = self {
                    sample.fill(c, format)?;
                }
            }
            RecordType::MMAP2 => {
                let has_build_id = misc.contains(Misc::MMAP_BUILD_ID);
                let file =
                    if has_build_id { MmapFile::BuildId(BuildId::default()) } else { MmapFile::default() };
                let (mut mmap, mut again) = (Mmap2 { file, ..Mmap2::default() }, c.clone());
                mmap.layout(c)?;
                if matches!(mmap.file, MmapFile::BuildId(id) if !id.is_plausible()) {
                    mmap = Mmap2::default();
                    mmap.layout(&mut again)?;
                }
                *self = Record::Mmap2(mmap);
            }
            RecordType::AUX => *self = Record::Aux(read(c)?),
            RecordType::ITRACE_START => *self = Record::ItraceStart(read(c)?),
            RecordType::LOST_SAMPLES => *self = Record::LostSamples(read(c)?),
            RecordType::SWITCH => *self = Record::Switch,
            RecordType::SWITCH_CPU_WIDE => *self = Record::SwitchCpuWide(read(c)?),
            RecordType::NAMESPACES => *self = Record::Namespaces(read(c)?),
            RecordType::KSYMBOL => *self = Record::Ksymbol(read(c)?),
            RecordType::BPF_EVENT => *self = Record::BpfEvent(read(c)?),
            RecordType::CGROUP => *self = Record::Cgroup(read(c)?),
            RecordType::TEXT_POKE => *self = Record::TextPoke(read(c)?),
            RecordType::AUX_OUTPUT_HW_ID => *self = Record::AuxOutputHwId(read(c)?),
            RecordType::CALLCHAIN_DEFERRED => *self = Record::CallchainDeferred(read(c)?),
            kind => {
                let mut body: &[u8] = &[];
                c.rest(&mut body)?;
                *self = Record::Unknown { kind, body };
            }
        }
        Ok(())
    }

    /// Writes the body.
    #[inline]
    fn write<C: Codec<'a>>(&self, c: &mut C, format: &RecordFormat) -> Result<(), C::Error> {
        match *self {
            Record::Mmap(mut v) => v.layout(c),
            Record::Lost(mut v) => v.layout(c),
            Record::Comm(mut v) => v.layout(c),
            Record::Exit(mut v) | Record::Fork(mut v) => v.layout(c),
            Record::Throttle(mut v) | Record::Unthrottle(mut v) => v.layout(c),
            Record::Read(mut v) => v.layout(c, format.read_format),
            Record::Sample(mut v) => v.layout(c, format, false),
            Record::Mmap2(mut v) => v.layout(c),
            Record::Aux(mut v) => v.layout(c),
            Record::ItraceStart(mut v) | Record::SwitchCpuWide(mut v) => v.layout(c),
            Record::LostSamples(mut v) | Record::AuxOutputHwId(mut v) => v.layout(c),
            Record::Switch => Ok(()),
            Record::Namespaces(mut v) => v.layout(c),
            Record::Ksymbol(mut v) => v.layout(c),
            Record::BpfEvent(mut v) => v.layout(c),
            Record::Cgroup(mut v) => v.layout(c),
            Record::TextPoke(mut v) => v.layout(c),
            Record::CallchainDeferred(mut v) => v.layout(c),
            Record::Unknown { mut body, .. } => c.rest(&mut body),
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

/// A part of a record that has no choices.
#[inline]
fn read<'a, T: Layout<'a> + Default>(c: &mut Reader<'a>) -> Result<T, Short> {
    let mut part = T::default();
    part.layout(c)?;
    Ok(part)
}

/// The body of a record without its trailer, and the trailer.
#[inline]
fn split_trailer<'a>(raw: &RawRecord<'a>, format: &RecordFormat) -> Result<(&'a [u8], SampleId), Short> {
    let mut sample_id = SampleId::default();
    if !has_trailer(raw.header.kind) {
        return Ok((raw.body, sample_id));
    }
    let (available, needed) = (raw.body.len(), format.trailer_len());
    let Some(start) = available.checked_sub(needed) else {
        return Err(Short { what: "sample_id", offset: Header::SIZE, needed, available });
    };
    let (body, trailer) = raw.body.split_at(start);
    sample_id.layout(&mut Reader::at(trailer, format.order, Header::SIZE + start), format)?;
    Ok((body, sample_id))
}

impl<'a> Decoded<'a> {
    #[inline]
    pub(super) fn decode(raw: &RawRecord<'a>, format: &RecordFormat) -> Result<Self, Short> {
        // One variable, filled in place and returned, saves copies of what is as large as a sample.
        let mut result = Ok(Decoded::from(Record::Switch));
        if let Ok(decoded) = &mut result {
            if let Err(short) = decoded.fill(raw, format) {
                result = Err(short);
            }
        }
        result
    }

    /// Replaces this record by the one in `raw`: [`RawRecord::decode`] without moving the result. After
    /// an error the content is that of no record.
    #[inline]
    pub fn fill(&mut self, raw: &RawRecord<'a>, format: &RecordFormat) -> Result<(), Short> {
        let Header { kind, misc, .. } = raw.header;
        let (body, sample_id) = split_trailer(raw, format)?;
        (self.misc, self.sample_id) = (misc, sample_id);
        let mut reader = Reader::at(body, format.order, Header::SIZE);
        self.record.fill(kind, misc, &mut reader, format)?;
        self.extra = reader.remaining();
        Ok(())
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
        let mut header = Header { kind: self.record.kind(), misc: self.wire_misc(format.order), size };
        header.layout(&mut Writer::new(sink, format.order))?;
        self.encode_body(format, sink)
    }

    #[inline]
    fn encode_body(&self, format: &RecordFormat, sink: &mut impl Sink) -> Result<(), EncodeError> {
        let mut writer = Writer::at(sink, format.order, Header::SIZE);
        let (mut extra, mut sample_id) = (self.extra, self.sample_id);
        self.record.write(&mut writer, format)?;
        writer.rest(&mut extra)?;
        if has_trailer(self.record.kind()) { sample_id.layout(&mut writer, format) } else { Ok(()) }
    }

    #[inline]
    fn wire_misc(&self, order: ByteOrder) -> Misc {
        match &self.record {
            Record::Mmap2(Mmap2 { file: MmapFile::BuildId(_), .. }) => self.misc | Misc::MMAP_BUILD_ID,
            // A wrong bit stays where readers can see that it is wrong.
            Record::Mmap2(mmap) if mmap.file.is_like_build_id(order) => self.misc - Misc::MMAP_BUILD_ID,
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
