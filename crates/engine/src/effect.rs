//! Effects, which the engine wants carried out: collected while it works, taken by the host after each call.

use crate::event::EventKey;
use crate::task::TaskId;
use perfuse_abi::EventType;

/// The kind of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Notice {
    /// There is something to read.
    In,
    /// It is over: the limit of `PERF_EVENT_IOC_REFRESH` is reached, or what was measured has ended.
    Hup,
    /// It failed.
    Err,
}

/// Something for the host to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Wake those who wait in `poll(2)` for this event's descriptor: ask [`poll`](crate::Engine::poll)
    /// for what they get.
    Wake(EventKey),
    /// Send the signal that `O_ASYNC` of this event's descriptor asked for (rule G26).
    Signal(EventKey, Notice),
    /// Send SIGTRAP to a task (rule I30).
    Trap(Trap),
    /// Program a watchpoint into a cpu's debug registers.
    Watch(Watch),
    /// Take it back.
    Unwatch {
        /// The cpu.
        cpu: u32,
        /// The event.
        event: EventKey,
    },
    /// Tell people: the interrupts of samples took too long, and fewer are allowed from now on (rule
    /// I24).
    RateLowered {
        /// Samples a second from now on.
        max_sample_rate: u32,
    },
}

/// A SIGTRAP of an event (`TRAP_PERF`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trap {
    /// The thread.
    pub task: TaskId,
    /// The event.
    pub event: EventKey,
    /// `si_addr`.
    pub addr: u64,
    /// `si_perf_data`.
    pub data: u64,
    /// `si_perf_type`.
    pub type_: EventType,
}

/// A watchpoint for a cpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The cpu.
    pub cpu: u32,
    /// The event.
    pub event: EventKey,
    /// The accesses that are watched, as `attr.bp_type`.
    pub kind: u32,
    /// The first address.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
}
