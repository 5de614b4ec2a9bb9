//! Values decode to themselves after encoding, and bytes encode to themselves after decoding, whatever the
//! format. Bytes that are no record are refused without a panic.

mod common;

use common::{Pool, Source, choices, kinds, orders, pools};
use perfuse_abi::read::ReadValues;
use perfuse_abi::record::{Header, Misc, RawRecord, Record, RecordFormat, RecordType, Records};
use perfuse_abi::wire::{EncodeError, SliceSink};
use perfuse_abi::{Attr, ByteOrder, ReadFormat};
use proptest::collection::vec;
use proptest::prelude::*;

/// Encodes a record of this kind and checks everything that can be said about the bytes.
fn round_trip(kind: RecordType, pool: &Pool, choices: &[u64], order: ByteOrder) -> Result<(), TestCaseError> {
    let mut source = Source::new(pool, choices);
    let format = source.format(order);
    let record = source.decoded(kind, &format);
    let mut bytes = Vec::new();
    record.encode(&format, &mut bytes).expect("the format can express it");
    prop_assert_eq!(record.encoded_len(&format), Ok(bytes.len()));

    let (raw, rest) = RawRecord::split(&bytes, order).expect("it is a whole record");
    prop_assert!(rest.is_empty());
    prop_assert_eq!(Header::peek(&bytes, order), Some(raw.header));
    prop_assert_eq!(Header::peek(&bytes[..Header::SIZE - 1], order), None);
    prop_assert_eq!(raw.header.kind, kind);
    let decoded = raw.decode(&format).expect("it is of this format");
    prop_assert_eq!(&decoded, &record);
    if kind == RecordType::SAMPLE || format.sample_id_all {
        prop_assert_eq!(format.id_of(&raw), decoded.id());
        prop_assert_eq!(format.time_of(&raw), decoded.time());
        let (tid, period) = match &decoded.record {
            Record::Sample(sample) => (sample.tid, sample.period),
            _ => (decoded.sample_id.tid, None),
        };
        prop_assert_eq!(format.tid_of(&raw), tid);
        prop_assert_eq!(format.period_of(&raw), period);
    }

    // A decoded record encodes to the same bytes, into a slice too, but not into one that is too small.
    let mut slice = vec![0; bytes.len()];
    let mut sink = SliceSink::new(&mut slice);
    decoded.encode(&format, &mut sink).expect("there is room");
    prop_assert_eq!(sink.filled(), &bytes);
    let full = decoded.encode(&format, &mut SliceSink::new(&mut slice[1..]));
    prop_assert!(matches!(full, Err(EncodeError::Full(_))));

    // The other byte order says the same with other bytes.
    let other = if order == ByteOrder::Little { ByteOrder::Big } else { ByteOrder::Little };
    let other = RecordFormat { order: other, ..format };
    let mut swapped = Vec::new();
    decoded.encode(&other, &mut swapped).expect("it depends on no order");
    let (raw, _) = RawRecord::split(&swapped, other.order).expect("it is a whole record");
    prop_assert_eq!(raw.decode(&other), Ok(record));

    // Cut anywhere, it is refused or understood, and what is understood encodes to what was there.
    for len in 0..bytes.len() - Header::SIZE {
        let body = &bytes[Header::SIZE..][..len];
        decode_anything(raw.header.kind, decoded.misc, body, &format)?;
    }
    Ok(())
}

/// Decoding any body never panics, and if it succeeds, encoding gives the body again.
fn decode_anything(
    kind: RecordType,
    misc: Misc,
    body: &[u8],
    format: &RecordFormat,
) -> Result<(), TestCaseError> {
    let header = Header { kind, misc, size: (Header::SIZE + body.len()) as u16 };
    let Ok(decoded) = (RawRecord { header, body }).decode(format) else { return Ok(()) };
    let mut bytes = Vec::new();
    decoded.encode(format, &mut bytes).expect("what was decoded can be encoded");
    prop_assert_eq!(&bytes[Header::SIZE..], body);
    let (raw, _) = RawRecord::split(&bytes, format.order).expect("it is a whole record");
    prop_assert_eq!(raw.header, header);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_type_of_record_round_trips(pool in pools(), choices in choices(), order in orders()) {
        for kind in kinds() {
            round_trip(kind, &pool, &choices, order)?;
        }
    }

    #[test]
    fn samples_round_trip_in_every_format(pool in pools(), all in vec(choices(), 8), order in orders()) {
        for choices in all {
            round_trip(RecordType::SAMPLE, &pool, &choices, order)?;
        }
    }

    #[test]
    fn arbitrary_bodies_never_panic(
        pool in pools(),
        choices in choices(),
        order in orders(),
        misc: u16,
        body in vec(prop_oneof![3 => Just(0u8), 1 => 0u8..4, 1 => any::<u8>()], 0..400),
    ) {
        let format = Source::new(&pool, &choices).format(order);
        for kind in kinds() {
            decode_anything(kind, Misc::from_bits_retain(misc), &body, &format)?;
        }
    }

    #[test]
    fn arbitrary_buffers_are_split_without_a_panic(bytes in vec(0u8..40, 0..300), order in orders()) {
        let mut records = Records::new(&bytes, order);
        let taken: usize = records.by_ref().map_while(Result::ok).map(|r| Header::SIZE + r.body.len()).sum();
        prop_assert_eq!(bytes.len(), taken + records.remaining().len());
    }

    #[test]
    fn an_attr_is_seen_in_any_bytes_as_it_is_decoded(
        mut bytes in vec(any::<u8>(), 0..200),
        size in prop_oneof![0u32..200, Just(64), Just(136), any::<u32>()],
        order in orders(),
    ) {
        let seen = Attr::peek(&bytes, order);
        prop_assert_eq!(seen, Attr::peek(&[&bytes[..], &[0; 144]].concat(), order));
        // Written over them, it changes nothing.
        let before = bytes.clone();
        seen.poke(&mut bytes, order);
        prop_assert_eq!(&bytes, &before);
        // A changed size changes the bytes of the size alone.
        Attr { size, ..seen }.poke(&mut bytes, order);
        let changed = Attr::peek(&bytes, order);
        for (at, (now, was)) in bytes.iter().zip(&before).enumerate() {
            prop_assert!(now == was || Attr::SIZE_FIELD.contains(&at));
        }
        if let Ok(decoded) = Attr::decode(&bytes, order) {
            let own = Attr::peek(&bytes[..decoded.len()], order);
            prop_assert_eq!(own, decoded.attr);
            prop_assert_eq!(changed.size, size);
            prop_assert_eq!((changed.type_, changed.config, changed.flags), (own.type_, own.config, own.flags));
        }
    }

    #[test]
    fn arbitrary_words_are_read_without_a_panic(words in vec(0u64..6, 0..20), format in 0u64..32) {
        let format = ReadFormat::from_bits_retain(format);
        if let Ok(values) = ReadValues::from_words(&words, format) {
            prop_assert_eq!(values.entries().count(), values.len());
            prop_assert_eq!(values.get(values.len()), None);
            let mut bytes = Vec::new();
            values.encode(ByteOrder::Big, &mut bytes).expect("a Vec has room");
            prop_assert_eq!(ReadValues::decode(&bytes, format, ByteOrder::Big), Ok(values));
        }
    }
}
