//! Rows with some keys under those before, and the sums of what is under them.

use super::View;
use super::entries::Entry;
use super::joined::JoinedRow;
use crate::keys::Key;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Rows that are alike in the keys up to those of a level.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Node<'v> {
    /// One of its rows: the event, and its entry. All of them have the same keys up to its level.
    pub first: (usize, &'v Entry),
    /// For each event the sum of its entries.
    pub sums: Vec<Entry>,
    /// On the last level for each event the entry, if it has one; elsewhere nothing.
    pub entries: Vec<Option<&'v Entry>>,
    /// The nodes under it, heaviest first.
    pub children: Vec<usize>,
}

/// The nodes, by their numbers.
#[derive(Clone, Debug)]
pub struct Hierarchy<'v> {
    /// The nodes.
    pub nodes: Vec<Node<'v>>,
    /// Those of the first level, heaviest first.
    pub top: Vec<usize>,
}

impl<'v> Hierarchy<'v> {
    /// The hierarchy of rows of these views, with the keys of each level. The order of the rows decides where sums are the same.
    pub fn new(views: &[&View<'_>], rows: &[JoinedRow<'v>], levels: &[Vec<Key>]) -> Self {
        let mut hierarchy = Hierarchy { nodes: Vec::new(), top: Vec::new() };
        let mut known: HashMap<(usize, Vec<String>, u64), usize> = HashMap::new();
        for row in rows {
            let (Some(entry), view) = (row.entry(), views[row.member]) else { continue };
            let mut above = usize::MAX;
            for (depth, keys) in levels.iter().enumerate() {
                let texts: Vec<String> = keys.iter().map(|&key| view.text(entry, key)).collect();
                let has_symbol = keys.contains(&Key::Symbol);
                let place = if has_symbol { view.frames.get(entry.frame).address } else { 0 };
                let next = hierarchy.nodes.len();
                let index = *known.entry((above, texts, place)).or_insert(next);
                if index == next {
                    let is_last = depth + 1 == levels.len();
                    hierarchy.nodes.push(Node {
                        first: (row.member, entry),
                        sums: vec![Entry::default(); views.len()],
                        entries: if is_last { row.entries.clone() } else { Vec::new() },
                        children: Vec::new(),
                    });
                    match hierarchy.nodes.get_mut(above) {
                        Some(node) => node.children.push(index),
                        None => hierarchy.top.push(index),
                    }
                }
                for (sum, entry) in hierarchy.nodes[index].sums.iter_mut().zip(&row.entries) {
                    entry.iter().for_each(|entry| sum.add(entry));
                }
                above = index;
            }
        }
        hierarchy.sort_by(|sum| sum.self_weight);
        hierarchy
    }

    /// Sorts nodes beside each other, those of the highest rank first: of the first event, then of the others.
    pub fn sort_by(&mut self, rank: impl Fn(&Entry) -> u64) {
        let ranks = |node: &Node<'_>| Reverse(node.sums.iter().map(&rank).collect::<Vec<_>>());
        let ranks: Vec<_> = self.nodes.iter().map(ranks).collect();
        self.top.sort_by_key(|&node| &ranks[node]);
        self.nodes.iter_mut().for_each(|node| node.children.sort_by_key(|&child| &ranks[child]));
    }
}
