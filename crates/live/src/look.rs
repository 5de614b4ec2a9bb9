//! One look at every thread of a process: its registers and the top of its stack, all of one moment. The process is stopped for
//! as long as copying takes, and goes on as if nothing had been: it is seized, never signalled, and should this program be killed
//! meanwhile the kernel lets it go on.

use crate::ptrace::{self, Status, Tid};
use crate::regs::{Registers, SeenCall};
use crate::{proc, remote};
use perfuse_abi::Errno;
use perfuse_abi::record::RegsAbi;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::time::{Duration, Instant};

/// The registers that are looked at, as perf numbers them: all general ones.
#[cfg(target_arch = "x86_64")]
const REGISTERS: u32 = 24;
/// The same.
#[cfg(target_arch = "aarch64")]
const REGISTERS: u32 = 33;

/// A thread in an uninterruptible sleep does not stop; so long it is waited for.
const PATIENCE: Duration = Duration::from_millis(500);
/// Threads are looked for so often: new ones come while others are being stopped.
const ROUNDS: usize = 16;
/// More threads are not looked at.
const MOST_THREADS: usize = 1 << 16;
/// Copies of all stacks together.
const MOST_BYTES: u64 = 256 << 20;

/// A thread, as it was found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Looked {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: Vec<u8>,
    /// The letter of its state before it was stopped: `R` runs or could, `S` sleeps, `D` cannot be interrupted, ...
    pub state: char,
    /// The number of the system call that it was in.
    pub call: Option<u64>,
    /// The kernel's functions that it was in, the innermost first, where this user may see them.
    pub kernel: Vec<String>,
    /// Its registers; `None` if it could not be stopped.
    pub registers: Option<LookedRegisters>,
    /// The copy of its stack, from the stack pointer on.
    pub stack: Vec<u8>,
}

/// Registers as perf samples them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LookedRegisters {
    /// Whether they are those of a 64-bit program.
    pub abi: RegsAbi,
    /// The registers that are there, by their bits.
    pub mask: u64,
    /// Their values.
    pub words: Vec<u64>,
    /// The stack pointer.
    pub stack: u64,
}

/// Why nothing can be seen of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LookError {
    /// There is no such process, or it has ended.
    Gone,
    /// The system refuses to trace it.
    Refused {
        /// Its answer.
        errno: Errno,
        /// Yama's `ptrace_scope`, where there is Yama.
        scope: Option<i64>,
    },
    /// It is traced already, by the process of this number.
    Traced(u32),
    /// It is this process, which cannot stop itself.
    Own,
}

impl fmt::Display for LookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LookError::Gone => f.write_str("there is no such process (ESRCH)"),
            LookError::Own => f.write_str("a process cannot stop itself"),
            LookError::Traced(tracer) => write!(
                f,
                "process {tracer} (strace, a debugger, another perfuse) traces it, and a process has one tracer only"
            ),
            LookError::Refused { scope: Some(1), .. } => f.write_str(
                "it is another user's, or none that was started here: kernel.yama.ptrace_scope is 1. \
                 Root may, or, after sysctl kernel.yama.ptrace_scope=0, its user",
            ),
            LookError::Refused { scope: Some(2), .. } => f.write_str(
                "kernel.yama.ptrace_scope is 2, which leaves ptrace to processes with CAP_SYS_PTRACE: root may",
            ),
            LookError::Refused { scope: Some(3..), .. } => {
                f.write_str("kernel.yama.ptrace_scope is 3, which forbids ptrace until the next boot")
            }
            LookError::Refused { errno, .. } => write!(
                f,
                "ptrace(2) answers {errno}: it is another user's, a thread of the kernel, or one that is not dumpable \
                 (setuid, or by prctl). Root may, in a container with CAP_SYS_PTRACE"
            ),
        }
    }
}

impl std::error::Error for LookError {}

/// Looks at all threads of a process, with at most `stack` bytes of each stack. Threads that end meanwhile are left out.
///
/// # Errors
///
/// There is no such process, or it may not be traced.
pub fn look(pid: u32, stack: usize) -> Result<Vec<Looked>, LookError> {
    if pid == std::process::id() {
        return Err(LookError::Own);
    }
    let mut seized = Seized::default();
    let mut looked: Vec<(Looked, Option<SeenCall>)> = Vec::new();
    let mut known = HashSet::new();
    for _ in 0..ROUNDS {
        let before = looked.len();
        for tid in perfuse_proc::read::threads(pid).map_err(|_| LookError::Gone)? {
            if known.contains(&tid) || looked.len() >= MOST_THREADS {
                continue;
            }
            let found = before_stop(pid, tid);
            let seen = SeenCall::of(tid as Tid);
            match ptrace::seize(tid as Tid, 0) {
                Ok(()) => {
                    seized.0.push((tid as Tid, None));
                    let _ = ptrace::interrupt(tid as Tid);
                }
                Err(Errno::ESRCH) => continue,
                Err(_) if found.state == 'Z' || found.state == 'X' => continue,
                Err(errno) if looked.is_empty() => return Err(refused(pid, errno)),
                Err(_) => {}
            }
            known.insert(tid);
            looked.push((found, seen));
        }
        if looked.len() == before {
            break;
        }
    }
    if looked.is_empty() {
        return Err(LookError::Gone);
    }
    seized.wait();
    let statuses: HashMap<Tid, Option<Status>> = seized.0.iter().copied().collect();
    let share = (MOST_BYTES / looked.len() as u64).max(16 << 10) as usize;
    for (looked, seen) in &mut looked {
        let tid = looked.tid as Tid;
        let status = statuses.get(&tid).copied().flatten();
        if !matches!(status, Some(Status::Event(_) | Status::Signal(_) | Status::GroupStop(_))) {
            continue;
        }
        let Ok(registers) = Registers::of(tid) else { continue };
        if status == Some(Status::Event(ptrace::EVENT_STOP)) {
            call_again(tid, registers, seen.as_ref());
        }
        looked.stack = vec![0; stack.min(share)];
        let got = remote::read_present(tid, registers.stack(), &mut looked.stack).unwrap_or(0);
        looked.stack.truncate(got);
        looked.registers = Some(LookedRegisters {
            abi: registers.abi(),
            mask: (1 << REGISTERS) - 1,
            words: (0..REGISTERS).map(|number| registers.sampled(number)).collect(),
            stack: registers.stack(),
        });
    }
    drop(seized);
    Ok(looked.into_iter().map(|(looked, _)| looked).collect())
}

