//! Numbers of which some bits are known: a value, and a mask of the bits that may be either. Sums and products of these were
//! given by Vishwanathan et al. ("Sound, precise, and fast abstract interpretation with tristate numbers", CGO 2022).

/// Bits of `mask` are unknown; of the others `value` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tnum {
    pub(crate) value: u64,
    pub(crate) mask: u64,
}

impl Tnum {
    pub(crate) const UNKNOWN: Tnum = Tnum { value: 0, mask: u64::MAX };

    pub(crate) const fn of(value: u64) -> Tnum {
        Tnum { value, mask: 0 }
    }

    /// All numbers from one to another, and perhaps more.
    pub(crate) fn range(min: u64, max: u64) -> Tnum {
        let differing = min ^ max;
        let bits = 64 - differing.leading_zeros();
        if bits > 63 {
            return Tnum::UNKNOWN;
        }
        let mask = (1 << bits) - 1;
        Tnum { value: min & !mask, mask }
    }

    /// What is both; `None` if nothing is.
    pub(crate) fn and_also(self, other: Tnum) -> Option<Tnum> {
        let conflict = (self.value ^ other.value) & !(self.mask | other.mask);
        let mask = self.mask & other.mask;
        (conflict == 0).then_some(Tnum { value: (self.value | other.value) & !mask, mask })
    }

    /// Whether every number of the other is one of these.
    pub(crate) fn contains(self, other: Tnum) -> bool {
        other.mask & !self.mask == 0 && self.value == other.value & !self.mask
    }

    pub(crate) fn add(self, other: Tnum) -> Tnum {
        let masks = self.mask.wrapping_add(other.mask);
        let values = self.value.wrapping_add(other.value);
        let mask = values.wrapping_add(masks) ^ values | self.mask | other.mask;
        Tnum { value: values & !mask, mask }
    }

    pub(crate) fn sub(self, other: Tnum) -> Tnum {
        let values = self.value.wrapping_sub(other.value);
        let differing = values.wrapping_add(self.mask) ^ values.wrapping_sub(other.mask);
        let mask = differing | self.mask | other.mask;
        Tnum { value: values & !mask, mask }
    }

    pub(crate) fn and(self, other: Tnum) -> Tnum {
        let value = self.value & other.value;
        Tnum { value, mask: (self.value | self.mask) & (other.value | other.mask) & !value }
    }

    pub(crate) fn or(self, other: Tnum) -> Tnum {
        let value = self.value | other.value;
        Tnum { value, mask: (self.mask | other.mask) & !value }
    }

    pub(crate) fn xor(self, other: Tnum) -> Tnum {
        let mask = self.mask | other.mask;
        Tnum { value: (self.value ^ other.value) & !mask, mask }
    }

    pub(crate) fn mul(mut self, mut other: Tnum) -> Tnum {
        let values = self.value.wrapping_mul(other.value);
        let mut masks = Tnum::of(0);
        while self.value != 0 || self.mask != 0 {
            if self.value & 1 != 0 {
                masks = masks.add(Tnum { value: 0, mask: other.mask });
            } else if self.mask & 1 != 0 {
                masks = masks.add(Tnum { value: 0, mask: other.value | other.mask });
            }
            self = self.rsh(1);
            other = other.lsh(1);
        }
        Tnum::of(values).add(masks)
    }

    pub(crate) fn lsh(self, by: u32) -> Tnum {
        Tnum { value: self.value << by, mask: self.mask << by }
    }

    pub(crate) fn rsh(self, by: u32) -> Tnum {
        Tnum { value: self.value >> by, mask: self.mask >> by }
    }

    /// Of `bits` bits, which fill up with copies of the sign.
    pub(crate) fn arsh(self, by: u32, bits: u32) -> Tnum {
        let up = 64 - bits;
        let arsh = |part: u64| ((part << up) as i64 >> up >> by) as u64 & (u64::MAX >> up);
        Tnum { value: arsh(self.value), mask: arsh(self.mask) }
    }

    /// The low bits.
    pub(crate) fn low(self, bits: u32) -> Tnum {
        let keep = u64::MAX >> (64 - bits);
        Tnum { value: self.value & keep, mask: self.mask & keep }
    }

    /// With other low 32 bits.
    pub(crate) fn with_low(self, low: Tnum) -> Tnum {
        let high = !u64::from(u32::MAX);
        Tnum { value: self.value & high | low.value, mask: self.mask & high | low.mask }
    }
}
