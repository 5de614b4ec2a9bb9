//! A recording that was opened: its events, its sections, its records in the order of the file.

use crate::error::{Error, Location, Problem};
use crate::events::{Event, Events};
use crate::feature::{Feature, FeatureId, Section};
use crate::header::{FileHeader, FileSection, order_of};
use crate::input::{Piped, Seekable, Stream};
use crate::options::ReadOptions;
use crate::part::{Found, Part};
use crate::record::FileRecord;
use crate::tool::{Tool, ToolRecord, kind};
use perfuse_abi::record::{Header, RawRecord};
use perfuse_abi::wire::{Layout, Reader, Seq, Words};
use perfuse_abi::{Attr, ByteOrder};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

/// Which of its forms a recording has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// A file with a header that tells where things are.
    File(FileHeader),
    /// The form for pipes: records only.
    Pipe,
}

/// Where a feature section is.
#[derive(Clone, Debug)]
enum Place {
    File(FileSection),
    Memory(Vec<u8>),
}

/// A recording.
///
/// Its records come one after the other from [`next`](Self::next), each borrowing the buffer it was read
/// into. [`Ordered`](crate::Ordered) delivers them by time instead.
pub struct PerfData<'i> {
    form: Form,
    options: ReadOptions,
    events: Events,
    features: BTreeMap<FeatureId, Place>,
    cpus: Option<u32>,
    parts: Vec<Part<'i>>,
    current: usize,
    problems: Vec<Error>,
    /// The record that [`next_of`](Self::next_of) found last.
    found: Option<Found>,
    /// Bytes of feature sections that came as records.
    streamed: u64,
    /// How many events EVENT_DESC names; in a pipe it may come before they do.
    named_events: usize,
}

/// A folder has at most so many files, each of which takes a buffer.
const MOST_PARTS: u32 = 2048;

/// Opens a file of a folder, which somebody else may have made: a FIFO would wait for its other end.
fn open_part(path: &Path) -> io::Result<File> {
    match path.metadata()?.is_file() {
        true => File::open(path),
        false => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} is no regular file", path.display())))
        }
    }
}

/// Problems with what is beside the records are kept up to this number.
const PROBLEMS: usize = 64;

impl PerfData<'static> {
    /// Opens a file, a pipe, or a directory of `perf record --threads`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(path, ReadOptions::default())
    }

    /// The same with other options.
    pub fn open_with(path: impl AsRef<Path>, options: ReadOptions) -> Result<Self, Error> {
        let path = path.as_ref();
        let failed = |part| move |error: io::Error| Error::new(Location::at(part, 0), "file", error);
        if !path.is_dir() {
            let file = File::open(path).map_err(failed(0))?;
            let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
            return if is_file {
                Self::from_seekable(file, options)
            } else {
                Self::from_reader(file, options)
            };
        }
        let file = open_part(&path.join("data")).map_err(failed(0))?;
        let mut data = Self::from_seekable(file, options)?;
        for number in 0..=MOST_PARTS {
            match open_part(&path.join(format!("data.{number}"))) {
                Ok(_) if number == MOST_PARTS => {
                    let expected = "files of no more processors than there are";
                    let problem = Problem::Field { name: "number of files", value: number.into(), expected };
                    return Err(Error::new(Location::at(number, 0), "folder", problem));
                }
                Ok(file) => data.add_part(number, Stream::new(Seekable(file), number + 1)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(failed(number + 1)(error)),
            }
        }
        Ok(data)
    }

    fn add_part(&mut self, number: u32, stream: Stream<'static>) {
        debug_assert_eq!(number as usize + 1, self.parts.len());
        self.parts.push(Part::new(stream, self.events.order(), self.options));
    }
}

impl<'i> PerfData<'i> {
    /// Reads what was written to a pipe, from a pipe or from anything else that can only be read.
    pub fn from_reader(input: impl Read + Send + 'i, options: ReadOptions) -> Result<Self, Error> {
        Self::new(Stream::new(Piped(input), 0), options)
    }

