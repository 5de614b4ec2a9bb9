//! `perfuse compare` as its users run it: the real program and real commands.

use perfuse_sys::Errno;
use perfuse_testkit::{Outcome, Sandbox, Skip, need, signals, suite, wait};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

suite! {
    deterministic:
        a_saved_comparison_is_shown_again,
        wrong_command_lines_are_explained;
    smoke:
        json_has_every_run;
    measurements:
        equal_commands_are_not_told_apart,
        a_tenth_more_cpu_time_is_found,
        the_order_of_runs_is_mixed_and_repeatable,
        a_limit_that_is_passed_is_exit_status_3,
        a_baseline_is_compared_with,
        tables_are_exported,
        parameters_and_preparations,
        input_output_and_shells,
        failing_commands_are_told,
        events_that_cannot_be_counted_are_said_once,
        without_perf_event_open_it_is_measured_by_ptrace,
        functions_of_both_commands_are_compared,
        precision_is_reached,
        ctrl_c_keeps_the_finished_rounds;
}

/// A shell loop of so many turns; ten thousand take some 10 ms.
fn busy(turns: u32) -> String {
    format!("sh -c 'i=0; while [ $i -lt {turns} ]; do i=$((i+1)); done'")
}

fn compare(arguments: &[&str]) -> Command {
    let program =
        std::env::var_os("PERFUSE_BIN").map_or_else(|| env!("CARGO_BIN_EXE_perfuse").into(), PathBuf::from);
    let mut command = Command::new(program);
    command.arg("compare").args(arguments).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    compare(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard output of a comparison that succeeds.
fn results(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {:?} {}", output.status, text(&output.stderr));
    text(&output.stdout)
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let arguments: Vec<_> = ["--json"].iter().chain(arguments).copied().collect();
    serde_json::from_str(&results(&arguments)).expect("JSON")
}

/// A measure of `--json`.
fn measure<'a>(document: &'a serde_json::Value, id: &str) -> &'a serde_json::Value {
    let measures = document["measures"].as_array().expect("measures");
    measures.iter().find(|measure| measure["id"] == id).unwrap_or_else(|| panic!("no {id} in {document}"))
}

/// A folder of a test, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("perfuse-compare-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a temporary folder");
        Scratch(dir)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A busy machine may spoil one measurement or two: one of three has to be as it should.
fn patiently(mut measured: impl FnMut() -> Result<(), String>) -> Outcome {
    let told: Vec<String> = (0..3).map_while(|_| measured().err()).collect();
    assert!(told.len() < 3, "{told:#?}");
    Ok(())
}

fn when(holds: bool, otherwise: impl std::fmt::Display) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_string()) }
}

fn equal_commands_are_not_told_apart() -> Outcome {
    let command = busy(3000);
    patiently(|| {
        let called = (0..20).filter(|_| {
            let found = json(&["-r", "10", "-e", "page-faults", &command, &command]);
            let by = found["by"].as_str().expect("a measure decides").to_owned();
            let verdict = &measure(&found, &by)["results"][1]["difference"]["verdict"];
            verdict == "less" || verdict == "more"
        });
        let called = called.count();
        when(called <= 1, format!("{called} of 20 comparisons of a command with itself saw a difference"))
    })
}

fn a_tenth_more_cpu_time_is_found() -> Outcome {
    let (old, new) = (busy(20_000), busy(22_000));
    let precisely = ["--until", "cpu:1.5%", "--max-runs", "400", "--by", "cpu", "-e", "page-faults"];
    patiently(|| {
        let found = json(&[&precisely[..], &[&old, &new]].concat());
        let difference = &measure(&found, "cpu")["results"][1]["difference"];
        let relative = difference["relative"].as_f64().expect("a share");
        // The shell's own start is in both.
        when(difference["verdict"] == "more" && (0.04..0.16).contains(&relative), difference)
    })
}

fn the_order_of_runs_is_mixed_and_repeatable() -> Outcome {
    let scratch = Scratch::new("order");
    let order = |seed: &str, log: &str| {
        let log = scratch.path(log);
        let (a, b) = (format!("echo a >>{log}"), format!("echo b >>{log}"));
        results(&["-S", "-w", "0", "-r", "20", "--seed", seed, "-e", "page-faults", &a, &b]);
        fs::read_to_string(log).expect("what ran").split_whitespace().collect::<String>()
    };
    let (one, again, other) = (order("1", "one"), order("1", "again"), order("2", "other"));
    assert_eq!((one.len(), &one), (40, &again));
    assert_ne!(one, other);
    let rounds: Vec<_> = one.as_bytes().chunks(2).collect();
    assert!(rounds.iter().all(|round| *round == b"ab" || *round == b"ba"), "{one}");
    assert!(rounds.contains(&&b"ab"[..]) && rounds.contains(&&b"ba"[..]), "{one}");
    Ok(())
}

