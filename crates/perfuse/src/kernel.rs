//! The seam between measuring and the kernel that serves it: the system calls of `perf_event_open(2)`
//! and of the descriptors it returns, as a trait. Everything above is written against it and does not
//! know which kernel answers: a [`Perf`](crate::Perf) does.

mod asked;
pub(crate) mod surroundings;

pub use crate::topology::{Seat, SharedCache};
pub use perfuse_sys::poll::Readiness;
pub use perfuse_sys::{Errno, Mapping, Protection};
pub use surroundings::{Surroundings, ThisMachine};

use crate::SignalOwner;
use crate::call::{Call, Subject};
use crate::diagnosis::Diagnosis;
use crate::support::Support;
use perfuse_abi::{Attr, IocFlags, OpenFlags, ioctl as code};
use std::ffi::CStr;
use std::fmt::Debug;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

/// A perf_event subsystem. Descriptors are real ones in every implementation, so that they can be
/// polled; every other call on an event's descriptor goes through the kernel that opened it.
pub trait Kernel: Debug + Send + Sync {
    /// Its name for people: `Linux`.
    fn name(&self) -> &str;

    /// In which ways it differs from other kernels, beyond what [`support`](Self::support) tells.
    fn facts(&self) -> KernelFacts;

    /// The time, the cpus and the tasks around its events: by default those of the machine that this program runs on.
    fn surroundings(&self) -> &dyn Surroundings {
        &ThisMachine
    }

    /// `perf_event_open(2)`. On `E2BIG` the size this kernel knows stands in `attr.size`.
    fn perf_event_open(
        &self,
        attr: &mut Attr,
        pid: i32,
        cpu: i32,
        group: Option<BorrowedFd<'_>>,
        flags: OpenFlags,
    ) -> Result<OwnedFd, Errno>;

    /// [`perf_event_open`](Self::perf_event_open) with an attr of any size, as bytes in native order.
    fn perf_event_open_bytes(&self, attr: &mut [u8], pid: i32, cpu: i32) -> Result<OwnedFd, Errno>;

    /// `read(2)`: returns how many words were filled.
    fn read(&self, event: BorrowedFd<'_>, words: &mut [u64]) -> Result<usize, Errno>;

    /// `ioctl(2)`. Returns the event's id for [`Request::Id`], otherwise 0.
    fn ioctl(&self, event: BorrowedFd<'_>, request: Request<'_>) -> Result<u64, Errno>;

    /// `mmap(2)` of the control page and ring (offset 0), or of the AUX area.
    fn mmap(
        &self,
        event: BorrowedFd<'_>,
        len: usize,
        protection: Protection,
        offset: u64,
    ) -> Result<Mapping, Errno>;

    /// `prctl(2)`: switches every event of the calling thread on or off.
    fn prctl(&self, enable: bool) -> Result<(), Errno>;

    /// `close(2)`.
    fn close(&self, event: OwnedFd) {
        drop(event);
    }

    /// Takes back that the event's descriptor is readable, as `poll(2)` or its like has told so: see
    /// [`Counter::acknowledge`](crate::Counter::acknowledge). Linux does so by itself (rule G24).
    fn acknowledge(&self, event: BorrowedFd<'_>) {
        let _ = event;
    }

    /// `fcntl(2)`: each overflow sends a signal, see [`Counter::deliver_signal`](crate::Counter::deliver_signal).
    fn deliver_signal(&self, event: BorrowedFd<'_>, owner: SignalOwner, signal: i32) -> Result<(), Errno> {
        perfuse_sys::signal::deliver(event, owner, signal)
    }

    /// How many threads and processes were born to those that it measures, up to now, if each birth costs them a stop, as by
    /// the embedded kernel; otherwise none.
    fn births(&self) -> u64 {
        0
    }

    /// News about the measured processes that its user should know; each is told once.
    fn take_notices(&self) -> Vec<Notice> {
        Vec::new()
    }

    /// The parts of the interface that this kernel knows, asked once.
    fn support(&self) -> &Support;

    /// The reason for an errno, where this kernel has reasons that Linux has not.
    fn explain(&self, call: &Call, subject: Option<&Subject>, errno: Errno) -> Option<Diagnosis> {
        let _ = (call, subject, errno);
        None
    }
}

/// In which ways a kernel differs from others. By default in none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelFacts {
    /// It lives in this process, and measures by `ptrace(2)`.
    pub is_embedded: bool,
    /// Processes that are born under an inherited named probe cannot run.
    pub inherited_probes_break_forks: bool,
    /// Its tasks exist in its own memory alone: no file and no symbol of this machine is theirs.
    pub is_simulated: bool,
}

