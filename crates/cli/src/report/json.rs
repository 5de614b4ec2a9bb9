//! A report as one JSON object, schema `perfuse.report/1`. It is written entry by entry, not built first.

use super::options::{Plan, Style};
use super::{Args, Read, Shown, tree};
use crate::exit::{Failure, Result};
use perfuse_profile::{Branch, Entry, Frames, Key};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::json;
use std::io::Write;

pub(super) fn print(out: &mut impl Write, args: &Args, plan: &Plan, read: &Read) -> Result<()> {
    serde_json::to_writer(&mut *out, &Document { args, plan, read }).map_err(|error| {
        match error.io_error_kind() {
            Some(kind) => Failure::from(std::io::Error::from(kind)),
            None => Failure::new(error),
        }
    })?;
    writeln!(out)?;
    Ok(())
}

struct Document<'d> {
    args: &'d Args,
    plan: &'d Plan,
    read: &'d Read,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let Document { args, plan, read } = *self;
        let graph = &plan.graph;
        let sort: Vec<_> = plan.keys.iter().map(|&key| plan.name_of(key)).collect();
        let call_graph = (graph.style != Style::None).then(|| {
            json!({
                "order": if graph.caller_first { "caller" } else { "callee" },
                "relative": graph.style == Style::Fractal,
                "least_percent": graph.least_percent,
            })
        });
        let missing: Vec<_> =
            read.frames.missing().map(|(name, reason)| json!({"object": name, "reason": reason})).collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", "perfuse.report/1")?;
        map.serialize_entry("input", &args.input.name())?;
        map.serialize_entry("recording", &read.origin)?;
        map.serialize_entry("sort", &sort)?;
        map.serialize_entry("children", &plan.children)?;
        map.serialize_entry("call_graph", &call_graph)?;
        map.serialize_entry("lost_samples", &read.lost)?;
        map.serialize_entry("events", &EventList(self))?;
        map.serialize_entry("missing_symbols", &missing)?;
        map.end()
    }
}

struct EventList<'d>(&'d Document<'d>);

impl Serialize for EventList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let Document { args, plan, read } = *self.0;
        let mut seq = serializer.serialize_seq(Some(read.names.len()))?;
        for index in 0..read.names.len() {
            let view = read.view(args, plan, index);
            let shown = &Shown::new(args, plan, read, index, &view);
            seq.serialize_element(&EventOf { plan, shown })?;
        }
        seq.end()
    }
}

struct EventOf<'d> {
    plan: &'d Plan,
    shown: &'d Shown<'d>,
}

impl Serialize for EventOf<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let shown = self.shown;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", shown.name)?;
        map.serialize_entry("samples", &shown.samples)?;
        map.serialize_entry("period", &shown.whole)?;
        if self.plan.tells_latency() {
            map.serialize_entry("latency", &shown.latency)?;
        }
        map.serialize_entry("entries_in_all", &shown.all.len())?;
        map.serialize_entry("entries", &Rows(self))?;
        map.end()
    }
}

struct Rows<'d>(&'d EventOf<'d>);

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.shown.entries.iter().map(|entry| Row { of: self.0, entry }))
    }
}

struct Row<'d> {
    of: &'d EventOf<'d>,
    entry: &'d Entry,
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let (EventOf { plan, shown }, entry) = (self.of, self.entry);
        let frame = shown.view.frames.get(entry.frame);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("self_period", &entry.self_weight)?;
        map.serialize_entry("self_samples", &entry.self_samples)?;
        if plan.children {
            map.serialize_entry("total_period", &entry.total_weight)?;
            map.serialize_entry("total_samples", &entry.total_samples)?;
        }
        if plan.tells_latency() {
            map.serialize_entry("self_latency", &entry.latency.0)?;
            if plan.children {
                map.serialize_entry("total_latency", &entry.latency.1)?;
            }
        }
        for &key in &plan.keys {
            match key {
                Key::Symbol => {
                    map.serialize_entry("symbol", &frame.symbol.as_deref())?;
                    let address = frame.symbol.is_none().then(|| shown.view.address(entry));
                    map.serialize_entry("address", &address)?;
                    map.serialize_entry("level", &entry.level.letter())?;
                }
                Key::Dso => map.serialize_entry("dso", shown.view.frames.object(frame.object))?,
                // The thread with the name it had last.
                Key::Pid | Key::Tgid => {
                    map.serialize_entry(key.name(), &shown.view.number(entry, key))?;
                    map.serialize_entry("thread", shown.view.text(entry, key).trim_start())?;
                }
                // Of another event.
                Key::Given(_) if plan.given_of(key).is_some_and(|given| !given.is_of(shown.event)) => {}
                key => match shown.view.number(entry, key) {
                    Some(number) => map.serialize_entry(plan.name_of(key), &number)?,
                    None => map.serialize_entry(plan.name_of(key), &shown.view.text(entry, key))?,
                },
            }
        }
        if let Some(trees) = &shown.trees {
            let top = trees.of(entry);
            let frames = shown.view.frames;
            map.serialize_entry("callchains", &Branches(&top.branches, frames, plan.graph.by_address))?;
        }
        map.end()
    }
}

struct Branches<'d>(&'d [Branch], &'d Frames, bool);

impl Serialize for Branches<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|branch| BranchOf(branch, self.1, self.2)))
    }
}

struct BranchOf<'d>(&'d Branch, &'d Frames, bool);

impl Serialize for BranchOf<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let BranchOf(branch, frames, by_address) = *self;
        let names: Vec<String> =
            branch.frames.iter().map(|&frame| tree::name(frames, frame, by_address)).collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("frames", &names)?;
        map.serialize_entry("period", &branch.weight)?;
        map.serialize_entry("samples", &branch.samples)?;
        map.serialize_entry("branches", &Branches(&branch.branches, frames, by_address))?;
        map.end()
    }
}
