//! Why a recording could not be made.

use perfuse_data::FreshFileError;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a recording could not be made, or went no further.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The plan contradicts itself, in words.
    Plan(String),
    /// The kernel refused an event, or another call.
    Perf(perfuse::Error),
    /// The command cannot be executed.
    Start(perfuse::Error),
    /// The kernel refused the filter of a tracepoint, in words.
    Filter(String),
    /// The target has ended.
    Gone,
    /// A file of the recording cannot be had.
    File {
        /// The step that failed: `write`, `rename`, `remove`.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
        /// So many bytes were written before, and can be read.
        written: Option<u64>,
    },
    /// A stream cannot be written to.
    Stream(io::Error),
    /// Something else cannot be read or written.
    Io(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Plan(words) | Error::Filter(words) => f.write_str(words),
            Error::Perf(error) | Error::Start(error) => error.fmt(f),
            Error::Gone => f.write_str("the tasks to be recorded have ended"),
            Error::File { doing, path, error, written } => {
                write!(f, "cannot {doing} {}: {error}", path.display())?;
                written
                    .map_or(Ok(()), |bytes| write!(f, ", after {bytes} bytes; what was written can be read"))
            }
            Error::Stream(error) => write!(f, "cannot write to standard output: {error}"),
            Error::Io(error) => write!(f, "cannot write: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Perf(error) | Error::Start(error) => Some(error),
            Error::File { error, .. } | Error::Stream(error) | Error::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<perfuse::Error> for Error {
    fn from(error: perfuse::Error) -> Self {
        Error::Perf(error)
    }
}

impl From<FreshFileError> for Error {
    fn from(FreshFileError { doing, path, error, .. }: FreshFileError) -> Self {
        Error::File { doing, path, error, written: None }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Io(error)
    }
}
