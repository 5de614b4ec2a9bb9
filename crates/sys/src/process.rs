//! Starting a program so that events can be attached before its first instruction, and learning how it
//! ended and what it used.

use crate::Errno;
use crate::errno::of;
use crate::limits;
use crate::signal::SignalSet;
pub use crate::wait::Usage;
use rustix::pipe::PipeFlags;
use rustix::process::Pid;
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Mutex, PoisonError};

/// A child that has been forked but waits before its exec. Dropping it ends it.
#[derive(Debug)]
#[must_use]
pub struct Held {
    pid: i32,
    go: OwnedFd,
    /// The child's end, kept open so that writing to a child that was killed is no SIGPIPE.
    _wait: OwnedFd,
    failure: OwnedFd,
}

/// A running (or ended) child of this process. Dropping it leaves it alone.
#[derive(Debug)]
pub struct Child {
    pid: i32,
}

/// A child's standard input, output and error; where `None`, this process's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files<'a> {
    /// Standard input.
    pub input: Option<BorrowedFd<'a>>,
    /// Standard output.
    pub output: Option<BorrowedFd<'a>>,
    /// Standard error.
    pub error: Option<BorrowedFd<'a>>,
}

/// Lets the calling thread go before all tasks of ordinary scheduling classes, with this priority (1 to 99)
/// of `SCHED_FIFO`. Its children begin without it. `EPERM` without the right to.
pub fn go_first(priority: i32) -> Result<(), Errno> {
    // SAFETY: all zeros are a value of this plain struct, which may have members that are not set here.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = priority;
    // SAFETY: 0 is the calling thread, and the struct outlives the call, which reads it.
    let done = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &param) };
    crate::errno::check(done).map(drop)
}

/// Forks a child that will run `program` with `arguments` (the program's name first), found on the PATH
/// as `execvp(3)` does, with this process's environment and standard files, once it is
/// [released](Held::release).
///
/// `EINVAL`: a NUL byte within a name or argument. Failures of exec are told by `release`.
pub fn spawn(program: &OsStr, arguments: &[OsString]) -> Result<Held, Errno> {
    spawn_with(program, arguments, Files::default())
}

/// [`spawn`] with some standard files replaced.
pub fn spawn_with(program: &OsStr, arguments: &[OsString], files: Files<'_>) -> Result<Held, Errno> {
    let c_string = |s: &OsStr| CString::new(s.as_bytes()).map_err(|_| Errno::EINVAL);
    // Everything the child needs is made here: after fork it may not allocate.
    let candidates = candidates(program).iter().map(|path| c_string(path)).collect::<Result<Vec<_>, _>>()?;
    let arguments = arguments.iter().map(|arg| c_string(arg)).collect::<Result<Vec<_>, _>>()?;
    let mut environment = Vec::new();
    for (mut name, value) in std::env::vars_os() {
        name.push("=");
        name.push(value);
        environment.push(CString::new(name.into_vec()).map_err(|_| Errno::EINVAL)?);
    }
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, envp) = (pointers(&arguments), pointers(&environment));
    // A script without "#!" is given to the shell, as execvp(3) does: sh, the path, the arguments.
    let shell = c"/bin/sh";
    let mut shell_argv = argv.clone();
    shell_argv.insert(0, shell.as_ptr());

    let mask = SignalSet::empty();
    let open_files = limits::open_files_before();
    // One at a time: a child forked by another thread meanwhile would keep `report` open as long as it
    // is held, and so the release of this one waiting.
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (wait, go) = pipe()?;
    let (failure, report) = pipe()?;
    // SAFETY: the child calls only async-signal-safe functions until it execs or exits.
    let pid = crate::errno::check(unsafe { libc::fork() })?;
    if pid != 0 {
        drop((report, alone));
        return Ok(Held { pid, go, _wait: wait, failure });
    }

    // The child. Its copies of our ends go first: the end of file on `wait` must mean that the parent is
    // gone.
    drop((go, failure));
    // The child calls only async-signal-safe functions; `Errno::last` reads a thread-local number.
    // SAFETY: plain numbers; Rust programs ignore SIGPIPE, the measured program expects the default.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    for (number, file) in [files.input, files.output, files.error].into_iter().enumerate() {
        if let Some(file) = file {
            // SAFETY: plain numbers of open descriptors. A copy stays open over the exec; a program's own
            // standard files are open from its start, so `file` is none of the numbers that are replaced.
            unsafe { libc::dup2(file.as_raw_fd(), number as i32) };
        }
    }
    mask.restore();
    if let Some(limit) = open_files {
        // With the larger one the program runs as well.
        let _ = limits::set_open_files(limit);
    }
    let mut byte = 0u8;
    let got = loop {
        // SAFETY: one byte is read into a live byte.
        let got = unsafe { libc::read(wait.as_raw_fd(), (&raw mut byte).cast(), 1) };
        if got != -1 || crate::errno::last() != Errno::EINTR {
            break got;
        }
    };
    let mut answer = Errno::ENOENT;
    if got == 1 {
        for path in &candidates {
            // SAFETY: null-terminated arrays of NUL-terminated strings, all alive.
            unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
            let mut errno = crate::errno::last();
            if errno == Errno::ENOEXEC {
                shell_argv[1] = path.as_ptr();
                // SAFETY: as above.
                unsafe { libc::execve(shell.as_ptr(), shell_argv.as_ptr(), envp.as_ptr()) };
                errno = crate::errno::last();
            }
            let goes_on;
            (answer, goes_on) = after_failure(answer, errno);
            if !goes_on {
                break;
            }
        }
        // SAFETY: four bytes of a live int; a pipe takes them whole.
        unsafe { libc::write(report.as_raw_fd(), (&raw const answer.0).cast(), size_of_val(&answer.0)) };
    }
    end(127)
}

