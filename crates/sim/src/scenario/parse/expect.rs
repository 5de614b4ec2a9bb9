//! Expectations.

use super::sysctl;
use crate::scenario::words::{Result, Words, errno, number, range, small, unknown};
use crate::scenario::{Expect, Expected, Field, FieldValue, Quantity, RecordName};
use perfuse_abi::PollFlags;
use perfuse_abi::record::RecordType;
use perfuse_engine::State;

/// Words behind `expect` in place of an event's name.
pub(super) const EXPECTATIONS: [&str; 5] = ["active", "records", "order", "record", "sysctl"];

pub(super) fn expect(words: &mut Words<'_>) -> Result<Expect> {
    let first = words.need("what")?;
    Ok(match first {
        "active" => {
            let picture = words.need("a picture such as 110")?;
            let mut all = Vec::new();
            for mark in picture.chars() {
                let name = words.need("an event for each digit")?.to_owned();
                all.push(match mark {
                    '0' | '.' => (name, false),
                    '1' | '#' => (name, true),
                    mark => return Err(format!("a picture is made of 1 and 0, not '{mark}'")),
                });
            }
            Expect::Active(all)
        }
        "records" => {
            let event = words.need("the event")?.to_owned();
            let kind = record_kind(words.need("the kind")?)?;
            Expect::Records(event, kind, expected(words.need("how many")?)?)
        }
        "order" => {
            let event = words.need("the event")?.to_owned();
            let (mut kinds, mut more) = (Vec::new(), false);
            while let Some(word) = words.next() {
                if word == "..." {
                    more = true;
                    break;
                }
                let (name, times) = word.split_once('*').unwrap_or((word, "1"));
                kinds.push((record_kind(name)?, number(times, "how often")?));
            }
            Expect::Order(event, kinds, more)
        }
        "record" => {
            let event = words.need("the event")?.to_owned();
            let kind = record_kind(words.need("the kind")?)?;
            let which = match words.need("which one")? {
                "last" => None,
                word => Some(small(word, "which one", 1, u64::MAX)?),
            };
            let mut fields = Vec::new();
            while let Some(word) = words.next() {
                let (name, value) =
                    word.split_once('=').ok_or_else(|| format!("FIELD=VALUE was expected, not '{word}'"))?;
                let value = match range(value, "") {
                    Ok((low, high)) => FieldValue::Between(low, high),
                    Err(_) => FieldValue::Text(value.to_owned()),
                };
                fields.push((name.to_owned(), value));
            }
            Expect::Record { event, kind, which, fields }
        }
        "sysctl" => {
            let file = sysctl(words.need("the file")?)?;
            Expect::Sysctl(file, words.need("the value")?.to_owned())
        }
        quantities => {
            let name = || quantities.to_owned();
            match words.need("the value")? {
                "error" => Expect::EndOfFile(name()),
                "state" => Expect::State(name(), state(words.need("the state")?)?),
                "poll" => Expect::Poll(
                    name(),
                    match words.need("the answer")? {
                        "in" => PollFlags::READABLE,
                        "err" => PollFlags::ERR,
                        "hup" => PollFlags::HUP,
                        "nothing" => PollFlags::empty(),
                        word => {
                            return Err(unknown("poll has no answer", word, ["in", "hup", "err", "nothing"]));
                        }
                    },
                ),
                "group" => {
                    let mut values = Vec::new();
                    while let Some(word) = words.next() {
                        values.push(expected(word)?);
                    }
                    Expect::Group(name(), values)
                }
                "same" => Expect::Value(
                    self::quantities(quantities)?,
                    Expected::Same(self::quantities(words.need("as what")?)?),
                ),
                word => match errno(word) {
                    Some(errno) => Expect::Refused(name(), errno),
                    None => Expect::Value(self::quantities(quantities)?, expected(word)?),
                },
            }
        }
    })
}

fn expected(word: &str) -> Result<Expected> {
    range(word, "a value").map(|(low, high)| Expected::Between(low, high))
}

fn quantities(word: &str) -> Result<Vec<Quantity>> {
    const FIELDS: [(&str, Field); 10] = [
        ("value", Field::Value),
        ("enabled", Field::Enabled),
        ("running", Field::Running),
        ("lost", Field::Lost),
        ("wakes", Field::Wakes),
        ("signals", Field::Signals),
        ("hups", Field::Hups),
        ("traps", Field::Traps),
        ("head", Field::Head),
        ("trace", Field::Trace),
    ];
    let one = |word: &str| {
        let (event, field) = word.split_once('.').unwrap_or((word, "value"));
        let known = FIELDS.iter().map(|(name, _)| *name);
        let found = FIELDS.iter().find(|(name, _)| *name == field);
        let (_, field) = found.ok_or_else(|| unknown("an event has no", field, known))?;
        Ok(Quantity { event: event.to_owned(), field: *field })
    };
    word.split('+').map(one).collect()
}

fn state(word: &str) -> Result<State> {
    const STATES: [(&str, State); 6] = [
        ("revoked", State::Revoked),
        ("exit", State::Exit),
        ("error", State::Error),
        ("off", State::Off),
        ("inactive", State::Inactive),
        ("active", State::Active),
    ];
    let found = STATES.iter().find(|(name, _)| *name == word);
    let known = STATES.iter().map(|(name, _)| *name);
    found.map(|(_, state)| *state).ok_or_else(|| unknown("no state is called", word, known))
}

fn record_kind(word: &str) -> Result<RecordName> {
    if word == "all" {
        return Ok(None);
    }
    let names: Vec<String> = (1..=22).map(|kind| RecordType(kind).to_string()).collect();
    let found = names.iter().position(|name| name == word);
    let known = names.iter().map(String::as_str).chain(["all"]);
    found
        .map(|place| Some(RecordType(place as u32 + 1)))
        .ok_or_else(|| unknown("no records are called", word, known))
}
