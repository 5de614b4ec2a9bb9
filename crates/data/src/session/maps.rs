//! The mappings of one address space, sorted, never overlapping.

use super::ObjectId;
use std::sync::atomic::{AtomicU64, Ordering};

/// A mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Map {
    /// Its first address.
    pub start: u64,
    /// The address after its last.
    pub end: u64,
    /// Offset in the object of its first byte.
    pub pgoff: u64,
    /// What is mapped.
    pub object: ObjectId,
    /// Rights, as for mmap(2). 0 if they were not told.
    pub prot: u32,
    /// Flags, as for mmap(2). 0 if they were not told.
    pub flags: u32,
    /// Whether places in it are told by their address: it is the kernel's, or no file is behind it.
    pub by_address: bool,
}

impl Map {
    /// An address of the mapping as the object counts.
    #[inline]
    pub fn place(&self, address: u64) -> u64 {
        match self.by_address {
            true => address,
            false => address.wrapping_sub(self.start).wrapping_add(self.pgoff),
        }
    }
}

/// More mappings than this are not kept in one address space.
const MOST: usize = 1 << 18;

/// The mappings of a process, or of the kernel.
#[derive(Debug)]
pub struct Maps {
    list: Vec<Map>,
    jit_dump: Option<ObjectId>,
    id: u64,
}

/// A number that no other maps, and no earlier state of these, have.
fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Default for Maps {
    fn default() -> Self {
        Maps { list: Vec::new(), jit_dump: None, id: next_id() }
    }
}

impl Clone for Maps {
    fn clone(&self) -> Self {
        Maps { list: self.list.clone(), jit_dump: self.jit_dump, id: next_id() }
    }
}

impl Maps {
    /// Tells this state of these maps from all other states and other maps: what was found out about an
    /// address holds as long as the number is the same.
    #[inline]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The file `jit-PID.dump` in which the process, or the one it was forked from, tells of the code that it
    /// makes: what is in memory without a file can be looked up there, by address and the time of the sample.
    /// Such code changes while [`id`](Self::id) stays the same.
    #[inline]
    pub fn jit_dump(&self) -> Option<ObjectId> {
        self.jit_dump
    }

    pub(super) fn set_jit_dump(&mut self, dump: ObjectId) {
        if self.jit_dump != Some(dump) {
            self.jit_dump = Some(dump);
            self.id = next_id();
        }
    }

    /// The mapping at an address.
    #[inline]
    pub fn find(&self, address: u64) -> Option<Map> {
        let index = self.list.partition_point(|map| map.start <= address).checked_sub(1)?;
        Some(self.list[index]).filter(|map| address < map.end)
    }

    /// All of them by address.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Map> {
        self.list.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds a mapping. What lies under it is gone; of mappings that it covers in part, the rest stays.
    pub(super) fn insert(&mut self, new: Map) {
        let first = self.list.partition_point(|map| map.end <= new.start);
        let after = first + self.list[first..].partition_point(|map| map.start < new.end);
        if first + 1 == after && self.list[first] == new {
            return; // told again
        }
        let mut pieces = Vec::with_capacity(3);
        if let Some(before) = self.list[first..after].first().filter(|map| map.start < new.start) {
            pieces.push(Map { end: new.start, ..*before });
        }
        pieces.push(new);
        if let Some(behind) = self.list[first..after].last().filter(|map| map.end > new.end) {
            let pgoff = behind.pgoff.wrapping_add(new.end - behind.start);
            pieces.push(Map { start: new.end, pgoff, ..*behind });
        }
        if self.list.len() + pieces.len() - (after - first) > MOST {
            return;
        }
        self.list.splice(first..after, pieces);
        self.id = next_id();
    }

    /// Takes the mapping away that begins at an address.
    pub(super) fn remove(&mut self, start: u64) {
        if let Ok(index) = self.list.binary_search_by_key(&start, |map| map.start) {
            self.list.remove(index);
            self.id = next_id();
        }
    }
}
