//! Keys that are texts of tracepoints: what one says, or one of its fields.

use perfuse_abi::EventType;
use perfuse_abi::record::Sample;
use perfuse_data::Event;
use perfuse_data::replay::Formats;
use perfuse_events::tracepoint::Field;
use perfuse_profile::{Key, Texts};

/// A field of a tracepoint that is a key.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) name: String,
    /// The tracepoint, by the number that is `attr.config` of its events.
    tracepoint: u64,
    field: Field,
    /// As a number or text, not as the tracepoint would say it.
    is_raw: bool,
}

impl Given {
    /// Whether an event has the field.
    pub(super) fn is_of(&self, event: &Event) -> bool {
        event.attr.type_ == EventType::TRACEPOINT && event.attr.config == self.tracepoint
    }

    /// Room for the NUL behind a text that is not of a fixed size.
    pub(super) fn end(&self) -> usize {
        use perfuse_events::tracepoint::FieldKind;
        usize::from(matches!(self.field.kind, FieldKind::Dynamic { text: true, .. }))
    }

    /// Room for the field, whatever its value.
    pub(super) fn least_width(&self) -> usize {
        use perfuse_events::tracepoint::FieldKind;
        let is_text = matches!(self.field.kind, FieldKind::Text | FieldKind::Dynamic { text: true, .. });
        if is_text { self.field.size } else { 2 * self.field.size + 2 }
    }
}

/// The keys that a word of `--sort` stands for: fields of all tracepoints, of one, or one of them. Nothing if
/// it is no field.
pub(super) fn fields(word: &str, events: &[Event], formats: &Formats, is_raw: bool) -> Vec<Given> {
    let (word, is_raw) = word.strip_suffix("/raw").map_or((word, is_raw), |word| (word, true));
    let (of, wanted) = word.rsplit_once('.').map_or((None, word), |(event, field)| (Some(event), field));
    let mut found: Vec<Given> = Vec::new();
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
        found.extend(fields.map(|field| Given { name: field.name.clone(), tracepoint, field, is_raw }));
    }
    found
}

/// Makes the texts of samples.
#[derive(Debug, Default)]
pub(super) struct Teller {
    pub(super) texts: Texts,
    /// Numbers of the last sample's texts: what tracepoints say, then each field.
    pub(super) numbers: Vec<u64>,
    says_trace: bool,
    is_raw: bool,
}

impl Teller {
    pub(super) fn new(keys: &[Key], is_raw: bool) -> Self {
        let says_trace = keys.contains(&Key::TRACE);
        Teller { says_trace, is_raw, ..Teller::default() }
    }

    /// Puts the texts of a sample into [`numbers`](Self::numbers).
    pub(super) fn tell(
        &mut self,
        given: &[Given],
        event: &Event,
        sample: &Sample<'_>,
        formats: &Formats,
        symbol: &dyn Fn(u64) -> Option<(String, u64)>,
    ) {
        let order = event.format.order;
        let raw = sample.raw.as_ref().map_or(&[][..], |raw| raw.as_bytes());
        let is_traced = event.attr.type_ == EventType::TRACEPOINT;
        let format = formats.get(event.attr.config).filter(|_| is_traced).map(|(_, format)| format);
        let needs_line = self.says_trace || given.iter().any(|given| !given.is_raw && given.is_of(event));
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
        self.numbers.push(if self.says_trace { self.texts.id(&line, line.as_bytes()) } else { 0 });
        for given in given {
            let number = match format.filter(|_| given.is_of(event)) {
                Some(format) => {
                    // What the tracepoint says of the field is easier to read than its number.
                    let said = line.split(' ').filter(|_| !given.is_raw).find_map(|word| {
                        let rest = word.strip_prefix(given.name.as_str())?;
                        Some(rest.get(1..).unwrap_or("").to_owned())
                    });
                    let text = said.unwrap_or_else(|| format.field_text(&given.field, raw, order));
                    self.texts.id(&text, format.field_bytes(&given.field, raw, order))
                }
                None => self.texts.id("", &[]),
            };
            self.numbers.push(number);
        }
    }
}
