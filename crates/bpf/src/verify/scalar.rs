//! What a number may be: known bits, and ranges of the whole and of its low half, each unsigned and signed. Every operation of the
//! instruction set has a counterpart here that gives at least all results that it may have; the tests try that with numbers.

use super::tnum::Tnum;
use crate::insn::{AluOp, Cond, Width};
use core::fmt;

/// All that is known of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scalar {
    pub(crate) bits: Tnum,
    pub(crate) umin: u64,
    pub(crate) umax: u64,
    pub(crate) smin: i64,
    pub(crate) smax: i64,
    u32min: u32,
    u32max: u32,
    s32min: i32,
    s32max: i32,
}

/// A range of `bits` bits as wide numbers: unsigned and signed.
#[derive(Clone, Copy)]
struct Ranges {
    umin: u64,
    umax: u64,
    smin: i64,
    smax: i64,
}

impl Ranges {
    const fn all(bits: u32) -> Ranges {
        Ranges {
            umin: 0,
            umax: u64::MAX >> (64 - bits),
            smin: i64::MIN >> (64 - bits),
            smax: i64::MAX >> (64 - bits),
        }
    }

    fn set_unsigned(&mut self, min: u64, max: u64) {
        (self.umin, self.umax) = (min, max);
    }

    /// Ends that were worked out exactly: they hold if both went round as often.
    fn exact(bits: u32, unsigned: (i128, i128), signed: (i128, i128)) -> Ranges {
        let mut ranges = Ranges::all(bits);
        let round = |value: i128| value >> bits;
        if round(unsigned.0) == round(unsigned.1) {
            let low = |value: i128| value as u64 & (u64::MAX >> (64 - bits));
            ranges.set_unsigned(low(unsigned.0), low(unsigned.1));
        }
        let half = 1i128 << (bits - 1);
        if round(signed.0 + half) == round(signed.1 + half) {
            let up = 64 - bits;
            let low = |value: i128| (value as i64) << up >> up;
            (ranges.smin, ranges.smax) = (low(signed.0), low(signed.1));
        }
        ranges
    }
}

impl Scalar {
    pub(crate) const UNKNOWN: Scalar = Scalar {
        bits: Tnum::UNKNOWN,
        umin: 0,
        umax: u64::MAX,
        smin: i64::MIN,
        smax: i64::MAX,
        u32min: 0,
        u32max: u32::MAX,
        s32min: i32::MIN,
        s32max: i32::MAX,
    };

    pub(crate) const fn of(value: u64) -> Scalar {
        let (low, half) = (value as u32, value as i32);
        Scalar {
            bits: Tnum::of(value),
            umin: value,
            umax: value,
            smin: value as i64,
            smax: value as i64,
            u32min: low,
            u32max: low,
            s32min: half,
            s32max: half,
        }
    }

    /// Any number of so many bytes.
    pub(crate) fn of_bytes(bytes: u32) -> Scalar {
        Scalar::UNKNOWN.low(bytes * 8)
    }

    /// Any number of a signed range.
    pub(crate) fn between(min: i64, max: i64) -> Scalar {
        Scalar { smin: min, smax: max, ..Scalar::UNKNOWN }.settled().unwrap_or(Scalar::UNKNOWN)
    }

    /// Its value, if there is only one.
    pub(crate) fn value(&self) -> Option<u64> {
        (self.bits.mask == 0).then_some(self.bits.value)
    }

    /// Whether every number of the other is one of these.
    pub(crate) fn contains(&self, other: &Scalar) -> bool {
        self.umin <= other.umin
            && self.umax >= other.umax
            && self.smin <= other.smin
            && self.smax >= other.smax
            && self.u32min <= other.u32min
            && self.u32max >= other.u32max
            && self.s32min <= other.s32min
            && self.s32max >= other.s32max
            && self.bits.contains(other.bits)
    }

    /// Tells the parts what the others know. `None` if no number is all of it.
    fn settled(mut self) -> Option<Scalar> {
        for _ in 0..2 {
            self = self.learned()?;
        }
        Some(self)
    }

