//! Thousands of events of one task: what opening and closing each of them costs, in a group whose leader is
//! closed first, and each on its own; by the engine, the embedded kernel and `perfuse run`, next to Linux. And a fork
//! of the task that copies them all.

use crate::embedded;
use crate::engine::Bench;
use crate::measure::display;
use crate::record::WORK;
use perfuse::Perf;
use perfuse::abi::{Attr, AttrFlags, EventType, OpenFlags, Software};
use perfuse_engine::{CloneFlags, TaskFacts, TaskId};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::time::Instant;

/// The kinds of work that make this program its own tool.
pub const GROUP: &str = "siblings";
pub const ALONE: &str = "events";

const ROUNDS: usize = 5;
const SIZES: [u64; 2] = [200, 2000];

/// Nanoseconds for each: opened, closed.
type Each = [f64; 2];

fn attr() -> Attr {
    let flags = AttrFlags::EXCLUDE_HV | AttrFlags::EXCLUDE_KERNEL;
    Attr { config: Software::PAGE_FAULTS.0, flags, ..Attr::new(EventType::SOFTWARE) }
}

/// By a kernel, on the calling thread.
fn by(kernel: &Perf, group: bool, count: u64) -> Each {
    let start = Instant::now();
    let mut events: Vec<OwnedFd> = Vec::new();
    for _ in 0..count {
        let leader = events.first().filter(|_| group).map(AsFd::as_fd);
        let event = kernel.perf_event_open(&mut attr(), 0, -1, leader, OpenFlags::FD_CLOEXEC);
        events.push(event.expect("an event can be opened"));
    }
    let opened = start.elapsed();
    events.into_iter().for_each(|event| kernel.close(event));
    let all = start.elapsed();
    [opened, all - opened].map(|time| time.as_nanos() as f64 / count as f64)
}

/// Prints what Linux, or whoever serves its calls, takes.
pub fn work(group: bool, count: u64) {
    more_descriptors();
    let [opened, closed] = by(&Perf::linux(), group, count);
    println!("{opened} {closed}");
}

/// Thousands of descriptors, where root or the hard limit allows them.
fn more_descriptors() {
    // SAFETY: reads and sets a limit of this process through a value on the stack.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
}

fn told(words: &[&str], group: bool, count: u64) -> Each {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(program).args([
        WORK,
        if group { GROUP } else { ALONE },
        &count.to_string(),
    ]);
    let output = command.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let figures: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    figures.try_into().unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

fn by_engine(group: bool, count: u64) -> Each {
    let mut bench = Bench::new();
    bench.switch(1);
    let start = Instant::now();
    let events = bench.open_all(&attr(), group, count as usize);
    let opened = start.elapsed();
    for event in events {
        bench.engine.close(event, bench.now);
        bench.engine.effects().for_each(drop);
    }
    let all = start.elapsed();
    [opened, all - opened].map(|time| time.as_nanos() as f64 / count as f64)
}

/// Nanoseconds for each event: of a fork, and of the child's end.
fn fork_of_engine(group: bool, count: u64) -> Each {
    let mut bench = Bench::new();
    bench.switch(1);
    let mut attr = attr();
    attr.flags |= AttrFlags::INHERIT;
    bench.open_all(&attr, group, count as usize);
    let (now, child) = (bench.now, TaskId(9));
    let start = Instant::now();
    let forked = bench.engine.fork(TaskId(1), child, TaskFacts::new(9, 9), CloneFlags::default(), 0, now);
    forked.expect("copies can be made");
    let opened = start.elapsed();
    bench.engine.exit(child, Some(TaskId(1)), 0, now);
    let all = start.elapsed();
    [opened, all - opened].map(|time| time.as_nanos() as f64 / count as f64)
}

/// Everything.
pub fn all() {
    more_descriptors();
    let perfuse = crate::stat::perfuse();
    let linux_is_there = perfuse_sys::perf_event_open_is_reachable().is_ok();
    for (group, name) in
        [(true, "siblings of one group, the leader closed first"), (false, "events on their own")]
    {
        println!("{name}, on one task: for each of so many  (the least of {ROUNDS} rounds)");
        type Turn<'a> = (&'a str, Box<dyn Fn(u64) -> Each + 'a>);
        let mut turns: Vec<Turn<'_>> = Vec::new();
        if linux_is_there {
            turns.push(("Linux", Box::new(|count| told(&["env"], group, count))));
        }
        turns.push(("the engine", Box::new(|count| by_engine(group, count))));
        turns.push(("the engine, fork and exit", Box::new(|count| fork_of_engine(group, count))));
        turns.push(("the embedded kernel", Box::new(|count| by(&embedded(), group, count))));
        turns.push(("perfuse run", Box::new(|count| told(&[&perfuse, "run", "--"], group, count))));
        let mut least = vec![[[f64::INFINITY; 2]; SIZES.len()]; turns.len()];
        for _ in 0..ROUNDS {
            for ((_, turn), least) in turns.iter().zip(&mut least) {
                for (count, least) in SIZES.into_iter().zip(least) {
                    let each = turn(count);
                    *least = [0, 1].map(|step| least[step].min(each[step]));
                }
            }
        }
        let linux = least[0];
        for ((name, _), least) in turns.iter().zip(&least) {
            for (step, what) in ["opened", "closed"].into_iter().enumerate() {
                let [few, many] = [least[0][step], least[1][step]];
                let [few_text, many_text] = [few, many].map(display);
                println!(
                    "  {name:26} {what}  {}: {few_text:>9}  {}: {many_text:>9}  growth {:>6.2} x   {:>8.3} x Linux",
                    SIZES[0],
                    SIZES[1],
                    many / few,
                    many / linux[1][step],
                );
            }
        }
        println!();
    }
}
