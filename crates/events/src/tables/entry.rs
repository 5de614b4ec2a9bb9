//! One entry of a table: an event, a metric, or both.

use super::TableEvent;
use crate::catalogue::PmuEvent;
use crate::metric::{Expression, Metric, scale_unit};
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;
use serde_json::Value;

/// The members of an entry.
pub(super) type Object = BTreeMap<String, String>;

/// The parts of an entry.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// With its name in small letters.
    pub(super) event: Option<(String, TableEvent)>,
    pub(super) metric: Option<Metric>,
    /// The PMU's identifier, of an entry that is not about the processor.
    pub(super) compat: Option<String>,
}

/// The entries of a file. Numbers and truth values are taken as they are written.
pub(super) fn objects(text: &str) -> Result<Vec<Object>, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let Value::Array(entries) = value else { return Err("this is no list of events".into()) };
    let member = |(key, value): (String, Value)| match value {
        Value::String(text) => Some((key, text)),
        Value::Number(number) => Some((key, number.to_string())),
        Value::Bool(truth) => Some((key, u8::from(truth).to_string())),
        _ => None,
    };
    let object = |entry| match entry {
        Value::Object(members) => Ok(members.into_iter().filter_map(member).collect()),
        _ => Err("an entry of the list is none of an event".into()),
    };
    entries.into_iter().map(object).collect()
}

/// Members of an event that are terms of its PMU, in the order in which they are put.
const TERMS: [(&str, &str); 15] = [
    ("AnyThread", "any"),
    ("PortMask", "ch_mask"),
    ("CounterMask", "cmask"),
    ("EdgeDetect", "edge"),
    ("FCMask", "fc_mask"),
    ("Invert", "inv"),
    ("SampleAfterValue", "period"),
    ("UMask", "umask"),
    ("UMaskExt", "umask_ext"),
    ("NodeType", "type"),
    ("RdWrMask", "rdwrmask"),
    ("EnAllCores", "enallcores"),
    ("EnAllSlices", "enallslices"),
    ("SliceId", "sliceid"),
    ("ThreadMask", "threadmask"),
];

/// Events that counters of their own count: what they are called, and how they are asked for.
const FIXED: [(&str, &str); 6] = [
    ("inst_retired.any", "event=0xc0"),
    ("inst_retired.any_p", "event=0xc0"),
    ("cpu_clk_unhalted.ref", "event=0x0,umask=0x3"),
    ("cpu_clk_unhalted.thread", "event=0x3c"),
    ("cpu_clk_unhalted.core", "event=0x3c"),
    ("cpu_clk_unhalted.thread_any", "event=0x3c,any=1"),
];

/// Names of PMUs for the units of entries, where they are not `uncore_` and its name in small letters.
const UNITS: [(&str, &str); 13] = [
    ("CBO", "uncore_cbox"),
    ("QPI LL", "uncore_qpi"),
    ("SBO", "uncore_sbox"),
    ("iMPH-U", "uncore_arb"),
    ("CPU-M-CF", "cpum_cf"),
    ("CPU-M-SF", "cpum_sf"),
    ("PAI-CRYPTO", "pai_crypto"),
    ("PAI-EXT", "pai_ext"),
    ("UPI LL", "uncore_upi"),
    ("L3PMC", "amd_l3"),
    ("DFPMC", "amd_df"),
    ("UMCPMC", "amd_umc"),
    ("tool", "tool"),
];

/// Units that are called as their PMUs are.
const OWN_NAMES: [&str; 8] =
    ["cpu_core", "cpu_atom", "hisi_", "imx8_ddr", "imx9_ddr", "ali_drw", "arm_cmn", "cpu_lowpower"];

fn pmu(unit: &str) -> String {
    match UNITS.iter().find(|(own, _)| *own == unit) {
        Some((_, pmu)) => (*pmu).into(),
        None if OWN_NAMES.iter().any(|own| unit.starts_with(own)) => unit.into(),
        None => alloc::format!("uncore_{}", unit.to_ascii_lowercase()),
    }
}

