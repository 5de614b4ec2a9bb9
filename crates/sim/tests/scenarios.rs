//! The scenarios of the folder beside this one: every expectation in them must be met, every time alike.

use perfuse_sim::scenario::{Scenario, play};
use std::fs;
use std::path::PathBuf;

fn scenarios() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    let entries = fs::read_dir(folder).expect("the folder of scenarios");
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    all.sort();
    assert!(!all.is_empty());
    all
}

#[test]
fn all_expectations_are_met() {
    let mut wrong = String::new();
    for path in scenarios() {
        let text = fs::read_to_string(&path).expect("a text");
        let scenario: Scenario = text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let outcome = play(&scenario);
        assert!(outcome.met + outcome.failed.len() > 0, "{} expects nothing", path.display());
        for (line, found) in outcome.failed {
            wrong += &format!("{}:{line}: {found}\n{}", path.display(), outcome.text);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn what_happens_happens_again() {
    for path in scenarios() {
        let scenario: Scenario = fs::read_to_string(&path).expect("a text").parse().expect("a scenario");
        assert_eq!(play(&scenario).text, play(&scenario).text, "{}", path.display());
    }
}

#[test]
fn mistakes_are_told_with_their_line() {
    for (text, problem) in [
        ("frobnicate", "line 1: 'frobnicate' is no statement"),
        ("machine\n cpus x\nend", "line 2: the number of cpus is a number, not 'x'"),
        ("machine\n cpus 2", "line 2: the machine has no 'end'"),
        ("\nstart worker", "line 2: there is no program 'worker'"),
        ("open a cyles", "line 1: "),
        ("enable a", "line 1: no event 'a' is open here"),
        ("run 5", "line 1: a time is a number with ns, us, ms or s, not '5'"),
        ("run 5ms 6", "line 1: '6' is too much here"),
    ] {
        let error = text.parse::<Scenario>().expect_err(text).to_string();
        assert!(error.starts_with(problem), "{error}");
    }
}
