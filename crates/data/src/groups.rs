//! Which events of a recording are shown together.

use crate::feature::{Feature, FeatureId};
use crate::reader::PerfData;
use std::ops::Range;

/// Events of a recording that are shown together: a group, or an event alone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventGroup {
    /// The group's name in the recording; none for an event alone, and for events that were recorded apart.
    pub name: Option<String>,
    /// The number of the first event.
    pub first: usize,
    /// How many they are.
    pub count: usize,
    /// How many the whole group has, where this is a part of it.
    pub part_of: Option<usize>,
}

/// Which events are taken for groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// Each event by itself.
    Apart,
    /// As they were recorded.
    #[default]
    Recorded,
    /// Likewise, or all of them where none was recorded in a group.
    Together,
}

impl EventGroup {
    /// The groups of a recording in the order of their first events, so that each event is in one. One of more events than `most` is
    /// several: a recording can claim any number.
    pub fn of(data: &mut PerfData<'_>, grouping: Grouping, most: usize) -> Vec<EventGroup> {
        let events = data.events().len();
        let group = |name, first, count| EventGroup { name, first, count, part_of: None };
        let mut recorded: Vec<EventGroup> = Vec::new();
        if grouping != Grouping::Apart {
            let section = data.feature(FeatureId::GROUP_DESC).ok().flatten();
            if let Some(Feature::GroupDesc(list)) = section.map(|section| section.feature) {
                let named = |name: String| match name.as_str() {
                    "" | "{anon_group}" => "anon group".to_owned(),
                    _ => name,
                };
                recorded.extend(list.iter().map(|told| {
                    group(Some(named(told.name.to_string())), told.leader as usize, told.members as usize)
                }));
            }
            recorded.retain(|group| group.count > 1);
            if recorded.is_empty() && grouping == Grouping::Together && events > 1 {
                recorded.push(group(None, 0, events));
            }
        }
        // The first group counts that an event leads.
        recorded.sort_by_key(|group| group.first);
        recorded.dedup_by_key(|group| group.first);
        let (mut groups, mut next) = (Vec::new(), 0);
        while next < events {
            let found = recorded.binary_search_by_key(&next, |group| group.first).ok();
            let found = found.map(|at| &recorded[at]);
            let count = found.map_or(1, |group| group.count.min(events - next));
            let name = found.and_then(|group| group.name.clone());
            let (part_of, end) = ((count > most).then_some(count), next + count);
            while next < end {
                let count = most.clamp(1, end - next);
                groups.push(EventGroup { name: name.clone(), first: next, count, part_of });
                next += count;
            }
        }
        groups
    }

    /// The numbers of its events.
    pub fn members(&self) -> Range<usize> {
        self.first..self.first + self.count
    }
}
