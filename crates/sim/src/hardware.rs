//! Occurrences on cpus, and the PMU that counts them: some counters for everything, some for one event only.

use perfuse_engine::abi::{AttrFlags, Errno, EventType};
use perfuse_engine::{Cx, Description, EventKey, Hw, Overflow, Pmu, PmuCaps, PmuInfo, Target, TaskContext};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Kinds of hardware events: those of `PERF_TYPE_HARDWARE`.
pub const KINDS: usize = 10;

/// Names of the kinds, as perf has them, in the order of their config.
pub const NAMES: [&str; KINDS] = [
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
];

/// How often each kind happens, in occurrences a microsecond.
pub type Rates = [u64; KINDS];

/// Of user and of kernel mode.
const MODES: usize = 2;

/// Occurrences on a cpu so far, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
struct Totals([[u128; MODES]; KINDS]);

/// The totals of all cpus.
#[derive(Debug, Default)]
pub(crate) struct CounterTotals {
    cpus: Vec<Totals>,
}

impl CounterTotals {
    pub(crate) fn new(cpus: u32) -> Self {
        CounterTotals { cpus: vec![Totals::default(); cpus as usize] }
    }

    /// A cpu worked for so long.
    pub(crate) fn work(&mut self, cpu: u32, ns: u64, kernel: bool, rates: &Rates) {
        for (total, rate) in self.cpus[cpu as usize].0.iter_mut().zip(rates) {
            total[usize::from(kernel)] += u128::from(*rate) * u128::from(ns);
        }
    }
}

/// The shape of a PMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmuModel {
    /// Counters that count every kind.
    pub counters: usize,
    /// Counters that count one kind only.
    pub fixed: Vec<usize>,
    /// For a kind, which of the general counters can count it; all, where nothing is said.
    pub only_on: BTreeMap<usize, Vec<usize>>,
    /// Bits of a counter, 2 to 64.
    pub width: u32,
    /// One in so many attempts to put an event on a counter fails; 0: none.
    pub refuses_one_in: u64,
}

impl Default for PmuModel {
    /// Four counters and no fixed ones.
    fn default() -> Self {
        PmuModel { counters: 4, fixed: Vec::new(), only_on: BTreeMap::new(), width: 48, refuses_one_in: 0 }
    }
}

impl PmuModel {
    /// The counters that can count a kind; the fixed ones have the numbers after the general ones.
    fn possible(&self, kind: usize) -> Vec<usize> {
        let general = match self.only_on.get(&kind) {
            Some(only) => only.clone(),
            None => (0..self.counters).collect(),
        };
        let fixed = self.fixed.iter().enumerate().filter(|(_, fixed)| **fixed == kind);
        // A fixed one is good for nothing else, so it is taken first.
        fixed.map(|(index, _)| self.counters + index).chain(general).collect()
    }

    /// A counter for each of these kinds; `None` if there is no way.
    fn place(&self, kinds: &[usize]) -> Option<Vec<usize>> {
        fn step(model: &PmuModel, kinds: &[usize], taken: &mut Vec<usize>) -> bool {
            let Some(kind) = kinds.get(taken.len()) else { return true };
            for counter in model.possible(*kind) {
                if !taken.contains(&counter) {
                    taken.push(counter);
                    if step(model, kinds, taken) {
                        return true;
                    }
                    taken.pop();
                }
            }
            false
        }
        let mut taken = Vec::new();
        step(self, kinds, &mut taken).then_some(taken)
    }
}

/// An event on a counter.
#[derive(Clone, Copy, Debug)]
struct Running {
    event: EventKey,
    kind: usize,
    modes: [bool; MODES],
    /// Overflows when this many have happened.
    target: Option<u128>,
    stopped: bool,
}

/// The PMU.
#[derive(Debug)]
pub(crate) struct SimPmu {
    model: PmuModel,
    counter_totals: Arc<Mutex<CounterTotals>>,
    /// By cpu.
    running: Arc<Mutex<Vec<Vec<Running>>>>,
    attempts: u64,
    seed: u64,
}

