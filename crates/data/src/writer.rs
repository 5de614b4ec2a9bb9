//! perf.data, written: as a file, for a pipe or as a directory, record after record while they are made.
//!
//! A file is written once from its start to its end. Its header says at first that the data goes on to the
//! end of the file, which is what readers take from a recording that was interrupted, so whatever is there
//! can be read at any moment. [`Writer::finish`] then completes it from the inside out: first the size of
//! the data, then the feature sections behind it, at last the bits that tell of them.
//!
//! Here is how a file is put together; what goes into the sections is the recording program's to find out.

#[cfg(feature = "compress")]
mod compress;
mod output;

#[cfg(feature = "compress")]
use compress::Compressor;
use output::Output;

use crate::feature::{AuxtraceEntry, AuxtraceIndex, EventDesc, EventDescs, Feature, FeatureId, Section};
use crate::header::{FeatureSet, FileHeader, FileSection, MAGIC};
use crate::layout::{AttrBytes, Str};
use crate::tool::{Auxtrace, HeaderAttr, Tool, ToolRecord};
use perfuse_abi::record::{Decoded, Header, RecordFormat};
use perfuse_abi::wire::{Layout, Padding, Words, Writer as WireWriter};
use perfuse_abi::{Attr, ByteOrder, WireAttr};
use std::fmt;
use std::fs::{DirBuilder, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

/// An event of a recording that is being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// How it was opened. The size on the wire is chosen by the writer.
    pub attr: Attr,
    /// Its name.
    pub name: String,
    /// The ids of its instances.
    pub ids: Vec<u64>,
}

/// A recording that is being written, in the byte order of this machine.
///
/// ```
/// use perfuse_abi::{Attr, EventType, record::RecordType};
/// use perfuse_data::{NewEvent, PerfData, Writer, tool::Tool};
/// use std::io::Cursor;
///
/// let event = NewEvent { attr: Attr::new(EventType::SOFTWARE), name: "cpu-clock".into(), ids: vec![7] };
/// let mut writer = Writer::file(Cursor::new(Vec::new()), &[event])?;
/// writer.tool(Tool::FinishedRound)?;
/// let file = writer.finish(Vec::new())?;
///
/// let mut data = PerfData::from_seekable(Cursor::new(file.into_inner()), Default::default())?;
/// assert_eq!(data.events().get(0).unwrap().ids, [7]);
/// assert_eq!(data.next()?.unwrap().kind(), RecordType(68));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a recording is complete after `finish`"]
pub struct Writer<W> {
    output: Output<W>,
    /// `None` for a pipe.
    header: Option<FileHeader>,
    events: Vec<NewEvent>,
    /// The file is one of a directory.
    in_directory: bool,
    /// The AUX data that was written to a file.
    aux: Vec<AuxtraceEntry>,
    #[cfg(feature = "compress")]
    compressor: Option<Compressor>,
}

/// The version of directories that perf writes.
const DIR_VERSION: u64 = 1;

/// The attr's size in files: that of perf 5.13 to 6.2, because perf refuses attrs that are larger than its
/// own, or more if the attr needs it.
const ATTR_SIZE: u32 = Attr::SIZE_VER7;

const ORDER: ByteOrder = ByteOrder::NATIVE;

impl<W: Write> Writer<W> {
    /// Starts a recording for a pipe: everything is told in records, first of all the events. Feature
    /// sections can follow with [`features`](Self::features).
    pub fn pipe(out: W, events: &[NewEvent]) -> io::Result<Self> {
        let mut writer = Self::new(out, None, events);
        let mut start = ORDER.bytes64(u64::from_le_bytes(MAGIC)).to_vec();
        start.extend(ORDER.bytes64(FileHeader::PIPE_SIZE));
        writer.output.put(&start)?;
        for event in events {
            let attr = attr_bytes(&event.attr, attr_size(events))?;
            // A record has 16 bits for its size; ids beyond that are in the ID_INDEX anyway.
            let most = (usize::from(u16::MAX) - Header::SIZE - attr.len()) / 8;
            let ids = Words::from(&event.ids[..event.ids.len().min(most)]);
            writer.tool(Tool::HeaderAttr(HeaderAttr { attr: AttrBytes(&attr), ids }))?;
        }
        Ok(writer)
    }

