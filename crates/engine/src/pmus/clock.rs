//! cpu-clock and task-clock: time, and samples by timer (rules I20 to I23).

use crate::pmu::{Cx, Description, Hw, Pmu, PmuCaps, PmuInfo, Target, TaskContext};
use alloc::borrow::Cow;
use perfuse_abi::{AttrFlags, Errno, EventType, SampleType, Software};

/// The shortest interval of a timer, in ns.
const SHORTEST: u64 = 10_000;

/// The types they get, as they register right after those with fixed types.
pub(super) const CPU_CLOCK: EventType = EventType(6);
pub(super) const TASK_CLOCK: EventType = EventType(7);

/// One of the two.
#[derive(Debug)]
pub(crate) struct ClockPmu {
    which: Software,
}

impl ClockPmu {
    /// The time of the cpu.
    pub(crate) fn cpu() -> Self {
        ClockPmu { which: Software::CPU_CLOCK }
    }

    /// The time of the task's context.
    pub(crate) fn task() -> Self {
        ClockPmu { which: Software::TASK_CLOCK }
    }

    fn clock(&self, cx: &Cx<'_>) -> u64 {
        if self.which == Software::TASK_CLOCK { cx.context_now } else { cx.now }
    }

    fn arm(&self, cx: &mut Cx<'_>, hw: &mut Hw) {
        if !hw.is_sampling() {
            return;
        }
        let wait = match core::mem::take(&mut hw.period_left) {
            0 => hw.sample_period.max(SHORTEST),
            left if left < 0 => SHORTEST,
            left => left as u64,
        };
        cx.set_timer(hw.event, cx.now + wait);
    }

    fn disarm(&self, cx: &mut Cx<'_>, hw: &mut Hw) {
        if let Some(at) = cx.cancel_timer(hw.event) {
            // The phase survives, unless the event was throttled (rule I22).
            if hw.interrupts != crate::pmu::THROTTLED {
                hw.period_left = at.wrapping_sub(cx.now) as i64;
            }
        }
    }
}

impl Pmu for ClockPmu {
    fn info(&self) -> PmuInfo {
        let (name, type_) = if self.which == Software::CPU_CLOCK {
            ("cpu_clock", CPU_CLOCK)
        } else {
            ("task_clock", TASK_CLOCK)
        };
        PmuInfo {
            name: Cow::Borrowed(name),
            type_: Some(type_),
            caps: PmuCaps { no_nmi: true, ..PmuCaps::default() },
            context: TaskContext::Software,
            description: Description::default(),
        }
    }

    fn event_init(&mut self, hw: &mut Hw, _target: &Target, _group: &[&Hw]) -> Result<(), Errno> {
        let type_ = if self.which == Software::CPU_CLOCK { CPU_CLOCK } else { TASK_CLOCK };
        if hw.attr.type_ != type_ || hw.attr.config != self.which.0 {
            return Err(Errno::ENOENT);
        }
        if hw.attr.sample_type.contains(SampleType::BRANCH_STACK) {
            return Err(Errno::EOPNOTSUPP);
        }
        hw.take_frequency_as_period();
        // The first interval is a whole one.
        hw.period_left = 0;
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
        hw.prev = self.clock(cx);
        hw.stopped = false;
        self.arm(cx, hw);
    }

    fn stop(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        self.disarm(cx, hw);
        self.read(cx, hw);
        hw.stopped = true;
    }

    fn read(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        if !hw.stopped {
            let now = self.clock(cx);
            hw.count = hw.count.wrapping_add(now.wrapping_sub(hw.prev));
            hw.prev = now;
        }
    }

    fn timer(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) -> bool {
        self.read(cx, hw);
        cx.set_timer(hw.event, cx.now + hw.sample_period.max(SHORTEST));
        true
    }

    fn skips(&self, hw: &Hw, user: bool, idle: bool) -> bool {
        let leaves_out = |flag| hw.attr.flags.contains(flag);
        user && leaves_out(AttrFlags::EXCLUDE_USER)
            || !user && leaves_out(AttrFlags::EXCLUDE_KERNEL)
            || idle && leaves_out(AttrFlags::EXCLUDE_IDLE)
    }
}
