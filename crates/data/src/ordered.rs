//! Records in the order of their times.
//!
//! perf empties its ring buffers in turns, so records of a file are in order only within a ring. It marks
//! the end of each turn: what comes after the end of turn n + 1 is younger than all that came before the end
//! of turn n. So at each mark, everything up to the youngest time of the turn before it can be delivered in
//! order, and no more than about two turns have to be kept.

use crate::error::{Error, Location};
use crate::part::Found;
use crate::reader::PerfData;
use crate::record::Entry;
use crate::tool::kind;
use perfuse_abi::record::Header;
use std::collections::VecDeque;

/// Bytes of records that are kept together.
const CHUNK: usize = 256 << 10;

/// The records of a recording by time.
///
/// Records of equal times keep the order of the file. What has no time, or the time zero (records that
/// tools make, and what they synthesize), is delivered as soon as it is read, before younger records that
/// are still kept.
///
/// Memory is bounded: when the records that are kept exceed a limit, the older half is delivered. That
/// happens in recordings that do not mark turns, those of perf before 2.6.35 and directories; should a
/// record then come too late, it is delivered late, and [`late`](Self::late) counts it.
pub struct Ordered<'i> {
    data: PerfData<'i>,
    limit: usize,
    chunks: Chunks,
    /// Kept: up to `delivered_count` what was delivered, up to `due` what is to be, oldest first; then in the
    /// order of the file but for a sorted start.
    kept: Vec<Kept>,
    kept_bytes: usize,
    delivered_count: usize,
    due: usize,
    delivered: Option<Kept>,
    lanes: Vec<Lane>,
    youngest: u64,
    /// The youngest time before the last mark.
    safe: u64,
    last_time: u64,
    late: u64,
    flush: bool,
    errors: VecDeque<Error>,
}

/// A record that is kept: its time, and where its bytes are.
#[derive(Clone, Copy, Debug)]
struct Kept {
    time: u64,
    chunk: u64,
    start: u32,
    header: Header,
    location: Location,
}

impl Kept {
    /// Bytes of the record: one of the kernel, whose header tells.
    fn len(&self) -> usize {
        self.header.size.into()
    }
}

/// How far one file of a directory was read.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    time: u64,
    is_done: bool,
}

/// What reading on led to.
enum Step {
    Kept,
    Now,
    End,
}

impl<'i> Ordered<'i> {
    /// Keeps at most about 256 MiB of records.
    pub fn new(data: PerfData<'i>) -> Self {
        Self::with_limit(data, 256 << 20)
    }

    /// Keeps at most about `limit` bytes of records.
    pub fn with_limit(data: PerfData<'i>, limit: usize) -> Self {
        Ordered {
            limit,
            chunks: Chunks::default(),
            kept: Vec::new(),
            kept_bytes: 0,
            delivered_count: 0,
            due: 0,
            delivered: None,
            lanes: vec![Lane::default(); data.parts()],
            youngest: 0,
            safe: 0,
            last_time: 0,
            late: 0,
            flush: false,
            errors: VecDeque::new(),
            data,
        }
    }

