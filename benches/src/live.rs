//! The cost of the embedded kernel for programs that are measured without Linux' perf_events, next to
//! `perf`, which has them.

use crate::embedded;
use crate::measure::{Contestant, compare, median};
use crate::record::{Run, alone, run};
use perfuse::{Perf, abi::Software};
use std::hint::black_box;
use std::process::{Command, Stdio};

/// Programs, and how much of their work.
const PROGRAMS: [(&str, u64); 3] = [("cpu", 150_000_000), ("calls", 1_000_000), ("forks", 400)];

const ROUNDS: usize = 11;

/// Everything.
pub fn all() {
    own_counter();
    let perfuse = crate::stat::perfuse();
    crate::hosted::all(&perfuse);
    crate::accuracy::all();
    let perf = Command::new("perf").arg("--version").stdout(Stdio::null()).status().is_ok();
    for (kind, amount) in PROGRAMS {
        slow_downs(kind, amount, &perfuse, perf);
    }
}

/// A way to measure: its name, and its command.
struct Way {
    name: String,
    words: Vec<String>,
}

/// Counted, and sampled at several rates, by us and by `perf`.
fn ways(perfuse: &str, perf: bool) -> Vec<Way> {
    let mut ways = Vec::new();
    let mut add = |how: &str, ours: &[&str], perfs: &[&str], options: &[&str]| {
        let both = [("perfuse", perfuse, ours), ("perf", "perf", perfs)];
        for (name, program, words) in both.into_iter().take(1 + usize::from(perf)) {
            let words = [&[program], words, options].concat().into_iter().map(str::to_owned).collect();
            ways.push(Way { name: format!("{how}, {name}"), words });
        }
    };
    add("counted", &["stat", "--kernel", "embedded"], &["stat"], &["-e", "task-clock,page-faults"]);
    for rate in ["99", "999", "4000"] {
        let options = ["-q", "-o", "/dev/null", "-e", "cpu-clock:u", "-F", rate];
        let ours = ["record", "--kernel", "embedded"];
        add(&format!("{rate} Hz"), &ours, &["record", "-B", "-N"], &options);
    }
    ways
}

/// How much longer a program takes that is measured. Wall time is that of the program itself. All ways take turns
/// with the program alone; what remains on a busy machine is told by the shortest rounds and by cpu time, which
/// is that of the program, without who measures.
fn slow_downs(kind: &str, amount: u64, perfuse: &str, perf: bool) {
    let ways = ways(perfuse, perf);
    let turn = |way: usize| match way.checked_sub(1) {
        None => alone(kind, amount),
        Some(way) => {
            let words = &ways[way].words;
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).arg("--").arg(std::env::current_exe().expect("this program"));
            run(command, kind, amount)
        }
    };
    let mut runs: Vec<Vec<Run>> = (0..=ways.len()).map(|_| Vec::new()).collect();
    for round in 0..=ROUNDS {
        let mut order: Vec<usize> = (0..runs.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for way in order {
            let run = turn(way);
            // The first round warms up.
            if round > 0 {
                runs[way].push(run);
            }
        }
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?");
    let of = |way: usize, what: fn(&Run) -> f64| runs[way].iter().map(what).collect::<Vec<f64>>();
    let least = |values: Vec<f64>| values.into_iter().fold(f64::INFINITY, f64::min);
    let wall: fn(&Run) -> f64 = |run| run.ns;
    let cpu: fn(&Run) -> f64 = |run| run.work_cpu_ns;
    println!(
        "live: what measuring adds to {kind}: {:.1} ms alone, load {load}, {ROUNDS} rounds",
        least(of(0, wall)) / 1e6
    );
    println!("  {:22} {:>10} {:>10} {:>10} {:>10}", "", "shortest", "median", "cpu least", "cpu median");
    for (way, Way { name, .. }) in ways.iter().enumerate() {
        let more = |a: f64, b: f64| format!("{:+.1} %", (a / b - 1.0) * 100.0);
        let columns = [wall, cpu].map(|what| {
            let (mut with, mut without) = (of(way + 1, what), of(0, what));
            let medians = more(median(&mut with), median(&mut without));
            [more(least(with), least(without)), medians]
        });
        let [[shortest, middle], [cpu_least, cpu_middle]] = columns;
        println!("  {name:22} {shortest:>10} {middle:>10} {cpu_least:>10} {cpu_middle:>10}");
    }
    println!();
}

/// Reading a counter of the calling thread.
fn own_counter() {
    let open = |kernel: Perf| kernel.counter(Software::TASK_CLOCK).user_only().enabled(true).open().ok();
    let mut contestants = Vec::new();
    for (name, counter) in [("Linux", open(Perf::linux())), ("embedded", open(embedded()))] {
        let Some(counter) = counter else { continue };
        contestants.push(Contestant::calls(name, 1000, move || {
            black_box(counter.read().expect("it can be read"));
        }));
    }
    compare("live: reading task-clock of the calling thread", 51, contestants);
}
