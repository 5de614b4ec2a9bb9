//! Archives of the files that a recording needs, as `perf archive` makes them: a tar file of what a store of build-ids has of
//! them, compressed by bzip2, gzip or zstd; with the recording itself beside it where that is wanted.
//!
//! Archives of strangers are unpacked with care. Only the places of a store are written, by names that are taken apart and made
//! anew: programs whose build-id is the one they are stored by, and links that lead to them. Nothing is read whole, and sizes have limits.

use crate::SymbolOptions;
use crate::store::{Addition, BuildIdStore, StoreError, build_id_of, open, put};
use bzip2::read::MultiBzDecoder;
use bzip2::write::BzEncoder;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use perfuse_files::BuildId;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// The name of the archive of files within one that has the recording, too.
const INNER: &str = "perf.symbols.tar.bz2";
/// An archive has no more entries.
const MOST_ENTRIES: usize = 1 << 20;
/// Of one entry no more is unpacked, and of a whole archive neither.
const MOST_OF_ENTRY: u64 = 16 << 30;
const MOST_OF_ALL: u64 = 64 << 30;

/// How an archive is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// bzip2, as perf does.
    Bzip2,
    /// gzip.
    Gzip,
    /// Zstandard; it needs the feature `zstd`.
    Zstd,
    /// Not at all.
    None,
}

impl Compression {
    /// That of a file name: by its ending, or bzip2.
    pub fn of_name(name: &Path) -> Self {
        match name.extension().and_then(OsStr::to_str) {
            Some("gz" | "tgz") => Compression::Gzip,
            Some("zst" | "tzst") => Compression::Zstd,
            Some("tar") => Compression::None,
            _ => Compression::Bzip2,
        }
    }
}

/// A file that an archive is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its build-id.
    pub id: BuildId,
    /// Its path where the recording was made, or `[kernel.kallsyms]`, `[vdso]`.
    pub name: PathBuf,
}

/// The outcome for each file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Archived {
    /// Files that are in the archive, or were unpacked.
    pub files: usize,
    /// Bytes of them.
    pub bytes: u64,
    /// Files that are nowhere, when an archive was made.
    pub missing: Vec<Wanted>,
    /// Entries that were not taken, with the reasons, when one was unpacked; at most 64.
    pub refused: Vec<(PathBuf, &'static str)>,
    /// The recording that was in it, and is there now.
    pub recording: Option<PathBuf>,
}

impl Archived {
    fn refuse(&mut self, name: &Path, why: &'static str) {
        if self.refused.len() < 64 {
            self.refused.push((name.to_owned(), why));
        }
    }
}

/// Why there is no archive, or it is not unpacked.
#[derive(Debug)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The archive cannot be read or written.
    Io(io::Error),
    /// The store cannot be written.
    Store(StoreError),
    /// More is in it than any recording needs.
    TooLarge,
    /// There is a file of the recording's name already.
    Exists(PathBuf),
}

impl fmt::Display for ArchiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArchiveError::Io(error) => error.fmt(f),
            ArchiveError::Store(error) => error.fmt(f),
            ArchiveError::TooLarge => {
                write!(f, "it has more than {MOST_ENTRIES} entries or {} GiB", MOST_OF_ALL >> 30)
            }
            ArchiveError::Exists(path) => write!(f, "{} is there already", path.display()),
        }
    }
}

impl std::error::Error for ArchiveError {}

impl From<io::Error> for ArchiveError {
    fn from(error: io::Error) -> Self {
        ArchiveError::Io(error)
    }
}

impl From<StoreError> for ArchiveError {
    fn from(error: StoreError) -> Self {
        ArchiveError::Store(error)
    }
}

