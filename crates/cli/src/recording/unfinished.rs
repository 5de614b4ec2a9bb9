//! Parts of recordings that nothing here makes use of yet: said in a line each, on standard error.

use crate::term::out::say;
use perfuse_abi::record::{Callchain, CallchainContext, Sample};
use perfuse_abi::regs::Arch;
use perfuse_abi::{Attr, AttrFlags, SampleType};
use perfuse_data::Event;

/// Callers are not found in copies of the stack.
const UNWINDING: &str = "copies of the stack (--call-graph dwarf) are not unwound yet: a callchain ends where the \
                         program was; recorded with -g, programs with frame pointers tell their callers";

/// Lines of sources are not looked up.
pub(crate) const SOURCE_LINES: &str = "source lines are not looked up yet: srcline shows function and offset";

/// Inlined functions are not told apart.
pub(crate) const INLINED: &str =
    "inlined functions are not looked up yet: --inline shows no more than without";

/// Says so if callchains of any of the events would have to be unwound.
pub(crate) fn say_of_chains<'e>(events: impl IntoIterator<Item = &'e Event>) {
    if events.into_iter().any(|event| is_to_be_unwound(&event.attr)) {
        say(UNWINDING);
    }
}

/// Whether the program's part of a callchain has to be found in a copy of its stack.
fn is_to_be_unwound(attr: &Attr) -> bool {
    attr.sample_type.contains(SampleType::CALLCHAIN | SampleType::REGS_USER | SampleType::STACK_USER)
        && attr.flags.contains(AttrFlags::EXCLUDE_CALLCHAIN_USER)
}

/// What the callchain of a sample lacks for being unwound, as words that go on with it: where the program was,
/// from which unwinding would begin. `machine` is what `uname -m` said where the recording was made.
pub(crate) fn rest_of_chain(
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
