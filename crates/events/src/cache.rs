//! Names of cache events: a cache, then perhaps an operation and a result, in either order and in
//! many spellings: `L1-dcache-load-misses`, `l1d-miss-read`, `dTLB`, `LLC-speculative-read-refs`.

use perfuse_abi::{Cache, CacheEvent, CacheOp, CacheResult};

const CACHES: &[(&str, Cache)] = &[
    ("L1-dcache", Cache::L1D),
    ("l1-d", Cache::L1D),
    ("l1d", Cache::L1D),
    ("L1-data", Cache::L1D),
    ("L1-icache", Cache::L1I),
    ("l1-i", Cache::L1I),
    ("l1i", Cache::L1I),
    ("L1-instruction", Cache::L1I),
    ("LLC", Cache::LL),
    ("L2", Cache::LL),
    ("dTLB", Cache::DTLB),
    ("d-tlb", Cache::DTLB),
    ("Data-TLB", Cache::DTLB),
    ("iTLB", Cache::ITLB),
    ("i-tlb", Cache::ITLB),
    ("Instruction-TLB", Cache::ITLB),
    ("branch", Cache::BPU),
    ("branches", Cache::BPU),
    ("bpu", Cache::BPU),
    ("btb", Cache::BPU),
    ("bpc", Cache::BPU),
    ("node", Cache::NODE),
];

const OPS: &[(&str, CacheOp)] = &[
    ("load", CacheOp::READ),
    ("loads", CacheOp::READ),
    ("read", CacheOp::READ),
    ("store", CacheOp::WRITE),
    ("stores", CacheOp::WRITE),
    ("write", CacheOp::WRITE),
    ("prefetch", CacheOp::PREFETCH),
    ("prefetches", CacheOp::PREFETCH),
    ("speculative-read", CacheOp::PREFETCH),
    ("speculative-load", CacheOp::PREFETCH),
];

const RESULTS: &[(&str, CacheResult)] = &[
    ("refs", CacheResult::ACCESS),
    ("Reference", CacheResult::ACCESS),
    ("ops", CacheResult::ACCESS),
    ("access", CacheResult::ACCESS),
    ("misses", CacheResult::MISS),
    ("miss", CacheResult::MISS),
];

/// The spelling of each possible event that perf prints.
pub(crate) const USUAL: &[&str] = &[
    "L1-dcache-loads",
    "L1-dcache-load-misses",
    "L1-dcache-stores",
    "L1-dcache-store-misses",
    "L1-dcache-prefetches",
    "L1-dcache-prefetch-misses",
    "L1-icache-loads",
    "L1-icache-load-misses",
    "L1-icache-prefetches",
    "L1-icache-prefetch-misses",
    "LLC-loads",
    "LLC-load-misses",
    "LLC-stores",
    "LLC-store-misses",
    "LLC-prefetches",
    "LLC-prefetch-misses",
    "dTLB-loads",
    "dTLB-load-misses",
    "dTLB-stores",
    "dTLB-store-misses",
    "dTLB-prefetches",
    "dTLB-prefetch-misses",
    "iTLB-loads",
    "iTLB-load-misses",
    "branch-loads",
    "branch-load-misses",
    "node-loads",
    "node-load-misses",
    "node-stores",
    "node-store-misses",
    "node-prefetches",
    "node-prefetch-misses",
];

/// The meaning of a name that begins with that of a cache.
pub(crate) enum Read {
    /// A cache event.
    Event(CacheEvent),
    /// It begins like one, but has no meaning from this byte on.
    Stray(usize),
    /// No cache does this.
    Impossible,
}

/// Reads a cache event's name; `None` if it does not begin with a cache's name.
pub(crate) fn read(name: &str) -> Option<Read> {
    let (mut at, cache) = leading(CACHES, name)?;
    let (mut op, mut result) = (None, None);
    while at < name.len() {
        // `leading` accepts only whole parts, so a hyphen is next.
        at += 1;
        let rest = &name[at..];
        match (leading(OPS, rest), leading(RESULTS, rest)) {
            (Some((length, read)), _) if op.is_none() => {
                op = Some(read);
                at += length;
            }
            (_, Some((length, read))) if result.is_none() => {
                result = Some(read);
                at += length;
            }
            _ => return Some(Read::Stray(at)),
        }
    }
    let event =
        CacheEvent { cache, op: op.unwrap_or(CacheOp::READ), result: result.unwrap_or(CacheResult::ACCESS) };
    Some(if possible(event) { Read::Event(event) } else { Read::Impossible })
}

/// The longest entry that is the name's first part, followed by a hyphen or nothing.
fn leading<T: Copy>(table: &[(&str, T)], name: &str) -> Option<(usize, T)> {
    let fits = |known: &str| {
        name.get(..known.len()).is_some_and(|start| start.eq_ignore_ascii_case(known))
            && matches!(name.as_bytes().get(known.len()), None | Some(b'-'))
    };
    table
        .iter()
        .filter(|(known, _)| fits(known))
        .max_by_key(|(known, _)| known.len())
        .map(|&(k, v)| (k.len(), v))
}

/// Whether any cpu could count this, by perf's table.
fn possible(event: CacheEvent) -> bool {
    match event.cache {
        Cache::L1I => event.op != CacheOp::WRITE,
        Cache::ITLB | Cache::BPU => event.op == CacheOp::READ,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(name: &str) -> Option<u64> {
        match read(name)? {
            Read::Event(event) => Some(event.config()),
            _ => None,
        }
    }

    #[test]
    fn all_spellings_and_orders() {
        for name in ["L1-dcache-load-misses", "l1d-miss-read", "L1-DATA-misses", "l1-d-loads-miss"] {
            assert_eq!(config(name), Some(0x10000), "{name}");
        }
        assert_eq!(config("LLC-speculative-read-refs"), Some(0x202));
        assert_eq!(config("branches-misses"), Some(0x10005));
        assert_eq!(config("node"), Some(6));
        assert_eq!(config("i-tlb-access"), Some(4));
    }

    #[test]
    fn the_usual_names_are_all_different() {
        let mut configs: alloc::vec::Vec<_> = USUAL.iter().map(|name| config(name).expect(name)).collect();
        configs.sort();
        configs.dedup();
        assert_eq!(configs.len(), USUAL.len());
    }

    #[test]
    fn what_has_no_meaning_is_told_where() {
        assert!(matches!(read("L1-dcache-load-store"), Some(Read::Stray(15))));
        assert!(matches!(read("LLC-"), Some(Read::Stray(4))));
        assert!(matches!(read("LLC-loads-refs-misses"), Some(Read::Stray(15))));
        assert!(matches!(read("bpu-stores"), Some(Read::Impossible)));
        assert!(read("nodes").is_none());
        assert!(read("cycles").is_none());
    }
}
