//! Pipes as bells: a byte in them makes the reading end ready.

use crate::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::OnceLock;

/// A pipe whose ends never block: reading end, writing end. The writing end closes on exec, the reading
/// end where that is wanted.
pub fn nonblocking(close_on_exec: bool) -> Result<(OwnedFd, OwnedFd), Errno> {
    let mut ends = [0; 2];
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: the pointer is to two live ints.
    crate::errno::check(unsafe { libc::pipe2(ends.as_mut_ptr(), flags) })?;
    // SAFETY: a fresh descriptor that nobody else has.
    let reading = unsafe { OwnedFd::from_raw_fd(ends[0]) };
    // SAFETY: likewise.
    let writing = unsafe { OwnedFd::from_raw_fd(ends[1]) };
    if !close_on_exec {
        // SAFETY: F_SETFD takes a number.
        crate::errno::check(unsafe { libc::fcntl(reading.as_raw_fd(), libc::F_SETFD, 0) })?;
    }
    Ok((reading, writing))
}

/// Opens a FIFO for reading and writing, so that it opens without its other side, never blocks and never ends.
pub fn open_fifo(path: impl AsRef<Path>) -> io::Result<File> {
    File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Another writing end of a pipe, which has hung up if there was none left.
pub fn writing_end_of(reading: RawFd) -> Result<OwnedFd, Errno> {
    let end =
        File::options().write(true).custom_flags(libc::O_NONBLOCK).open(format!("/proc/self/fd/{reading}"));
    end.map(OwnedFd::from).map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EIO)))
}

/// Whether pipes get other [writing ends](writing_end_of). Found out once, by this one.
pub fn has_writing_ends(reading: RawFd) -> bool {
    static HAVE: OnceLock<bool> = OnceLock::new();
    *HAVE.get_or_init(|| writing_end_of(reading).is_ok())
}

/// Puts a byte in. Whether there is one now: a full pipe has some, one without a reader takes none.
pub fn put(writing: BorrowedFd<'_>) -> bool {
    // SAFETY: one byte of a live array is read.
    let put = unsafe { libc::write(writing.as_raw_fd(), [0u8].as_ptr().cast(), 1) };
    put == 1 || crate::errno::last() == Errno::EAGAIN
}

/// Takes out what is in it.
pub fn drain(reading: BorrowedFd<'_>) {
    let mut bytes = [0u8; 64];
    loop {
        // SAFETY: pointer and length are those of a live array.
        let got = unsafe { libc::read(reading.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
        if got < bytes.len() as isize {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::poll;
    use std::os::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn a_byte_is_readiness_and_the_end_a_hangup() {
        let (reading, writing) = nonblocking(true).expect("a pipe");
        let ready = || poll(&[reading.as_fd()], Some(Duration::ZERO)).expect("poll")[0];
        assert!(!ready().any());
        assert!(put(writing.as_fd()) && put(writing.as_fd()));
        assert!(ready().readable);
        drain(reading.as_fd());
        assert!(!ready().any());
        drop(writing);
        assert!(ready().hangup);
        if has_writing_ends(reading.as_raw_fd()) {
            let _writing = writing_end_of(reading.as_raw_fd()).expect("another end");
            assert!(!ready().any());
        }
    }
}
