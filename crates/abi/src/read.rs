//! The values of events, as `read(2)` returns them and samples and `PERF_RECORD_READ` carry them.
//!
//! `attr.read_format` chooses between 32 layouts, all made of 64-bit words (rules E3 and E4):
//!
//! ```text
//! without GROUP:  value        [enabled] [running]  [id] [lost]
//! with GROUP:     nr           [enabled] [running]  nr × { value [id] [lost] }
//! ```
//!
//! The rule letters are those of the project's `docs/semantics`.

use crate::flags::ReadFormat;
use crate::order::ByteOrder;
use crate::wire::{Codec, EncodeError, Reader, Short, Sink, Words, Writer};
use alloc::vec::Vec;

/// Values of one event, or of a group, in the layout of one read format. Borrows the words.
///
/// ```
/// use perfuse_abi::{ReadFormat, read::ReadValues};
///
/// let format = ReadFormat::GROUP | ReadFormat::ID | ReadFormat::TOTAL_TIME_ENABLED;
/// let values = ReadValues::from_words(&[2, 5_000, 100, 7, 200, 8], format).unwrap();
/// assert_eq!(values.time_enabled(), Some(5_000));
/// assert_eq!(values.entries().map(|e| (e.id, e.value)).collect::<Vec<_>>(), [(Some(7), 100), (Some(8), 200)]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadValues<'a> {
    format: ReadFormat,
    /// Everything but the `nr` of a group.
    words: Words<'a>,
}

/// The value of one event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadEntry {
    /// The count.
    pub value: u64,
    /// The event's id, with [`ReadFormat::ID`].
    pub id: Option<u64>,
    /// Records the event lost, with [`ReadFormat::LOST`].
    pub lost: Option<u64>,
}

impl ReadEntry {
    /// A count alone.
    pub const fn new(value: u64) -> Self {
        ReadEntry { value, id: None, lost: None }
    }

    /// With the id of its event.
    #[must_use]
    pub const fn with_id(mut self, id: u64) -> Self {
        self.id = Some(id);
        self
    }

    /// With the number of records that the event lost.
    #[must_use]
    pub const fn with_lost(mut self, lost: u64) -> Self {
        self.lost = Some(lost);
        self
    }
}

/// For how long the events were there, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Time enabled.
    pub enabled_ns: u64,
    /// Time really counting.
    pub running_ns: u64,
}

/// Number of the `wanted` flags in `format`.
#[inline]
const fn count(format: ReadFormat, wanted: ReadFormat) -> usize {
    format.intersection(wanted).bits().count_ones() as usize
}

/// Words taken by times.
#[inline]
const fn time_words(format: ReadFormat) -> usize {
    count(format, ReadFormat::TOTAL_TIME_ENABLED.union(ReadFormat::TOTAL_TIME_RUNNING))
}

/// Words taken by one event.
#[inline]
const fn entry_words(format: ReadFormat) -> usize {
    1 + count(format, ReadFormat::ID.union(ReadFormat::LOST))
}

/// Index of the value of event `index`, and of the first word after it that belongs to the event.
#[inline]
const fn places(format: ReadFormat, index: usize) -> (usize, usize) {
    if format.contains(ReadFormat::GROUP) {
        let value = time_words(format).saturating_add(index.saturating_mul(entry_words(format)));
        (value, value.saturating_add(1))
    } else {
        (0, 1 + time_words(format))
    }
}

/// Index of the first time.
#[inline]
const fn first_time(format: ReadFormat) -> usize {
    if format.contains(ReadFormat::GROUP) { 0 } else { 1 }
}

/// Bytes of the values of `members` events (rule E3); without [`ReadFormat::GROUP`] there is always one.
///
/// ```
/// use perfuse_abi::{ReadFormat, read::len_for};
/// assert_eq!(len_for(ReadFormat::empty(), 1), 8);
/// assert_eq!(len_for(ReadFormat::GROUP | ReadFormat::ID | ReadFormat::LOST, 3), 8 + 3 * 24);
/// ```
pub const fn len_for(format: ReadFormat, members: usize) -> usize {
    let words = if format.contains(ReadFormat::GROUP) {
        entry_words(format).saturating_mul(members).saturating_add(1)
    } else {
        entry_words(format)
    };
    words.saturating_add(time_words(format)).saturating_mul(8)
}

/// The count that the event would have had counting all the time it was enabled; `None` if it never
/// was.
///
/// ```
/// use perfuse_abi::read::{Times, scale};
/// assert_eq!(scale(300, Times { enabled_ns: 1_000, running_ns: 250 }), Some(1_200));
/// assert_eq!(scale(0, Times { enabled_ns: 1_000, running_ns: 0 }), None);
/// ```
pub fn scale(value: u64, times: Times) -> Option<u64> {
    let scaled = (u128::from(value) * u128::from(times.enabled_ns)).checked_div(times.running_ns.into())?;
    Some(u64::try_from(scaled).unwrap_or(u64::MAX))
}

