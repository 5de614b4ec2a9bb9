//! A table of symbols, sorted by address and kept small: 17 bytes a symbol and the names as they were in
//! the file. Built once from whatever knows symbols, then asked millions of times. Which of several names
//! of one address is shown follows what Linux perf shows.

use crate::demangle::{Signatures, demangle};
use crate::numbers::{put, put_bytes, take, take_bytes};
use std::borrow::Cow;
use std::fmt;

/// How many symbols a table takes at most, and how many bytes of names; more is refused. Fifteen times
/// what the largest programs have.
pub(crate) const MAX_SYMBOLS: usize = 1 << 24;
pub(crate) const MAX_STRINGS: u64 = 1 << 30;

/// Longer names are cut.
pub(crate) const MAX_NAME: usize = 64 << 10;

/// So much of a name is its beginning.
pub(crate) const BEGINNING: usize = 256;

/// How deep symbols within symbols are followed.
const MAX_DEPTH: usize = 64;

/// How widely a symbol is known; decides between several at one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SymbolBinding {
    /// A default that others may replace.
    Weak,
    /// Of one source file.
    Local,
    /// Of the whole program.
    Global,
}

/// The kind of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SymbolKind {
    /// A place in hand-written assembly, or something whose kind the file does not tell.
    Label,
    /// Data.
    Object,
    /// Code.
    Function,
}

/// A symbol of a table.
#[derive(Clone, Copy)]
pub struct Symbol<'a> {
    /// Tells it from all others of its [`Dso`](crate::Dso), and gets it back from there.
    pub id: SymbolId,
    /// Its first address, in the addresses of the file (for kernel and JIT code: of memory).
    pub start: u64,
    /// How many bytes it covers. Where the file does not say, up to the next symbol.
    pub size: u64,
    /// Its kind.
    pub kind: SymbolKind,
    /// The name is looked at only when it is wanted: it lies far away from all else.
    pub(crate) strings: &'a [u8],
    pub(crate) name: u32,
}

/// The identity of a symbol within its [`Dso`](crate::Dso) or table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SymbolId(pub u64);

impl<'a> Symbol<'a> {
    /// The name as it is in the file: mangled, and of any bytes.
    pub fn raw_name(&self) -> &'a [u8] {
        name_at(self.strings, self.name)
    }

    /// The name as it is in the file; bytes that are not UTF-8 replaced.
    pub fn name(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.raw_name())
    }

    /// The name as its author wrote it, without parameters, if it is a mangled Rust or C++ name, else as
    /// [`name`](Self::name). With parameters it is had from [`demangle`].
    pub fn demangled(&self) -> Cow<'a, str> {
        demangle(self.name(), Signatures::Short)
    }
}

impl PartialEq for Symbol<'_> {
    fn eq(&self, other: &Self) -> bool {
        let numbers = |symbol: &Self| (symbol.id, symbol.start, symbol.size);
        numbers(self) == numbers(other) && self.raw_name() == other.raw_name()
    }
}

impl Eq for Symbol<'_> {}

impl fmt::Debug for Symbol<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Symbol({:?} {:#x}+{:#x})", self.name(), self.start, self.size)
    }
}

/// A symbol and how far into it an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundSymbol<'a> {
    /// The symbol.
    pub symbol: Symbol<'a>,
    /// Bytes from its start.
    pub offset: u64,
}

/// Symbols sorted by address.
#[derive(Default)]
pub struct SymbolTable {
    starts: Vec<u64>,
    sizes: Vec<u32>,
    names: Vec<u32>,
    kinds: Vec<SymbolKind>,
    /// (a symbol, the one it lies within), for the few that lie within another.
    within: Vec<(u32, u32)>,
    strings: Vec<u8>,
    /// Names share their ends so that they are far longer together than all that the file has: of each there is only the beginning.
    are_shared: bool,
}

/// Whether names are together longer than four times what they are made of. No more than that is looked at.
fn are_shared(names: &[u32], strings: &[u8]) -> bool {
    let mut left = strings.len().saturating_mul(4);
    !names.iter().all(|&name| {
        let len = name_at(strings, name).len();
        let fits = len <= left;
        left = left.saturating_sub(len);
        fits
    })
}

