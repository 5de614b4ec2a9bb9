//! One descriptor for all rings of a set: for its own wait, and for event loops of others.
//!
//! Each ring is watched through one of its events. When the task of that one is gone, the next event that writes to the ring
//! takes its place (every writer of a ring is woken, rule G18), so that the set ends with its last task only.

use super::{SetRing, SetSource};
use crate::call::Call;
use crate::error::{Error, Result};
use perfuse_sys::epoll::Epoll;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

#[derive(Debug)]
pub(super) struct Watch {
    epoll: Epoll,
    /// For each ring the source through which it is watched, unless all of the ring's are gone.
    watched: Mutex<Vec<Option<usize>>>,
}

impl Watch {
    /// Watches each ring through its owner.
    pub(super) fn new(rings: &[SetRing], sources: &[SetSource]) -> Result<Self> {
        let told = |errno| Error::new(Call::Poll, errno);
        let epoll = Epoll::new().map_err(told)?;
        for (index, ring) in rings.iter().enumerate() {
            epoll.add(sources[ring.owner].counter.as_fd(), index as u64).map_err(told)?;
        }
        let watched = Mutex::new(rings.iter().map(|ring| Some(ring.owner)).collect());
        Ok(Watch { epoll, watched })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// The descriptor was readable: takes note of those that are gone, and of wake-ups.
    pub(super) fn heard(&self, sources: &[SetSource]) -> Result<()> {
        let told = |errno| Error::new(Call::Poll, errno);
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let mut has_changed = false;
            for (ring, state) in self.epoll.ready(watched.len()).map_err(told)? {
                let Some(Some(gone)) = usize::try_from(ring).ok().and_then(|ring| watched.get(ring)).copied()
                else {
                    continue;
                };
                if !state.hangup && !state.error {
                    continue;
                }
                has_changed = true;
                let index = ring as usize;
                let writes_there = |&next: &usize| sources[next].ring == index;
                watched[index] = (gone + 1..sources.len()).find(writes_there);
                // The very last one stays, so that the end can be heard.
                if watched.iter().any(Option::is_some) {
                    self.epoll.remove(sources[gone].counter.as_fd()).map_err(told)?;
                }
                if let Some(next) = watched[index] {
                    self.epoll.add(sources[next].counter.as_fd(), ring).map_err(told)?;
                }
            }
            if !has_changed {
                break;
            }
        }
        watched.iter().flatten().for_each(|&source| sources[source].counter.acknowledge());
        Ok(())
    }

    /// Whether every event of every ring has ended.
    pub(super) fn is_over(&self) -> bool {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        !watched.is_empty() && watched.iter().all(Option::is_none)
    }
}