impl<'a> ReadValues<'a> {
    /// Takes the words that `read(2)` filled a buffer with. Words behind the values are ignored.
    #[inline]
    pub fn from_words(words: &'a [u64], format: ReadFormat) -> Result<Self, Short> {
        let short =
            |needed: usize| Short { what: "read values", offset: 0, needed, available: words.len() * 8 };
        let (members, skip) = match (format.contains(ReadFormat::GROUP), words.first()) {
            (true, Some(&nr)) => (usize::try_from(nr).unwrap_or(usize::MAX), 1),
            (true, None) => return Err(short(8)),
            (false, _) => (1, 0),
        };
        let len = len_for(format, members);
        let words = words.get(skip..len / 8).ok_or_else(|| short(len))?;
        Ok(ReadValues { format, words: words.into() })
    }

    /// Takes the bytes that `read(2)` returned. Bytes behind the values are ignored.
    #[inline]
    pub fn decode(bytes: &'a [u8], format: ReadFormat, order: ByteOrder) -> Result<Self, Short> {
        let mut values = ReadValues::default();
        values.layout(&mut Reader::new(bytes, order), format)?;
        Ok(values)
    }

    /// Puts the words of these events into `storage`, replacing what it held. Without
    /// [`ReadFormat::GROUP`] there must be one event. Values that the format does not ask for are left out;
    /// those it asks for must be there.
    pub fn build(
        storage: &'a mut Vec<u64>,
        format: ReadFormat,
        times: Times,
        events: impl ExactSizeIterator<Item = ReadEntry>,
    ) -> Result<Self, EncodeError> {
        let members = events.len();
        if !format.contains(ReadFormat::GROUP) && members != 1 {
            return Err(EncodeError::Count { what: "events", expected: 1, found: members as u64 });
        }
        storage.clear();
        storage.resize(len_for(format, members) / 8 - usize::from(format.contains(ReadFormat::GROUP)), 0);
        let both = [
            (ReadFormat::TOTAL_TIME_ENABLED, times.enabled_ns),
            (ReadFormat::TOTAL_TIME_RUNNING, times.running_ns),
        ];
        let wanted = both.iter().filter(|(flag, _)| format.contains(*flag));
        for (place, (_, time)) in storage[first_time(format)..].iter_mut().zip(wanted) {
            *place = *time;
        }
        for (index, event) in events.enumerate() {
            let (value, mut rest) = places(format, index);
            storage[value] = event.value;
            for (flag, what, field) in
                [(ReadFormat::ID, "id", event.id), (ReadFormat::LOST, "lost", event.lost)]
            {
                if format.contains(flag) {
                    storage[rest] = field.ok_or(EncodeError::Missing(what))?;
                    rest += 1;
                }
            }
        }
        let words: &'a [u64] = storage;
        Ok(ReadValues { format, words: words.into() })
    }

