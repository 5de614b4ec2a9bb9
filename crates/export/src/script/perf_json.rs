//! Samples as `perf data convert --to-json` writes them: one object, in which names and order of the members are perf's, and numbers
//! that have one are texts.

use super::Sample;
use super::places::{Places, Space};
use perfuse_abi::EventType;
use perfuse_abi::record::CallchainContext;
use perfuse_data::feature::{Feature, FeatureId};
use perfuse_data::replay::rest_of_chain;
use perfuse_data::session::Level;
use perfuse_data::text::LineBuffer;
use perfuse_data::{Form, PerfData};
use perfuse_profile::{Lookup, level_of};
use serde_json::{Value, json};
use std::io::{self, Write};

/// The version of the form.
const VERSION: u32 = 1;

/// What a recording tells of itself, as the members of `headers`. `captured`: when its file was last changed, as
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

/// Writes samples in this form.
pub struct PerfJson {
    places: Places,
    text: LineBuffer,
    samples: u64,
    machine: String,
}

impl PerfJson {
    /// Begins with what the recording tells of itself; `captured` is when its file was last changed, as
    /// `2026-11-23T07:00:00Z`, and `machine` its architecture, as `uname -m` has it.
    pub fn new(data: &mut PerfData<'_>, lookup: Lookup, captured: &str, machine: &str) -> Self {
        let mut json = PerfJson {
            places: Places::new(lookup),
            text: LineBuffer::default(),
            samples: 0,
            machine: machine.to_owned(),
        };
        json.push(&format!("{{\n\t\"linux-perf-json-version\": {VERSION},\n\t\"headers\": {{"));
        for (index, (name, value)) in headers(data, captured).into_iter().enumerate() {
            let value = match value {
                Value::Array(words) => {
                    let words: Vec<String> = words.iter().map(|word| format!("\n\t\t\t{word}")).collect();
                    format!("[{}\n\t\t]", words.join(","))
                }
                value => value.to_string(),
            };
            json.push(&format!("{}\n\t\t\"{name}\": {value}", comma(index)));
        }
        json.push("\n\t},\n\t\"samples\": [");
        json
    }

    fn push(&mut self, text: &str) {
        self.text.again(text.as_bytes());
    }

    /// Adds a sample.
    pub fn sample(&mut self, one: &Sample<'_>) {
        let Sample { event, decoded, sample, session, .. } = *one;
        let space = Space::of(session, &event.attr, sample);
        let tid = sample.tid.unwrap_or_default();
        let mut members = vec![
            ("timestamp".to_owned(), json!(sample.time.unwrap_or(0) as i64)),
            ("pid".to_owned(), json!(tid.pid as i32)),
            ("tid".to_owned(), json!(tid.tid as i32)),
        ];
        members.extend(sample.cpu.map(|cpu| ("cpu".to_owned(), json!(cpu.cpu as i32))));
        let comm = session.comm_of(tid.tid).map(|comm| session.comm(comm)).unwrap_or_default();
        members.push(("comm".to_owned(), json!(String::from_utf8_lossy(comm))));
        let before = if self.samples == 0 { "" } else { "," };
        let members: Vec<String> =
            members.iter().map(|(name, value)| format!("\n\t\t\t\"{name}\": {value}")).collect();
        self.push(&format!("{before}\n\t\t{{{},\n\t\t\t\"callchain\": [", members.join(",")));
        self.samples += 1;
        let mut frames = 0;
        if let Some(chain) = &sample.callchain {
            let mut level = Level::User;
            let rest = rest_of_chain(&event.attr, sample, chain, &self.machine);
            for word in chain.words.iter().chain(rest) {
                match CallchainContext::of(word) {
                    Some(context) => level = level_of(context).unwrap_or(level),
                    None => {
                        self.frame(&space, level, word, frames);
                        frames += 1;
                    }
                }
            }
        } else if let Some(ip) = sample.ip {
            self.frame(&space, Level::of(decoded.misc), ip, 0);
        }
        self.push("\n\t\t\t]");
        if let (EventType::TRACEPOINT, Some(raw)) = (event.attr.type_, &sample.raw) {
            // As newer versions of perf have them.
            if let Some((_, format)) = one.formats.get(event.attr.config) {
                for field in format.own_fields(raw.as_bytes()) {
                    let value = format.field_text(field, raw.as_bytes(), event.format.order);
                    self.push(&format!(",\n\t\t\t{}: {}", json!(field.name), json!(value)));
                }
            }
        }
        self.push("\n\t\t}");
    }

    fn frame(&mut self, space: &Space<'_>, level: Level, address: u64, index: usize) {
        let located = self.places.locate(space, level, address);
        let mut text = format!("{}\n\t\t\t\t{{\n\t\t\t\t\t\"ip\": \"{address:#x}\"", comma(index));
        if let Some(symbol) = &located.symbol {
            text += &format!(",\n\t\t\t\t\t\"symbol\": {}", json!(**symbol));
            let object = self.places.lookup.short_object(located.object);
            text += &format!(",\n\t\t\t\t\t\"dso\": {}", json!(object));
        }
        text += "\n\t\t\t\t}";
        self.push(&text);
    }

    /// Bytes that wait to be taken.
    pub fn bytes(&self) -> usize {
        self.text.0.len()
    }

    /// Moves what waits to a writer.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn take(&mut self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.text.0)?;
        self.text.0.clear();
        Ok(())
    }

    /// Ends the object; tells how many samples it has.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn end(mut self, out: &mut impl Write) -> io::Result<u64> {
        self.push("\n\t]\n}\n");
        self.take(out)?;
        Ok(self.samples)
    }
}

fn comma(index: usize) -> &'static str {
    if index == 0 { "" } else { "," }
}