    /// Reads either form from something in which one can seek, from its start on, wherever it stands.
    pub fn from_seekable(input: impl Read + Seek + Send + 'i, options: ReadOptions) -> Result<Self, Error> {
        let mut stream = Stream::new(Seekable(input), 0);
        stream.go(0)?;
        Self::new(stream, options)
    }

    fn new(mut stream: Stream<'i>, options: ReadOptions) -> Result<Self, Error> {
        const START: usize = FileHeader::PIPE_SIZE as usize;
        let available = stream.fill(START)? as u64;
        let Some(start) = stream.bytes().first_chunk::<START>() else {
            let problem = Problem::Truncated { needed: START as u64, available };
            return Err(Error::new(stream.location(), "file header", problem));
        };
        let Some(order) = order_of(start) else {
            let magic = *start.first_chunk().unwrap_or(&[0; 8]);
            return Err(Error::new(stream.location(), "file header", Problem::Magic(magic)));
        };
        let mut size = 0;
        let _whole = perfuse_abi::wire::Codec::u64(&mut Reader::new(&start[8..], order), "size", &mut size);
        stream.consume(START);
        let mut data = PerfData {
            form: Form::Pipe,
            options,
            events: Events::new(order),
            features: BTreeMap::new(),
            cpus: None,
            parts: Vec::new(),
            current: 0,
            problems: Vec::new(),
            found: None,
            streamed: 0,
            named_events: 0,
        };
        match size {
            FileHeader::PIPE_SIZE => {}
            FileHeader::SIZE | FileHeader::SIZE_WITHOUT_FEATURES => data.read_header(&mut stream, size)?,
            value => {
                let expected = "16 (a pipe), 72 or 104 (a file)";
                let problem = Problem::Field { name: "size", value, expected };
                return Err(Error::new(Location::at(0, 8), "file header", problem));
            }
        }
        data.parts.push(Part::new(stream, order, options));
        data.describe();
        let form = if matches!(data.form, Form::File(_)) { "file" } else { "pipe" };
        let events = data.events.iter().count();
        log::debug!(
            "a recording, {form}, {order:?} endian: {events} events, {} sections",
            data.features.len()
        );
        Ok(data)
    }

    /// Reads the header of a file, its attrs and the table of its features, and goes to its data.
    fn read_header(&mut self, stream: &mut Stream<'i>, size: u64) -> Result<(), Error> {
        let order = self.order();
        let bytes = stream.section("file header", 8, size - 8, size)?;
        let mut header = FileHeader::default();
        header
            .layout(&mut Reader::at(&bytes, order, 8))
            .map_err(|short| Error::new(Location::at(0, 0), "file header", short))?;
        self.form = Form::File(header);
        self.read_attrs(stream, &header)?;
        let data_end = header.data.offset.checked_add(header.data.size).ok_or_else(|| {
            let expected = "a size that ends within 64 bits";
            let problem = Problem::Field { name: "data.size", value: header.data.size, expected };
            Error::new(Location::at(0, 48), "file header", problem)
        })?;
        // The header is completed when the recording ends: without a size it was interrupted, and goes on
        // to the end of the file.
        let interrupted = header.data.size == 0;
        if !interrupted {
            if let Err(error) = self.read_feature_table(stream, &header, data_end) {
                self.note(error);
            }
        }
        let limit = if interrupted { stream.file_len()?.unwrap_or(u64::MAX) } else { data_end };
        stream.range(header.data.offset, limit)
    }

