//! Hashes for keys that are numbers and come from no adversary that gains by collisions: [`FastMap`], one
//! multiplication a word; and [`Fingerprint`], long enough to stand for what it was made of.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map with a fast hash.
pub type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<Fast>>;

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash of a [`FastMap`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Fast(u64);

impl Fast {
    #[inline]
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(ODD);
    }
}

impl Hasher for Fast {
    #[inline]
    fn finish(&self) -> u64 {
        // The table takes its place from the low bits and a tag from the high ones.
        self.0 ^ self.0 >> 32
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
pub(crate) struct Fingerprint(u64, u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Fingerprint(0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344)
    }
}

impl Fingerprint {
    #[inline]
    pub(crate) fn add(&mut self, word: u64) {
        let one = u128::from(self.0 ^ word) * u128::from(ODD);
        self.0 = (one as u64) ^ (one >> 64) as u64;
        self.1 = (self.1.rotate_left(23) ^ word).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }

    #[inline]
    pub(crate) fn finish(self) -> Self {
        let mut end = self;
        end.add(self.1);
        end.add(self.0);
        end
    }

    /// 64 of its bits, and 32 others.
    #[inline]
    pub(crate) fn parts(self) -> (u64, u32) {
        (self.0, (self.1 >> 32) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
