//! Callers of another width than this program: 32-bit programs, and 64-bit ones that make calls as those do.

use super::play;
use perfuse_testkit::{Outcome, Sandbox, Skip, need};
use std::path::PathBuf;
use std::process::Command;

/// A compiled program, removed on drop.
struct Program(PathBuf);

impl Program {
    /// `width`: the compiler's option for it.
    fn new(width: &str) -> Result<Self, Skip> {
        if !cfg!(target_arch = "x86_64") {
            return Err(Skip::needs("x86-64", "narrow calls are not served on this architecture"));
        }
        let cc = need::program("cc")?;
        let path = std::env::temp_dir().join(format!("perfuse-narrow{width}-{}", std::process::id()));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hosted/narrow.c");
        let options =
            [width, "-O1", "-nostdlib", "-static", "-fno-pie", "-no-pie", "-fno-stack-protector", "-o"];
        let compiled = Command::new(cc).args(options).arg(&path).arg(source).output();
        match compiled {
            Ok(done) if done.status.success() => Ok(Program(path)),
            done => Err(Skip::needs(&format!("a C compiler that knows {width}"), format_args!("{done:?}"))),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn compare(width: &str) -> Outcome {
    perfuse_sys::perf_event_open_is_reachable().map_err(|error| Skip::needs("perf_event_open(2)", error))?;
    let program = Program::new(width)?;
    let linux = match Sandbox::new().command(&program.0).output() {
        Ok(linux) if linux.status.success() => linux,
        none => return Err(Skip::needs("IA32 emulation (CONFIG_IA32_EMULATION)", format_args!("{none:?}"))),
    };
    for sandbox in [Sandbox::new(), Sandbox::new().refusing_perf_event_open(libc::EPERM)] {
        let ours = play(sandbox, "serve", &program.0.display().to_string());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(text(&linux.stdout), text(&ours.stdout), "on Linux (left) and hosted, {sandbox:?}");
        assert_eq!((ours.status.code(), text(&ours.stderr)), (Some(0), String::new()));
    }
    Ok(())
}

pub(crate) fn a_narrow_program() -> Outcome {
    compare("-m32")
}

pub(crate) fn narrow_calls_of_a_wide_program() -> Outcome {
    compare("-m64")
}
