//! `perfuse report` and `perfuse script` against perf's: time and peak memory of the whole process, as ratios to reading
//! the bytes of the file (time) and to perf (both).
//!
//! The program is what `PERFUSE_BENCH_BIN` names, else `target/release/perfuse`; the recordings are what
//! `PERFUSE_BENCH_REPORT` names, separated by `:`, of which none means that nothing is measured. What takes
//! longer than `PERFUSE_BENCH_PATIENCE` seconds (120) is stopped, and told as that.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Seconds and MB of a run; `None` if it was stopped.
type Cost = Option<(f64, f64)>;

/// Bench `report`: with call trees as perf has them by default, without callers, and flat.
pub fn all() {
    each(
        "report",
        &[&["--stdio"][..], &["--stdio", "--no-children"], &["--stdio", "--no-children", "-g", "none"]],
    );
}

/// Bench `script`: all lines, to nowhere; with callchains and without.
pub fn script() {
    each("script", &[&[][..], &["-G"]]);
}

fn each(subcommand: &str, all_options: &[&[&str]]) {
    let program = std::env::var_os("PERFUSE_BENCH_BIN").map(PathBuf::from);
    let program = program.unwrap_or_else(|| "target/release/perfuse".into());
    let files = std::env::var("PERFUSE_BENCH_REPORT").unwrap_or_default();
    let patience = std::env::var("PERFUSE_BENCH_PATIENCE").ok().and_then(|text| text.parse().ok());
    let patience = Duration::from_secs(patience.unwrap_or(120));
    for file in files.split(':').filter(|file| !file.is_empty()) {
        for options in all_options {
            compare(&program, subcommand, Path::new(file), options, patience);
        }
    }
}

fn compare(program: &Path, subcommand: &str, file: &Path, options: &[&str], patience: Duration) {
    println!("{subcommand} {} {}", file.display(), options.join(" "));
    let start = Instant::now();
    let size = std::fs::File::open(file).and_then(|mut file| std::io::copy(&mut file, &mut std::io::sink()));
    let (read, size) = (start.elapsed().as_secs_f64(), size.unwrap_or(0));
    println!("  read {:>6} MB {:>33.3} s", size / 1_000_000, read);
    let ours = best((0..3).map(|_| run(program, subcommand, file, options, patience)));
    let extra = [options, &["--no-inline"]].concat();
    let theirs = run(Path::new("perf"), subcommand, file, &extra, patience);
    for (name, cost) in [("perfuse", ours), ("perf", theirs)] {
        match cost {
            Some((time, memory)) => {
                println!("  {name:<10} {time:>8.2} s {memory:>8.0} MB {:>8.1} x reading", time / read);
            }
            None => println!("  {name:<10} more than {} s", patience.as_secs()),
        }
    }
    if let (Some((time, memory)), Some((their_time, their_memory))) = (ours, theirs) {
        println!("  perf / perfuse: time {:.1} x, memory {:.1} x", their_time / time, their_memory / memory);
    }
    println!();
}

/// The fastest run.
fn best(costs: impl Iterator<Item = Cost>) -> Cost {
    costs.flatten().min_by(|one, other| one.0.total_cmp(&other.0))
}

fn run(program: &Path, subcommand: &str, file: &Path, options: &[&str], patience: Duration) -> Cost {
    let mut command = Command::new(program);
    command.args([subcommand, "-i"]).arg(file).args(options);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let mut child = command.spawn().ok()?;
    let mut peak_kib = 0;
    loop {
        peak_kib = peak_kib.max(peak_of(&child));
        match child.try_wait() {
            Ok(Some(status)) if status.success() => break,
            Ok(None) if start.elapsed() < patience => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
    Some((start.elapsed().as_secs_f64(), peak_kib as f64 / 1024.0))
}

/// The most memory that a running process had so far, in KiB.
fn peak_of(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}
