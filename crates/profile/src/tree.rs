//! The tree of all stacks: a node is a frame called from its parent; the children of a root are the
//! outermost callers.

use crate::frames::FrameId;

pub(crate) const NONE: u32 = u32::MAX;

/// A node of the tree. There are many: what few of them have is kept apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) parent: u32,
    /// The frame; of a root, the number of its context.
    pub(crate) frame: u32,
    /// The oldest child. Most nodes have no other, and then it lies next to them.
    pub(crate) first: u32,
    /// Where in [`Tree::own`] is what was sampled here, not further in.
    own: u32,
}

/// Weight and number of samples.
pub(crate) type Sum = (u64, u64);

/// Nodes, each younger than its parent, and what finds the other children of a node by their frame.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
    pub(crate) roots: Vec<u32>,
    own: Vec<Sum>,
    /// From which node on they were made for the samples of which thread.
    threads: Vec<(u32, u32)>,
    /// A power of two of places, at most three quarters of them taken: the number of a node below, and
    /// above it a part of its hash. A node is at the first free place after the one that its hash names.
    slots: Vec<u64>,
    taken: usize,
}

const FREE: u64 = u64::MAX;

#[inline]
fn hash(parent: u32, frame: u32) -> u64 {
    let key = u64::from(parent) << 32 | u64::from(frame);
    let product = u128::from(key ^ 0x243f_6a88_85a3_08d3) * 0x9e37_79b9_7f4a_7c15;
    (product as u64) ^ (product >> 64) as u64
}

impl Tree {
    pub(crate) fn root(&mut self, context: u32, thread: u32) -> u32 {
        let root = self.push(NONE, FrameId(context), thread);
        self.roots.push(root);
        root
    }

    /// The child of a node with a frame, made if there is none.
    #[inline]
    pub(crate) fn child(&mut self, parent: u32, frame: FrameId, thread: u32) -> u32 {
        let first = self.nodes[parent as usize].first;
        if first == NONE {
            let index = self.push(parent, frame, thread);
            self.nodes[parent as usize].first = index;
            return index;
        }
        if self.nodes[first as usize].frame == frame.0 {
            return first;
        }
        self.other_child(parent, frame, thread)
    }

    fn push(&mut self, parent: u32, frame: FrameId, thread: u32) -> u32 {
        let index = self.nodes.len() as u32;
        self.nodes.push(Node { parent, frame: frame.0, first: NONE, own: NONE });
        if self.threads.last().is_none_or(|&(_, last)| last != thread) {
            self.threads.push((index, thread));
        }
        index
    }

    /// The thread of the first sample that came by a node.
    pub(crate) fn thread(&self, node: u32) -> u32 {
        let after = self.threads.partition_point(|&(from, _)| from <= node);
        self.threads.get(after.wrapping_sub(1)).map_or(0, |&(_, thread)| thread)
    }

    /// Counts a sample at a node.
    #[inline]
    pub(crate) fn add(&mut self, node: u32, weight: u64) {
        let node = &mut self.nodes[node as usize];
        if node.own == NONE {
            node.own = self.own.len() as u32;
            self.own.push((0, 0));
        }
        let own = &mut self.own[node.own as usize];
        *own = (own.0 + weight, own.1 + 1);
    }

    /// What was sampled at a node, not further in.
    #[inline]
    pub(crate) fn own(&self, node: u32) -> Sum {
        self.own.get(self.nodes[node as usize].own as usize).copied().unwrap_or_default()
    }

    fn other_child(&mut self, parent: u32, frame: FrameId, thread: u32) -> u32 {
        if self.taken * 4 >= self.slots.len() * 3 {
            self.grow();
        }
        let hash = hash(parent, frame.0);
        let mask = self.slots.len() - 1;
        let mut place = hash as usize & mask;
        let tag = hash >> 32;
        loop {
            let slot = self.slots[place];
            if slot == FREE {
                break;
            }
            if slot >> 32 == tag {
                let node = &self.nodes[slot as u32 as usize];
                if node.parent == parent && node.frame == frame.0 {
                    return slot as u32;
                }
            }
            place = (place + 1) & mask;
        }
        let index = self.push(parent, frame, thread);
        self.slots[place] = tag << 32 | u64::from(index);
        self.taken += 1;
        index
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(1 << 10);
        self.slots.clear();
        self.slots.shrink_to_fit();
        self.slots = vec![FREE; size];
        let is_other = |index: usize, node: &Node| {
            node.parent != NONE && self.nodes[node.parent as usize].first != index as u32
        };
        for (index, node) in self.nodes.iter().enumerate().filter(|&(index, node)| is_other(index, node)) {
            let hash = hash(node.parent, node.frame);
            let mut place = hash as usize & (size - 1);
            while self.slots[place] != FREE {
                place = (place + 1) & (size - 1);
            }
            self.slots[place] = hash >> 32 << 32 | index as u64;
        }
    }

    /// Forgets how to find children, of which no more will come.
    pub(crate) fn close(&mut self) {
        self.slots = Vec::new();
        self.taken = 0;
        self.nodes.shrink_to_fit();
        self.own.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_found_again_however_many_there_are() {
        let mut tree = Tree::default();
        let root = tree.root(0, 0);
        let first: Vec<u32> = (0..5000).map(|frame| tree.child(root, FrameId(frame), 0)).collect();
        let again: Vec<u32> = (0..5000).map(|frame| tree.child(root, FrameId(frame), 0)).collect();
        assert_eq!(first, again);
        assert_ne!(tree.child(first[7], FrameId(7), 0), first[7]);
        assert_eq!(tree.nodes.len(), 5002);
        tree.child(root, FrameId(6000), 3);
        assert_eq!((tree.thread(5001), tree.thread(5002)), (0, 3));
    }
}
