//! Copying an attr from a caller's memory and checking it, in the kernel's order (section A).

use crate::engine::Config;
use alloc::vec;
use alloc::vec::Vec;
use perfuse_abi::regs::Arch;
use perfuse_abi::wire::{Layout, Reader};
use perfuse_abi::{Attr, AttrFlags, AuxAction, BranchSampleType, ByteOrder, Errno, SampleType};

/// A caller's memory, from some address on.
pub trait UserMemory {
    /// Reads bytes at an offset: `EFAULT` if some are not there.
    fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), Errno>;

    /// Writes bytes at an offset: `EFAULT` if some cannot be.
    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Errno>;
}

impl UserMemory for Vec<u8> {
    fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), Errno> {
        let end = offset.checked_add(into.len()).ok_or(Errno::EFAULT)?;
        into.copy_from_slice(self.get(offset..end).ok_or(Errno::EFAULT)?);
        Ok(())
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Errno> {
        let end = offset.checked_add(bytes.len()).ok_or(Errno::EFAULT)?;
        self.get_mut(offset..end).ok_or(Errno::EFAULT)?.copy_from_slice(bytes);
        Ok(())
    }
}

/// Highest sizes and bits of Linux 6.18 that there are.
const SAMPLE_BITS: u64 = (1 << 25) - 1;
const READ_BITS: u64 = (1 << 5) - 1;
const BRANCH_BITS: u64 = (1 << 20) - 1;
const FLAG_BITS: u64 = (1 << 38) - 1;
const ACTION_BITS: u32 = 7;
const PRIVILEGES: BranchSampleType =
    BranchSampleType::USER.union(BranchSampleType::KERNEL).union(BranchSampleType::HV);

/// Copies an attr (rules A1 to A7) and checks it (A8 to A21). `kernel_branches`: asked where branches of
/// the kernel are wanted (A11).
pub(crate) fn copy(
    memory: &mut dyn UserMemory,
    config: &Config,
    max_stack: u16,
    kernel_branches: &mut dyn FnMut() -> Result<(), Errno>,
) -> Result<Attr, Errno> {
    let mut word = [0; 4];
    memory.read(Attr::SIZE_FIELD.start, &mut word)?;
    let size = match u32::from_ne_bytes(word) {
        0 => Attr::SIZE_VER0,
        size => size,
    };
    let known = config.attr_size;
    if size < Attr::SIZE_VER0 || size as usize > config.page_bytes {
        // A fault while telling the right size is ignored.
        let _ = memory.write(Attr::SIZE_FIELD.start, &known.to_ne_bytes());
        return Err(Errno::E2BIG);
    }
    if size > known {
        let mut tail = vec![0; (size - known) as usize];
        memory.read(known as usize, &mut tail)?;
        if tail.iter().any(|&byte| byte != 0) {
            let _ = memory.write(Attr::SIZE_FIELD.start, &known.to_ne_bytes());
            return Err(Errno::E2BIG);
        }
    }
    let mut image = [0; Attr::SIZE_VER9 as usize];
    memory.read(0, &mut image[..size.min(known) as usize])?;
    let mut attr = Attr::default();
    attr.layout(&mut Reader::new(&image, ByteOrder::NATIVE)).map_err(|_| Errno::EFAULT)?;
    attr.size = size;
    check(&mut attr, config, max_stack, kernel_branches)?;
    Ok(attr)
}

fn check(
    attr: &mut Attr,
    config: &Config,
    max_stack: u16,
    kernel_branches: &mut dyn FnMut() -> Result<(), Errno>,
) -> Result<(), Errno> {
    let wrong = |is: bool| if is { Err(Errno::EINVAL) } else { Ok(()) };
    let flags = attr.flags;
    let has = |flag| flags.contains(flag);
    let wants = |field| attr.sample_type.contains(field);
    wrong(flags.bits() & !FLAG_BITS != 0 || attr.reserved_2 != 0)?;
    wrong(attr.aux_action.bits() & !ACTION_BITS != 0)?;
    wrong(attr.sample_type.bits() & !SAMPLE_BITS != 0)?;
    wrong(attr.read_format.bits() & !READ_BITS != 0)?;
    if wants(SampleType::BRANCH_STACK) {
        let mut branches = attr.branch_sample_type;
        wrong(branches.bits() & !BRANCH_BITS != 0)?;
        wrong((branches - PRIVILEGES).is_empty())?;
        if !branches.intersects(PRIVILEGES) {
            let each = [
                (AttrFlags::EXCLUDE_KERNEL, BranchSampleType::KERNEL),
                (AttrFlags::EXCLUDE_USER, BranchSampleType::USER),
                (AttrFlags::EXCLUDE_HV, BranchSampleType::HV),
            ];
            each.iter().filter(|(out, _)| !has(*out)).for_each(|(_, level)| branches |= *level);
            attr.branch_sample_type = branches;
        }
        if branches.intersects(BranchSampleType::KERNEL | BranchSampleType::HV) {
            kernel_branches()?;
        }
    }
    let wants = |field| attr.sample_type.contains(field);
    if wants(SampleType::REGS_USER) {
        registers(config, attr.sample_regs_user)?;
    }
    if wants(SampleType::STACK_USER) {
        wrong(attr.sample_stack_user >= u32::from(u16::MAX) || attr.sample_stack_user % 8 != 0)?;
    }
    if attr.sample_max_stack == 0 {
        attr.sample_max_stack = max_stack;
    }
    if wants(SampleType::REGS_INTR) {
        registers(config, attr.sample_regs_intr)?;
    }
    wrong(attr.sample_type.contains(SampleType::WEIGHT | SampleType::WEIGHT_STRUCT))?;
    wrong(has(AttrFlags::INHERIT_THREAD) && !has(AttrFlags::INHERIT))?;
    wrong(has(AttrFlags::REMOVE_ON_EXEC) && has(AttrFlags::ENABLE_ON_EXEC))?;
    wrong(has(AttrFlags::SIGTRAP) && !has(AttrFlags::REMOVE_ON_EXEC))
}

/// Vector registers, which only some PMUs know (rule B16). No other architecture has a mask of them: arm64's
/// bit 32 is its program counter.
pub(crate) fn extended_registers(arch: Arch) -> u64 {
    match arch {
        Arch::X86_64 => !0 << 32,
        _ => 0,
    }
}

fn registers(config: &Config, mask: u64) -> Result<(), Errno> {
    let known = match config.arch {
        // All but the segments and the unused bits (rule A13).
        Arch::X86_64 => 0x00ff_0fff | extended_registers(config.arch),
        arch => arch.general_mask(),
    };
    if mask == 0 || mask & !known != 0 { Err(Errno::EINVAL) } else { Ok(()) }
}

/// Whether the event needs a leader that writes AUX data (rule B32).
pub(crate) fn needs_aux_leader(attr: &Attr) -> bool {
    attr.flags.contains(AttrFlags::AUX_OUTPUT)
        || attr.aux_sample_size != 0
        || attr.aux_action.intersects(AuxAction::PAUSE | AuxAction::RESUME)
}
