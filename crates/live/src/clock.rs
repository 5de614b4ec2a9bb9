//! cpu-clock and task-clock of real threads: the engine's clock drivers are replaced by these.
//!
//! Linux fires a high-resolution timer at each period. Here a thread can be stopped only now and then: at
//! a tick, or when an interrupt gets through to it. So a sample that comes a little early is taken, the next
//! one is due a period after this one was, as long as that is not over already, and the period that a
//! sample tells is the exact time since the last one: those of all samples add up to the time that the
//! thread has run, however late they are.

use perfuse_abi::{AttrFlags, Errno, EventType, SampleType, Software};
use perfuse_engine::{Cx, Description, Hw, Pmu, PmuCaps, PmuInfo, TaskContext, Whom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The shortest period, in ns: no more than 4000 samples a second can be had.
pub(crate) const SHORTEST: u64 = 250_000;

/// The shortest period that an event asked for since this was taken; `u64::MAX` for none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked(Arc<AtomicU64>);

impl Asked {
    pub(crate) fn take(&self) -> Option<u64> {
        Some(self.0.swap(u64::MAX, Relaxed)).filter(|&period| period != u64::MAX && period != 0)
    }

    fn note(&self, period: u64) {
        self.0.fetch_min(period, Relaxed);
    }
}

/// One of the two.
#[derive(Debug)]
pub(crate) struct LiveClock {
    which: Software,
    asked: Asked,
    /// Samples of kernel and user are taken as those of the user.
    kernel_samples: bool,
}

/// In [`Hw::data`]: what the context's clock showed at the last sample; while the event is off, the time that
/// had passed since.
const LAST: usize = 0;
/// In [`Hw::data`]: what it will show when the next sample is due; while the event is off, the time until then.
const DUE: usize = 1;

impl LiveClock {
    pub(crate) fn new(which: Software, asked: Asked, kernel_samples: bool) -> Self {
        LiveClock { which, asked, kernel_samples }
    }

    fn type_(&self) -> EventType {
        // The first two types that are given away.
        EventType(if self.which == Software::CPU_CLOCK { 6 } else { 7 })
    }

    fn period(hw: &Hw) -> u64 {
        hw.sample_period.max(SHORTEST)
    }

    /// How much too early a sample may be taken: where stops take a good part of the period, the more.
    fn slack(period: u64) -> u64 {
        (period / 8 + 100_000).min(period / 2)
    }

    fn arm(&self, cx: &mut Cx<'_>, hw: &Hw) {
        let left = hw.data[DUE].saturating_sub(cx.context_now + Self::slack(Self::period(hw)));
        cx.set_timer(hw.event, cx.now + left);
    }
}

impl Pmu for LiveClock {
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

    fn event_init(&mut self, hw: &mut Hw, whom: &Whom, _group: &[&Hw]) -> Result<(), Errno> {
        if hw.attr.type_ != self.type_() || hw.attr.config != self.which.0 {
            return Err(Errno::ENOENT);
        }
        if hw.attr.sample_type.contains(SampleType::BRANCH_STACK) {
            return Err(Errno::EOPNOTSUPP);
        }
        let sees_kernel = !hw.attr.flags.contains(AttrFlags::EXCLUDE_KERNEL);
        if hw.is_sampling() && !whom.inherited && !self.kernel_samples && sees_kernel {
            return Err(Errno::EACCES);
        }
        hw.take_frequency_as_period();
        (hw.data[LAST], hw.data[DUE]) = (0, Self::period(hw));
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
            self.asked.note(hw.sample_period);
            hw.data[LAST] = cx.context_now.saturating_sub(hw.data[LAST]);
            let period = Self::period(hw);
            // After a sample that came early.
            let most = period + Self::slack(period);
            hw.data[DUE] = cx.context_now.saturating_add(hw.data[DUE].min(most));
            self.arm(cx, hw);
        }
    }

    fn stop(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        if hw.is_sampling() {
            cx.cancel_timer(hw.event);
            hw.data[LAST] = cx.context_now.saturating_sub(hw.data[LAST]);
            hw.data[DUE] = hw.data[DUE].saturating_sub(cx.context_now);
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
        let period = Self::period(hw);
        hw.last_period = cx.context_now.saturating_sub(hw.data[LAST]);
        hw.data[LAST] = cx.context_now;
        hw.data[DUE] = match hw.data[DUE] + period {
            due if due > cx.context_now + Self::slack(period) => due,
            _ => cx.context_now + period,
        };
        self.arm(cx, hw);
        true
    }

    fn skips(&self, hw: &Hw, user: bool, _idle: bool) -> bool {
        user && hw.attr.flags.contains(AttrFlags::EXCLUDE_USER)
    }
}