/// Looks at the PMU from outside.
#[derive(Clone, Debug)]
pub(crate) struct CounterView {
    counter_totals: Arc<Mutex<CounterTotals>>,
    running: Arc<Mutex<Vec<Vec<Running>>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SimPmu {
    pub(crate) fn new(model: PmuModel, cpus: u32, seed: u64) -> (Self, CounterView) {
        let counter_totals = Arc::new(Mutex::new(CounterTotals::new(cpus)));
        let running = Arc::new(Mutex::new(vec![Vec::new(); cpus as usize]));
        let counter_view = CounterView { counter_totals: counter_totals.clone(), running: running.clone() };
        (SimPmu { model, counter_totals, running, attempts: 0, seed }, counter_view)
    }

    /// The reading of a counter: it has only so many bits.
    fn shown(&self, cpu: u32, hw: &Hw) -> u64 {
        self.total(cpu, hw.config as usize, modes(hw)) as u64 & self.mask()
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.model.width)
    }

    /// Occurrences of an event on a cpu so far.
    fn total(&self, cpu: u32, kind: usize, modes: [bool; MODES]) -> u128 {
        lock(&self.counter_totals).total(cpu, kind, modes) / 1000
    }

    fn refuses(&mut self) -> bool {
        self.attempts += 1;
        let mixed = (self.attempts ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        self.model.refuses_one_in > 0 && mixed % self.model.refuses_one_in == 0
    }

    /// Programs the next overflow.
    fn arm(&mut self, cpu: u32, hw: &mut Hw) {
        let (kind, modes) = (hw.config as usize, modes(hw));
        let now = self.total(cpu, kind, modes);
        // Half of what the counter can hold, so that it is read before it wraps twice (rule N2).
        let half = 1 << (self.model.width - 1);
        // Writing to the trace causes no interrupt.
        let interrupts = hw.is_sampling() && !hw.attr.flags.contains(AttrFlags::AUX_OUTPUT);
        let left = if interrupts { hw.start_period().min(half) } else { half };
        for running in
            lock(&self.running)[cpu as usize].iter_mut().filter(|running| running.event == hw.event)
        {
            running.target = Some(now + u128::from(left));
            running.stopped = false;
        }
    }
}

impl CounterTotals {
    fn total(&self, cpu: u32, kind: usize, modes: [bool; MODES]) -> u128 {
        let both = self.cpus[cpu as usize].0[kind];
        both.iter().zip(modes).filter(|(_, counts)| *counts).map(|(total, _)| *total).sum()
    }
}

impl CounterView {
    /// Lets a cpu work.
    pub(crate) fn work(&self, cpu: u32, ns: u64, kernel: bool, rates: &Rates) {
        lock(&self.counter_totals).work(cpu, ns, kernel, rates);
    }

    /// In how many ns the first event overflows on a cpu that works like this.
    pub(crate) fn next_overflow(&self, cpu: u32, kernel: bool, rates: &Rates) -> Option<u64> {
        let counter_totals = lock(&self.counter_totals);
        let running = lock(&self.running);
        let due = running[cpu as usize].iter().filter(|running| !running.stopped).filter_map(|running| {
            let rate = u128::from(if running.modes[usize::from(kernel)] { rates[running.kind] } else { 0 });
            let now = counter_totals.total(cpu, running.kind, running.modes);
            let left = (running.target? * 1000).saturating_sub(now);
            if left == 0 { Some(0) } else { (rate > 0).then(|| left.div_ceil(rate) as u64) }
        });
        due.min()
    }
}

/// The kind that a config means.
fn kind_of(hw: &Hw) -> Option<usize> {
    let hardware = [EventType::HARDWARE, EventType::RAW].contains(&hw.attr.type_);
    usize::try_from(hw.attr.config).ok().filter(|&kind| hardware && kind < KINDS)
}

fn modes(hw: &Hw) -> [bool; MODES] {
    // There are no guests.
    let counts = |flag| !hw.attr.flags.intersects(flag | AttrFlags::EXCLUDE_HOST);
    [counts(AttrFlags::EXCLUDE_USER), counts(AttrFlags::EXCLUDE_KERNEL)]
}

impl Pmu for SimPmu {
    fn info(&self) -> PmuInfo {
        let events = NAMES.iter().enumerate();
        PmuInfo {
            name: "cpu".into(),
            type_: Some(EventType::RAW),
            // Where there is a trace, what overflows can be written to it.
            caps: PmuCaps { aux_output: true, ..PmuCaps::default() },
            context: TaskContext::Hardware,
            description: Description {
                format: vec![("event".into(), "config:0-7".into())],
                events: events
                    .map(|(kind, name)| ((*name).into(), format!("event={kind:#x}").into()))
                    .collect(),
                ..Description::default()
            },
        }
    }