/// Writes an archive of files: from the store, and what it has not from their paths, if they are still of the same build.
/// With a recording, that stands in the archive under its file name, and the files in an archive within it, as perf does.
///
/// # Errors
///
/// A file cannot be read or the archive not be written.
pub fn archive(
    out: impl Write,
    compression: Compression,
    wanted: &[Wanted],
    store: &BuildIdStore,
    options: &SymbolOptions,
    recording: Option<&Path>,
) -> Result<Archived, ArchiveError> {
    // Files that the store lacks are put together in a store that goes away.
    let apart = Apart::new()?;
    let mut done = Archived::default();
    let mut parts: Vec<(PathBuf, PathBuf)> = Vec::new();
    for file in wanted {
        let store = match store.file(&file.id) {
            Some(_) => store,
            None => {
                let from = match file.name.to_str() {
                    Some("[kernel.kallsyms]") => Some(Addition::Kernel),
                    Some("[vdso]") => Some(Addition::Vdso),
                    _ => None,
                };
                let is_it = |id: Result<BuildId, StoreError>| id.is_ok_and(|id| id.matches(&file.id));
                let added = match from {
                    Some(from) => is_it(apart.0.add(from, options)),
                    None => {
                        let real = file.name.canonicalize().unwrap_or_default();
                        let from = Addition::File { name: &real, place: &real };
                        is_it(build_id_of(&real)) && is_it(apart.0.add(from, options))
                    }
                };
                if !added {
                    done.missing.push(file.clone());
                    continue;
                }
                &apart.0
            }
        };
        done.files += 1;
        for part in store.parts(&file.id) {
            parts.push((store.folder().join(&part), part));
        }
    }
    parts.sort_by(|(_, one), (_, other)| one.cmp(other));
    parts.dedup_by(|(_, one), (_, other)| one == other);
    let out = match recording {
        None => files_into(Encoder::new(out, compression)?, &parts, &mut done)?,
        Some(recording) => {
            let place = apart.0.folder().join(INNER);
            let inner = BufWriter::new(File::create(&place)?);
            files_into(Encoder::new(inner, Compression::Bzip2)?, &parts, &mut done)?.finish()?.flush()?;
            let mut tar = tar::Builder::new(Encoder::new(out, compression)?);
            let name = recording.file_name().unwrap_or(OsStr::new("perf.data"));
            tar.append_path_with_name(recording, name)?;
            tar.append_path_with_name(&place, INNER)?;
            tar.into_inner()?
        }
    };
    out.finish()?.flush()?;
    Ok(done)
}

/// Writes parts of a store as a tar file.
fn files_into<W: Write>(
    out: Encoder<W>,
    parts: &[(PathBuf, PathBuf)],
    done: &mut Archived,
) -> Result<Encoder<W>, ArchiveError> {
    let mut tar = tar::Builder::new(out);
    tar.follow_symlinks(false);
    tar.mode(tar::HeaderMode::Deterministic);
    for (place, name) in parts {
        let found = fs::symlink_metadata(place)?;
        if found.is_file() {
            done.bytes += found.len();
        }
        tar.append_path_with_name(place, name)?;
    }
    Ok(tar.into_inner()?)
}

/// Unpacks an archive into a store; a recording in it into `folder`, where nothing of its name may be.
///
/// # Errors
///
/// The archive is none, or too large; the store or the folder cannot be written. Entries that a store has no place for are refused
/// one by one.
pub fn unpack(archive: impl Read, store: &BuildIdStore, folder: &Path) -> Result<Archived, ArchiveError> {
    let mut done = Archived::default();
    let mut left = MOST_OF_ALL;
    let mut tar = tar::Archive::new(decoder(BufReader::new(archive), &mut left)?);
    let mut is_first = true;
    for (number, entry) in tar.entries()?.enumerate() {
        if number >= MOST_ENTRIES {
            return Err(ArchiveError::TooLarge);
        }
        let mut entry = entry?;
        let name = entry.path()?.into_owned();
        if name == Path::new(INNER) {
            let mut left = MOST_OF_ALL;
            let mut inner = tar::Archive::new(decoder(BufReader::new(&mut entry), &mut left)?);
            for (number, entry) in inner.entries()?.enumerate() {
                if number >= MOST_ENTRIES {
                    return Err(ArchiveError::TooLarge);
                }
                stored(&mut entry?, store, &mut done)?;
            }
        } else if is_first && entry.header().entry_type().is_file() && is_file_name(&name) {
            let place = folder.join(&name);
            let mut file = match File::options().write(true).create_new(true).open(&place) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(ArchiveError::Exists(place));
                }
                opened => opened?,
            };
            io::copy(&mut (&mut entry).take(MOST_OF_ENTRY), &mut file)?;
            done.recording = Some(place);
        } else {
            stored(&mut entry, store, &mut done)?;
        }
        is_first = false;
    }
    Ok(done)
}

