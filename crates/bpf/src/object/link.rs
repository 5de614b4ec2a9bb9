//! Instructions of an object file, put together: each program with the functions that it calls behind it, and with the numbers of maps.

use super::elf::File;
use super::{MapsOf, ObjectError, Places, Settings};
use crate::Insn;
use crate::btf::{Btf, Kind};
use crate::helper::NOT_IN_KERNEL;
use crate::insn::{CALL, CONSTANT, Constant, Slot, decode, slots_of_bytes};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// All programs of an object have at most so many slots; Linux takes as many of one.
pub(super) const MOST_SLOTS: usize = 1_000_000;

/// The second register of a call says whose function it is: the program's, or the kernel's.
const LOCAL: u8 = 1;
const KERNEL: u8 = 2;

/// A section of instructions.
#[derive(Debug)]
pub(super) struct Code<'f> {
    pub(super) name: &'f str,
    pub(super) slots: Vec<Slot>,
    /// The symbol that an instruction, by its slot, names.
    symbols: BTreeMap<usize, usize>,
    /// Functions by their first slot: how many they have, their name, and whether other files see them.
    functions: BTreeMap<usize, (usize, &'f str, bool)>,
}

impl<'f> Code<'f> {
    /// The sections of instructions, by number.
    pub(super) fn of(file: &File<'f>) -> Result<BTreeMap<usize, Self>, ObjectError> {
        let (mut all, mut room) = (BTreeMap::new(), MOST_SLOTS);
        for (&number, section) in file.sections.iter().filter(|(_, section)| section.is_code) {
            let refused = |slot: usize, why: String| ObjectError::Program {
                section: section.name.to_owned(),
                slot,
                why,
            };
            let left = room.checked_sub(section.bytes.len() / Slot::SIZE);
            room =
                left.ok_or_else(|| refused(0, format!("there are more than {MOST_SLOTS} instructions")))?;
            let slots = slots_of_bytes(section.bytes, file.order);
            let mut symbols = BTreeMap::new();
            for (&at, &(kind, symbol)) in &section.relocations {
                /// `R_BPF_64_64`, `R_BPF_64_32`.
                const KINDS: [u32; 2] = [1, 10];
                let slot = slot_of(at);
                if !KINDS.contains(&kind) || at % Slot::SIZE as u64 != 0 || slot >= slots.len() {
                    return Err(refused(slot, format!("a relocation of kind {kind} is not known")));
                }
                symbols.insert(slot, symbol);
            }
            all.insert(number, Code { name: section.name, slots, symbols, functions: BTreeMap::new() });
        }
        for symbol in file.symbols.values().filter(|symbol| symbol.is_function) {
            let Some(code) = symbol.section.and_then(|number| all.get_mut(&number)) else { continue };
            let [at, count] = [symbol.address, symbol.size].map(slot_of);
            if count == 0 || at.checked_add(count).is_none_or(|end| end > code.slots.len()) {
                let why = format!("function {} is not within its section", symbol.name);
                return Err(ObjectError::Program { section: code.name.to_owned(), slot: at, why });
            }
            code.functions.insert(at, (count, symbol.name, symbol.is_global));
        }
        Ok(all)
    }
}

fn slot_of(bytes: u64) -> usize {
    usize::try_from(bytes / Slot::SIZE as u64).unwrap_or(usize::MAX)
}

/// Puts a constant into its two slots.
fn constant(slots: &mut [Slot], value: Constant) {
    (slots[0].src, slots[0].imm, slots[1].imm) = value.parts();
}

/// A function: its section, and its first slot in that.
type Function = (usize, usize);

/// Puts programs together.
pub(super) struct Linker<'l, 'f> {
    file: &'l File<'f>,
    code: &'l BTreeMap<usize, Code<'f>>,
    places: &'l Places,
    settings: &'l Settings,
    /// The kernel's functions that the programs call by their names, where its types tell of them.
    functions: BTreeMap<&'l str, u32>,
}

/// A thing that an instruction names.
enum Named<'l> {
    /// A map.
    Map(usize),
    /// A byte of its value.
    Value(usize, i32),
    /// A place in a section of instructions, in bytes.
    Code(usize, u64),
    /// A function, variable or setting of the kernel, by its name; and whether the program can do without.
    Kernel(&'l str, bool),
}

impl<'l, 'f> Linker<'l, 'f> {
    pub(super) fn new(
        file: &'l File<'f>,
        code: &'l BTreeMap<usize, Code<'f>>,
        places: &'l Places,
        settings: &'l Settings,
        kernel: Option<&'l Btf>,
    ) -> Self {
        let others =
            file.symbols.values().filter(|symbol| symbol.section.is_none() && !symbol.name.is_empty());
        let mut functions: BTreeMap<&str, u32> = others.map(|symbol| (symbol.name, 0)).collect();
        if !functions.is_empty() {
            let all = kernel.into_iter().flat_map(|types| types.all());
            for (number, one) in all.filter(|(_, one)| one.kind() == Kind::Func) {
                let found = core::str::from_utf8(one.name()).ok().and_then(|name| functions.get_mut(name));
                found.into_iter().for_each(|function| *function = number);
            }
        }
        functions.retain(|_, number| *number != 0);
        Linker { file, code, places, settings, functions }
    }