/// A decimal number, or a hexadecimal one after `0x`; of several, the first.
fn number(text: &str) -> Option<u64> {
    crate::parser::number(text.split(',').next()?.trim())
}

/// Makes sense of an entry. `standard` are those that others may refer to, by name in small letters.
pub(super) fn read(object: &Object, standard: &BTreeMap<String, Object>) -> Result<Entry, String> {
    let merged;
    let object = match object.get("ArchStdEvent") {
        Some(name) => {
            let general = standard.get(&name.to_ascii_lowercase());
            let general = general.ok_or_else(|| alloc::format!("there is no event '{name}' to refer to"))?;
            let mut own = general.clone();
            own.extend(object.iter().map(|(key, value)| (key.clone(), value.clone())));
            merged = own;
            &merged
        }
        None => object,
    };
    let text = |key: &str| object.get(key).map(String::as_str).filter(|text| !text.is_empty());
    let description = || {
        let text = text("BriefDescription").or(text("PublicDescription")).unwrap_or_default();
        text.trim().trim_end_matches('.').to_owned()
    };
    let pmu = text("Unit").map(pmu);
    let mut entry = Entry { compat: text("Compat").map(Into::into), ..Entry::default() };
    if let Some(name) = text("EventName") {
        let name = name.to_ascii_lowercase();
        let event = PmuEvent {
            terms: terms(&name, object).map_err(|reason| alloc::format!("{name}: {reason}"))?,
            scale: text("ScaleUnit").and_then(scale_unit),
            snapshot: false,
            per_package: text("PerPkg") == Some("1"),
            description: description(),
        };
        entry.event = Some((name, TableEvent { pmu: pmu.clone(), only: None, event }));
    }
    if let (Some(name), Some(expression)) = (text("MetricName"), text("MetricExpr")) {
        let wrong = |error: &dyn core::fmt::Display| alloc::format!("{name}: {error}");
        let threshold = text("MetricThreshold").map(str::parse::<Expression>).transpose();
        let groups = text("MetricGroup").unwrap_or_default().split(';').map(str::trim);
        entry.metric = Some(Metric {
            name: name.into(),
            groups: groups.filter(|group| !group.is_empty()).map(Into::into).collect(),
            description: description(),
            expression: expression.parse().map_err(|error| wrong(&error))?,
            threshold: threshold.map_err(|error| wrong(&error))?,
            scale: text("ScaleUnit").and_then(scale_unit),
            apart: text("MetricConstraint").is_some_and(|constraint| constraint == "NO_GROUP_EVENTS"),
            pmu,
        });
    }
    Ok(entry)
}

