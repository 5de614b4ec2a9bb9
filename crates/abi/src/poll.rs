//! The answer of `poll(2)` for an event's descriptor.

use bitflags::bitflags;

bitflags! {
    /// The readiness of an event's descriptor, as `EPOLL*` bits of `<linux/eventpoll.h>`, which `poll(2)` shares.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[repr(transparent)]
    pub struct PollFlags: u32 {
        /// `EPOLLIN`: there is something to read.
        const IN = 0x1;
        /// `EPOLLERR`: a pinned event is in the error state (rule G22), or its PMU is gone (rule G20).
        const ERR = 0x8;
        /// `EPOLLHUP`: its task has ended (rule G21), or it has no ring (rule G23).
        const HUP = 0x10;
        /// `EPOLLRDNORM`: comes with [`IN`](Self::IN).
        const RDNORM = 0x40;
        const _ = !0;
    }
}

impl PollFlags {
    /// As the kernel tells that there is something to read.
    pub const READABLE: Self = Self::IN.union(Self::RDNORM);

    /// Whether no waiting helps: the event hangs up or has failed.
    pub const fn is_over(self) -> bool {
        self.intersects(Self::HUP.union(Self::ERR))
    }
}
