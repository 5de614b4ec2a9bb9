//! The memory of rings: a memfd that the engine, the supervisor and the reader all map, so that no record
//! is copied on its way.

use perfuse_abi::Errno;
use perfuse_engine::{AtomicU64, Memory};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// A memfd and this process's view of it.
#[derive(Debug)]
pub struct Shared {
    fd: OwnedFd,
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to the process, and its words are only used atomically.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// So many bytes of zeros, a multiple of the page size: `ENOMEM`, `EMFILE`.
    pub(crate) fn new(bytes: usize) -> Result<Self, Errno> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is NUL-terminated.
        let fd = unsafe { libc::memfd_create(c"perf_event".as_ptr(), flags) };
        if fd == -1 {
            return Err(crate::ptrace::last());
        }
        // SAFETY: a fresh descriptor that nobody else has.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let len = libc::off_t::try_from(bytes).map_err(|_| Errno::ENOMEM)?;
        // SAFETY: plain numbers.
        if unsafe { libc::ftruncate(fd.as_raw_fd(), len) } == -1 {
            return Err(crate::ptrace::last());
        }
        // Readers have it open, too: one that cuts it would end this process by a SIGBUS.
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: plain numbers.
        if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) } == -1 {
            return Err(crate::ptrace::last());
        }
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the address, so no existing memory is touched.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, prot, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(crate::ptrace::last());
        }
        let start = NonNull::new(start.cast()).ok_or(Errno::ENOMEM)?;
        Ok(Shared { fd, start, words: bytes / size_of::<AtomicU64>() })
    }
}

/// Whether there is such memory: the errno of `memfd_create(2)` or of what follows, where a sandbox refuses it.
pub fn can_be_had() -> Result<(), Errno> {
    Shared::new(perfuse_sys::page_size()).map(drop)
}

impl Memory for Shared {
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: exactly what was mapped, page-aligned, zeroed by the kernel, and alive as long as `self`.
        // The file cannot shrink under it: it is sealed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl AsFd for Shared {
    /// To map, from offset 0 on.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the range is exactly what `new` mapped, and no borrow of it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.words * size_of::<AtomicU64>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_it_open_cannot_cut_it() {
        let memory = Shared::new(8192).expect("memory");
        for len in [0, 4096, 8191, 16384] {
            // SAFETY: plain numbers.
            let cut = unsafe { libc::ftruncate(memory.as_fd().as_raw_fd(), len) };
            assert_eq!((cut, crate::ptrace::last()), (-1, Errno::EPERM), "to {len} bytes");
        }
        // SAFETY: plain numbers.
        let sealed =
            unsafe { libc::fcntl(memory.as_fd().as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_WRITE) };
        assert_eq!((sealed, crate::ptrace::last()), (-1, Errno::EPERM), "it stays writable");
        assert!(memory.words().iter().all(|word| word.load(std::sync::atomic::Ordering::Relaxed) == 0));
    }
}
