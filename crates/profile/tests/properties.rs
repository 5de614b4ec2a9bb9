//! The profile of any samples: compared with sums over the samples themselves, and with itself when samples come in
//! another order, in parts, filtered, or are seen from the other end.

use perfuse_abi::record::{
    Callchain, CallchainContext, Comm, CpuMode, Decoded, Misc, Mmap2, Record, Sample, Tid,
};
use perfuse_abi::wire::{Text, Words};
use perfuse_abi::{Attr, EventType};
use perfuse_data::session::{Level, Session};
use perfuse_profile::{Branch, Chains, Collector, Filter, Frames, Key, Least, Names, Order, Plan, Report};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const TASKS: u32 = 3;
const FUNCTIONS: u64 = 6;

/// A sample of a task: its callchain, innermost function first, and the occurrences that it stands for.
#[derive(Clone, Debug)]
struct Taken {
    task: u32,
    chain: Vec<u64>,
    weight: u64,
}

fn samples() -> impl Strategy<Value = Vec<Taken>> {
    let taken = (0..TASKS, prop::collection::vec(0..FUNCTIONS, 1..6), 1..9u64);
    prop::collection::vec(taken.prop_map(|(task, chain, weight)| Taken { task, chain, weight }), 1..40)
}

fn comm(task: u32) -> String {
    format!("task{task}")
}

/// The objects that all tasks have mapped, and one that each has for itself at the same place; two functions are in each.
fn object(task: u32, function: u64) -> String {
    match function / 2 {
        0 => "program".to_owned(),
        1 => "library".to_owned(),
        _ => format!("own{task}"),
    }
}

fn address(function: u64) -> u64 {
    0x10_0000 * (1 + function / 2) + 0x10 * function
}

/// Tasks with all that they have mapped. There are no such files: functions have addresses in place of names.
fn session() -> Session {
    let mut session = Session::new();
    let mut tell = |record: Record<'_>| {
        session.apply(&Decoded { misc: Misc::empty().with_cpu_mode(CpuMode::USER), ..Decoded::from(record) });
    };
    for task in 0..TASKS {
        let tid = Tid { pid: 100 + task, tid: 100 + task };
        tell(Record::Comm(Comm { tid, name: Text::new(comm(task).as_bytes()) }));
        for function in (0..FUNCTIONS).step_by(2) {
            let name = format!("/nonexistent/{}", object(task, function));
            let (addr, filename) = (address(function) & !0xfff, Text::new(name.as_bytes()));
            let map = Mmap2 { tid, addr, len: 0x1000, pgoff: addr, prot: 5, filename, ..Mmap2::default() };
            tell(Record::Mmap2(map));
        }
    }
    session
}

/// Of an entry: the weight and number of the samples in it; of those in it and in all it called.
type Sums = [u64; 4];

/// A call tree: addresses without a fork between them, what ends there, what comes along, and how it goes on in no order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Tree {
    addresses: Vec<u64>,
    own: (u64, u64),
    all: (u64, u64),
    branches: BTreeSet<Tree>,
}

/// The numbers of a report, by the texts of its keys.
#[derive(Clone, Debug, Default, PartialEq)]
struct Shown {
    weight: u64,
    samples: u64,
    entries: BTreeMap<Vec<String>, Sums>,
    trees: BTreeMap<Vec<String>, Tree>,
}

/// How a profile is made in the tests; the only place that knows by which calls.
fn profile(samples: &[Taken], keys: &[Key], order: Order, filter: Filter) -> Shown {
    let session = session();
    let mut plan = Plan::new(keys);
    (plan.order, plan.filter) = (order, filter);
    let of_samples = plan.keys.clone();
    let mut collector = Collector::new(plan, Frames::new(true));
    let attr = Attr::new(EventType::SOFTWARE);
    for Taken { task, chain, weight } in samples {
        let mut words = vec![CallchainContext::USER.0];
        words.extend(chain.iter().map(|&function| address(function)));
        let mut sample = Sample::default();
        sample.tid = Some(Tid { pid: 100 + task, tid: 100 + task });
        sample.ip = Some(address(chain[0]));
        sample.callchain = Some(Callchain { words: Words::from(&words[..]) });
        collector.add((0, &attr), &session, &sample, Level::User, *weight);
    }
    let (profiles, frames) = collector.finish();
    let profile = &profiles[0];
    let report = Report::new(profile, &frames, keys);
    let names = Names::new(&frames, &session, profile, &of_samples);
    let chains = Chains::new(&report, &frames, true, Least::Weight(1));
    let mut shown = Shown { weight: profile.weight, samples: profile.samples, ..Shown::default() };
    for entry in &report.entries {
        let texts: Vec<_> = keys.iter().map(|&key| names.text(entry, key)).collect();
        let sums = [entry.self_weight, entry.self_samples, entry.total_weight, entry.total_samples];
        assert!(shown.entries.insert(texts.clone(), sums).is_none(), "{texts:?} is there twice");
        shown.trees.insert(texts, tree(&chains.of(entry), &frames));
    }
    shown
}

