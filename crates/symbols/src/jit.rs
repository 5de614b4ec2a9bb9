//! Code that a running program made itself, as just-in-time compilers do: ranges of memory that have a
//! name from some time on, until other code is put there. [`CodeMap`] finds the name at an address and a
//! time; `perf_map` and `dump` read the two kinds of files that compilers tell about it in.

pub(crate) mod dump;
pub(crate) mod perf_map;
pub(crate) mod written;

use crate::table::{FoundSymbol, Symbol, SymbolId, SymbolKind, TableFull};
use std::fmt;

/// How many pieces of code are taken of one process, and how many bytes of names.
const MAX_CODE: usize = 1 << 22;
const MAX_STRINGS: usize = 1 << 28;

/// The name of a place that code was moved away from.
const GONE: u32 = u32::MAX;

/// Named ranges of memory, each valid from a time on.
///
/// A range hides those that came earlier where it covers them, as a later mapping hides an earlier one.
#[derive(Default)]
pub struct CodeMap {
    /// By time.
    codes: Vec<Code>,
    strings: Vec<u8>,
    /// The addresses where any code begins or ends, sorted. They cut memory into slots.
    edges: Vec<u64>,
    /// A tree over the slots, one node after the other; `items[first[node]..first[node + 1]]` are the
    /// codes that cover all slots below the node (and not all below its parent), by time.
    first: Vec<u32>,
    items: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Code {
    start: u64,
    end: u64,
    /// Nanoseconds, or whatever the file counts.
    from: u64,
    name: u32,
}

impl CodeMap {
    /// The code at this address at this time (`u64::MAX` for the last).
    pub fn find(&self, address: u64, time: u64) -> Option<FoundSymbol<'_>> {
        let slots = self.edges.len().checked_sub(1)?;
        let slot = self.edges.partition_point(|&edge| edge <= address).checked_sub(1)?;
        if slot >= slots {
            return None;
        }
        let mut newest = None;
        let mut node = slots + slot;
        while node > 0 {
            let items = &self.items[self.first[node] as usize..self.first[node + 1] as usize];
            let before = items.partition_point(|&item| self.codes[item as usize].from <= time);
            newest = newest.max(before.checked_sub(1).map(|last| items[last]));
            node /= 2;
        }
        let symbol = self.get(newest? as usize)?;
        Some(FoundSymbol { symbol, offset: address - symbol.start })
    }

    /// How much of the code is known at a time: where this is the same, so is what is found.
    pub fn known_at(&self, time: u64) -> usize {
        self.codes.partition_point(|code| code.from <= time)
    }

    /// The code with this number, counted by time.
    pub fn get(&self, index: usize) -> Option<Symbol<'_>> {
        let code = self.codes.get(index).filter(|code| code.name != GONE)?;
        Some(Symbol {
            id: SymbolId(index as u64),
            start: code.start,
            size: code.end - code.start,
            kind: SymbolKind::Function,
            strings: &self.strings,
            name: code.name,
        })
    }

    /// How many pieces of code there are, those that are gone included.
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }
}

impl fmt::Debug for CodeMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CodeMap({} pieces)", self.len())
    }
}

/// Collects code in the order of a file.
#[derive(Debug, Default)]
pub(crate) struct CodeMapBuilder {
    codes: Vec<Code>,
    strings: Vec<u8>,
}

impl CodeMapBuilder {
    pub(crate) fn push(&mut self, start: u64, size: u64, from: u64, name: &[u8]) -> Result<(), TableFull> {
        let place = self.strings.len();
        if place + name.len() >= MAX_STRINGS {
            return Err(TableFull);
        }
        self.strings.extend_from_slice(name);
        self.strings.push(0);
        self.push_code(start, size, from, place as u32)
    }

    /// The code with this name's place is at `to` from now on and no longer at `start`.
    fn push_move(&mut self, start: u64, size: u64, to: u64, from: u64, name: u32) -> Result<(), TableFull> {
        self.push_code(start, size, from, GONE)?;
        self.push_code(to, size, from, name)
    }

