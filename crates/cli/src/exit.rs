//! How the program ends: the exit statuses, and what is said on standard error when it fails.

use crate::term::{number, out};
use perfuse::Errno;
use std::fmt::{self, Display};
use std::io;
use std::process::ExitCode;

/// The result of a subcommand: the exit status it asks for.
pub(crate) type Result<T = ExitCode> = std::result::Result<T, Failure>;

/// perfuse itself failed.
pub(crate) const FAILED: u8 = 125;
/// The command exists but cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// There is no such command.
pub(crate) const NOT_FOUND: u8 = 127;
/// As if SIGPIPE had ended it.
const UNREAD: u8 = 128 + 13;
/// The command line is wrong.
const USAGE: u8 = 2;

/// A message, or a line of one, longer than this goes on in the next line.
const LONG: usize = 150;

/// Ends the program: its screen is over, and nobody waits for what another thread still reads.
pub(crate) fn left(shown: &io::Result<()>) {
    std::process::exit(if shown.is_ok() { 0 } else { FAILED.into() })
}

/// Why the program ends without having done what was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    status: u8,
    /// The text behind "perfuse: " on standard error; an empty one is not printed at all.
    text: String,
}

impl Failure {
    /// A failure of perfuse itself, status 125.
    pub(crate) fn new(text: impl Display) -> Self {
        Failure { status: FAILED, text: text.to_string() }
    }

    /// A wrong command line, status 2.
    pub(crate) fn usage(text: impl Display) -> Self {
        Failure::new(text).with_status(USAGE)
    }

    /// A command that cannot be executed, status 126 or 127.
    pub(crate) fn not_started(error: perfuse::Error) -> Self {
        let status = status_of_start(error.errno());
        Failure::from(error).with_status(status)
    }

    /// The command line is wrong, or what stands for a part of it.
    pub(crate) fn is_usage(&self) -> bool {
        self.status == USAGE
    }

    /// Nobody reads the output any more.
    pub(crate) fn is_unread(&self) -> bool {
        self.status == UNREAD && self.text.is_empty()
    }

    /// The same with another exit status.
    pub(crate) fn with_status(self, status: u8) -> Self {
        Failure { status, ..self }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<perfuse::Error> for Failure {
    /// The error with its cause and its remedies.
    fn from(error: perfuse::Error) -> Self {
        Failure::new(format_args!("{error:#}"))
    }
}

impl From<perfuse::control::ControlError> for Failure {
    fn from(error: perfuse::control::ControlError) -> Self {
        match error {
            perfuse::control::ControlError::Form(_) => Failure::usage(error),
            error => Failure::new(error),
        }
    }
}

impl From<perfuse_trace::ExprError> for Failure {
    /// With the place.
    fn from(error: perfuse_trace::ExprError) -> Self {
        Failure::usage(error.explain())
    }
}

impl From<perfuse_record::Error> for Failure {
    fn from(error: perfuse_record::Error) -> Self {
        use perfuse_record::Error;
        match error {
            Error::Perf(error) => error.into(),
            Error::Start(error) => Failure::not_started(error),
            Error::Plan(words) => Failure::usage(words),
            Error::Io(error) => error.into(),
            Error::Stream(error) if error.kind() == io::ErrorKind::BrokenPipe => error.into(),
            Error::File { doing, path, error, written: None } => {
                Failure::new(format_args!("cannot {doing} {}: {}", path.display(), reason(&error)))
            }
            Error::File { doing, path, error, written: Some(size) } => Failure::new(format_args!(
                "cannot {doing} {}: {}, after {}; what was written can be read",
                path.display(),
                reason(&error),
                number::bytes(size as f64)
            )),
            error => Failure::new(error),
        }
    }
}

impl From<perfuse_stat::Error> for Failure {
    fn from(error: perfuse_stat::Error) -> Self {
        use perfuse_stat::Error;
        match error {
            Error::Perf(error) => error.into(),
            Error::Start(error) => Failure::not_started(error),
            Error::Plan(words) => Failure::usage(words),
            Error::Io(error) => error.into(),
            error => Failure::new(error),
        }
    }
}

impl From<io::Error> for Failure {
    /// If nobody reads the output any more the program ends quietly, with the
    /// status that a shell gives to a program killed by SIGPIPE.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure { status: UNREAD, text: String::new() },
            _ => Failure::new(format_args!("cannot write: {}", reason(&error))),
        }
    }
}

/// The status of shells for a command that could not be started.
fn status_of_start(errno: Errno) -> u8 {
    if errno == Errno::ENOENT { NOT_FOUND } else { NOT_EXECUTABLE }
}

/// Why a file cannot be read or written, with the errno behind its meaning.
pub(crate) fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or folder (ENOENT)".to_owned(),
        io::ErrorKind::PermissionDenied => "this user may not (EACCES)".to_owned(),
        io::ErrorKind::IsADirectory => "it is a folder (EISDIR)".to_owned(),
        io::ErrorKind::NotADirectory => "a part of its path is no folder (ENOTDIR)".to_owned(),
        io::ErrorKind::StorageFull => "the disk is full (ENOSPC)".to_owned(),
        _ => error.to_string(),
    }
}

/// Lines that are too long go on in the next, where a part of them ends.
pub(crate) fn folded(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut rest = line.to_owned();
        while let Some((limit, _)) = rest.char_indices().nth(LONG) {
            let ends = [": ", "; ", ". ", ", ", " "];
            let Some(end) =
                ends.iter().find_map(|end| rest[..limit].rfind(end).filter(|end| *end > LONG / 3))
            else {
                break;
            };
            let next = format!("  {}", rest[end + 1..].trim_start());
            rest.truncate(end + 1);
            lines.push(rest.trim_end().to_owned());
            rest = next;
        }
        lines.push(rest);
    }
    lines.join("\n")
}

/// Prints what there is to say and makes the exit status.
pub(crate) fn finish(result: Result) -> ExitCode {
    let failure = match result {
        Ok(status) => return status,
        Err(failure) => failure,
    };
    if !failure.text.is_empty() {
        out::say(folded(&failure.text));
    }
    ExitCode::from(failure.status)
}

/// Makes a defect of this program end as a failure in one line instead of a panic message.
pub(crate) fn tell_panics_plainly() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(|at| format!(" ({}:{})", at.file(), at.line()));
        let payload = info.payload();
        let what = payload.downcast_ref::<&str>().copied();
        let what = what.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let (what, place) = (what.unwrap_or("no message"), place.unwrap_or_default());
        out::say(format_args!(
            "internal error: {what}{place}\nThis is a defect of perfuse; please report it."
        ));
        std::process::exit(FAILED.into());
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_those_of_shells() {
        assert_eq!(status_of_start(Errno::ENOENT), 127);
        assert_eq!([Errno::EACCES, Errno::ENOEXEC].map(status_of_start), [126; 2]);
        let unread = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(unread.is_unread() && unread.status == 141);
        let full = Failure::from(io::Error::from(io::ErrorKind::StorageFull));
        assert!(!full.is_unread() && full.status == 125 && !full.text.is_empty());
        assert_eq!((Failure::usage("-x").status, Failure::new("x").status), (2, 125));
    }
}