impl SymbolTable {
    /// The innermost symbol that covers this address.
    #[inline]
    pub fn find(&self, address: u64) -> Option<FoundSymbol<'_>> {
        let mut index = self.starts.partition_point(|&start| start <= address).checked_sub(1)?;
        for _ in 0..=MAX_DEPTH {
            let offset = address - self.starts[index];
            if offset < u64::from(self.sizes[index]) {
                return Some(FoundSymbol { symbol: self.at(index), offset });
            }
            let place = self.within.binary_search_by_key(&(index as u32), |&(inner, _)| inner).ok()?;
            index = self.within[place].1 as usize;
        }
        None
    }

    /// The symbol with this number, counted by address.
    pub fn get(&self, index: usize) -> Option<Symbol<'_>> {
        (index < self.len()).then(|| self.at(index))
    }

    /// The texts in which the name at a place ends.
    fn strings_of(&self, name: u32) -> &[u8] {
        let end = (name as usize).saturating_add(BEGINNING);
        if self.are_shared { self.strings.get(..end).unwrap_or(&self.strings) } else { &self.strings }
    }

    fn at(&self, index: usize) -> Symbol<'_> {
        Symbol {
            id: SymbolId(index as u64),
            start: self.starts[index],
            size: u64::from(self.sizes[index]),
            kind: self.kinds[index],
            strings: self.strings_of(self.names[index]),
            name: self.names[index],
        }
    }

    /// The kind of the symbol with this number.
    pub fn kind(&self, index: usize) -> Option<SymbolKind> {
        self.kinds.get(index).copied()
    }

    /// All symbols by address.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Symbol<'_>> {
        (0..self.len()).map(|index| self.at(index))
    }

    /// How many symbols there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Apart, in tables of about so many symbols each: one that lies within another stays with it.
    pub(crate) fn split(&self, each: usize) -> Vec<SymbolTable> {
        let mut parts = Vec::new();
        let (mut from, mut within) = (0, &self.within[..]);
        while from < self.len() {
            let mut to = (from + each.max(1)).min(self.len());
            for &(inner, outer) in within {
                if (outer as usize) < to && inner as usize >= to {
                    to = inner as usize + 1;
                }
            }
            let (own, rest) = within.split_at(within.partition_point(|&(inner, _)| (inner as usize) < to));
            within = rest;
            let mut strings = Vec::new();
            let mut moved = |&name: &u32| {
                let place = strings.len() as u32;
                strings.extend_from_slice(name_at(self.strings_of(name), name));
                strings.push(0);
                place
            };
            let names = self.names[from..to].iter().map(&mut moved).collect();
            parts.push(SymbolTable {
                starts: self.starts[from..to].to_vec(),
                sizes: self.sizes[from..to].to_vec(),
                names,
                kinds: self.kinds[from..to].to_vec(),
                within: own
                    .iter()
                    .map(|&(inner, outer)| (inner - from as u32, outer - from as u32))
                    .collect(),
                strings,
                are_shared: false,
            });
            from = to;
        }
        parts
    }

    /// As bytes that [`decode`](Self::decode) reads.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put(out, self.len() as u64);
        self.starts.iter().for_each(|start| out.extend_from_slice(&start.to_le_bytes()));
        self.sizes.iter().chain(&self.names).for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        out.extend(self.kinds.iter().map(|kind| *kind as u8));
        put(out, self.within.len() as u64);
        for (inner, outer) in &self.within {
            out.extend_from_slice(&inner.to_le_bytes());
            out.extend_from_slice(&outer.to_le_bytes());
        }
        put_bytes(out, &self.strings);
    }

    /// Takes a table off the front of bytes; `None` where they are no table.
    pub(crate) fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let count = usize::try_from(take(bytes)?).ok().filter(|&count| count <= MAX_SYMBOLS)?;
        let mut part = |size: usize| {
            let (part, rest) = bytes.split_at_checked(size)?;
            *bytes = rest;
            Some(part)
        };
        let starts: Vec<u64> = part(count * 8)?
            .chunks_exact(8)
            .map(|bytes| bytes.try_into().map_or(0, u64::from_le_bytes))
            .collect();
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
        let sizes: Vec<u32> = part(count * 4)?.chunks_exact(4).map(number).collect();
        let names: Vec<u32> = part(count * 4)?.chunks_exact(4).map(number).collect();
        let kinds = part(count)?.iter().map(|&kind| match kind {
            0 => Some(SymbolKind::Label),
            1 => Some(SymbolKind::Object),
            2 => Some(SymbolKind::Function),
            _ => None,
        });
        let kinds = kinds.collect::<Option<Vec<_>>>()?;
        let nested = usize::try_from(take(bytes)?).ok().filter(|&nested| nested <= count)?;
        let (within, rest) = bytes.split_at_checked(nested * 8)?;
        *bytes = rest;
        let within: Vec<(u32, u32)> =
            within.chunks_exact(8).map(|pair| (number(&pair[..4]), number(&pair[4..]))).collect();
        let strings = take_bytes(bytes)?.to_vec();
        let is_sorted = starts.is_sorted() && within.is_sorted();
        // One that lies within another comes after it: so searches end.
        let is_nested = within.iter().all(|&(inner, outer)| outer < inner && (inner as usize) < count);
        let are_shared = are_shared(&names, &strings);
        (is_sorted && is_nested).then_some(SymbolTable {
            starts,
            sizes,
            names,
            kinds,
            within,
            strings,
            are_shared,
        })
    }

    /// The memory it takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.starts.capacity() * 8
            + (self.sizes.capacity() + self.names.capacity()) * 4
            + self.kinds.capacity()
            + self.within.capacity() * 8
            + self.strings.capacity()
    }
}

