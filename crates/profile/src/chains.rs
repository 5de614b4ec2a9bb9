//! The call tree of an entry: its callchains, merged from the entry on as far as they are the same. It
//! has the shape and the order that perf's has, so that both can be compared line by line.

use crate::entries::{Entry, Report};
use crate::frames::{FrameId, Frames};
use crate::hash::{FastMap, FastSet};
use crate::tree::Sum;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Frames without a fork between them, and what comes after them.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Branch {
    /// The frames.
    pub frames: Vec<FrameId>,
    /// Weight of the callchains that end here.
    pub own_weight: u64,
    /// How many samples that are.
    pub own_samples: u64,
    /// Weight of all callchains that come along here.
    pub weight: u64,
    /// How many samples that are.
    pub samples: u64,
    /// How they go on, largest first; small ones are left out.
    pub branches: Vec<Branch>,
}

/// Which branches are large enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Least {
    /// Those of at least this weight.
    Weight(u64),
    /// Those of at least this share of what forks there.
    Share(f64),
}

/// How the call tree of an entry is made.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Order {
    /// From the outermost caller inwards, rather than from where the samples were outwards.
    pub caller_first: bool,
    /// Whether the entry has the callchains in which it is a caller too.
    pub with_callees: bool,
    /// Whether the heaviest branches come first, rather than those of the highest addresses.
    pub heaviest_first: bool,
}

impl Order {
    /// With the heaviest branches first.
    pub fn new(caller_first: bool, with_callees: bool) -> Self {
        Order { caller_first, with_callees, heaviest_first: true }
    }

    /// With the branches in the order of their addresses, highest first.
    #[must_use]
    pub fn by_address(self) -> Self {
        Order { heaviest_first: false, ..self }
    }
}

fn add(one: Sum, other: Sum) -> Sum {
    (one.0 + other.0, one.1 + other.1)
}

fn without(one: Sum, other: Sum) -> Sum {
    (one.0.saturating_sub(other.0), one.1.saturating_sub(other.1))
}

/// Where callchains are that have been the same so far.
#[derive(Clone, Copy, Debug)]
struct Item {
    node: u32,
    sum: Sum,
    way: Way,
}

/// How they go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// To the callers.
    Out,
    /// To all callees, but not to the entry's own samples.
    In,
    /// To the entry's own samples.
    ToOwn,
}

struct Builder<'r> {
    report: &'r Report<'r>,
    frames: &'r Frames,
    least: Least,
    heaviest_first: bool,
    /// Under each node on the way to one of them, the samples in the entry itself.
    to_own: FastMap<u32, Sum>,
    /// The same, from the outermost node of the entry on only.
    excluded: FastMap<u32, Sum>,
    is_own: FastSet<u32>,
}

/// The callchains of an entry as a tree. The branches of the result are where they begin.
pub fn chains(report: &Report<'_>, frames: &Frames, entry: &Entry, order: Order, least: Least) -> Branch {
    let mut builder = Builder {
        report,
        frames,
        least,
        heaviest_first: order.heaviest_first,
        to_own: FastMap::default(),
        excluded: FastMap::default(),
        is_own: FastSet::default(),
    };
    let items = builder.start(entry, order);
    builder.top(items)
}

