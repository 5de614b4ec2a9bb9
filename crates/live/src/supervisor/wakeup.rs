//! Wakes the supervisor's thread from its wait: by ticks of a timer, or from other threads. Asks for a cpu soon after that, and
//! for the one where the next sample is to be.

use crate::proc;
use crate::sampling::{Random, Tick, Ticks};
use perfuse_abi::Errno;
use perfuse_sys::clock::Timer;
use perfuse_sys::signal;
use perfuse_sys::thread::{self, Cpus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// The signal that wakes: one that neither C libraries nor common programs use.
fn signal() -> i32 {
    signal::last_real_time() - 5
}

/// The handler, once for the process.
fn install() -> Result<(), Errno> {
    static INSTALLED: OnceLock<Result<(), Errno>> = OnceLock::new();
    *INSTALLED.get_or_init(|| signal::only_interrupts(signal()))
}

/// A timer that rings until the thread that made it has heard it: no ring is lost that comes right before that thread
/// falls asleep.
#[derive(Debug)]
pub(super) struct Bell {
    timer: Timer,
    rung: AtomicBool,
}

impl Bell {
    /// How often it rings until it is heard.
    const AGAIN_NS: u64 = 1_000_000;

    pub(super) fn new() -> Result<Arc<Self>, Errno> {
        Ok(Arc::new(Bell { timer: timer()?, rung: AtomicBool::new(false) }))
    }

    /// For other threads.
    pub(super) fn waker(self: &Arc<Self>) -> Waker {
        Waker(Arc::downgrade(self))
    }

    /// In this order: a ring between the two is not silenced, and comes again.
    fn ring(&self) {
        self.timer.set(1, Self::AGAIN_NS);
        self.rung.store(true, Ordering::Release);
    }

    /// Silences it. The caller is awake, and looks for the reason after this: whoever rings has left it there before.
    pub(super) fn hear(&self) {
        if self.rung.load(Ordering::Relaxed) && self.rung.swap(false, Ordering::Acquire) {
            self.timer.set(0, 0);
        }
    }
}

/// Wakes a supervisor.
#[derive(Clone, Debug)]
pub struct Waker(Weak<Bell>);

impl Waker {
    /// Wakes it, now or as soon as it falls asleep: it then does what was asked of it before this call.
    pub fn wake(&self) {
        // One that has ended needs no sleep to be taken from.
        if let Some(bell) = self.0.upgrade() {
            bell.ring();
        }
    }
}

/// A timer that wakes the thread which made it.
fn timer() -> Result<Timer, Errno> {
    install()?;
    signal::unblock(signal());
    Timer::for_this_thread(signal())
}

/// Wakes the thread that made it at a time, and again and again until it is set anew.
#[derive(Debug)]
pub(super) struct Alarm {
    timer: Timer,
    at: Option<u64>,
}

impl Alarm {
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(Alarm { timer: timer()?, at: None })
    }

    /// Sets the time (`CLOCK_MONOTONIC`, in ns); `None`: never.
    pub(super) fn set(&mut self, at: Option<u64>) {
        const AGAIN_NS: u64 = 1_000_000;
        if self.at != at {
            self.at = at;
            let now = proc::now_ns();
            self.timer.set(at.map_or(0, |at| at.saturating_sub(now).max(1)), AGAIN_NS);
        }
    }
}

/// Wakes the thread that made it when [`Ticks`] are due.
#[derive(Debug)]
pub(super) struct Ticker {
    timer: Timer,
    ticks: Ticks,
}

impl Ticker {
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(Ticker { timer: timer()?, ticks: Ticks::new(Random::seeded()) })
    }

    /// Ticks with this period on average from now on, or not at all.
    pub(super) fn set(&mut self, period_ns: Option<u64>) {
        let now = proc::now_ns();
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
        let now = proc::now_ns();
        self.ticks.take_due(now)
    }

    /// The next one comes on this cpu, and they go round so many.
    pub(super) fn go_on(&mut self, cpus: u64) {
        self.ticks.go_round(cpus);
        self.arm(proc::now_ns());
    }
}

/// On which cpus the supervisor's thread runs: in turns on those where tracees run that are sampled, as only there its timer
/// stops them [where they are](crate::sampling).
#[derive(Debug)]
pub(super) struct Affinity {
    all: Cpus,
    only: Option<u32>,
    /// The cpus where sampled threads were found lately, and how many ticks ago.
    found: Vec<(u32, usize)>,
    /// Where we may not run.
    barred: Vec<u32>,
    random: Random,
}

impl Affinity {
    pub(super) fn new() -> Self {
        let (found, barred) = (Vec::new(), Vec::new());
        Affinity { all: Cpus::own(), only: None, found, barred, random: Random::seeded() }
    }

    /// Whether we are on that cpu in turns.
    pub(super) fn visits(&self, cpu: u32) -> bool {
        self.found.iter().any(|&(found, _)| found == cpu)
    }

    /// A tick found sampled threads on these cpus. Goes where the next one is to be, and tells how many cpus it goes
    /// round.
    pub(super) fn follow(&mut self, found: &[u32]) -> u64 {
        /// A cpu without sampled threads at so many turns is left out.
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
        if thread::own_cpu() != Some(next) {
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
        // A cpu that we may not use: we stay where we are.
        only.and_then(Cpus::only).unwrap_or(self.all).apply();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptrace::{self, Waited};
    use std::process::{Command, Stdio};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// The signal comes while the thread is still awake, and its handler has run before the wait begins.
    #[test]
    fn a_ring_right_before_the_wait_is_heard() {
        let (over, is_over) = channel();
        let waits = std::thread::spawn(move || {
            let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
            let bell = Bell::new().unwrap();
            let waker = bell.waker();
            for _ in 0..3 {
                waker.wake();
                assert_eq!(ptrace::wait(true), Ok(Waited::Interrupted));
                // It was not heard: it rings on.
                assert_eq!(ptrace::wait(true), Ok(Waited::Interrupted));
                bell.hear();
            }
            drop(child.stdin.take());
            // One more ring may have been on its way.
            while ptrace::wait(true) == Ok(Waited::Interrupted) {}
            child.wait().unwrap();
            over.send(()).unwrap();
        });
        is_over.recv_timeout(Duration::from_secs(60)).expect("it sleeps, though the bell has rung");
        waits.join().unwrap();
    }

    #[test]
    fn a_supervisor_that_has_ended_is_not_woken() {
        let bell = Bell::new().unwrap();
        let waker = bell.waker();
        drop(bell);
        waker.wake();
    }
}
