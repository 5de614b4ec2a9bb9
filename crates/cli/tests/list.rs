//! `perfuse list`, the real program: as the user who runs the tests, as a user without privilege, and on a terminal.

use perfuse_events::{EventList, Machine};
use perfuse_testkit::{Outcome, Sandbox, Skip, Terminal, need};
use serde_json::Value;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::{Command, Output};

perfuse_testkit::suite! {
    smoke:
        a_file_in_the_form_of_perf;
    measurements:
        everything_that_is_listed_can_be_said,
        what_works_works_and_what_does_not_is_told,
        a_user_sees_what_he_may_not_have,
        words_choose,
        details_are_those_of_the_machine,
        on_a_terminal_it_is_searched_by_typing;
}

fn program() -> std::ffi::OsString {
    std::env::var_os("PERFUSE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_perfuse").into())
}

fn perfuse(arguments: &[&str]) -> Output {
    Command::new(program()).args(arguments).output().expect("the program starts")
}

fn list(arguments: &[&str]) -> String {
    let output = perfuse(&[&["list"], arguments].concat());
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
fn json(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{output:?}");
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(all["schema"], "perfuse.list/1");
    all["events"].as_array().expect("a list").clone()
}

fn a_file_in_the_form_of_perf() -> Outcome {
    let file = std::env::temp_dir().join(format!("perfuse-list-{}.json", std::process::id()));
    let output = perfuse(&["list", "-j", "-o", file.to_str().expect("UTF-8"), "sw", "metric"]);
    let text = std::fs::read_to_string(&file);
    let _ = std::fs::remove_file(&file);
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    let all: Vec<Value> = serde_json::from_str(&text.expect("a file")).expect("JSON");
    let of = |key: &str, name: &str| all.iter().find(|entry| entry[key] == name).expect(name).clone();
    assert_eq!(of("EventName", "task-clock")["EventType"], "Software event");
    assert_eq!(of("EventName", "page-faults")["EventAlias"], "faults");
    assert!(of("MetricName", "page_faults_per_second")["MetricExpr"].is_string());
    Ok(())
}

fn everything_that_is_listed_can_be_said() -> Outcome {
    let machine = Machine::new();
    let names = list(&["--raw-dump"]);
    assert!(names.lines().count() >= 57, "{names}");
    for name in names.lines() {
        let parsed: EventList = name.parse().unwrap_or_else(|error| panic!("{error}"));
        parsed.resolve(&machine).unwrap_or_else(|error| panic!("{error}"));
    }
    Ok(())
}

fn what_works_works_and_what_does_not_is_told() -> Outcome {
    need::root()?;
    for event in json(&perfuse(&["list", "--json", "hw", "sw", "pmu"])) {
        let name = event["name"].as_str().unwrap();
        let output = perfuse(&["stat", "-a", "-x", ",", "-e", name, "true"]);
        let counted =
            output.status.success() && !String::from_utf8_lossy(&output.stderr).contains("<not supported>");
        assert_eq!(event["works"] == "yes", counted, "{event}: {output:?}");
        assert_eq!(event["works"] == "no", event["reason"].is_string(), "{event}");
    }
    Ok(())
}

fn a_user_sees_what_he_may_not_have() -> Outcome {
    need::root()?;
    let paranoid = need::sysctl("kernel/perf_event_paranoid")?;
    if paranoid < 2 {
        return Err(Skip::needs("kernel.perf_event_paranoid of 2 or more", paranoid));
    }
    let program = File::open(program()).expect("the program is built");
    let output = Sandbox::new()
        .unprivileged()
        .command(format!("/proc/self/fd/{}", program.as_raw_fd()))
        .args(["list", "--json", "sw", "tracepoint"])
        .current_dir("/")
        .output()
        .expect("the program starts");
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let works = |name: &str| {
        let events = all["events"].as_array().unwrap();
        events.iter().find(|event| event["name"] == name).map(|event| event["works"].clone())
    };
    assert_ne!(works("page-faults"), Some("yes".into()));
    assert_eq!(works("context-switches"), Some("no".into()), "only the kernel switches");
    let missing = all["cannot_be_listed"][0]["reason"].as_str();
    let readable = missing.is_none();
    assert!(readable || missing.is_some_and(|text| text.contains("tracing file system")), "{missing:?}");
    Ok(())
}

fn words_choose() -> Outcome {
    let names = |words: &[&str]| list(&[&["--raw-dump"], words].concat());
    assert_eq!(names(&["fault", "sw"]).lines().count(), 5);
    assert_eq!(names(&["LLC-*-misses"]).lines().count(), 3);
    let output = perfuse(&["list", "cycels"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("did you mean cycles"), "{output:?}");
    Ok(())
}

fn details_are_those_of_the_machine() -> Outcome {
    need::root()?;
    let tracefs = need::tracefs()?;
    let id = std::fs::read_to_string(tracefs.join("events/sched/sched_switch/id")).unwrap();
    let id: u64 = id.trim().parse().unwrap();
    let text = list(&["-v", "sched:sched_switch"]);
    assert!(text.contains(&format!("type 2, config {id:#x}")) && text.contains("prev_comm: char"), "{text}");
    let events = json(&perfuse(&["list", "--json", "sched:sched_switch"]));
    assert_eq!(events[0]["config"][0], format!("{id:#x}"));
    let fields: Vec<_> = events[0]["fields"].as_array().unwrap().iter().map(|field| &field["name"]).collect();
    assert!(fields.contains(&&Value::from("next_pid")), "{fields:?}");
    Ok(())
}

fn on_a_terminal_it_is_searched_by_typing() -> Outcome {
    let mut terminal = Terminal::new(24, 80)?;
    let mut child = Command::new(program())
        .arg("list")
        .env("TERM", "xterm")
        .stdin(terminal.side())
        .stdout(terminal.side())
        .stderr(terminal.side())
        .spawn()
        .expect("the program starts");
    terminal.read_until("type to search");
    terminal.types(b"minor");
    terminal.read_until("needed no I/O");
    terminal.types(b"\r");
    // The name of the event, as OSC 52 wants it.
    terminal.read_until("\x1b]52;c;bWlub3ItZmF1bHRz\x07");
    terminal.types(b"\x1b");
    // The screen from before comes back.
    terminal.read_until("\x1b[?1049l");
    assert!(child.wait().expect("it ends").success());
    Ok(())
}
