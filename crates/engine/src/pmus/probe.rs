//! Probes: the PMUs `kprobe` and `uprobe` (rules J50 to J53). What a path or a symbol means only the host
//! knows, and so it sets the probe ([`Probes`]); it tells of hits with [`Engine::probe`].

use super::tracepoint::Hit;
use crate::engine::Engine;
use crate::event::EventKey;
use crate::moment::Moment;
use crate::pmu::{Cx, Description, Hw, Pmu, PmuCaps, PmuId, PmuInfo, TaskContext, Whom};
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use core::fmt::Debug;
use perfuse_abi::{Attr, Errno, EventType, SampleType};

/// Where a host sets probes.
pub trait Probes: Debug + Send {
    /// Sets the probe that an attr names with `config1` and `config2`; `returns`: where the function
    /// returns. Answers with a number, which [`Engine::probe`] names it by; or with an errno of rules J51
    /// and J52.
    fn set(&mut self, attr: &Attr, returns: bool) -> Result<u64, Errno>;

    /// Takes a probe back.
    fn clear(&mut self, number: u64);
}

/// A PMU of probes; its type is the next free one.
#[derive(Debug)]
pub struct ProbePmu {
    name: &'static str,
    type_: EventType,
    probes: Box<dyn Probes>,
    set: BTreeMap<EventKey, u64>,
}

impl ProbePmu {
    /// Probes in the kernel.
    pub fn kprobe(probes: Box<dyn Probes>) -> Self {
        ProbePmu { name: "kprobe", type_: EventType(u32::MAX), probes, set: BTreeMap::new() }
    }

    /// Probes in programs.
    pub fn uprobe(probes: Box<dyn Probes>) -> Self {
        ProbePmu { name: "uprobe", ..ProbePmu::kprobe(probes) }
    }
}

impl Pmu for ProbePmu {
    fn info(&self) -> PmuInfo {
        let mut format = vec![(Cow::Borrowed("retprobe"), Cow::Borrowed("config:0"))];
        if self.name == "uprobe" {
            format.push((Cow::Borrowed("ref_ctr_offset"), Cow::Borrowed("config:32-63")));
        }
        PmuInfo {
            name: Cow::Borrowed(self.name),
            type_: None,
            caps: PmuCaps::default(),
            context: TaskContext::Software,
            description: Description { format, ..Description::default() },
        }
    }

    fn registered(&mut self, type_: EventType) {
        self.type_ = type_;
    }

    fn event_init(&mut self, hw: &mut Hw, whom: &Whom, _group: &[&Hw]) -> Result<(), Errno> {
        if hw.attr.type_ != self.type_ {
            return Err(Errno::ENOENT);
        }
        if !whom.perfmon {
            return Err(Errno::EACCES);
        }
        if hw.attr.sample_type.contains(SampleType::BRANCH_STACK) {
            return Err(Errno::EOPNOTSUPP);
        }
        hw.stopped = false;
        hw.config = self.probes.set(&hw.attr, hw.attr.config & 1 != 0)?;
        self.set.insert(hw.event, hw.config);
        Ok(())
    }

    fn event_destroy(&mut self, hw: &mut Hw) {
        if let Some(number) = self.set.remove(&hw.event) {
            self.probes.clear(number);
        }
    }

    fn add(&mut self, cx: &mut Cx<'_>, hw: &mut Hw, start: bool) -> Result<(), Errno> {
        hw.begin_periods();
        // Who was stopped stays so until somebody starts him (rule C48).
        hw.stopped |= !start;
        cx.listen(self.type_, hw.config, hw.event);
        Ok(())
    }

    fn del(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        cx.stop_listening(self.type_, hw.config, hw.event);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, _hw: &mut Hw) {}
}

impl Engine {
    /// A probe was hit on a cpu: `hit.id` is the number that [`Probes::set`] gave it. `moment`: kernel mode
    /// for a kprobe, user mode for a uprobe.
    pub fn probe(&mut self, pmu: PmuId, cpu: u32, now: u64, hit: &Hit<'_>, moment: &dyn Moment) {
        let type_ = self.pmus.get(pmu).type_;
        self.trace(type_, cpu, now, hit, moment);
    }
}
