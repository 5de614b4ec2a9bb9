//! Bytes to read from: a file, read piece by piece where it is needed and never mapped, or a copy of
//! memory. Every read is checked against the length and against a limit before memory is taken for it.

use crate::error::{Error, Problem};
use crate::numbers::put;
use perfuse_files::Owners;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

/// A file or a piece of memory, and its name for errors.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) name: Arc<str>,
    pub(crate) len: u64,
    source: Source,
    id: Option<FileId>,
}

/// Tells a file from all others, whatever its names are, as long as nobody writes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
    len: u64,
    /// When it was written to last.
    modified: (i64, i64),
}

impl FileId {
    fn of(file: &Metadata) -> Self {
        let modified = (file.mtime(), file.mtime_nsec());
        FileId { device: file.dev(), inode: file.ino(), len: file.len(), modified }
    }

    /// As files of ours have it.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let (seconds, nanoseconds) = self.modified;
        for number in [self.device, self.inode, self.len, seconds as u64, nanoseconds as u64] {
            put(out, number);
        }
    }
}

#[derive(Debug)]
enum Source {
    File(File),
    Bytes(Vec<u8>),
}

impl Image {
    /// Opens a regular file. Anything else is refused: paths come out of recorded files.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        Self::opened(path, perfuse_files::open(path))
    }

    /// The same, if it belongs to somebody who may be believed.
    pub(crate) fn open_of(path: &Path, owners: Owners) -> Result<Self, Error> {
        Self::opened(path, perfuse_files::open_of(path, owners))
    }

    /// A file that was opened by this name.
    pub(crate) fn opened(path: &Path, file: Result<File, perfuse_files::Error>) -> Result<Self, Error> {
        let name: Arc<str> = path.to_string_lossy().into();
        let failed = |problem| Error { file: name.clone(), offset: 0, structure: "file", problem };
        let file = file.map_err(|error| {
            failed(match error {
                perfuse_files::Error::Io(error) => Problem::Io(error.kind()),
                why => Problem::Refused(why.to_string()),
            })
        })?;
        let metadata = file.metadata().map_err(|error| failed(Problem::Io(error.kind())))?;
        let (len, id) = (metadata.len(), Some(FileId::of(&metadata)));
        Ok(Image { name, len, source: Source::File(file), id })
    }

    pub(crate) fn from_bytes(name: &str, bytes: Vec<u8>) -> Self {
        Image { name: name.into(), len: bytes.len() as u64, source: Source::Bytes(bytes), id: None }
    }

    /// The file that it is, if it is one.
    pub(crate) fn id(&self) -> Option<FileId> {
        self.id
    }

    /// An error at a place in this image.
    pub(crate) fn error(&self, offset: u64, structure: &'static str, problem: Problem) -> Error {
        Error { file: self.name.clone(), offset, structure, problem }
    }

    /// Fills `buffer` from `offset` on.
    pub(crate) fn read_into(
        &self,
        offset: u64,
        buffer: &mut [u8],
        structure: &'static str,
    ) -> Result<(), Error> {
        self.check(offset, buffer.len() as u64, structure)?;
        if buffer.is_empty() {
            return Ok(()); // wherever that would be
        }
        match &self.source {
            Source::File(file) => file
                .read_exact_at(buffer, offset)
                .map_err(|error| self.error(offset, structure, Problem::Io(error.kind()))),
            Source::Bytes(bytes) => {
                let start = offset as usize; // checked to lie within the bytes
                buffer.copy_from_slice(&bytes[start..start + buffer.len()]);
                Ok(())
            }
        }
    }

    /// `len` bytes from `offset` on, if they are no more than `limit`.
    pub(crate) fn read(
        &self,
        offset: u64,
        len: u64,
        limit: u64,
        structure: &'static str,
    ) -> Result<Vec<u8>, Error> {
        if len > limit {
            return Err(self.error(offset, structure, Problem::TooLarge { size: len, limit }));
        }
        self.check(offset, len, structure)?;
        let mut buffer = vec![0; len as usize];
        self.read_into(offset, &mut buffer, structure)?;
        Ok(buffer)
    }

    /// Errors unless `len` bytes from `offset` on exist.
    pub(crate) fn check(&self, offset: u64, len: u64, structure: &'static str) -> Result<(), Error> {
        let have = self.len.saturating_sub(offset);
        if len > have {
            return Err(self.error(offset, structure, Problem::Truncated { need: len, have }));
        }
        Ok(())
    }

    /// Everything in order, for what is read as a stream, if it is no more than `limit`: a file can be larger than the
    /// disk it is on.
    pub(crate) fn stream(&self, limit: u64, structure: &'static str) -> Result<Stream<'_>, Error> {
        match self.len {
            size if size > limit => Err(self.error(0, structure, Problem::TooLarge { size, limit })),
            _ => Ok(Stream { image: self, at: 0, end: limit }),
        }
    }
}

