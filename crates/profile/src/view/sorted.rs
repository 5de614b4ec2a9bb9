//! In which order entries are shown. Each column becomes a number for each entry, of the same order, and the
//! numbers one key: names are compared once, not for every two entries.

use super::View;
use super::contexts::cache_line;
use super::entries::Entry;
use super::frames::FrameId;
use super::rows::Order;
use crate::hash::FastMap;
use crate::keys::{Column, Key};
use crate::tables::{NO_VALUE, value_parts};
use std::cmp::Ordering;

/// As many bits of the numbers of an entry as there is room for, the most significant number first.
type Bits = (u128, u128);

const ROOM: u32 = 256;

/// Entries by the numbers that were added.
struct Sorting<'s, 'e> {
    entries: &'s [&'e Entry],
    /// With the place of each entry.
    bits: Vec<(Bits, u32)>,
    left: u32,
    /// The numbers that there was no room for.
    rest: Vec<Vec<u64>>,
}

impl<'e> Sorting<'_, 'e> {
    /// Adds what decides, smallest first, where all that was added before is the same.
    fn by(&mut self, number: impl Fn(&Entry) -> u64) {
        self.by_numbers(self.entries.iter().map(|entry| number(entry)).collect());
    }

    fn by_numbers(&mut self, numbers: Vec<u64>) {
        let (Some(&least), Some(&most)) = (numbers.iter().min(), numbers.iter().max()) else { return };
        let width = u64::BITS - (most - least).leading_zeros();
        if width == 0 {
            return;
        }
        if width > self.left {
            self.left = 0;
            self.rest.push(numbers);
            return;
        }
        self.left -= width;
        for (((high, low), _), number) in self.bits.iter_mut().zip(numbers) {
            *high = *high << width | *low >> (u128::BITS - width);
            *low = *low << width | u128::from(number - least);
        }
    }

    /// Adds an order of names: `id` is the same only for entries of the same name.
    fn by_text(&mut self, id: impl Fn(&Entry) -> u64, text: impl Fn(&Entry) -> Option<String>) {
        self.by_ranks(id, text, |rank| rank);
    }

    /// Adds what is made of the places of names in their order.
    fn by_ranks(
        &mut self,
        id: impl Fn(&Entry) -> u64,
        text: impl Fn(&Entry) -> Option<String>,
        number: impl Fn(u64) -> u64,
    ) {
        let mut numbers: FastMap<u64, usize> = FastMap::default();
        let mut texts = Vec::new();
        let places: Vec<usize> = self
            .entries
            .iter()
            .map(|entry| {
                *numbers.entry(id(entry)).or_insert_with(|| {
                    texts.push(text(entry));
                    texts.len() - 1
                })
            })
            .collect();
        let mut order: Vec<&Option<String>> = texts.iter().collect();
        // Entries without a name come last.
        let key = |text: &Option<String>| text.is_none();
        order.sort_unstable_by(|one, other| key(one).cmp(&key(other)).then_with(|| one.cmp(other)));
        order.dedup();
        let rank = |text: &Option<String>| {
            order.partition_point(|one| key(one).cmp(&key(text)).then_with(|| (*one).cmp(text)).is_lt())
                as u64
        };
        let ranks: Vec<u64> = texts.iter().map(|text| number(rank(text))).collect();
        self.by_numbers(places.into_iter().map(|place| ranks[place]).collect());
    }

    /// The same with the last name first.
    fn by_text_backwards(&mut self, id: impl Fn(&Entry) -> u64, text: impl Fn(&Entry) -> Option<String>) {
        self.by_ranks(id, text, |rank| !rank);
    }

    fn finish(mut self) -> Vec<&'e Entry> {
        let rest = &self.rest;
        let compare_rest = |one: u32, other: u32| {
            let mut orders = rest.iter().map(|numbers| numbers[one as usize].cmp(&numbers[other as usize]));
            orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        };
        self.bits.sort_unstable_by(|(one, place), (other, other_place)| {
            one.cmp(other)
                .then_with(|| compare_rest(*place, *other_place))
                .then_with(|| place.cmp(other_place))
        });
        self.bits.iter().map(|&(_, place)| self.entries[place as usize]).collect()
    }
}

