//! The entries of a report: what is the same in all keys becomes one, with its share of the samples alone
//! and with all it calls.

use super::View;
use super::frames::{FrameId, Frames};
use super::rows::{Node, Origin, Rows, Visitor, walk};
use crate::hash::FastMap;
use crate::keys::{Column, Key};
use perfuse_data::session::Level;
use std::ops::Range;

/// A line of a report.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The number of the context: the values of the keys that do not depend on frames.
    pub(crate) context: u32,
    /// Its place among the entries.
    pub(crate) number: u32,
    /// The number of its frames' group.
    group: u32,
    /// The first of its frames: they are the same in what the report tells apart.
    pub frame: FrameId,
    /// Whether samples were in it: then its address is told as its object counts, else as its process did.
    pub(crate) is_leaf: bool,
    /// The level of its code, where its frame tells.
    pub level: Level,
    /// Occurrences of the event in it.
    pub self_weight: u64,
    /// Samples in it.
    pub self_samples: u64,
    /// Of the occurrences, those in the kernel, the program, a guest's kernel, a guest's programs.
    pub(crate) self_levels: [u64; 4],
    /// Occurrences in it and in what it called, if callers were asked for.
    pub total_weight: u64,
    /// Samples in it and in what it called, if callers were asked for.
    pub total_samples: u64,
    /// Its part of the latency, and that of it and what it called, where they are [asked for](super::ViewPlan::latency).
    pub latency: (u64, u64),
    /// Where its first sample came from, and the row of that.
    first: (Origin, u32),
    /// The longest way from it to where samples were, in frames; for samples in it, from the outermost
    /// caller.
    pub(crate) depth: u32,
    /// The longest way from it to the outermost caller.
    pub(crate) reach: u32,
}

/// Which levels have a count of their own.
pub(crate) const LEVELS: [Level; 4] = [Level::Kernel, Level::User, Level::GuestKernel, Level::GuestUser];

const NONE: u32 = u32::MAX;

/// Groups of frames that a report's keys do not tell apart.
#[derive(Debug)]
pub(crate) struct Groups {
    /// For each frame, that of the entry it is in as the place of a sample, and as a caller.
    numbers: Vec<(u32, u32)>,
    count: u32,
}

impl Groups {
    /// Those of the frames that the stacks of a view have: a profile may have many events, each with a few.
    pub(crate) fn new(frames: &Frames, keys: &[Key], used: impl Iterator<Item = FrameId>) -> Self {
        let has = |key| keys.contains(&key);
        let (by_symbol, by_object) = (has(Key::Symbol), has(Key::Dso));
        let (by_offset, by_size) = (has(Key::SymOff), has(Key::SymbolSize));
        let (by_line, by_file) = (has(Key::Srcline), has(Key::Srcfile));
        let (by_place, by_mapped) = (has(Key::Addr), has(Key::DsoSize));
        let mut known: FastMap<[u64; 9], u32> = FastMap::default();
        let mut names: FastMap<&str, u64> = FastMap::default();
        let mut files: FastMap<&str, u64> = FastMap::default();
        let mut number = |frame: FrameId, is_leaf: bool| {
            let of = frames.get(frame);
            let mut key = [0u64; 9];
            let alias = u64::from(frames.alias(of.object)) + 1;
            if by_object {
                key[0] = alias;
            }
            // Lines of the same name are one, in whichever function; what has none is told apart by its place.
            let line = frames.line(of).filter(|_| by_line || by_file);
            if let Some((file, line)) = line {
                let next = files.len() as u64 + 1;
                let file = *files.entry(file).or_insert(next);
                key[8] = file << 32 | if by_line { line.into() } else { 0 };
            }
            if by_symbol || by_offset || by_line && line.is_none() {
                match &of.symbol {
                    Some(name) => {
                        key[0] = alias;
                        (key[1], key[2]) = (of.address, of.size.saturating_add(1));
                        // Inlined functions are where the one is that has them.
                        if of.is_inlined {
                            let next = names.len() as u64 + 1;
                            key[7] = *names.entry(name).or_insert(next);
                        }
                        if by_offset || by_line && line.is_none() {
                            key[3] = of.offset.saturating_add(1);
                        }
                    }
                    None => key[1] = if is_leaf { of.address } else { of.ip },
                }
            }
            if by_size {
                key[4] = if of.symbol.is_some() { of.size.saturating_add(1) } else { 0 };
            }
            if by_place {
                key[5] = of.ip;
            }
            if by_mapped {
                key[6] = of.mapped;
            }
            let next = known.len() as u32;
            *known.entry(key).or_insert(next)
        };
        let mut pair = |id: FrameId| {
            let of = frames.get(id);
            let as_leaf = number(id, true);
            let is_alike = of.symbol.is_some() || of.address == of.ip;
            (as_leaf, if is_alike { as_leaf } else { number(id, false) })
        };
        let mut used = used.peekable();
        let mut numbers = vec![(NONE, NONE); if used.peek().is_none() { 0 } else { frames.len() }];
        for frame in used {
            if numbers[frame.0 as usize].0 == NONE {
                numbers[frame.0 as usize] = pair(frame);
            }
        }
        Groups { numbers, count: known.len() as u32 }
    }

