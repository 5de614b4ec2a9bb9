//! AUX areas: where PMUs write traces in formats of their own, and the records that announce them (rules
//! F40 to F45).

use crate::effect::Notice;
use crate::engine::Engine;
use crate::event::{EventKey, State};
use crate::host::Memory;
use crate::pmu::Cx;
use crate::sync::{AtomicU64, Ordering};
use alloc::sync::Arc;
use alloc::vec::Vec;
use perfuse_abi::page::offset;
use perfuse_abi::record::{Aux, Misc, Record};
use perfuse_abi::{AuxAction, AuxFlags};

/// Memory for a trace, and how far it was written.
#[derive(Debug)]
pub(crate) struct AuxArea {
    pub(crate) memory: Arc<dyn Memory>,
    /// Bytes.
    pub(crate) size: u64,
    /// Mapped read-only: the writer waits for no reader.
    pub(crate) overwrite: bool,
    /// Bytes between wakeups (rule F41).
    pub(crate) watermark: u64,
    pub(crate) head: u64,
    pub(crate) wakeup: u64,
}

/// An area with what its reader has left of it.
#[derive(Debug)]
pub(crate) struct AuxOutput<'a> {
    pub(crate) area: &'a mut AuxArea,
    pub(crate) tail: &'a AtomicU64,
}

/// Where a PMU may write its trace.
#[derive(Clone, Debug)]
pub struct AuxRoom {
    /// The area.
    pub memory: Arc<dyn Memory>,
    /// Where to write next; grows without limit, so take it modulo the size of the memory.
    pub head: u64,
    /// Bytes that are free from there on.
    pub size: u64,
    /// Old data may be overwritten.
    pub overwrite: bool,
}

/// A record that a driver wants written to its event's ring.
#[derive(Debug)]
pub(crate) enum DriverRecord {
    /// A piece of trace; with the head to publish.
    Trace {
        offset: u64,
        size: u64,
        flags: AuxFlags,
        head: u64,
        wake: bool,
    },
    /// There is no room for a trace.
    NoRoom,
    Started,
    HwId(u64),
    Lost(u64),
}

impl Cx<'_> {
    /// Begins a piece of trace. `None` where there is no area, or none of it free: the event stops then
    /// (rule F42).
    pub fn aux_begin(&mut self) -> Option<AuxRoom> {
        let AuxOutput { area, tail } = self.aux.as_mut()?;
        let behind = area.head.wrapping_sub(tail.load(Ordering::Acquire));
        let size = match area.overwrite {
            true => area.size,
            false if behind < area.size => area.size - 1 - behind,
            false => 0,
        };
        if size == 0 {
            self.driver_records.push(DriverRecord::NoRoom);
            return None;
        }
        Some(AuxRoom { memory: area.memory.clone(), head: area.head, size, overwrite: area.overwrite })
    }

    /// Ends it: `size` bytes were written. In an area that is overwritten, `head` is where the trace is
    /// now; in others that follows (rules F42, F43).
    pub fn aux_end(&mut self, head: u64, size: u64, flags: AuxFlags) {
        let Some(AuxOutput { area, .. }) = &mut self.aux else { return };
        let mut flags = flags - AuxFlags::OVERWRITE;
        let mut wake = flags.contains(AuxFlags::TRUNCATED);
        let told = !flags.is_empty() || size > 0;
        let offset;
        if area.overwrite {
            flags |= AuxFlags::OVERWRITE;
            (offset, area.head) = (head, head);
        } else {
            offset = area.head;
            area.head = area.head.wrapping_add(size);
            if area.head.wrapping_sub(area.wakeup) >= area.watermark {
                area.wakeup = area.head / area.watermark * area.watermark;
                wake = true;
            }
        }
        if told || wake || area.overwrite {
            let size = if told { size } else { 0 };
            self.driver_records.push(DriverRecord::Trace { offset, size, flags, head: area.head, wake });
        }
    }

    /// The instruction trace of the event has begun: ITRACE_START is told no more.
    pub fn itrace_started(&mut self) {
        self.driver_records.push(DriverRecord::Started);
    }

    /// Tells which event the hardware means by a number in the trace (AUX_OUTPUT_HW_ID).
    pub fn aux_output_hw_id(&mut self, id: u64) {
        self.driver_records.push(DriverRecord::HwId(id));
    }

    /// Tells that the hardware lost samples (LOST_SAMPLES).
    pub fn lost_samples(&mut self, lost: u64) {
        self.driver_records.push(DriverRecord::Lost(lost));
    }
}

