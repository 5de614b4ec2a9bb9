//! Names of functions, and the lines that they begin on: those of their entries, or of the entries that these refer to.

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

/// What an entry tells.
struct Entry<'s, E: Endianity> {
    linkage_name: Option<Slice<'s, E>>,
    name: Option<Slice<'s, E>>,
    line: Option<u32>,
}

impl<'s, E: Endianity> Names<'_, 's, E> {
    /// The name of a function.
    pub(super) fn of(&self, function: Origin) -> Option<String> {
        // A declaration may have a linkage name where the definition has only a plain one.
        let name = |entry: &Entry<'s, E>| {
            entry.linkage_name.or(entry.name).map(|name| name.to_string_lossy().into_owned())
        };
        self.look(self.dwarf, self.unit, function, MOST_REFERENCES, &name)
    }

    /// The line that a function is declared on.
    pub(super) fn line_of(&self, function: Origin) -> Option<u32> {
        self.look(self.dwarf, self.unit, function, MOST_REFERENCES, &|entry| entry.line)
    }

    fn look<T>(
        &self,
        dwarf: &Dwarf<Slice<'s, E>>,
        unit: &Unit<Slice<'s, E>>,
        function: Origin,
        references: u8,
        pick: &dyn Fn(&Entry<'s, E>) -> Option<T>,
    ) -> Option<T> {
        let references = references.checked_sub(1)?;
        match function {
            Origin::Unit(at) => self.entry(dwarf, unit, UnitOffset(at), references, pick),
            Origin::Own(at) => {
                if let Some(at) = DebugInfoOffset(at).to_unit_offset(&unit.header) {
                    return self.entry(dwarf, unit, at, references, pick);
                }
                if self.is_split {
                    return None; // each unit of such a file stands alone
                }
                let is_common = !std::ptr::eq(dwarf, self.own);
                let units = if is_common { self.common_units(dwarf) } else { self.units };
                self.elsewhere(dwarf, units, at, references, pick)
            }
            Origin::Common(at) => {
                let common = dwarf.sup()?;
                self.elsewhere(common, self.common_units(common), at, references, pick)
            }
        }
    }

    fn common_units(&self, common: &Dwarf<Slice<'s, E>>) -> &Units {
        self.info.common_units.get_or_init(|| Units::read(common, false))
    }

    /// The name of an entry of another unit.
    fn elsewhere<T>(
        &self,
        dwarf: &Dwarf<Slice<'s, E>>,
        units: &Units,
        at: usize,
        references: u8,
        pick: &dyn Fn(&Entry<'s, E>) -> Option<T>,
    ) -> Option<T> {
        let header = dwarf.debug_info.header_from_offset(DebugInfoOffset(units.start_of(at)?)).ok()?;
        let abbreviations = match std::ptr::eq(dwarf, self.own) {
            true => self.info.abbreviations(dwarf, &header).ok()?,
            false => dwarf.abbreviations(&header).ok()?,
        };
        let unit = units::bare(dwarf, header, abbreviations).ok()?;
        let at = DebugInfoOffset(at).to_unit_offset(&unit.header)?;
        self.entry(dwarf, &unit, at, references, pick)
    }

    fn entry<T>(
        &self,
        dwarf: &Dwarf<Slice<'s, E>>,
        unit: &Unit<Slice<'s, E>>,
        at: UnitOffset,
        references: u8,
        pick: &dyn Fn(&Entry<'s, E>) -> Option<T>,
    ) -> Option<T> {
        let mut entries = unit.entries_raw(Some(at)).ok()?;
        let abbreviation = entries.read_abbreviation().ok()??;
        let mut known = Entry { linkage_name: None, name: None, line: None };
        let mut next = None;
        for &spec in abbreviation.attributes() {
            let attribute = entries.read_attribute(spec).ok()?;
            match attribute.name() {
                gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                    known.linkage_name = dwarf.attr_string(unit, attribute.value()).ok();
                }
                gimli::DW_AT_name => known.name = dwarf.attr_string(unit, attribute.value()).ok(),
                gimli::DW_AT_decl_line => {
                    known.line = attribute.udata_value().and_then(|line| u32::try_from(line).ok());
                }
                gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                    next = origin(&attribute.value());
                }
                _ => {}
            }
        }
        match pick(&known) {
            Some(picked) => Some(picked),
            None => self.look(dwarf, unit, next?, references, pick),
        }
    }
}
