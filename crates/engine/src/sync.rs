//! Atomics: the real ones, or those of the model checker.

#[cfg(not(loom))]
pub use core::sync::atomic::AtomicU64;
#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{Ordering, fence};
#[cfg(loom)]
pub use loom::sync::atomic::AtomicU64;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{Ordering, fence};
