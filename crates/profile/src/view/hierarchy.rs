//! Entries with each key under the one before, and the sums of what is under it.

use super::View;
use super::entries::Entry;
use crate::keys::Key;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Entries that are alike in the keys up to one of them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Node<'v> {
    /// The text of the last of these keys.
    pub text: String,
    /// The sum of the entries.
    pub sum: Entry,
    /// The only entry, under the last key.
    pub entry: Option<&'v Entry>,
    /// The nodes under it, heaviest first.
    pub children: Vec<usize>,
}

/// Nodes by their numbers; the first is above all.
#[derive(Clone, Debug)]
pub struct Hierarchy<'v> {
    /// The nodes.
    pub nodes: Vec<Node<'v>>,
}

impl<'v> Hierarchy<'v> {
    /// The hierarchy of entries of a view by keys. The order of the entries decides where sums are the same.
    pub fn new(view: &View<'_>, keys: &[Key], entries: &[&'v Entry]) -> Self {
        let top = Node { text: String::new(), sum: Entry::default(), entry: None, children: Vec::new() };
        let mut nodes = vec![top];
        let mut known: HashMap<(usize, String, u64), usize> = HashMap::new();
        for &entry in entries {
            let mut at = 0;
            for (depth, &key) in keys.iter().enumerate() {
                let text = view.text(entry, key);
                let place = if key == Key::Symbol { view.frames.get(entry.frame).address } else { 0 };
                let next = nodes.len();
                let node = *known.entry((at, text.clone(), place)).or_insert(next);
                if node == next {
                    let entry = (depth + 1 == keys.len()).then_some(entry);
                    nodes.push(Node { text, sum: Entry::default(), entry, children: Vec::new() });
                    nodes[at].children.push(node);
                }
                nodes[node].sum.add(entry);
                at = node;
            }
        }
        let mut hierarchy = Hierarchy { nodes };
        hierarchy.sort_by(|sum| sum.self_weight);
        hierarchy
    }

    /// Sorts nodes beside each other, those of the highest rank first.
    pub fn sort_by(&mut self, rank: impl Fn(&Entry) -> u64) {
        for index in 0..self.nodes.len() {
            let mut children = std::mem::take(&mut self.nodes[index].children);
            children.sort_by_key(|&child| Reverse(rank(&self.nodes[child].sum)));
            self.nodes[index].children = children;
        }
    }
}
