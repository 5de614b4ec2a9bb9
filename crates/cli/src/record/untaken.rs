//! What `perf record` takes and `perfuse record` does not.

use crate::recording::untaken::{Option, Table};

/// The options of `perf record` that mean nothing here, or are refused.
#[derive(Clone, Debug)]
pub(super) struct OfRecord;

const TRACES: &str = "the traces of processors (AUX data) are not recorded; -b records the last branches";

impl Table for OfRecord {
    const OPTIONS: &'static [Option] = &[
        Option::refused("aux-sample", TRACES).maybe_value(),
        Option::refused("snapshot", TRACES).letter('S').maybe_value(),
        Option::refused(
            "kcore",
            "the kernel's code is not copied into a folder; its functions are named by /proc/kallsyms",
        ),
        Option::refused(
            "off-cpu",
            "needs a BPF program in perf; -e sched:sched_switch -g shows where tasks stop running, and \
             --switch-events when",
        ),
        Option::refused("switch-output-event", "--switch-output changes files by size, time or SIGUSR2")
            .value(),
        Option::refused("threads", "one thread writes all rings into one file; -m makes rings larger")
            .maybe_value(),
        // How perf goes about its work, with no difference to what is recorded.
        Option::ignored("affinity").value(),
        Option::ignored("aio").maybe_value(),
        Option::ignored("mmap-flush").value(),
        Option::ignored("num-thread-synthesize").value(),
        Option::ignored("proc-map-timeout").value(),
        Option::ignored("debuginfod").maybe_value(),
        // What is so anyway: the first and last time of samples are always told.
        Option::ignored("timestamp-boundary"),
    ];
}
