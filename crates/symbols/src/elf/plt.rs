//! Names for the stubs through which a program calls functions of shared libraries: `malloc@plt`. Each
//! stub jumps through a slot of a table, and the relocation of that slot names the function; which slot,
//! is read from the stub's own instructions, so that every layout a linker makes is understood. x86 of 64
//! and 32 bits and arm64; other machines' stubs have no names.

use super::{Elf, Section};
use crate::error::{Error, Problem};
use crate::table::{BEGINNING, MAX_NAME, MAX_STRINGS, SymbolBinding, SymbolKind, TableBuilder, name_within};
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, Rel, Rela, Sym};
use object::{Endianness, pod};
use std::collections::HashMap;

/// Larger sections of stubs, and tables of relocations, are not read.
const MAX_STUBS: u64 = 64 << 20;
const MAX_RELOCATIONS: u64 = 512 << 20;
/// Relocations are read in pieces of so many bytes, a multiple of the size of any relocation.
const PIECE: u64 = 24 << 15;

/// The function that a stub calls.
enum Callee {
    /// A dynamic symbol, by its number.
    Symbol(u32),
    /// The function that the one at this address chooses when the program starts (`STT_GNU_IFUNC`).
    Chosen { by: u64 },
}

/// Names of dynamic symbols.
struct Dynamic {
    /// Their places in `strings`, by number.
    names: Vec<u32>,
    /// Likewise, of the first symbol at an address.
    by_address: HashMap<u64, u32>,
    strings: Vec<u8>,
}

impl Elf {
    /// Adds the stubs. Files without any, and those of other machines, are no error.
    pub(crate) fn add_plt(&self, to: &mut TableBuilder) -> Result<(), Error> {
        match self.machine {
            elf::EM_X86_64 | elf::EM_AARCH64 if self.is_64 => self.add_stubs::<FileHeader64<Endianness>>(to),
            elf::EM_386 if !self.is_64 => self.add_stubs::<FileHeader32<Endianness>>(to),
            _ => Ok(()),
        }
    }

    fn add_stubs<H: FileHeader<Endian = Endianness>>(&self, to: &mut TableBuilder) -> Result<(), Error> {
        let stubs: Vec<_> = [".plt", ".plt.sec", ".plt.got"]
            .iter()
            .filter_map(|name| self.section(name))
            .filter(|section| section.kind == elf::SHT_PROGBITS && section.size > 0)
            .collect();
        let Some(dynsym) = self.sections.iter().position(|section| section.kind == elf::SHT_DYNSYM) else {
            return Ok(());
        };
        if stubs.is_empty() {
            return Ok(());
        }
        let slots = self.slots::<H>(dynsym as u32)?;
        let Dynamic { names, by_address, strings } = self.dynamic_names::<H>(&self.sections[dynsym])?;
        let (mut name, mut left) = (Vec::new(), strings.len().saturating_mul(4));
        for section in stubs {
            let code = self.bytes_of(section, MAX_STUBS, "stubs of the PLT")?;
            let size = if matches!(section.entry_size, 8..=64) { section.entry_size as usize } else { 16 };
            for (index, stub) in code.chunks_exact(size).enumerate() {
                let address = section.address.wrapping_add((index * size) as u64);
                name.clear();
                let place = match self.slot_of(stub, address).and_then(|slot| slots.get(&slot)) {
                    None => continue,
                    Some(Callee::Symbol(symbol)) => match names.get(*symbol as usize) {
                        None | Some(0) => continue,
                        place => place,
                    },
                    Some(Callee::Chosen { by }) => {
                        let place = by_address.get(by);
                        if place.is_none() {
                            name.extend_from_slice(format!("*ABS*+{by:#x}").as_bytes());
                        }
                        place
                    }
                };
                // Each name once or twice; names that share their ends may be far more than the file has.
                let most = if left > 0 { MAX_NAME } else { BEGINNING };
                name.extend_from_slice(place.map_or(&[], |&place| name_within(&strings, place, most)));
                left = left.saturating_sub(name.len());
                name.extend_from_slice(b"@plt");
                to.push(address, size as u64, &name, SymbolBinding::Global, SymbolKind::Function).map_err(
                    |_| {
                        let limit = MAX_STRINGS;
                        let problem = Problem::TooLarge { size: section.size, limit };
                        self.image.error(section.offset, "stubs of the PLT", problem)
                    },
                )?;
            }
        }
        Ok(())
    }

