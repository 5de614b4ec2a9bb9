//! The copy of a stack, and how one ends.

use perfuse_abi::ByteOrder;

/// How a stack ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum End {
    /// At the function that the thread began with.
    Root,
    /// After as many frames as were asked for.
    Most,
    /// Where the copy of the stack ends.
    Stack,
    /// In code that no table tells of, and that has no frame pointer.
    NoTable,
    /// Where a register is wanted that is not known, or a table says what no table should.
    Unknown,
    /// At a caller that would be its own.
    Loop,
}

/// The copy of a stack.
#[derive(Clone, Copy, Debug)]
pub struct Stack<'s> {
    /// The address of the first byte: the stack pointer.
    pub start: u64,
    /// The bytes.
    pub bytes: &'s [u8],
    /// The byte order of its words.
    pub order: ByteOrder,
}

impl Stack<'_> {
    /// The word at an address.
    #[inline]
    pub fn word(&self, at: u64) -> Option<u64> {
        let offset = usize::try_from(at.checked_sub(self.start)?).ok()?;
        let bytes = *self.bytes.get(offset..)?.first_chunk()?;
        Some(match self.order {
            ByteOrder::Little => u64::from_le_bytes(bytes),
            ByteOrder::Big => u64::from_be_bytes(bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_within_the_copy_are_read() {
        let bytes = [0, 0, 0, 0, 0, 0, 0, 1, 2];
        let stack = Stack { start: 0x7000, bytes: &bytes, order: ByteOrder::Big };
        assert_eq!((stack.word(0x7000), stack.word(0x7001)), (Some(1), Some(0x102)));
        let outside = [0, 0x6ff8, 0x6fff, 0x7002, 0x7009, u64::MAX];
        assert!(outside.iter().all(|&at| stack.word(at).is_none()));
        assert_eq!(Stack { order: ByteOrder::Little, ..stack }.word(0x7000), Some(1 << 56));
    }
}
