//! Atomics: the real ones, or those of the model checker.

#[cfg(not(loom))]
pub use core::sync::atomic::AtomicU64;
#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{Ordering, fence};
#[cfg(loom)]
pub use model::{AtomicU64, interrupt_after};

/// The model checker's atomics, before each of which an interrupt may come on the same cpu.
#[cfg(loom)]
mod model {
    use super::Ordering;
    use alloc::boxed::Box;
    use core::cell::RefCell;

    loom::thread_local! {
        static NEXT: RefCell<Option<(usize, Box<dyn FnOnce()>)>> = RefCell::new(None);
    }

    /// Runs `handler` on this thread after so many more of its atomic operations, before the next one. One
    /// that has not come yet is forgotten.
    pub fn interrupt_after(operations: usize, handler: impl FnOnce() + 'static) {
        NEXT.with(|next| *next.borrow_mut() = Some((operations, Box::new(handler))));
    }

    fn interruption() {
        let due = NEXT.with(|next| {
            let mut next = next.borrow_mut();
            match &mut *next {
                Some((0, _)) => next.take(),
                Some((left, _)) => {
                    *left -= 1;
                    None
                }
                None => None,
            }
        });
        if let Some((_, handler)) = due {
            handler();
        }
    }

    /// A word.
    #[derive(Debug)]
    pub struct AtomicU64(loom::sync::atomic::AtomicU64);

    #[allow(missing_docs, reason = "as in core")]
    impl AtomicU64 {
        pub fn new(value: u64) -> Self {
            AtomicU64(loom::sync::atomic::AtomicU64::new(value))
        }

        pub fn load(&self, order: Ordering) -> u64 {
            interruption();
            self.0.load(order)
        }

        pub fn store(&self, value: u64, order: Ordering) {
            interruption();
            self.0.store(value, order);
        }

        pub fn swap(&self, value: u64, order: Ordering) -> u64 {
            interruption();
            self.0.swap(value, order)
        }

        pub fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
            interruption();
            self.0.fetch_add(value, order)
        }

        pub fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
            interruption();
            self.0.fetch_sub(value, order)
        }

        pub fn compare_exchange(
            &self,
            current: u64,
            new: u64,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u64, u64> {
            interruption();
            self.0.compare_exchange(current, new, success, failure)
        }
    }
}
