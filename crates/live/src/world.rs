//! The host's answers to the engine's questions about permissions, numbers and memory.

use crate::machine::Namespaces;
use crate::memory::Given;
use crate::ptrace::Tid;
use perfuse_abi::Errno;
use perfuse_engine::{Access, Capability, EventKey, Host, Memory, PidNamespace, TaskId};
use std::collections::HashMap;
use std::sync::Arc;

/// The part that does not change from call to call.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) by_tid: HashMap<Tid, TaskId>,
    pub(crate) memory: Given,
    pub(crate) page_bytes: usize,
    pub(crate) namespaces: Namespaces,
}

/// The world as one call sees it.
pub(crate) struct View<'a> {
    pub(crate) world: &'a mut World,
    /// The event of the descriptor of the group or the output.
    pub(crate) group: Option<EventKey>,
    /// Whether the caller may measure the task that he names.
    pub(crate) allowed: bool,
}

impl Host for View<'_> {
    fn capable(&self, _caller: TaskId, capability: Capability) -> bool {
        // Memory of rings is ours. Nobody can have more here than his own tasks.
        capability == Capability::IpcLock
    }

    fn may_access(&self, _caller: TaskId, _target: TaskId, _access: Access) -> bool {
        self.allowed
    }

    fn namespace_of(&self, caller: TaskId) -> PidNamespace {
        self.world.namespaces.of(caller)
    }

    fn find_task(&self, _caller: TaskId, pid: u32) -> Option<TaskId> {
        self.world.by_tid.get(&Tid::try_from(pid).ok()?).copied()
    }

    fn event_of(&self, _caller: TaskId, _fd: i32) -> Option<EventKey> {
        self.group
    }

    fn allocate(&mut self, _caller: TaskId, pages: usize) -> Result<Arc<dyn Memory>, Errno> {
        let bytes = pages.checked_mul(self.world.page_bytes).ok_or(Errno::ENOMEM)?;
        self.world.memory.allocate(bytes)
    }
}
