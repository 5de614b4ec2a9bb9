//! The events of a recording, and which of them a record belongs to.

use crate::error::Problem;
use crate::feature::EventDescs;
use crate::tool::{EventUpdate, IdIndexEntry, Update};
use perfuse_abi::record::{RawRecord, RecordFormat, RecordType, Sample};
use perfuse_abi::{Attr, ByteOrder, WireAttr};
use std::collections::HashMap;
use std::ops::RangeInclusive;

/// So many different record formats are told apart; a recording has two or three.
const FORMATS: usize = 16;

/// More events, and more ids, are not kept: an endless pipe of them must not take all memory.
const MOST_EVENTS: u64 = 1 << 16;
const MOST_IDS: u64 = 1 << 23;

/// An event that was recorded: one attr, opened on any number of cpus and threads.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// How it was opened.
    pub attr: Attr,
    /// The bytes of the attr that this program is too old to know.
    pub attr_tail: Vec<u8>,
    /// The ids of its instances. Empty in recordings of a single event without ids.
    pub ids: Vec<u64>,
    /// Its name, such as `cycles:u`.
    pub name: Option<String>,
    /// The unit of its counts.
    pub unit: Option<String>,
    /// The factor of counts.
    pub scale: Option<f64>,
    /// The cpus it counts on, if they are fewer than all: ranges in order.
    pub cpus: Option<Vec<RangeInclusive<u32>>>,
    /// How its records are laid out.
    pub format: RecordFormat,
}

impl Event {
    pub(crate) fn new(attr: &WireAttr<'_>, ids: Vec<u64>, order: ByteOrder) -> Self {
        Event {
            attr: attr.attr,
            attr_tail: attr.tail.to_vec(),
            ids,
            name: None,
            unit: None,
            scale: None,
            cpus: None,
            format: RecordFormat::of(&attr.attr, order),
        }
    }

    /// For how many occurrences of the event a sample stands: what it says itself, else what was asked
    /// for (with a frequency, samples say it themselves).
    pub fn weight(&self, sample: &Sample<'_>) -> u64 {
        sample.period.unwrap_or(self.attr.sample_period)
    }
}

/// A number for each id. The kernel counts ids up, so that those of a recording are close to each other and
/// a table has most of them.
#[derive(Clone, Debug, Default)]
struct Ids {
    /// The id that the table starts with.
    first: u64,
    table: Vec<Option<u32>>,
    others: HashMap<u64, u32>,
    count: usize,
}

/// Ids below and above the first that the table has room for.
const NEAR: u64 = 1 << 14;

impl Ids {
    /// Keeps what an id was given first.
    fn insert(&mut self, id: u64, value: u32) {
        if self.count == 0 {
            self.first = id.saturating_sub(NEAR);
        }
        let place = id.wrapping_sub(self.first);
        let is_new = if place >= 2 * NEAR {
            let before = self.others.len();
            self.others.entry(id).or_insert(value);
            self.others.len() > before
        } else {
            if self.table.len() as u64 <= place {
                self.table.resize(place as usize + 1, None);
            }
            let slot = &mut self.table[place as usize];
            let is_new = slot.is_none();
            slot.get_or_insert(value);
            is_new
        };
        self.count += usize::from(is_new);
    }

    #[inline]
    fn get(&self, id: u64) -> Option<u32> {
        match self.table.get(usize::try_from(id.wrapping_sub(self.first)).ok()?) {
            Some(value) => *value,
            None if self.others.is_empty() => None,
            None => self.others.get(&id).copied(),
        }
    }
}

/// All events of a recording, in the order of their attrs.
#[derive(Clone, Debug)]
pub struct Events {
    list: Vec<Event>,
    order: ByteOrder,
    /// Index of the event of each id.
    by_id: Ids,
    /// Each format once, at most [`FORMATS`].
    formats: Vec<RecordFormat>,
    /// The owners of the ids.
    owners: HashMap<u64, IdIndexEntry>,
    /// The format of records of a recording without events.
    none: RecordFormat,
}

impl std::ops::Deref for Events {
    type Target = [Event];

    #[inline]
    fn deref(&self) -> &[Event] {
        &self.list
    }
}

impl Events {
    pub(crate) fn new(order: ByteOrder) -> Self {
        let none = RecordFormat { order, ..RecordFormat::default() };
        let (by_id, owners) = (Ids::default(), HashMap::new());
        Events { list: Vec::new(), order, by_id, formats: Vec::new(), owners, none }
    }