/// A name without folders, that hides nothing.
fn is_file_name(name: &Path) -> bool {
    let mut parts = name.components();
    let first = parts.next();
    matches!(first, Some(Component::Normal(_)))
        && parts.next().is_none()
        && !name.as_os_str().as_bytes().starts_with(b".")
}

/// Puts an entry into the store, if that has a place for it.
fn stored(
    entry: &mut tar::Entry<'_, impl Read>,
    store: &BuildIdStore,
    done: &mut Archived,
) -> Result<(), ArchiveError> {
    let name = entry.path()?.into_owned();
    let kind = entry.header().entry_type();
    // "./usr" is "usr".
    let plain: PathBuf = name.components().filter(|part| !matches!(part, Component::CurDir)).collect();
    if !plain.components().all(|part| matches!(part, Component::Normal(_))) || plain.as_os_str().is_empty() {
        if !kind.is_dir() {
            done.refuse(&name, "it leads out of the store");
        }
        return Ok(());
    }
    if kind.is_dir() {
        return Ok(());
    }
    if plain.starts_with(".build-id") {
        let digits: Vec<&[u8]> = plain.components().skip(1).map(|part| part.as_os_str().as_bytes()).collect();
        let id = String::from_utf8(digits.concat()).ok().and_then(|digits| digits.parse::<BuildId>().ok());
        let target = entry.link_name()?.map(|target| target.into_owned());
        match (id, target) {
            (Some(id), Some(target)) if kind.is_symlink() && digits.len() == 2 => {
                if !store.lead(&id, &target)? {
                    done.refuse(&name, "its link leads out of the store");
                }
            }
            _ => done.refuse(&name, "it is no link of a build-id"),
        }
        return Ok(());
    }
    let file = plain.file_name().unwrap_or_default().to_owned();
    let place = plain.parent().unwrap_or(Path::new(""));
    let id = place.file_name().and_then(OsStr::to_str).and_then(|id| id.parse::<BuildId>().ok());
    let is_known = ["elf", "kallsyms", "vdso", "debug", "probes"].iter().any(|known| file == *known);
    let (Some(id), true, true) = (id, is_known, kind.is_file()) else {
        done.refuse(&name, "it is no file of a store");
        return Ok(());
    };
    let folder = store.folder().join(place);
    fs::create_dir_all(&folder)?;
    let to = folder.join(&file);
    if fs::symlink_metadata(&to).is_ok() {
        done.files += usize::from(file != "probes" && file != "debug");
        return Ok(());
    }
    let size = entry.header().size().unwrap_or(0);
    if size > MOST_OF_ENTRY {
        done.refuse(&name, "it is too large");
        return Ok(());
    }
    // Of what names the program's functions it has to be seen that it is of this build.
    let checked = ["elf", "vdso", "debug"].iter().any(|known| file == *known);
    let apart = folder.join(format!(".{}.unpacked", std::process::id()));
    put(&mut entry.take(MOST_OF_ENTRY), &apart, 0o644)?;
    let is_it = !checked || open(&apart).is_ok_and(|(found, _)| found.matches(&id));
    if is_it {
        fs::rename(&apart, &to)?;
        done.files += usize::from(file != "probes" && file != "debug");
        done.bytes += size;
    } else {
        fs::remove_file(&apart)?;
        done.refuse(&name, "it is of another build than its name says");
    }
    Ok(())
}