    fn read_attrs(&mut self, stream: &mut Stream<'i>, header: &FileHeader) -> Result<(), Error> {
        let order = self.order();
        let ids_len = <FileSection as perfuse_abi::wire::Item>::SIZE;
        let (least, most) = (Attr::SIZE_VER0 as u64 + ids_len as u64, Attr::SIZE_MAX as u64 + ids_len as u64);
        if header.attr_size < least || header.attr_size > most {
            let expected = "that of an attr and its ids: 80 to 4112";
            let problem = Problem::Field { name: "attr_size", value: header.attr_size, expected };
            return Err(Error::new(Location::at(0, 16), "file header", problem));
        }
        let FileSection { offset, size } = header.attrs;
        let attrs = stream.section("attrs", offset, size, self.options.max_section)?;
        let mut room = self.options.max_section;
        for (index, entry) in attrs.chunks_exact(header.attr_size as usize).enumerate() {
            let location = Location::at(0, offset + index as u64 * header.attr_size);
            let (attr, section) = entry.split_at(entry.len() - ids_len);
            let attr = Attr::decode(attr, order).map_err(|error| Error::new(location, "attr", error))?;
            let section = Seq::<FileSection>::from_wire(section, order).get(0).unwrap_or_default();
            // Without its ids, an event that is the only one can still be told.
            let ids = stream.section("ids of an event", section.offset, section.size, room);
            let ids = ids.map_err(|error| self.note(error)).unwrap_or_default();
            room -= ids.len() as u64;
            let ids = Words::from_wire(&ids, order).iter().collect();
            let pushed = self.events.push(Event::new(&attr, ids, order));
            pushed.map_err(|problem| Error::new(location, "attr", problem))?;
        }
        Ok(())
    }

    /// The table has an entry for each bit, after the data. Its entries may point anywhere.
    fn read_feature_table(
        &mut self,
        stream: &mut Stream<'i>,
        header: &FileHeader,
        data_end: u64,
    ) -> Result<(), Error> {
        let count = header.features.iter().count() as u64;
        let size = count * <FileSection as perfuse_abi::wire::Item>::SIZE as u64;
        let table = stream.section("table of features", data_end, size, self.options.max_section)?;
        let sections = Seq::<FileSection>::from_wire(&table, self.order());
        self.features = header.features.iter().zip(sections.iter().map(Place::File)).collect();
        Ok(())
    }

    /// Takes from the sections what belongs to the events.
    fn describe(&mut self) {
        let result = match self.feature_bytes(FeatureId::EVENT_DESC) {
            Ok(bytes) => bytes.map(<[u8]>::to_vec),
            Err(error) => return self.note(error),
        };
        let Some(bytes) = result else { return };
        match Section::decode(FeatureId::EVENT_DESC, &bytes, self.order(), 0) {
            Ok(Section { feature: Feature::EventDesc(descs), .. }) => {
                self.named_events = descs.events.len();
                self.events.describe(&descs);
            }
            Ok(_) => {}
            Err(short) => self.note(Error::new(Location::default(), "EVENT_DESC", short)),
        }
    }

    fn note(&mut self, problem: Error) {
        log::info!("goes on without a part of the recording: {problem}");
        if self.problems.len() < PROBLEMS {
            self.problems.push(problem);
        }
    }

    /// Which form the recording has.
    pub fn form(&self) -> &Form {
        &self.form
    }

    /// Byte order of the recorded machine.
    pub fn order(&self) -> ByteOrder {
        self.events.order()
    }

    /// The events. In a pipe they come as records: before the first of those there are none.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Faults beside the records, such as a table of features that was cut off. At most 64.
    pub fn problems(&self) -> &[Error] {
        &self.problems
    }

    /// The feature sections there are. In a pipe, those that came so far.
    pub fn features(&self) -> impl Iterator<Item = FeatureId> + use<'_, 'i> {
        self.features.keys().copied()
    }

