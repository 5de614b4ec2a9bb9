//! Steps before and after each run of a command, outside of the measured time: `--pre`, `--post`,
//! `--sync`.

use crate::Error;
use crate::plan::Plan;
use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// Before a run.
pub(crate) fn before(plan: &Plan) -> Result<(), Error> {
    if let Some(line) = &plan.pre {
        shell("--pre", line)?;
    }
    if plan.sync {
        run("--sync", Command::new("sync"))?;
    }
    Ok(())
}

/// After a run.
pub(crate) fn after(plan: &Plan) -> Result<(), Error> {
    plan.post.as_deref().map_or(Ok(()), |line| shell("--post", line))
}

fn shell(option: &str, line: &OsStr) -> Result<(), Error> {
    let mut command = Command::new("sh");
    command.arg("-c").arg(line);
    run(option, command)
}

fn run(option: &str, mut command: Command) -> Result<(), Error> {
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::Hook(format!("{option} failed: {status}"))),
        Err(error) => Err(Error::Hook(format!("{option} cannot run: {error}"))),
    }
}
