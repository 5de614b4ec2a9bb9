//! From an address to source lines: the function, the functions that were inlined into it there, and the file, line and
//! column of each, from DWARF 2 to 5. [`FileInfo`] answers for one file.
//!
//! Which unit has an address is in `units`; its functions are in `functions`, its lines in `rows`; units that are kept in files
//! of their own in `split`; bytes of sections in `sections`; names in `names`. What was read of a unit is kept as tables, up to
//! a limit of memory. Nothing of a file is trusted: lists, trees and references have limits, and a unit that is broken has
//! no lines.

mod functions;
mod names;
mod rows;
mod sections;
mod split;
mod units;

use crate::debug_files::SymbolOptions;
use crate::elf::Elf;
use crate::error::Error;
use functions::{Functions, Origin};
use gimli::{DebugInfoOffset, Dwarf, EndianSlice, Endianity, Unit};
use rows::Rows;
use sections::Sections;
use split::Split;
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use units::Units;

/// Bytes of tables that are kept of a file; then they are made again.
const MOST_BYTES: usize = 96 << 20;
/// Tables of abbreviations that are kept.
const MOST_ABBREVIATIONS: usize = 1024;

type Slice<'s, E> = EndianSlice<'s, E>;

/// A function at an address, or a line without one.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct SourceFrame<'a> {
    /// A number that only this function of the file has; none where only the line is known.
    pub function: Option<u64>,
    /// Makes its name as the file has it, mangled where the language mangles.
    pub name: &'a dyn Fn() -> Option<String>,
    /// Whether it was inlined into the function that comes next.
    pub is_inlined: bool,
    /// The path of the source file, if it is known.
    pub file: Option<&'a str>,
    /// The line, from 1; 0 if it is not known.
    pub line: u32,
    /// The column, from 1; 0 if it is not known.
    pub column: u32,
    /// What tells blocks, or calls, of one line apart, as the compiler numbers them; 0 if it does not, or if this was
    /// kept from an earlier answer.
    pub discriminator: u32,
    /// Looks for the line that the function is declared on; none if this was kept from an earlier answer.
    pub declared: &'a dyn Fn() -> Option<u32>,
}

/// The debug information of a program or library. It is read as far as addresses are asked for, by any number of threads.
pub(crate) struct FileInfo {
    own: Sections,
    common: Option<Sections>,
    /// It has names in another file, which is not there.
    lacks_common: bool,
    split: Split,
    is_big_endian: bool,
    units: OnceLock<Units>,
    common_units: OnceLock<Units>,
    tables: Mutex<HashMap<u32, Arc<Table>>>,
    /// The bytes of all tables.
    held: AtomicUsize,
    /// By place in the section.
    abbreviations: Mutex<HashMap<usize, Arc<gimli::Abbreviations>>>,
}

/// All that is known of a unit.
#[derive(Debug)]
struct Table {
    functions: Functions,
    rows: Rows,
    files: Vec<Box<str>>,
}

impl FileInfo {
    /// Whether a file has any that can be read.
    pub(crate) fn is_in(elf: &Elf) -> bool {
        elf.has_debug_info() && !elf.is_relocatable()
    }

    /// That of an open file. `path` is where the file is, and `options` where others are: units of their own (`.dwo`, `.dwp`),
    /// and what several debug files have in common.
    ///
    /// # Errors
    ///
    /// A section cannot be read. `None` if the file has no debug information.
    pub(crate) fn of(elf: &Elf, path: &Path, options: &SymbolOptions) -> Result<Option<Self>, Error> {
        if !Self::is_in(elf) {
            return Ok(None);
        }
        let common = options.alternative_of(path, elf);
        let lacks_common = common.is_none() && elf.alternative_link().is_ok_and(|link| link.is_some());
        let common = common.map(|common| Sections::read(&common, false)).transpose()?;
        Ok(Some(FileInfo {
            own: Sections::read(elf, false)?,
            common,
            lacks_common,
            split: Split::new(path, options),
            is_big_endian: elf.is_big_endian(),
            units: OnceLock::new(),
            common_units: OnceLock::new(),
            tables: Mutex::default(),
            held: AtomicUsize::new(0),
            abbreviations: Mutex::default(),
        }))
    }

