//! What a program may ask of whoever runs it: the [`World`]. Each question has an answer of its own for owners that have none, so
//! that a world is as long as what it knows.

use crate::map::MapId;
use alloc::vec::Vec;
use perfuse_abi::Errno;

/// The surroundings of a run: the owner's answers to helpers.
#[allow(unused_variables, reason = "the answers of a world that knows nothing")]
pub trait World {
    /// Nanoseconds of the monotonic clock (`bpf_ktime_get_ns` and its kin).
    fn time_ns(&mut self) -> u64 {
        0
    }

    /// Nanoseconds since the machine was started, with the time that it slept.
    fn boot_time_ns(&mut self) -> u64 {
        self.time_ns()
    }

    /// Nanoseconds of atomic time.
    fn tai_ns(&mut self) -> u64 {
        self.time_ns()
    }

    /// Ticks of the kernel's clock.
    fn jiffies(&mut self) -> u64 {
        self.time_ns() / 4_000_000
    }

    /// The process in the high half, the thread in the low half.
    fn pid_tgid(&mut self) -> u64 {
        0
    }

    /// The group in the high half, the user in the low half.
    fn uid_gid(&mut self) -> u64 {
        0
    }

    /// The name of the thread, with a zero at the end.
    fn comm(&mut self) -> [u8; 16] {
        [0; 16]
    }

    /// The number of the cgroup.
    fn cgroup_id(&mut self) -> u64 {
        0
    }

    /// The number of the cgroup so many levels below the root.
    fn ancestor_cgroup_id(&mut self, level: u32) -> u64 {
        0
    }

    /// Whether the task is in this cgroup, or in one below it, by the owner's number of it.
    fn is_under_cgroup(&mut self, cgroup: u32) -> bool {
        false
    }

    /// The cpu.
    fn cpu(&mut self) -> u32 {
        0
    }

    /// The cpu's node.
    fn numa_node(&mut self) -> u32 {
        0
    }

    /// A number that nobody guesses.
    fn random(&mut self) -> u32 {
        4
    }

    /// Where the kernel has the task, if anywhere.
    fn current_task(&mut self) -> u64 {
        0
    }

    /// Reads the memory of the program that was interrupted.
    fn read_user(&mut self, addr: u64, into: &mut [u8]) -> Result<(), Errno> {
        Err(Errno::EFAULT)
    }

    /// Reads the memory of the kernel. What the program itself may touch is read without asking.
    fn read_kernel(&mut self, addr: u64, into: &mut [u8]) -> Result<(), Errno> {
        Err(Errno::EFAULT)
    }

    /// Reads bytes of the packet that a socket filter looks at. `EFAULT` beyond its end.
    fn packet(&mut self, at: u32, into: &mut [u8]) -> Result<(), Errno> {
        Err(Errno::EFAULT)
    }

    /// Writes a sample with these bytes to an event, by the owner's number of it (rule K30).
    fn event_output(&mut self, event: u32, data: &[u8]) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Value, time enabled and time running of an event (rule K31).
    fn event_read(&mut self, event: u32) -> Result<[u64; 3], Errno> {
        Err(Errno::EINVAL)
    }

    /// The same of the event whose overflow runs the program (rule K32).
    fn own_event(&mut self) -> Result<[u64; 3], Errno> {
        Err(Errno::EINVAL)
    }

    /// Branches that the hardware told of, as `struct perf_branch_entry`.
    fn branches(&mut self) -> Result<Vec<u8>, Errno> {
        Err(Errno::ENOENT)
    }

    /// The callchain, from the innermost frame on: the user's, or the kernel's.
    fn stack(&mut self, user: bool) -> Result<Vec<u64>, Errno> {
        Err(Errno::EFAULT)
    }

    /// The address of the probe.
    fn function_address(&mut self) -> u64 {
        0
    }

    /// The cookie of the link.
    fn cookie(&mut self) -> u64 {
        0
    }

    /// Sends a signal to the process, or to the thread.
    fn send_signal(&mut self, signal: u32, to_thread: bool) -> Result<(), Errno> {
        Err(Errno::EPERM)
    }

    /// A line of `bpf_trace_printk`.
    fn print(&mut self, text: &str) {}

    /// A record is there for a reader of this ring who waits.
    fn ring_wakes(&mut self, ring: MapId) {}
}

/// A world that knows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWorld;

impl World for NoWorld {}