fn a_limit_that_is_passed_is_exit_status_3() -> Outcome {
    let status = |limit: &str, more: &[&str]| {
        let mut arguments = vec!["-r", "8", "-e", "page-faults", "--fail-if", limit, "true", "sh -c true"];
        arguments.extend(more);
        let output = run(&arguments);
        (output.status.code(), text(&output.stdout))
    };
    // A shell has more faults than nothing at all, always: by a fifth in user space, by half with the kernel's.
    let (code, said) = status("page-faults>+10%", &[]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("The limit 'page-faults>+10%' is passed."), "{said}");
    assert_eq!(status("page-faults<-10%", &[]).0, Some(0));
    assert_eq!(status("wall>+10s", &[]).0, Some(0));
    // Nobody knows whether one that is in the middle of the noise is passed.
    assert_eq!(status("context-switches>+1", &["-e", "context-switches"]).0, Some(0));
    Ok(())
}

fn a_baseline_is_compared_with() -> Outcome {
    let scratch = Scratch::new("baseline");
    let file = scratch.path("base.json");
    results(&["-r", "8", "-e", "page-faults", "--save", &file, "-n", "prog", "sleep 0.002"]);
    patiently(|| {
        let options = ["-r", "8", "-e", "page-faults", "--baseline", &file, "--fail-if", "wall>100%"];
        let output = run(&[&options[..], &["-n", "prog", "sleep 0.2"]].concat());
        let said = text(&output.stdout);
        assert!(said.contains("prog (baseline)") && said.contains("against a baseline"), "{said}");
        let is_told = said.contains("times as long as prog (baseline)") && output.status.code() == Some(3);
        when(is_told, format!("{said}{}", text(&output.stderr)))
    })?;

    fs::write(&file, "{}").expect("a file");
    let output = run(&["--baseline", &file, "true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("is not what `perfuse compare --save` writes"));
    let output = run(&["--baseline", &scratch.path("none"), "true"]);
    assert!(text(&output.stderr).contains("cannot read "));
    Ok(())
}

fn json_has_every_run() -> Outcome {
    need::some_events()?;
    let found = json(&[
        "-r",
        "6",
        "-w",
        "2",
        "-e",
        "page-faults,user_time",
        "-n",
        "one",
        "true",
        "-n",
        "two",
        "true",
    ]);
    assert_eq!(found["schema"], "perfuse.compare/1");
    assert_eq!((&found["rounds"], &found["warmup"], &found["paired"]), (&6.into(), &2.into(), &true.into()));
    assert_eq!(found["commands"][1]["name"], "two");
    assert!(found["machine"]["kernel"].is_string());
    for id in ["wall", "cpu", "page-faults", "user_time", "rss"] {
        let measure = measure(&found, id);
        for result in measure["results"].as_array().expect("two results") {
            let runs = result["runs"].as_array().expect("runs");
            assert_eq!(runs.len(), 6, "{measure}");
            let sum: f64 = runs.iter().map(|run| run.as_f64().expect("a number")).sum();
            assert!((result["mean"].as_f64().expect("a mean") - sum / 6.0).abs() <= sum * 1e-9, "{measure}");
        }
        assert!(measure["results"][0]["difference"].is_null());
        assert!(measure["results"][1]["difference"]["verdict"].is_string(), "{measure}");
    }
    Ok(())
}

fn tables_are_exported() -> Outcome {
    let scratch = Scratch::new("export");
    let (markdown, csv) = (scratch.path("t.md"), scratch.path("t.csv"));
    results(&[
        "-r",
        "5",
        "-e",
        "page-faults",
        "--export-markdown",
        &markdown,
        "--export-csv",
        &csv,
        "-n",
        "a",
        "true",
        "-n",
        "b",
        "true",
    ]);
    let markdown = fs::read_to_string(markdown).expect("a table");
    assert!(markdown.starts_with("| measure | `a` | `b` | `b`: difference"), "{markdown}");
    assert!(markdown.contains("| wall time |"), "{markdown}");
    let csv = fs::read_to_string(csv).expect("a table");
    // Wall time, cpu time, page faults and memory of two commands, and a line of names.
    assert_eq!(csv.lines().count(), 9, "{csv}");
    let columns = csv.lines().next().expect("names").matches(',').count();
    assert!(csv.lines().all(|line| line.matches(',').count() == columns), "{csv}");
    Ok(())
}

fn parameters_and_preparations() -> Outcome {
    let scratch = Scratch::new("parameters");
    let log = scratch.path("log");
    let prepare = format!("echo {{n}} >>{log}");
    let said = results(&[
        "-S",
        "-w",
        "0",
        "-r",
        "3",
        "-e",
        "page-faults",
        "-L",
        "n",
        "one,two,three",
        "-p",
        &prepare,
        "true {n}",
    ]);
    assert!(["true one", "true two", "true three"].iter().all(|name| said.contains(name)), "{said}");
    let prepared = fs::read_to_string(log).expect("what was prepared");
    for word in ["one", "two", "three"] {
        assert_eq!(prepared.lines().filter(|line| *line == word).count(), 3, "{prepared}");
    }
    let output = run(&["-S", "-p", "exit 7", "true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("the preparation 'sh -c exit 7' ended with status 7"));
    Ok(())
}

fn input_output_and_shells() -> Outcome {
    let scratch = Scratch::new("input");
    let (input, copy) = (scratch.path("in"), scratch.path("out"));
    fs::write(&input, "what was asked").expect("a file");
    results(&["-S", "-r", "2", "--input", &input, "-e", "page-faults", &format!("cat >{copy}")]);
    assert_eq!(fs::read_to_string(&copy).expect("the copy"), "what was asked");
    // Without a file there is nothing to read, and what is written goes nowhere.
    let output = run(&["-r", "2", "-q", "-e", "page-faults", "cat", "echo loud"]);
    assert!(output.status.success() && !text(&output.stdout).contains("loud\nloud"));
    let output = run(&["-r", "2", "-w", "0", "--show-output", "-e", "page-faults", "echo loud"]);
    assert_eq!(text(&output.stdout).lines().filter(|line| *line == "loud").count(), 2);
    Ok(())
}

fn failing_commands_are_told() -> Outcome {
    let output = run(&["true", "sh -c 'exit 3'"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("ended with status 3 (-i goes on"), "{}", text(&output.stderr));
    let said = results(&["-i", "-r", "4", "-w", "0", "-e", "page-faults", "true", "sh -c 'kill -9 $$'"]);
    assert!(said.contains("4 runs failed; the first: 'sh -c 'kill -9 $$'' was killed by signal 9"), "{said}");
    assert_eq!(run(&["true", "/nonexistent/program"]).status.code(), Some(127));
    assert_eq!(run(&["true", "/etc/passwd"]).status.code(), Some(126));
    Ok(())
}

fn events_that_cannot_be_counted_are_said_once() -> Outcome {
    let said = results(&["-r", "5", "-e", "page-faults,cycles,instructions", "true", "true"]);
    if !said.contains("not counted") {
        return Err(Skip::needs("a machine without a PMU", "cycles are counted here"));
    }
    assert_eq!(said.matches("not counted: cycles, instructions: ").count(), 1, "{said}");
    assert!(said.lines().any(|line| line.trim_start().starts_with("page-faults")), "{said}");
    Ok(())
}

fn without_perf_event_open_it_is_measured_by_ptrace() -> Outcome {
    let program = compare(&[]).get_program().to_owned();
    let refused = |kernel: &[&str]| {
        let mut command = Sandbox::new().refusing_perf_event_open(Errno::EPERM.0).command(&program);
        let command = command.args(["compare", "-r", "5", "--json", "true", "true"]).args(kernel);
        let output = command.env_remove("PERFUSE_KERNEL").stdin(Stdio::null()).output();
        let output = output.expect("the program starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (found, text(&output.stderr))
    };
    let (found, said) = refused(&[]);
    assert!(said.contains("measuring by ptrace instead"), "{said}");
    let faults = &measure(&found, "page-faults")["results"][0];
    assert!(faults["mean"].as_f64().is_some_and(|mean| mean > 10.0), "{faults}");
    // Time and memory remain where Linux alone is asked.
    let (found, _) = refused(&["--kernel", "linux"]);
    assert!(measure(&found, "wall")["results"][0]["mean"].as_f64().is_some_and(|mean| mean > 0.0));
    assert!(measure(&found, "rss")["results"][0]["mean"].as_f64().is_some_and(|mean| mean > 0.0));
    assert!(measure(&found, "page-faults")["results"][0]["missing"].is_string());
    Ok(())
}

fn functions_of_both_commands_are_compared() -> Outcome {
    let (old, new) = (busy(20_000), busy(40_000));
    let profile = ["--profile", "-r", "5", "-n", "old", "-n", "new", &old, &new];
    patiently(|| {
        let found = json(&profile);
        assert_eq!((&found["schema"], &found["rounds"]), (&"perfuse.diff/1".into(), &5.into()), "{found}");
        assert_eq!((&found["sides"][0]["name"], &found["sides"][1]["name"]), (&"old".into(), &"new".into()));
        let functions = found["functions"].as_array().expect("functions");
        let sum = |side: usize| -> f64 {
            functions.iter().map(|function| function["amounts"][side].as_f64().expect("an amount")).sum()
        };
        let (before, after) = (sum(0), sum(1));
        // Twice the turns; the shell's own start is in both.
        when(before > 0.0 && (1.2..3.0).contains(&(after / before)), format!("{before} and {after}"))
    })?;
    let refused = run(&["--profile", "true"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("--profile compares two commands"), "{}", text(&refused.stderr));
    Ok(())
}

fn a_saved_comparison_is_shown_again() -> Outcome {
    let scratch = Scratch::new("load");
    let file = scratch.path("saved.json");
    let said = results(&[
        "-r",
        "5",
        "-q",
        "-e",
        "page-faults",
        "--save",
        &file,
        "-n",
        "a",
        "true",
        "-n",
        "b",
        "true",
    ]);
    let again = results(&["-q", "--load", &file]);
    // The first line tells of the shell too.
    let table = |said: &str| said.lines().skip(2).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(table(&said), table(&again));
    let document =
        |file: &str| serde_json::from_str::<serde_json::Value>(&fs::read_to_string(file).expect("a file"));
    let json: serde_json::Value = serde_json::from_str(&results(&["--json", "--load", &file])).expect("JSON");
    assert_eq!(document(&file).expect("JSON"), json);
    Ok(())
}

fn precision_is_reached() -> Outcome {
    let found = json(&["--until", "rss:5%", "-m", "5", "-e", "page-faults", "true", "true"]);
    // Memory hardly varies: as few rounds as are allowed do.
    assert!(found["rounds"].as_u64().is_some_and(|rounds| (5..50).contains(&rounds)), "{}", found["rounds"]);
    let said =
        results(&["--until", "wall:0.0001%", "-m", "5", "-M", "6", "-e", "page-faults", "true", "true"]);
    assert!(said.contains("was not reached: stopped after 6 rounds"), "{said}");
    Ok(())
}

fn ctrl_c_keeps_the_finished_rounds() -> Outcome {
    // On a busy machine it takes a while until there are any.
    for seconds in [1, 5, 30] {
        let mut command =
            compare(&["-r", "10000", "-w", "0", "-e", "page-faults", "sleep 0.05", "sleep 0.05"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.expect("the program starts");
        wait::until_heeded(child.id(), libc::SIGINT);
        std::thread::sleep(Duration::from_secs(seconds));
        signals::send(libc::SIGINT, child.id());
        let output = child.wait_with_output().expect("its end");
        let said = text(&output.stdout);
        if said.contains("interrupted") && said.contains("wall time") {
            assert_eq!(output.status.code(), Some(130), "{said}");
            return Ok(());
        }
        eprintln!("after {seconds} s: {said}");
    }
    panic!("no round was finished, or what was finished is not kept");
}

fn wrong_command_lines_are_explained() -> Outcome {
    for (arguments, part) in [
        (&["--fail-if", "cycles>2%", "-e", "page-faults", "true", "true"][..], "'cycles' is not measured"),
        (&["--fail-if", "wall>2", "true", "true"], "needs a unit"),
        (&["--fail-if", "wall", "true", "true"], "no > or <"),
        (&["--fail-if", "wall>2%", "true"], "give a second one, or --baseline"),
        (&["--by", "speed", "true", "true"], "'speed' is not measured; there are wall, cpu, rss"),
        (&["--until", "quick", "true", "true"], "is not like 1%"),
        (&["-e", "cyclse", "true", "true"], "did you mean cycles"),
        (&["-r", "1", "true", "true"], "-r wants a number, 2 or more"),
        (&["true", "'"], "cannot split"),
        (&["--profile", "--load", "x"], "--load"),
        (&[], "compare wants COMMAND"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(part), "{arguments:?}: {}", text(&output.stderr));
    }
    Ok(())
}
