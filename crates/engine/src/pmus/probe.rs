//! Probes: the PMUs `kprobe` and `uprobe` (rules J50 to J53). Only the host
//! knows the meaning of a path or a symbol, so it sets the probe ([`Probes`]); it tells of hits with [`Engine::probe`].

use super::tracepoint::{Filter, Hit};
use crate::bpf::ProgramKind;
use crate::cpu_state::CpuState;
use crate::engine::Engine;
use crate::event::EventKey;
use crate::pmu::{Cx, Description, Hw, Pmu, PmuCaps, PmuId, PmuInfo, Target, TaskContext};
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use core::fmt::{self, Debug};
use perfuse_abi::{Attr, Errno, EventType, SampleType};

/// Where a host sets probes.
pub trait Probes: Debug + Send {
    /// Sets the probe that an attr names with `config1` and `config2`; `returns`: where the function
    /// returns. Answers with a number, which [`Engine::probe`] names it by; or with an errno of rules J51
    /// and J52.
    fn set(&mut self, attr: &Attr, returns: bool) -> Result<u64, Errno>;

    /// Takes a probe back.
    fn clear(&mut self, number: u64);

    /// A filter on what is recorded at hits of a probe: `EINVAL` for a text that is no filter (rule J34).
    fn filter(&mut self, number: u64, text: &str) -> Result<Filter, Errno> {
        let _ = (number, text);
        Err(Errno::EINVAL)
    }
}

/// A PMU of probes; its type is the next free one.
pub struct ProbePmu {
    name: &'static str,
    type_: EventType,
    /// The type that it must have.
    wanted: Option<EventType>,
    for_everybody: bool,
    probes: Box<dyn Probes>,
    set: BTreeMap<EventKey, u64>,
    filters: BTreeMap<EventKey, Filter>,
}

impl fmt::Debug for ProbePmu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, probes, set, .. } = self;
        write!(f, "ProbePmu({name}, {probes:?}, {set:?}, {} filters)", self.filters.len())
    }
}

impl ProbePmu {
    /// Probes in the kernel.
    pub fn kprobe(probes: Box<dyn Probes>) -> Self {
        let (set, filters) = (BTreeMap::new(), BTreeMap::new());
        let type_ = EventType(u32::MAX);
        ProbePmu { name: "kprobe", type_, wanted: None, for_everybody: false, probes, set, filters }
    }

    /// Probes in programs.
    pub fn uprobe(probes: Box<dyn Probes>) -> Self {
        ProbePmu { name: "uprobe", ..ProbePmu::kprobe(probes) }
    }

    /// With this type instead of the next free one.
    pub fn of_type(self, type_: EventType) -> Self {
        ProbePmu { wanted: Some(type_), ..self }
    }

    /// No privilege is needed: a caller who may measure a task may have probes in it (against rule J50).
    pub fn for_everybody(self) -> Self {
        ProbePmu { for_everybody: true, ..self }
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
            type_: self.wanted,
            caps: PmuCaps::default(),
            context: TaskContext::Software,
            description: Description { format, ..Description::default() },
        }
    }

    fn registered(&mut self, type_: EventType) {
        self.type_ = type_;
    }

    fn event_init(&mut self, hw: &mut Hw, target: &Target, _group: &[&Hw]) -> Result<(), Errno> {
        if hw.attr.type_ != self.type_ {
            return Err(Errno::ENOENT);
        }
        if !target.perfmon && !self.for_everybody {
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
        self.filters.remove(&hw.event);
        if let Some(number) = self.set.remove(&hw.event) {
            self.probes.clear(number);
        }
    }

    fn add(&mut self, cx: &mut Cx<'_>, hw: &mut Hw, start: bool) -> Result<(), Errno> {
        hw.begin_periods();
        // A stopped event stays so until it is started (rule C48).
        hw.stopped |= !start;
        cx.listen(self.type_, hw.config, hw);
        Ok(())
    }

    fn del(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        cx.stop_listening(self.type_, hw.config, hw);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, _hw: &mut Hw) {}

    fn set_filter(&mut self, hw: &mut Hw, text: &str) -> Result<(), Errno> {
        if self.filters.contains_key(&hw.event) {
            return Err(Errno::EEXIST);
        }
        let filter = self.probes.filter(hw.config, text)?;
        self.filters.insert(hw.event, filter);
        Ok(())
    }

    fn programs(&self) -> ProgramKind {
        ProgramKind::Kprobe
    }

    fn passes(&self, event: EventKey, record: &[u8]) -> bool {
        self.filters.get(&event).is_none_or(|filter| filter(record))
    }
}

impl Engine {
    /// A probe was hit on a cpu: `hit.id` is the number that [`Probes::set`] gave it. `cpu_state`: kernel mode
    /// for a kprobe, user mode for a uprobe.
    pub fn probe(&mut self, pmu: PmuId, cpu: u32, now: u64, hit: &Hit<'_>, cpu_state: &dyn CpuState) {
        let Some(type_) = self.pmus.find(pmu).map(|pmu| pmu.type_) else { return };
        self.trace(type_, cpu, now, hit, cpu_state);
    }
}