    /// The recording.
    pub fn data(&self) -> &PerfData<'i> {
        &self.data
    }

    /// The recording, to read its sections or the payload of a record that was just delivered.
    pub fn data_mut(&mut self) -> &mut PerfData<'i> {
        &mut self.data
    }

    /// How many records were delivered after younger ones.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The next record; `None` at the end. An error comes after all that was read before it.
    #[expect(clippy::should_implement_trait, reason = "each record borrows the reader")]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, Error> {
        if let Some(delivered) = self.delivered.take() {
            self.chunks.release(delivered.chunk);
        }
        loop {
            if self.delivered_count < self.due {
                let kept = self.kept[self.delivered_count];
                self.delivered_count += 1;
                return Ok(Some(self.deliver(kept)));
            }
            if std::mem::take(&mut self.flush) {
                self.end_turn();
                continue;
            }
            match self.step() {
                Step::Kept => {}
                Step::Now => return Ok(self.data.current()),
                Step::End if self.delivered_count < self.kept.len() => self.make_due(u64::MAX),
                Step::End => return self.errors.pop_front().map_or(Ok(None), Err),
            }
        }
    }

    fn deliver(&mut self, kept: Kept) -> Entry<'_> {
        self.kept_bytes -= cost(kept.len());
        self.late += u64::from(kept.time < self.last_time);
        self.last_time = self.last_time.max(kept.time);
        self.delivered = Some(kept);
        let bytes = self.chunks.get(kept.chunk, kept.start as usize, kept.len());
        let found = Found { header: kept.header, location: kept.location };
        Entry::new(found, bytes, self.data.events(), 0)
    }

    /// Reads a record, from the file of a directory that is behind the others.
    fn step(&mut self) -> Step {
        let lanes = self.lanes.iter().enumerate().filter(|(_, lane)| !lane.is_done);
        let Some((part, _)) = lanes.min_by_key(|(_, lane)| lane.time) else { return Step::End };
        let has_turns = self.lanes.len() == 1;
        let entry = match self.data.next_of(part) {
            Ok(Some(entry)) => entry,
            Ok(None) => {
                self.lanes[part].is_done = true;
                return Step::Kept;
            }
            Err(error) => {
                self.lanes[part].is_done = true;
                self.errors.push_back(error);
                return Step::Kept;
            }
        };
        let time = match entry.time() {
            Some(time) if time != 0 && time != u64::MAX => time,
            _ => {
                self.flush = has_turns && entry.kind() == kind::FINISHED_ROUND;
                return Step::Now;
            }
        };
        let (chunk, start) = self.chunks.push(entry.bytes());
        let kept = Kept { time, chunk, start, header: entry.raw.header, location: entry.location };
        self.kept.push(kept);
        self.kept_bytes += cost(kept.len());
        self.lanes[part].time = time;
        self.youngest = self.youngest.max(time);
        if self.kept_bytes > self.limit {
            self.sort();
            let middle = self.kept[self.kept.len() / 2].time;
            self.make_due(middle);
        }
        Step::Kept
    }

    fn end_turn(&mut self) {
        self.make_due(self.safe);
        self.safe = self.youngest;
    }

    /// Makes everything due that is not younger than `time`.
    fn make_due(&mut self, time: u64) {
        self.sort();
        self.due = self.kept.partition_point(|kept| kept.time <= time);
    }

    /// Forgets what was delivered and sorts the rest, of which most is sorted already: the sort is stable and
    /// makes use of that.
    fn sort(&mut self) {
        self.kept.drain(..self.delivered_count);
        (self.delivered_count, self.due) = (0, 0);
        self.kept.sort_by_key(|kept| kept.time);
    }
}

/// What keeping a record costs, in bytes.
fn cost(len: usize) -> usize {
    len + size_of::<Kept>()
}

/// Bytes of records, freed together with their neighbours.
#[derive(Debug, Default)]
struct Chunks {
    chunks: VecDeque<Chunk>,
    /// Number of the first chunk.
    first: u64,
    spare: Vec<Vec<u8>>,
}

#[derive(Debug, Default)]
struct Chunk {
    bytes: Vec<u8>,
    records: usize,
}

impl Chunks {
    /// Keeps bytes, and says in which chunk and where.
    fn push(&mut self, bytes: &[u8]) -> (u64, u32) {
        let has_room = |chunk: &Chunk| chunk.bytes.len() + bytes.len() <= CHUNK;
        if !self.chunks.back().is_some_and(has_room) {
            let mut fresh = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(CHUNK));
            fresh.clear();
            self.chunks.push_back(Chunk { bytes: fresh, records: 0 });
            self.free();
        }
        let number = self.first + self.chunks.len() as u64 - 1;
        let mut start = 0;
        if let Some(last) = self.chunks.back_mut() {
            start = last.bytes.len() as u32;
            last.bytes.extend_from_slice(bytes);
            last.records += 1;
        }
        (number, start)
    }

    fn get(&self, chunk: u64, start: usize, len: usize) -> &[u8] {
        &self.chunks[(chunk - self.first) as usize].bytes[start..start + len]
    }

    fn release(&mut self, chunk: u64) {
        self.chunks[(chunk - self.first) as usize].records -= 1;
        self.free();
    }

    /// Frees the chunks at the start that nothing is left of; the last one is still being filled.
    fn free(&mut self) {
        while self.chunks.len() > 1 && self.chunks.front().is_some_and(|chunk| chunk.records == 0) {
            let chunk = self.chunks.pop_front().unwrap_or_default();
            self.first += 1;
            if self.spare.len() < 4 {
                self.spare.push(chunk.bytes);
            }
        }
    }
}
