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
    // On a busy machine such rings may lose records.
    let output = record(&folder.file("d"), &[&arguments[..], &[&[BUSY; 5].join(";")]].concat()).output();
    assert!(output.expect("the program starts").status.success());
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

pub(super) fn one_event_is_overwritten_and_another_is_not() -> Outcome {
    let folder = Folder::new("one-overwritten");
    let file = folder.file("d");
    let long = [BUSY; 3].join("; ");
    for (options, list, overwritten) in [
        (&["-m", "1"][..], "dummy,cpu-clock/overwrite,period=100000/", true),
        // Room enough for a reader that is late.
        (&["-m", "128", "--overwrite"], "dummy,cpu-clock/no-overwrite,period=100000/", false),
    ] {
        recorded(&file, &[options, &["-e", list, "sh", "-c", &long]].concat());
        let found = samples(&file);
        // A page of each cpu does not hold what is written all the time.
        assert_eq!(found < 400, overwritten, "{list}: {found}");
        assert!(found > 20, "{list}: {found}");
        assert_eq!(perf_counts(&file, "SAMPLE")?, found);
    }
    Ok(())
}

pub(super) fn samples_of_one_event_tell_no_time() -> Outcome {
    let folder = Folder::new("untimed");
    let file = folder.file("d");
    for list in ["cpu-clock/time=0/,faults", "faults,cpu-clock/time=0/"] {
        recorded(&file, &["-F", "997", "-e", list, "sh", "-c", BUSY]);
        assert_eq!(perf_counts(&file, "SAMPLE")?, samples(&file), "{list}");
        let mut script = Command::new(program());
        let output = script.args(["script", "-i"]).arg(&file).output().expect("it starts");
        let shown = text(&output.stdout);
        let of = |name: &str| shown.lines().filter(|line| line.contains(name)).collect::<Vec<_>>();
        let is_time = |word: &str| word.strip_suffix(':').is_some_and(|word| word.parse::<f64>().is_ok());
        let timed = |line: &&str| line.split_whitespace().any(is_time);
        let clock = of("cpu-clock");
        assert!(!clock.is_empty() && !clock.iter().any(timed), "{list}: {shown}");
        assert!(of("faults").iter().all(timed), "{list}: {shown}");
    }
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
pub(super) fn long_recording(file: &Path) -> std::process::Child {
    // A file of an earlier recording would be no sign that this one runs.
    let _ = fs::remove_file(file);
    let child = record(file, &["-e", "cpu-clock", "-F", "5000", "sh", "-c", "while :; do :; done"]).spawn();
    let child = child.expect("it starts");
    wait::until("the file grows", || fs::metadata(file).map_or(0, |metadata| metadata.len()) >= 20_000);
    child
}

pub(super) fn signal(pid: u32, name: &str) {
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

pub(super) fn orders_switch_sampling_on_and_end_it() -> Outcome {
    let folder = Folder::new("orders");
    let (file, orders, answers) = (folder.file("d"), folder.file("orders"), folder.file("answers"));
    for fifo in [&orders, &answers] {
        let made = Command::new(need::program("mkfifo")?).arg(fifo).status();
        assert!(made.is_ok_and(|status| status.success()));
    }
    let control = format!("fifo:{},{}", orders.display(), answers.display());
    let arguments = ["-e", "cpu-clock", "-F", "2000", "-D", "-1", "--control", &control, "sh", "-c"];
    let mut command = record(&file, &[&arguments[..], &["while :; do :; done"]].concat());
    let recorder = command.spawn().expect("it starts");
    // Open both ways, so that it waits for nobody.
    let open = |path| File::options().read(true).write(true).open(path).expect("a fifo");
    let (mut orders, mut answers) = (open(&orders), open(&answers));
    let mut tell = |order: &str| {
        orders.write_all(order.as_bytes()).expect("it is heard");
        let mut answer = [0; 5];
        answers.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"ack\n\0");
    };
    tell("ping\n");
    sleep(Duration::from_millis(300));
    assert_eq!(samples_so_far(&file), 0, "nobody has switched it on");
    tell("enable\n");
    wait::until("there are samples", || samples_so_far(&file) > 20);
    tell("disable\n");
    tell("stop\n");
    let output = recorder.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(samples(&file) > 20);
    Ok(())
}

/// Of a file that is still written.
pub(super) fn samples_so_far(file: &Path) -> usize {
    // It may not have begun.
    let Ok(mut data) = PerfData::open(file) else { return 0 };
    let mut found = 0;
    while let Ok(Some(entry)) = data.next() {
        found += usize::from(entry.kind() == RecordType::SAMPLE);
    }
    found
}

pub(super) fn a_recording_has_at_most_its_size() -> Outcome {
    let folder = Folder::new("size");
    let file = folder.file("d");
    let arguments = ["-e", "cpu-clock", "-F", "20000", "-m", "8", "--max-size", "50K", "sh", "-c"];
    // On a busy machine such rings may lose records.
    let output = record(&file, &[&arguments[..], &["while :; do :; done"]].concat()).output();
    let said = text(&output.expect("the program starts").stderr);
    assert!(said.contains("--max-size") && said.contains("stopped"), "{said}");
    let size = fs::metadata(&file).expect("it").len();
    assert!(size > 50 << 10 && size < 200 << 10, "{size}");
    Ok(())
}

pub(super) fn only_so_many_files_are_kept() -> Outcome {
    let folder = Folder::new("many");
    let arguments = [
        "--switch-output=40K",
        "--switch-max-files",
        "2",
        "-m",
        "8",
        "-F",
        "5000",
        "-g",
        "-e",
        "cpu-clock",
        "sh",
        "-c",
    ];
    // On a busy machine such rings may lose records.
    let output = record(&folder.file("d"), &[&arguments[..], &[&[BUSY; 15].join(";")]].concat()).output();
    let output = output.expect("the program starts");
    let said = text(&output.stderr);
    assert!(output.status.success() && said.matches("wrote ").count() > 2, "{said}");
    let names = folder.names();
    assert_eq!(names.len(), 2, "{names:?}");
    names.iter().for_each(|name| assert!(said.contains(name.as_str()), "{name} in {said}"));
    Ok(())
}

pub(super) fn a_signal_writes_what_overwritten_rings_hold() -> Outcome {
    let folder = Folder::new("dump");
    let file = folder.file("d");
    let arguments = ["--overwrite", "-m", "8", "-F", "2000", "-e", "cpu-clock", "sh", "-c"];
    let child = record(&file, &[&arguments[..], &["while :; do :; done"]].concat()).spawn();
    let child = child.expect("it starts");
    for files in 1..=2 {
        sleep(Duration::from_millis(300));
        signal(child.id(), "USR2");
        let written = || folder.names().iter().filter(|name| name.starts_with("d.20")).count();
        wait::until("there is one file more", || written() >= files);
    }
    sleep(Duration::from_millis(300));
    signal(child.id(), "INT");
    child.wait_with_output().expect("it ends");
    let mut last = 0;
    let mut names = folder.names();
    assert_eq!(names.len(), 3, "{names:?}");
    // The one without a time is the newest.
    names.rotate_left(1);
    for name in names {
        let mut data = PerfData::open(folder.file(&name)).expect("a recording");
        let (mut maps, mut times) = (0, Vec::new());
        while let Some(entry) = data.next().expect("whole records") {
            match entry.kind() {
                RecordType::SAMPLE => times.extend(entry.decode().expect("known").time()),
                RecordType::MMAP2 => maps += 1,
                _ => {}
            }
        }
        let first = times.iter().min().copied().unwrap_or(0);
        assert!(maps >= 2 && first > last, "{name}: {maps} maps, from {first} on; before until {last}");
        last = times.iter().max().copied().unwrap_or(0);
    }
    Ok(())
}

pub(super) fn a_line_is_shown_on_a_terminal() -> Outcome {
    let folder = Folder::new("line");
    let (file, log) = (folder.file("d"), folder.file("log"));
    let line = format!(
        "{} record -e cpu-clock -o {} sh -c '{}'",
        program().display(),
        file.display(),
        [BUSY; 20].join(";")
    );
    let mut script = Command::new(need::program("script")?);
    let status = script.args(["-qec", &line]).arg(&log).stdin(Stdio::null()).stdout(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()));
    let log = fs::read(&log).map(|log| text(&log)).expect("what was shown");
    let line = log.split("\r\u{1b}[K").find(|line| line.starts_with("recording sh"));
    let line = line.unwrap_or_else(|| panic!("no line in {log:?}"));
    for part in ["samples", "/s", "00:0", "iB", "^C stops"] {
        assert!(line.contains(part), "{part} in {line}");
    }
    Ok(())
}

