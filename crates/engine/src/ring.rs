//! The ring that records are written to (section G): lock-free, one writer at a time who may be
//! interrupted by another on the same cpu, and one reader elsewhere.
//!
//! This is the producer's side of the protocol that
//! [`perf_event_mmap_page`](perfuse_abi::page::MmapPage) describes. It works on words shared with the
//! reader; whatever a reader writes to its own word, the tail, records may be wrong, and all writes stay inside the
//! ring.

use crate::host::Memory;
use crate::sync::{AtomicU64, Ordering, fence};
use alloc::sync::Arc;
use perfuse_abi::PollFlags;
use perfuse_abi::page::{MmapPage, offset};

/// Bytes of a word.
const WORD: usize = 8;

/// A ring in shared memory.
#[derive(Debug)]
pub struct Ring {
    memory: Arc<dyn Memory>,
    /// Words before the data.
    start: usize,
    /// Words of data: a power of two, or none.
    words: usize,
    /// The tail is ignored (rule G10).
    overwrite: bool,
    /// Written from the end (rule G11).
    backward: bool,
    /// Bytes between wakeups.
    watermark: u64,
    head: AtomicU64,
    /// How many writers are between begin and end.
    nest: AtomicU64,
    wakeup: AtomicU64,
    /// Samples since the last wakeup.
    events: AtomicU64,
    lost: AtomicU64,
    paused: AtomicU64,
    poll: AtomicU64,
}

/// How a ring is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingOptions {
    /// Its reader cannot write: the tail is not looked at.
    pub overwrite: bool,
    /// From the end to the start.
    pub backward: bool,
    /// Bytes between wakeups; `None` or more than there are: half of them (rule G14).
    pub watermark: Option<u32>,
}

/// Room whose writer was interrupted.
#[derive(Debug)]
pub(crate) struct SuspendedSlot {
    at: u64,
    wakeup: u64,
}

/// Room for a record.
#[derive(Debug)]
pub struct Slot<'r> {
    ring: &'r Ring,
    at: u64,
    wakeup: u64,
    lost: Option<u64>,
}

/// There was no room, or the ring is paused: the record is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Full {
    /// Readers are to be woken all the same, because of records that an interrupt has written meanwhile.
    pub wakes: bool,
}

impl Ring {
    /// A ring in memory whose first page is the control page; the rest is the data, a power of two of
    /// pages or none. The control page gets the fields of rule F30.
    ///
    /// # Panics
    ///
    /// If the memory is no such number of pages.
    pub fn new(memory: Arc<dyn Memory>, page_bytes: usize, options: RingOptions) -> Self {
        let start = page_bytes / WORD;
        let words = memory.words().len().checked_sub(start).expect("a control page");
        assert!(words == 0 || words.is_power_of_two(), "a power of two of data pages");
        let size = (words * WORD) as u64;
        let watermark = match options.watermark {
            Some(bytes) if bytes > 0 => u64::from(bytes).min(size),
            _ => size / 2,
        };
        let ring = Ring {
            memory,
            start,
            words,
            overwrite: options.overwrite,
            backward: options.backward,
            watermark,
            head: AtomicU64::new(0),
            nest: AtomicU64::new(0),
            wakeup: AtomicU64::new(0),
            events: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            // Without data there is nothing to write to (rule G2).
            paused: AtomicU64::new(u64::from(words == 0)),
            poll: AtomicU64::new(0),
        };
        ring.word(offset::DATA_OFFSET).store(page_bytes as u64, Ordering::Relaxed);
        ring.word(offset::DATA_SIZE).store(size, Ordering::Relaxed);
        ring
    }

