//! Records of `perf sched stats`: counts from `/proc/schedstat`. Known from perf's sources only: no recording
//! with them was at hand.

use crate::layout::{FileCodec, FileLayout, Surroundings};
use perfuse_abi::wire::{Codec, Layout};

/// Versions of `/proc/schedstat` whose counts are known.
const KNOWN: std::ops::RangeInclusive<u16> = 15..=17;

/// Counts of a cpu's scheduler up to a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedstatCpu<'a> {
    /// When, in jiffies.
    pub timestamp: u64,
    /// The cpu.
    pub cpu: u32,
    /// Version of `/proc/schedstat`.
    pub version: u16,
    /// Fills up to 8 bytes.
    pub padding: [u8; 2],
    /// The counts, if the version is 15, 16 or 17.
    pub counts: Option<CpuCounts>,
    /// The counts of another version.
    pub other: &'a [u8],
}

/// Counts of a cpu.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCounts {
    /// Calls of `sched_yield`.
    pub yields: u32,
    /// No longer counted.
    pub legacy: u32,
    /// Calls of `schedule`.
    pub schedules: u32,
    /// Of these, those that left the cpu idle.
    pub idle: u32,
    /// Calls of `try_to_wake_up`.
    pub wakeups: u32,
    /// Of these, those of the own cpu.
    pub local_wakeups: u32,
    /// How long tasks ran, in ns.
    pub run_ns: u64,
    /// How long tasks waited to run, in ns.
    pub wait_ns: u64,
    /// Slices of time that tasks ran.
    pub slices: u64,
}

impl<'a> Layout<'a> for CpuCounts {
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u32("yields", &mut self.yields)?;
        c.u32("legacy count", &mut self.legacy)?;
        c.u32("schedules", &mut self.schedules)?;
        c.u32("schedules to idle", &mut self.idle)?;
        c.u32("wakeups", &mut self.wakeups)?;
        c.u32("local wakeups", &mut self.local_wakeups)?;
        c.u64("time run", &mut self.run_ns)?;
        c.u64("time waited", &mut self.wait_ns)?;
        c.u64("slices", &mut self.slices)
    }
}

impl<'a> FileLayout<'a> for SchedstatCpu<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        c.u64("timestamp", &mut self.timestamp)?;
        c.u32("cpu", &mut self.cpu)?;
        c.u16("version", &mut self.version)?;
        c.fixed("padding", &mut self.padding)?;
        let known = KNOWN.contains(&self.version);
        c.optional(known, "counts", &mut self.counts, |c, v| v.layout(c))?;
        if known { Ok(()) } else { c.rest(&mut self.other) }
    }
}

/// Counts of a scheduling domain of a cpu up to a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedstatDomain<'a> {
    /// When, in jiffies.
    pub timestamp: u64,
    /// The cpu.
    pub cpu: u32,
    /// Version of `/proc/schedstat`.
    pub version: u16,
    /// Number of the domain.
    pub domain: u16,
    /// The counts, if the version is 15, 16 or 17.
    pub counts: Option<DomainCounts>,
    /// The counts of another version.
    pub other: &'a [u8],
}

/// Counts of a scheduling domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DomainCounts {
    /// Balancing by a cpu that was idle.
    pub idle: Balancing,
    /// Balancing by a cpu that was busy.
    pub busy: Balancing,
    /// Balancing by a cpu that just became idle.
    pub newly_idle: Balancing,
    /// Active balancing: tried, failed, moved a task.
    pub active: [u32; 3],
    /// At exec: tried, found balanced, moved a task. No longer counted.
    pub exec: [u32; 3],
    /// At fork: tried, found balanced, moved a task. No longer counted.
    pub fork: [u32; 3],
    /// Wakeups of a task that had last run on another cpu.
    pub remote_wakeups: u32,
    /// Wakeups that moved the task because its cache was cold.
    pub affine_wakeups: u32,
    /// Wakeups that started balancing.
    pub balancing_wakeups: u32,
}

/// Counts of `load_balance`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balancing {
    /// Calls.
    pub count: u32,
    /// Calls that found everything balanced.
    pub balanced: u32,
    /// Calls that could not move a task.
    pub failed: u32,
    /// Sum of the imbalances that were found; since version 17, of those in load.
    pub imbalance: u32,
    /// Since version 17: the sums of those in utilization, tasks and misfit tasks.
    pub imbalances: Option<[u32; 3]>,
    /// Tasks pulled.
    pub gained: u32,
    /// Of these, those with a warm cache.
    pub hot_gained: u32,
    /// Calls that found no busier queue.
    pub no_busier_queue: u32,
    /// Calls that found no busier group.
    pub no_busier_group: u32,
}

fn three<'a, C: Codec<'a>>(c: &mut C, what: &'static str, v: &mut [u32; 3]) -> Result<(), C::Error> {
    v.iter_mut().try_for_each(|v| c.u32(what, v))
}

impl Balancing {
    fn layout<'a, C: Codec<'a>>(&mut self, c: &mut C, version: u16) -> Result<(), C::Error> {
        c.u32("calls", &mut self.count)?;
        c.u32("calls that found balance", &mut self.balanced)?;
        c.u32("calls that failed", &mut self.failed)?;
        c.u32("imbalance", &mut self.imbalance)?;
        c.optional(version >= 17, "imbalances", &mut self.imbalances, |c, v| three(c, "imbalances", v))?;
        c.u32("tasks gained", &mut self.gained)?;
        c.u32("hot tasks gained", &mut self.hot_gained)?;
        c.u32("no busier queue", &mut self.no_busier_queue)?;
        c.u32("no busier group", &mut self.no_busier_group)
    }
}

impl DomainCounts {
    fn layout<'a, C: Codec<'a>>(&mut self, c: &mut C, version: u16) -> Result<(), C::Error> {
        let (idle, busy) = (&mut self.idle, &mut self.busy);
        // Version 16 exchanged them.
        let (first, second) = if version < 16 { (idle, busy) } else { (busy, idle) };
        first.layout(c, version)?;
        second.layout(c, version)?;
        self.newly_idle.layout(c, version)?;
        three(c, "active balancing", &mut self.active)?;
        three(c, "balancing at exec", &mut self.exec)?;
        three(c, "balancing at fork", &mut self.fork)?;
        c.u32("remote wakeups", &mut self.remote_wakeups)?;
        c.u32("affine wakeups", &mut self.affine_wakeups)?;
        c.u32("balancing wakeups", &mut self.balancing_wakeups)
    }
}

impl<'a> FileLayout<'a> for SchedstatDomain<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        c.u64("timestamp", &mut self.timestamp)?;
        c.u32("cpu", &mut self.cpu)?;
        c.u16("version", &mut self.version)?;
        c.u16("domain", &mut self.domain)?;
        let (known, version) = (KNOWN.contains(&self.version), self.version);
        c.optional(known, "counts", &mut self.counts, |c, v| v.layout(c, version))?;
        if known { Ok(()) } else { c.rest(&mut self.other) }
    }
}
