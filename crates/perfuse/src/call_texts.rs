//! Texts that system calls are given, as the embedded kernel copies them while threads are stopped: a record has addresses alone.

#[cfg(all(feature = "embedded", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use perfuse_live::call_texts::{LONGEST, copy, take};

/// There is no embedded kernel, which would copy texts.
#[cfg(not(all(feature = "embedded", any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod nothing {
    /// Bytes of a text that are copied.
    pub const LONGEST: usize = 0;

    /// Does nothing.
    pub fn copy(_on: bool) {}

    /// Nothing.
    pub fn take(_tid: u32, _time: u64) -> Vec<(usize, Vec<u8>)> {
        Vec::new()
    }
}

#[cfg(not(all(feature = "embedded", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub use nothing::{LONGEST, copy, take};
