//! The questions of the engine to its host: who may do what, and what a descriptor or a process number means.
//! Everything else it is told.

use crate::bpf::BpfProgram;
use crate::event::EventKey;
use crate::sync::AtomicU64;
use crate::task::TaskId;
use alloc::sync::Arc;
use perfuse_abi::Errno;

/// A cgroup, by its id in the hierarchy that perf_event uses (the inode number on cgroup v2; the root
/// is 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CgroupId(pub u64);

/// A pid namespace, as the host numbers them; 0 is the first one, whose numbers
/// [`TaskFacts`](crate::TaskFacts) have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PidNamespace(pub u64);

/// A right of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// `CAP_PERFMON` or `CAP_SYS_ADMIN` in the first user namespace.
    Perfmon,
    /// `CAP_SYS_ADMIN`.
    SysAdmin,
    /// `CAP_IPC_LOCK`.
    IpcLock,
    /// `CAP_KILL` in the user namespace of this task.
    Kill(TaskId),
}

/// How a caller wants to look at a task (`ptrace(2)`, access mode checking).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// `PTRACE_MODE_READ_REALCREDS`.
    Read,
    /// `PTRACE_MODE_ATTACH_REALCREDS`.
    Attach,
}

/// Memory that the engine and the readers of a ring share, in words of 8 bytes.
///
/// The first page is the control page; the others are the data, or all are AUX data.
pub trait Memory: core::fmt::Debug + Send + Sync {
    /// The words. Their number never changes.
    fn words(&self) -> &[AtomicU64];
}

impl Memory for alloc::vec::Vec<AtomicU64> {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

/// How much a user may lock (rule F20).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockLimit {
    /// The user whose account it is.
    pub user: u32,
    /// `RLIMIT_MEMLOCK` in pages; `u64::MAX` for none.
    pub pages: u64,
    /// The address space, which is charged with pages beyond the limit of the user.
    pub space: u64,
}

/// The questions.
///
/// The methods that have a body, which are all, answer as a machine does that has no such thing: a caller may only
/// look at himself, and there are no process numbers, descriptors or rings.
pub trait Host {
    /// Whether a caller has a capability.
    fn capable(&self, caller: TaskId, capability: Capability) -> bool {
        let _ = (caller, capability);
        false
    }

    /// Whether a caller may look at a task. Everybody may look at himself; that is not asked.
    fn may_access(&self, caller: TaskId, target: TaskId, access: Access) -> bool {
        let _ = (caller, target, access);
        false
    }

    /// The task of this number in the caller's pid namespace (rule B12); 0 is not asked.
    fn find_task(&self, caller: TaskId, pid: u32) -> Option<TaskId> {
        let _ = (caller, pid);
        None
    }

    /// The event of a descriptor; `None` for a descriptor that is none of an event, or not open.
    fn event_of(&self, caller: TaskId, fd: i32) -> Option<EventKey> {
        let _ = (caller, fd);
        None
    }

    /// Sets a descriptor number aside for an event about to be made: `EMFILE`, `ENFILE` (rule B10).
    fn reserve_descriptor(&mut self, caller: TaskId) -> Result<(), Errno> {
        let _ = caller;
        Ok(())
    }

    /// The cgroup of a descriptor of its directory: `EBADF`, `ENOENT` (rule B19).
    fn cgroup_of(&self, caller: TaskId, fd: i32) -> Result<CgroupId, Errno> {
        let _ = (caller, fd);
        Err(Errno::EBADF)
    }

    /// The BPF program of a descriptor: `EBADF` for one that is not open, `EINVAL` for anything else (rule K1).
    fn bpf_program(&self, caller: TaskId, fd: i32) -> Result<BpfProgram, Errno> {
        let _ = (caller, fd);
        Err(Errno::EINVAL)
    }

    /// The pid namespace of a caller.
    fn namespace_of(&self, caller: TaskId) -> PidNamespace {
        let _ = caller;
        PidNamespace::default()
    }

    /// Limits of the caller's memory.
    fn lock_limit(&self, caller: TaskId) -> LockLimit {
        let _ = caller;
        LockLimit { user: 0, pages: u64::MAX, space: 0 }
    }

    /// Shared memory of so many pages, zeroed: `ENOMEM`.
    fn allocate(&mut self, caller: TaskId, pages: usize) -> Result<Arc<dyn Memory>, Errno> {
        let _ = (caller, pages);
        Err(Errno::ENOMEM)
    }

    /// The answer of a security module to a step: its errno is passed on (rules B3, B22, F3).
    fn security(&self, caller: TaskId, step: SecurityStep) -> Result<(), Errno> {
        let _ = (caller, step);
        Ok(())
    }
}

/// Where security modules are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecurityStep {
    /// Opening, after the attr was copied.
    Open,
    /// Opening, as the kernel is to be looked at.
    Kernel,
    /// Opening, as registers of the kernel are to be seen: lockdown answers `EPERM` (rule B8).
    Registers,
    /// Opening, as whole cpus are to be looked at.
    Cpu,
    /// Opening a tracepoint with its data.
    Tracepoint,
    /// Opening, when the event exists.
    Alloc,
    /// Reading, and mapping.
    Read,
    /// Changing: ioctls.
    Write,
}
