//! Linux's perf and our own reader see the same in recordings of ours.

use super::*;

pub(super) fn perf_sees_the_same_records() -> Outcome {
    let folder = Folder::new("same");
    let file = folder.file("d");
    recorded(&file, &["-F", "2000", "sh", "-c", BUSY]);
    let ours = counts(&file);
    for (name, kind) in [
        ("SAMPLE", RecordType::SAMPLE),
        ("MMAP2", RecordType::MMAP2),
        ("COMM", RecordType::COMM),
        ("FINISHED_ROUND", kind::FINISHED_ROUND),
        ("ID_INDEX", kind::ID_INDEX),
    ] {
        assert_eq!(perf_counts(&file, name)?, ours[&kind.0], "{name}");
    }
    let script = perf(&["script", "-F", "comm,ip"], &file)?;
    let lines = text(&script.stdout).lines().filter(|line| !line.is_empty()).count() as u64;
    assert_eq!(lines, samples(&file));
    Ok(())
}

pub(super) fn perf_sees_the_header() -> Outcome {
    let folder = Folder::new("header");
    let file = folder.file("d");
    recorded(&file, &["sh", "-c", BUSY]);
    let mut data = PerfData::open(&file).expect("a recording");
    for id in [FeatureId::BUILD_ID, FeatureId::SAMPLE_TIME, FeatureId::CLOCK_DATA, FeatureId::CPU_TOPOLOGY] {
        assert!(data.feature(id).expect("a whole section").is_some(), "{id}");
    }
    assert!(data.problems().is_empty(), "{:?}", data.problems());
    let header = text(&perf(&["report", "--header-only", "-I"], &file)?.stdout);
    for part in [
        "# hostname : ",
        "# nrcpus online : ",
        "# perf version : perfuse",
        "# clockid: monotonic",
        "# event : name = ",
    ] {
        assert!(header.contains(part), "{part}: {header}");
    }
    let ids = text(&perf(&["buildid-list"], &file)?.stdout);
    assert!(ids.contains("libc") || ids.contains("sh"), "{ids}");
    Ok(())
}

pub(super) fn call_chains_and_copies_of_the_stack() -> Outcome {
    let folder = Folder::new("chains");
    for arguments in [&["-g"][..], &["--call-graph", "dwarf,4096"]] {
        let file = folder.file("d");
        recorded(&file, &[arguments, &["-e", "cpu-clock", "sh", "-c", BUSY]].concat());
        assert_eq!(perf_counts(&file, "SAMPLE")?, samples(&file));
        let mut data = PerfData::open(&file).expect("a recording");
        let mut chains = 0;
        while let Some(entry) = data.next().expect("whole records") {
            if entry.kind() == RecordType::SAMPLE {
                let Record::Sample(sample) = entry.decode().expect("known").record else {
                    panic!("a sample")
                };
                chains += usize::from(sample.callchain.is_some());
                assert_eq!(sample.stack_user.is_some(), arguments.len() == 2);
            }
        }
        assert!(chains > 10, "{chains}");
    }
    Ok(())
}

pub(super) fn compressed_recordings_hold_the_same() -> Outcome {
    let folder = Folder::new("zstd");
    let file = folder.file("d");
    recorded(&file, &["-z3", "-F", "5000", "-e", "cpu-clock", "sh", "-c", BUSY]);
    let options = ReadOptions::new().with_unpack(false);
    let packed = counts_of(PerfData::open_with(&file, options).expect("a recording"));
    assert!(packed[&kind::COMPRESSED.0] > 0 && !packed.contains_key(&RecordType::SAMPLE.0));
    assert!(samples(&file) > 50);
    assert_eq!(perf_counts(&file, "SAMPLE")?, samples(&file));
    Ok(())
}

