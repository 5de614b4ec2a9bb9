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
        ("frobnicate", "line 1: no statement is called 'frobnicate': there are machine, "),
        ("opne c cycles", "line 1: no statement is called 'opne': do you mean 'open'? there are "),
        ("machine\n cpus x\nend", "line 2: the number of cpus is a number, not 'x'"),
        ("machine\n cpus 1000\nend", "line 2: the number of cpus is 1 to 256, not 1000"),
        ("machine\n conters 2\nend", "line 2: a machine has no 'conters': do you mean 'counters'?"),
        ("machine\n cpus 2", "line 2: the machine has no 'end'"),
        (
            "program p\n compute 1ms cycle=3\nend",
            "line 2: the hardware has no event 'cycle': do you mean 'cycles'?",
        ),
        ("\nstart worker", "line 2: no program is called 'worker'"),
        ("program worker\nend\nstart woker", "line 3: no program is called 'woker': do you mean 'worker'?"),
        ("open a cyles", "line 1: "),
        ("open a cycles pined", "line 1: an event has no 'pined': do you mean 'pinned'?"),
        ("open a cycles perid=3", "line 1: an event has no 'perid': do you mean 'period'?"),
        ("open a cycles sample=TIM", "line 1: samples have no 'TIM': do you mean 'TID'?"),
        ("open records cycles", "line 1: an event cannot be called 'records'"),
        ("enable a", "line 1: no event is open as 'a'"),
        ("open a cycles on nobody", "line 1: no task or program is called 'nobody'"),
        ("run 5", "line 1: a time is a number with ns, us, ms or s, not '5'"),
        ("run 5ms 6", "line 1: '6' is one word too many"),
        ("run 99999999s", "line 1: '99999999s' is too long"),
        (
            "set perf_event_paranoi 2",
            "line 1: no file is called 'perf_event_paranoi': do you mean 'perf_event_paranoid'?",
        ),
        ("open a cycles\nexpect a.enabld 3", "line 2: an event has no 'enabld': do you mean 'enabled'?"),
        ("open a cycles\nexpect a state actve", "line 2: no state is called 'actve': do you mean 'active'?"),
        (
            "open a cycles\nexpect records a SAMPL 3",
            "line 2: no records are called 'SAMPL': do you mean 'SAMPLE'?",
        ),
        ("open a cycles\nenable a fails EINVALL", "line 2: 'EINVALL' is no errno"),
        ("open a cycles cpu 0\nexpect a x", "line 2: a value is a number, not 'x'"),
    ] {
        let error = text.parse::<Scenario>().expect_err(text);
        let told = format!("line {}: {}", error.line, error.problem);
        assert!(told.starts_with(problem), "{text}: {told}");
    }
}

#[test]
fn mistakes_are_told_with_their_column() {
    for (text, line, column) in [
        ("opne c cycles", 1, 1),
        ("run 5ms 6", 1, 9),
        ("  run", 1, 7),
        ("machine\n cpus x\nend", 2, 7),
        ("machine\n cpus 2", 2, 0),
        ("open a cycles pined # no", 1, 15),
        ("\n start worker", 2, 8),
        ("open a cycles\nexpect a+bb.enabled 3", 2, 8),
        ("open a cycles on nobody", 1, 18),
        ("open b cycles on ä cpu x", 1, 24),
    ] {
        let error = text.parse::<Scenario>().expect_err(text);
        assert_eq!((error.line, error.column), (line, column), "{text}: {error}");
    }
    let error = "open a cycles perid=3".parse::<Scenario>().expect_err("a mistake");
    let lines: Vec<String> = error.explain().lines().map(str::to_owned).collect();
    assert_eq!(lines[1..], ["    open a cycles perid=3", "                  ^"]);
    assert!(lines[0].starts_with("line 1, column 15: an event has no 'perid'"), "{}", lines[0]);
}

#[test]
fn the_documents_examples_are_scenarios() {
    let text =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scenarios.md")).expect("it");
    let examples: Vec<&str> =
        text.split("```scenario\n").skip(1).map(|rest| rest.split("```").next().unwrap_or("")).collect();
    assert!(examples.len() > 4);
    for example in examples {
        let scenario: Scenario = example.parse().unwrap_or_else(|error| panic!("{error}\n{example}"));
        let outcome = play(&scenario);
        assert!(outcome.failed.is_empty() && outcome.met > 0, "{:?}\n{example}", outcome.failed);
    }
}
