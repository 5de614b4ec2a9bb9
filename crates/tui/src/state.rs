//! The place where somebody is in a profile: [`State`] takes keys, and draws what they lead to.

use crate::code::{Code, CodeOf};
use crate::names::has;
use crate::page::{Page, Spot};
use crate::subject::{Row, Subject, Tables};
use crate::time::{Choice, Timeline};
use crate::tree::Tree;
use perfuse_annotate::Annotated;
use perfuse_profile::{FrameId, Profile};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
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
}

/// A line of text that is being typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Typing {
    Search,
    Filter,
}

/// Where somebody is in a profile. It outlives subjects, so that a profile which goes on is shown at the same place.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub(crate) page: Page,
    /// The recording, or what is watched.
    pub(crate) title: String,
    /// How much was lost, and other remarks.
    pub(crate) remark: String,
    pub(crate) tables: Tables,
    /// Counts how often the next event was asked for.
    pub(crate) events: usize,
    pub(crate) typing: Option<Typing>,
    pub(crate) search: String,
    pub(crate) filter: String,
    pub(crate) is_paused: bool,
    pub(crate) has_help: bool,
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

/// So many functions are remembered to go back to.
const MOST_REMEMBERED: usize = 256;

/// A text that is typed has no more letters.
const LONGEST: usize = 256;

