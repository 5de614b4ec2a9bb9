//! Asks a kernel what of the interface it knows.

use super::Kernel;
use crate::support::Support;
use perfuse_abi::{
    Attr, AttrFlags, AuxAction, BranchSampleType, ByteOrder, EventType, OpenFlags, ReadFormat, SampleType,
    Software,
};
use perfuse_sys::Errno;

impl Support {
    /// Asks `kernel` by opening events that count nothing, one for each newer part of the interface. Where
    /// it refuses even the plainest of them (a seccomp filter, say), nothing can be learnt and
    /// everything counts as known: the refusal itself is then what people get to see.
    pub fn probe(kernel: &dyn Kernel) -> Support {
        let mut plain = Attr { config: Software::DUMMY.0, ..Attr::new(EventType::SOFTWARE) };
        plain.flags = AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
        let refused = |mut attr: Attr| {
            let answer = kernel.perf_event_open(&mut attr, 0, -1, None, OpenFlags::FD_CLOEXEC);
            match answer {
                Ok(fd) => {
                    kernel.close(fd);
                    false
                }
                // Other errors come after the checks of known bits (rules A8 to A11, B3 on).
                Err(errno) => errno == Errno::EINVAL || errno == Errno::E2BIG,
            }
        };
        let Some(attr_size) = attr_size(kernel) else { return Self::EVERYTHING };

        // An attr with nothing newer than the first ABI tells nothing about the rest, so only what came
        // later is asked for, each together with what it requires.
        let mut flags = AttrFlags::all();
        for (_, flag) in AttrFlags::all().iter_names() {
            let with = flag | plain.flags | required_by(flag);
            if flag.since() > perfuse_abi::Release::v2_6(31) && refused(Attr { flags: with, ..plain }) {
                flags.remove(flag);
            }
        }
        let mut sample_type = SampleType::all();
        for (_, flag) in SampleType::all().iter_names() {
            let mut attr = Attr { sample_type: flag, ..plain };
            // Fields that are checked together with the bit (rules A11 to A16). An older kernel has no
            // room for those of others.
            match flag {
                SampleType::BRANCH_STACK => {
                    attr.branch_sample_type = BranchSampleType::ANY | BranchSampleType::USER;
                }
                SampleType::REGS_USER => attr.sample_regs_user = 1,
                SampleType::REGS_INTR => attr.sample_regs_intr = 1,
                _ => {}
            }
            if flag.since() > perfuse_abi::Release::v2_6(31) && refused(attr) {
                sample_type.remove(flag);
            }
        }
        let mut read_format = ReadFormat::all();
        if refused(Attr { read_format: ReadFormat::LOST, ..plain }) {
            read_format.remove(ReadFormat::LOST);
        }
        let mut branch_sample_type = BranchSampleType::all();
        for (_, flag) in BranchSampleType::all().iter_names() {
            let branches = BranchSampleType::ANY | BranchSampleType::USER | flag;
            let sample_type = SampleType::BRANCH_STACK;
            if refused(Attr { sample_type, branch_sample_type: branches, ..plain }) {
                branch_sample_type.remove(flag);
            }
        }
        // They came together, and only this one is not refused for want of a group leader (rule B32).
        let mut aux_action = AuxAction::all();
        if refused(Attr { aux_action: AuxAction::START_PAUSED, ..plain }) {
            aux_action.remove(AuxAction::START_PAUSED | AuxAction::PAUSE | AuxAction::RESUME);
        }
        Support { attr_size, flags, sample_type, read_format, branch_sample_type, aux_action }
    }
}

/// Other flags without which this one is refused (rules A19 and A21).
fn required_by(flag: AttrFlags) -> AttrFlags {
    match flag {
        AttrFlags::INHERIT_THREAD => AttrFlags::INHERIT,
        AttrFlags::SIGTRAP => AttrFlags::REMOVE_ON_EXEC,
        _ => AttrFlags::empty(),
    }
}

/// The size of the attr `kernel` knows: it tells when given a larger one that is not zero at its end
/// (rule A4). `None` where it does not answer like that.
fn attr_size(kernel: &dyn Kernel) -> Option<u32> {
    let mut attr = [0u8; Attr::SIZE_MAX as usize];
    Attr { size: Attr::SIZE_MAX, ..Attr::default() }.poke(&mut attr, ByteOrder::NATIVE);
    attr[Attr::SIZE_MAX as usize - 1] = 1;
    match kernel.perf_event_open_bytes(&mut attr, 0, -1) {
        Err(Errno::E2BIG) => Some(Attr::peek(&attr, ByteOrder::NATIVE).size),
        Err(_) => None,
        Ok(fd) => {
            kernel.close(fd);
            None
        }
    }
}
