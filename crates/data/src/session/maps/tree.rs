//! Mappings by address, never overlapping, in a balanced tree whose nodes several address spaces share: a change
//! copies the way from the root to what changes, and nothing else. So the maps of a forked child cost what it changes of
//! its parent's, and a mapping inside another costs the same wherever it lies.
//!
//! The tree is balanced by weight (Adams 1992, with the parameters of Hirai and Yamamoto 2011): it is at most some three
//! times as deep as a perfect one, whatever the order in which mappings come.

use super::Map;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many mappings all trees of a session hold, those that they share once.
#[derive(Clone, Debug, Default)]
pub(in crate::session) struct Held(Arc<AtomicUsize>);

impl Held {
    pub(in crate::session) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A node's part of what is held.
#[derive(Debug)]
struct Share(Held);

impl Share {
    fn of(held: &Held) -> Self {
        held.0.fetch_add(1, Ordering::Relaxed);
        Share(held.clone())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Node {
    map: Map,
    size: usize,
    left: Link,
    right: Link,
    _share: Share,
}

type Link = Option<Arc<Node>>;

/// The mappings. A copy shares them.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    root: Link,
    held: Held,
}

/// One side may weigh so many times as much as the other, and the inner grandchild so many times as much as the outer.
const DELTA: usize = 3;
const GAMMA: usize = 2;

impl Tree {
    /// One without mappings, which are counted there.
    pub(super) fn new(held: Held) -> Self {
        Tree { root: None, held }
    }

    /// The counter of its mappings, and of those of others.
    pub(super) fn held(&self) -> &Held {
        &self.held
    }

    pub(super) fn len(&self) -> usize {
        size(&self.root)
    }

    /// The mapping at an address.
    #[inline]
    pub(super) fn find(&self, address: u64) -> Option<Map> {
        let mut link = &self.root;
        while let Some(node) = link {
            if address < node.map.start {
                link = &node.left;
            } else if address < node.map.end {
                return Some(node.map);
            } else {
                link = &node.right;
            }
        }
        None
    }

    /// The last of them that begins at an address or before it.
    pub(super) fn last_from(&self, address: u64) -> Option<Map> {
        let (mut link, mut last) = (&self.root, None);
        while let Some(node) = link {
            if address < node.map.start {
                link = &node.left;
            } else {
                last = Some(node.map);
                link = &node.right;
            }
        }
        last
    }

    /// All of them by address.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Map> {
        let mut way: Vec<&Node> = Vec::new();
        let mut link = &self.root;
        std::iter::from_fn(move || {
            while let Some(node) = link {
                way.push(node);
                link = &node.left;
            }
            let node = way.pop()?;
            link = &node.right;
            Some(&node.map)
        })
    }

    /// Puts a mapping, or none, into a range; of those that lie there only in part, the rest stays. There are then no more
    /// than `most`. Says whether anything changed.
    pub(super) fn put(&mut self, new: Option<Map>, range: Range<u64>, most: usize) -> bool {
        let (before, rest) = self.split(self.root.clone(), &|map| map.end <= range.start);
        let (covered, after) = self.split(rest, &|map| map.start < range.end);
        let first = outermost(&covered, |node| &node.left);
        let last = outermost(&covered, |node| &node.right);
        let is_told_again = size(&covered) == 1 && new == first;
        if is_told_again || covered.is_none() && new.is_none() {
            return false;
        }
        let left = first.filter(|map| map.start < range.start);
        let left = left.map(|map| Map { end: range.start, ..map });
        let right = last.filter(|map| map.end > range.end).map(|map| {
            let pgoff = map.pgoff.wrapping_add(range.end - map.start);
            Map { start: range.end, pgoff, ..map }
        });
        let pieces = [left, new, right];
        if size(&before) + size(&after) + pieces.iter().flatten().count() > most {
            return false;
        }
        let mut all = before;
        for piece in pieces.into_iter().flatten() {
            all = self.link(all, piece, None);
        }
        self.root = self.concat(all, after);
        true
    }

    fn node(&self, left: Link, map: Map, right: Link) -> Link {
        let size = size(&left) + size(&right) + 1;
        Some(Arc::new(Node { map, size, left, right, _share: Share::of(&self.held) }))
    }

    /// Those up to where `is_left` is no longer true, and the others.
    fn split(&self, link: Link, is_left: &impl Fn(&Map) -> bool) -> (Link, Link) {
        let Some(node) = link else { return (None, None) };
        if is_left(&node.map) {
            let (low, high) = self.split(node.right.clone(), is_left);
            (self.link(node.left.clone(), node.map, low), high)
        } else {
            let (low, high) = self.split(node.left.clone(), is_left);
            (low, self.link(high, node.map, node.right.clone()))
        }
    }

    /// Two trees of any weights with a mapping between them.
    fn link(&self, left: Link, map: Map, right: Link) -> Link {
        match (&left, &right) {
            (Some(node), _) if weight(&left) > DELTA * weight(&right) => {
                let inner = self.link(node.right.clone(), map, right);
                self.balanced(node.left.clone(), node.map, inner)
            }
            (_, Some(node)) if weight(&right) > DELTA * weight(&left) => {
                let inner = self.link(left, map, node.left.clone());
                self.balanced(inner, node.map, node.right.clone())
            }
            _ => self.node(left, map, right),
        }
    }

