//! The stacks of a view as frames, outermost first, and what was sampled with each.
//! [`Rows`](super::rows::Rows) are made of them.

use super::frames::{FrameId, Frames};
use crate::tables::{ChainStart, LocationId, SampleRow};

/// Weight and number of samples.
pub(crate) type Sum = (u64, u64);

/// The frames of the samples of a row, from the outermost caller to where they were.
#[derive(Clone, Copy, Debug)]
struct Path {
    /// Where in [`Paths::frames`] its frames end; they begin where those of the one before do.
    end: usize,
    /// The index of the row.
    row: u32,
    context: u32,
    /// Where the samples were, if the frames end elsewhere.
    place: Option<FrameId>,
}

/// The stacks of a profile's rows, in the order of their first samples. There may be several of the same frames: those
/// that the locations of a profile tell apart need not be told apart here.
#[derive(Debug)]
pub(crate) struct Paths<'p> {
    rows: &'p [SampleRow],
    list: Vec<Path>,
    frames: Vec<FrameId>,
}

impl<'p> Paths<'p> {
    /// Stacks of these rows, none of which is there yet, with room for this many frames.
    pub(crate) fn new(rows: &'p [SampleRow], frames: usize) -> Self {
        let list = Vec::with_capacity(if frames > 0 { rows.len() } else { 0 });
        Paths { rows, list, frames: Vec::with_capacity(frames) }
    }

    /// The frames of all stacks, and where samples were.
    pub(crate) fn all_frames(&self) -> impl Iterator<Item = FrameId> + '_ {
        self.frames.iter().copied().chain(self.list.iter().filter_map(|path| path.place))
    }

    /// The row of a stack.
    pub(crate) fn row(&self, stack: u32) -> &'p SampleRow {
        &self.rows[self.list[stack as usize].row as usize]
    }

    /// The number of its context.
    #[inline]
    pub(crate) fn context(&self, stack: u32) -> u32 {
        self.list[stack as usize].context
    }

    /// Where the samples of a stack were, if its frames end elsewhere.
    #[inline]
    pub(crate) fn place(&self, stack: u32) -> Option<FrameId> {
        self.list[stack as usize].place
    }

    /// The frames of a stack, outermost first.
    #[inline]
    pub(crate) fn frames(&self, stack: u32) -> &[FrameId] {
        let start = stack.checked_sub(1).map_or(0, |before| self.list[before as usize].end);
        &self.frames[start..self.list[stack as usize].end]
    }

    /// How many frames all stacks have.
    pub(crate) fn frame_count(&self) -> usize {
        self.frames.len()
    }

    /// The highest number of a frame.
    pub(crate) fn most_frame(&self) -> u32 {
        self.frames.iter().map(|frame| frame.0).max().unwrap_or(0)
    }

    /// Adds the samples of a row, whose callchain begins there.
    #[inline]
    pub(crate) fn push(
        &mut self,
        (row, context): (u32, u32),
        stack: &[LocationId],
        chain: ChainStart,
        frames: &Frames,
    ) {
        let start = self.frames.len();
        let (callers, leaf) = stack.split_at(stack.len() - usize::from(chain != ChainStart::Here));
        let first = if let ChainStart::At(first) = chain { Some(first) } else { None };
        for &location in callers.iter().chain(&first) {
            match frames.at(location) {
                [frame] => self.frames.push(*frame),
                several => self.frames.extend(several.iter().rev()),
            }
        }
        let place = leaf.first().map(|&leaf| frames.innermost(leaf));
        let place = place.filter(|place| self.frames[start..].last() != Some(place));
        self.list.push(Path { end: self.frames.len(), row, context, place });
    }

    /// The numbers of all stacks, those of each context together and in order.
    pub(crate) fn by_context(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..self.list.len() as u32).collect();
        // Where there is only one context this is one pass.
        numbers.sort_by_key(|&number| self.context(number));
        numbers
    }
}
