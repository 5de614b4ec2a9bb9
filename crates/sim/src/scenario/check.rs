//! Checks expectations.

use super::play::Player;
use super::records::{self, RecordValue, ScenarioRecord, as_text};
use super::{Expect, Expected, Field, FieldValue, Quantity, RecordName};
use perfuse_abi::page::offset;
use perfuse_abi::read::ReadValues;
use perfuse_abi::{Errno, ReadFormat};
use std::fmt::Write;

type Result<T> = std::result::Result<T, String>;

impl Player {
    /// Checks one; an error says what differs.
    pub(super) fn check(&mut self, expect: &Expect) -> Result<()> {
        match expect {
            Expect::Value(quantities, expected) => {
                let found = self.sum(quantities)?;
                self.compare(&names(quantities), found, expected)
            }
            Expect::Refused(name, errno) => {
                let event = self.find(name).ok_or_else(|| format!("no event '{name}' is open yet"))?;
                let found = match event.fd {
                    Ok(fd) => self.machine.read(fd).map(|_| "it can be read".to_owned()),
                    Err(errno) => Err(errno),
                };
                match found {
                    Err(found) if found == *errno => Ok(()),
                    Err(found) => Err(format!("{name}: {found}, and not: {errno}")),
                    Ok(_) => Err(format!("{name} was opened and can be read; expected was: {errno}")),
                }
            }
            Expect::EndOfFile(name) => {
                let words = self.words(name)?;
                if words.is_empty() { Ok(()) } else { Err(format!("{name} can be read: {words:?}")) }
            }
            Expect::State(name, expected) => match self.machine.state(self.fd(name)?) {
                Some(found) if found == *expected => Ok(()),
                Some(found) => Err(format!("{name} is {found:?}, not {expected:?}")),
                None => Err(format!("{name} is closed")),
            },
            Expect::Poll(name, expected) => {
                let fd = self.fd(name)?;
                let found = self.machine.poll(fd).map_err(|errno| format!("{name}: {errno}"))?;
                if found == *expected {
                    Ok(())
                } else {
                    let (found, expected) = (found.bits(), expected.bits());
                    Err(format!("poll answers {found:#x} for {name}, not {expected:#x}"))
                }
            }
            Expect::Group(name, expected) => {
                let (words, format) = self.values_of(name)?;
                let values = ReadValues::from_words(&words, format).map_err(|error| format!("{error:?}"))?;
                let found: Vec<u64> = values.entries().map(|entry| entry.value).collect();
                if found.len() != expected.len() {
                    return Err(format!("the group of {name} reads as {found:?}"));
                }
                let mut compared = found.iter().zip(expected);
                compared
                    .try_for_each(|(found, expected)| self.compare(name, *found, expected))
                    .map_err(|problem| format!("{problem}; the group reads as {found:?}"))
            }
            Expect::Active(all) => {
                let (mut found, mut wanted) = (String::new(), String::new());
                for (name, expected) in all {
                    let active = self.machine.is_active(self.fd(name)?);
                    found.push(if active { '1' } else { '0' });
                    wanted.push(if *expected { '1' } else { '0' });
                }
                if found == wanted {
                    Ok(())
                } else {
                    Err(format!("those that count are {found}, not {wanted}"))
                }
            }
            Expect::Records(name, kind, expected) => {
                let found = self.seen(name, *kind)?.len() as u64;
                let label = kind.map_or("all".to_owned(), |kind| kind.to_string());
                self.compare(&format!("the number of {label} records of {name}"), found, expected)
            }
            Expect::Order(name, kinds, more) => self.check_order(name, kinds, *more),
            Expect::Record { event, kind, which, fields } => {
                let all = self.seen(event, *kind)?;
                let place = which.map_or(all.len(), |which| usize::try_from(which).unwrap_or(usize::MAX));
                let seen = place.checked_sub(1).and_then(|place| all.get(place));
                let seen = seen.ok_or_else(|| format!("{event} has {} such records", all.len()))?;
                fields.iter().try_for_each(|(name, value)| self.check_field(seen, name, value))
            }
            Expect::Sysctl(file, expected) => {
                let found = self.machine.engine.sysctl(*file);
                if found == *expected { Ok(()) } else { Err(format!("{} is {found}", file.name())) }
            }
        }
    }

    /// The words that a read gives, and their format.
    fn values_of(&mut self, name: &str) -> Result<(Vec<u64>, ReadFormat)> {
        let words = self.words(name)?;
        if words.is_empty() {
            return Err(format!("{name} is in the error state"));
        }
        Ok((words, self.find(name).map_or(ReadFormat::empty(), |event| event.attr.read_format)))
    }

    fn words(&mut self, name: &str) -> Result<Vec<u64>> {
        let fd = self.fd(name)?;
        let why = |errno: Errno| format!("{name} cannot be read: {errno}");
        self.machine.read(fd).map_err(why)
    }

    fn sum(&mut self, quantities: &[Quantity]) -> Result<u64> {
        quantities.iter().try_fold(0_u64, |sum, quantity| Ok(sum.wrapping_add(self.quantity(quantity)?)))
    }

