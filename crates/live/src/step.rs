//! Instructions counted one by one: the PMU `step`.
//!
//! The supervisor has threads whose instructions are counted stop after each of them, and the machine adds up
//! how many there were (`Steps::count`). An event counts those that come while its task is on the cpu, and so
//! counts and periods are exact. That costs tens of thousands of times what the program takes alone, so it has to be
//! asked for: by the PMU's name, or by [`Machine::step_for_instructions`].
//!
//! [`Machine::step_for_instructions`]: crate::machine::Machine::step_for_instructions

use crate::debug::{self, Trial};
use crate::ptrace::{self, Resume, Status, Tid};
use crate::remote;
use perfuse_abi::{AttrFlags, Errno, EventType, Hardware, SampleType};
use perfuse_engine::{Cx, Description, EventKey, Hw, Overflow, Pmu, PmuCaps, PmuInfo, Target, TaskContext};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The name of the PMU.
pub const NAME: &str = "step";

/// Its type: "STEP". No PMU of Linux' is numbered that high, whose types programs may have in mind.
pub const TYPE: EventType = EventType(0x5354_4550);

/// Its terms, as in sysfs.
pub const FORMAT: [(&str, &str); 1] = [("event", "config:0-7")];

/// Its only event.
pub const EVENTS: [(&str, &str); 1] = [("instructions", "event=0x0")];

/// Whether threads can be stepped: `Err` where `ptrace(2)` cannot, as in some versions of gVisor. Found out once,
/// with a process that is made for it.
pub(crate) fn works() -> Result<(), Errno> {
    static WORKS: OnceLock<Result<(), Errno>> = OnceLock::new();
    *WORKS.get_or_init(|| debug::try_out(try_on))
}

fn try_on(child: Tid, trial: &Trial) -> Result<(), Errno> {
    // It ends where it is not stepped.
    trial.go.store(1, Ordering::Release);
    for _ in 0..3 {
        ptrace::resume(child, Resume::Step(0))?;
        let stopped = remote::wait_for(child).map_err(|_| Errno::EOPNOTSUPP)?;
        if stopped != Status::Signal(libc::SIGTRAP) {
            return Err(Errno::EOPNOTSUPP);
        }
    }
    Ok(())
}

/// The state that the PMU and the machine share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps(Arc<Mutex<Shared>>);

#[derive(Debug, Default)]
struct Shared {
    /// Instructions of all tasks.
    counted: u64,
    /// Events that count now, and at how many the next sample is due.
    counting: BTreeMap<EventKey, Option<u64>>,
    /// `instructions` of the type HARDWARE are for this PMU, too.
    for_instructions: bool,
}

impl Steps {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task on the cpu has done so many instructions more.
    pub(crate) fn count(&self, instructions: u64) {
        self.lock().counted += instructions;
    }

    /// Whether an event counts those of the task on the cpu: after how many the next sample is due, or the task is
    /// to be looked at anyway.
    pub(crate) fn wanted(&self) -> Option<u64> {
        const OFTEN: u64 = 1000;
        let shared = self.lock();
        let least = shared.counting.values().map(|due| due.unwrap_or(u64::MAX)).min()?;
        Some(least.saturating_sub(shared.counted).clamp(1, OFTEN))
    }

    pub(crate) fn set_for_instructions(&self, on: bool) {
        self.lock().for_instructions = on;
    }
}

/// The PMU.
#[derive(Debug)]
pub(crate) struct StepPmu(pub(crate) Steps);

impl StepPmu {
    /// A period begins, or goes on.
    fn arm(&self, hw: &mut Hw) {
        let left = hw.is_sampling().then(|| hw.start_period());
        let mut shared = self.0.lock();
        let due = left.map(|left| shared.counted.saturating_add(left));
        shared.counting.insert(hw.event, due);
    }
}

impl Pmu for StepPmu {
    fn info(&self) -> PmuInfo {
        let owned = |pairs: &[(&'static str, &'static str)]| {
            pairs.iter().map(|&(name, text)| (Cow::Borrowed(name), Cow::Borrowed(text))).collect()
        };
        PmuInfo {
            name: NAME.into(),
            type_: Some(TYPE),
            caps: PmuCaps { no_nmi: true, ..PmuCaps::default() },
            // As many as there are can count at once.
            context: TaskContext::Software,
            description: Description {
                format: owned(&FORMAT),
                events: owned(&EVENTS),
                ..Description::default()
            },
        }
    }

    fn event_init(&mut self, hw: &mut Hw, target: &Target, _group: &[&Hw]) -> Result<(), Errno> {
        let attr = &hw.attr;
        let general = attr.type_ == EventType::HARDWARE && attr.config == Hardware::INSTRUCTIONS.0;
        match attr.type_ {
            TYPE if attr.config != 0 => return Err(Errno::EINVAL),
            TYPE => {}
            _ if general && self.0.lock().for_instructions => {}
            _ => return Err(Errno::ENOENT),
        }
        if attr.sample_type.contains(SampleType::BRANCH_STACK) {
            return Err(Errno::EOPNOTSUPP);
        }
        // There are the user's alone.
        if attr.flags.contains(AttrFlags::EXCLUDE_USER) {
            return Err(Errno::EINVAL);
        }
        if !attr.flags.contains(AttrFlags::EXCLUDE_KERNEL) && !target.inherited {
            return Err(Errno::EACCES);
        }
        Ok(())
    }

    fn add(&mut self, cx: &mut Cx<'_>, hw: &mut Hw, start: bool) -> Result<(), Errno> {
        if start {
            self.start(cx, hw, true);
        }
        Ok(())
    }

    fn del(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        self.stop(cx, hw);
    }

    fn start(&mut self, _cx: &mut Cx<'_>, hw: &mut Hw, _reload: bool) {
        hw.stopped = false;
        hw.prev = self.0.lock().counted;
        self.arm(hw);
    }

    fn stop(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        self.read(cx, hw);
        hw.stopped = true;
        self.0.lock().counting.remove(&hw.event);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, hw: &mut Hw) {
        if hw.stopped {
            return;
        }
        let counted = self.0.lock().counted;
        let new = counted.wrapping_sub(hw.prev);
        hw.count = hw.count.wrapping_add(new);
        hw.period_left = hw.period_left.wrapping_sub(new as i64);
        hw.prev = counted;
    }

    fn interrupt(&mut self, _cpu: u32, _now: u64, over: &mut Vec<Overflow>) {
        let shared = self.0.lock();
        let due = shared.counting.iter().filter(|(_, due)| due.is_some_and(|due| due <= shared.counted));
        over.extend(due.map(|(&event, _)| Overflow { event, addr: 0, exact_ip: true }));
    }

    fn overflowed(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) -> bool {
        self.read(cx, hw);
        let over = hw.period_left <= 0;
        self.arm(hw);
        over
    }
}
