//! The ring buffer through which the kernel hands out records: read in place, without copies.
//!
//! The kernel writes between `data_tail` and `data_head` what nobody has acknowledged, and lets user
//! space move the tail (rules G5 to G9). A [`Batch`] is what stands there at one moment; its records
//! borrow the shared memory, and dropping it moves the tail past those that were taken.
#![allow(unsafe_code)] // The borrows of shared memory, see `Ring::batch`.

use crate::error::Result;
use crate::handle::Handle;
use crate::kernel::Request;
use perfuse_abi::ByteOrder;
use perfuse_abi::page::offset;
use perfuse_abi::record::{Header, RawRecord};
use perfuse_sys::{Mapping, Protection, page_size};
use std::cell::{Cell, OnceCell};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A mapped ring. Belongs to a [`Sampler`](crate::Sampler).
#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) map: Mapping,
    /// Start of the data in the mapping.
    start: usize,
    /// Bytes of data, a power of two.
    size: usize,
    /// Where the user is; only we move it. In an overwritten ring: the head of the last snapshot.
    tail: u64,
    protection: Protection,
}

impl Ring {
    /// Maps a ring of `pages` data pages (a power of two) for the event. With [`Protection::Read`] the
    /// kernel overwrites the oldest records (rule F10).
    pub(crate) fn map(event: &Handle, pages: usize, protection: Protection) -> Result<Self> {
        let map = event.mmap((pages + 1) * page_size(), protection, 0)?;
        let told = |at| usize::try_from(map.load_u64(at, Relaxed)).unwrap_or(0);
        let (mut start, mut size) = (told(offset::DATA_OFFSET), told(offset::DATA_SIZE));
        let fits = start.checked_add(size).is_some_and(|end| end <= map.len());
        let is_whole = start % page_size() == 0 && size >= page_size() && size.is_power_of_two();
        // Kernels before 4.1 do not tell; the data then follows the control page.
        if !fits || !is_whole {
            (start, size) = (page_size(), pages * page_size());
        }
        let tail = map.load_u64(offset::DATA_TAIL, Relaxed);
        Ok(Ring { map, start, size, tail, protection })
    }

    /// Bytes of data.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Whether the tail can be moved, so that the kernel does not overwrite.
    pub(crate) fn is_writable(&self) -> bool {
        self.protection == Protection::ReadWrite
    }

    /// Whether there is something to read.
    pub(crate) fn has_records(&self) -> bool {
        self.map.load_u64(offset::DATA_HEAD, Acquire) != self.tail
    }

    /// Everything that is there now; nothing for a ring that is overwritten, which has snapshots.
    pub(crate) fn batch(&mut self) -> Batch<'_> {
        let writable = self.is_writable();
        // Acquire: the records are written before the head that makes them visible (rule G9).
        let head = if writable { self.map.load_u64(offset::DATA_HEAD, Acquire) } else { self.tail };
        let mut unread = usize::try_from(head.wrapping_sub(self.tail)).unwrap_or(usize::MAX);
        if unread > self.size {
            // A head that no kernel publishes; nothing between here and there can be trusted.
            self.tail = head;
            unread = 0;
        }
        let from = self.tail as usize & (self.size - 1);
        let until_end = unread.min(self.size - from);
        // SAFETY: both ranges lie between the tail and the head, where the kernel does not write until
        // the tail is moved. Only `Batch` moves it, on drop, and its records cannot outlive it.
        let first = unsafe { self.map.bytes(self.start + from, until_end) };
        // SAFETY: as above.
        let second = unsafe { self.map.bytes(self.start, unread - until_end) };
        Batch {
            first: Cell::new(first),
            second: Cell::new(second),
            joined: OnceCell::new(),
            corrupt: Cell::new(0),
            head,
            map: writable.then_some(&self.map),
            tail: &mut self.tail,
        }
    }

    /// Stops the ring of `owner`, copies what it holds, and lets it go on.
    pub(crate) fn paused_snapshot(&mut self, owner: &Handle) -> Result<Snapshot> {
        owner.ioctl(Request::PauseOutput(true))?;
        let snapshot = self.snapshot();
        owner.ioctl(Request::PauseOutput(false))?;
        Ok(snapshot)
    }

    /// A copy of what an overwritten ring holds, newest record first. The caller has paused the ring; a
    /// record that was being written at that moment may have destroyed the oldest ones, so the copy ends
    /// where it stops making sense.
    fn snapshot(&mut self) -> Snapshot {
        let head = self.map.load_u64(offset::DATA_HEAD, Acquire);
        let fresh = std::mem::replace(&mut self.tail, head).wrapping_sub(head);
        if head % 8 != 0 {
            // A head that no kernel publishes.
            return Snapshot { bytes: Vec::new(), fresh: 0 };
        }
        // Written backward from 0: what was ever written is -head.
        let written = usize::try_from(head.wrapping_neg()).unwrap_or(usize::MAX).min(self.size);
        let from = head as usize & (self.size - 1);
        let until_end = written.min(self.size - from);
        let mut words = vec![0; written / 8];
        let (first, second) = words.split_at_mut(until_end / 8);
        self.map.copy_words(self.start + from, first);
        self.map.copy_words(self.start, second);
        let bytes: Vec<_> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        Snapshot { fresh: usize::try_from(fresh).unwrap_or(usize::MAX).min(bytes.len()), bytes }
    }
}