impl KernelFacts {
    /// Those of a kernel that lives in this process.
    pub fn embedded() -> Self {
        KernelFacts { is_embedded: true, ..KernelFacts::default() }
    }

    /// Those of a kernel that measures a machine of its own making.
    pub fn simulated() -> Self {
        KernelFacts { is_simulated: true, ..KernelFacts::default() }
    }

    /// Those of Linux.
    pub fn linux() -> Self {
        KernelFacts { inherited_probes_break_forks: true, ..KernelFacts::default() }
    }
}

/// Something about those that were measured.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// This program missed rights that exec gives (set-user-id, set-group-id, capabilities of files): Linux gives them to
    /// no program whose tracer could not have them (`CAP_SYS_PTRACE`). The first 16 programs are told.
    Deprived(PathBuf),
    /// Traps, watchpoints or unfinished transfers were in processes that go on if this one is killed, and the process that
    /// would take those back then could not be started. Told once.
    Unguarded,
    /// Something that a kernel of another's making tells, in words.
    Words(String),
}

/// A kernel before another one, which answers all that is not overridden.
pub trait Wrap: Debug + Send + Sync {
    /// The other one.
    fn inner(&self) -> &dyn Kernel;

    /// [`Kernel::name`].
    fn name(&self) -> &str {
        self.inner().name()
    }

    /// [`Kernel::perf_event_open`].
    #[expect(clippy::missing_errors_doc, reason = "the other one's")]
    fn perf_event_open(
        &self,
        attr: &mut Attr,
        pid: i32,
        cpu: i32,
        group: Option<BorrowedFd<'_>>,
        flags: OpenFlags,
    ) -> Result<OwnedFd, Errno> {
        self.inner().perf_event_open(attr, pid, cpu, group, flags)
    }

    /// [`Kernel::perf_event_open_bytes`].
    #[expect(clippy::missing_errors_doc, reason = "the other one's")]
    fn perf_event_open_bytes(&self, attr: &mut [u8], pid: i32, cpu: i32) -> Result<OwnedFd, Errno> {
        self.inner().perf_event_open_bytes(attr, pid, cpu)
    }

    /// [`Kernel::read`].
    #[expect(clippy::missing_errors_doc, reason = "the other one's")]
    fn read(&self, event: BorrowedFd<'_>, words: &mut [u64]) -> Result<usize, Errno> {
        self.inner().read(event, words)
    }

    /// [`Kernel::ioctl`].
    #[expect(clippy::missing_errors_doc, reason = "the other one's")]
    fn ioctl(&self, event: BorrowedFd<'_>, request: Request<'_>) -> Result<u64, Errno> {
        self.inner().ioctl(event, request)
    }

    /// [`Kernel::mmap`].
    #[expect(clippy::missing_errors_doc, reason = "the other one's")]
    fn mmap(
        &self,
        event: BorrowedFd<'_>,
        len: usize,
        protection: Protection,
        offset: u64,
    ) -> Result<Mapping, Errno> {
        self.inner().mmap(event, len, protection, offset)
    }

    /// [`Kernel::close`].
    fn close(&self, event: OwnedFd) {
        self.inner().close(event);
    }

    /// [`Kernel::support`].
    fn support(&self) -> &Support {
        self.inner().support()
    }
}

impl<W: Wrap> Kernel for W {
    fn name(&self) -> &str {
        Wrap::name(self)
    }

