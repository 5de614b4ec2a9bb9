//! The distinct stacks of a view, as frames, outermost first, and what was sampled with each.
//! [`Rows`](super::rows::Rows) are made of them.

use super::frames::FrameId;

/// Weight and number of samples.
pub(crate) type Sum = (u64, u64);

/// The frames of samples from the outermost caller to where they were, and all samples of the same frames and context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    pub(crate) sum: Sum,
    /// Where in [`Paths::frames`] its frames begin.
    start: usize,
    len: u32,
    /// The number of its context.
    pub(crate) context: u32,
    /// The thread of its first sample.
    pub(crate) thread: u32,
}

/// All stacks, in the order of their first samples.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    list: Vec<Stack>,
    frames: Vec<FrameId>,
}

impl Paths {
    #[inline]
    pub(crate) fn get(&self, stack: u32) -> &Stack {
        &self.list[stack as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// The frames of a stack, outermost first.
    #[inline]
    pub(crate) fn frames(&self, stack: &Stack) -> &[FrameId] {
        &self.frames[stack.start..][..stack.len as usize]
    }

    /// How many frames all stacks have.
    pub(crate) fn frame_count(&self) -> usize {
        self.frames.len()
    }

    /// The highest number of a frame.
    pub(crate) fn most_frame(&self) -> u32 {
        self.frames.iter().map(|frame| frame.0).max().unwrap_or(0)
    }

    /// Adds a stack by its frames, innermost first.
    pub(crate) fn push(&mut self, context: u32, thread: u32, frames: impl Iterator<Item = FrameId>) {
        let start = self.frames.len();
        self.frames.extend(frames);
        self.frames[start..].reverse();
        let len = (self.frames.len() - start) as u32;
        self.list.push(Stack { sum: (0, 0), start, len, context, thread });
    }

    /// Adds samples of a stack.
    #[inline]
    pub(crate) fn add(&mut self, stack: u32, (weight, samples): Sum) {
        let (all_weight, all_samples) = &mut self.list[stack as usize].sum;
        *all_weight = all_weight.saturating_add(weight);
        *all_samples = all_samples.saturating_add(samples);
    }

    /// The numbers of all stacks, those of each context together and in order.
    pub(crate) fn by_context(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..self.list.len() as u32).collect();
        // Where there is only one context this is one pass.
        numbers.sort_by_key(|&number| self.get(number).context);
        numbers
    }
}