/// The records that a ring held at one moment. Its [records](Self::iter) borrow the ring itself; dropping the batch
/// gives the room of those that were taken back to the kernel.
#[derive(Debug)]
pub struct Batch<'r> {
    /// Up to the end of the ring; shrinks as records are taken.
    first: Cell<&'r [u8]>,
    /// From the start of the ring.
    second: Cell<&'r [u8]>,
    /// The one record that lies across the end, put together.
    joined: OnceCell<Vec<u8>>,
    corrupt: Cell<usize>,
    head: u64,
    /// To give room back in; none for a ring that is overwritten.
    map: Option<&'r Mapping>,
    tail: &'r mut u64,
}

impl<'r> Batch<'r> {
    /// Where it is, to come [back to](Self::back_to).
    pub(crate) fn mark(&self) -> (&'r [u8], &'r [u8]) {
        (self.first.get(), self.second.get())
    }

    /// Makes records that were taken since then be there again.
    pub(crate) fn back_to(&self, (first, second): (&'r [u8], &'r [u8])) {
        self.first.set(first);
        self.second.set(second);
    }
}

impl Batch<'_> {
    /// The records, oldest first. Each can be taken once: another iterator goes on after the last one.
    pub fn iter(&self) -> impl Iterator<Item = RawRecord<'_>> {
        std::iter::from_fn(|| self.next())
    }

    /// The next record.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "the records borrow the batch, as no Iterator can say")]
    pub fn next(&self) -> Option<RawRecord<'_>> {
        match RawRecord::split(self.first.get(), ByteOrder::NATIVE) {
            Ok((record, rest)) => {
                self.first.set(rest);
                Some(record)
            }
            Err(_) => self.next_segment(),
        }
    }

    /// The record at or across the end of the ring.
    #[cold]
    fn next_segment(&self) -> Option<RawRecord<'_>> {
        let (first, second) = (self.first.get(), self.second.get());
        if first.is_empty() {
            if second.is_empty() {
                return None;
            }
            self.first.set(second);
            self.second.set(&[]);
            return self.next();
        }
        // A record may lie across the end, its header too; a batch has at most one of these.
        let mut start = [0; Header::SIZE];
        let bytes = first.iter().chain(second);
        let header = start.iter_mut().zip(bytes).map(|(to, from)| *to = *from).count();
        let size = Header::peek(&start[..header], ByteOrder::NATIVE).map(|header| usize::from(header.size));
        let missing =
            size.filter(|&size| size >= Header::SIZE).and_then(|size| size.checked_sub(first.len()));
        let Some(rest) = missing.and_then(|missing| second.get(..missing)) else {
            // This is no record, so nothing tells where the next one begins: the rest is skipped and reported.
            self.corrupt.set(first.len() + second.len());
            self.first.set(&[]);
            self.second.set(&[]);
            return None;
        };
        self.first.set(&second[rest.len()..]);
        self.second.set(&[]);
        let joined = self.joined.get_or_init(|| [first, rest].concat());
        RawRecord::split(joined, ByteOrder::NATIVE).ok().map(|(record, _)| record)
    }

    /// Everything that has not been taken yet, as bytes in two parts, the second one where the ring starts
    /// again: for writers that pass records on as they are. A record may lie across the two.
    pub fn take_bytes(&self) -> (&[u8], &[u8]) {
        (self.first.take(), self.second.take())
    }

    /// Bytes that have not been taken yet.
    pub fn unread_bytes(&self) -> usize {
        self.first.get().len() + self.second.get().len()
    }

    /// Bytes that had to be skipped because they are no records. 0 unless something else writes to the
    /// ring, or a record was longer than its 16-bit size can tell (rule G12).
    pub fn corrupt_bytes(&self) -> usize {
        self.corrupt.get()
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let tail = self.head.wrapping_sub(self.unread_bytes() as u64);
        *self.tail = tail;
        if let Some(map) = self.map {
            // Release: our reading is over before the kernel sees the room.
            map.store_u64(offset::DATA_TAIL, tail, Release);
        }
    }
}

/// A copy of an overwritten ring.
#[derive(Clone, Debug)]
pub struct Snapshot {
    bytes: Vec<u8>,
    /// How many of them, from the newest on, came after the snapshot before.
    fresh: usize,
}

impl Snapshot {
    /// The records, newest first, up to the first that is no longer whole.
    pub fn iter(&self) -> impl Iterator<Item = RawRecord<'_>> {
        records(&self.bytes)
    }

    /// The records that no earlier snapshot of the ring had, newest first.
    pub fn fresh(&self) -> impl Iterator<Item = RawRecord<'_>> {
        records(&self.bytes[..self.fresh])
    }
}

