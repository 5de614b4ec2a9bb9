//! The scopes of a measurement: a program with all it starts, a process with all its threads,
//! the whole machine. Each becomes the list of [`Target`]s that it takes.

use crate::call::Call;
use crate::command::HeldCommand;
use crate::error::{Error, Result};
use crate::kernel::{Surroundings, ThisMachine};
use crate::options::Inherit;
use crate::pmu::online_cpus;
use crate::target::{Cgroup, Target};
use perfuse_sys::Errno;
use std::io;
use std::path::PathBuf;

/// Targets that together are one thing to a person.
#[derive(Clone, Debug)]
pub struct Scope {
    slots: Vec<Slot>,
    inherits: bool,
    by_thread: bool,
}

/// One target of a [`Scope`], with what tells it from the others.
#[derive(Clone, Debug)]
pub struct Slot {
    /// The target.
    pub target: Target,
    /// The process, if it is a thread of one that was asked for.
    pub pid: Option<u32>,
}

impl Slot {
    pub(crate) fn new(target: impl Into<Target>) -> Self {
        Slot { target: target.into(), pid: None }
    }

    /// The cpu, if it is one.
    pub fn cpu(&self) -> Option<u32> {
        self.target.bound_cpu()
    }

    /// The thread, if it is one.
    pub fn tid(&self) -> Option<u32> {
        self.target.tid()
    }
}

impl Scope {
    /// A program and everything it starts.
    pub fn command(command: &HeldCommand) -> Self {
        Scope { slots: vec![Slot::new(command.target())], inherits: true, by_thread: false }
    }

    /// These threads, and what they start from now on.
    pub fn threads(tids: &[u32]) -> Self {
        let slots = tids.iter().map(|&tid| Slot::new(Target::thread(tid))).collect();
        Scope { slots, inherits: true, by_thread: false }
    }

    /// These processes: all threads they have now, and what those start from now on. `ESRCH` where one
    /// does not exist.
    pub fn processes(pids: &[u32]) -> Result<Self> {
        Self::processes_of(&ThisMachine, pids)
    }

    /// The same, of the machine that a kernel [measures](crate::kernel::Kernel::surroundings).
    #[expect(clippy::missing_errors_doc, reason = "as for processes")]
    pub fn processes_of(surroundings: &dyn Surroundings, pids: &[u32]) -> Result<Self> {
        let mut slots = Vec::new();
        for &pid in pids {
            let tids = surroundings.threads(pid).map_err(|error| no_such_process(pid, &error))?;
            slots.extend(
                tids.into_iter().map(|tid| Slot { pid: Some(pid), ..Slot::new(Target::thread(tid)) }),
            );
        }
        Ok(Scope { slots, inherits: true, by_thread: false })
    }

    /// Everything that runs on these cpus.
    pub fn cpus(cpus: &[u32]) -> Self {
        let slots = cpus.iter().map(|&cpu| Slot::new(Target::cpu(cpu))).collect();
        Scope { slots, inherits: false, by_thread: false }
    }

    /// Everything that runs on the machine: every cpu that is online now.
    pub fn system() -> Self {
        Self::cpus(&online_cpus())
    }

    /// The tasks of a cgroup, on these cpus.
    pub fn cgroup(cgroup: &Cgroup, cpus: &[u32]) -> Self {
        let slots = cpus.iter().map(|&cpu| Slot::new(Target::cgroup(cgroup, cpu))).collect();
        Scope { slots, inherits: false, by_thread: false }
    }

    /// The targets.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Whether events of this scope are to be inherited by what its tasks start.
    pub fn inherits(&self) -> bool {
        self.inherits
    }

    /// How events of this scope are inherited.
    pub(crate) fn inherit(&self) -> Inherit {
        if self.inherits { Inherit::All } else { Inherit::No }
    }

    /// The same scope without what its tasks start.
    #[must_use]
    pub fn without_children(mut self) -> Self {
        self.inherits = false;
        self
    }

    /// Each thread by itself: without what it starts, and, in a [`SamplerSet`](crate::SamplerSet), with one
    /// ring for it, wherever it runs, in place of one for each cpu.
    #[must_use]
    pub fn by_thread(self) -> Self {
        Scope { by_thread: true, ..self.without_children() }
    }

    /// Whether threads have rings of their own.
    pub(crate) fn is_by_thread(&self) -> bool {
        self.by_thread
    }
}

/// The error for a process whose threads cannot be listed: told as the open that would have failed.
fn no_such_process(pid: u32, error: &io::Error) -> Error {
    if error.kind() == io::ErrorKind::NotFound {
        let attr = crate::Builder::new(perfuse_abi::Software::DUMMY).attr();
        let (pid, cpu, flags) = Target::from(Target::thread(pid)).arguments();
        return Error::new(Call::Open { attr, pid, cpu, leader: None, flags }, Errno::ESRCH);
    }
    crate::sysfs::file_error(PathBuf::from(format!("/proc/{pid}/task")), Some(error))
}
