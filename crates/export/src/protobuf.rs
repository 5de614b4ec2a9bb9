//! Messages of protobuf: bytes that are written, and fields that are read from bytes of strangers.

/// Bytes of a message; a field of a message within is its bytes.
#[cfg(any(feature = "otlp", feature = "pprof"))]
#[derive(Default)]
pub(crate) struct Message(pub(crate) Vec<u8>);

#[cfg(any(feature = "otlp", feature = "pprof"))]
impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A number; 0 is left out, as it is what readers take for what is not there.
    pub(crate) fn number(&mut self, field: u64, value: u64) {
        if value != 0 {
            self.varint(field << 3);
            self.varint(value);
        }
    }

    pub(crate) fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// A message within, even if it is empty.
    pub(crate) fn message(&mut self, field: u64, fill: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        fill(&mut inner);
        self.bytes(field, &inner.0);
    }

    pub(crate) fn packed(&mut self, field: u64, values: impl IntoIterator<Item = u64>) {
        self.message(field, |inner| values.into_iter().for_each(|value| inner.varint(value)));
    }
}

/// The value of a field.
#[cfg(feature = "import")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'m> {
    /// Of a varint.
    Number(u64),
    /// Of 4 or 8 bytes.
    Fixed,
    /// A message, a text, or packed numbers.
    Bytes(&'m [u8]),
}

/// The fields of a message, in their order; the last is `None` where the message is broken.
#[cfg(feature = "import")]
pub(crate) struct Fields<'m>(&'m [u8]);

#[cfg(feature = "import")]
impl<'m> Fields<'m> {
    pub(crate) fn of(message: &'m [u8]) -> Self {
        Fields(message)
    }

    fn field(&mut self) -> Option<(u64, Value<'m>)> {
        let key = varint(&mut self.0)?;
        let value = match key & 7 {
            0 => Value::Number(varint(&mut self.0)?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let length = varint(&mut self.0)?;
                Value::Bytes(self.take(usize::try_from(length).ok()?)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return None,
        };
        Some((key >> 3, value))
    }

    fn take(&mut self, length: usize) -> Option<&'m [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

#[cfg(feature = "import")]
impl<'m> Iterator for Fields<'m> {
    type Item = Option<(u64, Value<'m>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field)
    }
}

/// A number of at most ten bytes.
#[cfg(feature = "import")]
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(feature = "import")]
impl<'m> Value<'m> {
    /// The number that it is.
    pub(crate) fn number(self) -> Option<u64> {
        match self {
            Value::Number(value) => Some(value),
            _ => None,
        }
    }

    /// The bytes that it is.
    pub(crate) fn bytes(self) -> Option<&'m [u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Adds the numbers of a repeated field, packed or one by one. Says whether it is such a field.
    #[must_use]
    pub(crate) fn numbers(self, to: &mut Vec<u64>) -> bool {
        match self {
            Value::Number(value) => to.push(value),
            Value::Bytes(mut packed) => {
                while !packed.is_empty() {
                    let Some(value) = varint(&mut packed) else { return false };
                    to.push(value);
                }
            }
            Value::Fixed => return false,
        }
        true
    }
}

#[cfg(all(test, feature = "import", feature = "pprof"))]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_were_written() {
        let mut message = Message::default();
        message.number(1, 300);
        message.number(2, 0);
        message.packed(3, [1, u64::MAX]);
        message.bytes(20, b"text");
        let fields: Option<Vec<_>> = Fields::of(&message.0).collect();
        let fields = fields.expect("the message is whole");
        assert_eq!(fields[0], (1, Value::Number(300)));
        let mut numbers = Vec::new();
        assert!(fields[1].1.numbers(&mut numbers));
        assert_eq!((fields[1].0, numbers), (3, vec![1, u64::MAX]));
        assert_eq!(fields[2], (20, Value::Bytes(b"text")));
    }

    #[test]
    fn seven_bits_go_into_a_byte_and_the_eighth_says_that_more_follow() {
        let written = |value| {
            let mut message = Message::default();
            message.number(2, value);
            message.0
        };
        assert_eq!(written(127), [16, 127]);
        assert_eq!(written(128), [16, 0x80, 1]);
        assert_eq!(written(300), [16, 0xac, 2]);
        assert_eq!(written(u64::MAX), [&[16][..], &[0xff; 9], &[1]].concat());
    }

    #[test]
    fn a_broken_message_ends() {
        for broken in [&[0x08][..], &[0x12, 5, 1], &[0x0b], &[0x80; 11], &[0x09, 1]] {
            assert_eq!(Fields::of(broken).last(), Some(None), "{broken:x?}");
        }
    }
}
