//! Kinds of files that a name can lead to.

use perfuse_files::{Error, Owners, open, open_inode, open_of, read};
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// A folder for a test's files, which goes with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("files-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for the test's files");
        Scratch(folder)
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).expect("it can be written");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn refusal(path: &Path) -> String {
    open(path).expect_err("it is refused").to_string()
}

#[test]
fn only_regular_files_are_opened_and_none_is_waited_for() {
    let scratch = Scratch::new("kinds");
    let fifo = scratch.0.join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).expect("a FIFO");
    // Nobody will ever write to it: opening it would wait for ever.
    assert_eq!(refusal(&fifo), "it is a FIFO, and only regular files are read");
    let link = scratch.0.join("link");
    symlink(&fifo, &link).expect("a link");
    assert_eq!(refusal(&link), "it is a FIFO, and only regular files are read");
    let socket = scratch.0.join("socket");
    let _listener = UnixListener::bind(&socket).expect("a socket");
    assert_eq!(refusal(&socket), "it is a socket, and only regular files are read");
    assert_eq!(refusal(Path::new("/dev/zero")), "it is a character device, and only regular files are read");
    assert_eq!(refusal(&scratch.0), "it is a folder, and only regular files are read");
    assert!(
        matches!(open(&scratch.0.join("none")), Err(Error::Io(error)) if error.kind() == std::io::ErrorKind::NotFound)
    );
    let file = scratch.file("file", "content");
    let link = scratch.0.join("link to a file");
    symlink(&file, &link).expect("a link");
    for path in [&file, &link] {
        let mut text = String::new();
        open(path).expect("a regular file").read_to_string(&mut text).expect("it can be read");
        assert_eq!(text, "content");
    }
    assert!(open(Path::new("/proc/self/status")).is_ok());
}

#[test]
fn a_file_is_told_by_its_inode() {
    let scratch = Scratch::new("inodes");
    let (one, other) = (scratch.file("one", "1"), scratch.file("other", "2"));
    let found = fs::metadata(&one).expect("it is there");
    let device = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
    assert!(open_inode(&one, device, found.ino()).is_ok());
    assert!(open_inode(&one, (0, 77), found.ino()).is_ok(), "a device of a layer");
    assert!(matches!(open_inode(&other, device, found.ino()), Err(Error::Another)));
    if device.0 != 0 {
        assert!(matches!(open_inode(&one, (device.0 + 1, device.1), found.ino()), Err(Error::Another)));
    }
}

#[test]
fn files_of_others_are_not_believed() {
    let scratch = Scratch::new("owners");
    let own = scratch.file("own", "");
    let nobody = Owners::Trusted { also: None };
    assert!(open_of(&own, nobody).is_ok());
    if !rustix::process::geteuid().is_root() {
        return; // Only root can make a file that is another's.
    }
    let other = scratch.file("another's", "");
    std::os::unix::fs::chown(&other, Some(65534), None).expect("root may");
    let refused = open_of(&other, nobody).expect_err("another's");
    assert_eq!(
        refused.to_string(),
        "it belongs to user 65534, and only files of root and of the user who reads them are believed"
    );
    assert!(matches!(open_of(&other, Owners::Trusted { also: Some(1) }), Err(Error::OfAnother(65534))));
    assert!(open_of(&other, Owners::Trusted { also: Some(65534) }).is_ok());
    assert!(open_of(&other, Owners::Any).is_ok());
}

/// A link of a stranger's leads to a file of root's, which the reader may read and the stranger may not.
#[test]
fn links_of_others_are_not_believed() {
    let scratch = Scratch::new("links");
    let own = scratch.file("own", "secret");
    let nobody = Owners::Trusted { also: None };
    let (first, second) = (scratch.0.join("first"), scratch.0.join("second"));
    std::os::unix::fs::symlink("own", &first).expect("a link");
    std::os::unix::fs::symlink(&first, &second).expect("a link");
    for link in [&first, &second] {
        assert!(open_of(link, nobody).is_ok());
    }
    let round = scratch.0.join("round");
    std::os::unix::fs::symlink("round", &round).expect("a link");
    assert!(matches!(open_of(&round, nobody), Err(Error::Io(_))));
    let device = scratch.0.join("device");
    std::os::unix::fs::symlink("/dev/null", &device).expect("a link");
    assert!(matches!(open_of(&device, nobody), Err(Error::NotRegular("a character device"))));
    if !rustix::process::geteuid().is_root() {
        return; // Only root can make a link that is another's.
    }
    std::os::unix::fs::lchown(&first, Some(65534), None).expect("root may");
    for link in [&first, &second] {
        assert!(matches!(open_of(link, nobody), Err(Error::OfAnother(65534))));
        assert!(open_of(link, Owners::Any).is_ok() && open_of(&own, nobody).is_ok());
    }
}

#[test]
fn a_file_is_read_to_a_limit() {
    let scratch = Scratch::new("limits");
    let file = scratch.file("file", "four");
    assert_eq!(read(&file, 4).expect("no more than that"), b"four");
    assert!(matches!(read(&file, 3), Err(Error::TooLarge(3))));
    // Larger than any disk, and its length says nothing of what is read.
    let huge = scratch.file("huge", "");
    fs::File::options()
        .write(true)
        .open(&huge)
        .and_then(|file| file.set_len(1 << 40))
        .expect("a sparse file");
    assert!(matches!(read(&huge, 1 << 16), Err(Error::TooLarge(_))));
}
