//! Options that `perf report` takes and `perfuse report` refuses or ignores.

use crate::common::unsupported::{Part, PerfOption, PerfOptions};

/// The options of `perf report` that mean nothing here, or are refused.
#[derive(Clone, Debug)]
pub(super) struct OfReport;

const SWITCHES: &str = "samples are not chosen by other events; --time chooses them by time";
const SCREEN: &str = "there are the report as text, and --tui on the terminal";

impl PerfOptions for OfReport {
    const OPTIONS: &'static [PerfOption] = &[
        PerfOption::ignored("modules").letter('m'),
        PerfOption::ignored("ignore-vmlinux"),
        PerfOption::refused(
            "itrace",
            "traces of the processor (AUX data) are not decoded; perf inject --itrace makes samples of them",
        )
        .maybe_value()
        .of(Part::Traces),
        PerfOption::refused("branch-history", "callchains are not made of branches; -b shows the branches"),
        PerfOption::refused(
            "total-cycles",
            "needs the instructions between branches, which are not read; -b shows cycles",
        ),
        PerfOption::refused(
            "stitch-lbr",
            "callchains of --call-graph lbr are shown as deep as the processor kept them",
        )
        .of(Part::Lbr),
        PerfOption::refused("show-ref-call-graph", "events recorded without callchains are shown without"),
        PerfOption::refused(
            "threads",
            "the counts of single threads (record -s) are shown by -D: the records READ",
        )
        .letter('T')
        .of(Part::ThreadCounts),
        PerfOption::ignored("pretty").value(),
        PerfOption::refused("switch-on", SWITCHES).value(),
        PerfOption::refused("switch-off", SWITCHES).value(),
        PerfOption::refused("gtk", SCREEN),
        // These concern annotated instructions, or only the interactive view.
        PerfOption::ignored("disassembler-style").letter('M').value(),
        PerfOption::ignored("asm-raw"),
        PerfOption::ignored("source"),
        PerfOption::ignored("objdump").value(),
        PerfOption::ignored("addr2line").value(),
        PerfOption::ignored("prefix").value(),
        PerfOption::ignored("prefix-strip").value(),
        PerfOption::ignored("percent-type").value(),
        PerfOption::ignored("samples").value(),
        // These are so anyway.
        PerfOption::ignored("demangle"),
        PerfOption::ignored("demangle-kernel"),
        PerfOption::ignored("no-demangle-kernel"),
        PerfOption::ignored("full-source-path"),
        PerfOption::ignored("skip-empty"),
        PerfOption::ignored("disable-order"),
        PerfOption::ignored("show-on-off-events"),
        PerfOption::ignored("stdio2"),
    ];
}
