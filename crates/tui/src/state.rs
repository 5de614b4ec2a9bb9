//! The place where somebody is in a profile: [`State`] takes keys, and draws what they lead to.

use crate::code::{Code, CodeOf};
use crate::looks::Looks;
use crate::names::has;
use crate::page::{Page, Spot};
use crate::subject::{Row, Subject, Tables};
use crate::time::{Choice, Timeline};
use crate::tree::Tree;
use perfuse_annotate::Annotated;
use perfuse_profile::{FrameId, Profile};
use ratatui::layout::Rect;
use std::collections::HashSet;
use std::rc::Rc;

/// A wish that a key has beyond a change of the state.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Deed {
    /// None.
    Nothing,
    /// To leave.
    Leave,
    /// Another order of rows, another event, or other samples: the subject is to be made anew by [`State::choice`],
    /// [`State::tables`] and [`State::event_of`].
    Again,
    /// To see a function from near: [`State::show_code`] takes it.
    Code(CodeOf),
    /// To put a text on the clipboard.
    Copy(String),
    /// To write a new file: [`State::tell`] says how that went.
    Write {
        /// Its path, as it was typed.
        file: String,
        /// Its bytes.
        contents: Vec<u8>,
    },
    /// To stop as a job of the shell, and to come back.
    Suspend,
}

/// The part of a profile that goes on which is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Span {
    /// The last window alone.
    #[default]
    Window,
    /// The last windows, of which older ones fade: an eighth goes with each.
    Fading,
    /// All windows added up, since this was chosen.
    Sum,
}

/// A line of text that is being typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Typing {
    Search,
    Filter,
    File,
}

/// Where somebody is in a profile. It outlives subjects, so that a profile which goes on is shown at the same place.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub(crate) page: Page,
    /// The recording, or what is watched.
    pub(crate) title: String,
    /// How much was lost, and other remarks.
    pub(crate) remark: String,
    pub(crate) looks: Looks,
    /// The profile is still being read: how much of it has been, in percent.
    pub(crate) loading: Option<u8>,
    /// Whether what is shown until all has been read is what it was when it was read before, not a part of it.
    pub(crate) is_of_before: bool,
    /// What became of the last wish, until the next key.
    pub(crate) note: String,
    pub(crate) tables: Tables,
    /// The objects that were wanted before one of them was chosen.
    pub(crate) objects: Option<Vec<String>>,
    /// Counts how often the next event was asked for.
    pub(crate) events: usize,
    pub(crate) typing: Option<Typing>,
    pub(crate) search: String,
    pub(crate) filter: String,
    /// The name of a file to write to.
    pub(crate) file: String,
    pub(crate) is_paused: bool,
    /// The part of a profile that goes on which is shown.
    pub(crate) span: Span,
    /// The line of the help that is shown first, if it is shown.
    pub(crate) help: Option<usize>,
    /// The event that has the cursor.
    pub(crate) event_line: usize,
    /// Rows of the lists, as last drawn.
    pub(crate) height: usize,
    /// The chosen function, and the line on which it stands in the table.
    pub(crate) function: Option<(String, String)>,
    pub(crate) line: usize,
    /// Functions that were chosen before, to go back.
    pub(crate) path: Vec<(String, String)>,
    /// The list of callees, not that of callers, has the cursor; and where in it.
    pub(crate) in_callees: bool,
    pub(crate) neighbour: usize,
    /// The tree begins where samples were.
    pub(crate) is_inverted: bool,
    /// Nodes that are open, and the line of the cursor.
    pub(crate) open: HashSet<u64>,
    pub(crate) tree_line: usize,
    /// The node of the flame graph that has the cursor, and the one that is as wide as the screen.
    pub(crate) flame: Option<u64>,
    pub(crate) zoom: Option<u64>,
    /// The function that was seen from near last.
    pub(crate) code: Option<Code>,
    /// The samples that are shown.
    pub(crate) choice: Choice,
    /// The page of time has cpus in place of threads; its cursor; where a span was begun; the columns of its steps, as last drawn.
    pub(crate) has_cpus: bool,
    pub(crate) lane: usize,
    pub(crate) column: usize,
    pub(crate) mark: Option<usize>,
    pub(crate) steps: usize,
    /// Things that can be clicked at, as last drawn.
    pub(crate) spots: Vec<(Rect, Spot)>,
}

