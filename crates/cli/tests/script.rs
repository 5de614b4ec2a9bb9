//! `perfuse script`, and what lists and describes recordings, the real program, on files that the real perf
//! records: every line must be perf's. The test `perf` compares with what perf said of recordings that are kept.

use perfuse_testkit::{Outcome, Skip, need, perf, side_by_side};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

perfuse_testkit::suite! {
    deterministic:
        lines_go_into_a_file_for_each_event,
        samples_are_objects_of_json,
        a_recording_becomes_perfs_json,
        what_perf_has_and_perfuse_has_not_is_refused,
        what_was_not_recorded_is_told,
        a_pipe_is_read_without_being_named,
        a_closed_pipe_ends_it_quietly;
    witnesses:
        lines_of_samples_are_perfs,
        fields_are_perfs,
        groups_deliver_a_line_for_each_member,
        other_records_are_perfs,
        filters_and_clocks_are_perfs,
        tracepoints_are_printed_as_perf_does,
        data_convert_is_perfs,
        a_pipe_is_read_as_a_file,
        times_of_day_parts_and_ends_are_perfs,
        source_code_is_perfs,
        build_ids_of_the_running_kernel_are_perfs,
        the_header_of_an_old_file_is_perfs,
        headers_and_lists_are_perfs;
}

