//! Cgroups of version 2: those of a thread, and the one that a descriptor has open. Their ids are the kernel's, which are the numbers
//! of their directories.

use crate::proc;
use crate::ptrace::Tid;
use perfuse_proc::Status;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Where a file system of this type is mounted, by one of the rows of `mountinfo` (proc(5)): its place, and what of it is there.
fn mounted(mounts: &str, wanted: impl Fn(&str) -> bool) -> Option<(&str, &str)> {
    let mut rows = mounts.lines().filter(|row| row.contains(" - cgroup2 "));
    let mut words = rows.find(|row| wanted(row))?.split(' ').skip(3);
    let root = words.next()?;
    Some((words.next()?, root))
}

/// The directories of a thread's cgroup and those above it, from the root on: those that are mounted here.
fn directories(mounts: &str, told: &str) -> Option<Vec<PathBuf>> {
    let path = told.lines().find_map(|line| line.strip_prefix("0::"))?;
    let (place, root) = mounted(mounts, |_| true)?;
    let path = Path::new(path).strip_prefix(root).ok()?;
    // A cgroup beside those that are seen here.
    if path.components().any(|part| part.as_os_str() == "..") {
        return None;
    }
    let mut directories: Vec<PathBuf> = path.ancestors().map(|part| Path::new(place).join(part)).collect();
    directories.reverse();
    Some(directories)
}

/// The ids of a thread's cgroup and those above it, from the root on; none where they are not seen.
pub(crate) fn of(tid: Tid) -> Vec<u64> {
    static MOUNTS: OnceLock<String> = OnceLock::new();
    let mounts = MOUNTS.get_or_init(|| proc::mounts(proc::own_tid()));
    let told = std::fs::read_to_string(format!("/proc/{tid}/cgroup")).unwrap_or_default();
    let id = |directory: PathBuf| std::fs::metadata(directory).ok().map(|directory| directory.ino());
    directories(mounts, &told).and_then(|all| all.into_iter().map(id).collect()).unwrap_or_default()
}

/// The id of the cgroup whose directory a thread's descriptor has open. Files of other systems are not asked: they may be
/// of somebody who never answers. A descriptor of ours holds the file, as other threads can give the number to another one.
pub(crate) fn behind(tid: Tid, fd: i32) -> Option<u64> {
    let named =
        File::options().read(true).custom_flags(libc::O_PATH).open(format!("/proc/{tid}/fd/{fd}")).ok()?;
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", named.as_raw_fd())).ok()?;
    let mount = Status(&info).field("mnt_id")?;
    mounted(&proc::mounts(tid), |row| row.split(' ').next() == Some(mount))?;
    Some(named.metadata().ok().filter(|file| file.is_dir())?.ino())
}

/// The number of a cgroup in an array of cgroups. The rest of an id says how often its number was another's before.
pub(crate) fn handle(id: u64) -> u32 {
    id as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_found_below_their_mount() {
        let mounts = "30 24 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      31 24 0:28 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n";
        let paths = |mounts: &str, told: &str| {
            let found = directories(mounts, told)?;
            Some(found.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" "))
        };
        let all = paths(mounts, "4:cpu:/x\n0::/a/b\n").expect("they are mounted");
        assert_eq!(all, "/sys/fs/cgroup/unified/ /sys/fs/cgroup/unified/a /sys/fs/cgroup/unified/a/b");
        assert_eq!(paths(mounts, "0::/\n").as_deref(), Some("/sys/fs/cgroup/unified/"));
        assert_eq!(
            [paths(mounts, "0::/../b\n"), paths(mounts, "4:cpu:/x\n"), paths("", "0::/\n")],
            [None, None, None]
        );
        // That of a container, without a namespace for cgroups.
        let part = "31 24 0:28 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        assert_eq!(paths(part, "0::/docker/1/a\n").as_deref(), Some("/sys/fs/cgroup/ /sys/fs/cgroup/a"));
        assert_eq!(paths(part, "0::/system.slice\n"), None);
    }
}
