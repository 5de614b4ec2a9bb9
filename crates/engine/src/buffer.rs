//! Buffers: rings with their mappings and accounts, and the rules of `mmap(2)`, `poll(2)` and output
//! redirection (sections F, G).

use crate::aux::{AuxArea, AuxOutput};
use crate::engine::Engine;
use crate::event::{EventKey, State};
use crate::host::{Capability, Host, LockLimit, Memory, SecurityStep};
use crate::ring::{Ring, RingOptions};
use crate::slab::Key;
use crate::sync::Ordering;
use crate::task::TaskId;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use perfuse_abi::page::{Capabilities, MmapPage, TimeConversion, offset};
use perfuse_abi::regs::Arch;
use perfuse_abi::{AttrFlags, Errno, PollFlags};

/// Names a buffer.
pub(crate) type BufferKey = Key<Buffer>;

/// A ring that events share.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) ring: Ring,
    /// Pages of data.
    pages: usize,
    /// Mappings of all its events.
    mappings: u32,
    /// Events that write to it.
    /// By their ids.
    events: BTreeMap<u64, EventKey>,
    charge: Charge,
    aux: Option<Aux>,
}

#[derive(Debug)]
struct Aux {
    area: AuxArea,
    offset: u64,
    pages: usize,
    mappings: u32,
    handle: u64,
    pmu: crate::pmu::PmuId,
    charge: Charge,
}

/// The account that a buffer's pages are on (rule F20).
#[derive(Clone, Copy, Debug)]
struct Charge {
    user: u32,
    user_pages: u64,
    space: u64,
    space_pages: u64,
}

impl Buffer {
    /// The PMU that made its AUX area.
    pub(crate) fn aux_pmu(&self) -> Option<crate::pmu::PmuId> {
        self.aux.as_ref().map(|aux| aux.pmu)
    }

    /// Its AUX area.
    pub(crate) fn area(&self) -> Option<&AuxArea> {
        self.aux.as_ref().map(|aux| &aux.area)
    }

    /// The AUX area, to write to.
    pub(crate) fn aux_output(&mut self) -> Option<AuxOutput<'_>> {
        let Buffer { ring, aux, .. } = self;
        let area = &mut aux.as_mut()?.area;
        Some(AuxOutput { area, tail: ring.word(offset::AUX_TAIL) })
    }
}

/// The arguments of `mmap(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapRequest {
    /// Length in pages, rounded up.
    pub pages: usize,
    /// Offset in bytes; 0 for the ring, else the AUX area.
    pub offset: u64,
    /// `MAP_SHARED`.
    pub shared: bool,
    /// `PROT_WRITE`: the reader will move the tail.
    pub writable: bool,
}

impl MapRequest {
    /// A writable ring with so many pages of data.
    pub fn ring(data_pages: usize) -> Self {
        MapRequest { pages: data_pages + 1, offset: 0, shared: true, writable: true }
    }
}

/// From so many data pages on the kernel has no room for their list (rule F8).
const MOST_PAGES: usize = 1 << 19;

impl Engine {
    /// Offers in control pages how to turn cycles into the clock of records, from their next update on
    /// (rule F35); `None`: does not (rule F36). The conversion's `offset_ns` is made by each update.
    pub fn set_user_clock(&mut self, clock: Option<TimeConversion>) {
        self.user_clock = clock;
    }

