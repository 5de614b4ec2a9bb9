//! A PMU that writes a trace to an AUX area.

use perfuse_engine::abi::{AuxFlags, Errno, EventType};
use perfuse_engine::{AuxRoom, Cx, Hw, Overflow, Pmu, PmuCaps, PmuInfo, Target};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) const TRACE: EventType = EventType(40);

/// Writes its own position as trace, so many bytes at each interrupt.
#[derive(Debug, Default)]
pub(crate) struct Tracer {
    event: Option<perfuse_engine::EventKey>,
    room: Option<AuxRoom>,
    pub(crate) step: Arc<AtomicU64>,
    written: u64,
    pub(crate) freed: Arc<AtomicU64>,
}

impl Tracer {
    fn end(&mut self, cx: &mut Cx<'_>, wanted: u64) {
        let Some(room) = self.room.take() else { return };
        let size = wanted.min(room.size) / 8 * 8;
        let words = room.memory.words();
        for at in (room.head..room.head + size).step_by(8) {
            words[(at / 8) as usize % words.len()].store(at, Ordering::Relaxed);
        }
        self.written = room.head + size;
        let cut = if wanted > size { AuxFlags::TRUNCATED } else { AuxFlags::empty() };
        cx.aux_end(self.written, size, cut);
    }
}

impl Pmu for Tracer {
    fn info(&self) -> PmuInfo {
        let caps = PmuCaps { aux: true, itrace: true, aux_pause: true, ..PmuCaps::default() };
        PmuInfo { type_: Some(TRACE), caps, ..PmuInfo::hardware("trace") }
    }

    fn event_init(&mut self, hw: &mut Hw, _target: &Target, _group: &[&Hw]) -> Result<(), Errno> {
        if hw.attr.type_ == TRACE { Ok(()) } else { Err(Errno::ENOENT) }
    }

    fn add(&mut self, cx: &mut Cx<'_>, hw: &mut Hw, _start: bool) -> Result<(), Errno> {
        self.event = Some(hw.event);
        hw.stopped = false;
        self.room = cx.aux_begin();
        if self.room.is_some() {
            cx.itrace_started();
        }
        Ok(())
    }

    fn del(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        self.stop(cx, hw);
        self.event = None;
    }

    fn stop(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        self.end(cx, 0);
        hw.stopped = true;
    }

    fn read(&mut self, _cx: &mut Cx<'_>, _hw: &mut Hw) {}

    fn interrupt(&mut self, _cpu: u32, _now: u64, over: &mut Vec<Overflow>) {
        over.extend(self.event.map(|event| Overflow { event, addr: 0, exact_ip: false }));
    }

    fn overflowed(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) -> bool {
        if !hw.aux_paused {
            let wanted = self.step.load(Ordering::Relaxed);
            self.end(cx, wanted);
            self.room = cx.aux_begin();
        }
        true
    }

    fn aux_pause(&mut self, cx: &mut Cx<'_>, _hw: &mut Hw, pause: bool) {
        cx.aux_output_hw_id(u64::from(pause));
    }

    fn aux_head(&self, _hw: &Hw) -> Option<u64> {
        Some(self.written)
    }

    fn setup_aux(&mut self, _hw: &Hw, pages: usize, _overwrite: bool) -> Result<u64, Errno> {
        if pages > 64 { Err(Errno::ENOMEM) } else { Ok(7) }
    }

    fn free_aux(&mut self, handle: u64) {
        self.freed.fetch_add(handle, Ordering::Relaxed);
    }
}
