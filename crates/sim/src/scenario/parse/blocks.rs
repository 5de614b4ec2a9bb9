//! Blocks: the machine, and the steps of programs.

use super::{Parser, cgroup_id, on_off};
use crate::hardware::{KINDS, NAMES, PmuModel, Rates, kind_named};
use crate::program::Step;
use crate::scenario::words::{Result, Words, number, small, unknown};
use crate::trace::TraceModel;
use std::sync::Arc;

/// The most that a hardware event can happen in a microsecond.
const MOST_RATE: u64 = 1_000_000;

/// How deep blocks may be in each other.
const DEEPEST: usize = 16;

/// The words that describe a machine.
const MACHINE: [&str; 16] = [
    "nesting",
    "trace",
    "cpus",
    "hz",
    "slice",
    "seed",
    "sample-time",
    "interrupt-time",
    "tracepoint",
    "no-pmu",
    "counters",
    "fixed",
    "only",
    "width",
    "refuses",
    "end",
];

/// Steps of programs.
const STEPS: [&str; 21] = [
    "compute",
    "kernel",
    "fault",
    "major-fault",
    "sleep",
    "start",
    "thread",
    "wait",
    "exec",
    "exec-suid",
    "comm",
    "map",
    "map-data",
    "read",
    "write",
    "tracepoint",
    "prctl",
    "enter",
    "repeat",
    "exit",
    "end",
];

impl Parser<'_> {
    pub(super) fn machine(&mut self) -> Result<()> {
        while let Some((first, mut words)) = self.next() {
            let setup = &mut self.scenario.setup;
            if first == "end" {
                return words.end();
            }
            if first == "nesting" {
                setup.nesting = true;
                words.end()?;
                continue;
            }
            if first == "no-pmu" {
                setup.pmu = None;
                words.end()?;
                continue;
            }
            let mut none = PmuModel::default();
            let pmu = setup.pmu.as_mut().unwrap_or(&mut none);
            match first {
                "cpus" => setup.cpus = words.small("the number of cpus", 1, 256)? as u32,
                "hz" => setup.hz = words.small("the number of ticks a second", 1, 10_000)? as u32,
                "seed" => setup.seed = words.number("the seed")?,
                "slice" => setup.slice_ns = words.time()?.max(1000),
                "sample-time" => setup.sample_ns = Some(words.time()?),
                "interrupt-time" => setup.interrupt_ns = words.time()?.max(1),
                "tracepoint" => self.scenario.tracepoints.push(words.number("the id")?),
                "trace" => {
                    let rate = words.small("the number of bytes a microsecond", 1, 1_000_000)?;
                    let piece = words.next().map_or(Ok(4096), |word| small(word, "a piece", 8, 1 << 30))?;
                    setup.trace = Some(TraceModel { rate, piece });
                }
                "counters" => pmu.counters = words.small("the number of counters", 0, 64)? as usize,
                "width" => pmu.width = words.small("the number of bits", 8, 64)? as u32,
                "fixed" => {
                    let kind = kind(words.need("the event")?)?;
                    if pmu.fixed.len() >= 64 {
                        return Err("there are 64 fixed counters at most".to_owned());
                    }
                    pmu.fixed.push(kind);
                }
                "only" => {
                    let kind = kind(words.need("the event")?)?;
                    let list = words.need("the counters")?;
                    let counter = |word| small(word, "a counter", 0, 63).map(|counter| counter as usize);
                    pmu.only_on.insert(kind, list.split(',').map(counter).collect::<Result<_>>()?);
                }
                "refuses" => pmu.refuses_one_in = words.small("one in how many", 0, u64::MAX)?,
                other => return Err(unknown("a machine has no", other, MACHINE)),
            }
            words.end()?;
        }
        Err("the machine has no 'end'".to_owned())
    }

    pub(super) fn steps(&mut self, of: &str) -> Result<Vec<Step>> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("blocks may be {DEEPEST} deep"));
        }
        let mut steps = Vec::new();
        while let Some((first, mut words)) = self.next() {
            let step = match first {
                "end" => {
                    words.end()?;
                    self.depth -= 1;
                    return Ok(steps);
                }

                "compute" | "kernel" => {
                    let ns = words.time()?;
                    Step::Compute { ns, kernel: first == "kernel", rates: rates(&mut words)? }
                }
                "fault" | "major-fault" => {
                    let count = words.next().map_or(Ok(1), |word| number(word, "the number of faults"))?;
                    Step::Fault { count, major: first != "fault", addr: 0x7000_0000 }
                }
                "sleep" => Step::Sleep(words.time()?),
                "start" | "thread" => {
                    let program = words.need("the program")?.to_owned();
                    Step::Start { program, thread: first == "thread" }
                }
                "wait" => Step::Wait,
                "exit" => Step::Exit,
                "exec" | "exec-suid" => {
                    Step::Exec { program: words.need("the program")?.to_owned(), fresh: first == "exec-suid" }
                }
                "comm" => Step::Comm(words.need("the name")?.to_owned()),
                "map" | "map-data" => Step::Map {
                    addr: words.number("the address")?,
                    len: words.number("the length")?,
                    executable: first == "map",
                    name: words.need("the file")?.to_owned(),
                },
                "write" | "read" => Step::Touch {
                    addr: words.number("the address")?,
                    len: words.next().map_or(Ok(8), |word| number(word, "the length"))?,
                    write: first == "write",
                },
                "tracepoint" => {
                    let id = words.number("the id")?;
                    let (mut count, mut value) = (1, 0);
                    while let Some(word) = words.next() {
                        match word.split_once('=') {
                            Some(("weight", weight)) => count = number(weight, "the weight")?,
                            Some(("value", word)) => value = number(word, "the value")?,
                            _ => return Err(unknown("a hit has no", word, ["weight=N", "value=N"])),
                        }
                    }
                    Step::Tracepoint { id, count, value }
                }
                "prctl" => Step::Prctl(on_off(&mut words)?),
                "enter" => Step::Enter(cgroup_id(self.cgroup(words.need("the cgroup")?)?)),
                "repeat" => {
                    let times = words.number("how often")?;
                    words.end()?;
                    Step::Repeat(times, Arc::from(self.steps("repeat")?))
                }
                other => return Err(unknown("no step is called", other, STEPS)),
            };
            words.end()?;
            steps.push(step);
        }
        Err(format!("{of} has no 'end'"))
    }
}

fn kind(name: &str) -> Result<usize> {
    kind_named(name).ok_or_else(|| unknown("the hardware has no event", name, NAMES))
}

/// `cycles=3000 instructions=2000`; cycles are there where nothing is said.
fn rates(words: &mut Words<'_>) -> Result<Rates> {
    let mut rates = [0; KINDS];
    let mut given = false;
    while let Some(word) = words.next() {
        let (name, rate) =
            word.split_once('=').ok_or_else(|| format!("EVENT=RATE was expected, not '{word}'"))?;
        rates[kind(name)?] = small(rate, "a rate", 0, MOST_RATE)?;
        given = true;
    }
    if !given {
        rates[0] = 1000;
    }
    Ok(rates)
}
