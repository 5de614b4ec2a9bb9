//! Views of a profile: pure functions of it, with the names of its functions. [`View`] has the entries of a report, their
//! texts and order, and makes call trees; beside it stand tables of several events, hierarchies of keys, differences of
//! two profiles, and the lines of a function.

mod contexts;
mod difference;
mod entries;
mod frames;
mod hierarchy;
mod hottest;
mod joined;
mod paths;
mod places;
mod rows;
mod sorted;
mod starts;
mod text;
mod tree;

pub use difference::{Changed, difference};
pub use entries::Entry;
pub use frames::{Frame, FrameId, Frames};
pub use hierarchy::{Hierarchy, Node};
pub use hottest::HotFunction;
pub use joined::{JoinedRow, join};
pub use places::{Neighbours, PlaceSum};
pub use rows::Order;
pub use starts::Least;
pub use tree::{Branch, Trees};

use crate::keys::Key;
use crate::profile::Profile;
use crate::tables::{ChainStart, EventSum, LocationId};
use contexts::ViewContexts;
use entries::Groups;
use paths::Paths;
use rows::Rows;
use std::fmt;
use std::sync::Arc;

/// Decides by the name of a function.
#[derive(Clone)]
pub struct NameTest(Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl NameTest {
    /// A test by this function.
    pub fn new(test: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        NameTest(Arc::new(test))
    }

    pub(crate) fn admits(&self, name: &str) -> bool {
        self.0(name)
    }
}

impl fmt::Debug for NameTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NameTest")
    }
}

/// Samples that are wanted, by where they were; an empty list admits all. Callers do not count.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Objects, with or without folders.
    pub objects: Vec<String>,
    /// Functions.
    pub symbols: Vec<String>,
    /// Only functions that have a name.
    pub has_name: bool,
    /// Only functions with this in their name.
    pub symbol_part: Option<String>,
}

impl Filter {
    /// Whether it does not matter where samples were.
    pub fn admits_all(&self) -> bool {
        self.objects.is_empty() && self.symbols.is_empty() && !self.has_name && self.symbol_part.is_none()
    }

    /// Leaves samples in other functions out of a profile, of which these are the frames. Its events keep the sums of all.
    pub fn apply(&self, profile: &mut Profile, frames: &Frames) {
        profile.retain(|profile, row| match profile.stack(row.stack).next() {
            Some(location) => self.admits(frames, frames.innermost(location)),
            None => self.admits_all(),
        });
    }

    fn admits(&self, frames: &Frames, id: FrameId) -> bool {
        let frame = frames.get(id);
        let is_object = |name: &String| {
            frame.object != 0
                && (name == frames.object(frame.object) || name == frames.short_object(frame.object))
        };
        let is_symbol = |symbol: &str| self.symbols.iter().any(|name| name == symbol);
        (!self.has_name || frame.symbol.is_some())
            && (self.objects.is_empty() || self.objects.iter().any(is_object))
            && (self.symbols.is_empty() || frame.symbol.as_deref().is_some_and(is_symbol))
            && self
                .symbol_part
                .as_ref()
                .is_none_or(|part| frame.symbol.as_deref().is_some_and(|name| name.contains(part)))
    }
}

/// How a profile is looked at.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ViewPlan {
    /// The keys that tell entries apart: those that stacks tell, and keys that the profile has.
    pub keys: Vec<Key>,
    /// From which end callchains are read, and whether callers have entries too.
    pub order: Order,
    /// The samples that are wanted.
    pub filter: Filter,
    /// The functions that are looked for among the callers, for [`Key::Parent`].
    pub parent: Option<NameTest>,
    /// Functions whose callees are taken for the functions themselves.
    pub ignore_callees: Option<NameTest>,
    /// Times with nine digits.
    pub ns: bool,
    /// Entries are where branches went to: those without a name are told as the process has them, and the filter is of
    /// where the samples were, which [`Key::SymbolIaddr`] tells.
    pub of_branches: bool,
    /// Whether entries tell their part of the latency too: each sample divided by the number of threads that ran. The profile needs
    /// [`Key::Parallelism`].
    pub latency: bool,
}

