//! Files whose names come from strangers: from a program that is measured, or from a recording.
//!
//! Such a name may lead to anything. Opening a FIFO waits for its other end, opening a device may rewind a tape or
//! start a watchdog, and a symbolic link leads from one to the other between two looks. So a file is looked at
//! before it is opened: a descriptor that names it and opens nothing (`O_PATH`) is taken, asked what it is, and the
//! file opened through it. So the reader gets the very file that was looked at, even if its name leads to
//! another by now. A path below `/proc/PID/root`, the files that a process in a container sees, is looked up as that process
//! would: no link leads out of it.
//!
//! Files that are this user's alone, such as caches, are [opened](open_private) and [written](write_private) here too.
//!
//! [`BuildId`] tells whether a file is the one that was meant, under whatever name.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod build_id;
mod private;
mod root;

pub use build_id::{BuildId, BuildIdError};
pub use private::{open_private, remove_oldest, write_private};
pub use root::{RootOf, View, in_root_of};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, major, minor, openat, readlinkat};
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A name leads through so many symbolic links at most, of which each is looked at.
const MOST_LINKS: usize = 16;

/// Why a file was not opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The system refuses to open it.
    Io(io::Error),
    /// It is something else than a regular file: what it is.
    NotRegular(&'static str),
    /// It is not the file that was meant: that one is gone, or another one has its name now.
    Another,
    /// It belongs to this user, whom nothing gives the right to be believed.
    OfAnother(u32),
    /// It gives rights to others than its owner.
    NotPrivate,
    /// It is larger than the limit, which is this many bytes.
    TooLarge(u64),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(error) => error.fmt(f),
            Error::NotRegular(what) => write!(f, "it is {what}, and only regular files are read"),
            Error::Another => f.write_str("another file has its name now"),
            Error::OfAnother(uid) => {
                write!(
                    f,
                    "it belongs to user {uid}, and only files of root and of the user who reads them are believed"
                )
            }
            Error::NotPrivate => f.write_str("others than its owner have rights to it"),
            Error::TooLarge(limit) => write!(f, "it has more than {limit} bytes"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Io(error)
    }
}

/// Opens a regular file to read it. Neither waits nor touches what is something else.
///
/// # Errors
///
/// [`Error::NotRegular`] for folders, devices, FIFOs and sockets; [`Error::Io`] with what the system says.
pub fn open(path: &Path) -> Result<File, Error> {
    open_if(path, |_| Ok(()))
}

/// The same, if it is the file that `/proc/PID/maps` shows as this device, major and minor number, and inode. File
/// systems in layers or with several roots (overlayfs, btrfs) have devices without a driver, major number 0, and show
/// maps another one than those who open the file: there the inode decides.
///
/// # Errors
///
/// Those of [`open`], and [`Error::Another`].
pub fn open_inode(path: &Path, device: (u32, u32), inode: u64) -> Result<File, Error> {
    open_if(path, |found| {
        let there = (major(found.st_dev), minor(found.st_dev));
        let is_there = there == device || there.0 == 0 || device.0 == 0;
        if found.st_ino == inode && is_there { Ok(()) } else { Err(Error::Another) }
    })
}

/// The owners whose files are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owners {
    /// Those of root and of the user who reads them, and of one more: in a folder such as `/tmp` anybody can put
    /// a file under any name.
    Trusted {
        /// That one, by number.
        also: Option<u32>,
    },
    /// Those of everybody.
    Any,
}

/// The same, if the file belongs to one of these users, and so do the symbolic links that its name leads to it by: a link in
/// `/tmp` says whatever its maker wants.
///
/// # Errors
///
/// Those of [`open`], and [`Error::OfAnother`].
pub fn open_of(path: &Path, owners: Owners) -> Result<File, Error> {
    let Owners::Trusted { also } = owners else { return open(path) };
    let is_believed = |found: &Stat| {
        let (uid, own) = (found.st_uid, rustix::process::geteuid().as_raw());
        if uid != 0 && uid != own && Some(uid) != also { Err(Error::OfAnother(uid)) } else { Ok(()) }
    };
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let named = root::name(&path, OFlags::NOFOLLOW).map_err(failed)?;
        let found = fstat(&named).map_err(failed)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
            return open_named(&named, &path, is_believed);
        }
        is_believed(&found)?;
        // The very link that was looked at.
        let target = readlinkat(&named, "", Vec::new()).map_err(failed)?;
        let target = Path::new(OsStr::from_bytes(target.as_bytes()));
        let root = root::split(&path).filter(|_| target.is_absolute()).map(|(root, _)| root);
        path.pop();
        match root {
            Some(root) => path = root.join(target.strip_prefix("/").unwrap_or(target)),
            None => path.push(target),
        }
    }
    Err(failed(rustix::io::Errno::LOOP))
}

/// All of a regular file that has at most `limit` bytes.
///
/// # Errors
///
/// Those of [`open`], [`Error::TooLarge`], and those of reading.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(Error::TooLarge(limit)) } else { Ok(bytes) }
}

/// Opens a regular file, if `admit` accepts it.
fn open_if(path: &Path, admit: impl FnOnce(&Stat) -> Result<(), Error>) -> Result<File, Error> {
    let named = root::name(path, OFlags::empty()).map_err(failed)?;
    open_named(&named, path, admit)
}

/// Opens what a descriptor names, if it is a regular file that `admit` likes. `path` leads there as well.
fn open_named(
    named: &OwnedFd,
    path: &Path,
    admit: impl FnOnce(&Stat) -> Result<(), Error>,
) -> Result<File, Error> {
    let found = fstat(named).map_err(failed)?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => admit(&found)?,
        other => return Err(Error::NotRegular(name_of(other))),
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let open = |path: &Path| openat(CWD, path, flags, Mode::empty());
    let through = format!("/proc/self/fd/{}", named.as_raw_fd());
    // Without /proc, by its name: that it is still the same file is seen afterwards.
    let file = open(Path::new(&through)).or_else(|_| open(path)).map_err(failed)?;
    let opened = fstat(&file).map_err(failed)?;
    let is_same = (opened.st_dev, opened.st_ino) == (found.st_dev, found.st_ino);
    if is_same { Ok(file.into()) } else { Err(Error::Another) }
}

fn failed(errno: rustix::io::Errno) -> Error {
    Error::Io(errno.into())
}

/// The kind of a file that is not a regular one.
fn name_of(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a folder",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        _ => "no regular file",
    }
}

#[cfg(test)]
mod threads {
    fn is_shared<T: Send + Sync>() {}

    #[test]
    fn the_main_types_go_from_thread_to_thread() {
        is_shared::<crate::Error>();
    }
}
