//! Waiting for what another process does, however long a busy machine takes: no test sleeps and hopes.

use std::time::{Duration, Instant};

/// Far more than anything takes.
const MOST: Duration = Duration::from_secs(60);

/// Waits until it holds; panics with `what` if it never does.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < MOST, "{what}: not within {MOST:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until a process has a child of its own that runs this program.
pub fn until_runs(parent: u32, name: &str) {
    let children = format!("/proc/{parent}/task/{parent}/children");
    let runs = |pid: &str| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name)
    };
    until(&format!("{name} runs"), || {
        std::fs::read_to_string(&children).unwrap_or_default().split_whitespace().any(runs)
    });
}

/// Waits until a process catches, blocks or ignores a signal: it will not be killed by it.
pub fn until_heeded(pid: u32, signal: libc::c_int) {
    let heeds = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().filter_map(|line| line.split_once(":\t")).any(|(name, mask)| {
            let mask = u64::from_str_radix(mask, 16).unwrap_or(0);
            ["SigBlk", "SigIgn", "SigCgt"].contains(&name) && mask & 1 << (signal - 1) != 0
        })
    };
    until(&format!("process {pid} heeds signal {signal}"), heeds);
}
