//! Programs that stop as often as they can, or cannot be stopped: perfuse, which measures them, has to end when it is asked to,
//! and to serve all others meanwhile.
//!
//! The program runs itself for it: `storms storm NAME` is the measured side. No test here has an own idea of how long
//! things take: [`wait::until`] finds programs that do not end.
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

use perfuse_testkit::{Outcome, Skip, wait};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio, exit};
use std::thread;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("storm") => storm(&arguments[1]),
        _ => {
            // A shell's background and nohup(1) leave some of these signals ignored.
            [libc::SIGHUP, libc::SIGINT, libc::SIGTERM].into_iter().for_each(deal_with_as_usual);
            tests();
        }
    }
}

fn tests() {
    perfuse_testkit::run(
        perfuse_testkit::need::ptrace,
        &perfuse_testkit::tests! {
            measurements:
                signals_to_oneself,
                signals_of_threads,
                execs,
                forks,
                traps,
                faults,
                steps_of_its_own,
                stops_by_another,
                probed_jumps_to_themselves,
                steps_of_a_storm_are_counted,
                a_stopped_command_ends,
                the_second_time_nobody_is_asked,
                the_first_process_of_a_namespace_ends,
                what_the_tool_leaves_behind_is_asked_too,
                who_stops_seldom_is_served,
                nohup_is_heeded;
        },
    )
}

fn signals_to_oneself() -> Outcome {
    all("signals")
}

fn signals_of_threads() -> Outcome {
    all("threads")
}

fn execs() -> Outcome {
    all("execs")
}

fn forks() -> Outcome {
    all("forks")
}

fn traps() -> Outcome {
    all("traps")
}

fn faults() -> Outcome {
    all("faults")
}

fn stops_by_another() -> Outcome {
    all("stops")
}

fn steps_of_its_own() -> Outcome {
    programs_step_themselves()?;
    all("steps")
}

/// Says that it begins.
fn begin() {
    println!("it begins");
    std::io::stdout().flush().expect("a pipe that is read");
}

extern "C" fn nothing(_signal: libc::c_int) {}

fn heed(signal: libc::c_int) {
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(signal, nothing as extern "C" fn(libc::c_int) as usize) };
}

fn deal_with_as_usual(signal: libc::c_int) {
    // SAFETY: plain numbers.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

fn ignore(signal: libc::c_int) {
    // SAFETY: plain numbers.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

fn raise(signal: libc::c_int) {
    // SAFETY: a plain number.
    unsafe { libc::raise(signal) };
}

/// A child that works until it or its parent ends.
fn fork(work: impl Fn()) -> libc::pid_t {
    // SAFETY: this process has one thread when it forks.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: plain numbers.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        loop {
            work();
        }
    }
    child
}

fn sleep() {
    // SAFETY: no preconditions.
    unsafe { libc::pause() };
}

// Jumps to itself.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".global perfuse_jumps",
    ".type perfuse_jumps, @function",
    "perfuse_jumps: jmp perfuse_jumps",
    ".size perfuse_jumps, . - perfuse_jumps",
);
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".global perfuse_jumps",
    ".type perfuse_jumps, %function",
    "perfuse_jumps: b perfuse_jumps",
    ".size perfuse_jumps, . - perfuse_jumps",
);

unsafe extern "C" {
    fn perfuse_jumps();
}

fn trap() {
    // SAFETY: the signal that it raises has a handler; on arm64 the instruction is done again after that.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("int3");
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("brk #1");
    }
}

