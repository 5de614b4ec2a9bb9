//! What the embedded kernel costs the programs that are measured without Linux' perf_events, next to
//! `perf`, which has them.

use crate::measure::{Contestant, compare};
use crate::record::{alone, run};
use perfuse::kernel::{embedded, linux};
use perfuse::{Counter, abi::Software};
use std::hint::black_box;
use std::process::{Command, Stdio};

/// Programs, and how much of their work.
const PROGRAMS: [(&str, u64); 3] = [("cpu", 60_000_000), ("calls", 1_000_000), ("forks", 400)];

/// Everything.
pub fn all() {
    own_counter();
    let perfuse = crate::stat::perfuse();
    crate::hosted::all(&perfuse);
    crate::accuracy::all();
    let perf = Command::new("perf").arg("--version").stdout(Stdio::null()).status().is_ok();
    for (kind, amount) in PROGRAMS {
        let counting = [(&perfuse[..], &["stat", "--kernel", "embedded"][..]), ("perf", &["stat"])];
        slow_down(
            "counted",
            kind,
            amount,
            &counting[..1 + usize::from(perf)],
            &["-e", "task-clock,page-faults"],
        );
        for rate in ["99", "999", "4000"] {
            let recording =
                [(&perfuse[..], &["record", "--kernel", "embedded"][..]), ("perf", &["record", "-B", "-N"])];
            let options = ["-q", "-o", "/dev/null", "-e", "cpu-clock:u", "-F", rate];
            let recording = &recording[..1 + usize::from(perf)];
            slow_down(&format!("sampled at {rate} Hz"), kind, amount, recording, &options);
        }
    }
}

/// How much longer a program takes that is measured.
fn slow_down(how: &str, kind: &str, amount: u64, by: &[(&str, &[&str])], options: &[&str]) {
    let mut contestants = vec![Contestant::timed("alone", || alone(kind, amount).ns)];
    contestants.extend(by.iter().map(|&(program, words)| {
        let name = if program == "perf" { "perf" } else { "perfuse, without perf_events" };
        Contestant::timed(name, move || {
            let mut command = Command::new(program);
            command.args(words).args(options).arg("--").arg(std::env::current_exe().expect("this program"));
            run(command, kind, amount).ns
        })
    }));
    compare(&format!("live: time of a program: {kind}, {how}"), 9, contestants);
}

/// Reading a counter of the calling thread.
fn own_counter() {
    let open = |kernel| {
        let builder = Counter::builder(Software::TASK_CLOCK).kernel(kernel).user_only().enabled(true);
        builder.open().ok()
    };
    let mut contestants = Vec::new();
    for (name, counter) in [("Linux", open(linux())), ("embedded", open(embedded()))] {
        let Some(counter) = counter else { continue };
        contestants.push(Contestant::calls(name, 1000, move || {
            black_box(counter.read().expect("it can be read"));
        }));
    }
    compare("live: reading task-clock of the calling thread", 51, contestants);
}
