//! The table with which programs in Go print their stacks (`.gopclntab`): names of functions, files and lines. It is there in
//! stripped programs, too. Layouts of Go 1.2 to 1.27.
//!
//! Data beside it tell which functions were inlined where, from Go 1.18 on (`runtime/symtabinl.go`); before that they have their
//! lines, but no names.

use crate::dwarf::SourceFrame;
use crate::elf::Elf;
use crate::error::{Error, Problem};
use crate::table::{SymbolBinding, SymbolKind, TableBuilder};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a table.
const MAX_TABLE: u64 = 512 << 20;
/// Functions of a table.
const MAX_FUNCTIONS: usize = 1 << 23;
/// Steps through lists of lines, of all questions to a file: a real question takes hundreds.
const MOST_STEPS: usize = 1 << 30;

/// Words of the runtime's `moduledata`, from Go 1.18 on: lengths of the lists of names and of functions, and where code begins.
const NAMES_LEN: usize = 2;
const FUNCTIONS_LEN: usize = 17;
const TEXT: usize = 22;
/// One of these words tells where the data of functions begins, another one in each version; so many words are read.
const DATA: std::ops::Range<usize> = 36..52;
const WORDS: usize = 52;

/// The parts of a table begin at multiples of so many bytes at most.
const ALIGNED: u64 = 64;

/// Lists and data of a function that tell what is inlined in it (`PCDATA_InlTreeIndex`, `FUNCDATA_InlTree`).
const INLINED_LIST: usize = 2;
const INLINED_DATA: usize = 3;
/// Functions are inlined into each other so deep.
const MOST_INLINED: usize = 64;
/// So many functions have to agree that data are theirs.
const ENOUGH: usize = 64;

/// The table, and where its parts begin.
pub(crate) struct GoTable {
    bytes: Vec<u8>,
    is_big_endian: bool,
    layout: Layout,
    /// Addresses of instructions are multiples of it.
    quantum: u64,
    /// Bytes of a pointer.
    pointer: usize,
    /// Where the code begins, if functions count from there.
    text: u64,
    count: usize,
    names: usize,
    names_end: usize,
    units: usize,
    files: usize,
    lists: usize,
    functions: usize,
    /// The data of functions, where it is known.
    data: Vec<u8>,
    left: AtomicUsize,
}

/// A call that was inlined.
struct InlinedCall {
    /// Where the function's name is among the names.
    name: usize,
    /// The place of an instruction with the line of the call, counted from the function that it is in at last.
    parent: u64,
    /// The line that the function is declared on; 0 before Go 1.20.
    declared: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// Go 1.2: all counts from the table's start.
    Whole,
    /// Go 1.16: names, files and lists have parts of their own.
    Parts,
    /// Go 1.18: functions count from the start of the code, in 32 bits.
    Relative,
    /// Go 1.20: functions tell where they are declared.
    Declared,
}

/// A function: its number, where it begins and ends, and where its facts are in the table.
struct Function {
    number: usize,
    begins: u64,
    ends: u64,
    facts: usize,
}

/// How a table begins: its layout, of what the addresses of instructions are multiples, and bytes of a pointer.
fn head(bytes: &[u8], is_big_endian: bool) -> Option<(Layout, u64, usize)> {
    let &[a, b, c, d, 0, 0, quantum @ (1 | 2 | 4), pointer @ (4 | 8), ..] = bytes else { return None };
    let magic = [a, b, c, d];
    let layout = match if is_big_endian { u32::from_be_bytes(magic) } else { u32::from_le_bytes(magic) } {
        0xffff_fffb => Layout::Whole,
        0xffff_fffa => Layout::Parts,
        0xffff_fff0 => Layout::Relative,
        0xffff_fff1 => Layout::Declared,
        _ => return None,
    };
    Some((layout, quantum.into(), pointer.into()))
}

/// The number of 32 bits that bytes begin with.
fn half(bytes: &[u8], is_big_endian: bool) -> Option<u32> {
    let half = *bytes.first_chunk()?;
    Some(if is_big_endian { u32::from_be_bytes(half) } else { u32::from_le_bytes(half) })
}

