//! A record where it is, and how it is taken apart.

use crate::error::{Error, Location, Problem};
use crate::events::{Event, Events};
use crate::part::Found;
use crate::tool::ToolRecord;
use perfuse_abi::record::{Decoded, Header, RawRecord, RecordFormat, RecordType};

/// A record of the recording. Borrows the reader's buffer.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct FileRecord<'a> {
    /// Where it is.
    pub location: Location,
    /// Its header and what follows that.
    pub raw: RawRecord<'a>,
    bytes: &'a [u8],
    events: &'a Events,
    payload: u64,
}

impl<'a> FileRecord<'a> {
    /// The record that `bytes` are, header included.
    #[inline(always)]
    pub(crate) fn new(found: Found, bytes: &'a [u8], events: &'a Events, payload: u64) -> Self {
        let Found { header, location } = found;
        let raw = RawRecord { header, body: bytes.get(Header::SIZE..).unwrap_or(&[]) };
        FileRecord { location, raw, bytes, events, payload }
    }

    /// All its bytes, header included.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Its type.
    #[inline]
    pub fn kind(&self) -> RecordType {
        self.raw.header.kind
    }

    /// Whether a kernel wrote it, or a tool in the kernel's stead: then [`decode`](Self::decode) takes it
    /// apart. Others are for [`tool`](Self::tool).
    #[inline]
    pub fn is_kernel(&self) -> bool {
        self.kind().is_kernel()
    }

    /// Index of the event it belongs to, among those of the recording.
    #[inline]
    pub fn event_index(&self) -> Option<usize> {
        if self.is_kernel() { self.events.event_of(&self.raw) } else { None }
    }

    /// The events of the recording that are known by now.
    #[inline]
    pub fn events(&self) -> &'a Events {
        self.events
    }

    /// The event it belongs to.
    #[inline]
    pub fn event(&self) -> Option<&'a Event> {
        self.events.get(self.event_index()?)
    }

    /// How it is laid out, if a kernel wrote it and its event is known, or all have the same layout.
    #[inline]
    pub fn format(&self) -> Option<&'a RecordFormat> {
        self.events.format_of(&self.raw)
    }

    /// Its time on the clock of the recording, if it has one. Records that tools synthesize for what was
    /// there before have none, or zero.
    #[inline]
    pub fn time(&self) -> Option<u64> {
        if self.is_kernel() { self.format()?.time_of(&self.raw) } else { None }
    }

    /// Takes a record of the kernel apart. Of one whose event is not known this fails only where the
    /// events' records differ.
    #[inline]
    pub fn decode(&self) -> Result<Decoded<'a>, Error> {
        let format = self.known_format()?;
        self.raw.decode(format).map_err(|short| self.error(short))
    }

    /// The same as [`decode`](Self::decode), in place: what is as large as a sample costs as much to move as
    /// to decode.
    #[inline]
    pub fn fill(&self, decoded: &mut Decoded<'a>) -> Result<(), Error> {
        let format = self.known_format()?;
        decoded.fill(&self.raw, format).map_err(|short| self.error(short))
    }

    #[inline]
    fn known_format(&self) -> Result<&'a RecordFormat, Error> {
        self.format().ok_or_else(|| self.no_event())
    }

    /// Takes a tool's record apart.
    pub fn tool(&self) -> Result<ToolRecord<'a>, Error> {
        ToolRecord::decode(&self.raw, self.events.order()).map_err(|short| self.error(short))
    }

    /// Bytes that follow the record and belong to it:
    /// [`PerfData::payload`](crate::PerfData::payload) reads them. Their place in the file is that of the
    /// record plus its size.
    pub fn payload_len(&self) -> u64 {
        self.payload
    }

    #[cold]
    fn error(&self, problem: impl Into<Problem>) -> Error {
        let name = self.kind().header_name().or(crate::tool::kind::name(self.kind())).unwrap_or("record");
        Error::new(self.location, name, problem)
    }

    #[cold]
    fn no_event(&self) -> Error {
        let id = self.events.iter().find_map(|event| event.format.id_of(&self.raw));
        self.error(Problem::NoEvent { id })
    }
}
