//! The unwinding tables of an object: the entry for an address, and what it says.

use crate::registers::Registers;
use crate::rules::{Rule, Slice};
use crate::stack::{End, Stack};
use gimli::{
    BaseAddresses, CieOrFde, CommonInformationEntry, DebugFrame, EhFrame, EndianSlice, RunTimeEndian,
    Section, UnwindContext, UnwindOffset, UnwindSection, UnwindTableRow,
};
use perfuse_symbols::{Elf, Error, UnwindSections};

/// More entries of an object than this are left out.
const MOST_ENTRIES: usize = 1 << 22;
/// Entries with more instructions, in bytes, say nothing: those of compilers have hundreds.
const MOST_INSTRUCTIONS: usize = 1 << 16;

/// The tables of a program or library.
#[derive(Debug)]
pub struct Tables {
    sections: UnwindSections,
    endian: RunTimeEndian,
    bases: BaseAddresses,
    /// By address.
    entries: Vec<Entry>,
}

/// The table of a stretch of code.
#[derive(Clone, Copy, Debug)]
struct Entry {
    begin: u64,
    end: u64,
    /// Its place in its section.
    offset: usize,
    in_debug_frame: bool,
}

impl Tables {
    /// Those of a file, and of its debug file where that is another one.
    ///
    /// # Errors
    ///
    /// A section cannot be read.
    pub fn of(elf: &Elf, debug: Option<&Elf>) -> Result<Self, Error> {
        let mut sections = elf.unwind_sections()?;
        if let (true, Some(debug)) = (sections.debug_frame.is_empty(), debug) {
            sections.debug_frame = debug.unwind_sections()?.debug_frame;
        }
        Ok(Self::new(sections, elf.is_big_endian()))
    }

    /// Of the bytes of sections.
    pub fn new(sections: UnwindSections, is_big_endian: bool) -> Self {
        let endian = if is_big_endian { RunTimeEndian::Big } else { RunTimeEndian::Little };
        let bases = BaseAddresses::default()
            .set_eh_frame(sections.eh_frame_address)
            .set_text(sections.text_address)
            .set_got(sections.got_address);
        let mut tables = Tables { sections, endian, bases, entries: Vec::new() };
        let mut entries = Vec::new();
        list(&tables.eh_frame(), &tables.bases, false, &mut entries);
        list(&tables.debug_frame(), &tables.bases, true, &mut entries);
        // Of two for the same place the one that is loaded with the program counts.
        entries.sort_by_key(|entry: &Entry| (entry.begin, entry.in_debug_frame));
        entries.dedup_by_key(|entry| entry.begin);
        tables.entries = entries;
        tables
    }

    fn eh_frame(&self) -> EhFrame<Slice<'_>> {
        let mut section = EhFrame::from(EndianSlice::new(&self.sections.eh_frame, self.endian));
        section.set_address_size(8);
        section
    }

    fn debug_frame(&self) -> DebugFrame<Slice<'_>> {
        let mut section = DebugFrame::from(EndianSlice::new(&self.sections.debug_frame, self.endian));
        section.set_address_size(8);
        section
    }

    /// The memory they take.
    pub(crate) fn bytes(&self) -> usize {
        let sections = self.sections.eh_frame.len() + self.sections.debug_frame.len();
        sections + self.entries.capacity() * size_of::<Entry>()
    }

    /// How many stretches of code they tell of.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Hands over what the table of a stretch of code says, from its beginning on, as far as it can be read.
    pub(crate) fn each_row(&self, index: usize, visit: impl FnMut(&UnwindTableRow<usize>)) {
        let Some(entry) = self.entries.get(index) else { return };
        match entry.in_debug_frame {
            false => rows(&self.eh_frame(), &self.bases, entry.offset.into(), visit),
            true => rows(&self.debug_frame(), &self.bases, entry.offset.into(), visit),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The registers of the caller of what is at an address, as the object's symbols count. `None` if no table tells of the
    /// address. `is_exact` if the thread is there, and did not make a call before it.
    pub fn caller(
        &self,
        address: u64,
        registers: &Registers,
        stack: &Stack<'_>,
        is_exact: bool,
    ) -> Option<Result<Registers, End>> {
        Some(self.rule(address)?.apply(registers, stack, is_exact))
    }

    /// What the tables say at an address, as the object's symbols count.
    pub(crate) fn rule(&self, address: u64) -> Option<Rule> {
        let after = self.entries.partition_point(|entry| entry.begin <= address);
        let entry = self.entries[..after].last().filter(|entry| address < entry.end)?;
        match entry.in_debug_frame {
            false => rule(
                &self.eh_frame(),
                (&self.sections.eh_frame, self.endian),
                &self.bases,
                entry.offset.into(),
                address,
            ),
            true => rule(
                &self.debug_frame(),
                (&self.sections.debug_frame, self.endian),
                &self.bases,
                entry.offset.into(),
                address,
            ),
        }
    }
}

/// Lists the entries of a section, as far as it can be read.
fn list<'t, S>(section: &S, bases: &BaseAddresses, in_debug_frame: bool, list: &mut Vec<Entry>)
where
    S: UnwindSection<Slice<'t>> + Section<Slice<'t>>,
{
    let mut last: Option<CommonInformationEntry<Slice<'t>>> = None;
    let mut entries = section.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let fde = match entry {
            CieOrFde::Cie(cie) => {
                last = Some(cie);
                continue;
            }
            CieOrFde::Fde(partial) => partial.parse(|section, bases, offset| {
                let place: usize = UnwindOffset::into(offset);
                match &last {
                    Some(cie) if cie.offset() == place => Ok(cie.clone()),
                    _ => {
                        let cie = section.cie_from_offset(bases, offset)?;
                        last = Some(cie.clone());
                        Ok(cie)
                    }
                }
            }),
        };
        let Ok(fde) = fde else { continue };
        let (begin, end) = (fde.initial_address(), fde.initial_address().saturating_add(fde.len()));
        // An address of 0 is that of code that the linker left out.
        if begin != 0 && begin < end && fde.entry_len() <= MOST_INSTRUCTIONS && list.len() < MOST_ENTRIES {
            list.push(Entry { begin, end, offset: fde.offset(), in_debug_frame });
        }
    }
}

