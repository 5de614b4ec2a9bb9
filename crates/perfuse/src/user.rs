//! Reading a counter without a system call: through the control page the kernel shares, and the cpu's
//! own instruction for reading counters.
#![allow(unsafe_code)] // One instruction that faults when it is not allowed, see `UserCounter::try_read`.

use crate::count::Count;
use crate::counter::Counter;
use crate::error::Result;
use perfuse_abi::page::{Capabilities, ShortClock, TimeConversion, UserCount, offset};
use perfuse_abi::read::Times;
use perfuse_sys::{Mapping, Protection, arch, page_size};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;

/// A counter with its control page mapped.
///
/// For an event on a hardware counter that the kernel lets user space read,
/// [`read`](Self::read) takes tens of nanoseconds; in every other case it is [`Counter::read`].
#[derive(Debug)]
pub struct UserCounter {
    // Unmapped before the counter is closed.
    page: Mapping,
    counter: Counter,
    id: u64,
}

impl Counter {
    /// Maps the event's control page, so that the count can be read without a system call where the cpu
    /// and the kernel allow it. `EINVAL` for an event that is inherited (rule F1).
    pub fn into_user_counter(self) -> Result<UserCounter> {
        UserCounter::new(self)
    }
}

impl UserCounter {
    fn new(counter: Counter) -> Result<Self> {
        let page = counter.handle.mmap(page_size(), Protection::Read, 0)?;
        let id = counter.id()?;
        Ok(UserCounter { page, counter, id })
    }

    /// The counter itself, for its other methods.
    pub fn counter(&mut self) -> &mut Counter {
        &mut self.counter
    }

    /// Unmaps the page.
    pub fn into_counter(self) -> Counter {
        self.counter
    }

    /// The count, without a system call where possible. `lost` is told only by the system call.
    #[inline]
    pub fn read(&self) -> Result<Count> {
        match self.try_read() {
            Some(count) => Ok(count),
            None => self.counter.read(),
        }
    }

    /// The count, read without a system call; `None` where that is impossible: the event is not on a
    /// counter just now, or the kernel does not let user space read it. Valid only on the thread that is
    /// measured, while it runs: the page tells of the counter of this cpu.
    #[inline]
    pub fn try_read(&self) -> Option<Count> {
        // The counter is that of the current cpu and task: of another task's event it tells nothing.
        if self.counter.handle.subject.pid != 0 {
            return None;
        }
        self.seqlock(|page| {
            let fields = self.user_count(page);
            let number = fields.counter()?;
            let cycles = fields.conversion.and_then(|_| arch::timestamp());
            // SAFETY: within the seqlock section the page says that this counter may be read.
            let pmc = unsafe { arch::read_counter(number) }?;
            let value = fields.value(Some(pmc))?;
            let times = cycles.map_or(fields.times, |cycles| fields.times(cycles));
            Some(Count {
                value,
                enabled_ns: times.enabled_ns,
                running_ns: times.running_ns,
                id: self.id,
                lost: None,
            })
        })
    }

    /// How to turn the cpu's raw clock into the times of records, if the kernel tells.
    pub fn time_conversion(&self) -> Option<TimeConversion> {
        self.seqlock(|page| self.conversion(page))
    }

    /// Whether [`try_read`](Self::try_read) can work for this event at all, given luck with scheduling.
    pub fn is_allowed(&self) -> bool {
        self.capabilities().contains(Capabilities::USER_RDPMC)
    }

    /// The fields of rule F32. Only meaningful within [`seqlock`](Self::seqlock).
    #[inline]
    fn user_count(&self, page: &Mapping) -> UserCount {
        let (u64_at, u32_at) = (|at| page.load_u64(at, Relaxed), |at| page.load_u32(at, Relaxed));
        UserCount {
            index: u32_at(offset::INDEX),
            offset: u64_at(offset::OFFSET) as i64,
            pmc_width: page.load_u16(offset::PMC_WIDTH, Relaxed),
            rdpmc: self.capabilities().contains(Capabilities::USER_RDPMC),
            times: Times {
                enabled_ns: u64_at(offset::TIME_ENABLED),
                running_ns: u64_at(offset::TIME_RUNNING),
            },
            conversion: self.conversion(page),
        }
    }

    /// The fields of rule F35. Only meaningful within [`seqlock`](Self::seqlock).
    #[inline]
    fn conversion(&self, page: &Mapping) -> Option<TimeConversion> {
        let u64_at = |at| page.load_u64(at, Relaxed);
        let can = self.capabilities();
        can.contains(Capabilities::USER_TIME).then(|| TimeConversion {
            shift: page.load_u16(offset::TIME_SHIFT, Relaxed),
            mult: page.load_u32(offset::TIME_MULT, Relaxed),
            offset_ns: u64_at(offset::TIME_OFFSET),
            zero_ns: u64_at(offset::TIME_ZERO),
            short: can
                .contains(Capabilities::USER_TIME_SHORT)
                .then(|| ShortClock { cycles: u64_at(offset::TIME_CYCLES), mask: u64_at(offset::TIME_MASK) }),
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::from_native(self.page.load_u64(offset::CAPABILITIES, Relaxed))
    }

    /// Runs `section` until the page did not change meanwhile (rule F31).
    #[inline]
    fn seqlock<T>(&self, section: impl Fn(&Mapping) -> T) -> T {
        loop {
            let before = self.page.load_u32(offset::LOCK, Acquire);
            let result = section(&self.page);
            fence(Acquire);
            if before & 1 == 0 && self.page.load_u32(offset::LOCK, Relaxed) == before {
                return result;
            }
            std::hint::spin_loop();
        }
    }
}
