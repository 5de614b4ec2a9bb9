//! The formats of the recorded tracepoints, which readers need to make sense of their raw bytes.

use perfuse::abi::EventType;
use perfuse_data::feature::{System, TracingData};
use perfuse_data::replay::Replay;
use perfuse_sys::page_size;
use std::collections::BTreeMap;

/// Copies of files of tracefs.
#[derive(Debug, Default)]
pub(crate) struct Formats {
    header_page: Vec<u8>,
    header_event: Vec<u8>,
    systems: BTreeMap<String, Vec<Vec<u8>>>,
    printk: Vec<u8>,
    comms: Vec<u8>,
}

impl Formats {
    /// Of these tracepoints, `system:name`; `None` of none.
    pub(crate) fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let mut names = names.into_iter().filter_map(|name| name.split_once(':')).peekable();
        names.peek()?;
        let root = perfuse::tracefs::root().ok();
        let read = |name: &str| {
            root.as_ref().and_then(|root| perfuse::tracefs::read(&root.join(name)).ok()).unwrap_or_default()
        };
        let mut formats = Formats {
            header_page: read("events/header_page"),
            header_event: read("events/header_event"),
            printk: read("printk_formats"),
            comms: read("saved_cmdlines"),
            systems: BTreeMap::new(),
        };
        for (system, name) in names {
            let format = perfuse::tracefs::format(system, name).unwrap_or_default();
            let known = formats.systems.entry(system.to_owned()).or_default();
            if !format.is_empty() && !known.contains(&format) {
                known.push(format);
            }
        }
        Some(formats)
    }

    pub(crate) fn section(&self) -> TracingData<'_> {
        let systems = self.systems.iter().map(|(name, formats)| System {
            name: name.as_bytes(),
            formats: formats.iter().map(Vec::as_slice).collect(),
        });
        TracingData {
            page_size: page_size() as u32,
            header_page: &self.header_page,
            header_event: &self.header_event,
            systems: systems.collect(),
            printk_formats: &self.printk,
            saved_cmdlines: Some(&self.comms),
            ..TracingData::default()
        }
    }
}

/// A recording that was cut short, by a full disk or a killed recorder, has no formats of its tracepoints: it gets those of this
/// machine, on which it may well have been made. Whether there are any; nothing of recordings that lack none.
pub fn take_formats(replay: &mut Replay<'_>) -> Option<bool> {
    if !replay.formats().is_empty() || replay.data().features().next().is_some() {
        return None;
    }
    let events = replay.data().events().iter();
    let tracepoints = events.filter(|event| event.attr.type_ == EventType::TRACEPOINT);
    let ids: Vec<u64> = tracepoints.map(|event| event.attr.config).collect();
    let formats = perfuse::tracefs::formats(&ids);
    formats.iter().for_each(|(system, text)| replay.formats_mut().add(system, text));
    (!ids.is_empty()).then_some(!formats.is_empty())
}