/// The terms of an event, as its PMU takes them.
fn terms(name: &str, object: &Object) -> Result<String, String> {
    let text = |key: &str| object.get(key).map(|text| text.trim()).filter(|text| !text.is_empty());
    let numbered = |key: &str| match text(key) {
        None => Ok(None),
        Some(text) => number(text).map(Some).ok_or_else(|| alloc::format!("{key} is no number: '{text}'")),
    };
    let mut terms = match (numbered("ConfigCode")?, numbered("EventidCode")?) {
        (Some(code), _) => alloc::format!("config={code:#x}"),
        (None, Some(code)) => alloc::format!("eventid={code:#x}"),
        (None, None) => {
            let select = numbered("ExtSel")?.unwrap_or(0) << 8;
            alloc::format!("event={:#x}", numbered("EventCode")?.unwrap_or(0) | select)
        }
    };
    let fixed = FIXED.iter().find(|(own, _)| *own == name);
    if let Some((_, fixed)) = fixed {
        terms = (*fixed).into();
    }
    // Writing to a string does not fail.
    for (key, term) in TERMS {
        // One with a counter of its own has no other choices.
        let applies = fixed.is_none() || term == "period";
        if let Some(value) = numbered(key)?.filter(|value| *value != 0 && applies) {
            let _ = write!(terms, ",{term}={value:#x}");
        }
    }
    if fixed.is_some() {
        return Ok(terms);
    }
    if let Some(filter) = text("Filter") {
        let _ = write!(terms, ",{filter}");
    }
    if let (Some(register), Some(value)) = (numbered("MSRIndex")?, numbered("MSRValue")?) {
        let term = match register {
            0x3f6 => Some("ldlat"),
            0x1a6 | 0x1a7 => Some("offcore_rsp"),
            0x3f7 => Some("frontend"),
            _ => None,
        };
        if let Some(term) = term {
            let _ = write!(terms, ",{term}={value:#x}");
        }
    }
    Ok(terms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Entry {
        let objects = objects(&alloc::format!("[{text}]")).unwrap();
        read(&objects[0], &BTreeMap::new()).unwrap()
    }

    fn terms_of(text: &str) -> String {
        one(text).event.unwrap().1.event.terms
    }

    #[test]
    fn members_become_terms() {
        for (members, terms) in [
            (r#""EventCode": "0x16", "UMask": "0x01""#, "event=0x16,umask=0x1"),
            (r#""EventCode": "60", "UMask": "0x0""#, "event=0x3c"),
            (r#""EventCode": "0x76", "ExtSel": "1""#, "event=0x176"),
            (r#""EventCode": "0x0E", "Invert": "1", "CounterMask": "3""#, "event=0xe,cmask=0x3,inv=0x1"),
            (
                r#""EventCode": "0xb7, 0xbb", "MSRIndex": "0x1a6,0x1a7", "MSRValue": "0x10""#,
                "event=0xb7,offcore_rsp=0x10",
            ),
            (r#""ConfigCode": "0x5", "Filter": "f=1""#, "config=0x5,f=1"),
            (r#""EventCode": "0x1", "SampleAfterValue": "2000003""#, "event=0x1,period=0x1e8483"),
        ] {
            assert_eq!(terms_of(&alloc::format!(r#"{{"EventName": "X.Y", {members}}}"#)), terms);
        }
        let fixed = r#"{"EventName": "INST_RETIRED.ANY", "EventCode": "0x00", "UMask": "0x01"}"#;
        assert_eq!(terms_of(fixed), "event=0xc0");
        let wrong = objects(r#"[{"EventName": "x", "EventCode": "many"}]"#).unwrap();
        assert_eq!(read(&wrong[0], &BTreeMap::new()).unwrap_err(), "x: EventCode is no number: 'many'");
    }

    #[test]
    fn units_are_pmus() {
        let of = |unit: &str| pmu(unit);
        assert_eq!(
            ["CBO", "iMC", "L3PMC", "cpu_core", "hisi_sccl,ddrc"].map(of),
            ["uncore_cbox", "uncore_imc", "amd_l3", "cpu_core", "hisi_sccl,ddrc"]
        );
    }

    #[test]
    fn metrics_with_all_they_may_have() {
        let metric = one(
            r#"{"MetricName": "stalled", "MetricExpr": "a / b", "MetricGroup": "Pipeline;TopdownL1",
                "MetricThreshold": "stalled > 0.2", "ScaleUnit": "100%", "MetricConstraint": "NO_GROUP_EVENTS",
                "BriefDescription": "cycles that did nothing."}"#,
        );
        let metric = metric.metric.unwrap();
        assert_eq!(metric.expression.to_string(), "a / b");
        assert_eq!(metric.threshold.unwrap().to_string(), "stalled > 0.2");
        assert_eq!((metric.scale.unwrap().factor, metric.apart), (100.0, true));
        assert_eq!((metric.groups.len(), metric.description.as_str()), (2, "cycles that did nothing"));
    }
}
