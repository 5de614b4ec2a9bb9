//! The functions of a unit by address, and the functions that were inlined into one.

use super::Slice;
use gimli::{AttributeValue, Dwarf, Endianity, EntriesRaw, Unit, UnitOffset};
use std::sync::OnceLock;

/// More stretches of functions of a unit, and of inlined functions of a function, than this are left out.
const MOST_SPANS: usize = 1 << 21;
/// Inlined functions are no deeper in each other.
const MOST_DEPTH: usize = 512;
/// So many stretches before an address are looked at: functions do not overlap, but files may say so.
const MOST_OVERLAPS: usize = 8;

/// Where a function's name is: an entry of this unit, of this file, or of the file that it shares information with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Unit(usize),
    Own(usize),
    Common(usize),
}

impl Origin {
    /// The same by its place in the section, where that is known.
    pub(super) fn settled<E: Endianity>(self, unit: &Unit<Slice<'_, E>>) -> Self {
        match self {
            Origin::Unit(at) => {
                let at = UnitOffset(at).to_debug_info_offset(&unit.header);
                at.map_or(self, |at| Origin::Own(at.0))
            }
            other => other,
        }
    }

    /// A number that only this function has; `split` is the number of its unit, if that is in a file of its own.
    pub(super) fn number(self, split: Option<u32>) -> u64 {
        let unit = split.map_or(0, |unit| 1 << 61 | u64::from(unit) << 40);
        match self {
            Origin::Unit(at) | Origin::Own(at) => 1 << 63 | unit | at as u64,
            Origin::Common(at) => 3 << 62 | at as u64,
        }
    }
}

/// A stretch of a function's code.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) begin: u64,
    pub(super) end: u64,
    /// Where its entry is in the unit.
    pub(super) entry: usize,
    /// The place of the function in the list.
    function: u32,
}

/// The functions of a unit.
#[derive(Debug, Default)]
pub(super) struct Functions {
    spans: Vec<Span>,
    inlined: Vec<OnceLock<Inlined>>,
}

impl Functions {
    /// Those of a unit, as far as it can be read.
    pub(super) fn read<E: Endianity>(dwarf: &Dwarf<Slice<'_, E>>, unit: &Unit<Slice<'_, E>>) -> Self {
        let mut functions = Functions::default();
        let _ = functions.fill(dwarf, unit);
        functions.spans.sort_unstable_by_key(|span| (span.begin, span.end, span.entry));
        functions
    }

    fn fill<E: Endianity>(
        &mut self,
        dwarf: &Dwarf<Slice<'_, E>>,
        unit: &Unit<Slice<'_, E>>,
    ) -> gimli::Result<()> {
        let mut entries = unit.entries_raw(None)?;
        while !entries.is_empty() && self.spans.len() < MOST_SPANS {
            let entry = entries.next_offset().0;
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            if abbreviation.tag() != gimli::DW_TAG_subprogram {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let code = Code::read(dwarf, unit, &mut entries, abbreviation, |_, _| {})?;
            let (function, before) = (self.inlined.len() as u32, self.spans.len());
            code.each(dwarf, unit, |begin, end| self.spans.push(Span { begin, end, entry, function }))?;
            if self.spans.len() > before {
                self.inlined.push(OnceLock::new());
            }
        }
        Ok(())
    }

    pub(super) fn spans(&self) -> impl Iterator<Item = Span> + '_ {
        self.spans.iter().copied()
    }

    pub(super) fn find(&self, address: u64) -> Option<Span> {
        let after = self.spans.partition_point(|span| span.begin <= address);
        self.spans[..after].iter().rev().take(MOST_OVERLAPS).find(|span| address < span.end).copied()
    }

    /// What was inlined into a function, read when it is wanted first.
    pub(super) fn inlined(&self, function: Span, read: impl FnOnce() -> Inlined) -> &Inlined {
        self.inlined[function.function as usize].get_or_init(read)
    }

    pub(super) fn bytes(&self) -> usize {
        self.spans.len() * size_of::<Span>() + self.inlined.len() * size_of::<OnceLock<Inlined>>()
    }
}

