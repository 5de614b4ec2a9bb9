//! Options that `perf stat` takes and `perfuse stat` refuses or ignores.

use crate::common::unsupported::{PerfOption, PerfOptions};

/// The options of `perf stat` that mean nothing here, or are refused.
#[derive(Clone, Debug)]
pub(super) struct OfStat;

impl PerfOptions for OfStat {
    const OPTIONS: &'static [PerfOption] = &[
        PerfOption::refused(
            "smi-cost",
            "freeze_on_smi of the machine stays as it is; -e msr/aperf/,msr/smi/,cycles counts what perf divides",
        ),
        PerfOption::refused(
            "iostat",
            "the I/O PMUs of servers have no names of ports here; perfuse list pmu shows their events",
        )
        .maybe_value(),
        // The same numbers, counted in another way.
        PerfOption::ignored("bpf-counters"),
        PerfOption::ignored("no-affinity"),
        PerfOption::ignored("bpf-attr-map").value(),
        PerfOption::refused(
            "bpf-prog",
            "what a BPF program does is not counted apart from what surrounds it",
        )
        .letter('b')
        .value(),
        PerfOption::refused(
            "hybrid-merge",
            "each kind of core has a row of its own, since their counts mean different things",
        ),
    ];
}
