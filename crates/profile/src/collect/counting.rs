//! Stacks that were seen, and the rows of samples that are counted for them. A sample whose like came a short while ago costs one hash
//! and a look into a small table, [`Recent`]. Others are handed over in batches, and when there are
//! many of them a thread of its own counts: then one reads and says where each address is, while the other finds stacks again.

use crate::hash::{FastMap, Fingerprint};
use crate::tables::{LocationId, SampleRow, SampleTime, StackId, Stacks};
use std::num::NonZero;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// Samples without their stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) event: u32,
    pub(super) context: u32,
    pub(super) thread: u32,
    pub(super) sum: Sum,
    /// The place that is taken by their like.
    pub(super) place: Place,
}

/// What is added up: weight and number of samples, and the time of a single one if times are kept.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    pub(super) weight: u64,
    pub(super) samples: u64,
    pub(super) time_ns: Option<u64>,
}

/// A place among those of the samples that came a short while ago.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place(u32);

impl Place {
    /// One that is nobody's.
    pub(super) const BEHIND: Place = Place(PLACES as u32);
}

/// So many places there are; a power of two. They fit into the cache of one processor.
const PLACES: usize = 1 << 15;

/// Samples that came a short while ago, by 96 bits of their fingerprints: with ten million different ones the chance that two are
/// taken for the same is less than one in 10^15. Each is at the place that its fingerprint names, until another comes there.
#[derive(Debug, Default)]
struct Recent {
    slots: Vec<Slot>,
}

/// Samples of the same fingerprint, and what was not handed over of them yet.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Slot {
    print: u64,
    weight: u64,
    samples: u64,
    more: u32,
    is_taken: bool,
}

impl Slot {
    /// What was not handed over yet, which is forgotten.
    fn take(&mut self) -> Option<Sum> {
        let sum = Sum { weight: self.weight, samples: self.samples, time_ns: None };
        (self.weight, self.samples) = (0, 0);
        (sum.samples > 0).then_some(sum)
    }
}

/// Stacks and rows, and what was counted in them.
#[derive(Debug, Default)]
pub(super) struct Counted {
    pub(super) stacks: Stacks,
    pub(super) rows: Vec<SampleRow>,
    pub(super) times: Vec<SampleTime>,
    /// Of each stack, its first row.
    first_rows: Vec<u32>,
    /// Of each place, the row of the samples that took it last.
    places: Vec<u32>,
    /// By event, context and stack.
    other_rows: FastMap<(u32, u32, StackId), u32>,
}

impl Counted {
    fn count_all(&mut self, batch: &Batch) {
        let mut start = 0;
        self.places.resize(PLACES + 1, 0);
        for &(ref head, end) in &batch.heads {
            let row = match &batch.locations[start..end] {
                // Their like took the place before.
                [] => self.places[head.place.0 as usize],
                stack => {
                    let stack = self.stacks.id(stack);
                    self.row(head, stack)
                }
            };
            self.places[head.place.0 as usize] = row;
            self.count(row, head.sum);
            start = end;
        }
    }

    #[inline]
    fn count(&mut self, number: u32, Sum { weight, samples, time_ns }: Sum) {
        // The weights of an event's samples leave room.
        let row = &mut self.rows[number as usize];
        (row.weight, row.samples) = (row.weight.saturating_add(weight), row.samples + samples);
        if let Some(time_ns) = time_ns {
            self.times.push(SampleTime { time_ns, weight, row: number });
        }
    }

    /// The row of a sample, in which nothing is counted yet if it is new.
    #[inline]
    fn row(&mut self, &Head { event, context, thread, .. }: &Head, stack: StackId) -> u32 {
        let next = self.rows.len() as u32;
        // Most stacks have one row.
        let row = match self.first_rows.get(stack.0 as usize) {
            None => {
                self.first_rows.push(next);
                next
            }
            Some(&first) => {
                let known = &self.rows[first as usize];
                match (known.event, known.context) == (event, context) {
                    true => first,
                    false => *self.other_rows.entry((event, context, stack)).or_insert(next),
                }
            }
        };
        if row == next {
            self.rows.push(SampleRow { event, context, stack, thread, weight: 0, samples: 0 });
        }
        row
    }
}

/// Samples that follow each other.
#[derive(Debug, Default)]
struct Batch {
    /// Each with where the locations of its stack end; without one, its like came before.
    heads: Vec<(Head, usize)>,
    /// Stack after stack, the outermost caller's first.
    locations: Vec<LocationId>,
}

/// A batch with more samples or locations than this is handed over.
const MOST_HEADS: usize = 1 << 12;
const MOST_LOCATIONS: usize = 1 << 16;

/// Batches that wait to be counted.
const WAITING: usize = 8;

/// Takes samples to be counted.
#[derive(Debug, Default)]
pub(super) struct Counting {
    recent: Recent,
    batch: Batch,
    /// What was counted here.
    here: Counted,
    apart: Option<(SyncSender<Batch>, JoinHandle<Counted>)>,
    is_begun: bool,
}

