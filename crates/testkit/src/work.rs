//! Work with exactly known effects, for tests that compare counts with what really happened.
//!
//! The first time a piece of code runs, its own pages may have to be fetched, so an exact test does the
//! work once before it counts it.

use std::ffi::c_void;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::time::Duration;

/// Fresh anonymous pages: each one faults when it is touched for the first time, and never again until
/// [`forget`](Self::forget). Unmapped on drop.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<u8>,
    count: usize,
    page: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread.
unsafe impl Send for Pages {}

impl Pages {
    /// Maps `count` pages without touching them. Transparent huge pages are switched off for them, so
    /// that one fault serves one page.
    pub fn map(count: usize) -> Self {
        // SAFETY: sysconf has no preconditions.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("a page size");
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: the kernel chooses the address, so no existing memory is touched.
        let start = unsafe { libc::mmap(null_mut(), count * page, protection, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED, "mmap: {}", io::Error::last_os_error());
        // Fails on kernels built without huge pages, where there is nothing to switch off.
        // SAFETY: the range was just mapped and belongs to nobody else.
        unsafe { libc::madvise(start, count * page, libc::MADV_NOHUGEPAGE) };
        Pages { start: NonNull::new(start.cast()).expect("an address"), count, page }
    }

    /// Number of pages.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The address of each page, in order.
    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        (0..self.count).map(|index| self.start.as_ptr() as u64 + (index * self.page) as u64)
    }

    /// Writes one byte to each page, in order: one fault for each that was not touched before.
    #[inline(never)]
    pub fn touch(&self) {
        for index in 0..self.count {
            // SAFETY: within the mapping, which nobody else refers to.
            unsafe { self.start.as_ptr().add(index * self.page).write_volatile(1) };
        }
    }

    /// Gives the memory back, so that the pages are fresh again.
    pub fn forget(&self) {
        // SAFETY: the mapping is ours, and nobody refers to its content.
        let result = unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes(), libc::MADV_DONTNEED) };
        assert_eq!(result, 0, "madvise: {}", io::Error::last_os_error());
    }

    fn bytes(&self) -> usize {
        self.count * self.page
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: exactly what `map` mapped, and nobody refers to it.
        unsafe { libc::munmap(self.start.as_ptr().cast::<c_void>(), self.bytes()) };
    }
}

/// Touches `count` fresh pages: at least that many faults, and exactly that many when mapping and
/// unmapping memory, and this function, have happened before.
pub fn touch_pages(count: usize) {
    Pages::map(count).touch();
}

/// `count` calls of `getppid(2)` and no other system call.
#[inline(never)]
pub fn system_calls(count: usize) {
    for _ in 0..count {
        // SAFETY: getppid has no arguments and no effects.
        unsafe { libc::syscall(libc::SYS_getppid) };
    }
}

/// Sleeps `count` times: each sleep is one voluntary context switch of the calling thread.
pub fn switches(count: usize) {
    for _ in 0..count {
        // Long enough that the timer cannot be faster than the thread is in falling asleep.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// How often the calling thread was switched out since it exists: voluntarily and not.
pub fn switches_so_far() -> u64 {
    // SAFETY: an all-zero rusage is a valid value of that plain struct.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live rusage.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    assert_eq!(result, 0, "getrusage: {}", io::Error::last_os_error());
    usage.ru_nvcsw as u64 + usage.ru_nivcsw as u64
}

/// Instructions in one round of [`spin`].
pub const SPIN_INSTRUCTIONS: u64 = 2;

/// A loop of `rounds` rounds (at least one) with exactly [`SPIN_INSTRUCTIONS`] instructions each.
#[inline(never)]
pub fn spin(rounds: u64) {
    let rounds = rounds.max(1);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a loop on a register, without memory or stack.
    unsafe {
        std::arch::asm!("2:", "dec {0}", "jnz 2b", inout(reg) rounds => _, options(nomem, nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a loop on a register, without memory or stack.
    unsafe {
        std::arch::asm!("2:", "subs {0}, {0}, #1", "b.ne 2b", inout(reg) rounds => _, options(nomem, nostack));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    for round in 0..rounds {
        std::hint::black_box(round);
    }
}

/// Burns at least this much CPU time of the calling thread, by the thread's own clock; returns how much
/// it was.
pub fn burn(time: Duration) -> Duration {
    let start = thread_time();
    loop {
        let burnt = thread_time() - start;
        if burnt >= time {
            return burnt;
        }
        spin(10_000);
    }
}

/// CPU time of the calling thread.
pub fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0, "clock_gettime: {}", io::Error::last_os_error());
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A child process made by fork, which must be waited for.
#[derive(Debug)]
pub struct Child(i32);

impl Child {
    /// Forks a child that runs `body` and ends. The body must not panic, allocate, or take locks: other
    /// threads of this process may have held the allocator's at that moment.
    pub fn fork(body: impl FnOnce()) -> Self {
        // SAFETY: the child runs only `body`, which keeps to what is said above, and ends at once.
        match unsafe { libc::fork() } {
            -1 => panic!("fork: {}", io::Error::last_os_error()),
            0 => {
                body();
                // SAFETY: ends the process without running the parent's exit handlers.
                unsafe { libc::_exit(0) }
            }
            pid => Child(pid),
        }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.0.unsigned_abs()
    }

    /// Waits until the body has run and the process is gone.
    pub fn join(self) {
        let mut status = 0;
        // SAFETY: the pointer is to a live int.
        let pid = unsafe { libc::waitpid(self.0, &mut status, 0) };
        assert_eq!((pid, status), (self.0, 0), "the child ended otherwise than expected");
    }
}
