//! Finite-state entropy tables: how they are described in the stream, built and stepped through.

use super::ZstdError;
use super::bits::{Backward, Forward};

/// The largest table there is: 2^9 states.
const MAX_LOG: u32 = 9;

/// One state: what it means and where it leads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    pub(super) symbol: u8,
    bits: u8,
    base: u16,
}

/// A decoding table.
#[derive(Clone, Debug)]
pub(super) struct Table {
    log: u32,
    states: Box<[State]>,
}

impl Table {
    /// A table with one state, which reads no bits.
    pub(super) fn single(symbol: u8) -> Self {
        Table { log: 0, states: Box::new([State { symbol, bits: 0, base: 0 }]) }
    }

    /// Reads the description of a table at the start of `bytes`, and says how long it was.
    pub(super) fn read(bytes: &[u8], max_log: u32, symbols: usize) -> Result<(Self, usize), ZstdError> {
        let mut bits = Forward::new(bytes);
        let log = bits.read(4)? + 5;
        if log > max_log {
            return Err(ZstdError("an entropy table is too large"));
        }
        let mut counts = [0i16; 256];
        let (mut symbol, mut left) = (0, 1i32 << log);
        while left > 0 {
            // Values up to left + 1, in as many bits as needed, the smaller ones in one bit less.
            let width = (left + 1).ilog2() + 1;
            let mut value = bits.read(width)? as i32;
            let low = value & ((1 << (width - 1)) - 1);
            let short = (1 << width) - 1 - (left + 1);
            if low < short {
                bits.unread();
                value = low;
            } else if value >= 1 << (width - 1) {
                value -= short;
            }
            if symbol >= symbols {
                return Err(ZstdError("an entropy table has too many symbols"));
            }
            let count = value - 1;
            counts[symbol] = count as i16;
            symbol += 1;
            left -= count.abs();
            if count == 0 {
                loop {
                    let zeros = bits.read(2)? as usize;
                    symbol += zeros;
                    if zeros < 3 {
                        break;
                    }
                }
            }
        }
        if left < 0 || symbol > symbols {
            return Err(ZstdError("an entropy table does not add up"));
        }
        Ok((Self::build(log, &counts[..symbol])?, bits.bytes_read()))
    }

    /// The table for these counts, which add up to 2^`log`; -1 is less than one.
    pub(super) fn build(log: u32, counts: &[i16]) -> Result<Self, ZstdError> {
        debug_assert!(log <= MAX_LOG);
        let size = 1usize << log;
        let mut states = vec![State::default(); size].into_boxed_slice();
        let mut next = [0u16; 256];
        let mut high = size;
        for (symbol, &count) in counts.iter().enumerate() {
            next[symbol] = count.unsigned_abs();
            if count == -1 {
                high -= 1;
                states[high].symbol = symbol as u8;
            }
        }
        let (step, mask) = ((size >> 1) + (size >> 3) + 3, size - 1);
        let mut position = 0;
        for (symbol, &count) in counts.iter().enumerate() {
            for _ in 0..count.max(0) {
                states[position].symbol = symbol as u8;
                position = (position + step) & mask;
                while position >= high {
                    if high == 0 {
                        return Err(ZstdError("an entropy table does not add up"));
                    }
                    position = (position + step) & mask;
                }
            }
        }
        for state in &mut states {
            let next = &mut next[usize::from(state.symbol)];
            let bits = log - u32::from((*next).max(1)).ilog2();
            state.bits = bits as u8;
            state.base = ((usize::from(*next) << bits) - size) as u16;
            *next += 1;
        }
        Ok(Table { log, states })
    }

    /// The state a stream starts in.
    #[inline]
    pub(super) fn start(&self, bits: &mut Backward<'_>) -> State {
        let index = bits.read(self.log) as usize;
        self.states[index]
    }

    /// The state that follows.
    #[inline]
    pub(super) fn next(&self, state: State, bits: &mut Backward<'_>) -> State {
        let index = usize::from(state.base) + bits.read(state.bits.into()) as usize;
        self.states[index & (self.states.len() - 1)]
    }
}
