//! Programs that trace others, as debuggers do. Each writes what Linux and we must agree on.

use super::scenarios::{on, value};
use super::strangers::{Victim, as_root, become_user};
use perfuse_abi::{Attr, AttrFlags, EventType, OpenFlags, Software};
use perfuse_sys::{Errno, perf_event_open};
use perfuse_testkit::work;
use std::time::Duration;

pub(crate) fn errno() -> Errno {
    Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

const SEIZE: i64 = 0x4206;
const INTERRUPT: i64 = 0x4207;

/// `ptrace(2)`, with a request that writes nothing to memory.
pub(crate) fn ptrace(request: i64, pid: i32, data: i64) -> Result<(), Errno> {
    // SAFETY: plain numbers; these requests take no pointers.
    match unsafe { libc::syscall(libc::SYS_ptrace, request, pid, 0, data) } {
        -1 => Err(errno()),
        _ => Ok(()),
    }
}

pub(crate) const TRACEME: i64 = libc::PTRACE_TRACEME as i64;
pub(crate) const ATTACH: i64 = libc::PTRACE_ATTACH as i64;
const DETACH: i64 = libc::PTRACE_DETACH as i64;
pub(crate) const CONT: i64 = libc::PTRACE_CONT as i64;
const SYSCALL: i64 = libc::PTRACE_SYSCALL as i64;
pub(crate) const SETOPTIONS: i64 = libc::PTRACE_SETOPTIONS as i64;

/// The result of a wait.
pub(crate) fn waited(pid: i32, options: i32) -> String {
    let mut status = 0;
    // SAFETY: the pointer is to a live number.
    match unsafe { libc::waitpid(pid, &mut status, options | libc::__WALL) } {
        -1 => format!("{:?}", errno()),
        _ if libc::WIFSTOPPED(status) => {
            format!("stopped by {} event {}", libc::WSTOPSIG(status), status >> 16)
        }
        _ if libc::WIFSIGNALED(status) => format!("ended by {}", libc::WTERMSIG(status)),
        _ => format!("ended with {}", libc::WEXITSTATUS(status)),
    }
}

fn say(what: &str, pid: i32) {
    println!("{what}: {}", waited(pid, 0));
}

/// A child that does this and ends with the answer, without running anything else of this program.
pub(crate) fn child(act: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child does system calls only, and ends.
    match unsafe { libc::fork() } {
        // SAFETY: as above.
        0 => unsafe { libc::_exit(act()) },
        pid => pid,
    }
}

pub(crate) fn stop_oneself() {
    // SAFETY: a plain number.
    unsafe { libc::raise(libc::SIGSTOP) };
}

fn be_traced() -> i32 {
    match ptrace(TRACEME, 0, 0) {
        Ok(()) => 0,
        Err(errno) => errno.0,
    }
}

pub(crate) fn a_child_asks_to_be_traced() {
    for round in 0..3 {
        let pid = child(|| {
            let refused = be_traced();
            stop_oneself();
            // Once more is once too often.
            if refused == 0 && be_traced() == 0 { 1 } else { refused }
        });
        say("asked", pid);
        println!("options: {:?}", ptrace(SETOPTIONS, pid, libc::PTRACE_O_TRACESYSGOOD.into()));
        println!("to a call: {:?}", ptrace(SYSCALL, pid, 0));
        say("a call", pid);
        println!("on: {:?}", ptrace(CONT, pid, 0));
        say("the end", pid);
        // An exec stops the thread.
        let pid = child(|| {
            let refused = be_traced();
            let name = c"/bin/true".as_ptr();
            // SAFETY: names that end with NUL, and an array that ends with a null pointer.
            unsafe { libc::execv(name, [name, std::ptr::null()].as_ptr()) };
            100 + refused
        });
        say("exec", pid);
        let go = if round == 0 { ptrace(DETACH, pid, 0) } else { ptrace(CONT, pid, 0) };
        println!("on: {go:?}");
        say("the end", pid);
    }
}

/// Debuggers find the threads that they attach to sleeping, running, stopped, and between two of these.
pub(crate) fn others_are_attached_to() {
    let sleeper = Victim::new();
    let runner = child(|| {
        work::burn(Duration::from_secs(20));
        0
    });
    for pid in [sleeper.pid(), runner] {
        for _ in 0..2 {
            println!("attach: {:?}", ptrace(ATTACH, pid, 0));
            say("stopped", pid);
            println!("once more: {:?}", ptrace(ATTACH, pid, 0));
            println!("detach: {:?}", ptrace(DETACH, pid, 0));
            println!("seize: {:?}", ptrace(SEIZE, pid, 0));
            println!("interrupt: {:?}", ptrace(INTERRUPT, pid, 0));
            say("stopped", pid);
            println!("detach: {:?}", ptrace(DETACH, pid, 0));
            // By now it may have been taken back, or be on the way to that.
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    // SAFETY: a plain number; it is our child.
    unsafe { libc::kill(runner, libc::SIGKILL) };
    say("the end", runner);
    // So strace starts programs.
    let stopped = child(|| {
        stop_oneself();
        3
    });
    println!("stops: {}", waited(stopped, libc::WUNTRACED));
    println!("seize: {:?}", ptrace(SEIZE, stopped, 0));
    say("is told", stopped);
    // SAFETY: a plain number; it is our child.
    unsafe { libc::kill(stopped, libc::SIGCONT) };
    println!("on: {:?}", ptrace(CONT, stopped, 0));
    let mut last = String::new();
    while !last.starts_with("ended") {
        last = waited(stopped, 0);
        let _ = ptrace(CONT, stopped, 0);
    }
    println!("the end: {last}");
}

/// Threads are attached to one by one; those that are not go on.
pub(crate) fn threads_are_attached_to() {
    let pid = child(|| {
        for _ in 0..3 {
            std::thread::spawn(|| work::burn(Duration::from_secs(20)));
        }
        work::burn(Duration::from_secs(20));
        0
    });
    let threads = || -> Vec<i32> {
        let all = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it lives");
        all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
    };
    perfuse_testkit::wait::until("four threads", || threads().len() == 4);
    for some in [4, 1, 2] {
        let all: Vec<i32> = threads().into_iter().rev().take(some).collect();
        for &tid in &all {
            println!("seize: {:?}", ptrace(SEIZE, tid, 0));
            println!("interrupt: {:?}", ptrace(INTERRUPT, tid, 0));
            say("stopped", tid);
        }
        for &tid in &all {
            println!("detach: {:?}", ptrace(DETACH, tid, 0));
        }
    }
    // SAFETY: a plain number; it is our child.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    say("the end", pid);
}

/// Linux decides about the right.
pub(crate) fn nobody_traces_whom_he_may_not() {
    as_root();
    let roots = Victim::new();
    // SAFETY: these have no preconditions.
    let (own, parent) = unsafe { (libc::getpid(), libc::getppid()) };
    let thread = std::thread::spawn(move || (ptrace(ATTACH, own, 0), ptrace(SEIZE, own, 0)));
    println!("one's own thread: {:?}", thread.join().expect("no panic"));
    println!("oneself: {:?}, nobody: {:?}", ptrace(ATTACH, own, 0), ptrace(SEIZE, 0x3fff_fff0, 0));
    println!("wrong options: {:?}", ptrace(SEIZE, roots.pid(), 1 << 30));
    work::Child::fork(|| {
        become_user(65534);
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let tracer =
            status.lines().find_map(|line| line.strip_prefix("TracerPid:")?.trim().parse::<i32>().ok());
        for (name, pid) in
            [("a child of root", roots.pid()), ("root", own), ("whoever made it", parent), ("init", 1)]
        {
            println!("{name}: {:?}, {:?}", ptrace(ATTACH, pid, 0), ptrace(SEIZE, pid, 0));
        }
        if let Some(tracer @ 1..) = tracer {
            assert_eq!(ptrace(ATTACH, tracer, 0), Err(Errno::EPERM), "the supervisor is root's");
        }
        let own = Victim::new();
        // A process that cannot be dumped is not one's own.
        println!("one's own child: {:?}", ptrace(SEIZE, own.pid(), 0));
    })
    .join();
    // Nothing has happened to it.
    println!("root attaches: {:?}", ptrace(ATTACH, roots.pid(), 0));
    say("stopped", roots.pid());
}

/// A tracer that is killed leaves what it has attached to, which goes on and can be traced again.
pub(crate) fn a_tracer_is_killed() {
    let victim = Victim::new();
    for _ in 0..3 {
        let pid = victim.pid();
        let tracer = child(move || {
            let attached = ptrace(SEIZE, pid, 0);
            stop_oneself();
            i32::from(attached.is_err())
        });
        println!("the tracer: {}", waited(tracer, libc::WUNTRACED));
        // SAFETY: a plain number; it is our child.
        unsafe { libc::kill(tracer, libc::SIGKILL) };
        say("is killed", tracer);
        println!("attach: {:?}", ptrace(ATTACH, pid, 0));
        say("stopped", pid);
        println!("detach: {:?}", ptrace(DETACH, pid, 0));
    }
}

/// A tracer that asks again and again is told the same, and two that attach to each other hold up no other.
pub(crate) fn tracing_without_end() {
    for _ in 0..200 {
        let pid = child(|| i32::from(be_traced() != 0));
        if waited(pid, 0) != "ended with 0" {
            println!("refused");
        }
    }
    let victim = Victim::new();
    for _ in 0..100 {
        if ptrace(SEIZE, victim.pid(), 0).is_err() || ptrace(INTERRUPT, victim.pid(), 0).is_err() {
            println!("refused");
        }
        waited(victim.pid(), 0);
        ptrace(DETACH, victim.pid(), 0).expect("it is stopped");
    }
    // SAFETY: getpid has no preconditions.
    let own = unsafe { libc::getpid() };
    // Its tracer ends before it is done with it.
    for _ in 0..50 {
        let tracer = child(|| i32::from(ptrace(SEIZE, own, 0).is_err()));
        println!("its parent: {}", waited(tracer, 0));
    }
}

/// Counts of a process go on while another traces it.
pub(crate) fn what_is_traced_is_counted() {
    const PAGES: usize = 500;
    let faults = |pid| {
        let mut attr = Attr::new(EventType::SOFTWARE);
        attr.config = Software::PAGE_FAULTS.0;
        attr.flags |= AttrFlags::DISABLED | AttrFlags::INHERIT | AttrFlags::EXCLUDE_KERNEL;
        perf_event_open(&mut attr, pid, -1, None, OpenFlags::FD_CLOEXEC)
    };
    let tracer = child(|| {
        stop_oneself();
        let traced = child(|| {
            let refused = be_traced();
            stop_oneself();
            work::touch_pages(PAGES);
            stop_oneself();
            refused
        });
        for _ in 0..2 {
            waited(traced, 0);
            std::thread::sleep(Duration::from_millis(50));
            let _ = ptrace(CONT, traced, 0);
        }
        i32::from(waited(traced, 0) != "ended with 0")
    });
    println!("held: {}", waited(tracer, libc::WUNTRACED));
    let event = faults(tracer).unwrap_or_else(|errno| {
        println!("cannot be opened: {errno}");
        std::process::exit(2)
    });
    on(&event);
    // SAFETY: a plain number; it is our child.
    unsafe { libc::kill(tracer, libc::SIGCONT) };
    say("the tracer", tracer);
    let count = value(&event);
    println!("counted: {}", count >= PAGES as u64 && count < 2 * PAGES as u64);
}

/// As sanitizers look at their own process: by a child that no other is to trace.
pub(crate) fn one_that_nobody_is_to_trace_traces() {
    // SAFETY: getpid has no preconditions.
    let own = unsafe { libc::getpid() };
    // SAFETY: without CLONE_VM it is a fork; the child does system calls only, and ends.
    let pid = unsafe {
        let flags = (libc::CLONE_UNTRACED | libc::CLONE_FILES | libc::SIGCHLD) as u64;
        libc::syscall(libc::SYS_clone, flags, 0usize, 0usize, 0usize, 0usize) as i32
    };
    if pid == 0 {
        let attached = ptrace(ATTACH, own, 0).is_ok() && waited(own, 0).starts_with("stopped by 19");
        let left = attached && ptrace(DETACH, own, 0).is_ok();
        // SAFETY: ends without running anything of this program.
        unsafe { libc::_exit(i32::from(!left)) }
    }
    say("it has looked", pid);
}

/// A process that is stopped and sent on at once is not left behind in a stop.
pub(crate) fn stopped_and_sent_on() {
    let pid = child(|| {
        work::burn(Duration::from_secs(20));
        0
    });
    for round in 0..150 {
        for signal in [libc::SIGSTOP, libc::SIGCONT] {
            // SAFETY: plain numbers; it is our child.
            unsafe { libc::kill(pid, signal) };
            // At other moments each time.
            (0..round * 400).for_each(|_| std::hint::spin_loop());
        }
    }
    // SAFETY: plain numbers; it is our child.
    unsafe { libc::kill(pid, libc::SIGTERM) };
    let mut last = String::new();
    let ends = || {
        last = waited(pid, libc::WNOHANG);
        last.starts_with("ended by")
    };
    perfuse_testkit::wait::until("the end", ends);
    println!("{last}");
}
