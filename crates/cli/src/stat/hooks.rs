//! What is done before and after each run of a command, outside of what is measured: `--pre`, `--post`,
//! `--sync`.

use super::plan::Plan;
use crate::exit::Failure;
use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// Before a run.
pub(super) fn before(plan: &Plan) -> Result<(), Failure> {
    if let Some(line) = &plan.pre {
        shell("--pre", line)?;
    }
    if plan.sync {
        run("--sync", Command::new("sync"))?;
    }
    Ok(())
}

/// After a run.
pub(super) fn after(plan: &Plan) -> Result<(), Failure> {
    plan.post.as_deref().map_or(Ok(()), |line| shell("--post", line))
}

fn shell(option: &str, line: &OsStr) -> Result<(), Failure> {
    let mut command = Command::new("sh");
    command.arg("-c").arg(line);
    run(option, command)
}

fn run(option: &str, mut command: Command) -> Result<(), Failure> {
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::new(format_args!("{option} failed: {status}"))),
        Err(error) => Err(Failure::new(format_args!("{option} cannot run: {error}"))),
    }
}
