//! `perfuse run` of programs that trace others: strace, gdb, sanitizers.

use perfuse_testkit::{Outcome, Skip, need, perf, suite, wait};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

suite! {
    measurements:
        strace_of_a_program_and_its_children,
        strace_of_a_running_process,
        strace_of_another_user,
        gdb_of_a_program,
        gdb_of_a_running_process,
        a_sanitizer_that_looks_for_leaks,
        counts_of_what_strace_starts,
        perf_below_strace_is_explained,
        a_wish_to_stop_reaches_tracers;
}

fn perfuse(tool: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perfuse"));
    command.args(["run", "--"]).args(tool).stdin(Stdio::null()).env("LC_ALL", "C");
    command
}

fn output(tool: &[&str]) -> Output {
    perfuse(tool).output().expect("perfuse runs")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A tracer that works here without us.
fn tracer(name: &str, arguments: &[&str]) -> Result<(), Skip> {
    need::program(name)?;
    match Command::new(name).args(arguments).output() {
        Ok(done) if done.status.success() => Ok(()),
        done => Err(Skip::needs("a tracer that works", format_args!("{name}: {done:?}"))),
    }
}

fn strace() -> Result<(), Skip> {
    tracer("strace", &["-f", "true"])
}

fn gdb() -> Result<(), Skip> {
    tracer("gdb", &["-nx", "-batch", "-ex", "run", "true"])
}

/// Processes that are no children may be attached to.
fn attaching() -> Result<(), Skip> {
    match std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").as_deref().map(str::trim) {
        Err(_) | Ok("0") => Ok(()),
        Ok(_) => need::root(),
    }
}

fn strace_of_a_program_and_its_children() -> Outcome {
    strace()?;
    let done =
        output(&["strace", "-f", "-e", "trace=execve,exit_group", "sh", "-c", "/bin/true; /bin/false"]);
    let said = text(&done);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert_eq!(said.matches("+++ exited with").count(), 3, "{said}");
    for program in ["\"/bin/true\"", "\"/bin/false\""] {
        assert!(said.contains(program), "{said}");
    }
    Ok(())
}

/// Runs a shell script with a sleeper that lasts longer each time, until its tracer has come in time to see it: on a busy
/// machine it takes long to start one.
fn seen_while_it_sleeps(script: impl Fn(u32) -> String, evidence: &str, always: &str) {
    let mut said = String::new();
    for seconds in [1, 5, 30] {
        said = text(&output(&["sh", "-c", &script(seconds)]));
        assert!(said.contains(always), "{said}");
        if said.contains(evidence) {
            return;
        }
    }
    panic!("the tracer came too late each time, or saw nothing: {said}");
}

fn strace_of_a_running_process() -> Outcome {
    strace()?;
    attaching()?;
    let script = |seconds| {
        format!(
            "sleep {seconds} & pid=$!; strace -e trace=exit_group -p $pid; wait $pid; echo it ended with $?"
        )
    };
    seen_while_it_sleeps(script, "exit_group(0)", "it ended with 0");
    Ok(())
}

fn strace_of_another_user() -> Outcome {
    strace()?;
    need::root()?;
    let become_other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    need::program(become_other[0])?;
    let trace = ["strace", "-f", "-e", "trace=exit_group", "sh", "-c", "/bin/true; exit 4"];
    let done = output(&[&become_other[..], &trace].concat());
    assert_eq!(done.status.code(), Some(4), "{}", text(&done));
    // Root's processes are not its own.
    let script = "strace -p $(sed -n 's/TracerPid:\t//p' /proc/self/status)";
    let refused = output(&[&become_other[..], &["sh", "-c", script]].concat());
    assert!(text(&refused).contains("Operation not permitted"), "{}", text(&refused));
    Ok(())
}

/// A program that does not do well, removed on drop.
struct Program(PathBuf);

