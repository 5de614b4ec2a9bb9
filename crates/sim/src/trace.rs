//! A PMU that traces what cpus do: it writes to an AUX area while its event is on and a task works, so many bytes
//! a microsecond, and interrupts when a piece is full.

use crate::reader::AuxReader;
use perfuse_engine::abi::{AttrFlags, AuxFlags, Errno, EventType};
use perfuse_engine::{AuxRoom, Cx, EventKey, Hw, Overflow, Pmu, PmuCaps, PmuInfo, Target, TaskContext};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The type of the PMU.
pub const TRACE: EventType = EventType(20);

/// The properties of such a PMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceModel {
    /// Bytes it writes in a microsecond.
    pub rate: u64,
    /// It interrupts when so many bytes have been written, and when there is no more room.
    pub piece: u64,
}

/// The trace that is being written on a cpu.
#[derive(Clone, Debug, Default)]
struct Tracing {
    event: Option<EventKey>,
    /// Where the piece at hand is written to.
    room: Option<AuxRoom>,
    /// Bytes of it so far, in thousandths.
    made: u128,
    /// In user and in kernel mode.
    modes: [bool; 2],
    paused: bool,
}

/// The traces of all cpus: seen by the driver, and by the machine that works.
#[derive(Clone, Debug)]
pub(crate) struct Traces {
    model: TraceModel,
    cpus: Arc<Mutex<Vec<Tracing>>>,
}

/// The driver.
#[derive(Debug)]
pub(crate) struct TracePmu(Traces);

impl Tracing {
    /// Whether what a cpu does is written.
    fn writes(&self, kernel: bool) -> bool {
        self.room.is_some() && !self.paused && self.modes[usize::from(kernel)]
    }

    /// Bytes that are done; traces have whole words.
    fn bytes(&self) -> u64 {
        (self.made / 1000) as u64 / 8 * 8
    }
}

impl Traces {
    pub(crate) fn new(model: TraceModel, cpus: u32) -> (TracePmu, Self) {
        let traces = Traces { model, cpus: Arc::new(Mutex::new(vec![Tracing::default(); cpus as usize])) };
        (TracePmu(traces.clone()), traces)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Tracing>> {
        self.cpus.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A cpu works for so long.
    pub(crate) fn work(&self, cpu: u32, ns: u64, kernel: bool) {
        let own = &mut self.lock()[cpu as usize];
        if own.writes(kernel) {
            own.made += u128::from(self.model.rate) * u128::from(ns);
        }
    }

    /// In how many ns a piece is full, on a cpu that works in this mode.
    pub(crate) fn next_interrupt(&self, cpu: u32, kernel: bool) -> Option<u64> {
        let own = &self.lock()[cpu as usize];
        let room = own.room.as_ref().filter(|room| own.writes(kernel) && !room.overwrite)?;
        let full = u128::from(self.model.piece.min(room.size / 8 * 8)) * 1000;
        let left = full.saturating_sub(own.made);
        let rate = u128::from(self.model.rate);
        if left == 0 { Some(0) } else { (rate > 0).then(|| left.div_ceil(rate) as u64) }
    }
}

impl TracePmu {
    /// A piece begins, where there is room.
    fn begin(&mut self, cx: &mut Cx<'_>) {
        let room = cx.aux_begin();
        if room.is_some() {
            cx.itrace_started();
        }
        self.0.lock()[cx.cpu as usize].room = room;
    }

    /// The piece at hand ends.
    fn end(&mut self, cx: &mut Cx<'_>) {
        let mut all = self.0.lock();
        let own = &mut all[cx.cpu as usize];
        let Some(room) = own.room.take() else { return };
        let made = own.bytes();
        own.made -= u128::from(made) * 1000;
        let most = room.size / 8 * 8;
        let (size, mut flags) = (made.min(most), AuxFlags::empty());
        let end = room.head + if room.overwrite { made } else { size };
        AuxReader::fill(&*room.memory, end - size, size);
        if !room.overwrite && made > 0 && made >= most {
            // Later bytes cannot be had.
            flags |= AuxFlags::TRUNCATED;
            own.made = 0;
        }
        drop(all);
        cx.aux_end(end, size, flags);
    }
}

impl Pmu for TracePmu {
    fn info(&self) -> PmuInfo {
        // Traces compete with counters for nothing.
        let caps =
            PmuCaps { aux: true, itrace: true, aux_pause: true, exclusive: true, ..PmuCaps::default() };
        PmuInfo { type_: Some(TRACE), caps, context: TaskContext::Software, ..PmuInfo::hardware("trace") }
    }

    fn event_init(&mut self, hw: &mut Hw, _target: &Target, _group: &[&Hw]) -> Result<(), Errno> {
        if hw.attr.type_ == TRACE { Ok(()) } else { Err(Errno::ENOENT) }
    }

    fn add(&mut self, cx: &mut Cx<'_>, hw: &mut Hw, start: bool) -> Result<(), Errno> {
        let has = |flag| hw.attr.flags.contains(flag);
        {
            let own = &mut self.0.lock()[cx.cpu as usize];
            if own.event.is_some() {
                return Err(Errno::EBUSY);
            }
            let modes = [!has(AttrFlags::EXCLUDE_USER), !has(AttrFlags::EXCLUDE_KERNEL)];
            *own = Tracing { event: Some(hw.event), modes, paused: hw.aux_paused, ..Tracing::default() };
        }
        hw.stopped = true;
        if start {
            self.start(cx, hw, true);
        }
        Ok(())
    }

    fn del(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        self.stop(cx, hw);
        self.0.lock()[cx.cpu as usize] = Tracing::default();
    }

    fn start(&mut self, cx: &mut Cx<'_>, hw: &mut Hw, _reload: bool) {
        self.begin(cx);
        hw.stopped = false;
    }

    fn stop(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        self.end(cx);
        hw.stopped = true;
    }

    /// A trace counts nothing.
    fn read(&mut self, _cx: &mut Cx<'_>, _hw: &mut Hw) {}

    fn interrupt(&mut self, cpu: u32, _now: u64, over: &mut Vec<Overflow>) {
        let event = self.0.lock()[cpu as usize].event;
        over.extend(event.map(|event| Overflow { event, addr: 0, exact_ip: false }));
    }

    /// A piece is full, and the next one begins.
    fn overflowed(&mut self, cx: &mut Cx<'_>, _hw: &mut Hw) -> bool {
        self.end(cx);
        self.begin(cx);
        false
    }

    fn aux_pause(&mut self, cx: &mut Cx<'_>, _hw: &mut Hw, pause: bool) {
        self.0.lock()[cx.cpu as usize].paused = pause;
    }

    fn aux_head(&self, hw: &Hw) -> Option<u64> {
        let all = self.0.lock();
        let own = all.iter().find(|own| own.event == Some(hw.event))?;
        let room = own.room.as_ref()?;
        let end = room.head + own.bytes();
        let size = own.bytes().min(room.size);
        AuxReader::fill(&*room.memory, end - size, size);
        Some(end)
    }

    fn setup_aux(&mut self, _hw: &Hw, _pages: usize, _overwrite: bool) -> Result<u64, Errno> {
        Ok(0)
    }
}
