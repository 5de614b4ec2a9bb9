//! The places where decoders of perf records are known to go wrong, one test each. Records are written
//! down here as numbers, after the comments in `<linux/perf_event.h>`, and not made with the encoder:
//! a mistake made in both directions would not be seen.

use perfuse_abi::read::{ReadEntry, Times, scale};
use perfuse_abi::record::*;
use perfuse_abi::wire::EncodeError;
use perfuse_abi::{Attr, AttrFlags, BranchSampleType, ByteOrder, EventType, ReadFormat, SampleType, Txn};

const LITTLE: RecordFormat = RecordFormat {
    order: ByteOrder::Little,
    sample_id_all: false,
    sample_type: SampleType::empty(),
    read_format: ReadFormat::empty(),
    branch_sample_type: BranchSampleType::empty(),
    sample_regs_user: 0,
    sample_regs_intr: 0,
};

/// A format with only a `sample_type`.
fn samples(sample_type: SampleType) -> RecordFormat {
    RecordFormat { sample_type, ..LITTLE }
}

/// A format whose trailers have these fields.
fn trailers(sample_type: SampleType) -> RecordFormat {
    RecordFormat { sample_type, sample_id_all: true, ..LITTLE }
}

/// These words as bytes in the order of `format`.
fn bytes(format: &RecordFormat, words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|&word| format.order.bytes64(word)).collect()
}

/// Two halves of a word on a little-endian machine.
const fn pair(first: u32, second: u32) -> u64 {
    first as u64 | (second as u64) << 32
}

/// Decodes a body, and checks that encoding gives it again.
fn decode<'a>(kind: RecordType, misc: Misc, body: &'a [u8], format: &RecordFormat) -> Decoded<'a> {
    let raw = RawRecord { header: Header { kind, misc, size: (8 + body.len()) as u16 }, body };
    let decoded = raw.decode(format).expect("the record is valid");
    let mut again = Vec::new();
    decoded.encode(format, &mut again).expect("what was decoded can be encoded");
    assert_eq!(&again[8..], body);
    decoded
}

/// Decodes a sample that has nothing after its known fields.
fn sample<'a>(body: &'a [u8], format: &RecordFormat) -> Sample<'a> {
    let decoded = decode(RecordType::SAMPLE, Misc::empty(), body, format);
    assert_eq!(decoded.extra, &[] as &[u8]);
    let Record::Sample(sample) = decoded.record else { panic!("not a sample: {decoded:?}") };
    sample
}

#[test]
fn group_values_in_a_sample_start_with_their_number() {
    let read_format = ReadFormat::GROUP | ReadFormat::ID;
    let format = RecordFormat { read_format, ..samples(SampleType::READ | SampleType::CPU) };
    let body = bytes(&format, &[pair(3, 0), 2, 100, 7, 200, 8]);
    let values = sample(&body, &format).read.unwrap();
    let entry = |value, id| ReadEntry::new(value).with_id(id);
    assert_eq!(values.entries().collect::<Vec<_>>(), [entry(100, 7), entry(200, 8)]);
}

#[test]
fn a_single_value_in_a_sample_has_no_number_before_it() {
    let read_format = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
    let format = RecordFormat { read_format, ..samples(SampleType::READ | SampleType::PHYS_ADDR) };
    let body = bytes(&format, &[100, 10, 9, 0x1000]);
    let sample = sample(&body, &format);
    let values = sample.read.unwrap();
    assert_eq!((values.value(), values.times()), (Some(100), Some(Times { enabled_ns: 10, running_ns: 9 })));
    assert_eq!(sample.phys_addr, Some(0x1000));
}

#[test]
fn lost_counts_are_part_of_every_value() {
    let read_format = ReadFormat::GROUP | ReadFormat::ID | ReadFormat::LOST;
    let format = RecordFormat { read_format, ..samples(SampleType::READ | SampleType::PHYS_ADDR) };
    let body = bytes(&format, &[2, 100, 7, 1, 200, 8, 0, 0x1000]);
    let sample = sample(&body, &format);
    let lost: Vec<_> = sample.read.unwrap().entries().map(|entry| entry.lost).collect();
    assert_eq!((lost, sample.phys_addr), (vec![Some(1), Some(0)], Some(0x1000)));
}

