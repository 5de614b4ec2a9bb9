//! Work with exactly known effects, for tests that compare counts with what really happened.
//!
//! The first time a piece of code runs, its own pages may have to be fetched, so an exact test does the
//! work once before it counts it.

use std::ffi::c_void;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::Once;
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
    ///
    /// The first call locks into memory all that the process has mapped so far, where that is allowed: a machine that
    /// takes pages of programs back would add faults of the code that touches to those of the pages.
    pub fn map(count: usize) -> Self {
        static LOCKED: Once = Once::new();
        LOCKED.call_once(|| {
            // SAFETY: mlockall has no preconditions; it changes no content. Refused, all goes on as before.
            unsafe { libc::mlockall(libc::MCL_CURRENT) };
        });
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

/// Keeps the calling thread on one cpu from now on, and what it forks.
pub fn stay_on(cpu: usize) {
    // SAFETY: an all-zero set of cpus is an empty one.
    let mut cpus: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is live; a number beyond it changes nothing.
    unsafe { libc::CPU_SET(cpu, &mut cpus) };
    // SAFETY: the pointer and the size are those of a live set.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&cpus), &cpus) };
    assert_eq!(result, 0, "sched_setaffinity: {}", io::Error::last_os_error());
}

/// The number of the calling thread.
pub fn thread_id() -> u32 {
    // SAFETY: gettid has no arguments and no effects.
    unsafe { libc::gettid() }.unsigned_abs()
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
        // It is no slower for where the linker puts it: a jump that crosses 32 bytes takes longer on some processors.
        std::arch::asm!(".p2align 4", "2:", "dec {0}", "jnz 2b", inout(reg) rounds => _, options(nomem, nostack));
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

/// Whether a file can be mapped with `MAP_PRIVATE`; it is unmapped again.
pub fn maps_privately(file: impl std::os::fd::AsFd, len: usize) -> bool {
    use std::os::fd::AsRawFd;
    let (prot, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_fd().as_raw_fd());
    // SAFETY: the kernel chooses the address, so no existing memory is touched.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, libc::MAP_PRIVATE, fd, 0) };
    if start == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: the range is exactly what was just mapped, and nobody has seen it.
    unsafe { libc::munmap(start, len) };
    true
}

/// Maps the first page of a file as code, and unmaps it again; where it was.
pub fn map_code(file: impl std::os::fd::AsFd) -> u64 {
    use std::os::fd::AsRawFd;
    let (prot, fd) = (libc::PROT_READ | libc::PROT_EXEC, file.as_fd().as_raw_fd());
    // SAFETY: the kernel chooses the address, so no existing memory is touched.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), 4096, prot, libc::MAP_PRIVATE, fd, 0) };
    assert_ne!(start, libc::MAP_FAILED, "mmap: {}", io::Error::last_os_error());
    // SAFETY: the range is exactly what was just mapped, and nobody has seen it.
    unsafe { libc::munmap(start, 4096) };
    start as u64
}

/// Addresses that are kept free, in this process and in the children it forks from then on: for what is mapped and
/// touched at places that all know.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    start: u64,
    pages: usize,
}

impl Region {
    const PAGE: usize = 4096;

    /// Keeps so many pages free for as long as the process lives.
    pub fn reserve(pages: usize) -> Self {
        let (len, flags) =
            (pages * Self::PAGE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: the kernel chooses the address, so no existing memory is touched.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED, "mmap: {}", io::Error::last_os_error());
        Region { start: start as u64, pages }
    }

    /// Where a page of it is.
    pub fn at(&self, page: usize) -> u64 {
        assert!(page < self.pages, "within the region");
        self.start + (page * Self::PAGE) as u64
    }

    /// Whether an address is within it.
    pub fn has(&self, addr: u64) -> bool {
        (self.start..self.start + (self.pages * Self::PAGE) as u64).contains(&addr)
    }

    /// Maps one page of it, of a file from its start or of nothing, with these rights, privately. Allocates nothing.
    pub fn map(&self, page: usize, rights: i32, file: Option<std::os::fd::BorrowedFd<'_>>) {
        use std::os::fd::AsRawFd;
        let anonymous = if file.is_none() { libc::MAP_ANONYMOUS } else { 0 };
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED | anonymous;
        let fd = file.map_or(-1, |file| file.as_raw_fd());
        // SAFETY: the page is in the region, where nothing is that anybody refers to.
        unsafe { libc::mmap(self.at(page) as *mut _, Self::PAGE, rights, flags, fd, 0) };
    }

    /// Gives a page that is mapped other rights. Allocates nothing.
    pub fn protect(&self, page: usize, rights: i32) {
        // SAFETY: as above.
        unsafe { libc::mprotect(self.at(page) as *mut _, Self::PAGE, rights) };
    }

    /// Reads or writes a byte of a page that is mapped with that right.
    pub fn touch(&self, page: usize, write: bool) {
        let place = self.at(page) as *mut u8;
        if write {
            // SAFETY: mapped, says the caller; nobody refers to it.
            unsafe { place.write_volatile(1) };
        } else {
            // SAFETY: as above.
            unsafe { place.read_volatile() };
        }
    }
}
