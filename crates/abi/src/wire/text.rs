//! Names and padding.

use core::fmt;

/// A name as records carry it: bytes up to a NUL, in no promised encoding. Compares by the name alone,
/// but what followed the NUL on the wire is kept and written again.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    bytes: &'a [u8],
    padded: bool,
}

impl<'a> Text<'a> {
    /// A name to be written; it ends before its first NUL, if there is one.
    #[inline]
    pub fn new(name: &'a [u8]) -> Self {
        Text { bytes: until_nul(name), padded: false }
    }

    /// A name with its terminator and padding.
    #[inline]
    pub fn from_wire(bytes: &'a [u8]) -> Self {
        Text { bytes, padded: true }
    }

    /// The name without terminator and padding.
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        if self.padded { until_nul(self.bytes) } else { self.bytes }
    }

    /// The name, if it is UTF-8.
    #[inline]
    pub fn to_str(&self) -> Option<&'a str> {
        core::str::from_utf8(self.as_bytes()).ok()
    }

    /// The bytes, with terminator and padding if [`is_padded`](Self::is_padded).
    #[inline]
    pub(super) fn wire_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    #[inline]
    pub(super) fn is_padded(&self) -> bool {
        self.padded
    }
}

#[inline]
fn until_nul(bytes: &[u8]) -> &[u8] {
    core::ffi::CStr::from_bytes_until_nul(bytes).map_or(bytes, core::ffi::CStr::to_bytes)
}

impl Default for Text<'_> {
    #[inline]
    fn default() -> Self {
        Text::new(&[])
    }
}

impl<'a> From<&'a [u8]> for Text<'a> {
    #[inline]
    fn from(name: &'a [u8]) -> Self {
        Text::new(name)
    }
}

impl<'a> From<&'a str> for Text<'a> {
    #[inline]
    fn from(name: &'a str) -> Self {
        Text::new(name.as_bytes())
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Text<'_> {}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}

impl fmt::Display for Text<'_> {
    /// The name, with the replacement character for what is not UTF-8.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.as_bytes().utf8_chunks() {
            f.write_str(chunk.valid())?;
            if !chunk.invalid().is_empty() {
                f.write_str("\u{fffd}")?;
            }
        }
        Ok(())
    }
}

/// Bytes that only fill up to a multiple of 8. Zeros are written; what was found on the wire instead is
/// written again.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Padding<'a>(Option<&'a [u8]>);

impl<'a> Padding<'a> {
    /// The `found` bytes where `wanted` zeros were expected.
    #[inline]
    pub(super) fn found(found: &'a [u8], wanted: usize) -> Self {
        let usual = found.len() == wanted && found.iter().all(|&b| b == 0);
        Padding(if usual { None } else { Some(found) })
    }

    /// The bytes, if they are not the usual zeros.
    #[inline]
    pub fn unusual(&self) -> Option<&'a [u8]> {
        self.0
    }
}

impl fmt::Debug for Padding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("zeros"),
            Some(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn a_name_ends_at_its_nul_however_it_came() {
        let texts = [
            Text::new(b"sh"),
            Text::new(b"sh\0x"),
            Text::from_wire(b"sh\0\0\0\0\0\0"),
            Text::from_wire(b"sh"),
        ];
        for text in texts {
            assert_eq!((text, text.as_bytes()), (Text::from("sh"), &b"sh"[..]));
        }
    }

    #[test]
    fn names_that_are_not_utf_8_can_be_printed() {
        let text = Text::new(b"a\xffb");
        assert_eq!((text.to_str(), format!("{text}")), (None, "a\u{fffd}b".into()));
        assert_eq!(format!("{text:?}"), r#""a\xffb""#);
    }

    #[test]
    fn only_unusual_padding_is_kept() {
        assert_eq!(Padding::found(&[0, 0], 2), Padding::default());
        assert_eq!(Padding::found(&[0, 1], 2).unusual(), Some(&[0, 1][..]));
        assert_eq!(Padding::found(&[0], 2).unusual(), Some(&[0][..]));
        assert_eq!(format!("{:?} {:?}", Padding::default(), Padding::found(b"x", 1)), "zeros \"x\"");
    }
}
