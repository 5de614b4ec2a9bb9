//! `perfuse stat` and `perfuse record` where Linux' perf_events are refused: behind a seccomp filter, in
//! containers as Docker makes them.
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

use perfuse_data::PerfData;
use perfuse_events::abi::record::{CallchainContext, CpuMode, Record};
use perfuse_testkit::tiny::{ENTRY, ENTRY_OFFSET, LOOPS_AT, LOOPS_OUTSIDE, LOOPS_ROUND, Tiny};
use perfuse_testkit::{Container, Outcome, Sandbox, Skip, need, suite, wait};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

suite! {
    all need need::ptrace;
    smoke:
        a_command_is_counted_behind_a_filter,
        a_command_is_recorded_behind_a_filter;
    witnesses:
        perf_reads_the_recording;
    measurements:
        who_measures_can_be_chosen,
        time_in_system_calls_is_the_kernels,
        the_ends_of_processes_are_sampled,
        a_clock_beside_other_events_tells_what_it_did_not_see,
        a_running_process_is_counted,
        signals_and_stops_reach_the_command,
        hundreds_of_threads_and_processes_are_followed,
        births_that_weigh_on_counts_are_told,
        a_thread_that_execs_is_followed,
        each_run_of_a_short_program_is_counted_whole,
        who_is_measured_outlives_a_killed_perfuse,
        traps_are_taken_back_from_who_outlives_it,
        a_killed_perfuse_harms_nobody,
        few_descriptors_are_enough,
        a_tracer_as_the_command_is_counted,
        programs_that_miss_their_rights_are_named,
        users_at_level_three_are_served,
        in_a_docker_container,
        under_gvisor,
        the_doctor_says_so,
        without_proc_the_reason_is_said,
        without_memory_files_the_reason_is_said,
        a_missing_guardian_is_told;
}

/// A shell loop of some 100 ms.
const BUSY: &str = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";

fn program() -> PathBuf {
    std::env::var_os("PERFUSE_BIN").map_or_else(|| env!("CARGO_BIN_EXE_perfuse").into(), PathBuf::from)
}

/// The program with these arguments, behind a filter that answers `perf_event_open(2)` with `EPERM`.
fn behind_a_filter(arguments: &[&str]) -> Output {
    let mut command = Sandbox::new().refusing_perf_event_open(libc::EPERM).command(program());
    run(command.args(arguments))
}