    /// `mmap(2)` of an event's descriptor: the memory to be shown (rules F1 to F9).
    pub fn mmap(
        &mut self,
        host: &mut dyn Host,
        caller: TaskId,
        event: EventKey,
        now: u64,
        request: MapRequest,
    ) -> Result<Arc<dyn Memory>, Errno> {
        let own = self.events.get(event).ok_or(Errno::EBADF)?;
        if own.has(AttrFlags::INHERIT) && own.cpu.is_none() || !request.shared {
            return Err(Errno::EINVAL);
        }
        host.security(caller, SecurityStep::Read)?;
        if request.pages > i32::MAX as usize {
            return Err(Errno::ENOMEM);
        }
        if own.state <= State::Revoked {
            return Err(Errno::ENODEV);
        }
        if request.offset != 0 {
            return self.mmap_aux(host, caller, event, request);
        }
        let pages = request.pages.checked_sub(1).ok_or(Errno::EINVAL)?;
        if pages != 0 && !pages.is_power_of_two() {
            return Err(Errno::EINVAL);
        }
        if let Some(key) = own.buffer {
            let mapped = own.mappings > 0;
            let buffer = &mut self.buffers[key];
            if buffer.pages != pages {
                return Err(Errno::EINVAL);
            }
            if !mapped {
                return Err(Errno::EBUSY);
            }
            buffer.mappings += 1;
            let memory = buffer.ring.memory().clone();
            self.events[event].mappings += 1;
            // Rule F22: this is never given back.
            let user = host.lock_limit(caller).user;
            *self.locked.entry(user).or_default() += request.pages as u64;
            return Ok(memory);
        }
        let charge = self.charge(host, caller, request.pages as u64)?;
        if pages >= MOST_PAGES {
            return Err(Errno::ENOMEM);
        }
        let memory = host.allocate(caller, request.pages)?;
        let own = &self.events[event];
        let options = RingOptions {
            overwrite: !request.writable,
            backward: own.has(AttrFlags::WRITE_BACKWARD),
            watermark: own.attr().wakeup_watermark(),
        };
        let ring = Ring::new(memory.clone(), self.config.page_bytes, options);
        self.pay(charge, true);
        let events = BTreeMap::from([(self.events[event].id, event)]);
        let buffer = Buffer { ring, pages, mappings: 1, events, charge, aux: None };
        let key = self.buffers.insert(|_| buffer);
        let own = &mut self.events[event];
        (own.buffer, own.mappings) = (Some(key), 1);
        self.update_page(event, now);
        Ok(memory)
    }

    fn mmap_aux(
        &mut self,
        host: &mut dyn Host,
        caller: TaskId,
        event: EventKey,
        request: MapRequest,
    ) -> Result<Arc<dyn Memory>, Errno> {
        let page = self.config.page_bytes as u64;
        let key = self.events[event].buffer.ok_or(Errno::EINVAL)?;
        let buffer = &self.buffers[key];
        let wrong = |is: bool| if is { Err(Errno::EINVAL) } else { Ok(()) };
        let told = buffer.ring.word(offset::AUX_OFFSET).load(Ordering::Acquire);
        let size = buffer.ring.word(offset::AUX_SIZE).load(Ordering::Acquire);
        wrong(told < (1 + buffer.pages as u64) * page)?;
        wrong(told != request.offset)?;
        wrong(buffer.aux.as_ref().is_some_and(|aux| aux.offset != request.offset))?;
        wrong(size != request.pages as u64 * page)?;
        wrong(buffer.aux.as_ref().is_some_and(|aux| aux.pages != request.pages))?;
        wrong(!request.pages.is_power_of_two())?;
        wrong(buffer.mappings == 0)?;
        if let Some(aux) = &mut self.buffers[key].aux {
            aux.mappings += 1;
            let memory = aux.area.memory.clone();
            self.buffers[key].mappings += 1;
            self.events[event].mappings += 1;
            return Ok(memory);
        }
        let charge = self.charge(host, caller, request.pages as u64)?;
        let pmu = self.events[event].pmu;
        let driver = self.pmus.driver(pmu).ok_or(Errno::ENODEV)?;
        let handle = driver.setup_aux(&self.events[event].hw, request.pages, !request.writable)?;
        let memory = match host.allocate(caller, request.pages) {
            Ok(memory) => memory,
            Err(errno) => {
                driver.free_aux(handle);
                return Err(errno);
            }
        };
        self.pay(charge, true);
        let size = request.pages as u64 * page;
        let overwrite = !request.writable;
        // Rule F41.
        let watermark = match u64::from(self.events[event].attr().aux_watermark) {
            0 => size / 2,
            bytes => bytes,
        };
        let area = AuxArea { memory: memory.clone(), size, overwrite, watermark, head: 0, wakeup: 0 };
        let aux =
            Aux { area, offset: request.offset, pages: request.pages, mappings: 1, handle, pmu, charge };
        self.buffers[key].aux = Some(aux);
        self.buffers[key].mappings += 1;
        self.events[event].mappings += 1;
        Ok(memory)
    }

    /// A mapping of an event's AUX area is gone (rule F44).
    pub fn munmap_aux(&mut self, event: EventKey, now: u64) {
        let Some(key) = self.events.get(event).and_then(|event| event.buffer) else { return };
        let Some(aux) = &mut self.buffers[key].aux else { return };
        aux.mappings -= 1;
        if aux.mappings == 0 {
            self.free_aux(key, now);
        }
        self.munmap(event, now);
    }

