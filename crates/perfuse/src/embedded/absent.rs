//! There is no embedded kernel: for this architecture, or without the feature `embedded`.

use crate::kernel::Kernel;
use perfuse_abi::EventType;
use perfuse_events::OwnPmu;
use perfuse_sys::Errno;
use perfuse_sys::process::Usage;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;

/// Nothing has PMUs of its own.
pub const OWN_PMUS: &[OwnPmu] = &[];

/// A type that no PMU has.
pub(crate) const STEP: EventType = EventType(u32::MAX);

/// There is none.
pub fn embedded() -> Option<Arc<dyn Kernel>> {
    None
}

/// Nothing steps.
pub fn step_for_instructions(_on: bool) {}

/// Nothing was measured.
pub fn take_deprived() -> Vec<PathBuf> {
    Vec::new()
}

/// Nothing was in danger.
pub fn take_unguarded() -> bool {
    false
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
