//! The fields of samples (rules H1 to H20); all that is written can be read (sections G, H).

use crate::machine::{Counters, ME, Machine, Reader, attr, decoded, software, with};
use crate::random::Random;
use perfuse_engine::abi::record::{
    BranchEntry, BranchFlags, CallchainContext, CpuMode, DataSrc, Decoded, Misc, Record, RegsAbi, Sample,
    Tid, Weight,
};
use perfuse_engine::abi::{Attr, AttrFlags, BranchSampleType, EventType, ReadFormat, SampleType, Software};
use perfuse_engine::{CpuState, Hit, MapRequest, OpenArguments, PidNamespace, Registers, SampleData, Sysctl};

/// A program that was interrupted in the kernel, with so many callers on both sides.
pub(crate) struct Known {
    user: bool,
    stack: u64,
    abi: RegsAbi,
}

const IN_KERNEL: Known = Known { user: false, stack: 1 << 20, abi: RegsAbi::ABI_64 };

impl CpuState for Known {
    fn is_user(&self) -> bool {
        self.user
    }

    fn ip(&self) -> u64 {
        if self.user { 0x40_0000 } else { 0xffff_8000_0000_0000 }
    }

    fn registers(&self, _which: Registers) -> RegsAbi {
        self.abi
    }

    fn register(&self, which: Registers, number: u32) -> u64 {
        u64::from(number) + if which == Registers::User { 1000 } else { 2000 }
    }

    fn kernel_chain(&self, most: usize, chain: &mut Vec<u64>) {
        chain.extend([self.ip(), 2, 3].into_iter().take(most));
    }

    fn user_chain(&self, _most: usize, chain: &mut Vec<u64>) {
        // More than was asked for: that does no harm.
        chain.extend(0x40_0000..0x40_0200);
    }

    fn user_stack_left(&self) -> u64 {
        self.stack
    }

    fn user_stack(&self, len: usize, bytes: &mut Vec<u8>) {
        bytes.extend((0..len.min(70_000)).map(|at| at as u8));
    }

    fn physical(&self, addr: u64) -> u64 {
        addr + 7
    }

    fn page_size(&self, _addr: u64) -> u64 {
        4096
    }
}

fn asking(sample_type: SampleType) -> Attr {
    let mut attr = software(Software::PAGE_FAULTS);
    attr.set_period(1);
    attr.sample_type = sample_type;
    attr
}

/// The bytes of the sample of one page fault.
fn bytes_of(machine: &mut Machine, attr: &Attr, cpu_state: &dyn CpuState) -> Vec<u8> {
    let fd = machine.open(attr, OpenArguments::default()).unwrap();
    let mut reader = machine.map(fd, 64);
    machine.engine.software(0, machine.now, Software::PAGE_FAULTS, 1, 0x7000, cpu_state);
    let bytes = reader.take();
    let key = machine.key(fd);
    machine.close(fd);
    machine.engine.munmap(key, machine.now);
    bytes
}

fn chain(most: u16, attr: Attr, cpu_state: &dyn CpuState) -> Vec<u64> {
    let attr = Attr { sample_max_stack: most, ..attr };
    let bytes = bytes_of(&mut Machine::new(1), &attr, cpu_state);
    let Record::Sample(sample) = decoded(&bytes, &attr)[0].record else { panic!("no sample") };
    sample.callchain.unwrap().words.iter().collect()
}

const KERNEL: u64 = CallchainContext::KERNEL.0;
const USER: u64 = CallchainContext::USER.0;

/// Rules H10, H11, H12: markers are not counted by the limit, and the user's comes even without room.
#[test]
fn callchains_have_parts_with_markers() {
    let asked = asking(SampleType::CALLCHAIN);
    let ip = IN_KERNEL.ip();
    assert_eq!(chain(1, asked, &IN_KERNEL), [KERNEL, ip, USER]);
    assert_eq!(chain(2, asked, &IN_KERNEL), [KERNEL, ip, 2, USER]);
    assert_eq!(chain(4, asked, &IN_KERNEL), [KERNEL, ip, 2, 3, USER, 0x40_0000]);
    assert_eq!(chain(0, asked, &IN_KERNEL).len(), 127 + 2, "the setting of the system");
    let user = Known { user: true, ..IN_KERNEL };
    assert_eq!(chain(2, asked, &user), [USER, 0x40_0000, 0x40_0001]);
    assert_eq!(chain(2, with(asked, AttrFlags::EXCLUDE_CALLCHAIN_USER), &IN_KERNEL), [KERNEL, ip, 2]);
    assert_eq!(chain(1, with(asked, AttrFlags::EXCLUDE_CALLCHAIN_KERNEL), &IN_KERNEL), [USER, 0x40_0000]);
    let none = AttrFlags::EXCLUDE_CALLCHAIN_KERNEL | AttrFlags::EXCLUDE_CALLCHAIN_USER;
    assert_eq!(chain(9, with(asked, none), &IN_KERNEL), []);
}

