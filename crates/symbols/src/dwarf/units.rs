//! The units of a file: which one has an address, and which one an entry is in.

use super::Slice;
use super::functions::Functions;
use crate::ranges::ranges_of;
use gimli::{
    Abbreviations, AttributeValue, DebugAbbrev, Dwarf, Endianity, Reader, Section, Unit, UnitHeader,
};
use std::sync::Arc;

/// More ranges of units than this are left out.
const MOST_RANGES: usize = 1 << 24;

/// Units by address and by place.
#[derive(Debug, Default)]
pub(super) struct Units {
    /// Where each begins in its section.
    starts: Vec<usize>,
    /// By address.
    ranges: Vec<UnitRange>,
}

#[derive(Clone, Copy, Debug)]
struct UnitRange {
    begin: u64,
    end: u64,
    /// The highest end of all ranges up to this one.
    highest: u64,
    unit: u32,
}

impl Units {
    /// Reads the headers of all units, and their addresses if wanted. What comes after a fault is left out.
    pub(super) fn read<E: Endianity>(dwarf: &Dwarf<Slice<'_, E>>, with_addresses: bool) -> Self {
        let mut units = Units::default();
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let Some(start) = header.offset().as_debug_info_offset() else { continue };
            let number = units.starts.len() as u32;
            units.starts.push(start.0);
            if with_addresses && units.ranges.len() < MOST_RANGES {
                // A unit that is broken has no addresses.
                let _ = units.add_ranges(dwarf, header, number);
            }
        }
        units.ranges.sort_unstable_by_key(|range| (range.begin, range.end, range.unit));
        let mut highest = 0;
        for range in &mut units.ranges {
            highest = range.end.max(highest);
            range.highest = highest;
        }
        units
    }

    fn add_ranges<'s, E: Endianity>(
        &mut self,
        dwarf: &Dwarf<Slice<'s, E>>,
        header: UnitHeader<Slice<'s, E>>,
        number: u32,
    ) -> gimli::Result<()> {
        let root = root(dwarf, header)?;
        let before = self.ranges.len();
        let mut entries = root.entries();
        let entry = entries.next_dfs()?.map(|(_, entry)| entry).ok_or(gimli::Error::MissingUnitDie)?;
        let mut ranges = ranges_of(dwarf, &root, entry)?;
        while let Some(range) = ranges.next()? {
            self.add(range.begin, range.end, number);
        }
        let is_code = |tag| tag == gimli::DW_TAG_compile_unit;
        let is_told = self.ranges.len() > before || root.low_pc != 0;
        if !is_told
            && root.abbreviations.get(1).is_some_and(|root| is_code(root.tag()) && root.has_children())
        {
            // Some compilers tell the addresses of functions alone.
            let abbreviations = dwarf.abbreviations(&header)?;
            let unit = bare(dwarf, header, abbreviations)?;
            for span in Functions::read(dwarf, &unit).spans() {
                self.add(span.begin, span.end, number);
            }
        }
        Ok(())
    }

    fn add(&mut self, begin: u64, end: u64, unit: u32) {
        // An address of 0 is that of code that the linker left out.
        if begin != 0 && begin < end && self.ranges.len() < MOST_RANGES {
            self.ranges.push(UnitRange { begin, end, highest: end, unit });
        }
    }

    /// Calls `each` with the units that have an address.
    pub(super) fn with(&self, address: u64, mut each: impl FnMut(u32)) {
        /// More units than this do not have code at the same address.
        const MOST: usize = 64;
        let after = self.ranges.partition_point(|range| range.begin <= address);
        let before = self.ranges[..after].iter().rev();
        for range in before.take_while(|range| range.highest > address).take(MOST) {
            if range.end > address {
                each(range.unit);
            }
        }
    }

    /// Where a unit begins.
    pub(super) fn start(&self, unit: u32) -> usize {
        self.starts[unit as usize]
    }

    /// Where the unit begins that has an entry.
    pub(super) fn start_of(&self, entry: usize) -> Option<usize> {
        let after = self.starts.partition_point(|&start| start <= entry);
        after.checked_sub(1).map(|at| self.starts[at])
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }
}

