//! When threads are looked at, which looks become samples, and the weights of samples: pure functions of times and of
//! readings of `/proc`, so that tests can play it.
//!
//! A tracer finds out where a thread is by stopping it, at times of the wall clock; how long it has run it learns
//! afterwards. So samples are an estimate of where time was spent, and this keeps it free of bias:
//!
//! - Looks come at random, as the decays of atoms do: how long ago the last one was tells nothing about the next. So
//!   nothing keeps step with them, neither programs that are regular nor those that looks themselves disturb, which
//!   may lose their cpu to others by them.
//! - A look that finds a thread running becomes a sample, and weighs what looks are apart on average, however long ago
//!   the last sample was. All places have equal chances for each ns that is spent there: no time of other places falls on
//!   where a thread is found, and those that live for less than a period are seen in proportion.
//! - A thread that sleeps or waits for a cpu when it is looked at is not running: where it stops later is where it has
//!   waited. But one that only left its cpu to the thread that looks was running. Which of both it was shows at the
//!   stop: how long it has waited in all is known then.
//! - Where a thread runs on the cpu of the thread that looks, whose timer has just interrupted it, it stops where it was. From
//!   another cpu it hears of the stop before it is interrupted, and stops where its system call returns if it makes one
//!   until then. So looks go round: each is at the threads of one of the cpus where threads run, chosen at random. One that
//!   was never met at its cpu's turn may flee from it, as the kernel wakes threads where nobody runs: a look of any turn is at it, by
//!   the same chance.
//!
//! Chance adds to the sum of a thread's samples, or takes from it; those that follow make up for that in small parts.
//! So the samples of one that lives for long add up to its time.

/// Numbers that programs do not follow: SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    #[cfg(test)]
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Others each time.
    pub(crate) fn seeded() -> Self {
        use std::hash::{BuildHasher, RandomState};
        Random(RandomState::new().hash_one(0))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Above 0, and up to 1.
    fn share(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Whether this happens, which it does so many times of so many.
    pub(crate) fn happens(&mut self, times: u64, of: u64) -> bool {
        times >= of || self.share() * of as f64 <= times as f64
    }

    /// Any number below this, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// How long it takes until something happens that happens once in a period on average, and is not waited for for
    /// longer than four of them or so.
    fn wait(&mut self, period: u64) -> u64 {
        const MOST: f64 = 4.0;
        let mean = 1.0 - (-MOST).exp();
        ((-self.share().ln()).min(MOST) / mean * period as f64) as u64
    }
}

/// A moment at which threads are looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tick {
    /// When it was to be.
    pub(crate) due: u64,
    /// When it came.
    pub(crate) at: u64,
    /// How long ticks are apart on average, those at one cpu.
    pub(crate) period: u64,
    /// Among how many cpus this one was chosen.
    pub(crate) cpus: u64,
    /// How many there were up to it.
    number: u64,
}

impl Tick {
    /// How long ticks at any cpu are apart on average.
    pub(crate) fn gap(&self) -> u64 {
        self.period / self.cpus
    }
}

/// When ticks come.
#[derive(Debug)]
pub(crate) struct Ticks {
    period: Option<u64>,
    /// How many cpus they go round.
    cpus: u64,
    next: u64,
    count: u64,
    random: Random,
}

impl Ticks {
    pub(crate) fn new(random: Random) -> Self {
        Ticks { period: None, cpus: 1, next: 0, count: 0, random }
    }

    /// They go round so many cpus from the next but one on.
    pub(crate) fn go_round(&mut self, cpus: u64) {
        self.cpus = cpus.max(1);
    }

    /// How long ticks at one cpu are apart on average: longer than asked for where there are so many of these that
    /// a tracer could not keep up.
    fn period_of_cpu(&self) -> Option<u64> {
        const LEAST_GAP: u64 = 100_000;
        self.period.map(|period| if self.cpus > 1 { period.max(self.cpus * LEAST_GAP) } else { period })
    }

    /// Ticks come with this period on average from now on, or not at all. Whether that is a change.
    pub(crate) fn set(&mut self, period: Option<u64>, now: u64) -> bool {
        let changes = std::mem::replace(&mut self.period, period) != period;
        if let (true, Some(period)) = (changes, period) {
            self.next = now + self.random.wait(period);
        }
        changes
    }

    /// When the next one is due, and how long ticks are apart on average.
    pub(crate) fn next(&self) -> Option<(u64, u64)> {
        Some((self.next, self.period?))
    }

    /// Takes the tick that is due, if one is.
    pub(crate) fn take_due(&mut self, now: u64) -> Option<Tick> {
        let period = self.period_of_cpu().filter(|_| now >= self.next)?;
        let cpus = self.cpus;
        let due = std::mem::replace(&mut self.next, now + self.random.wait(period / cpus));
        self.count += 1;
        Some(Tick { due, at: now, period, cpus, number: self.count })
    }
}

/// The times that the clocks of a thread show.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clocks {
    /// Its time on cpus.
    pub(crate) ran_ns: u64,
    /// Its time in wait for one, up to its last arrival there.
    pub(crate) waited_ns: u64,
}

