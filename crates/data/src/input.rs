//! Bytes of a file or a pipe, through one buffer of fixed size.

use crate::error::{Error, Location, Problem};
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

/// Enough for the largest record twice, little enough to stay in the cpu's second cache.
pub(crate) const BUFFER: usize = 256 << 10;

/// Buffers that are kept to be used again.
const SPARE: usize = 64;

/// Bytes that were read, or unpacked, of which a part is still to be looked at. A caller who wants to keep
/// them [shares](Self::share) the buffer: then it is left alone, and the rest goes on in another one.
pub(crate) struct Buffer {
    bytes: Arc<[u8]>,
    start: usize,
    end: usize,
    /// How often other bytes were put into it.
    generation: u64,
    spare: Vec<Arc<[u8]>>,
}

impl Buffer {
    pub(crate) fn new() -> Self {
        Buffer { bytes: zeros(BUFFER), start: 0, end: 0, generation: 0, spare: Vec::new() }
    }

    /// The bytes at hand.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Passes over bytes at hand.
    #[inline]
    pub(crate) fn consume(&mut self, len: usize) {
        self.start += len;
    }

    /// How many bytes are at hand.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// A number that the buffer has until something else is put into it, and where in it the bytes at hand
    /// start.
    #[inline]
    pub(crate) fn place(&self) -> (u64, usize) {
        (self.generation, self.start)
    }

    /// Everything in the buffer, passed over or not, to be kept: the buffer itself, or a copy if little is in
    /// it.
    pub(crate) fn share(&self) -> Arc<[u8]> {
        if self.end < self.bytes.len() / 2 { self.bytes[..self.end].into() } else { self.bytes.clone() }
    }

    /// Makes room for bytes behind those at hand: `room` of them, or as many as the buffer has if that is
    /// more. [`extend`](Self::extend) then says how many there are.
    pub(crate) fn room(&mut self, room: usize) -> &mut [u8] {
        let rest = self.start..self.end;
        let needed = rest.len() + room;
        self.generation += 1;
        match Arc::get_mut(&mut self.bytes) {
            Some(bytes) if bytes.len() >= needed => bytes.copy_within(rest, 0),
            _ => {
                let fits = |spare: &Arc<[u8]>| spare.len() >= needed;
                let spare = self.spare.pop().filter(fits);
                let mut fresh = spare.unwrap_or_else(|| zeros(needed.next_power_of_two().max(BUFFER)));
                Arc::make_mut(&mut fresh)[..rest.len()].copy_from_slice(&self.bytes[rest]);
                self.bytes = fresh;
            }
        }
        (self.start, self.end) = (0, self.end - self.start);
        &mut Arc::make_mut(&mut self.bytes)[self.end..]
    }

    /// Counts bytes that were put into the [`room`](Self::room) among those at hand.
    pub(crate) fn extend(&mut self, len: usize) {
        self.end += len;
    }

    /// Passes over all bytes at hand.
    pub(crate) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Takes a buffer back that was shared and is no longer needed.
    pub(crate) fn recycle(&mut self, bytes: Arc<[u8]>) {
        if self.spare.len() < SPARE && bytes.len() == BUFFER {
            self.spare.push(bytes);
        }
    }
}

fn zeros(len: usize) -> Arc<[u8]> {
    vec![0; len].into()
}

/// The source of bytes.
pub(crate) trait Input: Send {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Goes to a place in the file; `false` if this is no file.
    fn seek(&mut self, to: u64) -> io::Result<bool>;

    /// Whether one can seek in it.
    fn is_file(&self) -> bool;

    /// The size of the file, if this is one.
    fn len(&mut self) -> io::Result<Option<u64>>;
}

/// Something that can only be read.
pub(crate) struct Piped<R>(pub(crate) R);

impl<R: Read + Send> Input for Piped<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }

    fn seek(&mut self, _: u64) -> io::Result<bool> {
        Ok(false)
    }

    fn is_file(&self) -> bool {
        false
    }

    fn len(&mut self) -> io::Result<Option<u64>> {
        Ok(None)
    }
}

/// Something in which one can seek.
pub(crate) struct Seekable<F>(pub(crate) F);

impl<F: Read + Seek + Send> Input for Seekable<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }

    fn seek(&mut self, to: u64) -> io::Result<bool> {
        self.0.seek(SeekFrom::Start(to)).map(|_| true)
    }

    fn is_file(&self) -> bool {
        true
    }

    fn len(&mut self) -> io::Result<Option<u64>> {
        let here = self.0.stream_position()?;
        let len = self.0.seek(SeekFrom::End(0))?;
        self.0.seek(SeekFrom::Start(here))?;
        Ok(Some(len))
    }
}

/// A range of an [`Input`], read in order.
pub(crate) struct Stream<'i> {
    input: Box<dyn Input + 'i>,
    part: u32,
    pub(crate) buffer: Buffer,
    /// Where the next byte is in the input.
    offset: u64,
    /// Where the range ends.
    limit: u64,
    /// Nothing more can be read.
    at_end: bool,
}

impl<'i> Stream<'i> {
    /// Reads `input` from where it is, which is its start.
    pub(crate) fn new(input: impl Input + 'i, part: u32) -> Self {
        Stream {
            input: Box::new(input),
            part,
            buffer: Buffer::new(),
            offset: 0,
            limit: u64::MAX,
            at_end: false,
        }
    }

