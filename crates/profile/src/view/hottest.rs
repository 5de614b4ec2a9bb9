//! The question most asked about a recording, in one call: its hottest functions.

use super::{Frames, View, ViewPlan};
use crate::keys::{Column, Key};
use crate::names::Names;
use crate::profile::Profile;
use crate::source::Symbols;

/// A function with its part of an event.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HotFunction {
    /// Its name, or its address where it has none.
    pub name: String,
    /// The object that it is of, a path mostly.
    pub object: String,
    /// Its part of the event's weight, callees left out: 1 for all.
    pub share: f64,
    /// The samples in it.
    pub samples: u64,
}

impl Profile {
    /// The functions in which samples of an event were, the hottest first; none for an event that is not there. A [`View`]
    /// tells more, and in other orders.
    pub fn hottest(&self, event: usize, symbols: &dyn Symbols) -> Vec<HotFunction> {
        let frames = Frames::new(&Names::new(self, symbols), false);
        let view = View::new(self, &frames, event, &ViewPlan::new(&[Key::Dso, Key::Symbol]));
        let weight = view.event.weight.max(1) as f64;
        let sorted = view.sorted(&[Column::Own, Column::Key(Key::Symbol), Column::Key(Key::Dso)]);
        let function = |entry| HotFunction {
            name: view.text(entry, Key::Symbol),
            object: view.text(entry, Key::Dso),
            share: entry.self_weight as f64 / weight,
            samples: entry.self_samples,
        };
        sorted.into_iter().map(function).collect()
    }
}
