//! A profile as the pages show it: an event's functions with their shares, their neighbours, and its call trees.

use crate::code::CodeOf;
use crate::names::frame_name;
use crate::time::Timeline;
use crate::tree::Tree;
use perfuse_export::Stacks;
use perfuse_profile::{
    Column, Entry, Filter, FrameId, Frames, Key, Least, Order, Profile, SampleRow, Trees, View, ViewPlan,
};
use perfuse_term::foreign::foreign;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// Branches below this share of all are left out of call trees.
const LEAST_SHARE: f64 = 0.0005;

/// A row of the table of functions.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Row {
    /// Occurrences of the event in it and in all that it called; the same as `own` without callchains.
    pub total: u64,
    /// Occurrences in it.
    pub own: u64,
    /// Samples in it.
    pub samples: u64,
    /// The texts of its keys, harmless on a terminal, in the order of [`Tables::keys`].
    pub texts: Vec<String>,
    entry: Entry,
}

/// What rows are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowOrder {
    /// The largest share with all that was called first.
    #[default]
    Total,
    /// The largest share of its own first.
    Own,
    /// The text of a key, by its place in [`Tables::keys`].
    Key(usize),
}

/// The keys that tell rows apart, and the order of rows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tables {
    /// The keys: those of stacks, and those that the profile has.
    pub keys: Vec<Key>,
    /// The order of rows.
    pub order: RowOrder,
    /// The other way round.
    pub is_reversed: bool,
    /// The samples that are wanted, by where they were.
    pub filter: Filter,
    /// Rows have at least so many percent of the event, with what they called.
    pub least_percent: f64,
    /// Whether tables for pipes tell the numbers of samples and of occurrences, too.
    pub numbers: [bool; 2],
}

impl Tables {
    /// Rows by these keys.
    pub fn new(keys: &[Key]) -> Self {
        Tables {
            keys: keys.to_vec(),
            order: RowOrder::default(),
            is_reversed: false,
            filter: Filter::default(),
            least_percent: 0.0,
            numbers: [false; 2],
        }
    }
}

impl Default for Tables {
    /// Functions and their objects.
    fn default() -> Self {
        Tables::new(&[Key::Dso, Key::Symbol])
    }
}

/// An event of a profile, to be looked at.
#[derive(Debug)]
pub struct Subject<'v> {
    profile: &'v Profile,
    /// That of which `profile` is a part.
    all: &'v Profile,
    frames: &'v Frames,
    event: usize,
    view: View<'v>,
    tables: Tables,
    rows: Vec<Row>,
    /// Rows by name and object.
    by_name: HashMap<(String, String), usize>,
    /// Of the row that was asked for last.
    neighbours: RefCell<Option<(usize, Rc<Sides>)>>,
    /// From the outermost caller on, and from where samples were.
    trees: [OnceCell<Tree>; 2],
    /// As it was asked for last.
    timeline: RefCell<Option<Rc<Timeline>>>,
}

impl<'v> Subject<'v> {
    /// An event of a profile, by its number, with the frames of functions.
    pub fn new(profile: &'v Profile, frames: &'v Frames, event: usize, tables: &Tables) -> Self {
        let mut plan = ViewPlan::new(&tables.keys);
        plan.filter = tables.filter.clone();
        // Neighbours are read from the outermost caller on.
        plan.order = Order::new(true, profile.event(event).chains > 0);
        let view = View::new(profile, frames, event, &plan);
        let mut columns = match tables.order == RowOrder::Own || profile.event(event).chains == 0 {
            true => vec![Column::Own, Column::Total],
            false => vec![Column::Total, Column::Own],
        };
        columns.extend(tables.keys.iter().map(|&key| Column::Key(key)));
        let row = |entry: &Entry| Row {
            total: entry.total_weight.max(entry.self_weight),
            own: entry.self_weight,
            samples: entry.self_samples,
            texts: tables.keys.iter().map(|&key| text(&view, entry, key)).collect(),
            entry: entry.clone(),
        };
        let least = tables.least_percent / 100.0 * view.event.weight as f64;
        let is_enough = |row: &Row| row.total as f64 >= least;
        let mut rows: Vec<Row> = view.sorted(&columns).into_iter().map(row).filter(is_enough).collect();
        if let RowOrder::Key(key) = tables.order {
            rows.sort_by(|one, other| one.texts.get(key).cmp(&other.texts.get(key)));
        }
        if tables.is_reversed {
            rows.reverse();
        }
        let mut by_name = HashMap::new();
        for (number, row) in rows.iter().enumerate() {
            by_name.entry(frame_name(frames, row.entry.frame)).or_insert(number);
        }
        let (tables, neighbours, trees) = (tables.clone(), RefCell::default(), Default::default());
        let (all, timeline) = (profile, RefCell::default());
        Subject { profile, all, frames, event, view, tables, rows, by_name, neighbours, trees, timeline }
    }