    /// Where the next byte is.
    #[inline]
    pub(crate) fn location(&self) -> Location {
        Location::at(self.part, self.offset)
    }

    /// Bytes of the range not read yet, if its end is known.
    pub(crate) fn left(&self) -> Option<u64> {
        (self.limit != u64::MAX).then(|| self.limit - self.offset)
    }

    /// The bytes at hand.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.bytes()
    }

    /// Passes over bytes at hand.
    #[inline]
    pub(crate) fn consume(&mut self, len: usize) {
        self.buffer.consume(len);
        self.offset += len as u64;
    }

    /// Sees to it that at least `need` bytes are at hand, if there are as many, and tells how many are. The
    /// buffer grows for what is longer than usual, no faster than bytes are found.
    #[inline]
    pub(crate) fn fill(&mut self, need: usize) -> Result<usize, Error> {
        let available = self.buffer.len();
        if available >= need || self.at_end { Ok(available) } else { self.refill(need) }
    }

    #[cold]
    fn refill(&mut self, need: usize) -> Result<usize, Error> {
        while self.buffer.len() < need {
            let end = self.offset + self.buffer.len() as u64;
            let ahead = usize::try_from(self.limit - end).unwrap_or(usize::MAX);
            let room = self.buffer.room(1);
            let most = room.len().min(ahead);
            match self.input.read(&mut room[..most]) {
                Ok(0) => {
                    self.at_end = true;
                    break;
                }
                Ok(count) => self.buffer.extend(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::new(Location::at(self.part, end), "file", error)),
            }
        }
        Ok(self.buffer.len())
    }

    /// Passes over `len` bytes, of which there may be fewer; then nothing is left and the answer is how
    /// many there were.
    pub(crate) fn skip(&mut self, len: u64) -> Result<u64, Error> {
        let at_hand = len.min(self.buffer.len() as u64);
        self.consume(at_hand as usize);
        let mut left = len - at_hand;
        if left > BUFFER as u64 {
            let file_len = self.input.len().map_err(|error| Error::new(self.location(), "file", error))?;
            if let Some(file_len) = file_len {
                let there = left.min(file_len.min(self.limit).saturating_sub(self.offset));
                self.go(self.offset + there)?;
                self.at_end = there < left;
                return Ok(at_hand + there);
            }
        }
        while left > 0 {
            let available = self.fill(1)? as u64;
            if available == 0 {
                break;
            }
            self.consume(available.min(left) as usize);
            left -= available.min(left);
        }
        Ok(len - left)
    }

    /// Continues at `offset`, up to `limit`. Fails if this is no file.
    pub(crate) fn range(&mut self, offset: u64, limit: u64) -> Result<(), Error> {
        self.go(offset)?;
        self.limit = limit.max(offset);
        self.at_end = false;
        Ok(())
    }

    pub(crate) fn go(&mut self, offset: u64) -> Result<(), Error> {
        match self.input.seek(offset) {
            Ok(true) => {
                self.buffer.clear();
                self.offset = offset;
                Ok(())
            }
            Ok(false) => Err(Error::new(self.location(), "file", Problem::NotSeekable)),
            Err(error) => Err(Error::new(Location::at(self.part, offset), "file", error)),
        }
    }

    /// Bytes from anywhere in the file; the stream stays where it is. Memory grows with what is really
    /// there.
    pub(crate) fn section(
        &mut self,
        structure: &'static str,
        offset: u64,
        size: u64,
        limit: u64,
    ) -> Result<Vec<u8>, Error> {
        let location = Location::at(self.part, offset);
        if size > limit {
            return Err(Error::new(location, structure, Problem::TooLarge { size, limit }));
        }
        let bytes = self.bytes_at(structure, offset, size)?;
        let available = bytes.len() as u64;
        if available < size {
            return Err(Error::new(location, structure, Problem::Truncated { needed: size, available }));
        }
        Ok(bytes)
    }

    /// The same of fewer bytes where the file ends before.
    pub(crate) fn bytes_at(
        &mut self,
        structure: &'static str,
        offset: u64,
        size: u64,
    ) -> Result<Vec<u8>, Error> {
        let location = Location::at(self.part, offset);
        let error = |error: io::Error| Error::new(location, structure, error);
        let back = self.offset + self.buffer.len() as u64;
        if !self.input.seek(offset).map_err(error)? {
            return Err(Error::new(location, structure, Problem::NotSeekable));
        }
        let mut bytes = Vec::new();
        let result = Reading(&mut *self.input).take(size).read_to_end(&mut bytes);
        self.input.seek(back).map_err(error)?;
        result.map_err(error)?;
        Ok(bytes)
    }

    /// Whether one can seek in the input.
    pub(crate) fn is_file(&self) -> bool {
        self.input.is_file()
    }

    /// The size of the file, if this is one.
    pub(crate) fn file_len(&mut self) -> Result<Option<u64>, Error> {
        self.input.len().map_err(|error| Error::new(Location::at(self.part, 0), "file", error))
    }
}

struct Reading<'s, 'i>(&'s mut (dyn Input + 'i));

impl Read for Reading<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}