/// So many nodes are opened at once.
const MOST_OPENED: usize = 1 << 14;

/// So many functions are remembered to go back to.
const MOST_REMEMBERED: usize = 256;

impl State {
    /// At the beginning; `title` names the recording.
    pub fn new(title: &str, tables: Tables) -> Self {
        State { title: title.to_owned(), tables, height: 10, ..State::default() }
    }

    /// With these looks.
    #[must_use]
    pub fn with_looks(self, looks: Looks) -> Self {
        State { looks, ..self }
    }

    /// Tells what became of a wish; it is shown until the next key.
    pub fn tell(&mut self, what: &str) {
        what.clone_into(&mut self.note);
    }

    /// The profile is still being read, so many percent of it have been; or all of it.
    pub fn set_loading(&mut self, percent: Option<u8>) {
        self.loading = percent;
    }

    /// The keys of rows and their order.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The event that is shown: one of those of which the profile has samples.
    pub fn event_of(&self, profile: &Profile) -> usize {
        let events = profile.events().iter().enumerate().filter(|(_, event)| event.samples > 0);
        let events: Vec<usize> = events.map(|(number, _)| number).collect();
        events.get(self.events % events.len().max(1)).copied().unwrap_or(0)
    }

    /// The samples that are shown: all of a profile, or a part of it.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// Takes a function that was [asked for](Deed::Code), or the reason why it is not shown.
    pub fn show_code(&mut self, of: CodeOf, shown: Result<Annotated, String>) {
        self.code = Some(Code::new(of, shown));
        self.page = Page::Code;
    }

    /// The page that is shown.
    pub fn page(&self) -> Page {
        self.page
    }

    /// Whether new windows of a profile that goes on are left alone.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// The part of a profile that goes on which is shown.
    pub fn span(&self) -> Span {
        self.span
    }

    /// With this part of a profile that goes on.
    #[must_use]
    pub fn with_span(self, span: Span) -> Self {
        State { span, ..self }
    }

    /// A remark that stands in the first line, such as what was lost.
    pub fn set_remark(&mut self, remark: &str) {
        remark.clone_into(&mut self.remark);
    }

    pub(crate) fn turn(&mut self, subject: &Subject<'_>, by: usize) -> Deed {
        let at = Page::ALL.iter().position(|&page| page == self.page).unwrap_or(0);
        self.open_page(subject, Page::ALL[(at + by) % Page::ALL.len()])
    }

    pub(crate) fn open_page(&mut self, subject: &Subject<'_>, page: Page) -> Deed {
        match page {
            Page::Code if self.code.is_none() => return self.open_code(subject),
            page => self.page = page,
        }
        Deed::Nothing
    }

    /// The function that has the cursor.
    pub(crate) fn frame(&self, subject: &Subject<'_>) -> Option<FrameId> {
        let tree = || subject.tree(!self.is_inverted);
        match self.page {
            Page::Tree => {
                let tree = tree();
                let node = self.tree_lines(tree).get(self.tree_line).copied()?;
                Some(tree.nodes[node].frame)
            }
            Page::Flame => self.flame_node(tree()).map(|node| tree().nodes[node].frame),
            _ => subject.frame(self.row(subject)?),
        }
    }

    pub(crate) fn open_code(&mut self, subject: &Subject<'_>) -> Deed {
        let of = self.frame(subject).and_then(|frame| subject.code_of(frame));
        self.page = Page::Code;
        match of {
            Some(of) if self.code.as_ref().is_none_or(|code| code.of != of) => Deed::Code(of),
            _ => Deed::Nothing,
        }
    }

    /// The lines of the page of time, as last drawn.
    pub(crate) fn timeline(&self, subject: &Subject<'_>) -> Option<Rc<Timeline>> {
        subject.timeline(self.steps.max(1), self.has_cpus)
    }