    /// The function whose address goes into each slot.
    fn slots<H: FileHeader<Endian = Endianness>>(&self, dynsym: u32) -> Result<HashMap<u64, Callee>, Error> {
        // Relocations that only fill a slot with the address of a function or variable.
        let kinds = match self.machine {
            elf::EM_X86_64 => [elf::R_X86_64_JUMP_SLOT, elf::R_X86_64_GLOB_DAT],
            elf::EM_AARCH64 => [elf::R_AARCH64_JUMP_SLOT, elf::R_AARCH64_GLOB_DAT],
            _ => [elf::R_386_JMP_SLOT, elf::R_386_GLOB_DAT],
        };
        let chosen = match self.machine {
            elf::EM_X86_64 => elf::R_X86_64_IRELATIVE,
            elf::EM_AARCH64 => elf::R_AARCH64_IRELATIVE,
            // Its slots hold the address of the function that chooses, which is not read.
            _ => u32::MAX,
        };
        let structure = "relocations";
        let mut slots = HashMap::new();
        for section in self.sections.iter().filter(|section| section.link == dynsym) {
            let with_addend = match section.kind {
                elf::SHT_RELA => true,
                elf::SHT_REL => false,
                _ => continue,
            };
            if section.size > MAX_RELOCATIONS {
                let problem = Problem::TooLarge { size: section.size, limit: MAX_RELOCATIONS };
                return Err(self.image.error(section.offset, structure, problem));
            }
            self.image.check(section.offset, section.size, structure)?;
            let one = if with_addend { size_of::<H::Rela>() } else { size_of::<H::Rel>() } as u64;
            let mut at = 0;
            while section.size - at >= one {
                let len = PIECE.min(section.size - at);
                let bytes = self.image.read(section.offset + at, len - len % one, PIECE, structure)?;
                let mut take = |kind: u32, symbol: u32, slot: u64, addend: i64| {
                    if kinds.contains(&kind) && symbol != 0 {
                        slots.insert(slot, Callee::Symbol(symbol));
                    } else if kind == chosen {
                        slots.insert(slot, Callee::Chosen { by: addend as u64 });
                    }
                };
                if with_addend {
                    for relocation in pod::slice_from_all_bytes::<H::Rela>(&bytes).unwrap_or_default() {
                        let e = self.endian;
                        let (kind, symbol) = (relocation.r_type(e, false), relocation.r_sym(e, false));
                        take(kind, symbol, relocation.r_offset(e).into(), relocation.r_addend(e).into());
                    }
                } else {
                    for relocation in pod::slice_from_all_bytes::<H::Rel>(&bytes).unwrap_or_default() {
                        let e = self.endian;
                        take(relocation.r_type(e), relocation.r_sym(e), relocation.r_offset(e).into(), 0);
                    }
                }
                at += bytes.len() as u64;
            }
        }
        Ok(slots)
    }

    fn dynamic_names<H: FileHeader<Endian = Endianness>>(&self, dynsym: &Section) -> Result<Dynamic, Error> {
        let structure = "dynamic symbol table";
        let bytes = self.bytes_of(dynsym, MAX_RELOCATIONS, structure)?;
        let whole = bytes.len() - bytes.len() % size_of::<H::Sym>();
        let symbols = pod::slice_from_all_bytes::<H::Sym>(&bytes[..whole]).unwrap_or_default();
        let names: Vec<_> = symbols.iter().map(|symbol| symbol.st_name(self.endian)).collect();
        let addresses = symbols.iter().map(|symbol| symbol.st_value(self.endian).into());
        let named = addresses.zip(&names).filter(|&(address, &name)| address != 0 && name != 0);
        let mut by_address = HashMap::new();
        named.for_each(|(address, &name)| {
            by_address.entry(address).or_insert(name);
        });
        let strings = match self.sections.get(dynsym.link as usize) {
            Some(strings) => self.bytes_of(strings, MAX_STRINGS, "string table")?,
            None => Vec::new(),
        };
        Ok(Dynamic { names, by_address, strings })
    }

    /// The slot that a stub at `address` jumps through.
    fn slot_of(&self, stub: &[u8], address: u64) -> Option<u64> {
        if self.machine == elf::EM_AARCH64 {
            return arm64_slot(stub, address);
        }
        // `jmp *displacement`, perhaps after `endbr` and with a prefix.
        let at = stub.windows(6).position(|code| matches!(code, [0xff, 0x25 | 0xa3, ..]))?;
        let after = address.wrapping_add(at as u64 + 6);
        let displacement = i32::from_le_bytes(stub[at + 2..at + 6].try_into().ok()?);
        match (self.machine, stub[at + 1]) {
            (elf::EM_X86_64, 0x25) => Some(after.wrapping_add_signed(displacement.into())),
            (elf::EM_386, 0x25) => Some(u64::from(displacement as u32)),
            (elf::EM_386, 0xa3) => {
                // Relative to the table itself, whose address is in %ebx.
                let table = self.section(".got.plt").or_else(|| self.section(".got"))?;
                Some(u64::from((table.address as u32).wrapping_add_signed(displacement)))
            }
            _ => None,
        }
    }
}

/// `adrp x16, page; ldr x17, [x16, #offset]`, perhaps after `bti c`.
fn arm64_slot(stub: &[u8], address: u64) -> Option<u64> {
    let words: Vec<u32> = stub
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])) // code is always little-endian
        .collect();
    let at = words.windows(2).position(|pair| {
        let [adrp, ldr] = *pair else { return false };
        adrp & 0x9f00_001f == 0x9000_0010 && ldr & 0xffc0_03ff == 0xf940_0211
    })?;
    let (adrp, ldr) = (words[at], words[at + 1]);
    let pages = (adrp >> 5 & 0x7_ffff) << 2 | adrp >> 29 & 3;
    let pages = i64::from(pages << 11) << 32 >> 43; // 21 bits, signed
    let page = (address.wrapping_add(4 * at as u64) & !0xfff).wrapping_add_signed(pages << 12);
    Some(page.wrapping_add(u64::from(ldr >> 10 & 0xfff) * 8))
}

#[cfg(test)]
mod tests {
    use super::arm64_slot;

    #[test]
    fn arm64_stubs_are_understood() {
        // At 0x40_0620: adrp x16, 0x41_1000; ldr x17, [x16, #0x10]; add; br.
        let stub = [0x90000090u32, 0xf9400a11, 0x91004210, 0xd61f0220];
        let bytes: Vec<u8> = stub.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(arm64_slot(&bytes, 0x40_0620), Some(0x41_0010));
        let with_bti: Vec<u8> =
            [0xd503245fu32, 0xf0fffff0, 0xf9400a11].iter().flat_map(|word| word.to_le_bytes()).collect();
        // One page back.
        assert_eq!(arm64_slot(&with_bti, 0x40_0620), Some(0x3f_f010));
        assert_eq!(arm64_slot(&[0; 16], 0x40_0620), None);
    }
}