    /// The profile is [the part](crate::Choice::of) of this one that was chosen on the page of time, which shows all.
    #[must_use]
    pub fn part_of(self, all: &'v Profile) -> Self {
        Subject { all, ..self }
    }

    /// The name of the event, harmless on a terminal.
    pub fn event_name(&self) -> String {
        foreign(self.profile.event_name(self.event).as_ref()).into_owned()
    }

    /// All occurrences of the event: percentages are of them.
    pub fn whole(&self) -> u64 {
        self.view.event.weight
    }

    /// All samples of the event.
    pub fn samples(&self) -> u64 {
        self.view.event.samples
    }

    /// Whether samples have callchains.
    pub fn has_chains(&self) -> bool {
        self.view.event.chains > 0
    }

    /// The titles of the rows' texts.
    pub fn titles(&self) -> Vec<&'static str> {
        self.tables.keys.iter().map(|key| key.title().trim()).collect()
    }

    /// The keys of the rows' texts, and their order.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The rows, the largest first.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The value of a key for a row, as it is: not yet harmless on a terminal.
    pub fn value(&self, row: &Row, key: Key) -> String {
        let frame = self.frames.get(row.entry.frame);
        match (key, &frame.symbol) {
            (Key::Symbol, Some(name)) => name.to_string(),
            (Key::Symbol, None) => format!("{:#x}", frame.address),
            _ => self.view.text(&row.entry, key).trim().to_owned(),
        }
    }

    /// The name of a row's function and that of its object, harmless on a terminal.
    pub(crate) fn name(&self, row: usize) -> Option<(String, String)> {
        Some(frame_name(self.frames, self.rows.get(row)?.entry.frame))
    }

    /// The row of a function, by its name and that of its object.
    pub(crate) fn row_of(&self, name: &(String, String)) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The callers or callees of a row's function: names, and what came this way. Nothing for what begins or ends there.
    pub(crate) fn neighbours(&self, row: usize) -> Rc<Sides> {
        // They are looked for among all callchains.
        let mut last = self.neighbours.borrow_mut();
        match &*last {
            Some((of, neighbours)) if *of == row => Rc::clone(neighbours),
            _ => Rc::clone(&last.insert((row, Rc::new(self.find_neighbours(row)))).1),
        }
    }

    fn find_neighbours(&self, row: usize) -> Sides {
        let Some(row) = self.rows.get(row) else { return Default::default() };
        let found = self.view.neighbours(&row.entry);
        let named = |list: Vec<(Option<FrameId>, u64)>| {
            let named = list.into_iter().map(|(frame, weight)| {
                let name = frame.map(|frame| frame_name(self.frames, frame));
                Neighbour { name, weight }
            });
            named.collect()
        };
        [named(found.callers), named(found.callees)]
    }

    /// All callchains as a tree, from the outermost caller on or from where samples were.
    pub(crate) fn tree(&self, caller_first: bool) -> &Tree {
        self.trees[usize::from(!caller_first)].get_or_init(|| {
            let mut plan = ViewPlan::new(&[]);
            plan.filter = self.tables.filter.clone();
            plan.order = Order::new(caller_first, false);
            let view = View::new(self.profile, self.frames, self.event, &plan);
            let least = (self.whole() as f64 * LEAST_SHARE) as u64;
            let trees = Trees::new(&view, true, Least::Weight(least.max(1)));
            let branches: Vec<_> = view.entries.iter().flat_map(|entry| trees.of(entry).branches).collect();
            Tree::new(&branches, self.frames)
        })
    }

    /// When samples were, if the profile tells it.
    pub(crate) fn timeline(&self, steps: usize, is_cpu: bool) -> Option<Rc<Timeline>> {
        let mut last = self.timeline.borrow_mut();
        match &*last {
            Some(made) if made.steps == steps && made.is_cpu == is_cpu => Some(Rc::clone(made)),
            _ => {
                *last = Timeline::new(self.all, self.event, steps, is_cpu).map(Rc::new);
                last.clone()
            }
        }
    }

    /// The first and the last time of all samples.
    pub(crate) fn span_ns(&self) -> Option<(u64, u64)> {
        self.all.span_ns()
    }

    /// The function of a frame, to be seen from near; nothing for code without a name.
    pub(crate) fn code_of(&self, frame: FrameId) -> Option<CodeOf> {
        let of = self.frames.get(frame);
        let object = self.frames.object(of.object).to_owned();
        Some(CodeOf { event: self.event, function: of.symbol.as_deref()?.to_owned(), object })
    }

    /// The events with samples, by their numbers, with their names, harmless on a terminal, samples and occurrences.
    pub(crate) fn events(&self) -> Vec<(usize, String, u64, u64)> {
        let events = self.all.events().iter().enumerate().filter(|(_, event)| event.samples > 0);
        let named = |number| foreign(self.all.event_name(number).as_ref()).into_owned();
        events.map(|(number, event)| (number, named(number), event.samples, event.weight)).collect()
    }

    /// The number of the event in the profile.
    pub(crate) fn event(&self) -> usize {
        self.event
    }

    /// The thread in whose callchains a function comes with the most weight.
    pub(crate) fn thread_of(&self, frame: FrameId) -> Option<u32> {
        let of_event = |row: &&SampleRow| row.event as usize == self.event;
        let mut weights: HashMap<u32, u64> = HashMap::new();
        for row in self.profile.samples().iter().filter(of_event) {
            let Some((thread, _)) = self.profile.thread(row) else { continue };
            if self.profile.stack(row.stack).any(|location| self.frames.at(location).contains(&frame)) {
                *weights.entry(thread).or_default() += row.weight;
            }
        }
        weights
            .into_iter()
            .max_by_key(|&(thread, weight)| (weight, std::cmp::Reverse(thread)))
            .map(|(thread, _)| thread)
    }

    /// The callchains of the event.
    pub(crate) fn stacks(&self) -> Stacks {
        let of_event = self.profile.part(None, |row| row.event as usize == self.event);
        Stacks::of_frames(&of_event, self.frames, &[Key::Comm])
    }

    /// The path of a frame's object.
    pub(crate) fn object_of(&self, frame: FrameId) -> &str {
        self.frames.object(self.frames.get(frame).object)
    }

    /// The frame of a row.
    pub(crate) fn frame(&self, row: usize) -> Option<FrameId> {
        Some(self.rows.get(row)?.entry.frame)
    }

    pub(crate) fn frames(&self) -> &Frames {
        self.frames
    }
}

/// Callers and callees.
type Sides = [Vec<Neighbour>; 2];

/// A function that calls another, or that it calls.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Neighbour {
    pub(crate) name: Option<(String, String)>,
    pub(crate) weight: u64,
}

fn text(view: &View<'_>, entry: &Entry, key: Key) -> String {
    match key {
        Key::Symbol => frame_name(view.frames, entry.frame).0,
        Key::Dso => frame_name(view.frames, entry.frame).1,
        key => foreign(view.text(entry, key).trim()).into_owned(),
    }
}
