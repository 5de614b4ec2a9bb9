//! Unwinding tables, code and stacks from arbitrary bytes: neither makes a caller's search panic or go on for long.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perfuse_abi::ByteOrder;
use perfuse_abi::record::{Regs, RegsAbi};
use perfuse_abi::regs::Arch;
use perfuse_symbols::UnwindSections;
use perfuse_unwind::{Registers, Stack, Tables, caller_by_code};

fuzz_target!(|bytes: &[u8]| {
    let [kind, size, rest @ ..] = bytes else { return };
    let (stack, table) = rest.split_at(rest.len().min(usize::from(*size)));
    let (arch, is_debug) = (if kind & 1 == 0 { Arch::X86_64 } else { Arch::Arm64 }, kind & 2 != 0);
    let mut sections =
        UnwindSections { eh_frame_address: 0x2000, text_address: 0x1000, ..UnwindSections::default() };
    match is_debug {
        true => sections.debug_frame = table.to_vec(),
        false => sections.eh_frame = table.to_vec(),
    }
    let tables = Tables::new(sections, kind & 4 != 0);
    let mut read = |at: u64, into: &mut [u8]| {
        let rest =
            at.checked_sub(0x7000).and_then(|at| table.get(usize::try_from(at).ok()?..)).unwrap_or_default();
        let len = rest.len().min(into.len());
        into[..len].copy_from_slice(&rest[..len]);
        len
    };
    let words = [0x7000u64; 33];
    let regs = Regs { abi: RegsAbi::ABI_64, mask: arch.general_mask(), words: words[..].into() };
    let Some(first) = Registers::of(&regs, arch) else { return };
    let stack = Stack { start: 0x7000, bytes: stack, order: ByteOrder::Little };
    // All registers are 0x7000, the place is one of them.
    let _ = [true, false].map(|is_exact| caller_by_code(&mut read, &first, &stack, is_exact));
    for place in (0x1000..0x1100).chain([0, 1, u64::MAX]) {
        let (mut registers, mut place) = (first, place);
        for depth in 0..16 {
            let Some(Ok(caller)) = tables.caller(place, &registers, &stack, depth == 0) else { break };
            (registers, place) = (caller, caller.ip().unwrap_or(0));
        }
    }
});
