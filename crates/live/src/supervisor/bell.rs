//! What wakes the supervisor's thread from its wait: ticks of a timer, and other threads. How soon it gets a cpu
//! then, and which.

use crate::proc;
use crate::ptrace::{Tid, last};
use crate::sampling::{Random, Tick, Ticks};
use perfuse_abi::Errno;
use std::ptr;
use std::sync::OnceLock;

/// The signal that wakes: one that neither C libraries nor common programs use.
fn signal() -> i32 {
    libc::SIGRTMAX() - 5
}

extern "C" fn nothing(_signal: i32) {}

/// The handler, once for the process.
fn install() -> Result<(), Errno> {
    static INSTALLED: OnceLock<Result<(), Errno>> = OnceLock::new();
    *INSTALLED.get_or_init(|| {
        // SAFETY: an all-zero sigaction is a valid value of that plain struct: no flags, no mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
        // SAFETY: the handler does nothing, so it may run anywhere; the pointer is to a live action.
        let result = unsafe { libc::sigaction(signal(), &raw const action, ptr::null_mut()) };
        if result == -1 { Err(last()) } else { Ok(()) }
    })
}

/// Wakes a supervisor.
#[derive(Clone, Copy, Debug)]
pub struct Bell {
    tid: Tid,
}

impl Bell {
    /// Rings once. Who has waited for an answer for a millisecond rings again.
    pub fn ring(self) {
        // SAFETY: plain numbers. A thread that is gone is an error without consequence.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.tid, signal()) };
    }
}

/// A timer of the kernel's that wakes the thread that made it.
#[derive(Debug)]
struct Timer(libc::timer_t);

impl Timer {
    fn new() -> Result<Self, Errno> {
        install()?;
        // SAFETY: an all-zero set is a valid value, and the pointers are to live ones.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, signal());
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
        }
        // SAFETY: an all-zero sigevent is a valid value of that plain struct.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal();
        event.sigev_notify_thread_id = proc::own_tid();
        let mut timer: libc::timer_t = ptr::null_mut();
        // SAFETY: both pointers are to live values.
        let made = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
        if made == -1 { Err(last()) } else { Ok(Timer(timer)) }
    }

    /// It wakes after so many ns, and then with this period; 0: not at all.
    fn set(&self, first_ns: u64, period_ns: u64) {
        let time = |ns: u64| libc::timespec {
            tv_sec: (ns / 1_000_000_000) as _,
            tv_nsec: (ns % 1_000_000_000) as _,
        };
        let times = libc::itimerspec { it_interval: time(period_ns), it_value: time(first_ns) };
        // SAFETY: the timer is ours and lives; the pointer is to a live value.
        unsafe { libc::timer_settime(self.0, 0, &raw const times, ptr::null_mut()) };
    }
}

// SAFETY: a timer belongs to the process, not to a thread.
unsafe impl Send for Timer {}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the timer is ours and is not used any more.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// Rings at a time for the thread that made it, and goes on ringing until it is set again.
#[derive(Debug)]
pub(super) struct Alarm {
    timer: Timer,
    at: Option<u64>,
}

impl Alarm {
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(Alarm { timer: Timer::new()?, at: None })
    }

    /// When (`CLOCK_MONOTONIC`, in ns) it rings, if at all.
    pub(super) fn set(&mut self, at: Option<u64>) {
        const AGAIN_NS: u64 = 1_000_000;
        if self.at != at {
            self.at = at;
            let now = proc::clock_ns(libc::CLOCK_MONOTONIC);
            self.timer.set(at.map_or(0, |at| at.saturating_sub(now).max(1)), AGAIN_NS);
        }
    }
}

/// Rings for the thread that made it when [`Ticks`] are due.
#[derive(Debug)]
pub(super) struct Ticker {
    tid: Tid,
    timer: Timer,
    ticks: Ticks,
}

impl Ticker {
    pub(super) fn new() -> Result<Self, Errno> {
        let (tid, timer) = (proc::own_tid(), Timer::new()?);
        Ok(Ticker { tid, timer, ticks: Ticks::new(Random::seeded()) })
    }