/// Rule H13.
#[test]
fn the_number_of_markers_has_a_limit() {
    let asked = asking(SampleType::CALLCHAIN);
    for (limit, expected) in [("0", vec![]), ("1", vec![KERNEL, IN_KERNEL.ip(), 2, 3])] {
        let mut machine = Machine::new(1);
        machine.engine.set_sysctl(Sysctl::PerfEventMaxContextsPerStack, limit).unwrap();
        let bytes = bytes_of(&mut machine, &asked, &IN_KERNEL);
        let Record::Sample(sample) = decoded(&bytes, &asked)[0].record else { panic!("no sample") };
        assert_eq!(sample.callchain.unwrap().words.iter().collect::<Vec<_>>(), expected);
    }
}

/// Rule H15: an event that is no tracepoint has four zero bytes.
#[test]
fn raw_data_is_padded() {
    let asked = asking(SampleType::RAW);
    let bytes = bytes_of(&mut Machine::new(1), &asked, &IN_KERNEL);
    assert_eq!(bytes[8..], [4, 0, 0, 0, 0, 0, 0, 0]);
    let mut machine = Machine::new(1);
    machine.engine.declare_tracepoint(9);
    let asked = Attr { type_: EventType::TRACEPOINT, config: 9, ..asked };
    let fd = machine.open(&asked, OpenArguments::default()).unwrap();
    let mut reader = machine.map(fd, 1);
    for (payload, size) in [(1, 4), (4, 4), (5, 12), (20, 20), (28, 28), (29, 36)] {
        machine.engine.tracepoint(0, machine.now, &Hit::new(9, &vec![1; payload]), &IN_KERNEL);
        let bytes = reader.take();
        assert_eq!(bytes[8..12], u32::to_ne_bytes(size), "{payload}");
        assert_eq!(bytes.len(), 12 + size as usize);
    }
}

/// Rule H17: without registers there are no values.
#[test]
fn registers_come_with_their_kind() {
    let mut asked = asking(SampleType::REGS_USER | SampleType::REGS_INTR);
    (asked.sample_regs_user, asked.sample_regs_intr) = (0b1001, 0b10);
    let bytes = bytes_of(&mut Machine::new(1), &asked, &IN_KERNEL);
    let words: Vec<u64> = words(&bytes[8..]);
    assert_eq!(words, [2, 1000, 1003, 2, 2001]);
    let bytes = bytes_of(&mut Machine::new(1), &asked, &Known { abi: RegsAbi::ABI_NONE, ..IN_KERNEL });
    assert_eq!(bytes[8..], [0; 16]);
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
}

/// Rule H20, with its values.
#[test]
fn a_stack_is_cut_to_fit() {
    let mut asked = asking(SampleType::STACK_USER);
    asked.sample_stack_user = 65_528;
    let bytes = bytes_of(&mut Machine::new(1), &asked, &IN_KERNEL);
    assert_eq!((bytes.len(), words(&bytes[8..16])), (65_528, vec![65_504]));
    assert_eq!(words(&bytes[65_520..]), [65_504]);
    asked.sample_stack_user = 0;
    assert_eq!(bytes_of(&mut Machine::new(1), &asked, &IN_KERNEL)[8..], [0; 8]);
    asked.sample_stack_user = 64;
    let near = Known { stack: 24, ..IN_KERNEL };
    assert_eq!(words(&bytes_of(&mut Machine::new(1), &asked, &near)[8..16]), [24]);
    // Rule G12: the registers come later and are not measured, so that all is too long; it is lost.
    asked.sample_stack_user = 65_528;
    asked.sample_type |= SampleType::REGS_INTR;
    asked.sample_regs_intr = 0xff_0fff;
    assert_eq!(bytes_of(&mut Machine::new(1), &asked, &IN_KERNEL), []);
}

/// Rule H1: fields that nothing tells.
#[test]
fn a_software_event_knows_no_data_source() {
    let asked =
        asking(SampleType::WEIGHT | SampleType::DATA_SRC | SampleType::TRANSACTION | SampleType::CGROUP);
    assert_eq!(words(&bytes_of(&mut Machine::new(1), &asked, &IN_KERNEL)[8..]), [0, 0x1e_0508_0021, 0, 1]);
    assert_eq!(DataSrc::NA.0, 0x1e_0508_0021);
}

