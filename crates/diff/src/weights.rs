//! Weights by name: the plain form of a profile that differences are made of.

use perfuse_profile::{Key, View};
use std::collections::BTreeMap;

/// The weight of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weight {
    /// Occurrences of the event, which are ns where it is a clock.
    pub amount: f64,
    /// Samples.
    pub samples: u64,
}

/// The weights of all functions of a recording, or of a round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weights(BTreeMap<String, Weight>);

impl Weights {
    /// Adds to the weight of a name.
    pub fn add(&mut self, name: &str, weight: Weight) {
        let own = match self.0.get_mut(name) {
            Some(own) => own,
            None => self.0.entry(name.to_owned()).or_default(),
        };
        own.amount += weight.amount;
        own.samples += weight.samples;
    }

    /// The weight of a name; nothing for one that is not there.
    pub fn get(&self, name: &str) -> Weight {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The amount of all.
    pub fn whole(&self) -> f64 {
        self.0.values().map(|weight| weight.amount).sum()
    }

    /// The samples of all.
    pub fn samples(&self) -> u64 {
        self.0.values().map(|weight| weight.samples).sum()
    }
}

/// Numbers of samples, each an occurrence.
impl<const N: usize> From<[(&str, f64); N]> for Weights {
    fn from(list: [(&str, f64); N]) -> Self {
        list.map(|(name, amount)| (name, Weight { amount, samples: amount as u64 })).into()
    }
}

impl<const N: usize> From<[(&str, Weight); N]> for Weights {
    fn from(list: [(&str, Weight); N]) -> Self {
        let mut weights = Weights::default();
        list.into_iter().for_each(|(name, weight)| weights.add(name, weight));
        weights
    }
}

/// The weights of a view's entries by these keys, which it was made with. Code without a name is one entry of its object.
pub fn by_function(view: &View<'_>, keys: &[Key]) -> Weights {
    let mut weights = Weights::default();
    let mut name = String::new();
    for entry in &view.entries {
        let frame = view.frames.get(entry.frame);
        name.clear();
        for &key in keys {
            if !name.is_empty() {
                name.push(' ');
            }
            match key {
                Key::Symbol if frame.symbol.is_none() => {
                    name += "[unknown] in ";
                    name += view.frames.short_object(frame.object);
                }
                _ => view.write(&mut name, entry, key),
            }
        }
        weights.add(&name, Weight { amount: entry.self_weight as f64, samples: entry.self_samples });
    }
    weights
}