    /// The programs: functions that other files see, outside of `.text`.
    pub(super) fn programs(&self) -> impl Iterator<Item = Function> + '_ {
        let sections = self.code.iter().filter(|(_, code)| code.name != ".text");
        sections.flat_map(|(&number, code)| {
            let programs = code.functions.iter().filter(|(_, (_, _, is_global))| *is_global);
            programs.map(move |(&at, _)| (number, at))
        })
    }

    /// The names of a function's section, and of itself.
    pub(super) fn names(&self, (section, at): Function) -> (&'f str, &'f str) {
        self.code
            .get(&section)
            .map_or(("", ""), |code| (code.name, code.functions.get(&at).map_or("", |(_, name, _)| *name)))
    }

    /// A program, with what it calls. It takes its slots from `room`.
    pub(super) fn program(&self, program: Function, room: &mut usize) -> Result<Vec<Insn>, ObjectError> {
        let mut slots: Vec<Slot> = Vec::new();
        let mut begins: BTreeMap<Function, usize> = BTreeMap::new();
        let (mut calls, mut waiting) = (Vec::new(), Vec::from([program]));
        while let Some(function) = waiting.pop() {
            if begins.contains_key(&function) {
                continue;
            }
            let refused = |slot: usize, why: String| ObjectError::Program {
                section: self.names(function).0.to_owned(),
                slot,
                why,
            };
            let own = self.code.get(&function.0);
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
            section: self.names(program).0.to_owned(),
            slot: program.1 + error.slot,
            why: error.to_string(),
        })
    }

    /// Puts into an instruction what it names. Returns the function that it calls or points to.
    fn put(
        &self,
        slots: &mut [Slot],
        section: usize,
        at: usize,
        symbol: Option<usize>,
    ) -> Result<Option<Function>, String> {
        let first = slots[0];
        let (is_call, is_constant) = (first.code == CALL, first.code == CONSTANT && slots.len() > 1);
        let Some(symbol) = symbol else {
            let is_local = is_call && first.src == LOCAL;
            let to = usize::try_from(at as i64 + 1 + i64::from(first.imm)).unwrap_or(usize::MAX);
            return Ok(is_local.then_some((section, to)));
        };
        let slot_of = |bytes: i64| u64::try_from(bytes).map_or(usize::MAX, slot_of);
        match self.named(symbol, is_constant, first.imm)? {
            Named::Map(map) if is_constant => {
                constant(slots, Constant::MapIndex(map as i32));
                Ok(None)
            }
            Named::Value(map, offset) if is_constant => {
                constant(slots, Constant::MapIndexValue(map as i32, offset));
                Ok(None)
            }
            Named::Code(section, place) if is_call => {
                slots[0].src = LOCAL;
                let bytes = (place as i64).saturating_add((i64::from(first.imm) + 1) * Slot::SIZE as i64);
                Ok(Some((section, slot_of(bytes))))
            }
            Named::Code(section, place) if is_constant => {
                constant(slots, Constant::Function(0));
                Ok(Some((section, slot_of((place as i64).saturating_add(first.imm.into())))))
            }
            Named::Kernel(name, is_weak) => {
                match self.functions.get(name).filter(|_| is_call) {
                    Some(&number) => {
                        (slots[0].src, slots[0].imm, slots[0].off) = (KERNEL, number as i32, 0);
                    }
                    // Its address is 0: the program asks before it uses it.
                    None if is_weak && is_constant => constant(slots, Constant::Value(0)),
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

    fn named(&self, symbol: usize, is_constant: bool, imm: i32) -> Result<Named<'l>, String> {
        let symbol = self.file.symbols.get(&symbol).ok_or_else(|| format!("symbol {symbol} is not there"))?;
        let name = symbol.name;
        let Some(number) = symbol.section else {
            let known = self.settings.get(name).filter(|_| is_constant);
            let is_known = name.starts_with("LINUX_") || symbol.is_weak;
            return Ok(match known.filter(|_| is_known) {
                Some(&(map, offset)) => Named::Value(map, offset),
                None => Named::Kernel(name, symbol.is_weak),
            });
        };
        if self.code.contains_key(&number) {
            return Ok(Named::Code(number, symbol.address));
        }
        match self.places.get(&number) {
            Some(MapsOf::Told(maps)) => {
                let map = maps.get(&symbol.address).copied();
                map.map(Named::Map).ok_or_else(|| format!("{name} is no map"))
            }
            Some(&MapsOf::Data(map)) => {
                let offset = i64::try_from(symbol.address).ok().and_then(|at| at.checked_add(imm.into()));
                let offset = offset.and_then(|offset| i32::try_from(offset).ok());
                offset
                    .map(|offset| Named::Value(map, offset))
                    .ok_or_else(|| format!("{name} is not within its section"))
            }
            None => Err(format!("{name} is neither a map, nor a variable, nor a function")),
        }
    }
}
