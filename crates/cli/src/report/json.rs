//! A report as one JSON object, schema `perfuse.report/1`.

use super::keys::{Key, Names};
use super::{Args, EventProfile, Plan, Summary};
use crate::exit::{Failure, Result};
use serde_json::{Map, Value, json};
use std::io::Write;

pub(super) fn print(
    out: &mut impl Write,
    args: &Args,
    plan: &Plan,
    events: &mut [EventProfile],
    summary: &Summary,
) -> Result<()> {
    let events: Vec<Value> = events.iter_mut().map(|event| of_event(args, plan, event, summary)).collect();
    let missing: Vec<Value> =
        summary.frames.missing().map(|(name, reason)| json!({"object": name, "reason": reason})).collect();
    let sort: Vec<_> = plan.keys.iter().map(|key| key.name()).collect();
    let report = json!({
        "schema": "perfuse.report/1",
        "input": args.input.name(),
        "sort": sort,
        "lost_samples": summary.lost,
        "events": events,
        "missing_symbols": missing,
    });
    serde_json::to_writer(&mut *out, &report).map_err(|error| match error.io_error_kind() {
        Some(kind) => Failure::from(std::io::Error::from(kind)),
        None => Failure::new(error),
    })?;
    writeln!(out)?;
    Ok(())
}

fn of_event(args: &Args, plan: &Plan, event: &mut EventProfile, summary: &Summary) -> Value {
    let tree = event.profile.finish();
    let profile = tree.profile;
    let names = Names {
        frames: &summary.frames,
        session: &summary.session,
        context_keys: &plan.context_keys,
        contexts: &profile.contexts,
    };
    let (entries, count) = super::entries(args, plan, &tree, &names);
    let rows: Vec<Value> = entries
        .iter()
        .map(|entry| {
            let mut row = Map::new();
            row.insert("self_period".into(), entry.self_weight.into());
            row.insert("self_samples".into(), entry.self_samples.into());
            if plan.children {
                row.insert("total_period".into(), entry.total_weight.into());
                row.insert("total_samples".into(), entry.total_samples.into());
            }
            let frame = summary.frames.get(entry.frame);
            for &key in &plan.keys {
                let value = match key {
                    Key::Symbol => frame.symbol.as_deref().map_or(Value::Null, Value::from),
                    Key::Dso => summary.frames.object(frame.object).into(),
                    _ => names.text(entry, key).trim().into(),
                };
                row.insert(key.name().into(), value);
                if key == Key::Symbol {
                    row.insert("level".into(), frame.level.letter().to_string().into());
                    if frame.symbol.is_none() {
                        row.insert("address".into(), frame.address.into());
                    }
                }
            }
            Value::Object(row)
        })
        .collect();
    json!({
        "name": event.name,
        "samples": profile.samples,
        "period": profile.weight,
        "entries": rows,
        "entries_in_all": count,
    })
}
