//! Recordings made of recordings: [`Cut`] keeps a part of one, [`merge`] makes one of several, [`strip`] one
//! without what is private, [`Inject`] one with build-ids and mappings of made code, [`anew`] one as [`Changes`] want it.
//!
//! Records go from the reader to a [`Target`] one after the other, byte by byte as they were, in the byte order of the
//! recorded machine; memory is that of the reader. Files become files again, pipes stay pipes. Compressed records are written
//! as what they contain.
//!
//! ```
//! use perfuse_data::rewrite::{Cut, Target};
//! use perfuse_data::{NewEvent, PerfData, Writer, abi::{Attr, EventType}};
//! use std::io::Cursor;
//!
//! let event = NewEvent { attr: Attr::new(EventType::SOFTWARE), name: "cpu-clock".into(), ids: vec![7] };
//! let whole = Writer::file(Cursor::new(Vec::new()), &[event])?.finish(Vec::new())?.into_inner();
//!
//! let data = PerfData::from_seekable(Cursor::new(whole), Default::default())?;
//! let mut part = Cursor::new(Vec::new());
//! let mut cut = Cut::default();
//! cut.filter.pids = vec![1];
//! let done = cut.run(data, Target::file(&mut part))?;
//! assert_eq!((done.samples, done.kept), (0, 0));
//! assert_eq!(PerfData::from_seekable(part, Default::default())?.events()[0].ids, [7]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod anew;
mod convert;
mod cut;
mod ids;
mod inject;
mod merge;
mod output;
mod strip;

pub use anew::{Changes, Fate, anew};
pub use convert::convert;
pub use cut::Cut;
pub use inject::{BuildIdsOf, Inject, MadeCode, Supplements};
pub use merge::merge;
pub use output::Target;
pub use strip::strip;

use crate::error::{Error, Problem};
use crate::replay::NoTimes;
use std::collections::BTreeMap;
use std::{fmt, io};

/// Faults of the input are told up to this number.
const PROBLEMS: usize = 64;

/// The result of writing a recording anew.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Rewritten {
    /// Samples that were read.
    pub samples: u64,
    /// Samples that were written.
    pub kept: u64,
    /// Parts of the input that could not be read; what could be is written. At most 64.
    pub problems: Vec<Error>,
    /// The things that [`strip`] or [`convert`] replaced, emptied or left out, and how often.
    pub changes: BTreeMap<&'static str, u64>,
}

impl Rewritten {
    /// Takes note of a part that cannot be read, unless it says that none can.
    fn note(&mut self, error: Error) -> Result<(), RewriteError> {
        match error.problem {
            Problem::Io(_) | Problem::NotBuilt { .. } => return Err(error.into()),
            _ if self.problems.len() < PROBLEMS => self.problems.push(error),
            _ => {}
        }
        Ok(())
    }
}

/// Why a recording cannot be written anew. What the target has then is no recording.
#[derive(Debug)]
#[non_exhaustive]
pub enum RewriteError {
    /// The input cannot be read.
    Read(Error),
    /// The output cannot be written.
    Write(io::Error),
    /// Parts of the input's time are asked for, and it does not say when it began and ended.
    NoTimes(NoTimes),
    /// The input has no event of this name.
    NoEvent {
        /// The name that was asked for.
        name: String,
        /// The names there are.
        names: Vec<String>,
    },
    /// The inputs are not such that it can be done. The reason in words.
    Refused(String),
}

impl fmt::Display for RewriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RewriteError::Read(error) => error.fmt(f),
            RewriteError::Write(error) => error.fmt(f),
            RewriteError::NoTimes(error) => error.fmt(f),
            RewriteError::NoEvent { name, names } => {
                write!(f, "the recording has no event {name}; it has {}", names.join(", "))
            }
            RewriteError::Refused(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for RewriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RewriteError::Read(error) => Some(error),
            RewriteError::Write(error) => Some(error),
            RewriteError::NoTimes(error) => Some(error),
            RewriteError::NoEvent { .. } | RewriteError::Refused(_) => None,
        }
    }
}

impl From<Error> for RewriteError {
    fn from(error: Error) -> Self {
        RewriteError::Read(error)
    }
}

impl From<io::Error> for RewriteError {
    fn from(error: io::Error) -> Self {
        RewriteError::Write(error)
    }
}

impl From<NoTimes> for RewriteError {
    fn from(error: NoTimes) -> Self {
        RewriteError::NoTimes(error)
    }
}