/// A unit of which the first entry can be read: only its abbreviation is, which most units have first in their table.
fn root<'s, E: Endianity>(
    dwarf: &Dwarf<Slice<'s, E>>,
    header: UnitHeader<Slice<'s, E>>,
) -> gimli::Result<Unit<Slice<'s, E>>> {
    let first = first_abbreviation(dwarf, &header)?;
    match bare(dwarf, header, Arc::new(first)) {
        Err(gimli::Error::UnknownAbbreviation(_)) => bare(dwarf, header, dwarf.abbreviations(&header)?),
        unit => unit,
    }
}

fn first_abbreviation<E: Endianity>(
    dwarf: &Dwarf<Slice<'_, E>>,
    header: &UnitHeader<Slice<'_, E>>,
) -> gimli::Result<Abbreviations> {
    let mut table = *dwarf.debug_abbrev.reader();
    table.skip(header.debug_abbrev_offset().0)?;
    let whole = table;
    let (_code, _tag, _children) = (table.read_uleb128()?, table.read_uleb128()?, table.read_u8()?);
    loop {
        let (name, form) = (table.read_uleb128()?, table.read_uleb128()?);
        if form == u64::from(gimli::DW_FORM_implicit_const.0) {
            table.read_sleb128()?;
        }
        if (name, form) == (0, 0) {
            break;
        }
    }
    let mut bytes = whole.slice()[..whole.len() - table.len()].to_vec();
    bytes.push(0);
    DebugAbbrev::new(&bytes, dwarf.debug_abbrev.reader().endian()).abbreviations(gimli::DebugAbbrevOffset(0))
}

/// A unit without its lines: [`Unit::new_with_abbreviations`] reads the names of all files too.
pub(super) fn bare<'s, E: Endianity>(
    dwarf: &Dwarf<Slice<'s, E>>,
    header: UnitHeader<Slice<'s, E>>,
    abbreviations: Arc<Abbreviations>,
) -> gimli::Result<Unit<Slice<'s, E>>> {
    let (encoding, kind) = (header.encoding(), dwarf.file_type);
    let mut unit = Unit {
        abbreviations,
        name: None,
        comp_dir: None,
        low_pc: 0,
        str_offsets_base: gimli::DebugStrOffsetsBase::default_for_encoding_and_file(encoding, kind),
        addr_base: gimli::DebugAddrBase(0),
        loclists_base: gimli::DebugLocListsBase::default_for_encoding_and_file(encoding, kind),
        rnglists_base: gimli::DebugRngListsBase::default_for_encoding_and_file(encoding, kind),
        line_program: None,
        dwo_id: match header.type_() {
            gimli::UnitType::Skeleton(id) | gimli::UnitType::SplitCompilation(id) => Some(id),
            _ => None,
        },
        header,
    };
    let (mut low, mut folder) = (None, None);
    let abbreviations = unit.abbreviations.clone();
    let mut entries = header.entries_raw(&abbreviations, None)?;
    let Some(abbreviation) = entries.read_abbreviation()? else { return Err(gimli::Error::MissingUnitDie) };
    for &spec in abbreviation.attributes() {
        let attribute = entries.read_attribute(spec)?;
        match (attribute.name(), attribute.value()) {
            (gimli::DW_AT_low_pc, value) => low = Some(value),
            (gimli::DW_AT_comp_dir, value) => folder = Some(value),
            (gimli::DW_AT_str_offsets_base, AttributeValue::DebugStrOffsetsBase(base)) => {
                unit.str_offsets_base = base;
            }
            (gimli::DW_AT_addr_base | gimli::DW_AT_GNU_addr_base, AttributeValue::DebugAddrBase(base)) => {
                unit.addr_base = base;
            }
            (
                gimli::DW_AT_rnglists_base | gimli::DW_AT_GNU_ranges_base,
                AttributeValue::DebugRngListsBase(base),
            ) => unit.rnglists_base = base,
            (gimli::DW_AT_GNU_dwo_id, AttributeValue::DwoId(id)) => unit.dwo_id = unit.dwo_id.or(Some(id)),
            _ => {}
        }
    }
    unit.comp_dir = folder.and_then(|folder| dwarf.attr_string(&unit, folder).ok());
    if let Some(low) = low.map(|low| dwarf.attr_address(&unit, low)).transpose()?.flatten() {
        unit.low_pc = low;
    }
    Ok(unit)
}
