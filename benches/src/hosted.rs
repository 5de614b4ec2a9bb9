//! The cost of a call about an event for a program that `perfuse run` serves: next to the same call of Linux', to
//! a system call that nobody stops, and to the least that stopping one costs.

use crate::measure::{Contestant, shortest};
use crate::record::WORK;
use perfuse::abi::{Attr, AttrFlags, EventType, IocFlags, OpenFlags, Software};
use perfuse_sys::{Mapping, Protection, ioctl, perf_event_open, read};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::time::Instant;

/// The kind of work that makes this program its own tool: it prints what its calls cost.
pub const CALLS: &str = "event-calls";

/// The calls, in the order of the table.
const NAMES: [&str; 9] = [
    "getppid, nobody's business",
    "read of a pipe, nobody's business",
    "ioctl: id",
    "ioctl: enable",
    "read, switched off",
    "read of task-clock, on",
    "read of faults and switches, on",
    "open and close",
    "mmap and munmap of 8 pages",
];

/// Prints ns a call, one line each.
pub fn calls(amount: u64) {
    let amount = amount as u32;
    let time = |calls: u32, work: &mut dyn FnMut()| {
        let (rounds, calls) = (9, calls.div_ceil(9));
        let turn = Contestant::calls("", calls, work);
        println!("{}", shortest(rounds, &mut [turn])[0]);
    };
    let open = |config: u64, on: bool| {
        let mut attr = Attr::new(EventType::SOFTWARE);
        attr.config = config;
        attr.flags |= AttrFlags::EXCLUDE_HV;
        attr.flags.set(AttrFlags::DISABLED, !on);
        perf_event_open(&mut attr, 0, -1, None, OpenFlags::FD_CLOEXEC).expect("an event can be opened")
    };
    let (off, clock) = (open(Software::TASK_CLOCK.0, false), open(Software::TASK_CLOCK.0, true));
    let mut words = [0; 4];
    // SAFETY: it has no preconditions.
    time(amount * 10, &mut || {
        black_box(unsafe { libc::getppid() });
    });
    let (end, _kept) = std::io::pipe().expect("a pipe");
    // SAFETY: nothing is written through a null pointer of no length.
    time(amount * 10, &mut || {
        black_box(unsafe { libc::read(end.as_raw_fd(), std::ptr::null_mut(), 0) });
    });
    time(amount, &mut || {
        black_box(ioctl::id(off.as_fd()).expect("an id"));
    });
    time(amount, &mut || ioctl::enable(clock.as_fd(), IocFlags::empty()).expect("it can be switched on"));
    time(amount, &mut || {
        black_box(read(off.as_fd(), &mut words).expect("it can be read"));
    });
    time(amount, &mut || {
        black_box(read(clock.as_fd(), &mut words).expect("it can be read"));
    });
    {
        let faults = open(Software::PAGE_FAULTS.0, true);
        let _switches = open(Software::CONTEXT_SWITCHES.0, true);
        time(amount, &mut || {
            black_box(read(faults.as_fd(), &mut words).expect("it can be read"));
        });
    }
    time(amount / 10, &mut || drop(open(Software::DUMMY.0, false)));
    let ring = open(Software::DUMMY.0, false);
    let len = 9 * perfuse_sys::page_size();
    time(amount / 10, &mut || {
        drop(Mapping::new(ring.as_fd(), len, Protection::ReadWrite, 0).expect("a ring"));
    });
}

/// The figures that the work prints when this command runs it.
fn told(mut command: Command, amount: u64) -> Vec<f64> {
    let program = std::env::current_exe().expect("this program");
    let output = command.arg(program).args([WORK, CALLS, &amount.to_string()]).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.lines().map(|line| line.parse().expect("a number")).collect()
}

/// Everything.
pub fn all(perfuse: &str) {
    let floor = [true, false].map(|pinned| {
        let stops = Contestant::timed("", || stop_ns(3000, pinned));
        shortest(5, &mut [stops])[0]
    });
    println!(
        "live: a stop and its end, nothing done:  same cpu {:.2} us   as it comes {:.2} us",
        floor[0] / 1e3,
        floor[1] / 1e3
    );
    let mut best: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut keep = |name, figures: Vec<f64>| {
        let best = best.entry(name).or_insert_with(|| vec![f64::INFINITY; NAMES.len()]);
        best.iter_mut().zip(figures).for_each(|(best, new)| *best = best.min(new));
    };
    for _ in 0..5 {
        let env = |words: &[&str]| {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]);
            command
        };
        if perfuse_sys::perf_event_open_is_reachable().is_ok() {
            keep("Linux", told(env(&["env"]), 20_000));
        }
        keep("hosted", told(env(&[perfuse, "run", "--"]), 3000));
    }
    println!("live: a call of a program about its events  (shortest of 5 x 9 rounds)");
    let linux = best.get("Linux");
    for (index, name) in NAMES.into_iter().enumerate() {
        let linux = linux.map_or("-".to_owned(), |figures| format!("{:.2} us", figures[index] / 1e3));
        println!("  {name:34} Linux {linux:>12}   hosted {:>9.2} us", best["hosted"][index] / 1e3);
    }
    println!();
}

/// The time of one stop by ptrace, from the tracee's system call to its end.
fn stop_ns(stops: u32, pinned: bool) -> f64 {
    // SAFETY: the child, of a program with one thread, makes system calls until it is killed; all others are
    // calls about that child with plain numbers or pointers to live values.
    unsafe {
        let mut all: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&all), &raw mut all);
        if pinned {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(libc::sched_getcpu() as usize, &mut one);
            libc::sched_setaffinity(0, size_of_val(&one), &raw const one);
        }
        let child = libc::fork();
        if child == 0 {
            loop {
                libc::getppid();
            }
        }
        let wait = || {
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, libc::__WALL), child);
        };
        assert_eq!(libc::ptrace(libc::PTRACE_SEIZE, child, 0, 0), 0, "one's own child can be traced");
        libc::ptrace(libc::PTRACE_INTERRUPT, child, 0, 0);
        wait();
        let start = Instant::now();
        for _ in 0..stops {
            libc::ptrace(libc::PTRACE_SYSCALL, child, 0, 0);
            wait();
        }
        let ns = start.elapsed().as_nanos() as f64 / f64::from(stops);
        libc::kill(child, libc::SIGKILL);
        wait();
        libc::sched_setaffinity(0, size_of_val(&all), &raw const all);
        ns
    }
}
