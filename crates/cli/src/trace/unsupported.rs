//! Options that `perf trace` and `strace` take and `perfuse trace` refuses or ignores.

use crate::common::unsupported::{PerfOption, PerfOptions};

/// The options that mean nothing here, or are refused.
#[derive(Clone, Debug)]
pub(super) struct OfTrace;

const SWITCH: &str = "it is not followed; --if 'time > ...' chooses by time, and --delay begins later";

impl PerfOptions for OfTrace {
    const OPTIONS: &'static [PerfOption] = &[
        // perf's.
        PerfOption::refused(
            "sched",
            "-e sched:sched_switch tells each switch, perfuse record --off-cpu who slept where",
        ),
        PerfOption::refused("switch-on", SWITCH).value(),
        PerfOption::refused("switch-off", SWITCH).value(),
        PerfOption::refused(
            "map-dump",
            "there are no BPF programs of one's own; --by makes the sums that are asked for",
        )
        .value(),
        PerfOption::refused(
            "min-stack",
            "stacks have all their frames; --max-stack leaves the outermost away",
        )
        .value(),
        // These are so anyway: errors by name in tables, the order of time, sums in the kernel where it may be, names of flags.
        PerfOption::ignored("errno-summary"),
        PerfOption::ignored("sort-events"),
        PerfOption::ignored("bpf-summary"),
        PerfOption::ignored("bitmask-list"),
        PerfOption::ignored("force"),
        PerfOption::ignored("force-btf"),
        PerfOption::ignored("libtraceevent_print"),
        PerfOption::ignored("print-sample"),
        PerfOption::ignored("proc-map-timeout").value(),
        PerfOption::ignored("show-on-off-events"),
        PerfOption::ignored("tool_stats"),
        PerfOption::ignored("verbose").letter('v'),
        // strace's.
        PerfOption::refused(
            "detach-on",
            "nobody is attached: perfuse trace stops no process; --if chooses calls",
        )
        .letter('b')
        .value(),
        PerfOption::ignored("interruptible").letter('I').value(),
        PerfOption::ignored("quiet").letter('q'),
        PerfOption::ignored("strings-in-hex").letter('x'),
        PerfOption::ignored("summary-wall-clock").letter('w'),
    ];
}