fn run(command: &mut Command) -> Output {
    command.env_remove("PERFUSE_KERNEL").stdin(Stdio::null()).output().expect("the program starts")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The value of an event in CSV.
fn value(csv: &str, event: &str) -> f64 {
    let row = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let row = row.into_iter().find(|fields| fields.get(2) == Some(&event));
    let row = row.unwrap_or_else(|| panic!("no {event} in {csv}"));
    row[0].parse().unwrap_or_else(|_| panic!("no number of {event} in {csv}"))
}

const SAID: &str = "Linux' perf_events are refused";

fn a_command_is_counted_behind_a_filter() -> Outcome {
    let events = "task-clock,page-faults,context-switches,cpu-migrations";
    let script = format!("{BUSY}; exit 3");
    let output = behind_a_filter(&["stat", "-x,", "-e", events, "sh", "-c", &script]);
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert_eq!(said.matches(SAID).count(), 1, "{said}");
    assert!(value(&said, "task-clock") > 5.0, "{said}");
    assert!(value(&said, "page-faults") > 10.0, "{said}");
    // As people see it.
    let said = errors(&behind_a_filter(&["stat", "sh", "-c", BUSY]));
    assert!(said.contains("task-clock") && said.contains("CPUs used"), "{said}");
    assert!(said.contains("not to be had without Linux' perf_events"), "{said}");
    Ok(())
}

fn who_measures_can_be_chosen() -> Outcome {
    let stat = ["stat", "-x,", "-e", "task-clock", "--", "sh", "-c", BUSY];
    let chosen = |kernel: &str| {
        let mut command = Sandbox::new().refusing_perf_event_open(libc::EPERM).command(program());
        run(command.args(["stat", "--kernel", kernel]).args(&stat[1..]))
    };
    let linux = errors(&chosen("linux"));
    assert!(!linux.contains(SAID) && linux.contains("<not supported>"), "{linux}");
    let embedded = errors(&chosen("embedded"));
    assert!(!embedded.contains(SAID), "who asked for it is not told: {embedded}");
    assert!(value(&embedded, "task-clock") > 5.0, "{embedded}");
    let mut command = Command::new(program());
    let said = errors(&command.env("PERFUSE_KERNEL", "embedded").args(stat).output().expect("it starts"));
    assert!(value(&said, "task-clock") > 5.0 && !said.contains(SAID), "{said}");
    let mut command = Command::new(program());
    let wrong = command.env("PERFUSE_KERNEL", "windows").args(stat).output().expect("it starts");
    assert_eq!(wrong.status.code(), Some(2), "{}", errors(&wrong));
    Ok(())
}

/// A file in a folder that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("perfuse-embedded-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a folder");
        Scratch(dir)
    }

    fn file(&self) -> String {
        self.0.join("perf.data").to_string_lossy().into_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn a_command_is_recorded_behind_a_filter() -> Outcome {
    let scratch = Scratch::new("record");
    let file = scratch.file();
    for chains in [&["-g"][..], &["--call-graph", "dwarf,4096"], &[]] {
        let mut arguments = vec!["record", "-F", "900", "-o", &file];
        arguments.extend(chains);
        arguments.extend(["--", "sh", "-c", BUSY]);
        let output = behind_a_filter(&arguments);
        let said = errors(&output);
        assert!(output.status.success() && said.matches(SAID).count() == 1, "{said}");
        assert!(PerfData::open(&file).is_ok(), "a recording");
        let report = run(Command::new(program()).args(["report", "-i", &file, "--sort", "comm,dso"]));
        let text = String::from_utf8_lossy(&report.stdout).into_owned();
        assert!(text.contains("cpu-clock") && text.contains("sh"), "{text}");
        assert!(!text.contains("[unknown]  100"), "{text}");
    }
    Ok(())
}

fn perf_reads_the_recording() -> Outcome {
    let perf = need::perf()?;
    let scratch = Scratch::new("perf");
    let file = scratch.file();
    let output = behind_a_filter(&["record", "-F", "900", "-g", "-o", &file, "--", "sh", "-c", BUSY]);
    assert!(output.status.success(), "{}", errors(&output));
    let script = run(Command::new(perf).args(["script", "-i", &file, "-F", "comm,period,ip,dso"]));
    let text = String::from_utf8_lossy(&script.stdout).into_owned();
    assert!(text.lines().filter(|line| line.starts_with("sh")).count() > 5, "{text}{}", errors(&script));
    assert!(text.contains("libc") || text.contains("dash") || text.contains("busybox"), "{text}");
    Ok(())
}

/// Of a recording: the weight of its samples, that of those in the kernel, and of these that of those without a user.
fn weights(file: &str) -> (u64, u64, u64) {
    let (mut all, mut kernel, mut alone) = (0, 0, 0);
    let mut data = PerfData::open(file).expect("a recording");
    while let Some(entry) = data.next().expect("whole records") {
        if !entry.is_kernel() {
            continue;
        }
        let decoded = entry.decode().expect("known");
        let Record::Sample(sample) = decoded.record else { continue };
        let (weight, chain) = (sample.period.expect("a period"), sample.callchain.expect("a chain"));
        let words: Vec<u64> = chain.words.iter().collect();
        let parts = |context: CallchainContext| words.iter().position(|&word| word == context.0);
        all += weight;
        if decoded.misc.cpu_mode() == CpuMode::KERNEL {
            kernel += weight;
            assert_eq!(parts(CallchainContext::KERNEL), Some(0), "{words:x?}");
            assert!(sample.ip.is_some_and(|ip| ip >> 63 == 1 && words[1] == ip), "{words:x?}");
            alone += if parts(CallchainContext::USER).is_none() { weight } else { 0 };
        } else {
            // Further out there may be anything: a program without frame pointers has anything where they would be.
            assert_ne!(parts(CallchainContext::KERNEL), Some(0), "{words:x?}");
        }
    }
    (all, kernel, alone)
}

fn time_in_system_calls_is_the_kernels() -> Outcome {
    let python = need::program("python3")?.to_string_lossy().into_owned();
    let scratch = Scratch::new("calls");
    let file = scratch.file();
    // Two at once: the sampler is on another cpu than one of them. They tell their own times, in user space and kernel.
    // They do not ask for those before: on a busy machine it is at such a call that they lose their cpu to the sampler.
    let script = |call: &str| {
        format!(
            "import os,time\nf=open('/dev/zero','rb',buffering=0)\nend=time.monotonic()+1.6\n\
             while time.monotonic()<end:\n for _ in range(100): {call}\nt=os.times()\nprint(t[0]+t[2],t[1]+t[3])"
        )
    };
    for call in ["sum(range(50))", "os.getppid()", "f.read(65536)"] {
        let two = format!("{python} -c \"$0\" & {python} -c \"$0\"; wait");
        let mut said = Vec::new();
        let agrees = (0..12).any(|_| {
            let script = script(call);
            let arguments = ["record", "-F", "997", "-g", "-o", &file, "--", "sh", "-c", &two, &script];
            let output = behind_a_filter(&arguments);
            assert!(output.status.success(), "{}", errors(&output));
            let times = String::from_utf8_lossy(&output.stdout);
            let times: Vec<f64> = times.split_whitespace().filter_map(|time| time.parse().ok()).collect();
            assert_eq!(times.len(), 4, "{times:?}");
            let its = (times[1] + times[3]) / times.iter().sum::<f64>();
            let (all, kernel, _) = weights(&file);
            let ours = kernel as f64 / all as f64;
            said.push((its, ours));
            (its - ours).abs() < 0.1
        });
        assert!(agrees, "{call}: shares of the kernel by its clocks and in samples: {said:?}");
        // Leaving the kernel out is no sample there.
        let arguments = ["record", "-F", "997", "-g", "-e", "cpu-clock:u", "-o", &file, "--"];
        let output = behind_a_filter(&[&arguments[..], &[&python, "-c", &script(call)]].concat());
        assert!(output.status.success(), "{}", errors(&output));
        assert_eq!(weights(&file).1, 0, "{call}");
        let is_told = errors(&output).contains("time in the kernel is left out (:u)");
        assert!(is_told || call != "f.read(65536)", "{}", errors(&output));
    }
    Ok(())
}

fn the_ends_of_processes_are_sampled() -> Outcome {
    let scratch = Scratch::new("ends");
    let file = scratch.file();
    let forks = "i=0; while [ $i -lt 400 ]; do (:); i=$((i+1)); done";
    let seen = (0..10).any(|_| {
        let output = behind_a_filter(&["record", "-F", "3999", "-g", "-o", &file, "--", "sh", "-c", forks]);
        assert!(output.status.success(), "{}", errors(&output));
        weights(&file).2 > 0
    });
    assert!(seen, "of some process its last call has a sample");
    Ok(())
}

fn a_clock_beside_other_events_tells_what_it_did_not_see() -> Outcome {
    if cfg!(target_arch = "aarch64") {
        let why = "arm64 forgets the call of a thread before that stops";
        return Err(perfuse_testkit::Skip::needs("an architecture that tells calls at stops", why));
    }
    let scratch = Scratch::new("beside");
    let file = scratch.file();
    let zeros = "dd if=/dev/zero of=/dev/null bs=64k count=300000 2>/dev/null";
    for events in ["cpu-clock:u", "cpu-clock:u,mem:0x1000/8:w", "cpu-clock:u,dummy"] {
        let output =
            behind_a_filter(&["record", "-F", "499", "-e", events, "-o", &file, "--", "sh", "-c", zeros]);
        let said = errors(&output);
        if events.contains("mem:") && !output.status.success() {
            continue;
        }
        assert!(output.status.success(), "{events}: {said}");
        assert!(said.contains("% of the time was not sampled: time in the kernel"), "{events}: {said}");
    }
    Ok(())
}

fn a_running_process_is_counted() -> Outcome {
    let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh");
    let pid = child.id().to_string();
    let output = behind_a_filter(&["stat", "-x,", "-e", "task-clock", "-p", &pid, "sleep", "0.2"]);
    child.kill().expect("it runs");
    child.wait().expect("its end");
    let said = errors(&output);
    if said.contains("may not attach") {
        return Err(perfuse_testkit::Skip::needs("to attach to other processes", "kernel.yama.ptrace_scope"));
    }
    assert!(value(&said, "task-clock") > 5.0, "{said}");
    Ok(())
}

fn signals_and_stops_reach_the_command() -> Outcome {
    let status =
        |script: &str| behind_a_filter(&["stat", "-x,", "-e", "task-clock", "sh", "-c", script]).status;
    assert_eq!(status("kill -TERM $$").code(), Some(128 + libc::SIGTERM));
    assert_eq!(status("trap 'exit 3' USR1; kill -USR1 $$; exit 4").code(), Some(3));
    assert_eq!(status("(sleep 0.2; kill -CONT $$) & kill -STOP $$; wait; exit 5").code(), Some(5));
    // Ctrl-C keeps the counts.
    let mut command = Sandbox::new().refusing_perf_event_open(libc::EPERM).command(program());
    let command = command.args(["stat", "-x,", "-e", "task-clock", "sleep", "60"]);
    let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let pid = libc::pid_t::try_from(child.id()).expect("a small number");
    wait::until_runs(child.id(), "sleep");
    // SAFETY: plain numbers: our own child, which has not been waited for.
    unsafe { libc::kill(pid, libc::SIGINT) };
    let output = child.wait_with_output().expect("its end");
    assert!(value(&errors(&output), "task-clock") > 0.0);
    assert!(matches!(output.status.code(), Some(130 | 143)), "{:?}", output.status);
    Ok(())
}

fn hundreds_of_threads_and_processes_are_followed() -> Outcome {
    let storm = "i=0; while [ $i -lt 100 ]; do (exit 0) & i=$((i+1)); done; wait; exit 6";
    let output = behind_a_filter(&["stat", "-x,", "-e", "task-clock,page-faults", "sh", "-c", storm]);
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(value(&said, "page-faults") > 1000.0, "{said}");
    let execs = "[ $0 = 0 ] && exit 4; exec sh -c \"$1\" $(($0-1)) \"$1\"";
    let output = behind_a_filter(&["stat", "-x,", "-e", "task-clock", "sh", "-c", execs, "200", execs]);
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(value(&said, "task-clock") > 20.0, "{said}");
    let python = need::program("python3")?;
    let threads = "import threading\nt=[threading.Thread(target=sum,args=(range(10000),)) for _ in range(300)]\n\
                   [x.start() for x in t];[x.join() for x in t]\nexit(7)";
    let python = python.to_string_lossy();
    let output = behind_a_filter(&["stat", "-x,", "-e", "task-clock", &python, "-c", threads]);
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(value(&said, "task-clock") > 5.0, "{said}");
    Ok(())
}

fn births_that_weigh_on_counts_are_told() -> Outcome {
    /// Of each birth, as the warning says it.
    const BIRTH_S: f64 = 60e-6;
    // How often it is said, and the time that all took.
    let said = |events: &str, script: &str| {
        let output = behind_a_filter(&["stat", "--json", "-e", events, "sh", "-c", script]);
        let text = errors(&output);
        let json = text.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{text}"));
        let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
        let warnings = json["warnings"].as_array().expect("a list").iter();
        let is_it = |warning: &&serde_json::Value| {
            warning.as_str().expect("text").contains("Counted without perf_events")
        };
        let time = |name: &str| json[name].as_f64().expect("seconds");
        (warnings.filter(is_it).count(), time("user_s") + time("system_s"))
    };
    let storm = "i=0; while [ $i -lt 200 ]; do (:); i=$((i+1)); done";
    for events in ["task-clock", "context-switches"] {
        // Where processes take long to be born, on a busy or an emulated machine, the stops are a small part of all time.
        let weighs = |time: &f64| 200.0 * BIRTH_S >= time / 10.0;
        let Some((told, time)) = (0..20).map(|_| said(events, storm)).find(|(_, time)| weighs(time)) else {
            return Err(perfuse_testkit::Skip::needs(
                "processes that are born quickly",
                "200 take over 0.12 s",
            ));
        };
        assert_eq!(told, 1, "{events}: {time} s");
    }
    assert_eq!(said("page-faults", storm).0, 0, "they are not touched");
    assert_eq!(said("task-clock", &format!("(:); (:); {BUSY}")).0, 0);
    Ok(())
}

fn a_thread_that_execs_is_followed() -> Outcome {
    let python = need::program("python3")?.to_string_lossy().into_owned();
    let execs = format!(
        "import os,threading,time\n\
         threading.Thread(target=lambda: os.execv('/bin/sh', ['sh', '-c', '{BUSY}; exit 9'])).start()\n\
         time.sleep(60)"
    );
    let output = behind_a_filter(&["stat", "-x,", "-e", "task-clock", &python, "-c", &execs]);
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(9), "{said}");
    assert!(value(&said, "task-clock") > 5.0, "{said}");
    let dir = Scratch::new("thread-execs");
    let file = dir.file();
    let output = behind_a_filter(&["record", "-q", "-o", &file, &python, "-c", &execs]);
    assert_eq!(output.status.code(), Some(9), "{}", errors(&output));
    let script = Command::new(program()).args(["script", "-F", "comm,pid,tid", "-i", &file]).output();
    let told = String::from_utf8_lossy(&script.expect("the program starts").stdout).into_owned();
    let of_shell: Vec<&str> = told.lines().filter_map(|line| line.trim().strip_prefix("sh ")).collect();
    let is_leader = |line: &&str| line.trim().split_once('/').is_some_and(|(pid, tid)| pid == tid);
    assert!(!of_shell.is_empty() && of_shell.iter().all(is_leader), "{told}");
    Ok(())
}

