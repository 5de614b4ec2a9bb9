//! Random attrs: those that programs ask for, and others.

#![allow(dead_code, reason = "each test file uses a part")]

use crate::image::{AttrBytes, image};
use crate::random::Random;
use perfuse_engine::abi::{
    Attr, AttrFlags, AuxAction, BranchSampleType, Breakpoint, Errno, EventType, ReadFormat, SampleType,
};
use std::ffi::CStr;

/// The type of the PMU of uprobes, in the engine too.
pub(crate) const UPROBE: EventType = EventType(8);

/// Paths of uprobes, and how opening one is answered. They are told apart by where they are, which is one place for
/// all only in a static: each use of a constant may have texts of its own.
pub(crate) static PATHS: [(&CStr, Result<(), Errno>); 5] = [
    (c"/bin/sh", Ok(())),
    (c"/", Err(Errno::EINVAL)),
    (c"/dev/null", Err(Errno::EINVAL)),
    (c"/there/is/none", Err(Errno::ENOENT)),
    (c"", Err(Errno::EINVAL)),
];

/// Tracepoints: one whose data anybody may have, and one whose data not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tracepoints {
    pub(crate) open: u64,
    pub(crate) closed: u64,
}

/// Attrs that programs ask for: most are accepted.
pub(crate) fn ordinary(random: &mut Random) -> Attr {
    let mut attr = Attr::new(random.of(&[
        EventType::SOFTWARE,
        EventType::SOFTWARE,
        EventType::SOFTWARE,
        EventType::BREAKPOINT,
    ]));
    attr.config = random.below(12) as u64;
    if attr.type_ == EventType::BREAKPOINT {
        attr.bp_type = Breakpoint(random.of(&[2, 3]));
        attr.config1 = random.of(&[8, 0x1000, 0x10_0000]);
        attr.config2 = random.of(&[1, 2, 4, 8]);
    }
    if random.one_in(2) {
        attr.sample_period = random.of(&[1, 2, 1000, 99_999]);
    }
    let sampled = [
        SampleType::IP,
        SampleType::TID,
        SampleType::TIME,
        SampleType::CPU,
        SampleType::PERIOD,
        SampleType::CALLCHAIN,
        SampleType::IDENTIFIER,
        SampleType::READ | SampleType::TID,
    ];
    if random.one_in(2) {
        attr.sample_type = random.of(&sampled) | random.of(&sampled);
    }
    attr.read_format = ReadFormat::from_bits_retain(random.bits(5, 2));
    let flags = [
        AttrFlags::DISABLED,
        AttrFlags::INHERIT,
        AttrFlags::EXCLUDE_KERNEL,
        AttrFlags::FREQ,
        AttrFlags::SAMPLE_ID_ALL,
        AttrFlags::MMAP,
        AttrFlags::COMM,
        AttrFlags::TASK,
        AttrFlags::WATERMARK,
        AttrFlags::PINNED,
        AttrFlags::EXCLUSIVE,
        AttrFlags::USE_CLOCKID,
    ];
    attr.flags = flags.iter().filter(|_| random.one_in(6)).fold(AttrFlags::empty(), |all, flag| all | *flag);
    attr.clockid = random.of(&[0, 1, 1, 4, 7]);
    attr.size = Attr::SIZE_VER8;
    attr
}

/// An event of a tracepoint.
pub(crate) fn tracepoint(random: &mut Random, known: Tracepoints) -> Attr {
    let mut attr = ordinary(random);
    attr.type_ = EventType::TRACEPOINT;
    attr.config = random.of(&[known.open, known.open, known.closed, 0, 1 << 32 | known.open, 99_999]);
    (attr.bp_type, attr.config1, attr.config2) = (Breakpoint(0), 0, 0);
    if random.one_in(3) {
        attr.sample_type |= SampleType::RAW;
    }
    attr
}

/// A uprobe.
pub(crate) fn uprobe(random: &mut Random) -> Attr {
    let mut attr = ordinary(random);
    attr.type_ = UPROBE;
    attr.config = random.of(&[0, 0, 0, 1]);
    let (path, _) = PATHS[random.below(PATHS.len())];
    attr.config1 = path.as_ptr() as u64;
    attr.config2 = 0;
    if random.one_in(6) {
        attr.sample_type |= SampleType::BRANCH_STACK;
        attr.branch_sample_type = BranchSampleType::ANY;
    }
    attr
}

