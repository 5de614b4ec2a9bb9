//! The error of every fallible function of this crate: which call was refused, with which errno, and
//! why. The reason is worked out when the error is made (see [`crate::diagnosis`]), because a minute
//! later a sysctl, a limit or the watched process may be another. Only what the machine lacks stays so: the reason for that
//! is worked out when somebody asks.

use crate::call::{Call, Subject};
use crate::diagnosis::{Cause, Diagnosis, Kind};
use perfuse_abi::OpenFlags;
use perfuse_sys::Errno;
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A refusal that explains itself.
///
/// `{}` prints one sentence: what was asked, what refused it and why. `{:#}` adds what would help, one
/// line per remedy, most promising first.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    call: Call,
    subject: Option<Subject>,
    /// The event's name, where there is an event.
    event: Option<String>,
    errno: Errno,
    diagnosis: Arc<OnceLock<Diagnosis>>,
    /// An error with the same diagnosis, if that is about the machine.
    earlier: Option<Error>,
}

impl Error {
    /// Makes the error of `call` and finds the cause from the facts of this moment.
    pub fn new(call: Call, errno: Errno) -> Self {
        Self::make(call, None, errno, None)
    }

    /// [`new`](Self::new) for a call on an event that is already open: knowing which event it is often
    /// decides between several causes.
    pub fn on(subject: Subject, call: Call, errno: Errno) -> Self {
        Self::make(call, Some(subject), errno, None)
    }

    /// The error of a call whose reason the kernel has told by itself, if it has one that others have not.
    pub(crate) fn told(told: Option<Diagnosis>, call: Call, subject: Subject, errno: Errno) -> Self {
        Self::make(call, Some(subject), errno, told)
    }

    /// The error of `call`, which was refused like one before: with the same errno, for the same kind of
    /// event and the same target. Where the cause was a property of the machine it still is, and is not
    /// looked for again: not even by asking the kernel (`ask`) for a reason of its own.
    pub(crate) fn like(
        earlier: Option<&Error>,
        call: Call,
        errno: Errno,
        ask: impl FnOnce(&Call, Option<&Subject>) -> Option<Diagnosis>,
    ) -> Self {
        let subject = Subject::of(&call);
        let same = |earlier: &&Error| {
            let about = |a: Subject, b: Subject| {
                (a.attr.type_, a.pid, a.cpu, a.cgroup) == (b.attr.type_, b.pid, b.cpu, b.cgroup)
            };
            earlier.errno() == errno
                && subject.zip(earlier.subject().copied()).is_some_and(|(a, b)| about(a, b))
                && earlier.is_of_the_machine()
        };
        // The first of them: a chain would grow with each event of a list.
        let first = |earlier: &Error| earlier.0.earlier.as_ref().unwrap_or(earlier).clone();
        let earlier = earlier.filter(same).map(first);
        let told = if earlier.is_some() { None } else { ask(&call, subject.as_ref()) };
        let mut error = Self::make(call, None, errno, told);
        error.0.earlier = earlier;
        error
    }

    fn make(call: Call, subject: Option<Subject>, errno: Errno, told: Option<Diagnosis>) -> Self {
        let subject = Subject::of(&call).or(subject);
        let name = || subject.map(|subject| crate::diagnosis::event_name(&subject.attr));
        let (diagnosis, event) = match told {
            Some(told) => (OnceLock::from(told), name()),
            None if crate::diagnosis::is_for_want_of_cpu_events(&call, errno) => (OnceLock::new(), name()),
            None => {
                let (diagnosis, name) = crate::diagnosis::examine(&call, subject.as_ref(), errno);
                (OnceLock::from(diagnosis), name)
            }
        };
        Error(Box::new(Inner { call, subject, event, errno, diagnosis: diagnosis.into(), earlier: None }))
    }

    /// Whether the machine is the cause, as far as that is known without asking.
    fn is_of_the_machine(&self) -> bool {
        self.0.diagnosis.get().is_none_or(|diagnosis| diagnosis.cause == Cause::NoHardwarePmu)
    }

    /// Whether the same call is refused again, as long as nobody changes rights.
    pub(crate) fn lasts(&self) -> bool {
        self.is_of_the_machine() || matches!(self.cause().kind(), Kind::Unsupported | Kind::Permission)
    }