impl fmt::Debug for SymbolTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SymbolTable({} symbols)", self.len())
    }
}

/// The name at this place: up to the next NUL, or as much as a name may have.
pub(crate) fn name_at(strings: &[u8], offset: u32) -> &[u8] {
    name_within(strings, offset, MAX_NAME)
}

/// The same of so many bytes at most.
pub(crate) fn name_within(strings: &[u8], offset: u32, most: usize) -> &[u8] {
    let rest = strings.get(offset as usize..).unwrap_or(&[]);
    let rest = &rest[..rest.len().min(most)];
    rest.iter().position(|&byte| byte == 0).map_or(rest, |end| &rest[..end])
}

/// Whether the name at a place is this one, whose length is all that is looked at.
pub(crate) fn is_name(strings: &[u8], offset: u32, name: &[u8]) -> bool {
    let rest = strings.get(offset as usize..).unwrap_or(&[]);
    rest.strip_prefix(name).is_some_and(|rest| rest.first().is_none_or(|&byte| byte == 0))
}

/// There are more symbols, or longer names, than a table takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFull;

impl fmt::Display for TableFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {MAX_SYMBOLS} symbols, or {MAX_STRINGS} bytes of names")
    }
}

impl std::error::Error for TableFull {}

/// Collects symbols in any order and makes the table of them.
///
/// ```
/// use perfuse_symbols::{SymbolBinding, SymbolKind, TableBuilder};
///
/// let mut builder = TableBuilder::default();
/// builder.push(0x1000, 0x20, b"main", SymbolBinding::Global, SymbolKind::Function)?;
/// builder.push(0x1040, 0, b"no_size", SymbolBinding::Global, SymbolKind::Function)?;
/// let table = builder.finish(std::slice::from_ref(&(0x1000..0x1100)));
/// let found = table.find(0x1004).expect("main is there");
/// assert_eq!((&*found.symbol.name(), found.offset), ("main", 4));
/// assert_eq!(table.find(0x1030), None);
/// assert_eq!(table.find(0x10ff).expect("it ends where the code ends").symbol.raw_name(), b"no_size");
/// # Ok::<(), perfuse_symbols::TableFull>(())
/// ```
#[derive(Debug, Default)]
#[must_use = "a table comes from `build`"]
pub struct TableBuilder {
    /// All others are left out.
    pub(crate) is_of_locals: bool,
    raw: Vec<Raw>,
    strings: Vec<u8>,
    last_name: bool,
}