/// A look at a thread that goes on: name, state, what it does in the kernel.
fn before_stop(pid: u32, tid: u32) -> Looked {
    let stat = perfuse_proc::read::stat(pid, tid).unwrap_or_default();
    let stat = perfuse_proc::Stat::parse(&stat);
    let state = stat.map_or(' ', |stat| stat.state());
    let text = |name| std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/{name}")).unwrap_or_default();
    let call = text("syscall");
    let mut kernel = Vec::new();
    if state != 'R' {
        kernel = text("stack").lines().filter_map(kernel_function).collect();
        let waits = text("wchan");
        if kernel.is_empty() && !waits.is_empty() && waits != "0" {
            kernel.push(waits);
        }
    }
    Looked {
        tid,
        name: stat.map(|stat| stat.name.to_vec()).unwrap_or_default(),
        state,
        call: call.split_whitespace().next().and_then(|number| number.parse().ok()),
        kernel,
        ..Looked::default()
    }
}

/// "[<0>] do_nanosleep+0x6c/0x1a0".
fn kernel_function(line: &str) -> Option<String> {
    let place = line.split_once("] ")?.1;
    let function = place.split_once("+0x").map_or(place, |(function, _)| function);
    (!function.is_empty()).then(|| function.to_owned())
}

/// A system call that the stop would end with `EINTR` is begun again: the program hears of nothing.
fn call_again(tid: Tid, mut registers: Registers, seen: Option<&SeenCall>) {
    if registers.was_interrupted() && !proc::has_signals(tid) {
        if let Some((of_call, _)) =
            registers.ended_call(tid, seen).filter(|(_, call)| *call != Some(libc::SYS_close))
        {
            let _ = registers.restart_call(tid, &of_call);
        }
    }
}

fn refused(pid: u32, errno: Errno) -> LookError {
    match proc::tracer_of(pid as Tid) {
        0 => LookError::Refused { errno, scope: yama_scope() },
        tracer => LookError::Traced(tracer as u32),
    }
}

/// Yama's `ptrace_scope`, where there is Yama.
fn yama_scope() -> Option<i64> {
    std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok()?.trim().parse().ok()
}

/// Threads that are traced, and how they stopped: all go on when this goes.
#[derive(Default)]
struct Seized(Vec<(Tid, Option<Status>)>);

impl Seized {
    /// Waits until all have stopped, but for those that do not.
    fn wait(&mut self) {
        let end = Instant::now() + PATIENCE;
        let mut pause = Duration::from_micros(20);
        loop {
            for (tid, status) in self.0.iter_mut().filter(|(_, status)| status.is_none()) {
                match ptrace::take(*tid) {
                    Ok(found) => *status = found,
                    Err(_) => *status = Some(Status::Ended(0)),
                }
            }
            if self.0.iter().all(|(_, status)| status.is_some()) || Instant::now() >= end {
                return;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
        }
    }
}

impl Drop for Seized {
    fn drop(&mut self) {
        for (tid, status) in &mut self.0 {
            // One that stops only now goes on, too; one that does not stop is let go by the kernel when this thread ends.
            if status.is_none() {
                *status = ptrace::take(*tid).ok().flatten();
            }
            let signal = if let Some(Status::Signal(signal)) = status { *signal } else { 0 };
            let _ = ptrace::detach(*tid, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_kernel_have_no_offsets() {
        let function = |line| kernel_function(line);
        assert_eq!(function("[<0>] do_nanosleep+0x6c/0x1a0").as_deref(), Some("do_nanosleep"));
        assert_eq!(function("[<0>] ret_from_fork").as_deref(), Some("ret_from_fork"));
        assert_eq!((function(""), function("[<0>] ")), (None, None));
    }

    #[test]
    fn this_process_cannot_be_looked_at_and_none_that_is_not_there() {
        assert_eq!(look(std::process::id(), 0).err(), Some(LookError::Own));
        assert_eq!(look(u32::MAX >> 1, 0).err(), Some(LookError::Gone));
    }
}
