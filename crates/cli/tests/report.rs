//! `perfuse report`, the real program, on files that the real perf records, compared with
//! what perf makes of them; and on a folder of recordings from elsewhere, which must not make it fall over.

use perfuse_testkit::{Outcome, Skip, need, perf as linux};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

perfuse_testkit::suite! {
    statistics_are_perfs,
    reports_are_perfs,
    json_is_the_report,
    what_cannot_be_done_is_explained,
    foreign_recordings_are_no_reason_to_panic,
}

fn perfuse(arguments: &[&str]) -> (String, String, Option<i32>) {
    let path = std::env::var_os("PERFUSE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_perfuse").into());
    let output =
        Command::new(path).args(arguments).stdin(Stdio::null()).output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

fn perf(arguments: &[&str]) -> Result<String, Skip> {
    let output = linux::output(&mut linux::command(arguments)?)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A recording that is gone with this.
struct Recording(PathBuf);

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Recording {
    fn path(&self) -> &str {
        self.0.to_str().expect("a name in UTF-8")
    }
}

/// Records a shell that works, and another program, with the real perf.
fn record(name: &str, options: &[&str]) -> Result<Recording, Skip> {
    record_script(name, options, "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; ls / >/dev/null")
}

fn record_script(name: &str, options: &[&str], script: &str) -> Result<Recording, Skip> {
    let path = std::env::temp_dir().join(format!("perfuse-report-test-{}-{name}", std::process::id()));
    let recording = Recording(path);
    let command = ["--", "sh", "-c", script];
    let arguments = [&["record", "-q", "-o", recording.path()], options, &command].concat();
    linux::succeeds(&mut linux::command(&arguments)?)?;
    Ok(recording)
}

fn statistics_are_perfs() -> Outcome {
    for (name, options) in [("stats", &["-e", "cpu-clock", "-g"][..]), ("zstd", &["-e", "cpu-clock", "-z"])] {
        let recording = record(name, options)?;
        let words = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| line.contains(" events: "));
            lines.map(|line| line.split_whitespace().take(3).collect::<Vec<_>>().join(" ")).collect()
        };
        let ours = words(&perfuse(&["report", "--stats", "-i", recording.path()]).0);
        let theirs = words(&perf(&["report", "--stats", "-i", recording.path()])?);
        assert_eq!(ours, theirs, "{name}");
    }
    Ok(())
}

/// A report's lines without what only one of both says; what stands in columns, with single blanks.
fn entries(report: &str) -> Vec<Vec<String>> {
    let mut entries: Vec<Vec<String>> = Vec::new();
    for line in report.lines().map(str::trim_end).filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let line = line.replace("__ia32_sys_", "__x64_sys_").replace("[...] (inlined)", "[...]");
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_tree = line.starts_with("           ") || words.len() < 2;
        match (is_tree, entries.last_mut()) {
            (true, Some(entry)) => entry.push(line),
            _ => entries.push(vec![words.join(" ")]),
        }
    }
    entries
}

/// What of `ours` is not in `theirs`, each as often as it is there.
fn not_in(ours: impl Iterator<Item = String>, theirs: impl Iterator<Item = String>) -> Vec<String> {
    let mut theirs: Vec<_> = theirs.collect();
    let is_missing = |line: &String| match theirs.iter().position(|other| other == line) {
        Some(place) => {
            theirs.swap_remove(place);
            false
        }
        None => true,
    };
    let mut ours: Vec<_> = ours.collect();
    ours.retain(is_missing);
    ours
}

/// The entries that only one of both has.
fn heads(ours: &[Vec<String>], theirs: &[Vec<String>]) -> Vec<String> {
    let of = |entries: &[Vec<String>]| entries.iter().map(|entry| entry[0].clone()).collect::<Vec<_>>();
    let (ours, theirs) = (of(ours), of(theirs));
    let mut all = not_in(ours.iter().cloned(), theirs.iter().cloned());
    let others = not_in(theirs.into_iter(), ours.into_iter());
    // perf calls what it cannot name in a table of jumps so, and the address is ours.
    let is_jump = |line: &String| line.ends_with("@plt");
    let is_address = |line: &String| line.contains("[.] 0x");
    let pairs = others
        .iter()
        .filter(|line| is_jump(line))
        .count()
        .min(all.iter().filter(|line| is_address(line)).count());
    let (mut jumps, mut addresses) = (pairs, pairs);
    all.extend(others);
    all.retain(|line| {
        let left = if is_jump(line) { &mut jumps } else { &mut addresses };
        let is_excused = *left > 0 && (is_jump(line) || is_address(line));
        *left -= usize::from(is_excused);
        !is_excused
    });
    all
}

/// The lines of call trees that we have and perf has not, without what is drawn.
fn trees(ours: &[Vec<String>], theirs: &[Vec<String>]) -> Vec<String> {
    let plain = |line: &String| line.trim_start_matches(|c| "| -".contains(c)).to_owned();
    let of = |entries: &[Vec<String>]| -> Vec<String> {
        let lines = entries.iter().flat_map(|entry| entry[1..].iter().map(plain));
        lines.filter(|line| !line.is_empty()).collect()
    };
    not_in(of(ours).into_iter(), of(theirs).into_iter())
}