#[test]
fn a_weight_struct_takes_one_word_before_the_data_source() {
    let format = samples(SampleType::WEIGHT_STRUCT | SampleType::DATA_SRC);
    let body = bytes(&format, &[0x0003_0002_0000_0001, DataSrc::NA.0]);
    let sample = sample(&body, &format);
    assert_eq!(sample.weight, Some(Weight::Struct { var1: 1, var2: 2, var3: 3 }));
    assert_eq!(sample.data_src, Some(DataSrc::NA));
}

#[test]
fn a_weight_struct_is_the_same_number_in_both_orders() {
    let format = RecordFormat { order: ByteOrder::Big, ..samples(SampleType::WEIGHT_STRUCT) };
    // The big-endian struct is { u16 var3; u16 var2; u32 var1; }.
    let sample = sample(&[0, 3, 0, 2, 0, 0, 0, 1], &format);
    assert_eq!(sample.weight, Some(Weight::Struct { var1: 1, var2: 2, var3: 3 }));
}

#[test]
fn a_weight_is_not_dropped() {
    let format = samples(SampleType::WEIGHT | SampleType::TRANSACTION);
    let body = bytes(&format, &[u64::MAX - 1, 1 | 9 << 32]);
    let sample = sample(&body, &format);
    assert_eq!(sample.weight, Some(Weight::Full(u64::MAX - 1)));
    assert_eq!(sample.transaction.map(|txn| (txn.contains(Txn::ELISION), txn.abort_code())), Some((true, 9)));
}

#[test]
fn the_cgroup_comes_before_the_page_sizes() {
    let format = samples(SampleType::CGROUP | SampleType::DATA_PAGE_SIZE | SampleType::CODE_PAGE_SIZE);
    let body = bytes(&format, &[77, 4096, 2 << 20]);
    let sample = sample(&body, &format);
    assert_eq!(sample.cgroup, Some(77));
    assert_eq!((sample.data_page_size, sample.code_page_size), (Some(4096), Some(2 << 20)));
}

#[test]
fn aux_data_comes_last() {
    let format = samples(SampleType::AUX | SampleType::CGROUP | SampleType::CODE_PAGE_SIZE);
    let body = bytes(&format, &[77, 4096, 8, 0x1122]);
    let sample = sample(&body, &format);
    assert_eq!((sample.cgroup, sample.code_page_size), (Some(77), Some(4096)));
    assert_eq!(sample.aux, Some(&body[24..]));
}

#[test]
fn branch_counters_follow_the_branches() {
    let branch_sample_type = BranchSampleType::COUNTERS | BranchSampleType::HW_INDEX;
    let format =
        RecordFormat { branch_sample_type, ..samples(SampleType::BRANCH_STACK | SampleType::PHYS_ADDR) };
    let body = bytes(&format, &[2, 5, 0x10, 0x11, 1, 0x20, 0x21, 2, 0xaa, 0xbb, 0x1000]);
    let sample = sample(&body, &format);
    let stack = sample.branch_stack.unwrap();
    let entry = |from, to, flags| BranchEntry { from, to, flags: BranchFlags(flags) };
    assert_eq!(stack.hw_idx, Some(5));
    assert_eq!(stack.entries.iter().collect::<Vec<_>>(), [entry(0x10, 0x11, 1), entry(0x20, 0x21, 2)]);
    assert_eq!(stack.counters, Some([0xaa, 0xbb][..].into()));
    assert_eq!(sample.phys_addr, Some(0x1000));
}

#[test]
fn branches_tell_speculation_new_types_and_privilege() {
    let format = samples(SampleType::BRANCH_STACK);
    let body = bytes(&format, &[1, 0, 0, 15 << 20 | 3 << 24 | 1 << 26 | 2 << 30]);
    let flags = sample(&body, &format).branch_stack.unwrap().entries.get(0).unwrap().flags;
    assert_eq!((flags.kind(), flags.spec()), (BranchType::EXTEND_ABI, BranchSpec::SPEC_CORRECT_PATH));
    assert_eq!((flags.new_kind(), flags.privilege()), (BranchNewType::FAULT_DATA, BranchPriv::KERNEL));
}