    fn new(out: W, header: Option<FileHeader>, events: &[NewEvent]) -> Self {
        Writer {
            output: Output::new(out),
            header,
            events: events.to_vec(),
            in_directory: false,
            aux: Vec::new(),
            #[cfg(feature = "compress")]
            compressor: None,
        }
    }

    /// Compresses what [`records`](Self::records) writes from now on, with this level of zstd, 1 to 22.
    #[cfg(feature = "compress")]
    pub fn compress(&mut self, level: i32) -> io::Result<()> {
        self.compressor = Some(Compressor::new(level)?);
        Ok(())
    }

    /// Writes records as they came from a ring, in as many parts as they came in. Together the parts must
    /// be whole records. They are not copied unless they are compressed.
    pub fn records(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        #[cfg(feature = "compress")]
        if let Some(compressor) = &mut self.compressor {
            return compressor.records(parts, &mut self.output);
        }
        self.output.write(parts)
    }

    /// Writes a record in the format of its event.
    pub fn record(&mut self, record: &Decoded<'_>, format: &RecordFormat) -> io::Result<()> {
        self.output.put_with(|buffer| record.encode(format, buffer).map_err(invalid))
    }

    /// Writes a tool's record. It may wait in memory for the next [`records`](Self::records) or
    /// [`flush`](Self::flush).
    pub fn tool<'a>(&mut self, record: impl Into<ToolRecord<'a>>) -> io::Result<()> {
        let record = record.into().padded();
        self.output.put_with(|buffer| record.encode(ORDER, buffer).map_err(invalid))
    }

    /// Writes AUX data, in as many parts as it came in: the record that tells of it, whose `size` is that of
    /// the parts and some padding, and the data. It is not compressed. Facts that decoders need are
    /// told before, in [`Tool::AuxtraceInfo`].
    pub fn aux(&mut self, record: Auxtrace, parts: &[&[u8]]) -> io::Result<()> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let padding = len.wrapping_neg() % 8;
        let record = Auxtrace { size: (len + padding) as u64, ..record };
        let mut bytes = Vec::new();
        ToolRecord::from(Tool::Auxtrace(record)).encode(ORDER, &mut bytes).map_err(invalid)?;
        let entry = AuxtraceEntry { offset: self.len(), size: bytes.len() as u64 };
        let mut all = vec![bytes.as_slice()];
        all.extend_from_slice(parts);
        all.push(&[0; 7][..padding]);
        self.output.write_at_once(&all)?;
        if self.header.is_some() {
            self.aux.push(entry);
        }
        Ok(())
    }

    /// Writes feature sections as records, for a pipe; EVENT_DESC is added. One that does not fit into a
    /// record is left out; TRACING_DATA, BUILD_ID and what concerns files have records of their own there.
    pub fn features(&mut self, features: Vec<Feature<'_>>) -> io::Result<()> {
        let sections = self.sections(features)?;
        for (id, bytes) in &sections {
            match *id {
                FeatureId::TRACING_DATA => {
                    let padded = bytes.len().next_multiple_of(8);
                    let size = u32::try_from(padded).map_err(invalid)?;
                    self.tool(Tool::TracingData { size, padding: Padding::default() })?;
                    self.output.put(bytes)?;
                    self.output.put(&[0; 7][..padded - bytes.len()])?;
                }
                FeatureId::BUILD_ID | FeatureId::AUXTRACE | FeatureId::DIR_FORMAT => {}
                id if bytes.len() + Header::SIZE + 8 <= usize::from(u16::MAX) => {
                    self.tool(Tool::HeaderFeature { id, bytes })?;
                }
                _ => {}
            }
        }
        self.flush()
    }

    /// The sections as bytes in the order of their numbers, with those that the writer knows itself.
    fn sections(&self, features: Vec<Feature<'_>>) -> io::Result<Vec<(FeatureId, Vec<u8>)>> {
        let size = attr_size(&self.events);
        let attrs = self.events.iter().map(|event| attr_bytes(&event.attr, size));
        let attrs = attrs.collect::<io::Result<Vec<_>>>()?;
        let events = self.events.iter().zip(&attrs).map(|(event, attr)| EventDesc {
            attr: AttrBytes(attr),
            name: Str::new(&event.name),
            ids: Words::from(&event.ids[..]),
        });
        let descs = EventDescs { attr_size: size, events: events.collect() };
        let mut sections = vec![(FeatureId::EVENT_DESC, section_bytes(Feature::EventDesc(descs))?)];
        let aux = AuxtraceIndex { is_bare: false, records: self.aux.as_slice().into() };
        let aux = (!self.aux.is_empty()).then_some(Feature::Auxtrace(aux));
        let directory = self.in_directory.then_some(Feature::DirFormat(DIR_VERSION));
        for feature in aux.into_iter().chain(directory).chain(features) {
            let id = feature.id();
            if id.0 < FeatureId::BITS && sections.iter().all(|(known, _)| *known != id) {
                sections.push((id, section_bytes(feature)?));
            }
        }
        sections.sort_by_key(|(id, _)| *id);
        Ok(sections)
    }

    /// Hands everything to the operating system.
    pub fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    /// Bytes written so far: the size that the recording has without sections yet to come.
    pub fn len(&self) -> u64 {
        self.output.position()
    }

    /// Whether nothing was written. A recording starts with a header, so this is never so.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes of records went into compressed ones, and how many bytes these have.
    pub fn compressed(&self) -> Option<(u64, u64)> {
        #[cfg(feature = "compress")]
        return self.compressor.as_ref().map(Compressor::sizes);
        #[cfg(not(feature = "compress"))]
        None
    }

    /// The output.
    pub fn get_ref(&self) -> &W {
        self.output.get_ref()
    }
}

