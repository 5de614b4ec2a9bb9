//! Starting a tool and serving it until it and all that it started have ended.

use super::ending::{EndRequest, Tool};
use super::note::yama_scope;
use super::{Intercept, Means, Note, OnNote, Shared};
use crate::machine::{Machine, Settings};
use crate::proc;
use crate::ptrace::{self, Tid};
use crate::supervisor::Supervisor;
use perfuse_abi::Errno;
use perfuse_proc::{Status, read};
use perfuse_sys::signal::Signals;
use perfuse_sys::{limits, process};
use std::ffi::{OsStr, OsString};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::{fmt, thread};

/// Why a tool could not be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// It could not be started: the error of fork or exec.
    Start(Errno),
    /// It may not be traced.
    Trace {
        /// The errno of `ptrace(2)`.
        errno: Errno,
        /// A process traces this one already; 0: none.
        tracer: Tid,
        /// Yama's `ptrace_scope`, where there is Yama.
        scope: Option<i64>,
    },
    /// There is no `/proc`, from which all is read that is told of processes.
    NoProc,
    /// No seccomp filter could be put on it.
    Filter(Errno),
    /// The supervisor could not go on.
    Supervise(Errno),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Error::Start(errno) => f.write_str(errno.text()),
            Error::Trace { errno, tracer, .. } if tracer != 0 => write!(
                f,
                "the tool cannot be traced ({errno}): process {tracer} (strace, a debugger, or another \
                 `perfuse run`) traces this one and all it starts, and a process has one tracer only"
            ),
            Error::Trace { errno, scope: Some(3), .. } => write!(
                f,
                "the tool cannot be traced ({errno}): kernel.yama.ptrace_scope is 3, which forbids ptrace \
                 until the next boot"
            ),
            Error::Trace { errno, scope: Some(2), .. } => write!(
                f,
                "the tool cannot be traced ({errno}): kernel.yama.ptrace_scope is 2, which leaves ptrace to \
                 who has CAP_SYS_PTRACE"
            ),
            Error::Trace { errno, .. } => write!(
                f,
                "the tool cannot be traced ({errno}): the sandbox refuses ptrace(2). Docker's default profile \
                 allows it on Linux 4.8 and later"
            ),
            Error::NoProc => f.write_str(
                "the tool cannot be followed: /proc is not mounted, where clocks, names and memory maps of processes are \
                 read. Mount it (mount -t proc proc /proc), or let the container have it",
            ),
            Error::Filter(errno) => write!(
                f,
                "the tool's system calls cannot be intercepted ({errno}): the sandbox refuses seccomp \
                 filters, or the kernel has none (CONFIG_SECCOMP_FILTER)"
            ),
            Error::Supervise(errno) => write!(f, "waiting for the tool failed: {errno}"),
        }
    }
}

impl std::error::Error for Error {}

/// Options of a run; by default none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The tool's events `instructions:u` are counted by [single steps](Machine::step_for_instructions).
    pub single_step: bool,
    /// Records of switches are [estimated](Settings::estimate_switches).
    pub estimate_switches: bool,
}

/// Runs a tool (`arguments`: its name first) and answers its `perf_event_open(2)`. Returns when it and all
/// that it started have ended; the answer is how the tool did.
///
/// A thread of its own is the tracer of all of them meanwhile. If it dies they are killed: their system
/// calls would go unanswered. Processes that the tool measures and did not start go on, and are traced until that thread ends.
///
/// The calling thread passes SIGINT, SIGQUIT, SIGTERM and SIGHUP on, which have to be left to it by the process's other
/// threads. The second of them ends all by SIGKILL: the answer comes within a second, also where the kernel holds something up,
/// which ends with this process then.
///
/// `on_note`: is told at once of reasons that the tool's answers cannot tell.
pub fn run(
    program: &OsStr,
    arguments: &[OsString],
    options: Options,
    on_note: impl FnMut(&Note) + Send + 'static,
) -> Result<ExitStatus, Error> {
    let signals = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];
    // Before there is another thread that could take them.
    let signals = Signals::collect(&signals).map_err(Error::Supervise)?;
    // Each event takes descriptors here, too.
    let _ = limits::raise_open_files();
    let (over, until) = UnixStream::pair().map_err(|_| Error::Start(Errno::EMFILE))?;
    let (ready, readiness) = channel();
    let (program, arguments) = (program.to_owned(), arguments.to_vec());
    let work = move || {
        let _over = over;
        let (supervisor, held, tool) = prepare(&program, &arguments, options)?;
        let end_request = tool.end_request.clone();
        // The thread that started this one waits for it.
        let _ = ready.send(tool);
        supervise(supervisor, held, end_request, OnNote(Box::new(on_note)))
    };
    let tracer = thread::Builder::new().name("perfuse".to_owned()).spawn(work);
    let tracer = tracer.map_err(|_| Error::Start(Errno::EAGAIN))?;
    if readiness.recv().is_ok_and(|tool: Tool| !tool.pass_on(&signals, &until)) {
        return Ok(ExitStatus::from_raw(libc::SIGKILL));
    }
    tracer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The tool is started, and held before its exec.
fn prepare(
    program: &OsStr,
    arguments: &[OsString],
    options: Options,
) -> Result<(Supervisor, process::Held, Tool), Error> {
    let settings = Settings { estimate_switches: options.estimate_switches, ..Settings::as_tools_expect() };
    let mut machine = Machine::new(settings);
    machine.step_for_instructions(options.single_step);
    let machine = Arc::new(Mutex::new(machine));
    let mut supervisor =
        Supervisor::new(machine, ptrace::EXITKILL | ptrace::TRACESECCOMP).map_err(Error::Supervise)?;
    if !proc::is_there() {
        return Err(Error::NoProc);
    }
    let held = process::spawn(program, arguments).map_err(Error::Start)?;
    let pid = held.pid();
    let refused =
        |errno| Error::Trace { errno, tracer: proc::tracer_of(proc::own_tid()), scope: yama_scope() };
    supervisor.seize(pid, pid).map_err(refused)?;
    let tool = Tool::new(pid, supervisor.waker());
    Ok((supervisor, held, tool))
}

/// The tool runs, and is served.
fn supervise(
    mut supervisor: Supervisor,
    held: process::Held,
    end_request: Arc<EndRequest>,
    on_note: OnNote,
) -> Result<ExitStatus, Error> {
    let front = Intercept::new(held.pid(), Means::here(), end_request, on_note).map_err(Error::Supervise)?;
    let mut front = Shared::new(front, &supervisor);
    let (ended, started) = thread::scope(|scope| {
        // Its exec is a stop that this thread has to handle meanwhile.
        let start = scope.spawn(move || held.release().map(drop));
        let ended = supervisor.run(&mut front);
        (ended, start.join().unwrap_or(Err(Errno::EIO)))
    });
    ended.map_err(Error::Supervise)?;
    started.map_err(Error::Start)?;
    let front = front.lock();
    front.prepared().map_err(Error::Filter)?;
    front.status().map(ExitStatus::from_raw).ok_or(Error::Supervise(Errno::ECHILD))
}

impl Means {
    /// The means for processes of the calling one: without filters on it, nothing is in the way.
    pub fn here() -> Self {
        let filters = read::own_status().and_then(|status| Status(&status).number::<u64>("Seccomp"));
        match filters {
            Some(0) | None => Means::Trace,
            Some(_) => Means::Trap,
        }
    }
}