    /// Two trees, all of the first before all of the second.
    fn concat(&self, left: Link, right: Link) -> Link {
        match outermost(&left, |node| &node.right) {
            None => right,
            Some(last) => {
                let (rest, _) = self.split(left, &|map| map.start < last.start);
                self.link(rest, last, right)
            }
        }
    }

    /// A node whose sides may be out of balance by one rotation.
    fn balanced(&self, left: Link, map: Map, right: Link) -> Link {
        match (&left, &right) {
            (_, Some(node)) if weight(&right) > DELTA * weight(&left) => match &node.left {
                Some(inner) if weight(&node.left) >= GAMMA * weight(&node.right) => {
                    let low = self.node(left, map, inner.left.clone());
                    let high = self.node(inner.right.clone(), node.map, node.right.clone());
                    self.node(low, inner.map, high)
                }
                _ => {
                    let low = self.node(left, map, node.left.clone());
                    self.node(low, node.map, node.right.clone())
                }
            },
            (Some(node), _) if weight(&left) > DELTA * weight(&right) => match &node.right {
                Some(inner) if weight(&node.right) >= GAMMA * weight(&node.left) => {
                    let low = self.node(node.left.clone(), node.map, inner.left.clone());
                    let high = self.node(inner.right.clone(), map, right);
                    self.node(low, inner.map, high)
                }
                _ => {
                    let high = self.node(node.right.clone(), map, right);
                    self.node(node.left.clone(), node.map, high)
                }
            },
            _ => self.node(left, map, right),
        }
    }
}

fn size(link: &Link) -> usize {
    link.as_ref().map_or(0, |node| node.size)
}

fn weight(link: &Link) -> usize {
    size(link) + 1
}

/// The mapping at the end of one side.
fn outermost(link: &Link, side: impl Fn(&Node) -> &Link) -> Option<Map> {
    let mut node = link.as_deref()?;
    while let Some(next) = side(node) {
        node = next;
    }
    Some(node.map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn map(start: u64, end: u64, pgoff: u64) -> Map {
        let object = crate::session::ObjectId(0);
        Map { start, end, pgoff, object, pid: 1, prot: 0, flags: 0, inode: 0, by_address: false }
    }

    /// How deep it is; that every node's sides are in balance, and that sizes are right.
    fn depth(link: &Link) -> usize {
        let Some(node) = link else { return 0 };
        let (left, right) = (weight(&node.left), weight(&node.right));
        assert!(left <= DELTA * right && right <= DELTA * left, "{left} and {right}");
        assert_eq!(node.size + 1, left + right);
        1 + depth(&node.left).max(depth(&node.right))
    }

    #[test]
    fn any_order_is_balanced_and_what_is_shared_is_held_once() {
        const COUNT: u64 = 20_000;
        let nested = |n: u64| (n, 2 * COUNT - n);
        let upwards = |n: u64| (n * 2, n * 2 + 1);
        let downwards = |n: u64| ((COUNT - n) * 2, (COUNT - n) * 2 + 1);
        let shuffled = |n: u64| upwards(n * 7919 % COUNT);
        let orders: [&dyn Fn(u64) -> (u64, u64); 4] = [&nested, &upwards, &downwards, &shuffled];
        for order in orders {
            let mut tree = Tree::default();
            for (start, end) in (0..COUNT).map(order) {
                assert!(tree.put(Some(map(start, end, start)), start..end, usize::MAX));
            }
            assert!(tree.iter().zip(tree.iter().skip(1)).all(|(one, next)| one.end <= next.start));
            assert!(depth(&tree.root) <= 40, "{}", depth(&tree.root));
            assert_eq!(tree.held.count(), tree.len(), "nothing is left of what was replaced");

            let mut others: Vec<Tree> = (0..100).map(|_| tree.clone()).collect();
            assert_eq!(tree.held.count(), tree.len());
            for (index, other) in (0..).zip(&mut others) {
                assert!(other.put(Some(map(1 << 40, 1 << 41, index)), 1 << 40..1 << 41, usize::MAX));
            }
            assert!(tree.held.count() < tree.len() + 100 * 60, "{}", tree.held.count());
        }
    }

    proptest! {
        /// The same as a list in which every address is looked at by itself.
        #[test]
        fn as_a_list_of_addresses(puts in prop::collection::vec((0u64..60, 1u64..30, prop::bool::weighted(0.8)), 0..60)) {
            let mut tree = Tree::default();
            let mut list = [None; 100];
            for (number, (start, len, is_there)) in (1..).zip(puts) {
                let new = is_there.then(|| map(start, start + len, number * 1000));
                tree.put(new, start..start + len, usize::MAX);
                for address in start..start + len {
                    list[address as usize] = new.map(|map| map.pgoff + (address - start));
                }
                depth(&tree.root);
            }
            for (address, expected) in (0..).zip(list) {
                let found = tree.find(address).map(|map| map.pgoff + (address - map.start));
                prop_assert_eq!(found, expected);
            }
            prop_assert_eq!(tree.held.count(), tree.len());
        }
    }
}
