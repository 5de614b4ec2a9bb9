//! The command that is measured, and processes that are: starting, stopping, and whether they still are.

use crate::exit::{Failure, NOT_EXECUTABLE, NOT_FOUND};
use perfuse::{HeldCommand, RunningCommand};
use perfuse_sys::Errno;
use perfuse_sys::signal::{Received, SIGCONT, SIGKILL, SIGTERM};
use std::fs;

/// Lets a command run.
pub(crate) fn start(held: HeldCommand) -> Result<RunningCommand, Failure> {
    held.release().map_err(|error| {
        let status = if error.errno() == Errno::ENOENT { NOT_FOUND } else { NOT_EXECUTABLE };
        Failure::from(error).with_status(status)
    })
}

/// Passes a wish to stop on. The second time it is no longer a wish.
pub(crate) fn stop(child: Option<&RunningCommand>, received: Received, times: u32) {
    // `si_code` of a signal that the terminal sent, and then to the command as well.
    const SI_KERNEL: i32 = 0x80;
    let Some(child) = child else { return };
    // One that has just ended needs no signal.
    let _ = match times {
        1 if received.code == SI_KERNEL => Ok(()),
        // What a script starts in the background ignores SIGINT from its birth.
        1 if ignores(child.pid(), received.signal) => child.signal(SIGTERM),
        1 => child.signal(received.signal),
        _ => child.signal(SIGKILL),
    };
    // One that is stopped heeds nothing before it goes on.
    let _ = child.signal(SIGCONT);
}

fn ignores(pid: u32, signal: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Ends the command because its time is over.
pub(crate) fn end(child: Option<&RunningCommand>) {
    // One that has just ended needs no signal, and one that is stopped heeds none before it goes on.
    let _ = child.map(|child| child.signal(SIGTERM).and(child.signal(SIGCONT)));
}

/// None of these processes exists any more.
pub(crate) fn processes_are_gone(pids: &[u32]) -> bool {
    !pids.iter().any(|&pid| has_running_thread(pid))
}

/// None of these threads exists any more.
pub(crate) fn threads_are_gone(tids: &[u32]) -> bool {
    !tids.iter().any(|tid| is_running(&format!("/proc/{tid}")))
}

/// A process may outlive its first thread.
fn has_running_thread(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.filter_map(Result::ok).any(|thread| is_running(&thread.path().to_string_lossy()))
}

/// The thread of this folder exists, and is more than an entry that its parent has not waited for.
fn is_running(dir: &str) -> bool {
    let stat = fs::read_to_string(format!("{dir}/stat")).unwrap_or_default();
    // The state follows the name, which may contain anything.
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X' | 'x'))
}
