//! Ids and times of records, changed where they lie: every other byte stays.

use crate::tool::kind;
use perfuse_abi::ByteOrder;
use perfuse_abi::record::{Header, RecordFormat, RecordType};
use perfuse_abi::{ReadFormat, SampleType};
use std::collections::HashMap;

/// New ids by old ones.
pub(super) type Renumbering = HashMap<u64, u64>;

/// Fields of eight bytes that stand before the values of a sample, in their order.
const BEFORE_READ: [SampleType; 9] = [
    SampleType::IDENTIFIER,
    SampleType::IP,
    SampleType::TID,
    SampleType::TIME,
    SampleType::ADDR,
    SampleType::ID,
    SampleType::STREAM_ID,
    SampleType::CPU,
    SampleType::PERIOD,
];

/// The fields of a trailer, in their order.
const TRAILER: [SampleType; 6] = [
    SampleType::TID,
    SampleType::TIME,
    SampleType::ID,
    SampleType::STREAM_ID,
    SampleType::CPU,
    SampleType::IDENTIFIER,
];

/// Fields that are ids.
const IDS: SampleType = SampleType::IDENTIFIER.union(SampleType::ID).union(SampleType::STREAM_ID);

/// A record that is changed.
pub(super) struct Patch<'b> {
    /// Everything, header included.
    pub(super) bytes: &'b mut [u8],
    pub(super) order: ByteOrder,
}

impl Patch<'_> {
    fn word(&self, at: usize) -> Option<u64> {
        self.bytes.get(at..)?.first_chunk().map(|word| self.order.u64(*word))
    }

    fn set(&mut self, at: usize, value: u64) {
        if let Some(place) = self.bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
            *place = self.order.bytes64(value);
        }
    }

    fn renumber(&mut self, at: usize, ids: &Renumbering) {
        if let Some(&new) = self.word(at).and_then(|old| ids.get(&old)) {
            self.set(at, new);
        }
    }

    /// Gives a record of the kernel new ids.
    pub(super) fn ids(&mut self, kind: RecordType, format: &RecordFormat, ids: &Renumbering) {
        if kind == RecordType::SAMPLE {
            let mut at = Header::SIZE;
            for field in BEFORE_READ.into_iter().filter(|field| format.sample_type.contains(*field)) {
                if IDS.contains(field) {
                    self.renumber(at, ids);
                }
                at += 8;
            }
            if format.sample_type.contains(SampleType::READ) {
                self.values(at, format.read_format, ids);
            }
            return;
        }
        match kind {
            RecordType::READ => self.values(Header::SIZE + 8, format.read_format, ids),
            RecordType::LOST => self.renumber(Header::SIZE, ids),
            RecordType::THROTTLE | RecordType::UNTHROTTLE => {
                self.renumber(Header::SIZE + 8, ids);
                self.renumber(Header::SIZE + 16, ids);
            }
            _ => {}
        }
        self.trailer(format, |patch, field, at| {
            if IDS.contains(field) {
                patch.renumber(at, ids);
            }
        });
    }

    /// Gives a record without a time one.
    pub(super) fn time(&mut self, format: &RecordFormat, time: u64) {
        self.trailer(format, |patch, field, at| {
            if field == SampleType::TIME && patch.word(at) == Some(0) {
                patch.set(at, time);
            }
        });
    }

    fn trailer(&mut self, format: &RecordFormat, mut change: impl FnMut(&mut Self, SampleType, usize)) {
        let len = format.trailer_len();
        let Some(mut at) = self.bytes.len().checked_sub(len).filter(|at| *at >= Header::SIZE) else { return };
        if len > 0 {
            for field in TRAILER.into_iter().filter(|field| format.sample_type.contains(*field)) {
                change(self, field, at);
                at += 8;
            }
        }
    }

    /// Values of an event, or of a group.
    fn values(&mut self, start: usize, format: ReadFormat, ids: &Renumbering) {
        if !format.contains(ReadFormat::ID) {
            return;
        }
        let has = |flag| usize::from(format.contains(flag));
        let times = has(ReadFormat::TOTAL_TIME_ENABLED) + has(ReadFormat::TOTAL_TIME_RUNNING);
        let first = start + 8 * (1 + times);
        if !format.contains(ReadFormat::GROUP) {
            return self.renumber(first, ids);
        }
        let entry = 8 * (2 + has(ReadFormat::LOST));
        let count = self.word(start).unwrap_or(0).min((self.bytes.len() / entry) as u64);
        (0..count as usize).for_each(|index| self.renumber(first + index * entry + 8, ids));
    }

    /// Gives a tool's record new ids.
    pub(super) fn tool_ids(&mut self, kind: RecordType, ids: &Renumbering) {
        match kind {
            kind::EVENT_UPDATE => self.renumber(Header::SIZE + 8, ids),
            kind::ID_INDEX => {
                let most = (self.bytes.len() / 32) as u64;
                let count = self.word(Header::SIZE).unwrap_or(0).min(most) as usize;
                (0..count).for_each(|index| self.renumber(Header::SIZE + 8 + index * 32, ids));
            }
            _ => {}
        }
    }
}
