//! Tables of vendors on machines that are not at hand. The tables are ours, in the format of the kernel's.

mod fixture;

use fixture::Fixture;
use perfuse_events::{Context, Expression, Processor, Tables};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tables").join(name)
}

fn load(name: &str, cpuid: &str) -> Tables {
    Tables::load(&folder(name), cpuid).unwrap().unwrap()
}

fn zen() -> Option<&'static Tables> {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    Some(TABLES.get_or_init(|| load("x86", "AuthenticAMD-25-11-1")))
}

fn lake() -> Option<&'static Tables> {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    Some(TABLES.get_or_init(|| load("x86", "GenuineIntel-6-97-2")))
}

fn arm() -> Option<&'static Tables> {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    Some(TABLES.get_or_init(|| load("arm64", "0x00000000410fd083")))
}

fn machine(name: &str, tables: fn() -> Option<&'static Tables>) -> Fixture {
    let mut fixture = Fixture::new(name);
    fixture.machine.tables = Some(tables);
    fixture
}

#[test]
fn events_of_a_table_resolve_on_their_pmu() {
    let amd = machine("amd", zen);
    assert_eq!(amd.attrs("ex_ret_instr"), ["ex_ret_instr 4:0xc0"]);
    assert_eq!(amd.attrs("EX_RET_INSTR:u"), ["EX_RET_INSTR:u 4:0xc0"]);
    assert_eq!(amd.attrs("cpu/ex_ret_instr,cmask=2/"), ["cpu/ex_ret_instr,cmask=2/ 4:0x20000c0"]);
    assert_eq!(amd.attrs("bp_redirects.resync"), ["bp_redirects.resync 4:0x1800191"]);
    let l3 = "l3_lookup_state.all_coherent_accesses_to_l3";
    assert_eq!(amd.attrs(l3), [format!("{l3} 11:0x30000000000ff04")]);
    assert_eq!(amd.specs(l3)[0].cpus(), Some(vec![0, 8]));
    // An event that the kernel names too is asked for as the kernel says.
    assert_eq!(amd.attrs("cpu/branch-misses/"), ["cpu/branch-misses/ 4:0xc3"]);
    assert!(amd.complaint("ex_ret_inst").contains("did you mean ex_ret_instr"));
}

#[test]
fn kinds_of_cores_have_tables_of_their_own() {
    let intel = machine("intel-hybrid", lake);
    assert_eq!(
        intel.attrs("inst_retired.any"),
        ["cpu_atom/inst_retired.any/ 10:0xc0", "cpu_core/inst_retired.any/ 4:0xc0"]
    );
    assert_eq!(intel.specs("inst_retired.any")[1].options.proposed_period, Some(2_000_003));
    assert_eq!(intel.attrs("cpu_clk_unhalted.thread:k"), ["cpu_clk_unhalted.thread:k 4:0x3c"]);
    assert_eq!(
        intel.attrs("mem_trans_retired.load_latency_gt_64:pp"),
        ["mem_trans_retired.load_latency_gt_64:pp 4:0x1cd,0x40"]
    );
    let reads = intel.specs("unc_m_cas_count.rd");
    assert!(reads.len() >= 2 && reads.iter().all(|spec| spec.pmu.as_ref().unwrap().per_package));
    assert_eq!(reads[0].scale().map(|scale| (scale.factor, &*scale.unit)), Some((64.0, "Bytes")));
    assert_eq!(
        lake().unwrap().metric("plain_ipc", Some("cpu_core")).unwrap().pmu.as_deref(),
        Some("cpu_core")
    );
}

