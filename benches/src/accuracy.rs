//! How far the embedded kernel's counts are from Linux', of the same runs: both have counters on a command
//! that is held before its exec.

use crate::embedded;
use crate::record::WORK;
use perfuse::abi::Software;
use perfuse::{Command, Counter, HeldCommand, Inherit, Perf};

const EVENTS: [Software; 4] =
    [Software::TASK_CLOCK, Software::PAGE_FAULTS, Software::CONTEXT_SWITCHES, Software::CPU_MIGRATIONS];

/// Programs, and how much of their work.
const PROGRAMS: [(&str, u64); 5] =
    [("cpu", 300_000_000), ("calls", 3_000_000), ("faults", 20_000), ("switches", 5_000), ("forks", 400)];

/// Everything.
pub fn all() {
    let allowed = Counter::builder(Software::CONTEXT_SWITCHES).user_and_kernel().open();
    if let Err(error) = allowed {
        return println!("skipped: live: accuracy: {error}");
    }
    println!(
        "live: counts of the embedded kernel less those of Linux, of the same runs (median of 5, and the widest)"
    );
    for (kind, amount) in PROGRAMS {
        let runs: Vec<[(u64, u64); EVENTS.len()]> = (0..5).map(|_| run(kind, amount)).collect();
        let text = |event: usize| {
            let (ours, linux) = runs[0][event];
            let mut apart: Vec<f64> = runs
                .iter()
                .map(|run| {
                    let (ours, linux) = run[event];
                    let by = if event == 0 { 100.0 / linux as f64 } else { 1.0 };
                    (ours as f64 - linux as f64) * by
                })
                .collect();
            apart.sort_by(f64::total_cmp);
            let widest = if apart[0].abs() > apart[4].abs() { apart[0] } else { apart[4] };
            match event {
                0 => format!("{:+.2} % ({widest:+.2}) of {:.1} ms", apart[2], linux as f64 / 1e6),
                _ => format!("{:+.0} ({widest:+.0}) of {}", apart[2], linux.max(ours)),
            }
        };
        println!(
            "  {kind:10} task-clock {:32} faults {:24} switches {:22} migrations {}",
            text(0),
            text(1),
            text(2),
            text(3)
        );
    }
    println!();
}

/// Both counts of one run: ours and Linux'.
fn run(kind: &str, amount: u64) -> [(u64, u64); EVENTS.len()] {
    let program = std::env::current_exe().expect("this program");
    let nowhere = std::fs::File::options().write(true).open("/dev/null").expect("it is there");
    let command = Command::new(program).args([WORK, kind, &amount.to_string()]).stdout(nowhere);
    let command = command.hold().expect("a child");
    let theirs = counters(&command, &Perf::linux());
    let ours = counters(&command, &embedded());
    command.release().expect("it starts").wait().expect("it ends");
    let value = |counter: &Counter| counter.read().expect("it can be read").value;
    std::array::from_fn(|event| (value(&ours[event]), value(&theirs[event])))
}

fn counters(command: &HeldCommand, kernel: &Perf) -> Vec<Counter> {
    let open = |event| {
        let builder = kernel.counter(event).target(command.target()).user_and_kernel();
        builder.inherit(Inherit::All).enable_on_exec(true).open().expect("it can be counted")
    };
    EVENTS.map(open).into()
}
