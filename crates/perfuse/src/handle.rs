//! An open event: its descriptor, the kernel that serves it, and what was asked for. Counters, groups
//! and samplers are made of these.

use crate::SignalOwner;
use crate::call::{Call, Subject};
use crate::error::{Error, Result};
use crate::kernel::{Kernel, Request, Surroundings};
use perfuse_abi::{Attr, IocFlags};
use perfuse_sys::poll::Readiness;
use perfuse_sys::thread::on_cpu;
use perfuse_sys::{Errno, Mapping, Protection};
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Handle {
    kernel: Arc<dyn Kernel>,
    /// There until it is given back to the kernel on drop.
    fd: Option<OwnedFd>,
    pub(crate) subject: Subject,
}

impl Handle {
    pub(crate) fn new(kernel: Arc<dyn Kernel>, fd: OwnedFd, subject: Subject) -> Self {
        Handle { kernel, fd: Some(fd), subject }
    }

    pub(crate) fn attr(&self) -> &Attr {
        &self.subject.attr
    }

    /// The error of a call on this event.
    #[cold]
    pub(crate) fn error(&self, call: Call, errno: Errno) -> Error {
        let told = self.kernel.explain(&call, Some(&self.subject), errno);
        Error::told(told, call, self.subject, errno)
    }

    #[inline]
    pub(crate) fn read(&self, words: &mut [u64]) -> Result<usize, Errno> {
        self.kernel.read(self.as_fd(), words)
    }

    /// The time and the tasks around it.
    pub(crate) fn surroundings(&self) -> &dyn Surroundings {
        self.kernel.surroundings()
    }

    /// Takes note of the answer that `poll(2)` gave for its descriptor.
    pub(crate) fn polled(&self, found: Readiness) {
        if found.readable {
            self.acknowledge();
        }
    }

    pub(crate) fn acknowledge(&self) {
        self.kernel.acknowledge(self.as_fd());
    }

    pub(crate) fn deliver_signal(&self, owner: SignalOwner, signal: i32) -> Result<()> {
        let delivered = self.kernel.deliver_signal(self.as_fd(), owner, signal);
        delivered.map_err(|errno| self.error(Call::Fcntl, errno))
    }

    pub(crate) fn ioctl(&self, request: Request<'_>) -> Result<u64> {
        let code = request.code();
        self.kernel.ioctl(self.as_fd(), request).map_err(|errno| self.error(Call::Ioctl(code), errno))
    }

    pub(crate) fn enable(&self, flags: IocFlags) -> Result<()> {
        let enable = || self.ioctl(Request::Enable(flags)).map(drop);
        // Where a task of the cgroup is on the cpu meanwhile, Linux (6.18) takes a time of long ago for the event's first one. While
        // this thread is there no other is.
        match u32::try_from(self.subject.cpu) {
            Ok(cpu) if self.subject.cgroup => on_cpu(cpu, enable),
            _ => enable(),
        }
    }

    pub(crate) fn disable(&self, flags: IocFlags) -> Result<()> {
        self.ioctl(Request::Disable(flags)).map(drop)
    }

    pub(crate) fn reset(&self, flags: IocFlags) -> Result<()> {
        self.ioctl(Request::Reset(flags)).map(drop)
    }

    pub(crate) fn set_filter(&self, filter: &CStr) -> Result<()> {
        self.ioctl(Request::SetFilter(filter)).map(drop)
    }

    pub(crate) fn mmap(&self, bytes: usize, protection: Protection, offset: u64) -> Result<Mapping> {
        let mapping = self.kernel.mmap(self.as_fd(), bytes, protection, offset);
        mapping.map_err(|errno| self.error(Call::Mmap { bytes, offset }, errno))
    }
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("the descriptor is there until drop").as_fd()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(fd) = self.fd.take() {
            self.kernel.close(fd);
        }
    }
}