#[test]
fn branch_flags_of_a_big_endian_machine_start_at_the_highest_bit() {
    let format = RecordFormat { order: ByteOrder::Big, ..samples(SampleType::BRANCH_STACK) };
    let body = bytes(&format, &[1, 0x10, 0x11, 1 << 62 | 300 << 44]);
    let flags = sample(&body, &format).branch_stack.unwrap().entries.get(0).unwrap().flags;
    assert_eq!((flags.mispred(), flags.predicted(), flags.cycles()), (false, true, 300));
}

#[test]
fn an_empty_branch_stack_with_an_index() {
    let branch_sample_type = BranchSampleType::HW_INDEX;
    let format =
        RecordFormat { branch_sample_type, ..samples(SampleType::BRANCH_STACK | SampleType::PHYS_ADDR) };
    let body = bytes(&format, &[0, u64::MAX, 0x1000]);
    let sample = sample(&body, &format);
    assert_eq!(sample.branch_stack.unwrap().hw_idx, Some(u64::MAX));
    assert_eq!(sample.phys_addr, Some(0x1000));
}

#[test]
fn no_branch_stack_at_all_has_no_index() {
    let branch_sample_type = BranchSampleType::HW_INDEX | BranchSampleType::COUNTERS;
    let format =
        RecordFormat { branch_sample_type, ..samples(SampleType::BRANCH_STACK | SampleType::PHYS_ADDR) };
    let body = bytes(&format, &[0, 0x1000]);
    let sample = sample(&body, &format);
    assert_eq!(sample.branch_stack.unwrap().hw_idx, None);
    assert_eq!(sample.phys_addr, Some(0x1000));
}

#[test]
fn an_index_that_would_leave_bytes_over_is_none() {
    let branch_sample_type = BranchSampleType::HW_INDEX;
    let sample_type = SampleType::BRANCH_STACK | SampleType::REGS_USER;
    let format = RecordFormat { branch_sample_type, sample_regs_user: 0b11, ..samples(sample_type) };
    // With an index of 2 the registers would be those of no ABI, and 7 a word too many.
    let body = bytes(&format, &[0, 2, 0, 7]);
    let sample = sample(&body, &format);
    assert_eq!(sample.branch_stack.unwrap().hw_idx, None);
    let registers = sample.regs_user.unwrap();
    assert_eq!((registers.abi, registers.get(0), registers.get(1)), (RegsAbi::ABI_64, Some(0), Some(7)));
}

#[test]
fn registers_of_a_kernel_thread_have_no_values() {
    let sample_type = SampleType::REGS_USER | SampleType::STACK_USER | SampleType::REGS_INTR;
    let format = RecordFormat { sample_regs_user: 0b11, sample_regs_intr: 0b101, ..samples(sample_type) };
    let body = bytes(&format, &[0, 0, 2, 11, 22]);
    let sample = sample(&body, &format);
    let (user, intr) = (sample.regs_user.unwrap(), sample.regs_intr.unwrap());
    assert_eq!((user.abi, user.get(0)), (RegsAbi::ABI_NONE, None));
    assert_eq!((intr.get(0), intr.get(1), intr.get(2)), (Some(11), None, Some(22)));
    assert_eq!(intr.iter().collect::<Vec<_>>(), [(0, 11), (2, 22)]);
}

#[test]
fn an_empty_user_stack_has_no_dynamic_size() {
    let format = samples(SampleType::STACK_USER | SampleType::PHYS_ADDR);
    let body = bytes(&format, &[0, 0x1000]);
    let with = sample(&body, &format);
    assert_eq!((with.stack_user, with.phys_addr), (Some(UserStack::default()), Some(0x1000)));
    let body = bytes(&format, &[16, 1, 2, 8, 0x1000]);
    let with = sample(&body, &format);
    assert_eq!(with.stack_user.unwrap().copied(), &body[8..16]);
    assert_eq!(with.phys_addr, Some(0x1000));
}