/// A program that is over before anybody looks at it is stepped, and watched, from its first instruction on, each time.
fn each_run_of_a_short_program_is_counted_whole() -> Outcome {
    let tiny = Tiny::loops(10);
    let path = tiny.path().to_string_lossy().into_owned();
    let (steps, watched) = ("step/instructions/u".to_owned(), format!("mem:{:#x}:x", ENTRY + LOOPS_AT));
    let shell = ["sh", "-c", &format!("{path}; {path}; {path}")];
    let alone = [path.as_str()];
    for round in 0..20 {
        for (event, command, count) in [
            (&steps, &alone[..], LOOPS_OUTSIDE + 10 * LOOPS_ROUND),
            (&watched, &alone, 10),
            (&watched, &shell, 30),
        ] {
            let output = behind_a_filter(&[&["stat", "-x,", "-e", event], command].concat());
            let said = errors(&output);
            if event == &watched && said.contains("<not supported>") {
                return Err(Skip::needs("debug registers", said));
            }
            assert_eq!(value(&said, event), count as f64, "round {round}, {command:?}: {said}");
        }
    }
    Ok(())
}

fn who_is_measured_outlives_a_killed_perfuse() -> Outcome {
    let dir = std::env::temp_dir().join(format!("perfuse-outlives-{}", std::process::id()));
    let said = dir.display();
    // It tells its pid, is sampled often, and says that it goes on.
    let script =
        format!("echo $$ > {said}.pid; while [ ! -e {said}.killed ]; do :; done; echo on > {said}.on");
    for at_ms in [0, 7, 13] {
        let file = |name: &str| PathBuf::from(format!("{said}.{name}"));
        let all = [file("pid"), file("killed"), file("on")];
        all.iter().for_each(|file| drop(std::fs::remove_file(file)));
        let mut command = Sandbox::new().refusing_perf_event_open(libc::EPERM).command(program());
        command.args(["record", "-q", "-F", "1000", "-o", "/dev/null", "sh", "-c", &script]);
        let mut recorder = command.stderr(Stdio::null()).spawn().expect("the program starts");
        wait::until("the command", || std::fs::read(file("pid")).is_ok_and(|pid| pid.ends_with(b"\n")));
        std::thread::sleep(Duration::from_millis(at_ms));
        recorder.kill().expect("a child can be killed");
        recorder.wait().expect("an end");
        std::fs::write(file("killed"), "").expect("a file");
        wait::until("the command goes on", || file("on").exists());
        all.iter().for_each(|file| drop(std::fs::remove_file(file)));
    }
    Ok(())
}