pub(super) fn a_pipe_is_a_recording_of_its_own() -> Outcome {
    let folder = Folder::new("pipe");
    let file = folder.file("d");
    let script = format!("{BUSY}; echo not a record");
    let mut command = record(Path::new("-"), &["-e", "cpu-clock", "sh", "-c", &script]);
    let out = File::create(&file).expect("a file");
    let output = command.stdout(out).output().expect("it starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("not a record"), "the command's own output went elsewhere");
    let own = counts_of(
        PerfData::from_reader(File::open(&file).expect("it"), ReadOptions::default()).expect("one"),
    );
    assert!(own[&RecordType::SAMPLE.0] > 20);
    assert_eq!(perf_counts(&file, "SAMPLE")?, own[&RecordType::SAMPLE.0]);
    Ok(())
}

pub(super) fn tracepoints_are_filtered_and_formatted() -> Outcome {
    need::root()?;
    need::tracefs()?;
    let folder = Folder::new("tracepoints");
    let file = folder.file("d");
    let arguments =
        ["-e", "sched:sched_process_exec", "--filter", "old_pid > 0", "-e", "sched:sched_process_exec"];
    recorded(
        &file,
        &[&arguments[..], &["--filter", "old_pid < 0", "sh", "-c", "env true; env true"]].concat(),
    );
    assert!(samples(&file) >= 3);
    let mut data = PerfData::open(&file).expect("a recording");
    let mut by_event = BTreeMap::new();
    while let Some(entry) = data.next().expect("whole records") {
        if entry.kind() == RecordType::SAMPLE {
            *by_event.entry(entry.event_index()).or_insert(0) += 1;
        }
    }
    assert_eq!(by_event.keys().collect::<Vec<_>>(), [&Some(0)], "the second filter lets nothing through");
    let script = perf(&["script"], &file)?;
    assert!(text(&script.stdout).contains("filename=/"), "{}{}", text(&script.stdout), text(&script.stderr));
    let wrong = record(&file, &["-e", "sched:sched_switch", "--filter", "nonsense > 1", "true"]).output();
    let said = text(&wrong.expect("it starts").stderr);
    assert!(said.contains("prev_pid"), "the fields there are: {said}");
    Ok(())
}

pub(super) fn periods_and_several_events() -> Outcome {
    let folder = Folder::new("period");
    let file = folder.file("d");
    recorded(&file, &["-c", "1000000", "-e", "task-clock", "sh", "-c", BUSY]);
    assert_eq!(perf_counts(&file, "SAMPLE")?, samples(&file));
    recorded(&file, &["-e", "cpu-clock,{page-faults,task-clock}", "sh", "-c", BUSY]);
    let list = text(&perf(&["evlist"], &file)?.stdout);
    for event in ["cpu-clock", "page-faults", "task-clock"] {
        assert!(list.contains(event), "{list}");
    }
    Ok(())
}

pub(super) fn a_recording_is_its_owners_alone() -> Outcome {
    let folder = Folder::new("mode");
    let file = folder.file("d");
    recorded(&file, &["true"]);
    let mode = fs::metadata(&file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "as perf's");
    Ok(())
}

/// A filter that the kernel applies leaves what the same words leave of a recording of everything, whatever of them it can do.
pub(super) fn filters_mean_the_same_in_the_kernel_and_on_records() -> Outcome {
    need::root()?;
    need::tracefs()?;
    let folder = Folder::new("filters");
    let file = folder.file("d");
    let work = "for i in 1 2 3; do env true; (sleep 0.002; cat /etc/hostname) & wait; done >/dev/null";
    let mut kept = 0;
    for (event, filter) in [
        ("sched:sched_switch", "prev_comm == 'sh'"),
        ("sched:sched_switch", "prev_comm ~ \"*sh\" || prev_comm ~ 's[k-m]*p'"),
        ("sched:sched_switch", "!prev_pid == 0 && prev_state & 1"),
        ("sched:sched_switch", "prev_prio >= 120 && next_pid > 0x10 && prev_state == -0"),
        ("sched:sched_switch", "next_comm !~ 'sw*' && (cpu == 0 || cpu > 0)"),
        ("sched:sched_switch", "comm == 'sleep' && prev_state in {1, 2..64}"),
        ("sched:sched_switch", "prev_prio == 376"),
        ("sched:sched_process_exec", "filename ~ '*/env' || filename ~ '/*cat'"),
        ("sched:sched_process_exec", "filename =~ 'e(nv|x)' && old_pid > 0"),
        ("raw_syscalls:sys_enter", "id == 3 || id & 0x100"),
        ("raw_syscalls:sys_enter", "id < 4 && args[2] % 2 == 0"),
        ("raw_syscalls:sys_exit", "ret < 0 && ret != -2"),
        ("raw_syscalls:sys_exit", "ret == 0xfffffffffffffffe || ret == -ENOENT"),
        ("sched:sched_process_fork", "child_pid > parent_pid && tid == parent_pid"),
    ] {
        recorded(&file, &["-e", event, "--filter", filter, "-e", event, "sh", "-c", work]);
        let mut data = PerfData::open(&file).expect("a recording");
        let mut filtered = 0;
        while let Some(entry) = data.next().expect("whole records") {
            filtered += usize::from(entry.kind() == RecordType::SAMPLE && entry.event_index() == Some(0));
        }
        let mut script = Command::new(program());
        script.args(["script", "-F", "tid,trace", "--filter", filter, "-i"]).arg(&file);
        let output = script.output().expect("it starts");
        let lines = text(&output.stdout);
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        lines.lines().for_each(|line| *counts.entry(line).or_default() += 1);
        let odd: Vec<_> = counts.iter().filter(|(_, count)| **count % 2 == 1).collect();
        assert!(odd.is_empty(), "{event} {filter}: {odd:?}");
        assert_eq!(lines.lines().count(), 2 * filtered, "{event} {filter}: {}", text(&output.stderr));
        kept += usize::from(filtered > 0);
    }
    assert!(kept >= 11, "only {kept} filters left anything");
    Ok(())
}
