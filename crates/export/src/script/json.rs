//! Samples as JSON: an object a line.

use super::Sample;
use super::places::{Places, Space};
use perfuse_abi::EventType;
use perfuse_abi::record::CallchainContext;
use perfuse_data::replay::rest_of_chain;
use perfuse_data::session::Level;
use perfuse_data::text::LineBuffer;
use perfuse_profile::level_of;
use serde_json::{Map, Value, json};
use std::cell::RefCell;

/// Writes a sample as a line. Nothing is `null`: what was not recorded is left out.
pub(super) fn write(
    text: &mut LineBuffer,
    places: &mut Places,
    one: &Sample<'_>,
    (max_stack, stop_at): (usize, &[String]),
    machine: &str,
) {
    let Sample { event, fields, decoded, sample, session, .. } = *one;
    let space = Space::of(session, &event.attr, sample);
    let level = Level::of(decoded.misc);
    let mut object = Map::new();
    object.insert("event".into(), json!(fields.name));
    if let Some(tid) = sample.tid {
        object.insert("comm".into(), json!(String::from_utf8_lossy(&session.name_of(tid.tid))));
        object.insert("pid".into(), json!(tid.pid as i32));
        object.insert("tid".into(), json!(tid.tid as i32));
    }
    let mut number = |name: &str, value: Option<u64>| {
        if let Some(value) = value {
            object.insert(name.to_owned(), json!(value));
        }
    };
    number("cpu", sample.cpu.map(|cpu| cpu.cpu.into()));
    number("time_ns", sample.time);
    number("period", Some(one.period));
    number("address", sample.addr);
    number("physical_address", sample.phys_addr);
    number("weight", sample.weight.map(perfuse_abi::record::Weight::first));
    number("data_source", sample.data_src.map(|source| source.0));
    number("data_page_size", sample.data_page_size);
    number("code_page_size", sample.code_page_size);
    number("transaction", sample.transaction.map(|transaction| transaction.bits()));
    if let Some(id) = sample.cgroup {
        let path = session.cgroup(id).map(String::from_utf8_lossy);
        object.insert("cgroup".into(), json!(path.map_or_else(|| id.to_string(), |path| path.into_owned())));
    }
    if let Some(ip) = sample.ip {
        object.insert("place".into(), place(places, &space, level, ip));
    }
    if let Some(chain) = sample.callchain.as_ref().filter(|_| fields.has_chains) {
        let mut frames = Vec::new();
        let mut level = Some(level);
        let rest = rest_of_chain(&event.attr, sample, chain, machine);
        let max_stack = if chain.is_broken() { 0 } else { max_stack };
        for word in chain.words.iter().chain(rest) {
            match CallchainContext::of(word) {
                Some(context) => level = level_of(context),
                None if frames.len() == max_stack => break,
                None => {
                    let Some(level) = level else { continue };
                    let frame = place(places, &space, level, word);
                    let is_last = stop_at.iter().any(|stop| frame["symbol"] == **stop);
                    frames.push(frame);
                    if is_last {
                        break;
                    }
                }
            }
        }
        object.insert("callchain".into(), Value::Array(frames));
    }
    if let Some(stack) = &sample.branch_stack {
        let branches = stack.entries.iter().map(|branch| {
            let mut end = |address: u64| {
                let level = places.level_of(&space, level, address);
                place(places, &space, level, address)
            };
            json!({"from": end(branch.from), "to": end(branch.to), "mispredicted": branch.flags.mispred(),
                   "predicted": branch.flags.predicted(), "cycles": branch.flags.cycles()})
        });
        object.insert("branches".into(), branches.collect());
    }
    if let (EventType::TRACEPOINT, Some(raw)) = (event.attr.type_, &sample.raw) {
        let order = event.format.order;
        if let Some((_, format)) = one.formats.get(event.attr.config) {
            let names = RefCell::new(&mut *places);
            let symbol = |address| names.borrow_mut().kernel_symbol(&space, address);
            let line = one.formats.print(event.attr.config, raw.as_bytes(), order, &symbol);
            object.insert("trace".into(), json!(line));
            let own = format.own_fields(raw.as_bytes());
            let values = own.map(|field| {
                let value = match format.field_number(field, raw.as_bytes(), order) {
                    Some(number) if field.signed => json!(number as i64),
                    Some(number) => json!(number),
                    None => json!(format.field_text(field, raw.as_bytes(), order)),
                };
                (field.name.clone(), value)
            });
            object.insert("fields".into(), Value::Object(values.collect()));
        }
    }
    text.again(Value::Object(object).to_string().as_bytes());
    text.push("\n");
}

fn place(places: &mut Places, space: &Space<'_>, level: Level, address: u64) -> Value {
    let located = places.locate_inlined(space, level, address);
    let mut object = Map::new();
    object.insert("ip".into(), json!(address));
    if let Some(symbol) = &located.symbol {
        object.insert("symbol".into(), json!(**symbol));
        object.insert("offset".into(), json!(located.offset));
    }
    if let Some((file, line)) = &located.line {
        object.insert("file".into(), json!(**file));
        object.insert("line".into(), json!(line));
    }
    if !located.inlined.is_empty() {
        // Functions that were inlined there, the innermost first.
        let parts = located.inlined.iter().map(|(name, line)| match line {
            Some((file, line)) => json!({"symbol": **name, "file": **file, "line": line}),
            None => json!({"symbol": **name}),
        });
        object.insert("inlined".into(), parts.collect());
    }
    if located.object != 0 {
        object.insert("dso".into(), json!(places.lookup.object(located.object)));
    }
    Value::Object(object)
}
