//! Where a recording goes: [`Sink`], with [`FileSink`] and [`StreamSink`].

use crate::Error;
use perfuse::abi::record::{Decoded, RecordFormat};
use perfuse_data::feature::{BuildIdEntry, Feature};
use perfuse_data::tool::{Tool, ToolRecord};
use perfuse_data::{NewEvent, Writer, fresh_file};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Takes a recording: how it begins, its records as they come, how it is completed.
pub trait Sink {
    /// Sections come with [`begin`](Self::begin), as nothing can be put in front later, and rounds are handed on at
    /// once: a pipe.
    fn is_stream(&self) -> bool {
        true
    }

    /// A recording of these events begins, or its next part after [`complete`](Self::complete). `level`: of
    /// compression by zstd, for sinks that can.
    ///
    /// # Errors
    ///
    /// Ends the recording.
    fn begin(
        &mut self,
        events: &[NewEvent],
        features: Vec<Feature<'_>>,
        level: Option<i32>,
    ) -> Result<(), Error>;

    /// Records of the kernel as they lay in a ring, in as many parts as they came in.
    ///
    /// # Errors
    ///
    /// Ends the recording by [`fail`](Self::fail), as all errors below.
    fn records(&mut self, parts: &[&[u8]]) -> io::Result<()>;

    /// A record of the kernel that is made here, in the format of its event.
    #[expect(clippy::missing_errors_doc, reason = "as for records")]
    fn record(&mut self, record: &Decoded<'_>, format: &RecordFormat) -> io::Result<()> {
        let mut bytes = Vec::new();
        let encoded = record.encode(format, &mut bytes);
        encoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
        self.records(&[&bytes])
    }

    /// A record of the tool's: ids, maps of threads and cpus, ends of rounds.
    #[expect(clippy::missing_errors_doc, reason = "as for records")]
    fn tool(&mut self, record: ToolRecord<'_>) -> io::Result<()> {
        let _ = record;
        Ok(())
    }

    /// Hands on what waits in memory.
    #[expect(clippy::missing_errors_doc, reason = "as for records")]
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Bytes of the current part.
    fn len(&self) -> u64;

    /// Whether nothing was taken yet.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes before and after compression, if there is any.
    fn compressed(&self) -> Option<(u64, u64)> {
        None
    }

    /// Completes the recording, or a part of it that others follow. A stream had its features already.
    ///
    /// # Errors
    ///
    /// Ends the recording.
    fn complete(
        &mut self,
        features: Vec<Feature<'_>>,
        ids: &[BuildIdEntry<'_>],
        others_follow: bool,
    ) -> Result<Written, Error>;

    /// Writing failed: makes readable what was written, and tells where that is.
    fn fail(&mut self, error: io::Error) -> Error;

    /// Nothing was recorded after all.
    fn undo(&mut self) {}
}

/// The calls of a [`Sink`] that its `writer` answers, once there is one.
macro_rules! by_writer {
    () => {
        fn records(&mut self, parts: &[&[u8]]) -> io::Result<()> {
            begun(&mut self.writer)?.records(parts)
        }

        fn record(&mut self, record: &Decoded<'_>, format: &RecordFormat) -> io::Result<()> {
            begun(&mut self.writer)?.record(record, format)
        }

        fn tool(&mut self, record: ToolRecord<'_>) -> io::Result<()> {
            begun(&mut self.writer)?.tool(record)
        }

        fn flush(&mut self) -> io::Result<()> {
            begun(&mut self.writer)?.flush()
        }

        fn len(&self) -> u64 {
            self.writer.as_ref().map_or(0, Writer::len)
        }

        fn compressed(&self) -> Option<(u64, u64)> {
            self.writer.as_ref()?.compressed()
        }
    };
}

fn begun<W: Write>(writer: &mut Option<Writer<W>>) -> io::Result<&mut Writer<W>> {
    writer.as_mut().ok_or_else(|| io::Error::other("no recording has begun"))
}

/// A part of a recording that is complete.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Written {
    /// Its file; `None` for a stream.
    pub path: Option<PathBuf>,
    /// Its size.
    pub bytes: u64,
    /// Bytes before and after compression.
    pub compressed: Option<(u64, u64)>,
}

/// A file, or one after the other. A file that is there already gets another name, with `.old` behind it.
#[derive(Debug)]
pub struct FileSink {
    path: PathBuf,
    stamp: Option<Stamp>,
    is_stamped: bool,
    most: Option<usize>,
    writer: Option<Writer<File>>,
    /// Where the file that was there before is now.
    old: Option<PathBuf>,
    /// Names of the files that are complete.
    files: VecDeque<PathBuf>,
}

/// How a time since 1970 stands in the name of a file.
pub type Stamp = fn(Duration) -> String;

