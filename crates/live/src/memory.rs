//! The memory of rings: a memfd that the engine, the supervisor and the reader all map, so that no record
//! is copied on its way.

use perfuse_abi::Errno;
use perfuse_engine::{AtomicU64, Memory};
use perfuse_sys::memfd::Sealed;
use std::os::fd::{AsFd, BorrowedFd};

/// A memfd and this process's view of it.
#[derive(Debug)]
pub struct Shared(Sealed);

impl Shared {
    /// So many bytes of zeros, a multiple of the page size: `ENOMEM`, `EMFILE`.
    pub(crate) fn new(bytes: usize) -> Result<Self, Errno> {
        Sealed::new(c"perf_event", bytes).map(Shared)
    }
}

/// Whether there is such memory: the errno of `memfd_create(2)` or of the calls that follow, where a sandbox refuses
/// it.
pub fn can_be_had() -> Result<(), Errno> {
    Shared::new(perfuse_sys::page_size()).map(drop)
}

impl Memory for Shared {
    fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }
}

impl AsFd for Shared {
    /// To map, from offset 0 on.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