fn tree(branch: &Branch, frames: &Frames) -> Tree {
    Tree {
        addresses: branch.frames.iter().map(|&frame| frames.get(frame).address).collect(),
        own: (branch.own_weight, branch.own_samples),
        all: (branch.weight, branch.samples),
        branches: branch.branches.iter().map(|branch| tree(branch, frames)).collect(),
    }
}

const KEYS: [Key; 3] = [Key::Comm, Key::Dso, Key::Symbol];
/// With what is called, from the outermost caller on, and from the innermost function on.
fn caller() -> Order {
    Order::new(true, true)
}

fn callee() -> Order {
    Order::new(false, true)
}

fn whole(samples: &[Taken], keys: &[Key]) -> Shown {
    profile(samples, keys, caller(), Filter::default())
}

/// The entries by these keys, from the samples alone.
fn expected(samples: &[Taken], keys: &[Key]) -> BTreeMap<Vec<String>, Sums> {
    let mut sums: BTreeMap<Vec<String>, Sums> = BTreeMap::new();
    for Taken { task, chain, weight } in samples {
        let text = |function, key: &Key| match key {
            Key::Comm => comm(*task),
            Key::Dso => object(*task, function),
            _ => format!("[.] {:#018x}", address(function)),
        };
        let keys = |function| keys.iter().map(|key| text(function, key)).collect::<Vec<_>>();
        let own = sums.entry(keys(chain[0])).or_default();
        (own[0], own[1]) = (own[0] + weight, own[1] + 1);
        // It counts once, however often it is in the callchain.
        for keys in chain.iter().map(|&function| keys(function)).collect::<BTreeSet<_>>() {
            let sum = sums.entry(keys).or_default();
            (sum[2], sum[3]) = (sum[2] + weight, sum[3] + 1);
        }
    }
    sums
}

fn sum(entries: &BTreeMap<Vec<String>, Sums>) -> (u64, u64) {
    entries.values().fold((0, 0), |sum, own| (sum.0 + own[0], sum.1 + own[1]))
}

