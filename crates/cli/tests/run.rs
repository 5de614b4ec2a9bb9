//! `perfuse run`: Linux' own perf, unmodified, where the kernel refuses it.

use perfuse_testkit::{Container, Outcome, Sandbox, Skip, need, perf, suite, wait};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

suite! {
    all need need::ptrace;
    smoke:
        ends_as_the_tool_does;
    witnesses:
        perf_stat_counts_what_linux_counts,
        perf_record_wakes_up_as_seldom_as_on_linux,
        bpftrace_tells_what_it_tells_on_linux,
        calls_are_told_once_beside_probes,
        tracepoints_are_linuxs;
    measurements:
        says_why_not,
        a_traced_perfuse_says_who_traces_it,
        one_below_another_serves,
        docker_as_root,
        docker_as_a_user,
        gvisor,
        a_tool_that_is_killed_ends_with_its_number,
        nothing_is_left_when_perfuse_is_killed,
        a_running_process_is_measured_and_goes_on,
        a_process_that_cannot_be_traced_is_explained,
        a_running_tool_cannot_be_served,
        switches_are_estimated_if_one_asks_for_it,
        a_wish_to_stop_reaches_the_tool,
        many_threads_and_programs,
        tools_of_other_users_and_in_namespaces,
        probes_are_put_into_processes_that_run_already,
        probes_need_no_pmu_of_linux;
}

fn tools_of_other_users_and_in_namespaces() -> Outcome {
    need::perf()?;
    let stat = ["perf", "stat", "-x,", "-e", "task-clock:u,page-faults:u", "true"];
    let mut skipped = Err(Skip::needs("setpriv or unshare", "neither works here"));
    for become_other in [
        &["setpriv", "--reuid", "65534", "--clear-groups"][..],
        &["unshare", "-Ur"],
        &["unshare", "-Urfp", "--mount-proc"],
        &["unshare", "-Urnm"],
    ] {
        let works = Command::new(become_other[0]).args(&become_other[1..]).arg("true").output();
        if !works.is_ok_and(|output| output.status.success()) {
            continue;
        }
        let program = env!("CARGO_BIN_EXE_perfuse");
        let hosted = Command::new(program).arg("run").arg("--").args(become_other).args(stat).output();
        let hosted = hosted.expect("perfuse runs");
        assert!(hosted.status.success(), "{become_other:?}: {}", text(&hosted));
        assert!(count(&text(&hosted), "page-faults:u") > 10.0, "{become_other:?}: {}", text(&hosted));
        skipped = Ok(());
    }
    skipped
}

fn perfuse(arguments: &[&str]) -> Command {
    let mut command =
        Sandbox::new().refusing_perf_event_open(libc::EPERM).command(env!("CARGO_BIN_EXE_perfuse"));
    command.arg("run").args(arguments).stdin(Stdio::null());
    command
}

