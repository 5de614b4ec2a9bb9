//! Error numbers by name: a kernel's answer, before anybody interprets it.

use core::fmt;

/// The error number of a failed call, as `asm-generic/errno.h` numbers them: the numbers of all
/// architectures but alpha, mips, parisc and sparc.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

/// Declares the constants, their names and their texts in one list.
macro_rules! errnos {
    ($($name:ident $number:literal $text:literal;)+) => {
        #[allow(missing_docs, reason = "the names are errno(3)'s")]
        impl Errno {
            $(pub const $name: Errno = Errno($number);)+

            /// The symbolic name, such as `EACCES`; `None` for a number this crate has no name for.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some(stringify!($name)),)+
                    _ => None,
                }
            }

            /// Its meaning in words, such as "Permission denied".
            pub const fn text(self) -> &'static str {
                match self.0 {
                    $($number => $text,)+
                    _ => "Unknown error",
                }
            }
        }
    };
}

errnos! {
    EPERM 1 "Operation not permitted";
    ENOENT 2 "No such file or directory";
    ESRCH 3 "No such process";
    EINTR 4 "Interrupted system call";
    EIO 5 "Input/output error";
    ENXIO 6 "No such device or address";
    E2BIG 7 "Argument list too long";
    ENOEXEC 8 "Exec format error";
    EBADF 9 "Bad file descriptor";
    ECHILD 10 "No child processes";
    EAGAIN 11 "Resource temporarily unavailable";
    ENOMEM 12 "Cannot allocate memory";
    EACCES 13 "Permission denied";
    EFAULT 14 "Bad address";
    EBUSY 16 "Device or resource busy";
    EEXIST 17 "File exists";
    EXDEV 18 "Invalid cross-device link";
    ENODEV 19 "No such device";
    ENOTDIR 20 "Not a directory";
    EISDIR 21 "Is a directory";
    EINVAL 22 "Invalid argument";
    ENFILE 23 "Too many open files in system";
    EMFILE 24 "Too many open files";
    ENOTTY 25 "Inappropriate ioctl for device";
    EFBIG 27 "File too large";
    ENOSPC 28 "No space left on device";
    ESPIPE 29 "Illegal seek";
    EROFS 30 "Read-only file system";
    EMLINK 31 "Too many links";
    EPIPE 32 "Broken pipe";
    ERANGE 34 "Numerical result out of range";
    EDEADLK 35 "Resource deadlock avoided";
    ENAMETOOLONG 36 "File name too long";
    ENOSYS 38 "Function not implemented";
    ELOOP 40 "Too many levels of symbolic links";
    ENODATA 61 "No data available";
    EPROTO 71 "Protocol error";
    EOVERFLOW 75 "Value too large for defined data type";
    EILSEQ 84 "Invalid or incomplete multibyte or wide character";
    EOPNOTSUPP 95 "Operation not supported";
    ETIMEDOUT 110 "Connection timed out";
    ESTALE 116 "Stale file handle";
    ECANCELED 125 "Operation canceled";
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
        write!(f, "{self:?} ({})", self.text())
    }
}

impl core::error::Error for Errno {}

#[cfg(test)]
mod tests {
    use super::Errno;
    use alloc::{format, string::ToString};

    #[test]
    fn names_and_texts() {
        assert_eq!(Errno::EACCES.to_string(), "EACCES (Permission denied)");
        assert_eq!(format!("{:?}", Errno(9999)), "errno 9999");
    }
}