impl Layout {
    /// Whether functions count from the start of the code.
    fn is_relative(self) -> bool {
        matches!(self, Layout::Relative | Layout::Declared)
    }
}

impl GoTable {
    /// That of a file; none if it has none. `with_inlined`: the calls that were inlined are told, too.
    ///
    /// # Errors
    ///
    /// The table cannot be read, or is none.
    pub(crate) fn read(elf: &Elf, with_inlined: bool) -> Result<Option<Self>, Error> {
        let is_head = |bytes: &[u8]| head(bytes, elf.is_big_endian()).is_some();
        let Some((address, bytes)) = elf.go_table(MAX_TABLE, is_head)? else { return Ok(None) };
        let malformed = |what| elf.image_error(address, Problem::Malformed(what));
        let mut table = Self::parse(bytes, elf.is_big_endian())
            .ok_or_else(|| malformed("not as Go's linker writes it"))?;
        let knows_text = elf.is_code_at(table.text);
        if !table.layout.is_relative() || knows_text && !with_inlined {
            return Ok(Some(table));
        }
        let words = elf.go_words(table.pointer, WORDS, |word| table.is_of_module(word)).unwrap_or_default();
        if !knows_text {
            // Programs at any address, and those of Go 1.26, have it elsewhere.
            let text = words.get(TEXT).copied().filter(|&text| text != 0).or_else(|| elf.text_address());
            table.text = text.ok_or_else(|| malformed("its code is not found"))?;
        }
        if let (true, Some(places)) = (with_inlined, words.get(DATA)) {
            table.data = elf.go_data(places, |data| table.is_of_functions(data)).unwrap_or_default();
        }
        Ok(Some(table))
    }

    fn parse(bytes: Vec<u8>, is_big_endian: bool) -> Option<Self> {
        let (layout, quantum, pointer) = head(&bytes, is_big_endian)?;
        let mut table = GoTable {
            bytes,
            is_big_endian,
            layout,
            quantum,
            pointer,
            text: 0,
            count: 0,
            names: 0,
            names_end: 0,
            units: 0,
            files: 0,
            lists: 0,
            functions: 0,
            data: Vec::new(),
            left: AtomicUsize::new(MOST_STEPS),
        };
        let of_head = |number: usize| table.word(8 + number * pointer);
        let place =
            |number: usize| usize::try_from(of_head(number)?).ok().filter(|at| *at <= table.bytes.len());
        let count = usize::try_from(of_head(0)?).ok().filter(|&count| count <= MAX_FUNCTIONS)?;
        let after = usize::from(layout.is_relative());
        let mut parts = [0; 5];
        if layout != Layout::Whole {
            for (part, number) in parts.iter_mut().zip(2 + after..) {
                *part = place(number)?;
            }
        }
        let text = if after == 1 { of_head(2)? } else { 0 };
        (table.count, table.text) = (count, text);
        [table.names, table.units, table.files, table.lists, table.functions] = parts;
        table.names_end = table.units;
        if layout == Layout::Whole {
            table.functions = 8 + pointer;
            table.files = table.half(table.functions + (2 * count + 1) * pointer)? as usize;
            table.names_end = table.bytes.len();
        }
        // The end of the last function is there, too.
        table.begin(count)?;
        Some(table)
    }

    /// The pointer or number of a pointer's size at a place.
    fn word(&self, at: usize) -> Option<u64> {
        if self.pointer == 4 {
            return self.half(at).map(u64::from);
        }
        let word = *self.bytes.get(at..)?.first_chunk()?;
        Some(if self.is_big_endian { u64::from_be_bytes(word) } else { u64::from_le_bytes(word) })
    }

    /// The number of 32 bits at a place.
    fn half(&self, at: usize) -> Option<u32> {
        half(self.bytes.get(at..)?, self.is_big_endian)
    }

