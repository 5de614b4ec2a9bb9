//! Options that `perf script` takes and `perfuse script` refuses or ignores.

use crate::common::unsupported::{Part, PerfOption, PerfOptions};

/// The options of `perf script` that mean nothing here, or are refused.
#[derive(Clone, Debug)]
pub(super) struct OfScript;

const TRACES: &str =
    "traces of the processor (AUX data) are not decoded; perf inject --itrace makes samples of them";
const SCRIPTS: &str = "scripts and filters are not loaded; pipe the lines, or --json, into a program";
const SWITCHES: &str = "samples are not chosen by other events; --time chooses them by time";
const GUESTS: &str = "symbols of guests are not looked up";

impl PerfOptions for OfScript {
    const OPTIONS: &'static [PerfOption] = &[
        PerfOption::refused("itrace", TRACES).maybe_value().of(Part::Traces),
        PerfOption::refused("call-trace", TRACES).maybe_value(),
        PerfOption::refused("call-ret-trace", TRACES).maybe_value(),
        PerfOption::refused("insn-trace", TRACES).maybe_value(),
        PerfOption::refused("graph-function", TRACES).value(),
        PerfOption::refused("xed", TRACES).maybe_value(),
        PerfOption::refused("script", SCRIPTS).letter('s').value(),
        PerfOption::refused("gen-script", SCRIPTS).letter('g').value(),
        PerfOption::refused("list", SCRIPTS).letter('l'),
        PerfOption::refused("dlfilter", SCRIPTS).value(),
        PerfOption::refused("dlarg", SCRIPTS).value(),
        PerfOption::refused("list-dlfilters", SCRIPTS),
        PerfOption::refused("latency", "what is off at a tracepoint is in its fields: -F +trace").letter('L'),
        PerfOption::refused("switch-on", SWITCHES).value(),
        PerfOption::refused("switch-off", SWITCHES).value(),
        PerfOption::refused("guest-code", GUESTS).of(Part::Guests),
        PerfOption::refused("guestkallsyms", GUESTS).value().of(Part::Guests),
        PerfOption::refused("guestmodules", GUESTS).value().of(Part::Guests),
        PerfOption::refused("guestmount", GUESTS).value().of(Part::Guests),
        PerfOption::refused("guestvmlinux", GUESTS).value().of(Part::Guests),
        PerfOption::refused(
            "stitch-lbr",
            "callchains of --call-graph lbr are shown as deep as the processor kept them",
        )
        .of(Part::Lbr),
        PerfOption::refused(
            "dump-unsorted-raw-trace",
            "records are taken by time; perfuse report -D prints them with their places in the file",
        ),
        // These are so anyway, or would only matter where something is refused.
        PerfOption::ignored("all-cpus").letter('a'),
        PerfOption::ignored("show-on-off-events"),
        PerfOption::ignored("debug-mode").letter('d'),
        PerfOption::ignored("verbose").letter('v'),
        PerfOption::ignored("demangle"),
        PerfOption::ignored("demangle-kernel"),
        PerfOption::ignored("full-source-path"),
        PerfOption::ignored("show-kernel-path"),
        PerfOption::ignored("addr2line").value(),
    ];
}
