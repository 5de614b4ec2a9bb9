//! Where the code of a source line is, by the line tables that a compiler writes with `-g`: what a probe at a
//! line needs.

use super::Elf;
use crate::error::{Error, Problem};
use crate::ranges::ranges_of;
use gimli::{EndianSlice, Reader, RunTimeEndian};
use object::Endian;
use object::elf;
use std::collections::BTreeSet;

/// A line of a source, as people name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceLine<'a> {
    /// A line of a file, from 1. The file is the end of the source's path: `main.c`, `src/main.c`.
    OfFile {
        /// The end of the path.
        file: &'a str,
        /// The line.
        line: u64,
    },
    /// A line of a function, from that of its name, which is 0.
    OfFunction {
        /// The function.
        function: &'a str,
        /// The line.
        line: u64,
    },
}

/// A line in a file's tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineAddresses {
    /// Where the line's code begins, in order: once in each stretch of code that is the line's. Several
    /// where the compiler has copied or moved some of it.
    pub addresses: Vec<u64>,
    /// The source files that fit the name, or have a function of that name, as the tables have them.
    pub files: Vec<String>,
    /// Where the line has no code: the nearest lines before and after that do.
    pub near: Vec<u64>,
}

/// The tables that lines are found with.
const SECTIONS: [&str; 9] = [
    ".debug_line",
    ".debug_info",
    ".debug_abbrev",
    ".debug_str",
    ".debug_line_str",
    ".debug_str_offsets",
    ".debug_addr",
    ".debug_ranges",
    ".debug_rnglists",
];

/// Sections by their names.
pub(super) type Sections = Vec<(&'static str, Vec<u8>)>;

impl Elf {
    /// Whether the file has line tables of its own.
    pub fn has_lines(&self) -> bool {
        self.debug_section(".debug_line")
            .is_some_and(|section| section.kind != elf::SHT_NOBITS && section.size > 0)
    }

    /// Where the code of a source line is. `common` is the file that this one shares debug information with
    /// others through, if there is one. `None` if the file has no line tables.
    pub fn line_addresses(
        &self,
        common: Option<&Elf>,
        line: SourceLine<'_>,
    ) -> Result<Option<LineAddresses>, Error> {
        if !self.has_lines() {
            return Ok(None);
        }
        let endian = if self.endian.is_big_endian() { RunTimeEndian::Big } else { RunTimeEndian::Little };
        let own = self.line_sections()?;
        let shared = common.map(Elf::line_sections).transpose()?.unwrap_or_default();
        let malformed = |_| self.image.error(0, "line tables", Problem::Malformed("not as DWARF has them"));
        let mut dwarf = gimli::Dwarf::load(|id| load(&own, id, endian)).map_err(malformed)?;
        if !shared.is_empty() {
            dwarf.load_sup(|id| load(&shared, id, endian)).map_err(malformed)?;
        }
        match line {
            SourceLine::OfFile { file, line } => of_file(&dwarf, |path| is_end_of(file, path), line, &[]),
            SourceLine::OfFunction { function, line } => of_function(&dwarf, function, line),
        }
        .map(Some)
        .map_err(malformed)
    }

    pub(super) fn line_sections(&self) -> Result<Sections, Error> {
        let bytes = |name: &'static str| Ok((name, self.debug_bytes(name)?.unwrap_or_default()));
        SECTIONS.into_iter().map(bytes).collect()
    }
}

pub(super) fn load(
    sections: &Sections,
    id: gimli::SectionId,
    endian: RunTimeEndian,
) -> Result<EndianSlice<'_, RunTimeEndian>, gimli::Error> {
    let bytes = sections.iter().find(|(name, _)| *name == id.name()).map_or(&[][..], |(_, bytes)| bytes);
    Ok(EndianSlice::new(bytes, endian))
}

