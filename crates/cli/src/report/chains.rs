//! Call trees under the entries of a report, drawn with signs that every terminal has, or folded into lines.

use super::profile::{Entry, Tree};
use crate::recording::frames::{FrameId, Frames};
use crate::recording::hash::FastMap;
use std::fmt::Write;

/// How call trees are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Percentages of everything.
    Graph,
    /// Percentages of the branch above.
    Fractal,
    /// A line for each stack.
    Folded,
    /// Not at all.
    None,
}

/// A branch: a function and what was sampled in and under it.
#[derive(Debug, Default)]
struct Branch {
    frame: u32,
    weight: u64,
    /// Of it, in the function itself, not further along.
    own: u64,
    branches: Vec<Branch>,
}

#[derive(Clone, Copy)]
pub(super) struct Drawing<'d> {
    pub(super) frames: &'d Frames,
    pub(super) style: Style,
    /// Branches below this many percent are left out.
    pub(super) least_percent: f64,
    pub(super) total: u64,
    /// From the entry to what it calls, rather than to its callers.
    pub(super) to_callees: bool,
}

pub(super) fn name(frames: &Frames, frame: u32) -> String {
    let frame = frames.get(FrameId(frame));
    match &frame.symbol {
        Some(name) => name.to_string(),
        None => format!("{:#x}", frame.address),
    }
}

impl Drawing<'_> {
    /// Draws the tree of an entry.
    pub(super) fn draw(&self, out: &mut String, tree: &Tree<'_>, entry: &Entry) {
        let least = (self.total as f64 * self.least_percent / 100.0) as u64;
        let is_leaf = entry.self_weight == entry.total_weight;
        let top = match (self.to_callees, is_leaf) {
            (true, false) => callees(tree, &entry.outermost, least),
            (true, true) => from_the_root(tree, &entry.innermost),
            (false, _) => callers(tree, &entry.innermost, least),
        };
        if top.weight < least.max(1) {
            return;
        }
        match self.style {
            Style::None => {}
            Style::Folded => {
                for branch in &top.branches {
                    self.fold(out, branch, &mut Vec::new(), least);
                }
            }
            Style::Graph | Style::Fractal => {
                let start = " ".repeat(12);
                if let [only] = &top.branches[..] {
                    let _ = writeln!(out, "{start}|");
                    let _ = writeln!(out, "{start}---{}", name(self.frames, only.frame));
                    self.chain(out, only, &format!("{start}   "), least);
                } else {
                    self.branches(out, &top, &start, least);
                }
                out.push('\n');
            }
        }
    }

    /// What follows a function as long as there is only one way on; then the branches.
    fn chain(&self, out: &mut String, mut branch: &Branch, prefix: &str, least: u64) {
        while let ([only], 0) = (&branch.branches[..], branch.own) {
            branch = only;
            let _ = writeln!(out, "{prefix}{}", name(self.frames, branch.frame));
        }
        self.branches(out, branch, prefix, least);
    }

    fn branches(&self, out: &mut String, branch: &Branch, prefix: &str, least: u64) {
        let whole = if self.style == Style::Fractal { branch.weight } else { self.total };
        let least_here = match self.style {
            Style::Fractal => (branch.weight as f64 * self.least_percent / 100.0) as u64,
            _ => least,
        };
        let shown: Vec<_> = branch.branches.iter().filter(|branch| branch.weight >= least_here).collect();
        for (index, next) in shown.iter().enumerate() {
            let mark = if index + 1 == shown.len() { ' ' } else { '|' };
            let percent = next.weight as f64 * 100.0 / whole as f64;
            let _ = writeln!(out, "{prefix}|");
            let _ = writeln!(out, "{prefix}{mark}--{percent:.2}%--{}", name(self.frames, next.frame));
            self.chain(out, next, &format!("{prefix}{mark}{}", " ".repeat(10)), least);
        }
    }

    fn fold(&self, out: &mut String, branch: &Branch, path: &mut Vec<u32>, least: u64) {
        path.push(branch.frame);
        let passed_on: u64 = branch.branches.iter().map(|next| next.weight).sum();
        let own = branch.weight.saturating_sub(passed_on);
        if own > 0 && own >= least {
            let names: Vec<_> = path.iter().map(|&frame| name(self.frames, frame)).collect();
            let percent = own as f64 * 100.0 / self.total as f64;
            let _ = writeln!(out, "{percent:.2}% {}", names.join(";"));
        }
        for next in &branch.branches {
            self.fold(out, next, path, least);
        }
        path.pop();
    }
}

