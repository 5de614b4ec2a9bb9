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
    assert!(
        text(&output.stderr)
            .contains("-: line 1, column 1: no statement is called 'opne': do you mean 'open'?")
    );
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

#[test]
fn a_folder_is_played_and_summed_up() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/scenarios");
    let output = sim(&[folder], "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let last = text(&output.stdout).lines().last().unwrap_or_default();
    assert!(last.ends_with(" expectations met, 0 not"), "{last}");
    assert!(sim(&["-q", folder], "").stdout.is_empty());
    let output = sim(&[concat!(env!("CARGO_MANIFEST_DIR"), "/src")], "");
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("has no file *.scenario"));
}

#[test]
fn json_has_counts_records_and_turns() {
    let scenario = "program worker\n  compute 10ms cycles=3000\nend\nstart worker\n\
                    open c cycles on worker period=10000000 sample=TID,TIME ring=1\nopen far cycles cpu 9\n\
                    run 20ms\nexpect c 30000000\nexpect c 7\n";
    let output = sim(&["--json", "-"], scenario);
    assert_eq!(output.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a line of JSON");
    assert_eq!((&json["met"], &json["ns"]), (&1.into(), &20_000_000.into()));
    assert_eq!(json["failed"][0]["line"], 9);
    let (counted, refused) = (&json["events"][0], &json["events"][1]);
    assert_eq!((&counted["value"], &counted["running_ns"]), (&30_000_000.into(), &10_000_000.into()));
    assert_eq!(counted["state"], "exit");
    let kinds: Vec<&str> =
        counted["records"].as_array().expect("records").iter().filter_map(|r| r["kind"].as_str()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "SAMPLE").count(), 3, "{kinds:?}");
    assert_eq!((&refused["refused"], &refused["value"]), (&"EINVAL".into(), &serde_json::Value::Null));
    assert_eq!(json["turns"][0]["task"]["name"], "worker");
}

#[test]
fn a_mistake_is_shown_where_it_is_and_the_others_are_played() {
    let folder = std::env::temp_dir().join(format!("perfuse-sim-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("a.scenario"), "open a cycles perid=3\n").expect("a file");
    std::fs::write(folder.join("b.scenario"), SCENARIO).expect("a file");
    let output = sim(&[folder.to_str().expect("UTF-8")], "");
    std::fs::remove_dir_all(&folder).expect("it is ours");
    assert_eq!(output.status.code(), Some(2));
    let told: Vec<&str> = text(&output.stderr).lines().collect();
    assert!(told[0].contains("a.scenario: line 1, column 15: an event has no 'perid'"), "{told:?}");
    assert_eq!(told[1..], ["    open a cycles perid=3", "                  ^"]);
    assert!(text(&output.stdout).ends_with("1 scenarios: 1 expectations met, 0 not, 1 no scenarios\n"));
}

/// Another seed changes all that a scenario leaves to chance; the same seed repeats it.
#[test]
fn a_seed_can_be_given() {
    let scenario = "machine\n refuses 3\nend\nprogram w\n compute 100ms cycles=1000\nend\nstart w\n\
                    open a cycles on w\nopen b cycles on w\nrun 90ms\nshow counts\n";
    let counts = |seed: &str| sim(&["--seed", seed, "-"], scenario).stdout;
    assert_eq!(counts("1"), counts("1"));
    assert!((2..20).any(|seed| counts(&seed.to_string()) != counts("1")));
}

/// `--kernel sim:FILE`: a recording of the machine, which is the same each time.
#[test]
fn the_machine_of_a_scenario_is_recorded() {
    let folder = std::env::temp_dir().join(format!("perfuse-sim-kernel-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("a.scenario"), SCENARIO).expect("a file");
    let run = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perfuse"));
        command.args(line.split_whitespace()).current_dir(&folder);
        command.env("PERFUSE_CONFIG", "").env_remove("PERFUSE_KERNEL");
        let output = command.output().expect("the program starts");
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        output.stdout
    };
    let record = || {
        let _ = std::fs::remove_file(folder.join("made.data"));
        run("record -q --kernel sim:a.scenario -p 100 -c 10000000 -o made.data");
        std::fs::read(folder.join("made.data")).expect("a recording")
    };
    assert!(record() == record());
    let samples = run("script -i made.data -F comm,tid,time,period,event");
    std::fs::remove_dir_all(&folder).expect("it is ours");
    let samples: Vec<Vec<&str>> =
        text(&samples).lines().map(|line| line.split_whitespace().collect()).collect();
    let times: Vec<&str> = samples.iter().map(|words| words[2]).collect();
    assert_eq!(times, ["0.003333:", "0.006666:", "0.010000:"], "{samples:?}");
    assert!(samples.iter().all(|words| words[..2] == ["worker", "100"]), "{samples:?}");
}
