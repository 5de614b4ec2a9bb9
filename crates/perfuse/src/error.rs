//! What every fallible function of this crate returns: which call was refused, with which errno, and
//! why. The why is worked out when the error is made (see [`crate::diagnosis`]), because a minute
//! later a sysctl, a limit or the watched process may be another.

use crate::diagnosis::{Cause, Diagnosis, Kind};
use crate::kernel::Kernel;
use perfuse_abi::{Attr, OpenFlags};
use perfuse_sys::Errno;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A system call that failed, as far as its arguments matter for the reason.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Call {
    /// `perf_event_open(2)`.
    Open {
        /// The event.
        attr: Attr,
        /// The thread, 0 for the caller, -1 for all; a descriptor with [`OpenFlags::PID_CGROUP`].
        pid: i32,
        /// The cpu, -1 for all.
        cpu: i32,
        /// The event that leads the group it was to join.
        leader: Option<Box<Subject>>,
        /// The last argument.
        flags: OpenFlags,
    },
    /// `read(2)` of an event.
    Read,
    /// An ioctl of an event, by its code (see [`perfuse_abi::ioctl`]).
    Ioctl(u32),
    /// `mmap(2)` of a ring or of an AUX area.
    Mmap {
        /// Length: for a ring one page more than its data.
        bytes: usize,
        /// 0 for a ring, `aux_offset` for an AUX area.
        offset: u64,
    },
    /// `poll(2)`.
    Poll,
    /// `prctl(2)`.
    Prctl,
    /// `fcntl(2)`.
    Fcntl,
    /// Starting a program to be measured.
    Spawn {
        /// Its name, as given.
        program: OsString,
    },
    /// Waiting for a program, or sending it a signal.
    Process,
    /// A file of /proc, /sys, the tracing file system or a cgroup that was needed.
    File {
        /// Where it is, or ought to be.
        path: PathBuf,
    },
}

/// The event an error is about, as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Subject {
    /// What to count.
    pub attr: Attr,
    /// The thread, 0 for the caller, -1 for all; a descriptor for a cgroup.
    pub pid: i32,
    /// The cpu, -1 for all.
    pub cpu: i32,
    /// It is bound to a cgroup.
    pub cgroup: bool,
}

impl Subject {
    /// The event of `attr` on that thread and cpu.
    pub fn new(attr: Attr, pid: i32, cpu: i32) -> Self {
        Subject { attr, pid, cpu, cgroup: false }
    }

    /// [`new`](Self::new), where the open flags tell what `pid` is.
    pub fn with_flags(attr: Attr, pid: i32, cpu: i32, flags: OpenFlags) -> Self {
        Subject { attr, pid, cpu, cgroup: flags.contains(OpenFlags::PID_CGROUP) }
    }

    /// The event that was to be opened.
    fn of(call: &Call) -> Option<Self> {
        match *call {
            Call::Open { attr, pid, cpu, flags, .. } => Some(Self::with_flags(attr, pid, cpu, flags)),
            _ => None,
        }
    }
}

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
    diagnosis: Diagnosis,
}

impl Error {
    /// Makes the error of `call` and finds the cause from the facts of this moment.
    pub fn new(call: Call, errno: Errno) -> Self {
        Self::make(None, call, None, errno)
    }

    /// [`new`](Self::new) for a call on an event that is already open: knowing which event it is often
    /// decides between several causes.
    pub fn on(subject: Subject, call: Call, errno: Errno) -> Self {
        Self::make(None, call, Some(subject), errno)
    }

    /// [`on`](Self::on), told by this kernel.
    pub(crate) fn by(kernel: &dyn Kernel, subject: Subject, call: Call, errno: Errno) -> Self {
        Self::make(Some(kernel), call, Some(subject), errno)
    }

    /// The error of `call`, which was refused like one before: with the same errno, for the same kind of
    /// event and the same target. Where the cause was a property of the machine it still is, and is not
    /// looked for again.
    pub(crate) fn like(kernel: &dyn Kernel, earlier: Option<&Error>, call: Call, errno: Errno) -> Self {
        let subject = Subject::of(&call);
        let same = |earlier: &&Error| {
            let about = |a: Subject, b: Subject| {
                (a.attr.type_, a.pid, a.cpu, a.cgroup) == (b.attr.type_, b.pid, b.cpu, b.cgroup)
            };
            earlier.cause() == Cause::NoHardwarePmu
                && earlier.errno() == errno
                && subject.zip(earlier.subject().copied()).is_some_and(|(a, b)| about(a, b))
        };
        match earlier.filter(same) {
            Some(earlier) => {
                let event = subject.map(|subject| crate::diagnosis::event_name(&subject.attr));
                let diagnosis = earlier.diagnosis().clone();
                Error(Box::new(Inner { call, subject, event, errno, diagnosis }))
            }
            None => Self::make(Some(kernel), call, None, errno),
        }
    }

    fn make(kernel: Option<&dyn Kernel>, call: Call, subject: Option<Subject>, errno: Errno) -> Self {
        let subject = Subject::of(&call).or(subject);
        if let Some(diagnosis) = kernel.and_then(|kernel| kernel.explain(&call, subject.as_ref(), errno)) {
            let event = subject.map(|subject| crate::diagnosis::event_name(&subject.attr));
            return Error(Box::new(Inner { call, subject, event, errno, diagnosis }));
        }
        let (diagnosis, event) = crate::diagnosis::examine(&call, subject.as_ref(), errno);
        Error(Box::new(Inner { call, subject, event, errno, diagnosis }))
    }

    /// The same where the descriptors ran out, told with how many would have been needed.
    pub(crate) fn wanting(mut self, needed: u64) -> Self {
        if self.errno() == Errno::EMFILE {
            self.0.diagnosis = crate::diagnosis::too_few_files(needed, &crate::facts::Facts::gather());
        }
        self
    }

    /// What was asked.
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

    /// What it means here and now.
    pub fn diagnosis(&self) -> &Diagnosis {
        &self.0.diagnosis
    }

    /// What was attempted, in words: "cannot open cycles for this thread".
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
            Call::Process => "cannot follow the measured program".to_owned(),
            Call::File { path } => format!("cannot use {}", path.display()),
        }
    }

    /// Short for the cause of the diagnosis.
    pub fn cause(&self) -> Cause {
        self.0.diagnosis.cause
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
        let Inner { errno, diagnosis, .. } = &*self.0;
        write!(f, "{}: {} ({errno:?})", self.attempt(), diagnosis.explanation)?;
        if f.alternate() {
            diagnosis.remedies.iter().try_for_each(|remedy| write!(f, "\n  → {remedy}"))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    /// What `unwrap` prints: everything.
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
