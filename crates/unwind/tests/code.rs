//! Callers that are found by what code is going to do, compared with those that unwinding tables tell of, in a library that has both.

use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, LittleEndian, UnwindSection};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};
use perfuse_abi::ByteOrder;
use perfuse_abi::record::{Regs, RegsAbi};
use perfuse_abi::regs::Arch;
use perfuse_symbols::Elf;
use perfuse_testkit::{Outcome, Skip};
use perfuse_unwind::{End, Registers, Stack, Tables, caller_by_code};
use std::ops::Range;
use std::path::Path;

perfuse_testkit::suite! {
    witnesses:
        callers_are_those_of_the_tables_of_the_c_library;
}

/// The stack: each word is its own address.
const STACK: Range<u64> = 0x7f_0000..0x7f_8000;

/// `rbx` is 3, `r12` and those behind it are 12 and more, `rbp` is in the stack.
fn registers(at: u64, sp: u64) -> Registers {
    let bp = STACK.start + 0x4000;
    // In perf's order: bx, bp, sp, ip, and r12 to r15.
    let mask = 1 << 1 | 1 << 6 | 1 << 7 | 1 << 8 | 0xf << 20;
    let words = [3, bp, sp, at, 12, 13, 14, 15];
    let regs = Regs { abi: RegsAbi::ABI_64, mask, words: words[..].into() };
    Registers::of(&regs, Arch::X86_64).expect("64 bits")
}

/// All that a caller's frame may be counted from.
fn told(caller: Result<Registers, End>) -> Option<Vec<Option<u64>>> {
    let caller = caller.ok()?;
    Some([16, 7, 3, 6, 12, 13, 14, 15].map(|number| caller.get(number)).to_vec())
}

/// How often both say the same, something else, and nothing is found by the code.
#[derive(Debug, Default)]
struct Sums {
    same: usize,
    other: usize,
    none: usize,
}

fn callers_are_those_of_the_tables_of_the_c_library() -> Outcome {
    let places = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/usr/lib/libc.so.6"];
    let named = std::env::var("PERFUSE_LIBRARY").ok();
    let place = named.as_deref().or_else(|| places.into_iter().find(|place| Path::new(place).exists()));
    let place =
        place.ok_or_else(|| Skip::needs("a C library for x86-64", "there is none in the usual places"))?;
    let elf = Elf::open(Path::new(place)).expect("an ELF file");
    let sections = elf.unwind_sections().expect("tables");
    let tables = Tables::new(sections.clone(), false);
    let stack: Vec<u8> = STACK.step_by(8).flat_map(u64::to_le_bytes).collect();
    let stack = Stack { start: STACK.start, bytes: &stack, order: ByteOrder::Little };
    let mut read = |at: u64, into: &mut [u8]| {
        let bytes = elf.code(at, into.len() as u64).map_or(Vec::new(), |code| code.bytes);
        into[..bytes.len()].copy_from_slice(&bytes);
        bytes.len()
    };
    let [mut exact, mut called] = [Sums::default(), Sums::default()];
    let mut count = |sums: &mut Sums, (place, at): (u64, u64), is_exact: bool| {
        let caller_at = |sp| told(tables.caller(place, &registers(at, sp), &stack, is_exact)?);
        // The stack is whole where the caller called; frames that are counted from `rbp` say nothing of where `rsp` is.
        let both = [0x1000, 0x1008].map(|more| (STACK.start + more, caller_at(STACK.start + more)));
        let is_by_sp = both[0].1.as_ref().map(|told| told[1]) != both[1].1.as_ref().map(|told| told[1]);
        let fits = |told: &Vec<Option<u64>>| told[1].is_some_and(|sp| sp % 16 == 0);
        let whole = both.into_iter().find_map(|(sp, told)| Some((sp, told.filter(fits)?)));
        let Some((sp, caller)) = whole.filter(|_| is_by_sp) else { return };
        // A register that was popped is said to be where it was, below the stack.
        let is_same = |found: &[Option<u64>]| {
            let below = |told: &Option<u64>| told.is_some_and(|at| STACK.contains(&at) && at < sp);
            found.iter().zip(&caller).all(|(found, told)| found == told || below(told))
        };
        match caller_by_code(&mut read, &registers(at, sp), &stack, is_exact).and_then(told) {
            Some(found) if is_same(&found) => sums.same += 1,
            Some(found) => {
                sums.other += 1;
                if sums.other <= 10 {
                    eprintln!("{at:#x} exact {is_exact}: {found:x?}, and the table {caller:x?}");
                }
            }
            None => sums.none += 1,
        }
    };
    for Range { start, end } in functions(&sections.eh_frame, sections.eh_frame_address) {
        let bytes = elf.code(start, end - start).map_or(Vec::new(), |code| code.bytes);
        let mut decoder = Decoder::with_ip(64, &bytes, start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            let at = instruction.ip();
            if instruction.mnemonic() == Mnemonic::Call {
                count(&mut called, (at + instruction.len() as u64 - 1, instruction.next_ip()), false);
            }
            // Not each one: there are half a million.
            if at % 7 == 0 {
                count(&mut exact, (at, at), true);
            }
        }
    }
    eprintln!("{place}: of instructions {exact:?}, of calls {called:?}");
    // Registers of a caller that are not known where ways meet count as others, too.
    for (sums, of) in [(exact, 100), (called, 400)] {
        assert!(sums.same > 1000 && sums.none * 4 <= sums.same, "{sums:?}");
        assert!(sums.other * of <= sums.same, "{sums:?}");
    }
    Ok(())
}

/// The stretches of code that tables tell of.
fn functions(bytes: &[u8], address: u64) -> Vec<Range<u64>> {
    let mut section = EhFrame::from(EndianSlice::new(bytes, LittleEndian));
    section.set_address_size(8);
    let bases = BaseAddresses::default().set_eh_frame(address);
    let (mut entries, mut all) = (section.entries(&bases), Vec::new());
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(fde) = partial.parse(|section, bases, offset| section.cie_from_offset(bases, offset)) else {
            continue;
        };
        all.push(fde.initial_address()..fde.initial_address() + fde.len());
    }
    all
}