impl Engine {
    /// Writes the records that a driver left.
    pub(crate) fn write_driver_records(&mut self, event: EventKey, cpu: u32, now: u64) {
        for wanted in core::mem::take(&mut self.driver_records) {
            let record = match wanted {
                DriverRecord::NoRoom => {
                    self.stop_soon(event);
                    self.wake_aux(event);
                    continue;
                }
                DriverRecord::Started => {
                    let original = self.events[event].original();
                    self.events[original].itrace_started = true;
                    continue;
                }
                DriverRecord::HwId(id) => Record::AuxOutputHwId(id),
                DriverRecord::Lost(lost) => Record::LostSamples(lost),
                DriverRecord::Trace { offset, size, flags, .. } => Record::Aux(Aux { offset, size, flags }),
            };
            let empty = matches!(record, Record::Aux(aux) if aux.size == 0 && (aux.flags - AuxFlags::OVERWRITE).is_empty());
            if !empty {
                self.write_record(event, record, Misc::empty(), cpu, now);
            }
            if let DriverRecord::Trace { flags, head, wake, .. } = wanted {
                if let Some(key) = self.buffer_of(event) {
                    self.buffers[key].ring.word(offset::AUX_HEAD).store(head, Ordering::Release);
                }
                if flags.contains(AuxFlags::TRUNCATED) {
                    self.stop_soon(event);
                }
                if wake {
                    self.wake_aux(event);
                }
            }
        }
    }

    fn wake_aux(&mut self, event: EventKey) {
        if let Some(key) = self.buffer_of(event) {
            self.buffers[key].ring.readable();
            self.wake_readers(key);
            self.signal(self.events[event].original(), Notice::In);
        }
    }

    /// Switches the event off at the end of the call that the engine is in.
    pub(crate) fn stop_soon(&mut self, event: EventKey) {
        self.events[event].pending_disable = true;
        self.to_disable.push(event);
    }

    /// Switches off those that cannot go on, or have used up their overflows.
    pub(crate) fn settle(&mut self, now: u64) {
        while let Some(event) = self.to_disable.pop() {
            let Some(own) = self.events.get_mut(event) else { continue };
            if core::mem::take(&mut own.pending_disable) && own.state == State::Active {
                self.disable_event(event, now);
            }
        }
    }

    /// ITRACE_START, before an event of such a PMU counts for the first time.
    pub(crate) fn tell_itrace(&mut self, event: EventKey, cpu: u32, now: u64) {
        let original = self.events[event].original();
        let itrace = self.pmus.get(self.events[event].pmu).info.caps.itrace;
        if itrace && !self.events[original].itrace_started {
            let tid = self.tid_for(event, self.cpus[cpu as usize].current);
            self.write_record(event, Record::ItraceStart(tid), Misc::empty(), cpu, now);
        }
    }

    /// An overflow pauses the trace of its group's leader, or lets it go on (rule F45).
    pub(crate) fn pause_aux(&mut self, event: EventKey, cpu: u32, now: u64, pause: bool) {
        let own = &self.events[event];
        let bit = if pause { AuxAction::PAUSE } else { AuxAction::RESUME };
        let leader = own.leader;
        if !own.attr().aux_action.contains(bit) || self.buffer_of(leader).is_none() {
            return;
        }
        let Some(trace) = self.events.get_mut(leader).filter(|trace| trace.hw.aux_paused != pause) else {
            return;
        };
        trace.hw.aux_paused = pause;
        if trace.state == State::Active {
            self.drive(leader, cpu, now, |pmu, cx, hw| pmu.aux_pause(cx, hw, pause));
        }
    }

    /// The newest bytes of the trace of a group's leader, so many at most (rule H31).
    pub(crate) fn aux_sample(&self, event: EventKey, room: usize, bytes: &mut Vec<u8>) {
        let own = &self.events[event];
        let size = (own.attr().aux_sample_size as usize).min(room) / 8 * 8;
        let Some(leader) = self.events.get(own.leader) else { return };
        let area = self.buffer_of(own.leader).and_then(|key| self.buffers[key].area());
        let head = self.pmus.get(leader.pmu).driver.as_deref().and_then(|pmu| pmu.aux_head(&leader.hw));
        let (Some(area), Some(head)) = (area, head) else { return };
        let size = (size as u64).min(area.size);
        let words = area.memory.words();
        for at in head.wrapping_sub(size)..head {
            let at = (at & (area.size - 1)) as usize;
            bytes.push(words[at / 8].load(Ordering::Relaxed).to_ne_bytes()[at % 8]);
        }
    }
}
