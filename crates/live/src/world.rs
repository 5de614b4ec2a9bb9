//! The host's answers to the engine's questions about permissions, numbers and memory.

use crate::machine::Namespaces;
use crate::memory::Given;
use crate::proc;
use crate::ptrace::Tid;
use perfuse_abi::Errno;
use perfuse_engine::{
    Access, BpfProgram, Capability, EventKey, Host, Memory, PidNamespace, SecurityStep, TaskId,
};
use std::cell::OnceCell;
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
    /// The thread that calls.
    pub(crate) caller: Option<Tid>,
    /// Whether it may look at all tasks and the kernel, once that is asked.
    pub(crate) perfmon: OnceCell<bool>,
    /// The event of the descriptor of the group or the output.
    pub(crate) group: Option<EventKey>,
    /// The program of the descriptor that is to be attached.
    pub(crate) program: Result<BpfProgram, Errno>,
    /// Whether the caller may measure the task that he names.
    pub(crate) allowed: bool,
    /// The event only writes what BPF programs of the caller put out, so that a whole cpu shows him nothing.
    pub(crate) shows_nothing: bool,
}

impl<'a> View<'a> {
    /// That of a call of a thread's, about no other event or task than that of the call.
    pub(crate) fn new(world: &'a mut World, caller: Option<Tid>) -> Self {
        View {
            world,
            caller,
            perfmon: OnceCell::new(),
            group: None,
            program: Err(Errno::EINVAL),
            allowed: false,
            shows_nothing: false,
        }
    }
}

impl Host for View<'_> {
    fn capable(&self, _caller: TaskId, capability: Capability) -> bool {
        match capability {
            // Memory of rings is ours.
            Capability::IpcLock => true,
            Capability::Perfmon => {
                *self.perfmon.get_or_init(|| self.caller.is_some_and(proc::may_measure_all))
            }
            Capability::SysAdmin | Capability::Kill(_) => false,
        }
    }

    /// There are no whole cpus here, whoever asks.
    fn security(&self, _caller: TaskId, step: SecurityStep) -> Result<(), Errno> {
        if step == SecurityStep::Cpu && !self.shows_nothing { Err(Errno::EACCES) } else { Ok(()) }
    }

    fn bpf_program(&self, _caller: TaskId, _fd: i32) -> Result<BpfProgram, Errno> {
        self.program.clone()
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
