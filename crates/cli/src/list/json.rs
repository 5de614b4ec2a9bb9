//! The list for programs: one object, schema `perfuse.list/1`, or as perf writes it.

use perfuse::catalogue::{Entry, Kind, Listing, Works, fields};
use perfuse_events::{Catalogue as _, Machine};
use serde_json::{Map, Value, json};
use std::io::{self, Write};

pub(super) fn print(out: &mut dyn Write, machine: &Machine, all: &Listing) -> io::Result<()> {
    let terms = |pmu: &String| {
        let terms = machine.formats(pmu).into_iter().filter_map(|term| {
            let format = machine.format(pmu, &term)?;
            Some((term, json!({ "word": format.word, "mask": format!("{:#x}", format.mask) })))
        });
        (pmu.clone(), Value::Object(terms.collect()))
    };
    let pmus: Map<String, Value> = machine.pmus().unwrap_or_default().iter().map(terms).collect();
    let missing = all.missing.iter();
    let missing: Vec<_> =
        missing.map(|(kind, reason)| json!({ "kind": kind.word(), "reason": reason })).collect();
    let events: Vec<_> = all.entries.iter().map(event).collect();
    let value =
        json!({ "schema": "perfuse.list/1", "events": events, "pmus": pmus, "cannot_be_listed": missing });
    writeln!(out, "{value}")
}

/// As `perf list -j` does: a list of objects with its members. Forms are left out: they are not events.
pub(super) fn print_as_perf(out: &mut dyn Write, all: &Listing) -> io::Result<()> {
    let events = all.entries.iter().filter(|entry| entry.kind != Kind::Form).map(as_perf);
    writeln!(out, "{:#}", Value::Array(events.collect()))
}

fn as_perf(entry: &Entry) -> Value {
    let (name, kind) = match entry.kind {
        Kind::Hardware => ("EventName", "Hardware event"),
        Kind::Cache => ("EventName", "Hardware cache event"),
        Kind::Software => ("EventName", "Software event"),
        Kind::Tool => ("EventName", "Tool event"),
        Kind::Pmu | Kind::Form => ("EventName", "Kernel PMU event"),
        Kind::Tracepoint => ("EventName", "Tracepoint event"),
        Kind::Metric => ("MetricName", ""),
    };
    let aliases = entry.aliases.join(if entry.kind == Kind::Metric { ";" } else { " OR " });
    let members = [
        (name, entry.name.as_str()),
        (if entry.kind == Kind::Metric { "MetricGroup" } else { "EventAlias" }, &aliases),
        ("EventType", kind),
        ("BriefDescription", &entry.description),
        ("ScaleUnit", &entry.unit),
        (if entry.kind == Kind::Metric { "MetricExpr" } else { "Encoding" }, &entry.terms),
    ];
    let told = members.into_iter().filter(|(_, text)| !text.is_empty());
    Value::Object(told.map(|(key, text)| (key.to_owned(), text.into())).collect())
}

fn event(entry: &Entry) -> Value {
    let mut object = Map::new();
    object.insert("name".into(), entry.name.clone().into());
    object.insert("kind".into(), entry.kind.word().into());
    if !entry.aliases.is_empty() {
        object.insert("aliases".into(), entry.aliases.clone().into());
    }
    for (key, text) in [("description", &entry.description), ("terms", &entry.terms), ("unit", &entry.unit)] {
        if !text.is_empty() {
            object.insert(key.into(), text.clone().into());
        }
    }
    if let Some((type_, words)) = &entry.encoding {
        object.insert("type".into(), (*type_).into());
        // As text: not every reader of JSON has numbers of 64 bits.
        let words: Vec<_> = words.iter().map(|word| Value::from(format!("{word:#x}"))).collect();
        object.insert("config".into(), words.into());
    }
    if entry.kind == Kind::Tracepoint {
        let fields = fields(&entry.name);
        let fields = fields.into_iter().map(|(name, type_)| json!({ "name": name, "type": type_ }));
        object.insert("fields".into(), fields.collect());
    }
    match &entry.works {
        Works::Yes => drop(object.insert("works".into(), "yes".into())),
        Works::UserOnly => drop(object.insert("works".into(), "user".into())),
        Works::No(reason) => {
            object.insert("works".into(), "no".into());
            object.insert("reason".into(), reason.words.clone().into());
            if !reason.remedies.is_empty() {
                object.insert("remedies".into(), reason.remedies.clone().into());
            }
        }
        Works::Unknown => {}
    }
    object.into()
}
