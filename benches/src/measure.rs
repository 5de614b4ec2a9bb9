//! Taking turns, medians, and the table.

use std::time::Instant;

/// A contestant: its name, and one turn of its work, which tells how many ns a unit of it took.
pub struct Contestant<'a> {
    pub name: &'static str,
    pub turn: Box<dyn FnMut() -> f64 + 'a>,
}

impl<'a> Contestant<'a> {
    /// Times `calls` calls of `work` as one turn.
    pub fn calls(name: &'static str, calls: u32, mut work: impl FnMut() + 'a) -> Self {
        let turn = move || {
            let start = Instant::now();
            (0..calls).for_each(|_| work());
            start.elapsed().as_nanos() as f64 / f64::from(calls)
        };
        Contestant { name, turn: Box::new(turn) }
    }

    /// A turn that times itself.
    pub fn timed(name: &'static str, turn: impl FnMut() -> f64 + 'a) -> Self {
        Contestant { name, turn: Box::new(turn) }
    }
}

/// Runs the contestants in turns and prints their medians, with ratios against the first.
pub fn compare(title: &str, rounds: usize, mut contestants: Vec<Contestant<'_>>) {
    println!("{title}  (median of {rounds} rounds)");
    let medians: Vec<f64> =
        rounds_of(rounds, &mut contestants).iter_mut().map(|times| median(times)).collect();
    for (contestant, ns) in contestants.iter().zip(&medians) {
        println!("  {:34} {:>12}   {:>7.3} x", contestant.name, display(*ns), ns / medians[0]);
    }
    println!();
}

/// The shortest turn of each contestant: what remains on a busy machine where turns are short.
pub fn shortest(rounds: usize, contestants: &mut [Contestant<'_>]) -> Vec<f64> {
    let all = rounds_of(rounds, contestants);
    all.iter().map(|times| times.iter().copied().fold(f64::INFINITY, f64::min)).collect()
}

fn rounds_of(rounds: usize, contestants: &mut [Contestant<'_>]) -> Vec<Vec<f64>> {
    let mut times = vec![Vec::with_capacity(rounds); contestants.len()];
    for round in 0..=rounds {
        // Every other round the other way round, so that nobody always follows the same neighbour.
        let mut order: Vec<usize> = (0..contestants.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let ns = (contestants[index].turn)();
            // The first round warms up.
            if round > 0 {
                times[index].push(ns);
            }
        }
    }
    times
}

pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub fn display(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.1} ns"),
        ns if ns < 1e6 => format!("{:.2} us", ns / 1e3),
        ns => format!("{:.2} ms", ns / 1e6),
    }
}