    fn learned(mut self) -> Option<Scalar> {
        // Of the bits.
        let Tnum { value, mask } = self.bits;
        self.umin = self.umin.max(value);
        self.umax = self.umax.min(value | mask);
        self.smin = self.smin.max((value | mask & 1 << 63) as i64);
        self.smax = self.smax.min((value | mask & (u64::MAX >> 1)) as i64);
        let (value, mask) = (value as u32, mask as u32);
        self.u32min = self.u32min.max(value);
        self.u32max = self.u32max.min(value | mask);
        self.s32min = self.s32min.max((value | mask & 1 << 31) as i32);
        self.s32max = self.s32max.min((value | mask & (u32::MAX >> 1)) as i32);
        // The low half, of ranges that stay within one high half.
        if self.umin >> 32 == self.umax >> 32 {
            self.u32min = self.u32min.max(self.umin as u32);
            self.u32max = self.u32max.min(self.umax as u32);
        }
        if self.smin >> 32 == self.smax >> 32 {
            self.u32min = self.u32min.max(self.smin as u32);
            self.u32max = self.u32max.min(self.smax as u32);
        }
        // Ranges of either sign.
        if self.u32min as i32 <= self.u32max as i32 {
            self.s32min = self.s32min.max(self.u32min as i32);
            self.s32max = self.s32max.min(self.u32max as i32);
        }
        if self.s32min as u32 <= self.s32max as u32 {
            self.u32min = self.u32min.max(self.s32min as u32);
            self.u32max = self.u32max.min(self.s32max as u32);
        }
        if self.umin as i64 <= self.umax as i64 {
            self.smin = self.smin.max(self.umin as i64);
            self.smax = self.smax.min(self.umax as i64);
        }
        if self.smin as u64 <= self.smax as u64 {
            self.umin = self.umin.max(self.smin as u64);
            self.umax = self.umax.min(self.smax as u64);
        }
        // The whole, of its low half.
        let with_low = |whole: u64, low: u32| whole & !u64::from(u32::MAX) | u64::from(low);
        self.umin = self.umin.max(with_low(self.umin, self.u32min));
        self.umax = self.umax.min(with_low(self.umax, self.u32max));
        self.smin = self.smin.max(with_low(self.smin as u64, self.u32min) as i64);
        self.smax = self.smax.min(with_low(self.smax as u64, self.u32max) as i64);
        if self.smin >= i64::from(i32::MIN) && self.smax <= i64::from(i32::MAX) {
            self.smin = self.smin.max(i64::from(self.s32min));
            self.smax = self.smax.min(i64::from(self.s32max));
        }
        let empty = self.umin > self.umax
            || self.smin > self.smax
            || self.u32min > self.u32max
            || self.s32min > self.s32max;
        if empty {
            return None;
        }
        let bits = self.bits.and_also(Tnum::range(self.umin, self.umax))?;
        let low = bits.low(32).and_also(Tnum::range(u64::from(self.u32min), u64::from(self.u32max)))?;
        self.bits = bits.with_low(low);
        Some(self)
    }

    /// What arithmetic gives, which is never nothing.
    fn result(self) -> Scalar {
        self.settled().unwrap_or(Scalar::UNKNOWN)
    }

    fn whole(&self) -> Ranges {
        Ranges { umin: self.umin, umax: self.umax, smin: self.smin, smax: self.smax }
    }

    fn half(&self) -> Ranges {
        Ranges {
            umin: u64::from(self.u32min),
            umax: u64::from(self.u32max),
            smin: i64::from(self.s32min),
            smax: i64::from(self.s32max),
        }
    }

    fn of_parts(bits: Tnum, whole: Ranges, half: Ranges) -> Scalar {
        let Ranges { umin, umax, smin, smax } = whole;
        Scalar {
            bits,
            umin,
            umax,
            smin,
            smax,
            u32min: half.umin as u32,
            u32max: half.umax as u32,
            s32min: half.smin as i32,
            s32max: half.smax as i32,
        }
    }

