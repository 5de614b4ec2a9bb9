//! The profile of any samples: compared with sums over the samples themselves, and with itself when samples come in
//! another order, in parts, filtered, or are seen from the other end.

use perfuse_abi::record::{
    Callchain, CallchainContext, Comm, CpuMode, Decoded, Misc, Mmap2, Record, Sample, Tid,
};
use perfuse_abi::wire::{Text, Words};
use perfuse_abi::{Attr, EventType};
use perfuse_data::session::{Level, Session};
use perfuse_profile::symbols::Address;
use perfuse_profile::{
    Branch, Collector, Filter, Frames, Function, Key, Least, Names, ObjectRef, Order, Plan, Profile, Symbols,
    TaskFilter, TimedAddress, Trees, View, ViewPlan, difference,
};
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
    time_ns: u64,
}

fn samples() -> impl Strategy<Value = Vec<Taken>> {
    let taken = (0..TASKS, prop::collection::vec(0..FUNCTIONS, 1..6), 1..9u64, 0..1000u64);
    let taken = taken.prop_map(|(task, chain, weight, time_ns)| Taken { task, chain, weight, time_ns });
    prop::collection::vec(taken, 1..40)
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

/// The profile of samples, by way of a plan.
fn collected(samples: &[Taken], plan: Plan) -> Profile {
    let session = session();
    let mut collector = Collector::new(plan);
    collector.name_event(0, "cycles");
    samples.iter().for_each(|taken| add(&mut collector, &session, taken));
    collector.finish(&session)
}

fn add(collector: &mut Collector, session: &Session, Taken { task, chain, weight, time_ns }: &Taken) {
    let attr = Attr::new(EventType::SOFTWARE);
    let mut words = vec![CallchainContext::USER.0];
    words.extend(chain.iter().map(|&function| address(function)));
    let mut sample = Sample::default();
    sample.tid = Some(Tid { pid: 100 + task, tid: 100 + task });
    (sample.ip, sample.time) = (Some(address(chain[0])), Some(*time_ns));
    sample.callchain = Some(Callchain { words: Words::from(&words[..]) });
    collector.add(&perfuse_profile::Taken::new((0, &attr), session, &sample, Level::User, *weight));
}

/// How a profile is seen in the tests.
fn profile(samples: &[Taken], keys: &[Key], order: Order, filter: &Wanted) -> Shown {
    let mut plan = Plan::new(keys);
    plan.tasks = filter.tasks.clone();
    shown(&collected(samples, plan), keys, order, filter)
}

fn shown(profile: &Profile, keys: &[Key], order: Order, filter: &Wanted) -> Shown {
    let names = Names::new(profile, &());
    let frames = Frames::new(&names, false);
    let mut plan = ViewPlan::new(keys);
    (plan.order, plan.filter) = (order, filter.places.clone());
    let view = View::new(profile, &frames, 0, &plan);
    let trees = Trees::new(&view, true, Least::Weight(1));
    let mut shown = Shown { weight: view.event.weight, samples: view.event.samples, ..Shown::default() };
    for entry in &view.entries {
        let texts: Vec<_> = keys.iter().map(|&key| view.text(entry, key)).collect();
        let sums = [entry.self_weight, entry.self_samples, entry.total_weight, entry.total_samples];
        assert!(shown.entries.insert(texts.clone(), sums).is_none(), "{texts:?} is there twice");
        shown.trees.insert(texts, tree(&trees.of(entry), &frames));
    }
    shown
}

/// The samples that are wanted.
#[derive(Clone, Debug, Default)]
struct Wanted {
    tasks: TaskFilter,
    places: Filter,
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
    profile(samples, keys, caller(), &Wanted::default())
}

/// The entries by these keys, from the samples alone.
fn expected(samples: &[Taken], keys: &[Key]) -> BTreeMap<Vec<String>, Sums> {
    let mut sums: BTreeMap<Vec<String>, Sums> = BTreeMap::new();
    for Taken { task, chain, weight, .. } in samples {
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
                let shown = profile(&samples, keys, order, &Wanted::default());
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
            let of = |samples: &[Taken]| profile(samples, &KEYS, order, &Wanted::default());
            prop_assert_eq!(of(&samples), of(&others));
        }
    }

    #[test]
    fn a_branch_is_what_ends_there_and_its_branches(samples in samples()) {
        for (order, keys) in [(caller(), &KEYS[..]), (callee(), &KEYS[..])] {
            let shown = profile(&samples, keys, order, &Wanted::default());
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
            let shown = profile(&samples, &KEYS, Order::new(caller_first, false), &Wanted::default());
            for (entry, tree) in &shown.trees {
                assert_adds_up(tree);
                let [weight, count, ..] = shown.entries[entry];
                prop_assert_eq!(tree.all, (weight, count), "{:?}", entry);
            }
        }
    }

    #[test]
    fn callers_and_callees_are_views_of_the_same(samples in samples()) {
        let of = |order| profile(&samples, &KEYS, order, &Wanted::default());
        let (inwards, outwards) = (of(caller()), of(callee()));
        prop_assert_eq!(&inwards.entries, &outwards.entries);
        let totals = |shown: &Shown| shown.trees.values().map(|tree| tree.all).collect::<Vec<_>>();
        prop_assert_eq!(totals(&inwards), totals(&outwards));
    }

    #[test]
    fn filters_part_the_whole(samples in samples()) {
        let all = whole(&samples, &KEYS);
        let tasks = |tasks| Wanted { tasks, ..Wanted::default() };
        let comms = (0..TASKS).map(|task| tasks(TaskFilter { comms: vec![comm(task)], ..TaskFilter::default() }));
        let pids = (0..TASKS).map(|task| tasks(TaskFilter { pids: vec![100 + task], ..TaskFilter::default() }));
        let objects = ["program", "/nonexistent/library", "own0", "own1", "/nonexistent/own2"];
        let places = |name: &str| Filter { objects: vec![name.into()], ..Filter::default() };
        let objects = objects.into_iter().map(|name| Wanted { places: places(name), ..Wanted::default() });
        for filters in [comms.collect::<Vec<_>>(), pids.collect(), objects.collect()] {
            let mut parts: BTreeMap<Vec<String>, Sums> = BTreeMap::new();
            for filter in filters {
                let part = profile(&samples, &KEYS, caller(), &filter);
                // Shares stay those of all samples.
                prop_assert_eq!((part.weight, part.samples), (all.weight, all.samples));
                for (entry, sums) in part.entries {
                    let known = parts.entry(entry).or_default();
                    known.iter_mut().zip(sums).for_each(|(sum, more)| *sum += more);
                }
            }
            prop_assert_eq!(&parts, &all.entries);
        }
        let nobody = tasks(TaskFilter { comms: vec!["nobody".into()], ..TaskFilter::default() });
        prop_assert!(profile(&samples, &KEYS, caller(), &nobody).entries.is_empty());
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

    #[test]
    fn a_profile_is_the_same_after_it_was_saved(samples in samples()) {
        let mut plan = Plan::new(&Plan::ALL_KEYS);
        plan.times = true;
        let profile = collected(&samples, plan);
        let mut bytes = Vec::new();
        profile.save(&mut bytes).unwrap();
        let loaded = Profile::load(&bytes).unwrap();
        let of = |profile: &Profile| shown(profile, &KEYS, caller(), &Wanted::default());
        prop_assert_eq!(of(&loaded), of(&profile));
        prop_assert_eq!(loaded.sample_times(), profile.sample_times());
        let mut again = Vec::new();
        loaded.save(&mut again).unwrap();
        prop_assert_eq!(again, bytes);
    }

    #[test]
    fn damaged_profiles_are_refused_or_whole(
        samples in samples(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
    ) {
        let mut bytes = Vec::new();
        collected(&samples, Plan::new(&Plan::ALL_KEYS)).save(&mut bytes).unwrap();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        if let Ok(profile) = Profile::load(&bytes) {
            let _ = profile.clone().merge(&profile);
            // All that was taken can be looked at.
            for event in 0..profile.events().len() {
                let names = Names::new(&profile, &());
                let frames = Frames::new(&names, false);
                let view = View::new(&profile, &frames, event, &ViewPlan::new(&Plan::ALL_KEYS).with_callers());
                let trees = Trees::new(&view, true, Least::Weight(1));
                for entry in &view.entries {
                    Plan::ALL_KEYS.iter().for_each(|&key| drop(view.text(entry, key)));
                    trees.of(entry);
                }
            }
        }
    }

    #[test]
    fn windows_and_profiles_of_parts_merge_into_the_whole(samples in samples(), part in 0..100usize) {
        let mut plan = Plan::new(&KEYS);
        plan.times = true;
        let whole = collected(&samples, plan.clone());
        let of = |profile: &Profile| shown(profile, &KEYS, caller(), &Wanted::default());
        let at = part * samples.len() / 100;
        // One collector hands over two windows; two collectors share nothing.
        let (session, mut collector) = (session(), Collector::new(plan.clone()));
        collector.name_event(0, "cycles");
        samples[..at].iter().for_each(|taken| add(&mut collector, &session, taken));
        let first = collector.take(&session);
        samples[at..].iter().for_each(|taken| add(&mut collector, &session, taken));
        let windows = [first, collector.finish(&session)];
        let apart = [collected(&samples[..at], plan.clone()), collected(&samples[at..], plan)];
        for [one, other] in [windows, apart] {
            prop_assert_eq!(one.event(0).samples as usize, at);
            let mut merged = one.clone();
            merged.merge(&other).unwrap();
            prop_assert_eq!(of(&merged), of(&whole));
            prop_assert_eq!(merged.sample_times().len(), samples.len());
            let mut backwards = other;
            backwards.merge(&one).unwrap();
            prop_assert_eq!(of(&backwards), of(&whole));
        }
    }

    #[test]
    fn a_part_of_the_time_is_the_profile_of_its_samples(samples in samples(), start in 0..1000u64, len in 1..1000u64) {
        let mut plan = Plan::new(&KEYS);
        plan.times = true;
        let whole = collected(&samples, plan.clone());
        let span = start..start + len;
        let inside: Vec<Taken> =
            samples.iter().filter(|taken| span.contains(&taken.time_ns)).cloned().collect();
        let of = |profile: &Profile| shown(profile, &KEYS, caller(), &Wanted::default());
        let part = whole.between(span.clone());
        prop_assert_eq!(of(&part), of(&collected(&inside, plan)));
        let steps = whole.histogram(0, span, 7, |_| true);
        prop_assert_eq!(steps.iter().sum::<u64>(), part.event(0).weight);
    }

    #[test]
    fn differences_are_of_entries_that_read_the_same(one in samples(), other in samples()) {
        let profiles = [&one, &other].map(|samples| collected(samples, Plan::new(&KEYS)));
        let names = [0, 1].map(|at| Names::new(&profiles[at], &()));
        let frames = names.each_ref().map(|names| Frames::new(names, false));
        let plan = ViewPlan::new(&KEYS).with_callers();
        let views = [0, 1].map(|at| View::new(&profiles[at], &frames[at], 0, &plan));
        let changed = difference(&views[0], &views[1], &KEYS);
        for (side, samples) in [one, other].iter().enumerate() {
            let mut sums = expected(samples, &KEYS);
            for entry in &changed {
                let [weight, count, total, _] = sums.remove(&entry.texts).unwrap_or_default();
                let shown = [entry.self_weights, entry.self_samples, entry.total_weights].map(|of| of[side]);
                prop_assert_eq!(shown, [weight, count, total]);
            }
            prop_assert!(sums.is_empty(), "{:?}", sums);
        }
        let growths: Vec<f64> = changed.iter().map(|entry| entry.growth().abs()).collect();
        prop_assert!(growths.is_sorted_by(|one, other| one >= other));
    }

    #[test]
    fn neighbours_are_the_callers_and_callees_of_the_chains(samples in samples()) {
        let profile = collected(&samples, Plan::new(&[]));
        let names = Names::new(&profile, &());
        let frames = Frames::new(&names, false);
        let view = View::new(&profile, &frames, 0, &ViewPlan::new(&[Key::Symbol]).with_callers());
        for entry in &view.entries {
            let ip = frames.get(entry.frame).ip;
            let mut sums: [BTreeMap<Option<u64>, u64>; 2] = Default::default();
            for Taken { chain, weight, .. } in &samples {
                let is_it = |at: usize| chain.get(at).is_some_and(|&function| address(function) == ip);
                let met = (0..chain.len()).filter(|&at| is_it(at));
                let next = |at: Option<usize>| at.and_then(|at| chain.get(at)).map(|&function| address(function));
                let ends = met.flat_map(|at| [(0, next(at.checked_add(1))), (1, next(at.checked_sub(1)))]);
                for (side, end) in ends.collect::<BTreeSet<_>>() {
                    *sums[side].entry(end).or_default() += weight;
                }
            }
            let told = view.neighbours(entry);
            for (side, list) in [told.callers, told.callees].into_iter().enumerate() {
                let list: BTreeMap<_, _> =
                    list.into_iter().map(|(frame, sum)| (frame.map(|frame| frames.get(frame).ip), sum)).collect();
                prop_assert_eq!(&list, &sums[side]);
            }
        }
    }
}

/// Two functions at each address, the inner one inlined into the outer, on a line that the address tells.
struct Inlining;

impl Symbols for Inlining {
    fn look_up(&self, _: ObjectRef<'_>, at: &[TimedAddress], found: &mut dyn FnMut(usize, Function<'_>)) {
        // In no order of the addresses.
        for (index, address) in at.iter().enumerate().rev() {
            for (depth, name) in ["inner", "outer"].into_iter().enumerate() {
                let Address::FileOffset(place) = address.address else { continue };
                let start = place & !0xff;
                let name = || format!("{name}{}", start >> 20);
                let (id, offset) = (start << 1 | depth as u64, place - start);
                let line = Some(("main.c", offset as u32 + depth as u32));
                found(index, Function { id, name: &name, start, size: 0x100, offset, is_data: false, line });
            }
        }
    }

    fn missing(&self, _: ObjectRef<'_>) -> Option<String> {
        None
    }
}

/// Functions 0 and 1 are in the program, 2 in the library; all are at other lines.
#[test]
fn one_address_may_be_several_frames() {
    let taken = |chain: &[u64], weight| Taken { task: 0, chain: chain.to_vec(), weight, time_ns: 0 };
    let samples = [taken(&[0, 2], 5), taken(&[1, 2], 3)];
    let profile = collected(&samples, Plan::new(&[]));
    let names = Names::new(&profile, &Inlining);
    names.look_up_all();
    let frames = Frames::new(&names, false);
    let view = View::new(&profile, &frames, 0, &ViewPlan::new(&[Key::Symbol]).with_callers());
    let trees = Trees::new(&view, true, Least::Weight(1));
    let sums: BTreeMap<String, [u64; 2]> = view
        .entries
        .iter()
        .map(|entry| (view.text(entry, Key::Symbol), [entry.self_weight, entry.total_weight]))
        .collect();
    let expected = [
        ("[.] inner1 (inlined)", [8, 8]),
        ("[.] inner2 (inlined)", [0, 8]),
        ("[.] outer1", [0, 8]),
        ("[.] outer2", [0, 8]),
    ];
    assert_eq!(sums, expected.map(|(name, sums)| (name.to_owned(), sums)).into());
    let entry =
        |name: &str| view.entries.iter().find(|entry| view.text(entry, Key::Symbol).contains(name)).unwrap();
    let path = &trees.of(entry("outer2")).branches[0].frames;
    let path: Vec<_> = path.iter().map(|&frame| frames.get(frame).symbol.clone().unwrap()).collect();
    assert_eq!(path.iter().map(|name| &**name).collect::<Vec<_>>(), ["outer2", "inner2", "outer1", "inner1"]);
    let lines = |name| -> Vec<(u32, u64, u64)> {
        let places = view.places(&names, entry(name));
        places
            .iter()
            .map(|place| (place.line.as_ref().unwrap().1, place.self_weight, place.total_weight))
            .collect()
    };
    assert_eq!(lines("inner1"), [(0, 5, 5), (0x10, 3, 3)]);
    assert_eq!(lines("outer1"), [(1, 0, 5), (0x11, 0, 3)]);
    assert_eq!(lines("outer2"), [(0x21, 0, 8)]);
}
