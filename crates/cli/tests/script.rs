//! `perfuse script`, and what lists and describes recordings, the real program, on files that the real perf
//! records: every line must be perf's.

use perfuse_testkit::{Outcome, Skip, need};
use std::path::PathBuf;
use std::process::{Command, Stdio};

perfuse_testkit::suite! {
    lines_of_samples_are_perfs,
    fields_are_perfs,
    groups_deliver_a_line_for_each_member,
    other_records_are_perfs,
    filters_and_clocks_are_perfs,
    tracepoints_are_printed_as_perf_does,
    a_pipe_is_read_as_a_file,
    what_was_not_recorded_is_told,
    a_closed_pipe_ends_it_quietly,
    headers_and_lists_are_perfs,
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

    /// Records a shell that works with the real perf.
    fn of(name: &str, options: &[&str]) -> Result<Self, Skip> {
        let path = std::env::temp_dir().join(format!("perfuse-script-test-{}-{name}", std::process::id()));
        let recording = Recording(path);
        let arguments =
            [&["record", "-q", "-N", "-o", recording.path()], options, &["--", "sh", "-c", WORK]].concat();
        let output = Command::new(need::perf()?).args(arguments).output().expect("perf starts");
        match output.status.success() {
            true => Ok(recording),
            false => Err(Skip::needs("a recording by perf", String::from_utf8_lossy(&output.stderr))),
        }
    }

    fn perfuse(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(program());
        command.args(["script", "-i", self.path()]).args(arguments).stdin(Stdio::null());
        let output = command.output().expect("the program starts");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn perf(&self, arguments: &[&str]) -> Result<String, Skip> {
        let mut command = Command::new(need::perf()?);
        command.args(["script", "--no-inline", "-i", self.path()]).args(arguments).stdin(Stdio::null());
        let output = command.output().expect("perf starts");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Compares every line.
    fn compare(&self, arguments: &[&str]) -> Outcome {
        let (ours, theirs) = (self.perfuse(arguments), self.perf(arguments)?);
        let (ours, theirs): (Vec<_>, Vec<_>) =
            (ours.lines().map(plain).collect(), theirs.lines().map(plain).collect());
        for (number, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            // Where the linker gave the linkage table no names, perf and perfuse find different ones. The
            // caller of exec belongs to the program that is gone, of which perf keeps the maps.
            let excuses = ["@plt", "execve"];
            let is_excused = excuses.iter().any(|word| ours.contains(word) || theirs.contains(word));
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

/// A line without what may differ: which of several names of one address is meant; flags of timers, which
/// perf reads wrongly.
fn plain(line: &str) -> String {
    let mut line = line.replace("__ia32_sys_", "__x64_sys_");
    if let (true, Some(at)) = (line.contains("timer:timer_start:"), line.rfind(" flags=")) {
        line.truncate(at);
    }
    line
}

fn lines_of_samples_are_perfs() -> Outcome {
    for (name, options) in [
        ("plain", &["-e", "cpu-clock"][..]),
        ("chains", &["-e", "cpu-clock", "-g"]),
        ("two", &["-e", "cpu-clock,page-faults"]),
        ("zstd", &["-e", "cpu-clock", "-z"]),
    ] {
        let recording = Recording::of(name, options)?;
        assert!(!recording.perfuse(&[]).is_empty());
        for arguments in [
            &[][..],
            &["-G"],
            &["--ns"],
            &["--max-stack", "2"],
            &["-F", "comm,tid,time,event,ip,sym,dso"],
            &["-F", "ip,sym"],
            &["-F", "+pid,-dso"],
            &["-F", "-symoff,+misc"],
            &["-F", "sw:comm,period"],
        ] {
            recording.compare(arguments)?;
        }
    }
    Ok(())
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
    for one in &all {
        recording.compare(&[one])?;
    }
    recording.compare(&all.iter().map(String::as_str).collect::<Vec<_>>())?;
    recording.compare(&[
        "-F",
        "comm,pid,tid,time,event,ip,misc",
        "--show-task-events",
        "--show-switch-events",
    ])
}

fn filters_and_clocks_are_perfs() -> Outcome {
    need::root()?;
    let recording = Recording::of("filters", &["-a", "-e", "cpu-clock"])?;
    let times: Vec<String> =
        recording.perfuse(&["-F", "time"]).lines().map(|line| line.trim().replace(':', "")).collect();
    let span = format!("{},{}", times[times.len() / 4], times[times.len() / 2]);
    for arguments in [
        &["-C", "0"][..],
        &["--comms", "sh,ls"],
        &["--dsos", "[kernel.kallsyms]"],
        &["--time", &span],
        &["--reltime"],
        &["--deltatime", "--ns"],
    ] {
        // Names of any program's functions are not for this test.
        recording.compare(&[arguments, &["-F", "comm,tid,cpu,time,event,ip,dso"]].concat())?;
    }
    Ok(())
}

fn tracepoints_are_printed_as_perf_does() -> Outcome {
    let folder = need::tracefs()?;
    need::root()?;
    for (name, events) in [
        ("sched", &["sched:*"][..]),
        ("calls", &["syscalls:*", "raw_syscalls:*"]),
        ("memory", &["kmem:*", "exceptions:*", "vmscan:*", "pagemap:*", "oom:*"]),
        ("time", &["irq:*", "timer:*", "workqueue:*"]),
        ("files", &["filelock:*", "writeback:*", "ext4:*", "block:*"]),
        (
            "rest",
            &["task:*", "signal:*", "skb:*", "net:*", "sock:*", "rcu:*", "power:*", "cgroup:*", "tlb:*"],
        ),
    ] {
        let there = |event: &&&str| {
            event.split(':').next().is_some_and(|system| folder.join("events").join(system).is_dir())
        };
        let events: Vec<&str> = events.iter().filter(there).flat_map(|event| ["-e", *event]).collect();
        let recording = Recording::of(name, &events)?;
        recording.compare(&["-F", "trace:comm,time,event,trace"])?;
    }
    let recording = Recording::of("trace-chains", &["-g", "-e", "sched:sched_switch"])?;
    recording.compare(&[])?;
    recording.compare(&["-F", "trace:"])
}

fn a_pipe_is_read_as_a_file() -> Outcome {
    let script = format!(
        "perf record -q -e cpu-clock -o - -- sh -c '{WORK}' 2>/dev/null | tee \"$1\" | \"$0\" script -i -"
    );
    need::perf()?;
    let path = std::env::temp_dir().join(format!("perfuse-script-test-{}-pipe", std::process::id()));
    let recording = Recording(path);
    let mut command = Command::new("sh");
    let output =
        command.arg("-c").arg(script).arg(program()).arg(recording.path()).output().expect("a shell");
    let ours = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!ours.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(ours, recording.perfuse(&[]));
    recording.compare(&[])
}

fn what_was_not_recorded_is_told() -> Outcome {
    let recording = Recording::of("less", &["-e", "cpu-clock"])?;
    let mut command = Command::new(program());
    let output =
        command.args(["script", "-F", "comm,addr", "-i", recording.path()]).output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125));
    assert!(errors.contains("'addr'") && errors.contains("-d"), "{errors}");
    Ok(())
}

fn a_closed_pipe_ends_it_quietly() -> Outcome {
    let recording = Recording::of("closed", &["-F", "5000", "-g", "-e", "cpu-clock"])?;
    let script = "\"$0\" script -i \"$1\" | head -1";
    let mut command = Command::new("sh");
    let output = command.args(["-c", script]).arg(program()).arg(recording.path()).output().expect("a shell");
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
            let run = |program: PathBuf| {
                let mut command = Command::new(program);
                // perf shows when the recording was made in the local time.
                command.args(&arguments).env("TZ", "UTC").stdin(Stdio::null());
                let output = command.output().expect("it starts");
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                // What is missing depends on what each knows, and of a wall clock perf shows more.
                let differs = ["# missing features", "# Tip:", "# clockid", "# reference time"];
                let lines = text.lines().filter(|line| !differs.iter().any(|start| line.starts_with(start)));
                lines.map(str::to_owned).collect::<Vec<_>>()
            };
            assert_eq!(run(program()), run(need::perf()?), "{name} {what:?}");
        }
    }
    Ok(())
}