    /// The low bits, and zeros above.
    pub(crate) fn low(&self, bits: u32) -> Scalar {
        match bits {
            64 => *self,
            32 => {
                let half = self.half();
                let whole = Ranges { smin: half.umin as i64, smax: half.umax as i64, ..half };
                Scalar::of_parts(self.bits.low(32), whole, half).result()
            }
            _ => Scalar { bits: self.bits.low(bits), ..Scalar::UNKNOWN }.result(),
        }
    }

    /// The low bits, with copies of their sign above, in a register of this width.
    pub(crate) fn extended(&self, bits: u32, width: Width) -> Scalar {
        let up = 64 - bits;
        let fits = self.smin >= i64::MIN >> up && self.smax <= i64::MAX >> up;
        let extended = if fits {
            *self
        } else {
            let low = self.bits.low(bits);
            let sign = 1u64 << (bits - 1);
            let mask = if low.mask & sign != 0 { low.mask | !0 << bits } else { low.mask };
            let value = if low.value & sign != 0 { low.value | !0 << bits } else { low.value };
            let (mut smin, mut smax) = (i64::MIN >> up, i64::MAX >> up);
            if bits == 32 {
                (smin, smax) = (i64::from(self.s32min), i64::from(self.s32max));
            }
            Scalar { bits: Tnum { value, mask }, smin, smax, ..Scalar::UNKNOWN }.result()
        };
        if width == Width::W32 { extended.low(32) } else { extended }
    }

    /// `self op other`.
    pub(crate) fn alu(&self, op: AluOp, width: Width, other: &Scalar) -> Scalar {
        if let (Some(a), Some(b)) = (self.value(), other.value()) {
            if let Some(value) = constant(op, width, a, b) {
                return Scalar::of(value);
            }
        }
        let (a, b) = match width {
            Width::W64 => (*self, *other),
            Width::W32 => (self.low(32), other.low(32)),
        };
        let bits = match op {
            AluOp::Add => a.bits.add(b.bits),
            AluOp::Sub => a.bits.sub(b.bits),
            AluOp::Mul => a.bits.mul(b.bits),
            AluOp::And => a.bits.and(b.bits),
            AluOp::Or => a.bits.or(b.bits),
            AluOp::Xor => a.bits.xor(b.bits),
            AluOp::Mov => return b,
            AluOp::Lsh | AluOp::Rsh | AluOp::Arsh => return a.shifted(op, width, &b),
            AluOp::Div | AluOp::SDiv | AluOp::Mod | AluOp::SMod => {
                return if width == Width::W32 { Scalar::of_bytes(4) } else { Scalar::UNKNOWN };
            }
        };
        let parts = |size: u32, a: Ranges, b: Ranges| ranges(op, size, a, b, bits.low(size));
        let half = parts(32, a.half(), b.half());
        match width {
            Width::W64 => Scalar::of_parts(bits, parts(64, a.whole(), b.whole()), half).result(),
            Width::W32 => {
                let bits = bits.low(32);
                Scalar::of_parts(Tnum { mask: bits.mask | !0 << 32, ..bits }, Ranges::all(64), half).low(32)
            }
        }
    }

    fn shifted(&self, op: AluOp, width: Width, by: &Scalar) -> Scalar {
        let size = if width == Width::W64 { 64 } else { 32 };
        let any = if width == Width::W64 { Scalar::UNKNOWN } else { Scalar::of_bytes(4) };
        let Some(by) = by.value().filter(|by| *by < u64::from(size)).map(|by| by as u32) else { return any };
        let part = if width == Width::W64 { self.whole() } else { self.half() };
        let mut ranges = Ranges::all(size);
        let bits = match op {
            AluOp::Lsh => {
                if part.umax <= ranges.umax >> by {
                    ranges.set_unsigned(part.umin << by, part.umax << by);
                }
                self.bits.lsh(by).low(size)
            }
            AluOp::Rsh => {
                ranges.set_unsigned(part.umin >> by, part.umax >> by);
                self.bits.low(size).rsh(by)
            }
            _ => {
                (ranges.smin, ranges.smax) = (part.smin >> by, part.smax >> by);
                self.bits.arsh(by, size)
            }
        };
        match width {
            Width::W64 => Scalar::of_parts(bits, ranges, Ranges::all(32)).result(),
            Width::W32 => {
                Scalar::of_parts(Tnum { mask: bits.mask | !0 << 32, ..bits }, Ranges::all(64), ranges).low(32)
            }
        }
    }