/// Groups nodes by frame, and goes on in each group that is large enough.
fn grouped(
    nodes: impl Iterator<Item = (u32, u32, u64)>,
    least: u64,
    own: impl Fn(&[(u32, u64)]) -> u64 + Copy,
    further: impl Fn(&[(u32, u64)]) -> Vec<(u32, u32, u64)> + Copy,
) -> Vec<Branch> {
    let mut groups: FastMap<u32, Vec<(u32, u64)>> = FastMap::default();
    for (node, frame, weight) in nodes {
        groups.entry(frame).or_default().push((node, weight));
    }
    let mut branches: Vec<Branch> = groups
        .into_iter()
        .map(|(frame, nodes)| {
            let weight = nodes.iter().map(|(_, weight)| weight).sum();
            let branches = match weight >= least {
                true => grouped(further(&nodes).into_iter(), least, own, further),
                false => Vec::new(),
            };
            Branch { frame, weight, own: own(&nodes), branches }
        })
        .collect();
    branches.sort_by_key(|branch| (std::cmp::Reverse(branch.weight), branch.frame));
    branches
}

fn top(branches: Vec<Branch>) -> Branch {
    Branch { frame: 0, weight: branches.iter().map(|branch| branch.weight).sum(), own: 0, branches }
}

fn callees(tree: &Tree<'_>, nodes: &[u32], least: u64) -> Branch {
    let with_sum = |node: u32| (node, tree.node(node).frame, tree.sums[node as usize].0);
    let own = |nodes: &[(u32, u64)]| nodes.iter().map(|&(node, _)| tree.node(node).weight).sum();
    let further = |nodes: &[(u32, u64)]| -> Vec<_> {
        nodes.iter().flat_map(|&(node, _)| tree.children(node)).map(with_sum).collect()
    };
    top(grouped(nodes.iter().copied().map(with_sum), least, own, further))
}

fn callers(tree: &Tree<'_>, nodes: &[u32], least: u64) -> Branch {
    let start = nodes.iter().map(|&node| (node, tree.node(node).frame, tree.node(node).weight));
    let ends = |&&(node, _): &&(u32, u64)| tree.is_root(tree.node(node).parent);
    let own = |nodes: &[(u32, u64)]| nodes.iter().filter(ends).map(|(_, weight)| weight).sum();
    let further = |nodes: &[(u32, u64)]| -> Vec<_> {
        let goes_on = nodes.iter().filter(|node| !ends(node));
        goes_on
            .map(|&(node, weight)| {
                let parent = tree.node(node).parent;
                (parent, tree.node(parent).frame, weight)
            })
            .collect()
    };
    top(grouped(start, least, own, further))
}

/// Whole stacks, from the outermost caller to the entry.
fn from_the_root(tree: &Tree<'_>, nodes: &[u32]) -> Branch {
    let mut all = Branch::default();
    for &node in nodes {
        let weight = tree.node(node).weight;
        let mut path = Vec::new();
        let mut at = node;
        while !tree.is_root(at) {
            path.push(tree.node(at).frame);
            at = tree.node(at).parent;
        }
        let mut branch = &mut all;
        branch.weight += weight;
        for &frame in path.iter().rev() {
            let index = match branch.branches.iter().position(|next| next.frame == frame) {
                Some(index) => index,
                None => {
                    branch.branches.push(Branch { frame, ..Branch::default() });
                    branch.branches.len() - 1
                }
            };
            branch = &mut branch.branches[index];
            branch.weight += weight;
        }
        branch.own += weight;
    }
    sort(&mut all);
    all
}

fn sort(branch: &mut Branch) {
    branch.branches.sort_by_key(|branch| (std::cmp::Reverse(branch.weight), branch.frame));
    branch.branches.iter_mut().for_each(sort);
}