fn output(arguments: &[&str]) -> Output {
    perfuse(arguments).output().expect("perfuse runs")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn ends_as_the_tool_does() -> Outcome {
    assert_eq!(output(&["true"]).status.code(), Some(0));
    assert_eq!(output(&["--", "sh", "-c", "exit 3"]).status.code(), Some(3));
    assert_eq!(output(&["sh", "-c", "kill -USR1 $$"]).status.code(), Some(128 + libc::SIGUSR1));
    let said = output(&["sh", "-c", "echo out; echo err >&2"]);
    assert_eq!((&*said.stdout, &*said.stderr), (&b"out\n"[..], &b"err\n"[..]));
    Ok(())
}

fn says_why_not() -> Outcome {
    let absent = output(&["no-such-tool"]);
    assert_eq!(absent.status.code(), Some(127));
    assert!(
        text(&absent).contains("cannot run no-such-tool: no such program on the PATH"),
        "{}",
        text(&absent)
    );
    let closed = output(&["/etc/passwd"]);
    assert_eq!(closed.status.code(), Some(126));
    assert_eq!(output(&[]).status.code(), Some(2));
    Ok(())
}

fn a_traced_perfuse_says_who_traces_it() -> Outcome {
    let strace = need::program("strace")?;
    let inner = env!("CARGO_BIN_EXE_perfuse");
    let nested = Command::new(strace).args(["-f", "-o", "/dev/null", inner, "run", "true"]).output();
    let nested = nested.expect("strace runs");
    assert_eq!(nested.status.code(), Some(125), "{}", text(&nested));
    assert!(text(&nested).contains("has one tracer only"), "{}", text(&nested));
    Ok(())
}

/// The outer one hands over what the inner one traces.
fn one_below_another_serves() -> Outcome {
    let inner = env!("CARGO_BIN_EXE_perfuse");
    let nested = output(&["--", inner, "run", "sh", "-c", "/bin/true; exit 6"]);
    assert_eq!(nested.status.code(), Some(6), "{}", text(&nested));
    Ok(())
}

/// The number before a word, in what `perf stat -x,` said.
fn count(said: &str, event: &str) -> f64 {
    let line = said.lines().find(|line| line.contains(&format!(",{event}")));
    let count = line.and_then(|line| line.split(',').next()?.parse().ok());
    count.unwrap_or_else(|| panic!("no {event} in {said}"))
}

/// Work with many faults and some time.
const WORK: [&str; 3] =
    ["sh", "-c", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; for i in 1 2 3 4 5; do /bin/true; done"];

fn perf_stat_counts_what_linux_counts() -> Outcome {
    const EVENTS: &str = "task-clock:u,page-faults:u,context-switches,cpu-migrations";
    let stat = ["perf", "stat", "-x,", "-e", "task-clock,page-faults,context-switches", "--"];
    let command: Vec<&str> = stat.iter().chain(&WORK).copied().collect();
    let linux = perf::succeeds(perf::command(&command[1..])?.env("LC_ALL", "C"))?;
    let hosted = output(&command);
    assert!(hosted.status.success(), "{}", text(&hosted));
    let (linux, hosted) = (text(&linux), text(&hosted));
    let close = |event, least: f64, most: f64| {
        let (linux, hosted) = (count(&linux, event), count(&hosted, event));
        assert!(hosted > least * linux && hosted < most * linux, "{event}: {hosted}, and Linux has {linux}");
    };
    close("page-faults", 0.9, 1.1);
    close("task-clock", 0.3, 3.0);
    // perf says which event is not supported, and counts the others.
    let more = output(&["perf", "stat", "-x,", "-e", &format!("{EVENTS},cycles"), "true"]);
    assert!(text(&more).contains("<not supported>,,cycles"), "{}", text(&more));
    assert!(count(&text(&more), "page-faults:u") > 10.0, "{}", text(&more));
    Ok(())
}

fn number_before(said: &str, words: &str) -> u32 {
    let before = said.split(words).next().filter(|before| before.len() < said.len());
    let number =
        before.and_then(|before| before.rsplit([' ', '(']).find(|word| !word.is_empty())?.parse().ok());
    number.unwrap_or_else(|| panic!("no number before {words:?} in {said}"))
}

fn perf_record_wakes_up_as_seldom_as_on_linux() -> Outcome {
    need::perf()?;
    let file = std::env::temp_dir().join(format!("perfuse-run-{}.data", std::process::id()));
    let path = file.display().to_string();
    let recorded = output(&["perf", "record", "-F", "999", "-o", &path, "--", "sh", "-c", BUSY]);
    let _ = std::fs::remove_file(&file);
    let said = text(&recorded);
    assert!(recorded.status.success(), "{said}");
    let (woken, samples) = (number_before(&said, " times to write"), number_before(&said, " samples)"));
    assert!(samples > 50, "{said}");
    assert!(woken < 20, "{said}");
    Ok(())
}

/// A program in C that is removed on drop.
struct Compiled(PathBuf);

impl Compiled {
    fn new(name: &str, source: &str) -> Result<Self, Skip> {
        let compiler = need::program("cc")?;
        let path = std::env::temp_dir().join(format!("perfuse-run-{name}-{}", std::process::id()));
        let mut command = Command::new(compiler);
        command.args(["-xc", "-O1", "-o"]).arg(&path).arg("-").stdin(Stdio::piped());
        let mut child = command.spawn().expect("the compiler starts");
        std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), source.as_bytes())
            .expect("it reads");
        assert!(child.wait().expect("it ends").success(), "{name}");
        Ok(Compiled(path))
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The maps that bpftrace prints at the end of a command, by name: a hash has its own order.
fn maps_of(bpftrace: &mut Command, program: &str, path: &str) -> Vec<String> {
    let command = bpftrace.args(["-q", "-e", program, "-c", path]).env_remove("LD_LIBRARY_PATH");
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", text(&output));
    let mut maps: Vec<String> =
        text(&output).lines().filter(|line| line.starts_with('@')).map(str::to_owned).collect();
    maps.sort();
    maps
}

/// bpftrace attaches programs by events of whole cpus, and looks for the kernel's types: what it tells of a command of its own is
/// the same as on Linux.
fn bpftrace_tells_what_it_tells_on_linux() -> Outcome {
    need::root()?;
    need::tracefs()?;
    need::events()?;
    let bpftrace = need::program("bpftrace")?;
    let calls = Compiled::new(
        "calls",
        "#include <fcntl.h>\n\
         __attribute__((noinline)) int work(int x) { __asm__ volatile(\"\"); return 2 * x; }\n\
         int main(void) {\n\
             for (int i = 0; i < 1000; i++) work(i);\n\
             volatile char path[] = \"/perfuse/nothing\";\n\
             for (int i = 0; i < 7; i++) open((char *)path, O_RDONLY);\n\
             return 3;\n\
         }\n",
    )?;
    let path = calls.0.to_str().expect("names are UTF-8");
    let comm = &calls.0.file_name().expect("a name").to_str().expect("names are UTF-8")[..15];
    let mmap = libc::SYS_mmap;
    let program = format!(
        "uprobe:{path}:work {{ @calls = count(); @arg = sum(arg0); @t[tid] = nsecs; }}
         uretprobe:{path}:work /@t[tid]/ {{ @returns = count(); @value = sum(retval); @late = sum(@t[tid] > nsecs); delete(@t[tid]); }}
         tracepoint:syscalls:sys_enter_openat /comm == \"{comm}\" && strncmp(str(args->filename), \"/perfuse\", 8) == 0/ {{ @opened[str(args->filename)] = count(); }}
         tracepoint:syscalls:sys_exit_openat /comm == \"{comm}\" && args->ret < 0/ {{ @failed[args->ret] = count(); }}
         tracepoint:raw_syscalls:sys_enter /comm == \"{comm}\" && args->id == {mmap}/ {{ @maps = count(); }}
         tracepoint:raw_syscalls:sys_exit /comm == \"{comm}\" && args->id == {mmap}/ {{ @mapped = count(); }}
         tracepoint:sched:sched_process_exit /comm == \"{comm}\"/ {{ @ends = count(); @parent = curtask == 0; }}"
    );
    let told = |command: &mut Command| {
        let lines = maps_of(command, &program, path);
        assert!(lines.len() > 8, "{lines:?}");
        lines
    };
    let linux = told(&mut Command::new(&bpftrace));
    assert!(linux.contains(&"@calls: 1000".to_owned()), "{linux:?}");
    for sandbox in [Sandbox::new(), Sandbox::new().refusing_perf_event_open(libc::EPERM)] {
        let mut command = sandbox.command(env!("CARGO_BIN_EXE_perfuse"));
        assert_eq!(told(command.args(["run", "--"]).arg(&bpftrace)), linux);
    }
    // A user without rights, who calls himself root, and may not read the tracing file system.
    let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "unshare", "-Ur"];
    let as_nobody = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(nobody).arg(env!("CARGO_BIN_EXE_perfuse")).args(arguments);
        command
    };
    let works = as_nobody(&["--version"]).output();
    if !works.as_ref().is_ok_and(|output| output.status.success()) {
        return Err(Skip::needs("a user namespace of a user without rights", format_args!("{works:?}")));
    }
    assert_eq!(told(as_nobody(&["run", "--"]).arg(&bpftrace)), linux);
    Ok(())
}

