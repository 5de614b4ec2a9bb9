//! jitdump files: what a just-in-time compiler writes besides running, a record for each function with
//! its code, its place, its name and the time. [`JitDump`] reads the records of either byte order one by
//! one; [`JitDump::code_map`] makes of them what addresses are looked up in.

use super::{CodeMap, CodeMapBuilder};
use crate::error::{Error, Problem};
use crate::image::Image;
use perfuse_files::Owners;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// "JiTD" as a number, in the order of the machine that wrote it.
const MAGIC: u32 = 0x4a69_5444;
const HEADER: u64 = 40;
const PREFIX: u64 = 16;
/// A record without its code is read whole, if it is not larger.
const MAX_RECORD: u64 = 16 << 20;

/// A jitdump file, open.
#[derive(Debug)]
pub struct JitDump {
    image: Image,
    big_endian: bool,
    header: JitHeader,
    at: u64,
}

/// The header of a jitdump file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JitHeader {
    /// Of the format; 1 so far.
    pub version: u32,
    /// The size of the header in bytes.
    pub size: u32,
    /// The machine of the code, a number of the `EM_*` family.
    pub machine: u32,
    /// The process, in its own pid namespace.
    pub pid: u32,
    /// When the file was begun.
    pub time: u64,
    /// Bit 0: times are of the processor's clock, not of the one that perf records.
    pub flags: u64,
}

impl JitHeader {
    /// Times in the file are of the processor's own clock (the TSC) and cannot be compared with times of
    /// a recording without converting them.
    pub fn has_processor_time(&self) -> bool {
        self.flags & 1 != 0
    }
}

/// A record of a jitdump file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JitRecord {
    /// Where in the file it begins.
    pub offset: u64,
    /// When it was written.
    pub time: u64,
    /// Its contents.
    pub event: JitEvent,
}

/// The contents of a record of a jitdump file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JitEvent {
    /// A function was compiled.
    Load {
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// Where the function runs.
        address: u64,
        /// How large its code is, in bytes.
        size: u64,
        /// A number that tells it from all other functions of the file.
        index: u64,
        /// Its name.
        name: Vec<u8>,
        /// Where in the file its code is, `size` bytes, if the compiler put it there.
        code: Option<u64>,
    },
    /// A function was moved.
    Move {
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// Where it was.
        from: u64,
        /// Where it is now.
        to: u64,
        /// How large its code is, in bytes.
        size: u64,
        /// The number that its [`Load`](Self::Load) gave it.
        index: u64,
    },
    /// Source lines of the function that is loaded next.
    Lines {
        /// The function's address.
        address: u64,
        /// By address.
        lines: Vec<JitLine>,
    },
    /// The program ended properly.
    Close,
    /// How to unwind the stack of the function that is loaded next.
    Unwinding {
        /// How many bytes of it are mapped.
        mapped: u64,
        /// The size of the `.eh_frame_hdr` part, in bytes, which comes last.
        header: u64,
        /// Where in the file the data is.
        data: u64,
        /// How large it is.
        size: u64,
    },
    /// A record of a later version of the format.
    Unknown(u32),
}

/// A source line of a compiled function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JitLine {
    /// Where its code begins.
    pub address: u64,
    /// The line, counted from 1.
    pub line: u32,
    /// Tells blocks on one line apart.
    pub discriminator: u32,
    /// The source file.
    pub file: Arc<[u8]>,
}

