//! Wakes the supervisor's thread from its wait: by ticks of a timer, or from other threads. Asks for a cpu soon after that, and
//! for the one where the next sample is to be.

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
pub struct Waker {
    tid: Tid,
}

impl Waker {
    /// Wakes it once. A thread that has waited for an answer for a millisecond does so again.
    pub fn wake(self) {
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

/// Wakes the thread that made it at a time, and again and again until it is set anew.
#[derive(Debug)]
pub(super) struct Alarm {
    timer: Timer,
    at: Option<u64>,
}

impl Alarm {
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(Alarm { timer: Timer::new()?, at: None })
    }

    /// Sets the time (`CLOCK_MONOTONIC`, in ns); `None`: never.
    pub(super) fn set(&mut self, at: Option<u64>) {
        const AGAIN_NS: u64 = 1_000_000;
        if self.at != at {
            self.at = at;
            let now = proc::clock_ns(libc::CLOCK_MONOTONIC);
            self.timer.set(at.map_or(0, |at| at.saturating_sub(now).max(1)), AGAIN_NS);
        }
    }
}

/// Wakes the thread that made it when [`Ticks`] are due.
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

    pub(super) fn waker(&self) -> Waker {
        Waker { tid: self.tid }
    }

    /// Ticks with this period on average from now on, or not at all.
    pub(super) fn set(&mut self, period_ns: Option<u64>) {
        let now = proc::clock_ns(libc::CLOCK_MONOTONIC);
        if self.ticks.set(period_ns, now) {
            self.arm(now);
        }
    }

    /// Wakes at the next tick, and again later: the signal is lost if it comes right before the thread falls
    /// asleep.
    fn arm(&self, now: u64) {
        match self.ticks.next() {
            Some((next, period)) => self.timer.set(next.saturating_sub(now).max(1), period),
            None => self.timer.set(0, 0),
        }
    }

    /// Takes the tick that is due, if one is. The next one has to be [waited for](Self::go_on).
    pub(super) fn take_due(&mut self) -> Option<Tick> {
        self.ticks.next()?;
        let now = proc::clock_ns(libc::CLOCK_MONOTONIC);
        self.ticks.take_due(now)
    }

    /// The next one comes on this cpu, and they go round so many.
    pub(super) fn go_on(&mut self, cpus: u64) {
        self.ticks.go_round(cpus);
        self.arm(proc::clock_ns(libc::CLOCK_MONOTONIC));
    }
}

/// The calling thread, the supervisor's, runs for short times only: the shorter, the sooner Linux (6.12) gives it
/// a cpu that is busy, where without this a tick would have to wait for as long as others may run. It asks
/// for the least that can be had, which needs no rights.
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

/// On which cpus the supervisor's thread runs: in turns on those where tracees run that are sampled, as only there its timer
/// stops them [where they are](crate::sampling).
#[derive(Debug)]
pub(super) struct Affinity {
    all: libc::cpu_set_t,
    only: Option<u32>,
    /// Where those who are sampled were found lately, and how many ticks ago.
    found: Vec<(u32, usize)>,
    /// Where we may not run.
    barred: Vec<u32>,
    random: Random,
}

impl Affinity {
    pub(super) fn new() -> Self {
        // SAFETY: an all-zero set is a valid value of that plain struct.
        let mut all: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: pointer and size are those of a live set.
        unsafe { libc::sched_getaffinity(0, size_of_val(&all), &raw mut all) };
        let (found, barred) = (Vec::new(), Vec::new());
        Affinity { all, only: None, found, barred, random: Random::seeded() }
    }

    /// Whether we are on that cpu in turns.
    pub(super) fn visits(&self, cpu: u32) -> bool {
        self.found.iter().any(|&(found, _)| found == cpu)
    }

    /// A tick found those who are sampled on these cpus. Goes where the next one is to be, and tells how many cpus it goes
    /// round.
    pub(super) fn follow(&mut self, found: &[u32]) -> u64 {
        /// Where nobody was found at so many turns there is nobody any more.
        const PATIENCE: usize = 16;
        self.found.iter_mut().for_each(|(_, ago)| *ago += 1);
        for &cpu in found.iter().filter(|cpu| !self.barred.contains(cpu)) {
            match self.found.iter_mut().find(|(known, _)| *known == cpu) {
                Some((_, ago)) => *ago = 0,
                None => self.found.push((cpu, 0)),
            }
        }
        let most = PATIENCE * self.found.len();
        self.found.retain(|&(_, ago)| ago < most);
        if self.found.is_empty() {
            self.set(None);
            return 1;
        }
        let next = self.found[self.random.below(self.found.len())].0;
        self.set(Some(next));
        if proc::own_cpu() != Some(next) {
            self.barred.push(next);
            self.found.retain(|&(cpu, _)| cpu != next);
            self.set(None);
        }
        self.found.len().max(1) as u64
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