/// The path of a recording that the golden test keeps.
fn fixture(name: &str) -> String {
    format!("{}/tests/golden/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A recording that is gone with this.
struct Recording(PathBuf);

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const WORK: &str =
    "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; ls / >/dev/null; (echo x | cat) >/dev/null";

impl Recording {
    fn path(&self) -> &str {
        self.0.to_str().expect("a name in UTF-8")
    }

    /// A copy of one that the golden test keeps.
    fn kept(name: &str, fixture: &str) -> Self {
        let path = std::env::temp_dir().join(format!("perfuse-script-test-{}-{name}", std::process::id()));
        std::fs::copy(self::fixture(fixture), &path).expect("a copy");
        Recording(path)
    }

    /// Records a shell that works with the real perf.
    fn of(name: &str, options: &[&str]) -> Result<Self, Skip> {
        let path = std::env::temp_dir().join(format!("perfuse-script-test-{}-{name}", std::process::id()));
        let recording = Recording(path);
        let arguments =
            [&["record", "-q", "-N", "-o", recording.path()], options, &["--", "sh", "-c", WORK]].concat();
        perf::succeeds(&mut perf::command(&arguments)?)?;
        Ok(recording)
    }

    fn perfuse(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(program());
        command.args(["script", "--no-inline", "-i", self.path()]).args(arguments);
        let output = perf::impersonal(&mut command).output().expect("the program starts");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn perf(&self, arguments: &[&str]) -> Result<String, Skip> {
        let arguments = [&["script", "--no-inline", "-i", self.path()], arguments].concat();
        let output = perf::output(&mut perf::command(&arguments)?)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Compares every line.
    fn compare(&self, arguments: &[&str]) -> Outcome {
        let (ours, theirs) = (self.perfuse(arguments), self.perf(arguments)?);
        let (ours, theirs): (Vec<_>, Vec<_>) =
            (ours.lines().map(plain).collect(), theirs.lines().map(plain).collect());
        for (number, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            // Where the linker gave the linkage table no names, perf and perfuse find different ones.
            let is_excused = [ours, theirs].iter().any(|line| line.contains("@plt"));
            if ours != theirs && !is_excused {
                panic!("{arguments:?}, line {number}\nours {ours}\nperf {theirs}");
            }
        }
        assert_eq!(ours.len(), theirs.len(), "{arguments:?}: number of lines");
        Ok(())
    }
}

fn program() -> PathBuf {
    std::env::var_os("PERFUSE_BIN").map_or_else(|| env!("CARGO_BIN_EXE_perfuse").into(), PathBuf::from)
}

/// A line without what may differ: which of several names, or versions of a name, of one address is meant;
/// flags of timers, which perf reads wrongly.
fn plain(line: &str) -> String {
    let mut line = line.replace("__ia32_sys_", "__x64_sys_");
    if let Some((name, version)) = line.split_once('@').filter(|_| !line.contains("@plt")) {
        let end = version.find(['+', ' ']).unwrap_or(version.len());
        line = format!("{name}{}", &version[end..]);
    }
    if let (true, Some(at)) = (line.contains("timer:timer_start:"), line.rfind(" flags=")) {
        line.truncate(at);
    }
    line
}

fn lines_of_samples_are_perfs() -> Outcome {
    let changes = [
        &["--ns"][..],
        &["-F", "comm,tid,time,event,ip,sym,dso"],
        &["-F", "ip,sym"],
        &["-F", "+pid,-dso"],
        &["-F", "-symoff,+misc"],
        &["-F", "sw:comm,period"],
    ];
    let recordings = [
        ("plain", &["-e", "cpu-clock"][..], &changes[..]),
        ("chains", &["-e", "cpu-clock", "-g"], &[&["-G"], &["--max-stack", "2"], &["-F", "ip,sym"]]),
        ("two", &["-e", "cpu-clock,page-faults"], &[]),
        ("zstd", &["-e", "cpu-clock", "-z"], &[]),
    ];
    side_by_side(&recordings, |(name, options, changes)| {
        let recording = Recording::of(name, options)?;
        assert!(!recording.perfuse(&[]).is_empty());
        recording.compare(&[])?;
        side_by_side(changes, |arguments| recording.compare(arguments))
    })
}

fn fields_are_perfs() -> Outcome {
    let options = ["-e", "page-faults", "-c", "1", "-d", "-W", "--phys-data", "--data-page-size"];
    let recording = Recording::of("memory", &options)?;
    let fields = "+addr,+data_src,+weight,+phys_addr,+data_page_size,-sym,-symoff";
    recording.compare(&["-F", fields])?;
    recording.compare(&["-F", "comm,addr,data_src"])?;
    let registers = ["--intr-regs=ax,bx,ip,sp", "--user-regs=ip,sp,di"];
    let recording = match Recording::of("registers", &[&["-e", "cpu-clock"], &registers[..]].concat()) {
        Ok(recording) => recording,
        Err(_) => return Ok(()), // Another architecture.
    };
    recording.compare(&["-F", "+iregs,+uregs"])?;
    recording.compare(&["-F", "iregs"])
}

fn groups_deliver_a_line_for_each_member() -> Outcome {
    let recording = Recording::of("group", &["-e", "{cpu-clock,page-faults}:S"])?;
    assert!(recording.perfuse(&[]).contains("page-faults:"));
    recording.compare(&[])
}

fn other_records_are_perfs() -> Outcome {
    need::root()?;
    let options = ["-e", "cpu-clock", "--switch-events", "--namespaces", "--all-cgroups"];
    let recording = Recording::of("side", &options)?;
    let shows = ["mmap", "task", "switch", "namespace", "cgroup", "lost", "bpf", "text-poke"];
    let all: Vec<String> = shows.iter().map(|what| format!("--show-{what}-events")).collect();
    side_by_side(&all, |one| recording.compare(&[one]))?;
    recording.compare(&all.iter().map(String::as_str).collect::<Vec<_>>())?;
    recording.compare(&["--show-round-events", "-F", "comm,tid,time,ip"])?;
    recording.compare(&["--show-task-events", "--show-mmap-events", "--time", "0,1"])?;
    recording.compare(&[
        "-F",
        "comm,pid,tid,time,event,ip,misc",
        "--show-task-events",
        "--show-switch-events",
    ])
}

fn filters_and_clocks_are_perfs() -> Outcome {
    need::root()?;
    let recording = Recording::of("filters", &["-a", "-e", "cpu-clock,page-faults"])?;
    let times: Vec<String> =
        recording.perfuse(&["-F", "time"]).lines().map(|line| line.trim().replace(':', "")).collect();
    let span = format!("{},{}", times[times.len() / 4], times[times.len() / 2]);
    for arguments in [
        &["-C", "0", "--deltatime", "--ns"][..],
        &["--comms", "sh,ls", "--dsos", "[kernel.kallsyms]", "--reltime"],
        &["--time", &span],
        &["--switch-on", "page-faults", "--switch-off", "cpu-clock"],
        &["--switch-on", "page-faults", "--switch-off", "page-faults", "--show-on-off-events"],
    ] {
        // Names of any program's functions are not for this test.
        recording.compare(&[arguments, &["-F", "comm,tid,cpu,time,event,ip,dso"]].concat())?;
    }
    Ok(())
}

fn tracepoints_are_printed_as_perf_does() -> Outcome {
    let folder = need::tracefs()?;
    need::root()?;
    // Few in a recording: each takes the kernel a while to switch off.
    let recordings = [
        ("sched", &["sched:*"][..]),
        ("calls", &["raw_syscalls:*", "syscalls:*_openat", "syscalls:*_execve", "syscalls:*_mmap"]),
        ("memory", &["kmem:*", "exceptions:*", "pagemap:*"]),
        ("time", &["irq:*", "timer:*", "workqueue:*"]),
        ("files", &["filelock:*", "block:*"]),
        ("rest", &["task:*", "signal:*", "skb:*", "rcu:*", "cgroup:*"]),
    ];
    side_by_side(&recordings, |(name, events)| {
        let there = |event: &&&str| {
            event.split(':').next().is_some_and(|system| folder.join("events").join(system).is_dir())
        };
        let events: Vec<&str> = events.iter().filter(there).flat_map(|event| ["-e", *event]).collect();
        let recording = Recording::of(name, &events)?;
        recording.compare(&["-F", "trace:comm,time,event,trace"])
    })?;
    let recording = Recording::of("trace-chains", &["-g", "-e", "sched:sched_switch"])?;
    recording.compare(&[])?;
    for fields in ["trace:", "sw:comm,tid", "raw:ip", "break:comm"] {
        recording.compare(&["-F", fields])?;
    }
    Ok(())
}

fn a_pipe_is_read_without_being_named() -> Outcome {
    let script = "cat \"$1\" | \"$0\" script -G -F comm";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(program()).arg(fixture("pipe.data"));
    let output = command.output().expect("a shell");
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(lines.contains("grind"), "{lines}{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn a_pipe_is_read_as_a_file() -> Outcome {
    let path = std::env::temp_dir().join(format!("perfuse-script-test-{}-pipe", std::process::id()));
    let recording = Recording(path);
    let record = "exec \"$0\" record -q -e cpu-clock -o - -- sh -c \"$2\" >\"$1\"";
    let mut command = Command::new("sh");
    perf::succeeds(command.arg("-c").arg(record).arg(need::perf()?).args([recording.path(), WORK]))?;
    let mut command = Command::new("sh");
    command.args(["-c", "cat \"$1\" | \"$0\" script -i -"]).arg(program()).arg(recording.path());
    let output = command.output().expect("a shell");
    let ours = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!ours.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(ours, recording.perfuse(&[]));
    recording.compare(&[])
}

fn times_of_day_parts_and_ends_are_perfs() -> Outcome {
    let recording = Recording::of("ends", &["-k", "CLOCK_MONOTONIC", "-e", "cpu-clock", "-F", "4000", "-g"])?;
    recording.compare(&["-F", "+tod"])?;
    recording.compare(&["-F", "tod,ip", "--ns"])?;
    recording.compare(&["-G", "-F", "tid,time,ip", "--time", "10%/3"])?;
    recording.compare(&["-G", "-F", "tid,time,ip", "--time", "0%-20%,40%-60%"])?;
    recording.compare(&["--stop-bt", "do_syscall_64", "-F", "tid,time,ip,sym"])?;
    let places = recording.perfuse(&["-G", "-F", "ip"]);
    let place = format!("0x{}", places.lines().next().unwrap_or_default().trim());
    for range in ["0", "4096"] {
        let arguments = ["-G", "-F", "tid,time,ip", "-S", &place, "--addr-range", range];
        assert!(!recording.perfuse(&arguments).is_empty());
    }
    // Without a clock that is known, nothing can be told.
    let recording = Recording::of("no-clock", &["-e", "cpu-clock"])?;
    let mut command = Command::new(program());
    let output = command.args(["script", "-F", "+tod", "-i", recording.path()]).output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("'tod'") && errors.contains("-k") && output.status.code() == Some(125),
        "{errors}"
    );
    Ok(())
}

fn lines_go_into_a_file_for_each_event() -> Outcome {
    let recording = Recording::kept("apart", "group.data");
    let all = recording.perfuse(&["-G"]);
    let said = recording.perfuse(&["-G", "--per-event-dump"]);
    let mut found = 0;
    for event in ["cycles", "instructions"] {
        let dump = Recording(format!("{}.{event}.dump", recording.path()).into());
        let lines = std::fs::read_to_string(&dump.0).expect("a file");
        assert!(lines.lines().all(|line| line.contains(&format!("{event}: "))), "{event}");
        assert!(said.contains(&format!("({} samples)", lines.lines().count())), "{said}");
        found += lines.lines().count();
    }
    assert!(found > 0);
    assert_eq!(found, all.lines().count());
    Ok(())
}

fn samples_are_objects_of_json() -> Outcome {
    let recording = Recording::kept("json", "chains.data");
    let (lines, objects) = (recording.perfuse(&["-G"]), recording.perfuse(&["--json"]));
    assert_eq!(lines.lines().count(), objects.lines().count());
    for object in objects.lines() {
        let sample: serde_json::Value = serde_json::from_str(object).expect("JSON");
        assert_eq!(sample["event"], "cpu-clock");
        assert!(sample["time_ns"].is_u64() && sample["tid"].is_i64() && sample["comm"].is_string());
        assert!(
            sample["callchain"].as_array().is_some_and(|frames| frames[0]["ip"] == sample["place"]["ip"])
        );
    }
    Ok(())
}

/// Converts a recording by `data convert --to-json`.
fn converted(recording: &Recording) -> String {
    let mut command = Command::new(program());
    command.args(["data", "convert", "--to-json", "-", "-i", recording.path()]);
    let output = perf::impersonal(&mut command).output().expect("the program starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn a_recording_becomes_perfs_json() -> Outcome {
    for (name, chains) in [("chains.data", true), ("calls.data", false)] {
        let recording = Recording::kept(name, name);
        let json: serde_json::Value = serde_json::from_str(&converted(&recording)).expect("JSON");
        assert_eq!(json["linux-perf-json-version"], 1);
        assert!(json["headers"]["data-size"].as_u64().is_some_and(|size| size > 0));
        let samples = json["samples"].as_array().expect("samples");
        assert_eq!(samples.len(), recording.perfuse(&["-G"]).lines().count(), "{name}");
        for sample in samples {
            assert!(sample["timestamp"].is_i64() && sample["tid"].is_i64() && sample["comm"].is_string());
            let frames = sample["callchain"].as_array().expect("frames");
            assert!(frames[0]["ip"].as_str().is_some_and(|ip| ip.starts_with("0x")));
            assert!(chains || sample["id"].is_string() && sample.get("common_pid").is_none());
        }
    }
    // A file that is there is not overwritten by chance.
    let recording = Recording::kept("there", "chains.data");
    let mut command = Command::new(program());
    command.args(["data", "convert", "-i", recording.path(), "--to-json", recording.path()]);
    let refused = command.output().expect("the program starts");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("--force overwrites it"), "{said}");
    Ok(())
}

fn data_convert_is_perfs() -> Outcome {
    for (name, options) in [
        ("plain-json", &["-e", "cpu-clock"][..]),
        ("chains-json", &["-e", "cpu-clock,page-faults", "-g", "-a"]),
    ] {
        let recording = Recording::of(name, options)?;
        let written = Recording(std::env::temp_dir().join(format!("perfuse-{}-{name}", std::process::id())));
        let arguments = ["data", "convert", "--to-json", written.path(), "-i", recording.path(), "--force"];
        perf::succeeds(&mut perf::command(&arguments)?)?;
        let theirs = std::fs::read_to_string(&written.0).expect("perf wrote it");
        let ours = converted(&recording);
        // All but names: of several names of an address, and those of linkage tables, any is meant.
        let read = |text: &str| -> (serde_json::Value, Vec<String>) {
            let mut json: serde_json::Value = serde_json::from_str(text).expect("JSON");
            let mut names = Vec::new();
            for sample in json["samples"].as_array_mut().into_iter().flatten() {
                for frame in sample["callchain"].as_array_mut().into_iter().flatten() {
                    let frame = frame.as_object_mut().expect("a frame");
                    let name =
                        ["symbol", "dso"].map(|member| frame.remove(member).unwrap_or_default().to_string());
                    names.push(name.join(" "));
                }
            }
            (json, names)
        };
        let ((ours, our_names), (theirs, their_names)) = (read(&ours), read(&theirs));
        let samples = |json: &serde_json::Value| json["samples"].as_array().cloned().unwrap_or_default();
        let other = samples(&ours).into_iter().zip(samples(&theirs)).find(|(ours, theirs)| ours != theirs);
        assert!(ours == theirs, "{name}: other samples or headers: {other:?}");
        // The kernel's library of other processes has no names in perf, where the machine has many such samples.
        let (pairs, of_kernel) = (our_names.iter().zip(&their_names), "\"[vdso]\"");
        let differ: Vec<_> =
            pairs.filter(|(ours, theirs)| ours != theirs && !ours.ends_with(of_kernel)).collect();
        assert!(differ.len() * 50 <= our_names.len(), "{differ:?}");
    }
    Ok(())
}

fn what_perf_has_and_perfuse_has_not_is_refused() -> Outcome {
    for (arguments, words) in [
        ("-s x.py", "--json"),
        ("--dlfilter x.so", "--json"),
        ("--insn-trace", "AUX data"),
        ("-F metric", "perfuse stat"),
        ("-F vcpu", "guests"),
    ] {
        let mut command = Command::new(program());
        let output = command.arg("script").args(arguments.split(' ')).output().expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(words) && output.status.code() == Some(2), "{arguments}: {errors}");
    }
    // Options that ask for the usual, or matter only elsewhere, are taken and change nothing.
    let recording = Recording::kept("taken", "chains.data");
    let plain = recording.perfuse(&[]);
    let taken =
        "-f -v -a -d --full-source-path --show-kernel-path --max-blocks 3 --inline -F +callindent,+flags";
    assert_eq!(recording.perfuse(&taken.split(' ').collect::<Vec<_>>()), plain);
    Ok(())
}

fn the_header_of_an_old_file_is_perfs() -> Outcome {
    let name = "corpus/files/KDAB+hotspot__tests__integrationtests__file_content__perf.data.true.v1";
    let path = need::shared(name)?;
    let arguments = ["report", "--header-only", "-i", path.to_str().expect("a name in UTF-8")];
    let theirs = perf::output(&mut perf::command(&arguments)?)?;
    let ours = Command::new(program()).args(arguments).output().expect("it starts");
    let version = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().find(|line| line.starts_with("# header version")).map(str::to_owned)
    };
    assert_eq!(version(&ours).as_deref(), Some("# header version : 0"));
    assert_eq!(version(&ours), version(&theirs));
    Ok(())
}

/// Lines of source files, with tabs, below the samples whose thread has not shown the same line last.
fn source_code_is_perfs() -> Outcome {
    const PROGRAM: &str = "volatile unsigned long sum;\n\
        __attribute__((noinline)) void more(unsigned long n) {\n\tfor (unsigned long i = 0; i < n; i++)\n\t\tsum += i; // \u{e9}\n}\n\
        int main(void) {\n\tfor (int i = 0; i < 300; i++) {\n\t\tmore(40000);\n\t\tsum /= 3;\n\t}\n\treturn 0;\n}\n";
    let compiler = need::program("cc")?;
    let folder = std::env::temp_dir().join(format!("perfuse-script-test-{}-code", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("sums.c"), PROGRAM).expect("a file");
    let mut compile = Command::new(compiler);
    compile.args(["-O1", "-g", "-o", "sums", "sums.c"]).current_dir(&folder);
    assert!(compile.status().expect("the compiler starts").success());
    let recording = Recording(folder.join("perf.data"));
    let program = folder.join("sums");
    let program = program.to_str().expect("UTF-8");
    let arguments =
        ["record", "-q", "-N", "-e", "cpu-clock:u", "-F", "999", "-o", recording.path(), "--", program];
    perf::succeeds(&mut perf::command(&arguments)?)?;
    recording.compare(&["-F", "comm,tid,ip,sym,srccode"])?;
    recording.compare(&["-F", "ip,sym,srcline,srccode"])?;
    let told = recording.perfuse(&["-F", "ip,srccode"]);
    assert!(told.contains("\n|4        \t\tsum += i; // \u{e9}\n"), "{told}");
    let _ = std::fs::remove_dir_all(&folder);
    Ok(())
}

fn build_ids_of_the_running_kernel_are_perfs() -> Outcome {
    need::root()?;
    for option in ["-k", "-m"] {
        let theirs = perf::output(&mut perf::command(&["buildid-list", option])?)?;
        let ours = Command::new(program()).args(["buildid-list", option]).output().expect("it starts");
        let first =
            |output: &Output| String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned);
        assert!(first(&ours).is_some_and(|line| line.len() >= 40));
        assert_eq!(first(&ours), first(&theirs), "{option}");
    }
    Ok(())
}

fn what_was_not_recorded_is_told() -> Outcome {
    let mut command = Command::new(program());
    command.args(["script", "-F", "comm,addr", "-i", &fixture("chains.data")]);
    let output = command.output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125));
    assert!(errors.contains("'addr'") && errors.contains("-d"), "{errors}");
    Ok(())
}

