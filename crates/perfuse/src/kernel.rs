//! The seam between measuring and the kernel that serves it: the system calls of `perf_event_open(2)`
//! and of the descriptors it returns, as a trait. Everything above is written against it and does not
//! know which kernel answers.

pub use crate::embedded::{OWN_PMUS, embedded, step_for_instructions, take_deprived, take_unguarded};
pub use perfuse_sys::{Errno, Mapping, Protection};

use crate::SignalOwner;
use crate::diagnosis::Diagnosis;
use crate::error::{Call, Subject};
use crate::support::Support;
use perfuse_abi::{Attr, IocFlags, OpenFlags, ioctl as code};
use perfuse_sys::{ioctl, prctl};
use std::ffi::CStr;
use std::fmt::Debug;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A perf_event subsystem. Descriptors are real ones in every implementation, so that they can be
/// polled; every other call on an event's descriptor goes through the kernel that opened it.
pub trait Kernel: Debug + Send + Sync {
    /// What people call it: `Linux`.
    fn name(&self) -> &str;

    /// In which ways it differs from other kernels, beyond what [`support`](Self::support) tells.
    fn facts(&self) -> KernelFacts;

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

    /// `poll(2)` of the event's descriptor has told that it is readable. Linux takes that back by itself
    /// (rule G20).
    fn polled(&self, event: BorrowedFd<'_>) {
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

    /// What of the interface this kernel knows, asked once.
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
}

impl KernelFacts {
    /// Those of a kernel that lives in this process.
    pub fn embedded() -> Self {
        KernelFacts { is_embedded: true, ..KernelFacts::default() }
    }

    /// Those of Linux.
    pub fn linux() -> Self {
        KernelFacts { inherited_probes_break_forks: true, ..KernelFacts::default() }
    }
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

    fn births(&self) -> u64 {
        self.inner().births()
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

    fn polled(&self, event: BorrowedFd<'_>) {
        self.inner().polled(event);
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

/// The running Linux kernel.
#[derive(Debug, Default)]
pub struct Linux {
    support: OnceLock<Support>,
}

/// The running Linux kernel, shared by all who use it.
pub fn linux() -> Arc<dyn Kernel> {
    static LINUX: OnceLock<Arc<Linux>> = OnceLock::new();
    LINUX.get_or_init(Arc::default).clone()
}

/// Which kernel is asked where none is named.
static CHOSEN: Mutex<Option<Arc<dyn Kernel>>> = Mutex::new(None);

/// The name of the environment variable that [`current`] follows.
pub const VARIABLE: &str = "PERFUSE_KERNEL";

/// The kernel that is asked where none is named: the one that was [chosen](choose), or the one that the
/// environment variable `PERFUSE_KERNEL` names (`linux` or `embedded`), or the running Linux.
pub fn current() -> Arc<dyn Kernel> {
    let named = || match std::env::var(VARIABLE).as_deref() {
        Ok("embedded") => embedded().unwrap_or_else(linux),
        _ => linux(),
    };
    CHOSEN.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(named).clone()
}

/// Sets the kernel that is asked where none is named, for the whole process, from now on.
pub fn choose(kernel: Arc<dyn Kernel>) {
    *CHOSEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(kernel);
}

impl Kernel for Linux {
    fn name(&self) -> &str {
        "Linux"
    }

    fn facts(&self) -> KernelFacts {
        KernelFacts::linux()
    }

    fn perf_event_open(
        &self,
        attr: &mut Attr,
        pid: i32,
        cpu: i32,
        group: Option<BorrowedFd<'_>>,
        flags: OpenFlags,
    ) -> Result<OwnedFd, Errno> {
        perfuse_sys::perf_event_open(attr, pid, cpu, group, flags)
    }

    fn perf_event_open_bytes(&self, attr: &mut [u8], pid: i32, cpu: i32) -> Result<OwnedFd, Errno> {
        perfuse_sys::perf_event_open_bytes(attr, pid, cpu, None, OpenFlags::FD_CLOEXEC)
    }

    #[inline]
    fn read(&self, event: BorrowedFd<'_>, words: &mut [u64]) -> Result<usize, Errno> {
        perfuse_sys::read(event, words)
    }

    fn ioctl(&self, event: BorrowedFd<'_>, request: Request<'_>) -> Result<u64, Errno> {
        match request {
            Request::Enable(flags) => ioctl::enable(event, flags)?,
            Request::Disable(flags) => ioctl::disable(event, flags)?,
            Request::Refresh(overflows) => ioctl::refresh(event, overflows)?,
            Request::Reset(flags) => ioctl::reset(event, flags)?,
            Request::Period(period) => ioctl::period(event, period)?,
            Request::SetOutput(target) => ioctl::set_output(event, target)?,
            Request::SetFilter(filter) => ioctl::set_filter(event, filter)?,
            Request::Id => return ioctl::id(event),
            Request::SetBpf(program) => ioctl::set_bpf(event, program)?,
            Request::PauseOutput(pause) => ioctl::pause_output(event, pause)?,
            Request::QueryBpf(ids) => *ids = ioctl::query_bpf(event)?,
            Request::ModifyAttributes(attr) => ioctl::modify_attributes(event, attr)?,
        }
        Ok(0)
    }

    fn mmap(
        &self,
        event: BorrowedFd<'_>,
        len: usize,
        protection: Protection,
        offset: u64,
    ) -> Result<Mapping, Errno> {
        Mapping::new(event, len, protection, offset)
    }

    fn prctl(&self, enable: bool) -> Result<(), Errno> {
        if enable { prctl::task_perf_events_enable() } else { prctl::task_perf_events_disable() }
    }

    fn support(&self) -> &Support {
        self.support.get_or_init(|| Support::probe(self))
    }
}