/// Reads an image from its start.
pub(crate) struct Stream<'a> {
    image: &'a Image,
    at: u64,
    end: u64,
}

impl Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // A file that grows meanwhile ends where it may.
        let most = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let buffer = &mut buffer[..most];
        let got = match &self.image.source {
            Source::File(file) => file.read_at(buffer, self.at)?,
            Source::Bytes(bytes) => {
                let rest = usize::try_from(self.at).ok().and_then(|at| bytes.get(at..)).unwrap_or(&[]);
                let len = rest.len().min(buffer.len());
                buffer[..len].copy_from_slice(&rest[..len]);
                len
            }
        };
        self.at += got as u64;
        Ok(got)
    }
}

/// Calls `each` with every line (without its end) of at most `max` bytes; what is longer is cut there.
/// Memory does not grow with the lengths of lines.
pub(crate) fn for_each_line(
    mut reader: impl Read,
    max: usize,
    mut each: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut buffer = vec![0; 256 << 10];
    // A line that began in an earlier buffer.
    let mut begun: Vec<u8> = Vec::new();
    loop {
        let got = match reader.read(&mut buffer) {
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if got == 0 {
            if !begun.is_empty() {
                each(&begun);
            }
            return Ok(());
        }
        let mut rest = &buffer[..got];
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            if begun.is_empty() {
                each(&line[..line.len().min(max)]);
            } else {
                begun.extend_from_slice(&line[..line.len().min(max - begun.len())]);
                each(&begun);
                begun.clear();
            }
            rest = after;
        }
        begun.extend_from_slice(&rest[..rest.len().min(max - begun.len())]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_at_the_limit_and_found_across_buffers() {
        let long = "x".repeat(300 << 10);
        let text = format!("one\n\n{long}\ntwo");
        let mut lines = Vec::new();
        for_each_line(text.as_bytes(), 5, |line| lines.push(String::from_utf8_lossy(line).into_owned()))
            .expect("memory can be read");
        assert_eq!(lines, ["one", "", "xxxxx", "two"]);
    }

    #[test]
    fn a_read_past_the_end_says_so() {
        let image = Image::from_bytes("memory", vec![1, 2, 3]);
        assert_eq!(image.read(1, 2, 10, "thing").expect("within"), [2, 3]);
        let error = image.read(2, 2, 10, "thing").expect_err("past the end");
        assert_eq!(error.to_string(), "memory: thing at 0x2: needs 2 bytes, the file has 1 there");
        assert!(image.read(u64::MAX, 2, 10, "thing").is_err());
        assert_eq!(image.read(u64::MAX, 0, 10, "thing").expect("nothing of it"), []);
        let error = image.read(0, 3, 2, "thing").expect_err("over the limit");
        assert_eq!(error.to_string(), "memory: thing at 0x0: 3 is more than the limit of 2");
    }

    #[test]
    fn only_regular_files_are_opened() {
        let error = Image::open(Path::new("/dev/null")).expect_err("a device");
        assert_eq!(error.to_string(), "/dev/null: it is a character device, and only regular files are read");
        assert!(Image::open(Path::new("/nonexistent/x")).expect_err("no file").is_not_found());
    }
}
