//! The calls of `bpf(2)` on maps, and what programs do with them.

use perfuse_bpf::map::{ENOTSUPP, flag};
use perfuse_bpf::{Errno, MapKind, MapSpec, Maps};

fn maps() -> Maps {
    Maps::new(2, 1 << 20, 42)
}

fn number(value: u32) -> [u8; 4] {
    value.to_ne_bytes()
}

#[test]
fn an_array_has_all_its_values_from_the_beginning() {
    let mut maps = maps();
    let id = maps.create(MapSpec::new(MapKind::Array, 4, 8, 3)).unwrap();
    let map = maps.get_mut(id).unwrap();
    assert_eq!(map.lookup(&number(2)), Ok(vec![0; 8]));
    assert_eq!(map.lookup(&number(3)), Err(Errno::ENOENT));
    assert_eq!(map.update(&number(1), &7u64.to_ne_bytes(), flag::ANY), Ok(()));
    assert_eq!(map.update(&number(1), &[0; 8], flag::NOEXIST), Err(Errno::EEXIST));
    assert_eq!(map.update(&number(3), &[0; 8], flag::ANY), Err(Errno::E2BIG));
    assert_eq!(map.update(&number(0), &[0; 8], 3), Err(Errno::EINVAL));
    assert_eq!(map.delete(&number(1)), Err(Errno::EINVAL));
    assert_eq!(map.lookup(&number(1)), Ok(7u64.to_ne_bytes().to_vec()));
    assert_eq!(map.next_key(None), Ok(number(0).to_vec()));
    assert_eq!(map.next_key(Some(&number(1))), Ok(number(2).to_vec()));
    assert_eq!(map.next_key(Some(&number(2))), Err(Errno::ENOENT));
    assert_eq!(map.next_key(Some(&number(9))), Ok(number(0).to_vec()));
    assert_eq!(map.lookup_and_delete(&number(1)), Err(ENOTSUPP));
}

#[test]
fn a_hash_keeps_what_it_was_given_until_it_is_full() {
    let mut maps = maps();
    let id = maps.create(MapSpec::new(MapKind::Hash, 3, 4, 50)).unwrap();
    let map = maps.get_mut(id).unwrap();
    let key = |number: u8| [number, 1, number];
    for i in 0..50 {
        assert_eq!(map.update(&key(i), &number(u32::from(i)), flag::NOEXIST), Ok(()));
    }
    assert_eq!(map.update(&key(50), &number(0), flag::ANY), Err(Errno::E2BIG));
    assert_eq!(map.update(&key(3), &number(33), flag::EXIST), Ok(()));
    assert_eq!(map.update(&key(50), &number(0), flag::EXIST), Err(Errno::ENOENT));
    assert_eq!(map.lookup(&key(3)), Ok(number(33).to_vec()));
    let mut seen = std::collections::BTreeSet::new();
    let mut at = map.next_key(None);
    while let Ok(key) = at {
        assert!(seen.insert(key.clone()));
        at = map.next_key(Some(&key));
    }
    assert_eq!((at, seen.len()), (Err(Errno::ENOENT), 50));
    assert_eq!(map.delete(&key(7)), Ok(()));
    assert_eq!(map.delete(&key(7)), Err(Errno::ENOENT));
    assert_eq!(map.lookup(&key(7)), Err(Errno::ENOENT));
    assert_eq!(map.lookup_and_delete(&key(8)), Ok(number(8).to_vec()));
    assert_eq!(map.update(&key(50), &number(5), flag::ANY), Ok(()));
}

#[test]
fn an_lru_hash_gives_up_what_was_not_used() {
    let mut maps = maps();
    let id = maps.create(MapSpec::new(MapKind::LruHash, 4, 4, 4)).unwrap();
    let map = maps.get_mut(id).unwrap();
    for i in 0..4 {
        map.update(&number(i), &number(i), flag::ANY).unwrap();
    }
    map.update(&number(0), &number(100), flag::ANY).unwrap();
    map.update(&number(4), &number(4), flag::ANY).unwrap();
    assert_eq!(map.lookup(&number(0)), Ok(number(100).to_vec()), "it was used");
    assert_eq!(map.lookup(&number(1)), Err(Errno::ENOENT), "it was not");
    assert_eq!(map.lookup(&number(4)), Ok(number(4).to_vec()));
}