impl Counting {
    /// Counts a sample if its like came a short while ago; else it is to be [added](Self::add) with this place.
    #[inline]
    pub(super) fn again(&mut self, print: Fingerprint, weight: u64, time_ns: Option<u64>) -> Option<Place> {
        let (print, more) = print.parts();
        let at = (print >> 32) as usize % PLACES;
        if self.recent.slots.is_empty() {
            self.recent.slots.resize(PLACES, Slot::default());
        }
        let slot = &mut self.recent.slots[at];
        let place = Place(at as u32);
        if slot.is_taken && (slot.print, slot.more) == (print, more) {
            match time_ns {
                None => (slot.weight, slot.samples) = (slot.weight + weight, slot.samples + 1),
                time_ns => self.add_to(place, Sum { weight, samples: 1, time_ns }),
            }
            return None;
        }
        let before = slot.take();
        *slot = Slot { print, more, is_taken: true, ..Slot::default() };
        before.into_iter().for_each(|sum| self.add_to(place, sum));
        Some(place)
    }

    /// Adds a sample. Its stack has one location at least, the outermost caller's first.
    #[inline]
    pub(super) fn add(&mut self, head: Head, stack: &[LocationId]) {
        let Batch { heads, locations } = &mut self.batch;
        locations.extend_from_slice(stack);
        heads.push((head, locations.len()));
        if heads.len() >= MOST_HEADS || locations.len() >= MOST_LOCATIONS {
            self.hand_over();
        }
    }

    /// Adds samples to those that took a place last.
    fn add_to(&mut self, place: Place, sum: Sum) {
        self.add(Head { event: 0, context: 0, thread: 0, sum, place }, &[]);
    }

    /// Hands the batch to the thread that counts, which begins with the first.
    #[cold]
    fn hand_over(&mut self) {
        if !std::mem::replace(&mut self.is_begun, true) {
            self.begin();
        }
        let Some((sender, _)) = &self.apart else {
            self.here.count_all(&self.batch);
            self.batch.heads.clear();
            self.batch.locations.clear();
            return;
        };
        let room = (self.batch.heads.len(), self.batch.locations.len());
        let next = Batch { heads: Vec::with_capacity(room.0), locations: Vec::with_capacity(room.1) };
        // The other end is gone only if its thread panicked, which `finish` passes on.
        let _ = sender.send(std::mem::replace(&mut self.batch, next));
    }

    /// Starts the thread, if there is a processor for it; without it all is counted here. Stacks of one location are found in less time
    /// than it takes to hand them over.
    fn begin(&mut self) {
        let has_callers = self.batch.locations.len() > self.batch.heads.len();
        if !has_callers || thread::available_parallelism().map_or(1, NonZero::get) == 1 {
            return;
        }
        let (sender, receiver) = sync_channel::<Batch>(WAITING);
        let count = move || {
            let mut counted = Counted::default();
            receiver.iter().for_each(|batch| counted.count_all(&batch));
            counted
        };
        let started = thread::Builder::new().name("counts stacks".to_owned()).spawn(count);
        self.apart = started.ok().map(|handle| (sender, handle));
    }

    /// All that was counted.
    pub(super) fn finish(mut self) -> Counted {
        for at in 0..self.recent.slots.len() {
            let sum = self.recent.slots[at].take();
            sum.into_iter().for_each(|sum| self.add_to(Place(at as u32), sum));
        }
        let Some((sender, handle)) = self.apart.take() else {
            self.here.count_all(&self.batch);
            return self.here;
        };
        let _ = sender.send(self.batch);
        drop(sender);
        handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts a sample of a kind, at the time of its number.
    fn count(counting: &mut Counting, number: u32, kind: u32, stack: &[LocationId], has_time: bool) {
        let mut print = Fingerprint::default();
        print.add(kind.into());
        let time_ns = has_time.then_some(number.into());
        if let Some(place) = counting.again(print.finish(), 2, time_ns) {
            let sum = Sum { weight: 2, samples: 1, time_ns };
            counting.add(Head { event: 0, context: kind % 3, thread: 7, sum, place }, stack);
        }
    }

    /// With so many kinds that a thread counts, and with so few that none does.
    #[test]
    fn samples_are_counted_once_in_their_order() {
        for (samples, kinds) in [(1, 1), (100, 7), (9 * MOST_HEADS as u32, 3 * MOST_HEADS as u32)] {
            for has_time in [true, false] {
                let mut counting = Counting::default();
                let stack = |kind: u32| [LocationId(kind / 3), LocationId(kind % 5)];
                let kind = |number: u32| number % kinds;
                for number in 0..samples {
                    count(&mut counting, number, kind(number), &stack(kind(number)), has_time);
                }
                assert_eq!(
                    counting.apart.is_some(),
                    kinds > MOST_HEADS as u32 && counting.is_begun && !is_alone()
                );
                let counted = counting.finish();
                assert_eq!(counted.rows.len() as u32, samples.min(kinds));
                for (kind, row) in (0..).zip(&counted.rows) {
                    let number = u64::from(samples / kinds) + u64::from(kind < samples % kinds);
                    assert_eq!((row.context, row.weight, row.samples), (kind % 3, 2 * number, number));
                    assert_eq!(counted.stacks.get(row.stack), stack(kind));
                }
                assert_eq!(counted.times.len() as u32, if has_time { samples } else { 0 });
                for (number, sample) in (0..).zip(&counted.times) {
                    assert_eq!((sample.time_ns, sample.row), (u64::from(number), kind(number)));
                }
            }
        }
    }

    fn is_alone() -> bool {
        thread::available_parallelism().map_or(1, NonZero::get) == 1
    }

    #[test]
    fn stacks_of_one_location_are_counted_here() {
        let mut counting = Counting::default();
        for number in 0..2 * MOST_HEADS as u32 {
            count(&mut counting, number, number, &[LocationId(number % 2)], false);
        }
        assert!(counting.is_begun && counting.apart.is_none());
        assert_eq!(counting.finish().rows.len(), 6);
    }
}
