//! `perfuse stat` as its users run it: the real program on the running kernel, next to Linux's own perf
//! where that is installed.

mod control;
mod habits;
mod metrics;
mod perf;
mod recorded;

use control::*;
use habits::*;
use metrics::*;
use perf::*;
use perfuse_testkit::signals::send;
use perfuse_testkit::{Outcome, Sandbox, Skip, need, suite, wait};
use recorded::*;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

suite! {
    all need need::events;
    smoke:
        the_commands_status_is_passed_on;
    witnesses:
        lines_have_the_shape_of_perfs,
        perfs_text_is_perfs,
        recordings_of_counts_are_exchanged_with_perf,
        cgroups_are_perfs,
        the_orders_are_perfs,
        counts_agree_with_perfs;
    measurements:
        wrong_command_lines_are_told_apart,
        the_commands_output_is_its_own,
        an_event_that_cannot_be_counted_says_why,
        a_zero_that_means_nothing_says_so,
        ctrl_c_keeps_the_counts,
        a_second_ctrl_c_kills,
        intervals_end_with_the_command_or_their_number,
        several_runs_show_their_spread,
        json_has_every_run,
        results_go_to_a_file_and_are_appended,
        a_time_limit_ends_the_command,
        another_program_controls_the_counting,
        a_socket_controls_the_counting,
        single_events_are_switched,
        events_are_listed,
        a_running_process_is_measured,
        the_whole_system_and_single_cpus_are_measured,
        json_has_numbers_and_reasons,
        an_unprivileged_user_gets_reasons_in_place_of_zeros,
        a_command_is_run_while_nothing_can_be_counted,
        a_seccomp_filter_is_named,
        perfs_text_has_metrics_of_tables,
        the_program_called_perf_writes_perfs_text,
        every_thread_of_the_system_has_a_row,
        sides_are_chosen_for_all_events,
        events_become_one_group,
        filters_choose_hits,
        hooks_run_around_each_run,
        a_total_follows_the_intervals,
        each_run_has_its_line,
        results_go_to_a_descriptor,
        each_cgroup_counts_each_event,
        what_is_refused_says_what_to_do,
        counts_are_recorded_and_reported,
        what_is_no_recording_of_counts_is_told,
        a_broken_pipe_ends_quietly,
        metrics_are_made_of_events,
        metrics_of_a_table_are_found_by_their_processor,
        metrics_stand_where_perf_puts_them,
        metrics_stand_alone,
        a_metric_that_cannot_be_made_says_why,
        metrics_of_the_processor_are_its_counts;
}

/// A shell loop of some 50 ms.
const BUSY: &str = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done";

fn program() -> PathBuf {
    std::env::var_os("PERFUSE_BIN").map_or_else(|| env!("CARGO_BIN_EXE_perfuse").into(), PathBuf::from)
}

/// `perfuse stat` with these arguments, in a locale of our choice.
fn stat<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(program());
    command.arg("stat").args(arguments);
    plainly(&mut command);
    command
}

fn plainly(command: &mut Command) {
    command.env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").stdin(Stdio::null());
}

fn output(command: &mut Command) -> Output {
    command.output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs it; what it wrote to standard error.
fn results(arguments: &[&str]) -> String {
    let output = output(&mut stat(arguments));
    assert!(output.status.success(), "{arguments:?}: {:?} {}", output.status, text(&output.stderr));
    text(&output.stderr)
}

/// The status a shell would show.
fn status(arguments: &[&str]) -> i32 {
    output(&mut stat(arguments)).status.code().expect("it ends by itself")
}

/// The row of an event: all words of the first line that begins with its name.
fn row<'a>(text: &'a str, event: &str) -> Vec<&'a str> {
    let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.into_iter()
        .find(|words| words.first() == Some(&event))
        .unwrap_or_else(|| panic!("no {event} in {text}"))
}

/// A directory of this test, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("perfuse-stat-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a temporary directory can be made");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).expect("it is ours");
        Scratch(dir)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program that runs until the test ends.
