//! The simulated machine: steps a second, and how they grow with tasks and events.

use perfuse_sim::scenario::Scenario;
use perfuse_sim::{Machine, Setup};
use std::time::Instant;

/// Time on the machine that is played.
const PLAYED_NS: u64 = 2_000_000_000;

/// So many tasks on two cpus, each with so many events on four counters.
fn machine(tasks: usize, events: usize) -> Machine {
    let text = "program w\n repeat 100000\n compute 900us cycles=1000\n fault\n sleep 100us\n end\nend\n\
                open c cycles cpu 0\n";
    let scenario: Scenario = text.parse().expect("a scenario");
    let mut machine = Machine::new(Setup { cpus: 2, ..Setup::default() });
    scenario.programs.into_iter().for_each(|program| machine.know(program));
    let attr = match &scenario.statements[0].statement {
        perfuse_sim::scenario::Statement::Open(open) => open.attr,
        _ => unreachable!("it opens an event"),
    };
    for _ in 0..tasks {
        let task = machine.spawn("w").expect("a task");
        for _ in 0..events {
            let arguments = perfuse_engine::OpenArguments { pid: task.0 as i32, ..Default::default() };
            machine.open(task, &attr, arguments).expect("an event");
        }
    }
    machine
}

pub fn all() {
    println!("sim: two cpus, tasks that work, fault and sleep; events of each on four counters");
    for (tasks, events) in [(4, 0), (4, 1), (4, 8), (4, 64), (64, 1), (64, 8)] {
        let mut machine = machine(tasks, events);
        let start = Instant::now();
        machine.run_until(PLAYED_NS);
        let seconds = start.elapsed().as_secs_f64();
        let rate = machine.steps() as f64 / seconds;
        println!(
            "  {tasks:3} tasks, {events:3} events each: {:>10.0} steps/s, {:.1} s of its time a second",
            rate,
            2.0 / seconds
        );
    }
    println!();
}
