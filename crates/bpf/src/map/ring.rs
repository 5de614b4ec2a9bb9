//! A ring buffer (`BPF_MAP_TYPE_RINGBUF`): records in the order of their reservations, laid out as Linux lays them out (a header
//! of eight bytes with length, busy and discarded bits, contents in whole words), so that a host can show the same bytes.

use alloc::vec;
use alloc::vec::Vec;

const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER: u64 = 8;

/// The ring of a map.
#[derive(Debug)]
pub struct Ring {
    data: Vec<u8>,
    consumer: u64,
    producer: u64,
}

impl Ring {
    pub(super) fn new(bytes: usize) -> Self {
        Ring { data: vec![0; bytes], consumer: 0, producer: 0 }
    }

    /// Positions, which only grow: the reader's and the writer's.
    pub fn positions(&self) -> (u64, u64) {
        (self.consumer, self.producer)
    }

    /// The reader has come so far, as far as he is to be believed.
    pub fn set_consumer(&mut self, position: u64) {
        self.consumer = position;
    }

    /// The ring's bytes, in which the record at a position begins at that position, modulo their number.
    pub fn bytes(&self) -> &[u8] {
        &self.data
    }

    /// Bytes of the ring.
    pub fn size(&self) -> u64 {
        self.data.len() as u64
    }

    /// Room for a record; `None` if the ring has none.
    pub(crate) fn reserve(&mut self, len: u64) -> Option<u64> {
        let whole = (len.checked_add(HEADER)?).next_multiple_of(8);
        if len > u64::from(u32::MAX / 4) || whole > self.size() {
            return None;
        }
        let end = self.producer + whole;
        // A reader who says that he is ahead of the writer has no room, as on Linux.
        if end.wrapping_sub(self.consumer) > self.size() - 1 {
            return None;
        }
        let at = self.producer;
        self.set_header(at, len as u32 | BUSY);
        self.producer = end;
        Some(at)
    }

    /// Fills a reservation, which readers then take or, if it is `discarded`, pass over; true if the reader had read all before
    /// it, and so waits for it.
    pub(crate) fn commit(&mut self, at: u64, content: &[u8], discarded: bool) -> bool {
        let len = self.header(at) & !BUSY;
        let mask = self.data.len() - 1;
        for (i, byte) in content.iter().enumerate() {
            self.data[((at + HEADER) as usize + i) & mask] = *byte;
        }
        self.set_header(at, if discarded { len | DISCARDED } else { len });
        self.consumer == at
    }

    /// The next record, which is then taken out; `None` if there is none, or if it is still being written.
    pub fn read(&mut self) -> Option<Vec<u8>> {
        let mask = self.data.len() - 1;
        while self.consumer < self.producer {
            let (at, header) = (self.consumer, self.header(self.consumer));
            if header & BUSY != 0 {
                return None;
            }
            let len = u64::from(header & !DISCARDED);
            self.consumer += (len + HEADER).next_multiple_of(8);
            if header & DISCARDED == 0 {
                let bytes = (0..len).map(|i| self.data[(at + HEADER + i) as usize & mask]);
                return Some(bytes.collect());
            }
        }
        None
    }

    fn header(&self, at: u64) -> u32 {
        let at = at as usize & (self.data.len() - 1);
        self.data[at..].first_chunk().map_or(0, |header| u32::from_ne_bytes(*header))
    }

    fn set_header(&mut self, at: u64, header: u32) {
        let at = at as usize & (self.data.len() - 1);
        self.data[at..][..4].copy_from_slice(&header.to_ne_bytes());
    }
}
