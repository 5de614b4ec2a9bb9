//! Several events in one table: an entry of some of them is one row.

use super::View;
use super::entries::Entry;
use crate::keys::Key;
use std::collections::HashMap;

/// The entries of some events that are alike in all keys.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JoinedRow<'v> {
    /// The first event that has one.
    pub member: usize,
    /// The entry of each event.
    pub entries: Vec<Option<&'v Entry>>,
    texts: Vec<String>,
}

impl<'v> JoinedRow<'v> {
    /// The row of one event that has this entry.
    pub fn alone(entry: &'v Entry) -> Self {
        JoinedRow { member: 0, entries: vec![Some(entry)], texts: Vec::new() }
    }

    /// The entry of the first event that has one.
    pub fn entry(&self) -> Option<&'v Entry> {
        self.entries[self.member]
    }

    /// By this rows are sorted: their shares, that of the chosen event first.
    fn rank(&self, by_total: bool, first: usize) -> Vec<u64> {
        let weight = |entry: &Option<&Entry>| {
            entry.map_or(0, |entry| if by_total { entry.total_weight } else { entry.self_weight })
        };
        let mut ranks: Vec<u64> = self.entries.iter().map(weight).collect();
        if first < ranks.len() {
            ranks[..=first].rotate_right(1);
        }
        ranks
    }
}

/// Joins entries of views of several events by these keys. The heaviest rows come first: by the share of the event
/// `first`, with what functions call if `by_total`, and then by those of the others.
pub fn join<'v>(
    views: &[(&View<'_>, &[&'v Entry])],
    keys: &[Key],
    by_total: bool,
    first: usize,
) -> Vec<JoinedRow<'v>> {
    let mut rows: Vec<JoinedRow<'v>> = Vec::new();
    let mut known: HashMap<(Vec<String>, u64), usize> = HashMap::new();
    for (member, (view, entries)) in views.iter().enumerate() {
        for &entry in *entries {
            // The level tells no functions apart: it may differ for an address outside of all maps.
            let text = |&key: &Key| match (key, view.text(entry, key)) {
                (Key::Symbol, text) => text.get(4..).unwrap_or_default().to_owned(),
                (_, text) => text,
            };
            let texts: Vec<String> = keys.iter().map(text).collect();
            let frame = view.frames.get(entry.frame);
            let place = if keys.contains(&Key::Symbol) { frame.address } else { 0 };
            let index = *known.entry((texts.clone(), place)).or_insert(rows.len());
            if index == rows.len() {
                rows.push(JoinedRow { member, entries: vec![None; views.len()], texts });
            }
            rows[index].entries[member] = Some(entry);
        }
    }
    rows.sort_by_cached_key(|row| {
        let ranks: Vec<u64> = row.rank(by_total, first).into_iter().map(|rank| !rank).collect();
        (ranks, row.texts.clone())
    });
    rows
}