    fn event_init(&mut self, hw: &mut Hw, _target: &Target, group: &[&Hw]) -> Result<(), Errno> {
        if ![EventType::HARDWARE, EventType::RAW].contains(&hw.attr.type_) {
            return Err(Errno::ENOENT);
        }
        // Rule N1.
        let kind = kind_of(hw).ok_or(Errno::EINVAL)?;
        let mut kinds: Vec<usize> = group.iter().map(|member| member.config as usize).collect();
        kinds.push(kind);
        self.model.place(&kinds).ok_or(Errno::EINVAL)?;
        hw.config = kind as u64;
        Ok(())
    }

    fn add(&mut self, cx: &mut Cx<'_>, hw: &mut Hw, start: bool) -> Result<(), Errno> {
        if self.refuses() {
            return Err(Errno::EAGAIN);
        }
        let kind = hw.config as usize;
        let counter = {
            let mut running = lock(&self.running);
            let all = &mut running[cx.cpu as usize];
            let kinds: Vec<usize> = all.iter().map(|running| running.kind).chain([kind]).collect();
            let places = self.model.place(&kinds).ok_or(Errno::EAGAIN)?;
            all.push(Running { event: hw.event, kind, modes: modes(hw), target: None, stopped: true });
            places[places.len() - 1]
        };
        hw.index = Some(counter as u32);
        if hw.attr.flags.contains(AttrFlags::AUX_OUTPUT) {
            cx.aux_output_hw_id(counter as u64);
        }
        hw.stopped = true;
        if start {
            self.start(cx, hw, true);
        }
        Ok(())
    }

    fn del(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        self.stop(cx, hw);
        hw.index = None;
        lock(&self.running)[cx.cpu as usize].retain(|running| running.event != hw.event);
    }

    fn start(&mut self, cx: &mut Cx<'_>, hw: &mut Hw, _reload: bool) {
        hw.stopped = false;
        hw.prev = self.shown(cx.cpu, hw);
        self.arm(cx.cpu, hw);
    }

    fn stop(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        self.read(cx, hw);
        hw.stopped = true;
        for running in lock(&self.running)[cx.cpu as usize].iter_mut() {
            running.stopped |= running.event == hw.event;
        }
    }

    fn read(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        if hw.stopped {
            return;
        }
        let now = self.shown(cx.cpu, hw);
        let delta = now.wrapping_sub(hw.prev) & self.mask();
        hw.count = hw.count.wrapping_add(delta);
        hw.period_left = hw.period_left.wrapping_sub(delta as i64);
        hw.prev = now;
    }

    fn interrupt(&mut self, cpu: u32, _now: u64, over: &mut Vec<Overflow>) {
        let counter_totals = lock(&self.counter_totals);
        for running in lock(&self.running)[cpu as usize].iter().filter(|running| !running.stopped) {
            let now = counter_totals.total(cpu, running.kind, running.modes);
            if running.target.is_some_and(|target| target * 1000 <= now) {
                over.push(Overflow { event: running.event, addr: 0, exact_ip: false });
            }
        }
    }

    fn overflowed(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) -> bool {
        self.read(cx, hw);
        let over = hw.period_left <= 0;
        self.arm(cx.cpu, hw);
        over
    }

    fn event_idx(&self, hw: &Hw) -> Option<u32> {
        hw.index
    }
}

/// The config of a kind by its name.
pub(crate) fn kind_named(name: &str) -> Option<usize> {
    NAMES.iter().position(|known| *known == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfuse_engine::abi::Hardware;

    #[test]
    fn kinds_are_the_abis() {
        assert_eq!(Hardware::ALL.len(), KINDS);
    }

    #[test]
    fn constraints_are_solved() {
        let model = PmuModel {
            counters: 2,
            fixed: vec![1],
            only_on: BTreeMap::from([(3, vec![0]), (4, vec![0, 1])]),
            ..PmuModel::default()
        };
        assert_eq!(model.place(&[4, 3, 1]), Some(vec![1, 0, 2]));
        assert_eq!(model.place(&[3, 3]), None, "both want the first counter");
        assert_eq!(model.place(&[1, 1, 1, 1]), None, "four into three");
    }
}