    /// Byte order of the records.
    #[inline]
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// Adds an event, unless there are more than any recording has.
    pub(crate) fn push(&mut self, event: Event) -> Result<(), Problem> {
        let (events, ids) = (self.list.len() as u64, (self.by_id.count + event.ids.len()) as u64);
        for (size, limit) in [(events, MOST_EVENTS), (ids, MOST_IDS)] {
            if size >= limit {
                return Err(Problem::TooLarge { size, limit });
            }
        }
        let index = self.list.len() as u32;
        for &id in &event.ids {
            self.by_id.insert(id, index);
        }
        if !self.formats.contains(&event.format) && self.formats.len() < FORMATS {
            self.formats.push(event.format);
        }
        self.list.push(event);
        Ok(())
    }

    /// Index of the event with this id. Of two with the same id, the first.
    #[inline]
    pub fn by_id(&self, id: u64) -> Option<usize> {
        self.by_id.get(id).map(|index| index as usize)
    }

    /// The cpu, thread and ring that an id belongs to, if an ID_INDEX record told.
    pub fn owner(&self, id: u64) -> Option<&IdIndexEntry> {
        self.owners.get(&id)
    }

    /// The event that a record of the kernel belongs to. A record that tools synthesized has the id 0 and
    /// is taken for one of the first event, whose layout it has.
    #[inline]
    pub fn event_of(&self, record: &RawRecord<'_>) -> Option<usize> {
        match self.formats.as_slice() {
            _ if self.list.len() == 1 => Some(0),
            [only] => match only.id_of(record).and_then(|id| self.by_id(id)) {
                Some(event) => Some(event),
                None => self.search(record),
            },
            _ => self.search(record),
        }
    }

    fn search(&self, record: &RawRecord<'_>) -> Option<usize> {
        let is_sample = record.header.kind == RecordType::SAMPLE;
        for format in &self.formats {
            let Some(id) = format.id_of(record) else { continue };
            match self.by_id(id) {
                // An id found where another event's format has it may be anything.
                Some(event) if self.list[event].format == *format => return Some(event),
                None if id == 0 && !is_sample => return Some(0),
                _ => {}
            }
        }
        let has_trailer = self.formats.iter().any(|format| format.sample_id_all);
        (!is_sample && !has_trailer && !self.list.is_empty()).then_some(0)
    }

    /// How a record of the kernel is laid out. `None` if that depends on the event, and the record's
    /// event is not known.
    #[inline]
    pub fn format_of(&self, record: &RawRecord<'_>) -> Option<&RecordFormat> {
        match self.formats.as_slice() {
            [only] => Some(only),
            [] if record.header.kind != RecordType::SAMPLE => Some(&self.none),
            _ => self.event_of(record).map(|event| &self.list[event].format),
        }
    }

    /// Takes names from the section that has them.
    pub(crate) fn describe(&mut self, descs: &EventDescs<'_>) {
        for (index, desc) in descs.events.iter().enumerate() {
            let by_id = desc.ids.get(0).and_then(|id| self.by_id(id));
            let same_number = descs.events.len() == self.list.len();
            let Some(event) = by_id.or(same_number.then_some(index)) else { continue };
            let event = &mut self.list[event];
            event.name = Some(String::from_utf8_lossy(desc.name.as_bytes()).into_owned());
        }
    }

    pub(crate) fn update(&mut self, update: &EventUpdate<'_>) {
        let only = (self.list.len() == 1).then_some(0);
        let Some(event) = self.by_id(update.id).or(only) else { return };
        let event = &mut self.list[event];
        let text = |bytes| Some(String::from_utf8_lossy(bytes).into_owned());
        match &update.update {
            Update::Unit(unit) => event.unit = text(unit.as_bytes()),
            Update::Name(name) => event.name = text(name.as_bytes()),
            Update::Scale(scale) => event.scale = Some(*scale),
            Update::Cpus(cpus) => event.cpus = Some(cpus.ranges()),
            Update::Unknown { .. } => {}
        }
    }

    pub(crate) fn set_owners(&mut self, entries: impl Iterator<Item = IdIndexEntry>) {
        let room = (MOST_IDS as usize).saturating_sub(self.owners.len());
        self.owners.extend(entries.take(room).map(|entry| (entry.id, entry)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_apart_wherever_they_are() {
        let mut ids = Ids::default();
        let all = [1 << 40, (1 << 40) + 3, (1 << 40) - 5, 0, 7, u64::MAX, (1 << 40) + 4 * NEAR];
        for (value, &id) in (0..).zip(&all) {
            assert_eq!(ids.get(id), None);
            ids.insert(id, value);
            ids.insert(id, 99);
        }
        for (value, &id) in (0..).zip(&all) {
            assert_eq!(ids.get(id), Some(value));
        }
        assert_eq!((ids.count, ids.get(1), ids.get((1 << 40) + 1)), (all.len(), None, None));
    }
}