    fn facts(&self) -> KernelFacts {
        self.inner().facts()
    }

    fn surroundings(&self) -> &dyn Surroundings {
        self.inner().surroundings()
    }

    fn births(&self) -> u64 {
        self.inner().births()
    }

    fn take_notices(&self) -> Vec<Notice> {
        self.inner().take_notices()
    }

    fn perf_event_open(
        &self,
        attr: &mut Attr,
        pid: i32,
        cpu: i32,
        group: Option<BorrowedFd<'_>>,
        flags: OpenFlags,
    ) -> Result<OwnedFd, Errno> {
        Wrap::perf_event_open(self, attr, pid, cpu, group, flags)
    }

    fn perf_event_open_bytes(&self, attr: &mut [u8], pid: i32, cpu: i32) -> Result<OwnedFd, Errno> {
        Wrap::perf_event_open_bytes(self, attr, pid, cpu)
    }

    fn read(&self, event: BorrowedFd<'_>, words: &mut [u64]) -> Result<usize, Errno> {
        Wrap::read(self, event, words)
    }

    fn ioctl(&self, event: BorrowedFd<'_>, request: Request<'_>) -> Result<u64, Errno> {
        Wrap::ioctl(self, event, request)
    }

    fn mmap(
        &self,
        event: BorrowedFd<'_>,
        len: usize,
        protection: Protection,
        offset: u64,
    ) -> Result<Mapping, Errno> {
        Wrap::mmap(self, event, len, protection, offset)
    }

    fn prctl(&self, enable: bool) -> Result<(), Errno> {
        self.inner().prctl(enable)
    }

    fn close(&self, event: OwnedFd) {
        Wrap::close(self, event);
    }

    fn acknowledge(&self, event: BorrowedFd<'_>) {
        self.inner().acknowledge(event);
    }

    fn deliver_signal(&self, event: BorrowedFd<'_>, owner: SignalOwner, signal: i32) -> Result<(), Errno> {
        self.inner().deliver_signal(event, owner, signal)
    }

    fn support(&self) -> &Support {
        Wrap::support(self)
    }

    fn explain(&self, call: &Call, subject: Option<&Subject>, errno: Errno) -> Option<Diagnosis> {
        self.inner().explain(call, subject, errno)
    }
}

/// An ioctl of an event with its argument.
#[derive(Debug)]
#[non_exhaustive]
pub enum Request<'a> {
    /// Switch on.
    Enable(IocFlags),
    /// Switch off.
    Disable(IocFlags),
    /// Allow more overflows.
    Refresh(i32),
    /// Set the count to zero.
    Reset(IocFlags),
    /// Set the period or frequency.
    Period(u64),
    /// Redirect records.
    SetOutput(Option<BorrowedFd<'a>>),
    /// Set a filter.
    SetFilter(&'a CStr),
    /// Get the id.
    Id,
    /// Attach a BPF program.
    SetBpf(BorrowedFd<'a>),
    /// Pause or resume the ring.
    PauseOutput(bool),
    /// List attached BPF programs.
    QueryBpf(&'a mut Vec<u32>),
    /// Move a breakpoint.
    ModifyAttributes(&'a Attr),
}

impl Request<'_> {
    /// The ioctl's number, see [`abi::ioctl`](perfuse_abi::ioctl).
    pub fn code(&self) -> u32 {
        match self {
            Request::Enable(_) => code::ENABLE,
            Request::Disable(_) => code::DISABLE,
            Request::Refresh(_) => code::REFRESH,
            Request::Reset(_) => code::RESET,
            Request::Period(_) => code::PERIOD,
            Request::SetOutput(_) => code::SET_OUTPUT,
            Request::SetFilter(_) => code::SET_FILTER,
            Request::Id => code::ID,
            Request::SetBpf(_) => code::SET_BPF,
            Request::PauseOutput(_) => code::PAUSE_OUTPUT,
            Request::QueryBpf(_) => code::QUERY_BPF,
            Request::ModifyAttributes(_) => code::MODIFY_ATTRIBUTES,
        }
    }
}
