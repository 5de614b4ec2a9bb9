//! Errors at the border: too few bytes when decoding, a value that does not fit its layout
//! when encoding.

use core::fmt;

/// The bytes ended before the field did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short {
    /// The field.
    pub what: &'static str,
    /// Where it starts, in bytes from the start of the enclosing structure.
    pub offset: usize,
    /// How many bytes it needs; `usize::MAX` for a count too large to be meant.
    pub needed: usize,
    /// How many bytes are left.
    pub available: usize,
}

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Short { what, offset, needed, available } = self;
        write!(f, "{what} at byte {offset} needs {needed} bytes, {available} are left")
    }
}

impl core::error::Error for Short {}

/// A value cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// The sink is full.
    Full(Short),
    /// The format asks for a field that the value does not have.
    Missing(&'static str),
    /// A sequence has not the length that another field or the format gives it.
    Count {
        /// The sequence.
        what: &'static str,
        /// The length it must have, in items.
        expected: u64,
        /// The length it has.
        found: u64,
    },
    /// The record is longer than the 16 bits of `header.size` can tell. Linux writes such a record with
    /// a wrapped size, over what follows it in the buffer (rule G12).
    TooLong {
        /// The length in bytes.
        size: usize,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EncodeError::Full(short) => write!(f, "no room left: {short}"),
            EncodeError::Missing(what) => write!(f, "the format asks for {what}, which is missing"),
            EncodeError::Count { what, expected, found } => {
                write!(f, "{what} must have {expected} items and has {found}")
            }
            EncodeError::TooLong { size } => write!(f, "a record of {size} bytes exceeds the limit of 65535"),
        }
    }
}

impl core::error::Error for EncodeError {}

impl From<Short> for EncodeError {
    fn from(short: Short) -> Self {
        EncodeError::Full(short)
    }
}
