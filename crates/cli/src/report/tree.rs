//! Call trees under the entries of a report, drawn with signs that every terminal has, or as lists.

use super::Shown;
use super::options::{CallGraph, Plan, Style, Value};
use crate::term::foreign::foreign;
use crate::term::lines::Paint;
use perfuse_profile::{Branch, Entry, FrameId, Frames, Least, Trees, View};
use std::fmt::Write;

/// Everything that the trees of a report have in common.
pub(super) struct Drawing<'d> {
    graph: CallGraph,
    children: bool,
    skips_first: bool,
    shown: &'d Shown<'d>,
    paint: Paint,
    separator: &'d str,
}

/// The call trees of a view, as far as they are to be shown.
pub(super) fn trees<'r>(plan: &Plan, whole: u64, view: &'r View<'r>) -> Trees<'r> {
    let graph = &plan.graph;
    let share = graph.least_percent / 100.0;
    let least = match graph.style {
        Style::Fractal => Least::Share(share),
        _ => Least::Weight((whole as f64 * share) as u64),
    };
    let by_address = matches!(graph.style, Style::Flat | Style::Folded);
    Trees::new(view, !by_address, least)
}

/// The name of a frame in a tree.
pub(super) fn name(frames: &Frames, id: FrameId, by_address: bool) -> String {
    let frame = frames.get(id);
    let inlined = if frame.is_inlined { " (inlined)" } else { "" };
    match (&frame.symbol, frames.line(frame)) {
        (Some(name), Some((file, line))) if by_address => format!("{name} {file}:{line}{inlined}"),
        (Some(name), None) if by_address => format!("{name} +{}{inlined}", frame.offset),
        (Some(name), _) => format!("{name}{inlined}"),
        (None, _) if frame.ip == 0 => "0".to_owned(),
        (None, _) => format!("{:#x}", frame.ip),
    }
}

/// Whether a line goes on down at a depth. Trees are as deep as stacks are, and like perf this keeps 32
/// levels apart.
#[derive(Clone, Copy)]
struct Lines(u32);

impl Lines {
    fn with(self, depth: usize) -> Self {
        Lines(self.0 | 1u32.wrapping_shl(depth as u32))
    }

    fn without(self, depth: usize) -> Self {
        Lines(self.0 & !1u32.wrapping_shl(depth as u32))
    }

    fn has(self, depth: usize) -> bool {
        self.0 & 1u32.wrapping_shl(depth as u32) != 0
    }
}

const MARGIN: &str = "            ";

