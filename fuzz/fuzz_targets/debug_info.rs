//! Debug information from arbitrary bytes: functions, inlined functions and lines of any address never panic, take bounded time,
//! and are the same one by one and all at once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perfuse_symbols::{DebugInfo, Elf, SymbolOptions};
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let Ok(elf) = Elf::from_bytes("input", bytes.to_vec()) else { return };
    let mut options = SymbolOptions::default();
    options.debug_dirs.clear();
    let Ok(Some(info)) = DebugInfo::of(&elf, Path::new("/nonexistent/input"), &options) else { return };
    let places = [0x1000u64, 0x1139, 0x1150, 0x2000, 0x401000, 0x401126, u64::MAX];
    let addresses: Vec<u64> = places.iter().flat_map(|&place| [place, place.wrapping_add(9)]).collect();
    let told = |addresses: &[u64]| {
        let mut told = vec![Vec::new(); addresses.len()];
        info.frames(addresses, &mut |index, frame| {
            assert!(
                told[index].last().is_none_or(|&(_, _, is_inlined)| is_inlined),
                "the outermost comes last"
            );
            told[index].push(((frame.name)(), frame.line, frame.is_inlined));
        });
        told
    };
    let all = told(&addresses);
    for (address, told_of) in addresses.iter().zip(&all) {
        assert_eq!(told(&[*address])[0], *told_of);
    }
});
