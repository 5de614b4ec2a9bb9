//! Lines under construction: bytes, with numbers in the columns that C's printf gives them. Written for
//! speed, since a line has a dozen numbers and a recording millions of lines.

use super::{foreign, width};
use std::fmt;

/// A buffer of lines.
#[derive(Debug, Default)]
pub struct LineBuffer(pub Vec<u8>);

impl fmt::Write for LineBuffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

impl LineBuffer {
    /// Words of this program.
    #[inline]
    pub fn push(&mut self, words: &'static str) {
        self.0.extend_from_slice(words.as_bytes());
    }

    /// Text that others have written.
    #[inline]
    pub fn foreign(&mut self, text: &(impl AsRef<[u8]> + ?Sized)) {
        self.0.extend_from_slice(foreign(text).as_bytes());
    }

    /// A text that was made before.
    #[inline]
    pub fn again(&mut self, made: &[u8]) {
        self.0.extend_from_slice(made);
    }

    /// `%*s`: text that others have written, in at least `columns` columns, spaces first.
    #[inline]
    pub fn right(&mut self, text: &(impl AsRef<[u8]> + ?Sized), columns: usize) {
        let text = foreign(text);
        self.spaces(columns.saturating_sub(width(&text)));
        self.0.extend_from_slice(text.as_bytes());
    }

    /// So many spaces.
    #[inline]
    pub fn spaces(&mut self, count: usize) {
        self.0.resize(self.0.len() + count, b' ');
    }

    /// `%*lu`
    #[inline]
    pub fn decimal(&mut self, number: u64, width: usize) {
        let mut digits = [0; 20];
        let start = decimal(number, &mut digits);
        self.spaces(width.saturating_sub(digits.len() - start));
        self.0.extend_from_slice(&digits[start..]);
    }

    /// `%0*lu`
    #[inline]
    pub fn zeros(&mut self, number: u64, width: usize) {
        let mut digits = [b'0'; 20];
        let start = decimal(number, &mut digits).min(20 - width.min(20));
        self.0.extend_from_slice(&digits[start..]);
    }

    /// `%*d` of an id; -1 is none.
    #[inline]
    pub fn id(&mut self, id: u32, width: usize) {
        match id as i32 {
            id if id >= 0 => self.decimal(id as u64, width),
            id => self.right(&id.to_string(), width),
        }
    }

    /// `%*lx`
    #[inline]
    pub fn hex(&mut self, number: u64, width: usize) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut digits = [b'0'; 16];
        let (mut rest, mut start) = (number, 16);
        loop {
            start -= 1;
            digits[start] = DIGITS[(rest & 15) as usize];
            rest >>= 4;
            if rest == 0 {
                break;
            }
        }
        self.spaces(width.saturating_sub(digits.len() - start));
        self.0.extend_from_slice(&digits[start..]);
    }
}

/// Writes digits to the end; the start of them.
#[inline]
fn decimal(number: u64, digits: &mut [u8; 20]) -> usize {
    let (mut rest, mut start) = (number, 20);
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_columns() {
        let mut text = LineBuffer::default();
        text.decimal(0, 3);
        text.decimal(u64::MAX, 1);
        text.zeros(7, 3);
        text.zeros(12345, 3);
        text.id(u32::MAX, 5);
        text.hex(0xffff_ffff_8100_0000, 4);
        text.hex(0, 2);
        assert_eq!(text.0, b"  01844674407370955161500712345   -1ffffffff81000000 0");
    }
}
