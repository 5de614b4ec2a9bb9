//! The running machine, as the header of a recording tells it: for those who record samples or counts.

mod pmus;

use crate::Str;
use crate::feature::{
    Cache, CacheLevel, CpuId, CpuTopology, Dies, Feature, MemNode, MemTopology, NrCpus, NumaNode,
};
use perfuse_abi::wire::{Seq, Words};
use perfuse_events::parse_cpu_list;
use pmus::Pmus;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Facts, owned, so that sections can borrow them.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Machine {
    host: String,
    release: String,
    arch: String,
    nr: NrCpus,
    cpu_desc: Option<String>,
    cpu_id: Option<String>,
    total_kib: u64,
    packages: Vec<String>,
    cores: Vec<String>,
    dies: Vec<String>,
    cpu_ids: Vec<CpuId>,
    die_ids: Vec<u32>,
    nodes: Vec<(u32, u64, u64, String)>,
    pmus: Pmus,
    caches: Vec<([u32; 4], [String; 3])>,
    block_size: u64,
    blocks: Vec<(u64, u64, Vec<u64>)>,
}

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

impl Machine {
    /// Looks at this machine; what it does not tell stays empty.
    pub fn look() -> Self {
        let uname = rustix::system::uname();
        let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        let list = |file: &str| parse_cpu_list(read(&format!("{CPUS}/{file}")).as_deref()?.trim());
        let online = list("online").unwrap_or_else(|| vec![0]);
        let available = list("present").map_or(online.len(), |cpus| cpus.len());
        let mut machine = Machine {
            host: text(uname.nodename()),
            release: text(uname.release()),
            arch: text(uname.machine()),
            nr: NrCpus { available: available as u32, online: online.len() as u32 },
            total_kib: field(&read("/proc/meminfo").unwrap_or_default(), "MemTotal").unwrap_or(0),
            ..Machine::default()
        };
        machine.cpu();
        machine.topology(available as u32);
        machine.nodes();
        machine.pmus = Pmus::look();
        machine.caches(&online);
        machine
    }