/// A function that was inlined, and the line of the call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) origin: Origin,
    /// The number of the file; the highest number is none.
    pub(super) file: u32,
    pub(super) line: u32,
    pub(super) column: u32,
    /// What tells calls on one line apart.
    pub(super) discriminator: u32,
}

/// A stretch of an inlined function.
#[derive(Clone, Copy, Debug)]
struct PartSpan {
    depth: u32,
    part: u32,
    begin: u64,
    end: u64,
}

/// The functions that were inlined into one.
#[derive(Debug, Default)]
pub(super) struct Inlined {
    parts: Vec<Part>,
    /// By depth, then by address.
    spans: Vec<PartSpan>,
}

impl Inlined {
    /// Those below a function's entry.
    pub(super) fn read<E: Endianity>(
        dwarf: &Dwarf<Slice<'_, E>>,
        unit: &Unit<Slice<'_, E>>,
        entry: usize,
    ) -> gimli::Result<Self> {
        let mut inlined = Inlined::default();
        let read = inlined.fill(dwarf, unit, entry);
        inlined.spans.sort_unstable_by_key(|span| (span.depth, span.begin, span.end));
        read.map(|()| inlined)
    }

    fn fill<E: Endianity>(
        &mut self,
        dwarf: &Dwarf<Slice<'_, E>>,
        unit: &Unit<Slice<'_, E>>,
        entry: usize,
    ) -> gimli::Result<()> {
        let mut entries = unit.entries_raw(Some(UnitOffset(entry)))?;
        let top = entries.next_depth();
        if let Some(abbreviation) = entries.read_abbreviation()? {
            entries.skip_attributes(abbreviation.attributes())?;
        }
        // The depths of the entries above that are inlined functions.
        let mut above: Vec<isize> = Vec::new();
        // Below other functions nothing is this one's.
        let mut other = None;
        while !entries.is_empty() && self.spans.len() < MOST_SPANS {
            let depth = entries.next_depth();
            if depth <= top {
                break;
            }
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            if other.is_some_and(|other| depth > other) {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            other = None;
            while above.last().is_some_and(|&last| last >= depth) {
                above.pop();
            }
            match abbreviation.tag() {
                gimli::DW_TAG_inlined_subroutine if above.len() < MOST_DEPTH => {
                    self.part(dwarf, unit, &mut entries, abbreviation, above.len() as u32)?;
                    above.push(depth);
                }
                tag => {
                    entries.skip_attributes(abbreviation.attributes())?;
                    other = (tag == gimli::DW_TAG_subprogram).then_some(depth);
                }
            }
        }
        Ok(())
    }

    fn part<'s, E: Endianity>(
        &mut self,
        dwarf: &Dwarf<Slice<'s, E>>,
        unit: &Unit<Slice<'s, E>>,
        entries: &mut EntriesRaw<'_, '_, Slice<'s, E>>,
        abbreviation: &gimli::Abbreviation,
        depth: u32,
    ) -> gimli::Result<()> {
        let mut part = Part { origin: Origin::Unit(0), file: u32::MAX, line: 0, column: 0, discriminator: 0 };
        // Files are counted from 0 since version 5.
        let first = if unit.header.version() >= 5 { 0 } else { 1 };
        let number = |value: AttributeValue<_>| match value {
            AttributeValue::FileIndex(index) => index,
            value => value.udata_value().unwrap_or(0),
        };
        let code = Code::read(dwarf, unit, entries, abbreviation, |name, value| match name {
            gimli::DW_AT_abstract_origin => {
                part.origin = origin(&value).unwrap_or(part.origin).settled(unit);
            }
            gimli::DW_AT_call_file => {
                let file = number(value);
                part.file = if file >= first { u32::try_from(file).unwrap_or(u32::MAX) } else { u32::MAX };
            }
            gimli::DW_AT_call_line => part.line = u32::try_from(number(value)).unwrap_or(0),
            gimli::DW_AT_call_column => part.column = u32::try_from(number(value)).unwrap_or(0),
            gimli::DW_AT_GNU_discriminator => part.discriminator = u32::try_from(number(value)).unwrap_or(0),
            _ => {}
        })?;
        let number = self.parts.len() as u32;
        self.parts.push(part);
        let spans = &mut self.spans;
        code.each(dwarf, unit, |begin, end| {
            if spans.len() < MOST_SPANS {
                spans.push(PartSpan { depth, part: number, begin, end });
            }
        })
    }

