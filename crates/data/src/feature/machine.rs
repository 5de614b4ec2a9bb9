//! Sections about the machine's caches, clocks, PMUs and scheduling domains.

use crate::layout::{FileCodec, FileLayout, Str, Surroundings, items, list};

/// The caches of the machine's cpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache<'a> {
    /// Version of this layout: 1.
    pub version: u32,
    /// Each cache once.
    pub levels: Vec<CacheLevel<'a>>,
}

impl Default for Cache<'_> {
    fn default() -> Self {
        Cache { version: 1, levels: Vec::new() }
    }
}

impl<'a> FileLayout<'a> for Cache<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, around: &Surroundings) -> Result<(), C::Error> {
        c.u32("version", &mut self.version)?;
        list(c, "number of caches", &mut self.levels, around)
    }
}

/// A cache, in the words of sysfs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheLevel<'a> {
    /// 1 is next to the cpu.
    pub level: u32,
    /// Bytes of a line.
    pub line_size: u32,
    /// Number of sets.
    pub sets: u32,
    /// Number of ways.
    pub ways: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: Str<'a>,
    /// Such as `32K`.
    pub size: Str<'a>,
    /// The cpus that share it, such as `0-1`.
    pub cpus: Str<'a>,
}

impl<'a> FileLayout<'a> for CacheLevel<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        c.u32("level", &mut self.level)?;
        c.u32("line size", &mut self.line_size)?;
        c.u32("sets", &mut self.sets)?;
        c.u32("ways", &mut self.ways)?;
        self.kind.counted(c, "type")?;
        self.size.counted(c, "size")?;
        self.cpus.counted(c, "cpus")
    }
}

/// Readings of two clocks at one moment, to convert the times of `record -k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Version of this layout: 1.
    pub version: u32,
    /// The clock of the records, as for `clock_gettime(2)`.
    pub clock_id: u32,
    /// The wall clock, in ns since 1970.
    pub wall_ns: u64,
    /// The clock of the records, in ns.
    pub clock_ns: u64,
}

impl Default for Clock {
    fn default() -> Self {
        Clock { version: 1, clock_id: 0, wall_ns: 0, clock_ns: 0 }
    }
}

impl<'a> FileLayout<'a> for Clock {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        c.u32("version", &mut self.version)?;
        c.u32("clock id", &mut self.clock_id)?;
        c.u64("wall clock", &mut self.wall_ns)?;
        c.u64("clock", &mut self.clock_ns)
    }
}

/// A capability of a PMU, as in its `caps` folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capability<'a> {
    /// Such as `max_precise`.
    pub name: Str<'a>,
    /// Such as `3`.
    pub value: Str<'a>,
}

impl<'a> FileLayout<'a> for Capability<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        self.name.counted(c, "name")?;
        self.value.counted(c, "value")
    }
}

/// The capabilities of a PMU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PmuCaps<'a> {
    /// Its capabilities.
    pub caps: Vec<Capability<'a>>,
    /// Its name.
    pub pmu: Str<'a>,
}

impl<'a> FileLayout<'a> for PmuCaps<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, around: &Surroundings) -> Result<(), C::Error> {
        list(c, "number of capabilities", &mut self.caps, around)?;
        self.pmu.counted(c, "PMU")
    }
}

/// The scheduling domains of all cpus, from `/proc/schedstat`. Known from the sources of perf 7.0 only: no
/// recording with this section was at hand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuDomains<'a> {
    /// Version of `/proc/schedstat`.
    pub schedstat_version: u32,
    /// The most domains of a cpu.
    pub max_domains: u32,
    /// The cpus.
    pub cpus: Vec<CpuDomain<'a>>,
}

/// The scheduling domains of a cpu.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuDomain<'a> {
    /// The cpu.
    pub cpu: u32,
    /// Its domains.
    pub domains: Vec<SchedDomain<'a>>,
}

/// A scheduling domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedDomain<'a> {
    /// Its number.
    pub domain: u32,
    /// Its name, since version 17 of `/proc/schedstat`.
    pub name: Option<Str<'a>>,
    /// Its cpus, as a mask.
    pub mask: Str<'a>,
    /// Its cpus, as a list.
    pub list: Str<'a>,
}

impl<'a> FileLayout<'a> for CpuDomains<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, around: &Surroundings) -> Result<(), C::Error> {
        c.u32("version of schedstat", &mut self.schedstat_version)?;
        c.u32("most domains", &mut self.max_domains)?;
        // The number of cpus is not told: they end with the section.
        let mut index = 0;
        while around.has(c, 8, index < self.cpus.len()) {
            if self.cpus.len() == index {
                self.cpus.push(CpuDomain::default());
            }
            let cpu = &mut self.cpus[index];
            c.u32("cpu", &mut cpu.cpu)?;
            let mut count = cpu.domains.len() as u32;
            c.u32("number of domains", &mut count)?;
            items(c, count.into(), &mut cpu.domains, |c, domain| {
                c.u32("domain", &mut domain.domain)?;
                let named = self.schedstat_version >= 17;
                c.optional(named, "name", &mut domain.name, |c, v| v.counted(c, "name"))?;
                domain.mask.counted(c, "mask")?;
                domain.list.counted(c, "list")
            })?;
            index += 1;
        }
        Ok(())
    }
}
