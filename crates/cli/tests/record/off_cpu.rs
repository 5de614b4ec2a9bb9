//! `--off-cpu`: sleep by stack, of programs that measure it themselves.

use super::*;

/// Sleeps in several functions and ways, and tells on standard output for how many nanoseconds in each.
const SLEEPER: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000 + t.tv_nsec;
}
static void nap(long ms) {
    struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
    syscall(SYS_nanosleep, &t, 0);
}
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int ends[2];
static void *holds(void *unused) { pthread_mutex_lock(&mutex); nap(350); pthread_mutex_unlock(&mutex); return 0; }
static void *writes(void *unused) { nap(250); if (write(ends[1], "x", 1) < 0) return 0; return 0; }
#define SLEEPS(name, what) __attribute__((noinline)) void name(void) { \
    long began = now(); what; printf(#name " %ld\n", now() - began); __asm__ volatile(""); }
/* Each in two functions: the C library may have no frame pointers, and hide its caller. */
static __attribute__((noinline)) void short_naps(void) { for (int i = 0; i < 10; i++) nap(30); __asm__ volatile(""); }
static __attribute__((noinline)) void long_nap(void) { nap(700); __asm__ volatile(""); }
static __attribute__((noinline)) void lock(void) { pthread_mutex_lock(&mutex); __asm__ volatile(""); }
static __attribute__((noinline)) void take(void) { char byte; if (read(ends[0], &byte, 1) < 0) return; __asm__ volatile(""); }
SLEEPS(naps, short_naps())
SLEEPS(one_nap, long_nap())
SLEEPS(waits_for_mutex, lock())
SLEEPS(waits_for_pipe, take())
int main(int count, char **arguments) {
    if (count > 1) { if (fork() == 0) { pause(); return 0; } for (;;) nap(20); }
    pthread_t thread;
    if (pipe(ends)) return 1;
    nap(100);
    naps();
    one_nap();
    pthread_create(&thread, 0, holds, 0);
    nap(50);
    waits_for_mutex();
    pthread_join(thread, 0);
    pthread_create(&thread, 0, writes, 0);
    waits_for_pipe();
    pthread_join(thread, 0);
    return 0;
}
"#;

fn sleeper(scratch: &Folder) -> Result<PathBuf, Skip> {
    need::root()?;
    need::first_pid_namespace()?;
    let built = compiled(scratch, "sleeper", SLEEPER)?;
    // Older kernels do not tell why a thread stops running, others run no programs at all.
    let tried = record(&scratch.file("tried"), &["--off-cpu", "true"]).output().expect("it starts");
    match tried.status.success() {
        true => Ok(built),
        false => Err(Skip::needs("BPF programs at sched_switch", text(&tried.stderr))),
    }
}

/// Nanoseconds of sleep by each function among the callers.
fn slept(file: &Path) -> BTreeMap<String, u64> {
    let mut script = Command::new(program());
    script.args(["script", "-F", "event,period,ip,sym", "-i"]).arg(file);
    let told = text(&script.output().expect("it starts").stdout);
    let (mut sums, mut period) = (BTreeMap::new(), None);
    for line in told.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [number, event] if event.ends_with(':') => {
                // Of other events nothing counts.
                period = number.parse::<u64>().ok().filter(|_| event.starts_with("offcpu-time"));
                *sums.entry("all".to_owned()).or_insert(0) += period.unwrap_or(0);
            }
            [_, symbol, ..] => {
                period.iter().for_each(|period| *sums.entry(symbol.to_owned()).or_insert(0) += period);
            }
            _ => {}
        }
    }
    sums
}

