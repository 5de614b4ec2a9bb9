//! Stacks that are unwound from copies, compared with what perf makes of the same recordings, and with where programs begin.

use perfuse_testkit::{Outcome, Skip, need};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

perfuse_testkit::suite! {
    measurements:
        c_without_frame_pointers,
        cpp_with_callbacks,
        rust,
        static_program,
        signal_handlers,
        c_unwound_while_recording,
        rust_unwound_while_recording,
        unwound_by_the_embedded_kernel,
        c_without_tables_and_frame_pointers,
        python_with_trampolines,
        deleted_while_it_is_recorded,
        sealed_and_deleted;
}

const C: &str = r#"
#include <stdlib.h>
volatile unsigned long sum;
__attribute__((noinline)) void leaf(int n) { for (int i = 0; i < n; i++) sum += i * 7; }
__attribute__((noinline)) int compare(const void *a, const void *b) {
    leaf(200); return *(const int *)a - *(const int *)b;
}
__attribute__((noinline)) int deep(int n) { volatile char room[40]; room[n] = 1; return n ? deep(n - 1) + room[n] : (leaf(5000), 1); }
__attribute__((noinline)) void list(void) {
    int all[50]; for (int i = 0; i < 50; i++) all[i] = i * 7919 % 50;
    qsort(all, 50, sizeof *all, compare);
}
int main(void) { for (int i = 0; i < ROUNDS; i++) { deep(20); list(); } return 0; }
"#;

const SIGNALS: &str = r#"
#include <signal.h>
volatile unsigned long sum;
__attribute__((noinline)) void work(int n) { for (int i = 0; i < n; i++) sum += i * 7; }
void handler(int s) { (void)s; work(200000); }
__attribute__((noinline)) void outer(void) { raise(SIGUSR1); sum++; }
int main(void) { signal(SIGUSR1, handler); for (int i = 0; i < ROUNDS * 3; i++) outer(); return 0; }
"#;

const CPP: &str = r#"
#include <algorithm>
#include <functional>
#include <vector>
volatile unsigned long sum;
__attribute__((noinline)) bool less(long a, long b) { for (int i = 0; i < 100; i++) sum += i; return a < b; }
struct Base { virtual void run(int n) = 0; virtual ~Base() {} };
struct Work : Base {
    std::vector<long> all;
    __attribute__((noinline)) void run(int n) override {
        all.clear();
        for (int i = 0; i < 200; i++) all.push_back(i * 7919 % 211);
        std::function<bool(long, long)> by = less;
        if (n) run(n - 1); else std::sort(all.begin(), all.end(), by);
    }
};
int main() { Work work; Base *base = &work; for (int i = 0; i < ROUNDS; i++) base->run(8); return 0; }
"#;

const RUST: &str = r#"
use std::sync::atomic::{AtomicU64, Ordering};
static SUM: AtomicU64 = AtomicU64::new(0);
#[inline(never)]
fn leaf(n: u64) { for i in 0..n { SUM.fetch_add(i, Ordering::Relaxed); } }
#[inline(never)]
fn deep(n: u64) -> u64 { if n == 0 { leaf(5000); 1 } else { deep(n - 1) + SUM.load(Ordering::Relaxed) % 3 } }
fn main() {
    let thread = std::thread::spawn(|| { for _ in 0..ROUNDS { std::hint::black_box(deep(20)); } });
    for _ in 0..ROUNDS { let mut list: Vec<u64> = (0..100).map(|x| x * 7919 % 101).collect(); list.sort_by(|a, b| { leaf(50); a.cmp(b) }); }
    thread.join().unwrap();
}
const ROUNDS: usize = 1500;
"#;

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("unwind-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for the test's files");
    folder
}

fn done(output: &Output, what: &str) -> Result<String, Skip> {
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(Skip::needs(
            what,
            String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("no reason"),
        )),
    }
}

/// A folder with a program.
fn compiled(
    name: &str,
    (compiler, file, text): (&str, &str, &str),
    options: &[&str],
) -> Result<PathBuf, Skip> {
    let compiler = need::program(compiler)?;
    let folder = scratch(name);
    fs::write(folder.join(file), text).expect("the source");
    let mut command = Command::new(compiler);
    let command = command.args(["-o", "program", file]).args(options).current_dir(&folder);
    done(&command.output().expect("it starts"), "a compiler")?;
    Ok(folder)
}

/// A recording of a program with copies of its stack, made by perf.
fn recorded(
    name: &str,
    (compiler, file, text): (&str, &str, &str),
    options: &[&str],
) -> Result<PathBuf, Skip> {
    need::events()?;
    let perf = need::perf()?;
    let folder = compiled(name, (compiler, file, text), options)?;
    let mut command = Command::new(perf);
    command.args([
        "record",
        "-q",
        "-e",
        "cpu-clock:u",
        "-F",
        "1999",
        "--call-graph",
        "dwarf,16384",
        "-o",
        "data",
        "./program",
    ]);
    done(&command.current_dir(&folder).output().expect("perf starts"), "perf that records stacks")?;
    Ok(folder.join("data"))
}

