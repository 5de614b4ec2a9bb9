//! The events that every machine knows by name, described.

use crate::cache;
use crate::names::{self, Hardware, Software, Tool};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use perfuse_abi::{Cache, CacheEvent, CacheOp, CacheResult};

/// The counter of a common event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommonKind {
    /// The cpu's PMU.
    Hardware,
    /// The cpu's PMU, about a cache.
    Cache,
    /// The kernel.
    Software,
    /// The measuring tool.
    Tool,
}

/// An event that has a name on every machine, whether or not it can be counted there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Common {
    /// Its usual name.
    pub name: &'static str,
    /// Other names.
    pub aliases: Vec<&'static str>,
    /// Its counter.
    pub kind: CommonKind,
    /// A sentence without a full stop.
    pub description: String,
}

/// All of them, by kind, in the order of their numbers.
pub fn common_events() -> Vec<Common> {
    let mut all = Vec::new();
    add(&mut all, names::HARDWARE, CommonKind::Hardware, |event| hardware(event).to_string());
    for name in cache::USUAL {
        if let Some(cache::Read::Event(event)) = cache::read(name) {
            let description = of_cache(event);
            all.push(Common { name, aliases: Vec::new(), kind: CommonKind::Cache, description });
        }
    }
    add(&mut all, names::SOFTWARE, CommonKind::Software, |event| software(event).to_string());
    add(&mut all, names::TOOL, CommonKind::Tool, |event| tool(event).to_string());
    all
}

/// Neighbours of the table that mean the same are one event.
fn add<T: Copy + PartialEq>(
    all: &mut Vec<Common>,
    table: &[(&'static str, T)],
    kind: CommonKind,
    describe: impl Fn(T) -> String,
) {
    for same in table.chunk_by(|a, b| a.1 == b.1) {
        let (name, event) = same[0];
        let aliases = same[1..].iter().map(|(alias, _)| *alias).collect();
        all.push(Common { name, aliases, kind, description: describe(event) });
    }
}

fn hardware(event: Hardware) -> &'static str {
    match event {
        Hardware::CPU_CYCLES => {
            "cycles of the core while it is not halted; their length changes with its frequency"
        }
        Hardware::INSTRUCTIONS => "instructions that were completed",
        Hardware::CACHE_REFERENCES => "accesses that reached the last level of cache",
        Hardware::CACHE_MISSES => "accesses that the last level of cache could not serve",
        Hardware::BRANCH_INSTRUCTIONS => "branch instructions that were completed",
        Hardware::BRANCH_MISSES => "branches that went elsewhere than predicted",
        Hardware::BUS_CYCLES => "cycles of the bus, at a fixed frequency",
        Hardware::STALLED_CYCLES_FRONTEND => "cycles in which no instruction could be fetched or decoded",
        Hardware::STALLED_CYCLES_BACKEND => {
            "cycles in which no instruction could be executed for want of data or units"
        }
        _ => "cycles at a fixed frequency while the core is not halted",
    }
}

fn software(event: Software) -> &'static str {
    match event {
        Software::CPU_CLOCK => "time of the cpu, in ns; samples by a timer",
        Software::TASK_CLOCK => "time that the measured tasks ran, in ns",
        Software::PAGE_FAULTS => "accesses to pages that were not mapped yet",
        Software::CONTEXT_SWITCHES => "the cpu went from one task to another",
        Software::CPU_MIGRATIONS => "a task went from one cpu to another",
        Software::PAGE_FAULTS_MIN => "page faults that needed no I/O",
        Software::PAGE_FAULTS_MAJ => "page faults that had to wait for I/O",
        Software::ALIGNMENT_FAULTS => "accesses to unaligned memory that the kernel had to carry out",
        Software::EMULATION_FAULTS => "instructions that the kernel had to emulate",
        Software::DUMMY => "never happens; a place for what the kernel tells about tasks and maps",
        Software::BPF_OUTPUT => "data that BPF programs hand over",
        _ => "the cpu went to a task of another cgroup",
    }
}

fn tool(event: Tool) -> &'static str {
    match event {
        Tool::DurationTime => "wall time, in ns",
        Tool::UserTime => "cpu time of the command in user space, in ns",
        Tool::SystemTime => "cpu time of the command in the kernel, in ns",
    }
}

fn of_cache(event: CacheEvent) -> String {
    let op = match event.op {
        CacheOp::READ => "loads",
        CacheOp::WRITE => "stores",
        _ => "prefetches",
    };
    let place = match event.cache {
        Cache::L1D => "the first level of data cache",
        Cache::L1I => "the first level of instruction cache",
        Cache::LL => "the last level of cache",
        Cache::DTLB => "the TLB for data",
        Cache::ITLB => "the TLB for instructions",
        Cache::BPU => "the branch predictor",
        _ => "the memory of this NUMA node",
    };
    match event.result {
        CacheResult::MISS => alloc::format!("{op} that {place} could not serve"),
        _ => alloc::format!("{op} from {place}").replace("stores from", "stores to"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventList, NoCatalogue, known_names};

    #[test]
    fn every_name_is_described_once() {
        let all = common_events();
        let mut names: Vec<_> = all
            .iter()
            .flat_map(|common| core::iter::once(common.name).chain(common.aliases.clone()))
            .collect();
        names.sort_unstable();
        let mut known = known_names();
        known.sort_unstable();
        assert_eq!(names, known);
        for common in &all {
            let list: EventList = common.name.parse().unwrap();
            assert!(list.resolve(&NoCatalogue).is_ok() && !common.description.is_empty());
        }
        let descriptions: alloc::collections::BTreeSet<_> = all.iter().map(|c| &c.description).collect();
        assert_eq!(descriptions.len(), all.len());
    }
}
