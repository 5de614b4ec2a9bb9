//! The entries of a report: what is the same in all keys becomes one, with its share of the samples alone
//! and with all it calls.

use crate::chains::Order;
use crate::collect::Profile;
use crate::frames::{FrameId, Frames};
use crate::hash::FastMap;
use crate::keys::{Column, Key};
use crate::tree::{NONE, Node, Sum};
use perfuse_data::session::Level;

/// A line of a report.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// Where the values of keys are that are not of frames.
    pub(crate) context: u32,
    /// One of its frames: they are the same in what the report tells apart.
    pub frame: FrameId,
    /// Whether samples were in it: then its address is told as its object counts, else as its process did.
    pub(crate) is_leaf: bool,
    /// Whose code it is, where its frame tells.
    pub level: Level,
    /// Occurrences of the event in it.
    pub self_weight: u64,
    /// Samples in it.
    pub self_samples: u64,
    /// Of the occurrences, those in the kernel, the program, a guest's kernel, a guest's programs.
    pub(crate) self_levels: [u64; 4],
    /// Occurrences in it and in what it called.
    pub total_weight: u64,
    /// Samples in it and in what it called.
    pub total_samples: u64,
    /// The thread of its first sample.
    pub(crate) thread: u32,
    /// Its oldest node.
    oldest: u32,
    /// The last of its nodes, linked by [`Report::next`].
    pub(crate) first: u32,
    /// Nodes in which samples were, while callers' frames of the same address are another entry.
    pub(crate) apart: Vec<u32>,
    /// The longest way from it to where samples were, in frames; for samples in it, from the outermost
    /// caller.
    pub(crate) depth: u32,
    /// The longest way from it to the outermost caller.
    pub(crate) reach: u32,
}

/// The entries of a profile, and the tree they were made of with what each of its nodes holds in all.
#[derive(Debug)]
pub struct Report<'p> {
    /// The profile.
    pub profile: &'p Profile,
    /// Weight in and under each node.
    weights: Vec<u64>,
    /// Samples in and under each node, as far as that can count.
    samples: Vec<u32>,
    next_child: Vec<u32>,
    /// The place of each node in a walk from the roots inwards, and that of the first node after those under
    /// it.
    spans: Vec<(u32, u32)>,
    /// The entries, in no order.
    pub entries: Vec<Entry>,
    /// The next node of the same entry.
    next: Vec<u32>,
    /// Whether no node above is of the same entry.
    outermost: Vec<bool>,
    /// Whether a frame is another entry as the place of samples than as a caller.
    pub(crate) is_apart: Vec<bool>,
}

/// Which levels have a count of their own.
pub(crate) const LEVELS: [Level; 4] = [Level::Kernel, Level::User, Level::GuestKernel, Level::GuestUser];

/// What tells frames apart, by the keys of a report.
struct Groups {
    /// For each frame, that of the entry it is in as the place of a sample, and as a caller.
    numbers: Vec<(u32, u32)>,
    count: u32,
}

impl Groups {
    fn new(frames: &Frames, keys: &[Key]) -> Self {
        let has = |key| keys.contains(&key);
        let (by_symbol, by_object) = (has(Key::Symbol), has(Key::Dso));
        let (by_line, by_size) = (has(Key::Srcline), has(Key::SymbolSize));
        let mut known: FastMap<[u64; 5], u32> = FastMap::default();
        let mut number = |frame: FrameId, is_leaf: bool| {
            let of = frames.get(frame);
            let mut key = [0u64; 5];
            let alias = u64::from(frames.alias(of.object)) + 1;
            if by_object {
                key[0] = alias;
            }
            if by_symbol || by_line {
                match &of.symbol {
                    Some(_) => {
                        key[0] = alias;
                        (key[1], key[2]) = (of.address, of.size + 1);
                        if by_line {
                            key[3] = of.offset + 1;
                        }
                    }
                    None => key[1] = if is_leaf { of.address } else { of.ip },
                }
            }
            if by_size {
                key[4] = if of.symbol.is_some() { of.size + 1 } else { 0 };
            }
            let next = known.len() as u32;
            *known.entry(key).or_insert(next)
        };
        let pair = |id: u32| {
            let of = frames.get(FrameId(id));
            let as_leaf = number(FrameId(id), true);
            let is_alike = of.symbol.is_some() || of.address == of.ip;
            (as_leaf, if is_alike { as_leaf } else { number(FrameId(id), false) })
        };
        let numbers = (0..frames.len() as u32).map(pair).collect();
        Groups { numbers, count: known.len() as u32 }
    }
}

