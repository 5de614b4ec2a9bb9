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
    /// On the last level the entry of the first event, if that has one; elsewhere nothing.
    pub entry: Option<&'v Entry>,
    /// The nodes under it, heaviest first: none on the last level.
    pub children: Vec<usize>,
    /// The sum of the entries of each event that has any, by its number: most rows are of a few events.
    sums: Vec<(usize, Entry)>,
}

impl Node<'_> {
    /// The sum of its entries of an event; nothing if that has none.
    pub fn sum(&self, event: usize) -> Option<&Entry> {
        let at = self.sums.binary_search_by_key(&event, |(event, _)| *event).ok()?;
        Some(&self.sums[at].1)
    }

    fn add(&mut self, event: usize, entry: &Entry) {
        let at = self.sums.binary_search_by_key(&event, |(event, _)| *event).unwrap_or_else(|at| {
            self.sums.insert(at, (event, Entry::default()));
            at
        });
        self.sums[at].1.add(entry);
    }

    /// The key that sorts it among its neighbours, smallest first: the ranks of its events, one after the other. An event that only this
    /// node has puts it first.
    fn order(&self, rank: impl Fn(&Entry) -> u64) -> Vec<(usize, Reverse<u64>)> {
        let ranks = self.sums.iter().map(|(event, sum)| (*event, Reverse(rank(sum))));
        ranks.filter(|(_, rank)| rank.0 > 0).chain([(usize::MAX, Reverse(0))]).collect()
    }
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
                        entry: row.entries[0].filter(|_| is_last),
                        children: Vec::new(),
                        sums: Vec::new(),
                    });
                    match hierarchy.nodes.get_mut(above) {
                        Some(node) => node.children.push(index),
                        None => hierarchy.top.push(index),
                    }
                }
                for (event, entry) in row.entries.iter().enumerate() {
                    entry.iter().for_each(|entry| hierarchy.nodes[index].add(event, entry));
                }
                above = index;
            }
        }
        hierarchy.sort_by(|sum| sum.self_weight);
        hierarchy
    }

    /// Sorts nodes beside each other, those of the highest rank first: of the first event, then of the others.
    pub fn sort_by(&mut self, rank: impl Fn(&Entry) -> u64) {
        let orders: Vec<_> = self.nodes.iter().map(|node| node.order(&rank)).collect();
        self.top.sort_by_key(|&node| &orders[node]);
        self.nodes.iter_mut().for_each(|node| node.children.sort_by_key(|&child| &orders[child]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(weights: &[(usize, u64)]) -> Node<'static> {
        let first = (0, &*Box::leak(Box::new(Entry::default())));
        let mut node = Node { first, entry: None, children: Vec::new(), sums: Vec::new() };
        for &(event, self_weight) in weights {
            let mut entry = Entry::default();
            entry.self_weight = self_weight;
            node.add(event, &entry);
        }
        node
    }

    #[test]
    fn a_node_has_sums_of_the_events_that_it_has_and_is_sorted_as_if_it_had_all() {
        let both = node(&[(7, 3), (2, 1), (7, 4)]);
        let weight = |event| both.sum(event).map(|sum| sum.self_weight);
        assert_eq!([2, 3, 7].map(weight), [Some(1), None, Some(7)]);
        assert_eq!(both.sums.len(), 2);
        // Heaviest first, by the first event, then by the others.
        let order =
            [&[(0, 5)][..], &[(0, 4), (1, 9)], &[(0, 4), (2, 9)], &[(0, 4)], &[(1, 1)], &[(2, 8)], &[]];
        let orders: Vec<_> = order.iter().map(|weights| node(weights).order(|sum| sum.self_weight)).collect();
        assert!(orders.is_sorted() && orders.windows(2).all(|pair| pair[0] != pair[1]), "{orders:?}");
    }
}