impl Writer<File> {
    /// Starts a recording that is a new directory, with the file `data` in it: events, what concerns all, and
    /// what the other files do not have. Those are [parts](Self::part).
    pub fn directory(path: impl AsRef<Path>, events: &[NewEvent]) -> io::Result<Self> {
        let path = path.as_ref();
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path)?;
        let mut writer = Self::file(new_file(&path.join("data"))?, events)?;
        writer.in_directory = true;
        Ok(writer)
    }

    /// Starts the file `data.NUMBER` of a directory. It has records only, of any of the events, and is written
    /// by whom it suits, such as a thread for each part. Numbers are to start with 0 and leave none out.
    /// [`flush`](Self::flush) completes it.
    pub fn part(directory: impl AsRef<Path>, number: u32) -> io::Result<Self> {
        let file = new_file(&directory.as_ref().join(format!("data.{number}")))?;
        Ok(Self::new(file, None, &[]))
    }
}

/// A file that was not there before, for its owner alone: recordings tell what others do.
fn new_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

impl<W: Write + Seek> Writer<W> {
    /// Starts a file: header, ids and attrs. The output must be empty and at its start.
    pub fn file(out: W, events: &[NewEvent]) -> io::Result<Self> {
        let size = attr_size(events);
        let id_size = <FileSection as perfuse_abi::wire::Item>::SIZE as u64;
        let ids_at = FileHeader::SIZE;
        let id_count: u64 = events.iter().map(|event| event.ids.len() as u64).sum();
        let attrs_at = ids_at + id_count * 8;
        let attr_size = u64::from(size) + id_size;
        let attrs = FileSection { offset: attrs_at, size: attr_size * events.len() as u64 };
        let data = FileSection { offset: attrs.offset + attrs.size, size: 0 };
        let header = FileHeader { attr_size, attrs, data, ..FileHeader::default() };

        let mut writer = Self::new(out, Some(header), events);
        let mut start = header_bytes(&header)?;
        for event in events {
            event.ids.iter().for_each(|&id| start.extend(ORDER.bytes64(id)));
        }
        let mut offset = ids_at;
        for event in events {
            let mut ids = FileSection { offset, size: event.ids.len() as u64 * 8 };
            offset += ids.size;
            start.extend(attr_bytes(&event.attr, size)?);
            ids.layout(&mut WireWriter::new(&mut start, ORDER)).map_err(invalid)?;
        }
        writer.output.put(&start)?;
        writer.output.flush()?;
        Ok(writer)
    }

