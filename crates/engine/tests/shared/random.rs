//! Choices that are the same everywhere: random numbers (xorshift64*), or the bytes of an input.

#![allow(dead_code, reason = "each test file uses a part")]

/// A number from the environment.
pub(crate) fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// The seeds below `all`, or the one that `PERFUSE_SEED` asks for, or as many as `PERFUSE_SEEDS` says from
/// `PERFUSE_FIRST_SEED` on.
pub(crate) fn seeds(all: u64) -> std::ops::Range<u64> {
    let first = asked("PERFUSE_FIRST_SEED").unwrap_or(0);
    let many = first..first + asked("PERFUSE_SEEDS").unwrap_or(all);
    asked("PERFUSE_SEED").map_or(many, |seed| seed..seed + 1)
}

pub(crate) struct Random(Source);

enum Source {
    State(u64),
    /// Those that are left, the next one last.
    Bytes(Vec<u8>),
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(Source::State(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1))
    }

    /// Chooses as the bytes say; always the first when there are no more.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        Random(Source::Bytes(bytes.iter().rev().copied().collect()))
    }

    /// No bytes are left.
    pub(crate) fn is_over(&self) -> bool {
        matches!(&self.0, Source::Bytes(bytes) if bytes.is_empty())
    }

    pub(crate) fn next(&mut self) -> u64 {
        match &mut self.0 {
            Source::State(state) => {
                *state ^= *state >> 12;
                *state ^= *state << 25;
                *state ^= *state >> 27;
                state.wrapping_mul(0x2545_f491_4f6c_dd1d)
            }
            Source::Bytes(_) => (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte())),
        }
    }

    pub(crate) fn byte(&mut self) -> u8 {
        match &mut self.0 {
            Source::State(_) => (self.next() >> 56) as u8,
            Source::Bytes(bytes) => bytes.pop().unwrap_or(0),
        }
    }

    /// Below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        match &self.0 {
            Source::State(_) => (self.next() >> 11) as usize % end,
            // As few bytes as will do.
            Source::Bytes(_) if end <= 256 => usize::from(self.byte()) % end,
            Source::Bytes(_) => self.next() as usize % end,
        }
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
