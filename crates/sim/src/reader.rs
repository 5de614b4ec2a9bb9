//! The reader of a ring.

use perfuse_engine::Memory;
use perfuse_engine::abi::ByteOrder;
use perfuse_engine::abi::page::offset;
use perfuse_engine::abi::record::Header;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Reads the records that the engine wrote, and gives the room back.
#[derive(Debug)]
pub struct Reader {
    memory: Arc<dyn Memory>,
    page_bytes: usize,
    tail: u64,
}

impl Reader {
    pub(crate) fn new(memory: Arc<dyn Memory>, page_bytes: usize) -> Self {
        Reader { memory, page_bytes, tail: 0 }
    }

    fn head(&self) -> u64 {
        self.memory.words()[offset::DATA_HEAD / 8].load(Ordering::Acquire)
    }

    fn word(&self, at: u64) -> u64 {
        let data = &self.memory.words()[self.page_bytes / 8..];
        data[(at / 8) as usize & (data.len() - 1)].load(Ordering::Relaxed)
    }

    /// The bytes of all records since the last time.
    pub fn take(&mut self) -> Vec<u8> {
        let head = self.head();
        let mut bytes = Vec::new();
        while self.tail != head {
            bytes.extend(self.word(self.tail).to_ne_bytes());
            self.tail = self.tail.wrapping_add(8);
        }
        self.memory.words()[offset::DATA_TAIL / 8].store(head, Ordering::Release);
        bytes
    }

    /// The bytes of the records in a ring that is written backward, newest first (rule G11). They stay
    /// there.
    pub fn look_back(&self) -> Vec<u8> {
        let len = (self.memory.words().len() * 8 - self.page_bytes) as u64;
        let head = self.head();
        // As much as was written, and no more than there is.
        let most = head.wrapping_neg().min(len);
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < most {
            let at = head.wrapping_add(bytes.len() as u64);
            let header = Header::peek(&self.word(at).to_ne_bytes(), ByteOrder::NATIVE);
            let size = header.map_or(0, |header| u64::from(header.size));
            if size < Header::SIZE as u64 || bytes.len() as u64 + size > most {
                break;
            }
            (0..size / 8).for_each(|word| bytes.extend(self.word(at.wrapping_add(word * 8)).to_ne_bytes()));
        }
        bytes
    }

    /// Says that an AUX area of so many pages lies behind the ring: its offset and its size.
    pub(crate) fn place_aux(&self, pages: usize) -> (u64, u64) {
        let words = self.memory.words();
        let (offset, size) = (words.len() as u64 * 8, (pages * self.page_bytes) as u64);
        words[offset::AUX_OFFSET / 8].store(offset, Ordering::Release);
        words[offset::AUX_SIZE / 8].store(size, Ordering::Release);
        (offset, size)
    }

    /// The value of a field of the control page, by its offset.
    pub fn page(&self, offset: usize) -> u64 {
        self.memory.words()[offset / 8].load(Ordering::Acquire)
    }
}

/// The reader of an AUX area.
#[derive(Debug)]
pub struct AuxReader {
    memory: Arc<dyn Memory>,
    overwrite: bool,
    tail: u64,
}

impl AuxReader {
    pub(crate) fn new(memory: Arc<dyn Memory>, overwrite: bool) -> Self {
        AuxReader { memory, overwrite, tail: 0 }
    }

    /// A trace that can be told from everything else: each word is its place.
    pub(crate) fn fill(memory: &dyn Memory, from: u64, len: u64) {
        let words = memory.words();
        for at in (from..from + len).step_by(8) {
            words[(at / 8) as usize % words.len()].store(at, Ordering::Relaxed);
        }
    }

    /// Reads the new bytes, gives the room back, and tells how many bytes of it are the trace that belongs there. An
    /// area that is overwritten has as much as it is large at most.
    pub fn take(&mut self, ring: &Reader) -> u64 {
        let words = self.memory.words();
        let len = words.len() as u64 * 8;
        let head = ring.page(offset::AUX_HEAD);
        let from = if self.overwrite { self.tail.max(head.saturating_sub(len)) } else { self.tail };
        let right = (from..head).step_by(8).filter(|at| {
            let word = &words[(at / 8) as usize % words.len()];
            word.load(Ordering::Relaxed) == *at
        });
        let bytes = right.count() as u64 * 8;
        if !self.overwrite {
            ring.memory.words()[offset::AUX_TAIL / 8].store(head, Ordering::Release);
        }
        self.tail = head;
        bytes
    }
}
