//! A recording on its way out, as bytes: neither the byte order nor what is not known is touched.

use crate::events::Event;
use crate::feature::{AuxtraceEntry, AuxtraceIndex, Feature, FeatureId, Section};
use crate::header::{FeatureSet, FileHeader, FileSection, MAGIC};
use crate::layout::AttrBytes;
use crate::tool::{HeaderAttr, Tool, ToolRecord, kind};
use perfuse_abi::record::Header;
use perfuse_abi::wire::{Layout, Padding, Words, Writer as WireWriter};
use perfuse_abi::{ByteOrder, WireAttr};
use std::fmt;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

/// Bytes that are gathered before they are written.
const GATHER: usize = 64 << 10;

/// The most bytes that a record can have.
const LONGEST: usize = u16::MAX as usize;

trait SeekWrite: Write + Seek {}
impl<W: Write + Seek> SeekWrite for W {}

enum Out<'w> {
    File(BufWriter<Box<dyn SeekWrite + 'w>>),
    Pipe(BufWriter<Box<dyn Write + 'w>>),
}

/// The destination of a recording.
pub struct Target<'w>(Out<'w>);

impl<'w> Target<'w> {
    /// An empty file. It holds a recording when all is done, not before.
    pub fn file(out: impl Write + Seek + 'w) -> Self {
        Target(Out::File(BufWriter::with_capacity(GATHER, Box::new(out))))
    }

    /// Something that can only be written: the recording gets the form of pipes.
    pub fn pipe(out: impl Write + 'w) -> Self {
        Target(Out::Pipe(BufWriter::with_capacity(GATHER, Box::new(out))))
    }

    /// Whether one can seek in it.
    pub(super) fn is_file(&self) -> bool {
        matches!(self.0, Out::File(_))
    }
}

impl fmt::Debug for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_file() { "Target::file" } else { "Target::pipe" })
    }
}

/// Feature sections: numbers and bytes.
pub(super) type Sections = Vec<(FeatureId, Vec<u8>)>;

pub(super) struct Output<'w> {
    out: Out<'w>,
    order: ByteOrder,
    /// `None` for a pipe.
    header: Option<FileHeader>,
    position: u64,
    /// Where AUX data was written.
    aux: Vec<AuxtraceEntry>,
}

impl<'w> Output<'w> {
    /// Begins a file: header, ids and attrs.
    pub(super) fn file(target: Target<'w>, order: ByteOrder, events: &[Event]) -> io::Result<Self> {
        let attrs = events.iter().map(|event| attr_bytes(event, order)).collect::<io::Result<Vec<_>>>()?;
        let attr_len = attrs.iter().map(Vec::len).max().unwrap_or(perfuse_abi::Attr::SIZE_VER0 as usize);
        let ids: u64 = events.iter().map(|event| event.ids.len() as u64 * 8).sum();
        let attr_size = attr_len as u64 + 16;
        let attrs_at = FileHeader::SIZE + ids;
        let attrs_section = FileSection { offset: attrs_at, size: attr_size * events.len() as u64 };
        let data = FileSection { offset: attrs_section.offset + attrs_section.size, size: 0 };
        let header = FileHeader { attr_size, attrs: attrs_section, data, ..FileHeader::default() };
        let mut output = Output { out: target.0, order, header: Some(header), position: 0, aux: Vec::new() };
        output.put(&header_bytes(&header, order)?)?;
        for id in events.iter().flat_map(|event| &event.ids) {
            output.put(&order.bytes64(*id))?;
        }
        let mut offset = FileHeader::SIZE;
        for (event, mut attr) in events.iter().zip(attrs) {
            attr.resize(attr_len, 0);
            let mut ids = FileSection { offset, size: event.ids.len() as u64 * 8 };
            offset += ids.size;
            ids.layout(&mut WireWriter::new(&mut attr, order)).map_err(invalid)?;
            output.put(&attr)?;
        }
        Ok(output)
    }

    /// Begins a pipe.
    pub(super) fn pipe(target: Target<'w>, order: ByteOrder) -> io::Result<Self> {
        let mut output = Output { out: target.0, order, header: None, position: 0, aux: Vec::new() };
        output.put(&order.bytes64(u64::from_le_bytes(MAGIC)))?;
        output.put(&order.bytes64(FileHeader::PIPE_SIZE))?;
        Ok(output)
    }

    /// Tells in a pipe the events of a file, as records.
    pub(super) fn events(&mut self, events: &[Event]) -> io::Result<()> {
        for event in events {
            let attr = attr_bytes(event, self.order)?;
            // A record has 16 bits for its size; ids beyond that are in the ID_INDEX anyway.
            let most = LONGEST.saturating_sub(Header::SIZE + attr.len()) / 8;
            let ids = Words::from(&event.ids[..event.ids.len().min(most)]);
            self.tool(Tool::HeaderAttr(HeaderAttr { attr: AttrBytes(&attr), ids }))?;
        }
        Ok(())
    }

