//! A program to be measured from its first instruction to its last.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::target::Target;
use perfuse_proc::{Status, read};
use perfuse_sys::Errno;
use perfuse_sys::process::{self, Files, Usage};
use perfuse_sys::signal::{Received, SIGCONT, SIGHUP, SIGKILL, SIGTERM};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitStatus;
use std::sync::Arc;

/// A program with its arguments.
///
/// ```
/// # if perfuse::Perf::linux_refuses().is_some() { return Ok(()) }
/// use perfuse::{Command, Counter, Inherit, abi::Software};
///
/// let command = Command::new("true").hold()?;
/// let faults = Counter::builder(Software::PAGE_FAULTS)
///     .target(command.target())
///     .inherit(Inherit::All)
///     .enable_on_exec(true)
///     .open()?;
/// let (status, usage) = command.release()?.wait()?;
/// println!("{status}: {} page faults, {:?} in user space", faults.read()?.value, usage.user);
/// # Ok::<(), perfuse::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Command {
    program: OsString,
    arguments: Vec<OsString>,
    input: Option<Arc<OwnedFd>>,
    output: Option<Arc<OwnedFd>>,
    error: Option<Arc<OwnedFd>>,
}

/// A child that waits before its exec, so that events can be attached. Dropping it ends it.
#[derive(Debug)]
#[must_use = "a held command is ended when this is dropped"]
pub struct HeldCommand {
    held: process::Held,
    program: OsString,
}

/// A program that is running or has ended. Dropping it leaves it alone.
#[derive(Debug)]
pub struct RunningCommand(process::Child);

impl Command {
    /// A program by name (looked up on the PATH) or path.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Command {
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            input: None,
            output: None,
            error: None,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// The program reads this in place of this process's standard input.
    #[must_use]
    pub fn stdin(mut self, file: impl Into<OwnedFd>) -> Self {
        self.input = Some(Arc::new(file.into()));
        self
    }

    /// The program writes here in place of this process's standard output.
    #[must_use]
    pub fn stdout(mut self, file: impl Into<OwnedFd>) -> Self {
        self.output = Some(Arc::new(file.into()));
        self
    }

    /// The program complains here in place of this process's standard error.
    #[must_use]
    pub fn stderr(mut self, file: impl Into<OwnedFd>) -> Self {
        self.error = Some(Arc::new(file.into()));
        self
    }

    /// Gives it nothing to read, and lets what it writes go nowhere.
    ///
    /// # Errors
    ///
    /// `/dev/null` cannot be opened.
    pub fn silent(self) -> std::io::Result<Self> {
        let null = || std::fs::File::options().read(true).write(true).open("/dev/null");
        Ok(self.stdin(null()?).stdout(null()?).stderr(null()?))
    }

    /// The program's name, as given.
    pub fn program(&self) -> &OsStr {
        &self.program
    }

    /// Starts a child that will become the program when it is released.
    pub fn hold(&self) -> Result<HeldCommand> {
        let arguments: Vec<_> = std::iter::once(&self.program).chain(&self.arguments).cloned().collect();
        let files = Files {
            input: self.input.as_deref().map(AsFd::as_fd),
            output: self.output.as_deref().map(AsFd::as_fd),
            error: self.error.as_deref().map(AsFd::as_fd),
        };
        let held = process::spawn_with(&self.program, &arguments, files);
        let held = held.map_err(|errno| Error::new(Call::Spawn { program: self.program.clone() }, errno))?;
        Ok(HeldCommand { held, program: self.program.clone() })
    }
}

impl HeldCommand {
    /// The process id.
    pub fn pid(&self) -> u32 {
        self.held.pid().unsigned_abs()
    }

    /// The child as the target of an event. Events want [`inherit`](crate::Builder::inherit) for what
    /// the program starts in turn, and [`enable_on_exec`](crate::Builder::enable_on_exec).
    pub fn target(&self) -> Target {
        Target::thread(self.pid()).into()
    }

    /// Lets it run. Fails where there is no such program (`ENOENT`) or it cannot be executed (`EACCES`,
    /// `ENOEXEC`, ...).
    pub fn release(self) -> Result<RunningCommand> {
        self.release_while(|| ())
    }

    /// The same, and calls `meanwhile` while the exec takes its time.
    #[expect(clippy::missing_errors_doc, reason = "as for release")]
    pub fn release_while(self, meanwhile: impl FnOnce()) -> Result<RunningCommand> {
        let HeldCommand { held, program } = self;
        held.release_while(meanwhile)
            .map(RunningCommand)
            .map_err(|errno| Error::new(Call::Spawn { program }, errno))
    }
}

impl RunningCommand {
    /// Passes on a signal that asked this process to end. The second `time` it is no longer a wish.
    pub fn ask_to_end(&self, received: Received, time: u32) {
        // `si_code` of a signal that the terminal sent, and then to the command as well, if it was the keyboard: of a terminal that
        // goes away only the leader of its session is told.
        const SI_KERNEL: i32 = 0x80;
        // One that has just ended needs no signal.
        let _ = match time {
            1 if received.code == SI_KERNEL && received.signal != SIGHUP => Ok(()),
            // A script's background processes ignore SIGINT from their birth.
            1 if ignores(self.pid(), received.signal) => self.signal(SIGTERM),
            1 => self.signal(received.signal),
            _ => self.signal(SIGKILL),
        };
        // One that is stopped heeds nothing before it goes on.
        let _ = self.signal(SIGCONT);
    }

    /// Ends it, as its time is over: by SIGTERM.
    pub fn end(&self) {
        // One that has just ended needs no signal, and one that is stopped heeds none before it goes on.
        let _ = self.signal(SIGTERM).and(self.signal(SIGCONT));
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.0.pid().unsigned_abs()
    }

    /// Waits for its end: how it ended and what it used.
    pub fn wait(&self) -> Result<(ExitStatus, Usage)> {
        if let Some(end) = crate::embedded::wait_for_end(self.0.pid()) {
            return Ok(end);
        }
        self.0.wait().map_err(failed)
    }

    /// How it ended, if it has.
    pub fn try_wait(&self) -> Result<Option<(ExitStatus, Usage)>> {
        if let Some(end) = crate::embedded::ended(self.0.pid()) {
            return Ok(end);
        }
        self.0.try_wait().map_err(failed)
    }

    /// A descriptor that becomes readable when it has ended, where the kernel gives one (Linux 5.3). Where it is traced by
    /// the embedded kernel, how it ended is known a moment later.
    pub fn ending(&self) -> Option<OwnedFd> {
        perfuse_sys::pidfd::open(self.0.pid()).ok()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) -> Result<()> {
        self.0.signal(signal).map_err(failed)
    }
}

fn failed(errno: Errno) -> Error {
    Error::new(Call::Process, errno)
}

fn ignores(pid: u32, signal: i32) -> bool {
    let status = read::status(pid).unwrap_or_default();
    Status(&status).set("SigIgn").is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