    pub(super) fn bell(&self) -> Bell {
        Bell { tid: self.tid }
    }

    /// Ticks with this period on average from now on, or not at all.
    pub(super) fn set(&mut self, period_ns: Option<u64>) {
        let now = proc::clock_ns(libc::CLOCK_MONOTONIC);
        if self.ticks.set(period_ns, now) {
            self.arm(now);
        }
    }

    /// Rings at the next tick, and again later: the signal is lost if it comes right before the thread falls
    /// asleep.
    fn arm(&self, now: u64) {
        match self.ticks.next() {
            Some((next, period)) => self.timer.set(next.saturating_sub(now).max(1), period),
            None => self.timer.set(0, 0),
        }
    }

    /// Takes the tick that is due, if one is.
    pub(super) fn take_due(&mut self) -> Option<Tick> {
        self.ticks.next()?;
        let now = proc::clock_ns(libc::CLOCK_MONOTONIC);
        let tick = self.ticks.take_due(now)?;
        self.arm(now);
        Some(tick)
    }
}

/// The calling thread, the supervisor's, runs for short times only: the shorter, the sooner Linux (6.12) gives it
/// a cpu that is busy, where without this a tick would have to wait for as long as others may run. What it asks
/// for is the least that can be had, and needs no rights.
pub(super) fn be_prompt() {
    /// `struct sched_attr`.
    #[repr(C)]
    #[derive(Debug, Default)]
    struct Attr {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    const LEAST_NS: u64 = 100_000;
    let mut attr = Attr::default();
    let size = size_of::<Attr>() as u32;
    // SAFETY: pointer and size are those of a live value.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) };
    if got == 0 && [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&(attr.policy as i32)) {
        (attr.size, attr.runtime) = (size, LEAST_NS);
        // Elsewhere it stays as it is.
        // SAFETY: the pointer is to a live value, whose size it tells.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    }
}

/// On which cpus the supervisor's thread runs. On that of the only tracee that runs a sample costs a part of what it
/// does from another, if the tracee stays there: while we are on its cpu, Linux may wake it on another one that is
/// idle. It is not run after then.
#[derive(Debug)]
pub(super) struct Affinity {
    all: libc::cpu_set_t,
    only: Option<u32>,
    /// Where ticks have found the only tracee that runs, and how many in a row.
    seen: (u32, u32),
    /// So many have to find it there for it to be followed: the more often that was in vain, the more.
    enough: u32,
}

impl Affinity {
    pub(super) fn new() -> Self {
        // SAFETY: an all-zero set is a valid value of that plain struct.
        let mut all: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: pointer and size are those of a live set.
        unsafe { libc::sched_getaffinity(0, size_of_val(&all), &raw mut all) };
        Affinity { all, only: None, seen: (0, 0), enough: 8 }
    }

    /// A tick found tracees on these cpus.
    pub(super) fn follow(&mut self, found: &[u32]) {
        match *found {
            [] => {}
            [cpu] => {
                let (before, times) = self.seen;
                self.seen = (cpu, if cpu == before { times.saturating_add(1) } else { 1 });
                if self.only.is_some_and(|only| only != cpu) {
                    self.enough = self.enough.saturating_mul(2);
                    self.set(None);
                } else if self.seen.1 >= self.enough {
                    self.set(Some(cpu));
                }
            }
            _ => {
                self.seen = (0, 0);
                self.set(None);
            }
        }
    }

    /// The calling thread, the supervisor's, is to run only there; `None`: as at first.
    pub(super) fn set(&mut self, only: Option<u32>) {
        if self.only == only {
            return;
        }
        self.only = only;
        let mut set = self.all;
        if let Some(cpu) = only.filter(|&cpu| (cpu as usize) < 8 * size_of_val(&set)) {
            // SAFETY: an all-zero set is a valid value of that plain struct.
            set = unsafe { std::mem::zeroed() };
            // SAFETY: the cpu is within the set, as just checked.
            unsafe { libc::CPU_SET(cpu as usize, &mut set) };
        }
        // A cpu that we may not use: we stay where we are.
        // SAFETY: pointer and size are those of a live set.
        unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    }
}