#[test]
fn a_table_may_refer_to_those_of_the_architecture() {
    let tables = arm().unwrap();
    let arm = machine("arm", arm);
    assert_eq!(
        arm.attrs("inst_retired"),
        ["armv8_cortex_a53/inst_retired/ 8:0x8", "armv8_cortex_a72/inst_retired/ 9:0x8"]
    );
    assert_eq!(arm.attrs("flux_rd"), ["flux_rd 11:0x1"]);
    let event = tables.event("armv8_cortex_a72", true, "cpu_cycles").unwrap();
    assert_eq!((&*event.terms, &*event.description), ("event=0x11", "Cycles of this core"));
    assert!(tables.complaints[0].contains("no event 'NO_SUCH'"), "{:?}", tables.complaints);
    let stalls = tables.metric("plain_stalls", None).unwrap();
    assert!(stalls.answers_to("stalls") && stalls.scale.is_some());
    // A vendor's metric takes the place of the common one.
    assert_eq!(
        tables.metric("insn_per_cycle", None).unwrap().expression.to_string(),
        "inst_retired / cpu_cycles"
    );
}

#[test]
fn metrics_come_with_groups_and_complaints() {
    let tables = zen().unwrap();
    let names = |group: &str| -> Vec<&str> {
        let of = tables.metrics.iter().filter(|metric| metric.answers_to(group));
        of.map(|metric| metric.name.as_str()).collect()
    };
    assert_eq!(names("pipeline"), ["plain_cpi", "plain_ipc"]);
    assert!(names("Common").contains(&"cs_per_second"));
    assert_eq!(tables.groups["Pipeline"], "How much work each cycle does");
    assert_eq!(tables.complaints.len(), 1);
    assert!(tables.complaints[0].contains("broken: column 4: an event"), "{:?}", tables.complaints);
}

#[test]
fn a_processor_without_a_table_and_a_folder_without_tables() {
    assert!(Tables::load(&folder("x86"), "GenuineIntel-6-1-1").unwrap().is_none());
    assert!(Tables::load(&folder("nowhere"), "x").unwrap_err().to_string().contains("nowhere"));
    // Files alone are everybody's.
    assert_eq!(load("x86/plainzen", "anything").event_count(), 4);
}

/// Counts that a processor may have made, and facts of it.
struct Counted;

impl Context for Counted {
    fn literal(&self, name: &str) -> Option<f64> {
        (name == "smt_on").then_some(0.0)
    }

    fn has_event(&self, name: &str) -> Option<bool> {
        Some(name.starts_with("cpu/"))
    }

    fn is_cpu(&self, pattern: &str) -> Option<bool> {
        Some(pattern == "0x410fd490")
    }

    fn value(&self, name: &str) -> Option<f64> {
        match name {
            "a" => Some(12.0),
            "b" => Some(5.0),
            "zero" => Some(0.0),
            "cpu/event=0x3c,umask=1/" | "x-y" => Some(7.0),
            _ => None,
        }
    }

    fn source_count(&self, _name: &str) -> Option<f64> {
        Some(2.0)
    }
}

#[test]
fn definitions_have_the_values_that_perf_gives_them() {
    for (text, value) in [
        ("a + b * 2", 22.0),
        ("(a + b) * 2", 34.0),
        ("a - b - 2", 5.0),
        ("a / b", 2.4),
        ("a % b", 2.0),
        ("a / b % 1.5", 0.0),
        ("-a + b", -7.0),
        ("a | 1", 13.0),
        ("a ^ b & 4", 8.0),
        ("1 - 1 < 1", 1.0),
        ("a > b", 1.0),
        ("a > b & b > a", 0.0),
        ("min(a, b) + max(a, b)", 17.0),
        ("d_ratio(a, zero)", 0.0),
        ("d_ratio(a, b)", 2.4),
        ("a if #smt_on else b", 5.0),
        ("1 if zero else 2 if b else 3", 2.0),
        ("(a if b > 4 else b) * 2", 24.0),
        ("cpu@event\\=0x3c\\,umask\\=1@ + x\\-y", 14.0),
        ("has_event(cpu@event\\=1@)", 1.0),
        ("has_event(other)", 0.0),
        ("source_count(a)", 2.0),
        ("strcmp_cpuid_str(0x410fd490) | 2", 3.0),
        ("1e3 * .5 + 2e-1", 500.2),
    ] {
        let expression: Expression = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(expression.value(&Counted), value, "{text}");
    }
    for unknown in ["a / zero", "a % zero", "nothing + 1", "a if nothing else b", "max(nothing, 1)", "#slots"]
    {
        let expression: Expression = unknown.parse().unwrap();
        assert!(expression.value(&Counted).is_nan(), "{unknown}");
    }
}

