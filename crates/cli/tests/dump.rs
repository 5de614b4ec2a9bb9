//! `perfuse dump`: the stacks of a program of known functions, which goes on as if nothing had been.

use perfuse_testkit::{Outcome, Skip, need, wait};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

perfuse_testkit::suite! {
    smoke:
        what_cannot_be_looked_at_is_said;
    measurements:
        every_thread_is_told_with_its_stack,
        the_program_hears_of_nothing,
        a_stopped_program_stays_stopped;
}

const SOURCE: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>
static volatile long x;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
__attribute__((noinline)) void spin(void) { for (;;) x++; }
__attribute__((noinline)) void inner_sleep(void) { for (;;) sleep(1000); }
__attribute__((noinline)) void *sleeper(void *a) { inner_sleep(); return a; }
void *waiter(void *a) {
    struct epoll_event event;
    int fd = epoll_create1(0);
    for (;;) if (epoll_wait(fd, &event, 1, -1) < 0) { puts("interrupted"); fflush(stdout); }
    return a;
}
void *locker(void *a) { pthread_mutex_lock(&lock); return a; }
int main(void) {
    pthread_t thread;
    pthread_mutex_lock(&lock);
    pthread_create(&thread, 0, sleeper, 0);
    pthread_create(&thread, 0, waiter, 0);
    pthread_create(&thread, 0, locker, 0);
    spin();
}
"#;

/// The program, running; ended and removed with this.
struct Target {
    folder: PathBuf,
    child: Child,
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Target {
    fn start(name: &str) -> Result<Self, Skip> {
        let compiler = need::program("cc")?;
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("dump-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("threads.c"), SOURCE).expect("written");
        let mut compile = Command::new(compiler);
        compile.args(["-O1", "-g", "-fno-omit-frame-pointer", "-pthread", "-o", "threads", "threads.c"]);
        let compiled = compile.current_dir(&folder).output().expect("it starts");
        if !compiled.status.success() {
            return Err(Skip::needs("a C compiler", String::from_utf8_lossy(&compiled.stderr)));
        }
        let out = File::create(folder.join("out")).expect("a file");
        let mut command = Command::new(folder.join("threads"));
        let child = command.stdout(out).stdin(Stdio::null()).spawn().expect("it starts");
        let target = Target { folder, child };
        // Four threads, three of which come to rest.
        let sleeping = || target.states().iter().filter(|state| state.starts_with('S')).count();
        wait::until("three threads at rest", || sleeping() == 3);
        Ok(target)
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    fn of_threads(&self, field: &str) -> Vec<String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten();
        let statuses = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok());
        let value = |status: String| {
            let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
            line.unwrap_or_default().trim().to_owned()
        };
        statuses.map(value).collect()
    }

    fn states(&self) -> Vec<String> {
        self.of_threads("State")
    }
}

fn dump(words: &[&str]) -> Output {
    let program = std::env::var_os("PERFUSE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_perfuse").into());
    Command::new(program).arg("dump").args(words).output().expect("it starts")
}

/// The text of a dump, or why it cannot be had here.
fn text(output: &Output) -> Result<String, Skip> {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("ptrace") {
        return Err(Skip::needs("ptrace", said));
    }
    assert!(output.status.success(), "{said}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn every_thread_is_told_with_its_stack() -> Outcome {
    let target = Target::start("told")?;
    let told = text(&dump(&["-p", &target.pid(), "--json"]))?;
    let told: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(told["schema"], "perfuse.dump/1");
    let threads = told["threads"].as_array().expect("threads");
    assert_eq!(threads.len(), 4);
    let functions = |thread: &Value| -> Vec<String> {
        let frames = thread["frames"].as_array().expect("frames");
        frames.iter().map(|frame| frame["function"].as_str().unwrap_or("?").to_owned()).collect()
    };
    let stacks: Vec<Vec<String>> = threads.iter().map(functions).collect();
    let has = |names: &[&str]| {
        stacks.iter().any(|stack| {
            let at = stack.iter().position(|name| name == names[0]);
            at.is_some_and(|at| {
                stack[at..].iter().zip(names).filter(|(one, other)| one == *other).count() == names.len()
            })
        })
    };
    for names in [&["spin", "main"][..], &["inner_sleep", "sleeper"], &["waiter"], &["locker"]] {
        assert!(has(names), "{names:?} in {stacks:?}");
    }
    assert!(threads.iter().all(|thread| thread["incomplete"].is_null()), "{told}");
    let spin = &threads[0]["frames"][0];
    assert!(
        (threads[0]["state"] == "R") && spin["file"].as_str().is_some_and(|file| file.ends_with("threads.c"))
    );

    let told = text(&dump(&["-p", &target.pid(), "-t", &target.pid()]))?;
    assert_eq!(told.matches("\nthread ").count(), 1, "{told}");
    assert!(told.contains(" spin (threads) at ") && told.contains(": running\n"), "{told}");
    Ok(())
}

fn the_program_hears_of_nothing() -> Outcome {
    let target = Target::start("unheard")?;
    for _ in 0..20 {
        text(&dump(&["-p", &target.pid()]))?;
    }
    let mut states: Vec<String> =
        target.states().iter().map(|state| state.chars().take(1).collect()).collect();
    states.sort();
    assert_eq!(states, ["R", "S", "S", "S"]);
    assert!(target.of_threads("TracerPid").iter().all(|tracer| tracer == "0"));
    // Only Linux tells enough to begin calls again.
    if cfg!(target_arch = "x86_64") {
        assert_eq!(fs::read_to_string(target.folder.join("out")).expect("its output"), "");
    }
    Ok(())
}

fn a_stopped_program_stays_stopped() -> Outcome {
    let target = Target::start("stopped")?;
    let kill = need::program("kill")?;
    assert!(Command::new(kill).args(["-STOP", &target.pid()]).status().expect("it starts").success());
    let is_stopped = || target.states().iter().all(|state| state.starts_with('T'));
    wait::until("a stop of all threads", is_stopped);
    let told = text(&dump(&["-p", &target.pid()]))?;
    assert!(told.contains(": stopped\n") && told.contains(" spin (threads) at "), "{told}");
    assert!(is_stopped(), "{:?}", target.states());
    Ok(())
}

fn what_cannot_be_looked_at_is_said() -> Outcome {
    let output = dump(&["-p", "4194305"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125));
    assert!(said.contains("process 4194305 cannot be looked at: there is no such process"), "{said}");
    Ok(())
}