    /// The steps from the mark to the cursor.
    pub(crate) fn marked(&self) -> Option<std::ops::Range<usize>> {
        let mark = self.mark?;
        Some(mark.min(self.column)..mark.max(self.column) + 1)
    }

    pub(crate) fn invert(&mut self) {
        match self.page {
            Page::Functions | Page::Neighbours => {
                (self.in_callees, self.neighbour) = (!self.in_callees, 0);
                self.page = Page::Neighbours;
            }
            Page::Tree | Page::Flame => {
                self.is_inverted = !self.is_inverted;
                (self.tree_line, self.flame, self.zoom) = (0, None, None);
            }
            Page::Code => self.code.iter_mut().for_each(Code::toggle),
            Page::Time => (self.has_cpus, self.lane) = (!self.has_cpus, 0),
            Page::Events => {}
        }
    }

    /// The rows that the filter leaves, by their numbers.
    pub(crate) fn shown(&self, subject: &Subject<'_>) -> Vec<usize> {
        let fits = |row: &Row| row.texts.iter().any(|text| has(text, &self.filter));
        let rows = subject.rows().iter().enumerate();
        rows.filter(|(_, row)| self.filter.is_empty() || fits(row)).map(|(number, _)| number).collect()
    }

    /// The place of the chosen function among the rows that are shown: its line, where it is now, or else the line where it was.
    pub(crate) fn place(&self, subject: &Subject<'_>, shown: &[usize]) -> usize {
        let last = shown.len().saturating_sub(1);
        let Some(name) = &self.function else { return 0 };
        // Keys beside the function make several rows of one.
        if shown.get(self.line).and_then(|&row| subject.name(row)).as_ref() == Some(name) {
            return self.line;
        }
        let row = subject.row_of(name);
        row.and_then(|row| shown.iter().position(|&number| number == row)).unwrap_or(self.line.min(last))
    }

    /// The row of the chosen function; of the first, where none is chosen or it has gone.
    pub(crate) fn row(&self, subject: &Subject<'_>) -> Option<usize> {
        let shown = self.shown(subject);
        let line = shown.get(self.line).copied();
        let is_it = |row: &usize| self.function.is_some() && subject.name(*row) == self.function;
        let row = line.filter(is_it).or_else(|| subject.row_of(self.function.as_ref()?));
        row.or_else(|| shown.first().copied())
    }

    pub(crate) fn choose_row(&mut self, subject: &Subject<'_>, place: usize) {
        let shown = self.shown(subject);
        self.line = place.min(shown.len().saturating_sub(1));
        self.function = shown.get(self.line).and_then(|&row| subject.name(row));
    }

    pub(crate) fn step(&mut self, subject: &Subject<'_>, by: isize) {
        match self.page {
            Page::Functions => {
                let shown = self.shown(subject);
                let at = self.place(subject, &shown);
                self.choose_row(subject, moved(at, by, shown.len()));
            }
            Page::Neighbours => {
                let count = self.list(subject).len();
                self.neighbour = moved(self.neighbour, by, count);
            }
            Page::Tree => {
                let count = self.tree_lines(subject.tree(!self.is_inverted)).len();
                self.tree_line = moved(self.tree_line, by, count);
            }
            Page::Flame => self.step_flame(subject, by),
            Page::Code => {
                self.code.iter_mut().for_each(|code| code.line = moved(code.line, by, code.lines.len()));
            }
            Page::Time => {
                let lanes = self.timeline(subject).map_or(0, |timeline| timeline.lanes.len());
                self.lane = moved(self.lane, by, lanes + 1);
            }
            Page::Events => self.event_line = moved(self.event_line, by, subject.events().len()),
        }
    }

    /// The names in the list of neighbours that has the cursor.
    pub(crate) fn list(&self, subject: &Subject<'_>) -> Vec<Option<(String, String)>> {
        let Some(row) = self.row(subject) else { return Vec::new() };
        let list = &subject.neighbours(row)[usize::from(self.in_callees)];
        list.iter().map(|neighbour| neighbour.name.clone()).collect()
    }

