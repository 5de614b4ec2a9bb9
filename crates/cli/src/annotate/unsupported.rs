//! Options that `perf annotate` takes and `perfuse annotate` refuses or ignores.

use crate::common::unsupported::{Part, PerfOption, PerfOptions};

/// The options of `perf annotate` that mean nothing here, or are refused.
#[derive(Clone, Debug)]
pub(super) struct OfAnnotate;

const SCREEN: &str = "there are the listing as text, and the screen of the terminal (--tui)";

impl PerfOptions for OfAnnotate {
    const OPTIONS: &'static [PerfOption] = &[
        PerfOption::ignored("modules").letter('m'),
        PerfOption::refused("gtk", SCREEN),
        PerfOption::refused("group", "each event has its own listing; --event picks one"),
        PerfOption::refused("dump-raw-trace", "perfuse report -D shows each record").letter('D'),
        PerfOption::refused(
            "itrace",
            "traces of the processor (AUX data) are not decoded; perf inject --itrace makes samples of them",
        )
        .maybe_value()
        .of(Part::Traces),
        PerfOption::ignored("ignore-vmlinux"),
        PerfOption::ignored("stdio2"),
        PerfOption::ignored("skip-missing"),
        PerfOption::ignored("objdump").value(),
        PerfOption::ignored("addr2line").value(),
        PerfOption::ignored("demangle"),
        PerfOption::ignored("demangle-kernel"),
        PerfOption::ignored("verbose").letter('v'),
    ];
}
