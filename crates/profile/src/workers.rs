//! Work on many entries, spread over the processors, with its results in the order of the entries.

use std::num::NonZero;
use std::sync::mpsc::sync_channel;
use std::thread;

/// Entries that are worked on together. The first ones have the large trees, so these are few.
const TOGETHER: usize = 16;

/// Results that wait to be taken, for each worker.
const WAITING: usize = 256;

/// More than this are of little use where one takes all results.
const MOST: usize = 4;

/// Hands what `work` makes of a few entries after the other to `take`, until that fails.
pub fn in_order<T: Sync, R: Send, E>(
    entries: &[T],
    work: impl Fn(&[T]) -> R + Sync,
    mut take: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    let parts = || entries.chunks(TOGETHER);
    let workers = thread::available_parallelism().map_or(1, NonZero::get).min(MOST);
    if workers == 1 || entries.len() <= TOGETHER {
        return parts().try_for_each(|part| take(work(part)));
    }
    thread::scope(|scope| {
        let results: Vec<_> = (0..workers)
            .map(|worker| {
                let (sender, receiver) = sync_channel(WAITING);
                let work = &work;
                scope.spawn(move || {
                    let mut mine = parts().skip(worker).step_by(workers);
                    // Nobody takes results any more once taking failed.
                    while mine.next().is_some_and(|part| sender.send(work(part)).is_ok()) {}
                });
                receiver
            })
            .collect();
        // A worker ends early only by a panic, which the scope passes on.
        results.iter().cycle().map_while(|result| result.recv().ok()).try_for_each(&mut take)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_entries() {
        let entries: Vec<u32> = (0..100_000).collect();
        let mut all = Vec::new();
        let taken = in_order(&entries, <[u32]>::to_vec, |part| {
            all.extend(part);
            Ok::<(), ()>(())
        });
        assert!(taken.is_ok() && all == entries);
    }

    #[test]
    fn work_ends_when_taking_fails() {
        let entries: Vec<u32> = (0..100_000).collect();
        assert!(in_order(&entries, <[u32]>::len, |_| Err("enough")).is_err());
    }
}