    #[inline]
    fn as_leaf(&self, frame: FrameId) -> u32 {
        self.numbers[frame.0 as usize].0
    }

    #[inline]
    fn as_caller(&self, frame: FrameId) -> u32 {
        self.numbers[frame.0 as usize].1
    }
}

/// Entries of one context after the other, by their frames.
pub(crate) struct ByFrame<'r> {
    groups: &'r Groups,
    /// Those of contexts that are still to come. The entries of a context follow each other.
    entries: &'r [Entry],
    numbers: Vec<u32>,
}

impl ByFrame<'_> {
    /// From now on it is about another context that comes later, which has this number.
    pub(crate) fn enter(&mut self, context: u32) {
        let before = self.entries.partition_point(|entry| entry.context < context);
        self.entries = &self.entries[before..];
        while let Some((entry, rest)) =
            self.entries.split_first().filter(|(entry, _)| entry.context == context)
        {
            self.numbers[entry.group as usize] = entry.number;
            self.entries = rest;
        }
    }

    /// The number of the entry that a frame is in, as the place of samples or as a caller.
    #[inline]
    pub(crate) fn entry(&self, frame: FrameId, as_leaf: bool) -> u32 {
        let group = if as_leaf { self.groups.as_leaf(frame) } else { self.groups.as_caller(frame) };
        self.numbers[group as usize]
    }
}

/// Makes entries, of one context after the other.
struct Filler<'f> {
    rows: &'f Rows,
    groups: &'f Groups,
    caller_first: bool,
    frames: &'f Frames,
    entries: Vec<Entry>,
    /// The entry of each group of frames.
    numbers: Vec<u32>,
    context: u32,
    /// Entries below this are of other contexts.
    of_others: u32,
}

impl Visitor for Filler<'_> {
    fn enter(&mut self, context: u32) {
        (self.context, self.of_others) = (context, self.entries.len() as u32);
    }

    #[inline]
    fn entry(&mut self, frame: FrameId, as_leaf: bool) -> u32 {
        let group = if as_leaf { self.groups.as_leaf(frame) } else { self.groups.as_caller(frame) };
        let known = &mut self.numbers[group as usize];
        if *known == NONE || *known < self.of_others {
            *known = self.entries.len() as u32;
            self.entries.push(Entry::new(self.context, group, *known));
        }
        *known
    }

    fn node(&mut self, node: &Node, rows: Range<u32>, entry: u32, is_outer: bool) {
        let entry = &mut self.entries[entry as usize];
        if is_outer {
            let (weight, samples) = self.rows.sum(rows.clone());
            entry.total_weight += weight;
            entry.total_samples += samples;
        }
        let ways = (node.longest - node.at, node.at + 1);
        let (inwards, outwards) = if self.caller_first { ways } else { (ways.1, ways.0) };
        (entry.depth, entry.reach) = (entry.depth.max(inwards), entry.reach.max(outwards));
        if node.first < entry.first {
            entry.first = node.first;
            entry.frame = self.rows.frames(rows.start)[node.at as usize];
        }
    }

    fn row(&mut self, row: u32, leaf: FrameId, entry: u32, is_counted: bool) {
        let (weight, samples) = self.rows.sum(row..row + 1);
        let len = self.rows.frames(row).len() as u32;
        let level = self.frames.get(leaf).level;
        let entry = &mut self.entries[entry as usize];
        entry.is_leaf = true;
        entry.self_weight += weight;
        entry.self_samples += samples;
        if let Some(at) = LEVELS.iter().position(|&one| one == level) {
            entry.self_levels[at] += weight;
        }
        if !is_counted {
            entry.total_weight += weight;
            entry.total_samples += samples;
        }
        (entry.depth, entry.reach) = (entry.depth.max(len), entry.reach.max(len));
        let first = (self.rows.origin(row), row);
        if first < entry.first {
            (entry.first, entry.frame) = (first, leaf);
        }
    }
}

