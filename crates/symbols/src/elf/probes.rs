//! Where in a file a probe goes: at a function by its name, or where the file itself declares one in its
//! notes (the statically defined probes of SystemTap's `sys/sdt.h`, which are USDT's on Linux).

use super::symbols::Placing;
use super::{Elf, Section};
use crate::error::{Error, Problem};
use crate::table::{MAX_STRINGS, is_name};
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, Sym};
use object::{Endian, Endianness, pod};

/// A probe that a file declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredProbe {
    /// The provider that declares it.
    pub provider: String,
    /// Its name.
    pub name: String,
    /// Where its arguments are, as the compiler wrote it.
    pub arguments: String,
    /// The offset in the file of its instruction.
    pub offset: u64,
    /// The offset in the file of the counter that says that somebody listens, if it has one.
    pub semaphore: Option<u64>,
}

/// No file has so many bytes of notes about probes.
const MAX_NOTES: u64 = 16 << 20;
const NT_STAPSDT: u32 = 3;

impl Elf {
    /// The offset in the file of what is loaded at this address, as its symbols count.
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        let holds = |address: u64| {
            self.layout.segments().find_map(|(offset, start, size)| {
                (address >= start && address - start < size).then(|| address - start + offset)
            })
        };
        holds(address)
    }

    /// The address of the function of this name, by the file's own symbols. Of several the one that others
    /// see.
    pub fn function(&self, name: &str) -> Result<Option<u64>, Error> {
        let mut best = None;
        for (kind, structure) in
            [(elf::SHT_SYMTAB, "symbol table"), (elf::SHT_DYNSYM, "dynamic symbol table")]
        {
            let Some(section) = self.sections.iter().find(|section| section.kind == kind) else { continue };
            let found = match self.is_64 {
                true => self.named::<FileHeader64<Endianness>>(section, structure, name)?,
                false => self.named::<FileHeader32<Endianness>>(section, structure, name)?,
            };
            best = best.or(found);
        }
        Ok(best)
    }

    fn named<H: FileHeader<Endian = Endianness>>(
        &self,
        section: &Section,
        structure: &'static str,
        wanted: &str,
    ) -> Result<Option<u64>, Error> {
        let malformed = |what| self.image.error(section.offset, structure, Problem::Malformed(what));
        let strings = self.sections.get(section.link as usize).filter(|s| s.kind == elf::SHT_STRTAB);
        let strings = strings.ok_or_else(|| malformed("no string table belongs to it"))?;
        let strings = self.bytes_of(strings, MAX_STRINGS - 1, "string table")?;
        let bytes = self.bytes_of(section, MAX_STRINGS, structure)?;
        let whole = bytes.len() - bytes.len() % size_of::<H::Sym>();
        let symbols = pod::slice_from_all_bytes::<H::Sym>(&bytes[..whole]);
        let symbols = symbols.map_err(|()| malformed("symbols that are out of place"))?;
        let procedures = self.procedures()?;
        let placing = Placing { bases: self.bases(), machine: self.machine, procedures: &procedures };
        let is_function = |symbol: &&H::Sym| matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC);
        let fits = |symbol: &&H::Sym| is_name(&strings, symbol.st_name(self.endian), wanted.as_bytes());
        let found = symbols.iter().filter(is_function).filter(fits);
        let placed = found
            .filter_map(|symbol| Some((symbol.st_bind() != elf::STB_LOCAL, self.place(symbol, &placing)?.0)));
        Ok(placed.max_by_key(|(is_global, _)| *is_global).map(|(_, address)| address))
    }

    /// The probes that the file declares.
    pub fn declared_probes(&self) -> Result<Vec<DeclaredProbe>, Error> {
        let Some(section) = self.section(".note.stapsdt") else { return Ok(Vec::new()) };
        let notes = self.bytes_of(section, MAX_NOTES, "notes about probes")?;
        let base = self.section(".stapsdt.base").map(|base| base.address);
        let mut all = Vec::new();
        let mut rest = &notes[..];
        while let Some((note, after)) = self.note(rest) {
            all.extend(note.and_then(|text| self.declared(text, base)));
            rest = after;
        }
        Ok(all)
    }

    /// The next note if it is one about a probe, and what follows it. `None` at the end.
    fn note<'n>(&self, notes: &'n [u8]) -> Option<(Option<&'n [u8]>, &'n [u8])> {
        let word = |at: usize| Some(self.endian.read_u32(*notes.get(at..)?.first_chunk()?));
        let (name_len, len, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
        let start = 12usize.checked_add(name_len)?.checked_next_multiple_of(4)?;
        let end = start.checked_add(len)?;
        let is_probe = kind == NT_STAPSDT && notes.get(12..)?.get(..name_len)? == b"stapsdt\0";
        let text = notes.get(start..end)?;
        let after = notes.get(end.checked_next_multiple_of(4)?..).unwrap_or_default();
        Some((is_probe.then_some(text), after))
    }

    /// Three addresses, then three texts.
    fn declared(&self, note: &[u8], base: Option<u64>) -> Option<DeclaredProbe> {
        let size = if self.is_64 { 8 } else { 4 };
        let address = |index: usize| -> Option<u64> {
            let bytes = note.get(index * size..)?;
            Some(match self.is_64 {
                true => self.endian.read_u64(*bytes.first_chunk()?),
                false => self.endian.read_u32(*bytes.first_chunk()?).into(),
            })
        };
        let (place, noted_base, semaphore) = (address(0)?, address(1)?, address(2)?);
        // Prelinking moves the file but not its notes; how far, a section of known address tells.
        let moved = base.map_or(0, |base| base.wrapping_sub(noted_base));
        let mut texts = note.get(3 * size..)?.split(|&byte| byte == 0);
        let mut text = || Some(String::from_utf8_lossy(texts.next()?).into_owned());
        let (provider, name, arguments) = (text()?, text()?, text().unwrap_or_default());
        let semaphore = match semaphore {
            0 => None,
            address => Some(self.offset_of(address.wrapping_add(moved))?),
        };
        let offset = self.offset_of(place.wrapping_add(moved))?;
        Some(DeclaredProbe { provider, name, arguments, offset, semaphore })
    }
}
