//! The formats of the tracepoints of a recording, by the number that is `attr.config` of their events.

use crate::feature::{Feature, FeatureId, Section};
use crate::{Event, PerfData};
use perfuse_abi::{ByteOrder, EventType};
use perfuse_trace::{Format, Names};
use std::collections::HashMap;

/// Formats by number, and strings of the kernel by address.
#[derive(Debug, Default)]
pub struct Formats {
    by_id: HashMap<u64, (String, Format)>,
    texts: HashMap<u64, Vec<u8>>,
}

impl Formats {
    /// Those of a recording; none if it has none.
    pub fn read(data: &mut PerfData<'_>) -> Self {
        let mut formats = Formats::default();
        let Ok(Some(Section { feature: Feature::TracingData(tracing), .. })) =
            data.feature(FeatureId::TRACING_DATA)
        else {
            return formats;
        };
        let of_systems = tracing.systems.iter().map(|system| (system.name, &system.formats));
        for (system, texts) in of_systems.chain([(&b"ftrace"[..], &tracing.ftrace_formats)]) {
            for text in texts {
                if let Some(format) = Format::parse(&String::from_utf8_lossy(text)) {
                    let name = format!("{}:{}", String::from_utf8_lossy(system), format.name);
                    formats.by_id.insert(format.id, (name, format));
                }
            }
        }
        for line in String::from_utf8_lossy(tracing.printk_formats).lines() {
            // 0xffffffff81234567 : "text"
            let Some((address, text)) = line.split_once(':') else { continue };
            let Ok(address) = u64::from_str_radix(address.trim().trim_start_matches("0x"), 16) else {
                continue;
            };
            let text = text.trim().trim_matches('"').replace("\\n", "");
            formats.texts.insert(address, text.into_bytes());
        }
        formats
    }

    /// Takes the format of a tracepoint, as tracefs has it, for a recording that lacks it.
    pub fn add(&mut self, system: &str, text: &str) {
        if let Some(format) = Format::parse(text) {
            self.by_id.insert(format.id, (format!("{system}:{}", format.name), format));
        }
    }

    /// Whether the recording tells no format.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The name of an event: of a tracepoint that was recorded into a pipe, that of its format.
    pub fn event_name(&self, event: &Event) -> String {
        let is_unnamed = event.name.is_none() && event.attr.type_ == EventType::TRACEPOINT;
        match self.by_id.get(&event.attr.config).filter(|_| is_unnamed) {
            Some((name, _)) => name.clone(),
            None => event.display_name(),
        }
    }

    /// The full name of a tracepoint and its format.
    pub fn get(&self, id: u64) -> Option<(&str, &Format)> {
        self.by_id.get(&id).map(|(name, format)| (name.as_str(), format))
    }

    /// The names of a tracepoint's own fields.
    pub fn fields(&self, id: u64) -> Option<String> {
        let (_, format) = self.by_id.get(&id)?;
        let names = format.fields.iter().map(|field| field.name.as_str());
        Some(names.filter(|name| !name.starts_with("common_")).collect::<Vec<_>>().join(","))
    }

    /// The text of a sample's raw data; `None` if the recording has no format for it. `symbol` tells the
    /// symbol of the kernel at an address, and how far into it that is.
    pub fn print(
        &self,
        id: u64,
        raw: &[u8],
        order: ByteOrder,
        symbol: &dyn Fn(u64) -> Option<(String, u64)>,
    ) -> Option<String> {
        let (_, format) = self.by_id.get(&id)?;
        Some(format.print(raw, order, &Known { formats: self, symbol }))
    }
}

/// The names that a recording and its kernel know.
struct Known<'a> {
    formats: &'a Formats,
    symbol: &'a dyn Fn(u64) -> Option<(String, u64)>,
}

impl Names for Known<'_> {
    fn symbol(&self, address: u64) -> Option<(String, u64)> {
        (self.symbol)(address)
    }

    fn text(&self, address: u64) -> Option<&[u8]> {
        self.formats.texts.get(&address).map(Vec::as_slice)
    }
}

/// The names of a recording's events; of tracepoints in a pipe, those of their formats.
pub fn event_names(data: &mut PerfData<'_>) -> Vec<String> {
    let formats = Formats::read(data);
    data.events().iter().map(|event| formats.event_name(event)).collect()
}