#[derive(Clone, Copy, Debug)]
struct Raw {
    start: u64,
    size: u32,
    name: u32,
    binding: SymbolBinding,
    kind: SymbolKind,
}

impl TableBuilder {
    /// Of several names of one address the last is taken, whatever it is: so it is with perf and the list
    /// of the kernel.
    pub(crate) fn with_last_names() -> Self {
        TableBuilder { last_name: true, ..Self::default() }
    }

    /// Adds a symbol. A size of 0 means that its end is not known.
    pub fn push(
        &mut self,
        start: u64,
        size: u64,
        name: &[u8],
        binding: SymbolBinding,
        kind: SymbolKind,
    ) -> Result<(), TableFull> {
        let name = &name[..name.len().min(MAX_NAME)];
        let place = self.push_string(name)?;
        self.push_named(start, size, place, binding, kind)
    }

    /// Adds a name and says where it is.
    pub(crate) fn push_string(&mut self, name: &[u8]) -> Result<u32, TableFull> {
        let place = self.strings.len();
        if (place + name.len()) as u64 >= MAX_STRINGS {
            return Err(TableFull);
        }
        self.strings.extend_from_slice(name);
        self.strings.push(0);
        Ok(place as u32)
    }

    /// Takes over a whole string table and says where in the builder's own it begins.
    pub(crate) fn push_strings(&mut self, strings: Vec<u8>) -> Result<u32, TableFull> {
        let place = self.strings.len();
        if (place + strings.len()) as u64 >= MAX_STRINGS {
            return Err(TableFull);
        }
        if place == 0 {
            self.strings = strings;
        } else {
            self.strings.extend_from_slice(&strings);
        }
        // So that what is pushed next does not go on from an unfinished name.
        self.strings.push(0);
        Ok(place as u32)
    }

    /// Adds a symbol whose name has been pushed.
    pub(crate) fn push_named(
        &mut self,
        start: u64,
        size: u64,
        name: u32,
        binding: SymbolBinding,
        kind: SymbolKind,
    ) -> Result<(), TableFull> {
        if self.raw.len() >= MAX_SYMBOLS {
            return Err(TableFull);
        }
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.raw.push(Raw { start, size, name, binding, kind });
        Ok(())
    }

    /// The first letters of the name at a place that a push has told.
    pub(crate) fn name_begins(&self, place: u32) -> &[u8] {
        name_within(&self.strings, place, 8)
    }

    /// Adds `shift` to the addresses of all symbols so far.
    pub(crate) fn shift(&mut self, shift: u64) {
        self.raw.iter_mut().for_each(|raw| raw.start = raw.start.wrapping_add(shift));
    }

    /// How many symbols have been pushed.
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// None has been pushed.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// Sorts, leaves one name to each address, and gives ends to symbols without a size: where the next
    /// one begins, and no further than the range of `areas` (code sections, for example) that they are in.
    pub fn finish(mut self, areas: &[std::ops::Range<u64>]) -> SymbolTable {
        let mut areas: Vec<_> = areas.iter().filter(|area| area.start < area.end).cloned().collect();
        areas.sort_unstable_by_key(|area| area.start);
        let mut raw = std::mem::take(&mut self.raw);
        raw.sort_unstable_by_key(|raw| (raw.start, raw.name));
        // Names that share their ends may together be far longer than all that the file has.
        let mut left = self.strings.len().saturating_mul(4);
        raw.dedup_by(|next, kept| {
            let same = next.start == kept.start;
            if same && (self.last_name || self.is_preferred(next, kept, &mut left)) {
                *kept = *next;
            }
            same
        });
        drop_inner_labels(&mut raw);
        close_open_ends(&mut raw, &areas);
        raw.retain(|raw| raw.size > 0);

        self.strings.shrink_to_fit();
        let names: Vec<u32> = raw.iter().map(|raw| raw.name).collect();
        SymbolTable {
            are_shared: are_shared(&names, &self.strings),
            starts: raw.iter().map(|raw| raw.start).collect(),
            sizes: raw.iter().map(|raw| raw.size).collect(),
            names,
            kinds: raw.iter().map(|raw| raw.kind).collect(),
            within: nesting(&raw),
            strings: self.strings,
        }
    }