    /// What both are, if the comparison has this outcome; `None` if it cannot have it.
    pub(crate) fn compared(
        &self,
        cond: Cond,
        width: Width,
        other: &Scalar,
        outcome: bool,
    ) -> Option<(Scalar, Scalar)> {
        let cond = match (cond, outcome) {
            (Cond::Set, _) | (_, true) => cond,
            (Cond::Eq, _) => Cond::Ne,
            (Cond::Ne, _) => Cond::Eq,
            (Cond::Gt, _) => Cond::Le,
            (Cond::Le, _) => Cond::Gt,
            (Cond::Ge, _) => Cond::Lt,
            (Cond::Lt, _) => Cond::Ge,
            (Cond::SGt, _) => Cond::SLe,
            (Cond::SLe, _) => Cond::SGt,
            (Cond::SGe, _) => Cond::SLt,
            (Cond::SLt, _) => Cond::SGe,
        };
        match cond {
            Cond::Lt | Cond::Le | Cond::SLt | Cond::SLe => {
                let swapped = match cond {
                    Cond::Lt => Cond::Gt,
                    Cond::Le => Cond::Ge,
                    Cond::SLt => Cond::SGt,
                    _ => Cond::SGe,
                };
                let (b, a) = other.compared(swapped, width, self, true)?;
                return Some((a, b));
            }
            _ => {}
        }
        let (mut a, mut b) = (*self, *other);
        let is_half = width == Width::W32;
        match cond {
            Cond::Eq if is_half => {
                let low = a.bits.low(32).and_also(b.bits.low(32))?;
                a.bits = a.bits.with_low(low);
                b.bits = b.bits.with_low(low);
                a.u32min = a.u32min.max(b.u32min);
                a.u32max = a.u32max.min(b.u32max);
                a.s32min = a.s32min.max(b.s32min);
                a.s32max = a.s32max.min(b.s32max);
                (b.u32min, b.u32max, b.s32min, b.s32max) = (a.u32min, a.u32max, a.s32min, a.s32max);
            }
            Cond::Eq => {
                a.bits = a.bits.and_also(b.bits)?;
                a.umin = a.umin.max(b.umin);
                a.umax = a.umax.min(b.umax);
                a.smin = a.smin.max(b.smin);
                a.smax = a.smax.min(b.smax);
                a.u32min = a.u32min.max(b.u32min);
                a.u32max = a.u32max.min(b.u32max);
                a.s32min = a.s32min.max(b.s32min);
                a.s32max = a.s32max.min(b.s32max);
                b = a;
            }
            Cond::Ne => {
                a = a.other_than(&b, is_half)?;
                b = b.other_than(self, is_half)?;
            }
            Cond::Set => {
                let half = if is_half { u64::from(u32::MAX) } else { u64::MAX };
                if let Some(bits) = b.value().map(|bits| bits & half) {
                    if !outcome {
                        a.bits = a.bits.and_also(Tnum { value: 0, mask: !bits })?;
                    } else if (a.bits.value | a.bits.mask) & bits == 0 {
                        return None;
                    } else if bits.is_power_of_two() {
                        a.bits = a.bits.and_also(Tnum { value: bits, mask: !bits })?;
                    }
                } else if !outcome && a.bits.value & b.bits.value & half != 0
                    || outcome && (a.bits.value | a.bits.mask) & (b.bits.value | b.bits.mask) & half == 0
                {
                    return None;
                }
            }
            Cond::Gt | Cond::Ge => {
                let more = u64::from(cond == Cond::Gt);
                if is_half {
                    a.u32min = a.u32min.max(b.u32min.checked_add(more as u32)?);
                    b.u32max = b.u32max.min(a.u32max.checked_sub(more as u32)?);
                } else {
                    a.umin = a.umin.max(b.umin.checked_add(more)?);
                    b.umax = b.umax.min(a.umax.checked_sub(more)?);
                }
            }
            _ => {
                let more = i64::from(cond == Cond::SGt);
                if is_half {
                    a.s32min = a.s32min.max(b.s32min.checked_add(more as i32)?);
                    b.s32max = b.s32max.min(a.s32max.checked_sub(more as i32)?);
                } else {
                    a.smin = a.smin.max(b.smin.checked_add(more)?);
                    b.smax = b.smax.min(a.smax.checked_sub(more)?);
                }
            }
        }
        Some((a.settled()?, b.settled()?))
    }

