//! The records of one file, one after the other: uncompressed ones from its buffer, compressed ones from
//! what they unpack to.

use crate::error::{Error, Location, Problem};
use crate::input::{Buffer, Stream};
use crate::options::ReadOptions;
use crate::tool::kind;
use crate::unpack::Unpacker;
use perfuse_abi::ByteOrder;
use perfuse_abi::record::{Header, RecordType};
use perfuse_abi::wire::{Layout, Reader};
use std::io::{self, Read};
use std::sync::Arc;

/// A COMPRESSED2 record whose `header.size` overflowed is longer than 64 KiB by a little; nothing may claim
/// to be much longer.
const MOST_COMPRESSED: u64 = 128 << 10;

/// Where the bytes of the current record are, and how many they are.
#[derive(Clone, Copy, Debug)]
enum Held {
    Stream(usize),
    Unpacked(usize),
}

/// A record that was found. Its bytes are those of [`Part::bytes`] until the next is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) header: Header,
    pub(crate) location: Location,
}

/// A file's records.
pub(crate) struct Part<'i> {
    pub(crate) stream: Stream<'i>,
    order: ByteOrder,
    options: ReadOptions,
    held: Held,
    unpacker: Option<Box<Unpacker>>,
    /// The compressed record that is being unpacked.
    compressed: Location,
    /// Bytes taken from what is unpacked.
    unpacked: u64,
    /// Bytes that follow the current record and belong to it.
    payload: u64,
    /// Bytes of tracing data that follow the current record.
    tracing_len: u64,
    /// Tracing data that was read, and where it was.
    tracing: Option<(Location, Vec<u8>)>,
    is_done: bool,
    /// The next record is not simply the next one in the buffer.
    is_special: bool,
}

impl<'i> Part<'i> {
    pub(crate) fn new(stream: Stream<'i>, order: ByteOrder, options: ReadOptions) -> Self {
        Part {
            stream,
            order,
            options,
            held: Held::Stream(0),
            unpacker: None,
            compressed: Location::default(),
            unpacked: 0,
            payload: 0,
            tracing_len: 0,
            tracing: None,
            is_done: false,
            is_special: false,
        }
    }

    /// The next record, if it is an uncompressed one of the kernel and the buffer has it: the common case.
    #[inline]
    pub(crate) fn next_in_buffer(&mut self) -> Option<Found> {
        let Held::Stream(len) = self.held else { return None };
        if self.is_special {
            return None;
        }
        let header = self.kernel_header(self.stream.bytes(), len)?;
        self.stream.consume(len);
        self.held = Held::Stream(header.size.into());
        Some(Found { header, location: self.stream.location() })
    }

    /// The next record, if it is one of the kernel and has been unpacked.
    #[inline]
    pub(crate) fn next_in_unpacked(&mut self) -> Option<Found> {
        let Held::Unpacked(len) = self.held else { return None };
        let header = self.kernel_header(self.unpacker.as_deref()?.output().bytes(), len)?;
        self.unpacker.as_deref_mut()?.output_mut().consume(len);
        self.unpacked += len as u64;
        self.held = Held::Unpacked(header.size.into());
        Some(Found { header, location: Location { unpacked: Some(self.unpacked), ..self.compressed } })
    }

    /// The header at a place in a buffer, if it is that of a whole record of the kernel.
    #[inline]
    fn kernel_header(&self, bytes: &[u8], at: usize) -> Option<Header> {
        let rest = bytes.get(at..)?;
        let mut header = Header::default();
        header.layout(&mut Reader::new(rest, self.order)).ok()?;
        let size = usize::from(header.size);
        (header.kind.is_kernel() && size >= Header::SIZE && size <= rest.len()).then_some(header)
    }

    /// The bytes of what [`next_in_buffer`](Self::next_in_buffer) found.
    #[inline]
    pub(crate) fn bytes_in_buffer(&self, found: Found) -> &[u8] {
        &self.stream.bytes()[..usize::from(found.header.size)]
    }