/// A line of the files whose paths fit. With ranges, they are those of a function, which has no line after the
/// last one of its code.
fn of_file<R: Reader>(
    dwarf: &gimli::Dwarf<R>,
    fits: impl Fn(&str) -> bool,
    line: u64,
    within: &[gimli::Range],
) -> gimli::Result<LineAddresses> {
    let mut found = Found { line, within, ..Found::default() };
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        found.unit(dwarf, &dwarf.unit(header)?, &fits)?;
    }
    let Found { mut addresses, files, mut before, mut after, last, .. } = found;
    if let Some(last) = last.filter(|_| !within.is_empty()) {
        if line > last {
            addresses.clear();
            (before, after) = (Some(last), None);
        }
        after = after.filter(|after| *after <= last);
    }
    let near = if addresses.is_empty() { before.into_iter().chain(after).collect() } else { Vec::new() };
    let addresses = addresses.into_iter().collect();
    Ok(LineAddresses { addresses, files: files.into_iter().collect(), near })
}

/// A line of the functions of this name.
fn of_function<R: Reader>(dwarf: &gimli::Dwarf<R>, name: &str, line: u64) -> gimli::Result<LineAddresses> {
    let mut all = LineAddresses::default();
    for (path, first, ranges) in declarations(dwarf, name)? {
        let of = of_file(dwarf, |known| known == path, first.saturating_add(line), &ranges)?;
        if line == 0 && of.addresses.is_empty() {
            // The code may begin on the line of the brace.
            all.addresses.extend(ranges.iter().map(|range| range.begin).min());
        }
        all.addresses.extend(of.addresses);
        all.files.push(path);
        all.near.extend(of.near.into_iter().filter_map(|near| near.checked_sub(first)));
    }
    all.addresses.sort_unstable();
    all.addresses.dedup();
    if !all.addresses.is_empty() {
        all.near.clear();
    }
    Ok(all)
}

/// Where functions of a name are declared, and the code each has outside of others.
type Declarations = Vec<(String, u64, Vec<gimli::Range>)>;

fn declarations<R: Reader>(dwarf: &gimli::Dwarf<R>, name: &str) -> gimli::Result<Declarations> {
    let mut all: Declarations = Vec::new();
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        let unit = dwarf.unit(header)?;
        let mut entries = unit.entries();
        while let Some((_, entry)) = entries.next_dfs()? {
            if entry.tag() != gimli::DW_TAG_subprogram {
                continue;
            }
            let mut known = Declared::default();
            known.read(dwarf, &unit, entry, MOST_REFERENCES)?;
            let (true, Some((path, line))) = (known.names.iter().any(|known| known == name), known.place)
            else {
                continue;
            };
            let mut ranges = Vec::new();
            let Ok(mut code) = ranges_of(dwarf, &unit, entry) else { continue };
            while let Some(range) = code.next()? {
                // An address of 0 is that of code that the linker left out.
                ranges.extend((range.begin != 0 && range.begin < range.end).then_some(range));
            }
            match all.iter_mut().find(|(known, at, _)| *known == path && *at == line) {
                Some((.., known)) => known.extend(ranges),
                None => all.push((path, line, ranges)),
            }
        }
    }
    Ok(all)
}

/// A function's code refers to its inlined original, which refers to its declaration in a class.
pub(super) const MOST_REFERENCES: u8 = 3;

/// A function by its entries.
#[derive(Default)]
pub(super) struct Declared {
    pub(super) names: Vec<String>,
    /// The path of the source, and the line.
    place: Option<(String, u64)>,
}

impl Declared {
    pub(super) fn read<R: Reader>(
        &mut self,
        dwarf: &gimli::Dwarf<R>,
        unit: &gimli::Unit<R>,
        entry: &gimli::DebuggingInformationEntry<'_, '_, R>,
        references: u8,
    ) -> gimli::Result<()> {
        for attribute in [gimli::DW_AT_name, gimli::DW_AT_linkage_name] {
            if let Some(value) = entry.attr_value(attribute)? {
                self.names.push(dwarf.attr_string(unit, value)?.to_string_lossy()?.into_owned());
            }
        }
        let number = |attribute| {
            let value = entry.attr_value(attribute)?;
            Ok::<_, gimli::Error>(value.and_then(|value| match value {
                gimli::AttributeValue::FileIndex(index) => Some(index),
                value => value.udata_value(),
            }))
        };
        let (file, line) = (number(gimli::DW_AT_decl_file)?, number(gimli::DW_AT_decl_line)?);
        if let (None, Some(file), Some(line), Some(program)) = (&self.place, file, line, &unit.line_program) {
            if let Some(file) = program.header().file(file) {
                self.place = Some((path_of(dwarf, unit, program.header(), file)?, line));
            }
        }
        for attribute in [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification] {
            // Entries of another unit are found there.
            if let (Some(gimli::AttributeValue::UnitRef(at)), true) =
                (entry.attr_value(attribute)?, references > 0)
            {
                self.read(dwarf, unit, &unit.entry(at)?, references - 1)?;
            }
        }
        Ok(())
    }
}

