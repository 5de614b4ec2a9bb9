//! The tracing file system, as far as opening events needs it: where it is and which id a tracepoint
//! has.

use crate::error::{Call, Error, Result};
use perfuse_sys::Errno;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where Linux puts it, and where older systems mount it.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The first place whose `events` folder can be listed; where none can, the error of the usual place
/// (the file system is not mounted, or may not be read).
pub fn root() -> Result<PathBuf> {
    let found = PLACES.iter().map(Path::new).find(|place| fs::read_dir(place.join("events")).is_ok());
    match found {
        Some(place) => Ok(place.to_path_buf()),
        None => {
            let path = Path::new(PLACES[0]).join("events");
            let error = fs::read_dir(&path).err();
            Err(file_error(path, error.as_ref()))
        }
    }
}

/// The id of the tracepoint `system:name`: `config` of its event.
pub fn tracepoint_id(system: &str, name: &str) -> Result<u64> {
    let outside = |part: &str| part.is_empty() || part.contains('/') || part.starts_with('.');
    let place = |root: &Path| root.join("events").join(system).join(name).join("id");
    if outside(system) || outside(name) {
        return Err(Error::new(Call::File { path: place(Path::new(PLACES[0])) }, Errno::ENOENT));
    }
    // Tried directly first: one open in place of listing a folder.
    let mut failure = None;
    for path in PLACES.map(|root| place(Path::new(root))) {
        match fs::read_to_string(&path) {
            Ok(text) => {
                let id = text.trim().parse();
                return id.map_err(|_| Error::new(Call::File { path }, Errno::EINVAL));
            }
            Err(error) if failure.is_none() => failure = Some(file_error(path, Some(&error))),
            Err(_) => {}
        }
    }
    // No such file: because there is no such tracepoint, or because nothing is mounted there?
    root()?;
    Err(failure.expect("both places were tried"))
}

pub(crate) fn file_error(path: PathBuf, error: Option<&io::Error>) -> Error {
    let errno = error.and_then(io::Error::raw_os_error).map_or(Errno::EIO, Errno);
    Error::new(Call::File { path }, errno)
}