fn rows<'t, S>(
    section: &S,
    bases: &BaseAddresses,
    offset: S::Offset,
    mut visit: impl FnMut(&UnwindTableRow<usize>),
) where
    S: UnwindSection<Slice<'t>>,
{
    let Ok(fde) = section.fde_from_offset(bases, offset, S::cie_from_offset) else { return };
    let mut context = UnwindContext::new();
    let Ok(mut table) = fde.rows(section, bases, &mut context) else { return };
    while let Ok(Some(row)) = table.next_row() {
        visit(row);
    }
}

fn rule<'t, S>(
    section: &S,
    bytes: (&[u8], RunTimeEndian),
    bases: &BaseAddresses,
    offset: S::Offset,
    address: u64,
) -> Option<Rule>
where
    S: UnwindSection<Slice<'t>>,
{
    let fde = section.fde_from_offset(bases, offset, S::cie_from_offset).ok()?;
    let mut context = UnwindContext::new();
    let row = fde.unwind_info_for_address(section, bases, &mut context, address).ok()?;
    Rule::of(row, &fde, bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use perfuse_abi::ByteOrder;
    use perfuse_abi::record::{Regs, RegsAbi};
    use perfuse_abi::regs::Arch;
    use perfuse_symbols::UnwindSections;

    /// A table for code from 0x1000 on, 0x20 bytes: one push in its first byte, and then 24 bytes more on the stack.
    fn made() -> Tables {
        made_of(&[
            &[0x41, 0x0e, 16], // from the next byte on CFA is r7+16
            &[0x83, 2],        // and register 3 at CFA-16
            &[0x44, 0x0e, 40], // 4 bytes on r7+40
        ])
    }

    /// A table for the same code, of these instructions.
    pub(crate) fn made_of(instructions: &[&[u8]]) -> Tables {
        let instructions = instructions.concat();
        let cie = [
            &[0, 0, 0, 0, 1][..], // id and version
            b"zR\0",
            &[1, 0x78, 16, 1, 0x1b], // factors 1 and -8, register 16, addresses relative in 4 bytes
            &[0x0c, 7, 8, 0x90, 1],  // CFA is r7+8, register 16 is at CFA-8
            &[0; 2],
        ]
        .concat();
        let begin = 0x1000 - (0x2000 + 4 + cie.len() as i32 + 8);
        let fde = [
            &(cie.len() as u32 + 8).to_le_bytes()[..],
            &begin.to_le_bytes(),
            &0x20u32.to_le_bytes(),
            &[0], // nothing more
            &instructions,
            &vec![0; instructions.len().wrapping_neg() % 4 + 3],
        ]
        .concat();
        let entry = |bytes: &[u8]| [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat();
        let eh_frame = [entry(&cie), entry(&fde), vec![0; 4]].concat();
        let sections = UnwindSections { eh_frame, eh_frame_address: 0x2000, ..UnwindSections::default() };
        Tables::new(sections, false)
    }

    fn registers(values: &[(u32, u64)]) -> Registers {
        let mut values = values.to_vec();
        values.sort_unstable();
        let mask = values.iter().fold(0, |mask, (bit, _)| mask | 1 << bit);
        let words: Vec<u64> = values.iter().map(|(_, value)| *value).collect();
        Registers::of(&Regs { abi: RegsAbi::ABI_64, mask, words: words[..].into() }, Arch::X86_64)
            .expect("64 bits")
    }

    #[test]
    fn a_caller_is_found_from_each_instruction() {
        let tables = made();
        let word = |value: u64| value.to_le_bytes();
        // sp is 0x7000 at the call, whose return address is at 0x6ff8; the push is at 0x6ff0.
        let bytes: Vec<u8> = [0u64; 3].into_iter().chain([0x33, 0x4444, 0]).flat_map(word).collect();
        for (place, start) in [(0x1000, 0x6ff8), (0x1001, 0x6ff0), (0x1004, 0x6ff0), (0x1005, 0x6fd8)] {
            let rule = tables.rule(place).expect("a rule");
            let stack = Stack { start: 0x6fd8, bytes: &bytes, order: ByteOrder::Little };
            let here = registers(&[(1, 0x99), (7, start), (8, place)]);
            let caller = rule.apply(&here, &stack, true).expect("a caller");
            let pushed = if place == 0x1000 { 0x99 } else { 0x33 };
            assert_eq!(
                (caller.ip(), caller.sp(), caller.get(3)),
                (Some(0x4444), Some(0x7000), Some(pushed)),
                "{place:#x}"
            );
        }
        assert!(tables.rule(0xfff).is_none() && tables.rule(0x1020).is_none());
    }

    #[test]
    fn a_stack_that_ends_says_so() {
        let tables = made();
        let rule = tables.rule(0x1000).expect("a rule");
        let stack = Stack { start: 0x6ff8, bytes: &[1, 2, 3], order: ByteOrder::Little };
        let here = registers(&[(7, 0x6ff8), (8, 0x1000)]);
        assert_eq!(rule.apply(&here, &stack, true).err(), Some(End::Stack));
        let zeros = Stack { bytes: &[0; 64], ..stack };
        assert_eq!(rule.apply(&here, &zeros, true).err(), Some(End::Root));
        let nowhere = registers(&[(8, 0x1000)]);
        assert_eq!(rule.apply(&nowhere, &zeros, true).err(), Some(End::Unknown));
    }

    #[test]
    fn a_register_that_was_popped_is_known_where_the_thread_is_and_nowhere_above() {
        let rule = made().rule(0x1001).expect("a rule");
        // Register 3 was pushed to 0x6ff0, below the copy.
        let bytes: Vec<u8> = [0x4444u64, 0].into_iter().flat_map(u64::to_le_bytes).collect();
        let stack = Stack { start: 0x6ff8, bytes: &bytes, order: ByteOrder::Little };
        let here = registers(&[(1, 0x99), (7, 0x6ff0), (8, 0x1001)]);
        for (is_exact, value) in [(true, Some(0x99)), (false, None)] {
            let caller = rule.apply(&here, &stack, is_exact).expect("a caller");
            assert_eq!((caller.ip(), caller.get(3)), (Some(0x4444), value));
        }
    }

    #[test]
    fn a_caller_that_is_its_own_ends_the_stack() {
        // CFA is r7+0, so that the return address lies below the stack pointer.
        let rule = made_of(&[&[0x0e, 0]]).rule(0x1000).expect("a rule");
        let here = registers(&[(7, 0x7000), (8, 0x1000)]);
        let apply = |back: u64| {
            let stack = Stack { start: 0x6ff8, bytes: &back.to_le_bytes(), order: ByteOrder::Little };
            rule.apply(&here, &stack, true).map(|caller| caller.ip())
        };
        assert_eq!(apply(0x1000).err(), Some(End::Loop));
        assert_eq!(apply(0x1008).ok(), Some(Some(0x1008)));
    }

    proptest::proptest! {
        #[test]
        fn any_table_and_stack_end(bytes in proptest::collection::vec(0u8.., 0..400), at in 0usize..60, sp in 0u64..) {
            // Real tables with some bytes changed go further than bytes without any order.
            let mut sections = UnwindSections { eh_frame: bytes.clone(), ..UnwindSections::default() };
            Tables::new(sections.clone(), false);
            let mut damaged = made_bytes();
            for (place, byte) in damaged.iter_mut().skip(at).zip(&bytes).take(3) {
                *place = *byte;
            }
            sections.eh_frame = damaged;
            sections.eh_frame_address = 0x2000;
            let tables = Tables::new(sections, false);
            let stack = Stack { start: sp, bytes: &bytes, order: ByteOrder::Little };
            for place in 0x1000..0x1020 {
                let here = registers(&[(7, sp), (8, place), (6, sp)]);
                if let Some(rule) = tables.rule(place) {
                    let _ = rule.apply(&here, &stack, place % 2 == 0);
                }
            }
        }
    }

    fn made_bytes() -> Vec<u8> {
        made().sections.eh_frame
    }
}