impl ViewPlan {
    /// All samples by these keys, each where it was.
    pub fn new(keys: &[Key]) -> Self {
        ViewPlan {
            keys: keys.to_vec(),
            order: Order::new(true, false),
            filter: Filter::default(),
            parent: None,
            ignore_callees: None,
            ns: false,
            of_branches: false,
            latency: false,
        }
    }

    /// The same with entries for callers, too.
    #[must_use]
    pub fn with_callers(mut self) -> Self {
        self.order.with_callees = true;
        self
    }
}

/// A view of one event of a profile: its entries, in no order.
#[derive(Debug)]
pub struct View<'p> {
    /// The profile.
    pub profile: &'p Profile,
    /// The frames of the profile.
    pub frames: &'p Frames,
    /// All samples of the event, also those that a filter leaves out.
    pub event: EventSum,
    /// The entries.
    pub entries: Vec<Entry>,
    event_index: usize,
    plan: ViewPlan,
    contexts: ViewContexts,
    rows: Rows,
    groups: Groups,
}

impl<'p> View<'p> {
    /// Makes the entries of an event. If callees count in the plan's order, callers have entries too; the frame that comes
    /// first in it decides what an address outside of all maps is taken for.
    pub fn new(profile: &'p Profile, frames: &'p Frames, event: usize, plan: &ViewPlan) -> Self {
        let mut contexts = ViewContexts::new(profile, frames, plan);
        let mut paths = paths(profile, frames, event, plan, &mut contexts);
        let rows = Rows::new(&paths, plan.order.caller_first);
        let latencies = plan.latency.then(|| {
            paths.weigh(|row| profile.latency_of(row));
            Rows::new(&paths, plan.order.caller_first)
        });
        drop(paths);
        let groups = Groups::new(frames, &plan.keys, rows.all_frames());
        let mut view = View {
            profile,
            frames,
            event: profile.event(event),
            entries: Vec::new(),
            event_index: event,
            plan: plan.clone(),
            contexts,
            rows,
            groups,
        };
        view.make_entries(latencies.as_ref());
        view
    }

    /// The latency of all samples of the event, in the units of [`Entry::latency`]; of those that are there if the profile does not
    /// tell of others.
    pub fn whole_latency(&self) -> u64 {
        let of_event = self.profile.samples().iter().filter(|row| row.event as usize == self.event_index);
        let of_rows = || of_event.fold(0u64, |sum, row| sum.saturating_add(self.profile.latency_of(row)));
        if self.event.latency > 0 { self.event.latency } else { of_rows() }
    }

    /// The plan that it was made by.
    pub fn plan(&self) -> &ViewPlan {
        &self.plan
    }
}

/// The stacks of an event as frames.
fn paths<'p>(
    profile: &'p Profile,
    frames: &'p Frames,
    event: usize,
    plan: &ViewPlan,
    contexts: &mut ViewContexts,
) -> Paths<'p> {
    let mut paths = Paths::new(profile, frames);
    if profile.event(event).samples == 0 {
        return paths;
    }
    for (number, row) in frames.rows_of(profile, event) {
        if row.samples == 0 {
            continue;
        }
        if !plan.filter.admits_all() {
            let leaf = contexts.source(profile, row, plan);
            if !plan.filter.admits(frames, frames.innermost(leaf)) {
                continue;
            }
        }
        let context = contexts.of(profile, frames, row);
        let mut stack = profile.stacks.get(row.stack);
        if let Some(test) = &plan.ignore_callees {
            let name = |frame: &FrameId| frames.get(*frame).symbol.as_deref();
            let is_end = |location: &LocationId| {
                frames.at(*location).iter().filter_map(name).any(|name| test.admits(name))
            };
            // The outermost of them is taken for where the sample was.
            if let Some(end) = stack.iter().position(is_end) {
                stack = &stack[..=end];
            }
        }
        let chain = stack.last().map_or(ChainStart::Here, |&leaf| profile.location(leaf).chain);
        let stack = (stack, profile.stacks.start(row.stack));
        paths.push((number, context), stack, chain, frames);
    }
    paths
}
