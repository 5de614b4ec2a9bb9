//! Command lines of people who know perf: perf's text, and the less common options.

use super::*;
use perfuse_testkit::OwnCgroup;
use serde_json::Value;

fn json(arguments: &[&str]) -> Value {
    let text = results(&[&["--json"], arguments].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Text of `perf stat` with every number replaced, line by line, so that columns are compared by place.
fn columns(text: &str) -> Vec<String> {
    let shape = |line: &str| -> String {
        let digits: String = line.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
        // The length of a number and the spaces before it depend on its value.
        let words: Vec<&str> = digits.split_whitespace().collect();
        let rates = ["K/sec", "M/sec"].iter().fold(words.join(" "), |line, rate| line.replace(rate, "/sec"));
        let mut single = rates;
        while single.contains("99") {
            single = single.replace("99", "9");
        }
        format!("{single} [{}]", digits.find('#').map_or(0, |at| at))
    };
    text.lines().map(shape).collect()
}

pub(super) fn perfs_text_is_perfs() -> Outcome {
    need::root()?;
    let perf = need::perf()?;
    need::no_hardware_pmu()?;
    let events = ["-e", "task-clock,cs,faults,cycles,duration_time"];
    let cases: &[(&[&str], &[&str])] = &[
        (&events, &["sh", "-c", BUSY]),
        (&[], &["sh", "-c", BUSY]),
        (&["-r2", "-e", "task-clock"], &["sh", "-c", BUSY]),
        (&["-n"], &["true"]),
        (&["-a", "-e", "cpu-clock,cs,cycles"], &["sleep", "0.1"]),
        (&["-C", "0", "-e", "cpu-clock"], &["sleep", "0.05"]),
        (&["-a", "-A", "-e", "cpu-clock,cycles"], &["sleep", "0.05"]),
        (&["-a", "--per-core", "-e", "cpu-clock,cycles"], &["sleep", "0.05"]),
        (&["-a", "--per-socket", "-e", "cpu-clock"], &["sleep", "0.05"]),
        (&["-a", "--per-die", "-e", "cpu-clock"], &["sleep", "0.05"]),
        (&["-a", "--per-node", "-e", "cpu-clock"], &["sleep", "0.05"]),
        (&["-a", "-I", "30", "--interval-count", "2", "--summary", "-e", "cpu-clock"], &[]),
        (&["-a", "--per-core", "-I", "30", "--interval-count", "1", "-e", "cpu-clock"], &[]),
    ];
    for (options, command) in cases {
        let mut found = Default::default();
        // On a busy machine a run may differ in what happened in it.
        let same = (0..5).any(|_| {
            let mut perfs = Command::new(&perf);
            perfs.arg("stat").args(*options).args(*command);
            plainly(&mut perfs);
            let perfs = columns(&text(&output(&mut perfs).stderr));
            let ours = columns(&results(&[&["--perf-style"], *options, *command].concat()));
            found = (ours, perfs);
            found.0 == found.1
        });
        assert!(same, "{options:?}: {found:#?}");
    }
    Ok(())
}

pub(super) fn perfs_text_has_metrics_of_tables() -> Outcome {
    let metric = "page_faults_per_second";
    let text = results(&["--perf-style", "-M", metric, "sh", "-c", BUSY]);
    assert!(text.lines().any(|line| line.contains(" # ") && line.contains(metric)), "{text}");
    Ok(())
}

pub(super) fn the_program_called_perf_writes_perfs_text() -> Outcome {
    let scratch = Scratch::new("name");
    let perf = scratch.join("perf");
    std::os::unix::fs::symlink(program(), &perf).expect("a link can be made");
    let run = |program: &Path, style: Option<&str>| {
        let mut command = Command::new(program);
        command.args(["stat", "-e", "cs", "true"]);
        plainly(&mut command);
        command.env_remove("PERFUSE_STYLE");
        style.map(|style| command.env("PERFUSE_STYLE", style));
        text(&output(&mut command).stderr).contains("\n Performance counter stats for 'true':\n")
    };
    assert!(run(&perf, None) && run(&program(), Some("perf")));
    assert!(!run(&perf, Some("perfuse")) && !run(&program(), None));
    Ok(())
}

pub(super) fn every_thread_of_the_system_has_a_row() -> Outcome {
    need::root()?;
    let busy = Running::shell("while :; do /bin/true; done");
    let pid = busy.0.id();
    let value = json(&["--per-thread", "-a", "-e", "cpu-clock", "sleep", "0.3"]);
    assert_eq!(value["target"], "every_thread");
    let rows = value["events"].as_array().expect("rows");
    let of = |tid: u32| rows.iter().find(|row| row["place"]["thread"]["tid"] == tid);
    assert!(of(pid).expect("it is there")["value"].as_u64().is_some_and(|ns| ns > 0), "{value}");
    assert!(of(std::process::id()).is_some(), "{value}");
    // perf tells of those that ran, the busiest first.
    let lines = results(&["--per-thread", "-a", "-x,", "-e", "cpu-clock", "sleep", "0.2"]);
    let values: Vec<f64> = lines
        .lines()
        .map(|line| line.split(',').nth(1).expect("a value").parse().expect("a number"))
        .collect();
    assert!(!values.is_empty() && values.windows(2).all(|pair| pair[0] >= pair[1]), "{lines}");
    // In milliseconds little is nothing; the time that it was counted for is told in ns.
    assert!(lines.lines().all(|line| line.split(',').nth(4).is_some_and(|ns| ns != "0")), "{lines}");
    Ok(())
}

pub(super) fn sides_are_chosen_for_all_events() -> Outcome {
    let user = json(&["--all-user", "-e", "faults,cs", "true"]);
    let kernel = json(&["--all-kernel", "-e", "faults:u", "true"]);
    assert_eq!(user["events"][1]["value"], 0, "switches are the kernel's: {user}");
    assert!(user["events"][0]["value"].as_u64().is_some_and(|faults| faults > 0), "{user}");
    if let Some(faults) = kernel["events"][0]["value"].as_u64() {
        assert!(faults < user["events"][0]["value"].as_u64().unwrap_or(0), "{kernel} {user}");
    }
    Ok(())
}

pub(super) fn events_become_one_group() -> Outcome {
    let groups = |option: &[&str]| {
        // Orders are only listed here.
        let scratch = Scratch::new("group");
        let orders = scratch.join("orders");
        fs::write(&orders, "evlist -g\n").expect("it can be written");
        let file = fs::File::open(&orders).expect("it can be read");
        let mut command = stat([option, &["-e", "cs,faults", "--control", "fd:0", "sleep", "0.2"]].concat());
        text(&output(command.stdin(file)).stderr)
    };
    assert!(groups(&["--group"]).contains("{cs,faults}"));
    assert!(!groups(&[]).contains("{cs,faults}"));
    Ok(())
}

pub(super) fn filters_choose_hits() -> Outcome {
    need::root()?;
    need::tracefs()?;
    let busy = Running::shell("while :; do /bin/true; done");
    let pid = busy.0.id();
    let counts = |filter: &str| {
        let value = json(&["-a", "-e", "sched:sched_process_fork", "--filter", filter, "sleep", "0.3"]);
        value["events"][0]["value"].as_u64().unwrap_or(0)
    };
    assert!(counts(&format!("parent_pid == {pid}")) > 0);
    assert_eq!(counts("parent_pid == 0x7fffffff"), 0);
    let wrong = output(&mut stat(["-e", "cs", "--filter", "x > 1", "true"]));
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("--filter is for tracepoints"));
    let wrong = output(&mut stat(["-e", "sched:sched_switch", "--filter", "nonsense > 1", "true"]));
    assert_eq!(wrong.status.code(), Some(125), "{}", text(&wrong.stderr));
    Ok(())
}

pub(super) fn hooks_run_around_each_run() -> Outcome {
    let scratch = Scratch::new("hooks");
    let log = scratch.join("log");
    let say = |word: &str| format!("echo {word} >> {}", log.display());
    let (pre, post, run) = (say("pre"), say("post"), say("run"));
    results(&["-S", "-r", "2", "--pre", &pre, "--post", &post, "-e", "cs", "sh", "-c", &run]);
    let said = fs::read_to_string(&log).expect("they ran");
    assert_eq!(said.split_whitespace().collect::<Vec<_>>(), ["pre", "run", "post", "pre", "run", "post"]);
    let failed =
        output(&mut stat(["--pre", "exit 3", "-e", "cs", "touch", log.join("no").to_str().unwrap_or("")]));
    assert_eq!(failed.status.code(), Some(125));
    assert!(text(&failed.stderr).contains("--pre failed"));
    Ok(())
}

pub(super) fn a_total_follows_the_intervals() -> Outcome {
    let intervals = ["-I", "40", "-e", "faults", "--summary", "-x,"];
    let lines = |more: &[&str]| results(&[&intervals, more, &["sh", "-c", BUSY]].concat());
    let text = lines(&[]);
    let (before, last) = text.trim_end().rsplit_once('\n').expect("there are intervals");
    let number = |line: &str| line.split(',').nth(1).and_then(|value| value.parse::<u64>().ok());
    assert!(last.starts_with("         summary,"), "{text}");
    assert_eq!(number(last), Some(before.lines().filter_map(number).sum()), "{text}");
    assert!(!lines(&["--no-csv-summary"]).contains("summary"));
    assert!(!results(&["-I", "40", "-e", "faults", "-x,", "true"]).contains("summary"));
    let clear = ["--interval-clear", "-I", "40", "-e", "faults", "-x,", "sleep", "0.1"];
    assert!(results(&[&["--color", "always"], &clear[..]].concat()).starts_with("\x1b[H\x1b[2J"));
    assert!(!results(&clear).contains('\x1b'), "a file has no screen");
    Ok(())
}

pub(super) fn each_run_has_its_line() -> Outcome {
    let text = results(&["-r", "3", "--table", "-n", "true"]);
    assert!(
        text.contains("to mean") && text.lines().filter(|line| line.contains("###")).count() >= 1,
        "{text}"
    );
    Ok(())
}

pub(super) fn results_go_to_a_descriptor() -> Outcome {
    let scratch = Scratch::new("descriptor");
    let file = scratch.join("results");
    let mut command = Command::new("sh");
    let script = format!("exec \"$0\" stat --log-fd 7 -x, -e cs true 7>{}", file.display());
    plainly(command.args(["-c", &script]).arg(program()));
    let ran = output(&mut command);
    assert!(ran.status.success() && ran.stderr.is_empty(), "{}", text(&ran.stderr));
    assert!(fs::read_to_string(&file).expect("it was written").contains(",,cs,"));
    assert_eq!(status(&["--log-fd", "77", "-e", "cs", "true"]), 2);
    Ok(())
}

pub(super) fn each_cgroup_counts_each_event() -> Outcome {
    need::root()?;
    let cgroup = OwnCgroup::new("foreach")?;
    let name = cgroup.name().to_owned();
    let found = |list: &str| {
        let value = json(&["--for-each-cgroup", list, "-e", "cs,faults", "sleep", "0.05"]);
        let rows = value["events"].as_array().expect("rows").clone();
        rows.iter().map(|row| format!("{} {}", row["name"], row["cgroup"])).collect::<Vec<_>>()
    };
    let expected = |cgroup: &str| ["cs", "faults"].map(|event| format!("\"{event}\" \"{cgroup}\""));
    assert_eq!(found(&format!("/,{name}")), [expected("/"), expected(&name)].concat());
    let last = name.rsplit('/').next().unwrap_or(&name);
    assert_eq!(found(&format!("{last}$")), expected(&name));
    assert_eq!(status(&["--for-each-cgroup", "^nothing-of-that-name", "-e", "cs", "true"]), 2);
    Ok(())
}

pub(super) fn what_is_refused_says_what_to_do() -> Outcome {
    for (option, why) in [
        ("--smi-cost", "msr/aperf/"),
        ("--iostat", "perfuse list pmu"),
        ("--hybrid-merge", "row of its own"),
        ("--cputype=nonsense", "no cores with a PMU called 'nonsense'"),
    ] {
        let output = output(&mut stat([option, "-e", "cs", "true"]));
        assert_eq!(output.status.code(), Some(2), "{option}");
        assert!(text(&output.stderr).contains(why), "{option}: {}", text(&output.stderr));
    }
    assert_eq!(status(&["--no-merge", "--scale", "-e", "cs", "true"]), 0);
    Ok(())
}
