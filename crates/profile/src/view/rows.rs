//! The stacks of a view read in one direction, and sorted: those that begin with the same frames follow each other,
//! and what they weigh together is one subtraction. This is the tree of all callchains, without its nodes.

use super::frames::FrameId;
use super::paths::{Paths, Sum};
use crate::spread;
use std::ops::Range;
use std::sync::Mutex;

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
    /// Where the samples were, if the callchain begins elsewhere.
    place: Option<FrameId>,
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
        let threads = spread::threads(order.len());
        let cut = |part: usize| first_new(stacks, caller_first, &order, order.len() * part / threads);
        let parts = (0..threads).map(|part| cut(part)..cut(part + 1));
        let parts = spread::over(parts, |part| {
            let before = part.start.checked_sub(1).map(|at| order[at].1);
            let mut rows = Rows::default();
            let sum = rows.extend(stacks, caller_first, before, &order[part]);
            (rows, sum)
        });
        let mut all = Rows::default();
        let mut before = (0, 0);
        for (part, sum) in parts {
            match all.rows.is_empty() {
                true => all = part,
                false => all.join(part, before),
            }
            before = (before.0 + sum.0, before.1 + sum.1);
        }
        all.rows.push(Row { start: all.frames.len(), before, ..Row::default() });
        all
    }

    /// Appends stacks that are sorted, the first of which comes after `before`; gives what they weigh.
    fn extend(
        &mut self,
        stacks: &Paths<'_>,
        caller_first: bool,
        before: Option<u32>,
        order: &[(u64, u32)],
    ) -> Sum {
        let mut first = Vec::new();
        before.iter().for_each(|&number| stacks.append(number, caller_first, &mut first));
        let mut last_context = before.map(|number| stacks.context(number));
        let mut last_place = before.and_then(|number| stacks.place(number));
        let (mut before, mut last) = ((0, 0), 0..0);
        for &(_, number) in order {
            let row = stacks.row(number);
            let (context, place) = (stacks.context(number), stacks.place(number));
            if self.contexts.len() <= context as usize {
                self.contexts.resize(context as usize + 1, 0..0);
            }
            let next = self.rows.len() as u32;
            if self.contexts[context as usize].is_empty() {
                self.contexts[context as usize] = next..next;
            }
            let start = self.frames.len();
            stacks.append(number, caller_first, &mut self.frames);
            let new = start..self.frames.len();
            let old = if next == 0 { &first[..] } else { &self.frames[last.clone()] };
            let old = if last_context == Some(context) { old } else { &[] };
            let pairs = self.frames[new.clone()].iter().zip(old);
            let common = pairs.take_while(|(one, other)| one == other).count();
            // Stacks of the same frames are one row; the first of them was there first.
            if common > 0 && common == old.len() && common == new.len() && place == last_place {
                self.frames.truncate(start);
            } else {
                let origin = Origin { number, thread: row.thread };
                self.rows.push(Row { start, before, origin, common: common as u32, place });
                self.contexts[context as usize].end = next + 1;
                last = new;
            }
            (last_context, last_place) = (Some(context), place);
            before = (before.0 + stacks.weight(number), before.1 + row.samples);
        }
        before
    }

    /// Appends the rows of the part that comes next, after this sum.
    fn join(&mut self, part: Rows, before: Sum) {
        let (row, start) = (self.rows.len() as u32, self.frames.len());
        let moved = |of: &Row| Row {
            start: of.start + start,
            before: (of.before.0 + before.0, of.before.1 + before.1),
            ..*of
        };
        self.rows.extend(part.rows.iter().map(moved));
        drop(part.rows);
        self.frames.extend_from_slice(&part.frames);
        if self.contexts.len() < part.contexts.len() {
            self.contexts.resize(part.contexts.len(), 0..0);
        }
        for (known, of) in self.contexts.iter_mut().zip(part.contexts).filter(|(_, of)| of.start < of.end) {
            let from = if known.start < known.end { known.start } else { of.start + row };
            *known = from..of.end + row;
        }
    }

    /// The frames of all rows, and where samples were.
    pub(crate) fn all_frames(&self) -> impl Iterator<Item = FrameId> + '_ {
        self.frames.iter().copied().chain(self.rows.iter().filter_map(|row| row.place))
    }

    /// The frame where the samples of a row were, when its frames are told from one end or from the other.
    #[inline]
    pub(crate) fn place(&self, row: u32, caller_first: bool) -> Option<FrameId> {
        let frames = self.frames(row);
        self.rows[row as usize].place.or(if caller_first { frames.last() } else { frames.first() }.copied())
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
    /// The entry of the frame, and whether there is none of it on the way to the node.
    entry: (u32, bool),
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

/// Goes through the rows, and through the nodes if callees count. A node comes after all that goes on from it. Where there are
/// many rows, several threads go through a part each: these are the visitors in the order of the rows. A node that several parts have rows of comes in
/// each of them.
pub(crate) fn walk<V: Visitor + Send>(rows: &Rows, order: Order, visitor: impl Fn() -> V + Sync) -> Vec<V> {
    let (count, threads) = (rows.len() as usize, spread::threads(rows.len() as usize));
    let cut = |part: usize| (count * part / threads) as u32;
    spread::over((0..threads).map(|part| cut(part)..cut(part + 1)), |part| {
        let mut visitor = visitor();
        walk_part(rows, part, order, &mut visitor);
        visitor
    })
}

fn walk_part(rows: &Rows, part: Range<u32>, order: Order, visitor: &mut impl Visitor) {
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
            let count = if order.with_callees { frames.len() } else { 0 };
            let known = walk.path.len();
            for (&frame, at) in frames[..count].iter().zip(0..).skip(known) {
                walk.go(frame, at, row);
            }
            let len = frames.len() as u32;
            if let Some(node) = walk.path.last_mut() {
                node.first = node.first.min((rows.origin(row), row));
                node.longest = node.longest.max(len);
            }
            if let Some(leaf) = rows.place(row, order.caller_first) {
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
    fn go(&mut self, frame: FrameId, at: u32, row: u32) {
        let entry = self.visitor.entry(frame, false);
        if self.on_path.len() <= entry as usize {
            self.on_path.resize(entry as usize + 1, 0);
        }
        let count = &mut self.on_path[entry as usize];
        *count += 1;
        let first = (Origin { number: u32::MAX, thread: 0 }, row);
        self.path.push(Node { at, first, longest: 0, row, entry: (entry, *count == 1) });
    }

    /// Goes back to a number of frames; rows from `end` on are not those of the others.
    #[inline]
    fn leave(&mut self, count: u32, end: u32) {
        while self.path.len() > count as usize {
            let Some(node) = self.path.pop() else { return };
            if let Some(outer) = self.path.last_mut() {
                outer.first = outer.first.min(node.first);
                outer.longest = outer.longest.max(node.longest);
                let (at, (entry, is_outer)) = (outer.at, outer.entry);
                self.visitor.step(at, entry, is_outer, node.row..end);
            }
            let (entry, is_outer) = node.entry;
            self.on_path[entry as usize] -= 1;
            self.visitor.node(&node, node.row..end, entry, is_outer);
        }
    }
}

/// From a place on, the first stack of which the one before has other frames, or another context.
fn first_new(stacks: &Paths<'_>, caller_first: bool, order: &[Item], from: usize) -> usize {
    let frames = |number| {
        let mut frames = Vec::new();
        stacks.append(number, caller_first, &mut frames);
        (stacks.context(number), frames)
    };
    let is_new = |at: &usize| *at == 0 || frames(order[*at].1) != frames(order[*at - 1].1);
    (from..order.len()).find(is_new).unwrap_or(order.len())
}

/// The numbers of all stacks by context, and in each context by their frames.
fn sorted(stacks: &Paths<'_>, caller_first: bool) -> Vec<Item> {
    let mut items: Vec<Item> = stacks.by_context().into_iter().map(|number| (0, number)).collect();
    let bits = stacks.bits().max(1);
    // As many frames as there is room for are compared at once.
    let sorter = Sorter { stacks, caller_first, at_once: ((u64::BITS / bits) as usize, bits) };
    let threads = spread::threads(stacks.len());
    for part in items.chunk_by_mut(|one, other| stacks.context(one.1) == stacks.context(other.1)) {
        sorter.sort_with(threads, part);
    }
    items
}

/// Some frames of a stack as a word, and its number.
type Item = (u64, u32);

struct Sorter<'s> {
    stacks: &'s Paths<'s>,
    caller_first: bool,
    /// How many frames are compared at once, and how many bits each has.
    at_once: (usize, u32),
}

impl Sorter<'_> {
    fn words(&self, part: &mut [Item], depth: usize) {
        for item in part {
            item.0 = self.stacks.word(item.1, self.caller_first, depth, self.at_once);
        }
    }

    /// Parts of a sorted list that have to be sorted by what comes next. Without a frame that is left they are the same.
    fn same(part: &mut [Item]) -> impl Iterator<Item = &mut [Item]> {
        let runs = part.chunk_by_mut(|one, other| one.0 == other.0);
        runs.filter(|same| same.len() > 1 && same[0].0 != 0)
    }

    /// Sorts stacks that are the same before a depth.
    fn sort(&self, part: &mut [Item], depth: usize) {
        let mut left = vec![(part, depth)];
        while let Some((part, depth)) = left.pop() {
            self.words(part, depth);
            part.sort_unstable();
            left.extend(Self::same(part).map(|part| (part, depth + self.at_once.0)));
        }
    }

    /// The same by several threads, as far as there is enough to do.
    fn sort_with(&self, threads: usize, part: &mut [Item]) {
        let (mut large, mut small) = (vec![(part, 0)], Vec::new());
        while let Some((part, depth)) = large.pop() {
            if spread::threads(part.len()).min(threads) == 1 {
                small.push((part, depth));
                continue;
            }
            spread::over(part.chunks_mut(part.len().div_ceil(threads)), |chunk| self.words(chunk, depth));
            sort_items(threads, part);
            let next = depth + self.at_once.0;
            for part in Self::same(part) {
                let list = if spread::threads(part.len()) > 1 { &mut large } else { &mut small };
                list.push((part, next));
            }
        }
        let left = Mutex::new(small.into_iter());
        let next = || {
            let mut left = left.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            left.by_ref().take(TOGETHER).collect::<Vec<_>>()
        };
        spread::over(0..threads, |_| {
            loop {
                let parts = next();
                if parts.is_empty() {
                    return;
                }
                parts.into_iter().for_each(|(part, depth)| self.sort(part, depth));
            }
        });
    }
}

/// Small parts that a thread takes at once.
const TOGETHER: usize = 64;

fn sort_items(threads: usize, items: &mut [Item]) {
    if threads < 2 || items.len() < 2 {
        return items.sort_unstable();
    }
    let middle = items.len() / 2;
    items.select_nth_unstable(middle);
    let (low, high) = items.split_at_mut(middle);
    spread::over([low, high], |half| sort_items(threads / 2, half));
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
