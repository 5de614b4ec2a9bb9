//! The part of an attr that decides the layout of records, and the fields that are found without decoding.

use super::{RawRecord, RecordType, Tid};
use crate::attr::Attr;
use crate::flags::{AttrFlags, BranchSampleType, ReadFormat, SampleType};
use crate::order::ByteOrder;

/// Everything of an attr that decides how its event's records are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordFormat {
    /// Byte order of the machine that wrote the records.
    pub order: ByteOrder,
    /// Whether records other than samples end with a [`SampleId`](super::SampleId).
    pub sample_id_all: bool,
    /// Contents of samples.
    pub sample_type: SampleType,
    /// Layout of values.
    pub read_format: ReadFormat,
    /// Layout of branch stacks.
    pub branch_sample_type: BranchSampleType,
    /// Registers of the user.
    pub sample_regs_user: u64,
    /// Registers at the interrupt.
    pub sample_regs_intr: u64,
}

impl Default for RecordFormat {
    /// The format of an attr of zeros on this machine: samples and trailers are empty.
    fn default() -> Self {
        RecordFormat {
            order: ByteOrder::NATIVE,
            sample_id_all: false,
            sample_type: SampleType::empty(),
            read_format: ReadFormat::empty(),
            branch_sample_type: BranchSampleType::empty(),
            sample_regs_user: 0,
            sample_regs_intr: 0,
        }
    }
}

const TRAILER: SampleType = SampleType::TID
    .union(SampleType::TIME)
    .union(SampleType::ID)
    .union(SampleType::STREAM_ID)
    .union(SampleType::CPU)
    .union(SampleType::IDENTIFIER);

/// The fields before a thread, a time, an id and a period in a sample; and after them in a trailer, which has no period.
const BEFORE_TID: SampleType = SampleType::IDENTIFIER.union(SampleType::IP);
const BEFORE_TIME: SampleType = BEFORE_TID.union(SampleType::TID);
const BEFORE_ID: SampleType = BEFORE_TIME.union(SampleType::TIME).union(SampleType::ADDR);
const BEFORE_PERIOD: SampleType =
    BEFORE_ID.union(SampleType::ID).union(SampleType::STREAM_ID).union(SampleType::CPU);
const AFTER_ID: SampleType = SampleType::STREAM_ID.union(SampleType::CPU).union(SampleType::IDENTIFIER);
const AFTER_TIME: SampleType = AFTER_ID.union(SampleType::ID);
const AFTER_TID: SampleType = AFTER_TIME.union(SampleType::TIME);

impl RecordFormat {
    /// The format of the records of an event opened with `attr`.
    pub fn of(attr: &Attr, order: ByteOrder) -> Self {
        RecordFormat {
            order,
            sample_id_all: attr.flags.contains(AttrFlags::SAMPLE_ID_ALL),
            sample_type: attr.sample_type,
            read_format: attr.read_format,
            branch_sample_type: attr.branch_sample_type,
            sample_regs_user: attr.sample_regs_user,
            sample_regs_intr: attr.sample_regs_intr,
        }
    }

    /// Bytes of the trailer of records other than samples.
    #[inline]
    pub fn trailer_len(&self) -> usize {
        if self.sample_id_all { self.bytes_of(TRAILER) } else { 0 }
    }

    /// Bytes of those of the `fields` that are asked for. Each is 8 bytes.
    #[inline]
    fn bytes_of(&self, fields: SampleType) -> usize {
        self.sample_type.intersection(fields).bits().count_ones() as usize * 8
    }

    /// The id of the event a record belongs to, without decoding the record. With
    /// [`SampleType::IDENTIFIER`] it is found also if the record's event, and so its format, is not known
    /// yet: first in samples, last in all others (rule H43).
    #[inline]
    pub fn id_of(&self, record: &RawRecord<'_>) -> Option<u64> {
        if self.sample_type.contains(SampleType::IDENTIFIER) {
            self.word(record, SampleType::empty(), SampleType::empty())
        } else if self.sample_type.contains(SampleType::ID) {
            self.word(record, BEFORE_ID, AFTER_ID)
        } else {
            None
        }
    }

    /// The time of a record, without decoding it.
    #[inline]
    pub fn time_of(&self, record: &RawRecord<'_>) -> Option<u64> {
        if self.sample_type.contains(SampleType::TIME) {
            self.word(record, BEFORE_TIME, AFTER_TIME)
        } else {
            None
        }
    }

