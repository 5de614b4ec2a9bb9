//! The callchains of an event as a tree, from the outermost callers on.

use crate::stacks::Stacks;

/// A function as it was called by those above it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// The name that is shown: of the thread, or of the function.
    pub name: String,
    /// The object of the function; nothing for threads.
    pub object: String,
    /// How many are above it.
    pub depth: usize,
    /// The weights of all that comes before it on its level or above: where it begins.
    pub start: u64,
    /// Its weight, with that of all it called.
    pub weight: u64,
    /// Its samples, with those of all it called.
    pub samples: u64,
}

/// A tree in which callers stand before their callees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tree {
    /// The nodes, each caller before what it called.
    pub nodes: Vec<Node>,
    /// The weight of all.
    pub total: u64,
    /// The samples of all.
    pub samples: u64,
    /// The longest way down.
    pub depth: usize,
}

impl Tree {
    /// The tree of an event; threads, where their names are known, are the outermost.
    pub fn new(stacks: &Stacks, event: usize) -> Self {
        let mut tree = Tree::default();
        // The nodes that are open: the name's key, and the index.
        let mut open: Vec<((bool, &str, u32), usize)> = Vec::new();
        for row in stacks.rows_of(event) {
            let thread = (!row.thread.is_empty()).then_some((true, row.thread.as_str(), 0));
            let path = thread.into_iter().chain(row.stack.iter().map(|function| (false, "", *function)));
            let mut depth = 0;
            for key in path {
                if open.get(depth).is_none_or(|(known, _)| *known != key) {
                    open.truncate(depth);
                    let (name, object) = match key {
                        (true, thread, _) => (thread, ""),
                        (false, _, function) => {
                            let function = &stacks.functions()[function as usize];
                            (function.name.as_str(), function.object.as_str())
                        }
                    };
                    let (name, object) = (name.to_owned(), object.to_owned());
                    open.push((key, tree.nodes.len()));
                    tree.nodes.push(Node { name, object, depth, start: tree.total, weight: 0, samples: 0 });
                }
                let node = &mut tree.nodes[open[depth].1];
                node.weight = node.weight.saturating_add(row.weight);
                node.samples = node.samples.saturating_add(row.samples);
                depth += 1;
            }
            open.truncate(depth);
            tree.depth = tree.depth.max(depth);
            tree.total = tree.total.saturating_add(row.weight);
            tree.samples = tree.samples.saturating_add(row.samples);
        }
        tree
    }
}
