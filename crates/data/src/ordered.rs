//! Records in the order of their times.
//!
//! perf empties its ring buffers in turns, so records of a file are in order only within a ring. It marks
//! the end of each turn: what comes after the end of turn n + 1 is younger than all that came before the end
//! of turn n. So at each mark, everything up to the youngest time of the turn before it can be delivered in
//! order, and no more than about two turns have to be kept.
//!
//! Of a record, its time and its place are kept; its bytes stay in the buffer that they were read
//! into. The records of a ring follow each other in a turn, so that sorting is merging a few sorted runs. Where turns
//! are long, or not marked at all, older buffers of a file are given up, and their records read again when they are due.

use crate::error::{Error, Location};
use crate::input::BUFFER;
use crate::part::{Found, Part};
use crate::reader::PerfData;
use crate::record::FileRecord;
use crate::tool::kind;
use perfuse_abi::ByteOrder;
use perfuse_abi::record::{Header, RawRecord};
use perfuse_abi::wire::{Layout, Reader};
use std::collections::VecDeque;
use std::sync::Arc;

/// The records of a recording by time.
///
/// Records of equal times keep the order of the file. A record without a time, or with time zero
/// (tools make such, and synthesize such), is delivered as soon as it is read, before younger records that
/// are still kept.
///
/// Memory is bounded: when what is kept of records exceeds a limit, the older half is delivered. That
/// happens in recordings that do not mark turns, those of perf before 2.6.35 and directories, when they have millions of
/// records; should a record then come too late, it is delivered late, and [`late`](Self::late) counts it.
#[must_use = "nothing is read before `next`"]
pub struct Ordered<'i> {
    data: PerfData<'i>,
    kept: Kept,
    /// Whether the recording marks its turns.
    has_turns: bool,
    lanes: Vec<Lane>,
    youngest: u64,
    /// The youngest time before the last mark.
    safe: u64,
    last_time: u64,
    late: u64,
    flush: bool,
    /// Nothing is kept.
    is_as_read: bool,
    errors: VecDeque<Error>,
}

/// How far one file of a directory was read.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    time: u64,
    is_done: bool,
    /// The block that its last record is in, and the number of the buffer that this is.
    block: u32,
    buffer: Option<u64>,
}

/// The result of reading on.
enum Step {
    Kept,
    Now,
    End,
}

impl<'i> Ordered<'i> {
    /// Keeps at most about 96 MiB: of a file the places of six million records, of a pipe or of what is compressed fewer
    /// records with their bytes.
    pub fn new(data: PerfData<'i>) -> Self {
        Self::with_limit(data, 96 << 20)
    }

    /// Keeps at most about `limit` bytes of records and of places of records.
    pub fn with_limit(mut data: PerfData<'i>, limit: usize) -> Self {
        let lanes = vec![Lane::default(); data.parts_mut().0.len()];
        Ordered {
            kept: Kept { limit, ..Kept::default() },
            has_turns: lanes.len() == 1,
            lanes,
            youngest: 0,
            safe: 0,
            last_time: 0,
            late: 0,
            flush: false,
            is_as_read: false,
            errors: VecDeque::new(),
            data,
        }
    }

    /// Delivers records as they lie in the recording, whatever their times, one file of a directory after the
    /// other.
    pub fn as_read(data: PerfData<'i>) -> Self {
        Ordered { is_as_read: true, ..Self::new(data) }
    }

