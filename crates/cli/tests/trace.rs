//! `perfuse trace`, the real program: on a kept recording, beside strace, and on programs whose calls are known beforehand.

use perfuse_testkit::{Container, Outcome, need, suite};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

suite! {
    deterministic:
        lines_of_a_recording_are_straces,
        filters_leave_what_they_say,
        rows_are_of_the_calls_that_count,
        lines_begin_as_they_are_asked_to,
        habits_of_other_tools_are_taken_or_told,
        what_makes_no_sense_is_told_before_anything_runs;
    witnesses:
        counts_and_errors_are_straces,
        those_of_processes_that_start_execute_and_die_too,
        calls_by_the_embedded_kernel_are_straces,
        calls_that_nobodys_signal_interrupts_end_as_alone;
    measurements:
        nothing_is_lost_where_the_kernel_sums_up,
        threads_of_a_process_that_runs_already_are_summed_up_and_what_they_start,
        known_numbers_of_calls_are_told,
        a_recording_answers_again_what_was_told_live,
        the_commands_exit_status_is_kept,
        texts_are_those_that_calls_were_given,
        texts_are_copied_before_they_change,
        addresses_of_sockets_are_told_and_each_call_once,
        addresses_that_calls_give_back_are_told,
        an_interrupted_trace_still_has_its_table,
        a_full_disk_leaves_the_table,
        a_recording_that_was_cut_short_has_its_calls,
        other_events_are_lines_too,
        lines_come_while_the_command_runs,
        descriptors_are_what_the_process_opened,
        calls_have_their_stacks,
        page_faults_are_lines_between_calls,
        a_recording_of_trace_is_one_of_record,
        tables_come_again_and_again,
        arguments_of_functions_are_told,
        arguments_are_keys_and_conditions,
        the_embedded_kernel_tells_known_numbers_of_calls,
        in_a_docker_container_calls_are_told,
        under_gvisor_calls_are_told;
}

fn perfuse() -> PathBuf {
    std::env::var_os("PERFUSE_BIN").map_or_else(|| env!("CARGO_BIN_EXE_perfuse").into(), PathBuf::from)
}

fn fixture() -> String {
    format!("{}/tests/golden/fixtures/calls.data", env!("CARGO_MANIFEST_DIR"))
}

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(perfuse());
    command.arg("trace").args(arguments).stdin(Stdio::null()).env("LC_ALL", "C").output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What is told of the kept recording.
fn told(arguments: &[&str]) -> String {
    let output = run(&[&["-i", &fixture()], arguments].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// A folder that is gone with this.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("perfuse-trace-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Threads and children that make known numbers of known calls.
const KNOWN: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static void *work(void *n) {
    for (long i = 0; i < (long)n; i++) syscall(SYS_getppid);
    for (int i = 0; i < 7; i++) syscall(SYS_openat, AT_FDCWD, "/nonexistent/by-perfuse", O_RDONLY);
    return 0;
}
int main(void) {
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)(100 * (i + 1)));
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    for (int child = 0; child < 3; child++) {
        if (fork() == 0) {
            work((void *)50);
            char byte = 0;
            int ends[2];
            if (pipe(ends)) _exit(1);
            for (int i = 0; i < 20; i++) { if (write(ends[1], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1) _exit(1); }
            _exit(0);
        }
        wait(0);
    }
    return 0;
}
"#;

/// Processes of processes, threads that execute programs, and deaths within calls: each call as often in each run.
const TREE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static char *self;
static void calls(int n) { for (int i = 0; i < n; i++) { syscall(SYS_getppid); syscall(SYS_dup, -1); } }
static volatile int ready;
static void *sleeper(void *unused) { __sync_fetch_and_add(&ready, 1); for (;;) syscall(SYS_pause); }
static void *executes(void *unused) { while (ready < 2) {} calls(3); execl(self, self, "leaf", (char *)0); _exit(9); }
static void tree(int depth) {
    calls(5);
    for (int child = 0; depth > 0 && child < 2; child++) if (fork() == 0) { tree(depth - 1); _exit(0); }
    for (int child = 0; depth > 0 && child < 2; child++) wait(0);
}
int main(int count, char **arguments) {
    self = arguments[0];
    if (count > 1) { calls(7); return 0; }
    tree(4);
    /* Executed by a thread that is not the first one, while others sleep. */
    if (fork() == 0) {
        pthread_t threads[3];
        for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, sleeper, 0);
        pthread_create(&threads[2], 0, executes, 0);
        for (;;) syscall(SYS_pause);
    }
    wait(0);
    /* Executed after vfork. */
    for (int i = 0; i < 3; i++) {
        if (vfork() == 0) { execl(self, self, "leaf", (char *)0); _exit(9); }
        wait(0);
    }
    /* Killed within a call that never returns, and by a fault. */
    for (int i = 0; i < 3; i++) {
        int ends[2];
        if (pipe(ends)) return 1;
        pid_t child = fork();
        if (child == 0) {
            calls(2);
            if (i == 2) *(volatile int *)8 = 0;
            if (write(ends[1], "x", 1) != 1) return 1;
            for (;;) syscall(SYS_pause);
        }
        close(ends[1]);
        char byte;
        if (read(ends[0], &byte, 1) < 0) return 1;
        close(ends[0]);
        usleep(50000);
        if (i < 2) kill(child, i ? SIGKILL : SIGTERM);
        wait(0);
    }
    return 0;
}
"#;

/// The calls of [`KNOWN`] whose numbers do not depend on who is faster.
const CALLS: [(&str, u64, u64); 4] =
    [("getppid", 1000 + 150, 0), ("write", 60, 0), ("pipe2", 3, 0), ("wait4", 3, 0)];

fn known(folder: &Folder) -> Result<String, perfuse_testkit::Skip> {
    compiled(folder, KNOWN)
}

