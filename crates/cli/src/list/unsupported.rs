//! Options that `perf list` takes and `perfuse list` refuses or ignores.

use crate::common::unsupported::{PerfOption, PerfOptions};

/// The options of `perf list` that mean nothing here, or are refused.
#[derive(Clone, Debug)]
pub(super) struct OfList;

impl PerfOptions for OfList {
    const OPTIONS: &'static [PerfOption] = &[
        PerfOption::refused("cputype", "a word of the PMU's name chooses its events: perfuse list cpu_core")
            .value(),
        // These are so anyway: all events are shown, with all that is known of them.
        PerfOption::ignored("deprecated"),
        PerfOption::ignored("desc").letter('d'),
        PerfOption::ignored("long-desc"),
        PerfOption::ignored("debug"),
    ];
}