    /// The values in both directions; `format` tells a reader what to expect.
    #[inline]
    pub fn layout<C: Codec<'a>>(&mut self, c: &mut C, format: ReadFormat) -> Result<(), C::Error> {
        let mut members = self.len() as u64;
        self.format = format;
        let entries = if format.contains(ReadFormat::GROUP) {
            c.u64("number of values", &mut members)?;
            members.saturating_mul(entry_words(format) as u64)
        } else {
            entry_words(format) as u64
        };
        c.seq("read values", entries.saturating_add(time_words(format) as u64), &mut self.words)
    }

    /// Writes the values as `read(2)` would.
    pub fn encode(&self, order: ByteOrder, sink: &mut impl Sink) -> Result<(), EncodeError> {
        let mut values = *self;
        values.layout(&mut Writer::new(sink, order), self.format)
    }

    /// The layout.
    #[inline]
    pub fn format(&self) -> ReadFormat {
        self.format
    }

    /// Number of events.
    #[inline]
    pub fn len(&self) -> usize {
        if self.format.contains(ReadFormat::GROUP) {
            self.words.len().saturating_sub(time_words(self.format)) / entry_words(self.format)
        } else {
            usize::from(!self.words.is_empty())
        }
    }

    /// Whether there is no event: a group of none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Event `index`; 0 is the event itself, or the leader of the group.
    #[inline]
    pub fn get(&self, index: usize) -> Option<ReadEntry> {
        if index > 0 && !self.format.contains(ReadFormat::GROUP) {
            return None;
        }
        let (value, mut rest) = places(self.format, index);
        let value = self.words.get(value)?;
        let mut next = |flag| {
            let word = if self.format.contains(flag) { self.words.get(rest) } else { None };
            rest += usize::from(word.is_some());
            word
        };
        let (id, lost) = (next(ReadFormat::ID), next(ReadFormat::LOST));
        Some(ReadEntry { value, id, lost })
    }

    /// All events, the leader first.
    #[inline]
    pub fn entries(&self) -> impl ExactSizeIterator<Item = ReadEntry> + use<'a> {
        let values = *self;
        (0..values.len()).map(move |index| values.get(index).unwrap_or_default())
    }

    /// The count of the event itself, or of the leader of the group.
    #[inline]
    pub fn value(&self) -> Option<u64> {
        self.get(0).map(|entry| entry.value)
    }

    /// Nanoseconds enabled, with [`ReadFormat::TOTAL_TIME_ENABLED`].
    #[inline]
    pub fn time_enabled(&self) -> Option<u64> {
        let wanted = self.format.contains(ReadFormat::TOTAL_TIME_ENABLED);
        if wanted { self.words.get(first_time(self.format)) } else { None }
    }

    /// Nanoseconds counting, with [`ReadFormat::TOTAL_TIME_RUNNING`].
    #[inline]
    pub fn time_running(&self) -> Option<u64> {
        let wanted = self.format.contains(ReadFormat::TOTAL_TIME_RUNNING);
        let skip = count(self.format, ReadFormat::TOTAL_TIME_ENABLED);
        if wanted { self.words.get(first_time(self.format) + skip) } else { None }
    }

    /// Both times, if the format has both.
    #[inline]
    pub fn times(&self) -> Option<Times> {
        Some(Times { enabled_ns: self.time_enabled()?, running_ns: self.time_running()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    const ALL: ReadFormat = ReadFormat::from_bits_retain(31);
    const TIMES: Times = Times { enabled_ns: 1000, running_ns: 500 };

    fn event(n: u32) -> ReadEntry {
        let n = u64::from(n);
        ReadEntry { value: n, id: Some(n + 100), lost: Some(n + 200) }
    }

    #[test]
    fn all_32_formats_survive_the_round_trip_in_both_orders() {
        for format in (0..32).map(ReadFormat::from_bits_retain) {
            for order in [ByteOrder::Little, ByteOrder::Big] {
                let members = if format.contains(ReadFormat::GROUP) { 3 } else { 1 };
                let mut words = vec![];
                let values = ReadValues::build(&mut words, format, TIMES, (0..members).map(event)).unwrap();
                let mut bytes = vec![];
                values.encode(order, &mut bytes).unwrap();
                assert_eq!(bytes.len(), len_for(format, members as usize));
                let back = ReadValues::decode(&bytes, format, order).unwrap();
                assert_eq!(back, values);
                assert_eq!(
                    back.time_enabled(),
                    format.contains(ReadFormat::TOTAL_TIME_ENABLED).then_some(1000)
                );
                assert_eq!(
                    back.time_running(),
                    format.contains(ReadFormat::TOTAL_TIME_RUNNING).then_some(500)
                );
                for (n, entry) in back.entries().enumerate() {
                    let n = n as u64;
                    assert_eq!(entry.value, n);
                    assert_eq!(entry.id, format.contains(ReadFormat::ID).then_some(n + 100));
                    assert_eq!(entry.lost, format.contains(ReadFormat::LOST).then_some(n + 200));
                }
                let native: vec::Vec<u64> =
                    bytes.chunks_exact(8).map(|chunk| order.u64(chunk.try_into().unwrap())).collect();
                assert_eq!(ReadValues::from_words(&native, format), Ok(values));
            }
        }
    }

    #[test]
    fn the_times_stand_between_the_value_and_the_id_without_group() {
        let values = ReadValues::from_words(&[1, 2, 3, 4, 5], ALL - ReadFormat::GROUP).unwrap();
        assert_eq!(values.get(0), Some(ReadEntry { value: 1, id: Some(4), lost: Some(5) }));
        assert_eq!(values.times(), Some(Times { enabled_ns: 2, running_ns: 3 }));
    }

    #[test]
    fn a_group_count_larger_than_the_buffer_is_refused() {
        for nr in [2, 1 << 32, u64::MAX / 8, u64::MAX] {
            assert!(ReadValues::from_words(&[nr, 1, 2, 3, 4, 5], ALL).is_err());
            let bytes = [nr.to_le_bytes(), [0; 8]].concat();
            assert!(ReadValues::decode(&bytes, ALL, ByteOrder::Little).is_err());
        }
    }

    #[test]
    fn an_empty_group_has_no_entries() {
        let values =
            ReadValues::from_words(&[0, 7], ReadFormat::GROUP | ReadFormat::TOTAL_TIME_ENABLED).unwrap();
        assert_eq!((values.len(), values.value(), values.time_enabled()), (0, None, Some(7)));
    }

    #[test]
    fn a_missing_id_is_named() {
        let mut words = vec![];
        let entries = [ReadEntry { value: 1, ..ReadEntry::default() }];
        let result = ReadValues::build(&mut words, ReadFormat::ID, TIMES, entries.into_iter());
        assert_eq!(result, Err(EncodeError::Missing("id")));
    }

    #[test]
    fn one_event_cannot_be_a_group_of_two() {
        let mut words = vec![];
        let result = ReadValues::build(&mut words, ReadFormat::empty(), TIMES, (0..2).map(event));
        assert_eq!(result, Err(EncodeError::Count { what: "events", expected: 1, found: 2 }));
    }
}