#[test]
fn a_map_per_cpu_has_a_value_of_whole_words_for_each() {
    let mut maps = maps();
    let id = maps.create(MapSpec::new(MapKind::PerCpuArray, 4, 4, 1)).unwrap();
    let map = maps.get_mut(id).unwrap();
    assert_eq!(map.user_value_bytes(), 16);
    assert_eq!(map.update(&number(0), &[1; 4], flag::ANY), Err(Errno::EINVAL));
    let both: Vec<u8> = (0..16).collect();
    assert_eq!(map.update(&number(0), &both, flag::ANY), Ok(()));
    assert_eq!(map.lookup(&number(0)), Ok(both));
}

#[test]
fn queues_and_stacks_give_in_their_order() {
    let mut maps = maps();
    for (kind, order) in [(MapKind::Queue, [1, 2, 3]), (MapKind::Stack, [3, 2, 1])] {
        let id = maps.create(MapSpec::new(kind, 0, 4, 3)).unwrap();
        let map = maps.get_mut(id).unwrap();
        assert_eq!(map.lookup(&[]), Err(Errno::ENOENT));
        for i in 1..=3 {
            map.update(&[], &number(i), flag::ANY).unwrap();
        }
        assert_eq!(map.update(&[], &number(4), flag::ANY), Err(Errno::E2BIG));
        assert_eq!(map.update(&[], &number(4), flag::NOEXIST), Err(Errno::EINVAL));
        assert_eq!(map.lookup(&[]), Ok(number(order[0]).to_vec()));
        for wanted in order {
            assert_eq!(map.lookup_and_delete(&[]), Ok(number(wanted).to_vec()));
        }
        assert_eq!(map.lookup_and_delete(&[]), Err(Errno::ENOENT));
        for i in 1..=4 {
            map.update(&[], &number(i), flag::EXIST).unwrap();
        }
        let first = if kind == MapKind::Queue { 2 } else { 4 };
        assert_eq!(map.lookup(&[]), Ok(number(first).to_vec()), "the oldest made room");
    }
}

#[test]
fn flags_and_freezing_keep_calls_out() {
    let mut maps = maps();
    let spec = MapSpec { flags: flag::RDONLY, ..MapSpec::new(MapKind::Array, 4, 8, 1) };
    let id = maps.create(spec).unwrap();
    assert_eq!(maps.get_mut(id).unwrap().update(&number(0), &[0; 8], 0), Err(Errno::EPERM));
    let id = maps.create(MapSpec { flags: flag::WRONLY, ..MapSpec::new(MapKind::Array, 4, 8, 1) }).unwrap();
    assert_eq!(maps.get(id).unwrap().lookup(&number(0)), Err(Errno::EPERM));
    let id =
        maps.create(MapSpec { flags: flag::RDONLY_PROG, ..MapSpec::new(MapKind::Array, 4, 8, 1) }).unwrap();
    let map = maps.get_mut(id).unwrap();
    assert!(!map.is_constant());
    assert_eq!(map.update(&number(0), &[1; 8], 0), Ok(()));
    assert_eq!((map.freeze(), map.freeze()), (Ok(()), Err(Errno::EBUSY)));
    assert_eq!(map.update(&number(0), &[2; 8], 0), Err(Errno::EPERM));
    assert!(map.is_constant());
}

#[test]
fn arrays_of_programs_and_events_hold_numbers_of_their_owner() {
    let mut maps = maps();
    let id = maps.create(MapSpec::new(MapKind::ProgArray, 4, 4, 2)).unwrap();
    let map = maps.get_mut(id).unwrap();
    assert_eq!(map.update(&number(1), &number(77), 0), Ok(()));
    assert_eq!(map.update(&number(1), &number(77), flag::EXIST), Err(Errno::EINVAL));
    assert_eq!(map.update(&number(2), &number(77), 0), Err(Errno::E2BIG));
    assert_eq!(map.lookup(&number(1)), Ok(number(77).to_vec()));
    assert_eq!((map.delete(&number(1)), map.delete(&number(1))), (Ok(()), Err(Errno::ENOENT)));
    let id = maps.create(MapSpec::new(MapKind::PerfEventArray, 4, 4, 2)).unwrap();
    assert_eq!(maps.get(id).unwrap().lookup(&number(0)), Err(ENOTSUPP));
}

