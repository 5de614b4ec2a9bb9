//! Linux, the kernel that runs: its system calls.

use crate::kernel::{Kernel, KernelFacts, Request};
use crate::support::Support;
use perfuse_abi::{Attr, OpenFlags};
use perfuse_sys::{Errno, Mapping, Protection, ioctl, prctl};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::OnceLock;

/// The running Linux kernel.
#[derive(Debug, Default)]
pub(crate) struct Linux {
    support: OnceLock<Support>,
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
