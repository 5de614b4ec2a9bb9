//! Work on large tables, spread over the processors.

use std::num::NonZero;
use std::thread;

/// With fewer things, one thread is as good as several. Tests have few, and several threads all the same.
const MANY: usize = if cfg!(test) { 16 } else { 1 << 16 };

/// More threads than this are of little use.
const MOST_THREADS: usize = 8;

/// How many threads so many things are worth.
pub(crate) fn threads(things: usize) -> usize {
    match things < MANY {
        true => 1,
        false if cfg!(test) => 3,
        false => thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS),
    }
}

/// Does the work for each part, each on a thread of its own; gives the results in the order of the parts.
pub(crate) fn over<T: Send, R: Send>(
    parts: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let mut parts = parts.into_iter();
    let Some(first) = parts.next() else { return Vec::new() };
    thread::scope(|scope| {
        let work = &work;
        let others: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        let first = work(first);
        let join = |other: thread::ScopedJoinHandle<'_, R>| {
            other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        [first].into_iter().chain(others.into_iter().map(join)).collect()
    })
}