fn compiled(folder: &Folder, text: &str) -> Result<String, perfuse_testkit::Skip> {
    need::program("cc")?;
    let (source, built) = (folder.file("known.c"), folder.file("known"));
    std::fs::write(&source, text).expect("a source");
    let done =
        Command::new("cc").args(["-O1", "-pthread", "-o", &built, &source]).status().expect("cc starts");
    assert!(done.success());
    Ok(built)
}

fn needs() -> Outcome {
    need::root()?;
    need::tracefs().map(drop)
}

/// Calls and errors of a table as strace writes it.
fn counts(table: &str) -> BTreeMap<String, (u64, u64)> {
    let rows = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let numbers: Vec<u64> =
            words.get(3..words.len() - 1)?.iter().filter_map(|word| word.parse().ok()).collect();
        words[0].parse::<f64>().ok()?;
        let errors = numbers.get(1).copied().unwrap_or(0);
        Some(((*words.last()?).to_owned(), (*numbers.first()?, errors)))
    });
    rows.collect()
}

fn lines_of_a_recording_are_straces() -> Outcome {
    let lines = told(&[]);
    for part in [
        "write(1, ",
        ") = 6\n",
        "= -1 ENOENT (No such file or directory)\n",
        "= -1 EBADF (Bad file descriptor)\n",
        "lseek(1, 0, SEEK_CUR) = -1 ESPIPE (Illegal seek)\n",
        "exit_group(3) = ?\n",
        "openat(AT_FDCWD, 0x",
        ", O_RDONLY) = -1 ENOENT",
        "execve(...) = 0\n",
    ] {
        assert!(lines.contains(part), "{part}: {lines}");
    }
    let timed = told(&["-T", "-r"]);
    assert_eq!(timed.lines().count(), lines.lines().count());
    assert!(
        timed.starts_with("     0.000000 ") && timed.lines().nth(3).is_some_and(|line| line.ends_with('>')),
        "{timed}"
    );
    let objects = told(&["--json"]);
    for line in objects.lines() {
        let object: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert!(object["name"].is_string() && object["tid"].is_u64(), "{line}");
    }
    Ok(())
}

fn filters_leave_what_they_say() -> Outcome {
    let all = told(&[]);
    let count = |arguments: &[&str]| told(arguments).lines().count();
    let with = |part: &str| all.lines().filter(|line| line.contains(part)).count();
    assert_eq!(count(&["--failure"]), with(" = -1 "));
    assert_eq!(count(&["--if", "ret < 0"]), with(" = -1 "));
    assert_eq!(count(&["--if", "error == 'ENOENT'"]), with("ENOENT"));
    assert_eq!(count(&["--if", "name == 'write' && fd == 1 && count == 6"]), 1);
    assert_eq!(count(&["--if", "name ~ 'open*'"]), with("openat("));
    assert_eq!(count(&["--if", "flags & 0x80000 && name =~ '^open'"]), with("O_CLOEXEC"));
    assert_eq!(count(&["--if", "ret >= 0"]) + count(&["--if", "ret < 0"]), all.lines().count() - with("= ?"));
    assert_eq!(count(&["-e", "openat,close"]), with("openat(") + with("close("));
    assert_eq!(count(&["-e", "!openat"]), all.lines().count() - with("openat("));
    Ok(())
}

fn rows_are_of_the_calls_that_count() -> Outcome {
    let table = counts(&told(&["-c"]));
    let rows = told(&["--by", "name", "--show", "count"]);
    for line in rows.lines().skip(1) {
        let (name, count) = line.trim().split_once(char::is_whitespace).expect("two columns");
        assert_eq!(table[name].0, count.trim().parse::<u64>().expect("a number"), "{line}");
    }
    assert_eq!(rows.lines().count() - 1, table.len() - 1);
    let top = told(&["--by", "name", "--show", "count", "--top", "1"]);
    assert_eq!(top.lines().count(), 2);
    let sum = told(&["-e", "write", "--of", "ret", "--show", "sum,min,max,hist"]);
    assert!(sum.lines().nth(1).is_some_and(|line| line.contains('6')), "{sum}");
    let json: serde_json::Value =
        serde_json::from_str(&told(&["--by", "error", "--show", "count", "--json"])).expect("JSON");
    let enoent =
        json["rows"].as_array().expect("rows").iter().find(|row| row["error"] == "ENOENT").expect("one");
    assert_eq!(enoent["count"].as_f64(), Some(told(&["--if", "error == 'ENOENT'"]).lines().count() as f64));
    Ok(())
}

fn lines_begin_as_they_are_asked_to() -> Outcome {
    let first = |arguments: &[&str]| told(arguments).lines().nth(1).expect("a line").to_owned();
    let plain = first(&[]);
    let (thread, call) = plain.split_once(' ').expect("a thread");
    assert_eq!(first(&["-n"]), format!("{thread} [  12] {call}"));
    assert_eq!(first(&["--show-cpu"]).split_once("] ").expect("a cpu").1, plain);
    let epoch = first(&["-ttt"]);
    let (time, rest) = epoch.split_once(' ').expect("a time");
    assert!(time.parse::<f64>().is_ok_and(|seconds| seconds > 1e9) && rest == plain, "{epoch}");
    let day = first(&["-tt"]);
    let (time, rest) = day.split_once(' ').expect("a time");
    assert!(time.len() == "00:00:00.000000".len() && rest == plain, "{day}");
    assert_eq!(
        told(&["--max-events", "3"]),
        told(&[]).lines().take(3).map(|line| format!("{line}\n")).collect::<String>()
    );
    Ok(())
}

