//! Why nothing could be counted.

use perfuse_data::FreshFileError;
use std::fmt;
use std::io;

/// Why nothing could be counted, or no further.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The plan contradicts itself, in words.
    Plan(String),
    /// The kernel refused an event, or another call.
    Perf(perfuse::Error),
    /// The command cannot be executed.
    Start(perfuse::Error),
    /// A step before or after each run failed; the reason in words.
    Hook(String),
    /// The file of a recording of counts cannot be had.
    Recording(FreshFileError),
    /// A recording of counts cannot be read.
    Data(perfuse_data::Error),
    /// The observer, or the recording, takes no more.
    Io(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Plan(words) | Error::Hook(words) => f.write_str(words),
            Error::Perf(error) | Error::Start(error) => error.fmt(f),
            Error::Recording(error) => error.fmt(f),
            Error::Data(error) => error.fmt(f),
            Error::Io(error) => write!(f, "cannot write: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Perf(error) | Error::Start(error) => Some(error),
            Error::Recording(error) => Some(error),
            Error::Data(error) => Some(error),
            Error::Io(error) => Some(error),
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
    fn from(error: FreshFileError) -> Self {
        Error::Recording(error)
    }
}

impl From<perfuse_data::Error> for Error {
    fn from(error: perfuse_data::Error) -> Self {
        Error::Data(error)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Io(error)
    }
}
