//! Tests of the attr: its layout, its sizes, its bit-fields, its words.

use super::*;
use crate::order::ByteOrder;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

fn encoded(wire: WireAttr<'_>, order: ByteOrder) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire.encode(order, &mut bytes).unwrap();
    bytes
}

#[test]
fn the_c_layout_has_no_holes() {
    let mut end = 0;
    for field in Attr::FIELDS {
        assert_eq!(field.offset, end, "{}", field.name);
        end += field.kind.size();
    }
    assert_eq!(end, size_of::<Attr>());
    assert_eq!(end, Attr::SIZE_VER9 as usize);
}

#[test]
fn an_old_attr_lacks_the_newer_fields() {
    let mut attr = Attr { config1: 7, config2: 9, ..Attr::new(EventType::RAW) };
    attr.size = Attr::SIZE_VER1;
    let bytes = encoded(WireAttr { attr, tail: &[] }, ByteOrder::NATIVE);
    assert_eq!(bytes.len(), 72);
    // The memory behind it belongs to somebody else.
    let mut longer = bytes.clone();
    longer.extend([0xff; 100]);
    assert_eq!(Attr::decode(&longer, ByteOrder::NATIVE).unwrap().attr, attr);
}

#[test]
fn a_newer_attr_keeps_its_tail() {
    let attr = Attr { size: 160, config4: 1, ..Attr::new(EventType(10)) };
    let tail = [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 9];
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let bytes = encoded(WireAttr { attr, tail: &tail }, order);
        let read = Attr::decode(&bytes, order).unwrap();
        assert_eq!((read.attr, read.tail), (attr, &tail[..]));
        assert_eq!(encoded(read, order), bytes);
    }
}

#[test]
fn size_zero_means_the_first_published_size() {
    let attr = Attr { size: 0, config: 3, ..Attr::default() };
    let bytes = encoded(WireAttr { attr, tail: &[] }, ByteOrder::NATIVE);
    assert_eq!(bytes.len(), 64);
    assert_eq!(Attr::decode(&bytes, ByteOrder::NATIVE).unwrap().attr, attr);
}

#[test]
fn a_size_may_cut_a_field_in_the_middle() {
    // Rule A6: the missing bytes are zero.
    let mut bytes = vec![0xff; 66];
    bytes[4..8].copy_from_slice(&66u32.to_le_bytes());
    let wire = Attr::decode(&bytes, ByteOrder::Little).unwrap();
    assert_eq!((wire.attr.config1, wire.attr.config2), (u64::MAX, 0xffff));
    assert_eq!(encoded(wire, ByteOrder::Little), bytes);
}

#[test]
fn nothing_set_is_dropped_by_a_small_size() {
    let attr = Attr { size: 128, config3: 1, ..Attr::default() };
    let error = WireAttr { attr, tail: &[] }.encode(ByteOrder::NATIVE, &mut Vec::new()).unwrap_err();
    assert_eq!(error, AttrError::FieldBeyondSize { field: "config3", size: 128 });
    assert_eq!(attr.min_size(), Attr::SIZE_VER8);
}

#[test]
fn bad_sizes_are_named() {
    let mut bytes = [0; 200];
    bytes[4] = 63;
    assert_eq!(Attr::decode(&bytes, ByteOrder::Little), Err(AttrError::Size { size: 63 }));
    bytes[4] = 201;
    let error = Attr::decode(&bytes, ByteOrder::Little).unwrap_err();
    assert_eq!(error.to_string(), "perf_event_attr at byte 0 needs 201 bytes, 200 are left");
    assert!(Attr::decode(&bytes[..63], ByteOrder::Little).is_err());
}

#[test]
fn a_big_endian_machine_lays_its_bit_fields_out_from_the_top() {
    // As gcc for s390x does: `disabled` is the highest bit, `precise_ip` keeps its bits in order.
    let mut attr = Attr { size: 64, ..Attr::default() };
    attr.flags = AttrFlags::DISABLED.with_precise_ip(2);
    let bytes = encoded(WireAttr { attr, tail: &[] }, ByteOrder::Big);
    assert_eq!(bytes[40..48], (1u64 << 63 | 2 << 47).to_be_bytes());
    assert_eq!(Attr::decode(&bytes, ByteOrder::Big).unwrap().attr, attr);
}

#[test]
fn requirements_name_what_is_new() {
    let mut attr = Attr { config4: 1, ..Attr::new(EventType::SOFTWARE) };
    attr.read_format = ReadFormat::ID | ReadFormat::LOST;
    attr.aux_action = AuxAction::PAUSE;
    let all: Vec<_> = attr.requirements().iter().map(|r| (r.to_string(), r.since.to_string())).collect();
    let expected = [
        ("read_format LOST", "6.0"),
        ("aux_action", "6.13"),
        ("aux_action PAUSE", "6.13"),
        ("config4", "6.19"),
    ];
    assert_eq!(all, expected.map(|(what, since)| (what.to_string(), since.to_string())));
}

#[test]
fn one_line_in_the_style_of_evlist() {
    let mut attr = Attr::new(EventType::SOFTWARE);
    attr.size = 136;
    attr.set_sample_freq(4000);
    attr.sample_type = SampleType::IP | SampleType::TID | SampleType::from_bits_retain(1 << 40);
    attr.read_format = ReadFormat::ID | ReadFormat::LOST;
    attr.flags |= AttrFlags::DISABLED | AttrFlags::SAMPLE_ID_ALL | AttrFlags::from_bits_retain(1 << 50);
    attr.flags = attr.flags.with_precise_ip(3);
    assert_eq!(
        attr.to_string(),
        "type: 1 (PERF_TYPE_SOFTWARE), size: 136, config: 0x0 (PERF_COUNT_SW_CPU_CLOCK), \
         { sample_period, sample_freq }: 4000, sample_type: IP|TID|0x10000000000, \
         read_format: ID|LOST, disabled: 1, freq: 1, precise_ip: 3, sample_id_all: 1, \
         reserved bit 50: 1"
    );
}
