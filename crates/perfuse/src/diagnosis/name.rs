//! The event of an attr in a few words: `page-faults`, `dTLB-load-misses`, `a breakpoint at 0x7f00`.

use perfuse_abi::{
    Attr, AttrFlags, Breakpoint, CacheEvent, CacheOp, CacheResult, EventType, Hardware, Software,
};
use std::ops::Sub;

/// The event of `attr` in the words people know it by.
pub(crate) fn event_name(attr: &Attr) -> String {
    name_with(attr, None)
}

/// [`event_name`], where the name of the PMU is known.
pub(super) fn name_with(attr: &Attr, pmu: Option<&str>) -> String {
    let plain = match attr.type_ {
        EventType::SOFTWARE => Software(attr.config).header_name().map(|name| words(name, "PERF_COUNT_SW_")),
        EventType::HARDWARE => {
            let (event, _) = Hardware::from_config(attr.config);
            event.header_name().map(|name| match event {
                Hardware::CPU_CYCLES => "cycles".to_owned(),
                Hardware::BRANCH_INSTRUCTIONS => "branches".to_owned(),
                Hardware::REF_CPU_CYCLES => "ref-cycles".to_owned(),
                _ => words(name, "PERF_COUNT_HW_"),
            })
        }
        EventType::HW_CACHE => cache_name(CacheEvent::from_config(attr.config).0),
        EventType::RAW => Some(format!("raw event r{:x}", attr.config)),
        EventType::TRACEPOINT => Some(format!("tracepoint {}", attr.config)),
        EventType::BREAKPOINT => {
            let what = match attr.bp_type {
                Breakpoint::X => "execution",
                Breakpoint::W => "write",
                Breakpoint::RW => "access",
                _ => "breakpoint",
            };
            Some(format!("{what} watch at {:#x}", attr.bp_addr()))
        }
        EventType(type_) => Some(match pmu {
            Some(pmu) => format!("{pmu}/config={:#x}/", attr.config),
            None => format!("event {:#x} of PMU {type_}", attr.config),
        }),
    };
    let name = plain.unwrap_or_else(|| format!("event type {} config {:#x}", attr.type_.0, attr.config));
    let (user, kernel) =
        (!attr.flags.contains(AttrFlags::EXCLUDE_USER), !attr.flags.contains(AttrFlags::EXCLUDE_KERNEL));
    match (user, kernel) {
        (true, true) => name,
        (true, false) => name + ":u",
        (false, true) => name + ":k",
        (false, false) => name + ":(nothing)",
    }
}

/// `PERF_COUNT_SW_PAGE_FAULTS_MIN` to `page-faults-min`.
fn words(name: &str, prefix: &str) -> String {
    match name.strip_prefix(prefix).unwrap_or(name) {
        "PAGE_FAULTS_MIN" => "minor-faults".to_owned(),
        "PAGE_FAULTS_MAJ" => "major-faults".to_owned(),
        rest => rest.to_ascii_lowercase().replace('_', "-"),
    }
}

/// perf's names, such as `LLC-load-misses`.
fn cache_name(event: CacheEvent) -> Option<String> {
    let cache = match event.cache.header_name()?.strip_prefix("PERF_COUNT_HW_CACHE_")? {
        "L1D" => "L1-dcache",
        "L1I" => "L1-icache",
        "LL" => "LLC",
        "DTLB" => "dTLB",
        "ITLB" => "iTLB",
        "BPU" => "branch",
        "NODE" => "node",
        _ => return None,
    };
    let operation = match event.op {
        CacheOp::READ => "load",
        CacheOp::WRITE => "store",
        CacheOp::PREFETCH => "prefetch",
        _ => return None,
    };
    match event.result {
        CacheResult::ACCESS if event.op == CacheOp::PREFETCH => Some(format!("{cache}-prefetches")),
        CacheResult::ACCESS => Some(format!("{cache}-{operation}s")),
        CacheResult::MISS => Some(format!("{cache}-{operation}-misses")),
        _ => None,
    }
}

/// The bits of a set that have no name.
pub(super) fn unnamed<F: Sub<Output = F>>(set: F, named: impl Iterator<Item = (&'static str, F)>) -> F {
    named.fold(set, |left, (_, flag)| left - flag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfuse_abi::Cache;

    #[test]
    fn names_people_know() {
        let name = |type_, config| event_name(&Attr { config, ..Attr::new(type_) });
        assert_eq!(name(EventType::SOFTWARE, Software::CONTEXT_SWITCHES.0), "context-switches");
        assert_eq!(name(EventType::SOFTWARE, Software::PAGE_FAULTS_MAJ.0), "major-faults");
        assert_eq!(name(EventType::SOFTWARE, 77), "event type 1 config 0x4d");
        assert_eq!(name(EventType::HARDWARE, Hardware::CPU_CYCLES.0), "cycles");
        assert_eq!(name(EventType::HARDWARE, Hardware::CPU_CYCLES.on_pmu(EventType(10))), "cycles");
        let miss = CacheEvent { cache: Cache::LL, op: CacheOp::READ, result: CacheResult::MISS };
        assert_eq!(name(EventType::HW_CACHE, miss.config()), "LLC-load-misses");
        assert_eq!(name(EventType::RAW, 0x1a8), "raw event r1a8");
        let mut attr = Attr::new(EventType::HARDWARE);
        attr.flags |= AttrFlags::EXCLUDE_KERNEL;
        assert_eq!(event_name(&attr), "cycles:u");
        let attr = Attr { config: 17, ..Attr::new(EventType(10)) };
        assert_eq!(name_with(&attr, Some("msr")), "msr/config=0x11/");
    }
}
