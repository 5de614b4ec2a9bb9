//! `epoll(7)`: many descriptors behind one, which can be polled in their place.

use crate::Errno;
use crate::errno::of;
use crate::poll::Readiness;
use rustix::event::{Timespec, epoll};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A list of descriptors that the kernel watches. Its own is readable while one of them is ready.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// An empty one, closed on exec.
    pub fn new() -> Result<Self, Errno> {
        epoll::create(epoll::CreateFlags::CLOEXEC).map(Epoll).map_err(of)
    }

    /// Watches `fd`, whose readiness is told with `number`, until it is removed or closed.
    pub fn add(&self, fd: BorrowedFd<'_>, number: u64) -> Result<(), Errno> {
        let number = epoll::EventData::new_u64(number);
        epoll::add(&self.0, fd, number, epoll::EventFlags::IN).map_err(of)
    }

    /// Watches `fd` no longer.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        epoll::delete(&self.0, fd).map_err(of)
    }

    /// Numbers and states of those that are ready now, `most` of them at a time. Asking takes an event's readiness away,
    /// as `poll(2)` does (rule G24).
    pub fn ready(&self, most: usize) -> Result<Vec<(u64, Readiness)>, Errno> {
        let mut found = Vec::with_capacity(most.max(1));
        let space = rustix::buffer::spare_capacity(&mut found);
        epoll::wait(&self.0, space, Some(&Timespec::default())).map_err(of)?;
        let state = |event: &epoll::Event| {
            let flags = event.flags;
            let has = |flag| flags.contains(flag);
            let (readable, hangup) = (has(epoll::EventFlags::IN), has(epoll::EventFlags::HUP));
            Readiness { readable, hangup, error: has(epoll::EventFlags::ERR) }
        };
        Ok(found.iter().map(|event| (event.data.u64(), state(event))).collect())
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipe::nonblocking;
    use std::fs::File;
    use std::io::Write;

    #[test]
    fn what_is_ready_is_told_by_its_number_until_it_is_removed() {
        let epoll = Epoll::new().unwrap();
        let (first, _to_first) = nonblocking(true).unwrap();
        let (second, to_second) = nonblocking(true).unwrap();
        let mut to_second = File::from(to_second);
        epoll.add(first.as_fd(), 7).unwrap();
        epoll.add(second.as_fd(), 8).unwrap();
        assert_eq!(epoll.ready(4), Ok(Vec::new()));
        to_second.write_all(b"x").unwrap();
        let readable = Readiness { readable: true, ..Readiness::default() };
        assert_eq!(epoll.ready(4), Ok(vec![(8, readable)]));
        drop(to_second);
        assert_eq!(epoll.ready(4), Ok(vec![(8, Readiness { hangup: true, ..readable })]));
        epoll.remove(second.as_fd()).unwrap();
        assert_eq!(epoll.ready(4), Ok(Vec::new()));
    }
}
