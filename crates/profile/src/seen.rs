//! Samples that were seen before: the table that nearly every sample ends in. The entry that it
//! finds there is on one line of the processor's cache, and is counted there too; rows hear of it when all is counted.

use crate::hash::Fingerprint;

/// A place in the table. Free ones have no samples.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Slot {
    print: u64,
    weight: u64,
    samples: u64,
    more: u32,
    row: u32,
}

/// The count of samples with the same fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Counted {
    pub(crate) row: u32,
    pub(crate) weight: u64,
    pub(crate) samples: u64,
}

/// Samples by 96 bits of their fingerprints: with ten million different ones the chance that two are taken for the
/// same is one in 10^15.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// A power of two, at most three quarters of them taken. A fingerprint is at the first free place after the one that
    /// its highest bits name, so that a larger table has them in the same order.
    slots: Vec<Slot>,
    taken: usize,
}

impl Seen {
    /// How many different ones there are.
    pub(crate) fn len(&self) -> usize {
        self.taken
    }

    /// The place of a fingerprint, or the free one for it.
    #[inline]
    fn place(&self, print: u64, more: u32) -> usize {
        let mask = self.slots.len() - 1;
        let mut place = ((u128::from(print) * self.slots.len() as u128) >> 64) as usize;
        loop {
            let slot = &self.slots[place];
            if slot.samples == 0 || (slot.print, slot.more) == (print, more) {
                return place;
            }
            place = (place + 1) & mask;
        }
    }

    /// Counts a sample if one like it was seen before, and tells the row of those.
    #[inline]
    pub(crate) fn count(&mut self, print: Fingerprint, weight: u64) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let (print, more) = print.parts();
        let place = self.place(print, more);
        let slot = &mut self.slots[place];
        if slot.samples == 0 {
            return None;
        }
        slot.weight += weight;
        slot.samples += 1;
        Some(slot.row)
    }

    /// Counts the first sample of its kind, with what it belongs to.
    pub(crate) fn insert(&mut self, print: Fingerprint, row: u32, weight: u64) {
        if self.taken * 4 >= self.slots.len() * 3 {
            self.grow();
        }
        let (print, more) = print.parts();
        let place = self.place(print, more);
        self.slots[place] = Slot { print, more, row, weight, samples: 1 };
        self.taken += 1;
    }

    #[cold]
    fn grow(&mut self) {
        let larger = vec![Slot::default(); (self.slots.len() * 2).max(1 << 6)];
        let slots = std::mem::replace(&mut self.slots, larger);
        for slot in slots.into_iter().filter(|slot| slot.samples > 0) {
            let place = self.place(slot.print, slot.more);
            self.slots[place] = slot;
        }
    }

    /// Gives out the counts, and forgets them.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Counted> + use<> {
        let slots = std::mem::take(self).slots.into_iter().filter(|slot| slot.samples > 0);
        slots.map(|Slot { row, weight, samples, .. }| Counted { row, weight, samples })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_counted_once() {
        let mut seen = Seen::default();
        let print = |number: u64| {
            let mut print = Fingerprint::default();
            print.add(number);
            print.finish()
        };
        for number in (0..5000).chain(0..2500).chain(0..10) {
            match seen.count(print(number), 3) {
                Some(row) => assert_eq!(u64::from(row), number),
                None => seen.insert(print(number), number as u32, 3),
            }
        }
        assert_eq!(seen.len(), 5000);
        let mut counted: Vec<Counted> = seen.take().collect();
        counted.sort_unstable_by_key(|counted| counted.row);
        let expected = (0..5000u32).map(|row| {
            let samples = 1 + u64::from(row < 2500) + u64::from(row < 10);
            Counted { row, weight: samples * 3, samples }
        });
        assert!(counted.into_iter().eq(expected) && seen.len() == 0);
    }
}