/// Anything, of any size.
pub(crate) fn wild(random: &mut Random) -> AttrBytes {
    let mut attr = Attr::new(random.of(&[
        EventType::SOFTWARE,
        EventType::SOFTWARE,
        EventType::SOFTWARE,
        EventType::BREAKPOINT,
        EventType::HARDWARE,
        EventType::RAW,
        EventType::HW_CACHE,
        EventType(6),
        EventType(7),
        EventType(99),
    ]));
    attr.config = match random.below(10) {
        0 => random.next(),
        1 => (random.below(8) as u64) << 32 | random.below(12) as u64,
        _ => random.below(14) as u64,
    };
    if attr.type_ == EventType::BREAKPOINT {
        attr.bp_type = Breakpoint(random.of(&[0, 1, 2, 3, 3, 2, 4, 5, 7, 8]));
        attr.config1 = random.of(&[0, 8, 0x1001, 0x10_0000, 0x7fff_ffff_fff8, !0, 1 << 63, !0 - 7]);
        attr.config2 = random.of(&[0, 1, 2, 3, 4, 8, 8, 16, 24]);
    }
    if random.one_in(2) {
        attr.sample_period = random.of(&[1, 2, 1000, 99_999, 100_000, 100_001, 1 << 63]);
    }
    if random.one_in(2) {
        attr.sample_type = SampleType::from_bits_retain(random.bits(26, 8));
    }
    if random.one_in(2) {
        attr.read_format = ReadFormat::from_bits_retain(random.bits(5, 2) | random.bits(6, 40));
    }
    attr.flags = AttrFlags::from_bits_retain(random.bits(38, 14) | random.bits(42, 200));
    if random.one_in(8) {
        attr.flags |= AttrFlags::SIGTRAP | AttrFlags::REMOVE_ON_EXEC;
    }
    if random.one_in(8) {
        attr.flags |= AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    } else if random.one_in(3) {
        attr.flags |= AttrFlags::EXCLUDE_KERNEL;
    }
    attr.wakeup = random.below(3) as u32;
    if random.one_in(4) {
        attr.branch_sample_type = BranchSampleType::from_bits_retain(random.bits(21, 5));
    }
    if random.one_in(3) {
        attr.sample_regs_user = random.bits(24, 4) | random.bits(40, 60);
    }
    if random.one_in(4) {
        attr.sample_regs_intr = random.bits(24, 4) | random.bits(40, 60);
    }
    if random.one_in(4) {
        attr.sample_stack_user = random.of(&[8, 7, 4096, 65528, 65535, 65536]);
    }
    if random.one_in(4) {
        attr.clockid = random.of(&[0, 1, 2, 4, 7, 11, 12, -1]);
    }
    if random.one_in(6) {
        attr.sample_max_stack = random.of(&[1, 127, 128]);
    }
    if random.one_in(12) {
        attr.aux_sample_size = 8;
    }
    if random.one_in(12) {
        attr.aux_action = AuxAction::from_bits_retain(random.below(9) as u32);
    }
    attr.size = match random.below(8) {
        0 => random.of(&[0, 64, 72, 80, 96, 104, 112, 120, 128, 136, 144, 152]),
        1 => random.of(&[1, 63, 65, 100, 127, 135, 137, 140, 200, 4095, 4096, 4097]),
        _ => Attr::SIZE_VER8,
    };
    let size = attr.size.min(4097) as usize;
    let asked = std::mem::replace(&mut attr.size, size as u32);
    let mut bytes = image(&attr);
    bytes.resize(size.max(4104), 0);
    bytes[4..8].copy_from_slice(&asked.to_ne_bytes());
    if size > 136 && random.one_in(2) {
        bytes[136 + random.below(size.min(4096) - 136)] = 1;
    }
    AttrBytes(bytes)
}

/// A breakpoint on a variable at this address, with samples of a known size.
pub(crate) fn breakpoint(random: &mut Random, variable: u64) -> Attr {
    let mut attr = Attr::new(EventType::BREAKPOINT);
    attr.size = Attr::SIZE_VER8;
    attr.bp_type = Breakpoint(random.of(&[2, 3]));
    attr.config1 = variable;
    attr.config2 = random.of(&[1, 4, 8]);
    attr.sample_period = random.of(&[0, 1, 1, 2, 3, 7, 50]);
    let fields = [
        SampleType::IP,
        SampleType::TID,
        SampleType::TIME,
        SampleType::ADDR,
        SampleType::CPU,
        SampleType::PERIOD,
        SampleType::ID,
        SampleType::READ | SampleType::TID,
        SampleType::WEIGHT,
        SampleType::RAW,
    ];
    attr.sample_type =
        fields.iter().filter(|_| random.one_in(5)).fold(SampleType::empty(), |all, one| all | *one);
    attr.read_format = random.of(&[
        ReadFormat::empty(),
        ReadFormat::GROUP,
        ReadFormat::LOST,
        ReadFormat::GROUP | ReadFormat::LOST,
    ]);
    let flags = [
        AttrFlags::DISABLED,
        AttrFlags::PINNED,
        AttrFlags::EXCLUSIVE,
        AttrFlags::SAMPLE_ID_ALL,
        AttrFlags::WATERMARK,
        AttrFlags::WRITE_BACKWARD,
        AttrFlags::INHERIT,
    ];
    attr.flags =
        flags.iter().filter(|_| random.one_in(7)).fold(AttrFlags::EXCLUDE_KERNEL, |all, flag| all | *flag);
    attr.wakeup = random.of(&[0, 1, 3, 100]);
    attr
}