#[test]
fn the_padding_of_raw_data_is_inside_its_size() {
    let format = samples(SampleType::RAW | SampleType::PHYS_ADDR);
    let body = bytes(&format, &[pair(12, 0x0403_0201), 0x0605, 0x1000]);
    let sample = sample(&body, &format);
    assert_eq!(sample.raw.unwrap().as_bytes(), [1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0]);
    assert_eq!(sample.raw.unwrap(), Raw::new(&[1, 2, 3, 4, 5, 6]));
    assert_eq!(sample.phys_addr, Some(0x1000));
}

#[test]
fn a_sample_with_every_field_has_them_in_the_kernel_s_order() {
    let format = RecordFormat {
        sample_regs_user: 1,
        sample_regs_intr: 1,
        ..samples(SampleType::from_bits_retain((1 << 25) - 1) - SampleType::WEIGHT)
    };
    let head = [1, 2, pair(3, 33), 4, 5, 6, 7, pair(8, 0), 9, 10];
    let chain_to_stack = [1, 11, pair(4, 12), 1, 13, 14, 15, 2, 16, 8, 17, 18];
    let tail = [19, 20, 21, 2, 22, 23, 24, 25, 26, 8, 27];
    let body = bytes(&format, &[&head[..], &chain_to_stack, &tail].concat());
    let sample = sample(&body, &format);
    assert_eq!((sample.identifier, sample.ip, sample.tid), (Some(1), Some(2), Some(Tid { pid: 3, tid: 33 })));
    assert_eq!((sample.time, sample.addr, sample.id, sample.stream_id), (Some(4), Some(5), Some(6), Some(7)));
    assert_eq!((sample.cpu, sample.period), (Some(Cpu::from(8)), Some(9)));
    assert_eq!(sample.read.unwrap().value(), Some(10));
    assert_eq!(sample.callchain, Some([11][..].into()));
    assert_eq!(sample.raw.unwrap().as_bytes(), [12, 0, 0, 0]);
    assert_eq!(
        sample.branch_stack.unwrap().entries.get(0).map(|b| (b.from, b.to, b.flags.0)),
        Some((13, 14, 15))
    );
    assert_eq!(sample.regs_user.unwrap().get(0), Some(16));
    assert_eq!(sample.stack_user.unwrap().dyn_size, 18);
    assert_eq!(sample.weight.map(Weight::bits), Some(19));
    assert_eq!((sample.data_src, sample.transaction), (Some(DataSrc(20)), Some(Txn::from_bits_retain(21))));
    assert_eq!(sample.regs_intr.unwrap().get(0), Some(22));
    assert_eq!((sample.phys_addr, sample.cgroup), (Some(23), Some(24)));
    assert_eq!((sample.data_page_size, sample.code_page_size), (Some(25), Some(26)));
    assert_eq!(sample.aux, Some(&[27, 0, 0, 0, 0, 0, 0, 0][..]));
}

#[test]
fn an_identifier_is_decoded_beside_the_id() {
    let format = samples(SampleType::IDENTIFIER | SampleType::IP | SampleType::ID);
    let body = bytes(&format, &[5, 0x400000, 5]);
    let sample = sample(&body, &format);
    assert_eq!((sample.identifier, sample.ip, sample.id), (Some(5), Some(0x400000), Some(5)));
}

#[test]
fn sample_type_bits_of_the_future_leave_bytes_behind() {
    let format = samples(SampleType::IP | SampleType::from_bits_retain(1 << 40));
    let body = bytes(&format, &[0x400000, 99]);
    let decoded = decode(RecordType::SAMPLE, Misc::empty(), &body, &format);
    assert_eq!(decoded.extra, &body[8..]);
}

