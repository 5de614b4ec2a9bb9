//! The time from pressing return to the answer, where there is next to nothing to do: `perfuse stat true` next to the least
//! that a C program does for the same counts (`start.c`), `perfuse --version` next to an empty Rust program, one run of many, and
//! the cpu time of `report` and `script` of a small recording. Peers are perf and hyperfine, where they are installed.

use crate::measure::{Contestant, compare};
use crate::record::cpu_ns;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// How often each takes its turn.
const ROUNDS: usize = 101;
/// Runs of one process, for the cost of one.
const RUNS: u32 = 50;

/// The folder of programs and recordings, which is gone with this.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Bench `start`.
pub fn all() {
    let perfuse = crate::stat::perfuse();
    let folder = Folder(std::env::temp_dir().join(format!("perfuse-bench-start-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0).expect("a folder for what is built");
    let floor = built(&folder.0, "start.c", include_str!("start.c"), "cc", &["-O2", "-o"]);
    let empty = built(&folder.0, "empty.rs", "fn main() {}", "rustc", &["-Copt-level=3", "-o"]);
    let recording = folder.0.join("small.data");
    let small = recording.to_str().expect("names of temporary folders are UTF-8");
    let has = |program: &&str| runs(program, &["--version"]);

    compare(
        "a version",
        ROUNDS,
        vec![
            timed("an empty Rust program", &empty, &[], 1),
            timed("perfuse --version", &perfuse, &["--version"], 1),
        ],
    );

    let mut all = vec![
        timed("a minimal C program", &floor, &["true"], 1),
        timed("perfuse stat true", &perfuse, &["stat", "--", "true"], 1),
        timed("perfuse stat true, without hardware", &perfuse, &["stat", "-e", SOFTWARE, "--", "true"], 1),
    ];
    let of_perf =
        Some("perf").filter(has).map(|perf| timed("perf stat true", perf, &["stat", "--", "true"], 1));
    all.extend(of_perf);
    compare("counts of one command", ROUNDS, all);

    let many = RUNS.to_string();
    let mut all = vec![
        timed("a minimal C program", &floor, &["true"], 1),
        timed("of perfuse stat -r", &perfuse, &["stat", "-r", &many, "--", "true"], RUNS),
        timed("of perfuse compare", &perfuse, &["compare", "-w", "0", "-r", &many, "true", "true"], 2 * RUNS),
    ];
    let words = ["-N", "--warmup", "0", "--runs", &many, "true", "true"];
    all.extend(Some("hyperfine").filter(has).map(|name| timed("of hyperfine", name, &words, 2 * RUNS)));
    compare("one run of many", ROUNDS / 10, all);

    // As much kernel as user space: its symbols are wanted.
    assert!(runs(
        &perfuse,
        &["record", "-q", "-o", small, "--", "dd", "if=/dev/zero", "of=/dev/null", "bs=512", "count=200000"]
    ));
    let of = |name, program: &str, words: &[&str]| of_cpu(name, program, &[words, &["-i", small]].concat());
    let mut all =
        vec![of("perfuse report", &perfuse, &["report"]), of("perfuse script", &perfuse, &["script"])];
    if has(&"perf") {
        all.push(of("perf report", "perf", &["report", "--stdio"]));
        all.push(of("perf script", "perf", &["script"]));
    }
    compare("cpu time for a small recording", ROUNDS / 5, all);
}

/// The default events that every machine has.
const SOFTWARE: &str = "task-clock,context-switches,cpu-migrations,page-faults";

/// Compiles a program. Who has no compilers cannot have built this one.
fn built(folder: &Path, name: &str, text: &str, compiler: &str, options: &[&str]) -> String {
    let source = folder.join(name);
    let program = source.with_extension("");
    std::fs::write(&source, text).expect("the folder can be written");
    let done = Command::new(compiler).args(options).arg(&program).arg(&source).status();
    assert!(done.is_ok_and(|status| status.success()), "{compiler} compiles {name}");
    program.to_str().expect("names of temporary folders are UTF-8").to_owned()
}

/// Runs a program, silently; whether it succeeds.
fn runs(program: &str, words: &[&str]) -> bool {
    let silent = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    silent.is_ok_and(|status| status.success())
}

/// The time of a whole process, in which `count` runs take place, for each of them.
fn timed<'a>(name: &'static str, program: &str, words: &[&str], count: u32) -> Contestant<'a> {
    let run = turn(program, words);
    Contestant::timed(name, move || {
        let start = Instant::now();
        run();
        start.elapsed().as_nanos() as f64 / f64::from(count)
    })
}

/// The cpu time of a whole process.
fn of_cpu<'a>(name: &'static str, program: &str, words: &[&str]) -> Contestant<'a> {
    let run = turn(program, words);
    Contestant::timed(name, move || {
        let before = cpu_ns(libc::RUSAGE_CHILDREN);
        run();
        (cpu_ns(libc::RUSAGE_CHILDREN) - before) as f64
    })
}

fn turn(program: &str, words: &[&str]) -> impl Fn() + use<> {
    let (program, words) =
        (program.to_owned(), words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
    move || {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert!(runs(&program, &words), "{program} {words:?} succeeds");
    }
}
