//! The stacks of a view read in one direction, and sorted: those that begin with the same frames follow each other,
//! and what they weigh together is one subtraction. This is the tree of all callchains, without its nodes.

use super::frames::FrameId;
use super::paths::{Paths, Sum};
use std::ops::Range;

/// From which end callchains are read, and for whom.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Order {
    /// From the outermost caller inwards, rather than from where the samples were outwards.
    pub caller_first: bool,
    /// Whether the entry has the callchains in which it is a caller too.
    pub with_callees: bool,
}

impl Order {
    /// An order.
    pub fn new(caller_first: bool, with_callees: bool) -> Self {
        Order { caller_first, with_callees }
    }
}

/// A stack in its place.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    /// Where its frames begin; they end where those of the next one do.
    start: usize,
    /// The weight of all rows before.
    before: Sum,
    origin: Origin,
    /// So many frames are the same as those of the row before, in the same context.
    common: u32,
}

/// Where a stack came from first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin {
    /// Counts the stacks.
    pub(crate) number: u32,
    /// The thread of the first sample.
    pub(crate) thread: u32,
}

/// Rows of frames, those of each context together.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// One for each stack, and one behind the last.
    rows: Vec<Row>,
    frames: Vec<FrameId>,
    /// The rows of each context.
    contexts: Vec<Range<u32>>,
}

impl Rows {
    /// With the outermost caller first, or with where samples were.
    pub(crate) fn new(stacks: &Paths<'_>, caller_first: bool) -> Self {
        let order = sorted(stacks, caller_first);
        let mut all = Rows {
            rows: Vec::with_capacity(order.len() + 1),
            frames: Vec::with_capacity(stacks.frame_count()),
            contexts: Vec::new(),
        };
        let (mut before, mut last) = ((0, 0), 0..0);
        for (_, number) in order {
            let row = stacks.row(number);
            let context = stacks.context(number) as usize;
            if all.contexts.len() <= context {
                all.contexts.resize(context + 1, 0..0);
            }
            let next = all.rows.len() as u32;
            if all.contexts[context].is_empty() {
                (all.contexts[context], last) = (next..next, 0..0);
            }
            let start = all.frames.len();
            all.frames.extend_from_slice(stacks.frames(number));
            if !caller_first {
                all.frames[start..].reverse();
            }
            let new = start..all.frames.len();
            let pairs = all.frames[new.clone()].iter().zip(&all.frames[last.clone()]);
            let common = pairs.take_while(|(one, other)| one == other).count();
            // Stacks of the same frames are one row; the first of them was there first.
            if common > 0 && common == last.len() && common == new.len() {
                all.frames.truncate(start);
            } else {
                let origin = Origin { number, thread: row.thread };
                all.rows.push(Row { start, before, origin, common: common as u32 });
                all.contexts[context].end = next + 1;
                last = new;
            }
            before = (before.0 + row.weight, before.1 + row.samples);
        }
        all.rows.push(Row { start: all.frames.len(), before, ..Row::default() });
        all
    }

    /// The contexts, and the rows of each.
    pub(crate) fn contexts(&self) -> impl Iterator<Item = (u32, Range<u32>)> + '_ {
        (0..).zip(self.contexts.iter().cloned())
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u32 {
        self.rows.len() as u32 - 1
    }

    /// The frames of a row.
    #[inline]
    pub(crate) fn frames(&self, row: u32) -> &[FrameId] {
        &self.frames[self.rows[row as usize].start..self.rows[row as usize + 1].start]
    }

    /// A frame of a row; nothing behind its end.
    #[inline]
    pub(crate) fn frame(&self, row: u32, at: u32) -> Option<FrameId> {
        let place = self.rows[row as usize].start + at as usize;
        let is_of_row = place < self.rows[row as usize + 1].start;
        if is_of_row { self.frames.get(place).copied() } else { None }
    }

    /// How many frames a row has in common with the one before.
    #[inline]
    pub(crate) fn common(&self, row: u32) -> u32 {
        self.rows[row as usize].common
    }