/// A program that reads a byte, passes one instruction, and ends with 7; where the instruction is behind its begin.
fn reader() -> (Tiny, u64) {
    if cfg!(target_arch = "x86_64") {
        // xor %eax, %eax; xor %edi, %edi; mov %rsp, %rsi; mov $1, %edx; syscall; nop; mov $7, %edi; mov $60, %eax; syscall
        let code = [
            &[0x31, 0xc0, 0x31, 0xff, 0x48, 0x89, 0xe6, 0xba, 1, 0, 0, 0, 0x0f, 0x05, 0x90][..],
            &[0xbf, 7, 0, 0, 0, 0xb8, 60, 0, 0, 0, 0x0f, 0x05],
        ];
        return (Tiny::new(&code.concat()), 14);
    }
    // mov x8, #63; mov x0, #0; mov x1, sp; mov x2, #1; svc #0; nop; mov x0, #7; mov x8, #93; svc #0
    let code = [
        0xd280_07e8u32,
        0xd280_0000,
        0x9100_03e1,
        0xd280_0022,
        0xd400_0001,
        0xd503_201f,
        0xd280_00e0,
        0xd280_0ba8,
        0xd400_0001,
    ];
    (Tiny::new(&code.map(u32::to_le_bytes).concat()), 20)
}