    /// The recording.
    pub fn data(&self) -> &PerfData<'i> {
        &self.data
    }

    /// The recording, to read its sections or the payload of a record that was just delivered.
    pub fn data_mut(&mut self) -> &mut PerfData<'i> {
        &mut self.data
    }

    /// The recording, where it was read to.
    pub fn into_data(self) -> PerfData<'i> {
        self.data
    }

    /// How many records were delivered after younger ones.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The next record; `None` at the end. An error comes after all that was read before it.
    #[inline(always)]
    #[expect(clippy::should_implement_trait, reason = "each record borrows the reader")]
    pub fn next(&mut self) -> Result<Option<FileRecord<'_>>, Error> {
        if self.kept.has_due() { Ok(self.deliver()) } else { self.next_slowly() }
    }

    #[inline(never)]
    fn next_slowly(&mut self) -> Result<Option<FileRecord<'_>>, Error> {
        loop {
            if self.kept.has_due() {
                return Ok(self.deliver());
            }
            if std::mem::take(&mut self.flush) {
                self.make_due(self.safe);
                self.safe = self.youngest;
                continue;
            }
            match self.step() {
                Step::Kept => {}
                Step::Now => return Ok(self.data.current()),
                Step::End if !self.kept.keys.is_empty() => self.make_due(u64::MAX),
                Step::End => {
                    self.errors.extend(self.kept.windows.error.take());
                    return self.errors.pop_front().map_or(Ok(None), Err);
                }
            }
        }
    }

    #[inline(always)]
    fn deliver(&mut self) -> Option<FileRecord<'_>> {
        let (parts, events) = self.data.parts_mut();
        let (time, found, bytes) = self.kept.pop(events.order(), parts)?;
        self.late += u64::from(time < self.last_time);
        self.last_time = self.last_time.max(time);
        Some(FileRecord::new(found, bytes, events, 0))
    }

    /// Reads on in the file of a directory that is behind the others, until it is no longer, or something
    /// else is to be done.
    fn step(&mut self) -> Step {
        let lanes = self.lanes.iter().enumerate().filter(|(_, lane)| !lane.is_done);
        let Some((part, _)) = lanes.clone().min_by_key(|(_, lane)| lane.time) else { return Step::End };
        let others = lanes.filter(|(other, _)| *other != part);
        let until = others.map(|(_, lane)| lane.time).min().unwrap_or(u64::MAX);
        let lane = &mut self.lanes[part];
        let (parts, events) = self.data.parts_mut();
        let file = &mut parts[part];
        while let Some(found) = file.next_in_buffer().or_else(|| file.next_in_unpacked()) {
            let body = file.bytes().get(Header::SIZE..).unwrap_or(&[]);
            let raw = RawRecord { header: found.header, body };
            let time = events.format_of(&raw).and_then(|format| format.time_of(&raw));
            let time = time.filter(|_| !self.is_as_read);
            if !time.is_some_and(|time| self.kept.keep(file, lane, found, time)) {
                self.data.set_current(part, found);
                return Step::Now;
            }
            self.youngest = self.youngest.max(lane.time);
            if lane.time > until || self.kept.exceeds() {
                return self.kept();
            }
        }
        self.step_slowly(part)
    }

    /// Reads one record.
    fn step_slowly(&mut self, part: usize) -> Step {
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
        let found = Found { header: entry.raw.header, location: entry.location };
        let Some(time) = entry.time().filter(|_| !self.is_as_read) else {
            self.flush = self.has_turns && entry.kind() == kind::FINISHED_ROUND;
            return Step::Now;
        };
        let lane = &mut self.lanes[part];
        if !self.kept.keep(&self.data.parts_mut().0[part], lane, found, time) {
            return Step::Now;
        }
        self.youngest = self.youngest.max(lane.time);
        self.kept()
    }

    /// After a record was kept: delivers the older half if that was one too many.
    fn kept(&mut self) -> Step {
        if self.kept.exceeds() {
            self.kept.sort();
            let middle = self.kept.keys.get(self.kept.keys.len() / 2).map_or(u64::MAX, |key| key.time);
            self.make_due(middle);
        }
        Step::Kept
    }

    /// Makes everything due that is not younger than `time`.
    fn make_due(&mut self, time: u64) {
        self.kept.sort();
        self.kept.due = self.kept.keys.partition_point(|key| key.time <= time);
        let (parts, _) = self.data.parts_mut();
        self.kept.free(&self.lanes, |part, bytes| parts[part as usize].recycle(bytes));
    }
}

/// A record that is kept: its time, and where its bytes are.
#[derive(Clone, Copy, Debug)]
struct Key {
    time: u64,
    block: u32,
    start: u32,
}

/// A buffer with records that are kept.
#[derive(Debug)]
struct Block {
    bytes: Arc<[u8]>,
    part: u32,
    /// Its records can be read again.
    is_of_file: bool,
    /// Records that were not delivered yet.
    left: usize,
    /// Their bytes.
    left_bytes: usize,
    /// Where in the file what starts here is: for records that were read as they are once, for others at the
    /// first of each compressed record.
    locations: Vec<(u32, Location)>,
}