fn habits_of_other_tools_are_taken_or_told() -> Outcome {
    let all = told(&[]);
    let count = |arguments: &[&str]| told(arguments).lines().count();
    let (failed, open) = (count(&["--failure"]), count(&["-e", "status=unfinished"]));
    assert!(failed > 0 && open == 1, "{all}");
    for same in [&["-Z"][..], &["-e", "status=failed"], &["--failed-only"]] {
        assert_eq!(count(same), failed, "{same:?}");
    }
    assert_eq!(count(&["-z"]), all.lines().count() - failed - open);
    assert_eq!(count(&["-e", "status=successful,unfinished", "--expr", "all"]), all.lines().count() - failed);
    assert_eq!(count(&["-e", "open*,close"]), count(&["-e", "/^open|^close$"]));
    for ignored in
        ["--errno-summary", "--sort-events", "--libtraceevent_print", "-v", "-q", "-ff", "--syscalls"]
    {
        assert_eq!(told(&[ignored]), all, "{ignored}");
    }
    assert_eq!(told(&["-c", "--max-summary", "2"]).lines().count(), 2 + 2 + 2);
    assert_eq!(told(&["-s", "--summary-mode", "total"]), told(&["-c"]));
    for (arguments, part) in [
        (&["--sched"][..], "-e sched:sched_switch"),
        (&["--switch-on", "x"], "--if"),
        (&["-b", "execve"], "stops no process"),
        (&["-e", "inject=read:error=EIO"], "changes nothing that a program sees"),
        (&["-e", "status=odd"], "not 'odd'"),
        (&["--no-syscalls"], "--pf page faults"),
        (&["-e", "openat", "--filter", "id > 1"], "--if chooses calls"),
        (&["--live", "true"], "--live is for tables"),
        (&["-t", "1", "-i", "x"], "-t is for threads that run"),
        (&["-e", "uprobe:./a:f(x y)", "true"], "a value is arg0"),
        (&["-e", "uprobe:/nonexistent/by-perfuse:f(arg0)", "true"], "No such file"),
    ] {
        let output = run(arguments);
        let said = text(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(output.status.code() == Some(2) && said.contains(part), "{arguments:?}: {said}");
    }
    Ok(())
}

fn what_makes_no_sense_is_told_before_anything_runs() -> Outcome {
    for (arguments, part) in [
        (&["-e", "opennat", "--", "true"][..], "there is no system call 'opennat'; did you mean openat"),
        (&["--if", "cuont > 4", "--", "true"][..], "'cuont'; did you mean count?"),
        (&["--if", "count >", "--", "true"][..], "expected a field"),
        (&["--show", "median", "--", "true"][..], "rows tell count, sum"),
        (&["-i", "x", "--", "true"][..], "-i tells of a recording"),
        (&["-c", "-e", "minor-faults", "--", "true"][..], "--by name --show count counts these"),
        (&["-e", "minor-faults", "--by", "comm", "--", "true"], "--show count counts these"),
        (&["-e", "trace=none", "--", "true"], "no system calls leave nothing"),
        (&["-e", "!all", "--", "true"], "no system calls leave nothing"),
    ] {
        let output = run(arguments);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(part), "{arguments:?}: {said}");
    }
    Ok(())
}

fn counts_and_errors_are_straces() -> Outcome {
    needs()?;
    need::program("strace")?;
    let folder = Folder::new("strace");
    let known = known(&folder)?;
    let ours = run(&["-c", "--", &known]);
    let strace = Command::new("strace").args(["-f", "-c", &known]).output().expect("strace starts");
    let (ours, theirs) = (counts(&text(&ours.stderr)), counts(&text(&strace.stderr)));
    // Who waits for whom is another thing in each run.
    let fixed = |table: &BTreeMap<String, (u64, u64)>| -> BTreeMap<String, (u64, u64)> {
        let depends =
            ["futex", "total", "restart_syscall", "madvise", "munmap", "mprotect", "mmap", "rt_sigprocmask"];
        table
            .iter()
            .filter(|(name, _)| !depends.contains(&name.as_str()))
            .map(|(name, row)| (name.clone(), *row))
            .collect()
    };
    assert_eq!(fixed(&ours), fixed(&theirs));
    assert!(fixed(&ours).len() > 12, "{ours:?}");
    Ok(())
}

fn those_of_processes_that_start_execute_and_die_too() -> Outcome {
    needs()?;
    in_kernel()?;
    need::program("strace")?;
    let folder = Folder::new("tree");
    let tree = compiled(&folder, TREE)?;
    let ours = text(&run(&["-c", "--", &tree]).stderr);
    assert!(ours.ends_with("summed up in the kernel (BPF): no records, none lost\n"), "{ours}");
    let strace = Command::new("strace").args(["-f", "-c", &tree]).output().expect("strace starts");
    assert_eq!(counts(&ours), counts(&text(&strace.stderr)));
    Ok(())
}

/// The kernel sums up calls itself for this user.
fn in_kernel() -> Outcome {
    needs()?;
    need::first_pid_namespace()?;
    let said = text(&run(&["-c", "--", "true"]).stderr);
    match said.lines().last().and_then(|line| line.split_once("summed up from records: ")) {
        Some((_, why)) => Err(perfuse_testkit::Skip::needs("BPF", why)),
        None => Ok(()),
    }
}

fn nothing_is_lost_where_the_kernel_sums_up() -> Outcome {
    in_kernel()?;
    let folder = Folder::new("busy");
    let busy = compiled(
        &folder,
        "#include <sys/syscall.h>\n#include <unistd.h>\n#include <sys/wait.h>\nint main(int c, char **v) { \
         for (long i = 0; i < 3000000; i++) syscall(SYS_getpgid, 0); if (c > 1) return 0; \
         if (fork() == 0) execl(v[0], v[0], \"again\", (char *)0); wait(0); return 0; }",
    )?;
    let table =
        counts(&text(&run(&["-c", "--", "sh", "-c", &format!("{busy}; {busy} & {busy} once; wait")]).stderr));
    assert_eq!(table.get("getpgid"), Some(&(15_000_000, 0)));
    Ok(())
}

