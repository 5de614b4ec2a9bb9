//! Linux and the engine, asked the same: sequences of calls are made on the running kernel and on the
//! engine, and every answer must be the same. Where the two differ, Linux is right.
//!
//! The calls are drawn by a generator with a fixed seed, so a failure can be played again:
//! `PERFUSE_SEED=n` plays only the sequence n; `PERFUSE_FIRST_SEED=n PERFUSE_SEEDS=m` plays m from n on.

mod call;
mod calls;
mod counts;
#[path = "../shared/draw.rs"]
mod draw;
#[path = "../shared/image.rs"]
mod image;
#[path = "../shared/machine.rs"]
mod machine;
mod mappings;
mod pair;
mod program;
#[path = "../shared/random.rs"]
mod random;
mod records;

use perfuse_testkit::{Outcome, Sandbox, Skip, need, suite};

suite! {
    witnesses:
        calls_of_root_are_answered_alike,
        calls_of_others_are_answered_alike,
        hits_are_counted_and_recorded_alike,
        hits_of_others_are_counted_and_recorded_alike,
        records_say_the_same,
        mappings_and_faults_are_told_alike;
}

fn calls_of_root_are_answered_alike() -> Outcome {
    need::root()?;
    of_linux_6_18()?;
    need::no_hardware_pmu()?;
    calls::compare(true)
}

fn calls_of_others_are_answered_alike() -> Outcome {
    of_linux_6_18()?;
    need::no_hardware_pmu()?;
    Sandbox::new().unprivileged().within("calls_of_others_are_answered_alike", || calls::compare(false))
}

fn hits_are_counted_and_recorded_alike() -> Outcome {
    need::root()?;
    of_linux_6_18()?;
    counts::compare(true)
}

fn hits_of_others_are_counted_and_recorded_alike() -> Outcome {
    of_linux_6_18()?;
    let test = "hits_of_others_are_counted_and_recorded_alike";
    Sandbox::new().unprivileged().within(test, || counts::compare(false))
}

fn records_say_the_same() -> Outcome {
    need::root()?;
    // Tracepoints write the numbers that processes have there.
    need::first_pid_namespace()?;
    of_linux_6_18()?;
    records::compare()
}

fn mappings_and_faults_are_told_alike() -> Outcome {
    need::root()?;
    of_linux_6_18()?;
    mappings::compare()
}

/// The engine is that of Linux 6.18, and settings are taken to be the defaults.
fn of_linux_6_18() -> Result<(), Skip> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if !release.starts_with("6.18.") {
        return Err(Skip::needs("Linux 6.18", release.trim()));
    }
    match need::sysctl("kernel/perf_event_paranoid")? {
        2 => Ok(()),
        other => Err(Skip::needs("kernel.perf_event_paranoid = 2", other)),
    }
}