fn path_of<R: Reader>(
    dwarf: &gimli::Dwarf<R>,
    unit: &gimli::Unit<R>,
    header: &gimli::LineProgramHeader<R>,
    entry: &gimli::FileEntry<R>,
) -> gimli::Result<String> {
    let mut path = String::new();
    if let Some(folder) = entry.directory(header) {
        path = dwarf.attr_string(unit, folder)?.to_string_lossy()?.into_owned() + "/";
    }
    Ok(path + &dwarf.attr_string(unit, entry.path_name())?.to_string_lossy()?)
}

/// The places found so far.
#[derive(Default)]
struct Found<'w> {
    line: u64,
    within: &'w [gimli::Range],
    addresses: BTreeSet<u64>,
    files: BTreeSet<String>,
    before: Option<u64>,
    after: Option<u64>,
    /// The last line of what is in the ranges.
    last: Option<u64>,
}

impl Found<'_> {
    fn unit<R: Reader>(
        &mut self,
        dwarf: &gimli::Dwarf<R>,
        unit: &gimli::Unit<R>,
        fits: impl Fn(&str) -> bool,
    ) -> gimli::Result<()> {
        let Some(program) = unit.line_program.clone() else { return Ok(()) };
        // Only programs of which a source fits are run.
        let header = program.header();
        let mut fitting = Vec::new();
        for index in 0..=header.file_names().len() as u64 {
            let Some(entry) = header.file(index) else { continue };
            let path = path_of(dwarf, unit, header, entry)?;
            if fits(&path) {
                fitting.push(index);
                self.files.insert(path);
            }
        }
        if fitting.is_empty() {
            return Ok(());
        }
        let line = self.line;
        let mut rows = program.rows();
        // The row before is of the wanted line too: its code goes on.
        let mut goes_on = false;
        while let Some((_, row)) = rows.next_row()? {
            let own =
                row.line().map(std::num::NonZeroU64::get).filter(|_| fitting.contains(&row.file_index()));
            let is_wanted = own == Some(line) && !row.end_sequence();
            // An address of 0 is that of code that the linker left out.
            if is_wanted && !goes_on && row.is_stmt() && row.address() != 0 {
                self.addresses.insert(row.address());
            }
            goes_on = is_wanted && (goes_on || row.is_stmt());
            let own = own.filter(|_| row.is_stmt() && !row.end_sequence());
            match own {
                Some(own) if own < line => self.before = self.before.max(Some(own)),
                Some(own) if own > line => self.after = Some(self.after.map_or(own, |after| after.min(own))),
                _ => {}
            }
            if self.within.iter().any(|range| (range.begin..range.end).contains(&row.address())) {
                self.last = self.last.max(own);
            }
        }
        Ok(())
    }
}

/// Whether a path ends in these parts.
fn is_end_of(end: &str, path: &str) -> bool {
    path.strip_suffix(end.trim_start_matches("./"))
        .is_some_and(|before| before.is_empty() || before.ends_with('/') || end.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::is_end_of;

    #[test]
    fn a_name_is_the_end_of_a_path() {
        assert!(is_end_of("main.c", "/src/a/main.c") && is_end_of("a/main.c", "/src/a/main.c"));
        assert!(is_end_of("/src/a/main.c", "/src/a/main.c") && is_end_of("./main.c", "main.c"));
        assert!(!is_end_of("ain.c", "/src/a/main.c") && !is_end_of("b/main.c", "/src/a/main.c"));
    }
}