/// The callchains of a recording as `script` prints them: symbols alone.
fn chains(program: &Path, file: &Path) -> Result<Vec<Vec<String>>, Skip> {
    let mut command = Command::new(program);
    let output = command
        .args(["script", "--no-inline", "-F", "ip,sym", "-i"])
        .arg(file)
        .env("LC_ALL", "C.UTF-8")
        .output();
    let text = done(&output.expect("it starts"), "script")?;
    let blocks = text.split("\n\n").map(|block| {
        let names = block.lines().filter(|line| !line.trim().is_empty());
        names.map(|line| line.split_whitespace().nth(1).unwrap_or_default().to_owned()).collect::<Vec<_>>()
    });
    Ok(blocks.filter(|chain| !chain.is_empty()).collect())
}

/// Where threads begin.
const ROOTS: [&str; 6] = ["_start", "clone3", "__clone3", "clone", "__clone", "_dl_start_user"];

/// Whether the frames from the root on begin with one, or, where the C library has no names for its own, with those that it
/// calls a thread's function from.
fn begins<'a>(mut frames: impl Iterator<Item = &'a str>) -> bool {
    let root = frames.next().unwrap_or_default();
    ROOTS.contains(&root) || frames.nth(1).is_some_and(|function| function.ends_with("thread_start"))
}

/// Stacks reach their roots, and are perf's.
fn compare(file: &Path, unwound_by_perf: bool) -> Outcome {
    let ours = chains(Path::new(env!("CARGO_BIN_EXE_perfuse")), file)?;
    let theirs = chains(&need::perf()?, file)?;
    assert_eq!(ours.len(), theirs.len());
    assert!(ours.len() > 20, "only {} samples", ours.len());
    let reach = |chain: &&Vec<String>| begins(chain.iter().rev().map(String::as_str));
    let reached = ours.iter().filter(reach).count();
    let mut others: BTreeMap<String, usize> = BTreeMap::new();
    for chain in ours.iter().filter(|chain| !reach(chain)) {
        *others.entry(chain.join(" < ")).or_default() += 1;
    }
    assert!(
        (reached + 1) * 100 >= ours.len() * 99,
        "{reached} of {} reach their root: {others:#?}",
        ours.len()
    );
    // perf does not unwind all; where it does, the stacks are the same.
    let whole: Vec<_> = ours.iter().zip(&theirs).filter(|(_, theirs)| reach(theirs)).collect();
    let same = whole.iter().filter(|(ours, theirs)| ours == theirs).count();
    let other = whole.iter().find(|(ours, theirs)| ours != theirs);
    assert!((same + 1) * 100 >= whole.len() * 99, "{same} of {} are perf's; not: {other:#?}", whole.len());
    assert!(
        !unwound_by_perf || whole.len() * 2 > ours.len(),
        "perf unwound {} of {}",
        whole.len(),
        ours.len()
    );
    let folded = exported(file)?;
    let lines = folded.lines().filter_map(|line| line.rsplit_once(' '));
    let (mut all, mut rooted) = (0, 0);
    for (stack, count) in lines {
        let count: usize = count.parse().expect("a count");
        all += count;
        // The first is the program.
        rooted += if begins(stack.split(';').skip(1)) { count } else { 0 };
    }
    assert!(all > 0 && (rooted + 1) * 100 >= all * 98, "{rooted} of {all} in {folded}");
    fs::remove_dir_all(file.parent().expect("a folder")).expect("the test's files");
    Ok(())
}

/// Folded stacks.
fn exported(file: &Path) -> Result<String, Skip> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perfuse"));
    let command = command.args(["export", "-f", "folded", "-i"]).arg(file).env("PERFUSE_CONFIG", "");
    done(&command.output().expect("it starts"), "export")
}

/// A recording of a program that is in a folder, made by perfuse.
fn recorded_here(folder: &Path, how: &str, options: &[&str]) -> Result<PathBuf, Skip> {
    let file = folder.join(how);
    let mut command = Command::new(env!("CARGO_BIN_EXE_perfuse"));
    command.args(["record", "-e", "cpu-clock:u", "-F", "1999", "--call-graph", how, "-o", how]);
    command.args(options).arg("./program").env("PERFUSE_CONFIG", "").current_dir(folder);
    let output = command.output().expect("it starts");
    done(&output, "events")?;
    if how == "unwound" {
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains("stacks incomplete"), "{told}");
    }
    Ok(file)
}

