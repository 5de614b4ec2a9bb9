//! The root folder of another process, such as one in a container: paths are looked up as that process would.

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The root folder of a process.
#[derive(Debug)]
pub struct RootOf {
    folder: OwnedFd,
    pid: u32,
}

impl RootOf {
    /// That of a running process.
    ///
    /// # Errors
    ///
    /// There is no such process, or this user may not look into it.
    pub fn process(pid: u32) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(CWD, format!("/proc/{pid}/root"), flags, Mode::empty())?;
        Ok(RootOf { folder, pid })
    }

    /// The path of a file with all links followed, as the process sees it, and one by which this process can read it. Links lead
    /// nowhere out of that root.
    ///
    /// # Errors
    ///
    /// There is no such file, or this user may not see it.
    pub fn find(&self, path: &Path) -> io::Result<(PathBuf, PathBuf)> {
        let (flags, resolve) = (OFlags::PATH | OFlags::CLOEXEC, ResolveFlags::IN_ROOT);
        let found = openat2(&self.folder, path, flags, Mode::empty(), resolve)?;
        let name = fs::read_link(format!("/proc/self/fd/{}", found.as_raw_fd()))?;
        let root = PathBuf::from(format!("/proc/{}/root", self.pid));
        // A root that is a folder of this mount namespace stands before the name.
        let name = match fs::read_link(&root).ok().and_then(|root| name.strip_prefix(root).ok()) {
            Some(inner) => Path::new("/").join(inner),
            None => name,
        };
        let place = root.join(name.strip_prefix("/").unwrap_or(&name));
        Ok((name, place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_of_this_process_is_its_own() {
        let root = RootOf::process(std::process::id()).expect("its root");
        let own = std::env::current_exe().and_then(fs::canonicalize).expect("a program");
        let (name, place) = root.find(&own).expect("it is there");
        assert_eq!((&name, place.canonicalize().expect("a file")), (&own, own.clone()));
        assert!(root.find(Path::new("/no/such/file")).is_err());
        // Going up ends at the root.
        let up = Path::new("/../..").join(own.strip_prefix("/").expect("a whole path"));
        assert_eq!(root.find(&up).expect("it is there").0, own);
    }
}
