//! Taking over the attr (section A).

use crate::machine::{ME, Machine, attr, image, software, with};
use perfuse_engine::abi::{
    Attr, AttrFlags, AuxAction, BranchSampleType, Errno, EventType, ReadFormat, SampleType, Software,
};
use perfuse_engine::{Ioctl, OpenArguments, Sysctl};

fn faults() -> Attr {
    software(Software::PAGE_FAULTS)
}

/// The answer to an attr in memory, and the size that it says afterwards.
fn answer(bytes: Vec<u8>) -> (Result<(), Errno>, u32) {
    let mut machine = Machine::new(1);
    let mut bytes = bytes;
    let opened = machine.open_bytes(ME, &mut bytes, OpenArguments::default());
    let size = bytes.get(4..8).map_or(0, |size| u32::from_ne_bytes(size.try_into().expect("four bytes")));
    (opened.map(|_| ()), size)
}

/// The image of an attr that says another size, in so many bytes.
fn sized(size: u32, len: usize) -> Vec<u8> {
    let mut bytes = image(&faults());
    bytes[4..8].copy_from_slice(&size.to_ne_bytes());
    bytes.resize(len, 0);
    bytes
}

fn refused(change: impl FnOnce(&mut Attr)) -> Option<Errno> {
    let mut attr = faults();
    change(&mut attr);
    Machine::new(1).refusal(&attr)
}

/// Rules A1, A5: memory that is not there.
#[test]
fn memory_that_is_not_there_is_a_fault() {
    assert_eq!(answer(vec![0; 6]).0, Err(Errno::EFAULT));
    assert_eq!(answer(sized(136, 100)).0, Err(Errno::EFAULT));
    assert_eq!(answer(sized(200, 150)).0, Err(Errno::EFAULT));
}

/// Rules A2, A7: no size is that of the first attr, in memory it stays as it was.
#[test]
fn no_size_is_the_first_size() {
    assert_eq!(answer(sized(0, 64)), (Ok(()), 0));
    // The size counts where attrs are compared (rule C51).
    let mut machine = Machine::new(1);
    let mut asked = attr(EventType::BREAKPOINT, 0);
    (asked.bp_type, asked.config1, asked.config2) = (perfuse_engine::abi::Breakpoint::RW, 8, 8);
    let fd = machine.own(&asked);
    let modify = |machine: &mut Machine, size: u32| {
        let mut bytes = image(&asked);
        bytes[4..8].copy_from_slice(&size.to_ne_bytes());
        machine.ioctl(fd, Ioctl::ModifyAttributes(&mut perfuse_engine::AttrMemory(&mut bytes)))
    };
    assert_eq!(modify(&mut machine, 128), Err(Errno::EINVAL));
    assert_eq!(modify(&mut machine, 136), Ok(0));
}

/// Rule A3: sizes that no attr has are told the right one.
#[test]
fn impossible_sizes_are_told_the_right_one() {
    assert_eq!(answer(sized(63, 64)), (Err(Errno::E2BIG), 136));
    assert_eq!(answer(sized(4097, 5000)), (Err(Errno::E2BIG), 136));
}

/// Rule A4: more than is known must be zero, to the last byte.
#[test]
fn what_is_unknown_must_be_zero() {
    assert_eq!(answer(sized(4096, 4096)), (Ok(()), 4096));
    let mut bytes = sized(4096, 4096);
    bytes[4095] = 1;
    assert_eq!(answer(bytes), (Err(Errno::E2BIG), 136));
}

/// Rule A6: missing fields are zero, bytes after the size are not looked at.
#[test]
fn sizes_cut_fields_anywhere() {
    for size in [65, 66, 71, 100, 135] {
        let mut bytes = sized(size, 136);
        bytes[size as usize..].fill(0xff);
        assert_eq!(answer(bytes), (Ok(()), size));
    }
}

/// Rules A8, A9, A10: reserved bits.
#[test]
fn reserved_bits_are_refused() {
    for bit in 38..64 {
        let flag = AttrFlags::from_bits_retain(1 << bit);
        assert_eq!(refused(|attr| attr.flags |= flag), Some(Errno::EINVAL), "flag {bit}");
    }
    assert_eq!(refused(|attr| attr.reserved_2 = 1), Some(Errno::EINVAL));
    let action = AuxAction::from_bits_retain(8);
    assert_eq!(refused(|attr| attr.aux_action = action), Some(Errno::EINVAL));
    for bit in 25..64 {
        let field = SampleType::from_bits_retain(1 << bit);
        assert_eq!(refused(|attr| attr.sample_type = field), Some(Errno::EINVAL), "field {bit}");
    }
    for bit in 5..64 {
        let format = ReadFormat::from_bits_retain(1 << bit);
        assert_eq!(refused(|attr| attr.read_format = format), Some(Errno::EINVAL), "format {bit}");
    }
}

