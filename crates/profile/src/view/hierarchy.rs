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
    /// The texts of the keys of its level.
    pub texts: Vec<String>,
    /// For each event the sum of its entries.
    pub sums: Vec<Entry>,
    /// On the last level for each event the entry, if it has one; elsewhere nothing.
    pub entries: Vec<Option<&'v Entry>>,
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
    /// The hierarchy of rows of these views, with the keys of each level. The order of the rows decides where sums are the same.
    pub fn new(views: &[&View<'_>], rows: &[JoinedRow<'v>], levels: &[Vec<Key>]) -> Self {
        let node = |texts| {
            let sums = vec![Entry::default(); views.len()];
            Node { texts, sums, entries: Vec::new(), children: Vec::new() }
        };
        let mut nodes = vec![node(Vec::new())];
        let mut known: HashMap<(usize, Vec<String>, u64), usize> = HashMap::new();
        for row in rows {
            let (Some(entry), view) = (row.entry(), views[row.member]) else { continue };
            let mut at = 0;
            for (depth, keys) in levels.iter().enumerate() {
                let texts: Vec<String> = keys.iter().map(|&key| view.text(entry, key)).collect();
                let has_symbol = keys.contains(&Key::Symbol);
                let place = if has_symbol { view.frames.get(entry.frame).address } else { 0 };
                let next = nodes.len();
                let index = *known.entry((at, texts.clone(), place)).or_insert(next);
                if index == next {
                    nodes.push(node(texts));
                    nodes[at].children.push(index);
                    if depth + 1 == levels.len() {
                        nodes[index].entries.clone_from(&row.entries);
                    }
                }
                for (sum, entry) in nodes[index].sums.iter_mut().zip(&row.entries) {
                    entry.iter().for_each(|entry| sum.add(entry));
                }
                at = index;
            }
        }
        let mut hierarchy = Hierarchy { nodes };
        hierarchy.sort_by(|sum| sum.self_weight);
        hierarchy
    }

    /// Sorts nodes beside each other, those of the highest rank first: of the first event, then of the others.
    pub fn sort_by(&mut self, rank: impl Fn(&Entry) -> u64) {
        for index in 0..self.nodes.len() {
            let mut children = std::mem::take(&mut self.nodes[index].children);
            children.sort_by_cached_key(|&child| {
                Reverse(self.nodes[child].sums.iter().map(&rank).collect::<Vec<_>>())
            });
            self.nodes[index].children = children;
        }
    }
}
