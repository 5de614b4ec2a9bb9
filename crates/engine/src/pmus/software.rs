//! Software events: page faults, switches and their like (rule J1). The host tells of them with
//! [`Engine::software`](crate::Engine::software).

use super::clock;
use crate::pmu::{Cx, Description, Hw, Pmu, PmuCaps, PmuInfo, Target, TaskContext};
use alloc::borrow::Cow;
use perfuse_abi::{Errno, EventType, SampleType, Software};

/// The PMU of type 1.
#[derive(Debug)]
pub(crate) struct SoftwarePmu;

/// As many as the kernel has names for.
const EVENTS: u64 = 12;

impl Pmu for SoftwarePmu {
    fn info(&self) -> PmuInfo {
        PmuInfo {
            name: Cow::Borrowed("software"),
            type_: Some(EventType::SOFTWARE),
            caps: PmuCaps { no_nmi: true, ..PmuCaps::default() },
            context: TaskContext::Software,
            description: Description::default(),
        }
    }

    fn event_init(&mut self, hw: &mut Hw, _target: &Target, _group: &[&Hw]) -> Result<(), Errno> {
        if hw.attr.type_ != EventType::SOFTWARE {
            return Err(Errno::ENOENT);
        }
        if hw.attr.sample_type.contains(SampleType::BRANCH_STACK) {
            return Err(Errno::EOPNOTSUPP);
        }
        // The clocks have PMUs of their own, to which the event is sent on.
        let clocks = [(Software::CPU_CLOCK, clock::CPU_CLOCK), (Software::TASK_CLOCK, clock::TASK_CLOCK)];
        if let Some((_, type_)) = clocks.iter().find(|(which, _)| which.0 == hw.attr.config) {
            hw.attr.type_ = *type_;
            return Err(Errno::ENOENT);
        }
        if hw.attr.config < EVENTS { Ok(()) } else { Err(Errno::ENOENT) }
    }

    fn add(&mut self, cx: &mut Cx<'_>, hw: &mut Hw, start: bool) -> Result<(), Errno> {
        hw.begin_periods();
        hw.stopped = !start;
        cx.listen(EventType::SOFTWARE, hw.attr.config, hw);
        Ok(())
    }

    fn del(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        cx.stop_listening(EventType::SOFTWARE, hw.attr.config, hw);
        hw.stopped = true;
    }

    fn read(&mut self, _cx: &mut Cx<'_>, _hw: &mut Hw) {}
}