#[test]
fn declarations_are_refused_as_linux_refuses_them() {
    let refused = |kind, key, value, entries, flags| {
        MapSpec { flags, ..MapSpec::new(kind, key, value, entries) }.check().unwrap_err()
    };
    assert_eq!(refused(MapKind::Array, 8, 8, 1, 0), Errno::EINVAL);
    assert_eq!(refused(MapKind::Array, 4, 0, 1, 0), Errno::EINVAL);
    assert_eq!(refused(MapKind::Array, 4, 8, 1, flag::NO_PREALLOC), Errno::EINVAL);
    assert_eq!(refused(MapKind::PerCpuArray, 4, 40_000, 1, 0), Errno::E2BIG);
    assert_eq!(refused(MapKind::PerfEventArray, 4, 8, 1, 0), Errno::EINVAL);
    assert_eq!(refused(MapKind::RingBuf, 0, 0, 5000, 0), Errno::EINVAL);
    assert_eq!(refused(MapKind::StackTrace, 4, 128 * 8, 1, 0), Errno::EINVAL);
    assert_eq!(refused(MapKind::LruHash, 4, 4, 1, flag::NO_PREALLOC), ENOTSUPP);
    assert_eq!(refused(MapKind::Queue, 4, 4, 1, 0), Errno::EINVAL);
    assert_eq!(refused(MapKind::Hash, 4, 4, 1, flag::RDONLY_PROG | flag::WRONLY_PROG), Errno::EINVAL);
}

#[test]
fn memory_is_bounded_by_what_the_owner_allows() {
    let mut maps = Maps::new(4, 100_000, 0);
    assert_eq!(maps.create(MapSpec::new(MapKind::Array, 4, 8, 1 << 30)), Err(Errno::ENOMEM));
    assert_eq!(maps.create(MapSpec::new(MapKind::Hash, 4, 1 << 20, u32::MAX)), Err(Errno::ENOMEM));
    let id = maps.create(MapSpec::new(MapKind::Array, 4, 8, 10_000)).unwrap();
    assert_eq!(maps.create(MapSpec::new(MapKind::Array, 4, 8, 10_000)), Err(Errno::ENOMEM));
    assert_eq!(maps.used_bytes(), 80_000);
    assert_eq!((maps.remove(id), maps.remove(id)), (Ok(()), Err(Errno::EBADF)));
    assert_eq!(maps.used_bytes(), 0);
    assert!(maps.create(MapSpec::new(MapKind::Array, 4, 8, 10_000)).is_ok());
}

#[test]
fn a_trie_finds_the_longest_prefix() {
    let mut maps = maps();
    let spec = MapSpec { flags: flag::NO_PREALLOC, ..MapSpec::new(MapKind::LpmTrie, 6, 4, 3) };
    let id = maps.create(spec).unwrap();
    let map = maps.get_mut(id).unwrap();
    let key = |bits: u32, bytes: [u8; 2]| [&number(bits)[..], &bytes].concat();
    for (place, (bits, bytes)) in [(8, [10, 77]), (16, [10, 1]), (0, [0, 0])].into_iter().enumerate() {
        assert_eq!(map.update(&key(bits, bytes), &number(place as u32), flag::ANY), Ok(()));
    }
    assert_eq!(map.update(&key(9, [10, 0]), &number(9), flag::ANY), Err(Errno::ENOSPC));
    assert_eq!(map.update(&key(17, [10, 0]), &number(9), flag::ANY), Err(Errno::EINVAL));
    assert_eq!(map.update(&key(8, [10, 3]), &number(9), flag::NOEXIST), Err(Errno::EEXIST));
    for (bytes, found) in [([10, 1], 1), ([10, 2], 0), ([11, 1], 2)] {
        assert_eq!(map.lookup(&key(16, bytes)), Ok(number(found).to_vec()), "{bytes:?}");
    }
    // A prefix stands behind all that begin with it, with the bits that it was given with.
    let mut told = Vec::new();
    let mut next = map.next_key(None);
    while let Ok(key) = next {
        next = map.next_key(Some(&key));
        told.push(key);
    }
    assert_eq!(told, [key(16, [10, 1]), key(8, [10, 77]), key(0, [0, 0])]);
    assert_eq!(map.delete(&key(8, [10, 0])), Ok(()));
    assert_eq!(map.delete(&key(8, [10, 0])), Err(Errno::ENOENT));
    assert_eq!(map.lookup(&key(16, [10, 2])), Ok(number(2).to_vec()));
}

#[test]
fn owners_take_out_what_is_gone() {
    let mut maps = maps();
    let id = maps.create(MapSpec::new(MapKind::ProgArray, 4, 4, 3)).unwrap();
    let map = maps.get_mut(id).unwrap();
    for place in 0..3 {
        map.update(&number(place), &number(10 + place), flag::ANY).unwrap();
    }
    assert_eq!(map.handles().collect::<Vec<_>>(), [10, 11, 12]);
    map.retain_handles(|handle| handle != 11);
    assert_eq!(map.handles().collect::<Vec<_>>(), [10, 12]);
    assert_eq!(map.lookup(&number(1)), Err(Errno::ENOENT));
    assert!(map.cells().is_empty() && map.cells_mut().is_empty());
}