    /// Whether words of a program, each told by its number, are of the `moduledata` that belongs to this table.
    fn is_of_module(&self, word: &dyn Fn(usize) -> Option<u64>) -> bool {
        let (names, functions) = (self.names_end.saturating_sub(self.names) as u64, self.count as u64 + 1);
        // The part behind the names begins at a multiple of some bytes.
        let is = |number, len: u64, least: u64| {
            word(number).is_some_and(|word| (least..=len).contains(&word)) && word(number + 1) == word(number)
        };
        is(FUNCTIONS_LEN, functions, functions) && is(NAMES_LEN, names, names.saturating_sub(ALIGNED))
    }

    /// Bytes of an entry's half in the list of functions.
    fn width(&self) -> usize {
        if self.layout.is_relative() { 4 } else { self.pointer }
    }

    fn begin(&self, number: usize) -> Option<u64> {
        let at = self.functions + 2 * number * self.width();
        match self.layout.is_relative() {
            true => Some(self.text.wrapping_add(self.half(at)?.into())),
            false => self.word(at),
        }
    }

    fn function(&self, number: usize) -> Option<Function> {
        let at = self.functions + (2 * number + 1) * self.width();
        let facts = if self.width() == 4 { self.half(at)?.into() } else { self.word(at)? };
        let base = if self.layout == Layout::Whole { 0 } else { self.functions };
        let facts = base.checked_add(usize::try_from(facts).ok()?)?;
        Some(Function { number, begins: self.begin(number)?, ends: self.begin(number + 1)?, facts })
    }

    /// A fact of a function: 0 its name, 4 and 5 the lists of its files and lines, 7 its unit.
    fn fact(&self, of: &Function, number: usize) -> Option<usize> {
        self.half(of.facts.checked_add(self.width() + 4 * number)?).map(|fact| fact as usize)
    }

    fn text_at(&self, at: usize) -> Option<&str> {
        let rest = self.bytes.get(at..)?;
        let text = &rest[..rest.iter().take(1 << 16).position(|&byte| byte == 0)?];
        std::str::from_utf8(text).ok().filter(|text| !text.is_empty())
    }

    /// Adds the functions to a table of symbols.
    fn add_to(&self, to: &mut TableBuilder) -> Option<()> {
        let names = self.bytes.get(self.names..self.names_end)?;
        let base = to.push_strings(names.to_vec()).ok()?;
        for number in 0..self.count {
            let Some(function) = self.function(number) else { continue };
            let Some(name) = self.fact(&function, 0).filter(|&name| name < names.len()) else { continue };
            let Some(size) = function.ends.checked_sub(function.begins) else { continue };
            if size > 0 && names[name] != 0 {
                let (binding, kind) = (SymbolBinding::Global, SymbolKind::Function);
                to.push_named(function.begins, size, base + name as u32, binding, kind).ok()?;
            }
        }
        Some(())
    }