/// A trap after each instruction from here on; on arm64 nothing, where only a tracer can have that.
#[cfg(target_arch = "x86_64")]
fn step() {
    // SAFETY: the flag's traps have a handler; the stack is as before.
    unsafe { std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
}

#[cfg(target_arch = "aarch64")]
fn step() {}

fn storm(name: &str) -> ! {
    begin();
    match name {
        "signals" => {
            heed(libc::SIGUSR1);
            loop {
                raise(libc::SIGUSR1);
            }
        }
        "threads" => {
            heed(libc::SIGUSR1);
            for _ in 0..8 {
                thread::spawn(|| {
                    loop {
                        raise(libc::SIGUSR1);
                    }
                });
            }
        }
        "execs" => {
            let own = std::env::current_exe().expect("the running program has a path");
            let error = Command::new(own).args(["storm", name]).exec();
            panic!("{error}");
        }
        "forks" => loop {
            // SAFETY: this process has one thread, and the child ends at once; no status is asked for.
            unsafe {
                if libc::fork() == 0 {
                    libc::_exit(0);
                }
                libc::wait(std::ptr::null_mut());
            }
        },
        "traps" => {
            heed(libc::SIGTRAP);
            loop {
                trap();
            }
        }
        "faults" => {
            heed(libc::SIGSEGV);
            // SAFETY: none: it is a fault, whose handler returns to it.
            unsafe { std::ptr::without_provenance_mut::<u8>(16).write_volatile(1) };
        }
        "steps" => {
            heed(libc::SIGTRAP);
            step();
            loop {
                std::hint::spin_loop();
            }
        }
        "stops" => {
            let pid = std::process::id() as libc::pid_t;
            fork(|| {
                for signal in [libc::SIGSTOP, libc::SIGCONT] {
                    // SAFETY: plain numbers: its parent, with which it ends.
                    unsafe { libc::kill(pid, signal) };
                }
            });
            loop {
                std::hint::spin_loop();
            }
        }
        // SAFETY: it touches nothing.
        "jumps" => unsafe { perfuse_jumps() },
        "stopped" => raise(libc::SIGSTOP),
        "deaf" => {
            (1..32).for_each(ignore);
            loop {
                sleep();
            }
        }
        "namespace" => {
            // SAFETY: plain numbers.
            let own = unsafe {
                libc::unshare(libc::CLONE_NEWPID) == 0
                    || libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWPID) == 0
            };
            if !own {
                exit(77);
            }
            // SAFETY: this process has one thread when it forks.
            if unsafe { libc::fork() } == 0 {
                loop {
                    sleep();
                }
            }
        }
        "crowd" => {
            heed(libc::SIGUSR1);
            let others: Vec<_> = (0..30).map(|_| fork(|| raise(libc::SIGUSR1))).collect();
            for _ in 0..200 {
                raise(libc::SIGUSR1);
                thread::sleep(std::time::Duration::from_millis(1));
            }
            for pid in others {
                // SAFETY: plain numbers: its children.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
            exit(0);
        }
        other => panic!("no storm {other}"),
    }
    loop {
        sleep();
    }
}

fn own() -> String {
    std::env::current_exe().expect("the running program has a path").display().to_string()
}

/// A storm that is measured in some way, and has begun.
struct Measured {
    child: Child,
    file: Option<PathBuf>,
}

const WAYS: [&[&str]; 3] = [
    &["run", "--"],
    &["stat", "--kernel", "embedded", "-e", "task-clock", "--"],
    &["record", "--kernel", "embedded", "-F", "999", "-o", "FILE", "--"],
];

impl Measured {
    fn start(way: &[&str], storm: &str) -> Self {
        let mut file = None;
        let mut command = Command::new(env!("CARGO_BIN_EXE_perfuse"));
        for &argument in way {
            if argument == "FILE" {
                let name = format!("perfuse-storm-{}-{storm}.data", std::process::id());
                command.arg(file.insert(std::env::temp_dir().join(name)));
            } else {
                command.arg(argument);
            }
        }
        command.args([&own(), "storm", storm]).env_remove("PERFUSE_KERNEL");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("perfuse runs");
        let mut begun = [0; 9];
        let output = child.stdout.as_mut().expect("a pipe");
        output.read_exact(&mut begun).expect("the storm says so");
        Measured { child, file }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How often the threads of the program that measures have slept.
    fn sleeps(&self) -> u64 {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid()));
        let threads = threads.into_iter().flatten().filter_map(Result::ok);
        let sleeps = threads.filter_map(|thread| {
            let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
            line.trim().parse::<u64>().ok()
        });
        sleeps.sum()
    }

    /// It is in the middle of it.
    fn goes_on(&self) {
        let before = self.sleeps();
        wait::until("some dozens of stops", || self.sleeps() > before + 50);
    }

    fn send(&self, signal: libc::c_int) {
        // SAFETY: plain numbers: our child, which has not been waited for.
        unsafe { libc::kill(self.pid() as libc::pid_t, signal) };
    }

    /// Its exit status, once it has ended.
    fn ends(&mut self) -> Option<i32> {
        let mut status = None;
        wait::until("its end", || {
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(file) = &self.file {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// A storm is measured in all ways, and each ends when it is asked to: the storm by that signal.
fn all(storm: &str) -> Outcome {
    let signals = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];
    for (way, signal) in WAYS.into_iter().zip(signals) {
        let mut measured = Measured::start(way, storm);
        measured.goes_on();
        measured.send(signal);
        assert_eq!(measured.ends(), Some(128 + signal), "{way:?} of {storm}");
    }
    Ok(())
}

/// A terminal that goes away ends nobody who was started by nohup(1).
fn nohup_is_heeded() -> Outcome {
    for way in WAYS {
        // The child inherits it.
        ignore(libc::SIGHUP);
        let mut measured = Measured::start(way, "signals");
        deal_with_as_usual(libc::SIGHUP);
        measured.goes_on();
        measured.send(libc::SIGHUP);
        measured.goes_on();
        assert!(measured.child.try_wait().expect("a child").is_none(), "{way:?}");
        measured.send(libc::SIGTERM);
        assert_eq!(measured.ends(), Some(128 + libc::SIGTERM), "{way:?}");
    }
    Ok(())
}

fn probed_jumps_to_themselves() -> Outcome {
    let probe = format!("uprobe:{}:perfuse_jumps", own());
    let perfuse = env!("CARGO_BIN_EXE_perfuse");
    let ways: [&[&str]; 3] = [
        &["run", "--", perfuse, "stat", "--kernel", "linux", "-e", &probe, "--"],
        &["stat", "--kernel", "embedded", "-e", &probe, "--"],
        &["record", "--kernel", "embedded", "-e", &probe, "-o", "FILE", "--"],
    ];
    for way in ways {
        let mut measured = Measured::start(way, "jumps");
        measured.goes_on();
        measured.send(libc::SIGTERM);
        assert_eq!(measured.ends(), Some(128 + libc::SIGTERM), "{way:?}");
    }
    Ok(())
}

fn programs_step_themselves() -> Outcome {
    match cfg!(target_arch = "aarch64") {
        true => Err(Skip::needs("x86", "its programs can step themselves")),
        false => Ok(()),
    }
}

fn steps_of_a_storm_are_counted() -> Outcome {
    programs_step_themselves()?;
    for storm in ["steps", "traps", "stops"] {
        // From its middle on: its start would take long.
        let way = ["stat", "--kernel", "embedded", "-D", "100", "-e", "step/instructions/u", "--"];
        let mut measured = Measured::start(&way, storm);
        measured.goes_on();
        measured.send(libc::SIGTERM);
        assert_eq!(measured.ends(), Some(128 + libc::SIGTERM), "{storm}");
    }
    Ok(())
}

fn a_stopped_command_ends() -> Outcome {
    for way in WAYS {
        let mut measured = Measured::start(way, "stopped");
        let stopped = || {
            let mut all = children(measured.pid());
            all.any(|pid| {
                std::fs::read_to_string(format!("/proc/{pid}/status"))
                    .is_ok_and(|s| s.contains("(stopped)") || s.contains("tracing stop"))
            })
        };
        wait::until("its stop", stopped);
        measured.send(libc::SIGTERM);
        assert_eq!(measured.ends(), Some(128 + libc::SIGTERM), "{way:?}");
    }
    Ok(())
}

/// The children of all threads of a process.
fn children(pid: u32) -> impl Iterator<Item = u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().filter_map(Result::ok);
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let all: Vec<u32> = lists
        .flat_map(|list| list.split(' ').filter_map(|pid| pid.trim().parse().ok()).collect::<Vec<_>>())
        .collect();
    all.into_iter()
}

fn the_second_time_nobody_is_asked() -> Outcome {
    for way in WAYS {
        for signal in [libc::SIGTERM, libc::SIGINT] {
            let mut measured = Measured::start(way, "deaf");
            let pid = measured.pid();
            wait::until("it is deaf", || children(pid).any(|child| ignores(child, libc::SIGUSR2)));
            measured.send(signal);
            // Two that come at once would be one.
            wait::until("it is heard", || pending(pid) & 1 << (signal - 1) == 0);
            assert!(measured.child.try_wait().expect("a child").is_none(), "{way:?} asks");
            measured.send(signal);
            assert_eq!(measured.ends(), Some(128 + libc::SIGKILL), "{way:?}");
        }
    }
    Ok(())
}

fn set(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix(name));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
}

fn ignores(pid: u32, signal: libc::c_int) -> bool {
    set(pid, "SigIgn:") & 1 << (signal - 1) != 0
}

fn pending(pid: u32) -> u64 {
    set(pid, "ShdPnd:")
}

/// All processes below this one.
fn descendants(pid: u32) -> Vec<u32> {
    let own: Vec<u32> = children(pid).collect();
    own.iter().flat_map(|&child| descendants(child)).chain(own.iter().copied()).collect()
}

fn the_first_process_of_a_namespace_ends() -> Outcome {
    let mut measured = Measured::start(WAYS[0], "namespace");
    let pid = measured.pid();
    let mut there = false;
    wait::until("the namespace, or none", || {
        there = descendants(pid).len() == 2;
        there || measured.child.try_wait().expect("a child").is_some()
    });
    if !there {
        return Err(Skip::needs("a pid namespace of one's own", "unshare(2) refuses"));
    }
    // The tool ends by it; the process that is left has no handler, and would get no such signal.
    measured.send(libc::SIGTERM);
    assert_eq!(measured.ends(), Some(128 + libc::SIGTERM));
    Ok(())
}

fn what_the_tool_leaves_behind_is_asked_too() -> Outcome {
    let script = "sleep 1000 & echo begins...; wait";
    let mut command = Command::new(env!("CARGO_BIN_EXE_perfuse"));
    command.args(["run", "--", "sh", "-c", script]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("perfuse runs");
    child.stdout.as_mut().expect("a pipe").read_exact(&mut [0; 9]).expect("the tool says so");
    let mut measured = Measured { child, file: None };
    measured.send(libc::SIGTERM);
    assert_eq!(measured.ends(), Some(128 + libc::SIGTERM));
    Ok(())
}

fn who_stops_seldom_is_served() -> Outcome {
    for way in &WAYS[..2] {
        assert_eq!(Measured::start(way, "crowd").ends(), Some(0), "{way:?}");
    }
    Ok(())
}