    /// Rule F44: events that write to an AUX area stop before it goes.
    fn free_aux(&mut self, key: BufferKey, now: u64) {
        let Some(pmu) = self.buffers[key].aux.as_ref().map(|aux| aux.pmu) else { return };
        for writer in self.writers_of(key) {
            if let (true, Some(cpu)) = (self.events[writer].pmu == pmu, self.events[writer].on) {
                self.drive(writer, cpu, now, |pmu, cx, hw| pmu.stop(cx, hw));
            }
        }
        if let Some(aux) = self.buffers[key].aux.take() {
            self.pay(aux.charge, false);
            if let Some(driver) = self.pmus.driver(aux.pmu) {
                driver.free_aux(aux.handle);
            }
        }
    }

    /// A mapping of an event's ring is gone. The last one of an event takes the buffer from it, the last
    /// one of a buffer takes it from all (rule F12).
    pub fn munmap(&mut self, event: EventKey, now: u64) {
        let Some(own) = self.events.get_mut(event) else { return };
        let (Some(key), true) = (own.buffer, own.mappings > 0) else { return };
        own.mappings -= 1;
        let last = own.mappings == 0;
        let buffer = &mut self.buffers[key];
        buffer.mappings -= 1;
        let gone = buffer.mappings == 0;
        if last {
            self.set_buffer(event, None);
            self.wake(event);
        }
        if gone {
            self.free_aux(key, now);
            for other in self.writers_of(key) {
                self.set_buffer(other, None);
                self.wake(other);
            }
            if let Some(buffer) = self.buffers.remove(key) {
                self.pay(buffer.charge, false);
            }
        }
        if last && !self.events[event].open {
            self.release(event, now);
        }
    }

    /// All mappings of an event become useless.
    pub(crate) fn unmap_all(&mut self, event: EventKey, now: u64) {
        while self.events.get(event).is_some_and(|event| event.mappings > 0) {
            self.munmap(event, now);
        }
    }

    /// Whether a caller may lock so many pages more (rule F20).
    fn charge(&self, host: &dyn Host, caller: TaskId, pages: u64) -> Result<Charge, Errno> {
        let LockLimit { user, pages: limit, space } = host.lock_limit(caller);
        let online = self.cpus.iter().filter(|cpu| cpu.online).count() as u64;
        let kilobytes = (self.config.page_bytes / 1024).max(1) as u64;
        let free = u64::try_from(self.sysctls.mlock_kb).unwrap_or(0) / kilobytes * online;
        let used = self.locked.get(&user).copied().unwrap_or(0).min(free);
        let extra = (used + pages).saturating_sub(free);
        let pinned = self.pinned.get(&space).copied().unwrap_or(0);
        let over = pinned + extra > limit;
        if over && self.sysctls.paranoid > -1 && !host.capable(caller, Capability::IpcLock) {
            return Err(Errno::EPERM);
        }
        Ok(Charge { user, user_pages: pages - extra, space, space_pages: extra })
    }

    fn pay(&mut self, charge: Charge, locks: bool) {
        let user = self.locked.entry(charge.user).or_default();
        let space = self.pinned.entry(charge.space).or_default();
        for (account, pages) in [(user, charge.user_pages), (space, charge.space_pages)] {
            *account = if locks { *account + pages } else { account.saturating_sub(pages) };
        }
    }

    /// The events whose records go to a buffer.
    fn writers_of(&self, buffer: BufferKey) -> Vec<EventKey> {
        self.buffers[buffer].events.values().copied().collect()
    }

    fn set_buffer(&mut self, event: EventKey, buffer: Option<BufferKey>) {
        let id = self.events[event].id;
        if let Some(old) = self.events[event].buffer {
            if let Some(old) = self.buffers.get_mut(old) {
                old.events.remove(&id);
            }
        }
        self.events[event].buffer = buffer;
        if let Some(new) = buffer {
            self.buffers[new].events.insert(id, event);
        }
    }

    /// Whether an event's records may go to the buffer of another (rule G30).
    pub(crate) fn check_output(&self, event: EventKey, target: EventKey) -> Result<(), Errno> {
        let (own, other) = (&self.events[event], self.events.get(target).ok_or(Errno::EBADF)?);
        let writes_aux = |event: &crate::event::Event| self.pmus.get(event.pmu).info.caps.aux;
        let wrong = event == target
            || own.cpu != other.cpu
            // An event without a context has no target to compare.
            || other.cpu.is_none() && own.task != other.task
            || own.clockid() != other.clockid()
            || own.has(AttrFlags::WRITE_BACKWARD) != other.has(AttrFlags::WRITE_BACKWARD)
            || writes_aux(own) && writes_aux(other) && own.pmu != other.pmu
            || own.mappings > 0
            || other.buffer.is_none();
        if wrong { Err(Errno::EINVAL) } else { Ok(()) }
    }

