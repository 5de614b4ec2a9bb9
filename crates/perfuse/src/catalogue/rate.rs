//! How often an event happens now: on every cpu where that is allowed, else nowhere.

use super::spec;
use crate::{Builder, Counter, Perf, Target, online_cpus};
use perfuse_events::Machine;
use std::time::Instant;

/// An event that is being counted.
#[derive(Debug)]
pub struct Rate {
    counters: Vec<Counter>,
    last: (Instant, u64),
    /// Occurrences a second; `None` before the first interval.
    pub per_second: Option<f64>,
}

impl Rate {
    /// Starts counting with this kernel. The error is a few words for people.
    pub fn start(kernel: &Perf, name: &str, machine: &Machine) -> Result<Self, String> {
        let spec = spec(name, machine).ok_or("no event by itself")?;
        let builder = Builder::from_spec(&spec).ok_or("known only at the end of a command")?.kernel(kernel);
        let cpus = spec.cpus().unwrap_or_else(online_cpus);
        let mut counters = Vec::new();
        for cpu in cpus {
            let mut counter = builder
                .clone()
                .target(Target::cpu(cpu))
                .open()
                .map_err(|error| error.cause().words().to_owned())?;
            counter.enable().map_err(|error| error.to_string())?;
            counters.push(counter);
        }
        Ok(Rate { counters, last: (Instant::now(), 0), per_second: None })
    }

    /// Takes the time and reads.
    pub fn tick(&mut self) {
        let total: u64 =
            self.counters.iter().filter_map(|counter| counter.read().ok()).map(|count| count.value).sum();
        let now = Instant::now();
        let (then, before) = self.last;
        let seconds = now.duration_since(then).as_secs_f64();
        if seconds > 0.0 {
            self.per_second = Some(total.saturating_sub(before) as f64 / seconds);
            self.last = (now, total);
        }
    }
}
