//! The parts of the interface that a kernel knows, learnt by asking it (`kernel/asked.rs`), never from its version, since
//! vendors backport.

use perfuse_abi::{Attr, AttrFlags, AuxAction, BranchSampleType, ReadFormat, SampleType};

/// The parts of `perf_event_attr` a kernel accepts. A bit that is set here may still be refused for an
/// event or a user; a bit that is not set is refused always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Support {
    /// The size of the attr it knows; non-zero bytes beyond are `E2BIG`.
    pub attr_size: u32,
    /// Known members of the bit-field.
    pub flags: AttrFlags,
    /// Known sample fields.
    pub sample_type: SampleType,
    /// Known read formats.
    pub read_format: ReadFormat,
    /// Known branch filters.
    pub branch_sample_type: BranchSampleType,
    /// Known AUX actions.
    pub aux_action: AuxAction,
}

impl Support {
    /// Everything this library has a name for.
    pub const EVERYTHING: Support = Support {
        attr_size: Attr::SIZE_VER9,
        flags: AttrFlags::all(),
        sample_type: SampleType::all(),
        read_format: ReadFormat::all(),
        branch_sample_type: BranchSampleType::all(),
        aux_action: AuxAction::all(),
    };
}
