//! Where the code of a source line is, by the line tables that a compiler writes with `-g`: what a probe at a
//! line needs. (The other direction, from addresses to lines, is [`LineInfo`](crate::LineInfo)'s.)

use super::Elf;
use crate::error::{Error, Problem};
use gimli::{EndianSlice, Reader, RunTimeEndian};
use object::Endian;
use object::elf;
use std::collections::BTreeSet;

/// No program has larger tables; compressed ones are not read.
const MAX_SECTION: u64 = 1 << 30;

/// What a file's tables say of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineAddresses {
    /// Where the line's code begins, in order: once in each stretch of code that is the line's. Several
    /// where the compiler has copied or moved some of it.
    pub addresses: Vec<u64>,
    /// The source files that fit the name, as the tables have them.
    pub files: Vec<String>,
    /// Where the line has no code: the nearest lines before and after that do.
    pub near: Vec<u64>,
}

impl Elf {
    /// Where the code of a source line is. `file` is the end of the source's path: `main.c`, `src/main.c`. `None`
    /// if the file has no line tables.
    pub fn line_addresses(&self, file: &str, line: u64) -> Result<Option<LineAddresses>, Error> {
        let mut sections = Vec::new();
        for name in [
            ".debug_line",
            ".debug_info",
            ".debug_abbrev",
            ".debug_str",
            ".debug_line_str",
            ".debug_str_offsets",
            ".debug_addr",
        ] {
            let bytes = match self.section(name) {
                Some(section) if section.is(elf::SHF_COMPRESSED) => {
                    return Err(self.image.error(
                        section.offset,
                        "line tables",
                        Problem::Malformed("they are compressed, which is not read here"),
                    ));
                }
                Some(section) => self.bytes_of(section, MAX_SECTION, "line tables")?,
                None => Vec::new(),
            };
            sections.push((name, bytes));
        }
        if sections[0].1.is_empty() {
            return Ok(None);
        }
        let endian = if self.endian.is_big_endian() { RunTimeEndian::Big } else { RunTimeEndian::Little };
        let load = |id: gimli::SectionId| -> Result<_, gimli::Error> {
            let bytes =
                sections.iter().find(|(name, _)| *name == id.name()).map_or(&[][..], |(_, bytes)| bytes);
            Ok(EndianSlice::new(bytes, endian))
        };
        let malformed = |_| self.image.error(0, "line tables", Problem::Malformed("not as DWARF has them"));
        let dwarf = gimli::Dwarf::load(load).map_err(malformed)?;
        let mut found = Found { wanted: (file, line), ..Found::default() };
        let mut units = dwarf.units();
        while let Some(header) = units.next().map_err(malformed)? {
            let unit = dwarf.unit(header).map_err(malformed)?;
            found.unit(&dwarf, &unit).map_err(malformed)?;
        }
        let Found { addresses, files, before, after, .. } = found;
        let near = if addresses.is_empty() { before.into_iter().chain(after).collect() } else { Vec::new() };
        let addresses = addresses.into_iter().collect();
        Ok(Some(LineAddresses { addresses, files: files.into_iter().collect(), near }))
    }
}

/// What was found so far.
#[derive(Default)]
struct Found<'w> {
    wanted: (&'w str, u64),
    addresses: BTreeSet<u64>,
    files: BTreeSet<String>,
    before: Option<u64>,
    after: Option<u64>,
}

impl Found<'_> {
    fn unit<R: Reader>(&mut self, dwarf: &gimli::Dwarf<R>, unit: &gimli::Unit<R>) -> gimli::Result<()> {
        let Some(program) = unit.line_program.clone() else { return Ok(()) };
        // Only programs of which a source fits are run.
        let header = program.header();
        let mut fitting = Vec::new();
        for index in 0..=header.file_names().len() as u64 {
            let Some(entry) = header.file(index) else { continue };
            let mut path = String::new();
            if let Some(folder) = entry.directory(header) {
                path = dwarf.attr_string(unit, folder)?.to_string_lossy()?.into_owned() + "/";
            }
            path += &dwarf.attr_string(unit, entry.path_name())?.to_string_lossy()?;
            if is_end_of(self.wanted.0, &path) {
                fitting.push(index);
                self.files.insert(path);
            }
        }
        if fitting.is_empty() {
            return Ok(());
        }
        let line = self.wanted.1;
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
            match own.filter(|_| row.is_stmt() && !row.end_sequence()) {
                Some(own) if own < line => self.before = self.before.max(Some(own)),
                Some(own) if own > line => self.after = Some(self.after.map_or(own, |after| after.min(own))),
                _ => {}
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