/// The answer after one more file could not be executed, and whether the next is tried. One that may not be executed is
/// remembered, and the search goes on.
fn after_failure(answer: Errno, errno: Errno) -> (Errno, bool) {
    let is_absent = [Errno::ENOENT, Errno::ENOTDIR].contains(&errno);
    let keeps = is_absent && answer != Errno::ENOENT;
    (if keeps { answer } else { errno }, is_absent || errno == Errno::EACCES)
}

/// The files `execvp(3)` would try for this name.
fn candidates(program: &OsStr) -> Vec<OsString> {
    if program.is_empty() {
        return Vec::new();
    }
    if program.as_bytes().contains(&b'/') {
        return vec![program.to_owned()];
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    std::env::split_paths(&path)
        .map(|dir| if dir.as_os_str().is_empty() { "./".into() } else { dir }.join(program).into_os_string())
        .collect()
}

impl Held {
    /// The process id: what events are attached to.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Lets the child exec and waits until it has. The error is exec's: `ENOENT` where no such program
    /// was found, `EACCES` where it may not be executed, ...; the child is gone then.
    pub fn release(self) -> Result<Child, Errno> {
        self.release_while(|| ())
    }

    /// The same, and calls `meanwhile` while the exec takes its time.
    #[expect(clippy::missing_errors_doc, reason = "as for release")]
    pub fn release_while(self, meanwhile: impl FnOnce()) -> Result<Child, Errno> {
        // SAFETY: one live byte is written.
        let sent = unsafe { libc::write(self.go.as_raw_fd(), [1u8].as_ptr().cast(), 1) };
        if sent != 1 {
            // The child was killed before; its end is told by `wait`.
            return Ok(self.into_child());
        }
        meanwhile();
        let mut errno = 0i32;
        let got = crate::errno::retry(|| {
            // SAFETY: reads at most four bytes into a live int.
            let got = unsafe { libc::read(self.failure.as_raw_fd(), (&raw mut errno).cast(), 4) };
            if got == -1 { Err(crate::errno::last()) } else { Ok(got) }
        })?;
        // End of file: exec closed the other end.
        if got == 0 { Ok(self.into_child()) } else { Err(Errno(errno)) }
    }

    fn into_child(mut self) -> Child {
        // Nothing left for drop to end.
        Child { pid: std::mem::take(&mut self.pid) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.pid != 0 {
            let child = Child { pid: self.pid };
            // Not yet released: it has done nothing that a signal could spoil.
            let _ = child.signal(libc::SIGKILL);
            let _ = child.wait();
        }
    }
}

impl Child {
    /// The process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Sends it a signal. `ESRCH` once it has been waited for.
    pub fn signal(&self, signal: i32) -> Result<(), Errno> {
        crate::signal::send(self.pid, signal)
    }

    /// Waits for its end.
    pub fn wait(&self) -> Result<(ExitStatus, Usage), Errno> {
        self.wait4(0).map(|ended| ended.expect("a wait without WNOHANG ends with the child"))
    }

    /// How it ended, if it has.
    pub fn try_wait(&self) -> Result<Option<(ExitStatus, Usage)>, Errno> {
        self.wait4(libc::WNOHANG)
    }

    fn wait4(&self, options: i32) -> Result<Option<(ExitStatus, Usage)>, Errno> {
        let ended = crate::errno::retry(|| crate::wait::status_and_usage(self.pid, options))?;
        Ok(ended.map(|(status, usage)| (ExitStatus::from_raw(status), usage)))
    }
}

/// The process group of a process. `ESRCH`.
pub fn group_of(pid: i32) -> Result<i32, Errno> {
    let pid = Pid::from_raw(pid).ok_or(Errno::ESRCH)?;
    rustix::process::getpgid(Some(pid)).map(|group| group.as_raw_nonzero().get()).map_err(of)
}

/// `fork(2)`, but for descriptors, which both processes have in common, and without a signal at the child's end: 0 in
/// the child.
///
/// # Safety
///
/// The child may do nothing but system calls until it [ends](end), as other threads of this process may have held any lock.
pub unsafe fn fork_with_files() -> Result<i32, Errno> {
    // SAFETY: the child has a copy of all memory, its stack among it; no pointers are given.
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_FILES, 0usize, 0usize, 0usize, 0usize) };
    crate::errno::check(pid as libc::c_int)
}

/// The calling process leads a session of its own from now on. Async-signal-safe.
pub fn lead_session() {
    let _ = rustix::process::setsid();
}

/// Ends this process without running anything of its program. Async-signal-safe.
pub fn end(code: i32) -> ! {
    // SAFETY: no preconditions.
    unsafe { libc::_exit(code) }
}

/// A pipe whose ends close on exec: reading end, writing end.
fn pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(of)
}

/// Whether a process or thread of this id exists (it may belong to someone else).
pub fn exists(pid: i32) -> bool {
    pid > 0 && crate::signal::send(pid, 0).map_or_else(|errno| errno == Errno::EPERM, |()| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_may_not_be_executed_is_told_whatever_the_rest_of_the_path_lacks() {
        let search = |failures: &[Errno]| {
            let mut answer = Errno::ENOENT;
            for (tried, &errno) in failures.iter().enumerate() {
                let goes_on;
                (answer, goes_on) = after_failure(answer, errno);
                if !goes_on {
                    return (answer, tried + 1);
                }
            }
            (answer, failures.len())
        };
        let (absent, refused, broken) = (Errno::ENOENT, Errno::EACCES, Errno::E2BIG);
        assert_eq!(search(&[absent, refused, absent]), (refused, 3));
        assert_eq!(search(&[absent, absent]), (absent, 2));
        assert_eq!(search(&[refused, broken, absent]), (broken, 2));
    }
}
