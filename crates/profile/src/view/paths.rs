//! The stacks of a view as frames, outermost first, and what was sampled with each.
//! [`Rows`](super::rows::Rows) are made of them.

use super::frames::{FrameId, Frames};
use crate::profile::Profile;
use crate::tables::{ChainStart, LocationId, SampleRow};

/// Weight and number of samples.
pub(crate) type Sum = (u64, u64);

pub(crate) fn add(one: Sum, other: Sum) -> Sum {
    (one.0 + other.0, one.1 + other.1)
}

/// The frames of the samples of a row, from the outermost caller to where they were.
#[derive(Clone, Copy, Debug)]
struct Path {
    /// Where its frames begin.
    start: usize,
    len: u32,
    /// The index of the row.
    row: u32,
    context: u32,
    /// Where the samples were, if the frames end elsewhere.
    place: Option<FrameId>,
}

/// Where the frames of stacks are.
#[derive(Debug)]
enum Source<'p> {
    /// Each location of a profile is one frame.
    Locations(&'p [LocationId], &'p [FrameId]),
    /// They were written out.
    Frames(Vec<FrameId>),
}

/// The stacks of a profile's rows, in the order of their first samples. There may be several of the same frames: those
/// that the locations of a profile tell apart need not be told apart here.
#[derive(Debug)]
pub(crate) struct Paths<'p> {
    rows: &'p [SampleRow],
    list: Vec<Path>,
    source: Source<'p>,
    /// Frames have lower numbers than this.
    frames: u32,
    /// The weight of each, if that is not the weight of its row.
    weights: Option<Vec<u64>>,
}

impl<'p> Paths<'p> {
    /// Stacks of a profile, none of which is there yet.
    pub(crate) fn new(profile: &'p Profile, frames: &'p Frames) -> Self {
        let source = match frames.of_each() {
            Some(of_each) => Source::Locations(profile.stacks.all(), of_each),
            None => Source::Frames(Vec::new()),
        };
        Paths { rows: &profile.rows, list: Vec::new(), source, frames: frames.len() as u32, weights: None }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Where the samples of a stack were, if its frames end elsewhere.
    #[inline]
    pub(crate) fn place(&self, stack: u32) -> Option<FrameId> {
        self.list[stack as usize].place
    }

    /// The row of a stack.
    pub(crate) fn row(&self, stack: u32) -> &'p SampleRow {
        &self.rows[self.list[stack as usize].row as usize]
    }

    /// The weight of a stack.
    #[inline]
    pub(crate) fn weight(&self, stack: u32) -> u64 {
        self.weights.as_ref().map_or_else(|| self.row(stack).weight, |weights| weights[stack as usize])
    }

    /// From now on each weighs as told.
    pub(crate) fn weigh(&mut self, weight: impl Fn(&SampleRow) -> u64) {
        let weights = (0..self.list.len() as u32).map(|stack| weight(self.row(stack)));
        self.weights = Some(weights.collect());
    }

    /// The number of its context.
    #[inline]
    pub(crate) fn context(&self, stack: u32) -> u32 {
        self.list[stack as usize].context
    }

    /// Appends the frames of a stack to a list, the outermost first or last.
    #[inline]
    pub(crate) fn append(&self, stack: u32, outermost_first: bool, to: &mut Vec<FrameId>) {
        let Path { start, len, .. } = self.list[stack as usize];
        let (range, from) = (start..start + len as usize, to.len());
        match &self.source {
            Source::Locations(locations, frames) => {
                to.extend(locations[range].iter().map(|location| frames[location.0 as usize]));
            }
            Source::Frames(frames) => to.extend_from_slice(&frames[range]),
        }
        if !outermost_first {
            to[from..].reverse();
        }
    }

    /// The numbers of some frames of a stack as one word, the first in its highest bits; 0 where there is none. Each takes so
    /// many bits.
    #[inline]
    pub(crate) fn word(
        &self,
        stack: u32,
        outermost_first: bool,
        depth: usize,
        (count, bits): (usize, u32),
    ) -> u64 {
        let Path { start, len, .. } = self.list[stack as usize];
        let len = len as usize;
        let place = |at: usize| start + if outermost_first { at } else { len - 1 - at };
        (depth..depth + count).fold(0, |word, at| {
            let number = match &self.source {
                _ if at >= len => 0,
                Source::Locations(locations, frames) => frames[locations[place(at)].0 as usize].0 + 1,
                Source::Frames(frames) => frames[place(at)].0 + 1,
            };
            word << bits | u64::from(number)
        })
    }

    /// How many bits the numbers of frames take in a [`word`](Self::word).
    pub(crate) fn bits(&self) -> u32 {
        u32::BITS - self.frames.leading_zeros()
    }

    /// Adds the samples of a row, of whose stack these locations are the outer part, which begins there among all. Its callchain
    /// begins as told.
    #[inline]
    pub(crate) fn push(
        &mut self,
        (row, context): (u32, u32),
        (stack, start): (&[LocationId], usize),
        chain: ChainStart,
        all: &Frames,
    ) {
        let of_chain = match (chain, stack.split_last()) {
            (ChainStart::Nowhere, Some((_, callers))) => callers,
            _ => stack,
        };
        let (start, len) = match &mut self.source {
            Source::Locations(..) => (start, of_chain.len()),
            Source::Frames(frames) => {
                let start = frames.len();
                for &location in of_chain {
                    match all.of_chain(location) {
                        [frame] => frames.push(*frame),
                        several => frames.extend(several.iter().rev()),
                    }
                }
                (start, frames.len() - start)
            }
        };
        let place = stack.last().filter(|_| chain != ChainStart::Here).and_then(|&leaf| {
            let first = of_chain.last().and_then(|&location| all.of_chain(location).first());
            Some(all.innermost(leaf)).filter(|place| first != Some(place))
        });
        self.list.push(Path { start, len: len as u32, row, context, place });
    }

    /// The numbers of all stacks, those of each context together and in order.
    pub(crate) fn by_context(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..self.list.len() as u32).collect();
        // Where there is only one context this is one pass.
        numbers.sort_by_key(|&number| self.context(number));
        numbers
    }
}