/// Rules A11, A12: branches need a filter besides privilege levels; without them none is looked at.
#[test]
fn branches_need_a_filter() {
    let branches = |bits: u64, sample| {
        refused(|attr| {
            attr.sample_type = sample;
            attr.branch_sample_type = BranchSampleType::from_bits_retain(bits);
        })
    };
    let stack = SampleType::BRANCH_STACK;
    assert_eq!(branches(1 << 20, stack), Some(Errno::EINVAL));
    assert_eq!(branches(7, stack), Some(Errno::EINVAL));
    // Then the PMU is asked, and software has none.
    assert_eq!(branches(8, stack), Some(Errno::EOPNOTSUPP));
    assert_eq!(branches(!0, SampleType::empty()), None);
}

/// Rules A11, A11b: branches of kernel and hypervisor need the permission to look at the kernel.
#[test]
fn branches_of_the_kernel_need_permission() {
    let mut machine = Machine::new(1);
    machine.world.privileged = false;
    let mut asked = with(faults(), AttrFlags::EXCLUDE_KERNEL);
    asked.sample_type = SampleType::BRANCH_STACK;
    asked.branch_sample_type = BranchSampleType::ANY;
    assert_eq!(machine.refusal(&asked), Some(Errno::EACCES));
    let without = with(asked, AttrFlags::EXCLUDE_HV);
    assert_eq!(machine.refusal(&without), Some(Errno::EOPNOTSUPP));
    asked.branch_sample_type = BranchSampleType::ANY | BranchSampleType::USER;
    assert_eq!(machine.refusal(&asked), Some(Errno::EOPNOTSUPP));
}

/// Rules A13, A16: masks of registers.
#[test]
fn registers_must_exist() {
    for field in [SampleType::REGS_USER, SampleType::REGS_INTR] {
        let mask = |mask: u64| {
            refused(|attr| {
                attr.sample_type = field;
                (attr.sample_regs_user, attr.sample_regs_intr) = (mask, mask);
            })
        };
        assert_eq!(mask(0), Some(Errno::EINVAL));
        for bit in (12..16).chain(24..32) {
            assert_eq!(mask(1 << bit), Some(Errno::EINVAL), "register {bit}");
        }
        assert_eq!(mask(0x00ff_0fff), None);
        // Vector registers are known here, and only some PMUs have them (rule B16).
        assert_eq!(mask(1 << 32), Some(Errno::EOPNOTSUPP));
    }
    // Even where they are not asked for.
    assert_eq!(refused(|attr| attr.sample_regs_intr = 1 << 40), Some(Errno::EOPNOTSUPP));
    assert_eq!(refused(|attr| attr.sample_regs_intr = 1 << 12), None);
}

/// Rule A14: sizes of stacks.
#[test]
fn stacks_have_a_size() {
    let stack = |size| {
        refused(|attr| {
            attr.sample_type = SampleType::STACK_USER;
            attr.sample_stack_user = size;
        })
    };
    assert_eq!([0, 8, 65528].map(stack), [None; 3]);
    assert_eq!([7, 65535, 65536].map(stack), [Some(Errno::EINVAL); 3]);
}

/// Rule A15: an attr that leaves the depth of callchains open gets the setting, in 16 bits.
#[test]
fn callchains_are_as_deep_as_the_setting() {
    let mut machine = Machine::new(1);
    machine.sysctl(Sysctl::PerfEventMaxStack, "3");
    let mut asked = faults();
    asked.sample_type = SampleType::CALLCHAIN;
    let fd = machine.own(&asked);
    machine.close(fd);
    // Rule B21: no deeper.
    asked.sample_max_stack = 4;
    assert_eq!(machine.refusal(&asked), Some(Errno::EOVERFLOW));
    asked.sample_type = SampleType::empty();
    assert_eq!(machine.refusal(&asked), None);
}

/// Rules A18, A19, A20, A21: fields that exclude each other.
#[test]
fn some_bits_exclude_each_other() {
    let weights = SampleType::WEIGHT | SampleType::WEIGHT_STRUCT;
    assert_eq!(refused(|attr| attr.sample_type = weights), Some(Errno::EINVAL));
    assert_eq!(refused(|attr| attr.flags |= AttrFlags::INHERIT_THREAD), Some(Errno::EINVAL));
    let both = AttrFlags::REMOVE_ON_EXEC | AttrFlags::ENABLE_ON_EXEC;
    assert_eq!(refused(|attr| attr.flags |= both), Some(Errno::EINVAL));
    assert_eq!(refused(|attr| attr.flags |= AttrFlags::SIGTRAP), Some(Errno::EINVAL));
    let trap = AttrFlags::SIGTRAP | AttrFlags::REMOVE_ON_EXEC;
    assert_eq!(refused(|attr| attr.flags |= trap), None);
    let threads = AttrFlags::INHERIT | AttrFlags::INHERIT_THREAD;
    assert_eq!(refused(|attr| attr.flags |= threads), None);
}
