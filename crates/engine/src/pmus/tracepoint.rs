//! Tracepoints (rules J30 to J34). The host says which there are, and tells of hits with
//! [`Engine::tracepoint`](crate::Engine::tracepoint).

use crate::bpf::ProgramKind;
use crate::cpu_state::CpuState;
use crate::engine::Engine;
use crate::event::EventKey;
use crate::pmu::{Cx, Description, Hw, Pmu, PmuCaps, PmuInfo, Target, TaskContext};
use crate::sample::SampleData;
use crate::task::TaskId;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::fmt;
use perfuse_abi::{AttrFlags, Errno, EventType, SampleType};

/// A filter of a tracepoint's records, made by the host from its text: whether a record passes.
pub type Filter = Box<dyn Fn(&[u8]) -> bool + Send>;

/// Makes filters: `EINVAL` for a text that is no filter (rule J34).
pub type FilterMaker = fn(id: u64, text: &str) -> Result<Filter, Errno>;

/// The PMU of type 2.
#[derive(Default)]
pub(crate) struct TracepointPmu {
    pub(crate) maker: Option<FilterMaker>,
    filters: BTreeMap<EventKey, Filter>,
    /// Whether anybody may have the data of each, for tasks that he may measure.
    known: BTreeMap<u64, bool>,
    /// The answer for others, if it is not `EINVAL`.
    unknown: Option<Errno>,
}

impl fmt::Debug for TracepointPmu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TracepointPmu({} tracepoints, {} filters)", self.known.len(), self.filters.len())
    }
}

impl Pmu for TracepointPmu {
    fn info(&self) -> PmuInfo {
        PmuInfo {
            name: Cow::Borrowed("tracepoint"),
            type_: Some(EventType::TRACEPOINT),
            caps: PmuCaps::default(),
            context: TaskContext::Software,
            description: Description::default(),
        }
    }

    fn event_init(&mut self, hw: &mut Hw, target: &Target, _group: &[&Hw]) -> Result<(), Errno> {
        if hw.attr.type_ != EventType::TRACEPOINT {
            return Err(Errno::ENOENT);
        }
        if hw.attr.sample_type.contains(SampleType::BRANCH_STACK) {
            return Err(Errno::EOPNOTSUPP);
        }
        hw.stopped = false;
        let unknown = self.unknown.unwrap_or(Errno::EINVAL);
        let open = *self.known.get(&hw.attr.config).ok_or(unknown)?;
        // Rule J31.
        let data = hw.attr.sample_type.contains(SampleType::RAW);
        if data && !target.inherited && !(open && target.task) { target.raw } else { Ok(()) }
    }

    fn event_destroy(&mut self, hw: &mut Hw) {
        self.filters.remove(&hw.event);
    }

    fn add(&mut self, cx: &mut Cx<'_>, hw: &mut Hw, start: bool) -> Result<(), Errno> {
        hw.begin_periods();
        // A stopped event stays so until it is started (rule C48).
        hw.stopped |= !start;
        cx.listen(EventType::TRACEPOINT, hw.attr.config, hw);
        Ok(())
    }

    fn del(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        cx.stop_listening(EventType::TRACEPOINT, hw.attr.config, hw);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, _hw: &mut Hw) {}

    fn set_filter(&mut self, hw: &mut Hw, text: &str) -> Result<(), Errno> {
        if self.filters.contains_key(&hw.event) {
            return Err(Errno::EEXIST);
        }
        let make = self.maker.ok_or(Errno::EINVAL)?;
        self.filters.insert(hw.event, make(hw.attr.config, text)?);
        Ok(())
    }

    fn programs(&self) -> ProgramKind {
        ProgramKind::Tracepoint
    }

    fn passes(&self, event: EventKey, record: &[u8]) -> bool {
        self.filters.get(&event).is_none_or(|filter| filter(record))
    }

    fn tracepoints(&mut self) -> Option<&mut dyn Tracepoints> {
        Some(self)
    }
}

/// The methods of the tracepoint PMU beyond those of all PMUs.
pub trait Tracepoints {
    /// A tracepoint exists from now on.
    fn declare(&mut self, id: u64, open: bool);

    /// How filters are made.
    fn set_filter_maker(&mut self, maker: FilterMaker);

    /// Sets the answer for tracepoints that are not there.
    fn refuse_unknown(&mut self, errno: Errno);
}

impl Tracepoints for TracepointPmu {
    fn declare(&mut self, id: u64, open: bool) {
        self.known.insert(id, open);
    }

    fn set_filter_maker(&mut self, maker: FilterMaker) {
        self.maker = Some(maker);
    }

    fn refuse_unknown(&mut self, errno: Errno) {
        self.unknown = Some(errno);
    }
}

