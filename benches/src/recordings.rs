//! Recordings that are large enough to tell readers of them apart: of a program with as many distinct callchains as it
//! can have, made by the program under test, and kept for the next time.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A recording: its name, what is recorded with it, how many page faults, and the mean depth of their callchains.
type Recording = (&'static str, &'static [&'static str], u64, u32);

/// 110 MB with half a million distinct callchains; 80 MB without any; 1 GB with four million.
const RECORDINGS: [Recording; 3] =
    [("fp100", &["-g"], 970_000, 5), ("flat100", &[], 2_600_000, 5), ("fp1000", &["-g"], 7_000_000, 9)];

/// The recordings that `PERFUSE_BENCH_REPORT` names, separated by `:`; else those above, made where they are not there
/// yet: in `PERFUSE_BENCH_DIR`, or the directory for temporary files. Recordings
/// that cannot be made are named and left out.
pub fn all(perfuse: &Path) -> Vec<PathBuf> {
    if let Ok(given) = std::env::var("PERFUSE_BENCH_REPORT") {
        return given.split(':').filter(|file| !file.is_empty()).map(PathBuf::from).collect();
    }
    let directory = std::env::var_os("PERFUSE_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let program = directory.join("perfuse-bench-stacks");
    if let Err(error) = compile(&program) {
        println!("recordings: none made: {error}\n");
        return Vec::new();
    }
    let mut files = Vec::new();
    for (name, options, faults, depth) in RECORDINGS {
        let file = directory.join(format!("perfuse-bench-{name}.data"));
        match file.exists() || record(perfuse, &file, options, &program, faults, depth) {
            true => files.push(file),
            false => println!("recordings: {name} cannot be recorded here\n"),
        }
    }
    files
}

/// Frame pointers are asked for: without them there are no callchains.
fn compile(program: &Path) -> Result<(), String> {
    let source = program.with_extension("c");
    std::fs::write(&source, include_str!("stacks.c")).map_err(|error| error.to_string())?;
    let mut command = Command::new("cc");
    command.args(["-O1", "-fno-omit-frame-pointer", "-pthread", "-o"]).arg(program).arg(&source);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cc: {status}")),
        Err(error) => Err(format!("cc: {error}")),
    }
}

fn record(perfuse: &Path, file: &Path, options: &[&str], program: &Path, faults: u64, depth: u32) -> bool {
    let mut command = Command::new(perfuse);
    command.args(["record", "-q", "-N", "-e", "page-faults", "-c", "1", "-m", "4096", "-o"]).arg(file);
    command.args(options).arg("--").arg(program).arg(faults.to_string()).arg(depth.to_string());
    let done = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let done = done.is_ok_and(|status| status.success());
    if !done {
        // Half a recording would be taken for a whole one the next time.
        let _ = std::fs::remove_file(file);
    }
    done
}