impl FileSink {
    /// Writes to this path.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        FileSink {
            path: path.into(),
            stamp: None,
            is_stamped: false,
            most: None,
            writer: None,
            old: None,
            files: VecDeque::new(),
        }
    }

    /// Of a recording in parts, each file gets the time when it is complete into its name, in these words; a single
    /// one too, if `always`.
    #[must_use]
    pub fn stamped(mut self, stamp: Stamp, always: bool) -> Self {
        (self.stamp, self.is_stamped) = (Some(stamp), always);
        self
    }

    /// Keeps only so many files of a recording in parts, the newest.
    #[must_use]
    pub fn keeping(mut self, most: Option<usize>) -> Self {
        self.most = most;
        self
    }

    fn cannot(&self, doing: &'static str, path: &Path, error: io::Error) -> Error {
        Error::File { doing, path: path.to_owned(), error, written: None }
    }

    /// Gives a finished file the name with the time in it; a name that is taken is that of a little later.
    fn rename(&self) -> Result<PathBuf, Error> {
        let stamp = self.stamp.unwrap_or(|time| time.as_millis().to_string());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let later = (0..).map(|steps| now + steps * Duration::from_millis(10));
        let mut names = later.map(|time| {
            let mut name = self.path.as_os_str().to_owned();
            name.push(format!(".{}", stamp(time)));
            PathBuf::from(name)
        });
        let name = names.find(|name| !name.exists()).unwrap_or_default();
        fs::rename(&self.path, &name).map_err(|error| self.cannot("rename", &self.path, error))?;
        Ok(name)
    }
}

impl Sink for FileSink {
    fn is_stream(&self) -> bool {
        false
    }

    fn begin(
        &mut self,
        events: &[NewEvent],
        _features: Vec<Feature<'_>>,
        level: Option<i32>,
    ) -> Result<(), Error> {
        let (file, old) = fresh_file(&self.path)?;
        self.old = old;
        match Writer::file(file, events) {
            Ok(mut writer) => {
                level.map_or(Ok(()), |level| writer.compress(level))?;
                self.writer = Some(writer);
                Ok(())
            }
            Err(error) => {
                self.undo();
                Err(self.cannot("write", &self.path, error))
            }
        }
    }

    by_writer!();

    fn complete(
        &mut self,
        features: Vec<Feature<'_>>,
        _ids: &[BuildIdEntry<'_>],
        others_follow: bool,
    ) -> Result<Written, Error> {
        let (size, compressed) = (self.len(), self.compressed());
        let Some(writer) = self.writer.take() else { return Ok(Written::default()) };
        let file = writer.finish(features).map_err(|error| Error::File {
            doing: "write",
            path: self.path.clone(),
            error,
            written: Some(size),
        })?;
        let bytes = file.metadata().map_or(0, |metadata| metadata.len());
        let path = if self.is_stamped || others_follow { self.rename()? } else { self.path.clone() };
        self.files.push_back(path.clone());
        if self.most.is_some_and(|most| self.files.len() > most) {
            let oldest = self.files.pop_front().unwrap_or_default();
            fs::remove_file(&oldest).map_err(|error| self.cannot("remove", &oldest, error))?;
        }
        Ok(Written { path: Some(path), bytes, compressed })
    }

    fn fail(&mut self, error: io::Error) -> Error {
        let written = Some(self.len());
        if let Some(writer) = self.writer.take() {
            // It was the other error that ended this.
            let _ = writer.abandon();
        }
        Error::File { doing: "write", path: self.path.clone(), error, written }
    }

    fn undo(&mut self) {
        self.writer = None;
        // A device, say, is none of ours. Where the rest fails there is an empty recording, which does no harm.
        let _ = match self.old.take() {
            Some(old) => fs::rename(old, &self.path),
            None if fs::metadata(&self.path).is_ok_and(|metadata| metadata.is_file()) => {
                fs::remove_file(&self.path)
            }
            None => Ok(()),
        };
    }
}

/// A pipe, a socket, or memory, in the form for pipes.
#[derive(Debug)]
pub struct StreamSink<W: Write> {
    out: Option<W>,
    writer: Option<Writer<W>>,
}

impl<W: Write> StreamSink<W> {
    /// Writes there.
    pub fn new(out: W) -> Self {
        StreamSink { out: Some(out), writer: None }
    }

    /// The stream, if the recording has begun.
    pub fn get_ref(&self) -> Option<&W> {
        self.writer.as_ref().map(Writer::get_ref)
    }
}

impl<W: Write> Sink for StreamSink<W> {
    fn begin(
        &mut self,
        events: &[NewEvent],
        features: Vec<Feature<'_>>,
        level: Option<i32>,
    ) -> Result<(), Error> {
        let Some(out) = self.out.take() else {
            return Err(Error::Plan("a pipe is one stream, without parts".to_owned()));
        };
        let mut writer = Writer::pipe(out, events)?;
        level.map_or(Ok(()), |level| writer.compress(level))?;
        writer.features(features)?;
        self.writer = Some(writer);
        Ok(())
    }

    by_writer!();

    fn complete(
        &mut self,
        _features: Vec<Feature<'_>>,
        ids: &[BuildIdEntry<'_>],
        _others_follow: bool,
    ) -> Result<Written, Error> {
        let compressed = self.compressed();
        let written = ids.iter().try_for_each(|id| self.tool(Tool::BuildId(*id).into()));
        written.and_then(|()| self.flush()).map_err(Error::Stream)?;
        Ok(Written { path: None, bytes: self.len(), compressed })
    }

    fn fail(&mut self, error: io::Error) -> Error {
        Error::Stream(error)
    }
}
