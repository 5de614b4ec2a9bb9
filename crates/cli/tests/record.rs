//! `perfuse record` as its users run it: the real program on the running kernel. What it writes is read by
//! perfuse's own reader, and by Linux's perf where that is installed; both must see the same.

use perfuse_data::feature::FeatureId;
use perfuse_data::tool::kind;
use perfuse_data::{Options, PerfData};
use perfuse_events::abi::record::{Record, RecordType};
use perfuse_testkit::{Outcome, Sandbox, Skip, need, suite};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

suite! {
    the_commands_status_is_passed_on,
    a_command_that_cannot_run_leaves_no_file,
    wrong_command_lines_are_told_apart,
    samples_are_as_many_as_frequency_and_time_say,
    perf_sees_the_same_records,
    perf_sees_the_header,
    forks_and_execs_are_told,
    hundreds_of_threads_are_recorded,
    a_running_process_is_recorded_with_its_threads,
    the_whole_system_is_recorded,
    call_chains_and_copies_of_the_stack,
    compressed_recordings_hold_the_same,
    a_pipe_is_a_recording_of_its_own,
    tracepoints_are_filtered_and_formatted,
    periods_and_several_events,
    a_file_follows_a_file,
    an_overwritten_ring_keeps_the_newest,
    an_old_recording_is_kept,
    ctrl_c_completes_the_file,
    a_killed_recorder_leaves_a_readable_file,
    a_full_disk_is_told_and_leaves_a_readable_file,
    an_unprivileged_user_records_the_user_side,
}

/// A shell loop of some 100 ms.
const BUSY: &str = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";

fn program() -> PathBuf {
    std::env::var_os("PERFUSE_BIN").map_or_else(|| env!("CARGO_BIN_EXE_perfuse").into(), PathBuf::from)
}

/// A folder for one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("perfuse-record-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the folder").flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn record(file: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.arg("record").arg("-o").arg(file).args(arguments);
    command.env("LC_ALL", "C.UTF-8").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Records successfully; what was said.