impl Engine {
    fn tracepoints(&mut self) -> Option<&mut dyn Tracepoints> {
        let pmu = self.pmus.by_type(EventType::TRACEPOINT)?;
        self.pmus.driver(pmu)?.tracepoints()
    }

    /// A tracepoint with this id exists.
    pub fn declare_tracepoint(&mut self, id: u64) {
        if let Some(tracepoints) = self.tracepoints() {
            tracepoints.declare(id, false);
        }
    }

    /// A tracepoint exists whose data anybody may have of tasks that he may measure: that of a system call
    /// (rule J31).
    pub fn declare_open_tracepoint(&mut self, id: u64) {
        if let Some(tracepoints) = self.tracepoints() {
            tracepoints.declare(id, true);
        }
    }

    /// Sets the answer for tracepoints that do not exist, which is `EINVAL` otherwise (rule J30). A host that knows few tells by `ENOENT` that
    /// there may be others elsewhere.
    pub fn refuse_unknown_tracepoints(&mut self, errno: Errno) {
        if let Some(tracepoints) = self.tracepoints() {
            tracepoints.refuse_unknown(errno);
        }
    }

    /// How `PERF_EVENT_IOC_SET_FILTER` makes filters for tracepoints.
    pub fn set_filter_maker(&mut self, maker: FilterMaker) {
        if let Some(tracepoints) = self.tracepoints() {
            tracepoints.set_filter_maker(maker);
        }
    }

    /// A tracepoint was hit on a cpu (rules J32, J33).
    pub fn tracepoint(&mut self, cpu: u32, now: u64, hit: &Hit<'_>, cpu_state: &dyn CpuState) {
        if !self.trace(EventType::TRACEPOINT, cpu, now, hit, cpu_state) {
            return;
        }
        let target = hit.target.filter(|&target| self.cpus[cpu as usize].current != Some(target));
        let context = target.and_then(|target| self.tasks.get(&target)).and_then(|task| task.context);
        let Some(context) = context else { return };
        let data = hit.data(cpu_state);
        // Those bound to this very cpu hear of what happens to their task.
        for event in self.contexts[context].newest_first() {
            let own = &self.events[event];
            let heard = own.attr().type_ == EventType::TRACEPOINT
                && own.attr().config == hit.id
                && own.cpu == Some(cpu)
                && !own.has(AttrFlags::SIGTRAP);
            if heard && self.passes(event, hit, cpu_state) {
                self.count_occurrence(event, cpu, now, hit.count, &data);
            }
        }
        self.settle(now);
    }

    /// Tells all on a cpu who listen to this type and number, unless a BPF program silences them.
    pub(super) fn trace(
        &mut self,
        type_: EventType,
        cpu: u32,
        now: u64,
        hit: &Hit<'_>,
        cpu_state: &dyn CpuState,
    ) -> bool {
        let silenced = self.silenced_by_programs(type_, cpu, now, hit, cpu_state);
        if type_ == EventType::TRACEPOINT && !silenced.is_empty() {
            self.settle(now);
            return false;
        }
        let data = hit.data(cpu_state);
        let mut heard = core::mem::take(&mut self.heard);
        heard.extend(self.cpus[cpu as usize].listeners.of(type_, hit.id));
        for &event in &heard {
            if self.passes(event, hit, cpu_state) && !silenced.contains(&event) {
                self.count_occurrence(event, cpu, now, hit.count, &data);
            }
        }
        heard.clear();
        self.heard = heard;
        self.settle(now);
        true
    }

    /// Whether an event counts a hit: in kernel mode unless it leaves that out, in user mode always; and if
    /// its filter, or its original's, lets it pass (rules J32, J34, J50).
    fn passes(&self, event: EventKey, hit: &Hit<'_>, cpu_state: &dyn CpuState) -> bool {
        let own = &self.events[event];
        let left_out = own.hw.stopped || !cpu_state.is_user() && own.has(AttrFlags::EXCLUDE_KERNEL);
        let driver = self.pmus.get(own.pmu).driver.as_deref();
        !left_out && driver.is_none_or(|driver| driver.passes(own.original(), hit.record))
    }
}

/// A hit of a tracepoint or a probe.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hit<'a> {
    /// The tracepoint's id, or the probe's number.
    pub id: u64,
    /// Its weight: 1 for most.
    pub count: u64,
    /// The recorded data, with the common header.
    pub record: &'a [u8],
    /// The task it is about, where that is another than the one that runs: the woken one, say (rule J33).
    pub target: Option<TaskId>,
}

impl<'a> Hit<'a> {
    /// One hit of a tracepoint.
    pub fn new(id: u64, record: &'a [u8]) -> Self {
        Hit { id, count: 1, record, target: None }
    }

    fn data(&self, cpu_state: &'a dyn CpuState) -> SampleData<'a> {
        SampleData { addr: Some(0), raw: Some(self.record), ..SampleData::new(cpu_state) }
    }
}