/// A thread that does the instruction under a probe has the others stopped meanwhile, which ends their calls for the kernel, and not for
/// those who are told of calls.
fn calls_are_told_once_beside_probes() -> Outcome {
    need::root()?;
    need::tracefs()?;
    need::events()?;
    let bpftrace = need::program("bpftrace")?;
    let threads = Compiled::new(
        "threads",
        "#include <pthread.h>\n#include <signal.h>\n#include <sys/wait.h>\n#include <unistd.h>\n\
         __attribute__((noinline)) int work(int x) { volatile int y = x; return y; }\n\
         static void *turns(void *unused) { for (int i = 0; i < 50; i++) { work(i); usleep(300); } return 0; }\n\
         int main(void) {\n\
             pthread_t all[8];\n\
             for (int i = 0; i < 8; i++) pthread_create(&all[i], 0, turns, 0);\n\
             for (int i = 0; i < 8; i++) pthread_join(all[i], 0);\n\
             int ends[2]; char about_to[1];\n\
             if (pipe(ends)) return 1;\n\
             pid_t child = fork();\n\
             if (!child) { write(ends[1], about_to, 1); usleep(100000000); _exit(0); }\n\
             read(ends[0], about_to, 1);\n\
             usleep(200000);\n\
             kill(child, SIGKILL);\n\
             return waitpid(child, 0, 0) != child;\n\
         }\n",
    )?;
    let path = threads.0.to_str().expect("names are UTF-8");
    let comm = &threads.0.file_name().expect("a name").to_str().expect("names are UTF-8")[..15];
    let program = format!(
        "uprobe:{path}:work {{ @calls = count(); }}
         tracepoint:syscalls:sys_enter_clock_nanosleep /comm == \"{comm}\"/ {{ @naps = count(); @t[tid] = nsecs; }}
         tracepoint:syscalls:sys_exit_clock_nanosleep /comm == \"{comm}\"/ {{ @ends[args->ret] = count(); @short = sum(nsecs - @t[tid] < 300000); delete(@t[tid]); }}
         tracepoint:syscalls:sys_exit_clone3 /comm == \"{comm}\"/ {{ @made[args->ret == 0] = count(); }}
         tracepoint:syscalls:sys_enter_restart_syscall /comm == \"{comm}\"/ {{ @again = count(); }}"
    );
    let linux = maps_of(&mut Command::new(&bpftrace), &program, path);
    let known = [
        "@again: 0",
        "@calls: 400",
        // One is in its nap when it is killed.
        "@ends[-516]: 1",
        "@ends[0]: 401",
        "@made[0]: 8",
        "@made[1]: 8",
        "@naps: 402",
        "@short: 0",
    ];
    assert_eq!(linux, known);
    assert_eq!(maps_of(perfuse(&["--"]).arg(&bpftrace), &program, path), linux);
    Ok(())
}

