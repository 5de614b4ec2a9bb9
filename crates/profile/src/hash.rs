//! Hashes for keys that are numbers: [`FastMap`], one multiplication a word; and [`Fingerprint`], long enough to stand for what it
//! was made of. The numbers come out of recordings, whose authors may have chosen such as hash alike: so each process hashes
//! in a way of its own.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// A map with a fast hash.
pub type FastMap<K, V> = HashMap<K, V, FastState>;

/// The way of hashing of this process: where a hash begins, and the factor of its multiplications.
#[derive(Clone, Copy, Debug)]
pub struct FastState {
    start: u64,
    factor: u64,
}

impl FastState {
    /// Of these seeds.
    const fn of(start: u64, factor: u64) -> Self {
        FastState { start, factor: factor | 1 }
    }
}

impl Default for FastState {
    #[inline]
    fn default() -> Self {
        static OF_PROCESS: OnceLock<FastState> = OnceLock::new();
        *OF_PROCESS.get_or_init(|| {
            let [start, factor] = [1u8, 2].map(|number| RandomState::new().hash_one(number));
            FastState::of(start, factor)
        })
    }
}

impl BuildHasher for FastState {
    type Hasher = Fast;

    #[inline]
    fn build_hasher(&self) -> Fast {
        Fast { hash: self.start, factor: self.factor }
    }
}

/// The hash of a [`FastMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fast {
    hash: u64,
    factor: u64,
}

/// Both halves of a product: without the seeds nobody knows which words have the same.
#[inline]
fn fold(word: u64, factor: u64) -> u64 {
    let product = u128::from(word) * u128::from(factor);
    (product as u64) ^ (product >> 64) as u64
}

impl Fast {
    #[inline]
    fn add(&mut self, word: u64) {
        self.hash = fold(self.hash ^ word, self.factor);
    }
}

impl Hasher for Fast {
    #[inline]
    fn finish(&self) -> u64 {
        self.hash
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.add(word.into());
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.add(word);
    }

    #[inline]
    fn write_usize(&mut self, word: usize) {
        self.add(word as u64);
    }
}

/// 128 bits made of any number of words: two sequences of words with the same fingerprint are taken for the
/// same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint(Fast, u64);

impl Default for Fingerprint {
    #[inline]
    fn default() -> Self {
        let state = FastState::default();
        Fingerprint(state.build_hasher(), !state.start)
    }
}

impl Fingerprint {
    #[inline]
    pub(crate) fn add(&mut self, word: u64) {
        self.0.add(word);
        self.1 = (self.1.rotate_left(23) ^ word).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }

    #[inline]
    pub(crate) fn finish(self) -> Self {
        let mut end = self;
        end.add(self.1);
        end.add(self.0.hash);
        end
    }

    /// 64 of its bits, and 32 others.
    #[inline]
    pub(crate) fn parts(self) -> (u64, u32) {
        (self.0.hash, (self.1 >> 32) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs of words that hashed alike when there was no seed: they filled one place of a table.
    #[test]
    fn words_that_hash_alike_in_one_process_do_not_in_another() {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        // Its inverse, by Newton's steps.
        let inverse =
            (0..6).fold(ODD, |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(ODD.wrapping_mul(inverse))));
        let before = |words: [u64; 2]| {
            let hash = words.iter().fold(0u64, |hash, word| (hash.rotate_left(5) ^ word).wrapping_mul(ODD));
            hash ^ hash >> 32
        };
        let level = 4u64;
        let first = level.wrapping_mul(ODD).rotate_left(5);
        let pairs: Vec<[u64; 2]> =
            (1..60_000u64).map(|n| [level, (n << 32 | n).wrapping_mul(inverse) ^ first]).collect();
        assert!(pairs.iter().all(|&pair| before(pair) as u32 == 0));
        for state in [FastState::of(0, ODD), FastState::of(!ODD, 0xd6e8_feb8_6659_fd93), FastState::default()]
        {
            let places = |bits: fn(u64) -> u64| {
                let hashes = pairs.iter().map(|pair| bits(state.hash_one((pair[0], pair[1]))));
                hashes.collect::<std::collections::HashSet<u64>>().len()
            };
            // Of 65 536 places, 39 000 are taken by chance.
            assert!(places(|hash| hash & 0xffff) > 20_000 && places(|hash| hash >> 48) > 20_000, "{state:?}");
        }
    }

    #[test]
    fn fingerprints_differ_by_order_length_and_every_bit() {
        let of = |words: &[u64]| {
            let mut print = Fingerprint::default();
            words.iter().for_each(|&word| print.add(word));
            print.finish()
        };
        let mut seen = std::collections::HashSet::new();
        for bit in 0..64 {
            for words in [vec![1 << bit], vec![0, 1 << bit], vec![1 << bit, 0], vec![1 << bit, 1 << bit]] {
                assert!(seen.insert(of(&words)), "{words:x?}");
            }
        }
        assert!(seen.insert(of(&[])) && seen.insert(of(&[0])));
    }
}
