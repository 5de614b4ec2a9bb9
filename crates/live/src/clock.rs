//! cpu-clock and task-clock of real threads: the engine's clock drivers are replaced by these.
//!
//! Linux fires a high-resolution timer at each period. Here the supervisor decides when a thread is looked at, and
//! what a sample of it weighs ([`sampling`](crate::sampling)): that is the period that the sample tells.

use crate::sampling::Random;
use perfuse_abi::{AttrFlags, Errno, EventType, SampleType, Software};
use perfuse_engine::{Cx, Description, Hw, Pmu, PmuCaps, PmuInfo, Target, TaskContext};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The shortest period, in ns: no more than 4000 samples a second can be had.
const SHORTEST: u64 = 250_000;

/// The facts that clocks and the machine tell each other while a task is on a cpu.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClockRequests(Arc<Cells>);

#[derive(Debug, Default)]
struct Cells {
    /// The shortest period that an event asked for; 0 for none.
    shortest: AtomicU64,
    /// The weight of the sample that is taken now; 0: none is.
    weight: AtomicU64,
    /// For a clock with this period; those with a longer one take part in fewer.
    period: AtomicU64,
}

impl ClockRequests {
    /// The shortest period that an event asked for since this was taken.
    pub(crate) fn take(&self) -> Option<u64> {
        Some(self.0.shortest.swap(0, Relaxed)).filter(|&period| period != 0)
    }

    fn note(&self, period: u64) {
        let before = self.0.shortest.load(Relaxed);
        self.0.shortest.store(if before == 0 { period } else { before.min(period) }, Relaxed);
    }

    /// The task that comes now is sampled: the weight, and the period for which it has that weight.
    pub(crate) fn sample(&self, weight: u64, period: u64) {
        self.0.weight.store(weight, Relaxed);
        self.0.period.store(period, Relaxed);
    }

    fn sampled(&self) -> Option<(u64, u64)> {
        let weight = self.0.weight.load(Relaxed);
        (weight > 0).then(|| (weight, self.0.period.load(Relaxed)))
    }
}

/// One of the two.
#[derive(Debug)]
pub(crate) struct ClockPmu {
    which: Software,
    clock_requests: ClockRequests,
    /// Events that sample the kernel too are refused to those who may not look at it.
    user_samples_only: bool,
    random: Random,
}

impl ClockPmu {
    pub(crate) fn new(which: Software, clock_requests: ClockRequests, user_samples_only: bool) -> Self {
        ClockPmu { which, clock_requests, user_samples_only, random: Random::seeded() }
    }

    fn type_(&self) -> EventType {
        // The first two types that are given away.
        EventType(if self.which == Software::CPU_CLOCK { 6 } else { 7 })
    }

    fn period(hw: &Hw) -> u64 {
        hw.sample_period.max(SHORTEST)
    }
}

impl Pmu for ClockPmu {
    fn info(&self) -> PmuInfo {
        let name = if self.which == Software::CPU_CLOCK { "cpu_clock" } else { "task_clock" };
        PmuInfo {
            name: name.into(),
            type_: Some(self.type_()),
            caps: PmuCaps { no_nmi: true, ..PmuCaps::default() },
            context: TaskContext::Software,
            description: Description::default(),
        }
    }

    fn event_init(&mut self, hw: &mut Hw, target: &Target, _group: &[&Hw]) -> Result<(), Errno> {
        if hw.attr.type_ != self.type_() || hw.attr.config != self.which.0 {
            return Err(Errno::ENOENT);
        }
        if hw.attr.sample_type.contains(SampleType::BRANCH_STACK) {
            return Err(Errno::EOPNOTSUPP);
        }
        let sees_kernel = !hw.attr.flags.contains(AttrFlags::EXCLUDE_KERNEL);
        let may_see_it = target.inherited || target.perfmon || !self.user_samples_only;
        if hw.is_sampling() && sees_kernel && !may_see_it {
            return Err(Errno::EACCES);
        }
        hw.take_frequency_as_period();
        Ok(())
    }

    fn add(&mut self, cx: &mut Cx<'_>, hw: &mut Hw, start: bool) -> Result<(), Errno> {
        if start {
            self.start(cx, hw, false);
        }
        Ok(())
    }

    fn del(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        if !hw.stopped {
            self.stop(cx, hw);
        }
    }

    fn start(&mut self, cx: &mut Cx<'_>, hw: &mut Hw, _reload: bool) {
        hw.prev = cx.context_now;
        hw.stopped = false;
        if hw.is_sampling() {
            self.clock_requests.note(Self::period(hw));
            if self.clock_requests.sampled().is_some() {
                cx.set_timer(hw.event, cx.now);
            }
        }
    }

    fn stop(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        if hw.is_sampling() {
            cx.cancel_timer(hw.event);
        }
        self.read(cx, hw);
        hw.stopped = true;
    }

    fn read(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        if !hw.stopped {
            hw.count = hw.count.wrapping_add(cx.context_now.wrapping_sub(hw.prev));
            hw.prev = cx.context_now;
        }
    }

    fn timer(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) -> bool {
        self.read(cx, hw);
        let Some((weight, of)) = self.clock_requests.sampled() else { return false };
        let period = Self::period(hw).max(of);
        hw.last_period = (u128::from(weight) * u128::from(period) / u128::from(of)) as u64;
        self.random.happens(of, period)
    }

    fn skips(&self, hw: &Hw, user: bool, _idle: bool) -> bool {
        hw.attr.flags.contains(if user { AttrFlags::EXCLUDE_USER } else { AttrFlags::EXCLUDE_KERNEL })
    }
}
