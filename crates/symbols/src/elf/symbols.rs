//! The symbol tables of an ELF file: `.symtab`, or `.dynsym` where that was stripped. A symbol
//! here is a thing that can be at an address of the running program: functions, data, and named places in
//! assembly.

use super::{Elf, Section};
use crate::error::{Error, Problem};
use crate::table::{
    MAX_STRINGS, MAX_SYMBOLS, SymbolBinding, SymbolKind, SymbolTable, TableBuilder, TableFull,
};
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, Sym};
use object::{Endianness, pod};
use std::ops::Range;

/// Symbols are read in pieces of so many bytes: a multiple of the size of a symbol, 16 or 24 bytes.
const PIECE: u64 = 48 << 14;

impl Elf {
    /// All symbols of this file alone: of `.symtab`, or of `.dynsym`, `.gnu_debugdata` and Go's table, and its PLT.
    pub fn symbols(&self) -> Result<SymbolTable, Error> {
        let mut builder = TableBuilder::default();
        let procedures = self.procedures()?;
        if !self.add_symtab(&mut builder, &procedures)? {
            self.add_dynsym(&mut builder, &procedures)?;
            self.add_debugdata(&mut builder)?;
            self.add_go(&mut builder)?;
        }
        self.add_plt(&mut builder)?;
        Ok(builder.finish(&self.areas()))
    }

    /// Those of `.symtab` that are of one source file each: several may have one name.
    pub fn local_symbols(&self) -> Result<SymbolTable, Error> {
        let mut builder = TableBuilder::default();
        builder.is_of_locals = true;
        self.add_symtab(&mut builder, &self.procedures()?)?;
        Ok(builder.finish(&self.areas()))
    }

    /// Adds the full symbol table; false if there is none.
    pub(crate) fn add_symtab(&self, to: &mut TableBuilder, at: &Procedures) -> Result<bool, Error> {
        self.add_table(elf::SHT_SYMTAB, "symbol table", to, at)
    }

    /// Adds the symbols for dynamic linking; false if there is no table of them.
    pub(crate) fn add_dynsym(&self, to: &mut TableBuilder, at: &Procedures) -> Result<bool, Error> {
        self.add_table(elf::SHT_DYNSYM, "dynamic symbol table", to, at)
    }

    fn add_table(
        &self,
        kind: u32,
        structure: &'static str,
        to: &mut TableBuilder,
        procedures: &Procedures,
    ) -> Result<bool, Error> {
        let Some(section) = self.sections.iter().find(|section| section.kind == kind) else {
            return Ok(false);
        };
        if section.size == 0 {
            return Ok(false);
        }
        match self.is_64 {
            true => self.read_symbols::<FileHeader64<Endianness>>(section, structure, to, procedures)?,
            false => self.read_symbols::<FileHeader32<Endianness>>(section, structure, to, procedures)?,
        }
        Ok(true)
    }

    fn read_symbols<H: FileHeader<Endian = Endianness>>(
        &self,
        section: &Section,
        structure: &'static str,
        to: &mut TableBuilder,
        procedures: &Procedures,
    ) -> Result<(), Error> {
        let malformed = |what| self.image.error(section.offset, structure, Problem::Malformed(what));
        let strings = self.sections.get(section.link as usize).filter(|s| s.kind == elf::SHT_STRTAB);
        let strings = strings.ok_or_else(|| malformed("no string table belongs to it"))?;
        self.image.check(section.offset, section.size, structure)?;
        let full = |TableFull| {
            self.image.error(
                section.offset,
                structure,
                Problem::TooLarge { size: section.size, limit: MAX_SYMBOLS as u64 },
            )
        };
        let strings = self.bytes_of(strings, MAX_STRINGS - 1, "string table")?;
        let strings_len = strings.len() as u64;
        let base = to.push_strings(strings).map_err(full)?;
        let placing = Placing { bases: self.bases(), machine: self.machine, procedures };

        let mut at = 0;
        while at < section.size {
            let len = PIECE.min(section.size - at);
            let len = len - len % size_of::<H::Sym>() as u64;
            if len == 0 {
                break; // less than a symbol is left
            }
            let bytes = self.image.read(section.offset + at, len, PIECE, structure)?;
            let symbols = pod::slice_from_all_bytes::<H::Sym>(&bytes)
                .map_err(|()| malformed("symbols that are out of place"))?;
            for symbol in symbols {
                let name = symbol.st_name(self.endian);
                if name == 0 || u64::from(name) >= strings_len {
                    continue;
                }
                let Some((start, kind)) = self.place(symbol, &placing) else { continue };
                let name = base + name;
                if is_noise(to.name_begins(name), kind) {
                    continue;
                }
                let binding = match symbol.st_bind() {
                    elf::STB_LOCAL => SymbolBinding::Local,
                    elf::STB_WEAK => SymbolBinding::Weak,
                    _ => SymbolBinding::Global, // STB_GNU_UNIQUE among them
                };
                if to.is_of_locals && binding != SymbolBinding::Local {
                    continue;
                }
                let size = symbol.st_size(self.endian).into();
                to.push_named(start, size, name, binding, kind).map_err(full)?;
            }
            at += len;
        }
        Ok(())
    }