fn assert_adds_up(tree: &Tree) {
    let add = |sum: (u64, u64), more: (u64, u64)| (sum.0 + more.0, sum.1 + more.1);
    assert_eq!(tree.branches.iter().fold(tree.own, |sum, branch| add(sum, branch.all)), tree.all, "{tree:?}");
    tree.branches.iter().for_each(assert_adds_up);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn entries_are_sums_over_the_samples(samples in samples()) {
        for order in [caller(), callee()] {
            for keys in [&KEYS[..], &KEYS[..2], &KEYS[..1], &KEYS[1..], &KEYS[1..2]] {
                let shown = profile(&samples, keys, order, Filter::default());
                prop_assert_eq!(shown.entries, expected(&samples, keys));
            }
        }
    }

    #[test]
    fn shares_add_up_to_the_whole(samples in samples()) {
        let all = (samples.iter().map(|taken| taken.weight).sum::<u64>(), samples.len() as u64);
        for keys in [&KEYS[..], &KEYS[..1], &KEYS[1..], &[Key::Pid], &[]] {
            let shown = whole(&samples, keys);
            prop_assert_eq!((shown.weight, shown.samples), all);
            prop_assert_eq!(sum(&shown.entries), all);
            for [own, own_samples, total, total_samples] in shown.entries.into_values() {
                prop_assert!(own <= total && total <= all.0);
                prop_assert!(own_samples <= total_samples && total_samples <= all.1);
            }
        }
    }

    #[test]
    fn the_order_of_samples_changes_nothing(
        (samples, others) in samples().prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle()))
    ) {
        for order in [caller(), callee()] {
            let of = |samples: &[Taken]| profile(samples, &KEYS, order, Filter::default());
            prop_assert_eq!(of(&samples), of(&others));
        }
    }

    #[test]
    fn a_branch_is_what_ends_there_and_its_branches(samples in samples()) {
        for (order, keys) in [(caller(), &KEYS[..]), (callee(), &KEYS[..])] {
            let shown = profile(&samples, keys, order, Filter::default());
            for (entry, tree) in &shown.trees {
                assert_adds_up(tree);
                let [.., weight, count] = shown.entries[entry];
                prop_assert_eq!(tree.all, (weight, count), "{:?}", entry);
            }
        }
    }

    #[test]
    fn without_callees_a_tree_is_of_the_samples_in_its_entry(samples in samples()) {
        for caller_first in [true, false] {
            let shown = profile(&samples, &KEYS, Order::new(caller_first, false), Filter::default());
            for (entry, tree) in &shown.trees {
                assert_adds_up(tree);
                let [weight, count, ..] = shown.entries[entry];
                prop_assert_eq!(tree.all, (weight, count), "{:?}", entry);
            }
        }
    }

    #[test]
    fn callers_and_callees_are_views_of_the_same(samples in samples()) {
        let of = |order| profile(&samples, &KEYS, order, Filter::default());
        let (inwards, outwards) = (of(caller()), of(callee()));
        prop_assert_eq!(&inwards.entries, &outwards.entries);
        let totals = |shown: &Shown| shown.trees.values().map(|tree| tree.all).collect::<Vec<_>>();
        prop_assert_eq!(totals(&inwards), totals(&outwards));
    }

    #[test]
    fn filters_part_the_whole(samples in samples()) {
        let all = whole(&samples, &KEYS);
        let comms = (0..TASKS).map(|task| Filter { comms: vec![comm(task)], ..Filter::default() });
        let pids = (0..TASKS).map(|task| Filter { pids: vec![100 + task], ..Filter::default() });
        let objects = ["program", "/nonexistent/library", "own0", "own1", "/nonexistent/own2"];
        let objects = objects.into_iter().map(|name| Filter { objects: vec![name.into()], ..Filter::default() });
        for filters in [comms.collect::<Vec<_>>(), pids.collect(), objects.collect()] {
            let mut parts: BTreeMap<Vec<String>, Sums> = BTreeMap::new();
            for filter in filters {
                let part = profile(&samples, &KEYS, caller(), filter);
                // Shares stay those of all samples.
                prop_assert_eq!((part.weight, part.samples), (all.weight, all.samples));
                for (entry, sums) in part.entries {
                    let known = parts.entry(entry).or_default();
                    known.iter_mut().zip(sums).for_each(|(sum, more)| *sum += more);
                }
            }
            prop_assert_eq!(&parts, &all.entries);
        }
        let nobody = Filter { comms: vec!["nobody".into()], ..Filter::default() };
        prop_assert!(profile(&samples, &KEYS, caller(), nobody).entries.is_empty());
    }

    #[test]
    fn profiles_of_parts_add_up(samples in samples(), part in 0..100usize) {
        let (one, other) = samples.split_at(part * samples.len() / 100);
        let mut parts = BTreeMap::new();
        for part in [one, other].into_iter().filter(|part| !part.is_empty()) {
            for (entry, sums) in whole(part, &KEYS).entries {
                let known: &mut Sums = parts.entry(entry).or_default();
                known.iter_mut().zip(sums).for_each(|(sum, more)| *sum += more);
            }
        }
        prop_assert_eq!(parts, whole(&samples, &KEYS).entries);
    }

    #[test]
    fn fewer_keys_merge_entries(samples in samples()) {
        for keys in 0..KEYS.len() {
            let mut merged = BTreeMap::new();
            for (texts, [weight, count, ..]) in whole(&samples, &KEYS).entries {
                let known: &mut (u64, u64) = merged.entry(texts[..keys].to_vec()).or_default();
                *known = (known.0 + weight, known.1 + count);
            }
            let fewer = whole(&samples, &KEYS[..keys]).entries;
            merged.retain(|_, sums| *sums != (0, 0));
            let own = fewer.into_iter().map(|(texts, [weight, count, ..])| (texts, (weight, count)));
            prop_assert_eq!(merged, own.filter(|(_, sums)| *sums != (0, 0)).collect::<BTreeMap<_, _>>());
        }
    }
}
