//! How the call trees of all entries begin: their first frames, the frames that come next, and the rows in which callchains go
//! on so. The rows are walked through once for the sums, and once more for the rows of those that are large enough; by several
//! threads where there are many rows.

use super::View;
use super::entries::{ByFrame, Entry};
use super::frames::FrameId;
use super::paths::{Sum, add};
use super::rows::{Node, Rows, Visitor, walk};
use crate::hash::FastMap;
use std::ops::Range;

/// Which branches are large enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Least {
    /// Those of at least this weight.
    Weight(u64),
    /// Those of at least this share of what forks there.
    Share(f64),
}

impl Least {
    /// The least weight of what goes on where callchains of some weight fork.
    pub(super) fn of(self, weight: u64) -> u64 {
        match self {
            Least::Weight(least) => least,
            Least::Share(share) => (weight as f64 * share).ceil() as u64,
        }
    }
}

/// Callchains that have been the same up to a frame.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Places in the list of the entry's own rows, or rows of the view.
    pub(super) range: Range<u32>,
    pub(super) is_own: bool,
    /// Where in each row the next frame is.
    pub(super) at: u32,
}

/// How the callchains of an entry begin.
#[derive(Clone, Debug, Default)]
pub(super) struct Starts {
    /// The rows of samples in the entry itself: their callchains are told from their beginning.
    pub(super) own: Vec<u32>,
    /// By their first frames.
    pub(super) list: Vec<Start>,
}

/// The callchains of an entry that begin with a frame.
#[derive(Clone, Debug)]
pub(super) struct Start {
    pub(super) frame: FrameId,
    /// Those that end there.
    pub(super) own: Sum,
    /// How they go on.
    pub(super) next: Vec<Next>,
}

impl Start {
    /// All of them.
    pub(super) fn sum(&self) -> Sum {
        self.next.iter().fold(self.own, |sum, next| add(sum, next.sum))
    }
}

/// The callchains of an entry that begin with two frames.
#[derive(Clone, Debug)]
pub(super) struct Next {
    pub(super) frame: FrameId,
    pub(super) sum: Sum,
    /// Rows in which they are, but for the entry's own; none if they are too few to be shown.
    pub(super) runs: Vec<Run>,
}

/// An entry, and the first two frames of its callchains, the first in the upper half.
type Beginning = (u32, u64);

/// In place of a second frame where there is none.
const NONE: u32 = u32::MAX;

fn beginning(entry: u32, first: FrameId, second: Option<FrameId>) -> Beginning {
    (entry, u64::from(first.0) << 32 | u64::from(second.map_or(NONE, |frame| frame.0)))
}

impl Starts {
    /// Those of all entries of a view, which have none if they are too small to be shown.
    pub(super) fn of_all(view: &View<'_>, least: Least) -> Vec<Starts> {
        let order = view.plan.order;
        let rank = |entry: &Entry| if order.with_callees { entry.total_weight } else { entry.self_weight };
        // No branch can be heavier than all of them.
        let is_wanted = |entry: &Entry| match least {
            Least::Weight(least) => rank(entry) >= least,
            Least::Share(_) => true,
        };
        let is_wanted: Vec<bool> = view.entries.iter().map(is_wanted).collect();
        let mut all = vec![Starts::default(); view.entries.len()];
        let mut sums: FastMap<Beginning, Sum> = FastMap::default();
        for part in walk(&view.rows, order, || Finder::new(view, &is_wanted, Sums::default())) {
            part.own.into_iter().zip(&mut all).for_each(|(own, starts)| starts.own.extend(own));
            for (beginning, sum) in part.takes.0 {
                let known = sums.entry(beginning).or_default();
                *known = add(*known, sum);
            }
        }
        let mut places: FastMap<(u32, FrameId), usize> = FastMap::default();
        for (&(entry, frames), &sum) in &sums {
            let (frame, next) = (FrameId((frames >> 32) as u32), FrameId(frames as u32));
            let list = &mut all[entry as usize].list;
            let place = *places.entry((entry, frame)).or_insert_with(|| {
                list.push(Start { frame, own: (0, 0), next: Vec::new() });
                list.len() - 1
            });
            match next.0 {
                NONE => list[place].own = sum,
                _ => list[place].next.push(Next { frame: next, sum, runs: Vec::new() }),
            }
        }
        // Only what is shown is looked at again.
        let mut numbers: FastMap<Beginning, u32> = FastMap::default();
        let mut shown: Vec<(usize, usize, usize)> = Vec::new();
        for (entry, starts) in all.iter().enumerate() {
            let weight = starts.list.iter().map(|start| start.sum().0).sum();
            for (at, start) in
                starts.list.iter().enumerate().filter(|(_, start)| start.sum().0 >= least.of(weight))
            {
                let is_only = start.own.1 == 0 && start.next.len() == 1;
                let least = if is_only { 0 } else { least.of(start.sum().0 - start.own.0) };
                for (place, next) in start.next.iter().enumerate().filter(|(_, next)| next.sum.0 >= least) {
                    let beginning = beginning(entry as u32, start.frame, Some(next.frame));
                    numbers.insert(beginning, shown.len() as u32);
                    shown.push((entry, at, place));
                }
            }
        }
        let takes = || Finds { numbers: &numbers, runs: vec![Vec::new(); shown.len()] };
        for part in walk(&view.rows, order, || Finder::new(view, &is_wanted, takes())) {
            for (runs, &(entry, at, place)) in part.takes.runs.into_iter().zip(&shown) {
                all[entry].list[at].next[place].runs.extend(runs);
            }
        }
        all
    }
}