    /// Where a symbol is and what it is, if it is something at an address of this program.
    pub(super) fn place<S: Sym<Endian = Endianness>>(
        &self,
        symbol: &S,
        placing: &Placing<'_>,
    ) -> Option<(u64, SymbolKind)> {
        let kind = match symbol.st_type() {
            elf::STT_FUNC | elf::STT_GNU_IFUNC => SymbolKind::Function,
            elf::STT_OBJECT => SymbolKind::Object,
            elf::STT_NOTYPE if matches!(symbol.st_visibility(), elf::STV_DEFAULT | elf::STV_PROTECTED) => {
                SymbolKind::Label
            }
            _ => return None,
        };
        let mut address: u64 = symbol.st_value(self.endian).into();
        let index = symbol.st_shndx(self.endian);
        if index == elf::SHN_UNDEF {
            return None;
        }
        if let Some(section) = self.sections.get(usize::from(index)).filter(|_| index < elf::SHN_LORESERVE) {
            if !section.is(elf::SHF_ALLOC) {
                return None;
            }
            if let Some(bases) = &placing.bases {
                address = bases[usize::from(index)]?.wrapping_add(address);
            } else if kind == SymbolKind::Label && !section.is(elf::SHF_EXECINSTR) {
                return None; // ends of sections, constants of the linker
            }
            address = placing.procedures.resolve(address);
        } else if index != elf::SHN_XINDEX || placing.bases.is_some() {
            return None; // a number, not an address
        }
        // The lowest bit tells in which instruction set a function is.
        if kind == SymbolKind::Function && matches!(placing.machine, elf::EM_ARM | elf::EM_MIPS) {
            address &= !1;
        }
        Some((address, kind))
    }

    /// Where sections begin once the file is loaded, if it is a kernel module and its sections have no
    /// addresses yet: the kernel puts executable ones one after the other, those of initialization
    /// elsewhere, and calls the place of the first the address of the module.
    pub(super) fn bases(&self) -> Option<Vec<Option<u64>>> {
        if !self.is_relocatable() {
            return None;
        }
        let mut end = 0u64;
        let place = |section: &Section| {
            let kept = section.is(elf::SHF_ALLOC)
                && section.is(elf::SHF_EXECINSTR)
                && !self.name_of(section).starts_with(b".init");
            if !kept {
                return None;
            }
            let start = end.checked_next_multiple_of(section.align.max(1))?;
            end = start.checked_add(section.size)?;
            Some(start)
        };
        Some(self.sections.iter().map(place).collect())
    }

    /// The address ranges that symbols without a size end with.
    pub(crate) fn areas(&self) -> Vec<Range<u64>> {
        match self.bases() {
            Some(bases) => {
                let placed = bases.iter().zip(&self.sections);
                placed.filter_map(|(base, s)| base.map(|base| base..base.saturating_add(s.size))).collect()
            }
            None => {
                let allocated = self.sections.iter().filter(|section| section.is(elf::SHF_ALLOC));
                // Thread-local variables have no address of their own.
                allocated.filter(|section| !section.is(elf::SHF_TLS)).map(Section::area).collect()
            }
        }
    }

    /// The table of function descriptors that 64-bit big-endian PowerPC files have.
    pub(crate) fn procedures(&self) -> Result<Procedures, Error> {
        let section = self.section(".opd").filter(|_| self.machine == elf::EM_PPC64);
        let Some(section) = section else { return Ok(Procedures::default()) };
        let bytes = self.bytes_of(section, 256 << 20, "function descriptors")?;
        Ok(Procedures { address: section.address, bytes, big_endian: self.is_big_endian() })
    }
}

/// Facts that place a symbol.
pub(super) struct Placing<'a> {
    pub(super) bases: Option<Vec<Option<u64>>>,
    pub(super) machine: u16,
    pub(super) procedures: &'a Procedures,
}

/// Function descriptors: a function's symbol is at its descriptor, which begins with its address.
#[derive(Debug, Default)]
pub(crate) struct Procedures {
    address: u64,
    bytes: Vec<u8>,
    big_endian: bool,
}

impl Procedures {
    fn resolve(&self, address: u64) -> u64 {
        let descriptor = address.checked_sub(self.address).and_then(|at| {
            let at = usize::try_from(at).ok()?;
            self.bytes.get(at..)?.first_chunk()
        });
        match descriptor {
            Some(bytes) if self.big_endian => u64::from_be_bytes(*bytes),
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => address,
        }
    }
}

/// Marks that assemblers leave: where code and data begin (`$x`, `$d.12`), and local labels. The first letters tell.
fn is_noise(name: &[u8], kind: SymbolKind) -> bool {
    if kind != SymbolKind::Label {
        return false;
    }
    match name {
        [] => true,
        [b'.', b'L', ..] => true,
        [b'$', b'a' | b'd' | b't' | b'x'] | [b'$', b'a' | b'd' | b't' | b'x', b'.', ..] => true,
        // RISC-V adds the instruction set.
        [b'$', b'x', b'r', b'v', ..] => true,
        _ => false,
    }
}