#[test]
fn the_mmap_record_has_a_trailer_that_is_not_part_of_the_name() {
    let format = trailers(SampleType::TID | SampleType::TIME);
    let body = bytes(
        &format,
        &[pair(1, 2), 0x1000, 0x2000, 0, u64::from_le_bytes(*b"/bin/ls\0"), pair(1, 2), 0x4142_4344],
    );
    let decoded = decode(RecordType::MMAP, Misc::empty(), &body, &format);
    let Record::Mmap(mmap) = decoded.record else { panic!("not MMAP: {decoded:?}") };
    assert_eq!(mmap.filename.to_str(), Some("/bin/ls"));
    assert_eq!(decoded.sample_id.time, Some(0x4142_4344));
    assert_eq!(decoded.tid(), Some(Tid { pid: 1, tid: 2 }));
}

#[test]
fn names_end_at_their_first_nul_and_keep_what_follows() {
    let body = bytes(&LITTLE, &[pair(1, 2), u64::from_le_bytes(*b"sh\0trash"), 0x1234]);
    let decoded = decode(RecordType::COMM, Misc::COMM_EXEC, &body, &LITTLE);
    assert_eq!(decoded.record, Record::Comm(Comm { tid: Tid { pid: 1, tid: 2 }, name: "sh".into() }));
}

#[test]
fn a_name_without_a_nul_ends_with_the_record() {
    let body = bytes(&LITTLE, &[pair(1, 2), u64::from_le_bytes(*b"12345678")]);
    let decoded = decode(RecordType::COMM, Misc::empty(), &body, &LITTLE);
    let Record::Comm(comm) = decoded.record else { panic!("not COMM: {decoded:?}") };
    assert_eq!(comm.name.as_bytes(), b"12345678");
}

#[test]
fn a_switch_keeps_its_trailer_and_its_direction() {
    let format = trailers(SampleType::TID | SampleType::TIME | SampleType::CPU);
    let body = bytes(&format, &[pair(7, 8), 1234, pair(1, 0)]);
    let misc = Misc::SWITCH_OUT | Misc::SWITCH_OUT_PREEMPT;
    let decoded = decode(RecordType::SWITCH, misc, &body, &format);
    assert_eq!((decoded.record, decoded.misc), (Record::Switch, misc));
    assert_eq!((decoded.tid(), decoded.time()), (Some(Tid { pid: 7, tid: 8 }), Some(1234)));
    assert_eq!(decoded.cpu(), Some(1));
}

#[test]
fn throttling_tells_the_event_and_its_instance() {
    let body = bytes(&LITTLE, &[1000, 5, 6]);
    let decoded = decode(RecordType::THROTTLE, Misc::empty(), &body, &LITTLE);
    assert_eq!(decoded.record, Record::Throttle(Throttle { time: 1000, id: 5, stream_id: 6 }));
}

#[test]
fn a_read_record_is_decoded_in_the_read_format() {
    let read_format = ReadFormat::ID | ReadFormat::TOTAL_TIME_RUNNING;
    let format = RecordFormat { read_format, ..trailers(SampleType::TIME) };
    let body = bytes(&format, &[pair(1, 2), 500, 9, 5, 1234]);
    let decoded = decode(RecordType::READ, Misc::empty(), &body, &format);
    let Record::Read(read) = decoded.record else { panic!("not READ: {decoded:?}") };
    assert_eq!((read.values.value(), read.values.time_running()), (Some(500), Some(9)));
    assert_eq!((read.values.get(0).unwrap().id, decoded.time()), (Some(5), Some(1234)));
}

#[test]
fn a_build_id_that_claims_more_than_20_bytes_does_not_panic() {
    let name = u64::from_le_bytes(*b"/bin/ls\0");
    let id = [pair(200, 0x0403_0201), 0x0807_0605, 0x0c0b_0a09_0807_0605];
    let body = bytes(&LITTLE, &[&[pair(1, 2), 0x1000, 0x2000, 0], &id[..], &[pair(5, 2), name]].concat());
    let decoded = decode(RecordType::MMAP2, Misc::MMAP_BUILD_ID, &body, &LITTLE);
    let Record::Mmap2(Mmap2 { file: MmapFile::Inode { maj: 200, .. }, prot, filename, .. }) = decoded.record
    else {
        panic!("a build-id: {decoded:?}")
    };
    assert_eq!((prot, filename.to_str()), (5, Some("/bin/ls")));
}