impl State {
    /// At the beginning; `title` names the recording.
    pub fn new(title: &str, tables: Tables) -> Self {
        State { title: title.to_owned(), tables, height: 10, ..State::default() }
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

    /// A remark that stands in the first line, such as what was lost.
    pub fn set_remark(&mut self, remark: &str) {
        remark.clone_into(&mut self.remark);
    }

    /// Takes a key.
    pub fn key(&mut self, subject: &Subject<'_>, key: KeyEvent) -> Deed {
        if key.kind == KeyEventKind::Release {
            return Deed::Nothing;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            return Deed::Leave;
        }
        if let Some(typing) = self.typing {
            self.type_key(subject, typing, key.code, control);
            return Deed::Nothing;
        }
        if std::mem::take(&mut self.has_help) {
            return Deed::Nothing;
        }
        let page = self.height.max(2) as isize - 1;
        match (key.code, control) {
            (KeyCode::Char('q') | KeyCode::Esc, false) => return Deed::Leave,
            (KeyCode::Char('?') | KeyCode::F(1), _) => self.has_help = true,
            (KeyCode::Char('p' | ' '), false) => self.is_paused = !self.is_paused,
            (KeyCode::Char('/'), _) => (self.typing, self.search) = (Some(Typing::Search), String::new()),
            (KeyCode::Char('f'), false) => (self.typing, self.page) = (Some(Typing::Filter), Page::Functions),
            (KeyCode::Char('n'), false) => self.find(subject, true, false),
            (KeyCode::Char('N'), false) => self.find(subject, false, false),
            (KeyCode::Tab, _) => return self.turn(subject, 1),
            (KeyCode::BackTab, _) => return self.turn(subject, Page::ALL.len() - 1),
            (KeyCode::Char(digit @ '1'..='6'), _) => {
                return self.open_page(subject, Page::ALL[digit as usize - '1' as usize]);
            }
            (KeyCode::Char('a'), false) => return self.open_code(subject),
            (KeyCode::Char('y'), false) => return self.copy(subject),
            (KeyCode::Char('v'), false) if self.page == Page::Time => {
                self.mark = if self.mark.is_some() { None } else { Some(self.column) };
            }
            (KeyCode::Enter, _) if self.page == Page::Time => return self.choose(subject),
            (KeyCode::Backspace, _) if self.page == Page::Time => return self.choose_more(),
            (KeyCode::Char('s'), false) if self.page == Page::Code => {
                self.code.iter_mut().for_each(Code::toggle);
            }
            (KeyCode::Char('s'), false) => {
                self.tables.by_own = !self.tables.by_own;
                return Deed::Again;
            }
            (KeyCode::Char('e'), false) => {
                self.events = self.events.wrapping_add(1);
                return Deed::Again;
            }
            (KeyCode::Char('i'), false) => self.invert(),
            (KeyCode::Down | KeyCode::Char('j'), _) => self.step(subject, 1),
            (KeyCode::Up | KeyCode::Char('k'), _) => self.step(subject, -1),
            (KeyCode::PageDown, _) | (KeyCode::Char('d' | 'f'), true) => self.step(subject, page),
            (KeyCode::PageUp, _) | (KeyCode::Char('u' | 'b'), true) => self.step(subject, -page),
            (KeyCode::Home | KeyCode::Char('g'), _) => self.step(subject, isize::MIN / 2),
            (KeyCode::End | KeyCode::Char('G'), _) => self.step(subject, isize::MAX / 2),
            (KeyCode::Enter, _) => self.enter(subject),
            (KeyCode::Right | KeyCode::Char('l'), _) => self.deeper(subject),
            (KeyCode::Left | KeyCode::Char('h'), _) => self.back(subject),
            (KeyCode::Backspace, _) => self.back_out(subject),
            _ => {}
        }
        Deed::Nothing
    }

    fn type_key(&mut self, subject: &Subject<'_>, typing: Typing, code: KeyCode, control: bool) {
        let text = match typing {
            Typing::Search => &mut self.search,
            Typing::Filter => &mut self.filter,
        };
        match (code, control) {
            (KeyCode::Esc, _) => {
                text.clear();
                self.typing = None;
            }
            (KeyCode::Enter, _) => self.typing = None,
            (KeyCode::Backspace, _) => {
                text.pop();
            }
            (KeyCode::Char('u'), true) => text.clear(),
            (KeyCode::Char(c), false) if text.chars().count() < LONGEST => text.push(c),
            _ => {}
        }
        match typing {
            Typing::Search if code != KeyCode::Esc => self.find(subject, true, true),
            Typing::Search => {}
            Typing::Filter => self.choose_row(subject, 0),
        }
    }

    fn turn(&mut self, subject: &Subject<'_>, by: usize) -> Deed {
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
    fn frame(&self, subject: &Subject<'_>) -> Option<FrameId> {
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

    fn open_code(&mut self, subject: &Subject<'_>) -> Deed {
        let of = self.frame(subject).and_then(|frame| subject.code_of(frame));
        self.page = Page::Code;
        match of {
            Some(of) if self.code.as_ref().is_none_or(|code| code.of != of) => Deed::Code(of),
            _ => Deed::Nothing,
        }
    }

    fn copy(&mut self, subject: &Subject<'_>) -> Deed {
        let of = match self.page {
            Page::Code => self.code.as_ref().map(|code| code.of.clone()),
            _ => self.frame(subject).and_then(|frame| subject.code_of(frame)),
        };
        of.map_or(Deed::Nothing, |of| Deed::Copy(of.function))
    }

    /// The lines of the page of time, as last drawn.
    fn timeline(&self, subject: &Subject<'_>) -> Option<Rc<Timeline>> {
        subject.timeline(self.steps.max(1), self.has_cpus)
    }

    /// The steps from the mark to the cursor.
    pub(crate) fn marked(&self) -> Option<std::ops::Range<usize>> {
        let mark = self.mark?;
        Some(mark.min(self.column)..mark.max(self.column) + 1)
    }

    /// Shows only the marked time, or the thread or cpu of the cursor; the second time again all of them.
    fn choose(&mut self, subject: &Subject<'_>) -> Deed {
        let Some(timeline) = self.timeline(subject) else { return Deed::Nothing };
        if let Some(steps) = self.marked() {
            self.choice.span_ns = Some(timeline.time_of(steps));
            self.mark = None;
        } else {
            // The first line is that of all.
            let lane = self.lane.checked_sub(1).and_then(|lane| timeline.lanes.get(lane)).map(|one| one.lane);
            self.choice.lane = lane.filter(|_| self.choice.lane != lane);
        }
        Deed::Again
    }

    /// Takes the last choice back.
    fn choose_more(&mut self) -> Deed {
        if self.mark.take().is_some() {
            return Deed::Nothing;
        }
        if self.choice.lane.take().is_none() {
            self.choice.span_ns = None;
        }
        Deed::Again
    }

    fn invert(&mut self) {
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
        }
    }

    /// The names in the list of neighbours that has the cursor.
    fn list(&self, subject: &Subject<'_>) -> Vec<Option<(String, String)>> {
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
            Page::Time => {}
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

    fn deeper(&mut self, subject: &Subject<'_>) {
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
            Page::Code => {}
            Page::Time => self.column = moved(self.column, 1, self.steps),
        }
    }

    fn back(&mut self, subject: &Subject<'_>) {
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
            Page::Code => {}
            Page::Time => self.column = moved(self.column, -1, self.steps),
        }
    }

    fn back_out(&mut self, subject: &Subject<'_>) {
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
            Page::Code => self.page = Page::Functions,
            Page::Time => {}
        }
    }

    fn toggle(&mut self, subject: &Subject<'_>) {
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

    /// Goes to the next place that has the searched text, or stays at one that has it if `here`.
    fn find(&mut self, subject: &Subject<'_>, forwards: bool, here: bool) {
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
        }
    }

    fn open_above(&mut self, tree: &Tree, node: usize) {
        let mut at = node;
        while let Some(parent) = tree.nodes[at].parent {
            self.open.insert(tree.nodes[parent].id);
            at = parent;
        }
    }
}

/// The nodes whose functions have a text in their name.
fn fitting(tree: &Tree, subject: &Subject<'_>, search: &str) -> Vec<bool> {
    let name = |frame| crate::names::frame_name(subject.frames(), frame).0;
    tree.nodes.iter().map(|node| has(&name(node.frame), search)).collect()
}

fn moved(at: usize, by: isize, count: usize) -> usize {
    at.saturating_add_signed(by).min(count.saturating_sub(1))
}
