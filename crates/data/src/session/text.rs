//! Changes that the kernel made to its own code while it ran.

use perfuse_abi::record::TextPoke;
use std::collections::BTreeMap;

/// More changed bytes than this are not kept, and no more lines.
const MOST: usize = 1 << 20;
const MOST_LINES: usize = MOST / 8;

/// Bytes of a line.
const LINE: u64 = 64;

/// Code between two multiples of [`LINE`].
#[derive(Clone, Copy, Debug)]
struct Line {
    /// Which bytes differ, the first one in bit 0.
    changed: u64,
    bytes: [u8; LINE as usize],
}

/// The kernel's code as it differs, at a moment, from that in its file: jumps that were switched on and off,
/// probes, trampolines. Disassembling or decoding a trace needs the code as it ran then.
#[derive(Debug, Default)]
pub struct KernelText {
    /// By their addresses, divided by their bytes.
    lines: BTreeMap<u64, Line>,
    /// How many bytes differ.
    changed: usize,
    pokes: u64,
    #[cfg(test)]
    visits: u64,
}

/// The parts of a range of addresses by lines: the line, and where the part begins and ends in it.
fn parts(from: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    // The last address is the last one that there is.
    let last = (len as u64).checked_sub(1).map(|more| from.saturating_add(more));
    let lines = last.into_iter().flat_map(move |last| from / LINE..=last / LINE);
    lines.map(move |line| {
        let last = last.unwrap_or(from).min(line * LINE + (LINE - 1));
        let first = from.max(line * LINE);
        (line, (first % LINE) as usize, (last % LINE) as usize + 1)
    })
}

/// The bits of the bytes from one to another of a line.
fn bits(from: usize, to: usize) -> u64 {
    u64::MAX >> (LINE as usize - (to - from)) << from
}

impl KernelText {
    /// How often the kernel changed its code up to now.
    pub fn pokes(&self) -> u64 {
        self.pokes
    }

    /// Turns the bytes that the kernel's file has at an address into those that were there. Says how many of
    /// them the kernel wrote.
    pub fn apply(&self, address: u64, bytes: &mut [u8]) -> usize {
        if address.checked_add((bytes.len() as u64).saturating_sub(1)).is_none() {
            return 0;
        }
        let mut count = 0;
        let mut at = 0;
        for (number, from, to) in parts(address, bytes.len()) {
            if let Some(line) = self.lines.get(&number) {
                for place in (from..to).filter(|place| line.changed & 1 << place != 0) {
                    bytes[at + place - from] = line.bytes[place];
                    count += 1;
                }
            }
            at += to - from;
        }
        count
    }

    pub(super) fn poke(&mut self, poke: &TextPoke<'_>) {
        self.pokes += 1;
        // Code that was added has no old bytes, and code that was removed no new ones.
        if poke.new.len() < poke.old.len() {
            for (number, from, to) in parts(poke.addr, poke.old.len()) {
                self.visit();
                if let Some(line) = self.lines.get_mut(&number) {
                    self.changed -= (line.changed & bits(from, to)).count_ones() as usize;
                    line.changed &= !bits(from, to);
                    if line.changed == 0 {
                        self.lines.remove(&number);
                    }
                }
            }
        }
        if self.changed + poke.new.len() > MOST {
            return;
        }
        let mut new = poke.new;
        for (number, from, to) in parts(poke.addr, poke.new.len()) {
            self.visit();
            if self.lines.len() >= MOST_LINES && !self.lines.contains_key(&number) {
                return;
            }
            let line = self.lines.entry(number).or_insert(Line { changed: 0, bytes: [0; LINE as usize] });
            let (part, rest) = new.split_at(to - from);
            line.bytes[from..to].copy_from_slice(part);
            self.changed += (bits(from, to) & !line.changed).count_ones() as usize;
            line.changed |= bits(from, to);
            new = rest;
        }
    }

    fn visit(&mut self) {
        #[cfg(test)]
        {
            self.visits += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_changed_again_and_again_costs_a_part_of_its_bytes() {
        let mut text = KernelText::default();
        let (old, new) = (vec![1; 30_000], vec![2; 30_000]);
        for number in 0..1000 {
            text.poke(&TextPoke { addr: 0x1003 + number % 7, old: &old, new: &new, ..TextPoke::default() });
        }
        assert!(text.visits <= 1000 * (30_000 / LINE + 2), "{}", text.visits);
        assert_eq!((text.changed, text.pokes), (30_006, 1000));
        let mut bytes = [0; 8];
        assert_eq!((text.apply(0x1000, &mut bytes), bytes), (5, [0, 0, 0, 2, 2, 2, 2, 2]));
        text.poke(&TextPoke { addr: 0x1000, old: &vec![2; 40_000], new: &[], ..TextPoke::default() });
        assert_eq!((text.changed, text.lines.len()), (0, 0));
    }

    #[test]
    fn places_that_lie_apart_are_bounded() {
        let mut text = KernelText::default();
        for number in 0..2 * MOST_LINES as u64 {
            text.poke(&TextPoke { addr: number * 4096, old: &[], new: &[9], ..TextPoke::default() });
        }
        assert_eq!((text.lines.len(), text.changed), (MOST_LINES, MOST_LINES));
    }
}