/// Appends the entries of the part of the rows that comes next; those of its first context may be there already.
fn join(all: &mut Vec<Entry>, part: Vec<Entry>) {
    let last = all.last().map(|entry| entry.context);
    let of_last = all.iter().rev().take_while(|entry| Some(entry.context) == last);
    let known: FastMap<u32, u32> = of_last.map(|entry| (entry.group, entry.number)).collect();
    for entry in part {
        let number = known.get(&entry.group).filter(|_| Some(entry.context) == last);
        match number {
            Some(&number) => all[number as usize].join(&entry),
            None => all.push(Entry { number: all.len() as u32, ..entry }),
        }
    }
}

impl View<'_> {
    /// Fills in the entries, with latencies if there are rows that weigh as these.
    pub(crate) fn make_entries(&mut self, latencies: Option<&Rows>) {
        let mut entries = self.entries_of(&self.rows);
        if let Some(rows) = latencies {
            // They have the same frames in the same order, and so the same entries.
            for (entry, other) in entries.iter_mut().zip(self.entries_of(rows)) {
                entry.latency = (other.self_weight, other.total_weight);
            }
        }
        self.entries = entries;
        self.settle_levels();
    }

    fn entries_of(&self, rows: &Rows) -> Vec<Entry> {
        let View { frames, plan, groups, .. } = self;
        let filler = || Filler {
            rows,
            groups,
            caller_first: plan.order.caller_first,
            frames,
            entries: Vec::new(),
            numbers: vec![NONE; groups.count as usize],
            context: NONE,
            of_others: 0,
        };
        let mut entries: Vec<Entry> = Vec::new();
        for part in walk(rows, plan.order, filler) {
            join(&mut entries, part.entries);
        }
        for entry in &mut entries {
            entry.level = frames.get(entry.frame).level;
        }
        entries
    }

    /// Whether a frame is in the group of an entry.
    pub(crate) fn is_in(&self, entry: &Entry, frame: FrameId) -> bool {
        self.groups.as_leaf(frame) == entry.group || self.groups.as_caller(frame) == entry.group
    }

    /// The same number for all frames that the view's keys do not tell apart, as callers.
    pub(crate) fn group_of(&self, frame: FrameId) -> u32 {
        self.groups.as_caller(frame)
    }

    /// A finder of the entries of frames in one context.
    pub(crate) fn entries_by_frame(&self) -> ByFrame<'_> {
        let numbers = vec![NONE; self.groups.count as usize];
        ByFrame { groups: &self.groups, entries: &self.entries, numbers }
    }

    /// An address outside of all maps has no level of its own: it is shown with that of the nearest frame
    /// before it in the call tree that has one, else with that of the sample. A sample's own address has that of the sample.
    fn settle_levels(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        let View { frames, groups, rows, plan, .. } = &*self;
        let order = plan.order;
        let level = |frame: &FrameId| {
            let frame = frames.get(*frame);
            (frame.object != 0).then_some(frame.level)
        };
        for entry in entries.iter_mut().filter(|entry| frames.get(entry.frame).object == 0) {
            let path = rows.frames(entry.first.1);
            let is_it = |&frame: &FrameId| groups.as_caller(frame) == entry.group;
            let leaf = rows.place(entry.first.1, order.caller_first);
            let at = match order.caller_first {
                true => path.iter().position(is_it),
                false => path.iter().rposition(is_it),
            };
            let at = at.filter(|_| order.with_callees || order.caller_first).unwrap_or(0);
            let is_own = leaf.is_some_and(|leaf| groups.as_leaf(leaf) == entry.group);
            let before = path[..at].iter().rev().find_map(level).filter(|_| !is_own);
            if let Some(level) = before.or(leaf.map(|leaf| frames.get(leaf).level)) {
                entry.level = level;
            }
        }
        self.entries = entries;
    }
}

