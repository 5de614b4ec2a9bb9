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

    /// What was put so far.
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