    /// The next record; `None` at the end. After an error there is none.
    pub(crate) fn next(&mut self) -> Result<Option<Found>, Error> {
        if self.is_done {
            return Ok(None);
        }
        if let Some(found) = self.next_in_buffer().or_else(|| self.next_in_unpacked()) {
            return Ok(Some(found));
        }
        let result = self.find();
        self.is_done = !matches!(result, Ok(Some(_)));
        let has_more = self.payload | self.tracing_len > 0 || self.tracing.is_some();
        self.is_special = self.is_done || has_more || self.unpacker.is_some();
        result
    }

    fn find(&mut self) -> Result<Option<Found>, Error> {
        if let Held::Stream(len) = self.held {
            self.stream.consume(len);
        }
        if self.unpacker.is_some() {
            if let Some(found) = self.find_unpacked()? {
                return Ok(Some(found));
            }
        }
        self.held = Held::Stream(0);
        loop {
            if self.payload | self.tracing_len > 0 {
                self.finish_record()?;
            }
            let available = self.stream.fill(Header::SIZE)?;
            if available < Header::SIZE {
                return self.end(available);
            }
            let mut header = Header::default();
            let _whole = header.layout(&mut Reader::new(self.stream.bytes(), self.order));
            if header.kind == kind::COMPRESSED || header.kind == kind::COMPRESSED2 {
                if let Some(found) = self.compressed(header)? {
                    return Ok(Some(found));
                }
                continue;
            }
            let size = size_of_record(header);
            self.check(header, size)?;
            self.held = Held::Stream(size);
            if !header.kind.is_kernel() {
                self.note_payload(header.kind);
            }
            return Ok(Some(Found { header, location: self.stream.location() }));
        }
    }

    /// The error of the record that begins here.
    #[cold]
    fn error(&self, problem: Problem) -> Error {
        Error::new(self.stream.location(), "record", problem)
    }

    /// Sees that the whole record is at hand.
    #[inline]
    fn check(&mut self, header: Header, size: usize) -> Result<(), Error> {
        check_size(header, size, self.options).map_err(|problem| self.error(problem))?;
        let available = self.stream.fill(size)?;
        if available < size {
            let problem = Problem::Truncated { needed: size as u64, available: available as u64 };
            return Err(Error::new(self.stream.location(), "record", problem));
        }
        Ok(())
    }

    /// The end of the file, where a record should start.
    #[cold]
    fn end(&mut self, available: usize) -> Result<Option<Found>, Error> {
        let location = self.stream.location();
        if let Some(unpacker) = &self.unpacker {
            let rest = unpacker.output().len();
            if rest > 0 || unpacker.is_open() {
                let problem = Problem::Truncated { needed: rest as u64 + 1, available: rest as u64 };
                let location = Location { unpacked: Some(self.unpacked), ..self.compressed };
                return Err(Error::new(location, "compressed record", problem));
            }
        }
        if available > 0 {
            let problem = Problem::Truncated { needed: Header::SIZE as u64, available: available as u64 };
            return Err(Error::new(location, "record header", problem));
        }
        match self.stream.left() {
            None | Some(0) => Ok(None),
            Some(needed) => {
                Err(Error::new(location, "rest of the data", Problem::Truncated { needed, available: 0 }))
            }
        }
    }