/// A trap or a watched instruction would end a program that nobody traces any longer.
fn traps_are_taken_back_from_who_outlives_it() -> Outcome {
    let (tiny, behind) = reader();
    let path = tiny.path().display();
    let probe = format!("uprobe:{path}:{:#x}", ENTRY_OFFSET + behind);
    let watch = format!("mem:{:#x}:x", ENTRY + behind);
    for event in [probe, watch] {
        let scratch = Scratch::new("taken-back");
        let out = scratch.0.join("out");
        let script = format!("{path}; echo $? > {}", out.display());
        let mut command = Command::new(program());
        command.args(["stat", "--kernel", "embedded", "-e", &event, "--", "sh", "-c", &script]);
        command.env_remove("PERFUSE_KERNEL").stdin(Stdio::piped()).stderr(Stdio::null());
        let mut counter = command.spawn().expect("the program starts");
        let mut stdin = counter.stdin.take().expect("a pipe");
        let name = tiny.path().to_string_lossy().into_owned();
        // It sleeps once it is armed, and has a tracer.
        wait::until("the reader", || {
            let pid = processes(|command| command == [name.as_str()]).first().copied();
            let status = pid.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/status")).ok());
            status.is_some_and(|status| status.contains("State:\tS") && !status.contains("TracerPid:\t0"))
        });
        counter.kill().expect("a child can be killed");
        counter.wait().expect("an end");
        // The process that takes changes back looks like the program, and ends when that is done.
        wait::until("the guardian's end", || {
            processes(|command| {
                command.first().is_some_and(|first| first.ends_with("perfuse"))
                    && command.contains(&event.as_str())
            })
            .is_empty()
        });
        stdin.write_all(b"x").expect("the reader reads");
        wait::until("the reader's end", || std::fs::read(&out).is_ok_and(|out| out.ends_with(b"\n")));
        assert_eq!(std::fs::read_to_string(&out).expect("a file"), "7\n", "{event}");
    }
    Ok(())
}