#[test]
fn mmap2_has_an_inode_unless_misc_says_build_id() {
    let words = [pair(1, 2), 0x1000, 0x2000, 0, pair(8, 1), 4711, 3, pair(5, 2), 0];
    let body = bytes(&LITTLE, &words);
    let decoded = decode(RecordType::MMAP2, Misc::MMAP_DATA, &body, &LITTLE);
    let Record::Mmap2(mmap) = decoded.record else { panic!("not MMAP2: {decoded:?}") };
    assert_eq!(mmap.file, MmapFile::Inode { maj: 8, min: 1, ino: 4711, ino_generation: 3 });
}

/// Rule H52: kernels up to 6.18 may set the bit by mistake. The bytes themselves tell, and nothing is lost.
#[test]
fn a_build_id_is_told_from_an_inode_by_what_it_can_be() {
    let file_of = |id: [u64; 3]| {
        let body = bytes(&LITTLE, &[&[pair(1, 2), 0x1000, 0x2000, 0], &id[..], &[pair(5, 2), 0]].concat());
        let decoded = decode(RecordType::MMAP2, Misc::MMAP_BUILD_ID, &body, &LITTLE);
        let Record::Mmap2(mmap) = decoded.record else { panic!("not MMAP2: {decoded:?}") };
        mmap.file
    };
    let inode = |maj, min, ino, ino_generation| MmapFile::Inode { maj, min, ino, ino_generation };
    // A disk, a loop device, a layer, an NVMe disk; with a generation and without, and an inode of more than 32 bits.
    assert_eq!(file_of([pair(8, 1), 4711, 3]), inode(8, 1, 4711, 3));
    assert_eq!(file_of([pair(8, 1), 4711, 0]), inode(8, 1, 4711, 0));
    assert_eq!(file_of([pair(7, 0), 99, 0]), inode(7, 0, 99, 0));
    assert_eq!(file_of([pair(0, 52), 1_835_045, 77]), inode(0, 52, 1_835_045, 77));
    assert_eq!(file_of([pair(259, 2), 131, 0]), inode(259, 2, 131, 0));
    assert_eq!(file_of([pair(8, 3), 5 << 32, 9]), inode(8, 3, 5 << 32, 9));
    let id = |size: u8| {
        let bytes: Vec<u8> = (0..size).map(|byte| 0xf0 ^ byte).collect();
        let id = BuildId::new(&bytes).expect("20 at most");
        let word = |at: usize| u64::from_le_bytes(id.bytes[at..at + 8].try_into().expect("eight"));
        let first = u32::from_le_bytes(id.bytes[..4].try_into().expect("four"));
        (id, [pair(size.into(), first), word(4), word(12)])
    };
    for size in [4, 8, 16, 20] {
        let (id, words) = id(size);
        assert_eq!(file_of(words), MmapFile::BuildId(id));
    }
    assert_eq!(file_of([0; 3]), inode(0, 0, 0, 0), "none");
}

#[test]
fn records_of_newer_kernels_and_of_tools_survive() {
    let format = trailers(SampleType::TIME);
    let body = bytes(&format, &[1, 2, 1234]);
    let decoded = decode(RecordType(40), Misc::empty(), &body, &format);
    assert_eq!(decoded.record, Record::Unknown { kind: RecordType(40), body: &body[..16] });
    assert_eq!(decoded.time(), Some(1234));
    let decoded = decode(RecordType(68), Misc::empty(), &body, &format);
    assert_eq!(decoded.record, Record::Unknown { kind: RecordType(68), body: &body });
    assert_eq!(decoded.time(), None);
}

#[test]
fn fields_of_newer_kernels_survive_between_body_and_trailer() {
    let format = trailers(SampleType::TIME);
    let body = bytes(&format, &[5, 6, 0xfeed, 1234]);
    let decoded = decode(RecordType::LOST, Misc::empty(), &body, &format);
    assert_eq!(decoded.record, Record::Lost(Lost { id: 5, lost: 6 }));
    assert_eq!((decoded.extra, decoded.time()), (&body[16..24], Some(1234)));
}