    /// Tells in a pipe the sections of a file, as records. One that does not fit into a record is left out.
    pub(super) fn sections(&mut self, sections: &Sections) -> io::Result<()> {
        for (id, bytes) in sections {
            match *id {
                FeatureId::TRACING_DATA => {
                    let padded = bytes.len().next_multiple_of(8);
                    let size = u32::try_from(padded).map_err(invalid)?;
                    self.tool(Tool::TracingData { size, padding: Padding::default() })?;
                    self.put(bytes)?;
                    self.put(&[0; 7][..padded - bytes.len()])?;
                }
                FeatureId::BUILD_ID => {
                    let Ok(Section { feature: Feature::BuildIds(ids), .. }) =
                        Section::decode(*id, bytes, self.order, 0)
                    else {
                        continue;
                    };
                    for mut id in ids {
                        id.kind = kind::HEADER_BUILD_ID;
                        self.tool(Tool::BuildId(id))?;
                    }
                }
                FeatureId::AUXTRACE => {}
                id if bytes.len() + Header::SIZE + 8 <= LONGEST => {
                    self.tool(Tool::HeaderFeature { id, bytes })?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes a record of tools.
    pub(super) fn tool(&mut self, tool: Tool<'_>) -> io::Result<()> {
        let mut bytes = Vec::new();
        ToolRecord::from(tool).padded().encode(self.order, &mut bytes).map_err(invalid)?;
        self.put(&bytes)
    }

    /// Marks that all records so far are older than those to come.
    pub(super) fn round(&mut self) -> io::Result<()> {
        self.tool(Tool::FinishedRound)
    }

    /// Writes whole records.
    pub(super) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.position += bytes.len() as u64;
        match &mut self.out {
            Out::File(out) => out.write_all(bytes),
            Out::Pipe(out) => out.write_all(bytes),
        }
    }

    /// Writes what follows the AUXTRACE record of `record_len` bytes that was written last. If there are fewer than `len` bytes,
    /// a file has neither.
    pub(super) fn payload(&mut self, payload: &mut impl Read, len: u64, record_len: u64) -> io::Result<()> {
        let entry = AuxtraceEntry { offset: self.position - record_len, size: record_len };
        let (mut buffer, mut left) = (vec![0; GATHER], len);
        while left > 0 {
            match payload.read(&mut buffer)? {
                0 => break,
                count => {
                    self.put(&buffer[..count])?;
                    left -= count as u64;
                }
            }
        }
        match &mut self.out {
            Out::Pipe(_) => {}
            Out::File(_) if left == 0 => self.aux.push(entry),
            Out::File(out) => {
                out.seek(SeekFrom::Start(entry.offset))?;
                self.position = entry.offset;
            }
        }
        Ok(())
    }

    /// Whether this is the form of pipes.
    pub(super) fn is_pipe(&self) -> bool {
        self.header.is_none()
    }

    /// Completes a file with its sections, to which the index of AUX data is added.
    pub(super) fn finish(mut self, mut sections: Sections) -> io::Result<()> {
        if self.header.is_some_and(|header| header.data.offset == self.position) {
            // A file without records is one that was interrupted: its data would go on to its end.
            self.round()?;
        }
        if let (Some(mut header), Out::File(out)) = (self.header, &mut self.out) {
            if !self.aux.is_empty() {
                let index = AuxtraceIndex { is_bare: false, records: self.aux.as_slice().into() };
                let mut bytes = Vec::new();
                let section = Section::from(Feature::Auxtrace(index));
                section.encode(self.order, &mut bytes).map_err(invalid)?;
                sections.push((FeatureId::AUXTRACE, bytes));
            }
            sections.retain(|(id, _)| id.0 < FeatureId::BITS);
            sections.sort_by_key(|(id, _)| *id);
            header.data.size = self.position - header.data.offset;
            let mut offset = self.position + sections.len() as u64 * 16;
            let mut table = Vec::new();
            let mut features = FeatureSet::default();
            for (id, bytes) in &sections {
                let mut place = FileSection { offset, size: bytes.len() as u64 };
                offset += place.size;
                place.layout(&mut WireWriter::new(&mut table, self.order)).map_err(invalid)?;
                features.insert(*id);
            }
            header.features = features;
            out.write_all(&table)?;
            sections.iter().try_for_each(|(_, bytes)| out.write_all(bytes))?;
            out.seek(SeekFrom::Start(0))?;
            out.write_all(&header_bytes(&header, self.order)?)?;
        }
        match &mut self.out {
            Out::File(out) => out.flush(),
            Out::Pipe(out) => out.flush(),
        }
    }
}

pub(super) fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

pub(super) fn attr_bytes(event: &Event, order: ByteOrder) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let attr = WireAttr { attr: event.attr, tail: &event.attr_tail };
    attr.encode(order, &mut bytes).map_err(invalid)?;
    Ok(bytes)
}

fn header_bytes(header: &FileHeader, order: ByteOrder) -> io::Result<Vec<u8>> {
    let mut bytes = order.bytes64(u64::from_le_bytes(MAGIC)).to_vec();
    let mut header = *header;
    header.layout(&mut WireWriter::new(&mut bytes, order)).map_err(invalid)?;
    Ok(bytes)
}
