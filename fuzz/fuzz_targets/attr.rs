//! `perf_event_attr` from arbitrary bytes, in either byte order: decoding never panics, and an attr whose
//! size the kernel could have written is encoded as the very bytes it came from.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perfuse_abi::{Attr, ByteOrder};

fuzz_target!(|bytes: &[u8]| {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let Ok(wire) = Attr::decode(bytes, order) else { continue };
        let len = wire.len();
        let _ = (wire.attr.to_string(), wire.attr.requirements());
        if len % 8 == 0 && len <= Attr::SIZE_MAX as usize {
            let mut again = Vec::new();
            wire.encode(order, &mut again).expect("what was decoded can be encoded");
            assert_eq!(again, bytes[..len]);
        }
    }
});
