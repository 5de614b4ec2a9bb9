//! Worse conditions than the test has itself: another user, a seccomp filter, lower limits. They are
//! put on a child process, between fork and exec.

use crate::{Outcome, Skip};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, exit};

/// The conditions. Everything not named stays as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sandbox {
    unprivileged: bool,
    own_user: bool,
    refused_with: Option<i32>,
    open_files: Option<u64>,
    locked_bytes: Option<u64>,
    without_proc: bool,
    without_memory_files: bool,
}

/// Names the test that a re-executed test program has to run inside its sandbox.
const WITHIN: &str = "PERFUSE_TEST_WITHIN";
/// The exit status by which the inner test says that it skips.
const SKIPPED: i32 = 77;

impl Sandbox {
    /// No change.
    pub fn new() -> Self {
        Self::default()
    }

    /// User and group nobody (65534), no supplementary groups, no capabilities. A user who is unprivileged already
    /// stays himself.
    pub fn unprivileged(mut self) -> Self {
        self.unprivileged = true;
        self
    }

    /// The same as a user whom no other process has, where there are such: the kernel counts what all processes of a user lock.
    pub fn as_own_user(mut self) -> Self {
        self.own_user = true;
        self.unprivileged()
    }

    /// A seccomp filter answers `perf_event_open(2)` with this errno, and `pidfd_getfd(2)` too, as container
    /// runtimes do.
    pub fn refusing_perf_event_open(mut self, errno: i32) -> Self {
        self.refused_with = Some(errno);
        self
    }

    /// `RLIMIT_NOFILE`, soft and hard.
    pub fn open_files(mut self, limit: u64) -> Self {
        self.open_files = Some(limit);
        self
    }

    /// `RLIMIT_MEMLOCK`, soft and hard, in bytes.
    pub fn locked_bytes(mut self, limit: u64) -> Self {
        self.locked_bytes = Some(limit);
        self
    }

    /// Nothing is mounted at `/proc` but an empty folder, in mount and, for users, user namespaces of its own. Where
    /// those cannot be had the command does not start: [`has_namespaces`](Self::has_namespaces).
    pub fn without_proc(mut self) -> Self {
        self.without_proc = true;
        self
    }

    /// `memfd_create(2)` answers `EPERM`.
    pub fn without_memory_files(mut self) -> Self {
        self.without_memory_files = true;
        self
    }

    /// Skips where no program can be run [`without_proc`](Self::without_proc).
    pub fn has_namespaces() -> Outcome {
        let started = Sandbox::new().without_proc().command("/bin/true").status();
        match started {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Skip::needs("mount namespaces", status)),
            Err(error) => Err(Skip::needs("mount namespaces", error)),
        }
    }

    /// A command that will run under these conditions.
    pub fn command(self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        // SAFETY: `apply` calls nothing but async-signal-safe system calls and allocates nothing.
        unsafe { command.pre_exec(move || self.apply()) };
        command
    }

    /// Runs `body` under these conditions: the test program runs itself again for just this test. Call
    /// it as the whole of the test named `test` in a [`suite!`](crate::suite).
    pub fn within(self, test: &str, body: impl FnOnce() -> Outcome) -> Outcome {
        if std::env::var_os(WITHIN).is_some_and(|name| name == test) {
            return body().inspect_err(|Skip(reason)| {
                eprintln!("{reason}");
                exit(SKIPPED);
            });
        }
        // Through a descriptor, so that the folder of the program may be closed to the new user.
        let program = File::open("/proc/self/exe").expect("the running program can be opened");
        let path = format!("/proc/self/fd/{}", program.as_raw_fd());
        let mut command = Command::new(path);
        command.args(["--exact", test, "--test-threads=1"]).env(WITHIN, test).current_dir("/");
        let keep = program.as_raw_fd();
        // SAFETY: as in `command`; `fcntl` is async-signal-safe too.
        unsafe {
            command.pre_exec(move || {
                check(libc::fcntl(keep, libc::F_SETFD, 0))?;
                self.apply()
            })
        };
        let output = command.output().expect("the test program runs again");
        let text = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(SKIPPED) => Err(Skip(text.lines().last().unwrap_or_default().to_owned())),
            Some(0) => Ok(()),
            _ => panic!("inside {self:?}:\n{}{text}", String::from_utf8_lossy(&output.stdout)),
        }
    }

    /// Puts the conditions on the calling process.
    fn apply(&self) -> io::Result<()> {
        let limit = |resource, value: Option<u64>| match value {
            None => Ok(()),
            Some(value) => {
                let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
                // SAFETY: the pointer is to a live rlimit.
                check(unsafe { libc::setrlimit(resource, &limit) })
            }
        };
        limit(libc::RLIMIT_NOFILE, self.open_files)?;
        limit(libc::RLIMIT_MEMLOCK, self.locked_bytes)?;
        // SAFETY: geteuid has no preconditions.
        if self.unprivileged && unsafe { libc::geteuid() } == 0 {
            // SAFETY: no groups are read from the null pointer, their number being zero.
            check(unsafe { libc::setgroups(0, std::ptr::null()) })?;
            // SAFETY: plain numbers.
            check(unsafe { libc::setresgid(65534, 65534, 65534) })?;
            // SAFETY: plain numbers, as below.
            let become_user = |uid| check(unsafe { libc::setresuid(uid, uid, uid) });
            // SAFETY: getpid has no preconditions.
            let own = || become_user(OWN_USERS + unsafe { libc::getpid() } as u32);
            match self.own_user {
                // A user namespace may lack it.
                true => own().or_else(|_| become_user(65534))?,
                false => become_user(65534)?,
            }
        }
        if self.without_proc {
            hide_proc()?;
        }
        if self.without_memory_files {
            refuse(libc::EPERM, [libc::SYS_memfd_create as u32; 2])?;
        }
        self.refused_with
            .map_or(Ok(()), |errno| refuse(errno, [PIDFD_GETFD, libc::SYS_perf_event_open as u32]))
    }
}

/// From this uid on, by the number of the process, are users that nothing else has.
const OWN_USERS: u32 = 0x2000_0000;

/// Everywhere.
const PIDFD_GETFD: u32 = 438;

/// Puts an empty folder over `/proc`, for the calling process alone.
fn hide_proc() -> io::Result<()> {
    // SAFETY: no preconditions.
    let namespaces =
        if unsafe { libc::geteuid() } == 0 { 0 } else { libc::CLONE_NEWUSER } | libc::CLONE_NEWNS;
    let nothing = std::ptr::null();
    // SAFETY: plain numbers; names are NUL-terminated, and null where there is nothing to tell.
    unsafe {
        check(libc::unshare(namespaces))?;
        let private = libc::MS_REC | libc::MS_PRIVATE;
        check(libc::mount(nothing, c"/".as_ptr(), nothing, private, nothing.cast()))?;
        let (kind, at) = (c"tmpfs".as_ptr(), c"/proc".as_ptr());
        check(libc::mount(kind, at, kind, 0, nothing.cast()))
    }
}

/// Installs a filter that answers these calls with `errno` and lets everything else pass.
fn refuse(errno: i32, calls: [u32; 2]) -> io::Result<()> {
    let statement = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = [
        // The system call's number is the first word of struct seccomp_data.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, 0, calls[0]),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, calls[1]),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: plain numbers.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    // SAFETY: `filter` points to a program that lives through the call; the kernel copies it.
    check(unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) })
}

/// The errno of a call that returned -1.
fn check(result: i32) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
