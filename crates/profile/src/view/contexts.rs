//! The values of a view's keys: those of the profile's contexts, as far as the view tells them apart. Values that read the
//! same are one.

use super::frames::Frames;
use super::{FrameId, ViewPlan};
use crate::hash::FastMap;
use crate::keys::Key;
use crate::profile::Profile;
use crate::tables::{Contexts, LocationId, NO_VALUE, SampleRow, location_value, value_parts};

/// Bytes of a cache line, of nearly all processors.
const LINE: u64 = 64;

/// Contexts of a view.
#[derive(Debug, Default)]
pub(crate) struct ViewContexts {
    /// The keys that have values.
    pub(crate) keys: Vec<Key>,
    pub(crate) contexts: Contexts,
    /// Of the profile's contexts, as far as they were met; nothing if the stack has a say.
    known: Vec<Option<u32>>,
    has_parent: bool,
    /// The first value with the same reading, by key, and what is read.
    alike: FastMap<(u32, u64, u64, u64), u64>,
    /// For each stack of the profile, the caller that the plan looks for.
    parents: Vec<u64>,
}

/// The address of the cache line that a location is in, as its object counts.
pub(crate) fn cache_line(frames: &Frames, location: LocationId) -> u64 {
    let (frame, offset) = frames.exact(location);
    frame.address.wrapping_add(offset) & !(LINE - 1)
}

impl ViewContexts {
    pub(crate) fn new(profile: &Profile, frames: &Frames, plan: &ViewPlan) -> Self {
        let mut contexts = ViewContexts {
            keys: plan.keys.iter().copied().filter(|key| !key.is_of_frame()).collect(),
            has_parent: plan.keys.contains(&Key::Parent),
            known: vec![None; profile.contexts.len() as usize],
            ..ViewContexts::default()
        };
        if contexts.has_parent {
            contexts.find_parents(profile, frames, plan);
        }
        contexts
    }

    /// The first frame of each stack whose function the plan's test admits, from the end at which callchains are read.
    fn find_parents(&mut self, profile: &Profile, frames: &Frames, plan: &ViewPlan) {
        let is_parent = |frame: &&FrameId| {
            let name = frames.get(**frame).symbol.as_deref();
            name.zip(plan.parent.as_ref()).is_some_and(|(name, test)| test.admits(name))
        };
        self.parents.extend(profile.stacks.iter().map(|stack| {
            let mut outwards = stack.iter().rev().flat_map(|&location| frames.at(location));
            let parent = match plan.order.caller_first {
                true => outwards.rfind(is_parent),
                false => outwards.find(is_parent),
            };
            parent.map_or(NO_VALUE, |frame| frame.0.into())
        }));
    }

    /// The location by which a filter judges a row.
    pub(crate) fn source(&self, profile: &Profile, row: &SampleRow, plan: &ViewPlan) -> LocationId {
        let told = profile.value(row.context, Key::SymbolIaddr).filter(|_| plan.of_branches);
        match told {
            Some(value) => value_parts(value).0,
            None => profile.stacks.leaf(row.stack),
        }
    }

    /// The context of a row.
    pub(crate) fn of(&mut self, profile: &Profile, frames: &Frames, row: &SampleRow) -> u32 {
        if let (Some(known), false) = (self.known[row.context as usize], self.has_parent) {
            return known;
        }
        let values: Vec<u64> = (0..self.keys.len())
            .map(|at| match self.keys[at] {
                Key::Parent => self.parents[row.stack.0 as usize],
                key => self.value(profile, frames, at, profile.value(row.context, key).unwrap_or(0)),
            })
            .collect();
        let context = self.contexts.id(&values);
        self.known[row.context as usize] = Some(context);
        context
    }

    /// The value that stands for all that read as this one does.
    fn value(&mut self, profile: &Profile, frames: &Frames, at: usize, value: u64) -> u64 {
        let key = self.keys[at];
        if !key.is_location() || value == NO_VALUE {
            return value;
        }
        let (location, letter) = value_parts(value);
        let frame = frames.exact(location).0;
        // Memory that belongs to no object is of a level of its own.
        let is_nowhere = key == Key::Dcacheline && frame.object == 0;
        let letter = if is_nowhere { 'X' } else { letter };
        let of_object = u64::from(frame.object) << 32 | u64::from(letter as u32);
        let reading = match key {
            Key::DsoFrom | Key::DsoTo | Key::DsoDaddr => (u64::from(frames.alias(frame.object)), 0, 0),
            Key::SrclineFrom | Key::SrclineTo if frame.line.is_some() => {
                let (file, line) = frame.line.unwrap_or_default();
                (1 << 63 | of_object, file.into(), line.into())
            }
            Key::SymbolFrom | Key::SymbolTo if frame.symbol.is_some() => {
                (of_object, frame.address, frame.size)
            }
            Key::Dcacheline => (of_object, cache_line(frames, location), 0),
            _ => (of_object, frame.address, profile.location(location).ip),
        };
        let first = location_value(location, letter);
        *self.alike.entry((at as u32, reading.0, reading.1, reading.2)).or_insert(first)
    }

    pub(crate) fn values(&self, context: u32) -> &[u64] {
        self.contexts.get(context, self.keys.len())
    }
}