    fn push_code(&mut self, start: u64, size: u64, from: u64, name: u32) -> Result<(), TableFull> {
        if self.codes.len() >= MAX_CODE {
            return Err(TableFull);
        }
        let end = start.saturating_add(size);
        if end > start {
            self.codes.push(Code { start, end, from, name });
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> CodeMap {
        self.codes.sort_by_key(|code| code.from); // stable: the file's order decides among equals
        let mut edges: Vec<u64> = self.codes.iter().flat_map(|code| [code.start, code.end]).collect();
        edges.sort_unstable();
        edges.dedup();
        edges.shrink_to_fit();
        let slots = edges.len().saturating_sub(1);

        // Twice over the same walk: to count what each node gets, and to give it.
        let mut first = vec![0u32; 2 * slots + 1];
        let nodes_of = |code: &Code, visit: &mut dyn FnMut(usize)| {
            let slot = |edge| slots + edges.partition_point(|&other| other < edge);
            let (mut left, mut right) = (slot(code.start), slot(code.end));
            while left < right {
                if left & 1 == 1 {
                    visit(left);
                    left += 1;
                }
                if right & 1 == 1 {
                    right -= 1;
                    visit(right);
                }
                left /= 2;
                right /= 2;
            }
        };
        for code in &self.codes {
            nodes_of(code, &mut |node| first[node + 1] += 1);
        }
        for node in 1..first.len() {
            first[node] += first[node - 1];
        }
        let mut next = first.clone();
        let mut items = vec![0u32; first.last().map_or(0, |&count| count as usize)];
        for (index, code) in self.codes.iter().enumerate() {
            nodes_of(code, &mut |node| {
                items[next[node] as usize] = index as u32;
                next[node] += 1;
            });
        }
        self.strings.shrink_to_fit();
        CodeMap { codes: self.codes, strings: self.strings, edges, first, items }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn assert_found(map: &CodeMap, address: u64, time: u64, expected: Option<(&str, u64)>) {
        let found = map.find(address, time).map(|found| (found.symbol.name().into_owned(), found.offset));
        assert_eq!(found.as_ref().map(|(name, offset)| (name.as_str(), *offset)), expected);
    }

    #[test]
    fn later_code_hides_earlier_code_from_its_time_on() {
        let mut builder = CodeMapBuilder::default();
        builder.push(100, 100, 10, b"old").expect("room");
        builder.push(150, 100, 20, b"new").expect("room");
        let map = builder.finish();
        assert_eq!([9, 10, 19, 20, u64::MAX].map(|time| map.known_at(time)), [0, 1, 1, 2, 2]);
        assert_found(&map, 160, 9, None);
        assert_found(&map, 160, 10, Some(("old", 60)));
        assert_found(&map, 160, 20, Some(("new", 10)));
        assert_found(&map, 120, 99, Some(("old", 20)));
        assert_found(&map, 249, u64::MAX, Some(("new", 99)));
        assert_found(&map, 250, u64::MAX, None);
        assert_found(&map, 99, u64::MAX, None);
    }

    #[test]
    fn moved_code_is_found_at_its_new_place_only() {
        let mut builder = CodeMapBuilder::default();
        builder.push(100, 10, 1, b"f").expect("room");
        builder.push_move(100, 10, 500, 5, 0).expect("room");
        let map = builder.finish();
        assert_found(&map, 105, 4, Some(("f", 5)));
        assert_found(&map, 105, 5, None);
        assert_found(&map, 505, 4, None);
        assert_found(&map, 505, 5, Some(("f", 5)));
    }

    #[test]
    fn an_empty_map_and_one_at_the_end_of_memory() {
        assert_found(&CodeMapBuilder::default().finish(), 0, 0, None);
        let mut builder = CodeMapBuilder::default();
        builder.push(u64::MAX - 1, u64::MAX, 0, b"last").expect("room");
        builder.push(5, 0, 0, b"nothing").expect("room");
        let map = builder.finish();
        assert_found(&map, u64::MAX - 1, 0, Some(("last", 0)));
        assert_found(&map, 5, 0, None);
    }

    proptest! {
        #[test]
        fn as_a_search_through_all(
            codes in prop::collection::vec((0u64..60, 0u64..20, 0u64..10), 0..30),
            address in 0u64..90,
            time in 0u64..12,
        ) {
            let mut builder = CodeMapBuilder::default();
            for (index, &(start, size, from)) in codes.iter().enumerate() {
                builder.push(start, size, from, index.to_string().as_bytes()).expect("room");
            }
            let covering = codes.iter().enumerate().filter(|(_, (start, size, from))| {
                *start <= address && address < start + size && *from <= time
            });
            let expected = covering.max_by_key(|(index, (_, _, from))| (*from, *index));
            let map = builder.finish();
            let found = map.find(address, time).map(|found| found.symbol.name().into_owned());
            prop_assert_eq!(found, expected.map(|(index, _)| index.to_string()));
        }
    }
}