fn threads_of_a_process_that_runs_already_are_summed_up_and_what_they_start() -> Outcome {
    in_kernel()?;
    let folder = Folder::new("attached");
    let source = "#include <pthread.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n#include <sys/wait.h>\n\
        static void *work(void *n) { for (long i = 0; i < (long)n; i++) syscall(SYS_getppid); return 0; }\n\
        int main(void) { char byte; pthread_t thread; if (read(0, &byte, 1) != 1) return 1;\n\
        for (long i = 1; i < 4; i++) { pthread_create(&thread, 0, work, (void *)(i * 100)); pthread_join(thread, 0); }\n\
        if (fork() == 0) { work((void *)1000); _exit(0); } wait(0); sleep(1); return 0; }";
    let program = compiled(&folder, source)?;
    let mut child =
        Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
    let pid = child.id().to_string();
    let mut trace = Command::new(perfuse());
    let trace =
        trace.args(["trace", "-s", "--json", "-p", &pid]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut trace = trace.spawn().expect("it starts");
    let tracer = format!("/proc/{}", trace.id());
    let told = |file: &str| std::fs::read_to_string(format!("{tracer}/{file}")).unwrap_or_default();
    let has_links = || {
        let files = std::fs::read_dir(format!("{tracer}/fd")).into_iter().flatten().flatten();
        let mut links = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        links.any(|link| link.to_string_lossy().contains("bpf_link"))
    };
    // Where the kernel does not tell what it waits for, it waits if it sleeps.
    let waits = || match told("wchan").as_str() {
        "" | "0" => told("stat").contains(") S "),
        place => place.contains("poll"),
    };
    // Its programs run, and know the thread, when it has their links and waits. One that has ended says why below.
    perfuse_testkit::wait::until("the programs run", || {
        has_links() && waits() || trace.try_wait().is_ok_and(|ended| ended.is_some())
    });
    drop(child.stdin.take().map(|mut input| std::io::Write::write_all(&mut input, b"x")));
    child.wait().expect("its end");
    let output = trace.wait_with_output().expect("its end");
    let json: serde_json::Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
    let mut calls: Vec<u64> = json["calls"]
        .as_array()
        .expect("rows")
        .iter()
        .filter(|row| row["call"] == "getppid")
        .map(|row| row["calls"].as_u64().expect("a number"))
        .collect();
    calls.sort_unstable();
    assert_eq!(calls, [100, 200, 300, 1000], "{}", text(&output.stderr));
    Ok(())
}

fn known_numbers_of_calls_are_told() -> Outcome {
    needs()?;
    let folder = Folder::new("known");
    let known = known(&folder)?;
    let table = counts(&text(&run(&["-c", "--", &known]).stderr));
    for (name, calls, errors) in CALLS {
        assert_eq!(table.get(name), Some(&(calls, errors)), "{name}: {table:?}");
    }
    // Of each thread by itself, and the sum of a histogram.
    let by_thread = run(&["-e", "getppid", "--by", "tid", "--show", "count", "--json", "--", &known]);
    let said = text(&by_thread.stderr);
    let json: serde_json::Value = serde_json::from_str(said.lines().next().expect("a line")).expect("JSON");
    let counts: Vec<u64> = json["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| row["count"].as_f64().expect("a number") as u64)
        .collect();
    assert_eq!(counts, [400, 300, 200, 100, 50, 50, 50]);
    let hist = run(&["-e", "write", "--of", "ret", "--show", "hist", "--json", "--", &known]);
    let json: serde_json::Value =
        serde_json::from_str(text(&hist.stderr).lines().next().expect("a line")).expect("JSON");
    assert_eq!(json["rows"][0]["hist"], serde_json::json!([[1, 2, 60]]));
    // The loader opens with O_CLOEXEC.
    let failed = run(&[
        "-e",
        "openat",
        "--if",
        "error == 'ENOENT' && flags & 0x80000 == 0",
        "--show",
        "count",
        "--json",
        "--",
        &known,
    ]);
    let json: serde_json::Value =
        serde_json::from_str(text(&failed.stderr).lines().next().expect("a line")).expect("JSON");
    assert_eq!(json["rows"][0]["count"].as_f64(), Some(49.0));
    Ok(())
}

fn a_recording_answers_again_what_was_told_live() -> Outcome {
    needs()?;
    let folder = Folder::new("again");
    let (known, file) = (known(&folder)?, folder.file("calls.data"));
    let live = text(&run(&["-c", "-o", &file, "--", &known]).stderr);
    assert!(!live.contains("summed up"), "{live}");
    let again = text(&run(&["-c", "-i", &file]).stdout);
    assert!(live.starts_with(&again), "{live}\n{again}");
    let script = Command::new(perfuse())
        .args(["script", "-i", &file, "--filter", "id == 110"])
        .output()
        .expect("it starts");
    if cfg!(target_arch = "x86_64") {
        assert_eq!(text(&script.stdout).lines().count(), 2 * 1150, "{}", text(&script.stderr));
    }
    Ok(())
}

fn the_commands_exit_status_is_kept() -> Outcome {
    needs()?;
    assert_eq!(run(&["-c", "--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(run(&["-c", "--", "sh", "-c", "kill -9 $$"]).status.code(), Some(137));
    assert_eq!(run(&["-c", "--", "/nonexistent"]).status.code(), Some(127));
    Ok(())
}

fn texts_are_those_that_calls_were_given() -> Outcome {
    needs()?;
    // It goes on after the call, so that its memory can be read.
    let script = "cat /etc/hostname /nonexistent/by-perfuse; sleep 0.05";
    let said = text(&run(&["-e", "%file", "--", "sh", "-c", script]).stderr);
    // Where programs need no libraries, these two are all.
    let given = said.lines().filter(|line| line.contains("openat(AT_FDCWD, \"/")).count();
    assert!(given >= 2, "{said}");
    for given in ["/etc/hostname", "/nonexistent/by-perfuse"] {
        assert!(said.contains(&format!("openat(AT_FDCWD, \"{given}\"")), "{given}: {said}");
    }
    assert!(!said.contains("openat(AT_FDCWD, \"\""), "{said}");
    Ok(())
}

fn texts_are_copied_before_they_change() -> Outcome {
    in_kernel()?;
    let folder = Folder::new("copies");
    // Each name lies where the one before was, and the process ends at once.
    let program = compiled(
        &folder,
        "#include <stdio.h>\n#include <fcntl.h>\n#include <unistd.h>\nint main(int c, char **v) {\n\
         char name[64]; for (int i = 0; i < 3000; i++) { if (i % 100 == 0) usleep(2000); sprintf(name, \"/nonexistent/by-perfuse-%d\", i); open(name, O_RDONLY); }\n\
         if (c == 1) execl(v[0], v[0], \"again\", (char *)0); return 0; }",
    )?;
    let said = text(&run(&["-e", "openat,execve", "--", &program]).stderr);
    for number in [0, 1, 1500, 2999] {
        let line = format!("openat(AT_FDCWD, \"/nonexistent/by-perfuse-{number}\", O_RDONLY) = -1 ENOENT");
        assert_eq!(said.matches(&line).count(), 2, "{line}");
    }
    assert_eq!(said.matches("openat(AT_FDCWD, \"/nonexistent/by-perfuse-").count(), 6000);
    assert!(said.contains(&format!("execve(\"{program}\", ")), "{said:.2000}");
    Ok(())
}

fn addresses_of_sockets_are_told_and_each_call_once() -> Outcome {
    needs()?;
    let folder = Folder::new("sockets");
    // It goes on after the calls, so that its memory can be read.
    let program = compiled(
        &folder,
        r#"
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
static struct sockaddr_in four = { .sin_family = AF_INET };
static struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
static struct sockaddr_un file = { .sun_family = AF_UNIX, .sun_path = "/nonexistent/byperfuse" };
int main(void) {
    int one = socket(AF_INET, SOCK_DGRAM, 0), two = socket(AF_INET6, SOCK_DGRAM, 0), three = socket(AF_UNIX, SOCK_STREAM, 0);
    four.sin_port = six.sin6_port = htons(7);
    four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connect(one, (void *)&four, sizeof four);
    sendto(two, "x", 1, 0, (void *)&six, sizeof six);
    connect(three, (void *)&file, sizeof file);
    sleep(1);
    return 0;
}"#,
    )?;
    let said = text(&run(&["-e", "%net", "--", &program]).stderr);
    for part in [
        "connect(3, {AF_INET, 127.0.0.1:7}, 16) = 0\n",
        "0, {AF_INET6, [::1]:7}, 28) = ",
        "connect(5, {AF_UNIX, \"/nonexistent/by\\33perfuse\"}, 110) = -1 ENOENT",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(said.matches("socket(AF_").count(), 3, "{said}");
    let some = text(&run(&["-e", "connect", "--if", "uservaddr ~ '*127.0.0.1:7}'", "--", &program]).stderr);
    assert_eq!(some.lines().count(), 1, "{some}");
    Ok(())
}

fn addresses_that_calls_give_back_are_told() -> Outcome {
    in_kernel()?;
    let folder = Folder::new("peers");
    // The same memory for each address, and the process ends at once.
    let program = compiled(
        &folder,
        r#"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
static struct sockaddr_in at;
static socklen_t len;
static struct sockaddr *any(void) { len = sizeof at; return (void *)&at; }
int main(void) {
    int listens = socket(AF_INET, SOCK_STREAM, 0), one = socket(AF_INET, SOCK_DGRAM, 0), two = socket(AF_INET, SOCK_DGRAM, 0);
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listens, (void *)&at, sizeof at) || listen(listens, 9) || getsockname(listens, any(), &len)) return 1;
    struct sockaddr_in place = at;
    for (int i = 2; i < 5; i++) {
        int from = socket(AF_INET, SOCK_STREAM, 0);
        struct sockaddr_in own = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000000 + i) };
        if (bind(from, (void *)&own, sizeof own) || connect(from, (void *)&place, sizeof place)) return 2;
        if (accept(listens, any(), &len) < 0) return 3;
    }
    at.sin_port = 0;
    if (bind(one, (void *)&at, sizeof at)) return 4;
    char byte;
    if (getsockname(one, any(), &len) || sendto(two, "x", 1, 0, (void *)&at, sizeof at) != 1) return 5;
    if (recvfrom(one, &byte, 1, 0, any(), &len) != 1) return 6;
    return 0;
}"#,
    )?;
    for list in ["%net", "accept,recvfrom,getsockname"] {
        let said = text(&run(&["-e", list, "--", &program]).stderr);
        for address in ["127.0.0.2", "127.0.0.3", "127.0.0.4"] {
            let told = said
                .lines()
                .filter(|line| line.contains("accept(") && line.contains(&format!("{{AF_INET, {address}:")));
            assert_eq!(told.count(), 1, "{list} {address}: {said}");
        }
        let told = |call: &str| {
            said.lines().filter(|line| line.contains(call) && line.contains("{AF_INET, 127.0.0.")).count()
        };
        assert_eq!((told("getsockname("), told("recvfrom(")), (2, 1), "{said}");
    }
    Ok(())
}

fn an_interrupted_trace_still_has_its_table() -> Outcome {
    needs()?;
    let mut command = Command::new(perfuse());
    command
        .args(["trace", "-c", "--", "sh", "-c", "kill -INT $PPID; sleep 5; sleep 5"])
        .stderr(Stdio::piped());
    let output = command.output().expect("it starts");
    let table = counts(&text(&output.stderr));
    assert!(table.contains_key("execve") && table.contains_key("total"), "{}", text(&output.stderr));
    Ok(())
}

fn a_full_disk_leaves_the_table() -> Outcome {
    needs()?;
    if !Path::new("/dev/full").exists() {
        return Err(perfuse_testkit::Skip::needs("/dev/full", "it is not there"));
    }
    let output = run(&[
        "-c",
        "-o",
        "/dev/full",
        "--",
        "sh",
        "-c",
        "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo; done >/dev/null",
    ]);
    let said = text(&output.stderr);
    assert!(said.contains("No space left on device") || said.contains("cannot"), "{said}");
    assert_eq!(output.status.code(), Some(125), "{said}");
    Ok(())
}

fn a_recording_that_was_cut_short_has_its_calls() -> Outcome {
    needs()?;
    let folder = Folder::new("cut");
    let file = folder.file("cut.data");
    // The recorder is killed before it writes what stands behind the records.
    let script = "cat /nonexistent/by-perfuse 2>/dev/null; sleep 0.5; kill -9 $PPID";
    let killed = run(&["-c", "-o", &file, "--", "sh", "-c", script]);
    assert!(!killed.status.success());
    let again = run(&["-c", "-i", &file]);
    let (table, said) = (counts(&text(&again.stdout)), text(&again.stderr));
    assert!(table.contains_key("execve") && table["openat"].1 > 0, "{said}{table:?}");
    assert!(said.contains("the recording was cut short"), "{said}");
    Ok(())
}

fn other_events_are_lines_too() -> Outcome {
    needs()?;
    let said = text(&run(&["-e", "sched:sched_process_exec", "--", "sh", "-c", "env true"]).stderr);
    assert!(said.contains("sched:sched_process_exec: filename=/") && !said.contains("openat("), "{said}");
    let both =
        text(&run(&["-e", "sched:sched_process_exit,wait4", "--", "sh", "-c", "env true; env true"]).stderr);
    assert!(both.contains("wait4("), "{both}");
    // Linux told a task's own events of its end from some release on; 6.12 counts none, 6.18 does.
    let counted =
        Command::new(perfuse()).args(["stat", "-x,", "-e", "sched:sched_process_exit", "true"]).output();
    let counted = text(&counted.expect("it starts").stderr);
    if counted.lines().any(|line| line.starts_with("0,")) {
        return Err(perfuse_testkit::Skip::needs("ends of one's own tasks", counted));
    }
    assert!(both.contains("sched:sched_process_exit: "), "{both}");
    Ok(())
}

fn lines_come_while_the_command_runs() -> Outcome {
    needs()?;
    // It waits for an answer to its first line, which it gets when that has been told.
    let mut command = Command::new(perfuse());
    command.args(["trace", "-e", "chdir", "--", "sh", "-c", "cd /; read line; exit 7"]);
    let mut trace = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = std::io::BufReader::new(trace.stderr.take().expect("a pipe"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut lines, &mut line).expect("a line");
    assert!(line.starts_with("chdir(\"/\") = 0"), "{line}");
    drop(trace.stdin.take());
    assert_eq!(trace.wait().expect("its end").code(), Some(7));
    Ok(())
}

fn descriptors_are_what_the_process_opened() -> Outcome {
    in_kernel()?;
    let folder = Folder::new("descriptors");
    let file = folder.file("opened");
    std::fs::write(&file, "x").expect("a file");
    let program = compiled(
        &folder,
        "#include <fcntl.h>\n#include <unistd.h>\nint main(int c, char **v) {\n\
         char byte; int one = open(v[1], O_RDONLY), two = dup(one); if (read(two, &byte, 1) != 1) return 1;\n\
         close(one); close(two); sleep(1); return close(two) != -1; }",
    )?;
    let said = text(&run(&["-y", "-e", "read,close", "--", &program, &file]).stderr);
    for line in [
        format!("read(4<{file}>, "),
        format!("close(3<{file}>) = 0\n"),
        format!("close(4<{file}>) = 0\n"),
        "close(4) = -1 EBADF".to_owned(),
    ] {
        assert!(said.contains(&line), "{line}: {said}");
    }
    assert!(!said.contains("openat("), "{said}");
    let said = text(&run(&["-P", &file, "--", &program, &file]).stderr);
    let told: Vec<_> = said.lines().filter_map(|line| line.split_once('(')).map(|(name, _)| name).collect();
    assert_eq!(told, ["openat", "dup", "read", "close", "close"], "{said}");
    Ok(())
}

fn calls_have_their_stacks() -> Outcome {
    needs()?;
    let folder = Folder::new("stacks");
    let program = compiled(
        &folder,
        "#include <sys/syscall.h>\n#include <unistd.h>\n\
         __attribute__((noinline)) long asks(void) { return syscall(SYS_getppid) + 1; }\n\
         int main(void) { return asks() == 0; }",
    )?;
    let said = text(&run(&["-k", "-e", "getppid", "--", &program]).stderr);
    let stack: Vec<_> = said.lines().skip_while(|line| !line.contains("getppid(")).skip(1).collect();
    let at = |name: &str| stack.iter().position(|line| line.starts_with(" > ") && line.contains(name));
    assert!(at(" asks+0x").is_some_and(|asks| at(" main+0x").is_some_and(|main| asks < main)), "{said}");
    Ok(())
}

fn page_faults_are_lines_between_calls() -> Outcome {
    needs()?;
    let said = text(&run(&["--pf", "all", "-e", "execve", "--", "true"]).stderr);
    assert!(said.contains("minor-faults: 0x") && said.contains("execve("), "{said}");
    let said = text(&run(&["-F", "min", "--no-syscalls", "--max-events", "2", "--", "true"]).stderr);
    assert!(said.lines().filter(|line| line.contains("minor-faults: 0x")).count() == 2, "{said}");
    Ok(())
}

fn a_recording_of_trace_is_one_of_record() -> Outcome {
    needs()?;
    let folder = Folder::new("record");
    let file = folder.file("calls.data");
    assert!(run(&["record", "-o", &file, "--", "cat", "/nonexistent/by-perfuse"]).status.code() == Some(1));
    let table = counts(&text(&run(&["-c", "-i", &file]).stdout));
    assert!(table["openat"].1 > 0 && table.contains_key("execve"), "{table:?}");
    if need::program("perf").is_ok() {
        let theirs = Command::new("perf").args(["trace", "-i", &file]).output().expect("perf starts");
        let calls = table["total"].0;
        let lines = text(&theirs.stdout).lines().count() + text(&theirs.stderr).lines().count();
        assert!(lines as u64 >= calls, "{lines} {calls}");
    }
    Ok(())
}

fn tables_come_again_and_again() -> Outcome {
    needs()?;
    let script = "for i in 1 2 3 4 5 6; do sleep 0.2; done";
    for more in [&[][..], &["--if", "ret >= 0"]] {
        let said = text(&run(&[&["-c", "--live=0.2"], more, &["--", "sh", "-c", script]].concat()).stderr);
        assert!(said.matches("% time").count() > 2, "{said}");
    }
    Ok(())
}

/// A function with arguments of each kind.
const SERVER: &str = r#"
#include <string.h>
struct head { short kind; unsigned char flag; };
struct request { struct head head; unsigned long len; const char *name; char tag[8]; struct request *next; };
__attribute__((noipa)) int handle(struct request *req, int n, const char *why, double x, unsigned short port) {
    return (int)req->len * n - 100 + (int)x * 0 + port * 0 + why[0] * 0;
}
__attribute__((noipa)) const char *answer(struct request *req) { return req->name; }
int main(void) {
    struct request inner = { { 7, 1 }, 42, "inner", "tag!", 0 }, req = { { -3, 2 }, 10, "outer[0m", "TAG", &inner };
    long sum = 0;
    for (int i = 0; i < 5; i++) { sum += handle(&req, i, i % 2 ? "odd" : "even", 1.5, 80); sum += strlen(answer(&req)); }
    return sum == 12345;
}
"#;

fn server(folder: &Folder) -> Result<String, perfuse_testkit::Skip> {
    need::program("cc")?;
    let (source, built) = (folder.file("server.c"), folder.file("server"));
    std::fs::write(&source, SERVER).expect("a source");
    let done = Command::new("cc").args(["-g", "-O1", "-o", &built, &source]).status().expect("cc starts");
    assert!(done.success());
    Ok(built)
}

/// Options for each kernel that can tell them.
fn kernels() -> impl Iterator<Item = &'static [&'static str]> {
    let linux = needs().is_ok().then_some(&["--kernel", "linux"][..]);
    linux.into_iter().chain([&["--kernel", "embedded"][..]])
}

fn arguments_of_functions_are_told() -> Outcome {
    kernels().try_for_each(arguments_are_told_by)
}

fn arguments_are_told_by(kernel: &[&str]) -> Outcome {
    let run = |arguments: &[&str]| run(&[kernel, arguments].concat());
    let folder = Folder::new("arguments");
    let server = server(&folder)?;
    let list = "req->len,req->head.kind,req->next->name,req->tag,n,why,port,s=req->name";
    let said = text(&run(&["-e", &format!("uprobe:{server}:handle({list})"), "--", &server]).stderr);
    for n in 0..5 {
        let why = if n % 2 == 1 { "odd" } else { "even" };
        let told = format!(
            "handle(req_len=10 req_head_kind=-3 req_next_name=\"inner\" req_tag=\"TAG\" n={n} why=\"{why}\" port=80 s=\"outer"
        );
        assert!(said.contains(&told), "{told}: {said}");
    }
    assert!(!said.contains('\x1b') && said.lines().count() == 5, "{said}");
    let returns = format!("uretprobe:{server}:handle,uprobe:{server}:answer%return(retval)");
    let said = text(&run(&["-e", &returns, "--", &server]).stderr);
    for part in ["handle returns -100\n", "handle returns -60\n", "answer returns \"outer"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    for (list, part) in [
        ("x", "numbers with a fraction are not told"),
        ("req->nome", "no member 'nome'"),
        ("request", "the arguments are req, n, why, x, port"),
        ("n->len", "there is no struct"),
    ] {
        let output = run(&["-e", &format!("uprobe:{server}:handle({list})"), "--", &server]);
        assert!(text(&output.stderr).replace("\n  ", " ").contains(part), "{list}: {}", text(&output.stderr));
    }
    // Without debug information, by number.
    let stripped = Command::new("strip").args(["-g", &server]).status();
    assert!(stripped.is_ok_and(|status| status.success()));
    let said =
        text(&run(&["-e", &format!("uprobe:{server}:handle(arg1:s32,arg2:str)"), "--", &server]).stderr);
    assert!(said.contains("handle(arg1=4 arg2=\"even\")\n"), "{said}");
    let said = text(&run(&["-e", &format!("uprobe:{server}:handle(n)"), "--", &server]).stderr);
    assert!(said.contains("arg0, arg1"), "{said}");
    Ok(())
}

fn arguments_are_keys_and_conditions() -> Outcome {
    kernels().try_for_each(arguments_are_keys_by)
}

fn arguments_are_keys_by(kernel: &[&str]) -> Outcome {
    let run = |arguments: &[&str]| run(&[kernel, arguments].concat());
    let folder = Folder::new("keys");
    let server = server(&folder)?;
    let probe = format!("uprobe:{server}:handle(n,why)");
    let said = text(&run(&["-e", &probe, "--if", "n > 1 && why == 'even'", "--", &server]).stderr);
    assert!(said.contains("n=2 ") && said.contains("n=4 ") && said.lines().count() == 2, "{said}");
    let said = text(&run(&["-e", &probe, "--filter", "n > 2", "--", &server]).stderr);
    assert!(said.contains("n=3 ") && said.contains("n=4 ") && said.lines().count() == 2, "{said}");
    let rows =
        run(&["-e", &probe, "--by", "why", "--of", "n", "--show", "count,sum", "--json", "--", &server]);
    let json: serde_json::Value =
        serde_json::from_str(text(&rows.stderr).lines().next().expect("a line")).expect("JSON");
    assert_eq!(
        json["rows"],
        serde_json::json!([{ "why": "even", "count": 3.0, "sum": 6.0 }, { "why": "odd", "count": 2.0, "sum": 4.0 }])
    );
    // Its tracepoints are gone with it.
    let left = std::fs::read_to_string("/sys/kernel/tracing/uprobe_events").unwrap_or_default();
    assert!(!left.contains(&server), "{left}");
    Ok(())
}

/// The embedded kernel tells of calls by stops, without a right to anything of Linux's.
fn the_embedded_kernel_tells_known_numbers_of_calls() -> Outcome {
    need::program("cc")?;
    let folder = Folder::new("embedded");
    let known = known(&folder)?;
    let embedded = |arguments: &[&str]| run(&[&["--kernel", "embedded"], arguments].concat());
    let table = counts(&text(&embedded(&["-c", "--", &known]).stderr));
    for (name, calls, errors) in CALLS {
        assert_eq!(table.get(name), Some(&(calls, errors)), "{name}: {table:?}");
    }
    let failed =
        ["-e", "openat", "--if", "error == 'ENOENT' && flags & 0x80000 == 0", "--json", "--show", "count"];
    let failed = text(&embedded(&[&failed[..], &["--", &known]].concat()).stderr);
    let json: serde_json::Value =
        serde_json::from_str(failed.lines().find(|line| line.starts_with('{')).expect("a line"))
            .expect("JSON");
    assert_eq!(json["rows"][0]["count"].as_f64(), Some(49.0));
    // All texts are in the same place of its memory, one after the other.
    let paths = compiled(&folder, PATHS)?;
    let lines = text(&embedded(&["-e", "openat,faccessat,access", "--", &paths]).stderr);
    for number in 0..300 {
        assert!(lines.contains(&format!("\"/nonexistent/path{number}\"")), "{number}: {lines}");
    }
    let lines = text(&embedded(&["-e", "openat", "--", "cat", "/nonexistent/name"]).stderr);
    assert!(lines.contains(r#"openat(AT_FDCWD, "/nonexistent/name", O_RDONLY) = -1 ENOENT"#), "{lines}");
    assert_eq!(embedded(&["-c", "--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    Ok(())
}

/// Known numbers of calls in a container, by default options. `restarts`: a call that waits for a child is begun again when there is
/// news of one.
fn told_in(container: Container, known: &str, restarts: bool) -> Outcome {
    let container = container.show(perfuse(), "/perfuse").show(known, "/known");
    let said = text(&container.run(&["/perfuse", "trace", "-c", "--", "/known"])?.stderr);
    let table = counts(&said);
    for (name, calls, errors) in CALLS {
        let told = table.get(name).copied();
        let told = told.map(|told| if restarts && name == "wait4" { (told.0 - told.1, 0) } else { told });
        assert_eq!(told, Some((calls, errors)), "{name}: {said}");
    }
    Ok(())
}

fn in_a_docker_container_calls_are_told() -> Outcome {
    let folder = Folder::new("docker");
    let known = known(&folder)?;
    for user in [0, 1000] {
        told_in(Container::docker()?.user(user), &known, false)?;
    }
    Ok(())
}

fn under_gvisor_calls_are_told() -> Outcome {
    let folder = Folder::new("gvisor");
    told_in(Container::gvisor()?, &known(&folder)?, true)
}

const PATHS: &str = r#"
#include <fcntl.h>
#include <stdio.h>
int main(void) {
    char path[64];
    for (int i = 0; i < 300; i++) { sprintf(path, "/nonexistent/path%d", i); open(path, O_RDONLY); }
    return 0;
}
"#;

/// A child ends while its parent waits for something else, and the parent does not care: its call goes on, until its time is over.
const WAITS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
int main(void) {
    struct epoll_event event;
    int epoll = epoll_create1(0);
    for (int i = 0; i < 3; i++) {
        struct timespec from, to;
        if (fork() == 0) { usleep(100000); _exit(0); }
        clock_gettime(CLOCK_MONOTONIC, &from);
        int got = epoll_wait(epoll, &event, 1, 200);
        clock_gettime(CLOCK_MONOTONIC, &to);
        printf("%d %ld\n", got, (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000);
        wait(0);
    }
    return 0;
}
"#;

fn calls_that_nobodys_signal_interrupts_end_as_alone() -> Outcome {
    need::program("cc")?;
    let folder = Folder::new("embedded-waits");
    let waits = compiled(&folder, WAITS)?;
    let told = run(&["--kernel", "embedded", "-c", "--", &waits]);
    assert_eq!(counts(&text(&told.stderr)).get("epoll_wait"), Some(&(3, 0)), "{}", text(&told.stderr));
    for line in text(&told.stdout).lines() {
        let (got, ms) = line.split_once(' ').expect("two numbers");
        let ms: u64 = ms.parse().expect("a number");
        // Begun anew, each would take 300.
        assert!(got == "0" && (200..290).contains(&ms), "{line}");
    }
    Ok(())
}

fn calls_by_the_embedded_kernel_are_straces() -> Outcome {
    need::program("strace")?;
    let folder = Folder::new("embedded-tree");
    let tree = compiled(&folder, TREE)?;
    let ours = text(&run(&["--kernel", "embedded", "-c", "--", &tree]).stderr);
    let strace = Command::new("strace").args(["-f", "-c", &tree]).output().expect("strace starts");
    let [mut ours, mut theirs] = [ours, text(&strace.stderr)].map(|said| counts(&said));
    // A fork is begun again when a traced process has news of a child meanwhile; a thread that executes cuts another one's calls short.
    let done =
        |table: &BTreeMap<String, (u64, u64)>| table.get("clone").map(|(calls, errors)| calls - errors);
    assert_eq!(done(&ours), done(&theirs));
    for table in [&mut ours, &mut theirs] {
        table.retain(|name, _| !["clone", "rt_sigprocmask", "total"].contains(&name.as_str()));
    }
    assert_eq!(ours, theirs);
    Ok(())
}