fn a_closed_pipe_ends_it_quietly() -> Outcome {
    let mut command = Command::new(program());
    command.args(["script", "-i", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    // Nobody reads what it prints from before it has anything to print.
    drop(child.stdout.take());
    let recording = std::fs::read(fixture("pipe.data")).expect("a file");
    // It may be gone before it has read all.
    let _ = child.stdin.take().expect("a pipe").write_all(&recording);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn headers_and_lists_are_perfs() -> Outcome {
    for (name, options) in [
        ("one", &["-e", "cpu-clock"][..]),
        ("grouped", &["-e", "{cpu-clock,page-faults}:S,task-clock:u"]),
        ("clock", &["-k", "monotonic", "-e", "cpu-clock", "-g"]),
    ] {
        let recording = Recording::of(name, options)?;
        for what in [
            &["report", "--header-only"][..],
            &["report", "--header-only", "-I"],
            &["evlist"],
            &["evlist", "-v"],
            &["evlist", "-F"],
            &["evlist", "-g"],
            &["evlist", "--trace-fields"],
            &["buildid-list"],
        ] {
            let arguments = [what, &["-i", recording.path()]].concat();
            let lines = |output: Output| {
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                // The list of missing features depends on those that each program knows.
                let differs = ["# missing features", "# Tip:"];
                let lines = text.lines().filter(|line| !differs.iter().any(|start| line.starts_with(start)));
                lines.map(str::to_owned).collect::<Vec<_>>()
            };
            // When the recording was made is shown in the local time.
            let zone = ("TZ", "EST5");
            let theirs = perf::output(perf::command(&arguments)?.env(zone.0, zone.1))?;
            let mut ours = Command::new(program());
            let ours = perf::impersonal(ours.args(&arguments)).env(zone.0, zone.1).output();
            assert_eq!(lines(ours.expect("it starts")), lines(theirs), "{name} {what:?}");
        }
    }
    Ok(())
}