    /// Tells `found` of the functions at addresses, as [`DebugInfo::frames`](crate::DebugInfo::frames) does.
    pub(crate) fn frames(&self, addresses: &[u64], found: &mut dyn FnMut(usize, &SourceFrame<'_>)) {
        for (index, &address) in addresses.iter().enumerate() {
            let Some(function) = self.at(address) else { continue };
            let mut at = address;
            for _ in 0..MOST_INLINED {
                let Some(call) = self.inlined(&function, at) else { break };
                let declared = || Some(call.declared).filter(|&line| line != 0);
                let number = 1 << 32 | call.name as u64;
                self.frame(&function, at, (number, call.name, true), &declared, &mut |frame| {
                    found(index, frame)
                });
                at = function.begins.wrapping_add(call.parent);
            }
            let name = self.fact(&function, 0).unwrap_or(usize::MAX);
            let declared = || u32::try_from(self.value(&function, 5, function.begins)?).ok();
            let this = (function.number as u64, name, false);
            self.frame(&function, at, this, &declared, &mut |frame| found(index, frame));
        }
    }

    /// One function at an address: its number, where its name is, and whether it was inlined.
    fn frame(
        &self,
        function: &Function,
        address: u64,
        (number, name, is_inlined): (u64, usize, bool),
        declared: &dyn Fn() -> Option<u32>,
        found: &mut dyn FnMut(&SourceFrame<'_>),
    ) {
        let value = |list| self.value(function, list, address);
        found(&SourceFrame {
            function: Some(number),
            name: &|| self.text_at(self.names.checked_add(name)?).map(str::to_owned),
            is_inlined,
            file: value(4).and_then(|number| self.file(function, number)),
            line: value(5).and_then(|line| u32::try_from(line).ok()).unwrap_or(0),
            column: 0,
            discriminator: 0,
            declared,
        });
    }

    /// The innermost call that was inlined at an address of a function.
    fn inlined(&self, of: &Function, address: u64) -> Option<InlinedCall> {
        let tree = self.tree(of).filter(|_| !self.data.is_empty())?;
        let lists = self.fact(of, 6)?;
        let list = (INLINED_LIST < lists)
            .then(|| self.half(self.lists_of(of)?.checked_add(4 * INLINED_LIST)?))??;
        let number = if list == 0 { -1 } else { self.value_in(of, list as usize, address)? };
        self.call(&self.data, tree, usize::try_from(number).ok()?)
    }

    /// Where a function tells its further lists: behind what all functions tell.
    fn lists_of(&self, of: &Function) -> Option<usize> {
        let facts = if self.layout == Layout::Declared { 9 } else { 8 };
        // Four bytes more are the kind of function, flags, and how many data it has.
        of.facts.checked_add(self.width() + 4 * facts + 4)
    }

    /// Where in the data the calls that were inlined into a function are.
    fn tree(&self, of: &Function) -> Option<usize> {
        let lists_at = self.lists_of(of)?;
        let count = usize::from(*self.bytes.get(lists_at - 1)?);
        let at = lists_at.checked_add(self.fact(of, 6)?.checked_mul(4)?)?.checked_add(4 * INLINED_DATA)?;
        let place = (INLINED_DATA < count).then(|| self.half(at))??;
        (place != u32::MAX).then_some(place as usize)
    }

    fn call(&self, data: &[u8], tree: usize, number: usize) -> Option<InlinedCall> {
        let (size, name, parent) = if self.layout == Layout::Declared { (16, 4, 8) } else { (20, 12, 16) };
        let at = tree.checked_add(number.checked_mul(size)?)?;
        let half = |offset: usize| half(data.get(at.checked_add(offset)?..)?, self.is_big_endian);
        Some(InlinedCall {
            name: half(name)? as usize,
            parent: half(parent)?.into(),
            declared: if size == 16 { half(12)? } else { 0 },
        })
    }

    /// Whether data are those of the functions: each first call has a name, and is in the function.
    fn is_of_functions(&self, data: &[u8]) -> bool {
        let is_call = |of: &Function, call: InlinedCall| {
            let at = self.names.checked_add(call.name).filter(|&at| at < self.names_end);
            let begins = at.is_some_and(|at| at == self.names || self.bytes[at - 1] == 0);
            begins && call.parent < of.ends.wrapping_sub(of.begins)
        };
        let functions = (0..self.count).filter_map(|number| self.function(number));
        let trees = functions.filter_map(|of| self.tree(&of).map(|tree| (of, tree)));
        let mut asked = trees.take(ENOUGH).peekable();
        asked.peek().is_some()
            && asked.all(|(of, tree)| self.call(data, tree, 0).is_some_and(|call| is_call(&of, call)))
    }

    /// The function at an address.
    fn at(&self, address: u64) -> Option<Function> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.begin(middle)? <= address { low = middle + 1 } else { high = middle }
        }
        self.function(low.checked_sub(1)?).filter(|function| address < function.ends)
    }

    /// The value that a list of a function has for an address. The list is pairs of differences, first of the value, from -1 on, then of the
    /// address up to which it holds.
    fn value(&self, of: &Function, list: usize, address: u64) -> Option<i64> {
        self.value_in(of, self.fact(of, list)?, address)
    }

