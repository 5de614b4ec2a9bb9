//! The host's answers: descriptors, numbers of tasks, permissions, memory.

use perfuse_engine::abi::Errno;
use perfuse_engine::{
    Access, AtomicU64, Capability, CgroupId, EventKey, Host, LockLimit, Memory, SecurityStep, TaskId,
};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

/// The machine's answers to the engine.
#[derive(Debug)]
pub struct World {
    /// Callers have all capabilities.
    pub privileged: bool,
    /// Callers may look at each other.
    pub may_trace: bool,
    /// Open descriptors.
    pub descriptors: BTreeMap<i32, EventKey>,
    /// Descriptors of cgroups.
    pub cgroups: BTreeMap<i32, CgroupId>,
    /// How many descriptors there may be.
    pub descriptor_limit: usize,
    /// Memory that may be locked, in pages.
    pub locked_pages: u64,
    /// Memory for rings that there is, in pages.
    pub free_pages: usize,
    pub(crate) page_bytes: usize,
    pub(crate) memory: Box<dyn Allocate>,
}

/// Gives memory for rings.
pub(crate) trait Allocate: Debug + Send {
    /// So many bytes of zeros.
    fn allocate(&mut self, bytes: usize) -> Result<Arc<dyn Memory>, Errno>;
}

/// Memory of this process alone.
#[derive(Debug)]
struct Heap;

impl Allocate for Heap {
    fn allocate(&mut self, bytes: usize) -> Result<Arc<dyn Memory>, Errno> {
        let words = bytes / size_of::<u64>();
        Ok(Arc::new((0..words).map(|_| AtomicU64::new(0)).collect::<Vec<_>>()))
    }
}

/// Descriptors of cgroups are beyond those of events.
const FIRST_CGROUP: i32 = 1 << 24;

impl World {
    pub(crate) fn new(page_bytes: usize) -> Self {
        World {
            privileged: true,
            may_trace: true,
            descriptors: BTreeMap::new(),
            cgroups: BTreeMap::new(),
            descriptor_limit: usize::MAX,
            locked_pages: u64::MAX,
            free_pages: 1 << 16,
            page_bytes,
            memory: Box::new(Heap),
        }
    }

    /// Gives a cgroup the lowest free descriptor of its own.
    pub(crate) fn install_cgroup(&mut self, cgroup: CgroupId) -> i32 {
        let fd = FIRST_CGROUP + self.cgroups.len() as i32;
        self.cgroups.insert(fd, cgroup);
        fd
    }

    /// Gives an event the lowest free descriptor.
    pub(crate) fn install(&mut self, event: EventKey) -> i32 {
        let fd = (3..FIRST_CGROUP).find(|fd| !self.descriptors.contains_key(fd)).unwrap_or(i32::MAX);
        self.descriptors.insert(fd, event);
        fd
    }
}

impl Host for World {
    fn capable(&self, _caller: TaskId, _capability: Capability) -> bool {
        self.privileged
    }

    fn may_access(&self, _caller: TaskId, _target: TaskId, _access: Access) -> bool {
        self.may_trace
    }

    fn find_task(&self, _caller: TaskId, pid: u32) -> Option<TaskId> {
        Some(TaskId(pid.into()))
    }

    fn event_of(&self, _caller: TaskId, fd: i32) -> Option<EventKey> {
        self.descriptors.get(&fd).copied()
    }

    fn reserve_descriptor(&mut self, _caller: TaskId) -> Result<(), Errno> {
        if self.descriptors.len() < self.descriptor_limit { Ok(()) } else { Err(Errno::EMFILE) }
    }

    fn cgroup_of(&self, _caller: TaskId, fd: i32) -> Result<CgroupId, Errno> {
        self.cgroups.get(&fd).copied().ok_or(Errno::EBADF)
    }

    fn lock_limit(&self, _caller: TaskId) -> LockLimit {
        LockLimit { user: 1000, pages: self.locked_pages, space: 0 }
    }

    fn allocate(&mut self, _caller: TaskId, pages: usize) -> Result<Arc<dyn Memory>, Errno> {
        self.free_pages = self.free_pages.checked_sub(pages).ok_or(Errno::ENOMEM)?;
        self.memory.allocate(pages * self.page_bytes)
    }

    fn security(&self, _caller: TaskId, _step: SecurityStep) -> Result<(), Errno> {
        Ok(())
    }
}