/// Callchains that were unwound while recording reach their roots, and are those that are unwound of copies; perf finds the same in
/// a file that is much smaller.
fn as_of_copies(folder: &Path, options: &[&str]) -> Outcome {
    let program = Path::new(env!("CARGO_BIN_EXE_perfuse"));
    let (unwound, copied) =
        (recorded_here(folder, "unwound", options)?, recorded_here(folder, "dwarf", options)?);
    let (ours, others) = (chains(program, &unwound)?, chains(program, &copied)?);
    assert!(ours.len() > 20 && others.len() > 20, "only {} and {} samples", ours.len(), others.len());
    let reach = |chain: &&Vec<String>| begins(chain.iter().rev().map(String::as_str));
    let reached = ours.iter().filter(reach).count();
    let other = ours.iter().find(|chain| !reach(chain));
    assert!((reached + 1) * 100 >= ours.len() * 99, "{reached} of {}, not {other:?}", ours.len());
    // Two runs are sampled at different moments: what makes up much of one is in the other.
    let mut shares: BTreeMap<&[String], f64> = BTreeMap::new();
    for chain in &ours {
        *shares.entry(chain).or_default() += 1.0 / ours.len() as f64;
    }
    for (chain, share) in shares.into_iter().filter(|(_, share)| *share > 0.15) {
        assert!(
            others.iter().any(|other| other == chain),
            "{share:.2} is {chain:?}, which copies do not show"
        );
    }
    let sizes = [&unwound, &copied].map(|file| fs::metadata(file).expect("a file").len());
    let samples = ours.len() as u64;
    // A file has a beginning too, which short recordings have little beside.
    assert!(sizes[0].saturating_sub(16 << 10) * 10 < sizes[1], "{sizes:?} bytes of {samples} samples");
    if let Ok(perf) = need::perf() {
        let theirs = chains(&perf, &unwound)?;
        let same = ours.iter().zip(&theirs).filter(|(ours, theirs)| ours == theirs).count();
        let other = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
        assert_eq!(ours.len(), theirs.len());
        assert!((same + 1) * 100 >= ours.len() * 99, "{same} of {} are perf's; not: {other:#?}", ours.len());
    }
    fs::remove_dir_all(folder).expect("the test's files");
    Ok(())
}

fn c_unwound_while_recording() -> Outcome {
    need::events()?;
    let options = ["-O2", "-fomit-frame-pointer", "-DROUNDS=3000"];
    as_of_copies(&compiled("c-unwound", ("gcc", "a.c", C), &options)?, &[])
}

fn rust_unwound_while_recording() -> Outcome {
    need::events()?;
    as_of_copies(&compiled("rust-unwound", ("rustc", "program.rs", RUST), &["-O", "-g"])?, &[])
}

fn unwound_by_the_embedded_kernel() -> Outcome {
    let options = ["-O2", "-fomit-frame-pointer", "-DROUNDS=10000"];
    let folder = compiled("embedded-unwound", ("gcc", "a.c", C), &options)?;
    as_of_copies(&folder, &["--kernel", "embedded"])
}

/// By what the code is going to do.
fn c_without_tables_and_frame_pointers() -> Outcome {
    if !cfg!(target_arch = "x86_64") {
        return Err(Skip::needs("x86-64", "code of other architectures is not followed"));
    }
    let options = [
        "-O2",
        "-fomit-frame-pointer",
        "-fno-asynchronous-unwind-tables",
        "-fno-unwind-tables",
        "-DROUNDS=3000",
    ];
    as_of_copies(&compiled("c-code", ("gcc", "a.c", C), &options)?, &[])
}

/// The frames of Python's functions are code that is made at run time, without tables and frame pointers.
fn python_with_trampolines() -> Outcome {
    need::events()?;
    if !cfg!(target_arch = "x86_64") {
        return Err(Skip::needs("x86-64", "code of other architectures is not followed"));
    }
    let folder = scratch("python");
    let program = "def leaf(n):\n s = 0\n for i in range(n): s += i * 7\n return s\ndef outer(n): return leaf(n) + 1\nfor i in range(6000): outer(300)\n";
    fs::write(folder.join("a.py"), program).expect("the program");
    let mut command = Command::new(need::program("python3")?);
    let command =
        command.args(["-X", "perf", "-c", "import sys; sys.exit(not sys.is_stack_trampoline_active())"]);
    done(&command.output().expect("it starts"), "a Python that knows perf")?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_perfuse"));
    command.args([
        "record",
        "-e",
        "cpu-clock:u",
        "-F",
        "999",
        "-g",
        "-o",
        "data",
        "--",
        "python3",
        "-X",
        "perf",
        "a.py",
    ]);
    done(&command.env("PERFUSE_CONFIG", "").current_dir(&folder).output().expect("it starts"), "events")?;
    let all = chains(Path::new(env!("CARGO_BIN_EXE_perfuse")), &folder.join("data"))?;
    let within: Vec<_> =
        all.iter().filter(|chain| chain.iter().any(|name| name.starts_with("py::leaf"))).collect();
    assert!(within.len() > 20, "only {} of {} samples are in leaf", within.len(), all.len());
    let is_whole = |chain: &&&Vec<String>| {
        chain.iter().any(|name| name.starts_with("py::outer"))
            && begins(chain.iter().rev().map(String::as_str))
    };
    let whole = within.iter().filter(is_whole).count();
    let other = within.iter().find(|chain| !is_whole(chain));
    assert!((whole + 1) * 100 >= within.len() * 99, "{whole} of {}; not {other:?}", within.len());
    fs::remove_dir_all(&folder).expect("the test's files");
    Ok(())
}

