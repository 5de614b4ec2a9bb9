//! The names of errors, as the kernel's headers have them: on x86-64, arm64 and all that share `asm-generic`.

/// The number of an error.
pub(crate) fn by_name(name: &str) -> Option<u16> {
    let place = NAMES.iter().position(|known| !known.is_empty() && *known == name);
    place
        .map(|place| place as u16)
        .or_else(|| OTHERS.iter().find(|(known, ..)| *known == name).map(|(_, number, _)| *number))
}

/// The name of an error, and of those that only the kernel uses.
pub fn errno_name(number: u16) -> Option<&'static str> {
    let usual = NAMES.get(usize::from(number)).copied().filter(|name| !name.is_empty());
    usual.or_else(|| OTHERS.iter().find(|(_, other, _)| *other == number).map(|(name, ..)| *name))
}

/// What an error that only the kernel uses means to strace's readers: a call that is begun again.
pub fn errno_remark(number: u16) -> Option<&'static str> {
    OTHERS.iter().find(|(_, other, _)| *other == number).and_then(|(.., remark)| *remark)
}

const RESTARTS: Option<&str> = Some("to be restarted");

const OTHERS: [(&str, u16, Option<&str>); 7] = [
    ("EWOULDBLOCK", 11, None),
    ("ENOTSUP", 95, None),
    ("ERESTARTSYS", 512, RESTARTS),
    ("ERESTARTNOINTR", 513, RESTARTS),
    ("ERESTARTNOHAND", 514, RESTARTS),
    ("ENOIOCTLCMD", 515, None),
    ("ERESTART_RESTARTBLOCK", 516, RESTARTS),
];

/// By number, from `asm-generic/errno-base.h` and `asm-generic/errno.h`.
const NAMES: [&str; 134] = [
    "",
    "EPERM",
    "ENOENT",
    "ESRCH",
    "EINTR",
    "EIO",
    "ENXIO",
    "E2BIG",
    "ENOEXEC",
    "EBADF",
    "ECHILD",
    "EAGAIN",
    "ENOMEM",
    "EACCES",
    "EFAULT",
    "ENOTBLK",
    "EBUSY",
    "EEXIST",
    "EXDEV",
    "ENODEV",
    "ENOTDIR",
    "EISDIR",
    "EINVAL",
    "ENFILE",
    "EMFILE",
    "ENOTTY",
    "ETXTBSY",
    "EFBIG",
    "ENOSPC",
    "ESPIPE",
    "EROFS",
    "EMLINK",
    "EPIPE",
    "EDOM",
    "ERANGE",
    "EDEADLK",
    "ENAMETOOLONG",
    "ENOLCK",
    "ENOSYS",
    "ENOTEMPTY",
    "ELOOP",
    "",
    "ENOMSG",
    "EIDRM",
    "ECHRNG",
    "EL2NSYNC",
    "EL3HLT",
    "EL3RST",
    "ELNRNG",
    "EUNATCH",
    "ENOCSI",
    "EL2HLT",
    "EBADE",
    "EBADR",
    "EXFULL",
    "ENOANO",
    "EBADRQC",
    "EBADSLT",
    "",
    "EBFONT",
    "ENOSTR",
    "ENODATA",
    "ETIME",
    "ENOSR",
    "ENONET",
    "ENOPKG",
    "EREMOTE",
    "ENOLINK",
    "EADV",
    "ESRMNT",
    "ECOMM",
    "EPROTO",
    "EMULTIHOP",
    "EDOTDOT",
    "EBADMSG",
    "EOVERFLOW",
    "ENOTUNIQ",
    "EBADFD",
    "EREMCHG",
    "ELIBACC",
    "ELIBBAD",
    "ELIBSCN",
    "ELIBMAX",
    "ELIBEXEC",
    "EILSEQ",
    "ERESTART",
    "ESTRPIPE",
    "EUSERS",
    "ENOTSOCK",
    "EDESTADDRREQ",
    "EMSGSIZE",
    "EPROTOTYPE",
    "ENOPROTOOPT",
    "EPROTONOSUPPORT",
    "ESOCKTNOSUPPORT",
    "EOPNOTSUPP",
    "EPFNOSUPPORT",
    "EAFNOSUPPORT",
    "EADDRINUSE",
    "EADDRNOTAVAIL",
    "ENETDOWN",
    "ENETUNREACH",
    "ENETRESET",
    "ECONNABORTED",
    "ECONNRESET",
    "ENOBUFS",
    "EISCONN",
    "ENOTCONN",
    "ESHUTDOWN",
    "ETOOMANYREFS",
    "ETIMEDOUT",
    "ECONNREFUSED",
    "EHOSTDOWN",
    "EHOSTUNREACH",
    "EALREADY",
    "EINPROGRESS",
    "ESTALE",
    "EUCLEAN",
    "ENOTNAM",
    "ENAVAIL",
    "EISNAM",
    "EREMOTEIO",
    "EDQUOT",
    "ENOMEDIUM",
    "EMEDIUMTYPE",
    "ECANCELED",
    "ENOKEY",
    "EKEYEXPIRED",
    "EKEYREVOKED",
    "EKEYREJECTED",
    "EOWNERDEAD",
    "ENOTRECOVERABLE",
    "ERFKILL",
    "EHWPOISON",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_those_of_the_headers() {
        for (name, number) in [("EPERM", 1), ("EDEADLK", 35), ("ENOSYS", 38), ("ENOMSG", 42), ("EBFONT", 59)]
        {
            assert_eq!((by_name(name), errno_name(number)), (Some(number), Some(name)));
        }
        for (name, number) in
            [("EOPNOTSUPP", 95), ("ETIMEDOUT", 110), ("EHWPOISON", 133), ("ERESTARTSYS", 512)]
        {
            assert_eq!((by_name(name), errno_name(number)), (Some(number), Some(name)));
        }
        assert_eq!((by_name(""), errno_name(0), errno_name(41), errno_name(134)), (None, None, None, None));
    }
}