    /// Tells `found` of the functions at addresses, as the file's symbols count: the index of the address, and a function.
    /// Those of one address follow each other, the innermost first. Many addresses at once are found faster than one after
    /// the other; which is told of first is open.
    pub(crate) fn frames(&self, addresses: &[u64], found: &mut dyn FnMut(usize, &SourceFrame<'_>)) {
        match self.is_big_endian {
            true => self.answer(gimli::BigEndian, addresses, found),
            false => self.answer(gimli::LittleEndian, addresses, found),
        }
    }

    /// Whether answers needed, or lacked, files that may change without this one: those of split units.
    pub(crate) fn needs_others(&self) -> bool {
        self.lacks_common || self.split.was_asked()
    }

    fn answer<E: Endianity>(
        &self,
        endian: E,
        addresses: &[u64],
        found: &mut dyn FnMut(usize, &SourceFrame<'_>),
    ) {
        let mut dwarf = self.own.dwarf(endian);
        if let Some(common) = &self.common {
            dwarf.set_sup(common.dwarf(endian));
        }
        let units = self.units.get_or_init(|| Units::read(&dwarf, true));
        let mut wanted = Vec::with_capacity(addresses.len());
        for (index, &address) in addresses.iter().enumerate() {
            units.with(address, |unit| wanted.push((unit, address, index)));
        }
        wanted.sort_unstable();
        let mut is_answered = vec![false; addresses.len()];
        for run in wanted.chunk_by(|one, next| one.0 == next.0) {
            // A unit that is broken has nothing to tell.
            let _ = self.of_unit(&dwarf, units, run, &mut is_answered, found);
        }
    }

    /// Answers for addresses that are in one unit.
    fn of_unit<E: Endianity>(
        &self,
        dwarf: &Dwarf<Slice<'_, E>>,
        units: &Units,
        wanted: &[(u32, u64, usize)],
        is_answered: &mut [bool],
        found: &mut dyn FnMut(usize, &SourceFrame<'_>),
    ) -> gimli::Result<()> {
        let number = wanted[0].0;
        let header = dwarf.debug_info.header_from_offset(DebugInfoOffset(units.start(number)))?;
        let abbreviations = self.abbreviations(dwarf, &header)?;
        let known = lock(&self.tables).get(&number).cloned();
        let main = match known {
            Some(_) => units::bare(dwarf, header, abbreviations)?,
            None => Unit::new_with_abbreviations(dwarf, header, abbreviations)?,
        };
        let split = self.split.of(dwarf, &main);
        let split = split.as_ref().and_then(|split| split.unit(dwarf, &main));
        let (dwarf_of, unit) = split.as_ref().map_or((dwarf, &main), |(dwarf, unit)| (dwarf, unit));
        let table = match known {
            Some(table) => table,
            None => self.keep(number, Table::read(dwarf, &main, dwarf_of, unit)?),
        };
        let is_split = split.is_some();
        let names = names::Names { info: self, units, own: dwarf, dwarf: dwarf_of, unit, is_split };
        for &(_, address, index) in wanted {
            if !std::mem::replace(&mut is_answered[index], true) {
                is_answered[index] = self.of_address(&names, number, &table, address, index, found);
            }
        }
        Ok(())
    }

    fn of_address<E: Endianity>(
        &self,
        names: &names::Names<'_, '_, E>,
        number: u32,
        table: &Table,
        address: u64,
        index: usize,
        found: &mut dyn FnMut(usize, &SourceFrame<'_>),
    ) -> bool {
        let row = table.rows.find(address);
        let (mut file, mut line, mut column) = row.unwrap_or_default();
        let mut discriminator = table.rows.discriminator(address);
        let path = |file: u32| table.files.get(file as usize).map(AsRef::as_ref).filter(|_| file != u32::MAX);
        let Some(function) = table.functions.find(address) else {
            let is_known = row.is_some();
            if is_known {
                let name = &|| None;
                let frame = SourceFrame {
                    function: None,
                    name,
                    is_inlined: false,
                    file: path(file),
                    line,
                    column,
                    discriminator,
                    declared: &|| None,
                };
                found(index, &frame);
            }
            return is_known;
        };
        let parts = table.functions.inlined(function, || {
            let parts = functions::Inlined::read(names.dwarf, names.unit, function.entry).unwrap_or_default();
            self.held.fetch_add(parts.bytes(), Ordering::Relaxed);
            parts
        });
        let number_of = |origin: Origin| origin.number(names.is_split.then_some(number));
        for part in parts.at(address).into_iter().rev() {
            let name = &|| names.of(part.origin);
            let frame = SourceFrame {
                function: Some(number_of(part.origin)),
                name,
                is_inlined: true,
                file: path(file),
                line,
                column,
                discriminator,
                declared: &|| names.line_of(part.origin),
            };
            found(index, &frame);
            (file, line, column) = (part.file, part.line, part.column);
            discriminator = part.discriminator;
        }
        let origin = Origin::Unit(function.entry);
        let origin = origin.settled(names.unit);
        let frame = SourceFrame {
            function: Some(number_of(origin)),
            name: &|| names.of(origin),
            is_inlined: false,
            file: path(file),
            line,
            column,
            discriminator,
            declared: &|| names.line_of(origin),
        };
        found(index, &frame);
        true
    }

    /// Keeps the table of a unit, and forgets others if they become too many.
    fn keep(&self, number: u32, table: Table) -> Arc<Table> {
        let table = Arc::new(table);
        let mut tables = lock(&self.tables);
        if self.held.fetch_add(table.bytes(), Ordering::Relaxed) > MOST_BYTES {
            tables.clear();
            self.held.store(table.bytes(), Ordering::Relaxed);
        }
        tables.insert(number, table.clone());
        table
    }

    fn abbreviations<E: Endianity>(
        &self,
        dwarf: &Dwarf<Slice<'_, E>>,
        header: &gimli::UnitHeader<Slice<'_, E>>,
    ) -> gimli::Result<Arc<gimli::Abbreviations>> {
        let at = header.debug_abbrev_offset().0;
        if let Some(known) = lock(&self.abbreviations).get(&at) {
            return Ok(known.clone());
        }
        let new = Arc::new(dwarf.debug_abbrev.abbreviations(header.debug_abbrev_offset())?);
        let mut known = lock(&self.abbreviations);
        if known.len() >= MOST_ABBREVIATIONS {
            known.clear();
        }
        known.insert(at, new.clone());
        Ok(new)
    }
}

impl fmt::Debug for FileInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileInfo").field("units", &self.units.get().map(Units::len)).finish_non_exhaustive()
    }
}

impl Table {
    /// Reads a unit: lines of the main file's unit, functions of that with its entries.
    fn read<E: Endianity>(
        lines: &Dwarf<Slice<'_, E>>,
        lines_unit: &Unit<Slice<'_, E>>,
        dwarf: &Dwarf<Slice<'_, E>>,
        unit: &Unit<Slice<'_, E>>,
    ) -> gimli::Result<Self> {
        // What comes before a fault counts.
        let functions = Functions::read(dwarf, unit);
        let (rows, files) = rows::read(lines, lines_unit);
        Ok(Table { functions, rows, files })
    }

    fn bytes(&self) -> usize {
        let files: usize = self.files.iter().map(|file| file.len() + 16).sum();
        self.functions.bytes() + self.rows.bytes() + files
    }
}

/// Nothing is left half done where a panic could have happened.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