    pub(crate) fn enter(&mut self, subject: &Subject<'_>) {
        match self.page {
            Page::Functions => {
                let place = self.place(subject, &self.shown(subject));
                self.choose_row(subject, place);
                (self.page, self.neighbour) = (Page::Neighbours, 0);
            }
            Page::Neighbours => {
                let chosen = self.list(subject).get(self.neighbour).cloned().flatten();
                if let Some(name) = chosen.filter(|name| subject.row_of(name).is_some()) {
                    self.go_to(subject, name);
                }
            }
            Page::Tree => self.toggle(subject),
            Page::Flame => self.zoom = self.flame,
            Page::Code => self.code.iter_mut().for_each(Code::next_hottest),
            Page::Time | Page::Events => {}
        }
    }

    /// Makes a function the chosen one, and remembers the one before.
    fn go_to(&mut self, subject: &Subject<'_>, name: (String, String)) {
        if let Some(row) = self.row(subject) {
            self.path.extend(subject.name(row));
            let much = self.path.len().saturating_sub(MOST_REMEMBERED);
            self.path.drain(..much);
        }
        (self.function, self.neighbour) = (Some(name), 0);
    }

    pub(crate) fn deeper(&mut self, subject: &Subject<'_>) {
        match self.page {
            Page::Functions => self.enter(subject),
            Page::Neighbours => (self.in_callees, self.neighbour) = (true, 0),
            Page::Tree => {
                let tree = subject.tree(!self.is_inverted);
                let Some(&node) = self.tree_lines(tree).get(self.tree_line) else { return };
                let is_open = self.open.contains(&tree.nodes[node].id);
                self.open_run(tree, node);
                if is_open && !tree.nodes[node].children.is_empty() {
                    self.tree_line += 1;
                }
            }
            Page::Flame => self.side(subject, 1),
            Page::Code | Page::Events => {}
            Page::Time => self.column = moved(self.column, 1, self.steps),
        }
    }

    pub(crate) fn back(&mut self, subject: &Subject<'_>) {
        match self.page {
            Page::Functions => {}
            Page::Neighbours => (self.in_callees, self.neighbour) = (false, 0),
            Page::Tree => {
                let tree = subject.tree(!self.is_inverted);
                let lines = self.tree_lines(tree);
                let Some(&node) = lines.get(self.tree_line) else { return };
                let of = &tree.nodes[node];
                let is_open = self.open.remove(&of.id) && !of.children.is_empty();
                let above = of.parent.and_then(|parent| lines.iter().position(|&line| line == parent));
                if let (false, Some(line)) = (is_open, above) {
                    self.tree_line = line;
                }
            }
            Page::Flame => self.side(subject, -1),
            Page::Code | Page::Events => {}
            Page::Time => self.column = moved(self.column, -1, self.steps),
        }
    }

    pub(crate) fn back_out(&mut self, subject: &Subject<'_>) {
        match self.page {
            Page::Functions => self.filter.clear(),
            Page::Neighbours => match self.path.pop() {
                Some(name) => (self.function, self.neighbour) = (Some(name), 0),
                None => self.page = Page::Functions,
            },
            Page::Tree => self.back(subject),
            Page::Flame => {
                let tree = subject.tree(!self.is_inverted);
                let zoomed = self.zoom.and_then(|id| tree.nodes.iter().find(|node| node.id == id));
                self.zoom = zoomed.and_then(|node| Some(tree.nodes[node.parent?].id));
            }
            Page::Code | Page::Events => self.page = Page::Functions,
            Page::Time => {}
        }
    }

    pub(crate) fn toggle(&mut self, subject: &Subject<'_>) {
        let tree = subject.tree(!self.is_inverted);
        if let Some(&node) = self.tree_lines(tree).get(self.tree_line) {
            if !self.open.remove(&tree.nodes[node].id) {
                self.open_run(tree, node);
            }
        }
    }