/// Records the sleeper by itself, with these options, and compares with what it measured, of which `least` has to be told.
fn told_as_measured(scratch: &Folder, sleeper: &Path, options: &[&str], least: f64) {
    let (file, said) = (scratch.file("data"), scratch.file("said"));
    let output = File::create(&said).expect("a file");
    let mut record = record(&file, &["--off-cpu", "-e", "cpu-clock:u"]);
    let recorded = record.args(options).arg(sleeper).stdout(output).status();
    assert!(recorded.expect("it starts").success());
    let (sums, said) = (slept(&file), fs::read_to_string(&said).expect("it was told"));
    for line in said.lines() {
        let (name, measured) = line.split_once(' ').expect("a name and a number");
        let measured: f64 = measured.parse().expect("a number");
        let told = sums.get(name).copied().unwrap_or(0) as f64;
        let is_close = told > measured * least && told < measured * 1.05;
        assert!(is_close, "{name}: {told} of {measured}: {sums:?}");
    }
    assert_eq!(said.lines().count(), 4);
    if need::perf().is_ok() {
        let perf = Command::new("perf").args(["script", "-F", "event,period", "-i"]).arg(&file).output();
        let perf = text(&perf.expect("perf starts").stdout);
        let periods = perf.lines().filter(|line| line.contains("offcpu-time"));
        let periods = periods.filter_map(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        assert_eq!(periods.sum::<u64>(), sums["all"], "{perf}");
    }
}

pub(super) fn sleep_is_told_by_stack_as_the_program_measures_it() -> Outcome {
    let scratch = Folder::new("off-cpu");
    told_as_measured(&scratch, &sleeper(&scratch)?, &[], 0.95);
    Ok(())
}

/// BPF programs do not wait for a delay, however short.
pub(super) fn sleep_is_told_by_records_where_programs_cannot() -> Outcome {
    let scratch = Folder::new("off-cpu-records");
    let sleeper = sleeper(&scratch)?;
    told_as_measured(&scratch, &sleeper, &["-D", "1"], 0.95);
    told_as_measured(&scratch, &sleeper, &["-D", "1", "-g"], 0.95);
    Ok(())
}

pub(super) fn sleep_of_a_process_that_runs_already_is_told() -> Outcome {
    let scratch = Folder::new("off-cpu-attached");
    let sleeper = sleeper(&scratch)?;
    let mut child = Command::new(sleeper).arg("forever").spawn().expect("it starts");
    let (file, pid) = (scratch.file("data"), child.id().to_string());
    let began = std::time::Instant::now();
    recorded(&file, &["--off-cpu", "-e", "cpu-clock:u", "-p", &pid, "sleep", "1"]);
    let elapsed = began.elapsed();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let _ = child.kill();
    let _ = child.wait();
    let _ = Command::new("kill").args(children.split_whitespace()).status();
    let told = Duration::from_nanos(slept(&file).get("main").copied().unwrap_or(0));
    assert!(told > Duration::from_millis(800) && told <= elapsed, "{told:?}");
    Ok(())
}

/// A thread sleeps for as long as the process lives.
const ENDS: &str = "#include <pthread.h>\n#include <unistd.h>\n\
    #include <stdio.h>\n#include <time.h>\n\
    void *sleeps(void *x) { pause(); return x; }\n\
    int main(void) {\n\
        pthread_t thread; struct timespec from, to;\n\
        pthread_create(&thread, 0, sleeps, 0);\n\
        clock_gettime(CLOCK_MONOTONIC, &from); usleep(200000); clock_gettime(CLOCK_MONOTONIC, &to);\n\
        printf(\"%f\\n\", (to.tv_sec - from.tv_sec) * 1e3 + (to.tv_nsec - from.tv_nsec) / 1e6);\n\
        fflush(stdout); _exit(0);\n\
    }\n";

/// By stops where calls end, for users without any right to perf events.
pub(super) fn the_embedded_kernel_tells_of_sleep() -> Outcome {
    need::ptrace()?;
    let scratch = Folder::new("off-cpu-embedded");
    let sleeper = compiled(&scratch, "sleeper", SLEEPER)?;
    // The program measures its stops, too, which are no sleep: two for each millisecond of its naps.
    told_as_measured(&scratch, &sleeper, &["--kernel", "embedded"], 0.8);
    told_as_measured(&scratch, &sleeper, &["--kernel", "embedded", "-g"], 0.8);
    // Nor does one whose process ends meanwhile.
    let ends = compiled(&scratch, "ends", ENDS)?;
    let file = scratch.file("ended");
    let options = ["--kernel", "embedded", "--off-cpu", "-e", "cpu-clock:u"];
    let done = record(&file, &options).arg(&ends).stdout(Stdio::piped()).output().expect("it starts");
    let napped: f64 = text(&done.stdout).trim().parse().unwrap_or_else(|_| panic!("{}", text(&done.stderr)));
    let told = slept(&file)["all"] as f64 / 1e6;
    // Both threads have slept for about as long as the nap.
    assert!((1.9 * napped..2.5 * napped).contains(&told), "{told} ms, and twice {napped}");
    // One that sleeps all the time never comes back from its call. It may take a while to be attached to.
    let mut child = Command::new("sleep").arg("100").spawn().expect("it starts");
    let (file, pid) = (scratch.file("attached"), child.id().to_string());
    let mut told = ["1", "2", "4"].into_iter().map(|seconds| {
        let target = ["-e", "cpu-clock:u", "-p", &pid, "sleep", seconds];
        recorded(&file, &[&["--kernel", "embedded", "--off-cpu"], &target[..]].concat());
        Duration::from_nanos(slept(&file)["all"])
    });
    let is_told = told.any(|told| told > Duration::from_millis(900));
    let _ = child.kill();
    let _ = child.wait();
    assert!(is_told, "less than 900 ms of sleep in each recording");
    Ok(())
}