    /// Of two symbols at one address: one that has a size, then the more widely known one (though weak is
    /// less than local), then the one with fewer underscores in front, then the longer name. perf
    /// prefers the same, as giving it programs with such symbols has shown. When names of `left` bytes were compared, of
    /// further ones only the beginning is.
    fn is_preferred(&self, one: &Raw, other: &Raw, left: &mut usize) -> bool {
        let facts = |raw: &Raw| (raw.size > 0, raw.binding);
        match facts(one).cmp(&facts(other)) {
            std::cmp::Ordering::Equal => {
                let mut name = |raw: &Raw| {
                    let name =
                        name_within(&self.strings, raw.name, if *left > 0 { MAX_NAME } else { BEGINNING });
                    *left = left.saturating_sub(name.len());
                    name
                };
                let (one, other) = (name(one), name(other));
                let underscores = |name: &[u8]| match name {
                    // Mangled names lose theirs when they are shown.
                    [b'_', b'Z' | b'R', ..] => 0,
                    _ => name.iter().take_while(|&&byte| byte == b'_').count(),
                };
                (underscores(other), one.len()) > (underscores(one), other.len())
            }
            order => order.is_gt(),
        }
    }
}

/// Labels without a size that lie within a symbol that has one are places in that function, not others.
fn drop_inner_labels(raw: &mut Vec<Raw>) {
    let mut covered_to = 0;
    raw.retain(|raw| {
        let inner = raw.size == 0 && raw.kind == SymbolKind::Label && raw.start < covered_to;
        covered_to = covered_to.max(raw.start.saturating_add(u64::from(raw.size)));
        !inner
    });
}

/// Gives symbols of size 0 an end.
fn close_open_ends(raw: &mut [Raw], areas: &[std::ops::Range<u64>]) {
    const PAGE: u64 = 4096;
    let mut covered_to = 0u64;
    for index in 0..raw.len() {
        let Raw { start, size, .. } = raw[index];
        if size > 0 {
            covered_to = covered_to.max(start.saturating_add(u64::from(size)));
            continue;
        }
        let next = raw.get(index + 1).map(|next| next.start);
        let area = areas[..areas.partition_point(|area| area.start <= start)].last();
        let area = area.map(|area| area.end).filter(|&end| end > start);
        let outer = (covered_to > start).then_some(covered_to);
        let end = [next, area, outer].into_iter().flatten().min();
        let end = end.unwrap_or_else(|| (start | (PAGE - 1)).saturating_add(1));
        raw[index].size = u32::try_from(end - start).unwrap_or(u32::MAX);
    }
}

/// Which symbols lie within which others.
fn nesting(raw: &[Raw]) -> Vec<(u32, u32)> {
    let mut within = Vec::new();
    // Those that may still go on at the current address, the innermost last.
    let mut open: Vec<(u64, u32)> = Vec::new();
    for (index, symbol) in raw.iter().enumerate() {
        while open.last().is_some_and(|&(end, _)| end <= symbol.start) {
            open.pop();
        }
        let end = symbol.start.saturating_add(u64::from(symbol.size));
        if let Some(&(_, outer)) = open.last() {
            within.push((index as u32, outer));
        }
        if open.len() == MAX_DEPTH {
            open.remove(0);
        }
        open.push((end, index as u32));
    }
    within
}

#[cfg(test)]
mod tests {
    use super::*;
    use SymbolBinding::{Global, Local, Weak};
    use SymbolKind::{Function, Label};
    use proptest::prelude::*;