impl Block {
    /// Notes where a record is. Those of a block come in its order.
    #[inline]
    fn note(&mut self, start: u32, location: Location) {
        match self.locations.last() {
            Some((_, last)) if last.unpacked.is_none() || last.offset == location.offset => {}
            _ => self.locations.push((start, location)),
        }
    }

    #[inline(always)]
    fn location(&self, start: u32) -> Location {
        let after = match self.locations.len() {
            1 => 1,
            _ => self.locations.partition_point(|(at, _)| *at <= start),
        };
        let Some(&(at, Location { part, offset, unpacked })) = self.locations.get(after.wrapping_sub(1))
        else {
            return Location::default();
        };
        let beyond = u64::from(start.saturating_sub(at));
        match unpacked {
            None => Location { part, offset: offset + beyond, unpacked },
            Some(unpacked) => Location { part, offset, unpacked: Some(unpacked + beyond) },
        }
    }
}

/// The records that are kept, and the buffers that they are in.
#[derive(Debug, Default)]
struct Kept {
    /// Up to `delivered` what was delivered, up to `due` what is to be, oldest first; then in the order of
    /// the file but for a sorted start.
    keys: Vec<Key>,
    delivered: usize,
    due: usize,
    blocks: VecDeque<Block>,
    /// The bytes that are kept are no more than this.
    limit: usize,
    /// Number of the first block.
    first: u32,
    /// How many of the blocks, the oldest, were looked at for giving them up.
    given_up: usize,
    windows: Windows,
    /// Bytes of the keys, and of the records in blocks that were not given up.
    bytes: usize,
    /// Bytes of the blocks.
    held: usize,
}

impl Kept {
    /// Keeps the record that was found last in a file, unless its time says nothing.
    #[inline(always)]
    fn keep(&mut self, file: &Part<'_>, lane: &mut Lane, found: Found, time: u64) -> bool {
        if time == 0 || time == u64::MAX {
            return false;
        }
        let (buffer, start) = file.place();
        let Ok(start) = u32::try_from(start) else { return false };
        if lane.buffer != Some(buffer) {
            let is_of_file = file.is_file() && found.location.unpacked.is_none();
            let part = found.location.part;
            (lane.buffer, lane.block) = (Some(buffer), self.add(file.share(), part, is_of_file));
        }
        let block = &mut self.blocks[lane.block.wrapping_sub(self.first) as usize];
        block.left += 1;
        if !block.bytes.is_empty() {
            block.left_bytes += usize::from(found.header.size);
            self.bytes += usize::from(found.header.size);
        }
        block.note(start, found.location);
        self.keys.push(Key { time, block: lane.block, start });
        self.bytes += size_of::<Key>();
        lane.time = time;
        true
    }

    #[cold]
    fn add(&mut self, bytes: Arc<[u8]>, part: u32, is_of_file: bool) -> u32 {
        self.held += bytes.len();
        let locations = Vec::new();
        self.blocks.push_back(Block { bytes, part, is_of_file, left: 0, left_bytes: 0, locations });
        while self.held > self.most_held() && self.given_up + 1 < self.blocks.len() {
            let block = &mut self.blocks[self.given_up];
            self.given_up += 1;
            if block.is_of_file && !block.bytes.is_empty() {
                self.held -= block.bytes.len();
                self.bytes -= std::mem::take(&mut block.left_bytes);
                block.bytes = Arc::default();
            }
        }
        self.first.wrapping_add(self.blocks.len() as u32 - 1)
    }

    /// Whether more is kept than should be. Blocks may be kept for the sake of a few late records.
    #[inline]
    fn exceeds(&self) -> bool {
        self.bytes > self.limit || self.held / 2 > self.limit.max(4 * BUFFER)
    }

    /// Blocks of files with more bytes together are given up: a third of what may be kept, the rest is for keys.
    fn most_held(&self) -> usize {
        (self.limit / 3).max(4 * BUFFER)
    }

