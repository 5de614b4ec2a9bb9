//! The call tree of an entry: its callchains, merged from the entry on as far as they are the same. It
//! has the shape and the order that perf's has, so that both can be compared line by line.
//!
//! There is no tree of all callchains, but they are sorted: those that begin with the same frames are a run of rows.
//! [`Starts`] walks through them and sums up, for all entries at once, what comes after an entry; only what is large enough
//! to be shown is looked at again. The runs of that are split where their next frames differ, what goes on with the same frame is
//! a group, and so on; groups that are too small to be shown are left at that.

use super::View;
use super::entries::Entry;
use super::frames::FrameId;
use super::paths::{Sum, add};
use super::rows::{Rows, end_of};
use super::starts::{Least, Next, Run, Start, Starts};
use crate::hash::FastMap;
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Mutex;

/// Frames without a fork between them, and what comes after them.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Branch {
    /// The frames.
    pub frames: Vec<FrameId>,
    /// Weight of the callchains that end here.
    pub own_weight: u64,
    /// How many samples that are.
    pub own_samples: u64,
    /// Weight of all callchains that come along here.
    pub weight: u64,
    /// How many samples that are.
    pub samples: u64,
    /// How they go on, largest first; small ones are left out.
    pub branches: Vec<Branch>,
}

/// A group of callchains that go on with the same frame.
#[derive(Clone, Copy, Debug)]
struct Group {
    frame: FrameId,
    sum: Sum,
    number: u32,
}

const NONE: u32 = u32::MAX;

/// Makes the call trees of entries. Several threads can make some at the same time.
pub struct Trees<'r> {
    view: &'r View<'r>,
    heaviest_first: bool,
    least: Least,
    /// Of each entry.
    starts: Vec<Starts>,
    /// Room for [`Builder::numbers`].
    scratch: Mutex<Vec<Vec<u32>>>,
}

impl<'r> Trees<'r> {
    /// For all entries of a view, with the heaviest branches first or those of the highest addresses.
    pub fn new(view: &'r View<'r>, heaviest_first: bool, least: Least) -> Self {
        Trees { view, heaviest_first, least, starts: Starts::of_all(view, least), scratch: Mutex::default() }
    }

    /// The callchains of an entry of the view as a tree. The branches of the result are where they begin.
    pub fn of(&self, entry: &Entry) -> Branch {
        let Starts { own, list } = &self.starts[entry.number as usize];
        let sum = list.iter().fold((0, 0), |sum, start| add(sum, start.sum()));
        if sum.1 == 0 {
            return Branch::default();
        }
        // A pool that a panic has left is as good as an empty one.
        let pool = || self.scratch.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut numbers = pool().pop().unwrap_or_default();
        numbers.resize(self.view.frames.len(), NONE);
        let own_run = Run { range: 0..own.len() as u32, is_own: true, at: 0 };
        let own = Own::new(&self.view.rows, own);
        let mut builder = Builder { trees: self, rows: &self.view.rows, own, numbers };
        let own_runs = builder.by_frame(&[own_run]);
        let groups =
            (0..).zip(list).map(|(number, start)| Group { frame: start.frame, sum: start.sum(), number });
        let shown = builder.shown(groups.collect(), sum.0);
        let branches = shown.into_iter().map(|group| {
            let own_runs = own_runs.get(&group.frame).map_or(&[][..], Vec::as_slice);
            builder.start(&list[group.number as usize], own_runs)
        });
        let branches = branches.collect();
        pool().push(builder.numbers);
        Branch { weight: sum.0, samples: sum.1, branches, ..Branch::default() }
    }
}

/// The rows in which samples are in an entry itself, and what they weigh.
struct Own<'c> {
    rows: &'c [u32],
    /// The weight of all before each of them, and of all.
    before: Vec<Sum>,
}

impl<'c> Own<'c> {
    fn new(all: &Rows, rows: &'c [u32]) -> Self {
        let mut sum = (0, 0);
        let mut before = vec![sum];
        before.extend(rows.iter().map(|&row| {
            sum = add(sum, all.sum(row..row + 1));
            sum
        }));
        Own { rows, before }
    }
}

/// Makes the tree of one entry.
struct Builder<'c> {
    trees: &'c Trees<'c>,
    rows: &'c Rows,
    own: Own<'c>,
    /// The group of each frame while callchains are put in groups; else [`NONE`].
    numbers: Vec<u32>,
}

