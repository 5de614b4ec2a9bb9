//! Profiles of committed recordings, with numbers that were counted in what `perfuse script` prints of them.

use perfuse_data::PerfData;
use perfuse_profile::{Frames, Key, Least, LocalSymbols, Names, Plan, Profile, Trees, View, ViewPlan};
use std::collections::BTreeMap;
use std::path::Path;

/// Of each event, by the text of the key: samples in an entry, with what it called, and in its call tree.
fn entries(profile: &Profile, key: Key) -> Vec<BTreeMap<String, [u64; 3]>> {
    let symbols = LocalSymbols::default();
    let names = Names::new(profile, &symbols);
    let frames = Frames::new(&names, false);
    let entries = |event| {
        let view = View::new(profile, &frames, event, &ViewPlan::new(&[key]).with_callers());
        let trees = Trees::new(&view, true, Least::Weight(1));
        let entry = |entry| {
            (view.text(entry, key), [entry.self_samples, entry.total_samples, trees.of(entry).samples])
        };
        view.entries.iter().map(entry).collect()
    };
    (0..profile.events().len()).map(entries).collect()
}

fn read(recording: &str, keys: &[Key]) -> Profile {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/golden/fixtures");
    Profile::read(PerfData::open(folder.join(recording)).unwrap(), Plan::new(keys)).unwrap()
}

fn assert_entries(recording: &str, key: Key, expected: &[(&str, [u64; 2])]) {
    let expected = expected.iter().map(|&(text, [own, all])| (text.to_owned(), [own, all, all]));
    let expected: BTreeMap<_, _> = expected.collect();
    for of_event in entries(&read(recording, &[key]), key) {
        assert_eq!(of_event, expected, "{recording}");
    }
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

/// Only the leader samples; its samples tell what the other has counted since.
#[test]
fn samples_of_a_leader_are_samples_of_each_event_of_its_group() {
    assert_eq!(entries(&read("group.data", &[]), Key::Dso).len(), 2);
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

/// Profiles that were saved before are read as they were; what a new version of the format does to them shows here.
#[test]
fn a_profile_of_an_earlier_version_is_read() {
    let saved = Profile::load(include_bytes!("saved/chains.1.profile")).unwrap();
    let read = read("chains.data", &Plan::ALL_KEYS);
    for key in [Key::Comm, Key::Dso, Key::Pid, Key::Cpu] {
        assert_eq!(entries(&saved, key), entries(&read, key));
    }
    assert_eq!((saved.event_name(0), saved.keys()), (read.event_name(0), read.keys()));
}