    /// Without the other's value, if it has one.
    fn other_than(mut self, other: &Scalar, is_half: bool) -> Option<Scalar> {
        if is_half {
            let Some(low) = other.bits.low(32).value_if_known() else { return Some(self) };
            let low = low as u32;
            if self.u32min == low {
                self.u32min = low.checked_add(1)?;
            }
            if self.u32max == low {
                self.u32max = low.checked_sub(1)?;
            }
            if self.s32min == low as i32 {
                self.s32min = self.s32min.checked_add(1)?;
            }
            if self.s32max == low as i32 {
                self.s32max = self.s32max.checked_sub(1)?;
            }
            return Some(self);
        }
        let Some(value) = other.value() else { return Some(self) };
        if self.umin == value {
            self.umin = value.checked_add(1)?;
        }
        if self.umax == value {
            self.umax = value.checked_sub(1)?;
        }
        if self.smin == value as i64 {
            self.smin = self.smin.checked_add(1)?;
        }
        if self.smax == value as i64 {
            self.smax = self.smax.checked_sub(1)?;
        }
        Some(self)
    }
}

impl Tnum {
    fn value_if_known(self) -> Option<u64> {
        (self.mask == 0).then_some(self.value)
    }
}

/// Ranges of a part, of the ranges of both and of the bits of the result.
fn ranges(op: AluOp, size: u32, a: Ranges, b: Ranges, bits: Tnum) -> Ranges {
    let wide = |value: u64| i128::from(value);
    let mut ranges = Ranges::all(size);
    match op {
        AluOp::Add => Ranges::exact(
            size,
            (wide(a.umin) + wide(b.umin), wide(a.umax) + wide(b.umax)),
            (i128::from(a.smin) + i128::from(b.smin), i128::from(a.smax) + i128::from(b.smax)),
        ),
        AluOp::Sub => Ranges::exact(
            size,
            (wide(a.umin) - wide(b.umax), wide(a.umax) - wide(b.umin)),
            (i128::from(a.smin) - i128::from(b.smax), i128::from(a.smax) - i128::from(b.smin)),
        ),
        AluOp::Mul => {
            let all = Ranges::all(size);
            let product = u128::from(a.umax) * u128::from(b.umax);
            if product <= u128::from(all.umax) {
                ranges.set_unsigned(a.umin * b.umin, product as u64);
            }
            let ends = [(a.smin, b.smin), (a.smin, b.smax), (a.smax, b.smin), (a.smax, b.smax)];
            let ends = ends.map(|(a, b)| i128::from(a) * i128::from(b));
            let (min, max) =
                ends.iter().fold((i128::MAX, i128::MIN), |(min, max), end| (min.min(*end), max.max(*end)));
            if min >= i128::from(all.smin) && max <= i128::from(all.smax) {
                (ranges.smin, ranges.smax) = (min as i64, max as i64);
            }
            ranges
        }
        AluOp::And => {
            ranges.set_unsigned(bits.value, a.umax.min(b.umax));
            ranges
        }
        AluOp::Or => {
            ranges.set_unsigned(a.umin.max(b.umin), bits.value | bits.mask);
            ranges
        }
        _ => {
            ranges.set_unsigned(bits.value, bits.value | bits.mask);
            ranges
        }
    }
}