#[test]
fn only_what_is_needed_on_a_machine_is_asked_for() {
    for (text, names) in [
        ("a / b + a", "a b"),
        ("a if #smt_on else b", "b"),
        ("a if b else zero", "a b zero"),
        ("a if has_event(cpu@x@) else b", "a"),
        ("b & (1 - has_event(cpu@x@))", ""),
        ("source_count(c) * 2", "c"),
    ] {
        let expression: Expression = text.parse().unwrap();
        assert_eq!(expression.names(&Counted).join(" "), names, "{text}");
    }
}

#[test]
fn conditions_within_conditions_are_looked_at_once() {
    let nested = |n: usize| "(a if ".repeat(n) + "b" + &" else 1 & a)".repeat(n);
    let expression: Expression = nested(31).parse().unwrap();
    assert_eq!(expression.names(&Counted), ["a", "b"]);
}

#[test]
fn what_is_no_definition_is_told_with_its_column() {
    for (text, complaint) in [
        ("", "column 1: an event, a metric, a number or '(' is missing at the end"),
        ("a +", "column 4: an event, a metric, a number or '(' is missing at the end"),
        ("(a", "column 3: ')' is missing at the end"),
        ("a b", "column 3: expected an operator or the end, found 'b'"),
        ("a if b", "column 7: else is missing at the end"),
        ("min(a)", "column 6: expected ',', found ')'"),
        ("sqrt(a)", "column 1: expected min, max, d_ratio"),
        ("a $ b", "column 3: expected an operator or the end, found '$'"),
    ] {
        let error = text.parse::<Expression>().unwrap_err().to_string();
        assert!(error.starts_with(complaint), "{text}: {error}");
    }
    assert!("(".repeat(100_000).parse::<Expression>().is_err());
    assert!("-".repeat(100_000).parse::<Expression>().is_err());
    assert!(vec!["1"; 100_000].join("+").parse::<Expression>().is_err());
}

#[test]
fn each_kind_of_cores_and_each_system_has_its_table() {
    fn soc() -> Option<&'static Tables> {
        static TABLES: OnceLock<Tables> = OnceLock::new();
        let core = |pmu: &str, cpuid: &str| (Some(pmu.to_owned()), cpuid.to_owned());
        let processor = Processor {
            cores: vec![core("armv8_cortex_a53", "0x410fd034"), core("armv8_cortex_a72", "0x410fd083")],
            identifiers: [("imx8_ddr0", "plain-soc-2"), ("imx8_ddr1", "other")]
                .map(|(pmu, own)| (pmu.to_owned(), own.to_owned()))
                .into(),
        };
        Some(TABLES.get_or_init(|| Tables::load_for(&folder("arm64"), &processor).unwrap().unwrap()))
    }
    let machine = machine("arm-soc", soc);
    // An event of one kind of cores is counted there.
    assert_eq!(machine.attrs("little_waits"), ["little_waits 8:0xe7"]);
    assert_eq!(machine.attrs("inst_retired"), ["inst_retired 9:0x8"]);
    assert!(machine.complaint("armv8_cortex_a72/little_waits/").contains("no term or event"));
    // Of two controllers, one is that of the table's system.
    assert_eq!(machine.attrs("imx8_ddr.read_cycles"), ["imx8_ddr.read_cycles 10:0x2a"]);
    assert!(machine.complaint("imx8_ddr.write_cycles").contains("did you mean imx8_ddr.read_cycles"));
    for (name, pmu) in [
        ("waits_per_cycle", "armv8_cortex_a53"),
        ("insn_per_cycle", "armv8_cortex_a72"),
        ("ddr_read_cycles", "imx8_ddr"),
    ] {
        let metric = soc().unwrap().metric(name, Some(pmu));
        assert_eq!(metric.and_then(|metric| metric.pmu.as_deref()), Some(pmu), "{name}");
    }
    // A machine without such a controller has none of its events.
    assert!(arm().unwrap().event("imx8_ddr0", false, "imx8_ddr.read_cycles").is_none());
}
