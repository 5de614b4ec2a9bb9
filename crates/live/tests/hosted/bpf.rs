//! Programs that use `bpf(2)` by hand, in C: what they write is the same on Linux, as root, and hosted, as root, as a user without any
//! right, and where a filter refuses `perf_event_open(2)`.

use super::{play, play_with};
use perfuse_testkit::{Outcome, OwnCgroup, Sandbox, Skip, need};
use std::path::PathBuf;
use std::process::Command;

/// A compiled program, removed on drop.
struct Program(PathBuf);

impl Program {
    fn new(name: &str) -> Result<Self, Skip> {
        let cc = need::program("cc")?;
        let path = std::env::temp_dir().join(format!("perfuse-bpf-{name}-{}", std::process::id()));
        let source = format!("{}/tests/hosted/bpf/{name}.c", env!("CARGO_MANIFEST_DIR"));
        // Functions have frames, which stacks are found by.
        let compiled = Command::new(cc).args(["-O0", "-w", "-pthread", "-o"]).arg(&path).arg(source).output();
        match compiled {
            Ok(done) if done.status.success() => Ok(Program(path)),
            done => Err(Skip::needs("a C compiler that knows <linux/bpf.h>", format_args!("{done:?}"))),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn compare(name: &str) -> Outcome {
    let all = [
        Sandbox::new(),
        Sandbox::new().unprivileged(),
        Sandbox::new().refusing_perf_event_open(libc::EPERM),
        Sandbox::new().unprivileged().refusing_perf_event_open(libc::EPERM),
    ];
    compare_in(name, &all)
}

fn compare_in(name: &str, sandboxes: &[Sandbox]) -> Outcome {
    need::root()?;
    if !cfg!(target_arch = "x86_64") {
        return Err(Skip::needs("x86-64", "the programs name its registers"));
    }
    perfuse_sys::perf_event_open_is_reachable().map_err(|error| Skip::needs("perf_event_open(2)", error))?;
    if let Err(errno) = perfuse_sys::bpf::Map::create([2, 4, 8, 1, 0]) {
        return Err(Skip::needs("bpf(2)", format_args!("{errno:?}")));
    }
    let program = Program::new(name)?;
    let linux = Sandbox::new().command(&program.0).output().expect("the program runs");
    assert!(linux.status.success() && !linux.stdout.is_empty(), "on Linux: {linux:?}");
    for &sandbox in sandboxes {
        let ours = play(sandbox, "serve", &program.0.display().to_string());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (left, right) = (text(&linux.stdout), text(&ours.stdout));
        if let Some((line, (left, right))) =
            left.lines().zip(right.lines()).enumerate().find(|(_, (left, right))| left != right)
        {
            panic!("line {}: on Linux '{left}', hosted '{right}', {sandbox:?}", line + 1);
        }
        assert_eq!(left, right, "on Linux (left) and hosted, {sandbox:?}: {}", text(&ours.stderr));
        assert_eq!(ours.status.code(), Some(0), "{ours:?}");
    }
    Ok(())
}

pub(crate) fn calls_of_bpf_are_answered_alike() -> Outcome {
    compare("calls")
}

pub(crate) fn programs_on_overflows_do_the_same() -> Outcome {
    compare("events")
}

pub(crate) fn programs_on_probes_and_their_memory_do_the_same() -> Outcome {
    compare("probes")
}

pub(crate) fn programs_are_loaded_and_run_alike() -> Outcome {
    compare("loads")
}

pub(crate) fn cgroups_are_known_alike() -> Outcome {
    // The program makes another.
    OwnCgroup::new("bpf")?;
    compare_in("cgroups", &[Sandbox::new(), Sandbox::new().refusing_perf_event_open(libc::EPERM)])
}

pub(crate) fn programs_at_clocks_of_cpus_do_the_same() -> Outcome {
    compare("clocks")
}

pub(crate) fn programs_run_though_their_tracepoint_is_off() -> Outcome {
    need::tracefs()?;
    compare_in("off", &[Sandbox::new(), Sandbox::new().refusing_perf_event_open(libc::EPERM)])
}

pub(crate) fn programs_of_a_user_see_no_calls_of_others() -> Outcome {
    need::root()?;
    need::tracefs()?;
    if !cfg!(target_arch = "x86_64") {
        return Err(Skip::needs("x86-64", "the programs name its registers"));
    }
    let program = Program::new("off")?;
    let output = play_with(Sandbox::new(), &["serve", &program.0.display().to_string(), "user"]);
    let told = |name: &str| format!("{name}: ok ok ok\na user's: 2 runs\n");
    let told = ["sys_enter", "sys_exit", "sys_enter"].map(told).concat();
    let told = told + "probe: ok ok ok\na user's: 5 runs\nits own: 5\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), told, "{output:?}");
    Ok(())
}

/// Each line is an answer of Linux; that the last one comes is what matters.
const SURVIVED: &str = "\
an endless loop: errno 22
a number as a pointer: errno 13
above the stack: errno 13
far below it: errno 13
too long: errno 7
a jungle: errno 22
loops in loops: ok
attached: ok
it goes on: 2
at a clock: ok ok
beside it: 1
maps: 1, errno 12
one of 4 GB: errno 12
again: ok
for ever: errno 4
in one go: errno 4
attached: 300
calls by chance are over
a map still works: 2
";

pub(crate) fn drawn_calls_of_bpf_are_answered_alike() -> Outcome {
    compare("drawn")
}

pub(crate) fn hostile_programs_are_stopped() -> Outcome {
    if !cfg!(target_arch = "x86_64") {
        return Err(Skip::needs("x86-64", "the programs name its registers"));
    }
    let program = Program::new("hostile")?;
    for sandbox in [Sandbox::new(), Sandbox::new().unprivileged()] {
        let output = play(sandbox, "serve", &program.0.display().to_string());
        assert_eq!(String::from_utf8_lossy(&output.stdout), SURVIVED, "{output:?}");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let told = String::from_utf8_lossy(&output.stderr);
        let of_faults = told.lines().filter(|line| line.contains("was ended, with the result 0"));
        assert_eq!(of_faults.count(), 1, "{told}");
    }
    Ok(())
}