    /// The next record of what is unpacked, unpacking more as needed and possible.
    fn find_unpacked(&mut self) -> Result<Option<Found>, Error> {
        let Some(unpacker) = self.unpacker.as_deref_mut() else { return Ok(None) };
        if let Held::Unpacked(len) = self.held {
            unpacker.output_mut().consume(len);
            self.unpacked += len as u64;
            self.held = Held::Unpacked(0);
        }
        let location = Location { unpacked: Some(self.unpacked), ..self.compressed };
        loop {
            let output = unpacker.output().bytes();
            if output.len() >= Header::SIZE {
                let mut header = Header::default();
                let _whole = header.layout(&mut Reader::new(output, self.order));
                let size = size_of_record(header);
                let wrong = |problem| Error::new(location, "record", problem);
                check_size(header, size, self.options).map_err(wrong)?;
                if size <= output.len() {
                    self.held = Held::Unpacked(size);
                    return Ok(Some(Found { header, location }));
                }
            }
            match unpacker.step() {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error) => return Err(Error::new(location, "compressed record", error)),
            }
        }
    }

    /// Hands a compressed record to be unpacked, or delivers it if that is not wanted.
    fn compressed(&mut self, header: Header) -> Result<Option<Found>, Error> {
        let location = self.stream.location();
        let (start, end, size) = if header.kind == kind::COMPRESSED {
            let size = usize::from(header.size);
            (Header::SIZE, size, size)
        } else {
            self.extent(header)?
        };
        self.check(header, size)?;
        if !self.options.unpack {
            self.held = Held::Stream(size);
            return Ok(Some(Found { header, location }));
        }
        self.compressed = location;
        let unpacker = match &mut self.unpacker {
            Some(unpacker) => unpacker,
            none => {
                let new = Unpacker::new();
                let new = new.map_err(|problem| Error::new(location, "compressed record", problem))?;
                none.insert(Box::new(new))
            }
        };
        unpacker.feed(&self.stream.bytes()[start..end]);
        self.stream.consume(size);
        self.find_unpacked()
    }

    /// Start and end of the compressed bytes in a COMPRESSED2 record, and the size of the record. A size
    /// that does not fit into `header.size` is written without its high bits, and then without padding.
    fn extent(&mut self, header: Header) -> Result<(usize, usize, usize), Error> {
        const START: usize = Header::SIZE + 8;
        self.check(header, START)?;
        let location = self.stream.location();
        let data_size =
            self.stream.bytes()[Header::SIZE..].first_chunk().map_or(0, |word| self.order.u64(*word));
        let end = data_size.saturating_add(START as u64);
        let padded = end.checked_next_multiple_of(8).unwrap_or(u64::MAX);
        let told = u64::from(header.size);
        if padded <= told {
            Ok((START, end as usize, told as usize))
        } else if padded & 0xffff == told && end <= MOST_COMPRESSED {
            Ok((START, end as usize, end as usize))
        } else {
            let expected = "the size that header.size leaves room for";
            let problem = Problem::Field { name: "data_size", value: data_size, expected };
            Err(Error::new(location, "COMPRESSED2 record", problem))
        }
    }

    /// Takes note of what follows a tool's record.
    fn note_payload(&mut self, kind: RecordType) {
        let body = self.bytes().get(Header::SIZE..).unwrap_or(&[]);
        if kind == kind::AUXTRACE {
            self.payload = body.first_chunk().map_or(0, |size| self.order.u64(*size));
        } else if kind == kind::HEADER_TRACING_DATA {
            let Some((size, inside)) = body.split_first_chunk() else { return };
            let size = self.order.u32(*size);
            match inside.get(..size as usize) {
                // perf puts nothing but padding into the record; simpleperf the data itself.
                Some(inside) if inside.len() > 4 => {
                    self.tracing = Some((self.stream.location(), inside.to_vec()));
                }
                _ => self.tracing_len = size.into(),
            }
        }
    }

    /// Reads what follows the last record and is to be kept, and passes over the rest.
    #[cold]
    fn finish_record(&mut self) -> Result<(), Error> {
        let location = self.stream.location();
        let (payload, tracing) = (std::mem::take(&mut self.payload), std::mem::take(&mut self.tracing_len));
        let needed = payload + tracing;
        let mut bytes = Vec::new();
        if tracing <= self.options.max_section {
            while (bytes.len() as u64) < tracing && self.stream.fill(1)? > 0 {
                let there = self.stream.bytes();
                let count = there.len().min(tracing as usize - bytes.len());
                bytes.extend_from_slice(&there[..count]);
                self.stream.consume(count);
            }
        }
        let read = bytes.len() as u64;
        let available = read + self.stream.skip(needed - read)?;
        if available < needed {
            let problem = Problem::Truncated { needed, available };
            return Err(Error::new(location, "data after a record", problem));
        }
        if read > 0 {
            self.tracing = Some((location, bytes));
        }
        Ok(())
    }

    /// Tracing data that follows the record that was found last, which is gone then.
    pub(crate) fn read_tracing_data(&mut self) -> Result<Option<&[u8]>, Error> {
        let size = self.tracing_len;
        if size == 0 {
            return Ok(None);
        }
        if size > self.options.max_section {
            let problem = Problem::TooLarge { size, limit: self.options.max_section };
            return Err(Error::new(self.stream.location(), "formats of tracepoints", problem));
        }
        if let Held::Stream(len) = self.held {
            self.stream.consume(len);
            self.held = Held::Stream(0);
        }
        self.finish_record()?;
        Ok(self.tracing.as_ref().map(|(_, bytes)| bytes.as_slice()))
    }

    /// Tracing data that was passed since it was last asked for.
    #[inline]
    pub(crate) fn take_tracing_data(&mut self) -> Option<(Location, Vec<u8>)> {
        self.tracing.take()
    }

    /// The bytes of the record that was found last, header included.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        let (Held::Stream(len) | Held::Unpacked(len)) = self.held;
        self.buffer().bytes().get(..len).unwrap_or(&[])
    }

    /// A number for the bytes around the record that was found last, and where it starts in them.
    #[inline]
    pub(crate) fn place(&self) -> (u64, usize) {
        let (generation, start) = self.buffer().place();
        (generation * 2 + u64::from(matches!(self.held, Held::Unpacked(_))), start)
    }

    /// Its source is a file, so that places in it can be read again.
    pub(crate) fn is_file(&self) -> bool {
        self.stream.is_file()
    }

    /// Up to `size` bytes from a place in the file; reading goes on where it was.
    pub(crate) fn read_again(&mut self, offset: u64, size: usize) -> Result<Vec<u8>, Error> {
        self.stream.bytes_at("record", offset, size as u64)
    }

    /// The bytes around the record that was found last, to be kept.
    pub(crate) fn share(&self) -> Arc<[u8]> {
        self.buffer().share()
    }

    #[inline]
    fn buffer(&self) -> &Buffer {
        match (self.held, &self.unpacker) {
            (Held::Unpacked(_), Some(unpacker)) => unpacker.output(),
            _ => &self.stream.buffer,
        }
    }

    /// Takes a buffer back that is no longer needed.
    pub(crate) fn recycle(&mut self, bytes: Arc<[u8]>) {
        match self.unpacker.as_deref_mut() {
            Some(unpacker) => unpacker.output_mut().recycle(bytes),
            None => self.stream.buffer.recycle(bytes),
        }
    }

    /// Bytes that follow the current record, not counting those that were read.
    pub(crate) fn payload_left(&self) -> u64 {
        self.payload
    }

    /// Reads from what follows the current record. The record itself is gone then.
    pub(crate) fn read_payload(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Held::Stream(len) = self.held {
            self.stream.consume(len);
            self.held = Held::Stream(0);
        }
        let most = buffer.len().min(usize::try_from(self.payload).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        self.stream.fill(1).map_err(io::Error::other)?;
        let mut bytes = self.stream.bytes();
        let count = bytes.read(&mut buffer[..most])?;
        self.stream.consume(count);
        self.payload -= count as u64;
        Ok(count)
    }
}

/// The size of a record. Those of simpleperf have the high half of theirs in place of flags.
#[inline]
fn size_of_record(header: Header) -> usize {
    let high = if header.kind.0 >= kind::SIMPLEPERF_START.0 { header.misc.bits() } else { 0 };
    usize::from(high) << 16 | usize::from(header.size)
}

/// A record, compressed or not, has its header, and is no larger than what is kept in memory of a section.
#[inline]
fn check_size(header: Header, size: usize, options: ReadOptions) -> Result<(), Problem> {
    if size < Header::SIZE {
        let expected = "8, its own size, or more";
        return Err(Problem::Field { name: "header.size", value: header.size.into(), expected });
    }
    let limit = options.max_section.max(u16::MAX.into());
    match size as u64 > limit {
        true => Err(Problem::TooLarge { size: size as u64, limit }),
        false => Ok(()),
    }
}