/// Takes the callchains that begin in some way.
trait Takes {
    /// Those of some rows; where in the rows their first frame is, and what they weigh.
    fn take(&mut self, beginning: Beginning, at: u32, rows: Range<u32>, sum: Sum);
    /// Whether it takes the callchains of an entry's own rows, too.
    const OWN: bool;
}

/// Adds up what they weigh.
#[derive(Default)]
struct Sums(FastMap<Beginning, Sum>);

impl Takes for Sums {
    const OWN: bool = true;

    #[inline]
    fn take(&mut self, beginning: Beginning, _: u32, _: Range<u32>, sum: Sum) {
        let known = self.0.entry(beginning).or_default();
        *known = add(*known, sum);
    }
}

/// Finds the rows of those that have a number.
struct Finds<'n> {
    numbers: &'n FastMap<Beginning, u32>,
    runs: Vec<Vec<Run>>,
}

impl Takes for Finds<'_> {
    const OWN: bool = false;

    #[inline]
    fn take(&mut self, beginning: Beginning, at: u32, rows: Range<u32>, _: Sum) {
        if let Some(&number) = self.numbers.get(&beginning) {
            self.runs[number as usize].push(Run { range: rows, is_own: false, at: at + 2 });
        }
    }
}

/// Walks through rows for those entries that are wanted.
struct Finder<'r, T> {
    rows: &'r Rows,
    by_frame: ByFrame<'r>,
    is_wanted: &'r [bool],
    own: Vec<Vec<u32>>,
    takes: T,
}

impl<'r, T: Takes> Finder<'r, T> {
    fn new(view: &'r View<'_>, is_wanted: &'r [bool], takes: T) -> Self {
        let own = vec![Vec::new(); view.entries.len()];
        Finder { rows: &view.rows, by_frame: view.entries_by_frame(), is_wanted, own, takes }
    }

    /// Takes those of some rows that are not the entry's own: callchains that are told from their beginning are not told again.
    #[inline]
    fn take_others(&mut self, entry: u32, beginning: Beginning, at: u32, rows: Range<u32>) {
        let own = &self.own[entry as usize];
        let of_rows = own.iter().rev().take_while(|&&row| row >= rows.start).count();
        let mut start = rows.start;
        for &row in own[own.len() - of_rows..].iter().take_while(|&&row| row < rows.end) {
            if start < row {
                self.takes.take(beginning, at, start..row, self.rows.sum(start..row));
            }
            start = row + 1;
        }
        if start < rows.end {
            self.takes.take(beginning, at, start..rows.end, self.rows.sum(start..rows.end));
        }
    }
}

impl<T: Takes> Visitor for Finder<'_, T> {
    fn enter(&mut self, context: u32) {
        self.by_frame.enter(context);
    }

    #[inline]
    fn entry(&mut self, frame: FrameId, as_leaf: bool) -> u32 {
        self.by_frame.entry(frame, as_leaf)
    }

    /// The callchains that end at a node.
    #[inline]
    fn node(&mut self, node: &Node, rows: Range<u32>, entry: u32, is_outer: bool) {
        if !is_outer || !self.is_wanted[entry as usize] {
            return;
        }
        let (all, len) = (self.rows, node.at as usize + 1);
        let end = rows.clone().find(|&row| all.frames(row).len() > len).unwrap_or(rows.end);
        if end > rows.start {
            let frame = all.frames(rows.start)[node.at as usize];
            self.take_others(entry, beginning(entry, frame, None), node.at, rows.start..end);
        }
    }

    /// The callchains that go on from a node.
    #[inline]
    fn step(&mut self, at: u32, entry: u32, is_outer: bool, rows: Range<u32>) {
        if !is_outer || !self.is_wanted[entry as usize] {
            return;
        }
        let frames = &self.rows.frames(rows.start)[at as usize..];
        let beginning = beginning(entry, frames[0], Some(frames[1]));
        self.take_others(entry, beginning, at, rows);
    }

    #[inline]
    fn row(&mut self, row: u32, _: FrameId, entry: u32, _: bool) {
        let frames = self.rows.frames(row);
        if let (Some(&first), true) = (frames.first(), self.is_wanted[entry as usize]) {
            self.own[entry as usize].push(row);
            if T::OWN {
                let beginning = beginning(entry, first, frames.get(1).copied());
                self.takes.take(beginning, 0, row..row + 1, self.rows.sum(row..row + 1));
            }
        }
    }
}
