//! Programs beside their events: those that trace others, rights, signals, and signs that perfuse is there.

use super::super::scenarios::{attr, open, opened, value};
use super::super::tracers::{ATTACH, CONT, TRACEME, child, ptrace, stop_oneself, waited};
use super::super::wakeups::{hit, watch};
use perfuse_abi::{AttrFlags, OpenFlags, Software};
use perfuse_sys::process::spawn;
use perfuse_sys::{Errno, perf_event_open};
use perfuse_testkit::tiny::Tiny;
use perfuse_testkit::{Skip, need};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

/// A child that is traced does this; how it ends, and the number.
fn of_a_tracee(act: impl FnOnce() -> i32) -> i32 {
    let pid = child(|| {
        if ptrace(TRACEME, 0, 0).is_err() {
            return 255;
        }
        stop_oneself();
        act()
    });
    waited(pid, 0);
    let mut last = String::new();
    while !last.starts_with("ended") {
        let _ = ptrace(CONT, pid, 0);
        last = waited(pid, 0);
    }
    last.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(-1)
}

fn told(number: i32) -> String {
    if number == 0 { "works".to_owned() } else { format!("{:?}", Errno(number)) }
}

pub(crate) fn events_of_the_traced() {
    let number = of_a_tracee(|| open(&attr(Software::DUMMY)).map_or_else(|errno| errno.0, |_| 0));
    println!("{}", told(number).replace("works", "opens"));
}

pub(crate) fn traced_twice() {
    println!("{}", told(of_a_tracee(|| ptrace(TRACEME, 0, 0).map_or_else(|errno| errno.0, |()| 0))));
}

/// A process that has events.
pub(crate) fn tracing_of_measurers() {
    use std::io::{Read, Write};
    let (mut here, there) = std::os::unix::net::UnixStream::pair().expect("two ends");
    let pid = child(|| {
        let event = open(&attr(Software::DUMMY));
        let _ = (&there).write(b"!");
        let _ = (&there).read(&mut [0]);
        i32::from(event.is_err())
    });
    here.read_exact(&mut [0]).expect("it lives");
    let traced = ptrace(ATTACH, pid, 0).map_or_else(|errno| errno.0, |()| 0);
    println!("{}", told(traced));
    // SAFETY: a child that was not waited for; no status is written to the null pointer.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}

pub(crate) fn tracing_of_the_tool() {
    println!("{}", told(ptrace(TRACEME, 0, 0).map_or_else(|errno| errno.0, |()| 0)));
}

/// A set-user-id program of root's that tells whose it is, removed on drop.
pub(super) struct RootsProgram(pub(super) PathBuf);

impl RootsProgram {
    pub(super) fn new() -> Result<Self, Skip> {
        need::root()?;
        let path = std::env::temp_dir().join(format!("perfuse-suid-{}", std::process::id()));
        let id = fs::canonicalize(need::program("id")?).expect("it is there");
        if id.file_name().is_some_and(|name| name != "id") {
            return Err(Skip::needs("an id that is no part of another program", id.display()));
        }
        fs::copy(id, &path).expect("it can be copied");
        fs::set_permissions(&path, Permissions::from_mode(0o4755)).expect("it can be given away");
        Ok(RootsProgram(path))
    }
}

impl Drop for RootsProgram {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A user's perfuse, tool, and program of root's.
pub(crate) fn rights_by_exec() {
    let path = std::env::args().nth(3).expect("it was made for this");
    let output = Command::new(path).arg("-u").output().expect("it can be run");
    println!("{}", if output.stdout == b"0\n" { "given" } else { "not given" });
}

fn disposition(signal: i32) -> &'static str {
    // SAFETY: an all-zero sigaction is a valid value of that plain struct; the pointer is to a live one.
    let action = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action);
        action
    };
    match action.sa_sigaction {
        libc::SIG_IGN => "still ignored",
        libc::SIG_DFL => "no longer ignored",
        _ => "handled",
    }
}

fn ignore(signal: i32) {
    // SAFETY: ignoring is always a valid action.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Where a filter refuses the call.
pub(crate) fn ignored_sigsys() {
    ignore(libc::SIGSYS);
    let _ = open(&attr(Software::DUMMY));
    println!("{}", disposition(libc::SIGSYS));
}

pub(crate) fn ignored_sigtrap() {
    ignore(libc::SIGTRAP);
    let event = opened(&watch(1));
    hit(3);
    println!("{}", disposition(libc::SIGTRAP));
    drop(event);
}

/// A program looks for signs of its tracer and its filters.
pub(crate) fn signs_of_perfuse() {
    let _event = opened(&attr(Software::DUMMY));
    let status = std::fs::read_to_string("/proc/self/status").expect("it is there");
    let field = |name: &str| {
        let text = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0");
        text.trim().parse::<i32>().unwrap_or(0)
    };
    let tracer = if field("TracerPid:") > 0 { "a tracer" } else { "no tracer" };
    println!("{tracer}, {}", if field("Seccomp:") > 0 { "a filter" } else { "no filter" });
}

/// Rule D41: a program of one page, which faults when it is fetched; before that the kernel's work for its memory does, most times.
pub(crate) fn counts_from_exec_on() {
    let program = Tiny::loops(1);
    let faults_of_one = || {
        let held = spawn(program.path().as_os_str(), &["tiny"].map(Into::into)).expect("a child");
        let mut faults = attr(Software::PAGE_FAULTS);
        faults.flags |= AttrFlags::ENABLE_ON_EXEC;
        let event = perf_event_open(&mut faults, held.pid(), -1, None, OpenFlags::FD_CLOEXEC);
        let event = event.expect("of a child");
        held.release().expect("an exec").wait().expect("an end");
        value(&event)
    };
    let most = (0..10).map(|_| faults_of_one()).max().unwrap_or(0);
    println!("those of the {}", if most > 1 { "kernel's part, too" } else { "program alone" });
}
