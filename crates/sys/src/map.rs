//! Memory shared with the kernel: the control page with its ring, and the AUX area. Words are read and
//! written atomically; plain bytes can be borrowed where the caller knows that the kernel leaves them
//! alone.

use crate::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

/// The accesses that a [`Mapping`] allows. For a ring they decide the mode too: the kernel overwrites records that
/// nobody can acknowledge by writing `data_tail` (rule F10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Reading only.
    Read,
    /// Reading, and writing where the kernel allows it.
    ReadWrite,
}

/// A shared mapping of a descriptor, unmapped on drop.
#[derive(Debug)]
#[must_use = "it is unmapped when this is dropped"]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
    protection: Protection,
}

// SAFETY: the mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: shared access is either atomic or, for `bytes`, vouched for by its caller.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `mmap(2)` with `MAP_SHARED` of `len` bytes from `offset` on. `EPERM` here usually means the limit
    /// of locked memory (rule F20).
    pub fn new(fd: BorrowedFd<'_>, len: usize, protection: Protection, offset: u64) -> Result<Self, Errno> {
        let prot = match protection {
            Protection::Read => libc::PROT_READ,
            Protection::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
        };
        let offset = libc::off_t::try_from(offset).map_err(|_| Errno::EOVERFLOW)?;
        // SAFETY: the kernel chooses the address, so no existing memory is touched.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), len, prot, libc::MAP_SHARED, fd.as_raw_fd(), offset) };
        if start == libc::MAP_FAILED {
            return Err(crate::errno::last());
        }
        let start = NonNull::new(start.cast()).ok_or(Errno::ENOMEM)?;
        Ok(Mapping { start, len, protection })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: the kernel refuses empty mappings.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// A pointer to the byte at `offset`, checked for `size` bytes and their alignment.
    fn word(&self, offset: usize, size: usize) -> *mut u8 {
        let end = offset.checked_add(size);
        assert!(end.is_some_and(|end| end <= self.len) && offset % size == 0, "word outside the mapping");
        // SAFETY: the offset lies within the mapping, as just checked.
        unsafe { self.start.as_ptr().add(offset) }
    }

    /// Loads the `u64` at `offset`, which must be a multiple of 8 within the mapping.
    #[inline]
    pub fn load_u64(&self, offset: usize, ordering: Ordering) -> u64 {
        let word = self.word(offset, 8).cast();
        // SAFETY: in bounds and aligned (mappings start at a page); whoever else uses it does so atomically.
        unsafe { AtomicU64::from_ptr(word) }.load(ordering)
    }

    /// Loads the `u32` at `offset`, which must be a multiple of 4 within the mapping.
    #[inline]
    pub fn load_u32(&self, offset: usize, ordering: Ordering) -> u32 {
        let word = self.word(offset, 4).cast();
        // SAFETY: as for `load_u64`.
        unsafe { AtomicU32::from_ptr(word) }.load(ordering)
    }

    /// Loads the `u16` at `offset`, which must be a multiple of 2 within the mapping.
    #[inline]
    pub fn load_u16(&self, offset: usize, ordering: Ordering) -> u16 {
        let word = self.word(offset, 2).cast();
        // SAFETY: as for `load_u64`.
        unsafe { AtomicU16::from_ptr(word) }.load(ordering)
    }

    /// Copies whole words out, one by one: for memory that the kernel may be writing meanwhile, whose
    /// content is then whatever it is. `offset` must be a multiple of 8 and the range within the mapping.
    pub fn copy_words(&self, offset: usize, words: &mut [u64]) {
        for (index, word) in words.iter_mut().enumerate() {
            *word = self.load_u64(offset + index * 8, Ordering::Relaxed);
        }
    }

    /// Stores the `u64` at `offset`, which must be a multiple of 8 within the first page of a writable
    /// mapping: the kernel lets users write only the control page (rule F11).
    #[inline]
    pub fn store_u64(&self, offset: usize, value: u64, ordering: Ordering) {
        assert!(self.protection == Protection::ReadWrite && offset < 4096, "not a writable word");
        let word = self.word(offset, 8).cast();
        // SAFETY: as for `load_u64`, and the mapping is writable there.
        unsafe { AtomicU64::from_ptr(word) }.store(value, ordering);
    }

    /// Borrows bytes in place.
    ///
    /// # Panics
    /// Where the range is not within the mapping.
    ///
    /// # Safety
    /// Nobody, the kernel included, may write to the range while the slice lives. In a ring mapped for
    /// writing that holds between `data_tail` and `data_head` until the tail is moved; in an overwritten
    /// ring or AUX area while its output is paused.
    #[inline]
    pub unsafe fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len), "range outside the mapping");
        // SAFETY: within the mapping as just checked, initialised by the kernel, unwritten as the caller
        // vouches.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(offset), len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly what `new` mapped, and no borrow of it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
