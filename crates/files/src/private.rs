//! Files that are this user's alone: nobody else may read them or write to them, so that he finds there what he has written.

use crate::{Error, open_if};
use rustix::process::geteuid;
use std::fs::{self, DirBuilder, DirEntry, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Rights of the group and of others.
const OF_OTHERS: u32 = 0o077;
/// The right of everybody to write.
const WRITES_OF_ALL: u32 = 0o002;

/// A regular file that belongs to this user and gives nobody else any right.
///
/// # Errors
///
/// Those of [`open`](crate::open), [`Error::OfAnother`], [`Error::NotPrivate`].
pub fn open_private(path: &Path) -> Result<File, Error> {
    open_if(path, |found| match found.st_uid == geteuid().as_raw() {
        false => Err(Error::OfAnother(found.st_uid)),
        true if found.st_mode & OF_OTHERS != 0 => Err(Error::NotPrivate),
        true => Ok(()),
    })
}

/// Writes a file that gives nobody else any right, at once: a reader has the whole file, of before or of now. Folders that
/// are missing are made. In a folder of another user, or one that everybody writes to, nothing is made.
///
/// # Errors
///
/// Those of making folders and of writing; [`io::ErrorKind::PermissionDenied`] for such a folder.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let there = folder.ancestors().find(|folder| folder.exists()).unwrap_or(folder);
    is_own(there)?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    is_own(folder)?;
    let mut new = name.to_owned();
    new.push(format!(".{}.new", std::process::id()));
    let new = folder.join(new);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = file.write_all(bytes).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

/// Removes files whose names begin so from a folder until the others take no more than that many bytes, the ones that were written first.
pub fn remove_oldest(folder: &Path, beginning: &str, most_bytes: u64) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let is_meant = |entry: &DirEntry| entry.file_name().as_bytes().starts_with(beginning.as_bytes());
    let mut files: Vec<_> = entries
        .flatten()
        .filter(is_meant)
        .filter_map(|entry| {
            let found = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some(((found.mtime(), found.mtime_nsec()), found.len(), entry.path()))
        })
        .collect();
    files.sort_unstable();
    let mut bytes: u64 = files.iter().map(|(_, len, _)| len).sum();
    for (_, len, path) in files {
        if bytes <= most_bytes {
            break;
        }
        bytes -= len;
        let _ = fs::remove_file(path);
    }
}

fn is_own(folder: &Path) -> io::Result<()> {
    let found = fs::metadata(folder)?;
    let is_own = found.uid() == geteuid().as_raw() && found.mode() & WRITES_OF_ALL == 0;
    if is_own { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("perfuse-private-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            DirBuilder::new().mode(0o700).create(&path).expect("a folder");
            Scratch(path)
        }

        fn allow(&self, name: &str, mode: u32) {
            fs::set_permissions(self.0.join(name), fs::Permissions::from_mode(mode)).expect("rights");
        }
    }

    fn read(path: &Path) -> Vec<u8> {
        let mut bytes = Vec::new();
        open_private(path).expect("it is ours").read_to_end(&mut bytes).expect("read");
        bytes
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_written_file_is_read_by_its_user_and_nobody_else_has_rights() {
        let scratch = Scratch::new("written");
        let path = scratch.0.join("a/b/kept");
        for text in [&b"first"[..], b"second"] {
            write_private(&path, text).expect("written");
            assert_eq!(read(&path), text);
        }
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(scratch.0.join("a")).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else stays");
    }

    #[test]
    fn a_file_that_others_may_read_or_write_is_not_believed() {
        let scratch = Scratch::new("open");
        fs::write(scratch.0.join("kept"), "text").expect("written");
        for mode in [0o644, 0o620, 0o602, 0o601] {
            scratch.allow("kept", mode);
            assert!(matches!(open_private(&scratch.0.join("kept")), Err(Error::NotPrivate)), "{mode:o}");
        }
        scratch.allow("kept", 0o400);
        assert_eq!(read(&scratch.0.join("kept")), b"text");
        fs::create_dir(scratch.0.join("folder")).expect("a folder");
        assert!(matches!(open_private(&scratch.0.join("folder")), Err(Error::NotRegular("a folder"))));
    }

    #[test]
    fn nothing_is_written_where_everybody_writes() {
        let scratch = Scratch::new("others");
        fs::create_dir(scratch.0.join("all")).expect("a folder");
        scratch.allow("all", 0o777);
        for path in ["all/kept", "all/below/kept"] {
            let refused = write_private(&scratch.0.join(path), b"text").expect_err("anybody writes there");
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{path}");
        }
        assert_eq!(fs::read_dir(scratch.0.join("all")).unwrap().count(), 0);
        // A link in the way is replaced, and what it leads to stays.
        fs::write(scratch.0.join("other"), "other").expect("written");
        symlink("other", scratch.0.join("kept")).expect("a link");
        write_private(&scratch.0.join("kept"), b"text").expect("written");
        assert_eq!(fs::read(scratch.0.join("other")).unwrap(), b"other");
        assert_eq!(read(&scratch.0.join("kept")), b"text");
    }

    #[test]
    fn the_oldest_files_of_a_name_make_room() {
        let scratch = Scratch::new("room");
        for number in 0..5u64 {
            let file = File::create(scratch.0.join(format!("lines-{number}"))).expect("a file");
            file.set_len(100).expect("room");
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000 - number);
            file.set_modified(time).expect("a time");
        }
        fs::write(scratch.0.join("other"), "other").expect("written");
        remove_oldest(&scratch.0, "lines-", 450);
        let mut left: Vec<_> =
            fs::read_dir(&scratch.0).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
        left.sort();
        assert_eq!(left, ["lines-0", "lines-1", "lines-2", "lines-3", "other"]);
    }
}
