//! Records of all rings of a set in one order, that of time.

use super::SamplerSet;
use crate::ring::Batch;
use crate::sampler::SamplerRecord;
use perfuse_abi::ByteOrder;
use perfuse_abi::record::{Header, RawRecord, RecordFormat};

/// The layouts of a set's records, and which event they are of.
#[derive(Debug, Default)]
pub(super) struct Formats {
    /// By event; of one that is open nowhere that of another.
    formats: Vec<RecordFormat>,
    /// Ids with their events, sorted.
    ids: Vec<(u64, usize)>,
    /// By ring: the event of its owner, whose records without an id are.
    owners: Vec<usize>,
    /// An event that is open: the place of the id is the same in all.
    any: usize,
}

/// Records that were read from rings before their turn.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The latest time that was in a ring when it was looked at last: what is older is there.
    seen: u64,
    /// Records that stood in a ring before an older one.
    early: Vec<Early>,
}

impl Order {
    pub(super) fn has_early(&self) -> bool {
        !self.early.is_empty()
    }
}

/// A record that was taken out of its ring and has to wait.
#[derive(Debug)]
struct Early {
    time: u64,
    event: usize,
    header: Header,
    body: Vec<u8>,
}

impl Formats {
    pub(super) fn of(set: &SamplerSet) -> Self {
        let any = set.sources.first().map_or(0, |source| source.event);
        let attr = |event| set.attr(event).or(set.attr(any));
        let format = |event| attr(event).map(|attr| RecordFormat::of(attr, ByteOrder::NATIVE));
        let mut ids: Vec<_> = set.sources.iter().map(|source| (source.id, source.event)).collect();
        ids.sort_unstable();
        let owners = set.rings.iter().map(|ring| set.sources[ring.owner].event).collect();
        Formats { formats: (0..set.events.len()).filter_map(format).collect(), ids, owners, any }
    }

    fn event_of(&self, raw: &RawRecord<'_>, ring: usize) -> usize {
        let id = self.formats[self.any].id_of(raw);
        let known = id.and_then(|id| self.ids.binary_search_by_key(&id, |(id, _)| *id).ok());
        known.map_or(self.owners[ring], |index| self.ids[index].1)
    }

    fn record<'b>(&'b self, raw: RawRecord<'b>, event: usize) -> SamplerRecord<'b> {
        SamplerRecord { raw, source: event, format: &self.formats[event] }
    }
}

/// The records that all rings of a [`SamplerSet`] held at one moment. Dropping it gives the room of those that were
/// taken back.
#[derive(Debug)]
#[must_use = "records are taken by iterating"]
pub struct SetBatch<'s> {
    batches: Vec<(usize, Batch<'s>)>,
    formats: &'s Formats,
    order: &'s mut Order,
    /// The latest time that may be told.
    until: u64,
    /// Those that were early the last time and are due now.
    due: Vec<Early>,
}

impl<'s> SetBatch<'s> {
    pub(super) fn new(set: &'s mut SamplerSet, until: Option<u64>) -> Self {
        let until = until.unwrap_or(set.order.seen);
        let batches = set.rings.iter_mut().map(|ring| ring.ring.batch()).enumerate().collect();
        SetBatch { batches, formats: &set.formats, order: &mut set.order, until, due: Vec::new() }
    }

    /// The records by time, oldest first; those of one ring that tell the same time, or none, as they stand there. Each can
    /// be taken once, and making the iterator takes them all.
    pub fn iter(&mut self) -> impl Iterator<Item = SamplerRecord<'_>> {
        let SetBatch { batches, formats, order, until, due } = self;
        let formats = *formats;
        let early = std::mem::take(&mut order.early);
        (*due, order.early) = early.into_iter().partition(|early| early.time <= *until);
        let mut told = Vec::new();
        told.extend(due.iter().map(|early| {
            let raw = RawRecord { header: early.header, body: &early.body };
            (early.time, formats.record(raw, early.event))
        }));
        for (ring, batch) in batches.iter() {
            // Up to the last one that is due; those before it that must wait are kept aside.
            let (mut mark, mut end) = (batch.mark(), told.len());
            while let Some(raw) = batch.next() {
                let record = formats.record(raw, formats.event_of(&raw, *ring));
                let time = record.time_ns().unwrap_or(0);
                order.seen = order.seen.max(time);
                told.push((time, record));
                if time <= *until {
                    (mark, end) = (batch.mark(), told.len());
                }
            }
            if end < told.len() {
                told.truncate(end);
                batch.back_to(mark);
            }
        }
        told.retain(|(time, record)| {
            let is_due = *time <= *until;
            if !is_due {
                let (header, body) = (record.raw.header, record.raw.body.to_vec());
                order.early.push(Early { time: *time, event: record.source, header, body });
            }
            is_due
        });
        told.sort_by_key(|(time, _)| *time);
        told.into_iter().map(|(_, record)| record)
    }
}
