//! The decoding direction.

use super::{Codec, Item, Padding, Seq, Short, Text};
use crate::ByteOrder;

/// Fills fields from borrowed bytes, never looking beyond them.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// Position of the end of `rest`; the distance to it gives the current position.
    end: usize,
    order: ByteOrder,
}

impl<'a> Reader<'a> {
    /// Reads `bytes`, which start the structure.
    #[inline]
    pub fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Self::at(bytes, order, 0)
    }

    /// Reads `bytes`, which start at byte `position` of the structure.
    #[inline]
    pub fn at(bytes: &'a [u8], order: ByteOrder, position: usize) -> Self {
        Reader { rest: bytes, end: position.saturating_add(bytes.len()), order }
    }

    /// The bytes not read yet.
    #[inline]
    pub fn remaining(&self) -> &'a [u8] {
        self.rest
    }

    #[cold]
    fn short(&self, what: &'static str, needed: usize) -> Short {
        Short { what, offset: self.position(), needed, available: self.rest.len() }
    }

    #[inline]
    fn take(&mut self, what: &'static str, len: usize) -> Result<&'a [u8], Short> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or_else(|| self.short(what, len))?;
        self.rest = rest;
        Ok(taken)
    }
}

/// `count` as a length of this machine; one that does not fit is too long for any buffer.
#[inline]
fn saturate(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

impl<'a> Codec<'a> for Reader<'a> {
    type Error = Short;

    #[inline]
    fn order(&self) -> ByteOrder {
        self.order
    }

    #[inline]
    fn position(&self) -> usize {
        self.end - self.rest.len()
    }

    #[inline]
    fn fixed<const N: usize>(&mut self, what: &'static str, v: &mut [u8; N]) -> Result<(), Short> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(|| self.short(what, N))?;
        self.rest = rest;
        *v = *taken;
        Ok(())
    }

    #[inline]
    fn bytes(&mut self, what: &'static str, len: u64, v: &mut &'a [u8]) -> Result<(), Short> {
        *v = self.take(what, saturate(len))?;
        Ok(())
    }

    #[inline]
    fn rest(&mut self, v: &mut &'a [u8]) -> Result<(), Short> {
        *v = core::mem::take(&mut self.rest);
        Ok(())
    }

    #[inline]
    fn seq<T: Item>(&mut self, what: &'static str, count: u64, v: &mut Seq<'a, T>) -> Result<(), Short> {
        let len = saturate(count).saturating_mul(T::SIZE);
        *v = Seq::from_wire(self.take(what, len)?, self.order);
        Ok(())
    }

    #[inline]
    fn text(&mut self, _what: &'static str, v: &mut Text<'a>) -> Result<(), Short> {
        *v = Text::from_wire(core::mem::take(&mut self.rest));
        Ok(())
    }

    #[inline]
    fn pad8(&mut self, v: &mut Padding<'a>) -> Result<(), Short> {
        let wanted = self.position().wrapping_neg() % 8;
        let found = self.take("padding", wanted.min(self.rest.len()))?;
        *v = Padding::found(found, wanted);
        Ok(())
    }

    #[inline]
    fn optional<T: Default>(
        &mut self,
        wanted: bool,
        _what: &'static str,
        v: &mut Option<T>,
        layout: impl FnOnce(&mut Self, &mut T) -> Result<(), Short>,
    ) -> Result<(), Short> {
        if wanted {
            layout(self, v.insert(T::default()))
        } else {
            *v = None;
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Words;

    #[test]
    fn positions_are_counted_from_the_structure() {
        let mut reader = Reader::at(&[1, 2, 3], ByteOrder::Little, 8);
        let mut v = 0u16;
        reader.u16("first", &mut v).unwrap();
        assert_eq!((v, reader.position(), reader.remaining()), (0x0201, 10, &[3][..]));
        let short = Short { what: "second", offset: 10, needed: 2, available: 1 };
        assert_eq!(reader.u16("second", &mut v), Err(short));
        assert_eq!(reader.remaining(), &[3], "what failed takes nothing");
    }

    #[test]
    fn a_count_beyond_the_address_space_is_only_short() {
        let mut reader = Reader::new(&[0; 16], ByteOrder::Little);
        let mut words = Words::default();
        for count in [3, 1 << 61, u64::MAX] {
            assert!(reader.seq("words", count, &mut words).is_err());
        }
        reader.seq("words", 2, &mut words).unwrap();
        assert_eq!(words.len(), 2);
    }

    #[test]
    fn padding_ends_at_a_multiple_of_eight_or_with_the_bytes() {
        let mut padding = Padding::default();
        let mut reader = Reader::at(&[0; 9], ByteOrder::Little, 5);
        reader.pad8(&mut padding).unwrap();
        assert_eq!((reader.position(), padding.unusual()), (8, None));
        let mut reader = Reader::at(&[0; 2], ByteOrder::Little, 5);
        reader.pad8(&mut padding).unwrap();
        assert_eq!((reader.position(), padding.unusual()), (7, Some(&[0, 0][..])));
    }
}
