//! The root folder of another process, such as one in a container: paths are looked up as that process would.

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Which files a process sees under which names: its mount namespace, and its root folder there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct View([(u64, u64); 2]);

impl View {
    /// That of a running process.
    ///
    /// # Errors
    ///
    /// There is no such process, or this user may not look into it.
    pub fn of(pid: u32) -> io::Result<Self> {
        let look = |name| fs::metadata(format!("/proc/{pid}/{name}")).map(|found| (found.dev(), found.ino()));
        Ok(View([look("ns/mnt")?, look("root/.")?]))
    }

    /// Whether a running process is known to see other files than this one.
    pub fn differs(pid: u32) -> bool {
        let views = (View::of(pid), View::of(std::process::id()));
        matches!(views, (Ok(its), Ok(own)) if its != own)
    }
}

/// A path in the root folder of a process.
pub fn in_root_of(pid: u32, path: &Path) -> PathBuf {
    Path::new("/proc").join(pid.to_string()).join("root").join(path.strip_prefix("/").unwrap_or(path))
}

/// Takes a descriptor that names a file, and opens nothing. A path below `/proc/PID/root` is looked up as that process would.
pub(crate) fn name(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
    let Some((root, inner)) = split(path) else { return openat(CWD, path, flags, Mode::empty()) };
    let folder = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    openat2(&folder, inner, flags, Mode::empty(), ResolveFlags::IN_ROOT)
}

/// The root folder of a process that a path begins with, and the rest.
pub(crate) fn split(path: &Path) -> Option<(PathBuf, &Path)> {
    let mut parts = path.components();
    let is = |part: Option<Component<'_>>, name: &str| part == Some(Component::Normal(name.as_ref()));
    let is_process = parts.next() == Some(Component::RootDir) && is(parts.next(), "proc");
    let pid = parts.next().filter(|_| is_process)?.as_os_str().to_str()?;
    let is_root = pid.bytes().all(|byte| byte.is_ascii_digit()) && is(parts.next(), "root");
    is_root.then(|| (Path::new("/proc").join(pid).join("root"), parts.as_path()))
}

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
        let root = in_root_of(self.pid, Path::new(""));
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
    fn paths_below_the_root_of_a_process() {
        let parts = |path| split(Path::new(path)).map(|(root, inner)| (root, inner.to_owned()));
        let own = |inner: &str| Some(("/proc/12/root".into(), PathBuf::from(inner)));
        assert_eq!(parts("/proc/12/root/usr/bin/ls"), own("usr/bin/ls"));
        assert_eq!(parts("//proc/12/root"), own(""));
        for path in ["proc/12/root/x", "/proc/self/root/x", "/proc/12/exe", "/proc/12", "/x/proc/12/root"] {
            assert_eq!(parts(path), None, "{path}");
        }
        assert_eq!(in_root_of(12, Path::new("/usr/bin/ls")), Path::new("/proc/12/root/usr/bin/ls"));
    }

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