impl<'d> Drawing<'d> {
    pub(super) fn new(
        plan: &Plan,
        shown: &'d Shown<'d>,
        paint: Paint,
        separator: Option<&'d str>,
    ) -> Drawing<'d> {
        Drawing {
            graph: plan.graph,
            children: plan.children,
            skips_first: plan.skips_first,
            shown,
            paint,
            separator: separator.unwrap_or(";"),
        }
    }

    fn name(&self, frame: FrameId) -> String {
        foreign(&name(self.shown.view.frames, frame, self.graph.by_address)).into_owned()
    }

    /// Draws the tree of an entry.
    pub(super) fn draw(&self, out: &mut String, entry: &Entry) {
        let Some(trees) = &self.shown.trees else { return };
        let top = trees.of(entry);
        let rank = if self.children { entry.total_weight } else { entry.self_weight };
        match self.graph.style {
            Style::None => {}
            Style::Flat | Style::Folded => self.list(out, &top),
            Style::Graph | Style::Fractal => self.graph(out, &top, rank),
        }
    }

    fn graph(&self, out: &mut String, top: &Branch, rank: u64) {
        let start = out.len();
        let mut margin = MARGIN.to_owned();
        let (mut branches, mut samples) = (&top.branches, top.samples);
        // The entry above already tells the weight of a single callchain.
        if let [only] = &top.branches[..] {
            if only.weight == rank {
                let frames = &only.frames[usize::from(self.skips_first)..];
                for (index, &frame) in frames.iter().take(self.graph.most).enumerate() {
                    let name = self.name(frame);
                    if index == 0 {
                        let _ = writeln!(out, "{margin}|\n{margin}---{name}");
                        margin.push_str("   ");
                    } else {
                        let _ = writeln!(out, "{margin}{name}");
                    }
                }
                (branches, samples) = (&only.branches, only.samples - only.own_samples);
            }
        }
        let total = if self.graph.style == Style::Fractal { rank } else { self.shown.whole };
        self.fork(out, branches, total, (1, Lines(1)), &margin, samples);
        if out.len() > start {
            out.push('\n');
        }
    }

    /// Draws the branches of a fork.
    fn fork(
        &self,
        out: &mut String,
        branches: &[Branch],
        total: u64,
        (depth, lines): (usize, Lines),
        margin: &str,
        samples: u64,
    ) {
        let fractal = self.graph.style == Style::Fractal;
        let mut lines_below = lines;
        let (mut left, mut left_samples) = (total, samples);
        for (index, branch) in branches.iter().enumerate().take(self.graph.most) {
            left = left.wrapping_sub(branch.weight);
            left_samples = left_samples.wrapping_sub(branch.samples);
            let is_last = index + 1 == branches.len();
            if is_last && (!fractal || left == 0) {
                lines_below = lines_below.without(depth - 1);
            }
            self.line(out, depth, lines, margin);
            for (place, &frame) in branch.frames.iter().enumerate() {
                let value = (place == 0).then_some((branch.weight, branch.samples));
                let name = self.name(frame);
                self.step(out, (depth, lines_below), margin, value, total, &name);
            }
            let new_total = if fractal { branch.weight - branch.own_weight } else { total };
            let below = (depth + 1, lines_below.with(depth));
            self.fork(out, &branch.branches, new_total, below, margin, branch.samples - branch.own_samples);
        }
        if fractal && left != 0 && left != total && !branches.is_empty() {
            if self.graph.value == Value::Count && left_samples as i64 <= 0 {
                return;
            }
            let lines = lines_below.without(depth - 1);
            self.step(out, (depth, lines), margin, Some((left, left_samples)), total, "[...]");
        }
    }

    fn line(&self, out: &mut String, depth: usize, lines: Lines, margin: &str) {
        out.push_str(margin);
        for at in 0..depth {
            out.push_str(if lines.has(at) { "|          " } else { "           " });
        }
        out.push('\n');
    }

    fn step(
        &self,
        out: &mut String,
        (depth, lines): (usize, Lines),
        margin: &str,
        value: Option<(u64, u64)>,
        total: u64,
        name: &str,
    ) {
        out.push_str(margin);
        for at in 0..depth {
            out.push(if lines.has(at) { '|' } else { ' ' });
            match value {
                Some((weight, samples)) if at + 1 == depth => {
                    out.push_str("--");
                    self.value(out, weight, samples, total);
                    out.push_str("--");
                }
                _ => out.push_str("          "),
            }
        }
        out.push_str(name);
        out.push('\n');
    }

    fn value(&self, out: &mut String, weight: u64, samples: u64, total: u64) {
        let _ = match self.graph.value {
            Value::Period => write!(out, "{weight}"),
            Value::Count => write!(out, "{samples}"),
            Value::Percent => {
                let percent = if total == 0 { 0.0 } else { weight as f64 * 100.0 / total as f64 };
                self.paint.percent(out, percent, &format!("{percent:.2}%"));
                Ok(())
            }
        };
    }

    /// Each callchain by itself, heaviest first.
    fn list(&self, out: &mut String, top: &Branch) {
        let least = (self.shown.whole as f64 * (self.graph.least_percent / 100.0)) as u64;
        let mut found: Vec<(&Branch, Vec<FrameId>)> = Vec::new();
        for branch in &top.branches {
            ends(branch, &mut Vec::new(), least, &mut found);
        }
        found.sort_by_key(|(branch, _)| std::cmp::Reverse(branch.own_weight));
        for (branch, frames) in found.into_iter().take(self.graph.most) {
            let names = frames.iter().map(|&frame| self.name(frame));
            if self.graph.style == Style::Folded {
                self.value(out, branch.own_weight, branch.own_samples, self.shown.whole);
                let names: Vec<String> = names.collect();
                let _ = writeln!(out, " {}", names.join(self.separator));
            } else {
                out.push_str("           ");
                self.value(out, branch.weight, branch.samples, self.shown.whole);
                out.push('\n');
                for name in names {
                    let _ = writeln!(out, "                {name}");
                }
                out.push('\n');
            }
        }
    }
}

/// The branches in which callchains end, inner ones first, with all frames on the way to them.
fn ends<'b>(
    branch: &'b Branch,
    path: &mut Vec<FrameId>,
    least: u64,
    found: &mut Vec<(&'b Branch, Vec<FrameId>)>,
) {
    let start = path.len();
    path.extend(&branch.frames);
    for next in &branch.branches {
        ends(next, path, least, found);
    }
    if branch.own_weight > 0 && branch.own_weight >= least {
        found.push((branch, path.clone()));
    }
    path.truncate(start);
}
