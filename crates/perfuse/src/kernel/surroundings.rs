//! The surroundings of a kernel's events: the time that passes, the cpus, and the tasks that may be measured, as those who
//! measure ask for them. With Linux and the embedded kernel they are the running machine's; a kernel whose tasks are
//! elsewhere, such as a simulated one, has its own.

use crate::error::Error;
use crate::pmu::online_cpus;
use crate::target::Cgroup;
use crate::topology::{self, Seat, SharedCache};
use perfuse_proc::{Stat, read};
use perfuse_sys::Errno;
use perfuse_sys::poll::{Readiness, poll};
use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// The machine that a kernel measures. By default it is the one that this program runs on.
pub trait Surroundings: Debug + Send + Sync {
    /// The time, by which delays, intervals and limits are measured.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// `poll(2)`: waits until one of the descriptors is ready, or the time is over; what was found for each.
    fn poll(&self, fds: &[BorrowedFd<'_>], timeout: Option<Duration>) -> Result<Vec<Readiness>, Errno> {
        poll(fds, timeout)
    }

    /// Whether nothing will ever happen there again.
    fn is_over(&self) -> bool {
        false
    }

    /// The cpus that are online, in order.
    fn online_cpus(&self) -> Vec<u32> {
        online_cpus()
    }

    /// Where a cpu sits; zeros where nobody tells.
    fn seat(&self, cpu: u32) -> Seat {
        Seat::of(cpu)
    }

    /// The NUMA node of a cpu; 0 where nobody tells.
    fn node(&self, cpu: u32) -> u32 {
        topology::node(cpu)
    }

    /// The cluster of a cpu, of cores that share something below the die; 0 where nobody tells.
    fn cluster(&self, cpu: u32) -> u32 {
        topology::cluster(cpu)
    }

    /// The cache of data of this level, or of the last one, that a cpu shares with others.
    fn cache(&self, cpu: u32, level: Option<u32>) -> Option<SharedCache> {
        topology::cache(cpu, level)
    }

    /// All processes, in order.
    fn processes(&self) -> Vec<u32> {
        read::processes()
    }

    /// The threads of a process, in order.
    ///
    /// # Errors
    ///
    /// [`NotFound`](io::ErrorKind::NotFound) where there is no such process.
    fn threads(&self, pid: u32) -> io::Result<Vec<u32>> {
        read::threads(pid)
    }

    /// The process that a thread belongs to.
    fn process_of(&self, tid: u32) -> Option<u32> {
        read::process_of(tid)
    }

    /// Whether a thread exists, and is more than an entry that its parent has not waited for.
    fn is_alive(&self, tid: u32) -> bool {
        read::is_alive(tid)
    }

    /// The name of a thread; nothing once it is gone.
    fn name(&self, tid: u32) -> Vec<u8> {
        read::name(tid)
    }

    /// The name of a thread of a process, and the parent of that process; `None` once it is gone.
    fn name_and_parent(&self, pid: u32, tid: u32) -> Option<(Vec<u8>, u32)> {
        let text = read::stat(pid, tid)?;
        let stat = Stat::parse(&text)?;
        Some((stat.name.to_vec(), stat.parent()?))
    }

    /// The memory of a process, as the text of `/proc/PID/maps`.
    ///
    /// # Errors
    ///
    /// It is gone, or another user's.
    fn maps(&self, pid: u32) -> io::Result<Vec<u8>> {
        read::maps(pid)
    }

    /// A cgroup by its name, held open.
    ///
    /// # Errors
    ///
    /// There is none, or it may not be opened.
    fn cgroup(&self, name: &str) -> Result<Cgroup, Error> {
        Cgroup::open(name)
    }
}

/// The machine that this program runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisMachine;

impl Surroundings for ThisMachine {}

/// Waits as [`Surroundings::poll`] does, up to a moment that may be far.
pub(crate) fn until(
    surroundings: &dyn Surroundings,
    fds: &[BorrowedFd<'_>],
    deadline: Option<Instant>,
) -> Result<(Vec<Readiness>, bool), Errno> {
    let left = deadline.map(|deadline| deadline.saturating_duration_since(surroundings.now()));
    let found = surroundings.poll(fds, left)?;
    Ok((found, left == Some(Duration::ZERO)))
}