    #[inline]
    fn has_due(&self) -> bool {
        self.delivered < self.due
    }

    /// The next record that is due: where it is, its header, and its bytes.
    #[inline(always)]
    fn pop(&mut self, order: ByteOrder, parts: &mut [Part<'_>]) -> Option<(u64, Found, &[u8])> {
        let Key { time, block, start } = *self.keys[..self.due].get(self.delivered)?;
        self.delivered += 1;
        let number = block;
        let block = &mut self.blocks[block.wrapping_sub(self.first) as usize];
        block.left -= 1;
        let location = block.location(start);
        let bytes = match block.bytes.is_empty() {
            false => block.bytes.get(start as usize..).unwrap_or(&[]),
            true => self.windows.read(number, location, order, parts),
        };
        let mut header = Header::default();
        let _whole = header.layout(&mut Reader::new(bytes, order));
        self.bytes -= size_of::<Key>();
        if !block.bytes.is_empty() {
            block.left_bytes -= usize::from(header.size);
            self.bytes -= usize::from(header.size);
        }
        Some((time, Found { header, location }, bytes.get(..header.size.into()).unwrap_or(&[])))
    }

    /// Forgets what was delivered and sorts the rest, which is made of a few sorted runs: the sort is stable
    /// and makes use of that.
    fn sort(&mut self) {
        self.keys.drain(..self.delivered);
        (self.delivered, self.due) = (0, 0);
        self.keys.sort_by_key(|key| key.time);
    }

    /// Hands out the buffers that nothing is left of, but for those that are still being read.
    fn free(&mut self, lanes: &[Lane], mut recycle: impl FnMut(u32, Arc<[u8]>)) {
        let is_read = |number| lanes.iter().any(|lane| lane.buffer.is_some() && lane.block == number);
        for (number, block) in (self.first..).zip(&mut self.blocks) {
            if block.left == 0 && !block.bytes.is_empty() && !is_read(number) {
                self.held -= block.bytes.len();
                recycle(block.part, std::mem::take(&mut block.bytes));
            }
        }
        let is_done = |block: &Block| block.left == 0 && block.bytes.is_empty();
        while self.blocks.front().is_some_and(is_done) && !is_read(self.first) {
            self.blocks.pop_front();
            self.first = self.first.wrapping_add(1);
            self.given_up = self.given_up.saturating_sub(1);
        }
    }
}

/// Pieces of files around records of blocks that were given up. The records of a block that are due next to each
/// other mostly lie next to each other, and those of few blocks are due at a time.
#[derive(Debug, Default)]
struct Windows {
    list: Vec<Window>,
    error: Option<Error>,
}

#[derive(Clone, Debug, Default)]
struct Window {
    part: u32,
    offset: u64,
    bytes: Vec<u8>,
}

impl Windows {
    const COUNT: usize = 256;
    const SIZE: usize = 16 << 10;

    /// The bytes from a record of a block on, at least all of its own unless the file has become shorter.
    #[cold]
    fn read(&mut self, block: u32, at: Location, order: ByteOrder, parts: &mut [Part<'_>]) -> &[u8] {
        self.list.resize(Self::COUNT, Window::default());
        let window = &mut self.list[block as usize % Self::COUNT];
        let part = &mut parts[at.part as usize];
        for size in [0, Self::SIZE, u16::MAX.into()] {
            if size > 0 {
                let bytes = part.read_again(at.offset, size);
                let bytes = bytes.unwrap_or_else(|error| {
                    self.error = Some(error);
                    Vec::new()
                });
                *window = Window { part: at.part, offset: at.offset, bytes };
            }
            let skipped = at.offset.checked_sub(window.offset).filter(|_| window.part == at.part);
            let rest = skipped.and_then(|skipped| window.bytes.get(usize::try_from(skipped).ok()?..));
            let mut header = Header::default();
            let is_whole = rest.is_some_and(|rest| {
                header.layout(&mut Reader::new(rest, order)).is_ok() && rest.len() >= header.size.into()
            });
            if is_whole {
                break;
            }
        }
        let skipped = at.offset.wrapping_sub(window.offset) as usize;
        window.bytes.get(skipped..).unwrap_or(&[])
    }
}
