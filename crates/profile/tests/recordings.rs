//! Profiles of committed recordings, with numbers that were counted in what `perfuse script` prints of them.

use perfuse_abi::record::Record;
use perfuse_data::session::{Level, Session};
use perfuse_data::{Ordered, PerfData};
use perfuse_profile::{Chains, Collector, Frames, Key, Least, Names, Plan, Report};
use std::collections::BTreeMap;
use std::path::Path;

/// Of each event, by the text of the key: samples in an entry, with what it called, and in its call tree.
fn entries(recording: &str, key: Key) -> Vec<BTreeMap<String, [u64; 3]>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/golden/fixtures");
    let mut plan = Plan::new(&[key]);
    plan.order.with_callees = true;
    let (keys, mut session) = (plan.keys.clone(), Session::new());
    let mut collector = Collector::new(plan, Frames::new(true));
    let mut records = Ordered::new(PerfData::open(folder.join(recording)).unwrap());
    while let Some(entry) = records.next().unwrap() {
        if !entry.is_kernel() {
            continue;
        }
        let decoded = entry.decode().unwrap();
        session.apply(&decoded);
        match (&decoded.record, entry.event_index(), entry.event()) {
            (Record::Sample(sample), Some(index), Some(event)) => {
                let level = Level::of(decoded.misc);
                collector.add((index, &event.attr), &session, sample, level, event.weight(sample));
            }
            _ => collector.session_changed(),
        }
    }
    let (profiles, frames) = collector.finish();
    let entries = |profile| {
        let report = Report::new(profile, &frames, &[key]);
        let names = Names::new(&frames, &session, profile, &keys);
        let chains = Chains::new(&report, &frames, true, Least::Weight(1));
        let entry = |entry| {
            (names.text(entry, key), [entry.self_samples, entry.total_samples, chains.of(entry).samples])
        };
        report.entries.iter().map(entry).collect()
    };
    profiles.iter().map(entries).collect()
}

fn assert_entries(recording: &str, key: Key, expected: &[(&str, [u64; 2])]) {
    let expected = expected.iter().map(|&(text, [own, all])| (text.to_owned(), [own, all, all]));
    assert_eq!(entries(recording, key), [expected.collect::<BTreeMap<_, _>>()], "{recording}");
}

#[test]
fn tasks_of_a_file_and_of_a_pipe() {
    for recording in ["chains.data", "pipe.data"] {
        let tasks = [("grind", [17, 17]), ("grind-io", [13, 13]), ("sh", [10, 10])];
        assert_entries(recording, Key::Comm, &tasks);
    }
}

#[test]
fn objects_and_what_they_call() {
    let objects = [
        ("[demo]", [1, 1]),
        ("[kernel.kallsyms]", [7, 8]),
        ("[unknown]", [1, 4]),
        ("grind", [18, 29]),
        ("libtext.so", [7, 9]),
        ("sh", [6, 10]),
    ];
    assert_entries("chains.data", Key::Dso, &objects);
}

#[test]
fn the_leader_of_a_group_alone_has_samples() {
    let objects = [
        ("[demo]", [1, 1]),
        ("[kernel.kallsyms]", [6, 7]),
        ("[unknown]", [0, 3]),
        ("grind", [8, 16]),
        ("libtext.so", [5, 9]),
        ("sh", [0, 3]),
    ];
    assert_entries("group.data", Key::Dso, &objects);
}

/// perf calls a thread by its number if no record tells its name.
#[test]
fn threads_without_a_name_are_told_by_number() {
    assert_entries("kinds.data", Key::Comm, &[(":401", [1, 1]), ("grind", [2, 2])]);
    assert_entries("kinds.data", Key::Pid, &[("    200:grind", [2, 2]), ("    401::401", [1, 1])]);
}