    /// Completes a file with its feature sections; EVENT_DESC, the index of AUX data and the format of a
    /// directory are added. A pipe is only flushed.
    ///
    /// The records stay readable whichever step fails, and wherever a crash interrupts it.
    pub fn finish(mut self, features: Vec<Feature<'_>>) -> io::Result<W> {
        let sections = self.sections(features)?;
        let flushed = self.output.flush();
        self.write_data_size()?;
        flushed?;
        let Some(mut header) = self.header else { return Ok(self.output.into_inner()) };
        let mut offset = header.data.offset + header.data.size;
        let out = self.output.get_mut();
        out.seek(SeekFrom::Start(offset))?;
        offset += (sections.len() * <FileSection as perfuse_abi::wire::Item>::SIZE) as u64;
        let mut bytes = Vec::new();
        for (_, section) in &sections {
            let mut place = FileSection { offset, size: section.len() as u64 };
            offset += place.size;
            place.layout(&mut WireWriter::new(&mut bytes, ORDER)).map_err(invalid)?;
        }
        sections.iter().for_each(|(_, section)| bytes.extend(section));
        out.write_all(&bytes)?;
        let mut features = FeatureSet::default();
        sections.iter().for_each(|(id, _)| features.insert(*id));
        header.features = features;
        out.seek(SeekFrom::Start(0))?;
        out.write_all(&header_bytes(&header)?)?;
        out.seek(SeekFrom::Start(offset))?;
        out.flush()?;
        Ok(self.output.into_inner())
    }

    /// Gives up, after an error of writing: the header tells of all whole records that were written, and
    /// nothing else. That takes no more room on the disk.
    pub fn abandon(mut self) -> io::Result<W> {
        self.write_data_size()?;
        Ok(self.output.into_inner())
    }

    /// Puts the size of the data into the header, without features.
    fn write_data_size(&mut self) -> io::Result<()> {
        let whole = self.output.whole();
        let Some(header) = &mut self.header else { return Ok(()) };
        header.data.size = whole.saturating_sub(header.data.offset);
        let bytes = header_bytes(header)?;
        let out = self.output.get_mut();
        out.seek(SeekFrom::Start(0))?;
        out.write_all(&bytes)?;
        out.flush()
    }
}

impl<W> fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("header", &self.header).finish_non_exhaustive()
    }
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

/// One size for all attrs.
fn attr_size(events: &[NewEvent]) -> u32 {
    events.iter().map(|event| event.attr.min_size()).fold(ATTR_SIZE, u32::max)
}

fn attr_bytes(attr: &Attr, size: u32) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(size as usize);
    let attr = Attr { size, ..*attr };
    WireAttr { attr, tail: &[] }.encode(ORDER, &mut bytes).map_err(invalid)?;
    Ok(bytes)
}

fn header_bytes(header: &FileHeader) -> io::Result<Vec<u8>> {
    let mut bytes = ORDER.bytes64(u64::from_le_bytes(MAGIC)).to_vec();
    let mut header = *header;
    header.layout(&mut WireWriter::new(&mut bytes, ORDER)).map_err(invalid)?;
    Ok(bytes)
}

fn section_bytes(feature: Feature<'_>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    Section::from(feature).encode(ORDER, &mut bytes).map_err(invalid)?;
    Ok(bytes)
}
