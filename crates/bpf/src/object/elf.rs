//! The ELF of an object file: its sections and symbols, read once. Headers, names and relocations may lie over each other in the file, so
//! that few bytes make many: of all of them together there is a limit.

use super::ObjectError;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use object::read::elf::{ElfFile64, ElfSection64};
use object::{
    Architecture, Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, RelocationFlags,
    RelocationTarget, SectionKind, SymbolKind,
};
use perfuse_abi::ByteOrder;

/// Names have at most so many bytes in all.
const MOST_NAMES: usize = 16 << 20;
/// There are at most so many relocations of instructions.
const MOST_RELOCATIONS: usize = 1 << 20;

/// A section.
#[derive(Debug)]
pub(super) struct Section<'f> {
    pub(super) name: &'f str,
    /// It has instructions.
    pub(super) is_code: bool,
    /// Fewer than its size if it has none in the file.
    pub(super) bytes: &'f [u8],
    pub(super) size: u64,
    /// Of instructions: the kind of a relocation and its symbol, by the place in bytes.
    pub(super) relocations: BTreeMap<u64, (u32, usize)>,
}

/// A symbol.
#[derive(Debug)]
pub(super) struct Symbol<'f> {
    /// Empty of a section.
    pub(super) name: &'f str,
    /// None if another file has it.
    pub(super) section: Option<usize>,
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) is_function: bool,
    pub(super) is_global: bool,
    pub(super) is_weak: bool,
}

/// An object file.
#[derive(Debug)]
pub(super) struct File<'f> {
    pub(super) order: ByteOrder,
    /// By number.
    pub(super) sections: BTreeMap<usize, Section<'f>>,
    /// By number.
    pub(super) symbols: BTreeMap<usize, Symbol<'f>>,
}

/// Names that are still read.
struct Names(usize);

impl Names {
    fn take<'f>(&mut self, name: object::Result<&'f str>) -> Result<&'f str, ObjectError> {
        let name = name?;
        let left = self.0.checked_sub(name.len());
        self.0 =
            left.ok_or_else(|| ObjectError::File("its names are longer than 16 MiB in all".to_owned()))?;
        Ok(name)
    }
}

impl<'f> File<'f> {
    pub(super) fn read(file: &'f [u8]) -> Result<Self, ObjectError> {
        let elf = ElfFile64::<Endianness>::parse(file)?;
        if elf.architecture() != Architecture::Bpf {
            return Err(ObjectError::File("it is for another processor than BPF".to_owned()));
        }
        let order = if elf.is_little_endian() { ByteOrder::Little } else { ByteOrder::Big };
        let (mut names, mut room) = (Names(MOST_NAMES), MOST_RELOCATIONS);
        let (mut sections, mut symbols) = (BTreeMap::new(), BTreeMap::new());
        for section in elf.sections() {
            let is_code = section.kind() == SectionKind::Text;
            let relocations = if is_code { relocations(&section, &mut room)? } else { BTreeMap::new() };
            let (name, bytes, size) = (names.take(section.name())?, section.data()?, section.size());
            sections.insert(section.index().0, Section { name, is_code, bytes, size, relocations });
        }
        for symbol in elf.symbols() {
            let name = if symbol.kind() == SymbolKind::Section { "" } else { names.take(symbol.name())? };
            let own = Symbol {
                name,
                section: symbol.section_index().map(|index| index.0),
                address: symbol.address(),
                size: symbol.size(),
                is_function: symbol.kind() == SymbolKind::Text,
                is_global: symbol.is_global(),
                is_weak: symbol.is_weak(),
            };
            symbols.insert(symbol.index().0, own);
        }
        Ok(File { order, sections, symbols })
    }

    /// The first section with a name.
    pub(super) fn section(&self, name: &str) -> Option<(usize, &Section<'f>)> {
        let found = self.sections.iter().find(|(_, section)| section.name == name);
        found.map(|(&index, section)| (index, section))
    }
}

fn relocations(
    section: &ElfSection64<'_, '_, Endianness>,
    room: &mut usize,
) -> Result<BTreeMap<u64, (u32, usize)>, ObjectError> {
    let mut relocations = BTreeMap::new();
    for (at, relocation) in section.relocations() {
        let left = room.checked_sub(1);
        *room = left
            .ok_or_else(|| ObjectError::File(format!("it has more than {MOST_RELOCATIONS} relocations")))?;
        let kind = match relocation.flags() {
            RelocationFlags::Elf { r_type } => r_type,
            _ => 0,
        };
        if let RelocationTarget::Symbol(symbol) = relocation.target() {
            relocations.insert(at, (kind, symbol.0));
        }
    }
    Ok(relocations)
}
