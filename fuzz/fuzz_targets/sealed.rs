//! Names inside recordings: what is read can be asked for, at any address, and code that processes made at any time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perfuse_symbols::{Address, DsoKey, Reference, Sealed, Symbolizer};

/// A section with these bytes packed, in blocks that are stored: so the fuzzer sees them.
fn section(bytes: &[u8]) -> Vec<u8> {
    let mut out = b"PFSEAL\0\x01\x78\x01".to_vec();
    let mut chunks = bytes.chunks(0xffff).peekable();
    while let Some(chunk) = chunks.next() {
        let len = chunk.len() as u16;
        out.push(u8::from(chunks.peek().is_none()));
        out.extend(len.to_le_bytes());
        out.extend((!len).to_le_bytes());
        out.extend_from_slice(chunk);
    }
    let (a, b) = bytes.iter().fold((1u32, 0u32), |(a, b), &byte| {
        let a = (a + u32::from(byte)) % 65521;
        (a, (b + a) % 65521)
    });
    out.extend((b << 16 | a).to_be_bytes());
    out
}

fuzz_target!(|bytes: &[u8]| {
    let _ = Sealed::decode(bytes);
    let Some(sealed) = Sealed::decode(&section(bytes)) else { return };
    let _ = (sealed.object_count(), sealed.function_count(), sealed.source("a.c"));
    let symbolizer = Symbolizer::default();
    symbolizer.take_sealed(sealed);
    let reference = Reference { symbol: "_text".into(), address: 0xffff_ffff_8100_0000 };
    let keys = [
        DsoKey::of_map(b"/a", 1),
        DsoKey::of_map(b"[vdso]", 1),
        DsoKey::of_map(b"//anon", 1),
        DsoKey::kernel(None),
        DsoKey::kernel(Some(reference)),
        DsoKey::module("[m]", 0),
    ];
    for key in keys {
        let dso = symbolizer.dso(&key);
        for at in [0, 0x1010, 0xffff_ffff_8100_0010, u64::MAX] {
            for place in [Address::FileOffset(at), Address::Memory(at)] {
                for time in [0, 5, u64::MAX] {
                    let _ = dso.find_at(place, time).map(|found| found.symbol.demangled().len());
                }
                if let Some((info, _)) = dso.debug_info() {
                    let at = dso.address(place).unwrap_or(at);
                    info.frames(&[at], &mut |_, frame| drop((frame.name)()));
                }
            }
        }
    }
});
