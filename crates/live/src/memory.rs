//! The memory of rings: a memfd that the engine, the supervisor and the reader all map, so that no record
//! is copied on its way.

use perfuse_abi::Errno;
use perfuse_engine::{AtomicU64, Memory};
use perfuse_sys::memfd::Sealed;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Weak};

/// A memfd and this process's view of it.
#[derive(Debug)]
pub struct Shared(Sealed);

impl Shared {
    /// So many bytes of zeros, a multiple of the page size: `ENOMEM`, `EMFILE`.
    pub(crate) fn new(bytes: usize) -> Result<Self, Errno> {
        Sealed::new(c"perf_event", bytes).map(Shared)
    }
}

/// All memory that was given out, by which its memfd is found again.
#[derive(Debug, Default)]
pub struct Given(Vec<Weak<Shared>>);

impl Given {
    /// So many bytes of zeros, a multiple of the page size: `ENOMEM`, `EMFILE`.
    pub fn allocate(&mut self, bytes: usize) -> Result<Arc<dyn Memory>, Errno> {
        let memory = Arc::new(Shared::new(bytes)?);
        self.0.push(Arc::downgrade(&memory));
        Ok(memory)
    }

    /// The memfd of memory that was given out.
    pub fn shared(&mut self, memory: &Arc<dyn Memory>) -> Option<Arc<Shared>> {
        self.0.retain(|memory| memory.strong_count() > 0);
        let wanted = memory.words().as_ptr();
        self.0.iter().filter_map(Weak::upgrade).find(|own| own.words().as_ptr() == wanted)
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
