//! Keys that are texts of tracepoints: the line that one prints, or one of its fields.

use crate::collect::Collector;
use crate::keys::Key;
use perfuse_abi::EventType;
use perfuse_abi::record::Sample;
use perfuse_data::Event;
use perfuse_data::replay::Formats;
use perfuse_trace::{Field, FieldKind};

/// A field of a tracepoint that is a key: the first of a list is [`Key::Given(1)`](Key::Given), and so on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FieldKey {
    /// Its name.
    pub name: String,
    /// The tracepoint, by the number that is `attr.config` of its events.
    tracepoint: u64,
    field: Field,
    /// As a number or text, not as the tracepoint would say it.
    is_raw: bool,
}

impl FieldKey {
    /// Whether an event has the field.
    pub fn is_of(&self, event: &Event) -> bool {
        event.attr.type_ == EventType::TRACEPOINT && event.attr.config == self.tracepoint
    }

    /// The field.
    pub fn field(&self) -> &Field {
        &self.field
    }

    /// Whether its text has no fixed size, so that a NUL stands behind it.
    pub fn is_open_text(&self) -> bool {
        matches!(self.field.kind, FieldKind::Dynamic { text: true, .. })
    }

    /// Columns that hold the field, whatever its value.
    pub fn least_width(&self) -> usize {
        let is_text = matches!(self.field.kind, FieldKind::Text | FieldKind::Dynamic { text: true, .. });
        if is_text { self.field.size } else { 2 * self.field.size + 2 }
    }
}

/// The keys that a word of `--sort` stands for: fields of all tracepoints (`pid`, `trace_fields`), of one
/// (`sched_switch.*`), or one of them (`sched_switch.prev_pid`). Nothing if it is no field.
pub fn field_keys(word: &str, events: &[Event], formats: &Formats, is_raw: bool) -> Vec<FieldKey> {
    let (word, is_raw) = word.strip_suffix("/raw").map_or((word, is_raw), |word| (word, true));
    let (of, wanted) = word.rsplit_once('.').map_or((None, word), |(event, field)| (Some(event), field));
    let mut found: Vec<FieldKey> = Vec::new();
    for event in events.iter().filter(|event| event.attr.type_ == EventType::TRACEPOINT) {
        let tracepoint = event.attr.config;
        let Some((name, format)) = formats.get(tracepoint) else { continue };
        let is_named = |of: &str| of == name || name.rsplit(':').next() == Some(of);
        if !of.is_none_or(is_named) || found.iter().any(|given| given.tracepoint == tracepoint) {
            continue;
        }
        let is_wanted = |field: &&Field| match wanted {
            "trace_fields" if of.is_none() => !field.name.starts_with("common_"),
            "*" if of.is_some() => !field.name.starts_with("common_"),
            wanted => field.name == wanted,
        };
        let fields = format.fields.iter().filter(is_wanted).cloned();
        found.extend(fields.map(|field| FieldKey { name: field.name.clone(), tracepoint, field, is_raw }));
    }
    found
}

/// Makes the texts of samples that keys are.
#[derive(Debug, Default)]
pub struct TracepointTexts {
    fields: Vec<FieldKey>,
    /// Whether the line that the tracepoint prints is a key.
    says_line: bool,
    is_raw: bool,
    numbers: Vec<u64>,
}

impl TracepointTexts {
    /// For these keys, of which those that are given are these fields. `is_raw`: the line has the fields as they were
    /// recorded.
    pub fn new(keys: &[Key], fields: &[FieldKey], is_raw: bool) -> Self {
        let says_line = keys.contains(&Key::TRACE);
        TracepointTexts { fields: fields.to_vec(), says_line, is_raw, numbers: Vec::new() }
    }

    /// Whether no key is a text.
    pub fn is_empty(&self) -> bool {
        !self.says_line && self.fields.is_empty()
    }

    /// Gives a collector the texts of the sample that it is told of next. `symbol` knows the kernel's.
    pub fn give(
        &mut self,
        collector: &mut Collector,
        event: &Event,
        sample: &Sample<'_>,
        formats: &Formats,
        symbol: &dyn Fn(u64) -> Option<(String, u64)>,
    ) {
        let order = event.format.order;
        let raw = sample.raw.as_ref().map_or(&[][..], |raw| raw.as_bytes());
        let is_traced = event.attr.type_ == EventType::TRACEPOINT;
        let format = formats.get(event.attr.config).filter(|_| is_traced).map(|(_, format)| format);
        let needs_line =
            self.says_line || self.fields.iter().any(|given| !given.is_raw && given.is_of(event));
        let line = match (needs_line, format) {
            (false, _) => String::new(),
            (true, None) => "N/A".to_owned(),
            (true, Some(format)) if self.is_raw => {
                let mut line = String::from(" ");
                format.write_fields(&mut line, raw, order);
                line
            }
            (true, Some(_)) => formats.print(event.attr.config, raw, order, symbol).unwrap_or_default(),
        };
        self.numbers.clear();
        self.numbers.push(if self.says_line { collector.text(&line, line.as_bytes()) } else { 0 });
        for given in &self.fields {
            let number = match format.filter(|_| given.is_of(event)) {
                Some(format) => {
                    // The tracepoint's own words for the field are easier to read than its number.
                    let said = line.split(' ').filter(|_| !given.is_raw).find_map(|word| {
                        let rest = word.strip_prefix(given.name.as_str())?;
                        Some(rest.get(1..).unwrap_or("").to_owned())
                    });
                    let text = said.unwrap_or_else(|| format.field_text(&given.field, raw, order));
                    collector.text(&text, format.field_bytes(&given.field, raw, order))
                }
                None => collector.text("", &[]),
            };
            self.numbers.push(number);
        }
        collector.give(&self.numbers);
    }
}
