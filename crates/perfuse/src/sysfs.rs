//! Files of sysfs and their like that were needed: PMUs by their names, and errors that say which file was missing.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::pmu::{DEVICES, Format, Pmu};
use perfuse_abi::EventType;
use perfuse_sys::Errno;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

impl Pmu {
    /// The PMU of this name; the error tells if there is none.
    pub fn named(name: &str) -> Result<Self> {
        let path = Path::new(DEVICES).join(name).join("type");
        if name.is_empty() || name.contains('/') {
            return Err(Error::new(Call::File { path }, Errno::ENOENT));
        }
        let text = read(path.clone())?;
        let number = text.trim().parse().map_err(|_| Error::new(Call::File { path }, Errno::EINVAL))?;
        Ok(Pmu::new(name, EventType(number)))
    }

    /// Every PMU of this machine, by name.
    pub fn all() -> Result<Vec<Self>> {
        Self::list().map_err(|e| file_error(DEVICES.into(), Some(&e)))
    }

    /// Where the bits of a term go.
    pub fn format(&self, term: &str) -> Result<Format> {
        let path = self.dir().join("format").join(term);
        let text = read(path.clone())?;
        Format::parse(&text).ok_or_else(|| Error::new(Call::File { path }, Errno::EINVAL))
    }
}

pub(crate) fn read(path: PathBuf) -> Result<String> {
    fs::read_to_string(&path).map_err(|e| file_error(path, Some(&e)))
}

/// The error of a file that cannot be read.
pub(crate) fn file_error(path: PathBuf, error: Option<&io::Error>) -> Error {
    let errno = error.and_then(io::Error::raw_os_error).map_or(Errno::EIO, Errno);
    Error::new(Call::File { path }, errno)
}