pub(super) fn a_recording_is_its_owners() -> Outcome {
    let folder = Folder::new("mode");
    let file = folder.file("d");
    recorded(&file, &["true"]);
    let mode = fs::metadata(&file).expect("it").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    Ok(())
}

pub(super) fn copies_of_stacks_are_unwound() -> Outcome {
    let folder = Folder::new("unwound");
    let file = folder.file("d");
    recorded(&file, &["--call-graph", "dwarf", "-e", "cpu-clock", "-F", "2000", "sh", "-c", BUSY]);
    let read = |subcommand: &str, options: &[&str]| {
        let mut command = Command::new(program());
        let output = command.args([subcommand, "-i"]).arg(&file).args(options).output().expect("it starts");
        assert!(output.status.success(), "{subcommand} {options:?}: {}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    // Each sample tells at least where the program was.
    let (shown, said) = read("script", &[]);
    let blocks: Vec<_> = shown.split("\n\n").filter(|block| !block.is_empty()).collect();
    assert_eq!(blocks.len() as u64, samples(&file));
    assert!(blocks.iter().all(|block| block.lines().skip(1).any(|line| line.starts_with('\t'))), "{shown}");
    assert_eq!(said.matches("are not unwound yet").count(), 0, "{said}");
    let (objects, _) = read("script", &["--json"]);
    let empty = objects.lines().find(|line| line.contains("\"callchain\":[]"));
    assert_eq!(empty, None);
    let (_, said) = read("report", &["--no-children", "-g", "none"]);
    assert_eq!(said, "");
    let version = Command::new(program()).args(["version", "--build-options"]).output().expect("it starts");
    assert!(text(&version.stdout).contains("libdw-dwarf-unwind: [ on  ]"), "{}", text(&version.stdout));
    Ok(())
}

pub(super) fn cpus_that_are_not_there_are_told() -> Outcome {
    let folder = Folder::new("cpus");
    let refused = record(&folder.file("d"), &["-C", "60000", "true"]).output().expect("it starts");
    let said = text(&refused.stderr);
    assert!(said.contains("there is no cpu 60000 online") && refused.status.code() == Some(125), "{said}");
    need::root()?;
    for subcommand in ["record", "stat"] {
        let mut command = Command::new(program());
        command.args([subcommand, "-e", "cpu-clock", "-C", "0,60000-60001", "-o"]).arg(folder.file("d"));
        let output = command.arg("true").env("LC_ALL", "C.UTF-8").output().expect("it starts");
        let said = text(&output.stderr);
        assert!(said.contains("there are no cpus 60000-60001 online"), "{subcommand}: {said}");
        assert!(output.status.success(), "{subcommand}: {said}");
    }
    Ok(())
}
