//! Stacks that were seen, and the rows of samples that are counted for them. Samples are handed over in batches, and when there are
//! many of them a thread of its own counts: then one reads and says where each address is, while the other finds stacks again.

use crate::hash::FastMap;
use crate::tables::{LocationId, SampleRow, SampleTime, StackId, Stacks};
use std::num::NonZero;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// A sample without its stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) event: u32,
    pub(super) context: u32,
    pub(super) thread: u32,
    pub(super) weight: u64,
    /// Its time, if times are kept.
    pub(super) time_ns: Option<u64>,
}

/// Stacks and rows, and what was counted in them.
#[derive(Debug, Default)]
pub(super) struct Counted {
    pub(super) stacks: Stacks,
    pub(super) rows: Vec<SampleRow>,
    pub(super) times: Vec<SampleTime>,
    /// Of each stack, its first row.
    first_rows: Vec<u32>,
    /// By event, context and stack.
    other_rows: FastMap<(u32, u32, StackId), u32>,
}

impl Counted {
    fn count_all(&mut self, batch: &Batch) {
        let mut start = 0;
        for &(ref head, end) in &batch.heads {
            self.count(head, &batch.locations[start..end]);
            start = end;
        }
    }

    #[inline]
    fn count(&mut self, head: &Head, stack: &[LocationId]) {
        let stack = self.stacks.id(stack);
        let number = self.row(head, stack);
        // The weights of an event's samples leave room.
        let row = &mut self.rows[number as usize];
        (row.weight, row.samples) = (row.weight.saturating_add(head.weight), row.samples + 1);
        if let Some(time_ns) = head.time_ns {
            self.times.push(SampleTime { time_ns, weight: head.weight, row: number });
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
    /// Each with where the locations of its stack end.
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
    batch: Batch,
    /// What was counted here.
    here: Counted,
    apart: Option<(SyncSender<Batch>, JoinHandle<Counted>)>,
    is_begun: bool,
}

impl Counting {
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

    fn head(number: u32) -> Head {
        Head { event: 0, context: number % 3, thread: 7, weight: 2, time_ns: Some(number.into()) }
    }

    #[test]
    fn stacks_of_one_location_are_counted_here() {
        let mut counting = Counting::default();
        (0..2 * MOST_HEADS as u32).for_each(|number| counting.add(head(number), &[LocationId(number % 2)]));
        assert!(counting.apart.is_none() && counting.batch.heads.is_empty());
        let counted = counting.finish();
        assert_eq!((counted.stacks.len(), counted.rows.len(), counted.times.len()), (2, 6, 2 * MOST_HEADS));
    }

    /// With so many samples that a thread counts, and with so few that none does.
    #[test]
    fn samples_are_counted_once_in_their_order() {
        for samples in [1, 100, 3 * MOST_HEADS as u32 + 5] {
            let mut counting = Counting::default();
            let stack = |number: u32| [LocationId(number % 7), LocationId(number % 5)];
            (0..samples).for_each(|number| counting.add(head(number), &stack(number)));
            let counted = counting.finish();
            assert_eq!(counted.rows.len() as u32, samples.min(7 * 5 * 3));
            assert_eq!(counted.stacks.len() as u32, samples.min(7 * 5));
            for (number, sample) in (0..).zip(&counted.times) {
                let row = counted.rows[sample.row as usize];
                assert_eq!((sample.time_ns, row.context), (number, number as u32 % 3));
                assert_eq!(counted.stacks.get(row.stack), stack(number as u32));
            }
            let sum = counted.rows.iter().fold((0, 0), |sum, row| (sum.0 + row.weight, sum.1 + row.samples));
            assert_eq!(sum, (2 * u64::from(samples), samples.into()));
            assert_eq!(counted.times.len() as u32, samples);
        }
    }
}
