//! The call tree of an entry: its callchains, merged from the entry on as far as they are the same. It
//! has the shape and the order that perf's has, so that both can be compared line by line.

use crate::entries::{Entry, Report};
use crate::frames::{FrameId, Frames};
use crate::hash::FastMap;
use crate::tree::Sum;
use std::cmp::Reverse;

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
    /// The samples in the entry itself.
    to_own: Under,
    /// Of those, the ones that are in the samples under the entry too.
    excluded: Under,
}

/// Samples of some nodes, by the places of the nodes.
#[derive(Debug, Default)]
struct Under {
    /// The nodes by their places.
    nodes: Vec<(u32, u32)>,
    /// The sum of all before each node, and of all.
    sums: Vec<Sum>,
}

impl Under {
    fn new(report: &Report<'_>, nodes: impl Iterator<Item = u32>) -> Self {
        let mut nodes: Vec<(u32, u32)> = nodes.map(|node| (report.span(node).0, node)).collect();
        nodes.sort_unstable();
        let mut sum = (0, 0);
        let mut sums = vec![sum];
        sums.extend(nodes.iter().map(|&(_, node)| {
            sum = add(sum, report.own(node));
            sum
        }));
        Under { nodes, sums }
    }

    /// What there is at a node and under it.
    fn sum(&self, (from, to): (u32, u32)) -> Sum {
        let first = self.nodes.partition_point(|&(place, _)| place < from);
        let count = self.nodes[first..].partition_point(|&(place, _)| place < to);
        if count == 0 { (0, 0) } else { without(self.sums[first + count], self.sums[first]) }
    }

    fn has(&self, (from, _): (u32, u32)) -> bool {
        self.nodes.binary_search_by_key(&from, |&(place, _)| place).is_ok()
    }

    /// The outermost callers of the nodes.
    fn top(&self, report: &Report<'_>) -> Vec<u32> {
        let (mut top, mut end) = (Vec::new(), 0);
        for &(_, node) in self.nodes.iter() {
            // What lies under the last one has no other.
            if report.span(node).0 >= end {
                let outwards = std::iter::successors(Some(node), |&node| {
                    let parent = report.node(node).parent;
                    (!report.is_root(parent)).then_some(parent)
                });
                top.extend(outwards.last().inspect(|&node| end = report.span(node).1));
            }
        }
        top.sort_unstable();
        top
    }
}

/// The callchains of an entry as a tree. The branches of the result are where they begin.
pub fn chains(report: &Report<'_>, frames: &Frames, entry: &Entry, order: Order, least: Least) -> Branch {
    let mut builder = Builder {
        report,
        frames,
        least,
        heaviest_first: order.heaviest_first,
        to_own: Under::default(),
        excluded: Under::default(),
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
                self.to_own = Under::new(report, own());
                let top = self.to_own.top(report);
                items.extend(top.into_iter().map(|node| self.to_own(node)));
                if with_callees {
                    let alike = report.nodes_of(entry).filter(has_samples);
                    self.excluded = Under::new(report, alike.map(|(node, _)| node));
                    let outer = report.nodes_of(entry).filter(|(_, outermost)| *outermost);
                    items.extend(outer.map(|(node, _)| self.inwards(node)));
                }
            }
        }
        items.retain(|item| item.sum.1 > 0);
        items
    }

    fn inwards(&self, node: u32) -> Item {
        let excluded = self.excluded.sum(self.report.span(node));
        Item { node, sum: without(self.report.sum(node), excluded), way: Way::In }
    }

    fn to_own(&self, node: u32) -> Item {
        Item { node, sum: self.to_own.sum(self.report.span(node)), way: Way::ToOwn }
    }

    /// Of callchains that came to a node, those that end there.
    fn own(&self, item: &Item) -> Sum {
        let node = self.report.node(item.node);
        let own = self.report.own(item.node);
        match item.way {
            Way::Out if self.report.is_root(node.parent) => item.sum,
            Way::Out => (0, 0),
            // Those of the entry itself are told from the outermost caller on.
            Way::In | Way::ToOwn if own.1 == 0 => own,
            way if self.to_own.has(self.report.span(item.node)) == (way == Way::ToOwn) => own,
            Way::In | Way::ToOwn => (0, 0),
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
                    next.extend(self.report.children(item.node).map(|child| self.to_own(child)));
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