/// Records of system calls, and of births, programs and ends of processes, with filters of the kernel's, are those of Linux.
fn tracepoints_are_linuxs() -> Outcome {
    need::perf()?;
    need::tracefs()?;
    const EVENTS: [(&str, &str); 7] = [
        // Of forks: they end in the child, too.
        ("raw_syscalls:sys_exit", "id >= 56 && id <= 58 || id == 435"),
        ("syscalls:sys_enter_openat", "flags & 0x80000 && dfd > 5"),
        ("syscalls:sys_exit_openat", "ret >= 3 || ret == -2"),
        ("raw_syscalls:sys_enter", "id == 59 || (id >= 231 && id < 258)"),
        ("sched:sched_process_fork", "parent_comm ~ \"s*\""),
        ("sched:sched_process_exec", "filename != \"/usr/bin/true\""),
        ("sched:sched_process_exit", "group_dead == 1"),
    ];
    const SCRIPT: &str = "ls / > /dev/null; /usr/bin/true; /bin/echo nothing | cat > /dev/null; exit 3";
    let file = std::env::temp_dir().join(format!("perfuse-run-{}-points.data", std::process::id()));
    let path = file.display().to_string();
    let mut words = vec!["record", "-N", "-o", &path];
    for (event, filter) in &EVENTS {
        words.extend(["-e", event, "--filter", filter]);
    }
    words.extend(["--", "/bin/sh", "-c", SCRIPT]);
    // The text of each event, with the numbers of processes by their order, and without addresses.
    let told = || -> Result<Vec<String>, Skip> {
        let script = perf::succeeds(&mut perf::command(&["script", "-F", "pid,event,trace", "-i", &path])?)?;
        let said = String::from_utf8_lossy(&script.stdout).into_owned();
        let mut pids: Vec<u32> =
            said.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect();
        pids.sort_unstable();
        pids.dedup();
        let mut lines: Vec<String> = said
            .lines()
            .map(|line| {
                let calls = line.split('(').next().unwrap_or_default().split_whitespace();
                let words = calls.map(|word| {
                    if word.len() > "0xffffff9c,".len() && word.starts_with("0x") { "ADDR" } else { word }
                });
                let line = words.collect::<Vec<_>>().join(" ");
                pids.iter()
                    .enumerate()
                    .fold(line, |line, (at, pid)| line.replace(&pid.to_string(), &format!("<{at}>")))
            })
            .collect();
        // Two processes run at the same time.
        lines.sort_unstable();
        Ok(lines)
    };
    let done = perf::command(&words)?.output().expect("perf starts");
    assert_eq!(done.status.code(), Some(3), "{}", text(&done));
    let linux = told()?;
    let hosted = |words: &[&str]| {
        let mut command = perfuse(&[&["perf"], words].concat());
        perf::impersonal(&mut command).output().expect("perfuse starts")
    };
    let run = hosted(&words);
    assert_eq!(run.status.code(), done.status.code(), "{}", text(&run));
    let ours = told()?;
    let _ = std::fs::remove_file(&file);
    assert!(linux.len() > 50, "{linux:#?}");
    for (event, _) in EVENTS {
        assert!(linux.iter().any(|line| line.contains(event)), "{event}: {linux:#?}");
    }
    let differing: Vec<_> = linux.iter().zip(&ours).find(|(linux, ours)| linux != ours).into_iter().collect();
    assert!(
        differing.is_empty() && linux.len() == ours.len(),
        "{differing:?}, {} {}",
        linux.len(),
        ours.len()
    );
    // A text that is no filter is refused alike.
    for filter in ["dfd", "nothing == 1", "dfd == \"x\"", "(dfd == 1", "dfd in {1}"] {
        let words = ["record", "-N", "-o", &path, "-e", EVENTS[1].0, "--filter", filter, "--", "true"];
        let linux = perf::command(&words)?.output().expect("perf starts");
        let run = hosted(&words);
        assert_eq!((text(&linux), linux.status.code()), (text(&run), run.status.code()), "{filter}");
    }
    Ok(())
}