fn recorded(file: &Path, arguments: &[&str]) -> String {
    let output = record(file, arguments).output().expect("the program starts");
    let said = text(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {:?} {said}", output.status);
    assert!(said.contains("0 lost"), "{arguments:?}: {said}");
    said
}

/// How many records of each type a recording has.
fn counts(file: &Path) -> BTreeMap<u32, u64> {
    counts_of(PerfData::open(file).expect("a recording"))
}

fn counts_of(mut data: PerfData<'_>) -> BTreeMap<u32, u64> {
    let mut counts = BTreeMap::new();
    while let Some(entry) = data.next().expect("whole records") {
        if entry.is_kernel() {
            entry.decode().expect("its event is known");
        }
        *counts.entry(entry.kind().0).or_insert(0) += 1;
    }
    counts
}

fn samples(file: &Path) -> u64 {
    counts(file).get(&RecordType::SAMPLE.0).copied().unwrap_or(0)
}

/// What perf counts of a type, in all of the recording.
fn perf_counts(file: &Path, name: &str) -> Result<u64, Skip> {
    let output = Command::new(need::perf()?).args(["report", "--stats", "-i"]).arg(file).output();
    let output = output.map_err(|error| Skip::needs("perf", error))?;
    let stats = text(&output.stdout);
    let line = stats.lines().find(|line| line.trim().starts_with(&format!("{name} events:")));
    let number = line.and_then(|line| line.split(':').nth(1)?.split_whitespace().next()?.parse().ok());
    Ok(number.unwrap_or_else(|| panic!("no {name} in {stats}{}", text(&output.stderr))))
}

fn perf(arguments: &[&str], file: &Path) -> Result<Output, Skip> {
    let output =
        Command::new(need::perf()?).args(arguments).arg("-i").arg(file).stdin(Stdio::null()).output();
    output.map_err(|error| Skip::needs("perf", error))
}

fn the_commands_status_is_passed_on() -> Outcome {
    let folder = Folder::new("status");
    let status = |arguments: &[&str]| {
        record(&folder.file("d"), arguments).status().expect("it starts").code().expect("it ends by itself")
    };
    assert_eq!(status(&["sh", "-c", "exit 7"]), 7);
    assert_eq!(status(&["sh", "-c", "kill -9 $$"]), 128 + 9);
    assert_eq!(status(&["--", "true"]), 0);
    Ok(())
}

fn a_command_that_cannot_run_leaves_no_file() -> Outcome {
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

fn wrong_command_lines_are_told_apart() -> Outcome {
    let folder = Folder::new("usage");
    for arguments in [&[][..], &["-F", "x", "true"], &["-e", "cpu-clok", "true"], &["-p", "1", "-a"]] {
        let output = record(&folder.file("d"), arguments).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
    Ok(())
}

fn samples_are_as_many_as_frequency_and_time_say() -> Outcome {
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

fn perf_sees_the_same_records() -> Outcome {
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

fn perf_sees_the_header() -> Outcome {
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

fn forks_and_execs_are_told() -> Outcome {
    let folder = Folder::new("forks");
    let file = folder.file("d");
    recorded(&file, &["sh", "-c", "for i in 1 2 3 4 5; do env true; done; exec env true"]);
    let mut data = PerfData::open(&file).expect("a recording");
    let (mut forks, mut comms) = (0, Vec::new());
    while let Some(entry) = data.next().expect("whole records") {
        if !entry.is_kernel() {
            continue;
        }
        match entry.decode().expect("known").record {
            Record::Fork(_) => forks += 1,
            Record::Comm(comm) => comms.push(text(comm.name.as_bytes())),
            _ => {}
        }
    }
    assert!(forks >= 5, "{forks}");
    assert_eq!(comms.iter().filter(|name| *name == "true").count(), 6, "{comms:?}");
    Ok(())
}

fn hundreds_of_threads_are_recorded() -> Outcome {
    const THREADS: usize = 300;
    let folder = Folder::new("threads");
    let file = folder.file("d");
    let python = need::program("python3")?;
    let script = format!(
        "import threading\nts=[threading.Thread(target=lambda: sum(range(20000))) for _ in range({THREADS})]\n\
         [t.start() for t in ts]\n[t.join() for t in ts]"
    );
    recorded(&file, &[&python.to_string_lossy(), "-c", &script]);
    assert!(counts(&file)[&RecordType::FORK.0] >= THREADS as u64);
    Ok(())
}

fn a_running_process_is_recorded_with_its_threads() -> Outcome {
    let folder = Folder::new("attach");
    let file = folder.file("d");
    let python = need::program("python3")?;
    let script = "import threading,time\nend=time.time()+3\ndef f():\n while time.time()<end: pass\n\
                  ts=[threading.Thread(target=f) for _ in range(4)]\n[t.start() for t in ts]\n[t.join() for t in ts]";
    let mut process = Command::new(python).args(["-c", script]).spawn().expect("python starts");
    sleep(Duration::from_millis(400));
    recorded(&file, &["-e", "cpu-clock", "-p", &process.id().to_string(), "sleep", "0.4"]);
    let _ = process.kill();
    let _ = process.wait();
    let mut data = PerfData::open(&file).expect("a recording");
    let mut tids = BTreeMap::new();
    let mut synthesized = 0;
    while let Some(entry) = data.next().expect("whole records") {
        if !entry.is_kernel() {
            continue;
        }
        let decoded = entry.decode().expect("known");
        match decoded.record {
            Record::Sample(sample) => *tids.entry(sample.tid.map(|tid| tid.tid)).or_insert(0) += 1,
            Record::Mmap2(_) if decoded.time() == Some(0) => synthesized += 1,
            _ => {}
        }
    }
    assert!(tids.len() >= 4 && synthesized > 3, "{tids:?} {synthesized}");
    Ok(())
}

fn the_whole_system_is_recorded() -> Outcome {
    need::root()?;
    let folder = Folder::new("system");
    let file = folder.file("d");
    recorded(&file, &["-a", "sleep", "0.3"]);
    assert_eq!(perf_counts(&file, "SAMPLE")?, samples(&file));
    let maps = counts(&file)[&RecordType::MMAP2.0];
    assert!(maps > 5, "{maps}");
    Ok(())
}

fn call_chains_and_copies_of_the_stack() -> Outcome {
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

fn compressed_recordings_hold_the_same() -> Outcome {
    let folder = Folder::new("zstd");
    let file = folder.file("d");
    recorded(&file, &["-z3", "-F", "5000", "-e", "cpu-clock", "sh", "-c", BUSY]);
    let options = Options { unpack: false, ..Options::default() };
    let packed = counts_of(PerfData::open_with(&file, options).expect("a recording"));
    assert!(packed[&kind::COMPRESSED.0] > 0 && !packed.contains_key(&RecordType::SAMPLE.0));
    assert!(samples(&file) > 50);
    assert_eq!(perf_counts(&file, "SAMPLE")?, samples(&file));
    Ok(())
}

fn a_pipe_is_a_recording_of_its_own() -> Outcome {
    let folder = Folder::new("pipe");
    let file = folder.file("d");
    let script = format!("{BUSY}; echo not a record");
    let mut command = record(Path::new("-"), &["-e", "cpu-clock", "sh", "-c", &script]);
    let out = File::create(&file).expect("a file");
    let output = command.stdout(out).output().expect("it starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("not a record"), "the command's own output went elsewhere");
    let own =
        counts_of(PerfData::from_reader(File::open(&file).expect("it"), Options::default()).expect("one"));
    assert!(own[&RecordType::SAMPLE.0] > 20);
    assert_eq!(perf_counts(&file, "SAMPLE")?, own[&RecordType::SAMPLE.0]);
    Ok(())
}

fn tracepoints_are_filtered_and_formatted() -> Outcome {
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

fn periods_and_several_events() -> Outcome {
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

fn a_file_follows_a_file() -> Outcome {
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

fn an_overwritten_ring_keeps_the_newest() -> Outcome {
    let folder = Folder::new("overwrite");
    let file = folder.file("d");
    recorded(&file, &["--overwrite", "-m", "1", "-c", "100000", "-e", "cpu-clock", "sh", "-c", BUSY]);
    let found = samples(&file);
    assert!(found > 20 && found < 400, "{found}: what fits into pages, and no more");
    assert_eq!(perf_counts(&file, "SAMPLE")?, found);
    Ok(())
}

fn an_old_recording_is_kept() -> Outcome {
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

fn ctrl_c_completes_the_file() -> Outcome {
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

fn a_killed_recorder_leaves_a_readable_file() -> Outcome {
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

fn a_full_disk_is_told_and_leaves_a_readable_file() -> Outcome {
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

fn an_unprivileged_user_records_the_user_side() -> Outcome {
    if need::sysctl("kernel/perf_event_paranoid")? < 2 {
        return Err(Skip::needs("perf_event_paranoid of 2 or more", "it is less"));
    }
    need::root()?;
    let folder = Folder::new("user");
    // A copy, because the folder of the program may be closed to others.
    let program = folder.file("perfuse");
    fs::copy(self::program(), &program).expect("a copy");
    let directory = Command::new("chmod").arg("777").arg(&folder.0).status();
    assert!(directory.is_ok_and(|status| status.success()));
    let file = folder.file("d");
    let mut command = Sandbox::new().unprivileged().command(&program);
    command.args(["record", "-e", "cpu-clock", "-o"]).arg(&file).args(["sh", "-c", BUSY]);
    let output = command.env("LC_ALL", "C.UTF-8").output().expect("it starts");
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("user side only"), "{said}");
    assert!(samples(&file) > 20);
    let data = PerfData::open(&file).expect("a recording");
    assert!(
        data.events().iter().next().is_some_and(|event| format!("{:?}", event.name).contains("cpu-clock:u"))
    );
    Ok(())
}
