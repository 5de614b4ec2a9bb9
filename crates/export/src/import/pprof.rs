//! pprof, `profile.proto`: samples by type of value, locations with the functions that were inlined there.

use super::{Import, ImportError, Sample};
use crate::protobuf::{Fields, Value};
use std::collections::HashMap;
use std::io::Read;

/// A profile has no more types of values.
const MAX_TYPES: usize = 64;

/// Fields of a message, in any order.
struct Parts<'m> {
    types: Vec<&'m [u8]>,
    samples: Vec<&'m [u8]>,
    mappings: Vec<&'m [u8]>,
    locations: Vec<&'m [u8]>,
    functions: Vec<&'m [u8]>,
    strings: Vec<&'m [u8]>,
}

fn broken() -> ImportError {
    ImportError::new("not a pprof profile, or a damaged one")
}

/// Fields that tell whether it is one are among so many.
const FIRST: usize = 64;

/// Whether this is the beginning of a profile: fields that it has, in any order, and among the first of them a type of values.
pub(super) fn begins(start: &[u8]) -> bool {
    let mut has_type = false;
    // The last may be cut.
    for field in Fields::of(start).map_while(|field| field).take(FIRST) {
        match field {
            (1, Value::Bytes(kind)) => {
                has_type |= Fields::of(kind).all(|field| matches!(field, Some((1 | 2, Value::Number(_)))));
            }
            (2..=6 | 11 | 13, Value::Bytes(_)) | (7..=10 | 12..=15, Value::Number(_)) => {}
            _ => return false,
        }
    }
    has_type
}

pub(super) fn read(mut from: impl Read) -> Result<Import, ImportError> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes)?;
    let parts = parts(&bytes)?;
    let text = |number: u64| -> Result<_, ImportError> {
        let number = usize::try_from(number).map_err(|_| broken())?;
        match parts.strings.get(number) {
            Some(text) => Ok(String::from_utf8_lossy(text)),
            None if number == 0 => Ok("".into()),
            None => Err(broken()),
        }
    };
    let mut import = Import::new();
    let mut events = Vec::new();
    let mut has_count = false;
    for (index, kind) in parts.types.iter().enumerate() {
        let [name, _unit] = numbers(kind, [1, 2])?;
        let name = text(name)?;
        // The first is how many samples there are, of which the others are values.
        has_count |= index == 0 && parts.types.len() > 1 && name == "samples";
        events.push(if index == 0 && has_count { None } else { Some(import.event(&name)) });
    }
    let mut objects = HashMap::new();
    for mapping in &parts.mappings {
        let [id, file] = numbers(mapping, [1, 5])?;
        objects.insert(id, text(file)?);
    }
    let mut functions = HashMap::new();
    for function in &parts.functions {
        let [id, name, system_name] = numbers(function, [1, 2, 3])?;
        functions.insert(id, text(if name != 0 { name } else { system_name })?);
    }
    let mut locations: HashMap<u64, Vec<u32>> = HashMap::new();
    for location in &parts.locations {
        let [id, mapping, address] = numbers(location, [1, 2, 3])?;
        let object = objects.get(&mapping).map_or("", |object| object);
        let mut at = Vec::new();
        for field in Fields::of(location) {
            if let (4, Value::Bytes(line)) = field.ok_or_else(broken)? {
                let [function] = numbers(line, [1])?;
                let name = functions.get(&function).map_or("", |name| name);
                at.push(import.function(name, object, address)?);
            }
        }
        if at.is_empty() {
            at.push(import.function("", object, address)?);
        }
        import.keep(at.len() * 4 + 64)?;
        locations.insert(id, at);
    }
    let (mut ids, mut values, mut stack) = (Vec::new(), Vec::new(), Vec::new());
    for sample in &parts.samples {
        let (mut thread, mut pid, mut tid) = (0, 0, 0);
        ids.clear();
        values.clear();
        stack.clear();
        for field in Fields::of(sample) {
            let is_known = match field.ok_or_else(broken)? {
                (1, value) => value.numbers(&mut ids),
                (2, value) => value.numbers(&mut values),
                (3, Value::Bytes(label)) => {
                    let [key, string, number] = numbers(label, [1, 2, 3])?;
                    match &*text(key)? {
                        "thread" | "comm" | "thread_name" => thread = import.text(&text(string)?)?,
                        "pid" => pid = u32::try_from(number).unwrap_or(0),
                        "tid" | "thread_id" => tid = u32::try_from(number).unwrap_or(0),
                        _ => {}
                    }
                    true
                }
                _ => true,
            };
            if !is_known {
                return Err(broken());
            }
        }
        for id in &ids {
            stack.extend_from_slice(locations.get(id).ok_or_else(broken)?);
            if stack.len() > super::MAX_DEPTH {
                break;
            }
        }
        let stack = import.stack(&stack)?;
        // Threads that have names alone get numbers.
        let tid = if tid == 0 { thread + 1 } else { tid };
        let pid = if pid == 0 { tid } else { pid };
        if let Some(value) = values.iter().find(|value| **value > i64::MAX as u64) {
            let value = *value as i64;
            return Err(ImportError::new(format!(
                "a value of {value}: it is a difference of profiles, which are compared by diff"
            )));
        }
        let count = if has_count { values.first().copied().unwrap_or(1).max(1) } else { 1 };
        let is_count_alone = values.iter().skip(1).all(|value| *value == 0);
        for (event, &weight) in events.iter().zip(&values) {
            let Some(event) = *event else { continue };
            // In what has one value, a weight of nothing is a sample all the same.
            if weight == 0 && !(is_count_alone && events.len() <= 2) {
                continue;
            }
            let count = if events.len() == 1 { weight } else { count };
            import.add(Sample { event, thread, pid, tid, cpu: None, time_ns: None, stack, count, weight })?;
        }
    }
    Ok(import)
}

fn parts(message: &[u8]) -> Result<Parts<'_>, ImportError> {
    let [types, samples, mappings, locations, functions, strings] = [const { Vec::new() }; 6];
    let mut parts = Parts { types, samples, mappings, locations, functions, strings };
    for field in Fields::of(message) {
        let (field, value) = field.ok_or_else(broken)?;
        let list = match field {
            1 => &mut parts.types,
            2 => &mut parts.samples,
            3 => &mut parts.mappings,
            4 => &mut parts.locations,
            5 => &mut parts.functions,
            6 => &mut parts.strings,
            _ => continue,
        };
        list.push(value.bytes().ok_or_else(broken)?);
    }
    if parts.types.is_empty() || parts.types.len() > MAX_TYPES {
        return Err(broken());
    }
    Ok(parts)
}

/// The numbers of some fields of a message; 0 for one that is not there.
fn numbers<const N: usize>(message: &[u8], wanted: [u64; N]) -> Result<[u64; N], ImportError> {
    let mut numbers = [0; N];
    for field in Fields::of(message) {
        let (field, value) = field.ok_or_else(broken)?;
        if let Some(at) = wanted.iter().position(|wanted| *wanted == field) {
            numbers[at] = value.number().ok_or_else(broken)?;
        }
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_known_by_their_beginning() {
        // Go begins with the time.
        assert!(begins(&[0x48, 0xd6, 0x1d, 0x0a, 4, 8, 1, 16, 2, 0x12, 40, 1]));
        for other in [&b"\x7fELF\x02\x01\x01"[..], b"PERFILE2", b"\x0a\x05abc", b"", b"{\"a\": 1}"] {
            assert!(!begins(other), "{other:?}");
        }
    }
}
