//! Linux's perf as a witness. It has faults of its own: perf 6.1 dies now and then of a failed assertion,
//! mostly on a busy machine, and what it leaves then says nothing about perfuse.

use crate::{Skip, need};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

/// So often a perf that crashes is run.
const TRIES: usize = 4;

/// A perf with these arguments, without anything to read, and without anything of whoever runs it.
pub fn command(arguments: &[&str]) -> Result<Command, Skip> {
    let mut command = Command::new(need::perf()?);
    command.args(arguments);
    impersonal(&mut command);
    Ok(command)
}

/// Takes from a program, perf or another that is compared with it, what whoever runs it has: a home with a store of build-ids and
/// configuration, servers of debug files, language and time zone; and input.
pub fn impersonal(command: &mut Command) -> &mut Command {
    // Nothing can be below this home.
    command.env("HOME", "/dev/null").env("PERF_CONFIG", "/dev/null").env_remove("XDG_CACHE_HOME");
    command.env("DEBUGINFOD_URLS", "").env("LC_ALL", "C").env("TZ", "UTC").stdin(Stdio::null())
}

/// Runs a perf to its end, again if it crashes.
pub fn output(command: &mut Command) -> Result<Output, Skip> {
    let mut last = String::new();
    for _ in 0..TRIES {
        let output = command.output().map_err(|error| Skip::needs("perf", error))?;
        match output.status.signal() {
            None => return Ok(output),
            Some(signal) => {
                last = format!("signal {signal}: {}", String::from_utf8_lossy(&output.stderr).trim());
            }
        }
    }
    Err(Skip::needs("a perf that does not crash", format_args!("{command:?} ends {TRIES} times by {last}")))
}

/// The same of one that is needed to do what it is told, such as to record.
pub fn succeeds(command: &mut Command) -> Result<Output, Skip> {
    let output = output(command)?;
    match output.status.success() {
        true => Ok(output),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(Skip::needs("a perf that can do this here", format_args!("{command:?}: {}", said.trim())))
        }
    }
}
