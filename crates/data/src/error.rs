//! Where in a recording something is wrong, what it is, and why.

use perfuse_abi::AttrError;
use perfuse_abi::wire::Short;
use std::{fmt, io};

/// A place in a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// Which file: 0 is `perf.data`, or `data` of a directory; n + 1 is `data.n`.
    pub part: u32,
    /// Bytes from the start of the file.
    pub offset: u64,
    /// For what was compressed, bytes into what the file's compressed records contain; `offset` is then
    /// that of the last compressed record that was needed to read it, in which it may only end.
    pub unpacked: Option<u64>,
}

impl Location {
    pub(crate) fn at(part: u32, offset: u64) -> Self {
        Location { part, offset, unpacked: None }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {:#x}", self.offset)?;
        if let Some(unpacked) = self.unpacked {
            write!(f, " (byte {unpacked:#x} of what is compressed)")?;
        }
        match self.part.checked_sub(1) {
            None => Ok(()),
            Some(number) => write!(f, " of data.{number}"),
        }
    }
}

/// Something in a recording that cannot be read. The records before it were delivered.
#[derive(Debug)]
pub struct Error {
    /// Where.
    pub location: Location,
    /// The structure that was being read.
    pub structure: &'static str,
    /// The fault.
    pub problem: Problem,
}

impl Error {
    pub(crate) fn new(location: Location, structure: &'static str, problem: impl Into<Problem>) -> Self {
        Error { location, structure, problem: problem.into() }
    }
}

/// A fault.
#[derive(Debug)]
#[non_exhaustive]
pub enum Problem {
    /// The file or pipe cannot be read.
    Io(io::Error),
    /// The file ends too early.
    Truncated {
        /// Bytes the structure needs.
        needed: u64,
        /// Bytes there are.
        available: u64,
    },
    /// A field of the structure lies beyond its bytes.
    Short(Short),
    /// The first eight bytes are those of no perf.data.
    Magic([u8; 8]),
    /// A field has a value that cannot be.
    Field {
        /// The field.
        name: &'static str,
        /// Its value.
        value: u64,
        /// The right value, in words.
        expected: &'static str,
    },
    /// The attr cannot be read.
    Attr(AttrError),
    /// The file's order of sections needs a file in which one can seek.
    NotSeekable,
    /// A section is larger than the reader was told to keep in memory.
    TooLarge {
        /// Its size, in bytes or items.
        size: u64,
        /// The limit, likewise.
        limit: u64,
    },
    /// Compressed bytes are no zstd stream.
    Zstd(io::Error),
    /// Reading it needs something that the program was built without.
    NotBuilt {
        /// The feature of this crate that has it.
        feature: &'static str,
    },
    /// No event has the id, and there are several events whose records differ.
    NoEvent {
        /// The id, if there is one.
        id: Option<u64>,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.structure, self.location, self.problem)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Io(error) => error.fmt(f),
            Problem::Truncated { needed, available } => {
                write!(f, "it needs {needed} bytes, and the file ends after {available}")
            }
            Problem::Short(short) => short.fmt(f),
            Problem::Magic(found) => {
                write!(f, "\"{}\" instead of \"PERFILE2\": not a perf.data file", found.escape_ascii())
            }
            Problem::Field { name, value, expected } => write!(f, "{name} is {value}, not {expected}"),
            Problem::Attr(error) => error.fmt(f),
            Problem::NotSeekable => {
                f.write_str("the attrs and data of this file can only be found in a file that can seek")
            }
            Problem::TooLarge { size, limit } => write!(f, "its size of {size} exceeds the limit of {limit}"),
            Problem::Zstd(error) => write!(f, "not a zstd stream: {error}"),
            Problem::NotBuilt { feature } => {
                write!(f, "this program was built without the feature \"{feature}\" that could read it")
            }
            Problem::NoEvent { id: Some(id) } => write!(f, "no event has its id {id}"),
            Problem::NoEvent { id: None } => {
                f.write_str("it does not tell which of the events it belongs to")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            Problem::Io(error) | Problem::Zstd(error) => Some(error),
            Problem::Short(error) => Some(error),
            Problem::Attr(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Problem::Io(error)
    }
}

impl From<Short> for Problem {
    fn from(short: Short) -> Self {
        Problem::Short(short)
    }
}

impl From<AttrError> for Problem {
    fn from(error: AttrError) -> Self {
        Problem::Attr(error)
    }
}