    pub(crate) fn origin(&self, row: u32) -> Origin {
        self.rows[row as usize].origin
    }

    /// The weight of some rows.
    #[inline]
    pub(crate) fn sum(&self, rows: Range<u32>) -> Sum {
        let (from, to) = (self.rows[rows.start as usize].before, self.rows[rows.end as usize].before);
        (to.0 - from.0, to.1 - from.1)
    }
}

/// Where rows go on with the same frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// Where in the rows the frame is.
    pub(crate) at: u32,
    /// The earliest of the rows.
    pub(crate) first: (Origin, u32),
    /// How many frames the longest of the rows has.
    pub(crate) longest: u32,
    /// The first of the rows.
    row: u32,
    /// The entry of the frame, and whether there is none of it on the way to the node; where samples were, as the
    /// place of samples and as a caller.
    entries: [Option<(u32, bool)>; 2],
}

/// The receiver of a [`walk`].
pub(crate) trait Visitor {
    /// The next rows are those of a context.
    fn enter(&mut self, context: u32);
    /// The number of the entry that a frame is in.
    fn entry(&mut self, frame: FrameId, as_leaf: bool) -> u32;
    /// A node that was walked through, its rows, its entry, and whether there is none of that on the way to it.
    fn node(&mut self, node: &Node, rows: Range<u32>, entry: u32, is_outer: bool);
    /// Rows that go on with the same frame from a node, of which this is the place and an entry, before the node itself is told.
    #[inline]
    fn step(&mut self, _at: u32, _entry: u32, _is_outer: bool, _rows: Range<u32>) {}
    /// A row: the frame where its samples were, the entry of that, and whether it is that of a node as well.
    fn row(&mut self, row: u32, leaf: FrameId, entry: u32, is_counted: bool);
}

/// Goes through some of the rows, and through the nodes as far as the order wants to know of them: all if callees count, else
/// those where samples were and what comes next. A node comes after all that goes on from it.
pub(crate) fn walk(rows: &Rows, part: Range<u32>, order: Order, visitor: &mut impl Visitor) {
    let mut walk = Walk { visitor, path: Vec::new(), on_path: Vec::new() };
    for (context, range) in rows.contexts() {
        let range = range.start.max(part.start)..range.end.min(part.end);
        if range.is_empty() {
            continue;
        }
        walk.visitor.enter(context);
        let end = range.end;
        for row in range {
            walk.leave(rows.common(row), row);
            let frames = rows.frames(row);
            let count = match (order.with_callees, order.caller_first) {
                (true, _) => frames.len(),
                (false, true) => 0,
                (false, false) => 2,
            };
            let known = walk.path.len();
            for (&frame, at) in frames.iter().take(count).zip(0..).skip(known) {
                walk.go(frame, at, row, at == 0 && !order.caller_first, order.with_callees);
            }
            let len = frames.len() as u32;
            if let Some(node) = walk.path.last_mut() {
                node.first = node.first.min((rows.origin(row), row));
                node.longest = node.longest.max(len);
            }
            let leaf = if order.caller_first { frames.last() } else { frames.first() };
            if let Some(&leaf) = leaf {
                let entry = walk.visitor.entry(leaf, true);
                let is_counted = walk.on_path.get(entry as usize).is_some_and(|&count| count > 0);
                walk.visitor.row(row, leaf, entry, is_counted);
            }
        }
        walk.leave(0, end);
    }
}

struct Walk<'v, V> {
    visitor: &'v mut V,
    path: Vec<Node>,
    /// How often each entry is on the path.
    on_path: Vec<u32>,
}

