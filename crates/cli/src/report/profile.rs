//! Samples become a profile: a tree of frames from the outermost caller inwards, one for each event, and
//! from the tree the entries of a report. Memory follows the number of distinct stacks.

use crate::recording::frames::FrameId;
use crate::recording::hash::FastMap;
use std::collections::HashMap;

/// The values of a sample that are not its frames, as the sort keys want them. A number of
/// [`Profile::contexts`].
pub(super) type Context = Box<[u64]>;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) parent: u32,
    /// The frame; of a root, the number of its context.
    pub(super) frame: u32,
    /// What was sampled here, not further in.
    pub(super) weight: u64,
    pub(super) samples: u64,
}

#[derive(Debug, Default)]
pub(super) struct Profile {
    pub(super) contexts: Vec<Context>,
    context_roots: HashMap<Context, u32>,
    pub(super) nodes: Vec<Node>,
    children: FastMap<(u32, u32), u32>,
    /// All samples, also those that filters keep out of the tree.
    pub(super) samples: u64,
    pub(super) weight: u64,
    /// Samples that have a callchain.
    pub(super) chains: u64,
}

/// A line of a report.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) context: u32,
    /// One of its frames: they are the same in what the report sorts by.
    pub(super) frame: FrameId,
    pub(super) self_weight: u64,
    pub(super) self_samples: u64,
    pub(super) total_weight: u64,
    pub(super) total_samples: u64,
    /// The nodes of this entry that have no other of it above them.
    pub(super) outermost: Vec<u32>,
    /// The nodes of this entry in which samples were.
    pub(super) innermost: Vec<u32>,
}

impl Profile {
    /// The root of a context.
    pub(super) fn context(&mut self, context: &[u64]) -> u32 {
        if let Some(&root) = self.context_roots.get(context) {
            return root;
        }
        let (root, number) = (self.nodes.len() as u32, self.contexts.len() as u32);
        self.contexts.push(context.into());
        self.context_roots.insert(context.into(), root);
        self.nodes.push(Node { parent: NONE, frame: number, weight: 0, samples: 0 });
        root
    }

    /// Adds a sample; its frames are given innermost first.
    #[inline]
    pub(super) fn add(&mut self, root: u32, frames: &[FrameId], weight: u64) {
        let mut node = root;
        for frame in frames.iter().rev() {
            let next = self.nodes.len() as u32;
            node = match self.children.entry((node, frame.0)) {
                std::collections::hash_map::Entry::Occupied(known) => *known.get(),
                std::collections::hash_map::Entry::Vacant(new) => {
                    self.nodes.push(Node { parent: node, frame: frame.0, weight: 0, samples: 0 });
                    *new.insert(next)
                }
            };
        }
        let node = &mut self.nodes[node as usize];
        node.weight += weight;
        node.samples += 1;
    }

    /// The tree with what each node holds in all.
    pub(super) fn finish(&mut self) -> Tree<'_> {
        self.children = FastMap::default();
        let count = self.nodes.len();
        let mut sums: Vec<(u64, u64)> = self.nodes.iter().map(|node| (node.weight, node.samples)).collect();
        let (mut first, mut next) = (vec![NONE; count], vec![NONE; count]);
        // A node is younger than its parent.
        for index in (0..count).rev() {
            let parent = self.nodes[index].parent;
            if parent != NONE {
                let (weight, samples) = sums[index];
                let sum = &mut sums[parent as usize];
                *sum = (sum.0 + weight, sum.1 + samples);
                next[index] = first[parent as usize];
                first[parent as usize] = index as u32;
            }
        }
        Tree { profile: self, sums, first, next }
    }
}

#[derive(Debug)]
pub(super) struct Tree<'p> {
    pub(super) profile: &'p Profile,
    pub(super) sums: Vec<(u64, u64)>,
    first: Vec<u32>,
    next: Vec<u32>,
}

impl Tree<'_> {
    pub(super) fn children(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let some = |index: u32| (index != NONE).then_some(index);
        std::iter::successors(some(self.first[node as usize]), move |&at| some(self.next[at as usize]))
    }

    pub(super) fn node(&self, node: u32) -> &Node {
        &self.profile.nodes[node as usize]
    }

    pub(super) fn is_root(&self, node: u32) -> bool {
        self.node(node).parent == NONE
    }

    /// The entries; `group` gives frames the same number that are the same to the report.
    pub(super) fn entries(&self, mut group: impl FnMut(FrameId) -> u32) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut numbers: FastMap<(u32, u32), u32> = FastMap::default();
        // How many nodes of each entry are on the way from the root to where the walk is.
        let mut on_path: Vec<u32> = Vec::new();
        let roots = (0..self.profile.nodes.len() as u32).filter(|&node| self.is_root(node));
        for root in roots {
            let context = self.node(root).frame;
            let mut walk: Vec<(u32, u32)> = self.children(root).map(|child| (child, NONE)).collect();
            while let Some((index, leaving)) = walk.pop() {
                if leaving != NONE {
                    on_path[leaving as usize] -= 1;
                    continue;
                }
                let node = self.node(index);
                let frame = FrameId(node.frame);
                let number = *numbers.entry((context, group(frame))).or_insert_with(|| {
                    entries.push(Entry {
                        context,
                        frame,
                        self_weight: 0,
                        self_samples: 0,
                        total_weight: 0,
                        total_samples: 0,
                        outermost: Vec::new(),
                        innermost: Vec::new(),
                    });
                    on_path.push(0);
                    entries.len() as u32 - 1
                });
                let entry = &mut entries[number as usize];
                if node.samples > 0 {
                    entry.self_weight += node.weight;
                    entry.self_samples += node.samples;
                    entry.innermost.push(index);
                }
                if on_path[number as usize] == 0 {
                    let (weight, samples) = self.sums[index as usize];
                    entry.total_weight += weight;
                    entry.total_samples += samples;
                    entry.outermost.push(index);
                }
                on_path[number as usize] += 1;
                walk.push((index, number));
                walk.extend(self.children(index).map(|child| (child, NONE)));
            }
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_calls_itself_counts_once_in_all() {
        let mut profile = Profile::default();
        let root = profile.context(&[7]);
        let frames = |list: &[u32]| list.iter().map(|&frame| FrameId(frame)).collect::<Vec<_>>();
        profile.add(root, &frames(&[2, 2, 1]), 10);
        profile.add(root, &frames(&[3, 2, 1]), 5);
        profile.add(root, &frames(&[2, 2, 1]), 1);
        let tree = profile.finish();
        let mut entries = tree.entries(|frame| frame.0);
        entries.sort_by_key(|entry| entry.frame);
        let numbers: Vec<_> = entries.iter().map(|entry| (entry.self_weight, entry.total_weight)).collect();
        assert_eq!(numbers, [(0, 16), (11, 16), (5, 5)]);
        assert_eq!(entries[1].self_samples, 2);
    }
}