/// Threads that check what functions answer, which signals they block and that their handler of SIGTRAP is theirs, until the
/// input ends.
const CHECKING: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
static volatile int bad, stop;
static __thread volatile int trapped;
static void handler(int signal) { trapped++; }
__attribute__((noinline)) long hot(long i) { __asm__ volatile(""); return 3 * i + 1; }
static void *check(void *own) {
    for (long i = 0; !stop; i++) {
        if (hot(i) != 3 * i + 1) bad = 41;
        for (volatile int j = 0; j < 300; j++);
        if (i % 256) continue;
        sigset_t set;
        pthread_sigmask(SIG_BLOCK, 0, &set);
        for (int signal = 1; signal < 32; signal++) if (sigismember(&set, signal)) bad = 42;
        int before = trapped;
        if (own && (raise(SIGTRAP) || trapped != before + 1)) bad = 43;
    }
    return 0;
}
int main(int argc, char **argv) {
    pthread_t threads[3];
    char byte;
    if (argc > 1) signal(SIGTRAP, handler);
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, check, argc > 1 ? argv : 0);
    while (read(0, &byte, 1) > 0);
    stop = 1;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    return bad;
}
"#;

/// Perfuse is killed at any moment: the process that it measures goes on as if nothing had been in it.
fn a_killed_perfuse_harms_nobody() -> Outcome {
    let compiler = need::program("cc")?;
    let scratch = Scratch::new("harm");
    let path = scratch.0.join("checking");
    std::fs::write(scratch.0.join("checking.c"), CHECKING).expect("a source");
    let mut compile = Command::new(compiler);
    compile.args(["-O1", "-pthread", "checking.c", "-o", "checking"]).current_dir(&scratch.0);
    let compiled = compile.output().expect("the compiler starts");
    assert!(compiled.status.success(), "{}", errors(&compiled));
    let probe = format!("uprobe:{}:hot", path.display());
    let (returns, steps) = (format!("{probe}%return"), "step/instructions/u".to_owned());
    for (own, events) in [(false, [&probe, &returns, &steps]), (true, [&probe, &returns, &returns])] {
        let mut checking = Command::new(&path);
        let checking = checking.args(own.then_some("own")).stdin(Stdio::piped());
        let mut checking = checking.spawn().expect("the program starts");
        let pid = checking.id().to_string();
        let mut met = 0;
        for round in 0..12 {
            let event = events[round % 3];
            let mut counter = Command::new(program());
            counter.args(["stat", "--kernel", "embedded", "-e", event, "-p", &pid]);
            counter.env_remove("PERFUSE_KERNEL").stdin(Stdio::null()).stderr(Stdio::null());
            let mut counter = counter.spawn().expect("the program starts");
            std::thread::sleep(Duration::from_millis(10 + 29 * round as u64 % 200));
            let traced = std::fs::read_to_string(format!("/proc/{pid}/status"));
            met += u32::from(traced.is_ok_and(|status| !status.contains("TracerPid:\t0")));
            counter.kill().expect("a child can be killed");
            counter.wait().expect("an end");
            let ended = checking.try_wait().expect("a child");
            assert!(ended.is_none(), "round {round}, {event}, handler {own}: {ended:?}");
        }
        drop(checking.stdin.take());
        let ended = checking.wait().expect("a child");
        assert_eq!(ended.code(), Some(0), "a handler of its own: {own}");
        assert!(met > 3, "it was traced only {met} times");
    }
    Ok(())
}

/// Processes whose command lines are such.
fn processes(are: impl Fn(&[&str]) -> bool) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is = |pid: &u32| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&str> = line.split_terminator('\0').collect();
        are(&words)
    };
    pids.filter(is).collect()
}

fn few_descriptors_are_enough() -> Outcome {
    let few = Sandbox::new().refusing_perf_event_open(libc::EPERM).open_files(16);
    let events = "task-clock,page-faults";
    let processes = format!("{BUSY}; (exit 1) & (exit 2) & (exit 3) & wait; exit 5");
    let output = run(few.command(program()).args(["stat", "-x,", "-e", events, "sh", "-c", &processes]));
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(value(&said, "task-clock") > 5.0 && value(&said, "page-faults") > 10.0, "{said}");
    Ok(())
}