impl<V: Visitor> Walk<'_, V> {
    /// Goes on to a frame.
    #[inline]
    fn go(&mut self, frame: FrameId, at: u32, row: u32, is_place: bool, is_caller: bool) {
        let as_leaf = is_place.then(|| self.visitor.entry(frame, true));
        let as_caller =
            is_caller.then(|| self.visitor.entry(frame, false)).filter(|&entry| as_leaf != Some(entry));
        let entries = [as_leaf, as_caller].map(|entry| {
            let entry = entry?;
            if self.on_path.len() <= entry as usize {
                self.on_path.resize(entry as usize + 1, 0);
            }
            let count = &mut self.on_path[entry as usize];
            *count += 1;
            Some((entry, *count == 1))
        });
        let first = (Origin { number: u32::MAX, thread: 0 }, row);
        self.path.push(Node { at, first, longest: 0, row, entries });
    }

    /// Goes back to a number of frames; rows from `end` on are not those of the others.
    #[inline]
    fn leave(&mut self, count: u32, end: u32) {
        while self.path.len() > count as usize {
            let Some(node) = self.path.pop() else { return };
            if let Some(outer) = self.path.last_mut() {
                outer.first = outer.first.min(node.first);
                outer.longest = outer.longest.max(node.longest);
                let (at, entries) = (outer.at, outer.entries);
                for (entry, is_outer) in entries.into_iter().flatten() {
                    self.visitor.step(at, entry, is_outer, node.row..end);
                }
            }
            for (entry, is_outer) in node.entries.into_iter().flatten() {
                self.on_path[entry as usize] -= 1;
                self.visitor.node(&node, node.row..end, entry, is_outer);
            }
        }
    }
}

/// The numbers of all stacks by context, and in each context by their frames.
fn sorted(stacks: &Paths<'_>, caller_first: bool) -> Vec<(u64, u32)> {
    let mut items: Vec<(u64, u32)> = stacks.by_context().into_iter().map(|number| (0, number)).collect();
    // As many frames as there is room for are compared at once.
    let width = u64::BITS - u64::from(stacks.most_frame() + 1).leading_zeros();
    let together = (u64::BITS / width) as usize;
    let word = |number: u32, depth: usize| {
        let frames = stacks.frames(number);
        let add = |word: u64, frame: Option<&FrameId>| {
            word << width | frame.map_or(0, |frame| u64::from(frame.0) + 1)
        };
        let places = depth..depth + together;
        match caller_first {
            true => places.fold(0, |word, at| add(word, frames.get(at))),
            false => places.fold(0, |word, at| {
                add(word, frames.len().checked_sub(at + 1).and_then(|at| frames.get(at)))
            }),
        }
    };
    let context = |item: &(u64, u32)| stacks.context(item.1);
    let mut left: Vec<(Range<usize>, usize)> = Vec::new();
    let mut start = 0;
    for part in items.chunk_by(|one, other| context(one) == context(other)) {
        left.push((start..start + part.len(), 0));
        start += part.len();
    }
    while let Some((range, depth)) = left.pop() {
        let part = &mut items[range.clone()];
        part.iter_mut().for_each(|item| item.0 = word(item.1, depth));
        part.sort_unstable();
        let mut start = range.start;
        for same in part.chunk_by(|one, other| one.0 == other.0) {
            // Without a frame that is left they are the same.
            if same.len() > 1 && same[0].0 != 0 {
                left.push((start..start + same.len(), depth + together));
            }
            start += same.len();
        }
    }
    items
}

/// Where that which holds at the start of a range no longer does. It takes few steps where that is near.
#[inline]
pub(crate) fn end_of(range: Range<u32>, holds: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut step) = (range.start, 1);
    let mut high = loop {
        match low.checked_add(step).filter(|&next| next < range.end) {
            Some(next) if holds(next) => (low, step) = (next, step * 2),
            Some(next) => break next,
            None => break range.end,
        }
    };
    // It holds at `low`, and from `high` on not.
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_found_wherever_it_is() {
        for (start, end) in [(0, 1), (3, 40), (7, 8), (0, 1000)] {
            for after in start + 1..=end {
                assert_eq!(end_of(start..end, |at| at < after), after);
            }
        }
    }
}