    fn cpu(&mut self) {
        let info = read("/proc/cpuinfo").unwrap_or_default();
        let value = |name: &str| {
            let line =
                info.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        self.cpu_desc = value("model name").or_else(|| value("Processor"));
        let x86 = ["vendor_id", "cpu family", "model", "stepping"].map(value);
        self.cpu_id = match x86 {
            [Some(vendor), Some(family), Some(model), Some(stepping)] => {
                Some(format!("{vendor},{family},{model},{stepping}"))
            }
            _ => {
                read(&format!("{CPUS}/cpu0/regs/identification/midr_el1")).map(|text| text.trim().to_owned())
            }
        };
    }

    fn topology(&mut self, available: u32) {
        let (mut packages, mut cores, mut dies) = (Vec::new(), Vec::new(), Vec::new());
        let add = |list: &mut Vec<String>, text: Option<String>| {
            let text = text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
            list.extend(text.filter(|text| !list.contains(text)));
        };
        for cpu in 0..available {
            let dir = format!("{CPUS}/cpu{cpu}/topology");
            let file = |name: &str| read(&format!("{dir}/{name}"));
            let number = |name: &str| file(name).and_then(|text| text.trim().parse().ok());
            add(&mut packages, file("package_cpus_list").or_else(|| file("core_siblings_list")));
            add(&mut cores, file("core_cpus_list").or_else(|| file("thread_siblings_list")));
            add(&mut dies, file("die_cpus_list"));
            let unknown = u32::MAX;
            self.cpu_ids.push(CpuId {
                core: number("core_id").unwrap_or(unknown),
                socket: number("physical_package_id").unwrap_or(unknown),
            });
            self.die_ids.push(number("die_id").unwrap_or(unknown));
        }
        (self.packages, self.cores, self.dies) = (packages, cores, dies);
    }

    fn nodes(&mut self) {
        let block_size = read("/sys/devices/system/memory/block_size_bytes");
        self.block_size = block_size.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
        for node in with_number(NODES, "node") {
            let dir = format!("{NODES}/node{node}");
            let memory = read(&format!("{dir}/meminfo")).unwrap_or_default();
            let kib = |name: &str| {
                let line = memory.lines().find(|line| line.contains(name))?;
                line.split_whitespace().rev().nth(1)?.parse().ok()
            };
            let cpus = read(&format!("{dir}/cpulist")).unwrap_or_default().trim().to_owned();
            self.nodes.push((node, kib("MemTotal:").unwrap_or(0), kib("MemFree:").unwrap_or(0), cpus));
            let blocks = with_number(&dir, "memory");
            let Some(&last) = blocks.iter().max() else { continue };
            let bits = u64::from(last) + 1;
            let mut words = vec![0u64; bits.div_ceil(64) as usize];
            blocks.iter().for_each(|&block| words[block as usize / 64] |= 1 << (block % 64));
            self.blocks.push((u64::from(node), bits, words));
        }
    }

    fn caches(&mut self, online: &[u32]) {
        let mut seen = BTreeSet::new();
        for cpu in online {
            for index in with_number(&format!("{CPUS}/cpu{cpu}/cache"), "index") {
                let dir = format!("{CPUS}/cpu{cpu}/cache/index{index}");
                let text = |name: &str| read(&format!("{dir}/{name}")).map(|text| text.trim().to_owned());
                let number = |name: &str| text(name).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
                let Some(level) = text("level").and_then(|text| text.parse::<u32>().ok()) else { continue };
                let texts = ["type", "size", "shared_cpu_list"].map(|name| text(name).unwrap_or_default());
                let numbers = [
                    level,
                    number("coherency_line_size"),
                    number("number_of_sets"),
                    number("ways_of_associativity"),
                ];
                if seen.insert((numbers, texts.clone())) {
                    self.caches.push((numbers, texts));
                }
            }
        }
        self.caches.sort_by_key(|(numbers, texts)| (numbers[0], texts[0].clone()));
    }

    /// The sections.
    pub fn features(&self) -> Vec<Feature<'_>> {
        let mut all = vec![
            Feature::Hostname(Str::new(&self.host)),
            Feature::OsRelease(Str::new(&self.release)),
            Feature::Arch(Str::new(&self.arch)),
            Feature::NrCpus(self.nr),
            Feature::TotalMem(self.total_kib),
            Feature::CpuTopology(CpuTopology {
                core_siblings: strs(&self.packages),
                thread_siblings: strs(&self.cores),
                cpus: Some(Seq::from(&self.cpu_ids[..])),
                dies: (!self.dies.is_empty())
                    .then(|| Dies { siblings: strs(&self.dies), of_cpu: self.die_ids.clone() }),
            }),
        ];
        all.extend(self.cpu_desc.as_deref().map(|text| Feature::CpuDesc(Str::new(text))));
        all.extend(self.cpu_id.as_deref().map(|text| Feature::CpuId(Str::new(text))));
        let nodes = self.nodes.iter().map(|(node, total_kib, free_kib, cpus)| NumaNode {
            node: *node,
            total_kib: *total_kib,
            free_kib: *free_kib,
            cpus: Str::new(cpus.as_str()),
        });
        all.push(Feature::NumaTopology(nodes.collect()));
        all.extend(self.pmus.features());
        let levels =
            self.caches.iter().map(|([level, line_size, sets, ways], [kind, size, cpus])| CacheLevel {
                level: *level,
                line_size: *line_size,
                sets: *sets,
                ways: *ways,
                kind: Str::new(kind.as_str()),
                size: Str::new(size.as_str()),
                cpus: Str::new(cpus.as_str()),
            });
        all.push(Feature::Cache(Cache { levels: levels.collect(), ..Cache::default() }));
        if !self.blocks.is_empty() {
            let nodes = self.blocks.iter().map(|(node, bits, words)| mem_node(*node, *bits, words));
            let (block_size, nodes) = (self.block_size, nodes.collect());
            all.push(Feature::MemTopology(MemTopology { block_size, nodes, ..MemTopology::default() }));
        }
        all
    }
}

fn strs(texts: &[String]) -> Vec<Str<'_>> {
    texts.iter().map(|text| Str::new(text.as_str())).collect()
}

fn mem_node(node: u64, bits: u64, words: &[u64]) -> MemNode<'_> {
    MemNode { node, size: bits, bits, set: Words::from(words) }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// A number of a file such as /proc/meminfo.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The numbers of entries such as `node0` in a folder.
fn with_number(dir: &str, prefix: &str) -> Vec<u32> {
    let entries = fs::read_dir(Path::new(dir)).into_iter().flatten();
    let number = |name: &str| name.strip_prefix(prefix)?.parse().ok();
    let mut all: Vec<u32> = entries.filter_map(|entry| number(entry.ok()?.file_name().to_str()?)).collect();
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feature::FeatureId;

    #[test]
    fn this_machine_has_a_name_and_memory() {
        let machine = Machine::look();
        assert!(machine.total_kib > 0 && machine.nr.online > 0 && !machine.release.is_empty());
        let ids: Vec<_> = machine.features().iter().map(Feature::id).collect();
        assert!(ids.contains(&FeatureId::HOSTNAME) && ids.contains(&FeatureId::CPU_TOPOLOGY));
    }
}
