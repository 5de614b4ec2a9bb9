//! Keys of tries of prefixes: four bytes with the number of bits, then the bits. Here they stand in a table, cut to their bits; there are
//! as many looks into it as a key may have prefixes.

use alloc::vec::Vec;
use core::cmp::Ordering;

/// Bytes of a key: the number, and 256 bytes of bits.
pub(super) const MOST_BYTES: u32 = 4 + 256;
const NUMBER: usize = 4;

/// The number of bits of a key.
fn bits(key: &[u8]) -> usize {
    key.first_chunk().map_or(0, |number| u32::from_ne_bytes(*number) as usize)
}

/// A key without what is behind its bits; `None` if it has fewer than it says.
pub(super) fn cut(key: &[u8]) -> Option<Vec<u8>> {
    cut_to(key, bits(key))
}

fn cut_to(key: &[u8], bits: usize) -> Option<Vec<u8>> {
    if bits > (key.len().checked_sub(NUMBER)?) * 8 {
        return None;
    }
    let mut cut = key.to_vec();
    cut[..NUMBER].copy_from_slice(&(bits as u32).to_ne_bytes());
    for (at, byte) in cut[NUMBER..].iter_mut().enumerate() {
        let left = bits.saturating_sub(8 * at).min(8);
        *byte &= (0xff00u16 >> left) as u8;
    }
    Some(cut)
}

/// What `find` has of the longest prefix of a key.
pub(super) fn longest<T>(key: &[u8], find: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
    let mut key = cut(key)?;
    let mut left = bits(&key);
    loop {
        if let Some(found) = find(&key) {
            return Some(found);
        }
        left = left.checked_sub(1)?;
        key[NUMBER + left / 8] &= !(0x80 >> (left % 8));
        key[..NUMBER].copy_from_slice(&(left as u32).to_ne_bytes());
    }
}

/// The key after this one, or the first: bit by bit, and a prefix behind all that begin with it. The first one, too, after one that is not
/// there.
pub(super) fn next<'a>(keys: impl Iterator<Item = &'a [u8]>, key: Option<&[u8]>) -> Option<&'a [u8]> {
    let key = key.and_then(cut);
    let (mut first, mut after, mut is_there) = (None, None, false);
    for known in keys {
        let least = |of: Option<&'a [u8]>| match of {
            Some(least) if order(least, known) == Ordering::Less => Some(least),
            _ => Some(known),
        };
        first = least(first);
        match key.as_ref().map(|key| order(known, key)) {
            Some(Ordering::Greater) => after = least(after),
            Some(Ordering::Equal) => is_there = true,
            _ => {}
        }
    }
    if is_there { after } else { first }
}

/// All keys behind this one, or all, in that order.
pub(super) fn all_after<'a>(keys: impl Iterator<Item = &'a [u8]>, key: Option<&[u8]>) -> Vec<&'a [u8]> {
    let mut all: Vec<&[u8]> = keys.collect();
    all.sort_unstable_by(|a, b| order(a, b));
    match key.and_then(cut).and_then(|key| all.iter().position(|known| *known == key)) {
        Some(at) => all.split_off(at + 1),
        None => all,
    }
}

fn order(a: &[u8], b: &[u8]) -> Ordering {
    let common = bits(a).min(bits(b));
    match (cut_to(a, common), cut_to(b, common)) {
        (Some(x), Some(y)) if x == y => bits(b).cmp(&bits(a)),
        _ => a[NUMBER..].cmp(&b[NUMBER..]),
    }
}
