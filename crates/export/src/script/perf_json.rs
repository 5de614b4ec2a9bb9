//! Samples as `perf data convert --to-json` writes them: one object, in which names and order of the members are perf's, and numbers
//! that have one are texts.

use super::places::{Places, Space};
use perfuse_abi::EventType;
use perfuse_abi::record::{CallchainContext, Record};
use perfuse_data::feature::{Feature, FeatureId};
use perfuse_data::replay::{Step, rest_of_chain};
use perfuse_data::session::Level;
use perfuse_data::{Form, PerfData};
use perfuse_profile::{Lookup, level_of};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{self, Write};

/// The version of the form.
const VERSION: u32 = 1;

/// The members of `headers`, which a recording tells of itself. `captured`: when its file was last changed, as
/// `2026-11-23T07:00:00Z`.
fn headers(data: &mut PerfData<'_>, captured: &str) -> Vec<(&'static str, Value)> {
    let (start, size) = match *data.form() {
        Form::File(header) => (header.data.offset, header.data.size),
        _ => (0, 0),
    };
    let mut told = vec![
        ("header-version", json!(1)),
        ("captured-on", json!(captured)),
        ("data-offset", json!(start)),
        ("data-size", json!(size)),
        ("feat-offset", json!(start.wrapping_add(size))),
    ];
    let asked = [
        FeatureId::HOSTNAME,
        FeatureId::OSRELEASE,
        FeatureId::ARCH,
        FeatureId::CPUDESC,
        FeatureId::CPUID,
        FeatureId::NRCPUS,
        FeatureId::CLOCK_DATA,
        FeatureId::VERSION,
        FeatureId::CMDLINE,
    ];
    for id in asked {
        let Ok(Some(section)) = data.feature(id) else { continue };
        let mut text = |name, text: String| told.push((name, json!(text)));
        match section.feature {
            Feature::Hostname(name) => text("hostname", name.to_string()),
            Feature::OsRelease(name) => text("os-release", name.to_string()),
            Feature::Arch(name) => text("arch", name.to_string()),
            Feature::CpuDesc(name) => text("cpu-desc", name.to_string()),
            Feature::CpuId(name) => text("cpuid", name.to_string()),
            Feature::Version(name) => text("perf-version", name.to_string()),
            Feature::NrCpus(cpus) => {
                told.extend([("nrcpus-online", json!(cpus.online)), ("nrcpus-avail", json!(cpus.available))]);
            }
            Feature::Clock(clock) => told.extend([
                ("clockid", json!(clock.clock_id)),
                ("clock-time", json!(clock.clock_ns)),
                ("real-time", json!(clock.wall_ns)),
            ]),
            Feature::Cmdline(words) => {
                told.push(("cmdline", words.iter().map(|word| word.to_string()).collect()));
            }
            _ => {}
        }
    }
    told
}

/// Writes a recording in this form.
pub struct PerfJson<'o> {
    out: &'o mut dyn Write,
    places: Places,
    samples: u64,
    machine: String,
}

impl<'o> PerfJson<'o> {
    /// Begins with what the recording tells of itself; `captured` is when its file was last changed, as
    /// `2026-11-23T07:00:00Z`, and `machine` its architecture, as `uname -m` has it.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn begin(
        out: &'o mut dyn Write,
        data: &mut PerfData<'_>,
        lookup: Lookup,
        captured: &str,
        machine: &str,
    ) -> io::Result<Self> {
        write!(out, "{{\n\t\"linux-perf-json-version\": {VERSION},\n\t\"headers\": {{")?;
        for (index, (name, value)) in headers(data, captured).into_iter().enumerate() {
            let value = match value {
                Value::Array(words) => {
                    let words: Vec<String> = words.iter().map(|word| format!("\n\t\t\t{word}")).collect();
                    format!("[{}\n\t\t]", words.join(","))
                }
                value => value.to_string(),
            };
            write!(out, "{}\n\t\t\"{name}\": {value}", comma(index == 0))?;
        }
        out.write_all(b"\n\t},\n\t\"samples\": [")?;
        Ok(PerfJson { out, places: Places::new(lookup), samples: 0, machine: machine.to_owned() })
    }

    /// Adds the sample of a step of the replay; other records are left out.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn add(&mut self, step: &Step<'_>) -> io::Result<()> {
        let &Step { entry, decoded, session, formats, .. } = step;
        let (Some(decoded), Some(event)) = (decoded, entry.event()) else { return Ok(()) };
        let Record::Sample(sample) = &decoded.record else { return Ok(()) };
        let space = Space::of(session, &event.attr, sample);
        let tid = sample.tid.unwrap_or_default();
        let members = [
            ("timestamp", Some(json!(sample.time.unwrap_or(0) as i64))),
            ("pid", Some(json!(tid.pid as i32))),
            ("tid", Some(json!(tid.tid as i32))),
            ("cpu", sample.cpu.map(|cpu| json!(cpu.cpu as i32))),
            ("comm", Some(json!(String::from_utf8_lossy(&session.name_of(tid.tid))))),
        ];
        let mut text = format!("{}\n\t\t{{", comma(self.samples == 0));
        for (name, value) in members.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            let _ = write!(text, "\n\t\t\t\"{name}\": {value},");
        }
        text += "\n\t\t\t\"callchain\": [";
        self.samples += 1;
        let mut is_first = true;
        let places = &mut self.places;
        let mut add = |level, address| {
            frame(&mut text, places, &space, (level, address), std::mem::take(&mut is_first));
        };
        if let Some(chain) = &sample.callchain {
            let mut level = Level::User;
            let rest = rest_of_chain(&event.attr, sample, chain, &self.machine);
            for word in chain.words.iter().chain(rest) {
                match CallchainContext::of(word) {
                    Some(context) => level = level_of(context).unwrap_or(level),
                    None => add(level, word),
                }
            }
        } else if let Some(ip) = sample.ip {
            add(Level::of(decoded.misc), ip);
        }
        text += "\n\t\t\t]";
        // As newer versions of perf have them.
        let raw = sample.raw.as_ref().filter(|_| event.attr.type_ == EventType::TRACEPOINT);
        if let Some((raw, (_, format))) = raw.zip(formats.get(event.attr.config)) {
            for field in format.own_fields(raw.as_bytes()) {
                let value = format.field_text(field, raw.as_bytes(), event.format.order);
                let _ = write!(text, ",\n\t\t\t{}: {}", json!(field.name), json!(value));
            }
        }
        text += "\n\t\t}";
        self.out.write_all(text.as_bytes())
    }

    /// Ends the object; tells how many samples it has.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn end(self) -> io::Result<u64> {
        self.out.write_all(b"\n\t]\n}\n")?;
        self.out.flush()?;
        Ok(self.samples)
    }
}

/// Adds a frame of a callchain.
fn frame(
    text: &mut String,
    places: &mut Places,
    space: &Space<'_>,
    (level, address): (Level, u64),
    is_first: bool,
) {
    let located = places.locate(space, level, address);
    let _ = write!(text, "{}\n\t\t\t\t{{\n\t\t\t\t\t\"ip\": \"{address:#x}\"", comma(is_first));
    if let Some(symbol) = &located.symbol {
        let object = places.lookup.short_object(located.object);
        let (symbol, object) = (json!(**symbol), json!(object));
        let _ = write!(text, ",\n\t\t\t\t\t\"symbol\": {symbol},\n\t\t\t\t\t\"dso\": {object}");
    }
    text.push_str("\n\t\t\t\t}");
}

/// The sign before a member that is not the first.
fn comma(is_first: bool) -> &'static str {
    if is_first { "" } else { "," }
}