impl Default for Entry {
    /// Nothing at all, to be shown where there is no such entry, or to add entries up.
    fn default() -> Self {
        Entry {
            context: 0,
            group: 0,
            number: 0,
            frame: FrameId(0),
            is_leaf: false,
            level: Level::Unknown,
            self_weight: 0,
            self_samples: 0,
            self_levels: [0; 4],
            total_weight: 0,
            total_samples: 0,
            latency: (0, 0),
            first: (Origin { number: NONE, thread: NONE }, NONE),
            depth: 0,
            reach: 0,
        }
    }
}

impl Entry {
    /// Adds the samples of another.
    pub fn add(&mut self, other: &Entry) {
        self.self_weight += other.self_weight;
        self.self_samples += other.self_samples;
        self.total_weight += other.total_weight;
        self.total_samples += other.total_samples;
        self.latency = (self.latency.0 + other.latency.0, self.latency.1 + other.latency.1);
        self.self_levels.iter_mut().zip(other.self_levels).for_each(|(sum, more)| *sum += more);
    }

    /// Adds what other rows have of the same entry.
    fn join(&mut self, other: &Entry) {
        self.add(other);
        self.is_leaf |= other.is_leaf;
        (self.depth, self.reach) = (self.depth.max(other.depth), self.reach.max(other.reach));
        if other.first < self.first {
            (self.first, self.frame) = (other.first, other.frame);
        }
    }

    fn new(context: u32, group: u32, number: u32) -> Self {
        Entry { context, group, number, ..Entry::default() }
    }

    /// The thread of its first sample.
    pub(crate) fn thread(&self) -> u32 {
        self.first.0.thread
    }

    /// The occurrences of the event in it that a column of one level counts.
    pub fn self_in(&self, column: Column) -> u64 {
        column.level().map_or(0, |level| self.self_at(level))
    }

    pub(crate) fn self_at(&self, level: Level) -> u64 {
        LEVELS.iter().position(|&one| one == level).map_or(0, |at| self.self_levels[at])
    }
}

#[cfg(test)]
mod tests {
    use super::super::ViewPlan;
    use super::*;
    use crate::profile::Profile;

    /// A group may have ten thousand events, of which one has samples.
    #[test]
    fn a_view_costs_what_its_event_has() {
        let frames = Frames::numbered(1000);
        let mut profile = Profile::numbered(1000);
        (1..1000).for_each(|frame| profile.add_stack(&[frame], 1));
        let groups = |event| {
            let view = View::new(&profile, &frames, event, &ViewPlan::new(&[Key::Symbol]));
            (view.entries.len(), view.groups.count, view.groups.numbers.len())
        };
        assert_eq!((groups(0), groups(1)), ((999, 999, 1000), (0, 0, 0)));
    }

    #[test]
    fn a_function_that_calls_itself_counts_once_in_all() {
        let frames = Frames::numbered(4);
        let mut profile = Profile::numbered(4);
        profile.add_stack(&[1, 2, 2], 10);
        profile.add_stack(&[1, 2, 3], 5);
        profile.add_stack(&[1, 2, 2], 1);
        let view = View::new(&profile, &frames, 0, &ViewPlan::new(&[Key::Symbol]).with_callers());
        let mut entries = view.entries.clone();
        entries.sort_by_key(|entry| entry.frame);
        let numbers: Vec<_> = entries.iter().map(|entry| (entry.self_weight, entry.total_weight)).collect();
        assert_eq!(numbers, [(0, 16), (11, 16), (5, 5)]);
        assert_eq!(entries[1].self_samples, 2);
    }
}
