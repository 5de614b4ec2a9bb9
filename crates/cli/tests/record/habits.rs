//! Options of perf that are less common.

use super::*;

pub(super) fn what_was_there_before_is_told_in_part() -> Outcome {
    let scratch = Folder::new("synth");
    let pid = std::process::id().to_string();
    let of = |synth: &str| {
        let file = scratch.file(synth);
        recorded(&file, &[&format!("--synth={synth}"), "-e", "cpu-clock", "-p", &pid, "sleep", "0.05"]);
        let kinds = counts(&file);
        let maps = kinds.get(&RecordType::MMAP2.0).copied().unwrap_or(0);
        (kinds.get(&RecordType::COMM.0).copied().unwrap_or(0), maps)
    };
    let (names, maps) = of("all");
    assert!(names > 0 && maps > 1, "{names} {maps}");
    let (names, fewer) = of("task");
    assert!(names > 0 && fewer < maps, "{names} {fewer} of {maps}");
    let (names, fewer) = of("no");
    assert!(names == 0 && fewer < maps, "{names} {fewer} of {maps}");
    Ok(())
}

pub(super) fn the_recorders_own_hits_are_left_out() -> Outcome {
    need::root()?;
    need::tracefs()?;
    let scratch = Folder::new("exclude");
    let file = scratch.file("data");
    let command = ["-e", "syscalls:sys_enter_write", "-a", "--exclude-perf", "sleep", "0.3"];
    let mut child = record(&file, &command).stderr(Stdio::null()).spawn().expect("it starts");
    let own = child.id();
    assert!(child.wait().expect("it ends").success());
    let mut data = PerfData::open(&file).expect("a recording");
    while let Some(entry) = data.next().expect("a record") {
        if entry.kind() != RecordType::SAMPLE {
            continue;
        }
        let decoded = entry.decode().expect("a sample");
        if let Record::Sample(sample) = &decoded.record {
            assert_ne!(sample.tid.map(|task| task.tid), Some(own));
        }
    }
    Ok(())
}

pub(super) fn a_dry_run_records_nothing() -> Outcome {
    let scratch = Folder::new("dry");
    let (file, made) = (scratch.file("data"), scratch.file("made"));
    let dry = ["--dry-run", "-e", "cpu-clock", "touch", made.to_str().expect("a plain path")];
    assert!(record(&file, &dry).status().expect("it runs").success());
    assert!(!file.exists() && !made.exists());
    let wrong = record(&file, &["--dry-run", "-e", "nonsense", "true"]).output().expect("it runs");
    assert_eq!(wrong.status.code(), Some(2));
    Ok(())
}

pub(super) fn events_are_recorded_as_one_group() -> Outcome {
    let scratch = Folder::new("group");
    let file = scratch.file("data");
    recorded(&file, &["--group", "-e", "cpu-clock,faults", "true"]);
    let mut data = PerfData::open(&file).expect("a recording");
    assert!(data.feature(FeatureId::GROUP_DESC).expect("it can be read").is_some());
    Ok(())
}

pub(super) fn a_recorder_goes_first_and_its_command_does_not() -> Outcome {
    need::root()?;
    let scratch = Folder::new("realtime");
    let (file, policy) = (scratch.file("data"), scratch.file("policy"));
    // The scheduling policy is field 41 of stat; the command's own and that of its parent.
    let script = format!(
        "for p in $$ $PPID; do sed 's/.*) //' /proc/$p/stat | cut -d' ' -f39; done > {}",
        policy.display()
    );
    let output =
        record(&file, &["-r", "10", "-e", "cpu-clock", "sh", "-c", &script]).output().expect("it runs");
    if !output.status.success() {
        return Err(Skip::needs("the right to SCHED_FIFO", String::from_utf8_lossy(&output.stderr)));
    }
    assert_eq!(
        fs::read_to_string(&policy).expect("it was written").split_whitespace().collect::<Vec<_>>(),
        ["0", "1"]
    );
    Ok(())
}

pub(super) fn what_is_not_done_says_so() -> Outcome {
    let scratch = Folder::new("refused");
    let file = scratch.file("data");
    for (option, why) in
        [("--kcore", "/proc/kallsyms"), ("--snapshot", "AUX"), ("--switch-output-event=cs", "SIGUSR2")]
    {
        let output = record(&file, &[option, "-e", "cpu-clock", "true"]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{option}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(why), "{option}");
    }
    let said = recorded(
        &file,
        &["--clang-path=/x", "--affinity", "cpu", "--aio=2", "--threads=cpu", "-e", "cpu-clock", "true"],
    );
    assert!(said.contains("--clang-path means nothing here"), "{said}");
    Ok(())
}
