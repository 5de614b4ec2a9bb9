//! What a program may do to the memory of its rings: the same under both kernels.

use super::scenarios::{PAGE, attr, open};
use perfuse_abi::Software;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Release};

/// How a process ends that does this, as `waitpid(2)` tells it. `handled`: a handler of SIGBUS ends it with the signal's code.
fn ends(handled: bool, act: impl FnOnce()) -> i32 {
    extern "C" fn tell(_signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
        // SAFETY: the kernel hands a whole siginfo; ends without running anything of this program.
        unsafe {
            let page = (*info).si_addr() as usize / PAGE * PAGE;
            libc::_exit((*info).si_code * 16 + i32::from(page == EXPECTED.load(Acquire)))
        }
    }
    // SAFETY: the child does nothing but system calls and accesses to memory; a live number.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
            let mut action: libc::sigaction = std::mem::zeroed();
            (action.sa_sigaction, action.sa_flags) = (tell as *const () as usize, libc::SA_SIGINFO);
            if handled {
                libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
            }
            act();
            libc::_exit(0)
        }
        let mut status = 0;
        libc::waitpid(pid, &raw mut status, 0);
        status & !0x80
    }
}

/// The page where a fault is expected.
static EXPECTED: AtomicUsize = AtomicUsize::new(0);

/// Rule F11: only the control page can be written, whatever is done to the mapping, and a child has none.
pub(crate) fn data_of_rings_are_not_written() {
    let size = 3 * PAGE;
    let new = |prot| {
        let event = open(&attr(Software::DUMMY)).unwrap_or_else(|_| std::process::abort());
        let null = std::ptr::null_mut();
        // SAFETY: the kernel chooses the address.
        let ring = unsafe { libc::mmap(null, size, prot, libc::MAP_SHARED, event.as_raw_fd(), 0) };
        std::mem::forget(event);
        ring.cast::<u8>()
    };
    let (read, write) = (libc::PROT_READ, libc::PROT_WRITE);
    type Change = fn(*mut u8) -> *mut u8;
    let changes: [(&str, i32, Change); 6] = [
        ("as it is mapped", read | write, |ring| ring),
        ("to read only", read, |ring| ring),
        ("made writable", read, |ring| {
            // SAFETY: of the ring alone.
            unsafe { libc::mprotect(ring.cast(), 3 * PAGE, 3) };
            ring
        }),
        ("made writable in part", read | write, |ring| {
            // SAFETY: of the ring alone.
            unsafe { libc::mprotect(ring.add(PAGE).cast(), PAGE, 3) };
            ring
        }),
        ("made readable", read | write, |ring| {
            // SAFETY: of the ring alone.
            unsafe { libc::mprotect(ring.cast(), 3 * PAGE, 1) };
            ring
        }),
        ("moved", read | write, |ring| {
            let (null, anonymous) = (std::ptr::null_mut(), libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: over memory that is nobody else's.
            unsafe {
                let to = libc::mmap(null, 3 * PAGE, 0, anonymous, -1, 0);
                let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
                libc::mremap(ring.cast(), 3 * PAGE, 3 * PAGE, flags, to).cast()
            }
        }),
    ];
    for (what, prot, change) in changes {
        for (page, place) in ["control", "data", "more data"].into_iter().enumerate() {
            let at = || {
                // SAFETY: inside of the ring.
                let at = unsafe { change(new(prot)).add(PAGE * page + 900) };
                EXPECTED.store(at as usize / PAGE * PAGE, Release);
                at
            };
            let read = ends(false, || {
                // SAFETY: memory of the ring, or a fault that ends the process.
                unsafe { at().read_volatile() };
            });
            let stores = [false, true].map(|handled| {
                // SAFETY: likewise.
                ends(handled, || unsafe { at().write_volatile(1) })
            });
            println!("{what}, {place}: read {read:x}, written {stores:x?}");
        }
    }
    let ring = new(read | write);
    println!("in a child: {:x}", {
        ends(false, || {
            // SAFETY: a fault ends that process.
            unsafe { ring.read_volatile() };
        })
    });
    // SAFETY: the kernel looks whether it is there.
    unsafe {
        let file = std::fs::File::open("/proc/self/exe").expect("the running program");
        for page in 0..3 {
            let got = libc::read(file.as_raw_fd(), ring.add(PAGE * page + 900).cast(), 1);
            println!("filled by a call: {got}");
        }
    }
}