impl JitDump {
    /// Opens a file and reads its header.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::new(Image::open(path)?)
    }

    /// The same, if the file belongs to root, to the user who reads it, or to one of `owners`.
    pub fn open_of(path: &Path, owners: Owners) -> Result<Self, Error> {
        Self::new(Image::open_of(path, owners)?)
    }

    /// The same of a copy of a file; `name` stands in for the path in errors.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, Error> {
        Self::new(Image::from_bytes(name, bytes))
    }

    fn new(image: Image) -> Result<Self, Error> {
        let structure = "jitdump header";
        let bytes = image.read(0, HEADER, HEADER, structure)?;
        let big_endian = match bytes.first_chunk() {
            Some(magic) if u32::from_le_bytes(*magic) == MAGIC => false,
            Some(magic) if u32::from_be_bytes(*magic) == MAGIC => true,
            _ => return Err(image.error(0, structure, Problem::Malformed("not a jitdump file"))),
        };
        let mut fields = Fields { bytes: &bytes[4..], big_endian };
        let mut header = || {
            let (version, size, machine) = (fields.u32()?, fields.u32()?, fields.u32()?);
            let (_, pid) = (fields.u32()?, fields.u32()?);
            Some(JitHeader { version, size, machine, pid, time: fields.u64()?, flags: fields.u64()? })
        };
        let header = header().filter(|header| u64::from(header.size) >= HEADER);
        let header = header.ok_or_else(|| image.error(8, structure, Problem::Malformed("too small")))?;
        Ok(JitDump { at: header.size.into(), image, big_endian, header })
    }

    /// The file's header.
    pub fn header(&self) -> &JitHeader {
        &self.header
    }

    /// Whether its numbers are in big-endian order.
    pub(crate) fn is_big_endian(&self) -> bool {
        self.big_endian
    }

    /// The code that an event of this file says is at a place in it.
    pub fn code(&self, code: u64, size: u64) -> Result<Vec<u8>, Error> {
        self.image.read(code, size, 256 << 20, "compiled code")
    }

    /// The next record; `None` at the end, be it that the program goes on writing. After an error there
    /// are no more.
    pub fn next_record(&mut self) -> Result<Option<JitRecord>, Error> {
        let record = self.read_record();
        if record.is_err() {
            self.at = self.image.len;
        }
        record
    }

    fn read_record(&mut self) -> Result<Option<JitRecord>, Error> {
        if self.at >= self.image.len {
            return Ok(None);
        }
        let (offset, structure) = (self.at, "jitdump record");
        let mut prefix = [0; PREFIX as usize];
        self.image.read_into(offset, &mut prefix, structure)?;
        let mut fields = Fields { bytes: &prefix, big_endian: self.big_endian };
        let (Some(kind), Some(size), Some(time)) = (fields.u32(), fields.u32(), fields.u64()) else {
            return Ok(None); // the prefix has these three
        };
        let size = u64::from(size);
        let malformed = |what| self.image.error(offset, structure, Problem::Malformed(what));
        if size < PREFIX {
            return Err(malformed("smaller than its own header"));
        }
        self.image.check(offset, size, structure)?;
        // Of what holds code or unwinding data only the beginning is wanted.
        let known = match kind {
            LOAD => (size - PREFIX).min(40 + (64 << 10)),
            UNWINDING => (size - PREFIX).min(24),
            MOVE | LINES => size - PREFIX,
            _ => 0,
        };
        let body = self.image.read(offset + PREFIX, known, MAX_RECORD, structure)?;
        let mut fields = Fields { bytes: &body, big_endian: self.big_endian };
        let event =
            fields.event(kind, offset, size).ok_or_else(|| malformed("it says more than fits into it"))?;
        self.at += size;
        Ok(Some(JitRecord { offset, time, event }))
    }

    /// All functions of the file with their places and times, and what ended it before its end, if it is
    /// damaged: everything before that is there.
    pub fn code_map(mut self) -> (CodeMap, Option<Error>) {
        let mut builder = CodeMapBuilder::default();
        // The name's place of each function, for when it moves.
        let mut names: HashMap<u64, u32> = HashMap::new();
        let mut damage = None;
        loop {
            let record = match self.next_record() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(error) => {
                    damage = Some(error);
                    break;
                }
            };
            let pushed = match record.event {
                JitEvent::Load { address, size, index, name, .. } => {
                    let place = builder.strings.len() as u32;
                    names.insert(index, place);
                    builder.push(address, size, record.time, &name)
                }
                JitEvent::Move { from, to, size, index, .. } => {
                    match names.get(&index) {
                        Some(&name) => builder.push_move(from, size, to, record.time, name),
                        None => Ok(()), // of a function that this file does not have
                    }
                }
                _ => Ok(()),
            };
            if pushed.is_err() {
                let problem = Problem::TooLarge { size: self.image.len, limit: super::MAX_CODE as u64 };
                damage = Some(self.image.error(record.offset, "jitdump record", problem));
                break;
            }
        }
        (builder.finish(), damage)
    }
}

const LOAD: u32 = 0;
const MOVE: u32 = 1;
const LINES: u32 = 2;
const CLOSE: u32 = 3;
const UNWINDING: u32 = 4;

/// Reads numbers and names one after the other.
struct Fields<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl Fields<'_> {
    fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(if self.big_endian { u32::from_be_bytes(*bytes) } else { u32::from_le_bytes(*bytes) })
    }

    fn u64(&mut self) -> Option<u64> {
        let (bytes, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(if self.big_endian { u64::from_be_bytes(*bytes) } else { u64::from_le_bytes(*bytes) })
    }

    fn text(&mut self) -> Option<Vec<u8>> {
        let end = self.bytes.iter().position(|&byte| byte == 0)?;
        let text = self.bytes[..end].to_vec();
        self.bytes = &self.bytes[end + 1..];
        Some(text)
    }

    /// The event of a record of `size` bytes at `offset`.
    fn event(&mut self, kind: u32, offset: u64, size: u64) -> Option<JitEvent> {
        match kind {
            LOAD => {
                let (pid, tid, _vma) = (self.u32()?, self.u32()?, self.u64()?);
                let (address, code_size, index) = (self.u64()?, self.u64()?, self.u64()?);
                let name = self.text()?;
                let code = offset + PREFIX + 40 + name.len() as u64 + 1;
                let code = (code_size <= (offset + size).saturating_sub(code)).then_some(code);
                Some(JitEvent::Load { pid, tid, address, size: code_size, index, name, code })
            }
            MOVE => {
                let (pid, tid, _vma) = (self.u32()?, self.u32()?, self.u64()?);
                let (from, to, size, index) = (self.u64()?, self.u64()?, self.u64()?, self.u64()?);
                Some(JitEvent::Move { pid, tid, from, to, size, index })
            }
            LINES => {
                let (address, count) = (self.u64()?, self.u64()?);
                let mut lines: Vec<JitLine> = Vec::new();
                for _ in 0..count {
                    let (at, line, discriminator) = (self.u64()?, self.u32()?, self.u32()?);
                    let file = match self.text()? {
                        // "As before".
                        same if same == b"\xff" => lines.last().map(|last| last.file.clone())?,
                        file => file.into(),
                    };
                    lines.push(JitLine { address: at, line, discriminator, file });
                }
                Some(JitEvent::Lines { address, lines })
            }
            CLOSE => Some(JitEvent::Close),
            UNWINDING => {
                let (data_size, header, mapped) = (self.u64()?, self.u64()?, self.u64()?);
                let data = offset + PREFIX + 24;
                (data_size <= (offset + size).saturating_sub(data)).then_some(JitEvent::Unwinding {
                    mapped,
                    header,
                    data,
                    size: data_size,
                })
            }
            other => Some(JitEvent::Unknown(other)),
        }
    }
}
