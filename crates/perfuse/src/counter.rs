//! One event that is counted.

use crate::call::Call;
use crate::count::{Count, times_of};
use crate::error::Result;
use crate::event::Event;
use crate::handle::Handle;
use crate::kernel::Request;
use crate::options::{GivenUp, Inherit};
use perfuse_abi::read::ReadValues;
use perfuse_abi::{Attr, AttrFlags, Breakpoint, IocFlags, ReadFormat};
use perfuse_sys::Errno;
use perfuse_sys::poll::Readiness;
use perfuse_sys::signal::Owner;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// An open event. Closed on drop; the descriptor is closed on exec too.
///
/// ```
/// # if perfuse::Perf::linux_refuses().is_some() { return Ok(()) }
/// use perfuse::{Counter, abi::Software};
///
/// let mut faults = Counter::new(Software::PAGE_FAULTS)?;
/// faults.enable()?;
/// let touched = vec![1u8; 1 << 20];
/// println!("{} page faults", faults.read()?.value);
/// # drop(touched);
/// # Ok::<(), perfuse::Error>(())
/// ```
#[derive(Debug)]
pub struct Counter {
    pub(crate) handle: Handle,
    event: Event,
    given_up: Vec<GivenUp>,
}

impl Counter {
    pub(crate) fn from_handle(handle: Handle, event: Event, given_up: Vec<GivenUp>) -> Self {
        Counter { handle, event, given_up }
    }

    /// The event that it counts.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// The attr the kernel accepted.
    pub fn attr(&self) -> &Attr {
        self.handle.attr()
    }

    /// The preferences that had to be given up on opening; usually none.
    pub fn given_up(&self) -> &[GivenUp] {
        &self.given_up
    }

    /// Starts counting, inherited copies included.
    pub fn enable(&mut self) -> Result<()> {
        self.handle.enable(IocFlags::empty())
    }

    /// Stops counting, inherited copies included.
    pub fn disable(&mut self) -> Result<()> {
        self.handle.disable(IocFlags::empty())
    }

    /// The same of one of many: one whose PMU has gone for good has stopped.
    pub(crate) fn stop(&self) -> Result<()> {
        match self.handle.disable(IocFlags::empty()) {
            Err(error) if error.errno() == Errno::ENODEV => Ok(()),
            stopped => stopped,
        }
    }

    /// Sets the count to zero. The times go on, as do counts that exited children left behind.
    pub fn reset(&mut self) -> Result<()> {
        self.handle.reset(IocFlags::empty())
    }

    /// The count and its times.
    ///
    /// A pinned event that found no room on the PMU cannot be read: the error's errno is `ENODATA`, which
    /// stands for the end of file that Linux returns.
    #[inline]
    pub fn read(&self) -> Result<Count> {
        let format = self.attr().read_format;
        if format.contains(ReadFormat::GROUP) {
            return self.read_out_of_group();
        }
        let mut words = [0; 5];
        let refused = |errno| Err(self.handle.error(Call::Read, errno));
        match self.handle.read(&mut words) {
            Ok(0) => refused(Errno::ENODATA),
            // The usual format as a constant, so that the compiler knows where everything is.
            Ok(5) if format == Count::FORMAT => Ok(Count::single(&words, Count::FORMAT).unwrap_or_default()),
            Ok(filled) => match Count::single(&words[..filled.min(words.len())], format) {
                Some(count) => Ok(count),
                None => refused(Errno::EIO),
            },
            Err(errno) => refused(errno),
        }
    }

    /// For an attr that was changed to read the whole group through each member.
    #[cold]
    fn read_out_of_group(&self) -> Result<Count> {
        let mut words = vec![0; 2048];
        let refused = |errno| self.handle.error(Call::Read, errno);
        let filled = match self.handle.read(&mut words).map_err(refused)? {
            0 => return Err(refused(Errno::ENODATA)),
            filled => &words[..filled.min(words.len())],
        };
        let values = ReadValues::from_words(filled, self.attr().read_format);
        let values = values.map_err(|_| refused(Errno::EIO))?;
        let id = self.id()?;
        let own = values.entries().find(|entry| entry.id == Some(id)).or(values.get(0));
        Ok(Count::new(own.unwrap_or_default(), times_of(&values)))
    }

    /// The event's id, as it stands in records.
    pub fn id(&self) -> Result<u64> {
        self.handle.ioctl(Request::Id)
    }