/// Rule H1: numbers of tasks are those that the opener sees.
#[test]
fn tasks_have_the_numbers_of_the_openers_namespace() {
    let mut machine = Machine::new(1);
    let asked = with(asking(SampleType::TID), AttrFlags::CONTEXT_SWITCH | AttrFlags::SAMPLE_ID_ALL);
    let inside = PidNamespace(5);
    machine.world.namespace = inside;
    machine.engine.set_seen_from(ME, inside, Tid { pid: 1, tid: 1 });
    let wide = OpenArguments { pid: -1, cpu: 0, ..OpenArguments::default() };
    let fd = machine.open(&asked, wide).unwrap();
    let mut reader = machine.map(fd, 1);
    let hidden = machine.task(200);
    machine.fault(0, 1);
    machine.switch(0, Some(hidden));
    machine.fault(0, 1);
    machine.engine.exit(hidden, None, 0, machine.now);
    machine.engine.reap(hidden, machine.now);
    machine.switch(0, None);
    let bytes = reader.take();
    let samples: Vec<_> = decoded(&bytes, &asked)
        .iter()
        .map(|record| (matches!(record.record, Record::Sample(_)), record.tid().unwrap().pid))
        .collect();
    let dead = u32::MAX;
    assert_eq!(samples, [(true, 1), (false, 1), (false, 0), (true, 0), (false, dead), (false, 0)]);
}

/// Rule H3.
#[test]
fn a_counting_event_makes_no_samples() {
    let mut asked = asking(SampleType::IP);
    asked.sample_period = 0;
    assert_eq!(bytes_of(&mut Machine::new(1), &asked, &IN_KERNEL), []);
}

/// Rules D7, E4, H1: a group's values stand in the samples of its leader.
#[test]
fn a_sample_can_read_the_group() {
    let mut machine = Machine::new(1);
    let mut asked = asking(SampleType::READ);
    asked.read_format = ReadFormat::GROUP | ReadFormat::TOTAL_TIME_ENABLED;
    let leader = machine.open(&asked, OpenArguments::default()).unwrap();
    let mut reader = machine.map(leader, 1);
    machine.join(&software(Software::CONTEXT_SWITCHES), leader).unwrap();
    machine.pass(50);
    machine.fault(0, 1);
    assert_eq!(words(&reader.take()[8..]), [2, 50, 1, 0]);
}

/// Rules H1, H2: fields that hardware tells.
#[test]
fn hardware_tells_more() {
    let mut machine = Machine::new(1);
    machine.engine.register(Box::new(Counters::new(1))).unwrap();
    let mut asked = attr(EventType::RAW, 0);
    asked.set_period(1 << 40);
    asked.sample_type = SampleType::BRANCH_STACK | SampleType::WEIGHT_STRUCT | SampleType::DATA_SRC;
    asked.branch_sample_type = BranchSampleType::ANY | BranchSampleType::USER | BranchSampleType::HW_INDEX;
    let fd = machine.open(&asked, OpenArguments::default()).unwrap();
    let mut reader = machine.map(fd, 1);
    let branches = [BranchEntry { from: 1, to: 2, flags: BranchFlags::default() }];
    let weight = Weight::Struct { var1: 1, var2: 2, var3: 3 };
    let data = SampleData {
        exact_ip: true,
        weight: Some(weight),
        data_src: Some(DataSrc(5)),
        branches: Some((&branches, Some(7))),
        ..SampleData::new(&IN_KERNEL)
    };
    machine.engine.counter_overflowed(machine.world.descriptors[&fd], 0, machine.now, &data);
    let bytes = reader.take();
    let all = decoded(&bytes, &asked);
    let Record::Sample(sample) = all[0].record else { panic!("{all:?}") };
    let stack = sample.branch_stack.unwrap();
    assert_eq!((stack.hw_idx, stack.entries.iter().collect::<Vec<_>>()), (Some(7), branches.to_vec()));
    assert_eq!((sample.weight, sample.data_src), (Some(weight), Some(DataSrc(5))));
    assert_eq!(all[0].misc, Misc::EXACT_IP.with_cpu_mode(CpuMode::KERNEL));
}

