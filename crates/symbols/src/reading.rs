//! An object that was read: its symbols, and its debug information once that is wanted.

use crate::code::Loaded;
use crate::info::DebugInfo;
use std::sync::OnceLock;

/// All objects that are the same file share it.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) loaded: Loaded,
    pub(crate) has_info: OnceLock<bool>,
    /// With how much higher the symbols count.
    pub(crate) info: OnceLock<Option<(DebugInfo, u64)>>,
}

impl From<Loaded> for Reading {
    fn from(loaded: Loaded) -> Self {
        Reading { loaded, ..Reading::default() }
    }
}