/// Of two values the result; `None` where Linux does not work it out either.
fn constant(op: AluOp, width: Width, a: u64, b: u64) -> Option<u64> {
    let size = if width == Width::W64 { 64 } else { 32 };
    let (a, b) = if width == Width::W64 { (a, b) } else { (a & 0xffff_ffff, b & 0xffff_ffff) };
    let shift = u32::try_from(b).ok().filter(|by| *by < size);
    let value = match op {
        AluOp::Add => a.wrapping_add(b),
        AluOp::Sub => a.wrapping_sub(b),
        AluOp::Mul => a.wrapping_mul(b),
        AluOp::And => a & b,
        AluOp::Or => a | b,
        AluOp::Xor => a ^ b,
        AluOp::Mov => b,
        AluOp::Lsh => a << shift?,
        AluOp::Rsh => a >> shift?,
        AluOp::Arsh if width == Width::W64 => (a as i64 >> shift?) as u64,
        AluOp::Arsh => (a as i32 >> shift?) as u32 as u64,
        AluOp::Div | AluOp::SDiv | AluOp::Mod | AluOp::SMod => return None,
    };
    Some(if width == Width::W64 { value } else { value & 0xffff_ffff })
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(value) = self.value() {
            return write!(f, "the number {}", value as i64);
        }
        match (self.smin, self.smax, self.umin, self.umax) {
            (i64::MIN, i64::MAX, 0, u64::MAX) => write!(f, "any number"),
            (0.., ..) | (_, ..0, ..) => write!(f, "a number from {} to {}", self.smin, self.smax),
            (i64::MIN, i64::MAX, umin, umax) => write!(f, "a number from {umin} to {umax}"),
            (smin, smax, ..) => write!(f, "a number from {smin} to {smax}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    /// Numbers near ends are where ranges go wrong.
    fn number() -> impl Strategy<Value = u64> {
        let near = [0, 1 << 7, 1 << 15, 1 << 31, 1 << 32, 1 << 63, u64::MAX, 0xffff_ffff_8000_0000];
        prop_oneof![
            (proptest::sample::select(near.to_vec()), -3i64..=3)
                .prop_map(|(end, by)| end.wrapping_add(by as u64)),
            any::<u64>(),
            0u64..100,
        ]
    }

    /// A scalar, and a number that it may be.
    fn scalar() -> impl Strategy<Value = (Scalar, u64)> {
        (number(), number(), number(), number(), any::<u8>()).prop_map(|(value, a, b, mask, which)| {
            let mut scalar = Scalar::UNKNOWN;
            if which & 1 != 0 {
                (scalar.umin, scalar.umax) = (value.min(a), value.max(a));
            }
            if which & 2 != 0 {
                (scalar.smin, scalar.smax) = ((value as i64).min(b as i64), (value as i64).max(b as i64));
            }
            if which & 4 != 0 {
                scalar.bits = Tnum { value: value & !mask, mask };
            }
            if which & 8 != 0 {
                (scalar.u32min, scalar.u32max) = ((value as u32).min(a as u32), (value as u32).max(a as u32));
            }
            if which & 16 != 0 {
                (scalar.s32min, scalar.s32max) = ((value as i32).min(b as i32), (value as i32).max(b as i32));
            }
            (scalar.settled().expect("the value is one"), value)
        })
    }

    fn has(scalar: &Scalar, value: u64) -> bool {
        scalar.contains(&Scalar::of(value))
    }

    fn real(op: AluOp, width: Width, a: u64, b: u64) -> u64 {
        let wide = width == Width::W64;
        let (a, b) = if wide { (a, b) } else { (u64::from(a as u32), u64::from(b as u32)) };
        let value = match op {
            AluOp::Div => a.checked_div(b).unwrap_or(0),
            AluOp::Mod => a.checked_rem(b).unwrap_or(a),
            AluOp::SDiv | AluOp::SMod if b == 0 => {
                if op == AluOp::SDiv {
                    0
                } else {
                    a
                }
            }
            AluOp::SDiv if wide => (a as i64).wrapping_div(b as i64) as u64,
            AluOp::SDiv => (a as i32).wrapping_div(b as i32) as u64,
            AluOp::SMod if wide => (a as i64).wrapping_rem(b as i64) as u64,
            AluOp::SMod => (a as i32).wrapping_rem(b as i32) as u64,
            AluOp::Lsh => a << (b & if wide { 63 } else { 31 }),
            AluOp::Rsh => a >> (b & if wide { 63 } else { 31 }),
            AluOp::Arsh if wide => (a as i64 >> (b & 63)) as u64,
            AluOp::Arsh => (a as i32 >> (b & 31)) as u64,
            _ => constant(op, width, a, b).unwrap(),
        };
        if wide { value } else { u64::from(value as u32) }
    }

    fn holds(cond: Cond, width: Width, a: u64, b: u64) -> bool {
        let (a, b) = if width == Width::W64 { (a, b) } else { (u64::from(a as u32), u64::from(b as u32)) };
        let signed = |value: u64| if width == Width::W64 { value as i64 } else { i64::from(value as i32) };
        match cond {
            Cond::Eq => a == b,
            Cond::Ne => a != b,
            Cond::Gt => a > b,
            Cond::Ge => a >= b,
            Cond::Lt => a < b,
            Cond::Le => a <= b,
            Cond::Set => a & b != 0,
            Cond::SGt => signed(a) > signed(b),
            Cond::SGe => signed(a) >= signed(b),
            Cond::SLt => signed(a) < signed(b),
            Cond::SLe => signed(a) <= signed(b),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn results_of_arithmetic_are_among_those_foreseen((a, x) in scalar(), (b, y) in scalar(), op in proptest::sample::select(AluOp::ALL.to_vec()), wide: bool) {
            let width = if wide { Width::W64 } else { Width::W32 };
            let result = a.alu(op, width, &b);
            prop_assert!(has(&result, real(op, width, x, y)), "{a:?} {op:?} {b:?} = {result:?}, but {x:#x}, {y:#x}");
        }

        #[test]
        fn comparisons_keep_every_number_that_passes((a, x) in scalar(), (b, y) in scalar(), cond in proptest::sample::select(Cond::ALL.to_vec()), wide: bool) {
            let width = if wide { Width::W64 } else { Width::W32 };
            let outcome = holds(cond, width, x, y);
            let kept = a.compared(cond, width, &b, outcome);
            prop_assert!(kept.is_some_and(|(a, b)| has(&a, x) && has(&b, y)), "{a:?} {cond:?} {b:?}, {x:#x}, {y:#x}: {kept:?}");
        }

        #[test]
        fn parts_and_extensions_keep_the_number((a, x) in scalar(), bits in proptest::sample::select(vec![8u32, 16, 32]), wide: bool) {
            let up = 64 - bits;
            prop_assert!(has(&a.low(bits), x << up >> up));
            let width = if wide || bits == 32 { Width::W64 } else { Width::W32 };
            let extended = ((x << up) as i64 >> up) as u64;
            let extended = if width == Width::W64 { extended } else { u64::from(extended as u32) };
            prop_assert!(has(&a.extended(bits, width), extended), "{a:?} {bits} {x:#x} {:?}", a.extended(bits, width));
        }
    }

    #[test]
    fn a_comparison_with_a_constant_bounds_an_index() {
        let (index, _) = Scalar::UNKNOWN.compared(Cond::Lt, Width::W64, &Scalar::of(16), true).unwrap();
        assert_eq!((index.umin, index.umax, index.smin, index.smax), (0, 15, 0, 15));
        assert!(Scalar::of(3).compared(Cond::Eq, Width::W64, &Scalar::of(4), true).is_none());
        let masked = Scalar::UNKNOWN.alu(AluOp::And, Width::W64, &Scalar::of(0x1f));
        assert_eq!(masked.alu(AluOp::Lsh, Width::W64, &Scalar::of(3)).umax, 0xf8);
    }
}
