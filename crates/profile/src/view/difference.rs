//! Two views compared, entry by entry. They may be of profiles that share nothing: entries are the same if their keys
//! read the same.

use super::View;
use super::entries::Entry;
use crate::keys::Key;
use std::collections::BTreeMap;

/// An entry before and after.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Changed {
    /// The texts of the keys.
    pub texts: Vec<String>,
    /// Occurrences of the event in it, before and after.
    pub self_weights: [u64; 2],
    /// Occurrences in it and in all it called, before and after; zero where callers have no entries.
    pub total_weights: [u64; 2],
    /// Samples in it, before and after.
    pub self_samples: [u64; 2],
    /// Its own share of all occurrences, before and after, from 0 to 1.
    pub shares: [f64; 2],
}

impl Changed {
    /// How much its share has grown, from -1 to 1.
    pub fn growth(&self) -> f64 {
        self.shares[1] - self.shares[0]
    }
}

/// The entries of two views by these keys; those whose own share has changed most come first.
pub fn difference(before: &View<'_>, after: &View<'_>, keys: &[Key]) -> Vec<Changed> {
    let mut all: BTreeMap<Vec<String>, [Entry; 2]> = BTreeMap::new();
    for (side, view) in [before, after].into_iter().enumerate() {
        for entry in &view.entries {
            let texts = keys.iter().map(|&key| view.text(entry, key)).collect();
            all.entry(texts).or_default()[side].add(entry);
        }
    }
    let wholes = [before, after].map(|view| view.event.weight.max(1) as f64);
    let changed = |(texts, [old, new]): (Vec<String>, [Entry; 2])| Changed {
        texts,
        self_weights: [old.self_weight, new.self_weight],
        total_weights: [old.total_weight, new.total_weight],
        self_samples: [old.self_samples, new.self_samples],
        shares: [old.self_weight as f64 / wholes[0], new.self_weight as f64 / wholes[1]],
    };
    let mut list: Vec<Changed> = all.into_iter().map(changed).collect();
    // Where growths are the same, the order of the texts stays.
    list.sort_by(|one, other| other.growth().abs().total_cmp(&one.growth().abs()));
    list
}
