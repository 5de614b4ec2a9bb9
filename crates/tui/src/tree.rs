//! A call tree of frames, one node a frame, in a list: made of the branches of a view, walked by the pages.

use crate::names::frame_name;
use perfuse_profile::{Branch, FrameId, Frames};
use std::hash::{DefaultHasher, Hash, Hasher};

/// More nodes than this are left out, the lightest of each branch first.
const MOST_NODES: usize = 1 << 17;

/// A function by the way that leads to it.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) frame: FrameId,
    /// All that comes along here, and what ends here.
    pub(crate) weight: u64,
    pub(crate) own: u64,
    /// How many are above it.
    pub(crate) depth: usize,
    pub(crate) parent: Option<usize>,
    /// Heaviest first.
    pub(crate) children: Vec<usize>,
    /// The same in each window: made of the names on the way.
    pub(crate) id: u64,
}

/// All ways that are heavy enough.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
    /// The ways begin here, heaviest first.
    pub(crate) roots: Vec<usize>,
}

impl Tree {
    pub(crate) fn new(branches: &[Branch], frames: &Frames) -> Self {
        let mut tree = Tree::default();
        // Branches that are still to come, each with the node that it hangs on. A branch has the depth of a callchain.
        let mut open: Vec<(&Branch, Option<usize>)> =
            branches.iter().rev().map(|branch| (branch, None)).collect();
        while let Some((branch, mut parent)) = open.pop() {
            if tree.nodes.len() + branch.frames.len() > MOST_NODES {
                break;
            }
            for (at, &frame) in branch.frames.iter().enumerate() {
                let is_last = at + 1 == branch.frames.len();
                let own = if is_last { branch.own_weight } else { 0 };
                parent = Some(tree.add(frame, frames, branch.weight, own, parent));
            }
            open.extend(branch.branches.iter().rev().map(|branch| (branch, parent)));
        }
        tree
    }

    fn add(
        &mut self,
        frame: FrameId,
        frames: &Frames,
        weight: u64,
        own: u64,
        parent: Option<usize>,
    ) -> usize {
        let number = self.nodes.len();
        let above = parent.map(|parent| &self.nodes[parent]);
        let mut hasher = DefaultHasher::new();
        let (name, object) = frame_name(frames, frame);
        (above.map_or(0, |above| above.id), name, object).hash(&mut hasher);
        let depth = above.map_or(0, |above| above.depth + 1);
        self.nodes.push(Node {
            frame,
            weight,
            own,
            depth,
            parent,
            children: Vec::new(),
            id: hasher.finish(),
        });
        match parent {
            Some(parent) => self.nodes[parent].children.push(number),
            None => self.roots.push(number),
        }
        number
    }
}
