//! Clocks, by their numbers, and timers that ring for one thread.

use crate::Errno;

pub use libc::{CLOCK_MONOTONIC, CLOCK_MONOTONIC_COARSE, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID};

/// The time that a clock shows, in ns; `None` where there is none of this number.
pub fn read_ns(clock: i32) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (result == 0).then(|| ns(&time))
}

/// The step of a clock, in ns; `None` where there is none of this number.
pub fn step_ns(clock: i32) -> Option<u64> {
    let mut step = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec.
    let result = unsafe { libc::clock_getres(clock, &raw mut step) };
    (result == 0).then(|| ns(&step))
}

/// The clock of a thread's time on cpus, as `pthread_getcpuclockid(3)` makes it. Linux shows only those of the calling
/// process.
pub fn of_thread(tid: i32) -> i32 {
    (!tid << 3) | 6
}

#[allow(clippy::unnecessary_cast, reason = "both are narrower on some targets")]
fn ns(time: &libc::timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A timer of `CLOCK_MONOTONIC` that sends a signal to the thread which made it.
#[derive(Debug)]
pub struct Timer(libc::timer_t);

impl Timer {
    /// One that is not set. `EAGAIN`: the process has as many as it may have.
    pub fn for_this_thread(signal: i32) -> Result<Self, Errno> {
        // SAFETY: an all-zero sigevent is a valid value of that plain struct.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        event.sigev_notify_thread_id = crate::thread::own_tid();
        let mut timer: libc::timer_t = std::ptr::null_mut();
        // SAFETY: both pointers are to live values.
        let made = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
        crate::errno::check(made).map(|_| Timer(timer))
    }

    /// Rings after so many ns, and then with this period; 0: not at all.
    pub fn set(&self, first_ns: u64, period_ns: u64) {
        let time = |ns: u64| libc::timespec {
            tv_sec: (ns / 1_000_000_000) as _,
            tv_nsec: (ns % 1_000_000_000) as _,
        };
        let times = libc::itimerspec { it_interval: time(period_ns), it_value: time(first_ns) };
        // SAFETY: the timer is ours and lives; the pointer is to a live value.
        unsafe { libc::timer_settime(self.0, 0, &raw const times, std::ptr::null_mut()) };
    }
}

// SAFETY: a timer belongs to the process, not to a thread.
unsafe impl Send for Timer {}

// SAFETY: the kernel sets it under a lock.
unsafe impl Sync for Timer {}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the timer is ours and is not used any more.
        unsafe { libc::timer_delete(self.0) };
    }
}