    /// A thousand names of 64 KiB, all of them ends of one.
    #[test]
    fn names_that_share_their_ends_cost_what_the_file_has() {
        let mut builder = TableBuilder::default();
        let place = builder.push_strings([&[b'_'; 2 * MAX_NAME][..], b"\0"].concat()).expect("they fit");
        for number in 0..1000 {
            builder.push_named(0x1000, 8, place + number, Global, Function).expect("few symbols");
        }
        let mut left = builder.strings.len() * 4;
        let last = builder.raw[999];
        let compared = builder.raw.iter().filter(|raw| {
            builder.is_preferred(raw, &last, &mut left);
            left > 0
        });
        assert_eq!(compared.count(), 4, "two of 64 KiB each time");
        assert_eq!(builder.finish(&[]).len(), 1);
    }

    /// The same at places of their own: what is copied of all of them, and of their parts.
    #[test]
    fn names_that_share_their_ends_have_beginnings() {
        let shared = |count: u32| {
            let mut builder = TableBuilder::default();
            let place = builder.push_strings([&[b'x'; MAX_NAME][..], b"\0"].concat()).expect("they fit");
            for number in 0..count {
                builder
                    .push_named(u64::from(number) * 8, 8, place + number, Global, Function)
                    .expect("few symbols");
            }
            builder.finish(&[])
        };
        let table = shared(1000);
        let len = |table: &SymbolTable| table.iter().map(|symbol| symbol.raw_name().len()).sum::<usize>();
        assert_eq!(len(&table), 1000 * BEGINNING);
        let parts = table.split(100);
        assert_eq!(parts.iter().map(len).sum::<usize>(), 1000 * BEGINNING);
        let mut bytes = Vec::new();
        table.encode(&mut bytes);
        assert_eq!(len(&SymbolTable::decode(&mut &bytes[..]).expect("a table")), 1000 * BEGINNING);
        assert_eq!(len(&shared(3)), 3 * MAX_NAME - 3, "a few may");
    }

    #[test]
    fn a_search_goes_as_deep_as_symbols_nest() {
        const COUNT: u64 = 50_000;
        let mut builder = TableBuilder::default();
        for number in 0..COUNT {
            builder.push(number, 2 * (COUNT - number), b"deep", Global, Function).expect("few symbols");
        }
        let table = builder.finish(&[]);
        let start = |address| table.find(address).map(|found| found.symbol.start);
        assert_eq!(start(COUNT), Some(COUNT - 1));
        // Of what ends before an address, so many are looked at.
        let around = COUNT + MAX_DEPTH as u64;
        assert_eq!((start(around), start(around + 1)), (Some(COUNT - 1 - MAX_DEPTH as u64), None));
    }

    fn table(symbols: &[(u64, u64, &str, SymbolBinding, SymbolKind)]) -> SymbolTable {
        let mut builder = TableBuilder::default();
        for &(start, size, name, binding, kind) in symbols {
            builder.push(start, size, name.as_bytes(), binding, kind).expect("few symbols");
        }
        builder.finish(&[0x1000..0x2000, 0x8000..0x9000])
    }

    #[track_caller]
    fn assert_found(table: &SymbolTable, address: u64, expected: Option<(&str, u64)>) {
        let found = table.find(address).map(|found| (found.symbol.name().into_owned(), found.offset));
        assert_eq!(found.as_ref().map(|(name, offset)| (name.as_str(), *offset)), expected, "{address:#x}");
    }

