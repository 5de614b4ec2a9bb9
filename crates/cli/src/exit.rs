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
/// The command line is wrong.
const USAGE: u8 = 2;

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
        let status = if error.errno() == Errno::ENOENT { NOT_FOUND } else { NOT_EXECUTABLE };
        Failure::from(error).with_status(status)
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

impl From<perfuse_record::Error> for Failure {
    fn from(error: perfuse_record::Error) -> Self {
        use perfuse_record::Error;
        match error {
            Error::Perf(error) => error.into(),
            Error::Start(error) => Failure::not_started(error),
            Error::Plan(words) => Failure::usage(words),
            Error::Io(error) => error.into(),
            Error::Stream(error) if error.kind() == io::ErrorKind::BrokenPipe => error.into(),
            Error::File { doing, path, error, written: Some(size) } => Failure::new(format_args!(
                "cannot {doing} {}: {error}, after {}; what was written can be read",
                path.display(),
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
            Error::Recording(error) => error.into(),
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
            io::ErrorKind::BrokenPipe => Failure { status: 128 + 13, text: String::new() },
            _ => Failure::new(format_args!("cannot write: {error}")),
        }
    }
}

/// Prints what there is to say and makes the exit status.
pub(crate) fn finish(result: Result) -> ExitCode {
    let failure = match result {
        Ok(status) => return status,
        Err(failure) => failure,
    };
    if !failure.text.is_empty() {
        out::say(&failure.text);
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
