//! Sequences of equal items: callchains, register values, branches.

use super::{Codec, Layout, Reader};
use crate::ByteOrder;
use core::fmt;

/// A fixed-size part of a [`Seq`].
pub trait Item: Copy + Default + PartialEq + fmt::Debug + for<'a> Layout<'a> {
    /// Bytes on the wire: what the item's layout reads and writes.
    const SIZE: usize;
}

impl<'a> Layout<'a> for u64 {
    #[inline]
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u64("word", self)
    }
}

impl Item for u64 {
    const SIZE: usize = 8;
}

/// A sequence of 64-bit words.
pub type Words<'a> = Seq<'a, u64>;

/// A borrowed sequence of items: bytes as they came from the wire, or a slice of this program's.
/// Compares by content.
///
/// ```
/// use perfuse_abi::{ByteOrder, wire::Words};
///
/// let native = Words::from(&[1, 0x203][..]);
/// let wire = Words::from_wire(&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2, 3], ByteOrder::Big);
/// assert_eq!(native, wire);
/// assert_eq!(wire.get(1), Some(0x203));
/// assert_eq!(wire.get(2), None);
/// ```
#[derive(Clone, Copy)]
pub struct Seq<'a, T>(Repr<'a, T>);

#[derive(Clone, Copy)]
enum Repr<'a, T> {
    Wire(&'a [u8], ByteOrder),
    Native(&'a [T]),
}

impl<'a, T: Item> Seq<'a, T> {
    /// The items in `bytes`; an incomplete one at the end is not counted.
    #[inline]
    pub fn from_wire(bytes: &'a [u8], order: ByteOrder) -> Self {
        Seq(Repr::Wire(bytes, order))
    }

    /// Number of items.
    #[inline]
    pub fn len(&self) -> usize {
        match self.0 {
            Repr::Wire(bytes, _) => bytes.len() / T::SIZE,
            Repr::Native(items) => items.len(),
        }
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Item `index`.
    #[inline]
    pub fn get(&self, index: usize) -> Option<T> {
        match self.0 {
            Repr::Wire(bytes, order) => {
                let start = index.checked_mul(T::SIZE)?;
                let item = bytes.get(start..start.checked_add(T::SIZE)?)?;
                Some(decode(item, order))
            }
            Repr::Native(items) => items.get(index).copied(),
        }
    }

    /// All items in order.
    #[inline]
    pub fn iter(&self) -> SeqIter<'a, T> {
        SeqIter { rest: *self }
    }

    /// The items `range.start..range.end`, cut to what there is.
    #[inline]
    #[must_use]
    pub fn slice(&self, range: core::ops::Range<usize>) -> Self {
        let end = range.end.min(self.len());
        let start = range.start.min(end);
        match self.0 {
            Repr::Wire(bytes, order) => Self::from_wire(&bytes[start * T::SIZE..end * T::SIZE], order),
            Repr::Native(items) => Seq(Repr::Native(&items[start..end])),
        }
    }

    /// The bytes, if the items are in wire form of this order.
    #[inline]
    pub(super) fn wire_bytes(&self, wanted: ByteOrder) -> Option<&'a [u8]> {
        match self.0 {
            Repr::Wire(bytes, order) if order == wanted => Some(&bytes[..bytes.len() / T::SIZE * T::SIZE]),
            _ => None,
        }
    }
}

/// `bytes` are exactly one item, which cannot be short.
#[inline]
fn decode<T: Item>(bytes: &[u8], order: ByteOrder) -> T {
    let mut item = T::default();
    let result = item.layout(&mut Reader::new(bytes, order));
    debug_assert!(result.is_ok());
    item
}

impl<T> Default for Seq<'_, T> {
    #[inline]
    fn default() -> Self {
        Seq(Repr::Native(&[]))
    }
}

impl<'a, T> From<&'a [T]> for Seq<'a, T> {
    #[inline]
    fn from(items: &'a [T]) -> Self {
        Seq(Repr::Native(items))
    }
}

impl<T: Item> PartialEq for Seq<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<T: Item + Eq> Eq for Seq<'_, T> {}

impl<T: Item> fmt::Debug for Seq<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a, T: Item> IntoIterator for Seq<'a, T> {
    type Item = T;
    type IntoIter = SeqIter<'a, T>;

    #[inline]
    fn into_iter(self) -> SeqIter<'a, T> {
        self.iter()
    }
}

/// Iterator over the items of a [`Seq`].
#[derive(Clone, Debug)]
#[must_use = "iterators do nothing unless they are consumed"]
pub struct SeqIter<'a, T: Item> {
    rest: Seq<'a, T>,
}

impl<T: Item> Iterator for SeqIter<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        match &mut self.rest.0 {
            Repr::Wire(bytes, order) => {
                let (item, rest) = bytes.split_at_checked(T::SIZE)?;
                *bytes = rest;
                Some(decode(item, *order))
            }
            Repr::Native(items) => {
                let (item, rest) = items.split_first()?;
                *items = rest;
                Some(*item)
            }
        }
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.rest.len(), Some(self.rest.len()))
    }
}

impl<T: Item> ExactSizeIterator for SeqIter<'_, T> {}

impl<T: Item> DoubleEndedIterator for SeqIter<'_, T> {
    #[inline]
    fn next_back(&mut self) -> Option<T> {
        let last = self.rest.len().checked_sub(1)?;
        let item = self.rest.get(last);
        self.rest = self.rest.slice(0..last);
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::vec::Vec;

    const NATIVE: [u64; 3] = [1, 2, 0x0304];

    /// The same sequence in its three forms.
    fn forms(check: impl Fn(Words<'_>)) {
        check(NATIVE[..].into());
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let bytes: Vec<u8> = NATIVE.iter().flat_map(|&word| order.bytes64(word)).collect();
            check(Seq::from_wire(&bytes, order));
        }
    }

    #[test]
    fn all_forms_are_the_same_sequence() {
        forms(|words| {
            assert_eq!(words, Words::from(&NATIVE[..]));
            assert_eq!((words.len(), words.get(2), words.get(3)), (3, Some(0x0304), None));
            assert!(words.iter().eq(NATIVE));
            assert!(words.iter().rev().eq(NATIVE.into_iter().rev()));
            assert_eq!(words.iter().len(), 3);
            assert_eq!(format!("{words:?}"), "[1, 2, 772]");
        });
    }

    #[test]
    fn slices_are_cut_to_what_there_is() {
        forms(|words| {
            assert!(words.slice(1..2).iter().eq([2]));
            assert!(words.slice(1..99).iter().eq([2, 0x0304]));
            assert!(words.slice(7..9).is_empty());
            assert_eq!(words.get(usize::MAX), None);
        });
    }

    #[test]
    fn an_incomplete_item_is_not_counted() {
        let words = Words::from_wire(&[0, 0, 0, 0, 0, 0, 0, 5, 9, 9], ByteOrder::Big);
        assert_eq!((words.len(), words.iter().collect::<Vec<_>>()), (1, [5].into()));
        assert_eq!(words.iter().next_back(), Some(5));
    }
}