struct Running(Child);

impl Running {
    fn shell(script: &str) -> Self {
        let child =
            Command::new("sh").args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Running(child.expect("the shell starts"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The command, once it runs.
fn command_of(parent: u32, name: &str) -> u32 {
    wait::until_runs(parent, name);
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).expect("it runs");
    children.split_whitespace().next().and_then(|pid| pid.parse().ok()).expect("a command")
}

/// For how long a process has been on a cpu, without what its children did.
fn ran(pid: u32) -> Duration {
    // CPUCLOCK_SCHED of a process, as clock_getcpuclockid(3) makes it.
    let clock = (!(pid as i32) << 3) | 2;
    Duration::from_nanos(perfuse_sys::clock::read_ns(clock).expect("it runs"))
}

/// Waits until a process has been on a cpu for so long from now on.
fn until_ran(pid: u32, time: Duration) {
    let end = ran(pid) + time;
    wait::until("it runs", || ran(pid) >= end);
}

/// Waits until the command runs, which may still be setting itself up then.
fn wait_for_command(parent: u32, name: &str) {
    wait::until_runs(parent, name);
    std::thread::sleep(Duration::from_millis(100));
}

fn the_commands_status_is_passed_on() -> Outcome {
    assert_eq!(status(&["-e", "cs", "true"]), 0);
    assert_eq!(status(&["-e", "cs", "--", "sh", "-c", "exit 7"]), 7);
    assert_eq!(status(&["-e", "cs", "--", "sh", "-c", "kill -9 $$"]), 137);
    assert_eq!(status(&["-n", "--", "sh", "-c", "exit 3"]), 3);
    assert_eq!(status(&["--", "/nonexistent/program"]), 127);
    assert_eq!(status(&["--", "no-such-program-anywhere"]), 127);
    assert_eq!(status(&["--", "/etc/passwd"]), 126);
    Ok(())
}

fn wrong_command_lines_are_told_apart() -> Outcome {
    for wrong in
        [&["--nonsense", "true"][..], &["-e", "cyclse", "true"], &["-x,", "-j", "true"], &["-A", "true"]]
    {
        assert_eq!(status(wrong), 2, "{wrong:?}");
    }
    let output = output(&mut stat(["-e", "cs,cyclse", "true"]));
    let text = text(&output.stderr);
    assert!(
        text.contains("column 4") && text.contains("     ^^^^^^") && text.contains("did you mean cycles"),
        "{text}"
    );
    assert_eq!(status(&["-o", "/nonexistent/file", "true"]), 125);
    Ok(())
}

fn the_commands_output_is_its_own() -> Outcome {
    let output = output(&mut stat(["-e", "faults:u", "sh", "-c", "printf out; printf err >&2"]));
    assert_eq!(text(&output.stdout), "out");
    let results = text(&output.stderr);
    assert!(results.starts_with("err"), "{results}");
    assert!(row(&results, "faults:u")[1].parse::<u64>().expect("a number") > 0);
    assert!(!results.contains('\x1b'), "no colours where there is no terminal");
    assert!(!results.contains("next:"), "no hints where there is no terminal");
    Ok(())
}

fn an_event_that_cannot_be_counted_says_why() -> Outcome {
    need::no_hardware_pmu()?;
    let text = results(&["true"]);
    assert_eq!(row(&text, "cycles")[1], "—");
    assert!(text.contains("no hardware PMU here"), "{text}");
    assert!(text.contains("▲ cycles, instructions, branches, branch-misses: "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    Ok(())
}

fn a_zero_that_means_nothing_says_so() -> Outcome {
    let text = results(&["-e", "cs:u", "true"]);
    assert!(text.contains("always 0 in user space"), "{text}");
    Ok(())
}

fn ctrl_c_keeps_the_counts() -> Outcome {
    let child = stat(["-e", "task-clock:u,faults:u", "sleep", "60"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    wait_for_command(child.id(), "sleep");
    send(libc::SIGINT, child.id());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    let text = text(&output.stderr);
    assert!(text.contains("killed by SIGINT"), "{text}");
    assert!(row(&text, "faults:u")[1].parse::<u64>().expect("a number") > 0);

    // Ctrl-C ends the measurement, which was a success, and leaves the measured process alone.
    let sleeper = Running::shell("exec sleep 60");
    let mut command = stat(["-e", "duration_time", "-p", &sleeper.0.id().to_string()]);
    let child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    wait::until_heeded(child.id(), libc::SIGINT);
    send(libc::SIGINT, child.id());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert!(self::text(&output.stderr).contains("duration_time"));
    Ok(())
}

fn a_second_ctrl_c_kills() -> Outcome {
    let mut command = stat(["-e", "cs", "sh", "-c", "trap : INT; while :; do sleep 0.05; done"]);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    wait::until_heeded(command_of(child.id(), "sh"), libc::SIGINT);
    // Two that come at once are one: the first may not have been heard yet.
    wait::until("an end", || {
        send(libc::SIGINT, child.id());
        std::thread::sleep(Duration::from_millis(200));
        child.try_wait().expect("a child").is_some()
    });
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(137), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("cs "));
    Ok(())
}

fn intervals_end_with_the_command_or_their_number() -> Outcome {
    let text = results(&["-I", "50", "-x,", "-e", "duration_time", "sleep", "0.18"]);
    let times: Vec<f64> =
        text.lines().map(|line| line.split(',').next().unwrap().trim().parse().expect("a time")).collect();
    // Three whole intervals and the rest; others where the machine was busy, but never more than the time has.
    let most = 1.0 + times.last().expect("a line") / 0.05;
    assert!(times.len() >= 2 && times.len() as f64 <= most, "{text}");
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{text}");
    let start = Instant::now();
    let text = results(&["-I", "50", "--interval-count", "2", "-x,", "-e", "duration_time", "sleep", "300"]);
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(start.elapsed() < Duration::from_secs(250));
    // Intervals of busy time add up to the total.
    let text = results(&["-I", "20", "--json", "-e", "faults", "sh", "-c", BUSY]);
    let objects: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (total, intervals) = objects.split_last().expect("there is a total");
    let value = |object: &serde_json::Value| object["events"][0]["value"].as_u64().unwrap_or(0);
    assert_eq!(intervals.iter().map(value).sum::<u64>(), value(total), "{text}");
    Ok(())
}

fn several_runs_show_their_spread() -> Outcome {
    let scratch = Scratch::new("runs");
    let log = scratch.join("log");
    let script = format!("echo run >> {}", log.display());
    let text = results(&["-r", "4", "-e", "faults", "sh", "-c", &script]);
    assert_eq!(fs::read_to_string(log).expect("it ran").lines().count(), 4);
    assert!(text.contains("4 runs") && text.contains("σ") && text.contains("95 % interval"), "{text}");
    assert!(text.contains('['), "{text}");
    Ok(())
}

fn json_has_every_run() -> Outcome {
    let text = results(&["-r", "3", "--json", "-e", "faults", "true"]);
    let value: serde_json::Value = serde_json::from_str(&text).expect("one object");
    for runs in [&value["events"][0]["value"]["runs"], &value["wall_s"]["runs"], &value["user_s"]["runs"]] {
        assert_eq!(runs.as_array().map(Vec::len), Some(3), "{text}");
    }
    Ok(())
}

fn results_go_to_a_file_and_are_appended() -> Outcome {
    let scratch = Scratch::new("file");
    let file = scratch.join("results");
    let path = file.to_str().expect("a plain path");
    for extra in [&[][..], &["--append"], &["--append"]] {
        let output = output(&mut stat([&["-o", path, "-x,", "-e", "faults:u"], extra, &["true"]].concat()));
        assert_eq!(text(&output.stderr), "");
    }
    let content = fs::read_to_string(&file).expect("it was written");
    assert_eq!(content.matches("# started on ").count(), 3, "{content}");
    assert_eq!(content.matches(",,faults:u,").count(), 3, "{content}");
    for json in ["--json", "-j"] {
        output(&mut stat(["-o", path, json, "-e", "faults", "true"]));
        let content = fs::read_to_string(&file).expect("it was written");
        assert!(serde_json::from_str::<serde_json::Value>(&content).is_ok(), "{content}");
    }
    let output = output(&mut stat(["-o", "-", "-x,", "-e", "faults:u", "true"]));
    assert!(text(&output.stdout).contains(",,faults:u,"));
    Ok(())
}

fn a_time_limit_ends_the_command() -> Outcome {
    let start = Instant::now();
    let text = results(&["--timeout", "150", "-e", "duration_time", "-x,", "sleep", "300"]);
    let ns: f64 = text.split(',').next().unwrap().parse().expect("a number");
    assert!((1.4e8..2.5e11).contains(&ns), "{text}");
    assert!(start.elapsed() < Duration::from_secs(250));
    assert!(results(&["--timeout", "50", "-n", "sleep", "300"]).contains("  stopped  "));
    Ok(())
}

fn a_running_process_is_measured() -> Outcome {
    let busy = Running::shell("while :; do :; done");
    let pid = busy.0.id().to_string();
    let text = results(&["-p", &pid, "-e", "task-clock", "-x,", "sleep", "0.2"]);
    assert!(text.split(',').next().unwrap().parse::<f64>().is_ok_and(|ms| ms > 0.0), "{text}");
    let text = results(&["-p", &pid, "--per-thread", "-e", "task-clock", "-x,", "--timeout", "100"]);
    assert!(text.starts_with(&format!("sh-{pid},")), "{text}");
    let text = results(&["-t", &pid, "-e", "task-clock", "-x,", "--timeout", "100"]);
    assert!(text.contains("msec,task-clock"), "{text}");
    // Its end is the end of the measurement, if that has begun before.
    let has_ended = ["0.3", "3", "30"].iter().any(|seconds| {
        let short = Running::shell(&format!("exec sleep {seconds}"));
        let pid = short.0.id().to_string();
        output(&mut stat(["-p", &pid, "-e", "duration_time", "--timeout", "200000"])).status.success()
    });
    assert!(has_ended);
    assert_eq!(status(&["-p", "4194303", "-e", "cs"]), 125);
    Ok(())
}

fn the_whole_system_and_single_cpus_are_measured() -> Outcome {
    need::root()?;
    let clock = |arguments: &[&str]| -> f64 {
        let text = results(&[arguments, &["-x,", "-e", "cpu-clock", "sleep", "0.1"]].concat());
        text.split(',').next().unwrap().parse().unwrap_or_else(|_| panic!("{text}"))
    };
    let cpus = std::thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64);
    let (one, all) = (clock(&["-C", "0"]), clock(&["-a"]));
    assert!(one > 95.0, "{one}");
    assert!(all > 95.0 * cpus, "{all} on {cpus} cpus");
    let rows = results(&["-a", "-A", "-x,", "-e", "cpu-clock", "sleep", "0.05"]);
    assert!(rows.starts_with("CPU0,"), "{rows}");
    assert!(rows.lines().count() >= cpus as usize, "{rows}");
    let rows = results(&["-a", "--per-core", "-e", "cpu-clock", "sleep", "0.05"]);
    assert!(rows.contains("S0-D0-C"), "{rows}");
    Ok(())
}

fn json_has_numbers_and_reasons() -> Outcome {
    let text = results(&["--json", "-d", "sh", "-c", BUSY]);
    let value: serde_json::Value = serde_json::from_str(&text).expect("one object");
    assert_eq!(value["schema"], "perfuse.stat/1");
    assert_eq!(value["target"]["command"][0], "sh");
    assert!(value["wall_s"].as_f64().unwrap() > 0.001);
    assert!(value["peak_rss_bytes"].as_u64().unwrap() > 100_000);
    for event in value["events"].as_array().expect("a list") {
        assert!(event["value"].is_number() || event["reason"].is_string(), "{event}");
    }
    Ok(())
}

/// The program where every user can run it.
fn public_program(scratch: &Scratch) -> PathBuf {
    let path = scratch.join("perfuse");
    fs::copy(program(), &path).expect("the program can be copied");
    path
}

fn in_sandbox(sandbox: Sandbox, program: &Path, arguments: &[&str]) -> Output {
    let mut command = sandbox.command(program);
    command.arg("stat").args(arguments).current_dir("/");
    plainly(&mut command);
    output(&mut command)
}

fn an_unprivileged_user_gets_reasons_in_place_of_zeros() -> Outcome {
    need::root()?;
    let paranoid = need::sysctl("kernel/perf_event_paranoid")?;
    if paranoid != 2 {
        return Err(Skip::needs("kernel.perf_event_paranoid = 2", paranoid));
    }
    let scratch = Scratch::new("nobody");
    let program = public_program(&scratch);
    let output = in_sandbox(Sandbox::new().unprivileged(), &program, &["true"]);
    assert_eq!(output.status.code(), Some(0));
    let results = text(&output.stderr);
    assert_eq!(row(&results, "context-switches")[1], "—");
    assert!(results.contains("perf_event_paranoid"), "{results}");
    assert!(row(&results, "page-faults:u")[1].parse::<u64>().expect("a number") > 0);
    assert!(results.contains("User space only"), "{results}");
    assert!(results.lines().all(|line| line.chars().count() <= 80), "{results}");

    let output = in_sandbox(Sandbox::new().unprivileged(), &program, &["-a", "true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("perf_event_paranoid"));
    Ok(())
}

fn a_command_is_run_while_nothing_can_be_counted() -> Outcome {
    need::no_hardware_pmu()?;
    // Like perf: with a command unsupported events are shown, and the status is the command's; without one it is an error.
    let output = output(&mut stat(["-a", "-e", "cycles", "sh", "-c", "echo ran"]));
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "ran\n".into()));
    assert_eq!(row(&text(&output.stderr), "cycles")[1], "—");
    assert_eq!(status(&["-a", "-e", "cycles"]), 125);
    Ok(())
}

fn a_seccomp_filter_is_named() -> Outcome {
    let scratch = Scratch::new("seccomp");
    let program = public_program(&scratch);
    for errno in [libc::EPERM, libc::ENOSYS] {
        let sandbox = Sandbox::new().refusing_perf_event_open(errno);
        let output = in_sandbox(sandbox, &program, &["--kernel", "linux", "sh", "-c", "exit 5"]);
        assert_eq!(output.status.code(), Some(5), "the command runs all the same");
        let results = text(&output.stderr);
        assert_eq!(row(&results, "task-clock")[1], "—");
        assert!(results.contains("seccomp"), "{results}");
        assert!(results.contains("peak RSS"), "{results}");
        let output = in_sandbox(sandbox, &program, &["--kernel", "linux", "-a", "-e", "cs", "true"]);
        assert_eq!(output.status.code(), Some(125));
        assert!(text(&output.stderr).contains("seccomp"));
    }
    Ok(())
}

fn a_broken_pipe_ends_quietly() -> Outcome {
    // A measured command goes on; its status counts.
    let mut command =
        stat(["-o", "-", "-I", "10", "-x,", "-e", "duration_time", "sh", "-c", "sleep 0.2; exit 4"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((text(&output.stderr).as_str(), output.status.code()), ("", Some(4)));
    // Without one there is nothing to go on for.
    let sleeper = Running::shell("exec sleep 600");
    let pid = sleeper.0.id().to_string();
    let mut command = stat(["-o", "-", "-I", "10", "-x,", "-e", "duration_time", "-p", &pid, "sleep", "600"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    drop(child.stdout.take());
    let start = Instant::now();
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((text(&output.stderr).as_str(), output.status.code()), ("", Some(141)));
    assert!(start.elapsed() < Duration::from_secs(250));
    Ok(())
}
