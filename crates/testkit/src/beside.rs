//! Things of a test that do not disturb each other, several at a time: most wait for the kernel or for another program.

use crate::Outcome;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// So many at a time: two that work, and two that wait.
const THREADS: usize = 4;

/// Does something with each item, several at a time. The first that is skipped skips all; one that panics ends the test.
pub fn side_by_side<T: Sync>(items: &[T], each: impl Fn(&T) -> Outcome + Sync) -> Outcome {
    let next = AtomicUsize::new(0);
    let work = || -> Outcome {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            each(item)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS.min(items.len())).map(|_| scope.spawn(work)).collect();
        let ends: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        ends.into_iter().try_for_each(|end| end.unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Skip;
    use std::sync::Mutex;

    #[test]
    fn each_item_has_its_turn_once() {
        let seen = Mutex::new(Vec::new());
        let items: Vec<u32> = (0..100).collect();
        side_by_side(&items, |item| {
            seen.lock().unwrap().push(*item);
            Ok(())
        })
        .unwrap();
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert_eq!(seen, items);
    }

    #[test]
    fn what_one_lacks_or_fails_at_is_told() {
        let skips =
            side_by_side(&[1, 2, 3], |item| if *item == 2 { Err(Skip("two".into())) } else { Ok(()) });
        assert!(skips.is_err_and(|skip| skip.0 == "two"));
        let fails = std::panic::catch_unwind(|| {
            side_by_side(&[1, 2], |item| {
                assert_ne!(*item, 2, "this is two");
                Ok(())
            })
        });
        assert!(fails.is_err());
    }
}