    #[test]
    fn of_several_names_the_one_that_perf_shows() {
        type Names = &'static [(&'static str, u64, SymbolBinding)];
        let cases: [(Names, &str); 6] = [
            (
                &[
                    ("weak_and_longer", 8, Weak),
                    ("global", 8, Global),
                    ("local_and_longest_of_all", 8, Local),
                ],
                "global",
            ),
            (&[("weak", 8, Weak), ("loc", 8, Local)], "loc"),
            (&[("cc", 8, Global), ("__cc_long", 8, Global), ("cc_long", 8, Global)], "cc_long"),
            (&[("_ZN3foo3barEv", 8, Global), ("foo_bar", 8, Global)], "_ZN3foo3barEv"),
            (&[("without_size", 0, Global), ("dd", 8, Global)], "dd"),
            (&[("without_size", 0, Global), ("dd", 8, Weak)], "dd"),
        ];
        for (names, expected) in cases {
            let symbols: Vec<_> = names.iter().map(|&(n, size, b)| (0x1000, size, n, b, Function)).collect();
            let backwards: Vec<_> = symbols.iter().rev().copied().collect();
            assert_found(&table(&symbols), 0x1003, Some((expected, 3)));
            assert_found(&table(&backwards), 0x1003, Some((expected, 3)));
        }
    }

    #[test]
    fn gaps_belong_to_nobody() {
        let table = table(&[(0x1000, 0x10, "a", Global, Function), (0x1020, 0x10, "b", Global, Function)]);
        for (address, expected) in [
            (0xfff, None),
            (0x1000, Some(("a", 0))),
            (0x100f, Some(("a", 15))),
            (0x1010, None),
            (0x1020, Some(("b", 0))),
            (0x1030, None),
            (u64::MAX, None),
        ] {
            assert_found(&table, address, expected);
        }
    }

    #[test]
    fn a_symbol_without_size_ends_at_the_next_or_with_its_section() {
        let table = table(&[
            (0x1000, 0, "a", Global, Function),
            (0x1800, 0, "b", Global, Label),
            (0x5000, 0, "outside", Global, Function),
        ]);
        assert_found(&table, 0x17ff, Some(("a", 0x7ff)));
        assert_found(&table, 0x1fff, Some(("b", 0x7ff)));
        assert_found(&table, 0x2000, None);
        assert_found(&table, 0x5fff, Some(("outside", 0xfff)));
        assert_found(&table, 0x6000, None);
    }

    #[test]
    fn labels_in_a_function_are_the_function_but_functions_in_it_are_themselves() {
        let table = table(&[
            (0x1000, 0x100, "outer", Global, Function),
            (0x1010, 0, "label", Local, Label),
            (0x1020, 0x10, "inner", Local, Function),
            (0x1040, 0, "open_inner", Local, Function),
            (0x1200, 0x10, "next", Local, Function),
        ]);
        assert_found(&table, 0x1015, Some(("outer", 0x15)));
        assert_found(&table, 0x1025, Some(("inner", 5)));
        assert_found(&table, 0x1035, Some(("outer", 0x35)));
        assert_found(&table, 0x10ff, Some(("open_inner", 0xbf)));
        assert_found(&table, 0x1100, None);
    }

    #[test]
    fn deep_nesting_is_followed_only_so_far() {
        let symbols: Vec<_> = (0..1000).map(|i| (0x1000 + i, 4000 - 2 * i, "n", Global, Function)).collect();
        let table = table(&symbols);
        assert_found(&table, 0x1000 + 999, Some(("n", 0)));
        let _ = table.find(0x1000 + 3999);
    }

    #[test]
    fn a_table_at_the_end_of_the_address_space() {
        let table =
            table(&[(u64::MAX - 1, u64::MAX, "last", Global, Function), (u64::MAX, 0, "end", Global, Label)]);
        assert_found(&table, u64::MAX, Some(("last", 1)));
    }

    proptest! {
        /// The innermost symbol found is one that covers the address, and none that starts later does.
        #[test]
        fn what_is_found_covers_the_address(
            symbols in prop::collection::vec((0u64..200, 1u64..60), 0..40),
            address in 0u64..300,
        ) {
            let mut builder = TableBuilder::default();
            for &(start, size) in &symbols {
                builder.push(start, size, format!("{start}").as_bytes(), Global, Function).expect("few");
            }
            let table = builder.finish(&[]);
            let kept: Vec<_> = table.iter().map(|s| (s.start, s.size)).collect();
            let expected = kept.iter().rev().find(|&&(start, size)| start <= address && address < start + size);
            let found = table.find(address).map(|found| (found.symbol.start, found.symbol.size));
            prop_assert_eq!(found.as_ref(), expected);
        }
    }
}