impl View<'_> {
    /// All entries in which samples were, or that called one, by columns in this order.
    pub fn sorted(&self, columns: &[Column]) -> Vec<&Entry> {
        let mut entries: Vec<&Entry> = self.entries.iter().collect();
        self.sort(&mut entries, columns, None);
        entries
    }

    /// Sorts entries by columns in this order: numbers with the largest first, keys with the smallest. With
    /// an order of call trees, callers of one thread stand above their callees.
    pub fn sort(&self, entries: &mut Vec<&Entry>, columns: &[Column], trees: Option<Order>) {
        if entries.len() < 2 {
            return;
        }
        let bits = (0..entries.len() as u32).map(|place| ((0, 0), place)).collect();
        let mut sorting = Sorting { entries, bits, left: ROOM, rest: Vec::new() };
        for &column in columns {
            match column {
                Column::Total => {
                    sorting.by(|entry| !entry.total_weight);
                    if let Some(order) = trees {
                        sorting.by(|entry| entry.thread().into());
                        sorting.by(|entry| match order.caller_first {
                            true => (!entry.depth).into(),
                            false => entry.reach.into(),
                        });
                    }
                }
                Column::Own | Column::Period => sorting.by(|entry| !entry.self_weight),
                Column::Latency => sorting.by(|entry| !entry.latency.0),
                Column::LatencyTotal => sorting.by(|entry| !entry.latency.1),
                Column::Samples => sorting.by(|entry| !entry.self_samples),
                Column::Key(key) => self.sort_by_key(&mut sorting, key),
                column => sorting.by(|entry| !entry.self_in(column)),
            }
        }
        // Entries that read the same are ordered by their places.
        if columns.iter().any(|column| column.key() == Some(Key::Symbol)) {
            let has_name = |entry: &Entry| self.frames.get(entry.frame).symbol.is_some();
            sorting.by_text(
                |entry| if has_name(entry) { u64::from(self.frames.get(entry.frame).object) + 1 } else { 0 },
                |entry| if has_name(entry) { self.object_name(entry) } else { None },
            );
            // The kernel's addresses come first: perf takes them for negative numbers.
            sorting.by(|entry| match has_name(entry) {
                true => self.frames.get(entry.frame).address,
                false => self.address(entry) ^ 1 << 63,
            });
            sorting.by(|entry| self.frames.get(entry.frame).size);
        }
        *entries = sorting.finish();
    }

    fn sort_by_key(&self, sorting: &mut Sorting<'_, '_>, key: Key) {
        match key {
            Key::Symbol => {
                let name = |entry: &Entry| self.frames.get(entry.frame).symbol.as_deref();
                sorting.by_numbers(self.name_ranks(sorting.entries, name));
            }
            Key::Dso => {
                let object = |entry: &Entry| u64::from(self.frames.get(entry.frame).object);
                sorting.by_text(object, |entry| self.object_name(entry));
            }
            Key::Comm | Key::Cgroup => {
                sorting.by_text(|entry| self.value(entry, key), |entry| Some(self.text(entry, key)));
            }
            // No processor is before the first.
            Key::Cpu | Key::Socket => sorting.by(|entry| self.value(entry, key).wrapping_add(1)),
            // Costs are sorted as shares are.
            Key::Weight | Key::LocalWeight | Key::InsLat | Key::LocalInsLat | Key::PStageCyc => {
                sorting.by(|entry| !self.value(entry, key));
            }
            Key::LocalPStageCyc | Key::Transaction | Key::Cycles => {
                sorting.by(|entry| !self.value(entry, key))
            }
            Key::Mispredict | Key::Abort | Key::InTx | Key::CgroupId => {
                sorting.by(|entry| self.value(entry, key));
            }
            Key::Locked | Key::Tlb | Key::Mem | Key::Snoop | Key::Blocked => {
                sorting.by(|entry| self.value(entry, key));
            }
            Key::Addr => sorting.by(|entry| self.frames.get(entry.frame).ip),
            Key::Given(_) => self.sort_by_given(sorting, key),
            Key::DsoFrom | Key::DsoTo | Key::DsoDaddr => {
                let value = |entry: &Entry| self.value(entry, key);
                sorting.by_text_backwards(value, |entry| Some(self.text(entry, key)));
            }
            Key::SymbolFrom | Key::SymbolTo | Key::AddrFrom | Key::AddrTo => {
                let location = |entry: &Entry| match self.value(entry, key) {
                    NO_VALUE => None,
                    value => Some(value_parts(value).0),
                };
                let has_name = |location| self.frames.exact(location).0.symbol.is_some();
                // Branches without a name come last, entries that are no branch before all.
                sorting.by(|entry| location(entry).map_or(0, |location| 1 + u64::from(!has_name(location))));
                sorting.by(|entry| {
                    location(entry).map_or(0, |location| match has_name(location) {
                        true => self.frames.exact(location).0.address,
                        false => self.profile.location(location).ip,
                    })
                });
            }
            Key::SymbolDaddr | Key::SymbolIaddr => {
                let location = |entry: &Entry| value_parts(self.value(entry, key)).0;
                sorting.by(|entry| self.profile.location(location(entry)).ip);
            }
            Key::Dcacheline => {
                let location = |entry: &Entry| value_parts(self.value(entry, key)).0;
                let object = |entry: &Entry| self.frames.exact(location(entry)).0.object;
                let is_user = |entry: &Entry| value_parts(self.value(entry, key)).1 != 'k';
                sorting.by(|entry| u64::from(is_user(entry)));
                sorting.by(|entry| u64::from(object(entry) == 0));
                sorting.by(|entry| self.frames.order(object(entry)).into());
                sorting.by(|entry| cache_line(self.frames, location(entry)));
            }
            _ if self.is_number(key) => sorting.by(|entry| self.number(entry, key).unwrap_or(0)),
            _ if key.is_place() || key == Key::Simd => {
                sorting.by_text(|entry| self.value(entry, key), |entry| Some(self.text(entry, key)));
            }
            _ => {
                let place = |entry: &Entry| u64::from(entry.frame.0) << 1 | u64::from(entry.is_leaf);
                sorting.by_text(place, |entry| Some(self.text(entry, key)));
            }
        }
    }

    /// Sorts by texts that were given, as those who gave them said.
    fn sort_by_given(&self, sorting: &mut Sorting<'_, '_>, key: Key) {
        let mut values: Vec<u64> = sorting.entries.iter().map(|entry| self.value(entry, key)).collect();
        values.sort_unstable();
        values.dedup();
        values.sort_by(|&one, &other| self.text_order(one).cmp(self.text_order(other)));
        // Lines come as they are read, fields with the largest first.
        let is_line = key == Key::TRACE;
        let ranks: FastMap<u64, u64> = values.into_iter().zip(0..).collect();
        let rank = |entry: &Entry| ranks.get(&self.value(entry, key)).copied().unwrap_or(0);
        sorting.by(|entry| if is_line { rank(entry) } else { !rank(entry) });
    }

    /// The name of the object an entry is in; what is in none comes last.
    fn object_name(&self, entry: &Entry) -> Option<String> {
        let object = self.frames.get(entry.frame).object;
        (object != 0).then(|| self.frames.short_object(object).to_owned())
    }

    /// The place of each entry's function among all their names. Entries without a name come last.
    fn name_ranks<'f>(&self, entries: &[&Entry], name: impl Fn(&Entry) -> Option<&'f str>) -> Vec<u64> {
        let mut named: Vec<(&str, FrameId)> =
            entries.iter().filter_map(|entry| Some((name(entry)?, entry.frame))).collect();
        named.sort_unstable_by_key(|&(_, frame)| frame);
        named.dedup_by_key(|&mut (_, frame)| frame);
        named.sort_unstable();
        let mut ranks = vec![u32::MAX; self.frames.len()];
        let (mut rank, mut last) = (0, None);
        for (name, frame) in named {
            if last.replace(name) != Some(name) {
                rank += 1;
            }
            ranks[frame.0 as usize] = rank;
        }
        entries.iter().map(|entry| ranks[entry.frame.0 as usize].into()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Frames, ViewPlan};
    use super::*;
    use crate::profile::Profile;

    #[test]
    fn what_there_is_no_room_for_decides_too() {
        let frames = Frames::numbered(4);
        let mut profile = Profile::numbered(4);
        (0..4).for_each(|frame| profile.add_stack(&[frame], 1));
        let view = View::new(&profile, &frames, 0, &ViewPlan::new(&[Key::Symbol]));
        let entries: Vec<&Entry> = view.entries.iter().collect();
        let bits = (0..4).map(|place| ((0, 0), place)).collect();
        let mut sorting = Sorting { entries: &entries, bits, left: ROOM, rest: Vec::new() };
        for _ in 0..4 {
            sorting.by(|entry| u64::from(entry.frame.0 / 2) * u64::MAX);
        }
        sorting.by(|entry| u64::from(!entry.frame.0));
        assert_eq!((sorting.left, sorting.rest.len()), (0, 1));
        let order: Vec<u32> = sorting.finish().iter().map(|entry| entry.frame.0).collect();
        assert_eq!(order, [1, 0, 3, 2]);
    }
}
