//! How a layout is written down once and serves both directions.
//!
//! A layout is a function that names its fields in order to a [`Codec`]. Given a [`Reader`] it fills the
//! fields from bytes, given a [`Writer`] it writes them; there is no second description that could
//! disagree. [`Short`] tells what was being read where when the bytes ended. [`Seq`] and [`Text`] are the
//! two kinds of variable content: they borrow the bytes they were decoded from, or the caller's own data
//! that is about to be encoded.
//!
//! ```
//! use perfuse_abi::ByteOrder;
//! use perfuse_abi::wire::{Codec, Layout, Reader, Writer};
//!
//! #[derive(Debug, Default, PartialEq)]
//! struct Pair { id: u32, value: u64 }
//!
//! impl<'a> Layout<'a> for Pair {
//!     fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
//!         c.u32("id", &mut self.id)?;
//!         c.u64("value", &mut self.value)
//!     }
//! }
//!
//! let mut bytes = Vec::new();
//! Pair { id: 7, value: 9 }.layout(&mut Writer::new(&mut bytes, ByteOrder::Big)).unwrap();
//! assert_eq!(bytes, [0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9]);
//!
//! let mut pair = Pair::default();
//! pair.layout(&mut Reader::new(&bytes, ByteOrder::Big)).unwrap();
//! assert_eq!(pair, Pair { id: 7, value: 9 });
//!
//! let short = pair.layout(&mut Reader::new(&bytes[..6], ByteOrder::Big)).unwrap_err();
//! assert_eq!(short.to_string(), "value at byte 4 needs 8 bytes, 2 are left");
//! ```

mod error;
mod reader;
mod seq;
mod text;
mod writer;

pub use error::{EncodeError, Short};
pub use reader::Reader;
pub use seq::{Item, Seq, SeqIter, Words};
pub use text::{Padding, Text};
pub use writer::{Counter, Sink, SliceSink, Writer};

use crate::ByteOrder;
use bitflags::Flags;

/// Something with a fixed order of fields on the wire.
pub trait Layout<'a> {
    /// Names the fields to `c` in order, which fills them or writes them.
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error>;
}

/// One direction of a layout: [`Reader`] or [`Writer`]. `'a` is the lifetime of borrowed content.
///
/// Every method takes the field's name for error messages and the field itself; a reader replaces the
/// field, a writer only looks at it.
pub trait Codec<'a>: Sized {
    /// [`Short`] for a reader, [`EncodeError`] for a writer.
    type Error;

    /// The byte order of the wire.
    fn order(&self) -> ByteOrder;

    /// Bytes read or written so far, counted from the start of the enclosing structure.
    fn position(&self) -> usize;

    /// `N` bytes as they are.
    fn fixed<const N: usize>(&mut self, what: &'static str, v: &mut [u8; N]) -> Result<(), Self::Error>;

    /// `len` borrowed bytes. A writer refuses `v` of another length.
    fn bytes(&mut self, what: &'static str, len: u64, v: &mut &'a [u8]) -> Result<(), Self::Error>;

    /// All bytes that are left; a writer writes `v`.
    fn rest(&mut self, v: &mut &'a [u8]) -> Result<(), Self::Error>;

    /// `count` items. A writer refuses `v` of another length.
    fn seq<T: Item>(&mut self, what: &'static str, count: u64, v: &mut Seq<'a, T>)
    -> Result<(), Self::Error>;

    /// A NUL-terminated name, padded with NULs to a multiple of 8 bytes, which takes all bytes that are
    /// left.
    fn text(&mut self, what: &'static str, v: &mut Text<'a>) -> Result<(), Self::Error>;

    /// The bytes up to the next multiple of 8.
    fn pad8(&mut self, v: &mut Padding<'a>) -> Result<(), Self::Error>;

    /// A field that is there only if `wanted`. A reader makes an unwanted one `None`; a writer leaves it
    /// out whatever it is, and refuses a wanted one that is `None`.
    fn optional<T: Default>(
        &mut self,
        wanted: bool,
        what: &'static str,
        v: &mut Option<T>,
        layout: impl FnOnce(&mut Self, &mut T) -> Result<(), Self::Error>,
    ) -> Result<(), Self::Error>;

    /// An 8-bit number.
    #[inline]
    fn u8(&mut self, what: &'static str, v: &mut u8) -> Result<(), Self::Error> {
        let mut raw = [*v];
        self.fixed(what, &mut raw)?;
        [*v] = raw;
        Ok(())
    }

    /// A 16-bit number.
    #[inline]
    fn u16(&mut self, what: &'static str, v: &mut u16) -> Result<(), Self::Error> {
        let mut raw = self.order().bytes16(*v);
        self.fixed(what, &mut raw)?;
        *v = self.order().u16(raw);
        Ok(())
    }

    /// A 32-bit number.
    #[inline]
    fn u32(&mut self, what: &'static str, v: &mut u32) -> Result<(), Self::Error> {
        let mut raw = self.order().bytes32(*v);
        self.fixed(what, &mut raw)?;
        *v = self.order().u32(raw);
        Ok(())
    }

    /// A 64-bit number.
    #[inline]
    fn u64(&mut self, what: &'static str, v: &mut u64) -> Result<(), Self::Error> {
        let mut raw = self.order().bytes64(*v);
        self.fixed(what, &mut raw)?;
        *v = self.order().u64(raw);
        Ok(())
    }

    /// A 64-bit number that is there only if `wanted`.
    #[inline]
    fn optional_u64(
        &mut self,
        wanted: bool,
        what: &'static str,
        v: &mut Option<u64>,
    ) -> Result<(), Self::Error> {
        self.optional(wanted, what, v, |c, v| c.u64(what, v))
    }

    /// A signed 32-bit number.
    #[inline]
    fn i32(&mut self, what: &'static str, v: &mut i32) -> Result<(), Self::Error> {
        let mut raw = *v as u32;
        self.u32(what, &mut raw)?;
        *v = raw as i32;
        Ok(())
    }

    /// A set of flags in 32 bits; unknown ones are kept.
    #[inline]
    fn flags32<F: Flags<Bits = u32>>(&mut self, what: &'static str, v: &mut F) -> Result<(), Self::Error> {
        let mut bits = v.bits();
        self.u32(what, &mut bits)?;
        *v = F::from_bits_retain(bits);
        Ok(())
    }

    /// A set of flags in 64 bits; unknown ones are kept.
    #[inline]
    fn flags64<F: Flags<Bits = u64>>(&mut self, what: &'static str, v: &mut F) -> Result<(), Self::Error> {
        let mut bits = v.bits();
        self.u64(what, &mut bits)?;
        *v = F::from_bits_retain(bits);
        Ok(())
    }

    /// A 64-bit C bit-field with members of these widths, which the header declares once for both byte
    /// orders, so that a big-endian compiler places them from the other end. `v` has the first member in
    /// its lowest bits always.
    #[inline]
    fn bitfield(&mut self, what: &'static str, widths: &[u32], v: &mut u64) -> Result<(), Self::Error> {
        let mut word = self.order().bitfield64(*v, widths, true);
        self.u64(what, &mut word)?;
        *v = self.order().bitfield64(word, widths, false);
        Ok(())
    }

    /// [`bitfield`](Self::bitfield) of 32 bits; the widths must add up to 32.
    #[inline]
    fn bitfield32(&mut self, what: &'static str, widths: &[u32], v: &mut u32) -> Result<(), Self::Error> {
        let mut word = self.order().bitfield32(*v, widths, true);
        self.u32(what, &mut word)?;
        *v = self.order().bitfield32(word, widths, false);
        Ok(())
    }
}
