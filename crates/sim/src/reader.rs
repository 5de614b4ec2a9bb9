//! The reader of a ring.

use perfuse_engine::Memory;
use perfuse_engine::abi::page::offset;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Reads what the engine wrote, and gives the room back.
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

    /// The bytes of all records since the last time.
    pub fn take(&mut self) -> Vec<u8> {
        let words = self.memory.words();
        let head = words[offset::DATA_HEAD / 8].load(Ordering::Acquire);
        let data = &words[self.page_bytes / 8..];
        let mut bytes = Vec::new();
        while self.tail != head {
            let at = (self.tail / 8) as usize & (data.len() - 1);
            bytes.extend(data[at].load(Ordering::Relaxed).to_ne_bytes());
            self.tail = self.tail.wrapping_add(8);
        }
        words[offset::DATA_TAIL / 8].store(head, Ordering::Release);
        bytes
    }
}
