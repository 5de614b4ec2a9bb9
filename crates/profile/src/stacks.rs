//! The distinct stacks of a profile, while samples come: the frames of each, outermost first, and what was sampled
//! with it. [`Rows`](crate::rows::Rows) are made of them at the end.

use crate::frames::FrameId;

/// Weight and number of samples.
pub(crate) type Sum = (u64, u64);

/// The frames of a sample from the outermost caller to where it was, and all samples of the same frames and
/// context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    pub(crate) weight: u64,
    /// Where in [`Stacks::frames`] its frames begin.
    start: usize,
    len: u32,
    samples: u32,
    /// The number of its context.
    pub(crate) context: u32,
    /// The thread of its first sample.
    pub(crate) thread: u32,
}

impl Stack {
    pub(crate) fn sum(&self) -> Sum {
        (self.weight, self.samples.into())
    }
}

/// All stacks, in the order of their first samples, and what finds one again.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    list: Vec<Stack>,
    frames: Vec<FrameId>,
    /// A power of two of places, at most three quarters of them taken: the number of a stack below, and above it
    /// its hash. A stack is at the first free place after the one that the highest bits of its hash name, so that a
    /// larger table has them in the same order.
    slots: Vec<u64>,
}

const FREE: u64 = u64::MAX;

/// 32 bits.
fn hash(context: u32, frames: &[FrameId]) -> u64 {
    let add = |hash: u64, word: u32| {
        let product = u128::from(hash ^ u64::from(word)) * 0x9e37_79b9_7f4a_7c15;
        (product as u64) ^ (product >> 64) as u64
    };
    frames.iter().fold(add(0x243f_6a88_85a3_08d3, context), |hash, frame| add(hash, frame.0)) >> 32
}

impl Stacks {
    #[inline]
    pub(crate) fn get(&self, stack: u32) -> &Stack {
        &self.list[stack as usize]
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

    /// Adds samples of a stack.
    #[inline]
    pub(crate) fn add(&mut self, stack: u32, (weight, samples): Sum) {
        let stack = &mut self.list[stack as usize];
        stack.weight += weight;
        stack.samples = stack.samples.saturating_add(samples.try_into().unwrap_or(u32::MAX));
    }

    /// The number of a stack, which is new if there is none like it.
    pub(crate) fn intern(&mut self, context: u32, frames: &[FrameId], thread: u32) -> u32 {
        if self.list.len() * 4 >= self.slots.len() * 3 {
            self.grow();
        }
        let tag = hash(context, frames);
        let mask = self.slots.len() - 1;
        let mut place = self.place(tag);
        loop {
            let slot = self.slots[place];
            if slot == FREE {
                break;
            }
            if slot >> 32 == tag {
                let known = self.get(slot as u32);
                if known.context == context && self.frames(known) == frames {
                    return slot as u32;
                }
            }
            place = (place + 1) & mask;
        }
        let (number, start, len) = (self.list.len() as u32, self.frames.len(), frames.len() as u32);
        self.slots[place] = tag << 32 | u64::from(number);
        self.frames.extend_from_slice(frames);
        self.list.push(Stack { weight: 0, start, len, samples: 0, context, thread });
        number
    }

    /// The place that a tag names.
    fn place(&self, tag: u64) -> usize {
        ((tag * self.slots.len() as u64) >> 32) as usize
    }

    #[cold]
    fn grow(&mut self) {
        let larger = vec![FREE; (self.slots.len() * 2).max(1 << 6)];
        let mask = larger.len() - 1;
        let slots = std::mem::replace(&mut self.slots, larger);
        for slot in slots.into_iter().filter(|&slot| slot != FREE) {
            let mut place = self.place(slot >> 32);
            while self.slots[place] != FREE {
                place = (place + 1) & mask;
            }
            self.slots[place] = slot;
        }
    }

    /// Forgets how to find stacks, of which no more will come.
    pub(crate) fn close(&mut self) {
        self.slots = Vec::new();
    }

    /// The numbers of all stacks, those of each context together and in order.
    pub(crate) fn by_context(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..self.list.len() as u32).collect();
        // Where there is only one context this is one pass.
        numbers.sort_by_key(|&number| self.get(number).context);
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_found_again_however_many_there_are() {
        let mut stacks = Stacks::default();
        let all = || (0..5000).map(|n| [FrameId(n / 70), FrameId(n % 70)]);
        let first: Vec<u32> = all().map(|frames| stacks.intern(0, &frames, 1)).collect();
        let again: Vec<u32> = all().map(|frames| stacks.intern(0, &frames, 2)).collect();
        assert_eq!(first, again);
        assert_eq!(stacks.intern(1, &[FrameId(0), FrameId(0)], 3), 5000);
        assert_eq!(stacks.intern(0, &[FrameId(0)], 3), 5001);
        assert_eq!((stacks.get(7).thread, stacks.get(5000).thread), (1, 3));
        assert_eq!(stacks.frames(stacks.get(71)), [FrameId(1), FrameId(1)]);
        assert_eq!(stacks.by_context().last(), Some(&5000));
    }
}