/// The file is gone before anything is unwound: the process still has it.
fn deleted_while_it_is_recorded() -> Outcome {
    need::events()?;
    const GONE: &str = r#"
#include <unistd.h>
volatile unsigned long sum;
__attribute__((noinline)) void leaf(int n) { for (int i = 0; i < n; i++) sum += i * 7; }
__attribute__((noinline)) void outer(void) { leaf(5000); sum++; }
int main(int c, char **v) { unlink(v[0]); for (int i = 0; i < 100000; i++) outer(); return 0; }
"#;
    let folder = compiled("gone", ("gcc", "a.c", GONE), &["-O2", "-fomit-frame-pointer"])?;
    let file = recorded_here(&folder, "unwound", &[])?;
    let all = chains(Path::new(env!("CARGO_BIN_EXE_perfuse")), &file)?;
    // Nobody knows the names of the program's functions any more; those of the C library's start are below them.
    let whole = all.iter().filter(|chain| chain.iter().any(|name| name.contains("libc_start"))).count();
    assert!(all.len() > 20 && (whole + 1) * 100 >= all.len() * 98, "{whole} of {}", all.len());
    fs::remove_dir_all(&folder).expect("the test's files");
    Ok(())
}

fn c_without_frame_pointers() -> Outcome {
    compare(&recorded("c", ("gcc", "a.c", C), &["-O2", "-fomit-frame-pointer", "-DROUNDS=3000"])?, true)
}

fn cpp_with_callbacks() -> Outcome {
    compare(&recorded("cpp", ("g++", "a.cc", CPP), &["-O2", "-fomit-frame-pointer", "-DROUNDS=800"])?, true)
}

fn rust() -> Outcome {
    compare(&recorded("rust", ("rustc", "program.rs", RUST), &["-O", "-g"])?, true)
}

fn static_program() -> Outcome {
    let options = ["-O2", "-static", "-fomit-frame-pointer", "-DROUNDS=3000"];
    // perf 6.1 wants a table of tables, which static programs lack.
    compare(&recorded("static", ("gcc", "a.c", C), &options)?, false)
}

fn signal_handlers() -> Outcome {
    let options = ["-O2", "-fomit-frame-pointer", "-DROUNDS=300"];
    compare(&recorded("signals", ("gcc", "a.c", SIGNALS), &options)?, true)
}

/// A recording with copies of stacks is sealed, and its program deleted: the callchains stay, and perf finds the same addresses.
fn sealed_and_deleted() -> Outcome {
    let options = ["-O2", "-g", "-fomit-frame-pointer", "-DROUNDS=1500"];
    let file = recorded("sealed", ("cc", "program.c", C), &options)?;
    let folder = file.parent().expect("a folder").to_owned();
    let ours = Path::new(env!("CARGO_BIN_EXE_perfuse"));
    let whole = chains(ours, &file)?;
    let sealed = folder.join("sealed");
    let mut command = Command::new(ours);
    let command = command.arg("seal").arg("-i").arg(&file).arg("-o").arg(&sealed).env("PERFUSE_CONFIG", "");
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let size = |file: &Path| fs::metadata(file).expect("a file").len();
    assert!(size(&sealed) * 10 < size(&file), "{} of {} bytes", size(&sealed), size(&file));
    fs::remove_file(folder.join("program")).expect("it was there");
    let empty = folder.join("home");
    let told = |program: &Path, fields: &str| {
        let mut command = Command::new(program);
        command.args(["script", "--no-inline", "-F", fields, "-i"]).arg(&sealed).env("HOME", &empty);
        done(&command.output().expect("it starts"), "script")
    };
    assert_eq!(chains(ours, &sealed)?, whole);
    assert!(whole.iter().any(|chain| chain.iter().any(|name| name == "leaf")));
    let addresses = |text: String| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
    assert_eq!(addresses(told(&need::perf()?, "ip")?), addresses(told(ours, "ip")?));
    fs::remove_dir_all(&folder).expect("the test's files");
    Ok(())
}
