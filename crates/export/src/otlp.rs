//! Profiles of OpenTelemetry: `ProfilesData` of `opentelemetry/proto/profiles/v1development/profiles.proto`, as opentelemetry-proto
//! 1.11.0 has it, in protobuf. Its messages may change until they are stable: the package says so by its name.

use crate::looks::is_kernel;
use crate::protobuf::Message;
use crate::stacks::{Row, Stacks, Unit};
use crate::strings::Strings;
use std::collections::BTreeMap;

/// The attributes of frames, as the semantic conventions name them: programs and the kernel.
const FRAME_TYPES: [&str; 2] = ["native", "kernel"];
const FRAME_TYPE: &str = "profile.frame.type";
const THREAD_NAME: &str = "thread.name";

/// The message. Each event is a profile of its own with one value a sample: its weight.
pub(crate) fn encode(stacks: &Stacks) -> Vec<u8> {
    let mut strings = Strings::with_empty();
    let mut number = |text| u64::from(strings.number(text));
    let mut dictionary = Message::default();
    // Of each table, the first element stands for none.
    let objects: BTreeMap<&str, u64> = {
        let names: Vec<&str> = stacks.functions().iter().map(|function| function.object.as_str()).collect();
        let mut objects: BTreeMap<&str, u64> = names.into_iter().map(|name| (name, 0)).collect();
        objects.remove("");
        (1..).zip(objects.values_mut()).for_each(|(id, object)| *object = id);
        objects
    };
    dictionary.message(1, |_| {});
    for object in objects.keys() {
        let file = number(object);
        dictionary.message(1, |mapping| mapping.number(4, file));
    }
    dictionary.message(2, |_| {});
    for (id, function) in (1..).zip(stacks.functions()) {
        let object = objects.get(function.object.as_str()).copied().unwrap_or(0);
        dictionary.message(2, |location| {
            location.number(1, object);
            location.message(3, |line| line.number(1, id));
            let kind = 1 + u64::from(is_kernel(&function.object));
            location.packed(4, [kind].into_iter().filter(|_| object != 0));
        });
    }
    dictionary.message(3, |_| {});
    for function in stacks.functions() {
        let name = number(&function.name);
        dictionary.message(3, |message| message.number(1, name));
    }
    dictionary.message(4, |link| {
        link.bytes(1, &[0; 16]);
        link.bytes(2, &[0; 8]);
    });
    let (frame_type, thread_name) = (number(FRAME_TYPE), number(THREAD_NAME));
    dictionary.message(6, |_| {});
    for kind in FRAME_TYPES {
        attribute(&mut dictionary, frame_type, kind);
    }
    let mut threads: BTreeMap<&str, u64> = stacks.rows().iter().map(|row| (row.thread.as_str(), 0)).collect();
    threads.remove("");
    for (id, (thread, attribute_id)) in (1 + FRAME_TYPES.len() as u64..).zip(&mut threads) {
        attribute(&mut dictionary, thread_name, thread);
        *attribute_id = id;
    }
    let mut known: BTreeMap<&[u32], u64> = stacks.rows().iter().map(|row| (&row.stack[..], 0)).collect();
    dictionary.message(7, |_| {});
    for (id, (stack, stack_id)) in (1..).zip(&mut known) {
        dictionary.message(7, |message| {
            message.packed(1, stack.iter().rev().map(|function| u64::from(*function) + 1));
        });
        *stack_id = id;
    }
    let mut profiles = Message::default();
    for (index, event) in stacks.events().iter().enumerate() {
        let unit = number(if event.unit == Unit::Nanoseconds { "ns" } else { "1" });
        let kind = number(&event.name);
        profiles.message(2, |profile| {
            profile.message(1, |sample_type| {
                sample_type.number(1, kind);
                sample_type.number(2, unit);
            });
            for row in stacks.rows_of(index) {
                let (stack, thread) = (known[&row.stack[..]], threads.get(row.thread.as_str()));
                profile.message(2, |message| sample(message, row, stack, thread.copied()));
            }
        });
    }
    for text in strings.list() {
        dictionary.bytes(5, text.as_bytes());
    }
    let mut data = Message::default();
    data.message(1, |resource| {
        resource.message(2, |scope| {
            scope.message(1, |scope| {
                scope.bytes(1, b"perfuse");
                scope.bytes(2, env!("CARGO_PKG_VERSION").as_bytes());
            });
            scope.0.extend(profiles.0);
        });
    });
    data.bytes(2, &dictionary.0);
    data.0
}

/// Adds an attribute that is a text.
fn attribute(dictionary: &mut Message, key: u64, value: &str) {
    dictionary.message(6, |attribute| {
        attribute.number(1, key);
        attribute.message(2, |any| any.bytes(1, value.as_bytes()));
    });
}

fn sample(message: &mut Message, row: &Row, stack: u64, thread: Option<u64>) {
    message.number(1, stack);
    if let Some(thread) = thread {
        message.packed(2, [thread]);
    }
    // Values are signed.
    message.packed(4, [row.weight.min(i64::MAX as u64)]);
}
