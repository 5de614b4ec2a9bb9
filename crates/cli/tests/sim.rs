//! `perfuse sim`, the real program: what it prints, and its exit statuses.

use std::io::Write;
use std::process::{Command, Output, Stdio};

const SCENARIO: &str = "program worker\n  compute 10ms cycles=3000\nend\nstart worker\n\
                        open c cycles on worker\nrun 20ms\nexpect c 30000000\nshow counts\n";

/// Runs `perfuse sim` with this text on its standard input.
fn sim(arguments: &[&str], text: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_perfuse"))
        .arg("sim")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // It may have ended before it read all.
    let _ = child.stdin.take().expect("a pipe").write_all(text.as_bytes());
    child.wait_with_output().expect("it ends")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn counts_are_shown() {
    let output = sim(&["-"], SCENARIO);
    assert_eq!(output.status.code(), Some(0));
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    let cells: Vec<Vec<&str>> = lines.iter().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(cells[0], ["event", "count", "enabled", "counting", "share"]);
    assert_eq!(cells[1], ["c", "30000000", "10.000", "ms", "10.000", "ms", "100", "%"]);
    assert!(output.stderr.is_empty());
}

#[test]
fn what_is_otherwise_is_told_with_its_line() {
    let output = sim(&["-q", "-"], &SCENARIO.replace("30000000", "31000000"));
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert_eq!(text(&output.stderr), "-:7: c is 30000000, not 31000000\n");
}

#[test]
fn mistakes_have_a_status_of_their_own() {
    let output = sim(&["-"], "opne c cycles\n");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("-: line 1: no statement is called 'opne': do you mean 'open'?"));
    let output = sim(&["/nowhere/at/all"], "");
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("cannot read /nowhere/at/all"));
    assert_eq!(sim(&[], "").status.code(), Some(2));
}

#[test]
fn the_helps_example_is_a_scenario() {
    let help = sim(&["--help"], "");
    let help = text(&help.stdout);
    let example = help.split("done to them:").nth(1).and_then(|rest| rest.split("The exit status").next());
    let output = sim(&["-"], example.expect("an example"));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(!output.stdout.is_empty());
}

#[test]
fn several_files_are_played() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/scenarios");
    let files = ["rotation", "throttle", "cgroups"].map(|name| format!("{folder}/{name}.scenario"));
    let output = sim(&files.each_ref().map(String::as_str), "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("cpu 0"));
}
