//! What `perf stat` takes and `perfuse stat` does not.

use crate::recording::untaken::{Option, Table};

/// The options of `perf stat` that mean nothing here, or are refused.
#[derive(Clone, Debug)]
pub(super) struct OfStat;

impl Table for OfStat {
    const OPTIONS: &'static [Option] = &[
        Option::refused(
            "smi-cost",
            "freeze_on_smi of the machine stays as it is; -e msr/aperf/,msr/smi/,cycles counts what perf divides",
        ),
        Option::refused(
            "iostat",
            "the I/O PMUs of servers have no names of ports here; perfuse list pmu shows their events",
        )
        .maybe_value(),
        // The same numbers, counted in another way.
        Option::ignored("bpf-counters"),
        Option::ignored("bpf-attr-map").value(),
        Option::refused("bpf-prog", "what a BPF program does is not counted apart from what surrounds it")
            .letter('b')
            .value(),
        Option::refused(
            "hybrid-merge",
            "each kind of core has a row of its own, since their counts mean different things",
        ),
    ];
}
