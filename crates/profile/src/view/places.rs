//! An entry from near: the places in it, by address and source line, and its callers and callees.

use super::View;
use super::entries::Entry;
use super::frames::FrameId;
use super::paths::Sum;
use crate::names::Names;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A place in a function.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlaceSum {
    /// From the start of the function; of code without a name, the address as its object counts.
    pub offset: u64,
    /// The source line, if the names tell it: file and line.
    pub line: Option<(String, u32)>,
    /// Occurrences of the event at the place.
    pub self_weight: u64,
    /// Samples at the place.
    pub self_samples: u64,
    /// Occurrences at the place and in all that is called from there.
    pub total_weight: u64,
}

/// The functions that call an entry, and those that it calls, each with the occurrences that came this way; heaviest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Neighbours {
    /// Callers; without a frame, what came from nowhere.
    pub callers: Vec<(Option<FrameId>, u64)>,
    /// Callees; without a frame, what stayed in the entry.
    pub callees: Vec<(Option<FrameId>, u64)>,
}

/// Callers or callees by what the view's keys do not tell apart, each with its first frame and the sum.
type Ends = HashMap<Option<u32>, (Option<FrameId>, u64)>;

impl View<'_> {
    /// The places of an entry at which samples were, or from which it called, in the order of their offsets. They are of
    /// all contexts: a function has the same lines in each.
    pub fn places(&self, names: &Names<'_>, entry: &Entry) -> Vec<PlaceSum> {
        let mut sums: BTreeMap<u64, PlaceSum> = BTreeMap::new();
        let event = self.event_index;
        let mut met = HashSet::new();
        for (_, row) in self.frames.rows_of(self.profile, event).filter(|(_, row)| row.samples > 0) {
            met.clear();
            for (at, location) in self.profile.stack(row.stack).enumerate() {
                let is_leaf = at == 0;
                for (depth, &frame) in self.frames.at(location).iter().enumerate() {
                    if !self.is_in(entry, frame) {
                        continue;
                    }
                    let told = names.at(location).get(depth);
                    let object = self.profile.location(location).object;
                    let offset = told.map_or(self.profile.location(location).address, |told| told.offset);
                    let line = || {
                        let (file, line) = told?.line?;
                        Some((names.file(object, file).to_owned(), line))
                    };
                    let sum = sums.entry(offset).or_insert_with(|| PlaceSum {
                        offset,
                        line: line(),
                        self_weight: 0,
                        self_samples: 0,
                        total_weight: 0,
                    });
                    if is_leaf && depth == 0 {
                        (sum.self_weight, sum.self_samples) =
                            (sum.self_weight + row.weight, sum.self_samples + row.samples);
                    }
                    if met.insert(offset) {
                        sum.total_weight += row.weight;
                    }
                }
            }
        }
        sums.into_values().collect()
    }

    /// The callers and callees of an entry. Callers are known where callees count in the view's order.
    pub fn neighbours(&self, entry: &Entry) -> Neighbours {
        let mut sides: [Ends; 2] = Default::default();
        let rows = self.rows.contexts().find(|(context, _)| *context == entry.context);
        let mut met: HashSet<(usize, Option<u32>)> = HashSet::new();
        for row in rows.map_or(0..0, |(_, rows)| rows) {
            let frames = self.rows.frames(row);
            let (weight, _): Sum = self.rows.sum(row..row + 1);
            met.clear();
            let is_in = |frame: &FrameId| self.is_in(entry, *frame);
            // A sample whose callchain begins in another function came from there, as far as is known.
            if !frames.iter().any(is_in) {
                let first = if self.plan.order.caller_first { frames.last() } else { frames.first() };
                if self.rows.place(row, self.plan.order.caller_first).as_ref().is_some_and(is_in) {
                    for (side, end) in [first.copied(), None].into_iter().enumerate() {
                        let group = end.map(|frame| self.group_of(frame));
                        sides[side].entry(group).or_insert((end, 0)).1 += weight;
                    }
                }
            }
            for (at, _) in frames.iter().enumerate().filter(|&(_, &frame)| self.is_in(entry, frame)) {
                let before = at.checked_sub(1).map(|at| frames[at]);
                let after = frames.get(at + 1).copied();
                let ends = if self.plan.order.caller_first { [before, after] } else { [after, before] };
                for (side, end) in ends.into_iter().enumerate() {
                    let group = end.map(|frame| self.group_of(frame));
                    // Recursion counts once.
                    if met.insert((side, group)) {
                        sides[side].entry(group).or_insert((end, 0)).1 += weight;
                    }
                }
            }
        }
        let [callers, callees] = sides.map(|side| {
            let mut list: Vec<(Option<FrameId>, u64)> = side.into_values().collect();
            list.sort_unstable_by_key(|&(frame, weight)| (std::cmp::Reverse(weight), frame));
            list
        });
        Neighbours { callers, callees }
    }
}
