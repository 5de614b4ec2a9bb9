//! Additions that the layouts of sections and tool records need to [`perfuse_abi::wire`]: lists with a count,
//! padded strings, NUL-terminated names, and parts that are there only if bytes are left.

use perfuse_abi::wire::{Codec, EncodeError, Reader, Short, Sink, Text, Writer};
use perfuse_abi::{Attr, AttrError, ByteOrder, WireAttr};
use std::fmt;

/// A codec that can also do NUL-terminated names.
pub(crate) trait FileCodec<'a>: Codec<'a> {
    /// A name and the NUL after it. A writer refuses a name with a NUL in it.
    fn c_string(&mut self, what: &'static str, v: &mut &'a [u8]) -> Result<(), Self::Error>;
}

impl<'a> FileCodec<'a> for Reader<'a> {
    fn c_string(&mut self, what: &'static str, v: &mut &'a [u8]) -> Result<(), Short> {
        let rest = self.remaining();
        let len = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
        self.bytes(what, len as u64, v)?;
        self.fixed(what, &mut [0])
    }
}

impl<'a, S: Sink> FileCodec<'a> for Writer<'_, S> {
    fn c_string(&mut self, what: &'static str, v: &mut &'a [u8]) -> Result<(), EncodeError> {
        let len = v.iter().position(|&byte| byte == 0).unwrap_or(v.len());
        self.bytes(what, len as u64, v)?;
        self.fixed(what, &mut [0])
    }
}

/// Facts that the bytes of a section or record do not tell about themselves. Writers need none of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Surroundings {
    /// Where the bytes end, counted as [`Codec::position`] does.
    pub(crate) end: usize,
    /// How many cpus the machine could have ([`NrCpus::available`](crate::feature::NrCpus)).
    pub(crate) cpus: u32,
    /// How long the attr of a HEADER_ATTR record is, which a field within it tells.
    pub(crate) attr_len: usize,
}

impl Surroundings {
    /// Whether a part of `len` bytes follows: for a reader if there are as many bytes, for a writer if
    /// there `is` such a part.
    pub(crate) fn has<'a>(&self, c: &impl Codec<'a>, len: u64, is: bool) -> bool {
        is || self.end.saturating_sub(c.position()) as u64 >= len
    }
}

/// A layout of this crate: one function for both directions.
pub(crate) trait FileLayout<'a>: Default {
    /// Names the fields to `c` in order.
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, around: &Surroundings) -> Result<(), C::Error>;
}

/// `count` items. Memory follows what is really there: each item reads some bytes before the next.
pub(crate) fn items<'a, C: FileCodec<'a>, T: Default>(
    c: &mut C,
    count: u64,
    v: &mut Vec<T>,
    mut layout: impl FnMut(&mut C, &mut T) -> Result<(), C::Error>,
) -> Result<(), C::Error> {
    v.truncate(usize::try_from(count).unwrap_or(usize::MAX));
    let mut index = 0;
    while (index as u64) < count {
        if v.len() == index {
            v.push(T::default());
        }
        layout(c, &mut v[index])?;
        index += 1;
    }
    Ok(())
}

/// A 32-bit count and as many items.
pub(crate) fn list<'a, C: FileCodec<'a>, T: FileLayout<'a>>(
    c: &mut C,
    what: &'static str,
    v: &mut Vec<T>,
    around: &Surroundings,
) -> Result<(), C::Error> {
    let mut count = v.len() as u32;
    c.u32(what, &mut count)?;
    items(c, count.into(), v, |c, item| item.layout(c, around))
}

/// A 32-bit length and as many bytes.
pub(crate) fn bytes32<'a, C: Codec<'a>>(
    c: &mut C,
    what: &'static str,
    v: &mut &'a [u8],
) -> Result<(), C::Error> {
    let mut len = v.len() as u32;
    c.u32(what, &mut len)?;
    c.bytes(what, len.into(), v)
}

/// A 64-bit length and as many bytes.
pub(crate) fn bytes64<'a, C: Codec<'a>>(
    c: &mut C,
    what: &'static str,
    v: &mut &'a [u8],
) -> Result<(), C::Error> {
    let mut len = v.len() as u64;
    c.u64(what, &mut len)?;
    c.bytes(what, len, v)
}

impl<'a> FileLayout<'a> for u32 {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        c.u32("word", self)
    }
}

static ZEROS: [u8; 64] = [0; 64];

/// A string with a stated length that includes its NUL and padding. Compares by the text alone; padding
/// found in a file is written again as it was.
///
/// The default is a string of no bytes, not even a NUL, which perf does not expect: for an empty text to be
/// written there is `Str::new("")`.
#[derive(Clone, Copy, Default)]
pub struct Str<'a> {
    bytes: &'a [u8],
    zeros: usize,
}

impl<'a> Str<'a> {
    /// Text to be written; it ends before its first NUL, if there is one. As perf does, it is filled up
    /// with at least one NUL to a multiple of 64 bytes.
    pub fn new(text: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        let bytes = Text::new(text.as_ref()).as_bytes();
        Str { bytes, zeros: 64 - bytes.len() % 64 }
    }

    /// The text.
    pub fn as_bytes(&self) -> &'a [u8] {
        Text::from_wire(self.bytes).as_bytes()
    }

    /// The text, if it is UTF-8.
    pub fn to_str(&self) -> Option<&'a str> {
        std::str::from_utf8(self.as_bytes()).ok()
    }

    /// Bytes on the wire.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + self.zeros
    }

    /// The bytes; their number was written or read before.
    pub(crate) fn content<C: Codec<'a>>(
        &mut self,
        c: &mut C,
        what: &'static str,
        len: u64,
    ) -> Result<(), C::Error> {
        c.bytes(what, len.wrapping_sub(self.zeros as u64), &mut self.bytes)?;
        c.bytes(what, self.zeros as u64, &mut &ZEROS[..self.zeros])
    }

    /// A 32-bit length and the string.
    pub(crate) fn counted<C: Codec<'a>>(&mut self, c: &mut C, what: &'static str) -> Result<(), C::Error> {
        let mut len = self.len() as u32;
        c.u32(what, &mut len)?;
        self.content(c, what, len.into())
    }
}

impl<'a> FileLayout<'a> for Str<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        self.counted(c, "string")
    }
}

impl<'a> From<&'a str> for Str<'a> {
    fn from(text: &'a str) -> Self {
        Str::new(text)
    }
}

impl PartialEq for Str<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Str<'_> {}

impl fmt::Debug for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}

impl fmt::Display for Str<'_> {
    /// The text, with the replacement character for what is not UTF-8.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Text::new(self.as_bytes()).fmt(f)
    }
}

/// An attr as bytes. [`decode`](Self::decode) takes it apart; [`WireAttr::encode`] makes such bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct AttrBytes<'a>(pub &'a [u8]);

impl<'a> AttrBytes<'a> {
    /// The attr. Its own `size` may be less than there are bytes.
    pub fn decode(&self, order: ByteOrder) -> Result<WireAttr<'a>, AttrError> {
        Attr::decode(self.0, order)
    }
}

impl fmt::Debug for AttrBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}
