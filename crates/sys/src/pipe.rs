//! Pipes as bells: a byte in them makes the reading end ready.

use crate::Errno;
use crate::errno::of;
use rustix::io::{FdFlags, fcntl_setfd, read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::OnceLock;

/// A pipe whose ends never block: reading end, writing end. The writing end closes on exec, the reading
/// end where that is wanted.
pub fn nonblocking(close_on_exec: bool) -> Result<(OwnedFd, OwnedFd), Errno> {
    let (reading, writing) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(of)?;
    if !close_on_exec {
        fcntl_setfd(&reading, FdFlags::empty()).map_err(of)?;
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
    matches!(write(writing, &[0]), Ok(1) | Err(rustix::io::Errno::AGAIN))
}

/// Takes out what is in it.
pub fn drain(reading: BorrowedFd<'_>) {
    let mut bytes = [0u8; 64];
    while read(reading, &mut bytes).is_ok_and(|got| got == bytes.len()) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::poll;
    use std::os::fd::{AsFd, AsRawFd};
    use std::time::Duration;

    #[test]
    fn a_bell_that_rang_often_is_silent_once_it_was_heard() {
        let (reading, writing) = nonblocking(true).expect("a pipe");
        assert!((0..1000).all(|_| put(writing.as_fd())));
        drain(reading.as_fd());
        assert!(!poll(&[reading.as_fd()], Some(Duration::ZERO)).expect("poll")[0].any());
    }

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
