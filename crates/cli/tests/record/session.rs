//! Files and time: when a recording starts and ends, what is left when something goes wrong, and the files
//! that follow each other.

use super::*;

pub(super) fn the_commands_status_is_passed_on() -> Outcome {
    let folder = Folder::new("status");
    let status = |arguments: &[&str]| {
        record(&folder.file("d"), arguments).status().expect("it starts").code().expect("it ends by itself")
    };
    assert_eq!(status(&["sh", "-c", "exit 7"]), 7);
    assert_eq!(status(&["sh", "-c", "kill -9 $$"]), 128 + 9);
    assert_eq!(status(&["--", "true"]), 0);
    Ok(())
}

pub(super) fn a_command_that_cannot_run_leaves_no_file() -> Outcome {
    let folder = Folder::new("none");
    let file = folder.file("d");
    assert_eq!(record(&file, &["/no/such/command"]).status().expect("it starts").code(), Some(127));
    assert_eq!(record(&file, &["/etc/passwd"]).status().expect("it starts").code(), Some(126));
    assert_eq!(folder.names(), [""; 0]);
    recorded(&file, &["true"]);
    let before = fs::read(&file).expect("a file");
    assert_eq!(record(&file, &["/no/such/command"]).status().expect("it starts").code(), Some(127));
    assert_eq!(fs::read(&file).expect("a file"), before, "the recording that was there is there again");
    Ok(())
}

pub(super) fn samples_are_as_many_as_frequency_and_time_say() -> Outcome {
    let folder = Folder::new("rate");
    let file = folder.file("d");
    // The loop's own cpu time decides, not how long it took on a busy machine.
    let script = format!("{BUSY}; cat /proc/$$/stat");
    let mut command = record(&file, &["-e", "cpu-clock", "-F", "997", "sh", "-c", &script]);
    let output = command.stdout(Stdio::piped()).output().expect("it starts");
    let stat = text(&output.stdout);
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum();
    let expected = ticks as f64 / 100.0 * 997.0;
    let found = samples(&file) as f64;
    assert!(found > 0.6 * expected - 30.0 && found < 1.4 * expected + 40.0, "{found}, not about {expected}");
    Ok(())
}

pub(super) fn a_file_follows_a_file() -> Outcome {
    let folder = Folder::new("switch");
    // Small rings, because what is in a ring is not yet written.
    let arguments = ["--switch-output=60K", "-m", "8", "-F", "5000", "-g", "-e", "cpu-clock", "sh", "-c"];
    recorded(&folder.file("d"), &[&arguments[..], &[&[BUSY; 5].join(";")]].concat());
    let names = folder.names();
    assert!(names.len() >= 2 && names.iter().all(|name| name.starts_with("d.20")), "{names:?}");
    for name in &names {
        let file = folder.file(name);
        assert_eq!(perf_counts(&file, "SAMPLE")?, samples(&file));
    }
    Ok(())
}

pub(super) fn an_overwritten_ring_keeps_the_newest() -> Outcome {
    let folder = Folder::new("overwrite");
    let file = folder.file("d");
    recorded(&file, &["--overwrite", "-m", "1", "-c", "100000", "-e", "cpu-clock", "sh", "-c", BUSY]);
    let found = samples(&file);
    assert!(found > 20 && found < 400, "{found}: what fits into pages, and no more");
    assert_eq!(perf_counts(&file, "SAMPLE")?, found);
    Ok(())
}

pub(super) fn an_old_recording_is_kept() -> Outcome {
    let folder = Folder::new("old");
    recorded(&folder.file("d"), &["true"]);
    recorded(&folder.file("d"), &["true"]);
    assert_eq!(folder.names(), ["d", "d.old"]);
    Ok(())
}

/// Starts a recording of something long, and waits until its file grows.
fn long_recording(file: &Path) -> std::process::Child {
    // What an earlier recording left is no sign that this one runs.
    let _ = fs::remove_file(file);
    let child = record(file, &["-e", "cpu-clock", "-F", "5000", "sh", "-c", "while :; do :; done"]).spawn();
    let child = child.expect("it starts");
    let start = Instant::now();
    while fs::metadata(file).map_or(0, |metadata| metadata.len()) < 20_000 {
        assert!(start.elapsed() < Duration::from_secs(20), "the file does not grow");
        sleep(Duration::from_millis(20));
    }
    child
}

fn signal(pid: u32, name: &str) {
    let status = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status();
    assert!(status.is_ok_and(|status| status.success()));
}

pub(super) fn ctrl_c_completes_the_file() -> Outcome {
    let folder = Folder::new("interrupt");
    let file = folder.file("d");
    for name in ["INT", "TERM"] {
        let child = long_recording(&file);
        signal(child.id(), name);
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.code().is_some_and(|code| code > 128), "{:?}", output.status);
        let mut data = PerfData::open(&file).expect("a recording");
        assert!(data.feature(FeatureId::SAMPLE_TIME).expect("whole").is_some());
        assert_eq!(perf_counts(&file, "SAMPLE")?, samples(&file));
    }
    Ok(())
}

pub(super) fn a_killed_recorder_leaves_a_readable_file() -> Outcome {
    let folder = Folder::new("killed");
    let file = folder.file("d");
    let child = long_recording(&file);
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap_or_default();
    signal(child.id(), "KILL");
    for child in children.split_whitespace() {
        signal(child.parse().expect("a number"), "KILL");
    }
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.signal(), Some(9));
    let mut data = PerfData::open(&file).expect("a recording");
    let mut found = 0;
    // The last record may have been cut off; all before it are there.
    while let Ok(Some(entry)) = data.next() {
        found += u64::from(entry.kind() == RecordType::SAMPLE);
    }
    assert!(found > 100, "{found}");
    Ok(())
}

pub(super) fn a_full_disk_is_told_and_leaves_a_readable_file() -> Outcome {
    need::root()?;
    let folder = Folder::new("full");
    let disk = folder.file("disk");
    fs::create_dir_all(&disk).expect("a folder");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=128k", "none"]).arg(&disk).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return Err(Skip::needs("a file system of its own", "mount is refused"));
    }
    let file = disk.join("d");
    let output =
        record(&file, &["-e", "cpu-clock", "-F", "20000", "-g", "sh", "-c", "while :; do :; done"]).output();
    let output = output.expect("it starts");
    let said = text(&output.stderr);
    let found = samples(&file);
    let _ = Command::new("umount").arg(&disk).status();
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains(&*file.to_string_lossy()) && said.contains("KiB"), "{said}");
    assert!(found > 20, "{found}");
    Ok(())
}