    /// The same where the descriptors ran out, told with how many would have been needed.
    pub(crate) fn wanting(mut self, needed: u64) -> Self {
        if self.errno() == Errno::EMFILE {
            let diagnosis = crate::diagnosis::too_few_files(needed, &crate::facts::Facts::gather());
            self.0.diagnosis = Arc::new(diagnosis.into());
        }
        self
    }

    /// The call that was refused.
    pub fn call(&self) -> &Call {
        &self.0.call
    }

    /// The event it was about, if it was about one.
    pub fn subject(&self) -> Option<&Subject> {
        self.0.subject.as_ref()
    }

    /// The kernel's answer.
    pub fn errno(&self) -> Errno {
        self.0.errno
    }

    /// Its reason here and now, and its remedies.
    pub fn diagnosis(&self) -> &Diagnosis {
        let Inner { call, subject, errno, diagnosis, earlier, .. } = &*self.0;
        diagnosis.get_or_init(|| match earlier.as_ref().map(Error::diagnosis) {
            Some(same) if same.cause == Cause::NoHardwarePmu => same.clone(),
            _ => crate::diagnosis::examine(call, subject.as_ref(), *errno).0,
        })
    }

    /// The attempt in words: "cannot open cycles for this thread".
    pub fn attempt(&self) -> String {
        let Inner { call, event, .. } = &*self.0;
        let event = event.as_deref().unwrap_or("an event");
        match call {
            Call::Open { pid, cpu, flags, .. } => {
                let task = match pid {
                    _ if flags.contains(OpenFlags::PID_CGROUP) => " for a cgroup".to_owned(),
                    -1 => String::new(),
                    0 => " for this thread".to_owned(),
                    pid => format!(" for thread {pid}"),
                };
                let cpu = if *cpu == -1 { String::new() } else { format!(" on cpu {cpu}") };
                format!("cannot open {event}{task}{cpu}")
            }
            Call::Read => format!("cannot read {event}"),
            Call::Ioctl(code) => {
                let name =
                    perfuse_abi::ioctl::name(*code).map_or_else(|| format!("{code:#x}"), str::to_owned);
                format!("ioctl {name} on {event} failed")
            }
            Call::Mmap { bytes, offset: 0 } => {
                format!("cannot map a ring of {} KiB for {event}", bytes / 1024)
            }
            Call::Mmap { bytes, .. } => format!("cannot map an AUX area of {} KiB for {event}", bytes / 1024),
            Call::Poll => format!("cannot wait for {event}"),
            Call::Prctl => "prctl on this thread's events failed".to_owned(),
            Call::Fcntl => format!("cannot set up signals of {event}"),
            Call::Spawn { program } => format!("cannot run {}", program.to_string_lossy()),
            Call::Signals => "cannot watch for signals".to_owned(),
            Call::Process => "cannot follow the measured program".to_owned(),
            Call::File { path } => format!("cannot use {}", path.display()),
            Call::Cgroup { path } => format!("cannot use the cgroup {}", path.display()),
        }
    }

    /// Short for the cause of the diagnosis.
    pub fn cause(&self) -> Cause {
        self.diagnosis().cause
    }

    /// Somebody who may do more (or another setting) would not be refused: a matter of rights or
    /// limits, not of what the machine has.
    pub fn is_permission(&self) -> bool {
        self.cause().is_permission()
    }

    /// This machine or kernel cannot do it for anybody.
    pub fn is_unsupported(&self) -> bool {
        self.cause().is_unsupported()
    }

    /// The thread, process or cpu is gone.
    pub fn is_gone(&self) -> bool {
        self.cause().kind() == Kind::Gone
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The C library's words for an errno ("No such file or directory") would mislead more than tell.
        let (errno, diagnosis) = (self.errno(), self.diagnosis());
        write!(f, "{}: {} ({errno:?})", self.attempt(), diagnosis.explanation)?;
        if f.alternate() {
            diagnosis.remedies.iter().try_for_each(|remedy| write!(f, "\n  → {remedy}"))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    /// Everything, as `unwrap` prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

impl std::error::Error for Error {}

impl From<Error> for io::Error {
    /// Keeps the kind that belongs to the errno; the explanation is the inner error.
    fn from(error: Error) -> Self {
        let kind = perfuse_sys::io_error(error.errno()).kind();
        io::Error::new(kind, error)
    }
}
