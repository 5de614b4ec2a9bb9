//! The error number that the last call left behind.

use perfuse_abi::Errno;
use std::io;

/// The number the last failed call on this thread left behind.
pub(crate) fn last() -> Errno {
    Errno(io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

/// Turns C's -1 into an error, and any other result into itself.
pub(crate) fn check(result: libc::c_int) -> Result<libc::c_int, Errno> {
    if result == -1 { Err(last()) } else { Ok(result) }
}

/// The number of an error of rustix.
pub(crate) fn of(errno: rustix::io::Errno) -> Errno {
    Errno(errno.raw_os_error())
}

/// Repeats a call that a signal interrupted.
pub(crate) fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            result => return result,
        }
    }
}

/// The error of the standard library with this number.
pub fn io_error(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.0)
}