#[test]
fn a_deferred_callchain_follows_its_cookie() {
    let body = bytes(&LITTLE, &[99, 2, 0x1000, 0x2000]);
    let decoded = decode(RecordType::CALLCHAIN_DEFERRED, CpuMode::USER.into(), &body, &LITTLE);
    let expected = CallchainDeferred { cookie: 99, ips: [0x1000, 0x2000][..].into() };
    assert_eq!(decoded.record, Record::CallchainDeferred(expected));
}

#[test]
fn changed_code_is_split_into_old_and_new() {
    let body = bytes(&LITTLE, &[0xffff_0000, 0x0403_0201_0003_0002, 5]);
    let decoded = decode(RecordType::TEXT_POKE, CpuMode::KERNEL.into(), &body, &LITTLE);
    let expected = TextPoke { addr: 0xffff_0000, old: &[1, 2], new: &[3, 4, 5], ..TextPoke::default() };
    assert_eq!(decoded.record, Record::TextPoke(expected));
}

#[test]
fn clocks_and_event_types_without_a_name_are_not_fatal() {
    let attr = Attr {
        clockid: 11,
        sample_type: SampleType::TIME,
        flags: AttrFlags::USE_CLOCKID | AttrFlags::SAMPLE_ID_ALL,
        ..Attr::new(EventType(4711))
    };
    let format = RecordFormat::of(&attr, ByteOrder::Little);
    let body = bytes(&format, &[5, 1234]);
    assert_eq!(decode(RecordType::LOST_SAMPLES, Misc::empty(), &body, &format).time(), Some(1234));
    let attr = Attr { clockid: -1_000_000, ..attr };
    assert_eq!(RecordFormat::of(&attr, ByteOrder::Little), format);
}

#[test]
fn an_event_that_never_ran_is_not_a_division_by_zero() {
    assert_eq!(scale(0, Times { enabled_ns: 1000, running_ns: 0 }), None);
    assert_eq!(scale(u64::MAX, Times { enabled_ns: u64::MAX, running_ns: 1 }), Some(u64::MAX));
}

#[test]
fn a_record_longer_than_its_header_can_tell_is_refused_and_not_wrapped() {
    let chain = vec![0x1000; 8200];
    let mut sample = Sample::default();
    sample.callchain = Some(chain[..].into());
    let mut out = Vec::new();
    let result = Decoded::from(Record::Sample(sample)).encode(&samples(SampleType::CALLCHAIN), &mut out);
    assert_eq!((result, out.len()), (Err(EncodeError::TooLong { size: 8 + 8 + 8200 * 8 }), 0));
}

#[test]
fn a_field_that_the_format_asks_for_is_never_made_up() {
    let format = samples(SampleType::IP | SampleType::ADDR);
    let mut sample = Sample::default();
    sample.ip = Some(1);
    let mut out = Vec::new();
    let result = Decoded::from(Record::Sample(sample)).encode(&format, &mut out);
    assert_eq!((result, out.len()), (Err(EncodeError::Missing("addr")), 0));
}

#[test]
fn a_short_record_says_which_field_is_short_and_where() {
    let format = samples(SampleType::IP | SampleType::TID | SampleType::CALLCHAIN);
    let body = bytes(&format, &[0x400000, pair(1, 2), 1 << 61, 5]);
    let header = Header { kind: RecordType::SAMPLE, misc: Misc::empty(), size: 40 };
    let short = RawRecord { header, body: &body }.decode(&format).unwrap_err();
    assert_eq!((short.what, short.offset, short.available), ("callchain", 32, 8));
    let trailer = RawRecord { header: Header { kind: RecordType::LOST, ..header }, body: &body[..4] };
    let short = trailer.decode(&trailers(SampleType::TIME)).unwrap_err();
    assert_eq!(short.to_string(), "sample_id at byte 8 needs 8 bytes, 4 are left");
}