    /// Reads a feature section, if there is one.
    pub fn feature(&mut self, id: FeatureId) -> Result<Option<Section<'_>>, Error> {
        let cpus = if id == FeatureId::CPU_TOPOLOGY { self.cpus()? } else { 0 };
        let location = match self.features.get(&id) {
            Some(Place::File(section)) => Location::at(0, section.offset),
            _ => Location::default(),
        };
        let order = self.order();
        let Some(bytes) = self.feature_bytes(id)? else { return Ok(None) };
        match Section::decode(id, bytes, order, cpus) {
            Ok(section) => Ok(Some(section)),
            Err(short) => Err(Error::new(location, id.name().unwrap_or("feature section"), short)),
        }
    }

    /// The bytes of a feature section, if there is one. They stay in memory from then on.
    pub fn feature_bytes(&mut self, id: FeatureId) -> Result<Option<&[u8]>, Error> {
        let Some(place) = self.features.get_mut(&id) else { return Ok(None) };
        if let (Place::File(section), Some(part)) = (&*place, self.parts.first_mut()) {
            let name = id.name().unwrap_or("feature section");
            let bytes = part.stream.section(name, section.offset, section.size, self.options.max_section)?;
            *place = Place::Memory(bytes);
        }
        match place {
            Place::Memory(bytes) => Ok(Some(bytes)),
            Place::File(_) => Ok(None),
        }
    }

    /// The number of cpus that the machine could have; 0 if it is not told.
    fn cpus(&mut self) -> Result<u32, Error> {
        if self.cpus.is_none() {
            if let Some(Section { feature: Feature::NrCpus(cpus), .. }) = self.feature(FeatureId::NRCPUS)? {
                self.cpus = Some(cpus.available);
            }
        }
        Ok(self.cpus.unwrap_or(0))
    }

    /// The next record in the order of the file; in a directory, the files one after the other. `None` at
    /// the end. After an error, nothing more comes from the same file.
    #[inline(always)]
    #[expect(clippy::should_implement_trait, reason = "each record borrows the reader")]
    pub fn next(&mut self) -> Result<Option<FileRecord<'_>>, Error> {
        if let Some(found) = self.parts.get_mut(self.current).and_then(Part::next_in_buffer) {
            let bytes = self.parts[self.current].bytes_in_buffer(found);
            return Ok(Some(FileRecord::new(found, bytes, &self.events, 0)));
        }
        self.next_slowly()
    }

    #[inline(never)]
    fn next_slowly(&mut self) -> Result<Option<FileRecord<'_>>, Error> {
        while self.current < self.parts.len() {
            match self.find(self.current)? {
                Some(found) => return Ok(Some(self.entry(self.current, found))),
                None => self.current += 1,
            }
        }
        Ok(None)
    }

    /// The files, and the events that tell how their records are laid out.
    #[inline]
    pub(crate) fn parts_mut(&mut self) -> (&mut [Part<'i>], &Events) {
        (&mut self.parts, &self.events)
    }

    /// Makes what was found in a file the [`current`](Self::current) record.
    pub(crate) fn set_current(&mut self, part: usize, found: Found) {
        (self.current, self.found) = (part, Some(found));
    }

    /// The next record of one file.
    pub(crate) fn next_of(&mut self, part: usize) -> Result<Option<FileRecord<'_>>, Error> {
        self.current = part;
        match self.find(part)? {
            Some(found) => Ok(Some(self.entry(part, found))),
            None => Ok(None),
        }
    }

    #[inline]
    fn find(&mut self, part: usize) -> Result<Option<Found>, Error> {
        let found = self.parts[part].next();
        self.found = None;
        if let Some((location, bytes)) = self.parts[part].take_tracing_data() {
            self.keep(location, FeatureId::TRACING_DATA, bytes);
        }
        found
    }

    /// The entry that was found, after the recording has learned from it.
    #[inline]
    fn entry(&mut self, part: usize, found: Found) -> FileRecord<'_> {
        if !found.header.kind.is_kernel() {
            self.absorb(part, found);
        }
        self.found = Some(found);
        self.entry_of(part, found)
    }

    #[inline]
    fn entry_of(&self, part: usize, found: Found) -> FileRecord<'_> {
        let part = &self.parts[part];
        FileRecord::new(found, part.bytes(), &self.events, part.payload_left())
    }

    /// The record that [`next_of`](Self::next_of) delivered last.
    pub(crate) fn current(&self) -> Option<FileRecord<'_>> {
        self.found.map(|found| self.entry_of(self.current, found))
    }

    /// The bytes behind the record that was delivered last: AUX data. (The formats of tracepoints, which follow
    /// a record too, are kept as [`FeatureId::TRACING_DATA`] when the next record is asked for.) It can be read once, before the next
    /// record is asked for; what is left is passed over then.
    pub fn payload(&mut self) -> Payload<'_, 'i> {
        let part = self.current.min(self.parts.len().saturating_sub(1));
        self.found = None;
        Payload { part: &mut self.parts[part] }
    }

    /// The formats of tracepoints that follow the record that was delivered last.
    pub(crate) fn tracing_data(&mut self) -> Result<Option<&[u8]>, Error> {
        let part = self.current.min(self.parts.len().saturating_sub(1));
        self.found = None;
        self.parts[part].read_tracing_data()
    }

    /// Whether the recording is a directory of files.
    pub(crate) fn is_directory(&self) -> bool {
        self.parts.len() > 1
    }

    /// Keeps a feature section that came as a record. One that should have content and is empty only marks
    /// the end of the sections.
    fn keep(&mut self, location: Location, id: FeatureId, bytes: Vec<u8>) {
        if bytes.is_empty() && ![FeatureId::BRANCH_STACK, FeatureId::STAT].contains(&id) {
            return;
        }
        let (size, limit) = (self.streamed + bytes.len() as u64, self.options.max_section);
        if size > limit {
            let problem = Problem::TooLarge { size, limit };
            return self.note(Error::new(location, "feature sections", problem));
        }
        self.streamed = size;
        self.features.insert(id, Place::Memory(bytes));
        if id == FeatureId::EVENT_DESC {
            self.describe();
        }
    }

    /// Takes from a tool's record what belongs to the whole recording.
    fn absorb(&mut self, part: usize, found: Found) {
        let wanted = [kind::HEADER_ATTR, kind::EVENT_UPDATE, kind::ID_INDEX, kind::HEADER_FEATURE];
        if !wanted.contains(&found.header.kind) {
            return;
        }
        let order = self.order();
        let bytes = self.parts[part].bytes();
        let raw = RawRecord { header: found.header, body: bytes.get(Header::SIZE..).unwrap_or(&[]) };
        let result = match ToolRecord::decode(&raw, order).map(|record| record.tool) {
            // An event that is told again is a new one, as for perf.
            Ok(Tool::HeaderAttr(header)) => header
                .attr
                .decode(order)
                .map_err(Problem::from)
                .and_then(|attr| self.events.push(Event::new(&attr, header.ids.iter().collect(), order))),
            Ok(Tool::EventUpdate(update)) => {
                self.events.update(&update);
                Ok(())
            }
            Ok(Tool::IdIndex(index)) => {
                self.events.set_owners(index.entries.iter());
                Ok(())
            }
            Ok(Tool::HeaderFeature { id, bytes }) => {
                let bytes = bytes.to_vec();
                self.keep(found.location, id, bytes);
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(short) => Err(short.into()),
        };
        if found.header.kind == kind::HEADER_ATTR && self.events.len() == self.named_events {
            self.describe();
        }
        if let Err(problem) = result {
            self.note(Error::new(found.location, kind::name(found.header.kind).unwrap_or("record"), problem));
        }
    }
}

/// The bytes behind a record: see [`PerfData::payload`].
pub struct Payload<'d, 'i> {
    part: &'d mut Part<'i>,
}

impl Payload<'_, '_> {
    /// Bytes not read yet.
    pub fn left(&self) -> u64 {
        self.part.payload_left()
    }
}

impl Read for Payload<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.part.read_payload(buffer)
    }
}