    /// The same in the list at a place.
    fn value_in(&self, of: &Function, list: usize, address: u64) -> Option<i64> {
        let mut at = self.lists.checked_add(list)?;
        let (mut value, mut end) = (-1i64, of.begins);
        loop {
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).ok()?;
            let more = self.variable(&mut at)?;
            if more == 0 && end != of.begins {
                return None;
            }
            // The sign is the lowest bit.
            value = value.checked_add(i64::from(more >> 1) ^ -i64::from(more & 1))?;
            end = end.checked_add(u64::from(self.variable(&mut at)?) * self.quantum)?;
            if address < end {
                return Some(value);
            }
        }
    }

    /// A number in as many bytes as it needs.
    fn variable(&self, at: &mut usize) -> Option<u32> {
        let mut number = 0;
        for shift in (0..35).step_by(7) {
            let byte = *self.bytes.get(*at)?;
            *at += 1;
            number |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn file(&self, of: &Function, number: i64) -> Option<&str> {
        let number = usize::try_from(number).ok()?;
        let at = match self.layout {
            Layout::Whole => self.half(self.files.checked_add(number.checked_mul(4)?)?)? as usize,
            _ => {
                let entry = self.fact(of, 7)?.checked_add(number)?.checked_mul(4)?;
                let place = self.half(self.units.checked_add(entry)?).filter(|&place| place != u32::MAX)?;
                self.files.checked_add(place as usize)?
            }
        };
        self.text_at(at)
    }
}

impl std::fmt::Debug for GoTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GoTable").field("functions", &self.count).finish_non_exhaustive()
    }
}

