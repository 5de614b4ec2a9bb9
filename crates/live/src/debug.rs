//! The debug registers of a tracee: watchpoints on data and breakpoints on code, a few of each thread.
//!
//! Linux keeps them for the tracer. They are gone with an exec, and new threads have none; but they
//! stay when the tracer goes, and then kill: the tracer that arms has to disarm.

use crate::ptrace::{self, EXITKILL, Resume, Status, Tid};
use crate::regs::Registers;
use crate::remote;
use perfuse_abi::{Breakpoint, Errno};
use perfuse_sys::{signal, wait};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

#[cfg(target_arch = "aarch64")]
mod arm64;
#[cfg(target_arch = "x86_64")]
mod x86;
#[cfg(target_arch = "aarch64")]
use arm64 as arch;
#[cfg(target_arch = "x86_64")]
use x86 as arch;

/// A breakpoint in a debug register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HwBreakpoint {
    pub(crate) kind: Breakpoint,
    pub(crate) addr: u64,
    /// Bytes; of code it does not matter.
    pub(crate) len: u64,
}

/// `TRAP_HWBKPT`.
const HARDWARE: i32 = 4;

/// Replaces the breakpoints in the debug registers of a stopped tracee. `ENOSPC`: they are taken, or there are fewer.
pub(crate) fn arm(tid: Tid, breakpoints: &[HwBreakpoint]) -> Result<(), Errno> {
    arch::arm(tid, breakpoints)
}

/// Whether a SIGTRAP at which a tracee is stopped is that of a debug register. No program has any of its own:
/// they belong to tracers.
pub(crate) fn is_hit(tid: Tid) -> bool {
    ptrace::signal_info(tid).is_ok_and(|info| info.code() == HARDWARE)
}

/// The breakpoints that were hit at such a SIGTRAP, by their places in `armed`. None of them where it was
/// armed otherwise meanwhile. Where the hardware stops before what it watches, that is past then.
pub(crate) fn hit(tid: Tid, armed: &[HwBreakpoint]) -> Vec<usize> {
    let info = ptrace::signal_info(tid);
    // One that was killed meanwhile tells so next.
    info.and_then(|info| arch::hit(tid, &info, armed)).unwrap_or_default()
}

/// A stopped tracee goes on to the first of these places; `armed` is watched again then.
#[cfg(target_arch = "aarch64")]
pub(crate) fn run_to(tid: Tid, places: &[u64], armed: &[HwBreakpoint]) -> Result<(), Errno> {
    let breakpoint = |&addr: &u64| HwBreakpoint { kind: Breakpoint::X, addr, len: 4 };
    arm(tid, &places.iter().map(breakpoint).collect::<Vec<_>>())?;
    let ran = remote::run(tid);
    arm(tid, armed)?;
    ran.map(drop)
}

/// Whether debug registers can be used: `Err` where they cannot be written, or writing to them is without effect, as
/// in gVisor. Found out once, with a process that is made for it.
pub(crate) fn works() -> Result<(), Errno> {
    static WORKS: OnceLock<Result<(), Errno>> = OnceLock::new();
    *WORKS.get_or_init(|| try_out(try_on))
}

/// The memory that a process for a trial shares with this one.
#[derive(Default)]
pub(crate) struct Trial {
    /// Until it is one the process waits; then it ends.
    pub(crate) go: AtomicU32,
    watched: AtomicU64,
}

extern "C" fn trial(argument: *mut libc::c_void) -> libc::c_int {
    // SAFETY: it is given a trial that lives until this process has ended.
    let trial = unsafe { &*argument.cast::<Trial>() };
    while trial.go.load(Ordering::Acquire) == 0 {
        // A system call alone.
        std::thread::yield_now();
    }
    trial.watched.store(1, Ordering::Relaxed);
    0
}

/// Tries something out with a process that is made for it, and is traced and stopped.
pub(crate) fn try_out(trial_of: fn(Tid, &Trial) -> Result<(), Errno>) -> Result<(), Errno> {
    let shared = Box::new(Trial::default());
    let mut stack = vec![0u128; 1 << 10];
    let top = stack.as_mut_ptr_range().end;
    let argument = std::ptr::from_ref(&*shared).cast_mut().cast();
    // Without a signal at its end, no other wait tells of it.
    // SAFETY: it has a stack of its own, uses nothing but the trial, and both live until it has ended: it is
    // waited for below, on every path.
    let child = unsafe { libc::clone(trial, top.cast(), libc::CLONE_VM, argument) };
    if child == -1 {
        return Err(ptrace::last());
    }
    let tried = stop(child).and_then(|()| trial_of(child, &shared));
    // It is our child, and has not been waited for.
    let _ = signal::send(child, libc::SIGKILL);
    loop {
        match wait::status(child, wait::__WALL) {
            Err(Errno::EINTR) => {}
            Err(_) => break,
            // Stops that came before its end are told, too.
            Ok(_) if signal::send(child, 0).is_err() => break,
            Ok(_) => {}
        }
    }
    drop((stack, shared));
    tried
}

fn stop(child: Tid) -> Result<(), Errno> {
    ptrace::seize(child, EXITKILL)?;
    ptrace::interrupt(child)?;
    while remote::wait_for(child)? != Status::Event(ptrace::EVENT_STOP) {
        ptrace::resume(child, Resume::Continue(0))?;
    }
    Ok(())
}

fn try_on(child: Tid, trial: &Trial) -> Result<(), Errno> {
    let addr = trial.watched.as_ptr() as u64;
    let breakpoint = HwBreakpoint { kind: Breakpoint::W, addr, len: 8 };
    arm(child, &[breakpoint])?;
    trial.go.store(1, Ordering::Release);
    ptrace::resume(child, Resume::Continue(0))?;
    // It ends without a trap where they have no effect.
    let stopped = remote::wait_for(child).map_err(|_| Errno::EOPNOTSUPP)?;
    let works = stopped == Status::Signal(libc::SIGTRAP) && is_hit(child) && hit(child, &[breakpoint]) == [0];
    if works { Registers::of(child).map(drop) } else { Err(Errno::EOPNOTSUPP) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_tried_out_once() {
        let first = works();
        assert_eq!(first, works());
        // Nothing is left of it.
        let waited = wait::status(-1, libc::__WCLONE | wait::WNOHANG);
        assert_eq!(waited, Err(Errno::ECHILD), "{first:?}");
    }
}