/// The finding of a look at a thread that could be running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunState {
    /// It runs.
    Running,
    /// It has no cpu, and waits for that of the thread that looks, which may have taken it from it.
    Preempted,
}

/// A look that may become a sample when the thread stops.
#[derive(Debug)]
struct PendingSample {
    tick: Tick,
    weight: u64,
    found: RunState,
    clocks: Clocks,
}

impl PendingSample {
    /// The weight of a sample for it at the stop, when the clocks have these times.
    fn weigh(&self, now: u64, clocks: Clocks, called: bool) -> Option<u64> {
        let Tick { due, at, period, cpus, .. } = self.tick;
        let late = at - due;
        let ran_on = match self.found {
            RunState::Running => late,
            RunState::Preempted => {
                // It waits since it ran last.
                let ran = clocks.ran_ns.saturating_sub(self.clocks.ran_ns);
                let waited = clocks.waited_ns.saturating_sub(self.clocks.waited_ns);
                let left = (now + SWITCH_NS).checked_sub(ran + waited).filter(|&left| left >= due)?;
                // In a call it may have slept until then, unless it left its cpu when we came.
                if called && left > due + ARRIVAL_NS && left + ARRIVAL_NS < at {
                    return None;
                }
                (left - due).min(late)
            }
        };
        // Until this look no other tick could come, on any cpu, and no later sample makes up for those. The limit
        // keeps one late sample from hiding all others.
        let ran_on = (ran_on * cpus).min(MOST_LATE * period);
        Some((u128::from(self.weight) * u128::from(period + ran_on) / u128::from(period)) as u64)
    }
}

/// Which ticks are a thread's, where they go round the cpus.
///
/// One that stays on its cpu has its part in that one's turns. One that is woken where the thread that looks is not, as children are
/// and programs that it lets go on, would have none: until it was met at its cpu's turn, any tick is its, by the same chance.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// The cpu where it is, if it was there when that one had its turn.
    met: Option<u32>,
}

impl Turns {
    /// A tick finds it on a cpu; `is_here`: whose turn it is. The answer is whether the tick is at this thread.
    pub(crate) fn found(&mut self, cpu: u32, is_here: bool, tick: Tick, random: &mut Random) -> bool {
        let met = self.met == Some(cpu);
        self.met = (is_here || met).then_some(cpu);
        if met { is_here } else { random.happens(1, tick.cpus) }
    }
}

/// The looks at one thread.
#[derive(Debug, Default)]
pub(crate) struct TaskSampler {
    /// The last tick that it had a part in.
    last: Option<u64>,
    pending: Vec<PendingSample>,
    /// Its time on cpus when this began.
    from_ns: u64,
    /// The weight of all its samples.
    told_ns: u64,
}

/// Clocks of different origin may differ by so much at a switch from one thread to another.
const SWITCH_NS: u64 = 5_000;

/// So long it takes from the moment when a thread that looks is woken, or gets a cpu, until it looks.
const ARRIVAL_NS: u64 = 30_000;

/// A sample weighs no more for being late than for so many periods.
const MOST_LATE: u64 = 4;

/// So many samples it takes to make up for chance.
const PATIENCE: i64 = 32;

/// And no sample is made heavier by more than so many times its weight, however few there are.
const MOST_MORE: u64 = 8;

impl TaskSampler {
    /// From now on, when the thread has run for so long.
    pub(crate) fn begin(ran_ns: u64) -> Self {
        TaskSampler { from_ns: ran_ns, ..TaskSampler::default() }
    }

    /// Takes part in a tick. The answer is the weight of a sample, if this tick is to look at the thread: where ticks come more often than
    /// samples of it are wanted, only some are.
    pub(crate) fn take_part(&mut self, tick: Tick, period: u64, random: &mut Random) -> Option<u64> {
        // There may have been no time to look at it in those before.
        let last = self.last.replace(tick.number).unwrap_or(tick.number - 1);
        let looks = random.happens(tick.period, period);
        looks.then(|| (tick.number - last) * tick.period.max(period))
    }

    /// A look found it so. It is to be stopped.
    pub(crate) fn found(&mut self, tick: Tick, weight: u64, found: RunState, clocks: Clocks) {
        self.pending.push(PendingSample { tick, weight, found, clocks });
    }

    /// Whether a look at it is to become a sample.
    pub(crate) fn are_due(&self) -> bool {
        !self.pending.is_empty()
    }

    /// It is stopped, at this time: the weight of a sample of it, if there is to be one. `called`: it is in a system
    /// call.
    pub(crate) fn stopped(&mut self, now: u64, clocks: Clocks, called: bool) -> Option<u64> {
        let weights = self.pending.drain(..).filter_map(|look| look.weigh(now, clocks, called));
        let weight: u64 = weights.sum();
        if weight == 0 {
            return None;
        }
        let owed = |part: u64| i64::try_from(part).unwrap_or(i64::MAX);
        let short = owed(clocks.ran_ns.saturating_sub(self.from_ns)) - owed(self.told_ns + weight);
        let more = (short / PATIENCE).clamp(-owed(weight / 2), owed(weight.saturating_mul(MOST_MORE)));
        let weight = weight.saturating_add_signed(more);
        self.told_ns += weight;
        Some(weight)
    }
}

#[cfg(test)]
mod tests;
