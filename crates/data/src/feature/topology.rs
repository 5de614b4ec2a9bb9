//! Sections about cpus, nodes and memory blocks.

use crate::layout::{FileCodec, FileLayout, Str, Surroundings, items, list};
use perfuse_abi::wire::{Codec, Item, Layout, Seq, Words};

/// Number of cpus. The two words are in this order on the wire, whatever the format's document says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NrCpus {
    /// Cpus the machine could have.
    pub available: u32,
    /// Cpus that were online.
    pub online: u32,
}

impl<'a> FileLayout<'a> for NrCpus {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        c.u32("available cpus", &mut self.available)?;
        c.u32("online cpus", &mut self.online)
    }
}

/// Where a cpu is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuId {
    /// Number of its core.
    pub core: u32,
    /// Number of its package.
    pub socket: u32,
}

impl<'a> Layout<'a> for CpuId {
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u32("core", &mut self.core)?;
        c.u32("socket", &mut self.socket)
    }
}

impl Item for CpuId {
    const SIZE: usize = 8;
}

/// Which cpus share what. Older perfs write only the first parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuTopology<'a> {
    /// For each package (since dies are told: or die) its cpus, such as `0-3`.
    pub core_siblings: Vec<Str<'a>>,
    /// For each core its cpus.
    pub thread_siblings: Vec<Str<'a>>,
    /// For each cpu its core and package.
    pub cpus: Option<Seq<'a, CpuId>>,
    /// For each die its cpus, and for each cpu its die.
    pub dies: Option<Dies<'a>>,
}

/// The part of [`CpuTopology`] about dies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dies<'a> {
    /// For each die its cpus.
    pub siblings: Vec<Str<'a>>,
    /// For each cpu its die.
    pub of_cpu: Vec<u32>,
}

impl<'a> FileLayout<'a> for CpuTopology<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, around: &Surroundings) -> Result<(), C::Error> {
        list(c, "number of packages", &mut self.core_siblings, around)?;
        list(c, "number of cores", &mut self.thread_siblings, around)?;
        let told = self.cpus.as_ref().map(Seq::len);
        let count = told.unwrap_or(around.cpus as usize) as u64;
        let has_cpus = around.cpus > 0 && around.has(c, count * 8, false);
        c.optional(told.is_some() || has_cpus, "cpus", &mut self.cpus, |c, v| {
            c.seq("cores and packages", count, v)
        })?;
        let has_dies = has_cpus && around.has(c, 4 + count * 4, false);
        c.optional(self.dies.is_some() || has_dies, "dies", &mut self.dies, |c, v| {
            list(c, "number of dies", &mut v.siblings, around)?;
            items(c, count, &mut v.of_cpu, |c, die| c.u32("die", die))
        })
    }
}

/// A NUMA node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumaNode<'a> {
    /// Its number.
    pub node: u32,
    /// Its memory, in KiB.
    pub total_kib: u64,
    /// How much of that was free, in KiB.
    pub free_kib: u64,
    /// Its cpus.
    pub cpus: Str<'a>,
}

impl<'a> FileLayout<'a> for NumaNode<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        c.u32("node", &mut self.node)?;
        c.u64("total memory", &mut self.total_kib)?;
        c.u64("free memory", &mut self.free_kib)?;
        self.cpus.counted(c, "cpus")
    }
}

/// A core PMU of a hybrid machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HybridNode<'a> {
    /// Such as `cpu_atom`.
    pub pmu: Str<'a>,
    /// Its cpus.
    pub cpus: Str<'a>,
}

impl<'a> FileLayout<'a> for HybridNode<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        self.pmu.counted(c, "PMU")?;
        self.cpus.counted(c, "cpus")
    }
}

/// Which blocks of physical memory belong to which node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemTopology<'a> {
    /// Version of this layout: 1.
    pub version: u64,
    /// Bytes of a block.
    pub block_size: u64,
    /// The nodes.
    pub nodes: Vec<MemNode<'a>>,
}

impl Default for MemTopology<'_> {
    fn default() -> Self {
        MemTopology { version: 1, block_size: 0, nodes: Vec::new() }
    }
}

/// The blocks of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemNode<'a> {
    /// Its number.
    pub node: u64,
    /// One more than the highest number of a block.
    pub size: u64,
    /// Bits of the set.
    pub bits: u64,
    /// A bit for each block.
    pub set: Words<'a>,
}

impl<'a> FileLayout<'a> for MemTopology<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        c.u64("version", &mut self.version)?;
        c.u64("size of a block", &mut self.block_size)?;
        let mut count = self.nodes.len() as u64;
        c.u64("number of nodes", &mut count)?;
        items(c, count, &mut self.nodes, |c, node| {
            c.u64("node", &mut node.node)?;
            c.u64("number of blocks", &mut node.size)?;
            c.u64("bits of the set", &mut node.bits)?;
            c.seq("blocks", node.bits.div_ceil(64), &mut node.set)
        })
    }
}
