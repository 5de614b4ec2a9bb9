//! Instructions of an object file, put together: each program with the functions that it calls behind it, and with the numbers of maps.

use super::{Elf, MapsOf, ObjectError, Places};
use crate::Insn;
use crate::btf::{Btf, Kind};
use crate::helper::NOT_IN_KERNEL;
use crate::insn::{Slot, decode, slots_of_bytes};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use object::read::elf::ElfSection64;
use object::{
    Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, RelocationFlags, RelocationTarget,
    SymbolIndex, SymbolKind,
};
use perfuse_abi::ByteOrder;

/// All programs of an object have at most so many slots; Linux takes as many of one.
pub(super) const MOST_SLOTS: usize = 1_000_000;

/// The first slot of a constant of 64 bits, and a call.
const CONSTANT: u8 = 0x18;
const CALL: u8 = 0x85;
/// What the second register of these says: a map by its number, a byte of its value, a function; a function of the program, of the kernel.
const MAP_INDEX: u8 = 5;
const MAP_INDEX_VALUE: u8 = 6;
const FUNCTION: u8 = 4;
const LOCAL: u8 = 1;
const KERNEL: u8 = 2;

/// A section of instructions.
#[derive(Debug)]
pub(super) struct Section<'f> {
    pub(super) name: &'f str,
    pub(super) slots: Vec<Slot>,
    /// The symbol that an instruction, by its slot, names.
    symbols: BTreeMap<usize, SymbolIndex>,
    /// Functions by their first slot: how many they have, their name, and whether other files see them.
    functions: BTreeMap<usize, (usize, &'f str, bool)>,
}

impl<'f> Section<'f> {
    pub(super) fn read(
        elf: &Elf<'f>,
        section: &ElfSection64<'f, '_, Endianness>,
        order: ByteOrder,
    ) -> Result<Self, ObjectError> {
        /// `R_BPF_64_64`, `R_BPF_64_32`.
        const KINDS: [u32; 2] = [1, 10];
        let slots = slots_of_bytes(section.data()?, order);
        let name = section.name()?;
        let mut symbols = BTreeMap::new();
        for (at, relocation) in section.relocations() {
            let kind = match relocation.flags() {
                RelocationFlags::Elf { r_type } => r_type,
                _ => 0,
            };
            let slot = (at / Slot::SIZE as u64) as usize;
            let (RelocationTarget::Symbol(symbol), true, true) = (
                relocation.target(),
                KINDS.contains(&kind),
                at % Slot::SIZE as u64 == 0 && slot < slots.len(),
            ) else {
                let why = format!("a relocation of kind {kind} is not known");
                return Err(ObjectError::Program { section: name.to_owned(), slot, why });
            };
            symbols.insert(slot, symbol);
        }
        let mut functions = BTreeMap::new();
        let own = elf.symbols().filter(|symbol| symbol.section_index() == Some(section.index()));
        for symbol in own.filter(|symbol| symbol.kind() == SymbolKind::Text) {
            let [at, count] =
                [symbol.address(), symbol.size()].map(|bytes| (bytes / Slot::SIZE as u64) as usize);
            if count == 0 || at.checked_add(count).is_none_or(|end| end > slots.len()) {
                let why = format!("function {} is not within its section", symbol.name()?);
                return Err(ObjectError::Program { section: name.to_owned(), slot: at, why });
            }
            functions.insert(at, (count, symbol.name()?, symbol.is_global()));
        }
        Ok(Section { name, slots, symbols, functions })
    }
}

/// A function: its section, and its first slot in that.
type Function = (usize, usize);

/// Puts programs together.
pub(super) struct Linker<'l, 'f> {
    elf: &'l Elf<'f>,
    sections: &'l BTreeMap<usize, Section<'f>>,
    places: &'l Places,
    settings: &'l BTreeMap<String, (usize, i32)>,
    kernel: Option<&'l Btf>,
}

