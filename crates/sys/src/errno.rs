//! Error numbers by name: the kernel's answer, before anybody interprets it.

use std::{fmt, io};

/// The error number of a failed call.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

/// Declares the constants and their names in one list.
macro_rules! errnos {
    ($($name:ident)+) => {
        #[allow(missing_docs, reason = "the names are errno(3)'s")]
        impl Errno {
            $(pub const $name: Errno = Errno(libc::$name);)+
        }

        impl Errno {
            /// The symbolic name, such as `EACCES`; `None` for a number this crate has no name for.
            pub fn name(self) -> Option<&'static str> {
                $(if self == Errno::$name {
                    return Some(stringify!($name));
                })+
                None
            }
        }
    };
}

errnos! {
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT EBUSY
    EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY EFBIG ENOSPC ESPIPE EROFS EMLINK
    EPIPE ERANGE EDEADLK ENAMETOOLONG ENOSYS ELOOP ENODATA EOVERFLOW EOPNOTSUPP ETIMEDOUT ESTALE
    ECANCELED
}

impl Errno {
    /// The number the last failed call on this thread left behind.
    pub(crate) fn last() -> Errno {
        Errno(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }

    /// Turns C's -1 into an error, and any other result into itself.
    pub(crate) fn check(result: libc::c_int) -> Result<libc::c_int, Errno> {
        if result == -1 { Err(Errno::last()) } else { Ok(result) }
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
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl fmt::Display for Errno {
    /// "EACCES (Permission denied)".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = io::Error::from_raw_os_error(self.0).to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        write!(f, "{self:?} ({text})")
    }
}

impl std::error::Error for Errno {}

impl From<Errno> for io::Error {
    fn from(errno: Errno) -> Self {
        io::Error::from_raw_os_error(errno.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Errno;

    #[test]
    fn names_and_texts() {
        assert_eq!(Errno::EACCES.to_string(), "EACCES (Permission denied)");
        assert_eq!(format!("{:?}", Errno(9999)), "errno 9999");
    }
}
