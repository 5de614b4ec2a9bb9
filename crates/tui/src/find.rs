//! Search: the next place of a page that has a text.

use crate::names::{frame_name, has};
use crate::page::Page;
use crate::state::State;
use crate::subject::Subject;
use crate::tree::Tree;

impl State {
    /// Goes to the next place that has the searched text, or stays at one that has it if `here`.
    pub(crate) fn find(&mut self, subject: &Subject<'_>, forwards: bool, here: bool) {
        if self.search.is_empty() {
            return;
        }
        let search = self.search.clone();
        let found = |fits: Vec<bool>, at: usize| {
            let count = fits.len();
            let steps = usize::from(!here)..count + usize::from(!here);
            let place =
                |step: usize| if forwards { at + step } else { at + count - step % count.max(1) } % count;
            steps.map(place).find(|&place| fits[place])
        };
        match self.page {
            Page::Functions => {
                let shown = self.shown(subject);
                let row = |&row: &usize| subject.rows()[row].texts.iter().any(|text| has(text, &search));
                let at = self.place(subject, &shown);
                if let Some(place) = found(shown.iter().map(row).collect(), at) {
                    self.choose_row(subject, place);
                }
            }
            Page::Neighbours => {
                let list = self.list(subject);
                let fits =
                    |name: &Option<(String, String)>| name.as_ref().is_some_and(|name| has(&name.0, &search));
                let at = self.neighbour;
                self.neighbour = found(list.iter().map(fits).collect(), at).unwrap_or(at);
            }
            Page::Tree => {
                let tree = subject.tree(!self.is_inverted);
                let lines = self.tree_lines(tree);
                let at = lines.get(self.tree_line).copied().unwrap_or(0);
                if let Some(node) = found(fitting(tree, subject, &search), at) {
                    self.open_above(tree, node);
                    let lines = self.tree_lines(tree);
                    self.tree_line = lines.iter().position(|&line| line == node).unwrap_or(0);
                }
            }
            Page::Flame => {
                let tree = subject.tree(!self.is_inverted);
                let at = self.flame_node(tree).unwrap_or(0);
                if let Some(node) = found(fitting(tree, subject, &search), at) {
                    self.flame = Some(tree.nodes[node].id);
                }
            }
            Page::Code => {
                let Some(code) = &mut self.code else { return };
                code.line = found(code.fitting(&search), code.line).unwrap_or(code.line);
            }
            Page::Time => {
                let Some(timeline) = self.timeline(subject) else { return };
                let fits = timeline.lanes.iter().map(|lined| has(&lined.name, &search));
                let fits = std::iter::once(false).chain(fits).collect();
                self.lane = found(fits, self.lane).unwrap_or(self.lane);
            }
            Page::Events => {
                let fits = subject.events().iter().map(|(_, name, ..)| has(name, &search)).collect();
                self.event_line = found(fits, self.event_line).unwrap_or(self.event_line);
            }
        }
    }
}

/// The nodes whose functions have a text in their name.
fn fitting(tree: &Tree, subject: &Subject<'_>, search: &str) -> Vec<bool> {
    let name = |frame| frame_name(subject.frames(), frame).0;
    tree.nodes.iter().map(|node| has(&name(node.frame), search)).collect()
}