/// What an instruction names.
enum Named {
    /// A map.
    Map(usize),
    /// A byte of its value.
    Value(usize, i32),
    /// A place in a section of instructions, in bytes.
    Code(usize, u64),
    /// What the kernel has, by its name; and whether the program can do without.
    Kernel(String, bool),
}

impl<'l, 'f> Linker<'l, 'f> {
    pub(super) fn new(
        elf: &'l Elf<'f>,
        sections: &'l BTreeMap<usize, Section<'f>>,
        places: &'l Places,
        settings: &'l BTreeMap<String, (usize, i32)>,
        kernel: Option<&'l Btf>,
    ) -> Self {
        Linker { elf, sections, places, settings, kernel }
    }

    /// The programs: functions that other files see, outside of `.text`.
    pub(super) fn programs(&self) -> impl Iterator<Item = Function> + '_ {
        let sections = self.sections.iter().filter(|(_, section)| section.name != ".text");
        sections.flat_map(|(&index, section)| {
            let programs = section.functions.iter().filter(|(_, (_, _, is_global))| *is_global);
            programs.map(move |(&at, _)| (index, at))
        })
    }

    pub(super) fn name(&self, section: usize, at: usize) -> &'f str {
        self.sections
            .get(&section)
            .and_then(|section| section.functions.get(&at))
            .map_or("", |(_, name, _)| *name)
    }

    pub(super) fn name_of_section(&self, section: usize) -> &'f str {
        self.sections.get(&section).map_or("", |section| section.name)
    }

    /// A program, with what it calls. It takes its slots from `room`.
    pub(super) fn program(
        &self,
        section: usize,
        at: usize,
        room: &mut usize,
    ) -> Result<Vec<Insn>, ObjectError> {
        let mut slots: Vec<Slot> = Vec::new();
        let mut begins: BTreeMap<Function, usize> = BTreeMap::new();
        let (mut calls, mut waiting) = (Vec::new(), Vec::from([(section, at)]));
        while let Some(function) = waiting.pop() {
            if begins.contains_key(&function) {
                continue;
            }
            let refused = |slot: usize, why: String| ObjectError::Program {
                section: self.name_of_section(function.0).to_owned(),
                slot,
                why,
            };
            let own = self.sections.get(&function.0);
            let found = own.and_then(|own| Some((own, own.functions.get(&function.1)?)));
            let Some((own, &(count, ..))) = found else {
                return Err(refused(function.1, "it is called, and no function begins there".to_owned()));
            };
            *room = room.checked_sub(count).ok_or_else(|| {
                refused(function.1, format!("the programs have more than {MOST_SLOTS} instructions"))
            })?;
            let begin = slots.len();
            begins.insert(function, begin);
            slots.extend(&own.slots[function.1..function.1 + count]);
            let mut index = begin;
            while index < slots.len() {
                let at = function.1 + index - begin;
                // The second half of a constant is no instruction.
                let width = if slots[index].code == CONSTANT { 2 } else { 1 };
                let called = self.put(&mut slots[index..], function.0, at, own.symbols.get(&at).copied());
                if let Some(called) = called.map_err(|why| refused(at, why))? {
                    calls.push((index, called));
                    waiting.push(called);
                }
                index += width;
            }
        }
        for (at, function) in calls {
            let to = begins.get(&function).copied().unwrap_or(0);
            slots[at].imm = (to as i64 - at as i64 - 1) as i32;
        }
        decode(&slots).map_err(|error| ObjectError::Program {
            section: self.name_of_section(section).to_owned(),
            slot: at + error.slot,
            why: error.to_string(),
        })
    }

    /// Puts into an instruction what it names. Returns the function that it calls or points to.
    fn put(
        &self,
        slots: &mut [Slot],
        section: usize,
        at: usize,
        symbol: Option<SymbolIndex>,
    ) -> Result<Option<Function>, String> {
        let first = slots[0];
        let (is_call, is_constant) = (first.code == CALL, first.code == CONSTANT && slots.len() > 1);
        let Some(symbol) = symbol else {
            let is_local = is_call && first.src == LOCAL;
            let to = usize::try_from(at as i64 + 1 + i64::from(first.imm)).unwrap_or(usize::MAX);
            return Ok(is_local.then_some((section, to)));
        };
        let slot_of = |bytes: i64| usize::try_from(bytes / Slot::SIZE as i64).unwrap_or(usize::MAX);
        match self.named(symbol, is_constant, first.imm)? {
            Named::Map(map) if is_constant => {
                (slots[0].src, slots[0].imm, slots[1].imm) = (MAP_INDEX, map as i32, 0);
                Ok(None)
            }
            Named::Value(map, offset) if is_constant => {
                (slots[0].src, slots[0].imm, slots[1].imm) = (MAP_INDEX_VALUE, map as i32, offset);
                Ok(None)
            }
            Named::Code(section, place) if is_call => {
                slots[0].src = LOCAL;
                let bytes = (place as i64).saturating_add((i64::from(first.imm) + 1) * Slot::SIZE as i64);
                Ok(Some((section, slot_of(bytes))))
            }
            Named::Code(section, place) if is_constant => {
                (slots[0].src, slots[1].imm) = (FUNCTION, 0);
                Ok(Some((section, slot_of((place as i64).saturating_add(first.imm.into())))))
            }
            Named::Kernel(name, is_weak) => {
                let function =
                    self.kernel.filter(|_| is_call).and_then(|types| types.find(Kind::Func, &name));
                match function {
                    Some((number, _)) => {
                        (slots[0].src, slots[0].imm, slots[0].off) = (KERNEL, number as i32, 0)
                    }
                    // Its address is 0: the program asks before it uses it.
                    None if is_weak && is_constant => {
                        (slots[0].src, slots[0].imm, slots[1].imm) = (0, 0, 0);
                    }
                    None if is_weak && is_call => (slots[0].src, slots[0].imm) = (0, NOT_IN_KERNEL as i32),
                    None => {
                        return Err(format!(
                            "{name} is a function, variable or setting of the kernel that is not had here"
                        ));
                    }
                }
                Ok(None)
            }
            _ => Err("the instruction cannot name what it names".to_owned()),
        }
    }

    fn named(&self, symbol: SymbolIndex, is_constant: bool, imm: i32) -> Result<Named, String> {
        let symbol = self.elf.symbol_by_index(symbol).map_err(|error| error.to_string())?;
        let name = symbol.name().unwrap_or_default();
        if symbol.is_undefined() {
            let known = self.settings.get(name).filter(|_| is_constant);
            let is_known = name.starts_with("LINUX_") || symbol.is_weak();
            return Ok(match known.filter(|_| is_known) {
                Some(&(map, offset)) => Named::Value(map, offset),
                None => Named::Kernel(name.to_owned(), symbol.is_weak()),
            });
        }
        let index = symbol.section_index().map_or(0, |index| index.0);
        if self.sections.contains_key(&index) {
            return Ok(Named::Code(index, symbol.address()));
        }
        match self.places.get(&index) {
            Some(MapsOf::Told(maps)) => {
                let map = maps.get(&symbol.address()).copied();
                map.map(Named::Map).ok_or_else(|| format!("{name} is no map"))
            }
            Some(&MapsOf::Data(map)) => {
                let offset = i64::try_from(symbol.address()).ok().and_then(|at| at.checked_add(imm.into()));
                let offset = offset.and_then(|offset| i32::try_from(offset).ok());
                offset
                    .map(|offset| Named::Value(map, offset))
                    .ok_or_else(|| format!("{name} is not within its section"))
            }
            None => Err(format!("{name} is neither a map, nor a variable, nor a function")),
        }
    }
}
