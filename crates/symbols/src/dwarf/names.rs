//! Names of functions: those of their entries, or of the entries that these refer to.

use super::functions::{Origin, origin};
use super::units::{self, Units};
use super::{FileInfo, Slice};
use gimli::{DebugInfoOffset, Dwarf, Endianity, Unit, UnitOffset};

/// A function's code refers to its inlined original, which refers to its declaration in a class.
const MOST_REFERENCES: u8 = 16;

/// What names are found with: a unit, the file it is in, and the main file.
pub(super) struct Names<'n, 's, E: Endianity> {
    pub(super) info: &'n FileInfo,
    pub(super) units: &'n Units,
    pub(super) own: &'n Dwarf<Slice<'s, E>>,
    pub(super) dwarf: &'n Dwarf<Slice<'s, E>>,
    pub(super) unit: &'n Unit<Slice<'s, E>>,
    /// Whether the unit is in a file of its own.
    pub(super) is_split: bool,
}

impl<'s, E: Endianity> Names<'_, 's, E> {
    /// The name of a function.
    pub(super) fn of(&self, function: Origin) -> Option<String> {
        self.look(self.dwarf, self.unit, function, MOST_REFERENCES)
    }

    fn look(
        &self,
        dwarf: &Dwarf<Slice<'s, E>>,
        unit: &Unit<Slice<'s, E>>,
        function: Origin,
        references: u8,
    ) -> Option<String> {
        let references = references.checked_sub(1)?;
        match function {
            Origin::Unit(at) => self.entry(dwarf, unit, UnitOffset(at), references),
            Origin::Own(at) => {
                if let Some(at) = DebugInfoOffset(at).to_unit_offset(&unit.header) {
                    return self.entry(dwarf, unit, at, references);
                }
                if self.is_split {
                    return None; // each unit of such a file stands alone
                }
                let is_common = !std::ptr::eq(dwarf, self.own);
                let units = if is_common { self.common_units(dwarf) } else { self.units };
                self.elsewhere(dwarf, units, at, references)
            }
            Origin::Common(at) => {
                let common = dwarf.sup()?;
                self.elsewhere(common, self.common_units(common), at, references)
            }
        }
    }

    fn common_units(&self, common: &Dwarf<Slice<'s, E>>) -> &Units {
        self.info.common_units.get_or_init(|| Units::read(common, false))
    }

    /// The name of an entry of another unit.
    fn elsewhere(
        &self,
        dwarf: &Dwarf<Slice<'s, E>>,
        units: &Units,
        at: usize,
        references: u8,
    ) -> Option<String> {
        let header = dwarf.debug_info.header_from_offset(DebugInfoOffset(units.start_of(at)?)).ok()?;
        let abbreviations = match std::ptr::eq(dwarf, self.own) {
            true => self.info.abbreviations(dwarf, &header).ok()?,
            false => dwarf.abbreviations(&header).ok()?,
        };
        let unit = units::bare(dwarf, header, abbreviations).ok()?;
        let at = DebugInfoOffset(at).to_unit_offset(&unit.header)?;
        self.entry(dwarf, &unit, at, references)
    }

    fn entry(
        &self,
        dwarf: &Dwarf<Slice<'s, E>>,
        unit: &Unit<Slice<'s, E>>,
        at: UnitOffset,
        references: u8,
    ) -> Option<String> {
        let mut entries = unit.entries_raw(Some(at)).ok()?;
        let abbreviation = entries.read_abbreviation().ok()??;
        let (mut name, mut next) = (None, None);
        for &spec in abbreviation.attributes() {
            let attribute = entries.read_attribute(spec).ok()?;
            match attribute.name() {
                gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                    if let Ok(name) = dwarf.attr_string(unit, attribute.value()) {
                        return Some(name.to_string_lossy().into_owned());
                    }
                }
                gimli::DW_AT_name => name = dwarf.attr_string(unit, attribute.value()).ok(),
                gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                    next = origin(&attribute.value());
                }
                _ => {}
            }
        }
        // A declaration may have a linkage name where the definition has only a plain one.
        match name {
            Some(name) => Some(name.to_string_lossy().into_owned()),
            None => self.look(dwarf, unit, next?, references),
        }
    }
}