fn records(mut rest: &[u8]) -> impl Iterator<Item = RawRecord<'_>> {
    std::iter::from_fn(move || {
        let (record, after) = RawRecord::split(rest, ByteOrder::NATIVE).ok()?;
        rest = after;
        // Room that was never written is zero.
        (record.header.kind.0 != 0).then_some(record)
    })
}

#[cfg(test)]
impl Ring {
    /// Two pages of a file: a test plays the kernel.
    pub(crate) fn of(file: std::os::fd::BorrowedFd<'_>, page: usize, protection: Protection) -> Self {
        let map = Mapping::new(file, 2 * page, protection, 0).expect("a file can be mapped");
        Ring { map, start: page, size: page, tail: 0, protection }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    /// A ring made of a file, so that the test plays the kernel.
    fn ring(data: &[u8], head: u64, tail: u64) -> (Ring, File) {
        let page = page_size();
        let path = std::env::temp_dir().join(format!("perfuse-ring-{}-{head}-{tail}", std::process::id()));
        let file = File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(2 * page as u64).unwrap();
        file.write_all_at(&head.to_ne_bytes(), offset::DATA_HEAD as u64).unwrap();
        file.write_all_at(&tail.to_ne_bytes(), offset::DATA_TAIL as u64).unwrap();
        file.write_all_at(data, page as u64).unwrap();
        let mut ring = Ring::of(file.as_fd(), page, Protection::ReadWrite);
        ring.tail = tail;
        (ring, file)
    }

    /// A record of this size whose body is `fill`.
    fn record(size: u16, fill: u8) -> Vec<u8> {
        let mut bytes = vec![fill; size.into()];
        bytes[..4].copy_from_slice(&13u32.to_ne_bytes());
        bytes[4..6].copy_from_slice(&0u16.to_ne_bytes());
        bytes[6..8].copy_from_slice(&size.to_ne_bytes());
        bytes
    }

    #[test]
    fn records_are_taken_in_place_and_their_room_given_back() {
        let data = [record(16, 1), record(24, 2), record(16, 3)].concat();
        let (mut ring, _file) = ring(&data, 56, 0);
        {
            let batch = ring.batch();
            let taken: Vec<_> = batch.iter().take(2).map(|r| (r.header.size, r.body[0])).collect();
            assert_eq!(taken, [(16, 1), (24, 2)]);
            assert_eq!(batch.unread_bytes(), 16);
        }
        assert_eq!(ring.map.load_u64(offset::DATA_TAIL, Relaxed), 40);
        let batch = ring.batch();
        assert_eq!(batch.iter().map(|r| r.body[0]).collect::<Vec<_>>(), [3]);
        drop(batch);
        assert!(!ring.has_records());
    }

    #[test]
    fn a_record_across_the_end_is_put_together() {
        let page = page_size();
        for before in [8, 16] {
            let (across, after) = (record(32, 7), record(16, 8));
            let mut data = vec![0; page];
            data[page - before..].copy_from_slice(&across[..before]);
            data[..32 - before].copy_from_slice(&across[before..]);
            data[32 - before..48 - before].copy_from_slice(&after);
            let tail = (page - before) as u64;
            let (mut ring, _file) = ring(&data, tail + 48, tail);
            let batch = ring.batch();
            let taken: Vec<_> = batch.iter().collect();
            assert_eq!(taken[0].body, &across[8..]);
            assert_eq!(taken[1].body, &after[8..]);
            assert_eq!((taken.len(), batch.corrupt_bytes()), (2, 0));
        }
    }

    #[test]
    fn what_is_no_record_is_skipped_and_counted() {
        let mut data = record(16, 1);
        data.extend([0; 32]); // size 0
        let (mut ring, _file) = ring(&data, 48, 0);
        let batch = ring.batch();
        assert_eq!(batch.iter().count(), 1);
        assert_eq!(batch.corrupt_bytes(), 32);
        drop(batch);
        assert!(!ring.has_records(), "reading goes on behind it");
    }

    #[test]
    fn a_head_beyond_the_ring_gives_no_records() {
        let (mut ring, _file) = ring(&[], 1 << 40, 0);
        assert_eq!(ring.batch().iter().count(), 0);
        assert!(!ring.has_records());
    }

    #[test]
    fn a_snapshot_walks_from_the_newest_record() {
        let page = page_size();
        // Written backward: the second record lies below the first.
        let mut data = vec![0; page];
        data[page - 16..].copy_from_slice(&record(16, 1));
        data[page - 40..page - 16].copy_from_slice(&record(24, 2));
        let (mut ring, file) = ring(&data, 40u64.wrapping_neg(), 0);
        let newest_first: Vec<_> = ring.snapshot().iter().map(|r| r.body[0]).collect();
        assert_eq!(newest_first, [2, 1]);
        file.write_all_at(&record(16, 3), (2 * page - 56) as u64).unwrap();
        file.write_all_at(&56u64.wrapping_neg().to_ne_bytes(), offset::DATA_HEAD as u64).unwrap();
        let later = ring.snapshot();
        assert_eq!(later.iter().map(|r| r.body[0]).collect::<Vec<_>>(), [3, 2, 1]);
        assert_eq!(later.fresh().map(|r| r.body[0]).collect::<Vec<_>>(), [3]);
    }
}