impl Program {
    fn compile(source: &str, options: &[&str]) -> Result<Self, Skip> {
        let cc = need::program("cc")?;
        let name = format!("perfuse-tracers-{}-{}", std::process::id(), options.len());
        let program = Program(std::env::temp_dir().join(name));
        let file = program.0.with_extension("c");
        std::fs::write(&file, source).expect("room for a file");
        let compiled =
            Command::new(cc).args(options).args(["-g", "-O0", "-o"]).arg(&program.0).arg(&file).output();
        let _ = std::fs::remove_file(&file);
        match compiled {
            Ok(done) if done.status.success() => Ok(program),
            done => Err(Skip::needs("a C compiler that can do it", format_args!("{done:?}"))),
        }
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path that is text")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn gdb_of_a_program() -> Outcome {
    gdb()?;
    let source =
        "#include <stdlib.h>\nstatic void inner(void) { abort(); }\nint main(void) { inner(); return 0; }\n";
    let program = Program::compile(source, &[])?;
    let run = [
        "gdb",
        "-nx",
        "-batch",
        "-ex",
        "break inner",
        "-ex",
        "run",
        "-ex",
        "cont",
        "-ex",
        "bt",
        program.path(),
    ];
    let said = text(&output(&run));
    for part in ["Breakpoint 1, ", "received signal SIGABRT", " in inner ", " in main "] {
        assert!(said.contains(part), "{part}: {said}");
    }
    Ok(())
}

fn gdb_of_a_running_process() -> Outcome {
    gdb()?;
    attaching()?;
    let script = |seconds| {
        format!(
            "sleep {seconds} & pid=$!; gdb -nx -batch -ex 'info threads' -p $pid; wait $pid; echo it ended with $?"
        )
    };
    seen_while_it_sleeps(script, "* 1 ", "it ended with 0");
    Ok(())
}

fn a_sanitizer_that_looks_for_leaks() -> Outcome {
    let source = "#include <stdlib.h>\nvoid *volatile lost;\n\
        int main(void) { lost = malloc(77); lost = 0; return 0; }\n";
    let program = Program::compile(source, &["-fsanitize=leak"])?;
    let alone = Command::new(&program.0).output().expect("it runs");
    if !text(&alone).contains("77 byte(s) leaked") {
        return Err(Skip::needs("a sanitizer that works", text(&alone)));
    }
    let hosted = output(&[program.path()]);
    assert!(text(&hosted).contains("77 byte(s) leaked"), "{}", text(&hosted));
    assert_eq!(alone.status, hosted.status);
    Ok(())
}

fn counts_of_what_strace_starts() -> Outcome {
    strace()?;
    let stat = ["perf", "stat", "-x,", "-e", "page-faults:u,task-clock:u"];
    let work = ["strace", "-o", "/dev/null", "sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"];
    let linux = perf::succeeds(perf::command(&[&stat[1..], &work].concat())?.env("LC_ALL", "C"))?;
    let hosted = output(&[&stat[..], &work].concat());
    assert!(hosted.status.success(), "{}", text(&hosted));
    let count = |output: &Output, event: &str| {
        let said = text(output);
        let line = said.lines().find(|line| line.contains(&format!(",{event}")));
        let count = line.and_then(|line| line.split(',').next()?.parse::<f64>().ok());
        count.unwrap_or_else(|| panic!("no {event} in {said}"))
    };
    for (event, least, most) in [("page-faults", 0.8, 1.2), ("task-clock", 0.2, 5.0)] {
        let (linux, hosted) = (count(&linux, event), count(&hosted, event));
        assert!(hosted > least * linux && hosted < most * linux, "{event}: {hosted}, and Linux has {linux}");
    }
    Ok(())
}

fn perf_below_strace_is_explained() -> Outcome {
    strace()?;
    need::perf()?;
    let said =
        text(&output(&["strace", "-f", "-o", "/dev/null", "perf", "stat", "-e", "task-clock", "true"]));
    assert!(said.contains("is traced by another process now"), "{said}");
    assert!(said.contains("ENOSYS"), "{said}");
    Ok(())
}

/// Processes with this argument.
fn processes_with(argument: &str) -> usize {
    let pids = std::fs::read_dir("/proc").expect("/proc is there").flatten();
    let has = |path: PathBuf| {
        let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
        line.split(|&byte| byte == 0).any(|word| word == argument.as_bytes())
    };
    pids.filter(|entry| has(entry.path())).count()
}

fn a_wish_to_stop_reaches_tracers() -> Outcome {
    strace()?;
    gdb()?;
    attaching()?;
    for round in 0..6 {
        let time = format!("{}.{round}5", 1000 + std::process::id());
        let attached = |tracer: &str| format!("sleep {time} & pid=$!; sleep 0.1; {tracer} -p $pid");
        let (of_strace, of_gdb) = (attached("strace"), attached("gdb -nx -batch -ex cont"));
        let tool: Vec<&str> = match round {
            0 => vec!["strace", "-f", "sleep", &time],
            1 => vec!["gdb", "-nx", "-batch", "-ex", "run", "--args", "sleep", &time],
            2 => vec!["sh", "-c", &of_strace],
            _ => vec!["sh", "-c", &of_gdb],
        };
        let mut child =
            perfuse(&tool).stderr(Stdio::null()).stdout(Stdio::null()).spawn().expect("perfuse runs");
        // By then it is traced.
        wait::until("the sleeper", || processes_with(&time) > 0);
        std::thread::sleep(Duration::from_millis(700));
        // SAFETY: plain numbers; it is our child.
        unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
        wait::until(&format!("an end of {tool:?}"), || child.try_wait().expect("a child").is_some());
        wait::until("no process", || processes_with(&time) == 0);
    }
    Ok(())
}
