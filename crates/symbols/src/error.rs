//! Faults of files, with their places: every error of this crate names the file, the offset in it,
//! and the structure that was being read. Why an address has no symbol is another question, answered by
//! [`Missing`](crate::Missing).

use std::fmt;
use std::io;
use std::sync::Arc;

/// A file that cannot be read, or does not hold what it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The file, or what stands for one ("the vdso of this process").
    pub file: Arc<str>,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// The thing that was being read there.
    pub structure: &'static str,
    /// The fault.
    pub problem: Problem,
}

/// A fault of a structure in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The system refused.
    Io(io::ErrorKind),
    /// The structure goes on past the end of the file.
    Truncated {
        /// Its size in bytes.
        need: u64,
        /// How many bytes there are.
        have: u64,
    },
    /// There is more of it than anything real would have, and memory for it is not given.
    TooLarge {
        /// How much there is.
        size: u64,
        /// How much is taken at most.
        limit: u64,
    },
    /// A value in it that makes no sense.
    Malformed(&'static str),
    /// The file is none to read: what it is, or whose.
    Refused(String),
}

impl Error {
    /// The system refused because of missing rights.
    pub fn is_denied(&self) -> bool {
        self.problem == Problem::Io(io::ErrorKind::PermissionDenied)
    }

    /// There is no such file.
    pub fn is_not_found(&self) -> bool {
        matches!(self.problem, Problem::Io(io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Error { file, offset, structure, problem } = self;
        match problem {
            Problem::Io(_) => write!(f, "{file}: {problem} (reading the {structure})"),
            Problem::Refused(_) => write!(f, "{file}: {problem}"),
            _ => write!(f, "{file}: {structure} at {offset:#x}: {problem}"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Io(io::ErrorKind::NotFound) => f.write_str("no such file"),
            Problem::Io(kind) => kind.fmt(f),
            Problem::Truncated { need, have } => write!(f, "needs {need} bytes, the file has {have} there"),
            Problem::TooLarge { size, limit } => write!(f, "{size} is more than the limit of {limit}"),
            Problem::Malformed(what) => f.write_str(what),
            Problem::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {}