    /// Sends the records of an event to the buffer another has now, or nowhere (rules G30, G32). Those
    /// who waited for its old buffer are woken (rule G25).
    pub(crate) fn redirect(&mut self, event: EventKey, target: Option<EventKey>) {
        let buffer = target.and_then(|target| self.events[target].buffer);
        let had = self.events[event].buffer.is_some();
        self.set_buffer(event, buffer);
        if had {
            self.wake(event);
        }
    }

    /// Rule C55.
    pub(crate) fn pause_output(&mut self, event: EventKey, pause: bool) -> Result<(), Errno> {
        let key = self.events[event].buffer.ok_or(Errno::EINVAL)?;
        if self.buffers[key].ring.pause(pause) { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// The answer to `poll(2)` of an event's descriptor (rules G20 to G24). Readiness to read is told once.
    pub fn poll(&mut self, event: EventKey) -> PollFlags {
        match self.polled(event) {
            Ok(buffer) => self.buffers[buffer].ring.take_poll(),
            Err(over) => over,
        }
    }

    /// Whether [`poll`](Self::poll) answers that it [is over](PollFlags::is_over), even if there is something to
    /// read.
    pub fn has_hung_up(&self, event: EventKey) -> bool {
        self.polled(event).is_err()
    }

    /// The ring that decides, or an answer without one.
    fn polled(&self, event: EventKey) -> Result<BufferKey, PollFlags> {
        let own = self.events.get(event).ok_or(PollFlags::ERR)?;
        if own.state <= State::Revoked {
            return Err(PollFlags::ERR);
        }
        if own.state <= State::Exit && own.children.is_empty() {
            return Err(PollFlags::HUP);
        }
        if own.state == State::Error && own.has(AttrFlags::PINNED) {
            return Err(PollFlags::ERR);
        }
        own.buffer.ok_or(PollFlags::HUP)
    }

    /// Wakes all who read a buffer (rule G18).
    pub(crate) fn wake_readers(&mut self, key: BufferKey) {
        for event in self.writers_of(key) {
            self.wake(event);
        }
    }

    /// Brings the control page of an event's ring up to date (rules F30 to F36). All who write to a ring
    /// share its page, so it shows the event that was updated last.
    pub(crate) fn update_page(&mut self, event: EventKey, now: u64) {
        let Some(own) = self.events.get(event) else { return };
        let Some(key) = own.buffer else { return };
        let driver = self.pmus.get(own.pmu).driver.as_deref();
        let width = driver.and_then(|pmu| pmu.user_width(&own.hw));
        let index = driver.filter(|_| width.is_some() && own.state == State::Active);
        let index = index.and_then(|pmu| pmu.event_idx(&own.hw)).map_or(0, |index| index + 1);
        let count = own.hw.count.wrapping_add(own.child_count);
        let value = if index > 0 { count.wrapping_sub(own.hw.prev) } else { count };
        let times = self.times_of(event, now);
        let mut capabilities = Capabilities::BIT0_IS_DEPRECATED;
        capabilities.set(Capabilities::USER_RDPMC, width.is_some());
        let mut page = MmapPage {
            index,
            offset: value as i64,
            time_enabled: times.enabled + own.child_enabled,
            time_running: times.running + own.child_running,
            pmc_width: width.unwrap_or(0),
            size: MmapPage::HEADER_SIZE,
            ..MmapPage::default()
        };
        if let Some(clock) = &self.user_clock {
            let same = own.clockid().is_none() || self.config.arch != Arch::X86_64;
            capabilities |= Capabilities::USER_TIME;
            capabilities.set(Capabilities::USER_TIME_ZERO, same);
            capabilities.set(Capabilities::USER_TIME_SHORT, clock.short.is_some());
            (page.time_shift, page.time_mult) = (clock.shift, clock.mult);
            page.time_offset = clock.zero_ns.wrapping_sub(now);
            page.time_zero = if same { clock.zero_ns } else { 0 };
            let short = clock.short.unwrap_or_default();
            (page.time_cycles, page.time_mask) = (short.cycles, short.mask);
        }
        page.capabilities = capabilities;
        self.buffers[key].ring.show(&page);
    }
}
