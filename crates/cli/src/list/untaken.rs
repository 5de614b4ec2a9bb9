//! What `perf list` takes and `perfuse list` does not.

use crate::recording::untaken::{Option, Table};

/// The options of `perf list` that mean nothing here, or are refused.
#[derive(Clone, Debug)]
pub(super) struct OfList;

impl Table for OfList {
    const OPTIONS: &'static [Option] = &[
        Option::refused("cputype", "a word of the PMU's name chooses its events: perfuse list cpu_core")
            .value(),
        // What is so anyway: all events are shown, with all that is known of them.
        Option::ignored("deprecated"),
        Option::ignored("desc").letter('d'),
        Option::ignored("long-desc"),
        Option::ignored("debug"),
    ];
}
