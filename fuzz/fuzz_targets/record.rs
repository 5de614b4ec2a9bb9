//! Records of an arbitrary format from arbitrary bytes: decoding never panics, and what is decoded is
//! encoded as the very bytes it came from.
//!
//! An input starts with the format: 48 bytes, in the order of [`format_and_records`]. Records follow.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perfuse_abi::record::{Record, RecordFormat, Records};
use perfuse_abi::{BranchSampleType, ByteOrder, ReadFormat, SampleType};

fn format_and_records(bytes: &[u8]) -> Option<(RecordFormat, &[u8])> {
    let (words, records) = bytes.split_at_checked(48)?;
    let word = |index: usize| u64::from_le_bytes(words[index * 8..][..8].try_into().expect("eight bytes"));
    let flags = word(0);
    let format = RecordFormat {
        order: if flags & 1 == 0 { ByteOrder::Little } else { ByteOrder::Big },
        sample_id_all: flags & 2 != 0,
        sample_type: SampleType::from_bits_retain(word(1)),
        read_format: ReadFormat::from_bits_retain(word(2)),
        branch_sample_type: BranchSampleType::from_bits_retain(word(3)),
        sample_regs_user: word(4),
        sample_regs_intr: word(5),
    };
    Some((format, records))
}

fuzz_target!(|bytes: &[u8]| {
    let Some((format, mut bytes)) = format_and_records(bytes) else { return };
    for raw in Records::new(bytes, format.order) {
        let Ok(raw) = raw else { return };
        let _ = (format.id_of(&raw), format.time_of(&raw));
        let (consumed, rest) = bytes.split_at(usize::from(raw.header.size));
        bytes = rest;
        match raw.decode(&format) {
            Ok(decoded) => {
                let mut again = Vec::new();
                decoded.encode(&format, &mut again).expect("what was decoded can be encoded");
                assert_eq!(again, consumed);
                let _ = format!("{decoded:?}");
                if let Record::Sample(sample) = &decoded.record {
                    let _ = sample.data_src.map(|source| source.to_string());
                    let _ = sample.callchain.map(|chain| chain.parts().count());
                }
            }
            Err(short) => {
                assert!(short.offset + short.available <= consumed.len() && short.needed > short.available)
            }
        }
    }
});
