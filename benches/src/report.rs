//! `perfuse report` and `perfuse script` against perf's: cpu time, time and peak memory of the whole process, and the
//! time also against reading the bytes of the file once more, beside the ratio and the memory that a gigabyte should take.
//!
//! The program is what `PERFUSE_BENCH_BIN` names, else `target/release/perfuse`. A run that takes longer
//! than `PERFUSE_BENCH_PATIENCE` seconds (120) is stopped, and told as that.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The cost of a run.
#[derive(Clone, Copy)]
struct Cost {
    /// Of all its threads, user and kernel, in seconds. Other load of the machine changes it least.
    cpu: f64,
    /// From start to exit, in seconds.
    time: f64,
    peak_mb: f64,
}

/// Options, and what the time should be against reading the file, on two processors.
type Case = (&'static [&'static str], Option<f64>);

/// Of a report of a gigabyte, which follows the distinct callchains.
const AIM_MB: f64 = 256.0;

/// Bench `report`: with call trees as perf has them by default, without callers, and flat.
pub fn all() {
    each(
        "report",
        &[
            (&["--stdio"], Some(12.0)),
            (&["--stdio", "--no-children"], Some(8.0)),
            (&["--stdio", "--no-children", "-g", "none"], Some(3.0)),
        ],
    );
}

/// Bench `script`: all lines, to nowhere; with callchains and without.
pub fn script() {
    each("script", &[(&[], None), (&["-G"], None)]);
}

fn each(subcommand: &str, cases: &[Case]) {
    let program = std::env::var_os("PERFUSE_BENCH_BIN").map(PathBuf::from);
    let program = program.unwrap_or_else(|| "target/release/perfuse".into());
    let patience = std::env::var("PERFUSE_BENCH_PATIENCE").ok().and_then(|text| text.parse().ok());
    let patience = Duration::from_secs(patience.unwrap_or(120));
    for file in crate::recordings::all(&program) {
        for &case in cases {
            compare(&program, subcommand, &file, case, patience);
        }
    }
}

fn compare(program: &Path, subcommand: &str, file: &Path, (options, aim): Case, patience: Duration) {
    println!("{subcommand} {} {}", file.display(), options.join(" "));
    // The first time brings it into memory.
    let (_, (read, size)) = (read(file), read(file));
    println!("  read {:>6} MB {:>33.3} s", size / 1_000_000, read);
    let ours = best((0..3).map(|_| run(program, subcommand, file, options, patience)));
    let extra = [options, &["--no-inline"]].concat();
    let theirs = run(Path::new("perf"), subcommand, file, &extra, patience);
    if let (Some(aim), Some(cost)) = (aim, ours) {
        let is_met = cost.time <= aim * read && cost.peak_mb <= AIM_MB;
        let met = if is_met { "met" } else { "missed" };
        println!("  aim {:>36} MB {aim:>8.1} x reading: {met}", AIM_MB);
    }
    for (name, cost) in [("perfuse", ours), ("perf", theirs)] {
        match cost {
            Some(Cost { cpu, time, peak_mb }) => {
                let times = time / read;
                println!(
                    "  {name:<10} cpu {cpu:>7.2} s {time:>8.2} s {peak_mb:>8.0} MB {times:>8.1} x reading"
                );
            }
            None => println!("  {name:<10} more than {} s", patience.as_secs()),
        }
    }
    if let (Some(ours), Some(theirs)) = (ours, theirs) {
        let [cpu, time] = [theirs.cpu / ours.cpu, theirs.time / ours.time];
        println!(
            "  perf / perfuse: cpu {cpu:.1} x, time {time:.1} x, memory {:.1} x",
            theirs.peak_mb / ours.peak_mb
        );
    }
    println!();
}

/// How long it takes to read the bytes of a file, in seconds, and how many there are.
fn read(file: &Path) -> (f64, u64) {
    let start = Instant::now();
    let mut bytes = vec![0; 1 << 18];
    let mut size = 0;
    if let Ok(mut file) = std::fs::File::open(file) {
        while let Ok(count @ 1..) = file.read(&mut bytes) {
            size += count as u64;
        }
    }
    (start.elapsed().as_secs_f64(), size)
}

/// The run with the least cpu time.
fn best(costs: impl Iterator<Item = Option<Cost>>) -> Option<Cost> {
    costs.flatten().min_by(|one, other| one.cpu.total_cmp(&other.cpu))
}

fn run(program: &Path, subcommand: &str, file: &Path, options: &[&str], patience: Duration) -> Option<Cost> {
    let mut command = Command::new(program);
    command.args([subcommand, "-i"]).arg(file).args(options);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let before = crate::record::cpu_ns(libc::RUSAGE_CHILDREN);
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
    let cpu = (crate::record::cpu_ns(libc::RUSAGE_CHILDREN) - before) as f64 / 1e9;
    Some(Cost { cpu, time: start.elapsed().as_secs_f64(), peak_mb: peak_kib as f64 / 1024.0 })
}

/// The most memory that a running process had so far, in KiB.
fn peak_of(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}