    /// The word of the control page at an offset in bytes.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        &self.memory.words()[offset / WORD]
    }

    /// Shows the fields of the control page that come before the reserved ones, but `lock`, which is odd
    /// meanwhile: a reader takes none of it half done (rule F31). One writer at a time.
    pub fn show(&self, page: &MmapPage) {
        let words = self.memory.words();
        let set = |at: usize, value: u64| words[at / WORD].store(value, Ordering::Relaxed);
        let lock = &words[offset::LOCK / WORD];
        let was = lock.load(Ordering::Relaxed).to_ne_bytes();
        let version = u32::from_ne_bytes([was[0], was[1], was[2], was[3]]);
        let index = u32::from_ne_bytes([was[4], was[5], was[6], was[7]]);
        lock.store(pair(version.wrapping_add(1), index), Ordering::Relaxed);
        fence(Ordering::Release);
        let bits = page.capabilities.bits();
        // Linux has them as bit fields.
        let bits = if cfg!(target_endian = "big") { bits.reverse_bits() } else { bits };
        let short = u32::from_ne_bytes(halves(page.pmc_width.to_ne_bytes(), page.time_shift.to_ne_bytes()));
        set(offset::OFFSET, page.offset as u64);
        set(offset::TIME_ENABLED, page.time_enabled);
        set(offset::TIME_RUNNING, page.time_running);
        set(offset::CAPABILITIES, bits);
        set(offset::PMC_WIDTH, pair(short, page.time_mult));
        set(offset::TIME_OFFSET, page.time_offset);
        set(offset::TIME_ZERO, page.time_zero);
        set(offset::SIZE, pair(page.size, 0));
        set(offset::TIME_CYCLES, page.time_cycles);
        set(offset::TIME_MASK, page.time_mask);
        lock.store(pair(version.wrapping_add(2), page.index), Ordering::Release);
    }

    /// The shared memory.
    pub fn memory(&self) -> &Arc<dyn Memory> {
        &self.memory
    }

    /// Bytes of data.
    pub fn len(&self) -> usize {
        self.words * WORD
    }

    /// Whether there is no room for data at all.
    pub fn is_empty(&self) -> bool {
        self.words == 0
    }

    /// Stops or resumes writing: records are lost meanwhile. `false` if there is no data (rule C55).
    pub fn pause(&self, pause: bool) -> bool {
        if self.words > 0 {
            self.paused.store(pause.into(), Ordering::Relaxed);
        }
        self.words > 0
    }

    /// Whether records are written forward or from the end.
    pub fn is_backward(&self) -> bool {
        self.backward
    }

    /// Bytes free for the next record (rule G5).
    fn room(&self, head: u64) -> u64 {
        let tail = self.word(offset::DATA_TAIL).load(Ordering::Acquire);
        let used = if self.backward { tail.wrapping_sub(head) } else { head.wrapping_sub(tail) };
        used.wrapping_neg().wrapping_sub(1) & (self.len() as u64 - 1)
    }

    /// A record is lost that could not be written at all.
    pub fn lose(&self) {
        if self.words > 0 {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Makes room for a record of `bytes`, a multiple of 8 (rules G2 to G7). If records were lost, there
    /// is room before it for `lost_bytes` that tell so.
    pub fn begin(&self, bytes: usize, lost_bytes: usize) -> Result<Slot<'_>, Full> {
        if self.paused.load(Ordering::Relaxed) != 0 {
            self.lose();
            return Err(Full::default());
        }
        let tells = self.lost.load(Ordering::Relaxed) > 0;
        let need = (bytes + if tells { lost_bytes } else { 0 }) as u64;
        // Before this writer counts: one that interrupts it afterwards leaves its wakeup to this one.
        let wakeup = self.wakeup.load(Ordering::Relaxed);
        self.nest.fetch_add(1, Ordering::Relaxed);
        let mut head = self.head.load(Ordering::Relaxed);
        let new = loop {
            if !self.overwrite && self.room(head) < need {
                self.lost.fetch_add(1, Ordering::Relaxed);
                return Err(Full { wakes: self.end(wakeup) });
            }
            let new = if self.backward { head.wrapping_sub(need) } else { head.wrapping_add(need) };
            match self.head.compare_exchange(head, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break new,
                Err(now) => head = now,
            }
        };
        let written = if self.backward { new.wrapping_neg() } else { new };
        if written.wrapping_sub(self.wakeup.load(Ordering::Relaxed)) > self.watermark {
            self.wakeup.fetch_add(self.watermark, Ordering::Relaxed);
        }
        let lost = tells.then(|| self.lost.swap(0, Ordering::Relaxed));
        Ok(Slot { ring: self, at: if self.backward { new } else { head }, wakeup, lost })
    }

    /// The writer that was interrupted goes on.
    pub(crate) fn resume(&self, suspended: SuspendedSlot) -> Slot<'_> {
        Slot { ring: self, at: suspended.at, wakeup: suspended.wakeup, lost: None }
    }

    /// A sample was written: after `every` of them the reader is woken (rule G15).
    pub fn count_sample(&self, every: u32) {
        // An interrupt between the two may take as many again: the next samples make up for it.
        let events = |ring: &Ring| ring.events.fetch_add(1, Ordering::Relaxed).wrapping_add(1) as i64;
        if every > 0 && events(self) >= i64::from(every) {
            self.events.fetch_sub(every.into(), Ordering::Relaxed);
            self.wakeup.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Leaves; the outermost writer publishes what all have written (rule G9). Whether to wake.
    fn end(&self, wakeup: u64) -> bool {
        loop {
            let head = self.head.load(Ordering::Relaxed);
            if self.nest.load(Ordering::Relaxed) > 1 {
                self.nest.fetch_sub(1, Ordering::Relaxed);
                return false;
            }
            self.word(offset::DATA_HEAD).store(head, Ordering::Release);
            self.nest.store(0, Ordering::Relaxed);
            if head == self.head.load(Ordering::Relaxed) {
                break;
            }
            // Somebody wrote in between, and left the publishing to this one.
            self.nest.store(1, Ordering::Relaxed);
        }
        let wake = wakeup != self.wakeup.load(Ordering::Relaxed);
        if wake {
            self.readable();
        }
        wake
    }

    /// There is something to read, if not in the ring itself.
    pub(crate) fn readable(&self) {
        self.poll.store(PollFlags::READABLE.bits().into(), Ordering::Relaxed);
    }

    /// The answer to `poll(2)`, told once (rule G24).
    pub fn take_poll(&self) -> PollFlags {
        PollFlags::from_bits_retain(self.poll.swap(0, Ordering::Relaxed) as u32)
    }
}

/// Two 32-bit fields as the word they share in memory.
fn pair(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

fn halves(first: [u8; 2], second: [u8; 2]) -> [u8; 4] {
    [first[0], first[1], second[0], second[1]]
}

impl Slot<'_> {
    /// How many records were lost before this one: to be told first, in the room that was asked for.
    pub fn lost(&self) -> Option<u64> {
        self.lost
    }

    /// Writes bytes, a multiple of 8.
    pub fn put(&mut self, bytes: &[u8]) {
        let data = &self.ring.memory.words()[self.ring.start..];
        let mut rest = bytes;
        while !rest.is_empty() {
            // Up to the end of the ring, and on from its start.
            let place = (self.at / WORD as u64) as usize & (self.ring.words - 1);
            let (now, later) = rest.split_at(rest.len().min((self.ring.words - place) * WORD));
            for (chunk, word) in now.chunks_exact(WORD).zip(&data[place..]) {
                let value = u64::from_ne_bytes(chunk.try_into().expect("eight bytes"));
                word.store(value, Ordering::Relaxed);
            }
            self.at = self.at.wrapping_add(now.len() as u64);
            rest = later;
        }
    }

    /// An interrupt comes while the record is written.
    pub(crate) fn suspend(self) -> SuspendedSlot {
        SuspendedSlot { at: self.at, wakeup: self.wakeup }
    }

    /// The record is complete. Whether to wake readers (rule G18).
    pub fn finish(self) -> bool {
        self.ring.end(self.wakeup)
    }
}