    fn quantity(&mut self, quantity: &Quantity) -> Result<u64> {
        let name = &quantity.event;
        let event = self.find(name).ok_or_else(|| format!("no event '{name}' is open yet"))?;
        let notices = self.machine.notices.get(&event.id).copied().unwrap_or_default();
        match quantity.field {
            Field::Wakes => return Ok(notices.wakes),
            Field::Signals => return Ok(notices.signals),
            Field::Hups => return Ok(notices.hups),
            Field::Traps => return Ok(notices.traps),
            Field::Trace => return Ok(event.trace),
            Field::Head => {
                let reader = event.reader.as_ref().ok_or_else(|| format!("{name} has no ring"))?;
                return Ok(reader.page(offset::DATA_HEAD));
            }
            Field::Value | Field::Enabled | Field::Running | Field::Lost => {}
        }
        let (words, format) = self.values_of(name)?;
        let values = ReadValues::from_words(&words, format).map_err(|error| format!("{error:?}"))?;
        let found = match quantity.field {
            Field::Enabled => values.time_enabled(),
            Field::Running => values.time_running(),
            Field::Lost => values.get(0).and_then(|entry| entry.lost),
            _ => values.get(0).map(|entry| entry.value),
        };
        found.ok_or_else(|| format!("{name} was opened without that; read=LOST has it"))
    }

    fn compare(&mut self, what: &str, found: u64, expected: &Expected) -> Result<()> {
        match expected {
            Expected::Between(low, high) if (low..=high).contains(&&found) => Ok(()),
            Expected::Between(low, high) if low == high => Err(format!("{what} is {found}, not {low}")),
            Expected::Between(low, high) => Err(format!("{what} is {found}, not {low}..{high}")),
            Expected::Same(quantities) => {
                let other = self.sum(quantities)?;
                let others = names(quantities);
                if other == found {
                    Ok(())
                } else {
                    Err(format!("{what} is {found}, and {others} is {other}"))
                }
            }
        }
    }

    /// The records of an event, of a kind.
    fn seen(&self, name: &str, kind: RecordName) -> Result<Vec<ScenarioRecord>> {
        let event = self.find(name).ok_or_else(|| format!("no event '{name}' is open yet"))?;
        let all: Result<Vec<ScenarioRecord>> = records::of(&event.attr, &event.bytes).collect();
        let all = all.map_err(|error| format!("a record of {name} is broken: {error}"))?;
        Ok(all.into_iter().filter(|seen| kind.is_none_or(|kind| kind == seen.kind)).collect())
    }

    fn check_order(&self, name: &str, kinds: &[(RecordName, u64)], more: bool) -> Result<()> {
        let seen = self.seen(name, None)?;
        let mut place = 0;
        for (kind, times) in kinds {
            for _ in 0..*times {
                let fits = seen.get(place).is_some_and(|seen| kind.is_none_or(|kind| kind == seen.kind));
                if !fits {
                    return Err(format!("record {} differs; there are {}", place + 1, summary(&seen)));
                }
                place += 1;
            }
        }
        if more || place == seen.len() { Ok(()) } else { Err(format!("there are {}", summary(&seen))) }
    }

    fn check_field(&self, seen: &ScenarioRecord, name: &str, expected: &FieldValue) -> Result<()> {
        let known = || seen.fields.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let found = seen.get(name).ok_or_else(|| format!("it has no field {name}, only {}", known()))?;
        let wrong = || Err(format!("{name} is {}", as_text(found)));
        match (found, expected) {
            (RecordValue::Number(found) | RecordValue::Address(found), FieldValue::Between(low, high)) => {
                if (low..=high).contains(&found) {
                    Ok(())
                } else {
                    wrong()
                }
            }
            (RecordValue::Number(found), FieldValue::Text(task)) => {
                if self.task(task).is_some_and(|task| task.0 == *found) { Ok(()) } else { wrong() }
            }
            (RecordValue::Text(found), FieldValue::Text(expected)) if found == expected => Ok(()),
            _ => wrong(),
        }
    }
}

fn names(quantities: &[Quantity]) -> String {
    let one = |quantity: &Quantity| match quantity.field {
        Field::Value => quantity.event.clone(),
        field => format!("{}.{}", quantity.event, format!("{field:?}").to_lowercase()),
    };
    quantities.iter().map(one).collect::<Vec<_>>().join("+")
}

/// Kinds of records in order, each with how often it comes.
fn summary(seen: &[ScenarioRecord]) -> String {
    let mut text = String::new();
    let mut rest = seen;
    while let Some(first) = rest.first() {
        let times = rest.iter().take_while(|seen| seen.kind == first.kind).count();
        let _ = match times {
            1 => write!(text, "{} ", first.kind),
            times => write!(text, "{}*{times} ", first.kind),
        };
        rest = &rest[times..];
        if text.len() > 400 {
            text += "...";
            break;
        }
    }
    if text.is_empty() { "none".to_owned() } else { text.trim_end().to_owned() }
}
