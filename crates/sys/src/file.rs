//! Questions to file systems and files that the standard library does not ask.

use rustix::fs::{StatVfsMountFlags, getxattr, statvfs};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::path::Path;

/// The capabilities that exec of a file gives: its attribute `security.capability`, a `struct vfs_ns_cap_data`. `None` where it
/// has none.
pub fn capabilities(path: &Path) -> Option<Vec<u8>> {
    let mut data = vec![0; 24];
    let got = getxattr(path, c"security.capability", &mut data[..]).ok()?;
    data.truncate(got);
    Some(data)
}

/// Whether a file is where exec gives no rights.
pub fn is_nosuid(path: &Path) -> bool {
    statvfs(path).is_ok_and(|about| about.f_flag.contains(StatVfsMountFlags::NOSUID))
}

/// Reads from a place of a file, by the number of its descriptor; whether there were so many bytes. Async-signal-safe.
pub fn read_exact_at(fd: RawFd, into: &mut [u8], at: u64) -> bool {
    // SAFETY: pointer and length are those of a live slice.
    let got = unsafe { libc::pread(fd, into.as_mut_ptr().cast(), into.len(), at as libc::off_t) };
    got == into.len() as isize
}

/// Writes to a place of a file, by the number of its descriptor; whether all was written. Async-signal-safe.
pub fn write_all_at(fd: RawFd, from: &[u8], at: u64) -> bool {
    // SAFETY: pointer and length are those of a live slice.
    let put = unsafe { libc::pwrite(fd, from.as_ptr().cast(), from.len(), at as libc::off_t) };
    put == from.len() as isize
}

/// The namespace above one, of pids or of users (`NS_GET_PARENT`); `None` above this process's own.
pub fn parent_namespace(namespace: &File) -> Option<File> {
    const GET_PARENT: u64 = 0xb702;
    // SAFETY: a plain number.
    let parent = unsafe { libc::ioctl(namespace.as_raw_fd(), GET_PARENT as _) };
    // SAFETY: a fresh descriptor that nobody else has.
    (parent != -1).then(|| unsafe { File::from_raw_fd(parent) })
}
