//! There is no embedded kernel: for this architecture, or without the feature `embedded`.

use crate::kernel::Kernel;
use perfuse_sys::Errno;
use perfuse_sys::process::Usage;
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