impl<'p> Report<'p> {
    /// Makes the entries of a profile by keys. The order of call trees decides what an address outside of
    /// all maps is taken for.
    pub fn new(profile: &'p Profile, frames: &Frames, keys: &[Key], order: Order) -> Self {
        let (tree, nodes) = (&profile.tree, &profile.tree.nodes);
        let count = nodes.len();
        let (mut weights, mut samples) = (vec![0u64; count], vec![0u32; count]);
        let (mut last_seen, mut next_child) = (vec![NONE; count], vec![NONE; count]);
        let mut heights = vec![1u16; count];
        // A node is younger than its parent.
        for index in (0..count).rev() {
            let own = tree.own(index as u32);
            weights[index] += own.0;
            samples[index] = samples[index].saturating_add(own.1.try_into().unwrap_or(u32::MAX));
            let parent = nodes[index].parent;
            if parent != NONE {
                let parent = parent as usize;
                weights[parent] += weights[index];
                samples[parent] = samples[parent].saturating_add(samples[index]);
                next_child[index] = std::mem::replace(&mut last_seen[parent], index as u32);
                heights[parent] = heights[parent].max(heights[index].saturating_add(1));
            }
        }
        drop(last_seen);
        let groups = Groups::new(frames, keys);
        let mut report = Report {
            profile,
            weights,
            samples,
            next_child,
            spans: vec![(0, 0); count],
            entries: Vec::new(),
            next: vec![NONE; count],
            outermost: vec![false; count],
            is_apart: groups.numbers.iter().map(|(leaf, caller)| leaf != caller).collect(),
        };
        report.fill(frames, &groups, &heights);
        report.settle_levels(frames, order);
        report
    }

    pub(crate) fn children(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let some = |index: u32| (index != NONE).then_some(index);
        std::iter::successors(some(self.node(node).first), move |&at| some(self.next_child[at as usize]))
    }

    pub(crate) fn node(&self, node: u32) -> &Node {
        &self.profile.tree.nodes[node as usize]
    }

    /// What was sampled at a node, not further in.
    pub(crate) fn own(&self, node: u32) -> Sum {
        self.profile.tree.own(node)
    }

    /// What was sampled at a node and further in.
    pub(crate) fn sum(&self, node: u32) -> Sum {
        (self.weights[node as usize], self.samples[node as usize].into())
    }

    /// The places of a node and of those under it, in a walk from the roots inwards: from, and up to.
    pub(crate) fn span(&self, node: u32) -> (u32, u32) {
        self.spans[node as usize]
    }

    pub(crate) fn is_root(&self, node: u32) -> bool {
        self.node(node).parent == NONE
    }

    /// The nodes of an entry as a caller or as the place of samples, and whether none above is of it too.
    pub(crate) fn nodes_of(&self, entry: &Entry) -> impl Iterator<Item = (u32, bool)> + '_ {
        let some = |index: u32| (index != NONE).then_some(index);
        std::iter::successors(some(entry.first), move |&at| some(self.next[at as usize]))
            .map(|node| (node, self.outermost[node as usize]))
    }

    /// Walks the tree from the roots, so that for each entry it is known whether the walk is under a node of
    /// it.
    fn fill(&mut self, frames: &Frames, groups: &Groups, heights: &[u16]) {
        // The entry of each group of frames in the context that the walk is in; smaller ones were of others.
        let mut numbers = vec![NONE; groups.count as usize];
        // How many nodes of each entry are on the way from the root to where the walk is.
        let mut on_path: Vec<u32> = Vec::new();
        let mut walk: Vec<(u32, u32, u32)> = Vec::new();
        let mut place = 0;
        let tree = &self.profile.tree;
        for &root in &tree.roots {
            let of_others = self.entries.len() as u32;
            let context = self.node(root).frame;
            walk.extend(self.children(root).map(|child| (child, NONE, 1)));
            while let Some((index, leaving, depth)) = walk.pop() {
                if leaving != NONE {
                    on_path[leaving as usize] -= 1;
                    self.spans[index as usize].1 = place;
                    continue;
                }
                self.spans[index as usize].0 = place;
                place += 1;
                let node = *self.node(index);
                let (as_leaf, as_caller) = groups.numbers[node.frame as usize];
                let mut find = |entries: &mut Vec<Entry>, group: u32, is_leaf: bool| {
                    let new = entries.len() as u32;
                    let number = &mut numbers[group as usize];
                    if *number == NONE || *number < of_others {
                        *number = new;
                        entries.push(Entry::new(frames, context, &node));
                        on_path.push(0);
                    }
                    let entry = &mut entries[*number as usize];
                    entry.is_leaf |= is_leaf;
                    entry.oldest = entry.oldest.min(index);
                    *number
                };
                let own = tree.own(index);
                let is_leaf = own.1 > 0;
                let caller = find(&mut self.entries, as_caller, is_leaf && as_leaf == as_caller);
                let leaf = match is_leaf {
                    true => find(&mut self.entries, as_leaf, true),
                    false => caller,
                };
                if is_leaf {
                    let is_new = leaf != caller && on_path[leaf as usize] == 0;
                    let level = frames.get(FrameId(node.frame)).level;
                    let entry = &mut self.entries[leaf as usize];
                    entry.self_weight += own.0;
                    entry.self_samples += own.1;
                    if let Some(at) = LEVELS.iter().position(|&one| one == level) {
                        entry.self_levels[at] += own.0;
                    }
                    (entry.depth, entry.reach) = (entry.depth.max(depth), entry.reach.max(depth));
                    if is_new {
                        entry.total_weight += own.0;
                        entry.total_samples += own.1;
                    }
                    if leaf != caller {
                        entry.apart.push(index);
                    }
                }
                let entry = &mut self.entries[caller as usize];
                if on_path[caller as usize] == 0 {
                    entry.total_weight += self.weights[index as usize];
                    entry.total_samples += u64::from(self.samples[index as usize]);
                    entry.depth = entry.depth.max(heights[index as usize].into());
                    self.outermost[index as usize] = true;
                }
                entry.reach = entry.reach.max(depth);
                self.next[index as usize] = entry.first;
                entry.first = index;
                on_path[caller as usize] += 1;
                walk.push((index, caller, depth));
                walk.extend(self.children(index).map(|child| (child, NONE, depth + 1)));
            }
        }
        for entry in &mut self.entries {
            entry.thread = tree.thread(entry.oldest);
        }
    }
}