/// A process has one tracer: one that the command wants to be finds its children taken, says so, and is
/// measured all the same.
fn a_tracer_as_the_command_is_counted() -> Outcome {
    let strace = need::program("strace")?.to_string_lossy().into_owned();
    let output = behind_a_filter(&["stat", "-x,", "-e", "task-clock", &strace, "-o", "/dev/null", "true"]);
    let said = errors(&output);
    assert!(said.contains("Operation not permitted"), "{said}");
    assert!(value(&said, "task-clock") > 0.0, "{said}");
    Ok(())
}

/// Set-user-id has no effect on programs that an ordinary user traces.
fn programs_that_miss_their_rights_are_named() -> Outcome {
    use std::fs::{Permissions, copy, set_permissions};
    use std::os::unix::fs::PermissionsExt;
    need::root()?;
    let scratch = Scratch::new("rights");
    set_permissions(&scratch.0, Permissions::from_mode(0o755)).expect("a folder for all");
    // Copies, because the folder of the program may be closed to others.
    let (perfuse, whoami) = (scratch.0.join("perfuse"), scratch.0.join("whoami"));
    copy(program(), &perfuse).expect("a copy");
    copy(need::program("id")?, &whoami).expect("a copy");
    set_permissions(&whoami, Permissions::from_mode(0o4755)).expect("set-user-id");
    let as_nobody = |file: &PathBuf| Sandbox::new().unprivileged().command(file);
    let user = |command: &mut Command| {
        let output = run(command);
        (String::from_utf8_lossy(&output.stdout).trim().to_owned(), errors(&output))
    };
    let (alone, said) = user(as_nobody(&whoami).arg("-u"));
    if alone != "0" {
        return Err(perfuse_testkit::Skip::needs("a folder where set-user-id has an effect", said));
    }
    let stat = ["stat", "--kernel", "embedded", "-e", "task-clock", "--"];
    let (traced, said) = user(as_nobody(&perfuse).args(stat).arg(&whoami).arg("-u"));
    assert_ne!(traced, "0", "{said}");
    assert_eq!(said.matches("ran without the rights").count(), 1, "{said}");
    assert!(said.contains("whoami"), "{said}");
    // Programs that have none, and root, miss nothing.
    let (_, said) = user(as_nobody(&perfuse).args(stat).args(["sh", "-c", "exit 0"]));
    assert!(!said.contains("without the rights"), "{said}");
    let (traced, said) = user(Command::new(&perfuse).args(stat).arg(&whoami).arg("-u"));
    assert!(traced == "0" && !said.contains("without the rights"), "{said}");
    Ok(())
}

/// Level 3 of `perf_event_paranoid`, which distributions have added, leaves users without any event.
fn users_at_level_three_are_served() -> Outcome {
    use std::fs::{Permissions, copy, set_permissions};
    use std::os::unix::fs::PermissionsExt;
    need::root()?;
    let _level = need::Sysctl::is("kernel/perf_event_paranoid", 3)?;
    let scratch = Scratch::new("level");
    set_permissions(&scratch.0, Permissions::from_mode(0o777)).expect("a folder for all");
    let (perfuse, recording) = (scratch.0.join("perfuse"), scratch.0.join("perf.data"));
    copy(program(), &perfuse).expect("a copy");
    let path = |path: &PathBuf| path.to_str().expect("a plain name").to_owned();
    let as_nobody = |arguments: &[&str]| {
        let output = run(Sandbox::new().unprivileged().command(&perfuse).args(arguments));
        (String::from_utf8_lossy(&output.stdout).into_owned() + &errors(&output), output.status.code())
    };
    let (said, status) = as_nobody(&["stat", "-e", "task-clock", "sh", "-c", "exit 7"]);
    if !said.contains(SAID) {
        return Err(perfuse_testkit::Skip::needs("a kernel with level 3 of perf_event_paranoid", said));
    }
    assert!(status == Some(7) && said.contains("task-clock"), "{status:?}: {said}");
    let (said, status) = as_nobody(&["record", "-o", &path(&recording), "sh", "-c", BUSY]);
    assert!(status == Some(0) && said.contains(SAID), "{status:?}: {said}");
    let (said, status) = as_nobody(&["report", "-i", &path(&recording)]);
    assert!(status == Some(0) && said.contains("sh"), "{status:?}: {said}");
    let hosted = ["run", "--", &path(&perfuse), "stat", "-e", "task-clock", "true"];
    let (said, status) = as_nobody(&hosted);
    assert!(status == Some(0) && said.contains("task-clock") && !said.contains(SAID), "{status:?}: {said}");
    let (said, _) = as_nobody(&["doctor"]);
    assert!(said.contains("perf_event_paranoid"), "{said}");
    Ok(())
}