impl Builder<'_> {
    /// The frame that a callchain of a run goes on with.
    #[inline]
    fn frame(&self, run: &Run, place: u32) -> Option<FrameId> {
        self.rows.frame(if run.is_own { self.own.rows[place as usize] } else { place }, run.at)
    }

    #[inline]
    fn sum(&self, run: &Run, range: Range<u32>) -> Sum {
        if !run.is_own {
            return self.rows.sum(range);
        }
        let (from, to) = (self.own.before[range.start as usize], self.own.before[range.end as usize]);
        (to.0 - from.0, to.1 - from.1)
    }

    /// Splits runs. Gives the sum of those that end here, the groups of those that go on, and their parts with the groups'
    /// numbers.
    fn split(&mut self, runs: &[Run]) -> (Sum, Vec<Group>, Vec<(u32, Run)>) {
        let mut own = (0, 0);
        let mut groups: Vec<Group> = Vec::new();
        let mut parts = Vec::with_capacity(runs.len());
        for run in runs {
            let mut from = run.range.start;
            while from < run.range.end {
                let Some(frame) = self.frame(run, from) else {
                    own = add(own, self.sum(run, from..from + 1));
                    from += 1;
                    continue;
                };
                let is_same = |place: u32| self.frame(run, place) == Some(frame);
                let end = match run.range.end {
                    end if is_same(end - 1) => end,
                    end => end_of(from..end, is_same),
                };
                let sum = self.sum(run, from..end);
                let number = &mut self.numbers[frame.0 as usize];
                if *number == NONE {
                    *number = groups.len() as u32;
                    groups.push(Group { frame, sum: (0, 0), number: *number });
                }
                let group = &mut groups[*number as usize];
                group.sum = add(group.sum, sum);
                parts.push((group.number, Run { range: from..end, at: run.at + 1, ..*run }));
                from = end;
            }
        }
        for group in &groups {
            self.numbers[group.frame.0 as usize] = NONE;
        }
        (own, groups, parts)
    }

    /// Splits runs, and gives those that go on with each frame.
    fn by_frame(&mut self, runs: &[Run]) -> FastMap<FrameId, Vec<Run>> {
        let (_, groups, parts) = self.split(runs);
        let mut all: FastMap<FrameId, Vec<Run>> = FastMap::default();
        for (number, run) in parts {
            all.entry(groups[number as usize].frame).or_default().push(run);
        }
        all
    }

    /// The groups that are large enough where callchains of some weight fork, in order.
    fn shown(&self, mut groups: Vec<Group>, weight: u64) -> Vec<Group> {
        let Trees { view: View { frames, .. }, heaviest_first, least, .. } = *self.trees;
        let least = least.of(weight);
        groups.retain(|group| group.sum.0 >= least);
        groups.sort_unstable_by_key(|group| {
            let frame = frames.get(group.frame);
            let place = if frame.symbol.is_some() { frame.address } else { frame.ip };
            let weight = if heaviest_first { group.sum.0 } else { 0 };
            (Reverse(weight), Reverse((frames.order(frame.object), place)), group.frame)
        });
        groups
    }

    /// The branch of callchains that begin with a frame. `own` are runs of the entry's own rows, of which the second frame is next.
    fn start(&mut self, start: &Start, own: &[Run]) -> Branch {
        let (weight, samples) = start.sum();
        let mut branch = Branch { frames: vec![start.frame], weight, samples, ..Branch::default() };
        let own = self.by_frame(own);
        let runs = |next: &Next| {
            let own = own.get(&next.frame).map_or(&[][..], Vec::as_slice);
            [&next.runs[..], own].concat()
        };
        if let (0, [only]) = (start.own.1, &start.next[..]) {
            branch.frames.push(only.frame);
            return self.go_on(branch, runs(only));
        }
        (branch.own_weight, branch.own_samples) = start.own;
        let groups =
            (0..).zip(&start.next).map(|(number, &Next { frame, sum, .. })| Group { frame, sum, number });
        let shown = self.shown(groups.collect(), weight - start.own.0);
        let branches = shown.into_iter().map(|group| {
            let runs = runs(&start.next[group.number as usize]);
            self.branch(group, runs)
        });
        branch.branches = branches.collect();
        branch
    }

    /// The branches of a fork at which callchains of some weight go on.
    fn branches(&mut self, groups: Vec<Group>, parts: Vec<(u32, Run)>, weight: u64) -> Vec<Branch> {
        let mut places = vec![NONE; groups.len()];
        let groups = self.shown(groups, weight);
        for (group, place) in groups.iter().zip(0..) {
            places[group.number as usize] = place;
        }
        let mut runs = vec![Vec::new(); groups.len()];
        for (number, run) in parts {
            if let Some(runs) = runs.get_mut(places[number as usize] as usize) {
                runs.push(run);
            }
        }
        groups.into_iter().zip(runs).map(|(group, runs)| self.branch(group, runs)).collect()
    }

    fn branch(&mut self, group: Group, runs: Vec<Run>) -> Branch {
        let (weight, samples) = group.sum;
        let branch = Branch { frames: vec![group.frame], weight, samples, ..Branch::default() };
        self.go_on(branch, runs)
    }

    /// Completes a branch of which all runs are known.
    fn go_on(&mut self, mut branch: Branch, mut runs: Vec<Run>) -> Branch {
        loop {
            let (own, groups, parts) = self.split(&runs);
            if let (0, [only]) = (own.1, &groups[..]) {
                branch.frames.push(only.frame);
                runs = parts.into_iter().map(|(_, run)| run).collect();
                continue;
            }
            (branch.own_weight, branch.own_samples) = own;
            branch.branches = self.branches(groups, parts, branch.weight - own.0);
            return branch;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::Order;
    use super::super::{Frames, ViewPlan};
    use super::*;
    use crate::keys::Key;
    use crate::profile::Profile;

    /// Callchains, outermost caller first, where the samples were, and their weights.
    type Stacks = Vec<(Vec<u32>, u32, u64)>;

    fn random_stacks(seed: u64) -> Stacks {
        let mut state = seed * 2 + 1;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let mut stack = || {
            let len = 1 + next(6);
            let chain: Vec<u32> = (0..len).map(|_| next(4) as u32).collect();
            let last = *chain.last().expect("a frame");
            (chain, if next(3) == 0 { next(4) as u32 } else { last }, 1 + next(9))
        };
        std::iter::repeat_with(&mut stack).take(40).collect()
    }

    /// The callchains of an entry as a tree of words: a frame, what is under it, what ends there.
    fn expected(chains: &[(&[u32], u64)], least: u64) -> String {
        let mut frames: Vec<(u64, u32)> = (0..4)
            .map(|frame| {
                let here = chains.iter().filter(|(chain, _)| chain.first() == Some(&frame));
                (here.map(|(_, weight)| weight).sum(), frame)
            })
            .filter(|&(weight, _)| weight >= least)
            .collect();
        frames.sort_unstable_by(|one, other| other.cmp(one));
        let mut text = String::new();
        for (weight, frame) in frames {
            let here = chains.iter().filter(|(chain, _)| chain.first() == Some(&frame));
            let further: Vec<(&[u32], u64)> = here.map(|(chain, weight)| (&chain[1..], *weight)).collect();
            let own: u64 =
                further.iter().filter(|(chain, _)| chain.is_empty()).map(|(_, weight)| weight).sum();
            text += &format!("{frame}:{weight}:{own}({})", expected(&further, least));
        }
        text
    }

    fn shown(branches: &[Branch]) -> String {
        let mut text = String::new();
        for branch in branches {
            let (last, others) = branch.frames.split_last().expect("a frame");
            for frame in others {
                text += &format!("{}:{}:0(", frame.0, branch.weight);
            }
            text +=
                &format!("{}:{}:{}({})", last.0, branch.weight, branch.own_weight, shown(&branch.branches));
            text += &")".repeat(others.len());
        }
        text
    }

    #[test]
    fn trees_are_those_of_each_callchain_by_itself() {
        for (seed, keys) in (0..40).flat_map(|seed| [(seed, Key::Symbol), (seed, Key::Dso)]) {
            let stacks = random_stacks(seed);
            for (caller_first, with_callees) in [(true, true), (true, false), (false, true), (false, false)] {
                let mut profile = Profile::numbered(4);
                stacks.iter().for_each(|(stack, place, weight)| profile.add_stack_at(stack, *place, *weight));
                let frames = Frames::numbered(4).of_profile(&profile);
                let mut plan = ViewPlan::new(&[keys]);
                plan.order = Order::new(caller_first, with_callees);
                let view = View::new(&profile, &frames, 0, &plan);
                let least = seed % 7;
                let trees = Trees::new(&view, true, Least::Weight(least.max(1)));
                for entry in &view.entries {
                    let is_it = |frame: &u32| keys == Key::Dso || *frame == entry.frame.0;
                    let mut of_entry: Vec<(Vec<u32>, u64)> = Vec::new();
                    for (stack, place, weight) in &stacks {
                        let is_own = is_it(place);
                        let whole = stack.iter().copied();
                        let chain: Vec<u32> = match (caller_first, is_own, with_callees) {
                            (_, false, false) => continue,
                            (true, true, _) => whole.collect(),
                            (false, true, _) => whole.rev().collect(),
                            (true, false, true) => whole.skip_while(|frame| !is_it(frame)).collect(),
                            (false, false, true) => whole.rev().skip_while(|frame| !is_it(frame)).collect(),
                        };
                        if !chain.is_empty() {
                            of_entry.push((chain, *weight));
                        }
                    }
                    let all: u64 = of_entry.iter().map(|(_, weight)| weight).sum();
                    if with_callees {
                        assert_eq!(entry.total_weight, all);
                    }
                    let of_entry: Vec<_> =
                        of_entry.iter().map(|(chain, weight)| (&chain[..], *weight)).collect();
                    let tree = if all >= least { expected(&of_entry, least.max(1)) } else { String::new() };
                    assert_eq!(
                        shown(&trees.of(entry).branches),
                        tree,
                        "{seed} {keys:?} {caller_first} {with_callees}"
                    );
                }
            }
        }
    }
}