    /// Those at an address, the outermost first.
    pub(super) fn at(&self, address: u64) -> Vec<&Part> {
        let mut parts = Vec::new();
        let mut rest = &self.spans[..];
        loop {
            let depth = parts.len() as u32;
            let after = rest.partition_point(|span| (span.depth, span.begin) <= (depth, address));
            let found = rest[..after].last().filter(|span| span.depth == depth && address < span.end);
            let Some(span) = found else { return parts };
            parts.push(&self.parts[span.part as usize]);
            rest = &rest[after..];
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.spans.len() * size_of::<PartSpan>() + self.parts.len() * size_of::<Part>()
    }
}

/// The entry that an attribute refers to.
pub(super) fn origin<E: Endianity>(value: &AttributeValue<Slice<'_, E>>) -> Option<Origin> {
    match value {
        AttributeValue::UnitRef(at) => Some(Origin::Unit(at.0)),
        AttributeValue::DebugInfoRef(at) => Some(Origin::Own(at.0)),
        AttributeValue::DebugInfoRefSup(at) => Some(Origin::Common(at.0)),
        _ => None,
    }
}

/// The attributes that tell where code is.
struct Code<'s, E: Endianity> {
    low: Option<u64>,
    high: Option<u64>,
    size: Option<u64>,
    ranges: Option<AttributeValue<Slice<'s, E>>>,
}

impl<'s, E: Endianity> Code<'s, E> {
    /// Reads all attributes of an entry, and hands over the others.
    #[inline]
    fn read(
        dwarf: &Dwarf<Slice<'s, E>>,
        unit: &Unit<Slice<'s, E>>,
        entries: &mut EntriesRaw<'_, '_, Slice<'s, E>>,
        abbreviation: &gimli::Abbreviation,
        mut other: impl FnMut(gimli::DwAt, AttributeValue<Slice<'s, E>>),
    ) -> gimli::Result<Self> {
        let mut code = Code { low: None, high: None, size: None, ranges: None };
        for &spec in abbreviation.attributes() {
            let attribute = entries.read_attribute(spec)?;
            match attribute.name() {
                gimli::DW_AT_low_pc => code.low = dwarf.attr_address(unit, attribute.value())?,
                gimli::DW_AT_high_pc => match attribute.value() {
                    AttributeValue::Udata(size) => code.size = Some(size),
                    value => code.high = dwarf.attr_address(unit, value)?,
                },
                gimli::DW_AT_ranges => code.ranges = Some(attribute.value()),
                name => other(name, attribute.value()),
            }
        }
        Ok(code)
    }

    /// Calls `each` with the stretches of the code.
    #[inline]
    fn each(
        self,
        dwarf: &Dwarf<Slice<'s, E>>,
        unit: &Unit<Slice<'s, E>>,
        mut each: impl FnMut(u64, u64),
    ) -> gimli::Result<()> {
        // An address of 0 is that of code that the linker left out.
        let mut add = |begin: u64, end: u64| {
            if begin != 0 && begin < end {
                each(begin, end);
            }
        };
        if let Some(ranges) = self.ranges {
            let Some(mut ranges) = dwarf.attr_ranges(unit, ranges)? else { return Ok(()) };
            // Lists can be shared by many entries, so each is short.
            for _ in 0..1 << 14 {
                let Some(range) = ranges.next()? else { break };
                add(range.begin, range.end);
            }
        } else if let Some(low) = self.low {
            let end = self.high.or(self.size.and_then(|size| low.checked_add(size)));
            add(low, end.unwrap_or(low));
        }
        Ok(())
    }
}