impl Report<'_> {
    /// An address outside of all maps has no level of its own: it is shown with that of the nearest frame
    /// before it in the call tree that has one, else with that of the sample.
    fn settle_levels(&mut self, frames: &Frames, order: Order) {
        let nodes = &self.profile.tree.nodes;
        let level = |node: u32| {
            let frame = frames.get(FrameId(nodes[node as usize].frame));
            (frame.object != 0).then_some(frame.level)
        };
        for entry in self.entries.iter_mut().filter(|entry| frames.get(entry.frame).object == 0) {
            let parent = |&node: &u32| Some(nodes[node as usize].parent);
            let is_frame = |&node: &u32| node != NONE && nodes[node as usize].parent != NONE;
            let mut callers = std::iter::successors(parent(&entry.oldest), parent).take_while(is_frame);
            // The first sample's frames were made one after the other.
            let next = |&node: &u32| {
                let child = node + 1;
                nodes.get(child as usize).filter(|made| made.parent == node).map(|_| child)
            };
            let callees = std::iter::successors(Some(entry.oldest), next);
            let leaf =
                callees.clone().last().map(|leaf| frames.get(FrameId(nodes[leaf as usize].frame)).level);
            let before = match order.caller_first {
                true => callers.find_map(level),
                false => callees.skip(1).find_map(level),
            };
            if let Some(level) = before.or(leaf) {
                entry.level = level;
            }
        }
    }
}

impl Entry {
    fn new(frames: &Frames, context: u32, node: &Node) -> Self {
        let frame = FrameId(node.frame);
        Entry {
            context,
            frame,
            is_leaf: false,
            level: frames.get(frame).level,
            self_weight: 0,
            self_samples: 0,
            self_levels: [0; 4],
            total_weight: 0,
            total_samples: 0,
            thread: 0,
            oldest: NONE,
            first: NONE,
            apart: Vec::new(),
            depth: 0,
            reach: 0,
        }
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
    use super::*;
    use crate::collect::Profile;

    #[test]
    fn a_function_that_calls_itself_counts_once_in_all() {
        let mut frames = Frames::new(true);
        (0..4).for_each(|address| frames.intern_for_test(address));
        let mut profile = Profile::default();
        profile.add_stack(&[2, 2, 1], 10);
        profile.add_stack(&[3, 2, 1], 5);
        profile.add_stack(&[2, 2, 1], 1);
        let report = Report::new(&profile, &frames, &[Key::Symbol], Order::new(true, true));
        let mut entries = report.entries.clone();
        entries.sort_by_key(|entry| entry.frame);
        let numbers: Vec<_> = entries.iter().map(|entry| (entry.self_weight, entry.total_weight)).collect();
        assert_eq!(numbers, [(0, 16), (11, 16), (5, 5)]);
        assert_eq!(entries[1].self_samples, 2);
    }
}
