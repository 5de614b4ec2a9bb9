//! Random numbers that are the same everywhere (xorshift64*).

#![allow(dead_code, reason = "each test file uses a part")]

/// A number from the environment.
pub(crate) fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// The seeds below `all`, or the one that `PERFUSE_SEED` asks for.
pub(crate) fn seeds(all: u64) -> std::ops::Range<u64> {
    asked("PERFUSE_SEED").map_or(0..all, |seed| seed..seed + 1)
}

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() >> 11) as usize % end
    }

    /// True in one of so many cases.
    pub(crate) fn one_in(&mut self, cases: usize) -> bool {
        self.below(cases) == 0
    }

    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Some of the lowest `bits` bits, each in one of `cases` cases.
    pub(crate) fn bits(&mut self, bits: u32, cases: usize) -> u64 {
        (0..bits).filter(|_| self.one_in(cases)).fold(0, |set, bit| set | 1 << bit)
    }
}
