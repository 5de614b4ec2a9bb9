//! When measuring starts: the option -D.

use std::time::Duration;

/// When measuring starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    AtOnce,
    After(Duration),
    /// When the control channel says so.
    WhenTold,
}

impl Start {
    /// From milliseconds; a negative number waits to be told.
    pub(crate) fn after(delay_ms: Option<i64>) -> Self {
        match delay_ms {
            None | Some(0) => Start::AtOnce,
            Some(ms) => {
                u64::try_from(ms).map_or(Start::WhenTold, |ms| Start::After(Duration::from_millis(ms)))
            }
        }
    }
}