const BUSY: &str = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";

/// A program with frame pointers: without optimization even the leaves have them: nine tenths of its time in `inner`, called by `outer`.
/// Its rounds differ, as clocks that move by hundredths of a second would keep step with equal ones.
const PROGRAM: &str = "volatile unsigned long x;\n\
    __attribute__((noinline)) void inner(long n) { for (long i = 0; i < n; i++) x += i; }\n\
    __attribute__((noinline)) void other(long n) { for (long i = 0; i < n; i++) x += i; }\n\
    __attribute__((noinline)) void outer(long n) { inner(9 * n); other(n); x++; }\n\
    int main(void) { for (long i = 0; i < 250; i++) outer(60000 + i * 7919 % 80000); return 0; }\n";

/// A folder with what a container is to have, removed on drop.
struct Things(PathBuf);

impl Things {
    fn new() -> Result<Self, Skip> {
        let cc = need::program("cc")?;
        let things = Things(std::env::temp_dir().join(format!("perfuse-things-{}", std::process::id())));
        std::fs::create_dir_all(&things.0).expect("a folder for temporary files");
        std::fs::copy(env!("CARGO_BIN_EXE_perfuse"), things.0.join("perfuse")).expect("room for a copy");
        let source = things.0.join("shares.c");
        std::fs::write(&source, PROGRAM).expect("room for a file");
        let mut compile = Command::new(cc);
        compile.args(["-O0", "-g", "-fno-omit-frame-pointer", "-o"]);
        let compiled = compile.arg(things.0.join("shares")).arg(&source).output();
        match compiled {
            Ok(done) if done.status.success() => Ok(things),
            done => Err(Skip::needs("a C compiler that works", format_args!("{done:?}"))),
        }
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Things {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Share of an entry of `perf report`, in percent.
fn share(report: &str, symbol: &str) -> f64 {
    let line = report.lines().find(|line| line.ends_with(&format!("[.] {symbol}")));
    let share = line.and_then(|line| line.split_whitespace().next()?.strip_suffix('%')?.parse().ok());
    share.unwrap_or_else(|| panic!("no {symbol} in:\n{report}"))
}

/// In a container that refuses the system call perf does all that it does elsewhere: counts, callchains by frame pointers
/// and from copied stacks, and the ordinary report of them.
fn perf_works_in(container: Container, exact: bool) -> Outcome {
    need::perf()?;
    let things = Things::new()?;
    let container = container.show(things.path(), "/opt/things");
    let script = "cd /tmp; run='/opt/things/perfuse run --'; program=/opt/things/shares\n\
        $run perf stat -x, -e task-clock,page-faults $program\n\
        for how in fp dwarf; do\n\
          $run perf record -F 250 --call-graph $how -o $how.data -- $program 2>&1 || exit\n\
          echo \"report of $how\"\n\
          perf report -i $how.data --stdio --no-children -g caller 2>/dev/null\n\
        done";
    let output = container.run(&["sh", "-c", script])?;
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(count(&said, "task-clock") > 10.0, "{said}");
    assert!(!exact || count(&said, "page-faults") > 30.0, "{said}");
    let reports: Vec<&str> = said.split("report of ").collect();
    assert_eq!(reports.len(), 3, "{said}");
    for report in &reports[1..] {
        let inner = share(report, "inner");
        // There are three dozen samples where clocks are coarse.
        assert!((60.0..=100.0).contains(&inner), "{inner} in {said}");
        let chain: Vec<&str> = report.lines().map(|line| line.trim_matches(['-', '|', ' '])).collect();
        for caller in ["main", "outer"] {
            assert!(chain.iter().any(|line| line.ends_with(caller)), "no {caller} in {said}");
        }
    }
    Ok(())
}

fn docker_as_root() -> Outcome {
    perf_works_in(Container::docker()?, true)
}

fn docker_as_a_user() -> Outcome {
    perf_works_in(Container::docker()?.user(1000), true)
}

fn gvisor() -> Outcome {
    perf_works_in(Container::gvisor()?, false)
}

fn a_tool_that_is_killed_ends_with_its_number() -> Outcome {
    need::perf()?;
    // The command that perf started goes on, and perfuse waits for it.
    let command = "perf stat -e page-faults sleep 2 & sleep 0.3; kill -9 $!; wait $!";
    assert_eq!(output(&["sh", "-c", command]).status.code(), Some(128 + 9));
    Ok(())
}

/// The processes that have this among their arguments.
fn processes_with(argument: &str) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").expect("/proc is there").filter_map(Result::ok);
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|&byte| byte == 0).any(|word| word == argument.as_bytes())
    };
    pids.filter(has).collect()
}

