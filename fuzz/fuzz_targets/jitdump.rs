//! jitdump files from arbitrary bytes: reading never panics and ends, the code of a record is in the file,
//! and what is found at an address covers it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perfuse_symbols::{JitDump, JitEvent};

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut dump) = JitDump::from_bytes("input", bytes.to_vec()) else { return };
    let mut last = None;
    let mut end = 0;
    while let Ok(Some(record)) = dump.next_record() {
        assert!(record.offset >= end);
        end = record.offset + 16;
        if let JitEvent::Load { address, size, code, .. } = record.event {
            if let Some(code) = code.filter(|_| size < 1 << 20) {
                assert_eq!(dump.code(code, size).expect("it is in the file").len() as u64, size);
            }
            let newer = last.is_none_or(|(time, _)| time <= record.time);
            if newer && size > 0 && address < u64::MAX {
                last = Some((record.time, address));
            }
        }
    }
    let (map, _) = JitDump::from_bytes("input", bytes.to_vec()).expect("as before").code_map();
    if let Some((time, address)) = last {
        // It may have been moved away since.
        if let Some(found) = map.find(address, time) {
            assert!(found.offset < found.symbol.size);
            let _ = found.symbol.demangled();
        }
    }
    for index in 0..map.len().min(1000) {
        if let Some(symbol) = map.get(index) {
            let _ = map.find(symbol.start, u64::MAX);
        }
    }
});