/// A store that goes away with this.
struct Apart(BuildIdStore);

impl Apart {
    fn new() -> io::Result<Self> {
        let folder = std::env::temp_dir();
        let name = |number: u32| folder.join(format!("perfuse-archive-{}-{number}", std::process::id()));
        for number in 0.. {
            match std::os::unix::fs::DirBuilderExt::mode(&mut fs::DirBuilder::new(), 0o700)
                .create(name(number))
            {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => {}
                made => return made.map(|()| Apart(BuildIdStore::at(name(number)))),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.0.folder());
    }
}

/// Compresses on the way.
enum Encoder<W: Write> {
    Bzip2(BzEncoder<W>),
    Gzip(GzEncoder<W>),
    #[cfg(feature = "zstd")]
    Zstd(zstd::Encoder<'static, W>),
    None(W),
}

impl<W: Write> Encoder<W> {
    fn new(out: W, compression: Compression) -> io::Result<Self> {
        Ok(match compression {
            Compression::Bzip2 => Encoder::Bzip2(BzEncoder::new(out, bzip2::Compression::best())),
            Compression::Gzip => Encoder::Gzip(GzEncoder::new(out, flate2::Compression::default())),
            #[cfg(feature = "zstd")]
            Compression::Zstd => Encoder::Zstd(zstd::Encoder::new(out, 0)?),
            #[cfg(not(feature = "zstd"))]
            Compression::Zstd => {
                return Err(io::Error::new(io::ErrorKind::Unsupported, "built without zstd"));
            }
            Compression::None => Encoder::None(out),
        })
    }

    fn finish(self) -> io::Result<W> {
        match self {
            Encoder::Bzip2(out) => out.finish(),
            Encoder::Gzip(out) => out.finish(),
            #[cfg(feature = "zstd")]
            Encoder::Zstd(out) => out.finish(),
            Encoder::None(out) => Ok(out),
        }
    }
}

impl<W: Write> Write for Encoder<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Encoder::Bzip2(out) => out.write(bytes),
            Encoder::Gzip(out) => out.write(bytes),
            #[cfg(feature = "zstd")]
            Encoder::Zstd(out) => out.write(bytes),
            Encoder::None(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Encoder::Bzip2(out) => out.flush(),
            Encoder::Gzip(out) => out.flush(),
            #[cfg(feature = "zstd")]
            Encoder::Zstd(out) => out.flush(),
            Encoder::None(out) => out.flush(),
        }
    }
}

/// Uncompresses, by the first bytes of a file, and ends with an error where more comes than there may be.
fn decoder<'r>(mut input: impl BufRead + 'r, left: &'r mut u64) -> io::Result<Bounded<'r>> {
    let begins = input.fill_buf()?;
    let inner: Box<dyn Read + 'r> = if begins.starts_with(b"BZh") {
        Box::new(MultiBzDecoder::new(input))
    } else if begins.starts_with(&[0x1f, 0x8b]) {
        Box::new(MultiGzDecoder::new(input))
    } else if begins.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        #[cfg(feature = "zstd")]
        {
            Box::new(zstd::Decoder::with_buffer(input)?)
        }
        #[cfg(not(feature = "zstd"))]
        return Err(io::Error::new(io::ErrorKind::Unsupported, "built without zstd"));
    } else {
        Box::new(input)
    };
    Ok(Bounded { inner, left })
}

/// As much as may come.
struct Bounded<'r> {
    inner: Box<dyn Read + 'r>,
    left: &'r mut u64,
}

impl Read for Bounded<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => *self.left = left,
            None => return Err(io::Error::new(io::ErrorKind::InvalidData, ArchiveError::TooLarge)),
        }
        Ok(count)
    }
}
