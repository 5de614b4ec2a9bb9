//! The time that counting adds to a command: whole processes, from start to exit, around `true`.

use crate::measure::{Contestant, compare};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// `true` alone, under `perfuse stat` and under `perf stat`.
pub fn whole_process() {
    let perfuse = perfuse();
    // Kept open so that no run pays for patching kernel code at the first event of a kind.
    let _kept: Vec<_> = [perfuse::abi::Software::PAGE_FAULTS, perfuse::abi::Software::CONTEXT_SWITCHES]
        .map(|event| perfuse::Counter::new(event).ok())
        .into_iter()
        .collect();
    let run = |program: &str, arguments: &[&str]| {
        let (program, arguments) =
            (program.to_owned(), arguments.iter().map(|&a| a.to_owned()).collect::<Vec<_>>());
        move || -> f64 {
            let start = Instant::now();
            let status =
                Command::new(&program).args(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
            assert!(status.expect("the program runs").success());
            start.elapsed().as_nanos() as f64
        }
    };
    let mut contestants = vec![
        Contestant::timed("true", run("true", &[])),
        Contestant::timed("perfuse stat true", run(&perfuse, &["stat", "--", "true"])),
    ];
    if Command::new("perf").arg("--version").stdout(Stdio::null()).status().is_ok() {
        contestants.push(Contestant::timed("perf stat true", run("perf", &["stat", "--", "true"])));
    } else {
        println!("skipped: perf stat true: no perf on the PATH");
    }
    compare("a whole command", 101, contestants);
}

/// Builds the program, and says where it is; `PERFUSE_BENCH_BIN` names one that is there.
pub fn perfuse() -> String {
    if let Ok(program) = std::env::var("PERFUSE_BENCH_BIN") {
        return program;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let built = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["build", "--release", "--package", "perfuse-cli", "--message-format=json"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo runs");
    assert!(built.status.success(), "perfuse builds");
    let messages = String::from_utf8_lossy(&built.stdout).into_owned();
    messages
        .split("\"executable\":\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .find(|path| path.ends_with("/perfuse"))
        .expect("cargo names the program")
        .to_owned()
}