/// All fields: the record has the given values, and decodes to itself.
fn check(attr: &Attr, record: &Decoded<'_>, addr: u64) {
    let Record::Sample(sample) = record.record else { panic!("{record:?}") };
    let wants = |bit| attr.sample_type.contains(bit);
    let Sample { ip, tid, time, cpu, period, .. } = sample;
    assert_eq!(ip, wants(SampleType::IP).then_some(IN_KERNEL.ip()));
    assert_eq!(tid, wants(SampleType::TID).then_some(Tid { pid: 100, tid: 100 }));
    assert_eq!(time.is_some(), wants(SampleType::TIME));
    assert_eq!(sample.addr, wants(SampleType::ADDR).then_some(addr));
    assert_eq!(cpu.map(|cpu| cpu.cpu), wants(SampleType::CPU).then_some(0));
    assert_eq!(period, wants(SampleType::PERIOD).then_some(1));
    assert_eq!(sample.phys_addr, wants(SampleType::PHYS_ADDR).then_some(addr + 7));
    assert_eq!(sample.cgroup, wants(SampleType::CGROUP).then_some(1));
    assert_eq!(sample.data_page_size, wants(SampleType::DATA_PAGE_SIZE).then_some(4096));
    assert_eq!(sample.code_page_size, wants(SampleType::CODE_PAGE_SIZE).then_some(4096));
    let registers = |mask: u64, base: u64| -> Vec<u64> {
        (0..64).filter(|bit| mask >> bit & 1 != 0).map(|bit| bit + base).collect()
    };
    let words =
        |regs: Option<perfuse_engine::abi::record::Regs<'_>>| regs.map(|regs| regs.words.iter().collect());
    let user = wants(SampleType::REGS_USER).then(|| registers(attr.sample_regs_user, 1000));
    assert_eq!(words(sample.regs_user), user);
    let interrupted = wants(SampleType::REGS_INTR).then(|| registers(attr.sample_regs_intr, 2000));
    assert_eq!(words(sample.regs_intr), interrupted);
    assert_eq!(sample.callchain.is_some(), wants(SampleType::CALLCHAIN));
    if let Some(chain) = sample.callchain {
        let addresses = chain.words.iter().filter(|&word| word != KERNEL && word != USER).count();
        assert_eq!(addresses, usize::from(attr.sample_max_stack));
    }
    let stack: Option<Vec<u8>> =
        wants(SampleType::STACK_USER).then(|| (0..attr.sample_stack_user).map(|at| at as u8).collect());
    assert_eq!(sample.stack_user.map(|stack| stack.copied().to_vec()), stack);
    assert_eq!(sample.raw.is_some(), wants(SampleType::RAW));
    assert_eq!(sample.read.is_some(), wants(SampleType::READ));
}

/// For random attrs, the record in the ring decodes to the given values, be it written forward or backward, over
/// the edge or not; and encodes to the same bytes again.
#[test]
fn what_is_written_can_be_read() {
    let mut random = Random::new(11);
    let excluded = SampleType::BRANCH_STACK | SampleType::WEIGHT_STRUCT;
    let mut samples = 0;
    for round in 0..400 {
        let mut machine = Machine::new(1);
        let bits = SampleType::from_bits_retain(random.bits(25, 2)) - excluded;
        let mut attr = asking(bits);
        attr.sample_regs_user = random.bits(8, 2) | 1;
        attr.sample_regs_intr = random.bits(8, 2) | 2;
        attr.sample_stack_user = 8 * random.below(20) as u32;
        attr.sample_max_stack = 1 + random.below(60) as u16;
        attr.read_format = ReadFormat::from_bits_retain(random.bits(5, 2));
        let backward = round % 2 == 1;
        if backward {
            attr.flags |= AttrFlags::WRITE_BACKWARD;
        }
        let fd =
            machine.open(&attr, OpenArguments::default()).unwrap_or_else(|errno| panic!("{errno} {attr:?}"));
        let request = MapRequest { writable: !backward, ..MapRequest::ring(1) };
        let key = machine.key(fd);
        let memory = machine.engine.mmap(&mut machine.world, ME, key, machine.now, request).unwrap();
        let mut reader = Reader::of(memory);
        let mut head = 0u64;
        for addr in 0..40 {
            machine.engine.software(0, machine.now, Software::PAGE_FAULTS, 1, addr, &IN_KERNEL);
            let bytes = if backward {
                let len = head.wrapping_sub(reader.head()) as usize;
                head = reader.head();
                reader.newest(len)
            } else {
                reader.take()
            };
            let all = decoded(&bytes, &attr);
            assert_eq!(all.len(), 1);
            check(&attr, &all[0], addr);
            let mut again = Vec::new();
            let format =
                perfuse_engine::abi::record::RecordFormat::of(&attr, perfuse_engine::abi::ByteOrder::NATIVE);
            all[0].encode(&format, &mut again).unwrap();
            assert_eq!(again, bytes);
            samples += 1;
        }
    }
    assert_eq!(samples, 16_000);
}
