//! Calls on maps by chance, and declarations, on Linux and here.

use super::draw;
use perfuse_bpf::{Errno, MapKind, MapSpec, Maps};
use perfuse_testkit::Outcome;

const KINDS: [MapKind; 14] = [
    MapKind::Hash,
    MapKind::Array,
    MapKind::ProgArray,
    MapKind::PerfEventArray,
    MapKind::PerCpuHash,
    MapKind::PerCpuArray,
    MapKind::StackTrace,
    MapKind::CgroupArray,
    MapKind::LruHash,
    MapKind::LruPerCpuHash,
    MapKind::LpmTrie,
    MapKind::Queue,
    MapKind::Stack,
    MapKind::RingBuf,
];

pub(super) fn declarations_are_answered_alike() -> Outcome {
    let mut below = draw::random(77);
    let mut differ = Vec::new();
    for kind in KINDS {
        for turn in 0..400 {
            let mut size = |usual: u32| match below(4) {
                0 => [0, 1, 4, 5, 8, 40_000, 5 << 20][below(7) as usize],
                _ => usual,
            };
            let (key, value, entries) = match kind {
                MapKind::Queue | MapKind::Stack => (size(0), size(8), size(4)),
                MapKind::RingBuf => (size(0), size(0), size(4096)),
                MapKind::LpmTrie => (size(8), size(8), size(4)),
                MapKind::StackTrace => (size(4), size(80), size(4)),
                _ if kind.has_objects() => (size(4), size(4), size(4)),
                _ => (size(4), size(8), size(4)),
            };
            let entries = if u64::from(value) * u64::from(entries) > 1 << 24 { 4096 } else { entries };
            let flags = if turn % 2 == 0 {
                0
            } else {
                1 << below(13) | if below(3) == 0 { 1 << below(13) } else { 0 }
            };
            // A descriptor of a NUMA node, and what a map in a map may have, are asked for in fields that we do not pass.
            let flags = flags & !(1 << 9);
            let flags = if kind == MapKind::LpmTrie && turn % 8 != 0 { flags | 1 } else { flags };
            let spec = MapSpec { flags, ..MapSpec::new(kind, key, value, entries) };
            let linux =
                perfuse_sys::bpf::Map::create([kind.number(), key, value, entries, flags]).map(|_| ());
            let here = spec.check();
            // Whether there is memory is another question.
            if linux != here && linux != Err(Errno::ENOMEM) {
                differ.push(format!("{spec:?}: Linux {linux:?}, here {here:?}"));
            }
        }
    }
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ[..differ.len().min(30)].join("\n"));
    Ok(())
}

pub(super) fn calls_are_answered_alike() -> Outcome {
    let mut differ = Vec::new();
    let mut calls = 0;
    for kind in KINDS {
        // Values of arrays of objects are the owner's; which entries an LRU gives up is told nowhere.
        if kind.has_objects() {
            continue;
        }
        for seed in 0..30 {
            let mut below = draw::random(seed * 16 + u64::from(kind.number()));
            let entries = if matches!(kind, MapKind::LruHash | MapKind::LruPerCpuHash) { 1000 } else { 6 };
            let spec = match kind {
                MapKind::Queue | MapKind::Stack => MapSpec::new(kind, 0, 8, entries),
                MapKind::RingBuf => MapSpec::new(kind, 0, 0, 4096),
                MapKind::StackTrace => MapSpec::new(kind, 4, 16, 4),
                MapKind::LpmTrie => MapSpec { flags: 1, ..MapSpec::new(kind, 6, 8, entries) },
                _ => MapSpec::new(kind, 4, 8, entries),
            };
            let declared = [kind.number(), spec.key_size, spec.value_size, spec.max_entries, spec.flags];
            let linux = perfuse_sys::bpf::Map::create(declared).expect("a map");
            let cpus = linux.lookup_bytes() as u32 / 8;
            let mut maps = Maps::new(if kind.is_per_cpu() { cpus } else { 1 }, 1 << 20, seed);
            let id = maps.create(spec.clone()).expect("a map");
            let here = maps.get_mut(id).expect("the map");
            let (key_bytes, value_bytes) = (spec.key_size as usize, here.user_value_bytes());
            for _ in 0..60 {
                calls += 1;
                let mut key: Vec<u8> = below(9).to_ne_bytes()[..key_bytes.min(4)].to_vec();
                if kind == MapKind::LpmTrie {
                    key[0] = below(18) as u8;
                    key.extend([[0u8, 0x80, 0xc0][below(3) as usize], below(256) as u8]);
                }
                let value: Vec<u8> = (0..value_bytes).map(|_| below(256) as u8).collect();
                let flags = [0u64, 0, 0, 1, 2, 3, 4, 8][below(8) as usize];
                let what = below(7);
                let (theirs, ours) = match what {
                    0..=2 => (
                        linux.update(&key, &value, flags).map(|()| Vec::new()),
                        here.update(&key, &value, flags).map(|()| Vec::new()),
                    ),
                    3 => (linux.delete(&key).map(|()| Vec::new()), here.delete(&key).map(|()| Vec::new())),
                    4 => (linux.lookup(&key), here.lookup(&key)),
                    5 => (linux.lookup_and_delete(&key), here.lookup_and_delete(&key)),
                    // The order of a hash is its own.
                    _ if matches!(
                        kind,
                        MapKind::Hash | MapKind::PerCpuHash | MapKind::LruHash | MapKind::LruPerCpuHash
                    ) =>
                    {
                        (linux.next_key(None).map(|_| Vec::new()), here.next_key(None).map(|_| Vec::new()))
                    }
                    _ => (linux.next_key(Some(&key)), here.next_key(Some(&key))),
                };
                if theirs != ours {
                    differ.push(format!(
                        "{kind:?} call {what} key {key:?} flags {flags}: Linux {theirs:?}, here {ours:?}"
                    ));
                    break;
                }
            }
        }
    }
    println!("{calls} calls");
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ[..differ.len().min(30)].join("\n"));
    Ok(())
}
