//! Byte order of the data at hand: a file may come from a machine of the other kind.

/// The order of the bytes in multi-byte numbers, and with it the order in which a C compiler of such a
/// machine lays out bit-fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first (x86, arm64, riscv).
    Little,
    /// Most significant byte first (s390x, older powerpc).
    Big,
}

impl ByteOrder {
    /// The order of the machine this code was compiled for: that of its kernel's records.
    pub const NATIVE: ByteOrder =
        if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };

    /// A `u16` from its two bytes.
    #[inline]
    pub fn u16(self, b: [u8; 2]) -> u16 {
        match self {
            ByteOrder::Little => u16::from_le_bytes(b),
            ByteOrder::Big => u16::from_be_bytes(b),
        }
    }

    /// A `u32` from its four bytes.
    #[inline]
    pub fn u32(self, b: [u8; 4]) -> u32 {
        match self {
            ByteOrder::Little => u32::from_le_bytes(b),
            ByteOrder::Big => u32::from_be_bytes(b),
        }
    }

    /// A `u64` from its eight bytes.
    #[inline]
    pub fn u64(self, b: [u8; 8]) -> u64 {
        match self {
            ByteOrder::Little => u64::from_le_bytes(b),
            ByteOrder::Big => u64::from_be_bytes(b),
        }
    }

    /// The two bytes of a `u16`.
    #[inline]
    pub fn bytes16(self, v: u16) -> [u8; 2] {
        match self {
            ByteOrder::Little => v.to_le_bytes(),
            ByteOrder::Big => v.to_be_bytes(),
        }
    }

    /// The four bytes of a `u32`.
    #[inline]
    pub fn bytes32(self, v: u32) -> [u8; 4] {
        match self {
            ByteOrder::Little => v.to_le_bytes(),
            ByteOrder::Big => v.to_be_bytes(),
        }
    }

    /// The eight bytes of a `u64`.
    #[inline]
    pub fn bytes64(self, v: u64) -> [u8; 8] {
        match self {
            ByteOrder::Little => v.to_le_bytes(),
            ByteOrder::Big => v.to_be_bytes(),
        }
    }

    /// Converts a 64-bit C bit-field word between this order's layout and the one used in this crate
    /// (first field in the lowest bits, as on little-endian machines). Its own inverse.
    ///
    /// A big-endian compiler places the first bit-field in the highest bits, but keeps the bits *within*
    /// each field in the usual order; `widths` are the widths of the fields in declaration order and
    /// must add up to at most 64 (the rest is one reserved field).
    ///
    /// `to_wire` tells the direction: from this crate's layout to the wire (`true`) or back.
    #[inline]
    pub(crate) fn bitfield64(self, word: u64, widths: &[u32], to_wire: bool) -> u64 {
        match self {
            ByteOrder::Little => word,
            ByteOrder::Big => {
                let used: u32 = widths.iter().sum();
                let rest = [64 - used];
                let (mut low, mut out) = (0, 0);
                for &width in widths.iter().chain(&rest).filter(|&&w| w > 0) {
                    let mask = u64::MAX >> (64 - width);
                    let high = 64 - low - width;
                    let (from, to) = if to_wire { (low, high) } else { (high, low) };
                    out |= ((word >> from) & mask) << to;
                    low += width;
                }
                out
            }
        }
    }

    /// [`bitfield64`](Self::bitfield64) for a word of 32 bits; the widths must add up to 32.
    #[inline]
    pub(crate) fn bitfield32(self, word: u32, widths: &[u32], to_wire: bool) -> u32 {
        match self {
            ByteOrder::Little => word,
            ByteOrder::Big if to_wire => (self.bitfield64(word.into(), widths, true) >> 32) as u32,
            ByteOrder::Big => self.bitfield64(u64::from(word) << 32, widths, false) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ByteOrder;

    #[test]
    fn a_big_endian_bit_field_keeps_the_bits_of_each_field_in_order() {
        // struct { u64 a:1, b:2, c:61 } with a=1, b=0b10: on a big-endian machine a is bit 63, b is 62..61.
        let widths = [1, 2];
        assert_eq!(ByteOrder::Big.bitfield64(1 << 63 | 0b10 << 61, &widths, false), 1 | 0b10 << 1);
        assert_eq!(ByteOrder::Big.bitfield64(1 | 0b10 << 1, &widths, true), 1 << 63 | 0b10 << 61);
        assert_eq!(ByteOrder::Little.bitfield64(0b101, &widths, true), 0b101);
    }

    #[test]
    fn bit_fields_survive_the_round_trip() {
        let widths = [1; 40];
        for word in [0, 1, u64::MAX, 0x8000_0000_0000_0001, 0x0123_4567_89ab_cdef] {
            let wire = ByteOrder::Big.bitfield64(word, &widths, true);
            assert_eq!(ByteOrder::Big.bitfield64(wire, &widths, false), word);
        }
    }
}
