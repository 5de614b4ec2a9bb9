//! The protobuf messages of pprof, `profile.proto`, compressed by gzip.

use crate::protobuf::Message;
use crate::stacks::{Stacks, Unit};
use crate::strings::Strings;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// The message: samples and one value for each event, locations that are functions, objects as mappings.
pub(crate) fn encode(stacks: &Stacks, title: &str) -> Vec<u8> {
    let mut strings = Strings::with_empty();
    let mut number = |text| u64::from(strings.number(text));
    let mut profile = Message::default();
    let types = stacks.events().iter().map(|event| {
        (event.name.as_str(), if event.unit == Unit::Nanoseconds { "nanoseconds" } else { "count" })
    });
    for (name, unit) in std::iter::once(("samples", "count")).chain(types) {
        let (name, unit) = (number(name), number(unit));
        profile.message(1, |kind| {
            kind.number(1, name);
            kind.number(2, unit);
        });
    }
    let comm = number("thread");
    for row in stacks.rows() {
        let thread = number(&row.thread);
        profile.message(2, |sample| {
            sample.packed(1, row.stack.iter().rev().map(|function| u64::from(*function) + 1));
            let values =
                (0..stacks.events().len()).map(|event| if event == row.event { row.weight } else { 0 });
            // Values are signed.
            let signed = |value: u64| value.min(i64::MAX as u64);
            sample.packed(2, std::iter::once(row.samples).chain(values).map(signed));
            if thread != 0 {
                sample.message(3, |label| {
                    label.number(1, comm);
                    label.number(2, thread);
                });
            }
        });
    }
    let mut objects: Vec<&str> = stacks.functions().iter().map(|function| function.object.as_str()).collect();
    objects.sort_unstable();
    objects.dedup();
    objects.retain(|object| !object.is_empty());
    for (id, object) in (1..).zip(&objects) {
        let file = number(object);
        profile.message(3, |mapping| {
            mapping.number(1, id);
            mapping.number(5, file);
            mapping.number(7, 1); // it has functions
        });
    }
    for (id, function) in (1..).zip(stacks.functions()) {
        let mapping = objects.binary_search(&function.object.as_str()).map_or(0, |index| index as u64 + 1);
        profile.message(4, |location| {
            location.number(1, id);
            location.number(2, mapping);
            location.message(4, |line| line.number(1, id));
        });
    }
    for (id, function) in (1..).zip(stacks.functions()) {
        let (name, file) = (number(&function.name), number(&function.object));
        profile.message(5, |message| {
            message.number(1, id);
            message.number(2, name);
            message.number(3, name);
            message.number(4, file);
        });
    }
    let comment = number(title);
    let first = stacks.events().first().map_or(0, |event| number(&event.name));
    for text in strings.list() {
        profile.bytes(6, text.as_bytes());
    }
    profile.number(13, comment);
    profile.number(14, first);
    profile.0
}

/// A gzip file with these contents, without a name or a time.
pub(crate) fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut file = GzEncoder::new(Vec::new(), Compression::default());
    // Memory takes all that is written.
    let _ = file.write_all(bytes);
    file.finish().unwrap_or_default()
}
