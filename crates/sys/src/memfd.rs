//! Memory that is a file without a name: to be shared with those who are given its descriptor.

use crate::Errno;
use crate::errno::of;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// An empty one. Its descriptor closes on exec; `/proc` shows the name.
pub fn create(name: &CStr) -> Result<OwnedFd, Errno> {
    memfd_create(name, MemfdFlags::CLOEXEC).map_err(of)
}

/// One of a size that stays, and this process's view of it.
#[derive(Debug)]
pub struct Sealed {
    fd: OwnedFd,
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to the process, and its words are only used atomically.
unsafe impl Send for Sealed {}
// SAFETY: as above.
unsafe impl Sync for Sealed {}

impl Sealed {
    /// So many bytes of zeros, a multiple of the page size: `ENOMEM`, `EMFILE`. With its descriptor anybody can change its
    /// words, and nobody its size: a reader that cut it would end this process by a SIGBUS.
    pub fn new(name: &CStr, bytes: usize) -> Result<Self, Errno> {
        let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).map_err(of)?;
        ftruncate(&fd, bytes as u64).map_err(of)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).map_err(of)?;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the address, so no existing memory is touched.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, prot, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(crate::errno::last());
        }
        let start = NonNull::new(start.cast()).ok_or(Errno::ENOMEM)?;
        Ok(Sealed { fd, start, words: bytes / size_of::<AtomicU64>() })
    }

    /// All of it.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: exactly what was mapped, page-aligned, zeroed by the kernel, and alive as long as `self`.
        // The file cannot shrink under it: it is sealed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl AsFd for Sealed {
    /// To map, from offset 0 on.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        // SAFETY: the range is exactly what `new` mapped, and no borrow of it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.words * size_of::<AtomicU64>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn whoever_has_it_open_cannot_cut_it() {
        let memory = Sealed::new(c"sealed", 8192).expect("memory");
        for len in [0, 4096, 8191, 16384] {
            assert_eq!(ftruncate(&memory, len).map_err(of), Err(Errno::EPERM), "to {len} bytes");
        }
        let sealed = fcntl_add_seals(&memory, SealFlags::WRITE).map_err(of);
        assert_eq!(sealed, Err(Errno::EPERM), "it stays writable");
        assert!(memory.words().iter().all(|word| word.load(Relaxed) == 0));
    }
}
