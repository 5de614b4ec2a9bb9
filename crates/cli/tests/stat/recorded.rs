//! `stat record` and `stat report`, by itself and in exchange with Linux' perf.

use super::*;
use serde_json::Value;

/// Runs it below `dir`; what it wrote to standard error.
fn told(program: &Path, dir: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    plainly(command.arg("stat").args(arguments).current_dir(dir));
    let output = output(&mut command);
    assert!(output.status.success(), "{arguments:?}: {:?} {}", output.status, text(&output.stderr));
    text(&output.stderr)
}

pub(super) fn counts_are_recorded_and_reported() -> Outcome {
    let scratch = Scratch::new("record");
    let file = scratch.join("counts");
    let path = file.to_str().expect("a plain path");
    let events = "task-clock,faults,duration_time";
    let shown = results(&["record", "-o", path, "--json", "-e", events, "sh", "-c", BUSY]);
    let reported = results(&["report", "-i", path, "--json"]);
    let of = |text: &str| serde_json::from_str::<Value>(text).expect("one object");
    let (shown, reported) = (of(&shown), of(&reported));
    for index in 0..2 {
        let (shown, reported) = (&shown["events"][index], &reported["events"][index]);
        assert_eq!((&shown["name"], &shown["value"]), (&reported["name"], &reported["value"]));
        assert!(shown["value"].as_u64().is_some_and(|value| value > 0), "{shown}");
    }
    assert_eq!(shown["events"][2]["value"], reported["events"][2]["value"], "{reported}");
    assert!(reported["target"]["recording"].as_str().is_some_and(|line| line.contains(BUSY)), "{reported}");
    // The file of before is kept, and intervals are recorded each.
    results(&["-e", "faults", "record", "-o", path, "-I", "30", "sh", "-c", BUSY]);
    assert!(scratch.join("counts.old").exists());
    let text = results(&["report", "-i", path, "--json"]);
    let objects: Vec<Value> = text.lines().map(&of).collect();
    let value = |object: &Value| object["events"][0]["value"].as_u64().unwrap_or(0);
    let (total, intervals) = objects.split_last().expect("there is a total");
    assert_eq!(intervals.iter().map(value).sum::<u64>(), value(total), "{text}");
    Ok(())
}

pub(super) fn recordings_of_counts_are_exchanged_with_perf() -> Outcome {
    need::root()?;
    let perf = need::perf()?;
    need::no_hardware_pmu()?;
    let scratch = Scratch::new("exchange");
    let cases: &[&[&str]] = &[
        &["-e", "task-clock,faults,cs", "--", "sh", "-c", BUSY],
        &["-a", "-e", "cpu-clock,cs", "sleep", "0.1"],
        &["-a", "--per-core", "-e", "cpu-clock,cs", "sleep", "0.1"],
        &["-a", "-A", "-e", "cs", "sleep", "0.1"],
        &["-a", "-I", "40", "-e", "faults", "sleep", "0.1"],
    ];
    for (number, case) in cases.iter().enumerate() {
        for (name, recorder) in [("ours", program()), ("perfs", perf.clone())] {
            let file = format!("{name}{number}");
            told(&recorder, &scratch.0, &[&["record", "-o", &file], *case].concat());
            let theirs = told(&perf, &scratch.0, &["report", "-i", &file]);
            let ours = told(&program(), &scratch.0, &["report", "--perf-style", "-i", &file]);
            assert_eq!(ours, theirs, "{name} {case:?}");
        }
        // perfuse sums up a recording in the other ways that perf can.
        if case.contains(&"-A") {
            let file = format!("perfs{number}");
            let theirs = told(&perf, &scratch.0, &["report", "--per-socket", "-i", &file]);
            let ours = told(&program(), &scratch.0, &["report", "--per-socket", "--perf-style", "-i", &file]);
            assert_eq!(ours, theirs);
        }
    }
    // Through pipes too.
    for (writer, reader) in [(program(), perf.clone()), (perf, program()), (program(), program())] {
        let mut command = Command::new("sh");
        let line =
            "\"$0\" stat record -o - -e faults true 2>/dev/null | PERFUSE_STYLE=perf \"$1\" stat report -i -";
        plainly(command.args(["-c", line]).arg(&writer).arg(&reader));
        let text = text(&output(&mut command).stderr);
        assert!(text.contains("counter stats for 'pipe':") && text.contains(" faults "), "{writer:?} {text}");
    }
    Ok(())
}

pub(super) fn what_is_no_recording_of_counts_is_told() -> Outcome {
    let scratch = Scratch::new("none");
    let failed = |arguments: &[&str], status: i32, why: &str| {
        let mut command = stat(arguments);
        let output = output(command.current_dir(&scratch.0));
        assert_eq!(output.status.code(), Some(status), "{arguments:?} {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    };
    failed(&["report", "-i", "missing"], 125, "no such file");
    failed(&["record", "-r", "3", "true"], 2, "one run");
    failed(&["-x,", "report"], 2, "stand behind it");
    let mut command = Command::new(program());
    plainly(
        command.args(["record", "-q", "-o", "samples", "-e", "cpu-clock", "true"]).current_dir(&scratch.0),
    );
    if output(&mut command).status.success() {
        failed(&["report", "-i", "samples"], 125, "no counts in it");
    }
    Ok(())
}
