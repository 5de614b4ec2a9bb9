//! What `perf report` takes and `perfuse report` does not.

use crate::recording::unfinished::INLINED;
use crate::recording::untaken::{Option, Table};

/// The options of `perf report` that mean nothing here, or are refused.
#[derive(Clone, Debug)]
pub(super) struct OfReport;

const SYMBOLS: &str =
    "where symbols are is not told yet: they are found by path, by build-id and in /proc/kallsyms";
const SWITCHES: &str = "samples are not chosen by other events; --time chooses them by time";
const SCREEN: &str = "the report is text; there is no interactive view yet";

impl Table for OfReport {
    const OPTIONS: &'static [Option] = &[
        Option::refused("vmlinux", SYMBOLS).letter('k').value(),
        Option::refused("modules", SYMBOLS).letter('m'),
        Option::refused("kallsyms", SYMBOLS).value(),
        Option::refused("symfs", SYMBOLS).value(),
        Option::ignored("ignore-vmlinux"),
        Option::refused(
            "itrace",
            "traces of the processor (AUX data) are not decoded; perf inject --itrace makes samples of them",
        )
        .maybe_value(),
        Option::refused("branch-history", "callchains are not made of branches; -b shows the branches"),
        Option::refused(
            "total-cycles",
            "needs the instructions between branches, which are not read; -b shows cycles",
        ),
        Option::refused(
            "stitch-lbr",
            "callchains of --call-graph lbr are shown as deep as the processor kept them",
        ),
        Option::refused("show-ref-call-graph", "events recorded without callchains are shown without"),
        Option::refused(
            "threads",
            "the counts of single threads (record -s) are shown by -D: the records READ",
        )
        .letter('T'),
        Option::refused("switch-on", SWITCHES).value(),
        Option::refused("switch-off", SWITCHES).value(),
        Option::refused("show-on-off-events", SWITCHES),
        Option::refused("tui", SCREEN),
        Option::refused("gtk", SCREEN),
        Option::refused("disable-order", "records are taken by time, as far as a recording allows"),
        // What concerns annotated instructions, or only the interactive view.
        Option::ignored("disassembler-style").letter('M').value(),
        Option::ignored("asm-raw"),
        Option::ignored("source"),
        Option::ignored("objdump").value(),
        Option::ignored("addr2line").value(),
        Option::ignored("prefix").value(),
        Option::ignored("prefix-strip").value(),
        Option::ignored("percent-type").value(),
        Option::ignored("samples").value(),
        // What is so anyway.
        Option::ignored("demangle"),
        Option::ignored("demangle-kernel"),
        Option::ignored("no-demangle-kernel"),
        Option::ignored("full-source-path"),
        Option::ignored("skip-empty"),
        Option::ignored("inline").said(INLINED),
        Option::ignored("no-inline"),
        Option::ignored("stdio2"),
    ];
}
