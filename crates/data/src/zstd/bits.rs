//! Bit streams: forward ones of table descriptions, backward ones of everything else.

use super::ZstdError;

/// Bits from the first byte on, lowest first.
#[derive(Debug)]
pub(super) struct Forward<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Forward<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Forward { bytes, position: 0 }
    }

    /// The next `count` bits, at most 16.
    pub(super) fn read(&mut self, count: u32) -> Result<u32, ZstdError> {
        let start = self.position / 8;
        let word = (0..3)
            .fold(0, |word, i| word | u32::from(self.bytes.get(start + i).copied().unwrap_or(0)) << (8 * i));
        let value = word >> (self.position % 8) & ((1 << count) - 1);
        self.position += count as usize;
        if self.bytes_read() > self.bytes.len() {
            return Err(ZstdError("a table description is cut off"));
        }
        Ok(value)
    }

    /// Goes back one bit.
    pub(super) fn unread(&mut self) {
        self.position -= 1;
    }

    /// Bytes of which a bit was read.
    pub(super) fn bytes_read(&self) -> usize {
        self.position.div_ceil(8)
    }
}

/// Bits from the last byte on, highest first. The highest bit that is set only marks the end. What lies
/// before the first byte reads as zeros, and [`left`](Self::left) is negative then.
#[derive(Clone, Debug)]
pub(super) struct Backward<'a> {
    bytes: &'a [u8],
    left: isize,
}

impl<'a> Backward<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, ZstdError> {
        match bytes.last() {
            Some(&last) if last != 0 => {
                let left = bytes.len() as isize * 8 - last.leading_zeros() as isize - 1;
                Ok(Backward { bytes, left })
            }
            _ => Err(ZstdError("a bit stream has no end mark")),
        }
    }

    /// Bits not read yet; negative if more were read than there are.
    #[inline]
    pub(super) fn left(&self) -> isize {
        self.left
    }

    /// Skips bits.
    #[inline]
    pub(super) fn skip(&mut self, count: u32) {
        self.left -= count as isize;
    }

    /// The next `count` bits, at most 56.
    #[inline]
    pub(super) fn read(&mut self, count: u32) -> u64 {
        let value = self.peek(count);
        self.skip(count);
        value
    }

    /// The next `count` bits without reading them.
    #[inline]
    pub(super) fn peek(&self, count: u32) -> u64 {
        let from = self.left - count as isize;
        let mask = (1u64 << count) - 1;
        if from >= 0 {
            (self.word(from as usize / 8) >> (from as usize % 8)) & mask
        } else if from > -64 {
            (self.word(0) << -from) & mask & (u64::MAX << -from)
        } else {
            0
        }
    }

    #[inline]
    fn word(&self, start: usize) -> u64 {
        let rest = self.bytes.get(start..).unwrap_or(&[]);
        match rest.first_chunk() {
            Some(chunk) => u64::from_le_bytes(*chunk),
            None => rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
        }
    }
}