impl Builder<'_> {
    fn start(&mut self, entry: &Entry, order: Order) -> Vec<Item> {
        let report = self.report;
        let own_sum = |node: u32| report.own(node);
        let is_apart = |node: u32| report.is_apart[report.node(node).frame as usize];
        let has_samples = |&(node, _): &(u32, bool)| own_sum(node).1 > 0 && !is_apart(node);
        let own = || {
            let alike = report.nodes_of(entry).filter(has_samples).map(|(node, _)| node);
            alike.chain(entry.apart.iter().copied())
        };
        let mut items = Vec::new();
        match (order.caller_first, order.with_callees) {
            (false, false) => {
                items.extend(own().map(|node| Item { node, sum: own_sum(node), way: Way::Out }));
            }
            (false, true) => {
                let mut sums: FastMap<u32, Sum> =
                    report.nodes_of(entry).map(|(node, _)| (node, report.sum(node))).collect();
                for (node, _) in report.nodes_of(entry).filter(|(_, outermost)| !outermost) {
                    let mut callers = std::iter::successors(Some(report.node(node).parent), |&caller| {
                        (!report.is_root(caller)).then(|| report.node(caller).parent)
                    });
                    if let Some(above) = callers.find(|caller| sums.contains_key(caller)) {
                        let sum = sums.entry(above).or_default();
                        *sum = without(*sum, report.sum(node));
                    }
                }
                let apart = entry.apart.iter().map(|&node| (node, own_sum(node)));
                let mut all: Vec<(u32, Sum)> = sums.into_iter().chain(apart).collect();
                all.sort_unstable();
                items.extend(all.into_iter().map(|(node, sum)| Item { node, sum, way: Way::Out }));
            }
            (true, with_callees) => {
                for node in own() {
                    self.to_own.insert(node, own_sum(node));
                    self.is_own.insert(node);
                }
                let top = spread(&mut self.to_own, |node| {
                    let parent = report.node(node).parent;
                    (!report.is_root(parent)).then_some(parent)
                });
                let to_own = |&node: &u32| Item { node, sum: self.to_own[&node], way: Way::ToOwn };
                items.extend(top.iter().map(to_own));
                if with_callees {
                    let outer = || report.nodes_of(entry).filter(|(_, outermost)| *outermost);
                    let alike = report.nodes_of(entry).filter(has_samples);
                    self.excluded.extend(alike.map(|(node, _)| (node, own_sum(node))));
                    let outermost: FastSet<u32> = outer().map(|(node, _)| node).collect();
                    spread(&mut self.excluded, |node| {
                        (!outermost.contains(&node)).then(|| report.node(node).parent)
                    });
                    items.extend(outer().map(|(node, _)| self.inwards(node)));
                }
            }
        }
        items.retain(|item| item.sum.1 > 0);
        items
    }

    fn inwards(&self, node: u32) -> Item {
        let excluded = self.excluded.get(&node).copied().unwrap_or_default();
        Item { node, sum: without(self.report.sum(node), excluded), way: Way::In }
    }

    /// Of callchains that came to a node, those that end there.
    fn own(&self, item: &Item) -> Sum {
        let node = self.report.node(item.node);
        let own = self.report.own(item.node);
        match item.way {
            Way::Out if self.report.is_root(node.parent) => item.sum,
            Way::Out => (0, 0),
            // Those of the entry itself are told from the outermost caller on.
            Way::In if self.is_own.contains(&item.node) => (0, 0),
            Way::ToOwn if !self.is_own.contains(&item.node) => (0, 0),
            Way::In | Way::ToOwn => own,
        }
    }

    /// Where callchains go on from some nodes, by frame.
    fn further(&self, items: &[Item]) -> Vec<(FrameId, Sum, Vec<Item>)> {
        let mut next: Vec<Item> = Vec::new();
        let mut out: FastMap<u32, usize> = FastMap::default();
        for item in items {
            match item.way {
                Way::Out => {
                    let parent = self.report.node(item.node).parent;
                    if self.report.is_root(parent) {
                        continue;
                    }
                    let new = next.len();
                    let at = *out.entry(parent).or_insert(new);
                    match next.get_mut(at) {
                        Some(known) => known.sum = add(known.sum, item.sum),
                        None => next.push(Item { node: parent, ..*item }),
                    }
                }
                Way::In => next.extend(self.report.children(item.node).map(|child| self.inwards(child))),
                Way::ToOwn => {
                    let known = |child: u32| Some((child, *self.to_own.get(&child)?));
                    let children = self.report.children(item.node).filter_map(known);
                    next.extend(children.map(|(node, sum)| Item { node, sum, way: Way::ToOwn }));
                }
            }
        }
        next.retain(|item| item.sum.1 > 0);
        self.grouped(next)
    }

    fn grouped(&self, items: Vec<Item>) -> Vec<(FrameId, Sum, Vec<Item>)> {
        let mut groups: Vec<(FrameId, Sum, Vec<Item>)> = Vec::new();
        let mut numbers: FastMap<u32, usize> = FastMap::default();
        for item in items {
            let frame = self.report.node(item.node).frame;
            let at = *numbers.entry(frame).or_insert(groups.len());
            if at == groups.len() {
                groups.push((FrameId(frame), (0, 0), Vec::new()));
            }
            let group = &mut groups[at];
            group.1 = add(group.1, item.sum);
            group.2.push(item);
        }
        groups
    }

    fn top(&self, items: Vec<Item>) -> Branch {
        let groups = self.grouped(items);
        let sum = groups.iter().fold((0, 0), |sum, group| add(sum, group.1));
        let mut top = Branch { weight: sum.0, samples: sum.1, ..Branch::default() };
        top.branches = self.branches(groups, sum.0);
        top
    }

    /// The branches of a fork at which callchains of some weight go on.
    fn branches(&self, mut groups: Vec<(FrameId, Sum, Vec<Item>)>, weight: u64) -> Vec<Branch> {
        let least = match self.least {
            Least::Weight(least) => least,
            Least::Share(share) => (weight as f64 * share).ceil() as u64,
        };
        groups.retain(|group| group.1.0 >= least);
        groups.sort_by_key(|&(id, sum, _)| {
            let frame = self.frames.get(id);
            let place = if frame.symbol.is_some() { frame.address } else { frame.ip };
            (
                Reverse(if self.heaviest_first { sum.0 } else { 0 }),
                Reverse((self.frames.order(frame.object), place)),
            )
        });
        groups.into_iter().map(|(frame, sum, items)| self.branch(frame, sum, items)).collect()
    }

    fn branch(&self, frame: FrameId, sum: Sum, mut items: Vec<Item>) -> Branch {
        let mut branch = Branch { frames: vec![frame], weight: sum.0, samples: sum.1, ..Branch::default() };
        loop {
            let own = items.iter().fold((0, 0), |sum, item| add(sum, self.own(item)));
            let mut groups = self.further(&items);
            if own.1 == 0 && groups.len() == 1 {
                if let Some((frame, _, next)) = groups.pop() {
                    branch.frames.push(frame);
                    items = next;
                    continue;
                }
            }
            (branch.own_weight, branch.own_samples) = own;
            branch.branches = self.branches(groups, sum.0 - own.0);
            return branch;
        }
    }
}

/// Adds what there is at each node to the nodes above it, as far as `above` tells of one; returns the
/// nodes where it does not.
fn spread(sums: &mut FastMap<u32, Sum>, above: impl Fn(u32) -> Option<u32>) -> Vec<u32> {
    // A node is younger than its parent, so the youngest has all it will have.
    let mut left: BinaryHeap<u32> = sums.keys().copied().collect();
    let mut top = Vec::new();
    while let Some(node) = left.pop() {
        let sum = sums[&node];
        match above(node) {
            Some(parent) => {
                let known = sums.entry(parent).or_insert_with(|| {
                    left.push(parent);
                    (0, 0)
                });
                *known = add(*known, sum);
            }
            None => top.push(node),
        }
    }
    top.reverse();
    top
}
