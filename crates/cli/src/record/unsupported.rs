//! Options that `perf record` takes and `perfuse record` refuses or ignores.

use crate::common::unsupported::{PerfOption, PerfOptions};

/// The options of `perf record` that mean nothing here, or are refused.
#[derive(Clone, Debug)]
pub(super) struct OfRecord;

const TRACES: &str = "the traces of processors (AUX data) are not recorded; -b records the last branches";

impl PerfOptions for OfRecord {
    const OPTIONS: &'static [PerfOption] = &[
        PerfOption::refused("aux-sample", TRACES).maybe_value(),
        PerfOption::refused("snapshot", TRACES).letter('S').maybe_value(),
        PerfOption::refused(
            "kcore",
            "the kernel's code is not copied into a folder; its functions are named by /proc/kallsyms",
        ),
        PerfOption::refused("switch-output-event", "--switch-output changes files by size, time or SIGUSR2")
            .value(),
        // How perf goes about its work, with no difference to what is recorded.
        PerfOption::ignored("affinity").value(),
        PerfOption::ignored("threads").maybe_value(),
        // --call-graph dwarf keeps copies of stacks.
        PerfOption::ignored("no-unwind"),
        PerfOption::ignored("aio").maybe_value(),
        PerfOption::ignored("mmap-flush").value(),
        PerfOption::ignored("num-thread-synthesize").value(),
        PerfOption::ignored("proc-map-timeout").value(),
        PerfOption::ignored("debuginfod").maybe_value(),
        // These are so anyway: the first and last time of samples are always told.
        PerfOption::ignored("timestamp-boundary"),
    ];
}
