//! The values of `read(2)` from arbitrary bytes: decoding never panics, what is decoded is encoded as the
//! very bytes it came from, and words read the same as bytes.
//!
//! The first byte of an input is the read format, in its lowest five bits, and the byte order.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perfuse_abi::read::ReadValues;
use perfuse_abi::{ByteOrder, ReadFormat};

fuzz_target!(|bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let format = ReadFormat::from_bits_retain(u64::from(first & 31));
    let order = if first & 32 == 0 { ByteOrder::Little } else { ByteOrder::Big };
    let words: Vec<u64> =
        bytes.chunks_exact(8).map(|word| order.u64(word.try_into().expect("eight bytes"))).collect();
    let values = ReadValues::decode(bytes, format, order);
    assert_eq!(values.ok(), ReadValues::from_words(&words, format).ok());
    let Ok(values) = values else { return };
    assert_eq!(values.entries().count(), values.len());
    let _ = (values.value(), values.times(), format!("{values:?}"));
    let mut again = Vec::new();
    values.encode(order, &mut again).expect("a Vec has room");
    assert_eq!(again, bytes[..again.len()]);
});
