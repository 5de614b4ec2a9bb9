//! There is no embedded kernel: for this architecture, or without the feature `embedded`.

use crate::kernel::Kernel;
use perfuse_sys::Errno;
use perfuse_sys::process::Usage;
use std::borrow::Cow;
use std::process::ExitStatus;
use std::sync::Arc;

/// There is none.
pub(crate) fn embedded() -> Option<Arc<dyn Kernel>> {
    None
}

/// Nothing steps.
pub(crate) fn stepping() -> Option<Arc<dyn Kernel>> {
    None
}

pub(crate) fn ring_memory() -> Result<(), Errno> {
    Ok(())
}

pub(crate) fn wait_for_end(_pid: i32) -> Option<(ExitStatus, Usage)> {
    None
}

pub(crate) fn ended(_pid: i32) -> Option<Option<(ExitStatus, Usage)>> {
    None
}

/// The id of a tracepoint that it has not.
pub(crate) const ASLEEP: u64 = 0;

pub(crate) fn tracepoints() -> Vec<(Cow<'static, str>, u64)> {
    Vec::new()
}

pub(crate) fn define_tracepoint(_line: &str) -> Result<(), Errno> {
    Err(Errno::EOPNOTSUPP)
}

pub(crate) fn format_of_tracepoint(_name: &str) -> Option<String> {
    None
}

/// Texts of system calls, which nobody copies.
pub mod call_texts {
    /// Copies nothing.
    #[derive(Debug)]
    pub struct Copying(());

    impl Copying {
        /// Begins to copy nothing.
        pub fn begin() -> Self {
            Copying(())
        }

        /// Nothing.
        pub fn take(&self, _tid: u32, _time: u64) -> Vec<(usize, Vec<u8>)> {
            Vec::new()
        }
    }
}