fn nothing_is_left_when_perfuse_is_killed() -> Outcome {
    need::perf()?;
    let time = format!("{}.25", 1000 + std::process::id());
    let mut child = perfuse(&["perf", "stat", "sleep", &time]).spawn().expect("perfuse runs");
    // perfuse, perf and sleep.
    wait::until("three processes", || processes_with(&time).len() == 3);
    child.kill().expect("a child can be killed");
    child.wait().expect("an end");
    wait::until("no process", || processes_with(&time).is_empty());
    Ok(())
}

/// Skips where this user may trace his own children only.
fn attaching() -> Result<(), Skip> {
    match std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").as_deref().map(str::trim) {
        Err(_) | Ok("0") => Ok(()),
        Ok(_) => need::root(),
    }
}

/// A process of ours that works until it is dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        let busy = Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn();
        Busy(busy.expect("a shell starts"))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// The rest of a line of its status.
    fn status(&self, name: &str) -> String {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).expect("it lives");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line of that name");
        line.trim().to_owned()
    }

    fn goes_on(&self) {
        wait::until("nobody traces it", || self.status("TracerPid:") == "0");
        wait::until("it runs", || self.status("State:").starts_with('R'));
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn a_running_process_is_measured_and_goes_on() -> Outcome {
    need::perf()?;
    attaching()?;
    let busy = Busy::start();
    let pid = busy.pid();
    let stat = output(&["perf", "stat", "-x,", "-e", "task-clock,page-faults", "-p", &pid, "sleep", "0.5"]);
    assert!(stat.status.success(), "{}", text(&stat));
    assert!(count(&text(&stat), "task-clock") > 1.0, "{}", text(&stat));
    busy.goes_on();
    let file = std::env::temp_dir().join(format!("perfuse-attached-{pid}.data"));
    let path = file.display().to_string();
    let recorded = output(&["perf", "record", "-F", "999", "-o", &path, "-t", &pid, "sleep", "1"]);
    let _ = std::fs::remove_file(&file);
    assert!(recorded.status.success(), "{}", text(&recorded));
    assert!(number_before(&text(&recorded), " samples)") > 0, "{}", text(&recorded));
    busy.goes_on();
    // A tool that is killed takes nobody along.
    let stat = ["perf", "stat", "-e", "task-clock", "-p", &pid, "sleep", "60"];
    let mut killed = perfuse(&stat).stderr(Stdio::null()).spawn().expect("perfuse runs");
    wait::until("it is traced", || busy.status("TracerPid:") != "0");
    killed.kill().expect("a child can be killed");
    killed.wait().expect("an end");
    busy.goes_on();
    Ok(())
}

fn a_process_that_cannot_be_traced_is_explained() -> Outcome {
    need::perf()?;
    attaching()?;
    let busy = Busy::start();
    let pid = busy.pid();
    let mut other = perfuse(&["perf", "stat", "-e", "task-clock", "-p", &pid, "sleep", "60"]);
    let mut other = other.stderr(Stdio::null()).spawn().expect("perfuse runs");
    wait::until("it is traced", || busy.status("TracerPid:") != "0");
    let refused = output(&["perf", "stat", "-e", "task-clock", "-p", &pid, "sleep", "0.1"]);
    other.kill().expect("a child can be killed");
    other.wait().expect("an end");
    assert!(!refused.status.success(), "{}", text(&refused));
    let reason = format!("the tool may not measure process {pid}: process {} ", other.id());
    assert!(text(&refused).contains(&reason), "{}", text(&refused));
    busy.goes_on();
    // It is the tool's rights that count, not ours.
    need::root()?;
    let drop_rights = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    need::program(drop_rights[0])?;
    let stat = ["perf", "stat", "-e", "task-clock", "-p", &pid, "sleep", "0.1"];
    let refused = output(&[&drop_rights[..], &stat].concat());
    assert!(text(&refused).contains("it is another user's"), "{}", text(&refused));
    Ok(())
}

fn a_running_tool_cannot_be_served() -> Outcome {
    for arguments in [&["-p", "1"][..], &["--pid", "1", "--", "true"]] {
        let refused = output(arguments);
        assert_eq!(refused.status.code(), Some(2));
        assert!(
            text(&refused).contains("a tool that runs already (1) cannot be served"),
            "{}",
            text(&refused)
        );
    }
    Ok(())
}

fn switches_are_estimated_if_one_asks_for_it() -> Outcome {
    need::perf()?;
    let file = std::env::temp_dir().join(format!("perfuse-switches-{}.data", std::process::id()));
    let path = file.display().to_string();
    let record = ["perf", "record", "--switch-events", "-F", "999", "-o", &path, "--", "sh", "-c", BUSY];
    let refused = output(&record);
    assert!(!refused.status.success(), "{}", text(&refused));
    assert!(text(&refused).contains("perfuse run --estimate-switches"), "{}", text(&refused));
    let recorded = output(&[&["--estimate-switches", "--"][..], &record].concat());
    assert!(recorded.status.success(), "{}", text(&recorded));
    let script = perf::succeeds(&mut perf::command(&["script", "--show-switch-events", "-i", &path])?);
    let _ = std::fs::remove_file(&file);
    // It comes and goes in turns, and is sampled in between. Where it goes from one cpu to another at one moment, perf shows
    // that in either order.
    let said = text(&script?);
    let lines: Vec<(&str, char)> = said.lines().filter_map(moment_and_kind).collect();
    let kinds: String = lines.iter().map(|(_, kind)| kind).collect();
    assert!(kinds.contains("iso"), "{said}");
    let mut is_on = 0;
    for moment in lines.chunk_by(|(one, _), (other, _)| one == other) {
        let of = |kind| moment.iter().filter(|(_, other)| *other == kind).count() as i32;
        is_on += of('i') - of('o');
        assert!((0..=1).contains(&is_on), "at {}: {said}", moment[0].0);
    }
    assert_eq!(is_on, 0, "{said}");
    Ok(())
}

/// The time of a line of `perf script`, and whether it tells that a thread goes on, that it goes off, or of a sample.
fn moment_and_kind(line: &str) -> Option<(&str, char)> {
    let moment = line.split_whitespace().find(|word| word.ends_with(':') && word.contains('.'))?;
    let kind = [("PERF_RECORD_SWITCH OUT", 'o'), ("PERF_RECORD_SWITCH IN", 'i')];
    let kind = kind.into_iter().find(|(name, _)| line.contains(name)).map_or('s', |(_, kind)| kind);
    Some((moment, kind))
}

fn a_wish_to_stop_reaches_the_tool() -> Outcome {
    let time = format!("{}.75", 1000 + std::process::id());
    let script = format!("trap 'exit 7' TERM; sleep {time} & wait");
    let mut child = perfuse(&["sh", "-c", &script]).spawn().expect("perfuse runs");
    wait::until("the sleeper", || processes_with(&time).len() == 1);
    // SAFETY: plain numbers.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    assert_eq!(child.wait().expect("an end").code(), Some(7));
    Ok(())
}

fn many_threads_and_programs() -> Outcome {
    need::perf()?;
    let command = [
        "perf",
        "stat",
        "-x,",
        "-e",
        "page-faults",
        "sh",
        "-c",
        "for i in $(seq 200); do /bin/true & done; wait",
    ];
    let done = output(&command);
    assert!(done.status.success(), "{}", text(&done));
    assert!(count(&text(&done), "page-faults") > 200.0 * 20.0, "{}", text(&done));
    Ok(())
}

/// A program whose function `work` is called all the time.
const WORKS: &str = "#include <unistd.h>\n\
    __attribute__((noinline)) int work(int x) { __asm__ volatile(\"\"); return x + 1; }\n\
    int main(int count, char **arguments) { for (int i = 0; i < 1000 || count > 1; i++) work(i), usleep(count > 1 ? 500 : 0); return 0; }\n";

/// A tool's first call about a process that is no task yet is one about a probe.
fn probes_are_put_into_processes_that_run_already() -> Outcome {
    let works = Compiled::new("works", WORKS)?;
    let opens = Compiled::new(
        "opens",
        "#include <linux/perf_event.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n\
         int main(int count, char **arguments) {\n\
             struct perf_event_attr attr = { .type = atoi(arguments[1]), .size = sizeof attr };\n\
             attr.config1 = (unsigned long)arguments[2], attr.config2 = strtoul(arguments[3], 0, 16);\n\
             int event = syscall(SYS_perf_event_open, &attr, atoi(arguments[4]), -1, -1, 0);\n\
             if (event < 0) { perror(\"perf_event_open\"); return 1; }\n\
             long hits = 0;\n\
             for (int i = 0; i < 10000 && hits < 10; i++, usleep(1000)) if (read(event, &hits, sizeof hits) < 0) return 2;\n\
             puts(hits < 10 ? \"no hits\" : \"hits\");\n\
             return 0;\n\
         }\n",
    )?;
    let path = works.0.to_str().expect("names are UTF-8");
    let symbols = Command::new(need::program("nm")?).arg(path).output().expect("nm starts");
    let symbols = text(&symbols);
    let offset = symbols.lines().find(|line| line.ends_with(" work")).and_then(|line| line.split(' ').next());
    let type_ = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type");
    let type_ = type_.map_or("9".to_owned(), |type_| type_.trim().to_owned());
    let mut target = Command::new(path).arg("on").spawn().expect("it starts");
    let pid = target.id().to_string();
    let opens = opens.0.to_str().expect("names are UTF-8");
    let got = output(&["--", opens, &type_, path, offset.expect("it is there"), &pid]);
    let _ = target.kill();
    let _ = target.wait();
    assert_eq!(text(&got), "hits\n");
    Ok(())
}

/// Kernels without probes show no PMU of theirs.
fn probes_need_no_pmu_of_linux() -> Outcome {
    need::root()?;
    let works = Compiled::new("unshown", WORKS)?;
    let path = works.0.to_str().expect("names are UTF-8");
    let script = "mount -t tmpfs none /sys/bus/event_source && exec \"$@\"";
    let program = env!("CARGO_BIN_EXE_perfuse");
    let event = format!("uprobe:{path}:work");
    let stat = ["stat", "--kernel", "embedded", "-x;", "-e", &event, path];
    let mut command = Command::new("unshare");
    let counted = command.args(["-m", "sh", "-c", script, "sh", program]).args(stat).output();
    let counted = text(&counted.map_err(|error| Skip::needs("unshare", error))?);
    if counted.contains("mount:") {
        return Err(Skip::needs("the right to mount", counted));
    }
    assert!(counted.starts_with("1000;"), "{counted}");
    Ok(())
}
