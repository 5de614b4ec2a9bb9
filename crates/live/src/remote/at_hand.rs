//! Memory of other processes that may have to be waited for: behind a page that is not there may be nobody who fills it
//! (userfaultfd(2), a file of FUSE), and who reads it waits in the kernel for as long. On Linux that is the caller alone; here a
//! thread of its own waits, for a while, and all other processes are served.

use crate::ptrace::Tid;
use perfuse_abi::Errno;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use std::thread::Builder;
use std::time::Duration;

/// Memory that does not come within this time is as good as none.
const PATIENCE: Duration = Duration::from_millis(100);
/// So many threads wait at most; then what is not there counts as none at once.
const MOST_WAITING: usize = 16;
/// How many bytes of a range can be read, or `written`, from its start on without waiting for anybody; where nothing tells, all.
pub(super) fn bytes_at_hand(tid: Tid, addr: u64, len: usize, written: bool) -> usize {
    perfuse_proc::read::bytes_at_hand(tid as u32, addr, len, written, perfuse_sys::page_size())
}

/// Has a thread of its own do some work, unless that takes too long: `EFAULT`. The time until the thread runs does not count.
pub(super) fn patiently<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Errno> + Send + 'static,
) -> Result<T, Errno> {
    static WAITING: AtomicUsize = AtomicUsize::new(0);
    if WAITING.fetch_add(1, Relaxed) >= MOST_WAITING {
        WAITING.fetch_sub(1, Relaxed);
        return Err(Errno::EFAULT);
    }
    let (answer, answered) = sync_channel(2);
    let thread = Builder::new().name("perfuse".to_owned()).stack_size(64 << 10).spawn(move || {
        let _ = answer.send(None);
        let _ = answer.send(Some(work()));
        WAITING.fetch_sub(1, Relaxed);
    });
    if thread.is_err() {
        WAITING.fetch_sub(1, Relaxed);
        return Err(Errno::EFAULT);
    }
    let _begun = answered.recv();
    answered.recv_timeout(PATIENCE).ok().flatten().unwrap_or(Err(Errno::EFAULT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_long_is_not_waited_for() {
        let (release, until) = sync_channel::<()>(0);
        assert_eq!(patiently(move || until.recv().map_err(|_| Errno::EIO)), Err(Errno::EFAULT));
        // On a busy machine one of them may have to wait for a cpu.
        assert!((0..100).any(|_| patiently(|| Ok(5)) == Ok(5)));
        release.send(()).expect("the thread waits on");
    }

    #[test]
    fn pages_that_were_never_touched_are_not_at_hand() {
        let (size, tid) = (perfuse_sys::page_size(), crate::proc::own_tid());
        let touched = vec![1u8; 3 * size];
        assert_eq!(bytes_at_hand(tid, touched.as_ptr() as u64, touched.len(), true), touched.len());
        // Zeros: the kernel gives pages when they are touched.
        let mut untouched: Vec<u8> = vec![0; 64 * size];
        let middle = (untouched.as_ptr() as u64).next_multiple_of(size as u64) + 32 * size as u64;
        assert_eq!(bytes_at_hand(tid, middle, size, false), 0);
        let offset = (middle - untouched.as_ptr() as u64) as usize;
        untouched[offset] = 1;
        assert_eq!(bytes_at_hand(tid, middle + 10, 3 * size, false), size - 10);
        assert_eq!(bytes_at_hand(tid, middle - 10, size, false), 0);
    }
}
