//! Tracepoints (rules J30 to J34). The host says which there are, and tells of hits with
//! [`Engine::tracepoint`](crate::Engine::tracepoint).

use crate::engine::Engine;
use crate::moment::Moment;
use crate::pmu::{Cx, Description, Hw, Pmu, PmuCaps, PmuInfo, TaskContext, Whom};
use crate::sample::Facts;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::fmt;
use perfuse_abi::{Errno, EventType, SampleType};

/// A filter of a tracepoint's records, made by the host from its text: whether a record passes.
pub type Filter = Box<dyn Fn(&[u8]) -> bool + Send>;

/// Makes filters: `EINVAL` for a text that is none (rule J34).
pub type FilterMaker = fn(id: u64, text: &str) -> Result<Filter, Errno>;

/// The PMU of type 2.
#[derive(Default)]
pub(crate) struct TracepointPmu {
    pub(crate) maker: Option<FilterMaker>,
    filters: BTreeMap<crate::event::EventKey, Filter>,
    known: alloc::collections::BTreeSet<u64>,
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

    fn event_init(&mut self, hw: &mut Hw, _whom: &Whom, _group: &[&Hw]) -> Result<(), Errno> {
        if hw.attr.type_ != EventType::TRACEPOINT {
            return Err(Errno::ENOENT);
        }
        if hw.attr.sample_type.contains(SampleType::BRANCH_STACK) {
            return Err(Errno::EOPNOTSUPP);
        }
        if self.known.contains(&hw.attr.config) { Ok(()) } else { Err(Errno::EINVAL) }
    }

    fn event_destroy(&mut self, hw: &mut Hw) {
        self.filters.remove(&hw.event);
    }

    fn add(&mut self, cx: &mut Cx<'_>, hw: &mut Hw, start: bool) -> Result<(), Errno> {
        if hw.is_sampling() {
            hw.last_period = hw.sample_period;
            hw.next_period();
        }
        hw.stopped = !start;
        cx.listen(EventType::TRACEPOINT, hw.attr.config, hw.event);
        Ok(())
    }

    fn del(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        cx.stop_listening(EventType::TRACEPOINT, hw.attr.config, hw.event);
        hw.stopped = true;
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

    fn tracepoints(&mut self) -> Option<&mut dyn Tracepoints> {
        Some(self)
    }
}

/// What the engine wants of the tracepoint PMU beyond what all PMUs do.
pub trait Tracepoints {
    /// A tracepoint exists from now on.
    fn declare(&mut self, id: u64);

    /// How filters are made.
    fn set_filter_maker(&mut self, maker: FilterMaker);

    /// Whether a record passes the filter of an event.
    fn passes(&self, event: crate::event::EventKey, record: &[u8]) -> bool;
}

impl Tracepoints for TracepointPmu {
    fn declare(&mut self, id: u64) {
        self.known.insert(id);
    }

    fn set_filter_maker(&mut self, maker: FilterMaker) {
        self.maker = Some(maker);
    }

    fn passes(&self, event: crate::event::EventKey, record: &[u8]) -> bool {
        self.filters.get(&event).is_none_or(|filter| filter(record))
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
            tracepoints.declare(id);
        }
    }

    /// How `PERF_EVENT_IOC_SET_FILTER` makes filters for tracepoints.
    pub fn set_filter_maker(&mut self, maker: FilterMaker) {
        if let Some(tracepoints) = self.tracepoints() {
            tracepoints.set_filter_maker(maker);
        }
    }

    /// A tracepoint was hit on a cpu (rules J32, J33): `record` is what it recorded, with its common
    /// header; `count` its weight, 1 for most.
    pub fn tracepoint(
        &mut self,
        cpu: u32,
        now: u64,
        id: u64,
        count: u64,
        record: &[u8],
        moment: &dyn Moment,
    ) {
        let facts = Facts { addr: Some(0), raw: Some(record), ..Facts::new(moment) };
        for event in self.cpus[cpu as usize].listeners.of(EventType::TRACEPOINT, id) {
            if self.tracepoints().is_none_or(|tracepoints| tracepoints.passes(event, record)) {
                self.occurrence(event, cpu, now, count, &facts);
            }
        }
    }
}
