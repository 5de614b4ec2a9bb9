//! The file that a recording begins with.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Why there is no [`fresh_file`].
#[derive(Debug)]
#[non_exhaustive]
pub struct FreshFileError {
    /// The step that failed: `write`, `rename`.
    pub doing: &'static str,
    /// The file.
    pub path: PathBuf,
    /// Why not.
    pub error: io::Error,
}

impl fmt::Display for FreshFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.doing, self.path.display(), self.error)
    }
}

impl std::error::Error for FreshFileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// A file for a recording, which its owner alone may read: it holds parts of the recorded programs' memory. One that is
/// there already gets another name, with `.old` behind it, which is told.
///
/// # Errors
///
/// The old one cannot be renamed, or the new one not be opened.
pub fn fresh_file(path: &Path) -> Result<(File, Option<PathBuf>), FreshFileError> {
    let cannot = |doing, error| FreshFileError { doing, path: path.to_owned(), error };
    let mut old = None;
    if fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0) {
        let mut name = path.as_os_str().to_owned();
        name.push(".old");
        fs::rename(path, &name).map_err(|error| cannot("rename", error))?;
        old = Some(PathBuf::from(name));
    }
    let mut options = File::options();
    let file = options.create(true).truncate(true).read(true).write(true).mode(0o600).open(path);
    Ok((file.map_err(|error| cannot("write", error))?, old))
}
