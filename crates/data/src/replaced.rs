//! A file that is there when it is whole, and not before.

use crate::fresh::FreshFileError;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A new file, which its owner alone may read, that takes its place, and that of a file there, at
/// [`commit`](Self::commit). Without that nothing is changed: on Linux the file has no name until then, where the
/// filesystem can do so; elsewhere one in the same folder that begins with a dot, which is removed when this is dropped.
#[derive(Debug)]
#[must_use = "without `commit` the file is gone"]
pub struct ReplacedFile {
    file: File,
    path: PathBuf,
    /// Its name until it takes its place.
    temporary: PathBuf,
    has_name: bool,
}

impl ReplacedFile {
    /// A file for `path`; of a symbolic link, for the file that it points to.
    ///
    /// # Errors
    ///
    /// The folder is not there, or nobody may write there.
    pub fn new(path: &Path) -> Result<Self, FreshFileError> {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let cannot = |error| FreshFileError { doing: "write", path: path.clone(), error };
        let Some(name) = path.file_name() else {
            return Err(cannot(io::ErrorKind::IsADirectory.into()));
        };
        if path.is_dir() {
            return Err(cannot(io::ErrorKind::IsADirectory.into()));
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut options = File::options();
        options.read(true).write(true).mode(0o600);
        for number in 0..100u32 {
            let mut temporary = std::ffi::OsString::from(".");
            temporary.push(name);
            temporary.push(format!(".{}-{number}.part", std::process::id()));
            let temporary = folder.join(temporary);
            if let Some(file) = nameless(&options, folder) {
                return Ok(ReplacedFile { file, path, temporary, has_name: false });
            }
            match options.create_new(true).open(&temporary) {
                Ok(file) => return Ok(ReplacedFile { file, path, temporary, has_name: true }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(cannot(error)),
            }
        }
        Err(cannot(io::ErrorKind::AlreadyExists.into()))
    }

    /// The file, to be written.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    ///
    /// It cannot be named or renamed; then the place is as it was.
    pub fn commit(mut self) -> Result<(), FreshFileError> {
        let result = self.name().and_then(|()| fs::rename(&self.temporary, &self.path));
        self.has_name &= result.is_err();
        result.map_err(|error| FreshFileError { doing: "write", path: self.path.clone(), error })
    }

    /// Gives a name to a file that has none.
    #[cfg(target_os = "linux")]
    fn name(&mut self) -> io::Result<()> {
        use rustix::fs::{AtFlags, CWD, linkat};
        use std::os::fd::AsRawFd;
        if !self.has_name {
            let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            linkat(CWD, own, CWD, &self.temporary, AtFlags::SYMLINK_FOLLOW)?;
            self.has_name = true;
        }
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    fn name(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for ReplacedFile {
    fn drop(&mut self) {
        if self.has_name {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// A file without a name, where there can be one and it can be named later.
#[cfg(target_os = "linux")]
fn nameless(options: &fs::OpenOptions, folder: &Path) -> Option<File> {
    let flags = rustix::fs::OFlags::TMPFILE.bits();
    let is_named_later = Path::new("/proc/self/fd").is_dir();
    let mut options = options.clone();
    options.create_new(false).custom_flags(i32::try_from(flags).ok()?);
    is_named_later.then(|| options.open(folder).ok()).flatten()
}

#[cfg(not(target_os = "linux"))]
fn nameless(_: &fs::OpenOptions, _: &Path) -> Option<File> {
    None
}

#[cfg(test)]
mod tests {
    use super::ReplacedFile;
    use std::fs;
    use std::io::Write;

    #[test]
    fn a_file_is_there_when_it_is_whole() {
        let folder = std::env::temp_dir().join(format!("perfuse-replaced-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a");
        fs::write(&path, "old").unwrap();
        let names = || fs::read_dir(&folder).unwrap().count();

        let mut given_up = ReplacedFile::new(&path).unwrap();
        given_up.file().write_all(b"half").unwrap();
        drop(given_up);
        assert_eq!((fs::read(&path).unwrap(), names()), (b"old".to_vec(), 1));

        let mut new = ReplacedFile::new(&path).unwrap();
        new.file().write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        new.commit().unwrap();
        assert_eq!((fs::read(&path).unwrap(), names()), (b"new".to_vec(), 1));

        assert!(ReplacedFile::new(&folder).is_err());
        assert!(ReplacedFile::new(&folder.join("none/a")).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