    /// Opens a node, and those below it up to the next fork.
    fn open_run(&mut self, tree: &Tree, mut node: usize) {
        self.open.insert(tree.nodes[node].id);
        while let [only] = tree.nodes[node].children[..] {
            self.open.insert(tree.nodes[only].id);
            node = only;
        }
    }

    /// Opens the nodes of the tree, as many as have room, or closes all.
    pub(crate) fn open_all(&mut self, subject: &Subject<'_>, is_open: bool) {
        self.open.clear();
        if is_open {
            let tree = subject.tree(!self.is_inverted);
            // Nodes come before those below them.
            self.open.extend(tree.nodes.iter().take(MOST_OPENED).map(|node| node.id));
        }
    }

    /// Goes to the place of the chosen function in the trees and opens it: with its callers where samples were in it, else where it
    /// is called.
    pub(crate) fn unfold(&mut self, subject: &Subject<'_>) {
        let Some(frame) = self.frame(subject) else { return };
        self.page = Page::Tree;
        for is_inverted in [true, false] {
            self.is_inverted = is_inverted;
            let tree = subject.tree(!is_inverted);
            let is_it = |node: &usize| tree.nodes[*node].frame == frame;
            let all = 0..tree.nodes.len();
            let found = match is_inverted {
                true => tree.roots.iter().copied().find(is_it),
                false => all.filter(is_it).max_by_key(|&node| tree.nodes[node].weight),
            };
            if let Some(node) = found {
                self.open_above(tree, node);
                self.open_run(tree, node);
                self.tree_line = self.tree_lines(tree).iter().position(|&line| line == node).unwrap_or(0);
                return;
            }
        }
    }

    /// The nodes of a tree that are shown, those below open ones and the first ones.
    pub(crate) fn tree_lines(&self, tree: &Tree) -> Vec<usize> {
        let mut lines = Vec::new();
        let mut next: Vec<usize> = tree.roots.iter().rev().copied().collect();
        while let Some(node) = next.pop() {
            lines.push(node);
            if self.open.contains(&tree.nodes[node].id) {
                next.extend(tree.nodes[node].children.iter().rev());
            }
        }
        lines
    }

    /// The node of the flame graph that has the cursor.
    pub(crate) fn flame_node(&self, tree: &Tree) -> Option<usize> {
        let named = self.flame.and_then(|id| tree.nodes.iter().position(|node| node.id == id));
        named.or_else(|| self.zoom_node(tree)).or_else(|| tree.roots.first().copied())
    }

    /// The node that is as wide as the screen.
    pub(crate) fn zoom_node(&self, tree: &Tree) -> Option<usize> {
        self.zoom.and_then(|id| tree.nodes.iter().position(|node| node.id == id))
    }

    /// Towards callees, or callers.
    fn step_flame(&mut self, subject: &Subject<'_>, by: isize) {
        let tree = subject.tree(!self.is_inverted);
        let Some(mut at) = self.flame_node(tree) else { return };
        for _ in 0..by.unsigned_abs().min(tree.nodes.len()) {
            let next = if by > 0 { tree.nodes[at].children.first().copied() } else { tree.nodes[at].parent };
            let Some(next) = next else { break };
            at = next;
        }
        self.flame = Some(tree.nodes[at].id);
    }

    /// To the neighbour on the same level.
    fn side(&mut self, subject: &Subject<'_>, by: isize) {
        let tree = subject.tree(!self.is_inverted);
        let Some(at) = self.flame_node(tree) else { return };
        let all = tree.nodes[at].parent.map_or(&tree.roots, |parent| &tree.nodes[parent].children);
        let place = all.iter().position(|&node| node == at).unwrap_or(0);
        self.flame = all.get(moved(place, by, all.len())).map(|&node| tree.nodes[node].id);
    }

    pub(crate) fn open_above(&mut self, tree: &Tree, node: usize) {
        let mut at = node;
        while let Some(parent) = tree.nodes[at].parent {
            self.open.insert(tree.nodes[parent].id);
            at = parent;
        }
    }
}

pub(crate) fn moved(at: usize, by: isize, count: usize) -> usize {
    at.saturating_add_signed(by).min(count.saturating_sub(1))
}