impl Elf {
    /// Adds the functions of a program in Go; false if it is none.
    pub(crate) fn add_go(&self, to: &mut TableBuilder) -> Result<bool, Error> {
        let Some(table) = GoTable::read(self, false)? else { return Ok(false) };
        Ok(table.add_to(to).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Writes a table.
    struct Made {
        is_big_endian: bool,
        pointer: usize,
        bytes: Vec<u8>,
    }

    impl Made {
        fn half(&mut self, value: usize) {
            let value = value as u32;
            self.bytes.extend(if self.is_big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
        }

        fn word(&mut self, value: usize) {
            let value = value as u64;
            match (self.pointer, self.is_big_endian) {
                (4, _) => self.half(value as usize),
                (_, true) => self.bytes.extend(value.to_be_bytes()),
                (_, false) => self.bytes.extend(value.to_le_bytes()),
            }
        }

        /// Two functions of 16 and 32 bytes: `main.work` has lines 10, 11 and 9, `main.main` is of another file.
        fn table(layout: Layout, is_big_endian: bool, pointer: usize) -> Vec<u8> {
            let (names, files) = (b"\0main.work\0main.main\0", b"\0/a/work.go\0/a/main.go\0");
            // Files 1 and 2, lines; differences of values have their signs in the lowest bit, addresses are in fours.
            // The last list is of inlined calls: none but in the first four bytes.
            let lists: [&[u8]; 6] =
                [&[0], &[4, 4, 0], &[6, 8, 0], &[22, 1, 2, 1, 3, 2, 0], &[200, 1, 8, 0], &[2, 1, 1, 3, 0]];
            // Where the name, the list of files and that of lines are.
            let functions = [(1, 1, 7), (11, 4, 14)];
            let text = 0x1000;
            let mut made = Made { is_big_endian, pointer, bytes: Vec::new() };
            let magic = [0xffff_fffb, 0xffff_fffa, 0xffff_fff1][layout as usize];
            made.half(magic);
            made.bytes.extend([0, 0, 4, pointer as u8]);
            let head = 8 + pointer * [1, 7, 8][layout as usize];
            let functions_len = 5 * if layout == Layout::Relative { 4 } else { pointer };
            let (names_at, files_at, lists_at, units_at, functions_at);
            if layout == Layout::Whole {
                functions_at = head;
                names_at = head + functions_len + 4;
            } else {
                functions_at = head + names.len() + 12 + files.len() + lists.concat().len();
                names_at = head;
            }
            // Units, or the list of files: their first is none.
            units_at = names_at + names.len();
            files_at = units_at + 12;
            lists_at = files_at + files.len();
            let parts = |made: &mut Made| {
                made.bytes.extend(names);
                let base = if layout == Layout::Whole { files_at } else { 0 };
                made.half(0);
                made.half(base + 1);
                made.half(base + 12);
                made.bytes.extend(files);
                made.bytes.extend(lists.concat());
            };
            made.word(2);
            if layout != Layout::Whole {
                made.word(2);
                if layout == Layout::Relative {
                    made.word(text);
                }
                for at in [names_at, units_at, files_at, lists_at, functions_at] {
                    made.word(at);
                }
                parts(&mut made);
            }
            let base = if layout == Layout::Whole { lists_at + lists.concat().len() } else { functions_len };
            let fact_bytes = if layout == Layout::Relative { 4 + 8 + 12 + 16 } else { pointer } + 32;
            let begins = [text, text + 16, text + 48];
            for (number, begin) in begins.into_iter().enumerate() {
                let fields = [begin, base + number * fact_bytes];
                for value in fields.into_iter().take(if number == 2 { 1 } else { 2 }) {
                    match layout {
                        Layout::Relative => made.half(if value >= text { value - text } else { value }),
                        _ => made.word(value),
                    }
                }
            }
            if layout == Layout::Whole {
                made.half(units_at);
                parts(&mut made);
            }
            let whole = layout == Layout::Whole;
            for (begin, (name, file, line)) in begins.into_iter().zip(functions) {
                match layout {
                    Layout::Relative => made.half(begin - text),
                    _ => made.word(begin),
                }
                let (names, lists) = if whole { (names_at, lists_at) } else { (0, 0) };
                let is_newest = layout == Layout::Relative;
                for fact in
                    [names + name, 0, 0, lists, lists + file, lists + line, 3 * usize::from(is_newest), 0]
                {
                    made.half(fact);
                }
                if is_newest {
                    // The line of its declaration, its kind and how many data it has, its further lists, and its data.
                    made.half(line);
                    made.bytes.extend([0, 0, 0, 4]);
                    [0, 0, 18].into_iter().for_each(|list| made.half(if begin == text { list } else { 0 }));
                    let tree = if begin == text { 0 } else { !0 };
                    [!0, !0, !0, tree].into_iter().for_each(|data| made.half(data));
                }
            }
            made.bytes
        }
    }

    fn told(table: &GoTable, address: u64) -> Option<(String, Option<String>, u32)> {
        let mut told = None;
        table.frames(&[address], &mut |_, frame| {
            told = Some(((frame.name)().unwrap_or_default(), frame.file.map(str::to_owned), frame.line));
        });
        told
    }

    fn each() -> impl Iterator<Item = Vec<u8>> {
        let layouts = [Layout::Whole, Layout::Parts, Layout::Relative];
        let ways = layouts.into_iter().flat_map(|layout| [(layout, 4), (layout, 8)]);
        ways.flat_map(|(layout, pointer)| [false, true].map(|is_big| Made::table(layout, is_big, pointer)))
    }

    fn order(bytes: &[u8]) -> bool {
        bytes[0] == 0xff
    }

    #[test]
    fn functions_and_lines_of_each_layout() {
        for bytes in each() {
            let table = GoTable::parse(bytes.clone(), order(&bytes)).expect("a table");
            let at = |address| {
                let (name, file, line) = told(&table, address)?;
                Some(format!("{name} {}:{line}", file?))
            };
            let layout = table.layout;
            for (address, expected) in [
                (0xfff, None),
                (0x1000, Some("main.work /a/work.go:10")),
                (0x1004, Some("main.work /a/work.go:11")),
                (0x100f, Some("main.work /a/work.go:9")),
                (0x1010, Some("main.main /a/main.go:99")),
                (0x102f, Some("main.main /a/main.go:99")),
                (0x1030, None),
            ] {
                assert_eq!(at(address).as_deref(), expected, "{layout:?} {address:#x}");
            }
            let mut builder = TableBuilder::default();
            table.add_to(&mut builder).expect("room");
            let symbols = builder.finish(&[]);
            let all: Vec<_> = symbols
                .iter()
                .map(|symbol| (symbol.start, symbol.size, symbol.name().into_owned()))
                .collect();
            let expected = [(0x1000, 16, "main.work".to_owned()), (0x1010, 32, "main.main".to_owned())];
            assert_eq!(all, expected, "{layout:?}");
        }
    }

    /// `main.main`, declared on line 77, called from `main.work` where that has line 11.
    const INLINED: [u32; 4] = [0, 11, 4, 77];

    #[test]
    fn inlined_calls_come_before_who_called() {
        for is_big_endian in [false, true] {
            let bytes = Made::table(Layout::Relative, is_big_endian, 8);
            let mut table = GoTable::parse(bytes, is_big_endian).expect("a table");
            assert!(!table.is_of_functions(&table.data));
            let order = |half: u32| if is_big_endian { half.to_be_bytes() } else { half.to_le_bytes() };
            table.data = INLINED.map(order).concat();
            assert!(table.is_of_functions(&table.data));
            let chain = |address| {
                let mut told = Vec::new();
                table.frames(&[address], &mut |_, frame| {
                    let declared = (frame.declared)();
                    told.push(((frame.name)().unwrap_or_default(), frame.is_inlined, frame.line, declared));
                });
                told
            };
            let inlined = ("main.main".to_owned(), true, 10, Some(77));
            assert_eq!(chain(0x1000), [inlined, ("main.work".to_owned(), false, 11, Some(10))]);
            assert_eq!(chain(0x1004), [("main.work".to_owned(), false, 11, Some(10))]);
            assert_eq!(chain(0x1010), [("main.main".to_owned(), false, 99, Some(99))]);
            // Data of something else.
            table.data = [0, 12, 4, 77].map(order).concat();
            assert!(!table.is_of_functions(&table.data));
        }
    }

    #[test]
    fn lists_without_an_end_are_left() {
        let mut table = GoTable::parse(Made::table(Layout::Relative, false, 8), false).expect("a table");
        // The addresses of this one do not move.
        let work = table.function(0).expect("main.work");
        let (fact, list) = (work.facts + table.width() + 4 * 5, table.bytes.len() - table.lists);
        table.bytes[fact..fact + 4].copy_from_slice(&(list as u32).to_le_bytes());
        table.bytes.extend([2, 0].repeat(1000));
        table.left = AtomicUsize::new(500);
        assert_eq!(told(&table, 0x100f), Some(("main.work".into(), Some("/a/work.go".into()), 0)));
        assert_eq!(table.left.load(Ordering::Relaxed), 0);
    }

    proptest! {
        #[test]
        fn nothing_of_a_table_is_trusted(which in 0..12usize, len in 0..500usize, changes in prop::collection::vec((0..400usize, any::<u8>()), 0..6), calls in prop::collection::vec((0..30u32, 0..30u32), 0..4)) {
            let mut bytes = each().nth(which).expect("twelve ways");
            let is_big_endian = order(&bytes);
            for (at, byte) in changes {
                if let Some(place) = bytes.get_mut(at) { *place = byte }
            }
            bytes.truncate(len);
            if let Some(mut table) = GoTable::parse(bytes, is_big_endian) {
                table.data = calls.iter().flat_map(|&(name, parent)| [0, name, parent, 0].map(u32::to_le_bytes)).flatten().collect();
                table.is_of_functions(&table.data);
                (0xff0..0x1040).for_each(|address| drop(told(&table, address)));
                let mut builder = TableBuilder::default();
                let _ = table.add_to(&mut builder);
            }
        }
    }
}
