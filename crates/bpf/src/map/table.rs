//! Keys of hashes: where the value of each is. Chains of slots, in which a slot stays as long as its key; slots are given out one
//! after another, and those that were freed first.

use alloc::vec;
use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

/// FNV-1a, which begins with a number that programs do not know, mixed at the end.
pub(super) fn hash(seed: u64, bytes: impl Iterator<Item = u8>) -> u64 {
    let step = |hash: u64, byte: u8| {
        (hash.rotate_left(5) ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15 | seed << 1)
    };
    let hash = bytes.fold(seed ^ 0xcbf2_9ce4_8422_2325, step);
    (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 16
}

#[derive(Debug)]
pub(super) struct Table {
    key_bytes: usize,
    most: usize,
    seed: u64,
    /// The first slot of each chain; grows with the number of keys.
    heads: Vec<u32>,
    /// By slot: the next one of the chain.
    next: Vec<u32>,
    keys: Vec<u8>,
    free: Vec<u32>,
    count: usize,
    /// By slot: whether it was used since it was looked at for room; empty where keys stay.
    used: Vec<bool>,
    gives_up: bool,
    hand: usize,
}

impl Table {
    pub(super) fn new(key_bytes: usize, most: usize, gives_up: bool, seed: u64) -> Self {
        Table {
            key_bytes,
            most,
            seed,
            heads: vec![NONE; 8],
            next: Vec::new(),
            keys: Vec::new(),
            free: Vec::new(),
            count: 0,
            used: Vec::new(),
            gives_up,
            hand: 0,
        }
    }

    fn key(&self, slot: usize) -> &[u8] {
        &self.keys[slot * self.key_bytes..][..self.key_bytes]
    }

    fn chain(&self, key: &[u8]) -> usize {
        hash(self.seed, key.iter().copied()) as usize & (self.heads.len() - 1)
    }

    pub(super) fn find(&self, key: &[u8]) -> Option<usize> {
        let mut slot = self.heads[self.chain(key)];
        while slot != NONE {
            if self.key(slot as usize) == key {
                return Some(slot as usize);
            }
            slot = self.next[slot as usize];
        }
        None
    }

    pub(super) fn touch(&mut self, slot: usize) {
        if let Some(used) = self.used.get_mut(slot) {
            *used = true;
        }
    }

    /// A slot for a key that is not there; `None` if all are taken and keys stay.
    pub(super) fn insert(&mut self, key: &[u8]) -> Option<usize> {
        if self.count == self.most {
            if !self.gives_up {
                return None;
            }
            self.give_up();
        }
        if self.count == self.heads.len() {
            self.grow();
        }
        let slot = match self.free.pop() {
            Some(slot) => slot as usize,
            None => {
                self.next.push(NONE);
                self.keys.resize(self.keys.len() + self.key_bytes, 0);
                if self.gives_up {
                    self.used.push(false);
                }
                self.next.len() - 1
            }
        };
        self.keys[slot * self.key_bytes..][..self.key_bytes].copy_from_slice(key);
        self.link(slot);
        if let Some(used) = self.used.get_mut(slot) {
            *used = false;
        }
        self.count += 1;
        Some(slot)
    }

    fn link(&mut self, slot: usize) {
        let chain = self.chain(self.key(slot));
        self.next[slot] = self.heads[chain];
        self.heads[chain] = slot as u32;
    }

    /// All keys, in no order.
    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.slots().into_iter().map(|slot| self.key(slot as usize))
    }

    /// All slots of keys that are there, chain by chain.
    fn slots(&self) -> Vec<u32> {
        let mut slots = Vec::with_capacity(self.count);
        for head in &self.heads {
            let mut slot = *head;
            while slot != NONE {
                slots.push(slot);
                slot = self.next[slot as usize];
            }
        }
        slots
    }

    fn grow(&mut self) {
        let slots = self.slots();
        self.heads = vec![NONE; self.heads.len() * 2];
        slots.into_iter().for_each(|slot| self.link(slot as usize));
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> bool {
        let chain = self.chain(key);
        let (mut before, mut slot) = (NONE, self.heads[chain]);
        while slot != NONE {
            let next = self.next[slot as usize];
            if self.key(slot as usize) == key {
                match before {
                    NONE => self.heads[chain] = next,
                    before => self.next[before as usize] = next,
                }
                self.free.push(slot);
                self.count -= 1;
                return true;
            }
            (before, slot) = (slot, next);
        }
        false
    }

    /// Makes room: the first slot, as the hand goes round, that was not used since it came by. All are taken here.
    fn give_up(&mut self) {
        loop {
            let slot = self.hand;
            self.hand = (self.hand + 1) % self.next.len();
            if !core::mem::take(&mut self.used[slot]) {
                let key = self.key(slot).to_vec();
                self.remove(&key);
                return;
            }
        }
    }

    /// The first key, or the one after this; the first one, too, if this is not there.
    pub(super) fn next_key(&self, key: Option<&[u8]>) -> Option<&[u8]> {
        let there = key.and_then(|key| self.find(key));
        let (mut chain, mut slot) = match (there, key) {
            (Some(slot), Some(key)) => (self.chain(key) + 1, self.next[slot]),
            _ => (0, NONE),
        };
        while slot == NONE {
            slot = *self.heads.get(chain)?;
            chain += 1;
        }
        Some(self.key(slot as usize))
    }
}