fn reports_are_perfs() -> Outcome {
    // Nothing is executed: perf looks up callchains that end before an exec in the maps from before it.
    let script = "i=0; while [ $i -lt 1500 ]; do i=$((i+1)); x=$(echo $i); done; while [ $i -lt 40000 ]; do i=$((i+1)); done";
    let recording = record_script("reports", &["-e", "cpu-clock", "-F", "3000", "-g"], script)?;
    let plain = record_script("plain-reports", &["-e", "cpu-clock,page-faults"], script)?;
    for (recording, options) in [
        (&recording, ""),
        (&recording, "--no-children"),
        (&recording, "--children -g none"),
        (&recording, "--no-children -g fractal"),
        (&recording, "-g fractal"),
        (&recording, "-g fractal,callee"),
        (&recording, "--no-children -g caller"),
        (&recording, "-G"),
        (&recording, "-g graph,2"),
        (&recording, "-g period"),
        (&recording, "-g fractal,count"),
        (&recording, "--percent-limit 3"),
        (&recording, "-n --show-total-period"),
        (&recording, "-s comm"),
        (&recording, "-s comm,dso --no-children"),
        (&recording, "-s +pid --no-children"),
        (&recording, "-s time --no-children"),
        (&recording, "-s sym --no-children"),
        (&recording, "-F +sample"),
        (&recording, "-s comm -F overhead,dso --no-children"),
        (&recording, "--comm sh,ls --no-children"),
        (&recording, "-d libc.so.6 --no-children"),
        (&recording, "-S do_syscall_64 --no-children"),
        (&recording, "--symbol-filter sys --no-children"),
        (&recording, "--max-stack 3 --no-children"),
        (&recording, "-q --no-children"),
        (&recording, "--show-cpu-utilization --no-children"),
        (&recording, "--stdio-color=always --no-children"),
        (&plain, ""),
        (&plain, "-n -s dso"),
        (&plain, "-s comm,pid,sym"),
    ] {
        let words: Vec<&str> = options.split_whitespace().collect();
        let arguments = [&["report", "--stdio", "-i", recording.path()], &words[..]].concat();
        let (ours, theirs) = (entries(&perfuse(&arguments).0), entries(&perf(&arguments)?));
        assert_eq!(ours.is_empty(), theirs.is_empty(), "{options}");
        // What has the same share may stand in another order, in lists and in trees, and a branch may be drawn
        // longer or shorter for it; each line must be there. One callchain in many may have been taken in the
        // middle of an exec, and then be read in either way.
        let (heads, trees) = (heads(&ours, &theirs), trees(&ours, &theirs));
        assert!(heads.len() <= ours.len() / 50, "{options}: {heads:#?}");
        let lines: usize = ours.iter().map(Vec::len).sum();
        assert!(trees.len() <= lines / 50 + 1, "{options}: {} of {lines}: {trees:#?}", trees.len());
        let share = |entry: &Vec<String>| entry[0].split(' ').next().map(str::to_owned);
        let in_order = ours.iter().map(share).eq(theirs.iter().map(share));
        assert!(in_order || !heads.is_empty(), "{options}: order");
    }
    Ok(())
}

fn json_is_the_report() -> Outcome {
    let recording = record("json", &["-e", "cpu-clock", "-g"])?;
    let text = perfuse(&["report", "--json", "-s", "comm,sym", "-i", recording.path()]).0;
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["schema"], "perfuse.report/1");
    assert!(report["recording"]["hostname"].is_string());
    let event = &report["events"][0];
    let entries = event["entries"].as_array().expect("entries");
    let sum: u64 = entries.iter().filter_map(|entry| entry["self_samples"].as_u64()).sum();
    assert_eq!(event["samples"].as_u64(), Some(sum));
    let first = &entries[0];
    assert!(first["total_period"].as_u64() >= first["self_period"].as_u64());
    assert!(first["callchains"].as_array().is_some_and(|chains| !chains.is_empty()));
    Ok(())
}

fn what_cannot_be_done_is_explained() -> Outcome {
    let empty =
        Recording(std::env::temp_dir().join(format!("perfuse-report-test-{}-empty", std::process::id())));
    std::fs::write(&empty.0, b"").expect("a file");
    for (arguments, words, status) in [
        (&["-i", "/nowhere/perf.data"][..], "no such file; `perfuse record COMMAND`", 125),
        (&["-i", empty.path()], "an empty file", 125),
        (&["-i", env!("CARGO_MANIFEST_PATH")], "not a perf.data file", 125),
        (&["-s", "symbl"], "did you mean symbol", 2),
        (&["-g", "sideways", "-i", empty.path()], "an empty file", 125),
    ] {
        let (_, errors, code) = perfuse(&[&["report"], arguments].concat());
        assert!(errors.contains(words), "{arguments:?}: {errors}");
        assert_eq!(code, Some(status), "{arguments:?}");
    }
    Ok(())
}

fn foreign_recordings_are_no_reason_to_panic() -> Outcome {
    let folder = need::shared("corpus/files")?;
    let mut count = 0;
    for file in std::fs::read_dir(folder).expect("a folder") {
        let path = file.expect("an entry").path();
        let path = Path::new(&path).to_str().expect("a name in UTF-8").to_owned();
        for what in [&["report", "-s", "comm,cpu", "--stats"][..], &["script", "-F", "comm,tid,time"]] {
            let (_, errors, code) = perfuse(&[what, &["-i", &path]].concat());
            assert!(!errors.contains("internal error"), "{what:?} {path}: {errors}");
            assert!(matches!(code, Some(0 | 125)), "{what:?} {path}: {code:?}");
            count += 1;
        }
    }
    println!("{count} runs");
    Ok(())
}