    /// The process and thread that a sample, or the trailer of another record, tells, without decoding it.
    #[inline]
    pub fn tid_of(&self, record: &RawRecord<'_>) -> Option<Tid> {
        if !self.sample_type.contains(SampleType::TID) {
            return None;
        }
        let &[p0, p1, p2, p3, t0, t1, t2, t3] = self.eight(record, BEFORE_TID, AFTER_TID)?;
        Some(Tid { pid: self.order.u32([p0, p1, p2, p3]), tid: self.order.u32([t0, t1, t2, t3]) })
    }

    /// The period of a sample, without decoding it.
    #[inline]
    pub fn period_of(&self, record: &RawRecord<'_>) -> Option<u64> {
        let is_told =
            record.header.kind == RecordType::SAMPLE && self.sample_type.contains(SampleType::PERIOD);
        if is_told { self.word(record, BEFORE_PERIOD, SampleType::empty()) } else { None }
    }

    #[inline]
    fn word(&self, record: &RawRecord<'_>, before: SampleType, after: SampleType) -> Option<u64> {
        self.eight(record, before, after).map(|word| self.order.u64(*word))
    }

    /// The 8 bytes behind the fields `before` in a sample, or with the fields `after` between them and the end of
    /// another record.
    #[inline]
    fn eight<'a>(
        &self,
        record: &RawRecord<'a>,
        before: SampleType,
        after: SampleType,
    ) -> Option<&'a [u8; 8]> {
        let body = record.body;
        let start = match record.header.kind {
            RecordType::SAMPLE => self.bytes_of(before),
            kind if kind.is_kernel() && self.sample_id_all => {
                body.len().checked_sub(self.bytes_of(after) + 8)?
            }
            _ => return None,
        };
        body.get(start..)?.first_chunk()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Header, Misc};

    fn raw(kind: RecordType, body: &[u8]) -> RawRecord<'_> {
        RawRecord { header: Header { kind, misc: Misc::empty(), size: 0 }, body }
    }

    const FORMAT: RecordFormat = RecordFormat {
        order: ByteOrder::Little,
        sample_id_all: true,
        sample_type: SampleType::all(),
        read_format: ReadFormat::empty(),
        branch_sample_type: BranchSampleType::empty(),
        sample_regs_user: 0,
        sample_regs_intr: 0,
    };

    #[test]
    fn the_id_is_first_in_samples_and_last_in_others() {
        let bytes: [u8; 56] = core::array::from_fn(|i| if i % 8 == 0 { i as u8 / 8 } else { 0 });
        // identifier, ip, tid, time, addr, id
        assert_eq!(FORMAT.id_of(&raw(RecordType::SAMPLE, &bytes)), Some(0));
        assert_eq!(FORMAT.time_of(&raw(RecordType::SAMPLE, &bytes)), Some(3));
        // tid, time, id, stream id, cpu, identifier
        assert_eq!(FORMAT.trailer_len(), 48);
        assert_eq!(FORMAT.id_of(&raw(RecordType::LOST, &bytes)), Some(6));
        assert_eq!(FORMAT.time_of(&raw(RecordType::LOST, &bytes)), Some(2));
        let without = RecordFormat { sample_type: FORMAT.sample_type - SampleType::IDENTIFIER, ..FORMAT };
        assert_eq!(without.id_of(&raw(RecordType::SAMPLE, &bytes)), Some(4));
        assert_eq!(without.id_of(&raw(RecordType::COMM, &bytes)), Some(4));
    }

    #[test]
    fn nothing_is_found_where_nothing_is() {
        let bytes = [0; 7];
        assert_eq!(FORMAT.id_of(&raw(RecordType::SAMPLE, &bytes)), None);
        assert_eq!(FORMAT.time_of(&raw(RecordType::COMM, &bytes)), None);
        let bytes = [0; 64];
        assert_eq!(FORMAT.id_of(&raw(RecordType(70), &bytes)), None);
        let without = RecordFormat { sample_id_all: false, ..FORMAT };
        assert_eq!(without.time_of(&raw(RecordType::COMM, &bytes)), None);
        assert_eq!(without.trailer_len(), 0);
        assert_eq!(RecordFormat::default().id_of(&raw(RecordType::SAMPLE, &bytes)), None);
    }
}
