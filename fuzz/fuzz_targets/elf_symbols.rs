//! ELF files from arbitrary bytes: reading headers, build-id and symbols never panics, what the table has
//! is found at its own addresses, and every name can be demangled.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perfuse_symbols::Elf;

fuzz_target!(|bytes: &[u8]| {
    let elf = match Elf::from_bytes("input", bytes.to_vec()) {
        Ok(elf) => elf,
        Err(error) => return assert!(error.to_string().starts_with("input: ")),
    };
    let _ = (elf.build_id(), elf.debug_link());
    for offset in [0, 0x1000, 0x1044, u64::MAX] {
        let _ = elf.address_of(offset);
    }
    let Ok(table) = elf.symbols() else { return };
    for symbol in table.iter() {
        let found = table.find(symbol.start).expect("a symbol is where it begins");
        assert_eq!((found.symbol, found.offset), (symbol, 0));
        assert!(symbol.size > 0);
        let last = symbol.start.saturating_add(symbol.size - 1);
        assert!(table.find(last).is_some());
        let _ = symbol.demangled();
    }
});
