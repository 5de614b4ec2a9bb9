//! The other sources of a callchain beside the one that was sampled: the hardware's call stack, and copies of the stack.

use perfuse_abi::record::{Callchain, CallchainContext, Sample};
use perfuse_abi::regs::Arch;
use perfuse_abi::{Attr, AttrFlags, BranchSampleType, SampleType};

/// The callchain of a sample whose branch stack is the hardware's call stack: that has the program's part.
pub fn callstack<'a>(
    attr: &Attr,
    sample: &'a Sample<'_>,
    chain: &'a Callchain<'_>,
) -> Option<impl Iterator<Item = u64> + 'a> {
    if !attr.branch_sample_type.contains(BranchSampleType::CALL_STACK) {
        return None;
    }
    let stack = sample.branch_stack.as_ref()?;
    let newest = stack.entries.get(0)?;
    let is_user = |word| CallchainContext::of(word) == Some(CallchainContext::USER);
    let user = chain.words.iter().position(is_user)?;
    let froms = stack.entries.iter().map(|branch| branch.from);
    Some(chain.words.iter().take(user + 1).chain([newest.to]).chain(froms))
}

/// Whether the program's part of a callchain has to be found in a copy of its stack.
pub fn is_to_be_unwound(attr: &Attr) -> bool {
    attr.sample_type.contains(SampleType::CALLCHAIN | SampleType::REGS_USER | SampleType::STACK_USER)
        && attr.flags.contains(AttrFlags::EXCLUDE_CALLCHAIN_USER)
}

/// The part that the callchain of a sample lacks for being unwound, as words that go on with it: where the program was,
/// from which unwinding would begin. `machine` is what `uname -m` said where the recording was made.
pub fn rest_of_chain(
    attr: &Attr,
    sample: &Sample<'_>,
    chain: &Callchain<'_>,
    machine: &str,
) -> impl Iterator<Item = u64> + use<> {
    let is_user = |word| CallchainContext::of(word) == Some(CallchainContext::USER);
    let lacking = is_to_be_unwound(attr) && !chain.words.iter().any(is_user);
    let regs = sample.regs_user.as_ref().filter(|_| lacking);
    let arch = Arch::from_machine(machine).or(Arch::NATIVE);
    let place = regs.zip(arch).and_then(|(regs, arch)| regs.get(arch.ip()));
    place.into_iter().flat_map(|place| [CallchainContext::USER.0, place])
}
