//! One recording of ours, two readers: what perf and perfuse print about it must be the same, line by line,
//! and perf must have nothing to complain about.

use super::*;

/// The output of a reader that succeeded and said nothing on standard error.
fn printed(output: &Output, arguments: &[&str], file: &Path) -> String {
    let said = text(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{arguments:?} {}: {said}", file.display());
    text(&output.stdout)
}

/// The same question to both readers.
fn both(arguments: &[&str], file: &Path) -> Result<[Vec<String>; 2], Skip> {
    let theirs = perf(arguments, file)?;
    let mut ours = Command::new(program());
    ours.args(arguments).arg("-i").arg(file).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    let ours = ours.output().expect("the program starts");
    Ok([theirs, ours].map(|output| printed(&output, arguments, file).lines().map(str::to_owned).collect()))
}

/// Both must give the same answer, after `alike` has made what may differ the same.
fn agree(arguments: &[&str], file: &Path, alike: impl Fn(&str) -> Option<String>) -> Outcome {
    let [theirs, ours] = both(arguments, file)?;
    let lines = |lines: Vec<String>| lines.iter().filter_map(|line| alike(line)).collect::<Vec<_>>();
    let (theirs, ours) = (lines(theirs), lines(ours));
    assert!(!theirs.is_empty(), "{arguments:?}");
    if let Some((theirs, ours)) = theirs.iter().zip(&ours).find(|(theirs, ours)| theirs != ours) {
        panic!("{arguments:?} {}:\nperf    {theirs}\nperfuse {ours}", file.display());
    }
    assert_eq!(theirs.len(), ours.len(), "{arguments:?}");
    Ok(())
}

/// From a pipe perf does not take the names of events: it makes them of their attrs, guests included.
fn named_alike(line: &str) -> String {
    line.replace(":uH", ":u")
}

/// Newer perfs name the numbers of an attr, add its zero config, and have wider columns. Bits come in any order.
fn plainly(line: &str) -> Option<String> {
    let mut words = named_alike(line).replace(", config: 0x0 (PERF_COUNT_SW_CPU_CLOCK)", "");
    while let Some((before, rest)) = words.split_once(" (PERF_") {
        let after = rest.split_once(')').map_or("", |(_, after)| after);
        words = format!("{before}{after}");
    }
    let tip = line.starts_with("# Tip:");
    let sorted = |word: &str| {
        let mut bits: Vec<_> = word.trim_end_matches(',').split('|').collect();
        bits.sort_unstable();
        bits.join("|")
    };
    let words: Vec<_> = words.split_whitespace().map(sorted).collect();
    (!tip).then(|| words.join(" "))
}

/// Symbols and inlined functions may be known to one reader only, or be called by another of their names.
fn without_symbols(line: &str) -> Option<String> {
    if line.ends_with(" (inlined)") {
        return None;
    }
    let named = named_alike(line);
    let words: Vec<_> = named.split_whitespace().collect();
    // A task without a number has ended, and any name is a guess.
    if words.get(1) == Some(&"-1") {
        return None;
    }
    let hex = |word: &&str| word.len() >= 8 && word.bytes().all(|b| b.is_ascii_hexdigit());
    // The lines of a call chain begin with it.
    let address = if line.starts_with('\t') { Some(0) } else { words.iter().position(hex) };
    let Some(address) = address else { return Some(words.join(" ")) };
    let file = words.last().filter(|word| word.starts_with('(')).copied().unwrap_or_default();
    Some(format!("{} {file}", words[..=address].join(" ")))
}

/// Compares all that both programs can tell about the records of a recording.
fn agree_about_records(file: &Path) -> Outcome {
    for arguments in [&["evlist"][..], &["evlist", "-v"], &["evlist", "-F"], &["report", "--stats"]] {
        agree(arguments, file, plainly)?;
    }
    agree(&["report", "-D"], file, plainly)
}

/// All that both can be asked about a recording.
fn agree_about(file: &Path) -> Outcome {
    agree_about_records(file)?;
    agree(&["script"], file, without_symbols)?;
    // As many samples as there are.
    let arguments = ["report", "--stdio"];
    let report = printed(&perf(&arguments, file)?, &arguments, file);
    assert!(report.contains("# Total Lost Samples: 0\n"), "{report}");
    assert!(report.lines().any(|line| !line.is_empty() && !line.starts_with('#')), "{report}");
    Ok(())
}

/// How much of it each program and file has. Equal shares come in any order.
fn agree_about_shares(file: &Path) -> Outcome {
    let shares = both(&["report", "--stdio", "--sort", "comm,dso"], file)?.map(|lines| {
        let lines = lines.iter().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut lines: Vec<_> = lines.filter_map(|line| plainly(line)).collect();
        lines.sort();
        lines
    });
    assert!(!shares[0].is_empty());
    assert_eq!(shares[0], shares[1], "{}", file.display());
    Ok(())
}

fn agree_about_all(name: &str, recordings: &[&str]) -> Outcome {
    need::perf()?;
    let folder = Folder::new(name);
    let numbered: Vec<_> = recordings.iter().enumerate().collect();
    side_by_side(&numbered, |(number, arguments)| {
        let file = folder.file(&number.to_string());
        let options: Vec<_> = arguments.split(' ').filter(|word| !word.is_empty()).collect();
        recorded(&file, &[&options[..], &["sh", "-c", BUSY]].concat());
        agree_about(&file)?;
        agree(&["buildid-list"], &file, plainly)
    })
}

pub(super) fn both_readers_agree_about_reports() -> Outcome {
    need::perf()?;
    let folder = Folder::new("agree-shares");
    let file = folder.file("d");
    for options in [&[][..], &["-z"], &["--per-thread"], &["--overwrite"], &["-e", "cpu-clock,task-clock"]] {
        recorded(&file, &[&["-e", "cpu-clock"], options, &["sh", "-c", BUSY]].concat());
        agree_about_shares(&file)?;
    }
    Ok(())
}

pub(super) fn both_readers_agree() -> Outcome {
    // These tell something of the kernel that is not for everybody.
    if need::root().is_ok() {
        let recordings = [
            "-e cpu-clock,page-faults,context-switches",
            "-e cpu-clock -d -W --phys-data",
            "-e cpu-clock --switch-events --namespaces",
        ];
        agree_about_all("agree-root", &recordings)?;
    }
    agree_about_all(
        "agree",
        &[
            "",
            "-e cpu-clock -c 1000000",
            "-e cpu-clock,page-faults",
            "-e cpu-clock -R -s",
            "-e cpu-clock --per-thread",
            "-e cpu-clock --switch-events",
            "-e cpu-clock -z",
            "-e cpu-clock --overwrite",
            "-e cpu-clock -d -W",
        ],
    )
}

pub(super) fn both_readers_agree_about_groups() -> Outcome {
    agree_about_all(
        "agree-groups",
        &["-e {cpu-clock,page-faults}", "-e pair{cpu-clock,page-faults}", "-e {cpu-clock,page-faults}:S"],
    )
}

pub(super) fn both_readers_agree_about_call_chains() -> Outcome {
    agree_about_all("agree-chains", &["-e cpu-clock -g", "-e cpu-clock,page-faults -g"])
}

pub(super) fn both_readers_agree_about_large_samples() -> Outcome {
    need::perf()?;
    let folder = Folder::new("agree-large");
    let file = folder.file("d");
    for options in [
        "--call-graph dwarf,4096",
        "-d -W --data-page-size --code-page-size",
        "-I --user-regs",
        "-g -e {cpu-clock,page-faults}:S",
    ] {
        let options: Vec<_> = options.split(' ').collect();
        recorded(&file, &[&options[..], &["-F", "500", "sh", "-c", BUSY]].concat());
        agree_about_records(&file)?;
    }
    Ok(())
}

pub(super) fn both_readers_agree_about_the_system() -> Outcome {
    need::root()?;
    agree_about_all("agree-system", &["-e cpu-clock -a"])
}

pub(super) fn both_readers_agree_about_tracepoints() -> Outcome {
    need::root()?;
    need::tracefs()?;
    agree_about_all("agree-tracepoints", &["-e sched:sched_process_exec,sched:sched_switch -a"])
}

pub(super) fn both_readers_agree_about_pipes() -> Outcome {
    need::perf()?;
    let folder = Folder::new("agree-pipe");
    let file = folder.file("d");
    for events in ["cpu-clock", "{cpu-clock,page-faults}"] {
        let mut command = record(Path::new("-"), &["-e", events, "sh", "-c", BUSY]);
        let output = command.stdout(File::create(&file).expect("a file")).output().expect("it starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        agree_about(&file)?;
    }
    Ok(())
}

/// perf finds all that the header of its own recordings has in the header of ours too.
pub(super) fn perf_finds_all_of_its_header() -> Outcome {
    let folder = Folder::new("all-of-header");
    let (ours, theirs) = (folder.file("ours"), folder.file("theirs"));
    let events = ["-k", "monotonic", "-e", "{cpu-clock,page-faults}", "sh", "-c", BUSY];
    recorded(&ours, &events);
    perf_records(&theirs, QUICKLY, &events)?;
    let header = |file: &Path| -> Result<Vec<String>, Skip> {
        let arguments = ["report", "--header-only", "-I"];
        let header = printed(&perf(&arguments, file)?, &arguments, file);
        // Lines that change from one recording to the next are compared by their names.
        let changes = [
            "captured on",
            "cmdline",
            "data size",
            "event",
            "feat offset",
            "missing features",
            "perf version",
            "pmu mappings",
            "reference time",
            "sample duration",
            "time of first sample",
            "time of last sample",
        ];
        let name = |line: &str| {
            let line = line.trim_start_matches(['#', ' ']);
            let changed = changes.iter().find(|name| line.starts_with(**name)).copied();
            changed.unwrap_or(if line.contains("meminfo") { "meminfo" } else { line }).to_owned()
        };
        Ok(header.lines().map(name).collect())
    };
    let found = header(&ours)?;
    for line in header(&theirs)? {
        assert!(found.contains(&line), "{line}: {found:#?}");
    }
    Ok(())
}