fn in_a_docker_container() -> Outcome {
    for user in [0, 1000] {
        let container = Container::docker()?.user(user).show(program(), "/perfuse");
        let output =
            container.run(&["/perfuse", "stat", "-x,", "-e", "task-clock,page-faults", "sh", "-c", BUSY])?;
        let said = errors(&output);
        assert_eq!(said.matches(SAID).count(), 1, "{said}");
        assert!(value(&said, "task-clock") > 5.0, "{said}");
        assert!(value(&said, "page-faults") > 10.0, "{said}");
        let script = format!(
            "/perfuse record -q -F 900 -g -o /tmp/perf.data -- sh -c '{BUSY}' && /perfuse report -i /tmp/perf.data"
        );
        let output = container.run(&["sh", "-c", &script])?;
        let report = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(report.contains("cpu-clock"), "{report}{}", errors(&output));
    }
    Ok(())
}

fn under_gvisor() -> Outcome {
    let container = Container::gvisor()?.show(program(), "/perfuse");
    let output =
        container.run(&["/perfuse", "stat", "-x,", "-e", "task-clock,page-faults", "sh", "-c", BUSY])?;
    let said = errors(&output);
    assert!(value(&said, "task-clock") > 5.0, "{said}");
    assert!(said.contains("<not supported>,,page-faults"), "what it does not show is no 0: {said}");
    let script = format!(
        "/perfuse record -q -F 100 -o /tmp/perf.data -- sh -c '{BUSY};{BUSY};{BUSY}' && /perfuse report -i /tmp/perf.data"
    );
    let output = container.run(&["sh", "-c", &script])?;
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(report.contains("cpu-clock"), "{report}{}", errors(&output));
    Ok(())
}

fn the_doctor_says_so() -> Outcome {
    let text = |output: Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let told = text(behind_a_filter(&["doctor", "--json"]));
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let checks = told["checks"].as_array().expect("a list of checks");
    let embedded = checks.iter().find(|check| check["id"] == "embedded").expect("one about it");
    let detail = embedded.to_string();
    assert!(detail.contains("as Linux refuses"), "{detail}");
    Ok(())
}

/// Runs the program in such a sandbox; what it said on both ways, and its status.
fn within(sandbox: Sandbox, arguments: &[&str]) -> (String, Option<i32>) {
    let output = run(sandbox.command(program()).args(arguments));
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &errors(&output);
    (said.split_whitespace().collect::<Vec<_>>().join(" "), output.status.code())
}

fn without_proc_the_reason_is_said() -> Outcome {
    Sandbox::has_namespaces()?;
    let folder = tempfile("without_proc");
    let out = folder.to_str().expect("a plain name");
    let commands: [&[&str]; 4] = [
        &["stat", "--kernel", "embedded", "-e", "task-clock", "true"],
        &["record", "--kernel", "embedded", "-o", out, "true"],
        &["run", "true"],
        &["doctor"],
    ];
    for arguments in commands {
        let (said, status) = within(Sandbox::new().without_proc(), arguments);
        assert!(said.contains("/proc is not mounted"), "{arguments:?}: {said}");
        // An event that cannot be counted is one of many.
        assert_eq!(
            status == Some(0),
            ["doctor", "stat"].contains(&arguments[0]),
            "{arguments:?}: {status:?}: {said}"
        );
    }
    Ok(())
}

fn without_memory_files_the_reason_is_said() -> Outcome {
    let folder = tempfile("without_memory_files");
    let out = folder.to_str().expect("a plain name");
    let sandbox = Sandbox::new().without_memory_files();
    let (said, status) = within(sandbox, &["stat", "--kernel", "embedded", "-e", "task-clock", "true"]);
    assert!(status == Some(0) && said.contains("task-clock"), "counting needs none: {said}");
    let (said, status) = within(sandbox, &["record", "--kernel", "embedded", "-o", out, "true"]);
    assert!(said.contains("memfd_create") && status != Some(0), "{status:?}: {said}");
    let recording = program();
    let recording = recording.to_str().expect("a plain name");
    let (said, _) =
        within(sandbox, &["run", "--", recording, "record", "-o", out, "-e", "task-clock", "true"]);
    assert!(said.contains("memfd_create"), "{said}");
    let (said, status) = within(sandbox, &["doctor"]);
    assert!(said.contains("memfd_create") && status == Some(0), "{status:?}: {said}");
    Ok(())
}

fn a_missing_guardian_is_told() -> Outcome {
    let arguments = ["stat", "--kernel", "embedded", "-e", "mem:0x10000:w", "sleep", "0.1"];
    let (told, _) = within(Sandbox::new(), &arguments);
    if told.contains("debug registers") {
        return Err(perfuse_testkit::Skip::needs("debug registers", told));
    }
    let (said, status) = within(Sandbox::new().without_memory_files(), &arguments);
    let tells = |said: &str| said.contains("to take probes, watchpoints and unfinished transfers back");
    assert!(tells(&said) && !tells(&told) && status == Some(0), "{said} {told}");
    Ok(())
}

fn tempfile(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}
