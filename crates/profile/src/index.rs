//! Finds the numbers of things in a table again, by 32 bits of hash and a comparison: eight bytes a thing, beside the
//! table itself.

use crate::hash::FastState;
use std::hash::{BuildHasher, Hasher};

/// The numbers of the things of a table, by their hash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    /// A power of two of places, at most three quarters of them taken: a number below, and above it its hash. A number is
    /// at the first free place after the one that the highest bits of its hash name, so that a larger table has them in
    /// the same order.
    slots: Vec<u64>,
    taken: usize,
}

const FREE: u64 = u64::MAX;

/// The hash of some words.
#[inline]
pub(crate) fn hash(words: &[u64]) -> u64 {
    let mut fast = FastState::default().build_hasher();
    words.iter().for_each(|&word| fast.write_u64(word));
    fast.finish() >> 32
}

impl Index {
    /// The number of a thing with this hash that is the same as the wanted one; if there is none, it is `next` from now on.
    #[inline]
    pub(crate) fn number(&mut self, hash: u64, next: u32, is_same: impl Fn(u32) -> bool) -> u32 {
        if self.taken * 4 >= self.slots.len() * 3 {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut place = self.place(hash);
        loop {
            let slot = self.slots[place];
            if slot == FREE {
                break;
            }
            if slot >> 32 == hash && is_same(slot as u32) {
                return slot as u32;
            }
            place = (place + 1) & mask;
        }
        self.slots[place] = hash << 32 | u64::from(next);
        self.taken += 1;
        next
    }

    /// The place that a hash names.
    #[inline]
    fn place(&self, hash: u64) -> usize {
        ((hash * self.slots.len() as u64) >> 32) as usize
    }

    #[cold]
    fn grow(&mut self) {
        let larger = vec![FREE; (self.slots.len() * 2).max(1 << 6)];
        let mask = larger.len() - 1;
        let slots = std::mem::replace(&mut self.slots, larger);
        for slot in slots.into_iter().filter(|&slot| slot != FREE) {
            let mut place = self.place(slot >> 32);
            while self.slots[place] != FREE {
                place = (place + 1) & mask;
            }
            self.slots[place] = slot;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_found_again_however_many_there_are() {
        let mut index = Index::default();
        let mut list: Vec<u64> = Vec::new();
        // So few hashes that many things share one.
        let mut number = |thing: u64| {
            let next = list.len() as u32;
            let number = index.number(hash(&[thing % 700]), next, |at| list[at as usize] == thing);
            if number == next {
                list.push(thing);
            }
            number
        };
        let first: Vec<u32> = (0..5000).map(&mut number).collect();
        let again: Vec<u32> = (0..5000).map(&mut number).collect();
        assert_eq!(first, again);
        assert_eq!(first, (0..5000).collect::<Vec<u32>>());
    }
}