    /// A new period; for an event with a frequency, a new frequency.
    pub fn set_period(&mut self, period: u64) -> Result<()> {
        self.handle.ioctl(Request::Period(period)).map(drop)
    }

    /// Lets the event overflow `overflows` more times and then switch itself off. Adds to what is left.
    pub fn refresh(&mut self, overflows: i32) -> Result<()> {
        self.handle.ioctl(Request::Refresh(overflows)).map(drop)
    }

    /// Counts only tracepoint hits that match, such as `prev_pid == 7 && next_comm ~ "rcu*"`; for a PMU
    /// that traces, only these addresses. `EINVAL` where it is wrong or the event takes none.
    pub fn set_filter(&mut self, filter: &str) -> Result<()> {
        let code = perfuse_abi::ioctl::SET_FILTER;
        let filter = CString::new(filter).map_err(|_| self.handle.error(Call::Ioctl(code), Errno::EINVAL))?;
        self.handle.set_filter(&filter)
    }

    /// Runs a loaded BPF program at each hit or overflow.
    pub fn set_bpf(&mut self, program: BorrowedFd<'_>) -> Result<()> {
        self.handle.ioctl(Request::SetBpf(program)).map(drop)
    }

    /// Ids of the BPF programs on the event's tracepoint.
    pub fn query_bpf(&self) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        self.handle.ioctl(Request::QueryBpf(&mut ids))?;
        Ok(ids)
    }

    /// Moves a breakpoint.
    pub fn move_breakpoint(&mut self, access: Breakpoint, addr: u64, len: u64) -> Result<()> {
        let mut attr = *self.attr();
        (attr.bp_type, attr.config1, attr.config2) = (access, addr, len);
        self.handle.ioctl(Request::ModifyAttributes(&attr))?;
        self.handle.subject.attr = attr;
        self.event = Event::Breakpoint { access, addr, len };
        Ok(())
    }

    /// Sends this event's records to the ring of another event on the same target, or (`None`) nowhere.
    pub fn set_output(&mut self, ring: Option<&Counter>) -> Result<()> {
        self.handle.ioctl(Request::SetOutput(ring.map(AsFd::as_fd))).map(drop)
    }

    /// Stops or resumes writing to the event's ring; what is not written meanwhile counts as lost.
    pub fn pause_output(&mut self, pause: bool) -> Result<()> {
        self.handle.ioctl(Request::PauseOutput(pause)).map(drop)
    }

    /// Sends `signal` to `owner` at each overflow, with the descriptor in `si_fd` and `POLL_IN` in
    /// `si_code` (`POLL_HUP` for the last one of a [`refresh`](Self::refresh), but for the embedded kernel's).
    pub fn deliver_signal(&mut self, owner: Owner, signal: i32) -> Result<()> {
        self.handle.deliver_signal(owner, signal)
    }

    /// Waits until the event's ring asks to be read or its task is gone. An event without a ring shows a
    /// hang-up at once.
    pub fn poll(&self, timeout: Option<Duration>) -> Result<Readiness> {
        let found = self
            .handle
            .surroundings()
            .poll(&[self.as_fd()], timeout)
            .map_err(|errno| self.handle.error(Call::Poll, errno))?;
        self.handle.polled(found[0]);
        Ok(found[0])
    }

    /// Tells that an event loop of your own (poll, epoll, an async runtime) has heard that the descriptor is readable, so
    /// that the next wake-up is told again. To be called each time, before the records are read. Linux takes readiness
    /// back by itself when it tells it (rule G24), and nothing happens; descriptors of the embedded kernel are pipes, which
    /// would stay readable. Waits of this library do it.
    pub fn acknowledge(&self) {
        self.handle.acknowledge();
    }

    /// Whether new tasks of the measured one are counted too.
    pub fn inherit(&self) -> Inherit {
        match self.attr().flags {
            flags if !flags.contains(AttrFlags::INHERIT) => Inherit::No,
            flags if flags.contains(AttrFlags::INHERIT_THREAD) => Inherit::Threads,
            _ => Inherit::All,
        }
    }
}

impl AsFd for Counter {
    /// For poll, epoll and async runtimes, which [acknowledge](Counter::acknowledge) that it was readable. Reading and
    /// ioctls belong to the methods.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}
