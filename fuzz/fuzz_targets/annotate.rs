//! Functions of arbitrary ELF files: code, lines and inlined calls never panic, take bounded time, and lose no sample. Arbitrary
//! bytes are instructions without gaps, of either machine.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perfuse_annotate::{Arch, Cost, Function, Parts, Syntax, annotate, disassemble};
use perfuse_symbols::{DebugInfo, Elf, SymbolOptions};
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    for arch in [Arch::X86_64, Arch::X86, Arch::Arm64] {
        for syntax in [Syntax::Att, Syntax::Intel] {
            let list = disassemble(&bytes[..bytes.len().min(512)], 0x1000, arch, syntax);
            let len: usize = list.iter().map(|instruction| instruction.len).sum();
            assert_eq!(len, bytes.len().min(512));
        }
    }
    let Ok(elf) = Elf::from_bytes("input", bytes.to_vec()) else { return };
    let mut options = SymbolOptions::default();
    options.debug_dirs.clear();
    let info = DebugInfo::of(&elf, Path::new("/nonexistent/input"), &options).ok().flatten();
    for start in [0x1000u64, 0x1139, 0x401000, 0x401126, u64::MAX - 3] {
        let cost = Cost { weight: 10, samples: 1 };
        let places: [u64; 4] = [0, 3, 0x40, u64::MAX];
        let function = Function {
            name: "input".to_owned(),
            start,
            size: 0x100,
            cost: Cost { weight: 40, samples: 4 },
            places: places.into_iter().map(|place| (place, cost)).collect(),
            ..Function::default()
        };
        let code = elf.code(start, function.size);
        let why = code.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let symbol = |address: u64| Some((format!("f{address:x}"), 1));
        let parts = Parts {
            code: Some(code.as_ref().map_err(|_| why.as_str())),
            lines: info.as_ref().map(|info| (info, 0)),
            symbol: Some(&symbol),
            ..Parts::default()
        };
        let annotated = annotate(&function, &parts);
        let mut sum = annotated.cut_cost;
        annotated.instructions.iter().for_each(|instruction| sum += instruction.cost);
        assert_eq!(sum, function.cost);
        assert!(annotated.inlined.iter().all(|call| call.cost.samples <= 4));
    }
});
