//! What `perf script` takes and `perfuse script` does not.

use crate::recording::unfinished::INLINED;
use crate::recording::untaken::{Option, Table};

/// The options of `perf script` that mean nothing here, or are refused.
#[derive(Clone, Debug)]
pub(super) struct OfScript;

const TRACES: &str =
    "traces of the processor (AUX data) are not decoded; perf inject --itrace makes samples of them";
const SCRIPTS: &str = "scripts and filters are not loaded; pipe the lines, or --json, into a program";
const SYMBOLS: &str =
    "where symbols are is not told yet: they are found by path, by build-id and in /proc/kallsyms";
const SWITCHES: &str = "samples are not chosen by other events; --time chooses them by time";
const GUESTS: &str = "symbols of guests are not looked up";

impl Table for OfScript {
    const OPTIONS: &'static [Option] = &[
        Option::refused("itrace", TRACES).maybe_value(),
        Option::refused("call-trace", TRACES).maybe_value(),
        Option::refused("call-ret-trace", TRACES).maybe_value(),
        Option::refused("insn-trace", TRACES).maybe_value(),
        Option::refused("graph-function", TRACES).value(),
        Option::refused("xed", TRACES).maybe_value(),
        Option::refused("script", SCRIPTS).letter('s').value(),
        Option::refused("gen-script", SCRIPTS).letter('g').value(),
        Option::refused("list", SCRIPTS).letter('l'),
        Option::refused("dlfilter", SCRIPTS).value(),
        Option::refused("dlarg", SCRIPTS).value(),
        Option::refused("list-dlfilters", SCRIPTS),
        Option::refused("latency", "what is off at a tracepoint is in its fields: -F +trace").letter('L'),
        Option::refused("vmlinux", SYMBOLS).letter('k').value(),
        Option::refused("kallsyms", SYMBOLS).value(),
        Option::refused("symfs", SYMBOLS).value(),
        Option::refused("switch-on", SWITCHES).value(),
        Option::refused("switch-off", SWITCHES).value(),
        Option::refused("show-on-off-events", SWITCHES),
        Option::refused("guest-code", GUESTS),
        Option::refused("guestkallsyms", GUESTS).value(),
        Option::refused("guestmodules", GUESTS).value(),
        Option::refused("guestmount", GUESTS).value(),
        Option::refused("guestvmlinux", GUESTS).value(),
        Option::refused(
            "stitch-lbr",
            "callchains of --call-graph lbr are shown as deep as the processor kept them",
        ),
        Option::refused(
            "dump-unsorted-raw-trace",
            "records are taken by time; perfuse report -D prints them with their places in the file",
        ),
        // What is so anyway, or would only matter where something is refused.
        Option::ignored("all-cpus").letter('a'),
        Option::ignored("debug-mode").letter('d'),
        Option::ignored("verbose").letter('v'),
        Option::ignored("demangle"),
        Option::ignored("demangle-kernel"),
        Option::ignored("full-source-path"),
        Option::ignored("show-kernel-path"),
        Option::ignored("max-blocks").value(),
        Option::ignored("addr2line").value(),
        Option::ignored("inline").said(INLINED),
        Option::ignored("no-inline"),
    ];
}
