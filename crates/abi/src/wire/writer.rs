//! The encoding direction, and the places bytes can go to.

use super::{Codec, EncodeError, Item, Padding, Seq, Short, Text};
use crate::ByteOrder;
use alloc::vec::Vec;

/// A place that takes bytes in order.
pub trait Sink {
    /// How many bytes it can still take.
    fn room(&self) -> usize;

    /// Takes `bytes`, which are at most [`room`](Self::room).
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    #[inline]
    fn room(&self) -> usize {
        usize::MAX
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Counts the bytes and forgets them: the way to learn how long something will be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// Bytes put so far.
    pub bytes: usize,
}

impl Sink for Counter {
    #[inline]
    fn room(&self) -> usize {
        usize::MAX
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
    }
}

/// Fills a slice from its start.
#[derive(Debug)]
pub struct SliceSink<'s> {
    slice: &'s mut [u8],
    filled: usize,
}

impl<'s> SliceSink<'s> {
    /// A sink that can take `slice.len()` bytes.
    #[inline]
    pub fn new(slice: &'s mut [u8]) -> Self {
        SliceSink { slice, filled: 0 }
    }

    /// The bytes put so far.
    #[inline]
    pub fn filled(&self) -> &[u8] {
        &self.slice[..self.filled]
    }
}

impl Sink for SliceSink<'_> {
    #[inline]
    fn room(&self) -> usize {
        self.slice.len() - self.filled
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let end = self.filled + bytes.len();
        self.slice[self.filled..end].copy_from_slice(bytes);
        self.filled = end;
    }
}

/// Writes fields to a sink.
#[derive(Debug)]
pub struct Writer<'s, S: Sink> {
    sink: &'s mut S,
    position: usize,
    order: ByteOrder,
}

impl<'s, S: Sink> Writer<'s, S> {
    /// Writes a structure from its start.
    #[inline]
    pub fn new(sink: &'s mut S, order: ByteOrder) -> Self {
        Self::at(sink, order, 0)
    }

    /// Writes a structure from its byte `position` on.
    #[inline]
    pub fn at(sink: &'s mut S, order: ByteOrder, position: usize) -> Self {
        Writer { sink, position, order }
    }

    #[inline]
    fn put(&mut self, what: &'static str, bytes: &[u8]) -> Result<(), EncodeError> {
        let available = self.sink.room();
        if bytes.len() > available {
            let short = Short { what, offset: self.position, needed: bytes.len(), available };
            return Err(EncodeError::Full(short));
        }
        self.sink.put(bytes);
        self.position += bytes.len();
        Ok(())
    }

    /// Zeros up to the next multiple of 8.
    #[inline]
    fn zeros(&mut self) -> Result<(), EncodeError> {
        self.put("padding", &[0; 7][..self.position.wrapping_neg() % 8])
    }
}

impl<'a, S: Sink> Codec<'a> for Writer<'_, S> {
    type Error = EncodeError;

    #[inline]
    fn order(&self) -> ByteOrder {
        self.order
    }

    #[inline]
    fn position(&self) -> usize {
        self.position
    }

    #[inline]
    fn fixed<const N: usize>(&mut self, what: &'static str, v: &mut [u8; N]) -> Result<(), EncodeError> {
        self.put(what, v)
    }

    #[inline]
    fn bytes(&mut self, what: &'static str, len: u64, v: &mut &'a [u8]) -> Result<(), EncodeError> {
        same_count(what, len, v.len())?;
        self.put(what, v)
    }

    #[inline]
    fn rest(&mut self, v: &mut &'a [u8]) -> Result<(), EncodeError> {
        self.put("rest", v)
    }

    #[inline]
    fn seq<T: Item>(
        &mut self,
        what: &'static str,
        count: u64,
        v: &mut Seq<'a, T>,
    ) -> Result<(), EncodeError> {
        same_count(what, count, v.len())?;
        if let Some(bytes) = v.wire_bytes(self.order) {
            return self.put(what, bytes);
        }
        for mut item in v.iter() {
            item.layout(self)?;
        }
        Ok(())
    }

    #[inline]
    fn text(&mut self, what: &'static str, v: &mut Text<'a>) -> Result<(), EncodeError> {
        self.put(what, v.wire_bytes())?;
        if v.is_padded() {
            return Ok(());
        }
        self.put(what, &[0])?;
        self.zeros()
    }

    #[inline]
    fn pad8(&mut self, v: &mut Padding<'a>) -> Result<(), EncodeError> {
        match v.unusual() {
            Some(bytes) => self.put("padding", bytes),
            None => self.zeros(),
        }
    }

    #[inline]
    fn optional<T: Default>(
        &mut self,
        wanted: bool,
        what: &'static str,
        v: &mut Option<T>,
        layout: impl FnOnce(&mut Self, &mut T) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        match v {
            _ if !wanted => Ok(()),
            Some(v) => layout(self, v),
            None => Err(EncodeError::Missing(what)),
        }
    }
}

#[inline]
fn same_count(what: &'static str, expected: u64, found: usize) -> Result<(), EncodeError> {
    let found = found as u64;
    if expected == found { Ok(()) } else { Err(EncodeError::Count { what, expected, found }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_full_slice_says_so() {
        let mut storage = [0; 5];
        let mut sink = SliceSink::new(&mut storage);
        let mut writer = Writer::at(&mut sink, ByteOrder::Big, 8);
        writer.u32("first", &mut 0x0102_0304).unwrap();
        let error = writer.u32("second", &mut 5).unwrap_err();
        assert_eq!(error.to_string(), "no room left: second at byte 12 needs 4 bytes, 1 are left");
        assert_eq!(sink.filled(), [1, 2, 3, 4]);
    }

    #[test]
    fn names_are_terminated_and_padded() {
        for (name, padded) in [("", 8), ("1234567", 8), ("12345678", 16)] {
            let mut out = Vec::new();
            Writer::new(&mut out, ByteOrder::Little).text("name", &mut name.into()).unwrap();
            assert_eq!((out.len(), &out[..name.len()], out[name.len()]), (padded, name.as_bytes(), 0));
        }
    }

    #[test]
    fn a_counter_counts_what_a_vec_gets() {
        let (mut counter, mut out) = (Counter::default(), Vec::new());
        let words = Seq::from(&[1u64, 2][..]);
        Writer::new(&mut counter, ByteOrder::Little).seq("words", 2, &mut words.clone()).unwrap();
        Writer::new(&mut out, ByteOrder::Little).seq("words", 2, &mut words.clone()).unwrap();
        assert_eq!((counter.bytes, out.len()), (16, 16));
    }

    #[test]
    fn a_length_that_another_field_contradicts_is_refused() {
        let mut out = Vec::new();
        let result = Writer::new(&mut out, ByteOrder::Little).bytes("data", 3, &mut &[1u8, 2][..]);
        assert_eq!(result, Err(EncodeError::Count { what: "data", expected: 3, found: 2 }));
        assert_eq!(result.unwrap_err().to_string(), "data must have 3 items and has 2");
    }
}
